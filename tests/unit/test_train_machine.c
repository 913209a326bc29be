/* The profile of this machine decides where it knows the step, and nowhere else; floors stay as they are. */
#include "test_arena.h"
#include "test_folder.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "profile/profile.h"
#include "trace/trace.h"
#include "train/decide.h"
#include "train/train.h"

static const char text[] =
    "benchmark: gpt\n"
    "data: {data_dir: synthetic, sequence_length: 32, vocabulary: 32, samples: 64, n_epochs: 1, "
    "val_samples: 4, global_batch_size: 8}\n"
    "model: {layers: 3, width: 16, heads: 2, dropout: 0}\n"
    "opt: {name: Adam}\nlr_schedule: {base_lr: 0.01}\nmemory: {threads: 1%s}\n";

static struct train_bench bench;

/* A dry trial with more keys of `memory`. */
static struct train_trial *begin(const char *more, bool knows_machine)
{
    struct ebb_error err = {0};
    struct ebb_report report;
    const struct ebb_doc_node *root = NULL;
    struct train_trial *trial = NULL;
    struct train_options dry = {.is_dry = true, .knows_machine = knows_machine};
    char *file = ebb_arena_printf(&arena, text, more);
    CHECK_OK(ebb_doc_parse_yaml(&arena, "test", file, strlen(file), &root, &err), &err);
    struct train_bench_source source = {.file = "test", .root = root, .seed = -1};
    CHECK_OK(train_bench_read(&arena, &source, &bench, &report, &err), &err);
    CHECK_OK(train_trial_create(&trial, &bench.config, &dry, &err), &err);
    return trial;
}

/* What a trial of these keys goes by; "builtin" or "machine". */
static const char *costs_of(const char *more, bool knows_machine, struct train_state *state)
{
    struct train_trial *trial = begin(more, knows_machine);
    train_trial_state(trial, state);
    bool is_own = state->costs && state->costs == state->machine_costs;
    CHECK(!state->costs || is_own);
    train_trial_destroy(trial);
    return is_own ? "machine" : "builtin";
}

/* Keeps a profile of the first `count` ops for `threads`: each takes 7 ms. */
static void keep(uint32_t count, int threads)
{
    struct ebb_error err = {0};
    struct train_times *times;
    struct profile *profile;
    struct ebb_str path = {0};
    uint64_t *op_ns;
    setenv("XDG_CACHE_HOME", folder, 1);
    struct train_trial *trial = begin("", false);
    const struct trace *t = train_trial_trace(trial);
    CHECK_OK(ebb_new(&op_ns, t->op_count, sizeof *op_ns, &err), &err);
    for (uint32_t i = 0; i < t->op_count && i < count; i++)
        op_ns[i] = 7000000;
    CHECK_OK(train_times_create(&times, &err), &err);
    train_times_note(times, t, op_ns);
    CHECK_OK(train_times_profile(times, "cpu", NULL, &profile, &err), &err);
    CHECK_OK(train_machine_path(threads, &path, &err), &err);
    *strrchr(path.data, '/') = '\0';
    CHECK_OK(ebb_file_mkdirs(path.data, &err), &err);
    path.data[strlen(path.data)] = '/';
    CHECK_OK(profile_write(profile, ebb_str_c(&path), &err), &err);
    profile_destroy(profile);
    train_times_destroy(times);
    ebb_str_fini(&path);
    ebb_free(op_ns);
    train_trial_destroy(trial);
}

TEST(profile__decides_where_it_knows_the_step)
{
    struct train_state guessed, measured;
    struct ebb_error err = {0};
    uint64_t least = 0, again = 0;
    setenv("XDG_CACHE_HOME", folder, 1);
    CHECK_STR(costs_of("", true, &guessed), "builtin"); /* there is none */
    CHECK(!guessed.machine_costs);
    keep(UINT32_MAX, 1);
    CHECK_STR(costs_of("", true, &measured), "machine");
    CHECK(measured.machine_known == 1);
    CHECK(measured.predicted_ns > 10 * guessed.predicted_ns);
    CHECK_STR(costs_of("", false, &measured), "builtin"); /* only who asks */
    CHECK_EQ(measured.predicted_ns, guessed.predicted_ns);
    CHECK_STR(costs_of(", costs: builtin", true, &measured), "builtin");
    CHECK_EQ(measured.predicted_ns, guessed.predicted_ns);
    struct train_trial *trial = begin("", false);
    CHECK_OK(train_trial_floor(trial, &least, &err), &err);
    train_trial_destroy(trial);
    trial = begin("", true);
    CHECK_OK(train_trial_floor(trial, &again, &err), &err);
    train_trial_destroy(trial);
    CHECK_EQ(again, least);
}

TEST(profile__of_a_few_ops_decides_nothing)
{
    struct train_state state;
    keep(0, 1);
    CHECK_STR(costs_of("", true, &state), "builtin");
    CHECK(state.machine_costs && state.machine_known == 0);
    uint64_t guessed = state.predicted_ns;
    keep(40, 1); /* leaves are among them */
    CHECK_STR(costs_of("", true, &state), "builtin");
    CHECK_EQ(state.predicted_ns, guessed);
    CHECK(state.machine_known < 0.9);
}

TEST(profile__of_other_threads_decides_nothing)
{
    struct train_state state;
    keep(UINT32_MAX, 2);
    CHECK_STR(costs_of("", true, &state), "builtin");
    CHECK(!state.machine_costs);
}

/* A profile whose host carries 10 GB/s each way, and 12 while both are busy: what plans go by beside a
 * rate given by hand. */
static struct device_config links_at(double rate)
{
    static const char bytes[] =
        "ebb-device 1\nkind cpu\nlink host_out 0 10 6\nlink host_in 0 10 6\nend\n";
    struct ebb_error err = {0};
    struct profile *profile = NULL;
    CHECK_OK(profile_read("test", bytes, sizeof bytes - 1, &profile, &err), &err);
    struct train_ways w = {.profile = profile, .link.host_rate = rate};
    struct device_config links = train_ways_options(&w).links;
    profile_destroy(profile);
    return links;
}

TEST(links__both_ways_at_once__go_with_a_rate_given_by_hand)
{
    CHECK(links_at(0).both[DEVICE_HOST] == 12);
    CHECK(links_at(2).both[DEVICE_HOST] == 12); /* more than both are allowed: they do not meet */
    struct device_config fast = links_at(30);
    CHECK(fast.out[DEVICE_HOST].bytes_per_ns == 30 && fast.both[DEVICE_HOST] == 36);
}

static int open_both(void **state)
{
    return arena_open(state) == 0 ? folder_open(state) : -1;
}

static int close_both(void **state)
{
    int folder_code = folder_close(state);
    return arena_close(state) == 0 ? folder_code : -1;
}

TEST_MAIN_EACH(open_both, close_both)
