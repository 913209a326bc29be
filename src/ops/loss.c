/* loss.c - losses with torch's reductions. */
#include "ops/internal.h"

enum {
    ROW_MSE,
    ROW_L1,
    ROW_SMOOTH_L1,
    ROW_BCE,
    ROW_BCE_LOGITS,
    ROW_KL,
    ROW_LOSS_GRAD,
    ROW_CROSS_ENTROPY = ROW_LOSS_GRAD + 6,
    ROW_NLL,
    ROW_CROSS_ENTROPY_GRAD,
    ROW_NLL_GRAD,
    ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];

struct loss_attr {
    int32_t reduction;
    float beta;
};

struct entropy_attr {
    int64_t ignore_index;
    int32_t reduction;
    float label_smoothing;
};

/* ---- element-wise --------------------------------------------------------------------------- */

static enum ebb_status infer_loss(struct ops_infer *i, struct ebb_error *err)
{
    const struct loss_attr *a = i->attr;
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    if (!tensor_same_shape(i->in[0], i->in[1]))
        return ops_wrong(i, err, "input and target must have the same shape");
    if (a->reduction == KERNEL_REDUCE_NONE)
        ops_out(i, TENSOR_F32, i->in[0]->rank, i->in[0]->dims);
    else
        ops_out(i, TENSOR_F32, 0, NULL);
    i->flops = 10.0 * (double)tensor_count(i->in[0]);
    return EBB_OK;
}

static int64_t batch_of(const struct tensor_view *x)
{
    return x->rank ? x->dims[0] : 1;
}

static enum ebb_status run_loss_as(const struct trace_call *call, enum kernel_loss f,
                                   struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    const struct loss_attr *a = c.attr;
    kernel_loss(ops_context(&c), f, (enum kernel_reduction)a->reduction, tensor_count(&c.in[0]),
                batch_of(&c.in[0]), a->beta, tensor_call_in(&c, 0), tensor_call_in(&c, 1),
                tensor_call_out(&c, 0));
    return EBB_OK;
}

/* dy, x, t -> dx */
static enum ebb_status infer_loss_grad(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    ops_out(i, TENSOR_F32, i->in[1]->rank, i->in[1]->dims);
    i->flops = 10.0 * (double)tensor_count(i->in[1]);
    return EBB_OK;
}

static enum ebb_status run_grad_as(const struct trace_call *call, enum kernel_loss f,
                                   struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    const struct loss_attr *a = c.attr;
    kernel_loss_grad(ops_context(&c), f, (enum kernel_reduction)a->reduction,
                     tensor_count(&c.in[1]), batch_of(&c.in[1]), a->beta, tensor_call_in(&c, 0),
                     tensor_call_in(&c, 1), tensor_call_in(&c, 2), tensor_call_out(&c, 0));
    return EBB_OK;
}

#define LOSS_LIST(X)                                                                               \
    X(MSE, mse_loss)                                                                               \
    X(L1, l1_loss)                                                                                 \
    X(SMOOTH_L1, smooth_l1_loss)                                                                   \
    X(BCE, bce_loss)                                                                               \
    X(BCE_LOGITS, bce_with_logits_loss)                                                            \
    X(KL, kl_div_loss)

#define X(name, text)                                                                              \
    static enum ebb_status run_##text(const struct trace_call *call, struct ebb_error *err)        \
    {                                                                                              \
        return run_loss_as(call, KERNEL_##name, err);                                              \
    }                                                                                              \
    static enum ebb_status run_##text##_grad(const struct trace_call *call, struct ebb_error *err) \
    {                                                                                              \
        return run_grad_as(call, KERNEL_##name, err);                                              \
    }
LOSS_LIST(X)
#undef X

/* What the reduction divides by, as a factor. */
static double share(const struct loss_attr *a, const struct tensor_view *x)
{
    return a->reduction == KERNEL_REDUCE_MEAN        ? 1.0 / (double)tensor_count(x)
           : a->reduction == KERNEL_REDUCE_BATCHMEAN ? 1.0 / (double)batch_of(x)
                                                     : 1.0;
}

/* d loss / d target where it is no mirror of d loss / d input. */
static tensor_id target_slope(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    tensor_id x = b->in[0], t = b->in[1];
    switch ((enum kernel_loss)b->def->variant) {
    case KERNEL_BCE: /* log(1 - x) - log(x) */
        return ops_sub(s, ops_unary(s, KERNEL_LOG, ops_add_scalar(s, ops_neg(s, x), 1.0f), 0, 0),
                       ops_unary(s, KERNEL_LOG, x, 0, 0));
    case KERNEL_BCE_LOGITS:
        return ops_neg(s, x);
    default: { /* kl_div: log(t) + 1 - x, and 0 at t = 0 */
        tensor_id some = ops_binary(s, KERNEL_EQUAL, t, ops_full(s, 0, NULL, 0.0f));
        some = ops_add_scalar(s, ops_neg(s, some), 1.0f);
        tensor_id safe = ops_sub(s, ops_add_scalar(s, t, 1.0f), some);
        tensor_id d = ops_sub(s, ops_unary(s, KERNEL_LOG, safe, 0, 0), x);
        return ops_mul(s, some, ops_add_scalar(s, d, 1.0f));
    }
    }
}

static void grad_loss(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    enum kernel_loss f = (enum kernel_loss)b->def->variant;
    bool is_mirror = f == KERNEL_MSE || f == KERNEL_L1 || f == KERNEL_SMOOTH_L1;
    if (b->needs[0] || is_mirror) {
        tensor_id g = ops_emit(s, &rows[ROW_LOSS_GRAD + (int)f], b->attr, 3,
                               (tensor_id[]){b->gout[0], b->in[0], b->in[1]});
        if (b->needs[0])
            b->gin[0] = g;
        if (b->needs[1] && is_mirror)
            b->gin[1] = ops_neg(s, g);
    }
    if (b->needs[1] && !is_mirror) {
        double c = share(b->attr, tensor_view_of(s, b->in[0]));
        b->gin[1] = ops_mul_scalar(s, ops_mul(s, target_slope(b), b->gout[0]), (float)c);
    }
}

/* From a file: input and target broadcast. */
static void build_loss(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                       size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    tensor_id parts[2] = {in[0], in[1]};
    const struct tensor_view *x = tensor_view_of(s, in[0]), *t = tensor_view_of(s, in[1]);
    struct tensor_view wide = x->rank > t->rank ? *x : *t;
    (void)in_count;
    for (int d = 0; d < wide.rank; d++) {
        int dx = d - (wide.rank - x->rank), dt = d - (wide.rank - t->rank);
        int64_t a = dx < 0 ? 1 : x->dims[dx], b = dt < 0 ? 1 : t->dims[dt];
        wide.dims[d] = a == 1 ? b : a;
    }
    for (int k = 0; k < 2; k++)
        if (!tensor_same_shape(tensor_view_of(s, in[k]), &wide))
            parts[k] = ops_expand_to(s, in[k], &wide);
    out[0] = ops_emit(s, def, attr, 2, parts);
    *out_count = 1;
}

struct curve { /* of a loss: its slope d/dx, d slope/dx, -d slope/dt; TENSOR_NONE = zero */
    tensor_id slope, bend, cross;
};

static struct curve curve_of(struct tensor_session *s, enum kernel_loss f, float beta, tensor_id x,
                             tensor_id t)
{
    struct curve c = {TENSOR_NONE, TENSOR_NONE, TENSOR_NONE};
    tensor_id one = ops_full(s, 0, NULL, 1.0f), d = ops_sub(s, x, t);
    switch (f) {
    case KERNEL_MSE:
        c.slope = ops_mul_scalar(s, d, 2.0f);
        c.bend = c.cross = ops_mul_scalar(s, one, 2.0f);
        break;
    case KERNEL_L1: /* the sign */
        c.slope = ops_clamp(s, ops_mul_scalar(s, d, 1e30f), -1.0f, 1.0f);
        break;
    case KERNEL_SMOOTH_L1:
        c.slope = ops_clamp(s, ops_mul_scalar(s, d, beta > 0 ? 1.0f / beta : 1e30f), -1.0f, 1.0f);
        c.bend = ops_binary(s, KERNEL_EQUAL, ops_mul(s, c.slope, c.slope), one);
        c.bend = ops_mul_scalar(s, ops_sub(s, one, c.bend), beta > 0 ? 1.0f / beta : 0.0f);
        c.cross = c.bend;
        break;
    case KERNEL_BCE: { /* s = (x-t)/q, q = x(1-x): s' = (1 - s (1-2x)) / q */
        tensor_id q = ops_clamp(s, ops_mul(s, x, ops_sub(s, one, x)), 1e-12f, INFINITY);
        c.slope = ops_div(s, d, q);
        tensor_id skew = ops_mul(s, c.slope, ops_sub(s, one, ops_mul_scalar(s, x, 2.0f)));
        c.bend = ops_div(s, ops_sub(s, one, skew), q);
        c.cross = ops_reciprocal(s, q);
        break;
    }
    case KERNEL_BCE_LOGITS: {
        tensor_id q = ops_unary(s, KERNEL_SIGMOID, x, 0, 0);
        c.slope = ops_sub(s, q, t);
        c.bend = ops_mul(s, q, ops_sub(s, one, q));
        c.cross = one;
        break;
    }
    default: /* kl_div: x stands alone */
        c.slope = ops_neg(s, t);
        c.cross = one;
    }
    return c;
}

/* The first derivative is dx = dy c slope(x, t), c = 1/n or 1. */
static void grad_loss_grad(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    const struct loss_attr *a = b->attr;
    enum kernel_loss f = (enum kernel_loss)b->def->variant;
    tensor_id g = b->gout[0], dy = b->in[0];
    const struct tensor_view v = *tensor_view_of(s, b->in[1]), dv = *tensor_view_of(s, dy);
    double c = share(a, &v);
    struct curve k = curve_of(s, f, a->beta, b->in[1], b->in[2]);
    if (b->needs[2] && k.cross.v)
        b->gin[2] = ops_mul_scalar(s, ops_mul(s, ops_mul(s, g, k.cross), dy), (float)-c);
    if (b->needs[0])
        b->gin[0] = ops_reduce_to(s, ops_mul_scalar(s, ops_mul(s, g, k.slope), (float)c), &dv);
    if (b->needs[1] && k.bend.v)
        b->gin[1] = ops_mul_scalar(s, ops_mul(s, ops_mul(s, g, k.bend), dy), (float)c);
}

/* ---- cross entropy -------------------------------------------------------------------------- */

static enum ebb_status want_targets(const struct ops_infer *i, const struct tensor_view *x,
                                    const struct tensor_view *t, const struct tensor_view *w,
                                    struct ebb_error *err)
{
    bool fits =
        x->dtype == TENSOR_F32 && t->dtype == TENSOR_I64 && x->rank >= 1 && t->rank == x->rank - 1;
    for (int d = 0; fits && d < t->rank; d++)
        fits = t->dims[d] == x->dims[x->rank == 1 || d == 0 ? d : d + 1];
    if (!fits || x->rank < 2)
        return ops_wrong(i, err, "logits must be F32 [n, classes, ...], targets I64 [n, ...]");
    if (w && (w->dtype != TENSOR_F32 || w->rank != 1 || w->dims[0] != x->dims[1]))
        return ops_wrong(i, err, "weights must be F32, one per class");
    return EBB_OK;
}

static enum ebb_status infer_entropy(struct ops_infer *i, struct ebb_error *err)
{
    const struct entropy_attr *a = i->attr;
    EBB_TRY(want_targets(i, i->in[0], i->in[1], i->in_count > 2 ? i->in[2] : NULL, err));
    if (a->reduction == KERNEL_REDUCE_NONE)
        ops_out(i, TENSOR_F32, i->in[1]->rank, i->in[1]->dims);
    else
        ops_out(i, TENSOR_F32, 0, NULL);
    i->flops = 12.0 * (double)tensor_count(i->in[0]);
    return EBB_OK;
}

/* dy, x, t [, w] -> dx */
static enum ebb_status infer_entropy_grad(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(want_targets(i, i->in[1], i->in[2], i->in_count > 3 ? i->in[3] : NULL, err));
    ops_out(i, TENSOR_F32, i->in[1]->rank, i->in[1]->dims);
    i->flops = 16.0 * (double)tensor_count(i->in[1]);
    return EBB_OK;
}

static struct kernel_cross_entropy describe(const struct tensor_call *c,
                                            const struct tensor_view *x, bool is_log_prob)
{
    const struct entropy_attr *a = c->attr;
    struct ops_lines l = ops_lines_of(x, 1);
    return (struct kernel_cross_entropy){.n = l.outer,
                                         .classes = l.n,
                                         .inner = l.inner,
                                         .ignore_index = a->ignore_index,
                                         .reduction = (enum kernel_reduction)a->reduction,
                                         .smoothing = a->label_smoothing,
                                         .is_log_prob = is_log_prob};
}

static enum ebb_status run_entropy_as(const struct trace_call *call, bool is_log_prob,
                                      struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    struct kernel_cross_entropy e = describe(&c, &c.in[0], is_log_prob);
    return kernel_cross_entropy(ops_context(&c), &e, tensor_call_in(&c, 0), tensor_call_in(&c, 1),
                                c.input_count > 2 ? tensor_call_in(&c, 2) : NULL,
                                tensor_call_out(&c, 0), err);
}

static enum ebb_status run_entropy_grad_as(const struct trace_call *call, bool is_log_prob,
                                           struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    struct kernel_cross_entropy e = describe(&c, &c.in[1], is_log_prob);
    return kernel_cross_entropy_grad(
        ops_context(&c), &e, tensor_call_in(&c, 0), tensor_call_in(&c, 1), tensor_call_in(&c, 2),
        c.input_count > 3 ? tensor_call_in(&c, 3) : NULL, tensor_call_out(&c, 0), err);
}

static enum ebb_status run_entropy(const struct trace_call *call, struct ebb_error *err)
{
    return run_entropy_as(call, false, err);
}

static enum ebb_status run_nll(const struct trace_call *call, struct ebb_error *err)
{
    return run_entropy_as(call, true, err);
}

static enum ebb_status run_entropy_grad(const struct trace_call *call, struct ebb_error *err)
{
    return run_entropy_grad_as(call, false, err);
}

static enum ebb_status run_nll_grad(const struct trace_call *call, struct ebb_error *err)
{
    return run_entropy_grad_as(call, true, err);
}

static void grad_entropy(struct ops_backward *b)
{
    int row = b->def->variant == ROW_NLL ? ROW_NLL_GRAD : ROW_CROSS_ENTROPY_GRAD;
    tensor_id in[4] = {b->gout[0], b->in[0], b->in[1]};
    if (b->in_count > 2)
        in[3] = b->in[2];
    if (b->in_count > 2 && b->needs[2])
        tensor_fail(b->session, EBB_EUNSUPPORTED, "%s: has no gradient for its weights",
                    b->def->name);
    else
        b->gin[0] = ops_emit(b->session, &rows[row], b->attr, b->in_count + 1, in);
}

/* One sample without its dimension: a batch of one. */
static tensor_id entropy_of_one(struct tensor_session *s, const struct ops_def *def,
                                const tensor_id *in, size_t in_count, const struct entropy_attr *a)
{
    int64_t one[2] = {1, tensor_view_of(s, in[0])->dims[0]};
    tensor_id parts[3] = {ops_reshape(s, in[0], 2, one), ops_reshape(s, in[1], 1, one)};
    if (in_count > 2)
        parts[2] = in[2];
    tensor_id y = ops_emit(s, def, a, in_count, parts);
    return a->reduction == KERNEL_REDUCE_NONE ? ops_reshape(s, y, 0, NULL) : y;
}

/* A row of its own when the logits are a product and that rewrite is on. */
static void build_entropy(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                          size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    const struct entropy_attr *a = attr;
    out[0] = TENSOR_NONE;
    *out_count = 1;
    if (tensor_view_of(s, in[0])->rank == 1 && tensor_view_of(s, in[1])->rank == 0) {
        out[0] = entropy_of_one(s, def, in, in_count, a);
        return;
    }
    if (def->variant == ROW_CROSS_ENTROPY && ops_has_pass(s, OPS_PASS_ENTROPY) && in_count == 2 &&
        a->label_smoothing == 0.0f)
        out[0] = ops_product_entropy(s, in[0], in[1], a->ignore_index,
                                     (enum kernel_reduction)a->reduction);
    if (!out[0].v)
        out[0] = ops_emit(s, def, attr, in_count, in);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static const char *const reductions[] = {"mean", "sum", "none", NULL};
static const char *const kl_reductions[] = {"mean", "sum", "none", "batchmean", NULL};
#define REDUCTION(type, names)                                                                     \
    {                                                                                              \
        "reduction", OPS_NAME, offsetof(struct type, reduction), names, false                      \
    }
static const struct ops_field loss_fields[] = {REDUCTION(loss_attr, reductions), {0}};
static const struct ops_field kl_fields[] = {REDUCTION(loss_attr, kl_reductions), {0}};
static const struct ops_field smooth_fields[] = {
    REDUCTION(loss_attr, reductions),
    {"beta", OPS_FLOAT, offsetof(struct loss_attr, beta), NULL, false},
    {0}};
static const struct ops_field nll_fields[] = {
    REDUCTION(entropy_attr, reductions),
    {"ignore_index", OPS_INT, offsetof(struct entropy_attr, ignore_index), NULL, false},
    {0}};
static const struct ops_field entropy_fields[] = {
    REDUCTION(entropy_attr, reductions),
    {"ignore_index", OPS_INT, offsetof(struct entropy_attr, ignore_index), NULL, false},
    {"label_smoothing", OPS_FLOAT, offsetof(struct entropy_attr, label_smoothing), NULL, false},
    {0}};
static const struct loss_attr loss_default = {.beta = 1.0f};
static const struct entropy_attr entropy_default = {.ignore_index = -100};

#define LOSS(id, text, fields_)                                                                    \
    [ROW_##id] = {OPS_PRIMITIVE(#text, 2, 2, infer_loss, run_##text, grad_loss),                   \
                  .build = build_loss,                                                             \
                  .variant = KERNEL_##id,                                                          \
                  .attr_bytes = sizeof(struct loss_attr),                                          \
                  .fields = fields_,                                                               \
                  .defaults = &loss_default,                                                       \
                  .low_rule = OPS_LOW_WHOLE},                                                      \
    [ROW_LOSS_GRAD + KERNEL_##id] = {                                                              \
        OPS_PRIMITIVE(#text "_grad", 3, 3, infer_loss_grad, run_##text##_grad, grad_loss_grad),    \
        .variant = KERNEL_##id,                                                                    \
        .attr_bytes = sizeof(struct loss_attr),                                                    \
        .is_internal = true,                                                                       \
        .low_rule = OPS_LOW_WHOLE,                                                                 \
        .low_out = 1}
#define ENTROPY(id, text, low, high, infer_, run_, grad_, fields_, internal)                       \
    [id] = {OPS_PRIMITIVE(text, low, high, infer_, run_, grad_),                                   \
            .variant = id,                                                                         \
            .attr_bytes = sizeof(struct entropy_attr),                                             \
            .fields = fields_,                                                                     \
            .defaults = &entropy_default,                                                          \
            .is_internal = internal,                                                               \
            .build = internal ? NULL : build_entropy,                                              \
            .low_rule = OPS_LOW_WHOLE,                                                             \
            .low_out = internal}

static const struct ops_def rows[ROW_COUNT] = {
    LOSS(MSE, mse_loss, loss_fields),
    LOSS(L1, l1_loss, loss_fields),
    LOSS(SMOOTH_L1, smooth_l1_loss, smooth_fields),
    LOSS(BCE, bce_loss, loss_fields),
    LOSS(BCE_LOGITS, bce_with_logits_loss, loss_fields),
    LOSS(KL, kl_div_loss, kl_fields),
    [ROW_CROSS_ENTROPY] = {OPS_PRIMITIVE("cross_entropy", 2, 3, infer_entropy, run_entropy,
                                         grad_entropy),
                           .variant = ROW_CROSS_ENTROPY, .attr_bytes = sizeof(struct entropy_attr),
                           .fields = entropy_fields, .defaults = &entropy_default,
                           .low_rule = OPS_LOW_WHOLE, .build = build_entropy},
    ENTROPY(ROW_NLL, "nll_loss", 2, 3, infer_entropy, run_nll, grad_entropy, nll_fields, false),
    ENTROPY(ROW_CROSS_ENTROPY_GRAD, "cross_entropy_grad", 3, 4, infer_entropy_grad,
            run_entropy_grad, NULL, NULL, true),
    ENTROPY(ROW_NLL_GRAD, "nll_loss_grad", 3, 4, infer_entropy_grad, run_nll_grad, NULL, NULL,
            true),
};

const struct ops_family ops_loss_family = {rows, ROW_COUNT};
