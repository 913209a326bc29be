/* exec_traces.h - traces for tests of exec: the shapes of `ebb trace make`, and graphs nastier than
 * any training step: several outputs of which some are written in place later, in-place ops that
 * write two storages, views of everything, inputs read twice, empty storages, kernels that cannot
 * leave an output out. Everything is drawn from the seed. */
#ifndef EBB_TESTS_EXEC_TRACES_H
#define EBB_TESTS_EXEC_TRACES_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "trace/trace.h"

static inline struct trace *exec_traces_shape(const char *shape, const struct trace_synth *synth)
{
    struct ebb_error err;
    struct trace *trace = NULL;
    for (size_t i = 0; i < trace_shape_count; i++) {
        if (strcmp(trace_shapes[i].name, shape) == 0 &&
            trace_shape_make(&trace_shapes[i], synth, &trace, &err) != EBB_OK) {
            fprintf(stderr, "%s: %s\n", shape, err.message);
            abort();
        }
    }
    return trace;
}

/* A training-like graph of up to 90 ops of the shape `random`, features by the seed. */
static inline struct trace *exec_traces_random(uint64_t seed, bool has_mutation)
{
    uint64_t r = seed * 977 + 5, bits = ebb_splitmix64(&r);
    struct trace_synth synth = {.ops = 12 + (uint32_t)(ebb_splitmix64(&r) % 80),
                                .bytes = 4096,
                                .weight_bytes = 1024,
                                .cost_ns = 1000,
                                .seed = seed,
                                .spread = (double)(bits >> 8 & 3) / 3.0,
                                .has_views = bits & 1,
                                .has_mutation = has_mutation && (bits & 2),
                                .has_multi_output = bits & 4,
                                .has_workspace = bits & 8,
                                .has_once = bits & 16};
    return exec_traces_shape("random", &synth);
}

/* ---- nasty graphs
 * --------------------------------------------------------------------------------- */

#define EXEC_TRACES_MAX 400

struct exec_traces_value {
    uint32_t tensor[4], count; /* tensors of the newest version; at least one */
};

struct exec_traces_nasty {
    uint64_t random;
    struct trace_builder *builder;
    struct exec_traces_value values[EXEC_TRACES_MAX]; /* per storage */
    uint32_t storage_of[4 * EXEC_TRACES_MAX];         /* per tensor */
    bool is_released[4 * EXEC_TRACES_MAX];
    uint32_t storages, tensors, ops;
};

static inline enum ebb_status exec_traces_never(const struct trace_call *call,
                                                struct ebb_error *err)
{
    (void)call;
    return ebb_fail(err, EBB_EINTERNAL, "kernels do not run on the null device");
}

static inline uint32_t exec_traces_draw(struct exec_traces_nasty *n, uint32_t below)
{
    return (uint32_t)(ebb_splitmix64(&n->random) % below);
}

static inline uint64_t exec_traces_bytes(struct exec_traces_nasty *n)
{
    uint32_t what = exec_traces_draw(n, 20);
    return what == 0 ? 0 : what < 4 ? 100 : 256 * (1 + (uint64_t)exec_traces_draw(n, 24));
}

/* Kinds of kernels that must write every output; files' kinds may leave any out. */
static inline const struct trace_kind *exec_traces_strict(enum trace_purity purity)
{
    static const struct trace_kind kinds[] = {
        {.name = "strict", .purity = TRACE_PURE, .run = exec_traces_never},
        {.name = "strict_", .purity = TRACE_MUTATING, .run = exec_traces_never},
        {.name = "strict_once", .purity = TRACE_ONCE, .run = exec_traces_never},
    };
    return &kinds[purity];
}

static inline void exec_traces_note(struct exec_traces_nasty *n, const struct trace_op_desc *desc,
                                    uint32_t first)
{
    for (uint32_t k = 0; k < desc->output_count; k++) {
        const struct trace_output *out = &desc->outputs[k];
        uint32_t s = n->storages;
        if (out->alias != TRACE_FRESH)
            s = n->storage_of[desc->inputs[out->alias_input]];
        else
            n->storages++;
        struct exec_traces_value *v = &n->values[s];
        if (out->alias == TRACE_MUTATE)
            v->count = 0; /* tensors of the old version are stale */
        if (v->count < 4)
            v->tensor[v->count++] = first + k;
        n->storage_of[first + k] = s;
        n->tensors = first + k + 1;
    }
}

static inline void exec_traces_command(struct exec_traces_nasty *n, enum trace_command_kind kind,
                                       uint32_t tensor)
{
    struct ebb_error err;
    if (trace_builder_command(n->builder, kind, tensor, &err) != EBB_OK) {
        fprintf(stderr, "nasty: %s\n", err.message);
        abort();
    }
}

static inline void exec_traces_op(struct exec_traces_nasty *n, bool has_mutation)
{
    struct ebb_error err;
    uint32_t inputs[6], count = 0, first;
    struct trace_output outputs[4];
    struct trace_op_desc desc = {.kind_name = "op", .partner = TRACE_NONE};
    uint32_t what = exec_traces_draw(n, 100), outs = 0, written = UINT32_MAX;
    bool is_leaf = n->storages < 2 || what < 8;
    for (uint32_t want = is_leaf ? 0 : exec_traces_draw(n, 4); want > 0; want--) {
        uint32_t back = exec_traces_draw(n, exec_traces_draw(n, 2) ? 4 : 40);
        uint32_t s = back < n->storages ? n->storages - 1 - back : 0;
        const struct exec_traces_value *v = &n->values[s];
        inputs[count++] = v->tensor[exec_traces_draw(n, v->count)];
    }
    enum trace_purity purity = TRACE_PURE;
    if (has_mutation && count > 0 && what >= 60) { /* writes one storage in place, or two */
        purity = TRACE_MUTATING;
        written = n->storage_of[inputs[0]];
        outputs[outs++] = (struct trace_output){.alias = TRACE_MUTATE, .alias_input = 0};
        if (what >= 92 && count > 1 && n->storage_of[inputs[1]] != written)
            outputs[outs++] = (struct trace_output){.alias = TRACE_MUTATE, .alias_input = 1};
    } else if (count > 0 && what >= 48 && what < 60) {
        outputs[outs++] = (struct trace_output){.alias = TRACE_VIEW, .alias_input = 0};
    } else if (!is_leaf && what < 14) {
        purity = TRACE_ONCE;
    }
    uint32_t fresh = is_leaf ? 1 : exec_traces_draw(n, 3);
    fresh += outs == 0 && fresh == 0;
    for (uint32_t k = 0; k < fresh; k++)
        outputs[outs++] = (struct trace_output){.bytes = exec_traces_bytes(n)};
    if (!is_leaf && exec_traces_draw(n, 3) == 0)
        desc.kind = exec_traces_strict(purity);
    desc.purity = purity;
    desc.is_leaf = is_leaf;
    desc.cost_ns = is_leaf ? 0 : exec_traces_draw(n, 12) ? 10 + exec_traces_draw(n, 1000) : 0;
    if (!is_leaf && exec_traces_draw(n, 5) == 0)
        desc.workspace_bytes = exec_traces_bytes(n);
    desc.inputs = inputs;
    desc.input_count = count;
    desc.outputs = outputs;
    desc.output_count = outs;
    if (trace_builder_op(n->builder, &desc, &first, &err) != EBB_OK) {
        fprintf(stderr, "nasty: %s\n", err.message);
        abort();
    }
    exec_traces_note(n, &desc, first);
    n->ops++;
    if (is_leaf) /* as logs do */
        exec_traces_command(n, TRACE_PIN, first);
    for (uint32_t k = exec_traces_draw(n, 3); k > 0;
         k--) { /* what is read later may lose its handle */
        uint32_t tensor = exec_traces_draw(n, n->tensors);
        if (!n->is_released[tensor])
            exec_traces_command(n, TRACE_RELEASE, tensor);
        n->is_released[tensor] = true;
    }
    if (exec_traces_draw(n, 10) == 0 && !n->is_released[first]) { /* a second handle for a while */
        exec_traces_command(n, TRACE_GET, first);
        exec_traces_command(n, TRACE_RELEASE, first);
    }
}

static inline struct trace *exec_traces_nasty(uint64_t seed, bool has_mutation)
{
    static struct exec_traces_nasty n; /* large; tests have one thread */
    struct ebb_error err;
    struct trace *trace = NULL;
    char name[32];
    memset(&n, 0, sizeof n);
    n.random = seed;
    if (trace_builder_create(&n.builder, &err) != EBB_OK)
        abort();
    uint32_t ops = 4 + exec_traces_draw(&n, 70);
    while (n.ops < ops)
        exec_traces_op(&n, has_mutation);
    for (uint32_t s = 0; s < n.storages; s++) { /* the keep set */
        const struct exec_traces_value *v = &n.values[s];
        if (exec_traces_draw(&n, 6) == 0)
            exec_traces_command(&n, TRACE_PIN, v->tensor[v->count - 1]);
    }
    snprintf(name, sizeof name, "nasty_%llu", (unsigned long long)seed);
    if (trace_builder_finish(n.builder, name, &trace, &err) != EBB_OK) {
        fprintf(stderr, "%s: %s\n", name, err.message);
        abort();
    }
    trace_builder_destroy(n.builder);
    return trace;
}

#endif
