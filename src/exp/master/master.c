/* master.c - the event loop: see master.h for its rules. */
#include "exp/master/master.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "exp/master/inner.h"

#define TICK_NS 500000000ull /* logs, deadlines */
#define RETRY_NS 500000000ull
#define EVENTS 64

void exp_master_look(struct exp_master *m)
{
    m->now_ns = ebb_clock_ns();
    m->time = exp_time_now();
}

/* ---- points where a test kills the master ---- */

static void point(struct exp_master *m)
{
    if (m->options.faults.die_at > 0 && --m->options.faults.die_at == 0)
        kill(getpid(), SIGKILL);
}

/* ---- after the commit ---- */

void exp_job_later(struct exp_master *m, struct exp_job *job)
{
    job->next = NULL;
    if (m->held_last != NULL)
        m->held_last->next = job;
    else
        m->held_jobs = job;
    m->held_last = job;
}

void exp_job_hand_out(struct exp_master *m, struct exp_job *job)
{
    exp_jobs_add(job->is_remote ? m->remote : m->jobs, job);
}

static void act_on_allocs(struct exp_master *m)
{
    for (size_t i = 0; i < m->alloc_count; i++) {
        struct exp_alloc *a = m->allocs[i];
        exp_alloc_kill_now(m, a);
        if (exp_alloc_is_start_due(a)) {
            point(m);
            exp_alloc_launch(m, a);
        }
    }
}

static void act(struct exp_master *m)
{
    point(m);
    while (m->held_jobs != NULL) {
        struct exp_job *job = m->held_jobs;
        m->held_jobs = job->next;
        exp_job_hand_out(m, job);
    }
    m->held_last = NULL;
    act_on_allocs(m);
    point(m);
    if (m->front.send != NULL)
        m->front.send(m->front.context, m->has_news);
    exp_conns_send(m);
    for (const struct exp_measured *one = m->measured_first; one != NULL; one = one->next)
        m->options.on_metrics(m->options.on_metrics_context, &one->metrics);
    m->measured_first = m->measured_last = NULL;
    if (m->has_news && m->options.on_change != NULL)
        m->options.on_change(m->options.on_change_context, m);
    m->has_news = false;
}

/* ---- when writing fails (M2) ---- */

/* Threads finish; nobody takes their results. */
static void drain(struct exp_jobs *jobs)
{
    while (exp_jobs_count(jobs) > 0) {
        struct exp_job *job = exp_jobs_take(jobs);
        if (job == NULL)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        exp_job_destroy(job);
    }
}

static void stall(struct exp_master *m, const struct ebb_error *why)
{
    if (!m->is_stalled)
        ebb_log(m->options.log, EBB_LOG_ERROR, "stopped for now: %s", why->message);
    m->is_stalled = true;
    m->stall = *why;
    m->retry_ns = ebb_clock_ns() + RETRY_NS;
    exp_db_rollback(m->db);
    m->measured_first = m->measured_last = NULL; /* they come again */
    exp_jobs_unwant(m->remote);
    exp_uploads_forget(m); /* they name jobs that end now */
    exp_boards_forget(m);
    exp_checks_free(m);
    drain(m->jobs);
    drain(m->remote);
    exp_conns_refuse(m);
    if (m->front.refuse != NULL)
        m->front.refuse(m->front.context, why);
    exp_forget(m);
    exp_conns_send(m);
}

static enum ebb_status finish(struct exp_master *m, struct ebb_error *err);

static void try_again(struct exp_master *m)
{
    struct ebb_error err;
    exp_master_look(m);
    if (m->now_ns < m->retry_ns)
        return;
    /* Where it is full a page may still be written over, and the next turn fails. */
    if (exp_master_is_full(m->state_dir)) {
        m->retry_ns = m->now_ns + RETRY_NS;
        return;
    }
    enum ebb_status status = exp_db_probe(m->db, &err);
    EBB_THEN(status, exp_recover(m, &err));
    EBB_THEN(status, exp_db_commit(m->db, &err));
    if (status != EBB_OK) {
        stall(m, &err);
        return;
    }
    m->is_stalled = false;
    ebb_log(m->options.log, EBB_LOG_INFO, "the database can be written again: going on");
}

/* ---- a turn ---- */

static enum ebb_status take_jobs(struct exp_master *m, struct exp_jobs *jobs, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    for (struct exp_job *job; status == EBB_OK && (job = exp_jobs_take(jobs)) != NULL;) {
        struct exp_alloc *a = exp_alloc_find(m, job->allocation);
        if (job->kind == EXP_JOB_REMOVE || job->kind == EXP_JOB_REMOVE_TREE ||
            job->kind == EXP_JOB_UNMIRROR)
            status = exp_gc_job_done(m, job, err);
        else if (job->kind == EXP_JOB_MIRROR)
            status = exp_board_job_done(m, job, err);
        else if (job->kind == EXP_JOB_UPLOAD)
            status = exp_upload_job_done(m, job, err);
        else if (job->kind == EXP_JOB_CHECK)
            status = exp_check_done(m, job, err);
        else if (a != NULL)
            status = exp_alloc_job_done(m, a, job, err);
        else if (job->kind == EXP_JOB_PREPARE && job->allocation[0] == '\0')
            status = exp_check_done(m, job, err);
        exp_job_destroy(job);
    }
    return status;
}

static struct exp_conn *find_conn(const struct exp_master *m, int fd)
{
    for (size_t i = 0; i < m->conn_count; i++)
        if (m->conns[i]->wire.fd == fd)
            return m->conns[i];
    return NULL;
}

static void note_exit(struct exp_master *m, int fd)
{
    for (size_t i = 0; i < m->alloc_count; i++) {
        struct exp_alloc *a = m->allocs[i];
        if (a->proc.fd != fd || a->phase == EXP_ALLOC_GONE)
            continue;
        exp_alloc_gone(a, exp_proc_reap(&a->proc));
        epoll_ctl(m->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    }
}

static enum ebb_status hear(struct exp_master *m, int timeout_ms, struct ebb_error *err)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(m->epoll_fd, events, EVENTS, timeout_ms);
    exp_master_look(m);
    for (int i = 0; i < n; i++) {
        int fd = events[i].data.fd;
        struct exp_conn *c = find_conn(m, fd);
        if (fd == m->listen_fd)
            exp_conn_accept(m);
        else if (fd == exp_jobs_fd(m->jobs) || fd == exp_jobs_fd(m->remote))
            continue;
        else if (m->front.hear != NULL && fd == m->front.fd)
            EBB_TRY(m->front.hear(m->front.context, err));
        else if (c == NULL)
            note_exit(m, fd);
        else if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
            EBB_TRY(exp_conn_readable(m, c, err));
    }
    return EBB_OK;
}

/* What a process said before it ended comes before its end. */
static enum ebb_status end_gone(struct exp_master *m, struct ebb_error *err)
{
    for (size_t i = m->alloc_count; i-- > 0;) {
        struct exp_alloc *a = m->allocs[i];
        if (a->phase != EXP_ALLOC_GONE)
            continue;
        while (a->conn != NULL && !a->conn->wire.is_broken && !a->conn->wire.is_dead) {
            uint64_t before = a->conn->wire.received;
            EBB_TRY(exp_conn_readable(m, a->conn, err));
            if (a->conn == NULL || before == a->conn->wire.received)
                break;
        }
        EBB_TRY(exp_alloc_end(m, a, err));
    }
    return EBB_OK;
}

static bool keeps(void *context, pid_t pid)
{
    const struct exp_master *m = context;
    for (size_t i = 0; i < m->alloc_count; i++)
        if (m->allocs[i]->proc.pid == pid)
            return true;
    return false;
}

/* Processes that trials left behind come to us, their subreaper: end them. */
static enum ebb_status sweep(struct exp_master *m, size_t *killed, struct ebb_error *err)
{
    struct exp_proc_found *found = NULL;
    size_t count = 0;
    struct exp_proc_scan scan = {
        .state_dir = m->state_dir, .only_children = true, .keeps = keeps, .context = m};
    EBB_TRY(exp_proc_scan(&scan, &found, &count, err));
    for (size_t i = 0; i < count; i++) {
        if (exp_alloc_find(m, found[i].allocation) != NULL)
            continue;
        exp_proc_kill(found[i].pid);
        ++*killed;
    }
    ebb_free(found);
    return EBB_OK;
}

/* The last sweep: the children of one that was killed come to us a moment later. */
void exp_master_sweep(struct exp_master *m)
{
    struct ebb_error err;
    for (int i = 0; i < 50; i++) {
        size_t killed = 0;
        if (sweep(m, &killed, &err) != EBB_OK || killed == 0)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static enum ebb_status tick(struct exp_master *m, struct ebb_error *err)
{
    exp_allocs_check(m);
    if (m->now_ns < m->logs_ns)
        return EBB_OK;
    m->logs_ns = m->now_ns + TICK_NS;
    for (size_t i = 0; i < m->alloc_count; i++)
        EBB_TRY(exp_log_tail(m, m->allocs[i]->trial, false, err));
    m->is_schedule_due |= m->tasks_first != NULL; /* starts that were put off */
    if (m->sweep_ns == 0 || m->options.is_reading_only)
        return EBB_OK;
    size_t killed = 0;
    m->sweep_ns = 0;
    EBB_TRY(sweep(m, &killed, err));
    if (killed)
        m->sweep_ns = m->now_ns; /* their children come next */
    return EBB_OK;
}

/* Settle, schedule, write, commit, act. */
static enum ebb_status finish(struct exp_master *m, struct ebb_error *err)
{
    for (size_t i = 0; i < m->experiment_count; i++)
        EBB_TRY(exp_experiment_settle(m, m->experiments[i], err));
    EBB_TRY(exp_schedule(m, err));
    for (size_t i = 0; i < m->experiment_count; i++)
        m->wants_turn |= m->experiments[i]->checked != NULL;
    m->wants_turn |= m->is_schedule_due;
    EBB_TRY(exp_rows_flush(m, err));
    point(m);
    EBB_TRY(exp_db_commit(m->db, err));
    act(m);
    for (size_t i = m->experiment_count; i-- > 0;)
        if (exp_state_is_ended(m->experiments[i]->state) && !m->experiments[i]->is_dirty)
            exp_experiment_free(m, m->experiments[i]);
    ebb_arena_reset(&m->turn_arena);
    return EBB_OK;
}

/* How long a turn may wait without missing what is due by the clock. */
static int next_wait_ms(const struct exp_master *m)
{
    if (m->wants_turn)
        return 0;
    bool is_ticking = m->alloc_count > 0 || m->tasks_first != NULL || m->is_stalled;
    uint64_t wait = is_ticking ? TICK_NS : 60000000000ull, now = ebb_clock_ns();
    if (m->alloc_count > 0)
        wait = m->logs_ns > now ? m->logs_ns - now : 0;
    uint64_t until = m->front.deadline != NULL ? m->front.deadline(m->front.context) : UINT64_MAX;
    uint64_t upload = exp_uploads_deadline(m), check = exp_checks_deadline(m),
             board = exp_boards_deadline(m);
    until = upload < until ? upload : until;
    until = board < until ? board : until;
    until = check < until ? check : until;
    bool is_removing =
        m->removal_ns == 0 || m->removals > 0; /* exp_gc_again waits for their ends */
    until = !is_removing && m->removal_ns < until ? m->removal_ns : until;
    uint64_t left = until > now ? until - now : 0;
    wait = left < wait ? left : wait;
    return (int)(wait / 1000000u) + 1;
}

static enum ebb_status work(struct exp_master *m, int timeout_ms, struct ebb_error *err)
{
    m->wants_turn = false;
    EBB_TRY(hear(m, timeout_ms, err));
    EBB_TRY(take_jobs(m, m->jobs, err));
    EBB_TRY(take_jobs(m, m->remote, err));
    EBB_TRY(end_gone(m, err));
    EBB_TRY(tick(m, err));
    EBB_TRY(exp_uploads_turn(m, err));
    EBB_TRY(exp_boards_turn(m, err));
    EBB_TRY(exp_gc_again(m, err));
    exp_checks_turn(m);
    return finish(m, err);
}

/* Nothing is done for anybody now: who asks hears why, trials come back later. */
static void hear_stalled(struct exp_master *m, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    struct ebb_error err;
    bool is_deaf = false; /* to ends of processes and jobs, which stay to be heard */
    int n = epoll_wait(m->epoll_fd, events, EVENTS, timeout_ms);
    exp_master_look(m);
    for (int i = 0; i < n; i++) {
        struct exp_conn *c = find_conn(m, events[i].data.fd);
        if (events[i].data.fd == m->listen_fd)
            exp_conn_accept(m);
        else if (m->front.hear != NULL && events[i].data.fd == m->front.fd)
            (void)m->front.hear(m->front.context, &err);
        else if (c == NULL)
            is_deaf = true;
        else if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 &&
                 exp_conn_readable(m, c, &err) != EBB_OK)
            c->wire.is_broken = true;
    }
    if (m->front.send != NULL)
        m->front.send(m->front.context, false);
    exp_conns_send(m);
    ebb_arena_reset(&m->turn_arena);
    if (is_deaf)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

void exp_master_turn(struct exp_master *m, int timeout_ms)
{
    struct ebb_error why;
    m->turns++;
    int wait = next_wait_ms(m);
    if (timeout_ms < 0 || timeout_ms > wait)
        timeout_ms = wait;
    if (m->is_stalled) {
        hear_stalled(m, timeout_ms < 100 ? timeout_ms : 100);
        try_again(m);
    } else if (work(m, timeout_ms, &why) != EBB_OK) {
        stall(m, &why);
    }
}

enum ebb_status exp_master_do(struct exp_master *m,
                              enum ebb_status (*work_on)(void *context, struct ebb_error *err),
                              void *context, struct ebb_error *err)
{
    exp_master_look(m);
    if (m->is_stalled) {
        *err = m->stall;
        return EBB_EIO;
    }
    enum ebb_status status = work_on(context, err);
    EBB_THEN(status, finish(m, err));
    if (status != EBB_OK)
        stall(m, err);
    return status;
}

bool exp_master_is_idle(const struct exp_master *m)
{
    if (m->is_stalled || m->alloc_count > 0 || m->removals > 0 || m->deletion_count > 0 ||
        m->wants_turn || exp_jobs_count(m->jobs) > 0 || exp_jobs_count(m->remote) > 0 ||
        ((exp_uploads_wait(m, 0, 0) || exp_boards_wait(m)) && !m->options.is_reading_only))
        return false;
    for (size_t i = 0; i < m->experiment_count && !m->options.is_reading_only; i++)
        if (m->experiments[i]->state != EXP_PAUSED)
            return false;
    return true;
}
