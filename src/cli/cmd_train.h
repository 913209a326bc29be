/* cmd_train.h - private to `ebb train`: a run of it (cmd_train.c), what it reports and writes on the way
 * (cmd_train_say.c). */
#ifndef EBB_CLI_CMD_TRAIN_H
#define EBB_CLI_CMD_TRAIN_H

#include <stdio.h>

#include "base/progress.h"
#include "base/str.h"
#include "cli/train_file.h"

struct cli_train_settings {
    struct cli_train_changes changes;
    const char *resume, *checkpoint, *init_weights, *export_weights, *save_trace, *csv, *profile,
        *tensorboard;
    int64_t updates, checkpoint_every, validate_every, workers, patience;
    struct cli_list rename, transpose, fresh;
    bool is_json, any_threads, no_validation, res_check;
};

struct cli_train_session { /* one run of the command */
    const struct cli_train_settings *o;
    const char *path;
    struct cli_train_file *file;
    struct train_times *times; /* NULL: nothing is measured */
    struct train_trial *trial;
    struct ebb_str store; /* folder of checkpoints */
    int64_t target;       /* updates */
    double loss;          /* mean over the batches of the last update */
    struct train_metrics metrics;
    bool has_warned, is_resumed, has_no_best; /* has_no_best: told that there is none */
    struct exp_early_stopping early;          /* of --patience, or of the file */
    bool is_over;                             /* patience is at its end */
    int lock;                                 /* of the folder of checkpoints; -1: not taken */
    bool made_store, made_csv;                /* by this run: gone again when it does not begin */
    FILE *csv;
    struct train_events *events;
    struct ebb_progress *progress;
    const char *status;
    uint64_t next_reserve; /* memory.reserve: auto: what the next start allows; 0: as this one */
};

/* The last line: its keys are relied on by other tools. */
void cli_train_json(const struct cli_train_session *s, const struct train_state *st,
                    const char *hash);
void cli_train_summary(const struct cli_train_session *s, const struct train_state *st,
                       const char *hash);
void cli_train_progress(struct cli_train_session *s, const struct train_batch *b, int64_t items);

/* Losses and metrics in files (--csv, --tensorboard). */
enum ebb_status cli_train_open_records(struct cli_train_session *s, struct ebb_error *err);
enum ebb_status cli_train_record(struct cli_train_session *s, const char *name, double value,
                                 struct ebb_error *err);
/* A checkpoint never knows more than these files. */
enum ebb_status cli_train_flush_records(struct cli_train_session *s, struct ebb_error *err);
enum ebb_status cli_train_close_records(struct cli_train_session *s, struct ebb_error *err);

#endif
