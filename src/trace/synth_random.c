/* synth_random.c - random training-like graphs: the food of property tests.
 *
 * Forward ops read recent tensors, now and then an old one (skip connections) or a new weight.
 * Features, each switchable: views, in-place activation and in-place weight updates, ops with two
 * outputs, workspace, ops that must not run twice. Everything is drawn from the seed. */
#include <stdio.h>

#include "base/rng.h"
#include "trace/synth.h"

#define RECENT 8

struct scene {
    uint32_t recent[RECENT]; /* ring of tensors that may still be read */
    uint32_t count;
    uint64_t bytes, weight_bytes, cost_ns;
};

static uint64_t chance(struct trace_maker *m, uint64_t percent)
{
    return trace_maker_random(m, 100) < percent;
}

static uint32_t pick(struct trace_maker *m, const struct scene *s)
{
    uint32_t have = s->count < RECENT ? s->count : RECENT;
    /* the newest half of the time: long chains with skips */
    uint32_t back = chance(m, 50) ? 0 : (uint32_t)trace_maker_random(m, have);
    return s->recent[(s->count - 1 - back) % RECENT];
}

static void push(struct scene *s, uint32_t tensor)
{
    s->recent[s->count++ % RECENT] = tensor;
}

/* Cost, then bytes: the order of the draws. */
static struct trace_maker_size any_size(struct trace_maker *m, const struct scene *s)
{
    struct trace_maker_size size = {.cost_ns = trace_maker_vary(m, s->cost_ns)};
    size.bytes = trace_maker_vary(m, s->bytes);
    return size;
}

static uint32_t random_op(struct trace_maker *m, const struct scene *s)
{
    static const char *const names[][2] = {{"matmul", "matmul_backward"},
                                           {"conv", "conv_backward"},
                                           {"relu", "relu_backward"},
                                           {"add", "add_backward"}};
    uint32_t inputs[4];
    size_t count = 0;
    uint64_t fan = 1 + trace_maker_random(m, 3);
    for (uint64_t i = 0; i < fan; i++)
        inputs[count++] = pick(m, s);
    if (chance(m, 40)) {
        inputs[count] = trace_maker_leaf(m, trace_maker_vary(m, s->weight_bytes), true);
        trace_maker_keep(m, inputs[count++]);
    }
    uint64_t kind = trace_maker_random(m, 4);
    unsigned save = (unsigned)trace_maker_random(m, 1u << count);
    save |= chance(m, 40) ? MAKER_SAVE_OUTPUT : 0;
    save |= chance(m, 30) ? MAKER_SPLIT : 0;
    struct trace_maker_size size = any_size(m, s);
    if (m->options->has_workspace && chance(m, 25))
        size.workspace_bytes = trace_maker_vary(m, s->bytes);
    return trace_maker_forward(m, (struct trace_maker_kind){names[kind][0], names[kind][1], save},
                               size, inputs, count);
}

/* A value and its indices; the gradient reads the indices, so they are an input of the next op's
 * recording. */
static uint32_t two_outputs(struct trace_maker *m, const struct scene *s)
{
    uint32_t x = pick(m, s);
    struct trace_output outputs[2] = {{.bytes = trace_maker_vary(m, s->bytes)},
                                      {.bytes = trace_maker_vary(m, s->bytes) / 8 + 1}};
    uint32_t first =
        trace_maker_raw(m, &(struct trace_op_desc){.kind_name = "topk",
                                                   .cost_ns = trace_maker_vary(m, s->cost_ns),
                                                   .inputs = &x,
                                                   .input_count = 1,
                                                   .outputs = outputs,
                                                   .output_count = 2,
                                                   .partner = TRACE_NONE});
    struct trace_maker_kind gather = {"gather", "gather_backward", MAKER_SAVE(2)};
    return trace_maker_forward(m, gather,
                               (struct trace_maker_size){s->cost_ns, outputs[0].bytes, 0},
                               (uint32_t[]){x, first, first + 1}, 3);
}

static uint32_t view(struct trace_maker *m, uint32_t x)
{
    return trace_maker_forward(m, (struct trace_maker_kind){"view", "view_backward", MAKER_VIEW},
                               (struct trace_maker_size){.cost_ns = 1}, &x, 1);
}

/* dropout_ on a value nobody else has read or will read: only then no reader of the old version is
 * left. */
static uint32_t in_place(struct trace_maker *m, const struct scene *s)
{
    uint32_t source = pick(m, s);
    struct trace_maker_kind scale = {"scale", "scale_backward", chance(m, 50) ? MAKER_SAVE(0) : 0};
    uint32_t x = trace_maker_forward(m, scale, any_size(m, s), &source, 1);
    struct trace_maker_kind dropout = {"dropout_", "dropout_backward",
                                       MAKER_MUTATE | (chance(m, 50) ? MAKER_SAVE_OUTPUT : 0)};
    return trace_maker_forward(m, dropout, (struct trace_maker_size){.cost_ns = s->cost_ns / 4 + 1},
                               &x, 1);
}

/* Statistics: read an activation, leave a few bytes behind, must not run twice. */
static void statistics(struct trace_maker *m, const struct scene *s)
{
    uint32_t x = pick(m, s);
    uint32_t made =
        trace_maker_forward(m, (struct trace_maker_kind){"statistics", NULL, MAKER_ONCE},
                            (struct trace_maker_size){s->cost_ns / 2 + 1, 64, 0}, &x, 1);
    if (chance(m, 50))
        trace_maker_keep(m, made);
}

static void forward(struct trace_maker *m, struct scene *s)
{
    const struct trace_synth *o = m->options;
    uint64_t what = trace_maker_random(m, 100);
    uint32_t made;
    if (o->has_views && what < 20)
        made = view(m, pick(m, s));
    else if (o->has_mutation && what < 30)
        made = in_place(m, s);
    else if (o->has_multi_output && what < 45)
        made = two_outputs(m, s);
    else
        made = random_op(m, s);
    push(s, made);
    if (o->has_once && chance(m, 10))
        statistics(m, s);
}

/* Weights are written in place by their gradients; the new version is what is kept. */
static void update(struct trace_maker *m, uint32_t leaf_end)
{
    m->phase = TRACE_UPDATE;
    for (uint32_t i = 0; i < leaf_end && m->status == EBB_OK; i++) {
        struct trace_maker_tensor *x = &m->tensors[i];
        bool is_weight =
            x->wants_gradient && x->gradient != TRACE_NONE && m->tensors[x->gradient].is_kept;
        if (!is_weight || !chance(m, 70))
            continue;
        x->is_kept = false;
        uint32_t made = trace_maker_forward(
            m, (struct trace_maker_kind){"sgd_", NULL, MAKER_MUTATE},
            (struct trace_maker_size){.cost_ns = 1000}, (uint32_t[]){i, x->gradient}, 2);
        trace_maker_keep(m, made);
    }
}

static void random_shape(struct trace_maker *m)
{
    const struct trace_synth *o = m->options;
    struct scene s = {
        .bytes = o->bytes > 0 ? o->bytes : 1 << 20,
        .weight_bytes = o->weight_bytes > 0 ? o->weight_bytes : 64 << 10,
        .cost_ns = o->cost_ns > 0 ? o->cost_ns : 100000,
    };
    uint32_t wanted = o->ops > 0 ? o->ops : 200;
    /* What fraction of the ops are forward ops depends on the features; three eighths is about
     * right. */
    uint32_t forward_ops = wanted / 8 * 3 + 1;
    trace_maker_label(m, "input");
    push(&s, trace_maker_leaf(m, s.bytes, false));
    for (uint32_t i = 0; (m->op_count < forward_ops || s.count < RECENT) && m->status == EBB_OK;
         i++) {
        trace_maker_label(m, "op%u", i);
        forward(m, &s);
    }
    trace_maker_label(m, "loss");
    uint32_t loss =
        trace_maker_forward(m, (struct trace_maker_kind){"loss", "nll_backward", MAKER_SAVE(0)},
                            (struct trace_maker_size){s.cost_ns, 4, 0}, s.recent, RECENT);
    uint32_t forward_end = m->tensor_count;
    trace_maker_backward(m, loss);
    if (o->has_mutation)
        update(m, forward_end);
}

enum ebb_status trace_synth_random(const struct trace_synth *o, struct trace **trace,
                                   struct ebb_error *err)
{
    char name[64];
    if (o->ops > 50000000)
        return ebb_fail(err, EBB_EINPUT, "random: %u ops, at most 50000000 are possible", o->ops);
    if (o->bytes > UINT64_C(1) << 34 || o->weight_bytes > UINT64_C(1) << 34 ||
        o->cost_ns > UINT64_C(1) << 34 || !(o->spread >= 0 && o->spread <= 1))
        return ebb_fail(err, EBB_EINPUT,
                        "random: bytes, weight bytes and cost go up to 2^34, spread from 0 to 1");
    uint32_t wanted = o->ops > 0 ? o->ops : 200;
    snprintf(name, sizeof name, "random_%u_s%llu", wanted, (unsigned long long)o->seed);
    /* How many backward ops a forward op brings depends on the features: measured on a small graph.
     */
    struct trace_synth scaled = *o;
    struct trace *sample = NULL;
    scaled.ops = wanted < 2000 ? wanted : 2000;
    EBB_TRY(trace_maker_run(random_shape, name, &scaled, &sample, err));
    scaled.ops = (uint32_t)((uint64_t)wanted * scaled.ops / sample->op_count);
    trace_destroy(sample);
    return trace_maker_run(random_shape, name, &scaled, trace, err);
}
