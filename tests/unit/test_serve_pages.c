/* What pages are drawn from: trials by page, points, importance, curves, comparisons. */
#include "test.h"

#include <float.h>
#include <math.h>

#include "base/rng.h"
#include "exp/exp.h"
#include "master_fixture.h"
#include "serve/forest.h"
#include "serve/rest.h"
#include "serve/serve.h"

static char yaml[4096];
static struct fixture f;

static void run_search(void)
{
    fixture_begin(&f, 4);
    fixture_open(&f);
    fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "",
                                    "name: random, max_steps: 2, max_trials: 7", "labels: [a]\n"));
    fixture_run(&f, 60);
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
}

static const struct ebb_doc_node *list_of(const char *key, const char *target)
{
    const struct ebb_doc_node *list = ebb_doc_get(fixture_get(&f, "%s", target), key);
    assert_non_null(list);
    return list;
}

TEST(trials__come_by_page_in_any_order)
{
    int status;
    run_search();
    const struct ebb_doc_node *root = fixture_get(&f, "/experiments/1/trials?limit=3&offset=2");
    const struct ebb_doc_node *list = ebb_doc_get(root, "trials");
    CHECK_EQ(ebb_doc_int(root, "total", 0), 7);
    CHECK_EQ(list->count, 3);
    CHECK_EQ(ebb_doc_int(list->items[0], "id", 0), 3);
    static const char *const sorts[] = {"hparams.rate",     "-hparams.rate", "best_validation",
                                        "-best_validation", "metric",        "-id",
                                        "start_time"};
    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++) {
        double last = (double)-INFINITY;
        bool is_down = sorts[i][0] == '-';
        const char *key = sorts[i] + is_down;
        root = fixture_get(&f, "/experiments/1/trials?limit=100&sort=%s", sorts[i]);
        list = ebb_doc_get(root, "trials");
        CHECK_EQ(list->count, 7);
        for (size_t k = 0; k < list->count; k++) {
            const struct ebb_doc_node *t = list->items[k];
            double value = strncmp(key, "hparams.", 8) == 0
                               ? ebb_doc_double(ebb_doc_get(t, "hparams"), key + 8, 0)
                           : strcmp(key, "id") == 0 ? (double)ebb_doc_int(t, "id", 0)
                           : strcmp(key, "start_time") == 0
                               ? (double)ebb_doc_int(t, "id", 0)
                               : ebb_doc_double(t, "best_validation", 0);
            value = is_down ? -value : value;
            CHECK(value >= last);
            last = value;
        }
    }
    CHECK_EQ(list_of("trials", "/experiments/1/trials?limit=9&state=ERROR")->count, 0);
    CHECK_EQ(list_of("trials", "/experiments/1/trials?limit=9&state=ERROR,COMPLETED")->count, 7);
    fixture_ask(&f, "GET", "/experiments/1/trials?limit=9&sort=hparams.none", NULL, &status);
    CHECK_EQ(status, 400);
    fixture_ask(&f, "GET", "/experiments/9/trials?limit=9", NULL, &status);
    CHECK_EQ(status, 404);
    fixture_ask(&f, "GET", "/experiments/1/trials?limit=9&state=EROR", NULL, &status);
    CHECK_EQ(status, 400);
    CHECK_EQ(list_of("trials", "/experiments/1/trials?limit=9223372036854775807&offset=5")->count,
             2);
    fixture_end(&f);
}

/* Numbers in their order, then texts in theirs; ties by trial. */
TEST(trials__with_values_of_all_kinds_have_an_order)
{
    static const char *const orders[][2] = {
        {"hparams.kind", "true 1 2 4500000000000000 adam conv relu sgd \xc3\xa9 "},
        {"-hparams.kind", "\xc3\xa9 sgd relu conv adam 4500000000000000 2 1 true "}};
    fixture_begin(&f, 4);
    fixture_open(&f);
    snprintf(yaml, sizeof yaml,
             "description: kinds\nentrypoint: [\"%s\"]\nbatches_per_step: 4\nmax_restarts: 0\n"
             "hyperparameters:\n  global_batch_size: 8\n  rate: 0.5\n"
             "  kind: {type: categorical, vals: [conv, 4500000000000000, sgd, adam, 2, true, "
             "'\xc3\xa9', 1, relu]}\nsearcher: {name: grid, metric: error, max_steps: 1}\n",
             EBB_TRIAL_CHAIN);
    fixture_submit(&f, yaml);
    fixture_run(&f, 60);
    for (size_t i = 0; i < 2; i++) {
        struct ebb_str found = {0};
        char target[100];
        snprintf(target, sizeof target, "/experiments/1/trials?limit=99&sort=%s", orders[i][0]);
        const struct ebb_doc_node *list = list_of("trials", target);
        for (size_t k = 0; k < list->count; k++) {
            const struct ebb_doc_node *v =
                ebb_doc_get(ebb_doc_get(list->items[k], "hparams"), "kind");
            if (v->kind == EBB_DOC_STRING)
                ebb_str_printf(&found, "%s ", v->text);
            else if (v->kind == EBB_DOC_BOOL)
                ebb_str_printf(&found, "%s ", v->boolean ? "true" : "false");
            else
                ebb_str_printf(&found, "%.0f ", v->number);
        }
        CHECK_STR(ebb_str_c(&found), orders[i][1]);
        ebb_str_fini(&found);
    }
    fixture_end(&f);
}

TEST(tasks__are_told_as_far_as_wanted)
{
    fixture_begin(&f, 1);
    fixture_open(&f);
    fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "--sleep-ms 2000",
                                    "name: random, max_steps: 1, max_trials: 9", ""));
    fixture_turn_for(&f, 100);
    const struct ebb_doc_node *root = fixture_get(&f, "/tasks?limit=2");
    CHECK_EQ(ebb_doc_int(root, "total", 0), 9);
    CHECK_EQ(ebb_doc_get(root, "tasks")->count, 3); /* one runs, two of those that wait */
    CHECK_EQ(list_of("tasks", "/tasks")->count, 9);
    fixture_end(&f);
}

TEST(labels__are_found_as_they_are)
{
    static const char *const labels[] = {
        "Plain", "plain", "a \"quoted\" one", "back\\slash", "<b>", "\xc3\xa9t\xc3\xa9", "100%_"};
    const size_t count = sizeof labels / sizeof *labels;
    fixture_begin(&f, 1);
    fixture_open(&f);
    for (size_t i = 0; i < count; i++) {
        char *body = fixture_body(
            fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1", ""), false);
        char target[64];
        struct ebb_str change = {0};
        struct ebb_json_writer w;
        fixture_ask(&f, "POST", "/experiments", body, NULL);
        ebb_free(body);
        ebb_jsonw_init(&w, &change, 0);
        ebb_jsonw_object(&w);
        ebb_jsonw_key_object(&w, "labels");
        ebb_jsonw_key_bool(&w, labels[i], true);
        ebb_jsonw_object_end(&w);
        ebb_jsonw_object_end(&w);
        snprintf(target, sizeof target, "/experiments/%zu", i + 1);
        fixture_ask(&f, "PATCH", target, ebb_str_c(&change), NULL);
        ebb_str_fini(&change);
    }
    for (size_t i = 0; i < count; i++) {
        struct ebb_str target = {0};
        ebb_str_add(&target, "/experiments?limit=9&label=");
        serve_http_escape(&target, labels[i]);
        const struct ebb_doc_node *root = fixture_ask(&f, "GET", ebb_str_c(&target), NULL, NULL);
        const struct ebb_doc_node *list = ebb_doc_get(root, "experiments");
        if (list->count != 1 || ebb_doc_int(list->items[0], "id", 0) != (int64_t)i + 1)
            fail_msg("%s: %zu experiments", labels[i], list->count);
        CHECK_EQ(ebb_doc_int(root, "total", 0), 1);
        ebb_str_fini(&target);
    }
    CHECK_EQ(list_of("experiments", "/experiments?limit=9&label=lai")->count, 0);
    CHECK_EQ(list_of("experiments", "/experiments?limit=9&description=TES")->count, count);
    fixture_end(&f);
}

TEST(points__have_every_trial_and_say_what_varies)
{
    run_search();
    const struct ebb_doc_node *root = fixture_get(&f, "/experiments/1/points");
    CHECK_STR(ebb_doc_string(root, "metric", ""), "error");
    CHECK_EQ(ebb_doc_get(root, "names")->count, 2);
    CHECK_EQ(ebb_doc_get(root, "varying")->count, 1);
    CHECK_STR(ebb_doc_get(root, "varying")->items[0]->text, "rate");
    CHECK_EQ(ebb_doc_get(root, "trials")->count, 7);
    const struct ebb_doc_node *one = ebb_doc_get(root, "trials")->items[0];
    CHECK_EQ(ebb_doc_get(one, "hparams")->count, 2);
    CHECK(ebb_doc_double(one, "value", -1) > 0);
    double best = ebb_doc_double(one, "value", -1);
    for (int step = 1; step <= 3; step++) { /* max_steps 2: validated after the last only */
        root = fixture_get(&f, "/experiments/1/points?step=%d", step);
        one = ebb_doc_get(root, "trials")->items[0];
        CHECK_EQ(ebb_doc_get(root, "trials")->count, 7);
        CHECK(ebb_doc_double(one, "value", -1) == (step == 2 ? best : -1));
    }
    root = fixture_get(&f, "/experiments/1/importance");
    CHECK_EQ(ebb_doc_get(root, "importance")->count, 1);
    fixture_end(&f);
}

TEST(work_of_a_trial__comes_by_page_and_in_sum)
{
    int status;
    run_search();
    const struct ebb_doc_node *root = fixture_get(&f, "/trials/1/workloads?limit=1");
    const struct ebb_doc_node *list = ebb_doc_get(root, "workloads");
    CHECK_EQ(ebb_doc_int(root, "total", 0), 2);
    CHECK_EQ(list->count, 1);
    CHECK_EQ(ebb_doc_int(list->items[0], "step_id", 0), 2); /* the newest */
    list = list_of("workloads", "/trials/1/workloads?limit=9&offset=1");
    CHECK_EQ(list->count, 1);
    CHECK_EQ(ebb_doc_int(list->items[0], "step_id", 0), 1);
    list = list_of("workloads", "/trials/1/workloads?limit=9&has=validation");
    CHECK_EQ(list->count, 1);
    CHECK(ebb_doc_given(list->items[0], "validation") != NULL);
    root = fixture_get(&f, "/trials/1/workloads?limit=9&has=checkpoint");
    CHECK_EQ(ebb_doc_get(root, "workloads")->count, (size_t)ebb_doc_int(root, "total", -1));
    fixture_ask(&f, "GET", "/trials/1/workloads?limit=9&has=nothing", NULL, &status);
    CHECK_EQ(status, 400);
    fixture_ask(&f, "GET", "/trials/99/workloads?limit=9", NULL, &status);
    CHECK_EQ(status, 404);
    root = fixture_get(&f, "/trials/1/summary");
    CHECK(ebb_doc_double(ebb_doc_get(root, "work"), "training", -1) >= 0);
    CHECK(ebb_doc_given(root, "memory") == NULL); /* it is no built-in trial */
    fixture_ask(&f, "GET", "/trials/99/summary", NULL, &status);
    CHECK_EQ(status, 404);
    fixture_end(&f);
}

TEST(forest__finds_what_matters_and_is_repeatable)
{
    enum { ROWS = 3000, COLUMNS = 6 };
    static double cells[ROWS * COLUMNS], values[ROWS];
    uint64_t rng = 7;
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t k = 0; k < COLUMNS; k++)
            cells[i * COLUMNS + k] = (double)(ebb_splitmix64(&rng) >> 11) * 0x1p-53;
        double x = cells[i * COLUMNS + 2], y = cells[i * COLUMNS + 4];
        values[i] = 10 * (x - 0.3) * (x - 0.3) + 0.5 * y;
    }
    struct serve_forest forest = {cells, values, ROWS, COLUMNS, 1};
    double a[COLUMNS], b[COLUMNS], sum = 0;
    struct ebb_arena arena = {0};
    struct ebb_error err;
    CHECK_OK(serve_forest_importance(&arena, &forest, a, &err), &err);
    CHECK_OK(serve_forest_importance(&arena, &forest, b, &err), &err);
    for (size_t k = 0; k < COLUMNS; k++) {
        CHECK(a[k] == b[k]);
        CHECK(k == 2 || a[2] > 3 * a[k]);
        CHECK(k == 2 || k == 4 || a[4] > a[k]);
        sum += a[k];
    }
    CHECK(fabs(sum - 1) < 1e-9);
    for (size_t i = 0; i < ROWS; i++)
        values[i] = 1; /* nothing to explain */
    CHECK_OK(serve_forest_importance(&arena, &forest, a, &err), &err);
    for (size_t k = 0; k < COLUMNS; k++)
        CHECK(a[k] == 0);
    ebb_arena_fini(&arena);
}

TEST(curves__are_thinned_and_keep_their_peaks)
{
    struct ebb_error err;
    run_search();
    struct exp_db *db = exp_master_db(f.m);
    for (int64_t step = 3; step <= 5000; step++) {
        struct exp_db_validation v = {.trial_id = 1,
                                      .step_id = step,
                                      .state = "COMPLETED",
                                      .start_time = 1,
                                      .end_time = (double)step,
                                      .metrics = "{\"validation_metrics\": {\"other\": 4}}",
                                      .signed_metric = step == 2345   ? 99
                                                       : step == 4001 ? -7
                                                       : step % 3 == 1
                                                           ? DBL_MAX /* NaN, as it is kept */
                                                           : 1 + 1e-3 * (double)(step % 7)};
        CHECK_OK(exp_db_validation_keep(db, &v, 1, &err), &err);
    }
    CHECK_OK(exp_db_commit(db, &err), &err);
    const struct ebb_doc_node *root = fixture_get(&f, "/curves?trials=1&points=50");
    const struct ebb_doc_node *curve = ebb_doc_get(root, "curves")->items[0];
    const struct ebb_doc_node *values = ebb_doc_get(curve, "values"),
                              *batches = ebb_doc_get(curve, "batches");
    CHECK(ebb_doc_int(curve, "count", 0) > 4990);
    CHECK(values->count <= 50 && values->count >= 10);
    CHECK_EQ(values->count, batches->count);
    CHECK_EQ(batches->items[batches->count - 1]->integer, 5000 * 4);
    bool has_peak = false, has_dip = false;
    for (size_t i = 0; i < values->count; i++) {
        has_peak |= values->items[i]->number == 99 && batches->items[i]->integer == 2345 * 4;
        has_dip |= values->items[i]->number == -7;
        CHECK(i == 0 || batches->items[i]->integer > batches->items[i - 1]->integer);
    }
    CHECK(has_peak && has_dip);
    /* the same from what is kept for the trial */
    root = fixture_get(&f, "/experiments/1/curves?max_trials=7&points=40");
    has_peak = has_dip = false;
    for (size_t i = 0; i < ebb_doc_get(root, "curves")->count; i++) {
        curve = ebb_doc_get(root, "curves")->items[i];
        values = ebb_doc_get(curve, "values");
        if (ebb_doc_int(curve, "trial_id", 0) != 1)
            continue;
        CHECK(values->count <= 40 && values->count >= 10);
        for (size_t k = 0; k < values->count; k++) {
            has_peak |= values->items[k]->number == 99;
            has_dip |= values->items[k]->number == -7;
        }
    }
    CHECK(has_peak && has_dip);
    CHECK_OK(exp_db_curve_forget(db, 1, &(struct exp_db_step_id){1, 2345}, &err), &err);
    root = fixture_get(&f, "/experiments/1/curves?max_trials=7&points=64");
    for (size_t i = 0; i < ebb_doc_get(root, "curves")->count; i++) {
        curve = ebb_doc_get(root, "curves")->items[i];
        batches = ebb_doc_get(curve, "batches");
        CHECK(batches->items[batches->count - 1]->integer <= 2345 * 4);
    }
    root = fixture_get(&f, "/experiments/1/curves?max_trials=3&metric=loss&kind=training");
    CHECK_EQ(ebb_doc_get(root, "curves")->count, 3);
    CHECK_EQ(ebb_doc_get(ebb_doc_get(root, "curves")->items[0], "values")->count, 2);
    /* only what is new */
    root = fixture_get(&f, "/curves?trials=1");
    values = ebb_doc_get(ebb_doc_get(root, "curves")->items[0], "times");
    double late = values->items[values->count - 1]->number;
    root = fixture_get(&f, "/curves?trials=1&since=%.3f", late + 1);
    CHECK_EQ(ebb_doc_get(ebb_doc_get(root, "curves")->items[0], "values")->count, 0);
    root = fixture_get(&f, "/curves?trials=1&since=%.3f", late - 10.5);
    values = ebb_doc_get(ebb_doc_get(root, "curves")->items[0], "values");
    batches = ebb_doc_get(ebb_doc_get(root, "curves")->items[0], "batches");
    CHECK_EQ(values->count, 11);
    CHECK(batches->items[batches->count - 1]->integer == 5000 * 4);
    CHECK(batches->count == 1 || batches->items[0]->integer < batches->items[1]->integer);
    root = fixture_get(&f, "/curves?trials=1&metric=other");
    CHECK(ebb_doc_get(ebb_doc_get(root, "curves")->items[0], "values")->count > 100);
    int status;
    fixture_ask(&f, "GET", "/curves?trials=1,99", NULL, &status);
    CHECK_EQ(status, 404);
    fixture_ask(&f, "GET", "/curves?trials=x", NULL, &status);
    CHECK_EQ(status, 400);
    fixture_end(&f);
}

TEST(comparison__shows_what_differs)
{
    int status;
    run_search();
    fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "",
                                    "name: random, max_steps: 1, max_trials: 2", "labels: [a]\n"));
    fixture_run(&f, 60);
    const struct ebb_doc_node *root = fixture_get(&f, "/compare?ids=1,2");
    const struct ebb_doc_node *list = ebb_doc_get(root, "differing");
    bool has_steps = false, has_metric = false;
    for (size_t i = 0; i < list->count; i++) {
        const char *key = ebb_doc_string(list->items[i], "key", "");
        has_steps |= strcmp(key, "searcher.max_steps") == 0;
        has_metric |= strcmp(key, "searcher.metric") == 0;
    }
    CHECK(has_steps && !has_metric);
    CHECK_EQ(ebb_doc_get(root, "sides")->count, 2);
    root = fixture_get(&f, "/compare?trials=1,2");
    list = ebb_doc_get(root, "differing");
    CHECK_EQ(list->count, 1);
    CHECK_STR(ebb_doc_string(list->items[0], "key", ""), "trial.rate");
    for (size_t i = 0; i < 2; i++) { /* of a trial its own best, not that of its experiment */
        root = fixture_get(&f, "/compare?trials=1,2");
        double best = ebb_doc_double(ebb_doc_get(root, "sides")->items[i], "best_metric", NAN);
        CHECK(best ==
              ebb_doc_double(fixture_get(&f, "/trials/%zu", i + 1), "best_validation", NAN));
    }
    fixture_ask(&f, "GET", "/compare?ids=1,77", NULL, &status);
    CHECK_EQ(status, 404);
    fixture_ask(&f, "GET", "/compare", NULL, &status);
    CHECK_EQ(status, 400);
    fixture_end(&f);
}

/* ---- secrets of a fork ---- */

/* A configuration read as a fork of `parent`: with its secrets, or NULL and what the refusal says. */
static const struct ebb_doc_node *layer; /* a template below it */
static const char *reveal(struct ebb_arena *arena, int64_t parent, const char *yaml_text,
                          const char **why)
{
    struct ebb_error err;
    struct serve_http_response response;
    struct serve_rest r = {
        .db = exp_master_db(f.m), .arena = arena, .err = &err, .response = &response};
    const struct ebb_doc_node *text = ebb_doc_new_string(arena, yaml_text);
    serve_http_response_init(&response);
    enum ebb_status status = serve_submit_reveal(&r, parent, layer, &text);
    *why = ebb_arena_strndup(arena, ebb_str_c(&response.body), response.body.length);
    serve_http_response_fini(&response);
    return status == EBB_OK ? text->text : NULL;
}

TEST(fork__has_the_secrets_of_its_parent_where_nothing_else_changes)
{
    struct ebb_arena arena = {0};
    struct ebb_error err;
    const char *why, *text;
    fixture_begin(&f, 1);
    fixture_open(&f);
    struct exp_db *db = exp_master_db(f.m);
    struct exp_db_config parent = {
        .experiment_id = 1,
        .config = "{\"checkpoint_storage\": {\"type\": \"s3\", \"bucket\": \"b\", \"secret_key\": "
                  "\"hunter2\"}, \"environment\": {\"registry_auth\": {\"username\": \"ada\", "
                  "\"password\": \"pw\"}}}"};
    CHECK_OK(exp_db_config_add(db, &parent, &err), &err);
    text = reveal(
        &arena, 1,
        "description: x\ncheckpoint_storage: {bucket: b, type: s3, secret_key: '********'}\n",
        &why);
    assert_non_null(text);
    CHECK_STR(text,
              "{\"description\": \"x\", \"checkpoint_storage\": {\"bucket\": \"b\", \"type\": "
              "\"s3\", \"secret_key\": \"hunter2\"}}");
    text = reveal(&arena, 1, "environment: {registry_auth: '********'}\n", &why);
    assert_non_null(text);
    assert_non_null(strstr(text, "\"pw\""));
    static const char *const bad[] = {
        "checkpoint_storage: {bucket: mine, type: s3, secret_key: '********'}\n",
        "checkpoint_storage: {bucket: b, type: s3, endpoint_url: evil, secret_key: '********'}\n",
        "checkpoint_storage: {type: s3, secret_key: '********'}\n",
        "checkpoint_storage: {bucket: '********', type: s3, secret_key: '********'}\n",
        "environment: {registry_auth: '********', image: x}\n",
        "environment: {registry_auth: {username: eve, password: '********'}}\n",
        "hyperparameters: {a: '********'}\n",
        "description: '********'\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        text = reveal(&arena, 1, bad[i], &why);
        if (text != NULL)
            fail_msg("%s: %s", bad[i], text);
        assert_non_null(strstr(why, "secret of experiment 1"));
        CHECK(strstr(why, "hunter2") == NULL);
    }
    CHECK(reveal(&arena, 0, "checkpoint_storage: {bucket: b, type: s3, secret_key: '********'}\n",
                 &why) == NULL);
    assert_non_null(strstr(why, "checkpoint_storage.secret_key: ******** stands for a secret"));
    CHECK(reveal(&arena, 7, "a: {b: '********'}\n", &why) == NULL);
    CHECK_STR(reveal(&arena, 1, "description: plain\n", &why), "description: plain\n");
    /* what a template would add changes the mapping, too */
    static const char same[] =
        "checkpoint_storage: {bucket: b, type: s3, secret_key: '********'}\n";
    static const char *const layers[] = {"checkpoint_storage: {endpoint_url: 'http://evil'}\n",
                                         "max_restarts: 1\nenvironment: {image: x}\n"};
    for (size_t i = 0; i < 2; i++) {
        CHECK_OK(ebb_doc_parse_yaml(&arena, "t", layers[i], strlen(layers[i]), &layer, &err), &err);
        CHECK((reveal(&arena, 1, same, &why) == NULL) == (i == 0));
    }
    layer = NULL;
    exp_db_rollback(db);
    ebb_arena_fini(&arena);
    fixture_end(&f);
}

TEST_MAIN()
