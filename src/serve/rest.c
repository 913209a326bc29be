/* rest.c - finding the row of a request, and what handlers share. */
#include "serve/rest.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"

/* One row per file of handlers. */
static const struct serve_routes *const tables[] = {
    &serve_routes_submit,      &serve_routes_experiments, &serve_routes_model,
    &serve_routes_trials,      &serve_routes_logs,        &serve_routes_metrics,
    &serve_routes_checkpoints, &serve_routes_templates,   &serve_routes_users,
    &serve_routes_cluster,     &serve_routes_master,
};

const struct serve_route *serve_route_at(size_t index)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (index < tables[i]->count)
            return &tables[i]->rows[index];
        index -= tables[i]->count;
    }
    return NULL;
}

/* ---- refusing ---- */

enum ebb_status serve_refuse(struct serve_rest *r, int status, const char *fmt, ...)
{
    char message[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    serve_http_write_error(r->response, status, message);
    return SERVE_REFUSED;
}

enum ebb_status serve_blame(struct serve_rest *r, enum ebb_status status,
                            const struct ebb_error *why, int http_status, const char *where)
{
    if (status == EBB_OK)
        return EBB_OK;
    if (status != EBB_ENOMEM)
        return serve_refuse(r, http_status, "%s%s", where, why->message);
    *r->err = *why;
    return status;
}

enum ebb_status serve_find(struct serve_rest *r, struct exp_db_cursor cursor, const char *fmt, ...)
{
    char message[2048];
    bool is_there = false;
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    EBB_TRY(exp_db_only(cursor, r->arena, &is_there));
    return is_there ? EBB_OK : serve_refuse(r, 404, "%s", message);
}

enum ebb_status serve_need_experiment(struct serve_rest *r, int64_t id)
{
    struct exp_db_id row;
    return serve_find(r, exp_db_experiment_has(r->db, EXP_DB_ID(id), &row, r->err),
                      "no experiment %lld", (long long)id);
}

enum ebb_status serve_need_trial(struct serve_rest *r, int64_t id)
{
    struct exp_db_id row;
    return serve_find(r, exp_db_trial_has(r->db, EXP_DB_ID(id), &row, r->err), "no trial %lld",
                      (long long)id);
}

/* ---- query parameters ---- */

const char *serve_query_text(struct serve_rest *r, const char *name)
{
    char *value = serve_http_query(r->request->target, name);
    char *copy = value != NULL ? ebb_arena_strndup(r->arena, value, strlen(value)) : NULL;
    ebb_free(value);
    return copy;
}

void serve_query_bad(struct serve_rest *r, const char *name, const char *found, const char *allowed)
{
    if (r->bad[0] == '\0')
        snprintf(r->bad, sizeof r->bad, "%s: found '%.40s', allowed: %s", name, found, allowed);
}

int64_t serve_query_int(struct serve_rest *r, const char *name, int64_t fallback, int64_t min)
{
    const char *text = serve_query_text(r, name);
    int64_t value;
    char allowed[64];
    if (text == NULL || text[0] == '\0')
        return fallback;
    if (ebb_parse_i64(text, &value) && value >= min)
        return value;
    snprintf(allowed, sizeof allowed, "a whole number >= %lld", (long long)min);
    serve_query_bad(r, name, text, min == INT64_MIN ? "a whole number" : allowed);
    return fallback;
}

/* ---- from a request to its handler ---- */

/* Does the path match the pattern? Fills number and text. */
static bool matches(struct serve_rest *r, const char *pattern, const char *path)
{
    while (*pattern == '/') {
        if (*path != '/')
            return false;
        pattern++;
        path++;
        size_t want = strcspn(pattern, "/"), have = strcspn(path, "/");
        if (*pattern == '#' || *pattern == '*') {
            char *decoded = have > 0 ? serve_http_decode(path, have, false) : NULL;
            char *text =
                decoded != NULL ? ebb_arena_strndup(r->arena, decoded, strlen(decoded)) : NULL;
            ebb_free(decoded);
            if (text == NULL)
                return false;
            if (*pattern == '#' && (!ebb_parse_i64(text, &r->id) || r->id < 0))
                return false;
            if (*pattern == '*')
                r->name = text;
        } else if (want != have || strncmp(pattern, path, want) != 0) {
            return false;
        }
        pattern += want;
        path += have;
    }
    return *pattern == '\0' && (*path == '\0' || strcmp(path, "/") == 0);
}

static enum ebb_status read_body(struct serve_rest *r)
{
    struct ebb_error why;
    if (r->request->body == NULL || r->request->body_length == 0)
        return EBB_OK;
    enum ebb_status status = ebb_doc_parse_json(r->arena, "body", r->request->body,
                                                r->request->body_length, &r->body, &why);
    EBB_TRY(serve_blame(r, status, &why, 400, ""));
    return r->body->kind == EBB_DOC_MAP ? EBB_OK
                                        : serve_refuse(r, 400, "the body is not a JSON object");
}

/* The path without query and without the prefix, which may be left out; in the arena. */
static const char *path_of(struct serve_rest *r)
{
    const char *target = r->request->target;
    target += strncmp(target, "/api/v1/", 8) == 0 ? 7 : 0;
    return ebb_arena_strndup(r->arena, target, strcspn(target, "?"));
}

static enum ebb_status dispatch(struct serve_rest *r)
{
    const char *path = path_of(r);
    bool is_path = false;
    const struct serve_route *found = NULL, *route;
    if (path == NULL)
        return ebb_no_memory(r->err, strlen(r->request->target));
    for (size_t i = 0; found == NULL && (route = serve_route_at(i)) != NULL; i++) {
        if (!matches(r, route->path, path))
            continue;
        is_path = true;
        if (strcmp(route->method, r->request->method) == 0)
            found = route;
    }
    if (found == NULL)
        return serve_refuse(r, is_path ? 405 : 404, "there is no %s %s here", r->request->method,
                            path);
    EBB_TRY(read_body(r));
    EBB_TRY(found->handler(r));
    return r->bad[0] != '\0' ? serve_refuse(r, 400, "%s", r->bad) : EBB_OK;
}

bool serve_rest_must_wait(const struct exp_master *m, const struct serve_http_request *request)
{
    const char *target = request->target;
    target += strncmp(target, "/api/v1/", 8) == 0 ? 7 : 0;
    return exp_master_info(m).stall != NULL &&
           (strcmp(request->method, "GET") != 0 || strcmp(target, "/master") != 0);
}

enum ebb_status serve_rest_handle(struct exp_master *m, const struct serve_http_request *request,
                                  struct serve_http_response *response, struct ebb_error *err)
{
    struct ebb_arena arena;
    struct serve_rest r = {.m = m,
                           .info = exp_master_info(m),
                           .db = exp_master_db(m),
                           .request = request,
                           .response = response,
                           .arena = &arena,
                           .err = err};
    ebb_arena_init(&arena);
    ebb_str_clear(&response->body);
    ebb_jsonw_init(&r.w, &response->body, 0);
    enum ebb_status status = serve_need_user(&r);
    if (status == EBB_OK)
        status = dispatch(&r);
    ebb_arena_fini(&arena);
    if (status != EBB_OK && status != SERVE_REFUSED)
        return status;
    return ebb_str_status(&response->body, err);
}
