/* Random traces x budgets x policies x options under rules ebb, judged by an oracle that knows only
 * the event log (exec_oracle.h). Seeds are fixed. */
#include <stdio.h>
#include <string.h>
#include "test.h"
#include "exec_oracle.h"
#include "exec_traces.h"

#include "base/heap.h"
#include "base/rng.h"
#include "exec/exec.h"
#include "plan/plan.h"
#include "planner/planner.h"

#define UNLIMITED (UINT64_C(1) << 40)

static size_t run_count, ok_count, swap_count, move_count, early_count, faster_count;

static void say(const struct trace *t, const struct exec_options *o, const char *why)
{
    fail_msg("%s, policy %s, budget %llu, ways %u, tiers %llu %llu, sampling %d, small %d, dealloc "
             "%d: %s",
             t->name, o->policy ? o->policy->name : "none", (unsigned long long)o->budget_bytes,
             o->ways, (unsigned long long)o->tier_bytes[1], (unsigned long long)o->tier_bytes[2],
             o->sampling, o->ignore_small, (int)o->dealloc, why);
}

static struct exec_report run_once(const struct exec_program *program, const struct trace *t,
                                   struct exec_options *o, struct exec_log *log)
{
    struct ebb_error err;
    struct exec_report report;
    char why[1200];
    *log = (struct exec_log){0};
    o->log = log;
    if (exec_run(program, o, &report, &err) != EBB_OK) {
        snprintf(why, sizeof why, "exec_run fails: %s", err.message);
        say(t, o, why);
    }
    run_count++;
    ok_count += report.result == EXEC_OK;
    swap_count += report.swapped_bytes > 0;
    move_count += report.moved_bytes > 0;
    return report;
}

static bool same_logs(const struct exec_log *a, const struct exec_log *b, bool tells_leaving_apart)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        struct exec_event x = a->events[i], y = b->events[i];
        if (!tells_leaving_apart) { /* a plan only knows that something leaves */
            x.kind = x.kind == EXEC_EV_FREE ? EXEC_EV_DROP : x.kind;
            y.kind = y.kind == EXEC_EV_FREE ? EXEC_EV_DROP : y.kind;
        }
        if (x.kind != y.kind || x.tier != y.tier || x.index != y.index || x.offset != y.offset ||
            x.clock_ns != y.clock_ns)
            return false;
    }
    return true;
}

/* The plan with its copies beside the ops: proved, judged, the same work. */
static void check_early(const struct exec_program *program, const struct trace *t,
                        const struct exec_options *o, const struct plan *plan,
                        const struct exec_report *r, bool drops_late)
{
    struct ebb_error err;
    struct plan early;
    struct planner_tiers tiers = {.bytes = {o->budget_bytes, o->tier_bytes[1], o->tier_bytes[2]},
                                  .links = o->links};
    char why[ORACLE_WHY];
    bool is_found;
    plan_init(&early);
    CHECK_OK(planner_early(t, plan, &tiers, drops_late, &early, &is_found, &err), &err);
    if (is_found) {
        struct exec_log log = {0};
        struct exec_options replay = *o;
        struct exec_report second;
        replay.policy = NULL;
        replay.plan = &early;
        replay.log = &log;
        enum ebb_status status = exec_run(program, &replay, &second, &err);
        if (status != EBB_OK && status != EBB_EBUDGET) /* copies may find no place in their tier */
            say(t, &replay, err.message);
        struct oracle_case judged = {
            .trace = t, .options = &replay, .report = &second, .is_planned = true};
        if (status == EBB_OK && !oracle_judge(&judged, why))
            say(t, &replay, why);
        if (status == EBB_OK &&
            (second.remat_ns != r->remat_ns || second.swapped_bytes != r->swapped_bytes))
            say(t, &replay, "copies moved, and something else changed");
        early_count += status == EBB_OK;
        faster_count += status == EBB_OK && second.device_ns < r->device_ns;
        exec_log_fini(&log);
    }
    plan_fini(&early);
}

/* The run as a plan: the checker gives the same verdict and figures, and exec repeats it. */
static void check_as_plan(const struct exec_program *program, const struct trace *t,
                          const struct exec_options *o, const struct exec_report *r,
                          const struct exec_log *log)
{
    struct ebb_error err;
    struct plan plan;
    struct plan_report proof = {0};
    struct plan_limits limits = {
        .budget_bytes = {o->budget_bytes, o->tier_bytes[1], o->tier_bytes[2]}};
    char why[ORACLE_WHY];
    plan_init(&plan);
    CHECK_OK(exec_log_to_plan(log, t, &plan, &err), &err);
    enum ebb_status status = plan_check(t, &plan, &limits, &proof, &err);
    if ((status == EBB_OK) != (r->result == EXEC_OK))
        say(t, o, status == EBB_OK ? "the run failed, but the checker accepts it" : err.message);
    if (status != EBB_OK) {
        plan_fini(&plan);
        return;
    }
    if (proof.height_bytes != r->peak_bytes)
        say(t, o, "the checker finds another height");
    if (proof.peak_bytes != r->sum_bytes)
        say(t, o, "the checker finds another byte sum");
    if (proof.cost_ns != proof.base_ns + r->remat_ns || proof.base_ns > r->base_ns ||
        proof.rerun_count != r->remat_ops)
        say(t, o, "the checker finds another cost");

    struct exec_log again = {0};
    struct exec_options replay = *o;
    replay.policy = NULL;
    replay.plan = &plan;
    struct exec_report second = run_once(program, t, &replay, &again);
    if (second.result != EXEC_OK || second.peak_bytes != r->peak_bytes ||
        second.sum_bytes != r->sum_bytes || second.clock_ns != r->clock_ns)
        say(t, &replay, "running the plan gives another peak or clock");
    if (!same_logs(log, &again, false))
        say(t, &replay, "running the plan gives another log");
    struct oracle_case judged = {
        .trace = t, .options = &replay, .report = &second, .is_planned = true};
    if (!oracle_judge(&judged, why))
        say(t, &replay, why);
    check_early(program, t, o, &plan, &second, early_count % 2 == 0);
    exec_log_fini(&again);
    plan_fini(&plan);
}

static bool same_reports(const struct exec_report *a, const struct exec_report *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

enum { WITH_PLAN = 1, WITH_REPEAT = 2 };

static struct exec_report judge(const struct exec_program *program, const struct trace *t,
                                struct exec_options *o, unsigned what)
{
    char why[ORACLE_WHY];
    struct exec_log log, again;
    struct exec_report r = run_once(program, t, o, &log);
    struct oracle_case judged = {.trace = t, .options = o, .report = &r, .is_planned = false};
    if (r.peak_bytes > o->budget_bytes)
        say(t, o, "the peak is above the budget");
    if (!oracle_judge(&judged, why))
        say(t, o, why);
    if (what & WITH_PLAN)
        check_as_plan(program, t, o, &r, &log);
    if (what & WITH_REPEAT) {
        struct exec_report second = run_once(program, t, o, &again);
        if (!same_reports(&r, &second) || !same_logs(&log, &again, true))
            say(t, o, "a second run differs");
        exec_log_fini(&again);
        if (!o->sampling && o->policy) { /* the index chooses what a plain scan chooses */
            o->reference_scan = true;
            second = run_once(program, t, o, &again);
            o->reference_scan = false;
            if (second.evict_hash != r.evict_hash || second.clock_ns != r.clock_ns ||
                !same_logs(&log, &again, true))
                say(t, o, "a plain scan chooses other victims");
            exec_log_fini(&again);
        }
    }
    exec_log_fini(&log);
    o->log = NULL;
    return r;
}

/* Ways, tiers, links and small options by a counter, so that every mixture turns up. */
static void draw_options(struct exec_options *o, uint64_t *random, uint64_t peak)
{
    uint64_t bits = ebb_splitmix64(random);
    static const unsigned ways[] = {0,
                                    MEM_DROP,
                                    MEM_DROP | MEM_HOST,
                                    MEM_HOST,
                                    MEM_DROP | MEM_FILE,
                                    MEM_DROP | MEM_HOST | MEM_FILE,
                                    MEM_HOST | MEM_FILE,
                                    MEM_FILE};
    static const double rates[] = {0, 1, 8, 300};
    o->ways = ways[bits & 7];
    o->sampling = (bits >> 3 & 7) == 0;
    o->ignore_small = (bits >> 6 & 7) == 0;
    o->dealloc = (bits >> 9 & 7) == 0 ? EXEC_IGNORE : EXEC_EAGER;
    o->seed = bits >> 40;
    o->limit = (bits >> 12 & 3) == 0 ? 2 : 12;
    o->tier_bytes[DEVICE_HOST] = o->tier_bytes[DEVICE_FILE] = 0;
    if (o->ways & MEM_HOST)
        o->tier_bytes[DEVICE_HOST] = (bits >> 14 & 3) * peak / 4;
    if (o->ways & MEM_FILE)
        o->tier_bytes[DEVICE_FILE] = (bits >> 16 & 3) * peak / 2;
    o->links = (struct device_config){0};
    o->links.in[DEVICE_T0] = (struct device_link){(bits >> 20 & 1) * 3, rates[bits >> 18 & 3]};
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
        o->links.out[k] = (struct device_link){(bits >> 21 & 1) * 50, rates[bits >> 22 & 3]};
        o->links.in[k] = (struct device_link){(bits >> 24 & 1) * 50, rates[bits >> 25 & 3]};
        bits = bits >> 7 | bits << 57;
    }
}

/* From plenty down to less than one op needs. */
static void sweep(const struct trace *t, uint64_t seed, size_t policies_per_budget, unsigned what)
{
    static const double parts[] = {1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2};
    struct ebb_error err;
    struct exec_program *program = NULL;
    struct trace_stats stats;
    uint64_t random = seed;
    CHECK_OK(exec_program_create(&program, t, EXEC_EBB, &err), &err);
    CHECK_OK(trace_stats_compute(t, &stats, &err), &err);
    struct exec_options o = {.budget_bytes = UNLIMITED};
    struct exec_report full = judge(program, t, &o, WITH_PLAN | WITH_REPEAT);
    CHECK_EQ(full.result, EXEC_OK);
    CHECK_EQ(full.remat_ops, 0);
    for (size_t b = 0; b < sizeof parts / sizeof *parts + 3; b++) {
        uint64_t budget = b < 8    ? (uint64_t)((double)full.peak_bytes * parts[b])
                          : b == 8 ? stats.working_bytes
                          : b == 9 ? stats.working_bytes / 2
                                   : 0;
        for (size_t k = 0; k < policies_per_budget; k++) {
            size_t p = policies_per_budget == mem_policy_total
                           ? k
                           : ebb_splitmix64(&random) % mem_policy_total;
            o = (struct exec_options){.policy = &mem_policies[p], .budget_bytes = budget};
            draw_options(&o, &random, full.peak_bytes);
            struct exec_report r = judge(program, t, &o, what);
            if (b == 9 && r.result == EXEC_OK && stats.working_bytes > 512)
                say(t, &o, "ok below the working set of one op");
        }
        o = (struct exec_options){.budget_bytes = budget}; /* no policy at all */
        judge(program, t, &o, what);
    }
    exec_program_destroy(program);
}

static void counted(uint64_t blocks)
{
    CHECK_EQ(ebb_heap_live(), blocks);
    print_message("%zu runs, %zu ok, %zu swap, %zu move; %zu early, %zu of them faster\n",
                  run_count, ok_count, swap_count, move_count, early_count, faster_count);
    CHECK(run_count > 0 && ok_count > run_count / 10);
}

static void sweep_seeds(struct trace *(*make)(uint64_t seed, bool has_mutation), uint64_t seeds)
{
    uint64_t blocks = ebb_heap_live();
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct trace *t = make(seed, true);
        sweep(t, seed, 3, WITH_PLAN | WITH_REPEAT);
        trace_destroy(t);
    }
    counted(blocks);
}

TEST(training_graphs__obey_the_oracle)
{
    sweep_seeds(exec_traces_random, test_is_long() ? 900 : 90);
}

TEST(nasty_graphs__obey_the_oracle)
{
    sweep_seeds(exec_traces_nasty, test_is_long() ? 1200 : 120);
}

TEST(every_policy__obeys_the_oracle_on_every_shape)
{
    uint64_t blocks = ebb_heap_live();
    static const struct {
        const char *name;
        uint32_t layers;
    } shapes[] = {{"chain", 12}, {"tree", 3},   {"unet", 2},   {"transformer", 1},
                  {"lstm", 3},   {"resnet", 2}, {"linear", 20}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct trace_synth synth = {.layers = shapes[i].layers, .seed = i};
        if (i < 6) {
            synth.bytes = 8192;
            synth.weight_bytes = 2048;
        }
        struct trace *t = exec_traces_shape(shapes[i].name, &synth);
        sweep(t, i, mem_policy_total, WITH_PLAN | WITH_REPEAT);
        trace_destroy(t);
    }
    counted(blocks);
}

TEST(large_graphs__obey_the_oracle)
{
    uint64_t blocks = ebb_heap_live();
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct trace_synth synth = {.ops = 1500,
                                    .bytes = 4096,
                                    .weight_bytes = 1024,
                                    .cost_ns = 1000,
                                    .seed = seed,
                                    .spread = 1,
                                    .has_views = true,
                                    .has_mutation = true,
                                    .has_multi_output = true,
                                    .has_workspace = true,
                                    .has_once = true};
        struct trace *t = exec_traces_shape("random", &synth);
        sweep(t, seed, 2, WITH_PLAN);
        trace_destroy(t);
    }
    counted(blocks);
}

/* So many segments that windows are looked for in places only. */
TEST(crowded_slab__obeys_the_oracle)
{
    struct ebb_error err;
    struct trace_synth synth = {
        .layers = 12000, .bytes = 8192, .weight_bytes = 256, .seed = 1, .spread = 1};
    struct trace *t = exec_traces_shape("chain", &synth);
    struct exec_program *program = NULL;
    struct trace_stats stats;
    CHECK_OK(exec_program_create(&program, t, EXEC_EBB, &err), &err);
    CHECK_OK(trace_stats_compute(t, &stats, &err), &err);
    for (size_t i = 0; i < 3; i++) {
        static const char *const policies[] = {"dtr_eq", "lru", "largest"};
        struct exec_options o = {.policy = mem_policy_find(policies[i]),
                                 .budget_bytes = stats.baseline_bytes * (8 - i) / 10,
                                 .links.in[DEVICE_T0].bytes_per_ns = 300,
                                 .limit = 3};
        struct exec_report r = judge(program, t, &o, i == 0 ? WITH_PLAN | WITH_REPEAT : 0);
        CHECK_EQ(r.result, EXEC_OK);
        CHECK(r.moved_bytes > 0 && r.evictions_pressure > 1000);
    }
    exec_program_destroy(program);
    trace_destroy(t);
}

/* What a program ran before leaves no trace: shared by threads, it must answer as if new. */
TEST(programs__remember_nothing)
{
    struct ebb_error err;
    for (uint64_t seed = 500; seed < 540; seed++) {
        struct trace *t = exec_traces_random(seed, true);
        struct exec_program *used = NULL;
        struct exec_report full, a, b;
        struct exec_options o = {.budget_bytes = UNLIMITED, .policy = mem_policy_find("dtr")};
        CHECK_OK(exec_program_create(&used, t, EXEC_EBB, &err), &err);
        CHECK_OK(exec_run(used, &o, &full, &err), &err);
        for (int i = 0; i < 12; i++) {
            struct exec_program *fresh = NULL;
            o.budget_bytes = full.peak_bytes * (uint64_t)(94 + i) / 100;
            o.limit = 4;
            CHECK_OK(exec_program_create(&fresh, t, EXEC_EBB, &err), &err);
            CHECK_OK(exec_run(fresh, &o, &a, &err), &err);
            CHECK_OK(exec_run(used, &o, &b, &err), &err);
            if (!same_reports(&a, &b))
                say(t, &o, "depends on what ran before");
            exec_program_destroy(fresh);
        }
        exec_program_destroy(used);
        trace_destroy(t);
    }
}

TEST_MAIN()
