/* random.c - torch's CPU generator. */
#include <math.h>

#include "nn/nn.h"

void nn_torch_seed(struct nn_torch_rng *rng, uint64_t seed)
{
    ebb_mt_seed(&rng->mt, (uint32_t)seed);
    rng->has_cached = false;
}

static float unit_float(struct nn_torch_rng *rng)
{
    return (float)(ebb_mt_u32(&rng->mt) & 0xFFFFFFu) * 0x1p-24f;
}

static double unit_double(struct nn_torch_rng *rng)
{
    uint64_t high = ebb_mt_u32(&rng->mt);
    uint64_t u = high << 32 | ebb_mt_u32(&rng->mt);
    return (double)(u & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

void nn_torch_uniform(struct nn_torch_rng *rng, size_t n, float low, float high, float *y)
{
    for (size_t i = 0; i < n; i++) /* one rounding: torch's loop is compiled to it */
        y[i] = fmaf(unit_float(rng), high - low, low);
}

static double one_normal(struct nn_torch_rng *rng)
{
    if (rng->has_cached) {
        rng->has_cached = false;
        return rng->cached;
    }
    double u1 = unit_double(rng), u2 = unit_double(rng);
    double r = sqrt(-2.0 * log1p(-u2)), theta = 2.0 * M_PI * u1;
    rng->cached = r * sin(theta);
    rng->has_cached = true;
    return r * cos(theta);
}

/* 16 uniforms become 16 normals: element j pairs with j + 8. */
static void transform(float *x, float mean, float deviation)
{
    for (int j = 0; j < 8; j++) {
        float u1 = 1.0f - x[j], u2 = x[j + 8];
        float r = sqrtf(-2.0f * logf(u1)), theta = 6.283185307179586f * u2;
        x[j] = r * cosf(theta) * deviation + mean;
        x[j + 8] = r * sinf(theta) * deviation + mean;
    }
}

void nn_torch_normal(struct nn_torch_rng *rng, size_t n, float mean, float deviation, float *y)
{
    if (n < 16) {
        for (size_t i = 0; i < n; i++)
            y[i] = (float)(one_normal(rng) * (double)deviation + (double)mean);
        return;
    }
    nn_torch_uniform(rng, n, 0.0f, 1.0f, y);
    for (size_t i = 0; i + 16 <= n; i += 16)
        transform(y + i, mean, deviation);
    if (n % 16) { /* the last 16 are drawn again */
        nn_torch_uniform(rng, 16, 0.0f, 1.0f, y + n - 16);
        transform(y + n - 16, mean, deviation);
    }
}

void nn_torch_bernoulli(struct nn_torch_rng *rng, size_t n, double p, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = unit_double(rng) < p ? 1.0f : 0.0f;
}

void nn_torch_randperm(struct nn_torch_rng *rng, size_t n, int64_t *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (int64_t)i;
    for (size_t i = 0; i + 1 < n; i++) {
        size_t k = i + ebb_mt_u32(&rng->mt) % (uint32_t)(n - i);
        int64_t t = y[i];
        y[i] = y[k];
        y[k] = t;
    }
}

float nn_default_bound(int64_t fan_in)
{
    return fan_in > 0 ? (float)(1.0 / sqrt((double)fan_in)) : 0.0f;
}
