/* unary.cuh - element-wise functions and their derivatives, in F32. Private to cuda.
 *
 * The exponential and the quotient of the 16-bit instances are the approximate ones of the hardware: their error is far
 * below half a unit of a bf16 result. F32 instances use the accurate ones. */
#ifndef EBB_CUDA_UNARY_CUH
#define EBB_CUDA_UNARY_CUH

#include "cuda/cuda.h"
#include "cuda/device.cuh"

#define UNARY_GELU_C 0.79788456080286536f /* sqrt(2 / pi) */
#define UNARY_GELU_K 0.044715f

#define UNARY_LOG2E 1.4426950408889634f

/* 1 / (1 + 2^t) */
template <class T> __device__ static inline float unary_logistic(float t)
{
    if (sizeof(T) == 2) {
        float r;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + device_exp2(t)));
        return r;
    }
    return 1.0f / (1.0f + exp2f(t));
}

/* 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), u = C (x + K x^3) */
template <class T> __device__ static inline float unary_gelu_gate(float x)
{
    const float c = -2.0f * UNARY_GELU_C * UNARY_LOG2E;
    return unary_logistic<T>(x * fmaf(x * x, c * UNARY_GELU_K, c));
}

template <class T, int F> __device__ static inline float unary_value(float x)
{
    if (F == CUDA_RELU)
        return x < 0.0f ? 0.0f : x; /* NaN stays */
    if (F == CUDA_GELU)
        return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    if (F == CUDA_GELU_TANH)
        return x * unary_gelu_gate<T>(x);
    return x;
}

template <class T, int F> __device__ static inline float unary_slope(float x)
{
    if (F == CUDA_RELU)
        return x > 0.0f ? 1.0f : 0.0f;
    if (F == CUDA_GELU) {
        float e = -0.5f * UNARY_LOG2E * x * x;
        return fmaf(x * 0.3989422804014327f, sizeof(T) == 2 ? device_exp2(e) : exp2f(e),
                    0.5f * (1.0f + erff(x * 0.70710678118654752f)));
    }
    if (F == CUDA_GELU_TANH) { /* s (1 + x (1 - s) 2 u') */
        float s = unary_gelu_gate<T>(x);
        float d = x * fmaf(x * x, 6.0f * UNARY_GELU_C * UNARY_GELU_K, 2.0f * UNARY_GELU_C);
        return s * fmaf(d, 1.0f - s, 1.0f);
    }
    return 1.0f;
}

#endif
