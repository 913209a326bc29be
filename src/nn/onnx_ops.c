/* onnx_ops.c - ops of ONNX as ops of the table: element by element, types, sums. Shapes and places are in
 * onnx_shapes.c, layers with weights in onnx_layers.c. To add one: a row, and its function. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/onnx.h"

/* ---- shared ----------------------------------------------------------------------------------- */

bool nn_onnx_is_float(const struct nn_onnx_build *o, tensor_id x)
{
    uint8_t d = tensor_view_of(o->b->session, x)->dtype;
    return d == TENSOR_F32 || d == TENSOR_BF16 || d == TENSOR_F16;
}

tensor_id nn_onnx_take(struct nn_onnx_build *o, size_t i)
{
    tensor_id x = nn_onnx_live(o, i);
    if (nn_onnx_ok(o) && !nn_onnx_is_float(o, x))
        return nn_onnx_fail(o, "integers that depend on data are only places, not numbers");
    return x;
}

static tensor_id with_number(struct nn_onnx_build *o, const char *op, tensor_id x, const char *name,
                             double v)
{
    struct ops_value value = {name, .number = v};
    return nn_call(o->b, op, 1, &x, NULL, 1, &value);
}

static tensor_id add_number(struct nn_onnx_build *o, tensor_id x, double v)
{
    return v >= 0 && v <= 0 ? x : with_number(o, "add_scalar", x, "value", v);
}

static tensor_id scale(struct nn_onnx_build *o, tensor_id x, double v)
{
    return v >= 1 && v <= 1 ? x : with_number(o, "mul_scalar", x, "value", v);
}

static tensor_id pair(struct nn_onnx_build *o, const char *op, tensor_id a, tensor_id b)
{
    return nn_onnx_op(o, op, 2, (tensor_id[]){a, b});
}

static tensor_id one(struct nn_onnx_build *o, const char *op, tensor_id x)
{
    return nn_onnx_op(o, op, 1, &x);
}

static tensor_id clamp(struct nn_onnx_build *o, tensor_id x, double low, double high)
{
    struct ops_value values[] = {{"min", .number = low}, {"max", .number = high}};
    return nn_call(o->b, "clamp", 1, &x, NULL, 2, values);
}

bool nn_onnx_axis(struct nn_onnx_build *o, int64_t given, int rank, int *axis)
{
    if (given < -rank || given >= rank) {
        nn_onnx_wrong(o, "axis %" PRId64 " of %d dimensions", given, rank);
        return false;
    }
    *axis = (int)(given < 0 ? given + rank : given);
    return true;
}

bool nn_onnx_axes(struct nn_onnx_build *o, const int64_t *given, size_t count, int rank,
                  int64_t *axes)
{
    bool is_named[TENSOR_RANK] = {false};
    int axis;
    for (size_t i = 0; i < count; i++) {
        if (!nn_onnx_axis(o, given[i], rank, &axis))
            return false;
        if (is_named[axis]) {
            nn_onnx_wrong(o, "axis %" PRId64 " is named twice", given[i]);
            return false;
        }
        is_named[axis] = true;
        axes[i] = axis;
    }
    return true;
}

/* ---- arithmetic ------------------------------------------------------------------------------- */

/* x op c, or c op x. */
static tensor_id by_number(struct nn_onnx_build *o, char op, tensor_id x, double c, bool is_second)
{
    switch (op) {
    case 'A':
        return add_number(o, x, c);
    case 'S':
        return is_second ? add_number(o, x, -c) : add_number(o, one(o, "neg", x), c);
    case 'M':
        return scale(o, x, c);
    default:
        return is_second ? scale(o, x, (double)(1.0f / (float)c))
                         : scale(o, one(o, "reciprocal", x), c);
    }
}

/* Before version 7 the second operand lies at `axis` of the first. */
static tensor_id old_place(struct nn_onnx_build *o, tensor_id a, tensor_id b)
{
    struct tensor_view p = nn_onnx_view(o, a), q = nn_onnx_view(o, b);
    int64_t axis = onnx_attr_int(o->node, "axis", p.rank - q.rank);
    if (o->file->onnx->opset >= 7 || axis < 0 || axis + q.rank >= p.rank)
        return b;
    while (axis + q.rank < p.rank)
        q.dims[q.rank++] = 1;
    return nn_onnx_reshape(o, b, q.rank, q.dims);
}

static void arithmetic(struct nn_onnx_build *o)
{
    static const char *const ops[] = {"Add", "add", "Sub", "sub", "Mul", "mul", "Div", "div"};
    const char *op = o->node->op, *ours = "";
    double c;
    for (size_t i = 0; i < 8; i += 2)
        if (strcmp(ops[i], op) == 0)
            ours = ops[i + 1];
    for (size_t i = 0; i < 2; i++) {
        if (!nn_onnx_scalar(o, o->node->in[i], &c))
            continue;
        tensor_id x = nn_onnx_take(o, 1 - i);
        if (!nn_onnx_ok(o))
            return;
        struct tensor_view v = nn_onnx_view(o, x);
        if (v.rank < o->values[o->node->in[i]].host.rank)
            break;
        if (*op != 'D' || i == 0 || c < 0 || c > 0) {
            nn_onnx_set(o, 0, by_number(o, *op, x, c, i == 1));
            return;
        }
    }
    tensor_id a = nn_onnx_take(o, 0), b = nn_onnx_take(o, 1);
    if (nn_onnx_ok(o))
        nn_onnx_set(o, 0, pair(o, ours, a, old_place(o, a, b)));
}

static void several(struct nn_onnx_build *o)
{
    const char *op = o->node->op;
    const char *ours = strcmp(op, "Max") == 0   ? "maximum"
                       : strcmp(op, "Min") == 0 ? "minimum"
                                                : "add";
    tensor_id x = nn_onnx_take(o, 0);
    for (size_t i = 1; i < o->node->in_count && nn_onnx_ok(o); i++) {
        tensor_id y = nn_onnx_take(o, i);
        if (nn_onnx_ok(o))
            x = pair(o, ours, x, y);
    }
    if (nn_onnx_ok(o))
        nn_onnx_set(o, 0,
                    strcmp(op, "Mean") == 0 ? scale(o, x, 1.0 / (double)o->node->in_count) : x);
}

static void power(struct nn_onnx_build *o)
{
    double e;
    if (!nn_onnx_scalar(o, o->node->in[1], &e)) {
        nn_onnx_fail(o, "an exponent that depends on data");
        return;
    }
    tensor_id x = nn_onnx_take(o, 0);
    if (!nn_onnx_ok(o))
        return;
    bool is_two = e >= 2 && e <= 2, is_half = e >= 0.5 && e <= 0.5;
    nn_onnx_set(o, 0,
                is_two    ? one(o, "square", x)
                : is_half ? one(o, "sqrt", x)
                          : with_number(o, "pow_scalar", x, "exponent", e));
}

static void clip(struct nn_onnx_build *o)
{
    bool is_old = o->file->onnx->opset < 11;
    double low = is_old ? onnx_attr_number(o->node, "min", -INFINITY) : -INFINITY;
    double high = is_old ? onnx_attr_number(o->node, "max", INFINITY) : INFINITY;
    for (size_t i = 1; i < 3 && !is_old; i++)
        if (nn_onnx_has(o, i) && !nn_onnx_scalar(o, o->node->in[i], i == 1 ? &low : &high)) {
            nn_onnx_fail(o, "a bound that depends on data");
            return;
        }
    tensor_id x = nn_onnx_take(o, 0);
    if (!nn_onnx_ok(o))
        return;
    bool is_zero = low >= 0 && low <= 0, is_six = high >= 6 && high <= 6;
    nn_onnx_set(o, 0,
                is_zero && isinf(high) && high > 0 ? nn_activate(o->b, NN_RELU, x)
                : is_zero && is_six                ? nn_activate(o->b, NN_RELU6, x)
                                                   : clamp(o, x, low, high));
}

static void activation(struct nn_onnx_build *o)
{
    const struct onnx_node *n = o->node;
    const char *op = n->op;
    tensor_id x = nn_onnx_take(o, 0), y = TENSOR_NONE;
    if (!nn_onnx_ok(o))
        return;
    if (strcmp(op, "Relu") == 0)
        y = nn_activate(o->b, NN_RELU, x);
    else if (strcmp(op, "LeakyRelu") == 0)
        y = with_number(o, "leaky_relu", x, "negative_slope",
                        onnx_attr_number(n, "alpha", (double)0.01f));
    else if (strcmp(op, "Elu") == 0)
        y = with_number(o, "elu", x, "alpha", onnx_attr_number(n, "alpha", 1));
    else if (strcmp(op, "Selu") == 0) /* of the standard numbers: gamma elu(x, alpha) */
        y = scale(o,
                  with_number(o, "elu", x, "alpha",
                              onnx_attr_number(n, "alpha", 1.67326319217681884765625)),
                  onnx_attr_number(n, "gamma", 1.05070102214813232421875));
    else if (strcmp(op, "HardSigmoid") == 0)
        y = clamp(o,
                  add_number(o, scale(o, x, onnx_attr_number(n, "alpha", (double)0.2f)),
                             onnx_attr_number(n, "beta", 0.5)),
                  0, 1);
    else if (strcmp(op, "Softsign") == 0)
        y = pair(o, "div", x, add_number(o, one(o, "abs", x), 1));
    else if (strcmp(op, "Mish") == 0)
        y = pair(o, "mul", x, one(o, "tanh", one(o, "softplus", x)));
    else if (strcmp(op, "Gelu") == 0)
        y = nn_activate(o->b,
                        strcmp(onnx_attr_text(n, "approximate", "none"), "tanh") == 0 ? NN_GELU_TANH
                                                                                      : NN_GELU,
                        x);
    nn_onnx_set(o, 0, y);
}

static void prelu(struct nn_onnx_build *o)
{
    tensor_id x = nn_onnx_take(o, 0), slope = nn_onnx_take(o, 1);
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view v = nn_onnx_view(o, x), s = nn_onnx_view(o, slope);
    if (o->file->onnx->opset < 7 && s.rank == 1 && s.dims[0] > 1)
        for (; s.rank + 1 < v.rank;)
            s.dims[s.rank++] = 1;
    slope = nn_onnx_reshape(o, slope, s.rank, s.dims);
    tensor_id below = pair(o, "mul", slope, one(o, "relu", one(o, "neg", x)));
    nn_onnx_set(o, 0, pair(o, "sub", one(o, "relu", x), below));
}

static void where(struct nn_onnx_build *o)
{
    tensor_id in[3] = {nn_onnx_live(o, 0), nn_onnx_take(o, 1), nn_onnx_take(o, 2)};
    if (nn_onnx_ok(o))
        nn_onnx_set(o, 0, nn_onnx_op(o, "where", 3, in));
}

/* What is kept of a matrix of ones, known on the host, chooses. */
static void trilu(struct nn_onnx_build *o)
{
    struct onnx_value in[2] = {{0}}, kept = {0};
    struct ebb_error err;
    tensor_id x = nn_onnx_take(o, 0);
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view v = nn_onnx_view(o, x);
    if (v.rank < 2 || (nn_onnx_has(o, 1) && !nn_onnx_host(o, 1))) {
        nn_onnx_fail(o, "a diagonal that depends on data, or no matrix");
        return;
    }
    int64_t count = v.dims[v.rank - 2] * v.dims[v.rank - 1];
    double *ones =
        count <= 1 << 24 ? ebb_arena_calloc(&o->arena, (size_t)count + 1, sizeof *ones) : NULL;
    for (int64_t i = 0; ones && i < count; i++)
        ones[i] = 1;
    in[0] = (struct onnx_value){.type = ONNX_FLOAT,
                                .rank = 2,
                                .dims = {v.dims[v.rank - 2], v.dims[v.rank - 1]},
                                .count = count,
                                .number = ones};
    if (nn_onnx_has(o, 1))
        in[1] = *nn_onnx_host(o, 1);
    if (!ones || onnx_eval_node(&o->eval, o->node, in, &kept, &err) != EBB_OK) {
        nn_onnx_fail(o, "%s", ones ? err.message : "a matrix of more than 2^24 elements");
        return;
    }
    int64_t one_place = 1;
    struct ops_value zero[] = {{"shape", .ints = &one_place, .count = 1}, {"value", .number = 0}};
    tensor_id parts[3] = {nn_onnx_constant(o, &kept), x,
                          nn_call(o->b, "full", 0, NULL, NULL, 2, zero)};
    if (nn_onnx_ok(o))
        nn_onnx_set(o, 0, nn_onnx_op(o, "where", 3, parts));
}

/* ---- types ------------------------------------------------------------------------------------ */

/* 0 or 1 as a fraction: a row of a table of two. Other integers are not numbers here. */
static tensor_id mask_as_float(struct nn_onnx_build *o, tensor_id x)
{
    struct tensor_view v = nn_onnx_view(o, x);
    int64_t dims[2] = {1, 1};
    struct ops_value zero[] = {{"shape", .ints = dims, .count = 2}, {"value", .number = 0}};
    struct ops_value first[] = {{"shape", .ints = dims, .count = 2}, {"value", .number = 1}};
    tensor_id rows[2] = {nn_call(o->b, "full", 0, NULL, NULL, 2, zero),
                         nn_call(o->b, "full", 0, NULL, NULL, 2, first)};
    tensor_id table = nn_cat(o->b, 2, rows, 0);
    tensor_id y = nn_onnx_op(o, "embedding", 2, (tensor_id[]){x, table});
    return nn_onnx_reshape(o, y, v.rank, v.dims);
}

static bool is_mask(const struct nn_onnx_build *o, tensor_id x)
{
    struct nn_port ports[NN_PORTS];
    size_t n = nn_onnx_inputs(o->b->config, 2, ports);
    for (size_t i = 0; i < n && i < o->g->input_count; i++) {
        uint32_t at = tensor_producer(o->b->session, x);
        if (ports[i].kind != NN_MASK)
            continue;
        tensor_id port = o->values[o->g->inputs[i].value].id;
        for (int steps = 0; x.v != port.v && at != UINT32_MAX && steps < 64; steps++) {
            struct tensor_node node = tensor_node_at(o->b->session, at);
            if (!node.input_count)
                break;
            x = node.inputs[0];
            at = tensor_producer(o->b->session, x);
        }
        if (x.v == port.v)
            return true;
    }
    return false;
}

static void cast(struct nn_onnx_build *o)
{
    int to = onnx_attr_type(o->node, "to", ONNX_UNDEFINED);
    bool is_float = onnx_type_is_float(to), is_truth = o->values[o->node->in[0]].is_truth;
    tensor_id x = nn_onnx_live(o, 0);
    if (!nn_onnx_ok(o))
        return;
    bool is_fraction = nn_onnx_is_float(o, x);
    bool is_integer = to == ONNX_INT64 || to == ONNX_INT32;
    if (to == ONNX_BOOL || (!is_truth && (is_fraction ? is_float : is_integer)))
        nn_onnx_set(o, 0, x); /* truth is what is not zero: `where` takes it so */
    else if (!is_fraction && is_float && is_mask(o, x))
        nn_onnx_set(o, 0, mask_as_float(o, x));
    else
        nn_onnx_fail(o, "to %s, of %s that depend on data", onnx_type_name(to),
                     is_truth      ? "truth"
                     : is_fraction ? "fractions"
                                   : "integers");
    o->values[o->node->out[0]].is_truth = to == ONNX_BOOL;
}

static void identity(struct nn_onnx_build *o)
{
    nn_onnx_set(o, 0, nn_onnx_live(o, 0));
}

/* ---- sums ------------------------------------------------------------------------------------- */

static tensor_id reduce_by(struct nn_onnx_build *o, const char *op, tensor_id x,
                           const int64_t *dims, size_t count, bool keeps)
{
    struct ops_value values[] = {{"keepdim", .integer = keeps},
                                 {"dims", .ints = dims, .count = (int)count}};
    return nn_call(o->b, op, 1, &x, NULL, count ? 2 : 1, values);
}

/* The dimensions, counted from the front; none: all. */
static bool reduced_dims(struct nn_onnx_build *o, int rank, int64_t *dims, size_t *count,
                         bool *is_all)
{
    const int64_t *axes;
    if (!nn_onnx_ints(o, 1, "axes", &axes, count) || !nn_onnx_axes(o, axes, *count, rank, dims))
        return false;
    *is_all = !*count;
    for (int d = 0; *is_all && d < rank; d++)
        dims[d] = d;
    *count = *is_all ? (size_t)rank : *count;
    return true;
}

static void reduce(struct nn_onnx_build *o)
{
    const char *op = o->node->op + strlen("Reduce");
    bool keeps = onnx_attr_int(o->node, "keepdims", 1) != 0;
    int64_t dims[TENSOR_RANK] = {0};
    size_t count;
    tensor_id x = nn_onnx_take(o, 0), y;
    bool is_all;
    if (!nn_onnx_ok(o) || !reduced_dims(o, nn_onnx_view(o, x).rank, dims, &count, &is_all))
        return;
    if (onnx_attr_int(o->node, "noop_with_empty_axes", 0) && is_all) {
        nn_onnx_set(o, 0, x);
        return;
    }
    if (strcmp(op, "Mean") == 0)
        y = reduce_by(o, "mean", x, dims, count, keeps);
    else if (strcmp(op, "Max") == 0)
        y = reduce_by(o, "amax", x, dims, count, keeps);
    else if (strcmp(op, "Min") == 0)
        y = one(o, "neg", reduce_by(o, "amax", one(o, "neg", x), dims, count, keeps));
    else if (strcmp(op, "SumSquare") == 0)
        y = reduce_by(o, "sum_squares", x, dims, count, keeps);
    else if (strcmp(op, "L2") == 0)
        y = one(o, "sqrt", reduce_by(o, "sum_squares", x, dims, count, keeps));
    else if (strcmp(op, "L1") == 0)
        y = reduce_by(o, "sum", one(o, "abs", x), dims, count, keeps);
    else if (strcmp(op, "LogSum") == 0)
        y = one(o, "log", reduce_by(o, "sum", x, dims, count, keeps));
    else if (strcmp(op, "LogSumExp") == 0) {
        tensor_id most = reduce_by(o, "amax", x, dims, count, true);
        tensor_id rest = one(o, "exp", pair(o, "sub", x, most));
        rest = one(o, "log", reduce_by(o, "sum", rest, dims, count, true));
        y = pair(o, "add", rest, most);
        if (!keeps && nn_onnx_ok(o)) {
            struct tensor_view v = nn_onnx_view(o, x);
            int64_t kept[TENSOR_RANK];
            int rank = 0;
            for (int d = 0; d < v.rank; d++) {
                bool goes = false;
                for (size_t i = 0; i < count; i++)
                    goes |= dims[i] == d;
                if (!goes)
                    kept[rank++] = v.dims[d];
            }
            y = nn_onnx_reshape(o, y, rank, kept);
        }
    } else {
        y = reduce_by(o, "sum", x, dims, count, keeps);
    }
    nn_onnx_set(o, 0, y);
}

/* Before version 13 the dimensions from the axis on are one. */
static void softmax(struct nn_onnx_build *o)
{
    const char *ours = *o->node->op == 'L' ? "log_softmax" : "softmax";
    bool is_old = o->file->onnx->opset < 13;
    tensor_id x = nn_onnx_take(o, 0);
    int axis;
    if (!nn_onnx_ok(o))
        return;
    struct tensor_view v = nn_onnx_view(o, x);
    if (!nn_onnx_axis(o, onnx_attr_int(o->node, "axis", is_old ? 1 : -1), v.rank, &axis))
        return;
    struct ops_value dim = {"dim", .integer = axis};
    if (is_old && axis != v.rank - 1) {
        int64_t flat[2] = {1, 1};
        for (int d = 0; d < v.rank; d++)
            flat[d >= axis] *= v.dims[d];
        dim.integer = 1;
        x = nn_onnx_reshape(o, x, 2, flat);
    }
    x = nn_call(o->b, ours, 1, &x, NULL, 1, &dim);
    nn_onnx_set(o, 0, nn_onnx_ok(o) ? nn_onnx_reshape(o, x, v.rank, v.dims) : x);
}

static void cumsum(struct nn_onnx_build *o)
{
    const int64_t *axes;
    size_t count;
    int axis;
    tensor_id x = nn_onnx_take(o, 0);
    if (!nn_onnx_ok(o) || !nn_onnx_ints(o, 1, NULL, &axes, &count))
        return;
    if (count != 1) {
        nn_onnx_wrong(o, "%zu axes", count);
        return;
    }
    if (!nn_onnx_axis(o, axes[0], nn_onnx_view(o, x).rank, &axis))
        return;
    if (onnx_attr_int(o->node, "exclusive", 0) || onnx_attr_int(o->node, "reverse", 0)) {
        nn_onnx_fail(o, "exclusive or reverse");
        return;
    }
    struct ops_value dim = {"dim", .integer = axis};
    nn_onnx_set(o, 0, nn_call(o->b, "cumsum", 1, &x, NULL, 1, &dim));
}

/* ---- rows ------------------------------------------------------------------------------------- */

static const struct nn_onnx_row op_rows[] = {
    {"Abs", NULL, "abs"},
    {"Cos", NULL, "cos"},
    {"Erf", NULL, "erf"},
    {"Exp", NULL, "exp"},
    {"HardSwish", NULL, "hardswish"},
    {"Log", NULL, "log"},
    {"Neg", NULL, "neg"},
    {"Reciprocal", NULL, "reciprocal"},
    {"Sigmoid", NULL, "sigmoid"},
    {"Sin", NULL, "sin"},
    {"Softplus", NULL, "softplus"},
    {"Sqrt", NULL, "sqrt"},
    {"Tanh", NULL, "tanh"},
    {"Add", arithmetic, NULL},
    {"Sub", arithmetic, NULL},
    {"Mul", arithmetic, NULL},
    {"Div", arithmetic, NULL},
    {"Sum", several, NULL},
    {"Mean", several, NULL},
    {"Max", several, NULL},
    {"Min", several, NULL},
    {"Pow", power, NULL},
    {"Clip", clip, NULL},
    {"Relu", activation, NULL},
    {"LeakyRelu", activation, NULL},
    {"Elu", activation, NULL},
    {"Selu", activation, NULL},
    {"HardSigmoid", activation, NULL},
    {"Softsign", activation, NULL},
    {"Mish", activation, NULL},
    {"Gelu", activation, NULL},
    {"PRelu", prelu, NULL},
    {"Where", where, NULL},
    {"Trilu", trilu, NULL},
    {"Cast", cast, NULL},
    {"Identity", identity, NULL},
    {"ReduceSum", reduce, NULL},
    {"ReduceMean", reduce, NULL},
    {"ReduceMax", reduce, NULL},
    {"ReduceMin", reduce, NULL},
    {"ReduceSumSquare", reduce, NULL},
    {"ReduceL1", reduce, NULL},
    {"ReduceL2", reduce, NULL},
    {"ReduceLogSum", reduce, NULL},
    {"ReduceLogSumExp", reduce, NULL},
    {"Softmax", softmax, NULL},
    {"LogSoftmax", softmax, NULL},
    {"CumSum", cumsum, NULL},
    {NULL, NULL, NULL},
};

const struct nn_onnx_row *nn_onnx_row(const char *op)
{
    const struct nn_onnx_row *const tables[] = {op_rows, nn_onnx_shape_rows, nn_onnx_layer_rows};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct nn_onnx_row *r = tables[i]; r->op; r++)
            if (strcmp(r->op, op) == 0)
                return r;
    return NULL;
}
