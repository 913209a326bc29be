/* rows.c - rows that mirror objects, written once a turn however often they changed. */
#include <math.h>
#include <stdio.h>

#include "base/heap.h"
#include "exp/master/inner.h"

#define WORK_NONE (-1) /* work_kind of a process that does nothing at the moment */

void exp_dirty_experiment(struct exp_master *m, struct exp_experiment *e)
{
    if (e->is_dirty)
        return;
    e->is_dirty = true;
    e->next_dirty = m->dirty_experiments;
    m->dirty_experiments = e;
}

void exp_dirty_trial(struct exp_master *m, struct exp_trial *r)
{
    if (r->is_dirty || r->id == 0) /* a trial without slots has no row */
        return;
    r->is_dirty = true;
    r->next_dirty = m->dirty_trials;
    m->dirty_trials = r;
}

void exp_dirty_alloc(struct exp_master *m, struct exp_alloc *a)
{
    if (a->is_dirty)
        return;
    a->is_dirty = true;
    a->next_dirty = m->dirty_allocs;
    m->dirty_allocs = a;
}

static double value_or_none(bool has_value, double value)
{
    return has_value ? value : (double)NAN;
}

static int64_t number_or_none(bool has_number, int64_t number)
{
    return has_number ? number : EXP_DB_NO_INT;
}

static enum ebb_status write_experiment(struct exp_master *m, const struct exp_experiment *e,
                                        struct ebb_error *err)
{
    bool is_ended = exp_state_is_ended(e->state), has_best = e->best.has_metric;
    bool has_progress = !is_ended && e->search != NULL;
    return exp_db_experiment_write(
        m->db,
        &(struct exp_db_experiment_state){
            .id = e->id,
            .state = exp_state_name(e->state),
            .progress = has_progress ? exp_search_progress(e->search) : (double)NAN,
            .end_time = value_or_none(is_ended, m->time),
            .best_signed = value_or_none(has_best, e->best.metric),
            .best_trial_id = number_or_none(has_best, e->best_trial),
            .best_step_id = number_or_none(has_best, e->best_step),
            .num_trials = e->entered_count,
            .num_ended = e->ended_count,
            .weight = e->weight,
            .max_slots = number_or_none(e->max_slots >= 0, e->max_slots),
            .error = e->error},
        err);
}

static enum ebb_status insert_trial(struct exp_master *m, const struct exp_trial *r,
                                    const char *sequence, struct ebb_error *err)
{
    char request[EXP_REQUEST_TEXT];
    return exp_db_trial_add(
        m->db,
        &(struct exp_db_trial_made){.id = r->id,
                                    .experiment_id = r->experiment->id,
                                    .request_id = exp_request_format(r->request, request),
                                    .state = exp_trial_state_name(r->state),
                                    .start_time = r->start_time,
                                    .hparams = r->hparams,
                                    .seed = r->seed,
                                    .warm_start = r->warm_start,
                                    .sequence = sequence},
        err);
}

/* Starts after failures: the last failure of all is followed by none. */
static int64_t restarts_of(const struct exp_trial *r)
{
    const struct exp_sequence *q = &r->sequence;
    return q->restarts < q->rules.max_restarts ? q->restarts : q->rules.max_restarts;
}

static enum ebb_status write_trial(struct exp_master *m, const struct exp_trial *r,
                                   struct ebb_error *err)
{
    struct ebb_str state = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &state, 0);
    exp_sequence_save(&r->sequence, &w);
    enum ebb_status status = ebb_str_status(&state, err);
    if (status == EBB_OK && r->is_new)
        status = insert_trial(m, r, ebb_str_c(&state), err);
    EBB_THEN(status,
             exp_db_trial_write(m->db,
                                &(struct exp_db_trial_state){
                                    .id = r->id,
                                    .state = exp_trial_state_name(r->state),
                                    .end_time = value_or_none(r->end_time > 0, r->end_time),
                                    .restarts = restarts_of(r),
                                    .steps = r->sequence.current,
                                    .best_signed = value_or_none(r->has_best, r->best_signed),
                                    .best_step_id = number_or_none(r->has_best, r->best_step),
                                    .latest_signed = value_or_none(r->has_latest, r->latest_signed),
                                    .sequence = ebb_str_c(&state),
                                    .message = r->message,
                                    .log_offset = r->log_offset,
                                    .log_bytes = r->log_bytes},
                                err));
    ebb_str_fini(&state);
    return status;
}

enum ebb_status exp_rows_insert_alloc(struct exp_master *m, const struct exp_alloc *a,
                                      struct ebb_error *err)
{
    char slot[24];
    snprintf(slot, sizeof slot, "%lld", (long long)a->slot);
    return exp_db_alloc_add(
        m->db,
        &(struct exp_db_alloc){
            .id = a->id, .trial_id = a->trial->id, .slots = slot, .work_kind = WORK_NONE},
        err);
}

static enum ebb_status write_alloc(struct exp_master *m, const struct exp_alloc *a,
                                   struct ebb_error *err)
{
    const struct exp_sequence *q = &a->trial->sequence;
    return exp_db_alloc_write(
        m->db,
        &(struct exp_db_work){.id = a->id,
                              .last_seq = a->last_seq,
                              .work_kind = q->is_busy ? (int64_t)q->work.kind : WORK_NONE,
                              .work_step = q->work.step,
                              .work_uuid = a->uuid,
                              .pid = a->proc.pid},
        err);
}

/* What an ended trial needs no more. */
static enum ebb_status slim(struct exp_master *m, struct exp_trial *r, struct ebb_error *err)
{
    if (r->state == EXP_TRIAL_ACTIVE || r->alloc != NULL)
        return EBB_OK;
    ebb_free(r->hparams);
    r->hparams = NULL;
    ebb_free(r->sequence.wishes);
    r->sequence.wishes = NULL;
    r->sequence.wish_count = r->sequence.wish_capacity = 0;
    return exp_gc_clear_trial(m, r, err);
}

enum ebb_status exp_rows_flush(struct exp_master *m, struct ebb_error *err)
{
    for (; m->dirty_trials != NULL; m->dirty_trials = m->dirty_trials->next_dirty) {
        struct exp_trial *r = m->dirty_trials;
        EBB_TRY(write_trial(m, r, err));
        r->is_dirty = r->is_new = false;
        EBB_TRY(slim(m, r, err));
    }
    for (; m->dirty_allocs != NULL; m->dirty_allocs = m->dirty_allocs->next_dirty) {
        EBB_TRY(write_alloc(m, m->dirty_allocs, err));
        m->dirty_allocs->is_dirty = false;
    }
    for (; m->dirty_experiments != NULL; m->dirty_experiments = m->dirty_experiments->next_dirty) {
        EBB_TRY(write_experiment(m, m->dirty_experiments, err));
        m->dirty_experiments->is_dirty = false;
    }
    return EBB_OK;
}
