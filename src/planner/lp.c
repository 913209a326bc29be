/* lp.c - lower bounds from linear relaxations. */
#include "planner/model.h"
#include "planner/planner.h"
#include "planner/published.h"

enum ebb_status planner_lp_bound(const struct trace *trace, uint64_t budget_bytes,
                                 enum planner_model_kind kind, double time_limit_s, double *bound,
                                 double *seconds, struct ebb_error *err)
{
    struct planner_graph *graph = NULL;
    struct planner_groups groups = {0};
    struct planner_model model = {0};
    struct planner_published published = {0};
    struct planner_mip_result result;
    planner_mip_result_init(&result);
    EBB_TRY(planner_graph_create(trace, false, &graph, err));
    bool is_published = kind != PLANNER_MODEL_FLOW && kind != PLANNER_MODEL_MERGED;
    enum planner_imposed imposed = kind == PLANNER_MODEL_COVER_ALL    ? PLANNER_IMPOSED_ALL
                                   : kind == PLANNER_MODEL_COVER_LAST ? PLANNER_IMPOSED_LAST
                                                                      : PLANNER_IMPOSED_FULL;
    enum ebb_status status;
    if (is_published) {
        status = planner_published_build(&published, graph, budget_bytes, imposed, err);
    } else {
        status = planner_groups_make(
            &groups, graph, kind == PLANNER_MODEL_FLOW ? PLANNER_LEVEL_FULL : PLANNER_LEVEL_MERGED,
            err);
        if (status == EBB_OK)
            status = planner_model_build(&model, graph, &groups, budget_bytes, NULL, err);
    }
    if (status != EBB_OK)
        goto out;
    struct planner_mip_options options = {.seconds = time_limit_s, .is_relaxed = true};
    status = planner_mip_solve(is_published ? &published.mip : &model.mip, &options, &result, err);
    if (status != EBB_OK)
        goto out;
    *seconds = result.seconds;
    if (result.status == PLANNER_MIP_OPTIMAL)
        *bound = result.bound / (is_published ? published.cost_scale : model.cost_scale);
    else if (result.status == PLANNER_MIP_INFEASIBLE)
        status = ebb_fail(err, EBB_EINFEASIBLE, "planner: the relaxation has no point");
    else if (result.status == PLANNER_MIP_ABSENT)
        status = ebb_fail(err, EBB_EUNSUPPORTED,
                          "planner: this build has no solver (install "
                          "coinor-libcbc-dev and build again)");
    else
        status = ebb_fail(err, EBB_ELIMIT, "planner: no bound in %.1f s", time_limit_s);
out:
    planner_mip_result_fini(&result);
    planner_model_fini(&model);
    planner_groups_fini(&groups);
    planner_published_fini(&published);
    planner_graph_destroy(graph);
    return status;
}
