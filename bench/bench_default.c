/* bench_default.c - what training does when nobody names a policy, beside everything else there is.
 *
 *     build/bench/bench_default [--alone] [--floor] FILE...          traces, of `ebb model trace`
 *
 * Eight budgets from the floor to just below the peak. One row each: the floor's part of the peak,
 * how much longer the step takes by default, how it was decided and in how many seconds, the
 * cheapest of all online policies and of planners best (effort 0), floor and rotor, and the ratio.
 * All are timed on the null device. Exit code 1: somewhere the default takes more than 1.01 times
 * the cheapest, or more memory takes 0.5 % more time. bench/default_plans makes the files.
 *
 * --alone asks nobody else: the seconds are all from the trace to the plan, its floor included, and
 * exit code 1 is for decisions that take more than 2 s and more than two steps, too.
 * --floor: the least budget alone. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "profile/profile.h"
#include "train/decide.h"

enum { BUDGETS = 8 };

struct rival {
    const char *name;
    double overhead; /* 0: none */
};

static void offer(struct rival *r, const char *name, double overhead)
{
    if (r->overhead == 0 || overhead < r->overhead)
        *r = (struct rival){name, overhead};
}

static enum ebb_status time_it(const struct train_ways *w, const struct train_choice *c,
                               const struct mem_policy *policy, const struct plan *plan,
                               const char *name, struct rival *r)
{
    struct exec_options o = train_ways_options(w);
    struct exec_report report;
    struct ebb_error why;
    o.policy = policy;
    o.plan = plan;
    if (exec_run(c->exec, &o, &report, &why) == EBB_OK && report.result == EXEC_OK)
        offer(r, name, exec_overhead(&report));
    return EBB_OK;
}

static enum ebb_status ask_planner(const struct train_ways *w, const struct train_choice *c,
                                   const char *name, struct rival *r, struct ebb_error *err)
{
    struct planner_request request;
    struct planner_result result;
    planner_request_init(&request);
    planner_result_init(&result);
    request.budget_bytes = w->budget_bytes;
    request.effort = 0;
    request.move_bytes_per_ns = profile_link(w->profile, PROFILE_MOVE).bytes_per_ns;
    enum ebb_status status = planner_run(planner_find(name), c->trace, &request, &result, err);
    if (status == EBB_OK && result.status == PLANNER_OK)
        status = time_it(w, c, NULL, &result.plan, name, r);
    planner_result_fini(&result);
    return status;
}

/* The cheapest of all others. */
static enum ebb_status find_rival(const struct train_ways *w, const struct train_choice *c,
                                  struct rival *r, struct ebb_error *err)
{
    static const char *const planners[] = {"best", "floor", "rotor"};
    for (size_t i = 0; i < mem_policy_count; i++)
        EBB_TRY(time_it(w, c, &mem_policies[i], NULL, mem_policies[i].name, r));
    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++)
        EBB_TRY(ask_planner(w, c, planners[i], r, err));
    return EBB_OK;
}

struct tally {
    bool is_alone, is_floor;
    int rows, slower, unsteady, late;
    double worst, longest_s;
};

static enum ebb_status one_budget(struct train_ways *w, struct train_choice *like, uint64_t bytes,
                                  const char *name, double *before, struct tally *tally,
                                  struct ebb_error *err)
{
    struct train_choice c;
    struct rival r = {"-", 0};
    train_choice_init(&c);
    c.trace = like->trace;
    c.exec = like->exec;
    train_ways_budget(w, bytes);
    EBB_TRY(train_ways_name(w, NULL, err));
    clock_t begin = clock();
    enum ebb_status status = train_choice_make(w, &c, err);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (!tally->is_alone)
        EBB_THEN(status, find_rival(w, &c, &r, err));
    if (status == EBB_OK) {
        double ratio = r.overhead > 0 ? c.info.overhead / r.overhead : 1;
        bool is_unsteady = *before > 0 && c.info.overhead > *before * 1.005;
        bool is_late = tally->is_alone && seconds > 2 &&
                       seconds > 2e-9 * (double)c.info.report.base_ns * c.info.overhead;
        printf("| %s | %u | %.2f | %.4f | %s | %.2f | %.4f | %s | %.3f |%s%s%s\n", name,
               c.trace->op_count, (double)bytes / (double)c.info.unlimited_bytes, c.info.overhead,
               c.info.how, seconds, r.overhead, r.name, ratio, ratio > 1.01 ? " **slower**" : "",
               is_unsteady ? " **unsteady**" : "", is_late ? " **late**" : "");
        fflush(stdout);
        tally->rows++;
        tally->slower += ratio > 1.01;
        tally->unsteady += is_unsteady;
        tally->late += is_late;
        tally->worst = ratio > tally->worst ? ratio : tally->worst;
        tally->longest_s = seconds > tally->longest_s ? seconds : tally->longest_s;
        *before = c.info.overhead;
    }
    train_choice_fini(&c);
    return status;
}

static enum ebb_status rows_of(const char *path, struct tally *tally, struct ebb_error *err)
{
    struct trace *trace = NULL;
    struct train_choice c;
    uint64_t floor_bytes = 0;
    double before = 0;
    struct train_ways w = {.state_cap = UINT64_MAX, .margin_ratio = -1};
    EBB_TRY(trace_load(path, TRACE_FORMAT_AUTO, &trace, err));
    train_choice_init(&c);
    c.trace = trace;
    train_ways_budget(&w, UINT64_MAX);
    w.profile = profile_builtin();
    enum ebb_status status = exec_program_create(&c.exec, trace, EXEC_EBB, err);
    EBB_THEN(status, train_choice_floor(&w, &c, &floor_bytes, err));
    const char *name = strrchr(path, '/');
    for (int k = 0; k < (tally->is_floor ? 1 : BUDGETS) && status == EBB_OK; k++) {
        uint64_t more = (c.info.unlimited_bytes - floor_bytes) * (uint64_t)k / BUDGETS;
        status =
            one_budget(&w, &c, floor_bytes + more, name ? name + 1 : path, &before, tally, err);
    }
    train_choice_fini(&c);
    exec_program_destroy(c.exec);
    trace_destroy(trace);
    return status;
}

int main(int argc, char **argv)
{
    struct ebb_error err;
    struct tally tally = {0};
    int failures = 0, first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        tally.is_alone |= strcmp(argv[first], "--alone") == 0;
        tally.is_floor |= strcmp(argv[first], "--floor") == 0;
    }
    if (first >= argc) {
        fprintf(stderr, "usage: bench_default [--alone] [--floor] FILE...\n");
        return 2;
    }
    printf("| trace | ops | of the peak | default | how | s | cheapest other | which | ratio |\n"
           "|---|---|---|---|---|---|---|---|---|\n");
    for (int i = first; i < argc; i++)
        if (rows_of(argv[i], &tally, &err) != EBB_OK) {
            fprintf(stderr, "%s: %s\n", argv[i], err.message);
            failures++;
        }
    printf(
        "\n%d rows: %d above 1.01, the worst %.3f; %d where more memory takes more time; longest "
        "decision %.2f s, %d late\n",
        tally.rows, tally.slower, tally.worst, tally.unsteady, tally.longest_s, tally.late);
    return failures || tally.slower || tally.unsteady || tally.late ? 1 : 0;
}
