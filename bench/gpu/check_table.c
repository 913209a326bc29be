/* check_table.c - every family of the CUDA table against the CPU's, on the same bytes.
 *
 *   check_table [CASES] [FAMILY...]    CASES per family and type (default 6); names as in kernel.h
 *
 * Operands are random, rounded to the type that is tried (F32, BF16, F16); the CPU works in F32. Results may differ by a
 * relative norm of 1e-5 in F32 and of a few roundings in the 16-bit types; updates, copies and what else only moves bits
 * must be equal. Every call runs twice into poisoned results: equal bits, or it says so. Exit 1 when anything fails. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/device.h"
#include "kernel/kernel.h"

enum kind { NUMBER, FLOAT, INDEX, BYTES, HIGH, REST }; /* FLOAT: F32 whatever type is tried */

struct operand {
    enum kind kind;
    int64_t count;
    double low, high; /* range of values */
    int over;         /* result: lies over input over - 1; 0: nowhere */
};

struct call {
    union kernel_desc d;
    struct operand in[KERNEL_PORTS], out[KERNEL_PORTS];
    int in_count, out_count;
    bool is_exact; /* the same bits as the CPU in F32 */
    double loose;  /* factor on the tolerance */
    bool has_no_f16, has_no_low;
};

static uint64_t state;

static uint64_t next(void)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t pick(int64_t low, int64_t high)
{
    return low + (int64_t)(next() % (uint64_t)(high - low + 1));
}

static double uniform(void)
{
    return (double)(next() >> 11) * 0x1p-53;
}

static int64_t one_of(const int64_t *list, size_t count)
{
    return list[next() % count];
}
#define ONE_OF(...)                                                                                \
    one_of((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* ---- builders: one per family; dtype is that of the call ------------------------------------------- */

static void add_in(struct call *c, enum kind kind, int64_t count, double low, double high)
{
    c->in[c->in_count++] = (struct operand){kind, count, low, high, 0};
}

static void add_out(struct call *c, enum kind kind, int64_t count)
{
    c->out[c->out_count++] = (struct operand){kind, count, 0, 0, 0};
}

static void add_place(struct call *c, enum kind kind, int64_t count, int over)
{
    c->out[c->out_count++] = (struct operand){kind, count, 0, 0, over + 1};
}

#define BUILD(name) static void build_##name(struct call *c, int dtype)

BUILD(unary)
{
    (void)dtype;
    int64_t n = ONE_OF(1, 7, 8, 1000, 4096, 100003);
    int f = (int)(next() % KERNEL_UNARY_COUNT);
    bool is_positive = f == KERNEL_LOG || f == KERNEL_SQRT || f == KERNEL_RSQRT || f == KERNEL_POW;
    float a = f == KERNEL_POW        ? 1.7f
              : f == KERNEL_SOFTPLUS ? 1.0f
              : f == KERNEL_CLAMP    ? -0.5f
                                     : 0.3f;
    c->d.unary = (struct kernel_unary_desc){n, f, a, f == KERNEL_SOFTPLUS ? 20.0f : 0.7f, 0};
    add_in(c, NUMBER, n, is_positive ? 0.1 : -3, 3);
    add_out(c, NUMBER, n);
}

BUILD(unary_grad)
{
    build_unary(c, dtype);
    add_in(c, NUMBER, c->in[0].count, 0.1, 3);
    if (pick(0, 5) == 0) { /* a sum through a relu */
        c->d.unary_grad.f = KERNEL_RELU;
        c->in[1].low = -3;
        add_in(c, NUMBER, c->in[0].count, -3, 3);
    } else if (pick(0, 2) == 0) { /* a gelu with the sums of its columns */
        int64_t columns = ONE_OF(5, 40, 768, 3072), n = columns * ONE_OF(1, 9, 300, 1111);
        int f = pick(0, 1) ? KERNEL_GELU : KERNEL_GELU_TANH;
        c->d.unary_grad = (struct kernel_unary_desc){n, f, 0, 0, (int32_t)columns};
        c->in[0] = c->in[1] = (struct operand){NUMBER, n, -3, 3, 0};
        c->out[0].count = n;
        add_out(c, FLOAT, columns);
    }
}

/* A space of up to four dimensions, operands permuted or repeated; operand 0 is dense. */
static int64_t space(struct kernel_nd *nd, int operands, int64_t *counts, bool may_repeat)
{
    int64_t total = 1, most[4] = {5, 9, 33, 72};
    nd->rank = (int32_t)pick(1, 4);
    for (int d = nd->rank - 1; d >= 0; d--)
        nd->dims[d] = pick(1, 2) == 1 ? most[d] / 8 * 8 + 8 : pick(1, most[d]);
    for (int k = 0; k < operands; k++) {
        int order[4] = {0, 1, 2, 3};
        if (k && pick(0, 2) == 0 && nd->rank > 1) {
            int i = (int)pick(0, nd->rank - 1), j = (int)pick(0, nd->rank - 1), t = order[i];
            order[i] = order[j];
            order[j] = t;
        }
        int64_t step = 1, reach = 1;
        bool is_repeated[4] = {false, false, false, false};
        for (int d = 0; d < nd->rank; d++)
            is_repeated[d] = k && may_repeat && pick(0, 3) == 0;
        for (int i = nd->rank - 1; i >= 0; i--) {
            int d = order[i];
            nd->stride[k][d] = is_repeated[d] ? 0 : step;
            if (!is_repeated[d]) {
                reach += (nd->dims[d] - 1) * step;
                step *= nd->dims[d];
            }
        }
        counts[k] = reach;
    }
    for (int d = 0; d < nd->rank; d++)
        total *= nd->dims[d];
    return total;
}

BUILD(binary)
{
    int64_t counts[4];
    (void)dtype;
    space(&c->d.binary.nd, 3, counts, true);
    c->d.binary.f = (int32_t)(next() % KERNEL_BINARY_COUNT);
    add_in(c, NUMBER, counts[1], -2, 2);
    add_in(c, NUMBER, counts[2], 0.5, 2);
    add_out(c, NUMBER, counts[0]);
    c->is_exact = true;
}

BUILD(mask)
{
    int64_t counts[4];
    (void)dtype;
    space(&c->d.mask.nd, 3, counts, true);
    c->d.mask.invert = (int32_t)pick(0, 1);
    c->d.mask.scale = 1.25f;
    c->d.mask.fill = -7.0f;
    add_in(c, NUMBER, counts[1], -2, 2);
    add_in(c, BYTES, counts[2], 0, 1);
    add_out(c, NUMBER, counts[0]);
}

BUILD(where)
{
    int64_t counts[4];
    (void)dtype;
    space(&c->d.where, 4, counts, true);
    add_in(c, BYTES, counts[1], 0, 1);
    add_in(c, NUMBER, counts[2], -2, 2);
    add_in(c, NUMBER, counts[3], -2, 2);
    add_out(c, NUMBER, counts[0]);
    c->is_exact = true;
}

BUILD(truth)
{
    int64_t n = pick(1, 3000);
    (void)dtype;
    c->d.truth.n = n;
    add_in(c, INDEX, n, 0, 1);
    add_out(c, BYTES, n);
    c->has_no_low = c->is_exact = true;
}

BUILD(copy)
{
    int64_t counts[4];
    (void)dtype;
    space(&c->d.copy, 2, counts, false);
    add_in(c, NUMBER, counts[1], -2, 2);
    add_out(c, NUMBER, counts[0]);
    c->is_exact = true;
}

BUILD(fill)
{
    (void)dtype;
    c->d.fill.n = pick(1, 5000);
    c->d.fill.value = dtype == KERNEL_F32 ? 0.75f : 0.0f;
    add_out(c, NUMBER, c->d.fill.n);
    c->has_no_low = c->is_exact = true;
}

BUILD(convert)
{
    (void)dtype;
    c->d.convert.n = ONE_OF(3, 8, 77, 4096, 65537);
    if (pick(0, 2))
        add_in(c, NUMBER, c->d.convert.n, -100, 100);
    else
        add_in(c, BYTES, c->d.convert.n, 0, 255);
    add_out(c, FLOAT, c->d.convert.n);
    c->is_exact = true;
}

BUILD(reduce)
{
    int64_t in = 1, out = 1;
    (void)dtype;
    struct kernel_reduce_desc *d = &c->d.reduce;
    d->f = (int32_t)pick(0, 3);
    d->rank = (int32_t)pick(1, 4);
    d->folded = next() % (1u << d->rank);
    if (pick(0, 2) == 0) { /* a matrix over its rows */
        d->rank = 2;
        d->folded = 1;
    }
    for (int k = 0; k < d->rank; k++) {
        d->dims[k] = d->rank == 2 ? ONE_OF(16, 40, 768, 2048, 3000) : pick(1, 24);
        in *= d->dims[k];
        out *= d->folded >> k & 1 ? 1 : d->dims[k];
    }
    add_in(c, NUMBER, in, -1, 2);
    add_out(c, FLOAT, out);
}

BUILD(lines)
{
    (void)dtype;
    struct kernel_lines_desc *d = &c->d.lines;
    d->outer = pick(1, 40);
    d->n = ONE_OF(1, 5, 33, 1024, 3000);
    d->inner = ONE_OF(1, 1, 1, 6);
    d->f = (int32_t)pick(0, 6);
    d->is_reverse = d->f == KERNEL_CUMSUM ? (int32_t)pick(0, 1) : 0;
    int64_t n = d->outer * d->n * d->inner;
    bool is_grad = d->f == KERNEL_SOFTMAX_GRAD || d->f == KERNEL_LOG_SOFTMAX_GRAD;
    bool is_short = d->f == KERNEL_LOGSUMEXP || d->f == KERNEL_ARGMAX;
    add_in(c, NUMBER, n, -2, 2);
    if (is_grad)
        add_in(c, NUMBER, n, d->f == KERNEL_SOFTMAX_GRAD ? 0 : -3,
               d->f == KERNEL_SOFTMAX_GRAD ? 1.0 / (double)d->n : 0);
    add_out(c, d->f == KERNEL_ARGMAX ? INDEX : FLOAT, is_short ? d->outer * d->inner : n);
    c->has_no_low = d->f == KERNEL_ARGMAX;
}

BUILD(matmul)
{
    struct kernel_matmul *m = &c->d.matmul;
    int64_t rows = ONE_OF(1, 7, 64, 200), columns = ONE_OF(1, 5, 64, 136),
            k = ONE_OF(1, 9, 64, 768);
    int64_t b = 1, a_step = rows * k, b_step = k * columns;
    m->dtype = dtype;
    m->out_dtype = pick(0, 1) ? KERNEL_F32 : dtype;
    m->rank = (int32_t)pick(2, 4);
    m->has_bias = (int32_t)pick(0, 1);
    m->has_relu = m->has_bias && pick(0, 1);
    bool ta = pick(0, 1), tb = pick(0, 1), is_shared = pick(0, 2) == 0;
    for (int d = m->rank - 3; d >= 0; d--) {
        int64_t n = pick(1, 3);
        m->c_dims[d] = m->a_dims[d] = n;
        m->b_dims[d] = is_shared ? 1 : n;
        m->a_strides[d] = a_step;
        m->b_strides[d] = is_shared ? k * columns : b_step;
        a_step *= n;
        b_step *= is_shared ? 1 : n;
        b *= n;
    }
    int r = m->rank;
    m->a_dims[r - 2] = m->c_dims[r - 2] = rows;
    m->a_dims[r - 1] = m->b_dims[r - 2] = k;
    m->b_dims[r - 1] = m->c_dims[r - 1] = columns;
    m->a_strides[r - 2] = ta ? 1 : k;
    m->a_strides[r - 1] = ta ? rows : 1;
    m->b_strides[r - 2] = tb ? 1 : columns;
    m->b_strides[r - 1] = tb ? k : 1;
    add_in(c, NUMBER, a_step, -1, 1);
    add_in(c, NUMBER, b_step, -1, 1);
    enum kind kind = m->out_dtype == KERNEL_F32 ? FLOAT : NUMBER;
    m->adds = !m->has_relu && pick(0, 2) == 0 ? KERNEL_ADDS_OTHER : KERNEL_ADDS_NOTHING;
    if (m->has_bias || m->adds)
        add_in(c, FLOAT, m->has_bias ? columns : 0, -1, 1);
    if (m->adds)
        add_in(c, kind, b * rows * columns, -3, 3);
    add_out(c, kind, b * rows * columns);
}

BUILD(conv)
{
    struct kernel_conv *v = &c->d.conv.conv;
    c->d.conv.pass = pick(0, 2);
    v->nd = (int32_t)ONE_OF(1, 2, 2, 2, 3);
    v->groups = ONE_OF(1, 1, 2);
    v->n = pick(1, 4);
    v->ci = v->groups * ONE_OF(1, 4, 8, 16);
    v->co = v->groups * ONE_OF(3, 8, 32);
    v->dtype = dtype;
    v->is_small = pick(0, 3) == 0;
    int64_t x = v->n * v->ci, y = v->n * v->co, w = v->co * (v->ci / v->groups);
    for (int d = 0; d < v->nd; d++) {
        v->k[d] = ONE_OF(1, 3, 3, 5);
        v->in[d] = pick(9, 18);
        v->stride[d] = pick(1, 2);
        v->dilation[d] = v->k[d] < 5 ? pick(1, 2) : 1;
        v->pad[d] = pick(0, 2);
        v->out[d] =
            (v->in[d] + 2 * v->pad[d] - v->dilation[d] * (v->k[d] - 1) - 1) / v->stride[d] + 1;
        x *= v->in[d];
        y *= v->out[d];
        w *= v->k[d];
    }
    bool is_forward = c->d.conv.pass == KERNEL_CONV_FORWARD;
    v->has_bias = is_forward && pick(0, 1);
    v->has_relu = is_forward && pick(0, 1);
    add_in(c, NUMBER, c->d.conv.pass == KERNEL_CONV_DATA ? y : x, -1, 1);
    add_in(c, NUMBER, c->d.conv.pass == KERNEL_CONV_WEIGHTS ? y : w, -1, 1);
    if (v->has_bias)
        add_in(c, FLOAT, v->co, -1, 1);
    add_out(c, c->d.conv.pass == KERNEL_CONV_WEIGHTS ? FLOAT : NUMBER,
            is_forward                           ? y
            : c->d.conv.pass == KERNEL_CONV_DATA ? x
                                                 : w);
    c->has_no_f16 = true;
    c->loose = 2;
}

static void attention(struct kernel_attention *a)
{
    bool is_fast = pick(0, 1);
    a->rows = is_fast ? pick(1, 8) * 6 : pick(1, 12);
    a->tq = is_fast ? ONE_OF(1, 64, 128, 200, 300) : pick(1, 70);
    a->tk = is_fast || pick(0, 1) ? a->tq : a->tq + pick(0, 30);
    a->d = is_fast ? 64 : ONE_OF(8, 32, 48, 128);
    a->dv = is_fast || pick(0, 1) ? a->d : 24;
    a->scale = 1.0f / sqrtf((float)a->d);
    a->is_causal = (int32_t)pick(0, 1);
    a->mask_rows = 0;
    a->mask_period = 1;
    if (!is_fast && pick(0, 1)) {
        a->mask_rows = (int32_t)(a->rows % 2 == 0 ? a->rows / 2 : 1);
        a->mask_period = a->rows / a->mask_rows;
    }
    if (!a->mask_rows && a->tq == a->tk && a->d == a->dv && pick(0, 2) == 0)
        a->heads = a->rows % 6 == 0 ? 6 : a->rows % 2 == 0 ? 2 : 1;
}

BUILD(attention)
{
    (void)dtype;
    struct kernel_attention *a = &c->d.attention;
    attention(a);
    add_in(c, NUMBER, (a->heads ? 3 : 1) * a->rows * a->tq * a->d, -1, 1);
    if (!a->heads) {
        add_in(c, NUMBER, a->rows * a->tk * a->d, -1, 1);
        add_in(c, NUMBER, a->rows * a->tk * a->dv, -1, 1);
    }
    if (a->mask_rows)
        add_in(c, NUMBER, a->mask_rows * a->tq * a->tk, -2, 0);
    add_out(c, NUMBER, a->rows * a->tq * a->dv);
    add_out(c, FLOAT, a->rows * a->tq);
}

BUILD(layer_norm)
{
    (void)dtype;
    struct kernel_layer_norm_desc *d = &c->d.layer_norm;
    d->rows = ONE_OF(1, 9, 300, 1111);
    d->n = ONE_OF(5, 64, 96, 768, 1600, 3072);
    d->eps = 1e-5f;
    d->is_rms = pick(0, 3) == 0;
    add_in(c, NUMBER, d->rows * d->n, -1, 2);
    add_in(c, FLOAT, d->n, 0.5, 1.5);
    add_in(c, FLOAT, d->n, -1, 1);
    add_out(c, NUMBER, d->rows * d->n);
    add_out(c, FLOAT, d->is_rms ? 0 : d->rows);
    add_out(c, FLOAT, d->rows);
}

static void batch_norm(struct kernel_batch_norm *d, int dtype)
{
    d->n = pick(1, 9);
    d->channels = ONE_OF(8, 16, 64, 96);
    d->spatial = ONE_OF(1, 9, 49, 200) + (d->n == 1);
    d->block = (int32_t)ONE_OF(0, 8, 8, 0);
    d->dtype = dtype;
    d->eps = 1e-5f;
}

BUILD(batch_norm_stats)
{
    struct kernel_batch_norm *d = &c->d.batch_norm_stats;
    batch_norm(d, dtype);
    add_in(c, NUMBER, d->n * d->channels * d->spatial, -1, 2);
    add_out(c, FLOAT, d->channels);
    add_out(c, FLOAT, d->channels);
}

BUILD(batch_norm)
{
    struct kernel_batch_norm *d = &c->d.batch_norm;
    batch_norm(d, dtype);
    d->has_relu = (int32_t)pick(0, 1);
    d->has_add = (int32_t)pick(0, 1);
    int64_t n = d->n * d->channels * d->spatial;
    add_in(c, NUMBER, n, -1, 2);
    add_in(c, FLOAT, d->channels, 0.5, 1.5);
    add_in(c, FLOAT, d->channels, -1, 1);
    add_in(c, FLOAT, d->channels, 0, 1);
    add_in(c, FLOAT, d->channels, 0.5, 1);
    if (d->has_add) /* of the same type, or of its own */
        add_in(c, pick(0, 1) ? NUMBER : FLOAT, n, -1, 1);
    add_out(c, NUMBER, n);
}

BUILD(batch_norm_grad)
{
    struct kernel_batch_norm *d = &c->d.batch_norm_grad;
    batch_norm(d, dtype);
    d->has_relu = (int32_t)pick(0, 1);
    int64_t n = d->n * d->channels * d->spatial;
    add_in(c, NUMBER, n, -1, 1);
    add_in(c, NUMBER, n, -1, 2);
    add_in(c, FLOAT, d->channels, 0.5, 1.5);
    add_in(c, FLOAT, d->channels, -0.1, 0.1);
    add_in(c, FLOAT, d->channels, 0.4, 0.6);
    add_in(c, FLOAT, d->channels, 0.7, 0.8);
    add_out(c, NUMBER, n);
    add_out(c, FLOAT, d->channels);
    add_out(c, FLOAT, d->channels);
    c->loose = 4;
}

BUILD(batch_norm_update)
{
    (void)dtype;
    struct kernel_batch_norm_update_desc *d = &c->d.batch_norm_update;
    d->channels = pick(1, 300);
    d->unbias = 1.01;
    d->momentum = 0.1f;
    for (int k = 0; k < 4; k++)
        add_in(c, FLOAT, d->channels, 0, 1);
    add_in(c, INDEX, 1, 5, 5);
    add_place(c, FLOAT, d->channels, 0);
    add_place(c, FLOAT, d->channels, 1);
    add_place(c, INDEX, 1, 4);
    c->has_no_low = c->is_exact = true;
}

static void pool(struct kernel_pool *p)
{
    p->planes = pick(1, 6);
    p->lanes = ONE_OF(1, 8, 16, 16);
    for (int d = 0; d < 3; d++) {
        bool is_used = d > 0;
        p->in[d] = is_used ? pick(6, 15) : 1;
        p->k[d] = is_used ? (d == 2 ? p->k[1] : pick(2, 3)) : 1;
        p->stride[d] = is_used ? (d == 2 ? p->stride[1] : pick(1, 3)) : 1;
        p->pad[d] = is_used ? (d == 2 ? p->pad[1] : pick(0, 1)) : 0;
        p->dilation[d] = is_used ? (d == 2 ? p->dilation[1] : ONE_OF(1, 1, 2)) : 1;
        p->out[d] =
            (p->in[d] + 2 * p->pad[d] - p->dilation[d] * (p->k[d] - 1) - 1) / p->stride[d] + 1;
    }
    p->count_include_pad = (int32_t)pick(0, 1);
}

BUILD(pool)
{
    (void)dtype;
    struct kernel_pool_desc *d = &c->d.pool;
    pool(&d->pool);
    /* gradients and indices of maxima: chain_winners */
    d->f =
        ONE_OF(KERNEL_AVG, KERNEL_AVG_GRAD, KERNEL_ADAPTIVE, KERNEL_ADAPTIVE_GRAD, KERNEL_MAX_POOL);
    bool is_adaptive = d->f == KERNEL_ADAPTIVE || d->f == KERNEL_ADAPTIVE_GRAD;
    bool is_grad = d->f == KERNEL_AVG_GRAD || d->f == KERNEL_ADAPTIVE_GRAD;
    for (int k = 0; k < 3; k++) {
        if (d->f == KERNEL_AVG || d->f == KERNEL_AVG_GRAD) {
            d->pool.dilation[k] = 1;
            d->pool.out[k] =
                (d->pool.in[k] + 2 * d->pool.pad[k] - d->pool.k[k]) / d->pool.stride[k] + 1;
        }
        if (is_adaptive)
            d->pool.out[k] = k == 0 ? 1 : ONE_OF(1, 1, 4, 7);
    }
    if (is_adaptive && pick(0, 1))
        d->pool.out[1] = d->pool.out[2] = 1;
    int64_t in = d->pool.planes * d->pool.lanes, out = in;
    for (int k = 0; k < 3; k++) {
        in *= d->pool.in[k];
        out *= d->pool.out[k];
    }
    add_in(c, NUMBER, is_grad ? out : in, -1, 1);
    add_out(c, NUMBER, is_grad ? in : out);
    if (d->f == KERNEL_MAX_POOL)
        add_out(c, BYTES, out);
}

BUILD(resample)
{
    (void)dtype;
    struct kernel_resample_desc *d = &c->d.resample;
    struct kernel_resample *r = &d->resample;
    r->planes = pick(1, 5);
    r->lanes = ONE_OF(1, 8, 16);
    r->is_bilinear = (int32_t)pick(0, 1);
    r->align_corners = r->is_bilinear && pick(0, 1);
    d->is_grad = pick(0, 1);
    for (int k = 0; k < 2; k++) {
        r->in[k] = pick(1, 9);
        r->out[k] = pick(1, 20);
        r->scale[k] = r->align_corners
                          ? r->out[k] > 1 ? (double)(r->in[k] - 1) / (double)(r->out[k] - 1) : 0.0
                          : (double)r->in[k] / (double)r->out[k];
    }
    int64_t in = r->planes * r->lanes * r->in[0] * r->in[1],
            out = r->planes * r->lanes * r->out[0] * r->out[1];
    add_in(c, NUMBER, d->is_grad ? out : in, -1, 1);
    add_out(c, NUMBER, d->is_grad ? in : out);
}

BUILD(unpool)
{
    (void)dtype;
    struct kernel_unpool_desc *d = &c->d.unpool;
    d->planes = pick(1, 5);
    d->in_size = pick(1, 40);
    d->out_size = d->in_size * 4;
    d->is_grad = pick(0, 1);
    add_in(c, NUMBER, d->planes * (d->is_grad ? d->out_size : d->in_size), -1, 1);
    add_in(c, INDEX, d->planes * d->in_size, 0, (double)(d->out_size - 1));
    add_out(c, NUMBER, d->planes * (d->is_grad ? d->in_size : d->out_size));
    c->is_exact = true;
}

BUILD(channel_window)
{
    (void)dtype;
    struct kernel_channel_window_desc *d = &c->d.channel_window;
    d->outer = pick(1, 4);
    d->channels = pick(1, 30);
    d->inner = pick(1, 30);
    d->before = pick(0, 3);
    d->after = pick(0, 3);
    add_in(c, NUMBER, d->outer * d->channels * d->inner, 0, 1);
    add_out(c, NUMBER, d->outer * d->channels * d->inner);
}

BUILD(index)
{
    (void)dtype;
    struct kernel_index_desc *d = &c->d.index;
    d->f = pick(0, 3);
    d->outer = ONE_OF(1, 1, 3);
    d->n = ONE_OF(1, 17, 1000);
    d->inner = ONE_OF(1, 5, 64, 96);
    d->count = ONE_OF(1, 33, 700, 2000);
    d->skip = pick(0, 1) ? -1 : d->n / 2;
    bool is_each = d->f == KERNEL_GATHER || d->f == KERNEL_SCATTER_ADD;
    bool is_add = d->f == KERNEL_INDEX_ADD || d->f == KERNEL_SCATTER_ADD;
    int64_t table = d->outer * d->n * d->inner, picked = d->outer * d->count * d->inner;
    add_in(c, NUMBER, is_add ? picked : table, -1, 1);
    add_in(c, INDEX, is_each ? picked : d->count, 0, (double)(d->n - 1));
    add_out(c, d->f == KERNEL_INDEX_ADD ? FLOAT : NUMBER, is_add ? table : picked);
    c->loose = d->f == KERNEL_SCATTER_ADD ? 20 : 1; /* 16-bit sums of many */
    if (d->f == KERNEL_SCATTER_ADD)
        c->has_no_low = true;
}

BUILD(loss)
{
    (void)dtype;
    struct kernel_loss_desc *d = &c->d.loss;
    d->n = ONE_OF(1, 100, 5000, 70001);
    d->batch = 4;
    d->f = (int32_t)pick(0, 5);
    d->reduction = (int32_t)pick(0, 3);
    d->beta = 0.5f;
    add_in(c, NUMBER, d->n, 0.05, 0.95);
    add_in(c, NUMBER, d->n, 0.05, 0.95);
    add_out(c, FLOAT, d->reduction == KERNEL_REDUCE_NONE ? d->n : 1);
}

BUILD(loss_grad)
{
    struct call one = *c;
    build_loss(&one, dtype);
    c->d = one.d;
    int64_t n = c->d.loss_grad.n;
    add_in(c, FLOAT, c->d.loss_grad.reduction == KERNEL_REDUCE_NONE ? n : 1, 0.5, 1);
    add_in(c, NUMBER, n, 0.05, 0.95);
    add_in(c, NUMBER, n, 0.05, 0.95);
    add_out(c, NUMBER, n);
}

static int64_t cross_entropy(struct kernel_cross_entropy *d)
{
    d->n = pick(1, 40);
    d->classes = ONE_OF(2, 10, 1000);
    d->inner = ONE_OF(1, 1, 7);
    d->ignore_index = pick(0, 1) ? -100 : 1;
    d->reduction = (int32_t)pick(0, 2);
    d->smoothing = pick(0, 1) ? 0.0f : 0.1f;
    d->is_log_prob = d->smoothing == 0.0f && pick(0, 3) == 0;
    return pick(0, 1);
}

BUILD(cross_entropy)
{
    (void)dtype;
    struct kernel_cross_entropy *d = &c->d.cross_entropy;
    bool has_weight = cross_entropy(d);
    add_in(c, NUMBER, d->n * d->classes * d->inner, -2, 2);
    add_in(c, INDEX, d->n * d->inner, 0, (double)(d->classes - 1));
    if (has_weight)
        add_in(c, FLOAT, d->classes, 0.5, 1.5);
    add_out(c, FLOAT, d->reduction == KERNEL_REDUCE_NONE ? d->n * d->inner : 1);
}

BUILD(cross_entropy_grad)
{
    (void)dtype;
    struct kernel_cross_entropy *d = &c->d.cross_entropy_grad;
    bool has_weight = cross_entropy(d);
    add_in(c, FLOAT, d->reduction == KERNEL_REDUCE_NONE ? d->n * d->inner : 1, 0.5, 1);
    add_in(c, NUMBER, d->n * d->classes * d->inner, -2, 2);
    add_in(c, INDEX, d->n * d->inner, 0, (double)(d->classes - 1));
    if (has_weight)
        add_in(c, FLOAT, d->classes, 0.5, 1.5);
    add_out(c, NUMBER, d->n * d->classes * d->inner);
}

static void product_entropy(struct kernel_product_entropy_desc *d)
{
    d->n = ONE_OF(1, 100, 300, 5000);
    d->k = ONE_OF(8, 64, 96);
    d->classes = ONE_OF(7, 40, 1000, 257);
    d->ignore_index = pick(0, 1) ? -100 : 1;
    d->reduction = pick(0, 1);
}

BUILD(product_entropy)
{
    (void)dtype;
    struct kernel_product_entropy_desc *d = &c->d.product_entropy;
    product_entropy(d);
    add_in(c, NUMBER, d->n * d->k, -1, 1);
    add_in(c, NUMBER, d->classes * d->k, -0.5, 0.5);
    add_in(c, INDEX, d->n, 0, (double)(d->classes - 1));
    add_out(c, FLOAT, 1);
    add_out(c, FLOAT, d->n);
    c->has_no_f16 = true;
}

BUILD(product_entropy_step)
{
    build_product_entropy(c, dtype);
    const struct kernel_product_entropy_desc *d = &c->d.product_entropy_step;
    c->out_count = 1;
    add_out(c, NUMBER, d->n * d->k);
    add_out(c, FLOAT, d->classes * d->k);
    c->loose = 2;
}

static void gates(struct kernel_gates_desc *d)
{
    d->rows = pick(1, 30);
    d->h = pick(1, 70);
}

BUILD(lstm)
{
    (void)dtype;
    struct kernel_gates_desc *d = &c->d.lstm;
    gates(d);
    int64_t n = d->rows * d->h;
    add_in(c, NUMBER, 4 * n, -1, 1);
    add_in(c, NUMBER, 4 * n, -1, 1);
    add_in(c, FLOAT, n, -1, 1);
    add_out(c, NUMBER, n);
    add_out(c, FLOAT, n);
    add_out(c, FLOAT, 4 * n);
}

BUILD(lstm_grad)
{
    (void)dtype;
    struct kernel_gates_desc *d = &c->d.lstm_grad;
    gates(d);
    int64_t n = d->rows * d->h;
    add_in(c, FLOAT, 4 * n, 0.1, 0.9);
    for (int k = 0; k < 4; k++)
        add_in(c, k == 2 ? NUMBER : FLOAT, n, -1, 1);
    add_out(c, NUMBER, 4 * n);
    add_out(c, FLOAT, n);
}

BUILD(gru)
{
    (void)dtype;
    struct kernel_gates_desc *d = &c->d.gru;
    gates(d);
    int64_t n = d->rows * d->h;
    add_in(c, NUMBER, 3 * n, -1, 1);
    add_in(c, NUMBER, 3 * n, -1, 1);
    add_in(c, NUMBER, n, -1, 1);
    add_out(c, NUMBER, n);
    add_out(c, FLOAT, 3 * n);
}

BUILD(gru_grad)
{
    (void)dtype;
    struct kernel_gates_desc *d = &c->d.gru_grad;
    gates(d);
    int64_t n = d->rows * d->h;
    add_in(c, FLOAT, 3 * n, 0.1, 0.9);
    add_in(c, NUMBER, 3 * n, -1, 1);
    add_in(c, NUMBER, n, -1, 1);
    add_in(c, NUMBER, n, -1, 1);
    add_out(c, NUMBER, 3 * n);
    add_out(c, NUMBER, 3 * n);
    add_out(c, NUMBER, n);
}

BUILD(dropout)
{
    (void)dtype;
    struct kernel_dropout_desc *d = &c->d.dropout;
    *d = (struct kernel_dropout_desc){next(), ONE_OF(1, 7, 1000, 40001), (uint32_t)next(), 0.3f};
    add_in(c, NUMBER, d->n, -1, 1);
    add_in(c, INDEX, 1, 0, 1e12);
    add_out(c, NUMBER, d->n);
    c->is_exact = true;
}

BUILD(master_join)
{
    (void)dtype;
    c->d.master_join.n = pick(1, 5000);
    add_in(c, HIGH, c->d.master_join.n, -1, 1);
    add_in(c, REST, c->d.master_join.n, -1, 1);
    add_out(c, FLOAT, c->d.master_join.n);
    c->has_no_low = c->is_exact = true;
}

static int update(struct kernel_update_desc *d)
{
    d->n = ONE_OF(1, 63, 1000, 70001);
    d->f = (int32_t)(next() % KERNEL_UPDATE_COUNT);
    d->flags = 0;
    if (d->f == KERNEL_UPDATE_SGD)
        d->flags = (uint32_t)ONE_OF(0, 1, 3);
    if (d->f == KERNEL_UPDATE_ADAM)
        d->flags = (uint32_t)ONE_OF(0, 4);
    if (d->f == KERNEL_UPDATE_RMSPROP)
        d->flags = (uint32_t)ONE_OF(0, 1, 8, 9);
    if (d->f == KERNEL_UPDATE_LARS)
        d->flags = (uint32_t)ONE_OF(0, 1, 17);
    if (d->f == KERNEL_UPDATE_LAMB)
        d->flags = (uint32_t)ONE_OF(0, 16);
    return kernel_update_states((enum kernel_update)d->f, d->flags);
}

BUILD(update)
{
    (void)dtype;
    struct kernel_update_desc *d = &c->d.update;
    int states = update(d);
    add_in(c, FLOAT, KERNEL_UPDATE_SCALARS, 0.1, 0.9);
    add_in(c, FLOAT, d->n, -1, 1);
    add_in(c, FLOAT, d->n, -1, 1);
    add_place(c, FLOAT, d->n, 2);
    for (int k = 0; k < states; k++) {
        add_in(c, FLOAT, d->n, 0.5, 1);
        add_place(c, FLOAT, d->n, 3 + k);
    }
    c->has_no_low = c->is_exact = true;
}

BUILD(update_split)
{
    (void)dtype;
    struct kernel_update_desc *d = &c->d.update_split;
    int states = update(d);
    add_in(c, FLOAT, KERNEL_UPDATE_SCALARS, 0.1, 0.9);
    add_in(c, FLOAT, d->n, -1, 1);
    add_in(c, HIGH, d->n, -1, 1);
    add_in(c, REST, d->n, -1, 1);
    add_place(c, HIGH, d->n, 2);
    add_place(c, REST, d->n, 3);
    for (int k = 0; k < states; k++) {
        add_in(c, FLOAT, d->n, 0.5, 1);
        add_place(c, FLOAT, d->n, 4 + k);
    }
    c->has_no_low = c->is_exact = true;
}

BUILD(adam_step)
{
    (void)dtype;
    struct kernel_adam_step_desc *d = &c->d.adam_step;
    d->step = (struct kernel_adam_step){0.01f, 1e-8f, 0.9f, 0.1f, 0.99f, 0.01f};
    d->n = pick(1, 5000);
    for (int k = 0; k < 4; k++)
        add_in(c, FLOAT, d->n, 0.1, 1);
    add_in(c, FLOAT, 2, 1, 2);
    for (int k = 0; k < 3; k++)
        add_out(c, FLOAT, d->n);
    c->has_no_low = true;
}

BUILD(adam_step_grad)
{
    build_adam_step(c, dtype);
    struct kernel_adam_step_desc *d = &c->d.adam_step_grad;
    d->given = pick(1, 7);
    c->in_count = 0;
    for (int k = 0; k < 3; k++)
        add_in(c, FLOAT, d->n, 0.1, 1);
    add_in(c, FLOAT, 2, 1, 2);
    for (int k = 0; k < 3; k++)
        if (d->given >> k & 1)
            add_in(c, FLOAT, d->n, -1, 1);
}

typedef void builder(struct call *, int);

/* Gradients that need what a forward pass made stand below (chains). */
static builder *const builders[KERNEL_FAMILIES] = {
#define ROW(name, text) [KERNEL_FAMILY_##name] = build_##text
    ROW(UNARY, unary),
    ROW(UNARY_GRAD, unary_grad),
    ROW(BINARY, binary),
    ROW(MASK, mask),
    ROW(WHERE, where),
    ROW(TRUTH, truth),
    ROW(COPY, copy),
    ROW(FILL, fill),
    ROW(CONVERT, convert),
    ROW(REDUCE, reduce),
    ROW(LINES, lines),
    ROW(MATMUL, matmul),
    ROW(CONV, conv),
    ROW(ATTENTION, attention),
    ROW(BATCH_NORM_STATS, batch_norm_stats),
    ROW(BATCH_NORM, batch_norm),
    ROW(BATCH_NORM_GRAD, batch_norm_grad),
    ROW(BATCH_NORM_UPDATE, batch_norm_update),
    ROW(LAYER_NORM, layer_norm),
    ROW(POOL, pool),
    ROW(UNPOOL, unpool),
    ROW(RESAMPLE, resample),
    ROW(CHANNEL_WINDOW, channel_window),
    ROW(INDEX, index),
    ROW(LOSS, loss),
    ROW(LOSS_GRAD, loss_grad),
    ROW(CROSS_ENTROPY, cross_entropy),
    ROW(CROSS_ENTROPY_GRAD, cross_entropy_grad),
    ROW(PRODUCT_ENTROPY, product_entropy),
    ROW(PRODUCT_ENTROPY_STEP, product_entropy_step),
    ROW(LSTM, lstm),
    ROW(LSTM_GRAD, lstm_grad),
    ROW(GRU, gru),
    ROW(GRU_GRAD, gru_grad),
    ROW(DROPOUT, dropout),
    ROW(MASTER_JOIN, master_join),
    ROW(UPDATE, update),
    ROW(UPDATE_SPLIT, update_split),
    ROW(ADAM_STEP, adam_step),
    ROW(ADAM_STEP_GRAD, adam_step_grad),
};

/* ---- running both ------------------------------------------------------------------------------------ */

#define SLAB ((uint64_t)6 << 30)
#define STAGE ((uint64_t)256 << 20)

static const struct kernel_plugin *plugin;
static struct device *device;
static struct kernel_context *gpu, *cpu;
static unsigned char *stage; /* pinned */
static struct ebb_error err;
static int failures, calls;

#define MUST(expr)                                                                                 \
    do {                                                                                           \
        if ((expr) != EBB_OK) {                                                                    \
            printf("%s:%d: %s\n", __FILE__, __LINE__, err.message);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static float from_low(int dtype, uint16_t u)
{
    uint32_t bits = (uint32_t)u << 16;
    float f;
    if (dtype == KERNEL_BF16) {
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    int exponent = u >> 10 & 31, fraction = u & 1023;
    double v = exponent == 31 ? fraction ? NAN : INFINITY
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return (float)(u >> 15 ? -v : v);
}

static uint16_t to_low(int dtype, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (dtype == KERNEL_BF16)
        return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
    int exponent;
    double m = frexp(fabs((double)f), &exponent); /* m in [0.5, 1) */
    if (f == 0.0f)
        return 0;
    exponent = exponent < -13 ? -13 : exponent;
    double units = nearbyint(ldexp(fabs((double)f), 11 - exponent));
    (void)m;
    uint32_t r = exponent == -13 && units < 1024
                     ? (uint32_t)units
                     : (uint32_t)((exponent + 14) << 10) + (uint32_t)units - 1024u;
    return (uint16_t)(r | (f < 0 ? 0x8000u : 0));
}

static int dtype_of(enum kind kind, int dtype)
{
    return kind == NUMBER  ? dtype
           : kind == FLOAT ? KERNEL_F32
           : kind == INDEX ? KERNEL_I64
           : kind == BYTES ? KERNEL_U8
           : kind == HIGH  ? KERNEL_BF16
                           : KERNEL_I16;
}

static size_t bytes_of(const struct operand *o, int dtype)
{
    static const size_t sizes[KERNEL_DTYPES] = {4, 2, 2, 8, 8, 4, 2, 1, 1};
    return (size_t)o->count * sizes[dtype_of(o->kind, dtype)];
}

static size_t align(size_t x)
{
    return (x + 255) / 256 * 256;
}

/* Values of an input: as the CPU sees them (F32) and as the GPU does. */
static void draw(const struct operand *o, int dtype, void *for_cpu, void *for_gpu)
{
    for (int64_t i = 0; i < o->count; i++) {
        double v = o->low + uniform() * (o->high - o->low);
        if (o->kind == INDEX) {
            int64_t x = (int64_t)(o->low + floor(uniform() * (o->high - o->low + 1)));
            ((int64_t *)for_cpu)[i] = ((int64_t *)for_gpu)[i] = x;
        } else if (o->kind == BYTES) {
            ((uint8_t *)for_cpu)[i] = ((uint8_t *)for_gpu)[i] =
                o->high > 1 ? (uint8_t)next() : (uint8_t)(uniform() < 0.5);
        } else if (o->kind == HIGH || o->kind == REST) {
            uint16_t u = o->kind == HIGH ? to_low(KERNEL_BF16, (float)v) : (uint16_t)next();
            ((uint16_t *)for_cpu)[i] = ((uint16_t *)for_gpu)[i] = u;
        } else if (o->kind == FLOAT || dtype == KERNEL_F32) {
            ((float *)for_cpu)[i] = ((float *)for_gpu)[i] = (float)v;
        } else {
            uint16_t u = to_low(dtype, (float)v);
            ((uint16_t *)for_gpu)[i] = u;
            ((float *)for_cpu)[i] = from_low(dtype, u);
        }
    }
}

static void send(uint64_t at, const void *bytes, size_t n)
{
    for (size_t done = 0; done < n; done += STAGE) {
        size_t part = n - done < STAGE ? n - done : STAGE;
        memcpy(stage, (const unsigned char *)bytes + done, part);
        MUST(device->table->write(device, DEVICE_COMPUTE, at + done, stage, part, &err));
        MUST(device->table->sync(device, &err));
    }
}

static void fetch(uint64_t at, void *bytes, size_t n)
{
    for (size_t done = 0; done < n; done += STAGE) {
        size_t part = n - done < STAGE ? n - done : STAGE;
        MUST(device->table->read(device, DEVICE_COMPUTE, stage, at + done, part, &err));
        MUST(device->table->sync(device, &err));
        memcpy((unsigned char *)bytes + done, stage, part);
    }
}

struct operands { /* host copies */
    void *in_cpu[KERNEL_PORTS], *in_gpu[KERNEL_PORTS], *out_cpu[KERNEL_PORTS],
        *out_gpu[KERNEL_PORTS], *again[KERNEL_PORTS];
};

static void types_of(const struct call *c, int dtype, struct kernel_args *a)
{
    a->in_count = (uint32_t)c->in_count;
    a->out_count = (uint32_t)c->out_count;
    for (int i = 0; i < c->in_count; i++)
        a->in_dtype[i] = (uint8_t)dtype_of(c->in[i].kind, dtype);
    for (int i = 0; i < c->out_count; i++)
        a->out_dtype[i] = (uint8_t)dtype_of(c->out[i].kind, dtype);
}

static enum ebb_status run_cpu(const struct call *c, enum kernel_family family, struct operands *o)
{
    struct kernel_args a = {.op = 1};
    struct kernel_need need = {0};
    types_of(c, KERNEL_F32, &a);
    for (int i = 0; i < c->in_count; i++)
        a.in[i] = c->in[i].count ? o->in_cpu[i] : NULL;
    for (int i = 0; i < c->out_count; i++) {
        size_t n = bytes_of(&c->out[i], KERNEL_F32);
        if (c->out[i].over)
            memcpy(o->out_cpu[i], o->in_cpu[c->out[i].over - 1], n);
        a.out[i] = c->out[i].count ? o->out_cpu[i] : NULL;
        if (c->out[i].over) /* in place: one address */
            a.in[c->out[i].over - 1] = a.out[i];
    }
    enum ebb_status status = kernel_cpu.need(cpu, family, &c->d, &a, &need, &err);
    a.workspace = aligned_alloc(256, align(need.workspace_bytes + 256));
    if (status == EBB_OK)
        status = kernel_cpu.run(cpu, family, &c->d, &a, &err);
    free(a.workspace);
    return status;
}

static int dropped = -1; /* the result that is not wanted */

static enum ebb_status run_gpu(const struct call *c, enum kernel_family family, int dtype,
                               struct operands *o, void **results, int times)
{
    struct kernel_args a = {.op = 1};
    struct kernel_need need = {0};
    uint64_t at = 0, places[2][KERNEL_PORTS] = {{0}};
    types_of(c, dtype, &a);
    for (int i = 0; i < c->in_count; i++) {
        size_t n = bytes_of(&c->in[i], dtype);
        places[0][i] = at;
        a.in[i] = n ? device->table->address(device, at) : NULL;
        send(at, o->in_gpu[i], n);
        at += align(n);
    }
    for (int i = 0; i < c->out_count; i++) {
        size_t n = bytes_of(&c->out[i], dtype);
        places[1][i] = c->out[i].over ? places[0][c->out[i].over - 1] : at;
        a.out[i] = n && i != dropped ? device->table->address(device, places[1][i]) : NULL;
        if (c->out[i].over)
            continue;
        void *poison = malloc(n + 1);
        memset(poison, 0xff, n);
        send(at, poison, n);
        free(poison);
        at += align(n);
    }
    EBB_TRY(plugin->kernels->need(gpu, family, &c->d, &a, &need, &err));
    if (at + need.workspace_bytes > SLAB)
        return ebb_fail(&err, EBB_ENOMEM, "workspace of %llu bytes",
                        (unsigned long long)need.workspace_bytes);
    a.workspace = device->table->address(device, at);
    for (int k = 0; k < times; k++)
        EBB_TRY(plugin->kernels->run(gpu, family, &c->d, &a, &err));
    EBB_TRY(plugin->kernels->finish(gpu, &err));
    EBB_TRY(device->table->sync(device, &err));
    for (int i = 0; i < c->out_count; i++)
        fetch(places[1][i], results[i], bytes_of(&c->out[i], dtype));
    uint32_t fault = plugin->kernels->fault(gpu);
    return fault ? ebb_fail(&err, EBB_EINPUT, "fault word %u", fault) : EBB_OK;
}

static double value_at(const void *p, enum kind kind, int dtype, int64_t i)
{
    return kind == INDEX                  ? (double)((const int64_t *)p)[i]
           : kind == BYTES                ? (double)((const uint8_t *)p)[i]
           : kind == HIGH || kind == REST ? (double)((const uint16_t *)p)[i]
           : kind == NUMBER && dtype != KERNEL_F32
               ? (double)from_low(dtype, ((const uint16_t *)p)[i])
               : (double)((const float *)p)[i];
}

/* Relative norm of the difference; -1: something is not a number where it should be. */
static double difference(const struct operand *o, int dtype, const void *cpu_out,
                         const void *gpu_out)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < o->count; i++) {
        double a = value_at(cpu_out, o->kind, KERNEL_F32, i),
               b = value_at(gpu_out, o->kind, dtype, i);
        if ((a != a) != (b != b) || (isinf(a) && a != b))
            return -1;
        if (a != a || isinf(a))
            continue;
        difference += (a - b) * (a - b);
        norm += a * a;
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

static double tolerance_of(const struct call *c, enum kind kind, int dtype)
{
    if (kind == INDEX || kind == BYTES || kind == HIGH || kind == REST)
        return 0;
    double base = dtype == KERNEL_F32 ? 1e-5 : dtype == KERNEL_BF16 ? 1e-2 : 2e-3;
    return c->is_exact && dtype == KERNEL_F32 ? 0 : base * (c->loose > 0 ? c->loose : 1);
}

static const char *const dtype_names[] = {"f32", "bf16", "f16"};

static void report(const char *family, int dtype, uint64_t seed, const char *what)
{
    failures++;
    printf("FAIL %s %s seed %llu: %s\n", family, dtype_names[dtype], (unsigned long long)seed,
           what);
}

static void take(struct call *c, struct operands *o, int dtype)
{
    for (int i = 0; i < c->in_count; i++) {
        o->in_cpu[i] = aligned_alloc(256, align(bytes_of(&c->in[i], KERNEL_F32) + 1));
        o->in_gpu[i] = aligned_alloc(256, align(bytes_of(&c->in[i], KERNEL_F32) + 1));
        draw(&c->in[i], dtype, o->in_cpu[i], o->in_gpu[i]);
    }
    for (int i = 0; i < c->out_count; i++) {
        size_t n = align(bytes_of(&c->out[i], KERNEL_F32) + 1);
        o->out_cpu[i] = aligned_alloc(256, n);
        o->out_gpu[i] = aligned_alloc(256, n);
        o->again[i] = aligned_alloc(256, n);
    }
}

static void give(struct operands *o)
{
    for (int i = 0; i < KERNEL_PORTS; i++) {
        free(o->in_cpu[i]);
        free(o->in_gpu[i]);
        free(o->out_cpu[i]);
        free(o->out_gpu[i]);
        free(o->again[i]);
    }
}

/* Without one of its results the others must have the same bits. */
static bool is_whole(const struct call *c, enum kernel_family family, int dtype, uint64_t seed,
                     struct operands *o)
{
    bool is_well = true;
    for (int k = 0; k < c->out_count && c->out_count > 1 && !c->out[0].over; k++) {
        dropped = k;
        enum ebb_status status = run_gpu(c, family, dtype, o, o->again, 1);
        dropped = -1;
        if (status != EBB_OK) {
            report(kernel_family_name(family), dtype, seed, err.message);
            return false;
        }
        for (int i = 0; i < c->out_count; i++)
            if (i != k && memcmp(o->out_gpu[i], o->again[i], bytes_of(&c->out[i], dtype)) != 0) {
                report(kernel_family_name(family), dtype, seed,
                       "a result has other bits when another is not wanted");
                is_well = false;
            }
    }
    return is_well;
}

/* Both, compared; false: reported. */
static bool compare(const struct call *f32, const struct call *c, enum kernel_family family,
                    int dtype, uint64_t seed, struct operands *o)
{
    const char *name = kernel_family_name(family);
    char text[1100];
    bool is_well = true;
    calls++;
    if (run_cpu(f32, family, o) != EBB_OK) {
        (void)snprintf(text, sizeof text, "cpu: %s", err.message);
        report(name, dtype, seed, text);
        return false;
    }
    if (run_gpu(c, family, dtype, o, o->out_gpu, 1) != EBB_OK ||
        run_gpu(c, family, dtype, o, o->again, 1) != EBB_OK) {
        (void)snprintf(text, sizeof text, "gpu: %s", err.message);
        report(name, dtype, seed, text);
        return false;
    }
    for (int i = 0; i < c->out_count; i++) {
        double d = difference(&c->out[i], dtype, o->out_cpu[i], o->out_gpu[i]);
        double most = tolerance_of(c, c->out[i].kind, dtype);
        if (d < 0 || d > most) {
            (void)snprintf(text, sizeof text, "result %d differs by %g, allowed %g (%lld elements)",
                           i, d, most, (long long)c->out[i].count);
            report(name, dtype, seed, text);
            is_well = false;
        }
        if (memcmp(o->out_gpu[i], o->again[i], bytes_of(&c->out[i], dtype)) != 0) {
            (void)snprintf(text, sizeof text, "result %d has other bits when repeated", i);
            report(name, dtype, seed, text);
            is_well = false;
        }
    }
    return is_well && is_whole(c, family, dtype, seed, o);
}

static void build(enum kernel_family family, uint64_t seed, int dtype, struct call *c)
{
    memset(c, 0, sizeof *c);
    state = seed;
    builders[family](c, dtype);
}

static void one(enum kernel_family family, int dtype, uint64_t seed)
{
    struct call f32, c;
    struct operands o = {.in_cpu = {NULL}};
    build(family, seed, KERNEL_F32, &f32);
    build(family, seed, dtype, &c);
    if (dtype != KERNEL_F32 && (c.has_no_low || (c.has_no_f16 && dtype == KERNEL_F16)))
        return;
    if (family ==
        KERNEL_FAMILY_CONV) { /* the CPU wants no relu or bias behind a plain layout of its own */
        f32.d.conv.conv.dtype = KERNEL_F32;
        f32.d.conv.conv.is_small = 0;
    }
    if (family == KERNEL_FAMILY_MATMUL)
        f32.d.matmul.out_dtype = KERNEL_F32;
    take(&c, &o, dtype);
    (void)compare(&f32, &c, family, dtype, seed, &o);
    give(&o);
}

/* ---- gradients from forward passes ----------------------------------------------------------------------- */

/* What the CPU made, as an input of both. */
static void pass_on(const struct call *g, int to, int dtype, const void *made, struct operands *p)
{
    bool is_low = g->in[to].kind == NUMBER && dtype != KERNEL_F32;
    memcpy(p->in_cpu[to], made, bytes_of(&g->in[to], KERNEL_F32));
    for (int64_t i = 0; i < g->in[to].count; i++)
        if (is_low)
            ((uint16_t *)p->in_gpu[to])[i] = to_low(dtype, ((const float *)made)[i]);
        else
            ((float *)p->in_gpu[to])[i] = ((const float *)made)[i];
}

/* The same, packed: x, o, lse, do -> dx. */
static void chain_packed(const struct call *f, int dtype, uint64_t seed, struct operands *o)
{
    struct call g, g32;
    struct operands p = {.in_cpu = {NULL}};
    const struct kernel_attention *a = &f->d.attention;
    int64_t q = a->rows * a->tq;
    memset(&g, 0, sizeof g);
    g.d.attention_grad = *a;
    add_in(&g, NUMBER, 3 * q * a->d, -1, 1);
    add_in(&g, NUMBER, q * a->d, -1, 1);
    add_in(&g, FLOAT, q, -1, 1);
    add_in(&g, NUMBER, q * a->d, -1, 1);
    add_out(&g, NUMBER, 3 * q * a->d);
    g.loose = 2;
    g32 = g;
    take(&g, &p, dtype);
    memcpy(p.in_cpu[0], o->in_cpu[0], bytes_of(&g.in[0], KERNEL_F32));
    memcpy(p.in_gpu[0], o->in_gpu[0], bytes_of(&g.in[0], dtype));
    pass_on(&g, 1, dtype, o->out_cpu[0], &p);
    pass_on(&g, 2, dtype, o->out_cpu[1], &p);
    (void)compare(&g32, &g, KERNEL_FAMILY_ATTENTION_GRAD, dtype, seed, &p);
    give(&p);
}

/* attention: the CPU's o and lse are what both gradients get. */
static void chain_attention(int dtype, uint64_t seed, int times)
{
    struct call f, g32, g;
    struct operands o = {.in_cpu = {NULL}}, p = {.in_cpu = {NULL}};
    build(KERNEL_FAMILY_ATTENTION, seed, KERNEL_F32, &f);
    const struct kernel_attention *a = &f.d.attention;
    int64_t q = a->rows * a->tq, k = a->rows * a->tk;
    take(&f, &o, dtype);
    if (run_cpu(&f, KERNEL_FAMILY_ATTENTION, &o) != EBB_OK)
        return;
    if (a->heads) {
        chain_packed(&f, dtype, seed, &o);
        give(&o);
        return;
    }
    memset(&g, 0, sizeof g);
    g.d.attention_grad = *a;
    add_in(&g, NUMBER, q * a->d, -1, 1);
    add_in(&g, NUMBER, k * a->d, -1, 1);
    add_in(&g, NUMBER, k * a->dv, -1, 1);
    add_in(&g, NUMBER, q * a->dv, -1, 1);
    add_in(&g, FLOAT, q, -1, 1);
    add_in(&g, NUMBER, q * a->dv, -1, 1);
    if (a->mask_rows)
        add_in(&g, NUMBER, a->mask_rows * a->tq * a->tk, -2, 0);
    add_out(&g, NUMBER, q * a->d);
    add_out(&g, NUMBER, k * a->d);
    add_out(&g, NUMBER, k * a->dv);
    g.loose = 2;
    g32 = g;
    take(&g, &p, dtype);
    for (int i = 0; i < 3; i++) {
        memcpy(p.in_cpu[i], o.in_cpu[i], bytes_of(&g.in[i], KERNEL_F32));
        memcpy(p.in_gpu[i], o.in_gpu[i], bytes_of(&g.in[i], dtype));
    }
    if (a->mask_rows) {
        memcpy(p.in_cpu[6], o.in_cpu[3], bytes_of(&g.in[6], KERNEL_F32));
        memcpy(p.in_gpu[6], o.in_gpu[3], bytes_of(&g.in[6], dtype));
    }
    memcpy(p.in_cpu[3], o.out_cpu[0], bytes_of(&g.in[3], KERNEL_F32));
    for (int64_t i = 0; i < g.in[3].count; i++)
        if (dtype == KERNEL_F32)
            ((float *)p.in_gpu[3])[i] = ((float *)o.out_cpu[0])[i];
        else
            ((uint16_t *)p.in_gpu[3])[i] = to_low(dtype, ((float *)o.out_cpu[0])[i]);
    memcpy(p.in_cpu[4], o.out_cpu[1], bytes_of(&g.in[4], KERNEL_F32));
    memcpy(p.in_gpu[4], o.out_cpu[1], bytes_of(&g.in[4], KERNEL_F32));
    (void)compare(&g32, &g, KERNEL_FAMILY_ATTENTION_GRAD, dtype, seed, &p);
    for (int t = 0; t < times; t++) { /* repeats against the first */
        if (run_gpu(&g, KERNEL_FAMILY_ATTENTION_GRAD, dtype, &p, p.again, 1) != EBB_OK) {
            report("attention_grad", dtype, seed, err.message);
            break;
        }
        for (int i = 0; i < 3; i++)
            if (memcmp(p.out_gpu[i], p.again[i], bytes_of(&g.out[i], dtype)) != 0) {
                report("attention_grad", dtype, seed, "a repeat has other bits");
                t = times;
            }
    }
    give(&o);
    give(&p);
}

/* layer norm: statistics of the CPU. */
static void chain_layer_norm(int dtype, uint64_t seed)
{
    struct call f, g, g32;
    struct operands o = {.in_cpu = {NULL}}, p = {.in_cpu = {NULL}};
    build(KERNEL_FAMILY_LAYER_NORM, seed, KERNEL_F32, &f);
    struct kernel_layer_norm_desc d = f.d.layer_norm;
    take(&f, &o, dtype);
    if (run_cpu(&f, KERNEL_FAMILY_LAYER_NORM, &o) != EBB_OK)
        return;
    memset(&g, 0, sizeof g);
    g.d.layer_norm_grad = d;
    add_in(&g, NUMBER, d.rows * d.n, -1, 1);
    add_in(&g, NUMBER, d.rows * d.n, -1, 1);
    add_in(&g, FLOAT, d.n, 0.5, 1.5);
    add_in(&g, FLOAT, d.is_rms ? 0 : d.rows, 0, 1);
    add_in(&g, FLOAT, d.rows, 0, 1);
    if (pick(0, 1)) /* what the input got before */
        add_in(&g, NUMBER, d.rows * d.n, -1, 1);
    add_out(&g, NUMBER, d.rows * d.n);
    add_out(&g, FLOAT, d.n);
    add_out(&g, FLOAT, d.n);
    g.loose = 3;
    g32 = g;
    take(&g, &p, dtype);
    memcpy(p.in_cpu[1], o.in_cpu[0], bytes_of(&g.in[1], KERNEL_F32));
    memcpy(p.in_gpu[1], o.in_gpu[0], bytes_of(&g.in[1], dtype));
    for (int k = 0; k < 2; k++) {
        memcpy(p.in_cpu[3 + k], o.out_cpu[1 + k], bytes_of(&g.in[3 + k], KERNEL_F32));
        memcpy(p.in_gpu[3 + k], o.out_cpu[1 + k], bytes_of(&g.in[3 + k], KERNEL_F32));
    }
    (void)compare(&g32, &g, KERNEL_FAMILY_LAYER_NORM_GRAD, dtype, seed, &p);
    give(&o);
    give(&p);
}

/* head: lse of the CPU. */
static void chain_entropy(int dtype, uint64_t seed)
{
    struct call f, g, g32;
    struct operands o = {.in_cpu = {NULL}}, p = {.in_cpu = {NULL}};
    build(KERNEL_FAMILY_PRODUCT_ENTROPY, seed, KERNEL_F32, &f);
    struct kernel_product_entropy_desc d = f.d.product_entropy;
    take(&f, &o, dtype);
    if (run_cpu(&f, KERNEL_FAMILY_PRODUCT_ENTROPY, &o) != EBB_OK)
        return;
    memset(&g, 0, sizeof g);
    g.d.product_entropy_grad = d;
    add_in(&g, FLOAT, 1, 1, 1);
    add_in(&g, NUMBER, d.n * d.k, -1, 1);
    add_in(&g, NUMBER, d.classes * d.k, -0.5, 0.5);
    add_in(&g, INDEX, d.n, 0, (double)(d.classes - 1));
    add_in(&g, FLOAT, d.n, 0, 1);
    add_out(&g, NUMBER, d.n * d.k);
    add_out(&g, FLOAT, d.classes * d.k);
    g.loose = 2;
    g32 = g;
    take(&g, &p, dtype);
    for (int k = 0; k < 3; k++) {
        memcpy(p.in_cpu[1 + k], o.in_cpu[k], bytes_of(&g.in[1 + k], KERNEL_F32));
        memcpy(p.in_gpu[1 + k], o.in_gpu[k], bytes_of(&g.in[1 + k], dtype));
    }
    memcpy(p.in_cpu[4], o.out_cpu[1], bytes_of(&g.in[4], KERNEL_F32));
    memcpy(p.in_gpu[4], o.out_cpu[1], bytes_of(&g.in[4], KERNEL_F32));
    (void)compare(&g32, &g, KERNEL_FAMILY_PRODUCT_ENTROPY_GRAD, dtype, seed, &p);
    give(&o);
    give(&p);
}

/* maxima: winners of the CPU, for gradient and indices. */
static void chain_winners(int dtype, uint64_t seed)
{
    struct call f, g, g32, i;
    struct operands o = {.in_cpu = {NULL}}, p = {.in_cpu = {NULL}}, q = {.in_cpu = {NULL}};
    memset(&f, 0, sizeof f);
    state = seed;
    pool(&f.d.pool.pool);
    f.d.pool.f = KERNEL_MAX_POOL;
    const struct kernel_pool *d = &f.d.pool.pool;
    int64_t in = d->planes * d->lanes, out = in;
    for (int k = 0; k < 3; k++) {
        in *= d->in[k];
        out *= d->out[k];
    }
    add_in(&f, NUMBER, in, -1, 1);
    add_out(&f, NUMBER, out);
    add_out(&f, BYTES, out);
    take(&f, &o, dtype);
    if (run_cpu(&f, KERNEL_FAMILY_POOL, &o) != EBB_OK)
        return;
    memset(&g, 0, sizeof g);
    g.d.pool = f.d.pool;
    g.d.pool.f = KERNEL_MAX_POOL_GRAD;
    add_in(&g, NUMBER, out, -1, 1);
    add_in(&g, BYTES, out, 0, 1);
    add_out(&g, NUMBER, in);
    g32 = g;
    take(&g, &p, dtype);
    memcpy(p.in_cpu[1], o.out_cpu[1], (size_t)out);
    memcpy(p.in_gpu[1], o.out_cpu[1], (size_t)out);
    (void)compare(&g32, &g, KERNEL_FAMILY_POOL, dtype, seed, &p);
    if (d->lanes == 1 && dtype == KERNEL_F32) {
        memset(&i, 0, sizeof i);
        i.d.pool = f.d.pool;
        i.d.pool.f = KERNEL_MAX_POOL_INDEX;
        add_in(&i, BYTES, out, 0, 1);
        add_out(&i, INDEX, out);
        take(&i, &q, dtype);
        memcpy(q.in_cpu[0], o.out_cpu[1], (size_t)out);
        memcpy(q.in_gpu[0], o.out_cpu[1], (size_t)out);
        (void)compare(&i, &i, KERNEL_FAMILY_POOL, dtype, seed, &q);
    }
    give(&o);
    give(&p);
    give(&q);
}

/* ---- convolutions in the layouts that the table chooses --------------------------------------------------- */

/* [n, c, places] to [n, places, c], or back. */
static void turn(void *bytes, size_t e, int64_t n, int64_t c, int64_t places, bool is_back)
{
    size_t all = (size_t)(n * c * places) * e;
    unsigned char *copy = malloc(all + 1), *to = bytes;
    memcpy(copy, bytes, all);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < c; k++)
            for (int64_t p = 0; p < places; p++) {
                size_t plain = (size_t)((i * c + k) * places + p) * e,
                       last = (size_t)((i * places + p) * c + k) * e;
                memcpy(to + (is_back ? plain : last), copy + (is_back ? last : plain), e);
            }
    free(copy);
}

/* The CPU works on the plain layout, the GPU on what choose() says: pictures are folded, the rest has channels last. */
static void chain_layout(int dtype, uint64_t seed)
{
    struct call f32, c;
    struct operands o = {.in_cpu = {NULL}};
    struct kernel_conv *v = &c.d.conv.conv;
    char text[200];
    memset(&c, 0, sizeof c);
    state = seed;
    c.d.conv.pass = pick(0, 2);
    *v = (struct kernel_conv){.nd = 2,
                              .groups = 1,
                              .n = pick(1, 3),
                              .ci = ONE_OF(1, 3, 3, 4, 8),
                              .co = ONE_OF(8, 32),
                              .dtype = dtype};
    int64_t in = 1, out = 1, k = 1;
    bool is_forward = c.d.conv.pass == KERNEL_CONV_FORWARD,
         is_data = c.d.conv.pass == KERNEL_CONV_DATA;
    int64_t stride = pick(1, 2);
    for (int d = 0; d < 2; d++) {
        v->k[d] = ONE_OF(1, 3, 4, 7);
        v->in[d] = pick(5, 12) * 2;
        v->stride[d] = stride;
        v->dilation[d] = 1;
        v->pad[d] = pick(0, v->k[d] / 2);
        v->out[d] = (v->in[d] + 2 * v->pad[d] - v->k[d]) / stride + 1;
        in *= v->in[d];
        out *= v->out[d];
        k *= v->k[d];
    }
    v->has_bias = is_forward && pick(0, 1);
    v->has_relu = is_forward && pick(0, 1);
    int64_t x = v->n * v->ci * in, y = v->n * v->co * out, w = v->co * v->ci * k;
    add_in(&c, NUMBER, is_data ? y : x, -1, 1);
    add_in(&c, NUMBER, c.d.conv.pass == KERNEL_CONV_WEIGHTS ? y : w, -1, 1);
    if (v->has_bias)
        add_in(&c, FLOAT, v->co, -1, 1);
    add_out(&c, c.d.conv.pass == KERNEL_CONV_WEIGHTS ? FLOAT : NUMBER,
            is_forward ? y
            : is_data  ? x
                       : w);
    f32 = c;
    f32.d.conv.conv.dtype = KERNEL_F32;
    take(&c, &o, dtype);
    calls++;
    enum ebb_status status = run_cpu(&f32, KERNEL_FAMILY_CONV, &o);
    if (status == EBB_OK)
        status = plugin->kernels->choose(gpu, v, (enum kernel_conv_pass)c.d.conv.pass, false, &err);
    size_t e = dtype == KERNEL_F32 ? 4 : 2;
    if (v->x_block && !is_data)
        turn(o.in_gpu[0], e, v->n, v->ci, in, false);
    if (!is_forward)
        turn(o.in_gpu[is_data ? 0 : 1], e, v->n, v->co, out, false);
    if (status == EBB_OK)
        status = run_gpu(&c, KERNEL_FAMILY_CONV, dtype, &o, o.out_gpu, 1);
    if (status == EBB_OK)
        status = run_gpu(&c, KERNEL_FAMILY_CONV, dtype, &o, o.again, 1);
    bool is_same =
        status == EBB_OK && memcmp(o.out_gpu[0], o.again[0], bytes_of(&c.out[0], dtype)) == 0;
    if (is_forward || is_data)
        turn(o.out_gpu[0], e, v->n, is_data ? v->ci : v->co, is_data ? in : out, true);
    double d = status == EBB_OK ? difference(&c.out[0], dtype, o.out_cpu[0], o.out_gpu[0]) : 0;
    if (status != EBB_OK)
        report("conv layout", dtype, seed, err.message);
    else if (!is_same || d < 0 || d > (dtype == KERNEL_F32 ? 2e-5 : 2e-2)) {
        (void)snprintf(text, sizeof text, "pass %d blocks %d %d differs by %g%s",
                       (int)c.d.conv.pass, v->x_block, v->y_block, d,
                       is_same ? "" : ", other bits when repeated");
        report("conv layout", dtype, seed, text);
    }
    give(&o);
}

/* ---- many repeats ------------------------------------------------------------------------------------------ */

/* The same call over and over: its results must have the bits of the first. */
static void repeat(const char *what, struct call *c, enum kernel_family family, int times)
{
    struct operands o = {.in_cpu = {NULL}};
    uint64_t begin = ebb_clock_ns();
    int done = 0;
    state = 99;
    take(c, &o, KERNEL_BF16);
    if (run_gpu(c, family, KERNEL_BF16, &o, o.out_gpu, 1) != EBB_OK) {
        report(what, KERNEL_BF16, 99, err.message);
        give(&o);
        return;
    }
    for (bool is_same = true; done < times && is_same; done++) {
        is_same = run_gpu(c, family, KERNEL_BF16, &o, o.again, 1) == EBB_OK;
        for (int i = 0; i < c->out_count && is_same; i++)
            is_same = memcmp(o.out_gpu[i], o.again[i], bytes_of(&c->out[i], KERNEL_BF16)) == 0;
        if (!is_same)
            report(what, KERNEL_BF16, 99, "a repeat has other bits");
    }
    printf("%-22s %4d repeats %14.2f s\n", what, done, (double)(ebb_clock_ns() - begin) * 1e-9);
    fflush(stdout);
    give(&o);
}

static void repeat_conv(const char *what, enum kernel_conv_pass pass, int64_t ci, int64_t size,
                        int64_t k, int64_t stride, int times)
{
    struct call c;
    struct kernel_conv *v = &c.d.conv.conv;
    memset(&c, 0, sizeof c);
    c.d.conv.pass = pass;
    *v = (struct kernel_conv){.nd = 2,
                              .groups = 1,
                              .n = 16,
                              .ci = ci,
                              .co = 64,
                              .dtype = KERNEL_BF16,
                              .in = {size, size},
                              .k = {k, k},
                              .stride = {stride, stride},
                              .dilation = {1, 1},
                              .pad = {k / 2, k / 2}};
    v->out[0] = v->out[1] = (size + 2 * (k / 2) - k) / stride + 1;
    MUST(plugin->kernels->choose(gpu, v, pass, false, &err));
    int64_t x = v->n * ci * size * size, y = v->n * v->co * v->out[0] * v->out[1],
            w = v->co * ci * k * k;
    add_in(&c, NUMBER, pass == KERNEL_CONV_DATA ? y : x, -1, 1);
    add_in(&c, NUMBER, pass == KERNEL_CONV_WEIGHTS ? y : w, -1, 1);
    add_out(&c, pass == KERNEL_CONV_WEIGHTS ? FLOAT : NUMBER, pass == KERNEL_CONV_DATA ? x : w);
    repeat(what, &c, KERNEL_FAMILY_CONV, times);
}

static void repeats(int times)
{
    struct call c;
    struct kernel_attention a = {.rows = 24,
                                 .tq = 1024,
                                 .tk = 1024,
                                 .d = 64,
                                 .dv = 64,
                                 .scale = 0.125f,
                                 .is_causal = 1,
                                 .heads = 12,
                                 .mask_period = 1};
    int64_t q = a.rows * a.tq;
    memset(&c, 0, sizeof c);
    c.d.attention_grad = a;
    add_in(&c, NUMBER, 3 * q * a.d, -1, 1);
    add_in(&c, NUMBER, q * a.d, -1, 1);
    add_in(&c, FLOAT, q, 6, 7);
    add_in(&c, NUMBER, q * a.d, -1, 1);
    add_out(&c, NUMBER, 3 * q * a.d);
    repeat("attention_grad", &c, KERNEL_FAMILY_ATTENTION_GRAD, times);
    repeat_conv("conv data 3x3", KERNEL_CONV_DATA, 64, 28, 3, 1, times);
    repeat_conv("conv weights 3x3", KERNEL_CONV_WEIGHTS, 64, 28, 3, 1, times);
    repeat_conv("conv weights 1x1", KERNEL_CONV_WEIGHTS, 256, 28, 1, 1, times);
    repeat_conv("conv data 3x3 / 2", KERNEL_CONV_DATA, 64, 28, 3, 2, times);
    repeat_conv("conv weights picture", KERNEL_CONV_WEIGHTS, 3, 112, 7, 2, times);
}

static bool is_asked(int count, char **names, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

static void chains(int cases, int count, char **names)
{
    for (int dtype = KERNEL_F32; dtype <= KERNEL_F16; dtype++)
        for (int k = 0; k < cases; k++) {
            uint64_t seed = (uint64_t)(7000 + k * 3 + dtype);
            if (is_asked(count, names, "attention_grad"))
                chain_attention(dtype, seed, 2);
            if (is_asked(count, names, "layer_norm_grad"))
                chain_layer_norm(dtype, seed);
            if (is_asked(count, names, "product_entropy_grad") && dtype != KERNEL_F16)
                chain_entropy(dtype, seed);
            if (is_asked(count, names, "pool"))
                chain_winners(dtype, seed);
            for (uint64_t i = 0; i < 4 && is_asked(count, names, "conv") && dtype != KERNEL_F16;
                 i++)
                chain_layout(dtype, seed + 1000 * i);
        }
}

/* A wrong index and a wrong target lower the fault word to their op. */
static void check_faults(void)
{
    struct call c;
    struct operands o = {.in_cpu = {NULL}};
    memset(&c, 0, sizeof c);
    c.d.index = (struct kernel_index_desc){1, 10, 8, 4, -1, KERNEL_SELECT};
    add_in(&c, NUMBER, 80, -1, 1);
    add_in(&c, INDEX, 4, 0, 9);
    add_out(&c, NUMBER, 32);
    state = 5;
    take(&c, &o, KERNEL_F32);
    ((int64_t *)o.in_gpu[1])[2] = 10;
    if (run_gpu(&c, KERNEL_FAMILY_INDEX, KERNEL_F32, &o, o.out_gpu, 1) != EBB_EINPUT)
        report("index", 0, 5, "a wrong index goes unseen");
    ((int64_t *)o.in_gpu[1])[2] = 9;
    if (run_gpu(&c, KERNEL_FAMILY_INDEX, KERNEL_F32, &o, o.out_gpu, 1) != EBB_OK)
        report("index", 0, 5, "the fault word is not cleared");
    give(&o);
}

int main(int argc, char **argv)
{
    int cases = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 6, count = argc > 2 ? argc - 2 : 0;
    uint64_t begin = ebb_clock_ns();
    MUST(kernel_plugin_load("cuda", &plugin, &err));
    MUST(plugin->device->create(&device, NULL, &err));
    MUST(device->table->reserve(device, DEVICE_T0, SLAB, &err));
    stage = device->table->host_take(device, STAGE);
    if (!stage)
        return 1;
    MUST(plugin->kernels->open(&gpu, device, NULL, 1, &err));
    MUST(kernel_cpu.open(&cpu, NULL, NULL, 4, &err));
    for (int f = 0; f < KERNEL_FAMILIES; f++) {
        const char *name = kernel_family_name((enum kernel_family)f);
        int before = failures, done = calls;
        uint64_t start = ebb_clock_ns();
        if (!builders[f] || !is_asked(count, argv + 2, name))
            continue;
        int more = f == KERNEL_FAMILY_UNARY || f == KERNEL_FAMILY_UNARY_GRAD ||
                           f == KERNEL_FAMILY_UPDATE || f == KERNEL_FAMILY_UPDATE_SPLIT
                       ? 6
                   : f == KERNEL_FAMILY_MATMUL || f == KERNEL_FAMILY_CONV ||
                           f == KERNEL_FAMILY_BINARY || f == KERNEL_FAMILY_INDEX ||
                           f == KERNEL_FAMILY_LINES || f == KERNEL_FAMILY_POOL
                       ? 3
                       : 1;
        for (int dtype = KERNEL_F32; dtype <= KERNEL_F16; dtype++)
            for (int k = 0; k < cases * more; k++)
                one((enum kernel_family)f, dtype, (uint64_t)(f * 100000 + k * 3 + dtype));
        printf("%-22s %4d calls %3d failed %6.2f s\n", name, calls - done, failures - before,
               (double)(ebb_clock_ns() - start) * 1e-9);
        fflush(stdout);
    }
    chains(cases, count, argv + 2);
    check_faults();
    if (is_asked(count, argv + 2, "repeats"))
        repeats(cases > 1 ? 1000 : 1);
    printf("check_table: %d calls, %d failed, %.1f s\n", calls, failures,
           (double)(ebb_clock_ns() - begin) * 1e-9);
    plugin->kernels->close(gpu);
    kernel_cpu.close(cpu);
    device->table->host_give(device, stage);
    plugin->device->destroy(device);
    return failures ? 1 : 0;
}
