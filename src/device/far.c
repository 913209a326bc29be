/* far.c - memory that the host cannot read, and kernels on a thread of their own.
 *
 * What a GPU is to the program above, on any machine: tier 0 is a memory file that is mapped twice,
 * once where address() says, without any right, and once in secret. Whoever on the host touches an
 * address faults at once; kernels, on the thread of the compute stream, add device_far_shift. Every
 * stream is a thread, so an event that is missing is a race that a thread sanitizer sees, and what a
 * launch needs must outlive the call.
 *
 * A capture is a list of what was enqueued. Events inside it are numbers of the capture; a launch of
 * the graph enqueues the list and gives each number the event it has this time. */
#include "device/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"

#define CAPTURED (UINT64_C(1) << 63) /* an event of a capture */

enum node_kind { NODE_ITEM, NODE_RECORD, NODE_FOLLOW };

struct node {
    enum node_kind kind;
    enum device_stream stream;
    struct device_item item;
    device_event event; /* RECORD, FOLLOW: number in the capture */
};

struct device_graph {
    struct node *nodes;
    size_t count, capacity;
    device_event *events; /* of the launch that is under way */
    size_t event_count;
};

struct far_device {
    struct device base; /* first */
    struct device_config config;
    struct device_memory memory; /* slab[0]: the secret mapping */
    unsigned char *shown;        /* what address() speaks of */
    struct device_threads *threads;
    struct device_graph *capture; /* not NULL: under way */
};

static struct far_device *self(struct device *device)
{
    return (struct far_device *)device;
}

ptrdiff_t device_far_shift(const struct device *device)
{
    const struct far_device *d = (const struct far_device *)device;
    return (ptrdiff_t)((uintptr_t)d->memory.slab[DEVICE_T0] - (uintptr_t)d->shown);
}

static enum ebb_status run_item(void *device, unsigned char *buffer, const struct device_item *item,
                                struct ebb_error *err)
{
    if (item->work)
        return item->work(item->argument, err);
    return device_memory_copy(&self(device)->memory, buffer, item, err);
}

/* ---- life ------------------------------------------------------------------------------------- */

static void far_graph_free(struct device *device, struct device_graph *graph)
{
    (void)device;
    if (!graph)
        return;
    ebb_free(graph->nodes);
    ebb_free(graph->events);
    ebb_free(graph);
}

static void far_destroy(struct device *device)
{
    if (!device)
        return;
    struct far_device *d = self(device);
    device_threads_destroy(d->threads);
    far_graph_free(device, d->capture);
    if (d->shown)
        munmap(d->shown, (size_t)d->memory.bytes[DEVICE_T0]);
    device_memory_fini(&d->memory);
    ebb_free(d);
}

static enum ebb_status far_create(struct device **device, const struct device_config *config,
                                  struct ebb_error *err)
{
    struct far_device *d;
    EBB_TRY(ebb_new(&d, 1, sizeof *d, err));
    d->base.table = &device_far;
    device_memory_init(&d->memory);
    if (config)
        d->config = *config;
    enum ebb_status status = device_threads_create(&d->threads, d, run_item, err);
    for (int k = 0; k < DEVICE_STREAMS && status == EBB_OK; k++)
        status = device_threads_start(d->threads, (enum device_stream)k, err);
    if (status != EBB_OK) {
        far_destroy(&d->base);
        return status;
    }
    *device = &d->base;
    return EBB_OK;
}

static enum ebb_status map_twice(struct far_device *d, uint64_t bytes, struct ebb_error *err)
{
    int fd = memfd_create("ebb-far", MFD_CLOEXEC);
    bool is_there = fd >= 0 && ftruncate(fd, (off_t)bytes) == 0;
    void *secret = MAP_FAILED, *shown = MAP_FAILED;
    if (is_there) {
        secret = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        shown = mmap(NULL, (size_t)bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
    }
    int reason = errno;
    if (fd >= 0)
        close(fd);
    if (secret != MAP_FAILED && shown != MAP_FAILED) {
        d->memory.slab[DEVICE_T0] = secret;
        d->memory.bytes[DEVICE_T0] = bytes;
        d->shown = shown;
        return EBB_OK;
    }
    if (secret != MAP_FAILED)
        munmap(secret, (size_t)bytes);
    if (shown != MAP_FAILED)
        munmap(shown, (size_t)bytes);
    return ebb_fail(err, EBB_ENOMEM, "far device: cannot map %llu bytes: %s",
                    (unsigned long long)bytes, strerror(reason));
}

static enum ebb_status far_reserve(struct device *device, enum device_tier tier, uint64_t bytes,
                                   struct ebb_error *err)
{
    struct far_device *d = self(device);
    if (tier == DEVICE_T0 && bytes && !d->memory.bytes[DEVICE_T0])
        return map_twice(d, bytes, err);
    return device_memory_reserve(&d->memory, tier, bytes, d->config.file_path, err);
}

static void *far_address(struct device *device, uint64_t offset)
{
    return self(device)->shown + offset;
}

/* ---- enqueueing, or writing down -------------------------------------------------------------- */

static enum ebb_status write_down(struct device_graph *g, const struct node *node,
                                  struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&g->nodes, &g->capacity, g->count + 1, sizeof *g->nodes, err));
    g->nodes[g->count++] = *node;
    return EBB_OK;
}

static enum ebb_status enqueue(struct far_device *d, enum device_stream stream,
                               const struct device_item *item, struct ebb_error *err)
{
    if (!d->capture)
        return device_threads_push(d->threads, stream, item, err);
    struct node node = {.kind = NODE_ITEM, .stream = stream, .item = *item};
    return write_down(d->capture, &node, err);
}

static enum ebb_status far_launch(struct device *device, device_work work, void *argument,
                                  uint64_t cost_ns, struct ebb_error *err)
{
    struct device_item item = {.work = work, .argument = argument};
    (void)cost_ns;
    return work ? enqueue(self(device), DEVICE_COMPUTE, &item, err) : EBB_OK;
}

static enum ebb_status far_launch_below(struct device *device, device_work work, void *argument,
                                        uint64_t cost_ns, struct ebb_error *err)
{
    struct device_item item = {.work = work, .argument = argument};
    (void)cost_ns;
    return work ? enqueue(self(device), DEVICE_BELOW, &item, err) : EBB_OK;
}

static void *far_below(struct device *device, uint64_t offset)
{
    return self(device)->memory.slab[DEVICE_HOST] + offset;
}

static enum ebb_status far_copy(struct device *device, enum device_stream stream,
                                enum device_tier to, uint64_t to_offset, enum device_tier from,
                                uint64_t from_offset, uint64_t bytes, struct ebb_error *err)
{
    struct far_device *d = self(device);
    struct device_item item = {
        .to = to, .from = from, .to_offset = to_offset, .from_offset = from_offset, .bytes = bytes};
    EBB_TRY(device_memory_check(&d->memory, &item, err));
    if (d->config.is_throttled[to == DEVICE_T0 ? from : to] && stream != DEVICE_COMPUTE)
        item.least_ns = device_link_ns(&d->config, to, from, bytes);
    return enqueue(d, stream, &item, err);
}

static enum ebb_status far_write(struct device *device, enum device_stream stream,
                                 uint64_t to_offset, const void *host, uint64_t bytes,
                                 struct ebb_error *err)
{
    struct device_item item = {
        .to_offset = to_offset, .host = (void *)(uintptr_t)host, .bytes = bytes};
    EBB_TRY(device_memory_check(&self(device)->memory, &item, err));
    return enqueue(self(device), stream, &item, err);
}

static enum ebb_status far_read(struct device *device, enum device_stream stream, void *host,
                                uint64_t from_offset, uint64_t bytes, struct ebb_error *err)
{
    struct device_item item = {
        .from_offset = from_offset, .host = host, .is_read = true, .bytes = bytes};
    EBB_TRY(device_memory_check(&self(device)->memory, &item, err));
    return enqueue(self(device), stream, &item, err);
}

static enum ebb_status far_zero(struct device *device, enum device_stream stream, uint64_t offset,
                                uint64_t bytes, struct ebb_error *err)
{
    struct device_item item = {.to_offset = offset, .is_zero = true, .bytes = bytes};
    EBB_TRY(device_memory_check(&self(device)->memory, &item, err));
    return enqueue(self(device), stream, &item, err);
}

/* ---- events ----------------------------------------------------------------------------------- */

static enum ebb_status far_record(struct device *device, enum device_stream stream,
                                  device_event *event, struct ebb_error *err)
{
    struct far_device *d = self(device);
    if (!d->capture) {
        *event = device_threads_record(d->threads, stream);
        return EBB_OK;
    }
    *event = CAPTURED | d->capture->event_count++;
    struct node node = {.kind = NODE_RECORD, .stream = stream, .event = *event & ~CAPTURED};
    return write_down(d->capture, &node, err);
}

static enum ebb_status far_stream_wait(struct device *device, enum device_stream stream,
                                       device_event event, struct ebb_error *err)
{
    struct far_device *d = self(device);
    if (!d->capture)
        return device_threads_follow(d->threads, stream, event, err);
    if (!event)
        return EBB_OK;
    if (!(event & CAPTURED))
        return ebb_fail(err, EBB_EINTERNAL, "far device: a capture waits for an event before it");
    struct node node = {.kind = NODE_FOLLOW, .stream = stream, .event = event & ~CAPTURED};
    return write_down(d->capture, &node, err);
}

static bool far_event_done(struct device *device, device_event event)
{
    return !(event & CAPTURED) && device_threads_is_done(self(device)->threads, event);
}

static enum ebb_status far_event_wait(struct device *device, device_event event,
                                      struct ebb_error *err)
{
    struct far_device *d = self(device);
    if (d->capture || (event & CAPTURED))
        return ebb_fail(err, EBB_EINTERNAL, "far device: the host waits inside a capture");
    return device_threads_wait(d->threads, event, false, err);
}

static enum ebb_status far_sync(struct device *device, struct ebb_error *err)
{
    struct far_device *d = self(device);
    if (d->capture)
        return ebb_fail(err, EBB_EINTERNAL, "far device: the host waits inside a capture");
    return device_threads_sync(d->threads, false, err);
}

/* ---- captures --------------------------------------------------------------------------------- */

static enum ebb_status far_capture_begin(struct device *device, struct ebb_error *err)
{
    struct far_device *d = self(device);
    if (d->capture)
        return ebb_fail(err, EBB_EINTERNAL, "far device: a capture is under way already");
    d->capture = ebb_calloc(1, sizeof *d->capture);
    return d->capture ? EBB_OK : ebb_no_memory(err, sizeof *d->capture);
}

static enum ebb_status far_capture_end(struct device *device, struct device_graph **graph,
                                       struct ebb_error *err)
{
    struct far_device *d = self(device);
    struct device_graph *g = d->capture;
    d->capture = NULL;
    if (!g)
        return ebb_fail(err, EBB_EINTERNAL, "far device: no capture is under way");
    if (graph) {
        g->events = ebb_calloc(g->event_count + 1, sizeof *g->events);
        if (g->events) {
            *graph = g;
            return EBB_OK;
        }
    }
    far_graph_free(device, g);
    return graph ? ebb_no_memory(err, sizeof *g->events) : EBB_OK;
}

static enum ebb_status far_graph_launch(struct device *device, struct device_graph *g,
                                        struct ebb_error *err)
{
    struct far_device *d = self(device);
    if (d->capture)
        return ebb_fail(err, EBB_EINTERNAL, "far device: a graph inside a capture");
    for (size_t i = 0; i < g->count; i++) {
        const struct node *n = &g->nodes[i];
        if (n->kind == NODE_RECORD)
            g->events[n->event] = device_threads_record(d->threads, n->stream);
        else if (n->kind == NODE_FOLLOW)
            EBB_TRY(device_threads_follow(d->threads, n->stream, g->events[n->event], err));
        else
            EBB_TRY(device_threads_push(d->threads, n->stream, &n->item, err));
    }
    return EBB_OK;
}

static uint64_t far_now(struct device *device, enum device_stream stream)
{
    (void)device;
    (void)stream;
    return ebb_clock_ns();
}

static uint64_t far_stall(struct device *device)
{
    return device_threads_stall_ns(self(device)->threads);
}

const struct device_table device_far = {
    .name = "far",
    .is_lazy = true,
    .create = far_create,
    .destroy = far_destroy,
    .reserve = far_reserve,
    .address = far_address,
    .launch = far_launch,
    .launch_below = far_launch_below,
    .below = far_below,
    .copy = far_copy,
    .write = far_write,
    .read = far_read,
    .zero = far_zero,
    .host_take = device_host_take,
    .host_give = device_host_give,
    .record = far_record,
    .stream_wait = far_stream_wait,
    .event_done = far_event_done,
    .event_wait = far_event_wait,
    .sync = far_sync,
    .now_ns = far_now,
    .stall_ns = far_stall,
    .capture_begin = far_capture_begin,
    .capture_end = far_capture_end,
    .graph_launch = far_graph_launch,
    .graph_free = far_graph_free,
};
