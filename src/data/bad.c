/* bad.c - samples that cannot be read: `bad_samples: skip`.
 *
 * One damaged file of a million ends a run unless the section says otherwise. Then the sample after it
 * takes its place: which one that is depends on the number of the bad one alone (rule D1), so that
 * batches stay the same at any number of workers and after any restart. Every bad one is counted once,
 * and the first few are named. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/map.h"
#include "data/internal.h"

struct data_bad { /* shared by the workers */
    pthread_mutex_t lock;
    struct ebb_map seen; /* hashes of what was said of each */
    char names[DATA_BAD_NAMED][512];
};

enum ebb_status data_bad_open(struct data_set *set, struct ebb_error *err)
{
    EBB_TRY(ebb_new(&set->bad, 1, sizeof *set->bad, err));
    pthread_mutex_init(&set->bad->lock, NULL);
    ebb_map_init(&set->bad->seen);
    return EBB_OK;
}

void data_bad_close(struct data_set *set)
{
    if (!set->bad)
        return;
    ebb_map_fini(&set->bad->seen);
    pthread_mutex_destroy(&set->bad->lock);
    ebb_free(set->bad);
}

/* What is said of a sample names it: its file and place. */
static void note(struct data_bad *bad, const struct ebb_error *why)
{
    uint64_t hash = ebb_hash64(why->message, strlen(why->message));
    pthread_mutex_lock(&bad->lock);
    size_t count = bad->seen.count;
    if (!ebb_map_get(&bad->seen, hash, NULL) && ebb_map_put(&bad->seen, hash, 1, NULL) == EBB_OK &&
        count < DATA_BAD_NAMED)
        snprintf(bad->names[count], sizeof bad->names[count], "%.500s", why->message);
    pthread_mutex_unlock(&bad->lock);
}

uint64_t data_bad_count(const struct data_set *set)
{
    if (!set || !set->bad)
        return 0;
    pthread_mutex_lock(&set->bad->lock);
    uint64_t count = set->bad->seen.count;
    pthread_mutex_unlock(&set->bad->lock);
    return count;
}

const char *data_bad_name(const struct data_set *set, size_t i)
{
    return i < DATA_BAD_NAMED && i < data_bad_count(set) ? set->bad->names[i] : NULL;
}

static bool is_bad(enum ebb_status status)
{
    return status == EBB_ECORRUPT || status == EBB_EINPUT;
}

enum ebb_status data_read_good(const struct data_set *set, enum data_split split, uint64_t index,
                               uint64_t seed, uint64_t epoch, void *const *fields,
                               struct data_scratch *scratch, struct ebb_error *err)
{
    struct ebb_error why;
    uint64_t count = set->info.count[split];
    enum ebb_status status =
        data_read_with(set, split, index, seed, epoch, fields, scratch, set->bad ? &why : err);
    if (!set->bad)
        return status;
    for (uint64_t i = 1; is_bad(status) && i < count; i++) {
        note(set->bad, &why);
        status =
            data_read_with(set, split, (index + i) % count, seed, epoch, fields, scratch, &why);
    }
    if (status != EBB_OK && err)
        *err = why;
    return status;
}
