/* rest_experiments.c - experiments: listing, showing, ending. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "serve/experiment.h"

#define AT(member) offsetof(struct exp_db_experiment, member)
static const struct serve_column columns[] = {
    {"id", SERVE_INT, AT(id), 0},
    {"state", SERVE_TEXT, AT(state), 0},
    {"description", SERVE_TEXT, AT(description), 0},
    {"labels", SERVE_RAW, AT(labels), 0},
    {"owner", SERVE_TEXT, AT(owner), 0},
    {"progress", SERVE_DOUBLE, AT(progress), 0},
    {"start_time", SERVE_TIME, AT(start_time), 0},
    {"end_time", SERVE_TIME, AT(end_time), 0},
    {"archived", SERVE_BOOL, AT(archived), 0},
    {"parent_id", SERVE_INT, AT(parent_id), 0},
    {"searcher", SERVE_TEXT, AT(searcher), 0},
    {"metric", SERVE_TEXT, AT(metric), 0},
    {"smaller_is_better", SERVE_BOOL, AT(smaller_is_better), 0},
    {"best_metric", SERVE_METRIC, AT(best_signed), AT(smaller_is_better)},
    {"best_trial_id", SERVE_INT, AT(best_trial_id), 0},
    {"best_step_id", SERVE_INT, AT(best_step_id), 0},
    {"num_trials", SERVE_INT, AT(num_trials), 0},
    {"num_ended", SERVE_INT, AT(num_ended), 0},
    {"weight", SERVE_DOUBLE, AT(weight), 0},
    {"max_slots", SERVE_INT, AT(max_slots), 0},
    {"error", SERVE_TEXT, AT(error), 0},
    {"notes", SERVE_TEXT, AT(notes), 0},
    {"save_experiment_best", SERVE_INT, AT(save_experiment_best), 0},
    {"save_trial_best", SERVE_INT, AT(save_trial_best), 0},
    {"save_trial_latest", SERVE_INT, AT(save_trial_latest), 0},
};

#define OF(member) offsetof(struct exp_db_config, member)
static const struct serve_column config_columns[] = {
    {"git_remote", SERVE_TEXT, OF(git_remote), 0},
    {"git_commit", SERVE_TEXT, OF(git_commit), 0},
    {"git_committer", SERVE_TEXT, OF(git_committer), 0},
    {"git_commit_date", SERVE_TEXT, OF(git_commit_date), 0},
    {"tensorboard_path", SERVE_TEXT, OF(board), 0},
};

/* ---- showing ---- */

/* What is on its way to the experiment's store, if anything is. */
static void write_uploads(struct serve_rest *r, int64_t id)
{
    const char *error = NULL;
    int64_t bytes = 0;
    size_t count = r->m != NULL ? exp_master_uploads(r->m, id, &bytes, &error) : 0;
    if (count == 0 && error == NULL) /* event files have errors, too */
        return;
    ebb_jsonw_key_object(&r->w, "uploads");
    ebb_jsonw_key_uint(&r->w, "checkpoints", count);
    ebb_jsonw_key_int(&r->w, "bytes", bytes);
    ebb_jsonw_key_string(&r->w, "error", error);
    ebb_jsonw_object_end(&r->w);
}

static enum ebb_status write_config(struct serve_rest *r, int64_t id)
{
    struct exp_db_config row;
    const struct ebb_doc_node *root = NULL;
    bool is_there;
    EBB_TRY(
        exp_db_only(exp_db_config_read(r->db, EXP_DB_ID(id), &row, r->err), r->arena, &is_there));
    if (!is_there)
        return EBB_OK;
    EBB_TRY(ebb_doc_parse_json(r->arena, "config", row.config, strlen(row.config), &root, r->err));
    ebb_doc_write_key(exp_config_masked(r->arena, root), &r->w, "config");
    serve_write_row(&r->w, SERVE_COLUMNS(config_columns), &row);
    write_uploads(r, id);
    return EBB_OK;
}

enum ebb_status serve_answer_experiment(struct serve_rest *r)
{
    struct exp_db_experiment row;
    EBB_TRY(serve_flush(r));
    EBB_TRY(serve_find(r, exp_db_experiment_read(r->db, EXP_DB_ID(r->id), &row, r->err),
                       "no experiment %lld", (long long)r->id));
    ebb_jsonw_object(&r->w);
    serve_write_row(&r->w, SERVE_COLUMNS(columns), &row);
    EBB_TRY(write_config(r, r->id));
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

/* ---- listing ---- */

static void filter_states(struct serve_rest *r, struct exp_db_filter *f)
{
    const char *at = serve_query_text(r, "state");
    while (at != NULL && *at != '\0' && f->state_count < EXP_DB_FILTER_STATES) {
        size_t n = strcspn(at, ",");
        enum exp_state state;
        char *name = ebb_arena_strndup(r->arena, at, n);
        if (name == NULL || !exp_state_parse(name, &state))
            serve_query_bad(r, "state", name != NULL ? name : "",
                            "PAUSED, ACTIVE, STOPPING_*, CANCELED, COMPLETED, ERROR, DELETING, "
                            "DELETE_FAILED");
        f->states[f->state_count++] = name;
        at += n + (at[n] == ',');
    }
}

/* A parameter may stand there several times; empty ones count for nothing. */
static size_t filter_names(struct serve_rest *r, const char *name, const char **names)
{
    size_t count = 0;
    for (size_t i = 0; count < EXP_DB_FILTER_NAMES; i++) {
        char *value = serve_http_query_at(r->request->target, name, i);
        if (value == NULL)
            break;
        if (value[0] != '\0')
            names[count] = ebb_arena_strndup(r->arena, value, strlen(value));
        count += value[0] != '\0' && names[count] != NULL;
        ebb_free(value);
    }
    return count;
}

/* The value of a parameter that is one of a few words; the first of them when it is absent. */
static size_t word_of(struct serve_rest *r, const char *name, const char *const *words,
                      const char *allowed)
{
    const char *text = serve_query_text(r, name);
    for (size_t i = 0; text != NULL && words[i] != NULL; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    if (text != NULL)
        serve_query_bad(r, name, text, allowed);
    return 0;
}

static enum ebb_status read_filter(struct serve_rest *r, struct exp_db_filter *f)
{
    static const char *const archived[] = {"false", "true", "all", NULL};
    static const char *const mine[] = {"false", "true", NULL};
    const char *sort = serve_query_text(r, "sort");
    f->is_descending = sort != NULL && sort[0] == '-';
    f->sort = sort != NULL && sort[0] != '\0' ? sort + f->is_descending : NULL;
    if (f->sort != NULL && !exp_db_is_sort(f->sort))
        return serve_refuse(r, 400, "sort: no such column");
    bool is_mine = word_of(r, "mine", mine, "true or false") == 1;
    f->owner_count = is_mine ? 1 : filter_names(r, "user", f->owners);
    if (is_mine)
        f->owners[0] = serve_user(r);
    f->label_count = filter_names(r, "label", f->labels);
    filter_states(r, f);
    size_t which = word_of(r, "archived", archived, "true, false or all");
    f->is_archived = which != 0;
    f->is_unarchived = which != 1;
    f->description = serve_query_text(r, "description");
    f->limit = serve_query_int(r, "limit", 1000, 0);
    f->offset = serve_query_int(r, "offset", 0, 0);
    return EBB_OK;
}

static enum ebb_status list(struct serve_rest *r)
{
    struct exp_db_filter f = {0};
    struct exp_db_experiment row;
    struct exp_db_id total = {0};
    EBB_TRY(read_filter(r, &f));
    EBB_TRY(serve_flush(r));
    serve_begin_list(r, "experiments");
    struct exp_db_cursor c = exp_db_experiments(r->db, &f, &row, r->err);
    while (exp_db_fetch(&c))
        serve_write_object(&r->w, SERVE_COLUMNS(columns), &row);
    ebb_jsonw_array_end(&r->w);
    EBB_TRY(exp_db_end(&c));
    EBB_TRY(exp_db_only(exp_db_experiments_count(r->db, &f, &total, r->err), NULL, NULL));
    ebb_jsonw_key_int(&r->w, "total", total.id);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

/* ---- states ---- */

enum ebb_status serve_read_state(struct serve_rest *r, enum exp_state *state)
{
    struct exp_db_experiment row;
    bool is_there;
    EBB_TRY(exp_master_need(r->m, r->id, r->err));
    if (exp_master_find(r->m, r->id, state))
        return EBB_OK;
    EBB_TRY(exp_db_only(exp_db_experiment_read(r->db, EXP_DB_ID(r->id), &row, r->err), r->arena,
                        &is_there));
    return is_there && exp_state_parse(row.state, state)
               ? EBB_OK
               : serve_refuse(r, 404, "no experiment %lld", (long long)r->id);
}

enum ebb_status serve_change_state(struct serve_rest *r, enum exp_state from, enum exp_state to)
{
    struct ebb_error why;
    enum exp_state state;
    if (from == to)
        return EBB_OK;
    if (!exp_master_find(r->m, r->id, &state))
        return serve_refuse(r, 409, "illegal transition %s -> %s", exp_state_name(from),
                            exp_state_name(to));
    enum ebb_status status = exp_master_set_state(r->m, r->id, to, &why);
    if (status == EBB_EINPUT)
        return serve_refuse(r, 409, "%s", why.message);
    if (status != EBB_OK)
        *r->err = why;
    return status;
}

enum ebb_status serve_need_ended(struct serve_rest *r, enum exp_state state, const char *what)
{
    return exp_state_is_ended(state) ? EBB_OK
                                     : serve_refuse(r, 409, "experiment %lld is %s: %s",
                                                    (long long)r->id, exp_state_name(state), what);
}

static enum ebb_status set_archived(struct serve_rest *r, enum exp_state state, bool is_archived)
{
    struct exp_db_experiment_told told;
    EBB_TRY(serve_need_ended(r, state, "only ended ones are archived"));
    EBB_TRY(exp_db_only(exp_db_experiment_told(r->db, EXP_DB_ID(r->id), &told, r->err), r->arena,
                        NULL));
    told.archived = is_archived;
    return exp_db_experiment_tell(r->db, &told, r->err);
}

static enum ebb_status kill(struct serve_rest *r)
{
    enum exp_state state;
    if (!exp_master_find(r->m, r->id, &state))
        return serve_refuse(r, 409, "active experiment not found");
    return exp_master_kill(r->m, r->id, r->err);
}

static enum ebb_status collect(struct serve_rest *r, enum exp_state state)
{
    EBB_TRY(serve_need_ended(r, state, "checkpoints are collected at its end"));
    return exp_master_collect(r->m, r->id, r->err);
}

static enum ebb_status act(struct serve_rest *r)
{
    static const struct {
        const char *name;
        enum exp_state to;
    } changes[] = {
        {"activate", EXP_ACTIVE}, {"pause", EXP_PAUSED}, {"cancel", EXP_STOPPING_CANCELED}};
    enum exp_state state;
    bool is_known = false;
    EBB_TRY(serve_read_state(r, &state));
    for (size_t i = 0; i < sizeof changes / sizeof changes[0] && !is_known; i++) {
        is_known = strcmp(changes[i].name, r->name) == 0;
        if (is_known)
            EBB_TRY(serve_change_state(r, state, changes[i].to));
    }
    if (is_known)
        ;
    else if (strcmp(r->name, "kill") == 0)
        EBB_TRY(kill(r));
    else if (strcmp(r->name, "archive") == 0 || strcmp(r->name, "unarchive") == 0)
        EBB_TRY(set_archived(r, state, r->name[0] == 'a'));
    else if (strcmp(r->name, "gc") == 0)
        EBB_TRY(collect(r, state));
    else
        return serve_refuse(r, 404, "an experiment cannot %s", r->name);
    EBB_TRY(exp_master_settle(r->m, r->id, false, r->err));
    return serve_answer_experiment(r);
}

static enum ebb_status delete (struct serve_rest *r) {
    enum exp_state state; struct exp_db_id user = {0}; EBB_TRY(serve_read_state(r, &state));
    EBB_TRY(serve_need_ended(r, state, "only ended ones can be deleted"));
    EBB_TRY(exp_db_only(exp_db_experiment_needed_by(r->db, EXP_DB_ID(r->id), &user, r->err), NULL,
                        NULL));
    if (user.id >
        0) return serve_refuse(r, 409,
                               "experiment %lld, which has not ended, starts its trials from a "
                               "checkpoint of experiment %lld",
                               (long long)user.id, (long long)r->id);
    r->response->status = 202;
    EBB_TRY(exp_master_delete(r->m, r->id, r->err));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_int(&r->w, "id", r->id);
    ebb_jsonw_key_string(&r->w, "state", "DELETING");
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"GET", "/experiments", list, "list experiments", SERVE_APART},
    {"GET", "/experiments/#", serve_answer_experiment, "one experiment", 0},
    {"PATCH", "/experiments/#", serve_patch_experiment, "change an experiment", 0},
    {"DELETE", "/experiments/#", delete, "delete an ended experiment", 0},
    {"POST", "/experiments/#/*", act, "activate, pause, cancel, kill, archive, unarchive, gc", 0},
};
const struct serve_routes serve_routes_experiments = SERVE_ROUTES(routes);
