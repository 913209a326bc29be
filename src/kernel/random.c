/* random.c - tensors of random numbers as a function of coordinates: Philox 4x32-10, key = seed,
 * counter = (block, instance, step in two halves), element e = word e % 4 of block e / 4. Nothing to
 * save, nothing to replay: making a tensor again gives the same bits. */
#include "base/rng.h"
#include "kernel/internal.h"

struct random_job {
    uint64_t seed, step;
    int64_t n;
    uint32_t instance;
    float a, b;
    const float *x;
    float *y;
};

static void words(const struct random_job *j, int64_t block, uint32_t out[4])
{
    uint32_t key[2] = {(uint32_t)j->seed, (uint32_t)(j->seed >> 32)};
    uint32_t counter[4] = {(uint32_t)block, j->instance, (uint32_t)j->step,
                           (uint32_t)(j->step >> 32)};
    ebb_philox(key, counter, out);
}

static float unit(uint32_t u)
{
    return (float)(u >> 8) * 0x1p-24f;
}

static void dropout_body(void *argument, int64_t first, int64_t last)
{
    const struct random_job *j = argument;
    uint32_t u[4];
    for (int64_t block = first; block < last; block++) {
        words(j, block, u);
        for (int64_t e = block * 4; e < kernel_min(j->n, block * 4 + 4); e++)
            j->y[e] = unit(u[e % 4]) >= j->a ? j->x[e] * j->b : 0.0f;
    }
}

KERNEL_CPU(dropout)
{
    const struct kernel_dropout_desc *d = desc;
    const int64_t *step = args->in[1];
    float scale = d->p < 1.0f ? (float)(1.0 / (1.0 - (double)d->p)) : 0.0f;
    struct random_job job = {.seed = d->seed,
                             .step = (uint64_t)*step,
                             .instance = d->instance,
                             .n = d->n,
                             .a = d->p,
                             .b = scale,
                             .x = args->in[0],
                             .y = args->out[0]};
    return kernel_parallel(c, (d->n + 3) / 4, 4, dropout_body, &job);
}
