/* device.h - where bytes live and work runs: slabs per tier, streams, events, copies.
 *
 * Asynchronous by contract: copy and launch enqueue on a stream and return; only device_event_wait
 * and device_sync block. So CUDA changes nothing above this header. A device knows nothing of
 * tensors or ops: a launch is a function and its argument, with the nanoseconds it is expected to
 * take.
 *
 * Rules.  D1 work on one stream runs in order; streams are ordered only by events.
 *         D2 an event is recorded on a stream and becomes done when everything enqueued before it
 * is done. D3 a slab is taken once per tier and is the only memory of that tier; offsets are bytes
 * into it. D4 a copy's ranges must not be touched by other streams until its event is done (the
 * manager's duty). D5 device_now never goes backwards; on the null device it is simulated time,
 * elsewhere wall time. Decisions never read it (they use the sum of frozen op costs); reports do.
 *
 * Devices: null (clock only; links with latency and bandwidth; no memory), cpu (real memory,
 * threads), cuda (a plug-in loaded at run time that exports the same table). */
#ifndef EBB_DEVICE_DEVICE_H
#define EBB_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum device_tier { DEVICE_T0, DEVICE_HOST, DEVICE_FILE, DEVICE_TIERS };
enum device_stream {
    DEVICE_COMPUTE,
    DEVICE_OUT,
    DEVICE_IN,
    DEVICE_STREAMS
}; /* one copy stream per direction */

typedef uint64_t device_event; /* 0 = always done */

struct device_link {
    uint64_t latency_ns;
    double bytes_per_ns; /* 0 = infinitely fast */
};

struct device_config {
    struct device_link out[DEVICE_TIERS]; /* T0 -> tier; [0] is not used */
    struct device_link in[DEVICE_TIERS];  /* tier -> T0; [0] = copies inside T0 */
    const char *file_path; /* folder of the T2 file; NULL: the system's temporary one */
    int threads;           /* cpu */
};

typedef enum ebb_status (*device_work)(void *argument, struct ebb_error *err);

struct device; /* one owner thread */

struct device_table {
    const char *name;
    enum ebb_status (*create)(struct device **device, const struct device_config *config,
                              struct ebb_error *err);
    void (*destroy)(struct device *device);
    enum ebb_status (*reserve)(struct device *device, enum device_tier tier, uint64_t bytes,
                               struct ebb_error *err);        /* once per tier (D3) */
    void *(*address)(struct device *device, uint64_t offset); /* in T0; NULL on null */
    enum ebb_status (*launch)(struct device *device, device_work work, void *argument,
                              uint64_t cost_ns, struct ebb_error *err); /* on DEVICE_COMPUTE */
    enum ebb_status (*copy)(struct device *device, enum device_stream stream, enum device_tier to,
                            uint64_t to_offset, enum device_tier from, uint64_t from_offset,
                            uint64_t bytes, struct ebb_error *err);
    enum ebb_status (*record)(struct device *device, enum device_stream stream, device_event *event,
                              struct ebb_error *err);
    enum ebb_status (*stream_wait)(struct device *device, enum device_stream stream,
                                   device_event event, struct ebb_error *err); /* does not block */
    bool (*event_done)(struct device *device, device_event event);
    enum ebb_status (*event_wait)(struct device *device, device_event event, struct ebb_error *err);
    enum ebb_status (*sync)(struct device *device, struct ebb_error *err); /* all streams */
    uint64_t (*now_ns)(struct device *device, enum device_stream stream);
    uint64_t (*stall_ns)(struct device *device); /* compute stream waited for copies so far */
};

struct device {
    const struct device_table *table; /* first member of every device's own struct */
};

extern const struct device_table device_null;
extern const struct device_table device_cpu;

extern const struct device_table *const device_tables[]; /* built in, NULL-terminated */

#endif
