/* cmd_explain.h - private to the command `ebb explain`: what was found out about a step, in words, as
 * JSON and in pictures. */
#ifndef EBB_CLI_CMD_EXPLAIN_H
#define EBB_CLI_CMD_EXPLAIN_H

#include <pthread.h>

#include "cli/cli.h"
#include "cli/train_file.h"

#define EXPLAIN_NO_POLICY "default" /* what training does without one */
enum { EXPLAIN_BUDGETS = 12, EXPLAIN_POLICIES = 9 };

struct explain_settings {
    struct cli_train_changes changes;
    struct cli_list policies, budgets;
    const char *output;
    int64_t layers;
    double seconds; /* 0: as long as it takes */
    bool is_json, is_quick, no_chart;
};

struct explain_view {
    const struct explain_settings *o;
    const char *path;
    bool is_trace;               /* of a trace file: model, batch and optimizer are not known */
    struct cli_train_file *file; /* of a trace: its arena, and the memory that was asked for */
    struct train_trial *trial;
    struct train_explained e;
    struct train_state st;
    uint64_t floor_bytes;
    uint64_t budgets[EXPLAIN_BUDGETS];
    size_t budget_count;
    const char *policies[EXPLAIN_POLICIES]; /* the first is what training does without one */
    size_t policy_count;
    struct train_prediction cells[EXPLAIN_POLICIES][EXPLAIN_BUDGETS];
    bool is_done[EXPLAIN_POLICIES][EXPLAIN_BUDGETS]; /* of cells: there was time for it */
    struct train_managed managed; /* in the first budget asked for; count 0: none was */
    /* where the time is limited predictions are made by a thread */
    uint64_t start_ns;
    pthread_mutex_t mutex; /* of cells, is_done and what follows */
    bool is_over, is_swept;
    enum ebb_status status;
    struct ebb_error err;
    bool is_left; /* it still computes: this and the trial must stay until the program ends */
};

static inline bool explain_has_tiers(const struct explain_view *v)
{
    return v->file->config.host_bytes || v->file->config.file_bytes;
}

void cli_explain_text(const struct explain_view *v);
void cli_explain_json(const struct explain_view *v);
/* To the file asked for, or the first panel to the terminal. */
enum ebb_status cli_explain_draw(const struct explain_view *v, struct ebb_error *err);

#endif
