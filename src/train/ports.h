/* ports.h - private to train: fields of samples and ports of models. */
#ifndef EBB_TRAIN_PORTS_H
#define EBB_TRAIN_PORTS_H

#include "train/step.h"

/* Does any input or target come from data? */
bool train_ports_want_data(const struct train_step *step);
/* Field of each input and target; -1: generated or zeros. EBB_EINPUT says what does not fit. */
enum ebb_status train_ports_match(const struct train_step *step, const struct data_info *info,
                                  int inputs[NN_PORTS], int targets[NN_PORTS],
                                  struct ebb_error *err);
/* Bytes of a batch to where the step reads them, large ones by several threads. */
void train_port_fill(const struct nn_port *port, const struct data_field *f, const void *from,
                     void *to, uint64_t bytes, int threads);

#endif
