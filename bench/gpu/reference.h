/* reference.h - small double-precision references and 16-bit conversions shared by the lab programs. */
#ifndef EBB_BENCH_GPU_REFERENCE_H
#define EBB_BENCH_GPU_REFERENCE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline float ref_float(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint16_t ref_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* Repeatable noise in (-1, 1), roughly normal in shape. */
static inline float ref_noise(uint64_t *state)
{
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(*state >> 40) * (1.0f / 8388608.0f) - 1.0f;
    }
    return sum;
}

static inline void ref_fill(uint16_t *x, size_t n, float scale, uint64_t seed)
{
    uint64_t s = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < n; i++)
        x[i] = ref_bf16(scale * ref_noise(&s));
}

/* One head: q, k, v, o, go and gradients with `stride` elements between tokens. Outputs are [t, d] doubles;
 * stats[t] is the natural logarithm of the sum of exponentials. */
static inline void ref_attention(int t, int d, int is_causal, const uint16_t *q, const uint16_t *k,
                                 const uint16_t *v, const uint16_t *go, int64_t stride,
                                 int64_t go_stride, double *o, double *stats, double *dq,
                                 double *dk, double *dv)
{
    double scale = 1.0 / sqrt((double)d);
    double *p = (double *)malloc((size_t)t * sizeof *p),
           *dp = (double *)malloc((size_t)t * sizeof *dp);
    size_t floats = (size_t)t * (size_t)d * sizeof(float);
    float *kf = (float *)malloc(floats), *vf = (float *)malloc(floats);
    for (int i = 0; i < t; i++)
        for (int c = 0; c < d; c++) {
            kf[i * d + c] = ref_float(k[i * stride + c]);
            vf[i * d + c] = ref_float(v[i * stride + c]);
        }
    for (int i = 0; i < t * d; i++)
        dk[i] = dv[i] = 0;
    for (int i = 0; i < t; i++) {
        int end = is_causal ? i + 1 : t;
        double qf[256], gf[256], max = -1e300, sum = 0, delta = 0;
        for (int c = 0; c < d; c++) {
            qf[c] = (double)ref_float(q[i * stride + c]);
            gf[c] = (double)ref_float(go[i * go_stride + c]);
        }
        for (int j = 0; j < end; j++) {
            double s = 0, g = 0;
            for (int c = 0; c < d; c++) {
                s += qf[c] * (double)kf[j * d + c];
                g += gf[c] * (double)vf[j * d + c];
            }
            p[j] = s * scale;
            dp[j] = g;
            max = p[j] > max ? p[j] : max;
        }
        for (int j = 0; j < end; j++)
            sum += p[j] = exp(p[j] - max);
        stats[i] = max + log(sum);
        for (int c = 0; c < d; c++)
            o[i * d + c] = dq[i * d + c] = 0;
        for (int j = 0; j < end; j++) {
            p[j] /= sum;
            delta += p[j] * dp[j];
            for (int c = 0; c < d; c++)
                o[i * d + c] += p[j] * (double)vf[j * d + c];
        }
        for (int j = 0; j < end; j++) {
            double ds = p[j] * (dp[j] - delta) * scale;
            for (int c = 0; c < d; c++) {
                dq[i * d + c] += ds * (double)kf[j * d + c];
                dk[j * d + c] += ds * qf[c];
                dv[j * d + c] += p[j] * gf[c];
            }
        }
    }
    free(p), free(dp), free(kf), free(vf);
}

/* ||x - r|| / ||r||; NaN stays NaN. */
static inline double ref_error_bf16(const uint16_t *x, int64_t stride, int rows, int d,
                                    const double *r)
{
    double a = 0, b = 0;
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < d; c++) {
            double e = (double)ref_float(x[i * stride + c]) - r[i * d + c];
            a += e * e;
            b += r[i * d + c] * r[i * d + c];
        }
    return sqrt(a / (b > 0 ? b : 1));
}

#endif
