/* master.c - the event loop: see master.h for its rules. */
#include "exp/master/master.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/thread.h"
#include "exp/master/address.h"
#include "exp/master/inner.h"

#define TICK_NS 500000000ull /* logs, deadlines */
#define RETRY_NS 500000000ull
#define EVENTS 64
#define LOG_BYTES_MAX ((off_t)8 << 20) /* of master.log; then it becomes master.log.1 */

static void look_at_clock(struct exp_master *m)
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

static void act_on_allocs(struct exp_master *m)
{
    for (size_t i = 0; i < m->alloc_count; i++) {
        struct exp_alloc *a = m->allocs[i];
        if (a->is_to_kill) {
            a->is_to_kill = false;
            a->is_killed = true;
            if (a->proc.pid > 0) {
                exp_proc_kill_group(a->proc.pid);
                exp_proc_kill(a->proc.pid);
            } else if (!a->is_preparing && !a->is_gone) {
                a->is_to_start = false;
                a->is_gone = m->wants_turn = true;
                a->status = -1;
            }
        }
        if (a->is_to_start) {
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
        exp_jobs_add(m->jobs, job);
    }
    m->held_last = NULL;
    act_on_allocs(m);
    point(m);
    exp_conns_answer(m);
    for (size_t i = 0; i < m->conn_count; i++)
        if (m->conns[i]->out.length > 0)
            exp_conn_flush(m, m->conns[i]);
    for (size_t i = m->conn_count; i-- > 0;) {
        struct exp_conn *c = m->conns[i];
        if (c->is_broken || (c->is_dead && c->out.length == 0))
            exp_conn_close(m, c);
    }
    for (const struct exp_measured *one = m->measured_first; one != NULL; one = one->next)
        m->options.on_metrics(m->options.on_metrics_context, &one->metrics);
    m->measured_first = m->measured_last = NULL;
    if (m->has_news && m->options.on_change != NULL)
        m->options.on_change(m->options.on_change_context, m);
    m->has_news = false;
}

/* ---- when writing fails (M2) ---- */

static void stall(struct exp_master *m, const struct ebb_error *why)
{
    if (!m->is_stalled)
        ebb_log(m->options.log, EBB_LOG_ERROR, "stopped for now: %s", why->message);
    m->is_stalled = true;
    m->stall = *why;
    m->retry_ns = ebb_clock_ns() + RETRY_NS;
    exp_db_rollback(m->db);
    m->measured_first = m->measured_last = NULL; /* they come again */
    while (exp_jobs_count(m->jobs) > 0) {        /* threads finish; nobody takes their results */
        struct exp_job *job = exp_jobs_take(m->jobs);
        if (job == NULL) {
            struct timespec t = {.tv_nsec = 1000000};
            nanosleep(&t, NULL);
        }
        exp_job_destroy(job);
    }
    exp_conns_refuse(m);
    exp_forget(m);
    for (size_t i = m->conn_count; i-- > 0;) {
        struct exp_conn *c = m->conns[i];
        c->alloc = NULL;
        exp_conn_flush(m, c);
        if (c->is_broken || (c->is_dead && c->out.length == 0))
            exp_conn_close(m, c);
    }
}

static enum ebb_status finish(struct exp_master *m, struct ebb_error *err);

static void try_again(struct exp_master *m)
{
    struct ebb_error err;
    look_at_clock(m);
    if (m->now_ns < m->retry_ns)
        return;
    enum ebb_status status = exp_db_probe(m->db, &err);
    if (status == EBB_OK)
        status = exp_recover(m, &err);
    if (status == EBB_OK)
        status = exp_db_commit(m->db, &err);
    if (status != EBB_OK) {
        stall(m, &err);
        return;
    }
    m->is_stalled = false;
    ebb_log(m->options.log, EBB_LOG_INFO, "the database can be written again: going on");
}

/* ---- a turn ---- */

static enum ebb_status take_jobs(struct exp_master *m, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    for (struct exp_job *job; status == EBB_OK && (job = exp_jobs_take(m->jobs)) != NULL;) {
        struct exp_alloc *a = NULL;
        for (size_t i = 0; i < m->alloc_count; i++)
            if (strcmp(m->allocs[i]->id, job->allocation) == 0)
                a = m->allocs[i];
        if (job->kind == EXP_JOB_REMOVE || job->kind == EXP_JOB_REMOVE_TREE)
            status = exp_gc_job_done(m, job, err);
        else if (a != NULL)
            status = exp_alloc_job_done(m, a, job, err);
        exp_job_destroy(job);
    }
    return status;
}

static struct exp_conn *find_conn(const struct exp_master *m, int fd)
{
    for (size_t i = 0; i < m->conn_count; i++)
        if (m->conns[i]->fd == fd)
            return m->conns[i];
    return NULL;
}

static void note_exit(struct exp_master *m, int fd)
{
    for (size_t i = 0; i < m->alloc_count; i++) {
        struct exp_alloc *a = m->allocs[i];
        if (a->proc.fd != fd || a->is_gone)
            continue;
        a->status = exp_proc_reap(&a->proc);
        a->is_gone = true;
        epoll_ctl(m->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    }
}

static enum ebb_status hear(struct exp_master *m, int timeout_ms, struct ebb_error *err)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(m->epoll_fd, events, EVENTS, timeout_ms);
    look_at_clock(m);
    for (int i = 0; i < n; i++) {
        int fd = events[i].data.fd;
        struct exp_conn *c = find_conn(m, fd);
        if (fd == m->listen_fd)
            exp_conn_accept(m);
        else if (fd == exp_jobs_fd(m->jobs))
            continue;
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
        if (!a->is_gone)
            continue;
        while (a->conn != NULL && !a->conn->is_broken && !a->conn->is_dead) {
            uint64_t before = a->conn->received;
            EBB_TRY(exp_conn_readable(m, a->conn, err));
            if (a->conn == NULL || before == a->conn->received)
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
        bool is_running = false;
        for (size_t k = 0; k < m->alloc_count; k++)
            is_running |= strcmp(m->allocs[k]->id, found[i].allocation) == 0;
        if (is_running)
            continue;
        exp_proc_kill(found[i].pid);
        ++*killed;
    }
    ebb_free(found);
    return EBB_OK;
}

/* The last sweep: the children of one that was killed come to us a moment later. */
static void sweep_all(struct exp_master *m)
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
        EBB_TRY(exp_log_tail(m, m->allocs[i]->run, false, err));
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

int exp_master_wait_ms(const struct exp_master *m)
{
    if (m->wants_turn)
        return 0;
    bool is_ticking = m->alloc_count > 0 || m->tasks_first != NULL || m->is_stalled;
    uint64_t wait = is_ticking ? TICK_NS : 60000000000ull, now = ebb_clock_ns();
    if (m->alloc_count > 0)
        wait = m->logs_ns > now ? m->logs_ns - now : 0;
    for (size_t i = 0; i < m->conn_count; i++) {
        const struct exp_conn *c = m->conns[i];
        if (c->waiting == NULL || c->is_stream)
            continue;
        uint64_t left = c->wait_until_ns > now ? c->wait_until_ns - now : 0;
        wait = left < wait ? left : wait;
    }
    return (int)(wait / 1000000u) + 1;
}

int exp_master_fd(const struct exp_master *m)
{
    return m->epoll_fd;
}

static enum ebb_status work(struct exp_master *m, int timeout_ms, struct ebb_error *err)
{
    m->wants_turn = false;
    EBB_TRY(hear(m, timeout_ms, err));
    EBB_TRY(take_jobs(m, err));
    EBB_TRY(end_gone(m, err));
    EBB_TRY(tick(m, err));
    return finish(m, err);
}

/* Nothing is done for anybody now: who asks hears why, trials come back later. */
static void hear_stalled(struct exp_master *m, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    struct ebb_error err;
    bool is_deaf = false; /* to ends of processes and jobs, which stay to be heard */
    int n = epoll_wait(m->epoll_fd, events, EVENTS, timeout_ms);
    look_at_clock(m);
    for (int i = 0; i < n; i++) {
        struct exp_conn *c = find_conn(m, events[i].data.fd);
        if (events[i].data.fd == m->listen_fd)
            exp_conn_accept(m);
        else if (c == NULL)
            is_deaf = true;
        else if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 &&
                 exp_conn_readable(m, c, &err) != EBB_OK)
            c->is_broken = true;
    }
    for (size_t i = m->conn_count; i-- > 0;) {
        struct exp_conn *c = m->conns[i];
        if (c->out.length > 0)
            exp_conn_flush(m, c);
        if (c->is_broken || (c->is_dead && c->out.length == 0))
            exp_conn_close(m, c);
    }
    ebb_arena_reset(&m->turn_arena);
    if (is_deaf)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

enum ebb_status exp_master_turn(struct exp_master *m, int timeout_ms, struct ebb_error *err)
{
    struct ebb_error why;
    (void)err;
    m->turns++;
    int wait = exp_master_wait_ms(m);
    if (timeout_ms < 0 || timeout_ms > wait)
        timeout_ms = wait;
    if (m->is_stalled) {
        hear_stalled(m, timeout_ms < 100 ? timeout_ms : 100);
        try_again(m);
        return EBB_OK;
    }
    if (work(m, timeout_ms, &why) != EBB_OK)
        stall(m, &why);
    return EBB_OK;
}

void exp_master_request(struct exp_master *m, const struct exp_http_request *request,
                        struct exp_http_response *response)
{
    struct ebb_error err;
    enum ebb_status status = EBB_EIO;
    look_at_clock(m);
    if (exp_rest_must_wait(m, request)) {
        err = m->stall;
    } else if (m->is_stalled) {
        status = exp_rest_handle(m, request, response, &err);
    } else {
        status = exp_rest_handle(m, request, response, &err);
        if (status == EBB_OK)
            status = finish(m, &err);
        if (status != EBB_OK)
            stall(m, &err);
    }
    if (status == EBB_OK)
        return;
    ebb_str_clear(&response->body);
    response->status = 503;
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &response->body, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "error");
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "code");
    ebb_jsonw_int(&w, 503);
    ebb_jsonw_key(&w, "reason");
    ebb_jsonw_string(&w, exp_http_reason(503));
    ebb_jsonw_key(&w, "message");
    ebb_jsonw_string(&w, err.message);
    ebb_jsonw_object_end(&w);
    ebb_jsonw_object_end(&w);
}

bool exp_master_is_idle(const struct exp_master *m)
{
    if (m->is_stalled || m->alloc_count > 0 || m->removals > 0 || m->deletion_count > 0 ||
        m->wants_turn || exp_jobs_count(m->jobs) > 0)
        return false;
    for (size_t i = 0; i < m->experiment_count && !m->options.is_reading_only; i++)
        if (m->experiments[i]->state != EXP_PAUSED)
            return false;
    return true;
}

/* ---- opening ---- */

static enum ebb_status take_lock(struct exp_master *m, struct ebb_error *err)
{
    char path[4096], text[32] = "";
    if (mkdir(m->state_dir, 0700) != 0 && errno == ENOENT)
        EBB_TRY(ebb_file_mkdirs(m->state_dir, err));
    chmod(m->state_dir, 0700);
    snprintf(path, sizeof path, "%s/lock", m->state_dir);
    m->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (m->lock_fd < 0)
        return ebb_fail(err, EBB_EIO, "cannot open %s: %s", path, strerror(errno));
    if (flock(m->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        ssize_t n = pread(m->lock_fd, text, sizeof text - 1, 0);
        text[n > 0 ? strcspn(text, "\n") : 0] = '\0';
        return ebb_fail(err, EBB_ELIMIT, "%s: another master holds the lock (process %s)",
                        m->state_dir, text);
    }
    int n = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (ftruncate(m->lock_fd, 0) != 0 || pwrite(m->lock_fd, text, (size_t)n, 0) != n)
        ebb_log(m->options.log, EBB_LOG_WARN, "%s: the process number is not written: %s", path,
                strerror(errno));
    return EBB_OK;
}

static enum ebb_status listen_on(struct exp_master *m, struct ebb_error *err)
{
    struct sockaddr_un address;
    char path[4096];
    int directory;
    m->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = exp_jobs_fd(m->jobs)};
    if (m->epoll_fd < 0 || epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event) != 0)
        return ebb_fail(err, EBB_EIO, "master: epoll: %s", strerror(errno));
    if (m->options.is_socket_off)
        return EBB_OK;
    snprintf(path, sizeof path, "%s/master.sock", m->state_dir);
    unlink(path);
    EBB_TRY(exp_address_fill(&address, m->state_dir, &directory, err));
    m->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_bound = m->listen_fd >= 0 &&
                    bind(m->listen_fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                    listen(m->listen_fd, 256) == 0;
    int error = errno;
    if (directory >= 0)
        close(directory);
    if (!is_bound)
        return ebb_fail(err, EBB_EIO, "cannot listen on %s: %s", path, strerror(error));
    chmod(path, 0600);
    event = (struct epoll_event){.events = EPOLLIN, .data.fd = m->listen_fd};
    if (epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, m->listen_fd, &event) != 0)
        return ebb_fail(err, EBB_EIO, "master: epoll: %s", strerror(errno));
    return EBB_OK;
}

static enum ebb_status make_slots(struct exp_master *m, struct ebb_error *err)
{
    struct exp_master_options *o = &m->options;
    int cpus = ebb_cpu_count();
    if (o->slots <= 0)
        o->slots = o->threads_per_slot > 0 && cpus / o->threads_per_slot > 1
                       ? cpus / o->threads_per_slot
                       : 1;
    m->threads = o->threads_per_slot > 0 ? o->threads_per_slot : (int)(cpus / o->slots);
    if (m->threads < 1)
        m->threads = 1;
    m->slots = ebb_calloc((size_t)o->slots, sizeof *m->slots);
    m->slot_disabled = ebb_calloc((size_t)o->slots, sizeof *m->slot_disabled);
    m->slot_cpus = ebb_calloc((size_t)o->slots, sizeof *m->slot_cpus);
    if (m->slots == NULL || m->slot_disabled == NULL || m->slot_cpus == NULL)
        return ebb_no_memory(err, (size_t)o->slots * sizeof *m->slot_cpus);
    cpu_set_t usable;
    m->can_pin = o->pin_cpus && o->slots * m->threads <= cpus &&
                 sched_getaffinity(0, sizeof usable, &usable) == 0;
    size_t cpu = 0;
    for (int64_t slot = 0; m->can_pin && slot < o->slots; slot++)
        for (int taken = 0; taken < m->threads && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &usable)) {
                CPU_SET(cpu, &m->slot_cpus[slot]);
                taken++;
            }
    return EBB_OK;
}

static enum ebb_status read_cluster(struct exp_master *m, struct ebb_error *err)
{
    struct exp_db_rows rows;
    bool has_row = false;
    EBB_TRY(exp_db_query(m->db, "SELECT value FROM meta WHERE key = 'cluster_id'", EXP_DB_NO_ARGS,
                         &rows, err));
    enum ebb_status status = exp_db_next(&rows, &has_row, err);
    if (status == EBB_OK && has_row)
        snprintf(m->cluster_id, sizeof m->cluster_id, "%.36s", exp_db_text(&rows, 0));
    exp_db_done(&rows);
    EBB_TRY(status);
    if (has_row)
        return EBB_OK;
    EBB_TRY(exp_uuid_make(m->cluster_id, err));
    return exp_db_run(m->db, "INSERT INTO meta (key, value) VALUES ('cluster_id', $1)",
                      EXP_DB_ARGS(exp_db_t(m->cluster_id)), err);
}

/* The account owns what is asked for in nobody's name. */
static enum ebb_status add_account(struct exp_master *m, struct ebb_error *err)
{
    int64_t count = 0;
    EBB_TRY(exp_db_number(m->db, "SELECT COUNT(*) FROM users WHERE name = $1",
                          EXP_DB_ARGS(exp_db_t(m->owner)), 0, &count, err));
    if (count > 0)
        return EBB_OK;
    return exp_db_run(m->db, "INSERT INTO users (name, is_active, created_time) VALUES ($1, 1, $2)",
                      EXP_DB_ARGS(exp_db_t(m->owner), exp_db_d(m->time)), err);
}

/* <state>/master.log, unless the caller has a log of its own. That it cannot be written is no
 * reason to stop. */
static void open_log(struct exp_master *m)
{
    char path[4096], old[4096 + 8];
    struct stat st;
    if (m->options.log != NULL)
        return;
    snprintf(path, sizeof path, "%s/master.log", m->state_dir);
    snprintf(old, sizeof old, "%s.1", path);
    if (stat(path, &st) == 0 && st.st_size > LOG_BYTES_MAX)
        (void)rename(path, old);
    m->log.stream = fopen(path, "ae");
    m->log.level = EBB_LOG_INFO;
    m->log.name = "master";
    m->options.log = &m->log;
}

static enum ebb_status copy_options(struct exp_master *m, const struct exp_master_options *o,
                                    struct ebb_error *err)
{
    char real[4096], *absolute = realpath(o->state_dir, real);
    if (absolute == NULL && o->state_dir[0] != '/') {
        if (getcwd(real, sizeof real / 2) == NULL)
            return ebb_fail(err, EBB_EIO, "no working directory: %s", strerror(errno));
        size_t n = strlen(real);
        snprintf(real + n, sizeof real - n, "/%s", o->state_dir);
        absolute = real;
    }
    EBB_TRY(exp_text_set(&m->state_dir, absolute != NULL ? absolute : o->state_dir, err));
    if (strlen(m->state_dir) > 3000)
        return ebb_fail(err, EBB_EINPUT, "the path of the state directory is too long");
    ssize_t n = readlink("/proc/self/exe", real, sizeof real - 1);
    real[n > 0 ? n : 0] = '\0';
    EBB_TRY(exp_text_set(&m->ebb_path, o->ebb_path != NULL ? o->ebb_path : real, err));
    EBB_TRY(exp_text_set(&m->python, o->python != NULL ? o->python : "python3", err));
    EBB_TRY(exp_text_set(&m->python_path, o->python_path, err));
    EBB_TRY(exp_text_set(&m->site_defaults, o->site_defaults, err));
    struct passwd entry, *found = NULL;
    char buffer[4096];
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != NULL)
        snprintf(m->owner, sizeof m->owner, "%s", entry.pw_name);
    else
        snprintf(m->owner, sizeof m->owner, "%u", (unsigned)geteuid());
    return EBB_OK;
}

static enum ebb_status make_directories(struct exp_master *m, struct ebb_error *err)
{
    static const char *const names[] = {"checkpoints", "trials", "tmp"};
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", m->state_dir, names[i]);
        EBB_TRY(ebb_file_mkdirs(path, err));
    }
    return EBB_OK;
}

static enum ebb_status open_all(struct exp_master *m, struct ebb_error *err)
{
    char path[4096];
    const struct exp_master_faults *f = &m->options.faults;
    EBB_TRY(take_lock(m, err));
    EBB_TRY(make_directories(m, err));
    EBB_TRY(make_slots(m, err));
    EBB_TRY(exp_jobs_create(3, &m->jobs, err));
    EBB_TRY(listen_on(m, err));
    snprintf(path, sizeof path, "%s/ebb.db", m->state_dir);
    struct exp_db_options db = {.path = path,
                                .commit_fail_from = f->commit_fail_from,
                                .commit_fail_count = f->commit_fail_count,
                                .commit_sleep_ms = f->commit_sleep_ms};
    EBB_TRY(exp_db_open(&db, &m->db, err));
    look_at_clock(m);
    m->notice_next = (int64_t)(m->time * 1e6);
    EBB_TRY(read_cluster(m, err));
    EBB_TRY(add_account(m, err));
    open_log(m);
    EBB_TRY(exp_recover(m, err));
    EBB_TRY(exp_rows_flush(m, err));
    EBB_TRY(exp_db_commit(m->db, err));
    int is_subreaper = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper);
    m->is_subreaper = is_subreaper == 0 && !m->options.is_reading_only;
    if (m->is_subreaper)
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    m->sweep_ns = 1;
    m->has_begun = !m->options.is_reading_only;
    if (m->has_begun)
        ebb_log(m->options.log, EBB_LOG_INFO,
                "ebb " EBB_VERSION " begins: process %d, %lld slots, %zu experiments not ended",
                (int)getpid(), (long long)m->options.slots, m->experiment_count);
    return EBB_OK;
}

enum ebb_status exp_master_open(const struct exp_master_options *options,
                                struct exp_master **master, struct ebb_error *err)
{
    struct exp_master *m = ebb_calloc(1, sizeof *m);
    if (m == NULL)
        return ebb_no_memory(err, sizeof *m);
    m->options = *options;
    m->options.is_socket_off |= m->options.is_reading_only; /* trials wait for a real master */
    m->lock_fd = m->listen_fd = m->epoll_fd = -1;
    ebb_map_init(&m->trials);
    ebb_arena_init(&m->turn_arena);
    if (m->options.heartbeat_ms <= 0)
        m->options.heartbeat_ms = 60000;
    if (m->options.adopt_ms <= 0)
        m->options.adopt_ms = 60000;
    if (m->options.log_bytes_max <= 0)
        m->options.log_bytes_max = (int64_t)16 << 20;
    enum ebb_status status = copy_options(m, options, err);
    if (status == EBB_OK)
        status = open_all(m, err);
    if (status != EBB_OK) {
        exp_master_close(m, EXP_CLOSE_LEAVE, 0);
        return status;
    }
    *master = m;
    return EBB_OK;
}

/* ---- closing ---- */

static void turn_until_gone(struct exp_master *m, int grace_ms, bool is_patient)
{
    uint64_t until = ebb_clock_ns() + (uint64_t)(grace_ms > 0 ? grace_ms : 0) * 1000000u;
    while (m->alloc_count > 0 && (grace_ms < 0 || ebb_clock_ns() < until)) {
        if (is_patient && m->options.is_hurried != NULL &&
            m->options.is_hurried(m->options.is_hurried_context))
            return;
        if (exp_master_turn(m, 50, NULL) != EBB_OK)
            return;
    }
}

static void stop_trials(struct exp_master *m, enum exp_master_close how, int grace_ms)
{
    m->is_closing = true;
    if (how == EXP_CLOSE_PREEMPT) {
        for (size_t i = 0; i < m->alloc_count; i++)
            exp_run_stop(m, m->allocs[i]->run);
        turn_until_gone(m, grace_ms, true);
    }
    for (size_t i = 0; i < m->alloc_count; i++) {
        m->allocs[i]->is_excused = true;
        exp_alloc_kill(m, m->allocs[i], "the master ends");
    }
    turn_until_gone(m, 10000, false);
}

void exp_master_close(struct exp_master *m, enum exp_master_close how, int grace_ms)
{
    struct ebb_error err;
    if (m == NULL)
        return;
    if (m->db != NULL && m->jobs != NULL && !m->is_stalled && m->epoll_fd >= 0 &&
        how != EXP_CLOSE_LEAVE)
        stop_trials(m, how, grace_ms);
    if (m->is_subreaper && m->state_dir != NULL)
        sweep_all(m); /* nobody will, once we are gone */
    if (m->db != NULL && !m->is_stalled && exp_rows_flush(m, &err) == EBB_OK)
        (void)exp_db_commit(m->db, &err);
    exp_forget(m);
    if (m->is_subreaper)
        prctl(PR_SET_CHILD_SUBREAPER, 0);
    if (m->has_begun)
        ebb_log(m->options.log, EBB_LOG_INFO, "process %d ends", (int)getpid());
    if (m->log.stream != NULL)
        fclose(m->log.stream);
    while (m->conn_count > 0)
        exp_conn_close(m, m->conns[0]);
    exp_jobs_destroy(m->jobs);
    exp_db_close(m->db);
    for (size_t i = 0; i < m->kept_count; i++)
        exp_proc_close(&m->kept[i].proc);
    exp_notices_free(m);
    ebb_map_fini(&m->trials);
    ebb_arena_fini(&m->turn_arena);
    ebb_free(m->kept);
    ebb_free(m->deletions);
    ebb_free(m->experiments);
    ebb_free(m->conns);
    ebb_free(m->allocs);
    ebb_free(m->slots);
    ebb_free(m->slot_disabled);
    ebb_free(m->slot_cpus);
    char path[4096];
    snprintf(path, sizeof path, "%s/master.sock", m->state_dir != NULL ? m->state_dir : "");
    if (m->listen_fd >= 0) {
        unlink(path);
        close(m->listen_fd);
    }
    if (m->epoll_fd >= 0)
        close(m->epoll_fd);
    if (m->lock_fd >= 0)
        close(m->lock_fd);
    ebb_free(m->state_dir);
    ebb_free(m->ebb_path);
    ebb_free(m->python);
    ebb_free(m->python_path);
    ebb_free(m->site_defaults);
    ebb_free(m);
}
