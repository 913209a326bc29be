/* step.h - private to train: one traced program with the places of everything it reads and makes.
 * The one place where a step is recorded: for training, for `ebb model trace`, for statistics.
 *
 * Kinds of programs:
 *   TRAIN_STEP      forward, loss, backward, clipping, update: a whole update of one batch
 *   TRAIN_MICRO     forward, loss x 1/A, backward, added to the kept gradients
 *   TRAIN_APPLY     clipping and update from the kept gradients
 *   TRAIN_EVAL      forward in evaluation mode, loss, answers
 *   TRAIN_GRADIENTS forward, loss, backward, the gradients kept as they are (plain programs only)
 * All declare the same persistent leaves in the same order: items of the model, states of the
 * optimizer, kept gradients (when there are any), lower halves of split weights. */
#ifndef EBB_TRAIN_STEP_H
#define EBB_TRAIN_STEP_H

#include "train/engine.h"
#include "train/internal.h"

enum train_program_kind { TRAIN_STEP, TRAIN_MICRO, TRAIN_APPLY, TRAIN_EVAL, TRAIN_GRADIENTS };

enum train_slot_kind { TRAIN_ITEM, TRAIN_STATE, TRAIN_GRADIENT, TRAIN_REST };

struct train_slot { /* a persistent leaf */
    const char
        *name; /* weights as torch names them; states "name.exp_avg"; gradients "name.grad" */
    enum train_slot_kind kind;
    size_t item;    /* of the model */
    size_t state;   /* TRAIN_STATE: which */
    size_t rest;    /* TRAIN_ITEM of split weights: slot of their lower halves; 0: not split */
    float initial;  /* TRAIN_STATE */
    bool is_buffer; /* an item that is no parameter */
    bool is_filled; /* TRAIN_GRADIENT of a micro-batch: the loss depends on the parameter */
    struct tensor_view view; /* split weights: as F32, which they are to the world */
    uint64_t bytes;          /* of the view */
    uint32_t tensor;         /* leaf in the trace of the program it was described with */
    uint32_t *tensors;       /* its leaves where it lies in pieces; NULL: it is one leaf */
    uint64_t piece_bytes;    /* of each but the last */
    size_t piece_count;
};

enum train_answer {
    TRAIN_NO_ANSWER,
    TRAIN_CLASS,
    TRAIN_SCORES, /* of all classes, one row a sample */
    TRAIN_LOGIT,
    TRAIN_VALUE
};

struct train_step {
    enum train_program_kind kind;
    int64_t batch;
    struct nn_port inputs[NN_PORTS], targets[NN_PORTS];
    uint32_t input_ids[NN_PORTS], target_ids[NN_PORTS];
    size_t input_count, target_count;
    int64_t target_classes[NN_PORTS]; /* NN_CLASSES: how many */
    /* Step inputs; TRACE_NONE: not read. Scalars of the section and of each group; bare: without
     * decay. */
    uint32_t scalars_id[1 + TRAIN_GROUPS], bare_id[1 + TRAIN_GROUPS];
    uint32_t step_id, weights_id, scale_id, average_id;
    uint32_t loss_id, part_id, norm_id; /* kept scalars; part: of output 0 alone */
    uint32_t answer_id;
    enum train_answer answer;
    bool is_once; /* one answer for a sample */
    struct tensor_view answer_view;
    const char *metric_names[NN_PORTS];
    uint32_t metric_ids[NN_PORTS];
    size_t metric_count;
    uint64_t parameters;
    struct train_slot *slots; /* in the arena */
    size_t slot_count;
    struct trace *trace;           /* owned until an engine takes it */
    struct train_program *program; /* the engine's */
};

struct train_step_options {
    enum train_program_kind kind;
    int64_t batch;
    const struct train_config *config;
    const struct nn_config *net; /* adapted to the data */
    void *backend;
    bool has_gradients;   /* kept gradients are among the persistent leaves */
    bool is_scaled;       /* losses times a scale, read from a step input */
    unsigned byte_inputs; /* bit i: input i, of numbers, is a leaf of bytes: 0 to 255 for 0 to 1 */
    bool
        is_mixed; /* classes come in pairs with a share (data.mixup): training blends their losses */
    bool wants_scores; /* TRAIN_EVAL: answers as scores, where they are one row a sample */
    bool is_plain; /* a model by itself (model.c): leaves where they are read first, updates in the
                      order of the weights, nothing hoisted, no slots, no labels of updates */
    struct nn_stats *stats; /* plain: filled; may be NULL */
    int64_t range; /* elements: states of larger items are kept in pieces of it; 0: whole */
    const struct train_step *micro; /* TRAIN_APPLY: what fills the kept gradients. A parameter
                                       without one is not updated: no decay either. NULL: all are */
};

/* Traces one program. Names, ports and slots live in the arena. */
enum ebb_status train_step_build(struct ebb_arena *arena, const struct train_step_options *options,
                                 struct train_step *step, struct ebb_error *err);

bool train_slot_is_average(const struct train_config *config, const struct train_slot *slot);

/* ---- losses (loss.c) ---- */

enum { TRAIN_MAX_WEIGHTS = 4096 };
/* Weights of classes in the section; returns their number. */
size_t train_loss_weights(const struct train_loss *loss, float *weights, size_t most);
bool train_loss_takes_classes(const struct train_loss *loss); /* else numbers */
tensor_id train_loss(struct nn_builder *b, const struct train_loss *loss, tensor_id answer,
                     tensor_id target, tensor_id weights);
/* The same of every sample by itself; for losses of classes. */
tensor_id train_loss_each(struct nn_builder *b, const struct train_loss *loss, tensor_id answer,
                          tensor_id target, tensor_id weights);

#endif
