/* onnx_match.c - what exporters take apart is one op again: layer norm, GELU, SiLU, hard swish,
 * attention. A pattern is looked for at its last node, when everything before it is made; what it
 * does not need is left out of the trace, because nothing reads it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "nn/onnx.h"

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-5 * fabs(b) + 1e-12;
}

/* The operand of a node of two that is not `value`. */
static uint32_t other(const struct onnx_node *n, uint32_t value)
{
    return n->in[0] == value ? n->in[1] : n->in[0];
}

/* ---- products of factors ---------------------------------------------------------------------- */

enum { FACTORS = 6, DEPTH = 6 };

struct factors {
    uint32_t value[FACTORS];
    size_t count;
    double scale;
};

/* What is multiplied, with the numbers taken together; false: too many. */
static bool take_factors(struct nn_onnx_build *o, uint32_t value, struct factors *f, int depth)
{
    const struct onnx_node *mul = nn_onnx_made(o, value, "Mul"),
                           *div = nn_onnx_made(o, value, "Div");
    double c;
    if (nn_onnx_scalar(o, value, &c)) {
        f->scale *= c;
        return true;
    }
    bool is_open =
        depth == 0 || o->file->uses[value] == 1; /* what others read is a thing of its own */
    if (is_open && div && depth < DEPTH && nn_onnx_scalar(o, div->in[1], &c) && (c < 0 || c > 0)) {
        f->scale /= c;
        return take_factors(o, div->in[0], f, depth + 1);
    }
    if (is_open && mul && depth < DEPTH)
        return take_factors(o, mul->in[0], f, depth + 1) &&
               take_factors(o, mul->in[1], f, depth + 1);
    if (f->count == FACTORS)
        return false;
    f->value[f->count++] = value;
    return true;
}

static bool factors_of(struct nn_onnx_build *o, uint32_t value, struct factors *f)
{
    *f = (struct factors){.scale = 1};
    return take_factors(o, value, f, 0);
}

/* value = x + c with this number; *x NONE: it is not. */
static uint32_t plus(struct nn_onnx_build *o, uint32_t value, double c)
{
    const struct onnx_node *add = nn_onnx_made(o, value, "Add");
    double have;
    for (size_t i = 0; add && add->in_count == 2 && i < 2; i++)
        if (nn_onnx_scalar(o, add->in[i], &have) && is_near(have, c))
            return add->in[1 - i];
    return ONNX_NONE;
}

/* value = scale * x with this number. */
static bool is_scaled(struct nn_onnx_build *o, uint32_t value, uint32_t x, double scale)
{
    struct factors f;
    return factors_of(o, value, &f) && f.count == 1 && f.value[0] == x && is_near(f.scale, scale);
}

static bool is_cube(struct nn_onnx_build *o, uint32_t value, uint32_t x)
{
    const struct onnx_node *power = nn_onnx_made(o, value, "Pow");
    double e;
    return power && power->in[0] == x && nn_onnx_scalar(o, power->in[1], &e) && is_near(e, 3);
}

/* x + 0.044715 x^3 */
static bool is_bent(struct nn_onnx_build *o, uint32_t value, uint32_t x)
{
    const struct onnx_node *add = nn_onnx_made(o, value, "Add");
    struct factors f;
    if (!add || add->in_count != 2 || (add->in[0] != x && add->in[1] != x) ||
        !factors_of(o, other(add, x), &f) || !is_near(f.scale, 0.044715))
        return false;
    if (f.count == 1)
        return is_cube(o, f.value[0], x);
    return f.count == 3 && f.value[0] == x && f.value[1] == x && f.value[2] == x;
}

/* ---- activations ------------------------------------------------------------------------------ */

/* x f(x) for one of the functions below; a is the other factor. */
static bool gate_of(struct nn_onnx_build *o, uint32_t x, uint32_t a, double scale, enum nn_act *act,
                    bool *is_hard)
{
    const double root_half = 0.70710678118654752440, root_two_by_pi = 0.79788456080286535588;
    const struct onnx_node *n;
    double low, high;
    uint32_t inner = plus(o, a, 1);
    struct factors f;
    *is_hard = false;
    if ((n = nn_onnx_made(o, inner, "Erf")) && is_near(scale, 0.5) &&
        is_scaled(o, n->in[0], x, root_half)) {
        *act = NN_GELU;
        return true;
    }
    if ((n = nn_onnx_made(o, inner, "Tanh")) && is_near(scale, 0.5) &&
        factors_of(o, n->in[0], &f) && f.count == 1 && is_near(f.scale, root_two_by_pi) &&
        is_bent(o, f.value[0], x)) {
        *act = NN_GELU_TANH;
        return true;
    }
    if ((n = nn_onnx_made(o, a, "Sigmoid")) && n->in[0] == x && is_near(scale, 1)) {
        *act = NN_SILU;
        return true;
    }
    *is_hard = true;
    if ((n = nn_onnx_made(o, a, "HardSigmoid")) && n->in[0] == x && is_near(scale, 1))
        return is_near(onnx_attr_number(n, "alpha", 0.2), 1.0 / 6) &&
               is_near(onnx_attr_number(n, "beta", 0.5), 0.5);
    if ((n = nn_onnx_made(o, a, "Clip")) && is_near(scale, 1.0 / 6) && n->in_count == 3 &&
        plus(o, n->in[0], 3) == x)
        return nn_onnx_scalar(o, n->in[1], &low) && nn_onnx_scalar(o, n->in[2], &high) &&
               is_near(low, 0) && is_near(high, 6);
    return false;
}

static bool match_activation(struct nn_onnx_build *o)
{
    struct factors f;
    enum nn_act act = NN_RELU;
    bool is_hard = false;
    if (!factors_of(o, o->node->out[0], &f) || f.count != 2)
        return false;
    for (size_t i = 0; i < 2; i++) {
        uint32_t x = f.value[i];
        if (!gate_of(o, x, f.value[1 - i], f.scale, &act, &is_hard))
            continue;
        tensor_id in = nn_onnx_live_of(o, x);
        nn_onnx_set(o, 0,
                    is_hard ? nn_onnx_op(o, "hardswish", 1, &in) : nn_activate(o->b, act, in));
        return true;
    }
    return false;
}

/* ---- layer norm ------------------------------------------------------------------------------- */

/* The first of the last dimensions that a mean of x goes over; -1: another thing. */
static int mean_from(struct nn_onnx_build *o, uint32_t value, uint32_t *x)
{
    const struct onnx_node *n = nn_onnx_made(o, value, "ReduceMean");
    size_t count;
    const int64_t *axes = n ? onnx_attr_ints(n, "axes", &count) : NULL;
    if (!axes || !onnx_attr_int(n, "keepdims", 1) || o->values[n->in[0]].kind != NN_ONNX_LIVE)
        return -1;
    int rank = nn_onnx_view(o, o->values[n->in[0]].id).rank;
    bool is_named[TENSOR_RANK] = {false};
    for (size_t i = 0; i < count; i++) {
        int64_t d = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (d < 0 || d >= rank)
            return -1;
        is_named[d] = true;
    }
    int from = rank - (int)count;
    for (int d = from < 0 ? 0 : from; d < rank; d++)
        if (!is_named[d])
            return -1;
    *x = n->in[0];
    return from;
}

/* value = x - mean(x) */
static int centred_from(struct nn_onnx_build *o, uint32_t value, uint32_t *x)
{
    const struct onnx_node *n = nn_onnx_made(o, value, "Sub");
    uint32_t of = ONNX_NONE;
    int from = n ? mean_from(o, n->in[1], &of) : -1;
    *x = n ? n->in[0] : ONNX_NONE;
    return n && of == *x ? from : -1;
}

/* mean((x - mean(x))^2) */
static bool is_variance(struct nn_onnx_build *o, uint32_t value, uint32_t x, int from)
{
    uint32_t squares = ONNX_NONE, of = ONNX_NONE;
    double e;
    const struct onnx_node *mean = nn_onnx_made(o, value, "ReduceMean");
    if (!mean || mean_from(o, value, &squares) != from)
        return false;
    const struct onnx_node *power = nn_onnx_made(o, squares, "Pow");
    const struct onnx_node *mul = nn_onnx_made(o, squares, "Mul");
    uint32_t d = power && nn_onnx_scalar(o, power->in[1], &e) && is_near(e, 2) ? power->in[0]
                 : mul && mul->in[0] == mul->in[1]                             ? mul->in[0]
                                                                               : ONNX_NONE;
    return d != ONNX_NONE && centred_from(o, d, &of) == from && of == x;
}

/* (x - mean) / sqrt(var + eps) */
static bool is_normal(struct nn_onnx_build *o, uint32_t value, uint32_t *x, int *from, double *eps)
{
    const struct onnx_node *div = nn_onnx_made(o, value, "Div");
    const struct onnx_node *root = div ? nn_onnx_made(o, div->in[1], "Sqrt") : NULL;
    const struct onnx_node *add = root ? nn_onnx_made(o, root->in[0], "Add") : NULL;
    if (!add || (*from = centred_from(o, div->in[0], x)) < 0)
        return false;
    for (size_t i = 0; i < 2; i++)
        if (nn_onnx_scalar(o, add->in[i], eps))
            return is_variance(o, add->in[1 - i], *x, *from);
    return false;
}

static bool is_vector(const struct nn_onnx_build *o, uint32_t value, int rank)
{
    const struct nn_onnx_weight *w = nn_onnx_weight(o, value);
    return w && w->tensor && w->tensor->rank == rank;
}

static bool match_layer_norm(struct nn_onnx_build *o)
{
    uint32_t value = o->node->out[0], x, weight = ONNX_NONE, bias = ONNX_NONE;
    const struct onnx_node *add = nn_onnx_made(o, value, "Add");
    double eps;
    int from;
    for (size_t i = 0; add && add->in_count == 2 && i < 2; i++)
        if (nn_onnx_made(o, add->in[i], "Mul") && nn_onnx_weight(o, add->in[1 - i])) {
            bias = add->in[1 - i];
            value = add->in[i];
        }
    const struct onnx_node *mul = nn_onnx_made(o, value, "Mul");
    for (size_t i = 0; mul && mul->in_count == 2 && i < 2; i++)
        if (nn_onnx_made(o, mul->in[i], "Div") && nn_onnx_weight(o, mul->in[1 - i])) {
            weight = mul->in[1 - i];
            value = mul->in[i];
        }
    if ((bias != ONNX_NONE && weight == ONNX_NONE) || !is_normal(o, value, &x, &from, &eps))
        return false;
    struct tensor_view v = nn_onnx_view(o, nn_onnx_live_of(o, x));
    if ((weight != ONNX_NONE && !is_vector(o, weight, v.rank - from)) ||
        (bias != ONNX_NONE && !is_vector(o, bias, v.rank - from)))
        return false;
    tensor_id in[3] = {nn_onnx_live_of(o, x), nn_onnx_live_of(o, weight), nn_onnx_live_of(o, bias)};
    struct ops_value values[] = {{"shape", .ints = v.dims + from, .count = v.rank - from},
                                 {"eps", .number = eps}};
    if (nn_onnx_ok(o))
        nn_onnx_set(o, 0,
                    nn_call(o->b, "layer_norm",
                            bias != ONNX_NONE     ? 3
                            : weight != ONNX_NONE ? 2
                                                  : 1,
                            in, NULL, 2, values));
    return true;
}

/* ---- attention -------------------------------------------------------------------------------- */

struct attention {
    uint32_t q, k, v;
    double scale, fill;        /* fill: of Where */
    uint32_t mask;             /* added, or the condition of Where; NONE: no mask */
    bool is_where, sees_where; /* sees_where: the scores stand where it is true */
};

/* From the input of the softmax down to the product of q and k. */
static bool walk_scores(struct nn_onnx_build *o, uint32_t s, struct attention *a, int depth)
{
    const struct onnx_node *n;
    double c;
    if (depth > 4)
        return false;
    if ((n = nn_onnx_made(o, s, "MatMul"))) {
        a->q = n->in[0];
        a->k = n->in[1];
        return true;
    }
    bool is_mul = (n = nn_onnx_made(o, s, "Mul")) != NULL;
    if (n || (n = nn_onnx_made(o, s, "Div"))) {
        for (size_t i = is_mul ? 0 : 1; i < 2; i++)
            if (nn_onnx_scalar(o, n->in[i], &c) && c > 0) {
                a->scale *= is_mul ? c : 1 / c;
                return walk_scores(o, n->in[1 - i], a, depth + 1);
            }
        return false;
    }
    if (a->mask != ONNX_NONE || !is_near(a->scale, 1)) /* it would scale the mask */
        return false;
    if ((n = nn_onnx_made(o, s, "Add")) && n->in_count == 2) {
        for (size_t i = 0; i < 2; i++) {
            a->mask = n->in[1 - i];
            if (walk_scores(o, n->in[i], a, depth + 1))
                return true;
            *a = (struct attention){.scale = 1, .mask = ONNX_NONE, .v = a->v};
        }
        return false;
    }
    if ((n = nn_onnx_made(o, s, "Where")))
        for (size_t i = 1; i < 3; i++)
            if (nn_onnx_scalar(o, n->in[i], &a->fill) && a->fill < -1000) {
                a->mask = n->in[0];
                a->is_where = true;
                a->sees_where = i == 2;
                return walk_scores(o, n->in[3 - i], a, depth + 1);
            }
    return false;
}

/* What place i of a known mask adds. */
static double added(const struct attention *a, const struct onnx_value *m, int64_t i)
{
    double v = m->number ? m->number[i] : (double)m->integer[i];
    return !a->is_where ? v : (v < 0 || v > 0) == a->sees_where ? 0 : a->fill;
}

/* Every matrix of it lets a query see its own place and those before it, and no other. */
static bool is_causal(const struct attention *a, const struct onnx_value *m, int64_t tq, int64_t tk)
{
    if (m->rank < 2 || m->dims[m->rank - 2] != tq || m->dims[m->rank - 1] != tk || tq < 2)
        return false;
    for (int64_t i = 0; i < m->count; i++) {
        int64_t row = i / tk % tq, column = i % tk;
        double v = added(a, m, i);
        bool is_seen = column <= row + tk - tq;
        if (is_seen ? v < 0 || v > 0 : !(v < -1000))
            return false;
    }
    return true;
}

/* Every row of it lets something be seen. One that does not is left as it was filled, which is no sum
 * of the score and the mask. */
static bool shows_all_rows(const struct attention *a, const struct onnx_value *m)
{
    int64_t size = m->rank ? m->dims[m->rank - 1] : 1, seen = 0;
    for (int64_t i = 0; i < m->count; i++) {
        seen += added(a, m, i) > -1000;
        if ((i + 1) % size == 0 && !seen)
            return false;
        seen = (i + 1) % size ? seen : 0;
    }
    return true;
}

/* The mask where training leaves it alone. An item is learned, except one that hides what comes later
 * and is 0 elsewhere: that is how masks without a name of their own are written. */
static const struct onnx_value *known_mask(struct nn_onnx_build *o, const struct attention *a,
                                           int64_t tq, int64_t tk)
{
    const struct nn_onnx_weight *w = nn_onnx_weight(o, a->mask);
    const struct onnx_tensor *t = w ? w->tensor : NULL;
    if (!t)
        return nn_onnx_fixed(o, a->mask);
    if (t->rank < 2 || t->dims[t->rank - 2] != tq || t->dims[t->rank - 1] != tk)
        return NULL;
    const struct onnx_value *m = nn_onnx_host_of(o, a->mask);
    return m && is_causal(a, m, tq, tk) ? m : NULL;
}

/* A known mask as what is added. */
static tensor_id constant_mask(struct nn_onnx_build *o, const struct attention *a,
                               const struct onnx_value *m)
{
    struct onnx_value v = *m;
    v.type = ONNX_FLOAT;
    v.integer = NULL;
    v.number = ebb_arena_calloc(&o->arena, (size_t)m->count + 1, sizeof *v.number);
    if (!v.number)
        return nn_onnx_fail(o, "out of memory");
    for (int64_t i = 0; i < m->count; i++)
        v.number[i] = added(a, m, i);
    return nn_onnx_constant(o, &v);
}

static bool find_attention(struct nn_onnx_build *o, struct attention *a)
{
    uint32_t p = o->node->in[0];
    const struct onnx_node *drop = nn_onnx_made(o, p, "Dropout");
    double ratio = 0;
    if (drop) {
        ratio = onnx_attr_number(drop, "ratio", 0.5);
        if (drop->in_count > 1)
            nn_onnx_scalar(o, drop->in[1], &ratio);
        if (ratio > 0 && o->b->mode.is_training)
            return false; /* the probabilities themselves are needed */
        p = drop->in[0];
    }
    const struct onnx_node *soft = nn_onnx_made(o, p, "Softmax");
    *a = (struct attention){.scale = 1, .mask = ONNX_NONE, .v = o->node->in[1]};
    if (!soft || o->values[soft->in[0]].kind != NN_ONNX_LIVE)
        return false;
    int rank = nn_onnx_view(o, o->values[soft->in[0]].id).rank;
    int64_t axis = onnx_attr_int(soft, "axis", o->file->onnx->opset < 13 ? 1 : -1);
    return (axis == -1 || axis == rank - 1) && walk_scores(o, soft->in[0], a, 0);
}

static bool match_attention(struct nn_onnx_build *o)
{
    struct attention a;
    if (!find_attention(o, &a))
        return false;
    tensor_id in[4] = {nn_onnx_live_of(o, a.q), nn_onnx_live_of(o, a.k), nn_onnx_live_of(o, a.v)};
    if (!nn_onnx_ok(o))
        return true;
    struct tensor_view q = nn_onnx_view(o, in[0]), k = nn_onnx_view(o, in[1]);
    if (q.rank < 3 || k.rank != q.rank || nn_onnx_view(o, in[2]).rank != q.rank)
        return false;
    bool sees_past = false;
    if (a.mask != ONNX_NONE) {
        int64_t tq = q.dims[q.rank - 2], tk = k.dims[q.rank - 1];
        const struct onnx_value *known = known_mask(o, &a, tq, tk);
        if (!nn_onnx_ok(o) || (!known && a.is_where) || (known && known->rank > q.rank) ||
            (a.is_where && !shows_all_rows(&a, known)))
            return false;
        sees_past = known && is_causal(&a, known, tq, tk);
        if (!sees_past)
            in[3] = known ? constant_mask(o, &a, known) : nn_onnx_live_of(o, a.mask);
        if (in[3].v && nn_onnx_view(o, in[3]).rank > q.rank)
            return false;
    }
    in[1] = nn_onnx_swap_last(o, in[1]);
    struct ops_value values[] = {{"causal", .integer = sees_past}, {"scale", .number = a.scale}};
    uint32_t first = tensor_node_count(o->b->session);
    tensor_id y = nn_call(o->b, "attention", in[3].v ? 4 : 3, in, NULL, 2, values);
    if (nn_onnx_ok(o)) {
        nn_layer_list(o->b, "", "attention", y, first, 0, 0);
        nn_onnx_set(o, 0, y);
    }
    return true;
}

bool nn_onnx_match(struct nn_onnx_build *o)
{
    const char *op = o->node->op;
    if (*o->node->domain || o->node->out_count < 1 || o->node->out[0] == ONNX_NONE)
        return false;
    bool is_mul = strcmp(op, "Mul") == 0, is_div = strcmp(op, "Div") == 0;
    if ((is_mul || is_div) && match_activation(o))
        return true;
    if ((is_mul || is_div || strcmp(op, "Add") == 0) && match_layer_norm(o))
        return true;
    return strcmp(op, "MatMul") == 0 && o->node->in_count == 2 && match_attention(o);
}
