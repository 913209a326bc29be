/* onnx_write.c - a model as an ONNX file: the journal of its calls in evaluation, each as one or more
 * nodes (opset 17). The model is built at two batches: a size that differs is the batch. Where that
 * cannot be said in a file, all sizes are those of one batch. To add an op: a row. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "nn/file_write.h"
#include "nn/onnx.h"

struct writer {
    struct onnx_writer *w;
    struct ebb_arena arena;
    const struct nn_built *m, *large; /* large: at another batch; NULL: sizes are fixed */
    const void *const *values;        /* per item */
    struct ebb_map names;             /* handle to text */
    struct ebb_map needed;            /* handles that an output depends on */
    const struct nn_note *n, *n_large;
    const struct ebb_doc_node *attr;
    size_t next;
    bool needs_fixed;  /* sizes depend on the batch where a file has numbers */
    char problem[256]; /* "": none */
};

/* ---- names ------------------------------------------------------------------------------------ */

static void fail(struct writer *w, const char *text)
{
    if (!*w->problem)
        snprintf(w->problem, sizeof w->problem, "%s", text);
}

static const char *fresh(struct writer *w, const char *stem)
{
    const char *name = ebb_arena_printf(&w->arena, "%s_%zu", stem, w->next++);
    if (!name)
        fail(w, "out of memory");
    return name ? name : "";
}

static void bind(struct writer *w, tensor_id x, const char *name)
{
    if (ebb_map_put(&w->names, x.v, (uint64_t)(uintptr_t)name, NULL) != EBB_OK)
        fail(w, "out of memory");
}

static const char *name_of(struct writer *w, tensor_id x)
{
    uint64_t at;
    if (ebb_map_get(&w->names, x.v, &at))
        return (const char *)(uintptr_t)at;
    fail(w, "a value that no call made");
    return "";
}

static const char *in(struct writer *w, size_t i)
{
    return i < w->n->in_count ? name_of(w, w->n->in[i]) : "";
}

/* The name of result i, new. */
static const char *out(struct writer *w, size_t i)
{
    const char *name = fresh(w, "t");
    bind(w, w->n->out[i], name);
    return name;
}

static const struct tensor_view *view(const struct writer *w, tensor_id x)
{
    return tensor_view_of(w->m->s, x);
}

/* ---- constants -------------------------------------------------------------------------------- */

static const char *constant(struct writer *w, int type, int rank, const int64_t *dims,
                            const void *data, size_t bytes)
{
    const char *name = fresh(w, "constant");
    void *copy = ebb_arena_alloc(&w->arena, bytes + 1);
    if (!copy) {
        fail(w, "out of memory");
        return "";
    }
    memcpy(copy, data, bytes);
    onnx_write_initializer(w->w, name, type, rank, dims, copy, bytes);
    return name;
}

static const char *ints(struct writer *w, const int64_t *v, int64_t count)
{
    return constant(w, ONNX_INT64, 1, &count, v, (size_t)count * sizeof *v);
}

static const char *number(struct writer *w, double v)
{
    float f = (float)v;
    return constant(w, ONNX_FLOAT, 0, NULL, &f, sizeof f);
}

/* ---- nodes ------------------------------------------------------------------------------------ */

static void begin(struct writer *w, const char *op, const char *a, const char *b, const char *c,
                  const char *result)
{
    onnx_write_node(w->w, op);
    if (a)
        onnx_write_in(w->w, a);
    if (b)
        onnx_write_in(w->w, b);
    if (c)
        onnx_write_in(w->w, c);
    onnx_write_out(w->w, result);
}

/* A node without attributes; its result is new. */
static const char *node(struct writer *w, const char *op, const char *a, const char *b)
{
    const char *y = fresh(w, "t");
    begin(w, op, a, b, NULL, y);
    onnx_write_end(w->w);
    return y;
}

static void last(struct writer *w, const char *op, const char *a, const char *b, const char *c)
{
    begin(w, op, a, b, c, out(w, 0));
    onnx_write_end(w->w);
}

static const char *transposed(struct writer *w, const char *x, int rank, const int64_t *perm)
{
    const char *y = fresh(w, "t");
    begin(w, "Transpose", x, NULL, NULL, y);
    onnx_write_ints(w->w, "perm", perm, (size_t)rank);
    onnx_write_end(w->w);
    return y;
}

static const char *swapped(struct writer *w, const char *x, int rank)
{
    int64_t perm[TENSOR_RANK];
    for (int d = 0; d < rank; d++)
        perm[d] = d == rank - 1 ? rank - 2 : d == rank - 2 ? rank - 1 : d;
    return transposed(w, x, rank, perm);
}

/* The sizes of result 0, one of which may be the batch (-1). */
static void result_dims(struct writer *w, int64_t *dims, int *rank)
{
    const struct tensor_view *v = view(w, w->n->out[0]);
    int open = 0;
    *rank = v->rank;
    for (int d = 0; d < v->rank; d++) {
        dims[d] = v->dims[d];
        if (!w->large)
            continue;
        const struct tensor_view *l = tensor_view_of(w->large->s, w->n_large->out[0]);
        if (l->dims[d] != dims[d]) {
            dims[d] = -1;
            open++;
        }
    }
    w->needs_fixed |= open > 1;
}

/* Numbers that must not depend on the batch. */
static bool same_dims(struct writer *w, tensor_id x, tensor_id large)
{
    return !w->large || tensor_same_shape(view(w, x), tensor_view_of(w->large->s, large));
}

static void reshape_to(struct writer *w, const char *x)
{
    int64_t dims[TENSOR_RANK];
    int rank;
    result_dims(w, dims, &rank);
    last(w, "Reshape", x, ints(w, dims, rank), NULL);
}

/* ---- attributes ------------------------------------------------------------------------------- */

/* A list, or one number for all `n`; `usual` where it is not given. */
static size_t list(const struct writer *w, const char *name, size_t n, int64_t usual, int64_t *to)
{
    const struct ebb_doc_node *v = ebb_doc_get(w->attr, name);
    size_t count = v && v->kind == EBB_DOC_LIST ? v->count : v ? 1 : 0;
    for (size_t i = 0; i < (n ? n : count) && i < TENSOR_PORTS; i++)
        to[i] = !count                    ? usual
                : v->kind == EBB_DOC_LIST ? v->items[i < count ? i : count - 1]->integer
                                          : v->integer;
    return n ? n : count;
}

static int64_t integer(const struct writer *w, const char *name, int64_t usual)
{
    return ebb_doc_int(w->attr, name, usual);
}

static double real(const struct writer *w, const char *name, double usual)
{
    return ebb_doc_double(w->attr, name, usual);
}

static int axis_of(const struct writer *w, const char *name, int rank)
{
    int64_t d = integer(w, name, -1);
    return (int)(d < 0 ? d + rank : d);
}

/* ---- element by element ----------------------------------------------------------------------- */

static void same(struct writer *w)
{
    static const char *const names[] = {
        "abs",       "Abs",        "exp",        "Exp",        "log",      "Log",     "sqrt",
        "Sqrt",      "neg",        "Neg",        "erf",        "Erf",      "sin",     "Sin",
        "cos",       "Cos",        "relu",       "Relu",       "sigmoid",  "Sigmoid", "tanh",
        "Tanh",      "add",        "Add",        "sub",        "Sub",      "mul",     "Mul",
        "div",       "Div",        "maximum",    "Max",        "minimum",  "Min",     "hardswish",
        "HardSwish", "reciprocal", "Reciprocal", "contiguous", "Identity", "detach",  "Identity",
        "copy",      "Identity"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i += 2)
        if (strcmp(names[i], w->n->what) == 0)
            last(w, names[i + 1], in(w, 0), w->n->in_count > 1 ? in(w, 1) : NULL, NULL);
}

static void with_scalar(struct writer *w)
{
    bool is_power = *w->n->what == 'p', is_add = *w->n->what == 'a';
    double v = !w->n->def ? w->n->first : real(w, is_power ? "exponent" : "value", 0);
    last(w, is_power ? "Pow" : is_add ? "Add" : "Mul", in(w, 0), number(w, v), NULL);
}

static void square(struct writer *w)
{
    last(w, "Mul", in(w, 0), in(w, 0), NULL);
}

static void clamp(struct writer *w)
{
    bool is_six = strcmp(w->n->what, "relu6") == 0;
    double low = is_six ? 0 : real(w, "min", -INFINITY),
           high = is_six ? 6 : real(w, "max", INFINITY);
    last(w, "Clip", in(w, 0), isinf(low) ? "" : number(w, low),
         isinf(high) ? NULL : number(w, high));
}

static void with_alpha(struct writer *w)
{
    bool is_leaky = *w->n->what == 'l', is_hard = *w->n->what == 'h';
    begin(w,
          is_leaky  ? "LeakyRelu"
          : is_hard ? "HardSigmoid"
                    : "Elu",
          in(w, 0), NULL, NULL, out(w, 0));
    onnx_write_number(w->w, "alpha",
                      is_hard ? 1.0f / 6
                              : (float)real(w, is_leaky ? "negative_slope" : "alpha",
                                            is_leaky ? (double)0.01f : 1));
    if (is_hard)
        onnx_write_number(w->w, "beta", 0.5f);
    onnx_write_end(w->w);
}

static void silu(struct writer *w)
{
    last(w, "Mul", in(w, 0), node(w, "Sigmoid", in(w, 0), NULL), NULL);
}

static void softplus(struct writer *w)
{
    if (real(w, "beta", 1) < 1 || real(w, "beta", 1) > 1)
        fail(w, "softplus: beta");
    last(w, "Softplus", in(w, 0), NULL, NULL);
}

static void gelu(struct writer *w)
{
    const char *x = in(w, 0), *inner;
    if (strcmp(ebb_doc_string(w->attr, "approximate", "none"), "tanh") == 0) {
        const char *cube = node(w, "Pow", x, number(w, 3));
        inner = node(w, "Add", x, node(w, "Mul", cube, number(w, 0.044715)));
        inner = node(w, "Tanh", node(w, "Mul", inner, number(w, 0.79788456080286535588)), NULL);
    } else {
        inner = node(w, "Erf", node(w, "Div", x, number(w, 1.41421356237309504880)), NULL);
    }
    const char *both = node(w, "Mul", x, node(w, "Add", inner, number(w, 1)));
    last(w, "Mul", both, number(w, 0.5), NULL);
}

static void where(struct writer *w)
{
    const char *condition = fresh(w, "t");
    begin(w, "Cast", in(w, 0), NULL, NULL, condition);
    onnx_write_int(w->w, "to", ONNX_BOOL);
    onnx_write_end(w->w);
    last(w, "Where", condition, in(w, 1), in(w, 2));
}

/* ---- shapes ----------------------------------------------------------------------------------- */

static void reshape(struct writer *w)
{
    reshape_to(w, in(w, 0));
}

static void permute(struct writer *w)
{
    int64_t dims[TENSOR_PORTS], perm[TENSOR_RANK];
    int rank = view(w, w->n->in[0])->rank;
    size_t n = list(w, "dims", 0, 0, dims);
    bool is_swap = *w->n->what == 't';
    for (int d = 0; d < rank; d++)
        perm[d] = d;
    for (size_t i = 0; i < n && i < (size_t)rank; i++)
        dims[i] = dims[i] < 0 ? dims[i] + rank : dims[i];
    if (is_swap && n == 2) {
        perm[dims[0]] = dims[1];
        perm[dims[1]] = dims[0];
    } else if (n == (size_t)rank) {
        memcpy(perm, dims, n * sizeof *dims);
    }
    begin(w, "Transpose", in(w, 0), NULL, NULL, out(w, 0));
    onnx_write_ints(w->w, "perm", perm, (size_t)rank);
    onnx_write_end(w->w);
}

static void slice(struct writer *w)
{
    int64_t starts[TENSOR_RANK], ends[TENSOR_RANK], axes[TENSOR_RANK], steps[TENSOR_RANK];
    const struct ebb_doc_node *ranges = ebb_doc_get(w->attr, "ranges");
    int64_t n = 0;
    for (size_t i = 0; ranges && i < ranges->count && n < TENSOR_RANK; n++) {
        const struct ebb_doc_node *r = ranges->items[i];
        bool is_nested = r->kind == EBB_DOC_LIST;
        const struct ebb_doc_node *const *v =
            (const struct ebb_doc_node *const *)(is_nested ? r->items : ranges->items + i);
        size_t have = is_nested ? r->count : 4;
        axes[n] = v[0]->integer;
        starts[n] = v[1]->integer;
        ends[n] = v[2]->kind == EBB_DOC_NULL ? INT64_MAX : v[2]->integer;
        steps[n] = have > 3 ? v[3]->integer : 1;
        i += is_nested ? 1 : 4;
    }
    if (!same_dims(w, w->n->in[0], w->large ? w->n_large->in[0] : w->n->in[0]))
        for (int64_t i = 0; i < n; i++)
            if (axes[i] == 0)
                w->needs_fixed = true;
    onnx_write_node(w->w, "Slice");
    const char *parts[5] = {in(w, 0), ints(w, starts, n), ints(w, ends, n), ints(w, axes, n),
                            ints(w, steps, n)};
    for (size_t i = 0; i < 5; i++)
        onnx_write_in(w->w, parts[i]);
    onnx_write_out(w->w, out(w, 0));
    onnx_write_end(w->w);
}

static void split(struct writer *w)
{
    int64_t sizes[TENSOR_PORTS];
    int rank = view(w, w->n->in[0])->rank;
    size_t n = list(w, "sizes", 0, 0, sizes);
    int axis = axis_of(w, "dim", rank);
    w->needs_fixed |= axis == 0 && w->large && !same_dims(w, w->n->in[0], w->n_large->in[0]);
    const char *parts = ints(w, sizes, (int64_t)n);
    onnx_write_node(w->w, "Split");
    onnx_write_in(w->w, in(w, 0));
    onnx_write_in(w->w, parts);
    for (size_t i = 0; i < w->n->out_count; i++)
        onnx_write_out(w->w, out(w, i));
    onnx_write_int(w->w, "axis", axis);
    onnx_write_end(w->w);
}

static void cat(struct writer *w)
{
    bool is_stack = *w->n->what == 's';
    int rank = view(w, w->n->in[0])->rank + is_stack, axis = axis_of(w, "dim", rank);
    const char *parts[TENSOR_PORTS];
    for (size_t i = 0; i < w->n->in_count; i++)
        parts[i] =
            is_stack ? node(w, "Unsqueeze", in(w, i), ints(w, (int64_t[]){axis}, 1)) : in(w, i);
    onnx_write_node(w->w, "Concat");
    for (size_t i = 0; i < w->n->in_count; i++)
        onnx_write_in(w->w, parts[i]);
    onnx_write_out(w->w, out(w, 0));
    onnx_write_int(w->w, "axis", axis);
    onnx_write_end(w->w);
}

/* A size of the batch stays what it is where it is there already. */
static void expand(struct writer *w)
{
    int64_t dims[TENSOR_RANK];
    int rank;
    result_dims(w, dims, &rank);
    const struct tensor_view *v = view(w, w->n->in[0]);
    for (int d = 0; d < rank; d++) {
        int k = d - rank + v->rank;
        if (dims[d] != -1)
            continue;
        w->needs_fixed |= k < 0 || v->dims[k] == 1;
        dims[d] = 1;
    }
    last(w, "Expand", in(w, 0), ints(w, dims, rank), NULL);
}

static void tile(struct writer *w)
{
    int64_t reps[TENSOR_PORTS];
    size_t n = list(w, "reps", 0, 1, reps);
    if (n != view(w, w->n->in[0])->rank)
        fail(w, "tile: repeats of new dimensions");
    last(w, "Tile", in(w, 0), ints(w, reps, (int64_t)n), NULL);
}

static void pad(struct writer *w)
{
    int64_t given[TENSOR_PORTS], pads[2 * TENSOR_RANK] = {0};
    int rank = view(w, w->n->in[0])->rank;
    size_t n = list(w, "pad", 0, 0, given);
    for (size_t i = 0; i + 1 < n && (int)(i / 2) < rank; i += 2) {
        int d = rank - 1 - (int)(i / 2);
        pads[d] = given[i];
        pads[rank + d] = given[i + 1];
    }
    last(w, "Pad", in(w, 0), ints(w, pads, 2 * rank), number(w, real(w, "value", 0)));
}

static void shuffle(struct writer *w)
{
    const struct tensor_view *v = view(w, w->n->in[0]);
    int64_t g = integer(w, "groups", 1), c = v->dims[1];
    const char *x =
        node(w, "Reshape", in(w, 0), ints(w, (int64_t[]){-1, g, c / g, v->dims[2], v->dims[3]}, 5));
    reshape_to(w, transposed(w, x, 5, (int64_t[]){0, 2, 1, 3, 4}));
}

static void full(struct writer *w)
{
    const struct tensor_view *v = view(w, w->n->out[0]);
    w->needs_fixed |= w->large && !same_dims(w, w->n->out[0], w->n_large->out[0]);
    last(w, "Expand", number(w, real(w, "value", 0)), ints(w, v->dims, v->rank), NULL);
}

/* ---- places ----------------------------------------------------------------------------------- */

static void gather(struct writer *w)
{
    bool is_table = strcmp(w->n->what, "embedding") == 0;
    bool is_elements = strcmp(w->n->what, "gather") == 0;
    const char *data = in(w, is_table ? 1 : 0), *index = in(w, is_table ? 0 : 1);
    int rank = view(w, w->n->in[0])->rank;
    begin(w, is_elements ? "GatherElements" : "Gather", data, index, NULL, out(w, 0));
    onnx_write_int(w->w, "axis", is_table ? 0 : axis_of(w, "dim", rank));
    onnx_write_end(w->w);
}

static void cumsum(struct writer *w)
{
    int64_t axis = axis_of(w, "dim", view(w, w->n->in[0])->rank);
    last(w, "CumSum", in(w, 0), constant(w, ONNX_INT64, 0, NULL, &axis, sizeof axis), NULL);
}

/* ---- sums ------------------------------------------------------------------------------------- */

static void reduce(struct writer *w)
{
    static const char *const names[] = {"sum",  "ReduceSum", "mean",        "ReduceMean",
                                        "amax", "ReduceMax", "sum_squares", "ReduceSumSquare"};
    int64_t dims[TENSOR_PORTS];
    int rank = view(w, w->n->in[0])->rank;
    size_t n = list(w, "dims", 0, 0, dims);
    const char *op = "ReduceSum";
    for (size_t i = 0; i < 8; i += 2)
        if (strcmp(names[i], w->n->what) == 0)
            op = names[i + 1];
    for (size_t i = 0; i < n; i++)
        dims[i] = dims[i] < 0 ? dims[i] + rank : dims[i];
    bool is_sum = strcmp(op, "ReduceSum") == 0;
    const char *axes = is_sum && n ? ints(w, dims, (int64_t)n) : NULL;
    begin(w, op, in(w, 0), axes, NULL, out(w, 0));
    if (!is_sum && n)
        onnx_write_ints(w->w, "axes", dims, n);
    onnx_write_int(w->w, "keepdims", ebb_doc_bool(w->attr, "keepdim", false));
    onnx_write_end(w->w);
}

static void softmax(struct writer *w)
{
    begin(w, *w->n->what == 'l' ? "LogSoftmax" : "Softmax", in(w, 0), NULL, NULL, out(w, 0));
    onnx_write_int(w->w, "axis", axis_of(w, "dim", view(w, w->n->in[0])->rank));
    onnx_write_end(w->w);
}

/* ---- layers ----------------------------------------------------------------------------------- */

static void put_window(struct writer *w, size_t nd, const int64_t *kernel, bool has_dilation)
{
    int64_t stride[3], pads[6], dilation[3];
    list(w, "stride", nd, 1, stride);
    list(w, "padding", nd, 0, pads);
    list(w, "dilation", nd, 1, dilation);
    memcpy(pads + nd, pads, nd * sizeof *pads);
    onnx_write_ints(w->w, "kernel_shape", kernel, nd);
    onnx_write_ints(w->w, "strides", stride, nd);
    onnx_write_ints(w->w, "pads", pads, 2 * nd);
    if (has_dilation)
        onnx_write_ints(w->w, "dilations", dilation, nd);
}

static void conv(struct writer *w)
{
    bool is_transposed = strncmp(w->n->what, "conv_transpose", 14) == 0;
    const struct tensor_view *k = view(w, w->n->in[1]);
    size_t nd = (size_t)k->rank - 2;
    int64_t more[3];
    begin(w, is_transposed ? "ConvTranspose" : "Conv", in(w, 0), in(w, 1),
          w->n->in_count > 2 ? in(w, 2) : NULL, out(w, 0));
    put_window(w, nd, k->dims + 2, true);
    onnx_write_int(w->w, "group", integer(w, "groups", 1));
    if (is_transposed) {
        list(w, "output_padding", nd, 0, more);
        onnx_write_ints(w->w, "output_padding", more, nd);
    }
    onnx_write_end(w->w);
}

static void pool(struct writer *w)
{
    bool is_max = *w->n->what == 'm';
    size_t nd = (size_t)view(w, w->n->in[0])->rank - 2;
    int64_t kernel[3];
    list(w, "kernel", nd, 1, kernel);
    if (!ebb_doc_get(w->attr, "stride"))
        fail(w, "a pool without a stride");
    begin(w, is_max ? "MaxPool" : "AveragePool", in(w, 0), NULL, NULL, out(w, 0));
    put_window(w, nd, kernel, is_max);
    onnx_write_int(w->w, "ceil_mode", ebb_doc_bool(w->attr, "ceil_mode", false));
    if (!is_max)
        onnx_write_int(w->w, "count_include_pad", ebb_doc_bool(w->attr, "count_include_pad", true));
    onnx_write_end(w->w);
}

static void adaptive(struct writer *w)
{
    const struct tensor_view *x = view(w, w->n->in[0]), *y = view(w, w->n->out[0]);
    int64_t kernel[2];
    if (y->dims[2] == 1 && y->dims[3] == 1) {
        last(w, "GlobalAveragePool", in(w, 0), NULL, NULL);
        return;
    }
    for (int d = 0; d < 2; d++) {
        kernel[d] = x->dims[2 + d] / y->dims[2 + d];
        if (x->dims[2 + d] % y->dims[2 + d])
            fail(w, "adaptive_avg_pool2d to a size that does not divide that of the image");
    }
    begin(w, "AveragePool", in(w, 0), NULL, NULL, out(w, 0));
    onnx_write_ints(w->w, "kernel_shape", kernel, 2);
    onnx_write_ints(w->w, "strides", kernel, 2);
    onnx_write_end(w->w);
}

static void upsample(struct writer *w)
{
    bool is_linear = strstr(w->n->what, "bilinear") != NULL;
    const struct tensor_view *x = view(w, w->n->in[0]), *y = view(w, w->n->out[0]);
    float scales[4] = {1, 1, 1, 1};
    int64_t four = 4;
    bool is_exact = true;
    for (int d = 2; d < 4; d++) {
        scales[d] = (float)y->dims[d] / (float)x->dims[d];
        is_exact &= (int64_t)floor((double)x->dims[d] * (double)scales[d]) == y->dims[d];
    }
    w->needs_fixed |= !is_exact && w->large;
    const char *by = is_exact ? constant(w, ONNX_FLOAT, 1, &four, scales, sizeof scales) : "";
    const char *to = is_exact ? NULL : ints(w, y->dims, 4);
    onnx_write_node(w->w, "Resize");
    onnx_write_in(w->w, in(w, 0));
    onnx_write_in(w->w, "");
    onnx_write_in(w->w, by);
    if (to)
        onnx_write_in(w->w, to);
    onnx_write_out(w->w, out(w, 0));
    onnx_write_text(w->w, "mode", is_linear ? "linear" : "nearest");
    bool is_corners = ebb_doc_bool(w->attr, "align_corners", false);
    onnx_write_text(w->w, "coordinate_transformation_mode",
                    !is_linear   ? "asymmetric"
                    : is_corners ? "align_corners"
                                 : "half_pixel");
    if (!is_linear)
        onnx_write_text(w->w, "nearest_mode", "floor");
    onnx_write_end(w->w);
}

static void linear(struct writer *w)
{
    const char *bias = w->n->in_count > 2 ? in(w, 2) : NULL;
    if (view(w, w->n->in[0])->rank == 2) {
        begin(w, "Gemm", in(w, 0), in(w, 1), bias, out(w, 0));
        onnx_write_int(w->w, "transB", 1);
        onnx_write_end(w->w);
        return;
    }
    const char *turned = swapped(w, in(w, 1), 2);
    if (!bias) {
        last(w, "MatMul", in(w, 0), turned, NULL);
        return;
    }
    last(w, "Add", node(w, "MatMul", in(w, 0), turned), bias, NULL);
}

static void matmul(struct writer *w)
{
    const char *a = in(w, 0), *b = in(w, 1);
    if (ebb_doc_bool(w->attr, "ta", false))
        a = swapped(w, a, view(w, w->n->in[0])->rank);
    if (ebb_doc_bool(w->attr, "tb", false))
        b = swapped(w, b, view(w, w->n->in[1])->rank);
    last(w, "MatMul", a, b, NULL);
}

static void layer_norm(struct writer *w)
{
    const struct ebb_doc_node *shape = ebb_doc_get(w->attr, "shape");
    const char *weight = w->n->in_count > 1 ? in(w, 1) : NULL;
    int64_t n = shape ? (int64_t)shape->count : 1;
    if (!weight)
        fail(w, "layer_norm without weights");
    begin(w, "LayerNormalization", in(w, 0), weight, w->n->in_count > 2 ? in(w, 2) : NULL,
          out(w, 0));
    onnx_write_int(w->w, "axis", -n);
    onnx_write_number(w->w, "epsilon", (float)real(w, "eps", (double)1e-5f));
    onnx_write_end(w->w);
}

/* In evaluation the op comes with all five; the note behind it says nothing new. */
static void batch_norm(struct writer *w)
{
    onnx_write_node(w->w, "BatchNormalization");
    for (size_t i = 0; i < 5; i++)
        onnx_write_in(w->w, in(w, i));
    onnx_write_out(w->w, out(w, 0));
    onnx_write_number(w->w, "epsilon", (float)real(w, "eps", (double)1e-5f));
    onnx_write_end(w->w);
}

static void instance_norm(struct writer *w)
{
    if (w->n->in_count != 3)
        fail(w, "instance_norm without weights");
    begin(w, "InstanceNormalization", in(w, 0), in(w, 1), in(w, 2), out(w, 0));
    onnx_write_number(w->w, "epsilon", (float)real(w, "eps", (double)1e-5f));
    onnx_write_end(w->w);
}

static void lrn(struct writer *w)
{
    begin(w, "LRN", in(w, 0), NULL, NULL, out(w, 0));
    onnx_write_int(w->w, "size", integer(w, "size", 1));
    onnx_write_number(w->w, "alpha", (float)real(w, "alpha", (double)1e-4f));
    onnx_write_number(w->w, "beta", (float)real(w, "beta", 0.75));
    onnx_write_number(w->w, "bias", (float)real(w, "k", 1));
    onnx_write_end(w->w);
}

static const char *causal_mask(struct writer *w, int64_t tq, int64_t tk)
{
    float *mask = ebb_arena_calloc(&w->arena, (size_t)(tq * tk) + 1, sizeof *mask);
    if (!mask) {
        fail(w, "out of memory");
        return "";
    }
    for (int64_t i = 0; i < tq * tk; i++)
        mask[i] = i % tk > i / tk + tk - tq ? -INFINITY : 0;
    const char *name = fresh(w, "constant");
    onnx_write_initializer(w->w, name, ONNX_FLOAT, 2, (int64_t[]){tq, tk}, mask,
                           (size_t)(tq * tk) * sizeof *mask);
    return name;
}

static void attention(struct writer *w)
{
    const struct tensor_view *q = view(w, w->n->in[0]), *k = view(w, w->n->in[1]);
    bool is_note = !w->n->def;
    bool is_causal = is_note ? w->n->second > 0 : ebb_doc_bool(w->attr, "causal", false);
    double usual = (double)(float)(1.0 / sqrt((double)q->dims[q->rank - 1]));
    double scale = is_note ? usual : real(w, "scale", usual);
    const char *s = node(w, "MatMul", in(w, 0), swapped(w, in(w, 1), k->rank));
    s = node(w, "Mul", s, number(w, scale));
    if (w->n->in_count > 3)
        s = node(w, "Add", s, in(w, 3));
    if (is_causal && w->n->in_count > 3)
        fail(w, "attention with a mask that is causal as well");
    if (is_causal)
        s = node(w, "Add", s, causal_mask(w, q->dims[q->rank - 2], k->dims[k->rank - 2]));
    const char *p = fresh(w, "t");
    begin(w, "Softmax", s, NULL, NULL, p);
    onnx_write_int(w->w, "axis", -1);
    onnx_write_end(w->w);
    last(w, "MatMul", p, in(w, 2), NULL);
}

/* ---- recurrent -------------------------------------------------------------------------------- */

/* An item's gates in ONNX's order, after each other, as a new constant [1, rows, columns]. */
static const float *item_values(struct writer *w, tensor_id x)
{
    for (size_t i = 0; i < nn_item_count(&w->m->b); i++)
        if (nn_item_at(&w->m->b, i)->id.v == x.v)
            return w->values[i];
    fail(w, "recurrent weights that are computed");
    return NULL;
}

static const char *gates(struct writer *w, const tensor_id *x, size_t count, int n_gates,
                         int64_t hidden)
{
    static const int lstm[4] = {0, 3, 1, 2}, gru[3] = {1, 0, 2};
    const struct tensor_view *v = view(w, x[0]);
    int64_t columns = v->rank > 1 ? v->dims[1] : 1, rows = (int64_t)count * n_gates * hidden;
    float *all = ebb_arena_calloc(&w->arena, (size_t)(rows * columns) + 1, sizeof *all);
    for (size_t k = 0; k < count && all; k++) {
        const float *from = item_values(w, x[k]);
        for (int g = 0; from && g < n_gates; g++)
            memcpy(all + ((int64_t)k * n_gates + g) * hidden * columns,
                   from + (n_gates == 4 ? lstm[g] : gru[g]) * hidden * columns,
                   (size_t)(hidden * columns) * sizeof *all);
    }
    const char *name = fresh(w, "constant");
    if (!all)
        fail(w, "out of memory");
    int64_t dims[3] = {1, rows, columns};
    onnx_write_initializer(w->w, name, ONNX_FLOAT, v->rank > 1 ? 3 : 2, dims, all,
                           (size_t)(rows * columns) * sizeof *all);
    return name;
}

static void recurrent(struct writer *w)
{
    bool is_lstm = *w->n->what == 'l';
    int n_gates = is_lstm ? 4 : 3;
    size_t first = is_lstm ? 3 : 2;
    bool has_bias = w->n->in_count > first + 2;
    int64_t hidden = view(w, w->n->in[1])->dims[2];
    const char *wi = gates(w, w->n->in + first, 1, n_gates, hidden);
    const char *wh = gates(w, w->n->in + first + 1, 1, n_gates, hidden);
    const char *bias = has_bias ? gates(w, w->n->in + first + 2, 2, n_gates, hidden) : "";
    const char *y = fresh(w, "t");
    onnx_write_node(w->w, is_lstm ? "LSTM" : "GRU");
    onnx_write_in(w->w, in(w, 0));
    onnx_write_in(w->w, wi);
    onnx_write_in(w->w, wh);
    onnx_write_in(w->w, bias);
    onnx_write_in(w->w, "");
    onnx_write_in(w->w, in(w, 1));
    if (is_lstm)
        onnx_write_in(w->w, in(w, 2));
    onnx_write_out(w->w, y);
    for (size_t i = 1; i < w->n->out_count; i++)
        onnx_write_out(w->w, out(w, i));
    onnx_write_int(w->w, "hidden_size", hidden);
    if (!is_lstm)
        onnx_write_int(w->w, "linear_before_reset", 1);
    onnx_write_end(w->w);
    last(w, "Squeeze", y, ints(w, (int64_t[]){1}, 1), NULL);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static const struct row {
    const char *ops; /* blank-separated */
    void (*write)(struct writer *w);
} rows[] = {
    {"abs exp log sqrt neg erf sin cos relu sigmoid tanh add sub mul div maximum minimum hardswish "
     "reciprocal contiguous detach copy",
     same},
    {"add_scalar mul_scalar pow_scalar", with_scalar},
    {"square", square},
    {"clamp relu6", clamp},
    {"leaky_relu elu hardsigmoid", with_alpha},
    {"silu", silu},
    {"softplus", softplus},
    {"gelu", gelu},
    {"where", where},
    {"reshape squeeze unsqueeze", reshape},
    {"permute transpose", permute},
    {"slice", slice},
    {"split", split},
    {"cat stack", cat},
    {"expand", expand},
    {"tile", tile},
    {"pad", pad},
    {"channel_shuffle", shuffle},
    {"full", full},
    {"embedding index_select gather", gather},
    {"cumsum", cumsum},
    {"sum mean amax sum_squares", reduce},
    {"softmax log_softmax", softmax},
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
};

static const struct ebb_doc_node *attributes(struct writer *w, const struct nn_note *n)
{
    struct ebb_str text = {0};
    struct ebb_json_writer json;
    const struct ebb_doc_node *map = NULL;
    if (!n->def)
        return NULL;
    ebb_jsonw_init(&json, &text, 0);
    ops_attr_write(n->def, n->attr, &json);
    if (ebb_doc_parse_json(&w->arena, "attributes", ebb_str_c(&text), text.length, &map, NULL) !=
        EBB_OK)
        fail(w, "out of memory");
    ebb_str_fini(&text);
    return map;
}

static void write_note(struct writer *w, size_t i)
{
    char text[96];
    uint64_t at;
    w->n = &w->m->journal.notes[i];
    w->n_large = w->large ? &w->large->journal.notes[i] : NULL;
    if (ebb_map_get(&w->names, w->n->out[0].v, &at))
        return; /* said already */
    w->attr = attributes(w, w->n);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (ebb_words_find(rows[k].ops, w->n->what, strlen(w->n->what), NULL)) {
            rows[k].write(w);
            return;
        }
    snprintf(text, sizeof text, "op %s has no form in ONNX here", w->n->what);
    fail(w, text);
}

/* ---- the file --------------------------------------------------------------------------------- */

static int type_of(const struct tensor_view *v)
{
    return v->dtype == TENSOR_I64 ? ONNX_INT64 : ONNX_FLOAT;
}

static void write_ports(struct writer *w)
{
    for (size_t i = 0; i < w->m->port_count; i++) {
        const struct nn_port *p = &w->m->ports[i];
        struct onnx_dim dims[TENSOR_RANK];
        for (int d = 0; d < p->view.rank; d++) {
            bool is_batch = w->large && w->large->ports[i].view.dims[d] != p->view.dims[d];
            dims[d] =
                (struct onnx_dim){.value = p->view.dims[d], .label = is_batch ? "batch" : NULL};
        }
        onnx_write_input(w->w, p->name, type_of(&p->view), p->view.rank, dims);
        bind(w, w->m->inputs[i], p->name);
    }
}

static void write_outputs(struct writer *w)
{
    size_t written = 0;
    for (size_t i = 0; i < w->m->output_count; i++) {
        const struct nn_output *o = &w->m->outputs[i];
        const struct tensor_view *v = view(w, o->id);
        struct onnx_dim dims[TENSOR_RANK];
        const char *name = o->name;
        if (o->kind == NN_LOSS || o->kind == NN_METRIC)
            continue;
        for (size_t k = 0; k < w->m->port_count; k++)
            if (strcmp(w->m->ports[k].name, name) == 0) /* a state: a value has one name */
                name = ebb_arena_printf(&w->arena, "next_%s", o->name);
        for (int d = 0; d < v->rank; d++) {
            const struct tensor_view *l =
                w->large ? tensor_view_of(w->large->s, w->large->outputs[i].id) : v;
            bool is_batch = l->dims[d] != v->dims[d];
            dims[d] = (struct onnx_dim){.value = v->dims[d], .label = NULL};
            if (is_batch)
                dims[d].label = l->dims[d] == w->large->batch
                                    ? "batch"
                                    : ebb_arena_printf(&w->arena, "%s_%d", name, d);
        }
        begin(w, "Identity", name_of(w, o->id), NULL, NULL, name ? name : "");
        onnx_write_end(w->w);
        onnx_write_output(w->w, name ? name : "", type_of(v), v->rank, dims);
        written++;
    }
    if (!written)
        fail(w, "it has no results but its loss");
}

static void need(struct writer *w, tensor_id x)
{
    if (ebb_map_put(&w->needed, x.v, 1, NULL) != EBB_OK)
        fail(w, "out of memory");
}

/* Backwards from the outputs. */
static void find_needed(struct writer *w)
{
    for (size_t i = 0; i < w->m->output_count; i++)
        if (w->m->outputs[i].kind != NN_LOSS && w->m->outputs[i].kind != NN_METRIC)
            need(w, w->m->outputs[i].id);
    for (size_t i = w->m->journal.count; i-- > 0;) {
        const struct nn_note *n = &w->m->journal.notes[i];
        bool is_needed = false;
        for (size_t k = 0; k < n->out_count; k++)
            is_needed |= ebb_map_get(&w->needed, n->out[k].v, NULL);
        for (size_t k = 0; is_needed && k < n->in_count; k++)
            need(w, n->in[k]);
    }
}

static bool is_needed(const struct writer *w, const struct nn_note *n)
{
    for (size_t k = 0; k < n->out_count; k++)
        if (ebb_map_get(&w->needed, n->out[k].v, NULL))
            return true;
    return false;
}

static void write_items(struct writer *w)
{
    for (size_t i = 0; i < nn_item_count(&w->m->b); i++) {
        const struct nn_item *item = nn_item_at(&w->m->b, i);
        const struct tensor_view *v = &item->view;
        size_t bytes = (size_t)tensor_count(v) * tensor_dtype_bytes((enum tensor_dtype)v->dtype);
        bind(w, item->id, item->name);
        if (ebb_map_get(&w->needed, item->id.v, NULL))
            onnx_write_initializer(w->w, item->name, type_of(v), v->rank, v->dims, w->values[i],
                                   bytes);
    }
}

static enum ebb_status write_model(struct writer *w, const char *path, struct ebb_error *err)
{
    find_needed(w);
    write_ports(w);
    write_items(w);
    for (size_t i = 0; i < w->m->journal.count && !*w->problem; i++)
        if (is_needed(w, &w->m->journal.notes[i]))
            write_note(w, i);
    if (!*w->problem)
        write_outputs(w);
    if (*w->problem)
        return ebb_fail(err, EBB_EUNSUPPORTED, "model %s cannot be an ONNX file: %s",
                        w->m->b.config->model->name, w->problem);
    return w->needs_fixed ? EBB_OK : onnx_writer_save(w->w, path, err);
}

static enum ebb_status write_at(const struct nn_built *m, const struct nn_built *large,
                                const void *const *values, const char *path, bool *needs_fixed,
                                struct ebb_error *err)
{
    struct writer w = {.m = m, .large = large, .values = values};
    ebb_arena_init(&w.arena);
    ebb_map_init(&w.names);
    ebb_map_init(&w.needed);
    enum ebb_status status = onnx_writer_create(&w.w, m->b.config->model->name, err);
    EBB_THEN(status, write_model(&w, path, err));
    *needs_fixed = w.needs_fixed;
    onnx_writer_destroy(w.w);
    ebb_map_fini(&w.names);
    ebb_map_fini(&w.needed);
    ebb_arena_fini(&w.arena);
    return status;
}

enum ebb_status nn_config_export(const struct nn_config *config, int64_t batch,
                                 const void *const *values, const char *path, bool *is_fixed,
                                 struct ebb_error *err)
{
    struct nn_built m, large = {0};
    bool needs_fixed = false, is_open = batch == 0;
    enum ebb_status status = nn_built_open(&m, config, is_open ? 2 : batch, false, err);
    if (is_open)
        EBB_THEN(status, nn_built_open(&large, config, 3, false, err));
    if (status == EBB_OK && is_open && m.journal.count != large.journal.count)
        needs_fixed = true;
    else
        EBB_THEN(status, write_at(&m, is_open ? &large : NULL, values, path, &needs_fixed, err));
    nn_built_close(&m);
    nn_built_close(&large);
    if (status == EBB_OK && is_open && needs_fixed)
        return nn_config_export(config, 1, values, path, is_fixed, err);
    *is_fixed = !is_open;
    return status;
}
