/* trial.c - one trial: asking for slots, getting its number and its first process. */
#include <stdio.h>

#include "base/heap.h"
#include "exp/master/inner.h"

/* ---- tasks ---- */

void exp_trial_leave_tasks(struct exp_master *m, struct exp_trial *r)
{
    if (!r->is_asking)
        return;
    *(r->before != NULL ? &r->before->after : &m->tasks_first) = r->after;
    *(r->after != NULL ? &r->after->before : &m->tasks_last) = r->before;
    r->before = r->after = NULL;
    r->is_asking = false;
    m->is_schedule_due = true;
}

void exp_trial_update_task(struct exp_master *m, struct exp_trial *r)
{
    bool is_task =
        r->alloc != NULL || (r->state == EXP_TRIAL_ACTIVE && r->experiment->state == EXP_ACTIVE &&
                             exp_sequence_has_work(&r->sequence));
    if (is_task == r->is_asking)
        return;
    if (!is_task) {
        exp_trial_leave_tasks(m, r);
        return;
    }
    r->before = m->tasks_last;
    r->after = NULL;
    *(m->tasks_last != NULL ? &m->tasks_last->after : &m->tasks_first) = r;
    m->tasks_last = r;
    r->is_asking = true;
    r->wait = EXP_WAIT_NONE;
    m->is_schedule_due = true;
}

struct exp_trial *exp_trial_find(const struct exp_master *m, int64_t id)
{
    uint64_t pointer;
    return ebb_map_get(&m->trials, (uint64_t)id, &pointer) ? (struct exp_trial *)(uintptr_t)pointer
                                                           : NULL;
}

void exp_trial_stop(struct exp_trial *r)
{
    if (r->alloc == NULL || r->sequence.is_stop_asked)
        return;
    exp_sequence_stop(&r->sequence);
    exp_talk_simple(r->alloc, "PREEMPT");
}

void exp_trial_free(struct exp_master *m, struct exp_trial *r)
{
    if (r->alloc != NULL)
        exp_alloc_free(m, r->alloc);
    exp_trial_leave_tasks(m, r);
    if (r->id > 0)
        ebb_map_remove(&m->trials, (uint64_t)r->id);
    exp_sequence_fini(&r->sequence);
    ebb_free(r->hparams);
    ebb_free(r->warm_start);
    ebb_free(r->held);
    ebb_free(r->message);
    ebb_free(r);
}

/* The checkpoint a clone starts from: its parent's of that step, else the newest (S3, 19.6). */
static enum ebb_status find_source(struct exp_master *m, struct exp_trial *r, struct ebb_error *err)
{
    struct exp_db_name source = {0};
    const struct exp_trial *parent = r->experiment->trials[r->source];
    if (parent == NULL)
        return EBB_OK;
    struct exp_db_step_id at = {parent->id, r->source_step};
    EBB_TRY(exp_db_only(exp_db_checkpoint_near(m->db, &at, &source, err), &m->turn_arena, NULL));
    return exp_text_set(&r->warm_start, source.name, err);
}

/* It gets slots for the first time: a number, a row. */
static enum ebb_status enter(struct exp_master *m, struct exp_trial *r, struct ebb_error *err)
{
    struct exp_experiment *e = r->experiment;
    if (r->has_source)
        EBB_TRY(find_source(m, r, err));
    else
        EBB_TRY(exp_text_set(&r->warm_start, e->warm_start, err));
    EBB_TRY(ebb_map_put(&m->trials, (uint64_t)(m->last_trial + 1), (uint64_t)(uintptr_t)r, err));
    r->id = ++m->last_trial;
    r->start_time = m->time;
    r->is_new = true;
    e->entered_count++;
    exp_dirty_trial(m, r);
    exp_dirty_experiment(m, e);
    return exp_experiment_feed(
        m, e,
        &(struct exp_event){.kind = EXP_EVENT_CREATED, .request = r->request, .trial_id = r->id},
        err);
}

/* Its values are those of a trial that called them invalid: nothing new would be learned. */
static enum ebb_status refuse(struct exp_master *m, struct exp_trial *r,
                              const struct exp_trial *known, struct ebb_error *err)
{
    char text[128];
    snprintf(text, sizeof text, "not started: it has the values of trial %lld, which are invalid",
             (long long)known->id);
    EBB_TRY(exp_text_set(&r->message, text, err));
    r->state = EXP_TRIAL_ERROR;
    r->end_time = m->time;
    r->experiment->ended_count++;
    exp_dirty_trial(m, r);
    exp_notice_trial(m, r);
    exp_trial_update_task(m, r);
    return exp_experiment_feed(m, r->experiment,
                               &(struct exp_event){.kind = EXP_EVENT_EXITED,
                                                   .request = r->request,
                                                   .reason = EXP_EXIT_INVALID_HP},
                               err);
}

enum ebb_status exp_trial_start(struct exp_master *m, struct exp_trial *r, int64_t slot,
                                struct ebb_error *err)
{
    const struct exp_experiment *e = r->experiment;
    uint32_t known;
    bool is_first = r->id == 0;
    if (is_first)
        EBB_TRY(enter(m, r, err));
    if (e->state != EXP_ACTIVE) /* what it caused may have ended the experiment */
        return EBB_OK;
    if (is_first && exp_search_refused_by(e->search, r->index, &known))
        return refuse(m, r, e->trials[known], err);
    struct exp_alloc *a;
    EBB_TRY(ebb_new(&a, 1, sizeof *a, err));
    *a = (struct exp_alloc){.trial = r, .slot = slot, .proc.fd = -1};
    enum ebb_status status = exp_uuid_make(a->id, err);
    EBB_THEN(status, exp_alloc_add(m, a, err));
    if (status != EBB_OK) {
        ebb_free(a);
        return status;
    }
    exp_sequence_start(&r->sequence);
    exp_dirty_trial(m, r);
    exp_notice_trial(m, r);
    return exp_rows_insert_alloc(m, a, err);
}
