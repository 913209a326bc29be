/* driver.h - what a database engine offers to db.c. Private to exp/db. */
#ifndef EBB_EXP_DB_DRIVER_H
#define EBB_EXP_DB_DRIVER_H

#include "exp/db/db.h"

struct exp_db_driver {
    const char *name;
    enum ebb_status (*open)(const char *path, void **connection, struct ebb_error *err);
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

#endif
