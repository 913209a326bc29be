/* transformer.c - torch's own transformer layers: a word language model, and encoder-decoder. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/internal.h"

struct transformer {
    int64_t vocabulary, length, target_length, width, hidden, heads, encoder_layers, decoder_layers;
    double dropout;
    bool is_words;
};

tensor_id nn_heads(struct nn_builder *b, tensor_id x, int64_t heads)
{
    int64_t dims[4] = {nn_dim(b, x, 0), nn_dim(b, x, 1), heads, nn_dim(b, x, 2) / heads};
    return nn_permute(b, nn_reshape(b, x, 4, dims), 4, (int64_t[]){0, 2, 1, 3});
}

tensor_id nn_merge(struct nn_builder *b, tensor_id x)
{
    int64_t dims[3] = {nn_dim(b, x, 0), nn_dim(b, x, 2), nn_dim(b, x, 1) * nn_dim(b, x, 3)};
    return nn_reshape(b, nn_permute(b, x, 4, (int64_t[]){0, 2, 1, 3}), 3, dims);
}

void nn_unpack(struct nn_builder *b, tensor_id x, int64_t parts, int64_t heads, tensor_id *out)
{
    int64_t n = nn_dim(b, x, 0), t = nn_dim(b, x, 1), d = nn_dim(b, x, 2) / (parts * heads);
    tensor_id pieces[TENSOR_PORTS] = {TENSOR_NONE};
    x = nn_reshape(b, x, 5, (int64_t[]){n, t, parts, heads, d});
    x = nn_permute(b, x, 5, (int64_t[]){2, 0, 3, 1, 4});
    x = nn_contiguous(b, x);
    struct ops_value values[] = {{"sizes", .ints = (int64_t[]){1, 1, 1}, .count = (int)parts},
                                 {"dim", .integer = 0}};
    nn_call(b, "split", 1, &x, pieces, 2, values);
    for (int64_t k = 0; k < parts; k++)
        out[k] = nn_reshape(b, pieces[k], 4, (int64_t[]){n, heads, t, d});
}

/* ---- initial values -------------------------------------------------------------------------- */

/* The stream of `rng: torch`. Layers of a stack are copies of the first, which alone draws; then
 * nn.Transformer draws every matrix again (Xavier), in each layer. The attention's constructor
 * draws its output projection first. All this is declared here, so that layers only look it up. */
struct stack {
    const char *name;
    int64_t layers;
    bool is_decoder;
};

static void declare(struct nn_builder *b, const char *name, enum nn_role role, int64_t out,
                    int64_t in, struct nn_init init, const char *first)
{
    int64_t dims[2] = {out, in};
    if (first && !(init.is_redrawn && init.kind != NN_CONSTANT)) {
        char full[256];
        snprintf(full, sizeof full, "%s%s", first, name);
        const struct nn_item *item = nn_item_find(b, full);
        init.copy_of = item ? (uint32_t)(item - nn_item_at(b, 0)) + 1 : 0;
    } else if (first) {
        init.constructor = NN_CONSTANT;
    }
    nn_parameter(b, name, role, in ? 2 : 1, dims, init);
}

static void declare_linear(struct nn_builder *b, const struct transformer *m, const char *name,
                           int64_t out, int64_t in, bool is_zero, const char *first)
{
    struct nn_init weight = nn_init_default(in), bias = nn_init_default(in);
    char text[64];
    if (!m->is_words)
        weight = nn_init_again(nn_init_xavier(in, out), NN_UNIFORM);
    if (is_zero) /* the attention's own: drawn, then zeroed */
        bias = nn_init_again(nn_init_constant(0), NN_UNIFORM);
    snprintf(text, sizeof text, "%s.weight", name);
    declare(b, text, NN_WEIGHT, out, in, weight, first);
    snprintf(text, sizeof text, "%s.bias", name);
    declare(b, text, NN_BIAS, out, 0, bias, first);
}

static void declare_attention(struct nn_builder *b, const struct transformer *m, const char *name,
                              const char *first)
{
    int64_t c = m->width;
    struct nn_init init = nn_init_xavier(c, 3 * c);
    char below[256];
    snprintf(below, sizeof below, "%s%s.", first ? first : "", name);
    init.is_redrawn = !m->is_words;
    init.constructor = NN_UNIFORM;
    nn_push(b, "%s", name);
    if (m->is_words)
        declare_linear(b, m, "out_proj", c, c, true, first ? below : NULL);
    declare(b, "in_proj_weight", NN_WEIGHT, 3 * c, c, init, first ? below : NULL);
    declare(b, "in_proj_bias", NN_BIAS, 3 * c, 0, nn_init_constant(0), NULL);
    if (!m->is_words)
        declare_linear(b, m, "out_proj", c, c, true, first ? below : NULL);
    nn_pop(b);
}

static void declare_stack(struct nn_builder *b, const struct transformer *m, const struct stack *s)
{
    char zero[64];
    snprintf(zero, sizeof zero, "%s.layers.0.", s->name);
    for (int64_t i = 0; i < s->layers; i++) {
        const char *first = i ? zero : NULL;
        nn_push(b, "%s.layers.%" PRId64, s->name, i);
        declare_attention(b, m, "self_attn", first);
        if (s->is_decoder)
            declare_attention(b, m, "multihead_attn", first);
        declare_linear(b, m, "linear1", m->hidden, m->width, false, first);
        declare_linear(b, m, "linear2", m->width, m->hidden, false, first);
        for (int k = 1; k <= (s->is_decoder ? 3 : 2); k++) {
            nn_push(b, "norm%d", k);
            nn_parameter(b, "weight", NN_NORM, 1, &m->width, nn_init_constant(1));
            nn_parameter(b, "bias", NN_NORM, 1, &m->width, nn_init_constant(0));
            nn_pop(b);
        }
        nn_pop(b);
    }
}

/* ---- layers ---------------------------------------------------------------------------------- */

static tensor_id project(struct nn_builder *b, tensor_id x, tensor_id w, tensor_id bias)
{
    return nn_op(b, "linear", 3, (tensor_id[]){x, w, bias}, NULL, NULL);
}

void nn_projections(struct nn_builder *b, int64_t width, int64_t heads, const tensor_id from[2],
                    tensor_id w, tensor_id bias, tensor_id *out)
{
    tensor_id ws[TENSOR_PORTS] = {TENSOR_NONE}, biases[TENSOR_PORTS] = {TENSOR_NONE};
    int64_t sizes[2] = {width, 2 * width};
    struct ops_value values[] = {{"sizes", .ints = sizes, .count = 2}, {"dim", .integer = 0}};
    if (from[0].v == from[1].v) {
        nn_unpack(b, project(b, from[0], w, bias), 3, heads, out);
        return;
    }
    w = nn_low(b, w); /* cast once, not piece by piece */
    nn_call(b, "split", 1, &w, ws, 2, values);
    nn_call(b, "split", 1, &bias, biases, 2, values);
    out[0] = nn_heads(b, project(b, from[0], ws[0], biases[0]), heads);
    nn_unpack(b, project(b, from[1], ws[1], biases[1]), 2, heads, out + 1);
}

static tensor_id attention(struct nn_builder *b, const struct transformer *m, const char *name,
                           tensor_id x, tensor_id memory, bool is_causal)
{
    int64_t c = m->width, dims[2] = {3 * c, c};
    nn_push(b, "%s", name);
    tensor_id w = nn_parameter(b, "in_proj_weight", NN_WEIGHT, 2, dims, nn_init_constant(0));
    tensor_id bias = nn_parameter(b, "in_proj_bias", NN_BIAS, 1, dims, nn_init_constant(0));
    tensor_id part[3] = {TENSOR_NONE, TENSOR_NONE, TENSOR_NONE};
    nn_projections(b, m->width, m->heads, (tensor_id[]){x, memory}, w, bias, part);
    tensor_id y = nn_attention(b, part[0], part[1], part[2], TENSOR_NONE, is_causal, m->dropout);
    y = nn_linear(b, "out_proj", nn_merge(b, y), &(struct nn_dense){.out = c});
    nn_pop(b);
    return nn_dropout(b, y, m->dropout);
}

static tensor_id feed_forward(struct nn_builder *b, const struct transformer *m, tensor_id x)
{
    x = nn_activate(b, NN_RELU, nn_linear(b, "linear1", x, &(struct nn_dense){.out = m->hidden}));
    x = nn_linear(b, "linear2", nn_dropout(b, x, m->dropout), &(struct nn_dense){.out = m->width});
    return nn_dropout(b, x, m->dropout);
}

static tensor_id encoder_layer(struct nn_builder *b, const struct transformer *m, tensor_id x)
{
    tensor_id y = attention(b, m, "self_attn", x, x, m->is_words);
    x = nn_layer_norm(b, "norm1", nn_add(b, x, y), 0);
    y = feed_forward(b, m, x);
    return nn_layer_norm(b, "norm2", nn_add(b, x, y), 0);
}

static tensor_id decoder_layer(struct nn_builder *b, const struct transformer *m, tensor_id x,
                               tensor_id memory)
{
    tensor_id y = attention(b, m, "self_attn", x, x, false);
    x = nn_layer_norm(b, "norm1", nn_add(b, x, y), 0);
    y = attention(b, m, "multihead_attn", x, memory, false);
    x = nn_layer_norm(b, "norm2", nn_add(b, x, y), 0);
    y = feed_forward(b, m, x);
    return nn_layer_norm(b, "norm3", nn_add(b, x, y), 0);
}

static tensor_id stack(struct nn_builder *b, const struct transformer *m, const char *name,
                       tensor_id x, tensor_id memory, int64_t layers)
{
    nn_push(b, "%s", name);
    for (int64_t i = 0; i < layers; i++) {
        nn_push(b, "layers.%" PRId64, i);
        x = memory.v ? decoder_layer(b, m, x, memory) : encoder_layer(b, m, x);
        nn_pop(b);
    }
    if (!m->is_words)
        x = nn_layer_norm(b, "norm", x, 0);
    return nn_leave(b, x);
}

static enum ebb_status check(const struct nn_config *config, struct ebb_error *err)
{
    const struct transformer *m = (const void *)config->bytes;
    return nn_check_heads(m->heads, m->width, err);
}

/* ---- word language model -------------------------------------------------------------------- */

static size_t word_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct transformer *m = (const void *)config->bytes;
    nn_port_set(&ports[0], "tokens", NN_TOKENS, false, 2, (int64_t[]){batch, m->length});
    nn_port_set(&ports[1], "positions", NN_FLOATS, true, 2, (int64_t[]){m->length, m->width});
    return 2;
}

static size_t build_words(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                          struct nn_output *out)
{
    const struct transformer *m = (const void *)config->bytes;
    int64_t rows = nn_dim(b, in[0], 0) * m->length;
    struct nn_init init = nn_init_again(nn_init_uniform(0.1f), NN_NORMAL);
    declare_stack(b, m,
                  &(struct stack){.name = "transformer_encoder", .layers = m->encoder_layers});
    tensor_id x = nn_embedding(b, "encoder", in[0], m->vocabulary, m->width, init);
    x = nn_add(b, nn_scale(b, x, sqrt((double)m->width)), in[1]);
    x = nn_dropout(b, x, m->dropout);
    x = stack(b, m, "transformer_encoder", x, TENSOR_NONE, m->encoder_layers);
    x = nn_linear(b, "decoder", nn_reshape(b, x, 2, (int64_t[]){rows, m->width}),
                  &(struct nn_dense){.out = m->vocabulary,
                                     .init = nn_init_uniform(0.1f),
                                     .bias_init = nn_init_constant(0)});
    x = nn_op(b, "log_softmax", 1, &x, NULL, "{\"dim\":1}");
    return nn_classes(b, out, "logits", x, "nll_loss");
}

/* ---- encoder and decoder -------------------------------------------------------------------- */

static size_t pair_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct transformer *m = (const void *)config->bytes;
    nn_port_set(&ports[0], "source", NN_FLOATS, true, 3, (int64_t[]){m->length, batch, m->width});
    nn_port_set(&ports[1], "target", NN_FLOATS, true, 3,
                (int64_t[]){m->target_length, batch, m->width});
    return 2;
}

static size_t build_pair(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                         struct nn_output *out)
{
    const struct transformer *m = (const void *)config->bytes;
    static const int64_t batch_first[3] = {1, 0, 2};
    declare_stack(b, m, &(struct stack){.name = "encoder", .layers = m->encoder_layers});
    declare_stack(
        b, m, &(struct stack){.name = "decoder", .layers = m->decoder_layers, .is_decoder = true});
    tensor_id source = nn_permute(b, in[0], 3, batch_first);
    tensor_id target = nn_permute(b, in[1], 3, batch_first);
    tensor_id memory = stack(b, m, "encoder", source, TENSOR_NONE, m->encoder_layers);
    tensor_id x = stack(b, m, "decoder", target, memory, m->decoder_layers);
    x = nn_reshape(b, x, 2, (int64_t[]){nn_dim(b, in[1], 1) * m->target_length, m->width});
    size_t n = nn_classes(b, out, "logits", x, "nll_loss");
    out[0].target.is_generated = true;
    return n;
}

static void generate(const struct nn_config *config, const struct nn_port *port, uint64_t seed,
                     int64_t update, void *dst)
{
    const struct transformer *m = (const void *)config->bytes;
    float *y = dst;
    if (!m->is_words) {
        nn_philox_uniform(seed, strcmp(port->name, "target") == 0, (uint32_t)update, 2,
                          (size_t)tensor_count(&port->view), y);
        return;
    }
    for (int64_t t = 0; t < m->length; t++)
        for (int64_t i = 0; i < m->width; i++) {
            double rate = exp(-log(10000.0) * (double)(i / 2 * 2) / (double)m->width);
            double angle = (double)t * rate;
            y[t * m->width + i] = (float)(i % 2 ? cos(angle) : sin(angle));
        }
}

static const struct ebb_key word_options[] = {
    NN_OPTION_INT(transformer, vocabulary, 1, 16777216, "different tokens"),
    NN_OPTION_INT(transformer, length, 1, 65536, "tokens of a sequence"),
    NN_OPTION_INT(transformer, width, 1, 65536, "width of a token"),
    NN_OPTION_INT(transformer, hidden, 1, 262144, "width inside the feed-forward part"),
    NN_OPTION_INT(transformer, heads, 1, 1024, "attention heads"),
    EBB_KEY_ROW(struct transformer, "layers", INT, encoder_layers, "transformer layers",
                NN_RANGE(1, 1024)),
    NN_OPTION_FLOAT(transformer, dropout, 0, 0.999, "share of units left out in training"),
};
static const struct ebb_key pair_options[] = {
    NN_OPTION_INT(transformer, length, 1, 65536, "length of the source"),
    NN_OPTION_INT(transformer, target_length, 1, 65536, "length of the target"),
    NN_OPTION_INT(transformer, width, 2, 65536, "width of an element"),
    NN_OPTION_INT(transformer, hidden, 1, 262144, "width inside the feed-forward part"),
    NN_OPTION_INT(transformer, heads, 1, 1024, "attention heads"),
    NN_OPTION_INT(transformer, encoder_layers, 1, 1024, "layers of the encoder"),
    NN_OPTION_INT(transformer, decoder_layers, 1, 1024, "layers of the decoder"),
    NN_OPTION_FLOAT(transformer, dropout, 0, 0.999, "share of units left out in training"),
};

static const struct nn_model rows[] = {
    {NN_ROW("wlm_transformer", NN_LANGUAGE_MODEL, "word language model, two transformer layers",
            word_options, transformer, word_inputs, build_words,
            (&(const struct transformer){.vocabulary = 33278,
                                         .length = 35,
                                         .width = 200,
                                         .hidden = 200,
                                         .heads = 2,
                                         .encoder_layers = 2,
                                         .dropout = 0.2,
                                         .is_words = true})),
     .check = check, .generate = generate, NN_ALIASES("transformer_encoder", NULL)},
    {NN_ROW("transformer_12_6", NN_SEQUENCE,
            "torch's transformer: 12 encoder and 6 decoder layers on random numbers", pair_options,
            transformer, pair_inputs, build_pair,
            (&(const struct transformer){.length = 512,
                                         .target_length = 20,
                                         .width = 512,
                                         .hidden = 2048,
                                         .heads = 16,
                                         .encoder_layers = 12,
                                         .decoder_layers = 6,
                                         .dropout = 0.1})),
     .check = check, .generate = generate, NN_ALIASES("transformer", NULL)},
};

const struct nn_family nn_transformer_family = {rows, sizeof rows / sizeof *rows};
