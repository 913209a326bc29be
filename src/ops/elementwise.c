/* elementwise.c - functions of one element or of a few, with broadcasting. */
#include "ops/internal.h"

struct scalars {
    float a, b;
};

enum { /* rows of the table: functions, their gradients, then the rest */
       ROW_UNARY_GRAD = KERNEL_UNARY_COUNT,
       ROW_GATE_SUM = ROW_UNARY_GRAD + KERNEL_UNARY_COUNT,
       ROW_MASK,
       ROW_WHERE,
       ROW_TRUTH,
       ROW_BINARY,
       ROW_GELU = ROW_BINARY + KERNEL_BINARY_COUNT,
       ROW_MASKED_FILL,
       ROW_DROPOUT_MASK,
       ROW_GELU_SUMS,
       ROW_GELU_TANH_SUMS,
       ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];
static const struct ops_def *binary_row(enum kernel_binary f);

/* ---- unary ---------------------------------------------------------------------------------- */

static enum ebb_status infer_same(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    for (size_t k = 1; k < i->in_count; k++)
        if (!tensor_same_shape(i->in[0], i->in[k]))
            return ops_wrong(i, err, "shapes differ");
    ops_out(i, TENSOR_F32, i->in[0]->rank, i->in[0]->dims);
    i->flops = 8.0 * (double)tensor_count(i->in[0]);
    return EBB_OK;
}

static void describe_unary(const struct ops_views *v, void *desc)
{
    struct kernel_unary_desc *d = desc;
    const struct scalars *a = v->attr;
    d->n = tensor_count(v->in[0]);
    d->f = v->def->variant;
    d->a = a->a;
    d->b = a->b;
    if (v->out_count > 1)
        d->columns = (int32_t)v->out[1].dims[0];
}

static const bool saves_y[] = {
#define X(name, text, saves) saves,
    KERNEL_UNARY_LIST(X)
#undef X
};

static const struct ops_def *unary_row(enum kernel_unary f)
{
    return &rows[f];
}

static const struct ops_def *unary_grad_row(enum kernel_unary f)
{
    return &rows[ROW_UNARY_GRAD + (int)f];
}

tensor_id ops_unary(struct tensor_session *s, enum kernel_unary f, tensor_id x, float a, float b)
{
    struct scalars attr = {a, b};
    return ops_emit(s, unary_row(f), &attr, 1, &x);
}

static tensor_id unary_grad(struct tensor_session *s, enum kernel_unary f, tensor_id dy,
                            tensor_id saved, const struct scalars *attr)
{
    return ops_emit(s, unary_grad_row(f), attr, 2, (tensor_id[]){dy, saved});
}

static void grad_unary(struct ops_backward *b)
{
    enum kernel_unary f = (enum kernel_unary)b->def->variant;
    const struct scalars *a = b->attr;
    tensor_id share =
        f == KERNEL_RELU ? ops_pool_share(b->session, b->gout[0]) : TENSOR_NONE; /* not spread */
    if (f == KERNEL_NEG)
        b->gin[0] = ops_neg(b->session, b->gout[0]);
    else if (f == KERNEL_ADD_SCALAR)
        b->gin[0] = b->gout[0];
    else if (f == KERNEL_MUL_SCALAR)
        b->gin[0] = ops_mul_scalar(b->session, b->gout[0], a->a);
    else if (share.v)
        b->gin[0] = ops_binary(b->session, KERNEL_GATE, share, b->out[0]);
    else if (f == KERNEL_RELU)
        b->gin[0] = ops_relu_grad(b->session, b->gout[0], b->out[0]);
    else
        b->gin[0] = unary_grad(b->session, f, b->gout[0], saves_y[f] ? b->out[0] : b->in[0], a);
}

/* gelu: h = Phi(x) + x phi(x), h' = phi(x) (2 - x^2) */
static tensor_id second_gelu(struct tensor_session *s, tensor_id x, tensor_id t)
{
    tensor_id square = ops_unary(s, KERNEL_SQUARE, x, 0, 0);
    tensor_id phi = ops_unary(s, KERNEL_EXP, ops_mul_scalar(s, square, -0.5f), 0, 0);
    tensor_id rest = ops_add_scalar(s, ops_neg(s, square), 2.0f);
    return ops_mul_scalar(s, ops_mul(s, ops_mul(s, t, phi), rest), 0.3989422804014327f);
}

/* gelu tanh: w = tanh(u), u = c (x + k x^3); h' = (1 - w^2) (u' + x/2 u'' - x w u'^2) */
static tensor_id second_gelu_tanh(struct tensor_session *s, tensor_id x, tensor_id t)
{
    const float c = 0.79788456080286536f, k = 0.044715f;
    tensor_id square = ops_unary(s, KERNEL_SQUARE, x, 0, 0);
    tensor_id u = ops_mul(s, x, ops_add_scalar(s, ops_mul_scalar(s, square, c * k), c));
    tensor_id w = ops_unary(s, KERNEL_TANH, u, 0, 0);
    tensor_id u1 = ops_add_scalar(s, ops_mul_scalar(s, square, 3.0f * c * k), c);
    tensor_id half = ops_mul_scalar(s, square, 3.0f * c * k); /* x/2 u'' */
    tensor_id bend = ops_mul(s, ops_mul(s, x, w), ops_unary(s, KERNEL_SQUARE, u1, 0, 0));
    tensor_id all = ops_sub(s, ops_add(s, u1, half), bend);
    return ops_mul(s, unary_grad(s, KERNEL_TANH, t, w, &(struct scalars){0, 0}), all);
}

/* Derivative of dx = dy * h(s) towards s, times the incoming gradient: t h'(s), t = g dy. */
static tensor_id second(struct ops_backward *b, enum kernel_unary f, tensor_id t)
{
    struct tensor_session *s = b->session;
    const struct scalars *a = b->attr;
    tensor_id v = b->in[1], h;
    switch (f) {
    case KERNEL_EXP:
        return t;
    case KERNEL_SQRT: /* h = 1/(2s), 0 at 0: h' = -2 h h */
        h = unary_grad(s, f, unary_grad(s, f, t, v, a), v, a);
        return ops_mul_scalar(s, h, -2.0f);
    case KERNEL_LOG:
        return ops_neg(s, unary_grad(s, f, unary_grad(s, f, t, v, a), v, a));
    case KERNEL_RSQRT:
        return ops_mul_scalar(s, ops_mul(s, t, ops_unary(s, KERNEL_SQUARE, v, 0, 0)), -1.5f);
    case KERNEL_RECIPROCAL:
        return ops_mul_scalar(s, ops_mul(s, t, v), -2.0f);
    case KERNEL_SQUARE:
        return ops_mul_scalar(s, t, 2.0f);
    case KERNEL_SIGMOID:
        return ops_mul(s, t, ops_add_scalar(s, ops_mul_scalar(s, v, -2.0f), 1.0f));
    case KERNEL_TANH:
        return ops_mul_scalar(s, ops_mul(s, t, v), -2.0f);
    case KERNEL_SIN:
        return ops_neg(s, ops_mul(s, t, ops_unary(s, KERNEL_SIN, v, 0, 0)));
    case KERNEL_COS:
        return ops_neg(s, ops_mul(s, t, ops_unary(s, KERNEL_COS, v, 0, 0)));
    case KERNEL_ERF:
        return ops_mul_scalar(s, ops_mul(s, unary_grad(s, f, t, v, a), v), -2.0f);
    case KERNEL_POW:
        if (a->a == 0.0f || a->a == 1.0f)
            return TENSOR_NONE;
        return ops_mul(
            s, t,
            ops_mul_scalar(s, ops_unary(s, KERNEL_POW, v, a->a - 2.0f, 0), a->a * (a->a - 1.0f)));
    case KERNEL_SILU: { /* q(1-q)(2 + x(1-2q)), q = sigmoid(x) */
        tensor_id q = ops_unary(s, KERNEL_SIGMOID, v, 0, 0);
        tensor_id one = ops_add_scalar(s, ops_mul_scalar(s, q, -2.0f), 1.0f);
        tensor_id slope = unary_grad(s, KERNEL_SIGMOID, t, q, a);
        return ops_mul(s, slope, ops_add_scalar(s, ops_mul(s, v, one), 2.0f));
    }
    case KERNEL_ELU: /* h itself below 0, nothing above */
        h = unary_grad(s, f, t, v, a);
        return ops_sub(s, h, unary_grad(s, KERNEL_RELU, h, v, a));
    case KERNEL_SOFTPLUS: { /* beta q(1-q) up to the threshold */
        tensor_id q = ops_unary(s, KERNEL_SIGMOID, ops_mul_scalar(s, v, a->a), 0, 0);
        h = ops_mul_scalar(s, unary_grad(s, KERNEL_SIGMOID, t, q, a), a->a);
        return unary_grad(s, KERNEL_CLAMP, h, v, &(struct scalars){-INFINITY, a->b / a->a});
    }
    case KERNEL_HARDSWISH:
        h = ops_mul_scalar(s, t, 1.0f / 3.0f);
        return unary_grad(s, KERNEL_CLAMP, h, v, &(struct scalars){-3.0f, 3.0f});
    case KERNEL_GELU:
        return second_gelu(s, v, t);
    case KERNEL_GELU_TANH:
        return second_gelu_tanh(s, v, t);
    case KERNEL_ABS:
    case KERNEL_RELU:
    case KERNEL_RELU6:
    case KERNEL_LEAKY_RELU:
    case KERNEL_HARDSIGMOID:
    case KERNEL_CLAMP:
        return TENSOR_NONE; /* piecewise linear: zero */
    default:
        return tensor_fail(s, EBB_EUNSUPPORTED, "%s: has no second derivative", b->def->name);
    }
}

static void grad_unary_grad(struct ops_backward *b)
{
    enum kernel_unary f = (enum kernel_unary)b->def->variant;
    if (b->needs[0])
        b->gin[0] = unary_grad(b->session, f, b->gout[0], b->in[1], b->attr);
    if (b->needs[1])
        b->gin[1] = second(b, f, ops_mul(b->session, b->gout[0], b->in[0]));
}

tensor_id ops_neg(struct tensor_session *s, tensor_id x)
{
    return ops_unary(s, KERNEL_NEG, x, 0, 0);
}

tensor_id ops_sqrt(struct tensor_session *s, tensor_id x)
{
    return ops_unary(s, KERNEL_SQRT, x, 0, 0);
}

tensor_id ops_reciprocal(struct tensor_session *s, tensor_id x)
{
    return ops_unary(s, KERNEL_RECIPROCAL, x, 0, 0);
}

tensor_id ops_clamp(struct tensor_session *s, tensor_id x, float low, float high)
{
    return ops_unary(s, KERNEL_CLAMP, x, low, high);
}

tensor_id ops_add_scalar(struct tensor_session *s, tensor_id x, float value)
{
    return ops_unary(s, KERNEL_ADD_SCALAR, x, value, 0);
}

tensor_id ops_mul_scalar(struct tensor_session *s, tensor_id x, float value)
{
    return ops_unary(s, KERNEL_MUL_SCALAR, x, value, 0);
}

/* Asked where a gradient goes through a relu. */
const struct ops_rewrite ops_gate_rewrite = {"gate", OPS_PASS_GATE, .is_default = false};

/* Whether dy is the sum of two gradients as large as itself, and which. */
static bool is_sum(const struct tensor_session *s, tensor_id dy, tensor_id *parts)
{
    struct tensor_node n = tensor_node_at(s, tensor_producer(s, dy));
    const struct tensor_view *v = tensor_view_of(s, dy);
    if (n.def != &rows[ROW_BINARY + KERNEL_ADD])
        return false;
    for (int k = 0; k < 2; k++) {
        const struct tensor_view *p = tensor_view_of(s, n.inputs[k]);
        if (!tensor_same_shape(p, v) || p->dtype != v->dtype || p->block != v->block)
            return false;
        parts[k] = n.inputs[k];
    }
    return true;
}

tensor_id ops_relu_grad(struct tensor_session *s, tensor_id dy, tensor_id y)
{
    const struct scalars none = {0, 0};
    tensor_id parts[2];
    if (ops_has_pass(s, OPS_PASS_GATE) && is_sum(s, dy, parts))
        return ops_emit(s, &rows[ROW_GATE_SUM], &none, 3, (tensor_id[]){parts[0], y, parts[1]});
    return unary_grad(s, KERNEL_RELU, dy, y, &none);
}

static void grad_gate_sum(struct ops_backward *b)
{
    tensor_id g = ops_relu_grad(b->session, b->gout[0], b->in[1]);
    b->gin[0] = b->gin[2] = g;
}

/* ---- the gradient of a gelu with the sums of its columns ------------------------------------- */

/* Asked where the gradient of a bias is made. */
const struct ops_rewrite ops_bias_rewrite = {"bias", OPS_PASS_BIAS, .is_default = false};

static enum ebb_status infer_grad_sums(struct ops_infer *i, struct ebb_error *err)
{
    const struct tensor_view *x = i->in[0];
    EBB_TRY(infer_same(i, err));
    if (x->rank < 1 || x->dims[x->rank - 1] > INT32_MAX)
        return ops_wrong(i, err, "rows are needed");
    ops_out(i, TENSOR_F32, 1, &x->dims[x->rank - 1]);
    return EBB_OK;
}

tensor_id ops_gelu_grad_sums(struct tensor_session *s, tensor_id *g)
{
    const struct tensor_view v = *tensor_view_of(s, *g);
    struct tensor_node n = ops_maker(s, *g);
    const struct ops_def *row = n.def == unary_grad_row(KERNEL_GELU) ? &rows[ROW_GELU_SUMS]
                                : n.def == unary_grad_row(KERNEL_GELU_TANH)
                                    ? &rows[ROW_GELU_TANH_SUMS]
                                    : NULL;
    if (!row || !ops_has_pass(s, OPS_PASS_BIAS) || v.rank != 2)
        return TENSOR_NONE;
    const struct tensor_view *x = tensor_view_of(s, n.first_output);
    if (x->rank < 1 || x->block || x->dims[x->rank - 1] != v.dims[1] || !ops_is_unread(s, *g))
        return TENSOR_NONE;
    tensor_id first = ops_emit(s, row, n.attr, 2, n.inputs);
    *g = ops_reshape(s, first, v.rank, v.dims);
    return ops_output(first, 1);
}

/* Both results are linear in dy: their gradients together go the way of the first. */
static void grad_grad_sums(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    tensor_id g = b->gout[0];
    if (b->gout[1].v) {
        tensor_id all = ops_expand_to(s, b->gout[1], tensor_view_of(s, b->in[0]));
        g = g.v ? ops_add(s, g, all) : ops_contiguous(s, all);
    }
    struct ops_backward one = *b;
    one.gout = &g;
    grad_unary_grad(&one);
}

static tensor_id build_gelu(struct ops_build *b)
{
    const int32_t *is_tanh = b->attr;
    return ops_unary(b->s, *is_tanh ? KERNEL_GELU_TANH : KERNEL_GELU, b->in[0], 0, 0);
}

/* ---- binary --------------------------------------------------------------------------------- */

static enum ebb_status infer_binary(struct ops_infer *i, struct ebb_error *err)
{
    int rank;
    int64_t dims[TENSOR_RANK];
    EBB_TRY(ops_want_f32(i, 3, err));
    EBB_TRY(ops_broadcast(i, i->in[0], i->in[1], &rank, dims, err));
    ops_out(i, TENSOR_F32, rank, dims);
    i->flops = (double)tensor_count(&i->out[0]);
    return EBB_OK;
}

/* The index space of the result, and its strides and those of all inputs in it. */
static void describe_nd(const struct ops_views *v, void *desc)
{
    int block = v->out->block;
    ops_nd_pair(desc, v->out, v->out, v->in[0], block);
    for (uint32_t k = 1; k < v->in_count; k++)
        ops_nd_operand(desc, (int)k + 1, v->in[k], block);
}

static void describe_binary(const struct ops_views *v, void *desc)
{
    struct kernel_binary_desc *d = desc;
    describe_nd(v, &d->nd);
    d->f = v->def->variant;
}

static void grad_binary(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    tensor_id g = b->gout[0], p = b->in[0], q = b->in[1], gp = g, gq = g;
    switch ((enum kernel_binary)b->def->variant) {
    case KERNEL_ADD:
        break;
    case KERNEL_SUB:
        gq = b->needs[1] ? ops_neg(s, g) : g;
        break;
    case KERNEL_MUL:
        gp = b->needs[0] ? ops_mul(s, g, q) : g;
        gq = b->needs[1] ? ops_mul(s, g, p) : g;
        break;
    case KERNEL_DIV: /* d/dq = -g y / q */
        gp = ops_div(s, g, q);
        gq = b->needs[1] ? ops_neg(s, ops_mul(s, gp, b->out[0])) : g;
        break;
    case KERNEL_MAXIMUM:
        gp = b->needs[0] ? ops_mul(s, g, ops_binary(s, KERNEL_GREATER_HALF, p, q)) : g;
        gq = b->needs[1] ? ops_mul(s, g, ops_binary(s, KERNEL_GREATER_HALF, q, p)) : g;
        break;
    case KERNEL_MINIMUM:
        gp = b->needs[0] ? ops_mul(s, g, ops_binary(s, KERNEL_GREATER_HALF, q, p)) : g;
        gq = b->needs[1] ? ops_mul(s, g, ops_binary(s, KERNEL_GREATER_HALF, p, q)) : g;
        break;
    case KERNEL_GATE:
        if (b->needs[0])
            b->gin[0] = ops_reduce_to(s, ops_binary(s, KERNEL_GATE, g, q), tensor_view_of(s, p));
        return;
    default:
        return; /* comparisons: zero */
    }
    if (b->needs[0])
        b->gin[0] = ops_reduce_to(s, gp, tensor_view_of(s, p));
    if (b->needs[1])
        b->gin[1] = ops_reduce_to(s, gq, tensor_view_of(s, q));
}

tensor_id ops_binary(struct tensor_session *s, enum kernel_binary f, tensor_id a, tensor_id b)
{
    return ops_emit(s, binary_row(f), NULL, 2, (tensor_id[]){a, b});
}

tensor_id ops_add(struct tensor_session *s, tensor_id a, tensor_id b)
{
    return ops_binary(s, KERNEL_ADD, a, b);
}

tensor_id ops_sub(struct tensor_session *s, tensor_id a, tensor_id b)
{
    return ops_binary(s, KERNEL_SUB, a, b);
}

tensor_id ops_mul(struct tensor_session *s, tensor_id a, tensor_id b)
{
    return ops_binary(s, KERNEL_MUL, a, b);
}

tensor_id ops_div(struct tensor_session *s, tensor_id a, tensor_id b)
{
    return ops_binary(s, KERNEL_DIV, a, b);
}

/* ---- masks ---------------------------------------------------------------------------------- */

struct mask_attr { /* y = (m != 0) != invert ? x * scale : fill */
    int32_t invert;
    float scale, fill, zero;
};

static bool is_mask(const struct tensor_view *v)
{
    return v->dtype == TENSOR_U8 || v->dtype == TENSOR_BOOL;
}

static enum ebb_status infer_mask(struct ops_infer *i, struct ebb_error *err)
{
    int rank;
    int64_t dims[TENSOR_RANK];
    if (i->in[0]->dtype != TENSOR_F32 || !is_mask(i->in[1]))
        return ops_wrong(i, err, "inputs must be F32 and a mask (U8 or BOOL)");
    EBB_TRY(ops_broadcast(i, i->in[0], i->in[1], &rank, dims, err));
    ops_out(i, TENSOR_F32, rank, dims);
    return EBB_OK;
}

static void describe_mask(const struct ops_views *v, void *desc)
{
    struct kernel_mask_desc *d = desc;
    const struct mask_attr *a = v->attr;
    describe_nd(v, &d->nd);
    d->invert = a->invert;
    d->scale = a->scale;
    d->fill = a->fill;
}

static enum ebb_status infer_truth(struct ops_infer *i, struct ebb_error *err)
{
    if (i->in[0]->dtype != TENSOR_I64 && i->in[0]->dtype != TENSOR_F32)
        return ops_wrong(i, err, "masks are U8, BOOL, I64 or F32");
    ops_out(i, TENSOR_U8, i->in[0]->rank, i->in[0]->dims);
    return EBB_OK;
}

/* A mask of the files: what is not zero. */
static tensor_id truth(struct tensor_session *s, tensor_id m)
{
    return !m.v || is_mask(tensor_view_of(s, m)) ? m : ops_emit(s, &rows[ROW_TRUTH], NULL, 1, &m);
}

static tensor_id mask(struct tensor_session *s, tensor_id x, tensor_id m, bool invert, float scale,
                      float fill)
{
    struct mask_attr attr = {invert, scale, fill, 0.0f};
    return ops_emit(s, &rows[ROW_MASK], &attr, 2, (tensor_id[]){x, m});
}

static void grad_mask(struct ops_backward *b)
{
    const struct mask_attr *a = b->attr;
    if (b->needs[0])
        b->gin[0] = ops_reduce_to(b->session,
                                  mask(b->session, b->gout[0], b->in[1], a->invert, a->scale, 0.0f),
                                  tensor_view_of(b->session, b->in[0]));
}

static tensor_id build_masked_fill(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct scalars *a = b->attr;
    return mask(s, b->in[0], truth(s, b->in[1]), true, 1.0f, a->a);
}

static tensor_id build_dropout_mask(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct scalars *a = b->attr;
    float scale = (float)(1.0 / (1.0 - (double)a->a));
    if (tensor_view_of(s, b->in[1])->dtype == TENSOR_F32) /* any factors, with a gradient */
        return ops_mul_scalar(s, ops_mul(s, b->in[0], b->in[1]), scale);
    return mask(s, b->in[0], truth(s, b->in[1]), false, scale, 0.0f);
}

static enum ebb_status infer_where(struct ops_infer *i, struct ebb_error *err)
{
    int rank;
    int64_t dims[TENSOR_RANK];
    struct tensor_view both;
    if (!is_mask(i->in[0]))
        return ops_wrong(i, err, "input 0 must be a mask (U8 or BOOL)");
    EBB_TRY(ops_want_f32(i, 6, err));
    EBB_TRY(ops_broadcast(i, i->in[1], i->in[2], &rank, dims, err));
    tensor_view_init(&both, TENSOR_F32, rank, dims);
    EBB_TRY(ops_broadcast(i, &both, i->in[0], &rank, dims, err));
    ops_out(i, TENSOR_F32, rank, dims);
    return EBB_OK;
}

static void grad_where(struct ops_backward *b)
{
    for (int k = 1; k < 3; k++)
        if (b->needs[k])
            b->gin[k] = ops_reduce_to(b->session,
                                      mask(b->session, b->gout[0], b->in[0], k == 2, 1.0f, 0.0f),
                                      tensor_view_of(b->session, b->in[k]));
}

static tensor_id build_where(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    return ops_emit(s, b->def, b->attr, 3, (tensor_id[]){truth(s, b->in[0]), b->in[1], b->in[2]});
}

/* ---- rows ----------------------------------------------------------------------------------- */

#define F(text, member, required)                                                                  \
    {                                                                                              \
        text, OPS_FLOAT, offsetof(struct scalars, member), NULL, required                          \
    }
static const struct ops_field field_slope[] = {F("negative_slope", a, false), {0}};
static const struct ops_field field_alpha[] = {F("alpha", a, false), {0}};
static const struct ops_field field_softplus[] = {
    F("beta", a, false), F("threshold", b, false), {0}};
static const struct ops_field field_clamp[] = {F("min", a, false), F("max", b, false), {0}};
static const struct ops_field field_exponent[] = {F("exponent", a, true), {0}};
static const struct ops_field field_value[] = {F("value", a, true), {0}};
static const struct ops_field field_p[] = {F("p", a, true), {0}};
static const char *const gelu_names[] = {"none", "tanh", NULL};
static const struct ops_field field_gelu[] = {{"approximate", OPS_NAME, 0, gelu_names, false}, {0}};
static const struct scalars slope_default = {0.01f, 0}, alpha_default = {1.0f, 0},
                            softplus_default = {1.0f, 20.0f}, clamp_default = {-INFINITY, INFINITY};

/* What element-wise rows of n inputs have in common. */
#define EACH(n)                                                                                    \
    .blocked = (n), .blocked_out = 1, .low_rule = OPS_LOW_EACH, .low_out = 1, .overwrites = 1
#define FUNCTION(id, text, f, d, internal)                                                         \
    [KERNEL_##id] = {OPS_PRIMITIVE(text, 1, 1, infer_same, UNARY, describe_unary, grad_unary),     \
                     .variant = KERNEL_##id, .is_internal = internal,                              \
                     OPS_ATTR(struct scalars, f, d), EACH(1)}
#define U(id, text) FUNCTION(id, text, NULL, NULL, false)
#define PAIR(id, text, internal)                                                                   \
    [ROW_BINARY + KERNEL_##                                                                        \
        id] = {OPS_PRIMITIVE(text, 2, 2, infer_binary, BINARY, describe_binary, grad_binary),      \
               .variant = KERNEL_##id,                                                             \
               .strided = 3,                                                                       \
               .can_broadcast = true,                                                              \
               .is_internal = internal,                                                            \
               EACH(3)}

#define GRAD_SUMS(row, id, text)                                                                   \
    [row] = {                                                                                      \
        OPS_PRIMITIVE(text, 2, 2, infer_grad_sums, UNARY_GRAD, describe_unary, grad_grad_sums),    \
        .variant = KERNEL_##id,                                                                    \
        .is_internal = true,                                                                       \
        OPS_ATTR(struct scalars, NULL, NULL),                                                      \
        .low_rule = OPS_LOW_WHOLE,                                                                 \
        .low_out = 1}

static const struct ops_def rows[ROW_COUNT] = {
    U(NEG, "neg"),
    U(ABS, "abs"),
    U(EXP, "exp"),
    U(LOG, "log"),
    U(SQRT, "sqrt"),
    U(RSQRT, "rsqrt"),
    U(SQUARE, "square"),
    U(RECIPROCAL, "reciprocal"),
    U(ERF, "erf"),
    U(SIN, "sin"),
    U(COS, "cos"),
    U(RELU, "relu"),
    U(RELU6, "relu6"),
    FUNCTION(LEAKY_RELU, "leaky_relu", field_slope, &slope_default, false),
    FUNCTION(ELU, "elu", field_alpha, &alpha_default, false),
    U(SIGMOID, "sigmoid"),
    U(TANH, "tanh"),
    FUNCTION(GELU, "gelu_erf", NULL, NULL, true),
    FUNCTION(GELU_TANH, "gelu_tanh", NULL, NULL, true),
    U(SILU, "silu"),
    FUNCTION(SOFTPLUS, "softplus", field_softplus, &softplus_default, false),
    U(HARDSWISH, "hardswish"),
    U(HARDSIGMOID, "hardsigmoid"),
    FUNCTION(CLAMP, "clamp", field_clamp, &clamp_default, false),
    FUNCTION(POW, "pow_scalar", field_exponent, NULL, false),
    FUNCTION(ADD_SCALAR, "add_scalar", field_value, NULL, false),
    FUNCTION(MUL_SCALAR, "mul_scalar", field_value, NULL, false),
#define X(name_, text, saves)                                                                      \
    [ROW_UNARY_GRAD + KERNEL_##                                                                    \
        name_] = {OPS_PRIMITIVE(#text "_grad", 2, 2, infer_same, UNARY_GRAD, describe_unary,       \
                                grad_unary_grad),                                                  \
                  .variant = KERNEL_##name_,                                                       \
                  .is_internal = true,                                                             \
                  .is_over = KERNEL_##name_ == KERNEL_LEAKY_RELU, /* dx over dy: volumes */        \
                  OPS_ATTR(struct scalars, NULL, NULL),                                            \
                  EACH(3)},
    KERNEL_UNARY_LIST(X)
#undef X
        [ROW_GATE_SUM] = {OPS_PRIMITIVE("relu_grad_sum", 3, 3, infer_same, UNARY_GRAD,
                                        describe_unary, grad_gate_sum),
                          .variant = KERNEL_RELU, .is_internal = true,
                          OPS_ATTR(struct scalars, NULL, NULL), EACH(7)},
    [ROW_MASK] = {OPS_PRIMITIVE("mask", 2, 2, infer_mask, MASK, describe_mask, grad_mask),
                  .strided = 3, .low_rule = OPS_LOW_WHOLE, .low_out = 1,
                  .attr_bytes = sizeof(struct mask_attr), .is_internal = true},
    [ROW_WHERE] = {OPS_PRIMITIVE("where", 3, 3, infer_where, WHERE, describe_nd, grad_where),
                   .strided = 7, .low_rule = OPS_LOW_WHOLE, .low_out = 1, .build = build_where},
    [ROW_TRUTH] = {OPS_PRIMITIVE("truth", 1, 1, infer_truth, TRUTH, ops_describe_count,
                                 ops_grad_none),
                   .is_internal = true},
    PAIR(ADD, "add", false),
    PAIR(SUB, "sub", false),
    PAIR(MUL, "mul", false),
    PAIR(DIV, "div", false),
    PAIR(MAXIMUM, "maximum", false),
    PAIR(MINIMUM, "minimum", false),
    PAIR(GREATER_HALF, "greater_half", true),
    PAIR(EQUAL, "equal", true),
    PAIR(GATE, "gate", true),
    [ROW_GELU] = {OPS_COMPOSITE("gelu", 1, 1, build_gelu), OPS_ATTR(int32_t, field_gelu, NULL)},
    [ROW_MASKED_FILL] = {OPS_COMPOSITE("masked_fill", 2, 2, build_masked_fill),
                         OPS_ATTR(struct scalars, field_value, NULL)},
    [ROW_DROPOUT_MASK] = {OPS_COMPOSITE("dropout_mask", 2, 2, build_dropout_mask),
                          OPS_ATTR(struct scalars, field_p, NULL)},
    GRAD_SUMS(ROW_GELU_SUMS, GELU, "gelu_grad_sums"),
    GRAD_SUMS(ROW_GELU_TANH_SUMS, GELU_TANH, "gelu_tanh_grad_sums"),
};

static const struct ops_def *binary_row(enum kernel_binary f)
{
    return &rows[ROW_BINARY + (int)f];
}

const struct ops_family ops_elementwise_family = {rows, ROW_COUNT};
