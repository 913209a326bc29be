/* ilp.c - the published formulation (Jain et al. 2020) as planners: the ILP itself and the two-phase
 * rounding of its relaxation.
 *
 * They are here for comparison: `best` solves the same problem with a tighter model. */
#include "planner/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/rng.h"
#include "planner/published.h"

#define MOST_NODES 140 /* 2 T^2 + T |E| binaries: beyond this the solver gets nowhere */

static bool is_too_large(struct planner_job *job)
{
    if (!planner_mip_has_solver())
        planner_job_not_applicable(job, "this build has no solver (coinor-libcbc-dev)");
    else if (!planner_published_applies(job->graph))
        planner_job_not_applicable(job, "the published model needs one pure output per op");
    else if (job->graph->node_count > MOST_NODES)
        planner_job_not_applicable(job, "too many ops for the published model");
    return job->is_not_applicable;
}

static enum planner_imposed imposed_of(const struct planner_params *params)
{
    return params->imposed_cover_last  ? PLANNER_IMPOSED_LAST
           : params->imposed_cover_all ? PLANNER_IMPOSED_ALL
                                       : PLANNER_IMPOSED_FULL;
}

/* The model stands on its own: only the solver's schedule counts, evaluated exactly. */
enum ebb_status planner_solve_ilp(struct planner_job *job, struct ebb_error *err)
{
    struct planner_published model;
    struct planner_mip_result result = {0};
    if (is_too_large(job))
        return EBB_OK;
    EBB_TRY(planner_published_build(&model, job->graph, job->budget,
                                    imposed_of(&job->request->params), err));
    enum ebb_status status = EBB_OK;
    if (job->request->write_lp)
        status = planner_mip_write_lp(&model.mip, job->request->write_lp, "published ILP", err);
    struct planner_mip_options options = {.seconds = job->request->time_limit_s,
                                          .ratio_gap = job->request->gap,
                                          .cutoff = PLANNER_INF};
    EBB_THEN(status, planner_mip_solve(&model.mip, &options, &result, err));
    if (status == EBB_OK && result.has_x && model.imposed == PLANNER_IMPOSED_FULL) {
        planner_published_round(&model, result.x, 0.5, &job->trial);
        planner_job_offer(job, "ilp");
    }
    if (status == EBB_OK && result.status == PLANNER_MIP_INFEASIBLE)
        job->is_proven_infeasible = true;
    else if (status == EBB_OK && result.bound > 0 && result.bound < 1e20)
        planner_job_bound(job, result.bound / model.cost_scale * (1 - 1e-9), PLANNER_BOUND_FLOW);
    job->is_timeout = !job->has_best && !job->is_proven_infeasible;
    planner_mip_result_fini(&result);
    planner_published_fini(&model);
    return status;
}

/* S[t][i] = 1 with probability x, independently. */
static void round_at_random(const struct planner_published *model, const double *x,
                            uint64_t *random, struct planner_sched *sched)
{
    uint32_t n = model->graph->node_count;
    planner_sched_clear(sched);
    for (uint32_t t = 1; t < n; t++)
        for (uint32_t i = 0; i < t; i++)
            if ((double)(ebb_splitmix64(random) >> 11) * 0x1p-53 < x[model->s[(size_t)t * n + i]])
                planner_keep(sched, t, i);
}

/* Solve the LP at 0.9 x budget; round S; the cheapest R follows; keep the cheapest that fits the
 * whole budget. */
enum ebb_status planner_solve_lp_round(struct planner_job *job, struct ebb_error *err)
{
    struct planner_published model;
    struct planner_mip_result result = {0};
    const struct planner_params *params = &job->request->params;
    if (is_too_large(job))
        return EBB_OK;
    uint64_t budget = (uint64_t)((double)job->budget * 0.9);
    EBB_TRY(planner_published_build(&model, job->graph, budget, PLANNER_IMPOSED_FULL, err));
    struct planner_mip_options options = {.seconds = job->request->time_limit_s,
                                          .is_relaxed = true};
    enum ebb_status status = planner_mip_solve(&model.mip, &options, &result, err);
    uint64_t random = job->request->seed * 0x9e3779b97f4a7c15u + 99;
    if (status == EBB_OK && result.has_x && params->random_rounds > 0) {
        for (uint32_t k = 0; k < params->random_rounds; k++) {
            round_at_random(&model, result.x, &random, &job->trial);
            planner_job_offer(job, "randomized");
        }
    } else if (status == EBB_OK && result.has_x) {
        for (int theta = 1; theta <= 9; theta++) {
            char name[32];
            double threshold = isnan(params->lp_threshold) ? theta * 0.1 : params->lp_threshold;
            snprintf(name, sizeof name, "threshold %.2f", threshold);
            planner_published_round(&model, result.x, threshold, &job->trial);
            planner_job_offer(job, name);
            if (!isnan(params->lp_threshold))
                break;
        }
    }
    planner_mip_result_fini(&result);
    planner_published_fini(&model);
    return status;
}
