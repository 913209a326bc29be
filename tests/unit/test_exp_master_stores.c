/* Masters whose checkpoints go to a remote store: killed at any moment, beside stores that are out of
 * reach, with several who want the same. tests/store has the servers of others. */
#include "test.h"

#include <dirent.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "bucket.h"
#include "serve/serve.h"
#include "master_fixture.h"
#include "unreadable.h"

static char yaml[4096];

static const char *file(const char *arguments, const char *searcher, const char *name,
                        const char *more)
{
    char rest[1024];
    snprintf(rest, sizeof rest,
             "min_checkpoint_period: 1\n"
             "checkpoint_storage: {type: gcs, bucket: %s, save_trial_latest: 99}\n%s",
             name, more);
    return fixture_yaml(yaml, sizeof yaml, arguments, searcher, rest);
}

/* Names in a folder of the state directory. */
static size_t names_in(const struct fixture *f, const char *folder)
{
    char path[512];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/%s", f->dir, folder);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (dir != NULL)
        closedir(dir);
    return count;
}

static void clear_cache(const struct fixture *f)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'/cache/*", f->dir);
    CHECK_EQ(system(command), 0);
}

/* The newest checkpoint of an experiment. */
static const struct ebb_doc_node *checkpoint(struct fixture *f, int64_t experiment)
{
    const struct ebb_doc_node *newest = NULL,
                              *list = ebb_doc_get(fixture_get(f, "/experiments/%lld/checkpoints",
                                                              (long long)experiment),
                                                  "checkpoints");
    for (size_t i = 0; list != NULL && i < list->count; i++)
        if (ebb_doc_int(list->items[i], "id", 0) > ebb_doc_int(newest, "id", 0))
            newest = list->items[i];
    return newest;
}

static const char *state_of(struct fixture *f, int64_t experiment)
{
    return ebb_doc_string(checkpoint(f, experiment), "state", "none");
}

static int64_t restarts(struct fixture *f, int64_t trial)
{
    return ebb_doc_int(fixture_get(f, "/trials/%lld", (long long)trial), "restarts", -1);
}

static void act(struct fixture *f, int64_t experiment, const char *what)
{
    char target[64];
    snprintf(target, sizeof target, "/experiments/%lld/%s", (long long)experiment, what);
    fixture_ask(f, "POST", target, NULL, NULL);
}

/* ---- killed ---- */

static void be_master(const struct fixture *f, int64_t die_at)
{
    struct ebb_error err;
    struct exp_master *m = NULL;
    struct exp_master_options options = f->options;
    options.faults.die_at = die_at;
    if (serve_open(&options, &m, &err) != EBB_OK)
        _exit(2);
    while (!exp_master_is_idle(m))
        exp_master_turn(m, 50);
    exp_master_close(m, EXP_CLOSE_KILL, 0);
    _exit(0);
}

/* 0: it ended by itself; 9: killed; 14: it does not get on. */
static int live(const struct fixture *f, int64_t die_at)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        be_master(f, die_at);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

/* The first master is killed at its n-th moment; the next one ends. False: there were fewer. */
static bool dies_at(int64_t n)
{
    struct fixture f;
    bucket_clear();
    fixture_begin(&f, 1);
    fixture_open(&f);
    CHECK_EQ(fixture_submit(&f, file("", "name: single, max_steps: 1", "ckpt", "")), 1);
    exp_master_close(f.m, EXP_CLOSE_KILL, 0);
    int end = live(&f, n);
    if (end == 9)
        CHECK_EQ(live(&f, 0), 0);
    fixture_open(&f);
    if (strcmp(fixture_state(&f, 1), "COMPLETED") != 0 || strcmp(state_of(&f, 1), "COMPLETED") != 0)
        fail_msg("killed at moment %lld: %s, %s", (long long)n, fixture_state(&f, 1),
                 state_of(&f, 1));
    CHECK_EQ(restarts(&f, 1), 0);
    CHECK_EQ(names_in(&f, "staging"), 0);
    CHECK_EQ(bucket_count("/metadata.json"), 1);
    fixture_end(&f);
    return end == 9;
}

TEST(a_master__that_is_killed_at_any_moment_leaves_uploads_to_the_next)
{
    int64_t n = 1, step = test_is_long() ? 1 : 2;
    while (dies_at(n))
        n += step;
    print_message("%lld moments\n", (long long)n);
    CHECK(n > 10);
}

/* ---- several who want the same ---- */

TEST(a_checkpoint__that_four_trials_start_from_is_fetched_once)
{
    struct fixture f;
    char more[128], searcher[160];
    bucket_clear();
    fixture_begin(&f, 4);
    fixture_open(&f);
    fixture_submit(&f, file("", "name: single, max_steps: 1", "ckpt", ""));
    fixture_run(&f, 30);
    const struct ebb_doc_node *one = checkpoint(&f, 1);
    CHECK_STR(ebb_doc_string(one, "state", ""), "COMPLETED");
    size_t files = 0;
    const struct ebb_doc_node *resources = ebb_doc_get(one, "resources");
    for (size_t i = 0; i < resources->count; i++)
        files += resources->items[i]->integer > 0;
    snprintf(searcher, sizeof searcher,
             "name: random, max_steps: 1, max_trials: 4, source_checkpoint_uuid: %s",
             ebb_doc_string(one, "uuid", ""));
    snprintf(more, sizeof more, "max_restarts: 0\n");
    clear_cache(&f);
    fixture_turn_for(&f, 1100); /* the store is tried anew */
    atomic_store(&bucket.reads, 0);
    atomic_store(&bucket.get_ms, 150);
    fixture_submit(&f, file("", searcher, "ckpt", more));
    fixture_run(&f, 60);
    CHECK_STR(fixture_state(&f, 2), "COMPLETED");
    CHECK_EQ(atomic_load(&bucket.reads), files + 3); /* with those of the submission */
    for (int64_t t = 2; t <= 5; t++)
        CHECK_EQ(restarts(&f, t), 0);
    fixture_end(&f);
}

TEST(a_submission__whose_event_files_go_to_the_same_place_is_taken)
{
    struct fixture f;
    bucket_clear();
    fixture_begin(&f, 1);
    fixture_open(&f);
    alarm(60); /* it is taken at once, or never */
    CHECK_EQ(fixture_submit(&f, file("", "name: single, max_steps: 1", "ckpt",
                                     "tensorboard_storage: {type: gcs, bucket: ckpt}\n")),
             1);
    alarm(0);
    fixture_run(&f, 60);
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
    fixture_end(&f);
}

/* ---- given up ---- */

static void begin_upload(struct fixture *f)
{
    bucket_clear();
    fixture_begin(f, 1);
    fixture_open(f);
    fixture_submit(f, file("--sleep-ms 100", "name: single, max_steps: 50", "ckpt", ""));
    atomic_store(&bucket.put_ms, 700);
    FIXTURE_UNTIL(f, bucket_count("") > 0);
    act(f, 1, "kill");
    FIXTURE_UNTIL(f, strcmp(fixture_state(f, 1), "CANCELED") == 0);
}

TEST(an_experiment__killed_and_deleted_in_the_middle_of_an_upload_leaves_nothing)
{
    struct fixture f;
    begin_upload(&f);
    fixture_ask(&f, "DELETE", "/experiments/1", NULL, NULL);
    fixture_run(&f, 60);
    int status;
    fixture_ask(&f, "GET", "/experiments/1", NULL, &status);
    CHECK_EQ(status, 404);
    CHECK_EQ(bucket_count(""), 0);
    CHECK_EQ(names_in(&f, "staging"), 0);
    CHECK_EQ(names_in(&f, "cache"), 0);
    fixture_end(&f);
}

TEST(a_master__that_ends_right_after_a_kill_leaves_the_removal_to_the_next)
{
    struct fixture f;
    begin_upload(&f);
    exp_master_close(f.m, EXP_CLOSE_LEAVE, 0);
    atomic_store(&bucket.put_ms, 0);
    fixture_open(&f);
    fixture_run(&f, 60);
    CHECK_STR(state_of(&f, 1), "ERROR");
    CHECK_EQ(bucket_count(""), 0);
    CHECK_EQ(names_in(&f, "staging"), 0);
    fixture_end(&f);
}

TEST(an_experiment__that_only_waits_for_its_store_can_be_killed)
{
    struct fixture f;
    bucket_clear();
    fixture_begin(&f, 1);
    fixture_open(&f);
    fixture_submit(&f, file("--sleep-ms 300", "name: single, max_steps: 1", "ckpt", ""));
    atomic_store(&bucket.is_away, true);
    FIXTURE_UNTIL(&f, strcmp(fixture_state(&f, 1), "STOPPING_COMPLETED") == 0);
    act(&f, 1, "kill");
    FIXTURE_UNTIL(&f, strcmp(fixture_state(&f, 1), "COMPLETED") == 0);
    CHECK_STR(state_of(&f, 1), "ERROR");
    atomic_store(&bucket.is_away, false);
    fixture_end(&f);
}

TEST(a_trial__that_waits_for_its_store_can_be_killed)
{
    struct fixture f;
    bucket_clear();
    fixture_begin(&f, 1);
    fixture_open(&f);
    fixture_submit(&f, file("--sleep-ms 200", "name: single, max_steps: 3", "ckpt", ""));
    FIXTURE_UNTIL(&f, fixture_has_trial(&f) && fixture_steps(&f, 1) >= 1);
    act(&f, 1, "pause");
    fixture_run(&f, 60);
    clear_cache(&f);
    atomic_store(&bucket.get_ms, 3000);
    atomic_store(&bucket.is_away, true);
    act(&f, 1, "activate");
    fixture_turn_for(&f, 500);
    uint64_t begin = ebb_clock_ns();
    act(&f, 1, "kill");
    FIXTURE_UNTIL(&f, strcmp(fixture_state(&f, 1), "CANCELED") == 0);
    CHECK(ebb_clock_ns() - begin < 8000000000u);
    fixture_end(&f);
}

/* ---- what arrives ---- */

TEST(a_manifest__that_arrives_damaged_costs_no_checkpoint)
{
    struct fixture f;
    char uuid[64];
    bucket_clear();
    fixture_begin(&f, 1);
    fixture_open(&f);
    fixture_submit(&f, file("--sleep-ms 200", "name: single, max_steps: 3", "ckpt", ""));
    FIXTURE_UNTIL(&f, fixture_has_trial(&f) && fixture_steps(&f, 1) >= 1);
    act(&f, 1, "pause");
    fixture_run(&f, 60);
    size_t count = bucket_count("/metadata.json");
    snprintf(uuid, sizeof uuid, "%s", ebb_doc_string(checkpoint(&f, 1), "uuid", ""));
    clear_cache(&f);
    atomic_store(&bucket.flips, 1);
    act(&f, 1, "activate");
    fixture_run(&f, 60);
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
    CHECK(atomic_load(&bucket.flips) <= 0); /* it did arrive so */
    CHECK_STR(ebb_doc_string(fixture_get(&f, "/checkpoints/%s", uuid), "state", ""), "COMPLETED");
    CHECK_EQ(bucket_count("/metadata.json"), 3);
    CHECK(count >= 1);
    CHECK_EQ(restarts(&f, 1), 0);
    fixture_end(&f);
}

/* ---- what is here ---- */

/* Paused after a checkpoint or more, in that place or on the way there; *path: of the newest here. */
static void begin_paused(struct fixture *f, const char *place, const char *more, char path[300])
{
    char text[200];
    snprintf(text, sizeof text, "min_checkpoint_period: 1\nmax_restarts: 0\n%s", more);
    bucket_clear();
    fixture_begin(f, 1);
    fixture_open(f);
    fixture_submit(
        f, fixture_yaml(yaml, sizeof yaml, "--sleep-ms 200", "name: single, max_steps: 50", text));
    atomic_store(&bucket.is_away, true);
    FIXTURE_UNTIL(f, fixture_has_trial(f) && fixture_steps(f, 1) >= 2);
    act(f, 1, "pause");
    FIXTURE_UNTIL(f, exp_master_info(f->m).running == 0);
    snprintf(path, 300, "%s/%s/%s", f->dir, place, ebb_doc_string(checkpoint(f, 1), "uuid", ""));
}

#define BY_BUCKET "checkpoint_storage: {type: gcs, bucket: ckpt, save_trial_latest: 99}\n"

static void end_paused(struct fixture *f)
{
    act(f, 1, "kill");
    FIXTURE_UNTIL(f, exp_master_info(f->m).running == 0);
    fixture_end(f);
}

static const char *waiting(struct fixture *f)
{
    return ebb_doc_string(fixture_get(f, "/trials/1"), "waiting", "");
}

TEST(a_checkpoint__that_cannot_be_read_for_a_while_is_waited_for)
{
    static const char *const places[] = {"staging", "checkpoints"};
    static const char *const more[] = {BY_BUCKET, ""};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        char path[300], manifest[320], uuid[64];
        begin_paused(&f, places[i], more[i], path);
        int64_t steps = fixture_steps(&f, 1), id = ebb_doc_int(checkpoint(&f, 1), "id", 0);
        snprintf(uuid, sizeof uuid, "%s", ebb_doc_string(checkpoint(&f, 1), "uuid", ""));
        snprintf(manifest, sizeof manifest, "%s/manifest.json", path);
        unreadable_begin(manifest);
        act(&f, 1, "activate");
        FIXTURE_UNTIL(
            &f,
            ebb_doc_get(fixture_get(&f, "/trials/1/logs?search=manifest.json"), "logs")->count > 0);
        FIXTURE_UNTIL(&f, strstr(waiting(&f), "manifest.json") != NULL);
        fixture_turn_for(&f, 3500); /* several tries, told once */
        CHECK(strstr(waiting(&f), "manifest.json") != NULL);
        CHECK_EQ(ebb_doc_get(fixture_get(&f, "/trials/1/logs?search=manifest.json"), "logs")->count,
                 1);
        CHECK_EQ(access(path, F_OK), 0);
        CHECK_EQ(restarts(&f, 1), 0);
        CHECK_STR(fixture_state(&f, 1), "ACTIVE");
        CHECK_EQ(fixture_steps(&f, 1), steps);
        unreadable_end(manifest);
        FIXTURE_UNTIL(&f, fixture_steps(&f, 1) > steps);
        CHECK_STR(waiting(&f), "");
        CHECK_EQ(restarts(&f, 1), 0);
        CHECK_EQ(ebb_doc_int(fixture_get(&f, "/checkpoints/%s", uuid), "id", 0), id);
        end_paused(&f);
    }
}

/* Cached copies of others are what fills the disk: they go. */
TEST(a_checkpoint__that_finds_no_room_in_the_cache_is_given_it)
{
    struct fixture f;
    char cache[300], text[700];
    bucket_clear();
    fixture_begin(&f, 1);
    fixture_open(&f);
    fixture_submit(&f, file("--sleep-ms 200", "name: single, max_steps: 4", "ckpt", ""));
    FIXTURE_UNTIL(&f, fixture_has_trial(&f) && fixture_steps(&f, 1) >= 2);
    act(&f, 1, "pause");
    fixture_run(&f, 60);
    snprintf(cache, sizeof cache, "%s/cache", f.dir);
    snprintf(text, sizeof text, "cd '%s' && rm -r cache/%s && cp -r cache kept", f.dir,
             ebb_doc_string(checkpoint(&f, 1), "uuid", ""));
    CHECK_EQ(system(text), 0);
    if (mount("none", cache, "tmpfs", 0, "size=256k") != 0) {
        fixture_end(&f);
        skip(); /* not permitted */
    }
    snprintf(text, sizeof text,
             "cd '%s' && mv kept/* cache && for d in cache/*; do cat /dev/zero >$d/filler; done "
             "2>errors; rm -r kept",
             f.dir);
    CHECK_EQ(system(text), 0);
    act(&f, 1, "activate");
    for (int i = 0; i < 250 && !exp_master_is_idle(f.m); i++)
        fixture_turn_for(&f, 100);
    bool is_idle = exp_master_is_idle(f.m);
    CHECK_EQ(umount2(cache, MNT_DETACH), 0);
    CHECK(is_idle);
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
    CHECK_EQ(restarts(&f, 1), 0);
    fixture_end(&f);
}

TEST(a_staged_copy__that_is_gone_leaves_the_checkpoint_before)
{
    struct fixture f;
    char path[300];
    begin_paused(&f, "staging", BY_BUCKET, path);
    int64_t steps = fixture_steps(&f, 1);
    fixture_remove(path);
    act(&f, 1, "activate");
    FIXTURE_UNTIL(&f, fixture_steps(&f, 1) >= steps &&
                          strstr(path, ebb_doc_string(checkpoint(&f, 1), "uuid", "")) == NULL);
    CHECK_EQ(restarts(&f, 1), 0);
    end_paused(&f);
}

/* Its directory may be mounted again, or has been moved: all that is known of it stays. */
TEST(a_checkpoint__that_is_gone_from_a_directory_of_others_fails_its_trial)
{
    struct fixture f;
    char path[300];
    begin_paused(&f, "checkpoints", "", path);
    fixture_remove(path);
    act(&f, 1, "activate");
    FIXTURE_UNTIL(&f, fixture_is_ended(fixture_state(&f, 1)));
    CHECK(strstr(ebb_doc_string(fixture_get(&f, "/trials/1"), "message", ""), "host_path") != NULL);
    CHECK_STR(state_of(&f, 1), "COMPLETED");
    fixture_end(&f);
}

/* ---- stores out of reach ---- */

TEST(a_store__that_is_out_of_reach_keeps_nobody_from_another)
{
    struct fixture f;
    bucket_clear();
    fixture_begin(&f, 8);
    fixture_open(&f);
    fixture_submit(&f,
                   file("--sleep-ms 50", "name: random, max_steps: 3, max_trials: 8", "dead", ""));
    atomic_store(&bucket.is_dead_away, true);
    FIXTURE_UNTIL(&f, exp_master_info(f.m).uploads == 16);
    act(&f, 1, "pause");
    fixture_turn_for(&f, 3000);
    uint64_t begin = ebb_clock_ns();
    int turns = 0;
    for (; ebb_clock_ns() - begin < 2000000000u; turns++)
        exp_master_turn(f.m, 500);
    print_message("%d turns in 2 s\n", turns);
    CHECK(turns < 200);
    begin = ebb_clock_ns();
    int64_t other = fixture_submit(&f, file("", "name: single, max_steps: 1", "ckpt", ""));
    while (strcmp(fixture_state(&f, other), "COMPLETED") != 0) {
        if (ebb_clock_ns() - begin > 40000000000u)
            fail_msg("it waits for another's store: %s", fixture_state(&f, other));
        fixture_turn_for(&f, 50);
    }
    print_message("after %.1f s\n", (double)(ebb_clock_ns() - begin) / 1e9);
    act(&f, 1, "kill");
    fixture_turn_for(&f, 500);
    fixture_end(&f);
}

TEST_MAIN_ONCE(bucket_begin, NULL)
