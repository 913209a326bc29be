/* method_adaptive.c - adaptive, adaptive_simple: brackets of successive halving.
 *
 * A rung promotes a trial as soon as it is certain to be among the best promote[r]: with n results
 * in and start[r] - n to come, the best n + promote[r] - start[r] cannot be overtaken. */
#include "exp/search/brackets.h"

#include <float.h>

/* Whom to promote from rung r now that the entry at `index` has come; EXP_NO_TRIAL: nobody yet. */
static uint32_t choose(const struct exp_search *s, const struct exp_ranks *ranks,
                       const struct exp_rung_shape *shape, size_t r, size_t index)
{
    int64_t certain = (int64_t)ranks->count + shape->promote - shape->start;
    if (certain <= 0)
        return EXP_NO_TRIAL;
    size_t from = (int64_t)index < certain ? index : (size_t)certain - 1;
    struct exp_rank_walk walk = exp_ranks_from(ranks, from);
    struct exp_rank entry;
    while (exp_ranks_next(&walk, &entry)) /* the first one, unless a result was taken out before */
        if (exp_brackets_is_waiting(s, entry.trial, r))
            return entry.trial;
    return EXP_NO_TRIAL;
}

static enum ebb_status close_rest(struct exp_search *s, const struct exp_ranks *ranks, size_t r,
                                  int64_t promote, struct ebb_error *err)
{
    struct exp_rank_walk walk = exp_ranks_from(ranks, (size_t)promote);
    struct exp_rank entry;
    while (exp_ranks_next(&walk, &entry))
        if (exp_brackets_is_waiting(s, entry.trial, r))
            EBB_TRY(exp_brackets_close(s, entry.trial, err));
    return EBB_OK;
}

/* A result for the rung the trial is in. Recursion ends at the top rung. */
static enum ebb_status report(struct exp_search *s, uint32_t trial, double metric,
                              struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    size_t r = a->members[trial].rung, index;
    const struct exp_bracket_shape *shape = &a->shape.brackets[a->members[trial].bracket];
    struct exp_rung *rung = &a->items[a->members[trial].bracket].rungs[r];
    rung->outstanding -= rung->outstanding > 0;
    EBB_TRY(exp_ranks_insert(&rung->ranks, (struct exp_rank){metric, trial}, EXP_AFTER_EQUALS,
                             &index, err));
    if (r + 1 == shape->rung_count)
        return exp_brackets_close(s, trial, err);
    uint32_t chosen = choose(s, &rung->ranks, &shape->rungs[r], r, index);
    if (chosen != EXP_NO_TRIAL) {
        a->members[chosen].rung++;
        rung[1].outstanding++;
        if (s->trials[chosen].is_exited)
            EBB_TRY(report(s, chosen, DBL_MAX, err)); /* as if it had run, with the worst result */
        else
            EBB_TRY(exp_search_ask_train(s, chosen, shape->rungs[r + 1].steps, err));
    }
    if ((int64_t)rung->ranks.count >= shape->rungs[r].start)
        EBB_TRY(close_rest(s, &rung->ranks, r, shape->rungs[r].promote, err));
    return EBB_OK;
}

static double adaptive_progress(const struct exp_search *s)
{
    const struct exp_brackets *a = exp_brackets_of(s);
    double sum = 0;
    for (size_t b = 0; b < a->shape.count; b++) {
        const struct exp_bracket_shape *shape = &a->shape.brackets[b];
        double done = (double)a->items[b].workloads / (double)shape->expected_workloads;
        sum += shape->max_trials == 0 || done > 1 ? 1 : done; /* an empty bracket counts as done */
    }
    return sum / (double)a->shape.count;
}

const struct exp_search_method exp_method_adaptive = {
    EXP_BRACKETS_METHOD,
    .shape = exp_shape_synchronous,
    .report = report,
    .progress = adaptive_progress,
};
