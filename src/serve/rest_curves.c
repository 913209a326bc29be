/* rest_curves.c - curves for charts: thinned here, so that a thousand of them fit a screen.
 *
 * A curve is cut into buckets, and of each bucket the least and the greatest value stay: no peak is
 * lost. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "serve/rest.h"

#define POINTS 400
#define TRIALS 100

struct point {
    int64_t step;
    double time, value;
};

struct curve {
    struct point *items;
    size_t count, capacity;
};

struct asked {
    const char *metric;
    bool is_training, is_searched, smaller_is_better;
    int64_t points, batches_per_step;
    double since;             /* only what ended later */
    bool has_times, is_rough; /* rough: four digits are enough for a line among thousands */
};

static enum ebb_status add(struct serve_rest *r, struct curve *c, struct point p)
{
    if (c->count == c->capacity) {
        size_t more = c->capacity > 0 ? 2 * c->capacity : 64;
        struct point *items = ebb_arena_alloc(r->arena, more * sizeof *items);
        if (items == NULL)
            return ebb_no_memory(r->err, more * sizeof *items);
        if (c->count > 0)
            memcpy(items, c->items, c->count * sizeof *items);
        c->items = items;
        c->capacity = more;
    }
    c->items[c->count++] = p;
    return EBB_OK;
}

/* Rows come with the newest first, and reading ends where nothing new is left.
 *
 * The searcher's metric has a column of its own. */
static enum ebb_status read_searched(struct serve_rest *r, int64_t trial, const struct asked *a,
                                     struct curve *out)
{
    struct exp_db_signed_point row;
    struct exp_db_cursor c = exp_db_signed_back(r->db, EXP_DB_ID(trial), &row, r->err);
    while (exp_db_fetch(&c) && row.end_time > a->since)
        c.status =
            add(r, out,
                (struct point){row.step_id, row.end_time,
                               exp_metric_unsigned(row.signed_metric, a->smaller_is_better)});
    return exp_db_end(&c);
}

static enum ebb_status read_rows(struct serve_rest *r, int64_t trial, const struct asked *a,
                                 struct curve *out)
{
    struct exp_db_point row;
    const char *inner = a->is_training ? "avg_metrics" : "validation_metrics";
    struct exp_db_cursor c = a->is_training
                                 ? exp_db_steps_back(r->db, EXP_DB_ID(trial), &row, r->err)
                                 : exp_db_validations_back(r->db, EXP_DB_ID(trial), &row, r->err);
    while (exp_db_fetch(&c) && row.end_time > a->since) {
        struct ebb_arena arena = {0};
        const struct ebb_doc_node *root = NULL;
        double value;
        if (row.metrics != NULL &&
            ebb_doc_parse_json(&arena, "metrics", row.metrics, strlen(row.metrics), &root, NULL) ==
                EBB_OK &&
            exp_metric_find(ebb_doc_get(root, inner), a->metric, &value, NULL) == EBB_OK)
            c.status = add(r, out, (struct point){row.step_id, row.end_time, value});
        ebb_arena_fini(&arena);
    }
    return exp_db_end(&c);
}

static void turn_round(struct curve *c)
{
    for (size_t i = 0; i < c->count / 2; i++) {
        struct point p = c->items[i];
        c->items[i] = c->items[c->count - 1 - i];
        c->items[c->count - 1 - i] = p;
    }
}

/* The least and the greatest of each bucket, in the order of steps; both ends stay. */
static void thin(struct curve *c, int64_t points)
{
    size_t n = c->count, buckets = (size_t)points / 2, kept = 1;
    if (points < 4 || n <= (size_t)points)
        return;
    buckets -= 1; /* the ends */
    for (size_t b = 0; b < buckets; b++) {
        size_t from = 1 + b * (n - 2) / buckets, to = 1 + (b + 1) * (n - 2) / buckets;
        size_t low = from, high = from;
        for (size_t i = from; i < to; i++) {
            if (c->items[i].value < c->items[low].value || isnan(c->items[low].value))
                low = i;
            if (c->items[i].value > c->items[high].value || isnan(c->items[high].value))
                high = i;
        }
        struct point first = c->items[low < high ? low : high];
        struct point second = c->items[low < high ? high : low];
        if (from < to)
            c->items[kept++] = first;
        if (from < to && low != high)
            c->items[kept++] = second;
    }
    c->items[kept++] = c->items[n - 1];
    c->count = kept;
}

static void write_value(struct ebb_json_writer *w, double value, bool is_rough)
{
    char text[32];
    if (!is_rough || !isfinite(value) || fabs(value) > 1e300) {
        ebb_jsonw_metric(w, value);
        return;
    }
    int n = snprintf(text, sizeof text, "%.4g", value);
    ebb_jsonw_raw(w, text, (size_t)n);
}

static void write_points(struct serve_rest *r, int64_t trial, const struct asked *a, struct curve c)
{
    size_t all = c.count;
    thin(&c, a->points);
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_int(&r->w, "trial_id", trial);
    ebb_jsonw_key_uint(&r->w, "count", all);
    ebb_jsonw_key_array(&r->w, "batches");
    for (size_t i = 0; i < c.count; i++)
        ebb_jsonw_int(&r->w, c.items[i].step * a->batches_per_step);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_array(&r->w, "values");
    for (size_t i = 0; i < c.count; i++)
        write_value(&r->w, c.items[i].value, a->is_rough);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_array(&r->w, "times");
    for (size_t i = 0; a->has_times && i < c.count; i++)
        ebb_jsonw_double(&r->w, round(c.items[i].time * 1e3) / 1e3);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
}

static enum ebb_status write_curve(struct serve_rest *r, int64_t trial, const struct asked *a)
{
    struct curve c = {0};
    bool has_column = a->is_searched && !a->is_training;
    EBB_TRY(has_column ? read_searched(r, trial, a, &c) : read_rows(r, trial, a, &c));
    turn_round(&c);
    write_points(r, trial, a, c);
    return EBB_OK;
}

/* Few points of many trials: as they are kept. */
static enum ebb_status write_kept(struct serve_rest *r, const struct exp_db_pair *most,
                                  const struct asked *a)
{
    struct exp_db_id *ids = NULL;
    size_t count = 0;
    EBB_TRY(exp_db_all(exp_db_trials_best_ids(r->db, most, NULL, r->err), r->arena, &ids, &count));
    for (size_t k = 0; k < count; k++) {
        struct exp_db_curve_point kept[4 * EXP_DB_CURVE_POINTS];
        struct point points[4 * EXP_DB_CURVE_POINTS];
        struct curve c = {.items = points, .capacity = 4 * EXP_DB_CURVE_POINTS};
        struct exp_db_blob row;
        struct exp_db_cursor one = exp_db_curve_bytes(r->db, &ids[k], &row, r->err);
        if (exp_db_fetch(&one))
            c.count = exp_db_curve_read(row.bytes, kept, c.capacity);
        for (size_t i = 0; i < c.count; i++)
            points[i] = (struct point){kept[i].step, kept[i].time,
                                       exp_metric_unsigned(kept[i].value, a->smaller_is_better)};
        if (c.count > 0)
            write_points(r, ids[k].id, a, c);
        EBB_TRY(exp_db_end(&one));
    }
    return EBB_OK;
}

/* ---- which ---- */

static enum ebb_status read_asked(struct serve_rest *r, int64_t experiment, struct asked *a)
{
    struct exp_db_searched row;
    const struct ebb_doc_node *root = NULL;
    const char *metric = serve_query_text(r, "metric"), *kind = serve_query_text(r, "kind");
    EBB_TRY(serve_find(r, exp_db_searched_read(r->db, EXP_DB_ID(experiment), &row, r->err),
                       "no experiment %lld", (long long)experiment));
    EBB_TRY(ebb_doc_parse_json(r->arena, "config", row.config, strlen(row.config), &root, r->err));
    *a = (struct asked){.metric = metric != NULL && metric[0] != '\0' ? metric : row.metric,
                        .is_training = kind != NULL && strcmp(kind, "training") == 0,
                        .smaller_is_better = row.smaller_is_better,
                        .points = serve_query_int(r, "points", POINTS, 4),
                        .batches_per_step = ebb_doc_int(root, "batches_per_step", 100),
                        .since = serve_query_double(r, "since", -INFINITY),
                        .has_times = serve_query_int(r, "times", 1, 0) != 0};
    a->is_rough = a->points <= EXP_DB_CURVE_POINTS;
    a->is_searched = strcmp(a->metric, row.metric) == 0;
    if (kind != NULL && !a->is_training && strcmp(kind, "validation") != 0)
        serve_query_bad(r, "kind", kind, "training or validation");
    return EBB_OK;
}

static void begin(struct serve_rest *r, const struct asked *a)
{
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_string(&r->w, "metric", a->metric);
    ebb_jsonw_key_bool(&r->w, "smaller_is_better", a->smaller_is_better);
    ebb_jsonw_key_int(&r->w, "batches_per_step", a->batches_per_step);
    ebb_jsonw_key_array(&r->w, "curves");
}

static enum ebb_status of_experiment(struct serve_rest *r)
{
    struct asked a;
    struct exp_db_pair most = {.a = r->id, .b = serve_query_int(r, "max_trials", TRIALS, 1)};
    struct exp_db_trial_shown row;
    EBB_TRY(serve_flush(r));
    EBB_TRY(read_asked(r, r->id, &a));
    begin(r, &a);
    if (a.is_searched && !a.is_training && a.points <= EXP_DB_CURVE_POINTS && isinf(a.since)) {
        EBB_TRY(write_kept(r, &most, &a));
        serve_end_list(r);
        return EBB_OK;
    }
    struct exp_db_cursor c = exp_db_trials_best(r->db, &most, &row, r->err);
    while (exp_db_fetch(&c))
        c.status = write_curve(r, row.id, &a);
    serve_end_list(r);
    return exp_db_end(&c);
}

static enum ebb_status of_trials(struct serve_rest *r)
{
    const char *ids = serve_query_text(r, "trials");
    struct asked a;
    bool is_begun = false;
    if (ids == NULL || ids[0] == '\0')
        return serve_refuse(r, 400, "trials: missing, allowed: numbers of trials, with commas");
    for (const char *at = ids; *at != '\0';) {
        size_t n = strcspn(at, ",");
        int64_t id = 0;
        struct exp_db_id experiment = {0};
        char *text = ebb_arena_strndup(r->arena, at, n);
        if (text == NULL || !ebb_parse_i64(text, &id))
            return serve_refuse(r, 400, "trials: found '%.80s', allowed: numbers, with commas",
                                ids);
        EBB_TRY(serve_find(r, exp_db_trial_experiment(r->db, EXP_DB_ID(id), &experiment, r->err),
                           "no trial %lld", (long long)id));
        EBB_TRY(read_asked(r, experiment.id, &a));
        if (!is_begun)
            begin(r, &a);
        is_begun = true;
        EBB_TRY(write_curve(r, id, &a));
        at += n + (at[n] == ',');
    }
    serve_end_list(r);
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"GET", "/experiments/#/curves", of_experiment, "curves of its best trials, thinned",
     SERVE_APART},
    {"GET", "/curves", of_trials, "curves of given trials, thinned", SERVE_APART},
};
const struct serve_routes serve_routes_curves = SERVE_ROUTES(routes);
