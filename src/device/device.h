/* device.h - where bytes live and work runs: slabs per tier, streams, events, copies.
 *
 * Asynchronous by contract: copy, write, read, zero and launch enqueue on a stream and return; only
 * event_wait and sync block. So CUDA changes nothing above this header. A device knows nothing of
 * tensors or ops: a launch is a function and its argument, with the nanoseconds it is expected to
 * take.
 *
 * Rules.
 *   D1 Work on one stream runs in order; streams are ordered only by events.
 *   D2 An event is recorded on a stream and becomes done when everything enqueued before it is.
 *   D3 A slab is taken once per tier and is the only memory of that tier; offsets are bytes into it.
 *   D4 A copy's ranges must not be touched by other streams until its event is done (the manager's
 *      duty). Ranges of a copy inside tier 0 may overlap.
 *   D5 now_ns never goes backwards; on the null device it is simulated time, elsewhere wall time.
 *      Decisions never read it (they use the sum of frozen op costs); reports do.
 *   D6 address() is for kernels. Unless `is_host_visible` the host cannot read there: it uses write
 *      and read, whose host bytes come from host_take and stay untouched until an event behind.
 *   D7 The argument of a launch stays as it is until an event behind it is done, and as long as a
 *      graph that holds it.
 *   D8 Between capture_begin and capture_end nothing runs: what is enqueued is written down, and
 *      graph_launch enqueues all of it at once, any number of times. Events recorded meanwhile mean
 *      something only to waits of the same capture. Nothing may be waited for by the host.
 *
 * Devices: null (clock only; links with latency and bandwidth; no memory), cpu (real memory,
 * kernels on the caller's thread), far (memory that the host cannot read, kernels on a thread of
 * their own: what a GPU is to a program, for tests without one), cuda (a plug-in loaded at run time
 * that exports the same table). */
#ifndef EBB_DEVICE_DEVICE_H
#define EBB_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum device_tier { DEVICE_T0, DEVICE_HOST, DEVICE_FILE, DEVICE_TIERS };
enum device_stream { /* copies: one stream per direction and lower tier */
                     DEVICE_COMPUTE,
                     DEVICE_OUT,
                     DEVICE_IN,
                     DEVICE_FILE_OUT,
                     DEVICE_FILE_IN,
                     DEVICE_BELOW, /* launches on the host, over tier 1 */
                     DEVICE_STREAMS
};

static inline enum device_stream device_copy_stream(enum device_tier low, bool is_out)
{
    if (low == DEVICE_FILE)
        return is_out ? DEVICE_FILE_OUT : DEVICE_FILE_IN;
    return is_out ? DEVICE_OUT : DEVICE_IN;
}

typedef uint64_t device_event; /* 0 = always done */

struct device_link {
    uint64_t latency_ns;
    double bytes_per_ns; /* 0 = infinitely fast */
};

/* What may be said of a link, and what a copy takes at most, a quarter of an hour: sums over a plan
 * stay numbers. */
#define DEVICE_LEAST_RATE 1e-4 /* bytes per ns, which is GB/s: 100 kB/s */
#define DEVICE_MOST_RATE 1e12
#define DEVICE_RATE_BOUNDS ">= 1e-4, <= 1e12"
#define DEVICE_MOST_COPY_NS UINT64_C(1000000000000)
#define DEVICE_LATENCY_BOUNDS ">= 0, <= 1e9" /* in microseconds */

static inline uint64_t device_copy_ns(const struct device_link *link, uint64_t bytes)
{
    double ns = (double)link->latency_ns +
                (link->bytes_per_ns > 0 ? (double)bytes / link->bytes_per_ns : 0.0);
    return ns < (double)DEVICE_MOST_COPY_NS ? (uint64_t)ns : DEVICE_MOST_COPY_NS;
}

struct device_config {
    struct device_link out[DEVICE_TIERS]; /* T0 -> tier; [0] is not used */
    struct device_link in[DEVICE_TIERS];  /* tier -> T0; [0] = copies inside T0 */
    double both[DEVICE_TIERS];            /* out and in together, while both are busy, carry so many
                                             bytes per ns; 0: each as much as alone */
    bool is_throttled[DEVICE_TIERS]; /* cpu, far: copies to and from that tier take no less than
                                        their link says */
    const char *file_path;           /* folder of the T2 file; NULL: the system's temporary one */
    double host_slowness;            /* how much longer the host takes for an op; 0: as long */
    int threads;                     /* cpu */
};

typedef enum ebb_status (*device_work)(void *argument, struct ebb_error *err);

struct device;       /* one owner thread */
struct device_graph; /* what was captured */

struct device_table {
    const char *name;
    bool is_clock;        /* nothing is run, filled or read: there are no bytes */
    bool is_lazy;         /* bytes of a slab cost memory only when they are written */
    bool is_host_visible; /* the host may read and write at address() while nothing runs there */
    enum ebb_status (*create)(struct device **device, const struct device_config *config,
                              struct ebb_error *err);
    void (*destroy)(struct device *device);
    enum ebb_status (*reserve)(struct device *device, enum device_tier tier, uint64_t bytes,
                               struct ebb_error *err);        /* once per tier (D3) */
    void *(*address)(struct device *device, uint64_t offset); /* in T0; NULL on null */
    enum ebb_status (*launch)(struct device *device, device_work work, void *argument,
                              uint64_t cost_ns, struct ebb_error *err); /* on DEVICE_COMPUTE */
    /* On DEVICE_BELOW: by the host, over tier 1, whose bytes it has at below(). NULL: it cannot. */
    enum ebb_status (*launch_below)(struct device *device, device_work work, void *argument,
                                    uint64_t cost_ns, struct ebb_error *err);
    void *(*below)(struct device *device, uint64_t offset); /* in tier 1; NULL on null */
    enum ebb_status (*copy)(struct device *device, enum device_stream stream, enum device_tier to,
                            uint64_t to_offset, enum device_tier from, uint64_t from_offset,
                            uint64_t bytes, struct ebb_error *err);
    /* Between tier 0 and memory of host_take (D6), on any stream; cpu: of anybody. */
    enum ebb_status (*write)(struct device *device, enum device_stream stream, uint64_t to_offset,
                             const void *host, uint64_t bytes, struct ebb_error *err);
    enum ebb_status (*read)(struct device *device, enum device_stream stream, void *host,
                            uint64_t from_offset, uint64_t bytes, struct ebb_error *err);
    enum ebb_status (*zero)(struct device *device, enum device_stream stream, uint64_t offset,
                            uint64_t bytes, struct ebb_error *err); /* in tier 0 */
    void *(*host_take)(struct device *device, uint64_t bytes);      /* NULL: there is none left */
    void (*host_give)(struct device *device, void *host);
    enum ebb_status (*record)(struct device *device, enum device_stream stream, device_event *event,
                              struct ebb_error *err);
    enum ebb_status (*stream_wait)(struct device *device, enum device_stream stream,
                                   device_event event, struct ebb_error *err); /* does not block */
    bool (*event_done)(struct device *device, device_event event);
    enum ebb_status (*event_wait)(struct device *device, device_event event, struct ebb_error *err);
    enum ebb_status (*sync)(struct device *device, struct ebb_error *err); /* all streams */
    uint64_t (*now_ns)(struct device *device, enum device_stream stream);
    uint64_t (*stall_ns)(struct device *device); /* compute stream waited for copies so far */
    /* What is enqueued on DEVICE_COMPUTE between the two, by the device's own clock; begun when nothing
     * is under way, outside a capture; the end waits. Both NULL: now_ns around it and a sync are as good. */
    enum ebb_status (*time_begin)(struct device *device, struct ebb_error *err);
    enum ebb_status (*time_end)(struct device *device, uint64_t *ns, struct ebb_error *err);
    /* Of the device's own memory: the most that is ever taken beside tier 0 (contexts, kernels, graphs), and what is,
     * by whomever. 0 and NULL where there is nothing of the kind. */
    uint64_t reserve_bytes;
    uint64_t (*beside_bytes)(struct device *device);
    /* D8; all NULL where there is no capture. A graph belongs to the caller and goes before the
     * device. EBB_ENOMEM of capture_end: there is no room for it beside the graphs that are there;
     * nothing is left under way, and the same steps can be enqueued one by one. */
    uint64_t most_nodes; /* launches, copies and moves of all graphs together; 0: any number */
    enum ebb_status (*capture_begin)(struct device *device, struct ebb_error *err);
    enum ebb_status (*capture_end)(struct device *device, struct device_graph **graph,
                                   struct ebb_error *err); /* NULL: given up */
    enum ebb_status (*graph_launch)(struct device *device, struct device_graph *graph,
                                    struct ebb_error *err);
    void (*graph_free)(struct device *device, struct device_graph *graph);
};

struct device {
    const struct device_table *table; /* first member of every device's own struct */
};

extern const struct device_table device_null;
extern const struct device_table device_cpu;
extern const struct device_table device_far;

extern const struct device_table *const device_tables[]; /* built in, NULL-terminated */

/* What a kernel on far's thread adds to an address in tier 0 to reach the bytes. */
ptrdiff_t device_far_shift(const struct device *device);

#endif
