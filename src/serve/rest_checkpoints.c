/* rest_checkpoints.c - checkpoints: listing, showing, what collection would take. */
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "serve/rest.h"

#define AT(member) offsetof(struct exp_db_checkpoint, member)
static const struct serve_column columns[] = {
    {"id", SERVE_INT, AT(id), 0},
    {"uuid", SERVE_TEXT, AT(uuid), 0},
    {"experiment_id", SERVE_INT, AT(experiment_id), 0},
    {"trial_id", SERVE_INT, AT(trial_id), 0},
    {"step_id", SERVE_INT, AT(step_id), 0},
    {"state", SERVE_TEXT, AT(state), 0},
    {"start_time", SERVE_TIME, AT(start_time), 0},
    {"end_time", SERVE_TIME, AT(end_time), 0},
    {"resources", SERVE_RAW, AT(resources), 0},
    {"size", SERVE_COUNT, AT(size), 0},
    {"metric", SERVE_METRIC, AT(signed_metric), AT(smaller_is_better)},
};

static void write_path(struct ebb_json_writer *w, const char *location, const char *uuid)
{
    struct exp_store *store = NULL;
    struct ebb_str path;
    ebb_jsonw_key(w, "path");
    if (exp_store_open_location(location, NULL, NULL, &store, NULL) != EBB_OK) {
        ebb_jsonw_null(w);
        return;
    }
    ebb_str_init(&path);
    exp_store_path(store, uuid, &path);
    ebb_jsonw_string(w, ebb_str_c(&path));
    ebb_str_fini(&path);
    exp_store_close(store);
}

static void write_label(struct ebb_json_writer *w, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    ebb_jsonw_key_string(w, key, text);
}

static void write_checkpoint(struct ebb_json_writer *w, const struct exp_db_checkpoint *row)
{
    ebb_jsonw_object(w);
    serve_write_row(w, SERVE_COLUMNS(columns), row);
    write_path(w, row->storage, row->uuid);
    ebb_jsonw_key_object(w, "labels");
    write_label(w, "experiment_id", row->experiment_id);
    write_label(w, "trial_id", row->trial_id);
    write_label(w, "step_id", row->step_id);
    ebb_jsonw_object_end(w);
    ebb_jsonw_key_string(w, "note", row->note);
    ebb_jsonw_object_end(w);
}

static enum ebb_status list(struct serve_rest *r)
{
    struct exp_db_checkpoint row;
    EBB_TRY(serve_need_experiment(r, r->id));
    serve_begin_list(r, "checkpoints");
    struct exp_db_cursor c = exp_db_checkpoints_best(r->db, EXP_DB_ID(r->id), &row, r->err);
    while (exp_db_fetch(&c))
        write_checkpoint(&r->w, &row);
    serve_end_list(r);
    return exp_db_end(&c);
}

static enum ebb_status get(struct serve_rest *r)
{
    struct exp_db_checkpoint row;
    EBB_TRY(serve_find(r, exp_db_checkpoint_read(r->db, EXP_DB_NAME(r->name), &row, r->err),
                       "no checkpoint %s", r->name));
    write_checkpoint(&r->w, &row);
    return EBB_OK;
}

/* Why it must stay; NULL = it need not. */
static const char *needed_for(const struct exp_db_needed *c)
{
    enum exp_state state = EXP_ACTIVE;
    (void)exp_state_parse(c->experiment_state, &state);
    return strcmp(c->state, "COMPLETED") != 0 ? "it is not complete, or deleted already"
           : !exp_state_is_ended(state)       ? "its experiment has not ended"
           : c->is_source                     ? "a trial was started from it"
           : c->is_wanted ? "an experiment that has not ended is to start from it"
                          : NULL;
}

static enum ebb_status delete (struct serve_rest *r) {
    struct exp_db_needed row; bool is_there;
    EBB_TRY(exp_db_only(exp_db_checkpoint_needed(r->db, EXP_DB_NAME(r->name), &row, r->err),
                        r->arena, &is_there));
    if (!is_there) return serve_refuse(r, 404, "no checkpoint %s", r->name);
    const char *why = needed_for(&row);
    if (why != NULL) return serve_refuse(r, 409, "checkpoint %s stays: %s", r->name, why);
    EBB_TRY(exp_master_remove(r->m, r->name, row.storage, r->err));
    r->response->status = 202;
    return get(r);
}

static enum ebb_status preview_gc(struct serve_rest *r)
{
    struct exp_db_checkpoint *doomed = NULL;
    size_t count = 0;
    struct exp_gc_policy policy = {
        .save_experiment_best = serve_query_int(r, "save_experiment_best", 0, 0),
        .save_trial_best = serve_query_int(r, "save_trial_best", 1, 0),
        .save_trial_latest = serve_query_int(r, "save_trial_latest", 1, 0)};
    EBB_TRY(serve_need_experiment(r, r->id));
    EBB_TRY(exp_gc_select(r->db, r->id, &policy, r->arena, &doomed, &count, r->err));
    serve_begin_list(r, "checkpoints");
    for (size_t i = 0; i < count; i++)
        write_checkpoint(&r->w, &doomed[i]);
    serve_end_list(r);
    return EBB_OK;
}

/* What a fetch that failed is to the client: 422: the checkpoint is damaged. */
static int failed_status(enum ebb_status status, int unknown)
{
    return status == EBB_EINPUT ? unknown : status == EBB_ECORRUPT ? 422 : 502;
}

/* The files of a checkpoint on the master's machine, fetched if they are elsewhere. */
static enum ebb_status fetch(struct serve_rest *r)
{
    struct ebb_str path = {0};
    struct ebb_error why;
    enum ebb_status status = exp_master_fetch(r->m, r->name, &path, &r->response->is_later, &why);
    if (status == EBB_OK && !r->response->is_later) {
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key_string(&r->w, "path", ebb_str_c(&path));
        ebb_jsonw_object_end(&r->w);
    }
    ebb_str_fini(&path);
    if (r->response->is_later)
        return SERVE_REFUSED; /* for now: handled again when it is there */
    return serve_blame(r, status, &why, failed_status(status, 409), "");
}

/* Digits, ended by `end`; what is beyond every file is the greatest number. */
static bool read_offset(const char **at, char end, uint64_t *value)
{
    const char *p = *at;
    uint64_t v = 0;
    for (; *p >= '0' && *p <= '9'; p++)
        v = v < UINT64_MAX / 10 - 1 ? v * 10 + (uint64_t)(*p - '0') : UINT64_MAX;
    if (p == *at || *p != end)
        return false;
    *at = p;
    *value = v;
    return true;
}

/* "bytes=A-B", "bytes=A-", "bytes=-N". false: none of these, as another unit or several
 * ranges: who asks so gets the whole file (RFC 9110, 14.2). */
static bool read_range(const char *text, int64_t size, int64_t *at, int64_t *bytes)
{
    uint64_t whole = (uint64_t)size, from = 0, to = UINT64_MAX;
    if (text == NULL || strncmp(text, "bytes=", 6) != 0)
        return false;
    text += 6;
    if (*text == '-') {
        text++;
        uint64_t count;
        if (!read_offset(&text, '\0', &count))
            return false;
        from = count < whole ? whole - count : 0;
    } else {
        if (!read_offset(&text, '-', &from))
            return false;
        text++;
        if (*text != '\0' && (!read_offset(&text, '\0', &to) || to < from))
            return false;
    }
    if (to >= whole)
        to = whole - 1;
    *at = (int64_t)from;
    *bytes = from < whole ? (int64_t)(to - from) + 1 : 0;
    return true;
}

static enum ebb_status open_file(struct serve_rest *r, const char *directory, int *fd,
                                 struct stat *st)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    int base = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *fd = base >= 0 && exp_store_is_safe_path(r->rest)
              ? (int)syscall(SYS_openat2, base, r->rest, &how, sizeof how)
              : -1;
    if (base >= 0)
        close(base);
    if (*fd >= 0 && fstat(*fd, st) == 0 && S_ISREG(st->st_mode))
        return EBB_OK;
    if (*fd >= 0)
        close(*fd);
    return serve_refuse(r, 404, "checkpoint %s has no file %s", r->name, r->rest);
}

/* A file of a checkpoint, or a range of it, fetched first if it is elsewhere. */
static enum ebb_status get_file(struct serve_rest *r)
{
    struct ebb_str path = {0};
    struct ebb_error why;
    struct stat st;
    int fd = -1;
    struct serve_http_response *a = r->response;
    enum ebb_status status = exp_master_fetch(r->m, r->name, &path, &a->is_later, &why);
    if (a->is_later)
        status = SERVE_REFUSED; /* for now: handled again when it is there */
    else if (status != EBB_OK)
        status = serve_blame(r, status, &why, failed_status(status, 404), "");
    EBB_THEN(status, open_file(r, ebb_str_c(&path), &fd, &st));
    ebb_str_fini(&path);
    EBB_TRY(status);
    a->has_file = a->takes_range = true;
    a->file = fd;
    a->file_bytes = st.st_size;
    bool is_part = read_range(r->request->range, st.st_size, &a->file_at, &a->file_bytes);
    if (is_part && a->file_bytes == 0) {
        snprintf(a->content_range, sizeof a->content_range, "bytes */%lld", (long long)st.st_size);
        close(fd);
        a->has_file = false;
        return serve_refuse(r, 416, "the file has %lld bytes", (long long)st.st_size);
    }
    a->content_type = "application/octet-stream";
    snprintf(a->disposition, sizeof a->disposition, "attachment");
    if (!is_part)
        return EBB_OK;
    a->status = 206;
    snprintf(a->content_range, sizeof a->content_range, "bytes %lld-%lld/%lld",
             (long long)a->file_at, (long long)(a->file_at + a->file_bytes - 1),
             (long long)st.st_size);
    return EBB_OK;
}

/* ---- trying a store ---- */

static const char bare[] = "entrypoint: [none]\n"
                           "hyperparameters: {global_batch_size: 1}\n"
                           "searcher: {name: single, metric: none, max_steps: 1}\n";

/* The storage of an experiment, or of the site, with its keys. */
static enum ebb_status read_storage(struct serve_rest *r, struct exp_config *config,
                                    struct ebb_error *why)
{
    struct exp_config_options options = {.file_name = "stored configuration", .default_seed = -1};
    struct ebb_report report;
    const struct ebb_doc_node *root = NULL;
    struct exp_db_config row;
    if (r->id == 0) {
        EBB_TRY(serve_site_storage(r, &options.site_storage));
        return exp_config_parse(r->arena, bare, sizeof bare - 1, &options, config, &report, why);
    }
    EBB_TRY(serve_need_experiment(r, r->id));
    EBB_TRY(serve_find(r, exp_db_config_read(r->db, EXP_DB_ID(r->id), &row, r->err),
                       "no experiment %lld", (long long)r->id));
    EBB_TRY(ebb_doc_parse_json(r->arena, options.file_name, row.config, strlen(row.config), &root,
                               why));
    return exp_config_read(r->arena, root, &options, config, &report, why);
}

static enum ebb_status check_storage(struct serve_rest *r)
{
    struct exp_config config;
    struct exp_store *store = NULL;
    struct ebb_error why = {0};
    EBB_TRY(serve_blame(r, read_storage(r, &config, &why), &why, 409, ""));
    const struct exp_storage *storage = &config.checkpoint_storage;
    enum ebb_status status = exp_master_check(r->m, storage, &r->response->is_later, &why);
    if (r->response->is_later)
        return SERVE_REFUSED;
    EBB_THEN(status, exp_store_open(storage, r->id, NULL, &store, &why));
    if (status == EBB_OK && !exp_store_is_remote(store))
        status = exp_store_check(store, NULL, NULL, &why);
    if (status == EBB_OK) {
        struct ebb_str location = {0};
        exp_store_location(store, &location);
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key(&r->w, "storage");
        ebb_jsonw_raw(&r->w, ebb_str_c(&location), location.length);
        ebb_jsonw_object_end(&r->w);
        ebb_str_fini(&location);
    }
    exp_store_close(store);
    return serve_blame(r, status, &why, 409, "checkpoint_storage: ");
}

static const struct serve_route routes[] = {
    {"GET", "/experiments/#/checkpoints", list, "its checkpoints", SERVE_APART},
    {"GET", "/experiments/#/preview_gc", preview_gc, "checkpoints that would go", SERVE_APART},
    {"GET", "/checkpoints/*", get, "one checkpoint", 0},
    {"DELETE", "/checkpoints/*", delete, "delete a checkpoint", 0},
    {"GET", "/checkpoints/*/files/**", get_file, "a file of it, or a range of one", 0},
    {"POST", "/checkpoints/*/fetch", fetch, "where its files are on the master's machine", 0},
    {"POST", "/experiments/#/storage/check", check_storage, "store, read back and delete", 0},
    {"POST", "/master/storage/check", check_storage, "the same in the site's storage", 0},
};
const struct serve_routes serve_routes_checkpoints = SERVE_ROUTES(routes);
