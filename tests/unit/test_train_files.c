/* What training writes: SHA-256, event files, checkpoints. */
#include "cut_files.h"
#include "test_folder.h"
#include "train_support.h"
#include "unreadable.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "train/train.h"

/* ---- event files ---- */

static uint32_t crc32c(const unsigned char *p, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++)
        for (int k = (crc ^= p[i], 0); k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static uint32_t u32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

TEST(events__frames_and_values)
{
    struct ebb_error err = {0};
    struct train_events *events;
    char path[512] = "";
    struct ebb_file_view view;
    CHECK_OK(train_events_open(&events, folder, &err), &err);
    CHECK_OK(train_events_scalar(events, "loss", 300, 0.5, &err), &err);
    CHECK_OK(train_events_close(events, &err), &err);
    DIR *dir = opendir(folder);
    for (struct dirent *d; (d = readdir(dir));)
        if (strncmp(d->d_name, "events.out.tfevents.", 20) == 0)
            snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
    closedir(dir);
    CHECK_OK(ebb_file_view_open(&view, path, SIZE_MAX, &err), &err);
    const unsigned char *p = (const unsigned char *)view.data;
    size_t at = 0, frames = 0;
    while (at < view.length) {
        size_t n = u32(p + at);
        CHECK_EQ(u32(p + at + 8), crc32c(p + at, 8));
        CHECK_EQ(u32(p + at + 12 + n), crc32c(p + at + 12, n));
        if (frames == 1) { /* time 9 bytes; step: 0x10 varint 300; summary 0x2a */
            const unsigned char *e = p + at + 12;
            CHECK_EQ(e[9], 0x10);
            CHECK_EQ(e[10] | e[11] << 8, 0xac | 0x02 << 8);
            CHECK_EQ(e[12], 0x2a);
            CHECK(memcmp(e + 18, "loss", 4) == 0);
            float value;
            memcpy(&value, e + 23, sizeof value);
            CHECK(value == 0.5f);
        }
        at += 16 + n;
        frames++;
    }
    CHECK_EQ(frames, 2);
    ebb_file_view_close(&view);
}

/* ---- checkpoints ---- */

static void configure(struct nn_config *net, struct train_config *config, int64_t accumulate)
{
    struct ebb_error err = {0};
    static const char *const options[][2] = {
        {"height", "8"}, {"width", "8"}, {"planes", "4"}, {"blocks", "1,1,1"}};
    CHECK_OK(nn_config_init(net, "cifar_resnet20", &err), &err);
    for (size_t i = 0; i < 4; i++)
        CHECK_OK(nn_config_set(net, options[i][0], options[i][1], &err), &err);
    *config = (struct train_config){.file = "test",
                                    .task = train_task_find("image_classification"),
                                    .net = net,
                                    .batch_size = 2,
                                    .accumulate = accumulate,
                                    .average = true,
                                    .seed = 3,
                                    .budget_bytes = UINT64_MAX,
                                    .device = getenv("EBB_TEST_DEVICE"),
                                    .threads = 1};
    CHECK_OK(optim_parse("Adam", NULL, &config->optim, &err), &err);
}

/* `first` batches, a checkpoint into a new trial, `second` more: as if never interrupted. */
static void check_resume(int64_t accumulate, int first, int second)
{
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    char want[65], got[65], dir[256];
    configure(&net, &config, accumulate);
    struct train_trial *whole = make(&config);
    batches(whole, first + second, &(struct train_batch){0});
    CHECK_OK(train_trial_hash(whole, want, &err), &err);
    train_trial_destroy(whole);
    struct train_trial *before = make(&config);
    batches(before, first, &(struct train_batch){0});
    snprintf(dir, sizeof dir, "%s/c-%d-%d", folder, (int)accumulate, first);
    CHECK_EQ(mkdir(dir, 0777), 0);
    CHECK_OK(train_trial_save(before, dir, &err), &err);
    train_trial_destroy(before);
    struct train_trial *after = make(&config);
    batches(after, 1, &(struct train_batch){0}); /* what was there is overwritten */
    CHECK_OK(train_trial_load(after, dir, TRAIN_RESUME, &err), &err);
    batches(after, second, &(struct train_batch){0});
    CHECK_OK(train_trial_hash(after, got, &err), &err);
    CHECK_STR(got, want);
    train_trial_destroy(after);
}

TEST(checkpoint__resumes_to_the_same_bits)
{
    check_resume(1, 0, 3);
    check_resume(1, 3, 2);
}

TEST(checkpoint__inside_an_accumulation)
{
    check_resume(3, 4, 5); /* one batch into the second update */
    check_resume(3, 3, 3);
}

TEST(checkpoint__every_changed_byte_is_noticed)
{
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    char dir[256], path[300], want[65], got[65];
    static const char *const files[] = {"state/weights.safetensors", "state/optimizer.safetensors",
                                        "state/train.json", "manifest.json"};
    configure(&net, &config, 1);
    struct train_trial *trial = make(&config);
    batches(trial, 1, &(struct train_batch){0});
    snprintf(dir, sizeof dir, "%s/flip", folder);
    CHECK_EQ(mkdir(dir, 0777), 0);
    CHECK_OK(train_trial_save(trial, dir, &err), &err);
    batches(trial, 1, &(struct train_batch){0});
    CHECK_OK(train_trial_hash(trial, want, &err), &err);
    for (size_t f = 0; f < 4; f++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[f]);
        for (long at = 9; at < 400; at += 130) {
            FILE *file = fopen(path, "r+b");
            fseek(file, at, SEEK_SET);
            int old = fgetc(file);
            fseek(file, at, SEEK_SET);
            fputc(old ^ 1, file);
            fclose(file);
            enum ebb_status status = train_trial_load(trial, dir, TRAIN_RESUME, &err);
            CHECK(status == EBB_ECORRUPT);
            file = fopen(path, "r+b");
            fseek(file, at, SEEK_SET);
            fputc(old, file);
            fclose(file);
        }
    }
    CHECK_OK(train_trial_hash(trial, got, &err), &err); /* refusals changed nothing */
    CHECK_STR(got, want);
    CHECK_OK(train_trial_load(trial, dir, TRAIN_RESUME, &err), &err);
    train_trial_destroy(trial);
}

TEST(store__keeps_two_and_uses_the_newest_whole_one)
{
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    struct train_state state;
    struct ebb_str note;
    char dir[256], path[512];
    bool found = true;
    configure(&net, &config, 1);
    struct train_trial *trial = make(&config);
    snprintf(dir, sizeof dir, "%s/store", folder);
    ebb_str_init(&note);
    CHECK_OK(train_store_load(trial, dir, &found, &note, &err), &err);
    CHECK(!found);
    CHECK_EQ(train_store_threads(dir), 0);
    for (int i = 0; i < 4; i++) {
        batches(trial, 1, &(struct train_batch){0});
        CHECK_OK(train_store_save(trial, dir, &err), &err);
    }
    CHECK_EQ(train_store_threads(dir), 1);
    snprintf(path, sizeof path, "%s/update-000000000002", dir);
    CHECK(access(path, F_OK) != 0);
    snprintf(path, sizeof path, "%s/update-000000000004/manifest.json", dir);
    CHECK_EQ(unlink(path), 0);
    CHECK_OK(train_store_load(trial, dir, &found, &note, &err), &err);
    CHECK(found && note.length > 0);
    train_trial_state(trial, &state);
    CHECK_EQ(state.updates, 3);
    ebb_str_fini(&note);
    train_trial_destroy(trial);
}

/* Whoever hears of damage goes back to the checkpoint before, and what is newer goes: what cannot be
 * read may be good. */
TEST(store__that_cannot_be_read_is_not_passed_over)
{
    static const char *const names[] = {"manifest.json", "state/weights.safetensors",
                                        "state/train.json"};
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    struct train_state state;
    struct ebb_str found_at = {0};
    char dir[256], path[512];
    bool found;
    configure(&net, &config, 1);
    struct train_trial *trial = make(&config), *other = make(&config);
    snprintf(dir, sizeof dir, "%s/unreadable", folder);
    for (int i = 0; i < 2; i++) {
        batches(trial, 1, &(struct train_batch){0});
        CHECK_OK(train_store_save(trial, dir, &err), &err);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/update-000000000002/%s", dir, names[i]);
        unreadable_begin(path);
        CHECK_EQ(train_store_load(other, dir, &found, NULL, &err), EBB_EIO);
        CHECK(!found && strstr(err.message, names[i]) != NULL);
        CHECK_EQ(train_store_find(dir, &found_at, &err), EBB_EIO);
        CHECK_EQ(train_store_claim(trial, dir, &err), EBB_EIO);
        unreadable_end(path);
    }
    CHECK_OK(train_store_load(other, dir, &found, NULL, &err), &err);
    train_trial_state(other, &state);
    CHECK(found && state.updates == 2);
    ebb_str_fini(&found_at);
    train_trial_destroy(trial);
    train_trial_destroy(other);
}

TEST(store__belongs_to_one_run)
{
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    struct train_state state;
    char dir[256], path[512];
    bool found;
    configure(&net, &config, 1);
    struct train_trial *first = make(&config), *second = make(&config);
    snprintf(dir, sizeof dir, "%s/runs", folder);
    batches(first, 4, &(struct train_batch){0});
    CHECK_OK(train_store_claim(first, dir, &err), &err);
    CHECK_OK(train_store_save(first, dir, &err), &err);
    batches(second, 2, &(struct train_batch){0});
    CHECK_EQ(train_store_claim(second, dir, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "another run") != NULL);
    CHECK_EQ(train_store_save(second, dir, &err), EBB_EINPUT);
    snprintf(path, sizeof path, "%s/.update-000000000002.part/state", dir);
    CHECK_OK(ebb_file_mkdirs(path, &err), &err); /* a writer was killed */
    CHECK_OK(train_store_load(second, dir, &found, NULL, &err), &err);
    train_trial_state(second, &state);
    CHECK(found && state.updates == 4);
    CHECK_OK(train_store_claim(second, dir, &err), &err); /* now it is that run */
    CHECK(access(path, F_OK) != 0);
    batches(second, 1, &(struct train_batch){0});
    CHECK_OK(train_store_save(second, dir, &err), &err);
    CHECK_EQ(train_store_claim(first, dir, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "of batch 5, this run is at 4") != NULL);
    train_trial_destroy(first);
    train_trial_destroy(second);
}

/* Put another text into a file of a checkpoint, and the manifest right, as one that has SHA-256 only. */
static void forge(const char *dir, const char *from, const char *to)
{
    struct ebb_str command = {0};
    ebb_str_printf(&command,
                   "cd %s && old=$(sha256sum <state/train.json | cut -c 1-64) && "
                   "sed -i 's/%s/%s/' state/train.json && "
                   "sed -i \"s/^  \\\"xxh128/  \\\"older/; s/$old/$(sha256sum <state/train.json | "
                   "cut -c 1-64)/; "
                   "/train.json/,/bytes/s/\\\"bytes\\\": [0-9]*/\\\"bytes\\\": "
                   "$(stat -c %%s state/train.json)/\" manifest.json",
                   dir, from, to);
    CHECK_EQ(system(ebb_str_c(&command)), 0);
    ebb_str_fini(&command);
}

TEST(checkpoint__of_another_processor)
{
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    char dir[256];
    configure(&net, &config, 1);
    struct train_trial *trial = make(&config);
    batches(trial, 1, &(struct train_batch){0});
    snprintf(dir, sizeof dir, "%s/processor", folder);
    CHECK_EQ(mkdir(dir, 0777), 0);
    CHECK_OK(train_trial_save(trial, dir, &err), &err);
    forge(dir, "instruction_set\\\": \\\".*\\\"", "instruction_set\\\": \\\"abacus\\\"");
    CHECK_EQ(train_trial_load(trial, dir, TRAIN_RESUME, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "on a processor with abacus") != NULL);
    CHECK_OK(train_trial_load(trial, dir, TRAIN_WEIGHTS, &err), &err);
    train_trial_destroy(trial);
    trial = NULL;
    struct train_options options = {.makes_data = true, .any_threads = true};
    CHECK_OK(train_trial_create(&trial, &config, &options, &err), &err);
    CHECK_OK(train_trial_load(trial, dir, TRAIN_RESUME, &err), &err);
    train_trial_destroy(trial);
}

TEST(weights__export_and_import)
{
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    char path[256], want[65], got[65];
    configure(&net, &config, 1);
    struct train_trial *trial = make(&config);
    batches(trial, 2, &(struct train_batch){0});
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    CHECK_OK(train_trial_export(trial, path, &err), &err);
    CHECK_OK(train_trial_hash(trial, want, &err), &err);
    train_trial_destroy(trial);
    trial = make(&config);
    CHECK_OK(train_trial_import(trial, &(struct train_init){.path = path}, NULL, &err), &err);
    CHECK_OK(train_trial_hash(trial, got, &err), &err);
    CHECK_STR(got, want);
    train_trial_destroy(trial);
    CHECK_OK(nn_config_set(&net, "classes", "3", &err), &err);
    trial = make(&config);
    CHECK_EQ(train_trial_import(trial, &(struct train_init){.path = path}, NULL, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "linear") != NULL);
    train_trial_destroy(trial);
}

TEST(state__tells_whole_updates_of_this_run)
{
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    struct train_state one, four, later;
    char dir[256];
    configure(&net, &config, 1);
    struct train_trial *trial = make(&config);
    train_trial_state(trial, &one);
    train_trial_destroy(trial);
    CHECK(one.predicted_ns > 0);
    configure(&net, &config, 4);
    trial = make(&config);
    train_trial_state(trial, &four);
    CHECK(four.predicted_ns > 3 * one.predicted_ns);
    CHECK(four.predicted_ns < 6 * one.predicted_ns);
    batches(trial, 8, &(struct train_batch){0});
    snprintf(dir, sizeof dir, "%s/told", folder);
    CHECK_EQ(mkdir(dir, 0777), 0);
    CHECK_OK(train_trial_save(trial, dir, &err), &err);
    train_trial_destroy(trial);
    trial = make(&config);
    CHECK_OK(train_trial_load(trial, dir, TRAIN_RESUME, &err), &err);
    batches(trial, 4, &(struct train_batch){0});
    train_trial_state(trial, &later);
    CHECK_EQ(later.updates, 3);
    CHECK_EQ(later.run_updates, 1);
    train_trial_destroy(trial);
}

/* Host memory is memory of the same machine. */
TEST(machine__must_have_what_lives_in_the_host)
{
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    struct train_options options = {.makes_data = true};
    struct train_state state;
    struct train_trial *trial = NULL;
    uint64_t floor_bytes;
    configure(&net, &config, 1);
    config.host_bytes = 1 << 22;
    trial = make(&config);
    CHECK_OK(train_trial_floor(trial, &floor_bytes, &err), &err);
    train_trial_destroy(trial);
    config.budget_bytes = floor_bytes + 4096;
    trial = make(&config);
    train_trial_state(trial, &state);
    CHECK(state.below_bytes > 0);
    train_trial_destroy(trial);
    trial = NULL;
    options.machine_bytes = state.peak_bytes + state.below_bytes - 1;
    CHECK_EQ(train_trial_create(&trial, &config, &options, &err), EBB_ENOMEM);
    CHECK(strstr(err.message, "memory.host") != NULL);
    options.machine_bytes = state.peak_bytes + config.host_bytes;
    CHECK_OK(train_trial_create(&trial, &config, &options, &err), &err);
    train_trial_destroy(trial);
}

/* A trial whose state lives in a file, which is cut short behind its first update. */
static struct train_trial *make_broken(void)
{
    struct nn_config net;
    struct train_config config;
    struct train_state state;
    configure(&net, &config, 1);
    struct train_trial *trial = make(&config);
    struct ebb_error err = {0};
    uint64_t floor_bytes;
    config.file_bytes = 1 << 22;
    train_trial_destroy(trial);
    trial = make(&config);
    CHECK_OK(train_trial_floor(trial, &floor_bytes, &err), &err);
    train_trial_destroy(trial);
    config.budget_bytes = floor_bytes + 4096;
    trial = make(&config);
    batches(trial, 1, &(struct train_batch){0});
    train_trial_state(trial, &state);
    CHECK(state.below_bytes > 0);
    CHECK_EQ(test_cut_files("ebb-unnamed-"), 1);
    return trial;
}

TEST(state_below__that_cannot_be_read_has_no_hash)
{
    struct ebb_error err = {0};
    char text[65];
    struct train_trial *trial = make_broken();
    CHECK_EQ(train_trial_hash(trial, text, &err), EBB_EIO);
    CHECK(strstr(err.message, "file tier: cannot read") != NULL);
    train_trial_destroy(trial);
}

TEST(state_below__that_cannot_be_read_is_not_saved)
{
    struct ebb_error err = {0};
    char dir[256];
    struct train_trial *trial = make_broken();
    snprintf(dir, sizeof dir, "%s/broken", folder);
    CHECK_EQ(mkdir(dir, 0777), 0);
    errno = ENOSPC; /* of something long ago: nobody waits for room */
    CHECK_EQ(train_trial_save(trial, dir, &err), EBB_EIO);
    CHECK(strstr(err.message, "file tier: cannot read") != NULL);
    train_trial_destroy(trial);
}

TEST_MAIN_ONCE(folder_open, folder_close)
