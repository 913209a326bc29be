/* entropy.cu - softmax cross entropy of rows of logits; the gradient takes
 * their place.
 *
 * bf16 rows of up to SHARED_BYTES lie in shared memory: one read and one write
 * of global memory. Two blocks share a multiprocessor, so that one loads while
 * the other computes. Longer rows, and F32, are read three times. */
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

#define ROW_THREADS                                                                                \
    640 /* 50,304 columns are 9.8 vectors each; two blocks per multiprocessor    \
         leave 48 registers */
#define ROW_AHEAD 5

/* Running largest logit (in base 2, times log2 e) and sum of exponentials below
 * it. */
struct running {
    float top, sum;
};

__device__ static running running_join(running a, running b)
{
    float top = fmaxf(a.top, b.top);
    return {top, (a.top == -CUDART_INF_F ? 0.0f : a.sum * device_exp2(a.top - top)) +
                     (b.top == -CUDART_INF_F ? 0.0f : b.sum * device_exp2(b.top - top))};
}

__device__ static running block_running(running x, running *shared)
{
#pragma unroll
    for (int i = 16; i; i >>= 1)
        x = running_join(
            x, {__shfl_xor_sync(0xffffffffu, x.top, i), __shfl_xor_sync(0xffffffffu, x.sum, i)});
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < ROW_THREADS / 32 ? shared[threadIdx.x % 32]
                                            : running{-CUDART_INF_F, 0.0f};
#pragma unroll
    for (int i = 16; i; i >>= 1)
        x = running_join(
            x, {__shfl_xor_sync(0xffffffffu, x.top, i), __shfl_xor_sync(0xffffffffu, x.sum, i)});
    return x;
}

/* r with the logits of one vector; those at `end` and behind do not count. */
__device__ static inline running running_add(running r, vec8 v, int end)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        v.v[j] = j < end ? v.v[j] : -CUDART_INF_F;
    float top = fmaxf(fmaxf(fmaxf(v.v[0], v.v[1]), fmaxf(v.v[2], v.v[3])),
                      fmaxf(fmaxf(v.v[4], v.v[5]), fmaxf(v.v[6], v.v[7]))) *
                LOG2E;
    if (top > r.top) {
        r.sum *= device_exp2(r.top - top);
        r.top = top;
    }
    float part = 0;
#pragma unroll
    for (int j = 0; j < 8; j++)
        part += device_exp2(fmaf(v.v[j], LOG2E, -r.top));
    return {r.top, r.sum + part};
}

/* scale * softmax, the scale within the exponent. */
__device__ static inline vec8 row_gradient(uint4 u, float shift)
{
    vec8 v = device_widen(u);
#pragma unroll
    for (int j = 0; j < 8; j++)
        v.v[j] = device_exp2(fmaf(v.v[j], LOG2E, -shift));
    return v;
}

/* Bytes: 4 * stride per row. The sum runs along while the row comes in; the second walk makes the gradient. Whole vectors
 * of columns go without a test; the last, broken one and the padding have a thread each at the end. */
__global__ void __launch_bounds__(ROW_THREADS, 2)
    entropy_shared(int classes, int stride, int64_t ignore, float scale,
                   const double *__restrict__ scale_at, bf16 *__restrict__ logits,
                   const int64_t *__restrict__ targets, float *__restrict__ loss, uint32_t *error)
{
    scale = scale_at ? (float)*scale_at : scale;
    extern __shared__ uint4 row[];
    __shared__ running shared[32];
    uint4 *global = reinterpret_cast<uint4 *>(logits + (int64_t)blockIdx.x * stride);
    int whole = classes / 8, vectors = stride / 8;
    int target = (int)target_of(targets[blockIdx.x], classes, ignore, error);
    running r = {-CUDART_INF_F, 0.0f};
    for (int i = threadIdx.x; i < whole; i += ROW_AHEAD * ROW_THREADS) {
        uint4 u[ROW_AHEAD];
#pragma unroll
        for (int k = 0; k < ROW_AHEAD; k++)
            if (i + k * ROW_THREADS < whole)
                u[k] = __ldcs(global + i + k * ROW_THREADS);
#pragma unroll
        for (int k = 0; k < ROW_AHEAD; k++)
            if (i + k * ROW_THREADS < whole) {
                row[i + k * ROW_THREADS] = u[k];
                r = running_add(r, device_widen(u[k]), 8);
            }
    }
    if (threadIdx.x == 0 && classes % 8) {
        row[whole] = global[whole];
        r = running_add(r, device_widen(row[whole]), classes % 8);
    }
    r = block_running(r, shared); /* its barrier also publishes the row */
    float total = r.top + log2f(r.sum);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = target >= 0
                               ? total * 0.69314718055994531f -
                                     device_to_float(reinterpret_cast<const bf16 *>(row)[target])
                               : 0.0f;
    float shift = target >= 0 ? total - log2f(scale) : CUDART_INF_F;
    for (int i = threadIdx.x; i < whole; i += ROW_THREADS) {
        vec8 v = row_gradient(row[i], shift);
        if (target >= 0 && target / 8 == i) {
#pragma unroll
            for (int j = 0; j < 8; j++)
                v.v[j] -= j == target % 8 ? scale : 0.0f;
        }
        __stcs(global + i, device_narrow(v));
    }
    for (int i = whole + (int)threadIdx.x; i < vectors; i += ROW_THREADS) {
        vec8 v;
        if (i == whole && classes % 8)
            v = row_gradient(row[i], shift);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            v.v[j] = i * 8 + j < classes ? v.v[j] : 0.0f;
            v.v[j] -= i * 8 + j == target ? scale : 0.0f;
        }
        global[i] = device_narrow(v);
    }
}

/* Bytes: rows * stride * size * (3 reads + 1 write), rows that fit in the
 * second-level cache less. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    entropy_plain(int64_t classes, int64_t stride, int64_t ignore, float scale,
                  const double *__restrict__ scale_at, T *__restrict__ logits,
                  const int64_t *__restrict__ targets, float *__restrict__ loss, uint32_t *error)
{
    scale = scale_at ? (float)*scale_at : scale;
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
        entropy_shared<<<(unsigned)d->rows, ROW_THREADS, bytes, stream>>>(
            (int)d->classes, (int)d->stride, d->ignore_index, d->scale, d->scale_at, (bf16 *)logits,
            targets, loss, error);
    } else if (d->dtype == CUDA_BF16) {
        entropy_plain<bf16><<<(unsigned)d->rows, THREADS, 0, stream>>>(
            d->classes, d->stride, d->ignore_index, d->scale, d->scale_at, (bf16 *)logits, targets,
            loss, error);
    } else {
        entropy_plain<float><<<(unsigned)d->rows, THREADS, 0, stream>>>(
            d->classes, d->stride, d->ignore_index, d->scale, d->scale_at, (float *)logits, targets,
            loss, error);
    }
    return (int)cudaGetLastError();
}

/* One block: thread t adds x[t], x[t + 1024], ... in order; then the threads in
 * order. */
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
