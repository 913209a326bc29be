/* Kernels that choose algorithms by a profile: signatures, checkpoints and profiles name what was chosen. The place where
 * steps run is this file's own: the cpu, as if its products had several algorithms. */
#include "test_folder.h"
#include "train_support.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/file.h"
#include "device/device.h"
#include "kernel/kernel.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "profile/profile.h"
#include "trace/trace.h"
#include "train/place.h"
#include "train/train.h"

static struct ebb_error err;

/* ---- the toy ---------------------------------------------------------------------------------------- */

static struct kernel_table toy;
static const struct profile *given;
static char identity[64];

static enum ebb_status toy_open(struct kernel_context **context, struct device *device,
                                const struct profile *profile, int threads, struct ebb_error *e)
{
    EBB_TRY(kernel_cpu.open(context, device, profile, threads, e));
    ((struct kernel_head *)*context)->table = &toy;
    given = profile ? profile : profile_builtin();
    return EBB_OK;
}

static enum ebb_status toy_need(struct kernel_context *c, enum kernel_family family,
                                const void *desc, const struct kernel_args *types,
                                struct kernel_need *need, struct ebb_error *e)
{
    EBB_TRY(kernel_cpu.need(c, family, desc, types, need, e));
    const struct profile_row *row = profile_find(given, "toy", "any");
    if (family == KERNEL_FAMILY_MATMUL)
        need->algorithm = row ? strtoull(row->algorithm, NULL, 16) : 1;
    return EBB_OK;
}

static const char *toy_identity(struct kernel_context *c)
{
    (void)c;
    snprintf(identity, sizeof identity, "toy 7, algorithms %016llx",
             (unsigned long long)profile_hash(given, "toy"));
    return identity;
}

static enum ebb_status toy_algorithms(struct kernel_context *c, bool measures, kernel_row_sink *add,
                                      void *to, struct ebb_error *e)
{
    const struct profile_row *row = profile_find(given, "toy", "any");
    (void)c;
    for (int twice = 0; twice < 2; twice++) /* who listens keeps one */
        EBB_TRY(add(to,
                    &(struct profile_row){.family = "toy",
                                          .key = "any",
                                          .algorithm = measures ? "fa57"
                                                       : row    ? row->algorithm
                                                                : "1"},
                    e));
    return EBB_OK;
}

enum ebb_status train_place_find(const char *name, struct train_place *place, struct ebb_error *e)
{
    (void)name, (void)e;
    toy = kernel_cpu;
    toy.open = toy_open;
    toy.need = toy_need;
    toy.identity = toy_identity;
    toy.algorithms = toy_algorithms;
    *place = (struct train_place){&device_cpu, &toy, "toy", false};
    return EBB_OK;
}

/* ---- trials ----------------------------------------------------------------------------------------- */

static struct nn_config net;
static struct train_config config;
static char path[96];

/* algorithm NULL: no profile. */
static void configure(const char *algorithm)
{
    static const char *const options[][2] = {
        {"height", "8"}, {"width", "8"}, {"planes", "4"}, {"blocks", "1,1,1"}};
    CHECK_OK(nn_config_init(&net, "cifar_resnet20", &err), &err);
    for (size_t i = 0; i < 4; i++)
        CHECK_OK(nn_config_set(&net, options[i][0], options[i][1], &err), &err);
    config = (struct train_config){.file = "test",
                                   .task = train_task_find("image_classification"),
                                   .net = &net,
                                   .batch_size = 2,
                                   .accumulate = 1,
                                   .average = true,
                                   .seed = 3,
                                   .budget_bytes = UINT64_MAX,
                                   .threads = 1};
    CHECK_OK(optim_parse("Adam", NULL, &config.optim, &err), &err);
    if (!algorithm)
        return;
    char text[128];
    snprintf(path, sizeof path, "%s/%s.device", folder, algorithm);
    int n = snprintf(text, sizeof text, "ebb-device 1\nkind toy\nrow toy any 0 0 0 %s\nend\n",
                     algorithm);
    CHECK_OK(ebb_file_write_atomic(path, text, (size_t)n, &err), &err);
    config.costs = path;
}

static struct ebb_hash128 signature_with(const char *algorithm)
{
    configure(algorithm);
    struct train_trial *trial = make(&config);
    struct ebb_hash128 s = train_trial_trace(trial)->signature;
    train_trial_destroy(trial);
    return s;
}

TEST(signatures__tell_algorithms_apart)
{
    struct ebb_hash128 none = signature_with(NULL), a = signature_with("a1"),
                       again = signature_with("a1"), b = signature_with("b2");
    CHECK(memcmp(&a, &again, sizeof a) == 0);
    CHECK(memcmp(&a, &b, sizeof a) != 0);
    CHECK(memcmp(&a, &none, sizeof a) != 0);
}

TEST(checkpoints__name_what_they_were_made_with)
{
    char dir[96], state[128];
    struct ebb_file_view view;
    configure("a1");
    struct train_trial *trial = make(&config);
    batches(trial, 1, &(struct train_batch){0});
    snprintf(dir, sizeof dir, "%s/checkpoint", folder);
    CHECK_EQ(mkdir(dir, 0777), 0);
    CHECK_OK(train_trial_save(trial, dir, &err), &err);
    CHECK_OK(train_trial_load(trial, dir, TRAIN_RESUME, &err), &err);
    snprintf(state, sizeof state, "%s/state/train.json", dir);
    CHECK_OK(ebb_file_view_open(&view, state, SIZE_MAX, &err), &err);
    CHECK(memmem(view.data, view.length, identity, strlen(identity)) != NULL);
    ebb_file_view_close(&view);
    train_trial_destroy(trial);

    configure("b2");
    trial = make(&config);
    CHECK_EQ(train_trial_load(trial, dir, TRAIN_RESUME, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "was made on toy 7, algorithms ") != NULL);
    CHECK(strstr(err.message, "--any-threads") != NULL);
    CHECK_OK(train_trial_load(trial, dir, TRAIN_WEIGHTS, &err), &err);
    train_trial_destroy(trial);
    struct train_options options = {.makes_data = true, .any_threads = true};
    CHECK_OK(train_trial_create(&trial, &config, &options, &err), &err);
    CHECK_OK(train_trial_load(trial, dir, TRAIN_RESUME, &err), &err);
    train_trial_destroy(trial);
}

/* Whoever decides by what a run wrote runs with the algorithms of that run. */
TEST(profiles__carry_the_algorithms)
{
    for (int measures = 0; measures < 2; measures++) {
        struct train_times *times = NULL;
        struct profile *profile = NULL;
        configure("a1");
        struct train_trial *trial = make(&config);
        CHECK_OK(train_times_create(&times, &err), &err);
        CHECK_OK(train_trial_algorithms(trial, measures, times, &err), &err);
        CHECK_OK(train_times_profile(times, NULL, NULL, &profile, &err), &err);
        const struct profile_row *row = profile_find(profile, "toy", "any");
        CHECK(row != NULL);
        CHECK_STR(row->algorithm, measures ? "fa57" : "a1");
        profile_destroy(profile);
        train_times_destroy(times);
        train_trial_destroy(trial);
    }
}

TEST_MAIN_EACH(folder_open, folder_close)
