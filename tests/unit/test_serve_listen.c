/* A master on TCP: who is answered, who is refused and how, and that nobody is kept waiting. */
#include "test.h"

#include <errno.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "browser_fixture.h"

TEST(nobody__is_answered_without_a_token)
{
    begin();
    expect("none", 401, "GET /api/v1/experiments", HOST, "");
    expect("none, events", 401, "GET /api/v1/events", HOST "Accept: text/event-stream\r\n", "");
    expect("wrong", 401, "GET /api/v1/experiments", HOST "Authorization: Bearer ebx\r\n", "");
    expect("basic", 401, "GET /api/v1/experiments", HOST "Authorization: Basic eDp5\r\n", "");
    expect("a name is no proof", 401, "GET /api/v1/me", HOST "X-Ebb-User: root\r\n", "");
    expect("token as cookie", 401, "GET /api/v1/me", HOST "Cookie: ebb_~P=~T\r\n", "");
    expect("good", 200, "GET /api/v1/experiments", HOST "Authorization: Bearer ~T\r\n", "");
    expect("name does not count", 200, "GET /api/v1/me",
           HOST "Authorization: Bearer ~T\r\nX-Ebb-User: nobody-known\r\n", "");
    expect("public", 200, "GET /", HOST, "");
    expect("up", 404, "GET /../../etc/passwd", HOST, "");
    expect("up, hidden", 404, "GET /%2e%2e/etc/passwd", HOST, "");
    expect("without its prefix there is no data", 404, "GET /experiments", HOST, "");
    /* users and tokens: on the machine only */
    static const char *const local[] = {"GET /api/v1/tokens",      "POST /api/v1/tokens",
                                        "DELETE /api/v1/tokens/1", "POST /api/v1/login-links",
                                        "POST /api/v1/users",      "PATCH /api/v1/users/x"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        expect(local[i], 403, local[i], HOST "Authorization: Bearer ~T\r\n", "");
    /* the trial protocol is not spoken here */
    CHECK_EQ(ask("{\"type\": \"HELLO\"}", "", ""), 400);
    fixture_ask(&f, "DELETE", "/tokens/1", NULL, NULL);
    expect("revoked", 401, "GET /api/v1/experiments", HOST "Authorization: Bearer ~T\r\n", "");
    fixture_end(&f);
}

TEST(token__ends_and_its_user_may_be_put_aside)
{
    begin();
    fixture_ask(&f, "POST", "/users", "{\"name\": \"ada\"}", NULL);
    copy_text(token,
              fixture_ask(&f, "POST", "/tokens", "{\"user\": \"ada\", \"days\": 1e-6}", NULL),
              "token");
    usleep(150000);
    expect("ended", 401, "GET /api/v1/me", HOST "Authorization: Bearer ~T\r\n", "");
    copy_text(token, fixture_ask(&f, "POST", "/tokens", "{\"user\": \"ada\"}", NULL), "token");
    expect("ada", 200, "GET /api/v1/me", HOST "Authorization: Bearer ~T\r\n", "");
    assert_non_null(strstr(heard, "\"ada\""));
    fixture_ask(&f, "PATCH", "/users/ada", "{\"active\": false}", NULL);
    expect("inactive", 401, "GET /api/v1/me", HOST "Authorization: Bearer ~T\r\n", "");
    int status;
    fixture_ask(&f, "POST", "/tokens", "{\"user\": \"nobody\"}", &status);
    CHECK_EQ(status, 404);
    fixture_ask(&f, "POST", "/tokens", "{\"days\": -1}", &status);
    CHECK_EQ(status, 400);
    fixture_end(&f);
}

/* Words and numbers only: nothing that could name a file, a command or a library. */
TEST(explain__takes_no_files)
{
    static const char *const bodies[] = {
        "",
        "[]",
        "{\"task\": \"gan\"}",
        "{\"model\": \"../x\", \"task\": \"gan\"}",
        "{\"model\": \"x.so\", \"task\": \"gan\"}",
        "{\"model\": \"x\", \"task\": \"lib\"}",
        "{\"model\": \"x\", \"task\": \"gan\", \"entrypoint\": [\"sh\"]}",
        "{\"model\": \"x\", \"task\": \"gan\", \"options\": {\"a\": \"/etc/passwd\"}}",
        "{\"model\": \"x\", \"task\": \"gan\", \"options\": {\"a\": {\"b\": 1}}}",
        "{\"model\": \"x\", \"task\": \"gan\", \"options\": {\"a b\": 1}}",
        "{\"model\": \"x\", \"task\": \"gan\", \"opt\": {\"lr\": [\"x\"]}}",
        "{\"model\": \"x\", \"task\": \"gan\", \"options\": {\"init_from\": \"weights\"}}",
        "{\"model\": \"x\", \"task\": \"gan\", \"options\": {\"file\": \"model\"}}",
        "{\"model\": \"x\", \"task\": \"gan\", \"options\": {\"name\": \"y\"}}",
        "{\"model\": \"x\", \"task\": \"gan\", \"batch\": 0}",
        "{\"model\": \"x\", \"task\": \"gan\", \"precision\": \"fp8\"}",
        "{\"model\": \"x\", \"task\": \"gan\", \"file\": \"/tmp/x\"}",
        "{\"model\": \"x\", \"task\": \"gan\", \"device\": \"../cpu\"}",
    };
    begin();
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char fields[160];
        snprintf(fields, sizeof fields, HOST "Authorization: Bearer ~R\r\nContent-Length: %zu\r\n",
                 strlen(bodies[i]));
        expect(bodies[i], 400, "POST /api/v1/explain", fields, bodies[i]);
    }
    fixture_end(&f);
}

/* A program in the place of ebb. */
static void begin_with_program(const char *script)
{
    static char path[300];
    struct ebb_error err;
    struct serve_listen how = {.listen = "127.0.0.1:0"};
    fixture_begin(&f, 1);
    snprintf(path, sizeof path, "%s/program", f.dir);
    FILE *out = fopen(path, "w");
    fprintf(out, "#!/bin/sh\n%s\n", script);
    fclose(out);
    chmod(path, 0700);
    f.options.ebb_path = path;
    fixture_open(&f);
    CHECK_OK(serve_listen(f.m, &how, &err), &err);
    port = atoi(strrchr(serve_url(f.m), ':') + 1);
    copy_text(reader, fixture_ask(&f, "POST", "/tokens", "{\"read_only\": true}", NULL), "token");
}

static int explain_with(int batch, const char *more)
{
    char fields[160], body[256];
    int n = snprintf(body, sizeof body, "{\"model\": \"m\", \"task\": \"gan\", \"batch\": %d%s}",
                     batch, more);
    snprintf(fields, sizeof fields, HOST "Authorization: Bearer ~R\r\nContent-Length: %d\r\n", n);
    return ask("POST /api/v1/explain", fields, body);
}

static int explain(int batch)
{
    return explain_with(batch, "");
}

TEST(explain__runs_the_program_once_for_a_question)
{
    char first[4096];
    begin_with_program(
        "echo \"{\\\"args\\\": \\\"$*\\\", \\\"file\\\": $(cat), \\\"pid\\\": $$}\"");
    CHECK_EQ(explain(3), 200);
    assert_non_null(
        strstr(heard, "\"args\": \"explain /dev/stdin --json --seconds 7 --policy dtr_eq\""));
    assert_non_null(strstr(heard, "\"entrypoint\": \"ebb:gan\", \"model\": {\"name\": \"m\"}"));
    snprintf(first, sizeof first, "%s", strstr(heard, "\r\n\r\n"));
    CHECK_EQ(explain(3), 200);
    CHECK_STR(strstr(heard, "\r\n\r\n"), first); /* the same process answered */
    CHECK_EQ(explain(4), 200);
    CHECK(strcmp(strstr(heard, "\r\n\r\n"), first) != 0);
    CHECK_EQ(explain_with(3, ", \"quick\": true"), 200);
    assert_non_null(strstr(heard, "\"args\": \"explain /dev/stdin --json --quick\""));
    CHECK_EQ(explain_with(3, ", \"budget\": \"1MiB\", \"host\": \"2MiB\", \"file\": 512"), 200);
    assert_non_null(strstr(heard, "--policy dtr_eq --budget 1048576\""));
    assert_non_null(strstr(heard, "\"memory\": {\"precision\": \"fp32\", \"host\": 2097152, "
                                  "\"file\": 512}"));
    CHECK_EQ(explain_with(3, ", \"budget\": 256, \"quick\": true"), 200);
    assert_non_null(strstr(heard, "--json --quick --budget 256\""));
    CHECK_EQ(explain_with(3, ", \"device\": \"nvidia-h200\""), 200);
    assert_non_null(strstr(heard, "\"device\": \"nvidia-h200\""));
    fixture_end(&f);
    begin_with_program("echo 'ebb: error: /dev/stdin:1:40: model.planes: found -3' >&2; exit 2");
    CHECK_EQ(explain(3), 422);
    assert_non_null(strstr(heard, "\"message\": \"model.planes: found -3\""));
    fixture_end(&f);
}

TEST(explain__computes_few_at_once)
{
    int fds[30], busy = 0;
    char text[512], body[128];
    begin_with_program("exec sleep 2");
    for (int i = 0; i < 30; i++) {
        int n = snprintf(body, sizeof body, "{\"model\": \"m\", \"task\": \"gan\", \"batch\": %d}",
                         i + 1);
        char request[400];
        snprintf(request, sizeof request,
                 "POST /api/v1/explain HTTP/1.1\r\n" HOST
                 "Authorization: Bearer ~R\r\nContent-Length: %d\r\n\r\n%s",
                 n, body);
        spell(text, sizeof text, request);
        fds[i] = dial();
        assert_int_equal(send(fds[i], text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
        exp_master_turn(f.m, 2);
    }
    for (int i = 0; i < 100; i++)
        exp_master_turn(f.m, 2);
    for (int i = 0; i < 30; i++) {
        ssize_t n = recv(fds[i], heard, sizeof heard - 1, MSG_DONTWAIT);
        heard[n > 0 ? n : 0] = '\0';
        busy += strncmp(heard, "HTTP/1.1 503", 12) == 0;
        close(fds[i]);
    }
    CHECK(busy >= 30 - 16 - 4 && busy <= 30 - 16);
    uint64_t start = ebb_clock_ns(); /* reading goes on beside */
    CHECK_EQ(ask("GET /api/v1/experiments?limit=5", HOST "Authorization: Bearer ~R\r\n", ""), 200);
    CHECK(ebb_clock_ns() - start < 1500000000u);
    /* who has left is not computed for: there is room */
    for (int i = 0; i < 20; i++)
        exp_master_turn(f.m, 2);
    CHECK_EQ(explain(99), 422); /* it says nothing */
    fixture_end(&f);
}

static const char *const changes[] = {"POST /api/v1/experiments/1/kill",
                                      "PATCH /api/v1/experiments/1", "DELETE /api/v1/experiments/1",
                                      "PUT /api/v1/templates/t"};

TEST(reader__changes_nothing)
{
    begin();
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        expect(changes[i], 403, changes[i], HOST "Authorization: Bearer ~R\r\n", "");
    expect("reads", 200, "GET /api/v1/experiments", HOST "Authorization: Bearer ~R\r\n", "");
    expect("previews", 400, "POST /api/v1/preview-hp-search", HOST "Authorization: Bearer ~R\r\n",
           ""); /* 400: the body is missing, not the right */
    fixture_end(&f);
}

TEST(cookie__needs_the_page_that_it_was_made_for)
{
    begin();
    log_in();
    expect("reads", 200, "GET /api/v1/session", HOST "Cookie: a=b; ~C\r\n", "");
    assert_non_null(strstr(heard, csrf));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        expect("no origin", 403, changes[i], HOST "Cookie: ~C\r\nX-Ebb-Csrf: ~X\r\n", "");
        expect("another's", 403, changes[i],
               HOST "Cookie: ~C\r\nX-Ebb-Csrf: ~X\r\nOrigin: https://evil.example\r\n", "");
        expect("null", 403, changes[i], HOST "Cookie: ~C\r\nX-Ebb-Csrf: ~X\r\nOrigin: null\r\n",
               "");
        expect("longer", 403, changes[i],
               HOST "Cookie: ~C\r\nX-Ebb-Csrf: ~X\r\nOrigin: http://127.0.0.1:~P.evil.example\r\n",
               "");
        expect("no secret", 403, changes[i], HOST "Cookie: ~C\r\nOrigin: http://127.0.0.1:~P\r\n",
               "");
        expect("wrong secret", 403, changes[i],
               HOST "Cookie: ~C\r\nX-Ebb-Csrf: 0~X\r\nOrigin: http://127.0.0.1:~P\r\n", "");
    }
    expect("all there", 404, changes[0],
           HOST "Cookie: ~C\r\nX-Ebb-Csrf: ~X\r\nOrigin: http://127.0.0.1:~P\r\n", "");
    expect("bearer needs neither", 404, changes[0], HOST "Authorization: Bearer ~T\r\n", "");
    expect("a bearer makes the cookie count for nothing", 401, "GET /api/v1/me",
           HOST "Cookie: ~C\r\nAuthorization: Bearer x\r\n", "");
    expect("two hosts", 400, "GET /api/v1/me", HOST HOST "Cookie: ~C\r\n", "");
    /* out */
    expect("leave", 204, "DELETE /api/v1/session",
           HOST "Cookie: ~C\r\nX-Ebb-Csrf: ~X\r\nOrigin: http://127.0.0.1:~P\r\n", "");
    expect("gone", 401, "GET /api/v1/session", HOST "Cookie: ~C\r\n", "");
    fixture_end(&f);
}

TEST(login__with_a_token_ends_with_it)
{
    char body[128], fields[160];
    begin();
    int n = snprintf(body, sizeof body, "{\"token\": \"%s\"}", reader);
    snprintf(fields, sizeof fields, HOST "Origin: http://127.0.0.1:~P\r\nContent-Length: %d\r\n",
             n);
    CHECK_EQ(ask("POST /api/v1/login", fields, body), 200);
    assert_non_null(strstr(heard, "\"read_only\": true"));
    const char *set = strstr(heard, "Set-Cookie: ");
    snprintf(cookie, sizeof cookie, "%.*s", (int)strcspn(set + 12, ";"), set + 12);
    expect("in", 200, "GET /api/v1/session", HOST "Cookie: ~C\r\n", "");
    fixture_ask(&f, "DELETE", "/tokens/2", NULL, NULL);
    expect("revoked", 401, "GET /api/v1/session", HOST "Cookie: ~C\r\n", "");
    snprintf(fields, sizeof fields, HOST "Origin: http://evil\r\nContent-Length: %d\r\n", n);
    expect("from elsewhere", 403, "POST /api/v1/login", fields, body);
    fixture_end(&f);
}

TEST(bad_logins__are_slowed_down)
{
    begin();
    int wrong = 0, slowed = 0;
    uint64_t start = ebb_clock_ns();
    for (int i = 0; i < 12; i++) {
        int status = ask("GET /api/v1/me", HOST "Authorization: Bearer guess\r\n", "");
        wrong += status == 401;
        slowed += status == 429;
    }
    double seconds = (double)(ebb_clock_ns() - start) * 1e-9; /* five a second are forgiven */
    CHECK(wrong >= 5 && wrong <= 6 + 5 * seconds);
    CHECK_EQ(wrong + slowed, 12);
    expect("who is right is answered", 200, "GET /api/v1/me", HOST "Authorization: Bearer ~T\r\n",
           "");
    fixture_end(&f);
}

TEST(host__is_one_that_is_served)
{
    static const char *const names[] = {"lab.example"};
    begin_with((struct serve_listen){.hosts = names, .host_count = 1});
    static const struct {
        const char *field;
        int status;
    } rows[] = {{"Host: 127.0.0.1:~P\r\n", 200},
                {"Host: localhost:~P\r\n", 200},
                {"Host: [::1]:~P\r\n", 200},
                {"Host: LAB.example\r\n", 200},
                {"Host: lab.example:444\r\n", 200},
                {"Host: evil.example\r\n", 421},
                {"Host: evil.example:~P\r\n", 421},
                {"Host: 127.0.0.1\r\n", 421},
                {"Host: 127.0.0.1:1\r\n", 421},
                {"Host: 127.0.0.1:~P:~P\r\n", 421},
                {"Host: lab.example.evil\r\n", 421},
                {"Host: \r\n", 421},
                {"", 421},
                {"Host: 10.0.0.1:~P\r\n", 421}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char fields[256];
        snprintf(fields, sizeof fields, "%sAuthorization: Bearer ~T\r\n", rows[i].field);
        expect(rows[i].field, rows[i].status, "GET /api/v1/me", fields, "");
        expect(rows[i].field, rows[i].status, "GET /", rows[i].field, "");
    }
    fixture_end(&f);
}

TEST(address__off_loopback_needs_tls_or_a_proxy)
{
    struct ebb_error err;
    fixture_begin(&f, 1);
    fixture_open(&f);
    static const char *const bad[] = {"0.0.0.0:80",   "[::]:8080", "8080x",           "127.0.0.1",
                                      "1.2.3.4:http", ":8080",     "127.0.0.1:99999", "::1:80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct serve_listen how = {.listen = bad[i]};
        CHECK_EQ(serve_listen(f.m, &how, &err), EBB_EINPUT);
    }
    struct serve_listen bare = {.listen = "0.0.0.0:0"};
    CHECK_EQ(serve_listen(f.m, &bare, &err), EBB_EINPUT);
    assert_non_null(strstr(err.message, "--tls-cert FILE --tls-key FILE; or --behind-proxy"));
    CHECK(serve_url(f.m) == NULL);
    struct serve_listen half = {.listen = "127.0.0.1:0", .tls_cert = "x"};
    CHECK_EQ(serve_listen(f.m, &half, &err), EBB_EINPUT);
    struct serve_listen path = {.listen = "127.0.0.1:0", .base_path = "ebb"};
    CHECK_EQ(serve_listen(f.m, &path, &err), EBB_EINPUT);
    int status;
    fixture_ask(&f, "POST", "/login-links", NULL, &status);
    CHECK_EQ(status, 409); /* and how to get a page */
    struct serve_listen proxied = {.listen = "0.0.0.0:0", .is_behind_proxy = true};
    CHECK_OK(serve_listen(f.m, &proxied, &err), &err);
    port = atoi(strrchr(serve_url(f.m), ':') + 1);
    const char *url =
        ebb_doc_string(fixture_ask(&f, "POST", "/login-links", NULL, NULL), "url", "");
    CHECK(strncmp(url, "http://localhost:", 17) == 0);
    expect("where its own link leads", 200, "GET /", "Host: localhost:~P\r\n", "");
    expect("others by name", 421, "GET /", "Host: lab.example:~P\r\n", "");
    fixture_end(&f);
}

TEST(base_path__stands_before_everything)
{
    begin_with((struct serve_listen){.base_path = "/ebb"});
    expect("data", 200, "GET /ebb/api/v1/me", HOST "Authorization: Bearer ~T\r\n", "");
    expect("page", 200, "GET /ebb/", HOST, "");
    expect("its slash", 308, "GET /ebb", HOST, "");
    assert_non_null(strstr(heard, "Location: /ebb/\r\n"));
    expect("elsewhere", 404, "GET /", HOST, "");
    expect("elsewhere", 404, "GET /ebbx/", HOST, "");
    expect("elsewhere", 404, "GET /api/v1/me", HOST "Authorization: Bearer ~T\r\n", "");
    fixture_end(&f);
}

/* ---- messages ---- */

TEST(answers__fit_what_browsers_ask)
{
    char etag[64], fields[256];
    begin();
    expect("get", 200, "GET /api/v1/master/config", HOST "Authorization: Bearer ~T\r\n", "");
    const char *at = strstr(heard, "ETag: ");
    assert_non_null(at);
    snprintf(etag, sizeof etag, "%.*s", (int)strcspn(at + 6, "\r"), at + 6);
    static const char *const guards[] = {
        "Content-Security-Policy: default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "form-action 'self'\r\n",
        "X-Content-Type-Options: nosniff\r\n"};
    for (size_t i = 0; i < 2; i++)
        assert_non_null(strstr(heard, guards[i]));
    snprintf(fields, sizeof fields, HOST "Authorization: Bearer ~T\r\nIf-None-Match: %s\r\n", etag);
    expect("same", 304, "GET /api/v1/master/config", fields, "");
    CHECK_STR(strstr(heard, "\r\n\r\n"), "\r\n\r\n");
    expect("head", 200, "HEAD /api/v1/master/config", HOST "Authorization: Bearer ~T\r\n", "");
    CHECK_STR(strstr(heard, "\r\n\r\n"), "\r\n\r\n");
    assert_non_null(strstr(heard, "Content-Length: "));
    for (int i = 0; i < 60; i++) {
        char target[64];
        snprintf(target, sizeof target, "/templates/t%d", i);
        fixture_ask(&f, "PUT", target, "{\"config\": \"max_restarts: 3\\n\"}", NULL);
    }
    expect("packed", 200, "GET /api/v1/templates",
           HOST "Authorization: Bearer ~T\r\nAccept-Encoding: gzip, br\r\n", "");
    assert_non_null(strstr(heard, "Content-Encoding: gzip\r\n"));
    CHECK(heard_length < 1200);
    expect("not packed", 200, "GET /api/v1/templates", HOST "Authorization: Bearer ~T\r\n", "");
    CHECK(heard_length > 2000);
    fixture_end(&f);
}

/* Whoever is refused reads why, and what would be taken. */
TEST(refusals__say_what_is_wrong)
{
    static const struct {
        int status;
        const char *field, *words;
    } rows[] = {{413, "Content-Length: 200000000\r\n", "at most 160 MiB"},
                {417, "Expect: 200-ok\r\n", "100-continue"},
                {501, "Transfer-Encoding: gzip\r\n", "only chunked"}};
    static char large[17000];
    begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect("refused", rows[i].status, "PUT /api/v1/templates/t", rows[i].field, "");
        assert_non_null(strstr(heard, rows[i].words));
    }
    memset(large, 'x', sizeof large);
    int fd = dial();
    assert_int_equal(send(fd, large, sizeof large, MSG_NOSIGNAL), (ssize_t)sizeof large);
    heard_length = 0;
    hear_until(fd, NULL, 5000);
    close(fd);
    assert_non_null(strstr(heard, "at most 16 KiB"));
    expect("no part of a name", 404, "GET /api/v1/users/a%00b", HOST "Authorization: Bearer ~T\r\n",
           "");
    assert_non_null(strstr(heard, "a%00b"));
    const char *date = strstr(heard, "\r\nDate: ");
    struct tm t = {0};
    assert_non_null(date);
    assert_non_null(strptime(date + 8, "%a, %d %b %Y %H:%M:%S GMT", &t));
    CHECK(llabs((long long)(timegm(&t) - time(NULL))) <= 60);
    fixture_end(&f);
}

TEST(body__may_come_in_pieces)
{
    begin();
#define CHUNKED HOST "Authorization: Bearer ~T\r\nTransfer-Encoding: chunked\r\n"
    static const struct {
        const char *what, *body;
        int status;
    } rows[] = {
        {"two", "9\r\n{\"config\"\r\nD\r\n: \"{    }\\n\"}\r\n0\r\n\r\n", 200},
        {"one", "16\r\n{\"config\": \"{    }\\n\"}\r\n0\r\n\r\n", 200},
        {"no number", "x\r\n{}\r\n0\r\n\r\n", 400},
        {"empty number", "\r\n{}\r\n0\r\n\r\n", 400},
        {"no end of a piece", "2\r\n{}0\r\n\r\n", 400},
        {"too long", "FFFFFFFF\r\n", 413},
        {"far too long", "FFFFFFFFF\r\n", 400},
        {"fields after it", "2\r\n{}\r\n0\r\nX: y\r\n\r\n", 400},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect(rows[i].what, rows[i].status, "PUT /api/v1/templates/t", CHUNKED, rows[i].body);
    expect("both lengths", 400, "PUT /api/v1/templates/t", CHUNKED "Content-Length: 2\r\n",
           "2\r\n{}\r\n0\r\n\r\n");
    expect("other coding", 501, "PUT /api/v1/templates/t",
           HOST "Authorization: Bearer ~T\r\nTransfer-Encoding: gzip\r\n", "");
    fixture_end(&f);
}

/* As much as is taken of a body; the status of the answer. */
static int pour(const char *first, const char *fields, size_t bytes)
{
    static char noise[1 << 14];
    char request[1024], text[2048];
    int status = 0;
    memset(noise, 'x', sizeof noise);
    snprintf(request, sizeof request, "%s HTTP/1.1\r\n%sContent-Length: 150000000\r\n\r\n", first,
             fields);
    spell(text, sizeof text, request);
    int fd = dial();
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    heard_length = 0;
    heard[0] = '\0';
    for (size_t sent = 0; sent < bytes && heard_length == 0;) {
        ssize_t n = send(fd, noise, sizeof noise, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            break;
        sent += n > 0 ? (size_t)n : 0;
        hear_until(fd, "\r\n\r\n", n > 0 ? 1 : 5);
    }
    hear_until(fd, "\r\n\r\n", 500);
    close(fd);
    (void)sscanf(heard, "HTTP/1.1 %d", &status);
    return status;
}

/* Who sends all of it before anything is read hears the answer, not that the connection is reset. */
TEST(refusal__is_heard_by_who_goes_on_sending)
{
    static char noise[1 << 16];
    char text[512];
    begin();
    spell(text, sizeof text,
          "POST /api/v1/experiments HTTP/1.1\r\n" HOST "Content-Length: 4194304\r\n\r\n");
    int fd = dial();
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    size_t sent = 0;
    for (int i = 0; i < 5000 && sent < 4194304; i++) {
        ssize_t n = send(fd, noise, sizeof noise, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            fail_msg("after %zu bytes: %s", sent, strerror(errno));
        sent += n > 0 ? (size_t)n : 0;
        exp_master_turn(f.m, 1);
    }
    CHECK_EQ(sent, 4194304);
    heard_length = 0;
    heard[0] = '\0';
    hear_until(fd, "\r\n\r\n", 2000);
    CHECK(strncmp(heard, "HTTP/1.1 401", 12) == 0);
    close(fd);
    fixture_end(&f);
}

TEST(large_body__of_a_stranger_is_not_waited_for)
{
    begin();
    expect("before it has come", 401, "POST /api/v1/experiments",
           HOST "Content-Length: 100000000\r\n", "{");
    size_t most = (size_t)8 << 20;
    CHECK_EQ(pour("POST /api/v1/login", HOST "Origin: http://127.0.0.1:~P\r\n", most), 413);
    CHECK_EQ(pour("POST /", HOST, most), 413);
    CHECK_EQ(pour("POST /api/v1/explain", HOST "Authorization: Bearer ~R\r\n", most), 413);
    CHECK_EQ(pour("POST /api/v1/experiments", HOST "Authorization: Bearer ~R\r\n", most), 403);
    fixture_end(&f);
}

/* ---- streams ---- */

static int listen_to_events(const char *more)
{
    char text[1024], request[512];
    snprintf(request, sizeof request,
             "GET /api/v1/events HTTP/1.1\r\n" HOST
             "Cookie: ~C\r\nAccept: text/event-stream\r\n%s\r\n",
             more);
    spell(text, sizeof text, request);
    int fd = dial();
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    heard_length = 0;
    heard[0] = '\0';
    return fd;
}

TEST(stream__goes_on_where_it_broke_off)
{
    static char yaml[2048];
    begin();
    log_in();
    int fd = listen_to_events("");
    hear_until(fd, ": hello\n\n", 5000);
    CHECK(strncmp(heard, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n", 50) == 0);
    char *body =
        fixture_body(fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1", ""), false);
    fixture_ask(&f, "POST", "/experiments", body, NULL);
    ebb_free(body);
    hear_until(fd, "\"experiment_id\": 1", 5000);
    const char *id = strstr(heard, "\nid: ");
    assert_non_null(id);
    long long seq = strtoll(id + 5, NULL, 10);
    close(fd);
    fixture_ask(&f, "PATCH", "/experiments/1", "{\"description\": \"x\"}", NULL);
    fixture_ask(&f, "POST", "/experiments/1/activate", NULL, NULL);
    char more[64];
    snprintf(more, sizeof more, "Last-Event-ID: %lld\r\n", seq);
    fd = listen_to_events(more);
    hear_until(fd, "ACTIVE", 5000);
    assert_non_null(strstr(heard, "ACTIVE")); /* happened while nobody listened */
    assert_null(strstr(heard, "event: cut"));
    close(fd);
    /* filters */
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/events?after=%lld&types=trial,step", seq - 1), "events");
    for (size_t i = 0; i < list->count; i++)
        CHECK(strcmp(ebb_doc_string(list->items[i], "type", ""), "experiment") != 0);
    CHECK(ebb_doc_get(fixture_get(&f, "/events?after=%lld&types=experiment", seq - 1), "events")
              ->count > 0);
    CHECK_EQ(
        ebb_doc_get(fixture_get(&f, "/events?after=%lld&trial_id=99", seq - 1), "events")->count,
        0);
    fd = listen_to_events("Last-Event-ID: 7\r\n"); /* of an earlier master */
    hear_until(fd, "event: cut\n", 5000);
    assert_non_null(strstr(heard, "event: cut\n"));
    close(fd);
    fd = listen_to_events("Last-Event-ID: 9000000000000000000\r\n"); /* whose clock was ahead */
    hear_until(fd, "event: cut\n", 5000);
    assert_non_null(strstr(heard, "event: cut\n"));
    close(fd);
    CHECK(ebb_doc_bool(fixture_get(&f, "/events?after=9000000000000000000"), "is_cut", false));
    expect("no body", 200, "HEAD /api/v1/events",
           HOST "Cookie: ~C\r\nAccept: text/event-stream\r\n", "");
    CHECK_STR(strstr(heard, "\r\n\r\n"), "\r\n\r\n");
    fixture_end(&f);
}

TEST(poll__for_what_comes_hears_it)
{
    static char yaml[2048];
    char text[512];
    begin();
    spell(text, sizeof text,
          "GET /api/v1/events?after=-1&wait=60 HTTP/1.1\r\n" HOST
          "Authorization: Bearer ~R\r\n\r\n");
    int fd = dial();
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    heard_length = 0;
    heard[0] = '\0';
    hear_until(fd, "HTTP", 200);
    CHECK_EQ(heard_length, 0);
    char *body =
        fixture_body(fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1", ""), false);
    fixture_ask(&f, "POST", "/experiments", body, NULL);
    ebb_free(body);
    hear_until(fd, "\"experiment_id\": 1", 5000);
    assert_non_null(strstr(heard, "\"experiment_id\": 1"));
    close(fd);
    fixture_end(&f);
}

/* What came behind a poll is dealt with when the poll is: by news, by its end, or refused. */
TEST(poll__keeps_no_request_behind_it_for_ever)
{
    char text[1024];
    begin();
    spell(text, sizeof text,
          "GET /api/v1/events?after=999999&wait=1 HTTP/1.1\r\n" HOST
          "Authorization: Bearer ~R\r\n\r\n"
          "GET /api/v1/me HTTP/1.1\r\n" HOST "Authorization: Bearer ~R\r\n\r\n");
    int fd = dial();
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    heard_length = 0;
    heard[0] = '\0';
    uint64_t start = ebb_clock_ns();
    hear_until(fd, "\"num_experiments\"", 20000);
    CHECK(ebb_clock_ns() - start < 8000000000u);
    assert_non_null(strstr(heard, "\"events\": []"));
    assert_non_null(strstr(heard, "\"num_experiments\""));
    assert_null(strstr(heard, "408"));
    close(fd);
    fixture_end(&f);
}

/* Nothing can be written: nobody is kept awake by a stream that nothing is said to. */
TEST(stream__lets_a_stalled_master_rest)
{
    int status = 200, id = 0;
    struct ebb_error err;
    struct serve_listen how = {.listen = "127.0.0.1:0"};
    fixture_begin(&f, 1);
    f.options.faults.commit_fail_from = 24;
    f.options.faults.commit_fail_count = 1000000;
    fixture_open(&f);
    CHECK_OK(serve_listen(f.m, &how, &err), &err);
    port = atoi(strrchr(serve_url(f.m), ':') + 1);
    while (ebb_doc_int(fixture_get(&f, "/master"), "commits", 0) < 16)
        fixture_ask(&f, "POST", "/tokens", "{}", NULL);
    log_in();
    int fd = listen_to_events("");
    hear_until(fd, ": hello\n\n", 5000);
    while (status == 200 && id < 12) { /* each doubts the streams, until one fails */
        char target[32];
        snprintf(target, sizeof target, "/tokens/%d", ++id);
        fixture_ask(&f, "DELETE", target, NULL, &status);
    }
    CHECK_EQ(status, 503);
    uint64_t start = ebb_clock_ns();
    for (int i = 0; i < 10; i++)
        exp_master_turn(f.m, 50);
    CHECK(ebb_clock_ns() - start > 200000000u);
    close(fd);
    fixture_end(&f);
}

/* Who has lost the right to listen hears nothing more. */
TEST(stream__ends_with_what_proves_who_listens)
{
    static char yaml[2048];
    begin();
    log_in();
    int fd = listen_to_events("");
    hear_until(fd, ": hello\n\n", 5000);
    char text[512];
    spell(text, sizeof text,
          "GET /api/v1/events?after=-1&wait=600 HTTP/1.1\r\n" HOST "Cookie: ~C\r\n\r\n");
    int poll = dial();
    assert_int_equal(send(poll, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    hear_until(poll, "HTTP", 200);
    expect("leave", 204, "DELETE /api/v1/session",
           HOST "Cookie: ~C\r\nX-Ebb-Csrf: ~X\r\nOrigin: http://127.0.0.1:~P\r\n", "");
    char *body =
        fixture_body(fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1", ""), false);
    fixture_ask(&f, "POST", "/experiments", body, NULL);
    ebb_free(body);
    heard_length = 0;
    heard[0] = '\0';
    uint64_t start = ebb_clock_ns();
    hear_until(fd, "experiment_id", 20000);
    assert_null(strstr(heard, "experiment_id"));
    CHECK(ebb_clock_ns() - start < 10000000000u); /* it is closed, not silent */
    heard_length = 0;
    heard[0] = '\0';
    hear_until(poll, "HTTP", 20000);
    CHECK(strncmp(heard, "HTTP/1.1 401", 12) == 0);
    close(fd);
    close(poll);
    fixture_end(&f);
}

/* ---- patience ---- */

TEST(slow_and_idle_peers__are_let_go)
{
    begin_with((struct serve_listen){.head_ms = 300, .idle_ms = 600});
    int slow = dial(), idle = dial();
    uint64_t start = ebb_clock_ns();
    static const char request[] = "GET / HTTP/1.1\r\nX: aaaaaaaaaaaaaaaaaaaaaaaa";
    heard_length = 0;
    for (int i = 0; i < 40 && ebb_clock_ns() - start < 8000000000u; i++) { /* a byte at a time */
        if (send(slow, &request[i], 1, MSG_NOSIGNAL) != 1)
            break;
        hear_until(slow, "408", 25);
        if (heard_length > 0)
            break;
    }
    uint64_t ms = (ebb_clock_ns() - start) / 1000000u;
    assert_non_null(strstr(heard, "408"));
    CHECK(ms >= 250 && ms < 8000);
    char byte;
    for (int i = 0; i < 2000 && recv(idle, &byte, 1, MSG_DONTWAIT) != 0; i++)
        exp_master_turn(f.m, 5);
    CHECK_EQ(recv(idle, &byte, 1, MSG_DONTWAIT), 0);
    close(slow);
    close(idle);
    fixture_end(&f);
}

TEST(slow_body__of_a_stranger_has_an_end)
{
    static const char *const firsts[] = {"POST /api/v1/login", "POST /"};
    begin_with((struct serve_listen){.head_ms = 300, .idle_ms = 100000});
    for (size_t k = 0; k < 2; k++) {
        char request[512], text[1024];
        snprintf(request, sizeof request,
                 "%s HTTP/1.1\r\n" HOST
                 "Origin: http://127.0.0.1:~P\r\nContent-Length: 5000\r\n\r\n",
                 firsts[k]);
        spell(text, sizeof text, request);
        int fd = dial();
        assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
        heard_length = 0;
        heard[0] = '\0';
        for (int i = 0; i < 100 && heard_length == 0; i++) { /* a byte at a time */
            (void)!send(fd, "x", 1, MSG_NOSIGNAL);
            hear_until(fd, "408", 50);
        }
        assert_non_null(strstr(heard, "408"));
        close(fd);
    }
    fixture_end(&f);
}

static size_t count_answers(void)
{
    size_t n = 0;
    for (const char *at = heard; (at = strstr(at, "HTTP/1.1 404")) != NULL; at++)
        n++;
    return n;
}

/* However many come at once: nobody has a turn for himself. */
TEST(requests_of_one_peer__are_answered_turn_by_turn)
{
    enum { MANY = 60 };
    static char all[MANY * 64], one[256];
    size_t n = 0, before = 0;
    begin();
    spell(one, sizeof one, "GET /none HTTP/1.1\r\n" HOST "\r\n");
    for (int i = 0; i < MANY; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s", one);
    int fd = dial();
    assert_int_equal(send(fd, all, n, MSG_NOSIGNAL), (ssize_t)n);
    heard_length = 0;
    heard[0] = '\0';
    for (int i = 0; i < 5000 && before < MANY; i++) {
        exp_master_turn(f.m, 2);
        ssize_t k = recv(fd, heard + heard_length, sizeof heard - 1 - heard_length, MSG_DONTWAIT);
        heard_length += k > 0 ? (size_t)k : 0;
        heard[heard_length] = '\0';
        size_t now = count_answers();
        CHECK(now <= before + 1);
        before = now;
    }
    CHECK_EQ(before, MANY);
    close(fd);
    fixture_end(&f);
}

TEST(chatter_while_waiting__has_an_end)
{
    static char noise[1 << 16];
    char text[1024];
    begin();
    log_in();
    spell(text, sizeof text,
          "GET /api/v1/events?after=-1&wait=30 HTTP/1.1\r\n" HOST "Cookie: ~C\r\n\r\n");
    int fd = dial();
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    memset(noise, 'x', sizeof noise);
    size_t sent = 0;
    bool is_gone = false;
    for (int i = 0; i < 20000 && !is_gone && sent < ((size_t)64 << 20); i++) {
        ssize_t n = send(fd, noise, sizeof noise, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        is_gone = n < 0 && errno != EAGAIN;
        exp_master_turn(f.m, 0);
    }
    CHECK(is_gone);
    CHECK(sent < ((size_t)16 << 20));
    close(fd);
    fixture_end(&f);
}

/* Whoever reads no answer may not say much either: what nobody deals with is kept. */
TEST(chatter_behind_unread_answers__has_an_end)
{
    static char noise[1 << 16];
    char text[256];
    size_t sent = 0, length = 0;
    bool is_gone = false;
    begin();
    spell(text, sizeof text, "GET /nothing HTTP/1.1\r\n" HOST "\r\n");
    for (size_t n = strlen(text); length + n <= sizeof noise; length += n)
        memcpy(noise + length, text, n);
    int fd = dial(), least = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
    uint64_t start = ebb_clock_ns();
    while (!is_gone && sent < ((size_t)256 << 20) && ebb_clock_ns() - start < 8000000000u) {
        ssize_t n = send(fd, noise, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        is_gone = n < 0 && errno != EAGAIN;
        exp_master_turn(f.m, 0);
    }
    CHECK(is_gone); /* long before its patience ends */
    close(fd);
    fixture_end(&f);
}

TEST(thousand_idle_connections__keep_the_socket_free)
{
    static int fds[1000];
    struct rlimit limit;
    begin();
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (size_t i = 0; i < 1000; i++) {
        fds[i] = dial();
        if (i % 16 == 0)
            exp_master_turn(f.m, 0);
    }
    for (int i = 0; i < 200; i++)
        exp_master_turn(f.m, 0);
    /* a program asks through master.sock meanwhile */
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        struct serve_http_response response;
        struct ebb_error err;
        struct serve_client_address address = {.state_dir = f.dir};
        struct serve_http_request request = {.method = "GET", .target = "/master"};
        serve_http_response_init(&response);
        (void)serve_client_request(&address, &request, 5000, &response, &err); /* loads libcurl */
        uint64_t start = ebb_clock_ns();
        enum ebb_status asked = serve_client_request(&address, &request, 5000, &response, &err);
        uint64_t ns = ebb_clock_ns() - start;
        _exit(asked == EBB_OK && response.status == 200 ? (ns < 100000000u ? 0 : 2) : 1);
    }
    while (waitpid(pid, &status, WNOHANG) == 0)
        exp_master_turn(f.m, 5);
    CHECK_EQ(WEXITSTATUS(status), 0);
    expect("strangers lock nobody out", 200, "GET /api/v1/me", HOST "Authorization: Bearer ~T\r\n",
           "");
    for (size_t i = 0; i < 1000; i++)
        close(fds[i]);
    for (int i = 0; i < 50; i++)
        exp_master_turn(f.m, 2);
    expect("and the door opens again", 200, "GET /", HOST, "");
    fixture_end(&f);
}

static int dial_from(uint32_t host)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)},
                       a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static void dial_many(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fds[i] = dial();
        if (i % 16 == 0)
            exp_master_turn(f.m, 0);
    }
    for (int i = 0; i < 50; i++)
        exp_master_turn(f.m, 0);
}

static void close_many(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

/* However many come from one address, before he has said a word. */
TEST(slow_caller__is_not_thrown_out_by_those_of_another_address)
{
    static int fds[600];
    char text[512];
    begin();
    int fd = dial_from(0x7f000002);
    exp_master_turn(f.m, 0);
    dial_many(fds, 600);
    spell(text, sizeof text, "GET /api/v1/me HTTP/1.1\r\n" HOST "Authorization: Bearer ~T\r\n\r\n");
    heard_length = 0;
    heard[0] = '\0';
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
    hear_until(fd, "\r\n\r\n", 5000);
    CHECK(strncmp(heard, "HTTP/1.1 200", 12) == 0);
    close(fd);
    close_many(fds, 600);
    fixture_end(&f);
}

static bool is_open(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* He was refused, and is kept until he has heard it: others have something to say yet. */
TEST(stranger_who_was_answered__goes_before_those_who_were_not)
{
    static int fds[255];
    char text[512];
    begin();
    dial_many(fds, 255);
    int fd = dial_from(0x7f000002);
    spell(text, sizeof text,
          "PUT /api/v1/templates/t HTTP/1.1\r\n" HOST "Content-Length: 100000000\r\n\r\n{");
    heard_length = 0;
    heard[0] = '\0';
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
    hear_until(fd, "\r\n\r\n", 5000);
    CHECK(strncmp(heard, "HTTP/1.1 4", 10) == 0);
    int next = dial_from(0x7f000003);
    for (int i = 0; i < 50; i++)
        exp_master_turn(f.m, 0);
    for (size_t i = 0; i < 255; i++)
        CHECK(is_open(fds[i]));
    CHECK(is_open(next));
    int last =
        dial_from(0x7f000004); /* all others wait: the oldest of those who have most places */
    for (int i = 0; i < 50; i++)
        exp_master_turn(f.m, 0);
    CHECK(!is_open(fds[0]) && is_open(fds[1]) && is_open(next) && is_open(last));
    close(fd);
    close(next);
    close(last);
    close_many(fds, 255);
    fixture_end(&f);
}

/* Two requests at once; the second makes a template of that name. */
static void ask_twice(int fd, const char *name)
{
    char request[1024], text[1024];
    snprintf(request, sizeof request,
             "GET /none HTTP/1.1\r\n" HOST "\r\n"
             "PUT /api/v1/templates/%s HTTP/1.1\r\n" HOST "Authorization: Bearer ~T\r\n"
             "Content-Length: 22\r\n\r\n{\"config\": \"{    }\\n\"}",
             name);
    spell(text, sizeof text, request);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* What a GET of it says. */
static int template_status(const char *name)
{
    char target[64];
    int status = 0;
    snprintf(target, sizeof target, "/templates/%s", name);
    fixture_ask(&f, "GET", target, NULL, &status);
    return status;
}

/* His second request waits for the first one's answer when others take his place: he is gone, and
 * what he asked is not done. Whom nobody disturbs gets what he asks in the same words. */
TEST(request__of_who_has_lost_his_place_is_not_carried_out)
{
    static int fds[64 + 191 + 120];
    begin();
    int fd = dial();
    ask_twice(fd, "early");
    for (int i = 0; i < 50; i++)
        exp_master_turn(f.m, 0);
    CHECK_EQ(template_status("early"), 200);
    close(fd);
    for (int i = 0; i < 50; i++)
        exp_master_turn(f.m, 0);
    dial_many(fds, 64);
    fd = dial();
    dial_many(fds + 64, 191);
    ask_twice(fd, "late");
    for (size_t i = 64 + 191; i < sizeof fds / sizeof *fds; i++)
        fds[i] = dial(); /* 64 of them in a turn: the next one takes his place */
    for (int i = 0; i < 50; i++)
        exp_master_turn(f.m, 0);
    CHECK_EQ(template_status("late"), 404);
    close(fd);
    close_many(fds, sizeof fds / sizeof *fds);
    fixture_end(&f);
}

TEST(nonsense__is_refused_and_harms_nobody)
{
    begin();
    static const char *const bad[] = {"\x16\x03\x01\x02",
                                      "GET\r\n\r\n",
                                      "GET / HTTP/2.0\r\n\r\n",
                                      "GET http://x/ HTTP/1.1\r\n\r\n",
                                      "\r\n\r\n",
                                      "{}\n\r\n\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int fd = dial();
        (void)!send(fd, bad[i], strlen(bad[i]), MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        heard_length = 0;
        heard[0] = '\0';
        hear_until(fd, NULL, 100);
        assert_null(strstr(heard, "200 OK"));
        close(fd);
    }
    expect("on it goes", 200, "GET /api/v1/me", HOST "Authorization: Bearer ~T\r\n", "");
    fixture_end(&f);
}

TEST_MAIN()
