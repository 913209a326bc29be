/* conv_small.c - convolutions of little work, with sums in double.
 *
 * Products of floats are exact in double, so a result is the exact one rounded once (but for sums
 * that cancel to nearly nothing): the same bits on every processor and at any thread count, which
 * the library's kernels do not give. Where there is so little to do, time is not the question; the
 * gradients of small nets are, because optimizers that divide by a gradient's size make steps out
 * of the rounding errors of small ones.
 *
 * Operands are brought into doubles with channels innermost, padded to whole vectors. Then all
 * three passes are the same: rows of numbers times vectors of channels. */
#include "kernel/conv_small.h"

#include "kernel/internal.h"

#define SMALL_MACS (5 << 18)     /* multiplications, all in all: a fraction of a millisecond */
#define SMALL_ELEMENTS (1 << 16) /* of each operand: half a megabyte of doubles */
#define WIDTH 8                  /* channels of a vector */
#define ROWS 4                   /* places (or channels of x) that share a vector */
#define BLOCKS 8                 /* vectors of results at once */

typedef double vector __attribute__((vector_size(WIDTH * sizeof(double))));

struct small { /* the description with three dimensions, always */
    int64_t n, ci, co, in[3], out[3], k[3], stride[3], dilation[3], pad[3];
    int64_t in_size, out_size, taps;
    bool has_relu;
    const float *bias;
    float *result;
    /* In the workspace: x [n, in, ci], y [n, out, co], weights [taps, from, to], a row of zeros;
     * the last dimension is padded. */
    double *x, *y, *w, *zeros;
};

static int64_t pad_up(int64_t channels)
{
    return (channels + WIDTH - 1) / WIDTH * WIDTH;
}

static struct small widen(const struct kernel_conv *v)
{
    struct small s = {.n = v->n, .ci = v->ci, .co = v->co, .in_size = 1, .out_size = 1, .taps = 1};
    for (int d = 0, lead = 3 - v->nd; d < 3; d++) {
        bool is_there = d >= lead;
        s.in[d] = is_there ? v->in[d - lead] : 1;
        s.out[d] = is_there ? v->out[d - lead] : 1;
        s.k[d] = is_there ? v->k[d - lead] : 1;
        s.stride[d] = is_there ? v->stride[d - lead] : 1;
        s.dilation[d] = is_there ? v->dilation[d - lead] : 1;
        s.pad[d] = is_there ? v->pad[d - lead] : 0;
        s.in_size *= s.in[d];
        s.out_size *= s.out[d];
        s.taps *= s.k[d];
    }
    return s;
}

bool kernel_conv_is_small(const struct kernel_conv *v)
{
    double x = (double)v->n * (double)v->ci, y = (double)v->n * (double)v->co;
    double w = (double)v->ci * (double)v->co;
    for (int d = 0; d < v->nd; d++) {
        x *= (double)v->in[d];
        y *= (double)v->out[d];
        w *= (double)v->k[d];
    }
    double macs = v->co ? w * (y / (double)v->co) : 0;
    return v->groups == 1 && v->dtype == KERNEL_F32 && macs <= SMALL_MACS && x <= SMALL_ELEMENTS &&
           y <= SMALL_ELEMENTS && w <= SMALL_ELEMENTS;
}

/* Sets the pointers into the workspace; returns its bytes. */
static size_t place(struct small *s, enum kernel_conv_pass pass, double *workspace)
{
    bool is_forward = pass == KERNEL_CONV_FORWARD, is_data = pass == KERNEL_CONV_DATA;
    int64_t ci = pad_up(s->ci), co = pad_up(s->co);
    int64_t x = is_data ? 0 : s->n * s->in_size * ci, y = is_forward ? 0 : s->n * s->out_size * co;
    int64_t w = is_forward ? s->taps * s->ci * co : is_data ? s->taps * s->co * ci : 0;
    if (workspace) {
        s->x = workspace;
        s->y = s->x + x;
        s->w = s->y + y;
        s->zeros = s->w + w;
    }
    return (size_t)(x + y + w + kernel_max(ci, co)) * sizeof(double);
}

size_t kernel_conv_small_workspace(const struct kernel_conv *conv, enum kernel_conv_pass pass)
{
    struct small s = widen(conv);
    return place(&s, pass, NULL);
}

/* ---- operands ------------------------------------------------------------------------------- */

/* [outer, channels, size] with these strides -> [outer, size, channels padded with zeros] */
static void channels_last(int64_t outer, int64_t channels, int64_t size, const float *from,
                          int64_t outer_stride, int64_t channel_stride, int64_t stride, double *to)
{
    int64_t padded = pad_up(channels);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < size; i++, to += padded)
            for (int64_t c = 0; c < padded; c++)
                to[c] = c < channels
                            ? (double)from[o * outer_stride + c * channel_stride + i * stride]
                            : 0.0;
}

static void load(const struct small *s, enum kernel_conv_pass pass, const float *a, const float *b)
{
    memset(s->zeros, 0, (size_t)kernel_max(pad_up(s->ci), pad_up(s->co)) * sizeof(double));
    const float *x = a, *y = pass == KERNEL_CONV_DATA ? a : b;
    if (pass != KERNEL_CONV_DATA)
        channels_last(s->n, s->ci, s->in_size, x, s->ci * s->in_size, s->in_size, 1, s->x);
    if (pass != KERNEL_CONV_FORWARD)
        channels_last(s->n, s->co, s->out_size, y, s->co * s->out_size, s->out_size, 1, s->y);
    int64_t w_co = s->ci * s->taps;
    if (pass == KERNEL_CONV_FORWARD)
        channels_last(s->taps, s->co, s->ci, b, 1, w_co, s->taps, s->w);
    if (pass == KERNEL_CONV_DATA)
        channels_last(s->taps, s->ci, s->co, b, 1, s->taps, w_co, s->w);
}

/* ---- the three passes ----------------------------------------------------------------------- */

/* sum[r] += a[r][k * a_step] * (the vector at b + k * b_step), over k */
KERNEL_CLONES static void multiply(int64_t count, const double *const *a, int64_t a_step,
                                   const double *b, int64_t b_step, double *sum)
{
    vector s[ROWS], v;
    const double *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3];
    memcpy(s, sum, sizeof s);
    for (int64_t k = 0; k < count; k++, b += b_step) {
        memcpy(&v, b, sizeof v);
        s[0] += a0[k * a_step] * v;
        s[1] += a1[k * a_step] * v;
        s[2] += a2[k * a_step] * v;
        s[3] += a3[k * a_step] * v;
    }
    memcpy(sum, s, sizeof s);
}

static void tap_place(const struct small *s, int64_t tap, int64_t *at)
{
    at[0] = tap / (s->k[1] * s->k[2]);
    at[1] = tap / s->k[2] % s->k[1];
    at[2] = tap % s->k[2];
}

struct spot { /* a place of the result: sample, and where tap 0 meets the other tensor */
    int64_t n, at[3];
};

static struct spot find_spot(const struct small *s, bool is_forward, int64_t place)
{
    const int64_t *dims = is_forward ? s->out : s->in;
    struct spot p = {
        .n = place / (dims[0] * dims[1] * dims[2]),
        .at = {place / (dims[1] * dims[2]) % dims[0], place / dims[2] % dims[1], place % dims[2]}};
    for (int d = 0; d < 3; d++)
        p.at[d] = is_forward ? p.at[d] * s->stride[d] - s->pad[d] : p.at[d] + s->pad[d];
    return p;
}

/* The channels that a tap meets there; zeros outside. */
static const double *meet(const struct small *s, bool is_forward, const struct spot *p,
                          const int64_t *tap)
{
    const int64_t *dims = is_forward ? s->in : s->out;
    int64_t index = p->n;
    for (int d = 0; d < 3; d++) {
        int64_t shift = tap[d] * s->dilation[d], at = p->at[d] + (is_forward ? shift : -shift);
        if (!is_forward && s->stride[d] > 1 && at > 0) {
            if (at % s->stride[d])
                return s->zeros;
            at /= s->stride[d];
        }
        if (at < 0 || at >= dims[d])
            return s->zeros;
        index = index * dims[d] + at;
    }
    return is_forward ? s->x + index * pad_up(s->ci) : s->y + index * pad_up(s->co);
}

/* Results of ROWS places, channels first .. first + BLOCKS * WIDTH - 1. */
static void map_places(const struct small *s, bool is_forward, int64_t place, int64_t first)
{
    int64_t from = is_forward ? s->ci : s->co, to = is_forward ? s->co : s->ci, row = pad_up(to);
    int64_t size = is_forward ? s->out_size : s->in_size, places = s->n * size;
    int64_t blocks = kernel_min(BLOCKS, (row - first) / WIDTH), tap[3] = {0, 0, 0};
    double sum[BLOCKS * ROWS * WIDTH];
    struct spot spots[ROWS];
    memset(sum, 0, (size_t)(blocks * ROWS * WIDTH) * sizeof *sum);
    for (int64_t r = 0; r < ROWS; r++)
        spots[r] = find_spot(s, is_forward, kernel_min(place + r, places - 1));
    for (int64_t t = 0; t < s->taps; t++) {
        const double *a[ROWS];
        for (int64_t r = 0; r < ROWS; r++)
            a[r] = meet(s, is_forward, &spots[r], tap);
        for (int64_t b = 0; b < blocks; b++)
            multiply(from, a, 1, s->w + t * from * row + first + b * WIDTH, row,
                     sum + b * ROWS * WIDTH);
        for (int d = 2; d >= 0 && ++tap[d] == s->k[d]; d--)
            tap[d] = 0;
    }
    for (int64_t r = 0; r < ROWS && place + r < places; r++)
        for (int64_t c = first; c < kernel_min(to, first + blocks * WIDTH); c++) {
            double v = sum[((c - first) / WIDTH * ROWS + r) * WIDTH + (c - first) % WIDTH];
            v += s->bias ? (double)s->bias[c] : 0.0;
            s->result[((place + r) / size * to + c) * size + (place + r) % size] =
                (float)(s->has_relu && v < 0 ? 0.0 : v);
        }
}

static void map_body(const struct small *s, bool is_forward, int64_t begin, int64_t end)
{
    int64_t row = pad_up(is_forward ? s->co : s->ci);
    for (int64_t item = begin; item < end; item++)
        for (int64_t first = 0; first < row; first += BLOCKS * WIDTH)
            map_places(s, is_forward, item * ROWS, first);
}

static void forward_body(void *argument, int64_t begin, int64_t end)
{
    map_body(argument, true, begin, end);
}

static void data_body(void *argument, int64_t begin, int64_t end)
{
    map_body(argument, false, begin, end);
}

/* Places of y along dimension d, first <= o < last, whose place in x at this tap is inside. */
static void reach(const struct small *s, int d, int64_t tap, int64_t *first, int64_t *last)
{
    int64_t from = s->pad[d] - tap * s->dilation[d], to = from + s->in[d], step = s->stride[d];
    *first = from > 0 ? (from + step - 1) / step : 0; /* from <= o * step < to */
    *last = to > 0 ? kernel_min((to + step - 1) / step, s->out[d]) : 0;
}

/* Items: taps, groups of ROWS channels of x; every vector of channels of y. */
static void weights_body(void *argument, int64_t begin, int64_t end)
{
    const struct small *s = argument;
    int64_t ci = pad_up(s->ci), co = pad_up(s->co), groups = (s->ci + ROWS - 1) / ROWS;
    for (int64_t item = begin; item < end; item++) {
        int64_t t = item / groups, channel = item % groups * ROWS, tap[3], first[3], last[3];
        tap_place(s, t, tap);
        for (int d = 0; d < 3; d++)
            reach(s, d, tap[d], &first[d], &last[d]);
        for (int64_t b = 0; b < co; b += WIDTH) {
            double sum[ROWS * WIDTH] = {0};
            int64_t rows = (last[0] - first[0]) * (last[1] - first[1]);
            bool is_empty = last[0] <= first[0] || last[1] <= first[1] || last[2] <= first[2];
            for (int64_t i = 0; !is_empty && i < s->n * rows; i++) {
                int64_t n = i / rows, p = first[0] + i % rows / (last[1] - first[1]);
                int64_t q = first[1] + i % rows % (last[1] - first[1]);
                int64_t x0 = p * s->stride[0] + tap[0] * s->dilation[0] - s->pad[0];
                int64_t x1 = q * s->stride[1] + tap[1] * s->dilation[1] - s->pad[1];
                int64_t x2 = first[2] * s->stride[2] + tap[2] * s->dilation[2] - s->pad[2];
                const double *x =
                    s->x + channel + ci * (((n * s->in[0] + x0) * s->in[1] + x1) * s->in[2] + x2);
                const double *y =
                    s->y + b + co * (((n * s->out[0] + p) * s->out[1] + q) * s->out[2] + first[2]);
                const double *const a[ROWS] = {x, x + 1, x + 2, x + 3};
                multiply(last[2] - first[2], a, s->stride[2] * ci, y, co, sum);
            }
            for (int64_t r = 0; r < kernel_min(ROWS, s->ci - channel); r++)
                for (int64_t c = b; c < kernel_min(s->co, b + WIDTH); c++)
                    s->result[(c * s->ci + channel + r) * s->taps + t] =
                        (float)sum[r * WIDTH + c - b];
        }
    }
}

void kernel_conv_small(const struct kernel_context *c, const struct kernel_conv *conv,
                       enum kernel_conv_pass pass, const float *a, const float *b,
                       const float *bias, float *out, void *workspace)
{
    struct small s = widen(conv);
    place(&s, pass, workspace);
    s.bias = pass == KERNEL_CONV_FORWARD && conv->has_bias ? bias : NULL;
    s.has_relu = pass == KERNEL_CONV_FORWARD && conv->has_relu;
    s.result = out;
    load(&s, pass, a, b);
    int64_t work = ROWS * s.taps * s.ci * s.co;
    if (pass == KERNEL_CONV_FORWARD)
        kernel_parallel(c, (s.n * s.out_size + ROWS - 1) / ROWS, work, forward_body, &s);
    else if (pass == KERNEL_CONV_DATA)
        kernel_parallel(c, (s.n * s.in_size + ROWS - 1) / ROWS, work, data_body, &s);
    else
        kernel_parallel(c, s.taps * ((s.ci + ROWS - 1) / ROWS), ROWS * s.co * s.n * s.out_size,
                        weights_body, &s);
}
