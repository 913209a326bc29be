/* batch_norm.c - batch normalisation with what often follows it: adding a residual, relu.
 *
 * Sums are taken in double. One block of channels (blocked layout) or one channel (plain) is one
 * piece of work, so the order is fixed by the shape. Bytes moved: statistics read x; forward reads
 * x (and r), writes y; backward reads dy and x twice, writes dx. */
#include "kernel/internal.h"

#define LANES 16
#define ROOM (64 * LANES) /* elements of 16 bits converted at a time */

struct job {
    struct kernel_batch_norm p;
    const void *dy, *x, *r;
    const float *w, *b, *mean_in, *var_in;
    void *y, *dx;
    float *mean, *var, *dw, *db;
};

/* n elements of an operand from `at` on: where they are, or converted in `room`. */
static inline __attribute__((always_inline)) const float *fetch(const struct job *j, const void *p,
                                                                int64_t at, int64_t n, float *room)
{
    const uint16_t *low = p;
    if (j->p.dtype == KERNEL_F32)
        return (const float *)p + at;
    if (j->p.dtype == KERNEL_BF16)
        for (int64_t i = 0; i < n; i++)
            room[i] = kernel_from_bf16(low[at + i]);
    else
        for (int64_t i = 0; i < n; i++)
            room[i] = kernel_from_f16(low[at + i]);
    return room;
}

/* Where n results are made; store brings them to their place. */
static inline __attribute__((always_inline)) float *target(const struct job *j, void *p, int64_t at,
                                                           float *room)
{
    return j->p.dtype == KERNEL_F32 ? (float *)p + at : room;
}

static inline __attribute__((always_inline)) void store(const struct job *j, void *p, int64_t at,
                                                        int64_t n, const float *room)
{
    uint16_t *low = p;
    if (j->p.dtype == KERNEL_BF16)
        for (int64_t i = 0; i < n; i++)
            low[at + i] = kernel_to_bf16(room[i]);
    else if (j->p.dtype == KERNEL_F16)
        for (int64_t i = 0; i < n; i++)
            low[at + i] = kernel_to_f16(room[i]);
}

/* Elements handled together: a whole row, or as many as there is room for. */
static int64_t stride_of(const struct job *j, int64_t row)
{
    return j->p.dtype == KERNEL_F32 ? row : kernel_min(row, ROOM);
}

struct channel { /* constants of L channels */
    float mean[LANES], scale[LANES], shift[LANES];
};

static float scale_of(const struct job *j, int64_t ch)
{
    float r = (float)(1.0 / sqrt((double)j->var_in[ch] + (double)j->p.eps));
    return r * (j->w ? j->w[ch] : 1.0f);
}

static void constants(const struct job *j, int64_t first, int64_t count, struct channel *k)
{
    for (int64_t l = 0; l < count; l++) {
        k->mean[l] = j->mean_in[first + l];
        k->scale[l] = scale_of(j, first + l);
        k->shift[l] = j->b ? j->b[first + l] : 0.0f;
    }
}

/* The constants of one channel in all lanes. */
static void widen(struct channel *k)
{
    for (int l = 1; l < LANES; l++) {
        k->mean[l] = k->mean[0];
        k->scale[l] = k->scale[0];
        k->shift[l] = k->shift[0];
    }
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* Eight lanes at a time: the compiler's own vectors, since it does not find sums in double. */
typedef float lanes_f __attribute__((vector_size(32)));
typedef double lanes_d __attribute__((vector_size(64)));
typedef int32_t lanes_i __attribute__((vector_size(32)));
#define WIDE(v) __builtin_convertvector(v, lanes_d)

/* Adds to sum[l], second[l] over `count` places of L = 8 H lanes: of d = x - mean and d^2, or (with
 * dy) of g and g d, g = dy where the forward result was positive. The products are exact. */
static inline __attribute__((always_inline)) void sums(int64_t count, const int H, const float *x,
                                                       const float *dy, const struct channel *k,
                                                       bool has_relu, double *sum, double *second)
{
    lanes_d a[2] = {{0}}, b[2] = {{0}};
    lanes_f mean[2], scale[2], shift[2], v, g = {0};
    memcpy(mean, k->mean, sizeof mean);
    memcpy(scale, k->scale, sizeof scale);
    memcpy(shift, k->shift, sizeof shift);
    for (int64_t s = 0; s < count * H; s += H)
        for (int h = 0; h < H; h++) {
            memcpy(&v, x + (s + h) * 8, sizeof v);
            lanes_d d = WIDE(v) - WIDE(mean[h]);
            if (dy)
                memcpy(&g, dy + (s + h) * 8, sizeof g);
            if (has_relu) {
                lanes_f y;
                for (int l = 0; l < 8; l++)
                    y[l] = fmaf(v[l] - mean[h][l], scale[h][l], shift[h][l]);
                g = (lanes_f)((lanes_i)g & (y > 0.0f));
            }
            lanes_d wide = dy ? WIDE(g) : d;
            a[h] += wide;
            b[h] += wide * d;
        }
    for (int l = 0; l < 8 * H; l++) {
        sum[l] += a[l / 8][l % 8];
        second[l] += b[l / 8][l % 8];
    }
}

/* The same of one lane. */
static void sums_of_one(int64_t count, const float *x, const float *dy, const struct channel *k,
                        bool has_relu, double *sum, double *second)
{
    for (int64_t s = 0; s < count; s++) {
        double d = (double)x[s] - (double)k->mean[0], g = dy ? (double)dy[s] : d;
        if (has_relu && !(fmaf(x[s] - k->mean[0], k->scale[0], k->shift[0]) > 0.0f))
            g = 0.0;
        *sum += g;
        *second += g * d;
    }
}

/* All places of channels first .. first + L - 1. A plain channel (L = 1, its constants in all
 * lanes) is read as 16 lanes, the rest behind them singly. */
static inline __attribute__((always_inline)) void all_sums(const struct job *j, int64_t first,
                                                           const int L, const struct channel *k,
                                                           double *sum, double *second)
{
    const int64_t row = j->p.spatial * L, step = stride_of(j, row);
    const int width = L == 1 ? LANES : L;
    double lane[2][LANES] = {{0}};
    float room[2][ROOM];
    for (int64_t i = 0; i < j->p.n; i++)
        for (int64_t s = 0; s < row; s += step) {
            int64_t at = (i * j->p.channels + first) * j->p.spatial + s;
            int64_t n = kernel_min(step, row - s), count = n / width, rest = n - count * width;
            const float *x = fetch(j, j->x, at, n, room[0]);
            const float *dy = j->dy ? fetch(j, j->dy, at, n, room[1]) : NULL;
            bool has_relu = j->p.has_relu && dy;
            if (!dy)
                sums(count, width / 8, x, NULL, k, false, lane[0], lane[1]);
            else if (!has_relu)
                sums(count, width / 8, x, dy, k, false, lane[0], lane[1]);
            else
                sums(count, width / 8, x, dy, k, true, lane[0], lane[1]);
            if (rest)
                sums_of_one(rest, x + n - rest, dy ? dy + n - rest : NULL, k, has_relu, lane[0],
                            lane[1]);
        }
    for (int l = 0; l < width; l++) {
        sum[L == 1 ? 0 : l] += lane[0][l];
        second[L == 1 ? 0 : l] += lane[1][l];
    }
}

/* Around the first value of a channel, so that little cancels. */
static inline __attribute__((always_inline)) void stats(const struct job *j, int64_t first,
                                                        const int L)
{
    struct channel k = {.mean = {0}};
    double sum[LANES] = {0}, second[LANES] = {0}, count = (double)(j->p.n * j->p.spatial);
    float room[LANES];
    const float *x = fetch(j, j->x, first * j->p.spatial, L, room);
    for (int l = 0; l < L; l++)
        k.mean[l] = x[l];
    if (L == 1)
        widen(&k);
    all_sums(j, first, L, &k, sum, second);
    for (int l = 0; l < L; l++) {
        double mean = sum[l] / count;
        if (j->mean)
            j->mean[first + l] = (float)((double)k.mean[l] + mean);
        if (j->var)
            j->var[first + l] = (float)fmax(0.0, second[l] / count - mean * mean);
    }
}

/* A body that does piece i with L lanes, a constant of the compiler in each of its calls. */
#define BY_BLOCK(name, call)                                                                       \
    KERNEL_CLONES static void name(void *argument, int64_t first, int64_t last)                    \
    {                                                                                              \
        const struct job *j = argument;                                                            \
        for (int64_t i = first; i < last; i++)                                                     \
            if (j->p.block == 16) {                                                                \
                enum { L = 16 };                                                                   \
                call;                                                                              \
            } else if (j->p.block == 8) {                                                          \
                enum { L = 8 };                                                                    \
                call;                                                                              \
            } else {                                                                               \
                enum { L = 1 };                                                                    \
                call;                                                                              \
            }                                                                                      \
    }

BY_BLOCK(stats_body, stats(j, i *L, L))

static int64_t pieces(const struct kernel_batch_norm *p)
{
    return p->block ? p->channels / p->block : p->channels;
}

static int64_t work(const struct kernel_batch_norm *p)
{
    return p->n * p->spatial * (p->block ? p->block : 1);
}

KERNEL_CPU(batch_norm_stats)
{
    const struct kernel_batch_norm *p = desc;
    struct job job = {.p = *p, .x = args->in[0], .mean = args->out[0], .var = args->out[1]};
    return kernel_parallel(c, pieces(p), work(p), stats_body, &job);
}

/* ---- forward -------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void apply(int64_t count, const int L, const float *x,
                                                        const float *r, const struct channel *k,
                                                        bool has_relu, float *y)
{
    float mean[LANES], scale[LANES], shift[LANES];
    for (int l = 0; l < L; l++) {
        mean[l] = k->mean[l];
        scale[l] = k->scale[l];
        shift[l] = k->shift[l];
    }
    for (int64_t s = 0; s < count; s++)
        for (int l = 0; l < L; l++) {
            float t = fmaf(x[s * L + l] - mean[l], scale[l], shift[l]);
            if (r)
                t = t + r[s * L + l];
            if (has_relu)
                t = t < 0.0f ? 0.0f : t;
            y[s * L + l] = t;
        }
}

/* One row of one image: L lanes with their own constants, or (is_plain) all with those of one
 * channel. */
static inline __attribute__((always_inline)) void apply_row(const struct job *j, int64_t index,
                                                            const int L, bool is_plain)
{
    struct channel k;
    float room[3][ROOM];
    const int wide = is_plain ? 1 : L, width = is_plain ? LANES : L;
    const int64_t row = j->p.spatial * wide, step = stride_of(j, row);
    constants(j, index % pieces(&j->p) * wide, wide, &k);
    if (is_plain)
        widen(&k);
    for (int64_t s = 0; s < row; s += step) {
        int64_t at = index * row + s, n = kernel_min(step, row - s), whole = n / width;
        const float *x = fetch(j, j->x, at, n, room[0]);
        const float *r = j->r ? fetch(j, j->r, at, n, room[1]) : NULL;
        float *y = target(j, j->y, at, room[2]);
        if (j->p.has_relu && r)
            apply(whole, width, x, r, &k, true, y);
        else if (j->p.has_relu)
            apply(whole, width, x, NULL, &k, true, y);
        else if (r)
            apply(whole, width, x, r, &k, false, y);
        else
            apply(whole, width, x, NULL, &k, false, y);
        whole *= width;
        if (whole < n)
            apply(n - whole, 1, x + whole, r ? r + whole : NULL, &k, j->p.has_relu, y + whole);
        store(j, j->y, at, n, y);
    }
}

BY_BLOCK(apply_body, apply_row(j, i, L, L == 1))

KERNEL_CPU(batch_norm)
{
    const struct kernel_batch_norm *p = desc;
    struct job job = {.p = *p,
                      .x = args->in[0],
                      .w = args->in[1],
                      .b = args->in[2],
                      .mean_in = args->in[3],
                      .var_in = args->in[4],
                      .r = p->has_add ? args->in[5] : NULL,
                      .y = args->out[0]};
    return kernel_parallel(c, p->n * pieces(p), work(p) / kernel_max(1, p->n), apply_body, &job);
}

/* ---- backward ------------------------------------------------------------------------------- */

struct slopes { /* dx = a (g - b - (x - mean) d) */
    float a[LANES], b[LANES], d[LANES];
};

static inline __attribute__((always_inline)) void
grad_places(int64_t count, const int L, const float *x, const float *dy, const struct channel *k,
            const struct slopes *t, bool has_relu, float *dx)
{
    float mean[LANES], scale[LANES], shift[LANES], a[LANES], b[LANES], d[LANES];
    for (int l = 0; l < L; l++) {
        mean[l] = k->mean[l];
        scale[l] = k->scale[l];
        shift[l] = k->shift[l];
        a[l] = t->a[l];
        b[l] = t->b[l];
        d[l] = t->d[l];
    }
    KERNEL_EACH for (int64_t s = 0; s < count; s++) KERNEL_EACH for (int l = 0; l < L; l++)
    {
        float v = x[s * L + l] - mean[l], g = dy[s * L + l];
        if (has_relu)
            g = fmaf(v, scale[l], shift[l]) > 0.0f ? g : 0.0f;
        dx[s * L + l] = a[l] * fmaf(-v, d[l], g - b[l]);
    }
}

static inline __attribute__((always_inline)) void grad_rows(const struct job *j, int64_t first,
                                                            const int L, const struct channel *k,
                                                            const struct slopes *t)
{
    float room[3][ROOM];
    const int width = L == 1 ? LANES : L;
    const int64_t row = j->p.spatial * L, step = stride_of(j, row);
    for (int64_t i = 0; i < j->p.n; i++)
        for (int64_t s = 0; s < row; s += step) {
            int64_t at = (i * j->p.channels + first) * j->p.spatial + s;
            int64_t n = kernel_min(step, row - s), whole = n / width;
            const float *x = fetch(j, j->x, at, n, room[0]);
            const float *dy = fetch(j, j->dy, at, n, room[1]);
            float *dx = target(j, j->dx, at, room[2]);
            if (j->p.has_relu)
                grad_places(whole, width, x, dy, k, t, true, dx);
            else
                grad_places(whole, width, x, dy, k, t, false, dx);
            whole *= width;
            if (whole < n)
                grad_places(n - whole, 1, x + whole, dy + whole, k, t, j->p.has_relu, dx + whole);
            store(j, j->dx, at, n, dx);
        }
}

static inline __attribute__((always_inline)) void grad(const struct job *j, int64_t first,
                                                       const int L)
{
    struct channel k;
    struct slopes t;
    double sum[LANES] = {0}, second[LANES] = {0}, count = (double)(j->p.n * j->p.spatial);
    constants(j, first, L, &k);
    if (L == 1)
        widen(&k);
    all_sums(j, first, L, &k, sum, second);
    for (int l = 0; l < L; l++) {
        double invstd = 1.0 / sqrt((double)j->var_in[first + l] + (double)j->p.eps);
        if (j->dw)
            j->dw[first + l] = (float)(second[l] * invstd);
        if (j->db)
            j->db[first + l] = (float)sum[l];
        t.a[l] = k.scale[l];
        t.b[l] = (float)(sum[l] / count);
        t.d[l] = (float)(second[l] * invstd * invstd / count);
    }
    if (!j->dx)
        return;
    for (int l = 1; L == 1 && l < LANES; l++) {
        t.a[l] = t.a[0];
        t.b[l] = t.b[0];
        t.d[l] = t.d[0];
    }
    grad_rows(j, first, L, &k, &t);
}

BY_BLOCK(grad_body, grad(j, i *L, L))

KERNEL_CPU(batch_norm_grad)
{
    const struct kernel_batch_norm *p = desc;
    struct job job = {.p = *p,
                      .dy = args->in[0],
                      .x = args->in[1],
                      .w = args->in[2],
                      .b = args->in[3],
                      .mean_in = args->in[4],
                      .var_in = args->in[5],
                      .dx = args->out[0],
                      .dw = args->out[1],
                      .db = args->out[2]};
    return kernel_parallel(c, pieces(p), work(p), grad_body, &job);
}

/* ---- running statistics ---------------------------------------------------------------------- */

KERNEL_CPU(batch_norm_update)
{
    const struct kernel_batch_norm_update_desc *d = desc;
    float *mean = args->out[0], *var = args->out[1];
    const float *new_mean = args->in[2], *new_var = args->in[3];
    const float keep = (float)(1.0 - (double)d->momentum), take = d->momentum;
    const float take_var = (float)((double)d->momentum * d->unbias);
    for (int64_t k = 0; k < d->channels; k++) {
        mean[k] = keep * mean[k] + take * new_mean[k];
        var[k] = keep * var[k] + take_var * new_var[k];
    }
    if (args->out[2])
        ++*(int64_t *)args->out[2];
    return EBB_OK;
}
