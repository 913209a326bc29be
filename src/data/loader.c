/* loader.c - batches into the caller's memory, decoded ahead by workers.
 *
 * The epoch's list of samples is cut into groups of a fixed size that has nothing to do with the
 * batch (rule D2). A slot holds one decoded group. The owner sends slots through `jobs`, workers
 * fill them and send them back through `done`; both queues have room for every slot, so no push
 * waits. The owner copies from slots in order and sends each emptied slot out again.
 *
 *   L1 groups in flight are consecutive: [next, issued); slot of group q is q % slots.
 *   L2 only the owner writes the lists; a list is rewritten only when no group in flight reads it,
 *      because at most two epochs are in flight and there are two lists.
 *   L3 a worker never reports: a slot that failed is decoded again by the owner, straight into the
 *      caller's memory, and that error is the one the caller sees. */
#include "data/internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/thread.h"

enum { GROUP_BYTES = 128 << 10, MAX_SLOTS = 4096, MAX_WORKERS = 256, AHEAD = 4, ALIGN = 8 };

struct slot {
    uint64_t group;
    uint8_t *memory; /* fields one after the other, aligned, group_size samples each */
    enum ebb_status status;
    bool is_done;
};

struct worker {
    struct data_loader *loader; /* borrowed */
    struct data_scratch scratch;
    pthread_t thread;
};

struct data_loader {
    const struct data_set *set; /* borrowed */
    const struct data_info *info;
    struct data_loader_options options;
    struct data_sampler sampler;
    uint64_t samples;   /* of this rank, in an epoch */
    uint64_t used;      /* of these, after dropping the partial batch */
    uint64_t batches;   /* per epoch */
    uint32_t *lists[2]; /* by epoch parity; NULL: sequential on one rank */
    uint64_t list_epoch[2];
    uint32_t *list_scratch;

    uint64_t epoch, position; /* of the next sample */

    size_t group_size;
    uint64_t groups;       /* per epoch */
    uint64_t next, issued; /* group numbers over all epochs, L1 */
    struct slot *slots;
    size_t slot_count;
    uint8_t *slot_memory;
    size_t offsets[DATA_MAX_FIELDS]; /* of fields within a slot */
    struct ebb_queue *jobs, *done;
    struct worker *workers;
    int worker_count, started;
    atomic_bool is_stopping;

    struct data_stats stats;
    uint64_t left_ns; /* when the caller was last let go; 0 = never */
};

/* ---- order ---- */

static uint64_t list_length(const struct data_loader *l)
{
    return l->lists[0] ? l->samples : 0;
}

/* The list of an epoch is ready after this; only the owner calls it (L2). */
static void list_prepare(struct data_loader *l, uint64_t epoch)
{
    size_t i = epoch & 1;
    if (!list_length(l) || l->list_epoch[i] == epoch)
        return;
    data_sampler_list(&l->sampler, epoch, l->list_scratch, l->lists[i]);
    l->list_epoch[i] = epoch;
}

static uint64_t list_at(const struct data_loader *l, uint64_t epoch, uint64_t position)
{
    return l->lists[0] ? l->lists[epoch & 1][position] : position;
}

/* ---- decoding ---- */

static enum ebb_status decode_one(const struct data_loader *l, uint64_t epoch, uint64_t position,
                                  void *const *fields, struct data_scratch *scratch,
                                  struct ebb_error *err)
{
    return data_read_good(l->set, l->options.split, list_at(l, epoch, position), l->options.seed,
                          epoch, fields, scratch, err);
}

/* Where the fields of sample i of a batch go; NULL stays. */
static void place(const struct data_loader *l, void *const *fields, size_t i,
                  void *at[DATA_MAX_FIELDS])
{
    for (size_t f = 0; f < l->info->field_count; f++)
        at[f] = fields[f] ? (char *)fields[f] + i * l->info->fields[f].bytes : NULL;
}

static size_t group_length(const struct data_loader *l, uint64_t group)
{
    uint64_t first = group % l->groups * l->group_size;
    uint64_t left = l->used - first;
    return left < l->group_size ? (size_t)left : l->group_size;
}

static void decode_group(const struct data_loader *l, struct slot *slot,
                         struct data_scratch *scratch)
{
    void *fields[DATA_MAX_FIELDS];
    uint64_t epoch = slot->group / l->groups;
    uint64_t first = slot->group % l->groups * l->group_size;
    size_t count = group_length(l, slot->group);
    slot->status = EBB_OK;
    for (size_t i = 0; i < count && slot->status == EBB_OK; i++) {
        for (size_t f = 0; f < l->info->field_count; f++)
            fields[f] = slot->memory + l->offsets[f] + i * l->info->fields[f].bytes;
        slot->status = decode_one(l, epoch, first + i, fields, scratch, NULL);
    }
}

static void *work(void *argument)
{
    struct worker *w = argument;
    struct data_loader *l = w->loader;
    void *item;
    while (ebb_queue_pop(l->jobs, &item)) {
        struct slot *slot = item;
        if (atomic_load_explicit(&l->is_stopping, memory_order_relaxed))
            slot->status = EBB_ECANCELED;
        else
            decode_group(l, slot, &w->scratch);
        ebb_queue_push(l->done, slot);
    }
    return NULL;
}

/* ---- slots in flight ---- */

static void issue_slots(struct data_loader *l)
{
    while (l->issued < l->next + l->slot_count) {
        uint64_t epoch = l->issued / l->groups;
        if (epoch > l->epoch + 1 || (l->options.epochs && epoch >= l->options.epochs))
            return;
        list_prepare(l, epoch);
        struct slot *slot = &l->slots[l->issued % l->slot_count];
        slot->group = l->issued++;
        slot->is_done = false;
        ebb_queue_push(l->jobs, slot);
    }
}

static void wait_slot(struct data_loader *l, struct slot *slot)
{
    void *item;
    while (!slot->is_done && ebb_queue_pop(l->done, &item))
        ((struct slot *)item)->is_done = true;
}

/* Take back everything in flight; afterwards nothing is. */
static void recall_slots(struct data_loader *l)
{
    atomic_store(&l->is_stopping, true);
    for (uint64_t q = l->next; q < l->issued; q++)
        wait_slot(l, &l->slots[q % l->slot_count]);
    atomic_store(&l->is_stopping, false);
    l->issued = l->next;
}

/* ---- creation ---- */

/* Bytes of lists: two epochs in flight, and the whole order when ranks share it. */
static uint64_t list_bytes(const struct data_loader *l)
{
    if (l->sampler.order == DATA_SEQUENTIAL && l->sampler.world <= 1)
        return 0;
    uint64_t n = 2 * l->samples;
    if (l->sampler.order != DATA_SEQUENTIAL && l->sampler.world > 1)
        n += l->sampler.count;
    return n * sizeof(uint32_t);
}

static enum ebb_status make_lists(struct data_loader *l, struct ebb_error *err)
{
    uint64_t bytes = list_bytes(l);
    if (bytes == 0)
        return EBB_OK;
    uint32_t *memory;
    EBB_TRY(ebb_new(&memory, bytes, 1, err));
    l->lists[0] = memory;
    l->lists[1] = memory + l->samples;
    l->list_scratch = memory + 2 * l->samples;
    l->list_epoch[0] = l->list_epoch[1] = UINT64_MAX;
    return EBB_OK;
}

static size_t overhead_bytes(const struct data_loader *l, int workers, size_t slots)
{
    size_t one = l->info->scratch_bytes + sizeof(struct worker);
    return sizeof *l + (size_t)(workers ? workers : 1) * one +
           slots * (sizeof(struct slot) + 2 * sizeof(void *));
}

/* Choose workers, group and slots so that everything stays within buffer_bytes. */
static enum ebb_status size_buffers(struct data_loader *l, struct ebb_error *err)
{
    const struct data_loader_options *o = &l->options;
    uint64_t lists = list_bytes(l), least = lists + overhead_bytes(l, 0, 0);
    if (least > o->buffer_bytes)
        return ebb_fail(err, EBB_EBUDGET,
                        "data loader: buffer of %llu bytes; order of samples and decoding one of "
                        "%s need %llu",
                        (unsigned long long)o->buffer_bytes, l->info->name,
                        (unsigned long long)least);
    int workers = o->workers > MAX_WORKERS ? MAX_WORKERS : o->workers;
    while (workers > 1 && lists + overhead_bytes(l, workers, 0) > o->buffer_bytes)
        workers--;
    size_t sample = l->info->sample_bytes ? l->info->sample_bytes : 1;
    l->group_size = sample < GROUP_BYTES ? GROUP_BYTES / sample : 1;
    if (l->group_size > l->used)
        l->group_size = (size_t)l->used;
    uint64_t left = o->buffer_bytes - lists - overhead_bytes(l, workers, 0);
    size_t slot_cost =
        sizeof(struct slot) + 2 * sizeof(void *) + l->info->field_count * (ALIGN - 1);
    /* A tight buffer gets smaller groups before it gets none. */
    while (l->group_size > 1 && left / (l->group_size * sample + slot_cost) < 4)
        l->group_size /= 2;
    l->groups = (l->used + l->group_size - 1) / l->group_size;
    uint64_t fit = left / (l->group_size * sample + slot_cost);
    uint64_t per_batch = (o->batch + l->group_size - 1) / l->group_size;
    uint64_t ahead = o->prefetch ? o->prefetch * (uint64_t)(workers ? workers : 1) : AHEAD;
    uint64_t wanted = per_batch * ahead + (uint64_t)workers;
    if (wanted > 2 * l->groups)
        wanted = 2 * l->groups;
    uint64_t slots = fit < wanted ? fit : wanted;
    slots = slots > MAX_SLOTS ? MAX_SLOTS : slots;
    l->worker_count = workers;
    l->slot_count = workers ? (size_t)slots : 0;
    return EBB_OK;
}

static enum ebb_status make_slots(struct data_loader *l, struct ebb_error *err)
{
    size_t n = l->slot_count, bytes = 0;
    if (n == 0)
        return EBB_OK;
    for (size_t f = 0; f < l->info->field_count; f++) {
        l->offsets[f] = bytes;
        bytes += l->group_size * l->info->fields[f].bytes;
        bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    EBB_TRY(ebb_new(&l->slots, n, sizeof *l->slots, err));
    EBB_TRY(ebb_new(&l->slot_memory, n, bytes, err));
    for (size_t i = 0; i < n; i++)
        l->slots[i].memory = l->slot_memory + i * bytes;
    EBB_TRY(ebb_queue_create(&l->jobs, n, err));
    EBB_TRY(ebb_queue_create(&l->done, n, err));
    l->stats.private_bytes += n * bytes;
    return EBB_OK;
}

static enum ebb_status make_workers(struct data_loader *l, struct ebb_error *err)
{
    int count = l->worker_count ? l->worker_count : 1; /* 0: the owner's own scratch */
    EBB_TRY(ebb_new(&l->workers, (size_t)count, sizeof *l->workers, err));
    for (int i = 0; i < count; i++) {
        struct worker *w = &l->workers[i];
        w->loader = l;
        w->scratch.bytes = l->info->scratch_bytes;
        EBB_TRY(ebb_new(&w->scratch.memory, w->scratch.bytes, 1, err));
    }
    return EBB_OK;
}

static enum ebb_status start_workers(struct data_loader *l, struct ebb_error *err)
{
    if (l->slot_count == 0)
        return EBB_OK;
    while (l->started < l->worker_count &&
           ebb_thread_start(&l->workers[l->started].thread, work, &l->workers[l->started]) == 0)
        l->started++;
    if (l->started == 0)
        return ebb_fail(err, EBB_EIO, "data loader: no worker thread could be started");
    return EBB_OK;
}

static enum ebb_status check_options(struct data_loader *l, struct ebb_error *err)
{
    struct data_loader_options *o = &l->options;
    o->world = o->world ? o->world : 1;
    o->buffer_bytes = o->buffer_bytes ? o->buffer_bytes : DATA_BUFFER_BYTES;
    if (o->batch == 0 || o->rank >= o->world || o->split >= DATA_SPLITS || o->workers < 0)
        return ebb_fail(err, EBB_EINPUT,
                        "data loader: batch %zu, rank %u of %u, %d workers: not possible", o->batch,
                        o->rank, o->world, o->workers);
    l->sampler = (struct data_sampler){
        .count = l->info->count[o->split],
        .world = o->world,
        .rank = o->rank,
        .order = o->order,
        .shard = o->shard,
        .drop_last = o->sampler_drop_last,
        .seed = o->seed,
    };
    l->samples = data_sampler_length(&l->sampler);
    l->used = o->drop_last ? l->samples / o->batch * o->batch : l->samples;
    l->batches = (l->used + o->batch - 1) / o->batch;
    if (l->used == 0)
        return ebb_fail(err, EBB_EINPUT,
                        "data loader: %s has %llu samples for this rank, %s%zu are needed for a "
                        "batch",
                        l->info->name, (unsigned long long)l->samples,
                        o->drop_last ? "" : "at least 1 of ", o->batch);
    return EBB_OK;
}

enum ebb_status data_loader_create(const struct data_set *set,
                                   const struct data_loader_options *options,
                                   struct data_loader **out, struct ebb_error *err)
{
    struct data_loader *l;
    EBB_TRY(ebb_new(&l, 1, sizeof *l, err));
    l->set = set;
    l->info = &set->info;
    l->options = *options;
    enum ebb_status status = check_options(l, err);
    EBB_THEN(status, size_buffers(l, err));
    EBB_THEN(status, make_lists(l, err));
    EBB_THEN(status, make_slots(l, err));
    EBB_THEN(status, make_workers(l, err));
    EBB_THEN(status, start_workers(l, err));
    if (status != EBB_OK) {
        data_loader_destroy(l);
        return status;
    }
    l->stats.private_bytes += list_bytes(l) + overhead_bytes(l, l->worker_count, l->slot_count);
    l->stats.buffer_bytes = l->options.buffer_bytes;
    l->stats.slots = l->slot_count * l->group_size;
    l->stats.workers = l->slot_count ? l->started : l->worker_count;
    if (l->slot_count)
        issue_slots(l);
    *out = l;
    return EBB_OK;
}

void data_loader_destroy(struct data_loader *l)
{
    if (!l)
        return;
    atomic_store(&l->is_stopping, true);
    if (l->jobs)
        ebb_queue_close(l->jobs);
    for (int i = 0; i < l->started; i++)
        pthread_join(l->workers[i].thread, NULL);
    ebb_queue_destroy(l->jobs);
    ebb_queue_destroy(l->done);
    for (int i = 0; l->workers && i < (l->worker_count ? l->worker_count : 1); i++)
        ebb_free(l->workers[i].scratch.memory);
    ebb_free(l->workers);
    ebb_free(l->slots);
    ebb_free(l->slot_memory);
    ebb_free(l->lists[0]);
    ebb_free(l);
}

/* ---- batches ---- */

/* A batch straight into the caller's memory: no slots, or a slot that failed. */
struct direct {
    struct data_loader *loader;
    void *const *fields;
    uint64_t epoch, position;
    struct ebb_queue *scratches; /* NULL: the first one */
    atomic_size_t failed;        /* lowest failed sample + 1; 0 = none */
};

static void direct_one(void *context, size_t i)
{
    struct direct *d = context;
    struct data_loader *l = d->loader;
    void *fields[DATA_MAX_FIELDS] = {0};
    place(l, d->fields, i, fields);
    void *item = &l->workers[0].scratch;
    if (d->scratches)
        ebb_queue_pop(d->scratches, &item);
    enum ebb_status status = decode_one(l, d->epoch, d->position + i, fields, item, NULL);
    if (d->scratches)
        ebb_queue_push(d->scratches, item);
    size_t seen = atomic_load(&d->failed);
    while (status != EBB_OK && (seen == 0 || i + 1 < seen) &&
           !atomic_compare_exchange_weak(&d->failed, &seen, i + 1)) {
    }
}

/* The error of sample i, for the caller's eyes. */
static enum ebb_status direct_error(struct data_loader *l, uint64_t epoch, uint64_t position,
                                    void *const *at, struct ebb_error *err)
{
    struct data_scratch scratch = {.bytes = l->info->scratch_bytes};
    EBB_TRY(ebb_new(&scratch.memory, scratch.bytes, 1, err));
    enum ebb_status status = decode_one(l, epoch, position, at, &scratch, err);
    ebb_free(scratch.memory);
    if (status != EBB_OK)
        return ebb_context(err, status, "sample %llu of epoch %llu",
                           (unsigned long long)list_at(l, epoch, position),
                           (unsigned long long)epoch);
    return EBB_OK;
}

static enum ebb_status next_direct(struct data_loader *l, void *const *fields, size_t count,
                                   struct ebb_error *err)
{
    struct direct d = {.loader = l, .fields = fields, .epoch = l->epoch, .position = l->position};
    list_prepare(l, l->epoch);
    if (l->worker_count > 1) {
        EBB_TRY(ebb_queue_create(&d.scratches, (size_t)l->worker_count, err));
        for (int i = 0; i < l->worker_count; i++)
            ebb_queue_push(d.scratches, &l->workers[i].scratch);
    }
    enum ebb_status status = ebb_parallel(l->worker_count, count, direct_one, &d, err);
    ebb_queue_destroy(d.scratches);
    for (size_t i = d.failed; status == EBB_OK && i > 0 && i <= count; i++) {
        void *at[DATA_MAX_FIELDS] = {0};
        place(l, fields, i - 1, at);
        status = direct_error(l, l->epoch, l->position + i - 1, at, err);
    }
    return status;
}

/* Copy samples first..first+count of a slot to place `to` of the batch. */
static void copy_out(const struct data_loader *l, const struct slot *slot, size_t first,
                     size_t count, void *const *fields, size_t to)
{
    for (size_t f = 0; f < l->info->field_count; f++) {
        size_t bytes = l->info->fields[f].bytes;
        if (fields[f] && bytes)
            memcpy((char *)fields[f] + to * bytes, slot->memory + l->offsets[f] + first * bytes,
                   count * bytes);
    }
}

static enum ebb_status retry_out(struct data_loader *l, uint64_t position, size_t count,
                                 void *const *fields, size_t to, struct ebb_error *err)
{
    for (size_t i = 0; i < count; i++) {
        void *at[DATA_MAX_FIELDS] = {0};
        place(l, fields, to + i, at);
        EBB_TRY(direct_error(l, l->epoch, position + i, at, err));
    }
    return EBB_OK;
}

static enum ebb_status next_slots(struct data_loader *l, void *const *fields, size_t count,
                                  struct ebb_error *err)
{
    for (size_t b = 0; b < count;) {
        uint64_t position = l->position + b;
        uint64_t group = l->epoch * l->groups + position / l->group_size;
        size_t first = (size_t)(position % l->group_size);
        size_t n = group_length(l, group) - first;
        n = n < count - b ? n : count - b;
        struct slot *slot = &l->slots[group % l->slot_count];
        uint64_t start = ebb_clock_ns();
        l->next = group; /* everything before it has been copied */
        issue_slots(l);
        wait_slot(l, slot);
        l->stats.waited_ns += ebb_clock_ns() - start;
        start = ebb_clock_ns();
        if (slot->status == EBB_OK)
            copy_out(l, slot, first, n, fields, b);
        else
            EBB_TRY(retry_out(l, position, n, fields, b, err));
        l->stats.copied_ns += ebb_clock_ns() - start;
        b += n;
    }
    return EBB_OK;
}

/* Step over `count` samples; slots that were emptied go out again. */
/* Issue slots from the position on. */
static void resume_slots(struct data_loader *l)
{
    l->next = l->issued = l->epoch * l->groups + l->position / l->group_size;
    issue_slots(l);
}

static void advance(struct data_loader *l, size_t count)
{
    l->position += count;
    if (l->position == l->used) {
        l->position = 0;
        l->epoch++;
    }
    if (l->slot_count) {
        l->next = l->epoch * l->groups + l->position / l->group_size;
        issue_slots(l);
    }
}

enum ebb_status data_loader_next(struct data_loader *l, void *const *fields,
                                 struct data_batch *batch, struct ebb_error *err)
{
    uint64_t now = ebb_clock_ns();
    struct data_batch b = {.epoch = l->epoch, .index = l->position / l->options.batch};
    if (l->left_ns)
        l->stats.between_ns += now - l->left_ns;
    enum ebb_status status = EBB_OK;
    if (!l->options.epochs || l->epoch < l->options.epochs) {
        uint64_t left = l->used - l->position;
        b.count = left < l->options.batch ? (size_t)left : l->options.batch;
        b.is_last = b.count == left;
        if (l->slot_count) {
            status = next_slots(l, fields, b.count, err);
        } else {
            status = next_direct(l, fields, b.count, err);
            l->stats.waited_ns += ebb_clock_ns() - now;
        }
    }
    if (status == EBB_OK && b.count) {
        advance(l, b.count);
        l->stats.batches++;
        l->stats.samples += b.count;
    }
    if (status == EBB_OK)
        *batch = b;
    else if (l->slot_count) { /* the position stands still: so must the slots */
        recall_slots(l);
        resume_slots(l);
    }
    l->left_ns = ebb_clock_ns();
    return status;
}

uint64_t data_loader_batches(const struct data_loader *l)
{
    return l->batches;
}

uint64_t data_loader_samples(const struct data_loader *l)
{
    return l->used;
}

void data_loader_stats(const struct data_loader *l, struct data_stats *stats)
{
    *stats = l->stats;
}

/* ---- position ---- */

static const struct {
    const char *key;
    size_t offset;
    const char *what; /* a loader goes on only where this is the same; NULL: it is set */
} position_keys[] = {
    {"epoch", offsetof(struct data_position, epoch), NULL},
    {"batch", offsetof(struct data_position, batch), NULL},
    {"seed", offsetof(struct data_position, seed), "seed"},
    {"samples", offsetof(struct data_position, samples), "samples"},
    {"batch_size", offsetof(struct data_position, batch_size), "batch size"},
    {"world", offsetof(struct data_position, world), "world"},
    {"rank", offsetof(struct data_position, rank), "rank"},
};
enum { POSITION_KEYS = sizeof position_keys / sizeof *position_keys };

static uint64_t position_at(const struct data_position *p, size_t i)
{
    uint64_t value;
    memcpy(&value, (const char *)p + position_keys[i].offset, sizeof value);
    return value;
}

void data_loader_save(const struct data_loader *l, struct data_position *p)
{
    *p = (struct data_position){
        .epoch = l->epoch,
        .batch = l->position / l->options.batch,
        .seed = l->options.seed,
        .samples = l->samples,
        .batch_size = l->options.batch,
        .world = l->options.world,
        .rank = l->options.rank,
    };
}

enum ebb_status data_loader_restore(struct data_loader *l, const struct data_position *p,
                                    struct ebb_error *err)
{
    struct data_position own;
    data_loader_save(l, &own);
    for (size_t i = 0; i < POSITION_KEYS; i++) {
        uint64_t saved = position_at(p, i), here = position_at(&own, i);
        if (position_keys[i].what && saved != here)
            return ebb_fail(
                err, EBB_EINPUT, "data loader: the saved position has %s %llu, this loader %llu",
                position_keys[i].what, (unsigned long long)saved, (unsigned long long)here);
    }
    if (p->batch >= l->batches || p->epoch >= UINT64_MAX / 4 / l->groups)
        return ebb_fail(err, EBB_EINPUT,
                        "data loader: the saved position is batch %llu of epoch %llu; an epoch has "
                        "%llu batches",
                        (unsigned long long)p->batch, (unsigned long long)p->epoch,
                        (unsigned long long)l->batches);
    if (l->slot_count)
        recall_slots(l);
    l->epoch = p->epoch;
    l->position = p->batch * l->options.batch;
    if (l->slot_count)
        resume_slots(l);
    return EBB_OK;
}

void data_position_write(const struct data_position *p, struct ebb_json_writer *w)
{
    ebb_jsonw_object(w);
    for (size_t i = 0; i < POSITION_KEYS; i++) {
        ebb_jsonw_key(w, position_keys[i].key);
        ebb_jsonw_int(w, (int64_t)position_at(p, i)); /* the bits: a seed may use all 64 */
    }
    ebb_jsonw_object_end(w);
}

enum ebb_status data_position_read(const struct ebb_doc_node *node, struct data_position *p,
                                   struct ebb_error *err)
{
    struct data_position read;
    for (size_t i = 0; i < POSITION_KEYS; i++) {
        const struct ebb_doc_node *value = ebb_doc_get(node, position_keys[i].key);
        if (!value || value->kind != EBB_DOC_INT)
            return ebb_fail(err, EBB_ECORRUPT, "loader position: %s is missing or no integer",
                            position_keys[i].key);
        memcpy((char *)&read + position_keys[i].offset, &value->integer, sizeof value->integer);
    }
    *p = read;
    return EBB_OK;
}
