/* conv_depth.h - private: weight gradients of depthwise convolutions (conv_depth.c). */
#ifndef EBB_KERNEL_CONV_DEPTH_H
#define EBB_KERNEL_CONV_DEPTH_H

#include "kernel/kernel.h"

/* Two dimensions, a filter of its own for every channel, x and dy in the same layout. */
bool kernel_conv_is_depth(const struct kernel_conv *conv);
size_t kernel_conv_depth_workspace(const struct kernel_context *c, const struct kernel_conv *conv);
void kernel_conv_depth(const struct kernel_context *c, const struct kernel_conv *conv,
                       const float *x, const float *dy, float *dw, void *workspace);

#endif
