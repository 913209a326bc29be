/* db.h - rows on disk: one connection, one transaction at a time, typed queries.
 *
 * Who wants something of the database calls a function of queries.h: a struct goes in, a struct
 * comes out (rows.h), and no text of SQL and no number of a column is seen outside this folder.
 *
 *   write   EBB_TRY(exp_db_step_add(db, &(struct exp_db_step){.trial_id = 7, ...}, err));
 *
 *   one     struct exp_db_config row;
 *           EBB_TRY(exp_db_only(exp_db_config_read(db, EXP_DB_ID(7), &row, err), arena, &is_there));
 *
 *   each    struct exp_db_trial row;
 *           struct exp_db_cursor trials = exp_db_trials(db, EXP_DB_ID(7), &row, err);
 *           while (exp_db_fetch(&trials))
 *               trials.status = look_at(&row, err);
 *           return exp_db_end(&trials);
 *
 *   all     struct exp_db_id *rows;
 *           EBB_TRY(exp_db_all(exp_db_experiments_going(db, NULL, NULL, err), arena, &rows, &n));
 *
 * A driver (driver.h) is what an engine has to offer; SQLite is the one that is built.
 *
 *  D1  The first write opens a transaction; everything is durable when exp_db_commit returns EBB_OK
 *      (WAL, synchronous=FULL), and nothing of it is there otherwise.
 *  D2  A failed write or commit leaves no transaction open: exp_db_rollback has been done.
 *  D3  The schema has a version; opening brings an older one up to date in one transaction, and
 *      refuses a newer one. */
#ifndef EBB_EXP_DB_DB_H
#define EBB_EXP_DB_DB_H

#include "base/arena.h"
#include "base/doc.h"
#include "base/status.h"
#include "exp/db/rows.h"

struct exp_db;

struct exp_db_options {
    const char *path;                            /* file; PostgreSQL: a connection text */
    bool is_reading_only;                        /* beside the one that writes; must exist */
    int64_t commit_fail_from, commit_fail_count; /* tests: the n-th commit (1, ...) and next ones */
    int64_t commit_sleep_ms;                     /* tests: a slow disk */
};

enum ebb_status exp_db_open(const struct exp_db_options *options, struct exp_db **db,
                            struct ebb_error *err);
void exp_db_close(struct exp_db *db); /* rolls back what is open */

/* ---- transactions ---- */

enum ebb_status exp_db_commit(struct exp_db *db, struct ebb_error *err); /* nothing open: nothing */
void exp_db_rollback(struct exp_db *db);
uint64_t exp_db_commits(const struct exp_db *db);
/* Proves that writing works again: a small transaction of its own. */
enum ebb_status exp_db_probe(struct exp_db *db, struct ebb_error *err);

/* ---- queries ---- */

/* The usual keys. */
#define EXP_DB_ID(value) (&(struct exp_db_id){(value)})
#define EXP_DB_NAME(text) (&(struct exp_db_name){(text)})

/* A query in progress; it sees what the open transaction has written. Ended by exp_db_end,
 * exp_db_only or exp_db_all, each of which returns its status. */
struct exp_db_cursor {
    enum ebb_status status; /* of the query, or what its user put there; not EBB_OK: no more rows */
    struct ebb_error *err;
    struct exp_db *db;
    const struct exp_db_shape *shape; /* of the rows */
    void *row, *statement;
    bool *is_busy; /* of the cached statement; NULL = it is not a cached one */
};

/* The next row into the struct that the query was given; its texts live until the next call.
 * false: no more, or a failure (exp_db_end tells). */
bool exp_db_fetch(struct exp_db_cursor *cursor);
enum ebb_status exp_db_end(struct exp_db_cursor *cursor);
/* The first row, texts in the arena (NULL: the row has none); the struct is as before when there
 * is no row. is_there may be NULL. */
enum ebb_status exp_db_only(struct exp_db_cursor cursor, struct ebb_arena *arena, bool *is_there);
/* All rows as an array in the arena: *(struct out **)items. For lists that fit memory, and for those
 * whose handling writes to the same tables. */
enum ebb_status exp_db_all(struct exp_db_cursor cursor, struct ebb_arena *arena, void *items,
                           size_t *count);

#include "exp/db/queries.h"

/* ---- lists of experiments ---- */

#define EXP_DB_FILTER_STATES 16
#define EXP_DB_FILTER_NAMES 8

struct exp_db_filter { /* NULL and "" = any */
    const char *states[EXP_DB_FILTER_STATES];
    size_t state_count;                      /* 0 = any */
    bool is_archived, is_unarchived;         /* both: any */
    const char *owners[EXP_DB_FILTER_NAMES]; /* one of them */
    size_t owner_count;
    const char *labels[EXP_DB_FILTER_NAMES]; /* all of them */
    size_t label_count;
    const char *description; /* a part of it */
    const char *sort;        /* a name that exp_db_is_sort knows; NULL = the newest first */
    bool is_descending;
    int64_t limit, offset;
};

bool exp_db_is_sort(const char *name);
struct exp_db_cursor exp_db_experiments(struct exp_db *db, const struct exp_db_filter *filter,
                                        struct exp_db_experiment *row, struct ebb_error *err);
struct exp_db_cursor exp_db_experiments_count(struct exp_db *db, const struct exp_db_filter *filter,
                                              struct exp_db_id *count, struct ebb_error *err);

/* ---- curves ---- */

struct exp_db_curve_point {
    int64_t step;
    double time, value; /* signed */
};

#define EXP_DB_CURVE_POINTS 64 /* that a stored curve has at least, once it has been thinned */

/* Points of a row of curves; how many. */
size_t exp_db_curve_read(struct exp_db_bytes bytes, struct exp_db_curve_point *points, size_t room);
/* A validation that was done: its row, and its point of the trial's curve. */
enum ebb_status exp_db_validation_keep(struct exp_db *db,
                                       const struct exp_db_validation *validation,
                                       int64_t experiment, struct ebb_error *err);
/* Points beyond a step are void. */
enum ebb_status exp_db_curve_forget(struct exp_db *db, int64_t experiment,
                                    const struct exp_db_step_id *last, struct ebb_error *err);

/* ---- metrics of steps ---- */

/* The metrics of a step as a trial reports them, taken apart: all but the list of its batches, and
 * that list; batches NULL = it reported none. Texts live in the arena. */
enum ebb_status exp_db_split(struct ebb_arena *arena, const struct ebb_doc_node *metrics,
                             const char **step, const char **batches, struct ebb_error *err);

/* ---- schema ---- */

#define EXP_DB_VERSION 5

#endif
