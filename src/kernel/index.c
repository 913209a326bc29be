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

static void run_gather(const struct kernel_index_desc *d, const float *x, const int64_t *index,
                       float *y)
{
    for (int64_t i = 0; i < d->outer * d->count * d->inner; i++)
        y[i] = x[(i / (d->count * d->inner) * d->n + index[i]) * d->inner + i % d->inner];
}

static void run_scatter(const struct kernel_index_desc *d, const float *dy, const int64_t *index,
                        float *dx)
{
    for (int64_t i = 0; i < d->outer * d->count * d->inner; i++)
        dx[(i / (d->count * d->inner) * d->n + index[i]) * d->inner + i % d->inner] += dy[i];
}

KERNEL_CPU(index)
{
    const struct kernel_index_desc *d = desc;
    bool is_row = d->f == KERNEL_SELECT || d->f == KERNEL_INDEX_ADD;
    struct select_job job = {.n = d->n,
                             .inner = d->inner,
                             .count = d->count,
                             .skip = d->skip,
                             .column = 128,
                             .x = args->in[0],
                             .index = args->in[1],
                             .y = args->out[0]};
    EBB_TRY(check(is_row ? d->count : d->outer * d->count * d->inner, d->n, job.index, err));
    switch ((enum kernel_index)d->f) {
    case KERNEL_SELECT:
        kernel_parallel(c, d->outer * d->count, d->inner, select_body, &job);
        break;
    case KERNEL_INDEX_ADD:
        kernel_parallel(c, d->outer * ((d->inner + job.column - 1) / job.column),
                        (d->n + d->count) * job.column, add_body, &job);
        break;
    case KERNEL_GATHER:
        run_gather(d, job.x, job.index, job.y);
        break;
    case KERNEL_SCATTER_ADD:
        kernel_fill(c, d->outer * d->n * d->inner, job.y, 0.0f);
        run_scatter(d, job.x, job.index, job.y);
        break;
    }
    return EBB_OK;
}
