/* pool.c - pooling windows over up to three spatial dimensions. One plane is one piece of work, so
 * the scatter of the gradients has one order. */
#include "kernel/internal.h"

struct pool_job {
    const struct kernel_pool *p;
    int64_t in_size, out_size;
    const float *x;
    const uint8_t *winner_in;
    float *y;
    uint8_t *winner;
    int64_t *index;
};

struct window {
    int64_t from[3], to[3]; /* in input coordinates, clipped; for dilation 1 */
};

static void locate(const struct kernel_pool *p, int64_t o, int64_t *at)
{
    at[2] = o % p->out[2];
    at[1] = o / p->out[2] % p->out[1];
    at[0] = o / p->out[2] / p->out[1];
}

/* Window positions k with 0 <= at + k dilation < in: from *first to before *last. */
static void clip(const struct kernel_pool *p, int d, int64_t at, int64_t *first, int64_t *last)
{
    int64_t step = p->dilation[d];
    *first = at < 0 ? (-at + step - 1) / step : 0;
    *last = kernel_min(p->k[d], at < p->in[d] ? (p->in[d] - at + step - 1) / step : 0);
}

/* First maximum in row-major order of one window; NaN wins. */
static uint8_t window_max(const struct kernel_pool *p, const float *x, int64_t o, float *value)
{
    int64_t at[3], first[3], last[3], best = KERNEL_POOL_WINDOW;
    float m = -INFINITY;
    locate(p, o, at);
    for (int d = 0; d < 3; d++) {
        at[d] = at[d] * p->stride[d] - p->pad[d];
        clip(p, d, at[d], &first[d], &last[d]);
    }
    for (int64_t a = first[0]; a < last[0]; a++)
        for (int64_t b = first[1]; b < last[1]; b++) {
            int64_t row = (at[0] + a * p->dilation[0]) * p->in[1] + at[1] + b * p->dilation[1];
            for (int64_t c = first[2]; c < last[2]; c++) {
                float v = x[row * p->in[2] + at[2] + c * p->dilation[2]];
                if (v > m || best == KERNEL_POOL_WINDOW || v != v) {
                    best = (a * p->k[1] + b) * p->k[2] + c;
                    m = v;
                }
            }
        }
    *value = m;
    return (uint8_t)best;
}

/* Flat index of a winner in its plane, or -1. */
static int64_t winner_index(const struct kernel_pool *p, int64_t o, uint8_t winner)
{
    int64_t at[3];
    if (winner == KERNEL_POOL_WINDOW)
        return -1;
    locate(p, o, at);
    int64_t k[3] = {winner / p->k[2] / p->k[1], winner / p->k[2] % p->k[1], winner % p->k[2]};
    for (int d = 0; d < 3; d++)
        at[d] = at[d] * p->stride[d] - p->pad[d] + k[d] * p->dilation[d];
    return (at[0] * p->in[1] + at[1]) * p->in[2] + at[2];
}

#define LANES 16 /* at most */

/* Loops over every output of a plane; `body` sees its number o, the corner of its window (at) and
 * what of the window is inside (first .. last). Macros, because vector types are only translated
 * for the instruction set of the function they are written in. */
#define FOR_OUTPUTS(p, body)                                                                       \
    {                                                                                              \
        int64_t at[3], first[3], last[3], o = 0;                                                   \
        for (int64_t z = 0; z < (p)->out[0]; z++) {                                                \
            at[0] = z * (p)->stride[0] - (p)->pad[0];                                              \
            clip((p), 0, at[0], &first[0], &last[0]);                                              \
            for (int64_t h = 0; h < (p)->out[1]; h++) {                                            \
                at[1] = h * (p)->stride[1] - (p)->pad[1];                                          \
                clip((p), 1, at[1], &first[1], &last[1]);                                          \
                for (int64_t w = 0; w < (p)->out[2]; w++, o++) {                                   \
                    at[2] = w * (p)->stride[2] - (p)->pad[2];                                      \
                    clip((p), 2, at[2], &first[2], &last[2]);                                      \
                    body                                                                           \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* Loops over a window; `body` sees k, the place in it, and i, the place in the plane. */
#define FOR_WINDOW(p, body)                                                                        \
    for (int64_t a = first[0]; a < last[0]; a++)                                                   \
        for (int64_t b = first[1]; b < last[1]; b++) {                                             \
            int64_t row = (at[0] + a * (p)->dilation[0]) * (p)->in[1] + at[1];                     \
            row = (row + b * (p)->dilation[1]) * (p)->in[2] + at[2];                               \
            for (int64_t c = first[2]; c < last[2]; c++) {                                         \
                const int32_t k = (int32_t)((a * (p)->k[1] + b) * (p)->k[2] + c);                  \
                const int64_t i = row + c * (p)->dilation[2];                                      \
                body                                                                               \
            }                                                                                      \
        }

/* The number of lanes stays a variable: loops over a constant 16 are unrolled before the compiler
 * looks for vectors. */
KERNEL_CLONES static void max_pool_lanes(void *argument, int64_t from, int64_t to)
{
    const struct pool_job *j = argument;
    const struct kernel_pool *p = j->p;
    const int64_t L = p->lanes;
    float m[LANES];
    int32_t best[LANES];
    for (int64_t plane = from; plane < to; plane++) {
        const float *x = j->x + plane * j->in_size * L;
        FOR_OUTPUTS(p, {
            bool is_empty = first[0] >= last[0] || first[1] >= last[1] || first[2] >= last[2];
            int64_t start = (first[0] * p->k[1] + first[1]) * p->k[2] + first[2];
            int64_t out = (plane * j->out_size + o) * L;
            for (int64_t l = 0; l < L; l++) {
                m[l] = -INFINITY;
                best[l] = (int32_t)(is_empty ? KERNEL_POOL_WINDOW : start);
            }
            FOR_WINDOW(p, {
                const float *v = x + i * L;
                for (int64_t l = 0; l < L; l++) {
                    const float old = m[l];
                    const float new = v[l];
                    bool is_more = new > old || new != new;
                    m[l] = is_more ? new : old;
                    best[l] = is_more ? k : best[l];
                }
            })
            if (j->y)
                memcpy(j->y + out, m, (size_t)L * sizeof *m);
            for (int64_t l = 0; j->winner && l < L; l++)
                j->winner[out + l] = (uint8_t)best[l];
        })
    }
}

static void max_body(void *argument, int64_t first, int64_t last)
{
    const struct pool_job *j = argument;
    for (int64_t plane = first; plane < last; plane++)
        for (int64_t o = 0; o < j->out_size; o++) {
            float value;
            uint8_t best = window_max(j->p, j->x + plane * j->in_size, o, &value);
            if (j->y)
                j->y[plane * j->out_size + o] = value;
            if (j->winner)
                j->winner[plane * j->out_size + o] = best;
        }
}

/* dx += dy at every place of the window that won. */
KERNEL_CLONES static void give_lanes(void *argument, int64_t from, int64_t to)
{
    const struct pool_job *j = argument;
    const struct kernel_pool *p = j->p;
    const int64_t L = p->lanes;
    int32_t won[LANES];
    float dy[LANES];
    for (int64_t plane = from; plane < to; plane++) {
        float *dx = j->y + plane * j->in_size * L;
        memset(dx, 0, (size_t)(j->in_size * L) * sizeof *dx);
        FOR_OUTPUTS(p, {
            int64_t out = (plane * j->out_size + o) * L;
            for (int64_t l = 0; l < L; l++)
                won[l] = j->winner_in[out + l];
            memcpy(dy, j->x + out, (size_t)L * sizeof *dy);
            FOR_WINDOW(p, {
                float *t = dx + i * L;
                for (int64_t l = 0; l < L; l++)
                    t[l] += won[l] == k ? dy[l] : 0.0f;
            })
        })
    }
}

static void max_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct pool_job *j = argument;
    for (int64_t plane = first; plane < last; plane++) {
        float *dx = j->y + plane * j->in_size;
        memset(dx, 0, (size_t)j->in_size * sizeof *dx);
        for (int64_t o = 0; o < j->out_size; o++) {
            int64_t i = winner_index(j->p, o, j->winner_in[plane * j->out_size + o]);
            if (i >= 0)
                dx[i] += j->x[plane * j->out_size + o];
        }
    }
}

static void index_body(void *argument, int64_t first, int64_t last)
{
    const struct pool_job *j = argument;
    for (int64_t i = first; i < last; i++)
        j->index[i] = winner_index(j->p, i % j->out_size, j->winner_in[i]);
}

/* The window of output o, and its divisor: the window clipped to the padded input, or what it has
 * of real elements. */
static double average_window(const struct kernel_pool *p, int64_t o, struct window *w)
{
    int64_t at[3];
    double padded = 1, real = 1;
    locate(p, o, at);
    for (int d = 0; d < 3; d++) {
        int64_t from = at[d] * p->stride[d] - p->pad[d];
        int64_t to = kernel_min(from + p->k[d], p->in[d] + p->pad[d]);
        padded *= (double)(to - from);
        w->from[d] = kernel_max(from, 0);
        w->to[d] = kernel_min(to, p->in[d]);
        real *= (double)(w->to[d] - w->from[d]);
    }
    return p->count_include_pad ? padded : real;
}

/* Bin i covers floor(i in / out) .. ceil((i + 1) in / out). */
static double adaptive_window(const struct kernel_pool *p, int64_t o, struct window *w)
{
    int64_t at[3];
    double count = 1;
    locate(p, o, at);
    for (int d = 0; d < 3; d++) {
        w->from[d] = at[d] * p->in[d] / p->out[d];
        w->to[d] = ((at[d] + 1) * p->in[d] + p->out[d] - 1) / p->out[d];
        count *= (double)(w->to[d] - w->from[d]);
    }
    return count;
}

KERNEL_CLONES static void window_sum(const struct kernel_pool *p, const struct window *w,
                                     const float *x, double divisor, float *y)
{
    double sum[LANES] = {0};
    const int64_t L = p->lanes;
    for (int64_t z = w->from[0]; z < w->to[0]; z++)
        for (int64_t h = w->from[1]; h < w->to[1]; h++)
            for (int64_t i = w->from[2]; i < w->to[2]; i++)
                for (int64_t l = 0; l < L; l++)
                    sum[l] += (double)x[((z * p->in[1] + h) * p->in[2] + i) * L + l];
    for (int64_t l = 0; l < L; l++)
        y[l] = (float)(sum[l] / divisor);
}

KERNEL_CLONES static void window_add(const struct kernel_pool *p, const struct window *w,
                                     float *restrict dx, const float *restrict dy, double divisor)
{
    float value[LANES];
    const int64_t L = p->lanes;
    for (int64_t l = 0; l < L; l++)
        value[l] = (float)((double)dy[l] / divisor);
    for (int64_t z = w->from[0]; z < w->to[0]; z++)
        for (int64_t h = w->from[1]; h < w->to[1]; h++)
            for (int64_t i = w->from[2]; i < w->to[2]; i++)
                for (int64_t l = 0; l < L; l++)
                    dx[((z * p->in[1] + h) * p->in[2] + i) * L + l] += value[l];
}

typedef double (*window_rule)(const struct kernel_pool *p, int64_t o, struct window *w);

static void average(const struct pool_job *j, int64_t first, int64_t last, window_rule rule)
{
    struct window w;
    for (int64_t plane = first; plane < last; plane++)
        for (int64_t o = 0; o < j->out_size; o++) {
            double divisor = rule(j->p, o, &w);
            window_sum(j->p, &w, j->x + plane * j->in_size * j->p->lanes, divisor,
                       j->y + (plane * j->out_size + o) * j->p->lanes);
        }
}

static void average_grad(const struct pool_job *j, int64_t first, int64_t last, window_rule rule)
{
    struct window w;
    for (int64_t plane = first; plane < last; plane++) {
        const int64_t L = j->p->lanes;
        float *dx = j->y + plane * j->in_size * L;
        memset(dx, 0, (size_t)(j->in_size * L) * sizeof *dx);
        for (int64_t o = 0; o < j->out_size; o++) {
            double divisor = rule(j->p, o, &w);
            window_add(j->p, &w, dx, j->x + (plane * j->out_size + o) * L, divisor);
        }
    }
}

static void avg_body(void *argument, int64_t first, int64_t last)
{
    average(argument, first, last, average_window);
}

static void avg_grad_body(void *argument, int64_t first, int64_t last)
{
    average_grad(argument, first, last, average_window);
}

static void adaptive_body(void *argument, int64_t first, int64_t last)
{
    average(argument, first, last, adaptive_window);
}

static void adaptive_grad_body(void *argument, int64_t first, int64_t last)
{
    average_grad(argument, first, last, adaptive_window);
}

KERNEL_CPU(pool)
{
    static const struct {
        kernel_body plain, lanes;
    } bodies[] = {[KERNEL_AVG] = {avg_body, avg_body},
                  [KERNEL_AVG_GRAD] = {avg_grad_body, avg_grad_body},
                  [KERNEL_ADAPTIVE] = {adaptive_body, adaptive_body},
                  [KERNEL_ADAPTIVE_GRAD] = {adaptive_grad_body, adaptive_grad_body},
                  [KERNEL_MAX_POOL] = {max_body, max_pool_lanes},
                  [KERNEL_MAX_POOL_GRAD] = {max_grad_body, give_lanes},
                  [KERNEL_MAX_POOL_INDEX] = {index_body, index_body}};
    const struct kernel_pool_desc *d = desc;
    const struct kernel_pool *p = &d->pool;
    bool is_index = d->f == KERNEL_MAX_POOL_INDEX;
    struct pool_job job = {.p = p,
                           .in_size = p->in[0] * p->in[1] * p->in[2],
                           .out_size = p->out[0] * p->out[1] * p->out[2],
                           .x = args->in[0],
                           .winner_in = args->in[is_index ? 0 : 1],
                           .y = args->out[0],
                           .winner = args->out[1],
                           .index = args->out[0]};
    return kernel_parallel(c, is_index ? p->planes * job.out_size : p->planes,
                           is_index ? 1 : job.in_size * p->lanes,
                           p->lanes > 1 ? bodies[d->f].lanes : bodies[d->f].plain, &job);
}
