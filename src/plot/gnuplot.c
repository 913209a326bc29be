/* gnuplot.c - see gnuplot.h. */
#include "plot/gnuplot.h"

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
#include "base/heap.h"

#define FIRST_FD 10 /* ours stay above what the child's 0..3 are made from */

enum { SCRIPT, PICTURE, WORDS, ALIVE_READ, ALIVE_WRITE, FD_COUNT };

struct run {
    int fd[FD_COUNT]; /* -1 = none */
    pid_t pid;
};

/* Move a descriptor out of the way of 0..3; the original is closed. */
static int raise_fd(int fd)
{
    if (fd < 0)
        return -1;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
    int saved = errno;
    close(fd);
    errno = saved;
    return high;
}

static enum ebb_status open_files(struct run *r, const char *script, size_t length,
                                  struct ebb_error *err)
{
    int ends[2];
    r->fd[SCRIPT] = raise_fd(memfd_create("ebb-plot", MFD_CLOEXEC));
    r->fd[PICTURE] = raise_fd(memfd_create("ebb-plot", MFD_CLOEXEC));
    r->fd[WORDS] = raise_fd(memfd_create("ebb-plot", MFD_CLOEXEC));
    if (pipe2(ends, O_CLOEXEC) == 0) {
        r->fd[ALIVE_READ] = raise_fd(ends[0]);
        r->fd[ALIVE_WRITE] = raise_fd(ends[1]);
    }
    for (int i = 0; i < FD_COUNT; i++)
        if (r->fd[i] < 0)
            return ebb_fail(err, EBB_EIO, "plot: cannot open a file in memory: %s",
                            strerror(errno));
    for (size_t at = 0; at < length;) {
        ssize_t n = write(r->fd[SCRIPT], script + at, length - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ebb_fail(err, EBB_EIO, "plot: cannot hold a script of %zu bytes: %s", length,
                            strerror(errno));
        at += (size_t)n;
    }
    if (lseek(r->fd[SCRIPT], 0, SEEK_SET) != 0)
        return ebb_fail(err, EBB_EIO, "plot: %s", strerror(errno));
    return EBB_OK;
}

/* The environment without what would change the picture: locale, default terminal, gnuplot's search
 * paths. */
static char **make_environment(void)
{
    static const char *const dropped[] = {"LC_",     "LANG=",     "LANGUAGE=", "GNUTERM",
                                          "GNUPLOT", "GNUFITLOG", "GDFONTPATH"};
    static char locale[] = "LC_ALL=C.UTF-8";
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **env = ebb_calloc(count + 2, sizeof *env);
    for (size_t i = 0; env != NULL && i < count; i++) {
        bool is_dropped = false;
        for (size_t k = 0; k < sizeof dropped / sizeof dropped[0]; k++)
            is_dropped = is_dropped || strncmp(environ[i], dropped[k], strlen(dropped[k])) == 0;
        if (!is_dropped)
            env[kept++] = environ[i];
    }
    if (env != NULL)
        env[kept] = locale;
    return env;
}

static enum ebb_status start_error(int code, struct ebb_error *err)
{
    if (code == ENOENT || code == EACCES || code == ENOTDIR)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "plot: charts are drawn by gnuplot, which is not installed here: "
                        "apt-get install gnuplot-nox");
    return ebb_fail(err, EBB_EIO, "plot: cannot start gnuplot: %s", strerror(code));
}

static enum ebb_status start(struct run *r, char **argv, struct ebb_error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    char **env = make_environment();
    if (env == NULL)
        return ebb_no_memory(err, sizeof *env);
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0) {
        ebb_free(env);
        return start_error(code, err);
    }
    code = posix_spawnattr_init(&attributes);
    if (code != 0) {
        posix_spawn_file_actions_destroy(&actions);
        ebb_free(env);
        return start_error(code, err);
    }
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGTERM);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    code = posix_spawn_file_actions_adddup2(&actions, r->fd[SCRIPT], 0);
    code = code != 0 ? code : posix_spawn_file_actions_adddup2(&actions, r->fd[PICTURE], 1);
    code = code != 0 ? code : posix_spawn_file_actions_adddup2(&actions, r->fd[WORDS], 2);
    code = code != 0 ? code : posix_spawn_file_actions_adddup2(&actions, r->fd[ALIVE_WRITE], 3);
    if (code == 0)
        code = posix_spawnp(&r->pid, argv[0], &actions, &attributes, argv, env);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    ebb_free(env);
    return code != 0 ? start_error(code, err) : EBB_OK;
}

/* The child holds the only other end of a pipe: it closes when the child is gone, and poll can wait
 * for that with a limit, which waitpid cannot. */
static bool wait_end(struct run *r, uint64_t timeout_ns)
{
    uint64_t begin = ebb_clock_ns(), now = begin;
    close(r->fd[ALIVE_WRITE]);
    r->fd[ALIVE_WRITE] = -1;
    while (now - begin < timeout_ns) {
        struct pollfd p = {.fd = r->fd[ALIVE_READ], .events = POLLIN};
        uint64_t left_ms = (timeout_ns - (now - begin)) / 1000000 + 1;
        if (poll(&p, 1, left_ms < 1000 ? (int)left_ms : 1000) > 0)
            return true;
        now = ebb_clock_ns();
    }
    return false;
}

static enum ebb_status read_back(int fd, struct ebb_str *out, size_t max_bytes,
                                 struct ebb_error *err)
{
    char block[16384];
    size_t total = 0;
    if (lseek(fd, 0, SEEK_SET) != 0)
        return ebb_fail(err, EBB_EIO, "plot: %s", strerror(errno));
    while (total < max_bytes) {
        size_t want = max_bytes - total < sizeof block ? max_bytes - total : sizeof block;
        ssize_t n = read(fd, block, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ebb_fail(err, EBB_EIO, "plot: cannot read the picture: %s", strerror(errno));
        if (n == 0)
            break;
        ebb_str_addn(out, block, (size_t)n);
        total += (size_t)n;
    }
    return ebb_str_status(out, err);
}

/* gnuplot repeats the offending line and points at it; the reason follows "line N: ". */
static enum ebb_status child_error(const struct run *r, const char *program, int wait_status,
                                   struct ebb_error *err)
{
    struct ebb_str words;
    ebb_str_init(&words);
    read_back(r->fd[WORDS], &words, 4096, NULL);
    const char *text = ebb_str_c(&words), *reason = strstr(text, ", line ");
    reason = reason != NULL ? reason + 2 : text;
    while (*reason == '\n' || *reason == ' ')
        reason++;
    int length = (int)strcspn(reason, "\n");
    enum ebb_status status;
    if (WIFSIGNALED(wait_status))
        status = ebb_fail(err, EBB_EIO, "plot: %s was ended by signal %d", program,
                          WTERMSIG(wait_status));
    else if (WEXITSTATUS(wait_status) == 127)
        status = start_error(ENOENT, err);
    else
        status = ebb_fail(err, EBB_EIO, "plot: %s failed (exit %d): %.*s", program,
                          WEXITSTATUS(wait_status), length < 300 ? length : 300,
                          length > 0 ? reason : "no message");
    ebb_str_fini(&words);
    return status;
}

/* One program from start to end; its output is appended to out. */
static enum ebb_status run_program(char **argv, const char *input, size_t length,
                                   uint64_t timeout_ns, struct ebb_str *out, struct ebb_error *err)
{
    struct run r = {.fd = {-1, -1, -1, -1, -1}};
    enum ebb_status status = open_files(&r, input, length, err);
    if (status == EBB_OK)
        status = start(&r, argv, err);
    if (status != EBB_OK)
        goto out;
    bool in_time = wait_end(&r, timeout_ns);
    if (!in_time)
        kill(r.pid, SIGKILL);
    int wait_status = 0;
    while (waitpid(r.pid, &wait_status, 0) < 0 && errno == EINTR)
        ;
    size_t before = out->length;
    if (!in_time)
        status = ebb_fail(err, EBB_ELIMIT, "plot: %s did not end within %.3g s and was ended",
                          argv[0], (double)timeout_ns / 1e9);
    else if (wait_status != 0)
        status = child_error(&r, argv[0], wait_status, err);
    else
        status = read_back(r.fd[PICTURE], out, SIZE_MAX, err);
    if (status == EBB_OK && out->length == before && length > 0)
        status = child_error(&r, argv[0], 0, err); /* a script that drew nothing */
out:
    for (int i = 0; i < FD_COUNT; i++)
        if (r.fd[i] >= 0)
            close(r.fd[i]);
    return status;
}

enum ebb_status plot_gnuplot_run(const char *script, size_t length, uint64_t timeout_ns,
                                 struct ebb_str *out, struct ebb_error *err)
{
    /* -d: no ~/.gnuplot, no system-wide settings. "-": the script is standard input. */
    char program[] = "gnuplot", defaults[] = "-d", dash[] = "-";
    char *argv[] = {program, defaults, dash, NULL};
    return run_program(argv, script, length, timeout_ns, out, err);
}

/* ---- characters without a glyph ----------------------------------------------------------------
 */

#define RARE_MAX                                                                                   \
    64 /* different rare characters asked about; more than that are replaced unasked               \
        */

struct rare {
    uint32_t code[RARE_MAX];
    bool is_drawable[RARE_MAX];
    size_t count;
};

/* What every text font of Debian has (the WGL4 set and its neighbourhood). */
static bool is_common(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0, 0x17f},       {0x384, 0x3ce},   {0x401, 0x45f},   {0x2010, 0x2015}, {0x2018, 0x201e},
        {0x2020, 0x2022}, {0x2026, 0x2026}, {0x2030, 0x2030}, {0x2032, 0x2033}, {0x2039, 0x203a},
        {0x20ac, 0x20ac}, {0x2122, 0x2122}, {0x2190, 0x2195}, {0x2202, 0x2202}, {0x220f, 0x220f},
        {0x2211, 0x2212}, {0x221a, 0x221a}, {0x221e, 0x221e}, {0x2248, 0x2248}, {0x2260, 0x2261},
        {0x2264, 0x2265}, {0x25a0, 0x25a1}, {0x25cf, 0x25cf}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

/* The code point at s of well-formed UTF-8, as scripts are; sets its length. */
static uint32_t decode(const char *s, size_t *bytes)
{
    const unsigned char *u = (const unsigned char *)s;
    *bytes = u[0] < 0x80 ? 1 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
    uint32_t c = *bytes == 1 ? u[0] : u[0] & (0x7fu >> *bytes);
    for (size_t i = 1; i < *bytes; i++)
        c = c << 6 | (u[i] & 0x3fu);
    return c;
}

static bool is_drawable(const struct rare *rare, uint32_t c)
{
    for (size_t i = 0; i < rare->count; i++)
        if (rare->code[i] == c)
            return rare->is_drawable[i];
    return false;
}

/* Is there a font that has all of these? */
static bool have_font(const uint32_t *codes, size_t count)
{
    struct ebb_str pattern, found;
    char program[] = "fc-list", family[] = "family";
    ebb_str_init(&pattern);
    ebb_str_init(&found);
    ebb_str_add(&pattern, ":charset=");
    for (size_t i = 0; i < count; i++)
        ebb_str_printf(&pattern, "%s%x", i > 0 ? " " : "", (unsigned)codes[i]);
    char *argv[] = {program, pattern.data, family, NULL};
    bool ok = ebb_str_status(&pattern, NULL) == EBB_OK &&
              run_program(argv, "", 0, PLOT_TIMEOUT_NS / 6, &found, NULL) == EBB_OK &&
              found.length > 0;
    ebb_str_fini(&pattern);
    ebb_str_fini(&found);
    return ok;
}

void plot_gnuplot_tame(struct ebb_str *script)
{
    struct rare rare = {.count = 0};
    struct ebb_str tamed;
    size_t bytes;
    bool is_clean = true;
    for (const char *s = ebb_str_c(script); *s != '\0'; s += bytes) {
        uint32_t c = decode(s, &bytes);
        if (is_common(c))
            continue;
        is_clean = false;
        size_t i = 0;
        while (i < rare.count && rare.code[i] != c)
            i++;
        if (i == rare.count && rare.count < RARE_MAX)
            rare.code[rare.count++] = c;
    }
    if (is_clean)
        return;
    bool all = have_font(rare.code, rare.count); /* one question answers the usual case */
    for (size_t i = 0; i < rare.count; i++)
        rare.is_drawable[i] = all || (rare.count > 1 && have_font(&rare.code[i], 1));
    ebb_str_init(&tamed);
    for (const char *s = ebb_str_c(script); *s != '\0'; s += bytes) {
        uint32_t c = decode(s, &bytes);
        if (is_common(c) || is_drawable(&rare, c))
            ebb_str_addn(&tamed, s, bytes);
        else
            ebb_str_addc(&tamed, '?');
    }
    tamed.failed = tamed.failed || script->failed;
    ebb_str_fini(script);
    *script = tamed;
}
