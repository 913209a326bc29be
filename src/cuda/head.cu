/* head.cu - cross entropy of blocks of logits that lie in the workspace, for the head of a language model.
 *
 * Forward, a block per row: largest logit and sum of exponentials in one read. Backward, element by element from the kept
 * logarithm of the sum: one read and one write. */
#include "cuda/typed.cuh"
#include <math_constants.h>

#define THREADS 512
#define LOG2E 1.4426950408889634f
#define LN2 0.69314718055994531f

__global__ void __launch_bounds__(1024)
    head_begin(cuda_head d, int64_t count, const int64_t *__restrict__ target,
               const float *__restrict__ dy, double *__restrict__ numbers, struct cuda_fault fault)
{
    __shared__ double shared[32];
    double total = 0;
    for (int64_t i = threadIdx.x; i < count; i += 1024) {
        int64_t t = target[i];
        if (t == d.ignore_index)
            continue;
        if (t < 0 || t >= d.classes)
            typed_fault(fault);
        total += 1.0;
    }
    total = typed_block_sum(total, shared);
    if (threadIdx.x == 0) {
        numbers[0] = d.is_mean ? total : 1.0;
        numbers[1] = (double)(float)((dy ? (double)*dy : 1.0) / numbers[0]);
    }
}

extern "C" int cuda_head_begin(const struct cuda_head *d, int64_t count, const int64_t *target,
                               const float *dy, double *numbers, struct cuda_fault fault,
                               cuda_stream stream)
{
    head_begin<<<1, 1024, 0, stream>>>(*d, count, target, dy, numbers, fault);
    return (int)cudaGetLastError();
}

/* Largest so far, in base 2, and the sum of powers below it. */
struct running {
    float top, sum;
};

__device__ static inline running running_join(running a, running b)
{
    float top = fmaxf(a.top, b.top);
    float x = a.top == -CUDART_INF_F ? 0.0f : a.sum * exp2f(a.top - top);
    float y = b.top == -CUDART_INF_F ? 0.0f : b.sum * exp2f(b.top - top);
    return {top, x + y};
}

__device__ static inline running running_warp(running x)
{
#pragma unroll
    for (int i = 16; i; i >>= 1)
        x = running_join(
            x, {__shfl_xor_sync(0xffffffffu, x.top, i), __shfl_xor_sync(0xffffffffu, x.sum, i)});
    return x;
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    head_rows(cuda_head d, const T *__restrict__ logits, const int64_t *__restrict__ target,
              float *__restrict__ loss, float *__restrict__ lse)
{
    __shared__ running shared[THREADS / 32];
    const T *row = logits + (int64_t)blockIdx.x * d.ld;
    running r = {-CUDART_INF_F, 0.0f};
    int whole = (int)(d.classes / 8);
#pragma unroll 2
    for (int i = threadIdx.x; i < whole; i += THREADS) {
        vec8 v = device_load(row + (int64_t)i * 8);
        float top = v.v[0];
#pragma unroll
        for (int k = 1; k < 8; k++)
            top = fmaxf(top, v.v[k]);
        top *= LOG2E;
        if (top > r.top) {
            r.sum *= device_exp2(r.top - top);
            r.top = top;
        }
        float part = 0;
#pragma unroll
        for (int k = 0; k < 8; k++)
            part += device_exp2(fmaf(v.v[k], LOG2E, -r.top));
        r.sum += part;
    }
    for (int64_t i = (int64_t)whole * 8 + threadIdx.x; i < d.classes; i += THREADS)
        r = running_join(r, {device_to_float(row[i]) * LOG2E, 1.0f});
    r = running_warp(r);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = r;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    r = threadIdx.x < THREADS / 32 ? shared[threadIdx.x] : running{-CUDART_INF_F, 0.0f};
    r = running_warp(r);
    if (threadIdx.x == 0) {
        float total = (r.top + log2f(r.sum)) * LN2;
        int64_t t = target[blockIdx.x];
        bool is_counted = t != d.ignore_index && t >= 0 && t < d.classes;
        lse[blockIdx.x] = t == d.ignore_index ? 0.0f : total;
        loss[blockIdx.x] = is_counted ? total - device_to_float(row[t]) : 0.0f;
    }
}

extern "C" int cuda_head_rows(const struct cuda_head *d, const void *logits, const int64_t *target,
                              float *loss, float *lse, cuda_stream stream)
{
    if (d->rows <= 0)
        return 0;
    if (d->dtype == KERNEL_BF16)
        head_rows<bf16><<<(unsigned)d->rows, THREADS, 0, stream>>>(*d, (const bf16 *)logits, target,
                                                                   loss, lse);
    else
        head_rows<float><<<(unsigned)d->rows, THREADS, 0, stream>>>(*d, (const float *)logits,
                                                                    target, loss, lse);
    return (int)cudaGetLastError();
}

__global__ void __launch_bounds__(1024)
    head_end(int64_t count, const float *__restrict__ loss, const double *__restrict__ numbers,
             float *__restrict__ y)
{
    __shared__ double shared[32];
    double total = 0;
    for (int64_t i = threadIdx.x; i < count; i += 1024)
        total += (double)loss[i];
    total = typed_block_sum(total, shared);
    if (threadIdx.x == 0)
        *y = (float)(total / numbers[0]);
}

extern "C" int cuda_head_end(int64_t count, const float *loss, const double *numbers, float *y,
                             cuda_stream stream)
{
    head_end<<<1, 1024, 0, stream>>>(count, loss, numbers, y);
    return (int)cudaGetLastError();
}

/* Grid: (vectors of a row, rows). Bytes: one read, one write. */
template <class T>
__global__ void __launch_bounds__(256)
    head_slope(cuda_head d, T *__restrict__ logits, const int64_t *__restrict__ target,
               const float *__restrict__ lse, const double *__restrict__ numbers)
{
    int64_t column = ((int64_t)blockIdx.x * 256 + threadIdx.x) * 8;
    if (column >= d.ld)
        return;
    T *at = logits + (int64_t)blockIdx.y * d.ld + column;
    int64_t t = target[blockIdx.y];
    bool is_counted = t != d.ignore_index && t >= 0 && t < d.classes;
    float scale = (float)numbers[1], shift = lse[blockIdx.y] * LOG2E;
    vec8 v = device_load(at);
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float p = is_counted && column + k < d.classes
                      ? scale * device_exp2(fmaf(v.v[k], LOG2E, -shift))
                      : 0.0f;
        v.v[k] = is_counted && column + k == t ? p - scale : p;
    }
    device_store(at, v);
}

extern "C" int cuda_head_slope(const struct cuda_head *d, void *logits, const int64_t *target,
                               const float *lse, const double *numbers, cuda_stream stream)
{
    if (d->rows <= 0)
        return 0;
    if (d->ld % 8 || d->rows > 65535)
        return (int)cudaErrorInvalidValue;
    dim3 grid((unsigned)((d->ld / 8 + 255) / 256), (unsigned)d->rows);
    if (d->dtype == KERNEL_BF16)
        head_slope<bf16><<<grid, 256, 0, stream>>>(*d, (bf16 *)logits, target, lse, numbers);
    else
        head_slope<float><<<grid, 256, 0, stream>>>(*d, (float *)logits, target, lse, numbers);
    return (int)cudaGetLastError();
}
