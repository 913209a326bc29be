/* entropy.cu - softmax cross entropy of rows of logits; the gradient takes their place.
 *
 * bf16 rows of up to SHARED_BYTES lie in shared memory: one read and one write of global memory. Two blocks share a
 * multiprocessor, so that one loads while the other computes. Longer rows, and F32, are read three times. */
#include "cuda/cuda.h"
#include "cuda/device.cuh"
#include <math_constants.h>

#define THREADS 1024
#define SHARED_BYTES (112 << 10) /* two rows per multiprocessor of 227 KiB */

__device__ static float block_max(float x, float *shared)
{
    x = device_warp_max(x);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    x = device_warp_max(shared[threadIdx.x % 32]);
    __syncthreads();
    return x;
}

__device__ static float block_sum(float x, float *shared)
{
    x = device_warp_sum(x);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    x = device_warp_sum(shared[threadIdx.x % 32]);
    __syncthreads();
    return x;
}

/* Where the target stands: -1 where it is ignored or wrong. */
__device__ static int64_t target_of(int64_t t, int64_t classes, int64_t ignore, uint32_t *error)
{
    if (t == ignore)
        return -1;
    if (t >= 0 && t < classes)
        return t;
    if (threadIdx.x == 0 && error)
        atomicMin(error, blockIdx.x + 1u);
    return -1;
}

#define LOG2E 1.4426950408889634f

/* Bytes: 4 * stride per row. */
__global__ void __launch_bounds__(THREADS, 2)
    entropy_shared(int classes, int stride, int64_t ignore, float scale, bf16 *__restrict__ logits,
                   const int64_t *__restrict__ targets, float *__restrict__ loss, uint32_t *error)
{
    extern __shared__ uint4 row[];
    __shared__ float shared[32], picked;
    uint4 *global = reinterpret_cast<uint4 *>(logits + (int64_t)blockIdx.x * stride);
    int vectors = stride / 8;
    int target = (int)target_of(targets[blockIdx.x], classes, ignore, error);
    float max = -CUDART_INF_F;
    for (int i = threadIdx.x; i < vectors; i += THREADS) {
        uint4 u = global[i];
        row[i] = u;
        vec8 v = device_widen(u);
        if (i * 8 + 8 <= classes) {
            float a = fmaxf(fmaxf(v.v[0], v.v[1]), fmaxf(v.v[2], v.v[3])),
                  b = fmaxf(fmaxf(v.v[4], v.v[5]), fmaxf(v.v[6], v.v[7]));
            max = fmaxf(max, fmaxf(a, b));
        } else {
#pragma unroll
            for (int j = 0; j < 8; j++)
                max = i * 8 + j < classes ? fmaxf(max, v.v[j]) : max;
        }
    }
    max = block_max(max, shared);
    float shift = max * LOG2E, sum = 0;
    for (int i = threadIdx.x; i < vectors; i += THREADS) {
        vec8 v = device_widen(row[i]);
        float part = 0;
#pragma unroll
        for (int j = 0; j < 8; j++)
            part += i * 8 + j < classes ? device_exp2(fmaf(v.v[j], LOG2E, -shift)) : 0.0f;
        sum += part;
        if (target >= 0 && target / 8 == i)
            picked = v.v[target % 8];
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = target >= 0 ? max + logf(sum) - picked : 0.0f;
    float factor = target >= 0 ? scale / sum : 0.0f;
    for (int i = threadIdx.x; i < vectors; i += THREADS) {
        vec8 v = device_widen(row[i]);
#pragma unroll
        for (int j = 0; j < 8; j++)
            v.v[j] = i * 8 + j < classes ? device_exp2(fmaf(v.v[j], LOG2E, -shift)) * factor : 0.0f;
        if (target >= 0 && target / 8 == i) {
#pragma unroll
            for (int j = 0; j < 8; j++)
                v.v[j] -= j == target % 8 ? scale : 0.0f;
        }
        global[i] = device_narrow(v);
    }
}

/* Bytes: rows * stride * size * (3 reads + 1 write), rows that fit in the second-level cache less. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    entropy_plain(int64_t classes, int64_t stride, int64_t ignore, float scale,
                  T *__restrict__ logits, const int64_t *__restrict__ targets,
                  float *__restrict__ loss, uint32_t *error)
{
    __shared__ float shared[32];
    T *row = logits + (int64_t)blockIdx.x * stride;
    int64_t target = target_of(targets[blockIdx.x], classes, ignore, error);
    float max = -CUDART_INF_F, sum = 0, picked = target >= 0 ? device_to_float(row[target]) : 0.0f;
    for (int64_t i = threadIdx.x; i < classes; i += THREADS)
        max = fmaxf(max, device_to_float(row[i]));
    max = block_max(max, shared);
    for (int64_t i = threadIdx.x; i < classes; i += THREADS)
        sum += expf(device_to_float(row[i]) - max);
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = target >= 0 ? max + logf(sum) - picked : 0.0f;
    float factor = target >= 0 ? scale / sum : 0.0f;
    for (int64_t i = threadIdx.x; i < stride; i += THREADS) {
        float v = i < classes ? expf(device_to_float(row[i]) - max) * factor : 0.0f;
        row[i] = device_from_float<T>(i == target ? v - scale : v);
    }
}

extern "C" int cuda_entropy_grad(const struct cuda_entropy *d, void *logits, const int64_t *targets,
                                 float *loss, uint32_t *error, cuda_stream stream)
{
    if (d->rows <= 0)
        return 0;
    if (d->stride < d->classes || d->stride % 8 || d->classes <= 0 || d->rows > INT32_MAX)
        return (int)cudaErrorInvalidValue;
    size_t bytes = (size_t)d->stride * sizeof(bf16);
    if (d->dtype == CUDA_BF16 && bytes <= SHARED_BYTES) {
        cudaError_t e = cudaFuncSetAttribute(
            entropy_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (e != cudaSuccess)
            return (int)e;
        entropy_shared<<<(unsigned)d->rows, THREADS, bytes, stream>>>(
            (int)d->classes, (int)d->stride, d->ignore_index, d->scale, (bf16 *)logits, targets,
            loss, error);
    } else if (d->dtype == CUDA_BF16) {
        entropy_plain<bf16><<<(unsigned)d->rows, THREADS, 0, stream>>>(
            d->classes, d->stride, d->ignore_index, d->scale, (bf16 *)logits, targets, loss, error);
    } else {
        entropy_plain<float><<<(unsigned)d->rows, THREADS, 0, stream>>>(
            d->classes, d->stride, d->ignore_index, d->scale, (float *)logits, targets, loss,
            error);
    }
    return (int)cudaGetLastError();
}

/* One block: thread t adds x[t], x[t + 1024], ... in order; then the threads in order. */
__global__ void __launch_bounds__(THREADS)
    sum_all(int64_t n, const float *__restrict__ x, double *__restrict__ out)
{
    __shared__ double shared[THREADS];
    double total = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        total += (double)x[i];
    shared[threadIdx.x] = total;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        *out = shared[0];
}

extern "C" int cuda_sum(int64_t n, const float *x, double *sum, cuda_stream stream)
{
    sum_all<<<1, THREADS, 0, stream>>>(n, x, sum);
    return (int)cudaGetLastError();
}
