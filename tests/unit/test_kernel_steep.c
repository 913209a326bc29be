/* Products of the library without AVX-512: operands whose lines lie multiples of 2 KiB apart are copied, in little memory. */
#include "test.h"

#include <math.h>

#include "base/heap.h"
#include "base/rng.h"
#include "kernel/context.h"
#include "kernel/internal.h"
#include "kernel/kernel.h"

#define MOST (UINT64_C(4) << 20)

static float *random_floats(int64_t n, uint64_t seed)
{
    float *x = ebb_alloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((double)(ebb_splitmix64(&seed) >> 11) * 0x1p-52 - 1.0);
    return x;
}

/* Some elements against sums in double; answers the workspace. */
static uint64_t workspace_of(int threads, int64_t m, int64_t n, int64_t k, unsigned how)
{
    bool ta = how & 1, tb = how & 2, adds = how & 4;
    struct kernel_matmul d = {.rank = 2,
                              .has_bias = !adds,
                              .adds = adds ? KERNEL_ADDS_SUM : KERNEL_ADDS_NOTHING,
                              .a_dims = {m, k},
                              .b_dims = {k, n},
                              .c_dims = {m, n},
                              .a_strides = {ta ? 1 : k, ta ? m : 1},
                              .b_strides = {tb ? 1 : n, tb ? k : 1}};
    float *a = random_floats(m * k, 1), *b = random_floats(k * n, 2), *r = random_floats(m * n, 3);
    float *out = random_floats(m * n, 4), *again = random_floats(m * n, 5);
    struct kernel_need need = {.flops = 0};
    struct ebb_error err = {0};
    struct kernel_context *c;
    CHECK_OK(kernel_cpu.open(&c, NULL, NULL, threads, &err), &err);
    struct kernel_args args = {.in = {a, b, r, r}, .out = {out}};
    CHECK_OK(kernel_cpu.need(c, KERNEL_FAMILY_MATMUL, &d, &args, &need, &err), &err);
    args.workspace = ebb_alloc_aligned(256, (size_t)need.workspace_bytes + 1);
    CHECK_OK(kernel_run(c, KERNEL_FAMILY_MATMUL, &d, &args, &err), &err);
    args.out[0] = again;
    CHECK_OK(kernel_run(c, KERNEL_FAMILY_MATMUL, &d, &args, &err), &err);
    CHECK(memcmp(out, again, (size_t)(m * n) * sizeof *out) == 0);
    for (int64_t i = 0; i < m; i += 37)
        for (int64_t j = 0; j < n; j++) {
            double sum = (double)(adds ? r[i * n + j] : r[j]);
            for (int64_t p = 0; p < k; p++)
                sum += (double)a[i * d.a_strides[0] + p * d.a_strides[1]] *
                       (double)b[p * d.b_strides[0] + j * d.b_strides[1]];
            CHECK(fabs((double)out[i * n + j] - sum) < 1e-6 * (double)k);
        }
    kernel_cpu.close(c);
    ebb_free(args.workspace);
    ebb_free(a), ebb_free(b), ebb_free(r), ebb_free(out), ebb_free(again);
    return need.workspace_bytes;
}

TEST(lines_of_2_KiB__are_copied)
{
    CHECK_EQ(dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2), dnnl_success);
    for (int threads = 1; threads <= 3; threads += 2)
        for (unsigned how = 0; how < 8; how++) {
            bool is_turned = how & 1, is_plain = !(how & 2);
            uint64_t got = workspace_of(threads, 512, 512, 256, how);
            CHECK_EQ(got > 0, is_turned || is_plain);
            CHECK(got <= MOST);
            got = workspace_of(threads, 130, 1024, 700, how); /* of one operand */
            CHECK_EQ(got > 0, is_plain);
            CHECK(got <= MOST);
            got = workspace_of(threads, 512, 64, 5000, how); /* in parts */
            CHECK_EQ(got > 0, is_turned);
            CHECK(got <= MOST);
        }
}

TEST(other_products__lie_where_they_are)
{
    CHECK_EQ(workspace_of(1, 500, 500, 256, 1), 0);  /* other lines */
    CHECK_EQ(workspace_of(1, 1024, 768, 600, 1), 0); /* the library packs */
    CHECK_EQ(workspace_of(1, 512, 8, 512, 1), 0);    /* few uses */
    CHECK_EQ(workspace_of(1, 512, 512, 256, 2), 0);  /* terms side by side */
    CHECK_EQ(workspace_of(1, 512, 64, 32, 1), 0);    /* our own */
}

TEST_MAIN()
