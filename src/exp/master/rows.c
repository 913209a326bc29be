/* rows.c - rows that mirror objects, written once a turn however often they changed. */
#include "base/heap.h"
#include "exp/master/inner.h"

void exp_dirty_experiment(struct exp_master *m, struct exp_experiment *e)
{
    if (e->is_dirty)
        return;
    e->is_dirty = true;
    e->next_dirty = m->dirty_experiments;
    m->dirty_experiments = e;
}

void exp_dirty_run(struct exp_master *m, struct exp_run *r)
{
    if (r->is_dirty || r->id == 0) /* a trial without slots has no row */
        return;
    r->is_dirty = true;
    r->next_dirty = m->dirty_runs;
    m->dirty_runs = r;
}

void exp_dirty_alloc(struct exp_master *m, struct exp_alloc *a)
{
    if (a->is_dirty)
        return;
    a->is_dirty = true;
    a->next_dirty = m->dirty_allocs;
    m->dirty_allocs = a;
}

static struct exp_db_value time_or_null(double t)
{
    return t > 0 ? exp_db_d(t) : exp_db_n();
}

static enum ebb_status write_experiment(struct exp_master *m, const struct exp_experiment *e,
                                        struct ebb_error *err)
{
    bool is_ended = exp_state_is_ended(e->state);
    bool has_progress = !is_ended && e->search != NULL;
    return exp_db_run(
        m->db,
        "UPDATE experiments SET state = $1, progress = $2, end_time = $3, best_signed = $4,"
        " best_trial_id = $5, best_step_id = $6, num_trials = $7, num_ended = $8, weight = $9,"
        " max_slots = $10, error = $11 WHERE id = $12",
        EXP_DB_ARGS(exp_db_t(exp_state_name(e->state)),
                    has_progress ? exp_db_d(exp_search_progress(e->search)) : exp_db_n(),
                    is_ended ? exp_db_d(m->time) : exp_db_n(),
                    e->best.has_metric ? exp_db_d(e->best.metric) : exp_db_n(),
                    e->best.has_metric ? exp_db_i(e->best_trial) : exp_db_n(),
                    e->best.has_metric ? exp_db_i(e->best_step) : exp_db_n(),
                    exp_db_i(e->trial_count), exp_db_i(e->ended_count), exp_db_d(e->weight),
                    e->max_slots >= 0 ? exp_db_i(e->max_slots) : exp_db_n(), exp_db_t(e->error),
                    exp_db_i(e->id)),
        err);
}

static enum ebb_status write_run(struct exp_master *m, struct exp_run *r, struct ebb_error *err)
{
    struct ebb_str state;
    struct ebb_json_writer w;
    char request[EXP_REQUEST_TEXT];
    ebb_str_init(&state);
    ebb_jsonw_init(&w, &state, 0);
    exp_sequence_save(&r->sequence, &w);
    enum ebb_status status = ebb_str_status(&state, err);
    if (status == EBB_OK && r->is_new)
        status = exp_db_run(
            m->db,
            "INSERT INTO trials (id, experiment_id, request_id, state, start_time, hparams, seed,"
            " restarts, steps, warm_start, sequence, log_offset, log_bytes)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, $8, $9, 0, 0)",
            EXP_DB_ARGS(exp_db_i(r->id), exp_db_i(r->experiment->id),
                        exp_db_t(exp_request_format(r->request, request)),
                        exp_db_t(exp_run_state_name(r->state)), exp_db_d(r->start_time),
                        exp_db_t(r->hparams), exp_db_i(r->seed), exp_db_t(r->warm_start),
                        exp_db_tn(state.data, state.length)),
            err);
    if (status == EBB_OK)
        status = exp_db_run(
            m->db,
            "UPDATE trials SET state = $1, end_time = $2, restarts = $3, steps = $4,"
            " best_signed = $5, best_step_id = $6, latest_signed = $7, sequence = $8, message = $9,"
            " log_offset = $10, log_bytes = $11 WHERE id = $12",
            EXP_DB_ARGS(exp_db_t(exp_run_state_name(r->state)), time_or_null(r->end_time),
                        exp_db_i(r->sequence.restarts), exp_db_i(r->sequence.current),
                        r->has_best ? exp_db_d(r->best_signed) : exp_db_n(),
                        r->has_best ? exp_db_i(r->best_step) : exp_db_n(),
                        r->has_latest ? exp_db_d(r->latest_signed) : exp_db_n(),
                        exp_db_tn(state.data, state.length), exp_db_t(r->message),
                        exp_db_i(r->log_offset), exp_db_i(r->log_bytes), exp_db_i(r->id)),
            err);
    ebb_str_fini(&state);
    return status;
}

enum ebb_status exp_rows_insert_alloc(struct exp_master *m, const struct exp_alloc *a,
                                      struct ebb_error *err)
{
    return exp_db_run(m->db,
                      "INSERT INTO allocations (id, trial_id, slots, last_seq, work_kind,"
                      " work_step, work_uuid, pid, pid_start) VALUES ($1, $2, $3, 0, -1, 0, NULL,"
                      " 0, 0)",
                      EXP_DB_ARGS(exp_db_t(a->id), exp_db_i(a->run->id), exp_db_i(a->slot)), err);
}

static enum ebb_status write_alloc(struct exp_master *m, const struct exp_alloc *a,
                                   struct ebb_error *err)
{
    const struct exp_sequence *q = &a->run->sequence;
    return exp_db_run(m->db,
                      "UPDATE allocations SET last_seq = $1, work_kind = $2, work_step = $3,"
                      " work_uuid = $4, pid = $5 WHERE id = $6",
                      EXP_DB_ARGS(exp_db_i(a->last_seq),
                                  exp_db_i(q->is_busy ? (int64_t)q->work.kind : -1),
                                  exp_db_i(q->work.step), exp_db_t(a->uuid), exp_db_i(a->proc.pid),
                                  exp_db_t(a->id)),
                      err);
}

/* What an ended trial needs no more. */
static void slim(struct exp_run *r)
{
    if (r->state == EXP_RUN_ACTIVE || r->alloc != NULL)
        return;
    ebb_free(r->hparams);
    r->hparams = NULL;
    ebb_free(r->sequence.wishes);
    r->sequence.wishes = NULL;
    r->sequence.wish_count = r->sequence.wish_capacity = 0;
}

enum ebb_status exp_rows_flush(struct exp_master *m, struct ebb_error *err)
{
    for (; m->dirty_runs != NULL; m->dirty_runs = m->dirty_runs->next_dirty) {
        struct exp_run *r = m->dirty_runs;
        EBB_TRY(write_run(m, r, err));
        r->is_dirty = r->is_new = false;
        slim(r);
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
