/* copy.c - new bytes from old ones: copies, slices put back, joining, padding, filling, casts. */
#include <inttypes.h>

#include "ops/internal.h"

enum {
    ROW_COPY,
    ROW_UNSLICE,
    ROW_CAT,
    ROW_PAD,
    ROW_STACK,
    ROW_FULL,
    ROW_TILE,
    ROW_SHUFFLE,
    ROW_CAST,
    ROW_UNIT,
    ROW_CAT_LAST,
    ROW_SLICE_LAST,
    ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];

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

static void describe_copy(const struct ops_views *v, void *desc)
{
    ops_nd_pair(desc, v->out, v->out, v->in[0], v->out->block ? v->out->block : v->in[0]->block);
}

/* Of rows that copy in several calls: as much at once. */
static void describe_whole(const struct ops_views *v, void *desc)
{
    ops_nd_pair(desc, v->out, v->out, v->out, v->out->block);
}

/* Copies input k to where element `begin` of the result lies, elements `step` apart (NULL: 1). */
static enum ebb_status put(const struct tensor_call *c, uint32_t k, const int64_t *begin,
                           const int64_t *step, struct ebb_error *err)
{
    const struct tensor_view *x = &c->in[k], *y = c->out;
    unsigned char *to = tensor_call_out(c, 0);
    struct kernel_nd nd = {.rank = 0};
    ops_nd_pair(&nd, x, y, x, y->block);
    for (int d = 0; d < x->rank; d++) {
        int64_t at = d == 1 && y->block ? begin[d] / y->block : begin[d];
        nd.stride[0][d] = y->strides[d] * (step ? step[d] : 1);
        to += (size_t)(at * y->strides[d]) * tensor_dtype_bytes(y->dtype);
    }
    return ops_move(c->call, KERNEL_FAMILY_COPY, &nd, y->dtype, tensor_call_in(c, k), y->dtype, to,
                    err);
}

static enum ebb_status fill(const struct tensor_call *c, float value, struct ebb_error *err)
{
    struct kernel_fill_desc d = {.n = tensor_count(c->out), .value = value};
    return ops_move(c->call, KERNEL_FAMILY_FILL, &d, c->out->dtype, NULL, c->out->dtype,
                    tensor_call_out(c, 0), err);
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
    tensor_id y = is_same ? ops_relabel(s, x, block) : ops_emit(s, &rows[ROW_COPY], &attr, 1, &x);
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

tensor_id ops_settle(struct tensor_session *s, tensor_id x)
{
    const struct tensor_view *v = tensor_view_of(s, x);
    int64_t plain = 0;
    if (x.v && v->offset && !v->block && tensor_is_dense(v))
        return ops_emit(s, &rows[ROW_COPY], &plain, 1, &x);
    return ops_contiguous(s, x);
}

/* ---- a slice among zeros -------------------------------------------------------------------- */

struct unslice_attr {
    struct ops_ranges ranges;
    struct ops_ints shape;
};

static enum ebb_status infer_unslice(struct ops_infer *i, struct ebb_error *err)
{
    const struct unslice_attr *a = i->attr;
    struct tensor_view full;
    struct ops_cut cut;
    tensor_view_init(&full, i->in[0]->dtype, a->shape.count, a->shape.v);
    EBB_TRY(ops_make_cut(i, &a->ranges, &full, &cut, err));
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
    struct ops_cut cut;
    struct ebb_error err;
    tensor_view_init(&full, i->in[0]->dtype, a->shape.count, a->shape.v);
    return full.rank == i->in[0]->rank && full.dims[1] % block == 0 &&
           ops_make_cut(i, &a->ranges, &full, &cut, &err) == EBB_OK &&
           ops_is_in_blocks(&cut, block);
}

static enum ebb_status run_unslice(const struct tensor_call *c, struct ebb_error *err)
{
    struct ops_cut cut;
    struct ops_infer i = {.def = &rows[ROW_UNSLICE]};
    const struct unslice_attr *a = c->attr;
    EBB_TRY(ops_make_cut(&i, &a->ranges, c->out, &cut, err));
    EBB_TRY(fill(c, 0.0f, err));
    return tensor_count(c->in) ? put(c, 0, cut.begin, cut.step, err) : EBB_OK;
}

static void grad_unslice(struct ops_backward *b)
{
    const struct unslice_attr *a = b->attr;
    b->gin[0] = ops_slice(b->session, b->gout[0], &a->ranges);
}

tensor_id ops_unslice(struct tensor_session *s, tensor_id g, const struct ops_ranges *ranges,
                      const struct tensor_view *like)
{
    struct unslice_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.ranges = *ranges;
    attr.shape.count = like->rank;
    memcpy(attr.shape.v, like->dims, sizeof like->dims);
    return ops_emit(s, &rows[ROW_UNSLICE], &attr, 1, &g);
}

/* ---- cat ------------------------------------------------------------------------------------ */

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

static enum ebb_status run_cat(const struct tensor_call *c, struct ebb_error *err)
{
    const int64_t *attr = c->attr;
    int64_t begin[TENSOR_RANK] = {0}, *at = &begin[ops_wrap(*attr, c->out->rank)];
    for (uint32_t k = 0; k < c->input_count; k++) {
        EBB_TRY(put(c, k, begin, NULL, err));
        *at += c->in[k].dims[at - begin];
    }
    return EBB_OK;
}

/* ---- along channels that come last ------------------------------------------------------------
 *
 * A tensor with its channels in one block is rows of channels: joining and cutting them is copying
 * parts of rows, and nothing is brought into the plain layout and back. */

static bool is_last(const struct tensor_view *v)
{
    return v->rank >= 3 && v->block > 1 && v->block == v->dims[1] && tensor_is_dense(v);
}

/* Rows of the narrower one of two. */
static void describe_rows(const struct tensor_view *narrow, int64_t to, int64_t from,
                          struct kernel_nd *nd)
{
    nd->rank = 2;
    nd->dims[0] = tensor_count(narrow) / narrow->dims[1];
    nd->dims[1] = narrow->dims[1];
    nd->stride[0][0] = to;
    nd->stride[1][0] = from;
    nd->stride[0][1] = nd->stride[1][1] = 1;
}

static enum ebb_status infer_cat_last(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(infer_cat(i, err));
    for (size_t k = 0; k < i->in_count; k++)
        if (!is_last(i->in[k]))
            return ops_wrong(i, err, "channels must come last");
    tensor_view_block(&i->out[0], (int)i->out[0].dims[1]);
    return EBB_OK;
}

static enum ebb_status run_cat_last(const struct tensor_call *c, struct ebb_error *err)
{
    const struct tensor_view *y = c->out;
    unsigned char *to = tensor_call_out(c, 0);
    for (uint32_t k = 0; k < c->input_count; k++) {
        struct kernel_nd nd = {.rank = 0};
        describe_rows(&c->in[k], y->dims[1], c->in[k].dims[1], &nd);
        EBB_TRY(ops_move(c->call, KERNEL_FAMILY_COPY, &nd, y->dtype, tensor_call_in(c, k), y->dtype,
                         to, err));
        to += (size_t)c->in[k].dims[1] * tensor_dtype_bytes(y->dtype);
    }
    return EBB_OK;
}

struct part { /* channels */
    int64_t begin, count;
};

static enum ebb_status infer_slice_last(struct ops_infer *i, struct ebb_error *err)
{
    const struct part *a = i->attr;
    struct tensor_view y = *i->in[0];
    if (!is_last(&y) || a->begin < 0 || a->count < 1 || a->count > y.dims[1] - a->begin)
        return ops_wrong(i, err, "a part of channels that come last is needed");
    y.dims[1] = a->count;
    ops_out(i, y.dtype, y.rank, y.dims);
    tensor_view_block(&i->out[0], (int)a->count);
    i->bytes = 2.0 * (double)tensor_count(&y) * (double)tensor_dtype_bytes(y.dtype);
    return EBB_OK;
}

static void describe_slice_last(const struct ops_views *v, void *desc)
{
    describe_rows(v->out, v->out->dims[1], v->in[0]->dims[1], desc);
}

static enum ebb_status run_slice_last(const struct tensor_call *c, struct ebb_error *err)
{
    const struct part *a = c->attr;
    const unsigned char *from = tensor_call_in(c, 0);
    struct kernel_nd nd = {.rank = 0};
    describe_rows(c->out, c->out->dims[1], c->in[0].dims[1], &nd);
    from += (size_t)a->begin * tensor_dtype_bytes(c->out->dtype);
    return ops_move(c->call, KERNEL_FAMILY_COPY, &nd, c->out->dtype, from, c->out->dtype,
                    tensor_call_out(c, 0), err);
}

static void grad_slice_last(struct ops_backward *b)
{
    const struct part *a = b->attr;
    struct ops_ranges r = {.v = {{1, a->begin, a->begin + a->count, 1}}, .count = 1};
    b->gin[0] = ops_unslice(b->session, b->gout[0], &r, tensor_view_of(b->session, b->in[0]));
}

static tensor_id channels_of(struct tensor_session *s, tensor_id x, int64_t begin, int64_t count)
{
    struct part attr = {begin, count};
    return is_last(tensor_view_of(s, x)) ? ops_emit(s, &rows[ROW_SLICE_LAST], &attr, 1, &x)
                                         : ops_slice_dim(s, x, 1, begin, begin + count, 1);
}

static bool can_join_last(const struct tensor_session *s, const tensor_id *in, size_t count,
                          int dim)
{
    int64_t total = 0;
    if (!ops_table(s)->is_last || dim != 1)
        return false;
    for (size_t k = 0; k < count; k++) {
        if (!in[k].v || !is_last(tensor_view_of(s, in[k])))
            return false;
        total += tensor_view_of(s, in[k])->dims[1];
    }
    return total <= UINT16_MAX;
}

tensor_id ops_cat(struct tensor_session *s, const tensor_id *in, size_t count, int dim)
{
    int64_t attr = dim;
    bool is_joined = tensor_status(s, NULL) == EBB_OK && can_join_last(s, in, count, dim);
    return ops_emit(s, &rows[is_joined ? ROW_CAT_LAST : ROW_CAT], &attr, count, in);
}

static tensor_id build_cat(struct ops_build *b)
{
    const int64_t *dim = b->attr;
    int rank = b->in_count ? tensor_view_of(b->s, b->in[0])->rank : 0;
    return ops_cat(b->s, b->in, b->in_count, *dim < -rank ? (int)*dim : ops_wrap(*dim, rank));
}

bool ops_cat_parts(const struct tensor_session *s, tensor_id x, tensor_id *parts, size_t count)
{
    struct tensor_node n = tensor_node_at(s, tensor_producer(s, x));
    bool is_cat = n.def == &rows[ROW_CAT] || n.def == &rows[ROW_CAT_LAST];
    if (!is_cat || n.input_count != count || *(const int64_t *)n.attr != 1)
        return false;
    memcpy(parts, n.inputs, count * sizeof *parts);
    return true;
}

static void grad_cat(struct ops_backward *b)
{
    const int64_t *attr = b->attr;
    int64_t at = 0;
    int rank = tensor_view_of(b->session, b->in[0])->rank;
    int dim = ops_wrap(*attr, rank);
    tensor_id parts[TENSOR_PORTS];
    bool is_joined = dim == 1 && ops_cat_parts(b->session, b->gout[0], parts, b->in_count);
    for (size_t k = 0; k < b->in_count; k++) {
        int64_t n = tensor_view_of(b->session, b->in[k])->dims[dim];
        bool is_part = is_joined && tensor_view_of(b->session, parts[k])->dims[1] == n;
        if (b->needs[k] && is_part)
            b->gin[k] = parts[k];
        else if (b->needs[k] && b->def == &rows[ROW_CAT_LAST])
            b->gin[k] = channels_of(b->session, b->gout[0], at, n);
        else if (b->needs[k])
            b->gin[k] = ops_slice_dim(b->session, b->gout[0], dim, at, at + n, 1);
        at += n;
    }
}

static tensor_id build_stack(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const int64_t *dim = b->attr;
    tensor_id parts[TENSOR_PORTS];
    for (size_t k = 0; k < b->in_count; k++)
        parts[k] = ops_unsqueeze(s, b->in[k], *dim);
    return ops_cat(s, parts, b->in_count, (int)*dim);
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

static enum ebb_status run_pad(const struct tensor_call *c, struct ebb_error *err)
{
    const struct pad_attr *a = c->attr;
    int64_t begin[TENSOR_RANK] = {0};
    for (int k = 0; k < a->pad.count; k += 2)
        begin[c->out->rank - 1 - k / 2] = a->pad.v[k];
    EBB_TRY(fill(c, a->value, err));
    return put(c, 0, begin, NULL, err);
}

static void grad_pad(struct ops_backward *b)
{
    const struct pad_attr *a = b->attr;
    const struct tensor_view *x = tensor_view_of(b->session, b->in[0]);
    struct ops_ranges r;
    memset(&r, 0, sizeof r);
    for (int k = 0; k < a->pad.count; k += 2) {
        int d = x->rank - 1 - k / 2;
        int64_t range[4] = {d, a->pad.v[k], a->pad.v[k] + x->dims[d], 1};
        memcpy(r.v[r.count++], range, sizeof range);
    }
    b->gin[0] = ops_slice(b->session, b->gout[0], &r);
}

/* From a file: negative padding cuts off. */
static tensor_id build_pad(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    struct pad_attr a = *(const struct pad_attr *)b->attr;
    const struct tensor_view x = *tensor_view_of(s, b->in[0]);
    tensor_id y = b->in[0];
    for (int k = 0; k + 1 < a.pad.count && k / 2 < x.rank; k += 2) {
        int64_t *p = &a.pad.v[k], n = x.dims[x.rank - 1 - k / 2];
        int64_t begin = p[0] < 0 ? -p[0] : 0, end = p[1] < 0 ? n + p[1] : n;
        if (p[0] >= 0 && p[1] >= 0)
            continue;
        if (begin > end)
            return tensor_fail(s, EBB_EINPUT,
                               "pad: %" PRId64 " and %" PRId64 " of %" PRId64 " elements", p[0],
                               p[1], n);
        y = ops_slice_dim(s, y, x.rank - 1 - k / 2, begin, end, 1);
        p[0] = p[0] < 0 ? 0 : p[0];
        p[1] = p[1] < 0 ? 0 : p[1];
    }
    return ops_emit(s, b->def, &a, 1, &y);
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

static void describe_full(const struct ops_views *v, void *desc)
{
    struct kernel_fill_desc *d = desc;
    const struct full_attr *a = v->attr;
    d->n = tensor_count(v->out);
    d->value = a->value;
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

bool ops_is_ones(const struct tensor_session *s, tensor_id x)
{
    struct tensor_node n = ops_maker(s, x);
    return n.def == &rows[ROW_FULL] && ((const struct full_attr *)n.attr)->value == 1.0f;
}

/* One repeated dimension after the other: [.., 1, d, ..] -> [.., r, d, ..] -> [.., r d, ..]. */
static tensor_id build_tile(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct ops_ints *a = b->attr;
    tensor_id x = b->in[0];
    struct tensor_view v = *tensor_view_of(s, x);
    int lead = a->count - v.rank; /* leading repetitions make leading dimensions */
    for (int d = 0; d < lead; d++) {
        x = ops_unsqueeze(s, x, 0);
        v = *tensor_view_of(s, x);
    }
    int shift = v.rank - a->count;
    for (int k = a->count - 1; k >= 0; k--) {
        int d = k + shift;
        int64_t reps = a->v[k];
        if (reps == 1)
            continue;
        if (reps < 0 || v.rank == TENSOR_RANK)
            return tensor_fail(s, EBB_EINPUT, "tile: repetition %" PRId64 " of rank %d", reps,
                               v.rank);
        x = ops_unsqueeze(s, x, d);
        struct tensor_view wide = *tensor_view_of(s, x);
        wide.dims[d] = reps;
        x = ops_expand_to(s, x, &wide);
        v.dims[d] *= reps;
        x = ops_reshape(s, x, v.rank, v.dims);
    }
    return ops_contiguous(s, x);
}

static tensor_id build_shuffle(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const int64_t *groups = b->attr;
    const struct tensor_view v = *tensor_view_of(s, b->in[0]);
    int64_t dims[TENSOR_RANK] = {0};
    if (v.rank < 2 || v.rank == TENSOR_RANK || *groups < 1 || v.dims[1] % *groups)
        return tensor_fail(s, EBB_EINPUT, "channel_shuffle: %" PRId64 " groups do not fit",
                           *groups);
    dims[0] = v.dims[0];
    dims[1] = *groups;
    dims[2] = v.dims[1] / *groups;
    for (int d = 2; d < v.rank; d++)
        dims[d + 1] = v.dims[d];
    tensor_id x = ops_transpose(s, ops_reshape(s, b->in[0], v.rank + 1, dims), 1, 2);
    return ops_reshape(s, x, v.rank, v.dims);
}

static enum ebb_status infer_cast(struct ops_infer *i, struct ebb_error *err)
{
    const int64_t *to = i->attr;
    if (!ops_is_number(*to) || !ops_is_number(i->in[0]->dtype))
        return ops_wrong(i, err, "casts are between F32, BF16 and F16");
    ops_out(i, (enum tensor_dtype) * to, i->in[0]->rank, i->in[0]->dims);
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

/* Pictures as bytes: a quarter of what is sent, and of what is kept. */
static enum ebb_status infer_unit(struct ops_infer *i, struct ebb_error *err)
{
    if (i->in[0]->dtype != TENSOR_U8)
        return ops_wrong(i, err, "bytes (U8) are needed");
    ops_out(i, TENSOR_F32, i->in[0]->rank, i->in[0]->dims);
    return EBB_OK;
}

tensor_id ops_unit(struct tensor_session *s, tensor_id x)
{
    return ops_emit(s, &rows[ROW_UNIT], NULL, 1, &x);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static const struct ops_field reps_fields[] = {{"reps", OPS_INTS, 0, NULL, true}, {0}};
static const struct ops_field dim_fields[] = {{"dim", OPS_INT, 0, NULL, true}, {0}};
static const struct ops_field group_fields[] = {{"groups", OPS_INT, 0, NULL, true}, {0}};
static const struct ops_field pad_fields[] = {
    OPS_REQUIRED(pad_attr, pad, OPS_LIST), OPS_FIELD(pad_attr, value, OPS_FLOAT), {0}};
static const struct ops_field full_fields[] = {
    OPS_REQUIRED(full_attr, shape, OPS_INTS), OPS_REQUIRED(full_attr, value, OPS_FLOAT), {0}};

static const struct ops_def rows[ROW_COUNT] = {
    [ROW_COPY] = {OPS_PRIMITIVE("copy", 1, 1, infer_copy, COPY, describe_copy, grad_copy),
                  .strided = 1, .attr_bytes = sizeof(int64_t), .is_layout_own = true},
    [ROW_UNSLICE] = {OPS_PRIMITIVE("unslice", 1, 1, infer_unslice, COPY, describe_whole,
                                   grad_unslice),
                     .run = run_unslice, .attr_bytes = sizeof(struct unslice_attr), .strided = 1,
                     .is_internal = true, .blocked = 1, .blocked_out = 1,
                     .takes_block = unslice_takes_block},
    [ROW_CAT] = {OPS_PRIMITIVE("cat", 1, TENSOR_PORTS, infer_cat, COPY, describe_whole, grad_cat),
                 .run = run_cat, .attr_bytes = sizeof(int64_t), .fields = dim_fields,
                 .strided = ~UINT64_C(0), .blocked = ~UINT64_C(0), .blocked_out = 1,
                 .takes_block = cat_takes_block, .build = build_cat},
    [ROW_CAT_LAST] = {OPS_PRIMITIVE("cat_last", 1, TENSOR_PORTS, infer_cat_last, COPY,
                                    describe_whole, grad_cat),
                      .run = run_cat_last, .attr_bytes = sizeof(int64_t), .is_layout_own = true,
                      .is_internal = true},
    [ROW_SLICE_LAST] = {OPS_PRIMITIVE("slice_last", 1, 1, infer_slice_last, COPY,
                                      describe_slice_last, grad_slice_last),
                        .run = run_slice_last, .attr_bytes = sizeof(struct part),
                        .is_layout_own = true, .is_internal = true},
    [ROW_STACK] = {OPS_COMPOSITE("stack", 1, TENSOR_PORTS, build_stack),
                   OPS_ATTR(int64_t, dim_fields, NULL)},
    [ROW_PAD] = {OPS_PRIMITIVE("pad", 1, 1, infer_pad, COPY, describe_whole, grad_pad),
                 .run = run_pad, .build = build_pad, .attr_bytes = sizeof(struct pad_attr),
                 .fields = pad_fields, .strided = 1, .blocked = 1, .blocked_out = 1,
                 .takes_block = pad_takes_block, .low_rule = OPS_LOW_WHOLE, .low_out = 1},
    [ROW_FULL] = {OPS_PRIMITIVE("full", 0, 0, infer_full, FILL, describe_full, ops_grad_none),
                  .attr_bytes = sizeof(struct full_attr), .fields = full_fields},
    [ROW_TILE] = {OPS_COMPOSITE("tile", 1, 1, build_tile),
                  OPS_ATTR(struct ops_ints, reps_fields, NULL)},
    [ROW_SHUFFLE] = {OPS_COMPOSITE("channel_shuffle", 1, 1, build_shuffle),
                     OPS_ATTR(int64_t, group_fields, NULL)},
    [ROW_CAST] = {OPS_PRIMITIVE("cast", 1, 1, infer_cast, CONVERT, ops_describe_count, grad_cast),
                  .attr_bytes = sizeof(int64_t), .is_internal = true, .blocked = 1,
                  .blocked_out = 1},
    [ROW_UNIT] = {OPS_PRIMITIVE("unit", 1, 1, infer_unit, CONVERT, ops_describe_count,
                                ops_grad_none),
                  .is_internal = true},
};

const struct ops_family ops_copy_family = {rows, ROW_COUNT};
