/* onnx_layers.c - ops of ONNX with weights or windows: convolutions, pools, products, normalisations,
 * recurrent layers, dropout, losses. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/onnx.h"

/* ---- what tables show ------------------------------------------------------------------------- */

/* The layer whose weight is input `weight` of the node. */
static void list_layer(struct nn_onnx_build *o, const char *kind, size_t weight, size_t items,
                       uint32_t first_node, tensor_id out)
{
    uint32_t value = nn_onnx_has(o, weight) ? o->node->in[weight] : ONNX_NONE;
    const struct onnx_node *turned = nn_onnx_made(o, value, "Transpose");
    const struct nn_onnx_weight *w = nn_onnx_weight(o, turned ? turned->in[0] : value);
    const struct nn_item *item = w ? nn_item_find(o->b, w->tensor->name) : NULL;
    char name[256];
    if (!item || !nn_onnx_ok(o))
        return;
    const char *dot = strrchr(item->name, '.');
    snprintf(name, sizeof name, "%.*s", dot ? (int)(dot - item->name) : (int)strlen(item->name),
             item->name);
    uint32_t first = (uint32_t)(item - nn_item_at(o->b, 0)), end = first + 1;
    const struct nn_item *next = items > 1 ? nn_item_at(o->b, end) : NULL;
    if (next && dot && strncmp(next->name, item->name, (size_t)(dot - item->name) + 1) == 0)
        end++; /* its bias */
    nn_layer_list(o->b, name, kind, out, first_node, first, end);
}

static uint32_t here(const struct nn_onnx_build *o)
{
    return tensor_node_count(o->b->session);
}

/* ---- windows ---------------------------------------------------------------------------------- */

/* Padding that differs on the two sides is made before; *w has none then. */
static tensor_id pad_before(struct nn_onnx_build *o, tensor_id x, struct onnx_window *w,
                            double value)
{
    int64_t pads[2 * TENSOR_RANK];
    bool is_even = true;
    for (int d = 0; d < w->nd; d++)
        is_even &= w->before[d] == w->after[d];
    if (is_even)
        return x;
    for (int d = 0; d < w->nd; d++) {
        pads[2 * d] = w->before[w->nd - 1 - d];
        pads[2 * d + 1] = w->after[w->nd - 1 - d];
    }
    memset(w->before, 0, sizeof w->before);
    memset(w->after, 0, sizeof w->after);
    struct ops_value values[] = {{"pad", .ints = pads, .count = 2 * w->nd},
                                 {"value", .number = value}};
    return nn_call(o->b, "pad", 1, &x, NULL, 2, values);
}

static bool read_window(struct nn_onnx_build *o, tensor_id x, const int64_t *kernel,
                        struct onnx_window *w)
{
    struct tensor_view v = nn_onnx_view(o, x);
    struct ebb_error err;
    if (v.rank < 3 || v.rank > 5) {
        nn_onnx_wrong(o, "images have 1 to 3 dimensions of places, found %d", v.rank - 2);
        return false;
    }
    enum ebb_status status = onnx_window_read(o->node, v.rank - 2, v.dims + 2, kernel, w, &err);
    if (status != EBB_OK)
        nn_onnx_pass(o, status, &err);
    return status == EBB_OK;
}

static void conv(struct nn_onnx_build *o)
{
    static const char *const ops[] = {"conv1d", "conv2d", "conv3d"};
    uint32_t first = here(o);
    tensor_id in[3] = {nn_onnx_live(o, 0), nn_onnx_live(o, 1), nn_onnx_live(o, 2)};
    struct onnx_window w;
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view k = nn_onnx_view(o, in[1]);
    if (k.rank != nn_onnx_view(o, in[0]).rank) {
        nn_onnx_wrong(o, "weights of %d dimensions", k.rank);
        return;
    }
    if (!read_window(o, in[0], k.dims + 2, &w))
        return;
    in[0] = pad_before(o, in[0], &w, 0);
    struct ops_value values[] = {{"stride", .ints = w.stride, .count = w.nd},
                                 {"padding", .ints = w.before, .count = w.nd},
                                 {"dilation", .ints = w.dilation, .count = w.nd},
                                 {"groups", .integer = onnx_attr_int(o->node, "group", 1)}};
    tensor_id y = nn_call(o->b, ops[w.nd - 1], in[2].v ? 3 : 2, in, NULL, 4, values);
    list_layer(o, "conv", 1, in[2].v ? 2 : 1, first, y);
    nn_onnx_set(o, 0, y);
}

static bool spread(struct nn_onnx_build *o, const char *name, size_t n, int64_t usual, int64_t *to)
{
    struct ebb_error err;
    enum ebb_status status = onnx_attr_list(o->node, name, n, usual, usual, to, &err);
    if (status != EBB_OK)
        nn_onnx_pass(o, status, &err);
    return status == EBB_OK;
}

static void conv_transpose(struct nn_onnx_build *o)
{
    static const char *const ops[] = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};
    uint32_t first = here(o);
    tensor_id in[3] = {nn_onnx_live(o, 0), nn_onnx_live(o, 1), nn_onnx_live(o, 2)};
    int64_t stride[3], dilation[3], pads[6], more[3], zero[3] = {0};
    size_t count;
    if (!nn_onnx_ok(o))
        return;
    int nd = nn_onnx_view(o, in[0]).rank - 2;
    if (nd < 1 || nd > 3 || onnx_attr_ints(o->node, "output_shape", &count) ||
        strcmp(onnx_attr_text(o->node, "auto_pad", "NOTSET"), "NOTSET") != 0) {
        nn_onnx_fail(o, "output_shape or auto_pad: give pads and output_padding");
        return;
    }
    size_t n = (size_t)nd;
    if (!spread(o, "strides", n, 1, stride) || !spread(o, "dilations", n, 1, dilation) ||
        !spread(o, "pads", 2 * n, 0, pads) || !spread(o, "output_padding", n, 0, more))
        return;
    bool is_even = true;
    for (int d = 0; d < nd; d++)
        is_even &= pads[d] == pads[nd + d];
    struct ops_value values[] = {{"stride", .ints = stride, .count = nd},
                                 {"padding", .ints = is_even ? pads : zero, .count = nd},
                                 {"dilation", .ints = dilation, .count = nd},
                                 {"output_padding", .ints = more, .count = nd},
                                 {"groups", .integer = onnx_attr_int(o->node, "group", 1)}};
    tensor_id y = nn_call(o->b, ops[nd - 1], in[2].v ? 3 : 2, in, NULL, 5, values);
    for (int d = 0; d < nd && !is_even && nn_onnx_ok(o); d++) {
        int64_t size = nn_onnx_view(o, y).dims[2 + d];
        y = nn_slice(o->b, y, 2 + d, pads[d], size - pads[nd + d]);
    }
    list_layer(o, "transposed conv", 1, in[2].v ? 2 : 1, first, y);
    nn_onnx_set(o, 0, y);
}

static void pool(struct nn_onnx_build *o)
{
    bool is_max = *o->node->op == 'M';
    bool counts_pad = onnx_attr_int(o->node, "count_include_pad", 0) != 0;
    char name[16];
    struct onnx_window w;
    tensor_id x = nn_onnx_live(o, 0);
    if (!nn_onnx_ok(o) || !read_window(o, x, NULL, &w))
        return;
    bool is_dilated = false, is_even = true;
    for (int d = 0; d < w.nd; d++) {
        is_dilated |= w.dilation[d] > 1;
        is_even &= w.before[d] == w.after[d];
    }
    if ((!is_max && is_dilated) || (!is_max && !is_even && !counts_pad) ||
        (!is_even && w.is_ceil) || (o->node->out_count > 1 && o->node->out[1] != ONNX_NONE)) {
        nn_onnx_fail(o, "%s",
                     o->node->out_count > 1 ? "places of the maxima"
                                            : "padding of one side, or dilation, of means");
        return;
    }
    x = pad_before(o, x, &w, is_max ? -INFINITY : 0);
    snprintf(name, sizeof name, "%s_pool%dd", is_max ? "max" : "avg", w.nd);
    struct ops_value values[] = {
        {"kernel", .ints = w.kernel, .count = w.nd},
        {"stride", .ints = w.stride, .count = w.nd},
        {"padding", .ints = w.before, .count = w.nd},
        {"ceil_mode", .integer = w.is_ceil},
        is_max ? (struct ops_value){"dilation", .ints = w.dilation, .count = w.nd}
               : (struct ops_value){"count_include_pad", .integer = counts_pad}};
    tensor_id y = nn_call(o->b, name, 1, &x, NULL, 5, values);
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view v = nn_onnx_view(o, y);
    for (int d = 0; d < w.nd; d++)
        if (v.dims[2 + d] != w.out[d]) { /* torch has no windows that begin in the padding */
            nn_onnx_fail(o, "a last window that begins behind the image (ceil_mode)");
            return;
        }
    nn_onnx_set(o, 0, y);
}

static void global_pool(struct nn_onnx_build *o)
{
    bool is_max = strcmp(o->node->op, "GlobalMaxPool") == 0;
    tensor_id x = nn_onnx_live(o, 0);
    int64_t dims[TENSOR_RANK];
    if (!nn_onnx_ok(o))
        return;
    int rank = nn_onnx_view(o, x).rank;
    if (rank == 4 && !is_max) {
        nn_onnx_set(o, 0,
                    nn_op(o->b, "adaptive_avg_pool2d", 1, &x, NULL, "{\"output_size\":[1,1]}"));
        return;
    }
    for (int d = 2; d < rank; d++)
        dims[d - 2] = d;
    struct ops_value values[] = {{"keepdim", .integer = 1},
                                 {"dims", .ints = dims, .count = rank - 2}};
    if (rank < 3)
        nn_onnx_wrong(o, "%d dimensions", rank);
    else
        nn_onnx_set(o, 0, nn_call(o->b, is_max ? "amax" : "mean", 1, &x, NULL, 2, values));
}

static void lrn(struct nn_onnx_build *o)
{
    tensor_id x = nn_onnx_live(o, 0);
    struct ops_value values[] = {
        {"size", .integer = onnx_attr_int(o->node, "size", 1)},
        {"alpha", .number = onnx_attr_number(o->node, "alpha", (double)1e-4f)},
        {"beta", .number = onnx_attr_number(o->node, "beta", 0.75)},
        {"k", .number = onnx_attr_number(o->node, "bias", 1)}};
    if (!nn_onnx_ok(o))
        return;
    if (values[0].integer % 2 == 0)
        nn_onnx_fail(o, "an even size");
    else
        nn_onnx_set(o, 0, nn_call(o->b, "lrn", 1, &x, NULL, 4, values));
}

/* ---- products --------------------------------------------------------------------------------- */

/* x W^T (+ b) where the second operand is a matrix of weights, turned. NULL: it is not. */
static const struct onnx_node *turned_weight(struct nn_onnx_build *o)
{
    const struct onnx_node *t = nn_onnx_made(o, o->node->in[1], "Transpose");
    const struct nn_onnx_weight *w = t ? nn_onnx_weight(o, t->in[0]) : NULL;
    size_t count;
    const int64_t *perm = t ? onnx_attr_ints(t, "perm", &count) : NULL;
    bool is_swap = t && (!perm || (count == 2 && perm[0] == 1 && perm[1] == 0));
    return w && is_swap && w->tensor && w->tensor->rank == 2 ? t : NULL;
}

/* The one addition that reads this product, when what it adds is a vector of weights. */
static const struct onnx_node *bias_behind(struct nn_onnx_build *o, int64_t size, uint32_t *bias)
{
    uint32_t y = o->node->out[0];
    if (o->file->uses[y] != 1 || !o->file->user[y])
        return NULL;
    const struct onnx_node *add = &o->g->nodes[o->file->user[y] - 1];
    if (strcmp(add->op, "Add") != 0 || !o->file->is_known[o->file->user[y] - 1] ||
        o->file->onnx->opset < 7)
        return NULL;
    *bias = add->in[0] == y ? add->in[1] : add->in[0];
    const struct nn_onnx_weight *w = nn_onnx_weight(o, *bias);
    return w && w->tensor && w->tensor->rank == 1 && w->tensor->dims[0] == size ? add : NULL;
}

static void linear(struct nn_onnx_build *o, const struct onnx_node *turned)
{
    uint32_t first = here(o), bias = ONNX_NONE;
    tensor_id in[3] = {nn_onnx_live(o, 0), nn_onnx_live_of(o, turned->in[0])};
    if (!nn_onnx_ok(o))
        return;
    const struct onnx_node *add = bias_behind(o, nn_onnx_view(o, in[1]).dims[0], &bias);
    if (add)
        in[2] = nn_onnx_live_of(o, bias);
    tensor_id y = nn_onnx_op(o, "linear", add ? 3 : 2, in);
    list_layer(o, "linear", 1, 1, first, y);
    if (!add || !nn_onnx_ok(o)) {
        nn_onnx_set(o, 0, y);
        return;
    }
    o->values[add->out[0]] = (struct nn_onnx_value){.kind = NN_ONNX_LIVE, .id = y};
    o->is_made[add - o->g->nodes] = true;
}

static void matmul(struct nn_onnx_build *o)
{
    uint32_t first = here(o);
    const struct onnx_node *turned = turned_weight(o);
    if (turned) {
        linear(o, turned);
        return;
    }
    tensor_id in[2] = {nn_onnx_live(o, 0), nn_onnx_live(o, 1)};
    if (!nn_onnx_ok(o))
        return;
    tensor_id y = nn_onnx_op(o, "matmul", 2, in);
    list_layer(o, "linear", 1, 1, first, y);
    nn_onnx_set(o, 0, y);
}

/* y + c, which is stretched to y, not y to it. */
static tensor_id add_to(struct nn_onnx_build *o, tensor_id y, tensor_id c)
{
    struct tensor_view want = nn_onnx_view(o, y);
    y = nn_onnx_op(o, "add", 2, (tensor_id[]){y, c});
    struct tensor_view have = nn_onnx_ok(o) ? nn_onnx_view(o, y) : want;
    return tensor_same_shape(&have, &want) ? y : nn_onnx_wrong(o, "C does not fit the product");
}

static void gemm(struct nn_onnx_build *o)
{
    const struct onnx_node *n = o->node;
    uint32_t first = here(o);
    double alpha = onnx_attr_number(n, "alpha", 1), beta = onnx_attr_number(n, "beta", 1);
    bool is_whole = alpha >= 1 && alpha <= 1, is_added = beta >= 1 && beta <= 1;
    bool is_plain = is_whole && is_added;
    tensor_id in[3] = {nn_onnx_live(o, 0), nn_onnx_live(o, 1), nn_onnx_live(o, 2)};
    if (!nn_onnx_ok(o))
        return;
    if (nn_onnx_view(o, in[0]).rank != 2 || nn_onnx_view(o, in[1]).rank != 2) {
        nn_onnx_wrong(o, "matrices are needed");
        return;
    }
    if (onnx_attr_int(n, "transA", 0))
        in[0] = nn_onnx_swap_last(o, in[0]);
    if (!onnx_attr_int(n, "transB", 0))
        in[1] = nn_onnx_swap_last(o, in[1]);
    bool has_vector = in[2].v && nn_onnx_view(o, in[2]).rank == 1 &&
                      nn_onnx_view(o, in[2]).dims[0] == nn_onnx_view(o, in[1]).dims[0];
    tensor_id y = nn_onnx_op(o, "linear", is_plain && has_vector ? 3 : 2, in);
    if (!is_plain || (in[2].v && !has_vector)) {
        struct ops_value by = {"value", .number = alpha}, bias = {"value", .number = beta};
        y = is_whole ? y : nn_call(o->b, "mul_scalar", 1, &y, NULL, 1, &by);
        if (in[2].v && !is_added)
            in[2] = nn_call(o->b, "mul_scalar", 1, &in[2], NULL, 1, &bias);
        if (in[2].v && nn_onnx_ok(o))
            y = add_to(o, y, in[2]);
    }
    list_layer(o, "linear", 1, in[2].v ? 2 : 1, first, y);
    nn_onnx_set(o, 0, y);
}

/* Two operands, letters without dots, none twice in an operand: turned, multiplied, turned back. */
struct einsum {
    char in[2][TENSOR_RANK + 1], out[TENSOR_RANK + 1];
    int64_t size[128];
};

static bool read_einsum(struct nn_onnx_build *o, const tensor_id *x, struct einsum *e)
{
    const char *text = onnx_attr_text(o->node, "equation", "");
    char *to[3] = {e->in[0], e->in[1], e->out};
    int part = 0, n = 0;
    for (; *text && part < 3; text++) {
        bool is_arrow = text[0] == '-' && text[1] == '>';
        if (*text == ' ')
            continue;
        if (*text == ',' || is_arrow) {
            if (part != (is_arrow ? 1 : 0))
                return false;
            text += is_arrow;
            part++;
            n = 0;
            continue;
        }
        bool is_letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z');
        if (!is_letter || n == TENSOR_RANK || strchr(to[part], *text))
            return false;
        to[part][n++] = *text;
    }
    for (int i = 0; i < 2; i++) {
        struct tensor_view v = nn_onnx_view(o, x[i]);
        if (strlen(e->in[i]) != v.rank)
            return false;
        for (int d = 0; d < v.rank; d++)
            e->size[(int)e->in[i][d]] = v.dims[d];
    }
    for (int i = 0; i < 2; i++)
        for (const char *p = e->in[i]; *p; p++)
            if (!strchr(e->out, *p) && !strchr(e->in[1 - i], *p))
                return false; /* a sum of one operand */
    return part == 2;
}

/* Letters of operand i that are also (or not) in the other one and in the result, in its order. */
static size_t letters(const struct einsum *e, int i, bool in_other, bool in_out, char *to)
{
    size_t n = 0;
    for (const char *p = i == 0 || !in_other ? e->in[i] : e->in[0]; *p; p++)
        if (strchr(e->in[i], *p) && (strchr(e->in[1 - i], *p) != NULL) == in_other &&
            (strchr(e->out, *p) != NULL) == in_out)
            to[n++] = *p;
    to[n] = 0;
    return n;
}

static tensor_id arrange(struct nn_onnx_build *o, const struct einsum *e, tensor_id x,
                         const char *have, const char *const parts[3])
{
    int64_t dims[TENSOR_RANK], flat[3] = {1, 1, 1};
    int n = 0;
    for (int k = 0; k < 3; k++)
        for (const char *p = parts[k]; *p; p++) {
            dims[n++] = strchr(have, *p) - have;
            flat[k] *= e->size[(int)*p];
        }
    return nn_onnx_reshape(o, nn_permute(o->b, x, n, dims), 3, flat);
}

static void einsum(struct nn_onnx_build *o)
{
    struct einsum e = {.in = {"", ""}};
    tensor_id x[2] = {nn_onnx_live(o, 0), nn_onnx_live(o, 1)};
    char batch[9], sum[9], left[9], right[9], made[TENSOR_RANK * 3 + 1];
    int64_t dims[TENSOR_RANK], turn[TENSOR_RANK];
    if (!nn_onnx_ok(o))
        return;
    if (o->node->in_count != 2 || !read_einsum(o, x, &e)) {
        nn_onnx_fail(o, "equation '%s': two operands, letters without dots",
                     onnx_attr_text(o->node, "equation", ""));
        return;
    }
    letters(&e, 0, true, true, batch);
    letters(&e, 0, true, false, sum);
    letters(&e, 0, false, true, left);
    letters(&e, 1, false, true, right);
    tensor_id a = arrange(o, &e, x[0], e.in[0], (const char *const[]){batch, left, sum});
    tensor_id b = arrange(o, &e, x[1], e.in[1], (const char *const[]){batch, sum, right});
    tensor_id y = nn_onnx_op(o, "matmul", 2, (tensor_id[]){a, b});
    snprintf(made, sizeof made, "%s%s%s", batch, left, right);
    int rank = (int)strlen(made);
    for (int d = 0; d < rank; d++) {
        dims[d] = e.size[(int)made[d]];
        const char *at = strchr(made, e.out[d]);
        turn[d] = at ? at - made : 0;
    }
    if (nn_onnx_ok(o) && rank == (int)strlen(e.out))
        nn_onnx_set(o, 0, nn_permute(o->b, nn_onnx_reshape(o, y, rank, dims), rank, turn));
    else
        nn_onnx_wrong(o, "letters of the result");
}

/* ---- normalisations --------------------------------------------------------------------------- */

/* The name of the weight that is input i. */
static const char *weight_name(struct nn_onnx_build *o, size_t i)
{
    const struct nn_onnx_weight *w = nn_onnx_weight(o, o->node->in[i]);
    return w && w->tensor ? w->tensor->name : NULL;
}

static void batch_norm(struct nn_onnx_build *o)
{
    uint32_t first = here(o);
    float eps = (float)onnx_attr_number(o->node, "epsilon", (double)1e-5f);
    double keep = onnx_attr_number(o->node, "momentum", (double)0.9f);
    const char *mean = weight_name(o, 3), *var = weight_name(o, 4);
    tensor_id in[5], y;
    for (size_t i = 0; i < 5; i++)
        in[i] = i ? nn_onnx_live(o, i) : nn_low(o->b, nn_onnx_live(o, i));
    if (!nn_onnx_ok(o))
        return;
    bool is_training = o->b->mode.is_training && o->options->batch_norm == NN_ONNX_TRAIN && mean &&
                       var && !nn_is_frozen(o->b, mean);
    if (is_training) {
        tensor_id running[3] = {in[3], in[4], TENSOR_NONE};
        y = ops_batch_norm_train(o->b->session, in[0], in[1], in[2], running, (float)(1 - keep),
                                 eps);
        nn_replace(o->b, mean, running[0]);
        nn_replace(o->b, var, running[1]);
        nn_journal_note(o->b, "batch_norm", 3, in, y, (double)eps, 1 - keep);
    } else {
        struct ops_value values[] = {{"training", .integer = 0}, {"eps", .number = (double)eps}};
        y = nn_call(o->b, "batch_norm", 5, in, NULL, 2, values);
    }
    list_layer(o, "batch norm", 1, 1, first, y);
    nn_onnx_set(o, 0, y);
}

static void instance_norm(struct nn_onnx_build *o)
{
    tensor_id in[3] = {nn_onnx_live(o, 0), nn_onnx_live(o, 1), nn_onnx_live(o, 2)};
    struct ops_value eps = {"eps", .number = onnx_attr_number(o->node, "epsilon", (double)1e-5f)};
    if (nn_onnx_ok(o))
        nn_onnx_set(o, 0, nn_call(o->b, "instance_norm", 3, in, NULL, 1, &eps));
}

/* Before version 21 a weight is that of a group: one for each of its channels. */
static void group_norm(struct nn_onnx_build *o)
{
    tensor_id in[3] = {nn_onnx_live(o, 0), nn_onnx_live(o, 1), nn_onnx_live(o, 2)};
    int64_t groups = onnx_attr_int(o->node, "num_groups", 0);
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view v = nn_onnx_view(o, in[0]);
    if (v.rank < 3 || groups < 1 || v.dims[1] % groups) {
        nn_onnx_wrong(o, "channels in %" PRId64 " groups", groups);
        return;
    }
    int64_t wide[2] = {groups, v.dims[1] / groups};
    struct ops_value shape = {"shape", .ints = wide, .count = 2};
    for (int i = 1; i < 3 && o->file->onnx->opset < 21 && nn_onnx_ok(o); i++) {
        tensor_id column = nn_onnx_reshape(o, in[i], 2, (int64_t[]){groups, 1});
        column = nn_call(o->b, "expand", 1, &column, NULL, 1, &shape);
        in[i] = nn_onnx_ok(o) ? nn_onnx_reshape(o, column, 1, &v.dims[1]) : column;
    }
    struct ops_value values[] = {
        {"groups", .integer = groups},
        {"eps", .number = onnx_attr_number(o->node, "epsilon", (double)1e-5f)}};
    if (nn_onnx_ok(o))
        nn_onnx_set(o, 0, nn_call(o->b, "group_norm", 3, in, NULL, 2, values));
}

static void layer_norm(struct nn_onnx_build *o)
{
    uint32_t first = here(o);
    tensor_id in[3] = {nn_onnx_live(o, 0), nn_onnx_live(o, 1), nn_onnx_live(o, 2)};
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view v = nn_onnx_view(o, in[0]);
    int64_t axis = onnx_attr_int(o->node, "axis", -1);
    axis = axis < 0 ? axis + v.rank : axis;
    bool is_used = (o->node->out_count > 1 && o->node->out[1] != ONNX_NONE) ||
                   (o->node->out_count > 2 && o->node->out[2] != ONNX_NONE);
    if (axis < 0 || axis >= v.rank || is_used) {
        nn_onnx_fail(o, "axis, or mean and deviation as results");
        return;
    }
    struct ops_value values[] = {
        {"shape", .ints = v.dims + axis, .count = v.rank - (int)axis},
        {"eps", .number = onnx_attr_number(o->node, "epsilon", (double)1e-5f)}};
    tensor_id y = nn_call(o->b, "layer_norm", in[2].v ? 3 : 2, in, NULL, 2, values);
    list_layer(o, "layer norm", 1, in[2].v ? 2 : 1, first, y);
    nn_onnx_set(o, 0, y);
}

static void dropout(struct nn_onnx_build *o)
{
    double ratio = onnx_attr_number(o->node, "ratio", 0.5), is_training = 1;
    tensor_id x = nn_onnx_live(o, 0);
    if (nn_onnx_has(o, 1) && !nn_onnx_scalar(o, o->node->in[1], &ratio))
        nn_onnx_fail(o, "a ratio that depends on data");
    if (nn_onnx_has(o, 2) && !nn_onnx_scalar(o, o->node->in[2], &is_training))
        is_training = 1;
    if (nn_onnx_ok(o) && !(ratio >= 0 && ratio < 1))
        nn_onnx_wrong(o, "a ratio of %g", ratio);
    if (nn_onnx_ok(o))
        nn_onnx_set(o, 0, nn_dropout(o->b, x, is_training > 0 ? ratio : 0));
}

/* ---- recurrent -------------------------------------------------------------------------------- */

/* Direction d of a stacked tensor, its gates of `hidden` rows in torch's order. */
static tensor_id gates_of(struct nn_onnx_build *o, tensor_id x, int64_t d, int64_t from,
                          int64_t hidden, int gates)
{
    static const int lstm[4] = {0, 2, 3, 1}, gru[3] = {1, 0, 2}; /* iofc to ifco, zrh to rzn */
    tensor_id parts[4];
    x = nn_slice(o->b, x, 0, d, d + 1);
    if (!nn_onnx_ok(o))
        return TENSOR_NONE;
    struct tensor_view v = nn_onnx_view(o, x);
    for (int g = 0; g < gates; g++) {
        int64_t at = from + (gates == 4 ? lstm[g] : gru[g]) * hidden;
        parts[g] = nn_slice(o->b, x, 1, at, at + hidden);
    }
    tensor_id y = nn_cat(o->b, (size_t)gates, parts, 1);
    int64_t flat[2] = {gates * hidden, v.rank > 2 ? v.dims[2] : 1};
    return nn_onnx_ok(o) ? nn_onnx_reshape(o, y, v.rank - 1, flat) : y;
}

static tensor_id backwards(struct nn_onnx_build *o, tensor_id x)
{
    int64_t steps = nn_onnx_view(o, x).dims[0], places[4096];
    struct ebb_error err;
    struct onnx_value index;
    for (int64_t i = 0; i < steps && i < 4096; i++)
        places[i] = steps - 1 - i;
    if (steps > 4096 || onnx_value_ints(&o->eval, 1, places, steps, &index, &err) != EBB_OK)
        return nn_onnx_fail(o, "%" PRId64 " steps backwards", steps);
    tensor_id in[2] = {x, nn_onnx_constant(o, &index)};
    struct ops_value dim = {"dim", .integer = 0};
    return nn_call(o->b, "index_select", 2, in, NULL, 1, &dim);
}

static tensor_id first_state(struct nn_onnx_build *o, size_t i, int64_t d, int64_t batch,
                             int64_t hidden)
{
    int64_t dims[3] = {1, batch, hidden};
    struct ops_value zeros[] = {{"shape", .ints = dims, .count = 3}, {"value", .number = 0}};
    if (!nn_onnx_has(o, i))
        return nn_call(o->b, "full", 0, NULL, NULL, 2, zeros);
    return nn_slice(o->b, nn_onnx_live(o, i), 0, d, d + 1);
}

/* Input i, where it is given, has this shape. */
static bool has_shape(struct nn_onnx_build *o, size_t i, int rank, const int64_t *dims)
{
    tensor_id x = nn_onnx_live(o, i);
    if (!nn_onnx_has(o, i) || !nn_onnx_ok(o))
        return nn_onnx_ok(o);
    struct tensor_view v = nn_onnx_view(o, x);
    bool is_same = v.rank == rank;
    for (int d = 0; is_same && d < rank; d++)
        is_same = v.dims[d] == dims[d];
    return is_same;
}

/* X [T, batch, in], W [directions, gates h, in], R, B [directions, 2 gates h], lengths, h, c */
static bool check_shapes(struct nn_onnx_build *o, int64_t dirs, int64_t gates)
{
    struct tensor_view x = nn_onnx_view(o, nn_onnx_live(o, 0)),
                       r = nn_onnx_view(o, nn_onnx_live(o, 2));
    int64_t h = r.rank == 3 ? r.dims[2] : 0, rows = gates * h;
    int64_t state[3] = {dirs, x.rank == 3 ? x.dims[1] : 0, h};
    if (x.rank == 3 && h > 0 && has_shape(o, 1, 3, (int64_t[]){dirs, rows, x.dims[2]}) &&
        has_shape(o, 2, 3, (int64_t[]){dirs, rows, h}) &&
        has_shape(o, 3, 2, (int64_t[]){dirs, 2 * rows}) && has_shape(o, 5, 3, state) &&
        has_shape(o, 6, 3, state))
        return true;
    nn_onnx_wrong(o, "weights or states do not fit each other");
    return false;
}

static bool check_recurrent(struct nn_onnx_build *o, bool is_lstm)
{
    if (onnx_attr_find(o->node, "activations") || onnx_attr_find(o->node, "clip") ||
        onnx_attr_int(o->node, "layout", 0) || onnx_attr_int(o->node, "input_forget", 0) ||
        nn_onnx_has(o, 7) || (!is_lstm && !onnx_attr_int(o->node, "linear_before_reset", 0))) {
        nn_onnx_fail(o, "only torch's form: standard activations, no peepholes, no clip, %s",
                     is_lstm ? "layout 0" : "linear_before_reset 1");
        return false;
    }
    if (nn_onnx_has(o, 4)) { /* lengths: all steps, where they are known */
        const struct onnx_value *lengths = nn_onnx_host(o, 4);
        int64_t steps = nn_onnx_view(o, nn_onnx_live(o, 0)).dims[0];
        for (int64_t i = 0; lengths && i < lengths->count; i++)
            if (lengths->integer[i] != steps)
                lengths = NULL;
        if (!lengths)
            nn_onnx_fail(o, "sequences of different lengths");
    }
    return nn_onnx_ok(o);
}

static void recurrent(struct nn_onnx_build *o)
{
    bool is_lstm = *o->node->op == 'L';
    int gates = is_lstm ? 4 : 3;
    const char *direction = onnx_attr_text(o->node, "direction", "forward");
    int64_t dirs = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    tensor_id x = nn_onnx_live(o, 0), w = nn_onnx_live(o, 1), r = nn_onnx_live(o, 2);
    tensor_id y[2], h[2], c[2], out[TENSOR_PORTS];
    if (!nn_onnx_ok(o) || !check_shapes(o, dirs, gates) || !check_recurrent(o, is_lstm))
        return;
    struct tensor_view v = nn_onnx_view(o, x);
    int64_t hidden = nn_onnx_view(o, r).dims[2], steps = v.dims[0], batch = v.dims[1];
    for (int64_t d = 0; d < dirs && nn_onnx_ok(o); d++) {
        bool is_back = d == 1 || strcmp(direction, "reverse") == 0;
        tensor_id in[7], bias = nn_onnx_live(o, 3);
        size_t n = 0;
        in[n++] = is_back ? backwards(o, x) : x;
        in[n++] = first_state(o, 5, d, batch, hidden);
        if (is_lstm)
            in[n++] = first_state(o, 6, d, batch, hidden);
        in[n++] = gates_of(o, w, d, 0, hidden, gates);
        in[n++] = gates_of(o, r, d, 0, hidden, gates);
        for (int k = 0; bias.v && k < 2; k++)
            in[n++] = gates_of(o, bias, d, k * gates * hidden, hidden, gates);
        if (!nn_onnx_ok(o))
            return;
        y[d] = nn_call(o->b, is_lstm ? "lstm" : "gru", n, in, out, 0, NULL);
        h[d] = out[1];
        c[d] = is_lstm ? out[2] : out[1];
        if (is_back && nn_onnx_ok(o))
            y[d] = backwards(o, y[d]);
        if (nn_onnx_ok(o))
            y[d] = nn_onnx_reshape(o, y[d], 4, (int64_t[]){steps, 1, batch, hidden});
    }
    if (!nn_onnx_ok(o))
        return;
    nn_onnx_set(o, 0, dirs > 1 ? nn_cat(o->b, 2, y, 1) : y[0]);
    nn_onnx_set(o, 1, dirs > 1 ? nn_cat(o->b, 2, h, 0) : h[0]);
    if (is_lstm)
        nn_onnx_set(o, 2, dirs > 1 ? nn_cat(o->b, 2, c, 0) : c[0]);
}

/* ---- losses ----------------------------------------------------------------------------------- */

static void loss(struct nn_onnx_build *o)
{
    bool is_entropy = *o->node->op == 'S';
    tensor_id in[3] = {nn_onnx_live(o, 0), nn_onnx_live(o, 1), nn_onnx_live(o, 2)};
    struct ops_value values[] = {
        {"reduction", .text = onnx_attr_text(o->node, "reduction", "mean")},
        {"ignore_index", .integer = onnx_attr_int(o->node, "ignore_index", -100)}};
    if (!nn_onnx_ok(o))
        return;
    if (o->node->out_count > 1 && o->node->out[1] != ONNX_NONE && o->file->uses[o->node->out[1]]) {
        nn_onnx_fail(o, "log-probabilities as a second result");
        return;
    }
    nn_onnx_set(o, 0,
                nn_call(o->b, is_entropy ? "cross_entropy" : "nll_loss", in[2].v ? 3 : 2, in, NULL,
                        2, values));
}

/* ---- rows ------------------------------------------------------------------------------------- */

const struct nn_onnx_row nn_onnx_layer_rows[] = {
    {"Conv", conv, NULL},
    {"ConvTranspose", conv_transpose, NULL},
    {"MaxPool", pool, NULL},
    {"AveragePool", pool, NULL},
    {"GlobalAveragePool", global_pool, NULL},
    {"GlobalMaxPool", global_pool, NULL},
    {"LRN", lrn, NULL},
    {"MatMul", matmul, NULL},
    {"Gemm", gemm, NULL},
    {"Einsum", einsum, NULL},
    {"BatchNormalization", batch_norm, NULL},
    {"InstanceNormalization", instance_norm, NULL},
    {"GroupNormalization", group_norm, NULL},
    {"LayerNormalization", layer_norm, NULL},
    {"Dropout", dropout, NULL},
    {"LSTM", recurrent, NULL},
    {"GRU", recurrent, NULL},
    {"NegativeLogLikelihoodLoss", loss, NULL},
    {"SoftmaxCrossEntropyLoss", loss, NULL},
    {NULL, NULL, NULL},
};
