/* tables.h - private to planner: what of a trace the host keeps and runs, as tables.c found it. */
#ifndef EBB_PLANNER_TABLES_H
#define EBB_PLANNER_TABLES_H

#include "base/arena.h"
#include "planner/planner.h"

struct planner_tables {
    const struct trace *trace;
    struct trace light; /* shares all but ops and storages */
    struct ebb_arena arena;
    bool *is_below;  /* storage */
    bool *is_table;  /* storage: below, and persistent */
    bool *is_hosted; /* op */
    uint64_t bytes;
};

/* The storage of input k or, behind the inputs, of an output. */
static inline uint32_t planner_tables_touched(const struct trace *t, const struct trace_op *op,
                                              uint32_t k)
{
    return (k < op->input_count ? trace_input_of(t, op, k)
                                : trace_output_of(t, op, k - op->input_count))
        ->storage;
}

#endif
