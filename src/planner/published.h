/* published.h - the published ILP, kept for comparison (private to planner).
 *
 * R, S, FREE over all T x T stages, hazards two-sided. Needs item i = node i (one output per node);
 * workspace counts at the slot. */
#ifndef EBB_PLANNER_PUBLISHED_H
#define EBB_PLANNER_PUBLISHED_H

#include "planner/graph.h"
#include "planner/mip.h"
#include "planner/sched.h"

enum planner_imposed { PLANNER_IMPOSED_FULL, PLANNER_IMPOSED_ALL, PLANNER_IMPOSED_LAST };

struct planner_published {
    const struct planner_graph *graph;
    struct planner_mip mip;
    struct ebb_arena arena; /* owns the columns */
    int *r, *s;             /* T x T */
    double cost_scale;
    enum planner_imposed imposed;
};

bool planner_published_applies(const struct planner_graph *graph);
enum ebb_status planner_published_build(struct planner_published *p,
                                        const struct planner_graph *graph, uint64_t budget,
                                        enum planner_imposed imposed, struct ebb_error *err);
void planner_published_fini(struct planner_published *p);
/* S >= threshold, lower triangle. */
void planner_published_round(const struct planner_published *p, const double *x, double threshold,
                             struct planner_sched *sched);

#endif
