/* loss.cu - element-wise losses and cross entropy, with their reductions. Sums in double, tiles by shape. */
#include "cuda/typed.cuh"
#include <math_constants.h>

#define THREADS 256
#define TILES 1024 /* partial sums of an element-wise loss */
#define LOG_FLOOR -100.0f
#define BCE_FLOOR 1e-12f

/* kernel_expf of the CPU, bit for bit: the gradient of small nets then is, which optimizers that divide by its size
 * answer to (unet_mini, docs/engine.md). */
__device__ static inline float cpu_expf(float x)
{
    float c = x > -104.0f ? x : -104.0f;
    c = c < 89.0f ? c : 89.0f;
    float n = __fadd_rn(__fadd_rn(__fmul_rn(c, 1.44269504f), 12582912.0f), -12582912.0f);
    float r = __fsub_rn(c, __fmul_rn(n, 0.693359375f));
    r = __fsub_rn(r, __fmul_rn(n, -2.12194440e-4f));
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = __fadd_rn(fmaf(p, __fmul_rn(r, r), r), 1.0f);
    int k = (int)n, half = k >> 1;
    float s1 = __int_as_float((half + 127) << 23), s2 = __int_as_float((k - half + 127) << 23);
    return x != x ? x : __fmul_rn(__fmul_rn(p, s1), s2);
}

__device__ static inline float loss_value(int f, float x, float t, float beta)
{
    float d = x - t, a = fabsf(d);
    switch (f) {
    case KERNEL_MSE:
        return d * d;
    case KERNEL_L1:
        return a;
    case KERNEL_SMOOTH_L1:
        return a < beta ? 0.5f * d * d / beta : a - 0.5f * beta;
    case KERNEL_BCE:
        return -(t * fmaxf(logf(x), LOG_FLOOR) + (1.0f - t) * fmaxf(log1pf(-x), LOG_FLOOR));
    case KERNEL_BCE_LOGITS:
        return fmaxf(x, 0.0f) - x * t + log1pf(cpu_expf(-fabsf(x)));
    default: /* KERNEL_KL */
        return t > 0.0f ? t * (logf(t) - x) : 0.0f;
    }
}

__device__ static inline float loss_slope(int f, float x, float t, float beta)
{
    float d = x - t, sign = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : 0.0f;
    switch (f) {
    case KERNEL_MSE:
        return 2.0f * d;
    case KERNEL_L1:
        return sign;
    case KERNEL_SMOOTH_L1:
        return fabsf(d) < beta ? d / beta : sign;
    case KERNEL_BCE:
        return d / fmaxf(x * (1.0f - x), BCE_FLOOR);
    case KERNEL_BCE_LOGITS:
        return __fsub_rn(1.0f / __fadd_rn(1.0f, cpu_expf(-x)), t);
    default: /* KERNEL_KL */
        return t > 0.0f ? -t : 0.0f;
    }
}

__device__ static inline double divisor(const kernel_loss_desc &d)
{
    return d.reduction == KERNEL_REDUCE_MEAN        ? (double)d.n
           : d.reduction == KERNEL_REDUCE_BATCHMEAN ? (double)d.batch
                                                    : 1.0;
}

/* Tile b has elements n b / TILES to n (b + 1) / TILES. */
__global__ void __launch_bounds__(THREADS)
    loss_tiles(kernel_loss_desc d, struct cuda_in x, struct cuda_in t, struct cuda_out y,
               double *__restrict__ partial)
{
    __shared__ double shared[32];
    int64_t first = d.n * blockIdx.x / gridDim.x, last = d.n * (blockIdx.x + 1) / gridDim.x;
    double sum = 0;
    for (int64_t i = first + threadIdx.x; i < last; i += THREADS) {
        float v = loss_value(d.f, typed_get(x, i), typed_get(t, i), d.beta);
        if (d.reduction == KERNEL_REDUCE_NONE)
            typed_put(y, i, v);
        sum += (double)v;
    }
    if (d.reduction == KERNEL_REDUCE_NONE)
        return;
    sum = typed_block_sum(sum, shared);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(THREADS)
    loss_total(kernel_loss_desc d, const double *__restrict__ partial, struct cuda_out y)
{
    __shared__ double shared[32];
    double sum = 0;
    for (int i = threadIdx.x; i < TILES; i += THREADS)
        sum += partial[i];
    sum = typed_block_sum(sum, shared);
    if (threadIdx.x == 0)
        typed_put(y, 0, (float)(sum / divisor(d)));
}

extern "C" size_t cuda_loss_workspace(const struct kernel_loss_desc *d)
{
    return d->reduction == KERNEL_REDUCE_NONE ? 0 : TILES * sizeof(double);
}

extern "C" int cuda_loss(const struct kernel_loss_desc *d, struct cuda_in x, struct cuda_in t,
                         struct cuda_out y, void *workspace, cuda_stream stream)
{
    loss_tiles<<<TILES, THREADS, 0, stream>>>(*d, x, t, y, (double *)workspace);
    if (d->reduction != KERNEL_REDUCE_NONE)
        loss_total<<<1, THREADS, 0, stream>>>(*d, (const double *)workspace, y);
    return (int)cudaGetLastError();
}

__global__ void __launch_bounds__(THREADS)
    loss_grad_all(kernel_loss_desc d, struct cuda_in dy, struct cuda_in x, struct cuda_in t,
                  struct cuda_out dx)
{
    bool is_none = d.reduction == KERNEL_REDUCE_NONE;
    float scale = is_none ? 0.0f : (float)((double)typed_get(dy, 0) / divisor(d));
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < d.n;
         i += (int64_t)gridDim.x * THREADS)
        typed_put(dx, i,
                  (is_none ? typed_get(dy, i) : scale) *
                      loss_slope(d.f, typed_get(x, i), typed_get(t, i), d.beta));
}

extern "C" int cuda_loss_grad(const struct kernel_loss_desc *d, struct cuda_in dy, struct cuda_in x,
                              struct cuda_in t, struct cuda_out dx, cuda_stream stream)
{
    int64_t blocks = (d->n + THREADS - 1) / THREADS;
    if (d->n <= 0)
        return 0;
    loss_grad_all<<<(unsigned)(blocks > 1 << 20 ? 1 << 20 : blocks), THREADS, 0, stream>>>(
        *d, dy, x, t, dx);
    return (int)cudaGetLastError();
}

/* ---- cross entropy ---------------------------------------------------------------------------- */

/* T threads per position: a warp where the classes follow each other, else one. */
template <int T> __device__ static inline double row_sum(double x)
{
    return T == 1 ? x : typed_warp_sum(x);
}

template <int T> __device__ static inline float row_max(float x)
{
#pragma unroll
    for (int i = T / 2; i; i >>= 1)
        x = typed_max(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
}

template <int T>
__device__ static inline double row_lse(const kernel_cross_entropy &d, struct cuda_in x,
                                        int64_t base, int lane)
{
    float top = -CUDART_INF_F;
    double sum = 0;
    for (int64_t k = lane; k < d.classes; k += T)
        top = typed_max(top, typed_get(x, base + k * d.inner));
    top = row_max<T>(top);
    for (int64_t k = lane; k < d.classes; k += T)
        sum += (double)expf(typed_get(x, base + k * d.inner) - top);
    return (double)top + log(row_sum<T>(sum));
}

/* The class of a position; -1: it counts for nothing. */
__device__ static inline int64_t class_of(const kernel_cross_entropy &d, int64_t t,
                                          struct cuda_fault fault)
{
    if (t == d.ignore_index)
        return -1;
    if (t >= 0 && t < d.classes)
        return t;
    typed_fault(fault);
    return -1;
}

/* losses[i] and weights[i] of every position. */
template <int T>
__global__ void __launch_bounds__(THREADS)
    entropy_positions(kernel_cross_entropy d, struct cuda_in x, const int64_t *__restrict__ target,
                      struct cuda_in weight, struct cuda_out y, double *__restrict__ losses,
                      double *__restrict__ weights, struct cuda_fault fault)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / T;
    int lane = threadIdx.x % T;
    if (i >= d.n * d.inner)
        return;
    int64_t base = i / d.inner * d.classes * d.inner + i % d.inner;
    int64_t t = class_of(d, target[i], fault);
    double value = 0, wt = 0;
    if (t >= 0) {
        double lse = d.is_log_prob ? 0.0 : row_lse<T>(d, x, base, lane);
        wt = weight.p ? (double)typed_get(weight, t) : 1.0;
        value = wt * (lse - (double)typed_get(x, base + t * d.inner));
        if (d.smoothing != 0.0f) {
            double smooth = 0;
            for (int64_t k = lane; k < d.classes; k += T)
                smooth += (weight.p ? (double)typed_get(weight, k) : 1.0) *
                          (lse - (double)typed_get(x, base + k * d.inner));
            smooth = row_sum<T>(smooth);
            value = (1.0 - (double)d.smoothing) * value +
                    (double)d.smoothing / (double)d.classes * smooth;
        }
    }
    if (lane)
        return;
    if (d.reduction == KERNEL_REDUCE_NONE) {
        typed_put(y, i, (float)value);
    } else {
        losses[i] = value;
        weights[i] = wt;
    }
}

__global__ void __launch_bounds__(1024)
    entropy_total(kernel_cross_entropy d, const double *__restrict__ losses,
                  const double *__restrict__ weights, struct cuda_out y)
{
    __shared__ double shared[32];
    int64_t n = d.n * d.inner;
    double sum = 0, total = 0;
    for (int64_t i = threadIdx.x; i < n; i += 1024) {
        sum += losses[i];
        total += weights[i];
    }
    sum = typed_block_sum(sum, shared);
    total = typed_block_sum(total, shared);
    if (threadIdx.x == 0)
        typed_put(y, 0, (float)(d.reduction == KERNEL_REDUCE_MEAN ? sum / total : sum));
}

extern "C" size_t cuda_cross_entropy_workspace(const struct kernel_cross_entropy *d)
{
    return 256 + (d->reduction == KERNEL_REDUCE_NONE
                      ? 0
                      : (size_t)(d->n * d->inner) * 2 * sizeof(double));
}

extern "C" int cuda_cross_entropy(const struct kernel_cross_entropy *d, struct cuda_in x,
                                  const int64_t *target, struct cuda_in weight, struct cuda_out y,
                                  void *workspace, struct cuda_fault fault, cuda_stream stream)
{
    int64_t n = d->n * d->inner;
    double *losses = (double *)((char *)workspace + 256), *weights = losses + n;
    if (n > 0 && d->inner == 1)
        entropy_positions<32><<<(unsigned)((n * 32 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            *d, x, target, weight, y, losses, weights, fault);
    else if (n > 0)
        entropy_positions<1><<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            *d, x, target, weight, y, losses, weights, fault);
    if (d->reduction != KERNEL_REDUCE_NONE)
        entropy_total<<<1, 1024, 0, stream>>>(*d, losses, weights, y);
    return (int)cudaGetLastError();
}

/* numbers[0] = dy / divisor, numbers[1] = sum of the weights of all classes. */
__global__ void __launch_bounds__(1024)
    entropy_numbers(kernel_cross_entropy d, struct cuda_in dy, const int64_t *__restrict__ target,
                    struct cuda_in weight, double *__restrict__ numbers)
{
    __shared__ double shared[32];
    double total = 0, all = 0;
    for (int64_t i = threadIdx.x; i < d.n * d.inner; i += 1024) {
        int64_t t = target[i];
        if (t != d.ignore_index && t >= 0 && t < d.classes)
            total += weight.p ? (double)typed_get(weight, t) : 1.0;
    }
    for (int64_t k = threadIdx.x; k < d.classes; k += 1024)
        all += weight.p ? (double)typed_get(weight, k) : 1.0;
    total = typed_block_sum(total, shared);
    all = typed_block_sum(all, shared);
    if (threadIdx.x == 0) {
        double g = d.reduction == KERNEL_REDUCE_NONE ? 1.0 : (double)typed_get(dy, 0);
        numbers[0] = d.reduction == KERNEL_REDUCE_MEAN ? g / total : g;
        numbers[1] = all;
    }
}

template <int T>
__global__ void __launch_bounds__(THREADS)
    entropy_slopes(kernel_cross_entropy d, struct cuda_in dy, struct cuda_in x,
                   const int64_t *__restrict__ target, struct cuda_in weight,
                   const double *__restrict__ numbers, struct cuda_out dx, struct cuda_fault fault)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / T;
    int lane = threadIdx.x % T;
    if (i >= d.n * d.inner)
        return;
    int64_t base = i / d.inner * d.classes * d.inner + i % d.inner;
    int64_t t = class_of(d, target[i], fault);
    double g = d.reduction == KERNEL_REDUCE_NONE ? (double)typed_get(dy, i) : numbers[0];
    double wt = t < 0 ? 0.0 : weight.p ? (double)typed_get(weight, t) : 1.0;
    double smooth = (double)d.smoothing / (double)d.classes, keep = 1.0 - (double)d.smoothing;
    float lse = t < 0 || d.is_log_prob ? 0.0f : (float)row_lse<T>(d, x, base, lane);
    for (int64_t k = lane; k < d.classes; k += T) {
        double p =
            t < 0 || d.is_log_prob ? 0.0 : (double)expf(typed_get(x, base + k * d.inner) - lse);
        double v = t < 0 ? 0.0 : keep * wt * (p - (k == t ? 1.0 : 0.0));
        if (t >= 0 && d.smoothing != 0.0f)
            v += smooth * (numbers[1] * p - (weight.p ? (double)typed_get(weight, k) : 1.0));
        typed_put(dx, base + k * d.inner,
                  t < 0 ? 0.0f : (float)(g * v)); /* g: 0 / 0 where none counts */
    }
}

extern "C" int cuda_cross_entropy_grad(const struct kernel_cross_entropy *d, struct cuda_in dy,
                                       struct cuda_in x, const int64_t *target,
                                       struct cuda_in weight, struct cuda_out dx, void *workspace,
                                       struct cuda_fault fault, cuda_stream stream)
{
    int64_t n = d->n * d->inner;
    double *numbers = (double *)workspace;
    if (n <= 0)
        return 0;
    entropy_numbers<<<1, 1024, 0, stream>>>(*d, dy, target, weight, numbers);
    if (d->inner == 1)
        entropy_slopes<32><<<(unsigned)((n * 32 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            *d, dy, x, target, weight, numbers, dx, fault);
    else
        entropy_slopes<1><<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            *d, dy, x, target, weight, numbers, dx, fault);
    return (int)cudaGetLastError();
}
