/* device.cuh - vectors of eight elements, warp and block sums. Private to cuda. */
#ifndef EBB_CUDA_DEVICE_CUH
#define EBB_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

/* Eight elements as floats; 16 bytes in memory for bf16, 32 for float. */
struct vec8 {
    float v[8];
};

__device__ static inline float2 device_unpack(uint32_t u)
{
    return make_float2(__uint_as_float(u << 16), __uint_as_float(u & 0xffff0000u));
}

__device__ static inline uint32_t device_pack(float low, float high)
{
    __nv_bfloat162 p = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<uint32_t *>(&p);
}

__device__ static inline vec8 device_widen(uint4 u)
{
    vec8 r;
    const uint32_t w[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 f = device_unpack(w[i]);
        r.v[2 * i] = f.x;
        r.v[2 * i + 1] = f.y;
    }
    return r;
}

__device__ static inline uint4 device_narrow(const vec8 &x)
{
    return make_uint4(device_pack(x.v[0], x.v[1]), device_pack(x.v[2], x.v[3]),
                      device_pack(x.v[4], x.v[5]), device_pack(x.v[6], x.v[7]));
}

__device__ static inline vec8 device_load(const bf16 *p)
{
    return device_widen(*reinterpret_cast<const uint4 *>(p));
}

__device__ static inline vec8 device_load(const float *p)
{
    float4 a = reinterpret_cast<const float4 *>(p)[0], b = reinterpret_cast<const float4 *>(p)[1];
    return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}

/* Eight elements as they lie in memory. */
template <class T> struct packed8;
template <> struct packed8<bf16> {
    typedef uint4 type;
};
template <> struct packed8<float> {
    typedef vec8 type;
};

__device__ static inline uint4 device_load_packed(const bf16 *p)
{
    return *reinterpret_cast<const uint4 *>(p);
}

__device__ static inline vec8 device_load_packed(const float *p)
{
    return device_load(p);
}

__device__ static inline vec8 device_widen(const vec8 &x)
{
    return x;
}

__device__ static inline void device_store(bf16 *p, const vec8 &x)
{
    *reinterpret_cast<uint4 *>(p) = device_narrow(x);
}

__device__ static inline void device_store(float *p, const vec8 &x)
{
    reinterpret_cast<float4 *>(p)[0] = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
    reinterpret_cast<float4 *>(p)[1] = make_float4(x.v[4], x.v[5], x.v[6], x.v[7]);
}

/* Stores x and hands back what it became. */
__device__ static inline vec8 device_store_rounded(bf16 *p, const vec8 &x)
{
    uint4 u = device_narrow(x);
    *reinterpret_cast<uint4 *>(p) = u;
    return device_widen(u);
}

__device__ static inline vec8 device_store_rounded(float *p, const vec8 &x)
{
    device_store(p, x);
    return x;
}

__device__ static inline float device_to_float(float x)
{
    return x;
}

__device__ static inline float device_to_float(bf16 x)
{
    return __bfloat162float(x);
}

template <class T> __device__ static inline T device_from_float(float x);
template <> __device__ inline float device_from_float<float>(float x)
{
    return x;
}
template <> __device__ inline bf16 device_from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* What a value becomes when it is stored as T. */
template <class T> __device__ static inline float device_round(float x)
{
    return device_to_float(device_from_float<T>(x));
}

/* 2^x by the hardware: two units in the last place, results below 2^-126 become 0. */
__device__ static inline float device_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ static inline float device_warp_sum(float x)
{
#pragma unroll
    for (int i = 16; i; i >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

__device__ static inline float device_warp_max(float x)
{
#pragma unroll
    for (int i = 16; i; i >>= 1)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
}

#endif
