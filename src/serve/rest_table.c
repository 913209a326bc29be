/* rest_table.c - all trials of an experiment side by side: by page, as points, what matters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "serve/forest.h"
#include "serve/table.h"

#define TRIAL_STATES "ACTIVE COMPLETED CANCELED ERROR"
#define FOREST_SEED 20261116u

/* ---- points: hyperparameters and metric of every trial ---- */

static void write_value(struct ebb_json_writer *w, double value)
{
    if (isnan(value))
        ebb_jsonw_null(w);
    else
        ebb_jsonw_metric(w, value);
}

static void write_names(struct ebb_json_writer *w, const struct serve_table *t, bool only_varying)
{
    ebb_jsonw_array(w);
    for (size_t i = 0; i < t->column_count; i++)
        if (!only_varying || serve_table_varies(t, i))
            ebb_jsonw_string(w, t->columns[i]);
    ebb_jsonw_array_end(w);
}

static void write_cells(struct ebb_json_writer *w, const struct serve_table *t,
                        const struct serve_table_row *row)
{
    ebb_jsonw_array(w);
    for (size_t k = 0; k < t->column_count; k++)
        ebb_doc_write_json(row->cells[k], w);
    ebb_jsonw_array_end(w);
}

static enum ebb_status points(struct serve_rest *r)
{
    struct serve_table t;
    EBB_TRY(serve_table_read(r, NULL, &t));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_string(&r->w, "metric", t.metric);
    ebb_jsonw_key_bool(&r->w, "smaller_is_better", t.smaller_is_better);
    ebb_jsonw_key(&r->w, "names");
    write_names(&r->w, &t, false);
    ebb_jsonw_key(&r->w, "varying");
    write_names(&r->w, &t, true);
    ebb_jsonw_key_array(&r->w, "trials");
    for (size_t i = 0; i < t.count; i++) {
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key_int(&r->w, "id", t.rows[i].key.id);
        ebb_jsonw_key_string(&r->w, "state", t.rows[i].key.state);
        ebb_jsonw_key(&r->w, "value");
        write_value(&r->w, t.rows[i].value);
        ebb_jsonw_key(&r->w, "hparams");
        write_cells(&r->w, &t, &t.rows[i]);
        ebb_jsonw_object_end(&r->w);
    }
    serve_end_list(r);
    return EBB_OK;
}

/* ---- importance ---- */

/* Trials that have a finite metric, columns that vary; a cell that is missing is the least of all. */
static enum ebb_status make_forest(struct serve_rest *r, const struct serve_table *t,
                                   size_t *columns, struct serve_forest *f)
{
    double *cells, *values;
    for (size_t k = 0; k < t->column_count; k++)
        if (serve_table_varies(t, k))
            columns[f->columns++] = k;
    cells = ebb_arena_calloc(r->arena, t->count * f->columns + 1, sizeof *cells);
    values = ebb_arena_calloc(r->arena, t->count + 1, sizeof *values);
    EBB_TRY(ebb_arena_status(r->arena, r->err));
    for (size_t i = 0; i < t->count; i++) {
        if (!isfinite(t->rows[i].value) || fabs(t->rows[i].value) > 1e300)
            continue;
        for (size_t k = 0; k < f->columns; k++) {
            double cell = serve_table_number(t, i, columns[k]);
            cells[f->rows * f->columns + k] = isnan(cell) ? -1e308 : cell;
        }
        values[f->rows++] = t->rows[i].value;
    }
    f->cells = cells;
    f->values = values;
    return EBB_OK;
}

static enum ebb_status importance(struct serve_rest *r)
{
    struct serve_table t;
    struct serve_forest f = {.seed = FOREST_SEED};
    EBB_TRY(serve_table_read(r, NULL, &t));
    size_t *columns = ebb_arena_calloc(r->arena, t.column_count + 1, sizeof *columns);
    double *parts = ebb_arena_calloc(r->arena, t.column_count + 1, sizeof *parts);
    EBB_TRY(ebb_arena_status(r->arena, r->err));
    EBB_TRY(make_forest(r, &t, columns, &f));
    EBB_TRY(serve_forest_importance(r->arena, &f, parts, r->err));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_string(&r->w, "metric", t.metric);
    ebb_jsonw_key_uint(&r->w, "trials", f.rows);
    ebb_jsonw_key_array(&r->w, "importance");
    for (size_t k = 0; k < f.columns; k++) {
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key_string(&r->w, "name", t.columns[columns[k]]);
        ebb_jsonw_key_double(&r->w, "importance", parts[k]);
        ebb_jsonw_object_end(&r->w);
    }
    serve_end_list(r);
    return EBB_OK;
}

/* ---- by page ---- */

struct place {
    size_t row;
    int64_t id;
    double number;
    const char *text; /* NULL: by number */
    bool is_missing;
};

/* Numbers before texts; what is missing comes last, both ways; ties by trial. */
static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->is_missing != y->is_missing)
        return x->is_missing ? 1 : -1;
    if ((x->text == NULL) != (y->text == NULL))
        return x->text == NULL ? -1 : 1;
    int order = x->text != NULL ? strcmp(x->text, y->text)
                                : (x->number > y->number) - (x->number < y->number);
    return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

static struct place place_of(const struct serve_table *t, size_t i, const char *sort, size_t column)
{
    const struct exp_db_trial_key *k = &t->rows[i].key;
    struct place p = {.row = i, .id = k->id};
    const struct ebb_doc_node *cell = column != SIZE_MAX ? t->rows[i].cells[column] : NULL;
    if (column != SIZE_MAX) {
        p.number = serve_table_number(t, i, column);
        p.text = cell != NULL && cell->kind == EBB_DOC_STRING ? cell->text : NULL;
    } else if (strcmp(sort, "state") == 0) {
        p.text = k->state;
    } else {
        p.number = strcmp(sort, "start_time") == 0          ? k->start_time
                   : strcmp(sort, "end_time") == 0          ? k->end_time
                   : strcmp(sort, "steps") == 0             ? (double)k->steps
                   : strcmp(sort, "restarts") == 0          ? (double)k->restarts
                   : strcmp(sort, "metric") == 0            ? t->rows[i].value
                   : strcmp(sort, "best_validation") == 0   ? k->best_signed
                   : strcmp(sort, "latest_validation") == 0 ? k->latest_signed
                                                            : (double)k->id;
        if (!t->smaller_is_better && strstr(sort, "_validation") != NULL)
            p.number = -p.number; /* rows have the sign turned */
    }
    p.is_missing = p.text == NULL && isnan(p.number);
    return p;
}

static enum ebb_status find_column(struct serve_rest *r, const struct serve_table *t,
                                   const char *sort, size_t *column)
{
    static const char *const names[] = {"id",      "state",  "start_time",      "end_time",
                                        "steps",   "metric", "best_validation", "latest_validation",
                                        "restarts"};
    *column = SIZE_MAX;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], sort) == 0)
            return EBB_OK;
    for (size_t i = 0; strncmp(sort, "hparams.", 8) == 0 && i < t->column_count; i++)
        if (strcmp(t->columns[i], sort + 8) == 0) {
            *column = i;
            return EBB_OK;
        }
    return serve_refuse(r, 400,
                        "sort: found '%.80s', allowed: id, state, start_time, end_time, steps, "
                        "restarts, metric, best_validation, latest_validation, hparams.NAME",
                        sort);
}

static bool is_state(const char *list, const char *state)
{
    size_t n = strlen(state);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, state, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    }
    return list == NULL || list[0] == '\0';
}

/* A misspelt state is no state that nobody is in. */
static void check_states(struct serve_rest *r, const char *list)
{
    for (const char *at = list; at != NULL && *at != '\0';) {
        size_t n = strcspn(at, ",");
        char *name = ebb_arena_strndup(r->arena, at, n);
        if (name != NULL && n > 0 && !ebb_words_find(TRIAL_STATES, name, n, NULL))
            serve_query_bad(r, "state", name, "ACTIVE, COMPLETED, CANCELED, ERROR");
        at += n + (at[n] == ',');
    }
}

enum ebb_status serve_trials_page(struct serve_rest *r, struct serve_page_of *page)
{
    struct serve_table t;
    const char *sort = serve_query_text(r, "sort"), *states = serve_query_text(r, "state");
    int64_t limit = serve_query_int(r, "limit", 100, 0),
            offset = serve_query_int(r, "offset", 0, 0);
    bool is_down = sort != NULL && sort[0] == '-';
    size_t column, n = 0;
    sort = sort == NULL || sort[0] == '\0' ? "id" : sort + is_down;
    check_states(r, states);
    EBB_TRY(serve_table_read(r, strncmp(sort, "hparams.", 8) == 0 ? sort + 8 : "", &t));
    EBB_TRY(find_column(r, &t, sort, &column));
    struct place *places = ebb_arena_calloc(r->arena, t.count + 1, sizeof *places);
    page->ids = ebb_arena_calloc(r->arena, t.count + 1, sizeof *page->ids);
    page->values = ebb_arena_calloc(r->arena, t.count + 1, sizeof *page->values);
    EBB_TRY(ebb_arena_status(r->arena, r->err));
    for (size_t i = 0; i < t.count; i++)
        if (is_state(states, t.rows[i].key.state))
            places[n++] = place_of(&t, i, sort, column);
    qsort(places, n, sizeof *places, by_place);
    size_t present = 0;
    while (present < n && !places[present].is_missing)
        present++;
    for (int64_t i = offset; i < (int64_t)n && i - offset < limit; i++) {
        size_t at = is_down && (size_t)i < present ? present - 1 - (size_t)i : (size_t)i;
        page->ids[page->count] = places[at].id;
        page->values[page->count++] = t.rows[places[at].row].value;
    }
    page->total = (int64_t)n;
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"GET", "/experiments/#/points", points, "hyperparameters and metric of every trial",
     SERVE_APART},
    {"GET", "/experiments/#/importance", importance, "which hyperparameters matter", SERVE_APART},
};
const struct serve_routes serve_routes_table = SERVE_ROUTES(routes);
