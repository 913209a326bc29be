/* recurrent.c - word language models: LSTM and GRU. */
#include <inttypes.h>
#include <stdio.h>

#include "nn/internal.h"

struct words {
    int64_t vocabulary, length, embedding, hidden, layers;
    double dropout;
    bool is_gru;
};

static size_t inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct words *m = (const void *)config->bytes;
    int64_t state[3] = {m->layers, batch, m->hidden};
    nn_port_set(&ports[0], "tokens", NN_TOKENS, false, 2, (int64_t[]){batch, m->length});
    nn_port_set(&ports[1], "hidden", NN_STATE, true, 3, state);
    if (m->is_gru)
        return 2;
    nn_port_set(&ports[2], "cell", NN_STATE, true, 3, state);
    return 3;
}

void nn_recurrent_items(struct nn_builder *b, bool is_gru, int64_t index, int64_t in_width,
                        int64_t hidden, tensor_id *out)
{
    static const char *const parts[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    int64_t gates = (is_gru ? 3 : 4) * hidden;
    char name[40];
    for (int k = 0; k < 4; k++) {
        int64_t dims[2] = {gates, k ? hidden : in_width};
        snprintf(name, sizeof name, "%s_l%" PRId64, parts[k], index);
        tensor_id item = nn_parameter(b, name, k < 2 ? NN_WEIGHT : NN_BIAS, k < 2 ? 2 : 1, dims,
                                      nn_init_default(hidden));
        if (out)
            out[k] = item;
    }
}

tensor_id nn_recurrent_layer(struct nn_builder *b, bool is_gru, int64_t index, int64_t hidden,
                             tensor_id x, tensor_id *state)
{
    tensor_id in[7], out[TENSOR_PORTS] = {TENSOR_NONE, TENSOR_NONE, TENSOR_NONE};
    size_t n = 0;
    in[n++] = x;
    in[n++] = state[0];
    if (!is_gru)
        in[n++] = state[1];
    nn_recurrent_items(b, is_gru, index, nn_dim(b, x, 2), hidden, in + n);
    x = nn_op(b, is_gru ? "gru" : "lstm", n + 4, in, out, NULL);
    state[0] = out[1];
    if (!is_gru)
        state[1] = out[2];
    return x;
}

static size_t build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                    struct nn_output *out)
{
    const struct words *m = (const void *)config->bytes;
    int64_t batch = nn_dim(b, in[0], 0), length = nn_dim(b, in[0], 1);
    int kinds = m->is_gru ? 1 : 2;
    tensor_id next[2][64];
    struct nn_init init = nn_init_again(nn_init_uniform(0.1f), NN_NORMAL);
    tensor_id x = nn_embedding(b, "encoder", in[0], m->vocabulary, m->embedding, init);
    x = nn_dropout(b, nn_permute(b, x, 3, (int64_t[]){1, 0, 2}), m->dropout);
    nn_push(b, "rnn");
    for (int64_t i = 0; i < m->layers; i++) {
        tensor_id state[2];
        for (int k = 0; k < kinds; k++)
            state[k] = nn_slice(b, in[1 + k], 0, i, i + 1);
        x = nn_recurrent_layer(b, m->is_gru, i, m->hidden, x, state);
        x = nn_dropout(b, x, m->dropout); /* between the layers, and before the decoder */
        for (int k = 0; k < kinds; k++)
            next[k][i] = state[k];
    }
    nn_pop(b);
    x = nn_permute(b, x, 3, (int64_t[]){1, 0, 2});
    x = nn_linear(b, "decoder", nn_reshape(b, x, 2, (int64_t[]){batch * length, m->hidden}),
                  &(struct nn_dense){.out = m->vocabulary,
                                     .init = nn_init_uniform(0.1f),
                                     .bias_init = nn_init_constant(0)});
    size_t n = nn_classes(b, out, "logits", x, "cross_entropy");
    for (int k = 0; k < kinds; k++, n++)
        out[n] = (struct nn_output){.name = k ? "cell" : "hidden",
                                    .kind = NN_NEXT,
                                    .id = m->layers > 1 ? nn_cat(b, (size_t)m->layers, next[k], 0)
                                                        : next[k][0]};
    return n;
}

static const struct ebb_key options[] = {
    NN_OPTION_INT(words, vocabulary, 1, 16777216, "different tokens"),
    NN_OPTION_INT(words, length, 1, 4096, "tokens of a sequence"),
    NN_OPTION_INT(words, embedding, 1, 65536, "width of a token"),
    NN_OPTION_INT(words, hidden, 1, 65536, "width of the state"),
    NN_OPTION_INT(words, layers, 1, 64, "recurrent layers"),
    NN_OPTION_FLOAT(words, dropout, 0, 0.999, "share of units left out in training"),
};
#define ROW(text, about, gru, ...)                                                                 \
    NN_MODEL(text, NN_LANGUAGE_MODEL, about, options, words, inputs, build,                        \
             (&(const struct words){.vocabulary = 33278,                                           \
                                    .length = 35,                                                  \
                                    .embedding = 200,                                              \
                                    .hidden = 200,                                                 \
                                    .layers = 2,                                                   \
                                    .dropout = 0.2,                                                \
                                    .is_gru = gru}),                                               \
             __VA_ARGS__)

static const struct nn_model rows[] = {
    ROW("wlm_lstm", "word language model, two LSTM layers", false, "lstm_encoder", NULL),
    ROW("wlm_gru", "word language model, two GRU layers", true, "gru_encoder", NULL),
};

const struct nn_family nn_recurrent_family = {rows, sizeof rows / sizeof *rows};
