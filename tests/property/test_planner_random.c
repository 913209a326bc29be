/* Random traces x budgets x planners: what is handed out is legal, fits, is not below its bound,
 * and the same twice. */
#include "test.h"

#include <math.h>

#include "base/heap.h"
#include "planner/planner.h"

static struct trace *make_trace(const char *shape, uint32_t size, uint64_t seed, bool has_features)
{
    struct trace_synth synth = {.layers = size,
                                .ops = size,
                                .bytes = 1 << 16,
                                .weight_bytes = 1 << 12,
                                .cost_ns = 1000,
                                .seed = seed,
                                .spread = 0.8,
                                .has_views = has_features,
                                .has_mutation = has_features,
                                .has_multi_output = has_features};
    struct ebb_error err;
    struct trace *trace = NULL;
    for (size_t i = 0; i < trace_shape_count; i++)
        if (strcmp(trace_shapes[i].name, shape) == 0)
            CHECK_OK(trace_shape_make(&trace_shapes[i], &synth, &trace, &err), &err);
    CHECK(trace != NULL);
    return trace;
}

static void check_result(const struct trace *trace, const struct planner_request *request,
                         const struct planner_result *result)
{
    struct plan_limits limits = {{request->budget_bytes, 0, 0}};
    struct plan_report report;
    struct ebb_error err;
    if (result->status != PLANNER_OK)
        return;
    CHECK_OK(plan_check(trace, &result->plan, &limits, &report, &err), &err);
    CHECK_EQ(report.cost_ns, result->cost);
    CHECK(report.height_bytes <= request->budget_bytes);
    CHECK(report.height_bytes == result->height_bytes);
    CHECK(result->cost >= result->base_cost);
    CHECK(result->lower_bound <= (double)result->cost * (1 + 1e-9));
}

/* Every planner at all budgets, or, if not long, at two in turn: `turn` says with which it begins. */
static void run_all(const struct trace *trace, size_t turn, size_t *planned)
{
    static const double ratios[] = {1.05, 0.9, 0.75, 0.6};
    struct planner_facts facts;
    struct ebb_error err;
    CHECK_OK(planner_facts_compute(trace, &facts, &err), &err);
    for (size_t p = 0; p < planner_count; p++)
        for (size_t r = test_is_long() ? 0 : (p + turn) % 2; r < sizeof ratios / sizeof *ratios;
             r += test_is_long() ? 1 : 2) {
            struct planner_request request;
            struct planner_result result;
            planner_request_init(&request);
            request.budget_bytes = (uint64_t)((double)facts.no_remat_peak * ratios[r]);
            request.effort = 0;
            request.time_limit_s = 10;
            CHECK_OK(planner_run(&planner_table[p], trace, &request, &result, &err), &err);
            check_result(trace, &request, &result);
            *planned += result.status == PLANNER_OK;
            planner_result_fini(&result);
        }
}

TEST(planners__hand_out_legal_plans_only)
{
    size_t planned = 0;
    for (uint64_t seed = 1; seed <= (test_is_long() ? 6u : 3u); seed++) {
        struct trace *trace = make_trace("random", 40, seed, seed % 2 == 0);
        run_all(trace, seed, &planned);
        trace_destroy(trace);
    }
    static const char *const shapes[] = {"chain", "linear", "tree", "unet", "transformer", "lstm"};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        struct trace *trace = make_trace(shapes[k], 3, 7, false);
        run_all(trace, k, &planned);
        trace_destroy(trace);
    }
    CHECK(planned > 60); /* the test must not pass by planning nothing */
}

TEST(best__with_bounds_is_legal_on_traces)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct trace *trace = make_trace("random", 30, seed, seed > 2);
        struct planner_facts facts;
        struct planner_request request;
        struct planner_result result;
        struct ebb_error err;
        CHECK_OK(planner_facts_compute(trace, &facts, &err), &err);
        planner_request_init(&request);
        request.budget_bytes = (uint64_t)((double)facts.no_remat_peak * 0.85);
        request.time_limit_s = 6;
        CHECK_OK(planner_run(planner_find("best"), trace, &request, &result, &err), &err);
        check_result(trace, &request, &result);
        planner_result_fini(&result);
        trace_destroy(trace);
    }
}

TEST(best__is_deterministic)
{
    struct trace *trace = make_trace("chain", 24, 3, false);
    struct planner_facts facts;
    struct planner_result results[2];
    struct ebb_error err;
    CHECK_OK(planner_facts_compute(trace, &facts, &err), &err);
    for (int k = 0; k < 2; k++) {
        struct planner_request request;
        planner_request_init(&request);
        request.budget_bytes = (uint64_t)((double)facts.no_remat_peak * 0.8);
        request.effort = 0;
        CHECK_OK(planner_run(planner_find("best"), trace, &request, &results[k], &err), &err);
        CHECK_EQ(results[k].status, PLANNER_OK);
    }
    CHECK_EQ(results[0].plan.step_count, results[1].plan.step_count);
    CHECK(memcmp(&results[0].plan.steps[0], &results[1].plan.steps[0],
                 sizeof results[0].plan.steps[0]) == 0);
    for (size_t i = 0; i < results[0].plan.step_count; i++) {
        CHECK_EQ(results[0].plan.steps[i].act, results[1].plan.steps[i].act);
        CHECK_EQ(results[0].plan.steps[i].index, results[1].plan.steps[i].index);
        CHECK(results[0].plan.steps[i].offset == results[1].plan.steps[i].offset);
    }
    planner_result_fini(&results[0]);
    planner_result_fini(&results[1]);
    trace_destroy(trace);
}

TEST(best__survives_failed_allocations)
{
    struct trace *trace = make_trace("chain", 4, 3, false);
    struct planner_facts facts;
    struct ebb_error err;
    CHECK_OK(planner_facts_compute(trace, &facts, &err), &err);
    uint64_t live = ebb_heap_live();
    for (uint64_t n = 1; n < 4000; n += n < 64 ? 1 : 97) {
        struct planner_request request;
        struct planner_result result;
        planner_request_init(&request);
        request.budget_bytes = (uint64_t)((double)facts.no_remat_peak * 0.95);
        request.effort = 0;
        ebb_heap_fail_at(n);
        enum ebb_status status = planner_run(planner_find("best"), trace, &request, &result, &err);
        ebb_heap_fail_at(0);
        if (status == EBB_OK)
            planner_result_fini(&result);
        else
            CHECK_EQ(status, EBB_ENOMEM);
        CHECK_EQ(ebb_heap_live(), live);
    }
    trace_destroy(trace);
}

TEST_MAIN()
