/* resample.c - upsampling, unpooling, windows over channels. One plane is one piece of work. */
#include "kernel/internal.h"

struct resample_job {
    const struct kernel_resample *r;
    const float *x;
    float *y;
};

struct tap { /* two source positions and their weights */
    int64_t i0, i1;
    float w0, w1;
};

static inline __attribute__((always_inline)) struct tap locate(const struct kernel_resample *r,
                                                               int d, int64_t o)
{
    const float scale = (float)r->scale[d], from = (float)o;
    float place = scale * from; /* in float, as torch does: it decides which element is meant */
    if (!r->is_bilinear) {
        int64_t i = kernel_min((int64_t)floorf(place), r->in[d] - 1);
        return (struct tap){i, i, 1.0f, 0.0f};
    }
    if (!r->align_corners)
        place = fmaxf(0.0f, fmaf(scale, from + 0.5f, -0.5f));
    int64_t i = kernel_min((int64_t)place, r->in[d] - 1);
    float f = r->align_corners ? fmaf(scale, from, -(float)i) : place - (float)i;
    f = fminf(fmaxf(f, 0.0f), 1.0f);
    return (struct tap){i, kernel_min(i + 1, r->in[d] - 1), 1.0f - f, f};
}

static inline __attribute__((always_inline)) void forward_plane(const struct kernel_resample *r,
                                                                const float *restrict x,
                                                                float *restrict y, const int64_t L)
{
    for (int64_t h = 0; h < r->out[0]; h++) {
        const struct tap a = locate(r, 0, h);
        const float *x0 = x + a.i0 * r->in[1] * L, *x1 = x + a.i1 * r->in[1] * L;
        for (int64_t w = 0; w < r->out[1]; w++) {
            const struct tap b = locate(r, 1, w);
            const float *p0 = x0 + b.i0 * L, *p1 = x0 + b.i1 * L, *q0 = x1 + b.i0 * L,
                        *q1 = x1 + b.i1 * L;
            float *to = y + (h * r->out[1] + w) * L;
            for (int64_t l = 0; l < L; l++)
                to[l] = fmaf(a.w0, fmaf(b.w0, p0[l], b.w1 * p1[l]),
                             a.w1 * fmaf(b.w0, q0[l], b.w1 * q1[l]));
        }
    }
}

KERNEL_CLONES static void forward(void *argument, int64_t first, int64_t last)
{
    const struct resample_job *j = argument;
    const struct kernel_resample *r = j->r;
    for (int64_t plane = first; plane < last; plane++) {
        const float *x = j->x + plane * r->in[0] * r->in[1] * r->lanes;
        float *y = j->y + plane * r->out[0] * r->out[1] * r->lanes;
        if (r->lanes == 16)
            forward_plane(r, x, y, 16);
        else
            forward_plane(r, x, y, r->lanes);
    }
}

static inline __attribute__((always_inline)) void backward_plane(const struct kernel_resample *r,
                                                                 const float *restrict dy,
                                                                 float *restrict dx,
                                                                 const int64_t L)
{
    for (int64_t h = 0; h < r->out[0]; h++) {
        const struct tap a = locate(r, 0, h);
        float *x0 = dx + a.i0 * r->in[1] * L, *x1 = dx + a.i1 * r->in[1] * L;
        for (int64_t w = 0; w < r->out[1]; w++) {
            const struct tap b = locate(r, 1, w);
            const float *g = dy + (h * r->out[1] + w) * L;
            for (int64_t l = 0; l < L; l++)
                x0[b.i0 * L + l] = fmaf(a.w0 * b.w0, g[l], x0[b.i0 * L + l]);
            for (int64_t l = 0; l < L; l++)
                x0[b.i1 * L + l] = fmaf(a.w0 * b.w1, g[l], x0[b.i1 * L + l]);
            for (int64_t l = 0; l < L; l++)
                x1[b.i0 * L + l] = fmaf(a.w1 * b.w0, g[l], x1[b.i0 * L + l]);
            for (int64_t l = 0; l < L; l++)
                x1[b.i1 * L + l] = fmaf(a.w1 * b.w1, g[l], x1[b.i1 * L + l]);
        }
    }
}

KERNEL_CLONES static void backward(void *argument, int64_t first, int64_t last)
{
    const struct resample_job *j = argument;
    const struct kernel_resample *r = j->r;
    for (int64_t plane = first; plane < last; plane++) {
        float *dx = j->y + plane * r->in[0] * r->in[1] * r->lanes;
        const float *dy = j->x + plane * r->out[0] * r->out[1] * r->lanes;
        memset(dx, 0, (size_t)(r->in[0] * r->in[1] * r->lanes) * sizeof *dx);
        if (r->lanes == 16)
            backward_plane(r, dy, dx, 16);
        else
            backward_plane(r, dy, dx, r->lanes);
    }
}

KERNEL_CPU(resample)
{
    const struct kernel_resample_desc *d = desc;
    const struct kernel_resample *r = &d->resample;
    struct resample_job job = {r, args->in[0], args->out[0]};
    return kernel_parallel(c, r->planes, r->out[0] * r->out[1] * r->lanes * 4,
                           d->is_grad ? backward : forward, &job);
}

/* ---- unpooling ------------------------------------------------------------------------------ */

static enum ebb_status check_indices(int64_t count, int64_t limit, const int64_t *index,
                                     struct ebb_error *err)
{
    for (int64_t i = 0; i < count; i++)
        if (index[i] < 0 || index[i] >= limit)
            return ebb_fail(err, EBB_EINPUT,
                            "max_unpool: index %lld at element %lld, a plane has %lld",
                            (long long)index[i], (long long)i, (long long)limit);
    return EBB_OK;
}

KERNEL_CPU(unpool)
{
    const struct kernel_unpool_desc *d = desc;
    const float *x = args->in[0];
    const int64_t *index = args->in[1];
    float *y = args->out[0];
    EBB_TRY(check_indices(d->planes * d->in_size, d->out_size, index, err));
    if (!d->is_grad)
        kernel_fill(c, d->planes * d->out_size, y, 0.0f);
    for (int64_t p = 0; p < d->planes; p++)
        for (int64_t i = p * d->in_size; i < (p + 1) * d->in_size; i++)
            if (d->is_grad)
                y[i] = x[p * d->out_size + index[i]];
            else
                y[p * d->out_size + index[i]] = x[i];
    return EBB_OK;
}

/* ---- channel windows ------------------------------------------------------------------------ */

struct window_job {
    int64_t channels, inner, before, after;
    const float *x;
    float *y;
};

static void window_body(void *argument, int64_t first, int64_t last)
{
    const struct window_job *j = argument;
    for (int64_t i = first; i < last; i++) {
        int64_t o = i / j->channels, ch = i % j->channels;
        float *y = j->y + i * j->inner;
        memset(y, 0, (size_t)j->inner * sizeof *y);
        int64_t end = kernel_min(j->channels - 1, ch + j->after);
        for (int64_t k = kernel_max(0, ch - j->before); k <= end; k++) {
            const float *x = j->x + (o * j->channels + k) * j->inner;
            for (int64_t e = 0; e < j->inner; e++)
                y[e] += x[e];
        }
    }
}

KERNEL_CPU(channel_window)
{
    const struct kernel_channel_window_desc *d = desc;
    struct window_job job = {d->channels, d->inner, d->before, d->after, args->in[0], args->out[0]};
    return kernel_parallel(c, d->outer * d->channels, d->inner * (d->before + d->after + 1),
                           window_body, &job);
}
