/* reduce.c - folds over dimensions, softmax and relatives. */
#include "ops/internal.h"

enum {
    ROW_SUM,
    ROW_MEAN,
    ROW_AMAX,
    ROW_SUM_SQUARES,
    ROW_SOFTMAX,
    ROW_LOG_SOFTMAX,
    ROW_SOFTMAX_GRAD,
    ROW_LOG_SOFTMAX_GRAD,
    ROW_LOGSUMEXP,
    ROW_ARGMAX,
    ROW_CUMSUM,
    ROW_VAR,
    ROW_NORM2,
    ROW_LOGSUMEXP_DIMS,
    ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];

struct reduce_attr {
    struct ops_ints dims; /* none = all */
    int32_t keepdim, unbiased;
};

#define ALL_DIMS INT64_MIN

struct dim_attr {
    int64_t dim;
    int64_t reverse; /* cumsum */
};

/* ---- sum, mean, amax, sum of squares -------------------------------------------------------- */

static enum ebb_status reduced_mask(const struct ops_infer *i, const struct reduce_attr *a,
                                    uint64_t *mask, struct ebb_error *err)
{
    int rank = i->in[0]->rank, d;
    *mask = a->dims.count ? 0 : ~UINT64_C(0);
    for (int k = 0; k < a->dims.count; k++) {
        EBB_TRY(ops_dim(i, a->dims.v[k], rank, &d, err));
        *mask |= UINT64_C(1) << d;
    }
    return EBB_OK;
}

static uint64_t mask_of(const struct reduce_attr *a, int rank)
{
    uint64_t mask = a->dims.count ? 0 : ~UINT64_C(0);
    for (int k = 0; k < a->dims.count; k++) {
        int64_t d = a->dims.v[k];
        if (d >= -rank && d < rank) /* others are refused by infer */
            mask |= UINT64_C(1) << (d < 0 ? d + rank : d);
    }
    return mask;
}

static enum ebb_status infer_reduce(struct ops_infer *i, struct ebb_error *err)
{
    const struct reduce_attr *a = i->attr;
    int64_t dims[TENSOR_RANK];
    int rank = 0;
    uint64_t mask;
    EBB_TRY(ops_want_f32(i, 1, err));
    EBB_TRY(reduced_mask(i, a, &mask, err));
    for (int d = 0; d < i->in[0]->rank; d++)
        if (!(mask >> d & 1))
            dims[rank++] = i->in[0]->dims[d];
        else if (a->keepdim)
            dims[rank++] = 1;
    ops_out(i, TENSOR_F32, rank, dims);
    i->flops = (double)tensor_count(i->in[0]);
    return EBB_OK;
}

/* Everything but the channels is folded: then the result is in their order. */
static bool reduce_takes_block(const struct ops_infer *i, int block)
{
    uint64_t all = (UINT64_C(1) << i->in[0]->rank) - 1;
    (void)block;
    return (mask_of(i->attr, i->in[0]->rank) & all) == (all & ~UINT64_C(2));
}

static enum ebb_status run_reduce_as(const struct trace_call *call, enum kernel_reduce f,
                                     struct ebb_error *err)
{
    struct tensor_call c;
    bool is_reduced[TENSOR_RANK];
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    struct tensor_view x = c.in[0];
    uint64_t mask = mask_of(c.attr, x.rank);
    if (x.block) /* the place inside a block is kept like the channels */
        tensor_view_split(&c.in[0], x.block, &x);
    for (int d = 0; d < x.rank; d++)
        is_reduced[d] = mask >> d & 1 && d < c.in[0].rank;
    kernel_reduce(ops_context(&c), f, x.rank, x.dims, is_reduced, tensor_call_in(&c, 0),
                  tensor_call_out(&c, 0));
    return EBB_OK;
}

static enum ebb_status run_sum(const struct trace_call *call, struct ebb_error *err)
{
    return run_reduce_as(call, KERNEL_SUM, err);
}

static enum ebb_status run_mean(const struct trace_call *call, struct ebb_error *err)
{
    return run_reduce_as(call, KERNEL_MEAN, err);
}

static enum ebb_status run_amax(const struct trace_call *call, struct ebb_error *err)
{
    return run_reduce_as(call, KERNEL_AMAX, err);
}

static enum ebb_status run_sum_squares(const struct trace_call *call, struct ebb_error *err)
{
    return run_reduce_as(call, KERNEL_SUM_SQUARES, err);
}

/* The result with its folded dimensions back as size 1. */
static tensor_id keep_shape(struct ops_backward *b, tensor_id y, uint64_t mask)
{
    struct tensor_view x = *tensor_view_of(b->session, b->in[0]);
    for (int d = 0; d < x.rank; d++)
        if (mask >> d & 1)
            x.dims[d] = 1;
    return ops_reshape(b->session, y, x.rank, x.dims);
}

static void grad_reduce(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    const struct tensor_view x = *tensor_view_of(s, b->in[0]);
    uint64_t mask = mask_of(b->attr, x.rank);
    tensor_id g = keep_shape(b, b->gout[0], mask);
    int64_t count = 1;
    for (int d = 0; d < x.rank; d++)
        count *= mask >> d & 1 ? x.dims[d] : 1;
    switch (b->def->variant) {
    case ROW_SUM:
        b->gin[0] = ops_expand_to(s, g, &x);
        break;
    case ROW_MEAN:
        b->gin[0] = ops_expand_to(s, ops_mul_scalar(s, g, (float)(1.0 / (double)count)), &x);
        break;
    case ROW_SUM_SQUARES:
        b->gin[0] = ops_mul(s, ops_mul_scalar(s, b->in[0], 2.0f), g);
        break;
    default: { /* amax: shared evenly by the equal ones */
        tensor_id hit = ops_binary(s, KERNEL_EQUAL, b->in[0], keep_shape(b, b->out[0], mask));
        tensor_id hits = ops_reduce_dims(s, "sum", hit, mask, true);
        b->gin[0] = ops_mul(s, hit, ops_div(s, g, hits));
    }
    }
}

tensor_id ops_reduce_dims(struct tensor_session *s, const char *name, tensor_id x, uint64_t mask,
                          bool keepdim)
{
    struct reduce_attr attr;
    int rank = tensor_view_of(s, x)->rank;
    const struct ops_def *def = strcmp(name, "mean") == 0          ? &rows[ROW_MEAN]
                                : strcmp(name, "sum_squares") == 0 ? &rows[ROW_SUM_SQUARES]
                                                                   : &rows[ROW_SUM];
    memset(&attr, 0, sizeof attr);
    for (int d = 0; d < rank; d++)
        if (mask >> d & 1)
            attr.dims.v[attr.dims.count++] = d;
    attr.keepdim = keepdim;
    if (attr.dims.count == 0)
        return x;
    return ops_emit(s, def, &attr, 1, &x);
}

tensor_id ops_sum(struct tensor_session *s, tensor_id x)
{
    struct reduce_attr attr;
    memset(&attr, 0, sizeof attr);
    return ops_emit(s, &rows[ROW_SUM], &attr, 1, &x);
}

tensor_id ops_sum_squares(struct tensor_session *s, tensor_id x)
{
    struct reduce_attr attr;
    memset(&attr, 0, sizeof attr);
    return ops_emit(s, &rows[ROW_SUM_SQUARES], &attr, 1, &x);
}

static void build_var(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                      size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    const struct reduce_attr *a = attr;
    const struct tensor_view *x = tensor_view_of(s, in[0]);
    uint64_t mask = mask_of(a, x->rank);
    double n = 1;
    (void)in_count;
    *out_count = 0;
    for (int k = 0; k < a->dims.count; k++)
        if (a->dims.v[k] < -x->rank || a->dims.v[k] >= x->rank) {
            tensor_fail(s, EBB_EINPUT, "%s: dimension %lld of a tensor of rank %d", def->name,
                        (long long)a->dims.v[k], x->rank);
            return;
        }
    for (int d = 0; d < x->rank; d++)
        n *= mask >> d & 1 ? (double)x->dims[d] : 1.0;
    tensor_id mean = ops_reduce_dims(s, "mean", in[0], mask, true);
    tensor_id squares =
        ops_reduce_dims(s, "sum_squares", ops_sub(s, in[0], mean), mask, a->keepdim);
    out[0] = ops_mul_scalar(s, squares, (float)(1.0 / (a->unbiased ? n - 1.0 : n)));
    *out_count = 1;
}

static void build_norm2(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                        size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    (void)def, (void)in_count, (void)attr;
    out[0] = ops_sqrt(s, ops_sum_squares(s, in[0]));
    *out_count = 1;
}

/* ---- one dimension -------------------------------------------------------------------------- */

static enum ebb_status infer_lines(struct ops_infer *i, struct ebb_error *err)
{
    const struct dim_attr *a = i->attr;
    const struct tensor_view *x = i->in[i->in_count - 1];
    int64_t dims[TENSOR_RANK];
    int rank = 0, dim;
    int variant = i->def->variant;
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    EBB_TRY(ops_dim(i, a->dim, x->rank, &dim, err));
    bool folds = variant == ROW_LOGSUMEXP || variant == ROW_ARGMAX;
    if (folds && x->dims[dim] == 0)
        return ops_wrong(i, err, "dimension %d is empty", dim);
    for (int d = 0; d < x->rank; d++)
        if (!folds || d != dim)
            dims[rank++] = x->dims[d];
    ops_out(i, variant == ROW_ARGMAX ? TENSOR_I64 : TENSOR_F32, rank, dims);
    i->flops = 10.0 * (double)tensor_count(x);
    return EBB_OK;
}

static enum ebb_status decode_lines(const struct trace_call *call, struct tensor_call *c,
                                    struct ops_lines *l, struct ebb_error *err)
{
    EBB_TRY(tensor_call_decode(call, c, err));
    const struct dim_attr *a = c->attr;
    const struct tensor_view *x = &c->in[c->input_count - 1];
    *l = ops_lines_of(x, (int)(a->dim < 0 ? a->dim + x->rank : a->dim));
    if (!c->wanted)
        l->outer = 0; /* no lines, nothing is done */
    return EBB_OK;
}

static enum ebb_status run_softmax(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    struct ops_lines l;
    EBB_TRY(decode_lines(call, &c, &l, err));
    kernel_softmax(ops_context(&c), KERNEL_SOFTMAX, l.outer, l.n, l.inner, tensor_call_in(&c, 0),
                   tensor_call_out(&c, 0));
    return EBB_OK;
}

static enum ebb_status run_log_softmax(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    struct ops_lines l;
    EBB_TRY(decode_lines(call, &c, &l, err));
    kernel_softmax(ops_context(&c), KERNEL_LOG_SOFTMAX, l.outer, l.n, l.inner,
                   tensor_call_in(&c, 0), tensor_call_out(&c, 0));
    return EBB_OK;
}

static enum ebb_status run_softmax_grad(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    struct ops_lines l;
    EBB_TRY(decode_lines(call, &c, &l, err));
    kernel_softmax_grad(ops_context(&c), KERNEL_SOFTMAX, l.outer, l.n, l.inner,
                        tensor_call_in(&c, 0), tensor_call_in(&c, 1), tensor_call_out(&c, 0));
    return EBB_OK;
}

static enum ebb_status run_log_softmax_grad(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    struct ops_lines l;
    EBB_TRY(decode_lines(call, &c, &l, err));
    kernel_softmax_grad(ops_context(&c), KERNEL_LOG_SOFTMAX, l.outer, l.n, l.inner,
                        tensor_call_in(&c, 0), tensor_call_in(&c, 1), tensor_call_out(&c, 0));
    return EBB_OK;
}

static enum ebb_status run_logsumexp(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    struct ops_lines l;
    EBB_TRY(decode_lines(call, &c, &l, err));
    kernel_logsumexp(ops_context(&c), l.outer, l.n, l.inner, tensor_call_in(&c, 0),
                     tensor_call_out(&c, 0));
    return EBB_OK;
}

static enum ebb_status run_argmax(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    struct ops_lines l;
    EBB_TRY(decode_lines(call, &c, &l, err));
    kernel_argmax(ops_context(&c), l.outer, l.n, l.inner, tensor_call_in(&c, 0),
                  tensor_call_out(&c, 0));
    return EBB_OK;
}

static enum ebb_status run_cumsum(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    struct ops_lines l;
    EBB_TRY(decode_lines(call, &c, &l, err));
    const struct dim_attr *a = c.attr;
    kernel_cumsum(ops_context(&c), l.outer, l.n, l.inner, a->reverse, tensor_call_in(&c, 0),
                  tensor_call_out(&c, 0));
    return EBB_OK;
}

/* From a file: a scalar is a line of one element, no dimension (argmax) means all in one line. */
static void build_lines(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                        size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    struct dim_attr a = *(const struct dim_attr *)attr;
    const struct tensor_view x = *tensor_view_of(s, in[0]);
    (void)in_count;
    *out_count = 1;
    if (a.dim == ALL_DIMS && def->variant != ROW_ARGMAX) {
        tensor_fail(s, EBB_EINPUT, "%s: attribute 'dim' must be an integer", def->name);
        return;
    }
    bool is_flat = a.dim == ALL_DIMS || (x.rank == 0 && (a.dim == 0 || a.dim == -1));
    if (!is_flat) {
        out[0] = ops_emit(s, def, &a, 1, in);
        return;
    }
    a.dim = 0;
    tensor_id y = ops_reshape(s, in[0], 1, (int64_t[]){tensor_count(&x)});
    y = ops_emit(s, def, &a, 1, &y);
    out[0] = y.v && tensor_view_of(s, y)->rank ? ops_reshape(s, y, x.rank, x.dims) : y;
}

/* Several dimensions: brought to the end and joined. */
static void build_logsumexp(struct tensor_session *s, const struct ops_def *def,
                            const tensor_id *in, size_t in_count, const void *attr, tensor_id *out,
                            size_t *out_count)
{
    const struct ops_ints *dims = attr;
    struct dim_attr a = {.dim = dims->count == 1 ? dims->v[0] : -1};
    struct tensor_view x = *tensor_view_of(s, in[0]);
    uint64_t mask = 0;
    *out_count = 0;
    if (dims->count == 1) {
        build_lines(s, &rows[ROW_LOGSUMEXP], in, in_count, &a, out, out_count);
        return;
    }
    for (int k = 0; k < dims->count; k++) {
        int64_t d = dims->v[k] < 0 ? dims->v[k] + x.rank : dims->v[k];
        if (d < 0 || d >= x.rank || (mask >> d & 1)) {
            tensor_fail(s, EBB_EINPUT, "%s: dimension %lld of a tensor of rank %d", def->name,
                        (long long)dims->v[k], x.rank);
            return;
        }
        mask |= UINT64_C(1) << d;
    }
    if (dims->count == 0)
        mask = (UINT64_C(1) << x.rank) - 1;
    tensor_id y = in[0];
    int64_t kept[TENSOR_RANK + 1];
    int rank = 0, moved = 0;
    for (int d = 0; d < x.rank; d++)
        if (mask >> d & 1) { /* each in turn to the end */
            for (int at = d - moved; at < x.rank - 1; at++)
                y = ops_transpose(s, y, at, at + 1);
            moved++;
        } else {
            kept[rank++] = x.dims[d];
        }
    int64_t n = 1;
    for (int d = 0; d < x.rank; d++)
        n *= mask >> d & 1 ? x.dims[d] : 1;
    kept[rank++] = n;
    y = ops_reshape(s, y, rank, kept);
    out[0] = ops_emit(s, &rows[ROW_LOGSUMEXP], &a, 1, &y);
    *out_count = 1;
}

static void grad_softmax(struct ops_backward *b)
{
    int row = b->def->variant == ROW_SOFTMAX ? ROW_SOFTMAX_GRAD : ROW_LOG_SOFTMAX_GRAD;
    b->gin[0] = ops_emit(b->session, &rows[row], b->attr, 2, (tensor_id[]){b->gout[0], b->out[0]});
}

/* dx = y (dy - sum(dy y)): towards dy it is the same map; towards y, g (dy - sum) - sum(g y) dy. */
static void grad_softmax_grad(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    const struct dim_attr *a = b->attr;
    tensor_id g = b->gout[0], dy = b->in[0], y = b->in[1];
    int rank = tensor_view_of(s, y)->rank;
    uint64_t mask = UINT64_C(1) << (a->dim < 0 ? a->dim + rank : a->dim);
    if (b->def->variant == ROW_LOG_SOFTMAX_GRAD) { /* dx = dy - e^y sum(dy) */
        tensor_id p = ops_unary(s, KERNEL_EXP, y, 0, 0);
        tensor_id gp = ops_reduce_dims(s, "sum", ops_mul(s, g, p), mask, true);
        if (b->needs[0])
            b->gin[0] = ops_sub(s, g, gp);
        if (b->needs[1])
            b->gin[1] =
                ops_neg(s, ops_mul(s, ops_mul(s, g, p), ops_reduce_dims(s, "sum", dy, mask, true)));
        return;
    }
    if (b->needs[0])
        b->gin[0] = ops_emit(s, b->def, b->attr, 2, (tensor_id[]){g, y});
    if (b->needs[1]) {
        tensor_id dot = ops_reduce_dims(s, "sum", ops_mul(s, dy, y), mask, true);
        tensor_id gy = ops_reduce_dims(s, "sum", ops_mul(s, g, y), mask, true);
        b->gin[1] = ops_sub(s, ops_mul(s, g, ops_sub(s, dy, dot)), ops_mul(s, gy, dy));
    }
}

static void grad_logsumexp(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    const struct dim_attr *a = b->attr;
    int rank = tensor_view_of(s, b->in[0])->rank;
    uint64_t mask = UINT64_C(1) << (a->dim < 0 ? a->dim + rank : a->dim);
    tensor_id p =
        ops_unary(s, KERNEL_EXP, ops_sub(s, b->in[0], keep_shape(b, b->out[0], mask)), 0, 0);
    b->gin[0] = ops_mul(s, p, keep_shape(b, b->gout[0], mask));
}

tensor_id ops_softmax(struct tensor_session *s, tensor_id x, int dim)
{
    struct dim_attr attr = {.dim = dim};
    return ops_emit(s, &rows[ROW_SOFTMAX], &attr, 1, &x);
}

tensor_id ops_cumsum(struct tensor_session *s, tensor_id x, int dim)
{
    struct dim_attr attr = {.dim = dim};
    return ops_emit(s, &rows[ROW_CUMSUM], &attr, 1, &x);
}

static void grad_cumsum(struct ops_backward *b)
{
    struct dim_attr attr = *(const struct dim_attr *)b->attr;
    attr.reverse = !attr.reverse;
    b->gin[0] = ops_emit(b->session, b->def, &attr, 1, b->gout);
}

/* ---- rows ----------------------------------------------------------------------------------- */

#define DIMS                                                                                       \
    {                                                                                              \
        "dims", OPS_INTS, offsetof(struct reduce_attr, dims), NULL, false                          \
    }
#define KEEP                                                                                       \
    {                                                                                              \
        "keepdim", OPS_BOOL, offsetof(struct reduce_attr, keepdim), NULL, false                    \
    }
static const struct ops_field reduce_fields[] = {DIMS, KEEP, {0}};
static const struct ops_field var_fields[] = {
    DIMS, KEEP, {"unbiased", OPS_BOOL, offsetof(struct reduce_attr, unbiased), NULL, false}, {0}};
static const struct reduce_attr var_default = {.unbiased = 1};
static const struct ops_field dim_fields[] = {
    {"dim", OPS_INT, offsetof(struct dim_attr, dim), NULL, true}, {0}};
static const struct dim_attr dim_default = {.dim = ALL_DIMS};
static const struct ops_field logsumexp_fields[] = {{"dim", OPS_INTS, 0, NULL, true}, {0}};

#define REDUCE(id, text, run_)                                                                     \
    [id] = {OPS_PRIMITIVE(text, 1, 1, infer_reduce, run_, grad_reduce),                            \
            .variant = id,                                                                         \
            .attr_bytes = sizeof(struct reduce_attr),                                              \
            .fields = reduce_fields,                                                               \
            .blocked = 1,                                                                          \
            .takes_block = reduce_takes_block,                                                     \
            .low_rule = OPS_LOW_WHOLE}
#define LINES(id, text, ins, run_, grad_, internal)                                                \
    [id] = {OPS_PRIMITIVE(text, ins, ins, infer_lines, run_, grad_),                               \
            .variant = id,                                                                         \
            .attr_bytes = sizeof(struct dim_attr),                                                 \
            .fields = dim_fields,                                                                  \
            .defaults = &dim_default,                                                              \
            .build = internal ? NULL : build_lines,                                                \
            .is_internal = internal,                                                               \
            .low_rule = OPS_LOW_WHOLE}

static const struct ops_def rows[ROW_COUNT] = {
    REDUCE(ROW_SUM, "sum", run_sum),
    REDUCE(ROW_MEAN, "mean", run_mean),
    REDUCE(ROW_AMAX, "amax", run_amax),
    REDUCE(ROW_SUM_SQUARES, "sum_squares", run_sum_squares),
    LINES(ROW_SOFTMAX, "softmax", 1, run_softmax, grad_softmax, false),
    LINES(ROW_LOG_SOFTMAX, "log_softmax", 1, run_log_softmax, grad_softmax, false),
    LINES(ROW_SOFTMAX_GRAD, "softmax_grad", 2, run_softmax_grad, grad_softmax_grad, true),
    LINES(ROW_LOG_SOFTMAX_GRAD, "log_softmax_grad", 2, run_log_softmax_grad, grad_softmax_grad,
          true),
    LINES(ROW_LOGSUMEXP, "logsumexp_line", 1, run_logsumexp, grad_logsumexp, true),
    LINES(ROW_ARGMAX, "argmax", 1, run_argmax, NULL, false),
    LINES(ROW_CUMSUM, "cumsum", 1, run_cumsum, grad_cumsum, false),
    [ROW_VAR] = {.name = "var",
                 .min_in = 1,
                 .max_in = 1,
                 .build = build_var,
                 .attr_bytes = sizeof(struct reduce_attr),
                 .fields = var_fields,
                 .defaults = &var_default},
    [ROW_NORM2] = {.name = "norm2", .min_in = 1, .max_in = 1, .build = build_norm2},
    [ROW_LOGSUMEXP_DIMS] = {.name = "logsumexp",
                            .min_in = 1,
                            .max_in = 1,
                            .build = build_logsumexp,
                            .attr_bytes = sizeof(struct ops_ints),
                            .fields = logsumexp_fields},
};

const struct ops_family ops_reduce_family = {rows, ROW_COUNT};
