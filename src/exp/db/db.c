/* db.c - see db.h: transactions, the cache of statements, versions of the schema. */
#include "exp/db/db.h"

#include <string.h>
#include <time.h>

#include "base/heap.h"
#include "base/map.h"
#include "exp/db/driver.h"

#define CACHE_MAX 512

struct cached {
    void *statement;
    bool is_busy;
};

struct exp_db {
    const struct exp_db_driver *driver;
    void *connection;
    struct exp_db_options options;
    struct ebb_strmap index; /* text -> cached */
    struct cached *cache;
    size_t cached, cache_capacity;
    uint64_t commits;
    bool is_open;
};

/* ---- values ---- */

struct exp_db_value exp_db_i(int64_t value)
{
    return (struct exp_db_value){.kind = EXP_DB_INT, .integer = value};
}

struct exp_db_value exp_db_d(double value)
{
    return (struct exp_db_value){.kind = EXP_DB_DOUBLE, .number = value};
}

struct exp_db_value exp_db_t(const char *text)
{
    if (text == NULL)
        return exp_db_n();
    return exp_db_tn(text, strlen(text));
}

struct exp_db_value exp_db_tn(const char *text, size_t length)
{
    return (struct exp_db_value){.kind = EXP_DB_TEXT, .data = text, .length = length};
}

struct exp_db_value exp_db_b(const void *data, size_t length)
{
    return (struct exp_db_value){.kind = EXP_DB_BLOB, .data = data, .length = length};
}

struct exp_db_value exp_db_n(void)
{
    return (struct exp_db_value){.kind = EXP_DB_NULL};
}

/* ---- statements ---- */

/* A statement for `sql`: the cached one, or a fresh one when that is in use. */
static enum ebb_status take(struct exp_db *db, const char *sql, void **statement, bool *is_cached,
                            struct ebb_error *err)
{
    uint64_t at;
    size_t length = strlen(sql);
    if (ebb_strmap_get(&db->index, sql, length, &at)) {
        struct cached *c = &db->cache[at];
        *is_cached = !c->is_busy;
        if (c->is_busy)
            return db->driver->prepare(db->connection, sql, statement, err);
        c->is_busy = true;
        *statement = c->statement;
        return EBB_OK;
    }
    *is_cached = false;
    if (db->cached >= CACHE_MAX) /* texts made on the fly must not fill memory */
        return db->driver->prepare(db->connection, sql, statement, err);
    EBB_TRY(ebb_grow(&db->cache, &db->cache_capacity, db->cached + 1, sizeof *db->cache, err));
    EBB_TRY(db->driver->prepare(db->connection, sql, statement, err));
    enum ebb_status status = ebb_strmap_put(&db->index, sql, length, db->cached, err);
    if (status != EBB_OK) {
        db->driver->finalize(*statement);
        return status;
    }
    db->cache[db->cached++] = (struct cached){.statement = *statement, .is_busy = true};
    *is_cached = true;
    return EBB_OK;
}

static void give(struct exp_db *db, void *statement, bool is_cached)
{
    if (!is_cached) {
        db->driver->finalize(statement);
        return;
    }
    db->driver->reset(statement);
    for (size_t i = 0; i < db->cached; i++)
        if (db->cache[i].statement == statement)
            db->cache[i].is_busy = false;
}

static enum ebb_status bind_all(struct exp_db *db, void *statement, const struct exp_db_value *args,
                                size_t count, struct ebb_error *err)
{
    for (size_t i = 0; i < count; i++)
        EBB_TRY(db->driver->bind(statement, i, &args[i], err));
    return EBB_OK;
}

/* ---- writing ---- */

static enum ebb_status begin(struct exp_db *db, struct ebb_error *err)
{
    if (db->is_open)
        return EBB_OK;
    EBB_TRY(db->driver->exec(db->connection, "BEGIN", err));
    db->is_open = true;
    return EBB_OK;
}

enum ebb_status exp_db_run(struct exp_db *db, const char *sql, const struct exp_db_value *args,
                           size_t arg_count, struct ebb_error *err)
{
    void *statement = NULL;
    bool is_cached = false, has_row;
    enum ebb_status status = begin(db, err);
    if (status == EBB_OK)
        status = take(db, sql, &statement, &is_cached, err);
    if (status == EBB_OK) {
        status = bind_all(db, statement, args, arg_count, err);
        if (status == EBB_OK)
            status = db->driver->step(db->connection, statement, &has_row, err);
        give(db, statement, is_cached);
    }
    if (status != EBB_OK)
        exp_db_rollback(db); /* D2 */
    return status;
}

static bool is_fault(struct exp_db *db)
{
    int64_t n = (int64_t)db->commits;
    return db->options.commit_fail_count > 0 && n >= db->options.commit_fail_from &&
           n < db->options.commit_fail_from + db->options.commit_fail_count;
}

enum ebb_status exp_db_commit(struct exp_db *db, struct ebb_error *err)
{
    if (!db->is_open)
        return EBB_OK;
    db->commits++;
    if (db->options.commit_sleep_ms > 0) {
        struct timespec t = {.tv_sec = db->options.commit_sleep_ms / 1000,
                             .tv_nsec = db->options.commit_sleep_ms % 1000 * 1000000};
        nanosleep(&t, NULL);
    }
    enum ebb_status status = is_fault(db)
                                 ? ebb_fail(err, EBB_EIO, "database: commit: injected failure")
                                 : db->driver->exec(db->connection, "COMMIT", err);
    if (status != EBB_OK)
        exp_db_rollback(db);
    db->is_open = false;
    return status;
}

void exp_db_rollback(struct exp_db *db)
{
    if (db->is_open)
        db->driver->exec(db->connection, "ROLLBACK", NULL); /* fails when the engine did it */
    db->is_open = false;
}

bool exp_db_is_open(const struct exp_db *db)
{
    return db->is_open;
}

uint64_t exp_db_commits(const struct exp_db *db)
{
    return db->commits;
}

enum ebb_status exp_db_probe(struct exp_db *db, struct ebb_error *err)
{
    EBB_TRY(exp_db_run(db, "DELETE FROM meta WHERE key = $1", EXP_DB_ARGS(exp_db_t("probe")), err));
    EBB_TRY(exp_db_run(db, "INSERT INTO meta (key, value) VALUES ($1, $2)",
                       EXP_DB_ARGS(exp_db_t("probe"), exp_db_t("written")), err));
    return exp_db_commit(db, err);
}

/* ---- reading ---- */

enum ebb_status exp_db_query(struct exp_db *db, const char *sql, const struct exp_db_value *args,
                             size_t arg_count, struct exp_db_rows *rows, struct ebb_error *err)
{
    struct exp_db_rows made = {.db = db};
    EBB_TRY(take(db, sql, &made.statement, &made.is_cached, err));
    enum ebb_status status = bind_all(db, made.statement, args, arg_count, err);
    if (status != EBB_OK) {
        give(db, made.statement, made.is_cached);
        return status;
    }
    *rows = made;
    return EBB_OK;
}

enum ebb_status exp_db_next(struct exp_db_rows *rows, bool *has_row, struct ebb_error *err)
{
    return rows->db->driver->step(rows->db->connection, rows->statement, has_row, err);
}

void exp_db_done(struct exp_db_rows *rows)
{
    if (rows->statement != NULL)
        give(rows->db, rows->statement, rows->is_cached);
    rows->statement = NULL;
}

struct exp_db_value exp_db_column(const struct exp_db_rows *rows, int column)
{
    return rows->db->driver->column(rows->statement, column);
}

int64_t exp_db_int(const struct exp_db_rows *rows, int column)
{
    struct exp_db_value v = exp_db_column(rows, column);
    return v.kind == EXP_DB_INT ? v.integer : v.kind == EXP_DB_DOUBLE ? (int64_t)v.number : 0;
}

double exp_db_double(const struct exp_db_rows *rows, int column)
{
    struct exp_db_value v = exp_db_column(rows, column);
    return v.kind == EXP_DB_INT || v.kind == EXP_DB_DOUBLE ? v.number : 0.0;
}

const char *exp_db_text(const struct exp_db_rows *rows, int column)
{
    struct exp_db_value v = exp_db_column(rows, column);
    return v.kind == EXP_DB_TEXT ? v.data : NULL;
}

bool exp_db_is_null(const struct exp_db_rows *rows, int column)
{
    return exp_db_column(rows, column).kind == EXP_DB_NULL;
}

enum ebb_status exp_db_number(struct exp_db *db, const char *sql, const struct exp_db_value *args,
                              size_t arg_count, int64_t fallback, int64_t *value,
                              struct ebb_error *err)
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

/* ---- opening ---- */

static enum ebb_status read_version(struct exp_db *db, int64_t *version, struct ebb_error *err)
{
    EBB_TRY(db->driver->exec(db->connection,
                             "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)",
                             err));
    return exp_db_number(db, "SELECT MAX(version) FROM schema_version", EXP_DB_NO_ARGS, 0, version,
                         err);
}

static enum ebb_status migrate(struct exp_db *db, struct ebb_error *err)
{
    int64_t version = 0;
    EBB_TRY(read_version(db, &version, err));
    if (version > EXP_DB_VERSION)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "database: made by a newer program (version %lld, this one knows %d)",
                        (long long)version, EXP_DB_VERSION);
    if (version == EXP_DB_VERSION)
        return EBB_OK;
    EBB_TRY(begin(db, err));
    enum ebb_status status = EBB_OK;
    for (int64_t v = version; status == EBB_OK && v < EXP_DB_VERSION; v++)
        status = db->driver->exec(db->connection, exp_db_migrations[v], err);
    if (status != EBB_OK) {
        exp_db_rollback(db);
        return status;
    }
    EBB_TRY(exp_db_run(db, "INSERT INTO schema_version (version) VALUES ($1)",
                       EXP_DB_ARGS(exp_db_i(EXP_DB_VERSION)), err));
    EBB_TRY(db->driver->exec(db->connection, "COMMIT", err));
    db->is_open = false;
    return EBB_OK;
}

enum ebb_status exp_db_open(const struct exp_db_options *options, struct exp_db **db,
                            struct ebb_error *err)
{
    struct exp_db *made = ebb_calloc(1, sizeof *made);
    if (made == NULL)
        return ebb_no_memory(err, sizeof *made);
    made->driver = &exp_db_sqlite;
    made->options = *options;
    made->options.path = NULL; /* borrowed for the call only */
    ebb_strmap_init(&made->index);
    enum ebb_status status = made->driver->open(options->path, &made->connection, err);
    if (status == EBB_OK)
        status = migrate(made, err);
    if (status != EBB_OK) {
        exp_db_close(made);
        return status;
    }
    *db = made;
    return EBB_OK;
}

void exp_db_close(struct exp_db *db)
{
    if (db == NULL)
        return;
    if (db->connection != NULL)
        exp_db_rollback(db);
    for (size_t i = 0; i < db->cached; i++)
        db->driver->finalize(db->cache[i].statement);
    if (db->connection != NULL)
        db->driver->close(db->connection);
    ebb_free(db->cache);
    ebb_strmap_fini(&db->index);
    ebb_free(db);
}
