/* exchange.c - a plan without copies as rows of bits, made cheaper by exchanges.
 *
 * Games and policies decide as time goes by. Where much runs again what they decide is worth a second
 * look: one gap is kept and paid for by dropping others, until none pays or the work given is used
 * up. No clock has a say. */
#include "planner/exchange.h"

#include <stdio.h>

#include "planner/job.h"
#include "planner/search.h"

/* Addresses are left to whoever asked. */
static enum ebb_status improve(struct planner_job *job, const struct plan *from, uint64_t work,
                               struct plan *plan, bool *is_found, struct ebb_error *err)
{
    struct planner_search s;
    EBB_TRY(planner_search_init(&s, &job->ev, job->budget, job->request->seed, err));
    s.most_work = work;
    enum ebb_status status = planner_sched_from_plan(&job->trial, from, err);
    if (status == EBB_OK) {
        planner_sched_close(&job->ev, &job->trial);
        if (planner_search_from(&s, &job->trial) && planner_search_repair(&s, job))
            planner_search_fill(&s, job);
        planner_search_polish(&s, job);
        *is_found = s.has_best;
    }
    if (*is_found) {
        planner_sched_trim(&job->ev, &s.best);
        status = planner_sched_emit(&job->ev, &s.best, NULL, plan, err);
        *is_found = status == EBB_OK;
        plan->signature = job->graph->trace->signature;
        snprintf(plan->planner, sizeof plan->planner, "%s", PLANNER_EXCHANGE);
    }
    planner_search_fini(&s);
    return status;
}

enum ebb_status planner_exchange(const struct trace *trace, uint64_t budget_bytes,
                                 const struct plan *from, uint64_t work, struct plan *plan,
                                 bool *is_found, struct ebb_error *err)
{
    struct planner_graph *graph = NULL;
    struct planner_request request;
    struct planner_job job;
    *is_found = false;
    EBB_TRY(planner_graph_create(trace, true, &graph, err));
    planner_request_init(&request);
    request.budget_bytes = budget_bytes;
    request.time_limit_s = 1e9; /* no clock */
    enum ebb_status status = planner_job_init(&job, graph, &request, err);
    EBB_THEN(status, improve(&job, from, work, plan, is_found, err));
    planner_job_fini(&job);
    planner_graph_destroy(graph);
    return status;
}
