/* monitor.h - private to train: a thread that compares what the process takes with what is
 * accounted for.
 *
 * Observed is anonymous memory, read every 10 ms (9 us a time); accounted are the bytes that plans,
 * tiers and buffers have. The owner says what is accounted and where training is; whoever runs ops
 * writes their numbers to a word. Where the slab is no memory of this process it does not count. */
#ifndef EBB_TRAIN_MONITOR_H
#define EBB_TRAIN_MONITOR_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/status.h"
#include "trace/trace.h"

#define TRAIN_RESERVE (UINT64_C(32) << 20) /* what a process may take besides, unless told */

struct train_monitor;

struct train_sight {           /* what was seen */
    uint64_t observed_bytes;   /* most */
    uint64_t accounted_bytes;  /* most */
    uint64_t beyond_bytes;     /* most of observed - accounted at one instant, ... */
    int64_t update;            /* ... during this update, ... */
    uint32_t op;               /* ... while this op (TRACE_NONE: before the first) of ... */
    const struct trace *trace; /* ... this program ran; NULL: between runs */
    uint64_t samples;
};

/* EBB_EUNSUPPORTED: there is no /proc to read. */
enum ebb_status train_monitor_start(struct train_monitor **monitor, struct ebb_error *err);
void train_monitor_stop(struct train_monitor *monitor); /* NULL is fine */
/* By the owner, before a program runs and (trace NULL) behind it. */
void train_monitor_tell(struct train_monitor *monitor, const struct trace *trace,
                        uint64_t accounted_bytes, int64_t update);
_Atomic uint32_t *train_monitor_op(struct train_monitor *monitor); /* for exec_io.now */
void train_monitor_look(struct train_monitor *monitor, struct train_sight *sight);

#endif
