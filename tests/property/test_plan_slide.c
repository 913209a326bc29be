/* Addresses with moves: any plan fits into its byte sum, not a unit less, with the same runs. */
#include "test.h"

#include <stdlib.h>

#include "planner/planner.h"

/* A plan that recomputes, without its addresses. */
static bool make_plan(const struct trace *trace, double ratio, struct plan *plan)
{
    struct planner_facts facts;
    struct planner_request request;
    struct planner_result result;
    struct ebb_error err;
    CHECK_OK(planner_facts_compute(trace, &facts, &err), &err);
    planner_request_init(&request);
    request.effort = 0;
    request.budget_bytes = (uint64_t)((double)facts.no_remat_peak * ratio);
    CHECK_OK(planner_run(planner_find("best"), trace, &request, &result, &err), &err);
    plan_init(plan);
    plan->signature = result.plan.signature;
    for (size_t i = 0; i < result.plan.step_count; i++) {
        const struct plan_step *s = &result.plan.steps[i];
        bool has_address = s->act == PLAN_PLACE || s->act == PLAN_RUN;
        if (s->act != PLAN_MOVE)
            CHECK_OK(plan_add(plan, (enum plan_act)s->act, s->index, has_address ? PLAN_NOWHERE : 0,
                              s->tier, &err),
                     &err);
    }
    bool is_ok = result.status == PLANNER_OK;
    planner_result_fini(&result);
    return is_ok;
}

static void check_plan(const struct trace *trace, struct plan *plan, uint64_t *moved)
{
    struct plan_limits none = {{UINT64_MAX, 0, 0}};
    struct plan_report before, after;
    struct ebb_error err;
    uint64_t bytes = 0;
    CHECK_OK(plan_check(trace, plan, &none, &before, &err), &err);
    size_t steps = plan->step_count;
    CHECK_EQ(plan_assign_sliding(trace, plan, before.peak_bytes - 1, NULL, &err), EBB_EBUDGET);
    CHECK_EQ(plan->step_count, steps);
    CHECK_OK(plan_assign_sliding(trace, plan, before.peak_bytes, &bytes, &err), &err);
    struct plan_limits tight = {{before.peak_bytes, 0, 0}};
    CHECK_OK(plan_check(trace, plan, &tight, &after, &err), &err);
    CHECK_EQ(after.height_bytes <= before.peak_bytes, true);
    CHECK_EQ(after.cost_ns, before.cost_ns);
    CHECK(after.moved_bytes <= bytes && (after.moved_bytes > 0) == (bytes > 0)); /* rounded */
    CHECK_EQ(plan_assign_sliding(trace, plan, UINT64_MAX / 2, NULL, &err),
             bytes ? EBB_EINPUT : EBB_OK); /* moves: it has addresses */
    *moved += bytes;
}

TEST(sliding__reaches_the_byte_sum)
{
    uint64_t moved = 0;
    size_t planned = 0;
    for (size_t shape = 0; shape < trace_shape_count; shape++)
        for (uint64_t seed = 1; seed <= 6; seed++) {
            struct trace_synth synth = {.layers = 2 + (uint32_t)seed % 3,
                                        .ops = 40 * (uint32_t)seed,
                                        .bytes = 1 << 16,
                                        .weight_bytes = 1 << 12,
                                        .cost_ns = 1000,
                                        .seed = seed,
                                        .spread = 0.9,
                                        .has_mutation = seed % 2 == 0};
            struct ebb_error err;
            struct trace *trace = NULL;
            CHECK_OK(trace_shape_make(&trace_shapes[shape], &synth, &trace, &err), &err);
            for (int r = 6; r <= 10; r += 2) {
                struct plan plan;
                if (make_plan(trace, 0.1 * r, &plan)) {
                    check_plan(trace, &plan, &moved);
                    planned++;
                }
                plan_fini(&plan);
            }
            trace_destroy(trace);
        }
    CHECK(planned > 60);
    CHECK(moved > 0);
}

TEST_MAIN()
