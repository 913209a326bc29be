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

static void describe_loss(const struct ops_views *v, void *desc)
{
    struct kernel_loss_desc *d = desc;
    const struct loss_attr *a = v->attr;
    const struct tensor_view *x = v->in[v->in_count - 2]; /* before the target */
    d->n = tensor_count(x);
    d->batch = batch_of(x);
    d->f = v->def->variant;
    d->reduction = a->reduction;
    d->beta = a->beta;
}

/* dy, x, t -> dx */
static enum ebb_status infer_loss_grad(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    ops_out(i, TENSOR_F32, i->in[1]->rank, i->in[1]->dims);
    i->flops = 10.0 * (double)tensor_count(i->in[1]);
    return EBB_OK;
}

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
static tensor_id build_loss(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    tensor_id parts[2] = {b->in[0], b->in[1]};
    const struct tensor_view *x = tensor_view_of(s, b->in[0]), *t = tensor_view_of(s, b->in[1]);
    struct tensor_view wide = x->rank > t->rank ? *x : *t;
    int rank;
    ops_broadcast_dims(x, t, 0, &rank, wide.dims); /* what does not fit cannot be expanded */
    for (int k = 0; k < 2; k++)
        if (!tensor_same_shape(tensor_view_of(s, b->in[k]), &wide))
            parts[k] = ops_expand_to(s, b->in[k], &wide);
    return ops_emit(s, b->def, b->attr, 2, parts);
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
    const struct ops_entropy *a = i->attr;
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

static void describe_entropy(const struct ops_views *v, void *desc)
{
    struct kernel_cross_entropy *d = desc;
    const struct ops_entropy *a = v->attr;
    int row = v->def->variant;
    bool is_grad = row == ROW_CROSS_ENTROPY_GRAD || row == ROW_NLL_GRAD;
    ops_lines(v->in[is_grad], 1, &d->n, &d->classes, &d->inner);
    d->ignore_index = a->ignore_index;
    d->reduction = a->reduction;
    d->smoothing = a->label_smoothing;
    d->is_log_prob = row == ROW_NLL || row == ROW_NLL_GRAD;
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
                                const tensor_id *in, size_t in_count, const struct ops_entropy *a)
{
    int64_t one[2] = {1, tensor_view_of(s, in[0])->dims[0]};
    tensor_id parts[3] = {ops_reshape(s, in[0], 2, one), ops_reshape(s, in[1], 1, one)};
    if (in_count > 2)
        parts[2] = in[2];
    tensor_id y = ops_emit(s, def, a, in_count, parts);
    return a->reduction == KERNEL_REDUCE_NONE ? ops_reshape(s, y, 0, NULL) : y;
}

static tensor_id build_entropy(struct ops_build *b)
{
    if (tensor_view_of(b->s, b->in[0])->rank == 1 && tensor_view_of(b->s, b->in[1])->rank == 0)
        return entropy_of_one(b->s, b->def, b->in, b->in_count, b->attr);
    return ops_emit(b->s, b->def, b->attr, b->in_count, b->in);
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
    REDUCTION(loss_attr, reductions), OPS_FIELD(loss_attr, beta, OPS_FLOAT), {0}};
static const struct ops_field nll_fields[] = {
    REDUCTION(ops_entropy, reductions), OPS_FIELD(ops_entropy, ignore_index, OPS_INT), {0}};
static const struct ops_field entropy_fields[] = {
    REDUCTION(ops_entropy, reductions),
    OPS_FIELD(ops_entropy, ignore_index, OPS_INT),
    OPS_FIELD(ops_entropy, label_smoothing, OPS_FLOAT),
    {0}};
static const struct loss_attr loss_default = {.beta = 1.0f};
static const struct ops_entropy entropy_default = {.ignore_index = -100};

#define ELEMENTWISE(id, text, fields_)                                                             \
    [ROW_##id] = {OPS_PRIMITIVE(text, 2, 2, infer_loss, LOSS, describe_loss, grad_loss),           \
                  .build = build_loss, .variant = KERNEL_##id,                                     \
                  OPS_ATTR(struct loss_attr, fields_, &loss_default), .low_rule = OPS_LOW_WHOLE},  \
    [ROW_LOSS_GRAD + KERNEL_##id] = {OPS_PRIMITIVE(text "_grad", 3, 3, infer_loss_grad, LOSS_GRAD, \
                                                   describe_loss, grad_loss_grad),                 \
                                     .variant = KERNEL_##id,                                       \
                                     .attr_bytes = sizeof(struct loss_attr),                       \
                                     .is_internal = true,                                          \
                                     .low_rule = OPS_LOW_WHOLE,                                    \
                                     .low_out = 1}
#define ENTROPY(id, text, fields_)                                                                 \
    [id] = {                                                                                       \
        OPS_PRIMITIVE(text, 2, 3, infer_entropy, CROSS_ENTROPY, describe_entropy, grad_entropy),   \
        .variant = id, .build = build_entropy,                                                     \
        OPS_ATTR(struct ops_entropy, fields_, &entropy_default), .low_rule = OPS_LOW_WHOLE}
#define ENTROPY_GRAD(id, text)                                                                     \
    [id] = {                                                                                       \
        OPS_PRIMITIVE(text, 3, 4, infer_entropy_grad, CROSS_ENTROPY_GRAD, describe_entropy, NULL), \
        .variant = id,                                                                             \
        OPS_ATTR(struct ops_entropy, NULL, &entropy_default),                                      \
        .is_internal = true,                                                                       \
        .low_rule = OPS_LOW_WHOLE,                                                                 \
        .low_out = 1}

static const struct ops_def rows[ROW_COUNT] = {
    ELEMENTWISE(MSE, "mse_loss", loss_fields),
    ELEMENTWISE(L1, "l1_loss", loss_fields),
    ELEMENTWISE(SMOOTH_L1, "smooth_l1_loss", smooth_fields),
    ELEMENTWISE(BCE, "bce_loss", loss_fields),
    ELEMENTWISE(BCE_LOGITS, "bce_with_logits_loss", loss_fields),
    ELEMENTWISE(KL, "kl_div_loss", kl_fields),
    ENTROPY(ROW_CROSS_ENTROPY, "cross_entropy", entropy_fields),
    ENTROPY(ROW_NLL, "nll_loss", nll_fields),
    ENTROPY_GRAD(ROW_CROSS_ENTROPY_GRAD, "cross_entropy_grad"),
    ENTROPY_GRAD(ROW_NLL_GRAD, "nll_loss_grad"),
};

const struct ops_family ops_loss_family = {rows, ROW_COUNT};
