/* lp.c - lower bounds from linear relaxations. */
#include "planner/model.h"
#include "planner/planner.h"
#include "planner/published.h"

/* What the solver made of a relaxation. */
static enum ebb_status read_bound(const struct planner_mip_result *result, double scale,
                                  double time_limit_s, double *bound, struct ebb_error *err)
{
    if (result->status == PLANNER_MIP_INFEASIBLE)
        return ebb_fail(err, EBB_EINFEASIBLE, "planner: the relaxation has no point");
    if (result->status == PLANNER_MIP_ABSENT)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "planner: this build has no solver (install "
                        "coinor-libcbc-dev and build again)");
    if (result->status != PLANNER_MIP_OPTIMAL)
        return ebb_fail(err, EBB_ELIMIT, "planner: no bound in %.1f s", time_limit_s);
    *bound = result->bound / scale;
    return EBB_OK;
}

enum ebb_status planner_lp_bound(const struct trace *trace, uint64_t budget_bytes,
                                 enum planner_model_kind kind, double time_limit_s, double *bound,
                                 double *seconds, struct ebb_error *err)
{
    static const enum planner_imposed imposed[] = {[PLANNER_MODEL_PUBLISHED] = PLANNER_IMPOSED_FULL,
                                                   [PLANNER_MODEL_COVER_ALL] = PLANNER_IMPOSED_ALL,
                                                   [PLANNER_MODEL_COVER_LAST] =
                                                       PLANNER_IMPOSED_LAST};
    struct planner_mip_options options = {.seconds = time_limit_s, .is_relaxed = true};
    bool is_published = kind != PLANNER_MODEL_FLOW && kind != PLANNER_MODEL_MERGED;
    struct planner_graph *graph = NULL;
    struct planner_model model = {0};
    struct planner_published published = {0};
    struct planner_mip_result result = {0};
    EBB_TRY(planner_graph_create(trace, false, &graph, err));
    enum ebb_status status =
        is_published ? planner_published_build(&published, graph, budget_bytes, imposed[kind], err)
                     : planner_model_build(&model, graph,
                                           kind == PLANNER_MODEL_FLOW ? PLANNER_LEVEL_FULL
                                                                      : PLANNER_LEVEL_MERGED,
                                           budget_bytes, NULL, err);
    EBB_THEN(status,
             planner_mip_solve(is_published ? &published.mip : &model.mip, &options, &result, err));
    if (status == EBB_OK) {
        *seconds = result.seconds;
        status = read_bound(&result, is_published ? published.cost_scale : model.cost_scale,
                            time_limit_s, bound, err);
    }
    planner_mip_result_fini(&result);
    planner_model_fini(&model);
    planner_published_fini(&published);
    planner_graph_destroy(graph);
    return status;
}
