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
                           double bytes_per_ns, bool is_bounded, struct planner_result *result,
                           struct planner_request *request)
{
    struct trace_stats stats;
    struct ebb_error err;
    CHECK_OK(trace_stats_compute(trace, &stats, &err), &err);
    planner_request_init(request);
    request->budget_bytes = (uint64_t)((double)stats.baseline_bytes * ratio);
    request->time_limit_s = 2;
    request->is_bounded = is_bounded || test_is_long();
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
    const struct exec_options options = {
        .plan = plan,
        .budget_bytes = request->budget_bytes,
        .tier_bytes = {0, request->tiers.bytes[DEVICE_HOST], request->tiers.bytes[DEVICE_FILE]},
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
            plan_with_host(trace, "floor", ratios[r], rates[k], false, &result, &request);
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
    for (size_t r = 0; r < 3; r += test_is_long() ? 1 : 2) {
        uint64_t before = UINT64_MAX;
        for (size_t k = test_is_long() ? 0 : r / 2; k < 4; k += test_is_long() ? 1 : 2) {
            struct planner_request request;
            struct planner_result games, all, alone;
            struct ebb_error err;
            plan_with_host(trace, "floor", ratios[r], rates[k], false, &games, &request);
            plan_with_host(trace, "unified", ratios[r], rates[k], false, &all, &request);
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
    plan_with_host(trace, "floor", 0.6, 0.001, false, &slow, &request);
    request.tiers = (struct planner_tiers){0};
    CHECK_OK(planner_run(planner_find("floor"), trace, &request, &none, &err), &err);
    CHECK_EQ(slow.status, PLANNER_OK);
    CHECK_EQ(none.status, PLANNER_OK);
    CHECK(slow.cost <= none.cost);
    planner_result_fini(&slow);
    planner_result_fini(&none);
    trace_destroy(trace);
}

/* Every planner that copies: its cost is what the null device takes, and no less than the bound. */
TEST(planners_that_copy__cost_what_the_null_device_takes)
{
    static const double rates[] = {20, 1};
    struct trace *trace = chain(test_is_long() ? 5 : 4);
    size_t copying = 0;
    for (size_t p = 0; p < planner_count; p++)
        for (size_t k = 0; k < 2 && (planner_table[p].flags & PLANNER_HOST); k++) {
            struct planner_request request;
            struct planner_result result;
            plan_with_host(trace, planner_table[p].name, 0.6, rates[k], true, &result, &request);
            CHECK_EQ(result.status, PLANNER_OK);
            copying += has_copies(&result.plan);
            CHECK_EQ(result.cost, time_on_null(trace, &result.plan, &request));
            CHECK_EQ(result.bound_class, PLANNER_BOUND_JOINT);
            CHECK(result.lower_bound >= (double)result.base_cost);
            CHECK((double)result.cost >= result.lower_bound);
            CHECK(result.gap >= 0);
            planner_result_fini(&result);
        }
    CHECK(copying > 4);
    trace_destroy(trace);
}

/* The file alone is a tier like the host. */
TEST(joint__file_alone__is_copied_to)
{
    struct trace *trace = chain(3);
    struct planner_request request;
    struct planner_result host, file;
    struct ebb_error err;
    plan_with_host(trace, "joint", 0.6, 20, true, &host, &request);
    request.tiers.bytes[DEVICE_FILE] = request.tiers.bytes[DEVICE_HOST];
    request.tiers.links.out[DEVICE_FILE] = request.tiers.links.out[DEVICE_HOST];
    request.tiers.links.in[DEVICE_FILE] = request.tiers.links.in[DEVICE_HOST];
    request.tiers.bytes[DEVICE_HOST] = 0;
    CHECK_OK(planner_run(planner_find("joint"), trace, &request, &file, &err), &err);
    CHECK_EQ(host.status, PLANNER_OK);
    CHECK_EQ(file.status, PLANNER_OK);
    CHECK(has_copies(&file.plan));
    for (size_t i = 0; i < file.plan.step_count; i++)
        if (file.plan.steps[i].act == PLAN_SEND)
            CHECK_EQ(file.plan.steps[i].tier, DEVICE_FILE);
    CHECK_EQ(file.cost, time_on_null(trace, &file.plan, &request));
    planner_result_fini(&host);
    planner_result_fini(&file);
    trace_destroy(trace);
}

/* Never slower than the greedy planner or than without copies. */
TEST(joint__is_no_slower_than_unified)
{
    static const double rates[] = {1, 20};
    double ratio = test_is_long() ? 0.5 : 0.6; /* of three layers there is no plan in a half */
    struct trace *trace = chain(test_is_long() ? 4 : 3);
    for (size_t k = 0; k < 2; k++) {
        struct planner_request request;
        struct planner_result joint, unified;
        plan_with_host(trace, "joint", ratio, rates[k], true, &joint, &request);
        plan_with_host(trace, "unified", ratio, rates[k], false, &unified, &request);
        CHECK_EQ(joint.status, PLANNER_OK);
        CHECK(unified.status != PLANNER_OK || joint.cost <= unified.cost);
        planner_result_fini(&joint);
        planner_result_fini(&unified);
    }
    trace_destroy(trace);
}

/* Beyond the size that its model is made for: the limit by name, never a plan as if that were the
 * answer. */
TEST(joint__many_ops__says_the_limit)
{
    static const uint32_t layers[] = {20, 100};
    for (size_t k = 0; k < 2; k++) {
        struct trace *trace = chain(layers[k]);
        struct planner_request request;
        struct planner_result result;
        plan_with_host(trace, "joint", 0.6, 10, true, &result, &request);
        CHECK_EQ(result.status, PLANNER_NOT_APPLICABLE);
        CHECK(strstr(result.note, "up to 40") != NULL);
        CHECK(result.lower_bound > 0);
        planner_result_fini(&result);
        trace_destroy(trace);
    }
}

/* State that lives below is not what the bound is about. */
TEST(bound__homes_below__is_none)
{
    struct trace *trace = chain(4);
    struct planner_tiers tiers = {
        .bytes = {1 << 20, 1 << 30, 0},
        .links = {.in[DEVICE_HOST].bytes_per_ns = 1, .out[DEVICE_HOST].bytes_per_ns = 1}};
    struct plan_homes homes = {0};
    struct ebb_error err;
    double bound = -1;
    CHECK_OK(planner_homes(trace, &tiers, 1, PLANNER_SMALL_TOO, &homes, &err), &err);
    CHECK(homes.count > 0);
    tiers.homes = &homes;
    CHECK_OK(planner_bound(trace, &tiers, 0, &bound, &err), &err);
    CHECK(bound == 0);
    plan_homes_fini(&homes);
    trace_destroy(trace);
}

TEST_MAIN()
