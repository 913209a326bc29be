/* trial.c - one trial: asking for slots, being given work, the end of its process. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/heap.h"
#include "base/log.h"
#include "exp/master/inner.h"

#define EXIT_LOST 75               /* a trial that found no master for 60 s says so */
#define EXIT_NS 60000000000ull     /* from TERMINATE to the end of the process */
#define FAILED_NS 10000000000ull   /* from FAILED to the end of the process */
#define START_AGAIN_NS 1000000000u /* after a start that failed for want of room */

void exp_job_later(struct exp_master *m, struct exp_job *job)
{
    job->next = NULL;
    if (m->held_last != NULL)
        m->held_last->next = job;
    else
        m->held_jobs = job;
    m->held_last = job;
}

/* ---- tasks ---- */

static void leave_tasks(struct exp_master *m, struct exp_run *r)
{
    if (!r->is_asking)
        return;
    *(r->before != NULL ? &r->before->after : &m->tasks_first) = r->after;
    *(r->after != NULL ? &r->after->before : &m->tasks_last) = r->before;
    r->before = r->after = NULL;
    r->is_asking = false;
    m->is_schedule_due = true;
}

void exp_run_update_task(struct exp_master *m, struct exp_run *r)
{
    bool is_task =
        r->alloc != NULL || (r->state == EXP_RUN_ACTIVE && r->experiment->state == EXP_ACTIVE &&
                             exp_sequence_has_work(&r->sequence));
    if (is_task == r->is_asking)
        return;
    if (!is_task) {
        leave_tasks(m, r);
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

void exp_run_stop(struct exp_run *r)
{
    if (r->alloc == NULL || r->sequence.is_stop_asked)
        return;
    exp_sequence_stop(&r->sequence);
    exp_talk_simple(r->alloc, "PREEMPT");
}

/* ---- allocations ---- */

enum ebb_status exp_alloc_add(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&m->allocs, &m->alloc_capacity, m->alloc_count + 1, sizeof *m->allocs, err));
    m->allocs[m->alloc_count++] = a;
    a->run->alloc = a;
    a->run->experiment->alloc_count++;
    m->slots[a->slot] = a->run->id;
    return EBB_OK;
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
    a->run->alloc = NULL;
    a->run->experiment->alloc_count--;
    m->slots[a->slot] = 0;
    ebb_free(a->from.path);
    ebb_free(a);
}

void exp_run_free(struct exp_master *m, struct exp_run *r)
{
    if (r->alloc != NULL)
        exp_alloc_free(m, r->alloc);
    leave_tasks(m, r);
    if (r->id > 0)
        ebb_map_remove(&m->trials, (uint64_t)r->id);
    exp_sequence_fini(&r->sequence);
    ebb_free(r->hparams);
    ebb_free(r->warm_start);
    ebb_free(r->message);
    ebb_free(r);
}

/* The checkpoint a clone starts from: its parent's of that step, else the newest (S3, 19.6). */
static enum ebb_status find_source(struct exp_master *m, struct exp_run *r, struct ebb_error *err)
{
    struct exp_db_name source = {0};
    const struct exp_run *parent = r->experiment->runs[r->source];
    if (parent == NULL)
        return EBB_OK;
    struct exp_db_step_id at = {parent->id, r->source_step};
    EBB_TRY(exp_db_only(exp_db_checkpoint_near(m->db, &at, &source, err), &m->turn_arena, NULL));
    return exp_text_set(&r->warm_start, source.name, err);
}

/* It gets slots for the first time: a number, a row. */
static enum ebb_status enter(struct exp_master *m, struct exp_run *r, struct ebb_error *err)
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
    e->trial_count++;
    exp_dirty_run(m, r);
    exp_dirty_experiment(m, e);
    return exp_experiment_feed(
        m, e,
        &(struct exp_event){.kind = EXP_EVENT_CREATED, .request = r->request, .trial_id = r->id},
        err);
}

enum ebb_status exp_run_start(struct exp_master *m, struct exp_run *r, int64_t slot,
                              struct ebb_error *err)
{
    if (r->id == 0)
        EBB_TRY(enter(m, r, err));
    if (r->experiment->state != EXP_ACTIVE) /* what it caused may have ended the experiment */
        return EBB_OK;
    struct exp_alloc *a = ebb_calloc(1, sizeof *a);
    if (a == NULL)
        return ebb_no_memory(err, sizeof *a);
    *a = (struct exp_alloc){.run = r, .slot = slot, .proc.fd = -1, .is_to_start = true};
    enum ebb_status status = exp_uuid_make(a->id, err);
    if (status == EBB_OK)
        status = exp_alloc_add(m, a, err);
    if (status != EBB_OK) {
        ebb_free(a);
        return status;
    }
    exp_sequence_start(&r->sequence);
    exp_dirty_run(m, r);
    exp_notice_trial(m, r);
    return exp_rows_insert_alloc(m, a, err);
}

void exp_alloc_kill(struct exp_master *m, struct exp_alloc *a, const char *fmt, ...)
{
    va_list args;
    if (a->reason[0] == '\0') {
        va_start(args, fmt);
        vsnprintf(a->reason, sizeof a->reason, fmt, args);
        va_end(args);
    }
    a->is_to_kill = true;
    m->wants_turn = true;
}

/* After the commit. What goes wrong is the next turn's event. */
void exp_alloc_launch(struct exp_master *m, struct exp_alloc *a)
{
    struct ebb_error err;
    a->is_to_start = false;
    enum ebb_status status =
        a->is_prepared ? exp_launch_spawn(m, a, &err) : exp_launch_prepare(m, a, &err);
    if (status == EBB_OK)
        return;
    snprintf(a->reason, sizeof a->reason, "%.*s", (int)sizeof a->reason - 1, err.message);
    a->is_failed = status == EBB_EINPUT; /* otherwise no process came to be: nothing is counted */
    a->is_gone = m->wants_turn = true;
    a->status = -1;
}

enum ebb_status exp_alloc_next(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err)
{
    struct exp_run *r = a->run;
    if (m->slot_disabled[a->slot])
        exp_run_stop(r);
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

static enum ebb_status published(struct exp_master *m, struct exp_alloc *a, struct exp_job *job,
                                 struct ebb_error *err)
{
    struct exp_run *r = a->run;
    struct exp_workload work = r->sequence.work;
    EBB_TRY(exp_db_checkpoint_write(
        m->db,
        &(struct exp_db_checkpoint_done){.uuid = job->uuid,
                                         .state = "COMPLETED",
                                         .start_time = a->done_start,
                                         .end_time = a->done_end,
                                         .resources = ebb_str_c(&job->resources),
                                         .size = job->size},
        err));
    EBB_TRY(exp_sequence_complete(&r->sequence, &work, false, err));
    a->last_seq = job->seq;
    a->uuid[0] = '\0';
    exp_dirty_alloc(m, a);
    exp_dirty_run(m, r);
    exp_talk_ack(a, job->seq);
    exp_notice_work(m, r, "checkpoint", work.step, job->uuid, NULL, false);
    struct exp_event event = {
        .kind = EXP_EVENT_CHECKPOINTED, .request = r->request, .step = work.step};
    EBB_TRY(exp_experiment_feed(m, r->experiment, &event, err));
    if (!a->is_gone && a->conn != NULL)
        EBB_TRY(exp_alloc_next(m, a, err));
    return EBB_OK;
}

enum ebb_status exp_alloc_job_done(struct exp_master *m, struct exp_alloc *a, struct exp_job *job,
                                   struct ebb_error *err)
{
    if (job->kind == EXP_JOB_PREPARE) {
        a->is_preparing = false;
        a->is_prepared = true;
        if (job->status == EBB_OK && !a->is_killed) {
            a->is_to_start = true;
            return EBB_OK;
        }
        if (job->status != EBB_OK) {
            snprintf(a->reason, sizeof a->reason, "%.*s", (int)sizeof a->reason - 1,
                     job->err.message);
            a->is_failed = job->uuid != NULL || job->status == EBB_EINPUT;
        }
        a->is_gone = true;
        a->status = -1;
        return EBB_OK;
    }
    a->is_publishing = false;
    if (job->status == EBB_OK)
        return published(m, a, job, err);
    exp_alloc_kill(m, a, "checkpoint at step %lld: %s", (long long)a->run->sequence.work.step,
                   job->err.message);
    return EBB_OK;
}

/* ---- the end of a process ---- */

/* The process is lost through no fault of its own: as a failure, but nothing is counted. */
static enum exp_sequence_exit lose(struct exp_sequence *q)
{
    int64_t restarts = q->restarts, limit = q->rules.max_restarts;
    q->rules.max_restarts = INT64_MAX;
    enum exp_sequence_exit how = exp_sequence_exit(q, false);
    q->rules.max_restarts = limit;
    q->restarts = restarts;
    return how;
}

static enum exp_sequence_exit classify(const struct exp_alloc *a, struct exp_sequence *q)
{
    bool was_told = q->is_busy && q->work.kind == EXP_WORK_TERMINATE;
    bool is_own = a->proc.pid != 0 && (a->is_failed || a->is_to_kill || a->is_killed);
    if ((a->proc.pid == 0 && !a->is_failed) || a->is_excused)
        return lose(q); /* never started, or not its fault */
    if (a->status < 0 && was_told && !a->is_killed)
        return exp_sequence_exit(q, true); /* an adopted one did what it was told */
    if (!is_own && a->proc.pid != 0 &&
        (a->status < 0 ||
         (a->is_lost && WIFEXITED(a->status) && WEXITSTATUS(a->status) == EXIT_LOST)))
        return lose(q);
    return exp_sequence_exit(q, a->status == 0 && !a->is_failed && !a->is_killed);
}

static enum ebb_status roll_back(struct exp_master *m, struct exp_run *r, struct ebb_error *err)
{
    struct exp_db_step_id last = {r->id, r->sequence.current};
    EBB_TRY(exp_db_steps_forget(m->db, &last, err));
    return exp_db_validations_forget(m->db, &last, err);
}

static enum ebb_status explain(struct exp_master *m, struct exp_alloc *a,
                               enum exp_sequence_exit how, struct ebb_error *err)
{
    struct exp_run *r = a->run;
    struct ebb_str text;
    bool is_counted = how == EXP_SEQUENCE_FAILED || how == EXP_SEQUENCE_ROLLED_BACK;
    if (!is_counted)
        return EBB_OK;
    ebb_str_init(&text);
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
    if (status == EBB_OK)
        status = exp_text_set(&r->message, ebb_str_c(&text), err);
    ebb_str_clear(&text);
    ebb_str_printf(&text, "ebb: trial %lld: %s; ", (long long)r->id,
                   r->message != NULL ? r->message : "");
    if (r->sequence.restarts > r->sequence.rules.max_restarts)
        ebb_str_printf(&text, "no restart is left (max_restarts: %lld)",
                       (long long)r->sequence.rules.max_restarts);
    else
        ebb_str_printf(&text, "restart %lld of %lld", (long long)r->sequence.restarts,
                       (long long)r->sequence.rules.max_restarts);
    if (status == EBB_OK)
        status = exp_log_add(m, r, "ERROR", ebb_str_c(&text), err);
    ebb_log(m->options.log, EBB_LOG_WARN, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
    return status;
}

/* Restarts are used up: the trial is over (8.3, 19.6). */
static enum ebb_status give_up(struct exp_master *m, struct exp_run *r, struct ebb_error *err)
{
    struct exp_experiment *e = r->experiment;
    char text[768];
    r->state = EXP_RUN_ERROR;
    r->end_time = m->time;
    e->ended_count++;
    exp_dirty_run(m, r);
    exp_notice_trial(m, r);
    if (e->config.trial_failure == EXP_FAILURE_FAIL_EXPERIMENT) {
        snprintf(text, sizeof text, "trial %lld failed after %lld restarts: %.600s",
                 (long long)r->id, (long long)(r->sequence.restarts - 1),
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
static enum ebb_status keep_failed(struct exp_master *m, const struct exp_run *r,
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

enum ebb_status exp_alloc_end(struct exp_master *m, struct exp_alloc *a, struct ebb_error *err)
{
    struct exp_run *r = a->run;
    struct exp_experiment *e = r->experiment;
    if (a->is_publishing || a->is_preparing)
        return EBB_OK; /* comes back when that is over */
    EBB_TRY(exp_log_tail(m, r, true, err));
    enum exp_sequence_exit how = EXP_SEQUENCE_ENDED;
    bool never_started = a->proc.pid == 0 && !a->is_failed;
    int64_t restarts = r->sequence.restarts;
    bool was_busy = r->sequence.is_busy;
    struct exp_workload work = r->sequence.work;
    double run_time = a->run_time;
    if (r->state == EXP_RUN_ACTIVE) {
        how = classify(a, &r->sequence);
        if (r->sequence.restarts != restarts)
            EBB_TRY(explain(m, a, how, err));
        else if (never_started && a->reason[0] != '\0')
            EBB_TRY(exp_log_add(m, r, "WARNING", a->reason, err));
    }
    if (a->proc.pid != 0)
        exp_proc_kill_group(a->proc.pid); /* what it left behind */
    if (a->uuid[0] != '\0')
        EBB_TRY(exp_gc_discard(m, a->uuid, err));
    EBB_TRY(exp_db_alloc_delete(m->db, EXP_DB_NAME(a->id), err));
    if (never_started)
        r->not_before_ns = m->now_ns + START_AGAIN_NS;
    exp_alloc_free(m, a);
    leave_tasks(m, r);
    m->sweep_ns = m->now_ns;
    exp_dirty_run(m, r);
    if (how == EXP_SEQUENCE_ROLLED_BACK)
        EBB_TRY(roll_back(m, r, err));
    if (how == EXP_SEQUENCE_FAILED && was_busy)
        EBB_TRY(keep_failed(m, r, &work, run_time, err));
    if (how == EXP_SEQUENCE_FAILED)
        EBB_TRY(give_up(m, r, err));
    else
        exp_notice_trial(m, r);
    exp_run_update_task(m, r);
    exp_experiment_check(e, r);
    return EBB_OK;
}

/* ---- deadlines ---- */

static void check_one(struct exp_master *m, struct exp_alloc *a)
{
    const struct exp_sequence *q = &a->run->sequence;
    long long seconds = (long long)(m->options.heartbeat_ms / 1000);
    if (a->is_gone || a->is_killed || a->is_to_kill || a->is_to_start || a->is_preparing ||
        a->is_publishing)
        return;
    if (a->exit_ns != 0 && m->now_ns > a->exit_ns)
        exp_alloc_kill(m, a, "did not end within 60 s of being told to");
    else if (a->conn == NULL && a->hello_ns != 0 && m->now_ns > a->hello_ns) {
        a->is_excused = a->is_adopted && !a->is_greeted;
        exp_alloc_kill(m, a,
                       a->is_lost ? "lost its connection and did not come back"
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
    uint64_t gap = m->checked_ns != 0 ? m->now_ns - m->checked_ns : 0;
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
