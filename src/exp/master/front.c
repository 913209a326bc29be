/* front.c - what a front asks of a master and changes in it: views of objects that live in memory,
 * and the doors through which requests reach the state machines. */
#include <string.h>

#include "exp/master/inner.h"

/* Of its bytes in its store. */
static int64_t uploaded(const struct exp_upload *u)
{
    int64_t bytes = u->job != NULL ? (int64_t)atomic_load(&u->job->watch.bytes) : 0;
    return bytes < u->bytes ? bytes : u->bytes;
}

static void count_uploads(const struct exp_master *m, struct exp_master_info *info)
{
    for (const struct exp_upload *u = m->uploads; u != NULL; u = u->next) {
        if (u->is_done || u->is_unwanted)
            continue;
        info->uploads++;
        info->upload_bytes += u->bytes;
        info->uploaded_bytes += uploaded(u);
        info->upload_error = u->error[0] != '\0' ? u->error : info->upload_error;
    }
    if (info->upload_error == NULL)
        info->upload_error = exp_board_error(m, 0);
}

struct exp_master_info exp_master_info(const struct exp_master *m)
{
    struct exp_master_info info = {.options = &m->options,
                                   .cluster_id = m->cluster_id,
                                   .state_dir = m->state_dir,
                                   .owner = m->owner,
                                   .python = m->python,
                                   .python_path = m->python_path,
                                   .site_defaults = m->site_defaults,
                                   .threads = m->threads,
                                   .can_pin = m->can_pin,
                                   .experiments = m->options.is_reading_only ? m->going_count
                                                                             : m->experiment_count,
                                   .running = m->alloc_count,
                                   .stall = m->is_stalled ? m->stall.message : NULL,
                                   .now_ns = m->now_ns,
                                   .time = m->time,
                                   .last_notice = m->notice_next - 1};
    count_uploads(m, &info);
    return info;
}

size_t exp_master_uploads(const struct exp_master *m, int64_t experiment, int64_t *bytes,
                          const char **error)
{
    size_t count = 0;
    *error = NULL;
    *bytes = 0;
    for (const struct exp_upload *u = m->uploads; u != NULL; u = u->next)
        if (u->experiment_id == experiment && !u->is_done && !u->is_unwanted) {
            count++;
            *bytes += u->bytes - uploaded(u);
            *error = u->error[0] != '\0' ? u->error : *error;
        }
    if (*error == NULL)
        *error = exp_board_error(m, experiment);
    return count;
}

struct exp_db *exp_master_db(struct exp_master *m)
{
    return m->db;
}

enum ebb_status exp_master_flush(struct exp_master *m, struct ebb_error *err)
{
    return exp_rows_flush(m, err);
}

/* ---- experiments ---- */

bool exp_master_find(const struct exp_master *m, int64_t id, enum exp_state *state)
{
    const struct exp_experiment *e = exp_experiment_find(m, id);
    if (e != NULL)
        *state = e->state;
    return e != NULL;
}

enum ebb_status exp_master_begin(struct exp_master *m, int64_t id, bool is_active,
                                 struct ebb_error *err)
{
    struct exp_experiment *e = NULL;
    m->last_experiment = id;
    EBB_TRY(exp_experiment_load(m, id, true, &e, err));
    if (is_active)
        EBB_TRY(exp_experiment_set_state(m, e, EXP_ACTIVE, err));
    exp_notice_experiment(m, e);
    return EBB_OK;
}

int64_t exp_master_next_id(const struct exp_master *m)
{
    return m->last_experiment + 1;
}

enum ebb_status exp_master_set_state(struct exp_master *m, int64_t id, enum exp_state state,
                                     struct ebb_error *err)
{
    return exp_experiment_set_state(m, exp_experiment_find(m, id), state, err);
}

enum ebb_status exp_master_kill(struct exp_master *m, int64_t id, struct ebb_error *err)
{
    return exp_experiment_kill(m, exp_experiment_find(m, id), err);
}

void exp_master_set_share(struct exp_master *m, int64_t id, const double *weight,
                          const int64_t *max_slots)
{
    struct exp_experiment *e = exp_experiment_find(m, id);
    if (e == NULL)
        return;
    if (weight != NULL)
        e->weight = *weight;
    if (max_slots != NULL)
        e->max_slots = *max_slots;
    m->is_schedule_due = true;
    exp_dirty_experiment(m, e);
}

enum ebb_status exp_master_settle(struct exp_master *m, int64_t id, bool is_told,
                                  struct ebb_error *err)
{
    struct exp_experiment *e = exp_experiment_find(m, id);
    if (e == NULL)
        return EBB_OK;
    if (is_told)
        exp_notice_experiment(m, e);
    return exp_experiment_settle(m, e, err);
}

enum ebb_status exp_master_delete(struct exp_master *m, int64_t id, struct ebb_error *err)
{
    return exp_gc_delete(m, id, err);
}

enum ebb_status exp_master_collect(struct exp_master *m, int64_t experiment, struct ebb_error *err)
{
    return exp_gc_collect(m, experiment, err);
}

enum ebb_status exp_master_remove(struct exp_master *m, const char *uuid, const char *location,
                                  struct ebb_error *err)
{
    return exp_gc_remove_checkpoint(m, uuid, location, 0, err);
}

/* ---- trials ---- */

static const char *state_of(const struct exp_trial *r)
{
    const struct exp_sequence *q = &r->sequence;
    if (r->alloc == NULL)
        return exp_task_state_text(EXP_TASK_PENDING);
    bool is_ending = q->is_stop_asked || r->alloc->phase >= EXP_ALLOC_KILLED ||
                     (q->is_busy && q->work.kind == EXP_WORK_TERMINATE);
    return exp_task_state_text(is_ending ? EXP_TASK_TERMINATING : EXP_TASK_RUNNING);
}

/* A start that comes to nothing takes slots for a moment: that is waiting, too. */
static const char *waits_for(const struct exp_trial *r)
{
    if (r->held != NULL && (r->alloc == NULL || r->alloc->proc.pid == 0))
        return r->held;
    return r->alloc == NULL ? exp_sched_wait_text(r->wait) : NULL;
}

static void show(const struct exp_trial *r, struct exp_master_trial *t)
{
    const struct exp_alloc *a = r->alloc;
    *t = (struct exp_master_trial){.id = r->id,
                                   .experiment_id = r->experiment->id,
                                   .hparams = r->hparams,
                                   .seed = r->seed,
                                   .is_over = r->state != EXP_TRIAL_ACTIVE && a == NULL,
                                   .has_process = a != NULL,
                                   .slot = a != NULL ? a->slot : -1,
                                   .pid = a != NULL && a->proc.pid > 0 ? a->proc.pid : 0,
                                   .state = state_of(r),
                                   .is_asking = r->is_asking,
                                   .waiting = waits_for(r),
                                   .is_busy = a != NULL && a->proc.pid != 0 && r->sequence.is_busy,
                                   .work = r->sequence.work.kind,
                                   .work_step = r->sequence.work.step,
                                   .work_time = a != NULL ? a->run_time : 0,
                                   .target_steps = r->sequence.requested,
                                   .loss = r->loss};
    (void)exp_request_format(r->request, t->request);
}

bool exp_master_trial(const struct exp_master *m, int64_t id, struct exp_master_trial *t)
{
    const struct exp_trial *r = exp_trial_find(m, id);
    if (r != NULL)
        show(r, t);
    return r != NULL;
}

bool exp_master_pending(const struct exp_master *m, int64_t experiment, size_t *at,
                        struct exp_master_trial *t)
{
    const struct exp_experiment *e = exp_experiment_find(m, experiment);
    for (; e != NULL && *at < e->trial_count; ++*at) {
        const struct exp_trial *r = e->trials[*at];
        if (r == NULL || r->id != 0)
            continue;
        show(r, t);
        ++*at;
        return true;
    }
    return false;
}

bool exp_master_task(const struct exp_master *m, const void **at, struct exp_master_trial *t)
{
    const struct exp_trial *last = *at, *r = last != NULL ? last->after : m->tasks_first;
    if (r != NULL)
        show(r, t);
    *at = r;
    return r != NULL;
}

void exp_master_kill_trial(struct exp_master *m, int64_t id, const char *why)
{
    const struct exp_trial *r = exp_trial_find(m, id);
    if (r != NULL && r->alloc != NULL)
        exp_alloc_kill(m, r->alloc, "%s", why);
}

/* ---- slots ---- */

bool exp_master_slot(const struct exp_master *m, int64_t slot, int64_t *trial)
{
    *trial = m->slots[slot];
    return !m->slot_disabled[slot];
}

void exp_master_set_slot(struct exp_master *m, int64_t slot, bool is_enabled)
{
    m->slot_disabled[slot] = !is_enabled;
    m->is_schedule_due = true;
}
