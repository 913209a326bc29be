/* Cross entropy of logits of 16 bits: the bits of converting them all before and behind, in the room of
 * a few rows. */
#include "test.h"

#include <string.h>

#include "base/heap.h"
#include "base/rng.h"
#include "kernel/kernel.h"

enum { ROWS = 130, CLASSES = 77 };
#define COUNT ((size_t)ROWS * CLASSES)

static struct kernel_context *context;
static struct ebb_error err;

static void convert(uint8_t from, const void *x, uint8_t to, void *y)
{
    struct kernel_count_desc d = {COUNT};
    struct kernel_args args = {.in = {x},
                               .out = {y},
                               .in_dtype = {from},
                               .out_dtype = {to},
                               .in_count = 1,
                               .out_count = 1};
    CHECK_OK(kernel_run(context, KERNEL_FAMILY_CONVERT, &d, &args, &err), &err);
}

static void run(enum kernel_family family, const struct kernel_cross_entropy *e,
                struct kernel_args *args)
{
    struct kernel_need need = {0};
    CHECK_OK(kernel_cpu.need(context, family, e, args, &need, &err), &err);
    CHECK(need.workspace_bytes <= (uint64_t)128 * CLASSES * sizeof(float));
    CHECK_EQ(need.workspace_bytes > 0, args->in_dtype[args->in_count - 2] != KERNEL_F32);
    args->workspace = ebb_calloc(1, need.workspace_bytes + 1);
    CHECK_OK(kernel_run(context, family, e, args, &err), &err);
    ebb_free(args->workspace);
}

static void compare(uint8_t dtype, const struct kernel_cross_entropy *e)
{
    static float x[COUNT], dx[COUNT], dy[ROWS], loss[2][ROWS];
    static uint16_t low[COUNT], gradient[COUNT], expected[COUNT];
    static int64_t target[ROWS];
    uint64_t random = 3;
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)(ebb_splitmix64(&random) % 2001) / 100.0f - 10.0f;
    for (int i = 0; i < ROWS; i++) {
        target[i] = i % 7 == 3 ? -100 : (int64_t)(ebb_splitmix64(&random) % CLASSES);
        dy[i] = (float)(i + 1) / 8.0f;
    }
    convert(KERNEL_F32, x, dtype, low);
    convert(dtype, low, KERNEL_F32, x);
    for (int k = 0; k < 2; k++) { /* 1: of 16 bits */
        struct kernel_args forward = {.in = {k ? (void *)low : x, target},
                                      .out = {loss[k]},
                                      .in_dtype = {k ? dtype : KERNEL_F32, KERNEL_I64},
                                      .out_dtype = {KERNEL_F32},
                                      .in_count = 2,
                                      .out_count = 1};
        struct kernel_args backward = {.in = {dy, k ? (void *)low : x, target},
                                       .out = {k ? (void *)gradient : dx},
                                       .in_dtype = {KERNEL_F32, k ? dtype : KERNEL_F32, KERNEL_I64},
                                       .out_dtype = {k ? dtype : KERNEL_F32},
                                       .in_count = 3,
                                       .out_count = 1};
        CHECK_EQ(kernel_cpu.takes(context, KERNEL_FAMILY_CROSS_ENTROPY, e, &forward), k == 1);
        CHECK_EQ(kernel_cpu.takes(context, KERNEL_FAMILY_CROSS_ENTROPY_GRAD, e, &backward), k == 1);
        run(KERNEL_FAMILY_CROSS_ENTROPY, e, &forward);
        run(KERNEL_FAMILY_CROSS_ENTROPY_GRAD, e, &backward);
    }
    convert(KERNEL_F32, dx, dtype, expected);
    size_t losses = e->reduction == KERNEL_REDUCE_NONE ? ROWS : 1;
    CHECK(memcmp(loss[0], loss[1], losses * sizeof(float)) == 0);
    CHECK(memcmp(gradient, expected, sizeof expected) == 0);
}

TEST(low_logits__have_the_bits_of_converted_ones)
{
    for (int threads = 1; threads <= 3; threads += 2) {
        CHECK_OK(kernel_cpu.open(&context, NULL, NULL, threads, &err), &err);
        for (int32_t reduction = KERNEL_REDUCE_MEAN; reduction <= KERNEL_REDUCE_NONE; reduction++)
            for (int smooth = 0; smooth < 2; smooth++) {
                struct kernel_cross_entropy e = {.n = ROWS,
                                                 .classes = CLASSES,
                                                 .inner = 1,
                                                 .ignore_index = -100,
                                                 .reduction = reduction,
                                                 .smoothing = smooth ? 0.1f : 0.0f};
                compare(KERNEL_BF16, &e);
                compare(KERNEL_F16, &e);
            }
        kernel_cpu.close(context);
    }
}

TEST_MAIN()
