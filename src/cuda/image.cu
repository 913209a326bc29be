/* image.cu - images of few channels as the library likes them: squares of f x f pixels become channels, filled up with
 * zeros to a multiple of eight, with the border around them. Filters alike, and their gradient back. */
#include "cuda/device.cuh"
#include "cuda/family.h"

#define THREADS 256

/* Where channel `at` of a folded pixel comes from: channel c, row p and column q of the square; false: a zero. */
__device__ static inline bool channel_of(const struct cuda_image &d, int at, int *c, int *p, int *q)
{
    *c = at % d.ci;
    *q = at / d.ci % d.f;
    *p = at / d.ci / d.f;
    return at < d.ci * d.f * d.f;
}

/* A thread makes eight channels of one folded pixel; CI, F: channels and side of a square, 0: as d says. */
template <int CI, int F>
__global__ void __launch_bounds__(THREADS)
    image_fold(struct cuda_image d, const uint16_t *__restrict__ x, uint4 *__restrict__ to)
{
    const unsigned ci = CI ? CI : (unsigned)d.ci, f = F ? F : (unsigned)d.f,
                   parts = CI && F ? (CI * F * F + 7) / 8 : (unsigned)d.wide / 8;
    unsigned i = blockIdx.x * THREADS + threadIdx.x, pixel = i / parts, part = i % parts;
    if (pixel >= (unsigned)d.out[1])
        return; /* threads go along a row of folded pixels */
    int column = ((int)pixel - (int)d.before[1]) * (int)f,
        line = ((int)blockIdx.y - (int)d.before[0]) * (int)f, rows = (int)d.in[0],
        columns = (int)d.in[1];
    const uint16_t *image = x + blockIdx.z * (int64_t)ci * rows * columns;
    uint32_t v[8];
#pragma unroll
    for (unsigned k = 0; k < 8; k++) {
        unsigned at = part * 8 + k, c = at % ci, q = at / ci % f, p = at / ci / f;
        int r = line + (int)p, s = column + (int)q;
        bool is_there = at < ci * f * f && r >= 0 && r < rows && s >= 0 && s < columns;
        v[k] = is_there ? image[((int)c * rows + r) * columns + s] : 0u;
    }
    int64_t place = (blockIdx.z * d.out[0] + blockIdx.y) * d.out[1] + pixel;
    to[place * parts + part] =
        make_uint4(v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16);
}

/* Row or column of a filter that a folded one's is, from -1 on. */
__device__ static inline bool tap_of(const struct cuda_image &d, int axis, int64_t folded, int part,
                                     int64_t *tap)
{
    *tap = folded * d.f + part - d.shift[axis];
    return *tap >= 0 && *tap < d.k[axis];
}

/* One element of the folded filter [co, k, k, wide] each; IS_BACK: of the gradient, to where it belongs. */
template <bool IS_BACK>
__global__ void __launch_bounds__(THREADS)
    image_filter(struct cuda_image d, const uint16_t *__restrict__ from, uint16_t *__restrict__ to,
                 float *__restrict__ wide_to)
{
    int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= d.co * d.folded[0] * d.folded[1] * d.wide)
        return;
    int c, p, q;
    int64_t place = i / d.wide, row, column;
    bool is_there = channel_of(d, (int)(i % d.wide), &c, &p, &q);
    is_there = tap_of(d, 1, place % d.folded[1], q, &column) && is_there;
    is_there = tap_of(d, 0, place / d.folded[1] % d.folded[0], p, &row) && is_there;
    int64_t at = ((place / d.folded[1] / d.folded[0] * d.ci + c) * d.k[0] + row) * d.k[1] + column;
    if (!IS_BACK)
        to[i] = is_there ? from[at] : (uint16_t)0;
    else if (is_there && wide_to)
        wide_to[at] = __uint_as_float((uint32_t)from[i] << 16);
    else if (is_there)
        to[at] = from[i];
}

static unsigned blocks(int64_t n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

extern "C" int cuda_image_fold(const struct cuda_image *d, const void *x, void *to,
                               cuda_stream stream)
{
    if (d->out[0] > 65535 || d->n > 65535)
        return (int)cudaErrorInvalidValue;
    dim3 grid(blocks(d->out[1] * (d->wide / 8)), (unsigned)d->out[0], (unsigned)d->n);
    auto kernel = d->ci == 3 && d->f == 2   ? image_fold<3, 2>
                  : d->ci == 3 && d->f == 1 ? image_fold<3, 1>
                                            : image_fold<0, 0>;
    kernel<<<grid, THREADS, 0, stream>>>(*d, (const uint16_t *)x, (uint4 *)to);
    return (int)cudaGetLastError();
}

extern "C" int cuda_image_filter(const struct cuda_image *d, const void *w, void *to,
                                 cuda_stream stream)
{
    int64_t n = d->co * d->folded[0] * d->folded[1] * d->wide;
    image_filter<false>
        <<<blocks(n), THREADS, 0, stream>>>(*d, (const uint16_t *)w, (uint16_t *)to, NULL);
    return (int)cudaGetLastError();
}

extern "C" int cuda_image_filter_back(const struct cuda_image *d, const void *from,
                                      struct cuda_out dw, cuda_stream stream)
{
    int64_t n = d->co * d->folded[0] * d->folded[1] * d->wide;
    bool is_wide = dw.dtype == KERNEL_F32;
    image_filter<true><<<blocks(n), THREADS, 0, stream>>>(*d, (const uint16_t *)from,
                                                          is_wide ? NULL : (uint16_t *)dw.p,
                                                          is_wide ? (float *)dw.p : NULL);
    return (int)cudaGetLastError();
}
