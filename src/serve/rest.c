/* rest.c - finding the row of a request, and what handlers share. */
#include "serve/rest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"

/* One row per file of handlers. */
static const struct serve_routes *const tables[] = {
    &serve_routes_submit,      &serve_routes_experiments, &serve_routes_model,
    &serve_routes_trials,      &serve_routes_logs,        &serve_routes_metrics,
    &serve_routes_checkpoints, &serve_routes_templates,   &serve_routes_users,
    &serve_routes_cluster,     &serve_routes_master,      &serve_routes_tokens,
    &serve_routes_table,       &serve_routes_compare,     &serve_routes_curves,
    &serve_routes_explain,
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

double serve_query_double(struct serve_rest *r, const char *name, double fallback)
{
    const char *text = serve_query_text(r, name);
    double value;
    if (text == NULL || text[0] == '\0')
        return fallback;
    if (ebb_parse_double(text, &value) && isfinite(value))
        return value;
    serve_query_bad(r, name, text, "a number");
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
        if (strcmp(pattern, "**") == 0) {
            char *decoded = *path != '\0' ? serve_http_decode(path, strlen(path), false) : NULL;
            r->rest =
                decoded != NULL ? ebb_arena_strndup(r->arena, decoded, strlen(decoded)) : NULL;
            ebb_free(decoded);
            return r->rest != NULL;
        }
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

/* The row of a request; *is_path: there is one with another method. */
static const struct serve_route *find_route(struct serve_rest *r, const char *path, bool *is_path)
{
    const struct serve_route *route;
    *is_path = false;
    for (size_t i = 0; (route = serve_route_at(i)) != NULL; i++) {
        if (!matches(r, route->path, path))
            continue;
        *is_path = true;
        if (strcmp(route->method, r->request->method) == 0)
            return route;
    }
    return NULL;
}

static bool is_reading_route(const struct serve_route *route)
{
    return strcmp(route->method, "GET") == 0 || (route->flags & (SERVE_READS | SERVE_PROVES)) != 0;
}

/* What a token is not enough for. */
static enum ebb_status check_rights(struct serve_rest *r, const struct serve_route *route)
{
    if (r->request->is_remote && (route->flags & SERVE_LOCAL) != 0)
        return serve_refuse(
            r, 403, "users and tokens are made on the master's own machine: 'ebb user' there");
    if (r->request->is_read_only && !is_reading_route(route))
        return serve_refuse(r, 403, "this token may only read");
    return EBB_OK;
}

static enum ebb_status dispatch(struct serve_rest *r)
{
    const char *path = path_of(r);
    bool is_path;
    if (path == NULL)
        return ebb_no_memory(r->err, strlen(r->request->target));
    const struct serve_route *found = find_route(r, path, &is_path);
    if (found == NULL)
        return serve_refuse(r, is_path ? 405 : 404, "there is no %s %s here", r->request->method,
                            path);
    EBB_TRY(check_rights(r, found));
    EBB_TRY(read_body(r));
    EBB_TRY(found->handler(r));
    return r->bad[0] != '\0' ? serve_refuse(r, 400, "%s", r->bad) : EBB_OK;
}

bool serve_rest_may(const struct serve_http_request *request)
{
    struct ebb_arena arena = {0};
    struct serve_rest r = {.request = request, .arena = &arena};
    bool is_path;
    const char *path = path_of(&r);
    const struct serve_route *route = path != NULL ? find_route(&r, path, &is_path) : NULL;
    ebb_arena_fini(&arena);
    return !request->is_read_only || route == NULL || is_reading_route(route);
}

unsigned serve_rest_is_apart(const struct serve_http_request *request)
{
    struct ebb_arena arena = {0};
    struct serve_rest r = {.request = request, .arena = &arena};
    bool is_path;
    const char *path = path_of(&r);
    const struct serve_route *route = path != NULL ? find_route(&r, path, &is_path) : NULL;
    unsigned flags = route != NULL ? route->flags : 0;
    bool is_part = (flags & SERVE_PAGED) != 0 && serve_query_text(&r, "limit") != NULL;
    bool is_all = (flags & SERVE_WAITS) != 0 && request->is_remote;
    if ((is_part || is_all) && serve_query_text(&r, "wait") == NULL &&
        serve_query_text(&r, "follow") == NULL)
        flags |= SERVE_APART;
    ebb_arena_fini(&arena);
    return flags & (SERVE_APART | SERVE_SLOW);
}

bool serve_rest_is_events(const struct serve_http_request *request)
{
    const char *target = request->target;
    target += strncmp(target, "/api/v1/", 8) == 0 ? 7 : 0;
    return strcmp(request->method, "GET") == 0 && strncmp(target, "/events", 7) == 0 &&
           (target[7] == '\0' || target[7] == '?');
}

enum ebb_status serve_flush(struct serve_rest *r)
{
    return r->m != NULL ? exp_master_flush(r->m, r->err) : EBB_OK;
}

bool serve_rest_must_wait(const struct exp_master *m, const struct serve_http_request *request)
{
    const char *target = request->target;
    target += strncmp(target, "/api/v1/", 8) == 0 ? 7 : 0;
    return exp_master_info(m).stall != NULL &&
           (strcmp(request->method, "GET") != 0 || strcmp(target, "/master") != 0);
}

static enum ebb_status handle(struct serve_rest *r)
{
    struct ebb_arena arena;
    ebb_arena_init(&arena);
    r->arena = &arena;
    ebb_str_clear(&r->response->body);
    ebb_jsonw_init(&r->w, &r->response->body, 0);
    enum ebb_status status = serve_need_user(r);
    if (status == EBB_OK)
        status = dispatch(r);
    ebb_arena_fini(&arena);
    if (status != EBB_OK && status != SERVE_REFUSED)
        return status;
    return ebb_str_status(&r->response->body, r->err);
}

enum ebb_status serve_rest_greet(struct exp_master *m, const struct serve_http_request *request,
                                 struct serve_http_response *response, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    struct serve_rest r = {.info = exp_master_info(m),
                           .db = exp_master_db(m),
                           .request = request,
                           .response = response,
                           .arena = &arena,
                           .err = err};
    enum ebb_status status = serve_need_user(&r);
    ebb_arena_fini(&arena);
    return status;
}

enum ebb_status serve_rest_handle(struct exp_master *m, const struct serve_http_request *request,
                                  struct serve_http_response *response, struct ebb_error *err)
{
    struct serve_rest r = {.m = m,
                           .info = exp_master_info(m),
                           .db = exp_master_db(m),
                           .request = request,
                           .response = response,
                           .err = err};
    return handle(&r);
}

enum ebb_status serve_rest_read(struct exp_db *db, struct serve_apart *apart,
                                const struct exp_master_info *info,
                                const struct serve_http_request *request,
                                struct serve_http_response *response, struct ebb_error *err)
{
    struct serve_rest r = {.info = *info,
                           .db = db,
                           .apart = apart,
                           .request = request,
                           .response = response,
                           .err = err};
    return handle(&r);
}
