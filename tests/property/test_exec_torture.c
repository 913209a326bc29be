/* Allocation 1, 2, 3, ... fails: a status each time, nothing left behind. */
#include <stdio.h>
#include "test.h"
#include "exec_traces.h"

#include "base/heap.h"
#include "exec/exec.h"
#include "planner/planner.h"

struct work {
    const struct trace *trace;
    const struct exec_program *program;
    struct exec_options options;
    enum exec_rules rules;
    enum exec_result result; /* of the run */
    const struct plan *plan;
};

typedef enum ebb_status (*work_function)(struct work *work, struct ebb_error *err);

/* Runs it once whole, then with each of its allocations failing. */
static void torture(work_function function, struct work *work, const char *what)
{
    struct ebb_error err;
    CHECK_OK(function(work, &err), &err); /* a program may keep its plan without evictions */
    uint64_t blocks = ebb_heap_live(), calls = ebb_heap_calls();
    CHECK_OK(function(work, &err), &err);
    calls = ebb_heap_calls() - calls;
    CHECK_EQ(ebb_heap_live(), blocks);
    CHECK(calls > 0);
    for (uint64_t n = 1; n <= calls; n++) {
        err.message[0] = '\0';
        ebb_heap_fail_at(n);
        enum ebb_status status = function(work, &err);
        ebb_heap_fail_at(0);
        if (status != EBB_ENOMEM || ebb_heap_live() != blocks || err.message[0] == '\0')
            fail_msg("%s, %s: allocation %llu of %llu fails: status %d (%s), %lld blocks left",
                     what, work->trace->name, (unsigned long long)n, (unsigned long long)calls,
                     (int)status, err.message, (long long)(ebb_heap_live() - blocks));
    }
    CHECK_OK(function(work, &err), &err); /* and nothing was spoilt */
    CHECK_EQ(ebb_heap_live(), blocks);
    print_message("%s, %s: %llu allocations\n", what, work->trace->name, (unsigned long long)calls);
}

static enum ebb_status create(struct work *work, struct ebb_error *err)
{
    struct exec_program *program = NULL;
    EBB_TRY(exec_program_create(&program, work->trace, work->rules, err));
    exec_program_destroy(program);
    return EBB_OK;
}

static enum ebb_status run(struct work *work, struct ebb_error *err)
{
    struct exec_report report;
    struct exec_log log = {0};
    struct exec_options options = work->options;
    options.log = &log;
    enum ebb_status status = exec_run(work->program, &options, &report, err);
    if (status == EBB_OK)
        work->result = report.result;
    exec_log_fini(&log);
    return status;
}

static enum ebb_status run_and_record(struct work *work, struct ebb_error *err)
{
    struct exec_report report;
    struct exec_log log = {0};
    struct plan plan;
    struct exec_options options = work->options;
    options.log = &log;
    plan_init(&plan);
    enum ebb_status status = exec_run(work->program, &options, &report, err);
    if (status == EBB_OK)
        status = exec_log_to_plan(&log, work->trace, &plan, err);
    if (status == EBB_OK && report.result == EXEC_OK) {
        options.policy = NULL;
        options.plan = &plan;
        status = exec_run(work->program, &options, &report, err);
    }
    exec_log_fini(&log);
    plan_fini(&plan);
    return status;
}

static enum ebb_status find_floor(struct work *work, struct ebb_error *err)
{
    struct plan plan;
    uint64_t floor_bytes;
    plan_init(&plan);
    enum ebb_status status = planner_floor(work->trace, NULL, &plan, &floor_bytes, err);
    plan_fini(&plan);
    return status;
}

/* is_tidy: nothing is used after its last handle was given up, so that banishing works. */
static void torture_runs(struct trace *t, enum exec_rules rules, bool is_tidy)
{
    struct ebb_error err;
    struct exec_program *program = NULL;
    struct trace_stats stats;
    static const char *const policies[] = {"dtr", "dtr_eq", "msps", "lru", "random"};
    CHECK_OK(exec_program_create(&program, t, rules, &err), &err);
    CHECK_OK(trace_stats_compute(t, &stats, &err), &err);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct work work = {.trace = t, .program = program, .rules = rules};
        work.options = (struct exec_options){.policy = mem_policy_find(policies[i]),
                                             .budget_bytes = stats.baseline_bytes * 7 / 10,
                                             .limit = 6};
        torture(run, &work, policies[i]);
        work.options.reference_scan = true;
        if (rules == EXEC_SIMRD) {
            work.options.dealloc = i % 2 && is_tidy ? EXEC_BANISH : EXEC_IGNORE;
            torture(run, &work, "simrd, other releases");
            continue;
        }
        torture(run_and_record, &work, "recorded, run as plan");
        work.options.ways = MEM_DROP | MEM_HOST | MEM_FILE;
        work.options.tier_bytes[DEVICE_HOST] = stats.baseline_bytes / 8;
        work.options.tier_bytes[DEVICE_FILE] = stats.baseline_bytes / 4;
        work.options.sampling = i % 2;
        torture(run_and_record, &work, "with tiers");
    }
    exec_program_destroy(program);
}

TEST(compiling__survives)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct trace *t = exec_traces_nasty(seed, seed % 2);
        struct work work = {.trace = t, .rules = seed % 2 ? EXEC_EBB : EXEC_SIMRD};
        torture(create, &work, "create");
        trace_destroy(t);
    }
}

TEST(runs__survive_under_rules_ebb)
{
    for (uint64_t seed = 3; seed <= 5; seed++) {
        struct trace *t =
            seed == 3 ? exec_traces_random(seed, true) : exec_traces_nasty(seed, true);
        torture_runs(t, EXEC_EBB, false);
        trace_destroy(t);
    }
}

/* The first run without a limit packs the plan that is kept with the program: it must be made again
 * after a failure, not lost or half made. */
TEST(first_run_without_a_limit__survives)
{
    struct ebb_error err;
    struct trace *t = exec_traces_random(4, true);
    for (uint64_t n = 1;; n++) {
        struct exec_program *program = NULL;
        struct exec_report report;
        struct exec_options options = {.budget_bytes = UINT64_C(1) << 40};
        uint64_t blocks = ebb_heap_live();
        CHECK_OK(exec_program_create(&program, t, EXEC_EBB, &err), &err);
        ebb_heap_fail_at(n);
        enum ebb_status status = exec_run(program, &options, &report, &err);
        ebb_heap_fail_at(0);
        if (status != EBB_OK) {
            CHECK_EQ(status, EBB_ENOMEM);
            CHECK_OK(exec_run(program, &options, &report, &err), &err);
            CHECK_EQ(report.result, EXEC_OK);
        }
        exec_program_destroy(program);
        CHECK_EQ(ebb_heap_live(), blocks);
        if (status == EBB_OK)
            break;
    }
    trace_destroy(t);
}

TEST(runs__survive_under_rules_simrd)
{
    struct trace *t = exec_traces_nasty(7, false);
    torture_runs(t, EXEC_SIMRD, false);
    trace_destroy(t);
    t = exec_traces_random(8, false);
    torture_runs(t, EXEC_SIMRD, true);
    trace_destroy(t);
}

TEST(floor__survives)
{
    struct trace_synth synth = {.layers = 3, .bytes = 2048, .weight_bytes = 512};
    struct trace *t = exec_traces_shape("chain", &synth);
    struct work work = {.trace = t};
    torture(find_floor, &work, "floor");
    trace_destroy(t);
}

TEST_MAIN()
