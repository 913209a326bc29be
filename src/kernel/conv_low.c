/* conv_low.c - large convolutions of numbers of 16 bits that the library does not compute.
 *
 * They are computed in pieces: some samples, or a band of rows of one, by some channels of the result.
 * What a piece reads is converted, it is computed in float32 and stored, so that no operand is there a
 * second time with four bytes an element. Results and their gradients by the input are sums over all
 * of their terms at once, as where operands are converted whole; a gradient of weights adds its pieces
 * in order. How large pieces are depends on shapes alone. */
#include "kernel/conv_low.h"

#include <math.h>

#include "kernel/context.h"
#include "kernel/internal.h"

/* Where operands have no more floats they are converted whole (ops/low.c). */
#define LEAST_FLOATS (1 << 19)
/* A piece has no more than two fifths of the floats of the operands, nor than so many. */
#define MOST_FLOATS (INT64_C(1) << 24)
#define PIECE 16384.0     /* what one costs beside, as numbers moved */
#define CHANNELS 16       /* pieces begin at whole blocks of any layout */
#define LEAST_CHANNELS 64 /* of a piece: with fewer the library is slow */
#define LEAST_ROWS 8

struct band { /* rows of x and of y that belong together, and the zeros above x */
    int64_t x, x_rows, y, y_rows, pad;
};

struct pieces {
    const struct kernel_conv *v;
    enum kernel_conv_pass pass;
    int64_t units;                     /* groups, or channels of the result if there is one group */
    int64_t samples, bands, unit_part; /* samples of a piece; bands of rows; units of a piece */
    int64_t sample_parts, unit_parts;  /* how many */
    bool is_by_unit;                   /* all samples of some units, then the next ones */
    size_t x, y, w;                    /* bytes of the parts of the workspace */
};

struct piece {
    struct kernel_conv conv;
    struct band band;
    int64_t sample, unit; /* the first */
};

static int64_t beyond(const struct kernel_conv *v) /* rows that a filter reaches beyond its first */
{
    return v->dilation[0] * (v->k[0] - 1);
}

/* The rest of the picture, behind its rows. */
static int64_t behind(const struct kernel_conv *v, const int64_t *dims)
{
    return (v->nd > 1 ? dims[1] : 1) * (v->nd > 2 ? dims[2] : 1);
}

static int64_t taps_of(const struct kernel_conv *v)
{
    return v->k[0] * behind(v, v->k);
}

static bool is_grouped(const struct pieces *p)
{
    return p->v->groups > 1;
}

static int64_t x_channels(const struct pieces *p, int64_t units)
{
    return is_grouped(p)                 ? units * (p->v->ci / p->v->groups)
           : p->pass == KERNEL_CONV_DATA ? units
                                         : p->v->ci;
}

static int64_t y_channels(const struct pieces *p, int64_t units)
{
    return is_grouped(p)                 ? units * (p->v->co / p->v->groups)
           : p->pass == KERNEL_CONV_DATA ? p->v->co
                                         : units;
}

/* Where band k of the result begins; of a gradient by x where a step of the filter does. */
static int64_t band_begin(const struct pieces *p, int64_t k)
{
    const struct kernel_conv *v = p->v;
    if (p->pass != KERNEL_CONV_DATA)
        return v->out[0] * k / p->bands;
    int64_t at = v->in[0] * k / p->bands;
    return k == 0 || k == p->bands ? at : at - (at + v->pad[0]) % v->stride[0];
}

static struct band band_of(const struct pieces *p, int64_t k)
{
    const struct kernel_conv *v = p->v;
    int64_t first = band_begin(p, k), last = band_begin(p, k + 1), stride = v->stride[0];
    if (p->bands == 1)
        return (struct band){0, v->in[0], 0, v->out[0], v->pad[0]};
    if (p->pass == KERNEL_CONV_DATA) {
        int64_t least = first + v->pad[0] - beyond(v);
        int64_t y = least > 0 ? (least + stride - 1) / stride : 0;
        int64_t end = kernel_min(v->out[0], (last - 1 + v->pad[0]) / stride + 1);
        return (struct band){first, last - first, y, end - y, first + v->pad[0] - y * stride};
    }
    int64_t at = first * stride - v->pad[0], x = kernel_max(0, at);
    int64_t end = kernel_min(v->in[0], (last - 1) * stride - v->pad[0] + beyond(v) + 1);
    return (struct band){x, end - x, first, last - first, x - at};
}

/* Floats of x, y and w of the largest piece. A gradient of weights that is one piece is made in place. */
static void rooms_of(const struct pieces *p, int64_t floats[3])
{
    const struct kernel_conv *v = p->v;
    int64_t in = behind(v, v->in), out = behind(v, v->out);
    int64_t x = x_channels(p, p->unit_part), y = y_channels(p, p->unit_part);
    floats[0] = floats[1] = 0;
    for (int64_t k = 0; k < p->bands; k++) {
        struct band b = band_of(p, k);
        floats[0] = kernel_max(floats[0], p->samples * x * b.x_rows * in);
        floats[1] = kernel_max(floats[1], p->samples * y * b.y_rows * out);
    }
    floats[2] = y * (is_grouped(p) ? v->ci / v->groups : x) * taps_of(v);
}

/* May rows be cut in so many bands? */
static bool may_bands(const struct pieces *p, int64_t bands)
{
    const struct kernel_conv *v = p->v;
    int64_t rows = p->pass == KERNEL_CONV_DATA ? v->in[0] : v->out[0];
    int64_t least = kernel_max(LEAST_ROWS, kernel_max(2 * beyond(v), 4 * v->stride[0]));
    return v->pad[0] <= beyond(v) && rows / bands >= least;
}

/* Numbers that are moved beside computing: operands converted, weights that the library brings into an
 * order of its own for every piece, gradients of weights that are added. */
static double moved(struct pieces *p, const int64_t all[3])
{
    double x = (double)all[p->pass == KERNEL_CONV_DATA], w = (double)all[2];
    double places = (double)(p->sample_parts * p->bands), units = (double)p->unit_parts;
    double again = is_grouped(p) ? 1 : units; /* the same x for all units */
    p->is_by_unit = false;
    if (p->pass == KERNEL_CONV_WEIGHTS)
        return PIECE * places * units + x * (1 + 0.5 * again) + 3 * w * places;
    double by_unit = w + (places > 1 ? x * again : x);
    double by_place = x + (units > 1 ? w * places : w);
    p->is_by_unit = is_grouped(p) || by_unit < by_place;
    return PIECE * places * units + (p->is_by_unit ? by_unit : by_place) + w * places +
           0.5 * x * again;
}

/* The most samples, or else the fewest bands of one, that keep to `most`. */
static bool fit_places(struct pieces *p, int64_t most)
{
    int64_t floats[3];
    p->samples = p->bands = 1;
    rooms_of(p, floats);
    int64_t left = most - 2 * floats[2], sample = floats[0] + floats[1];
    for (; sample > left && may_bands(p, 2 * p->bands); sample = floats[0] + floats[1]) {
        p->bands *= 2;
        rooms_of(p, floats);
    }
    p->sample_parts = p->v->n;
    if (p->bands == 1 && sample <= left) {
        int64_t samples = kernel_min(p->v->n, left / sample);
        p->sample_parts = (p->v->n + samples - 1) / samples;
        p->samples = (p->v->n + p->sample_parts - 1) / p->sample_parts;
        p->sample_parts = (p->v->n + p->samples - 1) / p->samples;
    }
    return sample <= left;
}

static struct pieces pieces_of(const struct kernel_conv *v, enum kernel_conv_pass pass)
{
    struct pieces p = {.v = v, .pass = pass, .samples = v->n, .bands = 1}, best = p;
    int64_t all[3], floats[3], least = v->groups > 1 ? CHANNELS : LEAST_CHANNELS;
    double best_cost = INFINITY;
    p.units = p.unit_part = v->groups > 1 ? v->groups : pass == KERNEL_CONV_DATA ? v->ci : v->co;
    rooms_of(&p, all);
    int64_t sum = all[0] + all[1] + all[2], most = kernel_min(MOST_FLOATS, sum / 5 * 2);
    if (v->is_winograd) /* bands would lose it, and it takes more room than what is here beyond */
        most = kernel_max(most, kernel_min(MOST_FLOATS, (all[0] + all[1]) / v->n * (v->n / 2)) +
                                    2 * all[2]);
    for (bool is_less = true; is_less;) {
        bool is_fit = fit_places(&p, most);
        p.unit_parts = (p.units + p.unit_part - 1) / p.unit_part;
        double cost = moved(&p, all) + (is_fit ? 0 : 1e30);
        if (cost <= best_cost) {
            best = p;
            best_cost = cost;
        }
        is_less = p.unit_part > least;
        p.unit_part = kernel_max(least, (p.unit_part / 2 + CHANNELS - 1) / CHANNELS * CHANNELS);
    }
    rooms_of(&best, floats);
    if (pass == KERNEL_CONV_WEIGHTS && best.sample_parts * best.bands == 1)
        floats[2] = 0;
    best.x = kernel_align((size_t)floats[0] * sizeof(float));
    best.y = kernel_align((size_t)floats[1] * sizeof(float));
    best.w = kernel_align((size_t)floats[2] * sizeof(float));
    return best;
}

/* Piece `place` (samples, then bands of them) of units `unit`. */
static struct piece piece_of(const struct pieces *p, int64_t place, int64_t unit)
{
    const struct kernel_conv *v = p->v;
    struct piece q = {.conv = *v,
                      .band = band_of(p, place % p->bands),
                      .sample = place / p->bands * p->samples,
                      .unit = unit * p->unit_part};
    int64_t units = kernel_min(p->unit_part, p->units - q.unit);
    q.conv.dtype = KERNEL_F32;
    q.conv.n = kernel_min(p->samples, v->n - q.sample);
    q.conv.ci = x_channels(p, units);
    q.conv.co = y_channels(p, units);
    q.conv.groups = is_grouped(p) ? units : 1;
    q.conv.in[0] = q.band.x_rows;
    q.conv.out[0] = q.band.y_rows;
    q.conv.pad[0] = q.band.pad;
    return q;
}

bool kernel_conv_is_low(const struct kernel_conv *v)
{
    bool is_taken = v->dtype == KERNEL_BF16 && kernel_has_bf16();
    double x = (double)v->n * (double)v->ci, y = (double)v->n * (double)v->co;
    double w = (double)v->ci * (double)(v->co / v->groups);
    for (int d = 0; d < v->nd; d++) {
        x *= (double)v->in[d];
        y *= (double)v->out[d];
        w *= (double)v->k[d];
    }
    return v->dtype != KERNEL_F32 && !is_taken && x > 0 && y > 0 && w > 0 &&
           x + y + w > (double)LEAST_FLOATS;
}

void kernel_conv_low_first(const struct kernel_conv *conv, enum kernel_conv_pass pass,
                           struct kernel_conv *piece)
{
    struct pieces p = pieces_of(conv, pass);
    *piece = piece_of(&p, 0, 0).conv;
}

enum ebb_status kernel_conv_low_need(struct kernel_context *c, const struct kernel_conv *conv,
                                     enum kernel_conv_pass pass, size_t *bytes,
                                     struct ebb_error *err)
{
    struct pieces p = pieces_of(conv, pass);
    int64_t last = (p.sample_parts - 1) * p.bands; /* the last samples may be fewer */
    *bytes = 0;
    for (int64_t unit = 0; unit < p.unit_parts; unit += kernel_max(1, p.unit_parts - 1))
        for (int64_t place = 0; place < last + p.bands; place++) {
            struct piece q = piece_of(&p, place, unit);
            size_t inner = 0;
            if (place >= p.bands && place < last)
                continue;
            EBB_TRY(kernel_conv_prepare(c, &q.conv, pass, &inner, err));
            *bytes = inner > *bytes ? inner : *bytes;
        }
    *bytes += p.x + p.y + p.w;
    return EBB_OK;
}

/* ---- conversion ------------------------------------------------------------------------------ */

#define CHUNK 4096 /* numbers that are converted at once */

/* `outer` times `inner` runs of numbers lie apart at `far` and behind each other at `near`. */
struct runs {
    const void *from;
    void *to;
    int64_t at, outer, inner, outer_step, inner_step, length, chunks;
};

#define RUNS(name, from_type, to_type, from_at, to_at, value)                                      \
    KERNEL_CLONES static void name(void *argument, int64_t first, int64_t last)                    \
    {                                                                                              \
        const struct runs *r = argument;                                                           \
        for (int64_t i = first; i < last; i++) {                                                   \
            int64_t run = i / r->chunks, begin = i % r->chunks * CHUNK;                            \
            int64_t n = kernel_min(CHUNK, r->length - begin), near = run * r->length + begin;      \
            int64_t far =                                                                          \
                r->at + run / r->inner * r->outer_step + run % r->inner * r->inner_step + begin;   \
            const from_type *restrict x = (const from_type *)r->from + (from_at);                  \
            to_type *restrict y = (to_type *)r->to + (to_at);                                      \
            for (int64_t j = 0; j < n; j++)                                                        \
                y[j] = value;                                                                      \
        }                                                                                          \
    }
RUNS(from_bf16, uint16_t, float, far, near, kernel_from_bf16(x[j]))
RUNS(from_f16, uint16_t, float, far, near, kernel_from_f16(x[j]))
RUNS(to_bf16, float, uint16_t, near, far, kernel_to_bf16(x[j]))
RUNS(to_f16, float, uint16_t, near, far, kernel_to_f16(x[j]))
RUNS(add, float, float, near, far, y[j] + x[j])

static void move(const struct kernel_context *c, struct runs r, kernel_body body)
{
    if (r.inner > 1 && r.inner_step == r.length) {
        r.length *= r.inner;
        r.inner = 1;
    }
    if (r.inner == 1 && r.outer_step == r.length) {
        r.length *= r.outer;
        r.outer = 1;
    }
    r.chunks = (r.length + CHUNK - 1) / CHUNK;
    kernel_parallel(c, r.outer * r.inner * r.chunks, kernel_min(r.length, CHUNK), body, &r);
}

/* Where the x or y of a piece lies in the whole. */
static struct runs activation(const struct pieces *p, const struct piece *q, bool is_x)
{
    const struct kernel_conv *v = p->v;
    int64_t block = kernel_max(1, is_x ? v->x_block : v->y_block);
    int64_t begin = is_grouped(p) || is_x == (p->pass == KERNEL_CONV_DATA) ? q->unit : 0;
    int64_t rows = is_x ? v->in[0] : v->out[0], rest = block * behind(v, is_x ? v->in : v->out);
    int64_t first = begin ? (is_x ? x_channels(p, begin) : y_channels(p, begin)) / block : 0;
    int64_t channels = (is_x ? q->conv.ci : q->conv.co) / block;
    int64_t sample = (is_x ? v->ci : v->co) / block * rows * rest;
    return (struct runs){.at = q->sample * sample + first * rows * rest +
                               (is_x ? q->band.x : q->band.y) * rest,
                         .outer = q->conv.n,
                         .inner = channels,
                         .outer_step = sample,
                         .inner_step = rows * rest,
                         .length = (is_x ? q->band.x_rows : q->band.y_rows) * rest};
}

/* The same of its weights. */
static struct runs weights(const struct pieces *p, const struct piece *q)
{
    const struct kernel_conv *v = p->v;
    int64_t taps = taps_of(v), line = v->ci / v->groups * taps;
    if (!is_grouped(p) && p->pass == KERNEL_CONV_DATA)
        return (struct runs){.at = q->unit * taps,
                             .outer = v->co,
                             .inner = 1,
                             .outer_step = line,
                             .length = q->conv.ci * taps};
    return (struct runs){.at = (q->unit ? y_channels(p, q->unit) : 0) * line,
                         .outer = 1,
                         .inner = 1,
                         .length = q->conv.co * line};
}

/* ---- running --------------------------------------------------------------------------------- */

struct low_run {
    struct kernel_context *c;
    struct pieces p;
    const uint16_t *a, *b;
    const float *bias;
    void *out;
    float *x, *y, *w;
    void *inner;
    int64_t place, unit; /* of what lies in the rooms; -1: nothing does */
};

static void load(const struct low_run *r, const uint16_t *from, struct runs runs, float *to)
{
    runs.from = from;
    runs.to = to;
    move(r->c, runs, r->p.v->dtype == KERNEL_BF16 ? from_bf16 : from_f16);
}

static void store(const struct low_run *r, const float *from, struct runs runs)
{
    runs.from = from;
    runs.to = r->out;
    move(r->c, runs, r->p.v->dtype == KERNEL_BF16 ? to_bf16 : to_f16);
}

static enum ebb_status run_weights(struct low_run *r, const struct piece *q, int64_t place,
                                   struct ebb_error *err)
{
    struct runs runs = weights(&r->p, q);
    float *to = place == 0 ? (float *)r->out + runs.at : r->w;
    EBB_TRY(kernel_conv_run(r->c, &q->conv, r->p.pass, r->x, r->y, NULL, to, r->inner, err));
    if (place > 0) {
        runs.from = r->w;
        runs.to = r->out;
        move(r->c, runs, add);
    }
    return EBB_OK;
}

static enum ebb_status run_piece(struct low_run *r, int64_t place, int64_t unit,
                                 struct ebb_error *err)
{
    const struct pieces *p = &r->p;
    struct piece q = piece_of(p, place, unit);
    enum kernel_conv_pass pass = p->pass;
    bool is_other_place = r->place != place, is_other_unit = r->unit != unit;
    bool is_other = is_other_place || (is_other_unit && is_grouped(p));
    r->place = place;
    r->unit = unit;
    if (pass != KERNEL_CONV_DATA && is_other)
        load(r, r->a, activation(p, &q, true), r->x);
    if (pass == KERNEL_CONV_DATA && is_other)
        load(r, r->a, activation(p, &q, false), r->y);
    if (pass == KERNEL_CONV_WEIGHTS) {
        load(r, r->b, activation(p, &q, false), r->y);
        return run_weights(r, &q, place, err);
    }
    if (is_other_unit)
        load(r, r->b, weights(p, &q), r->w);
    bool is_forward = pass == KERNEL_CONV_FORWARD;
    float *from = is_forward ? r->x : r->y, *to = is_forward ? r->y : r->x;
    const float *bias = r->bias && q.unit ? r->bias + y_channels(p, q.unit) : r->bias;
    EBB_TRY(kernel_conv_run(r->c, &q.conv, pass, from, r->w, bias, to, r->inner, err));
    store(r, to, activation(p, &q, !is_forward));
    return EBB_OK;
}

enum ebb_status kernel_conv_low(struct kernel_context *c, const struct kernel_conv *conv,
                                enum kernel_conv_pass pass, const uint16_t *a, const uint16_t *b,
                                const float *bias, void *out, void *workspace,
                                struct ebb_error *err)
{
    struct low_run r = {.c = c,
                        .p = pieces_of(conv, pass),
                        .a = a,
                        .b = b,
                        .bias = bias,
                        .out = out,
                        .x = workspace,
                        .place = -1,
                        .unit = -1};
    int64_t places = r.p.sample_parts * r.p.bands, pieces = places * r.p.unit_parts;
    r.y = (float *)(void *)((char *)workspace + r.p.x);
    r.w = (float *)(void *)((char *)r.y + r.p.y);
    r.inner = (char *)r.w + r.p.w;
    for (int64_t i = 0; i < pieces; i++) {
        int64_t place = r.p.is_by_unit ? i % places : i / r.p.unit_parts;
        int64_t unit = r.p.is_by_unit ? i / places : i % r.p.unit_parts;
        EBB_TRY(run_piece(&r, place, unit, err));
    }
    return EBB_OK;
}
