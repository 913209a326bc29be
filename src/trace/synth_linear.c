/* synth.c - the unit chain of the DTR paper. */
#include "trace/trace.h"

#include <stdio.h>

static enum ebb_status unit_op(struct trace_builder *b, const char *kind, const uint32_t *inputs,
                               size_t input_count, enum trace_phase phase, uint32_t *tensor,
                               struct ebb_error *err)
{
    const struct trace_output output = {.bytes = 1, .alias = TRACE_FRESH};
    const struct trace_op_desc desc = {
        .kind_name = kind,
        .cost_ns = 1,
        .inputs = inputs,
        .input_count = input_count,
        .outputs = &output,
        .output_count = 1,
        .partner = TRACE_NONE,
        .phase = phase,
    };
    return trace_builder_op(b, &desc, tensor, err);
}

/* f_i has tensor id i; b_k comes after them, so ids need no table. */
static enum ebb_status linear_fill(struct trace_builder *b, uint32_t n, struct ebb_error *err)
{
    uint32_t made = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = i - 1;
        EBB_TRY(unit_op(b, "f", &before, i > 0, TRACE_FORWARD, &made, err));
    }
    EBB_TRY(trace_builder_command(b, TRACE_RELEASE, n - 1, err));
    trace_builder_mark_backward(b);
    EBB_TRY(unit_op(b, "b", NULL, 0, TRACE_BACKWARD, &made, err));
    for (uint32_t k = n - 1; k-- > 0;) {
        uint32_t gradient = made;
        uint32_t inputs[2] = {k - 1, gradient};
        EBB_TRY(trace_builder_command(b, TRACE_RELEASE, k, err));
        EBB_TRY(unit_op(b, "b", k > 0 ? inputs : inputs + 1, k > 0 ? 2 : 1, TRACE_BACKWARD, &made,
                        err));
        EBB_TRY(trace_builder_command(b, TRACE_RELEASE, gradient, err));
    }
    return EBB_OK;
}

enum ebb_status trace_make_linear(uint32_t n, struct trace **trace, struct ebb_error *err)
{
    if (n == 0 || n > TRACE_MAX_INDEX / 2)
        return ebb_fail(err, EBB_EINPUT, "linear chain of %u layers: 1 to %u are possible", n,
                        (unsigned)(TRACE_MAX_INDEX / 2));
    struct trace_builder *b = NULL;
    EBB_TRY(trace_builder_create(&b, err));
    enum ebb_status status = linear_fill(b, n, err);
    if (status == EBB_OK) {
        char name[32];
        snprintf(name, sizeof name, "linear_%u", n);
        status = trace_builder_finish(b, name, trace, err);
    }
    trace_builder_destroy(b);
    return status;
}
