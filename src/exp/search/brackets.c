/* brackets.c - see brackets.h. */
#include "exp/search/brackets.h"

#include <float.h>

#include "base/heap.h"

enum ebb_status exp_brackets_init(struct exp_search *s, struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    struct exp_shape shape;
    EBB_TRY(exp_search_shape(s->config, &s->arena, &shape, err));
    if (shape.count > UINT16_MAX || shape.brackets[0].rung_count > UINT16_MAX)
        return ebb_fail(err, EBB_ELIMIT, "searcher: more than %d brackets or rungs", UINT16_MAX);
    EBB_TRY(ebb_new(&a->items, shape.count, sizeof *a->items, err));
    a->shape = shape;
    for (size_t b = 0; b < shape.count; b++) {
        a->items[b].rungs = ebb_calloc(shape.brackets[b].rung_count, sizeof *a->items[b].rungs);
        if (a->items[b].rungs == NULL)
            return ebb_no_memory(err, shape.brackets[b].rung_count * sizeof *a->items[b].rungs);
    }
    return EBB_OK;
}

void exp_brackets_fini(struct exp_search *s)
{
    struct exp_brackets *a = exp_brackets_of(s);
    for (size_t b = 0; a->items != NULL && b < a->shape.count; b++) {
        for (size_t r = 0; a->items[b].rungs != NULL && r < a->shape.brackets[b].rung_count; r++)
            exp_ranks_fini(&a->items[b].rungs[r].ranks);
        ebb_free(a->items[b].rungs);
    }
    ebb_free(a->items);
    ebb_free(a->members);
}

enum ebb_status exp_brackets_add(struct exp_search *s, size_t bracket, struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    uint32_t trial;
    EBB_TRY(exp_search_ask_sampled(s, a->shape.brackets[bracket].rungs[0].steps, &trial, err));
    EBB_TRY(ebb_grow(&a->members, &a->member_capacity, (size_t)trial + 1, sizeof *a->members, err));
    a->members[trial] = (struct exp_member){.bracket = (uint16_t)bracket};
    a->items[bracket].created++;
    a->items[bracket].rungs[0].outstanding++;
    return EBB_OK;
}

enum ebb_status exp_brackets_start(struct exp_search *s, struct ebb_error *err)
{
    const struct exp_shape *shape = &exp_brackets_of(s)->shape;
    for (size_t b = 0; b < shape->count; b++)
        for (int64_t i = 0; i < shape->brackets[b].initial_trials; i++)
            EBB_TRY(exp_brackets_add(s, b, err));
    return EBB_OK;
}

bool exp_brackets_is_waiting(const struct exp_search *s, uint32_t trial, size_t r)
{
    return exp_brackets_of(s)->members[trial].rung == r && !s->trials[trial].is_close_asked;
}

enum ebb_status exp_brackets_close(struct exp_search *s, uint32_t trial, struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    if (s->trials[trial].is_close_asked || s->trials[trial].is_closed)
        return EBB_OK; /* an exited trial was counted when it exited */
    a->items[a->members[trial].bracket].closed++;
    return exp_search_ask_close(s, trial, err);
}

static enum ebb_status replace(struct exp_search *s, uint32_t trial, bool has_work,
                               struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    struct exp_member member = a->members[trial];
    struct exp_bracket *bracket = &a->items[member.bracket];
    struct exp_rung *rung = &bracket->rungs[member.rung];
    rung->outstanding -= has_work && rung->outstanding > 0;
    for (size_t r = 0; r <= member.rung; r++)
        exp_ranks_remove(&bracket->rungs[r].ranks, trial);
    s->trials[trial].is_replaced = true;
    bracket->created--;
    return exp_brackets_add(s, member.bracket, err);
}

enum ebb_status exp_brackets_validated(struct exp_search *s, uint32_t trial, int64_t step,
                                       double metric, struct ebb_error *err)
{
    (void)step;
    return s->method->report(s, trial, metric, err);
}

enum ebb_status exp_brackets_exited(struct exp_search *s, uint32_t trial,
                                    enum exp_exit_reason reason, bool has_work,
                                    struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    if (s->trials[trial].is_close_asked)
        return EBB_OK; /* its result stands */
    if (reason == EXP_EXIT_INVALID_HP)
        return replace(s, trial, has_work, err);
    a->items[a->members[trial].bracket].closed++;
    return has_work ? s->method->report(s, trial, DBL_MAX, err) : EBB_OK;
}

void exp_brackets_worked(struct exp_search *s, uint32_t trial, int64_t workloads)
{
    struct exp_brackets *a = exp_brackets_of(s);
    a->items[a->members[trial].bracket].workloads += (uint64_t)workloads;
}

size_t exp_brackets_bracket(const struct exp_search *s, uint32_t trial)
{
    return exp_brackets_of(s)->members[trial].bracket;
}
