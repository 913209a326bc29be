/* cmd_experiment.h - the verbs of `ebb experiment`, over several files. Private to cli. */
#ifndef EBB_CLI_CMD_EXPERIMENT_H
#define EBB_CLI_CMD_EXPERIMENT_H

#include "cli/cli.h"
#include "cli/master.h"

/* One row of verbs: what the table of cmd_experiment.c lists. */
int cli_experiment_create(int argc, char **argv);
int cli_experiment_list(int argc, char **argv);
int cli_experiment_describe(int argc, char **argv);
int cli_experiment_trials(int argc, char **argv);
int cli_experiment_checkpoints(int argc, char **argv);
int cli_experiment_config(int argc, char **argv);
int cli_experiment_logs(int argc, char **argv);
int cli_experiment_charts(int argc, char **argv);
int cli_experiment_model_def(int argc, char **argv);
int cli_experiment_change(int argc,
                          char **argv); /* activate pause cancel kill archive unarchive gc */
int cli_experiment_wait(int argc, char **argv);
int cli_experiment_delete(int argc, char **argv);
int cli_experiment_label(int argc, char **argv);
int cli_experiment_set(int argc, char **argv);

/* Shared with `ebb trial`. tail: the last lines only; CLI_TAIL_ALL = all. */
#define CLI_TAIL_ALL INT64_MIN
enum ebb_status cli_logs_print(struct cli_master *m, int64_t trial, int64_t tail, bool follows,
                               bool is_json, struct ebb_error *err);
/* Copy a checkpoint's directory to `target`. */
enum ebb_status cli_checkpoint_copy(const struct ebb_doc_node *checkpoint, const char *target,
                                    struct ebb_error *err);
/* Rows: Trial ID, Step ID, State, Validation Metric, UUID, Resources, Size. With `metric`, its name
 * stands in the header, and there is no size. */
void cli_checkpoints_print(const struct ebb_doc_node *list, const char *metric, bool is_csv);
/* Store, restore, compare, delete where checkpoints go: those of an experiment (> 0), of a file, or
 * by default. The location is appended to `where`. Returns -1, or the exit code after a message. */
int cli_storage_check(struct cli_master *m, int64_t experiment, const char *file,
                      struct ebb_str *where);
/* Ask a yes-or-no question on the terminal; anything but y or yes is no. */
bool cli_confirm(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Metrics of a step or validation: the mapping of numbers inside. */
const struct ebb_doc_node *cli_step_metrics(const struct ebb_doc_node *node);

#endif
