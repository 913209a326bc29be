/* stats.c - what an unlimited machine needs for a trace: the denominators of ratios and overheads.
 *
 * Plain reference counting per storage, leaves included: a storage dies the moment its last handle
 * goes. The workspace of an op (0 in logs) is live while the op runs. */
#include <string.h>

#include "base/heap.h"
#include "trace/trace.h"

struct counter {
    const struct trace *t;
    struct trace_stats *s;
    uint32_t *handles; /* per storage */
    uint32_t *seen;    /* per storage: 1 + op that counted it in its working set */
    uint64_t live_bytes;
};

static void take(struct counter *c, uint32_t storage)
{
    if (c->handles[storage]++ == 0)
        c->live_bytes += c->t->storages[storage].bytes;
}

static void drop(struct counter *c, uint32_t storage)
{
    if (--c->handles[storage] == 0)
        c->live_bytes -= c->t->storages[storage].bytes;
}

static uint64_t once(struct counter *c, uint32_t storage, uint32_t op)
{
    if (c->seen[storage] == op + 1)
        return 0;
    c->seen[storage] = op + 1;
    return c->t->storages[storage].bytes;
}

/* Inputs count once per use, so the sum may pass 64 bits where the storages' own sum does not. */
static uint64_t add_capped(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void count_op(struct counter *c, uint32_t o)
{
    const struct trace *t = c->t;
    struct trace_stats *s = c->s;
    const struct trace_op *op = &t->ops[o];
    uint64_t bottleneck = 0, working = op->workspace_bytes;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const struct trace_tensor *x = &t->tensors[t->inputs[op->input_first + i]];
        /* The published figure counts what the parent's output added: nothing for a view, each use
         * anew. */
        if (x->alias != TRACE_VIEW)
            bottleneck = add_capped(bottleneck, t->storages[x->storage].bytes);
        working += once(c, x->storage, o);
    }
    for (uint32_t i = 0; i < op->output_count; i++) {
        const struct trace_tensor *x = trace_output_of(t, op, i);
        if (x->alias == TRACE_FRESH)
            bottleneck = add_capped(bottleneck, t->storages[x->storage].bytes);
        s->view_count += x->alias == TRACE_VIEW;
        working += once(c, x->storage, o);
        take(c, x->storage);
        if (op->is_leaf)
            s->leaf_bytes += t->storages[x->storage].bytes;
    }
    s->base_ns += op->cost_ns;
    s->leaf_count += op->is_leaf != 0;
    s->forward_count += op->phase == TRACE_FORWARD;
    s->backward_count += op->phase == TRACE_BACKWARD;
    if (bottleneck > s->bottleneck_bytes)
        s->bottleneck_bytes = bottleneck;
    if (working > s->working_bytes) {
        s->working_bytes = working;
        s->working_op = o;
    }
    if (c->live_bytes + op->workspace_bytes > s->baseline_bytes)
        s->baseline_bytes = c->live_bytes + op->workspace_bytes;
}

static void count_command(struct counter *c, const struct trace_command *cmd)
{
    switch ((enum trace_command_kind)cmd->kind) {
    case TRACE_RUN:
        count_op(c, cmd->index);
        break;
    case TRACE_GET:
        c->s->get_count++;
        take(c, c->t->tensors[cmd->index].storage);
        break;
    case TRACE_RELEASE:
        c->s->release_count++;
        drop(c, c->t->tensors[cmd->index].storage);
        break;
    case TRACE_PIN:
        c->s->pin_count++;
        break;
    }
}

/* Storages pinned behind the last RUN, each once. */
static void count_keep(struct counter *c)
{
    const struct trace *t = c->t;
    memset(c->seen, 0, t->storage_count * sizeof *c->seen);
    for (uint32_t i = t->command_count; i > 0 && t->commands[i - 1].kind != TRACE_RUN; i--)
        if (t->commands[i - 1].kind == TRACE_PIN)
            c->s->keep_bytes += once(c, t->tensors[t->commands[i - 1].index].storage, 0);
}

enum ebb_status trace_stats_compute(const struct trace *trace, struct trace_stats *stats,
                                    struct ebb_error *err)
{
    struct trace_stats s = {.working_op = TRACE_NONE};
    struct counter c = {.t = trace, .s = &s};
    size_t n = (size_t)trace->storage_count + 1;
    uint32_t *block;
    EBB_TRY(ebb_new(&block, 2 * n, sizeof *block, err));
    c.handles = block;
    c.seen = block + n;
    for (uint32_t i = 0; i < trace->command_count; i++)
        count_command(&c, &trace->commands[i]);
    count_keep(&c);
    for (uint32_t i = 0; i < trace->storage_count; i++)
        s.total_bytes += trace->storages[i].bytes;
    *stats = s;
    ebb_free(block);
    return EBB_OK;
}
