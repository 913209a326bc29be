/* rest_metrics.c - curves and comparisons: what the charts of an experiment are drawn from. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "serve/rest.h"

struct searched { /* of an experiment */
    char metric[256];
    bool smaller_is_better;
    int64_t batches_per_step;
};

static enum ebb_status read_searched(struct serve_rest *r, int64_t id, struct searched *s,
                                     bool *is_there)
{
    struct exp_db_rows rows;
    const struct ebb_doc_node *root = NULL;
    EBB_TRY(exp_db_query(r->m->db,
                         "SELECT e.metric, e.smaller_is_better, c.config FROM experiments e JOIN"
                         " experiment_configs c ON c.experiment_id = e.id WHERE e.id = $1",
                         EXP_DB_ARGS(exp_db_i(id)), &rows, r->err));
    enum ebb_status status = exp_db_next(&rows, is_there, r->err);
    if (status == EBB_OK && *is_there) {
        struct exp_db_value text = exp_db_column(&rows, 2);
        snprintf(s->metric, sizeof s->metric, "%s", exp_db_text(&rows, 0));
        s->smaller_is_better = exp_db_int(&rows, 1) != 0;
        status = ebb_doc_parse_json(r->arena, "config", text.data, text.length, &root, r->err);
        s->batches_per_step = ebb_doc_int(root, "batches_per_step", 100);
    }
    exp_db_done(&rows);
    if (status == EBB_OK && !*is_there)
        return serve_rest_refuse(r, 404, "no experiment %lld", (long long)id);
    return status;
}

enum ebb_status serve_rest_history(struct serve_rest *r)
{
    struct searched s;
    struct exp_db_rows rows;
    bool is_there, has_row = true;
    EBB_TRY(read_searched(r, r->id, &s, &is_there));
    if (!is_there)
        return EBB_OK;
    EBB_TRY(exp_db_query(r->m->db,
                         "SELECT v.trial_id, v.step_id, v.end_time, v.signed_metric FROM"
                         " validations v JOIN trials t ON t.id = v.trial_id WHERE"
                         " t.experiment_id = $1 AND v.is_best = 1 ORDER BY v.end_time,"
                         " v.signed_metric DESC",
                         EXP_DB_ARGS(exp_db_i(r->id)), &rows, r->err));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "validation_history");
    ebb_jsonw_array(&r->w);
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key(&r->w, "trial_id");
        ebb_jsonw_int(&r->w, exp_db_int(&rows, 0));
        ebb_jsonw_key(&r->w, "step_id");
        ebb_jsonw_int(&r->w, exp_db_int(&rows, 1));
        ebb_jsonw_key(&r->w, "end_time");
        exp_time_write(&r->w, exp_db_double(&rows, 2));
        ebb_jsonw_key(&r->w, "metric");
        exp_metric_write(&r->w, exp_metric_unsigned(exp_db_double(&rows, 3), s.smaller_is_better));
        ebb_jsonw_object_end(&r->w);
    }
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    exp_db_done(&rows);
    return status;
}

/* ---- names ---- */

/* Names in the newest rows of a query; `inner` is the mapping that holds them. */
static enum ebb_status write_names(struct serve_rest *r, const char *sql, const char *inner)
{
    struct exp_db_rows rows;
    struct ebb_strmap seen;
    bool has_row = true;
    EBB_TRY(exp_db_query(r->m->db, sql, EXP_DB_ARGS(exp_db_i(r->id)), &rows, r->err));
    ebb_strmap_init(&seen);
    ebb_jsonw_array(&r->w);
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        const struct ebb_doc_node *root = NULL, *map;
        struct exp_db_value text = exp_db_column(&rows, 0);
        if (text.kind != EXP_DB_TEXT ||
            ebb_doc_parse_json(r->arena, "metrics", text.data, text.length, &root, NULL) !=
                EBB_OK ||
            (map = ebb_doc_get(root, inner)) == NULL || map->kind != EBB_DOC_MAP)
            continue;
        for (size_t i = 0; status == EBB_OK && i < map->count; i++) {
            const struct ebb_doc_node *key = map->keys[i];
            if (ebb_strmap_get(&seen, key->text, key->length, NULL))
                continue;
            ebb_jsonw_string(&r->w, key->text);
            status = ebb_strmap_put(&seen, key->text, key->length, 1, r->err);
        }
    }
    ebb_jsonw_array_end(&r->w);
    ebb_strmap_fini(&seen);
    exp_db_done(&rows);
    return status;
}

enum ebb_status serve_rest_metric_names(struct serve_rest *r)
{
    struct searched s;
    bool is_there;
    EBB_TRY(read_searched(r, r->id, &s, &is_there));
    if (!is_there)
        return EBB_OK;
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "searcher_metric");
    ebb_jsonw_string(&r->w, s.metric);
    ebb_jsonw_key(&r->w, "training");
    EBB_TRY(
        write_names(r,
                    "SELECT s.metrics FROM steps s JOIN trials t ON t.id = s.trial_id WHERE"
                    " t.experiment_id = $1 AND s.state = 'COMPLETED' ORDER BY s.trial_id DESC, s.id"
                    " DESC LIMIT 20",
                    "avg_metrics"));
    ebb_jsonw_key(&r->w, "validation");
    EBB_TRY(write_names(
        r,
        "SELECT v.metrics FROM validations v JOIN trials t ON t.id = v.trial_id"
        " WHERE t.experiment_id = $1 AND v.state = 'COMPLETED' ORDER BY v.trial_id DESC,"
        " v.step_id DESC"
        " LIMIT 20",
        "validation_metrics"));
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

/* ---- curves ---- */

static void write_point(struct serve_rest *r, int64_t step, int64_t batches, double value,
                        double time)
{
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "step_id");
    ebb_jsonw_int(&r->w, step);
    ebb_jsonw_key(&r->w, "batches");
    ebb_jsonw_int(&r->w, step * batches);
    ebb_jsonw_key(&r->w, "value");
    exp_metric_write(&r->w, value);
    ebb_jsonw_key(&r->w, "time");
    exp_time_write(&r->w, time);
    ebb_jsonw_object_end(&r->w);
}

/* All values of a metric, of validations or else of steps. */
static enum ebb_status write_curve(struct serve_rest *r, int64_t trial, const char *metric,
                                   int64_t batches, bool is_validation, size_t *points)
{
    struct exp_db_rows rows;
    bool has_row = true;
    EBB_TRY(exp_db_query(
        r->m->db,
        is_validation
            ? "SELECT step_id, end_time, metrics FROM validations WHERE trial_id = $1 AND state ="
              " 'COMPLETED' ORDER BY step_id"
            : "SELECT id, end_time, metrics FROM steps WHERE trial_id = $1 AND state ="
              " 'COMPLETED' ORDER BY id",
        EXP_DB_ARGS(exp_db_i(trial)), &rows, r->err));
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        struct ebb_arena arena;
        const struct ebb_doc_node *root = NULL;
        struct exp_db_value text = exp_db_column(&rows, 2);
        double value;
        ebb_arena_init(&arena);
        if (text.kind == EXP_DB_TEXT &&
            ebb_doc_parse_json(&arena, "metrics", text.data, text.length, &root, NULL) == EBB_OK) {
            const struct ebb_doc_node *map =
                ebb_doc_get(root, is_validation ? "validation_metrics" : "avg_metrics");
            if (map != NULL && exp_metric_find(map, metric, &value, NULL) == EBB_OK) {
                write_point(r, exp_db_int(&rows, 0), batches, value, exp_db_double(&rows, 1));
                ++*points;
            }
        }
        ebb_arena_fini(&arena);
    }
    exp_db_done(&rows);
    return status;
}

static enum ebb_status write_trial_curve(struct serve_rest *r, int64_t trial, const char *metric,
                                         int64_t batches)
{
    size_t points = 0;
    ebb_jsonw_key(&r->w, "data");
    ebb_jsonw_array(&r->w);
    enum ebb_status status = write_curve(r, trial, metric, batches, true, &points);
    if (status == EBB_OK && points == 0)
        status = write_curve(r, trial, metric, batches, false, &points);
    ebb_jsonw_array_end(&r->w);
    return status;
}

enum ebb_status serve_rest_sample(struct serve_rest *r)
{
    struct searched s;
    struct exp_db_rows rows;
    bool is_there, has_row = true;
    EBB_TRY(read_searched(r, r->id, &s, &is_there));
    if (!is_there)
        return EBB_OK;
    const char *metric = serve_rest_text(r, "metric");
    EBB_TRY(exp_rows_flush(r->m, r->err));
    EBB_TRY(
        exp_db_query(r->m->db,
                     "SELECT id, hparams FROM trials WHERE experiment_id = $1 ORDER BY CASE"
                     " WHEN best_signed IS NULL THEN 1 ELSE 0 END, best_signed, id LIMIT $2",
                     EXP_DB_ARGS(exp_db_i(r->id), exp_db_i(serve_rest_int(r, "max_trials", 10, 1))),
                     &rows, r->err));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "trials");
    ebb_jsonw_array(&r->w);
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        const char *hparams = exp_db_text(&rows, 1);
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key(&r->w, "trial_id");
        ebb_jsonw_int(&r->w, exp_db_int(&rows, 0));
        ebb_jsonw_key(&r->w, "hparams");
        exp_json_raw(&r->w, hparams, strlen(hparams));
        status = write_trial_curve(r, exp_db_int(&rows, 0), metric != NULL ? metric : s.metric,
                                   s.batches_per_step);
        ebb_jsonw_object_end(&r->w);
    }
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    exp_db_done(&rows);
    return status;
}

enum ebb_status serve_rest_snapshot(struct serve_rest *r)
{
    struct searched s;
    struct exp_db_rows rows;
    bool is_there, has_row = true;
    EBB_TRY(read_searched(r, r->id, &s, &is_there));
    if (!is_there)
        return EBB_OK;
    const char *metric = serve_rest_text(r, "metric");
    EBB_TRY(exp_db_query(r->m->db,
                         "SELECT t.id, t.hparams, v.metrics FROM trials t JOIN validations v ON"
                         " v.trial_id = t.id WHERE t.experiment_id = $1 AND v.step_id = $2 AND"
                         " v.state = 'COMPLETED' ORDER BY t.id",
                         EXP_DB_ARGS(exp_db_i(r->id), exp_db_i(serve_rest_int(r, "step", 0, 0))),
                         &rows, r->err));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "trials");
    ebb_jsonw_array(&r->w);
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK) {
        status = exp_db_next(&rows, &has_row, r->err);
        if (status != EBB_OK || !has_row)
            break;
        const struct ebb_doc_node *root = NULL, *map;
        const char *hparams = exp_db_text(&rows, 1);
        struct exp_db_value text = exp_db_column(&rows, 2);
        double value;
        if (ebb_doc_parse_json(r->arena, "metrics", text.data, text.length, &root, NULL) !=
                EBB_OK ||
            (map = ebb_doc_get(root, "validation_metrics")) == NULL ||
            exp_metric_find(map, metric != NULL ? metric : s.metric, &value, NULL) != EBB_OK)
            continue;
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key(&r->w, "trial_id");
        ebb_jsonw_int(&r->w, exp_db_int(&rows, 0));
        ebb_jsonw_key(&r->w, "hparams");
        exp_json_raw(&r->w, hparams, strlen(hparams));
        ebb_jsonw_key(&r->w, "value");
        exp_metric_write(&r->w, value);
        ebb_jsonw_object_end(&r->w);
    }
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    exp_db_done(&rows);
    return status;
}

static enum ebb_status write_series(struct serve_rest *r, int64_t trial, const char *metric)
{
    int64_t experiment = 0;
    struct searched s;
    bool is_there = false;
    EBB_TRY(exp_db_number(r->m->db, "SELECT experiment_id FROM trials WHERE id = $1",
                          EXP_DB_ARGS(exp_db_i(trial)), 0, &experiment, r->err));
    if (experiment == 0)
        return EBB_OK;
    EBB_TRY(read_searched(r, experiment, &s, &is_there));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "trial_id");
    ebb_jsonw_int(&r->w, trial);
    EBB_TRY(write_trial_curve(r, trial, metric != NULL ? metric : s.metric, s.batches_per_step));
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

enum ebb_status serve_rest_time_series(struct serve_rest *r)
{
    const char *ids = serve_rest_text(r, "ids"), *metric = serve_rest_text(r, "metric");
    if (ids == NULL)
        return serve_rest_refuse(r, 400, "ids: missing");
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "trials");
    ebb_jsonw_array(&r->w);
    for (const char *at = ids; *at != '\0';) {
        size_t n = strcspn(at, ",");
        int64_t id = 0;
        char *text = ebb_arena_strndup(r->arena, at, n);
        if (text != NULL && ebb_parse_i64(text, &id))
            EBB_TRY(write_series(r, id, metric));
        else
            serve_rest_bad(r, "ids", ids, "numbers of trials, with commas");
        at += n + (at[n] == ',');
    }
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}
