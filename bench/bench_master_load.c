/* bench_master_load.c - trials per second of a master with durability on, and listing many
 * experiments.
 *
 *     bench_master_load [EXPERIMENTS [TRIALS [SLOTS [DIRECTORY [PAGES]]]]]      (200 50 8 . 0)
 *
 * With PAGES the same load seven times more, without and with so many pages open in turn: each has a
 * stream of events and asks for what a page shows, four times a second; the bar is 95 % of the trials
 * per second without them, and no turn of more than 50 ms of the master's processor.
 *
 * Every trial is a process of tests/trial/chain.c that trains one step, validates and checkpoints.
 * The bar is min(200, 0.3 x the fdatasync rate measured in the same directory) trials per second,
 * the master below 200 MB, and a list over 100,000 experiments within 100 ms. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "../tests/exp_db_text.h"
#include "serve/serve.h"

#define WATCHED 7 /* loads without pages and with them in turn; odd */

static int fail(const char *what, const struct ebb_error *err)
{
    fprintf(stderr, "bench_master_load: %s: %s\n", what, err->message);
    return 1;
}

static double sync_rate(const char *dir)
{
    char path[600];
    static char block[4096];
    int count = 0;
    snprintf(path, sizeof path, "%s/sync", dir);
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    uint64_t start = ebb_clock_ns(), now;
    do {
        if (fd < 0 || pwrite(fd, block, sizeof block, (count % 256) * 4096) < 0 ||
            fdatasync(fd) != 0)
            break;
        count++;
        now = ebb_clock_ns();
    } while (now - start < 2000000000u);
    now = ebb_clock_ns();
    if (fd >= 0)
        close(fd);
    unlink(path);
    return (double)count * 1e9 / (double)(now - start);
}

static double resident_mb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static char *submission(int trials)
{
    struct ebb_str yaml, body;
    struct ebb_json_writer w;
    ebb_str_init(&yaml);
    ebb_str_init(&body);
    ebb_str_printf(&yaml,
                   "entrypoint: [\"%s\"]\n"
                   "hyperparameters: {global_batch_size: 1, x: {type: double, minval: 0, maxval: "
                   "1}}\n"
                   "searcher: {name: random, metric: error, max_steps: 1, max_trials: %d}\n"
                   "batches_per_step: 1\ncheckpoint_policy: all\n",
                   EBB_TRIAL_CHAIN, trials);
    ebb_jsonw_init(&w, &body, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "experiment_config");
    ebb_jsonw_string(&w, ebb_str_c(&yaml));
    ebb_jsonw_key(&w, "activate");
    ebb_jsonw_bool(&w, true);
    ebb_jsonw_object_end(&w);
    ebb_str_fini(&yaml);
    return ebb_str_take(&body);
}

static int ask(struct exp_master *m, const char *method, const char *target, const char *body,
               size_t *bytes)
{
    struct serve_http_response response;
    struct serve_http_request request = {
        .method = method, .target = target, .body = body, .body_length = body ? strlen(body) : 0};
    serve_http_response_init(&response);
    serve_request(m, &request, &response);
    int status = response.status;
    if (status >= 300)
        fprintf(stderr, "%s %s: %s\n", method, target, ebb_str_c(&response.body));
    if (bytes != NULL)
        *bytes = response.body.length;
    serve_http_response_fini(&response);
    return status;
}

/* 100,000 ended experiments, then the first page and a filtered one. */
static int list_many(const char *dir)
{
    char path[600];
    struct exp_db *db = NULL;
    struct exp_master *m = NULL;
    struct ebb_error err;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/ebb.db", dir);
    if (exp_db_open(&(struct exp_db_options){.path = path}, &db, &err) != EBB_OK)
        return fail("open", &err);
    for (int i = 0; i < 100000; i++)
        if (exp_db_run(db,
                       "INSERT INTO experiments (id, state, description, labels, owner,"
                       " start_time, end_time, archived, searcher, metric, smaller_is_better,"
                       " num_trials, num_ended, weight, save_experiment_best, save_trial_best,"
                       " save_trial_latest) VALUES ($1, 'COMPLETED', 'Experiment (some-three-"
                       "words)', '[\"a\"]', 'somebody', 1.7e9, 1.7e9, 0, 'random', 'error', 1, 50,"
                       " 50, 1.0, 0, 1, 1)",
                       EXP_DB_ARGS(exp_db_i(1000000 + i)), &err) != EBB_OK)
            return fail("insert", &err);
    if (exp_db_commit(db, &err) != EBB_OK)
        return fail("commit", &err);
    exp_db_close(db);
    struct exp_master_options options = {
        .state_dir = dir, .is_reading_only = true, .is_socket_off = true};
    if (serve_open(&options, &m, &err) != EBB_OK)
        return fail("open", &err);
    static const char *const targets[] = {
        "/experiments", "/experiments?label=a&state=COMPLETED&description=three",
        "/experiments?sort=description&offset=50000", "/experiments?limit=100000"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        uint64_t start = ebb_clock_ns();
        ask(m, "GET", targets[i], NULL, &bytes);
        printf("list     %-55s %7.1f ms, %zu bytes\n", targets[i],
               (double)(ebb_clock_ns() - start) * 1e-6, bytes);
    }
    exp_master_close(m, EXP_CLOSE_LEAVE, 0);
    return 0;
}

/* ---- pages ---- */

static int dial(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&a, sizeof a) == 0 ? fd : -1;
}

static void say(int fd, int port, const char *token, const char *target, const char *more)
{
    char text[512];
    int n = snprintf(text, sizeof text,
                     "GET /api/v1%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                     "Accept-Encoding: gzip\r\n%s\r\n",
                     target, port, token, more);
    (void)!send(fd, text, (size_t)n, MSG_NOSIGNAL);
}

/* Another process: what it takes is not the master's. Until it is killed. */
static void be_pages(int pages, int port, const char *token)
{
    static const char *const shown[] = {"/experiments?limit=50", "/experiments/1",
                                        "/experiments/1/curves?max_trials=20"};
    static char heard[1 << 16];
    int streams[64], asks[64];
    for (int i = 0; i < pages; i++) {
        streams[i] = dial(port);
        asks[i] = dial(port);
        say(streams[i], port, token, "/events", "Accept: text/event-stream\r\n");
    }
    for (unsigned turn = 0;; turn++) {
        nanosleep(&(struct timespec){.tv_nsec = 250000000 / pages}, NULL);
        int i = (int)(turn % (unsigned)pages);
        while (recv(streams[i], heard, sizeof heard, MSG_DONTWAIT) > 0 ||
               recv(asks[i], heard, sizeof heard, MSG_DONTWAIT) > 0)
            ;
        say(asks[i], port, token, shown[turn / (unsigned)pages % 3], "");
    }
}

/* The process of the pages; 0 = none are asked for. */
static pid_t open_pages(struct exp_master *m, int pages)
{
    struct serve_http_response response;
    struct serve_http_request request = {
        .method = "POST", .target = "/tokens", .body = "{}", .body_length = 2};
    struct serve_listen how = {.listen = "127.0.0.1:0"};
    struct ebb_error err;
    char token[80] = "";
    if (pages <= 0)
        return 0;
    if (serve_listen(m, &how, &err) != EBB_OK)
        return -1;
    serve_http_response_init(&response);
    serve_request(m, &request, &response);
    const char *at = strstr(ebb_str_c(&response.body), "\"token\": \"");
    if (at != NULL)
        snprintf(token, sizeof token, "%.47s", at + 10);
    serve_http_response_fini(&response);
    int port = (int)strtol(strrchr(serve_url(m), ':') + 1, NULL, 10);
    pid_t pid = fork();
    if (pid == 0)
        be_pages(pages < 64 ? pages : 64, port, token);
    return pid;
}

static int run_load(const char *dir, int experiments, int trials, int slots, int pages,
                    double *rate_found)
{
    struct exp_master *m = NULL;
    struct ebb_error err;
    struct exp_master_options options = {.state_dir = dir, .slots = slots};
    double rate = sync_rate(dir), bar = rate * 0.3 < 200 ? rate * 0.3 : 200;
    if (serve_open(&options, &m, &err) != EBB_OK)
        return fail("open", &err);
    char *body = submission(trials);
    uint64_t start = ebb_clock_ns();
    for (int i = 0; i < experiments; i++)
        if (ask(m, "POST", "/experiments", body, NULL) != 201)
            return 1;
    double submitted = (double)(ebb_clock_ns() - start) * 1e-9;
    start = ebb_clock_ns();
    pid_t viewer = open_pages(m, pages);
    uint64_t cpu = ebb_clock_cpu_ns(), turns = 0, longest = 0;
    while (!exp_master_is_idle(m)) {
        uint64_t begin = ebb_clock_cpu_ns();
        exp_master_turn(m, 1000);
        uint64_t took = ebb_clock_cpu_ns() - begin;
        longest = took > longest ? took : longest;
        turns++;
    }
    if (viewer > 0) {
        kill(viewer, SIGKILL);
        waitpid(viewer, NULL, 0);
    }
    *rate_found = experiments * trials / ((double)(ebb_clock_ns() - start) * 1e-9);
    double seconds = (double)(ebb_clock_ns() - start) * 1e-9;
    double per_second = experiments * trials / seconds;
    printf("sync     %.0f fdatasync/s in %s: the bar is %.0f trials/s\n", rate, dir, bar);
    printf("submit   %d experiments in %.2f s\n", experiments, submitted);
    printf("load     %d trials in %.1f s: %.0f trials/s (%.2f of the bar), %.2f CPU s of the "
           "master, %llu turns\n",
           experiments * trials, seconds, per_second, per_second / bar,
           (double)(ebb_clock_cpu_ns() - cpu) * 1e-9, (unsigned long long)turns);
    printf("pages    %d; the longest turn took %.1f ms of processor\n", pages,
           (double)longest * 1e-6);
    printf("memory   %.0f MB at most\n", resident_mb());
    exp_master_close(m, EXP_CLOSE_KILL, 0);
    ebb_free(body);
    bool is_smooth = pages == 0 || longest <= 50000000u;
    return per_second >= bar && resident_mb() < 200 && is_smooth ? 0 : 1;
}

/* The load without and with pages in turn, each with pages between two without; the first load of all
 * is not compared: it finds the machine cold. Nothing is removed before the end: files of which many
 * were deleted a moment ago are created at half the speed (ext4 looks for inodes that were not). */
static int run_watched(const char *dir, int experiments, int trials, int slots, int pages)
{
    char path[600];
    double rates[WATCHED], watched = 0;
    int status = 0;
    for (int i = 0; i < WATCHED; i++) {
        snprintf(path, sizeof path, "%s-%d", dir, i);
        if (mkdir(path, 0700) != 0 ||
            run_load(path, experiments, trials, slots, i % 2 != 0 ? pages : 0, &rates[i]) != 0)
            status = 1;
    }
    for (int i = 1; i < WATCHED; i += 2) {
        double part = rates[i] / ((rates[i - 1] + rates[i + 1]) / 2);
        printf("watched  %.0f trials/s between %.0f and %.0f: %.1f %%\n", rates[i], rates[i - 1],
               rates[i + 1], 100 * part);
        watched += part / (WATCHED / 2);
    }
    printf("watched  %.1f %% of the trials/s without pages\n", 100 * watched);
    return status || watched < 0.95;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    char dir[500], command[1600];
    int experiments = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 200;
    int trials = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 50;
    int slots = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 8;
    snprintf(dir, sizeof dir, "%s/master-load-XXXXXX", argc > 4 ? argv[4] : ".");
    if (mkdtemp(dir) == NULL)
        return 2;
    int pages = argc > 5 ? (int)strtol(argv[5], NULL, 10) : 0;
    double alone = 0;
    int status = run_load(dir, experiments, trials, slots, 0, &alone);
    if (pages > 0)
        status |= run_watched(dir, experiments, trials, slots, pages);
    if (list_many(dir) != 0)
        status = 1;
    snprintf(command, sizeof command, "rm -rf '%s' '%s'-[0-9]", dir, dir);
    if (system(command) != 0)
        status = 1;
    return status;
}
