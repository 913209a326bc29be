/* db.h - rows on disk: one connection, one transaction at a time, statements by their text.
 *
 * A thin face over SQL that SQLite and PostgreSQL both speak: parameters are $1, $2, ... in the
 * order of their first use; types BIGINT, DOUBLE PRECISION, TEXT, BYTEA; no engine's own functions.
 * A driver (driver.h) is what an engine has to offer; SQLite is the one that is built.
 *
 *  D1  The first write opens a transaction; everything is durable when exp_db_commit returns EBB_OK
 *      (WAL, synchronous=FULL), and nothing of it is there otherwise.
 *  D2  A failed write or commit leaves no transaction open: exp_db_rollback has been done.
 *  D3  The schema has a version; opening brings an older one up to date in one transaction, and
 *      refuses a newer one.
 *
 * NaN is stored as NULL by SQLite: callers store numbers that are none as text. */
#ifndef EBB_EXP_DB_DB_H
#define EBB_EXP_DB_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum exp_db_kind { EXP_DB_NULL, EXP_DB_INT, EXP_DB_DOUBLE, EXP_DB_TEXT, EXP_DB_BLOB };

struct exp_db_value {
    enum exp_db_kind kind;
    int64_t integer;
    double number;
    const char *data; /* TEXT, BLOB; borrowed for the call */
    size_t length;
};

struct exp_db_value exp_db_i(int64_t value);
struct exp_db_value exp_db_d(double value);
struct exp_db_value exp_db_t(const char *text); /* NULL = null */
struct exp_db_value exp_db_tn(const char *text, size_t length);
struct exp_db_value exp_db_b(const void *data, size_t length);
struct exp_db_value exp_db_n(void); /* null */

/* Arguments of a statement, and their number. */
#define EXP_DB_ARGS(...)                                                                           \
    (const struct exp_db_value[]){__VA_ARGS__},                                                    \
        sizeof((const struct exp_db_value[]){__VA_ARGS__}) / sizeof(struct exp_db_value)
#define EXP_DB_NO_ARGS NULL, 0

struct exp_db;

struct exp_db_options {
    const char *path;                            /* file; PostgreSQL: a connection text */
    int64_t commit_fail_from, commit_fail_count; /* tests: the n-th commit (1, ...) and next ones */
    int64_t commit_sleep_ms;                     /* tests: a slow disk */
};

enum ebb_status exp_db_open(const struct exp_db_options *options, struct exp_db **db,
                            struct ebb_error *err);
void exp_db_close(struct exp_db *db); /* rolls back what is open */

/* ---- writing ---- */

enum ebb_status exp_db_run(struct exp_db *db, const char *sql, const struct exp_db_value *args,
                           size_t arg_count, struct ebb_error *err);
enum ebb_status exp_db_commit(struct exp_db *db, struct ebb_error *err); /* nothing open: nothing */
void exp_db_rollback(struct exp_db *db);
bool exp_db_is_open(const struct exp_db *db); /* a transaction is */
uint64_t exp_db_commits(const struct exp_db *db);
/* Proves that writing works again: a small transaction of its own. */
enum ebb_status exp_db_probe(struct exp_db *db, struct ebb_error *err);

/* ---- reading ---- */

struct exp_db_rows { /* a query in progress; caller's memory */
    struct exp_db *db;
    void *statement;
    bool is_cached;
};

/* Sees what the open transaction has written. On success close it with exp_db_done. */
enum ebb_status exp_db_query(struct exp_db *db, const char *sql, const struct exp_db_value *args,
                             size_t arg_count, struct exp_db_rows *rows, struct ebb_error *err);
/* *has_row = false at the end. */
enum ebb_status exp_db_next(struct exp_db_rows *rows, bool *has_row, struct ebb_error *err);
void exp_db_done(struct exp_db_rows *rows);

/* Columns of the current row (0, 1, ...); pointers live until the next call. */
struct exp_db_value exp_db_column(const struct exp_db_rows *rows, int column);
int64_t exp_db_int(const struct exp_db_rows *rows, int column);      /* null = 0 */
double exp_db_double(const struct exp_db_rows *rows, int column);    /* null = 0 */
const char *exp_db_text(const struct exp_db_rows *rows, int column); /* null = NULL */
bool exp_db_is_null(const struct exp_db_rows *rows, int column);

/* The one integer a query gives; `fallback` when it gives no row or null. */
enum ebb_status exp_db_number(struct exp_db *db, const char *sql, const struct exp_db_value *args,
                              size_t arg_count, int64_t fallback, int64_t *value,
                              struct ebb_error *err);

/* ---- schema ---- */

#define EXP_DB_VERSION 3

#endif
