/* What plans make of links: fast ones carry what is dear to make again, slow ones only what ops hide;
 * state that lives below is gone when activations need its room, and back when it is read. */
#include "test.h"
#include "trace_kit.h"

#include "exec/exec.h"
#include "plan/plan.h"
#include "planner/planner.h"

static struct ebb_error err;

/* ---- fast and slow links ----------------------------------------------------------------------- */

#define LAYERS 10
#define SIDE 1024               /* of square matrices */
#define BYTES (4 * SIDE * SIDE) /* of each tensor */
#define FLOP_PER_NS 100         /* of the device */
#define BYTES_PER_NS 10         /* of its memory */

enum { PRODUCT = 1, EACH };

/* Products of matrices with an element-wise op behind each; back through both. Outputs: op -> kind. */
static struct trace *make_layers(uint8_t *kinds)
{
    static const struct trace_op_desc product = {
        .kind_name = "matmul", .cost_ns = 2 * (uint64_t)SIDE * SIDE * SIDE / FLOP_PER_NS};
    static const struct trace_op_desc each = {.kind_name = "gelu",
                                              .cost_ns = 2 * (uint64_t)BYTES / BYTES_PER_NS};
    struct trace_builder *b = trace_kit_begin();
    uint32_t m[LAYERS], y[LAYERS + 1], at = 0;
    y[0] = trace_kit_op(b, (struct trace_op_desc){.kind_name = "leaf", .is_leaf = true}, BYTES,
                        NULL, 0);
    at++;
    for (int i = 0; i < LAYERS; i++) {
        m[i] = trace_kit_op(b, product, BYTES, &y[i], 1);
        kinds[at++] = PRODUCT;
        y[i + 1] = trace_kit_op(b, each, BYTES, &m[i], 1);
        kinds[at++] = EACH;
    }
    uint32_t g = y[LAYERS];
    for (int i = LAYERS; i-- > 0;) {
        g = trace_kit_op(b, each, BYTES, (uint32_t[]){g, m[i]}, 2);
        kinds[at++] = EACH;
        g = trace_kit_op(b, product, BYTES, (uint32_t[]){g, y[i]}, 2);
        kinds[at++] = PRODUCT;
    }
    trace_kit_command(b, TRACE_PIN, g);
    return trace_kit_end(b, "layers");
}

struct counts {
    size_t sent[3], again[3]; /* by kind */
    double overhead, stall;   /* parts of the step's own time */
};

/* The same step in a part of its peak; the link carries FLOP_PER_NS / intensity bytes per ns. */
static struct counts plan_for(double part, double intensity)
{
    static uint8_t kinds[4 * LAYERS + 1];
    static uint8_t has_run[4 * LAYERS + 1];
    struct trace *t = make_layers(kinds);
    struct exec_program *program = NULL;
    struct planner_request request;
    struct planner_result result;
    struct exec_report report;
    struct counts c = {.overhead = 0};
    const struct plan *all = NULL;
    struct device_link link = {.latency_ns = 1000, .bytes_per_ns = FLOP_PER_NS / intensity};
    CHECK_OK(exec_program_create(&program, t, EXEC_EBB, &err), &err);
    CHECK_OK(exec_keep_all(program, UINT64_MAX, &all, &err), &err);
    planner_request_init(&request);
    planner_result_init(&result);
    request.budget_bytes = (uint64_t)(part * (double)all->budget_bytes) / PLAN_UNIT * PLAN_UNIT;
    request.tiers = (struct planner_tiers){
        .bytes = {request.budget_bytes, 4 * LAYERS * (uint64_t)BYTES, 0},
        .links = {.in = {[DEVICE_T0] = {.bytes_per_ns = 100}, [DEVICE_HOST] = link},
                  .out = {[DEVICE_HOST] = link}}};
    CHECK_OK(planner_run(planner_find("unified"), t, &request, &result, &err), &err);
    CHECK_EQ(result.status, PLANNER_OK);
    struct exec_options o = {.budget_bytes = request.budget_bytes,
                             .ways = MEM_DROP | MEM_HOST,
                             .tier_bytes = {0, request.tiers.bytes[1], 0},
                             .links = request.tiers.links,
                             .plan = &result.plan};
    CHECK_OK(exec_run(program, &o, &report, &err), &err);
    memset(has_run, 0, sizeof has_run);
    for (size_t i = 0; i < result.plan.step_count; i++) {
        const struct plan_step *s = &result.plan.steps[i];
        if (s->act == PLAN_SEND)
            c.sent[kinds[s->index]]++; /* every op makes one storage */
        if (s->act == PLAN_RUN && has_run[s->index]++)
            c.again[kinds[s->index]]++;
    }
    c.overhead = exec_overhead(&report);
    c.stall = (double)report.stall_ns / (double)report.base_ns;
    print_message("%.2f of the peak, %5.0f flop per byte: %.4f, stalls %.4f; sent %zu products and "
                  "%zu others, again %zu and %zu\n",
                  part, intensity, c.overhead, c.stall, c.sent[PRODUCT], c.sent[EACH],
                  c.again[PRODUCT], c.again[EACH]);
    planner_result_fini(&result);
    exec_program_destroy(program);
    trace_destroy(t);
    return c;
}

TEST(fast_link__carries_products)
{
    struct counts c = plan_for(0.35, 10);
    CHECK(c.sent[PRODUCT] > 0);
    CHECK_EQ(c.again[PRODUCT], 0);
    CHECK(c.overhead <= 1.01);
}

TEST(slow_link__what_is_cheap_is_made_again)
{
    struct counts c = plan_for(0.6, 12000);
    CHECK(c.again[EACH] > 0);
    CHECK_EQ(c.again[PRODUCT], 0);
    CHECK(c.stall <= 0.01);
    CHECK(c.overhead < 1.1);
}

/* ---- the tide ---------------------------------------------------------------------------------- */

#define BLOCKS 6
#define UNIT 102400

/* Blocks with a weight each that lives in the host; activations rise until the middle. The first op
 * and the last ones read none of them. */
static struct trace *make_tide(uint32_t *weights)
{
    struct trace_op_desc leaf = {.kind_name = "leaf", .is_leaf = true};
    struct trace_op_desc op = {.kind_name = "f", .cost_ns = 200000, .purity = TRACE_ONCE};
    struct trace_op_desc back = {.kind_name = "b", .cost_ns = 200000, .purity = TRACE_ONCE};
    struct trace_op_desc update = {.kind_name = "u", .cost_ns = 200000, .purity = TRACE_MUTATING};
    struct trace_builder *b = trace_kit_begin();
    uint32_t w[BLOCKS], y[BLOCKS + 1];
    for (int i = 0; i < BLOCKS; i++) {
        w[i] = trace_kit_op(b, leaf, UNIT, NULL, 0);
        weights[i] = w[i]; /* storages have the numbers of their first tensors here */
    }
    y[0] = trace_kit_op(b, op, UNIT, NULL, 0);
    for (int i = 0; i < BLOCKS; i++)
        y[i + 1] = trace_kit_op(b, op, UNIT, (uint32_t[]){y[i], w[i]}, 2);
    uint32_t g = y[BLOCKS];
    update.phase = TRACE_UPDATE;
    for (int i = BLOCKS; i-- > 0;) {
        g = trace_kit_op(b, back, UNIT, (uint32_t[]){g, y[i], w[i]}, 3);
        w[i] = trace_kit_op(b, update, 0, (uint32_t[]){w[i], g}, 2);
    }
    for (int i = 0; i < 2; i++) /* the last weight leaves meanwhile */
        g = trace_kit_op(b, op, UNIT, &g, 1);
    trace_kit_command(b, TRACE_PIN, g);
    for (int i = 0; i < BLOCKS; i++)
        trace_kit_command(b, TRACE_PIN, w[i]);
    return trace_kit_end(b, "tide");
}

TEST(state__is_gone_at_the_peak_and_back_when_it_is_read)
{
    uint32_t weights[BLOCKS];
    struct trace *t = make_tide(weights);
    struct exec_program *program = NULL;
    struct planner_request request;
    struct planner_result result;
    struct plan_homes homes = {0};
    struct plan_walk walk;
    struct exec_report report;
    struct device_link link = {.latency_ns = 1000, .bytes_per_ns = 1};
    CHECK_OK(exec_program_create(&program, t, EXEC_EBB, &err), &err);
    planner_request_init(&request);
    planner_result_init(&result);
    request.budget_bytes = (BLOCKS + 3) * (uint64_t)UNIT; /* all needs 2 * BLOCKS + 2 of them */
    request.tiers = (struct planner_tiers){
        .bytes = {request.budget_bytes, (uint64_t)UNIT * BLOCKS * 2, 0},
        .updates = PLANNER_BY_DEVICE,
        .demands = PLANNER_NOTHING_AGAIN,
        .links = {.in = {[DEVICE_T0] = {.bytes_per_ns = 100}, [DEVICE_HOST] = link},
                  .out = {[DEVICE_HOST] = link}}};
    CHECK_OK(planner_homes(t, &request.tiers, 1, PLANNER_SMALL_TOO, &homes, &err), &err);
    CHECK_EQ(homes.count, BLOCKS);
    request.tiers.homes = &homes;
    CHECK_OK(planner_run(planner_find("unified"), t, &request, &result, &err), &err);
    CHECK_EQ(result.status, PLANNER_OK);
    struct exec_options o = {.budget_bytes = request.budget_bytes,
                             .ways = MEM_DROP | MEM_HOST,
                             .tier_bytes = {0, request.tiers.bytes[1], 0},
                             .links = request.tiers.links,
                             .plan = &result.plan};
    CHECK_OK(exec_run(program, &o, &report, &err), &err);
    CHECK_EQ(report.stall_ns, 0);
    CHECK_EQ(report.remat_ops, 0);
    CHECK(report.peak_bytes <= request.budget_bytes);
    /* state and everything else in tier 0 at every op */
    uint64_t state[64], rest[64];
    size_t ops = 0, peak = 0;
    CHECK_OK(plan_walk_init(&walk, t, &result.plan, &err), &err);
    bool is_here[64] = {false};
    for (size_t i = 0; i < result.plan.step_count; i++) {
        const struct plan_step *s = &result.plan.steps[i];
        CHECK_OK(plan_walk_step(&walk, i, &err), &err);
        if (s->act == PLAN_PLACE || s->act == PLAN_DROP)
            is_here[s->index] = s->act == PLAN_PLACE;
        if (s->act != PLAN_RUN || t->ops[s->index].is_leaf)
            continue;
        state[ops] = 0;
        for (int k = 0; k < BLOCKS; k++)
            state[ops] += is_here[weights[k]] ? UNIT : 0;
        rest[ops] = walk.resident_bytes - state[ops];
        peak = rest[ops] > rest[peak] ? ops : peak;
        ops++;
    }
    plan_walk_fini(&walk);
    uint64_t before = 0, after = 0;
    for (size_t i = 0; i < ops; i++) {
        print_message("op %2zu: state %llu, rest %llu\n", i, (unsigned long long)(state[i] / UNIT),
                      (unsigned long long)(rest[i] / UNIT));
        if (i < peak && state[i] > before)
            before = state[i];
        if (i > peak && state[i] > after)
            after = state[i];
    }
    CHECK(before > state[peak] && after > state[peak]);
    CHECK(before + rest[peak] > request.budget_bytes && after + rest[peak] > request.budget_bytes);
    plan_homes_fini(&homes);
    planner_result_fini(&result);
    exec_program_destroy(program);
    trace_destroy(t);
}

TEST_MAIN()
