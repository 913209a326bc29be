/* reorder.c - the order of first runs: the trace's, or one in which what frees memory comes early.
 *
 * A trace has its updates at the end, when all gradients lie there. An update may run as soon as
 * its gradient is complete and nothing will read the old values of what it writes; then its
 * gradient can go. The recipes that read the old weights end there, too, but what they make has
 * been used: backward has passed. In the same way a weight's gradient is made before the gradient
 * that flows on. Values are the same bit for bit: every op still reads the same versions.
 *
 * What may move is a *mover*; it waits for who made what it reads, and for everybody who reads what
 * it overwrites. All others keep their order. */
#include "trace/trace.h"

#include <string.h>

#include "base/heap.h"

struct pair {
    uint32_t op, mover;
};

struct order {
    const struct trace *trace;
    enum trace_order how;
    uint32_t *ops; /* the result */
    uint32_t count;
    uint8_t *is_done;   /* op -> it is in the result, or a view */
    uint8_t *is_mover;  /* op -> it may come earlier than it stands */
    uint8_t *is_read;   /* op -> others than updates read what it makes, or nobody does */
    uint32_t *waits;    /* op -> ops it still waits for */
    uint32_t *first;    /* op -> its first entry in `later` */
    uint32_t *later;    /* movers that wait for an op */
    struct pair *pairs; /* the same as they were found */
    size_t pair_count;
    uint32_t *maker;  /* tensor -> op that made its version; views asked their base */
    uint32_t *writer; /* tensor -> mover that overwrites the version it denotes */
    uint32_t *ready;  /* movers that wait for nothing; those from `taken` on are still to come */
    uint32_t taken, ready_count;
};

bool trace_is_view_op(const struct trace *trace, uint32_t op)
{
    const struct trace_op *o = &trace->ops[op];
    for (uint32_t i = 0; i < o->output_count; i++)
        if (trace_output_of(trace, o, i)->alias != TRACE_VIEW)
            return false;
    return o->output_count > 0;
}

void trace_mark_read(const struct trace *trace, bool *is_read)
{
    for (uint32_t o = 0; o < trace->op_count; o++) {
        const struct trace_op *op = &trace->ops[o];
        for (uint32_t k = 0; k < op->input_count && op->phase != TRACE_UPDATE; k++)
            is_read[trace->tensors[trace->inputs[op->input_first + k]].storage] = true;
    }
}

/* Views do not run; where updates alone move the result is a trace again, so they stay. */
static bool is_left_out(const struct order *o, uint32_t op)
{
    return o->how != TRACE_UPDATES_EARLY && trace_is_view_op(o->trace, op);
}

/* Does it make little of much? Weight gradients do; where they wait for the gradient that flows on,
 * both lie there. */
static bool is_reduction(const struct trace *t, const struct trace_op *op)
{
    uint64_t made = 0, most = 0;
    for (uint32_t k = 0; k < op->output_count; k++)
        made += t->storages[trace_output_of(t, op, k)->storage].bytes;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint64_t bytes = t->storages[t->tensors[t->inputs[op->input_first + i]].storage].bytes;
        most = bytes > most ? bytes : most;
    }
    return made <= most / 16;
}

/* TRACE_EARLY leaves ops that must run once in their places. */
static bool may_move(const struct order *o, uint32_t index)
{
    const struct trace_op *op = &o->trace->ops[index];
    if (o->how == TRACE_AS_RECORDED || op->is_leaf)
        return false;
    if (o->how == TRACE_UPDATES_EARLY)
        return op->phase == TRACE_UPDATE;
    if (op->kind->purity == TRACE_ONCE || op->input_count == 0 || is_left_out(o, index))
        return false;
    return op->phase == TRACE_UPDATE ||
           (op->phase == TRACE_BACKWARD && op->kind->purity == TRACE_PURE &&
            (!o->is_read[index] || is_reduction(o->trace, op)));
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
            if (t->ops[op].phase != TRACE_UPDATE && !is_left_out(o, op))
                o->is_read[o->maker[t->inputs[t->ops[op].input_first + i]]] = 1;
}

static void find_makers(struct order *o)
{
    const struct trace *t = o->trace;
    for (uint32_t i = 0; i < t->tensor_count; i++) {
        const struct trace_tensor *tensor = &t->tensors[i];
        const struct trace_op *op = &t->ops[tensor->op];
        o->maker[i] = tensor->op;
        if (tensor->alias == TRACE_VIEW && o->how != TRACE_UPDATES_EARLY)
            o->maker[i] = o->maker[t->inputs[op->input_first + tensor->alias_input]];
    }
}

/* A mover waits for an op. TRACE_EARLY fetches leaves when they are wanted. */
static void add_wait(struct order *o, uint32_t op, uint32_t mover)
{
    if (op == mover || (o->trace->ops[op].is_leaf && o->how == TRACE_EARLY))
        return;
    o->first[op + 1]++;
    o->waits[mover]++;
    o->pairs[o->pair_count++] = (struct pair){op, mover};
}

static void add_waits(struct order *o)
{
    const struct trace *t = o->trace;
    for (uint32_t op = 0; op < t->op_count; op++) {
        const struct trace_op *p = &t->ops[op];
        for (uint32_t i = 0; i < p->input_count; i++) {
            uint32_t in = t->inputs[p->input_first + i];
            if (o->is_mover[op])
                add_wait(o, o->maker[in], op);
            if (o->writer[in] != TRACE_NONE && !is_left_out(o, op))
                add_wait(o, op, o->writer[in]);
        }
    }
}

static void find_writers(struct order *o, uint32_t *newest)
{
    const struct trace *t = o->trace;
    for (uint32_t s = 0; s < t->storage_count; s++)
        newest[s] = TRACE_NONE;
    for (uint32_t i = t->tensor_count; i-- > 0;) {
        const struct trace_tensor *tensor = &t->tensors[i];
        o->writer[i] = newest[tensor->storage];
        if (tensor->alias == TRACE_MUTATE)
            newest[tensor->storage] = o->is_mover[tensor->op] ? tensor->op : TRACE_NONE;
    }
}

static void list_waits(struct order *o)
{
    uint32_t count = o->trace->op_count;
    add_waits(o);
    for (uint32_t op = 0; op < count; op++)
        o->first[op + 1] += o->first[op];
    for (size_t i = 0; i < o->pair_count; i++)
        o->later[o->first[o->pairs[i].op]++] = o->pairs[i].mover;
    for (uint32_t op = count; op > 0; op--) /* filling moved each begin to its end */
        o->first[op] = o->first[op - 1];
    o->first[0] = 0;
}

/* Movers come in the order they became ready, or (updates alone) in the order of the trace. */
static void make_ready(struct order *o, uint32_t op)
{
    uint32_t at = o->ready_count++;
    while (o->how == TRACE_UPDATES_EARLY && at > o->taken && o->ready[at - 1] > op) {
        o->ready[at] = o->ready[at - 1];
        at--;
    }
    o->ready[at] = op;
}

static void take(struct order *o, uint32_t op)
{
    const struct trace *t = o->trace;
    const struct trace_op *p = &t->ops[op];
    if (o->is_done[op])
        return;
    for (uint32_t i = 0; i < p->input_count && o->how == TRACE_EARLY; i++) {
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
            make_ready(o, o->later[k]);
}

static void walk(struct order *o)
{
    const struct trace *t = o->trace;
    uint32_t begin = 0; /* updates do not stand among the leaves that come first and persist */
    while (o->how == TRACE_UPDATES_EARLY && begin + 1 < t->op_count && t->ops[begin + 1].is_leaf)
        begin++;
    for (uint32_t op = 0; op < t->op_count; op++)
        if (o->is_mover[op] && o->waits[op] == 0)
            make_ready(o, op);
    for (uint32_t op = 0; op < t->op_count; op++) {
        if (!is_left_out(o, op) && !(o->how == TRACE_UPDATES_EARLY && o->is_mover[op]))
            take(o, op);
        while (op >= begin && o->taken < o->ready_count)
            take(o, o->ready[o->taken++]);
    }
}

enum ebb_status trace_reorder(const struct trace *t, enum trace_order how, uint32_t *ops,
                              uint32_t *count, bool *is_moved, struct ebb_error *err)
{
    size_t n = (size_t)t->op_count + 2, tensors = (size_t)t->tensor_count + 1;
    size_t waits = 2 * t->input_count + 1, storages = (size_t)t->storage_count + 1;
    struct order o = {.trace = t, .how = how, .ops = ops};
    size_t zeros = 3 * n; /* two lists of numbers, three of flags */
    size_t numbers = zeros + n + 3 * waits + 2 * tensors + storages;
    uint32_t *block = ebb_alloc(numbers * sizeof *block);
    if (!block)
        return ebb_no_memory(err, numbers * sizeof *block);
    memset(block, 0, zeros * sizeof *block);
    o.waits = block;
    o.first = block + n;
    o.is_done = (uint8_t *)(block + 2 * n);
    o.is_mover = o.is_done + n;
    o.is_read = o.is_mover + n;
    o.ready = block + zeros;
    o.later = o.ready + n;
    o.pairs = (struct pair *)(o.later + waits);
    o.maker = (uint32_t *)(o.pairs + waits);
    o.writer = o.maker + tensors;
    find_makers(&o);
    if (how == TRACE_EARLY)
        find_read(&o);
    for (uint32_t op = 0; op < t->op_count; op++)
        o.is_mover[op] = may_move(&o, op);
    find_writers(&o, o.writer + tensors);
    list_waits(&o);
    walk(&o);
    *count = o.count;
    *is_moved = false;
    for (uint32_t i = 1; i < o.count; i++)
        *is_moved |= ops[i] < ops[i - 1];
    ebb_free(block);
    return EBB_OK;
}
