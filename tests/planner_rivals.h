/* planner_rivals.h - `best` against every other planner and every policy at one budget: for the
 * property test (a slice) and bench_plan_best (everything).
 *
 * Same ways (recomputation only: `joint` has another), same tiers, same rules, seed 0, same effort.
 * Traces run under rules ebb, graph files count bytes (rules simrd), both in node order. On graph
 * files `floor` does not count: its game is not bound to the published model, in which an op runs
 * at most once in a stage; `best` is. */
#ifndef EBB_TESTS_PLANNER_RIVALS_H
#define EBB_TESTS_PLANNER_RIVALS_H

#include <stdio.h>
#include <string.h>

#include "exec/exec.h"
#include "planner/planner.h"

struct rivals {
    size_t compared; /* rivals that had an answer */
    size_t above;    /* of these: cheaper than best */
    uint64_t best, cheapest;
    double bound, seconds;
    char name[32]; /* of the cheapest rival */
    bool has_best;
};

static inline void rivals_note(struct rivals *r, const char *name, uint64_t cost)
{
    r->compared++;
    r->above += !r->has_best || cost < r->best;
    if (r->cheapest == 0 || cost < r->cheapest) {
        r->cheapest = cost;
        snprintf(r->name, sizeof r->name, "%s", name);
    }
}

static inline enum ebb_status rivals_planners(const struct trace *trace,
                                              const struct planner_request *request, bool with_ilp,
                                              struct rivals *r, struct ebb_error *err)
{
    for (size_t p = 0; p < planner_count; p++) {
        struct planner_result result;
        const char *name = planner_table[p].name;
        bool is_program = strcmp(name, "ilp") == 0 || strcmp(name, "lp_round") == 0;
        bool is_other = strcmp(name, "floor") == 0 && trace->is_graph; /* outside of the model */
        if (strcmp(name, "best") == 0 || strcmp(name, "joint") == 0 || is_other ||
            (is_program && !with_ilp))
            continue;
        EBB_TRY(planner_run(&planner_table[p], trace, request, &result, err));
        if (result.status == PLANNER_OK)
            rivals_note(r, name, result.cost);
        planner_result_fini(&result);
    }
    return EBB_OK;
}

static inline enum ebb_status rivals_policies(const struct trace *trace, uint64_t budget,
                                              struct rivals *r, struct ebb_error *err)
{
    struct exec_program *program = NULL;
    enum ebb_status status =
        exec_program_create(&program, trace, trace->is_graph ? EXEC_SIMRD : EXEC_EBB, err);
    for (size_t p = 0; p < mem_policy_count && status == EBB_OK; p++) {
        struct exec_report report;
        struct exec_options options = {.policy = &mem_policies[p],
                                       .budget_bytes = budget,
                                       .limit = 2,
                                       .links.in[0].bytes_per_ns = 300};
        status = exec_run(program, &options, &report, err);
        if (status == EBB_OK && report.result == EXEC_OK)
            rivals_note(r, mem_policies[p].name, report.base_ns + report.remat_ns);
    }
    exec_program_destroy(program);
    return status;
}

static inline enum ebb_status rivals_run(const struct trace *trace,
                                         const struct planner_request *request, bool with_ilp,
                                         struct rivals *r, struct ebb_error *err)
{
    struct planner_result result;
    *r = (struct rivals){0};
    EBB_TRY(planner_run(planner_find("best"), trace, request, &result, err));
    r->has_best = result.status == PLANNER_OK;
    r->best = result.cost;
    r->bound = result.lower_bound;
    r->seconds = result.seconds;
    planner_result_fini(&result);
    EBB_TRY(rivals_planners(trace, request, with_ilp, r, err));
    return rivals_policies(trace, request->budget_bytes, r, err);
}

#endif
