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
_Static_assert((int)ROW_SUM_SQUARES == (int)KERNEL_SUM_SQUARES &&
                   ROW_CUMSUM - ROW_SOFTMAX == (int)KERNEL_CUMSUM,
               "rows in the order of their kernels");

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

static void describe_reduce(const struct ops_views *v, void *desc)
{
    struct kernel_reduce_desc *d = desc;
    struct tensor_view x = *v->in[0];
    uint64_t mask = mask_of(v->attr, x.rank) & ((UINT64_C(1) << x.rank) - 1);
    if (x.block) /* the place inside a block is kept like the channels */
        tensor_view_split(v->in[0], x.block, &x);
    d->f = v->def->variant;
    d->rank = x.rank;
    memcpy(d->dims, x.dims, (size_t)x.rank * sizeof *x.dims);
    d->folded = mask;
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

static tensor_id build_var(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct reduce_attr *a = b->attr;
    const struct tensor_view *x = tensor_view_of(s, b->in[0]);
    uint64_t mask = mask_of(a, x->rank);
    double n = 1;
    for (int k = 0; k < a->dims.count; k++)
        if (a->dims.v[k] < -x->rank || a->dims.v[k] >= x->rank)
            return tensor_fail(s, EBB_EINPUT, "%s: dimension %lld of a tensor of rank %d",
                               b->def->name, (long long)a->dims.v[k], x->rank);
    for (int d = 0; d < x->rank; d++)
        n *= mask >> d & 1 ? (double)x->dims[d] : 1.0;
    tensor_id mean = ops_reduce_dims(s, "mean", b->in[0], mask, true);
    tensor_id squares =
        ops_reduce_dims(s, "sum_squares", ops_sub(s, b->in[0], mean), mask, a->keepdim);
    return ops_mul_scalar(s, squares, (float)(1.0 / (a->unbiased ? n - 1.0 : n)));
}

static tensor_id build_norm2(struct ops_build *b)
{
    return ops_sqrt(b->s, ops_sum_squares(b->s, b->in[0]));
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

static void describe_lines(const struct ops_views *v, void *desc)
{
    struct kernel_lines_desc *d = desc;
    const struct dim_attr *a = v->attr;
    const struct tensor_view *x = v->in[v->in_count - 1];
    ops_lines(x, ops_wrap(a->dim, x->rank), &d->outer, &d->n, &d->inner);
    d->f = v->def->variant - ROW_SOFTMAX;
    d->is_reverse = a->reverse != 0;
}

/* From a file: a scalar is a line of one element, no dimension (argmax) means all in one line. */
static tensor_id build_lines(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    struct dim_attr a = *(const struct dim_attr *)b->attr;
    const struct tensor_view x = *tensor_view_of(s, b->in[0]);
    if (a.dim == ALL_DIMS && b->def->variant != ROW_ARGMAX)
        return tensor_fail(s, EBB_EINPUT, "%s: attribute 'dim' must be an integer", b->def->name);
    bool is_flat = a.dim == ALL_DIMS || (x.rank == 0 && (a.dim == 0 || a.dim == -1));
    if (!is_flat)
        return ops_emit(s, b->def, &a, 1, b->in);
    a.dim = 0;
    tensor_id y = ops_reshape(s, b->in[0], 1, (int64_t[]){tensor_count(&x)});
    y = ops_emit(s, b->def, &a, 1, &y);
    return y.v && tensor_view_of(s, y)->rank ? ops_reshape(s, y, x.rank, x.dims) : y;
}

/* Several dimensions: brought to the end and joined. */
static tensor_id build_logsumexp(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct ops_ints *dims = b->attr;
    struct dim_attr a = {.dim = dims->count == 1 ? dims->v[0] : -1};
    struct tensor_view x = *tensor_view_of(s, b->in[0]);
    uint64_t mask = 0;
    if (dims->count == 1)
        return build_lines(
            &(struct ops_build){.s = s, .def = &rows[ROW_LOGSUMEXP], .in = b->in, .attr = &a});
    for (int k = 0; k < dims->count; k++) {
        int64_t d = dims->v[k] < 0 ? dims->v[k] + x.rank : dims->v[k];
        if (d < 0 || d >= x.rank || (mask >> d & 1))
            return tensor_fail(s, EBB_EINPUT, "%s: dimension %lld of a tensor of rank %d",
                               b->def->name, (long long)dims->v[k], x.rank);
        mask |= UINT64_C(1) << d;
    }
    if (dims->count == 0)
        mask = (UINT64_C(1) << x.rank) - 1;
    tensor_id y = b->in[0];
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
    return ops_emit(s, &rows[ROW_LOGSUMEXP], &a, 1, &y);
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
    uint64_t mask = UINT64_C(1) << ops_wrap(a->dim, rank);
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
    uint64_t mask = UINT64_C(1) << ops_wrap(a->dim, rank);
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

#define DIMS OPS_FIELD(reduce_attr, dims, OPS_INTS)
#define KEEP OPS_FIELD(reduce_attr, keepdim, OPS_BOOL)
static const struct ops_field reduce_fields[] = {DIMS, KEEP, {0}};
static const struct ops_field var_fields[] = {
    DIMS, KEEP, OPS_FIELD(reduce_attr, unbiased, OPS_BOOL), {0}};
static const struct reduce_attr var_default = {.unbiased = 1};
static const struct ops_field dim_fields[] = {OPS_REQUIRED(dim_attr, dim, OPS_INT), {0}};
static const struct dim_attr dim_default = {.dim = ALL_DIMS};
static const struct ops_field logsumexp_fields[] = {{"dim", OPS_INTS, 0, NULL, true}, {0}};

#define FOLD(id, text)                                                                             \
    [id] = {OPS_PRIMITIVE(text, 1, 1, infer_reduce, REDUCE, describe_reduce, grad_reduce),         \
            .variant = id,                                                                         \
            OPS_ATTR(struct reduce_attr, reduce_fields, NULL),                                     \
            .blocked = 1,                                                                          \
            .takes_block = reduce_takes_block,                                                     \
            .low_rule = OPS_LOW_WHOLE}
#define LINE(id, text, ins, grad_, internal)                                                       \
    [id] = {OPS_PRIMITIVE(text, ins, ins, infer_lines, LINES, describe_lines, grad_),              \
            .variant = id,                                                                         \
            OPS_ATTR(struct dim_attr, dim_fields, &dim_default),                                   \
            .build = internal ? NULL : build_lines,                                                \
            .is_internal = internal,                                                               \
            .low_rule = OPS_LOW_WHOLE}

static const struct ops_def rows[ROW_COUNT] = {
    FOLD(ROW_SUM, "sum"),
    FOLD(ROW_MEAN, "mean"),
    FOLD(ROW_AMAX, "amax"),
    FOLD(ROW_SUM_SQUARES, "sum_squares"),
    LINE(ROW_SOFTMAX, "softmax", 1, grad_softmax, false),
    LINE(ROW_LOG_SOFTMAX, "log_softmax", 1, grad_softmax, false),
    LINE(ROW_SOFTMAX_GRAD, "softmax_grad", 2, grad_softmax_grad, true),
    LINE(ROW_LOG_SOFTMAX_GRAD, "log_softmax_grad", 2, grad_softmax_grad, true),
    LINE(ROW_LOGSUMEXP, "logsumexp_line", 1, grad_logsumexp, true),
    LINE(ROW_ARGMAX, "argmax", 1, NULL, false),
    LINE(ROW_CUMSUM, "cumsum", 1, grad_cumsum, false),
    [ROW_VAR] = {OPS_COMPOSITE("var", 1, 1, build_var),
                 OPS_ATTR(struct reduce_attr, var_fields, &var_default)},
    [ROW_NORM2] = {OPS_COMPOSITE("norm2", 1, 1, build_norm2)},
    [ROW_LOGSUMEXP_DIMS] = {OPS_COMPOSITE("logsumexp", 1, 1, build_logsumexp),
                            OPS_ATTR(struct ops_ints, logsumexp_fields, NULL)},
};

const struct ops_family ops_reduce_family = {rows, ROW_COUNT};
