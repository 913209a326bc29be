/* thread.h - threads, a pool that runs numbered jobs, and a queue by which threads talk. */
#ifndef EBB_BASE_THREAD_H
#define EBB_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* A thread that no signal is delivered to: those are the business of whoever starts it. 0, or the
 * errno that says why there is none. */
int ebb_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Call run(context, i) for i in 0..count-1 on up to `threads` threads (<= 1: inline, in order).
 * Returns when all have finished. run must not touch what another i touches. */
enum ebb_status ebb_parallel(int threads, size_t count, void (*run)(void *context, size_t i),
                             void *context, struct ebb_error *err);
int ebb_cpu_count(void); /* usable CPUs of this process (affinity, not hardware) */

struct ebb_queue; /* bounded FIFO of pointers, many producers, many consumers */
enum ebb_status ebb_queue_create(struct ebb_queue **queue, size_t capacity, struct ebb_error *err);
void ebb_queue_destroy(struct ebb_queue *queue);
bool ebb_queue_push(struct ebb_queue *queue, void *item); /* waits for room; false when closed */
bool ebb_queue_pop(struct ebb_queue *queue, void **item); /* waits; false when closed and empty */
void ebb_queue_close(struct ebb_queue *queue);

#endif
