/* launch.c - one op handed to the device, and kept results handed to the caller: the same for
 * policies and plans. */
#include "exec/internal.h"

struct launch {
    const struct trace_kind *kind;
    const struct trace_call *call;
    const struct exec_io *io;
    uint32_t tensor;
    uint64_t bytes;
};

static enum ebb_status run_kernel(void *argument, struct ebb_error *err)
{
    const struct launch *l = argument;
    return l->kind->run(l->call, err);
}

static enum ebb_status fill_leaf(void *argument, struct ebb_error *err)
{
    const struct launch *l = argument;
    return l->io->fill(l->io->context, l->tensor, l->call->out[0], l->bytes, err);
}

enum ebb_status exec_launch_op(const struct exec_program *p, const struct exec_options *o,
                               struct device *device, uint32_t op, const struct trace_call *call,
                               struct ebb_error *err)
{
    const struct trace *t = p->trace;
    const struct trace_op *top = &t->ops[op];
    struct launch l = {.kind = top->kind, .call = call, .io = o->io, .tensor = top->output_first};
    device_work work = top->kind->run ? run_kernel : NULL;
    if (top->is_leaf) { /* what is persistent has its bytes already */
        uint32_t s = t->tensors[top->output_first].storage;
        l.bytes = t->storages[s].bytes;
        work = o->io && o->io->fill && p->recipes->storages[s].base == PLAN_NOWHERE && l.bytes
                   ? fill_leaf
                   : NULL;
    }
    enum ebb_status status = device->table->launch(device, work, &l, top->cost_ns, err);
    if (status == EBB_OK)
        return status;
    const char *label = trace_label(t, top);
    return ebb_context(err, status, "op %u (%s%s%s)", op, top->kind->name, *label ? " " : "",
                       label);
}

struct trace_call exec_call(const struct exec_program *p, const struct exec_options *o, uint32_t op,
                            void **pointers, void *workspace)
{
    const struct trace_op *top = &p->trace->ops[op];
    return (struct trace_call){.kind = top->kind,
                               .in = (const void *const *)pointers,
                               .out = pointers + top->input_count,
                               .workspace = workspace,
                               .attr = p->trace->attrs + top->attr_first,
                               .attr_bytes = top->attr_bytes,
                               .context = o->context};
}

uint64_t exec_scratch(const struct exec_program *p, uint32_t storage, uint64_t *bytes)
{
    uint64_t at = *bytes;
    *bytes += p->recipes->storages[storage].bytes;
    return at;
}

enum ebb_status exec_hand_over(const struct exec_program *p, const struct exec_options *o,
                               void *(*address)(void *context, uint32_t storage), void *context,
                               struct ebb_error *err)
{
    const struct trace *t = p->trace;
    if (!o->io || !o->io->read)
        return EBB_OK;
    for (uint32_t c = t->command_count; c-- > 0 && t->commands[c].kind != TRACE_RUN;) {
        uint32_t tensor = t->commands[c].index;
        if (t->commands[c].kind != TRACE_PIN)
            continue;
        uint32_t s = t->tensors[tensor].storage;
        const void *bytes =
            t->ops[t->tensors[t->storages[s].root].op].is_leaf ? NULL : address(context, s);
        if (bytes)
            EBB_TRY(o->io->read(o->io->context, tensor, bytes, t->storages[s].bytes, err));
    }
    return EBB_OK;
}
