/* Plans by hand over a four-op trace: what the checker accepts, and each thing it must refuse.
 *
 *   op 0 x: leaf, 100 B     op 1 a = f(x): 1000 B
 *   op 2 b = g(a): 500 B, workspace 300 B      op 3 c = h(a, b): 256 B, pinned at the end      */
#include "test.h"
#include "torture.h"
#include "trace_kit.h"

#include "base/heap.h"
#include "plan/plan.h"

static struct trace *make_trace(enum trace_purity purity_of_a)
{
    struct trace_builder *builder = trace_kit_begin();
    struct trace_op_desc like = {.kind_name = "x", .is_leaf = true};
    uint32_t x = trace_kit_op(builder, like, 100, NULL, 0);
    like = (struct trace_op_desc){.kind_name = "f", .cost_ns = 7, .purity = purity_of_a};
    uint32_t a = trace_kit_op(builder, like, 1000, &x, 1);
    like = (struct trace_op_desc){.kind_name = "g", .cost_ns = 11, .workspace_bytes = 300};
    uint32_t b = trace_kit_op(builder, like, 500, &a, 1);
    like = (struct trace_op_desc){.kind_name = "h", .cost_ns = 13};
    uint32_t c = trace_kit_op(builder, like, 256, (uint32_t[]){a, b}, 2);
    trace_kit_command(builder, TRACE_RELEASE, a);
    trace_kit_command(builder, TRACE_PIN, c);
    return trace_kit_end(builder, "four");
}

static enum ebb_status run_nothing(const struct trace_call *call, struct ebb_error *err)
{
    (void)call;
    (void)err;
    return EBB_OK;
}

static void make_plan(struct plan *plan, const struct trace *trace, const struct plan_step *steps,
                      size_t count)
{
    struct ebb_error err;
    plan_init(plan);
    plan->signature = trace->signature;
    for (size_t i = 0; i < count; i++)
        CHECK_OK(plan_add(plan, (enum plan_act)steps[i].act, steps[i].index, steps[i].offset,
                          steps[i].tier, &err),
                 &err);
}

#define STEP_PLACE(s)                                                                              \
    {                                                                                              \
        .act = PLAN_PLACE, .index = (s), .offset = PLAN_NOWHERE                                    \
    }
#define STEP_RUN(o)                                                                                \
    {                                                                                              \
        .act = PLAN_RUN, .index = (o), .offset = PLAN_NOWHERE                                      \
    }
#define STEP_DROP(s)                                                                               \
    {                                                                                              \
        .act = PLAN_DROP, .index = (s)                                                             \
    }
#define STEP_COPY(a, s, t)                                                                         \
    {                                                                                              \
        .act = (a), .index = (s), .tier = (t)                                                      \
    }

/* a is dropped after g and made again for h. */
static const struct plan_step recompute[] = {
    STEP_PLACE(0), STEP_RUN(0),  STEP_PLACE(1), STEP_RUN(1),  STEP_PLACE(2),
    STEP_RUN(2),   STEP_DROP(1), STEP_PLACE(1), STEP_RUN(1),  STEP_PLACE(3),
    STEP_RUN(3),   STEP_DROP(1), STEP_DROP(2),  STEP_DROP(0),
};
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const struct plan_limits unlimited = {{UINT64_MAX, UINT64_MAX, UINT64_MAX}};

static enum ebb_status check(const struct plan_step *steps, size_t count,
                             const struct plan_limits *limits, enum trace_purity purity,
                             struct plan_report *report, struct ebb_error *err)
{
    struct trace *trace = make_trace(purity);
    struct plan plan;
    make_plan(&plan, trace, steps, count);
    enum ebb_status status = plan_check(trace, &plan, limits, report, err);
    plan_fini(&plan);
    trace_destroy(trace);
    return status;
}

TEST(check__counts_cost_peak_and_reruns)
{
    struct plan_report report;
    struct ebb_error err;
    CHECK_OK(check(recompute, COUNT(recompute), &unlimited, TRACE_PURE, &report, &err), &err);
    CHECK_EQ(report.cost_ns, 7 + 11 + 7 + 13);
    CHECK_EQ(report.base_ns, 7 + 11 + 13);
    CHECK_EQ(report.rerun_count, 1);
    CHECK_EQ(report.run_count, 5);
    /* at g: x 256 + a 1024 + b 512 + workspace 512 */
    CHECK_EQ(report.peak_bytes, 256 + 1024 + 512 + 512);
    CHECK_EQ(report.peak_step, 5);
    CHECK_EQ(report.height_bytes, 0);
}

TEST(check__budget_is_exact)
{
    struct plan_report report;
    struct ebb_error err;
    struct plan_limits limits = {{2304, 0, 0}};
    CHECK_OK(check(recompute, COUNT(recompute), &limits, TRACE_PURE, &report, &err), &err);
    limits.budget_bytes[0] = 2303;
    CHECK_EQ(check(recompute, COUNT(recompute), &limits, TRACE_PURE, &report, &err), EBB_EBUDGET);
    CHECK(strstr(err.message, "step 5 needs 2304 bytes, budget 2303") != NULL);
}

TEST(check__once_op_may_not_run_again)
{
    struct plan_report report;
    struct ebb_error err;
    CHECK_EQ(check(recompute, COUNT(recompute), &unlimited, TRACE_ONCE, &report, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "may run once") != NULL);
}

static void refuses(const struct plan_step *steps, size_t count, const char *text)
{
    struct plan_report report;
    struct ebb_error err;
    CHECK_EQ(check(steps, count, &unlimited, TRACE_PURE, &report, &err), EBB_EINPUT);
    if (!strstr(err.message, text))
        fail_msg("'%s' lacks '%s'", err.message, text);
}

/* x: leaf; y = f(x), z = f(x) by one op that cannot leave one out; y written in place; w = g(y). */
static struct trace *make_pair(void)
{
    static const struct trace_kind pair = {.name = "pair", .run = run_nothing};
    struct trace_builder *builder;
    struct trace *trace = NULL;
    struct ebb_error err;
    uint32_t x, y, w;
    struct trace_output outs[2] = {{.bytes = 512}, {.bytes = 768}};
    struct trace_op_desc op = {.kind_name = "x",
                               .outputs = outs,
                               .output_count = 1,
                               .partner = TRACE_NONE,
                               .is_leaf = true};
    CHECK_OK(trace_builder_create(&builder, &err), &err);
    CHECK_OK(trace_builder_op(builder, &op, &x, &err), &err);
    op = (struct trace_op_desc){.kind = &pair,
                                .inputs = &x,
                                .input_count = 1,
                                .outputs = outs,
                                .output_count = 2,
                                .partner = TRACE_NONE};
    CHECK_OK(trace_builder_op(builder, &op, &y, &err), &err);
    struct trace_output write = {.alias = TRACE_MUTATE};
    op = (struct trace_op_desc){.kind_name = "write",
                                .inputs = &y,
                                .input_count = 1,
                                .outputs = &write,
                                .output_count = 1,
                                .partner = TRACE_NONE};
    CHECK_OK(trace_builder_op(builder, &op, &w, &err), &err);
    op = (struct trace_op_desc){.kind_name = "g",
                                .inputs = &w,
                                .input_count = 1,
                                .outputs = outs,
                                .output_count = 1,
                                .partner = TRACE_NONE};
    CHECK_OK(trace_builder_op(builder, &op, &y, &err), &err);
    CHECK_OK(trace_builder_finish(builder, "pair", &trace, &err), &err);
    trace_builder_destroy(builder);
    return trace;
}

TEST(check__scratch_counts_and_versions_are_compared)
{
    struct plan_report report;
    struct plan plan;
    struct ebb_error err;
    struct trace *trace = make_pair();
    const struct plan_step one[] = {STEP_PLACE(0), STEP_RUN(0),   STEP_PLACE(1), STEP_RUN(1),
                                    STEP_RUN(2),   STEP_PLACE(3), STEP_RUN(3)};
    make_plan(&plan, trace, one, COUNT(one));
    CHECK_OK(plan_check(trace, &plan, &unlimited, &report, &err), &err);
    CHECK_EQ(report.peak_bytes, 512 + 512 + 768); /* z into scratch */
    plan_fini(&plan);
    const struct plan_step stale[] = {STEP_PLACE(0), STEP_RUN(0),   STEP_PLACE(1),
                                      STEP_RUN(1),   STEP_PLACE(3), STEP_RUN(3)};
    make_plan(&plan, trace, stale, COUNT(stale));
    CHECK_EQ(plan_check(trace, &plan, &unlimited, &report, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "reads version 1 of storage 1, version 0 is resident") != NULL);
    plan_fini(&plan);
    trace_destroy(trace);
}

TEST(check__refuses_what_cannot_run)
{
    const struct plan_step missing[] = {STEP_PLACE(1), STEP_RUN(1)};
    refuses(missing, COUNT(missing), "reads storage 0, which is not resident");
    const struct plan_step unfilled[] = {STEP_PLACE(0), STEP_PLACE(1), STEP_RUN(1)};
    refuses(unfilled, COUNT(unfilled), "not resident");
    const struct plan_step twice[] = {STEP_PLACE(0), STEP_PLACE(0)};
    refuses(twice, COUNT(twice), "place of resident storage 0");
    const struct plan_step absent[] = {STEP_DROP(2)};
    refuses(absent, COUNT(absent), "drop of absent storage 2");
    const struct plan_step range[] = {STEP_RUN(4)};
    refuses(range, COUNT(range), "no such op: 4");
    const struct plan_step leaf[] = {STEP_PLACE(0), STEP_RUN(0), STEP_DROP(0), STEP_PLACE(0),
                                     STEP_RUN(0)};
    refuses(leaf, COUNT(leaf), "may run once");
    const struct plan_step act[] = {{.act = 17, .index = 0}};
    refuses(act, COUNT(act), "unknown act");
    const struct plan_step fetch[] = {STEP_PLACE(0), STEP_COPY(PLAN_FETCH, 0, 1)};
    refuses(fetch, COUNT(fetch), "fetch without a copy");
    const struct plan_step tier[] = {STEP_PLACE(0), STEP_RUN(0), STEP_COPY(PLAN_SEND, 0, 3)};
    refuses(tier, COUNT(tier), "no such tier");
    refuses(recompute, 6, "op 3 (h) is never run");
    struct plan_step lost[COUNT(recompute)];
    memcpy(lost, recompute, sizeof lost);
    lost[12].index = 3;
    refuses(lost, COUNT(lost), "storage 3 must be resident at the end");
}

TEST(check__offload_counts_tiers)
{
    const struct plan_step offload[] = {
        STEP_PLACE(0),
        STEP_RUN(0),
        STEP_PLACE(1),
        STEP_RUN(1),
        STEP_COPY(PLAN_SEND, 0, 1),
        STEP_DROP(0),
        STEP_PLACE(2),
        STEP_RUN(2),
        STEP_PLACE(3),
        STEP_RUN(3),
        STEP_DROP(1),
        STEP_PLACE(0),
        STEP_COPY(PLAN_FETCH, 0, 1),
        STEP_COPY(PLAN_FORGET, 0, 1),
    };
    struct plan_report report;
    struct ebb_error err;
    struct plan_limits limits = {{UINT64_MAX, 256, 0}};
    CHECK_OK(check(offload, COUNT(offload), &limits, TRACE_PURE, &report, &err), &err);
    CHECK_EQ(report.tier_peak_bytes[1], 256);
    CHECK_EQ(report.sent_bytes, 100);
    CHECK_EQ(report.fetched_bytes, 100);
    limits.budget_bytes[1] = 255;
    CHECK_EQ(check(offload, COUNT(offload), &limits, TRACE_PURE, &report, &err), EBB_EBUDGET);
}

/* Two kept leaves, x and y, a = f(y) with a workspace, c = h(a, x): y is placed first, x late. */
static struct trace *make_kept(void)
{
    struct trace_builder *builder = trace_kit_begin();
    struct trace_op_desc leaf = {.kind_name = "leaf", .is_leaf = true};
    uint32_t x = trace_kit_op(builder, leaf, 256, NULL, 0);
    uint32_t y = trace_kit_op(builder, leaf, 256, NULL, 0);
    struct trace_op_desc f = {.kind_name = "f", .workspace_bytes = 1024}, h = {.kind_name = "h"};
    uint32_t a = trace_kit_op(builder, f, 1024, &y, 1);
    uint32_t c = trace_kit_op(builder, h, 256, (uint32_t[]){a, x}, 2);
    for (uint32_t i = 0; i < 3; i++)
        trace_kit_command(builder, TRACE_PIN, (uint32_t[]){x, y, c}[i]);
    return trace_kit_end(builder, "kept");
}

/* Without addresses, too, nobody has the bytes of weights: not before they are placed, not later. */
TEST(check__sums_hold_room_for_what_persists)
{
    const struct plan_step late[] = {STEP_PLACE(1), STEP_RUN(1),   STEP_PLACE(2),
                                     STEP_RUN(2),   STEP_PLACE(0), STEP_RUN(0),
                                     STEP_PLACE(3), STEP_RUN(3),   STEP_DROP(2)};
    const struct plan_step away[] = {
        STEP_PLACE(0), STEP_RUN(0), STEP_PLACE(1), STEP_RUN(1), STEP_COPY(PLAN_SEND, 0, 1),
        STEP_DROP(0)};
    struct trace *trace = make_kept();
    struct plan plan;
    struct plan_report report;
    struct ebb_error err;
    struct plan_limits limits = {{256 + 256 + 1024 + 1024, 1024, 0}};
    make_plan(&plan, trace, late, COUNT(late));
    CHECK_OK(plan_check(trace, &plan, &limits, &report, &err), &err);
    CHECK_EQ(report.height_bytes, 0);
    limits.budget_bytes[0]--;
    CHECK_EQ(plan_check(trace, &plan, &limits, &report, &err), EBB_EBUDGET);
    CHECK(strstr(err.message, "step 3 needs 2560 bytes, budget 2559") != NULL);
    plan_fini(&plan);
    make_plan(&plan, trace, away, COUNT(away));
    plan.steps[4].offset = PLAN_NOWHERE;
    CHECK_EQ(plan_check(trace, &plan, &unlimited, &report, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "storage 0 is persistent, it may not be dropped") != NULL);
    plan_fini(&plan);
    trace_destroy(trace);
}

TEST(addresses__are_there_or_taken_away)
{
    struct trace *trace = make_trace(TRACE_PURE);
    struct plan plan;
    struct ebb_error err;
    make_plan(&plan, trace, recompute, COUNT(recompute));
    CHECK(!plan_has_addresses(&plan));
    CHECK_OK(plan_assign_sliding(trace, &plan, 2304, NULL, &err), &err);
    CHECK(plan_has_addresses(&plan));
    plan_strip_offsets(&plan);
    CHECK(!plan_has_addresses(&plan));
    CHECK_EQ(plan.step_count, COUNT(recompute));
    plan_fini(&plan);
    trace_destroy(trace);
}

TEST(check__refuses_another_trace)
{
    struct trace *trace = make_trace(TRACE_PURE);
    struct plan plan;
    struct plan_report report;
    struct ebb_error err;
    make_plan(&plan, trace, recompute, COUNT(recompute));
    plan.signature.low ^= 1;
    CHECK_EQ(plan_check(trace, &plan, &unlimited, &report, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "another trace") != NULL);
    plan_fini(&plan);
    trace_destroy(trace);
}

TEST(offsets__are_disjoint_and_tight)
{
    struct trace *trace = make_trace(TRACE_PURE);
    struct plan plan;
    struct plan_report report;
    struct ebb_error err;
    uint64_t height = 0;
    make_plan(&plan, trace, recompute, COUNT(recompute));
    CHECK_EQ(plan_assign_offsets(trace, &plan, 2303, &height, &err), EBB_EBUDGET);
    CHECK_EQ(plan.steps[0].offset, PLAN_NOWHERE);
    CHECK_OK(plan_assign_offsets(trace, &plan, 2304, &height, &err), &err);
    CHECK_EQ(height, 2304);
    CHECK_OK(plan_check(trace, &plan, &unlimited, &report, &err), &err);
    CHECK_EQ(report.height_bytes, 2304);
    plan.steps[4].offset = plan.steps[2].offset; /* b over a */
    CHECK_EQ(plan_check(trace, &plan, &unlimited, &report, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "overlap storage 1") != NULL);
    plan.steps[4].offset = PLAN_NOWHERE;
    CHECK_EQ(plan_check(trace, &plan, &unlimited, &report, &err), EBB_EINPUT);
    plan.steps[4].offset = 5000 + 24;
    CHECK_EQ(plan_check(trace, &plan, &unlimited, &report, &err), EBB_EINPUT);
    plan_fini(&plan);
    trace_destroy(trace);
}

/* A storage that is not there has no place in the tables of the packing: the refused step is the
 * last one looked at. */
TEST(sliding__stops_at_a_refused_step)
{
    static const uint32_t nobody[] = {4, 1u << 20, UINT32_MAX};
    static const enum plan_act acts[] = {PLAN_PLACE, PLAN_DROP, PLAN_MOVE};
    struct trace *trace = make_trace(TRACE_PURE);
    for (size_t i = 0; i < COUNT(nobody) * COUNT(acts); i++) {
        struct plan plan;
        struct ebb_error err;
        uint64_t moved = 7;
        make_plan(&plan, trace, recompute, COUNT(recompute));
        plan.steps[2].act = (uint8_t)acts[i / COUNT(nobody)];
        plan.steps[2].index = nobody[i % COUNT(nobody)];
        CHECK_EQ(plan_assign_sliding(trace, &plan, 4096, &moved, &err), EBB_EINPUT);
        CHECK(strstr(err.message, "step 2: no such storage") != NULL);
        CHECK_EQ(moved, 7);
        CHECK_EQ(plan.step_count, COUNT(recompute));
        plan_fini(&plan);
    }
    trace_destroy(trace);
}

struct packed {
    const struct trace *trace;
    struct plan *plan;
};

static enum ebb_status pack_and_check(void *context)
{
    const struct packed *p = context;
    struct plan_report report;
    uint64_t height;
    EBB_TRY(plan_assign_offsets(p->trace, p->plan, UINT64_MAX, &height, NULL));
    return plan_check(p->trace, p->plan, &unlimited, &report, NULL);
}

TEST(check__survives_every_failed_allocation)
{
    struct trace *trace = make_trace(TRACE_PURE);
    struct plan plan;
    make_plan(&plan, trace, recompute, COUNT(recompute));
    torture(pack_and_check, &(struct packed){trace, &plan}, 100);
    plan_fini(&plan);
    trace_destroy(trace);
}

TEST_MAIN()
