/* cmd_bench.h - between the files of `ebb bench`. */
#ifndef EBB_CLI_CMD_BENCH_H
#define EBB_CLI_CMD_BENCH_H

#include "cli/cli.h"
#include "train/train.h"

int cli_bench_check(int argc, char **argv); /* cmd_bench_check.c: ebb bench check */

/* ---- cmd_bench_log.c: lines of MLPerf on stdout ---- */

struct cli_bench_log {
    const struct train_bench *bench;
    const char *file;
};

/* key ends in _start, _stop or _end: an interval; else a point in time. epoch 0, status NULL: not
 * in the metadata. */
void cli_bench_mark(const struct cli_bench_log *log, const char *key, int64_t epoch,
                    const char *status);
void cli_bench_number(const struct cli_bench_log *log, const char *key, double value,
                      int64_t epoch);
/* Everything the file says of the training, and the machine. */
void cli_bench_parameters(const struct cli_bench_log *log);

#endif
