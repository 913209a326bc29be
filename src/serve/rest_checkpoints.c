/* rest_checkpoints.c - checkpoints: listing, showing, what collection would take. */
#include <stdio.h>
#include <string.h>

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
    EBB_TRY(exp_gc_select(r->m, r->id, &policy, r->arena, &doomed, &count, r->err));
    serve_begin_list(r, "checkpoints");
    for (size_t i = 0; i < count; i++)
        write_checkpoint(&r->w, &doomed[i]);
    serve_end_list(r);
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"GET", "/experiments/#/checkpoints", list, "its checkpoints", SERVE_APART},
    {"GET", "/experiments/#/preview_gc", preview_gc, "checkpoints that would go", 0},
    {"GET", "/checkpoints/*", get, "one checkpoint", 0},
    {"DELETE", "/checkpoints/*", delete, "delete a checkpoint", 0},
};
const struct serve_routes serve_routes_checkpoints = SERVE_ROUTES(routes);
