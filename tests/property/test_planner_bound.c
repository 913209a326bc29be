/* The bound with links: no plan is below it. Plans come from policies that copy, games, planners and
 * their records; then each is changed in many places at random, and what the checker accepts and the
 * null device runs faster is changed again. So the search goes down to where the bound lies. */
#include "test.h"
#include "exec_traces.h"

#include <string.h>

#include "base/heap.h"
#include "base/rng.h"
#include "exec/exec.h"
#include "planner/planner.h"

#define TRIES 40 /* changes of a plan */

struct world {
    const struct trace *trace;
    struct exec_program *program;
    struct planner_tiers tiers;
    double bound;
    uint64_t random, fastest;
    size_t timed, slower; /* plans; bounds above every op once */
};

static size_t draw(struct world *w, size_t below)
{
    return below ? (size_t)(ebb_splitmix64(&w->random) % below) : 0;
}

/* First runs in the order of the trace: what the bound is about. */
static bool is_in_order(const struct world *w, const struct plan *plan)
{
    struct plan_walk walk;
    struct ebb_error err;
    uint32_t last = 0;
    bool is_fine = true;
    CHECK_OK(plan_walk_init(&walk, w->trace, plan, &err), &err);
    for (size_t i = 0; i < plan->step_count && is_fine; i++) {
        const struct plan_step *s = &plan->steps[i];
        if (s->act == PLAN_RUN && walk.run_counts[s->index] == 0) {
            is_fine = s->index >= last;
            last = s->index;
        }
        is_fine = is_fine && plan_walk_step(&walk, i, &err) == EBB_OK;
    }
    plan_walk_fini(&walk);
    return is_fine;
}

/* Nanoseconds on null; UINT64_MAX: refused. A plan without addresses gets some. */
static uint64_t time_of(struct world *w, struct plan *plan)
{
    struct ebb_error err;
    struct exec_report report;
    struct plan_report checked;
    struct plan_limits limits = {
        .budget_bytes = {w->tiers.bytes[0], w->tiers.bytes[1], w->tiers.bytes[2]}};
    struct exec_options o = {.plan = plan,
                             .budget_bytes = w->tiers.bytes[0],
                             .tier_bytes = {0, w->tiers.bytes[1], w->tiers.bytes[2]},
                             .links = w->tiers.links};
    plan_strip_offsets(plan);
    if (plan_check(w->trace, plan, &limits, &checked, &err) != EBB_OK || !is_in_order(w, plan) ||
        plan_assign_sliding(w->trace, plan, w->tiers.bytes[0], NULL, &err) != EBB_OK ||
        plan_assign_low(w->trace, plan, w->tiers.bytes, &err) != EBB_OK ||
        plan_check(w->trace, plan, &limits, &checked, &err) != EBB_OK ||
        exec_run(w->program, &o, &report, &err) != EBB_OK || report.result != EXEC_OK)
        return UINT64_MAX;
    uint64_t ns = report.device_ns > report.clock_ns ? report.device_ns : report.clock_ns;
    w->timed++;
    w->fastest = ns < w->fastest ? ns : w->fastest;
    if ((double)ns < w->bound)
        fprintf(stderr, "a plan takes %llu ns, the bound is %.1f\n", (unsigned long long)ns,
                w->bound);
    CHECK((double)ns >= w->bound);
    return ns;
}

/* Take the step at `from` out and put it in again at `to`. */
static void shift(struct plan *plan, size_t from, size_t to)
{
    struct plan_step *steps = plan->steps, moved = steps[from];
    if (from < to)
        memmove(&steps[from], &steps[from + 1], (to - from) * sizeof *steps);
    else
        memmove(&steps[to + 1], &steps[to], (from - to) * sizeof *steps);
    steps[to] = moved;
}

/* One change: a copy or a residence begins elsewhere, or something is left out. */
static void change(struct world *w, struct plan *plan)
{
    size_t n = plan->step_count, at = draw(w, n), near = 1 + draw(w, 10);
    const struct plan_step *s = &plan->steps[at];
    bool is_sooner = draw(w, 3) > 0;
    size_t to = is_sooner ? (at > near ? at - near : 0) : (at + near < n ? at + near : n - 1);
    if (draw(w, 6) == 0) {
        shift(plan, at, n - 1);
        plan->step_count--;
    } else if (s->act == PLAN_FETCH && at > 0 && plan->steps[at - 1].act == PLAN_PLACE) {
        shift(plan, at - 1, to); /* its place comes along */
        shift(plan, is_sooner ? at : at - 1, is_sooner ? to + 1 : to);
    } else if (s->act != PLAN_RUN) {
        shift(plan, at, to);
    }
}

static void climb_down(struct world *w, const struct plan *from)
{
    struct plan best = {0}, trial = {0};
    struct ebb_error err;
    CHECK_OK(plan_copy(&best, from, &err), &err);
    plan_strip_offsets(&best);
    uint64_t least = time_of(w, &best);
    for (int i = 0; i < TRIES && least != UINT64_MAX; i++) {
        CHECK_OK(plan_copy(&trial, &best, &err), &err);
        plan_strip_offsets(&trial);
        for (size_t k = 1 + draw(w, 3); k > 0 && trial.step_count > 2; k--)
            change(w, &trial);
        uint64_t ns = time_of(w, &trial);
        if (ns > least)
            continue;
        least = ns;
        ebb_swap(&best, &trial, sizeof best);
    }
    plan_fini(&best);
    plan_fini(&trial);
}

static void follow_policy(struct world *w, const struct mem_policy *policy, unsigned ways)
{
    struct exec_log log = {0};
    struct exec_report report;
    struct ebb_error err;
    struct plan plan = {0}, early = {0};
    bool is_found = false;
    struct exec_options o = {.policy = policy,
                             .budget_bytes = w->tiers.bytes[0],
                             .seed = draw(w, 100),
                             .limit = 10,
                             .ways = ways,
                             .tier_bytes = {0, w->tiers.bytes[1], w->tiers.bytes[2]},
                             .links = w->tiers.links,
                             .log = &log};
    if (exec_run(w->program, &o, &report, &err) == EBB_OK && report.result == EXEC_OK) {
        CHECK((double)report.device_ns >= w->bound);
        CHECK_OK(exec_log_to_plan(&log, w->trace, &plan, &err), &err);
        climb_down(w, &plan);
        CHECK_OK(planner_early(w->trace, &plan, &w->tiers, draw(w, 2), &early, &is_found, &err),
                 &err);
        if (is_found)
            climb_down(w, &early);
    }
    exec_log_fini(&log);
    plan_fini(&plan);
    plan_fini(&early);
}

static void follow_planner(struct world *w, const char *name)
{
    struct planner_request request;
    struct planner_result result;
    struct ebb_error err;
    planner_request_init(&request);
    request.budget_bytes = w->tiers.bytes[0];
    request.tiers = w->tiers;
    request.time_limit_s = 2;
    request.effort = 0;
    request.is_bounded = true;
    CHECK_OK(planner_run(planner_find(name), w->trace, &request, &result, &err), &err);
    if (result.status == PLANNER_OK) {
        CHECK((double)result.cost >= w->bound);
        CHECK_EQ(result.bound_class, PLANNER_BOUND_JOINT);
        CHECK(result.gap >= 0);
        climb_down(w, &result.plan);
    }
    planner_result_fini(&result);
}

static void try_budget(struct world *w, double seconds, bool with_joint)
{
    struct ebb_error err;
    static const char *const policies[] = {"dtr_eq", "random", "belady", "capuchin", "lru"};
    static const char *const planners[] = {"unified", "floor", "belady", "joint"};
    w->fastest = UINT64_MAX;
    CHECK_OK(planner_bound(w->trace, &w->tiers, seconds, &w->bound, &err), &err);
    unsigned below = (w->tiers.bytes[DEVICE_HOST] ? MEM_HOST : 0u) |
                     (w->tiers.bytes[DEVICE_FILE] ? MEM_FILE : 0u);
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        follow_policy(w, mem_policy_find(policies[p]), MEM_DROP | below);
    follow_policy(w, mem_policy_find("largest"), below);
    for (size_t p = 0; p + !with_joint < sizeof planners / sizeof *planners; p++)
        follow_planner(w, planners[p]);
    struct trace_stats stats;
    CHECK_OK(trace_stats_compute(w->trace, &stats, &err), &err);
    w->slower += w->fastest != UINT64_MAX && w->bound > (double)stats.base_ns * 1.0001;
}

static void run_trace(struct trace *trace, uint64_t seed, double seconds, bool with_joint,
                      struct world *w)
{
    static const double ratios[] = {0.85, 0.65, 0.5, 0.4}, rates[] = {16, 4, 1, 0.25};
    struct ebb_error err;
    struct trace_stats stats;
    w->trace = trace;
    w->random = seed * 7919 + 3;
    CHECK_OK(trace_stats_compute(trace, &stats, &err), &err);
    CHECK_OK(exec_program_create(&w->program, trace, EXEC_EBB, &err), &err);
    size_t step = test_is_long() ? 1 : 2; /* two budgets of four, in turn */
    for (size_t r = seed / 2 % step; r < 4; r += step) {
        uint64_t room = seed % 5 == 4 ? stats.baseline_bytes / 4 : UINT64_C(1) << 30;
        w->tiers = (struct planner_tiers){
            .bytes = {plan_round((uint64_t)((double)stats.baseline_bytes * ratios[r])),
                      seed % 3 != 1 ? room : 0, seed % 3 != 0 ? room : 0}};
        for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
            double rate = rates[(r + seed) % 4] * (k == DEVICE_FILE ? 0.5 : 1);
            w->tiers.links.out[k] = (struct device_link){seed % 2 ? 300 : 0, rate};
            w->tiers.links.in[k] = (struct device_link){seed % 2 ? 300 : 0, 1.5 * rate};
        }
        w->tiers.links.in[DEVICE_T0].bytes_per_ns = 300;
        try_budget(w, seconds, with_joint);
    }
    exec_program_destroy(w->program);
    trace_destroy(trace);
}

TEST(bound__small_traces__no_plan_is_below)
{
    struct world w = {0};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct trace_synth synth = {.ops = 6 + (uint32_t)(seed % 7),
                                    .bytes = 4096,
                                    .weight_bytes = 1024,
                                    .cost_ns = 1000,
                                    .seed = seed,
                                    .spread = 0.7,
                                    .has_mutation = seed % 4 == 1,
                                    .has_multi_output = seed % 4 == 2,
                                    .has_workspace = seed % 4 == 3};
        run_trace(exec_traces_shape("random", &synth), seed, 0.2, seed == 3, &w);
    }
    CHECK(w.timed > (test_is_long() ? 1000u : 500u));
}

TEST(bound__larger_traces__no_plan_is_below)
{
    static const char *const shapes[] = {"chain", "unet", "transformer"};
    struct world w = {0};
    for (uint64_t seed = 20; seed < 24; seed++)
        run_trace(exec_traces_random(seed, true), seed, 0, false, &w);
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        struct trace_synth synth = {
            .layers = 5, .bytes = 1 << 14, .weight_bytes = 1 << 10, .cost_ns = 2000, .seed = k};
        run_trace(exec_traces_shape(shapes[k], &synth), 30 + k, 0, false, &w);
    }
    CHECK(w.timed > (test_is_long() ? 1000u : 500u));
    CHECK(w.slower > 0); /* and it says something */
}

TEST_MAIN()
