/* The database: durable or not there at all, versions, reading while writing. */
#include "test.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/heap.h"
#include "exp/db/driver.h"
#include "exp_db_text.h"

struct place {
    char dir[64], path[80];
};

static void begin(struct place *p)
{
    snprintf(p->dir, sizeof p->dir, "/tmp/ebb-db-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->path, sizeof p->path, "%s/ebb.db", p->dir);
}

static void end(struct place *p)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", p->dir);
    CHECK_EQ(system(command), 0);
}

static struct exp_db *open_db(const struct place *p, struct exp_db_options options)
{
    struct exp_db *db = NULL;
    struct ebb_error err;
    options.path = p->path;
    CHECK_OK(exp_db_open(&options, &db, &err), &err);
    return db;
}

static enum ebb_status put(struct exp_db *db, const char *name, struct ebb_error *err)
{
    return exp_db_run(db, "INSERT INTO templates (name, config) VALUES ($1, $2)",
                      EXP_DB_ARGS(exp_db_t(name), exp_db_t("text")), err);
}

static int64_t count(struct exp_db *db)
{
    int64_t n = -1;
    struct ebb_error err;
    CHECK_OK(exp_db_number(db, "SELECT COUNT(*) FROM templates", EXP_DB_NO_ARGS, 0, &n, &err),
             &err);
    return n;
}

TEST(commit__makes_durable_and_rollback_forgets)
{
    struct place p;
    struct ebb_error err;
    begin(&p);
    struct exp_db *db = open_db(&p, (struct exp_db_options){0});
    CHECK_OK(put(db, "a", &err), &err);
    CHECK_OK(exp_db_commit(db, &err), &err);
    CHECK_OK(put(db, "b", &err), &err);
    CHECK(db->is_open);
    CHECK_EQ(count(db), 2); /* sees its own transaction */
    exp_db_rollback(db);
    CHECK_EQ(count(db), 1);
    CHECK_OK(put(db, "c", &err), &err);
    exp_db_close(db); /* not committed */
    db = open_db(&p, (struct exp_db_options){0});
    CHECK_EQ(count(db), 1);
    exp_db_close(db);
    end(&p);
}

TEST(failed_commit__leaves_nothing_and_the_next_works)
{
    struct place p;
    struct ebb_error err;
    begin(&p);
    struct exp_db *db =
        open_db(&p, (struct exp_db_options){.commit_fail_from = 2, .commit_fail_count = 1});
    CHECK_OK(put(db, "a", &err), &err);
    CHECK_OK(exp_db_commit(db, &err), &err);
    CHECK_OK(put(db, "b", &err), &err);
    CHECK_EQ(exp_db_commit(db, &err), EBB_EIO);
    CHECK(!db->is_open);
    CHECK_EQ(count(db), 1);
    CHECK_OK(put(db, "b", &err), &err);
    CHECK_OK(exp_db_commit(db, &err), &err);
    CHECK_EQ(count(db), 2);
    exp_db_close(db);
    end(&p);
}

TEST(failed_statement__rolls_the_transaction_back)
{
    struct place p;
    struct ebb_error err;
    begin(&p);
    struct exp_db *db = open_db(&p, (struct exp_db_options){0});
    CHECK_OK(put(db, "a", &err), &err);
    CHECK(put(db, "a", &err) != EBB_OK); /* the key is there */
    CHECK(!db->is_open);
    CHECK_EQ(count(db), 0);
    CHECK_OK(exp_db_probe(db, &err), &err);
    exp_db_close(db);
    end(&p);
}

TEST(values__come_back_as_they_were)
{
    struct place p;
    struct ebb_error err;
    struct exp_db_rows rows;
    bool has_row;
    static const char bytes[] = "a\0b\xff";
    begin(&p);
    struct exp_db *db = open_db(&p, (struct exp_db_options){0});
    CHECK_OK(exp_db_run(db,
                        "INSERT INTO trial_logs (trial_id, id, time, level, message) VALUES ($1,"
                        " $2, $3, $4, $5)",
                        EXP_DB_ARGS(exp_db_i(INT64_MIN), exp_db_i(INT64_MAX), exp_db_d(0.1),
                                    exp_db_t("\xc3\xa4"), exp_db_b(bytes, 4)),
                        &err),
             &err);
    CHECK_OK(exp_db_query(db, "SELECT trial_id, id, time, level, message, NULL FROM trial_logs",
                          EXP_DB_NO_ARGS, &rows, &err),
             &err);
    CHECK_OK(exp_db_next(&rows, &has_row, &err), &err);
    CHECK(has_row);
    CHECK(exp_db_int(&rows, 0) == INT64_MIN);
    CHECK(exp_db_int(&rows, 1) == INT64_MAX);
    CHECK(exp_db_double(&rows, 2) == 0.1);
    CHECK_STR(exp_db_text(&rows, 3), "\xc3\xa4");
    struct exp_db_value v = exp_db_column(&rows, 4);
    CHECK_EQ(v.length, 4);
    CHECK(memcmp(v.data, bytes, 4) == 0);
    CHECK(exp_db_is_null(&rows, 5));
    CHECK_OK(exp_db_next(&rows, &has_row, &err), &err);
    CHECK(!has_row);
    exp_db_done(&rows);
    exp_db_close(db);
    end(&p);
}

TEST(same_query_twice_at_once__does_not_disturb)
{
    struct place p;
    struct ebb_error err;
    struct exp_db_rows outer, inner;
    bool has_row;
    static const char sql[] = "SELECT name FROM templates ORDER BY name";
    begin(&p);
    struct exp_db *db = open_db(&p, (struct exp_db_options){0});
    CHECK_OK(put(db, "a", &err), &err);
    CHECK_OK(put(db, "b", &err), &err);
    CHECK_OK(exp_db_query(db, sql, EXP_DB_NO_ARGS, &outer, &err), &err);
    CHECK_OK(exp_db_next(&outer, &has_row, &err), &err);
    CHECK_OK(exp_db_query(db, sql, EXP_DB_NO_ARGS, &inner, &err), &err);
    CHECK_OK(exp_db_next(&inner, &has_row, &err), &err);
    CHECK_OK(exp_db_next(&inner, &has_row, &err), &err);
    CHECK_STR(exp_db_text(&inner, 0), "b");
    exp_db_done(&inner);
    CHECK_STR(exp_db_text(&outer, 0), "a");
    CHECK_OK(exp_db_next(&outer, &has_row, &err), &err);
    CHECK_STR(exp_db_text(&outer, 0), "b");
    exp_db_done(&outer);
    exp_db_close(db);
    end(&p);
}

TEST(newer_schema__is_refused)
{
    struct place p;
    struct ebb_error err;
    begin(&p);
    struct exp_db *db = open_db(&p, (struct exp_db_options){0}), *other = NULL;
    CHECK_OK(exp_db_run(db, "INSERT INTO schema_version (version) VALUES ($1)",
                        EXP_DB_ARGS(exp_db_i(EXP_DB_VERSION + 1)), &err),
             &err);
    CHECK_OK(exp_db_commit(db, &err), &err);
    exp_db_close(db);
    struct exp_db_options options = {.path = p.path};
    CHECK_EQ(exp_db_open(&options, &other, &err), EBB_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "newer"));
    end(&p);
}

TEST(older_schema__is_brought_up_to_date)
{
    static const char *const back[] = {
        "DROP TABLE curves",
        "DROP TABLE tokens",
        "DROP TABLE batches",
        "DROP INDEX validations_best",
        "DROP INDEX list_description",
        "DROP INDEX list_state",
        "DROP INDEX list_progress",
        "DROP INDEX list_start",
        "DROP INDEX list_end",
        "DROP INDEX list_owner",
        "DROP INDEX list_labels",
        "INSERT INTO steps (trial_id, id, state, metrics) VALUES (1, 1, 'COMPLETED',"
        " '{\"num_inputs\": 8, \"batch_metrics\": [{\"loss\": 2}, {\"loss\": 4}],"
        " \"avg_metrics\": {\"loss\": 3}}')",
        "INSERT INTO steps (trial_id, id, state, metrics) VALUES (1, 2, 'ERROR', NULL)",
        "INSERT INTO trials (id, experiment_id, request_id, state, start_time, hparams, seed, "
        "restarts,"
        " steps, sequence, log_offset, log_bytes) VALUES (1, 1, 'r', 'COMPLETED', 1.0, '{}', 0, 0, "
        "1,"
        " '{}', 0, 0)",
        "INSERT INTO validations (trial_id, step_id, state, end_time, signed_metric, is_best)"
        " VALUES (1, 1, 'COMPLETED', 9.0, 0.5, 1)",
        "DROP TABLE users",
        "ALTER TABLE experiment_configs DROP COLUMN board",
        "DELETE FROM schema_version",
        "INSERT INTO schema_version (version) VALUES (1)",
        "INSERT INTO experiments (id, state, description, labels, owner, start_time, archived,"
        " searcher, metric, smaller_is_better, num_trials, num_ended, weight, save_experiment_best,"
        " save_trial_best, save_trial_latest) VALUES (1, 'PAUSED', '', '[]', 'ada', 5.0, 0, "
        "'single',"
        " 'm', 1, 0, 0, 1.0, 0, 1, 1)"};
    struct place p;
    struct ebb_error err;
    struct exp_db_rows rows;
    bool has_row = false;
    begin(&p);
    struct exp_db *db = open_db(&p, (struct exp_db_options){0});
    for (size_t i = 0; i < sizeof back / sizeof *back; i++)
        CHECK_OK(exp_db_run(db, back[i], EXP_DB_NO_ARGS, &err), &err);
    CHECK_OK(exp_db_commit(db, &err), &err);
    exp_db_close(db);
    db = open_db(&p, (struct exp_db_options){0});
    CHECK_OK(exp_db_query(db, "SELECT name, is_active, created_time FROM users", EXP_DB_NO_ARGS,
                          &rows, &err),
             &err);
    CHECK_OK(exp_db_next(&rows, &has_row, &err), &err);
    CHECK(has_row);
    CHECK_STR(exp_db_text(&rows, 0), "ada"); /* owners become users */
    CHECK_EQ(exp_db_int(&rows, 1), 1);
    exp_db_done(&rows);
    CHECK_OK(exp_db_query(db,
                          "SELECT s.metrics, b.metrics FROM steps s JOIN batches b ON"
                          " b.trial_id = s.trial_id AND b.step_id = s.id",
                          EXP_DB_NO_ARGS, &rows, &err),
             &err);
    CHECK_OK(exp_db_next(&rows, &has_row, &err), &err);
    CHECK(has_row);
    CHECK_STR(exp_db_text(&rows, 0), "{\"num_inputs\": 8, \"avg_metrics\": {\"loss\": 3}}");
    CHECK_STR(exp_db_text(&rows, 1), "[{\"loss\": 2}, {\"loss\": 4}]");
    CHECK_OK(exp_db_next(&rows, &has_row, &err), &err);
    CHECK(!has_row);
    exp_db_done(&rows);
    struct exp_db_blob kept;
    struct exp_db_curve_point point;
    struct exp_db_cursor c = exp_db_curve_bytes(db, EXP_DB_ID(1), &kept, &err);
    CHECK(exp_db_fetch(&c));
    CHECK_EQ(exp_db_curve_read(kept.bytes, &point, 1), 1);
    CHECK(point.step == 1 && point.time == 9.0 && point.value == 0.5);
    CHECK_OK(exp_db_end(&c), &err);
    exp_db_close(db);
    end(&p);
}

/* ---- typed queries ---- */

struct exp_db_none {
    char unused;
};

#define SHAPE(type, FIELDS) extern const struct exp_db_shape type##_shape;
EXP_DB_STRUCTS(SHAPE)
static const struct exp_db_shape exp_db_none_shape = {0};

static void check_statement(struct exp_db *db, const char *name, enum exp_db_query_id id,
                            const struct exp_db_shape *in, const struct exp_db_shape *out)
{
    sqlite3_stmt *statement = db->cache[id].statement;
    if (statement == NULL)
        printf("%s: not prepared\n", name);
    assert_non_null(statement);
    CHECK(!db->cache[id].is_busy);
    if (sqlite3_bind_parameter_count(statement) != (int)in->count ||
        sqlite3_column_count(statement) != (int)out->count)
        printf("%s: parameters or columns do not match its structs\n", name);
    CHECK_EQ(sqlite3_bind_parameter_count(statement), (int)in->count);
    CHECK_EQ(sqlite3_column_count(statement), (int)out->count);
    for (size_t i = 0; out->count > 1 && i < out->count; i++)
        CHECK_STR(sqlite3_column_name(statement, (int)i), out->fields[i].name);
}

TEST(queries__fit_the_schema_and_their_structs)
{
    struct place p;
    struct ebb_error err;
    begin(&p);
    struct exp_db *db = open_db(&p, (struct exp_db_options){0});
#define READ(function, in, out, sql)                                                               \
    {                                                                                              \
        struct out row;                                                                            \
        struct exp_db_cursor c = function(db, &(struct in){0}, &row, &err);                        \
        (void)exp_db_fetch(&c);                                                                    \
        CHECK_OK(exp_db_end(&c), &err);                                                            \
        check_statement(db, #function, function##_query, &in##_shape, &out##_shape);               \
    }
#define WRITE(function, in, sql)                                                                   \
    (void)function(db, &(struct in){0}, &err); /* may fail: columns that must not be null are */   \
    check_statement(db, #function, function##_query, &in##_shape, &exp_db_none_shape);
    EXP_DB_QUERIES(READ, WRITE)
    exp_db_close(db);
    end(&p);
}

TEST(rows__bring_null_as_each_kind_has_it)
{
    struct place p;
    struct ebb_error err;
    struct ebb_arena arena;
    struct exp_db_trial_made made = {.id = 7,
                                     .experiment_id = 3,
                                     .request_id = "r",
                                     .state = "ACTIVE",
                                     .start_time = 0.5,
                                     .hparams = "{}",
                                     .seed = INT64_MAX,
                                     .sequence = ""};
    struct exp_db_trial *rows = NULL;
    size_t count = 0;
    begin(&p);
    ebb_arena_init(&arena);
    struct exp_db *db = open_db(&p, (struct exp_db_options){0});
    CHECK_OK(exp_db_trial_add(db, &made, &err), &err);
    made.id = 8;
    made.warm_start = "w";
    CHECK_OK(exp_db_trial_add(db, &made, &err), &err);
    CHECK_OK(exp_db_trial_write(db,
                                &(struct exp_db_trial_state){.id = 8,
                                                             .state = "ERROR",
                                                             .end_time = (double)NAN,
                                                             .best_signed = -1.5,
                                                             .best_step_id = EXP_DB_NO_INT,
                                                             .sequence = "s"},
                                &err),
             &err);
    CHECK_OK(exp_db_all(exp_db_trials(db, EXP_DB_ID(3), NULL, &err), &arena, &rows, &count), &err);
    CHECK_EQ(count, 2);
    CHECK_EQ(rows[0].id, 7);
    CHECK(rows[0].seed == INT64_MAX && rows[0].start_time == 0.5);
    CHECK(rows[0].warm_start == NULL && isnan(rows[0].best_signed));
    CHECK(rows[0].best_step_id == EXP_DB_NO_INT);
    CHECK_STR(rows[1].warm_start, "w");
    CHECK_STR(rows[1].state, "ERROR");
    CHECK(rows[1].best_signed == -1.5 && isnan(rows[1].end_time) && rows[1].latest_signed == 0);
    CHECK(rows[1].best_step_id == EXP_DB_NO_INT);
    exp_db_close(db);
    ebb_arena_fini(&arena);
    end(&p);
}

static void add_experiment(struct exp_db *db, int64_t id, const char *description, bool archived)
{
    struct ebb_error err;
    char sql[512];
    snprintf(sql, sizeof sql,
             "INSERT INTO experiments (id, state, description, labels, owner, start_time, archived,"
             " searcher, metric, smaller_is_better, num_trials, num_ended, weight,"
             " save_experiment_best, save_trial_best, save_trial_latest) VALUES (%d, '%s', '%s',"
             " '[\"a_b\"]', 'ada', 5.0, %d, 'single', 'm', 1, 0, 0, 1.0, 0, 1, 1)",
             (int)id, id % 2 == 0 ? "PAUSED" : "ERROR", description, archived);
    CHECK_OK(db->driver->exec(db->connection, sql, &err), &err);
}

static void check_list(struct exp_db *db, struct exp_db_filter f, const char *expected)
{
    struct ebb_error err;
    struct exp_db_experiment row;
    struct exp_db_id total = {-1};
    char found[64] = "";
    f.limit = 100;
    struct exp_db_cursor c = exp_db_experiments(db, &f, &row, &err);
    while (exp_db_fetch(&c))
        snprintf(found + strlen(found), sizeof found - strlen(found), " %d", (int)row.id);
    CHECK_OK(exp_db_end(&c), &err);
    CHECK_STR(found, expected);
    CHECK_OK(exp_db_only(exp_db_experiments_count(db, &f, &total, &err), NULL, NULL), &err);
    CHECK_EQ(total.id, (int64_t)strlen(expected) / 2);
}

TEST(lists_of_experiments__are_filtered_and_sorted)
{
    struct place p;
    begin(&p);
    struct exp_db *db = open_db(&p, (struct exp_db_options){0});
    add_experiment(db, 1, "100%", false);
    add_experiment(db, 2, "1000", false);
    add_experiment(db, 3, "zebra", true);
    check_list(db, (struct exp_db_filter){.is_unarchived = true}, " 2 1");
    check_list(db, (struct exp_db_filter){.is_archived = true}, " 3");
    check_list(db, (struct exp_db_filter){.is_archived = true, .is_unarchived = true}, " 3 2 1");
    check_list(db, (struct exp_db_filter){.description = "0%"}, " 1");
    check_list(db,
               (struct exp_db_filter){
                   .labels = {"a_b"}, .label_count = 1, .owners = {"ada"}, .owner_count = 1},
               " 3 2 1");
    check_list(db, (struct exp_db_filter){.labels = {"axb"}, .label_count = 1}, "");
    check_list(db, (struct exp_db_filter){.labels = {"a_b", "axb"}, .label_count = 2}, "");
    check_list(db, (struct exp_db_filter){.owners = {"bob"}, .owner_count = 1}, "");
    check_list(db, (struct exp_db_filter){.owners = {"bob", "ada"}, .owner_count = 2}, " 3 2 1");
    check_list(db, (struct exp_db_filter){.states = {"ERROR", "ACTIVE"}, .state_count = 2}, " 3 1");
    check_list(db, (struct exp_db_filter){.sort = "description"}, " 1 2 3");
    check_list(db, (struct exp_db_filter){.sort = "description", .is_descending = true}, " 3 2 1");
    CHECK(exp_db_is_sort("owner") && !exp_db_is_sort("owner; DROP TABLE trials"));
    exp_db_close(db);
    end(&p);
}

TEST(file_that_is_no_database__is_refused)
{
    struct place p;
    struct ebb_error err;
    struct exp_db *db = NULL;
    begin(&p);
    FILE *out = fopen(p.path, "w");
    for (int i = 0; i < 1000; i++)
        fputs("this is no database ", out);
    fclose(out);
    struct exp_db_options options = {.path = p.path};
    CHECK_EQ(exp_db_open(&options, &db, &err), EBB_ECORRUPT);
    end(&p);
}

TEST(memory__runs_out_at_any_point_without_leaks)
{
    struct place p;
    struct ebb_error err;
    begin(&p);
    uint64_t before = ebb_heap_live();
    struct exp_db_options options = {.path = p.path};
    for (uint64_t n = 1;; n++) {
        struct exp_db *db = NULL;
        ebb_heap_fail_at(n);
        enum ebb_status status = exp_db_open(&options, &db, &err);
        if (status == EBB_OK)
            status = put(db, "a", &err);
        ebb_heap_fail_at(0);
        exp_db_close(db);
        CHECK_EQ(ebb_heap_live(), before);
        if (status == EBB_OK)
            break;
        CHECK_EQ(status, EBB_ENOMEM);
    }
    end(&p);
}

TEST_MAIN()
