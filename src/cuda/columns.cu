/* columns.cu - sums over the rows of a matrix, alone or of an element-wise gradient that is made on the way.
 *
 * A block has STRIP columns (eight per lane) and TILE rows; its eight warps take every eighth row, their sums are added
 * in the order of the warps, tiles in their order. */
#include "cuda/typed.cuh"
#include "cuda/unary.cuh"

#define WARPS 8
#define STRIP 256 /* columns: 512 bytes per warp and row of bf16 */
#define TILE 256  /* rows: 1,536 blocks at 32,768 x 3,072, sums of 1.5 MiB */
#define AHEAD(is_gradient) ((is_gradient) ? 2 : 4) /* rows in flight per warp */

/* Bytes: plain rows * n * size; with a gradient 3 rows * n * size (dx NULL: 2, the sums have the same bits). */
template <class T, int F, bool IS_GRADIENT>
__global__ void __launch_bounds__(32 * WARPS, IS_GRADIENT ? 3 : 2)
    columns_tile(int64_t rows, int64_t n, const T *__restrict__ dy, const T *__restrict__ x,
                 T *__restrict__ dx, float *__restrict__ partial)
{
    constexpr int ahead = AHEAD(IS_GRADIENT);
    __shared__ float shared[WARPS][STRIP];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t column = (int64_t)blockIdx.x * STRIP + lane * 8;
    int64_t first = (int64_t)blockIdx.y * TILE, last = first + TILE < rows ? first + TILE : rows;
    vec8 sum;
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum.v[i] = 0;
    if (column < n)
        for (int64_t row = first + warp; row < last; row += WARPS * ahead) {
            vec8 g[ahead], v[ahead];
#pragma unroll
            for (int a = 0; a < ahead; a++) {
                int64_t r = row + a * WARPS;
                if (r < last) {
                    g[a] = device_load(dy + r * n + column);
                    if (IS_GRADIENT)
                        v[a] = device_load(x + r * n + column);
                }
            }
#pragma unroll
            for (int a = 0; a < ahead; a++) {
                int64_t r = row + a * WARPS;
                if (r < last) {
                    if (IS_GRADIENT) {
#pragma unroll
                        for (int i = 0; i < 8; i++)
                            g[a].v[i] *= unary_slope<T, F>(v[a].v[i]);
                        if (dx)
                            g[a] = device_store_rounded(dx + r * n + column, g[a]);
                        else
#pragma unroll
                            for (int i = 0; i < 8; i++)
                                g[a].v[i] = device_round<T>(g[a].v[i]);
                    }
#pragma unroll
                    for (int i = 0; i < 8; i++)
                        sum.v[i] += g[a].v[i];
                }
            }
        }
    device_store(&shared[warp][lane * 8], sum);
    __syncthreads();
    int64_t mine = (int64_t)blockIdx.x * STRIP + threadIdx.x;
    if (mine < n) {
        float total = 0;
#pragma unroll
        for (int i = 0; i < WARPS; i++)
            total += shared[i][threadIdx.x];
        partial[blockIdx.y * n + mine] = total;
    }
}

/* Sums over the tiles: eight strided runs in order, then added in order. */
__global__ void __launch_bounds__(256)
    columns_total(int64_t tiles, int64_t n, const float *__restrict__ partial,
                  float *__restrict__ sums)
{
    __shared__ float shared[8][33];
    int lane = threadIdx.x % 32, run = threadIdx.x / 32;
    int64_t at = (int64_t)blockIdx.x * 32 + lane;
    float total = 0;
    if (at < n)
        for (int64_t t = run; t < tiles; t += 8)
            total += partial[t * n + at];
    shared[run][lane] = total;
    __syncthreads();
    if (run == 0 && at < n) {
        for (int i = 1; i < 8; i++)
            total += shared[i][lane];
        sums[at] = total;
    }
}

static int64_t tiles_of(int64_t rows)
{
    return (rows + TILE - 1) / TILE;
}

extern "C" size_t cuda_columns_workspace(int64_t rows, int64_t n)
{
    return (size_t)tiles_of(rows) * (size_t)n * sizeof(float);
}

template <class T, int F, bool IS_GRADIENT>
static int columns(int64_t rows, int64_t n, const void *dy, const void *x, void *dx, float *sums,
                   void *workspace, cudaStream_t stream)
{
    if (n % 8 || n <= 0 || rows <= 0 || tiles_of(rows) > 65535)
        return (int)cudaErrorInvalidValue;
    dim3 grid((unsigned)((n + STRIP - 1) / STRIP), (unsigned)tiles_of(rows));
    float *partial = (float *)workspace;
    columns_tile<T, F, IS_GRADIENT>
        <<<grid, 32 * WARPS, 0, stream>>>(rows, n, (const T *)dy, (const T *)x, (T *)dx, partial);
    columns_total<<<(unsigned)((n + 31) / 32), 256, 0, stream>>>(tiles_of(rows), n, partial, sums);
    return (int)cudaGetLastError();
}

extern "C" int cuda_column_sums(int64_t rows, int64_t n, enum cuda_dtype dtype, const void *x,
                                float *sums, void *workspace, cuda_stream stream)
{
    return dtype == CUDA_BF16
               ? columns<bf16, CUDA_COPY, false>(rows, n, x, NULL, NULL, sums, workspace, stream)
               : columns<float, CUDA_COPY, false>(rows, n, x, NULL, NULL, sums, workspace, stream);
}

template <class T>
static int grad_sums(enum cuda_unary f, int64_t rows, int64_t n, const void *dy, const void *x,
                     void *dx, float *sums, void *workspace, cudaStream_t stream)
{
    switch (f) {
    case CUDA_RELU:
        return columns<T, CUDA_RELU, true>(rows, n, dy, x, dx, sums, workspace, stream);
    case CUDA_GELU:
        return columns<T, CUDA_GELU, true>(rows, n, dy, x, dx, sums, workspace, stream);
    case CUDA_GELU_TANH:
        return columns<T, CUDA_GELU_TANH, true>(rows, n, dy, x, dx, sums, workspace, stream);
    default:
        return (int)cudaErrorInvalidValue;
    }
}

/* Any type, width and alignment: a thread has a column of a tile. partial may be NULL. */
template <int F>
__global__ void __launch_bounds__(256)
    columns_any(int64_t rows, int64_t n, struct cuda_in dy, struct cuda_in s, struct cuda_out dx,
                float *__restrict__ partial)
{
    int64_t column = (int64_t)blockIdx.x * 256 + threadIdx.x;
    int64_t first = (int64_t)blockIdx.y * TILE, last = first + TILE < rows ? first + TILE : rows;
    if (column >= n)
        return;
    float sum = 0;
    for (int64_t row = first; row < last; row++) {
        int64_t i = row * n + column;
        float g = typed_get(dy, i) * unary_slope<float, F>(typed_get(s, i));
        if (dx.dtype == KERNEL_BF16)
            g = __bfloat162float(__float2bfloat16_rn(g));
        else if (dx.dtype == KERNEL_F16)
            g = __half2float(__float2half_rn(g));
        if (dx.p)
            typed_put(dx, i, g);
        sum += g;
    }
    if (partial)
        partial[blockIdx.y * n + column] = sum;
}

template <int F>
static int any(const struct kernel_unary_desc *d, struct cuda_in dy, struct cuda_in s,
               struct cuda_out dx, float *sums, void *workspace, cudaStream_t stream)
{
    int64_t n = d->columns, rows = d->n / n;
    dim3 grid((unsigned)((n + 255) / 256), (unsigned)tiles_of(rows));
    float *partial = sums ? (float *)workspace : NULL;
    columns_any<F><<<grid, 256, 0, stream>>>(rows, n, dy, s, dx, partial);
    if (sums)
        columns_total<<<(unsigned)((n + 31) / 32), 256, 0, stream>>>(tiles_of(rows), n, partial,
                                                                     sums);
    return (int)cudaGetLastError();
}

extern "C" size_t cuda_unary_grad_workspace(const struct kernel_unary_desc *d)
{
    return d->columns ? cuda_columns_workspace(d->n / d->columns, d->columns) : 0;
}

extern "C" int cuda_unary_grad_columns(const struct kernel_unary_desc *d, struct cuda_in dy,
                                       struct cuda_in s, struct cuda_out dx, float *sums,
                                       void *workspace, cuda_stream stream)
{
    int64_t rows = d->n / d->columns;
    if ((d->f != KERNEL_GELU && d->f != KERNEL_GELU_TANH) || tiles_of(rows) > 65535)
        return (int)cudaErrorInvalidValue;
    if (rows == 0)
        return sums ? (int)cudaMemsetAsync(sums, 0, (size_t)d->columns * sizeof *sums, stream) : 0;
    bool is_aligned = cuda_is_aligned(dy.p) && cuda_is_aligned(s.p) && cuda_is_aligned(dx.p);
    bool is_one = dy.dtype == dx.dtype && s.dtype == dx.dtype && dx.dtype != KERNEL_F16;
    bool is_fast = is_aligned && is_one && d->columns % 8 == 0;
    if (is_fast && !sums)
        return cuda_each_unary_grad(d->f, d->n, d->a, d->b, dy, s, dx, stream);
    if (is_fast)
        return cuda_unary_grad_sums(d->f == KERNEL_GELU ? CUDA_GELU : CUDA_GELU_TANH, rows,
                                    d->columns, dx.dtype == KERNEL_BF16 ? CUDA_BF16 : CUDA_F32,
                                    dy.p, s.p, dx.p, sums, workspace, stream);
    return d->f == KERNEL_GELU ? any<CUDA_GELU>(d, dy, s, dx, sums, workspace, stream)
                               : any<CUDA_GELU_TANH>(d, dy, s, dx, sums, workspace, stream);
}

extern "C" int cuda_unary_grad_sums(enum cuda_unary f, int64_t rows, int64_t n,
                                    enum cuda_dtype dtype, const void *dy, const void *x, void *dx,
                                    float *sums, void *workspace, cuda_stream stream)
{
    return dtype == CUDA_BF16 ? grad_sums<bf16>(f, rows, n, dy, x, dx, sums, workspace, stream)
                              : grad_sums<float>(f, rows, n, dy, x, dx, sums, workspace, stream);
}
