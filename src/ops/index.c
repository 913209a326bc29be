/* index.c - picking by index: embedding, index_select, gather, and their transposes. */
#include <inttypes.h>

#include "ops/internal.h"

enum { /* rows in the order of their kernels */
       ROW_SELECT = KERNEL_SELECT,
       ROW_ADD = KERNEL_INDEX_ADD,
       ROW_GATHER = KERNEL_GATHER,
       ROW_SCATTER = KERNEL_SCATTER_ADD,
       ROW_EMBEDDING,
       ROW_COUNT
};

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

/* rows of x, or of the result where it is indexed */
static void describe(const struct ops_views *v, void *desc)
{
    const struct index_attr *a = v->attr;
    struct kernel_index_desc *d = desc;
    bool is_back = v->def->variant == KERNEL_INDEX_ADD || v->def->variant == KERNEL_SCATTER_ADD;
    bool is_line = v->def->variant == KERNEL_GATHER || v->def->variant == KERNEL_SCATTER_ADD;
    const struct tensor_view *x = is_back ? v->out : v->in[0];
    int dim = ops_wrap(a->dim, x->rank);
    ops_lines(x, dim, &d->outer, &d->n, &d->inner);
    d->count = is_line ? v->in[1]->dims[dim] : tensor_count(v->in[1]);
    d->skip = a->skip;
    d->f = v->def->variant;
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

static tensor_id build_embedding(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    struct index_attr a = *(const struct index_attr *)b->attr;
    const struct tensor_view *w = tensor_view_of(s, b->in[1]);
    a.dim = 0;
    if (a.skip != NO_SKIP && a.skip < 0 && w->rank)
        a.skip += w->dims[0];
    return ops_emit(s, &rows[ROW_SELECT], &a, 2, (tensor_id[]){b->in[1], b->in[0]});
}

/* From a file: one index without dimensions picks one row, as a list of one does. */
static tensor_id build_select(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct tensor_view *index = tensor_view_of(s, b->in[1]);
    tensor_id at = index->rank ? b->in[1] : ops_reshape(s, b->in[1], 1, (int64_t[]){1});
    if (index->rank > 1)
        return tensor_fail(s, EBB_EINPUT, "index_select: the indices must be a list, found rank %d",
                           index->rank);
    return ops_emit(s, b->def, b->attr, 2, (tensor_id[]){b->in[0], at});
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
static tensor_id build_gather(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct index_attr *a = b->attr;
    const struct tensor_view x = *tensor_view_of(s, b->in[0]), index = *tensor_view_of(s, b->in[1]);
    tensor_id from = b->in[0];
    int64_t dim = a->dim < 0 ? a->dim + x.rank : a->dim;
    for (int d = 0; x.rank == index.rank && d < x.rank; d++)
        if (d != dim && index.dims[d] < x.dims[d])
            from = ops_slice_dim(s, from, d, 0, index.dims[d], 1);
    return ops_emit(s, b->def, b->attr, 2, (tensor_id[]){from, b->in[1]});
}

static const struct ops_field dim_fields[] = {OPS_REQUIRED(index_attr, dim, OPS_INT), {0}};
static const struct ops_field embedding_fields[] = {
    {"padding_idx", OPS_INT, offsetof(struct index_attr, skip), NULL, false}, {0}};
static const struct index_attr index_default = {.skip = NO_SKIP};

#define PRIMITIVE(id, text, infer_, grad_, internal)                                               \
    [id] = {OPS_PRIMITIVE(text, 2, 2, infer_, INDEX, describe, grad_),                             \
            .variant = id,                                                                         \
            .attr_bytes = sizeof(struct index_attr),                                               \
            .fields = dim_fields,                                                                  \
            .defaults = &index_default,                                                            \
            .is_internal = internal,                                                               \
            .build = (id) == ROW_SELECT   ? build_select                                           \
                     : (id) == ROW_GATHER ? build_gather                                           \
                                          : NULL,                                                  \
            .kind.picks_rows = (id) == ROW_SELECT,                                                 \
            .low_kind.picks_rows = (id) == ROW_SELECT,                                             \
            .low_rule = OPS_LOW_WHOLE,                                                             \
            .low_out = (id) != ROW_ADD}

static const struct ops_def rows[ROW_COUNT] = {
    PRIMITIVE(ROW_SELECT, "index_select", infer_select, grad_select, false),
    PRIMITIVE(ROW_ADD, "index_add", infer_add, grad_add, true),
    PRIMITIVE(ROW_GATHER, "gather", infer_gather, grad_gather, false),
    PRIMITIVE(ROW_SCATTER, "scatter_add", infer_gather, grad_gather, true),
    [ROW_EMBEDDING] = {OPS_COMPOSITE("embedding", 2, 2, build_embedding),
                       OPS_ATTR(struct index_attr, embedding_fields, &index_default)},
};

const struct ops_family ops_index_family = {rows, ROW_COUNT};
