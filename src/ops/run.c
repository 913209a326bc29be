/* run.c - the one door between traces and kernels: a call is decoded here, once for all rows, left at
 * once where no result is wanted, described by its row as when it was recorded, and given to the
 * table of the context. Operands are addresses of a device: nothing here reads them. */
#include "ops/internal.h"

/* Which operand of the op stands at place p of the kernel. */
static uint32_t operand_at(const char *order, uint32_t p)
{
    return !order ? p : order[p] == '-' ? UINT32_MAX : (uint32_t)(order[p] - '0');
}

void ops_types(const struct ops_views *v, struct kernel_args *args)
{
    const char *ins = v->def->ins, *outs = v->def->outs;
    memset(args, 0, sizeof *args);
    args->in_count = ins ? (uint32_t)strlen(ins) : v->in_count;
    args->out_count = outs ? (uint32_t)strlen(outs) : v->out_count;
    for (uint32_t p = 0; p < args->in_count; p++) {
        uint32_t k = operand_at(ins, p);
        if (k < v->in_count)
            args->in_dtype[p] = v->in[k]->dtype;
    }
    for (uint32_t p = 0; p < args->out_count; p++) {
        uint32_t k = operand_at(outs, p);
        if (k < v->out_count)
            args->out_dtype[p] = v->out[k].dtype;
    }
}

static void find_operands(const struct ops_views *v, const struct tensor_call *call,
                          struct kernel_args *args)
{
    ops_types(v, args);
    for (uint32_t p = 0; p < KERNEL_PORTS; p++) {
        uint32_t i = p < args->in_count ? operand_at(v->def->ins, p) : UINT32_MAX;
        uint32_t o = p < args->out_count ? operand_at(v->def->outs, p) : UINT32_MAX;
        args->in[p] = i < v->in_count ? tensor_call_in(call, i) : NULL;
        args->out[p] = o < v->out_count ? tensor_call_out(call, o) : NULL;
    }
}

void ops_describe_count(const struct ops_views *v, void *desc)
{
    struct kernel_count_desc *d = desc;
    d->n = tensor_count(v->in[0]);
}

enum ebb_status ops_move(const struct trace_call *call, enum kernel_family family, const void *desc,
                         uint8_t from, const void *x, uint8_t to, void *y, struct ebb_error *err)
{
    struct kernel_args args = {.in = {x},
                               .out = {y},
                               .in_dtype = {from},
                               .out_dtype = {to},
                               .in_count = 1,
                               .out_count = 1,
                               .op = call->op};
    return kernel_run(call->context, family, desc, &args, err);
}

enum ebb_status ops_run_row(const struct ops_def *def, const struct tensor_call *call,
                            struct ebb_error *err)
{
    union kernel_desc desc;
    struct kernel_args args;
    struct ops_views v = {.def = def,
                          .attr = call->attr,
                          .out = call->out,
                          .in_count = call->input_count,
                          .out_count = call->output_count};
    if (def->run)
        return def->run(call, err);
    if (v.in_count > KERNEL_PORTS || v.out_count > KERNEL_PORTS)
        return ebb_fail(err, EBB_EINTERNAL, "op: %u inputs, %u outputs", v.in_count, v.out_count);
    for (uint32_t k = 0; k < v.in_count; k++)
        v.in[k] = &call->in[k];
    memset(&desc, 0, kernel_desc_bytes(def->family));
    def->describe(&v, &desc);
    find_operands(&v, call, &args);
    args.workspace = call->call->workspace;
    args.op = call->call->op;
    return kernel_run(call->call->context, def->family, &desc, &args, err);
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
