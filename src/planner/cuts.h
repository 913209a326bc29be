/* cuts.h - a lower bound for graphs too large for the flow model (private to planner).
 *
 * The step is split at a few *instants*: first runs of chosen nodes t_1 < t_2 < ... Interval k
 * holds the stages after t_(k-1) up to t_k. Memory is looked at in the instants only, and a node
 * that runs again in an interval is paid for once however often it does so: every schedule is a
 * point of this program, so the optimum of its relaxation is a lower bound for all of them.
 *
 * Per interval k: S_k(i) = item i is kept past instant k; R_k(v) = v, made in an earlier interval,
 * runs again in it.
 *   S_k(i) <= S_(k-1)(i) + R_k(maker of i)      for items made before the interval
 *   S_(k-1)(i) + R_k(maker of i) >= 1           for every first run in k that reads i from before
 *   S_(k-1)(i) + R_k(maker of i) >= R_k(v)      for every rerun v that reads i from before
 *   working set of t_k + sum of bytes x S_k(i) over everything else <= budget */
#ifndef EBB_PLANNER_CUTS_H
#define EBB_PLANNER_CUTS_H

#include "planner/graph.h"
#include "planner/mip.h"
#include "planner/sched.h"

struct planner_cuts {
    const struct planner_graph *graph;
    struct planner_mip
        mip; /* objective: cost of what runs again, scaled; offset: every node once */
    double cost_scale;
    struct ebb_arena arena; /* owns the rest */
    uint32_t *at, count;    /* the instants */
    int *s_col;             /* [k * item_count + item]: column of S past instant k, or < 0 */
};

/* Instants worth a split, ascending: from where memory first runs short to the end, cut into
 * `slices` of equal length, of each the instant where room is dearest and the one with the largest
 * working set. The best two of all are always among them. `at` has room for 2 x slices entries.
 * None when everything fits. */
enum ebb_status planner_cuts_choose(const struct planner_graph *graph, uint64_t budget,
                                    uint32_t slices, uint32_t *at, uint32_t *count,
                                    struct ebb_error *err);
enum ebb_status planner_cuts_build(struct planner_cuts *cuts, const struct planner_graph *graph,
                                   uint64_t budget, const uint32_t *at, uint32_t count,
                                   struct ebb_error *err);
/* The schedule a solution speaks of; it may need repair: memory is certain in the instants only. */
void planner_cuts_extract(const struct planner_cuts *cuts, const double *x,
                          struct planner_sched *sched);
/* Is item i kept past instant k? */
bool planner_cuts_is_kept(const struct planner_cuts *cuts, const double *x, uint32_t k, uint32_t i);
void planner_cuts_fini(struct planner_cuts *cuts);

#endif
