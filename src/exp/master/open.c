/* open.c - a master comes up: lock, socket, database, what the last one left; and goes. */
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/names.h"
#include "base/thread.h"
#include "exp/master/inner.h"

#define LOG_BYTES_MAX ((off_t)8 << 20) /* of master.log; then it becomes master.log.1 */

/* ---- what others may ask about a state directory ---- */

enum ebb_status exp_master_address(struct sockaddr_un *address, const char *state_dir,
                                   int *directory, struct ebb_error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/master.sock", state_dir);
    return ebb_wire_address(address, path, directory, err);
}

static bool is_held(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is_so = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return is_so;
}

bool exp_master_runs(const char *state_dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/lock", state_dir);
    return is_held(path, O_RDWR | O_NOFOLLOW) || is_held(state_dir, O_RDONLY | O_DIRECTORY);
}

/* ---- opening ---- */

static enum ebb_status take_lock(struct exp_master *m, struct ebb_error *err)
{
    char path[4096], text[32] = "";
    if (mkdir(m->state_dir, 0700) != 0 && errno == ENOENT)
        EBB_TRY(ebb_file_mkdirs(m->state_dir, err));
    chmod(m->state_dir, 0700);
    snprintf(path, sizeof path, "%s/lock", m->state_dir);
    m->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat about;
    if (m->lock_fd < 0)
        return ebb_fail(err, EBB_EIO, "cannot open %s: %s", path, strerror(errno));
    if (fstat(m->lock_fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != geteuid() ||
        about.st_nlink > 1)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: not a lock of this user's masters; look at it and remove it", path);
    /* The folder has a lock, too: a file can be removed under its holder. File systems that have
     * no locks of folders leave it at the file. */
    m->folder_fd = open(m->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_other =
        m->folder_fd >= 0 && flock(m->folder_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (is_other || flock(m->lock_fd, LOCK_EX | LOCK_NB) != 0) {
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

/* A database that lost its content is not the beginning of a new state: there are trials. */
static enum ebb_status check_database(const struct exp_master *m, const char *path,
                                      struct ebb_error *err)
{
    char trials[4096];
    struct stat about;
    struct ebb_names names = {0};
    if (stat(path, &about) == 0 && about.st_size > 0)
        return EBB_OK;
    snprintf(trials, sizeof trials, "%s/trials", m->state_dir);
    DIR *folder = opendir(trials);
    if (folder == NULL)
        return EBB_OK;
    enum ebb_status status = ebb_names_read(&names, folder, NULL, NULL, err);
    if (status == EBB_OK && names.count > 0)
        status = ebb_fail(err, EBB_ECORRUPT,
                          "%s is empty or gone, but there are trials in %s: bring the database "
                          "back, or choose another state directory",
                          path, trials);
    ebb_names_fini(&names);
    return status;
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
    event.data.fd = exp_jobs_fd(m->remote);
    if (epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event) != 0)
        return ebb_fail(err, EBB_EIO, "master: epoll: %s", strerror(errno));
    if (m->options.is_socket_off)
        return EBB_OK;
    snprintf(path, sizeof path, "%s/master.sock", m->state_dir);
    unlink(path);
    EBB_TRY(exp_master_address(&address, m->state_dir, &directory, err));
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
    struct exp_db_name row;
    bool is_there;
    EBB_TRY(exp_db_only(exp_db_meta_read(m->db, EXP_DB_NAME("cluster_id"), &row, err),
                        &m->turn_arena, &is_there));
    if (is_there) {
        snprintf(m->cluster_id, sizeof m->cluster_id, "%.36s", row.name);
        return EBB_OK;
    }
    EBB_TRY(exp_uuid_make(m->cluster_id, err));
    return exp_db_meta_write(m->db, &(struct exp_db_meta){"cluster_id", m->cluster_id}, err);
}

/* The account owns what is asked for in nobody's name. */
static enum ebb_status add_account(struct exp_master *m, struct ebb_error *err)
{
    struct exp_db_user row;
    struct exp_db_user_made made = {.name = m->owner, .is_active = true, .created_time = m->time};
    bool is_there;
    EBB_TRY(exp_db_only(exp_db_user_read(m->db, EXP_DB_NAME(m->owner), &row, err), &m->turn_arena,
                        &is_there));
    return is_there ? EBB_OK : exp_db_user_add(m->db, &made, err);
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
    static const char *const names[] = {"checkpoints", "trials",  "tmp",
                                        EXP_STAGING,   EXP_CACHE, EXP_BOARDS};
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
    EBB_TRY(exp_jobs_create(EXP_JOBS_REMOTE, &m->remote, err));
    EBB_TRY(exp_uploads_open(m, err));
    EBB_TRY(listen_on(m, err));
    snprintf(path, sizeof path, "%s/ebb.db", m->state_dir);
    EBB_TRY(check_database(m, path, err));
    struct exp_db_options db = {.path = path,
                                .commit_fail_from = f->commit_fail_from,
                                .commit_fail_count = f->commit_fail_count,
                                .commit_sleep_ms = f->commit_sleep_ms};
    EBB_TRY(exp_db_open(&db, &m->db, err));
    exp_master_look(m);
    m->checked_ns = m->now_ns; /* a pause before the first turn is one, too */
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
    struct exp_master *m;
    EBB_TRY(ebb_new(&m, 1, sizeof *m, err));
    m->options = *options;
    m->options.is_socket_off |= m->options.is_reading_only; /* trials wait for a real master */
    m->lock_fd = m->folder_fd = m->listen_fd = m->epoll_fd = -1;
    ebb_map_init(&m->trials);
    ebb_arena_init(&m->turn_arena);
    if (m->options.heartbeat_ms <= 0)
        m->options.heartbeat_ms = 60000;
    if (m->options.adopt_ms <= 0)
        m->options.adopt_ms = 60000;
    if (m->options.log_bytes_max <= 0)
        m->options.log_bytes_max = (int64_t)16 << 20;
    enum ebb_status status = copy_options(m, options, err);
    EBB_THEN(status, open_all(m, err));
    if (status != EBB_OK) {
        exp_master_close(m, EXP_CLOSE_LEAVE, 0);
        return status;
    }
    *master = m;
    return EBB_OK;
}

enum ebb_status exp_master_set_front(struct exp_master *m, const struct exp_master_front *front,
                                     struct ebb_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = front->fd};
    if (epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, front->fd, &event) != 0)
        return ebb_fail(err, EBB_EIO, "master: epoll: %s", strerror(errno));
    m->front = *front;
    return EBB_OK;
}

void *exp_master_front_context(const struct exp_master *m)
{
    return m->front.context;
}

/* ---- closing ---- */

static void turn_until_gone(struct exp_master *m, int grace_ms, bool is_patient)
{
    uint64_t until = ebb_clock_ns() + (uint64_t)(grace_ms > 0 ? grace_ms : 0) * 1000000u;
    while (m->alloc_count > 0 && (grace_ms < 0 || ebb_clock_ns() < until)) {
        if (is_patient && m->options.is_hurried != NULL &&
            m->options.is_hurried(m->options.is_hurried_context))
            return;
        exp_master_turn(m, 50);
    }
}

static void stop_trials(struct exp_master *m, enum exp_master_close how, int grace_ms)
{
    m->is_closing = true;
    if (how == EXP_CLOSE_PREEMPT) {
        for (size_t i = 0; i < m->alloc_count; i++)
            exp_trial_stop(m->allocs[i]->trial);
        turn_until_gone(m, grace_ms, true);
    }
    for (size_t i = 0; i < m->alloc_count; i++)
        exp_alloc_excuse(m, m->allocs[i], "the master ends");
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
        exp_master_sweep(m); /* nobody will, once we are gone */
    if (m->db != NULL && !m->is_stalled && exp_rows_flush(m, &err) == EBB_OK)
        (void)exp_db_commit(m->db, &err);
    exp_forget(m);
    if (m->is_subreaper)
        prctl(PR_SET_CHILD_SUBREAPER, 0);
    if (m->has_begun)
        ebb_log(m->options.log, EBB_LOG_INFO, "process %d ends", (int)getpid());
    if (m->log.stream != NULL)
        fclose(m->log.stream);
    if (m->front.close != NULL)
        m->front.close(m->front.context);
    while (m->conn_count > 0)
        exp_conn_close(m, m->conns[0]);
    exp_jobs_destroy(m->jobs);
    exp_jobs_destroy(m->remote);
    exp_store_net_destroy(m->net);
    exp_checks_free(m);
    ebb_free(m->site.bucket);
    ebb_free(m->site.endpoint);
    ebb_free(m->site.access_key);
    ebb_free(m->site.secret_key);
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
    if (m->folder_fd >= 0)
        close(m->folder_fd);
    ebb_free(m->state_dir);
    ebb_free(m->ebb_path);
    ebb_free(m->python);
    ebb_free(m->python_path);
    ebb_free(m->site_defaults);
    ebb_free(m);
}
