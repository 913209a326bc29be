/* bench_data_loader.c - how fast data come, and how much of a training step is spent waiting.
 *
 *     bench_data_loader [SECTION BATCH BATCHES STEP_MS WORKERS]
 *
 * Without arguments: a table over datasets (Fashion-MNIST when installed, JPEG files made below
 * /tmp, generated ones), without and with workers. A step is a sleep: what a device would do. Rows
 * are samples per second without steps, and the share of time waited with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/str.h"
#include "data/data.h"

struct job {
    const char *section;
    size_t batch, batches;
    double step_ms;
    int workers;
};

static void sleep_ms(double ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1e3)};
    t.tv_nsec = (long)((ms - (double)t.tv_sec * 1e3) * 1e6);
    if (ms > 0)
        nanosleep(&t, NULL);
}

/* `batches` batches with a step of step_ms after each; stats of the loader. */
static enum ebb_status run(const struct data_set *set, const struct job *job, double step_ms,
                           struct data_stats *stats, double *seconds, struct ebb_error *err)
{
    const struct data_info *info = data_describe(set);
    struct data_loader *l;
    void *fields[DATA_MAX_FIELDS] = {0};
    struct data_loader_options o = {.batch = job->batch,
                                    .order = DATA_SHUFFLE,
                                    .seed = 1,
                                    .workers = job->workers,
                                    .drop_last = true,
                                    .buffer_bytes = UINT64_C(256) << 20};
    EBB_TRY(data_loader_create(set, &o, &l, err));
    enum ebb_status status = EBB_OK;
    for (size_t f = 0; f < info->field_count; f++) {
        fields[f] = ebb_alloc(job->batch * info->fields[f].bytes);
        if (!fields[f])
            status = ebb_no_memory(err, job->batch * info->fields[f].bytes);
    }
    uint64_t begin = ebb_clock_ns();
    for (size_t i = 0; i < job->batches && status == EBB_OK; i++) {
        struct data_batch b;
        status = data_loader_next(l, fields, &b, err);
        sleep_ms(step_ms);
    }
    *seconds = (double)(ebb_clock_ns() - begin) * 1e-9;
    data_loader_stats(l, stats);
    for (size_t f = 0; f < info->field_count; f++)
        ebb_free(fields[f]);
    data_loader_destroy(l);
    return status;
}

static int measure(const struct job *job)
{
    struct ebb_arena arena;
    struct ebb_error err = {0};
    const struct ebb_doc_node *root;
    struct data_set *set = NULL;
    struct data_stats free_run = {0}, stepped = {0};
    double seconds = 0, with_steps = 0;
    char bytes[32];
    ebb_arena_init(&arena);
    uint64_t begin = ebb_clock_ns();
    enum ebb_status status =
        ebb_doc_parse_yaml(&arena, "section", job->section, strlen(job->section), &root, &err);
    if (status == EBB_OK)
        status = data_open(root, NULL, &set, &err);
    double opened = (double)(ebb_clock_ns() - begin) * 1e-6;
    if (status == EBB_OK)
        status = run(set, job, 0, &free_run, &seconds, &err);
    if (status == EBB_OK)
        status = run(set, job, job->step_ms, &stepped, &with_steps, &err);
    if (status != EBB_OK) {
        printf("%s: %s\n", job->section, err.message);
    } else {
        double total = (double)(stepped.waited_ns + stepped.copied_ns + stepped.between_ns) / 100.0;
        printf("%-14s %5zu %7d %9.1f %11.0f %8.1f %7.2f%% %7.2f%% %12s\n", data_describe(set)->name,
               job->batch, stepped.workers, opened, (double)(job->batch * job->batches) / seconds,
               job->step_ms, (double)stepped.waited_ns / total, (double)stepped.copied_ns / total,
               ebb_format_bytes(stepped.private_bytes, bytes, sizeof bytes));
    }
    data_close(set);
    ebb_arena_fini(&arena);
    return status != EBB_OK;
}

/* JPEG files of 256 x 256 below folder. */
static int make_pictures(const char *folder)
{
    static const char section[] = "{name: imagefolder, data_dir: synthetic, classes: 8}";
    struct ebb_arena arena;
    struct ebb_error err = {0};
    const struct ebb_doc_node *root;
    struct data_set *set = NULL;
    struct data_make_options o = {.count = {64, 0}, .format = "jpeg"};
    ebb_arena_init(&arena);
    enum ebb_status status =
        ebb_doc_parse_yaml(&arena, "section", section, strlen(section), &root, &err);
    if (status == EBB_OK)
        status = data_open(root, NULL, &set, &err);
    if (status == EBB_OK)
        status = data_make(set, folder, &o, &err);
    data_close(set);
    ebb_arena_fini(&arena);
    return status != EBB_OK;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/ebb-bench-data-XXXXXX", jpeg[128], augmented[256], command[128];
    printf("%-14s %5s %7s %9s %11s %8s %8s %8s %12s\n", "dataset", "batch", "workers", "open ms",
           "samples/s", "step ms", "waited", "copied", "memory");
    if (argc == 6) {
        struct job job = {argv[1], strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
                          strtod(argv[4], NULL), (int)strtol(argv[5], NULL, 10)};
        return measure(&job);
    }
    if (!mkdtemp(folder) || make_pictures(folder))
        return 1;
    snprintf(jpeg, sizeof jpeg, "{name: imagefolder, data_dir: %s}", folder);
    snprintf(augmented, sizeof augmented,
             "{name: imagefolder, data_dir: %s, augment: {random_resized_crop: true, flip: true}}",
             folder);
    const struct job jobs[] = {
        {"{name: fashion_mnist}", 64, 200, 5, 0},
        {"{name: fashion_mnist, augment: {flip: true, crop_pad: 2}}", 64, 200, 5, 1},
        {jpeg, 8, 16, 100, 0},
        {jpeg, 8, 16, 100, 1},
        {augmented, 8, 16, 100, 1},
        {"{name: text, sequence_length: 1024}", 8, 25, 50, 1},
        {"{name: language}", 8, 50, 50, 1},
        {"{name: cosmoflow, data_dir: synthetic}", 1, 4, 500, 1},
        {"{name: deepcam, data_dir: synthetic}", 1, 4, 500, 1},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        failed |= measure(&jobs[i]);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || failed;
}
