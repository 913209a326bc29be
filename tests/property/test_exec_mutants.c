/* Plans with one thing wrong: exec refuses them, or does what the oracle finds right.
 *
 * plan_check, the image of a plan and its report all go through plan_walk, so an error there could
 * let a wrong plan pass all of them. The oracle (exec_oracle.h) shares nothing with the walk and
 * judges what was done. Records of runs under policies, copies included, are changed in one step
 * each; seeds are fixed. tools/plant proves that this finds errors of the walk. */
#include "test.h"
#include "exec_oracle.h"
#include "exec_traces.h"

#include "base/rng.h"
#include "exec/exec.h"
#include "plan/plan.h"

static size_t mutant_count, accepted_count;

static const char *const changes[] = {"left out",    "done twice", "done later",
                                      "done sooner", "another's",  "elsewhere"};
enum change { LEFT_OUT, DONE_TWICE, DONE_LATER, DONE_SOONER, ANOTHERS, ELSEWHERE, CHANGE_COUNT };

static size_t draw(uint64_t *random, size_t below)
{
    return (size_t)(ebb_splitmix64(random) % below);
}

/* Take the step at `from` out and put it in again `to` places from the beginning. */
static void shift(struct plan *plan, size_t from, size_t to)
{
    struct plan_step *steps = plan->steps, moved = steps[from];
    if (from < to)
        memmove(&steps[from], &steps[from + 1], (to - from) * sizeof *steps);
    else
        memmove(&steps[to + 1], &steps[to], (from - to) * sizeof *steps);
    steps[to] = moved;
}

/* A copy of the plan with one step changed. */
static void mutate(const struct plan *plan, enum change change, uint64_t *random,
                   struct plan *mutant)
{
    struct ebb_error err;
    size_t n = plan->step_count, at = draw(random, n), other = draw(random, n);
    size_t near = 1 + draw(random, 12);
    plan_init(mutant);
    mutant->signature = plan->signature;
    for (size_t i = 0; i < n; i++) {
        const struct plan_step *s = &plan->steps[i];
        CHECK_OK(plan_add(mutant, s->act, s->index, s->offset, s->tier, &err), &err);
    }
    struct plan_step *step = &mutant->steps[at], was = *step;
    switch (change) {
    case LEFT_OUT:
        shift(mutant, at, n - 1);
        mutant->step_count--;
        return;
    case DONE_TWICE:
        CHECK_OK(plan_add(mutant, was.act, was.index, was.offset, was.tier, &err), &err);
        shift(mutant, n, at + near < n ? at + near : n);
        return;
    case DONE_LATER:
        shift(mutant, at, at + near < n ? at + near : n - 1);
        return;
    case DONE_SOONER:
        shift(mutant, at, at > near ? at - near : 0);
        return;
    case ANOTHERS:
        if ((was.act == PLAN_RUN) == (plan->steps[other].act == PLAN_RUN))
            step->index = plan->steps[other].index;
        return;
    default:
        if (was.act == PLAN_SEND || was.act == PLAN_FETCH || was.act == PLAN_FORGET)
            step->tier = (uint8_t)(DEVICE_HOST + DEVICE_FILE - was.tier);
        else
            step->offset = plan->steps[other].offset;
    }
}

static void try_mutant(const struct exec_program *program, const struct trace *t,
                       const struct exec_options *recorded, const struct plan *mutant,
                       enum change change)
{
    struct ebb_error err;
    struct exec_log log = {0};
    struct exec_report report;
    struct exec_options o = *recorded;
    char why[ORACLE_WHY];
    o.policy = NULL;
    o.plan = mutant;
    o.log = &log;
    mutant_count++;
    if (exec_run(program, &o, &report, &err) == EBB_OK) {
        accepted_count++;
        struct oracle_case judged = {
            .trace = t, .options = &o, .report = &report, .is_planned = true, .is_strange = true};
        if (!oracle_judge(&judged, why))
            fail_msg("%s, budget %llu, one step %s: accepted; %s", t->name,
                     (unsigned long long)o.budget_bytes, changes[change], why);
    }
    exec_log_fini(&log);
}

/* Mutants of what `policy` does when half of the memory is there, and some of the lower tiers. */
static void breed(struct trace *t, uint64_t seed, size_t per_change)
{
    struct ebb_error err;
    struct exec_program *program = NULL;
    struct exec_log log = {0};
    struct exec_report report;
    struct plan plan, mutant;
    uint64_t random = seed;
    CHECK_OK(exec_program_create(&program, t, EXEC_EBB, &err), &err);
    struct exec_options o = {.budget_bytes = UINT64_C(1) << 40};
    CHECK_OK(exec_run(program, &o, &report, &err), &err);
    uint64_t peak = report.peak_bytes;
    o = (struct exec_options){.policy = &mem_policies[draw(&random, mem_policy_total)],
                              .budget_bytes = peak / 256 * (3 + draw(&random, 5)) / 8 * 256,
                              .ways = MEM_DROP | MEM_HOST | MEM_FILE,
                              .limit = 4,
                              .log = &log};
    o.tier_bytes[DEVICE_HOST] = o.tier_bytes[DEVICE_FILE] = peak / 2;
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        o.links.in[k] = o.links.out[k] = (struct device_link){50, (double)draw(&random, 40)};
    CHECK_OK(exec_run(program, &o, &report, &err), &err);
    if (report.result == EXEC_OK) {
        plan_init(&plan);
        CHECK_OK(exec_log_to_plan(&log, t, &plan, &err), &err);
        for (size_t i = 0; i < CHANGE_COUNT * per_change; i++) {
            mutate(&plan, i % CHANGE_COUNT, &random, &mutant);
            try_mutant(program, t, &o, &mutant, i % CHANGE_COUNT);
            plan_fini(&mutant);
        }
        plan_fini(&plan);
    }
    exec_log_fini(&log);
    exec_program_destroy(program);
    trace_destroy(t);
}

/* Some are harmless: a copy too much, an op run again for nothing. */
static void counted(void)
{
    print_message("%zu mutants, %zu accepted\n", mutant_count, accepted_count);
    CHECK(accepted_count > mutant_count / 50 && accepted_count < mutant_count);
}

TEST(mutants_of_training_graphs__are_refused_or_right)
{
    for (uint64_t seed = 1; seed <= 150; seed++)
        breed(exec_traces_random(seed, true), seed, 60);
    counted();
}

TEST(mutants_of_nasty_graphs__are_refused_or_right)
{
    for (uint64_t seed = 1; seed <= 300; seed++)
        breed(exec_traces_nasty(seed, true), seed, 60);
    counted();
}

TEST_MAIN()
