/* norm.c - normalisation layers. */
#include <inttypes.h>

#include "ops/internal.h"

enum {
    ROW_BN_TRAIN,
    ROW_BN_GRAD,
    ROW_BN_APPLY,
    ROW_LN,
    ROW_LN_GRAD,
    ROW_RMS,
    ROW_RMS_GRAD,
    ROW_BATCH_NORM,
    ROW_LAYER_NORM,
    ROW_GROUP_NORM,
    ROW_INSTANCE_NORM,
    ROW_RMS_NORM,
    ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];

struct norm_attr {
    float eps, momentum;
    int32_t training, has_weight;
    int64_t groups, n;
    struct ops_ints shape;
};

/* ---- batch norm ----------------------------------------------------------------------------- */

static enum ebb_status want_channels(const struct ops_infer *i, const struct tensor_view *x,
                                     size_t first, struct ebb_error *err)
{
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    if (x->rank < 2)
        return ops_wrong(i, err, "rank 2 or more is needed");
    for (size_t k = first; k < i->in_count; k++)
        if (i->in[k]->rank != 1 || i->in[k]->dims[0] != x->dims[1])
            return ops_wrong(i, err, "input %zu must have one number per channel", k);
    return EBB_OK;
}

/* x, w, b -> y, mean, biased variance */
static enum ebb_status infer_bn_train(struct ops_infer *i, struct ebb_error *err)
{
    const struct tensor_view *x = i->in[0];
    EBB_TRY(want_channels(i, x, 1, err));
    if (tensor_count(x) <= x->dims[1])
        return ops_wrong(i, err, "more than one value per channel is needed when training");
    ops_out(i, TENSOR_F32, x->rank, x->dims);
    ops_out(i, TENSOR_F32, 1, &x->dims[1]);
    ops_out(i, TENSOR_F32, 1, &x->dims[1]);
    i->flops = 8.0 * (double)tensor_count(x);
    return EBB_OK;
}

static enum ebb_status run_bn_train(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    const struct norm_attr *a = c.attr;
    struct ops_lines l = ops_lines_of(&c.in[0], 1);
    kernel_batch_norm(ops_context(&c), l.outer, l.n, l.inner, a->eps, tensor_call_in(&c, 0),
                      tensor_call_in(&c, 1), tensor_call_in(&c, 2), tensor_call_out(&c, 0),
                      tensor_call_out(&c, 1), tensor_call_out(&c, 2));
    return EBB_OK;
}

/* dy, x, w, mean, var -> dx, dw, db */
static enum ebb_status infer_bn_grad(struct ops_infer *i, struct ebb_error *err)
{
    const struct tensor_view *x = i->in[1];
    EBB_TRY(want_channels(i, x, 2, err));
    ops_out(i, TENSOR_F32, x->rank, x->dims);
    ops_out(i, TENSOR_F32, 1, &x->dims[1]);
    ops_out(i, TENSOR_F32, 1, &x->dims[1]);
    i->flops = 12.0 * (double)tensor_count(x);
    return EBB_OK;
}

static enum ebb_status run_bn_grad(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    const struct norm_attr *a = c.attr;
    struct ops_lines l = ops_lines_of(&c.in[1], 1);
    kernel_batch_norm_grad(ops_context(&c), l.outer, l.n, l.inner, a->eps, tensor_call_in(&c, 0),
                           tensor_call_in(&c, 1), tensor_call_in(&c, 2), tensor_call_in(&c, 3),
                           tensor_call_in(&c, 4), tensor_call_out(&c, 0), tensor_call_out(&c, 1),
                           tensor_call_out(&c, 2));
    return EBB_OK;
}

static void grad_bn_train(struct ops_backward *b)
{
    if (b->gout[1].v || b->gout[2].v) {
        tensor_fail(b->session, EBB_EUNSUPPORTED, "batch_norm: has no gradient through statistics");
        return;
    }
    tensor_id first = ops_emit(b->session, &rows[ROW_BN_GRAD], b->attr, 5,
                               (tensor_id[]){b->gout[0], b->in[0], b->in[1], b->out[1], b->out[2]});
    for (uint32_t k = 0; k < 3; k++)
        b->gin[k] = ops_output(first, k);
}

/* x, w, b, mean, var -> y */
static enum ebb_status infer_bn_apply(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(want_channels(i, i->in[0], 1, err));
    ops_out(i, TENSOR_F32, i->in[0]->rank, i->in[0]->dims);
    i->flops = 3.0 * (double)tensor_count(i->in[0]);
    return EBB_OK;
}

static enum ebb_status run_bn_apply(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    const struct norm_attr *a = c.attr;
    struct ops_lines l = ops_lines_of(&c.in[0], 1);
    kernel_batch_norm_apply(ops_context(&c), l.outer, l.n, l.inner, a->eps, tensor_call_in(&c, 0),
                            tensor_call_in(&c, 1), tensor_call_in(&c, 2), tensor_call_in(&c, 3),
                            tensor_call_in(&c, 4), tensor_call_out(&c, 0));
    return EBB_OK;
}

static tensor_id channels(struct tensor_session *s, tensor_id v, int rank)
{
    int64_t dims[TENSOR_RANK] = {1, tensor_view_of(s, v)->dims[0], 1, 1, 1, 1, 1, 1};
    return ops_reshape(s, v, rank, dims);
}

static void grad_bn_apply(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    const struct norm_attr *a = b->attr;
    tensor_id g = b->gout[0];
    int rank = tensor_view_of(s, g)->rank;
    tensor_id r = ops_unary(s, KERNEL_RSQRT, ops_add_scalar(s, b->in[4], a->eps), 0, 0);
    if ((b->needs[3]) || b->needs[4]) {
        tensor_fail(s, EBB_EUNSUPPORTED, "batch_norm: has no gradient for running statistics");
        return;
    }
    if (b->needs[0])
        b->gin[0] = ops_mul(s, g, channels(s, ops_mul(s, b->in[1], r), rank));
    if (b->needs[1]) {
        tensor_id d = ops_sub(s, b->in[0], channels(s, b->in[3], rank));
        b->gin[1] = ops_mul(s, ops_reduce_dims(s, "sum", ops_mul(s, g, d), ~UINT64_C(2), false), r);
    }
    if (b->needs[2])
        b->gin[2] = ops_reduce_dims(s, "sum", g, ~UINT64_C(2), false);
}

/* new = (1 - m) old + m stat */
static tensor_id running(struct tensor_session *s, tensor_id old, tensor_id stat, double momentum,
                         double factor)
{
    return ops_add(s, ops_mul_scalar(s, old, (float)(1.0 - momentum)),
                   ops_mul_scalar(s, stat, (float)(momentum * factor)));
}

static void build_batch_norm(struct tensor_session *s, const struct ops_def *def,
                             const tensor_id *in, size_t in_count, const void *attr, tensor_id *out,
                             size_t *out_count)
{
    const struct norm_attr *a = attr;
    const struct tensor_view *x = tensor_view_of(s, in[0]);
    (void)def, (void)in_count;
    if (!a->training) {
        out[0] = ops_emit(s, &rows[ROW_BN_APPLY], a, 5, in);
        *out_count = 1;
        return;
    }
    double n = x->rank > 1 && x->dims[1] ? (double)(tensor_count(x) / x->dims[1]) : 0;
    out[0] = ops_emit(s, &rows[ROW_BN_TRAIN], a, 3, in);
    out[1] = running(s, in[3], ops_output(out[0], 1), (double)a->momentum, 1.0);
    out[2] = running(s, in[4], ops_output(out[0], 2), (double)a->momentum, n / (n - 1.0));
    *out_count = 3;
}

/* ---- layer norm ----------------------------------------------------------------------------- */

/* x [, w, b] -> y, mean, rstd over the last n elements; rms: x [, w] -> y, rstd */
static enum ebb_status infer_ln(struct ops_infer *i, struct ebb_error *err)
{
    const struct norm_attr *a = i->attr;
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    int64_t count = tensor_count(i->in[0]);
    if (a->n < 1 || count % a->n)
        return ops_wrong(i, err, "rows of %" PRId64 " do not fit", a->n);
    for (size_t k = 1; k < i->in_count; k++)
        if (tensor_count(i->in[k]) != a->n)
            return ops_wrong(i, err, "input %zu must have %" PRId64 " elements", k, a->n);
    int64_t row_count = count / a->n;
    ops_out(i, TENSOR_F32, i->in[0]->rank, i->in[0]->dims);
    ops_out(i, TENSOR_F32, 1, &row_count);
    if (i->def->variant == ROW_LN)
        ops_out(i, TENSOR_F32, 1, &row_count);
    i->flops = 8.0 * (double)count;
    return EBB_OK;
}

static enum ebb_status run_ln_as(const struct trace_call *call, bool is_rms, struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    const struct norm_attr *a = c.attr;
    /* the kernel tells the two by the mean pointer: layer norm must always produce it */
    kernel_layer_norm(ops_context(&c), tensor_count(&c.in[0]) / a->n, a->n, a->eps,
                      tensor_call_in(&c, 0), c.input_count > 1 ? tensor_call_in(&c, 1) : NULL,
                      c.input_count > 2 ? tensor_call_in(&c, 2) : NULL, tensor_call_out(&c, 0),
                      is_rms ? NULL : tensor_call_out(&c, 1), tensor_call_out(&c, is_rms ? 1 : 2));
    return EBB_OK;
}

static enum ebb_status run_ln(const struct trace_call *call, struct ebb_error *err)
{
    return run_ln_as(call, false, err);
}

static enum ebb_status run_rms(const struct trace_call *call, struct ebb_error *err)
{
    return run_ln_as(call, true, err);
}

/* dy, x [, mean], rstd [, w] -> dx, dw, db (rms: dx, dw) */
static enum ebb_status infer_ln_grad(struct ops_infer *i, struct ebb_error *err)
{
    const struct norm_attr *a = i->attr;
    int64_t count = tensor_count(i->in[1]);
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    ops_out(i, TENSOR_F32, i->in[1]->rank, i->in[1]->dims);
    ops_out(i, TENSOR_F32, 1, &a->n);
    if (i->def->variant == ROW_LN_GRAD)
        ops_out(i, TENSOR_F32, 1, &a->n);
    i->workspace_bytes = kernel_layer_norm_grad_workspace(count / a->n, a->n);
    i->flops = 14.0 * (double)count;
    return EBB_OK;
}

static enum ebb_status run_ln_grad_as(const struct trace_call *call, bool is_rms,
                                      struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    const struct norm_attr *a = c.attr;
    uint32_t rstd = is_rms ? 2 : 3;
    kernel_layer_norm_grad(
        ops_context(&c), tensor_count(&c.in[1]) / a->n, a->n, tensor_call_in(&c, 0),
        tensor_call_in(&c, 1), c.input_count > rstd + 1 ? tensor_call_in(&c, rstd + 1) : NULL,
        is_rms ? NULL : tensor_call_in(&c, 2), tensor_call_in(&c, rstd), tensor_call_out(&c, 0),
        tensor_call_out(&c, 1), is_rms ? NULL : tensor_call_out(&c, 2), call->workspace);
    return EBB_OK;
}

static enum ebb_status run_ln_grad(const struct trace_call *call, struct ebb_error *err)
{
    return run_ln_grad_as(call, false, err);
}

static enum ebb_status run_rms_grad(const struct trace_call *call, struct ebb_error *err)
{
    return run_ln_grad_as(call, true, err);
}

static void grad_ln(struct ops_backward *b)
{
    bool is_rms = b->def->variant == ROW_RMS;
    tensor_id in[5] = {b->gout[0], b->in[0], b->out[1]};
    size_t n = 3;
    if (!b->gout[0].v)
        return;
    if (!is_rms)
        in[n++] = b->out[2];
    if (b->in_count > 1)
        in[n++] = b->in[1];
    tensor_id first =
        ops_emit(b->session, &rows[is_rms ? ROW_RMS_GRAD : ROW_LN_GRAD], b->attr, n, in);
    for (size_t k = 0; k < b->in_count; k++) {
        struct tensor_view v = *tensor_view_of(b->session, b->in[k]);
        if (b->needs[k])
            b->gin[k] = ops_reshape(b->session, ops_output(first, (uint32_t)k), v.rank, v.dims);
    }
}

tensor_id ops_layer_norm(struct tensor_session *s, tensor_id x, int64_t n, float eps)
{
    struct norm_attr a;
    memset(&a, 0, sizeof a);
    a.eps = eps;
    a.n = n;
    return ops_emit(s, &rows[ROW_LN], &a, 1, &x);
}

static void build_layer_norm(struct tensor_session *s, const struct ops_def *def,
                             const tensor_id *in, size_t in_count, const void *attr, tensor_id *out,
                             size_t *out_count)
{
    struct norm_attr a = *(const struct norm_attr *)attr;
    const struct tensor_view *x = tensor_view_of(s, in[0]);
    bool is_rms = def->variant == ROW_RMS_NORM, fits = true;
    if (is_rms && !a.shape.count && x->rank) {
        a.shape.count = 1;
        a.shape.v[0] = x->dims[x->rank - 1];
    }
    int shift = x->rank - a.shape.count;
    a.n = 1;
    for (int d = 0; d < a.shape.count; d++) {
        fits = fits && shift >= 0 && x->dims[shift + d] == a.shape.v[d];
        a.n *= a.shape.v[d];
    }
    if (!fits || !a.shape.count) {
        tensor_fail(s, EBB_EINPUT, "%s: shape must be the last dimensions of the input", def->name);
        return;
    }
    out[0] = ops_emit(s, &rows[is_rms ? ROW_RMS : ROW_LN], &a, in_count, in);
    *out_count = 1;
}

/* Rows of [n, groups, rest], then one weight and bias per channel. */
static void build_group_norm(struct tensor_session *s, const struct ops_def *def,
                             const tensor_id *in, size_t in_count, const void *attr, tensor_id *out,
                             size_t *out_count)
{
    const struct norm_attr *a = attr;
    const struct tensor_view x = *tensor_view_of(s, in[0]);
    int64_t groups = def->variant == ROW_INSTANCE_NORM && x.rank > 1 ? x.dims[1] : a->groups;
    if (x.rank < 2 || groups < 1 || x.dims[1] % groups || !x.dims[0]) {
        tensor_fail(s, EBB_EINPUT, "%s: %" PRId64 " groups do not fit", def->name, groups);
        return;
    }
    tensor_id y = ops_layer_norm(s, in[0], tensor_count(&x) / (x.dims[0] * groups), a->eps);
    if (in_count > 1)
        y = ops_mul(s, y, channels(s, in[1], x.rank));
    if (in_count > 2)
        y = ops_add(s, y, channels(s, in[2], x.rank));
    out[0] = y;
    *out_count = 1;
}

#define FLOAT(text)                                                                                \
    {                                                                                              \
#text, OPS_FLOAT, offsetof(struct norm_attr, text), NULL, false                            \
    }
static const struct ops_field bn_fields[] = {
    FLOAT(eps),
    FLOAT(momentum),
    {"training", OPS_BOOL, offsetof(struct norm_attr, training), NULL, false},
    {0}};
static const struct ops_field ln_fields[] = {
    FLOAT(eps), {"shape", OPS_INTS, offsetof(struct norm_attr, shape), NULL, true}, {0}};
static const struct ops_field rms_fields[] = {
    FLOAT(eps), {"shape", OPS_INTS, offsetof(struct norm_attr, shape), NULL, false}, {0}};
static const struct ops_field gn_fields[] = {
    FLOAT(eps), {"groups", OPS_INT, offsetof(struct norm_attr, groups), NULL, true}, {0}};
static const struct ops_field in_fields[] = {FLOAT(eps), {0}};
static const struct norm_attr norm_default = {.eps = 1e-5f, .momentum = 0.1f, .training = 1};

#define PRIMITIVE(id, text, low, high, infer_, run_, grad_)                                        \
    [id] = {OPS_PRIMITIVE(text, low, high, infer_, run_, grad_), .variant = id,                    \
            .attr_bytes = sizeof(struct norm_attr), .is_internal = true}
#define TORCH(id, text, low, high, build_, fields_)                                                \
    [id] = {.name = text,                                                                          \
            .min_in = low,                                                                         \
            .max_in = high,                                                                        \
            .variant = id,                                                                         \
            .build = build_,                                                                       \
            .attr_bytes = sizeof(struct norm_attr),                                                \
            .fields = fields_,                                                                     \
            .defaults = &norm_default}

static const struct ops_def rows[ROW_COUNT] = {
    PRIMITIVE(ROW_BN_TRAIN, "batch_norm_train", 3, 3, infer_bn_train, run_bn_train, grad_bn_train),
    PRIMITIVE(ROW_BN_GRAD, "batch_norm_grad", 5, 5, infer_bn_grad, run_bn_grad, NULL),
    PRIMITIVE(ROW_BN_APPLY, "batch_norm_apply", 5, 5, infer_bn_apply, run_bn_apply, grad_bn_apply),
    PRIMITIVE(ROW_LN, "layer_norm_rows", 1, 3, infer_ln, run_ln, grad_ln),
    PRIMITIVE(ROW_LN_GRAD, "layer_norm_grad", 4, 5, infer_ln_grad, run_ln_grad, NULL),
    PRIMITIVE(ROW_RMS, "rms_norm_rows", 1, 2, infer_ln, run_rms, grad_ln),
    PRIMITIVE(ROW_RMS_GRAD, "rms_norm_grad", 3, 4, infer_ln_grad, run_rms_grad, NULL),
    TORCH(ROW_BATCH_NORM, "batch_norm", 5, 5, build_batch_norm, bn_fields),
    TORCH(ROW_LAYER_NORM, "layer_norm", 1, 3, build_layer_norm, ln_fields),
    TORCH(ROW_GROUP_NORM, "group_norm", 1, 3, build_group_norm, gn_fields),
    TORCH(ROW_INSTANCE_NORM, "instance_norm", 1, 3, build_group_norm, in_fields),
    TORCH(ROW_RMS_NORM, "rms_norm", 1, 2, build_layer_norm, rms_fields),
};

const struct ops_family ops_norm_family = {rows, ROW_COUNT};
