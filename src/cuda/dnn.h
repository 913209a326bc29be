/* dnn.h - plans of cuDNN's graph interface for convolutions. Private to cuda.
 *
 * A plan is a function of the description, of the library's version and of the profile: the first configuration of its
 * heuristic whose engine is repeatable by its own word, keeps the precision of the operands and stays below a fixed
 * workspace; or a later one that a row of the profile (family `cudnn`) names, because those before did not give equal
 * bits when they were measured. Rows also tell workspaces to who plans without a device. */
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
    int place;  /* among those of the library that may be used */
    uint64_t workspace_bytes, algorithm;
};

struct profile;
/* The same by a row, without the library; false: there is none. */
bool cuda_dnn_recall(const struct profile *profile, const struct cuda_dnn_conv *conv,
                     uint64_t *workspace_bytes, uint64_t *algorithm);
/* kernel_table.algorithms. `measures`: of plans that do not repeat, the next. */
enum ebb_status cuda_dnn_rows(struct cuda_dnn *dnn, bool measures, kernel_row_sink *add, void *to,
                              struct ebb_error *err);
/* repeat.c: 20 runs on noise at two places, a copy running beside, give equal bits. */
enum ebb_status cuda_dnn_is_repeatable(struct cuda_dnn *dnn, const struct cuda_dnn_plan *plan,
                                       cuda_stream stream, bool *is, struct ebb_error *err);
uint64_t cuda_dnn_version(const struct cuda_dnn *dnn);

/* Opens the library. EBB_EUNSUPPORTED: says what is missing. */
enum ebb_status cuda_dnn_open(struct cuda_dnn **dnn, const struct profile *profile,
                              cuda_stream stream, struct ebb_error *err);
void cuda_dnn_close(struct cuda_dnn *dnn);
/* *plan belongs to dnn; plan->plan is NULL where the library has nothing for this. EBB_EDEVICE: it could not say. */
enum ebb_status cuda_dnn_find(struct cuda_dnn *dnn, const struct cuda_dnn_conv *conv,
                              const struct cuda_dnn_plan **plan, struct ebb_error *err);
enum ebb_status cuda_dnn_run(struct cuda_dnn *dnn, const struct cuda_dnn_plan *plan, void *x,
                             void *w, void *y, void *workspace, struct ebb_error *err);

#endif
