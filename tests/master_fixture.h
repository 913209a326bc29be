/* master_fixture.h - a master in a directory of its own, for tests: submit, turn, ask.
 *
 * EBB_TRIAL_CHAIN is the path of tests/trial/chain.c, built. */
#ifndef EBB_TESTS_MASTER_FIXTURE_H
#define EBB_TESTS_MASTER_FIXTURE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/doc.h"
#include "base/heap.h"
#include "serve/serve.h"

struct fixture {
    char dir[256];
    struct exp_master *m;
    struct exp_master_options options;
    struct ebb_arena arena; /* of the last answer */
};

static inline void fixture_open(struct fixture *f)
{
    struct ebb_error err;
    if (serve_open(&f->options, &f->m, &err) != EBB_OK)
        fail_msg("serve_open: %s", err.message);
}

static inline void fixture_begin(struct fixture *f, int64_t slots)
{
    *f = (struct fixture){0};
    const char *base = getenv("TMPDIR");
    snprintf(f->dir, sizeof f->dir, "%s/ebb-test-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(f->dir) == NULL)
        fail_msg("no directory for the test");
    f->options = (struct exp_master_options){.state_dir = f->dir, .slots = slots};
    ebb_arena_init(&f->arena);
}

static inline void fixture_remove(const char *dir)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0)
        fail_msg("cannot remove %s", dir);
}

static inline void fixture_end(struct fixture *f)
{
    exp_master_close(f->m, EXP_CLOSE_KILL, 0);
    f->m = NULL;
    ebb_arena_fini(&f->arena);
    fixture_remove(f->dir);
}

/* One request; *status the HTTP status (NULL: it must be 2xx). The answer lives until the next. */
static inline const struct ebb_doc_node *fixture_ask(struct fixture *f, const char *method,
                                                     const char *target, const char *body,
                                                     int *status)
{
    struct serve_http_response response;
    const struct ebb_doc_node *root = NULL;
    struct ebb_error err;
    struct serve_http_request request = {.method = method,
                                         .target = target,
                                         .body = body,
                                         .body_length = body != NULL ? strlen(body) : 0};
    serve_http_response_init(&response);
    serve_request(f->m, &request, &response);
    if (status != NULL)
        *status = response.status;
    else if (response.status >= 300)
        fail_msg("%s %s: %d %s", method, target, response.status, ebb_str_c(&response.body));
    ebb_arena_fini(&f->arena);
    ebb_arena_init(&f->arena);
    if (response.body.length > 0 && strcmp(response.content_type, "application/json") == 0 &&
        ebb_doc_parse_json(&f->arena, target, response.body.data, response.body.length, &root,
                           &err) != EBB_OK)
        fail_msg("%s %s: %s in %s", method, target, err.message, ebb_str_c(&response.body));
    serve_http_response_fini(&response);
    return root;
}

__attribute__((format(printf, 2, 3))) static inline const struct ebb_doc_node *
fixture_get(struct fixture *f, const char *fmt, ...)
{
    char target[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(target, sizeof target, fmt, args);
    va_end(args);
    return fixture_ask(f, "GET", target, NULL, NULL);
}

/* The body of a submission. */
static inline char *fixture_body(const char *yaml, bool is_active)
{
    struct ebb_str body;
    struct ebb_json_writer w;
    ebb_str_init(&body);
    ebb_jsonw_init(&w, &body, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "experiment_config");
    ebb_jsonw_string(&w, yaml);
    ebb_jsonw_key(&w, "activate");
    ebb_jsonw_bool(&w, is_active);
    ebb_jsonw_object_end(&w);
    return ebb_str_take(&body);
}

static inline int64_t fixture_submit(struct fixture *f, const char *yaml)
{
    char *body = fixture_body(yaml, true);
    const struct ebb_doc_node *answer = fixture_ask(f, "POST", "/experiments", body, NULL);
    ebb_free(body);
    return ebb_doc_int(answer, "id", -1);
}

/* A file for the chain trial. */
static inline const char *fixture_yaml(char *out, size_t size, const char *arguments,
                                       const char *searcher, const char *more)
{
    char list[512] = "";
    size_t n = 0;
    for (const char *at = arguments; *at != '\0';) {
        size_t k = strcspn(at, " ");
        n += (size_t)snprintf(list + n, sizeof list - n, ", \"%.*s\"", (int)k, at);
        at += k + (at[k] == ' ');
    }
    snprintf(out, size,
             "description: test\n"
             "entrypoint: [\"%s\"%s]\n"
             "hyperparameters:\n"
             "  global_batch_size: 8\n"
             "  rate: {type: double, minval: 0.0, maxval: 1.0, count: 4}\n"
             "searcher: {metric: error, %s}\n"
             "batches_per_step: 4\n"
             "%s",
             EBB_TRIAL_CHAIN, list, searcher, more);
    return out;
}

static inline const char *fixture_state(struct fixture *f, int64_t id)
{
    return ebb_doc_string(fixture_get(f, "/experiments/%lld", (long long)id), "state", "");
}

static inline bool fixture_is_ended(const char *state)
{
    return strcmp(state, "COMPLETED") == 0 || strcmp(state, "CANCELED") == 0 ||
           strcmp(state, "ERROR") == 0;
}

/* Turn until the master has nothing left to do. It takes some of the seconds on a free machine; a
 * busy one may need many times as long, and only a master that hangs is to fail here. */
static inline void fixture_run(struct fixture *f, int seconds)
{
    seconds *= 8;
    uint64_t until = ebb_clock_ns() + (uint64_t)seconds * 1000000000u;
    while (!exp_master_is_idle(f->m)) {
        if (ebb_clock_ns() > until)
            fail_msg("not idle after %d s", seconds);
        exp_master_turn(f->m, 100);
    }
}

static inline void fixture_turn_for(struct fixture *f, int ms)
{
    uint64_t until = ebb_clock_ns() + (uint64_t)ms * 1000000u;
    while (ebb_clock_ns() < until)
        exp_master_turn(f->m, 20);
}

/* Turn until a condition holds; machines differ, so tests wait for what they want to see. */
#define FIXTURE_UNTIL(f, condition)                                                                \
    do {                                                                                           \
        uint64_t fixture_end_ = ebb_clock_ns() + 240000000000u;                                    \
        while (!(condition)) {                                                                     \
            if (ebb_clock_ns() > fixture_end_)                                                     \
                fail_msg("not within 240 s: %s", #condition);                                      \
            fixture_turn_for((f), 20);                                                             \
        }                                                                                          \
    } while (0)

/* A master with one experiment; its id. */
static inline int64_t fixture_begin_with(struct fixture *f, int64_t slots, const char *mode,
                                         const char *searcher, const char *more)
{
    char text[4096];
    fixture_begin(f, slots);
    fixture_open(f);
    return fixture_submit(f, fixture_yaml(text, sizeof text, mode, searcher, more));
}

static inline int64_t fixture_steps(struct fixture *f, int64_t trial)
{
    return ebb_doc_int(fixture_get(f, "/trials/%lld", (long long)trial), "steps", -1);
}

static inline bool fixture_has_trial(struct fixture *f)
{
    int status;
    fixture_ask(f, "GET", "/trials/1", NULL, &status);
    return status == 200;
}

#endif
