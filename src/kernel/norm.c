/* norm.c - batch, layer and root-mean-square normalisation. Statistics in double. */
#include "base/heap.h"
#include "kernel/internal.h"

struct batch_job {
    int64_t n, channels, spatial;
    float eps;
    const float *dy, *x, *w, *b, *mean_in, *var_in;
    float *y, *mean, *var, *dx, *dw, *db;
};

static void moments(const struct batch_job *j, int64_t ch, double *mean, double *var)
{
    double sum = 0, squares = 0, count = (double)(j->n * j->spatial);
    for (int64_t i = 0; i < j->n; i++)
        sum += kernel_sum_row(j->spatial, j->x + (i * j->channels + ch) * j->spatial);
    float center = (float)(sum / count);
    double shift = 0;
    for (int64_t i = 0; i < j->n; i++) { /* around the rounded mean, corrected by what it missed */
        const float *x = j->x + (i * j->channels + ch) * j->spatial;
        for (int64_t k = 0; k < j->spatial; k++) {
            double d = (double)x[k] - (double)center;
            shift += d;
            squares += d * d;
        }
    }
    shift /= count;
    *mean = sum / count;
    *var = squares / count - shift * shift;
}

KERNEL_CLONES static void scale_row(int64_t n, const float *restrict x, float *restrict y,
                                    float mean, float scale, float shift)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * scale + shift;
}

static void batch_body(void *argument, int64_t first, int64_t last)
{
    const struct batch_job *j = argument;
    for (int64_t ch = first; ch < last; ch++) {
        double mean, var;
        if (j->mean_in) {
            mean = (double)j->mean_in[ch];
            var = (double)j->var_in[ch];
        } else {
            moments(j, ch, &mean, &var);
            /* y uses the rounded statistics, so that remaking y from them gives the same bits */
            mean = (double)(float)mean;
            var = (double)(float)var;
        }
        if (j->mean)
            j->mean[ch] = (float)mean;
        if (j->var)
            j->var[ch] = (float)var;
        if (!j->y)
            continue;
        float scale = (float)(1.0 / sqrt(var + (double)j->eps)) * (j->w ? j->w[ch] : 1.0f);
        for (int64_t i = 0; i < j->n; i++) {
            int64_t at = (i * j->channels + ch) * j->spatial;
            scale_row(j->spatial, j->x + at, j->y + at, (float)mean, scale, j->b ? j->b[ch] : 0.0f);
        }
    }
}

void kernel_batch_norm(const struct kernel_context *c, int64_t n, int64_t channels, int64_t spatial,
                       float eps, const float *x, const float *w, const float *b, float *y,
                       float *mean, float *var)
{
    struct batch_job job = {.n = n,
                            .channels = channels,
                            .spatial = spatial,
                            .eps = eps,
                            .x = x,
                            .w = w,
                            .b = b,
                            .y = y,
                            .mean = mean,
                            .var = var};
    kernel_parallel(c, channels, kernel_piece(n * spatial), batch_body, &job);
}

void kernel_batch_norm_apply(const struct kernel_context *c, int64_t n, int64_t channels,
                             int64_t spatial, float eps, const float *x, const float *w,
                             const float *b, const float *mean, const float *var, float *y)
{
    struct batch_job job = {.n = n,
                            .channels = channels,
                            .spatial = spatial,
                            .eps = eps,
                            .x = x,
                            .w = w,
                            .b = b,
                            .y = y,
                            .mean_in = mean,
                            .var_in = var};
    kernel_parallel(c, channels, kernel_piece(n * spatial), batch_body, &job);
}

KERNEL_CLONES static void batch_dx_row(int64_t n, const float *restrict dy, const float *restrict x,
                                       float *restrict dx, float mean, float a, float b, float d)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = a * (dy[i] - b - (x[i] - mean) * d);
}

static void batch_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct batch_job *j = argument;
    double count = (double)(j->n * j->spatial);
    for (int64_t ch = first; ch < last; ch++) {
        double sum = 0, dot = 0, mean = (double)j->mean_in[ch];
        double invstd = 1.0 / sqrt((double)j->var_in[ch] + (double)j->eps);
        for (int64_t i = 0; i < j->n; i++) {
            int64_t at = (i * j->channels + ch) * j->spatial;
            for (int64_t k = 0; k < j->spatial; k++) {
                sum += (double)j->dy[at + k];
                dot += (double)j->dy[at + k] * ((double)j->x[at + k] - mean);
            }
        }
        if (j->dw)
            j->dw[ch] = (float)(dot * invstd);
        if (j->db)
            j->db[ch] = (float)sum;
        if (!j->dx)
            continue;
        float a = (float)(invstd * (j->w ? (double)j->w[ch] : 1.0));
        for (int64_t i = 0; i < j->n; i++) {
            int64_t at = (i * j->channels + ch) * j->spatial;
            batch_dx_row(j->spatial, j->dy + at, j->x + at, j->dx + at, (float)mean, a,
                         (float)(sum / count), (float)(dot * invstd * invstd / count));
        }
    }
}

void kernel_batch_norm_grad(const struct kernel_context *c, int64_t n, int64_t channels,
                            int64_t spatial, float eps, const float *dy, const float *x,
                            const float *w, const float *mean, const float *var, float *dx,
                            float *dw, float *db)
{
    struct batch_job job = {.n = n,
                            .channels = channels,
                            .spatial = spatial,
                            .eps = eps,
                            .dy = dy,
                            .x = x,
                            .w = w,
                            .mean_in = mean,
                            .var_in = var,
                            .dx = dx,
                            .dw = dw,
                            .db = db};
    kernel_parallel(c, channels, kernel_piece(n * spatial), batch_grad_body, &job);
}

/* ---- rows ----------------------------------------------------------------------------------- */

struct layer_job {
    int64_t rows, n;
    float eps;
    const float *dy, *x, *w, *b, *mean_in, *rstd_in;
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

static void layer_body(void *argument, int64_t first, int64_t last)
{
    const struct layer_job *j = argument;
    for (int64_t r = first; r < last; r++) {
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

void kernel_layer_norm(const struct kernel_context *c, int64_t rows, int64_t n, float eps,
                       const float *x, const float *w, const float *b, float *y, float *mean,
                       float *rstd)
{
    struct layer_job job = {.rows = rows,
                            .n = n,
                            .eps = eps,
                            .x = x,
                            .w = w,
                            .b = b,
                            .y = y,
                            .mean = mean,
                            .rstd = rstd,
                            .is_rms = !mean};
    kernel_parallel(c, rows, kernel_piece(n), layer_body, &job);
}

static int64_t row_blocks(int64_t rows)
{
    return (rows + ROW_BLOCK - 1) / ROW_BLOCK;
}

size_t kernel_layer_norm_grad_workspace(int64_t rows, int64_t n)
{
    return (size_t)(row_blocks(rows) * 2 * n) * sizeof(float);
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
}

static void layer_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct layer_job *j = argument;
    for (int64_t block = first; block < last; block++) {
        float *pw = j->partial + block * 2 * j->n, *pb = pw + j->n;
        memset(pw, 0, (size_t)(2 * j->n) * sizeof *pw);
        int64_t end = kernel_min(j->rows, (block + 1) * ROW_BLOCK);
        for (int64_t r = block * ROW_BLOCK; r < end; r++)
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

void kernel_layer_norm_grad(const struct kernel_context *c, int64_t rows, int64_t n,
                            const float *dy, const float *x, const float *w, const float *mean,
                            const float *rstd, float *dx, float *dw, float *db, void *workspace)
{
    struct layer_job job = {.rows = rows,
                            .n = n,
                            .dy = dy,
                            .x = x,
                            .w = w,
                            .mean_in = mean,
                            .rstd_in = rstd,
                            .dx = dx,
                            .dw = dw,
                            .db = db,
                            .partial = workspace,
                            .is_rms = !mean};
    kernel_parallel(c, row_blocks(rows), 1, layer_grad_body, &job);
    if (dw || db)
        kernel_parallel(c, n, kernel_piece(row_blocks(rows)), layer_sum_body, &job);
}
