/* process.c - see process.h. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define FIRST_FD 10 /* ours stay above what the child's 0..2 are made from */

enum { INPUT, WORDS, OUTPUT_READ, OUTPUT_WRITE, SAY };

/* ---- starting -------------------------------------------------------------------------------- */

/* Move a descriptor out of the way of 0..2; the original is closed. */
static int raise_fd(int fd)
{
    if (fd < 0)
        return -1;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD), saved = errno;
    close(fd);
    errno = saved;
    return high;
}

static void close_fd(struct ebb_child *c, int which)
{
    if (c->fd[which] >= 0)
        close(c->fd[which]);
    c->fd[which] = -1;
}

static enum ebb_status open_files(struct ebb_child *c, const struct ebb_process *p,
                                  struct ebb_error *err)
{
    int ends[2] = {-1, -1}, both[2] = {-1, -1};
    if (p->talks && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0) {
        c->fd[INPUT] = raise_fd(both[0]);
        c->fd[SAY] = raise_fd(both[1]);
    } else if (!p->talks) {
        c->fd[INPUT] = raise_fd(memfd_create("ebb-input", MFD_CLOEXEC));
    }
    c->fd[WORDS] = raise_fd(memfd_create("ebb-words", MFD_CLOEXEC));
    if (pipe2(ends, O_CLOEXEC) == 0) {
        c->fd[OUTPUT_READ] = raise_fd(ends[0]);
        c->fd[OUTPUT_WRITE] = raise_fd(ends[1]);
    }
    for (int i = 0; i < (p->talks ? EBB_CHILD_FDS : SAY); i++)
        if (c->fd[i] < 0)
            return ebb_fail(err, EBB_EIO, "%s: cannot open a file in memory: %s", c->program,
                            strerror(errno));
    if (p->talks)
        return EBB_OK;
    for (size_t at = 0; at < p->length;) {
        ssize_t n = write(c->fd[INPUT], p->input + at, p->length - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ebb_fail(err, EBB_EIO, "%s: cannot hold an input of %zu bytes: %s", c->program,
                            p->length, strerror(errno));
        at += (size_t)n;
    }
    if (lseek(c->fd[INPUT], 0, SEEK_SET) != 0)
        return ebb_fail(err, EBB_EIO, "%s: %s", c->program, strerror(errno));
    return EBB_OK;
}

/* Signals as usual; `flags` of posix_spawn besides. */
static enum ebb_status spawn(const char *const *argv, posix_spawn_file_actions_t *actions,
                             short flags, pid_t *pid, struct ebb_error *err)
{
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGTERM);
    posix_spawnattr_init(&attributes); /* glibc: cannot fail */
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (unsigned)flags));
    int code =
        posix_spawnp(pid, argv[0], actions, &attributes, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attributes);
    if (code == ENOENT || code == EACCES || code == ENOTDIR)
        return ebb_fail(err, EBB_EUNSUPPORTED, "%s is not installed here", argv[0]);
    return code == 0 ? EBB_OK
                     : ebb_fail(err, EBB_EIO, "cannot start %s: %s", argv[0], strerror(code));
}

static enum ebb_status start(struct ebb_child *c, const struct ebb_process *p, short flags,
                             struct ebb_error *err)
{
    posix_spawn_file_actions_t actions;
    *c = (struct ebb_child){.program = p->argv[0], .fd = {-1, -1, -1, -1, -1}};
    EBB_TRY(open_files(c, p, err));
    posix_spawn_file_actions_init(&actions); /* glibc: cannot fail */
    int code = posix_spawn_file_actions_adddup2(&actions, c->fd[INPUT], 0);
    code = code != 0 ? code : posix_spawn_file_actions_adddup2(&actions, c->fd[OUTPUT_WRITE], 1);
    if (!p->talks)
        code = code != 0 ? code : posix_spawn_file_actions_adddup2(&actions, c->fd[WORDS], 2);
    if (p->folder)
        code = code != 0 ? code : posix_spawn_file_actions_addchdir_np(&actions, p->folder);
    enum ebb_status status =
        code == 0 ? spawn(p->argv, &actions, flags, &c->pid, err)
                  : ebb_fail(err, EBB_EIO, "cannot start %s: %s", c->program, strerror(code));
    posix_spawn_file_actions_destroy(&actions);
    close_fd(c, OUTPUT_WRITE);
    if (p->talks)
        close_fd(c, INPUT);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Append what has come to `to`; false: nothing has, until the deadline (0 = none). */
static bool pull(struct ebb_child *c, uint64_t deadline_ns, struct ebb_str *to)
{
    char block[16384];
    for (;;) {
        uint64_t now = ebb_clock_ns();
        struct pollfd p = {.fd = c->fd[OUTPUT_READ], .events = POLLIN};
        if (deadline_ns > 0 && now >= deadline_ns)
            return false;
        uint64_t left_ms = deadline_ns > 0 ? (deadline_ns - now) / 1000000 + 1 : 1000;
        if (poll(&p, 1, left_ms < 1000 ? (int)left_ms : 1000) <= 0)
            continue;
        ssize_t n = read(c->fd[OUTPUT_READ], block, sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
        if (n > 0)
            ebb_str_addn(to, block, (size_t)n);
        c->is_silent = n <= 0;
        return true;
    }
}

/* ---- ending ---------------------------------------------------------------------------------- */

static enum ebb_status failed(const struct ebb_child *c, int state, struct ebb_error *err)
{
    char words[301];
    ssize_t n = pread(c->fd[WORDS], words, sizeof words - 1, 0);
    words[n > 0 ? n : 0] = '\0';
    words[strcspn(words, "\n")] = '\0';
    if (WIFSIGNALED(state))
        return ebb_fail(err, EBB_EIO, "%s was ended by signal %d", c->program, WTERMSIG(state));
    return ebb_fail(err, EBB_EIO, "%s failed (exit %d): %s", c->program, WEXITSTATUS(state),
                    words[0] != '\0' ? words : "no message");
}

static void fini(struct ebb_child *c)
{
    ebb_str_fini(&c->text);
    for (int i = 0; i < EBB_CHILD_FDS; i++)
        close_fd(c, i);
}

static int reap(struct ebb_child *c)
{
    int state = 0;
    while (waitpid(c->pid, &state, 0) < 0 && errno == EINTR)
        ;
    c->pid = 0;
    return state;
}

/* Until it has ended, unreaped, so that its number stays its own. */
static bool ends_within(const struct ebb_child *c, uint64_t timeout_ns)
{
    uint64_t begin = ebb_clock_ns();
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == c->pid)
            return true;
        if (ebb_clock_ns() - begin >= timeout_ns)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* ---- the three ways -------------------------------------------------------------------------- */

enum ebb_status ebb_process_run(const struct ebb_process *process, struct ebb_str *out,
                                struct ebb_error *err)
{
    struct ebb_child c;
    size_t before = out->length;
    uint64_t limit = process->timeout_ns;
    enum ebb_status status = start(&c, process, 0, err);
    if (status == EBB_OK) {
        uint64_t deadline = limit > 0 ? ebb_clock_ns() + limit : 0;
        bool in_time = true;
        while (in_time && !c.is_silent)
            in_time = pull(&c, deadline, out);
        if (!in_time)
            kill(c.pid, SIGKILL);
        int state = reap(&c);
        status = !in_time ? ebb_fail(err, EBB_ELIMIT, "%s did not end within %.3g s and was ended",
                                     c.program, (double)limit / 1e9)
                 : state != 0 ? failed(&c, state, err)
                              : ebb_str_status(out, err);
    }
    if (status != EBB_OK && out->length > before) {
        out->length = before;
        out->data[before] = '\0';
    }
    fini(&c);
    return status;
}

enum ebb_status ebb_child_start(struct ebb_child *child, const struct ebb_process *process,
                                struct ebb_error *err)
{
    enum ebb_status status = start(child, process, POSIX_SPAWN_SETPGROUP, err);
    if (status != EBB_OK)
        fini(child);
    return status;
}

enum ebb_status ebb_child_line(struct ebb_child *c, uint64_t timeout_ns, const char **line,
                               struct ebb_error *err)
{
    uint64_t deadline = ebb_clock_ns() + timeout_ns;
    size_t looked = c->at;
    for (;;) {
        char *begin = c->text.data ? c->text.data + c->at : NULL;
        size_t rest = c->text.length - c->at;
        char *end = rest ? memchr(c->text.data + looked, '\n', c->text.length - looked) : NULL;
        if (end || (c->is_silent && rest > 0)) {
            *line = begin;
            c->at = end ? (size_t)(end - c->text.data) + 1 : c->text.length;
            if (end)
                *end = '\0';
            return EBB_OK;
        }
        *line = NULL;
        if (c->is_silent)
            return ebb_str_status(&c->text, err);
        if (c->at > 0 && rest > 0) /* lines that were handed out make room */
            memmove(c->text.data, begin, rest + 1);
        c->text.length = looked = rest;
        c->at = 0;
        if (!pull(c, deadline, &c->text))
            return ebb_fail(err, EBB_ELIMIT, "%s has said nothing for %.3g s", c->program,
                            (double)timeout_ns / 1e9);
    }
}

enum ebb_status ebb_child_say(struct ebb_child *c, const char *text, size_t length,
                              struct ebb_error *err)
{
    for (size_t at = 0; at < length;) {
        ssize_t n = send(c->fd[SAY], text + at, length - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ebb_fail(err, EBB_EIO, "%s does not listen: %s", c->program, strerror(errno));
        at += (size_t)n;
    }
    return EBB_OK;
}

/* As much as has come, at most `most` bytes; 0: the output has ended, or nothing came in time. */
static size_t pull_bytes(struct ebb_child *c, uint64_t deadline_ns, void *to, size_t most)
{
    for (;;) {
        uint64_t now = ebb_clock_ns();
        struct pollfd p = {.fd = c->fd[OUTPUT_READ], .events = POLLIN};
        if (now >= deadline_ns)
            return 0;
        uint64_t left_ms = (deadline_ns - now) / 1000000 + 1;
        if (poll(&p, 1, left_ms < 1000 ? (int)left_ms : 1000) <= 0)
            continue;
        ssize_t n = read(c->fd[OUTPUT_READ], to, most);
        if (n < 0 && errno == EINTR)
            continue;
        c->is_silent = n <= 0;
        return n > 0 ? (size_t)n : 0;
    }
}

enum ebb_status ebb_child_bytes(struct ebb_child *c, uint64_t timeout_ns, void *to, size_t count,
                                struct ebb_error *err)
{
    char nowhere[4096];
    uint64_t deadline = ebb_clock_ns() + timeout_ns;
    size_t rest = c->text.length - c->at, done = rest < count ? rest : count;
    if (to && done)
        memcpy(to, c->text.data + c->at, done);
    c->at += done;
    while (done < count) {
        size_t left = count - done, most = to || left < sizeof nowhere ? left : sizeof nowhere;
        size_t n =
            c->is_silent ? 0 : pull_bytes(c, deadline, to ? (char *)to + done : nowhere, most);
        if (n == 0 && c->is_silent)
            return ebb_fail(err, EBB_EIO, "%s ended after %zu of %zu bytes", c->program, done,
                            count);
        if (n == 0)
            return ebb_fail(err, EBB_ELIMIT, "%s has said %zu of %zu bytes in %.3g s", c->program,
                            done, count, (double)timeout_ns / 1e9);
        done += n;
    }
    return EBB_OK;
}

enum ebb_status ebb_child_end(struct ebb_child *c, uint64_t timeout_ns, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    if (c->pid > 0) {
        (void)ends_within(c, timeout_ns);
        kill(-c->pid, SIGKILL);
        int state = reap(c);
        status = state != 0 ? failed(c, state, err) : EBB_OK;
    }
    fini(c);
    return status;
}

void ebb_die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* gone before that */
        kill(getpid(), SIGKILL);
}

enum ebb_status ebb_process_leave(const char *const *argv, const char *log, pid_t *pid,
                                  struct ebb_error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions); /* glibc: cannot fail */
    int code = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    code = code != 0 ? code
                     : posix_spawn_file_actions_addopen(&actions, 1, log,
                                                        O_WRONLY | O_CREAT | O_TRUNC, 0600);
    code = code != 0 ? code : posix_spawn_file_actions_adddup2(&actions, 1, 2);
    enum ebb_status status =
        code == 0 ? spawn(argv, &actions, POSIX_SPAWN_SETSID, pid, err)
                  : ebb_fail(err, EBB_EIO, "cannot start %s: %s", argv[0], strerror(code));
    posix_spawn_file_actions_destroy(&actions);
    return status;
}
