/* Planner `floor` on random traces: its plan is proved, runs, and is refused one unit below; larger
 * budgets are never refused; it needs no more than runs of the executor do. */
#include "test.h"

#include "base/heap.h"
#include "exec/exec.h"
#include "exec_traces.h"
#include "planner/planner.h"

static struct trace *make_trace(uint64_t seed)
{
    return seed % 3 == 0 ? exec_traces_nasty(seed, seed % 2) : exec_traces_random(seed, seed % 2);
}

/* The plan passes the checker at exactly its height and runs on the null device within it. */
static void check_plan(const struct trace *trace, const struct plan *plan, uint64_t budget)
{
    struct ebb_error err;
    struct plan_report proof;
    struct plan_limits limits = {.budget_bytes = {budget, 0, 0}};
    struct exec_program *program = NULL;
    struct exec_report report;
    struct exec_options options = {.plan = plan, .budget_bytes = budget};
    CHECK_OK(plan_check(trace, plan, &limits, &proof, &err), &err);
    CHECK(proof.height_bytes <= budget);
    CHECK_OK(exec_program_create(&program, trace, EXEC_EBB, &err), &err);
    CHECK_OK(exec_run(program, &options, &report, &err), &err);
    CHECK_EQ(report.result, EXEC_OK);
    CHECK(report.peak_bytes <= budget);
    CHECK_EQ(report.peak_bytes, proof.height_bytes);
    exec_program_destroy(program);
}

static enum planner_status ask(const struct trace *trace, uint64_t budget, uint64_t floor_bytes,
                               uint64_t most_cost)
{
    struct ebb_error err;
    struct planner_request request;
    struct planner_result result;
    char number[32];
    planner_request_init(&request);
    request.budget_bytes = budget;
    CHECK_OK(planner_run(planner_find("floor"), trace, &request, &result, &err), &err);
    enum planner_status status = result.status;
    if (status == PLANNER_OK) {
        check_plan(trace, &result.plan, budget);
        CHECK(result.cost <= most_cost);
    } else { /* a refusal names the floor */
        snprintf(number, sizeof number, "%llu", (unsigned long long)floor_bytes);
        CHECK(strstr(result.note, number) != NULL);
    }
    planner_result_fini(&result);
    return status;
}

TEST(floor__is_what_it_says)
{
    for (uint64_t seed = 1; seed <= (test_is_long() ? 120u : 48u); seed++) {
        struct trace *trace = make_trace(seed);
        struct ebb_error err;
        struct plan plan;
        uint64_t floor_bytes = 0;
        struct planner_floor_facts facts;
        plan_init(&plan);
        CHECK_OK(planner_floor(trace, NULL, &plan, &floor_bytes, &err), &err);
        CHECK_EQ(floor_bytes % PLAN_UNIT, 0);
        check_plan(trace, &plan, floor_bytes);
        CHECK_OK(planner_floor_facts_compute(trace, &facts, &err), &err);
        CHECK_EQ(facts.floor_bytes, floor_bytes);
        CHECK(facts.cost <= 8 * facts.base_cost);
        if (seed % 2 == 0) /* nothing is written in place: no update can run early */
            CHECK(facts.floor_bytes >= facts.lower_bound_bytes);
        CHECK_EQ(ask(trace, floor_bytes, floor_bytes, facts.cost), PLANNER_OK);
        if (floor_bytes > 0)
            CHECK_EQ(ask(trace, floor_bytes - PLAN_UNIT, floor_bytes, 0), PLANNER_INFEASIBLE);
        for (uint64_t more = PLAN_UNIT; more < floor_bytes; more = more * 3)
            CHECK_EQ(ask(trace, floor_bytes + more + more % 100, floor_bytes, facts.cost),
                     PLANNER_OK); /* budgets need not be multiples of the unit */
        plan_fini(&plan);
        trace_destroy(trace);
    }
}

TEST(floor__is_the_same_twice)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct trace *trace = make_trace(seed);
        struct ebb_error err;
        struct plan plans[2];
        uint64_t bytes[2];
        for (int k = 0; k < 2; k++)
            CHECK_OK(planner_floor(trace, NULL, &plans[k], &bytes[k], &err), &err);
        CHECK_EQ(bytes[0], bytes[1]);
        CHECK_EQ(plans[0].step_count, plans[1].step_count);
        for (size_t i = 0; i < plans[0].step_count; i++) {
            CHECK_EQ(plans[0].steps[i].act, plans[1].steps[i].act);
            CHECK_EQ(plans[0].steps[i].index, plans[1].steps[i].index);
            CHECK_EQ(plans[0].steps[i].offset, plans[1].steps[i].offset);
        }
        plan_fini(&plans[0]);
        plan_fini(&plans[1]);
        trace_destroy(trace);
    }
}

/* ---- with a host ------------------------------------------------------------------------------
 */

TEST(floor__with_tiers_is_lower)
{
    double sum = 0;
    int count = 0;
    for (uint64_t seed = 1; seed <= (test_is_long() ? 60u : 36u); seed++) {
        struct trace *trace = make_trace(seed);
        struct ebb_error err;
        struct planner_floor_facts facts;
        struct trace_stats stats;
        CHECK_OK(planner_floor_facts_compute(trace, &facts, &err), &err);
        CHECK_OK(trace_stats_compute(trace, &stats, &err), &err);
        for (int k = 0; k < 9; k++) { /* large tiers, and small ones: host, file, both */
            uint64_t room = 2 * stats.total_bytes / (UINT64_C(1) << k / 3 * 2) + 1;
            struct planner_tiers tiers = {
                .bytes = {0, k % 3 == 1 ? 0 : room,
                          k % 3 == 0   ? 0
                          : k % 3 == 2 ? room / 2
                                       : room},
                .links = {.in = {[1].bytes_per_ns = 20, [2].bytes_per_ns = 2},
                          .out = {[1].bytes_per_ns = 20, [2].bytes_per_ns = 2}}};
            struct plan plan;
            uint64_t floor_bytes = 0;
            struct exec_program *program = NULL;
            struct exec_report report;
            CHECK_OK(planner_floor(trace, &tiers, &plan, &floor_bytes, &err), &err);
            CHECK(floor_bytes <= facts.floor_bytes);
            CHECK(floor_bytes >= facts.working_bytes);
            struct plan_report proof;
            struct plan_limits limits = {
                .budget_bytes = {floor_bytes, tiers.bytes[1], tiers.bytes[2]}};
            struct exec_options options = {
                .plan = &plan,
                .budget_bytes = floor_bytes,
                .tier_bytes = {0, 4 * stats.total_bytes + 1, 4 * stats.total_bytes + 1}};
            CHECK_OK(plan_check(trace, &plan, &limits, &proof, &err), &err);
            CHECK_OK(exec_program_create(&program, trace, EXEC_EBB, &err), &err);
            CHECK_OK(exec_run(program, &options, &report, &err), &err);
            CHECK_EQ(report.result, EXEC_OK);
            CHECK_EQ(report.peak_bytes, proof.height_bytes);
            exec_program_destroy(program);
            plan_fini(&plan);
            if (k < 3) {
                sum += (double)floor_bytes / (double)facts.floor_bytes;
                count++;
            }
        }
        trace_destroy(trace);
    }
    printf("floor with large tiers / without: %.3f\n", sum / count);
    CHECK(sum / count < 0.95);
}

TEST(floor__survives_failed_allocations)
{
    struct trace *trace = exec_traces_random(7, true);
    struct planner_request request;
    struct ebb_error err;
    uint64_t floor_bytes = 0;
    planner_request_init(&request);
    CHECK_OK(planner_floor(trace, NULL, NULL, &floor_bytes, &err), &err);
    request.budget_bytes = floor_bytes + floor_bytes / 8; /* a cheaper one is looked for, too */
    uint64_t live = ebb_heap_live(), failures = 0;
    for (uint64_t n = 1; n < 6000; n += n < 200 ? 1 : 61) {
        struct planner_result result;
        request.tiers = (struct planner_tiers){
            .bytes[DEVICE_HOST] = n % 2 ? 0 : 1 << 16,
            .links = {.in[DEVICE_HOST].bytes_per_ns = 20, .out[DEVICE_HOST].bytes_per_ns = 20}};
        ebb_heap_fail_at(n);
        enum ebb_status status = planner_run(planner_find("floor"), trace, &request, &result, &err);
        ebb_heap_fail_at(0);
        if (status == EBB_OK)
            planner_result_fini(&result);
        else
            CHECK_EQ(status, EBB_ENOMEM);
        failures += status != EBB_OK;
        CHECK_EQ(ebb_heap_live(), live);
    }
    CHECK(failures > 100);
    trace_destroy(trace);
}

/* ---- against runs of the executor -------------------------------------------------------------
 */

static uint64_t run_at(const struct exec_program *program, uint64_t budget)
{
    static const char *const frugal[] = {"dtr_eq", "dtr", "msps"};
    struct ebb_error err;
    for (size_t i = 0; i < sizeof frugal / sizeof *frugal; i++) {
        struct exec_report report;
        struct exec_options options = {.policy = mem_policy_find(frugal[i]),
                                       .budget_bytes = budget,
                                       .limit = 20,
                                       .links.in[0].bytes_per_ns = 300};
        CHECK_OK(exec_run(program, &options, &report, &err), &err);
        if (report.result == EXEC_OK)
            return report.peak_bytes;
    }
    return 0;
}

/* The smallest budget at which a policy gets through, by bisection. */
static uint64_t executor_floor(const struct trace *trace)
{
    struct ebb_error err;
    struct exec_program *program = NULL;
    CHECK_OK(exec_program_create(&program, trace, EXEC_EBB, &err), &err);
    uint64_t high = run_at(program, TRACE_MAX_BYTES), low = 0;
    while (high > low + PLAN_UNIT && high - low > high / 256) {
        uint64_t height = run_at(program, low + plan_round((high - low) / 2));
        if (height)
            high = height;
        else
            low += plan_round((high - low) / 2);
    }
    exec_program_destroy(program);
    return high;
}

TEST(floor__needs_less_than_the_executor)
{
    double sum = 0, bound = 0;
    int count = 0, above = 0;
    for (uint64_t seed = 1; seed <= 90; seed++) {
        struct trace *trace = make_trace(seed);
        struct ebb_error err;
        struct planner_floor_facts facts;
        uint64_t other = executor_floor(trace);
        CHECK_OK(planner_floor_facts_compute(trace, &facts, &err), &err);
        if (other > 0) {
            double ratio = (double)facts.floor_bytes / (double)other;
            sum += ratio;
            bound += (double)facts.floor_bytes / (double)facts.lower_bound_bytes;
            above += ratio > 1;
            count++;
            CHECK(ratio < 1.08);
        }
        trace_destroy(trace);
    }
    printf("floor / executor %.3f, above it %d of %d; floor / lower bound %.3f\n", sum / count,
           above, count, bound / count);
    CHECK(sum / count < 0.93);
    CHECK(bound / count < 1.08);
    CHECK(above * 10 < count);
}

TEST_MAIN()
