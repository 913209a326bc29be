/* chain.c - the smallest real trial: a process that speaks the protocol of
 * docs/trial-protocol.md and whose "weights" are a hash chain over its batches. The same
 * sample and seed give the same weights and metrics, however often it is killed and resumed; a step
 * trained twice or left out changes them. It uses nothing of ebb, so that it checks the protocol as
 * written.
 *
 *     chain [--sleep-ms N] [--MODE]        modes, for tests of what trials may do to a master:
 *       --flood      1 GB on standard output     --silent    connects, never answers
 *       --mute       never connects              --garbage   nonsense on the socket
 *       --fork       leaves children behind      --suicide   SIGKILL to itself in step 2
 *       --hog        takes memory until it fails --quit      exits 0 in the middle
 *       --invalid    calls its sample invalid    --wrong     answers what was not asked
 *       --nan        reports NaN as metric       --link      a checkpoint with a link in it
 *       --fail       says FAILED, exits 1        --linger    does not end when told to
 *       --insist     says HELLO three times      --usurp     says HELLO in another's name, too
 *       --alias      a checkpoint with links to its own file
 *       --no-room    the first time: says FAILED for want of room on the disk
 *       --waits      a full disk is waited for when a checkpoint is written
 *       --flat       reports the same metric always, and better "other" ones */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINE 65536
#define MAX_TOLD 8 /* batches of a step whose metrics are told one by one */

struct trial {
    const char *mode;
    long sleep_ms;
    uint64_t weights;
    long long step; /* last trained */
    int fd;
    char in[MAX_LINE];
    size_t have;
    char done[4096]; /* the last DONE, until it is acknowledged */
    long long seq, acked;
    char last_kind[64];
    long long last_step;
};

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void nap(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

/* The value behind "key": in a line; enough for lines of a master. */
static const char *find(const char *line, const char *key)
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *at = strstr(line, quoted);
    if (at == NULL)
        return NULL;
    at += strlen(quoted);
    while (*at == ' ' || *at == ':')
        at++;
    return at;
}

static long long number(const char *line, const char *key, long long fallback)
{
    const char *at = find(line, key);
    return at != NULL ? strtoll(at, NULL, 10) : fallback;
}

static void text(const char *line, const char *key, char *out, size_t size)
{
    const char *at = find(line, key);
    size_t n = 0;
    out[0] = '\0';
    if (at == NULL || *at != '"')
        return;
    for (at++; *at != '\0' && *at != '"' && n + 1 < size; at++)
        out[n++] = *at;
    out[n] = '\0';
}

/* ---- the connection ---- */

static int is_mode(const struct trial *t, const char *mode)
{
    return strcmp(t->mode, mode) == 0;
}

static int dial(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", env("EBB_SOCKET"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int put(struct trial *t, const char *line)
{
    size_t length = strlen(line), at = 0;
    while (t->fd >= 0 && at < length) {
        ssize_t n = send(t->fd, line + at, length - at, MSG_NOSIGNAL);
        if (n <= 0 && errno != EINTR)
            return -1;
        at += n > 0 ? (size_t)n : 0;
    }
    return t->fd >= 0 ? 0 : -1;
}

static void reconnect(struct trial *t)
{
    char hello[256];
    double until = now() + 60;
    if (t->fd >= 0)
        close(t->fd);
    t->have = 0;
    snprintf(hello, sizeof hello,
             "{\"type\":\"HELLO\",\"protocol\":1,\"allocation\":\"%s\",\"trial_id\":%s}\n",
             env("EBB_ALLOCATION_ID"), env("EBB_TRIAL_ID"));
    for (;;) {
        t->fd = dial();
        if (is_mode(t, "--insist")) {
            put(t, hello);
            put(t, hello);
        }
        if (t->fd >= 0 && put(t, hello) == 0 && (t->acked == t->seq || put(t, t->done) == 0))
            return;
        if (t->fd >= 0)
            close(t->fd);
        if (now() > until)
            exit(75);
        nap(100);
    }
}

/* One line, without its end. */
static void get(struct trial *t, char *line, size_t size)
{
    for (;;) {
        char *eol = memchr(t->in, '\n', t->have);
        if (eol != NULL) {
            size_t n = (size_t)(eol - t->in), keep = n < size - 1 ? n : size - 1;
            memcpy(line, t->in, keep);
            line[keep] = '\0';
            t->have -= n + 1;
            memmove(t->in, eol + 1, t->have);
            return;
        }
        ssize_t n = recv(t->fd, t->in + t->have, sizeof t->in - t->have, 0);
        if (n > 0)
            t->have += (size_t)n;
        else if (n == 0 || errno != EINTR)
            reconnect(t);
    }
}

static void finish(struct trial *t, const char *kind, long long step, double start,
                   const char *metrics)
{
    t->seq++;
    snprintf(t->done, sizeof t->done,
             "{\"type\":\"DONE\",\"seq\":%lld,\"workload\":{\"kind\":\"%s\",\"step_id\":%lld},"
             "\"start\":%.6f,\"end\":%.6f,\"metrics\":%s}\n",
             t->seq, kind, step, start, now(), metrics);
    snprintf(t->last_kind, sizeof t->last_kind, "%s", kind);
    t->last_step = step;
    (void)put(t, t->done); /* lost: sent again after the reconnect */
}

/* ---- work ---- */

static double metric(const struct trial *t)
{
    return (double)(mix(t->weights) >> 11) * 0x1p-53;
}

static void train(struct trial *t, long long step, long long batches)
{
    char metrics[1024];
    char each[MAX_TOLD * 40] = "";
    int at = 0;
    double start = now();
    if (step != t->step + 1) {
        printf("asked for step %lld after step %lld\n", step, t->step);
        exit(3);
    }
    if (is_mode(t, "--suicide") && step == 2)
        kill(getpid(), SIGKILL);
    if (is_mode(t, "--quit") && step == 2)
        exit(0);
    for (long long b = 0; b < batches; b++) {
        t->weights = mix(t->weights ^ (uint64_t)((step - 1) * batches + b));
        if (batches <= MAX_TOLD)
            at += snprintf(each + at, sizeof each - (size_t)at, "%s{\"loss\":%.17g}", b ? "," : "",
                           metric(t));
    }
    if (t->sleep_ms > 0)
        nap(t->sleep_ms);
    t->step = step;
    snprintf(metrics, sizeof metrics,
             "{\"num_inputs\":%lld,\"batch_metrics\":[%s],\"avg_metrics\":{\"loss\":%.17g}}",
             batches, each, metric(t));
    finish(t, "RUN_STEP", step, start, metrics);
}

static void validate(struct trial *t, long long step)
{
    char metrics[256];
    double start = now();
    if (is_mode(t, "--nan"))
        snprintf(metrics, sizeof metrics,
                 "{\"num_inputs\":1,\"validation_metrics\":{\"error\":\"NaN\"}}");
    else if (is_mode(t, "--flat"))
        snprintf(metrics, sizeof metrics,
                 "{\"num_inputs\":1,\"validation_metrics\":{\"error\":0.5,\"other\":%lld}}", step);
    else
        snprintf(metrics, sizeof metrics,
                 "{\"num_inputs\":1,\"validation_metrics\":{\"error\":%.17g}}", metric(t));
    finish(t, "COMPUTE_VALIDATION_METRICS", step, start, metrics);
}

static int write_weights(const struct trial *t, const char *path, long long step)
{
    char file[3100];
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return 0;
    snprintf(file, sizeof file, "%s/state", path);
    if (mkdir(file, 0777) != 0 && errno != EEXIST)
        return 0;
    snprintf(file, sizeof file, "%s/state/weights", path);
    FILE *out = fopen(file, "w");
    if (out == NULL)
        return 0;
    int is_written = fprintf(out, "%lld %llu\n", step, (unsigned long long)t->weights) > 0;
    int is_there = fclose(out) == 0; /* says that there is no room, too */
    return is_written && is_there;
}

static void save(struct trial *t, const char *line, long long step)
{
    char path[3000], file[3100];
    double start = now();
    text(line, "path", path, sizeof path);
    while (!write_weights(t, path, step)) {
        if (!is_mode(t, "--waits") || errno != ENOSPC) {
            printf("cannot save %s: %s\n", path, strerror(errno));
            exit(4);
        }
        nap(50);
        put(t, "{\"type\":\"HEARTBEAT\",\"batch\":0}\n");
    }
    if (is_mode(t, "--alias")) {
        char target[3100];
        snprintf(file, sizeof file, "%s/state/alias", path);
        snprintf(target, sizeof target, "%s/state/weights", path);
        if (symlink("weights", file) != 0)
            exit(4);
        snprintf(file, sizeof file, "%s/state/absolute", path);
        if (symlink(target, file) != 0)
            exit(4);
    }
    if (is_mode(t, "--link")) {
        snprintf(file, sizeof file, "%s/state/passwd", path);
        if (symlink("/etc/passwd", file) != 0)
            exit(4);
    }
    finish(t, "CHECKPOINT_MODEL", step, start, "{}");
}

static void load(struct trial *t)
{
    char path[3000], file[3100];
    const char *from = env("EBB_LATEST_CHECKPOINT");
    unsigned long long weights;
    t->weights = mix(strtoull(env("EBB_TRIAL_SEED"), NULL, 10));
    for (const char *c = env("EBB_HPARAMS"); *c != '\0'; c++)
        t->weights = mix(t->weights ^ (uint64_t)*c);
    if (from[0] == '\0')
        return;
    text(from, "path", path, sizeof path);
    snprintf(file, sizeof file, "%s/state/weights", path);
    FILE *in = fopen(file, "r");
    if (in == NULL || fscanf(in, "%lld %llu", &t->step, &weights) != 2) {
        printf("cannot load %s: %s\n", file, strerror(errno));
        exit(5);
    }
    fclose(in);
    t->weights = weights;
    if (strstr(from, "\"is_warm_start\": true") != NULL)
        t->step = 0;
    else if (number(from, "step_id", -1) != t->step)
        exit(6);
}

/* ---- misbehaviour ---- */

static void leave_children(void)
{
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            if (i == 2)
                setsid(); /* out of the process group */
            if (i == 1)
                signal(SIGTERM, SIG_IGN);
            for (;;)
                pause();
        }
}

static void misbehave(struct trial *t)
{
    if (is_mode(t, "--mute"))
        for (;;)
            pause();
    if (is_mode(t, "--fork"))
        leave_children();
    if (is_mode(t, "--flood")) {
        static char line[4096];
        memset(line, 'x', sizeof line);
        for (size_t i = 99; i < sizeof line; i += 100)
            line[i] = '\n';
        for (long i = 0; i < (1L << 30) / (long)sizeof line; i++)
            if (write(1, line, sizeof line) < 0)
                break;
        printf("these are the last words\n");
    }
    if (is_mode(t, "--hog")) {
        for (size_t total = 0; total < (size_t)8 << 30; total += 1 << 20) {
            char *volatile p = malloc(1 << 20); /* or a compiler leaves it out */
            if (p == NULL) {
                printf("no memory after %zu bytes\n", total);
                exit(9);
            }
            memset(p, 1, 1 << 20);
        }
    }
}

/* ---- the loop ---- */

static void answer(struct trial *t, const char *line)
{
    char kind[64];
    long long step = number(line, "step_id", -1);
    text(line, "kind", kind, sizeof kind);
    if (strcmp(kind, "TERMINATE") == 0) {
        if (is_mode(t, "--linger"))
            for (;;)
                pause();
        exit(0);
    }
    if (step == t->last_step && strcmp(kind, t->last_kind) == 0) { /* a repetition */
        if (t->acked < t->seq)
            (void)put(t, t->done);
        return;
    }
    if (is_mode(t, "--silent"))
        for (;;)
            pause();
    if (is_mode(t, "--usurp"))
        put(t, "{\"type\":\"HELLO\",\"protocol\":1,\"allocation\":\"x\",\"trial_id\":1}\n");
    if (is_mode(t, "--garbage"))
        (void)put(t, "\x01\xff{]} this is no JSON\n");
    if (is_mode(t, "--wrong"))
        finish(t, "RUN_STEP", step + 7, now(), "{}");
    bool is_full = is_mode(t, "--no-room") && mkdir("full-once", 0777) == 0;
    if (is_mode(t, "--invalid") || is_mode(t, "--fail") || is_full) {
        char failed[256];
        snprintf(failed, sizeof failed,
                 "{\"type\":\"FAILED\",\"workload\":{\"kind\":\"%s\",\"step_id\":%lld},"
                 "\"reason\":\"%s\",\"kind\":\"%s\"}\n",
                 kind, step, is_full ? "OSError: [Errno 28] No space left on device" : "because",
                 is_mode(t, "--invalid") ? "INVALID_HP" : "ERRORED");
        (void)put(t, failed);
        exit(1);
    }
    if (strcmp(kind, "RUN_STEP") == 0)
        train(t, step, number(line, "num_batches", 1));
    else if (strcmp(kind, "COMPUTE_VALIDATION_METRICS") == 0)
        validate(t, step);
    else if (strcmp(kind, "CHECKPOINT_MODEL") == 0)
        save(t, line, step);
}

int main(int argc, char **argv)
{
    static struct trial t = {.mode = "", .fd = -1, .last_step = -1};
    static char line[MAX_LINE];
    char type[32];
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--sleep-ms") == 0 && i + 1 < argc)
            t.sleep_ms = strtol(argv[++i], NULL, 10);
        else
            t.mode = argv[i];
    }
    load(&t);
    printf("trial %s begins at step %lld\n", env("EBB_TRIAL_ID"), t.step);
    misbehave(&t);
    reconnect(&t);
    for (;;) {
        get(&t, line, sizeof line);
        text(line, "type", type, sizeof type);
        if (strcmp(type, "ACK") == 0 && number(line, "seq", 0) == t.seq)
            t.acked = t.seq;
        else if (strcmp(type, "REFUSED") == 0)
            exit(1);
        else if (strcmp(type, "RUN") == 0)
            answer(&t, line);
    }
}
