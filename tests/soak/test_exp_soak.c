/* The crash test: masters and trials are killed at random, disks fill up and drain (that of the state
 * and that of the checkpoints), syncs are slow, and nothing may be lost.
 *
 * A master runs in a child process and is killed with SIGKILL at random moments, either from
 * outside or by itself at one of its points between deciding and acting; trials are killed as well.
 * The next master goes on. At the end:
 *   - random and grid: every trial did what it did in an undisturbed run, with the same metrics;
 *   - adaptive and PBT: a fresh search, fed with the stored events, gives every stored operation;
 *   - no process is left, and no checkpoint directory that no row names;
 *   - restarts are counted for trials that were killed, and for no full disk.
 *
 * EBB_SOAK_SECONDS (default: a few) is how long it goes on, EBB_SOAK_SEED where it starts. */
#include "test.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/rng.h"
#include "exp/search/method.h"
#include "exp_db_text.h"
#include "serve/serve.h"
#include "master_fixture.h"

static char yaml[4096];

static void nap(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static uint64_t below(uint64_t *rng, uint64_t n)
{
    return ebb_splitmix64(rng) % n;
}

/* ---- what is run ---- */

static const struct {
    const char *searcher, *more;
    bool is_replayed; /* order of events matters: compare by replay */
} cases[] = {
    {"name: random, max_steps: 5, max_trials: 5",
     "min_validation_period: 2\n"
     "min_checkpoint_period: 2\n"
     "checkpoint_policy: none\n",
     false},
    {"name: grid, max_steps: 4", "min_validation_period: 1\ncheckpoint_policy: all\n", false},
    {"name: adaptive_simple, max_steps: 8, max_trials: 6, max_rungs: 2, divisor: 2", "", true},
    {"name: pbt, population_size: 4, num_rounds: 3, steps_per_round: 2, replace_function: "
     "{truncate_fraction: 0.25}, explore_function: {resample_probability: 0.3, perturb_factor: "
     "0.2}",
     "", true},
};

#define CASES (sizeof cases / sizeof *cases)

static void make_yaml(size_t i, const char *arguments, int seed)
{
    char more[512];
    snprintf(more, sizeof more, "%smax_restarts: 100000\nreproducibility: {experiment_seed: %d}\n",
             cases[i].more, seed);
    fixture_yaml(yaml, sizeof yaml, arguments, cases[i].searcher, more);
}

/* ---- reading results ---- */

static struct exp_db *open_db(const char *dir)
{
    char path[300];
    struct exp_db *db = NULL;
    struct ebb_error err;
    snprintf(path, sizeof path, "%s/ebb.db", dir);
    CHECK_OK(exp_db_open(&(struct exp_db_options){.path = path}, &db, &err), &err);
    return db;
}

/* All that trials did, one line for each workload, in the order of request ids and steps. */
static char *describe(const char *dir, int64_t experiment)
{
    struct exp_db *db = open_db(dir);
    struct exp_db_rows rows;
    struct ebb_error err;
    struct ebb_str out;
    bool has_row;
    ebb_str_init(&out);
    CHECK_OK(
        exp_db_query(db,
                     "SELECT t.request_id, t.state, t.hparams, t.steps, s.id, s.metrics, v.metrics"
                     " FROM trials t JOIN steps s ON s.trial_id = t.id LEFT JOIN validations v ON"
                     " v.trial_id = t.id AND v.step_id = s.id WHERE t.experiment_id = $1"
                     " ORDER BY t.request_id, s.id",
                     EXP_DB_ARGS(exp_db_i(experiment)), &rows, &err),
        &err);
    for (;;) {
        CHECK_OK(exp_db_next(&rows, &has_row, &err), &err);
        if (!has_row)
            break;
        const char *validation = exp_db_text(&rows, 6);
        ebb_str_printf(&out, "%s %s %s %lld %lld", exp_db_text(&rows, 0), exp_db_text(&rows, 1),
                       exp_db_text(&rows, 2), (long long)exp_db_int(&rows, 3),
                       (long long)exp_db_int(&rows, 4));
        ebb_str_printf(&out, " %s", exp_db_text(&rows, 5));
        ebb_str_printf(&out, " %s\n", validation != NULL ? validation : "-");
    }
    exp_db_done(&rows);
    exp_db_close(db);
    return ebb_str_take(&out);
}

static char *undisturbed(size_t i, int seed)
{
    struct fixture f;
    fixture_begin(&f, 4);
    fixture_open(&f);
    make_yaml(i, "", seed);
    int64_t id = fixture_submit(&f, yaml);
    fixture_run(&f, 120);
    CHECK_STR(fixture_state(&f, id), "COMPLETED");
    char *text = describe(f.dir, id);
    fixture_end(&f);
    return text;
}

/* ---- replay ---- */

static void load_config(struct exp_db *db, int64_t experiment, struct ebb_arena *arena,
                        struct exp_config *config)
{
    struct exp_db_rows rows;
    struct ebb_report report;
    struct ebb_error err;
    const struct ebb_doc_node *root;
    bool has_row;
    CHECK_OK(exp_db_query(db, "SELECT config FROM experiment_configs WHERE experiment_id = $1",
                          EXP_DB_ARGS(exp_db_i(experiment)), &rows, &err),
             &err);
    CHECK_OK(exp_db_next(&rows, &has_row, &err), &err);
    struct exp_db_value text = exp_db_column(&rows, 0);
    CHECK_OK(ebb_doc_parse_json(arena, "config", text.data, text.length, &root, &err), &err);
    exp_db_done(&rows);
    struct exp_config_options options = {.file_name = "config", .default_seed = -1};
    CHECK_OK(exp_config_read(arena, root, &options, config, &report, &err), &err);
}

static void write_ops(const struct exp_ops *ops, const struct exp_hparams *space,
                      struct ebb_arena *arena, struct ebb_str *out)
{
    struct ebb_json_writer w;
    struct ebb_error err;
    ebb_str_clear(out);
    ebb_jsonw_init(&w, out, 0);
    ebb_jsonw_array(&w);
    for (size_t i = 0; i < ops->count; i++) {
        const struct ebb_doc_node *hparams = NULL;
        if (ops->items[i].kind == EXP_OP_CREATE)
            CHECK_OK(exp_ops_hparams(ops, &ops->items[i], space, arena, &hparams, &err), &err);
        exp_op_write(ops, &ops->items[i], hparams, &w);
    }
    ebb_jsonw_array_end(&w);
}

/* Every stored operation follows from the stored events. */
static size_t replay(const char *dir, int64_t experiment)
{
    struct exp_db *db = open_db(dir);
    struct exp_config config;
    struct exp_search *search = NULL;
    struct exp_db_rows rows;
    struct exp_ops ops;
    struct ebb_arena arena;
    struct ebb_str text;
    struct ebb_error err;
    size_t count = 0;
    bool has_row;
    ebb_arena_init(&arena);
    ebb_str_init(&text);
    exp_ops_init(&ops);
    load_config(db, experiment, &arena, &config);
    CHECK_OK(exp_search_create(&config.searcher, &config.hyperparameters, config.trial_failure,
                               (uint32_t)config.experiment_seed, &search, &err),
             &err);
    CHECK_OK(exp_db_query(db,
                          "SELECT content, operations FROM searcher_events WHERE"
                          " experiment_id = $1 ORDER BY seq",
                          EXP_DB_ARGS(exp_db_i(experiment)), &rows, &err),
             &err);
    for (;; count++) {
        CHECK_OK(exp_db_next(&rows, &has_row, &err), &err);
        if (!has_row)
            break;
        exp_ops_clear(&ops);
        if (count == 0) {
            CHECK_OK(exp_search_start(search, &ops, &err), &err);
        } else {
            const struct ebb_doc_node *node;
            struct exp_event event;
            struct exp_db_value content = exp_db_column(&rows, 0);
            CHECK_OK(ebb_doc_parse_json(&arena, "event", content.data, content.length, &node, &err),
                     &err);
            CHECK_OK(exp_event_read(node, &event, &err), &err);
            CHECK_OK(exp_search_event(search, &event, &ops, &err), &err);
        }
        write_ops(&ops, &config.hyperparameters, &arena, &text);
        CHECK_STR(ebb_str_c(&text), exp_db_text(&rows, 1));
    }
    CHECK(search->is_shut_down);
    exp_db_done(&rows);
    exp_search_destroy(search);
    exp_ops_fini(&ops);
    ebb_str_fini(&text);
    ebb_arena_fini(&arena);
    exp_db_close(db);
    return count;
}

/* ---- what must not be left ---- */

static size_t processes_of(const char *dir)
{
    size_t count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; (e = readdir(proc)) != NULL;) {
        char path[300], text[65536];
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/environ", e->d_name);
        FILE *in = fopen(path, "r");
        if (in == NULL)
            continue;
        size_t n = fread(text, 1, sizeof text, in);
        fclose(in);
        if (memmem(text, n, dir, strlen(dir)) != NULL &&
            memmem(text, n, "EBB_ALLOCATION_ID", 17) != NULL)
            count++;
    }
    closedir(proc);
    return count;
}

static bool is_named(struct exp_db *db, const char *uuid)
{
    int64_t count = 0;
    struct ebb_error err;
    CHECK_OK(exp_db_number(db,
                           "SELECT COUNT(*) FROM checkpoints WHERE uuid = $1 AND"
                           " state = 'COMPLETED'",
                           EXP_DB_ARGS(exp_db_t(uuid)), 0, &count, &err),
             &err);
    return count == 1;
}

static void check_nothing_left(const char *dir)
{
    char path[300];
    struct exp_db *db = open_db(dir);
    snprintf(path, sizeof path, "%s/checkpoints", dir);
    DIR *list = opendir(path);
    for (struct dirent *e; (e = readdir(list)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !is_named(db, e->d_name))
            fail_msg("stray checkpoint directory %s", e->d_name);
    closedir(list);
    exp_db_close(db);
    CHECK_EQ(processes_of(dir), 0);
}

static int64_t restarts_of(const char *dir)
{
    struct exp_db *db = open_db(dir);
    struct ebb_error err;
    int64_t count = 0;
    CHECK_OK(exp_db_number(db, "SELECT COALESCE(SUM(restarts), 0) FROM trials", NULL, 0, 0, &count,
                           &err),
             &err);
    exp_db_close(db);
    return count;
}

/* ---- disturbance ---- */

struct storm {
    uint64_t rng;
    char dir[256];
    bool has_tmpfs; /* the state directory is a small file system of its own, */
    bool has_store; /* and so is the one of its checkpoints */
    int64_t kills, trial_kills, fills, store_fills;
};

/* The master's process: goes on until there is nothing left to do. */
static void be_master(const struct storm *s, int64_t die_at, int64_t sleep_ms)
{
    struct ebb_error err;
    struct exp_master *m = NULL;
    struct exp_master_options options = {.state_dir = s->dir,
                                         .slots = 4,
                                         .keeps_search_log = true,
                                         .faults = {.die_at = die_at, .commit_sleep_ms = sleep_ms}};
    while (serve_open(&options, &m, &err) != EBB_OK)
        nap(50); /* a full disk: later */
    while (!exp_master_is_idle(m))
        exp_master_turn(m, 50);
    exp_master_close(m, EXP_CLOSE_KILL, 0);
    _exit(0);
}

static void kill_a_trial(struct storm *s)
{
    pid_t found[64];
    size_t count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; (e = readdir(proc)) != NULL && count < 64;) {
        char path[300], text[65536];
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/environ", e->d_name);
        FILE *in = fopen(path, "r");
        size_t n = in != NULL ? fread(text, 1, sizeof text, in) : 0;
        if (in != NULL)
            fclose(in);
        if (memmem(text, n, s->dir, strlen(s->dir)) != NULL &&
            memmem(text, n, "EBB_ALLOCATION_ID", 17) != NULL)
            found[count++] = (pid_t)strtol(e->d_name, NULL, 10);
    }
    closedir(proc);
    if (count > 0) {
        kill(found[below(&s->rng, count)], SIGKILL);
        s->trial_kills++;
    }
}

/* Fill a file system for a while. */
static void fill_disk(struct storm *s, const char *folder, int64_t *fills)
{
    char path[300];
    static char block[65536];
    snprintf(path, sizeof path, "%s%s/ballast", s->dir, folder);
    FILE *out = fopen(path, "w");
    for (size_t size = sizeof block; out != NULL && size >= 512; size /= 2)
        while (fwrite(block, 1, size, out) == size && fflush(out) == 0)
            continue;
    nap((long)(200 + below(&s->rng, 800)));
    if (out != NULL)
        fclose(out);
    unlink(path);
    ++*fills;
}

static void submit_all(struct storm *s, int seed)
{
    struct fixture f = {.options = {.state_dir = s->dir, .slots = 4}};
    char sleep[48];
    ebb_arena_init(&f.arena);
    fixture_open(&f);
    for (size_t i = 0; i < CASES; i++) {
        snprintf(sleep, sizeof sleep, "--sleep-ms %d --waits", (int)below(&s->rng, 80));
        make_yaml(i, sleep, seed);
        CHECK_EQ(fixture_submit(&f, yaml), (int64_t)i + 1);
    }
    exp_master_close(f.m, EXP_CLOSE_KILL, 0);
    ebb_arena_fini(&f.arena);
}

/* One master's life; true when it ended by itself. */
static bool one_life(struct storm *s, bool is_calm)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) /* orphans that came to us */
        continue;
    int64_t die_at = !is_calm && below(&s->rng, 2) == 0 ? 1 + (int64_t)below(&s->rng, 120) : 0;
    int64_t sleep_ms = !is_calm && below(&s->rng, 4) == 0 ? 20 : 0;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        be_master(s, die_at, sleep_ms);
    uint64_t until = ebb_clock_ns() + (is_calm ? 180000 : 20 + below(&s->rng, 700)) * 1000000ull;
    while (ebb_clock_ns() < until) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            s->kills += WIFSIGNALED(status);
            return WIFEXITED(status);
        }
        nap(10);
        if (!is_calm && below(&s->rng, 30) == 0)
            kill_a_trial(s);
        if (!is_calm && s->has_tmpfs && below(&s->rng, 150) == 0)
            fill_disk(s, "", &s->fills);
        if (!is_calm && s->has_store && below(&s->rng, 60) == 0)
            fill_disk(s, "/checkpoints", &s->store_fills);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    s->kills++;
    if (is_calm)
        fail_msg("the calm master did not finish");
    return false;
}

static void storm_round(struct storm *s, int seed, double seconds)
{
    snprintf(s->dir, sizeof s->dir, "/tmp/ebb-soak-XXXXXX");
    if (mkdtemp(s->dir) == NULL)
        fail_msg("no directory");
    s->has_tmpfs = mount("none", s->dir, "tmpfs", 0, "size=48m,mode=0700") == 0;
    char store[300];
    int64_t kills = s->trial_kills;
    snprintf(store, sizeof store, "%s/checkpoints", s->dir);
    s->has_store = mkdir(store, 0777) == 0 && mount("none", store, "tmpfs", 0, "size=4m") == 0;
    submit_all(s, seed);
    uint64_t until = ebb_clock_ns() + (uint64_t)(seconds * 1e9);
    bool is_over = false;
    while (!is_over && ebb_clock_ns() < until)
        is_over = one_life(s, false);
    if (!is_over)
        is_over = one_life(s, true);
    CHECK(is_over);
    for (size_t i = 0; i < CASES; i++) {
        if (cases[i].is_replayed) {
            CHECK(replay(s->dir, (int64_t)i + 1) > 10);
            continue;
        }
        char *calm = undisturbed(i, seed), *wild = describe(s->dir, (int64_t)i + 1);
        CHECK_STR(wild, calm);
        ebb_free(calm);
        ebb_free(wild);
    }
    check_nothing_left(s->dir);
    CHECK(restarts_of(s->dir) <= s->trial_kills - kills);
    if (s->has_store)
        umount(store);
    if (s->has_tmpfs)
        umount(s->dir);
    fixture_remove(s->dir);
}

TEST(storms__lose_nothing)
{
    const char *seconds = getenv("EBB_SOAK_SECONDS"), *start = getenv("EBB_SOAK_SEED");
    double total = seconds != NULL ? strtod(seconds, NULL) : 8;
    uint64_t seed = start != NULL ? strtoull(start, NULL, 10) : 1;
    uint64_t until = ebb_clock_ns() + (uint64_t)(total * 1e9);
    struct storm s = {0};
    size_t rounds = 0;
    do {
        s.rng = seed + rounds;
        print_message("round with EBB_SOAK_SEED=%llu\n", (unsigned long long)(seed + rounds));
        storm_round(&s, (int)(seed + rounds) * 7919 % 1000000, total < 20 ? total : 20);
        rounds++;
    } while (ebb_clock_ns() < until);
    print_message("%zu rounds: %lld masters and %lld trials killed, disk full %lld times, that of "
                  "checkpoints %lld times%s\n",
                  rounds, (long long)s.kills, (long long)s.trial_kills, (long long)s.fills,
                  (long long)s.store_fills, s.has_tmpfs ? "" : " (no tmpfs: not permitted)");
}

TEST_MAIN()
