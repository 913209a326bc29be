/* gpus.h - which GPU each slot of a master has. Private to cli.
 *
 * A machine with GPUs has one slot for each of them, unless the command line or master.yaml say how
 * many; with more slots than GPUs several share one. A trial sees the GPU of its slot and no other
 * (CUDA_VISIBLE_DEVICES). */
#ifndef EBB_CLI_GPUS_H
#define EBB_CLI_GPUS_H

#include "base/arena.h"
#include "exp/exp.h"

/* What the driver counts, named as CUDA_VISIBLE_DEVICES of this process names them; none: *count 0.
 * In the arena. */
enum ebb_status cli_gpus_find(struct ebb_arena *arena, const char *const **ids, size_t *count,
                              struct ebb_error *err);

/* Hand them to the slots of `options`, whose number is set when it is not given. No GPUs: slots are
 * of the CPU. */
enum ebb_status cli_gpus_give(struct ebb_arena *arena, const char *const *ids, size_t count,
                              struct exp_master_options *options, struct ebb_error *err);

#endif
