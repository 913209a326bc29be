/* driver.h - what a database engine offers, and what the files of exp/db share. Private to exp/db.
 */
#ifndef EBB_EXP_DB_DRIVER_H
#define EBB_EXP_DB_DRIVER_H

#include "exp/db/db.h"

enum exp_db_kind { EXP_DB_NULL, EXP_DB_INT, EXP_DB_BOOL, EXP_DB_DOUBLE, EXP_DB_TEXT, EXP_DB_BLOB };

struct exp_db_value {
    enum exp_db_kind kind;
    int64_t integer;
    double number;
    const char *data; /* TEXT, BLOB; borrowed for the call */
    size_t length;
};

struct exp_db_driver {
    const char *name;
    enum ebb_status (*open)(const char *path, bool is_reading_only, void **connection,
                            struct ebb_error *err);
    void (*close)(void *connection);
    enum ebb_status (*exec)(void *connection, const char *sql, struct ebb_error *err);
    enum ebb_status (*prepare)(void *connection, const char *sql, void **statement,
                               struct ebb_error *err);
    void (*finalize)(void *statement);
    enum ebb_status (*bind)(void *statement, size_t index, const struct exp_db_value *value,
                            struct ebb_error *err);
    enum ebb_status (*step)(void *connection, void *statement, bool *has_row,
                            struct ebb_error *err);
    void (*reset)(void *statement);
    struct exp_db_value (*column)(void *statement, int column);
};

extern const struct exp_db_driver exp_db_sqlite;

/* Scripts of the schema: [i] leads from version i to i + 1. */
extern const char *const exp_db_migrations[EXP_DB_VERSION];

/* What version 4 takes apart, in the open transaction. */
enum ebb_status exp_db_split_old(struct exp_db *db, struct ebb_error *err);
/* What version 5 keeps of old rows, likewise. */
enum ebb_status exp_db_curves_old(struct exp_db *db, struct ebb_error *err);

/* ---- structs as queries see them ---- */

struct exp_db_field {
    const char *name;
    enum exp_db_kind kind;
    size_t offset;
};

struct exp_db_shape {
    const struct exp_db_field *fields;
    size_t count, bytes;
};

extern const struct exp_db_shape exp_db_experiment_shape, exp_db_id_shape;

/* Numbers of queries: places in the cache of statements. */
enum exp_db_query_id {
#define READ(function, in, out, sql) function##_query,
#define WRITE(function, in, sql) function##_query,
    EXP_DB_QUERIES(READ, WRITE)
#undef READ
#undef WRITE
        EXP_DB_QUERY_COUNT
};

struct exp_db_cached {
    void *statement; /* NULL = not prepared yet */
    bool is_busy;
};

struct exp_db {
    const struct exp_db_driver *driver;
    void *connection;
    struct exp_db_options options;
    struct exp_db_cached cache[EXP_DB_QUERY_COUNT];
    uint64_t commits;
    bool is_open;
};

enum ebb_status exp_db_begin(struct exp_db *db, struct ebb_error *err);
/* A query whose text is made on the fly: prepared for this one use. */
struct exp_db_cursor exp_db_ask(struct exp_db *db, const char *sql, const struct exp_db_value *args,
                                size_t count, const struct exp_db_shape *shape, void *row,
                                struct ebb_error *err);
/* "a, b, c" */
struct ebb_str;
void exp_db_columns(const struct exp_db_shape *shape, struct ebb_str *out);

#endif
