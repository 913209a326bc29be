/* gpt.c - GPT-2 and GPT-3, and the transformer sizes that can be either GPT or BERT. */
#include <inttypes.h>
#include <math.h>

#include "nn/internal.h"

enum ebb_status nn_check_heads(int64_t heads, int64_t width, struct ebb_error *err)
{
    if (width % heads)
        return ebb_fail(err, EBB_EINPUT,
                        "model.heads: found %" PRId64 ", allowed are divisors of width %" PRId64,
                        heads, width);
    return EBB_OK;
}

enum ebb_status nn_lm_check(const struct nn_config *config, struct ebb_error *err)
{
    const struct nn_lm *m = (const void *)config->bytes;
    EBB_TRY(nn_check_heads(m->heads, m->width, err));
    if ((m->type == NN_LM_GPT && m->head == NN_LM_PRETRAINING) ||
        (m->type == NN_LM_BERT && m->head == NN_LM_TOKENS))
        return ebb_fail(
            err, EBB_EINPUT, "model.head: found %s, allowed with type %s is classifier, %s",
            m->type == NN_LM_GPT ? "pretraining" : "tokens", m->type == NN_LM_GPT ? "gpt" : "bert",
            m->type == NN_LM_GPT ? "tokens" : "pretraining");
    if (m->length > m->positions)
        return ebb_fail(err, EBB_EINPUT,
                        "model.length: found %" PRId64 ", allowed is up to the %" PRId64
                        " positions",
                        m->length, m->positions);
    return EBB_OK;
}

/* ---- the network ---------------------------------------------------------------------------- */

tensor_id nn_lm_linear(struct nn_builder *b, const char *name, tensor_id x, int64_t out,
                       double deviation)
{
    return nn_linear(b, name, x,
                     &(struct nn_dense){.out = out,
                                        .init = nn_init_normal(deviation),
                                        .bias_init = nn_init_constant(0)});
}

static tensor_id attention(struct nn_builder *b, const struct nn_lm *m, tensor_id x)
{
    static const char *const names[] = {"q_proj", "k_proj", "v_proj"};
    double residual = 0.02 / sqrt(2.0 * (double)m->layers);
    tensor_id part[3] = {TENSOR_NONE, TENSOR_NONE, TENSOR_NONE};
    nn_push(b, "attn");
    if (m->is_separate) {
        for (int k = 0; k < 3; k++)
            part[k] = nn_heads(b, nn_lm_linear(b, names[k], x, m->width, 0.02), m->heads);
    } else {
        nn_unpack(b, nn_lm_linear(b, "c_attn", x, 3 * m->width, 0.02), 3, m->heads, part);
    }
    tensor_id y = nn_attention(b, part[0], part[1], part[2], TENSOR_NONE, true, m->dropout);
    y = nn_lm_linear(b, m->is_separate ? "out_proj" : "c_proj", nn_merge(b, y), m->width, residual);
    nn_pop(b);
    return nn_dropout(b, y, m->dropout);
}

static tensor_id layer(struct nn_builder *b, const struct nn_lm *m, tensor_id x)
{
    double residual = 0.02 / sqrt(2.0 * (double)m->layers);
    x = nn_add(b, x, attention(b, m, nn_layer_norm(b, "ln_1", x, 0)));
    tensor_id y = nn_layer_norm(b, "ln_2", x, 0);
    nn_push(b, "mlp");
    y = nn_lm_linear(b, "c_fc", y, 4 * m->width, 0.02);
    y = nn_activate(b, m->is_separate ? NN_SILU : NN_GELU_TANH, y);
    y = nn_lm_linear(b, "c_proj", y, m->width, residual);
    nn_pop(b);
    return nn_add(b, x, nn_dropout(b, y, m->dropout));
}

static size_t build_gpt(struct nn_builder *b, const struct nn_lm *m, const tensor_id *in,
                        struct nn_output *out)
{
    int64_t batch = nn_dim(b, in[0], 0), length = nn_dim(b, in[0], 1);
    int64_t vocabulary = m->vocabulary ? m->vocabulary : 50257;
    struct nn_init init = nn_init_again(nn_init_normal(0.02), NN_NORMAL);
    nn_push(b, "transformer");
    tensor_id x = nn_embedding(b, "wte", in[0], vocabulary, m->width, init);
    nn_push(b, "wpe");
    tensor_id positions =
        nn_parameter(b, "weight", NN_EMBEDDING, 2, (int64_t[]){m->positions, m->width}, init);
    nn_pop(b);
    x = nn_add(b, x, length == m->positions ? positions : nn_slice(b, positions, 0, 0, length));
    x = nn_dropout(b, x, m->dropout);
    for (int64_t i = 0; i < m->layers; i++) {
        nn_push(b, "h.%" PRId64, i);
        x = layer(b, m, x);
        nn_pop(b);
    }
    x = nn_layer_norm(b, "ln_f", x, 0);
    tensor_id table =
        nn_parameter(b, "wte.weight", NN_EMBEDDING, 2, (int64_t[]){vocabulary, m->width}, init);
    nn_pop(b);
    if (m->head == NN_LM_CLASSIFIER) { /* on the last token */
        x = nn_reshape(b, nn_slice(b, x, 1, length - 1, length), 2, (int64_t[]){batch, m->width});
        x = nn_linear(b, "score", x,
                      &(struct nn_dense){
                          .out = m->labels, .has_no_bias = true, .init = nn_init_normal(0.02)});
    } else {
        x = nn_reshape(b, x, 2, (int64_t[]){batch * length, m->width});
        tensor_label(b->session, "lm_head");
        x = nn_op(b, "linear", 2, (tensor_id[]){x, table}, NULL, NULL);
    }
    return nn_classes(b, out, "logits", x, "cross_entropy");
}

static size_t inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct nn_lm *m = (const void *)config->bytes;
    if (m->type == NN_LM_BERT)
        return nn_bert_inputs(m, batch, ports);
    nn_port_set(&ports[0], "tokens", NN_TOKENS, false, 2, (int64_t[]){batch, m->length});
    return 1;
}

static size_t build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                    struct nn_output *out)
{
    const struct nn_lm *m = (const void *)config->bytes;
    return m->type == NN_LM_BERT ? nn_bert_build(b, m, in, out) : build_gpt(b, m, in, out);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static const char type_names[] = "gpt bert";
static const char head_names[] = "tokens classifier pretraining";

static const struct ebb_key gpt_options[] = {
    NN_OPTION_INT(nn_lm, vocabulary, 1, 16777216, "different tokens"),
    NN_LM_OPTIONS,
};
static const struct ebb_key size_options[] = {
    NN_OPTION_INT(nn_lm, vocabulary, 0, 16777216, "different tokens; 0: 50257 or 30522, by type"),
    NN_LM_OPTIONS,
    NN_OPTION_INT(nn_lm, labels, 1, 65536, "classes of the sequence classifier"),
    NN_OPTION_NAME(nn_lm, type, type_names, "kind of transformer"),
    NN_OPTION_NAME(nn_lm, head, head_names, "classifier; tokens (gpt) or pretraining (bert)"),
};

#define ROW(text, about, list, defaults_, ...)                                                     \
    NN_CHECKED(text, NN_LANGUAGE_MODEL, about, list, nn_lm, nn_lm_check, inputs, build, defaults_, \
               __VA_ARGS__)
#define GPT2(layers_, width_, heads_)                                                              \
    (&(const struct nn_lm){.vocabulary = 50257,                                                    \
                           .positions = 1024,                                                      \
                           .length = 1024,                                                         \
                           .width = width_,                                                        \
                           .layers = layers_,                                                      \
                           .heads = heads_})
#define GPT3(layers_, width_, heads_, dropout_)                                                    \
    (&(const struct nn_lm){.vocabulary = 50257,                                                    \
                           .positions = 2048,                                                      \
                           .length = 2048,                                                         \
                           .width = width_,                                                        \
                           .layers = layers_,                                                      \
                           .heads = heads_,                                                        \
                           .dropout = dropout_,                                                    \
                           .is_separate = true})

static const struct nn_model gpt_rows[] = {
    ROW("gpt2_124M", "GPT-2 small", gpt_options, GPT2(12, 768, 12), "gpt2", "gpt2_small", NULL),
    ROW("gpt2_350M", "GPT-2 medium", gpt_options, GPT2(24, 1024, 16), "gpt2_medium", NULL),
    ROW("gpt2_774M", "GPT-2 large", gpt_options, GPT2(36, 1280, 20), "gpt2_large", NULL),
    ROW("gpt2_1558M", "GPT-2 XL", gpt_options, GPT2(48, 1600, 25), "gpt2_xl", NULL),
    ROW("gpt3_epcc_13B", "GPT-3 13B of the benchmark: SiLU, separate projections", gpt_options,
        GPT3(40, 5120, 40, 0.1), NULL),
    ROW("gpt3_epcc_175B", "GPT-3 175B of the benchmark: SiLU, separate projections", gpt_options,
        GPT3(96, 12288, 96, 0.0), NULL),
};

const struct nn_family nn_gpt_family = {gpt_rows, sizeof gpt_rows / sizeof *gpt_rows};

#define SIZE(text, type_, width_, positions_, layers_, heads_)                                     \
    ROW(text, "sequence classifier, " #layers_ " layers of width " #width_, size_options,          \
        (&(const struct nn_lm){.positions = positions_,                                            \
                               .length = positions_,                                               \
                               .width = width_,                                                    \
                               .layers = layers_,                                                  \
                               .heads = heads_,                                                    \
                               .labels = 2,                                                        \
                               .type = type_,                                                      \
                               .head = NN_LM_CLASSIFIER}),                                         \
        NULL)

static const struct nn_model size_rows[] = {
    SIZE("Bert", NN_LM_BERT, 768, 512, 6, 12),
    SIZE("Bertlarge", NN_LM_BERT, 1024, 512, 24, 16),
    SIZE("GPT2small", NN_LM_GPT, 1536, 128, 24, 16),
    SIZE("GPT2_1B", NN_LM_GPT, 2048, 1024, 20, 16),
    SIZE("megatron_1.3B", NN_LM_GPT, 2048, 1024, 24, 32),
    SIZE("GPT2_2B", NN_LM_GPT, 2048, 1024, 40, 16),
    SIZE("megatron_3.9B", NN_LM_GPT, 2560, 1024, 24, 40),
    SIZE("GPT2_4B", NN_LM_GPT, 2304, 1024, 64, 16),
    SIZE("GPT3_6B", NN_LM_GPT, 3072, 1024, 53, 16),
    SIZE("GPT3_8B", NN_LM_GPT, 3072, 1024, 72, 16),
    SIZE("GPT3_10B", NN_LM_GPT, 4096, 1024, 50, 16),
    SIZE("GPT3_11B", NN_LM_GPT, 4096, 1024, 55, 16),
    SIZE("GPT3_12B", NN_LM_GPT, 4096, 1024, 60, 16),
    SIZE("GPT3_13B", NN_LM_GPT, 4096, 1024, 65, 16),
    SIZE("GPT3_15B", NN_LM_GPT, 4096, 1024, 78, 16),
    SIZE("GPT3_18B", NN_LM_GPT, 4096, 1024, 90, 16),
    SIZE("GPT_NV_18B", NN_LM_GPT, 6144, 1024, 40, 16),
    SIZE("GPT_NV_39B", NN_LM_GPT, 8192, 1024, 48, 16),
    SIZE("GPT_NV_76B", NN_LM_GPT, 10240, 1024, 60, 16),
    SIZE("GPT_DS_20B", NN_LM_GPT, 8192, 1024, 25, 16),
    SIZE("GPT_DS_40B", NN_LM_GPT, 8192, 1024, 50, 16),
    SIZE("GPT_DS_50B", NN_LM_GPT, 8192, 1024, 62, 16),
    SIZE("GPT_DS_60B", NN_LM_GPT, 8192, 1024, 75, 16),
    SIZE("GPT_DS_68B", NN_LM_GPT, 9216, 1024, 66, 16),
    SIZE("GPT_175B", NN_LM_GPT, 12288, 1024, 96, 96),
    SIZE("GPT_220B", NN_LM_GPT, 12288, 1024, 120, 96),
    SIZE("GPT_250B", NN_LM_GPT, 12288, 1024, 137, 96),
    SIZE("GPT_310B", NN_LM_GPT, 16384, 1024, 128, 128),
    SIZE("GPT_454B", NN_LM_GPT, 20480, 1024, 90, 128),
};

const struct nn_family nn_sizes_family = {size_rows, sizeof size_rows / sizeof *size_rows};
