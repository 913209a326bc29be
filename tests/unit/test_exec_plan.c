/* Plans written by hand: exec does what the checker accepts, copies of old versions included. */
#include "test.h"
#include "exec_oracle.h"
#include "trace_kit.h"

#include "base/heap.h"
#include "exec/exec.h"
#include "plan/plan.h"

/* leaf x; y = op(x); y written in place with x; z = op(y), kept. 512 bytes each. */
enum { X, Y, Z };
enum { MAKE_X, MAKE_Y, WRITE_Y, MAKE_Z };

static struct trace *trace;
static struct exec_program *program;
static struct plan plan;
static struct exec_log plan_log;
static struct ebb_error err;

static uint32_t add_op(struct trace_builder *b, const uint32_t *inputs, size_t count,
                       uint64_t bytes)
{
    struct trace_op_desc like = {
        .kind_name = bytes ? "op" : "op_", .cost_ns = count ? 100 : 0, .is_leaf = count == 0};
    return trace_kit_op(b, like, bytes, inputs, count);
}

static int open_trace(void **state)
{
    (void)state;
    struct trace_builder *b = trace_kit_begin();
    uint32_t x = add_op(b, NULL, 0, 512);
    uint32_t y = add_op(b, &x, 1, 512);
    uint32_t written = add_op(b, (uint32_t[]){y, x}, 2, 0);
    uint32_t z = add_op(b, &written, 1, 512);
    trace_kit_command(b, TRACE_PIN, z);
    trace = trace_kit_end(b, "four");
    CHECK_OK(exec_program_create(&program, trace, EXEC_EBB, &err), &err);
    plan_init(&plan);
    plan.signature = trace->signature;
    return 0;
}

static int close_trace(void **state)
{
    (void)state;
    exec_log_fini(&plan_log);
    plan_log = (struct exec_log){0};
    plan_fini(&plan);
    exec_program_destroy(program);
    trace_destroy(trace);
    return 0;
}

static void step(enum plan_act act, uint32_t index, uint64_t offset, uint8_t tier)
{
    CHECK_OK(plan_add(&plan, act, index, offset, tier, &err), &err);
}

static void place_and_run(uint32_t storage, uint64_t offset, uint32_t op)
{
    step(PLAN_PLACE, storage, offset, 0);
    step(PLAN_RUN, op, 0, 0);
}

static void make_x_and_y(void)
{
    place_and_run(X, 0, MAKE_X);
    place_and_run(Y, 512, MAKE_Y);
}

static void ask_oracle(const struct exec_options *o, const struct exec_report *report)
{
    char why[ORACLE_WHY];
    struct oracle_case judged = {
        .trace = trace, .options = o, .report = report, .is_planned = true};
    if (!oracle_judge(&judged, why))
        fail_msg("%s", why);
}

/* The checker's and the executor's word on the plan, and the oracle's on what was done. */
static struct exec_report run_plan(void)
{
    struct exec_report report;
    struct plan_report proof;
    struct exec_options o = {.plan = &plan, .budget_bytes = 2048, .log = &plan_log};
    o.tier_bytes[DEVICE_HOST] = o.tier_bytes[DEVICE_FILE] = 1024;
    o.links.in[DEVICE_HOST] = o.links.out[DEVICE_HOST] = (struct device_link){10, 1};
    o.links.in[DEVICE_FILE] = o.links.out[DEVICE_FILE] = (struct device_link){100, 1};
    struct plan_limits limits = {.budget_bytes = {2048, 1024, 1024}};
    CHECK_OK(plan_check(trace, &plan, &limits, &proof, &err), &err);
    CHECK_OK(exec_run(program, &o, &report, &err), &err);
    ask_oracle(&o, &report);
    CHECK_EQ(report.result, EXEC_OK);
    CHECK_EQ(report.peak_bytes, proof.height_bytes);
    CHECK_EQ(report.sum_bytes, proof.peak_bytes);
    CHECK_EQ(report.clock_ns, proof.cost_ns);
    return report;
}

TEST(plan_without_evictions__runs_each_op_once)
{
    make_x_and_y();
    step(PLAN_RUN, WRITE_Y, 0, 0);
    step(PLAN_DROP, X, 0, 0);
    place_and_run(Z, 0, MAKE_Z);
    struct exec_report r = run_plan();
    CHECK_EQ(r.clock_ns, 300);
    CHECK_EQ(r.device_ns, 300);
    CHECK_EQ(r.ops_done, 4);
    CHECK_EQ(r.evictions_release, 1);
    CHECK_EQ(r.evictions_pressure, 0);
}

TEST(copy__is_renewed_after_a_write_in_place)
{
    make_x_and_y();
    step(PLAN_SEND, Y, 0, 1);
    step(PLAN_RUN, WRITE_Y, 0, 0);
    step(PLAN_SEND, Y, 0, 1); /* the copy is of the version before: send again */
    step(PLAN_DROP, Y, 0, 0);
    step(PLAN_PLACE, Y, 1024, 0);
    step(PLAN_FETCH, Y, 0, 1);
    place_and_run(Z, 1536, MAKE_Z);
    struct exec_report r = run_plan();
    CHECK_EQ(r.swapped_bytes, 3 * 512);
    /* 100, out 522, 100, out 522, in 522 before the last op */
    CHECK_EQ(r.device_ns, 100 + 522 + 100 + 522 + 522 + 100);
}

TEST(clean_copy__is_not_sent_again)
{
    make_x_and_y();
    step(PLAN_SEND, Y, 0, 1);
    step(PLAN_SEND, Y, 0, 1);
    step(PLAN_RUN, WRITE_Y, 0, 0);
    place_and_run(Z, 1024, MAKE_Z);
    CHECK_EQ(run_plan().swapped_bytes, 512);
}

/* The old version comes back from its copy, and is written in place a second time. */
TEST(old_version__can_be_fetched_and_written_again)
{
    make_x_and_y();
    step(PLAN_SEND, Y, 0, 1);
    step(PLAN_RUN, WRITE_Y, 0, 0);
    step(PLAN_DROP, Y, 0, 0);
    step(PLAN_PLACE, Y, 512, 0);
    step(PLAN_FETCH, Y, 0, 1);
    step(PLAN_RUN, WRITE_Y, 0, 0);
    place_and_run(Z, 1024, MAKE_Z);
    struct exec_report r = run_plan();
    CHECK_EQ(r.remat_ops, 1);
    CHECK_EQ(r.clock_ns, 400);
}

TEST(forget__concerns_one_tier)
{
    make_x_and_y();
    step(PLAN_RUN, WRITE_Y, 0, 0);
    step(PLAN_SEND, Y, 0, 1);
    step(PLAN_SEND, Y, 0, 2);
    step(PLAN_FORGET, Y, 0, 1);
    step(PLAN_DROP, Y, 0, 0);
    step(PLAN_SEND, X, 0, 1); /* takes the room of the copy that was forgotten */
    step(PLAN_PLACE, Y, 512, 0);
    step(PLAN_FETCH, Y, 0, 2);
    place_and_run(Z, 1024, MAKE_Z);
    run_plan();
}

TEST(move__copies_and_costs)
{
    struct exec_report r;
    make_x_and_y();
    step(PLAN_MOVE, Y, 768, 0); /* ranges may overlap */
    step(PLAN_RUN, WRITE_Y, 0, 0);
    place_and_run(Z, 1280, MAKE_Z);
    struct exec_options o = {.plan = &plan, .budget_bytes = 2048, .log = &plan_log};
    o.links.in[DEVICE_T0] = (struct device_link){3, 256};
    CHECK_OK(exec_run(program, &o, &r, &err), &err);
    ask_oracle(&o, &r);
    CHECK_EQ(r.moved_bytes, 512);
    CHECK_EQ(r.clock_ns, 300 + 5);
    CHECK_EQ(r.device_ns, 300 + 5);
}

TEST(bad_plans__are_refused_before_anything_runs)
{
    struct exec_report r;
    struct exec_options o = {.plan = &plan, .budget_bytes = 2048, .log = &plan_log};
    step(PLAN_PLACE, X, PLAN_NOWHERE, 0);
    step(PLAN_RUN, MAKE_X, 0, 0);
    CHECK_EQ(exec_run(program, &o, &r, &err), EBB_EINPUT); /* ops are missing */
    step(PLAN_PLACE, Y, PLAN_NOWHERE, 0);
    step(PLAN_RUN, MAKE_Y, 0, 0);
    step(PLAN_RUN, WRITE_Y, 0, 0);
    step(PLAN_PLACE, Z, PLAN_NOWHERE, 0);
    step(PLAN_RUN, MAKE_Z, 0, 0);
    CHECK_EQ(exec_run(program, &o, &r, &err), EBB_EINPUT); /* no addresses */
    CHECK(strstr(err.message, "addresses") != NULL);
    uint64_t height;
    CHECK_OK(plan_assign_offsets(trace, &plan, UINT64_MAX, &height, &err), &err);
    CHECK_OK(exec_run(program, &o, &r, &err), &err);
    plan_log.count = 0;
    o.budget_bytes = height - 256;
    CHECK_EQ(exec_run(program, &o, &r, &err), EBB_EBUDGET);
    o.budget_bytes = 2048;
    plan.exact_bytes = true; /* proved with other sizes than those that are copied */
    CHECK_EQ(exec_run(program, &o, &r, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "exact bytes") != NULL);
    plan.exact_bytes = false;
    plan.signature.low ^= 1;
    CHECK_EQ(exec_run(program, &o, &r, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "another trace") != NULL);
    CHECK_EQ(plan_log.count, 0);
}

#define WITH(name) cmocka_unit_test_setup_teardown(name, open_trace, close_trace)

TEST_MAIN(WITH(plan_without_evictions__runs_each_op_once),
          WITH(copy__is_renewed_after_a_write_in_place), WITH(clean_copy__is_not_sent_again),
          WITH(old_version__can_be_fetched_and_written_again), WITH(forget__concerns_one_tier),
          WITH(move__copies_and_costs), WITH(bad_plans__are_refused_before_anything_runs))
