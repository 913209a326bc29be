/* view.c - views: no ops of the trace, but their gradient rules are. */
#include <inttypes.h>

#include "ops/internal.h"

enum {
    ROW_RELABEL,
    ROW_RESHAPE,
    ROW_PERMUTE,
    ROW_TRANSPOSE,
    ROW_EXPAND,
    ROW_SQUEEZE,
    ROW_UNSQUEEZE,
    ROW_SLICE,
    ROW_SPLIT,
    ROW_DETACH,
    ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];

struct shape_attr {
    struct ops_ints ints;
};

/* ---- the same bytes in another layout ------------------------------------------------------- */

static enum ebb_status infer_relabel(struct ops_infer *i, struct ebb_error *err)
{
    const int64_t *block = i->attr;
    (void)err;
    i->out[0] = *i->in[0];
    i->out_count = 1;
    tensor_view_block(&i->out[0], (int)*block);
    return EBB_OK;
}

static void grad_relabel(struct ops_backward *b)
{
    b->gin[0] = b->gout[0];
}

tensor_id ops_relabel(struct tensor_session *s, tensor_id x, int block)
{
    int64_t attr = block;
    return ops_emit(s, &rows[ROW_RELABEL], &attr, 1, &x);
}

/* ---- shapes --------------------------------------------------------------------------------- */

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

static tensor_id permute(struct tensor_session *s, tensor_id x, const int64_t *dims)
{
    struct shape_attr attr = {.ints = {.count = tensor_view_of(s, x)->rank}};
    memcpy(attr.ints.v, dims, (size_t)attr.ints.count * sizeof *dims);
    return ops_emit(s, &rows[ROW_PERMUTE], &attr, 1, &x);
}

static void grad_permute(struct ops_backward *b)
{
    const struct shape_attr *a = b->attr;
    int64_t back[TENSOR_RANK];
    for (int d = 0; d < a->ints.count; d++)
        back[a->ints.v[d] < 0 ? a->ints.v[d] + a->ints.count : a->ints.v[d]] = d;
    b->gin[0] = permute(b->session, b->gout[0], back);
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
    struct shape_attr attr = {.ints = {.v = {p, q}, .count = 2}};
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
    struct shape_attr attr = {.ints = {.count = like->rank}};
    if (tensor_same_shape(tensor_view_of(s, x), like))
        return x;
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

tensor_id ops_unsqueeze(struct tensor_session *s, tensor_id x, int64_t dim)
{
    return ops_emit(s, &rows[ROW_UNSQUEEZE], &dim, 1, &x);
}

/* ---- slices --------------------------------------------------------------------------------- */

enum ebb_status ops_make_cut(const struct ops_infer *i, const struct ops_ranges *r,
                             const struct tensor_view *x, struct ops_cut *cut,
                             struct ebb_error *err)
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
        step = step > n && n > 0 ? n : step; /* beyond the end all steps are the same */
        cut->begin[d] += begin * cut->step[d];
        cut->count[d] = (end - begin + step - 1) / step;
        cut->step[d] *= step;
    }
    return EBB_OK;
}

bool ops_is_in_blocks(const struct ops_cut *cut, int block)
{
    return cut->begin[1] % block == 0 && cut->count[1] % block == 0 && cut->count[1] > 0 &&
           cut->step[1] == 1;
}

static bool slice_takes_block(const struct ops_infer *i, int block)
{
    struct ops_cut cut;
    struct ebb_error err;
    return ops_make_cut(i, i->attr, i->in[0], &cut, &err) == EBB_OK &&
           ops_is_in_blocks(&cut, block);
}

static enum ebb_status infer_slice(struct ops_infer *i, struct ebb_error *err)
{
    struct ops_cut cut;
    struct tensor_view *y = same_view(i);
    EBB_TRY(ops_make_cut(i, i->attr, i->in[0], &cut, err));
    if (y->block)
        cut.begin[1] /= y->block; /* strides count blocks */
    for (int d = 0; d < y->rank; d++) {
        y->offset += cut.count[d] ? cut.begin[d] * y->strides[d] : 0;
        y->dims[d] = cut.count[d];
        y->strides[d] *= cut.step[d];
    }
    return EBB_OK;
}

tensor_id ops_slice(struct tensor_session *s, tensor_id x, const struct ops_ranges *ranges)
{
    return ops_emit(s, &rows[ROW_SLICE], ranges, 1, &x);
}

tensor_id ops_slice_dim(struct tensor_session *s, tensor_id x, int dim, int64_t begin, int64_t end,
                        int64_t step)
{
    struct ops_ranges r = {.v = {{dim, begin, end, step}}, .count = 1};
    return ops_slice(s, x, &r);
}

static void grad_slice(struct ops_backward *b)
{
    b->gin[0] = ops_unslice(b->session, b->gout[0], b->attr, tensor_view_of(b->session, b->in[0]));
}

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
    if (i->out_count == 0) { /* of nothing: one piece of nothing */
        i->out[i->out_count++] = *x;
        if (!a->sizes.is_scalar || a->sizes.v[0] < 1)
            return ops_wrong(i, err, "no sizes");
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
    b->gin[0] = ops_cat(s, parts, b->out_count, ops_wrap(a->dim, rank));
}

/* ---- detach --------------------------------------------------------------------------------- */

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

/* ---- rows ----------------------------------------------------------------------------------- */

static const struct ops_field shape_fields[] = {{"shape", OPS_INTS, 0, NULL, true}, {0}};
static const struct ops_field dims_fields[] = {{"dims", OPS_INTS, 0, NULL, true}, {0}};
static const struct ops_field dim_fields[] = {{"dim", OPS_INT, 0, NULL, true}, {0}};
static const struct ops_field range_fields[] = {{"ranges", OPS_RANGES, 0, NULL, true}, {0}};
static const struct ops_field split_fields[] = {
    OPS_REQUIRED(split_attr, sizes, OPS_LIST), OPS_REQUIRED(split_attr, dim, OPS_INT), {0}};

#define VIEW(id, text, infer_, grad_, type, fields_)                                               \
    [id] = {OPS_VIEW(text, 1, infer_, grad_), OPS_ATTR(type, fields_, NULL), .strided = 1}
#define INTS struct shape_attr

static const struct ops_def rows[ROW_COUNT] = {
    [ROW_RELABEL] = {OPS_VIEW("relabel", 1, infer_relabel, grad_relabel), .is_internal = true,
                     .attr_bytes = sizeof(int64_t), .is_layout_own = true},
    [ROW_RESHAPE] = {OPS_VIEW("reshape", 1, infer_reshape, grad_reshape),
                     OPS_ATTR(INTS, shape_fields, NULL)},
    VIEW(ROW_PERMUTE, "permute", infer_permute, grad_permute, INTS, dims_fields),
    VIEW(ROW_TRANSPOSE, "transpose", infer_transpose, grad_transpose, INTS, dims_fields),
    VIEW(ROW_EXPAND, "expand", infer_expand, grad_expand, INTS, shape_fields),
    VIEW(ROW_SQUEEZE, "squeeze", infer_squeeze, grad_reshape, int64_t, dim_fields),
    VIEW(ROW_UNSQUEEZE, "unsqueeze", infer_unsqueeze, grad_reshape, int64_t, dim_fields),
    [ROW_SLICE] = {OPS_VIEW("slice", 1, infer_slice, grad_slice),
                   OPS_ATTR(struct ops_ranges, range_fields, NULL), .strided = 1, .blocked = 1,
                   .takes_block = slice_takes_block},
    [ROW_SPLIT] = {OPS_VIEW("split", 1, infer_split, grad_split),
                   OPS_ATTR(struct split_attr, split_fields, NULL), .strided = 1, .blocked = 1,
                   .takes_block = split_takes_block},
    [ROW_DETACH] = {OPS_VIEW("detach", 1, infer_detach, ops_grad_none), .strided = 1, .blocked = 1},
};

const struct ops_family ops_view_family = {rows, ROW_COUNT};
