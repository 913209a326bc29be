/* process.c - see process.h. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define FIRST_FD 10 /* ours stay above what the child's 0..2 are made from */

enum { INPUT, WORDS, OUTPUT_READ, OUTPUT_WRITE, FD_COUNT };

struct run {
    const char *program;
    int fd[FD_COUNT]; /* -1 = none */
    pid_t pid;
};

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

static void close_fd(struct run *r, int which)
{
    if (r->fd[which] >= 0)
        close(r->fd[which]);
    r->fd[which] = -1;
}

static enum ebb_status open_files(struct run *r, const struct ebb_process *p, struct ebb_error *err)
{
    int ends[2] = {-1, -1};
    r->fd[INPUT] = raise_fd(memfd_create("ebb-input", MFD_CLOEXEC));
    r->fd[WORDS] = raise_fd(memfd_create("ebb-words", MFD_CLOEXEC));
    if (pipe2(ends, O_CLOEXEC) == 0) {
        r->fd[OUTPUT_READ] = raise_fd(ends[0]);
        r->fd[OUTPUT_WRITE] = raise_fd(ends[1]);
    }
    for (int i = 0; i < FD_COUNT; i++)
        if (r->fd[i] < 0)
            return ebb_fail(err, EBB_EIO, "%s: cannot open a file in memory: %s", r->program,
                            strerror(errno));
    for (size_t at = 0; at < p->length;) {
        ssize_t n = write(r->fd[INPUT], p->input + at, p->length - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ebb_fail(err, EBB_EIO, "%s: cannot hold an input of %zu bytes: %s", r->program,
                            p->length, strerror(errno));
        at += (size_t)n;
    }
    if (lseek(r->fd[INPUT], 0, SEEK_SET) != 0)
        return ebb_fail(err, EBB_EIO, "%s: %s", r->program, strerror(errno));
    return EBB_OK;
}

static enum ebb_status start(struct run *r, const struct ebb_process *p, struct ebb_error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGTERM);
    posix_spawn_file_actions_init(&actions); /* glibc: these two cannot fail */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int code = posix_spawn_file_actions_adddup2(&actions, r->fd[INPUT], 0);
    code = code != 0 ? code : posix_spawn_file_actions_adddup2(&actions, r->fd[OUTPUT_WRITE], 1);
    code = code != 0 ? code : posix_spawn_file_actions_adddup2(&actions, r->fd[WORDS], 2);
    code = code != 0 ? code
                     : posix_spawnp(&r->pid, r->program, &actions, &attributes,
                                    (char *const *)(uintptr_t)p->argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (code == ENOENT || code == EACCES || code == ENOTDIR)
        return ebb_fail(err, EBB_EUNSUPPORTED, "%s is not installed here", r->program);
    return code == 0 ? EBB_OK
                     : ebb_fail(err, EBB_EIO, "cannot start %s: %s", r->program, strerror(code));
}

/* Until the child closes its end; false: not in time. */
static bool read_output(struct run *r, uint64_t timeout_ns, struct ebb_str *out)
{
    uint64_t begin = ebb_clock_ns();
    char block[16384];
    close_fd(r, OUTPUT_WRITE);
    for (;;) {
        uint64_t gone = ebb_clock_ns() - begin;
        struct pollfd p = {.fd = r->fd[OUTPUT_READ], .events = POLLIN};
        if (timeout_ns > 0 && gone >= timeout_ns)
            return false;
        uint64_t left_ms = timeout_ns > 0 ? (timeout_ns - gone) / 1000000 + 1 : 1000;
        if (poll(&p, 1, left_ms < 1000 ? (int)left_ms : 1000) <= 0)
            continue;
        ssize_t n = read(r->fd[OUTPUT_READ], block, sizeof block);
        if (n > 0)
            ebb_str_addn(out, block, (size_t)n);
        else if (n == 0 || errno != EINTR)
            return true;
    }
}

static enum ebb_status child_failed(const struct run *r, int state, struct ebb_error *err)
{
    char words[301];
    ssize_t n = pread(r->fd[WORDS], words, sizeof words - 1, 0);
    words[n > 0 ? n : 0] = '\0';
    words[strcspn(words, "\n")] = '\0';
    if (WIFSIGNALED(state))
        return ebb_fail(err, EBB_EIO, "%s was ended by signal %d", r->program, WTERMSIG(state));
    return ebb_fail(err, EBB_EIO, "%s failed (exit %d): %s", r->program, WEXITSTATUS(state),
                    words[0] != '\0' ? words : "no message");
}

enum ebb_status ebb_process_run(const struct ebb_process *process, struct ebb_str *out,
                                struct ebb_error *err)
{
    struct run r = {.program = process->argv[0], .fd = {-1, -1, -1, -1}};
    size_t before = out->length;
    int state = 0;
    enum ebb_status status = open_files(&r, process, err);
    EBB_THEN(status, start(&r, process, err));
    if (status == EBB_OK) {
        bool in_time = read_output(&r, process->timeout_ns, out);
        if (!in_time)
            kill(r.pid, SIGKILL);
        while (waitpid(r.pid, &state, 0) < 0 && errno == EINTR)
            ;
        status = !in_time ? ebb_fail(err, EBB_ELIMIT, "%s did not end within %.3g s and was ended",
                                     r.program, (double)process->timeout_ns / 1e9)
                 : state != 0 ? child_failed(&r, state, err)
                              : ebb_str_status(out, err);
    }
    if (status != EBB_OK && out->length > before) {
        out->length = before;
        out->data[before] = '\0';
    }
    for (int i = 0; i < FD_COUNT; i++)
        close_fd(&r, i);
    return status;
}
