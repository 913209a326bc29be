/* onnx_write_layers.c - layers of ours as nodes of an ONNX file: windows, products, norms, attention, recurrence. To
 * add one: a row. */
#include <math.h>
#include <string.h>

#include "nn/onnx_write.h"

/* ---- layers ----------------------------------------------------------------------------------- */

static void put_window(struct nn_put *w, size_t nd, const int64_t *kernel, bool has_dilation)
{
    int64_t stride[3], pads[6], dilation[3];
    nn_put_list(w, "stride", nd, 1, stride);
    nn_put_list(w, "padding", nd, 0, pads);
    nn_put_list(w, "dilation", nd, 1, dilation);
    memcpy(pads + nd, pads, nd * sizeof *pads);
    onnx_write_ints(w->w, "kernel_shape", kernel, nd);
    onnx_write_ints(w->w, "strides", stride, nd);
    onnx_write_ints(w->w, "pads", pads, 2 * nd);
    if (has_dilation)
        onnx_write_ints(w->w, "dilations", dilation, nd);
}

static void conv(struct nn_put *w)
{
    bool is_transposed = strncmp(w->n->what, "conv_transpose", 14) == 0;
    const struct tensor_view *k = nn_put_view(w, w->n->in[1]);
    size_t nd = (size_t)k->rank - 2;
    int64_t more[3];
    nn_put_begin(w, is_transposed ? "ConvTranspose" : "Conv", nn_put_in(w, 0), nn_put_in(w, 1),
                 w->n->in_count > 2 ? nn_put_in(w, 2) : NULL, nn_put_out(w, 0));
    put_window(w, nd, k->dims + 2, true);
    onnx_write_int(w->w, "group", nn_put_integer(w, "groups", 1));
    if (is_transposed) {
        nn_put_list(w, "output_padding", nd, 0, more);
        onnx_write_ints(w->w, "output_padding", more, nd);
    }
    onnx_write_end(w->w);
}

static void pool(struct nn_put *w)
{
    bool is_max = *w->n->what == 'm';
    size_t nd = (size_t)nn_put_view(w, w->n->in[0])->rank - 2;
    int64_t kernel[3];
    nn_put_list(w, "kernel", nd, 1, kernel);
    if (!ebb_doc_get(w->attr, "stride"))
        nn_put_fail(w, "a pool without a stride");
    nn_put_begin(w, is_max ? "MaxPool" : "AveragePool", nn_put_in(w, 0), NULL, NULL,
                 nn_put_out(w, 0));
    put_window(w, nd, kernel, is_max);
    onnx_write_int(w->w, "ceil_mode", ebb_doc_bool(w->attr, "ceil_mode", false));
    if (!is_max)
        onnx_write_int(w->w, "count_include_pad", ebb_doc_bool(w->attr, "count_include_pad", true));
    onnx_write_end(w->w);
}

static void adaptive(struct nn_put *w)
{
    const struct tensor_view *x = nn_put_view(w, w->n->in[0]), *y = nn_put_view(w, w->n->out[0]);
    int64_t kernel[2];
    if (y->dims[2] == 1 && y->dims[3] == 1) {
        nn_put_last(w, "GlobalAveragePool", nn_put_in(w, 0), NULL, NULL);
        return;
    }
    for (int d = 0; d < 2; d++) {
        kernel[d] = x->dims[2 + d] / y->dims[2 + d];
        if (x->dims[2 + d] % y->dims[2 + d])
            nn_put_fail(w, "adaptive_avg_pool2d to a size that does not divide that of the image");
    }
    nn_put_begin(w, "AveragePool", nn_put_in(w, 0), NULL, NULL, nn_put_out(w, 0));
    onnx_write_ints(w->w, "kernel_shape", kernel, 2);
    onnx_write_ints(w->w, "strides", kernel, 2);
    onnx_write_end(w->w);
}

static void upsample(struct nn_put *w)
{
    bool is_linear = strstr(w->n->what, "bilinear") != NULL;
    bool is_corners = ebb_doc_bool(w->attr, "align_corners", false);
    const char *how = !is_linear ? "asymmetric" : is_corners ? "align_corners" : "half_pixel";
    const struct tensor_view *x = nn_put_view(w, w->n->in[0]), *y = nn_put_view(w, w->n->out[0]);
    float scales[4] = {1, 1, 1, 1};
    int64_t four = 4;
    bool is_exact = true;
    for (int d = 2; d < 4; d++) {
        scales[d] = (float)y->dims[d] / (float)x->dims[d];
        is_exact &= (int64_t)floor((double)x->dims[d] * (double)scales[d]) == y->dims[d] &&
                    onnx_resize_fits(how, !is_linear, (double)scales[d], x->dims[d], y->dims[d]);
    }
    w->needs_fixed |= !is_exact && w->large;
    const char *by =
        is_exact ? nn_put_constant(w, ONNX_FLOAT, 1, &four, scales, sizeof scales) : "";
    const char *to = is_exact ? NULL : nn_put_ints(w, y->dims, 4);
    onnx_write_node(w->w, "Resize");
    onnx_write_in(w->w, nn_put_in(w, 0));
    onnx_write_in(w->w, "");
    onnx_write_in(w->w, by);
    if (to)
        onnx_write_in(w->w, to);
    onnx_write_out(w->w, nn_put_out(w, 0));
    onnx_write_text(w->w, "mode", is_linear ? "linear" : "nearest");
    onnx_write_text(w->w, "coordinate_transformation_mode", how);
    if (!is_linear)
        onnx_write_text(w->w, "nearest_mode", "floor");
    onnx_write_end(w->w);
}

static void linear(struct nn_put *w)
{
    const char *bias = w->n->in_count > 2 ? nn_put_in(w, 2) : NULL;
    if (nn_put_view(w, w->n->in[0])->rank == 2) {
        nn_put_begin(w, "Gemm", nn_put_in(w, 0), nn_put_in(w, 1), bias, nn_put_out(w, 0));
        onnx_write_int(w->w, "transB", 1);
        onnx_write_end(w->w);
        return;
    }
    const char *turned = nn_put_swapped(w, nn_put_in(w, 1), 2);
    if (!bias) {
        nn_put_last(w, "MatMul", nn_put_in(w, 0), turned, NULL);
        return;
    }
    nn_put_last(w, "Add", nn_put_node(w, "MatMul", nn_put_in(w, 0), turned), bias, NULL);
}

static void matmul(struct nn_put *w)
{
    const char *a = nn_put_in(w, 0), *b = nn_put_in(w, 1);
    if (ebb_doc_bool(w->attr, "ta", false))
        a = nn_put_swapped(w, a, nn_put_view(w, w->n->in[0])->rank);
    if (ebb_doc_bool(w->attr, "tb", false))
        b = nn_put_swapped(w, b, nn_put_view(w, w->n->in[1])->rank);
    nn_put_last(w, "MatMul", a, b, NULL);
}

static void layer_norm(struct nn_put *w)
{
    const struct ebb_doc_node *shape = ebb_doc_get(w->attr, "shape");
    const char *weight = w->n->in_count > 1 ? nn_put_in(w, 1) : NULL;
    int64_t n = shape ? (int64_t)shape->count : 1;
    if (!weight)
        nn_put_fail(w, "layer_norm without weights");
    nn_put_begin(w, "LayerNormalization", nn_put_in(w, 0), weight,
                 w->n->in_count > 2 ? nn_put_in(w, 2) : NULL, nn_put_out(w, 0));
    onnx_write_int(w->w, "axis", -n);
    onnx_write_number(w->w, "epsilon", (float)nn_put_real(w, "eps", (double)1e-5f));
    onnx_write_end(w->w);
}

/* In evaluation the op comes with all five; the note behind it says nothing new. */
static void batch_norm(struct nn_put *w)
{
    onnx_write_node(w->w, "BatchNormalization");
    for (size_t i = 0; i < 5; i++)
        onnx_write_in(w->w, nn_put_in(w, i));
    onnx_write_out(w->w, nn_put_out(w, 0));
    onnx_write_number(w->w, "epsilon", (float)nn_put_real(w, "eps", (double)1e-5f));
    onnx_write_end(w->w);
}

static void instance_norm(struct nn_put *w)
{
    if (w->n->in_count != 3)
        nn_put_fail(w, "instance_norm without weights");
    nn_put_begin(w, "InstanceNormalization", nn_put_in(w, 0), nn_put_in(w, 1), nn_put_in(w, 2),
                 nn_put_out(w, 0));
    onnx_write_number(w->w, "epsilon", (float)nn_put_real(w, "eps", (double)1e-5f));
    onnx_write_end(w->w);
}

static void lrn(struct nn_put *w)
{
    nn_put_begin(w, "LRN", nn_put_in(w, 0), NULL, NULL, nn_put_out(w, 0));
    onnx_write_int(w->w, "size", nn_put_integer(w, "size", 1));
    onnx_write_number(w->w, "alpha", (float)nn_put_real(w, "alpha", (double)1e-4f));
    onnx_write_number(w->w, "beta", (float)nn_put_real(w, "beta", 0.75));
    onnx_write_number(w->w, "bias", (float)nn_put_real(w, "k", 1));
    onnx_write_end(w->w);
}

static const char *causal_mask(struct nn_put *w, int64_t tq, int64_t tk)
{
    float *mask = ebb_arena_calloc(&w->arena, (size_t)(tq * tk) + 1, sizeof *mask);
    if (!mask) {
        nn_put_fail(w, "out of memory");
        return "";
    }
    for (int64_t i = 0; i < tq * tk; i++)
        mask[i] = i % tk > i / tk + tk - tq ? -INFINITY : 0;
    const char *name = nn_put_fresh(w, "mask");
    nn_put_fixed(w, name, ONNX_FLOAT, 2, (int64_t[]){tq, tk}, mask,
                 (size_t)(tq * tk) * sizeof *mask);
    return name;
}

static void attention(struct nn_put *w)
{
    const struct tensor_view *q = nn_put_view(w, w->n->in[0]), *k = nn_put_view(w, w->n->in[1]);
    bool is_note = !w->n->def;
    bool is_causal = is_note ? w->n->second > 0 : ebb_doc_bool(w->attr, "causal", false);
    double usual = (double)(float)(1.0 / sqrt((double)q->dims[q->rank - 1]));
    double scale = is_note ? usual : nn_put_real(w, "scale", usual);
    const char *s =
        nn_put_node(w, "MatMul", nn_put_in(w, 0), nn_put_swapped(w, nn_put_in(w, 1), k->rank));
    s = nn_put_node(w, "Mul", s, nn_put_number(w, scale));
    if (w->n->in_count > 3)
        s = nn_put_node(w, "Add", s, nn_put_in(w, 3));
    if (is_causal && w->n->in_count > 3)
        nn_put_fail(w, "attention with a mask that is causal as well");
    if (is_causal)
        s = nn_put_node(w, "Add", s, causal_mask(w, q->dims[q->rank - 2], k->dims[k->rank - 2]));
    const char *p = nn_put_fresh(w, "t");
    nn_put_begin(w, "Softmax", s, NULL, NULL, p);
    onnx_write_int(w->w, "axis", -1);
    onnx_write_end(w->w);
    nn_put_last(w, "MatMul", p, nn_put_in(w, 2), NULL);
}

/* ---- recurrent -------------------------------------------------------------------------------- */

/* An item's gates in ONNX's order, after each other, as a new constant [1, rows, columns]. */
static const float *item_values(struct nn_put *w, tensor_id x)
{
    for (size_t i = 0; i < nn_item_count(&w->m->b); i++)
        if (nn_item_at(&w->m->b, i)->id.v == x.v)
            return w->values[i];
    nn_put_fail(w, "recurrent weights that are computed");
    return NULL;
}

static const char *gates(struct nn_put *w, const tensor_id *x, size_t count, int n_gates,
                         int64_t hidden)
{
    static const int lstm[4] = {0, 3, 1, 2}, gru[3] = {1, 0, 2};
    const struct tensor_view *v = nn_put_view(w, x[0]);
    int64_t columns = v->rank > 1 ? v->dims[1] : 1, rows = (int64_t)count * n_gates * hidden;
    float *all = ebb_arena_calloc(&w->arena, (size_t)(rows * columns) + 1, sizeof *all);
    for (size_t k = 0; k < count && all; k++) {
        const float *from = item_values(w, x[k]);
        for (int g = 0; from && g < n_gates; g++)
            memcpy(all + ((int64_t)k * n_gates + g) * hidden * columns,
                   from + (n_gates == 4 ? lstm[g] : gru[g]) * hidden * columns,
                   (size_t)(hidden * columns) * sizeof *all);
    }
    const char *name = nn_put_fresh(w, "constant");
    if (!all)
        nn_put_fail(w, "out of memory");
    int64_t dims[3] = {1, rows, columns};
    onnx_write_initializer(w->w, name, ONNX_FLOAT, v->rank > 1 ? 3 : 2, dims, all,
                           (size_t)(rows * columns) * sizeof *all);
    return name;
}

static void recurrent(struct nn_put *w)
{
    bool is_lstm = *w->n->what == 'l';
    int n_gates = is_lstm ? 4 : 3;
    size_t first = is_lstm ? 3 : 2;
    bool has_bias = w->n->in_count > first + 2;
    int64_t hidden = nn_put_view(w, w->n->in[1])->dims[2];
    const char *wi = gates(w, w->n->in + first, 1, n_gates, hidden);
    const char *wh = gates(w, w->n->in + first + 1, 1, n_gates, hidden);
    const char *bias = has_bias ? gates(w, w->n->in + first + 2, 2, n_gates, hidden) : "";
    const char *y = nn_put_fresh(w, "t");
    onnx_write_node(w->w, is_lstm ? "LSTM" : "GRU");
    onnx_write_in(w->w, nn_put_in(w, 0));
    onnx_write_in(w->w, wi);
    onnx_write_in(w->w, wh);
    onnx_write_in(w->w, bias);
    onnx_write_in(w->w, "");
    onnx_write_in(w->w, nn_put_in(w, 1));
    if (is_lstm)
        onnx_write_in(w->w, nn_put_in(w, 2));
    onnx_write_out(w->w, y);
    for (size_t i = 1; i < w->n->out_count; i++)
        onnx_write_out(w->w, nn_put_out(w, i));
    onnx_write_int(w->w, "hidden_size", hidden);
    if (!is_lstm)
        onnx_write_int(w->w, "linear_before_reset", 1);
    onnx_write_end(w->w);
    nn_put_last(w, "Squeeze", y, nn_put_ints(w, (int64_t[]){1}, 1), NULL);
}

/* ---- rows ------------------------------------------------------------------------------------- */

const struct nn_put_row nn_put_layer_rows[] = {
    {"conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d", conv},
    {"max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d", pool},
    {"adaptive_avg_pool2d", adaptive},
    {"upsample_nearest2d upsample_bilinear2d", upsample},
    {"linear", linear},
    {"matmul", matmul},
    {"layer_norm", layer_norm},
    {"batch_norm", batch_norm},
    {"instance_norm", instance_norm},
    {"lrn", lrn},
    {"attention scaled_dot_product_attention", attention},
    {"lstm gru", recurrent},
    {NULL, NULL},
};
