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

template <class T> __device__ static inline float unary_sigmoid(float x)
{
    if (sizeof(T) == 2)
        return __fdividef(1.0f, 1.0f + __expf(-x));
    return 1.0f / (1.0f + expf(-x));
}

/* 0.5 (1 + tanh(u)) = sigmoid(2u) */
template <class T, int F> __device__ static inline float unary_value(float x)
{
    if (F == CUDA_RELU)
        return fmaxf(x, 0.0f);
    if (F == CUDA_GELU)
        return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    if (F == CUDA_GELU_TANH)
        return x * unary_sigmoid<T>(2.0f * UNARY_GELU_C * x * fmaf(UNARY_GELU_K * x, x, 1.0f));
    return x;
}

template <class T, int F> __device__ static inline float unary_slope(float x)
{
    if (F == CUDA_RELU)
        return x > 0.0f ? 1.0f : 0.0f;
    if (F == CUDA_GELU)
        return fmaf(x * 0.3989422804014327f,
                    sizeof(T) == 2 ? __expf(-0.5f * x * x) : expf(-0.5f * x * x),
                    0.5f * (1.0f + erff(x * 0.70710678118654752f)));
    if (F == CUDA_GELU_TANH) {
        float s = unary_sigmoid<T>(2.0f * UNARY_GELU_C * x * fmaf(UNARY_GELU_K * x, x, 1.0f));
        float d = 2.0f * UNARY_GELU_C * fmaf(3.0f * UNARY_GELU_K * x, x, 1.0f);
        return fmaf(x * s * (1.0f - s), d, s);
    }
    return 1.0f;
}

#endif
