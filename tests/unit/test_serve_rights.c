/* Every route of the table: who may ask it over TCP; no answer has a secret; none holds the loop. */
#include "test.h"

#include "base/rng.h"
#include "browser_fixture.h"
#include "serve/rest.h"

/* The path of a route with something in the place of its signs. */
static void fill(char out[256], const struct serve_route *route, const char *name)
{
    size_t n = (size_t)snprintf(out, 256, "%s /api/v1", route->method);
    for (const char *at = route->path; *at != '\0' && n < 200; at++)
        if (*at == '#')
            out[n++] = '1';
        else if (*at == '*' && at[-1] == '/')
            n += (size_t)snprintf(out + n, 256 - n, "%s", name);
        else if (*at != '*')
            out[n++] = *at;
    out[n] = '\0';
}

static bool is_get(const struct serve_route *route)
{
    return strcmp(route->method, "GET") == 0;
}

TEST(routes__each_wants_its_right)
{
    const struct serve_route *route;
    char first[256];
    size_t count = 0;
    begin();
    log_in();
    for (; (route = serve_route_at(count)) != NULL; count++) {
        bool is_local = (route->flags & SERVE_LOCAL) != 0,
             may_read = is_get(route) || (route->flags & (SERVE_READS | SERVE_PROVES)) != 0;
        fill(first, route, "x");
        expect(first, 401, first, HOST, "");
        expect(first, 421, first, "Host: evil.example\r\nAuthorization: Bearer ~T\r\n", "");
        if (!may_read || is_local)
            expect(first, 403, first, HOST "Authorization: Bearer ~R\r\n", "");
        if (is_local)
            expect(first, 403, first, HOST "Authorization: Bearer ~T\r\n", "");
        if (!is_get(route)) {
            expect(first, 403, first, HOST "Cookie: ~C\r\nX-Ebb-Csrf: ~X\r\n", "");
            expect(first, 403, first, HOST "Cookie: ~C\r\nOrigin: http://127.0.0.1:~P\r\n", "");
        }
        if (may_read && !is_local && (route->flags & SERVE_PROVES) == 0) {
            int status = ask(first, HOST "Authorization: Bearer ~R\r\n", "");
            if (status == 401 || status == 403 || status == 421 || status == 0)
                fail_msg("%s by a reader: %d", first, status);
        }
    }
    CHECK(count > 55);
    fixture_end(&f);
}

/* ---- secrets ---- */

static const char *const secrets[] = {"hunter2", "hunter3", "hunter4"};

static void look_for_secrets(const char *what, const char *text)
{
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        if (strstr(text, secrets[i]) != NULL)
            fail_msg("%s tells %s: %.600s", what, secrets[i], text);
}

static void ask_with(const char *first, const char *who, const char *body)
{
    char fields[256];
    snprintf(fields, sizeof fields, HOST "Authorization: Bearer %s\r\nContent-Length: %zu\r\n", who,
             strlen(body));
    (void)ask(first, fields, body);
    look_for_secrets(first, heard);
}

static const char defaults[] = "checkpoint_storage: {type: s3, bucket: b, access_key: a, "
                               "secret_key: hunter2}\n";
static const char template[] =
    "{\"config\": \"checkpoint_storage: {type: s3, bucket: c, access_key: a, secret_key: hunter3}"
    "\\nmax_restarts: 1 # few\\n\"}";

static void begin_with_secrets(char *yaml, size_t size)
{
    char more[600];
    struct ebb_error err;
    struct serve_listen how = {.listen = "127.0.0.1:0"};
    fixture_begin(&f, 1);
    f.options.site_defaults = defaults;
    f.options.ebb_path = "/bin/false";
    fixture_open(&f);
    CHECK_OK(serve_listen(f.m, &how, &err), &err);
    port = atoi(strrchr(serve_url(f.m), ':') + 1);
    copy_text(token, fixture_ask(&f, "POST", "/tokens", "{}", NULL), "token");
    copy_text(reader, fixture_ask(&f, "POST", "/tokens", "{\"read_only\": true}", NULL), "token");
    fixture_ask(&f, "PUT", "/templates/x", template, NULL);
    snprintf(more, sizeof more,
             "checkpoint_storage: {type: shared_fs, host_path: %s/own}\n"
             "environment: {registry_auth: {username: ada, password: hunter4}}\n",
             f.dir);
    fixture_submit(&f, fixture_yaml(yaml, size, "", "name: single, max_steps: 2", more));
    fixture_run(&f, 60);
}

TEST(secrets__stand_in_no_answer)
{
    static char yaml[4096];
    const struct serve_route *route;
    char first[256], uuid[80];
    begin_with_secrets(yaml, sizeof yaml);
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/1/checkpoints"), "checkpoints");
    CHECK(list->count > 0);
    copy_text(uuid, list->items[0], "uuid");
    for (size_t i = 0; (route = serve_route_at(i)) != NULL; i++) {
        if (!is_get(route))
            continue;
        fill(first, route, strncmp(route->path, "/checkpoints", 12) == 0 ? uuid : "x");
        ask_with(first, "~R", "");
        ask_with(first, "~T", "");
    }
    ask_with("GET /api/v1/compare?ids=1,1", "~R", "");
    ask_with("GET /api/v1/compare?trials=1", "~R", "");
    ask_with("GET /api/v1/trials/1/workloads?batches=1", "~R", "");
    ask_with("PATCH /api/v1/experiments/1", "~T", "{\"description\": \"d\"}");
    ask_with("POST /api/v1/experiments/1/archive", "~T", "");
    /* what is refused is not quoted either */
    ask_with("PUT /api/v1/templates/y", "~T",
             "{\"config\": \"checkpoint_storage: {type: s3, secret_key: hunter2, x: 1}\\n\"}");
    ask_with("POST /api/v1/preview-hp-search", "~R",
             "{\"parent_id\": 1, \"experiment_config\": \"environment: {registry_auth: "
             "'********'}\\nsearcher: {name: none}\\n\"}");
    fixture_end(&f);
}

/* What is shown masked can be stored again. */
TEST(template__keeps_its_secret_where_nothing_else_changes)
{
    static char yaml[4096];
    int status;
    begin_with_secrets(yaml, sizeof yaml);
    const char *shown = ebb_doc_string(fixture_get(&f, "/templates/x"), "config", "");
    assert_non_null(strstr(shown, "********"));
    fixture_ask(&f, "PUT", "/templates/x",
                "{\"config\": \"checkpoint_storage: {type: s3, bucket: c, access_key: a, "
                "secret_key: '********'}\\nmax_restarts: 2\\n\"}",
                NULL);
    struct exp_db_template row;
    struct ebb_error err;
    struct exp_db_cursor c = exp_db_template_read(exp_master_db(f.m), EXP_DB_NAME("x"), &row, &err);
    CHECK(exp_db_fetch(&c));
    assert_non_null(strstr(row.config, "hunter3"));
    assert_null(strstr(row.config, "****"));
    CHECK_OK(exp_db_end(&c), &err);
    static const char *const bad[] = {
        "{\"config\": \"checkpoint_storage: {type: s3, bucket: mine, access_key: a, secret_key: "
        "'********'}\\n\"}",
        "{\"config\": \"checkpoint_storage: {type: s3, bucket: c, access_key: a, secret_key: "
        "'********', endpoint_url: 'http://evil'}\\n\"}"};
    for (size_t i = 0; i < 2; i++) {
        fixture_ask(&f, "PUT", "/templates/x", bad[i], &status);
        CHECK_EQ(status, 400);
        fixture_ask(&f, "PUT", "/templates/other", bad[i], &status);
        CHECK_EQ(status, 400);
    }
    /* without secrets it stays as it was written */
    fixture_ask(&f, "PUT", "/templates/z", "{\"config\": \"max_restarts: 1 # few\\n\"}", NULL);
    CHECK_STR(ebb_doc_string(fixture_get(&f, "/templates/z"), "config", ""),
              "max_restarts: 1 # few\n");
    fixture_end(&f);
}

/* ---- the loop ---- */

static size_t told, turns; /* bytes of that answer; `heard` has its beginning */

/* The longest turn while a request is answered, in ms. */
static int64_t longest_turn(const char *first, const char *body)
{
    static char text[8192], rest[1 << 18];
    char request[4096];
    int64_t most = 0;
    told = turns = 0;
    snprintf(request, sizeof request,
             "%s HTTP/1.1\r\nConnection: close\r\n" HOST
             "Authorization: Bearer ~R\r\nContent-Length: %zu\r\n\r\n%s",
             first, strlen(body), body);
    spell(text, sizeof text, request);
    int fd = dial();
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    heard_length = 0;
    heard[0] = '\0';
    for (uint64_t begun = ebb_clock_ns(); ebb_clock_ns() - begun < 120000000000u;) {
        uint64_t start = ebb_clock_ns();
        exp_master_turn(f.m, 0);
        turns++;
        int64_t ms = (int64_t)((ebb_clock_ns() - start) / 1000000u);
        most = ms > most ? ms : most;
        ssize_t n = recv(fd, rest, sizeof rest, MSG_DONTWAIT);
        if (n == 0)
            break;
        if (n < 0) {
            usleep(200);
            continue;
        }
        told += (size_t)n;
        size_t room = sizeof heard - 1 - heard_length;
        memcpy(heard + heard_length, rest, (size_t)n < room ? (size_t)n : room);
        heard_length += (size_t)n < room ? (size_t)n : room;
        heard[heard_length] = '\0';
    }
    close(fd);
    return most;
}

TEST(simulation__does_not_hold_the_loop)
{
    static char yaml[2048];
    begin();
    char *body = fixture_body(
        fixture_yaml(yaml, sizeof yaml, "", "name: random, max_steps: 1, max_trials: 200000", ""),
        false);
    int64_t ms = longest_turn("POST /api/v1/preview-hp-search", body);
    ebb_free(body);
    assert_non_null(strstr(heard, "\"results\": {\"SV\": 200000}"));
    print_message("%zu turns, the longest of %lld ms\n", turns, (long long)ms);
    CHECK(turns > 10); /* they go on meanwhile; how long each takes, a busy machine decides */
    fixture_end(&f);
}

TEST(large_answer__leaves_in_pieces)
{
    static char yaml[2048];
    struct ebb_error err;
    size_t length = (size_t)24 << 20;
    begin();
    char *body =
        fixture_body(fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1", ""), false);
    fixture_ask(&f, "POST", "/experiments", body, NULL);
    ebb_free(body);
    char *data = ebb_alloc(length);
    uint64_t rng = 1;
    for (size_t i = 0; i + 8 <= length; i += 8)
        memcpy(data + i, &(uint64_t){ebb_splitmix64(&rng)}, 8);
    struct exp_db_file row = {.experiment_id = 1,
                              .path = "noise",
                              .type = "file",
                              .mode = 0644,
                              .size = (int64_t)length,
                              .content = {data, length}};
    CHECK_OK(exp_db_file_add(exp_master_db(f.m), &row, &err), &err);
    CHECK_OK(exp_db_commit(exp_master_db(f.m), &err), &err);
    int64_t ms = longest_turn("GET /api/v1/experiments/1/file?path=noise", "");
    const char *end = strstr(heard, "\r\n\r\n");
    assert_non_null(end);
    CHECK(strncmp(heard, "HTTP/1.1 200", 12) == 0);
    assert_non_null(strstr(heard, "Content-Length: 25165824\r\n"));
    assert_non_null(strstr(heard, "Content-Disposition: attachment\r\n"));
    CHECK_EQ(told - (size_t)(end + 4 - heard), length);
    CHECK(memcmp(end + 4, data, 100000) == 0);
    print_message("the longest turn: %lld ms\n", (long long)ms);
    ebb_free(data);
    fixture_end(&f);
}

TEST_MAIN()
