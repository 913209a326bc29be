/* db.c - see db.h: opening, transactions, versions of the schema. */
#include "exp/db/db.h"

#include <string.h>
#include <time.h>

#include "base/heap.h"
#include "exp/db/driver.h"

/* ---- transactions ---- */

enum ebb_status exp_db_begin(struct exp_db *db, struct ebb_error *err)
{
    if (db->is_open)
        return EBB_OK;
    EBB_TRY(db->driver->exec(db->connection, "BEGIN", err));
    db->is_open = true;
    return EBB_OK;
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

uint64_t exp_db_commits(const struct exp_db *db)
{
    return db->commits;
}

enum ebb_status exp_db_probe(struct exp_db *db, struct ebb_error *err)
{
    EBB_TRY(exp_db_meta_write(db, &(struct exp_db_meta){"probe", "written"}, err));
    return exp_db_commit(db, err);
}

/* ---- opening ---- */

static enum ebb_status migrate(struct exp_db *db, struct ebb_error *err)
{
    struct exp_db_id row;
    EBB_TRY(db->driver->exec(db->connection,
                             "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)",
                             err));
    EBB_TRY(exp_db_only(exp_db_version_read(db, NULL, &row, err), NULL, NULL));
    int64_t version = row.id;
    if (version > EXP_DB_VERSION)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "database: made by a newer program (version %lld, this one knows %d)",
                        (long long)version, EXP_DB_VERSION);
    if (version == EXP_DB_VERSION)
        return EBB_OK;
    EBB_TRY(exp_db_begin(db, err));
    enum ebb_status status = EBB_OK;
    for (int64_t v = version; status == EBB_OK && v < EXP_DB_VERSION; v++)
        status = db->driver->exec(db->connection, exp_db_migrations[v], err);
    if (status == EBB_OK && version < 4)
        status = exp_db_split_old(db, err);
    if (status == EBB_OK && version < 5)
        status = exp_db_curves_old(db, err);
    if (status != EBB_OK) {
        exp_db_rollback(db);
        return status;
    }
    EBB_TRY(exp_db_version_add(db, EXP_DB_ID(EXP_DB_VERSION), err));
    EBB_TRY(db->driver->exec(db->connection, "COMMIT", err));
    db->is_open = false;
    return EBB_OK;
}

enum ebb_status exp_db_open(const struct exp_db_options *options, struct exp_db **db,
                            struct ebb_error *err)
{
    struct exp_db *made;
    EBB_TRY(ebb_new(&made, 1, sizeof *made, err));
    made->driver = &exp_db_sqlite;
    made->options = *options;
    made->options.path = NULL; /* borrowed for the call only */
    enum ebb_status status =
        made->driver->open(options->path, options->is_reading_only, &made->connection, err);
    if (status == EBB_OK && !options->is_reading_only)
        status = migrate(made, err);
    return EBB_HAND_OUT(status, db, made, exp_db_close);
}

void exp_db_close(struct exp_db *db)
{
    if (db == NULL)
        return;
    if (db->connection != NULL)
        exp_db_rollback(db);
    for (size_t i = 0; i < EXP_DB_QUERY_COUNT; i++)
        if (db->cache[i].statement != NULL)
            db->driver->finalize(db->cache[i].statement);
    if (db->connection != NULL)
        db->driver->close(db->connection);
    ebb_free(db);
}
