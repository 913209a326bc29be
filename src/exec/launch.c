/* launch.c - one op handed to the device, leaves filled, kept results found: the same for policies
 * and plans. */
#include "exec/internal.h"

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
                               .op = op,
                               .context = o->context};
}

/* Whoever runs it, wherever: the message names the op. */
static enum ebb_status named(const struct exec_launch *l, enum ebb_status status,
                             struct ebb_error *err)
{
    if (status == EBB_OK)
        return status;
    const struct trace_op *top = &l->p->trace->ops[l->op];
    const char *label = trace_label(l->p->trace, top);
    return ebb_context(err, status, "op %u (%s%s%s)", l->op, top->kind->name, *label ? " " : "",
                       label);
}

static enum ebb_status run_kernel(void *argument, struct ebb_error *err)
{
    const struct exec_launch *l = argument;
    return named(l, l->call.kind->run(&l->call, err), err);
}

uint64_t exec_leaf_bytes(const struct exec_program *p, uint32_t op)
{
    const struct trace_op *top = &p->trace->ops[op];
    if (!top->is_leaf)
        return 0;
    uint32_t s = trace_output_of(p->trace, top, 0)->storage; /* what is persistent has its bytes */
    return p->recipes->storages[s].base == PLAN_NOWHERE ? p->trace->storages[s].bytes : 0;
}

enum ebb_status exec_fill(const struct exec_launch *l, void *bytes, struct ebb_error *err)
{
    const struct exec_io *io = l->o->io;
    if (!io || !io->fill)
        return EBB_OK;
    return named(l,
                 io->fill(io->context, l->p->trace->ops[l->op].output_first, bytes,
                          exec_leaf_bytes(l->p, l->op), err),
                 err);
}

static enum ebb_status fill_leaf(void *argument, struct ebb_error *err)
{
    const struct exec_launch *l = argument;
    return exec_fill(l, l->call.out[0], err);
}

struct exec_launch exec_launch_make(const struct exec_program *p, const struct exec_options *o,
                                    const struct trace_call *call)
{
    const struct trace_op *top = &p->trace->ops[call->op];
    device_work work = top->kind->run ? run_kernel : NULL;
    if (top->is_leaf)
        work = exec_leaf_bytes(p, call->op) ? fill_leaf : NULL;
    return (struct exec_launch){
        .p = p, .o = o, .op = call->op, .call = *call, .work = work, .cost_ns = top->cost_ns};
}

enum ebb_status exec_launch_op(struct exec_launch *l, struct device *device, struct ebb_error *err)
{
    return device->table->launch(device, l->work, l, l->cost_ns, err);
}

/* A leaf by way of memory that device and host share. */
static enum ebb_status fill_far(const struct exec_launch *l, struct device *device, uint64_t offset,
                                uint64_t bytes, struct ebb_error *err)
{
    const struct device_table *d = device->table;
    void *box = d->host_take(device, bytes);
    if (!box)
        return ebb_no_memory(err, (size_t)bytes);
    enum ebb_status status = exec_fill(l, box, err);
    EBB_THEN(status, d->write(device, DEVICE_COMPUTE, offset, box, bytes, err));
    EBB_THEN(status, d->sync(device, err));
    d->host_give(device, box);
    return status;
}

enum ebb_status exec_launch_now(struct exec_launch *l, struct device *device, uint64_t leaf_offset,
                                struct ebb_error *err)
{
    uint64_t bytes = exec_leaf_bytes(l->p, l->op);
    if (!exec_is_hidden(device))
        return exec_launch_op(l, device, err);
    if (l->p->trace->ops[l->op].is_leaf)
        return bytes ? fill_far(l, device, leaf_offset, bytes, err) : EBB_OK;
    EBB_TRY(exec_launch_op(l, device, err));
    return device->table->sync(device, err);
}

bool exec_is_timed(const struct exec_options *o, const struct device *device)
{
    return o->io && (o->io->timed || o->io->measures) && !device->table->is_clock;
}

void exec_took(const struct exec_program *p, const struct exec_io *io, uint32_t op, uint64_t ns,
               uint64_t *sum)
{
    if (io->timed)
        io->timed(io->context, op, ns);
    if (io->measures && !p->trace->ops[op].is_leaf)
        *sum += ns;
}

uint64_t exec_scratch(const struct exec_program *p, uint32_t storage, uint64_t *bytes)
{
    uint64_t at = *bytes;
    *bytes += p->recipes->storages[storage].bytes;
    return at;
}

bool exec_next_result(const struct exec_program *p, uint32_t *at, uint32_t *tensor)
{
    const struct trace *t = p->trace;
    while (*at > 0 && t->commands[*at - 1].kind != TRACE_RUN) {
        const struct trace_command *c = &t->commands[--*at];
        uint32_t s = c->kind == TRACE_PIN ? t->tensors[c->index].storage : 0;
        if (c->kind != TRACE_PIN || t->ops[t->tensors[t->storages[s].root].op].is_leaf)
            continue;
        *tensor = c->index;
        return true;
    }
    return false;
}
