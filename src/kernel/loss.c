/* loss.c - element-wise losses with their reductions. Sums in double, in 64 parts that are added in
 * order. */
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
    kernel_parallel(c, SEGMENTS, 8 * d->n / SEGMENTS, value_segments, &job);
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
    return kernel_parallel(c, d->n, 1, loss_grad_body, &job);
}
