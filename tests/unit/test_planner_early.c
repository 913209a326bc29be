/* Copies that go beside the ops.
 *
 *   op 0 a    op 1 b    op 2 c = f(b)    op 3 d = f(c)    op 4 e = f(d)    op 5 f(a, e): kept
 *
 * Each of them has 1024 bytes and takes 1000 ns, a copy 1224 ns. In 2048 bytes a has to leave before
 * op 2, and comes back when d is gone. */
#include "test.h"
#include "trace_kit.h"

#include "exec/exec.h"
#include "plan/plan.h"
#include "planner/planner.h"

enum { A, B, C, D, E };

static struct trace *trace;
static struct exec_program *program;
static struct plan plan;
static struct ebb_error err;

static int begin(void **state)
{
    (void)state;
    struct trace_builder *t = trace_kit_begin();
    struct trace_op_desc op = {.kind_name = "f", .cost_ns = 1000, .purity = TRACE_ONCE};
    uint32_t a = trace_kit_op(t, op, 1000, NULL, 0), b = trace_kit_op(t, op, 1000, NULL, 0);
    uint32_t c = trace_kit_op(t, op, 1000, (uint32_t[]){b}, 1);
    uint32_t d = trace_kit_op(t, op, 1000, (uint32_t[]){c}, 1);
    uint32_t e = trace_kit_op(t, op, 1000, (uint32_t[]){d}, 1);
    uint32_t f = trace_kit_op(t, op, 0, (uint32_t[]){a, e}, 2);
    trace_kit_command(t, TRACE_PIN, f);
    trace = trace_kit_end(t, "six");
    CHECK_OK(exec_program_create(&program, trace, EXEC_EBB, &err), &err);
    plan_init(&plan);
    plan.signature = trace->signature;
    static const struct {
        enum plan_act act;
        uint32_t index;
        uint8_t tier;
    } steps[] = {{PLAN_PLACE, A, 0}, {PLAN_RUN, 0, 0},   {PLAN_SEND, A, 1},  {PLAN_DROP, A, 0},
                 {PLAN_PLACE, B, 0}, {PLAN_RUN, 1, 0},   {PLAN_PLACE, C, 0}, {PLAN_RUN, 2, 0},
                 {PLAN_DROP, B, 0},  {PLAN_PLACE, D, 0}, {PLAN_RUN, 3, 0},   {PLAN_DROP, C, 0},
                 {PLAN_PLACE, E, 0}, {PLAN_RUN, 4, 0},   {PLAN_DROP, D, 0},  {PLAN_PLACE, A, 0},
                 {PLAN_FETCH, A, 1}, {PLAN_RUN, 5, 0},   {PLAN_DROP, E, 0}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        CHECK_OK(plan_add(&plan, steps[i].act, steps[i].index, PLAN_NOWHERE, steps[i].tier, &err),
                 &err);
    return 0;
}

static int end(void **state)
{
    (void)state;
    plan_fini(&plan);
    exec_program_destroy(program);
    trace_destroy(trace);
    return 0;
}

/* How long compute waits in a budget. */
static uint64_t stall_in(uint64_t budget, bool drops_late)
{
    struct device_link link = {.latency_ns = 200, .bytes_per_ns = 1};
    struct planner_tiers tiers = {
        .bytes = {budget, 4096, 0},
        .links = {.in = {[DEVICE_T0] = {.bytes_per_ns = 8}, [DEVICE_HOST] = link},
                  .out = {[DEVICE_HOST] = link}}};
    struct exec_options o = {.budget_bytes = budget,
                             .tier_bytes = {0, 4096, 0},
                             .ways = MEM_DROP | MEM_HOST,
                             .links = tiers.links};
    struct exec_report report;
    struct plan early = {0};
    bool is_found = false;
    CHECK_OK(planner_early(trace, &plan, &tiers, drops_late, &early, &is_found, &err), &err);
    CHECK(is_found);
    o.plan = &early;
    CHECK_OK(exec_run(program, &o, &report, &err), &err);
    CHECK_EQ(report.result, EXEC_OK);
    CHECK(report.peak_bytes <= budget);
    plan_fini(&early);
    return report.stall_ns;
}

TEST(early__what_is_sent_keeps_its_bytes_until_it_has_left)
{
    CHECK_EQ(stall_in(3072, true), 0);
    CHECK_EQ(stall_in(3072, false), 1224); /* b takes them */
}

TEST(early__but_not_those_that_an_op_must_have)
{
    CHECK_EQ(stall_in(2048, true), 224 + 1224); /* c waits for a to leave, the last op for a */
    CHECK_EQ(stall_in(2048, false), 1224 + 1224);
}

/* Twelve moments that live in the host, each updated once: the links have no rest. In room for four
 * what comes in must not wait for what leaves. */
TEST(early__both_ways_at_once_where_links_have_no_rest)
{
    enum { MOMENTS = 12, BYTES = 102400 };
    struct trace_builder *t = trace_kit_begin();
    struct trace_op_desc leaf = {.kind_name = "leaf", .is_leaf = true};
    struct trace_op_desc update = {.kind_name = "u", .cost_ns = 1000, .purity = TRACE_ONCE};
    uint32_t moments[MOMENTS];
    for (int i = 0; i < MOMENTS; i++)
        moments[i] = trace_kit_op(t, leaf, BYTES, NULL, 0);
    for (int i = 0; i < MOMENTS; i++)
        moments[i] = trace_kit_op(t, update, 0, &moments[i], 1);
    for (int i = 0; i < MOMENTS; i++)
        trace_kit_command(t, TRACE_PIN, moments[i]);
    struct trace *all = trace_kit_end(t, "moments");
    struct exec_program *p = NULL;
    struct plan game = {0}, early = {0};
    struct plan_homes homes = {0};
    struct device_link link = {.bytes_per_ns = 1};
    struct planner_tiers tiers = {
        .bytes = {4 * BYTES, MOMENTS * BYTES, 0},
        .links = {.in = {[DEVICE_T0] = {.bytes_per_ns = 8}, [DEVICE_HOST] = link},
                  .out = {[DEVICE_HOST] = link}}};
    struct exec_report report;
    bool is_found;
    CHECK_OK(exec_program_create(&p, all, EXEC_EBB, &err), &err);
    CHECK_OK(planner_homes(all, &tiers, 1, PLANNER_SMALL_TOO, &homes, &err), &err);
    tiers.homes = &homes;
    CHECK_OK(planner_floor_at(all, &tiers, 2 * BYTES, 4 * BYTES, &game, &is_found, &err), &err);
    CHECK(is_found);
    CHECK_OK(planner_early(all, &game, &tiers, true, &early, &is_found, &err), &err);
    CHECK(is_found);
    struct exec_options o = {.budget_bytes = 4 * BYTES,
                             .tier_bytes = {0, MOMENTS * BYTES, 0},
                             .links = tiers.links,
                             .plan = &early};
    CHECK_OK(exec_run(p, &o, &report, &err), &err);
    CHECK(report.device_ns >= (MOMENTS + 1) * BYTES); /* the last one leaves by itself */
    CHECK(report.device_ns < (MOMENTS + 3) * BYTES);  /* one after the other: twice as long */
    plan_homes_fini(&homes);
    plan_fini(&early);
    plan_fini(&game);
    exec_program_destroy(p);
    trace_destroy(all);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(early__what_is_sent_keeps_its_bytes_until_it_has_left),
        CASE(early__but_not_those_that_an_op_must_have),
        CASE(early__both_ways_at_once_where_links_have_no_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
