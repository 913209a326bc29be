/* random.c - tensors of random numbers as a function of coordinates: Philox 4x32-10, key = seed,
 * counter = (block, instance, step, stream), element e = word e % 4 of block e / 4. Nothing to
 * save, nothing to replay: making a tensor again gives the same bits. */
#include "base/rng.h"
#include "kernel/internal.h"

struct random_job {
    const struct kernel_random *r;
    int64_t n;
    float a, b;
    const float *x;
    float *y;
};

static void words(const struct kernel_random *r, int64_t block, uint32_t out[4])
{
    uint32_t key[2] = {(uint32_t)r->seed, (uint32_t)(r->seed >> 32)};
    uint32_t counter[4] = {(uint32_t)block, r->instance, r->step, r->stream};
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
        words(j->r, block, u);
        for (int64_t e = block * 4; e < kernel_min(j->n, block * 4 + 4); e++)
            j->y[e] = unit(u[e % 4]) >= j->a ? j->x[e] * j->b : 0.0f;
    }
}

void kernel_dropout(const struct kernel_context *c, const struct kernel_random *r, int64_t n,
                    float p, const float *x, float *y)
{
    float scale = p < 1.0f ? (float)(1.0 / (1.0 - (double)p)) : 0.0f;
    struct random_job job = {.r = r, .n = n, .a = p, .b = scale, .x = x, .y = y};
    kernel_parallel(c, (n + 3) / 4, KERNEL_GRAIN / 4, dropout_body, &job);
}
