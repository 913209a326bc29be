/* pool.cu - pooling over two spatial dimensions, channels-last; eight channels
 * per thread.
 *
 * The gradient of the maximum is gathered: every place of x looks at the
 * windows it lies in, in their order, so nothing is added by two threads. */
#include "cuda/cuda.h"
#include "cuda/device.cuh"
#include <math_constants.h>

#define THREADS 256

/* Grid: (vectors of a row of places, rows, images). SIZE 0: any size. Bytes: x
 * once (windows overlap in the cache), y and half of it for the index. */
template <class T, int SIZE>
__global__ void __launch_bounds__(THREADS, 4)
    max_windows(cuda_pool d, const T *__restrict__ x, T *__restrict__ y,
                uint8_t *__restrict__ index)
{
    int per_place = d.channels / 8, i = blockIdx.x * THREADS + threadIdx.x, column = i / per_place;
    int channel = (i - column * per_place) * 8, row = blockIdx.y, size = SIZE ? SIZE : d.size;
    if (column >= d.out_width)
        return;
    vec8 best;
    uint32_t won[2] = {0, 0};
    bool is_begun = false;
    const T *image = x + (int64_t)blockIdx.z * d.height * d.width * d.channels + channel;
#pragma unroll
    for (int a = 0; a < size; a++)
#pragma unroll
        for (int b = 0; b < size; b++) {
            int r = row * d.stride - d.padding + a, c = column * d.stride - d.padding + b;
            if (r < 0 || r >= d.height || c < 0 || c >= d.width)
                continue;
            vec8 v = device_load(image + ((int64_t)r * d.width + c) * d.channels);
#pragma unroll
            for (int k = 0; k < 8; k++)
                if (!is_begun || v.v[k] > best.v[k] || v.v[k] != v.v[k]) {
                    best.v[k] = v.v[k];
                    won[k / 4] = (won[k / 4] & ~(255u << (k % 4 * 8))) | (uint32_t)(a * size + b)
                                                                             << (k % 4 * 8);
                }
            is_begun = true;
        }
    int64_t to =
        (((int64_t)blockIdx.z * d.out_height + row) * d.out_width + column) * d.channels + channel;
    device_store(y + to, best);
    if (index)
        *reinterpret_cast<uint2 *>(index + to) = make_uint2(won[0], won[1]);
}

/* Grid as above, over x. SIZE, STRIDE 0: any. Bytes: dy and the index once, dx once. */
template <class T, int SIZE, int STRIDE>
__global__ void __launch_bounds__(THREADS)
    max_gather(cuda_pool d, const T *__restrict__ dy, const uint8_t *__restrict__ index,
               T *__restrict__ dx)
{
    int size = SIZE ? SIZE : d.size, stride = STRIDE ? STRIDE : d.stride;
    int per_place = d.channels / 8, i = blockIdx.x * THREADS + threadIdx.x, place = i / per_place;
    int channel = (i - place * per_place) * 8;
    if (place >= d.width)
        return;
    int column = place + d.padding, row = (int)blockIdx.y + d.padding;
    int last_row = row / stride,
        last_column = column / stride; /* the last window that begins at or before */
    int windows = (size + stride - 1) / stride;
    const T *image = dy + (int64_t)blockIdx.z * d.out_height * d.out_width * d.channels + channel;
    const uint8_t *marks =
        index + (int64_t)blockIdx.z * d.out_height * d.out_width * d.channels + channel;
    vec8 sum;
#pragma unroll
    for (int k = 0; k < 8; k++)
        sum.v[k] = 0;
#pragma unroll
    for (int a = windows - 1; a >= 0; a--)
#pragma unroll
        for (int b = windows - 1; b >= 0; b--) {
            int r = last_row - a, c = last_column - b, y = row - r * stride,
                x = column - c * stride;
            if (r < 0 || c < 0 || r >= d.out_height || c >= d.out_width || y >= size || x >= size)
                continue;
            int from = (r * d.out_width + c) * d.channels;
            uint32_t mine = (uint32_t)(y * size + x) * 0x01010101u;
            uint2 won = *reinterpret_cast<const uint2 *>(marks + from);
            vec8 g = device_load(image + from);
            uint32_t low = __vcmpeq4(won.x, mine), high = __vcmpeq4(won.y, mine);
#pragma unroll
            for (int k = 0; k < 8; k++)
                sum.v[k] += (k < 4 ? low : high) & 1u << (k % 4 * 8) ? g.v[k] : 0.0f;
        }
    device_store(
        dx + (((int64_t)blockIdx.z * d.height + blockIdx.y) * d.width + place) * d.channels +
            channel,
        sum);
}

/* One warp per image and 256 channels. Bytes: x once. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    mean_all(cuda_pool d, const T *__restrict__ x, T *__restrict__ y)
{
    int places = d.height * d.width, vectors = d.channels / 8;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (int64_t)d.batch * vectors)
        return;
    const T *from = x + i / vectors * places * d.channels + i % vectors * 8;
    vec8 sum;
#pragma unroll
    for (int k = 0; k < 8; k++)
        sum.v[k] = 0;
#pragma unroll 7
    for (int p = 0; p < places; p++) {
        vec8 v = device_load(from + (int64_t)p * d.channels);
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum.v[k] += v.v[k];
    }
#pragma unroll
    for (int k = 0; k < 8; k++)
        sum.v[k] /= (float)places;
    device_store(y + i * 8, sum);
}

/* Bytes: dx once. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    mean_spread(cuda_pool d, int64_t total, const T *__restrict__ dy, T *__restrict__ dx)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= total)
        return;
    int places = d.height * d.width, vectors = d.channels / 8;
    int64_t image = i / vectors / places;
    vec8 v = device_load(dy + (image * vectors + i % vectors) * 8);
#pragma unroll
    for (int k = 0; k < 8; k++)
        v.v[k] /= (float)places;
    device_store(dx + i * 8, v);
}

static bool is_valid(const struct cuda_pool *d)
{
    return d->batch > 0 && d->height > 0 && d->width > 0 && d->channels > 0 &&
           d->channels % 8 == 0 && d->size > 0 && d->size <= 15 && d->stride > 0 &&
           d->padding >= 0 && d->padding * 2 <= d->size && d->batch <= 65535 &&
           d->height <= 65535 && (int64_t)d->out_height * d->out_width * d->channels <= INT32_MAX;
}

static unsigned blocks_for(int64_t vectors)
{
    return (unsigned)((vectors + THREADS - 1) / THREADS);
}

static dim3 places_grid(const struct cuda_pool *d, int height, int width)
{
    return dim3((unsigned)((width * (d->channels / 8) + THREADS - 1) / THREADS), (unsigned)height,
                (unsigned)d->batch);
}

template <class T>
static void max_pool(const struct cuda_pool *d, const void *x, void *y, uint8_t *index,
                     cudaStream_t stream)
{
    auto kernel = d->size == 2   ? max_windows<T, 2>
                  : d->size == 3 ? max_windows<T, 3>
                                 : max_windows<T, 0>;
    kernel<<<places_grid(d, d->out_height, d->out_width), THREADS, 0, stream>>>(*d, (const T *)x,
                                                                                (T *)y, index);
}

extern "C" int cuda_max_pool(const struct cuda_pool *d, const void *x, void *y, uint8_t *index,
                             cuda_stream stream)
{
    if (!is_valid(d))
        return (int)cudaErrorInvalidValue;
    if (d->dtype == CUDA_BF16)
        max_pool<bf16>(d, x, y, index, stream);
    else
        max_pool<float>(d, x, y, index, stream);
    return (int)cudaGetLastError();
}

template <class T>
static void max_pool_grad(const struct cuda_pool *d, const void *dy, const uint8_t *index, void *dx,
                          cudaStream_t stream)
{
    auto kernel = d->size == 3 && d->stride == 2   ? max_gather<T, 3, 2>
                  : d->size == 2 && d->stride == 2 ? max_gather<T, 2, 2>
                                                   : max_gather<T, 0, 0>;
    kernel<<<places_grid(d, d->height, d->width), THREADS, 0, stream>>>(*d, (const T *)dy, index,
                                                                        (T *)dx);
}

extern "C" int cuda_max_pool_grad(const struct cuda_pool *d, const void *dy, const uint8_t *index,
                                  void *dx, cuda_stream stream)
{
    if (!is_valid(d))
        return (int)cudaErrorInvalidValue;
    if (d->dtype == CUDA_BF16)
        max_pool_grad<bf16>(d, dy, index, dx, stream);
    else
        max_pool_grad<float>(d, dy, index, dx, stream);
    return (int)cudaGetLastError();
}

extern "C" int cuda_mean_pool(const struct cuda_pool *d, const void *x, void *y, cuda_stream stream)
{
    if (d->channels % 8 || d->channels <= 0)
        return (int)cudaErrorInvalidValue;
    int64_t vectors = (int64_t)d->batch * (d->channels / 8);
    if (d->dtype == CUDA_BF16)
        mean_all<bf16><<<blocks_for(vectors), THREADS, 0, stream>>>(*d, (const bf16 *)x, (bf16 *)y);
    else
        mean_all<float>
            <<<blocks_for(vectors), THREADS, 0, stream>>>(*d, (const float *)x, (float *)y);
    return (int)cudaGetLastError();
}

extern "C" int cuda_mean_pool_grad(const struct cuda_pool *d, const void *dy, void *dx,
                                   cuda_stream stream)
{
    if (d->channels % 8 || d->channels <= 0)
        return (int)cudaErrorInvalidValue;
    int64_t total = (int64_t)d->batch * d->height * d->width * (d->channels / 8);
    if (d->dtype == CUDA_BF16)
        mean_spread<bf16>
            <<<blocks_for(total), THREADS, 0, stream>>>(*d, total, (const bf16 *)dy, (bf16 *)dx);
    else
        mean_spread<float>
            <<<blocks_for(total), THREADS, 0, stream>>>(*d, total, (const float *)dy, (float *)dx);
    return (int)cudaGetLastError();
}
