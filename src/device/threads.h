/* threads.h - private to device: streams that are threads.
 *
 * A stream is a thread with a bounded queue of items. Items of one stream run in order; an item is
 * something to do, or a wait for an event of another stream. An event is a position in a stream:
 * done when so many of its items are. What an item does is the device's business (device_threads_run).
 *
 * The first failure of an item stays: what is queued behind it, on any stream, is passed over, and
 * every later push or wait answers with it. */
#ifndef EBB_DEVICE_THREADS_H
#define EBB_DEVICE_THREADS_H

#include "device/device.h"

#define DEVICE_BUFFER_BYTES (1u << 20) /* one aligned buffer per thread */
#define DEVICE_BLOCK 4096u             /* its alignment */

struct device_item {
    device_event wait; /* not 0: nothing but a wait */
    device_work work;  /* a launch, with its argument; NULL: a copy */
    void *argument;
    enum device_tier to, from; /* a copy; `host` stands for the end that is no tier */
    uint64_t to_offset, from_offset, bytes;
    void *host;
    bool is_read;       /* with host: from tier 0 to host */
    bool is_zero;       /* tier 0 from to_offset on becomes zero */
    uint64_t least_ns;  /* it takes no less (a throttled link) */
    uint64_t pushed_ns; /* set by the push, with least_ns */
};

typedef enum ebb_status (*device_threads_run)(void *device, unsigned char *buffer,
                                              const struct device_item *item,
                                              struct ebb_error *err);

struct device_threads;

enum ebb_status device_threads_create(struct device_threads **threads, void *device,
                                      device_threads_run run, struct ebb_error *err);
/* Behind a sync: what is queued still runs, but without its waits. */
void device_threads_destroy(struct device_threads *threads);
/* The thread of one stream; once. */
enum ebb_status device_threads_start(struct device_threads *threads, enum device_stream stream,
                                     struct ebb_error *err);
bool device_threads_has(const struct device_threads *threads, enum device_stream stream);
/* Waits while the queue is full. */
enum ebb_status device_threads_push(struct device_threads *threads, enum device_stream stream,
                                    const struct device_item *item, struct ebb_error *err);
/* Behind everything pushed so far; 0 for a stream without a thread. */
device_event device_threads_record(struct device_threads *threads, enum device_stream stream);
/* What is pushed next on `stream` follows the event; nothing to do on the event's own stream. */
enum ebb_status device_threads_follow(struct device_threads *threads, enum device_stream stream,
                                      device_event event, struct ebb_error *err);
bool device_threads_is_done(struct device_threads *threads, device_event event);
/* The caller waits; the time counts as stall where `is_stall`. */
enum ebb_status device_threads_wait(struct device_threads *threads, device_event event,
                                    bool is_stall, struct ebb_error *err);
enum ebb_status device_threads_sync(struct device_threads *threads, bool is_stall,
                                    struct ebb_error *err);
/* What the caller waited for events, and what the compute thread did. */
uint64_t device_threads_stall_ns(struct device_threads *threads);

#endif
