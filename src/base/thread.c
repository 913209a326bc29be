/* thread.c - the pool of one call, and the queue. */
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "base/heap.h"

enum { PARALLEL_MAX = 256 };

struct parallel {
    void (*run)(void *context, size_t i);
    void *context;
    size_t count;
    atomic_size_t next;
};

static void *parallel_work(void *argument)
{
    struct parallel *p = argument;
    for (;;) {
        size_t i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (i >= p->count)
            return NULL;
        p->run(p->context, i);
    }
}

int ebb_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int reason = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reason;
}

enum ebb_status ebb_parallel(int threads, size_t count, void (*run)(void *context, size_t i),
                             void *context, struct ebb_error *err)
{
    (void)err; /* nothing here can fail: fewer threads only take longer */
    if (threads > PARALLEL_MAX)
        threads = PARALLEL_MAX;
    if (threads <= 1 || count <= 1) {
        for (size_t i = 0; i < count; i++)
            run(context, i);
        return EBB_OK;
    }
    struct parallel p = {.run = run, .context = context, .count = count};
    pthread_t helpers[PARALLEL_MAX];
    size_t wanted = (size_t)threads < count ? (size_t)threads : count, started = 0;
    while (started + 1 < wanted && ebb_thread_start(&helpers[started], parallel_work, &p) == 0)
        started++;
    parallel_work(&p);
    for (size_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    return EBB_OK;
}

int ebb_cpu_count(void)
{
    /* The kernel refuses a set smaller than its own: grow until it fits. */
    for (int cpus = 1024; cpus <= 1024 * 64; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

struct ebb_queue {
    pthread_mutex_t lock;
    pthread_cond_t has_item, has_room;
    size_t capacity, first, count;
    bool is_closed;
    void *items[];
};

enum ebb_status ebb_queue_create(struct ebb_queue **queue, size_t capacity, struct ebb_error *err)
{
    size_t bytes;
    if (capacity == 0)
        return ebb_fail(err, EBB_EINPUT, "a queue needs room for one item");
    if (!ebb_mul_size(capacity, sizeof(void *), &bytes) || bytes > SIZE_MAX / 2)
        return ebb_no_memory(err, SIZE_MAX);
    struct ebb_queue *q = ebb_calloc(1, sizeof *q + bytes);
    if (!q)
        return ebb_no_memory(err, sizeof *q + bytes);
    q->capacity = capacity;
    pthread_mutex_init(&q->lock, NULL); /* default attributes: cannot fail on Linux */
    pthread_cond_init(&q->has_item, NULL);
    pthread_cond_init(&q->has_room, NULL);
    *queue = q;
    return EBB_OK;
}

void ebb_queue_destroy(struct ebb_queue *queue)
{
    if (!queue)
        return;
    pthread_cond_destroy(&queue->has_item);
    pthread_cond_destroy(&queue->has_room);
    pthread_mutex_destroy(&queue->lock);
    ebb_free(queue);
}

bool ebb_queue_push(struct ebb_queue *queue, void *item)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->count == queue->capacity && !queue->is_closed)
        pthread_cond_wait(&queue->has_room, &queue->lock);
    bool is_taken = !queue->is_closed;
    if (is_taken) {
        queue->items[(queue->first + queue->count) % queue->capacity] = item;
        queue->count++;
        pthread_cond_signal(&queue->has_item);
    }
    pthread_mutex_unlock(&queue->lock);
    return is_taken;
}

/* The lock is held. */
static bool queue_take(struct ebb_queue *queue, void **item)
{
    if (queue->count == 0)
        return false;
    *item = queue->items[queue->first];
    queue->first = (queue->first + 1) % queue->capacity;
    queue->count--;
    pthread_cond_signal(&queue->has_room);
    return true;
}

bool ebb_queue_pop(struct ebb_queue *queue, void **item)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->count == 0 && !queue->is_closed)
        pthread_cond_wait(&queue->has_item, &queue->lock);
    bool is_taken = queue_take(queue, item);
    pthread_mutex_unlock(&queue->lock);
    return is_taken;
}

void ebb_queue_close(struct ebb_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->is_closed = true;
    pthread_cond_broadcast(&queue->has_item);
    pthread_cond_broadcast(&queue->has_room);
    pthread_mutex_unlock(&queue->lock);
}
