/* bound.c - what no plan with copies is faster than: the split program with links (cuts.h), for both
 * orders of first runs.
 *
 * How many instants is a matter of columns, not of time, so the bound of the relaxation is a function
 * of trace and tiers. Few ops have an instant each, where that is not too large, and there the
 * program is solved in integers, too, as long as the time given lasts. At the least the bound is
 * every op once. */
#include <math.h>

#include "planner/cuts.h"
#include "planner/job.h"
#include "planner/mip.h"

#define MOST_COLUMNS 5000  /* a quarter of a second */
#define LAST_COLUMNS 20000 /* of the smallest program that there is */
#define MOST_SLICES 8
#define MOST_SECONDS 10 /* of a relaxation: for want of better */
#define FEW_NODES 40    /* an instant at every one, and in integers */

/* The largest program that is small enough; its count of instants is 0 when everything fits. */
static enum ebb_status build(const struct planner_graph *graph, const struct planner_tiers *tiers,
                             struct planner_cuts *cuts, bool *is_whole, struct ebb_error *err)
{
    uint32_t at[FEW_NODES > 2 * MOST_SLICES + 2 ? FEW_NODES : 2 * MOST_SLICES + 2], count = 0;
    *is_whole = graph->node_count <= FEW_NODES && graph->no_remat_peak > tiers->bytes[0];
    for (uint32_t v = 0; v < graph->node_count && *is_whole; v++)
        if (!graph->trace->ops[graph->nodes[v].op].is_leaf)
            at[count++] = v;
    for (uint32_t slices = MOST_SLICES;; slices /= 2) {
        if (!*is_whole)
            EBB_TRY(planner_cuts_choose(graph, tiers->bytes[0], slices, at, &count, err));
        EBB_TRY(planner_cuts_build(cuts, graph, tiers->bytes[0], tiers, *is_whole, at, count, err));
        if (cuts->mip.col_count <= MOST_COLUMNS || slices == 1)
            return EBB_OK;
        planner_cuts_fini(cuts);
        *is_whole = false;
    }
}

/* What a solved program proves: nothing less than *bound, or (infinite) that there is no plan. */
static void note(const struct planner_cuts *cuts, const struct planner_mip_result *result,
                 double base, double *bound)
{
    bool is_optimal = result->status == PLANNER_MIP_OPTIMAL;
    double proved = is_optimal ? result->objective : result->bound;
    double ns = ceil(proved / cuts->cost_scale - 1e-6 * base); /* the solver's tolerances */
    if (result->status == PLANNER_MIP_INFEASIBLE)
        *bound = PLANNER_INF;
    else if ((is_optimal || result->status == PLANNER_MIP_LIMIT) && ns > *bound && ns < 1e20)
        *bound = ns;
}

/* One order of first runs: the bound; infinite when it has no plan. */
static enum ebb_status bound_order(const struct planner_graph *graph,
                                   const struct planner_tiers *tiers, double seconds, double *bound,
                                   struct ebb_error *err)
{
    struct planner_cuts cuts;
    double base = (double)graph->base_cost;
    bool is_whole;
    *bound = base;
    EBB_TRY(build(graph, tiers, &cuts, &is_whole, err));
    enum ebb_status status = EBB_OK;
    bool is_tried = cuts.count > 0 && cuts.mip.col_count <= LAST_COLUMNS;
    for (int relaxed = 1; relaxed >= 0 && is_tried && status == EBB_OK; relaxed--) {
        struct planner_mip_result result = {0};
        struct planner_mip_options options = {.seconds = relaxed ? MOST_SECONDS : seconds,
                                              .cutoff = PLANNER_INF,
                                              .is_relaxed = relaxed};
        if (!relaxed && (!is_whole || seconds <= 0 || *bound >= PLANNER_INF))
            break;
        status = planner_mip_solve(&cuts.mip, &options, &result, err);
        if (status == EBB_OK)
            note(&cuts, &result, base, bound);
        planner_mip_result_fini(&result);
    }
    planner_cuts_fini(&cuts);
    return status;
}

enum ebb_status planner_bound(const struct trace *trace, const struct planner_tiers *tiers,
                              double seconds, double *bound, struct ebb_error *err)
{
    double least = PLANNER_INF, base = 0;
    *bound = 0;
    if (tiers->homes)
        return EBB_OK;
    for (int is_plain = 0; is_plain < 2; is_plain++) {
        struct planner_graph *graph = NULL;
        double found = PLANNER_INF;
        enum ebb_status status = EBB_OK;
        EBB_TRY(planner_graph_create(trace, !is_plain, &graph, err));
        base = (double)graph->base_cost;
        if ((is_plain || graph->is_moved) && least > base)
            status = bound_order(graph, tiers, seconds, &found, err);
        planner_graph_destroy(graph);
        EBB_TRY(status);
        least = found < least ? found : least;
    }
    *bound = least < PLANNER_INF ? least : base;
    return EBB_OK;
}
