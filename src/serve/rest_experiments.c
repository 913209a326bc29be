/* rest_experiments.c - experiments: listing, showing, changing, ending. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "serve/rest.h"

#define COLUMNS                                                                                    \
    "id, state, description, labels, owner, progress, start_time, end_time, archived, parent_id,"  \
    " searcher, metric, smaller_is_better, best_signed, best_trial_id, best_step_id, num_trials,"  \
    " num_ended, weight, max_slots, error, notes, save_experiment_best, save_trial_best,"          \
    " save_trial_latest"

/* ---- writing ---- */

static void key_int(struct ebb_json_writer *w, const char *key, const struct exp_db_rows *rows,
                    int column)
{
    ebb_jsonw_key(w, key);
    if (exp_db_is_null(rows, column))
        ebb_jsonw_null(w);
    else
        ebb_jsonw_int(w, exp_db_int(rows, column));
}

static void write_row(struct ebb_json_writer *w, const struct exp_db_rows *rows)
{
    const char *labels = exp_db_text(rows, 3);
    bool is_smaller = exp_db_int(rows, 12) != 0;
    key_int(w, "id", rows, 0);
    ebb_jsonw_key_string(w, "state", exp_db_text(rows, 1));
    ebb_jsonw_key_string(w, "description", exp_db_text(rows, 2));
    ebb_jsonw_key(w, "labels");
    exp_json_raw(w, labels, strlen(labels));
    ebb_jsonw_key_string(w, "owner", exp_db_text(rows, 4));
    ebb_jsonw_key(w, "progress");
    if (exp_db_is_null(rows, 5))
        ebb_jsonw_null(w);
    else
        ebb_jsonw_double(w, exp_db_double(rows, 5));
    ebb_jsonw_key(w, "start_time");
    exp_time_write(w, exp_db_double(rows, 6));
    ebb_jsonw_key(w, "end_time");
    exp_time_write(w, exp_db_double(rows, 7));
    ebb_jsonw_key(w, "archived");
    ebb_jsonw_bool(w, exp_db_int(rows, 8) != 0);
    key_int(w, "parent_id", rows, 9);
    ebb_jsonw_key_string(w, "searcher", exp_db_text(rows, 10));
    ebb_jsonw_key_string(w, "metric", exp_db_text(rows, 11));
    ebb_jsonw_key(w, "smaller_is_better");
    ebb_jsonw_bool(w, is_smaller);
    ebb_jsonw_key(w, "best_metric");
    if (exp_db_is_null(rows, 13))
        ebb_jsonw_null(w);
    else
        exp_metric_write(w, exp_metric_unsigned(exp_db_double(rows, 13), is_smaller));
    key_int(w, "best_trial_id", rows, 14);
    key_int(w, "best_step_id", rows, 15);
    key_int(w, "num_trials", rows, 16);
    key_int(w, "num_ended", rows, 17);
    ebb_jsonw_key(w, "weight");
    ebb_jsonw_double(w, exp_db_double(rows, 18));
    key_int(w, "max_slots", rows, 19);
    ebb_jsonw_key_string(w, "error", exp_db_text(rows, 20));
    ebb_jsonw_key_string(w, "notes", exp_db_text(rows, 21));
    key_int(w, "save_experiment_best", rows, 22);
    key_int(w, "save_trial_best", rows, 23);
    key_int(w, "save_trial_latest", rows, 24);
}

static enum ebb_status write_config(struct serve_rest *r, int64_t id)
{
    static const char *const names[] = {"git_remote", "git_commit", "git_committer",
                                        "git_commit_date", "tensorboard_path"};
    struct exp_db_rows rows;
    const struct ebb_doc_node *root = NULL;
    bool has_row = false;
    EBB_TRY(exp_db_query(r->m->db,
                         "SELECT config, git_remote, git_commit, git_committer, git_commit_date,"
                         " board"
                         " FROM experiment_configs WHERE experiment_id = $1",
                         EXP_DB_ARGS(exp_db_i(id)), &rows, r->err));
    enum ebb_status status = exp_db_next(&rows, &has_row, r->err);
    if (status == EBB_OK && has_row) {
        struct exp_db_value text = exp_db_column(&rows, 0);
        status = ebb_doc_parse_json(r->arena, "config", text.data, text.length, &root, r->err);
    }
    if (status == EBB_OK && has_row) {
        ebb_jsonw_key(&r->w, "config");
        ebb_doc_write_json(exp_config_masked(r->arena, root), &r->w);
        for (int i = 0; i < 5; i++)
            ebb_jsonw_key_string(&r->w, names[i], exp_db_text(&rows, i + 1));
    }
    exp_db_done(&rows);
    return status;
}

enum ebb_status serve_rest_write_experiment(struct serve_rest *r, int64_t id, bool is_whole,
                                            bool *is_there)
{
    struct exp_db_rows rows;
    EBB_TRY(exp_rows_flush(r->m, r->err)); /* rows say what memory says */
    EBB_TRY(exp_db_query(r->m->db, "SELECT " COLUMNS " FROM experiments WHERE id = $1",
                         EXP_DB_ARGS(exp_db_i(id)), &rows, r->err));
    enum ebb_status status = exp_db_next(&rows, is_there, r->err);
    if (status == EBB_OK && *is_there) {
        ebb_jsonw_object(&r->w);
        write_row(&r->w, &rows);
        if (is_whole)
            status = write_config(r, id);
        ebb_jsonw_object_end(&r->w);
    }
    exp_db_done(&rows);
    return status;
}

static enum ebb_status answer_with(struct serve_rest *r, int64_t id)
{
    bool is_there = false;
    EBB_TRY(serve_rest_write_experiment(r, id, true, &is_there));
    return is_there ? EBB_OK : serve_rest_refuse(r, 404, "no experiment %lld", (long long)id);
}

enum ebb_status serve_rest_get_experiment(struct serve_rest *r)
{
    return answer_with(r, r->id);
}

/* ---- listing ---- */

struct filter {
    struct ebb_str where;
    struct exp_db_value args[32];
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void restrict_to(struct filter *f, const char *fmt,
                                                              ...)
{
    va_list args;
    ebb_str_add(&f->where, f->where.length == 0 ? " WHERE " : " AND ");
    va_start(args, fmt);
    ebb_str_vprintf(&f->where, fmt, args);
    va_end(args);
}

static void filter_states(struct serve_rest *r, struct filter *f)
{
    const char *at = serve_rest_text(r, "state");
    if (at == NULL || at[0] == '\0')
        return;
    restrict_to(f, "state IN (");
    for (bool is_first = true; *at != '\0' && f->count < 16; is_first = false) {
        size_t n = strcspn(at, ",");
        enum exp_state state;
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)(n < 31 ? n : 31), at);
        if (!exp_state_parse(name, &state))
            serve_rest_bad(r, "state", name,
                           "PAUSED, ACTIVE, STOPPING_*, CANCELED, COMPLETED, ERROR, DELETING, "
                           "DELETE_FAILED");
        f->args[f->count++] = exp_db_tn(at, n);
        ebb_str_printf(&f->where, "%s$%zu", is_first ? "" : ", ", f->count);
        at += n + (at[n] == ',');
    }
    ebb_str_addc(&f->where, ')');
}

/* A part of a text; % and _ stand for themselves. */
static const char *like(struct serve_rest *r, const char *before, const char *text,
                        const char *after)
{
    char *out = ebb_arena_alloc(r->arena, 2 * strlen(text) + strlen(before) + strlen(after) + 1);
    if (out == NULL)
        return "";
    size_t at = strlen(before);
    memcpy(out, before, at);
    for (; *text != '\0'; text++) {
        if (*text == '%' || *text == '_' || *text == '\\')
            out[at++] = '\\';
        out[at++] = *text;
    }
    memcpy(out + at, after, strlen(after) + 1);
    return out;
}

static void make_filter(struct serve_rest *r, struct filter *f)
{
    const char *archived = serve_rest_text(r, "archived"), *user = serve_rest_text(r, "user");
    const char *description = serve_rest_text(r, "description"),
               *label = serve_rest_text(r, "label");
    const char *mine = serve_rest_text(r, "mine");
    if (mine != NULL && strcmp(mine, "true") == 0)
        user = serve_rest_user(r);
    else if (mine != NULL && strcmp(mine, "false") != 0)
        serve_rest_bad(r, "mine", mine, "true or false");
    filter_states(r, f);
    if (archived != NULL && strcmp(archived, "false") != 0 && strcmp(archived, "true") != 0 &&
        strcmp(archived, "all") != 0)
        serve_rest_bad(r, "archived", archived, "true, false or all");
    if (archived == NULL || strcmp(archived, "false") == 0)
        restrict_to(f, "archived = 0");
    else if (strcmp(archived, "true") == 0)
        restrict_to(f, "archived = 1");
    if (user != NULL && user[0] != '\0') {
        f->args[f->count++] = exp_db_t(user);
        restrict_to(f, "owner = $%zu", f->count);
    }
    if (description != NULL && description[0] != '\0') {
        f->args[f->count++] = exp_db_t(like(r, "%", description, "%"));
        restrict_to(f, "description LIKE $%zu ESCAPE '\\'", f->count);
    }
    if (label != NULL && label[0] != '\0') {
        f->args[f->count++] = exp_db_t(like(r, "%\"", label, "\"%"));
        restrict_to(f, "labels LIKE $%zu ESCAPE '\\'", f->count);
    }
}

static const char *order_of(struct serve_rest *r, bool *is_known)
{
    static const char *const columns[] = {"id",       "description", "state", "start_time",
                                          "end_time", "progress",    "owner"};
    const char *sort = serve_rest_text(r, "sort");
    *is_known = true;
    if (sort == NULL || sort[0] == '\0')
        return "id DESC";
    const char *name = sort + (sort[0] == '-');
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (strcmp(columns[i], name) == 0)
            return ebb_arena_printf(r->arena, "%s%s, id DESC", name, sort[0] == '-' ? " DESC" : "");
    *is_known = false;
    return NULL;
}

static enum ebb_status list_rows(struct serve_rest *r, const struct filter *f, const char *order)
{
    struct exp_db_rows rows;
    bool has_row = true;
    int64_t limit = serve_rest_int(r, "limit", 1000, 0), offset = serve_rest_int(r, "offset", 0, 0);
    char *sql = ebb_arena_printf(r->arena,
                                 "SELECT " COLUMNS " FROM experiments%s ORDER BY %s"
                                 " LIMIT %lld OFFSET %lld",
                                 ebb_str_c(&f->where), order, (long long)(limit < 0 ? 0 : limit),
                                 (long long)(offset < 0 ? 0 : offset));
    if (sql == NULL)
        return ebb_no_memory(r->err, 1024);
    EBB_TRY(exp_db_query(r->m->db, sql, f->args, f->count, &rows, r->err));
    ebb_jsonw_key(&r->w, "experiments");
    ebb_jsonw_array(&r->w);
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        ebb_jsonw_object(&r->w);
        write_row(&r->w, &rows);
        ebb_jsonw_object_end(&r->w);
    }
    ebb_jsonw_array_end(&r->w);
    exp_db_done(&rows);
    return status;
}

enum ebb_status serve_rest_list_experiments(struct serve_rest *r)
{
    struct filter f = {0};
    bool is_known;
    int64_t total = 0;
    const char *order = order_of(r, &is_known);
    if (!is_known)
        return serve_rest_refuse(r, 400, "sort: no such column");
    ebb_str_init(&f.where);
    make_filter(r, &f);
    enum ebb_status status = exp_rows_flush(r->m, r->err);
    ebb_jsonw_object(&r->w);
    if (status == EBB_OK)
        status = list_rows(r, &f, order);
    char *sql =
        ebb_arena_printf(r->arena, "SELECT COUNT(*) FROM experiments%s", ebb_str_c(&f.where));
    if (status == EBB_OK && sql != NULL)
        status = exp_db_number(r->m->db, sql, f.args, f.count, 0, &total, r->err);
    ebb_jsonw_key(&r->w, "total");
    ebb_jsonw_int(&r->w, total);
    ebb_jsonw_object_end(&r->w);
    ebb_str_fini(&f.where);
    return status;
}

/* ---- states ---- */

/* The state in the row; 404 when there is none (then *is_there is false). */
static enum ebb_status read_state(struct serve_rest *r, enum exp_state *state, bool *is_there)
{
    struct exp_db_rows rows;
    const struct exp_experiment *e = exp_experiment_find(r->m, r->id);
    *is_there = true;
    if (e != NULL) {
        *state = e->state;
        return EBB_OK;
    }
    EBB_TRY(exp_db_query(r->m->db, "SELECT state FROM experiments WHERE id = $1",
                         EXP_DB_ARGS(exp_db_i(r->id)), &rows, r->err));
    enum ebb_status status = exp_db_next(&rows, is_there, r->err);
    if (status == EBB_OK && *is_there)
        *is_there = exp_state_parse(exp_db_text(&rows, 0), state);
    exp_db_done(&rows);
    if (status == EBB_OK && !*is_there)
        return serve_rest_refuse(r, 404, "no experiment %lld", (long long)r->id);
    return status;
}

/* Refuses what is illegal; *is_done: it was legal and is done. */
static enum ebb_status change_state(struct serve_rest *r, enum exp_state from, enum exp_state to,
                                    bool *is_done)
{
    struct exp_experiment *e = exp_experiment_find(r->m, r->id);
    struct ebb_error why;
    *is_done = from == to;
    if (from == to)
        return EBB_OK;
    if (e == NULL)
        return serve_rest_refuse(r, 409, "illegal transition %s -> %s", exp_state_name(from),
                                 exp_state_name(to));
    enum ebb_status status = exp_experiment_set_state(r->m, e, to, &why);
    *is_done = status == EBB_OK;
    if (status == EBB_EINPUT)
        return serve_rest_refuse(r, 409, "%s", why.message);
    if (status != EBB_OK)
        *r->err = why;
    return status;
}

static enum ebb_status set_archived(struct serve_rest *r, enum exp_state state, bool is_archived,
                                    bool *is_done)
{
    *is_done = exp_state_is_ended(state);
    if (!*is_done)
        return serve_rest_refuse(r, 409, "experiment %lld is %s: only ended ones are archived",
                                 (long long)r->id, exp_state_name(state));
    return exp_db_run(r->m->db, "UPDATE experiments SET archived = $1 WHERE id = $2",
                      EXP_DB_ARGS(exp_db_i(is_archived), exp_db_i(r->id)), r->err);
}

static enum ebb_status kill_experiment(struct serve_rest *r, bool *is_done)
{
    struct exp_experiment *e = exp_experiment_find(r->m, r->id);
    *is_done = e != NULL;
    if (e == NULL)
        return serve_rest_refuse(r, 409, "active experiment not found");
    return exp_experiment_kill(r->m, e, r->err);
}

static enum ebb_status collect(struct serve_rest *r, enum exp_state state, bool *is_done)
{
    *is_done = exp_state_is_ended(state);
    if (!*is_done)
        return serve_rest_refuse(r, 409,
                                 "experiment %lld is %s: checkpoints are collected at its end",
                                 (long long)r->id, exp_state_name(state));
    return exp_gc_collect(r->m, r->id, r->err);
}

enum ebb_status serve_rest_act_experiment(struct serve_rest *r)
{
    enum exp_state state;
    bool is_done = false, is_there;
    EBB_TRY(read_state(r, &state, &is_there));
    if (!is_there)
        return EBB_OK;
    enum ebb_status status;
    if (strcmp(r->name, "activate") == 0)
        status = change_state(r, state, EXP_ACTIVE, &is_done);
    else if (strcmp(r->name, "pause") == 0)
        status = change_state(r, state, EXP_PAUSED, &is_done);
    else if (strcmp(r->name, "cancel") == 0)
        status = change_state(r, state, EXP_STOPPING_CANCELED, &is_done);
    else if (strcmp(r->name, "kill") == 0)
        status = kill_experiment(r, &is_done);
    else if (strcmp(r->name, "archive") == 0)
        status = set_archived(r, state, true, &is_done);
    else if (strcmp(r->name, "unarchive") == 0)
        status = set_archived(r, state, false, &is_done);
    else if (strcmp(r->name, "gc") == 0)
        status = collect(r, state, &is_done);
    else
        return serve_rest_refuse(r, 404, "an experiment cannot %s", r->name);
    if (status != EBB_OK || !is_done)
        return status;
    struct exp_experiment *e = exp_experiment_find(r->m, r->id);
    if (e != NULL)
        EBB_TRY(exp_experiment_settle(r->m, e, r->err));
    return answer_with(r, r->id);
}

enum ebb_status serve_rest_delete_experiment(struct serve_rest *r)
{
    enum exp_state state;
    bool is_there;
    EBB_TRY(read_state(r, &state, &is_there));
    if (!is_there)
        return EBB_OK;
    if (!exp_state_is_ended(state))
        return serve_rest_refuse(r, 409, "experiment %lld is %s: only ended ones can be deleted",
                                 (long long)r->id, exp_state_name(state));
    int64_t user = 0;
    EBB_TRY(exp_db_number(r->m->db,
                          "SELECT MIN(x.id) FROM experiment_configs k JOIN experiments x ON x.id ="
                          " k.experiment_id JOIN checkpoints c ON c.uuid = k.warm_start WHERE"
                          " c.experiment_id = $1 AND x.id <> $1 AND x.end_time IS NULL",
                          EXP_DB_ARGS(exp_db_i(r->id)), 0, &user, r->err));
    if (user > 0)
        return serve_rest_refuse(r, 409,
                                 "experiment %lld, which has not ended, starts its trials from a "
                                 "checkpoint of experiment %lld",
                                 (long long)user, (long long)r->id);
    r->response->status = 202;
    EBB_TRY(exp_gc_delete(r->m, r->id, r->err));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "id");
    ebb_jsonw_int(&r->w, r->id);
    ebb_jsonw_key_string(&r->w, "state", "DELETING");
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

/* ---- merge patch ---- */

struct patch { /* everything is checked before anything is changed */
    bool has_state, has_description, has_notes, has_labels, has_max_slots, has_weight, has_archived;
    bool has_save[3];
    enum exp_state state;
    const char *description, *notes;
    const struct ebb_doc_node *labels;
    int64_t max_slots; /* < 0 = none */
    double weight;
    bool archived;
    int64_t save[3];
};

static const char *const save_names[3] = {"save_experiment_best", "save_trial_best",
                                          "save_trial_latest"};

static const char *read_resources(const struct ebb_doc_node *node, struct patch *p)
{
    const struct ebb_doc_node *slots = ebb_doc_get(node, "max_slots");
    const struct ebb_doc_node *weight = ebb_doc_get(node, "weight");
    if (node->kind != EBB_DOC_MAP)
        return "not a mapping";
    if (node->count > (size_t)((slots != NULL) + (weight != NULL)))
        return "only max_slots and weight can be changed";
    if (slots != NULL) {
        p->has_max_slots = true;
        p->max_slots = slots->kind == EBB_DOC_INT ? slots->integer : -1;
        if (slots->kind != EBB_DOC_NULL && (slots->kind != EBB_DOC_INT || slots->integer < 0))
            return "max_slots is a number >= 0, or null";
    }
    if (weight != NULL) {
        p->has_weight = true;
        p->weight = weight->number;
        if ((weight->kind != EBB_DOC_INT && weight->kind != EBB_DOC_DOUBLE) || !(p->weight > 0) ||
            p->weight > 1e300)
            return "weight is a number > 0";
    }
    return NULL;
}

static const char *read_storage(const struct ebb_doc_node *node, struct patch *p)
{
    if (node->kind != EBB_DOC_MAP)
        return "not a mapping";
    for (size_t i = 0; i < node->count; i++) {
        int which = -1;
        for (int k = 0; k < 3; k++)
            if (strcmp(node->keys[i]->text, save_names[k]) == 0)
                which = k;
        if (which < 0)
            return "only the save_* counts can be changed";
        if (node->items[i]->kind != EBB_DOC_INT || node->items[i]->integer < 0)
            return "save_* counts are numbers >= 0";
        p->has_save[which] = true;
        p->save[which] = node->items[i]->integer;
    }
    return NULL;
}

static const char *read_text(const struct ebb_doc_node *node, bool *has, const char **text)
{
    *has = true;
    *text = node->text;
    return node->kind == EBB_DOC_STRING ? NULL : "not a text";
}

static const char *read_one(const char *key, const struct ebb_doc_node *node, struct patch *p)
{
    if (strcmp(key, "state") == 0) {
        p->has_state = true;
        if (node->kind != EBB_DOC_STRING || !exp_state_parse(node->text, &p->state) ||
            p->state > EXP_STOPPING_CANCELED)
            return "only ACTIVE, PAUSED and STOPPING_CANCELED can be set";
        return NULL;
    }
    if (strcmp(key, "description") == 0)
        return read_text(node, &p->has_description, &p->description);
    if (strcmp(key, "notes") == 0)
        return read_text(node, &p->has_notes, &p->notes);
    if (strcmp(key, "labels") == 0) {
        p->has_labels = true;
        p->labels = node;
        if (node->kind != EBB_DOC_MAP)
            return "a mapping of name to true or null";
        for (size_t i = 0; i < node->count; i++) {
            const struct ebb_doc_node *value = node->items[i];
            if (node->keys[i]->text[0] == '\0')
                return "a label is not empty";
            if (value->kind != EBB_DOC_NULL && (value->kind != EBB_DOC_BOOL || !value->boolean))
                return "a mapping of name to true or null";
        }
        return NULL;
    }
    if (strcmp(key, "resources") == 0)
        return read_resources(node, p);
    if (strcmp(key, "checkpoint_storage") == 0)
        return read_storage(node, p);
    if (strcmp(key, "archived") == 0) {
        p->has_archived = true;
        p->archived = node->boolean;
        return node->kind == EBB_DOC_BOOL ? NULL : "true or false";
    }
    return "cannot be changed";
}

static enum ebb_status patch_labels(struct serve_rest *r, const struct ebb_doc_node *change)
{
    struct exp_db_rows rows;
    struct ebb_str text;
    struct ebb_json_writer w;
    const struct ebb_doc_node *old = NULL;
    bool has_row = false;
    EBB_TRY(exp_db_query(r->m->db, "SELECT labels FROM experiments WHERE id = $1",
                         EXP_DB_ARGS(exp_db_i(r->id)), &rows, r->err));
    enum ebb_status status = exp_db_next(&rows, &has_row, r->err);
    if (status == EBB_OK && has_row) {
        struct exp_db_value v = exp_db_column(&rows, 0);
        status = ebb_doc_parse_json(r->arena, "labels", v.data, v.length, &old, r->err);
    }
    exp_db_done(&rows);
    EBB_TRY(status);
    ebb_str_init(&text);
    ebb_jsonw_init(&w, &text, 0);
    ebb_jsonw_array(&w);
    for (size_t i = 0; old != NULL && i < old->count; i++)
        if (ebb_doc_get(change, old->items[i]->text) == NULL)
            ebb_jsonw_string(&w, old->items[i]->text);
    for (size_t i = 0; i < change->count; i++)
        if (change->items[i]->kind == EBB_DOC_BOOL && change->items[i]->boolean)
            ebb_jsonw_string(&w, change->keys[i]->text);
    ebb_jsonw_array_end(&w);
    status = ebb_str_status(&text, r->err);
    if (status == EBB_OK)
        status =
            exp_db_run(r->m->db, "UPDATE experiments SET labels = $1 WHERE id = $2",
                       EXP_DB_ARGS(exp_db_tn(text.data, text.length), exp_db_i(r->id)), r->err);
    ebb_str_fini(&text);
    return status;
}

static enum ebb_status patch_resources(struct serve_rest *r, const struct patch *p)
{
    struct exp_experiment *e = exp_experiment_find(r->m, r->id);
    if (p->has_max_slots)
        EBB_TRY(exp_db_run(
            r->m->db, "UPDATE experiments SET max_slots = $1 WHERE id = $2",
            EXP_DB_ARGS(p->max_slots >= 0 ? exp_db_i(p->max_slots) : exp_db_n(), exp_db_i(r->id)),
            r->err));
    if (p->has_weight)
        EBB_TRY(exp_db_run(r->m->db, "UPDATE experiments SET weight = $1 WHERE id = $2",
                           EXP_DB_ARGS(exp_db_d(p->weight), exp_db_i(r->id)), r->err));
    if (e == NULL)
        return EBB_OK;
    if (p->has_max_slots)
        e->max_slots = p->max_slots;
    if (p->has_weight)
        e->weight = p->weight;
    r->m->is_schedule_due = true;
    exp_dirty_experiment(r->m, e);
    return EBB_OK;
}

static enum ebb_status patch_rest(struct serve_rest *r, const struct patch *p, enum exp_state state)
{
    struct exp_db *db = r->m->db;
    struct exp_db_value id = exp_db_i(r->id);
    if (p->has_description)
        EBB_TRY(exp_db_run(db, "UPDATE experiments SET description = $1 WHERE id = $2",
                           EXP_DB_ARGS(exp_db_t(p->description), id), r->err));
    if (p->has_notes)
        EBB_TRY(exp_db_run(db, "UPDATE experiments SET notes = $1 WHERE id = $2",
                           EXP_DB_ARGS(exp_db_t(p->notes), id), r->err));
    if (p->has_labels)
        EBB_TRY(patch_labels(r, p->labels));
    if (p->has_max_slots || p->has_weight)
        EBB_TRY(patch_resources(r, p));
    if (p->has_archived)
        EBB_TRY(exp_db_run(db, "UPDATE experiments SET archived = $1 WHERE id = $2",
                           EXP_DB_ARGS(exp_db_i(p->archived), id), r->err));
    static const char *const updates[3] = {
        "UPDATE experiments SET save_experiment_best = $1 WHERE id = $2",
        "UPDATE experiments SET save_trial_best = $1 WHERE id = $2",
        "UPDATE experiments SET save_trial_latest = $1 WHERE id = $2"};
    bool has_save = false;
    for (int i = 0; i < 3; i++)
        if (p->has_save[i]) {
            has_save = true;
            EBB_TRY(exp_db_run(db, updates[i], EXP_DB_ARGS(exp_db_i(p->save[i]), id), r->err));
        }
    if (has_save && exp_state_is_ended(state) && state < EXP_DELETING)
        EBB_TRY(exp_gc_collect(r->m, r->id, r->err));
    return EBB_OK;
}

enum ebb_status serve_rest_patch_experiment(struct serve_rest *r)
{
    struct patch p = {0};
    enum exp_state state;
    bool is_there, is_done = true;
    EBB_TRY(read_state(r, &state, &is_there));
    if (!is_there)
        return EBB_OK;
    for (size_t i = 0; r->body != NULL && i < r->body->count; i++) {
        const char *key = r->body->keys[i]->text;
        const char *bad = read_one(key, r->body->items[i], &p);
        if (bad != NULL)
            return serve_rest_refuse(r, 400, "%s: %s", key, bad);
    }
    if (p.has_archived && !exp_state_is_ended(state))
        return serve_rest_refuse(r, 409, "experiment %lld is %s: only ended ones are archived",
                                 (long long)r->id, exp_state_name(state));
    if (p.has_state)
        EBB_TRY(change_state(r, state, p.state, &is_done));
    if (!is_done)
        return EBB_OK;
    EBB_TRY(patch_rest(r, &p, state));
    struct exp_experiment *e = exp_experiment_find(r->m, r->id);
    if (e != NULL) {
        exp_notice_experiment(r->m, e);
        EBB_TRY(exp_experiment_settle(r->m, e, r->err));
    }
    return answer_with(r, r->id);
}
