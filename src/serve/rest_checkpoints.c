/* rest_checkpoints.c - checkpoints: listing, showing, what collection would take. */
#include <stdio.h>
#include <string.h>

#include "serve/rest.h"

#define COLUMNS                                                                                    \
    "c.id, c.uuid, c.experiment_id, c.trial_id, c.step_id, c.state, c.start_time, c.end_time,"     \
    " c.resources, c.size, c.storage, c.note, v.signed_metric, e.smaller_is_better"
#define FROM                                                                                       \
    " FROM checkpoints c JOIN experiments e ON e.id = c.experiment_id LEFT JOIN validations v ON"  \
    " v.trial_id = c.trial_id AND v.step_id = c.step_id"

static void write_path(struct ebb_json_writer *w, const char *location, const char *uuid)
{
    struct exp_store *store = NULL;
    struct ebb_str path;
    ebb_jsonw_key(w, "path");
    if (exp_store_open_location(location, &store, NULL) != EBB_OK) {
        ebb_jsonw_null(w);
        return;
    }
    ebb_str_init(&path);
    exp_store_path(store, uuid, &path);
    ebb_jsonw_string(w, ebb_str_c(&path));
    ebb_str_fini(&path);
    exp_store_close(store);
}

static void write_labels(struct ebb_json_writer *w, const struct exp_db_rows *rows)
{
    static const char *const names[] = {"experiment_id", "trial_id", "step_id"};
    char text[24];
    ebb_jsonw_key(w, "labels");
    ebb_jsonw_object(w);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%lld", (long long)exp_db_int(rows, i + 2));
        ebb_jsonw_key_string(w, names[i], text);
    }
    ebb_jsonw_object_end(w);
}

static void write_row(struct serve_rest *r, const struct exp_db_rows *rows)
{
    struct ebb_json_writer *w = &r->w;
    const char *resources = exp_db_text(rows, 8);
    ebb_jsonw_object(w);
    ebb_jsonw_key_int(w, "id", exp_db_int(rows, 0));
    ebb_jsonw_key_string(w, "uuid", exp_db_text(rows, 1));
    ebb_jsonw_key_int(w, "experiment_id", exp_db_int(rows, 2));
    ebb_jsonw_key_int(w, "trial_id", exp_db_int(rows, 3));
    ebb_jsonw_key_int(w, "step_id", exp_db_int(rows, 4));
    ebb_jsonw_key_string(w, "state", exp_db_text(rows, 5));
    ebb_jsonw_key(w, "start_time");
    exp_time_write(w, exp_db_double(rows, 6));
    ebb_jsonw_key(w, "end_time");
    exp_time_write(w, exp_db_double(rows, 7));
    ebb_jsonw_key(w, "resources");
    if (resources != NULL)
        exp_json_raw(w, resources, strlen(resources));
    else
        ebb_jsonw_null(w);
    ebb_jsonw_key_int(w, "size", exp_db_int(rows, 9));
    ebb_jsonw_key(w, "metric");
    if (exp_db_is_null(rows, 12))
        ebb_jsonw_null(w);
    else
        exp_metric_write(w,
                         exp_metric_unsigned(exp_db_double(rows, 12), exp_db_int(rows, 13) != 0));
    char *uuid = ebb_arena_strndup(r->arena, exp_db_text(rows, 1), 36);
    char *location =
        ebb_arena_strndup(r->arena, exp_db_text(rows, 10), strlen(exp_db_text(rows, 10)));
    if (uuid != NULL && location != NULL)
        write_path(w, location, uuid);
    write_labels(w, rows);
    ebb_jsonw_key_string(w, "note", exp_db_text(rows, 11));
    ebb_jsonw_object_end(w);
}

static enum ebb_status write_query(struct serve_rest *r, const char *sql, struct exp_db_value arg,
                                   size_t *count)
{
    struct exp_db_rows rows;
    bool has_row = true;
    EBB_TRY(exp_db_query(r->m->db, sql, &arg, 1, &rows, r->err));
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        write_row(r, &rows);
        ++*count;
    }
    exp_db_done(&rows);
    return status;
}

static enum ebb_status is_there(struct serve_rest *r, bool *found)
{
    int64_t count = 0;
    EBB_TRY(exp_db_number(r->m->db, "SELECT COUNT(*) FROM experiments WHERE id = $1",
                          EXP_DB_ARGS(exp_db_i(r->id)), 0, &count, r->err));
    *found = count > 0;
    return *found ? EBB_OK : serve_rest_refuse(r, 404, "no experiment %lld", (long long)r->id);
}

enum ebb_status serve_rest_list_checkpoints(struct serve_rest *r)
{
    bool found;
    size_t count = 0;
    EBB_TRY(is_there(r, &found));
    if (!found)
        return EBB_OK;
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "checkpoints");
    ebb_jsonw_array(&r->w);
    EBB_TRY(write_query(r,
                        "SELECT " COLUMNS FROM " WHERE c.experiment_id = $1 ORDER BY CASE WHEN"
                        " v.signed_metric IS NULL THEN 1 ELSE 0 END, v.signed_metric, c.id",
                        exp_db_i(r->id), &count));
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

enum ebb_status serve_rest_get_checkpoint(struct serve_rest *r)
{
    size_t count = 0;
    EBB_TRY(write_query(r, "SELECT " COLUMNS FROM " WHERE c.uuid = $1", exp_db_t(r->name), &count));
    return count > 0 ? EBB_OK : serve_rest_refuse(r, 404, "no checkpoint %s", r->name);
}

enum ebb_status serve_rest_delete_checkpoint(struct serve_rest *r)
{
    struct exp_db_rows rows;
    bool has_row = false;
    EBB_TRY(exp_db_query(r->m->db,
                         "SELECT c.state, c.storage, e.state, EXISTS (SELECT 1 FROM trials t WHERE"
                         " t.warm_start = c.uuid), EXISTS (SELECT 1 FROM experiment_configs k JOIN"
                         " experiments x ON x.id = k.experiment_id WHERE k.warm_start = c.uuid AND"
                         " x.end_time IS NULL) FROM checkpoints c JOIN experiments e ON e.id ="
                         " c.experiment_id WHERE c.uuid = $1",
                         EXP_DB_ARGS(exp_db_t(r->name)), &rows, r->err));
    enum ebb_status status = exp_db_next(&rows, &has_row, r->err);
    const char *bad = NULL, *location = NULL;
    enum exp_state state = EXP_ACTIVE;
    if (status == EBB_OK && has_row) {
        (void)exp_state_parse(exp_db_text(&rows, 2), &state);
        if (strcmp(exp_db_text(&rows, 0), "COMPLETED") != 0)
            bad = "it is not complete, or deleted already";
        else if (!exp_state_is_ended(state))
            bad = "its experiment has not ended";
        else if (exp_db_int(&rows, 3) != 0)
            bad = "a trial was started from it";
        else if (exp_db_int(&rows, 4) != 0)
            bad = "an experiment that has not ended is to start from it";
        location =
            ebb_arena_strndup(r->arena, exp_db_text(&rows, 1), strlen(exp_db_text(&rows, 1)));
    }
    exp_db_done(&rows);
    EBB_TRY(status);
    if (!has_row)
        return serve_rest_refuse(r, 404, "no checkpoint %s", r->name);
    if (bad != NULL)
        return serve_rest_refuse(r, 409, "checkpoint %s stays: %s", r->name, bad);
    if (location == NULL)
        return ebb_no_memory(r->err, 1);
    EBB_TRY(exp_gc_remove_checkpoint(r->m, r->name, location, 0, r->err));
    r->response->status = 202;
    return serve_rest_get_checkpoint(r);
}

enum ebb_status serve_rest_preview_gc(struct serve_rest *r)
{
    bool found;
    struct exp_db_checkpoint *doomed = NULL;
    size_t count = 0, written = 0;
    struct exp_gc_policy policy = {
        .save_experiment_best = serve_rest_int(r, "save_experiment_best", 0, 0),
        .save_trial_best = serve_rest_int(r, "save_trial_best", 1, 0),
        .save_trial_latest = serve_rest_int(r, "save_trial_latest", 1, 0)};
    if (policy.save_experiment_best < 0 || policy.save_trial_best < 0 ||
        policy.save_trial_latest < 0)
        return serve_rest_refuse(r, 400, "save_* counts are numbers >= 0");
    EBB_TRY(is_there(r, &found));
    if (!found)
        return EBB_OK;
    EBB_TRY(exp_gc_select(r->m, r->id, &policy, r->arena, &doomed, &count, r->err));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "checkpoints");
    ebb_jsonw_array(&r->w);
    for (size_t i = 0; i < count; i++)
        EBB_TRY(write_query(r, "SELECT " COLUMNS FROM " WHERE c.id = $1", exp_db_i(doomed[i].id),
                            &written));
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}
