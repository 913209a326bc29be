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
    {"chain",
     "training step of a plain chain: weights, forward, backward; weights and gradients kept", NULL,
     trace_synth_chain, 10000000, NET | TRACE_USES_COST | TRACE_USES_SEED | TRACE_USES_SPREAD},
    {"linear", "the unit chain of the DTR paper: cost 1, size 1, nothing kept", make_linear, NULL,
     0, TRACE_USES_LAYERS},
    {"tree", "TreeLSTM on a perfect binary tree; --layers is its depth", NULL, trace_synth_tree, 18,
     NET},
    {"lstm", "LSTM unrolled over --layers time steps", NULL, trace_synth_lstm, 1000000, NET},
    {"resnet", "residual network of --layers blocks in four stages", NULL, trace_synth_resnet,
     1000000, NET},
    {"unet", "U-Net with --layers levels and skip connections", NULL, trace_synth_unet, 12, NET},
    {"transformer", "decoder-only transformer of --layers blocks; --bytes is one hidden state",
     NULL, trace_synth_transformer, 100000, NET},
    {"random", "random training-like graph of about --ops ops, with the features asked for",
     trace_synth_random, NULL, 0,
     TRACE_USES_BYTES | TRACE_USES_WEIGHT_BYTES | TRACE_USES_COST | TRACE_USES_OPS |
         TRACE_USES_SEED | TRACE_USES_SPREAD | TRACE_USES_FEATURES},
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
