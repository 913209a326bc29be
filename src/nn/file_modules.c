/* file_modules.c - what a model file may put under `modules`: torch's classes, with their parameters,
 * the items their constructors make, and what a call does. To add one: a row, and its functions. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/file.h"

#define BOTH_INITS ", init=, bias_init="

/* ---- initial values --------------------------------------------------------------------------- */

static enum nn_init_kind kind_of(const char *word)
{
    return strcmp(word, "uniform") == 0  ? NN_UNIFORM
           : strcmp(word, "normal") == 0 ? NN_NORMAL
                                         : NN_CONSTANT;
}

static struct nn_init from_rule(struct nn_eval *e, const struct nn_file_init *r, int rank,
                                const int64_t *dims)
{
    double area = 1;
    for (int d = 2; d < rank; d++)
        area *= (double)dims[d];
    double in = rank > 1 ? (double)dims[1] * area : 1;
    double out = rank > 0 ? (double)dims[0] * area : 1;
    double fan = r->is_fan_out ? out : in;
    if (strcmp(r->rule, "constant") == 0)
        return nn_init_constant((float)r->a);
    if (strcmp(r->rule, "uniform") == 0)
        return (struct nn_init){
            .is_given = true, .kind = NN_UNIFORM, .a = (float)r->a, .b = (float)r->b};
    if (strcmp(r->rule, "normal") == 0)
        return (struct nn_init){
            .is_given = true, .kind = NN_NORMAL, .a = (float)r->a, .b = (float)r->b};
    if (rank < 2) {
        nn_eval_fail(e, "%s: values of one dimension have no fan", r->rule);
        return nn_init_constant(0);
    }
    if (strcmp(r->rule, "kaiming_normal") == 0)
        return nn_init_normal(sqrt(2.0 / fan));
    if (strcmp(r->rule, "kaiming_uniform") == 0)
        return nn_init_uniform((float)sqrt(6.0 / fan));
    if (strcmp(r->rule, "xavier_normal") == 0)
        return nn_init_normal(sqrt(2.0 / (in + out)));
    return nn_init_uniform((float)sqrt(6.0 / (in + out)));
}

static struct nn_init initial_values(struct nn_eval *e, const struct nn_value *v, int rank,
                                     const int64_t *dims, struct nn_init standard)
{
    if (v->kind == NN_VALUE_NONE)
        return standard;
    if (v->kind != NN_VALUE_INIT) {
        nn_eval_fail(e, "initial values are %s, allowed: normal(), uniform(), zeros() and so on",
                     nn_value_noun(v));
        return standard;
    }
    struct nn_init init = from_rule(e, v->init, rank, dims);
    if (v->init->over)
        init = nn_init_again(init, kind_of(v->init->over));
    else if (standard.is_given)
        init = nn_init_again(init, standard.kind);
    if (v->init->copy) {
        const struct nn_item *item = nn_item_find(e->b, v->init->copy);
        if (!item)
            nn_eval_fail(e, "copy: there is no '%s' yet", v->init->copy);
        else
            init.copy_of = (uint32_t)(item - nn_item_at(e->b, 0)) + 1;
    }
    return init;
}

static void make_item(const struct nn_call *c, const char *name, enum nn_role role, int rank,
                      const int64_t *dims, size_t init, struct nn_init standard)
{
    static const struct nn_value none = {0};
    for (int d = 0; d < rank; d++)
        if (dims[d] < 1) {
            nn_eval_fail(c->e, "%s: a size is %" PRId64 ", allowed: at least 1", c->name, dims[d]);
            return;
        }
    const struct nn_value *given = init < c->count ? &c->args[init] : &none;
    size_t before = nn_item_count(c->e->b);
    nn_parameter(c->e->b, name, role, rank, dims,
                 initial_values(c->e, given, rank, dims, standard));
    if (nn_eval_ok(c->e) && nn_item_count(c->e->b) == before)
        nn_eval_fail(c->e, "another module has a tensor '%s' of this name already", name);
}

/* An argument of torch's that has only one value here. */
static void only(const struct nn_call *c, size_t i, const char *name, bool allowed)
{
    if (nn_truth(c, i, allowed) != allowed)
        nn_eval_fail(c->e, "%s: %s=%s is not done here", c->name, name, allowed ? "False" : "True");
}

/* ---- convolutions ----------------------------------------------------------------------------- */

static void spread(const struct nn_call *c, size_t i, int nd, int64_t fallback, int64_t least,
                   int64_t to[3])
{
    int64_t v[3] = {fallback, fallback, fallback};
    size_t n = nn_given(c, i) ? nn_ints_of(c, &c->args[i], v, (size_t)nd) : 1;
    if (n != 1 && n != (size_t)nd)
        nn_eval_fail(c->e, "%s: %zu numbers for %d dimensions", c->name, n, nd);
    for (int d = 0; d < nd; d++) {
        to[d] = n == 1 ? v[0] : v[d];
        if (to[d] < least)
            nn_eval_fail(c->e, "%s: found %" PRId64 ", allowed: at least %" PRId64, c->name, to[d],
                         least);
    }
}

enum { C_IN, C_OUT, C_KERNEL, C_STRIDE, C_PAD };
/* Conv: dilation, groups, bias; transposed ones: output_padding, groups, bias, dilation. */
static struct nn_conv conv_of(const struct nn_call *c)
{
    bool is_transposed = strncmp(c->name, "ConvTranspose", 13) == 0;
    struct nn_conv v = {.nd = c->name[strlen(c->name) - 2] - '0', .is_transposed = is_transposed};
    v.out = nn_int(c, C_OUT, 1);
    spread(c, C_KERNEL, v.nd, 1, 1, v.k);
    spread(c, C_STRIDE, v.nd, 1, 1, v.stride);
    spread(c, is_transposed ? 8 : 5, v.nd, 1, 1, v.dilation);
    bool is_text = nn_given(c, C_PAD) && c->args[C_PAD].kind == NN_VALUE_TEXT && !is_transposed;
    if (!is_text)
        spread(c, C_PAD, v.nd, 0, 0, v.pad);
    else if (strcmp(c->args[C_PAD].text, "same") == 0)
        for (int d = 0; d < v.nd; d++) {
            int64_t both =
                v.dilation[d] < NN_FILE_SIZE && v.k[d] < 1 << 20 ? v.dilation[d] * (v.k[d] - 1) : 1;
            v.pad[d] = both / 2;
            if (both % 2 || v.stride[d] != 1)
                nn_eval_fail(c->e, "%s: padding='same' is for stride 1 and as much on both sides",
                             c->name);
        }
    else if (strcmp(c->args[C_PAD].text, "valid") != 0)
        nn_eval_fail(c->e, "%s: padding is a number, 'same' or 'valid'", c->name);
    if (is_transposed) {
        int64_t output_padding[3];
        spread(c, 5, v.nd, 0, 0, output_padding);
        v.output_padding = output_padding[0];
        for (int d = 1; d < v.nd; d++)
            if (output_padding[d] != output_padding[0])
                nn_eval_fail(c->e, "%s: output_padding is one number here", c->name);
    }
    if (is_transposed && (v.dilation[0] > 1 || v.dilation[1] > 1 || v.dilation[2] > 1))
        nn_eval_fail(c->e, "%s: dilation of transposed convolutions is 1 here", c->name);
    v.groups = nn_int(c, 6, 1);
    v.has_bias = nn_truth(c, 7, true);
    if (v.groups < 1 || nn_int(c, C_IN, 1) % v.groups || v.out % v.groups)
        nn_eval_fail(c->e, "%s: %" PRId64 " to %" PRId64 " channels in %" PRId64 " groups", c->name,
                     nn_int(c, C_IN, 1), v.out, v.groups);
    return v;
}

static void conv_declare(const struct nn_call *c)
{
    struct nn_conv v = conv_of(c);
    int64_t in = nn_int(c, C_IN, 1), area = 1;
    size_t inits = v.is_transposed ? 9 : 8;
    if (!nn_eval_ok(c->e))
        return;
    int64_t dims[5] = {v.is_transposed ? in : v.out, (v.is_transposed ? v.out : in) / v.groups};
    for (int d = 0; d < v.nd; d++) {
        dims[d + 2] = v.k[d];
        if (__builtin_mul_overflow(area, v.k[d], &area) || area > NN_FILE_SIZE / dims[1]) {
            nn_eval_fail(c->e, "%s: weights are too many", c->name);
            return;
        }
    }
    struct nn_init standard = nn_init_default(dims[1] * area);
    make_item(c, "weight", NN_WEIGHT, v.nd + 2, dims, inits, standard);
    if (v.has_bias)
        make_item(c, "bias", NN_BIAS, 1, &v.out, inits + 1, standard);
}

/* The dimension that a layer was made for. */
static bool has_size(const struct nn_call *c, tensor_id x, int rank, int dim, int64_t want,
                     const char *what)
{
    const struct tensor_view *v = tensor_view_of(c->e->b->session, x);
    char shape[96];
    int d = dim < 0 ? v->rank + dim : dim;
    if (!nn_eval_ok(c->e))
        return false;
    if ((rank && v->rank != rank) || d < 0 || d >= v->rank) {
        nn_eval_fail(c->e, "%s takes %d dimensions, found %s", c->name, rank,
                     tensor_shape_text(v, shape, sizeof shape));
        return false;
    }
    if (v->dims[d] == want)
        return true;
    nn_eval_fail(c->e, "%s was made for %" PRId64 " %s, found %" PRId64 " in %s", c->name, want,
                 what, v->dims[d], tensor_shape_text(v, shape, sizeof shape));
    return false;
}

static struct nn_value conv_run(const struct nn_call *c, const struct nn_call *in)
{
    struct nn_conv v = conv_of(c);
    tensor_id x = nn_tensor(in, 0);
    if (!has_size(c, x, v.nd + 2, 1, nn_int(c, C_IN, 1), "channels"))
        return nn_of_tensor(TENSOR_NONE);
    return nn_of_tensor(nn_convolution(c->e->b, "", x, &v));
}

/* ---- linear, embedding ------------------------------------------------------------------------ */

static void linear_declare(const struct nn_call *c)
{
    int64_t in = nn_int(c, 0, 1), out = nn_int(c, 1, 1);
    struct nn_init standard = nn_init_default(in);
    make_item(c, "weight", NN_WEIGHT, 2, (int64_t[]){out, in}, 3, standard);
    if (nn_truth(c, 2, true))
        make_item(c, "bias", NN_BIAS, 1, &out, 4, standard);
}

static struct nn_value linear_run(const struct nn_call *c, const struct nn_call *in)
{
    struct nn_dense d = {.out = nn_int(c, 1, 1), .has_no_bias = !nn_truth(c, 2, true)};
    tensor_id x = nn_tensor(in, 0);
    if (!has_size(c, x, 0, -1, nn_int(c, 0, 1), "features"))
        return nn_of_tensor(TENSOR_NONE);
    return nn_of_tensor(nn_linear(c->e->b, "", x, &d));
}

static void embedding_declare(const struct nn_call *c)
{
    int64_t dims[2] = {nn_int(c, 0, 1), nn_int(c, 1, 1)}, row = nn_int(c, 2, -1);
    static const struct nn_value none = {0};
    struct nn_init init =
        initial_values(c->e, c->count > 3 ? &c->args[3] : &none, 2, dims, nn_init_normal(1));
    if (nn_given(c, 2) && (row < 0 || row >= dims[0]))
        nn_eval_fail(c->e, "Embedding: padding_idx %" PRId64 " of %" PRId64 " rows", row, dims[0]);
    if (nn_given(c, 2) && !nn_given(c, 3))
        init.zero_row = 1 + row;
    if (dims[0] < 1 || dims[1] < 1)
        nn_eval_fail(c->e, "Embedding: sizes are at least 1");
    nn_parameter(c->e->b, "weight", NN_EMBEDDING, 2, dims, init);
}

static struct nn_value embedding_run(const struct nn_call *c, const struct nn_call *in)
{
    return nn_of_tensor(nn_embedding(c->e->b, "", nn_tensor(in, 0), nn_int(c, 0, 1),
                                     nn_int(c, 1, 1), nn_init_normal(1)));
}

/* ---- norms ------------------------------------------------------------------------------------ */

static void norm_items(const struct nn_call *c, int64_t n)
{
    make_item(c, "weight", NN_NORM, 1, &n, SIZE_MAX, nn_init_constant(1));
    make_item(c, "bias", NN_NORM, 1, &n, SIZE_MAX, nn_init_constant(0));
}

static void batch_norm_declare(const struct nn_call *c)
{
    int64_t n = nn_int(c, 0, 1);
    only(c, 3, "affine", true);
    only(c, 4, "track_running_stats", true);
    norm_items(c, n);
    nn_buffer(c->e->b, "running_mean", TENSOR_F32, 1, &n, 0);
    nn_buffer(c->e->b, "running_var", TENSOR_F32, 1, &n, 1);
    nn_buffer(c->e->b, "num_batches_tracked", TENSOR_I64, 0, NULL, 0);
}

static struct nn_value batch_norm_run(const struct nn_call *c, const struct nn_call *in)
{
    tensor_id x = nn_tensor(in, 0);
    double eps = nn_number(c, 1, 1e-5), momentum = nn_number(c, 2, 0.1);
    int rank = c->name[strlen(c->name) - 2] - '0' + 2;
    if (!nn_eval_ok(c->e))
        return nn_of_tensor(TENSOR_NONE);
    if (rank == 3 && tensor_view_of(c->e->b->session, x)->rank == 2)
        rank = 2;
    if (!has_size(c, x, rank, 1, nn_int(c, 0, 1), "channels"))
        return nn_of_tensor(TENSOR_NONE);
    if (!(eps > 0) || !(momentum > 0) || momentum > 1)
        return nn_eval_fail(c->e, "%s: eps is above 0, momentum from 0 to 1", c->name);
    return nn_of_tensor(nn_batch_norm(c->e->b, "", x, eps, momentum));
}

/* One size, alone or in a list. */
static int64_t norm_size(const struct nn_call *c)
{
    int64_t n[1] = {1};
    nn_ints_of(c, &c->args[0], n, 1);
    return n[0];
}

static void layer_norm_declare(const struct nn_call *c)
{
    only(c, 3, "bias", true);
    if (nn_truth(c, 2, true))
        norm_items(c, norm_size(c));
}

static struct nn_value layer_norm_run(const struct nn_call *c, const struct nn_call *in)
{
    tensor_id x = nn_tensor(in, 0);
    int64_t n = norm_size(c);
    if (!has_size(c, x, 0, -1, n, "features"))
        return nn_of_tensor(TENSOR_NONE);
    struct ops_value values[] = {{"shape", .ints = &n, .count = 1},
                                 {"eps", .number = nn_number(c, 1, 1e-5)}};
    return nn_of_tensor(nn_truth(c, 2, true)
                            ? nn_layer_norm(c->e->b, "", x, nn_number(c, 1, 1e-5))
                            : nn_call(c->e->b, "layer_norm", 1, &x, NULL, 2, values));
}

static void rms_norm_declare(const struct nn_call *c)
{
    int64_t n = norm_size(c);
    make_item(c, "weight", NN_NORM, 1, &n, SIZE_MAX, nn_init_constant(1));
}

static struct nn_value rms_norm_run(const struct nn_call *c, const struct nn_call *in)
{
    int64_t n = norm_size(c);
    tensor_id x = nn_tensor(in, 0);
    if (!has_size(c, x, 0, -1, n, "features"))
        return nn_of_tensor(TENSOR_NONE);
    tensor_id parts[2] = {x, nn_parameter(c->e->b, "weight", NN_NORM, 1, &n, nn_init_constant(1))};
    struct ops_value values[] = {{"shape", .ints = &n, .count = 1},
                                 {"eps", .number = nn_number(c, 1, 1e-6)}};
    return nn_of_tensor(nn_call(c->e->b, "rms_norm", 2, parts, NULL, 2, values));
}

static void group_norm_declare(const struct nn_call *c)
{
    only(c, 3, "affine", true);
    norm_items(c, nn_int(c, 1, 1));
}

static struct nn_value group_norm_run(const struct nn_call *c, const struct nn_call *in)
{
    int64_t n = nn_int(c, 1, 1);
    tensor_id x = nn_tensor(in, 0);
    if (!has_size(c, x, 0, 1, n, "channels"))
        return nn_of_tensor(TENSOR_NONE);
    tensor_id parts[3] = {x, nn_parameter(c->e->b, "weight", NN_NORM, 1, &n, nn_init_constant(1)),
                          nn_parameter(c->e->b, "bias", NN_NORM, 1, &n, nn_init_constant(0))};
    struct ops_value values[] = {{"groups", .integer = nn_int(c, 0, 1)},
                                 {"eps", .number = nn_number(c, 2, 1e-5)}};
    return nn_of_tensor(nn_call(c->e->b, "group_norm", 3, parts, NULL, 2, values));
}

static void instance_norm_declare(const struct nn_call *c)
{
    only(c, 4, "track_running_stats", false);
    if (nn_truth(c, 3, false))
        norm_items(c, nn_int(c, 0, 1));
}

static struct nn_value instance_norm_run(const struct nn_call *c, const struct nn_call *in)
{
    int64_t n = nn_int(c, 0, 1);
    tensor_id parts[3] = {nn_tensor(in, 0)};
    bool is_affine = nn_truth(c, 3, false);
    if (!has_size(c, parts[0], 0, 1, n, "channels"))
        return nn_of_tensor(TENSOR_NONE);
    if (is_affine) {
        parts[1] = nn_parameter(c->e->b, "weight", NN_NORM, 1, &n, nn_init_constant(1));
        parts[2] = nn_parameter(c->e->b, "bias", NN_NORM, 1, &n, nn_init_constant(0));
    }
    struct ops_value eps = {"eps", .number = nn_number(c, 1, 1e-5)};
    return nn_of_tensor(nn_call(c->e->b, "instance_norm", is_affine ? 3 : 1, parts, NULL, 1, &eps));
}

/* ---- recurrent -------------------------------------------------------------------------------- */

enum { R_IN, R_HIDDEN, R_LAYERS, R_BIAS, R_BATCH_FIRST, R_DROPOUT, R_BOTH };

static void recurrent_declare(const struct nn_call *c)
{
    bool is_gru = *c->name == 'G';
    int64_t layers = nn_int(c, R_LAYERS, 1), in = nn_int(c, R_IN, 1),
            hidden = nn_int(c, R_HIDDEN, 1);
    only(c, R_BIAS, "bias", true);
    only(c, R_BOTH, "bidirectional", false);
    if (layers < 1 || layers > 64 || in < 1 || hidden < 1) {
        nn_eval_fail(c->e, "%s: sizes are at least 1, layers from 1 to 64", c->name);
        return;
    }
    for (int64_t i = 0; i < layers; i++)
        nn_recurrent_items(c->e->b, is_gru, i, i ? hidden : in, hidden, NULL);
}

/* The state of a call: nothing, a tensor, or a pair of them. */
static void initial_state(const struct nn_call *c, const struct nn_call *in, int64_t batch,
                          tensor_id state[2])
{
    bool is_gru = *c->name == 'G';
    int64_t dims[3] = {nn_int(c, R_LAYERS, 1), batch, nn_int(c, R_HIDDEN, 1)};
    const struct nn_value *given = &in->args[1];
    for (int k = 0; k < (is_gru ? 1 : 2); k++) {
        const struct nn_value *v =
            given->kind == NN_VALUE_LIST && (size_t)k < given->count ? &given->items[k] : given;
        struct ops_value values[] = {{"shape", .ints = dims, .count = 3}, {"value", .number = 0}};
        if (given->kind == NN_VALUE_NONE)
            state[k] = nn_call(c->e->b, "full", 0, NULL, NULL, 2, values);
        else if (v->kind == NN_VALUE_TENSOR && (is_gru || given->kind == NN_VALUE_LIST))
            state[k] = v->tensor;
        else
            nn_eval_fail(c->e, "%s: its state is %s, allowed: %s", c->name, nn_value_noun(given),
                         is_gru ? "a tensor" : "two tensors: (h, c)");
    }
}

static struct nn_value recurrent_run(const struct nn_call *c, const struct nn_call *in)
{
    struct nn_builder *b = c->e->b;
    bool is_gru = *c->name == 'G', is_batch_first = nn_truth(c, R_BATCH_FIRST, false);
    int64_t layers = nn_int(c, R_LAYERS, 1), swap[3] = {1, 0, 2};
    tensor_id x = nn_tensor(in, 0), state[2], next[2][64], part[2];
    int kinds = is_gru ? 1 : 2;
    if (!has_size(c, x, 3, 2, nn_int(c, R_IN, 1), "features"))
        return nn_of_tensor(TENSOR_NONE);
    if (is_batch_first)
        x = nn_permute(b, x, 3, swap);
    initial_state(c, in, nn_dim(b, x, 1), state);
    for (int64_t i = 0; i < layers && nn_eval_ok(c->e); i++) {
        for (int k = 0; k < kinds; k++)
            part[k] = layers > 1 ? nn_slice(b, state[k], 0, i, i + 1) : state[k];
        x = nn_recurrent_layer(b, is_gru, i, nn_int(c, R_HIDDEN, 1), x, part);
        if (i + 1 < layers)
            x = nn_dropout(b, x, nn_number(c, R_DROPOUT, 0));
        for (int k = 0; k < kinds; k++)
            next[k][i] = part[k];
    }
    if (is_batch_first)
        x = nn_permute(b, x, 3, swap);
    if (!nn_eval_ok(c->e))
        return nn_of_tensor(TENSOR_NONE);
    struct nn_value v = {.kind = NN_VALUE_LIST, .count = 2};
    v.items = ebb_arena_calloc(c->e->arena, 4, sizeof *v.items);
    if (!v.items)
        return nn_eval_fail(c->e, "out of memory");
    v.items[0] = nn_of_tensor(x);
    for (int k = 0; k < kinds; k++)
        v.items[2 + k] =
            nn_of_tensor(layers > 1 ? nn_cat(b, (size_t)layers, next[k], 0) : next[k][0]);
    v.items[1] = is_gru
                     ? v.items[2]
                     : (struct nn_value){.kind = NN_VALUE_LIST, .items = v.items + 2, .count = 2};
    return v;
}

/* ---- attention -------------------------------------------------------------------------------- */

static void attention_declare(const struct nn_call *c)
{
    int64_t n = nn_int(c, 0, 1), heads = nn_int(c, 1, 1);
    only(c, 3, "bias", true);
    only(c, 4, "batch_first", true);
    if (n < 1 || heads < 1 || n % heads) {
        nn_eval_fail(c->e, "MultiheadAttention: %" PRId64 " features in %" PRId64 " heads", n,
                     heads);
        return;
    }
    /* the constructor draws the output projection first, and zeroes its bias afterwards */
    nn_enter(c->e->b, "out_proj");
    make_item(c, "weight", NN_WEIGHT, 2, (int64_t[]){n, n}, SIZE_MAX, nn_init_default(n));
    make_item(c, "bias", NN_BIAS, 1, &n, SIZE_MAX, nn_init_again(nn_init_constant(0), NN_UNIFORM));
    nn_pop(c->e->b);
    make_item(c, "in_proj_weight", NN_WEIGHT, 2, (int64_t[]){3 * n, n}, SIZE_MAX,
              nn_init_xavier(n, 3 * n));
    make_item(c, "in_proj_bias", NN_BIAS, 1, (int64_t[]){3 * n}, SIZE_MAX, nn_init_constant(0));
}

/* [batch, length, features]: query, and memory for keys and values (default: the query). */
static struct nn_value attention_run(const struct nn_call *c, const struct nn_call *in)
{
    struct nn_builder *b = c->e->b;
    int64_t n = nn_int(c, 0, 1), heads = nn_int(c, 1, 1);
    tensor_id x = nn_tensor(in, 0), memory = nn_given(in, 1) ? nn_tensor(in, 1) : x;
    tensor_id mask = nn_given(in, 2) ? nn_tensor(in, 2) : TENSOR_NONE;
    if (!has_size(c, x, 3, 2, n, "features") || !has_size(c, memory, 3, 2, n, "features"))
        return nn_of_tensor(TENSOR_NONE);
    if (nn_truth(in, 3, false) && nn_dim(b, x, 1) != nn_dim(b, memory, 1))
        return nn_eval_fail(
            c->e, "%s: is_causal with %" PRId64 " places that look at %" PRId64 ": give a mask",
            c->name, nn_dim(b, x, 1), nn_dim(b, memory, 1));
    tensor_id w =
        nn_parameter(b, "in_proj_weight", NN_WEIGHT, 2, (int64_t[]){3 * n, n}, nn_init_constant(0));
    tensor_id bias =
        nn_parameter(b, "in_proj_bias", NN_BIAS, 1, (int64_t[]){3 * n}, nn_init_constant(0));
    tensor_id part[3] = {TENSOR_NONE, TENSOR_NONE, TENSOR_NONE};
    nn_projections(b, n, heads, (tensor_id[]){x, memory}, w, bias, part);
    tensor_id y = nn_attention(b, part[0], part[1], part[2], mask, nn_truth(in, 3, false),
                               nn_number(c, 2, 0));
    return nn_of_tensor(nn_linear(b, "out_proj", nn_merge(b, y), &(struct nn_dense){.out = n}));
}

/* ---- parameters ------------------------------------------------------------------------------- */

static int shape_of(const struct nn_call *c, int64_t *dims)
{
    return (int)nn_ints_of(c, &c->args[0], dims, TENSOR_RANK);
}

/* The item has the name of the module itself. */
static void parameter_declare(const struct nn_call *c)
{
    static const char roles[] = "weight bias norm embedding";
    int64_t dims[TENSOR_RANK];
    int rank = shape_of(c, dims);
    const char *word = nn_word(c, 2, rank > 1 ? "weight" : "bias");
    size_t role = 0;
    if (!ebb_words_find(roles, word, strlen(word), &role))
        nn_eval_fail(c->e, "Parameter: role is '%s', allowed: weight, bias, norm, embedding", word);
    nn_pop(c->e->b);
    if (nn_eval_ok(c->e))
        make_item(c, c->e->made, (enum nn_role)role, rank, dims, 1, (struct nn_init){0});
    nn_enter(c->e->b, c->e->made);
}

static void buffer_declare(const struct nn_call *c)
{
    int64_t dims[TENSOR_RANK];
    int rank = shape_of(c, dims);
    for (int d = 0; d < rank; d++)
        if (dims[d] < 1)
            nn_eval_fail(c->e, "Buffer: a size is %" PRId64, dims[d]);
    nn_pop(c->e->b);
    if (nn_eval_ok(c->e))
        nn_buffer(c->e->b, c->e->made, TENSOR_F32, rank, dims, (float)nn_number(c, 1, 0));
    nn_enter(c->e->b, c->e->made);
}

/* ---- without items ---------------------------------------------------------------------------- */

static struct nn_value identity_run(const struct nn_call *c, const struct nn_call *in)
{
    (void)c;
    return in->args[0];
}

static struct nn_value dropout_run(const struct nn_call *c, const struct nn_call *in)
{
    double p = nn_number(c, 0, 0.5);
    if (!(p >= 0 && p < 1))
        return nn_eval_fail(c->e, "%s: p is from 0 to below 1", c->name);
    return nn_of_tensor(nn_dropout(c->e->b, nn_tensor(in, 0), p));
}

static struct nn_value flatten_run(const struct nn_call *c, const struct nn_call *in)
{
    const struct nn_value one = {.kind = NN_VALUE_INT, .integer = 1, .number = 1};
    const struct nn_value last = {.kind = NN_VALUE_INT, .integer = -1, .number = -1};
    const struct nn_value args[3] = {in->args[0], nn_given(c, 0) ? c->args[0] : one,
                                     nn_given(c, 1) ? c->args[1] : last};
    return nn_function_call(c->e, "flatten", args, NULL, 3);
}

/* The function of the same meaning, with the arguments of the constructor behind the value. */
static struct nn_value as_function(const struct nn_call *c, const struct nn_call *in)
{
    static const struct {
        const char *class, *function;
    } rows[] = {
        {"ReLU", "relu"},
        {"ReLU6", "relu6"},
        {"LeakyReLU", "leaky_relu"},
        {"ELU", "elu"},
        {"GELU", "gelu"},
        {"SiLU", "silu"},
        {"Sigmoid", "sigmoid"},
        {"Tanh", "tanh"},
        {"Softplus", "softplus"},
        {"Hardswish", "hardswish"},
        {"Hardsigmoid", "hardsigmoid"},
        {"Softmax", "softmax"},
        {"LogSoftmax", "log_softmax"},
        {"MaxPool1d", "max_pool1d"},
        {"MaxPool2d", "max_pool2d"},
        {"MaxPool3d", "max_pool3d"},
        {"AvgPool1d", "avg_pool1d"},
        {"AvgPool2d", "avg_pool2d"},
        {"AvgPool3d", "avg_pool3d"},
        {"AdaptiveAvgPool2d", "adaptive_avg_pool2d"},
        {"Upsample", "interpolate"},
        {"ZeroPad2d", "pad"},
        {"ChannelShuffle", "channel_shuffle"},
        {"LocalResponseNorm", "lrn"},
    };
    struct nn_value args[NN_FILE_NAMES];
    const char *names[NN_FILE_NAMES] = {NULL}, *name = NULL;
    char texts[NN_FILE_NAMES][NN_SIGNATURE_BYTES];
    bool is_optional, is_rest;
    size_t n = 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].class, c->name) == 0)
            name = rows[i].function;
    if (!name)
        return nn_eval_fail(c->e, "%s cannot be called", c->name);
    args[0] = in->args[0];
    const char *parameters = nn_class_find(c->name)->signature.parameters;
    for (size_t i = 0; i < c->count; i++) {
        nn_signature_at(parameters, i, texts[n], &is_optional, &is_rest);
        if (!nn_given(c, i) || strcmp(texts[n], "inplace") == 0)
            continue;
        names[n] = texts[n];
        args[n++] = c->args[i];
    }
    return nn_function_call(c->e, name, args, names, n);
}

/* ---- the table -------------------------------------------------------------------------------- */

#define CONV "in_channels, out_channels, kernel_size, stride=1, padding=0, "
#define FORWARD CONV "dilation=1, groups=1, bias=True" BOTH_INITS
#define BACKWARD CONV "output_padding=0, groups=1, bias=True, dilation=1" BOTH_INITS
#define NORM "num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True"
#define MAX_POOL                                                                                   \
    "kernel_size, stride=, padding=0, dilation=1, return_indices=False, ceil_mode=False"
#define AVG_POOL "kernel_size, stride=, padding=0, ceil_mode=False, count_include_pad=True"
#define RECURRENT                                                                                  \
    "input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0, "             \
    "bidirectional=False"

static const struct nn_class classes[] = {
    {{"Conv1d", FORWARD}, "x", conv_declare, conv_run},
    {{"Conv2d", FORWARD}, "x", conv_declare, conv_run},
    {{"Conv3d", FORWARD}, "x", conv_declare, conv_run},
    {{"ConvTranspose1d", BACKWARD}, "x", conv_declare, conv_run},
    {{"ConvTranspose2d", BACKWARD}, "x", conv_declare, conv_run},
    {{"ConvTranspose3d", BACKWARD}, "x", conv_declare, conv_run},
    {{"Linear", "in_features, out_features, bias=True" BOTH_INITS},
     "x",
     linear_declare,
     linear_run},
    {{"Embedding", "num_embeddings, embedding_dim, padding_idx=, init="},
     "x",
     embedding_declare,
     embedding_run},
    {{"BatchNorm1d", NORM}, "x", batch_norm_declare, batch_norm_run},
    {{"BatchNorm2d", NORM}, "x", batch_norm_declare, batch_norm_run},
    {{"BatchNorm3d", NORM}, "x", batch_norm_declare, batch_norm_run},
    {{"LayerNorm", "normalized_shape, eps=1e-5, elementwise_affine=True, bias=True"},
     "x",
     layer_norm_declare,
     layer_norm_run},
    {{"RMSNorm", "normalized_shape, eps=1e-6"}, "x", rms_norm_declare, rms_norm_run},
    {{"GroupNorm", "num_groups, num_channels, eps=1e-5, affine=True"},
     "x",
     group_norm_declare,
     group_norm_run},
    {{"InstanceNorm2d",
      "num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False"},
     "x",
     instance_norm_declare,
     instance_norm_run},
    {{"LSTM", RECURRENT}, "x, state=", recurrent_declare, recurrent_run},
    {{"GRU", RECURRENT}, "x, state=", recurrent_declare, recurrent_run},
    {{"MultiheadAttention", "embed_dim, num_heads, dropout=0, bias=True, batch_first=True"},
     "x, memory=, mask=, is_causal=False",
     attention_declare,
     attention_run},
    {{"Parameter", "shape, init, role="}, NULL, parameter_declare, NULL},
    {{"Buffer", "shape, value=0"}, NULL, buffer_declare, NULL},
    {{"Sequential", "*modules"}, "x", NULL, identity_run},
    {{"Identity", ""}, "x", NULL, identity_run},
    {{"Dropout", "p=0.5, inplace=False"}, "x", NULL, dropout_run},
    {{"ReLU", "inplace=False"}, "x", NULL, as_function},
    {{"ReLU6", "inplace=False"}, "x", NULL, as_function},
    {{"LeakyReLU", "negative_slope=0.01, inplace=False"}, "x", NULL, as_function},
    {{"ELU", "alpha=1, inplace=False"}, "x", NULL, as_function},
    {{"GELU", "approximate='none'"}, "x", NULL, as_function},
    {{"SiLU", "inplace=False"}, "x", NULL, as_function},
    {{"Sigmoid", ""}, "x", NULL, as_function},
    {{"Tanh", ""}, "x", NULL, as_function},
    {{"Softplus", "beta=1, threshold=20"}, "x", NULL, as_function},
    {{"Hardswish", "inplace=False"}, "x", NULL, as_function},
    {{"Hardsigmoid", "inplace=False"}, "x", NULL, as_function},
    {{"Softmax", "dim"}, "x", NULL, as_function},
    {{"LogSoftmax", "dim"}, "x", NULL, as_function},
    {{"Flatten", "start_dim=1, end_dim=-1"}, "x", NULL, flatten_run},
    {{"MaxPool1d", MAX_POOL}, "x", NULL, as_function},
    {{"MaxPool2d", MAX_POOL}, "x", NULL, as_function},
    {{"MaxPool3d", MAX_POOL}, "x", NULL, as_function},
    {{"AvgPool1d", AVG_POOL}, "x", NULL, as_function},
    {{"AvgPool2d", AVG_POOL}, "x", NULL, as_function},
    {{"AvgPool3d", AVG_POOL}, "x", NULL, as_function},
    {{"AdaptiveAvgPool2d", "output_size"}, "x", NULL, as_function},
    {{"Upsample", "size=, scale_factor=, mode='nearest', align_corners=False"},
     "x",
     NULL,
     as_function},
    {{"ZeroPad2d", "pad"}, "x", NULL, as_function},
    {{"ChannelShuffle", "groups"}, "x", NULL, as_function},
    {{"LocalResponseNorm", "size, alpha=0.0001, beta=0.75, k=1"}, "x", NULL, as_function},
};
enum { CLASSES = sizeof classes / sizeof *classes };

const struct nn_class *nn_class_find(const char *name)
{
    for (size_t i = 0; i < CLASSES; i++)
        if (strcmp(classes[i].signature.name, name) == 0)
            return &classes[i];
    return NULL;
}

const char *nn_class_name(size_t i)
{
    return i < CLASSES ? classes[i].signature.name : NULL;
}
