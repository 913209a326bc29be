/* rest.c - one table of routes, and finding the row of a request. */
#include "serve/rest.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"

const struct serve_rest_route serve_rest_routes[] = {
    {"POST", "/experiments", serve_rest_submit, "create an experiment"},
    {"GET", "/experiments", serve_rest_list_experiments, "list experiments"},
    {"GET", "/experiments/#", serve_rest_get_experiment, "one experiment"},
    {"PATCH", "/experiments/#", serve_rest_patch_experiment, "change an experiment"},
    {"DELETE", "/experiments/#", serve_rest_delete_experiment, "delete an ended experiment"},
    {"POST", "/experiments/#/*", serve_rest_act_experiment,
     "activate, pause, cancel, kill, archive, unarchive, gc"},
    {"GET", "/experiments/#/model_def", serve_rest_model_def, "model definition as tar.gz"},
    {"GET", "/experiments/#/file_tree", serve_rest_file_tree, "files of the model definition"},
    {"GET", "/experiments/#/file", serve_rest_file, "one file of the model definition"},
    {"GET", "/experiments/#/preview_gc", serve_rest_preview_gc, "checkpoints that would go"},
    {"GET", "/experiments/#/trials", serve_rest_list_trials, "trials of an experiment"},
    {"GET", "/experiments/#/checkpoints", serve_rest_list_checkpoints, "its checkpoints"},
    {"GET", "/experiments/#/validation-history", serve_rest_history, "each new best validation"},
    {"GET", "/experiments/#/metric-names", serve_rest_metric_names, "names of metrics"},
    {"GET", "/experiments/#/trials-sample", serve_rest_sample, "curves of the best trials"},
    {"GET", "/experiments/#/trials-snapshot", serve_rest_snapshot, "all trials at one step"},
    {"GET", "/trials/time-series", serve_rest_time_series, "curves of given trials"},
    {"GET", "/trials/#", serve_rest_get_trial, "one trial"},
    {"GET", "/trials/#/workloads", serve_rest_workloads, "its steps, validations, checkpoints"},
    {"GET", "/trials/#/logs", serve_rest_logs, "what it printed"},
    {"POST", "/trials/#/kill", serve_rest_kill_trial, "kill its process"},
    {"GET", "/checkpoints/*", serve_rest_get_checkpoint, "one checkpoint"},
    {"DELETE", "/checkpoints/*", serve_rest_delete_checkpoint, "delete a checkpoint"},
    {"GET", "/templates", serve_rest_list_templates, "list templates"},
    {"GET", "/templates/*", serve_rest_get_template, "one template"},
    {"PUT", "/templates/*", serve_rest_put_template, "store a template"},
    {"DELETE", "/templates/*", serve_rest_delete_template, "delete a template"},
    {"POST", "/preview-hp-search", serve_rest_preview_search, "simulate a search"},
    {"POST", "/searcher/preview", serve_rest_preview_search, "simulate a search"},
    {"GET", "/tasks", serve_rest_tasks, "trials that have or want slots"},
    {"GET", "/tasks/*", serve_rest_task, "one of them"},
    {"GET", "/users", serve_rest_list_users, "list users"},
    {"POST", "/users", serve_rest_create_user, "add a user"},
    {"GET", "/users/*", serve_rest_get_user, "one user"},
    {"PATCH", "/users/*", serve_rest_patch_user, "activate or deactivate a user"},
    {"GET", "/me", serve_rest_me, "in whose name this is asked"},
    {"GET", "/agents", serve_rest_agents, "this machine and its slots"},
    {"GET", "/agents/*", serve_rest_agent, "one machine"},
    {"PATCH", "/agents/*", serve_rest_patch_agent, "enable or disable all its slots"},
    {"PATCH", "/agents/local/slots/#", serve_rest_slot, "enable or disable a slot"},
    {"GET", "/events", serve_rest_events, "what changed"},
    {"GET", "/master", serve_rest_master, "the master itself"},
    {"GET", "/master/config", serve_rest_master_config, "what it was started with"},
    {"GET", "/master/logs", serve_rest_master_logs, "what it logged"},
};

const size_t serve_rest_route_count = sizeof serve_rest_routes / sizeof *serve_rest_routes;

enum ebb_status
serve_rest_write_rows(struct serve_rest *r, const char *key, struct exp_db_rows *rows,
                      void (*write)(struct ebb_json_writer *w, const struct exp_db_rows *row))
{
    bool has_row = true;
    enum ebb_status status = EBB_OK;
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, key);
    ebb_jsonw_array(&r->w);
    while (status == EBB_OK && has_row) {
        status = exp_db_next(rows, &has_row, r->err);
        if (status == EBB_OK && has_row)
            write(&r->w, rows);
    }
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    exp_db_done(rows);
    return status;
}

enum ebb_status serve_rest_refuse(struct serve_rest *r, int status, const char *fmt, ...)
{
    char message[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    serve_http_write_error(r->response, status, message);
    return EBB_OK;
}

const char *serve_rest_text(struct serve_rest *r, const char *name)
{
    char *value = serve_http_query(r->request->target, name);
    char *copy = value != NULL ? ebb_arena_strndup(r->arena, value, strlen(value)) : NULL;
    ebb_free(value);
    return copy;
}

void serve_rest_bad(struct serve_rest *r, const char *name, const char *found, const char *allowed)
{
    if (r->bad[0] == '\0')
        snprintf(r->bad, sizeof r->bad, "%s: found '%.40s', allowed: %s", name, found, allowed);
}

int64_t serve_rest_int(struct serve_rest *r, const char *name, int64_t fallback, int64_t min)
{
    const char *text = serve_rest_text(r, name);
    int64_t value;
    char allowed[64];
    if (text == NULL || text[0] == '\0')
        return fallback;
    if (ebb_parse_i64(text, &value) && value >= min)
        return value;
    snprintf(allowed, sizeof allowed, "a whole number >= %lld", (long long)min);
    serve_rest_bad(r, name, text, min == INT64_MIN ? "a whole number" : allowed);
    return fallback;
}

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

static enum ebb_status read_body(struct serve_rest *r, bool *is_bad)
{
    struct ebb_error why;
    *is_bad = false;
    if (r->request->body == NULL || r->request->body_length == 0)
        return EBB_OK;
    enum ebb_status status = ebb_doc_parse_json(r->arena, "body", r->request->body,
                                                r->request->body_length, &r->body, &why);
    if (status == EBB_ENOMEM) {
        *r->err = why;
        return status;
    }
    *is_bad = status != EBB_OK || r->body->kind != EBB_DOC_MAP;
    if (*is_bad)
        return serve_rest_refuse(r, 400, "%s",
                                 status != EBB_OK ? why.message : "the body is not a JSON object");
    return EBB_OK;
}

static enum ebb_status dispatch(struct serve_rest *r)
{
    const char *target = r->request->target;
    size_t length = strcspn(target, "?");
    char *raw = ebb_arena_strndup(r->arena, target, length);
    if (raw == NULL)
        return ebb_no_memory(r->err, length);
    const char *at = strncmp(raw, "/api/v1/", 8) == 0 ? raw + 7 : raw;
    bool is_path = false, is_bad = false;
    const struct serve_rest_route *found = NULL;
    for (size_t i = 0; i < serve_rest_route_count && found == NULL; i++) {
        const struct serve_rest_route *route = &serve_rest_routes[i];
        if (!matches(r, route->path, at))
            continue;
        is_path = true;
        if (strcmp(route->method, r->request->method) == 0)
            found = route;
    }
    enum ebb_status status;
    if (found == NULL) {
        status = serve_rest_refuse(r, is_path ? 405 : 404, "there is no %s %s here",
                                   r->request->method, at);
    } else {
        status = read_body(r, &is_bad);
        if (status == EBB_OK && !is_bad)
            status = found->handler(r);
        if (status == EBB_OK && r->bad[0] != '\0' && r->response->status < 400)
            status = serve_rest_refuse(r, 400, "%s", r->bad);
    }
    return status;
}

bool serve_rest_must_wait(const struct exp_master *m, const struct serve_http_request *request)
{
    const char *target = request->target;
    if (strncmp(target, "/api/v1/", 8) == 0)
        target += 7;
    return m->is_stalled && (strcmp(request->method, "GET") != 0 || strcmp(target, "/master") != 0);
}

enum ebb_status serve_rest_handle(struct exp_master *m, const struct serve_http_request *request,
                                  struct serve_http_response *response, struct ebb_error *err)
{
    struct ebb_arena arena;
    struct serve_rest r = {
        .m = m, .request = request, .response = response, .arena = &arena, .err = err};
    ebb_arena_init(&arena);
    ebb_str_clear(&response->body);
    ebb_jsonw_init(&r.w, &response->body, 0);
    bool is_bad = false;
    enum ebb_status status = serve_rest_check_user(&r, &is_bad);
    if (status == EBB_OK && !is_bad)
        status = dispatch(&r);
    ebb_arena_fini(&arena);
    return status != EBB_OK ? status : ebb_str_status(&response->body, err);
}
