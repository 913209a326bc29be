/* index.c - picking by index: embedding, index_select, gather, and their transposes. */
#include <inttypes.h>

#include "ops/internal.h"

enum { ROW_SELECT, ROW_ADD, ROW_GATHER, ROW_SCATTER, ROW_EMBEDDING, ROW_COUNT };

static const struct ops_def rows[ROW_COUNT];

struct index_attr {
    int64_t dim;
    int64_t skip; /* index whose row gets no gradient */
    int64_t n;    /* size of the indexed dimension, for the transposes */
};

#define NO_SKIP INT64_MIN

static enum ebb_status infer_select(struct ops_infer *i, struct ebb_error *err)
{
    const struct index_attr *a = i->attr;
    const struct tensor_view *x = i->in[0], *index = i->in[1];
    int64_t dims[2 * TENSOR_RANK];
    int dim, rank = 0;
    if (x->dtype != TENSOR_F32 || index->dtype != TENSOR_I64)
        return ops_wrong(i, err, "inputs must be F32 and I64 indices");
    EBB_TRY(ops_dim(i, a->dim, x->rank, &dim, err));
    if (x->rank + index->rank - 1 > TENSOR_RANK)
        return ops_wrong(i, err, "the result would have rank %d", x->rank + index->rank - 1);
    for (int d = 0; d < dim; d++)
        dims[rank++] = x->dims[d];
    for (int d = 0; d < index->rank; d++)
        dims[rank++] = index->dims[d];
    for (int d = dim + 1; d < x->rank; d++)
        dims[rank++] = x->dims[d];
    ops_out(i, TENSOR_F32, rank, dims);
    return EBB_OK;
}

static enum ebb_status run_select(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    const struct index_attr *a = c.attr;
    struct ops_lines l = ops_lines_of(&c.in[0], (int)(a->dim < 0 ? a->dim + c.in[0].rank : a->dim));
    return kernel_index_select(ops_context(&c), l.outer, l.n, l.inner, tensor_count(&c.in[1]),
                               tensor_call_in(&c, 0), tensor_call_in(&c, 1), tensor_call_out(&c, 0),
                               err);
}

/* dy, index -> dx; dim counts from the front here */
static enum ebb_status infer_add(struct ops_infer *i, struct ebb_error *err)
{
    const struct index_attr *a = i->attr;
    const struct tensor_view *g = i->in[0], *index = i->in[1];
    int64_t dims[TENSOR_RANK];
    int rank = 0;
    if (g->dtype != TENSOR_F32 || index->dtype != TENSOR_I64 || a->dim < 0 ||
        g->rank < a->dim + index->rank)
        return ops_wrong(i, err, "inputs must be F32 and I64 indices");
    for (int d = 0; d < a->dim; d++)
        dims[rank++] = g->dims[d];
    dims[rank++] = a->n;
    for (int d = (int)a->dim + index->rank; d < g->rank; d++)
        dims[rank++] = g->dims[d];
    ops_out(i, TENSOR_F32, rank, dims);
    return EBB_OK;
}

static enum ebb_status run_add(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    const struct index_attr *a = c.attr;
    struct ops_lines l = ops_lines_of(&c.out[0], (int)a->dim);
    return kernel_index_add(ops_context(&c), l.outer, l.n, l.inner, tensor_count(&c.in[1]), a->skip,
                            tensor_call_in(&c, 0), tensor_call_in(&c, 1), tensor_call_out(&c, 0),
                            err);
}

static void grad_select(struct ops_backward *b)
{
    struct index_attr attr = *(const struct index_attr *)b->attr;
    const struct tensor_view *x = tensor_view_of(b->session, b->in[0]);
    attr.dim = attr.dim < 0 ? attr.dim + x->rank : attr.dim;
    attr.n = x->dims[attr.dim];
    b->gin[0] = ops_emit(b->session, &rows[ROW_ADD], &attr, 2, (tensor_id[]){b->gout[0], b->in[1]});
}

static void grad_add(struct ops_backward *b)
{
    const struct index_attr *a = b->attr;
    if (a->skip != NO_SKIP)
        tensor_fail(b->session, EBB_EUNSUPPORTED, "index_add: no gradient with a padding index");
    else
        b->gin[0] =
            ops_emit(b->session, &rows[ROW_SELECT], a, 2, (tensor_id[]){b->gout[0], b->in[1]});
}

static void build_embedding(struct tensor_session *s, const struct ops_def *def,
                            const tensor_id *in, size_t in_count, const void *attr, tensor_id *out,
                            size_t *out_count)
{
    struct index_attr a = *(const struct index_attr *)attr;
    const struct tensor_view *w = tensor_view_of(s, in[1]);
    (void)def, (void)in_count;
    a.dim = 0;
    if (a.skip != NO_SKIP && a.skip < 0 && w->rank)
        a.skip += w->dims[0];
    out[0] = ops_emit(s, &rows[ROW_SELECT], &a, 2, (tensor_id[]){in[1], in[0]});
    *out_count = 1;
}

/* From a file: one index without dimensions picks one row, as a list of one does. */
static void build_select(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                         size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    const struct tensor_view *index = tensor_view_of(s, in[1]);
    tensor_id at = index->rank ? in[1] : ops_reshape(s, in[1], 1, (int64_t[]){1});
    (void)in_count;
    *out_count = 1;
    out[0] = TENSOR_NONE;
    if (index->rank > 1)
        tensor_fail(s, EBB_EINPUT, "index_select: the indices must be a list, found rank %d",
                    index->rank);
    else
        out[0] = ops_emit(s, def, attr, 2, (tensor_id[]){in[0], at});
}

/* ---- gather --------------------------------------------------------------------------------- */

static enum ebb_status infer_gather(struct ops_infer *i, struct ebb_error *err)
{
    const struct index_attr *a = i->attr;
    const struct tensor_view *x = i->in[0], *index = i->in[1];
    int dim;
    bool is_scatter = i->def->variant == ROW_SCATTER;
    if (x->dtype != TENSOR_F32 || index->dtype != TENSOR_I64 || x->rank != index->rank)
        return ops_wrong(i, err, "inputs must be F32 and I64 indices of the same rank");
    EBB_TRY(ops_dim(i, a->dim, x->rank, &dim, err));
    for (int d = 0; d < x->rank; d++)
        if ((d != dim || is_scatter) && x->dims[d] != index->dims[d])
            return ops_wrong(i, err, "sizes differ in dimension %d", d);
    struct tensor_view y = *index;
    if (is_scatter)
        y.dims[dim] = a->n;
    ops_out(i, TENSOR_F32, y.rank, y.dims);
    return EBB_OK;
}

static enum ebb_status run_gather(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    const struct index_attr *a = c.attr;
    int dim = (int)(a->dim < 0 ? a->dim + c.in[0].rank : a->dim);
    struct ops_lines l = ops_lines_of(&c.in[0], dim);
    return kernel_gather(ops_context(&c), l.outer, l.n, l.inner, c.in[1].dims[dim],
                         tensor_call_in(&c, 0), tensor_call_in(&c, 1), tensor_call_out(&c, 0), err);
}

static enum ebb_status run_scatter(const struct trace_call *call, struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    const struct index_attr *a = c.attr;
    int dim = (int)(a->dim < 0 ? a->dim + c.in[0].rank : a->dim);
    struct ops_lines l = ops_lines_of(&c.out[0], dim);
    return kernel_scatter_add(ops_context(&c), l.outer, l.n, l.inner, c.in[1].dims[dim],
                              tensor_call_in(&c, 0), tensor_call_in(&c, 1), tensor_call_out(&c, 0),
                              err);
}

static void grad_gather(struct ops_backward *b)
{
    struct index_attr attr = *(const struct index_attr *)b->attr;
    const struct tensor_view *x = tensor_view_of(b->session, b->in[0]);
    bool is_scatter = b->def->variant == ROW_SCATTER;
    attr.n = x->dims[attr.dim < 0 ? attr.dim + x->rank : attr.dim];
    b->gin[0] = ops_emit(b->session, &rows[is_scatter ? ROW_GATHER : ROW_SCATTER], &attr, 2,
                         (tensor_id[]){b->gout[0], b->in[1]});
}

/* From a file: the indices may leave out the ends of the other dimensions. */
static void build_gather(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                         size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    const struct index_attr *a = attr;
    const struct tensor_view x = *tensor_view_of(s, in[0]), index = *tensor_view_of(s, in[1]);
    tensor_id from = in[0];
    int64_t dim = a->dim < 0 ? a->dim + x.rank : a->dim;
    (void)in_count;
    for (int d = 0; x.rank == index.rank && d < x.rank; d++)
        if (d != dim && index.dims[d] < x.dims[d])
            from = ops_slice_dim(s, from, d, 0, index.dims[d], 1);
    out[0] = ops_emit(s, def, attr, 2, (tensor_id[]){from, in[1]});
    *out_count = 1;
}

#define DIM                                                                                        \
    {                                                                                              \
        "dim", OPS_INT, offsetof(struct index_attr, dim), NULL, true                               \
    }
static const struct ops_field dim_fields[] = {DIM, {0}};
static const struct ops_field embedding_fields[] = {
    {"padding_idx", OPS_INT, offsetof(struct index_attr, skip), NULL, false}, {0}};
static const struct index_attr index_default = {.skip = NO_SKIP};

#define PRIMITIVE(id, text, infer_, run_, grad_, internal)                                         \
    [id] = {OPS_PRIMITIVE(text, 2, 2, infer_, run_, grad_),                                        \
            .variant = id,                                                                         \
            .attr_bytes = sizeof(struct index_attr),                                               \
            .fields = dim_fields,                                                                  \
            .defaults = &index_default,                                                            \
            .is_internal = internal,                                                               \
            .build = (id) == ROW_SELECT   ? build_select                                           \
                     : (id) == ROW_GATHER ? build_gather                                           \
                                          : NULL,                                                  \
            .low_rule = OPS_LOW_WHOLE,                                                             \
            .low_out = (id) != ROW_ADD}

static const struct ops_def rows[ROW_COUNT] = {
    PRIMITIVE(ROW_SELECT, "index_select", infer_select, run_select, grad_select, false),
    PRIMITIVE(ROW_ADD, "index_add", infer_add, run_add, grad_add, true),
    PRIMITIVE(ROW_GATHER, "gather", infer_gather, run_gather, grad_gather, false),
    PRIMITIVE(ROW_SCATTER, "scatter_add", infer_gather, run_scatter, grad_gather, true),
    [ROW_EMBEDDING] = {.name = "embedding",
                       .min_in = 2,
                       .max_in = 2,
                       .build = build_embedding,
                       .attr_bytes = sizeof(struct index_attr),
                       .fields = embedding_fields,
                       .defaults = &index_default},
};

const struct ops_family ops_index_family = {rows, ROW_COUNT};
