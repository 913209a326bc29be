/* plain_norm.cu - layer and batch norm of any size, layout and type; sums in double.
 *
 * Where a kernel of norm.cu or batch_norm.cu fits, the launchers here take that one. */
#include "cuda/typed.cuh"

#define THREADS 256

static enum cuda_dtype instance_of(int dtype)
{
    return dtype == KERNEL_BF16 ? CUDA_BF16 : CUDA_F32;
}

/* ---- layer norm --------------------------------------------------------------------------------- */

struct moments {
    double mean, rstd;
};

/* A warp per row. */
__device__ static inline moments moments_of(const kernel_layer_norm_desc &d, struct cuda_in x,
                                            int64_t base, int lane)
{
    moments m = {0, 0};
    double squares = 0;
    if (!d.is_rms) {
        for (int64_t i = lane; i < d.n; i += 32)
            m.mean += (double)typed_get(x, base + i);
        m.mean = typed_warp_sum(m.mean) / (double)d.n;
    }
    for (int64_t i = lane; i < d.n; i += 32) {
        double v = (double)typed_get(x, base + i) - m.mean;
        squares += v * v;
    }
    m.rstd = 1.0 / sqrt(typed_warp_sum(squares) / (double)d.n + (double)d.eps);
    return m;
}

__global__ void __launch_bounds__(THREADS)
    layer_rows(kernel_layer_norm_desc d, struct cuda_in x, const float *__restrict__ w,
               const float *__restrict__ b, struct cuda_out y, float *__restrict__ mean,
               float *__restrict__ rstd)
{
    int64_t row = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32, base = row * d.n;
    int lane = threadIdx.x % 32;
    if (row >= d.rows)
        return;
    moments m = moments_of(d, x, base, lane);
    if (lane == 0 && mean)
        mean[row] = (float)m.mean;
    if (lane == 0 && rstd)
        rstd[row] = (float)m.rstd;
    for (int64_t i = lane; i < d.n && y.p; i += 32) {
        double v = ((double)typed_get(x, base + i) - m.mean) * m.rstd * (w ? (double)w[i] : 1.0);
        typed_put(y, base + i, (float)(v + (b ? (double)b[i] : 0.0)));
    }
}

extern "C" int cuda_any_layer_norm(const struct kernel_layer_norm_desc *d, struct cuda_in x,
                                   const float *w, const float *b, struct cuda_out y, float *mean,
                                   float *rstd, cuda_stream stream)
{
    struct cuda_norm fast = {d->rows, d->n, d->eps, instance_of(x.dtype)};
    if (d->rows * d->n == 0)
        return 0;
    bool is_aligned =
        cuda_is_aligned(x.p) && cuda_is_aligned(y.p) && cuda_is_aligned(w) && cuda_is_aligned(b);
    if (!d->is_rms && w && b && d->n % 8 == 0 && d->n > 64 && is_aligned && x.dtype == y.dtype &&
        x.dtype != KERNEL_F16)
        return cuda_layer_norm(&fast, x.p, NULL, w, b, NULL, y.p, mean, rstd, stream);
    layer_rows<<<(unsigned)((d->rows * 32 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
        *d, x, w, b, y, mean, rstd);
    return (int)cudaGetLastError();
}

__global__ void __launch_bounds__(THREADS)
    layer_grad_rows(kernel_layer_norm_desc d, struct cuda_in dy, struct cuda_in x,
                    const float *__restrict__ w, struct cuda_in more, struct cuda_out dx)
{
    int64_t row = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32, base = row * d.n;
    int lane = threadIdx.x % 32;
    if (row >= d.rows)
        return;
    moments m = moments_of(d, x, base, lane);
    double sum = 0, dot = 0;
    for (int64_t i = lane; i < d.n; i += 32) {
        double g = (double)typed_get(dy, base + i) * (w ? (double)w[i] : 1.0);
        sum += g;
        dot += g * (((double)typed_get(x, base + i) - m.mean) * m.rstd);
    }
    sum = d.is_rms ? 0.0 : typed_warp_sum(sum) / (double)d.n;
    dot = typed_warp_sum(dot) / (double)d.n;
    for (int64_t i = lane; i < d.n; i += 32) {
        double g = (double)typed_get(dy, base + i) * (w ? (double)w[i] : 1.0);
        double normal = ((double)typed_get(x, base + i) - m.mean) * m.rstd;
        float v = (float)(m.rstd * (g - sum - normal * dot));
        typed_put(dx, base + i, more.p ? v + typed_get(more, base + i) : v);
    }
}

#define TILE 64 /* rows whose columns one thread adds up */

static int64_t tiles_of(int64_t rows)
{
    return (rows + TILE - 1) / TILE;
}

/* partial [tiles, 2, n] */
__global__ void __launch_bounds__(THREADS)
    layer_grad_columns(kernel_layer_norm_desc d, struct cuda_in dy, struct cuda_in x,
                       const float *__restrict__ mean, const float *__restrict__ rstd,
                       double *__restrict__ partial)
{
    int64_t column = (int64_t)blockIdx.x * THREADS + threadIdx.x,
            first = (int64_t)blockIdx.y * TILE;
    int64_t last = first + TILE < d.rows ? first + TILE : d.rows;
    if (column >= d.n)
        return;
    double dw = 0, db = 0;
    for (int64_t row = first; row < last; row++) {
        double g = (double)typed_get(dy, row * d.n + column);
        double v = (double)typed_get(x, row * d.n + column) - (d.is_rms ? 0.0 : (double)mean[row]);
        dw += g * (v * (double)rstd[row]);
        db += g;
    }
    partial[((int64_t)blockIdx.y * 2) * d.n + column] = dw;
    partial[((int64_t)blockIdx.y * 2 + 1) * d.n + column] = db;
}

__global__ void __launch_bounds__(THREADS)
    layer_grad_total(int64_t tiles, int64_t n, const double *__restrict__ partial,
                     float *__restrict__ dw, float *__restrict__ db)
{
    int64_t column = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (column >= n)
        return;
    double a = 0, b = 0;
    for (int64_t t = 0; t < tiles; t++) {
        a += partial[t * 2 * n + column];
        b += partial[(t * 2 + 1) * n + column];
    }
    if (dw)
        dw[column] = (float)a;
    if (db)
        db[column] = (float)b;
}

extern "C" size_t cuda_any_layer_norm_grad_workspace(const struct kernel_layer_norm_desc *d)
{
    struct cuda_norm fast = {d->rows, d->n, d->eps, CUDA_BF16};
    size_t own = (size_t)(tiles_of(d->rows) * 2 * d->n) * sizeof(double);
    size_t other = d->n % 8 == 0 && d->n <= 8192 && d->rows > 0
                       ? cuda_layer_norm_grad_workspace(&fast) + 2 * cuda_align((size_t)d->n * 4)
                       : 0;
    return own > other ? own : other;
}

extern "C" int cuda_any_layer_norm_grad(const struct kernel_layer_norm_desc *d, struct cuda_in dy,
                                        struct cuda_in x, const float *w, const float *mean,
                                        const float *rstd, struct cuda_in more, struct cuda_out dx,
                                        float *dw, float *db, void *workspace, cuda_stream stream)
{
    struct cuda_norm fast = {d->rows, d->n, d->eps, instance_of(x.dtype)};
    if (d->rows * d->n == 0)
        return 0;
    bool is_aligned = cuda_is_aligned(x.p) && cuda_is_aligned(dy.p) && cuda_is_aligned(dx.p) &&
                      cuda_is_aligned(w) && cuda_is_aligned(more.p);
    if (!d->is_rms && w && d->n % 8 == 0 && d->n > 64 && d->n <= 8192 && is_aligned &&
        x.dtype == dx.dtype && dy.dtype == dx.dtype && x.dtype != KERNEL_F16 &&
        (!more.p || more.dtype == dx.dtype)) {
        char *at = (char *)workspace;
        float *spare_dw = (float *)at, *spare_db = (float *)(at + cuda_align((size_t)d->n * 4));
        return cuda_layer_norm_grad(&fast, dy.p, x.p, more.p, w, mean, rstd, dx.p,
                                    dw ? dw : spare_dw, db ? db : spare_db,
                                    at + 2 * cuda_align((size_t)d->n * 4), stream);
    }
    if (dx.p)
        layer_grad_rows<<<(unsigned)((d->rows * 32 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            *d, dy, x, w, more, dx);
    if (dw || db) {
        int64_t tiles = tiles_of(d->rows), columns = (d->n + THREADS - 1) / THREADS;
        if (tiles > 65535)
            return (int)cudaErrorInvalidValue;
        layer_grad_columns<<<dim3((unsigned)columns, (unsigned)tiles), THREADS, 0, stream>>>(
            *d, dy, x, mean, rstd, (double *)workspace);
        layer_grad_total<<<(unsigned)columns, THREADS, 0, stream>>>(
            tiles, d->n, (const double *)workspace, dw, db);
    }
    return (int)cudaGetLastError();
}

/* ---- batch norm --------------------------------------------------------------------------------- */

/* [n, channels / lanes, spatial, lanes] */
struct places {
    int64_t n, channels, spatial, lanes;
};

__host__ __device__ static inline places places_of(const kernel_batch_norm &d)
{
    return {d.n, d.channels, d.spatial, d.block ? d.block : 1};
}

/* Element i of the n * spatial ones of a channel. */
__device__ static inline int64_t element(const places &p, int64_t channel, int64_t i)
{
    int64_t image = i / p.spatial, place = i - image * p.spatial, block = channel / p.lanes;
    return ((image * (p.channels / p.lanes) + block) * p.spatial + place) * p.lanes +
           (channel - block * p.lanes);
}

/* Of element s of a row of all places of a block of channels; rows have less than 2^32. */
__device__ static inline int64_t lane_of(const places &p, int64_t s)
{
    return p.lanes == 1 ? 0 : (uint32_t)s % (uint32_t)p.lanes;
}

/* One block per channel. */
__global__ void __launch_bounds__(1024)
    bn_channel_stats(kernel_batch_norm d, struct cuda_in x, float *__restrict__ mean,
                     float *__restrict__ var)
{
    __shared__ double shared[32];
    places p = places_of(d);
    int64_t channel = blockIdx.x, count = p.n * p.spatial;
    double shift = (double)typed_get(x, element(p, channel, 0)), a = 0, b = 0;
    for (int64_t i = threadIdx.x; i < count; i += 1024) {
        double v = (double)typed_get(x, element(p, channel, i)) - shift;
        a += v;
        b += v * v;
    }
    a = typed_block_sum(a, shared) / (double)count;
    b = typed_block_sum(b, shared) / (double)count - a * a;
    if (threadIdx.x == 0 && mean)
        mean[channel] = (float)(shift + a);
    if (threadIdx.x == 0 && var)
        var[channel] = (float)(b > 0 ? b : 0);
}

__device__ static inline float scale_of(const kernel_batch_norm &d, const float *w,
                                        const float *var, int64_t channel)
{
    float r = (float)(1.0 / sqrt((double)var[channel] + (double)d.eps));
    return r * (w ? w[channel] : 1.0f);
}

/* Grid: (places, images times channels / lanes). */
__global__ void __launch_bounds__(THREADS)
    bn_any_apply(kernel_batch_norm d, struct cuda_in x, const float *__restrict__ w,
                 const float *__restrict__ b, const float *__restrict__ mean,
                 const float *__restrict__ var, struct cuda_in r, struct cuda_out y)
{
    places p = places_of(d);
    int64_t row = p.spatial * p.lanes, blocks = p.channels / p.lanes;
    for (int64_t i = blockIdx.y; i < p.n * blocks; i += gridDim.y) {
        int64_t first = i % blocks * p.lanes;
        for (int64_t s = (int64_t)blockIdx.x * THREADS + threadIdx.x; s < row;
             s += (int64_t)gridDim.x * THREADS) {
            int64_t channel = first + lane_of(p, s), at = i * row + s;
            float v = fmaf(typed_get(x, at) - mean[channel], scale_of(d, w, var, channel),
                           b ? b[channel] : 0.0f);
            if (d.has_add)
                v = v + typed_get(r, at);
            if (d.has_relu)
                v = v < 0.0f ? 0.0f : v;
            typed_put(y, at, v);
        }
    }
}

/* numbers [3, channels]: dx = first (g - second - (x - mean) third), g the gradient behind the relu. */
__global__ void __launch_bounds__(1024)
    bn_channel_sums(kernel_batch_norm d, struct cuda_in dy, struct cuda_in x,
                    const float *__restrict__ w, const float *__restrict__ b,
                    const float *__restrict__ mean, const float *__restrict__ var,
                    float *__restrict__ numbers, float *__restrict__ dw, float *__restrict__ db)
{
    __shared__ double shared[32];
    places p = places_of(d);
    int64_t channel = blockIdx.x, count = p.n * p.spatial;
    float m = mean[channel], scale = scale_of(d, w, var, channel), bias = b ? b[channel] : 0.0f;
    double first = 0, second = 0;
    for (int64_t i = threadIdx.x; i < count; i += 1024) {
        int64_t at = element(p, channel, i);
        float v = typed_get(x, at), g = typed_get(dy, at);
        if (d.has_relu && !(fmaf(v - m, scale, bias) > 0.0f))
            g = 0.0f;
        first += (double)g;
        second += (double)g * ((double)v - (double)m);
    }
    first = typed_block_sum(first, shared);
    second = typed_block_sum(second, shared);
    if (threadIdx.x)
        return;
    double below = (double)var[channel] + (double)d.eps;
    numbers[channel] = scale;
    numbers[p.channels + channel] = (float)(first / (double)count);
    numbers[2 * p.channels + channel] = (float)(second / below / (double)count);
    if (dw)
        dw[channel] = (float)(second / sqrt(below));
    if (db)
        db[channel] = (float)first;
}

__global__ void __launch_bounds__(THREADS)
    bn_any_grad(kernel_batch_norm d, struct cuda_in dy, struct cuda_in x,
                const float *__restrict__ b, const float *__restrict__ mean,
                const float *__restrict__ numbers, struct cuda_out dx)
{
    places p = places_of(d);
    int64_t row = p.spatial * p.lanes, blocks = p.channels / p.lanes;
    for (int64_t i = blockIdx.y; i < p.n * blocks; i += gridDim.y) {
        int64_t first = i % blocks * p.lanes;
        for (int64_t s = (int64_t)blockIdx.x * THREADS + threadIdx.x; s < row;
             s += (int64_t)gridDim.x * THREADS) {
            int64_t channel = first + lane_of(p, s), at = i * row + s;
            float scale = numbers[channel];
            float v = typed_get(x, at) - mean[channel], g = typed_get(dy, at);
            if (d.has_relu)
                g = fmaf(v, scale, b ? b[channel] : 0.0f) > 0.0f ? g : 0.0f;
            float middle = numbers[p.channels + channel], slope = numbers[2 * p.channels + channel];
            typed_put(dx, at, scale * fmaf(-v, slope, g - middle));
        }
    }
}

static dim3 rows_grid(const struct kernel_batch_norm *d)
{
    places p = places_of(*d);
    int64_t x = (p.spatial * p.lanes + THREADS - 1) / THREADS, y = p.n * (p.channels / p.lanes);
    return dim3((unsigned)(x > 65535 ? 65535 : x), (unsigned)(y > 65535 ? 65535 : y));
}

/* Channels-last, and rows of whole vectors. */
static bool is_last(const struct kernel_batch_norm *d)
{
    return d->block == d->channels && d->channels % 8 == 0 && d->channels <= 1 << 20 &&
           d->n * d->spatial > 0;
}

static struct cuda_batch_norm last_of(const struct kernel_batch_norm *d, int dtype)
{
    struct cuda_batch_norm r = {d->n * d->spatial, d->channels, d->eps, d->has_relu != 0,
                                instance_of(dtype)};
    return r;
}

extern "C" size_t cuda_any_batch_norm_workspace(const struct kernel_batch_norm *d)
{
    struct cuda_batch_norm fast = last_of(d, KERNEL_BF16);
    size_t spare = 2 * cuda_align((size_t)d->channels * sizeof(double));
    return spare + (is_last(d) ? cuda_batch_norm_workspace(&fast) : 0);
}

extern "C" int cuda_any_batch_norm_stats(const struct kernel_batch_norm *d, struct cuda_in x,
                                         float *mean, float *var, void *workspace,
                                         cuda_stream stream)
{
    char *at = (char *)workspace;
    size_t part = cuda_align((size_t)d->channels * sizeof(double));
    struct cuda_batch_norm fast = last_of(d, x.dtype);
    if (is_last(d) && x.dtype != KERNEL_F16 && cuda_is_aligned(x.p))
        return cuda_batch_norm_stats(&fast, x.p, mean ? mean : (float *)at,
                                     var ? var : (float *)(at + part), at + 2 * part, stream);
    if (d->channels > 0)
        bn_channel_stats<<<(unsigned)d->channels, 1024, 0, stream>>>(*d, x, mean, var);
    return (int)cudaGetLastError();
}

extern "C" int cuda_any_batch_norm(const struct kernel_batch_norm *d, struct cuda_in x,
                                   const float *w, const float *b, const float *mean,
                                   const float *var, struct cuda_in r, struct cuda_out y,
                                   cuda_stream stream)
{
    struct cuda_batch_norm fast = last_of(d, x.dtype);
    bool is_aligned = cuda_is_aligned(x.p) && cuda_is_aligned(y.p) && cuda_is_aligned(r.p) &&
                      cuda_is_aligned(w) && cuda_is_aligned(b) && cuda_is_aligned(mean) &&
                      cuda_is_aligned(var);
    if (is_last(d) && w && b && is_aligned && x.dtype == y.dtype && x.dtype != KERNEL_F16 &&
        (!d->has_add || r.dtype == x.dtype))
        return cuda_batch_norm_apply(&fast, x.p, d->has_add ? r.p : NULL, mean, var, w, b, y.p,
                                     stream);
    if (d->n * d->channels * d->spatial > 0)
        bn_any_apply<<<rows_grid(d), THREADS, 0, stream>>>(*d, x, w, b, mean, var, r, y);
    return (int)cudaGetLastError();
}

extern "C" int cuda_any_batch_norm_grad(const struct kernel_batch_norm *d, struct cuda_in dy,
                                        struct cuda_in x, const float *w, const float *b,
                                        const float *mean, const float *var, struct cuda_out dx,
                                        float *dw, float *db, void *workspace, cuda_stream stream)
{
    struct cuda_batch_norm fast = last_of(d, x.dtype);
    char *at = (char *)workspace;
    size_t part = cuda_align((size_t)d->channels * sizeof(double));
    bool is_aligned = cuda_is_aligned(x.p) && cuda_is_aligned(dy.p) && cuda_is_aligned(dx.p) &&
                      cuda_is_aligned(w) && cuda_is_aligned(b) && cuda_is_aligned(mean) &&
                      cuda_is_aligned(var) && cuda_is_aligned(dw) && cuda_is_aligned(db);
    if (is_last(d) && w && b && is_aligned && x.dtype == dx.dtype && dy.dtype == dx.dtype &&
        x.dtype != KERNEL_F16)
        return cuda_batch_norm_grad(&fast, dy.p, x.p, NULL, mean, var, w, b, dx.p, NULL,
                                    dw ? dw : (float *)at, db ? db : (float *)(at + part),
                                    at + 2 * part, stream);
    if (d->n * d->channels * d->spatial == 0)
        return 0;
    bn_channel_sums<<<(unsigned)d->channels, 1024, 0, stream>>>(*d, dy, x, w, b, mean, var,
                                                                (float *)at, dw, db);
    if (dx.p)
        bn_any_grad<<<rows_grid(d), THREADS, 0, stream>>>(*d, dy, x, b, mean, (const float *)at,
                                                          dx);
    return (int)cudaGetLastError();
}
