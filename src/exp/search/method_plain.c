/* method_plain.c - single, random, grid: every trial is known at the start and trained to the end.
 */
#include "exp/search/method.h"

/* Create, train to the end, validate, close; the sample is in s->scratch. */
static enum ebb_status whole_trial(struct exp_search *s, struct ebb_error *err)
{
    struct exp_new_trial new_trial = {.sample = s->scratch, .parent = EXP_NO_TRIAL};
    uint32_t trial;
    exp_search_draw_identity(s, &new_trial.identity);
    EBB_TRY(exp_search_ask_create(s, &new_trial, &trial, err));
    EBB_TRY(exp_search_ask_train(s, trial, s->config->max_steps, err));
    return exp_search_ask_close(s, trial, err);
}

static enum ebb_status ignore_validated(struct exp_search *s, uint32_t trial, int64_t step,
                                        double metric, struct ebb_error *err)
{
    (void)s, (void)trial, (void)step, (void)metric, (void)err;
    return EBB_OK;
}

static double progress_of(const struct exp_search *s, double trials)
{
    return (double)s->workloads / (((double)s->config->max_steps + 1) * trials);
}

/* ---- single, random ---- */

static int64_t trials_of(const struct exp_searcher *config)
{
    return config->max_trials > 0 ? config->max_trials : 1; /* single has no such key */
}

static enum ebb_status random_start(struct exp_search *s, struct ebb_error *err)
{
    for (int64_t i = 0; i < trials_of(s->config); i++) {
        exp_sample(s->space, &s->rng, s->scratch);
        EBB_TRY(whole_trial(s, err));
    }
    return EBB_OK;
}

static enum ebb_status random_exited(struct exp_search *s, uint32_t trial,
                                     enum exp_exit_reason reason, bool has_work,
                                     struct ebb_error *err)
{
    (void)trial, (void)has_work;
    if (reason != EXP_EXIT_INVALID_HP)
        return EBB_OK;
    exp_search_draw(s, s->scratch); /* a replacement, not counted in max_trials */
    return whole_trial(s, err);
}

static double random_progress(const struct exp_search *s)
{
    return progress_of(s, (double)trials_of(s->config));
}

const struct exp_search_method exp_method_random = {
    .start = random_start,
    .validated = ignore_validated,
    .exited = random_exited,
    .progress = random_progress,
};

/* ---- grid ---- */

static enum ebb_status grid_init(struct exp_search *s, struct ebb_error *err)
{
    for (size_t i = 0; i < s->space->count; i++)
        if (exp_grid_count(&s->space->items[i]) == 0)
            return ebb_fail(err, EBB_EINPUT, "grid search: hyperparameter '%s' needs a count",
                            s->space->items[i].name);
    uint64_t size = exp_grid_size(s->space);
    if (size == 0)
        return ebb_fail(err, EBB_EINPUT, "grid search: there is no hyperparameter");
    if (size >= EXP_NO_TRIAL)
        return ebb_fail(err, EBB_ELIMIT, "grid search: %llu points", (unsigned long long)size);
    return EBB_OK;
}

static enum ebb_status grid_start(struct exp_search *s, struct ebb_error *err)
{
    uint64_t size = exp_grid_size(s->space);
    for (uint64_t i = 0; i < size; i++) {
        exp_grid_point(s->space, i, s->scratch);
        EBB_TRY(whole_trial(s, err));
    }
    return EBB_OK;
}

static double grid_progress(const struct exp_search *s)
{
    return progress_of(s, (double)exp_grid_size(s->space));
}

const struct exp_search_method exp_method_grid = {
    .init = grid_init,
    .start = grid_start,
    .validated = ignore_validated, /* an invalid point has no replacement: exits change nothing */
    .progress = grid_progress,
};
