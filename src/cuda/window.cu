/* window.cu - pooling, unpooling, resampling and windows over channels, of any layout and type.
 *
 * A thread per result. Gradients are gathered: every place looks at the results that it took part in, in their order, so
 * nothing is added by two threads. Where a kernel of pool.cu fits, it is taken. */
#include "cuda/typed.cuh"
#include <math_constants.h>

#define THREADS 256

#define EACH(i, n)                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < (n);                         \
         i += (int64_t)gridDim.x * THREADS)

static unsigned blocks_for(int64_t n)
{
    int64_t blocks = (n + THREADS - 1) / THREADS;
    return (unsigned)(blocks > 1 << 20 ? 1 << 20 : blocks < 1 ? 1 : blocks);
}

/* struct kernel_pool in 32 bits: a plane has less than 2^31 elements, and divisions are many. */
struct pool {
    int64_t planes;
    int lanes, count_include_pad;
    int in[3], out[3], k[3], stride[3], pad[3], dilation[3];
};

static pool pool_of(const struct kernel_pool *d)
{
    pool p = {d->planes, (int)d->lanes, d->count_include_pad};
    for (int i = 0; i < 3; i++) {
        p.in[i] = (int)d->in[i];
        p.out[i] = (int)d->out[i];
        p.k[i] = (int)d->k[i];
        p.stride[i] = (int)d->stride[i];
        p.pad[i] = (int)d->pad[i];
        p.dilation[i] = (int)d->dilation[i];
    }
    return p;
}

/* [size[0], size[1], size[2], lanes]: element i of a plane taken apart. */
struct place {
    int lane, at[3];
};

__device__ static inline place place_of(const int *size, int lanes, uint32_t i)
{
    place p;
    p.lane = (int)(i % (uint32_t)lanes);
    i /= (uint32_t)lanes;
    p.at[2] = (int)(i % (uint32_t)size[2]);
    i /= (uint32_t)size[2];
    p.at[1] = (int)(i % (uint32_t)size[1]);
    p.at[0] = (int)(i / (uint32_t)size[1]);
    return p;
}

__device__ static inline int index_of(const int *size, int lanes, const place &p, int a, int b,
                                      int c)
{
    return ((a * size[1] + b) * size[2] + c) * lanes + p.lane;
}

__host__ __device__ static inline int64_t volume(const int *size, int lanes)
{
    return (int64_t)size[0] * size[1] * size[2] * lanes;
}

/* Element i of every plane. */
#define EACH_PLACE(i, size)                                                                        \
    for (int64_t plane = blockIdx.y; plane < p.planes; plane += gridDim.y)                         \
        for (uint32_t i = blockIdx.x * THREADS + threadIdx.x,                                      \
                      end = (uint32_t)volume(size, p.lanes);                                       \
             i < end; i += gridDim.x * THREADS)

/* ---- maxima ------------------------------------------------------------------------------------- */

__global__ void __launch_bounds__(THREADS) max_any(const __grid_constant__ pool p, struct cuda_in x,
                                                   struct cuda_out y, uint8_t *__restrict__ winner)
{
    EACH_PLACE(i, p.out)
    {
        place o = place_of(p.out, p.lanes, i);
        int64_t from = plane * volume(p.in, p.lanes), to = plane * volume(p.out, p.lanes) + i;
        int best = KERNEL_POOL_WINDOW;
        float top = -CUDART_INF_F;
        for (int a = 0; a < p.k[0]; a++)
            for (int b = 0; b < p.k[1]; b++)
                for (int c = 0; c < p.k[2]; c++) {
                    int z = o.at[0] * p.stride[0] - p.pad[0] + a * p.dilation[0];
                    int h = o.at[1] * p.stride[1] - p.pad[1] + b * p.dilation[1];
                    int w = o.at[2] * p.stride[2] - p.pad[2] + c * p.dilation[2];
                    if (z < 0 || h < 0 || w < 0 || z >= p.in[0] || h >= p.in[1] || w >= p.in[2])
                        continue;
                    float v = typed_get(x, from + index_of(p.in, p.lanes, o, z, h, w));
                    if (v > top || best == KERNEL_POOL_WINDOW || v != v) {
                        best = (int)((a * p.k[1] + b) * p.k[2] + c);
                        top = v;
                    }
                }
        if (y.p)
            typed_put(y, to, top);
        if (winner)
            winner[to] = (uint8_t)best;
    }
}

/* Results along one dimension whose windows may hold place i: first to last. */
__device__ static inline void cover(const pool &p, int d, int i, int *first, int *last)
{
    int span = p.dilation[d] * (p.k[d] - 1), low = i + p.pad[d] - span;
    *first = low <= 0 ? 0 : (low + p.stride[d] - 1) / p.stride[d];
    *last = (i + p.pad[d]) / p.stride[d];
    *last = *last < p.out[d] - 1 ? *last : p.out[d] - 1;
}

/* Position in the window of result o, or -1. */
__device__ static inline int within(const pool &p, int d, int i, int o)
{
    int away = i + p.pad[d] - o * p.stride[d];
    return away >= 0 && away % p.dilation[d] == 0 && away / p.dilation[d] < p.k[d]
               ? away / p.dilation[d]
               : -1;
}

__global__ void __launch_bounds__(THREADS)
    max_grad_any(const __grid_constant__ pool p, struct cuda_in dy,
                 const uint8_t *__restrict__ winner, struct cuda_out dx)
{
    EACH_PLACE(i, p.in)
    {
        place x = place_of(p.in, p.lanes, i);
        int64_t from = plane * volume(p.out, p.lanes), to = plane * volume(p.in, p.lanes) + i;
        int first[3], last[3];
        float sum = 0;
        for (int d = 0; d < 3; d++)
            cover(p, d, x.at[d], &first[d], &last[d]);
        for (int a = first[0]; a <= last[0]; a++)
            for (int b = first[1]; b <= last[1]; b++)
                for (int c = first[2]; c <= last[2]; c++) {
                    int ka = within(p, 0, x.at[0], a), kb = within(p, 1, x.at[1], b),
                        kc = within(p, 2, x.at[2], c);
                    if (ka < 0 || kb < 0 || kc < 0)
                        continue;
                    int64_t o = from + index_of(p.out, p.lanes, x, a, b, c);
                    if (winner[o] == (ka * p.k[1] + kb) * p.k[2] + kc)
                        sum += typed_get(dy, o);
                }
        typed_put(dx, to, sum);
    }
}

__global__ void __launch_bounds__(THREADS)
    max_index(const __grid_constant__ pool p, const uint8_t *__restrict__ winner,
              int64_t *__restrict__ index)
{
    EACH_PLACE(i, p.out)
    {
        place o = place_of(p.out, 1, i);
        int64_t to = plane * volume(p.out, 1) + i;
        int k = winner[to], at[3], by[3] = {k / p.k[2] / p.k[1], k / p.k[2] % p.k[1], k % p.k[2]};
        for (int d = 0; d < 3; d++)
            at[d] = o.at[d] * p.stride[d] - p.pad[d] + by[d] * p.dilation[d];
        index[to] = k == KERNEL_POOL_WINDOW ? -1 : (at[0] * p.in[1] + at[1]) * p.in[2] + at[2];
    }
}

/* ---- means -------------------------------------------------------------------------------------- */

struct share {
    int from[3], to[3];
    double divisor;
};

__device__ static inline share share_of(const pool &p, bool is_adaptive, const int *o)
{
    share s;
    double padded = 1, real = 1;
    for (int d = 0; d < 3; d++) {
        if (is_adaptive) {
            s.from[d] = o[d] * p.in[d] / p.out[d];
            s.to[d] = ((o[d] + 1) * p.in[d] + p.out[d] - 1) / p.out[d];
        } else {
            int begin = o[d] * p.stride[d] - p.pad[d], to = begin + p.k[d];
            to = to < p.in[d] + p.pad[d] ? to : p.in[d] + p.pad[d];
            padded *= (double)(to - begin);
            s.from[d] = begin > 0 ? begin : 0;
            s.to[d] = to < p.in[d] ? to : p.in[d];
        }
        real *= (double)(s.to[d] - s.from[d]);
    }
    s.divisor = !is_adaptive && p.count_include_pad ? padded : real;
    return s;
}

__global__ void __launch_bounds__(THREADS)
    mean_any(const __grid_constant__ pool p, bool is_adaptive, struct cuda_in x, struct cuda_out y)
{
    EACH_PLACE(i, p.out)
    {
        place o = place_of(p.out, p.lanes, i);
        int64_t from = plane * volume(p.in, p.lanes), to = plane * volume(p.out, p.lanes) + i;
        share s = share_of(p, is_adaptive, o.at);
        double sum = 0;
        for (int a = s.from[0]; a < s.to[0]; a++)
            for (int b = s.from[1]; b < s.to[1]; b++)
                for (int c = s.from[2]; c < s.to[2]; c++)
                    sum += (double)typed_get(x, from + index_of(p.in, p.lanes, o, a, b, c));
        typed_put(y, to, (float)(sum / s.divisor));
    }
}

__global__ void __launch_bounds__(THREADS)
    mean_grad_any(const __grid_constant__ pool p, bool is_adaptive, struct cuda_in dy,
                  struct cuda_out dx)
{
    EACH_PLACE(i, p.in)
    {
        place x = place_of(p.in, p.lanes, i);
        int64_t from = plane * volume(p.out, p.lanes), to = plane * volume(p.in, p.lanes) + i;
        int first[3], last[3];
        float sum = 0;
        for (int d = 0; d < 3; d++) {
            if (is_adaptive) { /* at most one too many on either side */
                first[d] = x.at[d] * p.out[d] / p.in[d];
                last[d] = ((x.at[d] + 1) * p.out[d] - 1) / p.in[d];
                first[d] -= first[d] > 0;
                last[d] += last[d] < p.out[d] - 1;
            } else {
                cover(p, d, x.at[d], &first[d], &last[d]);
            }
        }
        for (int a = first[0]; a <= last[0]; a++)
            for (int b = first[1]; b <= last[1]; b++)
                for (int c = first[2]; c <= last[2]; c++) {
                    const int at[3] = {a, b, c};
                    share s = share_of(p, is_adaptive, at);
                    bool is_in = true;
                    for (int d = 0; d < 3; d++)
                        is_in = is_in && x.at[d] >= s.from[d] && x.at[d] < s.to[d];
                    if (is_in)
                        sum += (float)((double)typed_get(
                                           dy, from + index_of(p.out, p.lanes, x, a, b, c)) /
                                       s.divisor);
                }
        typed_put(dx, to, sum);
    }
}

/* ---- the kernels of pool.cu ----------------------------------------------------------------------- */

/* Channels-last over two dimensions, square windows without dilation. */
static bool is_square(const struct kernel_pool *p, int dtype)
{
    return p->lanes % 8 == 0 && p->in[0] == 1 && p->out[0] == 1 && p->k[0] == 1 &&
           p->k[1] == p->k[2] && p->stride[1] == p->stride[2] && p->pad[1] == p->pad[2] &&
           p->dilation[1] == 1 && p->dilation[2] == 1 && p->k[1] <= 15 &&
           p->pad[1] * 2 <= p->k[1] && dtype != KERNEL_F16 && p->planes <= 65535 &&
           p->in[1] <= 65535 && p->out[1] <= 65535 &&
           p->planes * p->in[1] * p->in[2] * p->lanes > 0 &&
           (p->out[1] - 1) * p->stride[1] - p->pad[1] < p->in[1] &&
           (p->out[2] - 1) * p->stride[2] - p->pad[2] < p->in[2] &&
           p->out[1] * p->out[2] * p->lanes < INT32_MAX && p->in[2] * p->lanes < INT32_MAX;
}

static struct cuda_pool square_of(const struct kernel_pool *p, int dtype)
{
    struct cuda_pool s = {(int32_t)p->planes, (int32_t)p->in[1],
                          (int32_t)p->in[2],  (int32_t)p->lanes,
                          (int32_t)p->out[1], (int32_t)p->out[2],
                          (int32_t)p->k[1],   (int32_t)p->stride[1],
                          (int32_t)p->pad[1], dtype == KERNEL_BF16 ? CUDA_BF16 : CUDA_F32};
    return s;
}

static bool is_global(const struct kernel_pool *p, int dtype)
{
    return p->lanes % 8 == 0 && p->in[0] == 1 && p->out[0] * p->out[1] * p->out[2] == 1 &&
           dtype != KERNEL_F16 && p->planes * p->in[1] * p->in[2] * p->lanes > 0 &&
           p->planes <= INT32_MAX && p->in[1] * p->in[2] <= INT32_MAX;
}

static int fast_pool(const struct kernel_pool_desc *d, struct cuda_in x, const uint8_t *index,
                     struct cuda_out y, uint8_t *winner, bool *is_done, cudaStream_t stream)
{
    const struct kernel_pool *p = &d->pool;
    struct cuda_pool s = square_of(p, x.dtype);
    *is_done = false;
    if (x.dtype != y.dtype || !y.p || !cuda_is_aligned(x.p) || !cuda_is_aligned(y.p) ||
        (uintptr_t)index % 8 || (uintptr_t)winner % 8)
        return 0;
    *is_done = true;
    if (d->f == KERNEL_MAX_POOL && is_square(p, x.dtype))
        return cuda_max_pool(&s, x.p, y.p, winner, stream);
    if (d->f == KERNEL_MAX_POOL_GRAD && is_square(p, x.dtype))
        return cuda_max_pool_grad(&s, x.p, index, y.p, stream);
    if (d->f == KERNEL_ADAPTIVE && is_global(p, x.dtype))
        return cuda_mean_pool(&s, x.p, y.p, stream);
    if (d->f == KERNEL_ADAPTIVE_GRAD && is_global(p, x.dtype))
        return cuda_mean_pool_grad(&s, x.p, y.p, stream);
    *is_done = false;
    return 0;
}

static dim3 grid_of(int64_t planes, int64_t elements)
{
    int64_t x = (elements + THREADS - 1) / THREADS;
    return dim3((unsigned)(x > 4096 ? 4096 : x), (unsigned)(planes > 65535 ? 65535 : planes));
}

extern "C" int cuda_window_pool(const struct kernel_pool_desc *d, struct cuda_in x,
                                const uint8_t *index, struct cuda_out y, uint8_t *winner,
                                cuda_stream stream)
{
    const struct kernel_pool *p = &d->pool;
    pool q = pool_of(p);
    bool is_done = false;
    if (p->in[0] * p->in[1] * p->in[2] * p->lanes > INT32_MAX ||
        p->out[0] * p->out[1] * p->out[2] * p->lanes > INT32_MAX)
        return (int)cudaErrorInvalidValue;
    for (int k = 0; k < 3; k++) /* shares of a plane are found with 32 bits */
        if ((d->f == KERNEL_ADAPTIVE || d->f == KERNEL_ADAPTIVE_GRAD) &&
            (p->in[k] + 1) * (p->out[k] + 1) > INT32_MAX)
            return (int)cudaErrorInvalidValue;
    if (p->planes * volume(q.in, q.lanes) == 0 || volume(q.out, q.lanes) == 0)
        return 0;
    dim3 in = grid_of(q.planes, volume(q.in, q.lanes)),
         out = grid_of(q.planes, volume(q.out, q.lanes));
    if (d->f != KERNEL_MAX_POOL_INDEX) {
        int code = fast_pool(d, x, index, y, winner, &is_done, stream);
        if (code || is_done)
            return code;
    }
    switch (d->f) {
    case KERNEL_MAX_POOL:
        max_any<<<out, THREADS, 0, stream>>>(q, x, y, winner);
        break;
    case KERNEL_MAX_POOL_GRAD:
        max_grad_any<<<in, THREADS, 0, stream>>>(q, x, index, y);
        break;
    case KERNEL_MAX_POOL_INDEX:
        max_index<<<out, THREADS, 0, stream>>>(q, (const uint8_t *)x.p, (int64_t *)y.p);
        break;
    case KERNEL_AVG:
    case KERNEL_ADAPTIVE:
        mean_any<<<out, THREADS, 0, stream>>>(q, d->f == KERNEL_ADAPTIVE, x, y);
        break;
    default:
        mean_grad_any<<<in, THREADS, 0, stream>>>(q, d->f == KERNEL_ADAPTIVE_GRAD, x, y);
    }
    return (int)cudaGetLastError();
}

/* ---- unpooling ------------------------------------------------------------------------------------ */

/* One thread per plane keeps the order of positions: the last of equal indices stays. */
__global__ void __launch_bounds__(32)
    unpool_planes(kernel_unpool_desc d, struct cuda_in x, const int64_t *__restrict__ index,
                  struct cuda_out y, struct cuda_fault fault)
{
    int64_t plane = blockIdx.x;
    for (int64_t i = threadIdx.x; i < d.out_size; i += 32)
        typed_put(y, plane * d.out_size + i, 0.0f);
    __syncwarp();
    if (threadIdx.x)
        return;
    for (int64_t i = 0; i < d.in_size; i++) {
        int64_t at = index[plane * d.in_size + i];
        if (at < 0 || at >= d.out_size)
            typed_fault(fault);
        else
            typed_put(y, plane * d.out_size + at, typed_get(x, plane * d.in_size + i));
    }
}

__global__ void __launch_bounds__(THREADS)
    unpool_grad(kernel_unpool_desc d, struct cuda_in dy, const int64_t *__restrict__ index,
                struct cuda_out dx, struct cuda_fault fault)
{
    EACH(i, d.planes * d.in_size)
    {
        int64_t at = index[i];
        bool is_wrong = at < 0 || at >= d.out_size;
        if (is_wrong)
            typed_fault(fault);
        typed_put(dx, i, is_wrong ? 0.0f : typed_get(dy, i / d.in_size * d.out_size + at));
    }
}

extern "C" int cuda_window_unpool(const struct kernel_unpool_desc *d, struct cuda_in x,
                                  const int64_t *index, struct cuda_out y, struct cuda_fault fault,
                                  cuda_stream stream)
{
    if (d->planes <= 0)
        return 0;
    if (d->is_grad)
        unpool_grad<<<blocks_for(d->planes * d->in_size), THREADS, 0, stream>>>(*d, x, index, y,
                                                                                fault);
    else
        unpool_planes<<<(unsigned)d->planes, 32, 0, stream>>>(*d, x, index, y, fault);
    return (int)cudaGetLastError();
}

/* ---- resampling ----------------------------------------------------------------------------------- */

struct tap { /* two source positions and their weights */
    int64_t i0, i1;
    float w0, w1;
};

/* As kernel/resample.c, in float: it decides which element is meant. */
__device__ static inline tap tap_of(const kernel_resample &r, int d, int64_t o)
{
    float scale = (float)r.scale[d], from = (float)o, place = __fmul_rn(scale, from);
    int64_t end = r.in[d] - 1;
    if (!r.is_bilinear) {
        int64_t i = (int64_t)floorf(place);
        i = i < end ? i : end;
        return {i, i, 1.0f, 0.0f};
    }
    if (!r.align_corners)
        place = fmaxf(0.0f, fmaf(scale, from + 0.5f, -0.5f));
    int64_t i = (int64_t)place;
    i = i < end ? i : end;
    float f = r.align_corners ? fmaf(scale, from, -(float)i) : place - (float)i;
    f = fminf(fmaxf(f, 0.0f), 1.0f);
    return {i, i + 1 < end ? i + 1 : end, 1.0f - f, f};
}

__global__ void __launch_bounds__(THREADS)
    resample_any(const __grid_constant__ kernel_resample r, struct cuda_in x, struct cuda_out y)
{
    EACH(i, r.planes * r.out[0] * r.out[1] * r.lanes)
    {
        int64_t lane = i % r.lanes, rest = i / r.lanes, w = rest % r.out[1];
        int64_t h = rest / r.out[1] % r.out[0], plane = rest / r.out[1] / r.out[0];
        tap a = tap_of(r, 0, h), b = tap_of(r, 1, w);
        int64_t base = plane * r.in[0] * r.in[1];
        float p0 = typed_get(x, (base + a.i0 * r.in[1] + b.i0) * r.lanes + lane);
        float p1 = typed_get(x, (base + a.i0 * r.in[1] + b.i1) * r.lanes + lane);
        float q0 = typed_get(x, (base + a.i1 * r.in[1] + b.i0) * r.lanes + lane);
        float q1 = typed_get(x, (base + a.i1 * r.in[1] + b.i1) * r.lanes + lane);
        typed_put(y, i,
                  fmaf(a.w0, fmaf(b.w0, p0, __fmul_rn(b.w1, p1)),
                       __fmul_rn(a.w1, fmaf(b.w0, q0, __fmul_rn(b.w1, q1)))));
    }
}

/* Results that place i may have a part in: a few too many on either side. */
__device__ static inline void reach(const kernel_resample &r, int d, int64_t i, int64_t *first,
                                    int64_t *last)
{
    double scale = r.scale[d];
    *first = 0;
    *last = r.out[d] - 1;
    if (scale <= 0 || i == 0 || i >= r.in[d] - 2) /* borders take what lies beyond them */
        return;
    int64_t low = (int64_t)(((double)i - 1.0) / scale) - 2,
            high = (int64_t)(((double)i + 2.0) / scale) + 2;
    *first = low > 0 ? low : 0;
    *last = high < r.out[d] - 1 ? high : r.out[d] - 1;
}

__global__ void __launch_bounds__(THREADS)
    resample_grad(const __grid_constant__ kernel_resample r, struct cuda_in dy, struct cuda_out dx)
{
    EACH(i, r.planes * r.in[0] * r.in[1] * r.lanes)
    {
        int64_t lane = i % r.lanes, rest = i / r.lanes, x = rest % r.in[1];
        int64_t y = rest / r.in[1] % r.in[0], plane = rest / r.in[1] / r.in[0];
        int64_t h0, h1, w0, w1;
        float sum = 0;
        reach(r, 0, y, &h0, &h1);
        reach(r, 1, x, &w0, &w1);
        for (int64_t h = h0; h <= h1; h++) {
            tap a = tap_of(r, 0, h);
            if (a.i0 != y && a.i1 != y)
                continue;
            for (int64_t w = w0; w <= w1; w++) {
                tap b = tap_of(r, 1, w);
                if (b.i0 != x && b.i1 != x)
                    continue;
                float g = typed_get(dy, ((plane * r.out[0] + h) * r.out[1] + w) * r.lanes + lane);
                if (a.i0 == y && b.i0 == x)
                    sum = fmaf(__fmul_rn(a.w0, b.w0), g, sum);
                if (a.i0 == y && b.i1 == x)
                    sum = fmaf(__fmul_rn(a.w0, b.w1), g, sum);
                if (a.i1 == y && b.i0 == x)
                    sum = fmaf(__fmul_rn(a.w1, b.w0), g, sum);
                if (a.i1 == y && b.i1 == x)
                    sum = fmaf(__fmul_rn(a.w1, b.w1), g, sum);
            }
        }
        typed_put(dx, i, sum);
    }
}

extern "C" int cuda_window_resample(const struct kernel_resample_desc *d, struct cuda_in x,
                                    struct cuda_out y, cuda_stream stream)
{
    const struct kernel_resample *r = &d->resample;
    if (d->is_grad)
        resample_grad<<<blocks_for(r->planes * r->in[0] * r->in[1] * r->lanes), THREADS, 0,
                        stream>>>(*r, x, y);
    else
        resample_any<<<blocks_for(r->planes * r->out[0] * r->out[1] * r->lanes), THREADS, 0,
                       stream>>>(*r, x, y);
    return (int)cudaGetLastError();
}

/* ---- windows over channels -------------------------------------------------------------------------- */

__global__ void __launch_bounds__(THREADS)
    channels_any(kernel_channel_window_desc d, struct cuda_in x, struct cuda_out y)
{
    EACH(i, d.outer * d.channels * d.inner)
    {
        int64_t channel = i / d.inner % d.channels;
        int64_t first = channel > d.before ? channel - d.before : 0;
        int64_t last = channel + d.after < d.channels - 1 ? channel + d.after : d.channels - 1;
        float sum = 0;
        for (int64_t k = first; k <= last; k++)
            sum += typed_get(x, i + (k - channel) * d.inner);
        typed_put(y, i, sum);
    }
}

extern "C" int cuda_window_channels(const struct kernel_channel_window_desc *d, struct cuda_in x,
                                    struct cuda_out y, cuda_stream stream)
{
    channels_any<<<blocks_for(d->outer * d->channels * d->inner), THREADS, 0, stream>>>(*d, x, y);
    return (int)cudaGetLastError();
}
