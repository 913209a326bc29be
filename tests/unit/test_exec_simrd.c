/* Rules simrd on the unit chain of four layers, worked out by hand (spec: f0..f3, release f3, b3,
 * then release f_k, b_k = op(f_(k-1), b_(k+1)), release b_(k+1)); and what the rules refuse.
 *
 * Budget 3, lru: f3 needs room: f0 (last used at 2) goes before f1 (3). Later b1 brings f0 back.
 *   8 model ops + 1 replay, clock 1 + 9; seven releases free something.
 * Budget 3, largest: all scores equal, the last of the pool goes: the pool is f0, f1 when f3 asks,
 *   so f1 goes; b2 replays it, which pushes f0 out, which b1 replays: clock 1 + 10, victims f1, f0.
 * Budget 2: f2 pushes out f0, f3 pushes out f1; b2 needs f1, which needs f0: with f0 and b3 locked
 *   nothing is left to evict: oom at clock 7, in the sixth call, after one replay. */
#include "test.h"

#include "base/hash.h"
#include "base/heap.h"
#include "exec/exec.h"

struct row {
    const char *policy;
    uint64_t budget;
    enum exec_result result;
    uint64_t clock, remat_ops, peak, pressure, release, ops_done;
    uint32_t victim_count, victims[2]; /* root tensor ids: f0 = 0, f1 = 1 */
};

static const struct row rows[] = {
    {"lru", 8, EXEC_OK, 9, 0, 4, 0, 7, 8, 0, {0}},
    {"dtr", 4, EXEC_OK, 9, 0, 4, 0, 7, 8, 0, {0}},
    {"lru", 3, EXEC_OK, 10, 1, 3, 1, 7, 8, 1, {0}},
    {"dtr_local", 3, EXEC_OK, 10, 1, 3, 1, 7, 8, 1, {0}},
    {"dtr_eq", 3, EXEC_OK, 10, 1, 3, 1, 7, 8, 1, {0}},
    {"dtr", 3, EXEC_OK, 10, 1, 3, 1, 7, 8, 1, {0}},
    {"largest", 3, EXEC_OK, 11, 2, 3, 2, 7, 8, 2, {1, 0}},
    {"lru", 2, EXEC_OOM, 7, 1, 2, 2, 2, 6, 2, {0, 1}},
    {"largest", 2, EXEC_OOM, 7, 1, 2, 2, 2, 6, 2, {0, 1}},
    {NULL, 3, EXEC_OOM, 4, 0, 3, 0, 0, 4, 0, {0}}, /* no policy: f3 does not fit */
};

static struct trace *trace;
static struct exec_program *program;
static struct ebb_error err;

static int open_chain(void **state)
{
    (void)state;
    return trace_make_linear(4, &trace, &err) != EBB_OK ||
           exec_program_create(&program, trace, EXEC_SIMRD, &err) != EBB_OK;
}

static int close_chain(void **state)
{
    (void)state;
    exec_program_destroy(program);
    trace_destroy(trace);
    return 0;
}

TEST(chain_of_four__goes_as_by_hand)
{
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i / 2];
        struct exec_report r;
        struct exec_options o = {.policy = row->policy ? mem_policy_find(row->policy) : NULL,
                                 .budget_bytes = row->budget,
                                 .reference_scan = i % 2};
        uint64_t hash = EBB_FNV1A_INIT;
        for (uint32_t v = 0; v < row->victim_count; v++)
            hash = ebb_fnv1a_u32(hash, row->victims[v]);
        CHECK_OK(exec_run(program, &o, &r, &err), &err);
        CHECK_EQ(r.result, row->result);
        CHECK_EQ(r.clock_ns, row->clock);
        CHECK_EQ(r.base_ns, 8);
        CHECK_EQ(r.remat_ns, row->remat_ops);
        CHECK_EQ(r.remat_ops, row->remat_ops);
        CHECK_EQ(r.peak_bytes, row->peak);
        CHECK_EQ(r.evictions_pressure, row->pressure);
        CHECK_EQ(r.evictions_release, row->release);
        CHECK_EQ(r.ops_done, row->ops_done);
        CHECK_EQ(r.evict_hash, hash);
        CHECK_EQ(r.why[0] != '\0', row->result != EXEC_OK);
    }
}

TEST(limit__ends_the_run_as_thrashed)
{
    struct exec_report r;
    struct exec_options o = {
        .policy = mem_policy_find("largest"), .budget_bytes = 3, .limit_ns = 1};
    CHECK_OK(exec_run(program, &o, &r, &err), &err); /* the second replay is one too many */
    CHECK_EQ(r.result, EXEC_THRASHED);
    CHECK_EQ(r.clock_ns, 9);
    CHECK_EQ(r.remat_ns, 2);
    CHECK_EQ(r.ops_done, 7);
    o.limit_ns = 2;
    CHECK_OK(exec_run(program, &o, &r, &err), &err);
    CHECK_EQ(r.result, EXEC_OK);
    o.limit_ns = 0;
    o.limit = 1.125; /* 1/8 of eight ops */
    CHECK_OK(exec_run(program, &o, &r, &err), &err);
    CHECK_EQ(r.result, EXEC_THRASHED);
}

/* Releases ignored: f3, b3, ... stay until chosen. */
TEST(ignored_releases__leave_the_dead_in_the_pool)
{
    struct exec_report r;
    struct exec_options o = {
        .policy = mem_policy_find("lru"), .budget_bytes = 8, .dealloc = EXEC_IGNORE};
    CHECK_OK(exec_run(program, &o, &r, &err), &err);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK_EQ(r.peak_bytes, 8);
    CHECK_EQ(r.evictions_release, 0);
    o.budget_bytes = 4;
    CHECK_OK(exec_run(program, &o, &r, &err), &err);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK(r.evictions_pressure > 0);
}

TEST(rules__refuse_what_the_published_simulator_lacks)
{
    struct exec_report r;
    struct plan plan;
    plan_init(&plan);
    struct exec_options with_plan = {.budget_bytes = 8, .plan = &plan};
    struct exec_options sampled = {.budget_bytes = 8, .sampling = true};
    struct exec_options small = {.budget_bytes = 8, .ignore_small = true};
    struct exec_options swapped = {.budget_bytes = 8, .ways = MEM_DROP | MEM_HOST};
    CHECK_EQ(exec_run(program, &with_plan, &r, &err), EBB_EINPUT);
    CHECK_EQ(exec_run(program, &sampled, &r, &err), EBB_EINPUT);
    CHECK_EQ(exec_run(program, &small, &r, &err), EBB_EINPUT);
    CHECK_EQ(exec_run(program, &swapped, &r, &err), EBB_EINPUT);
    struct exec_program *own = NULL;
    struct exec_options banish = {.budget_bytes = 8, .dealloc = EXEC_BANISH};
    CHECK_OK(exec_program_create(&own, trace, EXEC_EBB, &err), &err);
    CHECK_EQ(exec_run(own, &banish, &r, &err), EBB_EINPUT);
    exec_program_destroy(own);
    exec_program_destroy(NULL);
}

TEST(in_place_ops__are_refused)
{
    struct trace_builder *b = NULL;
    struct trace *t = NULL;
    struct exec_program *p = NULL;
    uint32_t x, y;
    struct trace_output fresh = {.bytes = 4}, written = {.alias = TRACE_MUTATE};
    CHECK_OK(trace_builder_create(&b, &err), &err);
    struct trace_op_desc make = {
        .kind_name = "make", .outputs = &fresh, .output_count = 1, .partner = TRACE_NONE};
    CHECK_OK(trace_builder_op(b, &make, &x, &err), &err);
    struct trace_op_desc write = {.kind_name = "write_",
                                  .inputs = &x,
                                  .input_count = 1,
                                  .outputs = &written,
                                  .output_count = 1,
                                  .partner = TRACE_NONE};
    CHECK_OK(trace_builder_op(b, &write, &y, &err), &err);
    CHECK_OK(trace_builder_finish(b, "writes", &t, &err), &err);
    CHECK_EQ(exec_program_create(&p, t, EXEC_SIMRD, &err), EBB_EUNSUPPORTED);
    CHECK(p == NULL && strstr(err.message, "writes") != NULL);
    trace_builder_destroy(b);
    trace_destroy(t);
}

#define CHAIN(name) cmocka_unit_test_setup_teardown(name, open_chain, close_chain)

TEST_MAIN(CHAIN(chain_of_four__goes_as_by_hand), CHAIN(limit__ends_the_run_as_thrashed),
          CHAIN(ignored_releases__leave_the_dead_in_the_pool),
          CHAIN(rules__refuse_what_the_published_simulator_lacks), RUN(in_place_ops__are_refused))
