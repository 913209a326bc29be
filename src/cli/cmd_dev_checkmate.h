/* cmd_dev_checkmate.h - between the files of `ebb dev checkmate`. */
#ifndef EBB_CLI_CMD_DEV_CHECKMATE_H
#define EBB_CLI_CMD_DEV_CHECKMATE_H

#include "base/status.h"
#include "exec/exec.h"
#include "trace/trace.h"

/* Run a graph under the published simulator's rules, thrash limit 2. */
enum ebb_status cli_checkmate_simrd(const struct trace *graph, const char *heuristic,
                                    uint64_t budget, struct exec_report *report,
                                    struct ebb_error *err);

#endif
