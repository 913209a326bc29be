/* golden_model.h - a small training of the folder e2e: how it is built and run (golden_e2e.c), how
 * its results are judged (golden_judge.c). */
#ifndef EBB_CLI_GOLDEN_MODEL_H
#define EBB_CLI_GOLDEN_MODEL_H

#include "cli/golden.h"
#include "optim/optim.h"

struct golden_item { /* a parameter or a buffer */
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

struct golden_data {
    const char *name;
    const struct tensor_entry *values; /* first dimension: updates times micro-batches */
    tensor_id *leaves;                 /* per micro-batch */
};

struct golden_model {
    struct golden *g;
    const struct ebb_doc_node *doc, *train;
    struct golden_tensors *tensors;
    struct tensor_session *s;
    struct ebb_arena arena;
    struct optim_config config;
    int64_t accum, steps;
    tensor_id scalars, loss, norm;
    struct golden_item *params, *buffers;
    struct golden_data *data;
    tensor_id *watch;
    size_t param_count, buffer_count, data_count, watch_count;
    double noise; /* first gradients up to this are zero in exact arithmetic */
    double drift; /* how far weights of such gradients may be apart at the end */
};

double golden_rate(const struct golden_model *m, int64_t step);

void golden_judge_begin(struct golden_model *m); /* what the references say about noise */
/* After an update: loss and gradient norm; of the first one gradients and watched values. */
void golden_judge_step(struct golden_model *m, const struct ops_host *host, int64_t step);
void golden_judge_weights(struct golden_model *m);
/* false: a buffer is off by more than its tolerance and its spread; is_last: say so. */
bool golden_judge_buffers(struct golden_model *m, bool is_last);

#endif
