/* best_bound.c - lower bounds from the split program: its relaxation in milliseconds, its integer
 * optimum where that is small enough. */
#include "planner/best.h"

#include "base/heap.h"
#include "planner/cuts.h"

#define MOST_COLUMNS 40000 /* of the relaxation */
#define MOST_INTEGERS 2500 /* columns of the program in integers */
#define MOST_SLICES 64

static enum ebb_status build(struct best *b, uint32_t slices, struct planner_cuts *cuts,
                             struct ebb_error *err)
{
    const struct planner_job *job = b->job;
    uint32_t at[2 * MOST_SLICES + 2], count;
    EBB_TRY(planner_cuts_choose(job->graph, job->budget, slices, at, &count, err));
    return planner_cuts_build(cuts, job->graph, job->budget, NULL, true, at, count, err);
}

#define COMPLETED_NODES 90

/* The flow model with the rows after the instants fixed to the solution: what lies between them is
 * a small program. */
static enum ebb_status complete(struct best *b, const struct planner_cuts *cuts, const double *x,
                                double seconds, struct ebb_error *err)
{
    struct planner_job *job = b->job;
    const struct planner_graph *g = job->graph;
    struct planner_model model;
    struct planner_mip_result result = {0};
    EBB_TRY(planner_model_build(&model, g, PLANNER_LEVEL_FULL, job->budget, NULL, err));
    for (uint32_t k = 0; k < cuts->count; k++)
        for (uint32_t i = 0; i < g->item_count && cuts->at[k] + 1 < g->node_count; i++) {
            int s = model.s_col[((size_t)cuts->at[k] + 1) * g->item_count + i];
            if (s >= 0)
                model.mip.col_lower[s] = model.mip.col_upper[s] =
                    planner_cuts_is_kept(cuts, x, k, i);
        }
    struct planner_mip_options options = {.seconds = seconds,
                                          .cutoff = planner_best_cutoff(b, 0) * model.cost_scale};
    enum ebb_status status = planner_mip_solve(&model.mip, &options, &result, err);
    if (status == EBB_OK && result.has_x)
        planner_best_offer(b, &model, result.x, "split");
    planner_mip_result_fini(&result);
    planner_model_fini(&model);
    return status;
}

/* The solver's schedule as a seed. */
static void offer_cuts(struct best *b, const struct planner_cuts *cuts, const double *x)
{
    struct planner_job *job = b->job;
    planner_cuts_extract(cuts, x, &job->trial);
    planner_best_repair(b, "split");
}

enum ebb_status planner_best_bound(struct best *b, uint32_t slices, struct ebb_error *err)
{
    struct planner_job *job = b->job;
    struct planner_cuts cuts;
    struct planner_mip_result result = {0};
    if (!planner_mip_has_solver())
        return EBB_OK;
    EBB_TRY(build(b, slices, &cuts, err));
    enum ebb_status status = EBB_OK;
    struct planner_mip_options options = {.seconds = planner_best_time_left(b), .is_relaxed = true};
    if (cuts.mip.col_count <= MOST_COLUMNS && cuts.mip.col_count > 0)
        status = planner_mip_solve(&cuts.mip, &options, &result, err);
    if (status == EBB_OK && result.status == PLANNER_MIP_OPTIMAL)
        planner_best_note_bound(b, planner_bound_cost(job->graph, result.bound / cuts.cost_scale),
                                PLANNER_BOUND_FLOW);
    if (status == EBB_OK && result.status == PLANNER_MIP_INFEASIBLE && !planner_job_has_plan(job))
        job->is_proven_infeasible = true;
    planner_mip_result_fini(&result);
    planner_cuts_fini(&cuts);
    return status;
}

/* What the solver's answer proves. */
static void judge(struct best *b, const struct planner_cuts *cuts,
                  const struct planner_mip_result *result, double cutoff)
{
    struct planner_job *job = b->job;
    const struct planner_graph *g = job->graph;
    if (result->status == PLANNER_MIP_INFEASIBLE && cutoff < PLANNER_INF)
        planner_best_note_bound(b, job->request->gap > 0 ? cutoff : (double)job->best.cost,
                                PLANNER_BOUND_FLOW);
    else if (result->status == PLANNER_MIP_INFEASIBLE && !planner_job_has_plan(job))
        job->is_proven_infeasible = true;
    else if (result->status == PLANNER_MIP_OPTIMAL && result->has_x)
        planner_best_note_bound(b, planner_bound_cost(g, result->objective / cuts->cost_scale),
                                PLANNER_BOUND_FLOW);
    else if (result->status == PLANNER_MIP_LIMIT && result->bound > 0 && result->bound < 1e20)
        planner_best_note_bound(b, planner_bound_cost(g, result->bound / cuts->cost_scale),
                                PLANNER_BOUND_FLOW);
}

enum ebb_status planner_best_prove(struct best *b, double seconds, struct ebb_error *err)
{
    struct planner_job *job = b->job;
    double stop = planner_job_seconds(job) + seconds;
    enum ebb_status status = EBB_OK;
    if (!planner_mip_has_solver())
        return EBB_OK;
    for (; b->slices <= MOST_SLICES && status == EBB_OK; b->slices *= 2) {
        uint32_t slices = b->slices;
        struct planner_cuts cuts;
        struct planner_mip_result result = {0};
        double left = stop - planner_job_seconds(job);
        if (left <= 0.3 || planner_best_is_done(b) || job->is_proven_infeasible ||
            slices / 2 > job->graph->node_count)
            break;
        EBB_TRY(build(b, slices, &cuts, err));
        bool is_too_large = cuts.mip.col_count > MOST_INTEGERS || cuts.mip.col_count == 0;
        double cutoff = planner_best_cutoff(b, job->request->gap);
        struct planner_mip_options options = {
            .seconds = left,
            .cutoff = cutoff < PLANNER_INF ? cutoff * cuts.cost_scale : PLANNER_INF};
        if (!is_too_large)
            status = planner_mip_solve(&cuts.mip, &options, &result, err);
        if (status == EBB_OK && !is_too_large)
            judge(b, &cuts, &result, cutoff);
        if (status == EBB_OK && result.has_x && !is_too_large) {
            offer_cuts(b, &cuts, result.x);
            left = stop - planner_job_seconds(job);
            if (slices >= 8 && job->graph->node_count <= COMPLETED_NODES && left > 0.05 &&
                !planner_best_is_done(b))
                status = complete(b, &cuts, result.x, left < 4 ? left : 4, err);
        }
        bool is_limit = result.status != PLANNER_MIP_OPTIMAL;
        planner_mip_result_fini(&result);
        planner_cuts_fini(&cuts);
        if (is_too_large || is_limit) /* again from here when there is more time */
            break;
    }
    return status;
}
