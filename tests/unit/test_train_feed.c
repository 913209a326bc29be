/* Batches on their way to the step: bytes that become numbers there, batches loaded while a device
 * runs the one before, positions in checkpoints whatever is loaded ahead. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "nn/nn.h"
#include "train/train.h"

#define BATCH 4

struct feed { /* one way to train */
    const char *data, *device;
    uint64_t budget;
};

struct made {
    struct ebb_arena arena;
    struct nn_config net;
    struct train_config config;
    struct train_trial *trial;
};

static void make(struct made *m, const struct feed *f)
{
    static const char *const options[][2] = {{"planes", "4"}, {"blocks", "1,1,1"}};
    struct ebb_error err = {0};
    const struct ebb_doc_node *data;
    ebb_arena_init(&m->arena);
    CHECK_OK(nn_config_init(&m->net, "cifar_resnet20", &err), &err);
    for (size_t i = 0; i < 2; i++)
        CHECK_OK(nn_config_set(&m->net, options[i][0], options[i][1], &err), &err);
    CHECK_OK(ebb_doc_parse_yaml(&m->arena, "data", f->data, strlen(f->data), &data, &err), &err);
    m->config = (struct train_config){.file = "test",
                                      .task = train_task_find("image_classification"),
                                      .net = &m->net,
                                      .data = data,
                                      .batch_size = BATCH,
                                      .accumulate = 1,
                                      .average = true,
                                      .seed = 3,
                                      .budget_bytes = f->budget ? f->budget : UINT64_MAX,
                                      .device = f->device,
                                      .threads = 1};
    CHECK_OK(optim_parse("Adam", NULL, &m->config.optim, &err), &err);
    CHECK_OK(
        train_trial_create(&m->trial, &m->config, &(struct train_options){.workers = -1}, &err),
        &err);
}

static void end(struct made *m)
{
    train_trial_destroy(m->trial);
    ebb_arena_fini(&m->arena);
}

/* Batches, with a validation after every third: it uses the same room. */
static void run(struct made *m, int first, int count)
{
    struct ebb_error err = {0};
    for (int i = first; i < first + count; i++) {
        struct train_batch batch;
        struct train_metrics metrics;
        CHECK_OK(train_trial_batch(m->trial, &batch, &err), &err);
        CHECK_EQ(batch.records, i % 7 == 6 ? 2 : BATCH); /* 26 samples */
        CHECK_EQ(batch.is_epoch_end, i % 7 == 6);
        if (i % 3 == 2)
            CHECK_OK(train_trial_validate(m->trial, NULL, NULL, &metrics, &err), &err);
    }
}

static void hash_of(struct made *m, char *hash)
{
    struct ebb_error err = {0};
    CHECK_OK(train_trial_hash(m->trial, hash, &err), &err);
}

#define SET                                                                                        \
    "{name: imagefolder, data_dir: synthetic, resize: 16, crop: 16, classes: 10, samples: 26, "    \
    "val_samples: 6, drop_last_batch: false, "
static const char bytes[] = SET "image_dtype: u8, workers: 2}";
static const char numbers[] = SET "normalize: unit, workers: 0}";

TEST(bytes__become_the_numbers_that_the_host_would_make)
{
    static const struct feed ways[] = {
        {numbers, "cpu", 0}, {bytes, "cpu", 0}, {bytes, "far", 0}, {numbers, "far", 0}};
    char want[65], got[65];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct made m;
        make(&m, &ways[i]);
        run(&m, 0, 10); /* over the end of an epoch */
        hash_of(&m, i ? got : want);
        end(&m);
        if (i)
            CHECK_STR(got, want);
    }
}

/* What is loaded ahead is not used up: a checkpoint says where the next batch comes from. */
TEST(checkpoint__does_not_count_what_is_loaded_ahead)
{
    static const struct feed far = {bytes, "far", 0};
    char folder[] = "/tmp/ebb-test-feed-XXXXXX", want[65], got[65], command[128];
    struct ebb_error err = {0};
    struct made m, other;
    CHECK(mkdtemp(folder) != NULL);
    make(&m, &far);
    run(&m, 0, 5);
    CHECK_OK(train_trial_save(m.trial, folder, &err), &err);
    run(&m, 5, 4);
    hash_of(&m, want);
    end(&m);
    make(&other, &far);
    run(&other, 0, 2); /* with one of its own on the way */
    CHECK_OK(train_trial_load(other.trial, folder, TRAIN_RESUME, &err), &err);
    run(&other, 5, 4);
    hash_of(&other, got);
    end(&other);
    CHECK_STR(got, want);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK_EQ(system(command), 0);
}

TEST_MAIN()
