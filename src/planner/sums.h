/* sums.h - private to planner: sums along the steps of a plan. Add to a range, find where they pass a
 * limit; both in the logarithm of the number of steps. */
#ifndef EBB_PLANNER_SUMS_H
#define EBB_PLANNER_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct sums {
    int64_t *most, *add; /* of each node of a binary tree */
    size_t leaves;
};

enum ebb_status planner_sums_init(struct sums *sums, size_t count, struct ebb_error *err);
void planner_sums_fini(struct sums *sums);
void planner_sums_add(struct sums *sums, size_t first, size_t end, uint64_t value);
int64_t planner_sums_most(const struct sums *sums);
/* 1 + the last step before `end` whose sum is above the limit; 0: none is. */
size_t planner_sums_last_above(const struct sums *sums, size_t end, int64_t limit);
/* The first step of first <= step < end whose sum is above the limit; `end`: none is. */
size_t planner_sums_first_above(const struct sums *sums, size_t first, size_t end, int64_t limit);

#endif
