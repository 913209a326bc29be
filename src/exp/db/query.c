/* query.c - typed queries: structs bound to parameters, rows filled into structs. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"
#include "exp/db/driver.h"

struct query {
    const char *sql;
    const struct exp_db_shape *in, *out;
};

/* ---- tables of structs and statements ---- */

#define FIELD(T, kind, name) {#name, EXP_DB_##kind, offsetof(struct T, name)},
#define SHAPE(type, FIELDS)                                                                        \
    static const struct exp_db_field type##_fields[] = {FIELDS(FIELD, type)};                      \
    const struct exp_db_shape type##_shape = {                                                     \
        type##_fields, sizeof type##_fields / sizeof *type##_fields, sizeof(struct type)};
EXP_DB_STRUCTS(SHAPE)
static const struct exp_db_shape exp_db_none_shape = {0};

#define READ(function, in, out, sql) [function##_query] = {sql, &in##_shape, &out##_shape},
#define WRITE(function, in, sql) [function##_query] = {sql, &in##_shape, NULL},
static const struct query queries[] = {EXP_DB_QUERIES(READ, WRITE)};
#undef READ
#undef WRITE

/* ---- texts ---- */

void exp_db_columns(const struct exp_db_shape *shape, struct ebb_str *out)
{
    for (size_t i = 0; i < shape->count; i++)
        ebb_str_printf(out, "%s%s", i > 0 ? ", " : "", shape->fields[i].name);
}

/* The text of a statement, its signs replaced: queries.h says by what. */
static void expand(const struct query *q, struct ebb_str *out)
{
    for (const char *at = q->sql; *at != '\0'; at++) {
        if (*at == '@')
            exp_db_columns(q->out != NULL ? q->out : q->in, out);
        else if (*at == '#')
            for (size_t i = 0; i < q->in->count; i++)
                ebb_str_printf(out, "%s$%zu", i > 0 ? ", " : "", i + 1);
        else if (*at == '&')
            for (size_t i = 1; i < q->in->count; i++)
                ebb_str_printf(out, "%s%s = $%zu", i > 1 ? ", " : "", q->in->fields[i].name, i + 1);
        else
            ebb_str_addc(out, *at);
    }
}

static enum ebb_status prepare(struct exp_db *db, const struct query *q, void **statement,
                               struct ebb_error *err)
{
    struct ebb_str text = {0};
    expand(q, &text);
    enum ebb_status status = ebb_str_status(&text, err);
    EBB_THEN(status, db->driver->prepare(db->connection, ebb_str_c(&text), statement, err));
    ebb_str_fini(&text);
    return status;
}

/* ---- values ---- */

static struct exp_db_value value_of(const struct exp_db_field *f, const void *from)
{
    const char *at = (const char *)from + f->offset;
    struct exp_db_value v = {.kind = f->kind};
    switch (f->kind) {
    case EXP_DB_INT:
        memcpy(&v.integer, at, sizeof v.integer);
        v.kind = v.integer == EXP_DB_NO_INT ? EXP_DB_NULL : EXP_DB_INT;
        break;
    case EXP_DB_BOOL:
        v.integer = *(const bool *)at;
        v.kind = EXP_DB_INT;
        break;
    case EXP_DB_DOUBLE:
        memcpy(&v.number, at, sizeof v.number);
        v.kind = isnan(v.number) ? EXP_DB_NULL : EXP_DB_DOUBLE;
        break;
    case EXP_DB_TEXT:
        memcpy(&v.data, at, sizeof v.data);
        v.length = v.data != NULL ? strlen(v.data) : 0;
        break;
    case EXP_DB_BLOB:
        v.data = ((const struct exp_db_bytes *)(const void *)at)->data;
        v.length = ((const struct exp_db_bytes *)(const void *)at)->length;
        break;
    case EXP_DB_NULL:
        break;
    }
    if ((f->kind == EXP_DB_TEXT || f->kind == EXP_DB_BLOB) && v.data == NULL)
        v.kind = EXP_DB_NULL;
    return v;
}

static void put_value(const struct exp_db_field *f, const struct exp_db_value *v, void *into)
{
    char *at = (char *)into + f->offset;
    bool is_null = v->kind == EXP_DB_NULL;
    int64_t integer = v->kind == EXP_DB_DOUBLE ? (int64_t)v->number : v->integer;
    double number = is_null ? (double)NAN : v->number;
    switch (f->kind) {
    case EXP_DB_INT:
        integer = is_null ? EXP_DB_NO_INT : integer;
        memcpy(at, &integer, sizeof integer);
        break;
    case EXP_DB_BOOL:
        *(bool *)at = integer != 0;
        break;
    case EXP_DB_DOUBLE:
        memcpy(at, &number, sizeof number);
        break;
    case EXP_DB_TEXT:
        memcpy(at, &v->data, sizeof v->data);
        break;
    case EXP_DB_BLOB:
        *(struct exp_db_bytes *)(void *)at = (struct exp_db_bytes){v->data, v->length};
        break;
    case EXP_DB_NULL:
        break;
    }
}

/* ---- statements ---- */

static void give(struct exp_db *db, void *statement, bool *is_busy)
{
    if (statement == NULL)
        return;
    if (is_busy == NULL) {
        db->driver->finalize(statement);
        return;
    }
    db->driver->reset(statement);
    *is_busy = false;
}

/* A statement with its parameters: the cached one, or a fresh one when that is in use. */
static enum ebb_status take(struct exp_db *db, enum exp_db_query_id id, const void *in,
                            void **statement, bool **is_busy, struct ebb_error *err)
{
    const struct query *q = &queries[id];
    struct exp_db_cached *cached = &db->cache[id];
    *is_busy = cached->is_busy ? NULL : &cached->is_busy;
    if (cached->is_busy || cached->statement == NULL)
        EBB_TRY(prepare(db, q, statement, err));
    if (!cached->is_busy && cached->statement == NULL)
        cached->statement = *statement;
    if (!cached->is_busy)
        *statement = cached->statement;
    cached->is_busy = true;
    for (size_t i = 0; i < q->in->count; i++) {
        struct exp_db_value v = value_of(&q->in->fields[i], in);
        enum ebb_status status = db->driver->bind(*statement, i, &v, err);
        if (status != EBB_OK) {
            give(db, *statement, *is_busy);
            return status;
        }
    }
    return EBB_OK;
}

static struct exp_db_cursor read_by(struct exp_db *db, enum exp_db_query_id id, const void *in,
                                    void *row, struct ebb_error *err)
{
    struct exp_db_cursor c = {.db = db, .shape = queries[id].out, .row = row, .err = err};
    c.status = take(db, id, in, &c.statement, &c.is_busy, err);
    if (c.status != EBB_OK)
        c.statement = NULL;
    return c;
}

static enum ebb_status write_by(struct exp_db *db, enum exp_db_query_id id, const void *in,
                                struct ebb_error *err)
{
    void *statement = NULL;
    bool *is_busy = NULL, has_row;
    enum ebb_status status = exp_db_begin(db, err);
    EBB_THEN(status, take(db, id, in, &statement, &is_busy, err));
    if (status == EBB_OK) {
        status = db->driver->step(db->connection, statement, &has_row, err);
        give(db, statement, is_busy);
    }
    if (status != EBB_OK)
        exp_db_rollback(db); /* D2 */
    return status;
}

struct exp_db_cursor exp_db_ask(struct exp_db *db, const char *sql, const struct exp_db_value *args,
                                size_t count, const struct exp_db_shape *shape, void *row,
                                struct ebb_error *err)
{
    struct exp_db_cursor c = {.db = db, .shape = shape, .row = row, .err = err};
    c.status = db->driver->prepare(db->connection, sql, &c.statement, err);
    for (size_t i = 0; c.status == EBB_OK && i < count; i++)
        c.status = db->driver->bind(c.statement, i, &args[i], err);
    return c;
}

#define READ(function, in, out, sql)                                                               \
    struct exp_db_cursor function(struct exp_db *db, const struct in *key, struct out *row,        \
                                  struct ebb_error *err)                                           \
    {                                                                                              \
        return read_by(db, function##_query, key, row, err);                                       \
    }
#define WRITE(function, in, sql)                                                                   \
    enum ebb_status function(struct exp_db *db, const struct in *values, struct ebb_error *err)    \
    {                                                                                              \
        return write_by(db, function##_query, values, err);                                        \
    }
EXP_DB_QUERIES(READ, WRITE)

/* ---- rows ---- */

static bool fetch_into(struct exp_db_cursor *c, void *row)
{
    bool has_row = false;
    if (c->status == EBB_OK)
        c->status = c->db->driver->step(c->db->connection, c->statement, &has_row, c->err);
    if (c->status != EBB_OK || !has_row)
        return false;
    for (size_t i = 0; i < c->shape->count; i++) {
        struct exp_db_value v = c->db->driver->column(c->statement, (int)i);
        put_value(&c->shape->fields[i], &v, row);
    }
    return true;
}

bool exp_db_fetch(struct exp_db_cursor *c)
{
    return fetch_into(c, c->row);
}

enum ebb_status exp_db_end(struct exp_db_cursor *c)
{
    give(c->db, c->statement, c->is_busy);
    c->statement = NULL;
    return c->status;
}

/* Texts and bytes of a row come to live in the arena. */
static enum ebb_status keep_texts(const struct exp_db_cursor *c, struct ebb_arena *arena, void *row)
{
    for (size_t i = 0; i < c->shape->count; i++) {
        const struct exp_db_field *f = &c->shape->fields[i];
        struct exp_db_value v = value_of(f, row);
        if (v.kind != EXP_DB_TEXT && v.kind != EXP_DB_BLOB)
            continue;
        char *copy = arena != NULL ? ebb_arena_alloc(arena, v.length + 1) : NULL;
        if (copy == NULL)
            return ebb_no_memory(c->err, v.length + 1);
        memcpy(copy, v.data, v.length);
        copy[v.length] = '\0';
        v.data = copy;
        put_value(f, &v, row);
    }
    return EBB_OK;
}

enum ebb_status exp_db_only(struct exp_db_cursor c, struct ebb_arena *arena, bool *is_there)
{
    bool has_row = exp_db_fetch(&c);
    if (has_row)
        c.status = keep_texts(&c, arena, c.row);
    if (is_there != NULL)
        *is_there = has_row;
    return exp_db_end(&c);
}

enum ebb_status exp_db_all(struct exp_db_cursor c, struct ebb_arena *arena, void *items,
                           size_t *count)
{
    size_t bytes = c.shape->bytes, capacity = 0, n = 0;
    char *rows = NULL;
    for (;; n++) {
        if (c.status == EBB_OK && n == capacity) {
            capacity = capacity > 0 ? 2 * capacity : 16;
            char *more = ebb_arena_calloc(arena, capacity, bytes);
            if (more == NULL)
                c.status = ebb_no_memory(c.err, capacity * bytes);
            else if (n > 0)
                memcpy(more, rows, n * bytes);
            rows = more;
        }
        if (c.status != EBB_OK || !fetch_into(&c, rows + n * bytes))
            break;
        c.status = keep_texts(&c, arena, rows + n * bytes);
    }
    if (c.status == EBB_OK) {
        memcpy(items, &rows, sizeof rows);
        *count = n;
    }
    return exp_db_end(&c);
}
