/* Plans with copies to the host: what they say they take is what the null device takes; planners
 * that find none say so. */
#include "test.h"

#include <string.h>

#include "exec/exec.h"
#include "planner/planner.h"

static struct trace *chain(uint32_t layers)
{
    const struct trace_synth synth = {.layers = layers};
    struct trace *trace = NULL;
    struct ebb_error err;
    for (size_t i = 0; i < trace_shape_count; i++)
        if (strcmp(trace_shapes[i].name, "chain") == 0)
            CHECK_OK(trace_shape_make(&trace_shapes[i], &synth, &trace, &err), &err);
    return trace;
}

static void plan_with_host(const struct trace *trace, const char *planner, double ratio,
                           double bytes_per_ns, struct planner_result *result,
                           struct planner_request *request)
{
    struct trace_stats stats;
    struct ebb_error err;
    CHECK_OK(trace_stats_compute(trace, &stats, &err), &err);
    planner_request_init(request);
    request->budget_bytes = (uint64_t)((double)stats.baseline_bytes * ratio);
    request->time_limit_s = 2;
    request->tiers =
        (struct planner_tiers){.bytes[DEVICE_HOST] = UINT64_C(1) << 33,
                               .links = {.in[DEVICE_HOST].bytes_per_ns = bytes_per_ns,
                                         .out[DEVICE_HOST].bytes_per_ns = bytes_per_ns}};
    CHECK_OK(planner_run(planner_find(planner), trace, request, result, &err), &err);
}

static bool has_copies(const struct plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].act == PLAN_SEND)
            return true;
    return false;
}

static uint64_t time_on_null(const struct trace *trace, const struct plan *plan,
                             const struct planner_request *request)
{
    struct exec_program *program;
    struct exec_report report;
    struct ebb_error err;
    const struct exec_options options = {.plan = plan,
                                         .budget_bytes = request->budget_bytes,
                                         .tier_bytes[DEVICE_HOST] =
                                             request->tiers.bytes[DEVICE_HOST],
                                         .links = request->tiers.links};
    CHECK_OK(exec_program_create(&program, trace, EXEC_EBB, &err), &err);
    CHECK_OK(exec_run(program, &options, &report, &err), &err);
    exec_program_destroy(program);
    CHECK_EQ(report.result, EXEC_OK);
    return report.device_ns > report.clock_ns ? report.device_ns : report.clock_ns;
}

TEST(floor__costs_what_the_null_device_takes)
{
    static const double rates[] = {20, 5, 1, 0.1}, ratios[] = {0.7, 0.5, 0.3, 0.16};
    int copying = 0;
    struct trace *trace = chain(16);
    for (size_t r = 0; r < 4; r++)
        for (size_t k = 0; k < 4; k++) {
            struct planner_request request;
            struct planner_result result;
            plan_with_host(trace, "floor", ratios[r], rates[k], &result, &request);
            if (result.status == PLANNER_OK) {
                copying += has_copies(&result.plan);
                CHECK_EQ(result.cost, time_on_null(trace, &result.plan, &request));
            }
            planner_result_fini(&result);
        }
    CHECK(copying > 0);
    trace_destroy(trace);
}

/* With lower tiers never slower than without, nor than the floor's games; its cost is what the null
 * device takes; a faster link never makes it slower. */
TEST(unified__is_the_fastest_of_many)
{
    static const double rates[] = {0.1, 1, 5, 20}, ratios[] = {0.7, 0.5, 0.3};
    struct trace *trace = chain(16);
    for (size_t r = 0; r < 3; r++) {
        uint64_t before = UINT64_MAX;
        for (size_t k = 0; k < 4; k++) {
            struct planner_request request;
            struct planner_result games, all, alone;
            struct ebb_error err;
            plan_with_host(trace, "floor", ratios[r], rates[k], &games, &request);
            plan_with_host(trace, "unified", ratios[r], rates[k], &all, &request);
            CHECK_EQ(all.status, PLANNER_OK);
            CHECK_EQ(all.cost, time_on_null(trace, &all.plan, &request));
            CHECK(games.status != PLANNER_OK || all.cost <= games.cost);
            request.tiers = (struct planner_tiers){0};
            CHECK_OK(planner_run(planner_find("unified"), trace, &request, &alone, &err), &err);
            CHECK(alone.status != PLANNER_OK || all.cost <= alone.cost);
            CHECK(all.cost <= before);
            before = all.cost;
            planner_result_fini(&games);
            planner_result_fini(&all);
            planner_result_fini(&alone);
        }
    }
    trace_destroy(trace);
}

/* A host that nobody should wait for does no harm. */
TEST(floor__slow_host__is_left_alone)
{
    struct trace *trace = chain(16);
    struct planner_request request;
    struct planner_result slow, none;
    struct ebb_error err;
    plan_with_host(trace, "floor", 0.6, 0.001, &slow, &request);
    request.tiers = (struct planner_tiers){0};
    CHECK_OK(planner_run(planner_find("floor"), trace, &request, &none, &err), &err);
    CHECK_EQ(slow.status, PLANNER_OK);
    CHECK_EQ(none.status, PLANNER_OK);
    CHECK(slow.cost <= none.cost);
    planner_result_fini(&slow);
    planner_result_fini(&none);
    trace_destroy(trace);
}

/* Beyond the size that its model is made for: a plan with copies, or the limit by name; never a
 * plan without copies as if that were the answer. */
TEST(joint__many_ops__copies_or_says_the_limit)
{
    static const uint32_t layers[] = {40, 100};
    for (size_t k = 0; k < 2; k++) {
        struct trace *trace = chain(layers[k]);
        struct planner_request request;
        struct planner_result result;
        plan_with_host(trace, "joint", 0.6, 10, &result, &request);
        if (result.status == PLANNER_OK)
            CHECK(has_copies(&result.plan));
        else
            CHECK(strstr(result.note, "65") != NULL);
        planner_result_fini(&result);
        trace_destroy(trace);
    }
}

TEST_MAIN()
