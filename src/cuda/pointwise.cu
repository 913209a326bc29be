/* pointwise.cu - dense element-wise kernels, 16 bytes per access where the count allows it. */
#include "cuda/unary.cuh"

#define THREADS 256
#define EACH                                                                                       \
    4 /* vectors per thread, all loaded before the first is used: 16 KiB in flight per block and operand */

/* Bytes: n * (size in + size out). */
template <class From, class To, int F>
__global__ void __launch_bounds__(THREADS)
    unary_dense(int64_t n, const From *__restrict__ x, To *__restrict__ y)
{
    int64_t base = ((int64_t)blockIdx.x * EACH * THREADS + threadIdx.x) * 8;
    vec8 v[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int64_t at = base + e * THREADS * 8;
        if (at + 8 <= n)
            v[e] = device_load(x + at);
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int64_t at = base + e * THREADS * 8;
        if (at + 8 <= n) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                v[e].v[i] = unary_value<To, F>(v[e].v[i]);
            device_store(y + at, v[e]);
        } else if (at < n) {
            for (int64_t i = at; i < n; i++)
                y[i] = device_from_float<To>(unary_value<To, F>(device_to_float(x[i])));
        }
    }
}

/* Bytes: 3 n * size. */
template <class T, int F>
__global__ void __launch_bounds__(THREADS, 4)
    unary_grad_dense(int64_t n, const T *__restrict__ dy, const T *__restrict__ x,
                     T *__restrict__ dx)
{
    int64_t base = ((int64_t)blockIdx.x * 2 * THREADS + threadIdx.x) * 8;
    vec8 g[2], v[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
        int64_t at = base + e * THREADS * 8;
        if (at + 8 <= n) {
            g[e] = device_load(dy + at);
            v[e] = device_load(x + at);
        }
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
        int64_t at = base + e * THREADS * 8;
        if (at + 8 <= n) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                g[e].v[i] *= unary_slope<T, F>(v[e].v[i]);
            device_store(dx + at, g[e]);
        } else if (at < n) {
            for (int64_t i = at; i < n; i++)
                dx[i] = device_from_float<T>(device_to_float(dy[i]) *
                                             unary_slope<T, F>(device_to_float(x[i])));
        }
    }
}

/* Bytes: 3 n * size. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    add_dense(int64_t n, const T *__restrict__ x, const T *__restrict__ z, T *__restrict__ y)
{
    int64_t base = ((int64_t)blockIdx.x * 2 * THREADS + threadIdx.x) * 8;
    vec8 a[2], b[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
        int64_t at = base + e * THREADS * 8;
        if (at + 8 <= n) {
            a[e] = device_load(x + at);
            b[e] = device_load(z + at);
        }
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
        int64_t at = base + e * THREADS * 8;
        if (at + 8 <= n) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                a[e].v[i] += b[e].v[i];
            device_store(y + at, a[e]);
        } else if (at < n) {
            for (int64_t i = at; i < n; i++)
                y[i] = device_from_float<T>(device_to_float(x[i]) + device_to_float(z[i]));
        }
    }
}

static unsigned blocks_for(int64_t n, int each)
{
    int64_t per_block = (int64_t)each * THREADS * 8;
    return (unsigned)((n + per_block - 1) / per_block);
}

template <class From, class To>
static int unary(enum cuda_unary f, int64_t n, const void *x, void *y, cudaStream_t stream)
{
    unsigned blocks = blocks_for(n, EACH);
    const From *from = (const From *)x;
    To *to = (To *)y;
    switch (f) {
    case CUDA_COPY:
        unary_dense<From, To, CUDA_COPY><<<blocks, THREADS, 0, stream>>>(n, from, to);
        break;
    case CUDA_RELU:
        unary_dense<From, To, CUDA_RELU><<<blocks, THREADS, 0, stream>>>(n, from, to);
        break;
    case CUDA_GELU:
        unary_dense<From, To, CUDA_GELU><<<blocks, THREADS, 0, stream>>>(n, from, to);
        break;
    case CUDA_GELU_TANH:
        unary_dense<From, To, CUDA_GELU_TANH><<<blocks, THREADS, 0, stream>>>(n, from, to);
        break;
    }
    return (int)cudaGetLastError();
}

extern "C" int cuda_unary(enum cuda_unary f, int64_t n, enum cuda_dtype from, const void *x,
                          enum cuda_dtype to, void *y, cuda_stream stream)
{
    if (n <= 0)
        return 0;
    if (from == CUDA_BF16)
        return to == CUDA_BF16 ? unary<bf16, bf16>(f, n, x, y, stream)
                               : unary<bf16, float>(f, n, x, y, stream);
    return to == CUDA_BF16 ? unary<float, bf16>(f, n, x, y, stream)
                           : unary<float, float>(f, n, x, y, stream);
}

template <class T>
static int unary_grad(enum cuda_unary f, int64_t n, const void *dy, const void *x, void *dx,
                      cudaStream_t stream)
{
    unsigned blocks = blocks_for(n, 2);
    const T *g = (const T *)dy, *v = (const T *)x;
    switch (f) {
    case CUDA_COPY:
        unary_grad_dense<T, CUDA_COPY><<<blocks, THREADS, 0, stream>>>(n, g, v, (T *)dx);
        break;
    case CUDA_RELU:
        unary_grad_dense<T, CUDA_RELU><<<blocks, THREADS, 0, stream>>>(n, g, v, (T *)dx);
        break;
    case CUDA_GELU:
        unary_grad_dense<T, CUDA_GELU><<<blocks, THREADS, 0, stream>>>(n, g, v, (T *)dx);
        break;
    case CUDA_GELU_TANH:
        unary_grad_dense<T, CUDA_GELU_TANH><<<blocks, THREADS, 0, stream>>>(n, g, v, (T *)dx);
        break;
    }
    return (int)cudaGetLastError();
}

extern "C" int cuda_unary_grad(enum cuda_unary f, int64_t n, enum cuda_dtype dtype, const void *dy,
                               const void *x, void *dx, cuda_stream stream)
{
    if (n <= 0)
        return 0;
    return dtype == CUDA_BF16 ? unary_grad<bf16>(f, n, dy, x, dx, stream)
                              : unary_grad<float>(f, n, dy, x, dx, stream);
}

extern "C" int cuda_add(int64_t n, enum cuda_dtype dtype, const void *x, const void *z, void *y,
                        cuda_stream stream)
{
    if (n <= 0)
        return 0;
    if (dtype == CUDA_BF16)
        add_dense<bf16><<<blocks_for(n, 2), THREADS, 0, stream>>>(n, (const bf16 *)x,
                                                                  (const bf16 *)z, (bf16 *)y);
    else
        add_dense<float><<<blocks_for(n, 2), THREADS, 0, stream>>>(n, (const float *)x,
                                                                   (const float *)z, (float *)y);
    return (int)cudaGetLastError();
}
