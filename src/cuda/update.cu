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

#define MANY 32 /* tensors per launch: 1.7 KB of arguments */

struct many {
    struct cuda_update tensors[MANY];
    uint32_t first[MANY]; /* block of each tensor */
    int count;
};

/* Eight elements per thread. Bytes per element: gradient 4 (2), weights 4 + 4, moments 8 + 8: 28 with an F32 gradient. */
template <class G>
__global__ void __launch_bounds__(THREADS)
    adam_split(const __grid_constant__ many t, const float *__restrict__ scalars)
{
    int which = 0;
    while (which + 1 < t.count && blockIdx.x >= t.first[which + 1])
        which++;
    int64_t n = t.tensors[which].n;
    const G *__restrict__ g = (const G *)t.tensors[which].g;
    uint16_t *__restrict__ high = t.tensors[which].high, *__restrict__ rest = t.tensors[which].rest;
    float *__restrict__ m = t.tensors[which].m, *__restrict__ v = t.tensors[which].v;
    adam a;
#pragma unroll
    for (int i = 0; i < 12; i++)
        a.k[i] = scalars[i];
    int64_t at = ((int64_t)(blockIdx.x - t.first[which]) * THREADS + threadIdx.x) * 8;
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

extern "C" int cuda_adam_split_many(int count, const struct cuda_update *tensors,
                                    enum cuda_dtype gradient, const float *scalars,
                                    cuda_stream stream)
{
    many t;
    uint32_t blocks = 0;
    t.count = 0;
    for (int i = 0; i < count; i++) {
        if (tensors[i].n > 0) {
            t.first[t.count] = blocks;
            t.tensors[t.count++] = tensors[i];
            blocks += (uint32_t)((tensors[i].n + THREADS * 8 - 1) / (THREADS * 8));
        }
        if (t.count && (t.count == MANY || i + 1 == count)) {
            if (gradient == CUDA_BF16)
                adam_split<bf16><<<blocks, THREADS, 0, stream>>>(t, scalars);
            else
                adam_split<float><<<blocks, THREADS, 0, stream>>>(t, scalars);
            t.count = 0;
            blocks = 0;
        }
    }
    return (int)cudaGetLastError();
}

extern "C" int cuda_adam_split(int64_t n, enum cuda_dtype gradient, const float *scalars,
                               const void *g, uint16_t *high, uint16_t *rest, float *m, float *v,
                               cuda_stream stream)
{
    struct cuda_update one = {n, g, high, rest, m, v};
    return cuda_adam_split_many(1, &one, gradient, scalars, stream);
}
