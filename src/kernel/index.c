/* index.c - rows picked and added by index. Additions go in order of position, whatever the
 * threads. */
#include "kernel/internal.h"

static enum ebb_status check(int64_t count, int64_t n, const int64_t *index, struct ebb_error *err)
{
    for (int64_t i = 0; i < count; i++)
        if (index[i] < 0 || index[i] >= n)
            return ebb_fail(err, EBB_EINPUT, "index %lld at element %lld, allowed are 0 to %lld",
                            (long long)index[i], (long long)i, (long long)(n - 1));
    return EBB_OK;
}

struct select_job {
    int64_t n, inner, count, skip, column;
    const float *x;
    const int64_t *index;
    float *y;
};

static void select_body(void *argument, int64_t first, int64_t last)
{
    const struct select_job *j = argument;
    for (int64_t i = first; i < last; i++) {
        int64_t o = i / j->count, row = j->index[i % j->count];
        memcpy(j->y + i * j->inner, j->x + (o * j->n + row) * j->inner,
               (size_t)j->inner * sizeof *j->y);
    }
}

enum ebb_status kernel_index_select(const struct kernel_context *c, int64_t outer, int64_t n,
                                    int64_t inner, int64_t count, const float *x,
                                    const int64_t *index, float *y, struct ebb_error *err)
{
    struct select_job job = {
        .n = n, .inner = inner, .count = count, .x = x, .index = index, .y = y};
    EBB_TRY(check(count, n, index, err));
    kernel_parallel(c, outer * count, kernel_piece(inner), select_body, &job);
    return EBB_OK;
}

/* A piece owns a range of columns of the whole table, so each sum has one order: that of positions.
 */
static void add_body(void *argument, int64_t first, int64_t last)
{
    const struct select_job *j = argument;
    for (int64_t i = first; i < last; i++) {
        int64_t blocks = (j->inner + j->column - 1) / j->column;
        int64_t o = i / blocks, at = i % blocks * j->column;
        int64_t width = kernel_min(j->column, j->inner - at);
        float *dx = j->y + o * j->n * j->inner + at;
        for (int64_t r = 0; r < j->n; r++)
            memset(dx + r * j->inner, 0, (size_t)width * sizeof *dx);
        for (int64_t k = 0; k < j->count; k++) {
            if (j->index[k] == j->skip)
                continue;
            float *to = dx + j->index[k] * j->inner;
            const float *from = j->x + (o * j->count + k) * j->inner + at;
            for (int64_t e = 0; e < width; e++)
                to[e] += from[e];
        }
    }
}

enum ebb_status kernel_index_add(const struct kernel_context *c, int64_t outer, int64_t n,
                                 int64_t inner, int64_t count, int64_t skip, const float *dy,
                                 const int64_t *index, float *dx, struct ebb_error *err)
{
    struct select_job job = {.n = n,
                             .inner = inner,
                             .count = count,
                             .skip = skip,
                             .column = 128,
                             .x = dy,
                             .index = index,
                             .y = dx};
    EBB_TRY(check(count, n, index, err));
    kernel_parallel(c, outer * ((inner + job.column - 1) / job.column), 1, add_body, &job);
    return EBB_OK;
}

enum ebb_status kernel_gather(const struct kernel_context *c, int64_t outer, int64_t n,
                              int64_t inner, int64_t count, const float *x, const int64_t *index,
                              float *y, struct ebb_error *err)
{
    (void)c;
    EBB_TRY(check(outer * count * inner, n, index, err));
    for (int64_t i = 0; i < outer * count * inner; i++)
        y[i] = x[(i / (count * inner) * n + index[i]) * inner + i % inner];
    return EBB_OK;
}

enum ebb_status kernel_scatter_add(const struct kernel_context *c, int64_t outer, int64_t n,
                                   int64_t inner, int64_t count, const float *dy,
                                   const int64_t *index, float *dx, struct ebb_error *err)
{
    EBB_TRY(check(outer * count * inner, n, index, err));
    kernel_fill(c, outer * n * inner, dx, 0.0f);
    for (int64_t i = 0; i < outer * count * inner; i++)
        dx[(i / (count * inner) * n + index[i]) * inner + i % inner] += dy[i];
    return EBB_OK;
}
