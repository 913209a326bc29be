/* loss.c - element-wise losses and cross entropy, with their reductions. Sums in double, in order.
 */
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

static double divisor(enum kernel_reduction r, int64_t n, int64_t batch)
{
    return r == KERNEL_REDUCE_MEAN ? (double)n : r == KERNEL_REDUCE_BATCHMEAN ? (double)batch : 1.0;
}

void kernel_loss(const struct kernel_context *c, enum kernel_loss f, enum kernel_reduction r,
                 int64_t n, int64_t batch, float beta, const float *x, const float *t, float *y)
{
    double sum = 0;
    (void)c;
    for (int64_t i = 0; i < n; i++) {
        float v = loss_value(f, x[i], t[i], beta);
        if (r == KERNEL_REDUCE_NONE)
            y[i] = v;
        sum += (double)v;
    }
    if (r != KERNEL_REDUCE_NONE)
        y[0] = (float)(sum / divisor(r, n, batch));
}

struct loss_job {
    enum kernel_loss f;
    bool is_none;
    float beta, scale;
    const float *dy, *x, *t;
    float *dx;
};

static void loss_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct loss_job *j = argument;
    for (int64_t i = first; i < last; i++)
        j->dx[i] = (j->is_none ? j->dy[i] : j->scale) * loss_slope(j->f, j->x[i], j->t[i], j->beta);
}

void kernel_loss_grad(const struct kernel_context *c, enum kernel_loss f, enum kernel_reduction r,
                      int64_t n, int64_t batch, float beta, const float *dy, const float *x,
                      const float *t, float *dx)
{
    struct loss_job job = {.f = f,
                           .is_none = r == KERNEL_REDUCE_NONE,
                           .beta = beta,
                           .dy = dy,
                           .x = x,
                           .t = t,
                           .dx = dx};
    if (!job.is_none)
        job.scale = (float)((double)dy[0] / divisor(r, n, batch));
    kernel_parallel(c, n, KERNEL_GRAIN, loss_grad_body, &job);
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
static double log_sum(const struct kernel_cross_entropy *e, const float *x)
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

static double position_loss(const struct kernel_cross_entropy *e, const float *x, int64_t t,
                            const float *weight)
{
    double lse = e->is_log_prob ? 0.0 : log_sum(e, x);
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

enum ebb_status kernel_cross_entropy(const struct kernel_context *c,
                                     const struct kernel_cross_entropy *e, const float *x,
                                     const int64_t *target, const float *weight, float *y,
                                     struct ebb_error *err)
{
    double sum = 0;
    (void)c;
    EBB_TRY(check_targets(e, target, err));
    for (int64_t i = 0; i < e->n * e->inner; i++) {
        const float *p = x + i / e->inner * e->classes * e->inner + i % e->inner;
        double v = target[i] == e->ignore_index ? 0.0 : position_loss(e, p, target[i], weight);
        if (e->reduction == KERNEL_REDUCE_NONE)
            y[i] = (float)v;
        sum += v;
    }
    if (e->reduction == KERNEL_REDUCE_MEAN)
        y[0] = (float)(sum / weight_total(e, target, weight));
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

static void entropy_grad_position(const struct entropy_job *j, int64_t i)
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
    bool is_plain = e->inner == 1 && !is_ignored && !e->is_log_prob && e->smoothing == 0.0f;
    if (is_plain)
        softmax_scaled(e->classes, x, lse, share, dx);
    for (int64_t k = 0; !is_plain && k < e->classes; k++) {
        float v = 0.0f;
        if (!is_ignored && !e->is_log_prob)
            v = kernel_expf(x[k * e->inner] - lse) * share;
        if (!is_ignored && e->smoothing != 0.0f)
            v -= (float)(g * smooth * (j->weight ? (double)j->weight[k] : 1.0));
        dx[k * e->inner] = v;
    }
    if (!is_ignored)
        dx[t * e->inner] -= (float)(g * (1.0 - (double)e->smoothing) * wt);
}

static void entropy_grad_body(void *argument, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++)
        entropy_grad_position(argument, i);
}

enum ebb_status kernel_cross_entropy_grad(const struct kernel_context *c,
                                          const struct kernel_cross_entropy *e, const float *dy,
                                          const float *x, const int64_t *target,
                                          const float *weight, float *dx, struct ebb_error *err)
{
    struct entropy_job job = {.e = e,
                              .dy = dy,
                              .x = x,
                              .weight = weight,
                              .target = target,
                              .dx = dx,
                              .weight_sum = (double)e->classes};
    EBB_TRY(check_targets(e, target, err));
    if (e->reduction != KERNEL_REDUCE_NONE)
        job.scale = (double)dy[0];
    if (e->reduction == KERNEL_REDUCE_MEAN)
        job.scale /= weight_total(e, target, weight);
    if (weight) {
        job.weight_sum = 0;
        for (int64_t k = 0; k < e->classes; k++)
            job.weight_sum += (double)weight[k];
    }
    kernel_parallel(c, e->n * e->inner, kernel_piece(e->classes * 4), entropy_grad_body, &job);
    return EBB_OK;
}
