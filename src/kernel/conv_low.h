/* conv_low.h - private: large convolutions of numbers of 16 bits (conv_low.c), and what they are made of. */
#ifndef EBB_KERNEL_CONV_LOW_H
#define EBB_KERNEL_CONV_LOW_H

#include "kernel/kernel.h"

bool kernel_conv_is_low(const struct kernel_conv *conv);
/* Its first piece, plain. */
void kernel_conv_low_first(const struct kernel_conv *conv, enum kernel_conv_pass pass,
                           struct kernel_conv *piece);
enum ebb_status kernel_conv_low_need(struct kernel_context *c, const struct kernel_conv *conv,
                                     enum kernel_conv_pass pass, size_t *bytes,
                                     struct ebb_error *err);
enum ebb_status kernel_conv_low(struct kernel_context *c, const struct kernel_conv *conv,
                                enum kernel_conv_pass pass, const uint16_t *a, const uint16_t *b,
                                const float *bias, void *out, void *workspace,
                                struct ebb_error *err);

/* One convolution in the type that its description names (conv.c). */
enum ebb_status kernel_conv_prepare(struct kernel_context *c, const struct kernel_conv *conv,
                                    enum kernel_conv_pass pass, size_t *bytes,
                                    struct ebb_error *err);
enum ebb_status kernel_conv_run(struct kernel_context *c, const struct kernel_conv *conv,
                                enum kernel_conv_pass pass, const void *a, const void *b,
                                const void *bias, void *out, void *workspace,
                                struct ebb_error *err);

#endif
