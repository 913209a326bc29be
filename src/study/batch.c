/* batch.c - the largest batch that fits with at most one extra forward pass. */
#include "study/study.h"

/* Sizes and costs are linear in the batch, so batch b on `memory` is the file's graph with its
 * bytes scaled back. */
static enum ebb_status fits(const struct study_batch *m, const struct planner *planner, int64_t b,
                            bool *answer, struct ebb_error *err)
{
    struct planner_request request;
    struct planner_result result;
    const struct planner_facts *facts = &m->graph->facts;
    uint64_t fixed = facts->fixed_bytes * (m->is_twice ? 2 : 1);
    *answer = false;
    if (fixed >= m->memory)
        return EBB_OK;
    planner_request_init(&request);
    request.budget_bytes = (uint64_t)((double)(m->memory - fixed) * (double)m->batch / (double)b);
    request.time_limit_s = m->time_limit;
    request.effort = 2;
    EBB_TRY(planner_run(planner, m->graph->trace, &request, &result, err));
    *answer = result.status == PLANNER_OK && result.cost <= facts->base_cost + facts->forward_cost;
    planner_result_fini(&result);
    return EBB_OK;
}

enum ebb_status study_batch_largest(const struct study_batch *m, const struct planner *planner,
                                    int64_t *largest, struct ebb_error *err)
{
    int64_t low = 0, high = m->most + 1; /* low fits, high does not */
    while (high - low > 1) {
        bool is_fit;
        int64_t middle = low + (high - low) / 2;
        if (m->is_cancelled())
            return ebb_fail(err, EBB_ECANCELED, "interrupted");
        EBB_TRY(fits(m, planner, middle, &is_fit, err));
        if (is_fit)
            low = middle;
        else
            high = middle;
    }
    *largest = low;
    return EBB_OK;
}
