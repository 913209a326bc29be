/* synth_nets.c - shapes of known networks: chain, tree, lstm, resnet, unet, transformer.
 *
 * Sizes follow from two numbers, the bytes of a typical activation and of a typical weight
 * (float32); costs from flops and bytes moved on a plain accelerator (trace_maker_cost). What an op
 * saves for its backward pass is what the usual frameworks save: inputs and weights of matmuls and
 * convolutions, outputs of activations. */
#include <stdio.h>

#include "trace/synth.h"

static uint64_t or_default(uint64_t value, uint64_t fallback)
{
    return value > 0 ? value : fallback;
}

static uint64_t bytes_of(const struct trace_maker *m, uint32_t tensor)
{
    return m->status == EBB_OK ? m->tensors[tensor].bytes : 0;
}

static uint64_t root(uint64_t n) /* largest r >= 1 with r * r <= n, or 1 */
{
    uint64_t r = 1;
    while ((r + 1) * (r + 1) <= n)
        r++;
    return r;
}

static uint32_t weight(struct trace_maker *m, uint64_t bytes)
{
    uint32_t w = trace_maker_leaf(m, bytes > 4 ? bytes : 4, true);
    trace_maker_keep(m, w);
    return w;
}

/* What its gradients read of the two inputs of a product, each by an op of its own. */
#define PRODUCT (MAKER_SAVE(0) | MAKER_SAVE(1) | MAKER_SPLIT)

/* y = x W: `depth` multiply-adds per element of y. */
static uint32_t matmul(struct trace_maker *m, uint32_t x, uint32_t w, uint64_t depth,
                       uint64_t bytes)
{
    uint64_t moved = bytes + bytes_of(m, x) + bytes_of(m, w);
    struct trace_maker_size size = {trace_maker_cost(bytes / 4 * depth * 2, moved), bytes, 0};
    return trace_maker_forward(m, (struct trace_maker_kind){"matmul", "matmul_backward", PRODUCT},
                               size, (uint32_t[]){x, w}, 2);
}

/* An elementwise op of one or two inputs; `save` says what its gradient reads. */
static uint32_t pointwise(struct trace_maker *m, const char *kind, const char *backward,
                          unsigned save, uint64_t bytes, uint32_t a, uint32_t b)
{
    struct trace_maker_size size = {trace_maker_cost(0, 3 * bytes), bytes, 0};
    return trace_maker_forward(m, (struct trace_maker_kind){kind, backward, save}, size,
                               (uint32_t[]){a, b}, b == TRACE_NONE ? 1 : 2);
}

static uint32_t add(struct trace_maker *m, uint32_t a, uint32_t b)
{
    return pointwise(m, "add", "add_backward", 0, bytes_of(m, a), a, b);
}

static uint32_t mul(struct trace_maker *m, uint32_t a, uint32_t b)
{
    return pointwise(m, "mul", "mul_backward", MAKER_SAVE(0) | MAKER_SAVE(1), bytes_of(m, a), a, b);
}

/* Activation functions whose gradient needs only their output. */
static uint32_t activate(struct trace_maker *m, const char *kind, const char *backward, uint32_t x,
                         uint64_t bytes)
{
    return pointwise(m, kind, backward, MAKER_SAVE_OUTPUT, bytes, x, TRACE_NONE);
}

static void finish(struct trace_maker *m, uint32_t x)
{
    trace_maker_label(m, "loss");
    uint32_t loss = pointwise(m, "loss", "nll_backward", MAKER_SAVE(0), 4, x, TRACE_NONE);
    trace_maker_backward(m, loss);
}

/* ---- chain ----------------------------------------------------------------------------------- */

void trace_synth_chain(struct trace_maker *m)
{
    const struct trace_synth *o = m->options;
    uint32_t layers = (uint32_t)or_default(o->layers, 32);
    uint64_t bytes = or_default(o->bytes, 1 << 20), cost = or_default(o->cost_ns, 100000);
    trace_maker_label(m, "input");
    uint32_t x = trace_maker_leaf(m, bytes, false);
    for (uint32_t i = 0; i < layers && m->status == EBB_OK; i++) {
        trace_maker_label(m, "layer%u", i);
        uint32_t w = weight(m, trace_maker_vary(m, or_default(o->weight_bytes, 64 << 10)));
        struct trace_maker_size size = {.cost_ns = trace_maker_vary(m, cost)};
        size.bytes = trace_maker_vary(m, bytes);
        x = trace_maker_forward(m, (struct trace_maker_kind){"layer", "layer_backward", PRODUCT},
                                size, (uint32_t[]){x, w}, 2);
    }
    finish(m, x);
}

/* ---- tree and lstm --------------------------------------------------------------------------- */

struct cell {
    uint32_t wx, wf, u, uf; /* weights: input and state to gates, input and state to forget gate */
    uint64_t bytes, width;  /* of one state; elements per row */
};

struct state {
    uint32_t c, h;
};

static struct cell cell_make(struct trace_maker *m)
{
    const struct trace_synth *o = m->options;
    struct cell cell = {.bytes = or_default(o->bytes, 120000)};
    uint64_t square = or_default(o->weight_bytes, 360000); /* one width x width matrix */
    cell.width = root(square / 4);
    trace_maker_label(m, "cell");
    cell.wx = weight(m, 3 * square);
    cell.wf = weight(m, square);
    cell.u = weight(m, 3 * square);
    cell.uf = weight(m, square);
    return cell;
}

/* One step of the cell over up to two child states. */
static struct state cell_step(struct trace_maker *m, const struct cell *cell, uint32_t x,
                              const struct state *children, int count)
{
    uint64_t b = cell->bytes;
    uint32_t iou = matmul(m, x, cell->wx, cell->width, 3 * b);
    if (count > 0) {
        uint32_t h = count > 1 ? add(m, children[0].h, children[1].h) : children[0].h;
        iou = add(m, iou, matmul(m, h, cell->u, cell->width, 3 * b));
    }
    uint32_t i = activate(m, "sigmoid", "sigmoid_backward", iou, b);
    uint32_t out = activate(m, "sigmoid", "sigmoid_backward", iou, b);
    uint32_t u = activate(m, "tanh", "tanh_backward", iou, b);
    uint32_t c = mul(m, i, u);
    if (count > 0) {
        uint32_t fx = matmul(m, x, cell->wf, cell->width, b);
        for (int k = 0; k < count; k++) {
            uint32_t gate = mul(m, fx, matmul(m, children[k].c, cell->uf, cell->width, b));
            uint32_t f = activate(m, "sigmoid", "sigmoid_backward", gate, b);
            c = add(m, c, mul(m, f, children[k].c));
        }
    }
    uint32_t h = mul(m, out, activate(m, "tanh", "tanh_backward", c, b));
    return (struct state){c, h};
}

void trace_synth_lstm(struct trace_maker *m)
{
    uint32_t steps = (uint32_t)or_default(m->options->layers, 64);
    struct cell cell = cell_make(m);
    struct state state = {0, 0};
    for (uint32_t i = 0; i < steps && m->status == EBB_OK; i++) {
        trace_maker_label(m, "step%u", i);
        uint32_t x = trace_maker_leaf(m, cell.bytes, false);
        state = cell_step(m, &cell, x, &state, i > 0);
    }
    finish(m, state.c);
}

/* Post order without recursion: a stack of the finished left siblings, at most one per level. */
void trace_synth_tree(struct trace_maker *m)
{
    uint32_t depth = (uint32_t)or_default(m->options->layers, 6);
    struct cell cell = cell_make(m);
    struct state stack[32];
    uint32_t height[32], used = 0;
    for (uint32_t leaf = 0; leaf < (UINT32_C(1) << depth) && m->status == EBB_OK; leaf++) {
        trace_maker_label(m, "leaf%u", leaf);
        stack[used] = cell_step(m, &cell, trace_maker_leaf(m, cell.bytes, false), NULL, 0);
        height[used++] = 0;
        while (used >= 2 && height[used - 1] == height[used - 2]) {
            trace_maker_label(m, "node%u.%u", height[used - 1] + 1, leaf >> (height[used - 1] + 1));
            uint32_t x = trace_maker_leaf(m, cell.bytes, false);
            stack[used - 2] = cell_step(m, &cell, x, &stack[used - 2], 2);
            height[--used - 1]++;
        }
    }
    finish(m, stack[0].c);
}

/* ---- resnet and unet ------------------------------------------------------------------------- */

/* 3 x 3 convolution to `bytes`; `channels` of the input. */
static uint32_t conv(struct trace_maker *m, uint32_t x, uint64_t channels, uint64_t out_channels,
                     uint64_t bytes)
{
    uint64_t weight_bytes = channels * out_channels * 9 * 4;
    uint32_t w = weight(m, weight_bytes);
    struct trace_maker_size size = {
        trace_maker_cost(bytes / 4 * channels * 18, bytes + bytes_of(m, x)), bytes,
        weight_bytes}; /* transformed weights are workspace */
    return trace_maker_forward(m, (struct trace_maker_kind){"conv", "conv_backward", PRODUCT}, size,
                               (uint32_t[]){x, w}, 2);
}

static uint32_t conv_norm_relu(struct trace_maker *m, uint32_t x, uint64_t channels,
                               uint64_t out_channels, uint64_t bytes, bool has_relu)
{
    uint32_t y = conv(m, x, channels, out_channels, bytes);
    y = pointwise(m, "norm", "norm_backward", MAKER_SAVE(0) | MAKER_SAVE(1), bytes, y,
                  weight(m, out_channels * 8));
    return has_relu ? activate(m, "relu", "relu_backward", y, bytes) : y;
}

void trace_synth_resnet(struct trace_maker *m)
{
    const struct trace_synth *o = m->options;
    uint32_t blocks = (uint32_t)or_default(o->layers, 16);
    uint64_t bytes = or_default(o->bytes, 25 << 20);
    uint64_t channels = root(or_default(o->weight_bytes, 147456) / 36);
    trace_maker_label(m, "input");
    uint32_t x = trace_maker_leaf(m, bytes / 16 + 4, false);
    trace_maker_label(m, "stem");
    x = conv_norm_relu(m, x, 3, channels, bytes, true);
    for (uint32_t i = 0; i < blocks && m->status == EBB_OK; i++) {
        /* four stages of equal length; each halves the bytes and doubles the channels */
        bool is_first = i > 0 && i * 4 / blocks != (i - 1) * 4 / blocks && i * 4 / blocks < 4;
        uint64_t in = channels;
        trace_maker_label(m, "block%u", i);
        uint32_t skip = x;
        if (is_first) {
            channels *= 2;
            bytes = bytes / 2 + 4;
            skip = conv_norm_relu(m, x, in, channels, bytes, false);
        }
        uint32_t y = conv_norm_relu(m, x, in, channels, bytes, true);
        y = conv_norm_relu(m, y, channels, channels, bytes, false);
        x = activate(m, "relu", "relu_backward", add(m, y, skip), bytes);
    }
    finish(m, x);
}

static uint32_t double_conv(struct trace_maker *m, uint32_t x, uint64_t in, uint64_t out,
                            uint64_t bytes)
{
    x = conv_norm_relu(m, x, in, out, bytes, true);
    return conv_norm_relu(m, x, out, out, bytes, true);
}

void trace_synth_unet(struct trace_maker *m)
{
    const struct trace_synth *o = m->options;
    uint32_t levels = (uint32_t)or_default(o->layers, 4);
    uint64_t bytes = or_default(o->bytes, 64 << 20);
    uint64_t channels = root(or_default(o->weight_bytes, 147456) / 36);
    uint32_t skips[24];
    trace_maker_label(m, "input");
    uint32_t x = trace_maker_leaf(m, bytes / 16 + 4, false);
    trace_maker_label(m, "in");
    x = double_conv(m, x, 3, channels, bytes);
    for (uint32_t i = 0; i < levels && m->status == EBB_OK; i++) {
        trace_maker_label(m, "down%u", i);
        skips[i] = x;
        x = pointwise(m, "maxpool", "maxpool_backward", MAKER_SAVE(0) | MAKER_SAVE_OUTPUT,
                      bytes / 4 + 4, x, TRACE_NONE);
        bytes = bytes / 2 + 4;
        x = double_conv(m, x, channels, channels * 2, bytes);
        channels *= 2;
    }
    for (uint32_t i = levels; i-- > 0 && m->status == EBB_OK;) {
        trace_maker_label(m, "up%u", i);
        uint64_t skip_bytes = bytes_of(m, skips[i]);
        x = pointwise(m, "upsample", "upsample_backward", 0, skip_bytes * 2, x, TRACE_NONE);
        x = pointwise(m, "concat", "concat_backward", 0, skip_bytes * 3, skips[i], x);
        x = double_conv(m, x, channels + channels / 2, channels / 2, skip_bytes);
        bytes = skip_bytes;
        channels /= 2;
    }
    trace_maker_label(m, "out");
    finish(m, conv(m, x, channels, 1, bytes / (channels > 0 ? channels : 1) + 4));
}

/* ---- transformer ----------------------------------------------------------------------------- */

struct block {
    uint64_t bytes, width, tokens, sequence, scores; /* scores: bytes of all attention weights */
};

static uint32_t layernorm(struct trace_maker *m, const struct block *b, uint32_t x)
{
    return pointwise(m, "layernorm", "layernorm_backward", MAKER_SAVE(0) | MAKER_SAVE(1), b->bytes,
                     x, weight(m, b->width * 8));
}

static uint32_t attention(struct trace_maker *m, const struct block *b, uint32_t x)
{
    uint64_t square = b->width * b->width * 4;
    uint32_t q = matmul(m, x, weight(m, square), b->width, b->bytes);
    uint32_t k = matmul(m, x, weight(m, square), b->width, b->bytes);
    uint32_t v = matmul(m, x, weight(m, square), b->width, b->bytes);
    uint32_t scores = matmul(m, q, k, 64, b->scores);
    uint32_t p = activate(m, "softmax", "softmax_backward", scores, b->scores);
    uint32_t y = matmul(m, p, v, b->sequence, b->bytes);
    return matmul(m, y, weight(m, square), b->width, b->bytes);
}

void trace_synth_transformer(struct trace_maker *m)
{
    const struct trace_synth *o = m->options;
    uint32_t layers = (uint32_t)or_default(o->layers, 12);
    struct block b = {.bytes = or_default(o->bytes, 24 << 20)};
    b.width = root(or_default(o->weight_bytes, 768 * 768 * 4) / 4);
    b.tokens = b.bytes / 4 / b.width + 1;
    b.sequence = b.tokens < 1024 ? b.tokens : 1024;
    b.scores = b.tokens * b.sequence * (b.width / 64 + 1) * 4;
    trace_maker_label(m, "tokens");
    uint32_t ids = trace_maker_leaf(m, b.tokens * 4, false);
    trace_maker_label(m, "embedding");
    uint32_t embed[] = {ids, weight(m, b.width * 4 * 8192)};
    struct trace_maker_kind lookup = {"embedding", "embedding_backward", MAKER_SAVE(0)};
    struct trace_maker_size size = {trace_maker_cost(0, 2 * b.bytes), b.bytes, 0};
    uint32_t x = trace_maker_forward(m, lookup, size, embed, 2);
    for (uint32_t i = 0; i < layers && m->status == EBB_OK; i++) {
        trace_maker_label(m, "block%u.attention", i);
        x = add(m, x, attention(m, &b, layernorm(m, &b, x)));
        trace_maker_label(m, "block%u.mlp", i);
        uint64_t matrix = b.width * b.width * 16;
        uint32_t y = matmul(m, layernorm(m, &b, x), weight(m, matrix), b.width, 4 * b.bytes);
        y = pointwise(m, "gelu", "gelu_backward", MAKER_SAVE(0), 4 * b.bytes, y, TRACE_NONE);
        x = add(m, x, matmul(m, y, weight(m, matrix), 4 * b.width, b.bytes));
    }
    trace_maker_label(m, "head");
    x = layernorm(m, &b, x);
    finish(m, matmul(m, x, weight(m, b.width * 4 * 8192), b.width, b.tokens * 8192 * 4));
}
