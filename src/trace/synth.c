/* synth.c - the table of shapes. To add one: a function in synth_*.c, a declaration in synth.h, a
 * row here. */
#include "trace/synth.h"

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
        .make = trace_synth_chain,
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
        .make = trace_synth_tree,
        .uses = NET,
    },
    {
        .name = "lstm",
        .help = "LSTM unrolled over --layers time steps",
        .make = trace_synth_lstm,
        .uses = NET,
    },
    {
        .name = "resnet",
        .help = "residual network of --layers blocks in four stages",
        .make = trace_synth_resnet,
        .uses = NET,
    },
    {
        .name = "unet",
        .help = "U-Net with --layers levels and skip connections",
        .make = trace_synth_unet,
        .uses = NET,
    },
    {
        .name = "transformer",
        .help = "decoder-only transformer of --layers blocks; --bytes is one hidden state",
        .make = trace_synth_transformer,
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
