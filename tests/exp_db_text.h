/* exp_db_text.h - SQL by its text, for tests and benches that look behind the typed queries. */
#ifndef EBB_TESTS_EXP_DB_TEXT_H
#define EBB_TESTS_EXP_DB_TEXT_H

#include <string.h>

#include "exp/db/driver.h"

#define EXP_DB_ARGS(...)                                                                           \
    (const struct exp_db_value[]){__VA_ARGS__},                                                    \
        sizeof((const struct exp_db_value[]){__VA_ARGS__}) / sizeof(struct exp_db_value)
#define EXP_DB_NO_ARGS NULL, 0

struct exp_db_rows { /* a query in progress; caller's memory */
    struct exp_db *db;
    void *statement;
};

static inline struct exp_db_value exp_db_n(void);
static inline struct exp_db_value exp_db_tn(const char *text, size_t length);

/* ---- values ---- */

static inline struct exp_db_value exp_db_i(int64_t value)
{
    return (struct exp_db_value){.kind = EXP_DB_INT, .integer = value};
}

static inline struct exp_db_value exp_db_d(double value)
{
    return (struct exp_db_value){.kind = EXP_DB_DOUBLE, .number = value};
}

static inline struct exp_db_value exp_db_t(const char *text)
{
    if (text == NULL)
        return exp_db_n();
    return exp_db_tn(text, strlen(text));
}

static inline struct exp_db_value exp_db_tn(const char *text, size_t length)
{
    return (struct exp_db_value){.kind = EXP_DB_TEXT, .data = text, .length = length};
}

static inline struct exp_db_value exp_db_b(const void *data, size_t length)
{
    return (struct exp_db_value){.kind = EXP_DB_BLOB, .data = data, .length = length};
}

static inline struct exp_db_value exp_db_n(void)
{
    return (struct exp_db_value){.kind = EXP_DB_NULL};
}

static inline enum ebb_status take(struct exp_db *db, const char *sql,
                                   const struct exp_db_value *args, size_t count, void **statement,
                                   struct ebb_error *err)
{
    EBB_TRY(db->driver->prepare(db->connection, sql, statement, err));
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; status == EBB_OK && i < count; i++)
        status = db->driver->bind(*statement, i, &args[i], err);
    if (status != EBB_OK)
        db->driver->finalize(*statement);
    return status;
}

static inline enum ebb_status exp_db_run(struct exp_db *db, const char *sql,
                                         const struct exp_db_value *args, size_t arg_count,
                                         struct ebb_error *err)
{
    void *statement = NULL;
    bool has_row;
    enum ebb_status status = exp_db_begin(db, err);
    if (status == EBB_OK)
        status = take(db, sql, args, arg_count, &statement, err);
    if (status == EBB_OK) {
        status = db->driver->step(db->connection, statement, &has_row, err);
        db->driver->finalize(statement);
    }
    if (status != EBB_OK)
        exp_db_rollback(db); /* D2 */
    return status;
}

static inline enum ebb_status exp_db_query(struct exp_db *db, const char *sql,
                                           const struct exp_db_value *args, size_t arg_count,
                                           struct exp_db_rows *rows, struct ebb_error *err)
{
    *rows = (struct exp_db_rows){.db = db};
    return take(db, sql, args, arg_count, &rows->statement, err);
}

static inline enum ebb_status exp_db_next(struct exp_db_rows *rows, bool *has_row,
                                          struct ebb_error *err)
{
    return rows->db->driver->step(rows->db->connection, rows->statement, has_row, err);
}

static inline void exp_db_done(struct exp_db_rows *rows)
{
    if (rows->statement != NULL)
        rows->db->driver->finalize(rows->statement);
    rows->statement = NULL;
}

static inline struct exp_db_value exp_db_column(const struct exp_db_rows *rows, int column)
{
    return rows->db->driver->column(rows->statement, column);
}

static inline int64_t exp_db_int(const struct exp_db_rows *rows, int column)
{
    struct exp_db_value v = exp_db_column(rows, column);
    return v.kind == EXP_DB_INT ? v.integer : v.kind == EXP_DB_DOUBLE ? (int64_t)v.number : 0;
}

static inline double exp_db_double(const struct exp_db_rows *rows, int column)
{
    struct exp_db_value v = exp_db_column(rows, column);
    return v.kind == EXP_DB_INT || v.kind == EXP_DB_DOUBLE ? v.number : 0.0;
}

static inline const char *exp_db_text(const struct exp_db_rows *rows, int column)
{
    struct exp_db_value v = exp_db_column(rows, column);
    return v.kind == EXP_DB_TEXT ? v.data : NULL;
}

static inline bool exp_db_is_null(const struct exp_db_rows *rows, int column)
{
    return exp_db_column(rows, column).kind == EXP_DB_NULL;
}

static inline enum ebb_status exp_db_number(struct exp_db *db, const char *sql,
                                            const struct exp_db_value *args, size_t arg_count,
                                            int64_t fallback, int64_t *value, struct ebb_error *err)
{
    struct exp_db_rows rows;
    bool has_row = false;
    EBB_TRY(exp_db_query(db, sql, args, arg_count, &rows, err));
    enum ebb_status status = exp_db_next(&rows, &has_row, err);
    if (status == EBB_OK)
        *value = has_row && !exp_db_is_null(&rows, 0) ? exp_db_int(&rows, 0) : fallback;
    exp_db_done(&rows);
    return status;
}

#endif
