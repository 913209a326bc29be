/* update.c - one optimizer update of one tensor, in place. What changes from step to step comes in
 * scalars[], so the op itself is constant. */
#include "kernel/internal.h"

/* Places of the scalars: SGD_momentum and so on. */
enum { RATE, DECAY, FIRST, SIGN = KERNEL_UPDATE_SCALARS - 1 };
#define PLACE(kind, name) kind##_##name,
#define PLACES(kind)                                                                               \
    enum { kind##_before = FIRST - 1, KERNEL_SCALARS_##kind(PLACE) kind##_behind };                \
    _Static_assert((int)kind##_behind <= (int)SIGN, "room for all of them");
KERNEL_SCALARS(PLACES)

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

bool kernel_update_is_whole(enum kernel_update f)
{
    return f == KERNEL_UPDATE_LARS || f == KERNEL_UPDATE_LAMB;
}

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
            float g = gradient[i] * k[SIGN];                                                       \
            g = k[DECAY] != 0.0f ? fmaf(k[DECAY], w[i], g) : g;                                    \
            body                                                                                   \
        }                                                                                          \
    }

UPDATE(sgd_plain, { w[i] = fmaf(-k[RATE], g, w[i]); })
UPDATE(sgd_momentum, {
    s0[i] = fmaf(k[SGD_fresh], g, k[SGD_carry] * s0[i]);
    w[i] = fmaf(-k[RATE], flags & KERNEL_UPDATE_NESTEROV ? fmaf(k[SGD_momentum], s0[i], g) : s0[i],
                w[i]);
})
UPDATE(adam, {
    s0[i] = fmaf(k[ADAM_rest1], g, k[ADAM_beta1] * s0[i]);
    s1[i] = fmaf(k[ADAM_rest2] * g, g, k[ADAM_beta2] * s1[i]);
    w[i] = w[i] * k[ADAM_keep] - k[RATE] * s0[i] / (sqrtf(s1[i]) / k[ADAM_root2] + k[ADAM_eps]);
})
UPDATE(adam_amsgrad, {
    s0[i] = fmaf(k[ADAM_rest1], g, k[ADAM_beta1] * s0[i]);
    s1[i] = fmaf(k[ADAM_rest2] * g, g, k[ADAM_beta2] * s1[i]);
    s2[i] = s2[i] > s1[i] ? s2[i] : s1[i];
    w[i] = w[i] * k[ADAM_keep] - k[RATE] * s0[i] / (sqrtf(s2[i]) / k[ADAM_root2] + k[ADAM_eps]);
})
UPDATE(rmsprop, {
    s0[i] = fmaf(k[RMSPROP_rest_alpha] * g, g, k[RMSPROP_alpha] * s0[i]);
    w[i] = fmaf(-k[RATE], g / (sqrtf(s0[i]) + k[RMSPROP_eps]), w[i]);
})
UPDATE(rmsprop_momentum, {
    s0[i] = fmaf(k[RMSPROP_rest_alpha] * g, g, k[RMSPROP_alpha] * s0[i]);
    s1[i] = k[RMSPROP_momentum] * s1[i] + g / (sqrtf(s0[i]) + k[RMSPROP_eps]);
    w[i] = fmaf(-k[RATE], s1[i], w[i]);
})
UPDATE(rmsprop_centered, {
    s0[i] = fmaf(k[RMSPROP_rest_alpha] * g, g, k[RMSPROP_alpha] * s0[i]);
    s1[i] = fmaf(k[RMSPROP_rest_alpha], g, k[RMSPROP_alpha] * s1[i]);
    w[i] = fmaf(-k[RATE], g / (sqrtf(s0[i] - s1[i] * s1[i]) + k[RMSPROP_eps]), w[i]);
})
UPDATE(rmsprop_both, {
    s0[i] = fmaf(k[RMSPROP_rest_alpha] * g, g, k[RMSPROP_alpha] * s0[i]);
    s2[i] = fmaf(k[RMSPROP_rest_alpha], g, k[RMSPROP_alpha] * s2[i]);
    s1[i] = k[RMSPROP_momentum] * s1[i] + g / (sqrtf(s0[i] - s2[i] * s2[i]) + k[RMSPROP_eps]);
    w[i] = fmaf(-k[RATE], s1[i], w[i]);
})
UPDATE(adagrad, {
    s0[i] = fmaf(g, g, s0[i]);
    w[i] = fmaf(-k[RATE], g / (sqrtf(s0[i]) + k[ADAGRAD_eps]), w[i]);
})
UPDATE(adadelta, {
    s0[i] = fmaf(k[ADADELTA_rest_rho] * g, g, k[ADADELTA_rho] * s0[i]);
    float d = sqrtf(s1[i] + k[ADADELTA_eps]) / sqrtf(s0[i] + k[ADADELTA_eps]) * g;
    s1[i] = fmaf(k[ADADELTA_rest_rho] * d, d, k[ADADELTA_rho] * s1[i]);
    w[i] = fmaf(-k[RATE], d, w[i]);
})
UPDATE(adamax, {
    s0[i] = fmaf(k[ADAMAX_rest1], g, k[ADAMAX_beta1] * s0[i]);
    float a = fabsf(g) + k[ADAMAX_eps];
    float b = k[ADAMAX_beta2] * s1[i];
    s1[i] = a > b ? a : b;
    w[i] -= k[RATE] * s0[i] / s1[i];
})
UPDATE(nadam, {
    s0[i] = fmaf(k[NADAM_rest1], g, k[NADAM_beta1] * s0[i]);
    s1[i] = fmaf(k[NADAM_rest2] * g, g, k[NADAM_beta2] * s1[i]);
    float d = sqrtf(s1[i] / k[NADAM_power2]) + k[NADAM_eps];
    w[i] -= k[RATE] * (g / d) + k[NADAM_momentum_rate] * (s0[i] / d);
})
UPDATE(radam, {
    s0[i] = fmaf(k[RADAM_rest1], g, k[RADAM_beta1] * s0[i]);
    s1[i] = fmaf(k[RADAM_rest2] * g, g, k[RADAM_beta2] * s1[i]);
    float d = k[RADAM_rectified] != 0.0f
                  ? s0[i] * k[RADAM_rectified] / (sqrtf(s1[i]) + k[RADAM_eps])
                  : s0[i];
    w[i] = fmaf(-k[RATE], d, w[i]);
})

KERNEL_CLONES static void lars(void *argument, int64_t first, int64_t last)
{
    const struct update_job *j = argument;
    for (int64_t i = first; i < last; i++) {
        float d = j->g[i] * j->k[SIGN];
        if (!(j->flags & KERNEL_UPDATE_NO_TRUST))
            d = d + j->k[DECAY] * j->w[i];
        if (j->flags & KERNEL_UPDATE_MOMENTUM)
            d = j->s0[i] = j->k[LARS_carry] * j->s0[i] + d;
        j->w[i] -= j->rate * d;
    }
}

KERNEL_CLONES static void lamb(void *argument, int64_t first, int64_t last)
{
    const struct update_job *j = argument;
    const float *k = j->k;
    for (int64_t i = first; i < last; i++) {
        float g = j->g[i] * k[SIGN];
        j->s0[i] = k[LAMB_beta1] * j->s0[i] + k[LAMB_rest1] * g;
        j->s1[i] = k[LAMB_beta2] * j->s1[i] + k[LAMB_rest2] * (g * g);
        j->u[i] = j->s0[i] / k[LAMB_power1] / (sqrtf(j->s1[i] / k[LAMB_power2]) + k[LAMB_eps]) +
                  k[DECAY] * j->w[i];
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
    kernel_parallel(c, SEGMENTS, job->n / SEGMENTS, norm_body, job);
    for (int i = 0; i < SEGMENTS; i++)
        sum += partial[i];
    return sqrt(sum);
}

static void run_lars(const struct kernel_context *c, struct update_job *job)
{
    double w = norm(c, job, job->w), g = norm(c, job, job->g), trust = 1;
    if (!(job->flags & KERNEL_UPDATE_NO_TRUST) && w > 0 && g > 0)
        trust = (double)job->k[LARS_eeta] * w /
                (g + (double)job->k[DECAY] * w + (double)job->k[LARS_eps]);
    job->rate = (float)((double)job->k[RATE] * trust);
    kernel_parallel(c, job->n, 1, lars, job);
}

static void run_lamb(const struct kernel_context *c, struct update_job *job)
{
    double trust = 1;
    kernel_parallel(c, job->n, 1, lamb, job);
    if (job->k[DECAY] != 0.0f && !(job->flags & KERNEL_UPDATE_NO_TRUST)) {
        double w = norm(c, job, job->w), u = norm(c, job, job->u);
        trust = w > 0 && u > 0 ? w / u : 1;
    }
    job->rate = (float)((double)job->k[RATE] * trust);
    kernel_parallel(c, job->n, 1, lamb_apply, job);
}

static void run(const struct kernel_context *c, const struct kernel_update_desc *d, int64_t n,
                const float *scalars, const float *g, float *w, float *const *states,
                float *workspace)
{
    static const kernel_body bodies[KERNEL_UPDATE_COUNT] = {
        [KERNEL_UPDATE_SGD] = sgd_plain,     [KERNEL_UPDATE_ADAM] = adam,
        [KERNEL_UPDATE_RMSPROP] = rmsprop,   [KERNEL_UPDATE_ADAGRAD] = adagrad,
        [KERNEL_UPDATE_ADADELTA] = adadelta, [KERNEL_UPDATE_ADAMAX] = adamax,
        [KERNEL_UPDATE_NADAM] = nadam,       [KERNEL_UPDATE_RADAM] = radam,
    };
    const enum kernel_update f = (enum kernel_update)d->f;
    const unsigned flags = d->flags;
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
        kernel_parallel(c, n, 1, sgd_momentum, &job);
    else if (f == KERNEL_UPDATE_RMSPROP)
        kernel_parallel(c, n, 1,
                        flags & KERNEL_UPDATE_CENTERED
                            ? (flags & KERNEL_UPDATE_MOMENTUM ? rmsprop_both : rmsprop_centered)
                        : flags & KERNEL_UPDATE_MOMENTUM ? rmsprop_momentum
                                                         : rmsprop,
                        &job);
    else if (f == KERNEL_UPDATE_ADAM && (flags & KERNEL_UPDATE_AMSGRAD))
        kernel_parallel(c, n, 1, adam_amsgrad, &job);
    else
        kernel_parallel(c, n, 1, bodies[f], &job);
}

KERNEL_NEED(update)
{
    const struct kernel_update_desc *d = desc;
    if (d->f == KERNEL_UPDATE_LAMB)
        need->workspace_bytes = (uint64_t)d->n * sizeof(float);
    return EBB_OK;
}

KERNEL_CPU(update)
{
    const struct kernel_update_desc *d = desc;
    float *states[KERNEL_UPDATE_STATES] = {args->out[1], args->out[2], args->out[3]};
    run(c, d, d->n, args->in[0], (const float *)args->in[1] + d->first,
        (float *)args->out[0] + d->first, states, args->workspace);
    return EBB_OK;
}

/* ---- split master weights -------------------------------------------------------------------- */

#define CHUNK 65536

/* Norms need the whole tensor; the other updates go in pieces. */
static int64_t split_piece(const struct kernel_update_desc *d)
{
    return kernel_update_is_whole((enum kernel_update)d->f) || d->n < CHUNK ? d->n : CHUNK;
}

/* Weights, gradient, and what LAMB needs. */
KERNEL_NEED(update_split)
{
    need->workspace_bytes = 3 * (uint64_t)split_piece(desc) * sizeof(float);
    return EBB_OK;
}

KERNEL_CPU(update_split)
{
    const struct kernel_update_desc *d = desc;
    const int64_t piece = split_piece(d);
    float *w = args->workspace, *g = w + piece, *states[KERNEL_UPDATE_STATES] = {NULL};
    uint16_t *high = (uint16_t *)args->out[0] + d->first;
    uint16_t *rest = (uint16_t *)args->out[1] + d->first;
    const bool is_low = args->in_dtype[1] == KERNEL_BF16;
    for (int64_t at = 0; at < d->n; at += piece) {
        int64_t count = kernel_min(piece, d->n - at);
        const float *gradient = is_low ? g : (const float *)args->in[1] + d->first + at;
        if (is_low)
            kernel_convert(c, count, KERNEL_BF16, (const uint16_t *)args->in[1] + d->first + at,
                           KERNEL_F32, g);
        for (uint32_t s = 2; s < args->out_count; s++)
            states[s - 2] = (float *)args->out[s] + at;
        kernel_master_join(c, count, high + at, rest + at, w);
        run(c, d, count, args->in[0], gradient, w, states, g + piece);
        kernel_master_split(c, count, w, high + at, rest + at);
    }
    return EBB_OK;
}
