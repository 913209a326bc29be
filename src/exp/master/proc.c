/* proc.c - see proc.h. Children are made by vfork: the master may be large, and starting a trial
 * must stay cheap. Between vfork and exec only system calls happen. */
#include "exp/master/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/heap.h"
#include "exp/master/master.h"

/* ---- starting ---- */

enum stage {
    STAGE_NONE,
    STAGE_GROUP,
    STAGE_NAMESPACE,
    STAGE_MOUNT,
    STAGE_SHM,
    STAGE_DIRECTORY,
    STAGE_FILES,
    STAGE_EXEC
};

struct failure { /* what a child that could not exec tells its parent */
    enum stage stage;
    int error;
    size_t mount;
};

struct child {
    const struct exp_spawn *spawn;
    int report;                    /* pipe: a failure, or closed by exec */
    const char *uid_map, *gid_map; /* NULL: already root, no user namespace needed */
    const char *shm_options;
    sigset_t mask;
    struct failure at; /* how far it is */
};

static bool put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is_written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return is_written;
}

static bool enter_namespace(const struct child *c)
{
    if (c->uid_map == NULL) {
        if (unshare(CLONE_NEWNS) != 0)
            return false;
    } else if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || !put("/proc/self/setgroups", "deny") ||
               !put("/proc/self/uid_map", c->uid_map) || !put("/proc/self/gid_map", c->gid_map)) {
        return false;
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static unsigned long propagation_of(const char *name)
{
    unsigned long recursive = name[0] == 'r' ? MS_REC : 0;
    if (strstr(name, "shared") != NULL)
        return recursive | MS_SHARED;
    return recursive | (strstr(name, "slave") != NULL ? MS_SLAVE : MS_PRIVATE);
}

/* With everything that is mounted below it: remounting changes the topmost only. */
static bool make_read_only(const char *path)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    return mount_setattr(AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof attr) == 0;
}

static bool bind_one(const struct exp_bind_mount *m)
{
    if (mount(m->host_path, m->container_path, NULL, MS_BIND | MS_REC, NULL) != 0)
        return false;
    if (m->read_only && !make_read_only(m->container_path))
        return false;
    return mount(NULL, m->container_path, NULL, propagation_of(m->propagation), NULL) == 0;
}

/* Shared memory of its own; none at all is a file system that cannot be written. */
static bool mount_shm(const struct child *c)
{
    unsigned long flags = MS_NOSUID | MS_NODEV | (c->spawn->shm_bytes == 0 ? MS_RDONLY : 0u);
    return mount("tmpfs", "/dev/shm", "tmpfs", flags, c->shm_options) == 0;
}

static bool set_up(struct child *c)
{
    const struct exp_spawn *s = c->spawn;
    bool has_mounts = s->mount_count > 0 || s->shm_bytes >= 0;
    c->at.stage = STAGE_GROUP;
    if (setpgid(0, 0) != 0)
        return false;
    c->at.stage = STAGE_DIRECTORY;
    if (chdir(s->work_dir) != 0)
        return false;
    c->at.stage = STAGE_NAMESPACE;
    if (has_mounts && !enter_namespace(c))
        return false;
    c->at.stage = STAGE_MOUNT;
    for (c->at.mount = 0; c->at.mount < s->mount_count; c->at.mount++)
        if (!bind_one(&s->mounts[c->at.mount]))
            return false;
    c->at.stage = STAGE_SHM;
    if (s->shm_bytes >= 0 && !mount_shm(c))
        return false;
    c->at.stage = STAGE_DIRECTORY;
    if (has_mounts && chdir(s->work_dir) != 0) /* the same place, with its mounts */
        return false;
    c->at.stage = STAGE_FILES;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(s->log, 1) < 0 || dup2(s->log, 2) < 0)
        return false;
    if (s->has_cpus)
        (void)sched_setaffinity(0, sizeof s->cpus, &s->cpus); /* a wish, not a need */
    if (s->memory_bytes > 0) {
        struct rlimit limit = {.rlim_cur = s->memory_bytes, .rlim_max = s->memory_bytes};
        if (setrlimit(RLIMIT_DATA, &limit) != 0)
            return false;
    }
    (void)close_range(3, ~0u, CLOSE_RANGE_CLOEXEC); /* connections to stores, which are curl's */
    c->at.stage = STAGE_EXEC;
    return true;
}

/* Kept apart so that the parent's variables are not in the frame that vfork returns into twice. */
__attribute__((noinline)) static pid_t start(struct child *c)
{
    pid_t pid = vfork();
    if (pid != 0)
        return pid;
    for (int signal_number = 1; signal_number < 32; signal_number++)
        signal(signal_number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &c->mask, NULL);
    if (set_up(c))
        execvpe(c->spawn->argv[0], c->spawn->argv, c->spawn->envp);
    c->at.error = errno;
    unsigned char told[sizeof c->at];
    memcpy(told, &c->at, sizeof told);
    ssize_t n = write(c->report, told, sizeof told); /* small: all or nothing */
    (void)n;
    _exit(127);
}

static enum ebb_status explain(const struct exp_spawn *s, const struct failure *f,
                               struct ebb_error *err)
{
    const char *reason = strerror(f->error);
    switch (f->stage) {
    case STAGE_NAMESPACE:
        return ebb_fail(err, EBB_EINPUT,
                        "bind_mounts, shm_size: no mount namespace for the trial: %s", reason);
    case STAGE_SHM:
        return ebb_fail(err, EBB_EINPUT, "resources.shm_size: no /dev/shm of %lld bytes: %s",
                        (long long)s->shm_bytes, reason);
    case STAGE_MOUNT:
        if (f->error == ENOSYS)
            reason = "read_only needs Linux 5.12 or newer";
        return ebb_fail(err, EBB_EINPUT, "bind_mounts[%zu]: cannot mount %s at %s: %s", f->mount,
                        s->mounts[f->mount].host_path, s->mounts[f->mount].container_path, reason);
    case STAGE_DIRECTORY:
        return ebb_fail(err, EBB_EIO, "cannot enter %s: %s", s->work_dir, reason);
    case STAGE_EXEC:
        return ebb_fail(err, EBB_EINPUT, "cannot run %s: %s", s->argv[0], reason);
    case STAGE_NONE:
    case STAGE_GROUP:
    case STAGE_FILES:
        break;
    }
    return ebb_fail(err, EBB_EIO, "cannot set the process up: %s", reason);
}

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

enum ebb_status exp_proc_spawn(const struct exp_spawn *spawn, struct exp_proc *proc,
                               struct ebb_error *err)
{
    char uid_map[64], gid_map[64], shm_options[64];
    struct child c = {.spawn = spawn};
    struct failure failure;
    sigset_t all;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return ebb_fail(err, EBB_EIO, "cannot start a process: %s", strerror(errno));
    c.report = ends[1];
    snprintf(uid_map, sizeof uid_map, "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
    snprintf(gid_map, sizeof gid_map, "%u %u 1", (unsigned)getegid(), (unsigned)getegid());
    snprintf(shm_options, sizeof shm_options, "mode=1777,size=%lld", (long long)spawn->shm_bytes);
    c.shm_options = shm_options;
    if (geteuid() != 0) {
        c.uid_map = uid_map;
        c.gid_map = gid_map;
    }
    sigfillset(&all); /* no handler of the caller may run in the child */
    pthread_sigmask(SIG_SETMASK, &all, &c.mask);
    pid_t pid = start(&c);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &c.mask, NULL);
    close(c.report);
    ssize_t n;
    do
        n = pid > 0 ? read(ends[0], &failure, sizeof failure) : 0;
    while (n < 0 && errno == EINTR);
    close(ends[0]);
    if (pid < 0)
        return ebb_fail(err, EBB_EIO, "cannot start a process: %s", strerror(error));
    if (n == (ssize_t)sizeof failure) {
        waitpid(pid, NULL, 0);
        return explain(spawn, &failure, err);
    }
    int fd = open_pidfd(pid);
    if (fd < 0) {
        error = errno;
        exp_proc_kill_group(pid);
        waitpid(pid, NULL, 0);
        return ebb_fail(err, EBB_EIO, "cannot watch process %d: %s", (int)pid, strerror(error));
    }
    *proc = (struct exp_proc){.pid = pid, .fd = fd, .is_child = true};
    return EBB_OK;
}

enum ebb_status exp_proc_adopt(pid_t pid, struct exp_proc *proc, struct ebb_error *err)
{
    int fd = open_pidfd(pid);
    if (fd < 0)
        return ebb_fail(err, EBB_EIO, "process %d is gone: %s", (int)pid, strerror(errno));
    siginfo_t info = {0};
    bool is_child = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    *proc = (struct exp_proc){.pid = pid, .fd = fd, .is_child = is_child};
    return EBB_OK;
}

int exp_proc_reap(struct exp_proc *proc)
{
    int status = -1;
    if (!proc->is_child || waitpid(proc->pid, &status, WNOHANG) != proc->pid)
        return -1;
    return status;
}

void exp_proc_kill_group(pid_t pid)
{
    if (pid > 1)
        kill(-pid, SIGKILL);
}

void exp_proc_kill(pid_t pid)
{
    if (pid > 1)
        kill(pid, SIGKILL);
}

void exp_proc_close(struct exp_proc *proc)
{
    if (proc->fd >= 0)
        close(proc->fd);
    *proc = (struct exp_proc){.fd = -1};
}

void exp_proc_describe(int status, struct ebb_str *out)
{
    if (status < 0)
        ebb_str_add(out, "ended, nobody knows how (it was started by an earlier master)");
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        ebb_str_add(out, "was killed by signal 9 from outside; the kernel does that when memory is "
                         "out");
    else if (WIFSIGNALED(status))
        ebb_str_printf(out, "was killed by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    else
        ebb_str_printf(out, "exited with status %d", WEXITSTATUS(status));
}

/* ---- finding ---- */

/* Value of a variable in an environment as /proc has it; NULL = absent. */
static const char *find_variable(const char *environment, size_t length, const char *name,
                                 size_t *value_length)
{
    size_t want = strlen(name);
    for (const char *at = environment, *end = environment + length; at < end;) {
        const char *nul = memchr(at, '\0', (size_t)(end - at));
        size_t n = nul != NULL ? (size_t)(nul - at) : (size_t)(end - at);
        if (n > want && at[want] == '=' && memcmp(at, name, want) == 0) {
            *value_length = n - want - 1;
            return at + want + 1;
        }
        at += n + 1;
    }
    return NULL;
}

/* The allocation in a process's environment; false when there is none, it belongs to another state
 * directory, or it may not be read. *is_zombie: nothing is left but the exit status. */
static bool read_allocation(pid_t pid, const char *state_dir, char allocation[37], bool *is_zombie)
{
    char path[64];
    size_t size = 1 << 17, length = 0, n = 0, prefix = strlen(state_dir);
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *environment = fd >= 0 ? ebb_alloc(size) : NULL;
    bool is_found = false;
    *is_zombie = false;
    if (environment != NULL) {
        for (ssize_t got;
             length < size && (got = read(fd, environment + length, size - length)) > 0;)
            length += (size_t)got;
        *is_zombie = length == 0;
        const char *value = find_variable(environment, length, "EBB_CONFIG", &n);
        is_found = value != NULL && n > prefix && memcmp(value, state_dir, prefix) == 0 &&
                   value[prefix] == '/';
        value = is_found ? find_variable(environment, length, "EBB_ALLOCATION_ID", &n) : NULL;
        is_found = value != NULL && n == 36;
        if (is_found) {
            memcpy(allocation, value, 36);
            allocation[36] = '\0';
        }
    }
    ebb_free(environment);
    if (fd >= 0)
        close(fd);
    return is_found;
}

struct scan {
    const struct exp_proc_scan *options;
    struct exp_proc_found *items;
    size_t count, capacity;
};

static enum ebb_status look_at(struct scan *scan, pid_t pid, struct ebb_error *err)
{
    struct exp_proc_found found = {.pid = pid};
    const struct exp_proc_scan *o = scan->options;
    bool is_zombie;
    if (pid <= 1 || pid == getpid() || (o->keeps != NULL && o->keeps(o->context, pid)))
        return EBB_OK;
    if (!read_allocation(pid, o->state_dir, found.allocation, &is_zombie)) {
        if (is_zombie && o->only_children)
            waitpid(pid, NULL, WNOHANG);
        return EBB_OK;
    }
    found.is_leader = getpgid(pid) == pid;
    EBB_TRY(ebb_grow(&scan->items, &scan->capacity, scan->count + 1, sizeof *scan->items, err));
    scan->items[scan->count++] = found;
    return EBB_OK;
}

static enum ebb_status scan_all(struct scan *scan, struct ebb_error *err)
{
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        return ebb_fail(err, EBB_EIO, "cannot list /proc: %s", strerror(errno));
    enum ebb_status status = EBB_OK;
    for (struct dirent *e; status == EBB_OK && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            status = look_at(scan, (pid_t)strtol(e->d_name, NULL, 10), err);
    closedir(dir);
    return status;
}

/* Of every thread: a child belongs to the thread that made it. */
static enum ebb_status scan_children(struct scan *scan, struct ebb_error *err)
{
    char path[64], text[65536];
    DIR *dir = opendir("/proc/self/task");
    enum ebb_status status = EBB_OK;
    for (struct dirent *e; dir != NULL && status == EBB_OK && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%.20s/children", e->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
        if (fd >= 0)
            close(fd);
        text[n > 0 ? n : 0] = '\0';
        char *at = text, *end = text;
        for (long pid; status == EBB_OK && (pid = strtol(at, &end, 10)) > 0 && end != at; at = end)
            status = look_at(scan, (pid_t)pid, err);
    }
    if (dir != NULL)
        closedir(dir);
    return status;
}

enum ebb_status exp_proc_scan(const struct exp_proc_scan *options, struct exp_proc_found **found,
                              size_t *count, struct ebb_error *err)
{
    struct scan scan = {.options = options};
    enum ebb_status status =
        options->only_children ? scan_children(&scan, err) : scan_all(&scan, err);
    if (status != EBB_OK) {
        ebb_free(scan.items);
        return status;
    }
    *found = scan.items;
    *count = scan.count;
    return EBB_OK;
}

bool exp_proc_can_mount(void)
{
    static const struct exp_bind_mount self = {
        .host_path = "/tmp", .container_path = "/tmp", .propagation = "rprivate"};
    char name[] = "/bin/true", *argv[] = {name, NULL}, *envp[] = {NULL};
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct exp_spawn spawn = {.argv = argv,
                              .envp = envp,
                              .work_dir = "/",
                              .log = null,
                              .mounts = &self,
                              .mount_count = 1,
                              .shm_bytes = -1};
    struct exp_proc proc;
    bool is_able = null >= 0 && exp_proc_spawn(&spawn, &proc, NULL) == EBB_OK;
    if (is_able) {
        waitpid(proc.pid, NULL, 0);
        exp_proc_close(&proc);
    }
    if (null >= 0)
        close(null);
    return is_able;
}
