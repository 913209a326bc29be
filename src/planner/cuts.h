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
 *   working set of t_k + sum of bytes x S_k(i) over everything else <= budget
 *
 * With lower tiers, what can be copied may also come from there. Intervals are then times: from the
 * end of the first run of t_(k-1) to the end of that of t_k (in integers: to its beginning, and that
 * run itself, in which nothing runs again); d_k is the length. Per tier C_k(i) = part of i that was
 * sent so far, I_k(i) = part that is fetched in the interval, and S_k(i) counts what of i has
 * arrived, too: whatever a copy reads or fills, nobody else may have. Where the run of t_k is an
 * interval, what it reads does not come in it, and what it makes does not go.
 *   minimise sum of d_k
 *   d_k >= first runs and reruns of the interval
 *   d_k >= sum of I_k(i) x time of a copy of i          and the same of C_k(i) - C_(k-1)(i)
 *   S_k(i) <= S_(k-1)(i) + R_k + I_k(i)                 and so in the two rows of readers
 *   I_k(i) <= C_k(i),  C_k(i) - C_(k-1)(i) <= S_(k-1)(i) + R_k (+ I_k from other tiers)
 * Why every plan is a point: bytes that are there, or that a copy fills or still reads, lie apart
 * at any moment (waits W1 to W5), so the rows of memory hold. Of several copies of an item back
 * that end in one interval one is counted; one that begins in the interval in which another ended
 * is not: the item had as well stayed, in the bytes that it fills. So I_k <= 1. Of several
 * copies out to one tier the first is counted, which every copy back follows. A first run may leave
 * out what its op can leave out. Persistent storages stay. What was written in place may be made
 * again for the price of its first version, so the bound holds for plans that do so, too. */
#ifndef EBB_PLANNER_CUTS_H
#define EBB_PLANNER_CUTS_H

#include "planner/graph.h"
#include "planner/mip.h"
#include "planner/planner.h"
#include "planner/sched.h"

struct planner_cuts {
    const struct planner_graph *graph;
    struct planner_mip
        mip; /* objective: cost of what runs again, scaled; offset: every node once. With tiers:
                the sum of d_k */
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
/* tiers: NULL: nothing is copied. is_integer: it is to be solved in integers; then, with tiers, what
 * of an item is on its way is a column L_k(i) of its own beside S_k(i), and A_k(i) = 0 or 1 says
 * that all of it has come: L_k = L_(k-1) + I_k - A_k, and A_k stands for I_k in the rows of readers. */
enum ebb_status planner_cuts_build(struct planner_cuts *cuts, const struct planner_graph *graph,
                                   uint64_t budget, const struct planner_tiers *tiers,
                                   bool is_integer, const uint32_t *at, uint32_t count,
                                   struct ebb_error *err);
/* The schedule a solution (without tiers) speaks of; it may need repair: memory is certain in the
 * instants only. */
void planner_cuts_extract(const struct planner_cuts *cuts, const double *x,
                          struct planner_sched *sched);
/* Is item i kept past instant k? */
bool planner_cuts_is_kept(const struct planner_cuts *cuts, const double *x, uint32_t k, uint32_t i);
void planner_cuts_fini(struct planner_cuts *cuts);

#endif
