/* late_device.h - device far, where nothing runs before the host waits for it, and then in an order that a test chooses.
 *
 * Every stream is a list. When the host waits, the streams are emptied one item at a time: of those whose next item may
 * run, the first of the order takes a step. So whatever events allow can be made to happen, without a race: with
 * all events every order gives the same bits, and a wait that is left out shows in some order. Captures are not
 * offered. One device at a time. */
#ifndef EBB_TESTS_LATE_DEVICE_H
#define EBB_TESTS_LATE_DEVICE_H

#include "base/heap.h"
#include "base/rng.h"
#include "device/device.h"

enum late_act { LATE_LAUNCH, LATE_COPY, LATE_WRITE, LATE_READ, LATE_ZERO, LATE_RECORD, LATE_WAIT };

struct late_item {
    enum late_act act;
    device_work work;
    void *argument;
    enum device_tier to, from;
    uint64_t to_offset, from_offset, bytes;
    const void *source;
    void *target;
    device_event event;
};

struct late_queue {
    struct late_item *items;
    size_t count, capacity, next;
};

struct late_event {
    enum device_stream stream;
    bool is_done;
};

#define LATE_ORDERS 4 /* that are written down; larger numbers are drawn */

static struct {
    unsigned order; /* chosen by the test */
    /* The host that waits behind a launch, as one that decides while it runs does, waits for compute
     * alone: copies are as late as events allow. */
    bool is_lazy, has_launched;
    /* A wait of this kind is left out: the stream that waits, the event's own. `at`: only the one with this number;
     * SIZE_MAX: all. */
    bool has_gap;
    enum device_stream waiter, maker;
    size_t at;
    size_t waits[DEVICE_STREAMS][DEVICE_STREAMS]; /* asked for so far, by kind */
    uint64_t random;
    struct late_queue queues[DEVICE_STREAMS];
    struct late_event *events;
    size_t event_count, event_capacity;
} late;

static inline enum ebb_status late_push(enum device_stream stream, struct late_item item,
                                        struct ebb_error *err)
{
    struct late_queue *q = &late.queues[stream];
    late.has_launched = item.act == LATE_LAUNCH && stream == DEVICE_COMPUTE;
    EBB_TRY(ebb_grow(&q->items, &q->capacity, q->count + 1, sizeof *q->items, err));
    q->items[q->count++] = item;
    return EBB_OK;
}

/* ---- running ---------------------------------------------------------------------------------- */

static inline bool late_may_run(enum device_stream stream)
{
    const struct late_queue *q = &late.queues[stream];
    if (q->next == q->count)
        return false;
    const struct late_item *item = &q->items[q->next];
    return item->act != LATE_WAIT || late.events[item->event - 1].is_done;
}

/* DEVICE_STREAMS: nobody may. */
static inline enum device_stream late_choose(void)
{
    static const enum device_stream orders[LATE_ORDERS][DEVICE_STREAMS] = {
        {DEVICE_COMPUTE, DEVICE_OUT, DEVICE_IN, DEVICE_FILE_OUT, DEVICE_FILE_IN, DEVICE_BELOW},
        {DEVICE_COMPUTE, DEVICE_BELOW, DEVICE_IN, DEVICE_OUT, DEVICE_FILE_IN, DEVICE_FILE_OUT},
        {DEVICE_OUT, DEVICE_FILE_OUT, DEVICE_IN, DEVICE_FILE_IN, DEVICE_COMPUTE, DEVICE_BELOW},
        {DEVICE_BELOW, DEVICE_IN, DEVICE_FILE_IN, DEVICE_OUT, DEVICE_FILE_OUT, DEVICE_COMPUTE},
    };
    bool is_drawn = late.order >= LATE_ORDERS;
    unsigned first = is_drawn ? (unsigned)(ebb_splitmix64(&late.random) % DEVICE_STREAMS) : 0;
    for (unsigned k = 0; k < DEVICE_STREAMS; k++) {
        enum device_stream s =
            is_drawn ? (enum device_stream)((first + k) % DEVICE_STREAMS) : orders[late.order][k];
        if (late_may_run(s))
            return s;
    }
    return DEVICE_STREAMS;
}

/* In the order that was chosen all go to one stream of far: no two threads take turns. */
static inline enum ebb_status late_run(struct device *d, enum device_stream stream,
                                       struct ebb_error *err)
{
    const enum device_stream one = DEVICE_COMPUTE;
    struct late_item i = late.queues[stream].items[late.queues[stream].next++];
    switch (i.act) {
    case LATE_LAUNCH:
        return device_far.launch(d, i.work, i.argument, 0, err);
    case LATE_COPY:
        return device_far.copy(d, one, i.to, i.to_offset, i.from, i.from_offset, i.bytes, err);
    case LATE_WRITE:
        return device_far.write(d, one, i.to_offset, i.source, i.bytes, err);
    case LATE_READ:
        return device_far.read(d, one, i.target, i.from_offset, i.bytes, err);
    case LATE_ZERO:
        return device_far.zero(d, one, i.to_offset, i.bytes, err);
    case LATE_RECORD:
        late.events[i.event - 1].is_done = true;
        return EBB_OK;
    default:
        return EBB_OK;
    }
}

/* Until the event is done; 0: until nothing is left. */
static inline enum ebb_status late_drain(struct device *d, device_event event,
                                         struct ebb_error *err)
{
    while (!event || !late.events[event - 1].is_done) {
        enum device_stream s = late_choose();
        bool is_empty = true;
        if (s < DEVICE_STREAMS) {
            EBB_TRY(late_run(d, s, err));
            continue;
        }
        for (int k = 0; k < DEVICE_STREAMS; k++)
            is_empty = is_empty && late.queues[k].next == late.queues[k].count;
        if (!is_empty || event)
            return ebb_fail(err, EBB_EINTERNAL, "late device: streams wait for each other");
        for (int k = 0; k < DEVICE_STREAMS; k++)
            late.queues[k].next = late.queues[k].count = 0;
        break;
    }
    return device_far.sync(d, err);
}

/* ---- the table -------------------------------------------------------------------------------- */

static struct device_table late_table;

static inline enum ebb_status late_create(struct device **device,
                                          const struct device_config *config, struct ebb_error *err)
{
    EBB_TRY(device_far.create(device, config, err));
    (*device)->table = &late_table;
    late.random = late.order;
    memset(late.waits, 0, sizeof late.waits);
    return EBB_OK;
}

static inline void late_destroy(struct device *device)
{
    for (int k = 0; k < DEVICE_STREAMS; k++) {
        ebb_free(late.queues[k].items);
        late.queues[k] = (struct late_queue){0};
    }
    ebb_free(late.events);
    late.events = NULL;
    late.event_count = late.event_capacity = 0;
    device_far.destroy(device);
}

static inline enum ebb_status late_launch(struct device *d, device_work work, void *argument,
                                          uint64_t cost_ns, struct ebb_error *err)
{
    struct late_item item = {.act = LATE_LAUNCH, .work = work, .argument = argument};
    (void)d, (void)cost_ns;
    return work ? late_push(DEVICE_COMPUTE, item, err) : EBB_OK;
}

static inline enum ebb_status late_launch_below(struct device *d, device_work work, void *argument,
                                                uint64_t cost_ns, struct ebb_error *err)
{
    struct late_item item = {.act = LATE_LAUNCH, .work = work, .argument = argument};
    (void)d, (void)cost_ns;
    return work ? late_push(DEVICE_BELOW, item, err) : EBB_OK;
}

static inline enum ebb_status late_copy(struct device *d, enum device_stream stream,
                                        enum device_tier to, uint64_t to_offset,
                                        enum device_tier from, uint64_t from_offset, uint64_t bytes,
                                        struct ebb_error *err)
{
    struct late_item item = {.act = LATE_COPY,
                             .to = to,
                             .from = from,
                             .to_offset = to_offset,
                             .from_offset = from_offset,
                             .bytes = bytes};
    (void)d;
    return late_push(stream, item, err);
}

static inline enum ebb_status late_write(struct device *d, enum device_stream stream,
                                         uint64_t to_offset, const void *host, uint64_t bytes,
                                         struct ebb_error *err)
{
    struct late_item item = {
        .act = LATE_WRITE, .to_offset = to_offset, .source = host, .bytes = bytes};
    (void)d;
    return late_push(stream, item, err);
}

static inline enum ebb_status late_read(struct device *d, enum device_stream stream, void *host,
                                        uint64_t from_offset, uint64_t bytes, struct ebb_error *err)
{
    struct late_item item = {
        .act = LATE_READ, .from_offset = from_offset, .target = host, .bytes = bytes};
    (void)d;
    return late_push(stream, item, err);
}

static inline enum ebb_status late_zero(struct device *d, enum device_stream stream,
                                        uint64_t offset, uint64_t bytes, struct ebb_error *err)
{
    struct late_item item = {.act = LATE_ZERO, .to_offset = offset, .bytes = bytes};
    (void)d;
    return late_push(stream, item, err);
}

static inline enum ebb_status late_record(struct device *d, enum device_stream stream,
                                          device_event *event, struct ebb_error *err)
{
    (void)d;
    EBB_TRY(ebb_grow(&late.events, &late.event_capacity, late.event_count + 1, sizeof *late.events,
                     err));
    late.events[late.event_count++] = (struct late_event){.stream = stream};
    *event = late.event_count;
    return late_push(stream, (struct late_item){.act = LATE_RECORD, .event = *event}, err);
}

static inline enum ebb_status late_stream_wait(struct device *d, enum device_stream stream,
                                               device_event event, struct ebb_error *err)
{
    (void)d;
    if (!event || late.events[event - 1].stream == stream)
        return EBB_OK;
    enum device_stream maker = late.events[event - 1].stream;
    size_t number = late.waits[stream][maker]++;
    if (late.has_gap && late.waiter == stream && late.maker == maker &&
        (late.at == SIZE_MAX || late.at == number))
        return EBB_OK;
    return late_push(stream, (struct late_item){.act = LATE_WAIT, .event = event}, err);
}

static inline bool late_event_done(struct device *d, device_event event)
{
    (void)d;
    return !event || late.events[event - 1].is_done;
}

static inline enum ebb_status late_event_wait(struct device *d, device_event event,
                                              struct ebb_error *err)
{
    return event ? late_drain(d, event, err) : EBB_OK;
}

static inline enum ebb_status late_sync(struct device *d, struct ebb_error *err)
{
    device_event launched = 0;
    if (late.is_lazy && late.has_launched)
        EBB_TRY(late_record(d, DEVICE_COMPUTE, &launched, err));
    return late_drain(d, launched, err);
}

static inline const struct device_table *late_device(void)
{
    late_table = device_far;
    late_table.name = "late";
    late_table.create = late_create;
    late_table.destroy = late_destroy;
    late_table.launch = late_launch;
    late_table.launch_below = late_launch_below;
    late_table.copy = late_copy;
    late_table.write = late_write;
    late_table.read = late_read;
    late_table.zero = late_zero;
    late_table.record = late_record;
    late_table.stream_wait = late_stream_wait;
    late_table.event_done = late_event_done;
    late_table.event_wait = late_event_wait;
    late_table.sync = late_sync;
    late_table.capture_begin = NULL;
    late_table.capture_end = NULL;
    late_table.graph_launch = NULL;
    late_table.graph_free = NULL;
    return &late_table;
}

#endif
