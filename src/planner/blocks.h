/* blocks.h - checkpoints of a chain of blocks (private to planner). */
#ifndef EBB_PLANNER_BLOCKS_H
#define EBB_PLANNER_BLOCKS_H

#include "planner/graph.h"
#include "planner/sched.h"

struct planner_blocks;

/* The blocks of a step; *blocks is NULL when it is no chain of any. */
enum ebb_status planner_blocks_create(const struct planner_graph *graph,
                                      struct planner_blocks **blocks, struct ebb_error *err);
void planner_blocks_destroy(struct planner_blocks *blocks);

/* Rows of the cheapest choice of checkpoints, not evaluated: close to the budget, perhaps above.
 * share: how much room a block's own backward pass is given, from 0 (the least it can do with) to 1
 * (all it might use), or less. *time: the program's own figure; false when there is no such choice
 * or its figure is the one that *time had. */
bool planner_blocks_rows(struct planner_blocks *blocks, uint64_t budget, double share, float *time,
                         struct planner_sched *sched);

#endif
