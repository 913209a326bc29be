/* A policy whose choices look at too much ends, by a count and not by a clock. */
#include "test.h"

#include <string.h>

#include "exec/exec.h"

static void run(const struct exec_program *program, const char *policy, uint64_t work_limit,
                struct exec_report *report)
{
    struct ebb_error err;
    const struct plan *all;
    CHECK_OK(exec_keep_all(program, UINT64_MAX, &all, &err), &err);
    struct exec_options o = {.policy = mem_policy_find(policy),
                             .budget_bytes = all->budget_bytes / 4 / PLAN_UNIT * PLAN_UNIT,
                             .limit = 20,
                             .work_limit = work_limit};
    CHECK_OK(exec_run(program, &o, report, &err), &err);
}

TEST(work_limit__ends_a_policy_at_the_same_place_every_time)
{
    static const char *const policies[] = {"dtr_eq", "dtr", "lru", "largest", "msps"};
    struct trace *trace;
    struct exec_program *program;
    struct exec_report whole, ended, again;
    struct ebb_error err;
    CHECK_OK(trace_make_linear(200, &trace, &err), &err);
    CHECK_OK(exec_program_create(&program, trace, EXEC_EBB, &err), &err);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        run(program, policies[i], 0, &whole);
        CHECK_EQ(whole.result, EXEC_OK);
        run(program, policies[i], 10000, &ended);
        run(program, policies[i], 10000, &again);
        CHECK_EQ(ended.result, EXEC_THRASHED);
        CHECK(strstr(ended.why, "takes too long"));
        CHECK(ended.ops_done > 0 && ended.ops_done < whole.ops_done);
        CHECK_EQ(again.ops_done, ended.ops_done);
        CHECK_EQ(again.evict_hash, ended.evict_hash);
        run(program, policies[i], UINT64_MAX, &again);
        CHECK_EQ(again.evict_hash, whole.evict_hash);
    }
    exec_program_destroy(program);
    trace_destroy(trace);
}

TEST_MAIN()
