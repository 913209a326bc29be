/* conv_small.h - private: convolutions of little work, with sums in double (conv_small.c). */
#ifndef EBB_KERNEL_CONV_SMALL_H
#define EBB_KERNEL_CONV_SMALL_H

#include "kernel/kernel.h"

size_t kernel_conv_small_workspace(const struct kernel_conv *conv, enum kernel_conv_pass pass);
/* Operands are plain; the workspace is aligned to 8 bytes. */
void kernel_conv_small(const struct kernel_context *c, const struct kernel_conv *conv,
                       enum kernel_conv_pass pass, const float *a, const float *b,
                       const float *bias, float *out, void *workspace);

#endif
