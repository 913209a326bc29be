/* reduce.c - folds over dimensions, softmax and its relatives.
 *
 * Every result is made by one piece of work in an order fixed by the shape (rule K1). */
#include <float.h>

#include "kernel/internal.h"

#define COLUMNS 64 /* kept columns folded together when the innermost dimension is kept */

struct dim {
    int64_t size, stride;
};

struct fold {
    enum kernel_reduce f;
    struct dim kept[KERNEL_RANK], reduced[KERNEL_RANK];
    int kept_count, reduced_count;
    int64_t kept_total, reduced_total;
    bool is_inner_kept;
    const float *x;
    float *y;
};

static float finish(const struct fold *j, double sum)
{
    return (float)(j->f == KERNEL_MEAN ? sum / (double)j->reduced_total : sum);
}

static int64_t locate(const struct dim *dims, int count, int64_t index)
{
    int64_t offset = 0;
    for (int d = count - 1; d >= 0; d--) {
        offset += index % dims[d].size * dims[d].stride;
        index /= dims[d].size;
    }
    return offset;
}

#define LANES 16

/* Maxima by lane, so that the loop vectorises; a maximum does not depend on the order. */
KERNEL_CLONES static float max_lanes(int64_t n, const float *x, float m)
{
    float lane[LANES], nan = 0.0f;
    int64_t i = 0;
    for (int j = 0; j < LANES; j++)
        lane[j] = m;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
            nan += x[i + j] * 0.0f; /* NaN or infinity leave a mark */
        }
    for (; i < n; i++) {
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
        nan += x[i] * 0.0f;
    }
    for (int j = 1; j < LANES; j++)
        lane[0] = lane[j] > lane[0] ? lane[j] : lane[0];
    if (nan != nan)
        for (i = 0; i < n; i++)
            if (x[i] != x[i])
                return x[i];
    return lane[0];
}

float kernel_max_row(int64_t n, const float *x, float m)
{
    return m != m ? m : max_lanes(n, x, m);
}

/* The innermost dimension is folded: rows are contiguous. */
static void fold_rows(void *argument, int64_t first, int64_t last)
{
    const struct fold *j = argument;
    int64_t row = j->reduced_count ? j->reduced[j->reduced_count - 1].size : 1;
    int64_t rows = j->reduced_total / row;
    for (int64_t i = first; i < last; i++) {
        const float *x = j->x + locate(j->kept, j->kept_count, i);
        double sum = 0;
        float m = -INFINITY;
        for (int64_t r = 0; r < rows; r++) {
            const float *p = x + locate(j->reduced, j->reduced_count - 1, r);
            if (j->f == KERNEL_AMAX)
                m = kernel_max_row(row, p, m);
            else
                sum +=
                    j->f == KERNEL_SUM_SQUARES ? kernel_dot_row(row, p, p) : kernel_sum_row(row, p);
        }
        j->y[i] = j->f == KERNEL_AMAX ? m : finish(j, sum);
    }
}

KERNEL_CLONES static void add_columns(int64_t n, const float *x, double *sum, bool square)
{
    if (square)
        for (int64_t k = 0; k < n; k++)
            sum[k] += (double)x[k] * (double)x[k];
    else
        for (int64_t k = 0; k < n; k++)
            sum[k] += (double)x[k];
}

/* The innermost dimension is kept: COLUMNS results at a time. */
static void fold_columns(void *argument, int64_t first, int64_t last)
{
    const struct fold *j = argument;
    int64_t width = j->kept[j->kept_count - 1].size;
    int64_t blocks = (width + COLUMNS - 1) / COLUMNS;
    for (int64_t i = first; i < last; i++) {
        int64_t outer = i / blocks, at = i % blocks * COLUMNS;
        int64_t n = kernel_min(COLUMNS, width - at);
        const float *x = j->x + locate(j->kept, j->kept_count - 1, outer) + at;
        float *y = j->y + outer * width + at;
        double sum[COLUMNS] = {0};
        for (int64_t k = 0; k < n && j->f == KERNEL_AMAX; k++)
            y[k] = -INFINITY;
        for (int64_t r = 0; r < j->reduced_total; r++) {
            const float *p = x + locate(j->reduced, j->reduced_count, r);
            if (j->f == KERNEL_AMAX)
                for (int64_t k = 0; k < n; k++)
                    y[k] = p[k] > y[k] || p[k] != p[k] ? p[k] : y[k];
            else
                add_columns(n, p, sum, j->f == KERNEL_SUM_SQUARES);
        }
        for (int64_t k = 0; k < n && j->f != KERNEL_AMAX; k++)
            y[k] = finish(j, sum[k]);
    }
}

static void push(struct dim *dims, int *count, int64_t size, int64_t stride, bool may_merge)
{
    if (may_merge && *count && dims[*count - 1].stride == size * stride) {
        dims[*count - 1].size *= size;
        dims[*count - 1].stride = stride;
    } else {
        dims[(*count)++] = (struct dim){size, stride};
    }
}

KERNEL_CPU(reduce)
{
    const struct kernel_reduce_desc *r = desc;
    const int64_t *dims = r->dims;
    struct fold j = {.f = (enum kernel_reduce)r->f,
                     .x = args->in[0],
                     .y = args->out[0],
                     .kept_total = 1,
                     .reduced_total = 1};
    int64_t stride[KERNEL_RANK], total = 1;
    for (int d = r->rank - 1; d >= 0; d--) {
        stride[d] = total;
        total *= dims[d];
    }
    int last = -1; /* dimension before this one: 0 kept, 1 reduced */
    for (int d = 0; d < r->rank; d++) {
        int now = r->folded >> d & 1;
        if (now)
            j.reduced_total *= dims[d];
        else
            j.kept_total *= dims[d];
        if (dims[d] == 1)
            continue;
        push(now ? j.reduced : j.kept, now ? &j.reduced_count : &j.kept_count, dims[d], stride[d],
             last == now);
        last = now;
    }
    if (j.kept_total == 0)
        return EBB_OK;
    if (last == 0 && j.reduced_count && j.reduced_total) {
        int64_t width = j.kept[j.kept_count - 1].size;
        int64_t blocks = (width + COLUMNS - 1) / COLUMNS;
        kernel_parallel(c, j.kept_total / width * blocks, j.reduced_total * COLUMNS, fold_columns,
                        &j);
    } else if (j.reduced_total == 0) {
        kernel_fill(c, j.kept_total, j.y,
                    j.f == KERNEL_AMAX   ? -INFINITY
                    : j.f == KERNEL_MEAN ? NAN
                                         : 0);
    } else {
        kernel_parallel(c, j.kept_total, j.reduced_total, fold_rows, &j);
    }
    return EBB_OK;
}

/* ---- [outer, n, inner] ---------------------------------------------------------------------- */

struct lines {
    int64_t n, inner;
    int mode;
    const float *x, *y_in;
    float *y;
    int64_t *index;
};

static void argmax_body(void *argument, int64_t first, int64_t last)
{
    const struct lines *j = argument;
    for (int64_t i = first; i < last; i++) {
        const float *x = j->x + i / j->inner * j->n * j->inner + i % j->inner;
        int64_t best = 0;
        for (int64_t k = 1; k < j->n; k++) {
            float v = x[k * j->inner], b = x[best * j->inner];
            if (v > b || (v != v && b == b))
                best = k;
        }
        j->index[i] = best;
    }
}

static void cumsum_body(void *argument, int64_t first, int64_t last)
{
    const struct lines *j = argument;
    for (int64_t i = first; i < last; i++) {
        int64_t base = i / j->inner * j->n * j->inner + i % j->inner;
        double sum = 0;
        for (int64_t k = 0; k < j->n; k++) {
            int64_t at = base + (j->mode ? j->n - 1 - k : k) * j->inner;
            sum += (double)j->x[at];
            j->y[at] = (float)sum;
        }
    }
}

KERNEL_CLONES static void exp_shifted(int64_t n, const float *restrict x, float shift,
                                      float *restrict y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = kernel_expf(x[i] - shift);
}

double kernel_exp_row_sum(int64_t n, const float *x, float m)
{
    float block[256];
    double sum = 0;
    for (int64_t i = 0; i < n; i += 256) {
        int64_t k = kernel_min(256, n - i);
        exp_shifted(k, x + i, m, block);
        sum += kernel_sum_row(k, block);
    }
    return sum;
}

static void softmax_row(int64_t n, const float *x, float *y, int mode)
{
    float m = kernel_max_row(n, x, -INFINITY);
    if (mode == KERNEL_SOFTMAX) {
        exp_shifted(n, x, m, y);
        float scale = (float)(1.0 / kernel_sum_row(n, y));
        for (int64_t i = 0; i < n; i++)
            y[i] *= scale;
    } else {
        float lse = m + (float)log(kernel_exp_row_sum(n, x, m));
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] - lse;
    }
}

KERNEL_CLONES static void softmax_body(void *argument, int64_t first, int64_t last)
{
    const struct lines *j = argument;
    for (int64_t i = first; i < last; i++) {
        int64_t base = i / j->inner * j->n * j->inner + i % j->inner, s = j->inner;
        if (s == 1) {
            softmax_row(j->n, j->x + base, j->y + base, j->mode);
            continue;
        }
        float m = -INFINITY;
        double sum = 0;
        for (int64_t k = 0; k < j->n; k++)
            m = fmaxf(m, j->x[base + k * s]);
        for (int64_t k = 0; k < j->n; k++)
            sum += (double)(j->y[base + k * s] = kernel_expf(j->x[base + k * s] - m));
        float lse = m + (float)log(sum), scale = (float)(1.0 / sum);
        for (int64_t k = 0; k < j->n; k++)
            j->y[base + k * s] =
                j->mode == KERNEL_SOFTMAX ? j->y[base + k * s] * scale : j->x[base + k * s] - lse;
    }
}

KERNEL_CLONES static void softmax_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct lines *j = argument;
    for (int64_t i = first; i < last; i++) {
        int64_t base = i / j->inner * j->n * j->inner + i % j->inner, s = j->inner;
        const float *dy = j->x + base, *y = j->y_in + base;
        float *dx = j->y + base;
        double sum = 0;
        if (s == 1)
            sum =
                j->mode == KERNEL_SOFTMAX ? kernel_dot_row(j->n, dy, y) : kernel_sum_row(j->n, dy);
        else
            for (int64_t k = 0; k < j->n; k++)
                sum += (double)dy[k * s] * (j->mode == KERNEL_SOFTMAX ? (double)y[k * s] : 1.0);
        float total = (float)sum;
        for (int64_t k = 0; k < j->n; k++)
            dx[k * s] = j->mode == KERNEL_SOFTMAX ? y[k * s] * (dy[k * s] - total)
                                                  : dy[k * s] - kernel_expf(y[k * s]) * total;
    }
}

KERNEL_CLONES static void logsumexp_body(void *argument, int64_t first, int64_t last)
{
    const struct lines *j = argument;
    for (int64_t i = first; i < last; i++) {
        const float *x = j->x + i / j->inner * j->n * j->inner + i % j->inner;
        float m = -INFINITY;
        double sum = 0;
        for (int64_t k = 0; k < j->n; k++)
            m = fmaxf(m, x[k * j->inner]);
        if (j->inner == 1)
            sum = kernel_exp_row_sum(j->n, x, m);
        else
            for (int64_t k = 0; k < j->n; k++)
                sum += (double)kernel_expf(x[k * j->inner] - m);
        j->y[i] = m + (float)log(sum);
    }
}

KERNEL_CPU(lines)
{
    static const struct {
        kernel_body body;
        int work, mode;
    } kinds[] = {[KERNEL_SOFTMAX] = {softmax_body, 4, KERNEL_SOFTMAX},
                 [KERNEL_LOG_SOFTMAX] = {softmax_body, 4, KERNEL_LOG_SOFTMAX},
                 [KERNEL_SOFTMAX_GRAD] = {softmax_grad_body, 4, KERNEL_SOFTMAX},
                 [KERNEL_LOG_SOFTMAX_GRAD] = {softmax_grad_body, 4, KERNEL_LOG_SOFTMAX},
                 [KERNEL_LOGSUMEXP] = {logsumexp_body, 4, 0},
                 [KERNEL_ARGMAX] = {argmax_body, 1, 0},
                 [KERNEL_CUMSUM] = {cumsum_body, 1, 0}};
    const struct kernel_lines_desc *d = desc;
    struct lines job = {.n = d->n,
                        .inner = d->inner,
                        .mode = d->f == KERNEL_CUMSUM ? d->is_reverse : kinds[d->f].mode,
                        .x = args->in[0],
                        .y_in = args->in[1],
                        .y = args->out[0],
                        .index = args->out[0]};
    return kernel_parallel(c, d->outer * d->inner, d->n * kinds[d->f].work, kinds[d->f].body, &job);
}
