/* plain_conv.cu - convolutions of any geometry, layout and type: one thread per result, sums in double.
 *
 * For small ones, and where the library has no repeatable engine. */
#include "cuda/typed.cuh"

#define THREADS 256

struct conv {
    int64_t n;
    int ci, co, groups, has_relu;
    int in[3], out[3], k[3], stride[3], dilation[3], pad[3];
    int x_block, y_block;
};

static conv conv_of(const struct kernel_conv *d)
{
    conv c = {d->n, (int)d->ci, (int)d->co, (int)d->groups, d->has_relu};
    for (int i = 0; i < 3; i++) {
        bool is_used = i < d->nd;
        c.in[i] = is_used ? (int)d->in[i] : 1;
        c.out[i] = is_used ? (int)d->out[i] : 1;
        c.k[i] = is_used ? (int)d->k[i] : 1;
        c.stride[i] = is_used ? (int)d->stride[i] : 1;
        c.dilation[i] = is_used ? (int)d->dilation[i] : 1;
        c.pad[i] = is_used ? (int)d->pad[i] : 0;
    }
    c.x_block = d->x_block;
    c.y_block = d->y_block;
    return c;
}

/* Element (channel, a, b, c) of an image of [channels, size...], in blocks of channels where block is not 0. */
__device__ static inline int element(const int *size, int block, int channel, int a, int b, int c)
{
    int place = (a * size[1] + b) * size[2] + c, places = size[0] * size[1] * size[2];
    return block ? (channel / block * places + place) * block + channel % block
                 : channel * places + place;
}

/* Element i of a layout, taken apart. */
__device__ static inline void apart(const int *size, int block, uint32_t i, int *channel, int *at)
{
    uint32_t lane = 0, places = (uint32_t)(size[0] * size[1] * size[2]);
    if (block) {
        lane = i % (uint32_t)block;
        i /= (uint32_t)block;
    }
    uint32_t place = i % places;
    *channel = (int)(i / places * (block ? (uint32_t)block : 1u) + lane);
    at[2] = (int)(place % (uint32_t)size[2]);
    place /= (uint32_t)size[2];
    at[1] = (int)(place % (uint32_t)size[1]);
    at[0] = (int)(place / (uint32_t)size[1]);
}

#define FOR_WINDOW(c)                                                                              \
    for (int ka = 0; ka < (c).k[0]; ka++)                                                          \
        for (int kb = 0; kb < (c).k[1]; kb++)                                                      \
            for (int kc = 0; kc < (c).k[2]; kc++)

__device__ static inline int64_t weight_at(const conv &c, int co, int ci, int ka, int kb, int kc)
{
    return ((((int64_t)co * (c.ci / c.groups) + ci) * c.k[0] + ka) * c.k[1] + kb) * c.k[2] + kc;
}

__device__ static inline int size_of(const int *size, int channels)
{
    return size[0] * size[1] * size[2] * channels;
}

__global__ void __launch_bounds__(THREADS)
    conv_forward(const __grid_constant__ conv c, struct cuda_in x, struct cuda_in w,
                 const float *__restrict__ bias, struct cuda_out y)
{
    int mine = size_of(c.out, c.co), inputs = c.ci / c.groups;
    for (int64_t n = blockIdx.y; n < c.n; n += gridDim.y)
        for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < (uint32_t)mine;
             i += gridDim.x * THREADS) {
            int channel, o[3];
            apart(c.out, c.y_block, i, &channel, o);
            int first = channel / (c.co / c.groups) * inputs;
            int64_t image = n * size_of(c.in, c.ci);
            double sum = bias ? (double)bias[channel] : 0.0;
            FOR_WINDOW(c)
            {
                int a = o[0] * c.stride[0] - c.pad[0] + ka * c.dilation[0];
                int b = o[1] * c.stride[1] - c.pad[1] + kb * c.dilation[1];
                int d = o[2] * c.stride[2] - c.pad[2] + kc * c.dilation[2];
                if (a < 0 || b < 0 || d < 0 || a >= c.in[0] || b >= c.in[1] || d >= c.in[2])
                    continue;
                for (int ci = 0; ci < inputs; ci++)
                    sum += (double)typed_get(x, image +
                                                    element(c.in, c.x_block, first + ci, a, b, d)) *
                           (double)typed_get(w, weight_at(c, channel, ci, ka, kb, kc));
            }
            float v = (float)sum;
            typed_put(y, n * mine + i, c.has_relu && v < 0.0f ? 0.0f : v);
        }
}

/* The result along dimension d that reaches place i by position k of the filter, or -1. */
__device__ static inline int source(const conv &c, int d, int i, int k)
{
    int away = i + c.pad[d] - k * c.dilation[d];
    return away >= 0 && away % c.stride[d] == 0 && away / c.stride[d] < c.out[d]
               ? away / c.stride[d]
               : -1;
}

__global__ void __launch_bounds__(THREADS)
    conv_data(const __grid_constant__ conv c, struct cuda_in dy, struct cuda_in w,
              struct cuda_out dx)
{
    int mine = size_of(c.in, c.ci), inputs = c.ci / c.groups, outputs = c.co / c.groups;
    for (int64_t n = blockIdx.y; n < c.n; n += gridDim.y)
        for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < (uint32_t)mine;
             i += gridDim.x * THREADS) {
            int channel, at[3];
            apart(c.in, c.x_block, i, &channel, at);
            int first = channel / inputs * outputs;
            int64_t image = n * size_of(c.out, c.co);
            double sum = 0;
            FOR_WINDOW(c)
            {
                int a = source(c, 0, at[0], ka), b = source(c, 1, at[1], kb),
                    d = source(c, 2, at[2], kc);
                if (a < 0 || b < 0 || d < 0)
                    continue;
                for (int co = 0; co < outputs; co++)
                    sum += (double)typed_get(
                               dy, image + element(c.out, c.y_block, first + co, a, b, d)) *
                           (double)typed_get(
                               w, weight_at(c, first + co, channel % inputs, ka, kb, kc));
            }
            typed_put(dx, n * mine + i, (float)sum);
        }
}

/* A warp per weight. */
__global__ void __launch_bounds__(THREADS)
    conv_weights(const __grid_constant__ conv c, struct cuda_in x, struct cuda_in dy,
                 struct cuda_out dw)
{
    int inputs = c.ci / c.groups, window = c.k[0] * c.k[1] * c.k[2], lane = threadIdx.x % 32;
    int i = (int)(((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32);
    if (i >= c.co * inputs * window)
        return;
    uint32_t filter = (uint32_t)i / (uint32_t)window, k = (uint32_t)i % (uint32_t)window;
    int co = (int)(filter / (uint32_t)inputs), ci = (int)filter - co * inputs;
    int kc = (int)(k % (uint32_t)c.k[2]), kb = (int)(k / (uint32_t)c.k[2] % (uint32_t)c.k[1]),
        ka = (int)(k / (uint32_t)c.k[2] / (uint32_t)c.k[1]);
    int channel = co / (c.co / c.groups) * inputs + ci, places = size_of(c.out, 1);
    double sum = 0;
    for (int64_t n = 0; n < c.n; n++)
        for (int p = lane; p < places; p += 32) {
            uint32_t row = (uint32_t)p / (uint32_t)c.out[2];
            int od = p - (int)row * c.out[2], oa = (int)(row / (uint32_t)c.out[1]);
            int ob = (int)row - oa * c.out[1];
            int a = oa * c.stride[0] - c.pad[0] + ka * c.dilation[0];
            int b = ob * c.stride[1] - c.pad[1] + kb * c.dilation[1];
            int d = od * c.stride[2] - c.pad[2] + kc * c.dilation[2];
            if (a < 0 || b < 0 || d < 0 || a >= c.in[0] || b >= c.in[1] || d >= c.in[2])
                continue;
            int64_t from = n * size_of(c.in, c.ci), to = n * size_of(c.out, c.co);
            sum += (double)typed_get(x, from + element(c.in, c.x_block, channel, a, b, d)) *
                   (double)typed_get(dy, to + element(c.out, c.y_block, co, oa, ob, od));
        }
    sum = typed_warp_sum(sum);
    if (lane == 0)
        typed_put(dw, i, (float)sum);
}

static dim3 grid_of(int64_t images, int64_t elements)
{
    int64_t x = (elements + THREADS - 1) / THREADS;
    return dim3((unsigned)(x > 65535 ? 65535 : x), (unsigned)(images > 65535 ? 65535 : images));
}

static int64_t elements_of(const int *size, int64_t channels)
{
    return (int64_t)size[0] * size[1] * size[2] * channels;
}

extern "C" int cuda_plain_conv(const struct kernel_conv_desc *d, struct cuda_in a, struct cuda_in b,
                               const float *bias, struct cuda_out to, cuda_stream stream)
{
    conv c = conv_of(&d->conv);
    int64_t in = elements_of(c.in, c.ci), out = elements_of(c.out, c.co);
    int64_t weights = (int64_t)c.co * (c.ci / c.groups) * c.k[0] * c.k[1] * c.k[2];
    if (in > INT32_MAX || out > INT32_MAX || weights > INT32_MAX / 32)
        return (int)cudaErrorInvalidValue;
    if (d->pass == KERNEL_CONV_WEIGHTS && weights > 0)
        conv_weights<<<(unsigned)((weights * 32 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            c, a, b, to);
    else if (d->pass == KERNEL_CONV_DATA && c.n * in > 0)
        conv_data<<<grid_of(c.n, in), THREADS, 0, stream>>>(c, a, b, to);
    else if (d->pass == KERNEL_CONV_FORWARD && c.n * out > 0)
        conv_forward<<<grid_of(c.n, out), THREADS, 0, stream>>>(c, a, b, bias, to);
    return (int)cudaGetLastError();
}
