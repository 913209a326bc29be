/* build.h - private to train: one recording of a step, in parts (step.c); programs of a model by
 * itself put the same parts together in their own way (model.c). */
#ifndef EBB_TRAIN_BUILD_H
#define EBB_TRAIN_BUILD_H

#include "ops/ops.h"
#include "train/step.h"

struct train_unit { /* what one update changes: a trained item, or a block of its rows */
    size_t trained; /* in the list of those */
    size_t block;
};

struct train_build { /* one tracing */
    const struct train_step_options *o;
    struct train_step *step;
    struct ebb_arena *arena;
    struct tensor_session *s;
    struct nn_builder b;
    tensor_id inputs[NN_PORTS], targets[NN_PORTS];
    struct nn_output outputs[NN_PORTS];
    size_t output_count;
    tensor_id scalars[1 + TRAIN_GROUPS], bare[1 + TRAIN_GROUPS]; /* bare: without decay */
    tensor_id average;                                           /* scalars of opt.ema */
    tensor_id counter, weights, scale;                           /* step inputs, all of them */
    tensor_id loss, part, norm, answer;
    tensor_id *handles;       /* per slot: newest version */
    tensor_id *leaves;        /* per slot; of one in pieces the first */
    tensor_id **pieces;       /* per slot in pieces: their newest versions; else NULL */
    tensor_id **piece_leaves; /* the same: their leaves */
    size_t *trained;          /* items that the optimizer updates */
    size_t trained_count;
    struct train_unit *units;
    size_t unit_count;
    tensor_id *gradients; /* per unit */
    uint32_t forward_end; /* nodes of the forward pass and the loss */
};

enum ebb_status train_build_forward(struct train_build *x, struct ebb_error *err);
enum ebb_status train_build_losses(struct train_build *x, struct ebb_error *err);
/* Lists what the optimizer updates; then gradients of all of it. */
enum ebb_status train_build_trained(struct train_build *x, struct ebb_error *err);
enum ebb_status train_build_backward(struct train_build *x, struct ebb_error *err);
const struct nn_item *train_build_item(const struct train_build *x, size_t u); /* of unit u */
/* The update of unit u: of its weights, then of its states. */
void train_build_update(struct train_build *x, size_t u, tensor_id weights, tensor_id rest,
                        const tensor_id *states, tensor_id *out);
/* A plain program, from forward pass to trace (model.c). */
enum ebb_status train_build_plain(struct train_build *x, struct ebb_error *err);

#endif
