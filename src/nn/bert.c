/* bert.c - BERT: post-norm encoder with a pooler; heads for pre-training or classification. */
#include <inttypes.h>

#include "nn/internal.h"

#define EPS 1e-12

static tensor_id linear(struct nn_builder *b, const char *name, tensor_id x, int64_t out)
{
    return nn_lm_linear(b, name, x, out, 0.02);
}

/* A layer's result y joins its input x. */
static tensor_id output(struct nn_builder *b, const struct nn_lm *m, tensor_id y, tensor_id x)
{
    nn_push(b, "output");
    y = nn_dropout(b, linear(b, "dense", y, m->width), m->dropout);
    x = nn_layer_norm(b, "LayerNorm", nn_add(b, y, x), EPS);
    return nn_leave(b, x);
}

static struct nn_init table_init(void)
{
    return nn_init_again(nn_init_normal(0.02), NN_NORMAL);
}

/* 0 or 1 per token to an addend [n, 1, t, t]: -10000 where a key is padding. Integers cannot be
 * computed with, but they can choose a row of a table. */
static tensor_id additive_mask(struct nn_builder *b, tensor_id mask)
{
    int64_t n = nn_dim(b, mask, 0), t = nn_dim(b, mask, 1);
    tensor_id rows[2] = {nn_op(b, "full", 0, NULL, NULL, "{\"shape\":[1,1],\"value\":-10000}"),
                         nn_op(b, "full", 0, NULL, NULL, "{\"shape\":[1,1],\"value\":0}")};
    tensor_id table = nn_op(b, "cat", 2, rows, NULL, "{\"dim\":0}");
    tensor_id x = nn_op(b, "embedding", 2, (tensor_id[]){mask, table}, NULL, NULL);
    x = nn_reshape(b, x, 4, (int64_t[]){n, 1, 1, t});
    x = nn_op(b, "expand", 1, &x, NULL, "{\"shape\":[%" PRId64 ",1,%" PRId64 ",%" PRId64 "]}", n, t,
              t);
    return nn_contiguous(b, x);
}

static tensor_id attention(struct nn_builder *b, const struct nn_lm *m, tensor_id x, tensor_id mask)
{
    static const char *const names[] = {"query", "key", "value"};
    tensor_id part[3];
    nn_push(b, "attention");
    nn_push(b, "self");
    for (int k = 0; k < 3; k++)
        part[k] = nn_heads(b, linear(b, names[k], x, m->width), m->heads);
    tensor_id y = nn_merge(b, nn_attention(b, part[0], part[1], part[2], mask, false, m->dropout));
    nn_pop(b);
    return nn_leave(b, output(b, m, y, x));
}

static tensor_id layer(struct nn_builder *b, const struct nn_lm *m, tensor_id x, tensor_id mask)
{
    x = attention(b, m, x, mask);
    nn_push(b, "intermediate");
    tensor_id y = nn_activate(b, NN_GELU, linear(b, "dense", x, 4 * m->width));
    nn_pop(b);
    return output(b, m, y, x);
}

static tensor_id embeddings(struct nn_builder *b, const struct nn_lm *m, const tensor_id *in,
                            int64_t vocabulary)
{
    int64_t length = nn_dim(b, in[0], 1);
    nn_push(b, "embeddings");
    tensor_id x = nn_embedding(b, "word_embeddings", in[0], vocabulary, m->width, table_init());
    nn_push(b, "position_embeddings");
    tensor_id p = nn_parameter(b, "weight", NN_EMBEDDING, 2, (int64_t[]){m->positions, m->width},
                               table_init());
    nn_pop(b);
    tensor_id types = nn_embedding(b, "token_type_embeddings", in[1], 2, m->width, table_init());
    x = nn_add(b, nn_add(b, x, types), length == m->positions ? p : nn_slice(b, p, 0, 0, length));
    x = nn_dropout(b, nn_layer_norm(b, "LayerNorm", x, EPS), m->dropout);
    return nn_leave(b, x);
}

/* Scores of every token over the vocabulary, with the table of the embeddings. */
static tensor_id token_head(struct nn_builder *b, const struct nn_lm *m, tensor_id x,
                            int64_t vocabulary)
{
    int64_t rows = nn_dim(b, x, 0) * nn_dim(b, x, 1);
    tensor_id table = nn_parameter(b, "bert.embeddings.word_embeddings.weight", NN_EMBEDDING, 2,
                                   (int64_t[]){vocabulary, m->width}, table_init());
    nn_push(b, "cls.predictions");
    tensor_id bias = nn_parameter(b, "bias", NN_BIAS, 1, &vocabulary, nn_init_constant(0));
    nn_push(b, "transform");
    x = nn_activate(b, NN_GELU, linear(b, "dense", x, m->width));
    x = nn_layer_norm(b, "LayerNorm", x, EPS);
    nn_pop(b);
    x = nn_op(b, "linear", 3,
              (tensor_id[]){nn_reshape(b, x, 2, (int64_t[]){rows, m->width}), table, bias}, NULL,
              NULL);
    return nn_leave(b, x);
}

size_t nn_bert_build(struct nn_builder *b, const struct nn_lm *m, const tensor_id *in,
                     struct nn_output *out)
{
    int64_t vocabulary = m->vocabulary ? m->vocabulary : 30522;
    nn_push(b, "bert");
    tensor_id x = embeddings(b, m, in, vocabulary), mask = additive_mask(b, in[2]);
    for (int64_t i = 0; i < m->layers; i++) {
        nn_push(b, "encoder.layer.%" PRId64, i);
        x = layer(b, m, x, mask);
        nn_pop(b);
    }
    nn_push(b, "pooler");
    tensor_id first =
        nn_reshape(b, nn_slice(b, x, 1, 0, 1), 2, (int64_t[]){nn_dim(b, x, 0), m->width});
    tensor_id pooled = nn_activate(b, NN_TANH, linear(b, "dense", first, m->width));
    nn_pop(b);
    nn_pop(b);
    if (m->head == NN_LM_CLASSIFIER) {
        pooled = linear(b, "classifier", nn_dropout(b, pooled, m->dropout), m->labels);
        return nn_classes(b, out, "logits", pooled, "cross_entropy");
    }
    size_t n = nn_classes(b, &out[0], "mlm", token_head(b, m, x, vocabulary), "cross_entropy");
    nn_push(b, "cls");
    n += nn_classes(b, &out[1], "nsp", linear(b, "seq_relationship", pooled, 2), "cross_entropy");
    nn_pop(b);
    return n;
}

size_t nn_bert_inputs(const struct nn_lm *m, int64_t batch, struct nn_port *ports)
{
    int64_t dims[2] = {batch, m->length};
    nn_port_set(&ports[0], "tokens", NN_TOKENS, false, 2, dims);
    nn_port_set(&ports[1], "segments", NN_TOKENS, false, 2, dims);
    nn_port_set(&ports[2], "mask", NN_MASK, false, 2, dims);
    return 3;
}

static size_t inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    return nn_bert_inputs((const void *)config->bytes, batch, ports);
}

static size_t build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                    struct nn_output *out)
{
    return nn_bert_build(b, (const void *)config->bytes, in, out);
}

static const struct ebb_key options[] = {
    NN_OPTION_INT(nn_lm, vocabulary, 1, 16777216, "different tokens"),
    NN_LM_OPTIONS,
};
#define ROW(text, about, length_, layers_, width_, heads_, ...)                                    \
    NN_CHECKED(text, NN_LANGUAGE_MODEL, about, options, nn_lm, nn_lm_check, inputs, build,         \
               (&(const struct nn_lm){.vocabulary = 30522,                                         \
                                      .positions = 512,                                            \
                                      .length = length_,                                           \
                                      .width = width_,                                             \
                                      .layers = layers_,                                           \
                                      .heads = heads_,                                             \
                                      .labels = 2,                                                 \
                                      .dropout = 0.1,                                              \
                                      .type = NN_LM_BERT,                                          \
                                      .head = NN_LM_PRETRAINING}),                                 \
               __VA_ARGS__)

static const struct nn_model rows[] = {
    ROW("bert_base", "BERT base, pre-training heads", 128, 12, 768, 12, NULL),
    ROW("bert_large", "BERT large, pre-training heads", 512, 24, 1024, 16, NULL),
};

const struct nn_family nn_bert_family = {rows, sizeof rows / sizeof *rows};
