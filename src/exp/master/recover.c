/* recover.c - from rows to objects: after a start, a crash, or a failed turn (M2).
 *
 * Every experiment that has not ended is rebuilt: its search from the seed and the stored events,
 * its trials from their rows. Processes that an earlier master left are found by the allocation in
 * their environment and get some time to come back; the others are gone, and their trials go on
 * from the last checkpoint. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/heap.h"
#include "base/log.h"
#include "exp/master/inner.h"

/* ---- forgetting ---- */

static void keep(struct exp_master *m, struct exp_alloc *a)
{
    if (a->proc.fd < 0 && a->proc.pid == 0)
        return;
    if (ebb_grow(&m->kept, &m->kept_capacity, m->kept_count + 1, sizeof *m->kept, NULL) != EBB_OK)
        return; /* found again by its environment */
    struct exp_kept *k = &m->kept[m->kept_count++];
    *k = (struct exp_kept){
        .proc = a->proc, .status = a->status, .is_gone = a->phase == EXP_ALLOC_GONE};
    memcpy(k->id, a->id, sizeof k->id);
    a->proc = (struct exp_proc){.fd = -1};
}

void exp_forget(struct exp_master *m)
{
    while (m->held_jobs != NULL) {
        struct exp_job *job = m->held_jobs;
        m->held_jobs = job->next;
        exp_job_destroy(job);
    }
    m->held_last = NULL;
    m->dirty_allocs = NULL;
    m->dirty_trials = NULL;
    m->dirty_experiments = NULL;
    for (size_t i = 0; i < m->alloc_count; i++)
        keep(m, m->allocs[i]);
    while (m->experiment_count > 0)
        exp_experiment_free(m, m->experiments[m->experiment_count - 1]);
    exp_uploads_forget(m);
    exp_boards_forget(m);
    m->deletion_count = 0;
    m->removals = 0;
    m->tasks_first = m->tasks_last = NULL;
    for (int64_t i = 0; m->slots != NULL && i < m->options.slots; i++)
        m->slots[i] = 0;
}

/* ---- trials ---- */

static struct exp_trial *find_trial(struct exp_experiment *e, const char *request)
{
    struct exp_request_id id;
    uint32_t index;
    if (request == NULL || !exp_request_parse(request, strlen(request), &id) || e->search == NULL ||
        !exp_search_find(e->search, id, &index) || index >= e->trial_count)
        return NULL;
    return e->trials[index];
}

static enum exp_trial_state parse_trial_state(const char *name)
{
    for (int i = EXP_TRIAL_ACTIVE; name != NULL && i <= EXP_TRIAL_ERROR; i++)
        if (strcmp(exp_trial_state_name((enum exp_trial_state)i), name) == 0)
            return (enum exp_trial_state)i;
    return EXP_TRIAL_ERROR;
}

static enum ebb_status load_sequence(struct exp_master *m, struct exp_trial *r, const char *text,
                                     struct ebb_error *err)
{
    const struct ebb_doc_node *node = NULL;
    struct exp_sequence_rules rules = r->sequence.rules;
    struct exp_sequence loaded;
    EBB_TRY(ebb_doc_parse_json(&m->turn_arena, "trial", text, strlen(text), &node, err));
    EBB_TRY(exp_sequence_load(&loaded, &rules, node, err));
    exp_sequence_fini(&r->sequence);
    r->sequence = loaded;
    return EBB_OK;
}

static enum ebb_status load_trial(struct exp_master *m, struct exp_trial *r,
                                  const struct exp_db_trial *row, struct ebb_error *err)
{
    r->id = row->id;
    r->state = parse_trial_state(row->state);
    r->start_time = row->start_time;
    r->end_time = isnan(row->end_time) ? 0 : row->end_time;
    r->has_best = !isnan(row->best_signed);
    r->best_signed = row->best_signed;
    r->best_step = row->best_step_id;
    r->has_latest = !isnan(row->latest_signed);
    r->latest_signed = row->latest_signed;
    EBB_TRY(exp_text_set(&r->warm_start, row->warm_start, err));
    EBB_TRY(exp_text_set(&r->message, row->message, err));
    r->log_offset = row->log_offset;
    r->log_bytes = row->log_bytes;
    EBB_TRY(ebb_map_put(&m->trials, (uint64_t)r->id, (uint64_t)(uintptr_t)r, err));
    EBB_TRY(load_sequence(m, r, row->sequence, err));
    if (r->state != EXP_TRIAL_ACTIVE)
        return EBB_OK;
    struct exp_db_id last;
    EBB_TRY(exp_db_only(exp_db_last_log(m->db, EXP_DB_ID(r->id), &last, err), NULL, NULL));
    r->log_next = last.id + 1;
    return EBB_OK;
}

static enum ebb_status load_trials(struct exp_master *m, struct exp_experiment *e,
                                   struct ebb_error *err)
{
    struct exp_db_trial row;
    struct exp_db_cursor trials = exp_db_trials(m->db, EXP_DB_ID(e->id), &row, err);
    while (exp_db_fetch(&trials)) {
        struct exp_trial *r = find_trial(e, row.request_id);
        if (r != NULL)
            trials.status = load_trial(m, r, &row, err);
    }
    return exp_db_end(&trials);
}

/* ---- experiments ---- */

static enum ebb_status set_aside(struct exp_master *m, int64_t id, const char *why,
                                 struct ebb_error *err)
{
    ebb_log(m->options.log, EBB_LOG_ERROR, "experiment %lld cannot be resumed: %s", (long long)id,
            why);
    EBB_TRY(exp_db_trials_set_aside(m->db, EXP_DB_ID(id), err));
    return exp_db_experiment_set_aside(
        m->db, &(struct exp_db_failure){.id = id, .error = why, .end_time = m->time}, err);
}

static enum ebb_status load_experiment(struct exp_master *m, int64_t id, struct ebb_error *err)
{
    struct exp_experiment *e = NULL;
    struct ebb_error why;
    enum ebb_status status = exp_experiment_load(m, id, false, &e, &why);
    EBB_THEN(status, load_trials(m, e, &why));
    if (status == EBB_OK)
        return EBB_OK;
    if (status == EBB_EIO || status == EBB_ENOMEM) {
        *err = why;
        return status;
    }
    if (e != NULL)
        exp_experiment_free(m, e);
    return set_aside(m, id, why.message, err);
}

/* Who only reads has most answers in rows: an experiment is told its events again when it is needed
 * (exp_master_need), which takes long beside a million trials. */
static enum ebb_status load_experiments(struct exp_master *m, struct ebb_error *err)
{
    struct exp_db_id *going = NULL;
    struct ebb_arena arena = {0};
    m->going_count = 0;
    enum ebb_status status = exp_db_all(exp_db_experiments_going(m->db, NULL, NULL, err), &arena,
                                        &going, &m->going_count);
    for (size_t i = 0; status == EBB_OK && i < m->going_count && !m->options.is_reading_only; i++)
        status = load_experiment(m, going[i].id, err);
    ebb_arena_fini(&arena);
    return status;
}

enum ebb_status exp_master_need(struct exp_master *m, int64_t id, struct ebb_error *err)
{
    struct exp_db_experiment row;
    enum exp_state state;
    bool is_there;
    if (!m->options.is_reading_only || exp_experiment_find(m, id) != NULL)
        return EBB_OK;
    EBB_TRY(exp_db_only(exp_db_experiment_read(m->db, EXP_DB_ID(id), &row, err), &m->turn_arena,
                        &is_there));
    if (!is_there || !exp_state_parse(row.state, &state) || exp_state_is_ended(state))
        return EBB_OK;
    return load_experiment(m, id, err);
}

/* ---- processes ---- */

struct processes {
    struct exp_proc_found *found;
    size_t count;
};

/* The process of an allocation: kept from before, or found; false: there is none. */
static bool take_process(struct exp_master *m, const struct processes *p, struct exp_alloc *a)
{
    for (size_t i = 0; i < m->kept_count; i++)
        if (strcmp(m->kept[i].id, a->id) == 0) {
            a->proc = m->kept[i].proc;
            if (m->kept[i].is_gone)
                exp_alloc_gone(a, m->kept[i].status);
            m->kept[i] = m->kept[--m->kept_count];
            return true;
        }
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->found[i].allocation, a->id) != 0 || !p->found[i].is_leader)
            continue;
        if (exp_proc_adopt(p->found[i].pid, &a->proc, NULL) != EBB_OK)
            return false;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = a->proc.fd};
        return epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, a->proc.fd, &event) == 0;
    }
    return false;
}

static void kill_found(const struct processes *p, const char *allocation)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->found[i].allocation, allocation) == 0) {
            exp_proc_kill_group(p->found[i].is_leader ? p->found[i].pid : 0);
            exp_proc_kill(p->found[i].pid);
        }
}

/* The sequence as it was, not rolled back: the process may still be there. */
static enum ebb_status restore(struct exp_master *m, struct exp_alloc *a,
                               const struct exp_db_alloc_kept *row, struct ebb_error *err)
{
    struct exp_sequence *q = &a->trial->sequence;
    const struct ebb_doc_node *node = NULL;
    EBB_TRY(ebb_doc_parse_json(&m->turn_arena, "trial", row->sequence, strlen(row->sequence), &node,
                               err));
    exp_sequence_unroll(q, node);
    q->is_busy = row->work_kind >= 0;
    if (q->is_busy)
        q->work = (struct exp_workload){(enum exp_workload_kind)row->work_kind, row->work_step};
    snprintf(a->uuid, sizeof a->uuid, "%s", row->work_uuid != NULL ? row->work_uuid : "");
    a->last_seq = row->last_seq;
    return EBB_OK;
}

static enum ebb_status load_alloc(struct exp_master *m, const struct exp_db_alloc_kept *row,
                                  const struct processes *p, struct ebb_error *err)
{
    int64_t slot = -1;
    struct exp_trial *r = exp_trial_find(m, row->trial_id);
    if (r == NULL || r->alloc != NULL || strlen(row->id) != 36) {
        kill_found(p, row->id);
        return exp_db_alloc_delete(m->db, EXP_DB_NAME(row->id), err);
    }
    struct exp_alloc *a;
    EBB_TRY(ebb_new(&a, 1, sizeof *a, err));
    *a = (struct exp_alloc){.trial = r,
                            .phase = EXP_ALLOC_ADOPTED,
                            .proc.fd = -1,
                            .has_spoken = true,
                            .is_adopted = true};
    memcpy(a->id, row->id, 37);
    (void)ebb_parse_i64(row->slots, &slot);
    for (int64_t i = 0;
         i < m->options.slots && (slot < 0 || slot >= m->options.slots || m->slots[slot] != 0); i++)
        slot = i; /* the number of slots has changed: any free one */
    bool has_slot = slot >= 0 && slot < m->options.slots && m->slots[slot] == 0;
    a->slot = has_slot ? slot : 0;
    enum ebb_status status = exp_alloc_add(m, a, err);
    if (status != EBB_OK) {
        ebb_free(a);
        return status;
    }
    EBB_TRY(restore(m, a, row, err));
    bool is_there = take_process(m, p, a);
    if (!is_there || !has_slot || r->state != EXP_TRIAL_ACTIVE)
        kill_found(p, row->id);
    if (!is_there) {
        a->proc.pid = -1; /* there was one, or may have been: nobody knows how it ended */
        exp_alloc_gone(a, -1);
    } else if (!has_slot || r->state != EXP_TRIAL_ACTIVE) {
        a->fault = EXP_FAULT_EXCUSED;
    }
    a->hello_ns = m->now_ns + (uint64_t)m->options.adopt_ms * 1000000u;
    return EBB_OK;
}

static enum ebb_status load_allocs(struct exp_master *m, const struct processes *p,
                                   struct ebb_error *err)
{
    struct exp_db_alloc_kept row;
    struct exp_db_cursor allocs = exp_db_allocs(m->db, NULL, &row, err);
    while (exp_db_fetch(&allocs))
        allocs.status = load_alloc(m, &row, p, err);
    return exp_db_end(&allocs);
}

static enum ebb_status recover_processes(struct exp_master *m, struct ebb_error *err)
{
    struct processes p = {0};
    struct exp_proc_scan scan = {.state_dir = m->state_dir};
    EBB_TRY(exp_proc_scan(&scan, &p.found, &p.count, err));
    enum ebb_status status = load_allocs(m, &p, err);
    for (size_t i = 0; status == EBB_OK && i < p.count; i++)
        if (exp_alloc_find(m, p.found[i].allocation) == NULL)
            kill_found(&p, p.found[i].allocation); /* left over from something that has ended */
    for (size_t i = 0; status == EBB_OK && i < m->alloc_count; i++)
        if (m->allocs[i]->phase == EXP_ALLOC_GONE)
            kill_found(&p, m->allocs[i]->id); /* the leader is gone, others may not be */
    for (size_t i = 0; status == EBB_OK && i < m->kept_count; i++) {
        exp_proc_kill_group(m->kept[i].proc.pid);
        exp_proc_reap(&m->kept[i].proc);
        exp_proc_close(&m->kept[i].proc);
    }
    if (status == EBB_OK)
        m->kept_count = 0;
    ebb_free(p.found);
    return status;
}

/* ---- all ---- */

/* Numbers are never given twice, also when their last owners are gone. */
static enum ebb_status read_number(struct exp_master *m, struct exp_db_cursor newest,
                                   const struct exp_db_id *row, const char *key, int64_t *last,
                                   struct ebb_error *err)
{
    struct exp_db_name kept = {0};
    int64_t number = 0;
    EBB_TRY(exp_db_only(newest, NULL, NULL));
    EBB_TRY(
        exp_db_only(exp_db_meta_read(m->db, EXP_DB_NAME(key), &kept, err), &m->turn_arena, NULL));
    *last = row->id;
    if (kept.name != NULL && ebb_parse_i64(kept.name, &number) && number > *last)
        *last = number;
    return EBB_OK;
}

static enum ebb_status read_numbers(struct exp_master *m, struct ebb_error *err)
{
    struct exp_db_id row;
    EBB_TRY(read_number(m, exp_db_last_experiment(m->db, NULL, &row, err), &row, "last_experiment",
                        &m->last_experiment, err));
    EBB_TRY(read_number(m, exp_db_last_trial(m->db, NULL, &row, err), &row, "last_trial",
                        &m->last_trial, err));
    EBB_TRY(exp_db_only(exp_db_last_checkpoint(m->db, NULL, &row, err), NULL, NULL));
    m->last_checkpoint = row.id;
    return EBB_OK;
}

enum ebb_status exp_recover(struct exp_master *m, struct ebb_error *err)
{
    EBB_TRY(read_numbers(m, err));
    EBB_TRY(load_experiments(m, err));
    if (m->options.is_reading_only)
        return exp_uploads_recover(m, err);
    EBB_TRY(recover_processes(m, err));
    for (size_t i = 0; i < m->experiment_count; i++) {
        struct exp_experiment *e = m->experiments[i];
        for (size_t k = 0; k < e->trial_count; k++) {
            struct exp_trial *r = e->trials[k];
            if (r == NULL)
                continue;
            if (e->state != EXP_ACTIVE)
                exp_trial_stop(r);
            exp_trial_update_task(m, r);
            exp_experiment_check(e, r);
        }
    }
    EBB_TRY(exp_uploads_recover(m, err));
    EBB_TRY(exp_boards_recover(m, err));
    EBB_TRY(exp_gc_resume(m, err));
    m->is_schedule_due = m->wants_turn = true;
    return EBB_OK;
}
