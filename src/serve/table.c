/* table.c - see table.h. */
#include "serve/table.h"

#include <math.h>
#include <string.h>

#include "base/map.h"

#define COLUMNS_MAX 256

struct making {
    struct serve_rest *r;
    struct serve_table *t;
    const char *only;
    struct ebb_strmap columns;         /* name: number */
    const struct ebb_doc_node **cells; /* of the row at hand; NULL: columns are counted */
};

/* The number of a column; made when it is new. COLUMNS_MAX: one too many. */
static enum ebb_status column_of(struct making *m, const char *name, uint64_t *number)
{
    if (ebb_strmap_get(&m->columns, name, strlen(name), number))
        return EBB_OK;
    *number = m->t->column_count;
    if (*number == COLUMNS_MAX)
        return EBB_OK;
    m->t->columns[m->t->column_count++] = name;
    return ebb_strmap_put(&m->columns, name, strlen(name), *number, m->r->err);
}

/* Parts of mappings have columns of their own. */
static enum ebb_status walk(struct making *m, const char *prefix, const struct ebb_doc_node *map)
{
    for (size_t i = 0; map->kind == EBB_DOC_MAP && i < map->count; i++) {
        const struct ebb_doc_node *value = map->items[i];
        uint64_t column;
        const char *name = prefix[0] == '\0'
                               ? map->keys[i]->text
                               : ebb_arena_printf(m->r->arena, "%s.%s", prefix, map->keys[i]->text);
        if (name == NULL)
            return ebb_no_memory(m->r->err, map->keys[i]->length);
        if (value->kind == EBB_DOC_MAP) {
            EBB_TRY(walk(m, name, value));
            continue;
        }
        if (m->only != NULL && strcmp(m->only, name) != 0)
            continue;
        EBB_TRY(column_of(m, name, &column));
        if (m->cells != NULL && column < COLUMNS_MAX)
            m->cells[column] = value;
    }
    return EBB_OK;
}

/* One member of a mapping, without making a tree of the others; the mapping of it alone comes back.
 * *root NULL: it is a mapping itself, or not there. */
static enum ebb_status read_member(struct making *m, const char *text, struct ebb_doc_node **root)
{
    struct ebb_json json;
    struct ebb_json_event e;
    struct ebb_arena *arena = m->r->arena;
    struct ebb_doc_node *value = NULL;
    size_t want = strlen(m->only);
    ebb_json_init(&json, "hparams", text, strlen(text), EBB_JSON_ONE);
    enum ebb_status status = ebb_json_next(&json, &e, m->r->err);
    while (status == EBB_OK && (status = ebb_json_next(&json, &e, m->r->err)) == EBB_OK &&
           e.kind == EBB_JSON_KEY) {
        bool is_it = e.length == want && memcmp(e.text, m->only, want) == 0;
        status = ebb_json_next(&json, &e, m->r->err);
        if (status == EBB_OK && is_it) {
            value = e.kind == EBB_JSON_STRING
                        ? ebb_doc_new_string(arena, ebb_arena_strndup(arena, e.text, e.length))
                    : e.kind == EBB_JSON_INT    ? ebb_doc_new_int(arena, e.integer)
                    : e.kind == EBB_JSON_NUMBER ? ebb_doc_new_double(arena, e.number)
                    : e.kind == EBB_JSON_BOOL   ? ebb_doc_new_bool(arena, e.boolean)
                                                : NULL;
            break;
        }
        EBB_THEN(status, ebb_json_skip(&json, &e, m->r->err));
    }
    ebb_json_fini(&json);
    *root = value != NULL ? ebb_doc_new(arena, EBB_DOC_MAP) : NULL;
    if (value != NULL && (*root == NULL || !ebb_doc_set(arena, *root, m->only, value)))
        return ebb_no_memory(m->r->err, sizeof *value);
    return status;
}

static enum ebb_status read_hparams(struct making *m, const char *text,
                                    const struct ebb_doc_node **root)
{
    struct ebb_doc_node *one = NULL;
    if (m->only != NULL && strchr(m->only, '.') == NULL)
        EBB_TRY(read_member(m, text, &one));
    *root = one;
    return one != NULL
               ? EBB_OK
               : ebb_doc_parse_json(m->r->arena, "hparams", text, strlen(text), root, m->r->err);
}

static enum ebb_status fill(struct making *m, const struct exp_db_trial_key *keys)
{
    struct serve_table *t = m->t;
    struct ebb_arena *arena = m->r->arena;
    const struct ebb_doc_node **roots = ebb_arena_calloc(arena, t->count + 1, sizeof *roots);
    t->columns = ebb_arena_calloc(arena, COLUMNS_MAX, sizeof *t->columns);
    t->rows = ebb_arena_calloc(arena, t->count + 1, sizeof *t->rows);
    EBB_TRY(ebb_arena_status(arena, m->r->err));
    for (size_t i = 0; i < t->count; i++)
        t->rows[i].key = keys[i];
    if (m->only != NULL && m->only[0] == '\0')
        return EBB_OK;
    for (size_t i = 0; i < t->count; i++) {
        EBB_TRY(read_hparams(m, keys[i].hparams, &roots[i]));
        EBB_TRY(walk(m, "", roots[i]));
    }
    const struct ebb_doc_node **cells =
        ebb_arena_calloc(arena, t->count * t->column_count + 1, sizeof *cells);
    EBB_TRY(ebb_arena_status(arena, m->r->err));
    for (size_t i = 0; i < t->count; i++) {
        m->cells = cells + i * t->column_count;
        t->rows[i].cells = m->cells;
        EBB_TRY(walk(m, "", roots[i]));
    }
    return EBB_OK;
}

/* The searcher's metric stands in the row of the trial. */
static void set_best(struct serve_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        t->rows[i].value =
            isnan(t->rows[i].key.best_signed)
                ? (double)NAN
                : exp_metric_unsigned(t->rows[i].key.best_signed, t->smaller_is_better);
}

/* The metric among those of a validation, for the row of its trial; rows come by trial: *at goes on. */
static void set_found(struct serve_table *t, int64_t trial, const char *metrics, size_t *at)
{
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *root = NULL;
    double value;
    while (*at < t->count && t->rows[*at].key.id < trial)
        ++*at;
    if (*at < t->count && t->rows[*at].key.id == trial && metrics != NULL &&
        ebb_doc_parse_json(&arena, "metrics", metrics, strlen(metrics), &root, NULL) == EBB_OK &&
        exp_metric_find(ebb_doc_get(root, "validation_metrics"), t->metric, &value, NULL) == EBB_OK)
        t->rows[*at].value = value;
    ebb_arena_fini(&arena);
}

static void set_none(struct serve_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        t->rows[i].value = (double)NAN;
}

/* Another metric: of each trial's latest validation. */
static enum ebb_status set_latest(struct serve_rest *r, struct serve_table *t)
{
    struct exp_db_batches row;
    size_t at = 0;
    set_none(t);
    struct exp_db_cursor c = exp_db_validations_of(r->db, EXP_DB_ID(r->id), &row, r->err);
    while (exp_db_fetch(&c))
        set_found(t, row.trial_id, row.metrics, &at);
    return exp_db_end(&c);
}

/* Any metric, of the validation after one step. */
static enum ebb_status set_at(struct serve_rest *r, int64_t step, struct serve_table *t)
{
    struct exp_db_snapshot row;
    struct exp_db_pair which = {.a = r->id, .b = step};
    size_t at = 0;
    set_none(t);
    struct exp_db_cursor c = exp_db_trials_at(r->db, &which, &row, r->err);
    while (exp_db_fetch(&c))
        set_found(t, row.trial_id, row.metrics, &at);
    return exp_db_end(&c);
}

enum ebb_status serve_table_read(struct serve_rest *r, const char *only, struct serve_table *t)
{
    struct exp_db_searched searched;
    struct exp_db_trial_key *keys = NULL;
    struct making m = {.r = r, .t = t, .only = only};
    *t = (struct serve_table){0};
    EBB_TRY(serve_flush(r));
    EBB_TRY(serve_find(r, exp_db_searched_read(r->db, EXP_DB_ID(r->id), &searched, r->err),
                       "no experiment %lld", (long long)r->id));
    const char *metric = serve_query_text(r, "metric");
    bool is_other = metric != NULL && metric[0] != '\0' && strcmp(metric, searched.metric) != 0;
    t->metric = is_other ? metric : searched.metric;
    t->smaller_is_better = searched.smaller_is_better;
    EBB_TRY(exp_db_all(exp_db_trial_keys(r->db, EXP_DB_ID(r->id), NULL, r->err), r->arena, &keys,
                       &t->count));
    ebb_strmap_init(&m.columns);
    enum ebb_status status = fill(&m, keys);
    ebb_strmap_fini(&m.columns);
    EBB_TRY(status);
    int64_t step = serve_query_int(r, "step", 0, 0);
    if (step > 0)
        return set_at(r, step, t);
    if (is_other)
        return set_latest(r, t);
    set_best(t);
    return EBB_OK;
}

/* ---- cells ---- */

double serve_table_number(const struct serve_table *t, size_t row, size_t column)
{
    const struct ebb_doc_node *cell = t->rows[row].cells[column];
    if (cell == NULL || cell->kind == EBB_DOC_NULL)
        return (double)NAN;
    if (cell->kind == EBB_DOC_INT || cell->kind == EBB_DOC_DOUBLE)
        return cell->number;
    if (cell->kind == EBB_DOC_BOOL)
        return cell->boolean;
    if (cell->kind != EBB_DOC_STRING)
        return (double)NAN;
    uint64_t hash =
        14695981039346656037u; /* equal texts, equal numbers: that is all a split needs */
    for (size_t i = 0; i < cell->length; i++)
        hash = (hash ^ (unsigned char)cell->text[i]) * 1099511628211u;
    return (double)(hash >> 11);
}

bool serve_table_varies(const struct serve_table *t, size_t column)
{
    const struct ebb_doc_node *first = NULL;
    for (size_t i = 0; i < t->count; i++) {
        const struct ebb_doc_node *cell = t->rows[i].cells[column];
        if (i > 0 && (cell == NULL) != (first == NULL))
            return true;
        if (i > 0 && cell != NULL && !ebb_doc_equal(cell, first))
            return true;
        first = i == 0 ? cell : first;
    }
    return false;
}
