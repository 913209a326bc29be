/* norm.c - normalisation layers. */
#include <inttypes.h>

#include "ops/internal.h"

enum {
    ROW_BN_STATS,
    ROW_BN_NORM,
    ROW_BN_GRAD,
    ROW_BN_APPLY,
    ROW_BN_UPDATE,
    ROW_LN,
    ROW_LN_GRAD,
    ROW_RMS,
    ROW_RMS_GRAD,
    ROW_BATCH_NORM,
    ROW_LAYER_NORM,
    ROW_GROUP_NORM,
    ROW_INSTANCE_NORM,
    ROW_RMS_NORM,
    ROW_LN_GRAD_ADD,
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

/* Statistics, normalisation and the update of the running statistics are three ops: the first two
 * are pure, and remaking y from the kept statistics gives the same bits; the third is done once. */

struct bn_attr { /* of the primitives */
    float eps, momentum;
    int32_t has_relu, has_add;
    double unbias; /* n / (n - 1) */
};

static enum ebb_status want_channels(const struct ops_infer *i, const struct tensor_view *x,
                                     size_t first, size_t last, struct ebb_error *err)
{
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    if (x->rank < 2)
        return ops_wrong(i, err, "numbers of rank 2 or more are needed");
    for (size_t k = first; k < last; k++)
        if (i->in[k]->rank != 1 || i->in[k]->dims[0] != x->dims[1])
            return ops_wrong(i, err, "input %zu must have one number per channel", k);
    return EBB_OK;
}

static void describe_bn(const struct ops_views *v, void *desc)
{
    const struct bn_attr *a = v->attr;
    const struct tensor_view *x = v->in[v->def->variant == ROW_BN_GRAD];
    struct kernel_batch_norm *d = desc;
    ops_lines(x, 1, &d->n, &d->channels, &d->spatial);
    d->block = x->block;
    d->has_relu = a->has_relu;
    d->has_add = a->has_add;
    d->dtype = x->dtype;
    d->eps = a->eps;
}

/* x -> mean, biased variance */
static enum ebb_status infer_bn_stats(struct ops_infer *i, struct ebb_error *err)
{
    const struct tensor_view *x = i->in[0];
    EBB_TRY(want_channels(i, x, 1, 1, err));
    if (tensor_count(x) <= x->dims[1])
        return ops_wrong(i, err, "more than one value per channel is needed when training");
    ops_out(i, TENSOR_F32, 1, &x->dims[1]);
    ops_out(i, TENSOR_F32, 1, &x->dims[1]);
    i->flops = 4.0 * (double)tensor_count(x);
    return EBB_OK;
}

static void grad_bn_stats(struct ops_backward *b)
{
    tensor_fail(b->session, EBB_EUNSUPPORTED, "batch_norm: has no gradient through statistics");
}

/* x, w, b, mean, var [, r] -> y */
static enum ebb_status infer_bn_norm(struct ops_infer *i, struct ebb_error *err)
{
    const struct bn_attr *a = i->attr;
    EBB_TRY(want_channels(i, i->in[0], 1, 5, err));
    if ((i->in_count > 5) != a->has_add || (a->has_add && !tensor_same_shape(i->in[0], i->in[5])))
        return ops_wrong(i, err, "what is added must have the shape of the input");
    ops_out(i, TENSOR_F32, i->in[0]->rank, i->in[0]->dims);
    i->flops = 4.0 * (double)tensor_count(i->in[0]);
    return EBB_OK;
}

/* dy, x, w, b, mean, var -> dx, dw, db */
static enum ebb_status infer_bn_grad(struct ops_infer *i, struct ebb_error *err)
{
    const struct tensor_view *x = i->in[1];
    EBB_TRY(want_channels(i, x, 2, 6, err));
    ops_out(i, TENSOR_F32, x->rank, x->dims);
    ops_out(i, TENSOR_F32, 1, &x->dims[1]);
    ops_out(i, TENSOR_F32, 1, &x->dims[1]);
    i->flops = 12.0 * (double)tensor_count(x);
    return EBB_OK;
}

/* The gradient goes through mean and variance as well: to them alone there is none. */
static void grad_bn_norm(struct ops_backward *b)
{
    struct bn_attr a = *(const struct bn_attr *)b->attr;
    tensor_id g = b->gout[0];
    if (a.has_add) { /* what was added gets it first: three large tensors at a time instead of five
                      */
        if (a.has_relu)
            g = ops_relu_grad(b->session, g, b->out[0]);
        b->gin[5] = g;
        a.has_relu = a.has_add = 0;
    }
    tensor_id first = ops_emit(b->session, &rows[ROW_BN_GRAD], &a, 6,
                               (tensor_id[]){g, b->in[0], b->in[1], b->in[2], b->in[3], b->in[4]});
    for (uint32_t k = 0; k < 3; k++)
        b->gin[k] = ops_output(first, k);
}

static tensor_id channels(struct tensor_session *s, tensor_id v, int rank)
{
    int64_t dims[TENSOR_RANK] = {1, tensor_view_of(s, v)->dims[0], 1, 1, 1, 1, 1, 1};
    return ops_reshape(s, v, rank, dims);
}

/* Statistics are constants here. */
static void grad_bn_apply(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    const struct bn_attr *a = b->attr;
    tensor_id g = b->gout[0];
    int rank = tensor_view_of(s, g)->rank;
    tensor_id r = ops_unary(s, KERNEL_RSQRT, ops_add_scalar(s, b->in[4], a->eps), 0, 0);
    /* running statistics are buffers: no gradient goes to them, as in torch */
    if (b->needs[0])
        b->gin[0] = ops_mul(s, g, channels(s, ops_mul(s, b->in[1], r), rank));
    if (b->needs[1]) {
        tensor_id d = ops_sub(s, b->in[0], channels(s, b->in[3], rank));
        b->gin[1] = ops_mul(s, ops_reduce_dims(s, "sum", ops_mul(s, g, d), ~UINT64_C(2), false), r);
    }
    if (b->needs[2])
        b->gin[2] = ops_reduce_dims(s, "sum", g, ~UINT64_C(2), false);
}

/* running mean, running variance, mean, variance [, batches] -> the running ones, in place */
static enum ebb_status infer_bn_update(struct ops_infer *i, struct ebb_error *err)
{
    const struct tensor_view *v = i->in[0];
    EBB_TRY(ops_want_f32(i, 15, err));
    for (size_t k = 0; k < 4; k++)
        if (i->in[k]->rank != 1 || i->in[k]->dims[0] != v->dims[0])
            return ops_wrong(i, err, "input %zu must have one number per channel", k);
    if (i->in_count > 4 && (i->in[4]->dtype != TENSOR_I64 || tensor_count(i->in[4]) != 1))
        return ops_wrong(i, err, "the number of batches must be one I64");
    ops_out(i, TENSOR_F32, 1, v->dims);
    ops_out(i, TENSOR_F32, 1, v->dims);
    i->mutates[0] = 1;
    i->mutates[1] = 2;
    if (i->in_count > 4) {
        ops_out(i, TENSOR_I64, i->in[4]->rank, i->in[4]->dims);
        i->mutates[2] = 5;
    }
    return EBB_OK;
}

static void describe_bn_update(const struct ops_views *v, void *desc)
{
    struct kernel_batch_norm_update_desc *d = desc;
    const struct bn_attr *a = v->attr;
    d->channels = v->in[0]->dims[0];
    d->unbias = a->unbias;
    d->momentum = a->momentum;
}

/* new = (1 - m) old + m stat */
static tensor_id running_value(struct tensor_session *s, tensor_id old, tensor_id stat,
                               double momentum, double factor)
{
    return ops_add(s, ops_mul_scalar(s, old, (float)(1.0 - momentum)),
                   ops_mul_scalar(s, stat, (float)(momentum * factor)));
}

/* Emits statistics and normalisation; *stats = mean, the variance behind it. */
static tensor_id normalise(struct tensor_session *s, const tensor_id *in, struct bn_attr *a,
                           tensor_id *stats)
{
    const struct tensor_view *x = tensor_view_of(s, in[0]);
    double n = x->rank > 1 && x->dims[1] ? (double)(tensor_count(x) / x->dims[1]) : 0;
    a->unbias = n / (n - 1.0);
    *stats = ops_emit(s, &rows[ROW_BN_STATS], a, 1, in);
    return ops_emit(s, &rows[ROW_BN_NORM], a, 5,
                    (tensor_id[]){in[0], in[1], in[2], *stats, ops_output(*stats, 1)});
}

tensor_id ops_batch_norm_train(struct tensor_session *s, tensor_id x, tensor_id w, tensor_id b,
                               tensor_id running[3], float momentum, float eps)
{
    struct bn_attr a;
    tensor_id stats;
    memset(&a, 0, sizeof a);
    a.eps = eps;
    a.momentum = momentum;
    tensor_id y = normalise(s, (tensor_id[]){x, w, b}, &a, &stats);
    tensor_id in[5] = {running[0], running[1], stats, ops_output(stats, 1), running[2]};
    tensor_id first = ops_emit(s, &rows[ROW_BN_UPDATE], &a, running[2].v ? 5 : 4, in);
    for (uint32_t k = 0; k < 3; k++)
        if (running[k].v)
            running[k] = ops_output(first, k);
    return y;
}

static tensor_id build_batch_norm(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct norm_attr *t = b->attr;
    struct bn_attr a;
    tensor_id stats;
    memset(&a, 0, sizeof a);
    a.eps = t->eps;
    a.momentum = t->momentum;
    if (!t->training)
        return ops_emit(s, &rows[ROW_BN_APPLY], &a, 5, b->in);
    tensor_id y = normalise(s, b->in, &a, &stats);
    b->out[1] = running_value(s, b->in[3], stats, (double)a.momentum, 1.0);
    b->out[2] = running_value(s, b->in[4], ops_output(stats, 1), (double)a.momentum, a.unbias);
    b->out_count = 3;
    return y;
}

/* The node of the training normalisation that made x, without relu or addition yet. */
static bool is_bare_norm(const struct tensor_session *s, tensor_id x, struct tensor_node *n)
{
    *n = tensor_node_at(s, tensor_producer(s, x));
    const struct bn_attr *a = n->attr;
    return n->def == &rows[ROW_BN_NORM] && !a->has_relu && !a->has_add;
}

/* relu of a batch norm, or of a batch norm and an addition. */
static bool match_norm(const struct ops_build *b, struct ops_match *m)
{
    const struct tensor_session *s = b->s;
    const struct tensor_view *v = tensor_view_of(s, b->in[0]);
    struct tensor_node sum;
    if (is_bare_norm(s, b->in[0], &m->node))
        return true;
    sum = m->node;
    if (!sum.def || strcmp(ops_name(sum.def), "add") != 0)
        return false;
    for (int k = 0; k < 2; k++) {
        m->other = sum.inputs[1 - k];
        if (tensor_same_shape(v, tensor_view_of(s, m->other)) &&
            tensor_same_shape(v, tensor_view_of(s, sum.inputs[k])) &&
            is_bare_norm(s, sum.inputs[k], &m->node))
            return true;
    }
    return false;
}

static tensor_id replace_norm(const struct ops_build *b, const struct ops_match *m)
{
    struct bn_attr a = *(const struct bn_attr *)m->node.attr;
    tensor_id in[6];
    a.has_relu = 1;
    a.has_add = m->other.v != 0;
    memcpy(in, m->node.inputs, 5 * sizeof *in);
    in[5] = m->other;
    return ops_emit(b->s, &rows[ROW_BN_NORM], &a, a.has_add ? 6 : 5, in);
}

const struct ops_rewrite ops_norm_rewrite = {"norm", OPS_PASS_NORM, true,
                                             "relu", match_norm,    replace_norm};

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

/* x of the gradient is behind dy */
static void describe_ln(const struct ops_views *v, void *desc)
{
    struct kernel_layer_norm_desc *d = desc;
    const struct norm_attr *a = v->attr;
    int row = v->def->variant;
    bool is_forward = row == ROW_LN || row == ROW_RMS;
    d->rows = tensor_count(v->in[is_forward ? 0 : 1]) / a->n;
    d->n = a->n;
    d->eps = a->eps;
    d->is_rms = row == ROW_RMS || row == ROW_RMS_GRAD;
}

/* dy, x [, mean], rstd [, w] -> dx, dw, db (rms: dx, dw); with an addition dy, x, mean, rstd, w, more */
static enum ebb_status infer_ln_grad(struct ops_infer *i, struct ebb_error *err)
{
    const struct norm_attr *a = i->attr;
    int64_t count = tensor_count(i->in[1]);
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    if (i->def->variant == ROW_LN_GRAD_ADD && !tensor_same_shape(i->in[1], i->in[5]))
        return ops_wrong(i, err, "what is added must have the shape of the input");
    ops_out(i, TENSOR_F32, i->in[1]->rank, i->in[1]->dims);
    ops_out(i, TENSOR_F32, 1, &a->n);
    if (i->def->variant != ROW_RMS_GRAD)
        ops_out(i, TENSOR_F32, 1, &a->n);
    i->flops = 14.0 * (double)count;
    return EBB_OK;
}

/* Asked where the gradient of a layer norm is made: its input has other readers, whose gradients are
 * there already. */
const struct ops_rewrite ops_addend_rewrite = {"addend", OPS_PASS_ADDEND, .is_default = false};

static bool can_add(const struct ops_backward *b)
{
    if (!b->so_far || !b->so_far[0].v || !b->needs[0] || b->in_count < 2 ||
        !ops_has_pass(b->session, OPS_PASS_ADDEND))
        return false;
    const struct tensor_view *x = tensor_view_of(b->session, b->in[0]),
                             *more = tensor_view_of(b->session, b->so_far[0]);
    return more->dtype == x->dtype && tensor_same_shape(more, x) && tensor_is_dense(more) &&
           !more->block;
}

static void grad_ln(struct ops_backward *b)
{
    bool is_rms = b->def->variant == ROW_RMS, adds = !is_rms && can_add(b);
    tensor_id in[6] = {b->gout[0], b->in[0], b->out[1]};
    size_t n = 3;
    if (!b->gout[0].v)
        return;
    if (!is_rms)
        in[n++] = b->out[2];
    if (b->in_count > 1)
        in[n++] = b->in[1];
    if (adds) {
        in[n++] = b->so_far[0];
        b->has_taken[0] = true;
    }
    int row = is_rms ? ROW_RMS_GRAD : adds ? ROW_LN_GRAD_ADD : ROW_LN_GRAD;
    tensor_id first = ops_emit(b->session, &rows[row], b->attr, n, in);
    for (size_t k = 0; k < b->in_count; k++) {
        struct tensor_view v = *tensor_view_of(b->session, b->in[k]);
        if (b->needs[k])
            b->gin[k] = ops_reshape(b->session, ops_output(first, (uint32_t)k), v.rank, v.dims);
    }
}

static tensor_id layer_norm(struct tensor_session *s, tensor_id x, int64_t n, float eps)
{
    struct norm_attr a;
    memset(&a, 0, sizeof a);
    a.eps = eps;
    a.n = n;
    return ops_emit(s, &rows[ROW_LN], &a, 1, &x);
}

static tensor_id build_layer_norm(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    struct norm_attr a = *(const struct norm_attr *)b->attr;
    const struct tensor_view *x = tensor_view_of(s, b->in[0]);
    bool is_rms = b->def->variant == ROW_RMS_NORM, fits = true;
    if (is_rms && !a.shape.count && x->rank) {
        a.shape.count = 1;
        a.shape.v[0] = x->dims[x->rank - 1];
    }
    int shift = x->rank - a.shape.count;
    a.n = 1;
    for (int d = 0; d < a.shape.count; d++) {
        fits = fits && shift >= 0 && x->dims[shift + d] == a.shape.v[d];
        a.n *= fits ? a.shape.v[d] : 1;
    }
    if (!fits || !a.shape.count)
        return tensor_fail(s, EBB_EINPUT, "%s: shape must be the last dimensions of the input",
                           b->def->name);
    return ops_emit(s, &rows[is_rms ? ROW_RMS : ROW_LN], &a, b->in_count, b->in);
}

/* Rows of [n, groups, rest], then one weight and bias per channel. */
static tensor_id build_group_norm(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct norm_attr *a = b->attr;
    const struct tensor_view x = *tensor_view_of(s, b->in[0]);
    int64_t groups = b->def->variant == ROW_INSTANCE_NORM && x.rank > 1 ? x.dims[1] : a->groups;
    if (x.rank < 2 || groups < 1 || x.dims[1] % groups || !x.dims[0])
        return tensor_fail(s, EBB_EINPUT, "%s: %" PRId64 " groups do not fit", b->def->name,
                           groups);
    tensor_id y = layer_norm(s, b->in[0], tensor_count(&x) / (x.dims[0] * groups), a->eps);
    if (b->in_count > 1)
        y = ops_mul(s, y, channels(s, b->in[1], x.rank));
    if (b->in_count > 2)
        y = ops_add(s, y, channels(s, b->in[2], x.rank));
    return y;
}

#define EPS OPS_FIELD(norm_attr, eps, OPS_FLOAT)
static const struct ops_field bn_fields[] = {
    EPS, OPS_FIELD(norm_attr, momentum, OPS_FLOAT), OPS_FIELD(norm_attr, training, OPS_BOOL), {0}};
static const struct ops_field ln_fields[] = {EPS, OPS_REQUIRED(norm_attr, shape, OPS_INTS), {0}};
static const struct ops_field rms_fields[] = {EPS, OPS_FIELD(norm_attr, shape, OPS_INTS), {0}};
static const struct ops_field gn_fields[] = {EPS, OPS_REQUIRED(norm_attr, groups, OPS_INT), {0}};
static const struct ops_field in_fields[] = {EPS, {0}};
static const struct norm_attr norm_default = {.eps = 1e-5f, .momentum = 0.1f, .training = 1};

#define PRIMITIVE(id, text, low, high, infer_, family_, ins_, outs_, grad_)                        \
    [id] = {OPS_PRIMITIVE(text, low, high, infer_, family_, describe_ln, grad_),                   \
            .ins = ins_,                                                                           \
            .outs = outs_,                                                                         \
            .variant = id,                                                                         \
            .attr_bytes = sizeof(struct norm_attr),                                                \
            .is_internal = true,                                                                   \
            .low_rule = OPS_LOW_WHOLE,                                                             \
            .low_out = 1}
#define BATCH(id, text, low, high, infer_, family_, grad_, blocks, blocks_out)                     \
    [id] = {OPS_PRIMITIVE(text, low, high, infer_, family_, describe_bn, grad_),                   \
            .variant = id,                                                                         \
            .attr_bytes = sizeof(struct bn_attr),                                                  \
            .is_internal = true,                                                                   \
            .blocked = blocks,                                                                     \
            .blocked_out = blocks_out,                                                             \
            .low_rule = OPS_LOW_WHOLE,                                                             \
            .low_out = blocks_out,                                                                 \
            .overwrites = (id) == ROW_BN_GRAD}
#define TORCH(id, text, low, high, build_, fields_)                                                \
    [id] = {OPS_COMPOSITE(text, low, high, build_), .variant = id,                                 \
            OPS_ATTR(struct norm_attr, fields_, &norm_default)}

static const struct ops_def rows[ROW_COUNT] = {
    BATCH(ROW_BN_STATS, "batch_norm_stats", 1, 1, infer_bn_stats, BATCH_NORM_STATS, grad_bn_stats,
          1, 0),
    BATCH(ROW_BN_NORM, "batch_norm_rows", 5, 6, infer_bn_norm, BATCH_NORM, grad_bn_norm, 33, 1),
    BATCH(ROW_BN_GRAD, "batch_norm_grad", 6, 6, infer_bn_grad, BATCH_NORM_GRAD, NULL, 3, 1),
    BATCH(ROW_BN_APPLY, "batch_norm_apply", 5, 5, infer_bn_norm, BATCH_NORM, grad_bn_apply, 1, 1),
    [ROW_BN_UPDATE] = {OPS_IN_PLACE("batch_norm_update", 4, 5, infer_bn_update, BATCH_NORM_UPDATE,
                                    describe_bn_update),
                       .attr_bytes = sizeof(struct bn_attr)},
    PRIMITIVE(ROW_LN, "layer_norm_rows", 1, 3, infer_ln, LAYER_NORM, NULL, NULL, grad_ln),
    PRIMITIVE(ROW_LN_GRAD, "layer_norm_grad", 4, 5, infer_ln_grad, LAYER_NORM_GRAD, "01423", NULL,
              NULL),
    PRIMITIVE(ROW_RMS, "rms_norm_rows", 1, 2, infer_ln, LAYER_NORM, NULL, "0-1", grad_ln),
    PRIMITIVE(ROW_RMS_GRAD, "rms_norm_grad", 3, 4, infer_ln_grad, LAYER_NORM_GRAD, "013-2", NULL,
              NULL),
    TORCH(ROW_BATCH_NORM, "batch_norm", 5, 5, build_batch_norm, bn_fields),
    TORCH(ROW_LAYER_NORM, "layer_norm", 1, 3, build_layer_norm, ln_fields),
    TORCH(ROW_GROUP_NORM, "group_norm", 1, 3, build_group_norm, gn_fields),
    TORCH(ROW_INSTANCE_NORM, "instance_norm", 1, 3, build_group_norm, in_fields),
    TORCH(ROW_RMS_NORM, "rms_norm", 1, 2, build_layer_norm, rms_fields),
    PRIMITIVE(ROW_LN_GRAD_ADD, "layer_norm_grad_add", 6, 6, infer_ln_grad, LAYER_NORM_GRAD,
              "014235", NULL, NULL),
};

const struct ops_family ops_norm_family = {rows, ROW_COUNT};
