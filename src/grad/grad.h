/* grad.h - the backward pass as ops of the same session.
 *
 * Walks the tape from the newest node to the oldest and asks each op's rule for the gradients of
 * its inputs. What the rules emit is on the tape too: differentiate again for second derivatives.
 * Only nodes between `inputs` and `outputs` are visited; several contributions to one tensor are
 * added in the order in which they arise, which depends on the tape alone. */
#ifndef EBB_GRAD_GRAD_H
#define EBB_GRAD_GRAD_H

#include <stddef.h>

#include "base/status.h"
#include "tensor/tensor.h"

/* gin[i] = sum over k of <d outputs[k] / d inputs[i], gouts[k]>. gouts may be NULL: ones, for
 * scalar outputs. An input that no output depends on gets TENSOR_NONE. */
enum ebb_status grad_backward(struct tensor_session *s, const tensor_id *outputs,
                              const tensor_id *gouts, size_t output_count, const tensor_id *inputs,
                              size_t input_count, tensor_id *gin, struct ebb_error *err);

#endif
