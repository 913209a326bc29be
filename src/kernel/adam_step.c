/* adam_step.c - one step of Adam as a function of values, and its gradient: what unrolled
 * optimization differentiates through. Every element alone, so results do not depend on threads. */
#include "kernel/internal.h"

struct step_job {
    struct kernel_adam_step a;
    float p1, p2; /* 1/(1-b1^t), 1/(1-b2^t) */
    const float *p, *m, *v, *g, *dp, *dm, *dv;
    float *to[3]; /* NULL: not wanted */
};

KERNEL_CLONES static void step(void *argument, int64_t first, int64_t last)
{
    const struct step_job *j = argument;
    const struct kernel_adam_step a = j->a;
    for (int64_t i = first; i < last; i++) {
        float m = j->m[i] * a.beta1 + j->g[i] * a.rest1;
        float v = j->v[i] * a.beta2 + j->g[i] * j->g[i] * a.rest2;
        if (j->to[0])
            j->to[0][i] = j->p[i] - m * j->p1 / (sqrtf(v * j->p2) + a.eps) * a.lr;
        if (j->to[1])
            j->to[1][i] = m;
        if (j->to[2])
            j->to[2][i] = v;
    }
}

/* The derivative of the root is 0 at 0, as that of the op `sqrt`: units that never had a gradient
 * would make everything NaN otherwise. */
KERNEL_CLONES static void step_grad(void *argument, int64_t first, int64_t last)
{
    const struct step_job *j = argument;
    const struct kernel_adam_step a = j->a;
    for (int64_t i = first; i < last; i++) {
        float root = sqrtf(j->v[i] * j->p2), below = root + a.eps;
        float d = j->dp ? -a.lr * j->dp[i] / below : 0.0f; /* towards the numerator */
        float slope = root == 0.0f ? 0.0f : 0.5f / root;
        float dm = (j->dm ? j->dm[i] : 0.0f) + d * j->p1;
        float dv = (j->dv ? j->dv[i] : 0.0f) - d * (j->m[i] * j->p1 / below) * slope * j->p2;
        if (j->to[0])
            j->to[0][i] = dm * a.rest1 + dv * a.rest2 * 2.0f * j->g[i];
        if (j->to[1])
            j->to[1][i] = dm * a.beta1;
        if (j->to[2])
            j->to[2][i] = dv * a.beta2;
    }
}

static struct step_job make_job(const struct kernel_adam_step_desc *d, const float *powers,
                                const struct kernel_args *args)
{
    return (struct step_job){.a = d->step,
                             .p1 = powers[0],
                             .p2 = powers[1],
                             .to = {args->out[0], args->out[1], args->out[2]}};
}

KERNEL_CPU(adam_step)
{
    const struct kernel_adam_step_desc *d = desc;
    struct step_job job = make_job(d, args->in[4], args);
    job.p = args->in[0];
    job.m = args->in[1];
    job.v = args->in[2];
    job.g = args->in[3];
    return kernel_parallel(c, d->n, 4, step, &job);
}

KERNEL_CPU(adam_step_grad)
{
    const struct kernel_adam_step_desc *d = desc;
    struct step_job job = make_job(d, args->in[3], args);
    int at = 4;
    job.m = args->in[0];
    job.v = args->in[1];
    job.g = args->in[2];
    job.dp = d->given & 1 ? args->in[at++] : NULL;
    job.dm = d->given & 2 ? args->in[at++] : NULL;
    job.dv = d->given & 4 ? args->in[at++] : NULL;
    return kernel_parallel(c, d->n, 4, step_grad, &job);
}
