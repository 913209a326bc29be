/* threads.c - streams that are threads. */
#include "device/threads.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/thread.h"

#define QUEUE 256u /* items; a full queue makes the caller wait */
#define STREAM_BITS 3
#define SLACK_NS 1000 /* a thread that sleeps is called that late; 50 us is usual */
_Static_assert(DEVICE_STREAMS <= 1 << STREAM_BITS, "an event names its stream");

struct stream {
    struct device_threads *owner;
    pthread_t thread;
    struct device_item items[QUEUE];
    uint64_t pushed, done; /* guarded by the lock */
    uint64_t free_ns;      /* of the thread: when a throttled link was done with what came before */
    bool has_waited;       /* of the thread: for an item, or an event, since then */
    unsigned char *buffer; /* of the thread; NULL: there is none */
};

struct device_threads {
    void *device;
    device_threads_run run;
    bool is_closing;
    pthread_mutex_t lock; /* guards the queues, the failure and the stall */
    pthread_cond_t changed;
    struct stream streams[DEVICE_STREAMS];
    struct ebb_error failure; /* the first one */
    uint64_t stall_ns;
};

static enum device_stream stream_of(device_event event)
{
    return (enum device_stream)(event & ((1u << STREAM_BITS) - 1));
}

/* Under the lock. */
static bool is_done(const struct device_threads *s, device_event event)
{
    return event == 0 || s->streams[stream_of(event)].done >= event >> STREAM_BITS;
}

/* Under the lock. */
static enum ebb_status answer(const struct device_threads *s, struct ebb_error *err)
{
    enum ebb_status status = s->failure.status;
    return status == EBB_OK ? EBB_OK : ebb_fail(err, status, "%s", s->failure.message);
}

static void sleep_until(uint64_t ns)
{
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000u),
                          .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

/* When a throttled link sets out with an item: at once when it is free. It was not waiting for its
 * thread, which sleeps a little too long every time; that would add up over small copies. */
static uint64_t set_out(struct stream *stream, const struct device_item *item)
{
    uint64_t now = ebb_clock_ns();
    uint64_t ready = stream->has_waited || item->pushed_ns > now ? now : item->pushed_ns;
    stream->has_waited = false;
    return ready > stream->free_ns ? ready : stream->free_ns;
}

/* Without the lock. */
static void run_item(struct stream *stream, const struct device_item *item)
{
    struct device_threads *s = stream->owner;
    struct ebb_error err = {0};
    uint64_t begin = item->least_ns ? set_out(stream, item) : 0;
    enum ebb_status status = s->run(s->device, stream->buffer, item, &err);
    if (item->least_ns) {
        uint64_t now = ebb_clock_ns();
        stream->free_ns = begin + item->least_ns > now ? begin + item->least_ns : now;
        sleep_until(stream->free_ns);
    }
    if (status == EBB_OK)
        return;
    pthread_mutex_lock(&s->lock);
    if (s->failure.status == EBB_OK) {
        s->failure = err;
        s->failure.status = status;
    }
    pthread_mutex_unlock(&s->lock);
}

/* Under the lock. */
static void await(struct stream *stream, device_event event)
{
    struct device_threads *s = stream->owner;
    bool is_stall = stream == &s->streams[DEVICE_COMPUTE] && !is_done(s, event);
    uint64_t begin = is_stall ? ebb_clock_ns() : 0;
    stream->has_waited |= !is_done(s, event);
    while (!is_done(s, event) && !s->is_closing)
        pthread_cond_wait(&s->changed, &s->lock);
    s->stall_ns += is_stall ? ebb_clock_ns() - begin : 0;
}

static void *stream_main(void *argument)
{
    struct stream *stream = argument;
    struct device_threads *s = stream->owner;
    (void)prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (stream->done == stream->pushed && !s->is_closing)
            pthread_cond_wait(&s->changed, &s->lock);
        if (stream->done == stream->pushed)
            break;
        struct device_item item = stream->items[stream->done % QUEUE];
        if (item.wait) {
            await(stream, item.wait);
        } else if (s->failure.status == EBB_OK) {
            pthread_mutex_unlock(&s->lock);
            run_item(stream, &item);
            pthread_mutex_lock(&s->lock);
        }
        stream->done++;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum ebb_status device_threads_create(struct device_threads **threads, void *device,
                                      device_threads_run run, struct ebb_error *err)
{
    struct device_threads *s;
    EBB_TRY(ebb_new(&s, 1, sizeof *s, err));
    s->device = device;
    s->run = run;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    *threads = s;
    return EBB_OK;
}

void device_threads_destroy(struct device_threads *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->is_closing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (int k = 0; k < DEVICE_STREAMS; k++) {
        if (!s->streams[k].buffer)
            continue;
        pthread_join(s->streams[k].thread, NULL);
        ebb_free(s->streams[k].buffer);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    ebb_free(s);
}

enum ebb_status device_threads_start(struct device_threads *s, enum device_stream stream,
                                     struct ebb_error *err)
{
    struct stream *one = &s->streams[stream];
    if (one->buffer)
        return EBB_OK;
    one->owner = s;
    unsigned char *buffer = ebb_alloc_aligned(DEVICE_BLOCK, DEVICE_BUFFER_BYTES);
    if (!buffer)
        return ebb_no_memory(err, DEVICE_BUFFER_BYTES);
    one->buffer = buffer;
    int reason = ebb_thread_start(&one->thread, stream_main, one);
    if (reason) {
        one->buffer = NULL;
        ebb_free(buffer);
        return ebb_fail(err, EBB_EDEVICE, "cannot start the thread of a stream: %s",
                        strerror(reason));
    }
    return EBB_OK;
}

bool device_threads_has(const struct device_threads *s, enum device_stream stream)
{
    return s->streams[stream].buffer != NULL;
}

enum ebb_status device_threads_push(struct device_threads *s, enum device_stream stream,
                                    const struct device_item *item, struct ebb_error *err)
{
    struct stream *one = &s->streams[stream];
    if (!one->buffer)
        return ebb_fail(err, EBB_EINTERNAL, "stream %d has no thread: no lower tier is reserved",
                        (int)stream);
    pthread_mutex_lock(&s->lock);
    while (one->pushed - one->done == QUEUE)
        pthread_cond_wait(&s->changed, &s->lock);
    one->items[one->pushed % QUEUE] = *item;
    one->items[one->pushed++ % QUEUE].pushed_ns = item->least_ns ? ebb_clock_ns() : 0;
    pthread_cond_broadcast(&s->changed);
    enum ebb_status status = answer(s, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

device_event device_threads_record(struct device_threads *s, enum device_stream stream)
{
    pthread_mutex_lock(&s->lock);
    uint64_t position = s->streams[stream].pushed;
    pthread_mutex_unlock(&s->lock);
    return position ? position << STREAM_BITS | (uint64_t)stream : 0;
}

enum ebb_status device_threads_follow(struct device_threads *s, enum device_stream stream,
                                      device_event event, struct ebb_error *err)
{
    if (event == 0 || stream_of(event) == stream)
        return EBB_OK; /* in order already */
    struct device_item item = {.wait = event};
    return device_threads_push(s, stream, &item, err);
}

bool device_threads_is_done(struct device_threads *s, device_event event)
{
    pthread_mutex_lock(&s->lock);
    bool done = is_done(s, event);
    pthread_mutex_unlock(&s->lock);
    return done;
}

enum ebb_status device_threads_wait(struct device_threads *s, device_event event, bool is_stall,
                                    struct ebb_error *err)
{
    if (event == 0)
        return EBB_OK;
    pthread_mutex_lock(&s->lock);
    if (!is_done(s, event)) {
        uint64_t begin = ebb_clock_ns();
        while (!is_done(s, event))
            pthread_cond_wait(&s->changed, &s->lock);
        s->stall_ns += is_stall ? ebb_clock_ns() - begin : 0;
    }
    enum ebb_status status = answer(s, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum ebb_status device_threads_sync(struct device_threads *s, bool is_stall, struct ebb_error *err)
{
    /* All of them, also behind a failure: the caller frees what their work stands on. */
    for (int k = 0; k < DEVICE_STREAMS; k++)
        (void)device_threads_wait(s, device_threads_record(s, (enum device_stream)k), is_stall,
                                  NULL);
    pthread_mutex_lock(&s->lock);
    enum ebb_status status = answer(s, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

uint64_t device_threads_stall_ns(struct device_threads *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t ns = s->stall_ns;
    pthread_mutex_unlock(&s->lock);
    return ns;
}
