/* update.cu - Adam on split master weights, bit for bit what the CPU does.
 *
 * Compiled with -fmad=false: products and sums are fused only where fmaf is written, as in kernel/update.c; division and
 * square root are the correctly rounded ones. */
#include "cuda/cuda.h"
#include "cuda/device.cuh"

#define THREADS 256

struct adam {
    float k[12];
};

/* kernel/update.c: adam, between kernel_master_join and kernel_master_split */
__device__ static inline void adam_one(const adam &a, float g, uint32_t &high, uint32_t &rest,
                                       float &m, float &v)
{
    const float *k = a.k;
    float w = __uint_as_float(((high - (rest >> 15)) << 16) | rest);
    g = g * k[11];
    g = k[1] != 0.0f ? fmaf(k[1], w, g) : g;
    m = fmaf(k[3], g, k[2] * m);
    v = fmaf(k[5] * g, g, k[4] * v);
    w = w * k[8] - k[0] * m / (sqrtf(v) / k[6] + k[7]);
    uint32_t u = __float_as_uint(w);
    rest = u & 0xffffu;
    high = ((u >> 16) + (u >> 15 & 1u)) & 0xffffu;
}

/* Bytes per element: gradient 4 (2), weights 4 + 4, moments 8 + 8: 28 with an F32 gradient. */
template <class G>
__global__ void __launch_bounds__(THREADS)
    adam_split(int64_t n, const float *__restrict__ scalars, const G *__restrict__ g,
               uint16_t *__restrict__ high, uint16_t *__restrict__ rest, float *__restrict__ m,
               float *__restrict__ v)
{
    adam a;
#pragma unroll
    for (int i = 0; i < 12; i++)
        a.k[i] = scalars[i];
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * 8;
    if (at + 8 <= n) {
        uint4 h = *reinterpret_cast<const uint4 *>(high + at),
              r = *reinterpret_cast<const uint4 *>(rest + at);
        vec8 gradient = device_load(g + at), mm = device_load(m + at), vv = device_load(v + at);
        uint32_t hw[4] = {h.x, h.y, h.z, h.w}, rw[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int shift = i % 2 * 16;
            uint32_t one = hw[i / 2] >> shift & 0xffffu, low = rw[i / 2] >> shift & 0xffffu;
            adam_one(a, gradient.v[i], one, low, mm.v[i], vv.v[i]);
            hw[i / 2] = (hw[i / 2] & ~(0xffffu << shift)) | one << shift;
            rw[i / 2] = (rw[i / 2] & ~(0xffffu << shift)) | low << shift;
        }
        *reinterpret_cast<uint4 *>(high + at) = make_uint4(hw[0], hw[1], hw[2], hw[3]);
        *reinterpret_cast<uint4 *>(rest + at) = make_uint4(rw[0], rw[1], rw[2], rw[3]);
        device_store(m + at, mm);
        device_store(v + at, vv);
    } else {
        for (; at < n; at++) {
            uint32_t one = high[at], low = rest[at];
            adam_one(a, device_to_float(g[at]), one, low, m[at], v[at]);
            high[at] = (uint16_t)one;
            rest[at] = (uint16_t)low;
        }
    }
}

extern "C" int cuda_adam_split(int64_t n, enum cuda_dtype gradient, const float *scalars,
                               const void *g, uint16_t *high, uint16_t *rest, float *m, float *v,
                               cuda_stream stream)
{
    if (n <= 0)
        return 0;
    unsigned blocks = (unsigned)((n + THREADS * 8 - 1) / (THREADS * 8));
    if (gradient == CUDA_BF16)
        adam_split<bf16>
            <<<blocks, THREADS, 0, stream>>>(n, scalars, (const bf16 *)g, high, rest, m, v);
    else
        adam_split<float>
            <<<blocks, THREADS, 0, stream>>>(n, scalars, (const float *)g, high, rest, m, v);
    return (int)cudaGetLastError();
}
