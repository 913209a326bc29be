/* rest_metrics.c - curves and comparisons: what the charts of an experiment are drawn from. */
#include <string.h>

#include "base/map.h"
#include "serve/rest.h"

struct searched { /* of an experiment */
    const char *metric;
    bool smaller_is_better;
    int64_t batches_per_step;
};

static enum ebb_status read_searched(struct serve_rest *r, int64_t id, struct searched *s)
{
    struct exp_db_searched row;
    const struct ebb_doc_node *root = NULL;
    EBB_TRY(serve_find(r, exp_db_searched_read(r->db, EXP_DB_ID(id), &row, r->err),
                       "no experiment %lld", (long long)id));
    EBB_TRY(ebb_doc_parse_json(r->arena, "config", row.config, strlen(row.config), &root, r->err));
    *s = (struct searched){.metric = row.metric,
                           .smaller_is_better = row.smaller_is_better,
                           .batches_per_step = ebb_doc_int(root, "batches_per_step", 100)};
    return EBB_OK;
}

/* The metric that is asked for, or the searcher's. */
static const char *metric_of(struct serve_rest *r, const struct searched *s)
{
    const char *metric = serve_query_text(r, "metric");
    return metric != NULL ? metric : s->metric;
}

static enum ebb_status history(struct serve_rest *r)
{
    struct searched s;
    struct exp_db_best row;
    EBB_TRY(read_searched(r, r->id, &s));
    serve_begin_list(r, "validation_history");
    struct exp_db_cursor c = exp_db_history(r->db, EXP_DB_ID(r->id), &row, r->err);
    while (exp_db_fetch(&c)) {
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key_int(&r->w, "trial_id", row.trial_id);
        ebb_jsonw_key_int(&r->w, "step_id", row.step_id);
        serve_key_time(&r->w, "end_time", row.end_time);
        ebb_jsonw_key(&r->w, "metric");
        ebb_jsonw_metric(&r->w, exp_metric_unsigned(row.signed_metric, s.smaller_is_better));
        ebb_jsonw_object_end(&r->w);
    }
    serve_end_list(r);
    return exp_db_end(&c);
}

/* ---- names ---- */

/* A mapping inside metrics that are JSON text; NULL = there is none. */
static const struct ebb_doc_node *inner_of(struct ebb_arena *arena, const char *text,
                                           const char *inner)
{
    const struct ebb_doc_node *root = NULL;
    if (text == NULL ||
        ebb_doc_parse_json(arena, "metrics", text, strlen(text), &root, NULL) != EBB_OK)
        return NULL;
    const struct ebb_doc_node *map = ebb_doc_get(root, inner);
    return map != NULL && map->kind == EBB_DOC_MAP ? map : NULL;
}

/* Names in rows of metrics; `inner` is the mapping that holds them. */
static enum ebb_status write_names(struct serve_rest *r, struct exp_db_cursor c,
                                   const struct exp_db_name *row, const char *inner)
{
    struct ebb_strmap seen;
    ebb_strmap_init(&seen);
    ebb_jsonw_array(&r->w);
    while (exp_db_fetch(&c)) {
        const struct ebb_doc_node *map = inner_of(r->arena, row->name, inner);
        for (size_t i = 0; c.status == EBB_OK && map != NULL && i < map->count; i++) {
            const struct ebb_doc_node *key = map->keys[i];
            if (ebb_strmap_get(&seen, key->text, key->length, NULL))
                continue;
            ebb_jsonw_string(&r->w, key->text);
            c.status = ebb_strmap_put(&seen, key->text, key->length, 1, r->err);
        }
    }
    ebb_jsonw_array_end(&r->w);
    ebb_strmap_fini(&seen);
    return exp_db_end(&c);
}

static enum ebb_status names(struct serve_rest *r)
{
    struct searched s;
    struct exp_db_name row;
    const struct exp_db_id *id = EXP_DB_ID(r->id);
    EBB_TRY(read_searched(r, r->id, &s));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_string(&r->w, "searcher_metric", s.metric);
    ebb_jsonw_key(&r->w, "training");
    EBB_TRY(write_names(r, exp_db_steps_newest(r->db, id, &row, r->err), &row, "avg_metrics"));
    ebb_jsonw_key(&r->w, "validation");
    EBB_TRY(write_names(r, exp_db_validations_newest(r->db, id, &row, r->err), &row,
                        "validation_metrics"));
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

/* ---- curves ---- */

/* All values of a metric in rows whose metrics stand in `inner`. */
static enum ebb_status write_points(struct serve_rest *r, struct exp_db_cursor c,
                                    const struct exp_db_point *row, const char *inner,
                                    const char *metric, int64_t batches, size_t *count)
{
    while (exp_db_fetch(&c)) {
        struct ebb_arena arena = {0};
        double value;
        const struct ebb_doc_node *map = inner_of(&arena, row->metrics, inner);
        if (map != NULL && exp_metric_find(map, metric, &value, NULL) == EBB_OK) {
            ebb_jsonw_object(&r->w);
            ebb_jsonw_key_int(&r->w, "step_id", row->step_id);
            ebb_jsonw_key_int(&r->w, "batches", row->step_id * batches);
            ebb_jsonw_key(&r->w, "value");
            ebb_jsonw_metric(&r->w, value);
            serve_key_time(&r->w, "time", row->end_time);
            ebb_jsonw_object_end(&r->w);
            ++*count;
        }
        ebb_arena_fini(&arena);
    }
    return exp_db_end(&c);
}

/* Of validations, or else of steps. */
static enum ebb_status write_curve(struct serve_rest *r, int64_t trial, const char *metric,
                                   int64_t batches)
{
    size_t count = 0;
    struct exp_db_point row;
    const struct exp_db_id *id = EXP_DB_ID(trial);
    ebb_jsonw_key_array(&r->w, "data");
    EBB_TRY(write_points(r, exp_db_validations_curve(r->db, id, &row, r->err), &row,
                         "validation_metrics", metric, batches, &count));
    if (count == 0)
        EBB_TRY(write_points(r, exp_db_steps_curve(r->db, id, &row, r->err), &row, "avg_metrics",
                             metric, batches, &count));
    ebb_jsonw_array_end(&r->w);
    return EBB_OK;
}

static enum ebb_status sample(struct serve_rest *r)
{
    struct searched s;
    struct exp_db_pair asked = {.a = r->id, .b = serve_query_int(r, "max_trials", 10, 1)};
    struct exp_db_trial_shown row;
    EBB_TRY(read_searched(r, r->id, &s));
    EBB_TRY(serve_flush(r));
    serve_begin_list(r, "trials");
    struct exp_db_cursor c = exp_db_trials_best(r->db, &asked, &row, r->err);
    while (exp_db_fetch(&c)) {
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key_int(&r->w, "trial_id", row.id);
        serve_key_raw(&r->w, "hparams", row.hparams);
        c.status = write_curve(r, row.id, metric_of(r, &s), s.batches_per_step);
        ebb_jsonw_object_end(&r->w);
    }
    serve_end_list(r);
    return exp_db_end(&c);
}

static enum ebb_status snapshot(struct serve_rest *r)
{
    struct searched s;
    struct exp_db_pair asked = {.a = r->id, .b = serve_query_int(r, "step", 0, 0)};
    struct exp_db_snapshot row;
    EBB_TRY(read_searched(r, r->id, &s));
    const char *metric = metric_of(r, &s);
    serve_begin_list(r, "trials");
    struct exp_db_cursor c = exp_db_trials_at(r->db, &asked, &row, r->err);
    while (exp_db_fetch(&c)) {
        const struct ebb_doc_node *map = inner_of(r->arena, row.metrics, "validation_metrics");
        double value;
        if (map == NULL || exp_metric_find(map, metric, &value, NULL) != EBB_OK)
            continue;
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key_int(&r->w, "trial_id", row.trial_id);
        serve_key_raw(&r->w, "hparams", row.hparams);
        ebb_jsonw_key(&r->w, "value");
        ebb_jsonw_metric(&r->w, value);
        ebb_jsonw_object_end(&r->w);
    }
    serve_end_list(r);
    return exp_db_end(&c);
}

static enum ebb_status write_series(struct serve_rest *r, int64_t trial)
{
    struct exp_db_id experiment = {0};
    struct searched s;
    EBB_TRY(exp_db_only(exp_db_trial_experiment(r->db, EXP_DB_ID(trial), &experiment, r->err), NULL,
                        NULL));
    if (experiment.id == 0)
        return EBB_OK;
    EBB_TRY(read_searched(r, experiment.id, &s));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_int(&r->w, "trial_id", trial);
    EBB_TRY(write_curve(r, trial, metric_of(r, &s), s.batches_per_step));
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static enum ebb_status time_series(struct serve_rest *r)
{
    const char *ids = serve_query_text(r, "ids");
    if (ids == NULL)
        return serve_refuse(r, 400, "ids: missing");
    serve_begin_list(r, "trials");
    for (const char *at = ids; *at != '\0';) {
        size_t n = strcspn(at, ",");
        int64_t id = 0;
        char *text = ebb_arena_strndup(r->arena, at, n);
        if (text != NULL && ebb_parse_i64(text, &id))
            EBB_TRY(write_series(r, id));
        else
            serve_query_bad(r, "ids", ids, "numbers of trials, with commas");
        at += n + (at[n] == ',');
    }
    serve_end_list(r);
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"GET", "/experiments/#/validation-history", history, "each new best validation", SERVE_APART},
    {"GET", "/experiments/#/metric-names", names, "names of metrics", SERVE_APART},
    {"GET", "/experiments/#/trials-sample", sample, "curves of the best trials", SERVE_APART},
    {"GET", "/experiments/#/trials-snapshot", snapshot, "all trials at one step", SERVE_APART},
    {"GET", "/trials/time-series", time_series, "curves of given trials", SERVE_APART},
};
const struct serve_routes serve_routes_metrics = SERVE_ROUTES(routes);
