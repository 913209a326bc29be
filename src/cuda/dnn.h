/* dnn.h - plans of cuDNN's graph interface for convolutions. Private to cuda.
 *
 * A plan is a function of the description and of the library's version: the first configuration of its heuristic whose
 * engine is repeatable, keeps the precision of the operands and stays below a fixed workspace. Rows of a profile (family
 * `cudnn`) remember what that was, for who plans without a device. */
#ifndef EBB_CUDA_DNN_H
#define EBB_CUDA_DNN_H

#include "base/status.h"
#include "cuda/family.h"

struct cuda_dnn;

/* Tensors as the library wants them: sizes and steps of images, filter and results. Without padding. */
struct cuda_dnn_conv {
    int64_t pass; /* enum kernel_conv_pass */
    int32_t rank; /* of tensors: 4 or 5 */
    int32_t dtype;
    int64_t x[5], x_steps[5], w[5], w_steps[5], y[5], y_steps[5];
    int64_t before[3], after[3], stride[3], dilation[3];
};

struct cuda_dnn_plan {
    struct cuda_dnn_conv conv;
    void *plan; /* NULL: no engine */
    uint64_t workspace_bytes, algorithm;
};

struct profile;
/* The same by a row, without the library; false: there is none. */
bool cuda_dnn_recall(const struct profile *profile, const struct cuda_dnn_conv *conv,
                     uint64_t *workspace_bytes, uint64_t *algorithm);
/* kernel_table.algorithms */
enum ebb_status cuda_dnn_rows(const struct cuda_dnn *dnn, kernel_row_sink *add, void *to,
                              struct ebb_error *err);
uint64_t cuda_dnn_version(const struct cuda_dnn *dnn);

/* Opens the library. EBB_EUNSUPPORTED: says what is missing. */
enum ebb_status cuda_dnn_open(struct cuda_dnn **dnn, cuda_stream stream, struct ebb_error *err);
void cuda_dnn_close(struct cuda_dnn *dnn);
/* *plan belongs to dnn; plan->plan is NULL where the library has nothing for this. */
enum ebb_status cuda_dnn_find(struct cuda_dnn *dnn, const struct cuda_dnn_conv *conv,
                              const struct cuda_dnn_plan **plan, struct ebb_error *err);
enum ebb_status cuda_dnn_run(struct cuda_dnn *dnn, const struct cuda_dnn_plan *plan, void *x,
                             void *w, void *y, void *workspace, struct ebb_error *err);

#endif
