/* Trials that misbehave, beside others that do not: each ends with its reason, and nothing stays. */
#include "test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "exp/master/proc.h"
#include "master_fixture.h"
#include "serve/serve.h"

static char yaml[4096];
static const char *const ten_steps = "name: single, max_steps: 10";

/* One bad experiment beside a good one: the good one completes, the bad one ends with `message`. */
static void beside(const char *mode, const char *searcher, const char *message,
                   const struct exp_master_options *more)
{
    struct fixture f;
    fixture_begin(&f, 2);
    if (more != NULL) {
        f.options = *more;
        f.options.state_dir = f.dir;
        f.options.slots = 2;
    }
    fixture_open(&f);
    int64_t bad =
        fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, mode, searcher, "max_restarts: 1\n"));
    int64_t good = fixture_submit(
        &f, fixture_yaml(yaml, sizeof yaml, "", "name: random, max_steps: 3, max_trials: 4", ""));
    fixture_run(&f, 60);
    CHECK_STR(fixture_state(&f, good), "COMPLETED");
    const struct ebb_doc_node *e = fixture_get(&f, "/experiments/%lld", (long long)bad);
    const char *error = ebb_doc_string(e, "error", "");
    CHECK_STR(ebb_doc_string(e, "state", ""), message != NULL ? "ERROR" : "COMPLETED");
    if (message != NULL && strstr(error, message) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", message, error);
    const struct ebb_doc_node *logs =
        ebb_doc_get(fixture_get(&f, "/trials/1/logs?level=ERROR"), "logs");
    CHECK_EQ(logs->count, message != NULL ? 2 : 0); /* the failure and its restart */
    char command[400];
    snprintf(command, sizeof command, "grep -l EBB_CONFIG=%s /proc/[0-9]*/environ >/dev/null 2>&1",
             f.dir);
    CHECK(system(command) != 0); /* nothing is left behind */
    fixture_end(&f);
}

static const struct exp_master_options quick = {.heartbeat_ms = 1500};

TEST(trial_that_never_answers__is_killed_and_says_so)
{
    beside("--silent", ten_steps, "gave no sign of life", &quick);
}

/* In a process of its own: 0 = the only trial completed and nothing had failed. */
static int be_master(struct fixture *f)
{
    fixture_open(f);
    fixture_submit(
        f, fixture_yaml(yaml, sizeof yaml, "--sleep-ms 100", ten_steps, "max_restarts: 0\n"));
    while (!exp_master_is_idle(f->m))
        exp_master_turn(f->m, 100);
    int code = strcmp(fixture_state(f, 1), "COMPLETED") == 0 ? 0 : 1;
    exp_master_close(f->m, EXP_CLOSE_KILL, 0);
    return code;
}

TEST(master_that_was_stopped__calls_nobody_silent)
{
    struct fixture f;
    char path[300];
    int status = -1;
    fixture_begin(&f, 1);
    f.options.heartbeat_ms = 2000;
    pid_t pid = fork();
    if (pid == 0)
        _exit(be_master(&f));
    snprintf(path, sizeof path, "%s/trials/1/log", f.dir);
    struct stat st = {0};
    while ((stat(path, &st) != 0 || st.st_size == 0) && waitpid(pid, &status, WNOHANG) == 0)
        usleep(1000);   /* until it has begun */
    kill(pid, SIGSTOP); /* as Ctrl-Z does */
    usleep(2300000);
    kill(pid, SIGCONT);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ebb_arena_fini(&f.arena);
    fixture_remove(f.dir);
}

/* A trial may run before the master's first turn: what it missed before that does not count. */
TEST(master_that_was_away_before_its_first_turn__calls_nobody_silent)
{
    struct fixture f;
    fixture_begin(&f, 1);
    f.options.heartbeat_ms = 2000;
    fixture_open(&f);
    fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "", ten_steps, "max_restarts: 0\n"));
    usleep(2300000);
    FIXTURE_UNTIL(&f, exp_master_is_idle(f.m));
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
    fixture_end(&f);
}

TEST(trial_that_never_connects__is_killed_and_says_so)
{
    beside("--mute", ten_steps, "did not connect", &quick);
}

TEST(trial_that_writes_garbage__is_killed_and_says_so)
{
    beside("--garbage", ten_steps, "breaks the protocol", NULL);
}

TEST(trial_that_says_hello_until_it_is_heard__is_heard)
{
    beside("--insist", "name: single, max_steps: 2", NULL, NULL);
}

TEST(trial_that_says_hello_for_another__is_killed_and_says_so)
{
    beside("--usurp", ten_steps, "a HELLO in another's name", NULL);
}

TEST(trial_that_answers_something_else__is_killed_and_says_so)
{
    beside("--wrong", ten_steps, "which was not asked for", NULL);
}

TEST(trial_that_is_killed_for_memory__says_so)
{
    beside("--suicide", ten_steps, "memory is out", NULL);
}

TEST(trial_with_a_memory_limit__fails_with_the_limit)
{
    struct exp_master_options limited = {.slot_memory_bytes = (uint64_t)64 << 20};
    beside("--hog", ten_steps, "limited to 64.0 MiB", &limited);
}

TEST(trial_that_ends_in_the_middle__has_failed)
{
    beside("--quit", ten_steps, "exited with status 0", NULL);
}

TEST(work_in_progress__is_active_and_fails_with_its_trial)
{
    struct fixture f;
    fixture_begin_with(&f, 1, "--sleep-ms 600000", ten_steps, "max_restarts: 0\n");
    const struct ebb_doc_node *list = NULL;
    FIXTURE_UNTIL(
        &f,
        fixture_has_trial(&f) &&
            (list = ebb_doc_get(fixture_get(&f, "/trials/1/workloads"), "workloads"))->count == 1);
    CHECK_EQ(ebb_doc_int(list->items[0], "step_id", 0), 1);
    CHECK_STR(ebb_doc_string(list->items[0], "state", ""), "ACTIVE");
    CHECK(ebb_doc_string(list->items[0], "start_time", NULL) != NULL);
    CHECK_EQ(fixture_steps(&f, 1), 0);
    fixture_ask(&f, "POST", "/trials/1/kill", NULL, NULL);
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, 1), "ERROR");
    list = ebb_doc_get(fixture_get(&f, "/trials/1/workloads"), "workloads");
    CHECK_EQ(list->count, 1);
    CHECK_STR(ebb_doc_string(list->items[0], "state", ""), "ERROR");
    /* whoever draws curves sees nothing of it */
    list = ebb_doc_get(fixture_get(&f, "/trials/time-series?ids=1&metric=loss"), "trials");
    CHECK_EQ(ebb_doc_get(list->items[0], "data")->count, 0);
    CHECK_EQ(ebb_doc_get(fixture_get(&f, "/experiments/1/metric-names"), "training")->count, 0);
    fixture_end(&f);
}

TEST(trial_that_says_failed__gives_its_reason)
{
    beside("--fail", ten_steps, "says: because", NULL);
}

TEST(checkpoint_with_a_link__is_refused)
{
    beside("--link", "name: single, max_steps: 1", "passwd is a link that leads to no file", NULL);
}

TEST(checkpoint_with_a_link_to_its_own_file__has_that_file)
{
    struct fixture f;
    char command[400];
    fixture_begin_with(&f, 1, "--alias", "name: single, max_steps: 1", "max_restarts: 0\n");
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
    snprintf(command, sizeof command,
             "cd '%s'/checkpoints/*-*-*-*-*/state && test ! -L alias && test ! -L absolute && "
             "cmp -s alias weights && cmp -s absolute weights",
             f.dir);
    CHECK_EQ(system(command), 0);
    fixture_end(&f);
}

TEST(trial_that_fails_for_want_of_room__is_started_again_and_nothing_is_counted)
{
    struct fixture f;
    fixture_begin_with(&f, 1, "--no-room", "name: single, max_steps: 2", "max_restarts: 0\n");
    fixture_run(&f, 60);
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
    CHECK_EQ(ebb_doc_int(fixture_get(&f, "/trials/1"), "restarts", -1), 0);
    const struct ebb_doc_node *logs =
        ebb_doc_get(fixture_get(&f, "/trials/1/logs?level=WARNING"), "logs");
    CHECK_EQ(logs->count, 1);
    CHECK(strstr(ebb_doc_string(logs->items[0], "message", ""), "waiting for room") != NULL);
    fixture_end(&f);
}

TEST(trial_that_forks__leaves_nothing_behind)
{
    beside("--fork", "name: single, max_steps: 2", NULL, NULL);
}

TEST(trial_that_floods_its_output__fills_neither_disk_nor_database)
{
    struct fixture f;
    fixture_begin(&f, 2);
    f.options.log_bytes_max = 1 << 20;
    fixture_open(&f);
    int64_t bad = fixture_submit(
        &f, fixture_yaml(yaml, sizeof yaml, "--flood", "name: single, max_steps: 1", ""));
    fixture_run(&f, 120);
    CHECK_STR(fixture_state(&f, bad), "COMPLETED");
    const struct ebb_doc_node *logs =
        ebb_doc_get(fixture_get(&f, "/trials/1/logs?level=WARNING"), "logs");
    CHECK_EQ(logs->count, 2);
    CHECK(strstr(ebb_doc_string(logs->items[0], "message", ""), "the last MiB is kept") != NULL);
    CHECK(strstr(ebb_doc_string(logs->items[1], "message", ""), "left out here") != NULL);
    const struct ebb_doc_node *ends =
        ebb_doc_get(fixture_get(&f, "/trials/1/logs?search=last%%20words"), "logs");
    CHECK_EQ(ends->count, 1); /* behind the flood */
    ends = ebb_doc_get(fixture_get(&f, "/trials/1/logs?search=begins%%20at"), "logs");
    CHECK_EQ(ends->count, 1); /* before it */
    char command[400];
    snprintf(command, sizeof command, "test $(du -sm '%s' | cut -f1) -lt 64", f.dir);
    CHECK_EQ(system(command), 0);
    fixture_end(&f);
}

TEST(invalid_sample__is_replaced_until_all_say_the_same)
{
    struct fixture f;
    fixture_begin(&f, 2);
    fixture_open(&f);
    /* every sample is invalid, and they all say the same: told once, and that is the end */
    int64_t id = fixture_submit(&f, fixture_yaml(yaml, sizeof yaml, "--invalid",
                                                 "name: random, max_steps: 1, max_trials: 2",
                                                 "max_restarts: 0\n"));
    fixture_run(&f, 120);
    CHECK_STR(fixture_state(&f, id), "ERROR");
    const struct ebb_doc_node *e = fixture_get(&f, "/experiments/1");
    CHECK(ebb_doc_int(e, "num_trials", 0) <= 12); /* two slots */
    CHECK(strstr(ebb_doc_string(e, "error", ""), "for the same reason: because") != NULL);
    fixture_end(&f);
}

TEST(invalid_sample__of_another_trial_is_not_tried)
{
    struct fixture f;
    char command[400];
    fixture_begin(&f, 1);
    fixture_open(&f);
    snprintf(yaml, sizeof yaml,
             "entrypoint: [\"%s\", --invalid]\n"
             "hyperparameters: {global_batch_size: 8, x: {type: categorical, vals: [1, 2, 3]}}\n"
             "searcher: {name: random, metric: error, max_steps: 1, max_trials: 30}\n"
             "max_restarts: 0\n",
             EBB_TRIAL_CHAIN);
    int64_t id = fixture_submit(&f, yaml);
    fixture_run(&f, 60);
    CHECK_STR(fixture_state(&f, id), "ERROR");
    snprintf(command, sizeof command, "test $(ls '%s'/trials | wc -l) -le 3", f.dir);
    CHECK_EQ(system(command), 0); /* one process for each sample there is */
    fixture_end(&f);
}

TEST(metric_that_is_no_number__ranks_as_the_worst)
{
    struct fixture f;
    fixture_begin_with(&f, 1, "--nan", "name: single, max_steps: 2", "");
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
    const struct ebb_doc_node *t = fixture_get(&f, "/trials/1");
    CHECK_STR(ebb_doc_string(t, "best_validation", ""), "NaN");
    const struct ebb_doc_node *logs =
        ebb_doc_get(fixture_get(&f, "/trials/1/logs?level=WARNING"), "logs");
    CHECK_EQ(logs->count, 1); /* said once */
    CHECK(strstr(ebb_doc_string(logs->items[0], "message", ""), "error is NaN") != NULL);
    fixture_end(&f);
}

TEST(trial_failure_continue__goes_on_with_the_others)
{
    struct fixture f;
    fixture_begin(&f, 2);
    fixture_open(&f);
    /* trials with an odd number cannot start */
    snprintf(yaml, sizeof yaml,
             "entrypoint: [sh, -c, 'test $((EBB_TRIAL_ID %% 2)) = 0 && exec %s']\n"
             "hyperparameters: {global_batch_size: 1, x: {type: double, minval: 0, maxval: 1}}\n"
             "searcher: {name: random, metric: error, max_steps: 1, max_trials: 4}\n"
             "max_restarts: 0\ntrial_failure: continue\n",
             EBB_TRIAL_CHAIN);
    fixture_submit(&f, yaml);
    fixture_run(&f, 30);
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/1/trials"), "trials");
    CHECK_EQ(list->count, 4);
    for (size_t i = 0; i < list->count; i++)
        CHECK_STR(ebb_doc_string(list->items[i], "state", ""), i % 2 == 0 ? "ERROR" : "COMPLETED");
    fixture_end(&f);
}

TEST(program_that_is_not_there__fails_with_its_name)
{
    struct fixture f;
    fixture_begin(&f, 1);
    fixture_open(&f);
    fixture_submit(&f, "entrypoint: [\"/no/such/program\"]\n"
                       "hyperparameters: {global_batch_size: 1}\n"
                       "searcher: {name: single, metric: error, max_steps: 1}\n"
                       "max_restarts: 0\n");
    fixture_run(&f, 30);
    const struct ebb_doc_node *e = fixture_get(&f, "/experiments/1");
    CHECK_STR(ebb_doc_string(e, "state", ""), "ERROR");
    CHECK(strstr(ebb_doc_string(e, "error", ""), "cannot run /no/such/program") != NULL);
    fixture_end(&f);
}

/* ---- mounts ---- */

TEST(bind_mounts__are_private_to_the_trial)
{
    struct fixture f;
    char file[300];
    int status;
    fixture_begin(&f, 1);
    fixture_open(&f);
    bool is_hidden =
        strncmp(f.dir, "/dev/shm/", 9) == 0; /* its own /dev/shm would hide the state */
    if (is_hidden || !exp_proc_can_mount()) {
        print_message("skipped: no private mount namespace here\n");
        fixture_end(&f);
        return;
    }
    snprintf(file, sizeof file, "%s/tmp/seen", f.dir);
    fclose(fopen(file, "w"));
    snprintf(yaml, sizeof yaml,
             "entrypoint: [sh, -c, 'test -f data/seen && ! touch data/new 2>/dev/null && touch "
             "rw/made && df -k /dev/shm | grep -q \" 1024 \" && exec %s']\n"
             "hyperparameters: {global_batch_size: 1}\n"
             "searcher: {name: single, metric: error, max_steps: 1}\nmax_restarts: 0\n"
             "resources: {shm_size: 1048576}\n"
             "bind_mounts:\n  - {host_path: %s/tmp, container_path: data, read_only: true}\n"
             "  - {host_path: %s/tmp, container_path: rw}\n",
             EBB_TRIAL_CHAIN, f.dir, f.dir);
    fixture_submit(&f, yaml);
    fixture_run(&f, 30);
    const struct ebb_doc_node *e = fixture_get(&f, "/experiments/1");
    if (strcmp(ebb_doc_string(e, "state", ""), "COMPLETED") != 0)
        fail_msg("%s", ebb_doc_string(e, "error", ""));
    snprintf(file, sizeof file, "%s/tmp/made", f.dir);
    CHECK_EQ(access(file, F_OK), 0);
    char *body = fixture_body("entrypoint: [x]\nhyperparameters: {global_batch_size: 1}\n"
                              "searcher: {name: single, metric: error, max_steps: 1}\n"
                              "bind_mounts: [{host_path: /no/such, container_path: a}]\n",
                              true);
    fixture_ask(&f, "POST", "/experiments", body, &status);
    ebb_free(body);
    CHECK_EQ(status, 400);
    fixture_end(&f);
}

/* A trial has a /dev/shm of its own, unless that hides what it needs. */
TEST(a_state_directory_in_dev_shm__is_seen_by_its_trials)
{
    struct fixture f;
    const char *before = getenv("TMPDIR");
    if (access("/dev/shm", W_OK) != 0 || !exp_proc_can_mount()) {
        print_message("skipped: no /dev/shm or no private mount namespace here\n");
        return;
    }
    char *kept = before != NULL ? strdup(before) : NULL;
    setenv("TMPDIR", "/dev/shm", 1);
    fixture_begin(&f, 1);
    if (kept != NULL)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    free(kept);
    fixture_open(&f);
    for (int i = 0; i < 2; i++) {
        snprintf(yaml, sizeof yaml,
                 "entrypoint: [%s]\nhyperparameters: {global_batch_size: 1}\n"
                 "searcher: {name: single, metric: error, max_steps: 1}\nmax_restarts: 0\n%s",
                 EBB_TRIAL_CHAIN, i > 0 ? "resources: {shm_size: 1048576}\n" : "");
        fixture_submit(&f, yaml);
        fixture_run(&f, 30);
    }
    const struct ebb_doc_node *e = fixture_get(&f, "/experiments/1");
    CHECK_STR(ebb_doc_string(e, "state", ""), "COMPLETED");
    e = fixture_get(&f, "/experiments/2");
    CHECK_STR(ebb_doc_string(e, "state", ""), "ERROR");
    assert_non_null(strstr(ebb_doc_string(e, "error", ""), "lies in /dev/shm"));
    fixture_end(&f);
}

TEST_MAIN()
