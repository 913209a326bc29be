/* onnx_write_ops.c - ops of ours as nodes of an ONNX file: element by element, shapes, places, sums. To add one: a
 * row. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "nn/onnx_write.h"

/* ---- element by element ----------------------------------------------------------------------- */

static void same(struct nn_put *w)
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
            nn_put_last(w, names[i + 1], nn_put_in(w, 0),
                        w->n->in_count > 1 ? nn_put_in(w, 1) : NULL, NULL);
}

static void with_scalar(struct nn_put *w)
{
    bool is_power = *w->n->what == 'p', is_add = *w->n->what == 'a';
    double v = !w->n->def ? w->n->first : nn_put_real(w, is_power ? "exponent" : "value", 0);
    nn_put_last(w,
                is_power ? "Pow"
                : is_add ? "Add"
                         : "Mul",
                nn_put_in(w, 0), nn_put_number(w, v), NULL);
}

static void square(struct nn_put *w)
{
    nn_put_last(w, "Mul", nn_put_in(w, 0), nn_put_in(w, 0), NULL);
}

static void clamp(struct nn_put *w)
{
    bool is_six = strcmp(w->n->what, "relu6") == 0;
    double low = is_six ? 0 : nn_put_real(w, "min", -INFINITY),
           high = is_six ? 6 : nn_put_real(w, "max", INFINITY);
    nn_put_last(w, "Clip", nn_put_in(w, 0), isinf(low) ? "" : nn_put_number(w, low),
                isinf(high) ? NULL : nn_put_number(w, high));
}

static void with_alpha(struct nn_put *w)
{
    bool is_leaky = *w->n->what == 'l', is_hard = *w->n->what == 'h';
    nn_put_begin(w,
                 is_leaky  ? "LeakyRelu"
                 : is_hard ? "HardSigmoid"
                           : "Elu",
                 nn_put_in(w, 0), NULL, NULL, nn_put_out(w, 0));
    onnx_write_number(w->w, "alpha",
                      is_hard ? 1.0f / 6
                              : (float)nn_put_real(w, is_leaky ? "negative_slope" : "alpha",
                                                   is_leaky ? (double)0.01f : 1));
    if (is_hard)
        onnx_write_number(w->w, "beta", 0.5f);
    onnx_write_end(w->w);
}

static void silu(struct nn_put *w)
{
    nn_put_last(w, "Mul", nn_put_in(w, 0), nn_put_node(w, "Sigmoid", nn_put_in(w, 0), NULL), NULL);
}

static void softplus(struct nn_put *w)
{
    if (nn_put_real(w, "beta", 1) < 1 || nn_put_real(w, "beta", 1) > 1)
        nn_put_fail(w, "softplus: beta");
    nn_put_last(w, "Softplus", nn_put_in(w, 0), NULL, NULL);
}

static void gelu(struct nn_put *w)
{
    const char *x = nn_put_in(w, 0), *inner;
    if (strcmp(ebb_doc_string(w->attr, "approximate", "none"), "tanh") == 0) {
        const char *cube = nn_put_node(w, "Pow", x, nn_put_number(w, 3));
        inner = nn_put_node(w, "Add", x, nn_put_node(w, "Mul", cube, nn_put_number(w, 0.044715)));
        inner = nn_put_node(w, "Tanh",
                            nn_put_node(w, "Mul", inner, nn_put_number(w, 0.79788456080286535588)),
                            NULL);
    } else {
        inner = nn_put_node(
            w, "Erf", nn_put_node(w, "Div", x, nn_put_number(w, 1.41421356237309504880)), NULL);
    }
    const char *both = nn_put_node(w, "Mul", x, nn_put_node(w, "Add", inner, nn_put_number(w, 1)));
    nn_put_last(w, "Mul", both, nn_put_number(w, 0.5), NULL);
}

static void where(struct nn_put *w)
{
    const char *condition = nn_put_fresh(w, "t");
    nn_put_begin(w, "Cast", nn_put_in(w, 0), NULL, NULL, condition);
    onnx_write_int(w->w, "to", ONNX_BOOL);
    onnx_write_end(w->w);
    nn_put_last(w, "Where", condition, nn_put_in(w, 1), nn_put_in(w, 2));
}

/* ---- shapes ----------------------------------------------------------------------------------- */

static void reshape_to(struct nn_put *w, const char *x)
{
    int64_t dims[TENSOR_RANK];
    int rank;
    nn_put_dims(w, dims, &rank);
    nn_put_last(w, "Reshape", x, nn_put_ints(w, dims, rank), NULL);
}

static void reshape(struct nn_put *w)
{
    reshape_to(w, nn_put_in(w, 0));
}

static void permute(struct nn_put *w)
{
    int64_t dims[TENSOR_PORTS], perm[TENSOR_RANK];
    int rank = nn_put_view(w, w->n->in[0])->rank;
    size_t n = nn_put_list(w, "dims", 0, 0, dims);
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
    nn_put_begin(w, "Transpose", nn_put_in(w, 0), NULL, NULL, nn_put_out(w, 0));
    onnx_write_ints(w->w, "perm", perm, (size_t)rank);
    onnx_write_end(w->w);
}

static void slice(struct nn_put *w)
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
    if (!nn_put_same_dims(w, w->n->in[0], w->large ? w->n_large->in[0] : w->n->in[0]))
        for (int64_t i = 0; i < n; i++)
            if (axes[i] == 0)
                w->needs_fixed = true;
    onnx_write_node(w->w, "Slice");
    const char *parts[5] = {nn_put_in(w, 0), nn_put_ints(w, starts, n), nn_put_ints(w, ends, n),
                            nn_put_ints(w, axes, n), nn_put_ints(w, steps, n)};
    for (size_t i = 0; i < 5; i++)
        onnx_write_in(w->w, parts[i]);
    onnx_write_out(w->w, nn_put_out(w, 0));
    onnx_write_end(w->w);
}

static void split(struct nn_put *w)
{
    int64_t sizes[TENSOR_PORTS];
    int rank = nn_put_view(w, w->n->in[0])->rank;
    size_t n = nn_put_list(w, "sizes", 0, 0, sizes);
    int axis = nn_put_axis(w, "dim", rank);
    w->needs_fixed |= axis == 0 && w->large && !nn_put_same_dims(w, w->n->in[0], w->n_large->in[0]);
    const char *parts = nn_put_ints(w, sizes, (int64_t)n);
    onnx_write_node(w->w, "Split");
    onnx_write_in(w->w, nn_put_in(w, 0));
    onnx_write_in(w->w, parts);
    for (size_t i = 0; i < w->n->out_count; i++)
        onnx_write_out(w->w, nn_put_out(w, i));
    onnx_write_int(w->w, "axis", axis);
    onnx_write_end(w->w);
}

static void cat(struct nn_put *w)
{
    bool is_stack = *w->n->what == 's';
    int rank = nn_put_view(w, w->n->in[0])->rank + is_stack, axis = nn_put_axis(w, "dim", rank);
    const char *parts[TENSOR_PORTS];
    for (size_t i = 0; i < w->n->in_count; i++)
        parts[i] = is_stack ? nn_put_node(w, "Unsqueeze", nn_put_in(w, i),
                                          nn_put_ints(w, (int64_t[]){axis}, 1))
                            : nn_put_in(w, i);
    onnx_write_node(w->w, "Concat");
    for (size_t i = 0; i < w->n->in_count; i++)
        onnx_write_in(w->w, parts[i]);
    onnx_write_out(w->w, nn_put_out(w, 0));
    onnx_write_int(w->w, "axis", axis);
    onnx_write_end(w->w);
}

/* A size of the batch stays what it is where it is there already. */
static void expand(struct nn_put *w)
{
    int64_t dims[TENSOR_RANK];
    int rank;
    nn_put_dims(w, dims, &rank);
    const struct tensor_view *v = nn_put_view(w, w->n->in[0]);
    for (int d = 0; d < rank; d++) {
        int k = d - rank + v->rank;
        if (dims[d] != -1)
            continue;
        w->needs_fixed |= k < 0 || v->dims[k] == 1;
        dims[d] = 1;
    }
    nn_put_last(w, "Expand", nn_put_in(w, 0), nn_put_ints(w, dims, rank), NULL);
}

static void tile(struct nn_put *w)
{
    int64_t reps[TENSOR_PORTS];
    size_t n = nn_put_list(w, "reps", 0, 1, reps);
    if (n != nn_put_view(w, w->n->in[0])->rank)
        nn_put_fail(w, "tile: repeats of new dimensions");
    nn_put_last(w, "Tile", nn_put_in(w, 0), nn_put_ints(w, reps, (int64_t)n), NULL);
}

static void pad(struct nn_put *w)
{
    int64_t given[TENSOR_PORTS], pads[2 * TENSOR_RANK] = {0};
    int rank = nn_put_view(w, w->n->in[0])->rank;
    size_t n = nn_put_list(w, "pad", 0, 0, given);
    for (size_t i = 0; i + 1 < n && (int)(i / 2) < rank; i += 2) {
        int d = rank - 1 - (int)(i / 2);
        pads[d] = given[i];
        pads[rank + d] = given[i + 1];
    }
    nn_put_last(w, "Pad", nn_put_in(w, 0), nn_put_ints(w, pads, 2 * rank),
                nn_put_number(w, nn_put_real(w, "value", 0)));
}

static void shuffle(struct nn_put *w)
{
    const struct tensor_view *v = nn_put_view(w, w->n->in[0]);
    int64_t g = nn_put_integer(w, "groups", 1), c = v->dims[1];
    const char *x =
        nn_put_node(w, "Reshape", nn_put_in(w, 0),
                    nn_put_ints(w, (int64_t[]){-1, g, c / g, v->dims[2], v->dims[3]}, 5));
    reshape_to(w, nn_put_transposed(w, x, 5, (int64_t[]){0, 2, 1, 3, 4}));
}

static void full(struct nn_put *w)
{
    const struct tensor_view *v = nn_put_view(w, w->n->out[0]);
    w->needs_fixed |= w->large && !nn_put_same_dims(w, w->n->out[0], w->n_large->out[0]);
    nn_put_last(w, "Expand", nn_put_number(w, nn_put_real(w, "value", 0)),
                nn_put_ints(w, v->dims, v->rank), NULL);
}

/* ---- places ----------------------------------------------------------------------------------- */

static void gather(struct nn_put *w)
{
    bool is_table = strcmp(w->n->what, "embedding") == 0;
    bool is_elements = strcmp(w->n->what, "gather") == 0;
    const char *data = nn_put_in(w, is_table ? 1 : 0), *index = nn_put_in(w, is_table ? 0 : 1);
    int rank = nn_put_view(w, w->n->in[0])->rank;
    nn_put_begin(w, is_elements ? "GatherElements" : "Gather", data, index, NULL, nn_put_out(w, 0));
    onnx_write_int(w->w, "axis", is_table ? 0 : nn_put_axis(w, "dim", rank));
    onnx_write_end(w->w);
}

static void cumsum(struct nn_put *w)
{
    int64_t axis = nn_put_axis(w, "dim", nn_put_view(w, w->n->in[0])->rank);
    nn_put_last(w, "CumSum", nn_put_in(w, 0),
                nn_put_constant(w, ONNX_INT64, 0, NULL, &axis, sizeof axis), NULL);
}

/* ---- sums ------------------------------------------------------------------------------------- */

static void reduce(struct nn_put *w)
{
    static const char *const names[] = {"sum",  "ReduceSum", "mean",        "ReduceMean",
                                        "amax", "ReduceMax", "sum_squares", "ReduceSumSquare"};
    int64_t dims[TENSOR_PORTS];
    int rank = nn_put_view(w, w->n->in[0])->rank;
    size_t n = nn_put_list(w, "dims", 0, 0, dims);
    const char *op = "ReduceSum";
    for (size_t i = 0; i < 8; i += 2)
        if (strcmp(names[i], w->n->what) == 0)
            op = names[i + 1];
    for (size_t i = 0; i < n; i++)
        dims[i] = dims[i] < 0 ? dims[i] + rank : dims[i];
    bool is_sum = strcmp(op, "ReduceSum") == 0;
    const char *axes = is_sum && n ? nn_put_ints(w, dims, (int64_t)n) : NULL;
    nn_put_begin(w, op, nn_put_in(w, 0), axes, NULL, nn_put_out(w, 0));
    if (!is_sum && n)
        onnx_write_ints(w->w, "axes", dims, n);
    onnx_write_int(w->w, "keepdims", ebb_doc_bool(w->attr, "keepdim", false));
    onnx_write_end(w->w);
}

static void softmax(struct nn_put *w)
{
    nn_put_begin(w, *w->n->what == 'l' ? "LogSoftmax" : "Softmax", nn_put_in(w, 0), NULL, NULL,
                 nn_put_out(w, 0));
    onnx_write_int(w->w, "axis", nn_put_axis(w, "dim", nn_put_view(w, w->n->in[0])->rank));
    onnx_write_end(w->w);
}

/* ---- rows ------------------------------------------------------------------------------------- */

const struct nn_put_row nn_put_op_rows[] = {
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
    {NULL, NULL},
};
