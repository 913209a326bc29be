/* exec_kit.h - a trace of a few ops, built by hand, run under a policy on the null device and judged
 * by the oracle. */
#ifndef EBB_TESTS_EXEC_KIT_H
#define EBB_TESTS_EXEC_KIT_H

#include "exec_oracle.h"
#include "test.h"
#include "trace_kit.h"

#include "base/heap.h"
#include "exec/exec.h"

static struct trace_builder *builder;

static inline void begin(void)
{
    builder = trace_kit_begin();
}

/* An op of `cost` ns that makes one storage; a leaf when it costs nothing. */
static inline uint32_t op(uint64_t cost, uint64_t bytes, const uint32_t *inputs, size_t count)
{
    struct trace_op_desc like = {.kind_name = "op", .cost_ns = cost, .is_leaf = cost == 0};
    return trace_kit_op(builder, like, bytes, inputs, count);
}

static inline struct trace *end(uint32_t kept)
{
    trace_kit_command(builder, TRACE_PIN, kept);
    return trace_kit_end(builder, "kit");
}

static inline struct exec_report run(const struct trace *t, struct exec_options *o,
                                     struct exec_log *log)
{
    struct ebb_error err;
    struct exec_program *program = NULL;
    struct exec_report r;
    char why[ORACLE_WHY] = "";
    exec_log_fini(log);
    o->log = log;
    CHECK_OK(exec_program_create(&program, t, EXEC_EBB, &err), &err);
    CHECK_OK(exec_run(program, o, &r, &err), &err);
    struct oracle_case judged = {.trace = t, .options = o, .report = &r, .is_planned = false};
    if (!oracle_judge(&judged, why))
        fail_msg("%s", why);
    exec_program_destroy(program);
    return r;
}

#endif
