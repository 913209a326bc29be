/* Matrix products, convolutions, pooling and attention against plain loops in double; bits that
 * must not depend on the thread count. */
#include "test.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>

#include "base/heap.h"
#include "base/rng.h"
#include "kernel/context.h"
#include "kernel/internal.h"
#include "kernel/kernel.h"

static uint64_t state = 42;

static float *random_floats(int64_t n)
{
    float *x = ebb_alloc((size_t)(n ? n : 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((double)(ebb_splitmix64(&state) >> 11) * 0x1p-52 - 1.0);
    return x;
}

static struct kernel_context *context(int threads)
{
    struct kernel_context *c;
    struct ebb_error err;
    CHECK_OK(kernel_cpu.open(&c, NULL, NULL, threads, &err), &err);
    return c;
}

/* Asks what the call needs, then makes it. */
static void call(struct kernel_context *c, enum kernel_family family, const void *desc,
                 struct kernel_args args)
{
    struct kernel_need need = {.flops = 0};
    struct ebb_error err;
    CHECK_OK(kernel_cpu.need(c, family, desc, &args, &need, &err), &err);
    args.workspace = ebb_alloc_aligned(256, (size_t)need.workspace_bytes + 1);
    size_t cached = c->count; /* primitives of oneDNN */
    CHECK_OK(kernel_run(c, family, desc, &args, &err), &err);
    CHECK_EQ(c->count, cached); /* found again */
    ebb_free(args.workspace);
}
#define CALL(family, desc, ...)                                                                    \
    call(c, KERNEL_FAMILY_##family, desc, (struct kernel_args){__VA_ARGS__})

static void check_near(const float *got, const double *want, int64_t n, const char *what)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= 2e-5 * fabs(want[i]) + 2e-6 * largest))
            fail_msg("%s: element %lld is %.9g, expected %.9g", what, (long long)i, (double)got[i],
                     want[i]);
}

/* ---- matmul --------------------------------------------------------------------------------- */

static void matmul_case(struct kernel_context *c, int64_t batch_a, int64_t batch_b, int64_t m,
                        int64_t n, int64_t k, bool ta, bool tb, bool has_bias)
{
    int64_t batch = batch_a > batch_b ? batch_a : batch_b;
    struct kernel_matmul d = {.rank = 3,
                              .has_bias = has_bias,
                              .a_dims = {batch_a, m, k},
                              .b_dims = {batch_b, k, n},
                              .c_dims = {batch, m, n}};
    d.a_strides[0] = m * k, d.a_strides[1] = ta ? 1 : k, d.a_strides[2] = ta ? m : 1;
    d.b_strides[0] = k * n, d.b_strides[1] = tb ? 1 : n, d.b_strides[2] = tb ? k : 1;
    float *a = random_floats(batch_a * m * k), *b = random_floats(batch_b * k * n);
    float *bias = random_floats(n), *out = random_floats(batch * m * n);
    double *want = ebb_calloc((size_t)(batch * m * n), sizeof *want);
    for (int64_t z = 0; z < batch; z++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = has_bias ? (double)bias[j] : 0;
                for (int64_t p = 0; p < k; p++)
                    sum +=
                        (double)a[z % batch_a * m * k + i * d.a_strides[1] + p * d.a_strides[2]] *
                        (double)b[z % batch_b * k * n + p * d.b_strides[1] + j * d.b_strides[2]];
                want[(z * m + i) * n + j] = sum;
            }
    CALL(MATMUL, &d, .in = {a, b, has_bias ? bias : NULL}, .out = {out});
    check_near(out, want, batch * m * n, "matmul");
    ebb_free(a), ebb_free(b), ebb_free(bias), ebb_free(out), ebb_free(want);
}

TEST(matmul__as_plain_loops)
{
    for (int threads = 1; threads <= 2; threads++) {
        struct kernel_context *c = context(threads);
        for (int t = 0; t < 4; t++) {
            matmul_case(c, 1, 1, 7, 5, 3, t & 1, t & 2, false);
            matmul_case(c, 3, 3, 17, 33, 20, t & 1, t & 2, true);
            matmul_case(c, 2, 1, 64, 16, 1, t & 1, t & 2, false);
            matmul_case(c, 1, 4, 9, 31, 70, t & 1, t & 2, true);
        }
        kernel_cpu.close(c);
    }
}

TEST(matmul__without_terms_is_the_bias)
{
    struct kernel_context *c = context(1);
    matmul_case(c, 1, 1, 3, 2, 0, false, false, true);
    kernel_cpu.close(c);
}

/* Below some work one thread does it: the bits are those of any number of threads. */
TEST(matmul__of_little_work_is_one_threads)
{
    struct kernel_context *one = context(1);
    for (int threads = 2; threads <= 8; threads *= 2) {
        struct kernel_context *c = context(threads);
        for (unsigned how = 0; how < 60; how++) {
            int64_t m = 1 + how * 7 % 48, n = 8 + how * 13 % 90, k = how % 5 ? 1 + how * 11 : 1024;
            if (2 * m * n * k > 500000)
                continue;
            struct kernel_matmul d = {.rank = 2,
                                      .adds = how % 3 ? KERNEL_ADDS_NOTHING : KERNEL_ADDS_ITSELF,
                                      .a_dims = {m, k},
                                      .b_dims = {k, n},
                                      .c_dims = {m, n},
                                      .a_strides = {how & 1 ? 1 : k, how & 1 ? m : 1},
                                      .b_strides = {how & 2 ? 1 : n, how & 2 ? k : 1}};
            size_t bytes = (size_t)(m * n) * sizeof(float);
            float *a = random_floats(m * k), *b = random_floats(k * n);
            float *want = random_floats(m * n), *out = ebb_alloc(bytes);
            memcpy(out, want, bytes);
            CALL(MATMUL, &d, .in = {a, b}, .out = {out});
            call(one, KERNEL_FAMILY_MATMUL, &d, (struct kernel_args){.in = {a, b}, .out = {want}});
            CHECK(memcmp(out, want, bytes) == 0);
            ebb_free(a), ebb_free(b), ebb_free(want), ebb_free(out);
        }
        CHECK(c->count > 0);
        for (size_t i = 0; i < c->capacity; i++)
            if (c->items[i] && c->items[i]->primitive)
                CHECK_EQ(c->items[i]->threads, 1);
        kernel_cpu.close(c);
    }
    kernel_cpu.close(one);
}

struct crowd {
    _Atomic int64_t items;
    _Atomic int others; /* pieces of other threads */
};

static void note_thread(void *argument, int64_t first, int64_t last)
{
    struct crowd *crowd = argument;
    crowd->items += last - first;
    crowd->others += omp_get_thread_num() != 0;
}

TEST(parallel__little_work_stays_on_this_thread)
{
    struct kernel_context *c = context(2);
    struct crowd little = {0}, much = {0};
    kernel_parallel(c, 6, KERNEL_GRAIN / 2, note_thread, &little);
    CHECK_EQ(little.items, 6);
    CHECK_EQ(little.others, 0);
    kernel_parallel(c, 64, KERNEL_GRAIN, note_thread, &much);
    CHECK_EQ(much.items, 64);
    CHECK_EQ(much.others, 32);
    kernel_cpu.close(c);
}

/* Sums of our own go over k in order, in double, and are rounded once: the same bits for every block. Those of
 * few terms are floats, added last. */
static void own_case(struct kernel_context *c, int64_t batch, int64_t m, int64_t n, int64_t k,
                     unsigned how)
{
    bool ta = how & 1, tb = how & 2, has_bias = how & 4, adds = how & 8, has_relu = how & 16;
    struct kernel_matmul d = {.rank = 3,
                              .has_bias = has_bias && !adds,
                              .adds = adds ? KERNEL_ADDS_ITSELF : KERNEL_ADDS_NOTHING,
                              .has_relu = has_relu,
                              .a_dims = {batch, m, k},
                              .b_dims = {1, k, n},
                              .c_dims = {batch, m, n}};
    d.a_strides[0] = m * k, d.a_strides[1] = ta ? 1 : k, d.a_strides[2] = ta ? m : 1;
    d.b_strides[0] = k * n, d.b_strides[1] = tb ? 1 : n, d.b_strides[2] = tb ? k : 1;
    float *a = random_floats(batch * m * k), *b = random_floats(k * n), *bias = random_floats(n);
    float *out = random_floats(batch * m * n), *want = ebb_alloc((size_t)(batch * m * n) * 4);
    const int64_t as[] = {d.a_strides[1], d.a_strides[2]}, bs[] = {d.b_strides[1], d.b_strides[2]};
    if (batch == 1) { /* as a layer's gradients come */
        int64_t *dims[] = {d.a_dims, d.b_dims, d.c_dims, d.a_strides, d.b_strides};
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
            memmove(dims[i], dims[i] + 1, 2 * sizeof **dims);
        d.rank = 2;
    }
    for (int64_t i = 0; i < batch * m; i++)
        for (int64_t j = 0; j < n; j++) {
            float begin = adds ? out[i * n + j] : d.has_bias ? bias[j] : 0, few = 0;
            double sum = (double)begin;
            for (int64_t p = 0; p < k; p++) {
                float x = a[i / m * m * k + i % m * as[0] + p * as[1]],
                      y = b[p * bs[0] + j * bs[1]];
                sum += (double)x * (double)y;
                few = p ? few + x * y : x * y;
            }
            float got = kernel_matmul_is_thin(&d) ? begin + few : (float)sum;
            want[i * n + j] = has_relu && got < 0 ? 0 : got;
        }
    kernel_matmul_own(c, &d, a, b, bias, out);
    CHECK(memcmp(out, want, (size_t)(batch * m * n) * 4) == 0);
    ebb_free(a), ebb_free(b), ebb_free(bias), ebb_free(out), ebb_free(want);
}

TEST(matmul__of_our_own_has_the_bits_of_plain_loops)
{
    for (int threads = 1; threads <= 3; threads++) {
        struct kernel_context *c = context(threads);
        for (unsigned how = 0; how < 32; how++) {
            own_case(c, 1, 1, 1, 1, how);
            own_case(c, 2, 5, 9, 7, how);
            own_case(c, 1, 31, 70, 300, how);
            own_case(c, 3, 24, 8, 256, how);
            for (int64_t k = 1; k <= KERNEL_THIN + 1; k++)
                own_case(c, 1, 67, 1 + 37 * k, k, how);
        }
        kernel_cpu.close(c);
    }
}

/* C = A B + r, beside r and over it: the same bits. */
static void sum_case(struct kernel_context *c, int64_t m, int64_t n, int64_t k, unsigned how)
{
    bool ta = how & 1, tb = how & 2;
    struct kernel_matmul d = {.rank = 2,
                              .adds = KERNEL_ADDS_SUM,
                              .a_dims = {m, k},
                              .b_dims = {k, n},
                              .c_dims = {m, n},
                              .a_strides = {ta ? 1 : k, ta ? m : 1},
                              .b_strides = {tb ? 1 : n, tb ? k : 1}};
    float *a = random_floats(m * k), *b = random_floats(k * n), *r = random_floats(m * n);
    float *out = random_floats(m * n);
    double *want = ebb_calloc((size_t)(m * n), sizeof *want);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            want[i * n + j] = (double)r[i * n + j];
            for (int64_t p = 0; p < k; p++)
                want[i * n + j] += (double)a[i * d.a_strides[0] + p * d.a_strides[1]] *
                                   (double)b[p * d.b_strides[0] + j * d.b_strides[1]];
        }
    CALL(MATMUL, &d, .in = {a, b, NULL, r}, .out = {out});
    check_near(out, want, m * n, "a product added to a sum");
    CALL(MATMUL, &d, .in = {a, b, NULL, r}, .out = {r});
    CHECK(memcmp(out, r, (size_t)(m * n) * sizeof *r) == 0);
    ebb_free(a), ebb_free(b), ebb_free(r), ebb_free(out), ebb_free(want);
}

TEST(matmul__adds_to_a_sum_in_its_place)
{
    for (int threads = 1; threads <= 3; threads++) {
        struct kernel_context *c = context(threads);
        for (unsigned how = 0; how < 4; how++) {
            sum_case(c, 40, 70, 0, how);
            for (int64_t k = 1; k <= KERNEL_THIN + 1; k++)
                sum_case(c, 33, 70, k, how);
            sum_case(c, 130, 258, 90, how); /* the library's */
            sum_case(c, 512, 300, 40, how);
        }
        kernel_cpu.close(c);
    }
}

/* With many threads long sums are cut, instead of giving every thread a result of its own. */
TEST(matmul__of_long_sums_takes_little_in_many_threads)
{
    enum { M = 768, K = 4096 };
    float *a = random_floats(M * K), *b = random_floats(M * K);
    float *out[3] = {random_floats(M * M), random_floats(M * M), random_floats(M * M)};
    static const int threads[3] = {1, 16, 64};
    struct kernel_need need[3] = {{.flops = 0}};
    struct ebb_error err;
    for (int t = 0; t < 3; t++) {
        struct kernel_context *c = context(threads[t]);
        struct kernel_matmul d = {.rank = 2,
                                  .a_dims = {M, K},
                                  .b_dims = {K, M},
                                  .c_dims = {M, M},
                                  .a_strides = {1, M},
                                  .b_strides = {M, 1}};
        struct kernel_args args = {.in = {a, b}, .out = {out[t]}};
        CHECK_OK(kernel_cpu.need(c, KERNEL_FAMILY_MATMUL, &d, &args, &need[t], &err), &err);
        CALL(MATMUL, &d, .in = {a, b}, .out = {out[t]});
        kernel_cpu.close(c);
        CHECK(need[t].workspace_bytes <= need[0].workspace_bytes + KERNEL_SCRATCH);
        for (int64_t i = 0; i < M * M; i++)
            CHECK(fabsf(out[t][i] - out[0][i]) < 1e-3f);
    }
    ebb_free(a), ebb_free(b), ebb_free(out[0]), ebb_free(out[1]), ebb_free(out[2]);
}

/* ---- large ones of 16 bits ------------------------------------------------------------------- */

static uint16_t *low_numbers(int64_t n, float *same)
{
    uint16_t *x = ebb_alloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = kernel_to_f16((float)((double)(ebb_splitmix64(&state) >> 11) * 0x1p-52 - 1.0));
        same[i] = kernel_from_f16(x[i]);
    }
    return x;
}

/* Near the product of the same numbers in float32, the same bits each time, and never a whole
 * operand converted. */
static void low_case(int threads, int64_t m, int64_t n, int64_t k, bool ta, bool tb, int out_dtype,
                     bool adds)
{
    struct kernel_matmul d = {.dtype = KERNEL_F16,
                              .out_dtype = out_dtype,
                              .rank = 2,
                              .has_bias = !adds,
                              .adds = adds ? KERNEL_ADDS_SUM : KERNEL_ADDS_NOTHING,
                              .a_dims = {m, k},
                              .b_dims = {k, n},
                              .c_dims = {m, n},
                              .a_strides = {ta ? 1 : k, ta ? m : 1},
                              .b_strides = {tb ? 1 : n, tb ? k : 1}};
    struct kernel_matmul wide = d;
    float *sum = adds ? random_floats(m * n) : NULL;
    float *a = random_floats(m * k), *b = random_floats(k * n), *bias = random_floats(n);
    float *want = random_floats(m * n), *got = random_floats(m * n), *again = random_floats(m * n);
    uint16_t *low_a = low_numbers(m * k, a), *low_b = low_numbers(k * n, b);
    double *exact = ebb_calloc((size_t)(m * n), sizeof *exact);
    struct kernel_args types = {.in_dtype = {KERNEL_F16, KERNEL_F16}, .in_count = 2};
    size_t bytes = (size_t)(m * n) * (out_dtype == KERNEL_F32 ? 4 : 2);
    wide.dtype = wide.out_dtype = KERNEL_F32;
    struct kernel_context *c = context(threads);
    struct kernel_need need = {.flops = 0};
    struct ebb_error err;
    CHECK(kernel_cpu.takes(c, KERNEL_FAMILY_MATMUL, &d, &types));
    CHECK_OK(kernel_cpu.need(c, KERNEL_FAMILY_MATMUL, &d, &types, &need, &err), &err);
    CHECK(need.workspace_bytes < (UINT64_C(6) << 20));
    CALL(MATMUL, &d, .in = {low_a, low_b, bias, sum}, .out = {got});
    if (adds) /* in its place */
        memcpy(again, sum, bytes);
    CALL(MATMUL, &d, .in = {low_a, low_b, bias, adds ? again : NULL}, .out = {again});
    CALL(MATMUL, &wide, .in = {a, b, bias, sum}, .out = {want});
    kernel_cpu.close(c);
    CHECK(memcmp(got, again, bytes) == 0);
    for (int64_t i = 0; i < m * n; i++) {
        float rounded = kernel_from_f16(kernel_to_f16(want[i]));
        exact[i] = out_dtype == KERNEL_F32 ? (double)want[i] : (double)rounded;
    }
    for (int64_t i = m * n; i-- > 0 && out_dtype == KERNEL_F16;) {
        uint16_t low;
        memcpy(&low, (const char *)got + i * 2, sizeof low);
        got[i] = kernel_from_f16(low);
    }
    if (out_dtype == KERNEL_F32)
        check_near(got, exact, m * n, "a large product of 16 bits");
    for (int64_t i = 0; i < m * n; i++) /* half a unit apart may round to neighbours */
        CHECK(fabs((double)got[i] - exact[i]) <= 1e-3 * fabs(exact[i]) + 1e-4);
    void *all[] = {a, b, bias, want, got, again, low_a, low_b, exact, sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ebb_free(all[i]);
}

TEST(matmul__of_many_numbers_of_16_bits_converts_no_operand_whole)
{
    for (int threads = 1; threads <= 3; threads += 2) {
        low_case(threads, 2, 3001, 1500, false, true, KERNEL_F16,
                 false); /* a layer of few samples */
        low_case(threads, 2, 1500, 3001, false, false, KERNEL_F16,
                 false); /* gradient of its input */
        low_case(threads, 1500, 3001, 2, true, false, KERNEL_F32, false); /* and of its weights */
        low_case(threads, 700, 1101, 600, false, false, KERNEL_F16, false);
        low_case(threads, 700, 1101, 600, true, true, KERNEL_F32, false);
        low_case(threads, 1500, 3001, 2, true, false, KERNEL_F32, true);
        low_case(threads, 700, 1101, 600, true, true, KERNEL_F32, true);
    }
}

/* ---- convolution ---------------------------------------------------------------------------- */

/* Threads that each take as much as the operands are too many. */
TEST(convolution__takes_little_more_in_many_threads)
{
    struct kernel_conv_desc d = {{.nd = 3,
                                  .n = 1,
                                  .ci = 4,
                                  .co = 32,
                                  .groups = 1,
                                  .dtype = kernel_has_bf16() ? KERNEL_BF16 : KERNEL_F32,
                                  .in = {128, 128, 128},
                                  .out = {128, 128, 128},
                                  .k = {3, 3, 3},
                                  .stride = {1, 1, 1},
                                  .pad = {1, 1, 1},
                                  .dilation = {1, 1, 1}},
                                 KERNEL_CONV_WEIGHTS};
    struct kernel_need need[2] = {{.flops = 0}};
    struct ebb_error err;
    for (int t = 0; t < 2; t++) {
        struct kernel_context *c = context(t ? 16 : 1);
        CHECK_OK(kernel_cpu.choose(c, &d.conv, KERNEL_CONV_WEIGHTS, false, &err), &err);
        CHECK_OK(
            kernel_cpu.need(c, KERNEL_FAMILY_CONV, &d, &(struct kernel_args){0}, &need[t], &err),
            &err);
        kernel_cpu.close(c);
    }
    uint64_t operands = UINT64_C(36) * 128 * 128 * 128 * (kernel_has_bf16() ? 2 : 4);
    CHECK(need[1].workspace_bytes <= need[0].workspace_bytes + 2 * operands + (1 << 20));
}

/* Adds x * w * y over the index space of one convolution; which of the three is written says
 * `pass`. */
static void conv_loops(const struct kernel_conv *v, enum kernel_conv_pass pass, const float *a,
                       const float *b, double *out)
{
    int64_t gi = v->ci / v->groups, go = v->co / v->groups;
    for (int64_t n = 0; n < v->n; n++)
        for (int64_t o = 0; o < v->co; o++)
            for (int64_t i = 0; i < gi; i++)
                for (int64_t y = 0; y < v->out[0] * v->out[1]; y++)
                    for (int64_t k = 0; k < v->k[0] * v->k[1]; k++) {
                        int64_t oh = y / v->out[1], ow = y % v->out[1];
                        int64_t h = oh * v->stride[0] - v->pad[0] + k / v->k[1] * v->dilation[0];
                        int64_t w = ow * v->stride[1] - v->pad[1] + k % v->k[1] * v->dilation[1];
                        if (h < 0 || h >= v->in[0] || w < 0 || w >= v->in[1])
                            continue;
                        int64_t ci = o / go * gi + i;
                        int64_t ix = ((n * v->ci + ci) * v->in[0] + h) * v->in[1] + w;
                        int64_t iw = (o * gi + i) * v->k[0] * v->k[1] + k;
                        int64_t iy = (n * v->co + o) * v->out[0] * v->out[1] + y;
                        if (pass == KERNEL_CONV_FORWARD)
                            out[iy] += (double)a[ix] * (double)b[iw];
                        else if (pass == KERNEL_CONV_DATA)
                            out[ix] += (double)a[iy] * (double)b[iw];
                        else
                            out[iw] += (double)a[ix] * (double)b[iy];
                    }
}

static void conv_case_by(struct kernel_context *c, struct kernel_conv v, bool is_small)
{
    int64_t nx = v.n * v.ci * v.in[0] * v.in[1], nw = v.co * v.ci / v.groups * v.k[0] * v.k[1];
    for (int d = 0; d < 2; d++)
        v.out[d] = (v.in[d] + 2 * v.pad[d] - v.dilation[d] * (v.k[d] - 1) - 1) / v.stride[d] + 1;
    int64_t ny = v.n * v.co * v.out[0] * v.out[1];
    v.nd = 2;
    if (is_small && !kernel_conv_is_small(&v))
        return;
    v.is_small = is_small;
    float *x = random_floats(nx), *w = random_floats(nw), *y = random_floats(ny);
    for (int pass = 0; pass < 3; pass++) {
        int64_t n = pass == 0 ? ny : pass == 1 ? nx : nw;
        double *want = ebb_calloc((size_t)n, sizeof *want);
        float *out = random_floats(n);
        const float *a = pass == 1 ? y : x, *b = pass == 2 ? y : w;
        conv_loops(&v, (enum kernel_conv_pass)pass, a, b, want);
        CALL(CONV, &((struct kernel_conv_desc){v, pass}), .in = {a, b}, .out = {out});
        check_near(out, want, n, pass == 0 ? "conv" : pass == 1 ? "conv data" : "conv weights");
        for (int64_t i = 0; is_small && i < n; i++) /* rounded once, from nearly the exact sum */
            CHECK(fabs((double)out[i] - want[i]) <= 6.1e-8 * fabs(want[i]) + 1e-12);
        ebb_free(want), ebb_free(out);
    }
    ebb_free(x), ebb_free(w), ebb_free(y);
}

static void conv_case(struct kernel_context *c, struct kernel_conv v)
{
    conv_case_by(c, v, false);
    conv_case_by(c, v, true);
}

/* [n, channels, size] into blocks of channels. */
static void to_blocks(int64_t n, int64_t channels, int64_t size, int64_t block, const float *from,
                      float *to)
{
    for (int64_t i = 0; i < n * channels * size; i++) {
        int64_t c = i / size % channels, outer = i / size / channels * channels + c / block * block;
        to[(outer * size + i % size * block) + c % block] = from[i];
    }
}

/* ---- large convolutions of 16 bits ----------------------------------------------------------- */

/* Sizes of x, y and w; where a layout has blocks, they divide the channels. */
static void sizes_of(struct kernel_conv *v, int64_t sizes[3])
{
    sizes[0] = v->n * v->ci;
    sizes[1] = v->n * v->co;
    sizes[2] = v->co * v->ci / v->groups;
    for (int d = 0; d < v->nd; d++) {
        v->out[d] =
            (v->in[d] + 2 * v->pad[d] - v->dilation[d] * (v->k[d] - 1) - 1) / v->stride[d] + 1;
        sizes[0] *= v->in[d];
        sizes[1] *= v->out[d];
        sizes[2] *= v->k[d];
    }
}

/* Near the convolution of the same numbers in float32, the same bits each time; beside 16 bits for every
 * number no more than float32 takes. */
static void low_conv_pass(struct kernel_context *c, struct kernel_conv v, int pass)
{
    int64_t size[3];
    sizes_of(&v, size);
    int ia = pass == KERNEL_CONV_DATA ? 1 : 0, ib = pass == KERNEL_CONV_WEIGHTS ? 1 : 2;
    int io = 3 - ia - ib;
    struct kernel_conv wide = v;
    struct ebb_error err;
    v.dtype = KERNEL_F16;
    v.has_bias = v.has_relu = wide.has_bias = wide.has_relu = pass == KERNEL_CONV_FORWARD;
    CHECK_OK(kernel_cpu.choose(c, &v, (enum kernel_conv_pass)pass, true, &err), &err);
    wide.x_block = v.x_block, wide.y_block = v.y_block;
    float *a = random_floats(size[ia]), *b = random_floats(size[ib]), *bias = random_floats(v.co);
    uint16_t *low_a = low_numbers(size[ia], a), *low_b = low_numbers(size[ib], b);
    float *want = random_floats(size[io]), *got = random_floats(size[io]);
    float *again = random_floats(size[io]);
    struct kernel_conv_desc low = {v, pass}, whole = {wide, pass};
    struct kernel_args types = {.in_dtype = {KERNEL_F16, KERNEL_F16}, .in_count = 2};
    struct kernel_need need = {.flops = 0}, most = {.flops = 0};
    CHECK(kernel_cpu.takes(c, KERNEL_FAMILY_CONV, &low, &types));
    CHECK_OK(kernel_cpu.need(c, KERNEL_FAMILY_CONV, &low, &types, &need, &err), &err);
    CHECK_OK(kernel_cpu.need(c, KERNEL_FAMILY_CONV, &whole, &types, &most, &err), &err);
    double extra = 2.0 * (double)(pass == KERNEL_CONV_WEIGHTS ? size[0] + size[1]
                                                              : size[0] + size[1] + size[2]);
    if ((double)need.workspace_bytes > extra + (double)most.workspace_bytes)
        fail_msg("pass %d: %.0f bytes of workspace, %.0f more than in float32 and operands %.0f",
                 pass, (double)need.workspace_bytes, (double)most.workspace_bytes, extra);
    CALL(CONV, &low, .in = {low_a, low_b, bias}, .out = {got});
    CALL(CONV, &low, .in = {low_a, low_b, bias}, .out = {again});
    CALL(CONV, &whole, .in = {a, b, bias}, .out = {want});
    bool is_low = pass != KERNEL_CONV_WEIGHTS;
    CHECK(memcmp(got, again, (size_t)size[io] * (is_low ? 2 : 4)) == 0);
    double largest = 0;
    for (int64_t i = 0; i < size[io]; i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (int64_t i = 0; i < size[io]; i++) {
        double is = (double)got[i],
               slack = 1e-5 * largest; /* sums of many terms, in other orders */
        if (is_low) {
            uint16_t bits;
            memcpy(&bits, (const char *)got + i * 2, sizeof bits);
            is = (double)kernel_from_f16(bits);
            slack += 4.9e-4 * fabs((double)want[i]);
        }
        if (!(fabs(is - (double)want[i]) <= slack))
            fail_msg("pass %d: element %lld is %.9g, expected %.9g", pass, (long long)i, is,
                     (double)want[i]);
    }
    void *all[] = {a, b, bias, low_a, low_b, want, got, again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ebb_free(all[i]);
}

TEST(convolution__of_many_numbers_of_16_bits_converts_no_operand_whole)
{
    static const struct kernel_conv cases[] = {
        /* many samples; one large picture, in bands; many channels; strides that leave rows over */
        {.nd = 2,
         .n = 7,
         .ci = 32,
         .co = 48,
         .groups = 1,
         .in = {40, 40},
         .k = {3, 3},
         .stride = {1, 1},
         .dilation = {1, 1},
         .pad = {1, 1}},
        {.nd = 2,
         .n = 1,
         .ci = 16,
         .co = 32,
         .groups = 1,
         .in = {131, 150},
         .k = {3, 3},
         .stride = {1, 1},
         .dilation = {1, 1},
         .pad = {1, 1}},
        {.nd = 2,
         .n = 1,
         .ci = 3,
         .co = 24,
         .groups = 1,
         .in = {301, 290},
         .k = {7, 7},
         .stride = {2, 2},
         .dilation = {1, 1},
         .pad = {3, 3}},
        {.nd = 2,
         .n = 1,
         .ci = 40,
         .co = 20,
         .groups = 1,
         .in = {160, 160},
         .k = {1, 1},
         .stride = {3, 3},
         .dilation = {1, 1},
         .pad = {0, 0}},
        {.nd = 2,
         .n = 2,
         .ci = 192,
         .co = 336,
         .groups = 1,
         .in = {7, 7},
         .k = {3, 3},
         .stride = {1, 1},
         .dilation = {1, 1},
         .pad = {1, 1}},
        {.nd = 2,
         .n = 1,
         .ci = 16,
         .co = 16,
         .groups = 1,
         .in = {150, 140},
         .k = {3, 3},
         .stride = {1, 1},
         .dilation = {2, 2},
         .pad = {2, 2}},
        /* groups: depthwise, some channels each, few */
        {.nd = 2,
         .n = 5,
         .ci = 80,
         .co = 80,
         .groups = 80,
         .in = {40, 40},
         .k = {5, 5},
         .stride = {2, 2},
         .dilation = {1, 1},
         .pad = {2, 2}},
        {.nd = 2,
         .n = 2,
         .ci = 144,
         .co = 288,
         .groups = 36,
         .in = {28, 28},
         .k = {3, 3},
         .stride = {1, 1},
         .dilation = {1, 1},
         .pad = {1, 1}},
        {.nd = 2,
         .n = 4,
         .ci = 64,
         .co = 64,
         .groups = 2,
         .in = {40, 33},
         .k = {3, 3},
         .stride = {1, 1},
         .dilation = {1, 1},
         .pad = {1, 1}},
        /* one and three dimensions */
        {.nd = 1,
         .n = 1,
         .ci = 16,
         .co = 32,
         .groups = 1,
         .in = {20000},
         .k = {5},
         .stride = {2},
         .dilation = {1},
         .pad = {2}},
        {.nd = 3,
         .n = 1,
         .ci = 8,
         .co = 16,
         .groups = 1,
         .in = {40, 24, 24},
         .k = {3, 3, 3},
         .stride = {1, 1, 1},
         .dilation = {1, 1, 1},
         .pad = {1, 1, 1}},
        /* what the fastest algorithm is for */
        {.nd = 2,
         .n = 2,
         .ci = 64,
         .co = 64,
         .groups = 1,
         .in = {56, 56},
         .k = {3, 3},
         .stride = {1, 1},
         .dilation = {1, 1},
         .pad = {1, 1}},
    };
    for (int threads = 1; threads <= 3; threads += 2) {
        struct kernel_context *c = context(threads);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (int pass = 0; pass < 3; pass++)
                low_conv_pass(c, cases[i], pass);
        kernel_cpu.close(c);
    }
}

/* Weight gradients that the library would make from unfolded pictures. */
TEST(depthwise_gradients__have_the_same_bits_in_every_layout)
{
    enum { N = 3, C = 32, H = 21, W = 18, X = N * C * H * W, Y = N * C * 11 * 9, DW = C * 25 };
    struct kernel_conv_desc d = {{.nd = 2,
                                  .n = N,
                                  .ci = C,
                                  .co = C,
                                  .groups = C,
                                  .in = {H, W},
                                  .out = {11, 9},
                                  .k = {5, 5},
                                  .stride = {2, 2},
                                  .dilation = {1, 1},
                                  .pad = {2, 2}},
                                 KERNEL_CONV_WEIGHTS};
    float *x = random_floats(X), *y = random_floats(Y), *bx = random_floats(X);
    float *by = random_floats(Y), *want = random_floats(DW), *out = random_floats(DW);
    struct ebb_error err;
    for (int threads = 1; threads <= 3; threads++) {
        struct kernel_context *c = context(threads);
        for (int block = 0; block <= 16; block += 8) {
            const float *a = x, *b = y;
            d.conv.x_block = d.conv.y_block = block;
            if (block) {
                to_blocks(N, C, H * W, block, x, bx), to_blocks(N, C, 99, block, y, by);
                a = bx, b = by;
            }
            CALL(CONV, &d, .in = {a, b}, .out = {threads == 1 && !block ? want : out});
            if (threads > 1 || block)
                CHECK(memcmp(out, want, DW * sizeof *out) == 0);
        }
        CHECK_OK(kernel_cpu.choose(c, &d.conv, KERNEL_CONV_WEIGHTS, false, &err), &err);
        CHECK(d.conv.x_block >= 8 && d.conv.y_block == d.conv.x_block); /* as its neighbours */
        kernel_cpu.close(c);
    }
    ebb_free(x), ebb_free(y), ebb_free(bx), ebb_free(by), ebb_free(want), ebb_free(out);
}

TEST(convolution__as_plain_loops)
{
#define CONV(N, CI, CO, G, H, W, K, S, P, D)                                                       \
    (struct kernel_conv)                                                                           \
    {                                                                                              \
        .n = N, .ci = CI, .co = CO, .groups = G, .in = {H, W}, .k = {K, K}, .stride = {S, S},      \
        .pad = {P, P}, .dilation = {                                                               \
            D,                                                                                     \
            D                                                                                      \
        }                                                                                          \
    }
    for (int threads = 1; threads <= 2; threads++) {
        struct kernel_context *c = context(threads);
        conv_case(c, CONV(2, 3, 16, 1, 9, 11, 3, 1, 1, 1));
        conv_case(c, CONV(1, 16, 32, 1, 14, 14, 3, 2, 1, 1));
        conv_case(c, CONV(2, 32, 32, 32, 8, 7, 3, 1, 1, 1)); /* depthwise */
        conv_case(c, CONV(1, 8, 16, 8, 9, 9, 3, 2, 1, 1));   /* depthwise multiplier */
        conv_case(c, CONV(3, 24, 24, 24, 9, 7, 5, 1, 2, 1)); /* depthwise, by our own gradient */
        conv_case(c, CONV(2, 19, 19, 19, 2, 2, 5, 1, 2, 1));
        conv_case(c, CONV(1, 8, 8, 8, 40, 33, 7, 2, 3, 1));
        conv_case(c, CONV(2, 16, 16, 16, 2, 2, 3, 1, 1, 1));
        conv_case(c, CONV(1, 16, 16, 16, 30, 31, 5, 2, 4, 2));
        conv_case(c, CONV(1, 16, 24, 4, 8, 8, 1, 1, 0, 1));
        conv_case(c, CONV(1, 16, 16, 1, 20, 20, 3, 1, 6, 6)); /* dilated */
        conv_case(c, CONV(1, 3, 8, 1, 23, 17, 7, 2, 3, 1));
        conv_case(c, CONV(1, 4, 4, 1, 19, 19, 11, 4, 2, 1));
        conv_case(c, CONV(1, 3, 5, 1, 24, 24, 16, 8, 4, 1));
        conv_case(c, CONV(3, 64, 64, 1, 7, 7, 3, 1, 1, 1));
        conv_case(c, CONV(1, 3, 6, 1, 5, 150, 3, 1, 1, 1)); /* rows of several chunks */
        conv_case(c, CONV(1, 5, 3, 1, 4, 140, 3, 3, 2, 2));
        conv_case(c, CONV(2, 2, 1, 1, 3, 3, 2, 1, 4, 1)); /* more padding than image */
        kernel_cpu.close(c);
    }
}

/* ---- attention ------------------------------------------------------------------------------ */

TEST(attention__as_plain_loops)
{
    struct kernel_context *c = context(2);
    struct kernel_attention a = {
        .rows = 3, .tq = 70, .tk = 75, .d = 16, .dv = 40, .scale = 0.3f, .is_causal = 1};
    float *q = random_floats(a.rows * a.tq * a.d), *k = random_floats(a.rows * a.tk * a.d);
    float *v = random_floats(a.rows * a.tk * a.dv), *o = random_floats(a.rows * a.tq * a.dv);
    float *lse = random_floats(a.rows * a.tq);
    double *want = ebb_calloc((size_t)(a.rows * a.tq * a.dv), sizeof *want);
    for (int64_t r = 0; r < a.rows * a.tq; r++) {
        double p[75], sum = 0;
        for (int64_t j = 0; j < a.tk; j++) {
            double s = 0;
            for (int64_t e = 0; e < a.d; e++)
                s += (double)q[r * a.d + e] * (double)k[(r / a.tq * a.tk + j) * a.d + e];
            p[j] = j > r % a.tq + a.tk - a.tq ? 0 : exp(s * (double)a.scale);
            sum += p[j];
        }
        for (int64_t j = 0; j < a.tk; j++)
            for (int64_t e = 0; e < a.dv; e++)
                want[r * a.dv + e] += p[j] / sum * (double)v[(r / a.tq * a.tk + j) * a.dv + e];
    }
    CALL(ATTENTION, &a, .in = {q, k, v}, .out = {o, lse});
    check_near(o, want, a.rows * a.tq * a.dv, "attention");
    ebb_free(q), ebb_free(k), ebb_free(v), ebb_free(o), ebb_free(lse), ebb_free(want);
    kernel_cpu.close(c);
}

/* ---- copies --------------------------------------------------------------------------------- */

TEST(permuted_copies__move_every_element)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const int64_t dims[3] = {5, 67, 70}, strides[3] = {67 * 70, 70, 1};
    float *x = random_floats(5 * 67 * 70), *y = random_floats(5 * 67 * 70);
    struct kernel_context *c = context(2);
    for (int o = 0; o < 6; o++) {
        struct kernel_nd nd = {.rank = 3};
        int64_t total = 1;
        for (int d = 2; d >= 0; d--) {
            nd.dims[d] = dims[orders[o][d]];
            nd.stride[1][d] = strides[orders[o][d]];
            nd.stride[0][d] = total;
            total *= nd.dims[d];
        }
        CALL(COPY, &nd, .in = {x}, .out = {y});
        for (int64_t i = 0; i < total; i++) {
            int64_t a = i / nd.stride[0][0], b = i / nd.stride[0][1] % nd.dims[1],
                    e = i % nd.dims[2];
            CHECK(y[i] == x[a * nd.stride[1][0] + b * nd.stride[1][1] + e * nd.stride[1][2]]);
        }
    }
    kernel_cpu.close(c);
    ebb_free(x), ebb_free(y);
}

#define N 100000

static void reduce(struct kernel_context *c, enum kernel_reduce f, uint64_t folded, const float *x,
                   float *y)
{
    struct kernel_reduce_desc d = {
        .f = (int32_t)f, .rank = 2, .dims = {400, 250}, .folded = folded};
    CALL(REDUCE, &d, .in = {x}, .out = {y});
}

static void own_kernels(struct kernel_context *c, const float *x, const float *y, float *out)
{
    float *const rest = out + 2 * N, *const mean = rest + 700, *const var = rest + 800;
    CALL(UNARY, &((struct kernel_unary_desc){.n = N, .f = KERNEL_GELU_TANH}), .in = {x},
         .out = {out});
    CALL(LINES, &((struct kernel_lines_desc){400, 250, 1, KERNEL_SOFTMAX, 0}), .in = {x},
         .out = {out + N});
    reduce(c, KERNEL_SUM, 2, x, rest);
    reduce(c, KERNEL_SUM, 1, x, rest + 400);
    reduce(c, KERNEL_SUM_SQUARES, 3, x, rest + 650);
    const struct kernel_batch_norm bn = {.n = 40, .channels = 25, .spatial = 100, .eps = 1e-5f};
    CALL(BATCH_NORM_STATS, &bn, .in = {x}, .out = {mean, var});
    CALL(BATCH_NORM, &bn, .in = {x, NULL, NULL, mean, var}, .out = {out + 3 * N});
    const struct kernel_layer_norm_desc ln = {400, 250, 1e-5f, 0};
    CALL(LAYER_NORM, &ln, .in = {x}, .out = {out + 4 * N, rest + 900, rest + 1400});
    CALL(LAYER_NORM_GRAD, &ln, .in = {y, x, NULL, rest + 900, rest + 1400},
         .out = {out + 5 * N, rest + 2000, rest + 2300});
    const int64_t step = 9;
    CALL(DROPOUT, &((struct kernel_dropout_desc){5, N, 3, 0.3f}), .in = {x, &step},
         .out = {out + 6 * N});
    for (int pass = 0; pass < 3; pass++) {
        const struct kernel_conv_desc d = {{.nd = 2,
                                            .is_small = 1,
                                            .n = 2,
                                            .ci = 13,
                                            .co = 21,
                                            .groups = 1,
                                            .in = {15, 17},
                                            .out = {8, 17},
                                            .k = {3, 3},
                                            .stride = {2, 1},
                                            .dilation = {1, 1},
                                            .pad = {1, 1}},
                                           pass};
        struct kernel_need need = {.flops = 0};
        struct kernel_args types = {.in_count = 2};
        struct ebb_error err;
        CHECK(kernel_conv_is_small(&d.conv));
        CHECK_OK(kernel_cpu.need(NULL, KERNEL_FAMILY_CONV, &d, &types, &need, &err), &err);
        CHECK_EQ(need.workspace_bytes, 0); /* a trace without kernels */
        CALL(CONV, &d, .in = {x, y}, .out = {out + 7 * N + pass * 10000});
    }
}

TEST(own_kernels__give_the_same_bits_at_any_thread_count)
{
    float *x = random_floats(N), *y = random_floats(N);
    float *a = ebb_calloc(8 * N, sizeof *a), *b = ebb_calloc(8 * N, sizeof *b);
    for (int threads = 1; threads <= 5; threads++) {
        struct kernel_context *c = context(threads);
        own_kernels(c, x, y, threads == 1 ? a : b);
        kernel_cpu.close(c);
        if (threads > 1)
            CHECK(memcmp(a, b, 8 * N * sizeof *a) == 0);
    }
    ebb_free(x), ebb_free(y), ebb_free(a), ebb_free(b);
}

/* All 16-bit numbers go to float32 and back; halves between neighbours go to the even one. */
static uint16_t to_16(struct kernel_context *c, uint8_t type, float x)
{
    uint16_t y;
    CALL(CONVERT, &(struct kernel_count_desc){1}, .in = {&x}, .out = {&y}, .out_dtype = {type});
    return y;
}

static float from_16(struct kernel_context *c, uint8_t type, uint32_t x)
{
    uint16_t bits = (uint16_t)x;
    float y;
    CALL(CONVERT, &(struct kernel_count_desc){1}, .in = {&bits}, .in_dtype = {type}, .out = {&y});
    return y;
}

TEST(sixteen_bits__convert_exactly)
{
    struct kernel_context *c = context(1);
    for (uint32_t u = 0; u < 0x10000; u++) {
        float b = from_16(c, KERNEL_BF16, u), h = from_16(c, KERNEL_F16, u);
        uint32_t e = u >> 10 & 31, m = u & 0x3ff;
        if (b == b)
            CHECK_EQ(to_16(c, KERNEL_BF16, b), u);
        else
            CHECK_EQ(to_16(c, KERNEL_BF16, b), u | 0x40);
        if (h == h) {
            double want = e == 31 ? INFINITY
                          : e     ? ldexp(1.0 + m / 1024.0, (int)e - 15)
                                  : ldexp(m / 1024.0, -14);
            CHECK((double)fabsf(h) == want && signbit(h) == (int)(u >> 15 ? signbit(h) : 0));
            CHECK_EQ(to_16(c, KERNEL_F16, h), u);
        } else {
            CHECK_EQ(to_16(c, KERNEL_F16, h) & 0x7e00, 0x7e00);
        }
        if (e < 30) { /* half way to the next one */
            float next = from_16(c, KERNEL_F16, u + 1), half = 0.5f * (h + next);
            CHECK_EQ(to_16(c, KERNEL_F16, half), u & 1 ? u + 1 : u);
        }
    }
    CHECK_EQ(to_16(c, KERNEL_F16, 65519.0f), 0x7bff);
    CHECK_EQ(to_16(c, KERNEL_F16, 65520.0f), 0x7c00);
    kernel_cpu.close(c);
}

TEST(exp_and_tanh__are_accurate_everywhere)
{
    struct kernel_context *c = context(1);
    float x[4001], e[4001], t[4001];
    for (int i = 0; i <= 4000; i++)
        x[i] = (float)(i - 2000) * 0.05f;
    struct kernel_unary_desc d = {.n = 4001, .f = KERNEL_EXP};
    CALL(UNARY, &d, .in = {x}, .out = {e});
    d.f = KERNEL_TANH;
    CALL(UNARY, &d, .in = {x}, .out = {t});
    for (int i = 0; i <= 4000; i++) {
        double want = exp((double)x[i]);
        if (want < 3e38 && want > 1.2e-38)
            CHECK(fabs((double)e[i] / want - 1) < 3e-7);
        else
            CHECK(want > 3.41e38 ? isinf(e[i]) : want > 1 || (double)e[i] <= 1.2e-38);
        CHECK(fabs((double)t[i] - tanh((double)x[i])) <= 3e-7 * fabs(tanh((double)x[i])));
    }
    float special[3] = {NAN, INFINITY, -INFINITY}, out[3];
    d = (struct kernel_unary_desc){.n = 3, .f = KERNEL_EXP};
    CALL(UNARY, &d, .in = {special}, .out = {out});
    CHECK(isnan(out[0]) && isinf(out[1]) && out[2] == 0);
    kernel_cpu.close(c);
}

TEST_MAIN()
