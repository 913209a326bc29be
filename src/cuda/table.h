/* table.h - the table of kernels of a CUDA GPU, and its context. Private to the plug-in. */
#ifndef EBB_CUDA_TABLE_H
#define EBB_CUDA_TABLE_H

#include "cuda/product.h"

struct cuda_convolutions;

#define CUDA_MOST_BLOCK 65535 /* channels that a view can have in one block */

struct kernel_context {
    struct kernel_head head; /* first */
    struct device *device;   /* NULL: answers takes and need alone */
    const struct profile *profile;
    cuda_stream stream;
    struct cuda_products *products;
    struct cuda_convolutions *convolutions; /* NULL until one is asked for */
    uint32_t *fault, *fault_seen;           /* in device memory; pinned */
    char identity[256];
};

extern const struct kernel_table kernel_cuda;
extern const char cuda_profile[]; /* data/devices/nvidia-h200.txt */

/* ---- conv.c: convolutions by cuDNN ----------------------------------------------------------------- */

enum ebb_status cuda_conv_choose(struct kernel_context *c, struct kernel_conv *conv,
                                 enum kernel_conv_pass pass, bool may_winograd,
                                 struct ebb_error *err);
enum ebb_status cuda_conv_need(struct kernel_context *c, const struct kernel_conv_desc *d,
                               struct kernel_need *need, struct ebb_error *err);
enum ebb_status cuda_conv_run(struct kernel_context *c, const struct kernel_conv_desc *d,
                              const struct kernel_args *args, struct ebb_error *err);
void cuda_conv_close(struct kernel_context *c);
uint64_t cuda_conv_version(const struct kernel_context *c); /* of the library; 0: not loaded */
enum ebb_status cuda_conv_rows(const struct kernel_context *c, bool measures, kernel_row_sink *add,
                               void *to, struct ebb_error *err); /* kernel_table.algorithms */

#endif
