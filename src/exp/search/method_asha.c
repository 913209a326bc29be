/* method_asha.c - adaptive_asha, async_halving: brackets of asynchronous halving.
 *
 * Two variants. Promotion: a result may move any waiting trial up; losers wait until nothing can
 * promote them, then close. stop_once: a trial goes on or closes when its own result arrives,
 * nobody ever waits. */
#include "exp/search/brackets.h"

#include <float.h>

static size_t share(size_t results, double divisor)
{
    return (size_t)exp_trunc((double)results / divisor);
}

/* Insert a result below the top rung and say who moves up: that trial, another one, or nobody. */
static enum ebb_status rank(struct exp_search *s, struct exp_rung *rung, size_t r,
                            struct exp_rank result, uint32_t *promoted, struct ebb_error *err)
{
    double divisor = s->config->divisor;
    size_t old = share(rung->ranks.count, divisor), now = share(rung->ranks.count + 1, divisor);
    size_t index;
    bool stops = s->config->stop_once;
    EBB_TRY(exp_ranks_insert(&rung->ranks, result, stops ? EXP_BEFORE_EQUALS : EXP_AFTER_EQUALS,
                             &index, err));
    *promoted = EXP_NO_TRIAL;
    if (stops) {
        if (index < (now > 1 ? now : 1))
            *promoted = result.trial;
    } else if (index < now) {
        *promoted = result.trial;
    } else if (now != old) {
        uint32_t other = exp_ranks_at(&rung->ranks, old).trial;
        if (exp_brackets_is_waiting(s, other, r))
            *promoted = other;
    }
    return EBB_OK;
}

/* Once no more results can come to rung 0, close who waits in rungs that nobody is on the way to.
 */
static enum ebb_status close_out(struct exp_search *s, size_t b, struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    struct exp_bracket *bracket = &a->items[b];
    if ((int64_t)bracket->rungs[0].ranks.count < a->shape.brackets[b].max_trials)
        return EBB_OK;
    for (size_t r = 0; r < a->shape.brackets[b].rung_count; r++) {
        struct exp_rung *rung = &bracket->rungs[r];
        if (rung->outstanding > 0)
            break;
        struct exp_rank_walk walk = exp_ranks_from(&rung->ranks, 0);
        struct exp_rank entry;
        while (!rung->is_closed_out && exp_ranks_next(&walk, &entry))
            if (exp_brackets_is_waiting(s, entry.trial, r))
                EBB_TRY(exp_brackets_close(s, entry.trial, err));
        rung->is_closed_out = true; /* until the next result: each rung is walked once */
    }
    return EBB_OK;
}

/* One result in the rung the trial is in; *promoted may then have to be trained further. */
static enum ebb_status take_result(struct exp_search *s, struct exp_rank result, uint32_t *promoted,
                                   struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    size_t b = a->members[result.trial].bracket, r = a->members[result.trial].rung, index;
    struct exp_rung *rung = &a->items[b].rungs[r];
    bool is_top = r + 1 == a->shape.brackets[b].rung_count;
    *promoted = EXP_NO_TRIAL;
    rung->outstanding -= rung->outstanding > 0;
    rung->is_closed_out = false;
    if (is_top)
        EBB_TRY(exp_ranks_insert(&rung->ranks, result, EXP_AFTER_EQUALS, &index, err));
    else
        EBB_TRY(rank(s, rung, r, result, promoted, err));
    if (*promoted == EXP_NO_TRIAL)
        return is_top || s->config->stop_once ? exp_brackets_close(s, result.trial, err) : EBB_OK;
    a->members[*promoted].rung++;
    rung[1].outstanding++;
    return EBB_OK;
}

/* A result, and those that follow at once when an exited trial moves up. */
static enum ebb_status report(struct exp_search *s, uint32_t trial, double metric,
                              struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    size_t b = a->members[trial].bracket;
    const struct exp_bracket_shape *shape = &a->shape.brackets[b];
    struct exp_rank result = {metric, trial};
    uint32_t promoted;
    for (;;) {
        EBB_TRY(take_result(s, result, &promoted, err));
        if (promoted == EXP_NO_TRIAL || !s->trials[promoted].is_exited)
            break;
        result = (struct exp_rank){DBL_MAX, promoted}; /* as if it had run on, with the worst */
    }
    if (promoted != EXP_NO_TRIAL) {
        size_t r = a->members[promoted].rung;
        int64_t more = shape->rungs[r].steps - shape->rungs[r - 1].steps;
        EBB_TRY(exp_search_ask_train(s, promoted,
                                     s->trials[promoted].requested + (more > 1 ? more : 1), err));
    } else if (a->items[b].created < shape->max_trials) {
        EBB_TRY(exp_brackets_add(s, b, err));
    }
    return s->config->stop_once ? EBB_OK : close_out(s, b, err);
}

static double asha_progress(const struct exp_search *s)
{
    const struct exp_brackets *a = exp_brackets_of(s);
    double sum = 0;
    for (size_t b = 0; b < a->shape.count; b++) {
        double trials = (double)a->shape.brackets[b].max_trials;
        double results = (double)a->items[b].rungs[0].ranks.count;
        double done = results / (1.2 * trials); /* a fifth is kept back for the upper rungs */
        double closed = (double)a->items[b].closed / trials;
        sum += results >= trials && closed > done ? closed : done;
    }
    return sum / (double)a->shape.count;
}

const struct exp_search_method exp_method_asha = {
    EXP_BRACKETS_METHOD, .limits_itself = true,     .shape = exp_shape_asynchronous,
    .report = report,    .progress = asha_progress,
};
