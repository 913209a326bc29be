/* filter.c - lists of experiments: the one query whose text depends on what is asked. */
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "exp/db/driver.h"

#define ARGS (EXP_DB_FILTER_STATES + 2 * EXP_DB_FILTER_NAMES + 3)

struct asked {
    struct ebb_str sql, description, labels[EXP_DB_FILTER_NAMES];
    struct exp_db_value args[ARGS];
    size_t count;
    bool has_where;
};

bool exp_db_is_sort(const char *name)
{
    static const char *const columns[] = {"id",       "description", "state", "start_time",
                                          "end_time", "progress",    "owner"};
    return ebb_name_index(name, columns, sizeof columns / sizeof *columns) >= 0;
}

static struct exp_db_value text(const char *value)
{
    return (struct exp_db_value){.kind = EXP_DB_TEXT, .data = value, .length = strlen(value)};
}

static struct exp_db_value integer(int64_t value)
{
    return (struct exp_db_value){.kind = EXP_DB_INT, .integer = value};
}

static bool is_any(const char *text)
{
    return text == NULL || text[0] == '\0';
}

static void condition(struct asked *q, const char *what)
{
    ebb_str_printf(&q->sql, "%s%s", q->has_where ? " AND " : " WHERE ", what);
    q->has_where = true;
}

static void argument(struct asked *q, const char *before, struct exp_db_value value,
                     const char *after)
{
    q->args[q->count++] = value;
    ebb_str_printf(&q->sql, "%s$%zu%s", before, q->count, after);
}

/* A part of a text; % and _ stand for themselves. */
static void like(struct asked *q, const char *column, struct ebb_str *pattern, const char *part)
{
    if (is_any(part))
        return;
    ebb_str_addc(pattern, '%');
    for (; *part != '\0'; part++) {
        if (strchr("%_\\", *part) != NULL)
            ebb_str_addc(pattern, '\\');
        ebb_str_addc(pattern, *part);
    }
    ebb_str_addc(pattern, '%');
    condition(q, column);
    argument(q, " LIKE ", text(ebb_str_c(pattern)), " ESCAPE '\\'");
}

/* A label is whole, and as it was written: LIKE would take capitals for small letters. */
static void has_label(struct asked *q, struct ebb_str *quoted, const char *label)
{
    struct ebb_json_writer w;
    if (is_any(label))
        return;
    ebb_jsonw_init(&w, quoted, 0);
    ebb_jsonw_string(&w, label); /* as it stands in the list */
    condition(q, "");
    argument(q, "REPLACE(labels, ", text(ebb_str_c(quoted)), ", '') <> labels");
}

static void one_of(struct asked *q, const char *begin, const char *const *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i == 0)
            condition(q, begin);
        argument(q, i > 0 ? ", " : "", text(values[i]), "");
    }
    if (count > 0)
        ebb_str_addc(&q->sql, ')');
}

static void conditions(struct asked *q, const struct exp_db_filter *f)
{
    one_of(q, "state IN (", f->states, f->state_count);
    if (f->is_archived != f->is_unarchived)
        condition(q, f->is_archived ? "archived = 1" : "archived = 0");
    one_of(q, "owner IN (", f->owners, f->owner_count);
    like(q, "description", &q->description, f->description);
    for (size_t i = 0; i < f->label_count; i++)
        has_label(q, &q->labels[i], f->labels[i]);
}

/* Ties by number, in the same direction: as the indexes have it. */
static void order(struct asked *q, const struct exp_db_filter *f)
{
    const char *way = is_any(f->sort) || f->is_descending ? " DESC" : "";
    ebb_str_add(&q->sql, " ORDER BY ");
    if (!is_any(f->sort))
        ebb_str_printf(&q->sql, "%s%s, ", f->sort, way);
    ebb_str_printf(&q->sql, "id%s", way);
}

static struct exp_db_cursor ask(struct exp_db *db, const struct exp_db_filter *f, bool is_count,
                                void *row, struct ebb_error *err)
{
    struct asked q = {0};
    if (is_count) {
        ebb_str_add(&q.sql, "SELECT COUNT(*) FROM experiments");
        conditions(&q, f);
    } else { /* which, from indexes alone; then their rows */
        ebb_str_add(&q.sql, "SELECT ");
        exp_db_columns(&exp_db_experiment_shape, &q.sql);
        ebb_str_add(&q.sql, " FROM experiments WHERE id IN (SELECT id FROM experiments");
        conditions(&q, f);
        order(&q, f);
        argument(&q, " LIMIT ", integer(f->limit), "");
        argument(&q, " OFFSET ", integer(f->offset), ")");
        order(&q, f);
    }
    struct exp_db_cursor c = {.db = db, .shape = &exp_db_id_shape, .err = err};
    c.status = ebb_str_status(&q.sql, err);
    if (c.status == EBB_OK)
        c = exp_db_ask(db, ebb_str_c(&q.sql), q.args, q.count,
                       is_count ? &exp_db_id_shape : &exp_db_experiment_shape, row, err);
    ebb_str_fini(&q.sql);
    ebb_str_fini(&q.description);
    for (size_t i = 0; i < EXP_DB_FILTER_NAMES; i++)
        ebb_str_fini(&q.labels[i]);
    return c;
}

struct exp_db_cursor exp_db_experiments(struct exp_db *db, const struct exp_db_filter *filter,
                                        struct exp_db_experiment *row, struct ebb_error *err)
{
    return ask(db, filter, false, row, err);
}

struct exp_db_cursor exp_db_experiments_count(struct exp_db *db, const struct exp_db_filter *filter,
                                              struct exp_db_id *count, struct ebb_error *err)
{
    return ask(db, filter, true, count, err);
}
