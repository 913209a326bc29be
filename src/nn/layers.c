/* layers.c - layers: weights by name, then ops. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "nn/internal.h"

/* ---- records -------------------------------------------------------------------------------- */

struct mark {
    uint32_t node, item;
};

/* Names and labels are below the layer's name until it ends; "": those of the scope it is in. */
static struct mark layer_begin(struct nn_builder *b, const char *name)
{
    if (*name)
        nn_enter(b, name);
    return (struct mark){tensor_node_count(b->session), (uint32_t)b->item_count};
}

/* The items of the layer: those it made, or those that were declared for it before its first call. */
static struct mark claim(struct nn_builder *b, struct mark m, uint32_t *end)
{
    size_t n = b->prefix_length;
    *end = (uint32_t)b->item_count;
    if (m.item < b->item_count || !n)
        return m;
    char full[512];
    nn_full_name(b, "weight", full, sizeof full);
    const struct nn_item *first = nn_item_find(b, full);
    if (!first || first->is_listed)
        return m;
    m.item = *end = (uint32_t)(first - b->items);
    for (; *end < b->item_count && strncmp(b->items[*end].name, b->prefix, n) == 0; ++*end)
        b->items[*end].is_listed = true;
    return m;
}

void nn_layer_list(struct nn_builder *b, const char *name, const char *kind, tensor_id out,
                   uint32_t first_node, uint32_t first_item, uint32_t end_item)
{
    struct ebb_error err;
    char *copy = ebb_arena_strndup(&b->arena, name, strlen(name));
    if (tensor_status(b->session, NULL) != EBB_OK)
        return;
    if (!copy || ebb_grow(&b->layers, &b->layer_capacity, b->layer_count + 1, sizeof *b->layers,
                          &err) != EBB_OK) {
        tensor_fail(b->session, EBB_ENOMEM, "out of memory");
        return;
    }
    b->layers[b->layer_count++] = (struct nn_layer){.name = copy,
                                                    .kind = kind,
                                                    .out = out,
                                                    .first_node = first_node,
                                                    .end_node = tensor_node_count(b->session),
                                                    .first_item = first_item,
                                                    .end_item = end_item};
}

static tensor_id layer_end(struct nn_builder *b, struct mark m, const char *name, const char *kind,
                           tensor_id out)
{
    struct ebb_error err;
    size_t n = b->prefix_length;
    uint32_t end;
    m = claim(b, m, &end);
    for (uint32_t i = m.item; i < end; i++)
        b->items[i].is_listed = true;
    char *copy = ebb_arena_strndup(&b->arena, b->prefix, n ? n - 1 : 0); /* without the dot */
    if (*name)
        nn_pop(b);
    if (tensor_status(b->session, NULL) != EBB_OK)
        return TENSOR_NONE;
    if (!copy || ebb_grow(&b->layers, &b->layer_capacity, b->layer_count + 1, sizeof *b->layers,
                          &err) != EBB_OK)
        return tensor_fail(b->session, EBB_ENOMEM, "out of memory");
    b->layers[b->layer_count++] = (struct nn_layer){.name = copy,
                                                    .kind = kind,
                                                    .out = out,
                                                    .first_node = m.node,
                                                    .end_node = tensor_node_count(b->session),
                                                    .first_item = m.item,
                                                    .end_item = end};
    return out;
}

/* ---- convolution, linear -------------------------------------------------------------------- */

/* The model's rule over what torch's constructor would have drawn. */
static struct nn_init chosen(const struct nn_init *given, struct nn_init standard)
{
    return given->is_given ? nn_init_again(*given, standard.kind) : standard;
}

static int64_t or_one(int64_t v)
{
    return v ? v : 1;
}

static struct nn_conv with_defaults(const struct nn_conv *given)
{
    struct nn_conv c = *given;
    c.nd = c.nd ? c.nd : 2;
    for (int d = 0; d < c.nd; d++) { /* one number counts for all dimensions */
        c.k[d] = or_one(d && !c.k[d] ? c.k[0] : c.k[d]);
        c.stride[d] = or_one(d && !c.stride[d] ? c.stride[0] : c.stride[d]);
        c.dilation[d] = or_one(d && !c.dilation[d] ? c.dilation[0] : c.dilation[d]);
    }
    c.groups = or_one(c.groups);
    return c;
}

tensor_id nn_convolution(struct nn_builder *b, const char *name, tensor_id x,
                         const struct nn_conv *conv)
{
    static const char *const ops[2][3] = {
        {"conv1d", "conv2d", "conv3d"},
        {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}};
    struct nn_conv c = with_defaults(conv);
    struct mark m = layer_begin(b, name);
    int64_t in = nn_dim(b, x, 1), dims[5], area = 1;
    if (in % c.groups || c.out % c.groups) {
        tensor_fail(b->session, EBB_EINPUT,
                    "%" PRId64 " to %" PRId64 " channels in %" PRId64 " groups", in, c.out,
                    c.groups);
        return layer_end(b, m, name, "conv", TENSOR_NONE);
    }
    dims[0] = c.is_transposed ? in : c.out;
    dims[1] = (c.is_transposed ? c.out : in) / c.groups;
    for (int d = 0; d < c.nd; d++)
        area *= dims[d + 2] = c.k[d];
    /* torch takes dimension 1 of the weights for the fan, of transposed ones as well */
    struct nn_init standard = nn_init_default(dims[1] * area);
    tensor_id parts[3] = {
        x, nn_parameter(b, "weight", NN_WEIGHT, c.nd + 2, dims, chosen(&c.init, standard))};
    if (c.has_bias)
        parts[2] = nn_parameter(b, "bias", NN_BIAS, 1, &c.out, chosen(&c.bias_init, standard));
    struct ops_value values[] = {
        {"stride", .ints = c.stride, .count = c.nd},
        {"padding", .ints = c.pad, .count = c.nd},
        {"groups", .integer = c.groups},
        c.is_transposed ? (struct ops_value){"output_padding", .integer = c.output_padding}
                        : (struct ops_value){"dilation", .ints = c.dilation, .count = c.nd}};
    tensor_id y =
        nn_call(b, ops[c.is_transposed][c.nd - 1], c.has_bias ? 3 : 2, parts, NULL, 4, values);
    return layer_end(b, m, name, c.is_transposed ? "transposed conv" : "conv", y);
}

tensor_id nn_linear(struct nn_builder *b, const char *name, tensor_id x,
                    const struct nn_dense *dense)
{
    struct mark m = layer_begin(b, name);
    int64_t in = nn_dim(b, x, tensor_view_of(b->session, x)->rank - 1);
    int64_t dims[2] = {dense->out, in};
    struct nn_init standard = nn_init_default(in);
    tensor_id parts[3] = {
        x, nn_parameter(b, "weight", NN_WEIGHT, 2, dims, chosen(&dense->init, standard))};
    if (!dense->has_no_bias)
        parts[2] = nn_parameter(b, "bias", NN_BIAS, 1, dims, chosen(&dense->bias_init, standard));
    tensor_id y = nn_op(b, "linear", dense->has_no_bias ? 2 : 3, parts, NULL, NULL);
    return layer_end(b, m, name, "linear", y);
}

tensor_id nn_embedding(struct nn_builder *b, const char *name, tensor_id ids, int64_t rows,
                       int64_t width, struct nn_init init)
{
    struct mark m = layer_begin(b, name);
    tensor_id table = nn_parameter(b, "weight", NN_EMBEDDING, 2, (int64_t[]){rows, width}, init);
    tensor_id y = nn_low(b, nn_op(b, "embedding", 2, (tensor_id[]){ids, table}, NULL, NULL));
    return layer_end(b, m, name, "embedding", y);
}

/* ---- normalisation -------------------------------------------------------------------------- */

tensor_id nn_batch_norm(struct nn_builder *b, const char *name, tensor_id x, double eps,
                        double momentum)
{
    struct mark m = layer_begin(b, name);
    int64_t c = nn_dim(b, x, 1);
    eps = eps > 0 ? eps : 1e-5;
    momentum = momentum > 0 ? momentum : 0.1;
    tensor_id in[5] = {nn_low(b, x),
                       nn_parameter(b, "weight", NN_NORM, 1, &c, nn_init_constant(1.0f)),
                       nn_parameter(b, "bias", NN_NORM, 1, &c, nn_init_constant(0.0f)),
                       nn_buffer(b, "running_mean", TENSOR_F32, 1, &c, 0.0f),
                       nn_buffer(b, "running_var", TENSOR_F32, 1, &c, 1.0f)};
    tensor_id running[3] = {in[3], in[4],
                            nn_buffer(b, "num_batches_tracked", TENSOR_I64, 0, NULL, 0.0f)};
    tensor_id y;
    /* statistics that may not change are used as they are, as after torch's .eval() */
    if (!b->mode.is_training || nn_is_frozen(b, "running_mean")) {
        y = nn_call(b, "batch_norm", 5, in, NULL, 2,
                    (struct ops_value[]){{"training", .integer = 0}, {"eps", .number = eps}});
    } else if (tensor_status(b->session, NULL) == EBB_OK) {
        y = ops_batch_norm_train(b->session, in[0], in[1], in[2], running, (float)momentum,
                                 (float)eps);
        nn_replace(b, "running_mean", running[0]);
        nn_replace(b, "running_var", running[1]);
        nn_replace(b, "num_batches_tracked", running[2]);
    } else {
        y = TENSOR_NONE;
    }
    nn_journal_note(b, "batch_norm", 3, in, y, eps, momentum);
    return layer_end(b, m, name, "batch norm", y);
}

tensor_id nn_layer_norm(struct nn_builder *b, const char *name, tensor_id x, double eps)
{
    struct mark m = layer_begin(b, name);
    int64_t n = nn_dim(b, x, tensor_view_of(b->session, x)->rank - 1);
    tensor_id in[3] = {x, nn_parameter(b, "weight", NN_NORM, 1, &n, nn_init_constant(1.0f)),
                       nn_parameter(b, "bias", NN_NORM, 1, &n, nn_init_constant(0.0f))};
    struct ops_value values[] = {{"shape", .ints = &n, .count = 1},
                                 {"eps", .number = eps > 0 ? eps : 1e-5}};
    tensor_id y = nn_call(b, "layer_norm", 3, in, NULL, 2, values);
    return layer_end(b, m, name, "layer norm", y);
}

/* ---- without weights ------------------------------------------------------------------------ */

tensor_id nn_activate(struct nn_builder *b, enum nn_act act, tensor_id x)
{
    static const struct {
        const char *op;
        struct ops_value value; /* its one attribute, where it has one */
    } rows[] = {
        [NN_RELU] = {"relu", {0}},
        [NN_RELU6] = {"relu6", {0}},
        [NN_LEAKY] = {"leaky_relu", {"negative_slope", .number = 0.3}},
        [NN_GELU] = {"gelu", {"approximate", .text = "none"}},
        [NN_GELU_TANH] = {"gelu", {"approximate", .text = "tanh"}},
        [NN_SILU] = {"silu", {0}},
        [NN_SIGMOID] = {"sigmoid", {0}},
        [NN_TANH] = {"tanh", {0}},
    };
    if (act == NN_IDENTITY)
        return x;
    struct mark m = layer_begin(b, "");
    tensor_id y =
        nn_call(b, rows[act].op, 1, &x, NULL, rows[act].value.name ? 1 : 0, &rows[act].value);
    return layer_end(b, m, "", rows[act].op, y);
}

tensor_id nn_dropout(struct nn_builder *b, tensor_id x, double p)
{
    if (!b->mode.is_training || !(p > 0) || tensor_status(b->session, NULL) != EBB_OK)
        return x;
    if (!b->mode.step.v)
        b->mode.step = tensor_leaf(b->session, TENSOR_I64, 1, (int64_t[]){1}, "step");
    struct mark m = layer_begin(b, "");
    tensor_id y = ops_dropout(b->session, x, b->mode.step, (float)p, b->mode.seed, b->dropouts++);
    nn_journal_note(b, "dropout", 1, &x, y, p, 0);
    return layer_end(b, m, "", "dropout", y);
}

static tensor_id pool(struct nn_builder *b, const char *op, tensor_id x, int64_t k, int64_t stride,
                      int64_t pad, bool is_average, bool counts_pad)
{
    struct mark m = layer_begin(b, "");
    int nd = tensor_view_of(b->session, x)->rank - 2;
    char name[32];
    snprintf(name, sizeof name, "%s%dd", op, nd);
    struct ops_value values[] = {{"kernel", .integer = k},
                                 {"stride", .integer = stride},
                                 {"padding", .integer = pad},
                                 {"count_include_pad", .integer = counts_pad}};
    tensor_id y = nn_call(b, name, 1, &x, NULL, is_average ? 4 : 3, values);
    return layer_end(b, m, "", op, y);
}

tensor_id nn_max_pool(struct nn_builder *b, tensor_id x, int64_t k, int64_t stride, int64_t pad)
{
    return pool(b, "max_pool", x, k, stride, pad, false, false);
}

tensor_id nn_avg_pool(struct nn_builder *b, tensor_id x, int64_t k, int64_t stride, int64_t pad,
                      bool counts_pad)
{
    return pool(b, "avg_pool", x, k, stride, pad, true, counts_pad);
}

tensor_id nn_ceil_pool(struct nn_builder *b, tensor_id x, int k, int stride, int pad)
{
    return nn_op(b, "max_pool2d", 1, &x, NULL,
                 "{\"kernel\":%d,\"stride\":%d,\"padding\":%d,\"ceil_mode\":true}", k, stride, pad);
}

tensor_id nn_norm_relu(struct nn_builder *b, const char *name, tensor_id x)
{
    return nn_activate(b, NN_RELU, nn_batch_norm(b, name, x, 0, 0));
}

tensor_id nn_global_pool(struct nn_builder *b, tensor_id x)
{
    struct mark m = layer_begin(b, "");
    int64_t flat[2] = {nn_dim(b, x, 0), nn_dim(b, x, 1)};
    tensor_id y = nn_op(b, "adaptive_avg_pool2d", 1, &x, NULL, "{\"output_size\":[1,1]}");
    return layer_end(b, m, "", "global pool", nn_reshape(b, y, 2, flat));
}

tensor_id nn_flatten(struct nn_builder *b, tensor_id x)
{
    int64_t rows = nn_dim(b, x, 0), count = tensor_count(tensor_view_of(b->session, x));
    return nn_reshape(b, x, 2, (int64_t[]){rows, rows ? count / rows : 0});
}

tensor_id nn_cat(struct nn_builder *b, size_t count, const tensor_id *in, int dim)
{
    struct mark m = layer_begin(b, "");
    struct ops_value value = {"dim", .integer = dim};
    return layer_end(b, m, "", "cat", nn_call(b, "cat", count, in, NULL, 1, &value));
}

tensor_id nn_add(struct nn_builder *b, tensor_id x, tensor_id y)
{
    struct mark m = layer_begin(b, "");
    return layer_end(b, m, "", "add", nn_op(b, "add", 2, (tensor_id[]){x, y}, NULL, NULL));
}

tensor_id nn_mul(struct nn_builder *b, tensor_id x, tensor_id y)
{
    struct mark m = layer_begin(b, "");
    return layer_end(b, m, "", "mul", nn_op(b, "mul", 2, (tensor_id[]){x, y}, NULL, NULL));
}

tensor_id nn_scale(struct nn_builder *b, tensor_id x, double value)
{
    if (tensor_status(b->session, NULL) != EBB_OK)
        return TENSOR_NONE;
    tensor_id y = ops_mul_scalar(b->session, x, (float)value);
    nn_journal_note(b, "mul_scalar", 1, &x, y, value, 0);
    return y;
}

tensor_id nn_reshape(struct nn_builder *b, tensor_id x, int rank, const int64_t *dims)
{
    if (tensor_status(b->session, NULL) != EBB_OK)
        return TENSOR_NONE;
    tensor_id y = ops_reshape(b->session, x, rank, dims);
    nn_journal_note(b, "reshape", 1, &x, y, 0, 0);
    return y;
}

tensor_id nn_contiguous(struct nn_builder *b, tensor_id x)
{
    if (tensor_status(b->session, NULL) != EBB_OK)
        return TENSOR_NONE;
    tensor_id y = ops_contiguous(b->session, x);
    nn_journal_note(b, "contiguous", 1, &x, y, 0, 0);
    return y;
}

tensor_id nn_permute(struct nn_builder *b, tensor_id x, int rank, const int64_t *dims)
{
    struct ops_value value = {"dims", .ints = dims, .count = rank};
    return nn_call(b, "permute", 1, &x, NULL, 1, &value);
}

tensor_id nn_slice(struct nn_builder *b, tensor_id x, int dim, int64_t begin, int64_t end)
{
    int64_t range[4] = {dim, begin, end, 1};
    struct ops_value value = {"ranges", .ints = range, .count = 4};
    return nn_call(b, "slice", 1, &x, NULL, 1, &value);
}

/* [tq, tk]: 0 where a query sees a key, -inf where the key is later. */
static tensor_id causal_mask(struct nn_builder *b, int64_t tq, int64_t tk)
{
    struct tensor_session *s = b->session;
    if (tensor_status(s, NULL) != EBB_OK)
        return TENSOR_NONE;
    if (b->causal.v && nn_dim(b, b->causal, 0) == tq && nn_dim(b, b->causal, 1) == tk)
        return b->causal;
    tensor_id row = ops_full(s, 2, (int64_t[]){tq, 1}, 1.0f);
    tensor_id column = ops_full(s, 2, (int64_t[]){1, tk}, 1.0f);
    row = nn_op(b, "cumsum", 1, &row, NULL, "{\"dim\":0}");
    column = nn_op(b, "cumsum", 1, &column, NULL, "{\"dim\":1}");
    tensor_id late = ops_add_scalar(s, ops_sub(s, column, row), (float)(tq - tk));
    tensor_id seen = ops_add_scalar(s, ops_neg(s, ops_clamp(s, late, 0.0f, 1.0f)), 1.0f);
    b->causal = nn_op(b, "log", 1, &seen, NULL, NULL);
    return b->causal;
}

/* With dropout on the probabilities the fused op cannot be used: products and softmax by hand. */
static tensor_id attention_by_hand(struct nn_builder *b, const tensor_id *in, tensor_id mask,
                                   bool is_causal, double dropout)
{
    tensor_id q = in[0], k = in[1];
    int rank = tensor_view_of(b->session, q)->rank;
    struct ops_value tb = {"tb", .integer = 1}, last = {"dim", .integer = -1};
    tensor_id s = nn_full(b, nn_call(b, "matmul", 2, (tensor_id[]){q, k}, NULL, 1, &tb));
    s = nn_scale(b, s, 1.0 / sqrt((double)nn_dim(b, q, rank - 1)));
    if (mask.v)
        s = nn_op(b, "add", 2, (tensor_id[]){s, mask}, NULL, NULL);
    if (is_causal)
        s = nn_op(b, "add", 2,
                  (tensor_id[]){s, causal_mask(b, nn_dim(b, q, rank - 2), nn_dim(b, k, rank - 2))},
                  NULL, NULL);
    tensor_id p = nn_call(b, "softmax", 1, &s, NULL, 1, &last);
    p = nn_dropout(b, p, dropout);
    return nn_op(b, "matmul", 2, (tensor_id[]){p, in[2]}, NULL, NULL);
}

tensor_id nn_attention(struct nn_builder *b, tensor_id q, tensor_id k, tensor_id v, tensor_id mask,
                       bool is_causal, double dropout)
{
    struct mark m = layer_begin(b, "");
    tensor_id in[4] = {q, k, v, mask}, y;
    struct ops_value causal = {"causal", .integer = is_causal};
    nn_journal_begin(b);
    if (!b->mode.is_training || !(dropout > 0))
        y = nn_call(b, "attention", mask.v ? 4 : 3, in, NULL, 1, &causal);
    else
        y = attention_by_hand(b, in, mask, is_causal, dropout);
    nn_journal_end(b);
    nn_journal_note(b, "scaled_dot_product_attention", mask.v ? 4 : 3, in, y, dropout, is_causal);
    return layer_end(b, m, "", "attention", y);
}
