/* loss.c - element-wise losses and cross entropy, with their reductions. Sums in double, in 64
 * parts that are added in order. */
#include "kernel/internal.h"

#define LOG_FLOOR -100.0f /* torch clamps the logarithms of bce */
#define BCE_FLOOR 1e-12f

static float loss_value(enum kernel_loss f, float x, float t, float beta)
{
    float d = x - t, a = fabsf(d);
    switch (f) {
    case KERNEL_MSE:
        return d * d;
    case KERNEL_L1:
        return a;
    case KERNEL_SMOOTH_L1:
        return a < beta ? 0.5f * d * d / beta : a - 0.5f * beta;
    case KERNEL_BCE:
        return -(t * fmaxf(logf(x), LOG_FLOOR) + (1.0f - t) * fmaxf(log1pf(-x), LOG_FLOOR));
    case KERNEL_BCE_LOGITS:
        return fmaxf(x, 0.0f) - x * t + log1pf(kernel_expf(-fabsf(x)));
    case KERNEL_KL:
        return t > 0.0f ? t * (logf(t) - x) : 0.0f;
    }
    return 0.0f;
}

static float loss_slope(enum kernel_loss f, float x, float t, float beta)
{
    float d = x - t, sign = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : 0.0f;
    switch (f) {
    case KERNEL_MSE:
        return 2.0f * d;
    case KERNEL_L1:
        return sign;
    case KERNEL_SMOOTH_L1:
        return fabsf(d) < beta ? d / beta : sign;
    case KERNEL_BCE:
        return d / fmaxf(x * (1.0f - x), BCE_FLOOR);
    case KERNEL_BCE_LOGITS:
        return kernel_sigmoidf(x) - t;
    case KERNEL_KL:
        return t > 0.0f ? -t : 0.0f;
    }
    return 0.0f;
}

static double divisor(const struct kernel_loss_desc *d)
{
    return d->reduction == KERNEL_REDUCE_MEAN        ? (double)d->n
           : d->reduction == KERNEL_REDUCE_BATCHMEAN ? (double)d->batch
                                                     : 1.0;
}

#define SEGMENTS 64 /* partial sums, added in order */

struct value_job {
    enum kernel_loss f;
    int64_t n;
    float beta;
    const float *x, *t;
    float *y; /* NULL: only the sum */
    double partial[SEGMENTS];
};

KERNEL_CLONES static void value_segments(void *argument, int64_t first, int64_t last)
{
    struct value_job *j = argument;
    for (int64_t s = first; s < last; s++) {
        double sum = 0;
        for (int64_t i = j->n * s / SEGMENTS; i < j->n * (s + 1) / SEGMENTS; i++) {
            float v = loss_value(j->f, j->x[i], j->t[i], j->beta);
            if (j->y)
                j->y[i] = v;
            sum += (double)v;
        }
        j->partial[s] = sum;
    }
}

KERNEL_CPU(loss)
{
    const struct kernel_loss_desc *d = desc;
    float *y = args->out[0];
    struct value_job job = {.f = (enum kernel_loss)d->f,
                            .n = d->n,
                            .beta = d->beta,
                            .x = args->in[0],
                            .t = args->in[1]};
    double sum = 0;
    job.y = d->reduction == KERNEL_REDUCE_NONE ? y : NULL;
    kernel_parallel(c, SEGMENTS, kernel_piece(8 * d->n / SEGMENTS), value_segments, &job);
    for (int s = 0; s < SEGMENTS; s++)
        sum += job.partial[s];
    if (d->reduction != KERNEL_REDUCE_NONE)
        y[0] = (float)(sum / divisor(d));
    return EBB_OK;
}

struct loss_job {
    enum kernel_loss f;
    bool is_none;
    float beta, scale;
    const float *dy, *x, *t;
    float *dx;
};

KERNEL_CLONES static void loss_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct loss_job *j = argument;
    for (int64_t i = first; i < last; i++)
        j->dx[i] = (j->is_none ? j->dy[i] : j->scale) * loss_slope(j->f, j->x[i], j->t[i], j->beta);
}

KERNEL_CPU(loss_grad)
{
    const struct kernel_loss_desc *d = desc;
    struct loss_job job = {.f = (enum kernel_loss)d->f,
                           .is_none = d->reduction == KERNEL_REDUCE_NONE,
                           .beta = d->beta,
                           .dy = args->in[0],
                           .x = args->in[1],
                           .t = args->in[2],
                           .dx = args->out[0]};
    if (!job.is_none)
        job.scale = (float)((double)job.dy[0] / divisor(d));
    return kernel_parallel(c, d->n, KERNEL_GRAIN, loss_grad_body, &job);
}

/* ---- cross entropy -------------------------------------------------------------------------- */

static enum ebb_status check_targets(const struct kernel_cross_entropy *e, const int64_t *target,
                                     struct ebb_error *err)
{
    for (int64_t i = 0; i < e->n * e->inner; i++)
        if (target[i] != e->ignore_index && (target[i] < 0 || target[i] >= e->classes))
            return ebb_fail(err, EBB_EINPUT,
                            "cross_entropy: target %lld at element %lld, allowed are 0 to %lld",
                            (long long)target[i], (long long)i, (long long)(e->classes - 1));
    return EBB_OK;
}

/* Largest logit and log of the sum of exponentials of one position. */
static inline __attribute__((always_inline)) double log_sum(const struct kernel_cross_entropy *e,
                                                            const float *x)
{
    float m = -INFINITY;
    double sum = 0;
    if (e->inner == 1) {
        m = kernel_max_row(e->classes, x, m);
        return (double)m + log(kernel_exp_row_sum(e->classes, x, m));
    }
    for (int64_t k = 0; k < e->classes; k++)
        m = fmaxf(m, x[k * e->inner]);
    for (int64_t k = 0; k < e->classes; k++)
        sum += (double)kernel_expf(x[k * e->inner] - m);
    return (double)m + log(sum);
}

static double position_loss(const struct kernel_cross_entropy *e, const float *x, double lse,
                            int64_t t, const float *weight)
{
    double wt = weight ? (double)weight[t] : 1.0;
    double value = wt * (lse - (double)x[t * e->inner]);
    if (e->smoothing == 0.0f)
        return value;
    double smooth = 0;
    for (int64_t k = 0; k < e->classes; k++)
        smooth += (weight ? (double)weight[k] : 1.0) * (lse - (double)x[k * e->inner]);
    return (1.0 - (double)e->smoothing) * value +
           (double)e->smoothing / (double)e->classes * smooth;
}

static double weight_total(const struct kernel_cross_entropy *e, const int64_t *target,
                           const float *weight)
{
    double total = 0;
    for (int64_t i = 0; i < e->n * e->inner; i++)
        if (target[i] != e->ignore_index)
            total += weight ? (double)weight[target[i]] : 1.0;
    return total;
}

struct sum_job {
    const struct kernel_cross_entropy *e;
    const float *x, *weight;
    const int64_t *target;
    float *y, *lse; /* y: reduction none; lse: kept per position; either may be NULL */
    double partial[SEGMENTS];
};

KERNEL_CLONES static void sum_segments(void *argument, int64_t first, int64_t last)
{
    struct sum_job *j = argument;
    const struct kernel_cross_entropy *e = j->e;
    int64_t n = e->n * e->inner;
    for (int64_t s = first; s < last; s++) {
        double sum = 0;
        for (int64_t i = n * s / SEGMENTS; i < n * (s + 1) / SEGMENTS; i++) {
            const float *p = j->x + i / e->inner * e->classes * e->inner + i % e->inner;
            bool is_ignored = j->target[i] == e->ignore_index;
            double lse = is_ignored || e->is_log_prob ? 0.0 : log_sum(e, p);
            double v = is_ignored ? 0.0 : position_loss(e, p, lse, j->target[i], j->weight);
            if (j->y)
                j->y[i] = (float)v;
            if (j->lse)
                j->lse[i] = (float)lse;
            sum += v;
        }
        j->partial[s] = sum;
    }
}

static double sum_losses(const struct kernel_context *c, struct sum_job *job)
{
    const struct kernel_cross_entropy *e = job->e;
    double sum = 0;
    int64_t work = kernel_max(1, e->n * e->inner * e->classes / SEGMENTS);
    kernel_parallel(c, SEGMENTS, kernel_piece(work), sum_segments, job);
    for (int s = 0; s < SEGMENTS; s++)
        sum += job->partial[s];
    return sum;
}

KERNEL_CPU(cross_entropy)
{
    const struct kernel_cross_entropy *e = desc;
    float *y = args->out[0];
    struct sum_job job = {.e = e, .x = args->in[0], .target = args->in[1], .weight = args->in[2]};
    job.y = e->reduction == KERNEL_REDUCE_NONE ? y : NULL;
    EBB_TRY(check_targets(e, job.target, err));
    double sum = sum_losses(c, &job);
    if (e->reduction == KERNEL_REDUCE_MEAN)
        y[0] = (float)(sum / weight_total(e, job.target, job.weight));
    else if (e->reduction == KERNEL_REDUCE_SUM)
        y[0] = (float)sum;
    return EBB_OK;
}

struct entropy_job {
    const struct kernel_cross_entropy *e;
    double scale, weight_sum;
    const float *dy, *x, *weight;
    const int64_t *target;
    float *dx;
};

KERNEL_CLONES static void softmax_scaled(int64_t n, const float *restrict x, float lse, float share,
                                         float *restrict dx)
{
    for (int64_t k = 0; k < n; k++)
        dx[k] = kernel_expf(x[k] - lse) * share;
}

KERNEL_CLONES static void softmax_in_place(int64_t n, float *x, float lse, float share)
{
    for (int64_t k = 0; k < n; k++)
        x[k] = kernel_expf(x[k] - lse) * share;
}

static inline __attribute__((always_inline)) void entropy_grad_position(const struct entropy_job *j,
                                                                        int64_t i)
{
    const struct kernel_cross_entropy *e = j->e;
    int64_t base = i / e->inner * e->classes * e->inner + i % e->inner, t = j->target[i];
    float *dx = j->dx + base;
    const float *x = j->x + base;
    bool is_ignored = t == e->ignore_index;
    double g = e->reduction == KERNEL_REDUCE_NONE ? (double)j->dy[i] : j->scale;
    double wt = is_ignored ? 0.0 : j->weight ? (double)j->weight[t] : 1.0;
    double smooth = (double)e->smoothing / (double)e->classes;
    float lse = is_ignored || e->is_log_prob ? 0.0f : (float)log_sum(e, x);
    float share = (float)(g * ((1.0 - (double)e->smoothing) * wt + smooth * j->weight_sum));
    bool is_smooth = !is_ignored && e->smoothing != 0.0f;
    bool is_plain = e->inner == 1 && !is_ignored && !e->is_log_prob && !is_smooth;
    if (is_plain)
        softmax_scaled(e->classes, x, lse, share, dx);
    for (int64_t k = 0; !is_plain && !is_smooth && k < e->classes; k++)
        dx[k * e->inner] =
            is_ignored || e->is_log_prob ? 0.0f : kernel_expf(x[k * e->inner] - lse) * share;
    for (int64_t k = 0; is_smooth && k < e->classes; k++) { /* differences first: one class has 0 */
        double p = (double)kernel_expf(x[k * e->inner] - lse);
        double w = j->weight ? (double)j->weight[k] : 1.0;
        double hit = (1.0 - (double)e->smoothing) * wt * (p - (k == t ? 1.0 : 0.0));
        dx[k * e->inner] = (float)(g * (hit + smooth * (j->weight_sum * p - w)));
    }
    if (!is_ignored && !is_smooth)
        dx[t * e->inner] -= (float)(g * (1.0 - (double)e->smoothing) * wt);
}

KERNEL_CLONES static void entropy_grad_body(void *argument, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++)
        entropy_grad_position(argument, i);
}

KERNEL_CPU(cross_entropy_grad)
{
    const struct kernel_cross_entropy *e = desc;
    struct entropy_job job = {.e = e,
                              .dy = args->in[0],
                              .x = args->in[1],
                              .target = args->in[2],
                              .weight = args->in[3],
                              .dx = args->out[0],
                              .weight_sum = (double)e->classes};
    EBB_TRY(check_targets(e, job.target, err));
    if (e->reduction != KERNEL_REDUCE_NONE)
        job.scale = (double)job.dy[0];
    if (e->reduction == KERNEL_REDUCE_MEAN)
        job.scale /= weight_total(e, job.target, job.weight);
    if (job.weight) {
        job.weight_sum = 0;
        for (int64_t k = 0; k < e->classes; k++)
            job.weight_sum += (double)job.weight[k];
    }
    return kernel_parallel(c, e->n * e->inner, kernel_piece(e->classes * 4), entropy_grad_body,
                           &job);
}

/* ---- cross entropy of a product, by blocks of rows ------------------------------------------- */

enum ebb_status kernel_entropy_check(const struct kernel_cross_entropy *e, const int64_t *target,
                                     double *total, struct ebb_error *err)
{
    EBB_TRY(check_targets(e, target, err));
    *total = e->reduction == KERNEL_REDUCE_MEAN ? weight_total(e, target, NULL) : 1.0;
    return EBB_OK;
}

double kernel_entropy_block(const struct kernel_context *c, const struct kernel_cross_entropy *e,
                            const float *x, const int64_t *target, float *lse)
{
    struct sum_job job = {.e = e, .x = x, .target = target, .lse = lse};
    return sum_losses(c, &job);
}

struct block_job {
    const struct kernel_cross_entropy *e;
    float scale, *x;
    const float *lse;
    const int64_t *target;
};

static void block_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct block_job *j = argument;
    const int64_t n = j->e->classes;
    for (int64_t i = first; i < last; i++) {
        float *x = j->x + i * n;
        if (j->target[i] == j->e->ignore_index) {
            memset(x, 0, (size_t)n * sizeof *x);
            continue;
        }
        softmax_in_place(n, x, j->lse[i], j->scale);
        x[j->target[i]] -= j->scale;
    }
}

void kernel_entropy_block_grad(const struct kernel_context *c, const struct kernel_cross_entropy *e,
                               float scale, const int64_t *target, const float *lse, float *x)
{
    struct block_job job = {.e = e, .scale = scale, .x = x, .lse = lse, .target = target};
    kernel_parallel(c, e->n, kernel_piece(e->classes * 4), block_grad_body, &job);
}
