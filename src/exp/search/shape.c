/* shape.c - brackets and rungs of the halving searches, from their settings.
 *
 * All arithmetic is in doubles in the order of Determined's searchers, then truncated: a rung one
 * step longer is another search. */
#include "exp/search/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

/* No count of trials or steps exceeds this, so sums over a million rungs stay in range. */
#define COUNT_MAX ((int64_t)1 << 40)

int64_t exp_trunc(double value)
{
    if (!(value > 0))
        return 0;
    return value >= (double)COUNT_MAX ? COUNT_MAX : (int64_t)value;
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Steps of rung r of R when the top is `top`: at least one. */
static int64_t rung_steps(int64_t top, double divisor, size_t rungs, size_t r)
{
    return max_of(exp_trunc((double)top / pow(divisor, (double)(rungs - 1 - r))), 1);
}

/* Sizing from a step budget (adaptive). */
static void size_by_budget(struct exp_rung_shape *rungs, size_t count, double divisor,
                           int64_t target, int64_t budget)
{
    double expected = 0;
    for (size_t r = 0; r < count; r++) {
        int64_t n = max_of(exp_trunc(pow(divisor, (double)(count - 1 - r))), 1);
        rungs[r] =
            (struct exp_rung_shape){.steps = rung_steps(target, divisor, count, r), .start = n};
        expected += (double)(rungs[r].steps - (r > 0 ? rungs[r - 1].steps : 0)) * (double)n;
    }
    double multiplier = (double)budget / expected; /* of the steps before the "+1" below */
    for (size_t r = 0; r < count; r++) {
        rungs[r].start = exp_trunc(multiplier * (double)rungs[r].start);
        if (r == 0)
            continue; /* not raised to 1: the bracket may be empty */
        rungs[r].steps = max_of(rungs[r].steps, rungs[r - 1].steps + 1);
        rungs[r].start = max_of(min_of(rungs[r].start, rungs[r - 1].start), 1);
        rungs[r - 1].promote = rungs[r].start;
    }
}

/* Sizing from a trial count (adaptive_simple). */
static void size_by_trials(struct exp_rung_shape *rungs, size_t count, double divisor, int64_t top,
                           int64_t trials)
{
    for (size_t r = 0; r < count; r++) {
        rungs[r] = (struct exp_rung_shape){
            .steps = rung_steps(top, divisor, count, r),
            .start = max_of(exp_trunc((double)trials / pow(divisor, (double)r)), 1),
        };
        if (r == 0)
            continue;
        rungs[r].steps = max_of(rungs[r].steps, rungs[r - 1].steps + 1);
        rungs[r - 1].promote = rungs[r].start;
    }
}

static void finish_synchronous(struct exp_bracket_shape *bracket)
{
    int64_t before = 0;
    bracket->expected_workloads = 0;
    for (size_t r = 0; r < bracket->rung_count; r++) {
        const struct exp_rung_shape *rung = &bracket->rungs[r];
        int64_t work; /* saturates: only a measure of progress */
        if (__builtin_mul_overflow(rung->steps - before + 1, rung->start, &work) ||
            __builtin_add_overflow(bracket->expected_workloads, work, &bracket->expected_workloads))
            bracket->expected_workloads = INT64_MAX;
        before = rung->steps;
    }
    bracket->max_trials = bracket->initial_trials = bracket->rungs[0].start;
}

/* ---- which brackets ---- */

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Smallest rung count among the brackets of a mode; they go up to `most`, one by one. */
static int64_t least_rungs(enum exp_mode mode, int64_t most)
{
    switch (mode) {
    case EXP_MODE_AGGRESSIVE:
        return most;
    case EXP_MODE_STANDARD:
        return (most - 1) / 2 + 1;
    case EXP_MODE_CONSERVATIVE:
        break;
    }
    return 1;
}

/* Rung counts of the brackets, descending, in the arena. */
static enum ebb_status choose_brackets(const struct exp_searcher *config, int64_t most,
                                       struct ebb_arena *arena, int64_t **rungs, size_t *count,
                                       struct ebb_error *err)
{
    bool is_given = config->bracket_rungs_count > 0;
    int64_t least = is_given ? 0 : least_rungs(config->mode, most);
    size_t n = is_given ? config->bracket_rungs_count : (size_t)(most - least + 1);
    int64_t *list = ebb_arena_calloc(arena, n, sizeof *list);
    if (list == NULL)
        return ebb_no_memory(err, n * sizeof *list);
    for (size_t i = 0; i < n; i++)
        list[i] = is_given ? config->bracket_rungs[i] : most - (int64_t)i;
    qsort(list, n, sizeof *list, descending);
    if (list[n - 1] < 1)
        return ebb_fail(err, EBB_EINPUT, "searcher: a bracket with %lld rungs",
                        (long long)list[n - 1]);
    *rungs = list;
    *count = n;
    return EBB_OK;
}

/* Empty brackets and rungs to fill in. */
static enum ebb_status make_brackets(const int64_t *rungs, size_t count, struct ebb_arena *arena,
                                     struct exp_bracket_shape **brackets, struct ebb_error *err)
{
    struct exp_bracket_shape *list = ebb_arena_calloc(arena, count, sizeof *list);
    for (size_t b = 0; list != NULL && b < count; b++) {
        list[b].rung_count = (size_t)rungs[b];
        list[b].rungs = ebb_arena_calloc(arena, list[b].rung_count, sizeof *list[b].rungs);
        if (list[b].rungs == NULL)
            return ebb_no_memory(err, list[b].rung_count * sizeof *list[b].rungs);
    }
    if (list == NULL)
        return ebb_no_memory(err, count * sizeof *list);
    *brackets = list;
    return EBB_OK;
}

enum ebb_status exp_shape_synchronous(const struct exp_searcher *config, struct ebb_arena *arena,
                                      struct exp_shape *shape, struct ebb_error *err)
{
    bool by_budget = config->kind == EXP_SEARCHER_ADAPTIVE;
    int64_t *rungs = NULL;
    size_t count = 0;
    struct exp_bracket_shape *brackets = NULL;
    EBB_TRY(choose_brackets(config, config->max_rungs, arena, &rungs, &count, err));
    EBB_TRY(make_brackets(rungs, count, arena, &brackets, err));
    int64_t k = (int64_t)count, all = 0;
    for (size_t b = 0; b < count; b++) {
        if (by_budget)
            size_by_budget(brackets[b].rungs, brackets[b].rung_count, config->divisor,
                           config->target_trial_steps, config->step_budget / k);
        else
            size_by_trials(
                brackets[b].rungs, brackets[b].rung_count, config->divisor, config->max_steps,
                max_of(config->max_trials / k + ((int64_t)b < config->max_trials % k), 1));
        finish_synchronous(&brackets[b]);
        all += brackets[b].max_trials;
    }
    if (all == 0)
        return ebb_fail(err, EBB_EINPUT,
                        "searcher: step_budget %lld is too small: every one of the %zu brackets "
                        "would be empty",
                        (long long)config->step_budget, count);
    *shape = (struct exp_shape){.brackets = brackets, .count = count};
    return EBB_OK;
}

/* ---- asynchronous ---- */

/* Rungs that lengths and trials can fill. ln 243 / ln 3 truncates to 4; that is kept. */
static int64_t usable_rungs(const struct exp_searcher *config)
{
    double base = log(config->divisor);
    int64_t by_length = exp_trunc(log((double)config->max_length) / base) + 1;
    int64_t by_trials = exp_trunc(log((double)config->max_trials) / base) + 1;
    return min_of(config->max_rungs, min_of(by_length, by_trials));
}

static void share_trials(const struct exp_searcher *config, struct exp_bracket_shape *brackets,
                         size_t count)
{
    double sum = 0;
    int64_t given = 0;
    for (size_t b = 0; b < count; b++)
        sum += pow(config->divisor, (double)(brackets[b].rung_count - 1)) /
               (double)brackets[b].rung_count;
    for (size_t b = 0; b < count; b++) {
        double weight = pow(config->divisor, (double)(brackets[b].rung_count - 1)) /
                        (double)brackets[b].rung_count;
        brackets[b].max_trials = max_of(exp_trunc(weight / sum * (double)config->max_trials), 1);
        given += brackets[b].max_trials;
    }
    brackets[0].max_trials += max_of(config->max_trials - given, 0);
}

/* Trials running at once in bracket b of `count`. 0 = automatic. */
static int64_t concurrency(const struct exp_searcher *config,
                           const struct exp_bracket_shape *brackets, size_t count, size_t b)
{
    if (config->kind == EXP_SEARCHER_ASYNC_HALVING)
        return config->max_concurrent_trials;
    if (config->max_concurrent_trials == 0)
        return max_of(brackets[count - 1].max_trials, exp_trunc(config->divisor));
    int64_t all = max_of(config->max_concurrent_trials, (int64_t)count);
    return all / (int64_t)count + ((int64_t)b < all % (int64_t)count);
}

static int64_t initial_trials(const struct exp_searcher *config,
                              const struct exp_bracket_shape *bracket, int64_t at_once)
{
    if (at_once > 0)
        return min_of(at_once, bracket->max_trials);
    int64_t wide = exp_trunc(pow(config->divisor, (double)(bracket->rung_count - 1)));
    return min_of(max_of(wide, 1), bracket->max_trials);
}

enum ebb_status exp_shape_asynchronous(const struct exp_searcher *config, struct ebb_arena *arena,
                                       struct exp_shape *shape, struct ebb_error *err)
{
    int64_t *rungs = NULL;
    size_t count = 0;
    struct exp_bracket_shape *brackets = NULL;
    if (config->kind == EXP_SEARCHER_ASYNC_HALVING) {
        struct exp_searcher one = {.bracket_rungs = &config->num_rungs, .bracket_rungs_count = 1};
        EBB_TRY(choose_brackets(&one, 1, arena, &rungs, &count, err));
    } else {
        EBB_TRY(choose_brackets(config, usable_rungs(config), arena, &rungs, &count, err));
    }
    EBB_TRY(make_brackets(rungs, count, arena, &brackets, err));
    share_trials(config, brackets, count);
    for (size_t b = 0; b < count; b++) {
        struct exp_rung_shape *list = brackets[b].rungs;
        for (size_t r = 0; r < brackets[b].rung_count; r++)
            list[r].steps =
                rung_steps(config->max_length, config->divisor, brackets[b].rung_count, r);
        brackets[b].initial_trials =
            initial_trials(config, &brackets[b], concurrency(config, brackets, count, b));
    }
    *shape = (struct exp_shape){.brackets = brackets, .count = count};
    return EBB_OK;
}

enum ebb_status exp_search_shape(const struct exp_searcher *config, struct ebb_arena *arena,
                                 struct exp_shape *shape, struct ebb_error *err)
{
    const struct exp_search_method *method = exp_method_find(config->kind);
    *shape = (struct exp_shape){0};
    return method != NULL && method->shape != NULL ? method->shape(config, arena, shape, err)
                                                   : EBB_OK;
}
