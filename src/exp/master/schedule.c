/* schedule.c - who gets the free slots: the pass of exp/sched over what is in memory. */
#include <string.h>

#include "base/heap.h"
#include "exp/master/inner.h"

struct lists {
    struct exp_sched_group *groups;
    struct exp_sched_task *tasks;
    struct exp_trial **trials; /* by task */
    size_t group_count, task_count;
};

static const struct exp_placement one_slot = {.agent = 0, .slots = 1};

static bool is_ready(const struct exp_master *m, const struct exp_trial *r)
{
    const struct exp_trial *parent =
        r->has_source && r->id == 0 ? r->experiment->trials[r->source] : NULL;
    if (parent != NULL && parent->id > 0 && exp_uploads_wait(m, 0, parent->id))
        return false; /* it starts from what is in the store */
    return r->alloc != NULL || r->not_before_ns <= m->now_ns;
}

static enum exp_task_state state_of(const struct exp_trial *r)
{
    const struct exp_sequence *q = &r->sequence;
    if (r->alloc == NULL)
        return EXP_TASK_PENDING;
    bool is_ending = q->is_stop_asked || r->alloc->phase >= EXP_ALLOC_KILLED ||
                     (q->is_busy && q->work.kind == EXP_WORK_TERMINATE);
    return is_ending ? EXP_TASK_TERMINATING : EXP_TASK_RUNNING;
}

static enum ebb_status build(struct exp_master *m, struct lists *l, struct ebb_error *err)
{
    size_t count = 0;
    for (const struct exp_trial *r = m->tasks_first; r != NULL; r = r->after)
        count++;
    l->groups = ebb_arena_calloc(&m->turn_arena, m->experiment_count + 1, sizeof *l->groups);
    l->tasks = ebb_arena_calloc(&m->turn_arena, count + 1, sizeof *l->tasks);
    l->trials = ebb_arena_calloc(&m->turn_arena, count + 1, sizeof *l->trials);
    if (l->groups == NULL || l->tasks == NULL || l->trials == NULL)
        return ebb_no_memory(err, count * sizeof *l->tasks);
    for (size_t i = 0; i < m->experiment_count; i++) {
        struct exp_experiment *e = m->experiments[i];
        e->group = l->group_count++;
        l->groups[e->group] =
            (struct exp_sched_group){.id = "", .weight = e->weight, .max_slots = e->max_slots};
    }
    for (struct exp_trial *r = m->tasks_first; r != NULL; r = r->after) {
        if (!is_ready(m, r))
            continue;
        l->trials[l->task_count] = r;
        l->tasks[l->task_count++] =
            (struct exp_sched_task){.id = "",
                                    .label = "",
                                    .group = r->experiment->group,
                                    .slots = 1,
                                    .state = state_of(r),
                                    .placements = r->alloc != NULL ? &one_slot : NULL,
                                    .placement_count = r->alloc != NULL ? 1 : 0};
    }
    return EBB_OK;
}

static int64_t free_slot(const struct exp_master *m)
{
    for (int64_t i = 0; i < m->options.slots; i++)
        if (m->slots[i] == 0 && !m->slot_disabled[i])
            return i;
    return -1;
}

/* Trials in slots that were disabled: they end in order and ask again. One that is being started
 * cannot be told yet: exp_alloc_next does. */
static void empty_disabled(struct exp_master *m)
{
    for (size_t i = 0; i < m->alloc_count; i++)
        if (m->slot_disabled[m->allocs[i]->slot])
            exp_trial_stop(m->allocs[i]->trial);
}

enum ebb_status exp_schedule(struct exp_master *m, struct ebb_error *err)
{
    struct lists l = {0};
    struct exp_sched_output output;
    bool is_due = m->is_schedule_due;
    m->is_schedule_due = false;
    if (!is_due || m->tasks_first == NULL || m->options.is_reading_only || m->is_closing)
        return EBB_OK;
    empty_disabled(m);
    int64_t usable = m->options.slots;
    for (int64_t i = 0; i < m->options.slots; i++)
        usable -= m->slot_disabled[i] && m->slots[i] == 0;
    struct exp_sched_agent agent = {.id = "local", .label = "", .slots = usable};
    EBB_TRY(build(m, &l, err));
    struct exp_sched_input input = {.kind = m->options.sched_kind,
                                    .fit = m->options.sched_fit,
                                    .allow_partial_agents = true,
                                    .agents = &agent,
                                    .agent_count = 1,
                                    .groups = l.groups,
                                    .group_count = l.group_count,
                                    .tasks = l.tasks,
                                    .task_count = l.task_count};
    EBB_TRY(exp_sched_pass(&input, &m->turn_arena, &output, err));
    for (size_t t = 0; t < l.task_count; t++) {
        const struct exp_sched_decision *d = &output.decisions[t];
        l.trials[t]->wait = d->wait;
        if (d->action == EXP_SCHED_STOP)
            exp_trial_stop(l.trials[t]);
        int64_t slot = d->action == EXP_SCHED_START ? free_slot(m) : -1;
        if (slot >= 0 && l.trials[t]->alloc == NULL)
            EBB_TRY(exp_trial_start(m, l.trials[t], slot, err));
    }
    /* A share that is used up because every slot is busy is no matter of shares. */
    bool is_busy = free_slot(m) < 0;
    for (size_t t = 0; t < l.task_count; t++) {
        const struct exp_experiment *e = l.trials[t]->experiment;
        bool is_at_limit = e->max_slots >= 0 && (int64_t)e->alloc_count >= e->max_slots;
        if (l.trials[t]->wait == EXP_WAIT_SHARE && is_busy && !is_at_limit)
            l.trials[t]->wait = EXP_WAIT_FIT;
    }
    return EBB_OK;
}
