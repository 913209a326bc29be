/* fold.cu - sums, means and maxima over dimensions; softmax and its relatives.
 *
 * A reduction is split into segments by shape alone; every segment is summed in double by one thread (the last dimension is
 * kept) or one warp (it is folded), segments are added in their order. */
#include "cuda/typed.cuh"
#include <math_constants.h>

#define THREADS 256
#define WANTED (132 * 2048) /* threads that fill an H200; a constant */
#define LEAST 64            /* elements of a segment, per thread */
#define MOST_SEGMENTS 1024

struct axis {
    int64_t size, stride;
};

struct fold {
    int f, kept_count, folded_count, is_inner_kept;
    int64_t kept_total, folded_total, segments, length; /* length: of a segment */
    axis kept[KERNEL_RANK], folded[KERNEL_RANK];
};

static void push(axis *axes, int *count, int64_t size, int64_t stride, bool may_merge)
{
    if (may_merge && *count && axes[*count - 1].stride == size * stride)
        axes[*count - 1] = {axes[*count - 1].size * size, stride};
    else
        axes[(*count)++] = {size, stride};
}

static fold describe(const struct kernel_reduce_desc *d)
{
    fold j = {};
    int64_t stride[KERNEL_RANK], total = 1;
    j.f = d->f;
    j.kept_total = j.folded_total = 1;
    for (int k = d->rank - 1; k >= 0; k--) {
        stride[k] = total;
        total *= d->dims[k];
    }
    int before = -1;
    for (int k = 0; k < d->rank; k++) {
        int now = (int)(d->folded >> k & 1);
        (now ? j.folded_total : j.kept_total) *= d->dims[k];
        if (d->dims[k] == 1)
            continue;
        push(now ? j.folded : j.kept, now ? &j.folded_count : &j.kept_count, d->dims[k], stride[k],
             before == now);
        before = now;
    }
    j.is_inner_kept = before == 0 && j.folded_count;
    int64_t lanes = j.is_inner_kept ? 1 : 32, units = j.kept_total * lanes;
    int64_t most = j.folded_total / (LEAST * lanes);
    int64_t segments = units ? WANTED / units : 1;
    segments = segments > most ? most : segments;
    segments = segments > MOST_SEGMENTS ? MOST_SEGMENTS : segments < 1 ? 1 : segments;
    j.length = (j.folded_total + segments - 1) / segments;
    j.segments = j.length ? (j.folded_total + j.length - 1) / j.length : 1;
    return j;
}

__device__ static inline int64_t locate(const axis *axes, int count, int64_t index)
{
    if (count == 1)
        return index * axes[0].stride;
    int64_t offset = 0;
    for (int d = count - 1; d >= 0; d--) {
        offset += index % axes[d].size * axes[d].stride;
        index /= axes[d].size;
    }
    return offset;
}

__device__ static inline double join(int f, double a, double b)
{
    return f == KERNEL_AMAX ? (a != a ? a : b > a || b != b ? b : a) : a + b;
}

__device__ static inline double element(int f, float v)
{
    return f == KERNEL_SUM_SQUARES ? (double)v * (double)v : (double)v;
}

__device__ static inline float finish(const fold &j, double sum)
{
    return (float)(j.f == KERNEL_MEAN ? sum / (double)j.folded_total : sum);
}

/* LANES threads per result and segment. */
template <int LANES>
__global__ void __launch_bounds__(THREADS)
    fold_segments(const __grid_constant__ fold j, struct cuda_in x, struct cuda_out y,
                  double *__restrict__ partial)
{
    int64_t unit = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / LANES;
    int lane = threadIdx.x % LANES;
    if (unit >= j.kept_total * j.segments)
        return;
    int64_t segment = unit / j.kept_total, result = unit % j.kept_total;
    int64_t base = locate(j.kept, j.kept_count, result);
    int64_t first = segment * j.length,
            last = first + j.length < j.folded_total ? first + j.length : j.folded_total;
    double sum = j.f == KERNEL_AMAX ? -CUDART_INF : 0.0;
#pragma unroll 4
    for (int64_t i = first + lane; i < last; i += LANES)
        sum =
            join(j.f, sum, element(j.f, typed_get(x, base + locate(j.folded, j.folded_count, i))));
    if (LANES > 1) {
#pragma unroll
        for (int i = LANES / 2; i; i >>= 1)
            sum = join(j.f, sum, __shfl_down_sync(0xffffffffu, sum, i));
    }
    if (lane)
        return;
    if (j.segments == 1)
        typed_put(y, result, finish(j, sum));
    else
        partial[unit] = sum;
}

/* A warp per result. */
__global__ void __launch_bounds__(THREADS)
    fold_totals(const __grid_constant__ fold j, const double *__restrict__ partial,
                struct cuda_out y)
{
    int64_t result = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (result >= j.kept_total)
        return;
    double sum = j.f == KERNEL_AMAX ? -CUDART_INF : 0.0;
    for (int64_t s = lane; s < j.segments; s += 32)
        sum = join(j.f, sum, partial[s * j.kept_total + result]);
#pragma unroll
    for (int i = 16; i; i >>= 1)
        sum = join(j.f, sum, __shfl_down_sync(0xffffffffu, sum, i));
    if (lane == 0)
        typed_put(y, result, finish(j, sum));
}

/* Sums over the rows of a matrix whose rows are vectors: columns.cu. */
static bool is_columns(const fold *j)
{
    return j->f == KERNEL_SUM && j->is_inner_kept && j->kept_count == 1 && j->folded_count == 1 &&
           j->kept[0].stride == 1 && j->kept_total % 8 == 0 && j->folded_total >= 512 &&
           j->folded_total <= (int64_t)65535 * 256;
}

extern "C" size_t cuda_fold_workspace(const struct kernel_reduce_desc *d)
{
    fold j = describe(d);
    size_t own = j.segments > 1 ? (size_t)(j.kept_total * j.segments) * sizeof(double) : 0;
    size_t columns = is_columns(&j) ? cuda_columns_workspace(j.folded_total, j.kept_total) : 0;
    return own > columns ? own : columns;
}

extern "C" int cuda_fold(const struct kernel_reduce_desc *d, struct cuda_in x, struct cuda_out y,
                         void *workspace, cuda_stream stream)
{
    fold j = describe(d);
    if (j.kept_total == 0)
        return 0;
    if (j.folded_total == 0)
        return cuda_each_fill(j.kept_total,
                              j.f == KERNEL_AMAX   ? -INFINITY
                              : j.f == KERNEL_MEAN ? NAN
                                                   : 0.0f,
                              y, stream);
    if (is_columns(&j) && cuda_is_aligned(x.p) && x.dtype != KERNEL_F16 && y.dtype == KERNEL_F32)
        return cuda_column_sums(j.folded_total, j.kept_total,
                                x.dtype == KERNEL_BF16 ? CUDA_BF16 : CUDA_F32, x.p, (float *)y.p,
                                workspace, stream);
    int64_t units = j.kept_total * j.segments, lanes = j.is_inner_kept ? 1 : 32;
    unsigned blocks = (unsigned)((units * lanes + THREADS - 1) / THREADS);
    double *partial = (double *)workspace;
    if (j.is_inner_kept)
        fold_segments<1><<<blocks, THREADS, 0, stream>>>(j, x, y, partial);
    else
        fold_segments<32><<<blocks, THREADS, 0, stream>>>(j, x, y, partial);
    if (j.segments > 1)
        fold_totals<<<(unsigned)((j.kept_total * 32 + THREADS - 1) / THREADS), THREADS, 0,
                      stream>>>(j, partial, y);
    return (int)cudaGetLastError();
}

/* ---- lines ------------------------------------------------------------------------------------ */

struct lines {
    int f, is_reverse;
    int64_t count, n, inner; /* count: of lines */
};

/* T threads per line: 1, a warp, or a block. */
template <int T> __device__ static inline double line_sum(double x, double *shared)
{
    if constexpr (T == 1)
        return x;
    else
        return T == 32 ? typed_warp_sum(x) : typed_block_sum(x, shared);
}

template <int T> __device__ static inline float line_max(float x, float *shared)
{
    if constexpr (T > 32) {
        return typed_block_max(x, shared);
    } else {
#pragma unroll
        for (int i = T / 2; i; i >>= 1)
            x = typed_max(x, __shfl_xor_sync(0xffffffffu, x, i));
        return x;
    }
}

template <int T>
__global__ void __launch_bounds__(THREADS)
    lines_run(lines j, struct cuda_in x, struct cuda_in saved, struct cuda_out y)
{
    __shared__ double sums[32];
    __shared__ float tops[32];
    int64_t line = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / T;
    int lane = threadIdx.x % T;
    if (line >= j.count)
        return;
    int64_t base = line / j.inner * j.n * j.inner + line % j.inner, s = j.inner;
    if (j.f == KERNEL_SOFTMAX_GRAD || j.f == KERNEL_LOG_SOFTMAX_GRAD) {
        bool is_log = j.f == KERNEL_LOG_SOFTMAX_GRAD;
        double sum = 0;
        for (int64_t k = lane; k < j.n; k += T)
            sum += (double)typed_get(x, base + k * s) *
                   (is_log ? 1.0 : (double)typed_get(saved, base + k * s));
        float total = (float)line_sum<T>(sum, sums);
        for (int64_t k = lane; k < j.n; k += T) {
            float g = typed_get(x, base + k * s), v = typed_get(saved, base + k * s);
            typed_put(y, base + k * s, is_log ? g - expf(v) * total : v * (g - total));
        }
        return;
    }
    float top = -CUDART_INF_F;
    double sum = 0;
    for (int64_t k = lane; k < j.n; k += T)
        top = typed_max(top, typed_get(x, base + k * s));
    top = line_max<T>(top, tops);
    for (int64_t k = lane; k < j.n; k += T)
        sum += (double)expf(typed_get(x, base + k * s) - top);
    sum = line_sum<T>(sum, sums);
    float lse = top + (float)log(sum), scale = (float)(1.0 / sum);
    if (j.f == KERNEL_LOGSUMEXP) {
        if (lane == 0)
            typed_put(y, line, lse);
        return;
    }
    for (int64_t k = lane; k < j.n; k += T) {
        float v = typed_get(x, base + k * s);
        typed_put(y, base + k * s, j.f == KERNEL_SOFTMAX ? expf(v - top) * scale : v - lse);
    }
}

/* One thread per line, in order. */
__global__ void __launch_bounds__(THREADS) lines_walk(lines j, struct cuda_in x, struct cuda_out y)
{
    int64_t line = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (line >= j.count)
        return;
    int64_t base = line / j.inner * j.n * j.inner + line % j.inner, best = 0;
    double sum = 0;
    float top = typed_get(x, base);
    for (int64_t k = 0; k < j.n; k++) {
        int64_t at = base + (j.is_reverse ? j.n - 1 - k : k) * j.inner;
        float v = typed_get(x, at);
        if (j.f == KERNEL_CUMSUM) {
            sum += (double)v;
            typed_put(y, at, (float)sum);
        } else if (v > top || (v != v && top == top)) {
            top = v;
            best = k;
        }
    }
    if (j.f == KERNEL_ARGMAX)
        ((int64_t *)y.p)[line] = best;
}

extern "C" int cuda_lines(const struct kernel_lines_desc *d, struct cuda_in x, struct cuda_in saved,
                          struct cuda_out y, cuda_stream stream)
{
    lines j = {d->f, d->is_reverse, d->outer * d->inner, d->n, d->inner};
    if (j.count == 0 || j.n == 0)
        return 0;
    unsigned ones = (unsigned)((j.count + THREADS - 1) / THREADS);
    if (d->f == KERNEL_ARGMAX || d->f == KERNEL_CUMSUM) {
        j.is_reverse = d->f == KERNEL_CUMSUM && d->is_reverse;
        lines_walk<<<ones, THREADS, 0, stream>>>(j, x, y);
    } else if (j.inner > 1) {
        lines_run<1><<<ones, THREADS, 0, stream>>>(j, x, saved, y);
    } else if (j.n <= 1024) {
        lines_run<32><<<(unsigned)((j.count * 32 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            j, x, saved, y);
    } else {
        lines_run<THREADS><<<(unsigned)j.count, THREADS, 0, stream>>>(j, x, saved, y);
    }
    return (int)cudaGetLastError();
}
