/* The master over its socket: the same answers as in process, long polls, streams, bad requests. */
#include "test.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/file.h"
#include "serve/serve.h"
#include "serve/rest.h"
#include "master_fixture.h"

static char yaml[4096];

/* Run a client in a child while the master turns; the child's exit status is the verdict. */
static int beside(struct fixture *f, int (*client)(const char *dir))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(client(f->dir));
    uint64_t until = ebb_clock_ns() + 60000000000u;
    while (waitpid(pid, &status, WNOHANG) == 0 && ebb_clock_ns() < until)
        fixture_turn_for(f, 10);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *user; /* in whose name; in the child process only */

/* Ask by client.h; the body is left in `out`. */
static int ask(const char *dir, const char *method, const char *target, const char *body, char *out,
               size_t size)
{
    struct serve_http_response response;
    struct ebb_error err;
    struct serve_client_address address = {.state_dir = dir};
    struct serve_http_request request = {.method = method,
                                         .target = target,
                                         .body = body,
                                         .body_length = body != NULL ? strlen(body) : 0,
                                         .user = user};
    serve_http_response_init(&response);
    if (serve_client_request(&address, &request, 20000, &response, &err) != EBB_OK) {
        fprintf(stderr, "%s\n", err.message);
        return -1;
    }
    int status = response.status;
    snprintf(out, size, "%s", ebb_str_c(&response.body));
    serve_http_response_fini(&response);
    return status;
}

static char answer[1 << 20];

#define WANT(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not %s; answer %.300s\n", __LINE__, #condition, answer);     \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static int use_all(const char *dir)
{
    char *body = fixture_body(
        fixture_yaml(yaml, sizeof yaml, "", "name: random, max_steps: 2, max_trials: 2", ""), true);
    WANT(exp_master_runs(dir));
    WANT(ask(dir, "POST", "/experiments", body, answer, sizeof answer) == 201);
    WANT(strstr(answer, "\"id\": 1") != NULL);
    /* follow it by long polls until it has ended */
    long long next = 0;
    for (int i = 0; i < 1000; i++) {
        char target[128];
        snprintf(target, sizeof target, "/events?after=%lld&experiment_id=1&wait=10", next);
        WANT(ask(dir, "GET", target, NULL, answer, sizeof answer) == 200);
        const char *at = strstr(answer, "\"next\": ");
        WANT(at != NULL);
        next = strtoll(at + 8, NULL, 10);
        if (strstr(answer, "\"COMPLETED\", \"progress\": null") != NULL)
            break;
    }
    WANT(strstr(answer, "\"validation\"") != NULL || strstr(answer, "\"experiment\"") != NULL);
    static const char *const gets[] = {"/experiments",
                                       "/experiments/1",
                                       "/experiments/1/trials",
                                       "/experiments/1/checkpoints",
                                       "/experiments/1/validation-history",
                                       "/experiments/1/metric-names",
                                       "/experiments/1/trials-sample",
                                       "/experiments/1/trials-snapshot?step=2",
                                       "/experiments/1/file_tree",
                                       "/experiments/1/model_def",
                                       "/experiments/1/preview_gc",
                                       "/trials/1",
                                       "/trials/1/workloads",
                                       "/trials/1/workloads?batches=1",
                                       "/trials/1/logs",
                                       "/trials/time-series?ids=1,2&metric=loss",
                                       "/templates",
                                       "/tasks",
                                       "/agents",
                                       "/master",
                                       "/master/config",
                                       "/master/logs",
                                       "/agents/local",
                                       "/users",
                                       "/me",
                                       "/api/v1/events"};
    for (size_t i = 0; i < sizeof gets / sizeof *gets; i++)
        WANT(ask(dir, "GET", gets[i], NULL, answer, sizeof answer) == 200);
    WANT(ask(dir, "GET", "/trials/1/logs?wait=5", NULL, answer, sizeof answer) == 200);
    WANT(strstr(answer, "begins at step 0") != NULL);
    WANT(ask(dir, "GET", "/trials/1/workloads", NULL, answer, sizeof answer) == 200);
    WANT(strstr(answer, "\"avg_metrics\"") != NULL && strstr(answer, "validation_metrics") != NULL);
    static const char *const bad[] = {"/experiments?limit=x",
                                      "/experiments?limit=-1",
                                      "/experiments?offset=1.5",
                                      "/experiments?state=ACTIVE,BOGUS",
                                      "/experiments?archived=maybe",
                                      "/experiments?mine=1",
                                      "/experiments?sort=colour",
                                      "/experiments/1/preview_gc?save_trial_best=x",
                                      "/experiments/1/trials-sample?max_trials=0",
                                      "/trials/1/logs?tail=-2",
                                      "/trials/1/logs?level=LOUD",
                                      "/trials/1/logs?greater_than_id=x",
                                      "/trials/time-series?ids=1,x",
                                      "/master/logs?tail=x",
                                      "/events?after=x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        WANT(ask(dir, "GET", bad[i], NULL, answer, sizeof answer) == 400);
    WANT(strstr(answer, "after: found 'x', allowed: a whole number >= -1") != NULL);
    WANT(ask(dir, "GET", "/experiments/99", NULL, answer, sizeof answer) == 404);
    WANT(ask(dir, "GET", "/nothing", NULL, answer, sizeof answer) == 404);
    WANT(ask(dir, "PUT", "/experiments", "{}", answer, sizeof answer) == 405);
    WANT(ask(dir, "POST", "/experiments", "{", answer, sizeof answer) == 400);
    WANT(ask(dir, "PUT", "/templates/base", "{\"config\": \"max_restarts: 3\\n\"}", answer,
             sizeof answer) == 200);
    WANT(ask(dir, "GET", "/templates/base", NULL, answer, sizeof answer) == 200);
    WANT(strstr(answer, "max_restarts: 3") != NULL);
    WANT(ask(dir, "DELETE", "/templates/base", NULL, answer, sizeof answer) == 204);
    WANT(ask(dir, "DELETE", "/templates/base", NULL, answer, sizeof answer) == 404);
    WANT(ask(dir, "PUT", "/templates/a%2Fb%20c", "{\"config\": \"max_restarts: 3\\n\"}", answer,
             sizeof answer) == 200);
    WANT(strstr(answer, "\"a/b c\"") != NULL);
    WANT(ask(dir, "DELETE", "/templates/a%2Fb%20c", NULL, answer, sizeof answer) == 204);
    WANT(ask(dir, "GET", "/agents/moon", NULL, answer, sizeof answer) == 404);
    WANT(ask(dir, "PATCH", "/agents/local", "{\"enabled\": false}", answer, sizeof answer) == 200);
    WANT(strstr(answer, "\"enabled\": true") == NULL);
    WANT(ask(dir, "PATCH", "/agents/local", "{\"enabled\": true}", answer, sizeof answer) == 200);
    WANT(ask(dir, "GET", "/master/logs?tail=1", NULL, answer, sizeof answer) == 200);
    WANT(strstr(answer, "experiment 1: COMPLETED") != NULL);
    ebb_free(body);
    return 0;
}

/* The name travels with the request, whatever is in it. */
static int use_names(const char *dir)
{
    char *body =
        fixture_body(fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1", ""), false);
    WANT(ask(dir, "POST", "/users", "{\"name\": \"ada\"}", answer, sizeof answer) == 201);
    WANT(ask(dir, "POST", "/users", "{\"name\": \"ada\"}", answer, sizeof answer) == 409);
    WANT(ask(dir, "POST", "/users", "{\"name\": \"\"}", answer, sizeof answer) == 400);
    WANT(ask(dir, "POST", "/users", "{\"name\": \"a b\"}", answer, sizeof answer) == 400);
    WANT(ask(dir, "POST", "/users", "{\"name\": \"-a\"}", answer, sizeof answer) == 400);
    WANT(ask(dir, "POST", "/experiments", body, answer, sizeof answer) == 201);
    user = "ada";
    WANT(ask(dir, "POST", "/experiments", body, answer, sizeof answer) == 201);
    WANT(ask(dir, "GET", "/me", NULL, answer, sizeof answer) == 200);
    WANT(strstr(answer, "\"name\": \"ada\"") != NULL &&
         strstr(answer, "\"num_experiments\": 1") != NULL);
    WANT(ask(dir, "GET", "/experiments?mine=true", NULL, answer, sizeof answer) == 200);
    WANT(strstr(answer, "\"total\": 1") != NULL && strstr(answer, "\"id\": 2") != NULL);
    user = "b\r\nX-Ebb-User: ada";
    WANT(ask(dir, "GET", "/experiments", NULL, answer, sizeof answer) == 401);
    user = NULL;
    WANT(ask(dir, "GET", "/experiments?mine=true", NULL, answer, sizeof answer) == 200);
    WANT(strstr(answer, "\"total\": 1") != NULL && strstr(answer, "\"id\": 1") != NULL);
    WANT(ask(dir, "GET", "/experiments?user=ada", NULL, answer, sizeof answer) == 200);
    WANT(strstr(answer, "\"total\": 1") != NULL && strstr(answer, "\"id\": 2") != NULL);
    WANT(ask(dir, "PATCH", "/users/ada", "{\"active\": 1}", answer, sizeof answer) == 400);
    WANT(ask(dir, "PATCH", "/users/eve", "{\"active\": true}", answer, sizeof answer) == 404);
    WANT(ask(dir, "PATCH", "/users/ada", "{\"active\": false}", answer, sizeof answer) == 200);
    user = "ada";
    WANT(ask(dir, "GET", "/experiments", NULL, answer, sizeof answer) == 403);
    ebb_free(body);
    return 0;
}

TEST(users__own_what_they_submit)
{
    struct fixture f;
    int status;
    fixture_begin(&f, 1);
    fixture_open(&f);
    CHECK_EQ(beside(&f, use_names), 0);
    const struct ebb_doc_node *me = fixture_get(&f, "/me");
    char target[128];
    snprintf(target, sizeof target, "/users/%s", ebb_doc_string(me, "name", ""));
    fixture_ask(&f, "PATCH", target, "{\"active\": false}", &status);
    CHECK_EQ(status, 409); /* the account itself */
    exp_master_close(f.m, EXP_CLOSE_KILL, 0);
    fixture_open(&f);
    CHECK_EQ(ebb_doc_get(fixture_get(&f, "/users"), "users")->count, 2);
    fixture_end(&f);
}

TEST(preview__spells_workloads_out)
{
    struct fixture f;
    fixture_begin(&f, 1);
    fixture_open(&f);
    char *body = fixture_body(
        fixture_yaml(yaml, sizeof yaml, "", "name: random, max_steps: 3, max_trials: 4", ""),
        false);
    const struct ebb_doc_node *answer_node =
        fixture_ask(&f, "POST", "/preview-hp-search", body, NULL);
    CHECK_EQ(ebb_doc_int(ebb_doc_get(answer_node, "results"), "SSSV", 0), 4);
    ebb_free(body);
    fixture_end(&f);
}

TEST(socket__answers_everything)
{
    struct fixture f;
    fixture_begin(&f, 2);
    fixture_open(&f);
    CHECK_EQ(beside(&f, use_all), 0);
    fixture_end(&f);
}

static int dial(const char *dir)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/master.sock", dir);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return connect(fd, (struct sockaddr *)&a, sizeof a) == 0 ? fd : -1;
}

static int raw(const char *dir, const char *text, size_t length)
{
    int fd = dial(dir);
    if (fd < 0 || send(fd, text, length, MSG_NOSIGNAL) < 0)
        return -1;
    ssize_t n = recv(fd, answer, sizeof answer - 1, 0);
    answer[n > 0 ? n : 0] = '\0';
    close(fd);
    return n > 12 ? (int)strtol(answer + 9, NULL, 10) : 0;
}

static int send_nonsense(const char *dir)
{
    static char large[40000];
    WANT(raw(dir, "NONSENSE\r\n\r\n", 12) == 400);
    WANT(raw(dir, "GET / HTTP/9.9\r\n\r\n", 18) == 400);
    WANT(raw(dir, "GET /x HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 40) == 400);
    WANT(raw(dir, "POST /x HTTP/1.1\r\nTransfer-Encoding: deflate\r\n\r\n", 48) == 501);
    WANT(raw(dir, "POST /x HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n", 50) == 413);
    memset(large, 'a', sizeof large);
    WANT(raw(dir, large, sizeof large) == 431);
    /* two requests in one piece */
    static const char two[] = "GET /master HTTP/1.1\r\n\r\nGET /tasks HTTP/1.1\r\nConnection: "
                              "close\r\n\r\n";
    int fd = dial(dir);
    size_t have = 0;
    WANT(fd >= 0 && send(fd, two, sizeof two - 1, 0) > 0);
    for (ssize_t n; (n = recv(fd, answer + have, sizeof answer - 1 - have, 0)) > 0;)
        have += (size_t)n;
    answer[have] = '\0';
    close(fd);
    WANT(strstr(answer, "cluster_id") != NULL && strstr(answer, "\"tasks\"") != NULL);
    /* a trial nobody knows */
    static const char hello[] = "{\"type\":\"HELLO\",\"protocol\":1,\"allocation\":\"x\"}\n";
    fd = dial(dir);
    WANT(fd >= 0 && send(fd, hello, sizeof hello - 1, 0) > 0);
    ssize_t n = recv(fd, answer, sizeof answer - 1, 0);
    answer[n > 0 ? n : 0] = '\0';
    WANT(strstr(answer, "REFUSED") != NULL);
    WANT(recv(fd, answer, 10, 0) == 0);
    close(fd);
    return 0;
}

TEST(nonsense__is_refused_and_harms_nobody)
{
    struct fixture f;
    fixture_begin(&f, 1);
    fixture_open(&f);
    CHECK_EQ(beside(&f, send_nonsense), 0);
    fixture_end(&f);
}

static int listen_to_stream(const char *dir)
{
    static const char request[] =
        "GET /api/v1/events HTTP/1.1\r\nAccept: text/event-stream\r\n\r\n";
    static const char unknown[] = "GET /events HTTP/1.1\r\nX-Ebb-User: nobody\r\nConnection: "
                                  "close\r\nAccept: text/event-stream\r\n\r\n";
    int fd = dial(dir);
    size_t have = 0;
    WANT(fd >= 0 && send(fd, unknown, sizeof unknown - 1, 0) > 0);
    ssize_t first = recv(fd, answer, sizeof answer - 1, 0);
    WANT(first > 12 && strncmp(answer, "HTTP/1.1 401", 12) == 0);
    close(fd);
    fd = dial(dir);
    WANT(fd >= 0 && send(fd, request, sizeof request - 1, 0) > 0);
    char *body =
        fixture_body(fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1", ""), true);
    static char scratch[4096];
    WANT(ask(dir, "POST", "/experiments", body, scratch, sizeof scratch) == 201);
    for (ssize_t n; (n = recv(fd, answer + have, sizeof answer - 1 - have, 0)) > 0;) {
        have += (size_t)n;
        answer[have] = '\0';
        if (strstr(answer, "\"COMPLETED\", \"progress\": null") != NULL)
            break;
    }
    WANT(strstr(answer, "text/event-stream") != NULL);
    WANT(strstr(answer, "\ndata: [") != NULL && strstr(answer, "\"step\"") != NULL);
    close(fd);
    ebb_free(body);
    return 0;
}

/* Connections that say nothing, and that have nothing left to ask. */
static int crowd(const char *dir)
{
    static const char one[] = "GET /master HTTP/1.1\r\n\r\n";
    struct rlimit files = {.rlim_cur = 4096, .rlim_max = 4096};
    (void)setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 0; i < 1300; i++) {
        int fd = dial(dir);
        WANT(fd >= 0);
        if (i % 2 == 0) {
            WANT(send(fd, one, sizeof one - 1, MSG_NOSIGNAL) > 0);
            WANT(recv(fd, answer, sizeof answer - 1, 0) > 12);
        }
        if (i % 100 == 0)
            WANT(raw(dir, one, sizeof one - 1) == 200);
    }
    WANT(raw(dir, one, sizeof one - 1) == 200);
    return 0;
}

TEST(idle_connections__lock_nobody_out)
{
    struct fixture f;
    fixture_begin(&f, 1);
    fixture_open(&f);
    CHECK_EQ(beside(&f, crowd), 0);
    fixture_end(&f);
}

TEST(stream__tells_what_happens)
{
    struct fixture f;
    fixture_begin(&f, 1);
    fixture_open(&f);
    CHECK_EQ(beside(&f, listen_to_stream), 0);
    fixture_end(&f);
}

TEST(long_path__still_has_a_socket)
{
    struct fixture f;
    char long_dir[600], command[1000];
    fixture_begin(&f, 1);
    snprintf(long_dir, sizeof long_dir, "%s/%0100d/%0100d", f.dir, 1, 2);
    snprintf(command, sizeof command, "mkdir -p %s", long_dir);
    CHECK_EQ(system(command), 0);
    f.options.state_dir = long_dir;
    fixture_open(&f);
    int64_t id =
        fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1", ""));
    fixture_run(&f, 30); /* the trial connects by a relative path */
    CHECK_STR(fixture_state(&f, id), "COMPLETED");
    fixture_end(&f);
}

TEST(model_definition__is_unpacked_kept_and_given_back)
{
    struct fixture f;
    int status;
    fixture_begin(&f, 1);
    fixture_open(&f);
    /* "x=1\n" in base64; the trial starts only if its own file is in the working directory */
    static const char body[] =
        "{\"experiment_config\": \"entrypoint: [sh, -c, 'test -f pkg/a.py && exec " EBB_TRIAL_CHAIN
        "']\\nhyperparameters: {global_batch_size: 1}\\nsearcher: {name: single, metric: error, "
        "max_steps: 1}\\nmax_restarts: 0\\n\", \"activate\": true, \"model_definition\": "
        "[{\"path\": "
        "\"pkg\", \"type\": \"dir\"}, {\"path\": \"pkg/a.py\", \"content\": \"eD0xCg==\", "
        "\"mode\": "
        "420}]}";
    fixture_ask(&f, "POST", "/experiments", body, NULL);
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
    const struct ebb_doc_node *tree =
        ebb_doc_get(fixture_get(&f, "/experiments/1/file_tree"), "files");
    CHECK_EQ(tree->count, 2);
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/1/checkpoints"), "checkpoints");
    CHECK(ebb_doc_get(ebb_doc_get(list->items[0], "resources"), "code/pkg/a.py") != NULL);
    struct serve_http_response response;
    struct serve_http_request request = {.method = "GET", .target = "/experiments/1/model_def"};
    serve_http_response_init(&response);
    serve_request(f.m, &request, &response);
    char path[300], command[800];
    snprintf(path, sizeof path, "%s/x.tar.gz", f.dir);
    FILE *out = fopen(path, "w");
    fwrite(response.body.data, 1, response.body.length, out);
    fclose(out);
    serve_http_response_fini(&response);
    snprintf(command, sizeof command, "cd %s && tar xzf x.tar.gz && grep -q x=1 pkg/a.py", f.dir);
    CHECK_EQ(system(command), 0);
    fixture_ask(&f, "POST", "/experiments",
                "{\"experiment_config\": \"entrypoint: [x]\\nhyperparameters: {global_batch_size: "
                "1}\\nsearcher: {name: single, metric: e, max_steps: 1}\\n\", "
                "\"model_definition\": [{\"path\": \"../a\", \"content\": \"\"}]}",
                &status);
    CHECK_EQ(status, 400);
    fixture_end(&f);
}

TEST(routes__all_stand_in_the_manual)
{
    struct ebb_file_view page;
    struct ebb_error err;
    CHECK_OK(ebb_file_view_open(&page, EBB_SOURCE_DIR "/docs/rest.md", 1 << 20, &err), &err);
    const struct serve_route *route;
    for (size_t i = 0; (route = serve_route_at(i)) != NULL; i++) {
        char part[64] = "";
        for (const char *at = route->path; *at != '\0';) { /* its last word */
            size_t n = strcspn(++at, "/");
            if (*at != '#' && *at != '*')
                snprintf(part, sizeof part, "/%.*s", (int)n, at);
            at += n;
        }
        if (memmem(page.data, page.length, part, strlen(part)) == NULL)
            fail_msg("docs/rest.md does not have %s", route->path);
    }
    ebb_file_view_close(&page);
}

/* ---- logs ---- */

static size_t logs_of(struct fixture *f, const char *query, int64_t *first)
{
    const struct ebb_doc_node *root = fixture_get(f, "/trials/1/logs?%s", query);
    const struct ebb_doc_node *logs = ebb_doc_get(root, "logs");
    *first = logs->count > 0 ? ebb_doc_int(logs->items[0], "id", 0) : 0;
    CHECK(ebb_doc_bool(root, "is_over", false)); /* all was looked at, whatever was asked for */
    return logs->count;
}

TEST(logs__are_looked_through_to_the_end)
{
    struct fixture f;
    int64_t first;
    fixture_begin(&f, 1);
    fixture_open(&f);
    snprintf(yaml, sizeof yaml,
             "entrypoint: [sh, -c, 'seq -f \"line %%.0f\" 3000; printf x; printf %%020000d 0 |"
             " sed s/0/\303\251/g; echo; exec %s']\n"
             "hyperparameters: {global_batch_size: 1}\n"
             "searcher: {name: single, metric: error, max_steps: 1}\n",
             EBB_TRIAL_CHAIN);
    fixture_submit(&f, yaml);
    fixture_run(&f, 30);
    CHECK_EQ(logs_of(&f, "search=line%202999", &first), 1); /* beyond the first 1000 */
    CHECK_EQ(first, 2999);
    CHECK_EQ(logs_of(&f, "tail=2&search=line%2012", &first), 2); /* 12, 120 ... 1299 */
    CHECK_EQ(first, 1298);
    CHECK_EQ(logs_of(&f, "tail=5&search=line%201000", &first), 1);
    CHECK_EQ(logs_of(&f, "level=ERROR", &first), 0);
    /* a long line is cut between characters: none becomes U+FFFD */
    const struct ebb_doc_node *logs =
        ebb_doc_get(fixture_get(&f, "/trials/1/logs?greater_than_id=3000"), "logs");
    CHECK(logs->count >= 3);
    for (size_t i = 0; i < logs->count; i++)
        CHECK(strstr(ebb_doc_string(logs->items[i], "message", ""), "\xef\xbf\xbd") == NULL);
    CHECK_EQ(logs_of(&f, "rank=1", &first), 0);
    CHECK_EQ(logs_of(&f, "search=nothing%20of%20the%20kind", &first), 0);
    const struct ebb_doc_node *page =
        fixture_get(&f, "/trials/1/logs?limit=2&search=%s", "line%2029");
    CHECK_EQ(ebb_doc_get(page, "logs")->count, 2);
    CHECK_EQ(ebb_doc_int(page, "next", 0), 290); /* 29, 290: go on from there */
    CHECK(!ebb_doc_bool(page, "is_over", true));
    fixture_end(&f);
}

/* ---- writing that fails ---- */

static int ask_while_stalled(const char *dir)
{
    for (int i = 0; i < 2000; i++) { /* until it has happened */
        (void)ask(dir, "GET", "/master", NULL, answer, sizeof answer);
        if (strstr(answer, "\"is_stalled\": true") != NULL)
            break;
        usleep(5000);
    }
    WANT(strstr(answer, "\"is_stalled\": true") != NULL);
    WANT(strstr(answer, "\"message\": \"") != NULL); /* why */
    WANT(ask(dir, "GET", "/experiments", NULL, answer, sizeof answer) == 503);
    WANT(ask(dir, "POST", "/experiments/1/kill", NULL, answer, sizeof answer) == 503);
    return 0;
}

TEST(stalled_master__answers_that_it_is)
{
    struct fixture f;
    fixture_begin(&f, 1);
    f.options.faults.commit_fail_from = 9;
    f.options.faults.commit_fail_count = 1000000;
    fixture_open(&f);
    fixture_submit(
        &f, fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 4", "max_restarts: 0\n"));
    CHECK_EQ(beside(&f, ask_while_stalled), 0);
    fixture_end(&f);
}

TEST_MAIN()
