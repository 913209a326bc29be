/* board.h - TensorBoard event files of the trials a master runs. Private to cli. */
#ifndef EBB_CLI_BOARD_H
#define EBB_CLI_BOARD_H

#include "exp/exp.h"
#include "train/train.h"

#define CLI_BOARD_OPEN 16 /* files kept open */

struct cli_board {
    struct cli_board_file {
        int64_t trial_id; /* 0 = free */
        uint64_t used;
        struct train_events *events;
    } files[CLI_BOARD_OPEN];
    uint64_t clock;
    bool is_off; /* a write failed: said once, then silence */
};

/* For exp_master_options.on_metrics; context is a struct cli_board. Training metrics become
 * training/NAME, validation metrics validation/NAME, over batches trained. */
void cli_board_add(void *context, const struct exp_master_metrics *metrics);
void cli_board_fini(struct cli_board *board);

#endif
