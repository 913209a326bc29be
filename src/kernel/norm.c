/* norm.c - layer and root-mean-square normalisation. */
#include "base/heap.h"
#include "kernel/internal.h"

/* ---- rows ----------------------------------------------------------------------------------- */

struct layer_job {
    int64_t rows, n;
    float eps;
    const float *dy, *x, *w, *b, *mean_in, *rstd_in, *more;
    float *y, *mean, *rstd, *dx, *dw, *db;
    float *partial; /* [blocks][2][n] */
    bool is_rms;
};

#define ROW_BLOCK 64

KERNEL_CLONES static void layer_row(int64_t n, const float *restrict x, const float *restrict w,
                                    const float *restrict b, float *restrict y, float mean,
                                    float rstd)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * rstd;
    if (w)
        for (int64_t i = 0; i < n; i++)
            y[i] *= w[i];
    if (b)
        for (int64_t i = 0; i < n; i++)
            y[i] += b[i];
}

KERNEL_CLONES static float square_sum(int64_t n, const float *x, float mean)
{
    float lane[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++) {
            float d = x[i + k] - mean;
            lane[k] += d * d;
        }
    for (int k = 0; i < n; i++, k++)
        lane[k] += (x[i] - mean) * (x[i] - mean);
    for (int step = 8; step > 0; step /= 2)
        for (int k = 0; k < step; k++)
            lane[k] += lane[k + step];
    return lane[0];
}

/* Rows of a few elements are worked on in double: what is left of them after their mean and their
 * direction are taken away may be little. */
#define SHORT 64

struct moments {
    double mean, rstd;
};

static inline struct moments short_moments(const struct layer_job *j, const float *x)
{
    struct moments m = {0, 0};
    double squares = 0;
    for (int64_t i = 0; i < j->n && !j->is_rms; i++)
        m.mean += (double)x[i];
    m.mean /= (double)j->n;
    for (int64_t i = 0; i < j->n; i++)
        squares += ((double)x[i] - m.mean) * ((double)x[i] - m.mean);
    m.rstd = 1.0 / sqrt(squares / (double)j->n + (double)j->eps);
    return m;
}

KERNEL_CLONES static void layer_short_row(const struct layer_job *j, int64_t r)
{
    const float *x = j->x + r * j->n;
    struct moments m = short_moments(j, x);
    if (j->mean)
        j->mean[r] = (float)m.mean;
    if (j->rstd)
        j->rstd[r] = (float)m.rstd;
    for (int64_t i = 0; i < j->n && j->y; i++) {
        double y = ((double)x[i] - m.mean) * m.rstd * (j->w ? (double)j->w[i] : 1.0);
        j->y[r * j->n + i] = (float)(y + (j->b ? (double)j->b[i] : 0.0));
    }
}

KERNEL_CLONES static void layer_grad_short_row(const struct layer_job *j, int64_t r,
                                               float *restrict pw, float *restrict pb)
{
    const int64_t n = j->n;
    const float *dy = j->dy + r * n, *x = j->x + r * n;
    struct moments m = short_moments(j, x);
    double sum = 0, dot = 0, xhat[SHORT], g[SHORT];
    for (int64_t i = 0; i < n; i++) {
        xhat[i] = ((double)x[i] - m.mean) * m.rstd;
        g[i] = (double)dy[i] * (j->w ? (double)j->w[i] : 1.0);
        sum += g[i];
        dot += g[i] * xhat[i];
        pw[i] += (float)((double)dy[i] * xhat[i]);
        pb[i] += dy[i];
    }
    sum = j->is_rms ? 0 : sum / (double)n;
    for (int64_t i = 0; i < n && j->dx; i++)
        j->dx[r * n + i] = (float)(m.rstd * (g[i] - sum - xhat[i] * (dot / (double)n)));
    for (int64_t i = 0; i < n && j->dx && j->more; i++)
        j->dx[r * n + i] += j->more[r * n + i];
}

static void layer_body(void *argument, int64_t first, int64_t last)
{
    const struct layer_job *j = argument;
    for (int64_t r = first; r < last && j->n <= SHORT; r++)
        layer_short_row(j, r);
    for (int64_t r = first; r < last && j->n > SHORT; r++) {
        const float *x = j->x + r * j->n;
        float mean = j->is_rms ? 0.0f : (float)(kernel_sum_row(j->n, x) / (double)j->n);
        double squares = 0;
        for (int64_t i = 0; i < j->n; i += 1024)
            squares += (double)square_sum(kernel_min(1024, j->n - i), x + i, mean);
        float rstd = (float)(1.0 / sqrt(squares / (double)j->n + (double)j->eps));
        if (j->mean)
            j->mean[r] = mean;
        if (j->rstd)
            j->rstd[r] = rstd;
        if (j->y)
            layer_row(j->n, x, j->w, j->b, j->y + r * j->n, mean, rstd);
    }
}

KERNEL_CPU(layer_norm)
{
    const struct kernel_layer_norm_desc *d = desc;
    struct layer_job job = {.rows = d->rows,
                            .n = d->n,
                            .eps = d->eps,
                            .x = args->in[0],
                            .w = args->in[1],
                            .b = args->in[2],
                            .y = args->out[0],
                            .mean = args->out[1],
                            .rstd = args->out[2],
                            .is_rms = d->is_rms};
    return kernel_parallel(c, d->rows, 4 * d->n, layer_body, &job);
}

static int64_t row_blocks(int64_t rows)
{
    return (rows + ROW_BLOCK - 1) / ROW_BLOCK;
}

KERNEL_NEED(layer_norm_grad)
{
    const struct kernel_layer_norm_desc *d = desc;
    need->workspace_bytes = (uint64_t)(row_blocks(d->rows) * 2 * d->n) * sizeof(float);
    return EBB_OK;
}

KERNEL_CLONES static void layer_grad_row(const struct layer_job *j, int64_t r, float *restrict pw,
                                         float *restrict pb)
{
    const int64_t n = j->n;
    const float *restrict dy = j->dy + r * n, *restrict x = j->x + r * n, *restrict w = j->w;
    const float mean = j->is_rms ? 0.0f : j->mean_in[r], rstd = j->rstd_in[r];
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < n; i++) {
        float xhat = (x[i] - mean) * rstd, g = w ? dy[i] * w[i] : dy[i];
        sum += (double)g;
        dot += (double)g * (double)xhat;
        pw[i] += dy[i] * xhat;
        pb[i] += dy[i];
    }
    if (!j->dx)
        return;
    float *restrict dx = j->dx + r * n;
    float a = j->is_rms ? 0.0f : (float)(sum / (double)n), b = (float)(dot / (double)n);
    for (int64_t i = 0; i < n; i++) {
        float xhat = (x[i] - mean) * rstd, g = w ? dy[i] * w[i] : dy[i];
        dx[i] = rstd * (g - a - xhat * b);
    }
    for (int64_t i = 0; i < n && j->more; i++)
        dx[i] += j->more[r * n + i];
}

static void layer_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct layer_job *j = argument;
    for (int64_t block = first; block < last; block++) {
        float *pw = j->partial + block * 2 * j->n, *pb = pw + j->n;
        memset(pw, 0, (size_t)(2 * j->n) * sizeof *pw);
        int64_t end = kernel_min(j->rows, (block + 1) * ROW_BLOCK);
        for (int64_t r = block * ROW_BLOCK; r < end; r++)
            if (j->n <= SHORT)
                layer_grad_short_row(j, r, pw, pb);
            else
                layer_grad_row(j, r, pw, pb);
    }
}

static void layer_sum_body(void *argument, int64_t first, int64_t last)
{
    const struct layer_job *j = argument;
    int64_t blocks = row_blocks(j->rows);
    for (int64_t i = first; i < last; i++) {
        double dw = 0, db = 0;
        for (int64_t k = 0; k < blocks; k++) {
            dw += (double)j->partial[k * 2 * j->n + i];
            db += (double)j->partial[k * 2 * j->n + j->n + i];
        }
        if (j->dw)
            j->dw[i] = (float)dw;
        if (j->db)
            j->db[i] = (float)db;
    }
}

KERNEL_CPU(layer_norm_grad)
{
    const struct kernel_layer_norm_desc *d = desc;
    struct layer_job job = {.rows = d->rows,
                            .n = d->n,
                            .eps = d->eps,
                            .dy = args->in[0],
                            .x = args->in[1],
                            .w = args->in[2],
                            .mean_in = args->in[3],
                            .rstd_in = args->in[4],
                            .more = args->in_count > 5 ? args->in[5] : NULL,
                            .dx = args->out[0],
                            .dw = args->out[1],
                            .db = args->out[2],
                            .partial = args->workspace,
                            .is_rms = d->is_rms};
    kernel_parallel(c, row_blocks(d->rows), 8 * ROW_BLOCK * d->n, layer_grad_body, &job);
    if (job.dw || job.db)
        kernel_parallel(c, d->n, row_blocks(d->rows), layer_sum_body, &job);
    return EBB_OK;
}
