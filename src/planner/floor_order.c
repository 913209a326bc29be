/* floor_order.c - the order of first runs: the trace's, or one in which what frees memory comes
 * early.
 *
 * A trace has its updates at the end, when all gradients lie there. An update may run as soon as
 * its gradient is complete and nothing will read the old values of what it writes; then its
 * gradient can go. The recipes that read the old weights end there, too, but what they make has
 * been used: backward has passed. In the same way a weight's gradient is made before the gradient
 * that flows on. Values are the same bit for bit: every op still reads the same versions. Ops that
 * must run once keep their places. */
#include "planner/floor.h"

#include "base/heap.h"

struct order {
    const struct trace *trace;
    uint32_t *ops; /* the result */
    uint32_t count;
    uint8_t *is_done;  /* op -> it is in the result, or a view */
    uint8_t *is_mover; /* op -> it may come earlier than it stands */
    uint8_t *is_read;  /* op -> others than updates read what it makes, or nobody does */
    uint32_t *waits;   /* op -> ops it still waits for */
    uint32_t *first;   /* op -> its first entry in `later` */
    uint32_t *later;   /* movers that wait for an op */
    uint32_t *maker;   /* tensor -> op that made its version; views asked their base */
    uint32_t *ready;   /* movers that wait for nothing, in the order they became so */
    uint32_t ready_count;
};

/* Does it make little of much? Weight gradients do; where they wait for the gradient that flows on,
 * both lie there. */
static bool is_reduction(const struct trace *t, const struct trace_op *op)
{
    uint64_t made = 0, most = 0;
    for (uint32_t k = 0; k < op->output_count; k++)
        made += t->storages[t->tensors[op->output_first + k].storage].bytes;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint64_t bytes = t->storages[t->tensors[t->inputs[op->input_first + i]].storage].bytes;
        most = bytes > most ? bytes : most;
    }
    return made <= most / 16;
}

static bool may_move(const struct order *o, uint32_t index)
{
    const struct trace *t = o->trace;
    const struct trace_op *op = &t->ops[index];
    if (op->is_leaf || op->kind->purity == TRACE_ONCE || op->input_count == 0)
        return false;
    return op->phase == TRACE_UPDATE ||
           (op->phase == TRACE_BACKWARD && op->kind->purity == TRACE_PURE &&
            (!o->is_read[index] || is_reduction(t, op)));
}

/* Who makes something that others than updates read, or nobody. */
static void find_read(struct order *o)
{
    const struct trace *t = o->trace;
    for (uint32_t op = 0; op < t->op_count; op++)
        o->is_read[op] = 1;
    for (uint32_t op = 0; op < t->op_count; op++)
        for (uint32_t i = 0; i < t->ops[op].input_count && t->ops[op].phase == TRACE_UPDATE; i++)
            o->is_read[o->maker[t->inputs[t->ops[op].input_first + i]]] = 0;
    for (uint32_t op = 0; op < t->op_count; op++)
        for (uint32_t i = 0; i < t->ops[op].input_count; i++)
            if (t->ops[op].phase != TRACE_UPDATE && !plan_is_view_op(t, op))
                o->is_read[o->maker[t->inputs[t->ops[op].input_first + i]]] = 1;
}

static void find_makers(struct order *o)
{
    const struct trace *t = o->trace;
    for (uint32_t i = 0; i < t->tensor_count; i++) {
        const struct trace_tensor *tensor = &t->tensors[i];
        const struct trace_op *op = &t->ops[tensor->op];
        o->maker[i] = tensor->op;
        if (tensor->alias == TRACE_VIEW)
            o->maker[i] = o->maker[t->inputs[op->input_first + tensor->alias_input]];
    }
}

/* A mover waits for an op. Pass 0 counts, pass 1 fills the lists. */
static void add_wait(struct order *o, uint32_t op, uint32_t mover, int pass)
{
    if (op == mover || o->trace->ops[op].is_leaf)
        return; /* leaves are fetched when wanted */
    if (pass == 0) {
        o->first[op + 1]++;
        o->waits[mover]++;
    } else {
        o->later[o->first[op]++] = mover;
    }
}

/* A mover waits for who made what it reads, and for everybody who reads what it overwrites:
 * `writer` maps a tensor to the mover that overwrites the version it denotes. */
static void add_waits(struct order *o, const uint32_t *writer, int pass)
{
    const struct trace *t = o->trace;
    for (uint32_t op = 0; op < t->op_count; op++) {
        const struct trace_op *p = &t->ops[op];
        for (uint32_t i = 0; i < p->input_count; i++) {
            uint32_t in = t->inputs[p->input_first + i];
            if (o->is_mover[op])
                add_wait(o, o->maker[in], op, pass);
            if (writer[in] != TRACE_NONE && !plan_is_view_op(t, op))
                add_wait(o, op, writer[in], pass);
        }
    }
}

/* Tensor -> the mover that overwrites the version it denotes. */
static void find_writers(const struct order *o, uint32_t *newest, uint32_t *writer)
{
    const struct trace *t = o->trace;
    for (uint32_t s = 0; s < t->storage_count; s++)
        newest[s] = TRACE_NONE;
    for (uint32_t i = t->tensor_count; i-- > 0;) {
        const struct trace_tensor *tensor = &t->tensors[i];
        writer[i] = newest[tensor->storage];
        if (tensor->alias == TRACE_MUTATE)
            newest[tensor->storage] = o->is_mover[tensor->op] ? tensor->op : TRACE_NONE;
    }
}

static void take(struct order *o, uint32_t op)
{
    const struct trace *t = o->trace;
    const struct trace_op *p = &t->ops[op];
    if (o->is_done[op])
        return;
    for (uint32_t i = 0; i < p->input_count; i++) {
        uint32_t leaf = o->maker[t->inputs[p->input_first + i]];
        if (t->ops[leaf].is_leaf && !o->is_done[leaf]) {
            o->is_done[leaf] = 1;
            o->ops[o->count++] = leaf;
        }
    }
    o->is_done[op] = 1;
    o->ops[o->count++] = op;
    for (uint32_t k = o->first[op]; k < o->first[op + 1]; k++)
        if (--o->waits[o->later[k]] == 0)
            o->ready[o->ready_count++] = o->later[k];
}

static void walk(struct order *o)
{
    const struct trace *t = o->trace;
    uint32_t taken = 0;
    for (uint32_t op = 0; op < t->op_count; op++)
        if (o->is_mover[op] && o->waits[op] == 0)
            o->ready[o->ready_count++] = op;
    for (uint32_t op = 0; op < t->op_count; op++) {
        if (!plan_is_view_op(t, op))
            take(o, op);
        while (taken < o->ready_count)
            take(o, o->ready[taken++]);
    }
}

enum ebb_status planner_floor_order(const struct trace *t, bool is_eager, uint32_t *ops,
                                    uint32_t *count, bool *is_moved, struct ebb_error *err)
{
    size_t n = (size_t)t->op_count + 2, waits = 2 * t->input_count + 1;
    struct order o = {.trace = t, .ops = ops};
    uint32_t *writer = ebb_calloc((size_t)t->tensor_count + 1, 4);
    uint32_t *newest = ebb_calloc((size_t)t->storage_count + 1, 4);
    o.is_done = ebb_calloc(n, 1);
    o.is_mover = ebb_calloc(n, 1);
    o.is_read = ebb_calloc(n, 1);
    o.waits = ebb_calloc(n, 4);
    o.first = ebb_calloc(n, 4);
    o.later = ebb_calloc(waits, 4);
    o.maker = ebb_calloc((size_t)t->tensor_count + 1, 4);
    o.ready = ebb_calloc(n, 4);
    enum ebb_status status = EBB_OK;
    if (!writer || !newest || !o.is_done || !o.is_mover || !o.is_read || !o.waits || !o.first ||
        !o.later || !o.maker || !o.ready) {
        status = ebb_no_memory(err, n * sizeof *o.waits);
        goto out;
    }
    find_makers(&o);
    find_read(&o);
    for (uint32_t op = 0; op < t->op_count; op++)
        o.is_mover[op] = is_eager && !plan_is_view_op(t, op) && may_move(&o, op);
    find_writers(&o, newest, writer);
    add_waits(&o, writer, 0);
    for (uint32_t op = 0; op < t->op_count; op++)
        o.first[op + 1] += o.first[op];
    add_waits(&o, writer, 1);
    for (uint32_t op = t->op_count; op > 0; op--) /* filling moved each begin to its end */
        o.first[op] = o.first[op - 1];
    o.first[0] = 0;
    walk(&o);
    *count = o.count;
    *is_moved = false;
    for (uint32_t i = 1; i < o.count; i++)
        *is_moved |= ops[i] < ops[i - 1];
out:
    ebb_free(writer);
    ebb_free(newest);
    ebb_free(o.is_done);
    ebb_free(o.is_mover);
    ebb_free(o.is_read);
    ebb_free(o.waits);
    ebb_free(o.first);
    ebb_free(o.later);
    ebb_free(o.maker);
    ebb_free(o.ready);
    return status;
}
