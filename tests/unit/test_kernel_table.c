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
    TEST_UNUSED;
    static const size_t bytes[] = {
#define X(name, text, type) sizeof(type),
        KERNEL_FAMILY_LIST(X)
#undef X
    };
    CHECK_EQ(sizeof bytes / sizeof *bytes, (size_t)KERNEL_FAMILIES);
    for (size_t i = 0; i < KERNEL_FAMILIES; i++) {
        CHECK_EQ(bytes[i] % 8, 0);
        CHECK(bytes[i] <= sizeof(union kernel_desc));
    }
}

TEST_MAIN()
