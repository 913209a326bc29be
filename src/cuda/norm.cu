/* norm.cu - layer norm and its gradient: every operand is read once.
 *
 * A warp has a row in its registers (up to 2,048 elements: K vectors of eight per lane); longer rows are read again from
 * the second-level cache. Statistics in two steps, mean and then squares around it. */
#include "cuda/cuda.h"
#include "cuda/device.cuh"

#define WARPS 8 /* per block; 256 threads keep 2 to 4 blocks on a multiprocessor */

/* Bytes: rows * n * size * (1 read + 1 write), one more of each with a residual. */
template <class T, int K, bool HAS_RESIDUAL>
__global__ void __launch_bounds__(32 * WARPS, K <= 3 ? 4 : 2)
    norm_rows(int64_t rows, int n, float eps, const T *__restrict__ x,
              const T *__restrict__ residual, const float *__restrict__ w,
              const float *__restrict__ b, T *__restrict__ sum, T *__restrict__ y,
              float *__restrict__ mean_out, float *__restrict__ rstd_out)
{
    int lane = threadIdx.x % 32;
    int64_t row = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    if (row >= rows)
        return;
    const T *px = x + row * n;
    vec8 v[K];
    float total = 0;
#pragma unroll
    for (int k = 0; k < K; k++) {
        int at = (k * 32 + lane) * 8;
        if (at < n) {
            v[k] = device_load(px + at);
            if (HAS_RESIDUAL) {
                vec8 r = device_load(residual + row * n + at);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    v[k].v[i] = device_round<T>(v[k].v[i] + r.v[i]);
                device_store(sum + row * n + at, v[k]);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++)
                v[k].v[i] = 0;
        }
#pragma unroll
        for (int i = 0; i < 8; i++)
            total += v[k].v[i];
    }
    float mean = device_warp_sum(total) / (float)n, squares = 0;
#pragma unroll
    for (int k = 0; k < K; k++)
        if ((k * 32 + lane) * 8 < n) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float d = v[k].v[i] - mean;
                squares = fmaf(d, d, squares);
            }
        }
    float rstd = 1.0f / sqrtf(device_warp_sum(squares) / (float)n + eps);
    if (lane == 0 && mean_out)
        mean_out[row] = mean;
    if (lane == 0 && rstd_out)
        rstd_out[row] = rstd;
    if (!y)
        return;
#pragma unroll
    for (int k = 0; k < K; k++) {
        int at = (k * 32 + lane) * 8;
        if (at < n) {
            vec8 g = device_load(w + at), c = device_load(b + at), r;
#pragma unroll
            for (int i = 0; i < 8; i++)
                r.v[i] = fmaf((v[k].v[i] - mean) * rstd, g.v[i], c.v[i]);
            device_store(y + row * n + at, r);
        }
    }
}

__device__ static float block_sum(float x, float *shared)
{
    x = device_warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    float r = 0;
    for (int i = 0; i < WARPS; i++)
        r += shared[i];
    return r;
}

/* Long rows: one block each, three reads (two of them from the cache). */
template <class T>
__global__ void __launch_bounds__(32 * WARPS)
    norm_long(int n, float eps, const T *__restrict__ x, const T *__restrict__ residual,
              const float *__restrict__ w, const float *__restrict__ b, T *__restrict__ sum,
              T *__restrict__ y, float *__restrict__ mean_out, float *__restrict__ rstd_out)
{
    __shared__ float shared[WARPS];
    int64_t base = (int64_t)blockIdx.x * n;
    float total = 0, squares = 0;
    for (int at = threadIdx.x * 8; at < n; at += 32 * WARPS * 8) {
        vec8 v = device_load(x + base + at);
        if (residual) {
            vec8 r = device_load(residual + base + at);
            for (int i = 0; i < 8; i++)
                v.v[i] = device_round<T>(v.v[i] + r.v[i]);
            device_store(sum + base + at, v);
        }
        for (int i = 0; i < 8; i++)
            total += v.v[i];
    }
    const T *source = residual ? sum : x; /* what this thread itself wrote */
    float mean = block_sum(total, shared) / (float)n;
    for (int at = threadIdx.x * 8; at < n; at += 32 * WARPS * 8) {
        vec8 v = device_load(source + base + at);
        for (int i = 0; i < 8; i++)
            squares = fmaf(v.v[i] - mean, v.v[i] - mean, squares);
    }
    float rstd = 1.0f / sqrtf(block_sum(squares, shared) / (float)n + eps);
    if (threadIdx.x == 0 && mean_out)
        mean_out[blockIdx.x] = mean;
    if (threadIdx.x == 0 && rstd_out)
        rstd_out[blockIdx.x] = rstd;
    if (!y)
        return;
    for (int at = threadIdx.x * 8; at < n; at += 32 * WARPS * 8) {
        vec8 v = device_load(source + base + at), g = device_load(w + at), c = device_load(b + at);
        for (int i = 0; i < 8; i++)
            v.v[i] = fmaf((v.v[i] - mean) * rstd, g.v[i], c.v[i]);
        device_store(y + base + at, v);
    }
}

template <class T, bool HAS_RESIDUAL>
static void launch_rows(const struct cuda_norm *d, const void *x, const void *residual,
                        const float *w, const float *b, void *sum, void *y, float *mean,
                        float *rstd, cudaStream_t stream)
{
    unsigned blocks = (unsigned)((d->rows + WARPS - 1) / WARPS);
    int n = (int)d->n;
#define ROWS(k)                                                                                    \
    case k:                                                                                        \
        norm_rows<T, k, HAS_RESIDUAL><<<blocks, 32 * WARPS, 0, stream>>>(                          \
            d->rows, n, d->eps, (const T *)x, (const T *)residual, w, b, (T *)sum, (T *)y, mean,   \
            rstd);                                                                                 \
        break;
    switch ((n + 255) / 256) {
        ROWS(1)
        ROWS(2)
        ROWS(3)
        ROWS(4)
        ROWS(5)
        ROWS(6)
        ROWS(7)
        ROWS(8)
    default:
        norm_long<T><<<(unsigned)d->rows, 32 * WARPS, 0, stream>>>(
            n, d->eps, (const T *)x, (const T *)residual, w, b, (T *)sum, (T *)y, mean, rstd);
    }
#undef ROWS
}

extern "C" int cuda_layer_norm(const struct cuda_norm *d, const void *x, const void *residual,
                               const float *w, const float *b, void *sum, void *y, float *mean,
                               float *rstd, cuda_stream stream)
{
    if (d->n % 8 || d->n <= 0 || (residual && !sum))
        return (int)cudaErrorInvalidValue;
    if (d->dtype == CUDA_BF16 && residual)
        launch_rows<bf16, true>(d, x, residual, w, b, sum, y, mean, rstd, stream);
    else if (d->dtype == CUDA_BF16)
        launch_rows<bf16, false>(d, x, residual, w, b, sum, y, mean, rstd, stream);
    else if (residual)
        launch_rows<float, true>(d, x, residual, w, b, sum, y, mean, rstd, stream);
    else
        launch_rows<float, false>(d, x, residual, w, b, sum, y, mean, rstd, stream);
    return (int)cudaGetLastError();
}

/* ---- gradient ------------------------------------------------------------------------------- */

/* Rows go to TILES blocks of consecutive rows: two per multiprocessor of the H200, but a constant, so that sums have the
 * same order everywhere. */
#define TILES 256
#define WIDE_TILES 512 /* rows of more than 1,024 elements */

static int64_t tile_rows(const struct cuda_norm *d)
{
    int64_t tiles = d->n <= 1024 ? TILES : WIDE_TILES;
    return (d->rows + tiles - 1) / tiles;
}

static int64_t tile_count(const struct cuda_norm *d)
{
    return (d->rows + tile_rows(d) - 1) / tile_rows(d);
}

/* Bytes: rows * n * size * (2 reads + 1 write), one more read with a residual; partial [tiles, 2, n] floats. */
template <class T, int K, bool HAS_RESIDUAL>
__global__ void __launch_bounds__(32 * WARPS, K <= 3 && sizeof(T) == 2 ? 2 : 1)
    grad_rows(int64_t rows, int64_t per_tile, int n, const T *__restrict__ dy,
              const T *__restrict__ x, const T *__restrict__ residual, const float *__restrict__ w,
              const float *__restrict__ mean, const float *__restrict__ rstd, T *__restrict__ dx,
              float *__restrict__ partial)
{
    extern __shared__ float shared[]; /* [WARPS, n] */
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t first = blockIdx.x * per_tile, last = first + per_tile < rows ? first + per_tile : rows;
    vec8 dw[K], db[K];
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            dw[k].v[i] = db[k].v[i] = 0;
    for (int64_t row = first + warp; row < last; row += WARPS) {
        float m = mean[row], s = rstd[row], shift = -m * s, a = 0, c = 0;
        typename packed8<T>::type g[K], h[K], z[K]; /* as they lie in memory: half the registers */
#pragma unroll
        for (int k = 0; k < K; k++) {
            int at = (k * 32 + lane) * 8;
            if (at < n) {
                g[k] = device_load_packed(dy + row * n + at);
                h[k] = device_load_packed(x + row * n + at);
                if (HAS_RESIDUAL)
                    z[k] = device_load_packed(residual + row * n + at);
            }
        }
#pragma unroll
        for (int k = 0; k < K; k++) {
            int at = (k * 32 + lane) * 8;
            if (at < n) {
                vec8 weight = device_load(w + at), gk = device_widen(g[k]), hk = device_widen(h[k]);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float normal = fmaf(hk.v[i], s, shift), weighted = gk.v[i] * weight.v[i];
                    dw[k].v[i] = fmaf(gk.v[i], normal, dw[k].v[i]);
                    db[k].v[i] += gk.v[i];
                    a += weighted;
                    c = fmaf(weighted, normal, c);
                }
            }
        }
        a = device_warp_sum(a) / (float)n;
        c = device_warp_sum(c) / (float)n;
#pragma unroll
        for (int k = 0; k < K; k++) {
            int at = (k * 32 + lane) * 8;
            if (at < n) {
                vec8 weight = device_load(w + at), gk = device_widen(g[k]), hk = device_widen(h[k]),
                     r;
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float normal = fmaf(hk.v[i], s, shift);
                    r.v[i] = s * (fmaf(gk.v[i], weight.v[i], -a) - normal * c);
                }
                if (HAS_RESIDUAL) {
                    vec8 zk = device_widen(z[k]);
#pragma unroll
                    for (int i = 0; i < 8; i++)
                        r.v[i] += zk.v[i];
                }
                if (dx)
                    device_store(dx + row * n + at, r);
            }
        }
    }
    for (int part = 0; part < 2; part++) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < K; k++) {
            int at = (k * 32 + lane) * 8;
            if (at < n)
                device_store(shared + warp * n + at, part ? db[k] : dw[k]);
        }
        __syncthreads();
        for (int at = threadIdx.x; at < n; at += 32 * WARPS) {
            float total = 0;
            for (int i = 0; i < WARPS; i++)
                total += shared[i * n + at];
            partial[(blockIdx.x * (int64_t)2 + part) * n + at] = total;
        }
    }
}

/* Long rows: a block goes through the rows of its tile one by one; V vectors of every row, and their columns' sums, belong
 * to each thread. Up to four blocks share a multiprocessor and hide each other's barriers. */
template <class T, int V>
__global__ void __launch_bounds__(32 * WARPS, V <= 1 && sizeof(T) == 2 ? 4
                                              : V <= 2                 ? 2
                                                                       : 1)
    grad_wide(int64_t rows, int64_t per_tile, int n, const T *__restrict__ dy,
              const T *__restrict__ x, const T *__restrict__ residual, const float *__restrict__ w,
              const float *__restrict__ mean, const float *__restrict__ rstd, T *__restrict__ dx,
              float *__restrict__ partial)
{
    __shared__ float2 shared[2][WARPS];
    int64_t first = blockIdx.x * per_tile, last = first + per_tile < rows ? first + per_tile : rows;
    vec8 dw[V], db[V];
#pragma unroll
    for (int v = 0; v < V; v++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            dw[v].v[i] = db[v].v[i] = 0;
    for (int64_t row = first; row < last; row++) {
        float s = rstd[row], shift = -mean[row] * s, a = 0, c = 0;
        typename packed8<T>::type g[V], h[V], z[V];
#pragma unroll
        for (int v = 0; v < V; v++) {
            int at = (v * 32 * WARPS + threadIdx.x) * 8;
            if (at < n) {
                g[v] = device_load_packed(dy + row * n + at);
                h[v] = device_load_packed(x + row * n + at);
                if (residual)
                    z[v] = device_load_packed(residual + row * n + at);
            }
        }
#pragma unroll
        for (int v = 0; v < V; v++) {
            int at = (v * 32 * WARPS + threadIdx.x) * 8;
            if (at < n) {
                vec8 weight = device_load(w + at), gv = device_widen(g[v]), hv = device_widen(h[v]);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float normal = fmaf(hv.v[i], s, shift), weighted = gv.v[i] * weight.v[i];
                    dw[v].v[i] = fmaf(gv.v[i], normal, dw[v].v[i]);
                    db[v].v[i] += gv.v[i];
                    a += weighted;
                    c = fmaf(weighted, normal, c);
                }
            }
        }
        a = device_warp_sum(a);
        c = device_warp_sum(c);
        if (threadIdx.x % 32 == 0)
            shared[row % 2][threadIdx.x / 32] = make_float2(a, c);
        __syncthreads(); /* the other half of `shared` is for the next row: one barrier is enough */
        a = c = 0;
#pragma unroll
        for (int i = 0; i < WARPS; i++) {
            float2 p = shared[row % 2][i];
            a += p.x;
            c += p.y;
        }
        a /= (float)n;
        c /= (float)n;
#pragma unroll
        for (int v = 0; v < V; v++) {
            int at = (v * 32 * WARPS + threadIdx.x) * 8;
            if (at < n) {
                vec8 weight = device_load(w + at), gv = device_widen(g[v]), hv = device_widen(h[v]),
                     r;
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float normal = fmaf(hv.v[i], s, shift);
                    r.v[i] = s * (fmaf(gv.v[i], weight.v[i], -a) - normal * c);
                }
                if (residual) {
                    vec8 zv = device_widen(z[v]);
#pragma unroll
                    for (int i = 0; i < 8; i++)
                        r.v[i] += zv.v[i];
                }
                if (dx)
                    device_store(dx + row * n + at, r);
            }
        }
    }
    float *to = partial + blockIdx.x * (int64_t)2 * n;
#pragma unroll
    for (int v = 0; v < V; v++) {
        int at = (v * 32 * WARPS + threadIdx.x) * 8;
        if (at < n) {
            device_store(to + at, dw[v]);
            device_store(to + n + at, db[v]);
        }
    }
}

/* Sums of [tiles, 2, n] over the tiles, in their order within eight strided runs that are then added in order. */
__global__ void __launch_bounds__(256)
    grad_tiles(int64_t tiles, int n, const float *__restrict__ partial, float *__restrict__ dw,
               float *__restrict__ db)
{
    __shared__ float shared[8][33];
    int lane = threadIdx.x % 32, run = threadIdx.x / 32, part = blockIdx.y;
    int at = blockIdx.x * 32 + lane;
    float total = 0;
    if (at < n)
        for (int64_t t = run; t < tiles; t += 8)
            total += partial[(t * 2 + part) * n + at];
    shared[run][lane] = total;
    __syncthreads();
    if (run == 0 && at < n) {
        for (int i = 1; i < 8; i++)
            total += shared[i][lane];
        (part ? db : dw)[at] = total;
    }
}

extern "C" size_t cuda_layer_norm_grad_workspace(const struct cuda_norm *d)
{
    return (size_t)tile_count(d) * 2 * (size_t)d->n * sizeof(float);
}

template <class T, int K, bool HAS_RESIDUAL>
static int launch_grad(const struct cuda_norm *d, const void *dy, const void *x,
                       const void *residual, const float *w, const float *mean, const float *rstd,
                       void *dx, float *partial, cudaStream_t stream)
{
    size_t shared = WARPS * (size_t)d->n * sizeof(float);
    if (shared > 48 << 10) {
        cudaError_t e =
            cudaFuncSetAttribute(grad_rows<T, K, HAS_RESIDUAL>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (e != cudaSuccess)
            return (int)e;
    }
    grad_rows<T, K, HAS_RESIDUAL><<<(unsigned)tile_count(d), 32 * WARPS, shared, stream>>>(
        d->rows, tile_rows(d), (int)d->n, (const T *)dy, (const T *)x, (const T *)residual, w, mean,
        rstd, (T *)dx, partial);
    return (int)cudaGetLastError();
}

template <class T>
static int grad(const struct cuda_norm *d, const void *dy, const void *x, const void *residual,
                const float *w, const float *mean, const float *rstd, void *dx, float *partial,
                cudaStream_t stream)
{
#define GRAD(k)                                                                                    \
    case k:                                                                                        \
        return residual ? launch_grad<T, k, true>(d, dy, x, residual, w, mean, rstd, dx, partial,  \
                                                  stream)                                          \
                        : launch_grad<T, k, false>(d, dy, x, residual, w, mean, rstd, dx, partial, \
                                                   stream);
    switch ((d->n + 255) / 256) {
        GRAD(1)
        GRAD(2)
        GRAD(3)
        GRAD(4)
    default:
        break;
    }
#undef GRAD
#define WIDE(v)                                                                                    \
    grad_wide<T, v><<<(unsigned)tile_count(d), 32 * WARPS, 0, stream>>>(                           \
        d->rows, tile_rows(d), (int)d->n, (const T *)dy, (const T *)x, (const T *)residual, w,     \
        mean, rstd, (T *)dx, partial)
    int64_t vectors = (d->n / 8 + 32 * WARPS - 1) / (32 * WARPS);
    if (vectors <= 1)
        WIDE(1);
    else if (vectors <= 2)
        WIDE(2);
    else if (vectors <= 4)
        WIDE(4);
    else
        return (int)cudaErrorInvalidValue;
#undef WIDE
    return (int)cudaGetLastError();
}

extern "C" int cuda_layer_norm_grad(const struct cuda_norm *d, const void *dy, const void *x,
                                    const void *residual, const float *w, const float *mean,
                                    const float *rstd, void *dx, float *dw, float *db,
                                    void *workspace, cuda_stream stream)
{
    if (d->n % 8 || d->n <= 0)
        return (int)cudaErrorInvalidValue;
    float *partial = (float *)workspace;
    int e = d->dtype == CUDA_BF16
                ? grad<bf16>(d, dy, x, residual, w, mean, rstd, dx, partial, stream)
                : grad<float>(d, dy, x, residual, w, mean, rstd, dx, partial, stream);
    if (e)
        return e;
    dim3 grid((unsigned)((d->n + 31) / 32), 2);
    grad_tiles<<<grid, 256, 0, stream>>>(tile_count(d), (int)d->n, partial, dw, db);
    return (int)cudaGetLastError();
}
