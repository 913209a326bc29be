/* golden_model.h - a small training of the folder e2e: how it is built and run (golden_e2e.c), how
 * its results are judged (golden_judge.c). */
#ifndef EBB_DEV_GOLDEN_MODEL_H
#define EBB_DEV_GOLDEN_MODEL_H

#include "dev/golden.h"
#include "optim/optim.h"

struct dev_item { /* a parameter or a buffer */
    const char *name;
    const struct tensor_entry *start;
    tensor_id id;   /* leaf */
    tensor_id grad; /* parameters */
    tensor_id next; /* buffers: the value after the update */
    tensor_id states[OPS_UPDATE_STATES];
    const struct tensor_entry *first_grad; /* reference; parameters */
    float *result;                         /* after the last update */
    double spread;                         /* buffers: what drifting weights make of it */
};

struct dev_data {
    const char *name;
    const struct tensor_entry *values; /* first dimension: updates times micro-batches */
    tensor_id *leaves;                 /* per micro-batch */
};

struct dev_model {
    struct dev_judge *g;
    const struct ebb_doc_node *doc, *train;
    struct dev_tensors *tensors;
    struct dev_run run;
    struct ebb_arena arena;
    struct optim_config config;
    int64_t accum, steps;
    tensor_id scalars, loss, norm;
    struct dev_item *params, *buffers;
    struct dev_data *data;
    tensor_id *watch;
    size_t param_count, buffer_count, data_count, watch_count;
    double noise; /* first gradients up to this are zero in exact arithmetic */
    double drift; /* how far weights of such gradients may be apart at the end */
};

double dev_rate(const struct dev_model *m, int64_t step);

void dev_model_begin(struct dev_model *m); /* what the references say about noise */
/* After an update: loss and gradient norm; of the first one gradients and watched values. */
void dev_model_step(struct dev_model *m, int64_t step);
void dev_model_weights(struct dev_model *m);
/* false: a buffer is off by more than its tolerance and its spread; is_last: say so. */
bool dev_model_buffers(struct dev_model *m, bool is_last);

#endif
