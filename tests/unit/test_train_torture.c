/* Every allocation of reading a configuration and of making, running and saving a small trial fails
 * in turn: a status each time, and nothing stays allocated. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/heap.h"
#include "base/str.h"
#include "nn/nn.h"
#include "train/train.h"

static const char file[] = "model: {name: gpt2_124M, vocabulary: 12, positions: 4, length: 4, "
                           "width: 8, layers: 1, heads: 2}\n"
                           "opt: {name: Adam, lr: '${rate}'}\n"
                           "lr_schedule: {name: StepLR, step_size: 3}\n"
                           "memory: {budget: unlimited, threads: 1}\n";

static enum ebb_status read_config(struct ebb_arena *arena, struct train_config *config,
                                   struct ebb_error *err)
{
    const struct ebb_doc_node *root, *hparams;
    static const char values[] = "{global_batch_size: 2, rate: 0.1}";
    EBB_TRY(ebb_doc_parse_yaml(arena, "file", file, sizeof file - 1, &root, err));
    EBB_TRY(ebb_doc_parse_yaml(arena, "values", values, sizeof values - 1, &hparams, err));
    struct train_source source = {
        .file = "file", .entrypoint = "ebb:language_model", .root = root, .hparams = hparams};
    return train_config_read(arena, &source, config, NULL, err);
}

TEST(config__survives_every_failing_allocation)
{
    struct ebb_error err = {0};
    enum ebb_status status = EBB_ENOMEM;
    uint64_t live = ebb_heap_live(), n = 1;
    for (; status != EBB_OK && n < 10000; n++) {
        struct ebb_arena arena;
        struct train_config config;
        ebb_arena_init(&arena);
        ebb_heap_fail_at(n);
        status = read_config(&arena, &config, &err);
        ebb_heap_fail_at(0);
        ebb_arena_fini(&arena);
        CHECK_EQ(ebb_heap_live(), live);
    }
    CHECK_EQ(status, EBB_OK);
    CHECK(n > 3);
}

static enum ebb_status whole_trial(const struct train_config *config, const char *folder,
                                   struct ebb_error *err)
{
    struct train_options options = {.makes_data = true};
    struct train_trial *trial = NULL;
    struct train_batch batch;
    struct train_metrics metrics;
    char hash[65];
    enum ebb_status status = train_trial_create(&trial, config, &options, err);
    if (status == EBB_OK)
        status = train_trial_batch(trial, &batch, err);
    if (status == EBB_OK)
        status = train_trial_validate(trial, NULL, NULL, &metrics, err);
    if (status == EBB_OK)
        status = train_store_save(trial, folder, err);
    bool found;
    if (status == EBB_OK)
        status = train_store_load(trial, folder, &found, NULL, err);
    if (status == EBB_OK)
        status = train_trial_hash(trial, hash, err);
    train_trial_destroy(trial);
    return status;
}

/* Steps of growing size: the first allocations matter most, and there are thousands. */
TEST(trial__survives_failing_allocations)
{
    char folder[] = "/tmp/ebb-test-torture-XXXXXX", command[128];
    struct ebb_error err = {0};
    struct ebb_arena arena;
    struct train_config config;
    enum ebb_status status = EBB_ENOMEM;
    CHECK(mkdtemp(folder) != NULL);
    ebb_arena_init(&arena);
    CHECK_OK(read_config(&arena, &config, &err), &err);
    uint64_t live = ebb_heap_live(), n = 1, step = 1, tries = 0;
    for (; status != EBB_OK && n < 10000000; n += step) {
        ebb_heap_fail_at(n);
        status = whole_trial(&config, folder, &err);
        ebb_heap_fail_at(0);
        CHECK(status == EBB_OK || status == EBB_ENOMEM || status == EBB_EINTERNAL);
        snprintf(command, sizeof command, "rm -rf %s/*", folder); /* the next one is another run */
        CHECK_EQ(system(command), 0);
        if (ebb_heap_live() != live)
            fail_msg("allocation %llu failing leaks %lld blocks: %s", (unsigned long long)n,
                     (long long)(ebb_heap_live() - live), err.message);
        step = ++tries > 60 ? 1 + n / 25 : 1;
    }
    CHECK_EQ(status, EBB_OK);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK_EQ(system(command), 0);
    ebb_arena_fini(&arena);
}

TEST_MAIN()
