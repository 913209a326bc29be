/* view.c - dtypes, shapes, strides. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tensor/tensor.h"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[TENSOR_DTYPE_COUNT] = {
#define X(name, bytes) {#name, bytes},
    TENSOR_DTYPE_LIST(X) TENSOR_STORED_DTYPE_LIST(X)
#undef X
};

size_t tensor_dtype_bytes(enum tensor_dtype dtype)
{
    return dtypes[dtype].bytes;
}

const char *tensor_dtype_name(enum tensor_dtype dtype)
{
    return dtypes[dtype].name;
}

/* Wraps instead of being undefined: shapes that cannot be counted are refused where an op is
 * appended, after their view was made. */
static int64_t multiply(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

void tensor_view_init(struct tensor_view *view, enum tensor_dtype dtype, int rank,
                      const int64_t *dims)
{
    int64_t total = 1;
    memset(view, 0, offsetof(struct tensor_view, dims));
    memset(view->dims, 0, sizeof view->dims); /* apart: short enough to be a few stores */
    memset(view->strides, 0, sizeof view->strides);
    view->dtype = (uint8_t)dtype;
    view->rank = (uint8_t)rank;
    for (int i = rank - 1; i >= 0; i--) {
        view->dims[i] = dims[i];
        view->strides[i] = total;
        total = multiply(total, dims[i] ? dims[i] : 1);
    }
}

int64_t tensor_count(const struct tensor_view *view)
{
    int64_t total = 1;
    for (int i = 0; i < view->rank; i++)
        total = multiply(total, view->dims[i]);
    return total;
}

void tensor_view_block(struct tensor_view *view, int block)
{
    int64_t total = block ? block : 1;
    view->block = (uint16_t)block;
    for (int i = view->rank - 1; i >= 0; i--) {
        int64_t n = block && i == 1 ? view->dims[i] / block : view->dims[i];
        view->strides[i] = total;
        total = multiply(total, n ? n : 1);
    }
}

void tensor_view_split(const struct tensor_view *view, int block, struct tensor_view *out)
{
    *out = *view;
    int last = out->rank++;
    bool is_one = view->dims[1] == 1 && block != 1;
    out->block = 0;
    out->dims[last] = is_one ? 1 : block;
    out->strides[last] = view->block ? 1 : view->strides[1];
    if (!is_one) {
        out->dims[1] = view->dims[1] / block;
        out->strides[1] = view->strides[1] * (view->block ? 1 : block);
    }
}

bool tensor_is_dense(const struct tensor_view *view)
{
    int64_t total = view->block ? view->block : 1;
    for (int i = view->rank - 1; i >= 0; i--) {
        int64_t n = view->block && i == 1 ? view->dims[i] / view->block : view->dims[i];
        if (n != 1 && view->strides[i] != total)
            return false;
        total = multiply(total, n ? n : 1);
    }
    return true;
}

bool tensor_same_shape(const struct tensor_view *a, const struct tensor_view *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

const char *tensor_shape_text(const struct tensor_view *view, char *buf, size_t size)
{
    size_t at = 0;
    if (size == 0)
        return buf;
    buf[0] = '\0';
    for (int i = 0; i < view->rank && at < size; i++) {
        int n = snprintf(buf + at, size - at, "%s%" PRId64, i ? ", " : "[", view->dims[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    if (at < size)
        snprintf(buf + at, size - at, view->rank ? "]" : "[]");
    return buf;
}
