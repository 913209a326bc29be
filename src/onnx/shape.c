/* shape.c - ops that make shapes, constants, and move elements without looking at them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "onnx/internal.h"

/* ---- what shapes say -------------------------------------------------------------------------- */

static enum ebb_status make_ints(struct onnx_call *c, int rank, const int64_t *v, int64_t count)
{
    EBB_TRY(onnx_make(c, 0, ONNX_INT64, rank, &count));
    memcpy(c->out[0].integer, v, (size_t)count * sizeof *v);
    return EBB_OK;
}

static int64_t within(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

static enum ebb_status shape(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t start = onnx_attr_int(c->node, "start", 0),
            end = onnx_attr_int(c->node, "end", x->rank);
    start = within(start < 0 ? start + x->rank : start, 0, x->rank);
    end = within(end < 0 ? end + x->rank : end, start, x->rank);
    return make_ints(c, 1, x->dims + start, end - start);
}

static enum ebb_status size(struct onnx_call *c)
{
    EBB_TRY(onnx_make(c, 0, ONNX_INT64, 0, NULL));
    c->out[0].integer[0] = c->in[0].count;
    return EBB_OK;
}

/* ---- the same elements ------------------------------------------------------------------------ */

static enum ebb_status reshape(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t dims[ONNX_RANK], known = 1;
    const int64_t *want;
    size_t rank;
    int open = -1;
    bool keeps_zero = onnx_attr_int(c->node, "allowzero", 0) != 0;
    EBB_TRY(onnx_list(c, 1, "shape", &want, &rank));
    if (!want || rank > ONNX_RANK)
        return onnx_no(c, "no shape, or one of %zu dimensions", want ? rank : 0);
    for (size_t d = 0; d < rank; d++) {
        dims[d] = want[d];
        if (dims[d] == 0 && !keeps_zero) {
            if (d >= (size_t)x->rank)
                return onnx_no(c, "size %zu is to be kept of %d dimensions", d, x->rank);
            dims[d] = x->dims[d];
        }
        if (dims[d] == -1 && open < 0)
            open = (int)d;
        else if (dims[d] < 0 || __builtin_mul_overflow(known, dims[d], &known))
            return onnx_no(c, "a size is %" PRId64, dims[d]);
    }
    if (open >= 0) {
        if (known == 0 || x->count % known)
            return onnx_no(c, "%" PRId64 " elements do not divide by %" PRId64, x->count, known);
        dims[open] = x->count / known;
    }
    return onnx_again(c, 0, x, (int)rank, dims);
}

static enum ebb_status flatten(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t axis = onnx_attr_int(c->node, "axis", 1);
    axis = axis < 0 ? axis + x->rank : axis;
    if (axis < 0 || axis > x->rank)
        return onnx_no(c, "axis %" PRId64 " of %d dimensions", axis, x->rank);
    int64_t rows = onnx_product(x->dims, 0, (int)axis),
            columns = onnx_product(x->dims, (int)axis, x->rank);
    return onnx_again(c, 0, x, 2, (int64_t[]){rows, columns});
}

/* Without axes: all of size 1. */
static enum ebb_status squeeze(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    bool is_named[ONNX_RANK] = {false};
    int64_t dims[ONNX_RANK];
    const int64_t *axes;
    size_t count;
    int rank = 0;
    EBB_TRY(onnx_list(c, 1, "axes", &axes, &count));
    if (axes)
        EBB_TRY(onnx_axes(c, axes, count, x->rank, is_named));
    for (int d = 0; d < x->rank; d++) {
        bool goes = axes ? is_named[d] : x->dims[d] == 1;
        if (goes && x->dims[d] != 1)
            return onnx_no(c, "axis %d has size %" PRId64, d, x->dims[d]);
        if (!goes)
            dims[rank++] = x->dims[d];
    }
    return onnx_again(c, 0, x, rank, dims);
}

static enum ebb_status unsqueeze(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    bool is_named[ONNX_RANK] = {false};
    int64_t dims[ONNX_RANK];
    const int64_t *axes;
    size_t count;
    EBB_TRY(onnx_list(c, 1, "axes", &axes, &count));
    if (!axes || count > (size_t)(ONNX_RANK - x->rank))
        return onnx_no(c, "no axes, or too many dimensions");
    int rank = x->rank + (int)count;
    EBB_TRY(onnx_axes(c, axes, count, rank, is_named));
    for (int d = 0, k = 0; d < rank; d++)
        dims[d] = is_named[d] ? 1 : x->dims[k++];
    return onnx_again(c, 0, x, rank, dims);
}

/* ---- other places ----------------------------------------------------------------------------- */

/* y[i...] = x[offset + sum i * strides] */
static void gather_strided(struct onnx_value *y, const struct onnx_value *x, int64_t offset,
                           const int64_t *strides)
{
    struct onnx_walk w = {.rank = y->rank, .dims = y->dims};
    int64_t at = offset, n = 0;
    if (!y->count)
        return;
    do
        onnx_copy(y, n++, x, at);
    while (onnx_walk_next(&w, 1, (int64_t *[]){&at}, (const int64_t *[]){strides}));
}

static enum ebb_status transpose(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t dims[ONNX_RANK], strides[ONNX_RANK], moved[ONNX_RANK];
    bool is_named[ONNX_RANK] = {false};
    size_t count;
    const int64_t *perm = onnx_attr_ints(c->node, "perm", &count);
    if (perm && count != (size_t)x->rank)
        return onnx_no(c, "%zu axes for %d dimensions", count, x->rank);
    if (perm)
        EBB_TRY(onnx_axes(c, perm, count, x->rank, is_named));
    onnx_strides(x, x->rank, x->dims, strides);
    for (int d = 0; d < x->rank; d++) {
        int from = perm ? (int)(perm[d] < 0 ? perm[d] + x->rank : perm[d]) : x->rank - 1 - d;
        dims[d] = x->dims[from];
        moved[d] = strides[from];
    }
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, dims));
    gather_strided(&c->out[0], x, 0, moved);
    return EBB_OK;
}

static enum ebb_status expand(struct onnx_call *c)
{
    struct onnx_value like = {.rank = 0};
    const int64_t *want;
    size_t rank;
    int out;
    int64_t dims[ONNX_RANK], strides[ONNX_RANK];
    EBB_TRY(onnx_list(c, 1, NULL, &want, &rank));
    if (rank > ONNX_RANK)
        return onnx_no(c, "%zu dimensions", rank);
    like.rank = (int)rank;
    for (size_t d = 0; d < rank; d++)
        like.dims[d] = want[d];
    EBB_TRY(onnx_broadcast(c, (const struct onnx_value *[]){&c->in[0], &like}, 2, &out, dims));
    EBB_TRY(onnx_make(c, 0, c->in[0].type, out, dims));
    onnx_strides(&c->in[0], out, dims, strides);
    gather_strided(&c->out[0], &c->in[0], 0, strides);
    return EBB_OK;
}

static enum ebb_status tile(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t dims[ONNX_RANK], s[ONNX_RANK];
    const int64_t *times;
    size_t count;
    EBB_TRY(onnx_list(c, 1, NULL, &times, &count));
    if (c->e->opset < 6 || count != (size_t)x->rank)
        return onnx_no(c, "%zu repeats for %d dimensions", count, x->rank);
    for (int d = 0; d < x->rank; d++)
        if (times[d] < 0 || __builtin_mul_overflow(x->dims[d], times[d], &dims[d]))
            return onnx_no(c, "%" PRId64 " repeats", times[d]);
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, dims));
    onnx_strides(x, x->rank, x->dims, s);
    struct onnx_walk w = {.rank = x->rank, .dims = dims};
    for (int64_t n = 0; n < c->out[0].count; n++) {
        int64_t at = 0;
        for (int d = 0; d < x->rank; d++)
            at += w.at[d] % x->dims[d] * s[d];
        onnx_copy(&c->out[0], n, x, at);
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    return EBB_OK;
}

static enum ebb_status concat(struct onnx_call *c)
{
    struct onnx_value y = c->in[0];
    int axis;
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", 1), y.rank, &axis));
    y.dims[axis] = 0;
    for (size_t i = 0; i < c->in_count; i++) {
        const struct onnx_value *x = &c->in[i];
        if (x->rank != y.rank)
            return onnx_no(c, "%d and %d dimensions", y.rank, x->rank);
        for (int d = 0; d < y.rank; d++)
            if (d != axis && x->dims[d] != y.dims[d])
                return onnx_no(c, "sizes %" PRId64 " and %" PRId64 " of axis %d", x->dims[d],
                               y.dims[d], d);
        if (__builtin_add_overflow(y.dims[axis], x->dims[axis], &y.dims[axis]))
            return onnx_no(c, "too many elements");
    }
    EBB_TRY(onnx_make(c, 0, y.type, y.rank, y.dims));
    int64_t outer = onnx_product(y.dims, 0, axis), inner = onnx_product(y.dims, axis + 1, y.rank),
            n = 0;
    for (int64_t o = 0; o < outer; o++)
        for (size_t i = 0; i < c->in_count; i++) {
            int64_t run = c->in[i].dims[axis] * inner;
            for (int64_t k = 0; k < run; k++)
                onnx_copy(&c->out[0], n++, &c->in[i], o * run + k);
        }
    return EBB_OK;
}

static enum ebb_status split(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    const int64_t *sizes;
    size_t count, parts = c->node->out_count;
    int axis;
    int64_t begin = 0;
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", 0), x->rank, &axis));
    EBB_TRY(onnx_list(c, 1, "split", &sizes, &count));
    if (sizes && count != parts)
        return onnx_no(c, "%zu sizes for %zu parts", count, parts);
    if (!sizes && x->dims[axis] % (int64_t)parts)
        return onnx_no(c, "%" PRId64 " do not divide by %zu", x->dims[axis], parts);
    int64_t outer = onnx_product(x->dims, 0, axis),
            inner = onnx_product(x->dims, axis + 1, x->rank);
    for (size_t i = 0; i < parts; i++) {
        int64_t dims[ONNX_RANK], size_ = sizes ? sizes[i] : x->dims[axis] / (int64_t)parts;
        if (size_ < 0 || size_ > x->dims[axis] - begin)
            return onnx_no(c, "part %zu has size %" PRId64, i, size_);
        memcpy(dims, x->dims, sizeof dims);
        dims[axis] = size_;
        EBB_TRY(onnx_make(c, i, x->type, x->rank, dims));
        for (int64_t o = 0, n = 0; o < outer; o++)
            for (int64_t k = 0; k < size_ * inner; k++)
                onnx_copy(&c->out[i], n++, x, (o * x->dims[axis] + begin) * inner + k);
        begin += size_;
    }
    if (begin != x->dims[axis])
        return onnx_no(c, "the parts are %" PRId64 " of %" PRId64, begin, x->dims[axis]);
    return EBB_OK;
}

static enum ebb_status slice(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t dims[ONNX_RANK], strides[ONNX_RANK], moved[ONNX_RANK], offset = 0;
    const int64_t *starts, *ends, *axes, *steps;
    size_t n, end_count, axis_count, step_count;
    bool is_named[ONNX_RANK] = {false};
    bool is_old = c->e->opset < 10;
    EBB_TRY(onnx_list(c, 1, is_old ? "starts" : NULL, &starts, &n));
    EBB_TRY(onnx_list(c, 2, is_old ? "ends" : NULL, &ends, &end_count));
    EBB_TRY(onnx_list(c, 3, is_old ? "axes" : NULL, &axes, &axis_count));
    EBB_TRY(onnx_list(c, 4, NULL, &steps, &step_count));
    if (!starts || !ends || n != end_count || (axes && axis_count != n) ||
        (steps && step_count != n) || n > (size_t)x->rank)
        return onnx_no(c, "starts, ends, axes and steps are not of one length");
    if (axes)
        EBB_TRY(onnx_axes(c, axes, axis_count, x->rank, is_named));
    memcpy(dims, x->dims, sizeof dims);
    onnx_strides(x, x->rank, x->dims, strides);
    memcpy(moved, strides, sizeof moved);
    for (size_t i = 0; i < n; i++) {
        int axis;
        EBB_TRY(onnx_axis(c, axes ? axes[i] : (int64_t)i, x->rank, &axis));
        int64_t step = steps ? steps[i] : 1, size_ = x->dims[axis], from = starts[i], to = ends[i];
        if (step == 0 || step == INT64_MIN)
            return onnx_no(c, "a step is 0");
        from = from < 0 ? (from < -size_ ? -1 : from + size_) : from;
        to = to < 0 ? (to < -size_ ? -1 : to + size_) : to;
        if (starts[i] < -size_ && step > 0)
            from = 0;
        if (ends[i] < -size_ && step > 0)
            to = 0;
        from = step > 0 ? within(from, 0, size_) : within(from, -1, size_ - 1);
        to = step > 0 ? within(to, 0, size_) : within(to, -1, size_ - 1);
        int64_t span = step > 0 ? to - from : from - to, by = step > 0 ? step : -step;
        dims[axis] = span <= 0 ? 0 : (span - 1) / by + 1;
        offset += dims[axis] ? from * strides[axis] : 0;
        moved[axis] = dims[axis] > 1 ? strides[axis] * step : 0;
    }
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, dims));
    gather_strided(&c->out[0], x, offset, moved);
    return EBB_OK;
}

/* ---- pad -------------------------------------------------------------------------------------- */

/* Where a place outside looks to; -1: the constant. */
static int64_t reflect(int64_t at, int64_t size_, const char *mode)
{
    if (at >= 0 && at < size_)
        return at;
    if (strcmp(mode, "constant") == 0)
        return -1;
    if (strcmp(mode, "edge") == 0)
        return within(at, 0, size_ - 1);
    int64_t period = size_ > 1 ? 2 * (size_ - 1) : 1;
    at = (at % period + period) % period;
    return at < size_ ? at : period - at;
}

static enum ebb_status pad(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    const int64_t *pads;
    size_t count;
    int64_t dims[ONNX_RANK], s[ONNX_RANK];
    const char *mode = onnx_attr_text(c->node, "mode", "constant");
    double old = onnx_attr_number(c->node, "value", 0);
    EBB_TRY(onnx_list(c, 1, "pads", &pads, &count));
    if (!pads || count != 2 * (size_t)x->rank)
        return onnx_no(c, "%zu pads for %d dimensions", pads ? count : 0, x->rank);
    if (strcmp(mode, "constant") != 0 && strcmp(mode, "edge") != 0 && strcmp(mode, "reflect") != 0)
        return onnx_not_here(c, "mode '%s'", mode);
    if (onnx_has(c, 2) && c->in[2].count != 1)
        return onnx_no(c, "%" PRId64 " values to pad with", c->in[2].count);
    bool is_constant = strcmp(mode, "constant") == 0;
    for (int d = 0; d < x->rank; d++)
        if (__builtin_add_overflow(x->dims[d], pads[d], &dims[d]) ||
            __builtin_add_overflow(dims[d], pads[x->rank + d], &dims[d]) || dims[d] < 0 ||
            pads[d] == INT64_MIN || (!is_constant && !x->dims[d] && dims[d]))
            return onnx_no(c, "pads of axis %d", d);
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, dims));
    onnx_strides(x, x->rank, x->dims, s);
    struct onnx_walk w = {.rank = x->rank, .dims = dims};
    for (int64_t n = 0; n < c->out[0].count; n++) {
        int64_t at = 0;
        for (int d = 0; d < x->rank && at >= 0; d++) {
            int64_t from = reflect(w.at[d] - pads[d], x->dims[d], mode);
            at = from < 0 ? -1 : at + from * s[d];
        }
        if (at >= 0)
            onnx_copy(&c->out[0], n, x, at);
        else if (c->e->opset < 11 && !x->texts)
            onnx_set(&c->out[0], n, old);
        else
            onnx_fill(&c->out[0], n, onnx_has(c, 2) ? &c->in[2] : NULL);
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    return EBB_OK;
}

/* ---- constants -------------------------------------------------------------------------------- */

static enum ebb_status constant(struct onnx_call *c)
{
    const struct onnx_attr *a = c->node->attr_count == 1 ? &c->node->attrs[0] : NULL;
    if (!a)
        return onnx_no(c, "%zu attributes, allowed: one", c->node->attr_count);
    int64_t count = (int64_t)a->count;
    switch (a->kind) {
    case ONNX_ATTR_TENSOR:
        return a->tensor ? onnx_value_from(c->e, a->tensor, &c->out[0], c->err)
                         : onnx_no(c, "no tensor");
    case ONNX_ATTR_INT:
        EBB_TRY(onnx_make(c, 0, ONNX_INT64, 0, NULL));
        c->out[0].integer[0] = a->integer;
        return EBB_OK;
    case ONNX_ATTR_FLOAT:
        EBB_TRY(onnx_make(c, 0, ONNX_FLOAT, 0, NULL));
        c->out[0].number[0] = a->number;
        return EBB_OK;
    case ONNX_ATTR_INTS:
        EBB_TRY(onnx_make(c, 0, ONNX_INT64, 1, &count));
        for (int64_t i = 0; i < count; i++)
            c->out[0].integer[i] = a->integers[i];
        return EBB_OK;
    case ONNX_ATTR_FLOATS:
        EBB_TRY(onnx_make(c, 0, ONNX_FLOAT, 1, &count));
        for (int64_t i = 0; i < count; i++)
            c->out[0].number[i] = (double)a->numbers[i];
        return EBB_OK;
    default:
        return onnx_not_here(c, "attribute '%s'", a->name);
    }
}

static enum ebb_status constant_of_shape(struct onnx_call *c)
{
    const struct onnx_attr *a = onnx_attr_find(c->node, "value");
    struct onnx_value one = {0};
    const int64_t *dims;
    size_t rank;
    EBB_TRY(onnx_list(c, 0, NULL, &dims, &rank));
    if (a && (a->kind != ONNX_ATTR_TENSOR || !a->tensor || a->tensor->count != 1))
        return onnx_no(c, "value is no tensor of one element");
    if (a)
        EBB_TRY(onnx_value_from(c->e, a->tensor, &one, c->err));
    if (rank > ONNX_RANK)
        return onnx_no(c, "%zu dimensions", rank);
    EBB_TRY(onnx_make(c, 0, one.type ? one.type : ONNX_FLOAT, (int)rank, dims));
    for (int64_t i = 0; one.type && i < c->out[0].count; i++)
        onnx_copy(&c->out[0], i, &one, 0);
    return EBB_OK;
}

static enum ebb_status range(struct onnx_call *c)
{
    for (size_t i = 0; i < 3; i++)
        if (c->in[i].count != 1)
            return onnx_no(c, "start, limit and delta are one number each");
    double from = onnx_get(&c->in[0], 0), to = onnx_get(&c->in[1], 0), by = onnx_get(&c->in[2], 0);
    double count = ceil((to - from) / by);
    if (!(count < 0x1p40))
        return onnx_no(c, "%g numbers", count);
    int64_t n = count > 0 ? (int64_t)count : 0;
    EBB_TRY(onnx_make(c, 0, c->in[0].type, 1, &n));
    for (int64_t i = 0; i < n; i++)
        if (c->out[0].number)
            onnx_set(&c->out[0], i, from + (double)i * by);
        else
            c->out[0].integer[i] =
                onnx_wrap(c->in[0].type, (int64_t)((uint64_t)c->in[0].integer[0] +
                                                   (uint64_t)i * (uint64_t)c->in[2].integer[0]));
    return EBB_OK;
}

static enum ebb_status eye_like(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t k = within(onnx_attr_int(c->node, "k", 0), -ONNX_ELEMENTS, ONNX_ELEMENTS);
    int type = onnx_attr_type(c->node, "dtype", x->type);
    if (x->rank != 2)
        return onnx_no(c, "%d dimensions, allowed: 2", x->rank);
    if (type == ONNX_STRING)
        return onnx_not_here(c, "texts");
    EBB_TRY(onnx_make(c, 0, type, 2, x->dims));
    for (int64_t i = 0; i < x->dims[0]; i++)
        if (i + k >= 0 && i + k < x->dims[1])
            onnx_set(&c->out[0], i * x->dims[1] + i + k, 1);
    return EBB_OK;
}

static enum ebb_status trilu(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    bool is_upper = onnx_attr_int(c->node, "upper", 1) != 0;
    if (x->rank < 2 || (onnx_has(c, 1) && c->in[1].count != 1))
        return onnx_no(c, "a matrix and one whole number are needed");
    int64_t k = onnx_has(c, 1) ? within(c->in[1].integer[0], -ONNX_ELEMENTS, ONNX_ELEMENTS) : 0;
    int64_t rows_ = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    for (int64_t n = 0; n < x->count; n++) {
        int64_t i = n / columns % rows_, j = n % columns;
        if (is_upper ? j >= i + k : j <= i + k)
            onnx_copy(&c->out[0], n, x, n);
        else
            onnx_fill(&c->out[0], n, NULL);
    }
    return EBB_OK;
}

/* ---- blocks of places and channels ------------------------------------------------------------ */

static enum ebb_status depth_to_space(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t b = onnx_attr_int(c->node, "blocksize", 0);
    bool is_crd = strcmp(onnx_attr_text(c->node, "mode", "DCR"), "CRD") == 0;
    if (x->rank != 4 || b < 1 || b > ONNX_BLOCK || x->dims[1] % (b * b))
        return onnx_no(c, "4 dimensions are needed, channels in blocks");
    int64_t n = x->dims[0], ch = x->dims[1] / (b * b), h = x->dims[2], w = x->dims[3];
    EBB_TRY(onnx_make(c, 0, x->type, 4, (int64_t[]){n, ch, h * b, w * b}));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        int64_t q = i % (w * b), p = i / (w * b) % (h * b), k = i / (w * b * h * b) % ch;
        int64_t m = i / (w * b * h * b * ch), in_block = p % b * b + q % b;
        int64_t from = is_crd ? k * b * b + in_block : in_block * ch + k;
        onnx_copy(&c->out[0], i, x, ((m * x->dims[1] + from) * h + p / b) * w + q / b);
    }
    return EBB_OK;
}

static enum ebb_status space_to_depth(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t b = onnx_attr_int(c->node, "blocksize", 0);
    if (x->rank != 4 || b < 1 || b > ONNX_BLOCK || x->dims[2] % b || x->dims[3] % b)
        return onnx_no(c, "4 dimensions are needed, places in blocks");
    int64_t ch = x->dims[1], h = x->dims[2] / b, w = x->dims[3] / b;
    EBB_TRY(onnx_make(c, 0, x->type, 4, (int64_t[]){x->dims[0], ch * b * b, h, w}));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        int64_t q = i % w, p = i / w % h, k = i / (w * h) % (ch * b * b),
                m = i / (w * h * ch * b * b);
        int64_t block = k / ch;
        onnx_copy(&c->out[0], i, x,
                  ((m * ch + k % ch) * x->dims[2] + p * b + block / b) * x->dims[3] + q * b +
                      block % b);
    }
    return EBB_OK;
}

static enum ebb_status reverse_sequence(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *lengths = &c->in[1];
    int batch, time;
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "batch_axis", 1), x->rank, &batch));
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "time_axis", 0), x->rank, &time));
    if (lengths->count != x->dims[batch] || batch == time)
        return onnx_no(c, "one length per sequence is needed");
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    int64_t s[ONNX_RANK];
    onnx_strides(x, x->rank, x->dims, s);
    struct onnx_walk w = {.rank = x->rank, .dims = x->dims};
    for (int64_t n = 0; n < x->count; n++) {
        int64_t length = lengths->integer[w.at[batch]], t = w.at[time];
        if (length < 0 || length > x->dims[time])
            return onnx_no(c, "a length is %" PRId64, length);
        onnx_copy(&c->out[0], n, x, t < length ? n + (length - 1 - 2 * t) * s[time] : n);
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    return EBB_OK;
}

/* ---- rows ------------------------------------------------------------------------------------- */

static const struct onnx_op rows[] = {
    {"Shape", 1, 0, 1, 1, "a", 1, shape, 0},
    {"Size", 1, 0, 1, 1, "a", 1, size, 0},
    {"Reshape", 1, 0, 1, 2, "ai", 1, reshape, 0},
    {"Flatten", 1, 0, 1, 1, "a", 1, flatten, 0},
    {"Squeeze", 1, 0, 1, 2, "ai", 1, squeeze, 0},
    {"Unsqueeze", 1, 0, 1, 2, "ai", 1, unsqueeze, 0},
    {"Transpose", 1, 0, 1, 1, "a", 1, transpose, 0},
    {"Expand", 8, 0, 2, 2, "ai", 1, expand, 0},
    {"Tile", 6, 0, 2, 2, "ai", 1, tile, 0},
    {"Concat", 4, 0, 1, ONNX_MANY, "a0", 1, concat, 0},
    {"Split", 2, 17, 1, 2, "ai", ONNX_MANY, split, 0},
    {"Slice", 1, 0, 1, 5, "ai", 1, slice, 0},
    {"Pad", 2, 17, 1, 3, "ai0", 1, pad, 0},
    {"Constant", 1, 0, 0, 0, "", 1, constant, 0},
    {"ConstantOfShape", 9, 0, 1, 1, "i", 1, constant_of_shape, 0},
    {"Range", 11, 0, 3, 3, "n0", 1, range, 0},
    {"EyeLike", 9, 0, 1, 1, "a", 1, eye_like, 0},
    {"Trilu", 14, 0, 1, 2, "ai", 1, trilu, 0},
    {"DepthToSpace", 1, 0, 1, 1, "a", 1, depth_to_space, 0},
    {"SpaceToDepth", 1, 0, 1, 1, "a", 1, space_to_depth, 0},
    {"ReverseSequence", 10, 0, 2, 2, "ai", 1, reverse_sequence, 0},
};

const struct onnx_ops onnx_shape_ops = {rows, sizeof rows / sizeof *rows};
