/* attend.cu - softmax and its slopes over slices of scores, with causal and added masks. One warp per query. */
#include "cuda/typed.cuh"
#include <math_constants.h>

#define THREADS 256

/* The score of key p, masked; -inf where it must not be seen. */
__device__ static inline float score_at(const kernel_attention &a, const float *scores,
                                        struct cuda_in mask, int64_t mask_at, int64_t query,
                                        int64_t p)
{
    float s = scores[p];
    if (a.is_causal && p > query + a.tk - a.tq)
        s = -CUDART_INF_F;
    return mask.p ? s + typed_get(mask, mask_at + p) : s;
}

__device__ static inline int64_t mask_row(const kernel_attention &a, int64_t row, int64_t query)
{
    return a.mask_rows ? (row / a.mask_period % a.mask_rows * a.tq + query) * a.tk : 0;
}

__global__ void __launch_bounds__(THREADS)
    softmax_rows(kernel_attention a, int64_t first, int64_t rows, const float *scores,
                 struct cuda_in mask, struct cuda_out to, float *__restrict__ lse)
{
    int64_t line = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (line >= rows * a.tq)
        return;
    int64_t row = line / a.tq, query = line - row * a.tq;
    int64_t mask_at = mask_row(a, first + row, query);
    const float *s = scores + line * a.tk;
    float top = -CUDART_INF_F;
    double sum = 0;
    for (int64_t p = lane; p < a.tk; p += 32)
        top = typed_max(top, score_at(a, s, mask, mask_at, query, p));
#pragma unroll
    for (int i = 16; i; i >>= 1)
        top = typed_max(top, __shfl_xor_sync(0xffffffffu, top, i));
    float shift = top == -CUDART_INF_F ? 0.0f : top;
    for (int64_t p = lane; p < a.tk; p += 32)
        sum += (double)expf(score_at(a, s, mask, mask_at, query, p) - shift);
    sum = typed_warp_sum(sum);
    float scale = (float)(1.0 / sum);
    for (int64_t p = lane; p < a.tk; p += 32) /* may lie over the scores: each element once */
        typed_put(to, line * a.tk + p,
                  expf(score_at(a, s, mask, mask_at, query, p) - shift) * scale);
    if (lane == 0 && lse)
        lse[line] = top + (float)log(sum);
}

extern "C" int cuda_attend_softmax(const struct kernel_attention *a, int64_t first, int64_t rows,
                                   const float *scores, struct cuda_in mask, struct cuda_out to,
                                   float *lse, cuda_stream stream)
{
    if (!a->mask_rows)
        mask.p = NULL;
    softmax_rows<<<(unsigned)((rows * a->tq * 32 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
        *a, first, rows, scores, mask, to, lse);
    return (int)cudaGetLastError();
}

/* p = exp(s - lse); dS = p (dP - sum(p dP)): a single key has slope 0 exactly. */
__global__ void __launch_bounds__(THREADS)
    slope_rows(kernel_attention a, int64_t first, int64_t rows, const float *scores,
               const float *slopes, struct cuda_in mask, const float *__restrict__ lse,
               struct cuda_out to, struct cuda_out ds)
{
    int64_t line = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (line >= rows * a.tq)
        return;
    int64_t row = line / a.tq, query = line - row * a.tq;
    int64_t mask_at = mask_row(a, first + row, query);
    const float *s = scores + line * a.tk, *g = slopes + line * a.tk;
    float shift = lse[line];
    double sum = 0;
    for (int64_t p = lane; p < a.tk; p += 32)
        sum += (double)expf(score_at(a, s, mask, mask_at, query, p) - shift) * (double)g[p];
    float dot = (float)typed_warp_sum(sum);
    for (int64_t p = lane; p < a.tk; p += 32) {
        float e = expf(score_at(a, s, mask, mask_at, query, p) - shift), slope = e * (g[p] - dot);
        typed_put(to, line * a.tk + p, e);
        typed_put(ds, line * a.tk + p, slope);
    }
}

extern "C" int cuda_attend_slopes(const struct kernel_attention *a, int64_t first, int64_t rows,
                                  const float *scores, const float *slopes, struct cuda_in mask,
                                  const float *lse, struct cuda_out to, struct cuda_out ds,
                                  cuda_stream stream)
{
    if (!a->mask_rows)
        mask.p = NULL;
    slope_rows<<<(unsigned)((rows * a->tq * 32 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
        *a, first, rows, scores, slopes, mask, lse, to, ds);
    return (int)cudaGetLastError();
}
