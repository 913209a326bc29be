/* brackets.c - see brackets.h.
 *
 * Saved form: brackets: [{created, closed, workloads, rungs: [{outstanding, results: [metric,
 * trial, ...]}]}], members: [bracket, rung, bracket, rung, ...] by trial. */
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
    a->items = ebb_calloc(shape.count, sizeof *a->items);
    if (a->items == NULL)
        return ebb_no_memory(err, shape.count * sizeof *a->items);
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

enum ebb_status exp_brackets_exited(struct exp_search *s, uint32_t trial,
                                    enum exp_exit_reason reason, bool has_work,
                                    exp_brackets_report *report, struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    if (s->trials[trial].is_close_asked)
        return EBB_OK; /* its result stands */
    if (reason == EXP_EXIT_INVALID_HP)
        return replace(s, trial, has_work, err);
    a->items[a->members[trial].bracket].closed++;
    return has_work ? report(s, trial, DBL_MAX, err) : EBB_OK;
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

/* ---- saved form ---- */

static void save_bracket(const struct exp_bracket *bracket, size_t rung_count,
                         struct ebb_json_writer *w)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key(w, "workloads");
    ebb_jsonw_uint(w, bracket->workloads);
    ebb_jsonw_key(w, "rungs");
    ebb_jsonw_array(w);
    for (size_t r = 0; r < rung_count; r++)
        exp_save_ranks(&bracket->rungs[r].ranks, w);
    ebb_jsonw_array_end(w);
    ebb_jsonw_object_end(w);
}

void exp_brackets_save(const struct exp_search *s, struct ebb_json_writer *w)
{
    const struct exp_brackets *a = exp_brackets_of(s);
    ebb_jsonw_key(w, "brackets");
    ebb_jsonw_array(w);
    for (size_t b = 0; b < a->shape.count; b++)
        save_bracket(&a->items[b], a->shape.brackets[b].rung_count, w);
    ebb_jsonw_array_end(w);
    ebb_jsonw_key(w, "members");
    ebb_jsonw_array(w);
    for (size_t t = 0; t < s->trial_count; t++) {
        ebb_jsonw_int(w, a->members[t].bracket);
        ebb_jsonw_int(w, a->members[t].rung);
    }
    ebb_jsonw_array_end(w);
}

static enum ebb_status load_members(struct exp_search *s, const struct ebb_doc_node *node,
                                    struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    const struct ebb_doc_node *list = NULL;
    EBB_TRY(exp_load_list(node, "members", &list, err));
    if (list->count != 2 * s->trial_count)
        return ebb_fail(err, EBB_EINPUT,
                        "members: %zu numbers, expected two for each of %zu trials", list->count,
                        s->trial_count);
    EBB_TRY(
        ebb_grow(&a->members, &a->member_capacity, s->trial_count + 1, sizeof *a->members, err));
    for (size_t t = 0; t < s->trial_count; t++) {
        int64_t bracket = 0, rung = 0;
        EBB_TRY(exp_load_int(list->items[2 * t], "members: bracket", 0, (int64_t)a->shape.count - 1,
                             &bracket, err));
        EBB_TRY(exp_load_int(list->items[2 * t + 1], "members: rung", 0,
                             (int64_t)a->shape.brackets[bracket].rung_count - 1, &rung, err));
        a->members[t] = (struct exp_member){(uint16_t)bracket, (uint16_t)rung};
    }
    return EBB_OK;
}

static enum ebb_status load_rung(struct exp_search *s, size_t b, size_t r,
                                 const struct ebb_doc_node *node, struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    struct exp_ranks *ranks = &a->items[b].rungs[r].ranks;
    EBB_TRY(exp_load_ranks(s, node, ranks, err));
    struct exp_rank_walk walk = exp_ranks_from(ranks, 0);
    struct exp_rank entry;
    while (exp_ranks_next(&walk, &entry))
        if (a->members[entry.trial].bracket != b || a->members[entry.trial].rung < r)
            return ebb_fail(err, EBB_EINPUT, "results: trial %u does not belong there",
                            entry.trial);
    return EBB_OK;
}

static enum ebb_status load_bracket(struct exp_search *s, size_t b, const struct ebb_doc_node *node,
                                    struct ebb_error *err)
{
    struct exp_brackets *a = exp_brackets_of(s);
    const struct ebb_doc_node *rungs = NULL;
    int64_t workloads = 0;
    EBB_TRY(exp_load_member(node, "workloads", 0, INT64_MAX, &workloads, err));
    a->items[b].workloads = (uint64_t)workloads;
    EBB_TRY(exp_load_list(node, "rungs", &rungs, err));
    if (rungs->count != a->shape.brackets[b].rung_count)
        return ebb_fail(err, EBB_EINPUT, "rungs: %zu, expected %zu", rungs->count,
                        a->shape.brackets[b].rung_count);
    for (size_t r = 0; r < rungs->count; r++) {
        enum ebb_status status = load_rung(s, b, r, rungs->items[r], err);
        if (status != EBB_OK)
            return ebb_context(err, status, "rungs[%zu]", r);
    }
    return EBB_OK;
}

/* What a running search counts as it goes. */
static void count_members(struct exp_search *s)
{
    struct exp_brackets *a = exp_brackets_of(s);
    for (size_t t = 0; t < s->trial_count; t++) {
        const struct exp_trial *trial = &s->trials[t];
        struct exp_bracket *bracket = &a->items[a->members[t].bracket];
        bracket->rungs[a->members[t].rung].outstanding += trial->wanted != EXP_NO_TRIAL;
        bracket->created += !trial->is_replaced;
        bracket->closed += !trial->is_replaced && (trial->is_close_asked || trial->is_exited);
    }
}

enum ebb_status exp_brackets_load(struct exp_state_reader *reader, const struct ebb_doc_node *node,
                                  struct ebb_error *err)
{
    struct exp_search *s = reader->search;
    const struct ebb_doc_node *brackets = NULL;
    EBB_TRY(load_members(s, node, err));
    EBB_TRY(exp_load_list(node, "brackets", &brackets, err));
    if (brackets->count != exp_brackets_of(s)->shape.count)
        return ebb_fail(err, EBB_EINPUT, "brackets: %zu, expected %zu", brackets->count,
                        exp_brackets_of(s)->shape.count);
    for (size_t b = 0; b < brackets->count; b++) {
        enum ebb_status status = load_bracket(s, b, brackets->items[b], err);
        if (status != EBB_OK)
            return ebb_context(err, status, "brackets[%zu]", b);
    }
    count_members(s);
    return EBB_OK;
}
