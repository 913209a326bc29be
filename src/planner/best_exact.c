/* best_exact.c - the flow model in the portfolio: relaxations, branch and cut on whole models, and
 * sub-programs around the incumbent. */
#include "planner/best.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/rng.h"

#define LP_NODES 420   /* merged LP beyond: no bound */
#define FLOW_NODES 260 /* flow LP beyond: merged bound only */
#define EXACT_BINARIES 1600
#define FULL_BINARIES 2600

bool planner_best_offer(struct best *b, const struct planner_model *model, const double *x,
                        const char *name)
{
    struct planner_job *job = b->job;
    planner_model_extract(model, x, &job->trial);
    planner_sched_close(&job->ev, &job->trial);
    planner_sched_trim(&job->ev, &job->trial);
    bool is_better = planner_job_offer(job, name);
    if (is_better)
        planner_best_exchange(b, name);
    return is_better;
}

static enum planner_bound bound_class(const struct planner_model *model)
{
    return model->groups.is_flow ? PLANNER_BOUND_FLOW : PLANNER_BOUND_MERGED;
}

static void note_bound(struct best *b, const struct planner_model *model, double cost)
{
    planner_best_note_bound(b, cost, bound_class(model));
}

static enum ebb_status relax(struct best *b, const struct planner_model *model, double seconds,
                             struct planner_mip_result *result, struct ebb_error *err)
{
    struct planner_mip_options options = {.seconds = seconds, .is_relaxed = true};
    EBB_TRY(planner_mip_solve(&model->mip, &options, result, err));
    if (result->status == PLANNER_MIP_OPTIMAL)
        note_bound(b, model, planner_model_cost(model, result->bound));
    if (result->status == PLANNER_MIP_INFEASIBLE && model->groups.is_flow && !b->job->has_best)
        b->job->is_proven_infeasible = true;
    if (result->status == PLANNER_MIP_INFEASIBLE && !model->groups.is_flow)
        b->is_merged_infeasible = true;
    return EBB_OK;
}

/* LP of a level; with `keep_it` model and solution stay for the neighbourhoods. */
static enum ebb_status bound_level(struct best *b, enum planner_level level, bool keep_it,
                                   struct ebb_error *err)
{
    struct planner_model model;
    struct planner_mip_result result = {0};
    EBB_TRY(planner_model_build(&model, b->job->graph, level, b->job->budget, NULL, err));
    enum ebb_status status = relax(b, &model, planner_best_time_left(b), &result, err);
    if (status == EBB_OK && keep_it && result.status == PLANNER_MIP_OPTIMAL) {
        planner_model_fini(&b->model);
        ebb_free(b->lp);
        b->model = model;
        b->lp = result.x;
        b->has_model = true;
        result.x = NULL;
    } else {
        planner_model_fini(&model);
    }
    planner_mip_result_fini(&result);
    return status;
}

static bool is_within(const struct planner_job *job, double gap)
{
    return job->has_best && job->lower_bound > 0 && job->bound_class == PLANNER_BOUND_FLOW &&
           (double)job->best.cost <= (1 + gap) * job->lower_bound;
}

/* Branch and cut on a whole level. With a gap to reach, wider gaps are proved first: each takes a
 * fraction of the next, and the time may end at any of them. */
static enum ebb_status exact_level(struct best *b, enum planner_level level, double seconds,
                                   size_t most_binaries, struct ebb_error *err)
{
    struct planner_job *job = b->job;
    struct planner_model model;
    struct planner_mip_result result = {0};
    enum ebb_status status = EBB_OK;
    EBB_TRY(planner_model_build(&model, job->graph, level, job->budget, NULL, err));
    bool is_flow = model.groups.is_flow;
    double stop = planner_job_seconds(job) + seconds;
    static const double ladder[] = {0.015, 0.0075, 0};
    size_t rung = job->request->gap > 0 && is_flow ? 0 : 2;
    while (status == EBB_OK && model.binary_count <= most_binaries && !planner_best_is_done(b) &&
           planner_job_seconds(job) < stop) {
        while (rung < 2 && is_within(job, ladder[rung]))
            rung++;
        double gap = ladder[rung] > job->request->gap ? ladder[rung] : job->request->gap;
        double cutoff = planner_best_cutoff(b, gap);
        struct planner_mip_options options = {
            .seconds = stop - planner_job_seconds(job),
            .ratio_gap = job->has_best ? 0 : job->request->gap,
            .cutoff = cutoff < PLANNER_INF ? cutoff * model.cost_scale : PLANNER_INF};
        status = planner_mip_solve(&model.mip, &options, &result, err);
        if (status != EBB_OK)
            break;
        bool is_better =
            result.has_x && planner_best_offer(b, &model, result.x, is_flow ? "flow" : "merged");
        if (result.status == PLANNER_MIP_INFEASIBLE && cutoff < PLANNER_INF)
            note_bound(b, &model, gap > 0 ? cutoff : (double)job->best.cost);
        else if (result.status == PLANNER_MIP_INFEASIBLE && is_flow && !job->has_best)
            job->is_proven_infeasible = true;
        else if (result.status == PLANNER_MIP_OPTIMAL && result.has_x)
            note_bound(b, &model,
                       planner_model_cost(&model, result.objective * (1 - options.ratio_gap)));
        else if (result.status == PLANNER_MIP_LIMIT && result.bound > 0 && result.bound < 1e20)
            note_bound(b, &model, planner_model_cost(&model, result.bound));
        if (result.status == PLANNER_MIP_LIMIT || (!is_better && rung == 2))
            break;
        if (!is_better && result.status != PLANNER_MIP_INFEASIBLE)
            break;
    }
    planner_mip_result_fini(&result);
    planner_model_fini(&model);
    return status;
}

/* Fix every cell outside the neighbourhood to the incumbent; returns how many stay free. */
static size_t cut_neighbourhood(struct best *b, uint32_t kind, double *lower, double *upper)
{
    const struct planner_graph *g = b->job->graph;
    const struct planner_groups *groups = &b->model.groups;
    size_t free_count = 0;
    uint32_t group_width = groups->count / 6 + 2, item_width = g->item_count / 8 + 2;
    uint32_t group_at = (uint32_t)(ebb_splitmix64(&b->random) % groups->count);
    uint32_t item_at = (uint32_t)(ebb_splitmix64(&b->random) % g->item_count);
    for (uint32_t group = 0; group < groups->count; group++)
        for (uint32_t i = 0; i < g->item_count; i++) {
            int s = b->model.s_col[(size_t)group * g->item_count + i];
            if (s < 0)
                continue;
            double value = planner_model_cell(&b->model, &b->job->best, group, i);
            bool is_free = kind == 0   ? fabs(b->lp[s] - value) > 0.05
                           : kind == 1 ? group - group_at < group_width
                                       : i - item_at < item_width;
            lower[s] = is_free ? 0 : value;
            upper[s] = is_free ? 1 : value;
            free_count += is_free;
        }
    return free_count;
}

enum ebb_status planner_best_neighbourhood(struct best *b, uint32_t kind, double seconds,
                                           struct ebb_error *err)
{
    struct planner_mip sub = b->model.mip; /* shares all but the bounds */
    struct planner_mip_result result = {0};
    size_t bytes = sub.col_count * sizeof(double);
    double *lower;
    EBB_TRY(ebb_new(&lower, 2 * sub.col_count, sizeof *lower, err));
    double *upper = lower + sub.col_count;
    enum ebb_status status = EBB_OK;
    memcpy(lower, sub.col_lower, bytes);
    memcpy(upper, sub.col_upper, bytes);
    if (cut_neighbourhood(b, kind, lower, upper) == 0)
        goto out;
    sub.col_lower = lower;
    sub.col_upper = upper;
    struct planner_mip_options options = {
        .seconds = seconds, .cutoff = planner_best_cutoff(b, 0) * b->model.cost_scale};
    status = planner_mip_solve(&sub, &options, &result, err);
    if (status == EBB_OK && result.has_x)
        planner_best_offer(b, &b->model, result.x, kind == 0 ? "rins" : "window");
out:
    ebb_free(lower);
    planner_mip_result_fini(&result);
    return status;
}

enum ebb_status planner_best_relax(struct best *b, struct ebb_error *err)
{
    uint32_t n = b->job->graph->node_count;
    if (!planner_mip_has_solver() || n > LP_NODES)
        return EBB_OK;
    EBB_TRY(bound_level(b, PLANNER_LEVEL_MERGED, true, err));
    if (n <= FLOW_NODES && planner_best_time_left(b) > 0)
        EBB_TRY(bound_level(b, PLANNER_LEVEL_FULL, n <= 130, err));
    return EBB_OK;
}

/* Branch and cut where the models are small: the merged one finds, the full one proves. */
enum ebb_status planner_best_exact(struct best *b, struct ebb_error *err)
{
    bool is_exact = b->job->request->gap <= 0;
    if (!planner_mip_has_solver() || b->job->graph->node_count > LP_NODES)
        return EBB_OK;
    if (!b->job->has_best && b->is_merged_infeasible) /* is there anything at all? */
        EBB_TRY(exact_level(b, PLANNER_LEVEL_FULL, planner_best_time_left(b) * 0.8, FULL_BINARIES,
                            err));
    if (b->job->is_proven_infeasible || planner_best_is_done(b))
        return EBB_OK;
    if (!b->is_merged_infeasible)
        EBB_TRY(exact_level(b, PLANNER_LEVEL_MERGED, planner_best_time_left(b) * 0.3,
                            EXACT_BINARIES * (is_exact ? 2 : 1), err));
    else
        EBB_TRY(exact_level(b, PLANNER_LEVEL_BACK, planner_best_time_left(b) * 0.3, EXACT_BINARIES,
                            err));
    if (planner_best_is_done(b))
        return EBB_OK;
    return exact_level(b, PLANNER_LEVEL_FULL, planner_best_time_left(b) * (is_exact ? 1 : 0.5),
                       FULL_BINARIES, err);
}
