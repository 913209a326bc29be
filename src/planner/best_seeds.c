/* best_seeds.c - where the portfolio begins: games for memory, checkpoints of blocks, recorded runs
 * of the online policies, repair of "keep everything", and the classic strategies.
 *
 * Every cheap planner and every policy is run at the very budget asked for, so that `best` is never
 * above one of them. A recorded run has addresses: its plan is kept as it is for the case that no
 * cheaper schedule can be packed. */
#include "planner/best.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "exec/exec.h"
#include "planner/unified.h"

#define CLASSIC_NODES 1000
#define RECORDED_NODES 2000 /* first plans of larger traces do with games */
#define ONLINE_NODES 20000
#define MOST_OVERHEAD 10 /* of a recorded run */
#define BEST_RUNS 3      /* recorded runs that are repaired and filled, too */

/* A schedule given as a plan: made to fit, then filled. */
static enum ebb_status plan_seed(struct best *b, const struct plan *plan, const char *name,
                                 struct ebb_error *err)
{
    EBB_TRY(planner_sched_from_plan(&b->job->trial, plan, err));
    planner_best_repair(b, name);
    return EBB_OK;
}

/* ---- online policies ------------------------------------------------------------------------ */

struct run {
    struct plan plan;
    uint64_t cost;
    const char *name;
};

struct online {
    struct best *b;
    struct exec_program *program;
    struct run runs[BEST_RUNS + 1]; /* cheapest first; the last is scratch */
};

/* Times the step after which a run is given up: clearly dearer than the plan there is. */
static double limit_of(const struct planner_job *job)
{
    const struct planner_graph *g = job->graph;
    if (!job->has_recorded || g->node_count <= PLANNER_BEST_SMALL || g->base_cost == 0)
        return MOST_OVERHEAD;
    double more = (double)job->recorded_cost / (double)g->base_cost - 1;
    double limit = 1 + (job->request->effort <= 0 ? more : 0.05 + 1.5 * more);
    return limit < MOST_OVERHEAD ? limit : MOST_OVERHEAD;
}

static enum ebb_status record(struct online *o, const struct mem_policy *policy, uint64_t budget,
                              struct ebb_error *err)
{
    const struct trace *trace = o->b->job->graph->trace;
    struct exec_log log = {0};
    struct exec_report report;
    struct run *last = &o->runs[BEST_RUNS];
    struct exec_options options = {.policy = policy,
                                   .budget_bytes = budget,
                                   .limit = limit_of(o->b->job),
                                   .seed = o->b->job->request->seed,
                                   .links.in[0].bytes_per_ns =
                                       o->b->job->request->move_bytes_per_ns,
                                   .log = &log};
    enum ebb_status status = exec_run(o->program, &options, &report, err);
    uint64_t cost = report.base_ns + report.remat_ns;
    if (status == EBB_OK && report.result == EXEC_OK && cost < o->runs[BEST_RUNS - 1].cost)
        status = exec_log_to_plan(&log, trace, &last->plan, err);
    exec_log_fini(&log);
    if (status != EBB_OK || last->plan.step_count == 0)
        return status;
    last->cost = cost;
    last->name = policy->name;
    for (size_t k = BEST_RUNS; k > 0 && o->runs[k].cost < o->runs[k - 1].cost; k--)
        ebb_swap(&o->runs[k], &o->runs[k - 1], sizeof *o->runs);
    plan_fini(&last->plan);
    last->cost = UINT64_MAX;
    return EBB_OK;
}

/* The cheapest run is a plan already. In exact mode on graph files a plan is a schedule of the
 * published model, and a run may do what that cannot (an op twice in one stage). */
static void keep_run(struct planner_job *job, struct run *run)
{
    if ((job->graph->exact_bytes && job->request->gap <= 0) || run->plan.step_count == 0 ||
        (job->has_recorded && job->recorded_cost <= run->cost))
        return;
    plan_fini(&job->recorded);
    job->recorded = run->plan;
    job->recorded_cost = run->cost;
    job->has_recorded = true;
    snprintf(job->recorded_by, sizeof job->recorded_by, "%s", run->name);
    plan_init(&run->plan);
}

static enum ebb_status run_policies(struct online *o, bool is_quick, struct ebb_error *err)
{
    static const char *const frugal[] = {"dtr_eq", "dtr", "msps"};
    struct planner_job *job = o->b->job;
    uint64_t budget = job->request->budget_bytes;
    if (job->graph->exact_bytes && budget > TRACE_MAX_BYTES)
        budget = TRACE_MAX_BYTES;
    bool is_enough = is_quick && (job->has_best ||
                                  (job->has_recorded && job->graph->node_count > RECORDED_NODES));
    for (size_t k = 0; k < sizeof frugal / sizeof *frugal && !is_enough; k++)
        EBB_TRY(record(o, mem_policy_find(frugal[k]), budget, err));
    for (size_t k = 0; k < mem_policy_count && !is_quick && !planner_job_out_of_time(job); k++)
        EBB_TRY(record(o, &mem_policies[k], budget, err));
    for (size_t k = 0; k < sizeof frugal / sizeof *frugal && !is_quick; k++)
        EBB_TRY(record(o, mem_policy_find(frugal[k]), budget - budget / 20, err));
    return EBB_OK;
}

/* The runs as seeds. Large traces ask for a bound first: when the best run is near it already, the
 * search would take long for little. */
static enum ebb_status use_runs(struct online *o, struct ebb_error *err)
{
    struct planner_job *job = o->b->job;
    keep_run(job, &o->runs[0]);
    if (job->request->effort <= 0 && job->graph->node_count > PLANNER_BEST_SMALL &&
        planner_job_has_plan(job))
        return EBB_OK;
    for (size_t k = 0; k < BEST_RUNS && !planner_best_is_done(o->b); k++) {
        const struct plan *plan = o->runs[k].plan.step_count > 0 ? &o->runs[k].plan
                                  : k == 0 && job->has_recorded  ? &job->recorded
                                                                 : NULL;
        if (plan)
            EBB_TRY(plan_seed(o->b, plan, o->runs[k].name, err));
    }
    return EBB_OK;
}

enum ebb_status planner_best_online(struct best *b, struct ebb_error *err)
{
    struct planner_job *job = b->job;
    bool is_quick = job->request->effort <= 0 && job->graph->node_count > PLANNER_BEST_SMALL;
    struct online o = {.b = b};
    if (job->graph->node_count > ONLINE_NODES)
        return EBB_OK;
    for (size_t k = 0; k <= BEST_RUNS; k++)
        o.runs[k].cost = UINT64_MAX;
    enum ebb_status status = exec_program_create(
        &o.program, job->graph->trace, job->graph->exact_bytes ? EXEC_SIMRD : EXEC_EBB, err);
    EBB_THEN(status, run_policies(&o, is_quick, err));
    EBB_THEN(status, use_runs(&o, err));
    for (size_t k = 0; k <= BEST_RUNS; k++)
        plan_fini(&o.runs[k].plan);
    exec_program_destroy(o.program);
    return status;
}

/* ---- games ---------------------------------------------------------------------------------- */

/* The plan of a game, proved, is kept as a run where it fits the budget. On graph files it leaves
 * out outputs that nobody reads: another model. */
static void keep_game(struct planner_job *job, struct run *run)
{
    struct plan_report report;
    struct plan_limits limits = {.budget_bytes = {job->request->budget_bytes, 0, 0}};
    if (job->graph->exact_bytes ||
        plan_check(job->graph->trace, &run->plan, &limits, &report, NULL) != EBB_OK)
        return;
    run->cost = report.cost_ns;
    keep_run(job, run);
}

enum ebb_status planner_best_game(struct best *b, struct ebb_error *err)
{
    struct planner_job *job = b->job;
    struct run run = {.name = "floor"};
    bool is_found = false;
    if (job->graph->exact_bytes)
        return EBB_OK;
    uint64_t budget = job->request->budget_bytes;
    enum ebb_status status =
        planner_floor_at(job->graph->trace, NULL, budget, budget, &run.plan, &is_found, err);
    if (status == EBB_OK && is_found)
        keep_game(job, &run);
    plan_fini(&run.plan);
    return status;
}

/* A planner that makes its plan itself. */
static enum ebb_status seed_made(struct best *b, const char *name,
                                 enum ebb_status (*make)(struct planner_job *job,
                                                         struct ebb_error *err),
                                 struct ebb_error *err)
{
    struct planner_job *job = b->job;
    char winner[sizeof job->winner];
    memcpy(winner, job->winner, sizeof winner);
    EBB_TRY(make(job, err));
    memcpy(job->winner, winner, sizeof winner);
    job->note[0] = '\0';
    job->is_not_applicable = false;
    if (!job->has_made)
        return EBB_OK;
    struct run run = {.plan = job->made, .name = name};
    plan_init(&job->made);
    job->has_made = false;
    job->made_cost = 0;
    enum ebb_status status = plan_seed(b, &run.plan, name, err);
    if (status == EBB_OK)
        keep_game(job, &run);
    plan_fini(&run.plan);
    return status;
}

enum ebb_status planner_best_floor(struct best *b, struct ebb_error *err)
{
    return seed_made(b, "floor", planner_solve_floor, err);
}

enum ebb_status planner_best_unified(struct best *b, struct ebb_error *err)
{
    const struct planner_request *asked = b->job->request;
    struct planner_request without = *asked;
    if (b->job->graph->trace->op_count > UNIFIED_SOME_OPS || b->job->graph->trace->is_graph)
        return EBB_OK;
    without.tiers = planner_without_tiers(&asked->tiers);
    b->job->request = &without;
    enum ebb_status status = seed_made(b, "unified", planner_solve_unified, err);
    b->job->request = asked;
    return status;
}

/* ---- strategies ----------------------------------------------------------------------------- */

enum ebb_status planner_best_classic(struct best *b, struct ebb_error *err)
{
    static const char *const names[] = {
        "last",        "griewank", "chen_sqrtn_noap", "chen_sqrtn", "chen_greedy_noap",
        "chen_greedy", "all",      "all_ap",          "knapsack",   "rotor"};
    struct planner_job *job = b->job;
    bool is_quick = job->request->effort <= 0;
    size_t count = job->graph->node_count > CLASSIC_NODES ? 1 : sizeof names / sizeof *names;
    for (size_t k = 0; k < count && !planner_job_out_of_time(job) && !(is_quick && job->has_best);
         k++)
        EBB_TRY(planner_job_solve(job, planner_find(names[k]), err));
    job->is_not_applicable = job->is_timeout = job->is_proven_infeasible =
        false; /* of a seed only */
    job->note[0] = '\0';
    if (job->has_best && planner_search_from(&b->search, &job->best))
        planner_search_fill(&b->search, job);
    return EBB_OK;
}

enum ebb_status planner_best_repair_all(struct best *b, struct ebb_error *err)
{
    (void)err;
    struct planner_job *job = b->job;
    planner_sched_keep_all(&job->trial);
    planner_sched_close(&job->ev, &job->trial);
    if (planner_search_from(&b->search, &job->trial) && planner_search_repair(&b->search, job))
        planner_search_fill(&b->search, job);
    if (job->graph->node_count <= (job->request->effort > 0 ? 600 : 200))
        planner_search_polish(&b->search, job);
    planner_best_exchange(b, "repair");
    return EBB_OK;
}

enum ebb_status planner_best_warm(struct best *b, struct ebb_error *err)
{
    return plan_seed(b, b->job->request->warm, "warm", err);
}
