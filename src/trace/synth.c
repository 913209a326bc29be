/* synth.c - the table of shapes. To add one: a function in synth_*.c, a declaration in synth.h, a
 * row here. */
#include "trace/synth.h"

#include <stdio.h>

static enum ebb_status make_linear(const struct trace_synth *o, struct trace **trace,
                                   struct ebb_error *err)
{
    return trace_make_linear(o->layers > 0 ? o->layers : 80, trace, err);
}

#define NET (TRACE_USES_LAYERS | TRACE_USES_BYTES | TRACE_USES_WEIGHT_BYTES)

const struct trace_shape trace_shapes[] = {
    {
        .name = "chain",
        .help = "training step of a plain chain: weights, forward, backward; weights and gradients "
                "kept",
        .draw = trace_synth_chain,
        .most_layers = 10000000,
        .uses = NET | TRACE_USES_COST | TRACE_USES_SEED | TRACE_USES_SPREAD,
    },
    {
        .name = "linear",
        .help = "the unit chain of the DTR paper: cost 1, size 1, nothing kept",
        .make = make_linear,
        .uses = TRACE_USES_LAYERS,
    },
    {
        .name = "tree",
        .help = "TreeLSTM on a perfect binary tree; --layers is its depth",
        .draw = trace_synth_tree,
        .most_layers = 18,
        .uses = NET,
    },
    {
        .name = "lstm",
        .help = "LSTM unrolled over --layers time steps",
        .draw = trace_synth_lstm,
        .most_layers = 1000000,
        .uses = NET,
    },
    {
        .name = "resnet",
        .help = "residual network of --layers blocks in four stages",
        .draw = trace_synth_resnet,
        .most_layers = 1000000,
        .uses = NET,
    },
    {
        .name = "unet",
        .help = "U-Net with --layers levels and skip connections",
        .draw = trace_synth_unet,
        .most_layers = 12,
        .uses = NET,
    },
    {
        .name = "transformer",
        .help = "decoder-only transformer of --layers blocks; --bytes is one hidden state",
        .draw = trace_synth_transformer,
        .most_layers = 100000,
        .uses = NET,
    },
    {
        .name = "random",
        .help = "random training-like graph of about --ops ops, with the features asked for",
        .make = trace_synth_random,
        .uses = TRACE_USES_BYTES | TRACE_USES_WEIGHT_BYTES | TRACE_USES_COST | TRACE_USES_OPS |
                TRACE_USES_SEED | TRACE_USES_SPREAD | TRACE_USES_FEATURES,
    },
};

const size_t trace_shape_count = sizeof trace_shapes / sizeof *trace_shapes;

/* Bounds keep every product of a drawn shape within 62 bits; trace_check proves the sum. */
enum ebb_status trace_shape_make(const struct trace_shape *shape, const struct trace_synth *o,
                                 struct trace **trace, struct ebb_error *err)
{
    char name[64];
    if (shape->make)
        return shape->make(o, trace, err);
    if (o->layers > shape->most_layers)
        return ebb_fail(err, EBB_EINPUT, "%s: %u layers, at most %u are possible", shape->name,
                        o->layers, shape->most_layers);
    if (o->bytes > UINT64_C(1) << 38 || o->weight_bytes > UINT64_C(1) << 38 ||
        o->cost_ns > UINT64_C(1) << 38 || !(o->spread >= 0 && o->spread <= 1))
        return ebb_fail(err, EBB_EINPUT,
                        "%s: bytes, weight bytes and cost go up to 2^38, spread from 0 to 1",
                        shape->name);
    snprintf(name, sizeof name, o->layers > 0 ? "%s_%u" : "%s", shape->name, o->layers);
    return trace_maker_run(shape->draw, name, o, trace, err);
}
