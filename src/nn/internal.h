/* internal.h - private: what the families of the zoo share. */
#ifndef EBB_NN_INTERNAL_H
#define EBB_NN_INTERNAL_H

#include <stddef.h>

#include "nn/nn.h"
#include "ops/ops.h"

struct nn_family {
    const struct nn_model *rows;
    size_t count;
};
/* One row per file of models; their order is that of the whole table. */
#define NN_FAMILIES(X)                                                                             \
    X(resnet)                                                                                      \
    X(densenet)                                                                                    \
    X(unet)                                                                                        \
    X(inception)                                                                                   \
    X(mobile)                                                                                      \
    X(vgg)                                                                                         \
    X(segment)                                                                                     \
    X(deepcam)                                                                                     \
    X(cosmoflow)                                                                                   \
    X(recurrent)                                                                                   \
    X(tree)                                                                                        \
    X(transformer)                                                                                 \
    X(gan)                                                                                         \
    X(gpt)                                                                                         \
    X(bert)                                                                                        \
    X(sizes)                                                                                       \
    X(chain)
#define X(name) extern const struct nn_family nn_##name##_family;
NN_FAMILIES(X)
#undef X

/* Options: `type` is the family's config struct. */
#define NN_OPTION(type, field, ...)                                                                \
    {                                                                                              \
        .path = #field, .at = offsetof(struct type, field), __VA_ARGS__                            \
    }
#define NN_RANGE(least, most) .bounds = ">= " #least ", <= " #most
#define NN_OPTION_INT(type, field, least, most, text)                                              \
    NN_OPTION(type, field, .kind = EBB_KEY_INT, NN_RANGE(least, most), .help = (text))
#define NN_OPTION_FLOAT(type, field, least, most, text)                                            \
    NN_OPTION(type, field, .kind = EBB_KEY_DOUBLE, NN_RANGE(least, most), .help = (text))
#define NN_OPTION_BOOL(type, field, text)                                                          \
    NN_OPTION(type, field, .kind = EBB_KEY_BOOL, .help = (text))
#define NN_OPTION_NAME(type, field, list, text)                                                    \
    NN_OPTION(type, field, .kind = EBB_KEY_WORD, .flags = EBB_KEY_ANY_CASE, .words = (list),       \
              .help = (text))
#define NN_OPTION_INTS(type, field, least, most, text)                                             \
    NN_OPTION(type, field, .kind = EBB_KEY_INTS, .room = NN_LIST,                                  \
              .count_at = offsetof(struct type, field.count), NN_RANGE(least, most),               \
              .help = (text))
/* What every row of the table has; its check, generator and aliases may follow. Defaults stand in
 * parentheses. */
#define NN_ROW(text, task_, about, list, type, inputs_, build_, defaults_)                         \
    .name = (text), .task = (task_), .summary = (about), .options = (list),                        \
    .option_count = sizeof(list) / sizeof *(list), .config_bytes = sizeof(struct type),            \
    .inputs = (inputs_), .build = (build_), .defaults = (defaults_)
#define NN_ALIASES(...)                                                                            \
    .aliases = (const char *const[])                                                               \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
/* A whole row; the aliases come last and end with NULL. */
#define NN_MODEL(text, task_, about, list, type, inputs_, build_, defaults_, ...)                  \
    {                                                                                              \
        NN_ROW(text, task_, about, list, type, inputs_, build_, defaults_),                        \
            NN_ALIASES(__VA_ARGS__)                                                                \
    }
/* The same with a check of its own. */
#define NN_CHECKED(text, task_, about, list, type, check_, inputs_, build_, defaults_, ...)        \
    {                                                                                              \
        NN_ROW(text, task_, about, list, type, inputs_, build_, defaults_),                        \
            .check = (check_), NN_ALIASES(__VA_ARGS__)                                             \
    }

/* Vision configs begin with this. */
struct nn_image {
    int64_t channels, height, width, classes;
};
#define NN_IMAGE_OPTION(type, field, most, text)                                                   \
    {                                                                                              \
        .path = #field, .kind = EBB_KEY_INT, .at = offsetof(struct type, image.field),             \
        NN_RANGE(1, most), .help = (text)                                                          \
    }
#define NN_IMAGE_OPTIONS(type)                                                                     \
    NN_IMAGE_OPTION(type, channels, 65536, "channels of an image"),                                \
        NN_IMAGE_OPTION(type, height, 65536, "rows of an image"),                                  \
        NN_IMAGE_OPTION(type, width, 65536, "columns of an image"),                                \
        NN_IMAGE_OPTION(type, classes, 1048576, "classes, or channels of the result")

size_t nn_image_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports);
void nn_port_set(struct nn_port *port, const char *name, enum nn_port_kind kind, bool is_generated,
                 int rank, const int64_t *dims);

/* Outputs with their loss. logits: class dimension 1. */
size_t nn_classes(struct nn_builder *b, struct nn_output *out, const char *name, tensor_id logits,
                  const char *loss);

/* Sizes of a handle; 0 beyond its rank. */
int64_t nn_dim(const struct nn_builder *b, tensor_id x, int d);

tensor_id nn_add(struct nn_builder *b, tensor_id x, tensor_id y);
tensor_id nn_mul(struct nn_builder *b, tensor_id x, tensor_id y);
tensor_id nn_reshape(struct nn_builder *b, tensor_id x, int rank, const int64_t *dims);
tensor_id nn_permute(struct nn_builder *b, tensor_id x, int rank, const int64_t *dims);
tensor_id nn_slice(struct nn_builder *b, tensor_id x, int dim, int64_t begin, int64_t end);
/* x * scale with the same rounding everywhere. */
tensor_id nn_scale(struct nn_builder *b, tensor_id x, double value);

/* [n, t, c] to [n, heads, t, c / heads], and back. */
tensor_id nn_heads(struct nn_builder *b, tensor_id x, int64_t heads);
tensor_id nn_merge(struct nn_builder *b, tensor_id x);
/* [n, t, parts * c] to `parts` tensors [n, heads, t, c / heads], with one copy for all. */
void nn_unpack(struct nn_builder *b, tensor_id x, int64_t parts, int64_t heads, tensor_id *out);

/* q, k, v for heads from one matrix: all at once when from[0] is from[1], else q from the first and
 * the others from the second. */
void nn_projections(struct nn_builder *b, int64_t width, int64_t heads, const tensor_id from[2],
                    tensor_id w, tensor_id bias, tensor_id *out);

/* Weights and biases of layer `index` of an LSTM or GRU, as torch names and draws them; out may be
 * NULL. */
void nn_recurrent_items(struct nn_builder *b, bool is_gru, int64_t index, int64_t in_width,
                        int64_t hidden, tensor_id *out);
/* x [T, batch, in] through that layer; state[0] and, of LSTMs, state[1] are [1, batch, hidden] and
 * become the new ones. */
tensor_id nn_recurrent_layer(struct nn_builder *b, bool is_gru, int64_t index, int64_t hidden,
                             tensor_id x, tensor_id *state);

/* Language models of the GPT and BERT kinds. */
struct nn_lm {
    int64_t vocabulary, positions, length, width, layers, heads, labels;
    double dropout;
    int type, head;
    bool is_separate; /* q, k, v as three layers, SiLU: GPT-3 */
};
enum { NN_LM_GPT, NN_LM_BERT };
enum { NN_LM_TOKENS, NN_LM_CLASSIFIER, NN_LM_PRETRAINING };

#define NN_LM_OPTIONS                                                                              \
    NN_OPTION_INT(nn_lm, positions, 1, 1048576, "positions that have an embedding"),               \
        NN_OPTION_INT(nn_lm, length, 1, 1048576, "tokens of a sequence"),                          \
        NN_OPTION_INT(nn_lm, width, 1, 65536, "width of a token"),                                 \
        NN_OPTION_INT(nn_lm, layers, 1, 1024, "transformer layers"),                               \
        NN_OPTION_INT(nn_lm, heads, 1, 1024, "attention heads"),                                   \
        NN_OPTION_FLOAT(nn_lm, dropout, 0, 0.999, "share of units left out in training")

enum ebb_status nn_check_heads(int64_t heads, int64_t width, struct ebb_error *err);
enum ebb_status nn_lm_check(const struct nn_config *config, struct ebb_error *err);
/* With normal weights. */
tensor_id nn_lm_linear(struct nn_builder *b, const char *name, tensor_id x, int64_t out,
                       double deviation);
size_t nn_bert_build(struct nn_builder *b, const struct nn_lm *m, const tensor_id *in,
                     struct nn_output *out);
size_t nn_bert_inputs(const struct nn_lm *m, int64_t batch, struct nn_port *ports);

/* Batch normalisation and ReLU; a maximum whose last window may leave the image. */
tensor_id nn_norm_relu(struct nn_builder *b, const char *name, tensor_id x);
tensor_id nn_ceil_pool(struct nn_builder *b, tensor_id x, int k, int stride, int pad);

/* An op whose attributes are read, on inputs of the types it takes; its results go to
 * out[TENSOR_PORTS] (may be NULL), their number to *count (may be NULL). */
tensor_id nn_apply(struct nn_builder *b, const struct ops_def *def, size_t in_count,
                   const tensor_id *in, tensor_id *out, size_t *count, const void *attr);

/* A buffer whose values a file holds. */
tensor_id nn_given_buffer(struct nn_builder *b, const char *name, enum tensor_dtype dtype, int rank,
                          const int64_t *dims, struct nn_init init);

/* A row for tables that no layer function made. */
void nn_layer_list(struct nn_builder *b, const char *name, const char *kind, tensor_id out,
                   uint32_t first_node, uint32_t first_item, uint32_t end_item);

/* Whether this item, which exists, keeps its bits. */
bool nn_is_frozen(struct nn_builder *b, const char *name);

/* Row-major and in the plain layout. */
tensor_id nn_contiguous(struct nn_builder *b, tensor_id x);

/* Calls are written down where a journal is kept (file_write.c). nn_journal_note is for what is no
 * op of the table: `what` is the name of a function of model files. */
void nn_journal_op(struct nn_builder *b, const struct ops_def *def, size_t in_count,
                   const tensor_id *in, size_t out_count, const tensor_id *out, const void *attr);
void nn_journal_note(struct nn_builder *b, const char *what, size_t in_count, const tensor_id *in,
                     tensor_id out, double first, double second);
/* What is called until the end belongs to one note. */
void nn_journal_begin(struct nn_builder *b);
void nn_journal_end(struct nn_builder *b);

/* nn_push of a plain name; nn_pop with what was made inside. */
void nn_enter(struct nn_builder *b, const char *name);
static inline tensor_id nn_leave(struct nn_builder *b, tensor_id made)
{
    nn_pop(b);
    return made;
}
/* "name" below the prefix; into buf, cut off when it is too small. Returns the length. */
size_t nn_full_name(const struct nn_builder *b, const char *name, char *buf, size_t size);

/* Philox as the kernels draw it: element e of (seed, instance, step, stream). */
void nn_philox_uniform(uint64_t seed, uint32_t instance, uint32_t step, uint32_t stream, size_t n,
                       float *y);
void nn_philox_normal(uint64_t seed, uint32_t instance, uint32_t step, uint32_t stream, size_t n,
                      float *y);

/* ---- weights in blocks of rows (tile.c) ---- */

/* Rows of a block of weights of this shape; 0: they stay in one piece. */
int64_t nn_tile_rows(const struct nn_mode *mode, const struct tensor_view *weights);
void nn_tile_item(struct nn_builder *b, struct nn_item *item, int64_t rows);
/* A linear layer whose weights lie in blocks; false: they do not, or it failed. */
bool nn_tile_linear(struct nn_builder *b, const struct ops_def *def, size_t in_count,
                    const tensor_id *in, const void *attr, tensor_id *answer);

#endif
