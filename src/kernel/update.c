/* update.c - one optimizer update of one tensor, in place.
 *
 * What changes from step to step comes in scalars[] (computed in double on the host, rounded once),
 * so the op itself is constant. Index 11 is the sign of the gradient (-1: maximize). The rest by
 * kind: sgd       0 lr, 1 decay, 2 momentum (0 at the first step), 3 1-dampening (1 at the first
 * step), 4 momentum adam      0 lr/(1-b1^t), 1 decay, 2 b1, 3 1-b1, 4 b2, 5 1-b2, 6 sqrt(1-b2^t), 7
 * eps, 8 weight factor rmsprop   0 lr, 1 decay, 2 alpha, 3 1-alpha, 4 eps, 5 momentum adagrad   0
 * rate, 1 decay, 2 eps adadelta  0 lr, 1 decay, 2 rho, 3 1-rho, 4 eps adamax    0 lr/(1-b1^t), 1
 * decay, 2 b1, 3 1-b1, 4 b2, 5 eps nadam     0 gradient rate, 1 decay, 2 b1, 3 1-b1, 4 b2, 5 1-b2,
 * 6 1-b2^t, 7 eps, 8 momentum rate radam     0 lr/(1-b1^t), 1 decay, 2 b1, 3 1-b1, 4 b2, 5 1-b2, 6
 * rectification * sqrt(1-b2^t) or 0, 7 eps lars      0 lr, 1 decay, 2 momentum (0 at the first
 * step), 3 eeta, 4 epsilon lamb      0 lr, 1 decay, 2 b1, 3 1-b1, 4 b2, 5 1-b2, 6 1-b1^t (or 1), 7
 * 1-b2^t (or 1), 8 eps        */
#include "kernel/internal.h"

struct update_job {
    unsigned flags;
    int64_t n;
    const float *g;
    float *w, *s0, *s1, *s2, *u;
    float k[KERNEL_UPDATE_SCALARS];
    float rate; /* lars, lamb: lr times the trust ratio */
    double *partial;
    const float *x;
};

int kernel_update_states(enum kernel_update f, unsigned flags)
{
    switch (f) {
    case KERNEL_UPDATE_SGD:
    case KERNEL_UPDATE_LARS:
        return flags & KERNEL_UPDATE_MOMENTUM ? 1 : 0;
    case KERNEL_UPDATE_ADAM:
        return flags & KERNEL_UPDATE_AMSGRAD ? 3 : 2;
    case KERNEL_UPDATE_RMSPROP:
        return 1 + !!(flags & KERNEL_UPDATE_MOMENTUM) + !!(flags & KERNEL_UPDATE_CENTERED);
    case KERNEL_UPDATE_ADAGRAD:
        return 1;
    default:
        return 2;
    }
}

/* Loop head: k = scalars, g = signed gradient with L2 decay added where `decay` is not 0. */
#define UPDATE(name, body)                                                                         \
    KERNEL_CLONES static void name(void *argument, int64_t first, int64_t last)                    \
    {                                                                                              \
        const struct update_job *j = argument;                                                     \
        const float *restrict gradient = j->g;                                                     \
        float *restrict w = j->w, *restrict s0 = j->s0, *restrict s1 = j->s1,                      \
                        *restrict s2 = j->s2;                                                      \
        float k[KERNEL_UPDATE_SCALARS];                                                            \
        memcpy(k, j->k, sizeof k);                                                                 \
        const unsigned flags = j->flags;                                                           \
        (void)s0, (void)s1, (void)s2, (void)flags;                                                 \
        for (int64_t i = first; i < last; i++) {                                                   \
            float g = gradient[i] * k[11];                                                         \
            g = k[1] != 0.0f ? fmaf(k[1], w[i], g) : g;                                            \
            body                                                                                   \
        }                                                                                          \
    }

UPDATE(sgd_plain, { w[i] = fmaf(-k[0], g, w[i]); })
UPDATE(sgd_momentum, {
    s0[i] = fmaf(k[3], g, k[2] * s0[i]);
    w[i] = fmaf(-k[0], flags & KERNEL_UPDATE_NESTEROV ? fmaf(k[4], s0[i], g) : s0[i], w[i]);
})
UPDATE(adam, {
    s0[i] = fmaf(k[3], g, k[2] * s0[i]);
    s1[i] = fmaf(k[5] * g, g, k[4] * s1[i]);
    w[i] = w[i] * k[8] - k[0] * s0[i] / (sqrtf(s1[i]) / k[6] + k[7]);
})
UPDATE(adam_amsgrad, {
    s0[i] = fmaf(k[3], g, k[2] * s0[i]);
    s1[i] = fmaf(k[5] * g, g, k[4] * s1[i]);
    s2[i] = s2[i] > s1[i] ? s2[i] : s1[i];
    w[i] = w[i] * k[8] - k[0] * s0[i] / (sqrtf(s2[i]) / k[6] + k[7]);
})
UPDATE(rmsprop, {
    s0[i] = fmaf(k[3] * g, g, k[2] * s0[i]);
    w[i] = fmaf(-k[0], g / (sqrtf(s0[i]) + k[4]), w[i]);
})
UPDATE(rmsprop_momentum, {
    s0[i] = fmaf(k[3] * g, g, k[2] * s0[i]);
    s1[i] = k[5] * s1[i] + g / (sqrtf(s0[i]) + k[4]);
    w[i] = fmaf(-k[0], s1[i], w[i]);
})
UPDATE(rmsprop_centered, {
    s0[i] = fmaf(k[3] * g, g, k[2] * s0[i]);
    s1[i] = fmaf(k[3], g, k[2] * s1[i]);
    w[i] = fmaf(-k[0], g / (sqrtf(s0[i] - s1[i] * s1[i]) + k[4]), w[i]);
})
UPDATE(rmsprop_both, {
    s0[i] = fmaf(k[3] * g, g, k[2] * s0[i]);
    s2[i] = fmaf(k[3], g, k[2] * s2[i]);
    s1[i] = k[5] * s1[i] + g / (sqrtf(s0[i] - s2[i] * s2[i]) + k[4]);
    w[i] = fmaf(-k[0], s1[i], w[i]);
})
UPDATE(adagrad, {
    s0[i] = fmaf(g, g, s0[i]);
    w[i] = fmaf(-k[0], g / (sqrtf(s0[i]) + k[2]), w[i]);
})
UPDATE(adadelta, {
    s0[i] = fmaf(k[3] * g, g, k[2] * s0[i]);
    float d = sqrtf(s1[i] + k[4]) / sqrtf(s0[i] + k[4]) * g;
    s1[i] = fmaf(k[3] * d, d, k[2] * s1[i]);
    w[i] = fmaf(-k[0], d, w[i]);
})
UPDATE(adamax, {
    s0[i] = fmaf(k[3], g, k[2] * s0[i]);
    float a = fabsf(g) + k[5];
    float b = k[4] * s1[i];
    s1[i] = a > b ? a : b;
    w[i] -= k[0] * s0[i] / s1[i];
})
UPDATE(nadam, {
    s0[i] = fmaf(k[3], g, k[2] * s0[i]);
    s1[i] = fmaf(k[5] * g, g, k[4] * s1[i]);
    float d = sqrtf(s1[i] / k[6]) + k[7];
    w[i] -= k[0] * (g / d) + k[8] * (s0[i] / d);
})
UPDATE(radam, {
    s0[i] = fmaf(k[3], g, k[2] * s0[i]);
    s1[i] = fmaf(k[5] * g, g, k[4] * s1[i]);
    float d = k[6] != 0.0f ? s0[i] * k[6] / (sqrtf(s1[i]) + k[7]) : s0[i];
    w[i] = fmaf(-k[0], d, w[i]);
})

KERNEL_CLONES static void lars(void *argument, int64_t first, int64_t last)
{
    const struct update_job *j = argument;
    for (int64_t i = first; i < last; i++) {
        float d = j->g[i] * j->k[11];
        if (!(j->flags & KERNEL_UPDATE_NO_TRUST))
            d = d + j->k[1] * j->w[i];
        if (j->flags & KERNEL_UPDATE_MOMENTUM)
            d = j->s0[i] = j->k[2] * j->s0[i] + d;
        j->w[i] -= j->rate * d;
    }
}

KERNEL_CLONES static void lamb(void *argument, int64_t first, int64_t last)
{
    const struct update_job *j = argument;
    const float *k = j->k;
    for (int64_t i = first; i < last; i++) {
        float g = j->g[i] * k[11];
        j->s0[i] = k[2] * j->s0[i] + k[3] * g;
        j->s1[i] = k[4] * j->s1[i] + k[5] * (g * g);
        j->u[i] = j->s0[i] / k[6] / (sqrtf(j->s1[i] / k[7]) + k[8]) + k[1] * j->w[i];
    }
}

KERNEL_CLONES static void lamb_apply(void *argument, int64_t first, int64_t last)
{
    const struct update_job *j = argument;
    for (int64_t i = first; i < last; i++)
        j->w[i] -= j->rate * j->u[i];
}

#define SEGMENTS 64

static void norm_body(void *argument, int64_t first, int64_t last)
{
    const struct update_job *j = argument;
    for (int64_t s = first; s < last; s++) {
        int64_t a = j->n * s / SEGMENTS, b = j->n * (s + 1) / SEGMENTS;
        j->partial[s] = kernel_dot_row(b - a, j->x + a, j->x + a);
    }
}

/* Euclidean norm: SEGMENTS partial sums, added in order. */
static double norm(const struct kernel_context *c, struct update_job *job, const float *x)
{
    double partial[SEGMENTS], sum = 0;
    job->partial = partial;
    job->x = x;
    kernel_parallel(c, SEGMENTS, job->n > KERNEL_GRAIN ? 1 : SEGMENTS, norm_body, job);
    for (int i = 0; i < SEGMENTS; i++)
        sum += partial[i];
    return sqrt(sum);
}

static void run_lars(const struct kernel_context *c, struct update_job *job)
{
    double w = norm(c, job, job->w), g = norm(c, job, job->g), trust = 1;
    if (!(job->flags & KERNEL_UPDATE_NO_TRUST) && w > 0 && g > 0)
        trust = (double)job->k[3] * w / (g + (double)job->k[1] * w + (double)job->k[4]);
    job->rate = (float)((double)job->k[0] * trust);
    kernel_parallel(c, job->n, KERNEL_GRAIN, lars, job);
}

static void run_lamb(const struct kernel_context *c, struct update_job *job)
{
    double trust = 1;
    kernel_parallel(c, job->n, KERNEL_GRAIN, lamb, job);
    if (job->k[1] != 0.0f && !(job->flags & KERNEL_UPDATE_NO_TRUST)) {
        double w = norm(c, job, job->w), u = norm(c, job, job->u);
        trust = w > 0 && u > 0 ? w / u : 1;
    }
    job->rate = (float)((double)job->k[0] * trust);
    kernel_parallel(c, job->n, KERNEL_GRAIN, lamb_apply, job);
}

void kernel_update_run(const struct kernel_context *c, enum kernel_update f, unsigned flags,
                       int64_t n, const float *scalars, const float *g, float *w,
                       float *const *states, float *workspace)
{
    static const kernel_body bodies[KERNEL_UPDATE_COUNT] = {
        [KERNEL_UPDATE_SGD] = sgd_plain,     [KERNEL_UPDATE_ADAM] = adam,
        [KERNEL_UPDATE_RMSPROP] = rmsprop,   [KERNEL_UPDATE_ADAGRAD] = adagrad,
        [KERNEL_UPDATE_ADADELTA] = adadelta, [KERNEL_UPDATE_ADAMAX] = adamax,
        [KERNEL_UPDATE_NADAM] = nadam,       [KERNEL_UPDATE_RADAM] = radam,
    };
    struct update_job job = {.flags = flags, .n = n, .g = g, .w = w, .u = workspace};
    int count = kernel_update_states(f, flags);
    job.s0 = count > 0 ? states[0] : NULL;
    job.s1 = count > 1 ? states[1] : NULL;
    job.s2 = count > 2 ? states[2] : NULL;
    memcpy(job.k, scalars, sizeof job.k);
    if (f == KERNEL_UPDATE_LARS)
        run_lars(c, &job);
    else if (f == KERNEL_UPDATE_LAMB)
        run_lamb(c, &job);
    else if (f == KERNEL_UPDATE_SGD && (flags & KERNEL_UPDATE_MOMENTUM))
        kernel_parallel(c, n, KERNEL_GRAIN, sgd_momentum, &job);
    else if (f == KERNEL_UPDATE_RMSPROP)
        kernel_parallel(c, n, KERNEL_GRAIN,
                        flags & KERNEL_UPDATE_CENTERED
                            ? (flags & KERNEL_UPDATE_MOMENTUM ? rmsprop_both : rmsprop_centered)
                        : flags & KERNEL_UPDATE_MOMENTUM ? rmsprop_momentum
                                                         : rmsprop,
                        &job);
    else if (f == KERNEL_UPDATE_ADAM && (flags & KERNEL_UPDATE_AMSGRAD))
        kernel_parallel(c, n, KERNEL_GRAIN, adam_amsgrad, &job);
    else
        kernel_parallel(c, n, KERNEL_GRAIN, bodies[f], &job);
}
