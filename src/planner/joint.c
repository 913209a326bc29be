/* joint.c - recomputation and copies together (POET's problem) on the conservation model.
 *
 * The model has one node per stage and links that carry one copy after the other (model_links.c); so
 * it is for small graphs. It begins with what planner unified finds. Its answer becomes a plan whose
 * copies are put beside the ops (early.c), and what that takes on the null device is its cost. The
 * model lets a copy that is on its way take room by the part that has come: the time of the plan may
 * be above the model's. The bound is that of the split program with an instant at every node, in
 * integers (bound.c). */
#include "planner/job.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "planner/model.h"

#define MOST_NODES 40

struct joint {
    struct planner_job *job;
    struct planner_tiers tiers; /* with the budget */
    struct planner_model model;
    struct ebb_arena arena;
    struct planner_transfers moves;
    bool is_solved; /* job->made is the model's */
};

static bool is_one(const double *x, int col)
{
    return col >= 0 && x[col] > 0.5;
}

/* Bits of the solution; a send lands in the stage that has the item. */
static void read_solution(struct joint *j, const double *x)
{
    struct planner_sched *s = &j->job->trial;
    const struct planner_graph *g = j->job->graph;
    const struct planner_model *m = &j->model;
    size_t bytes = (size_t)s->stages * s->words * sizeof *j->moves.row;
    planner_model_extract(m, x, s);
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++) {
        memset(j->moves.fetch[tier], 0, bytes);
        memset(j->moves.send[tier], 0, bytes);
        for (uint32_t t = 0; t < s->stages; t++)
            for (uint32_t i = 0; i < g->item_count; i++) {
                size_t at = (size_t)t * g->item_count + i, row = (size_t)t * s->words;
                if (is_one(x, m->in_col[tier][at]))
                    planner_bit_set(j->moves.fetch[tier] + row, i);
                if (is_one(x, m->out_col[tier][at]))
                    planner_bit_set(j->moves.send[tier] + row, i);
            }
    }
}

/* Can all stages run, in room that is there? */
static bool is_valid(struct joint *j)
{
    struct planner_sched *s = &j->job->trial;
    for (uint32_t t = 0; t < s->stages; t++) {
        struct planner_stage stage;
        const uint64_t *row = planner_transfers_row(s, &j->moves, t);
        if (!planner_stage_eval(&j->job->ev, t, row, planner_row(s, t + 1), &stage) ||
            stage.peak > j->job->budget)
            return false;
    }
    return true;
}

/* Addresses where the plan needs some: `plan` is as it was when there are none. */
static enum ebb_status place(const struct joint *j, struct plan *plan, bool *is_placed,
                             struct ebb_error *err)
{
    const struct planner_graph *g = j->job->graph;
    struct ebb_error why = {0};
    *is_placed = true;
    if (g->exact_bytes)
        return EBB_OK;
    uint64_t budget = j->tiers.bytes[0];
    enum ebb_status status = plan_assign_offsets(g->trace, plan, budget, NULL, &why);
    if (status == EBB_EBUDGET)
        status = plan_assign_sliding(g->trace, plan, budget, NULL, &why);
    EBB_THEN(status, plan_assign_low(g->trace, plan, j->tiers.bytes, &why));
    *is_placed = status == EBB_OK;
    return status == EBB_OK || status == EBB_EBUDGET ? EBB_OK
                                                     : ebb_fail(err, status, "%s", why.message);
}

/* The fastest plan so far, with copies or without; UINT64_MAX: there is none. */
static uint64_t fastest(const struct planner_job *job)
{
    uint64_t ns = job->has_best ? job->best.cost : UINT64_MAX;
    if (job->has_recorded && planner_job_has_plan(job) && job->recorded_cost < ns)
        ns = job->recorded_cost;
    return job->has_made && job->made_cost < ns ? job->made_cost : ns;
}

/* A plan with addresses becomes the answer if it is the fastest so far. */
static enum ebb_status offer(struct joint *j, struct plan *plan, struct ebb_error *err)
{
    struct planner_job *job = j->job;
    uint64_t ns;
    plan->budget_bytes = j->tiers.bytes[0];
    EBB_TRY(planner_job_time(job, plan, &ns, err));
    if (ns >= fastest(job))
        return EBB_OK;
    ebb_swap(&job->made, plan, sizeof *plan);
    job->has_made = true;
    job->is_unplaced = job->graph->exact_bytes;
    job->made_cost = ns;
    snprintf(job->winner, sizeof job->winner, "joint");
    return EBB_OK;
}

/* The solution as a plan: as it is, and with its copies beside the ops. */
static enum ebb_status take(struct joint *j, struct ebb_error *err)
{
    struct planner_job *job = j->job;
    struct plan plan = {0};
    bool is_placed = false, is_found = false;
    plan.exact_bytes = job->graph->exact_bytes;
    plan.signature = job->graph->trace->signature;
    enum ebb_status status = planner_sched_emit(&job->ev, &job->trial, &j->moves, &plan, err);
    for (int late = 0; late < 2 && status == EBB_OK; late++) {
        struct plan early = {0};
        status = planner_early(job->graph->trace, &plan, &j->tiers, late, &early, &is_found, err);
        if (is_found)
            EBB_THEN(status, offer(j, &early, err));
        j->is_solved |= is_found;
        plan_fini(&early);
    }
    EBB_THEN(status, place(j, &plan, &is_placed, err));
    if (is_placed)
        EBB_THEN(status, offer(j, &plan, err));
    plan_fini(&plan);
    j->is_solved |= is_placed;
    return status;
}

static enum ebb_status solve(struct joint *j, struct ebb_error *err)
{
    struct planner_job *job = j->job;
    struct planner_mip_result result = {0};
    double scale = j->model.cost_scale;
    uint64_t known = fastest(job);
    struct planner_mip_options options = {
        .seconds = 0.7 * planner_job_time_left(job), /* the bound comes after it */
        .ratio_gap = job->request->gap,
        .cutoff = known < UINT64_MAX ? (double)known * scale * (1 - 1e-7) : PLANNER_INF};
    EBB_TRY(planner_mip_solve(&j->model.mip, &options, &result, err));
    enum ebb_status status = EBB_OK;
    if (result.has_x) {
        read_solution(j, result.x);
        if (is_valid(j))
            status = take(j, err);
    }
    j->is_solved |= result.status == PLANNER_MIP_INFEASIBLE; /* nothing better than without */
    planner_mip_result_fini(&result);
    return status;
}

static enum ebb_status joint_init(struct joint *j, struct ebb_error *err)
{
    const struct planner_sched *s = &j->job->trial;
    size_t rows = (size_t)s->stages * s->words;
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++) {
        j->moves.fetch[tier] = ebb_arena_calloc(&j->arena, rows, sizeof *j->moves.row);
        j->moves.send[tier] = ebb_arena_calloc(&j->arena, rows, sizeof *j->moves.row);
    }
    j->moves.row = ebb_arena_calloc(&j->arena, s->words, sizeof *j->moves.row);
    EBB_TRY(ebb_arena_status(&j->arena, err));
    return planner_model_build(&j->model, j->job->graph, PLANNER_LEVEL_FULL, j->job->budget,
                               &j->tiers, err);
}

/* The same budget without lower tiers, and what the greedy planner makes of them: the model has to
 * be faster than both. */
static enum ebb_status find_incumbent(struct planner_job *job, struct ebb_error *err)
{
    const struct planner_request *asked = job->request;
    struct planner_request quick = *asked;
    quick.effort = 0;
    quick.write_lp = NULL;
    quick.tiers = planner_without_tiers(&asked->tiers);
    job->request = &quick;
    enum ebb_status status = planner_solve_best(job, err);
    job->request = asked;
    uint64_t without = fastest(job);
    if (!job->graph->exact_bytes)
        EBB_THEN(status, planner_solve_unified(job, err));
    if (status == EBB_OK && job->has_made && job->made_cost >= without) {
        plan_fini(&job->made);
        job->has_made = false;
        job->made_cost = 0;
    } else if (job->has_made) {
        snprintf(job->winner, sizeof job->winner, "unified");
    }
    /* copies may help; bounds without them do not hold with them */
    job->is_proven_infeasible = false;
    job->is_timeout = false;
    job->bound_class = PLANNER_BOUND_NONE;
    job->lower_bound = 0;
    return status;
}

static enum ebb_status with_copies(struct joint *j, struct ebb_error *err)
{
    struct planner_job *job = j->job;
    const char *path = job->request->write_lp;
    EBB_TRY(joint_init(j, err));
    if (path)
        EBB_TRY(planner_mip_write_lp(&j->model.mip, path, "joint model", err));
    EBB_TRY(solve(j, err));
    if (!j->is_solved && fastest(job) < UINT64_MAX)
        snprintf(job->note, sizeof job->note, "the model was not solved in time");
    return EBB_OK;
}

enum ebb_status planner_solve_joint(struct planner_job *job, struct ebb_error *err)
{
    struct joint j = {.job = job, .tiers = job->request->tiers};
    const char *why = NULL;
    j.tiers.bytes[0] = job->budget;
    if (!planner_has_tiers(&j.tiers))
        why = "needs a lower tier: --host or --file, and --link";
    else if (job->graph->node_count > MOST_NODES)
        why = "too many ops: the joint model is for up to 40; unified takes any number";
    else if (!planner_mip_has_solver())
        why = "this build has no solver (coinor-libcbc-dev)";
    if (why) {
        planner_job_not_applicable(job, why);
        return EBB_OK;
    }
    enum ebb_status status = find_incumbent(job, err);
    if (status == EBB_OK && fastest(job) > job->graph->base_cost)
        status = with_copies(&j, err);
    job->is_timeout = fastest(job) == UINT64_MAX;
    planner_model_fini(&j.model);
    ebb_arena_fini(&j.arena);
    return status;
}
