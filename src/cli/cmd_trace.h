/* cmd_trace.h - what the verbs of `ebb trace` share. */
#ifndef EBB_CLI_CMD_TRACE_H
#define EBB_CLI_CMD_TRACE_H

#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"
#include "trace/trace.h"

extern const struct cli_command cli_cmd_trace, cli_cmd_trace_show, cli_cmd_trace_stat;
extern const char *const cli_trace_phases[]; /* by enum trace_phase */

/* Life of a storage, in ops; TRACE_NONE where there is none. */
struct cli_trace_life {
    uint32_t born;      /* op that made it */
    uint32_t last_read; /* last op that reads it */
    uint32_t freed;     /* op after which its last handle goes; TRACE_NONE: lives on */
    bool is_kept;       /* pinned behind the last op */
};

/* One per storage; owned by the caller (ebb_free). */
enum ebb_status cli_trace_lives(const struct trace *trace, struct cli_trace_life **lives,
                                struct ebb_error *err);

/* Two cells: the op that reads it last, the one after which it goes. */
void cli_trace_cell_life(struct cli_table *table, const struct cli_trace_life *life);
void cli_trace_json_index(struct ebb_json_writer *w, const char *key, uint32_t value);

#endif
