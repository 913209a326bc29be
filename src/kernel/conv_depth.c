/* conv_depth.c - weight gradients of depthwise convolutions, for shapes of which oneDNN makes a product
 * of unfolded pictures: filters of 5 x 5, pictures that are smaller than their filter.
 *
 * WIDTH channels are one piece of work. A row of dy meets a row of x at all columns of the filter at
 * once, whose sums stay in registers; no sum of floats has more than about TERMS terms, then it is
 * added in double. The order depends on shapes alone: the same bits in every layout, at any thread count
 * and on every processor. */
#include "kernel/conv_depth.h"

#include <omp.h>

#include "kernel/internal.h"

#define WIDTH 8
#define MOST 7 /* rows and columns of a filter */
#define TERMS 512

typedef float vector __attribute__((vector_size(WIDTH * sizeof(float))));

struct depth_job {
    const struct kernel_conv *v;
    const float *x, *dy;
    float *dw, *spare; /* of plain layouts: WIDTH channels of x and of dy for every thread */
};

/* Where WIDTH channels of a sample lie: places behind each other, `step` floats apart. */
struct depth_tile {
    const float *x, *dy;
    int64_t step;
};

bool kernel_conv_is_depth(const struct kernel_conv *v)
{
    return v->nd == 2 && v->groups > 1 && v->groups == v->ci && v->groups == v->co &&
           v->dtype == KERNEL_F32 && v->k[0] <= MOST && v->k[1] <= MOST && v->x_block == v->y_block;
}

static int64_t spare_floats(const struct kernel_conv *v)
{
    return v->x_block ? 0 : WIDTH * (v->in[0] * v->in[1] + v->out[0] * v->out[1]);
}

size_t kernel_conv_depth_workspace(const struct kernel_context *c, const struct kernel_conv *v)
{
    return (size_t)(kernel_threads(c) * spare_floats(v)) * sizeof(float);
}

/* Channels `first` and following of a plain picture, zeros where there are no more. */
static void gather(int64_t channels, int64_t size, const float *from, float *to)
{
    for (int64_t c = 0; c < WIDTH; c++)
        for (int64_t i = 0; i < size; i++)
            to[i * WIDTH + c] = c < channels ? from[c * size + i] : 0.0f;
}

static struct depth_tile find_tile(const struct depth_job *j, int64_t n, int64_t channel)
{
    const struct kernel_conv *v = j->v;
    int64_t in = v->in[0] * v->in[1], out = v->out[0] * v->out[1], block = v->x_block;
    if (block) {
        int64_t of_block = (n * v->ci + channel / block * block), inside = channel % block;
        return (struct depth_tile){j->x + of_block * in + inside, j->dy + of_block * out + inside,
                                   block};
    }
    float *x = j->spare + omp_get_thread_num() * spare_floats(v), *dy = x + WIDTH * in;
    int64_t count = kernel_min(WIDTH, v->ci - channel);
    gather(count, in, j->x + (n * v->ci + channel) * in, x);
    gather(count, out, j->dy + (n * v->ci + channel) * out, dy);
    return (struct depth_tile){x, dy, WIDTH};
}

#define COLUMNS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6)

/* sum[k] += dy[o] * x[o * stride + k * dilation - pad] over a row of dy, for k < columns. */
static inline __attribute__((always_inline)) void meet_row(const int columns,
                                                           const struct kernel_conv *v,
                                                           const float *x, const float *dy,
                                                           int64_t step, vector *sum)
{
    const int64_t in = v->in[1], dilation = v->dilation[1], last = (columns - 1) * dilation;
    vector s[MOST], d, a;
    memcpy(s, sum, (size_t)columns * sizeof *s);
    for (int64_t o = 0; o < v->out[1]; o++) {
        const int64_t i = o * v->stride[1] - v->pad[1];
        memcpy(&d, dy + o * step, sizeof d);
        if (i >= 0 && i + last < in) {
#define COLUMN(k)                                                                                  \
    if (k < columns) {                                                                             \
        memcpy(&a, x + (i + k * dilation) * step, sizeof a);                                       \
        s[k] += d * a;                                                                             \
    }
            COLUMNS(COLUMN)
#undef COLUMN
        } else {
#define COLUMN(k)                                                                                  \
    if (k < columns && i + k * dilation >= 0 && i + k * dilation < in) {                           \
        memcpy(&a, x + (i + k * dilation) * step, sizeof a);                                       \
        s[k] += d * a;                                                                             \
    }
            COLUMNS(COLUMN)
#undef COLUMN
        }
    }
    memcpy(sum, s, (size_t)columns * sizeof *s);
}

static inline __attribute__((always_inline)) void meet_rows(const int columns,
                                                            const struct kernel_conv *v,
                                                            const struct depth_tile *t, int64_t o,
                                                            vector *sum)
{
    for (int64_t k = 0; k < v->k[0]; k++) {
        int64_t i = o * v->stride[0] + k * v->dilation[0] - v->pad[0];
        if (i >= 0 && i < v->in[0])
            meet_row(columns, v, t->x + i * v->in[1] * t->step, t->dy + o * v->out[1] * t->step,
                     t->step, sum + k * columns);
    }
}

/* Row o of dy with all rows of the filter. */
KERNEL_CLONES static void add_row(const struct kernel_conv *v, const struct depth_tile *t,
                                  int64_t o, float *sums)
{
    vector sum[MOST * MOST];
    size_t bytes = (size_t)(v->k[0] * v->k[1]) * sizeof *sum;
    memcpy(sum, sums, bytes);
    switch (v->k[1]) {
#define COLUMN(k)                                                                                  \
    case k + 1:                                                                                    \
        meet_rows(k + 1, v, t, o, sum);                                                            \
        break;
        COLUMNS(COLUMN)
#undef COLUMN
    default:
        break;
    }
    memcpy(sums, sum, bytes);
}

/* Adds the sums up and begins new ones. */
static void add_up(int64_t count, float *sums, double *totals)
{
    for (int64_t i = 0; i < count; i++) {
        totals[i] += (double)sums[i];
        sums[i] = 0.0f;
    }
}

static void depth_body(void *argument, int64_t first, int64_t last)
{
    const struct depth_job *j = argument;
    const struct kernel_conv *v = j->v;
    const int64_t taps = v->k[0] * v->k[1];
    for (int64_t item = first; item < last; item++) {
        float sums[MOST * MOST * WIDTH] = {0};
        double totals[MOST * MOST * WIDTH] = {0};
        int64_t terms = 0, channel = item * WIDTH;
        for (int64_t n = 0; n < v->n; n++) {
            struct depth_tile tile = find_tile(j, n, channel);
            for (int64_t o = 0; o < v->out[0]; o++) {
                add_row(v, &tile, o, sums);
                terms += v->out[1];
                if (terms < TERMS)
                    continue;
                add_up(taps * WIDTH, sums, totals);
                terms = 0;
            }
        }
        add_up(taps * WIDTH, sums, totals);
        for (int64_t c = 0; c < kernel_min(WIDTH, v->ci - channel); c++)
            for (int64_t t = 0; t < taps; t++)
                j->dw[(channel + c) * taps + t] = (float)totals[t * WIDTH + c];
    }
}

void kernel_conv_depth(const struct kernel_context *c, const struct kernel_conv *v, const float *x,
                       const float *dy, float *dw, void *workspace)
{
    struct depth_job job = {v, x, dy, dw, workspace};
    kernel_parallel(c, (v->ci + WIDTH - 1) / WIDTH,
                    v->n * v->out[0] * v->out[1] * v->k[0] * v->k[1] * WIDTH, depth_body, &job);
}
