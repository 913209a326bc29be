/* floor.c - the least memory: the smallest budget this planner has a plan for, and that plan.
 *
 * The executor itself is run on the null device at smaller and smaller budgets; each run that ends
 * is a plan with addresses, which the checker proves. The smallest height found is the floor of the
 * trace. The same plan answers every larger budget, so what the floor accepts is monotone by
 * construction. */
#include "planner/job.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "exec/exec.h"

#define MOST_OVERHEAD 20.0 /* a floor that takes longer than this is of no use to anybody */
#define COPY_BYTES_PER_NS 300.0

static const char *const frugal[] = {"dtr_eq", "dtr",
                                     "msps"}; /* policies tried at each budget, in this order */

struct probe {
    const struct exec_program *program;
    const struct mem_policy *policy; /* that succeeded last */
    uint64_t height;
};

static enum ebb_status try_budget(struct probe *probe, uint64_t budget, bool *fits,
                                  struct ebb_error *err)
{
    *fits = false;
    for (size_t i = 0; i < sizeof frugal / sizeof *frugal && !*fits; i++) {
        struct exec_options options = {.policy = mem_policy_find(frugal[i]),
                                       .budget_bytes = budget,
                                       .limit = MOST_OVERHEAD,
                                       .links.in[0].bytes_per_ns = COPY_BYTES_PER_NS};
        struct exec_report report;
        EBB_TRY(exec_run(probe->program, &options, &report, err));
        if (report.result == EXEC_OK) {
            *fits = true;
            probe->policy = options.policy;
            probe->height = report.peak_bytes;
        }
    }
    return EBB_OK;
}

static enum ebb_status search(struct probe *probe, uint64_t low, struct ebb_error *err)
{
    bool fits;
    EBB_TRY(try_budget(probe, TRACE_MAX_BYTES, &fits, err));
    if (!fits)
        return ebb_fail(err, EBB_EINTERNAL, "floor: the trace does not run without a limit");
    uint64_t high = probe->height;
    while (high > low && high - low > PLAN_UNIT && high - low > high / 256) {
        uint64_t middle = low + plan_round((high - low) / 2);
        if (middle >= high)
            break;
        EBB_TRY(try_budget(probe, middle, &fits, err));
        if (fits)
            high = probe->height;
        else
            low = middle;
    }
    return EBB_OK;
}

static enum ebb_status record(struct probe *probe, const struct trace *trace, struct plan *plan,
                              struct ebb_error *err)
{
    struct exec_log log = {0};
    struct exec_report report;
    struct exec_options options = {.policy = probe->policy,
                                   .budget_bytes = probe->height,
                                   .limit = MOST_OVERHEAD,
                                   .links.in[0].bytes_per_ns = COPY_BYTES_PER_NS,
                                   .log = &log};
    enum ebb_status status = exec_run(probe->program, &options, &report, err);
    if (status == EBB_OK && report.result != EXEC_OK)
        status = ebb_fail(err, EBB_EBUDGET, "floor: %s", report.why);
    if (status == EBB_OK)
        status = exec_log_to_plan(&log, trace, plan, err);
    exec_log_fini(&log);
    return status;
}

enum ebb_status planner_floor(const struct trace *trace, struct plan *plan, uint64_t *floor_bytes,
                              struct ebb_error *err)
{
    struct exec_program *program = NULL;
    struct trace_stats stats;
    struct plan made;
    plan_init(&made);
    EBB_TRY(trace_stats_compute(trace, &stats, err));
    enum ebb_status status = exec_program_create(&program, trace, EXEC_EBB, err);
    struct probe probe = {.program = program};
    uint64_t low = stats.working_bytes > stats.keep_bytes ? stats.working_bytes : stats.keep_bytes;
    if (status == EBB_OK)
        status = search(&probe, low, err);
    /* a smaller budget changes decisions: if the run at exactly its own height fails, give it room
     * step by step */
    uint64_t height = probe.height;
    for (int tries = 0; status == EBB_OK; tries++) {
        plan_fini(&made);
        plan_init(&made);
        status = record(&probe, trace, &made, err);
        if (status != EBB_EBUDGET || tries == 64)
            break;
        probe.height += plan_round(height / 256);
        status = EBB_OK;
    }
    struct plan_report proof = {0};
    struct plan_limits limits = {.budget_bytes = {probe.height, 0, 0}};
    if (status == EBB_OK)
        status = plan_check(trace, &made, &limits, &proof, err);
    if (status == EBB_OK) {
        *floor_bytes = proof.height_bytes;
        if (plan) {
            snprintf(made.planner, sizeof made.planner, "floor");
            made.budget_bytes = proof.height_bytes;
            *plan = made;
            plan_init(&made);
        }
    }
    plan_fini(&made);
    exec_program_destroy(program);
    return status;
}

enum ebb_status planner_solve_floor(struct planner_job *job, struct ebb_error *err)
{
    struct plan plan;
    uint64_t floor_bytes;
    if (job->graph->trace->is_graph) {
        planner_job_not_applicable(job, "graph files count bytes; the floor is about addresses");
        return EBB_OK;
    }
    EBB_TRY(planner_floor(job->graph->trace, &plan, &floor_bytes, err));
    if (floor_bytes > job->request->budget_bytes) {
        snprintf(job->note, sizeof job->note, "the floor is %llu bytes",
                 (unsigned long long)floor_bytes);
        plan_fini(&plan);
        return EBB_OK;
    }
    plan_fini(&job->made);
    job->made = plan;
    job->has_made = true;
    snprintf(job->winner, sizeof job->winner, "floor");
    return EBB_OK;
}
