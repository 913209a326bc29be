/* shape.c - views, copies, joining and padding. A view is no op of the trace; its gradient rule is.
 */
#include <inttypes.h>

#include "ops/internal.h"

enum {
    ROW_COPY,
    ROW_RELABEL,
    ROW_RESHAPE,
    ROW_PERMUTE,
    ROW_TRANSPOSE,
    ROW_EXPAND,
    ROW_SQUEEZE,
    ROW_UNSQUEEZE,
    ROW_SLICE,
    ROW_UNSLICE,
    ROW_SPLIT,
    ROW_CAT,
    ROW_STACK,
    ROW_PAD,
    ROW_FULL,
    ROW_TILE,
    ROW_SHUFFLE,
    ROW_CAST,
    ROW_DETACH,
    ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];

struct shape_attr {
    struct ops_ints ints;
};

/* ---- copy ----------------------------------------------------------------------------------- */

/* attr: the block of the result */
static enum ebb_status infer_copy(struct ops_infer *i, struct ebb_error *err)
{
    const int64_t *block = i->attr;
    (void)err;
    ops_out(i, i->in[0]->dtype, i->in[0]->rank, i->in[0]->dims);
    if (*block)
        tensor_view_block(&i->out[0], (int)*block);
    return EBB_OK;
}

static enum ebb_status run_copy(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    struct kernel_nd nd;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    int block = c.out[0].block ? c.out[0].block : c.in[0].block;
    ops_nd_shape(&nd, &c.out[0], block);
    ops_nd_operand(&nd, 0, &c.out[0], block);
    ops_nd_operand(&nd, 1, &c.in[0], block);
    kernel_copy(ops_context(&c), &nd, tensor_dtype_bytes(c.in[0].dtype), tensor_call_out(&c, 0),
                tensor_call_in(&c, 0));
    return EBB_OK;
}

static void grad_copy(struct ops_backward *b)
{
    b->gin[0] = b->gout[0];
}

/* One value per channel: the bytes are the same in both layouts. */
static bool is_flat(const struct tensor_view *v)
{
    for (int d = 2; d < v->rank; d++)
        if (v->dims[d] != 1)
            return false;
    return tensor_is_dense(v);
}

tensor_id ops_in_layout(struct tensor_session *s, tensor_id x, int block)
{
    const struct tensor_view *v = tensor_view_of(s, x);
    int64_t attr = block, from = v->block;
    if (!x.v || (v->block == block && tensor_is_dense(v)))
        return x;
    tensor_id twin = tensor_twin(s, x);
    if (twin.v && tensor_view_of(s, twin)->block == block)
        return twin;
    if (from && block && from != block) /* two sizes of blocks meet in the plain layout */
        return ops_in_layout(s, ops_in_layout(s, x, 0), block);
    bool is_same = from != block && is_flat(v);
    tensor_id y = ops_emit(s, &rows[is_same ? ROW_RELABEL : ROW_COPY], &attr, 1, &x);
    if (from != block) {
        tensor_set_twin(s, x, y);
        tensor_set_twin(s, y, x);
    }
    return y;
}

tensor_id ops_contiguous(struct tensor_session *s, tensor_id x)
{
    return ops_in_layout(s, x, 0);
}

static enum ebb_status infer_relabel(struct ops_infer *i, struct ebb_error *err)
{
    const int64_t *block = i->attr;
    (void)err;
    i->out[0] = *i->in[0];
    i->out_count = 1;
    tensor_view_block(&i->out[0], (int)*block);
    return EBB_OK;
}

/* ---- views ---------------------------------------------------------------------------------- */

static struct tensor_view *same_view(struct ops_infer *i)
{
    i->out[0] = *i->in[0];
    i->out_count = 1;
    return &i->out[0];
}

static enum ebb_status infer_reshape(struct ops_infer *i, struct ebb_error *err)
{
    const struct shape_attr *a = i->attr;
    int64_t dims[TENSOR_RANK], known = 1, count = tensor_count(i->in[0]);
    int free_dim = -1;
    for (int d = 0; d < a->ints.count; d++) {
        dims[d] = a->ints.v[d];
        if (dims[d] == -1 && free_dim < 0)
            free_dim = d;
        else if (dims[d] < 0 || (dims[d] && __builtin_mul_overflow(known, dims[d], &known)))
            return ops_wrong(i, err, "dimension %d is %" PRId64, d, dims[d]);
        else if (dims[d] == 0)
            known = 0;
    }
    if (free_dim >= 0 && known > 0)
        dims[free_dim] = count / known;
    if (free_dim >= 0 ? known <= 0 || count % known : known != count)
        return ops_wrong(i, err, "%" PRId64 " elements do not fit the shape", count);
    tensor_view_init(&i->out[0], i->in[0]->dtype, a->ints.count, dims);
    i->out[0].offset = i->in[0]->offset;
    i->out_count = 1;
    return EBB_OK;
}

tensor_id ops_reshape(struct tensor_session *s, tensor_id x, int rank, const int64_t *dims)
{
    struct shape_attr attr;
    const struct tensor_view *v = tensor_view_of(s, x);
    if (rank > TENSOR_RANK)
        return tensor_fail(s, EBB_EINPUT, "reshape: rank %d", rank);
    bool is_same = v->rank == rank;
    memset(&attr, 0, sizeof attr);
    attr.ints.count = rank;
    for (int d = 0; d < rank; d++) { /* dims may be NULL for a scalar */
        attr.ints.v[d] = dims[d];
        is_same = is_same && dims[d] == v->dims[d];
    }
    if (is_same)
        return x;
    return ops_emit(s, &rows[ROW_RESHAPE], &attr, 1, &x);
}

/* reshape, squeeze, unsqueeze: back to the shape it had. */
static void grad_reshape(struct ops_backward *b)
{
    const struct tensor_view *v = tensor_view_of(b->session, b->in[0]);
    b->gin[0] = ops_reshape(b->session, b->gout[0], v->rank, v->dims);
}

static enum ebb_status infer_permute(struct ops_infer *i, struct ebb_error *err)
{
    const struct shape_attr *a = i->attr;
    const struct tensor_view *x = i->in[0];
    struct tensor_view *y = same_view(i);
    unsigned seen = 0;
    if (a->ints.count != x->rank)
        return ops_wrong(i, err, "%d dimensions for a tensor of rank %d", a->ints.count, x->rank);
    for (int d = 0; d < x->rank; d++) {
        int from;
        EBB_TRY(ops_dim(i, a->ints.v[d], x->rank, &from, err));
        if (seen >> from & 1)
            return ops_wrong(i, err, "dimension %d is named twice", from);
        seen |= 1u << from;
        y->dims[d] = x->dims[from];
        y->strides[d] = x->strides[from];
    }
    return EBB_OK;
}

tensor_id ops_permute(struct tensor_session *s, tensor_id x, const int64_t *dims)
{
    struct shape_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.ints.count = tensor_view_of(s, x)->rank;
    memcpy(attr.ints.v, dims, (size_t)attr.ints.count * sizeof *dims);
    return ops_emit(s, &rows[ROW_PERMUTE], &attr, 1, &x);
}

static void grad_permute(struct ops_backward *b)
{
    const struct shape_attr *a = b->attr;
    int64_t back[TENSOR_RANK];
    for (int d = 0; d < a->ints.count; d++)
        back[a->ints.v[d] < 0 ? a->ints.v[d] + a->ints.count : a->ints.v[d]] = d;
    b->gin[0] = ops_permute(b->session, b->gout[0], back);
}

static enum ebb_status infer_transpose(struct ops_infer *i, struct ebb_error *err)
{
    const struct shape_attr *a = i->attr;
    const struct tensor_view *x = i->in[0];
    struct tensor_view *y = same_view(i);
    int p, q;
    if (a->ints.count != 2)
        return ops_wrong(i, err, "two dimensions are needed");
    EBB_TRY(ops_dim(i, a->ints.v[0], x->rank, &p, err));
    EBB_TRY(ops_dim(i, a->ints.v[1], x->rank, &q, err));
    y->dims[p] = x->dims[q];
    y->dims[q] = x->dims[p];
    y->strides[p] = x->strides[q];
    y->strides[q] = x->strides[p];
    return EBB_OK;
}

tensor_id ops_transpose(struct tensor_session *s, tensor_id x, int p, int q)
{
    struct shape_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.ints.count = 2;
    attr.ints.v[0] = p;
    attr.ints.v[1] = q;
    return ops_emit(s, &rows[ROW_TRANSPOSE], &attr, 1, &x);
}

static void grad_transpose(struct ops_backward *b)
{
    b->gin[0] = ops_emit(b->session, b->def, b->attr, 1, b->gout);
}

static enum ebb_status infer_expand(struct ops_infer *i, struct ebb_error *err)
{
    const struct shape_attr *a = i->attr;
    const struct tensor_view *x = i->in[0];
    int shift = a->ints.count - x->rank;
    struct tensor_view *y = same_view(i);
    if (shift < 0)
        return ops_wrong(i, err, "rank %d is below that of the input", a->ints.count);
    y->rank = (uint8_t)a->ints.count;
    for (int d = 0; d < a->ints.count; d++) {
        int64_t have = d < shift ? 1 : x->dims[d - shift], want = a->ints.v[d];
        if (want == -1 && d >= shift)
            want = have;
        if (want < 0 || (have != 1 && have != want))
            return ops_wrong(i, err, "dimension %d cannot become %" PRId64, d, want);
        y->dims[d] = want;
        y->strides[d] = have == 1 && want != 1 ? 0 : d < shift ? 0 : x->strides[d - shift];
    }
    return EBB_OK;
}

tensor_id ops_expand_to(struct tensor_session *s, tensor_id x, const struct tensor_view *like)
{
    struct shape_attr attr;
    if (tensor_same_shape(tensor_view_of(s, x), like))
        return x;
    memset(&attr, 0, sizeof attr);
    attr.ints.count = like->rank;
    memcpy(attr.ints.v, like->dims, (size_t)like->rank * sizeof *like->dims);
    return ops_emit(s, &rows[ROW_EXPAND], &attr, 1, &x);
}

tensor_id ops_reduce_to(struct tensor_session *s, tensor_id g, const struct tensor_view *like)
{
    const struct tensor_view target = *like; /* the session may move its records */
    const struct tensor_view *v = tensor_view_of(s, g);
    uint64_t mask = 0;
    int shift = v->rank - target.rank;
    for (int d = 0; d < v->rank; d++)
        if (d < shift || (target.dims[d - shift] == 1 && v->dims[d] != 1))
            mask |= UINT64_C(1) << d;
    return ops_reshape(s, ops_reduce_dims(s, "sum", g, mask, true), target.rank, target.dims);
}

static void grad_expand(struct ops_backward *b)
{
    b->gin[0] = ops_reduce_to(b->session, b->gout[0], tensor_view_of(b->session, b->in[0]));
}

static enum ebb_status infer_squeeze(struct ops_infer *i, struct ebb_error *err)
{
    const int64_t *dim = i->attr;
    const struct tensor_view *x = i->in[0];
    struct tensor_view *y = same_view(i);
    int at;
    EBB_TRY(ops_dim(i, *dim, x->rank, &at, err));
    if (x->dims[at] != 1)
        return EBB_OK; /* torch leaves it as it is */
    y->rank--;
    for (int d = at; d < y->rank; d++) {
        y->dims[d] = x->dims[d + 1];
        y->strides[d] = x->strides[d + 1];
    }
    y->dims[y->rank] = y->strides[y->rank] = 0;
    return EBB_OK;
}

static enum ebb_status infer_unsqueeze(struct ops_infer *i, struct ebb_error *err)
{
    const int64_t *dim = i->attr;
    const struct tensor_view *x = i->in[0];
    struct tensor_view *y = same_view(i);
    int at;
    if (x->rank == TENSOR_RANK)
        return ops_wrong(i, err, "rank is %d already", TENSOR_RANK);
    EBB_TRY(ops_dim(i, *dim, x->rank + 1, &at, err));
    y->rank++;
    for (int d = y->rank - 1; d > at; d--) {
        y->dims[d] = x->dims[d - 1];
        y->strides[d] = x->strides[d - 1];
    }
    y->dims[at] = 1;
    y->strides[at] = at < x->rank ? x->strides[at] * x->dims[at] : 1;
    return EBB_OK;
}

/* ---- slices --------------------------------------------------------------------------------- */

/* Begin, step and count per dimension, as python's x[begin:end:step]. */
struct cut {
    int64_t begin[TENSOR_RANK], step[TENSOR_RANK], count[TENSOR_RANK];
};

static enum ebb_status make_cut(const struct ops_infer *i, const struct ops_ranges *r,
                                const struct tensor_view *x, struct cut *cut, struct ebb_error *err)
{
    memset(cut, 0, sizeof *cut);
    for (int d = 0; d < x->rank; d++) {
        cut->step[d] = 1;
        cut->count[d] = x->dims[d];
    }
    for (int64_t k = 0; k < r->count; k++) {
        int d;
        EBB_TRY(ops_dim(i, r->v[k][0], x->rank, &d, err));
        int64_t n = cut->count[d], begin = r->v[k][1], end = r->v[k][2], step = r->v[k][3];
        if (step < 1)
            return ops_wrong(i, err, "step %" PRId64 " must be at least 1", step);
        begin = begin < 0 ? begin + n : begin;
        end = end < 0 ? end + n : end;
        begin = begin < 0 ? 0 : begin > n ? n : begin;
        end = end < begin ? begin : end > n ? n : end;
        cut->begin[d] += begin * cut->step[d];
        cut->count[d] = (end - begin + step - 1) / step;
        cut->step[d] *= step;
    }
    return EBB_OK;
}

/* Whole blocks of channels. */
static bool is_in_blocks(const struct cut *cut, int block)
{
    return cut->begin[1] % block == 0 && cut->count[1] % block == 0 && cut->count[1] > 0 &&
           cut->step[1] == 1;
}

static bool slice_takes_block(const struct ops_infer *i, int block)
{
    struct cut cut;
    struct ebb_error err;
    return make_cut(i, i->attr, i->in[0], &cut, &err) == EBB_OK && is_in_blocks(&cut, block);
}

static enum ebb_status infer_slice(struct ops_infer *i, struct ebb_error *err)
{
    struct cut cut;
    struct tensor_view *y = same_view(i);
    EBB_TRY(make_cut(i, i->attr, i->in[0], &cut, err));
    if (y->block)
        cut.begin[1] /= y->block; /* strides count blocks */
    for (int d = 0; d < y->rank; d++) {
        y->offset += cut.count[d] ? cut.begin[d] * y->strides[d] : 0;
        y->dims[d] = cut.count[d];
        y->strides[d] *= cut.step[d];
    }
    return EBB_OK;
}

tensor_id ops_slice_dim(struct tensor_session *s, tensor_id x, int dim, int64_t begin, int64_t end,
                        int64_t step)
{
    struct ops_ranges r;
    memset(&r, 0, sizeof r);
    r.count = 1;
    r.v[0][0] = dim;
    r.v[0][1] = begin;
    r.v[0][2] = end;
    r.v[0][3] = step;
    return ops_emit(s, &rows[ROW_SLICE], &r, 1, &x);
}

struct unslice_attr {
    struct ops_ranges ranges;
    struct ops_ints shape;
};

static enum ebb_status infer_unslice(struct ops_infer *i, struct ebb_error *err)
{
    const struct unslice_attr *a = i->attr;
    struct tensor_view full;
    struct cut cut;
    tensor_view_init(&full, i->in[0]->dtype, a->shape.count, a->shape.v);
    EBB_TRY(make_cut(i, &a->ranges, &full, &cut, err));
    if (i->in[0]->rank != full.rank ||
        memcmp(i->in[0]->dims, cut.count, (size_t)full.rank * sizeof *cut.count) != 0)
        return ops_wrong(i, err, "the shape is not that of the slice");
    ops_out(i, i->in[0]->dtype, full.rank, full.dims);
    return EBB_OK;
}

static bool unslice_takes_block(const struct ops_infer *i, int block)
{
    const struct unslice_attr *a = i->attr;
    struct tensor_view full;
    struct cut cut;
    struct ebb_error err;
    tensor_view_init(&full, i->in[0]->dtype, a->shape.count, a->shape.v);
    return full.rank == i->in[0]->rank && full.dims[1] % block == 0 &&
           make_cut(i, &a->ranges, &full, &cut, &err) == EBB_OK && is_in_blocks(&cut, block);
}

static enum ebb_status run_unslice(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    struct kernel_nd nd;
    struct cut cut;
    struct ops_infer i = {.def = &rows[ROW_UNSLICE]};
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    const struct unslice_attr *a = c.attr;
    unsigned char *to = tensor_call_out(&c, 0);
    size_t element = tensor_dtype_bytes(c.out[0].dtype);
    EBB_TRY(make_cut(&i, &a->ranges, &c.out[0], &cut, err));
    memset(to, 0, (size_t)tensor_count(&c.out[0]) * element);
    if (tensor_count(&c.in[0]) == 0)
        return EBB_OK;
    ops_nd_shape(&nd, &c.in[0], c.out[0].block);
    ops_nd_operand(&nd, 0, &c.out[0], c.out[0].block);
    ops_nd_operand(&nd, 1, &c.in[0], c.out[0].block);
    if (c.out[0].block)
        cut.begin[1] /= c.out[0].block;
    for (int d = 0; d < c.in[0].rank; d++) {
        nd.stride[0][d] = c.out[0].strides[d] * cut.step[d];
        to += (size_t)(cut.begin[d] * c.out[0].strides[d]) * element;
    }
    kernel_copy(ops_context(&c), &nd, element, to, tensor_call_in(&c, 0));
    return EBB_OK;
}

static void grad_slice(struct ops_backward *b)
{
    struct unslice_attr attr;
    const struct tensor_view *x = tensor_view_of(b->session, b->in[0]);
    memset(&attr, 0, sizeof attr);
    attr.ranges = *(const struct ops_ranges *)b->attr;
    attr.shape.count = x->rank;
    memcpy(attr.shape.v, x->dims, sizeof x->dims);
    b->gin[0] = ops_emit(b->session, &rows[ROW_UNSLICE], &attr, 1, b->gout);
}

static void grad_unslice(struct ops_backward *b)
{
    const struct unslice_attr *a = b->attr;
    b->gin[0] = ops_emit(b->session, &rows[ROW_SLICE], &a->ranges, 1, b->gout);
}

/* ---- split and cat -------------------------------------------------------------------------- */

struct split_attr {
    struct ops_list sizes; /* one number: pieces of that size */
    int64_t dim;
};

static bool split_takes_block(const struct ops_infer *i, int block)
{
    const struct split_attr *a = i->attr;
    if (a->dim != 1 && a->dim + i->in[0]->rank != 1)
        return true;
    for (int k = 0; k < a->sizes.count; k++)
        if (a->sizes.v[k] % block || a->sizes.v[k] < 1)
            return false;
    return true;
}

static enum ebb_status infer_split(struct ops_infer *i, struct ebb_error *err)
{
    const struct split_attr *a = i->attr;
    const struct tensor_view *x = i->in[0];
    int dim;
    int64_t at = 0;
    EBB_TRY(ops_dim(i, a->dim, x->rank, &dim, err));
    for (int k = 0; a->sizes.is_scalar ? at < x->dims[dim] : k < a->sizes.count; k++) {
        int64_t size = a->sizes.v[a->sizes.is_scalar ? 0 : k];
        if (a->sizes.is_scalar && size > x->dims[dim] - at)
            size = x->dims[dim] - at;
        if (size < a->sizes.is_scalar || size > x->dims[dim] - at || k == TENSOR_PORTS)
            return ops_wrong(i, err, "piece %d has size %" PRId64, k, size);
        i->out[k] = *x;
        i->out[k].offset += (x->block && dim == 1 ? at / x->block : at) * x->strides[dim];
        i->out[k].dims[dim] = size;
        i->out_count++;
        at += size;
    }
    if (at != x->dims[dim])
        return ops_wrong(i, err, "sizes add up to %" PRId64 " of %" PRId64, at, x->dims[dim]);
    return EBB_OK;
}

static void grad_split(struct ops_backward *b)
{
    const struct split_attr *a = b->attr;
    struct tensor_session *s = b->session;
    tensor_id parts[TENSOR_PORTS];
    for (size_t k = 0; k < b->out_count; k++) {
        const struct tensor_view *v = tensor_view_of(s, b->out[k]);
        enum tensor_dtype dtype = (enum tensor_dtype)v->dtype;
        parts[k] =
            b->gout[k].v ? b->gout[k] : ops_cast(s, ops_full(s, v->rank, v->dims, 0.0f), dtype);
    }
    int rank = tensor_view_of(s, b->in[0])->rank;
    b->gin[0] = ops_cat(s, parts, b->out_count, (int)(a->dim < 0 ? a->dim + rank : a->dim));
}

static enum ebb_status infer_cat(struct ops_infer *i, struct ebb_error *err)
{
    const int64_t *attr = i->attr;
    struct tensor_view y = *i->in[0];
    int dim;
    EBB_TRY(ops_dim(i, *attr, y.rank, &dim, err));
    for (size_t k = 1; k < i->in_count; k++) {
        const struct tensor_view *v = i->in[k];
        bool fits = v->rank == y.rank && v->dtype == y.dtype;
        for (int d = 0; fits && d < y.rank; d++)
            fits = d == dim || v->dims[d] == y.dims[d];
        if (!fits)
            return ops_wrong(i, err, "input %zu does not fit along dimension %d", k, dim);
        y.dims[dim] += v->dims[dim];
    }
    ops_out(i, y.dtype, y.rank, y.dims);
    return EBB_OK;
}

static bool cat_takes_block(const struct ops_infer *i, int block)
{
    for (size_t k = 0; k < i->in_count; k++)
        if (i->in[k]->rank < 3 || i->in[k]->dims[1] % block || !i->in[k]->dims[1])
            return false;
    return true;
}

static enum ebb_status run_cat(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    struct kernel_nd nd;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    const int64_t *attr = c.attr;
    int dim = (int)(*attr < 0 ? *attr + c.out[0].rank : *attr);
    size_t element = tensor_dtype_bytes(c.out[0].dtype);
    unsigned char *to = tensor_call_out(&c, 0);
    for (uint32_t k = 0; k < c.input_count; k++) {
        ops_nd_shape(&nd, &c.in[k], c.out[0].block);
        ops_nd_operand(&nd, 1, &c.in[k], c.out[0].block);
        ops_nd_operand(&nd, 0, &c.out[0], c.out[0].block);
        for (int d = 0; d < c.in[k].rank; d++)
            nd.stride[0][d] = c.out[0].strides[d];
        kernel_copy(ops_context(&c), &nd, element, to, tensor_call_in(&c, k));
        int64_t n = c.in[k].dims[dim] / (c.out[0].block && dim == 1 ? c.out[0].block : 1);
        to += (size_t)(n * c.out[0].strides[dim]) * element;
    }
    return EBB_OK;
}

tensor_id ops_cat(struct tensor_session *s, const tensor_id *in, size_t count, int dim)
{
    int64_t attr = dim;
    return ops_emit(s, &rows[ROW_CAT], &attr, count, in);
}

bool ops_cat_parts(const struct tensor_session *s, tensor_id x, tensor_id *parts, size_t count)
{
    struct tensor_node n = tensor_node_at(s, tensor_producer(s, x));
    if (n.def != &rows[ROW_CAT] || n.input_count != count || *(const int64_t *)n.attr != 1)
        return false;
    memcpy(parts, n.inputs, count * sizeof *parts);
    return true;
}

static void grad_cat(struct ops_backward *b)
{
    const int64_t *attr = b->attr;
    int64_t at = 0;
    int rank = tensor_view_of(b->session, b->in[0])->rank;
    int dim = (int)(*attr < 0 ? *attr + rank : *attr);
    tensor_id parts[TENSOR_PORTS];
    bool is_joined = dim == 1 && ops_cat_parts(b->session, b->gout[0], parts, b->in_count);
    for (size_t k = 0; k < b->in_count; k++) {
        int64_t n = tensor_view_of(b->session, b->in[k])->dims[dim];
        bool is_part = is_joined && tensor_view_of(b->session, parts[k])->dims[1] == n;
        if (b->needs[k] && is_part)
            b->gin[k] = parts[k];
        else if (b->needs[k])
            b->gin[k] = ops_slice_dim(b->session, b->gout[0], dim, at, at + n, 1);
        at += n;
    }
}

static void build_stack(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                        size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    const int64_t *dim = attr;
    tensor_id parts[TENSOR_PORTS];
    (void)def;
    for (size_t k = 0; k < in_count; k++)
        parts[k] = ops_emit(s, &rows[ROW_UNSQUEEZE], attr, 1, &in[k]);
    out[0] = ops_cat(s, parts, in_count, (int)*dim);
    *out_count = 1;
}

/* ---- pad, full, tile, shuffle, cast --------------------------------------------------------- */

struct pad_attr {
    struct ops_list pad; /* before, after of the last dimension first, as torch */
    float value, zero;
};

static enum ebb_status infer_pad(struct ops_infer *i, struct ebb_error *err)
{
    const struct pad_attr *a = i->attr;
    struct tensor_view y = *i->in[0];
    EBB_TRY(ops_want_f32(i, 1, err));
    if (a->pad.count % 2 || a->pad.count / 2 > y.rank)
        return ops_wrong(i, err, "%d numbers of padding", a->pad.count);
    for (int k = 0; k < a->pad.count; k++) {
        if (a->pad.v[k] < 0)
            return ops_wrong(i, err, "padding %" PRId64 " is negative", a->pad.v[k]);
        y.dims[y.rank - 1 - k / 2] += a->pad.v[k];
    }
    ops_out(i, TENSOR_F32, y.rank, y.dims);
    return EBB_OK;
}

/* Channels are not padded. */
static bool pad_takes_block(const struct ops_infer *i, int block)
{
    const struct pad_attr *a = i->attr;
    int channel = 2 * (i->in[0]->rank - 2);
    (void)block;
    return a->pad.count <= channel || (a->pad.v[channel] == 0 && a->pad.v[channel + 1] == 0);
}

static enum ebb_status run_pad(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    struct kernel_nd nd;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    const struct pad_attr *a = c.attr;
    float *to = tensor_call_out(&c, 0);
    kernel_fill(ops_context(&c), tensor_count(&c.out[0]), to, a->value);
    for (int k = 0; k < a->pad.count; k += 2)
        to += a->pad.v[k] * c.out[0].strides[c.out[0].rank - 1 - k / 2];
    ops_nd_shape(&nd, &c.in[0], c.out[0].block);
    ops_nd_operand(&nd, 0, &c.out[0], c.out[0].block);
    ops_nd_operand(&nd, 1, &c.in[0], c.out[0].block);
    for (int d = 0; d < c.in[0].rank; d++)
        nd.stride[0][d] = c.out[0].strides[d];
    kernel_copy(ops_context(&c), &nd, sizeof(float), to, tensor_call_in(&c, 0));
    return EBB_OK;
}

static void grad_pad(struct ops_backward *b)
{
    const struct pad_attr *a = b->attr;
    const struct tensor_view *x = tensor_view_of(b->session, b->in[0]);
    struct ops_ranges r;
    memset(&r, 0, sizeof r);
    for (int k = 0; k < a->pad.count; k += 2) {
        int d = x->rank - 1 - k / 2;
        int64_t *v = r.v[r.count++];
        v[0] = d;
        v[1] = a->pad.v[k];
        v[2] = a->pad.v[k] + x->dims[d];
        v[3] = 1;
    }
    b->gin[0] = ops_emit(b->session, &rows[ROW_SLICE], &r, 1, b->gout);
}

/* From a file: negative padding cuts off. */
static void build_pad(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                      size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    struct pad_attr a = *(const struct pad_attr *)attr;
    const struct tensor_view x = *tensor_view_of(s, in[0]);
    tensor_id y = in[0];
    (void)in_count;
    *out_count = 1;
    for (int k = 0; k + 1 < a.pad.count && k / 2 < x.rank; k += 2) {
        int64_t *p = &a.pad.v[k], n = x.dims[x.rank - 1 - k / 2];
        int64_t begin = p[0] < 0 ? -p[0] : 0, end = p[1] < 0 ? n + p[1] : n;
        if (p[0] >= 0 && p[1] >= 0)
            continue;
        if (begin > end) {
            tensor_fail(s, EBB_EINPUT, "pad: %" PRId64 " and %" PRId64 " of %" PRId64 " elements",
                        p[0], p[1], n);
            return;
        }
        y = ops_slice_dim(s, y, x.rank - 1 - k / 2, begin, end, 1);
        p[0] = p[0] < 0 ? 0 : p[0];
        p[1] = p[1] < 0 ? 0 : p[1];
    }
    out[0] = ops_emit(s, def, &a, 1, &y);
}

struct full_attr {
    struct ops_ints shape;
    float value, zero;
};

static enum ebb_status infer_full(struct ops_infer *i, struct ebb_error *err)
{
    const struct full_attr *a = i->attr;
    (void)err;
    ops_out(i, TENSOR_F32, a->shape.count, a->shape.v);
    return EBB_OK;
}

static enum ebb_status run_full(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    const struct full_attr *a = c.attr;
    kernel_fill(ops_context(&c), tensor_count(&c.out[0]), tensor_call_out(&c, 0), a->value);
    return EBB_OK;
}

tensor_id ops_full(struct tensor_session *s, int rank, const int64_t *dims, float value)
{
    struct full_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.shape.count = rank;
    for (int d = 0; d < rank; d++)
        attr.shape.v[d] = dims[d];
    attr.value = value;
    return ops_emit(s, &rows[ROW_FULL], &attr, 0, NULL);
}

static void grad_none(struct ops_backward *b)
{
    (void)b;
}

/* One repeated dimension after the other: [.., 1, d, ..] -> [.., r, d, ..] -> [.., r d, ..]. */
static void build_tile(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                       size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    const struct shape_attr *a = attr;
    tensor_id x = in[0];
    struct tensor_view v = *tensor_view_of(s, x);
    (void)def, (void)in_count;
    int lead = a->ints.count - v.rank; /* leading repetitions make leading dimensions */
    for (int d = 0; d < lead; d++) {
        x = ops_emit(s, &rows[ROW_UNSQUEEZE], &(int64_t){0}, 1, &x);
        v = *tensor_view_of(s, x);
    }
    int shift = v.rank - a->ints.count;
    for (int k = a->ints.count - 1; k >= 0; k--) {
        int d = k + shift;
        int64_t reps = a->ints.v[k];
        if (reps == 1)
            continue;
        if (reps < 0 || v.rank == TENSOR_RANK) {
            tensor_fail(s, EBB_EINPUT, "tile: repetition %" PRId64 " of rank %d", reps, v.rank);
            return;
        }
        x = ops_emit(s, &rows[ROW_UNSQUEEZE], &(int64_t){d}, 1, &x);
        struct tensor_view wide = *tensor_view_of(s, x);
        wide.dims[d] = reps;
        x = ops_expand_to(s, x, &wide);
        v.dims[d] *= reps;
        x = ops_reshape(s, x, v.rank, v.dims);
    }
    out[0] = ops_contiguous(s, x);
    *out_count = 1;
}

static void build_shuffle(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                          size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    const int64_t *groups = attr;
    const struct tensor_view v = *tensor_view_of(s, in[0]);
    int64_t dims[TENSOR_RANK] = {0};
    (void)def, (void)in_count;
    if (v.rank < 2 || v.rank == TENSOR_RANK || *groups < 1 || v.dims[1] % *groups) {
        tensor_fail(s, EBB_EINPUT, "channel_shuffle: %" PRId64 " groups do not fit", *groups);
        return;
    }
    dims[0] = v.dims[0];
    dims[1] = *groups;
    dims[2] = v.dims[1] / *groups;
    for (int d = 2; d < v.rank; d++)
        dims[d + 1] = v.dims[d];
    tensor_id x = ops_transpose(s, ops_reshape(s, in[0], v.rank + 1, dims), 1, 2);
    out[0] = ops_reshape(s, x, v.rank, v.dims);
    *out_count = 1;
}

static enum ebb_status infer_detach(struct ops_infer *i, struct ebb_error *err)
{
    (void)err;
    same_view(i);
    return EBB_OK;
}

tensor_id ops_detach(struct tensor_session *s, tensor_id x)
{
    return ops_emit(s, &rows[ROW_DETACH], NULL, 1, &x);
}

static int kernel_type(uint8_t dtype)
{
    return dtype == TENSOR_F32    ? (int)KERNEL_F32
           : dtype == TENSOR_BF16 ? (int)KERNEL_BF16
           : dtype == TENSOR_F16  ? (int)KERNEL_F16
                                  : -1;
}

static enum ebb_status infer_cast(struct ops_infer *i, struct ebb_error *err)
{
    const int64_t *to = i->attr;
    if (*to < 0 || *to >= TENSOR_DTYPE_COUNT || kernel_type((uint8_t)*to) < 0 ||
        kernel_type(i->in[0]->dtype) < 0)
        return ops_wrong(i, err, "casts are between F32, BF16 and F16");
    ops_out(i, (enum tensor_dtype) * to, i->in[0]->rank, i->in[0]->dims);
    return EBB_OK;
}

static enum ebb_status run_cast(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    kernel_convert(ops_context(&c), tensor_count(&c.in[0]),
                   (enum kernel_dtype)kernel_type(c.in[0].dtype), tensor_call_in(&c, 0),
                   (enum kernel_dtype)kernel_type(c.out[0].dtype), tensor_call_out(&c, 0));
    return EBB_OK;
}

tensor_id ops_cast(struct tensor_session *s, tensor_id x, enum tensor_dtype dtype)
{
    int64_t attr = (int64_t)dtype;
    if (tensor_view_of(s, x)->dtype == dtype)
        return x;
    return ops_emit(s, &rows[ROW_CAST], &attr, 1, &x);
}

static void grad_cast(struct ops_backward *b)
{
    b->gin[0] = ops_cast(b->session, b->gout[0], tensor_view_of(b->session, b->in[0])->dtype);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static const struct ops_field shape_fields[] = {{"shape", OPS_INTS, 0, NULL, true}, {0}};
static const struct ops_field dims_fields[] = {{"dims", OPS_INTS, 0, NULL, true}, {0}};
static const struct ops_field reps_fields[] = {{"reps", OPS_INTS, 0, NULL, true}, {0}};
static const struct ops_field dim_fields[] = {{"dim", OPS_INT, 0, NULL, true}, {0}};
static const struct ops_field group_fields[] = {{"groups", OPS_INT, 0, NULL, true}, {0}};
static const struct ops_field range_fields[] = {{"ranges", OPS_RANGES, 0, NULL, true}, {0}};
static const struct ops_field split_fields[] = {
    {"sizes", OPS_LIST, offsetof(struct split_attr, sizes), NULL, true},
    {"dim", OPS_INT, offsetof(struct split_attr, dim), NULL, true},
    {0}};
static const struct ops_field pad_fields[] = {
    {"pad", OPS_LIST, offsetof(struct pad_attr, pad), NULL, true},
    {"value", OPS_FLOAT, offsetof(struct pad_attr, value), NULL, false},
    {0}};
static const struct ops_field full_fields[] = {
    {"shape", OPS_INTS, offsetof(struct full_attr, shape), NULL, true},
    {"value", OPS_FLOAT, offsetof(struct full_attr, value), NULL, true},
    {0}};

#define VIEW(id, text, infer_, grad_, bytes, fields_)                                              \
    [id] = {.name = text,                                                                          \
            .min_in = 1,                                                                           \
            .max_in = 1,                                                                           \
            .is_view = true,                                                                       \
            .infer = infer_,                                                                       \
            .grad = grad_,                                                                         \
            .attr_bytes = bytes,                                                                   \
            .fields = fields_,                                                                     \
            .strided = 1}
#define INTS sizeof(struct shape_attr)

static const struct ops_def rows[ROW_COUNT] = {
    [ROW_COPY] = {OPS_PRIMITIVE("copy", 1, 1, infer_copy, run_copy, grad_copy), .strided = 1,
                  .attr_bytes = sizeof(int64_t), .is_layout_own = true},
    [ROW_RELABEL] = {.name = "relabel",
                     .min_in = 1,
                     .max_in = 1,
                     .is_view = true,
                     .is_internal = true,
                     .infer = infer_relabel,
                     .grad = grad_copy,
                     .attr_bytes = sizeof(int64_t),
                     .is_layout_own = true},
    [ROW_RESHAPE] = {.name = "reshape",
                     .min_in = 1,
                     .max_in = 1,
                     .is_view = true,
                     .infer = infer_reshape,
                     .grad = grad_reshape,
                     .attr_bytes = INTS,
                     .fields = shape_fields},
    VIEW(ROW_PERMUTE, "permute", infer_permute, grad_permute, INTS, dims_fields),
    VIEW(ROW_TRANSPOSE, "transpose", infer_transpose, grad_transpose, INTS, dims_fields),
    VIEW(ROW_EXPAND, "expand", infer_expand, grad_expand, INTS, shape_fields),
    VIEW(ROW_SQUEEZE, "squeeze", infer_squeeze, grad_reshape, sizeof(int64_t), dim_fields),
    VIEW(ROW_UNSQUEEZE, "unsqueeze", infer_unsqueeze, grad_reshape, sizeof(int64_t), dim_fields),
    [ROW_SLICE] = {.name = "slice",
                   .min_in = 1,
                   .max_in = 1,
                   .is_view = true,
                   .infer = infer_slice,
                   .grad = grad_slice,
                   .attr_bytes = sizeof(struct ops_ranges),
                   .fields = range_fields,
                   .strided = 1,
                   .blocked = 1,
                   .takes_block = slice_takes_block},
    [ROW_UNSLICE] = {OPS_PRIMITIVE("unslice", 1, 1, infer_unslice, run_unslice, grad_unslice),
                     .attr_bytes = sizeof(struct unslice_attr), .strided = 1, .is_internal = true,
                     .blocked = 1, .blocked_out = 1, .takes_block = unslice_takes_block},
    [ROW_SPLIT] = {.name = "split",
                   .min_in = 1,
                   .max_in = 1,
                   .is_view = true,
                   .infer = infer_split,
                   .grad = grad_split,
                   .attr_bytes = sizeof(struct split_attr),
                   .fields = split_fields,
                   .strided = 1,
                   .blocked = 1,
                   .takes_block = split_takes_block},
    [ROW_CAT] = {OPS_PRIMITIVE("cat", 1, TENSOR_PORTS, infer_cat, run_cat, grad_cat),
                 .attr_bytes = sizeof(int64_t), .fields = dim_fields, .strided = ~UINT64_C(0),
                 .blocked = ~UINT64_C(0), .blocked_out = 1, .takes_block = cat_takes_block},
    [ROW_STACK] = {.name = "stack",
                   .min_in = 1,
                   .max_in = TENSOR_PORTS,
                   .build = build_stack,
                   .attr_bytes = sizeof(int64_t),
                   .fields = dim_fields},
    [ROW_PAD] = {OPS_PRIMITIVE("pad", 1, 1, infer_pad, run_pad, grad_pad), .build = build_pad,
                 .attr_bytes = sizeof(struct pad_attr), .fields = pad_fields, .strided = 1,
                 .blocked = 1, .blocked_out = 1, .takes_block = pad_takes_block,
                 .low_rule = OPS_LOW_WHOLE, .low_out = 1},
    [ROW_FULL] = {OPS_PRIMITIVE("full", 0, 0, infer_full, run_full, grad_none),
                  .attr_bytes = sizeof(struct full_attr), .fields = full_fields},
    [ROW_TILE] = {.name = "tile",
                  .min_in = 1,
                  .max_in = 1,
                  .build = build_tile,
                  .attr_bytes = INTS,
                  .fields = reps_fields},
    [ROW_SHUFFLE] = {.name = "channel_shuffle",
                     .min_in = 1,
                     .max_in = 1,
                     .build = build_shuffle,
                     .attr_bytes = sizeof(int64_t),
                     .fields = group_fields},
    [ROW_DETACH] = {.name = "detach",
                    .min_in = 1,
                    .max_in = 1,
                    .is_view = true,
                    .infer = infer_detach,
                    .grad = grad_none,
                    .strided = 1,
                    .blocked = 1},
    [ROW_CAST] = {OPS_PRIMITIVE("cast", 1, 1, infer_cast, run_cast, grad_cast),
                  .attr_bytes = sizeof(int64_t), .is_internal = true, .blocked = 1,
                  .blocked_out = 1},
};

const struct ops_family ops_shape_family = {rows, ROW_COUNT};
