/* policy.c - online policies that see what comes (belady, capuchin) as planners: their decisions on
 * the null device, written down, then their copies beside the ops (early.c) where that is faster. */
#include <stdio.h>

#include "base/heap.h"
#include "exec/exec.h"
#include "planner/job.h"

#define MOST_OVERHEAD 20.0 /* a policy that takes longer has failed */

/* What the policy does within the budget; *is_found is false when it gives up. */
static enum ebb_status record(const struct planner_job *job, struct plan *plan, bool *is_found,
                              struct ebb_error *err)
{
    const struct planner_tiers *tiers = &job->request->tiers;
    struct exec_log log = {0};
    struct exec_report report = {0};
    struct exec_program *program = NULL;
    struct ebb_error why = {0};
    struct exec_options o = {
        .policy = mem_policy_find(job->planner->name),
        .budget_bytes = job->budget,
        .seed = job->request->seed,
        .limit = MOST_OVERHEAD,
        .ways = MEM_DROP | (tiers->bytes[DEVICE_HOST] ? MEM_HOST : 0u) |
                (tiers->bytes[DEVICE_FILE] ? MEM_FILE : 0u),
        .tier_bytes = {0, tiers->bytes[DEVICE_HOST], tiers->bytes[DEVICE_FILE]},
        .links = tiers->links,
        .log = &log};
    enum ebb_status status = exec_program_create(&program, job->graph->trace, EXEC_EBB, &why);
    EBB_THEN(status, exec_run(program, &o, &report, &why));
    *is_found = status == EBB_OK && report.result == EXEC_OK;
    if (*is_found)
        status = exec_log_to_plan(&log, job->graph->trace, plan, &why);
    plan->budget_bytes = job->budget;
    exec_log_fini(&log);
    exec_program_destroy(program);
    return status == EBB_OK || status == EBB_EBUDGET ? EBB_OK
                                                     : ebb_fail(err, status, "%s", why.message);
}

static enum ebb_status offer(struct planner_job *job, struct plan *plan, struct ebb_error *err)
{
    uint64_t ns;
    EBB_TRY(planner_job_time(job, plan, &ns, err));
    if (job->has_made && ns >= job->made_cost)
        return EBB_OK;
    ebb_swap(&job->made, plan, sizeof *plan);
    job->has_made = true;
    job->is_unplaced = false;
    job->made_cost = ns;
    snprintf(job->winner, sizeof job->winner, "%s", job->planner->name);
    return EBB_OK;
}

enum ebb_status planner_solve_policy(struct planner_job *job, struct ebb_error *err)
{
    struct planner_tiers tiers = job->request->tiers;
    struct plan plan = {0};
    bool is_found = false;
    tiers.bytes[0] = job->budget;
    const char *why = NULL;
    if (job->graph->exact_bytes)
        why = "graph files have no addresses: convert the graph to a trace";
    else if (!planner_has_tiers(&tiers))
        why = "needs a lower tier: --host or --file, and --link";
    if (why) {
        planner_job_not_applicable(job, why);
        return EBB_OK;
    }
    enum ebb_status status = record(job, &plan, &is_found, err);
    for (int late = 0; late < 2 && is_found && status == EBB_OK; late++) {
        struct plan early = {0};
        bool is_moved = false;
        status = planner_early(job->graph->trace, &plan, &tiers, late, &early, &is_moved, err);
        if (is_moved)
            EBB_THEN(status, offer(job, &early, err));
        plan_fini(&early);
    }
    if (is_found)
        EBB_THEN(status, offer(job, &plan, err));
    plan_fini(&plan);
    return status;
}
