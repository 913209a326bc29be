/* alloc.c - an allocation: a process of a trial, from the decision to start it until it is gone.
 * inner.h draws its phases. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/heap.h"
#include "base/log.h"
#include "exp/master/inner.h"

#define EXIT_LOST 75                  /* a trial that found no master for 60 s says so */
#define EXIT_NS 60000000000ull        /* from TERMINATE to the end of the process */
#define START_AGAIN_NS 1000000000u    /* after a start that failed for want of room */
#define FULL_AGAIN_NS 5000000000ull   /* after there was no room, for a checkpoint or to start */
#define FULL_BYTES 65536u             /* less than this is no room */
#define STORE_AGAIN_NS 30000000000ull /* for want of an answer of its store */
#define READ_AGAIN_NS 5000000000ull   /* for want of an answer of a disk */

/* ---- phases ---- */

void exp_alloc_go(struct exp_alloc *a, enum exp_alloc_phase phase)
{
    static const unsigned allowed[] = {
        [EXP_ALLOC_DECIDED] = 1u << EXP_ALLOC_PREPARING | 1u << EXP_ALLOC_PREPARED,
        [EXP_ALLOC_PREPARING] = 1u << EXP_ALLOC_PREPARED | 1u << EXP_ALLOC_KILLED,
        [EXP_ALLOC_PREPARED] = 1u << EXP_ALLOC_STARTED,
        [EXP_ALLOC_STARTED] = 1u << EXP_ALLOC_TALKING | 1u << EXP_ALLOC_KILLED,
        [EXP_ALLOC_ADOPTED] = 1u << EXP_ALLOC_TALKING | 1u << EXP_ALLOC_KILLED,
        [EXP_ALLOC_TALKING] = 1u << EXP_ALLOC_TALKING | 1u << EXP_ALLOC_KILLED,
        [EXP_ALLOC_KILLED] = 1u << EXP_ALLOC_KILLED,
        [EXP_ALLOC_GONE] = 0,
    };
    assert(phase == EXP_ALLOC_GONE ? a->phase != EXP_ALLOC_GONE
                                   : (allowed[a->phase] >> phase & 1u) != 0);
    a->phase = phase;
}

void exp_alloc_gone(struct exp_alloc *a, int status)
{
    exp_alloc_go(a, EXP_ALLOC_GONE);
    a->status = status;
}

bool exp_alloc_is_start_due(const struct exp_alloc *a)
{
    return a->phase == EXP_ALLOC_DECIDED || a->phase == EXP_ALLOC_PREPARED;
}

enum ebb_status exp_alloc_add(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&m->allocs, &m->alloc_capacity, m->alloc_count + 1, sizeof *m->allocs, err));
    m->allocs[m->alloc_count++] = a;
    a->trial->alloc = a;
    a->trial->experiment->alloc_count++;
    if (m->slots[a->slot] == 0) /* an adopted one may find none */
        m->slots[a->slot] = a->trial->id;
    return EBB_OK;
}

struct exp_alloc *exp_alloc_find(const struct exp_master *m, const char *id)
{
    for (size_t i = 0; i < m->alloc_count; i++)
        if (strcmp(m->allocs[i]->id, id) == 0)
            return m->allocs[i];
    return NULL;
}

void exp_alloc_free(struct exp_master *m, struct exp_alloc *a)
{
    if (a->conn != NULL) {
        a->conn->alloc = NULL;
        a->conn->wire.is_dead = true;
    }
    if (a->proc.fd >= 0) {
        epoll_ctl(m->epoll_fd, EPOLL_CTL_DEL, a->proc.fd, NULL);
        exp_proc_close(&a->proc);
    }
    for (size_t i = 0; i < m->alloc_count; i++)
        if (m->allocs[i] == a)
            m->allocs[i] = m->allocs[--m->alloc_count];
    for (struct exp_alloc **at = &m->dirty_allocs; *at != NULL; at = &(*at)->next_dirty)
        if (*at == a) {
            *at = a->next_dirty;
            break;
        }
    a->trial->alloc = NULL;
    a->trial->experiment->alloc_count--;
    if (m->slots[a->slot] == a->trial->id)
        m->slots[a->slot] = 0;
    ebb_free(a->from.path);
    ebb_free(a);
}

void exp_alloc_kill(struct exp_master *m, struct exp_alloc *a, const char *fmt, ...)
{
    va_list args;
    if (a->reason[0] == '\0') {
        va_start(args, fmt);
        vsnprintf(a->reason, sizeof a->reason, fmt, args);
        va_end(args);
    }
    a->is_kill_due = true;
    m->wants_turn = true;
}

void exp_alloc_excuse(struct exp_master *m, struct exp_alloc *a, const char *why)
{
    a->fault = EXP_FAULT_EXCUSED;
    exp_alloc_kill(m, a, "%s", why);
}

void exp_alloc_kill_now(struct exp_master *m, struct exp_alloc *a)
{
    if (!a->is_kill_due)
        return;
    a->is_kill_due = false;
    if (a->proc.pid > 0) {
        if (a->fault != EXP_FAULT_EXCUSED)
            a->fault = EXP_FAULT_KILLED;
        exp_proc_kill_group(a->proc.pid);
        exp_proc_kill(a->proc.pid);
    }
    if (a->phase == EXP_ALLOC_PREPARING)
        exp_jobs_leave(m->remote, a->id); /* a store may take long to fail */
    if (exp_alloc_is_start_due(a)) {
        exp_alloc_gone(a, -1);
        m->wants_turn = true;
    } else if (a->phase != EXP_ALLOC_GONE) {
        exp_alloc_go(a, EXP_ALLOC_KILLED);
    }
}

/* What goes wrong is the next turn's event. */
void exp_alloc_launch(struct exp_master *m, struct exp_alloc *a)
{
    struct ebb_error err;
    enum ebb_status status = a->phase == EXP_ALLOC_PREPARED ? exp_launch_spawn(m, a, &err)
                                                            : exp_launch_prepare(m, a, &err);
    if (status == EBB_OK)
        return;
    snprintf(a->reason, sizeof a->reason, "%.*s", (int)sizeof a->reason - 1, err.message);
    if (status == EBB_EINPUT) /* otherwise no process came to be: nothing is counted */
        a->fault = EXP_FAULT_FAILED;
    exp_alloc_gone(a, -1);
    m->wants_turn = true;
}

enum ebb_status exp_alloc_next(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err)
{
    struct exp_trial *r = a->trial;
    if (m->slot_disabled[a->slot])
        exp_trial_stop(r);
    a->is_held = exp_sequence_peek(&r->sequence).kind == EXP_WORK_CHECKPOINT &&
                 exp_uploads_are_full(m, r) && !r->sequence.is_stop_asked;
    if (a->is_held)
        return EBB_OK; /* exp_uploads_turn comes back */
    struct exp_workload work = exp_sequence_next(&r->sequence);
    a->uuid[0] = '\0';
    if (work.kind == EXP_WORK_CHECKPOINT) {
        EBB_TRY(exp_uuid_make(a->uuid, err));
        EBB_TRY(exp_db_checkpoint_add(
            m->db,
            &(struct exp_db_checkpoint_made){.id = ++m->last_checkpoint,
                                             .uuid = a->uuid,
                                             .experiment_id = r->experiment->id,
                                             .trial_id = r->id,
                                             .step_id = work.step,
                                             .state = "ACTIVE",
                                             .start_time = m->time,
                                             .storage = r->experiment->location},
            err));
    }
    if (work.kind == EXP_WORK_TERMINATE) {
        a->exit_ns = m->now_ns + EXIT_NS;
        m->is_schedule_due = true;
    }
    a->beat_ns = m->now_ns + (uint64_t)m->options.heartbeat_ms * 1000000u;
    a->run_time = m->time;
    exp_dirty_alloc(m, a);
    exp_talk_run(a);
    return EBB_OK;
}

/* ---- jobs ---- */

/* Sealed: it is in its store, or on its way there. The trial and its search go on either way. */
static enum ebb_status published(struct exp_master *m, struct exp_alloc *a, struct exp_job *job,
                                 struct ebb_error *err)
{
    struct exp_trial *r = a->trial;
    struct exp_workload work = r->sequence.work;
    bool is_there = !exp_store_is_remote(r->experiment->store);
    EBB_TRY(exp_db_checkpoint_write(
        m->db,
        &(struct exp_db_checkpoint_done){.uuid = job->uuid,
                                         .state = is_there ? "COMPLETED" : "ACTIVE",
                                         .start_time = a->done_start,
                                         .end_time = a->done_end,
                                         .resources = ebb_str_c(&job->resources),
                                         .size = job->size},
        err));
    EBB_TRY(exp_sequence_complete(&r->sequence, &work, false, err));
    memcpy(r->experiment->code_uuid, a->uuid, sizeof a->uuid);
    a->last_seq = job->seq;
    a->uuid[0] = '\0';
    exp_dirty_alloc(m, a);
    exp_dirty_trial(m, r);
    exp_talk_ack(a, job->seq);
    if (is_there) {
        exp_notice_work(m, r, "checkpoint", work.step, job->uuid, NULL, false);
    } else {
        struct exp_upload upload = {.experiment_id = r->experiment->id,
                                    .trial_id = r->id,
                                    .step = work.step,
                                    .bytes = job->size};
        memcpy(upload.uuid, job->uuid, sizeof upload.uuid);
        EBB_TRY(exp_upload_add(m, &upload, r->experiment->location, err));
    }
    struct exp_event event = {
        .kind = EXP_EVENT_CHECKPOINTED, .request = r->request, .step = work.step};
    EBB_TRY(exp_experiment_feed(m, r->experiment, &event, err));
    if (a->phase != EXP_ALLOC_GONE && a->conn != NULL)
        EBB_TRY(exp_alloc_next(m, a, err));
    return EBB_OK;
}

/* What the cache holds can be fetched again. */
static void wait_for_room(struct exp_master *m, struct exp_trial *r)
{
    r->not_before_ns = m->now_ns + FULL_AGAIN_NS;
    m->is_trim_due = m->is_room_short = m->wants_turn = true;
}

/* Nobody's fault, and no word about the checkpoint: memory, room, a disk or a store come back. */
static bool is_passing(const struct exp_job *job)
{
    return job->status == EBB_EFULL || job->status == EBB_ENOMEM || job->status == EBB_EIO ||
           (job->is_remote && job->status == EBB_ECANCELED);
}

/* Until the next try; 0: as usual. */
static uint64_t rest_ns(const struct exp_job *job)
{
    if (job->status == EBB_EFULL)
        return FULL_AGAIN_NS;
    if (job->is_remote)
        return STORE_AGAIN_NS;
    return job->status == EBB_EIO ? READ_AGAIN_NS : 0;
}

/* What it needs is not there. What passes is waited for; an own checkpoint that is damaged, or gone
 * before it was in its store, leaves the one before it. */
static enum ebb_status not_prepared(struct exp_master *m, struct exp_alloc *a,
                                    const struct exp_job *job, struct ebb_error *err)
{
    snprintf(a->reason, sizeof a->reason, "%.*s", (int)sizeof a->reason - 1, job->err.message);
    if (is_passing(job)) {
        a->again_ns = rest_ns(job);
        if (job->status == EBB_EFULL)
            wait_for_room(m, a->trial);
    } else if (job->uuid != NULL && !a->from.is_warm && job->status == EBB_ECORRUPT) {
        a->trial->sequence.is_running = false; /* it was about to begin */
        EBB_TRY(exp_upload_lost(m, a->trial, job->uuid, err));
    } else if (a->fault == EXP_FAULT_NONE && job->uuid != NULL && job->status == EBB_ECORRUPT) {
        a->fault = EXP_FAULT_VAIN; /* all that it starts from, and nobody writes it again */
    } else if (a->fault == EXP_FAULT_NONE && (job->uuid != NULL || job->status == EBB_EINPUT)) {
        a->fault = EXP_FAULT_FAILED;
    }
    return EBB_OK;
}

enum ebb_status exp_alloc_job_done(struct exp_master *m, struct exp_alloc *a, struct exp_job *job,
                                   struct ebb_error *err)
{
    if (job->kind == EXP_JOB_PREPARE) {
        m->is_trim_due |= job->is_remote;
        if (job->status == EBB_OK && a->phase == EXP_ALLOC_PREPARING) {
            exp_alloc_go(a, EXP_ALLOC_PREPARED);
            return exp_text_set(&a->trial->held, NULL, err);
        }
        if (job->status != EBB_OK)
            EBB_TRY(not_prepared(m, a, job, err));
        exp_alloc_gone(a, -1);
        return EBB_OK;
    }
    a->is_publishing = false;
    if (job->status == EBB_OK)
        return published(m, a, job, err);
    if (job->status == EBB_EFULL) { /* not its fault: once more from the checkpoint before */
        char why[256];
        snprintf(why, sizeof why, "checkpoint at step %lld: %.200s",
                 (long long)a->trial->sequence.work.step, job->err.message);
        wait_for_room(m, a->trial);
        exp_alloc_excuse(m, a, why);
        return exp_log_add(m, a->trial, "WARNING", why, err);
    }
    exp_alloc_kill(m, a, "checkpoint at step %lld: %s", (long long)a->trial->sequence.work.step,
                   job->err.message);
    return EBB_OK;
}

/* ---- no room ---- */

bool exp_master_is_full(const char *directory)
{
    struct statvfs about;
    return statvfs(directory, &about) == 0 &&
           ((uint64_t)about.f_bavail * about.f_frsize < FULL_BYTES ||
            (about.f_files > 0 && about.f_favail == 0));
}

/* Where it could not write, if that is why it failed: it said so, or there is no room now. */
static bool is_out_of_room(const struct exp_master *m, const struct exp_alloc *a, char *place,
                           size_t size)
{
    struct ebb_str path = {0};
    exp_store_staging_path(a->trial->experiment->stage, "x", &path);
    const char *file = ebb_str_c(&path), *slash = strrchr(file, '/');
    snprintf(place, size, "%.*s", slash != NULL ? (int)(slash - file) : 0, file);
    ebb_str_fini(&path);
    bool has_said =
        strstr(a->reason, strerror(ENOSPC)) != NULL || strstr(a->reason, strerror(EDQUOT)) != NULL;
    if (exp_master_is_full(place) || has_said)
        return true;
    snprintf(place, size, "%s", m->state_dir);
    return exp_master_is_full(place);
}

/* A trial that cannot bear a full disk is started again from its last checkpoint, and nothing is
 * counted. */
static enum ebb_status excuse_full(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err)
{
    struct exp_trial *r = a->trial;
    char place[4096], text[512];
    bool has_failed = a->fault == EXP_FAULT_FAILED || (a->fault == EXP_FAULT_NONE && a->status > 0);
    if (!has_failed || a->proc.pid == 0 || r->state != EXP_TRIAL_ACTIVE ||
        !is_out_of_room(m, a, place, sizeof place))
        return EBB_OK;
    a->fault = EXP_FAULT_EXCUSED;
    wait_for_room(m, r);
    snprintf(text, sizeof text,
             "ebb: trial %lld: no room left on the disk (%.200s): waiting for room; this counts as "
             "no restart",
             (long long)r->id, place);
    ebb_log(m->options.log, EBB_LOG_WARN, "%s", text);
    return exp_log_add(m, r, "WARNING", text, err);
}

/* ---- the end of a process ---- */

static bool never_started(const struct exp_alloc *a)
{
    return a->proc.pid == 0 && a->fault != EXP_FAULT_FAILED && a->fault != EXP_FAULT_VAIN;
}

static enum exp_sequence_end classify(const struct exp_alloc *a, const struct exp_sequence *q)
{
    bool was_told = q->is_busy && q->work.kind == EXP_WORK_TERMINATE;
    if (a->fault == EXP_FAULT_VAIN)
        return EXP_END_VAIN;
    bool is_accused = a->fault != EXP_FAULT_NONE || a->is_kill_due || a->proc.pid == 0;
    if (never_started(a) || a->fault == EXP_FAULT_EXCUSED)
        return EXP_END_LOST;
    if (a->status < 0 && was_told && a->fault != EXP_FAULT_KILLED)
        return EXP_END_CLEAN; /* an adopted one did what it was told */
    bool is_lost = a->has_spoken && a->conn == NULL;
    bool is_unknown =
        a->status < 0 || (is_lost && WIFEXITED(a->status) && WEXITSTATUS(a->status) == EXIT_LOST);
    /* It ended while nobody heard: a master was gone, or could not write. */
    is_unknown |= a->is_adopted && a->status != 0;
    if (!is_accused && is_unknown)
        return EXP_END_LOST;
    return a->status == 0 && a->fault == EXP_FAULT_NONE ? EXP_END_CLEAN : EXP_END_FAULT;
}

enum ebb_status exp_trial_roll_back(struct exp_master *m, struct exp_trial *r,
                                    struct ebb_error *err)
{
    struct exp_db_step_id last = {r->id, r->sequence.current};
    EBB_TRY(exp_db_steps_forget(m->db, &last, err));
    EBB_TRY(exp_db_batches_forget(m->db, &last, err));
    EBB_TRY(exp_db_curve_forget(m->db, r->experiment->id, &last, err));
    return exp_db_validations_forget(m->db, &last, err);
}

static enum ebb_status explain(struct exp_master *m, struct exp_alloc *a,
                               enum exp_sequence_exit how, struct ebb_error *err)
{
    struct exp_trial *r = a->trial;
    struct ebb_str text = {0};
    bool is_counted = how == EXP_SEQUENCE_FAILED || how == EXP_SEQUENCE_ROLLED_BACK;
    if (!is_counted)
        return EBB_OK;
    if (a->proc.pid == 0)
        ebb_str_printf(&text, "could not start: %s", a->reason);
    else if (a->reason[0] != '\0')
        ebb_str_printf(&text, "%s", a->reason);
    else
        exp_proc_describe(a->status, &text);
    if (a->proc.pid != 0 && a->reason[0] == '\0' && a->status == 0)
        ebb_str_add(&text, " before it was told to end");
    if (a->reason[0] == '\0' && m->options.slot_memory_bytes > 0) {
        char limit[32];
        ebb_str_printf(&text, " (its memory is limited to %s)",
                       ebb_format_bytes(m->options.slot_memory_bytes, limit, sizeof limit));
    }
    enum ebb_status status = ebb_str_status(&text, err);
    EBB_THEN(status, exp_text_set(&r->message, ebb_str_c(&text), err));
    ebb_str_clear(&text);
    ebb_str_printf(&text, "ebb: trial %lld: %s; ", (long long)r->id,
                   r->message != NULL ? r->message : "");
    if (a->fault == EXP_FAULT_VAIN)
        ebb_str_printf(&text, "no restart can go better");
    else if (r->sequence.restarts > r->sequence.rules.max_restarts)
        ebb_str_printf(&text, "no restart is left (max_restarts: %lld)",
                       (long long)r->sequence.rules.max_restarts);
    else
        ebb_str_printf(&text, "restart %lld of %lld", (long long)r->sequence.restarts,
                       (long long)r->sequence.rules.max_restarts);
    EBB_THEN(status, exp_log_add(m, r, "ERROR", ebb_str_c(&text), err));
    ebb_log(m->options.log, EBB_LOG_WARN, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
    return status;
}

/* Restarts are used up: the trial is over (8.3, 19.6). */
static enum ebb_status give_up(struct exp_master *m, struct exp_trial *r, struct ebb_error *err)
{
    struct exp_experiment *e = r->experiment;
    char text[768];
    r->state = EXP_TRIAL_ERROR;
    r->end_time = m->time;
    e->ended_count++;
    exp_dirty_trial(m, r);
    exp_notice_trial(m, r);
    if (e->config.trial_failure == EXP_FAILURE_FAIL_EXPERIMENT) {
        int64_t most = r->sequence.rules.max_restarts, restarts = r->sequence.restarts;
        snprintf(text, sizeof text, "trial %lld failed after %lld restarts: %.600s",
                 (long long)r->id, (long long)(restarts > most ? most : restarts),
                 r->message != NULL ? r->message : "");
        EBB_TRY(exp_text_set(&e->error, text, err));
    }
    return exp_experiment_feed(m, e,
                               &(struct exp_event){.kind = EXP_EVENT_EXITED,
                                                   .request = r->request,
                                                   .reason = EXP_EXIT_ERRORED},
                               err);
}

/* What it was doing when it failed for the last time: kept as ERROR (8.3). */
static enum ebb_status keep_failed(struct exp_master *m, const struct exp_trial *r,
                                   const struct exp_workload *work, double start,
                                   struct ebb_error *err)
{
    struct exp_db_step step = {.trial_id = r->id,
                               .id = work->step,
                               .state = "ERROR",
                               .start_time = start > 0 ? start : (double)NAN,
                               .end_time = m->time};
    if (work->kind == EXP_WORK_TRAIN)
        return exp_db_step_add(m->db, &step, err);
    if (work->kind == EXP_WORK_VALIDATE)
        return exp_db_validation_add(m->db,
                                     &(struct exp_db_validation){.trial_id = r->id,
                                                                 .step_id = work->step,
                                                                 .state = step.state,
                                                                 .start_time = step.start_time,
                                                                 .end_time = step.end_time,
                                                                 .signed_metric = (double)NAN},
                                     err);
    return EBB_OK;
}

/* A start came to nothing, and the next may not: why is said once, and shown as long as it is so. */
static enum ebb_status hold_up(struct exp_master *m, struct exp_trial *r, const char *why,
                               struct ebb_error *err)
{
    if (r->held != NULL && strcmp(r->held, why) == 0)
        return EBB_OK;
    EBB_TRY(exp_text_set(&r->held, why, err));
    return exp_log_add(m, r, "WARNING", why, err);
}

enum ebb_status exp_alloc_end(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err)
{
    struct exp_trial *r = a->trial;
    struct exp_experiment *e = r->experiment;
    if (a->is_publishing)
        return EBB_OK; /* comes back when that is over (M7) */
    EBB_TRY(exp_log_tail(m, r, true, err));
    EBB_TRY(excuse_full(m, a, err));
    enum exp_sequence_exit how = EXP_SEQUENCE_ENDED;
    bool is_unstarted = never_started(a);
    int64_t restarts = r->sequence.restarts;
    bool was_busy = r->sequence.is_busy;
    struct exp_workload work = r->sequence.work;
    double run_time = a->run_time;
    if (r->state == EXP_TRIAL_ACTIVE) {
        how = exp_sequence_exit(&r->sequence, classify(a, &r->sequence));
        if (r->sequence.restarts != restarts || a->fault == EXP_FAULT_VAIN)
            EBB_TRY(explain(m, a, how, err));
        else if (is_unstarted && a->reason[0] != '\0')
            EBB_TRY(hold_up(m, r, a->reason, err));
    }
    if (a->proc.pid != 0)
        exp_proc_kill_group(a->proc.pid); /* what it left behind */
    if (a->uuid[0] != '\0')
        EBB_TRY(exp_gc_discard(m, a->uuid, err));
    EBB_TRY(exp_db_alloc_delete(m->db, EXP_DB_NAME(a->id), err));
    if (is_unstarted)
        r->not_before_ns = m->now_ns + (a->again_ns > 0 ? a->again_ns : START_AGAIN_NS);
    exp_alloc_free(m, a);
    exp_trial_leave_tasks(m, r);
    m->sweep_ns = m->now_ns;
    exp_dirty_trial(m, r);
    if (how == EXP_SEQUENCE_ROLLED_BACK)
        EBB_TRY(exp_trial_roll_back(m, r, err));
    if (how == EXP_SEQUENCE_FAILED && was_busy)
        EBB_TRY(keep_failed(m, r, &work, run_time, err));
    if (how == EXP_SEQUENCE_FAILED)
        EBB_TRY(give_up(m, r, err));
    else
        exp_notice_trial(m, r);
    exp_trial_update_task(m, r);
    exp_experiment_check(e, r);
    return EBB_OK;
}

/* ---- deadlines ---- */

static void check_one(struct exp_master *m, struct exp_alloc *a)
{
    const struct exp_sequence *q = &a->trial->sequence;
    long long seconds = (long long)(m->options.heartbeat_ms / 1000);
    if (a->phase < EXP_ALLOC_STARTED || a->phase > EXP_ALLOC_TALKING || a->is_kill_due ||
        a->is_publishing)
        return;
    if (a->exit_ns != 0 && m->now_ns > a->exit_ns)
        exp_alloc_kill(m, a, "did not end within 60 s of being told to");
    else if (a->conn == NULL && a->hello_ns != 0 && m->now_ns > a->hello_ns) {
        if (a->phase == EXP_ALLOC_ADOPTED)
            a->fault = EXP_FAULT_EXCUSED;
        exp_alloc_kill(m, a,
                       a->has_spoken ? "lost its connection and did not come back"
                                     : "did not connect to EBB_SOCKET within %lld s",
                       seconds);
    } else if (a->conn != NULL && q->is_busy && q->work.kind != EXP_WORK_TERMINATE &&
               a->beat_ns != 0 && m->now_ns > a->beat_ns)
        exp_alloc_kill(m, a, "gave no sign of life for %lld s during %s of step %lld", seconds,
                       exp_workload_name(q->work.kind), (long long)q->work.step);
}

/* Who was stopped for long (Ctrl-Z, a paused machine) has heard nothing meanwhile, and has no right
 * to call others silent: that time does not count. */
static void forgive_pause(struct exp_master *m)
{
    uint64_t gap = m->now_ns - m->checked_ns;
    m->checked_ns = m->now_ns;
    if (gap <= (uint64_t)m->options.heartbeat_ms * 1000000u / 4)
        return;
    for (size_t i = 0; i < m->alloc_count; i++) {
        struct exp_alloc *a = m->allocs[i];
        a->hello_ns += a->hello_ns != 0 ? gap : 0;
        a->beat_ns += a->beat_ns != 0 ? gap : 0;
        a->exit_ns += a->exit_ns != 0 ? gap : 0;
    }
}

void exp_allocs_check(struct exp_master *m)
{
    forgive_pause(m);
    for (size_t i = 0; i < m->alloc_count; i++)
        check_one(m, m->allocs[i]);
}
