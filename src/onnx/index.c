/* index.c - ops that choose elements by numbers: gather, scatter, one-hot, the largest, the places
 * that are not zero. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "onnx/internal.h"

/* An index that may count from the end. */
static enum ebb_status place(struct onnx_call *c, int64_t given, int64_t size, int64_t *at)
{
    *at = 0;
    if (given < -size || given >= size)
        return onnx_no(c, "index %" PRId64 " of %" PRId64, given, size);
    *at = given < 0 ? given + size : given;
    return EBB_OK;
}

static enum ebb_status gather(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *index = &c->in[1];
    int64_t dims[ONNX_RANK];
    int axis, rank = 0;
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", 0), x->rank, &axis));
    if (x->rank - 1 + index->rank > ONNX_RANK)
        return onnx_no(c, "too many dimensions");
    for (int d = 0; d < axis; d++)
        dims[rank++] = x->dims[d];
    for (int d = 0; d < index->rank; d++)
        dims[rank++] = index->dims[d];
    for (int d = axis + 1; d < x->rank; d++)
        dims[rank++] = x->dims[d];
    EBB_TRY(onnx_make(c, 0, x->type, rank, dims));
    int64_t outer = onnx_product(x->dims, 0, axis),
            inner = onnx_product(x->dims, axis + 1, x->rank), n = 0, at;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < index->count; i++) {
            EBB_TRY(place(c, index->integer[i], x->dims[axis], &at));
            for (int64_t k = 0; k < inner; k++)
                onnx_copy(&c->out[0], n++, x, (o * x->dims[axis] + at) * inner + k);
        }
    return EBB_OK;
}

static enum ebb_status gather_elements(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *index = &c->in[1];
    int64_t s[ONNX_RANK], at;
    int axis;
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", 0), x->rank, &axis));
    if (index->rank != x->rank)
        return onnx_no(c, "%d and %d dimensions", x->rank, index->rank);
    for (int d = 0; d < x->rank; d++)
        if (d != axis && index->dims[d] > x->dims[d])
            return onnx_no(c, "sizes %" PRId64 " and %" PRId64, x->dims[d], index->dims[d]);
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, index->dims));
    onnx_strides(x, x->rank, x->dims, s);
    struct onnx_walk w = {.rank = x->rank, .dims = index->dims};
    for (int64_t n = 0; n < index->count; n++) {
        int64_t from = 0;
        EBB_TRY(place(c, index->integer[n], x->dims[axis], &at));
        for (int d = 0; d < x->rank; d++)
            from += (d == axis ? at : w.at[d]) * s[d];
        onnx_copy(&c->out[0], n, x, from);
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    return EBB_OK;
}

/* Offset of the row of indices at `index`, behind `batch` of dimensions. */
static enum ebb_status nd_offset(struct onnx_call *c, const struct onnx_value *x, int batch,
                                 const int64_t *index, int64_t n, int64_t *offset)
{
    int64_t s[ONNX_RANK], at;
    onnx_strides(x, x->rank, x->dims, s);
    *offset = 0;
    for (int64_t k = 0; k < n; k++) {
        EBB_TRY(place(c, index[k], x->dims[batch + k], &at));
        *offset += at * s[batch + k];
    }
    return EBB_OK;
}

static enum ebb_status gather_nd(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *index = &c->in[1];
    int64_t dims[ONNX_RANK], batch = onnx_attr_int(c->node, "batch_dims", 0), offset;
    int rank = 0;
    int64_t n = index->rank ? index->dims[index->rank - 1] : 0;
    if (batch < 0 || batch >= index->rank || n < 1 || batch + n > x->rank ||
        index->rank - 1 + x->rank - n - batch > ONNX_RANK)
        return onnx_no(c, "indices of %" PRId64 " behind %" PRId64 " dimensions", n, batch);
    for (int d = 0; d < index->rank - 1; d++)
        dims[rank++] = index->dims[d];
    for (int d = (int)(batch + n); d < x->rank; d++)
        dims[rank++] = x->dims[d];
    for (int d = 0; d < batch; d++)
        if (x->dims[d] != index->dims[d])
            return onnx_no(c, "sizes %" PRId64 " and %" PRId64, x->dims[d], index->dims[d]);
    EBB_TRY(onnx_make(c, 0, x->type, rank, dims));
    int64_t rows = index->count / n;
    if (!rows)
        return EBB_OK;
    int64_t per = rows / onnx_product(index->dims, 0, (int)batch);
    int64_t inner = onnx_product(x->dims, (int)(batch + n), x->rank);
    int64_t size = onnx_product(x->dims, (int)batch, x->rank);
    for (int64_t r = 0; r < rows; r++) {
        EBB_TRY(nd_offset(c, x, (int)batch, index->integer + r * n, n, &offset));
        for (int64_t k = 0; k < inner; k++)
            onnx_copy(&c->out[0], r * inner + k, x, r / per * size + offset + k);
    }
    return EBB_OK;
}

/* ---- scatter ---------------------------------------------------------------------------------- */

static enum ebb_status copy_first(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    for (int64_t i = 0; i < x->count; i++)
        onnx_copy(&c->out[0], i, x, i);
    return EBB_OK;
}

static enum ebb_status combine(struct onnx_call *c, int64_t i, const struct onnx_value *from,
                               int64_t k)
{
    const char *how = onnx_attr_text(c->node, "reduction", "none");
    struct onnx_value *y = &c->out[0];
    if (strcmp(how, "none") == 0) {
        onnx_copy(y, i, from, k);
        return EBB_OK;
    }
    if (y->texts || y->type == ONNX_BOOL)
        return onnx_not_here(c, "reduction of type %s", onnx_type_name(y->type));
    if (strcmp(how, "add") == 0)
        onnx_set(y, i, onnx_get(y, i) + onnx_get(from, k));
    else if (strcmp(how, "mul") == 0)
        onnx_set(y, i, onnx_get(y, i) * onnx_get(from, k));
    else
        return onnx_not_here(c, "reduction '%s'", how);
    return EBB_OK;
}

static bool is_same_shape(const struct onnx_value *a, const struct onnx_value *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static enum ebb_status scatter_elements(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *index = &c->in[1], *update = &c->in[2];
    int64_t s[ONNX_RANK], at;
    int axis;
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", 0), x->rank, &axis));
    if (index->rank != x->rank || !is_same_shape(index, update))
        return onnx_no(c, "indices and updates do not fit");
    for (int d = 0; d < x->rank; d++)
        if (d != axis && index->dims[d] > x->dims[d])
            return onnx_no(c, "sizes %" PRId64 " and %" PRId64, x->dims[d], index->dims[d]);
    EBB_TRY(copy_first(c));
    onnx_strides(x, x->rank, x->dims, s);
    struct onnx_walk w = {.rank = x->rank, .dims = index->dims};
    for (int64_t n = 0; n < index->count; n++) {
        int64_t to = 0;
        EBB_TRY(place(c, index->integer[n], x->dims[axis], &at));
        for (int d = 0; d < x->rank; d++)
            to += (d == axis ? at : w.at[d]) * s[d];
        EBB_TRY(combine(c, to, update, n));
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    return EBB_OK;
}

static enum ebb_status scatter_nd(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *index = &c->in[1], *update = &c->in[2];
    int64_t offset;
    int64_t n = index->rank ? index->dims[index->rank - 1] : 0;
    if (n < 1 || n > x->rank)
        return onnx_no(c, "indices of %" PRId64 " in %d dimensions", n, x->rank);
    int64_t inner = onnx_product(x->dims, (int)n, x->rank), rows = index->count / n;
    if (update->count != rows * inner)
        return onnx_no(c, "%" PRId64 " updates, expected %" PRId64, update->count, rows * inner);
    EBB_TRY(copy_first(c));
    for (int64_t r = 0; r < rows; r++) {
        EBB_TRY(nd_offset(c, x, 0, index->integer + r * n, n, &offset));
        for (int64_t k = 0; k < inner; k++)
            EBB_TRY(combine(c, offset + k, update, r * inner + k));
    }
    return EBB_OK;
}

/* ---- one-hot, not zero, chosen ---------------------------------------------------------------- */

static enum ebb_status one_hot(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *values = &c->in[2];
    int64_t dims[ONNX_RANK];
    int axis;
    if (c->in[1].count != 1 || values->count != 2 || x->rank == ONNX_RANK)
        return onnx_no(c, "one depth and two values are needed");
    double depth_ = onnx_get(&c->in[1], 0);
    if (!(depth_ >= 1 && depth_ < 0x1p40))
        return onnx_no(c, "depth %g", depth_);
    int64_t depth = (int64_t)depth_;
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", -1), x->rank + 1, &axis));
    for (int d = 0, k = 0; d <= x->rank; d++)
        dims[d] = d == axis ? depth : x->dims[k++];
    EBB_TRY(onnx_make(c, 0, values->type, x->rank + 1, dims));
    int64_t inner = onnx_product(dims, axis + 1, x->rank + 1);
    for (int64_t i = 0; i < c->out[0].count; i++) {
        int64_t at = i / inner % depth, from = i / (inner * depth) * inner + i % inner;
        double v = onnx_get(x, from);
        double want = v < 0 ? v + (double)depth : v;
        bool is_it = want >= (double)at && want <= (double)at;
        onnx_copy(&c->out[0], i, values, is_it ? 1 : 0);
    }
    return EBB_OK;
}

static enum ebb_status non_zero(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t found = 0;
    for (int64_t i = 0; i < x->count; i++)
        found += fabs(onnx_get(x, i)) > 0;
    EBB_TRY(onnx_make(c, 0, ONNX_INT64, 2, (int64_t[]){x->rank ? x->rank : 1, found}));
    struct onnx_walk w = {.rank = x->rank, .dims = x->dims};
    for (int64_t i = 0, n = 0; i < x->count; i++) {
        if (fabs(onnx_get(x, i)) > 0) {
            for (int d = 0; d < x->rank; d++)
                c->out[0].integer[d * found + n] = w.at[d];
            n++;
        }
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    return EBB_OK;
}

static enum ebb_status compress(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *keep = &c->in[1];
    bool is_flat = !onnx_attr_find(c->node, "axis");
    int64_t dims[ONNX_RANK] = {x->count}, found = 0, n = 0;
    int axis = 0, rank = is_flat ? 1 : x->rank;
    if (!is_flat) {
        EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", 0), x->rank, &axis));
        memcpy(dims, x->dims, sizeof dims);
    }
    int64_t size = dims[axis], outer = onnx_product(dims, 0, axis),
            inner = onnx_product(dims, axis + 1, rank);
    for (int64_t i = 0; i < keep->count && i < size; i++)
        found += keep->integer[i] != 0;
    dims[axis] = found;
    EBB_TRY(onnx_make(c, 0, x->type, rank, dims));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < size && i < keep->count; i++)
            for (int64_t k = 0; keep->integer[i] && k < inner; k++)
                onnx_copy(&c->out[0], n++, x, (o * size + i) * inner + k);
    return EBB_OK;
}

/* The k largest or smallest: of equals the first. */
static enum ebb_status top_k(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    bool is_largest = onnx_attr_int(c->node, "largest", 1) != 0;
    int64_t dims[ONNX_RANK], k, *order;
    int axis;
    if (c->e->opset >= 10 && (!onnx_has(c, 1) || c->in[1].count != 1))
        return onnx_no(c, "k is one whole number");
    k = c->e->opset < 10 ? onnx_attr_int(c->node, "k", 0) : c->in[1].integer[0];
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", -1), x->rank, &axis));
    int64_t size = x->dims[axis];
    if (k < 0 || k > size)
        return onnx_no(c, "k is %" PRId64 " of %" PRId64, k, size);
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = k;
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, dims));
    struct onnx_value places;
    EBB_TRY(onnx_make_value(c, &places, ONNX_INT64, x->rank, dims));
    EBB_TRY(onnx_take(c, size, &order, sizeof *order));
    EBB_TRY(onnx_work(c, (int64_t[]){x->count, k}, 2));
    int64_t inner = onnx_product(x->dims, axis + 1, x->rank),
            outer = onnx_product(x->dims, 0, axis);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t m = 0; m < inner; m++)
            for (int64_t n = 0; n < k; n++) { /* k passes: small values alone come here */
                int64_t best = -1;
                for (int64_t i = 0; i < size; i++) {
                    if (n == 0)
                        order[i] = 0;
                    double v = onnx_get(x, (o * size + i) * inner + m);
                    double b = best < 0 ? 0 : onnx_get(x, (o * size + best) * inner + m);
                    if (!order[i] && (best < 0 || (is_largest ? v > b : v < b)))
                        best = i;
                }
                order[best] = 1;
                onnx_copy(&c->out[0], (o * k + n) * inner + m, x, (o * size + best) * inner + m);
                places.integer[(o * k + n) * inner + m] = best;
            }
    if (c->node->out_count > 1)
        c->out[1] = places;
    return EBB_OK;
}

/* ---- rows ------------------------------------------------------------------------------------- */

static const struct onnx_op rows[] = {
    {"Gather", 1, 0, 2, 2, "ai", 1, gather, 0},
    {"GatherElements", 11, 0, 2, 2, "ai", 1, gather_elements, 0},
    {"GatherND", 11, 0, 2, 2, "ai", 1, gather_nd, 0},
    {"Scatter", 9, 10, 3, 3, "ai0", 1, scatter_elements, 0},
    {"ScatterElements", 11, 17, 3, 3, "ai0", 1, scatter_elements, 0},
    {"ScatterND", 11, 17, 3, 3, "ai0", 1, scatter_nd, 0},
    {"OneHot", 9, 0, 3, 3, "nna", 1, one_hot, 0},
    {"NonZero", 9, 0, 1, 1, "m", 1, non_zero, 0},
    {"Compress", 9, 0, 2, 2, "ab", 1, compress, 0},
    {"TopK", 1, 0, 1, 2, "ni", 2, top_k, 0},
};

const struct onnx_ops onnx_index_ops = {rows, sizeof rows / sizeof *rows};
