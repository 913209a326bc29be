/* sqlite.c - the driver for SQLite. WAL with synchronous=FULL: a commit is one fsync of the log. */
#include "exp/db/driver.h"

#include <sqlite3.h>
#include <string.h>

#include "base/heap.h"

static enum ebb_status fail(sqlite3 *db, int code, const char *what, struct ebb_error *err)
{
    int primary = code & 0xff;
    enum ebb_status status =
        primary == SQLITE_NOMEM                                 ? EBB_ENOMEM
        : primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB ? EBB_ECORRUPT
        : primary == SQLITE_CONSTRAINT || primary == SQLITE_MISUSE || primary == SQLITE_ERROR
            ? EBB_EINTERNAL
            : EBB_EIO;
    return ebb_fail(err, status, "database: %s: %s", what,
                    db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(code));
}

static enum ebb_status db_exec(void *connection, const char *sql, struct ebb_error *err)
{
    sqlite3 *db = connection;
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? EBB_OK : fail(db, code, sql, err);
}

static enum ebb_status db_open(const char *path, bool is_reading_only, void **connection,
                               struct ebb_error *err)
{
    static const char *const settings[] = {
        "PRAGMA journal_mode = WAL",        "PRAGMA synchronous = FULL",
        "PRAGMA temp_store = MEMORY",       "PRAGMA cache_size = -16000",
        "PRAGMA wal_autocheckpoint = 1000", "PRAGMA journal_size_limit = 67108864",
    };
    sqlite3 *db = NULL;
    int flags =
        (is_reading_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
        SQLITE_OPEN_NOMUTEX;
    size_t first = is_reading_only ? 2 : 0; /* how rows are written is not its business */
    int code = sqlite3_open_v2(path, &db, flags, NULL);
    enum ebb_status status = code == SQLITE_OK ? EBB_OK : fail(db, code, path, err);
    if (status == EBB_OK) {
        sqlite3_extended_result_codes(db, 1);
        sqlite3_busy_timeout(db, 5000);
    }
    for (size_t i = first; status == EBB_OK && i < sizeof settings / sizeof *settings; i++)
        status = db_exec(db, settings[i], err);
    if (status != EBB_OK) {
        sqlite3_close(db);
        return ebb_context(err, status, "%s", path);
    }
    *connection = db;
    return EBB_OK;
}

static void db_close(void *connection)
{
    sqlite3_close(connection);
}

/* $2 is the second value here as in PostgreSQL: SQLite calls that ?2, and takes $2 for a name. */
static enum ebb_status db_prepare(void *connection, const char *sql, void **statement,
                                  struct ebb_error *err)
{
    sqlite3_stmt *made = NULL;
    char *text = ebb_strdup(sql);
    if (text == NULL)
        return ebb_no_memory(err, strlen(sql) + 1);
    for (char *at = text; (at = strchr(at, '$')) != NULL;)
        *at = '?';
    int code = sqlite3_prepare_v3(connection, text, -1, SQLITE_PREPARE_PERSISTENT, &made, NULL);
    ebb_free(text);
    if (code != SQLITE_OK)
        return fail(connection, code, sql, err);
    *statement = made;
    return EBB_OK;
}

static void db_finalize(void *statement)
{
    sqlite3_finalize(statement);
}

static enum ebb_status db_bind(void *statement, size_t index, const struct exp_db_value *v,
                               struct ebb_error *err)
{
    int at = (int)index + 1, code = SQLITE_OK;
    switch (v->kind) {
    case EXP_DB_NULL:
        code = sqlite3_bind_null(statement, at);
        break;
    case EXP_DB_INT:
    case EXP_DB_BOOL:
        code = sqlite3_bind_int64(statement, at, v->integer);
        break;
    case EXP_DB_DOUBLE:
        code = sqlite3_bind_double(statement, at, v->number);
        break;
    case EXP_DB_TEXT:
        code =
            sqlite3_bind_text64(statement, at, v->data, v->length, SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    case EXP_DB_BLOB:
        code = sqlite3_bind_blob64(statement, at, v->length > 0 ? v->data : "", v->length,
                                   SQLITE_TRANSIENT);
        break;
    }
    if (code != SQLITE_OK)
        return fail(sqlite3_db_handle(statement), code, sqlite3_sql(statement), err);
    return EBB_OK;
}

static enum ebb_status db_step(void *connection, void *statement, bool *has_row,
                               struct ebb_error *err)
{
    int code = sqlite3_step(statement);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return fail(connection, code, sqlite3_sql(statement), err);
    *has_row = code == SQLITE_ROW;
    return EBB_OK;
}

static void db_reset(void *statement)
{
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

static struct exp_db_value db_column(void *statement, int column)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        return (struct exp_db_value){.kind = EXP_DB_INT,
                                     .integer = sqlite3_column_int64(statement, column),
                                     .number = sqlite3_column_double(statement, column)};
    case SQLITE_FLOAT:
        return (struct exp_db_value){.kind = EXP_DB_DOUBLE,
                                     .number = sqlite3_column_double(statement, column)};
    case SQLITE_TEXT: {
        const char *text = (const char *)sqlite3_column_text(statement, column);
        return (struct exp_db_value){.kind = EXP_DB_TEXT,
                                     .data = text,
                                     .length = (size_t)sqlite3_column_bytes(statement, column)};
    }
    case SQLITE_BLOB: {
        const char *data = sqlite3_column_blob(statement, column);
        return (struct exp_db_value){.kind = EXP_DB_BLOB,
                                     .data = data != NULL ? data : "",
                                     .length = (size_t)sqlite3_column_bytes(statement, column)};
    }
    default:
        return (struct exp_db_value){.kind = EXP_DB_NULL};
    }
}

const struct exp_db_driver exp_db_sqlite = {
    .name = "sqlite",
    .open = db_open,
    .close = db_close,
    .exec = db_exec,
    .prepare = db_prepare,
    .finalize = db_finalize,
    .bind = db_bind,
    .step = db_step,
    .reset = db_reset,
    .column = db_column,
};
