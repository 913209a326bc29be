/* typed.cuh - operands whose type is known when a kernel runs: F32, BF16, F16. Private to cuda.
 *
 * One instance of a kernel for all types: the switch is the same for every thread of a launch, so it costs a few
 * instructions and no divergence. Kernels that decide a step have instances by type instead (device.cuh). */
#ifndef EBB_CUDA_TYPED_CUH
#define EBB_CUDA_TYPED_CUH

#include "cuda/device.cuh"
#include "cuda/family.h"
#include <cuda_fp16.h>

__device__ static inline float typed_get(struct cuda_in a, int64_t i)
{
    if (a.dtype == KERNEL_BF16)
        return __uint_as_float((uint32_t)((const uint16_t *)a.p)[i] << 16);
    if (a.dtype == KERNEL_F16)
        return __half2float(((const __half *)a.p)[i]);
    return ((const float *)a.p)[i];
}

__device__ static inline void typed_put(struct cuda_out a, int64_t i, float v)
{
    if (a.dtype == KERNEL_BF16)
        ((bf16 *)a.p)[i] = __float2bfloat16_rn(v);
    else if (a.dtype == KERNEL_F16)
        ((__half *)a.p)[i] = __float2half_rn(v);
    else
        ((float *)a.p)[i] = v;
}

/* W elements from i on: eight need an address of 16 bytes' alignment, one needs none. */
template <int W> struct typed_vec {
    float v[W];
};

template <int W> __device__ static inline typed_vec<W> typed_load(struct cuda_in a, int64_t i)
{
    typed_vec<W> r;
    if (W == 1) {
        r.v[0] = typed_get(a, i);
    } else if (a.dtype == KERNEL_F32) {
        const float4 *p = reinterpret_cast<const float4 *>((const float *)a.p + i);
        float4 x = p[0], y = p[1];
        const float all[8] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
#pragma unroll
        for (int k = 0; k < W; k++)
            r.v[k] = all[k % 8];
    } else {
        uint4 u = *reinterpret_cast<const uint4 *>((const uint16_t *)a.p + i);
        const uint32_t w[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
        for (int k = 0; k < W; k++) {
            uint32_t half = k % 2 ? w[k / 2 % 4] >> 16 : w[k / 2 % 4] & 0xffffu;
            r.v[k] = a.dtype == KERNEL_BF16 ? __uint_as_float(half << 16)
                                            : __half2float(__ushort_as_half((unsigned short)half));
        }
    }
    return r;
}

__device__ static inline uint32_t typed_bits(int dtype, float v)
{
    return dtype == KERNEL_BF16 ? (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(v))
                                : (uint32_t)__half_as_ushort(__float2half_rn(v));
}

template <int W>
__device__ static inline void typed_store(struct cuda_out a, int64_t i, const typed_vec<W> &x)
{
    if (W == 1) {
        typed_put(a, i, x.v[0]);
    } else if (a.dtype == KERNEL_F32) {
        float4 *p = reinterpret_cast<float4 *>((float *)a.p + i);
        p[0] = make_float4(x.v[0], x.v[1 % W], x.v[2 % W], x.v[3 % W]);
        p[1] = make_float4(x.v[4 % W], x.v[5 % W], x.v[6 % W], x.v[7 % W]);
    } else {
        uint32_t w[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            w[k] = typed_bits(a.dtype, x.v[2 * k % W]) | typed_bits(a.dtype, x.v[(2 * k + 1) % W])
                                                             << 16;
        *reinterpret_cast<uint4 *>((uint16_t *)a.p + i) = make_uint4(w[0], w[1], w[2], w[3]);
    }
}

/* The least op + 1 that failed. */
__device__ static inline void typed_fault(struct cuda_fault f)
{
    if (f.word)
        atomicMin(f.word, f.op + 1u);
}

__device__ static inline double typed_warp_sum(double x)
{
#pragma unroll
    for (int i = 16; i; i >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

/* Sum over a block of up to 1,024 threads, the same value in all; every thread calls it. */
__device__ static inline double typed_block_sum(double x, double *shared)
{
    x = typed_warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    double r = 0;
    for (unsigned i = 0; i < blockDim.x / 32; i++)
        r += shared[i];
    return r;
}

/* Largest of all, a NaN before everything. */
__device__ static inline float typed_max(float a, float b)
{
    return a != a ? a : b > a || b != b ? b : a;
}

__device__ static inline float typed_block_max(float x, float *shared)
{
#pragma unroll
    for (int i = 16; i; i >>= 1)
        x = typed_max(x, __shfl_xor_sync(0xffffffffu, x, i));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    float r = shared[0];
    for (unsigned i = 1; i < blockDim.x / 32; i++)
        r = typed_max(r, shared[i]);
    return r;
}

#endif
