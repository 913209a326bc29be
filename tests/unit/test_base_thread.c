#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/heap.h"
#include "base/thread.h"

static void *read_mask(void *mask)
{
    pthread_sigmask(SIG_BLOCK, NULL, mask);
    return NULL;
}

TEST(thread__leaves_signals_to_its_starter)
{
    sigset_t inside, outside;
    pthread_t thread;
    CHECK_EQ(ebb_thread_start(&thread, read_mask, &inside), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    read_mask(&outside);
    CHECK(sigismember(&inside, SIGINT) == 1 && sigismember(&inside, SIGPIPE) == 1);
    CHECK(sigismember(&outside, SIGINT) == 0 && sigismember(&outside, SIGPIPE) == 0);
}

static void add_one(void *context, size_t i)
{
    int *counts = context;
    counts[i]++;
}

TEST(parallel__runs_each_index_once)
{
    int counts[1000] = {0};
    for (int threads = 0; threads < 9; threads++)
        CHECK_EQ(ebb_parallel(threads, 1000, add_one, counts, NULL), EBB_OK);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(counts[i], 9);
    CHECK_EQ(ebb_parallel(4, 0, add_one, counts, NULL), EBB_OK);
    CHECK_EQ(ebb_parallel(100000, 3, add_one, counts, NULL), EBB_OK);
}

static void note_order(void *context, size_t i)
{
    size_t *next = context;
    if (*next == i)
        (*next)++;
}

TEST(parallel__one_thread_keeps_order)
{
    size_t next = 0;
    CHECK_EQ(ebb_parallel(1, 50, note_order, &next, NULL), EBB_OK);
    CHECK_EQ(next, 50);
}

TEST(cpu_count__is_positive)
{
    CHECK(ebb_cpu_count() >= 1);
}

TEST(queue__is_first_in_first_out)
{
    struct ebb_queue *q;
    int items[3];
    void *got = NULL;
    CHECK_EQ(ebb_queue_create(&q, 3, NULL), EBB_OK);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 3; i++)
            CHECK(ebb_queue_push(q, &items[i]));
        for (int i = 0; i < 3; i++) {
            CHECK(ebb_queue_pop(q, &got));
            CHECK(got == &items[i]);
        }
    }
    CHECK(ebb_queue_push(q, &items[0]));
    ebb_queue_close(q);
    CHECK(!ebb_queue_push(q, &items[1]));
    CHECK(ebb_queue_pop(q, &got)); /* what was in it still comes out */
    CHECK(!ebb_queue_pop(q, &got));
    ebb_queue_destroy(q);
    ebb_queue_destroy(NULL);
    CHECK_EQ(ebb_queue_create(&q, 0, NULL), EBB_EINPUT);
    CHECK_EQ(ebb_queue_create(&q, SIZE_MAX / 4, NULL), EBB_ENOMEM);
    ebb_heap_fail_at(1);
    CHECK_EQ(ebb_queue_create(&q, 1, NULL), EBB_ENOMEM);
}

enum { PER_PRODUCER = 2000 };

struct traffic {
    struct ebb_queue *queue;
    char items[2 * PER_PRODUCER];
    atomic_int seen[2 * PER_PRODUCER];
};

static void *produce(void *argument)
{
    struct traffic *t = argument;
    for (int i = 0; i < PER_PRODUCER; i++)
        ebb_queue_push(t->queue, &t->items[i]);
    return NULL;
}

static void *consume(void *argument)
{
    struct traffic *t = argument;
    void *item;
    while (ebb_queue_pop(t->queue, &item))
        atomic_fetch_add(&t->seen[(char *)item - t->items], 1);
    return NULL;
}

TEST(queue__loses_nothing_between_threads)
{
    static struct traffic t;
    pthread_t producers[2], consumers[3];
    CHECK_EQ(ebb_queue_create(&t.queue, 7, NULL), EBB_OK);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&consumers[i], NULL, consume, &t), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&producers[i], NULL, produce, &t), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(producers[i], NULL);
    ebb_queue_close(t.queue);
    for (int i = 0; i < 3; i++)
        pthread_join(consumers[i], NULL);
    for (int i = 0; i < PER_PRODUCER; i++)
        CHECK_EQ(t.seen[i], 2);
    ebb_queue_destroy(t.queue);
}

TEST_MAIN()
