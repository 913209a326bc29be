/* floor_blocks.c - the floor by checkpoints of blocks.
 *
 * A game decides from moment to moment who leaves; on a chain of blocks a dynamic program knows
 * better (blocks.c). Its schedules are repaired to the best game's budget, and then to less and
 * less until that fails twice. No clock has a say: repairs are limited by count. */
#include "planner/floor.h"

#include <stdio.h>

#include "planner/blocks.h"
#include "planner/search.h"

#define STEP                                                                                       \
    64 /* part of the floor by which it is lowered at a time; after a miss a quarter of that */
#define EXACT_WORK 20000000
#define FEW_SHARES 2 /* of a block's room: those that are tried at every height */

struct finder {
    const struct trace *trace;
    struct planner_graph *graph;
    struct planner_blocks *blocks;
    struct planner_request request;
    struct planner_job job;
    struct planner_search search;
    uint64_t most_cost;
    struct floor_found *found;
    struct ebb_error *err;
};

/* The schedule as a plan with addresses; *is_proved is false when it needs more than `height`. */
static enum ebb_status prove(struct finder *f, uint64_t height, struct plan *plan,
                             struct plan_report *proof, bool *is_proved)
{
    struct plan_limits limits = {.budget_bytes = {height, 0, 0}};
    struct ebb_error ignored;
    *is_proved = false;
    plan_init(plan);
    EBB_TRY(planner_sched_emit(&f->job.ev, &f->search.best, NULL, plan, f->err));
    plan->signature = f->trace->signature;
    snprintf(plan->planner, sizeof plan->planner, "floor");
    enum ebb_status status = plan_assign_sliding(f->trace, plan, height, NULL, &ignored);
    EBB_THEN(status, plan_check(f->trace, plan, &limits, proof, &ignored));
    if (status == EBB_ENOMEM)
        return ebb_no_memory(f->err, height);
    *is_proved = status == EBB_OK;
    return EBB_OK;
}

/* The cheapest schedule within `budget` that the program and repair have, if it costs less than
 * `most`. */
static enum ebb_status try_budget(struct finder *f, uint64_t budget, uint64_t most, bool *is_found)
{
    static const double shares[] = {0, -1, -2, 1, -4, -6};
    size_t count = f->most_cost ? FEW_SHARES : sizeof shares / sizeof *shares;
    struct planner_search *s = &f->search;
    struct plan_report proof;
    struct plan plan;
    float time = 0;
    *is_found = false;
    s->budget = f->job.budget = budget;
    s->has_best = false;
    for (size_t k = 0; k < count && (k < FEW_SHARES || !s->has_best); k++) {
        if (!planner_blocks_rows(f->blocks, budget, shares[k], &time, &f->job.trial))
            continue;
        planner_sched_close(&f->job.ev, &f->job.trial);
        if (planner_search_from(s, &f->job.trial) && planner_search_repair(s, &f->job))
            planner_search_fill(s, &f->job);
    }
    if (!s->has_best || s->best.cost >= most)
        return EBB_OK;
    planner_sched_trim(&f->job.ev, &s->best);
    enum ebb_status status = prove(f, budget, &plan, &proof, is_found);
    if (status != EBB_OK || !*is_found) {
        plan_fini(&plan);
        return status;
    }
    plan.budget_bytes = proof.height_bytes;
    if (f->found->is_there)
        plan_fini(&f->found->plan);
    *f->found = (struct floor_found){
        .plan = plan, .height_bytes = proof.height_bytes, .cost = proof.cost_ns, .is_there = true};
    return EBB_OK;
}

static enum ebb_status search(struct finder *f, uint64_t height, uint64_t cost)
{
    uint64_t low = f->graph->max_in_out / PLAN_UNIT * PLAN_UNIT, high = height;
    bool is_found;
    EBB_TRY(try_budget(f, height, cost, &is_found)); /* at least a cheaper one */
    if (!f->search.has_best || !f->most_cost)        /* not even there: no use in less */
        return EBB_OK;
    if (is_found)
        high = f->found->height_bytes;
    uint64_t step = high / STEP;
    for (int lost = 0; lost < 2 && high > low + step / 4;) {
        uint64_t next = high - low > step ? high - step : low;
        EBB_TRY(try_budget(f, next / PLAN_UNIT * PLAN_UNIT, f->most_cost, &is_found));
        high = is_found ? f->found->height_bytes : high;
        step = is_found ? step : step / 4;
        lost += !is_found;
    }
    return EBB_OK;
}

enum ebb_status planner_floor_blocks(const struct trace *trace, uint64_t height, uint64_t cost,
                                     uint64_t most_cost, struct floor_found *found,
                                     struct ebb_error *err)
{
    struct finder f = {.trace = trace, .most_cost = most_cost, .found = found, .err = err};
    *found = (struct floor_found){.is_there = false};
    EBB_TRY(planner_graph_create(trace, true, &f.graph, err));
    planner_request_init(&f.request);
    f.request.time_limit_s = 1e9; /* no clock */
    enum ebb_status status = planner_blocks_create(f.graph, &f.blocks, err);
    if (status == EBB_OK && f.blocks) {
        status = planner_job_init(&f.job, f.graph, &f.request, err);
        EBB_THEN(status, planner_search_init(&f.search, &f.job.ev, height, 0, err));
        f.search.exact_work = most_cost ? EXACT_WORK : 2 * EXACT_WORK;
        EBB_THEN(status, search(&f, height, cost));
        planner_search_fini(&f.search);
        planner_job_fini(&f.job);
    }
    planner_blocks_destroy(f.blocks);
    planner_graph_destroy(f.graph);
    if (status != EBB_OK && found->is_there) {
        plan_fini(&found->plan);
        found->is_there = false;
    }
    return status;
}
