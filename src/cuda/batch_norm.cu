/* batch_norm.cu - batch norm, with residual and relu, channels-last.
 *
 * Sums over rows: a block has a tile of consecutive rows; a thread keeps the same eight channels in every row it sees.
 * Threads of a channel are added in order, tiles in order within 32 strided runs; tiles by shape. Statistics are taken
 * around the first row, so that a mean far from zero does not cost digits. What is read again after its sums is read from
 * the end of every tile to its beginning: the last rows that were summed are still in the second-level cache. */
#include "cuda/cuda.h"
#include "cuda/device.cuh"

#define THREADS 256
#define MOST_TILES 1056 /* eight per multiprocessor of the H200; a constant */

/* Channels in strips of up to 2,048, each thread eight of them; `lanes` rows at a time. */
struct bn_layout {
    int strips, vectors, lanes; /* vectors of eight per strip */
    float eps;
    int64_t tiles, per_tile;
};

/* 1 / sqrt(var + eps) of eight channels. */
__device__ static inline vec8 load_rstd(const float *var, float eps)
{
    vec8 r = device_load(var);
#pragma unroll
    for (int i = 0; i < 8; i++)
        r.v[i] = 1.0f / sqrtf(r.v[i] + eps);
    return r;
}

static bn_layout layout_of(const struct cuda_batch_norm *d)
{
    int64_t rows = d->rows, channels = d->channels;
    bn_layout l;
    l.eps = d->eps;
    int64_t all = channels / 8;
    l.strips = (int)((all + THREADS - 1) / THREADS);
    l.vectors = (int)((all + l.strips - 1) / l.strips);
    l.lanes = THREADS / l.vectors;
    int64_t most = MOST_TILES / l.strips,
            least = (int64_t)l.lanes * 4; /* at least four rows per thread */
    l.per_tile = (rows + most - 1) / most;
    l.per_tile = l.per_tile < least ? least : (l.per_tile + l.lanes - 1) / l.lanes * l.lanes;
    l.tiles = (rows + l.per_tile - 1) / l.per_tile;
    return l;
}

enum {
    SUM_STATS,
    SUM_GRAD,
    SUM_GRAD_X,
    SUM_GRAD_Y
}; /* the last two: gated by the relu's input or output */

/* partial [tiles, 2, channels]. Bytes: one read of x; of dy, x (and y). */
template <class T, int MODE>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 2 ? 2 : 1)
    bn_sums(bn_layout l, int64_t rows, int channels, const T *__restrict__ dy,
            const T *__restrict__ x, const T *__restrict__ y, const float *__restrict__ mean,
            const float *__restrict__ var, const float *__restrict__ w, const float *__restrict__ b,
            float *__restrict__ partial)
{
    __shared__ float shared[THREADS][8];
    int vector = threadIdx.x % l.vectors, lane = threadIdx.x / l.vectors;
    int channel = (blockIdx.y * l.vectors + vector) * 8;
    bool is_active = lane < l.lanes && channel < channels;
    int64_t first = blockIdx.x * l.per_tile,
            last = first + l.per_tile < rows ? first + l.per_tile : rows;
    vec8 a, c, shift, factor, gate_factor, gate_shift;
#pragma unroll
    for (int i = 0; i < 8; i++)
        a.v[i] = c.v[i] = 0;
    if (is_active) {
        if (MODE == SUM_STATS) {
            shift = device_load(x + channel);
        } else {
            shift = device_load(mean + channel);
            factor = load_rstd(var + channel, l.eps);
            if (MODE == SUM_GRAD_X) {
                vec8 weight = device_load(w + channel), bias = device_load(b + channel);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    gate_factor.v[i] = factor.v[i] * weight.v[i];
                    gate_shift.v[i] = fmaf(-shift.v[i], gate_factor.v[i], bias.v[i]);
                }
            }
        }
        constexpr int AHEAD = MODE == SUM_STATS ? 4 : 2;
        for (int64_t row = first + lane; row < last; row += l.lanes * AHEAD) {
            typename packed8<T>::type px[AHEAD], pg[AHEAD], py[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                int64_t at = (row + k * l.lanes) * channels + channel;
                if (row + k * l.lanes < last) {
                    px[k] = device_load_packed(x + at);
                    if (MODE != SUM_STATS)
                        pg[k] = device_load_packed(dy + at);
                    if (MODE == SUM_GRAD_Y)
                        py[k] = device_load_packed(y + at);
                }
            }
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (row + k * l.lanes < last) {
                    vec8 v = device_widen(px[k]);
                    if (MODE == SUM_STATS) {
#pragma unroll
                        for (int i = 0; i < 8; i++) {
                            float d = v.v[i] - shift.v[i];
                            a.v[i] += d;
                            c.v[i] = fmaf(d, d, c.v[i]);
                        }
                    } else {
                        vec8 g = device_widen(pg[k]), o;
                        if (MODE == SUM_GRAD_Y)
                            o = device_widen(py[k]);
#pragma unroll
                        for (int i = 0; i < 8; i++) {
                            if (MODE == SUM_GRAD_X)
                                g.v[i] = fmaf(v.v[i], gate_factor.v[i], gate_shift.v[i]) > 0
                                             ? g.v[i]
                                             : 0.0f;
                            if (MODE == SUM_GRAD_Y)
                                g.v[i] = o.v[i] > 0 ? g.v[i] : 0.0f;
                            a.v[i] += g.v[i];
                            c.v[i] = fmaf(g.v[i], (v.v[i] - shift.v[i]) * factor.v[i], c.v[i]);
                        }
                    }
                }
        }
    }
    for (int part = 0; part < 2; part++) {
        __syncthreads();
        device_store(shared[threadIdx.x], part ? c : a);
        __syncthreads();
        if (lane == 0 && channel < channels) {
            vec8 total = part ? c : a;
            for (int i = 1; i < l.lanes; i++)
#pragma unroll
                for (int k = 0; k < 8; k++)
                    total.v[k] += shared[i * l.vectors + vector][k];
            device_store(partial + (blockIdx.x * (int64_t)2 + part) * channels + channel, total);
        }
    }
}

/* Block of 32 channels and 32 runs of tiles; the totals in double. STATS: mean and variance; else dw and db. */
template <class T, bool IS_STATS>
__global__ void __launch_bounds__(1024)
    bn_totals(int64_t tiles, int64_t rows, int channels, const T *__restrict__ x,
              const float *__restrict__ partial, float *__restrict__ first_out,
              float *__restrict__ second_out)
{
    __shared__ double shared[2][32][33];
    int lane = threadIdx.x % 32, run = threadIdx.x / 32, at = blockIdx.x * 32 + lane;
    double a = 0, c = 0;
    if (at < channels)
        for (int64_t t = run; t < tiles; t += 32) {
            a += (double)partial[t * 2 * channels + at];
            c += (double)partial[(t * 2 + 1) * channels + at];
        }
    shared[0][run][lane] = a;
    shared[1][run][lane] = c;
    __syncthreads();
    if (run || at >= channels)
        return;
    for (int i = 1; i < 32; i++) {
        a += shared[0][i][lane];
        c += shared[1][i][lane];
    }
    if (IS_STATS) {
        double mean = a / (double)rows, variance = c / (double)rows - mean * mean;
        first_out[at] = (float)(mean + (double)device_to_float(x[at]));
        second_out[at] = (float)(variance > 0 ? variance : 0);
    } else {
        first_out[at] = (float)c; /* dw */
        second_out[at] = (float)a;
    }
}

/* Bytes: x, y (and the residual) once. */
template <class T, bool HAS_RESIDUAL>
__global__ void __launch_bounds__(THREADS)
    bn_apply(bn_layout l, int64_t rows, int channels, int is_relu, const T *__restrict__ x,
             const T *__restrict__ residual, const float *__restrict__ mean,
             const float *__restrict__ var, const float *__restrict__ w,
             const float *__restrict__ b, T *__restrict__ y)
{
    int vector = threadIdx.x % l.vectors, lane = threadIdx.x / l.vectors;
    int channel = (blockIdx.y * l.vectors + vector) * 8;
    if (lane >= l.lanes || channel >= channels)
        return;
    int64_t first = (l.tiles - 1 - blockIdx.x) * l.per_tile,
            last = first + l.per_tile < rows ? first + l.per_tile : rows;
    vec8 factor = load_rstd(var + channel, l.eps), shift = device_load(mean + channel),
         weight = device_load(w + channel), bias = device_load(b + channel);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        factor.v[i] *= weight.v[i];
        shift.v[i] = fmaf(-shift.v[i], factor.v[i], bias.v[i]);
    }
    float least = is_relu ? 0.0f : -__int_as_float(0x7f800000);
    constexpr int AHEAD = HAS_RESIDUAL ? 2 : 4;
    int64_t stride = l.lanes * AHEAD, steps = (last - first + stride - 1) / stride;
    for (int64_t row = first + lane + (steps - 1) * stride; row >= first; row -= stride) {
        typename packed8<T>::type px[AHEAD], pr[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int64_t at = (row + k * l.lanes) * channels + channel;
            if (row + k * l.lanes < last) {
                px[k] = device_load_packed(x + at);
                if (HAS_RESIDUAL)
                    pr[k] = device_load_packed(residual + at);
            }
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (row + k * l.lanes < last) {
                vec8 v = device_widen(px[k]), r;
                if (HAS_RESIDUAL)
                    r = device_widen(pr[k]);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float o = fmaf(v.v[i], factor.v[i], shift.v[i]);
                    if (HAS_RESIDUAL)
                        o += r.v[i];
                    v.v[i] = o < least ? least : o;
                }
                device_store(y + (row + k * l.lanes) * channels + channel, v);
            }
    }
}

/* dx = w rstd (g - mean(g) - xhat mean(g xhat)), g the gated gradient. Bytes: dy, x (and y), dx (and dresidual) once. */
template <class T, int MODE, bool HAS_RESIDUAL>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 2 ? 2 : 1)
    bn_grad(bn_layout l, int64_t rows, int channels, const T *__restrict__ dy,
            const T *__restrict__ x, const T *__restrict__ y, const float *__restrict__ mean,
            const float *__restrict__ var, const float *__restrict__ w, const float *__restrict__ b,
            const float *__restrict__ dw, const float *__restrict__ db, T *__restrict__ dx,
            T *__restrict__ dresidual)
{
    int vector = threadIdx.x % l.vectors, lane = threadIdx.x / l.vectors;
    int channel = (blockIdx.y * l.vectors + vector) * 8;
    if (lane >= l.lanes || channel >= channels)
        return;
    int64_t first = (l.tiles - 1 - blockIdx.x) * l.per_tile,
            last = first + l.per_tile < rows ? first + l.per_tile : rows;
    /* dx = p g + q x + r */
    vec8 p, q, r, gate;
    {
        vec8 factor = load_rstd(var + channel, l.eps), m = device_load(mean + channel),
             weight = device_load(w + channel), gw = device_load(dw + channel),
             gb = device_load(db + channel), bias = device_load(b + channel);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            p.v[i] = factor.v[i] * weight.v[i];
            q.v[i] = -p.v[i] * factor.v[i] * gw.v[i] / (float)rows;
            r.v[i] = -p.v[i] * gb.v[i] / (float)rows - q.v[i] * m.v[i];
            gate.v[i] = fmaf(-m.v[i], p.v[i], bias.v[i]);
        }
    }
    constexpr int AHEAD = 2;
    int64_t stride = l.lanes * AHEAD, steps = (last - first + stride - 1) / stride;
    for (int64_t row = first + lane + (steps - 1) * stride; row >= first; row -= stride) {
        typename packed8<T>::type px[AHEAD], pg[AHEAD], py[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int64_t at = (row + k * l.lanes) * channels + channel;
            if (row + k * l.lanes < last) {
                px[k] = device_load_packed(x + at);
                pg[k] = device_load_packed(dy + at);
                if (MODE == SUM_GRAD_Y)
                    py[k] = device_load_packed(y + at);
            }
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (row + k * l.lanes < last) {
                int64_t at = (row + k * l.lanes) * channels + channel;
                vec8 v = device_widen(px[k]), g = device_widen(pg[k]), o;
                if (MODE == SUM_GRAD_Y)
                    o = device_widen(py[k]);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    if (MODE == SUM_GRAD_X)
                        g.v[i] = fmaf(v.v[i], p.v[i], gate.v[i]) > 0 ? g.v[i] : 0.0f;
                    if (MODE == SUM_GRAD_Y)
                        g.v[i] = o.v[i] > 0 ? g.v[i] : 0.0f;
                }
                if (HAS_RESIDUAL)
                    device_store(dresidual + at, g);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    v.v[i] = fmaf(p.v[i], g.v[i], fmaf(q.v[i], v.v[i], r.v[i]));
                device_store(dx + at, v);
            }
    }
}

static bool is_valid(const struct cuda_batch_norm *d)
{
    return d->rows > 0 && d->channels > 0 && d->channels % 8 == 0 && d->channels <= 1 << 20;
}

extern "C" size_t cuda_batch_norm_workspace(const struct cuda_batch_norm *d)
{
    return (size_t)layout_of(d).tiles * 2 * (size_t)d->channels * sizeof(float);
}

template <class T>
static int stats(const struct cuda_batch_norm *d, const T *x, float *mean, float *var,
                 float *partial, cudaStream_t stream)
{
    bn_layout l = layout_of(d);
    int channels = (int)d->channels;
    dim3 grid((unsigned)l.tiles, (unsigned)l.strips);
    bn_sums<T, SUM_STATS><<<grid, THREADS, 0, stream>>>(l, d->rows, channels, NULL, x, NULL, NULL,
                                                        NULL, NULL, NULL, partial);
    bn_totals<T, true><<<(unsigned)((channels + 31) / 32), 1024, 0, stream>>>(
        l.tiles, d->rows, channels, x, partial, mean, var);
    return (int)cudaGetLastError();
}

extern "C" int cuda_batch_norm_stats(const struct cuda_batch_norm *d, const void *x, float *mean,
                                     float *var, void *workspace, cuda_stream stream)
{
    if (!is_valid(d))
        return (int)cudaErrorInvalidValue;
    return d->dtype == CUDA_BF16
               ? stats(d, (const bf16 *)x, mean, var, (float *)workspace, stream)
               : stats(d, (const float *)x, mean, var, (float *)workspace, stream);
}

template <class T>
static int apply(const struct cuda_batch_norm *d, const T *x, const T *residual, const float *mean,
                 const float *var, const float *w, const float *b, T *y, cudaStream_t stream)
{
    bn_layout l = layout_of(d);
    dim3 grid((unsigned)l.tiles, (unsigned)l.strips);
    auto kernel = residual ? bn_apply<T, true> : bn_apply<T, false>;
    kernel<<<grid, THREADS, 0, stream>>>(l, d->rows, (int)d->channels, d->is_relu, x, residual,
                                         mean, var, w, b, y);
    return (int)cudaGetLastError();
}

extern "C" int cuda_batch_norm_apply(const struct cuda_batch_norm *d, const void *x,
                                     const void *residual, const float *mean, const float *var,
                                     const float *w, const float *b, void *y, cuda_stream stream)
{
    if (!is_valid(d))
        return (int)cudaErrorInvalidValue;
    return d->dtype == CUDA_BF16 ? apply(d, (const bf16 *)x, (const bf16 *)residual, mean, var, w,
                                         b, (bf16 *)y, stream)
                                 : apply(d, (const float *)x, (const float *)residual, mean, var, w,
                                         b, (float *)y, stream);
}

template <class T, int MODE>
static int grad_mode(const struct cuda_batch_norm *d, const T *dy, const T *x, const T *y,
                     const float *mean, const float *var, const float *w, const float *b, T *dx,
                     T *dresidual, float *dw, float *db, float *partial, cudaStream_t stream)
{
    bn_layout l = layout_of(d);
    int channels = (int)d->channels;
    dim3 grid((unsigned)l.tiles, (unsigned)l.strips);
    bn_sums<T, MODE>
        <<<grid, THREADS, 0, stream>>>(l, d->rows, channels, dy, x, y, mean, var, w, b, partial);
    bn_totals<T, false><<<(unsigned)((channels + 31) / 32), 1024, 0, stream>>>(
        l.tiles, d->rows, channels, x, partial, dw, db);
    if (!dx)
        return (int)cudaGetLastError();
    auto kernel = dresidual ? bn_grad<T, MODE, true> : bn_grad<T, MODE, false>;
    kernel<<<grid, THREADS, 0, stream>>>(l, d->rows, channels, dy, x, y, mean, var, w, b, dw, db,
                                         dx, dresidual);
    return (int)cudaGetLastError();
}

template <class T>
static int grad(const struct cuda_batch_norm *d, const void *dy, const void *x, const void *y,
                const float *mean, const float *var, const float *w, const float *b, void *dx,
                void *dresidual, float *dw, float *db, float *partial, cudaStream_t stream)
{
    auto run = !d->is_relu ? grad_mode<T, SUM_GRAD>
               : y         ? grad_mode<T, SUM_GRAD_Y>
                           : grad_mode<T, SUM_GRAD_X>;
    return run(d, (const T *)dy, (const T *)x, (const T *)y, mean, var, w, b, (T *)dx,
               (T *)dresidual, dw, db, partial, stream);
}

extern "C" int cuda_batch_norm_grad(const struct cuda_batch_norm *d, const void *dy, const void *x,
                                    const void *y, const float *mean, const float *var,
                                    const float *w, const float *b, void *dx, void *dresidual,
                                    float *dw, float *db, void *workspace, cuda_stream stream)
{
    if (!is_valid(d))
        return (int)cudaErrorInvalidValue;
    float *partial = (float *)workspace;
    return d->dtype == CUDA_BF16
               ? grad<bf16>(d, dy, x, y, mean, var, w, b, dx, dresidual, dw, db, partial, stream)
               : grad<float>(d, dy, x, y, mean, var, w, b, dx, dresidual, dw, db, partial, stream);
}
