/* cmd_experiment.h - the verbs of `ebb experiment`, over several files. Private to cli. */
#ifndef EBB_CLI_CMD_EXPERIMENT_H
#define EBB_CLI_CMD_EXPERIMENT_H

#include "cli/submit.h"
#include "cli/verb.h"

struct cli_experiment_options { /* of all verbs; the rows of cmd_experiment.c say whose */
    struct cli_submission submission;
    bool is_all, has_metrics, follows, is_best, is_tried, is_sure;
    int64_t limit, offset, tail;
    int64_t best_count; /* INT64_MAX = all */
    int64_t keep_best, keep_trial_best, keep_latest;
    double interval;
    const char *state, *label, *description, *directory;
    struct cli_list states;
};

/* What the rows of cmd_experiment.c name, by file: _show, _describe, _checkpoints, _change, _create.
 */
enum ebb_status cli_experiment_list(struct cli_call *c, struct ebb_error *err);
void cli_experiment_print_list(const struct cli_call *c, const struct ebb_doc_node *root);
enum ebb_status cli_experiment_trials(struct cli_call *c, struct ebb_error *err);
enum ebb_status cli_experiment_config(struct cli_call *c, struct ebb_error *err);
enum ebb_status cli_experiment_logs(struct cli_call *c, struct ebb_error *err);
enum ebb_status cli_experiment_charts(struct cli_call *c, struct ebb_error *err);
enum ebb_status cli_experiment_model_def(struct cli_call *c, struct ebb_error *err);
enum ebb_status cli_experiment_describe(struct cli_call *c, struct ebb_error *err);
int cli_experiment_check_describe(struct cli_call *c);
enum ebb_status cli_experiment_checkpoints(struct cli_call *c, struct ebb_error *err);
enum ebb_status cli_experiment_change(struct cli_call *c, struct ebb_error *err);
enum ebb_status cli_experiment_wait(struct cli_call *c, struct ebb_error *err);
enum ebb_status cli_experiment_delete(struct cli_call *c, struct ebb_error *err);
enum ebb_status cli_experiment_label(struct cli_call *c, struct ebb_error *err);
int cli_experiment_check_label(struct cli_call *c);
enum ebb_status cli_experiment_set(struct cli_call *c, struct ebb_error *err);
int cli_experiment_check_set(struct cli_call *c);
enum ebb_status cli_experiment_create(struct cli_call *c, struct ebb_error *err);
int cli_experiment_check_create(struct cli_call *c);

/* Shared with `ebb trial`. tail: the last lines only; CLI_TAIL_ALL = all. */
#define CLI_TAIL_ALL INT64_MIN
enum ebb_status cli_logs_print(struct cli_master *m, int64_t trial, int64_t tail, bool follows,
                               bool is_json, struct ebb_error *err);
/* Copy a checkpoint's directory to `target`, fetched by the master where it is elsewhere. */
enum ebb_status cli_checkpoint_copy(struct cli_master *m, const struct ebb_doc_node *checkpoint,
                                    const char *target, struct ebb_error *err);
/* Rows: Trial ID, Step ID, State, Validation Metric, UUID, Resources, Size. With `metric`, its name
 * stands in the header, and there is no size. */
void cli_checkpoints_print(const struct ebb_doc_node *list, const char *metric, bool is_csv);
/* Store, restore, compare, delete where checkpoints go: those of an experiment (> 0), of a file, or
 * by default. The location is appended to `where`. Returns -1, or the exit code after a message. */
int cli_storage_check(struct cli_master *m, int64_t experiment, const char *file,
                      struct ebb_str *where);
/* Ask a yes-or-no question on the terminal; anything but y or yes is no. */
enum ebb_status cli_delete_nothing(struct cli_call *c); /* the answer was no: said, exit code 1 */
bool cli_confirm(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
