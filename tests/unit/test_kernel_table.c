/* test_kernel_table.c - descriptions are plain data: sizes that never change by accident. */
#include "test.h"

#include "kernel/kernel.h"
#include "tensor/tensor.h"

/* Attributes of ops are made of these: their bytes are part of signatures. */
_Static_assert(sizeof(struct kernel_conv) == 8 * 4 + 22 * 8, "conv");
_Static_assert(sizeof(struct kernel_attention) == 5 * 8 + 4 * 4 + 8, "attention");
_Static_assert(sizeof(struct kernel_pool) == 20 * 8 + 2 * 4, "pool");
_Static_assert(sizeof(struct kernel_resample) == 6 * 8 + 2 * 8 + 2 * 4, "resample");

/* Tables are told the types of operands by the numbers that tensors have. */
#define X(name, bytes)                                                                             \
    _Static_assert((int)KERNEL_##name == (int)TENSOR_##name, "one order of types");
TENSOR_DTYPE_LIST(X)
#undef X

TEST(descriptions__are_whole_words)
{
    for (size_t i = 0; i < KERNEL_FAMILIES; i++) {
        CHECK_EQ(kernel_desc_bytes((enum kernel_family)i) % 8, 0);
        CHECK(kernel_desc_bytes((enum kernel_family)i) <= sizeof(union kernel_desc));
        CHECK(kernel_family_name((enum kernel_family)i)[0]);
    }
}

/* A context without a device answers what calls need, the same as with one, and runs nothing. */
TEST(a_context_without_a_device__runs_nothing)
{
    struct kernel_context *c[2];
    struct ebb_error err;
    struct kernel_need need[2] = {{.flops = 1e6, .bytes = 1e3}, {.flops = 1e6, .bytes = 1e3}};
    struct kernel_layer_norm_desc d = {100, 100, 1e-5f, 0};
    struct kernel_args args = {.in_count = 5, .out_count = 3};
    CHECK_OK(kernel_far.open(&c[0], NULL, NULL, 2, &err), &err);
    CHECK_OK(kernel_cpu.open(&c[1], NULL, NULL, 2, &err), &err);
    for (int k = 0; k < 2; k++)
        CHECK_OK((k ? kernel_cpu : kernel_far)
                     .need(c[k], KERNEL_FAMILY_LAYER_NORM_GRAD, &d, &args, &need[k], &err),
                 &err);
    CHECK(memcmp(&need[0], &need[1], sizeof *need) == 0);
    CHECK_EQ(need[0].workspace_bytes, 2 * 2 * 100 * 4);
    CHECK_EQ(need[0].cost_ns, 1000 + 100 + 5000);
    CHECK_EQ(kernel_run(c[0], KERNEL_FAMILY_LAYER_NORM_GRAD, &d, &args, &err), EBB_EUNSUPPORTED);
    kernel_far.close(c[0]);
    kernel_cpu.close(c[1]);
}

TEST_MAIN()
