/* The database: durable or not there at all, versions, reading while writing. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/heap.h"
#include "exp/db/db.h"

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
    TEST_UNUSED;
    struct place p;
    struct ebb_error err;
    begin(&p);
    struct exp_db *db = open_db(&p, (struct exp_db_options){0});
    CHECK_OK(put(db, "a", &err), &err);
    CHECK_OK(exp_db_commit(db, &err), &err);
    CHECK_OK(put(db, "b", &err), &err);
    CHECK(exp_db_is_open(db));
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
    TEST_UNUSED;
    struct place p;
    struct ebb_error err;
    begin(&p);
    struct exp_db *db =
        open_db(&p, (struct exp_db_options){.commit_fail_from = 2, .commit_fail_count = 1});
    CHECK_OK(put(db, "a", &err), &err);
    CHECK_OK(exp_db_commit(db, &err), &err);
    CHECK_OK(put(db, "b", &err), &err);
    CHECK_EQ(exp_db_commit(db, &err), EBB_EIO);
    CHECK(!exp_db_is_open(db));
    CHECK_EQ(count(db), 1);
    CHECK_OK(put(db, "b", &err), &err);
    CHECK_OK(exp_db_commit(db, &err), &err);
    CHECK_EQ(count(db), 2);
    exp_db_close(db);
    end(&p);
}

TEST(failed_statement__rolls_the_transaction_back)
{
    TEST_UNUSED;
    struct place p;
    struct ebb_error err;
    begin(&p);
    struct exp_db *db = open_db(&p, (struct exp_db_options){0});
    CHECK_OK(put(db, "a", &err), &err);
    CHECK(put(db, "a", &err) != EBB_OK); /* the key is there */
    CHECK(!exp_db_is_open(db));
    CHECK_EQ(count(db), 0);
    CHECK_OK(exp_db_probe(db, &err), &err);
    exp_db_close(db);
    end(&p);
}

TEST(values__come_back_as_they_were)
{
    TEST_UNUSED;
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
    TEST_UNUSED;
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
    TEST_UNUSED;
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
    TEST_UNUSED;
    static const char *const back[] = {
        "DROP TABLE users", "ALTER TABLE experiment_configs DROP COLUMN board",
        "DELETE FROM schema_version", "INSERT INTO schema_version (version) VALUES (1)",
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
    exp_db_close(db);
    end(&p);
}

TEST(file_that_is_no_database__is_refused)
{
    TEST_UNUSED;
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
    TEST_UNUSED;
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

TEST_MAIN(RUN(commit__makes_durable_and_rollback_forgets),
          RUN(failed_commit__leaves_nothing_and_the_next_works),
          RUN(failed_statement__rolls_the_transaction_back), RUN(values__come_back_as_they_were),
          RUN(same_query_twice_at_once__does_not_disturb), RUN(newer_schema__is_refused),
          RUN(older_schema__is_brought_up_to_date), RUN(file_that_is_no_database__is_refused),
          RUN(memory__runs_out_at_any_point_without_leaks))
