/* run.c - the one door between traces and kernels: a call is decoded here, once for all rows, and
 * left at once where no result is wanted. */
#include "ops/internal.h"

const void *ops_arg(const struct ops_run *r, uint32_t i)
{
    return i < r->in_count ? tensor_call_in(r->call, i) : NULL;
}

void *ops_result(const struct ops_run *r, uint32_t i)
{
    return i < r->out_count ? tensor_call_out(r->call, i) : NULL;
}

enum ebb_status ops_run_row(const struct ops_def *def, const struct tensor_call *call,
                            struct ebb_error *err)
{
    struct ops_run r = {.def = def,
                        .context = call->call->context,
                        .in = call->in,
                        .out = call->out,
                        .in_count = call->input_count,
                        .out_count = call->output_count,
                        .attr = call->attr,
                        .workspace = call->call->workspace,
                        .err = err,
                        .call = call};
    return def->run(&r);
}

static enum ebb_status run(const struct trace_call *call, size_t offset, struct ebb_error *err)
{
    const struct ops_def *def = (const void *)((const unsigned char *)call->kind - offset);
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    return c.wanted ? ops_run_row(def, &c, err) : EBB_OK;
}

enum ebb_status ops_run(const struct trace_call *call, struct ebb_error *err)
{
    return run(call, offsetof(struct ops_def, kind), err);
}

enum ebb_status ops_run_over(const struct trace_call *call, struct ebb_error *err)
{
    return run(call, offsetof(struct ops_def, over_kind), err);
}
