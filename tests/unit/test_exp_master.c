/* The master with real processes: what they train, how they fail, who gets the slots. */
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "serve/serve.h"
#include "master_fixture.h"

static char yaml[4096];

TEST(random_search__completes_and_keeps_what_the_policy_says)
{
    struct fixture f;
    int64_t id = fixture_begin_with(&f, 2, "", "name: random, max_steps: 3, max_trials: 4",
                                    "min_validation_period: 1\ncheckpoint_policy: all\n");
    fixture_run(&f, 60);
    const struct ebb_doc_node *e = fixture_get(&f, "/experiments/%lld", (long long)id);
    CHECK_STR(ebb_doc_string(e, "state", ""), "COMPLETED");
    CHECK_EQ(ebb_doc_int(e, "num_trials", 0), 4);
    CHECK_EQ(ebb_doc_int(e, "num_ended", 0), 4);
    const struct ebb_doc_node *trials =
        ebb_doc_get(fixture_get(&f, "/experiments/%lld/trials", (long long)id), "trials");
    CHECK_EQ(trials->count, 4);
    for (size_t i = 0; i < trials->count; i++) {
        CHECK_STR(ebb_doc_string(trials->items[i], "state", ""), "COMPLETED");
        CHECK_EQ(ebb_doc_int(trials->items[i], "steps", 0), 3);
        CHECK_EQ(ebb_doc_int(trials->items[i], "restarts", -1), 0);
    }
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/%lld/checkpoints", (long long)id), "checkpoints");
    CHECK_EQ(list->count, 12);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct ebb_doc_node *c = list->items[i];
        bool is_kept = strcmp(ebb_doc_string(c, "state", ""), "COMPLETED") == 0;
        CHECK_EQ(access(ebb_doc_string(c, "path", ""), F_OK) == 0, is_kept);
        kept += is_kept;
    }
    CHECK(kept >= 4 && kept <= 8); /* best and latest of each trial */
    fixture_end(&f);
}

/* ---- early ends ---- */

/* Every searcher, trials that never get better: each ends after the first validation and `patience`
 * more, as completed, and so does the experiment. */
static void end_early(const char *mode, const char *searcher, const char *more)
{
    struct fixture f;
    char text[512];
    snprintf(text, sizeof text, "%s, early_stopping: {patience: 2}", searcher);
    int64_t id = fixture_begin_with(&f, 2, mode, text, more);
    fixture_run(&f, 60);
    const struct ebb_doc_node *e = fixture_get(&f, "/experiments/%lld", (long long)id);
    if (strcmp(ebb_doc_string(e, "state", ""), "COMPLETED") != 0)
        fail_msg("%s: %s %s", searcher, ebb_doc_string(e, "state", ""),
                 ebb_doc_string(e, "error", ""));
    const struct ebb_doc_node *trials =
        ebb_doc_get(fixture_get(&f, "/experiments/%lld/trials", (long long)id), "trials");
    CHECK(trials->count >= 1);
    for (size_t i = 0; i < trials->count; i++) {
        CHECK_STR(ebb_doc_string(trials->items[i], "state", ""), "COMPLETED");
        if (ebb_doc_int(trials->items[i], "steps", 0) > 3)
            fail_msg("%s: trial %zu has %lld steps", searcher, i + 1,
                     (long long)ebb_doc_int(trials->items[i], "steps", 0));
    }
    fixture_end(&f);
}

TEST(patience__completes_trials_of_every_searcher)
{
    static const char *const searchers[] = {
        "name: single, max_steps: 40",
        "name: random, max_steps: 40, max_trials: 3",
        "name: grid, max_steps: 40",
        "name: adaptive, target_trial_steps: 32, step_budget: 128, max_rungs: 2",
        "name: adaptive_simple, max_steps: 32, max_trials: 4, max_rungs: 2",
        "name: adaptive_asha, max_length: 32, max_trials: 4, max_rungs: 2",
        "name: async_halving, max_length: 32, max_trials: 4, num_rungs: 3",
        "name: pbt, population_size: 3, num_rounds: 2, steps_per_round: 8, replace_function: "
        "{truncate_fraction: 0.3}, explore_function: {resample_probability: 0.2, perturb_factor: "
        "0.2}",
        "name: tpe, max_steps: 40, max_trials: 4, startup_trials: 2",
    };
    for (size_t i = 0; i < sizeof searchers / sizeof *searchers; i++)
        end_early("--flat", searchers[i], "min_validation_period: 1\n");
}

TEST(patience__looks_at_the_metric_that_it_names)
{
    struct fixture f;
    int64_t id =
        fixture_begin_with(&f, 1, "--flat",
                           "name: single, max_steps: 6, early_stopping: {patience: 2, metric: "
                           "other, smaller_is_better: false}",
                           "min_validation_period: 1\n");
    fixture_run(&f, 60);
    CHECK_STR(fixture_state(&f, id), "COMPLETED");
    CHECK_EQ(fixture_steps(&f, 1), 6); /* it gets better all the time */
    fixture_end(&f);
}

/* The master goes in the middle; the next one ends the trial where the first one would have. */
TEST(patience__survives_the_master)
{
    struct fixture f;
    int64_t id = fixture_begin_with(&f, 1, "--sleep-ms 60",
                                    "name: single, max_steps: 500, early_stopping: {patience: 4}",
                                    "min_validation_period: 1\nmin_checkpoint_period: 1\n"
                                    "reproducibility: {experiment_seed: 7}\n");
    fixture_run(&f, 120);
    int64_t steps = fixture_steps(&f, 1);
    CHECK_STR(fixture_state(&f, id), "COMPLETED");
    CHECK(steps > 4 && steps < 500);
    fixture_end(&f);
    id = fixture_begin_with(&f, 1, "--sleep-ms 60",
                            "name: single, max_steps: 500, early_stopping: {patience: 4}",
                            "min_validation_period: 1\nmin_checkpoint_period: 1\n"
                            "reproducibility: {experiment_seed: 7}\n");
    FIXTURE_UNTIL(&f, fixture_has_trial(&f) && fixture_steps(&f, 1) >= 3);
    exp_master_close(f.m, EXP_CLOSE_KILL, 0);
    fixture_open(&f);
    fixture_run(&f, 120);
    CHECK_STR(fixture_state(&f, id), "COMPLETED");
    CHECK_EQ(fixture_steps(&f, 1), steps);
    fixture_end(&f);
}

/* ---- states ---- */

static const char *const ten_steps = "name: single, max_steps: 10";

static void act(struct fixture *f, int64_t id, const char *verb, int want)
{
    char target[128];
    int status;
    snprintf(target, sizeof target, "/experiments/%lld/%s", (long long)id, verb);
    fixture_ask(f, "POST", target, NULL, &status);
    CHECK_EQ(status, want);
}

static size_t running(struct fixture *f)
{
    const struct ebb_doc_node *master = fixture_get(f, "/master");
    return (size_t)ebb_doc_int(master, "running", -1);
}

TEST(pause__frees_slots_at_the_next_boundary_and_resumes_from_there)
{
    struct fixture f;
    int64_t id = fixture_begin_with(&f, 1, "--sleep-ms 60", ten_steps, "");
    FIXTURE_UNTIL(&f, fixture_has_trial(&f) && fixture_steps(&f, 1) >= 1);
    CHECK_EQ(running(&f), 1);
    act(&f, id, "pause", 200);
    CHECK_STR(fixture_state(&f, id), "PAUSED");
    FIXTURE_UNTIL(&f, running(&f) == 0);
    int64_t steps = fixture_steps(&f, 1);
    CHECK(steps >= 1 && steps < 10);
    act(&f, id, "pause", 200); /* again: nothing */
    act(&f, id, "activate", 200);
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, id), "COMPLETED");
    const struct ebb_doc_node *t = fixture_get(&f, "/trials/1");
    CHECK_EQ(ebb_doc_int(t, "steps", 0), 10);
    CHECK_EQ(ebb_doc_int(t, "restarts", -1), 0);
    act(&f, id, "activate", 409);
    act(&f, id, "kill", 409);
    fixture_end(&f);
}

TEST(cancel__checkpoints_then_ends)
{
    struct fixture f;
    int64_t id = fixture_begin_with(&f, 1, "--sleep-ms 60", ten_steps, "");
    FIXTURE_UNTIL(&f, fixture_has_trial(&f) && fixture_steps(&f, 1) >= 1);
    act(&f, id, "archive", 409);
    act(&f, id, "cancel", 200);
    CHECK_STR(fixture_state(&f, id), "STOPPING_CANCELED");
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, id), "CANCELED");
    const struct ebb_doc_node *t = fixture_get(&f, "/trials/1");
    CHECK_STR(ebb_doc_string(t, "state", ""), "CANCELED");
    int64_t steps = ebb_doc_int(t, "steps", 0);
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/1/checkpoints"), "checkpoints");
    CHECK_EQ(list->count, 1);
    CHECK_EQ(ebb_doc_int(list->items[0], "step_id", 0), steps);
    act(&f, id, "archive", 200);
    CHECK_EQ(ebb_doc_int(fixture_get(&f, "/experiments"), "total", -1), 0);
    CHECK_EQ(ebb_doc_int(fixture_get(&f, "/experiments?archived=all"), "total", -1), 1);
    fixture_end(&f);
}

TEST(kill__is_at_once_and_without_checkpoint)
{
    struct fixture f;
    int64_t id = fixture_begin_with(&f, 1, "--sleep-ms 600000", ten_steps, "");
    FIXTURE_UNTIL(&f, fixture_has_trial(&f));
    act(&f, id, "kill", 200);
    fixture_run(&f, 60); /* a workload takes ten minutes */
    CHECK_STR(fixture_state(&f, id), "CANCELED");
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/1/checkpoints"), "checkpoints");
    CHECK_EQ(list->count, 0);
    fixture_end(&f);
}

TEST(delete__removes_files_then_rows)
{
    struct fixture f;
    int status;
    char path[300];
    int64_t id = fixture_begin_with(&f, 2, "", "name: random, max_steps: 2, max_trials: 3", "");
    fixture_ask(&f, "DELETE", "/experiments/1", NULL, &status);
    CHECK_EQ(status, 409);
    fixture_run(&f, 30);
    CHECK_EQ(id, 1);
    fixture_ask(&f, "DELETE", "/experiments/1", NULL, &status);
    CHECK_EQ(status, 202);
    fixture_run(&f, 30);
    fixture_ask(&f, "GET", "/experiments/1", NULL, &status);
    CHECK_EQ(status, 404);
    snprintf(path, sizeof path, "%s/checkpoints", f.dir);
    CHECK_EQ(rmdir(path), 0); /* empty */
    snprintf(path, sizeof path, "%s/trials", f.dir);
    CHECK_EQ(rmdir(path), 0);
    exp_master_close(f.m, EXP_CLOSE_KILL, 0);
    fixture_open(&f); /* numbers are not given twice */
    CHECK_EQ(fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "", ten_steps, "")), 2);
    fixture_end(&f);
}

TEST(patch__changes_what_may_change_and_all_or_nothing)
{
    struct fixture f;
    int status;
    fixture_begin_with(&f, 2, "--sleep-ms 30", "name: random, max_steps: 10, max_trials: 2",
                       "labels: [a]\n");
    const struct ebb_doc_node *e = fixture_ask(
        &f, "PATCH", "/experiments/1",
        "{\"description\": \"new\", \"labels\": {\"b\": true, \"a\": null}, \"resources\": "
        "{\"weight\": 2.5, \"max_slots\": 3}, \"notes\": \"n\"}",
        NULL);
    CHECK_STR(ebb_doc_string(e, "description", ""), "new");
    CHECK(ebb_doc_double(e, "weight", 0) == 2.5);
    CHECK_EQ(ebb_doc_int(e, "max_slots", 0), 3);
    const struct ebb_doc_node *labels = ebb_doc_get(e, "labels");
    CHECK_EQ(labels->count, 1);
    CHECK_STR(labels->items[0]->text, "b");
    fixture_ask(&f, "PATCH", "/experiments/1",
                "{\"description\": \"other\", \"resources\": {\"weight\": -1}}", &status);
    CHECK_EQ(status, 400);
    static const char *const bad[] = {"{\"state\": \"COMPLETED\"}",
                                      "{\"labels\": {\"\": true}}",
                                      "{\"labels\": {\"a\": 5}}",
                                      "{\"labels\": [\"a\"]}",
                                      "{\"resources\": {\"wieght\": 2}}",
                                      "{\"resources\": {\"max_slots\": 0}}",
                                      "{\"resources\": {\"weight\": 1e308}}",
                                      "{\"checkpoint_storage\": {\"type\": \"s3\"}}",
                                      "{\"name\": \"x\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture_ask(&f, "PATCH", "/experiments/1", bad[i], &status);
        CHECK_EQ(status, 400);
    }
    fixture_ask(&f, "PATCH", "/experiments/1", "{\"archived\": true, \"description\": \"x\"}",
                &status);
    CHECK_EQ(status, 409);
    e = fixture_get(&f, "/experiments/1");
    CHECK_STR(ebb_doc_string(e, "description", ""), "new");
    fixture_ask(&f, "PATCH", "/experiments/1", "{\"resources\": {\"max_slots\": 1}}", NULL);
    FIXTURE_UNTIL(&f, running(&f) == 1); /* lowering it preempts */
    fixture_end(&f);
}

TEST(submission__that_is_wrong_creates_nothing)
{
    struct fixture f;
    int status;
    fixture_begin(&f, 1);
    fixture_open(&f);
    fixture_yaml(yaml, sizeof yaml, "", "name: random, max_steps: -3, max_trials: 3",
                 "resourcez: {weight: 2}\n");
    char *body = fixture_body(yaml, true);
    const struct ebb_doc_node *error =
        ebb_doc_get(fixture_ask(&f, "POST", "/experiments", body, &status), "error");
    ebb_free(body);
    CHECK_EQ(status, 400);
    CHECK_EQ(ebb_doc_get(error, "findings")->count, 2);
    fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1",
                 "resources: {slots_per_trial: 2}\n");
    body = fixture_body(yaml, true);
    error = ebb_doc_get(fixture_ask(&f, "POST", "/experiments", body, &status), "error");
    ebb_free(body);
    CHECK_EQ(status, 400);
    CHECK(strstr(ebb_doc_string(error, "message", ""), "cannot run it yet") != NULL);
    fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1, source_trial_id: 9", "");
    body = fixture_body(yaml, true);
    error = ebb_doc_get(fixture_ask(&f, "POST", "/experiments", body, &status), "error");
    ebb_free(body);
    CHECK(strstr(ebb_doc_string(error, "message", ""), "no checkpoint found for source trial 9"));
    static const struct {
        const char *more, *message;
    } bad[] = {
        {"\"validateonly\": true", "validateonly: unknown key, nearest: validate_only"},
        {"\"archived\": \"yes\"", "archived: found \"yes\", allowed: true or false"},
        {"\"git_commit\": \"x\"", "all of them or none"},
        {"\"parent_id\": 1, \"model_definition\": [{\"path\": \"a\"}]", "only one of them"},
        {"\"model_definition\": [\"a\"]", "model_definition[0]: found \"a\", allowed: a mapping"},
        {"\"model_definition\": [{\"path\": \"a\", \"typ\": 1}]",
         "typ: unknown key, nearest: type"},
        {"\"model_definition\": [{\"path\": \"a\", \"type\": \"link\"}]",
         "type: found \"link\", allowed: file, dir"},
        {"\"model_definition\": [{\"path\": \"a\", \"mode\": -1}]",
         "mode: found -1, allowed: an integer >= 0, <= 4095"},
        {"\"model_definition\": [{\"path\": \"a\\u0000b\"}]", "path: found \"a\\x00b\""},
        {"\"model_definition\": [{\"path\": \"a\"}, {\"path\": \"a\"}]", "a: it is there twice"},
        {"\"model_definition\": [{\"path\": \"a/b/c\"}, {\"path\": \"a\"}]", "a/b/c: a is a file"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ebb_str text;
        fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1", "");
        body = fixture_body(yaml, true);
        ebb_str_init(&text);
        ebb_str_printf(&text, "%.*s, %s}", (int)strlen(body) - 1, body, bad[i].more);
        error = ebb_doc_get(fixture_ask(&f, "POST", "/experiments", ebb_str_c(&text), &status),
                            "error");
        CHECK_EQ(status, 400);
        if (strstr(ebb_doc_string(error, "message", ""), bad[i].message) == NULL)
            fail_msg("%s: %s", bad[i].more, ebb_doc_string(error, "message", ""));
        ebb_str_fini(&text);
        ebb_free(body);
    }
    CHECK_EQ(ebb_doc_int(fixture_get(&f, "/experiments?archived=all"), "total", -1), 0);
    fixture_end(&f);
}

TEST(warm_start__begins_at_step_one_and_protects_its_checkpoint)
{
    struct fixture f;
    fixture_begin_with(&f, 1, "", "name: single, max_steps: 2", "");
    fixture_run(&f, 30);
    fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "",
                                    "name: single, max_steps: 3, source_trial_id: 1", ""));
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, 2), "COMPLETED");
    CHECK_EQ(fixture_steps(&f, 2), 3);
    fixture_ask(&f, "PATCH", "/experiments/1",
                "{\"checkpoint_storage\": {\"save_experiment_best\": 0, \"save_trial_best\": 0, "
                "\"save_trial_latest\": 0}}",
                NULL);
    fixture_run(&f, 30);
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/1/checkpoints"), "checkpoints");
    CHECK_STR(ebb_doc_string(list->items[0], "state", ""), "COMPLETED");
    fixture_ask(&f, "PATCH", "/experiments/2",
                "{\"checkpoint_storage\": {\"save_experiment_best\": 0, \"save_trial_best\": 0, "
                "\"save_trial_latest\": 0}}",
                NULL);
    fixture_run(&f, 30);
    list = ebb_doc_get(fixture_get(&f, "/experiments/2/checkpoints"), "checkpoints");
    CHECK_STR(ebb_doc_string(list->items[0], "state", ""), "DELETED");
    fixture_end(&f);
}

TEST(warm_start__protects_its_checkpoint_before_the_first_trial)
{
    struct fixture f;
    char target[128], uuid[40];
    int status;
    fixture_begin_with(&f, 1, "", "name: single, max_steps: 1", "");
    fixture_run(&f, 30);
    char *body = fixture_body(
        fixture_yaml(yaml, sizeof yaml, "", "name: single, max_steps: 1, source_trial_id: 1", ""),
        false); /* paused: no trial has started from it yet */
    fixture_ask(&f, "POST", "/experiments", body, NULL);
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/1/checkpoints"), "checkpoints");
    snprintf(uuid, sizeof uuid, "%s", ebb_doc_string(list->items[0], "uuid", ""));
    snprintf(target, sizeof target, "/checkpoints/%s", uuid);
    fixture_ask(&f, "DELETE", "/experiments/1", NULL, &status);
    CHECK_EQ(status, 409);
    fixture_ask(&f, "DELETE", target, NULL, &status);
    CHECK_EQ(status, 409);
    act(&f, 2, "activate", 200);
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, 2), "COMPLETED");
    fixture_ask(&f, "DELETE", "/experiments/2", NULL, NULL);
    fixture_run(&f, 30);
    fixture_ask(&f, "DELETE", target, NULL, &status); /* nobody needs it any more */
    CHECK_EQ(status, 202);
    fixture_ask(&f, "POST", "/experiments", body, &status); /* as good as gone */
    CHECK_EQ(status, 400);
    ebb_free(body);
    fixture_run(&f, 30);
    fixture_end(&f);
}

/* ---- masters that follow each other ---- */

static size_t begins(struct fixture *f)
{
    return ebb_doc_get(fixture_get(f, "/trials/1/logs?search=begins"), "logs")->count;
}

TEST(trial_of_an_earlier_master__is_adopted)
{
    struct fixture f;
    fixture_begin_with(&f, 1, "--sleep-ms 100", ten_steps, "");
    FIXTURE_UNTIL(&f, fixture_has_trial(&f) && fixture_steps(&f, 1) >= 2);
    exp_master_close(f.m, EXP_CLOSE_LEAVE, 0);
    /* somebody looks, and must not disturb */
    struct fixture reader = {.options = {.state_dir = f.dir, .is_reading_only = true}};
    ebb_arena_init(&reader.arena);
    fixture_open(&reader);
    CHECK_STR(fixture_state(&reader, 1), "ACTIVE");
    usleep(300000);
    exp_master_close(reader.m, EXP_CLOSE_LEAVE, 0);
    ebb_arena_fini(&reader.arena);
    fixture_open(&f);
    fixture_run(&f, 30);
    const struct ebb_doc_node *t = fixture_get(&f, "/trials/1");
    CHECK_STR(ebb_doc_string(t, "state", ""), "COMPLETED");
    CHECK_EQ(ebb_doc_int(t, "restarts", -1), 0);
    CHECK_EQ(ebb_doc_int(t, "steps", -1), 10);
    CHECK_EQ(begins(&f), 1); /* the same process to the end */
    fixture_end(&f);
}

static int64_t trial_in(const struct fixture *f, int64_t slot)
{
    int64_t trial = -1;
    (void)exp_master_slot(f->m, slot, &trial);
    return trial;
}

TEST(trial_that_is_adopted__keeps_its_slot)
{
    struct fixture f;
    fixture_begin(&f, 2);
    fixture_open(&f);
    fixture_ask(&f, "PATCH", "/agents/local/slots/0", "{\"enabled\": false}", NULL);
    fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "--sleep-ms 100", ten_steps, ""));
    FIXTURE_UNTIL(&f, fixture_has_trial(&f) && fixture_steps(&f, 1) >= 1);
    CHECK_EQ(trial_in(&f, 0), 0);
    CHECK_EQ(trial_in(&f, 1), 1);
    exp_master_close(f.m, EXP_CLOSE_LEAVE, 0);
    fixture_open(&f); /* all slots are enabled again */
    CHECK_EQ(trial_in(&f, 0), 0);
    CHECK_EQ(trial_in(&f, 1), 1);
    fixture_end(&f);
}

/* Fewer slots than processes: one has none and starts again, and does not free the other's. */
TEST(trial_that_finds_no_slot__leaves_the_others_alone)
{
    struct fixture f;
    int64_t id = fixture_begin_with(
        &f, 2, "--sleep-ms 100", "name: random, max_steps: 10, max_trials: 2", "max_restarts: 0\n");
    FIXTURE_UNTIL(&f,
                  trial_in(&f, 1) != 0 && fixture_steps(&f, 1) >= 1 && fixture_steps(&f, 2) >= 1);
    exp_master_close(f.m, EXP_CLOSE_LEAVE, 0);
    f.options.slots = 1;
    fixture_open(&f);
    CHECK_EQ(trial_in(&f, 0), 1);
    FIXTURE_UNTIL(&f, fixture_steps(&f, 1) >= 4);
    CHECK_EQ(trial_in(&f, 0), 1);
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, id), "COMPLETED");
    fixture_end(&f);
}

TEST(closing_with_preemption__checkpoints_first)
{
    struct fixture f;
    fixture_begin_with(&f, 1, "--sleep-ms 50", ten_steps, "");
    FIXTURE_UNTIL(&f, fixture_has_trial(&f) && fixture_steps(&f, 1) >= 2);
    exp_master_close(f.m, EXP_CLOSE_PREEMPT, 20000);
    fixture_open(&f);
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/1/checkpoints"), "checkpoints");
    CHECK_EQ(list->count, 1);
    CHECK(ebb_doc_int(list->items[0], "step_id", 0) >= 2);
    fixture_run(&f, 30);
    const struct ebb_doc_node *t = fixture_get(&f, "/trials/1");
    CHECK_EQ(ebb_doc_int(t, "restarts", -1), 0);
    CHECK_EQ(ebb_doc_int(t, "steps", -1), 10);
    CHECK_EQ(begins(&f), 2);
    fixture_end(&f);
}

/* ---- writing that fails ---- */

TEST(commits_that_fail__stall_and_lose_nothing)
{
    struct fixture f;
    fixture_begin(&f, 2);
    f.options.faults.commit_fail_from = 9;
    f.options.faults.commit_fail_count = 3;
    fixture_open(&f);
    int64_t id = fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "",
                                                 "name: random, max_steps: 3, max_trials: 3",
                                                 "max_restarts: 0\n"));
    fixture_run(&f, 60);
    CHECK_STR(fixture_state(&f, id), "COMPLETED");
    for (int t = 1; t <= 3; t++)
        CHECK_EQ(fixture_steps(&f, t), 3);
    fixture_end(&f);
}

TEST(master_that_only_reads__reads_searches_that_are_asked_for)
{
    struct fixture f;
    fixture_begin(&f, 1);
    fixture_open(&f);
    for (int i = 0; i < 3; i++)
        fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "--sleep-ms 1000",
                                        "name: random, "
                                        "max_steps: 9, max_trials: 50",
                                        ""));
    exp_master_close(f.m, EXP_CLOSE_KILL, 0);
    f.options.is_reading_only = true;
    fixture_open(&f);
    enum exp_state state;
    CHECK_EQ(exp_master_info(f.m).experiments, 3);
    CHECK_EQ(ebb_doc_get(fixture_get(&f, "/experiments"), "experiments")->count, 3);
    CHECK_STR(fixture_state(&f, 2), "ACTIVE");
    for (int64_t id = 1; id <= 3; id++)
        CHECK(!exp_master_find(f.m, id, &state)); /* rows were enough */
    fixture_ask(&f, "POST", "/experiments/2/pause", NULL, NULL);
    CHECK_STR(fixture_state(&f, 2), "PAUSED");
    CHECK(ebb_doc_get(fixture_get(&f, "/experiments/3/trials"), "trials")->count == 50);
    CHECK(!exp_master_find(f.m, 1, &state));
    fixture_ask(&f, "POST", "/experiments/1/cancel", NULL, NULL);
    FIXTURE_UNTIL(&f, strcmp(fixture_state(&f, 1), "CANCELED") == 0);
    fixture_end(&f);
}

TEST(second_master__is_refused)
{
    struct fixture f;
    struct exp_master *other = NULL;
    struct ebb_error err;
    fixture_begin(&f, 1);
    fixture_open(&f);
    CHECK_EQ(serve_open(&f.options, &other, &err), EBB_ELIMIT);
    CHECK(exp_master_runs(f.dir));
    fixture_end(&f);
}

TEST(lock__is_no_link_and_outlives_its_file)
{
    struct fixture f;
    struct exp_master *other = NULL;
    struct ebb_error err;
    char path[300], precious[300], text[16] = "";
    fixture_begin(&f, 1);
    snprintf(path, sizeof path, "%s/lock", f.dir);
    snprintf(precious, sizeof precious, "%s/precious", f.dir);
    FILE *file = fopen(precious, "w");
    fputs("precious", file);
    fclose(file);
    CHECK_EQ(symlink("precious", path), 0);
    CHECK_EQ(serve_open(&f.options, &other, &err), EBB_EIO);
    file = fopen(precious, "r");
    CHECK(fgets(text, sizeof text, file) != NULL);
    fclose(file);
    CHECK_STR(text, "precious");
    CHECK_EQ(unlink(path), 0);
    if (geteuid() == 0) { /* somebody else's is left alone */
        CHECK_EQ(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
        CHECK_EQ(chown(path, 65534, 65534), 0);
        CHECK(serve_open(&f.options, &other, &err) != EBB_OK);
        CHECK(strstr(err.message, "not a lock of this user's") != NULL);
        CHECK_EQ(unlink(path), 0);
    }
    fixture_open(&f);
    CHECK_EQ(unlink(path), 0);
    CHECK(exp_master_runs(f.dir));
    CHECK_EQ(serve_open(&f.options, &other, &err), EBB_ELIMIT);
    fixture_end(&f);
}

TEST(database__that_is_empty_is_no_new_state)
{
    struct fixture f;
    struct exp_master *other = NULL;
    struct ebb_error err;
    char path[300];
    fixture_begin_with(&f, 1, "", "name: single, max_steps: 1", "");
    fixture_run(&f, 30);
    exp_master_close(f.m, EXP_CLOSE_KILL, 0);
    snprintf(path, sizeof path, "%s/ebb.db", f.dir);
    CHECK_EQ(truncate(path, 0), 0);
    snprintf(path, sizeof path, "%s/ebb.db-wal", f.dir);
    (void)unlink(path);
    CHECK_EQ(serve_open(&f.options, &other, &err), EBB_ECORRUPT);
    CHECK(strstr(err.message, "there are trials") != NULL);
    f.m = NULL;
    fixture_end(&f);
}

/* ---- environment ---- */

TEST(environment_variables__of_the_experiment_win)
{
    struct fixture f;
    fixture_begin(&f, 1);
    f.options.python_path = "/client";
    fixture_open(&f);
    snprintf(yaml, sizeof yaml,
             "entrypoint: [sh, -c, 'test \"$OMP_NUM_THREADS $HOME $CUDA_VISIBLE_DEVICES\" = \"7 "
             "/nowhere 3\" && test \"${PYTHONPATH%%%%:*}\" = /mine && test "
             "$(tr \"\\\\000\" \"\\\\n\" </proc/$$/environ | grep -c ^OMP_NUM_THREADS=) = 1 && "
             "exec %s']\n"
             "environment:\n  environment_variables: [OMP_NUM_THREADS=7, HOME=/nowhere, "
             "CUDA_VISIBLE_DEVICES=3, PYTHONPATH=/mine]\n"
             "hyperparameters: {global_batch_size: 1}\n"
             "searcher: {name: single, metric: error, max_steps: 1}\nmax_restarts: 0\n",
             EBB_TRIAL_CHAIN);
    fixture_submit(&f, yaml);
    fixture_run(&f, 30);
    const struct ebb_doc_node *e = fixture_get(&f, "/experiments/1");
    if (strcmp(ebb_doc_string(e, "state", ""), "COMPLETED") != 0)
        fail_msg("%s", ebb_doc_string(e, "error", ""));
    fixture_end(&f);
}

/* ---- checkpoints ---- */

TEST(checkpoint_that_is_damaged__leaves_the_one_before)
{
    struct fixture f;
    char command[800];
    int64_t id = fixture_begin_with(&f, 1, "--sleep-ms 60", ten_steps,
                                    "min_checkpoint_period: 1\nmin_validation_period: 1\n");
    FIXTURE_UNTIL(&f, fixture_has_trial(&f) && fixture_steps(&f, 1) >= 3);
    act(&f, id, "pause", 200);
    FIXTURE_UNTIL(&f, running(&f) == 0);
    snprintf(command, sizeof command,
             "cd %s/checkpoints && d=$(ls -td */ | head -n 1) && "
             "f=$(find $d -type f -size +0 ! -name '*.json' | head -n 1) && "
             "printf X | dd of=$f bs=1 conv=notrunc status=none",
             f.dir);
    CHECK_EQ(system(command), 0);
    act(&f, id, "activate", 200);
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, id), "COMPLETED");
    const struct ebb_doc_node *t = fixture_get(&f, "/trials/1");
    CHECK_EQ(ebb_doc_int(t, "steps", 0), 10);
    CHECK_EQ(ebb_doc_int(t, "restarts", -1), 0);
    CHECK(ebb_doc_get(fixture_get(&f, "/trials/1/logs?search=damaged"), "logs")->count >= 1);
    fixture_end(&f);
}

TEST(warm_start__from_a_damaged_checkpoint_fails_at_once)
{
    struct fixture f;
    char command[800];
    fixture_begin_with(&f, 1, "", "name: single, max_steps: 2", "");
    fixture_run(&f, 30);
    snprintf(command, sizeof command,
             "cd %s/checkpoints && for f in $(find . -type f -size +0 ! -name '*.json'); do "
             "chmod u+w $f && printf X | dd of=$f bs=1 conv=notrunc status=none; done",
             f.dir);
    CHECK_EQ(system(command), 0);
    fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "",
                                    "name: single, max_steps: 3, source_trial_id: 1",
                                    "max_restarts: 3\n"));
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, 2), "ERROR");
    const struct ebb_doc_node *t = fixture_get(&f, "/trials/2");
    CHECK_STR(ebb_doc_string(t, "state", ""), "ERROR");
    CHECK_EQ(ebb_doc_int(t, "restarts", -1), 0);
    CHECK(strstr(ebb_doc_string(t, "message", ""), "damaged") != NULL);
    CHECK_EQ(ebb_doc_get(fixture_get(&f, "/trials/2/logs?search=damaged"), "logs")->count, 1);
    fixture_end(&f);
}

struct measured {
    int steps[64], validations[64]; /* by trial * 8 + step */
    int wrong;
};

static void measure(void *context, const struct exp_master_metrics *m)
{
    struct measured *seen = context;
    size_t at = (size_t)(m->trial_id * 8 + m->step_id);
    char end[64];
    snprintf(end, sizeof end, "/tensorboard/experiment/%lld/trial/%lld",
             (long long)m->experiment_id, (long long)m->trial_id);
    size_t n = strlen(m->directory), k = strlen(end);
    if (at >= 64 || n <= k || strcmp(m->directory + n - k, end) != 0 ||
        ebb_doc_get(m->metrics, m->is_validation ? "error" : "loss") == NULL ||
        m->batches % m->step_id != 0 || !(m->time > 1e9)) {
        seen->wrong++;
        return;
    }
    (m->is_validation ? seen->validations : seen->steps)[at]++;
}

TEST(metrics__are_told_once_when_durable)
{
    struct fixture f;
    struct measured seen = {0};
    fixture_begin(&f, 1);
    f.options.on_metrics = measure;
    f.options.on_metrics_context = &seen;
    f.options.faults.commit_fail_from = 9; /* what failed to become durable comes again */
    f.options.faults.commit_fail_count = 3;
    fixture_open(&f);
    fixture_submit(
        &f, fixture_yaml(yaml, sizeof yaml, "", "name: random, max_steps: 3, max_trials: 2", ""));
    fixture_run(&f, 60);
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
    CHECK_EQ(seen.wrong, 0);
    for (size_t trial = 1; trial <= 2; trial++) {
        for (size_t step = 1; step <= 3; step++)
            CHECK_EQ(seen.steps[trial * 8 + step], 1);
        CHECK_EQ(seen.validations[trial * 8 + 3], 1);
    }
    fixture_end(&f);
}

TEST_MAIN()
