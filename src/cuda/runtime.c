/* runtime.c - a CUDA device as a device table: one slab, streams, events, pinned host memory, graphs.
 *
 * Tier 0 is one cudaMalloc, the host tier one mapping that is pinned piece by piece; nothing is
 * allocated on the device after that. A launch runs its function at once, on the caller's thread:
 * what that enqueues goes to the compute stream.
 *
 * Events come from a ring. A number names a place in it; when the ring comes round, what was recorded
 * there before is waited for, so an old number is an event that is done. Inside a capture nobody can wait: whoever asks
 * for an event of the capture whose place is taken follows all streams instead, which is more than was asked.
 *
 * Copies inside tier 0 may overlap (device.h D4), copies of the library may not: small ones are a kernel, others go in
 * pieces no longer than the distance, or by way of a stage when the distance is small.
 *
 * A capture begins by letting every copy stream follow the compute stream and ends by letting the
 * compute stream follow all of them, so that whatever is enqueued meanwhile is part of the graph.
 *
 * Beside the slab the device's memory holds the driver's context, kernels and graphs. All of it is the reserve: the slab
 * leaves room for it, and graphs that would not fit are refused (EBB_ENOMEM: the caller goes on without). */
#include "cuda/runtime.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <cuda_runtime_api.h>

#include "base/clock.h"
#include "base/heap.h"
#include "cuda/family.h"

#define RING 4096u
#define PIN_BYTES (UINT64_C(1) << 30) /* pinned at a time: 62 GiB take 42 s, and a piece can fail */
#define STAGE_BYTES (UINT64_C(8) << 20)
#define LEAST_PIECE (UINT64_C(1) << 20) /* shorter distances go through the stage */
/* Measured: context and kernels 0.53 to 0.62 GiB, 2.3 KiB a node of a graph. */
#define RESERVE_BYTES (UINT64_C(5) << 28)
#define GRAPH_BYTES (UINT64_C(640) << 20) /* of it, for all graphs */
#define MOST_NODES UINT64_C(280000)
#define GIB(bytes) ((double)(bytes) / (1 << 30))

struct ring_event {
    cudaEvent_t event;
    bool is_used, is_captured;
};

struct cuda_device {
    struct device base; /* first */
    cudaStream_t streams[DEVICE_STREAMS];
    struct ring_event ring[RING];
    uint64_t recorded;                 /* events so far */
    uint64_t capture_first;            /* how many when the capture began */
    uint64_t graph_nodes, graph_bytes; /* of all graphs */
    cudaEvent_t timer[2];
    unsigned char *slab, *stage;
    unsigned char *host;
    uint64_t bytes[DEVICE_TIERS];
    uint64_t pinned_bytes;
    bool is_capturing;
};

struct device_graph {
    cudaGraphExec_t exec;
    uint64_t nodes, bytes;
};

static struct cuda_device *self(struct device *device)
{
    return (struct cuda_device *)device;
}

static enum ebb_status check(cudaError_t code, const char *what, struct ebb_error *err)
{
    if (code == cudaSuccess)
        return EBB_OK;
    (void)cudaGetLastError();
    return ebb_fail(err, code == cudaErrorMemoryAllocation ? EBB_ENOMEM : EBB_EDEVICE,
                    "cuda device: %s: %s", what, cudaGetErrorString(code));
}

/* ---- life ------------------------------------------------------------------------------------- */

static void cuda_destroy(struct device *device)
{
    if (!device)
        return;
    struct cuda_device *d = self(device);
    (void)cudaDeviceSynchronize();
    for (size_t i = 0; i < RING; i++) {
        if (d->ring[i].event)
            (void)cudaEventDestroy(d->ring[i].event);
    }
    for (int k = 0; k < 2; k++) {
        if (d->timer[k])
            (void)cudaEventDestroy(d->timer[k]);
    }
    for (int k = 0; k < DEVICE_STREAMS; k++) {
        if (d->streams[k])
            (void)cudaStreamDestroy(d->streams[k]);
    }
    (void)cudaFree(d->slab);
    (void)cudaFree(d->stage);
    for (uint64_t at = 0; at < d->pinned_bytes; at += PIN_BYTES)
        (void)cudaHostUnregister(d->host + at);
    if (d->host)
        munmap(d->host, (size_t)d->bytes[DEVICE_HOST]);
    (void)cudaGetLastError();
    ebb_free(d);
}

/* Kernels are built for one kind. */
static enum ebb_status check_kind(struct ebb_error *err)
{
    int major = 0, minor = 0, device = 0;
    struct cudaDeviceProp facts;
    EBB_TRY(check(cudaGetDevice(&device), "facts", err));
    EBB_TRY(check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                  "facts", err));
    EBB_TRY(check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                  "facts", err));
    if (major == 9 && minor == 0)
        return EBB_OK;
    EBB_TRY(check(cudaGetDeviceProperties(&facts, device), "facts", err));
    return ebb_fail(err, EBB_EUNSUPPORTED,
                    "cuda device: the GPU is %.100s, of compute capability %d.%d; needed is 9.0 "
                    "(H100, H200): where there are several, name one in CUDA_VISIBLE_DEVICES",
                    facts.name, major, minor);
}

static enum ebb_status make_streams(struct cuda_device *d, struct ebb_error *err)
{
    int count = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess || count == 0) {
        (void)cudaGetLastError();
        return ebb_fail(err, EBB_EDEVICE, "no GPU: %s",
                        code == cudaSuccess ? "the driver knows none" : cudaGetErrorString(code));
    }
    EBB_TRY(check_kind(err));
    for (int k = 0; k < DEVICE_STREAMS; k++)
        EBB_TRY(
            check(cudaStreamCreateWithFlags(&d->streams[k], cudaStreamNonBlocking), "stream", err));
    return check(cudaMalloc((void **)&d->stage, STAGE_BYTES), "stage", err);
}

static enum ebb_status cuda_create(struct device **device, const struct device_config *config,
                                   struct ebb_error *err)
{
    struct cuda_device *d;
    (void)config; /* links are what they are */
    EBB_TRY(ebb_new(&d, 1, sizeof *d, err));
    d->base.table = &cuda_device_table;
    enum ebb_status status = make_streams(d, err);
    if (status != EBB_OK) {
        cuda_destroy(&d->base);
        return status;
    }
    *device = &d->base;
    return EBB_OK;
}

static enum ebb_status pin(struct cuda_device *d, uint64_t bytes, struct ebb_error *err)
{
    void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return ebb_fail(err, EBB_ENOMEM, "cuda device: cannot map %llu bytes of host memory: %s",
                        (unsigned long long)bytes, strerror(errno));
    (void)madvise(at, (size_t)bytes, MADV_HUGEPAGE);
    d->host = at;
    d->bytes[DEVICE_HOST] = bytes;
    while (d->pinned_bytes < bytes) {
        uint64_t left = bytes - d->pinned_bytes, piece = left < PIN_BYTES ? left : PIN_BYTES;
        EBB_TRY(check(cudaHostRegister(d->host + d->pinned_bytes, (size_t)piece, 0),
                      "pinning host memory", err));
        d->pinned_bytes += piece;
    }
    return EBB_OK;
}

/* The slab, and beside it what of the reserve is not taken yet; of what is, nobody knows whose it is, but graphs come
 * later in any case. */
static enum ebb_status take_slab(struct cuda_device *d, uint64_t bytes, struct ebb_error *err)
{
    size_t left = 0, all = 0;
    EBB_TRY(check(cudaMemGetInfo(&left, &all), "memory", err));
    uint64_t taken = all - left;
    uint64_t more = taken < RESERVE_BYTES - GRAPH_BYTES ? RESERVE_BYTES - taken : GRAPH_BYTES;
    if (bytes > left || more > left - bytes)
        return ebb_fail(
            err, EBB_ENOMEM,
            "cuda device: %.2f GiB are wanted, and %.2f GiB beside them for kernels and "
            "graphs, but %.2f GiB of %.2f GiB are free: give --budget, at most %.2f GiB",
            GIB(bytes), GIB(more), GIB(left), GIB(all), left > more ? GIB(left - more) : 0.0);
    EBB_TRY(check(cudaMalloc((void **)&d->slab, (size_t)bytes), "taking the budget", err));
    d->bytes[DEVICE_T0] = bytes;
    cudaStream_t stream =
        d->streams[DEVICE_COMPUTE]; /* other streams do not wait for the default one */
    EBB_TRY(check(cudaMemsetAsync(d->slab, 0, (size_t)bytes, stream), "clearing the budget", err));
    return check(cudaStreamSynchronize(stream), "clearing the budget", err);
}

static enum ebb_status cuda_reserve(struct device *device, enum device_tier tier, uint64_t bytes,
                                    struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    if (d->bytes[tier])
        return ebb_fail(err, EBB_EINTERNAL, "cuda device: tier %d is reserved already", (int)tier);
    if (bytes == 0)
        return EBB_OK;
    if (tier == DEVICE_FILE)
        return ebb_fail(err, EBB_EUNSUPPORTED, "cuda device: a file tier; give it host memory");
    if (tier == DEVICE_HOST)
        return pin(d, bytes, err);
    return take_slab(d, bytes, err);
}

static void *cuda_address(struct device *device, uint64_t offset)
{
    return self(device)->slab + offset;
}

/* ---- work ------------------------------------------------------------------------------------- */

static enum ebb_status cuda_launch(struct device *device, device_work work, void *argument,
                                   uint64_t cost_ns, struct ebb_error *err)
{
    (void)device;
    (void)cost_ns;
    return work ? work(argument, err) : EBB_OK;
}

static bool is_inside(const struct cuda_device *d, enum device_tier tier, uint64_t offset,
                      uint64_t bytes)
{
    return bytes <= d->bytes[tier] && offset <= d->bytes[tier] - bytes;
}

static enum ebb_status one_copy(struct cuda_device *d, enum device_stream stream, void *to,
                                const void *from, uint64_t bytes, struct ebb_error *err)
{
    return check(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, d->streams[stream]),
                 "copy", err);
}

/* Overlapping ranges, in the order that reads every byte before it is written over. */
static enum ebb_status move_pieces(struct cuda_device *d, enum device_stream stream, uint64_t to,
                                   uint64_t from, uint64_t bytes, struct ebb_error *err)
{
    uint64_t distance = to > from ? to - from : from - to;
    const unsigned char *whole = d->slab + from;
    if (bytes <= CUDA_MOVE_MOST && (uintptr_t)whole % 16 == 0 && to % 16 == from % 16)
        return check((cudaError_t)cuda_move(whole, d->slab + to, (size_t)bytes, d->streams[stream]),
                     "move", err);
    bool is_staged = distance < LEAST_PIECE;
    uint64_t most = is_staged ? STAGE_BYTES : distance;
    for (uint64_t done = 0; done < bytes;) {
        uint64_t piece = bytes - done < most ? bytes - done : most;
        uint64_t at = to < from ? done : bytes - done - piece;
        const unsigned char *source = d->slab + from + at;
        if (is_staged) {
            EBB_TRY(one_copy(d, stream, d->stage, source, piece, err));
            source = d->stage;
        }
        EBB_TRY(one_copy(d, stream, d->slab + to + at, source, piece, err));
        done += piece;
    }
    return EBB_OK;
}

/* Between tier 0 and pinned memory, not across the ends of what was pinned at once. */
static enum ebb_status link_pieces(struct cuda_device *d, enum device_stream stream, bool is_out,
                                   uint64_t high, uint64_t low, uint64_t bytes,
                                   struct ebb_error *err)
{
    while (bytes > 0) {
        uint64_t piece = PIN_BYTES - low % PIN_BYTES;
        piece = piece < bytes ? piece : bytes;
        if (is_out)
            EBB_TRY(one_copy(d, stream, d->host + low, d->slab + high, piece, err));
        else
            EBB_TRY(one_copy(d, stream, d->slab + high, d->host + low, piece, err));
        high += piece;
        low += piece;
        bytes -= piece;
    }
    return EBB_OK;
}

static enum ebb_status cuda_copy(struct device *device, enum device_stream stream,
                                 enum device_tier to, uint64_t to_offset, enum device_tier from,
                                 uint64_t from_offset, uint64_t bytes, struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    if (!is_inside(d, to, to_offset, bytes) || !is_inside(d, from, from_offset, bytes))
        return ebb_fail(
            err, EBB_EDEVICE,
            "cuda device: copy of %llu bytes from tier %d offset %llu to tier %d offset "
            "%llu leaves the slab",
            (unsigned long long)bytes, (int)from, (unsigned long long)from_offset, (int)to,
            (unsigned long long)to_offset);
    if (to == DEVICE_T0 && from == DEVICE_T0)
        return move_pieces(d, stream, to_offset, from_offset, bytes, err);
    if (to == DEVICE_T0)
        return link_pieces(d, stream, false, to_offset, from_offset, bytes, err);
    return link_pieces(d, stream, true, from_offset, to_offset, bytes, err);
}

static enum ebb_status cuda_write(struct device *device, enum device_stream stream,
                                  uint64_t to_offset, const void *host, uint64_t bytes,
                                  struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    if (!is_inside(d, DEVICE_T0, to_offset, bytes))
        return ebb_fail(err, EBB_EDEVICE, "cuda device: a write leaves the slab");
    return one_copy(d, stream, d->slab + to_offset, host, bytes, err);
}

static enum ebb_status cuda_read(struct device *device, enum device_stream stream, void *host,
                                 uint64_t from_offset, uint64_t bytes, struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    if (!is_inside(d, DEVICE_T0, from_offset, bytes))
        return ebb_fail(err, EBB_EDEVICE, "cuda device: a read leaves the slab");
    return one_copy(d, stream, host, d->slab + from_offset, bytes, err);
}

static enum ebb_status cuda_zero(struct device *device, enum device_stream stream, uint64_t offset,
                                 uint64_t bytes, struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    if (!is_inside(d, DEVICE_T0, offset, bytes))
        return ebb_fail(err, EBB_EDEVICE, "cuda device: zeros leave the slab");
    return check(cudaMemsetAsync(d->slab + offset, 0, (size_t)bytes, d->streams[stream]), "zeros",
                 err);
}

static void *cuda_host_take(struct device *device, uint64_t bytes)
{
    void *at = NULL;
    (void)device;
    if (cudaHostAlloc(&at, bytes ? (size_t)bytes : 1, cudaHostAllocDefault) == cudaSuccess)
        return at;
    (void)cudaGetLastError();
    return NULL;
}

static void cuda_host_give(struct device *device, void *host)
{
    (void)device;
    if (host)
        (void)cudaFreeHost(host);
}

/* ---- events ----------------------------------------------------------------------------------- */

static struct ring_event *event_of(struct cuda_device *d, device_event event)
{
    bool is_gone = event == 0 || event > d->recorded || event + RING <= d->recorded;
    return is_gone ? NULL : &d->ring[event % RING];
}

static enum ebb_status cuda_record(struct device *device, enum device_stream stream,
                                   device_event *event, struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    struct ring_event *place = &d->ring[(d->recorded + 1) % RING];
    if (!place->event)
        EBB_TRY(
            check(cudaEventCreateWithFlags(&place->event, cudaEventDisableTiming), "event", err));
    else if (place->is_used && !place->is_captured && !d->is_capturing)
        EBB_TRY(check(cudaEventSynchronize(place->event), "event", err));
    EBB_TRY(check(cudaEventRecord(place->event, d->streams[stream]), "event", err));
    place->is_used = true;
    place->is_captured = d->is_capturing;
    *event = ++d->recorded;
    return EBB_OK;
}

/* Everything on `later` follows what is on `earlier`. */
static enum ebb_status follow(struct device *device, enum device_stream later,
                              enum device_stream earlier, struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    device_event event;
    EBB_TRY(cuda_record(device, earlier, &event, err));
    return check(cudaStreamWaitEvent(d->streams[later], event_of(d, event)->event, 0), "wait", err);
}

static enum ebb_status follow_all(struct device *device, enum device_stream later,
                                  struct ebb_error *err)
{
    for (int k = 0; k < DEVICE_STREAMS; k++)
        if (k != (int)later)
            EBB_TRY(follow(device, later, (enum device_stream)k, err));
    return EBB_OK;
}

static enum ebb_status cuda_stream_wait(struct device *device, enum device_stream stream,
                                        device_event event, struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    struct ring_event *place = event_of(d, event);
    if (!place && d->is_capturing && event > d->capture_first)
        return follow_all(device, stream, err);
    if (!place)
        return EBB_OK;
    if (place->is_captured != d->is_capturing)
        return ebb_fail(err, EBB_EINTERNAL,
                        "cuda device: a capture and what is outside it wait for "
                        "each other");
    return check(cudaStreamWaitEvent(d->streams[stream], place->event, 0), "wait", err);
}

static bool cuda_event_done(struct device *device, device_event event)
{
    struct ring_event *place = event_of(self(device), event);
    return !place || (!place->is_captured && cudaEventQuery(place->event) == cudaSuccess);
}

static enum ebb_status cuda_event_wait(struct device *device, device_event event,
                                       struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    struct ring_event *place = event_of(d, event);
    if (d->is_capturing || (place && place->is_captured))
        return ebb_fail(err, EBB_EINTERNAL, "cuda device: the host waits inside a capture");
    return place ? check(cudaEventSynchronize(place->event), "wait", err) : EBB_OK;
}

static enum ebb_status cuda_sync(struct device *device, struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    if (d->is_capturing)
        return ebb_fail(err, EBB_EINTERNAL, "cuda device: the host waits inside a capture");
    for (int k = 0; k < DEVICE_STREAMS; k++)
        EBB_TRY(check(cudaStreamSynchronize(d->streams[k]), "sync", err));
    return EBB_OK;
}

/* ---- captures --------------------------------------------------------------------------------- */

static enum ebb_status cuda_capture_end(struct device *device, struct device_graph **graph,
                                        struct ebb_error *err);

/* From a device that is done with everything: places of older events may be taken. */
static enum ebb_status cuda_capture_begin(struct device *device, struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    if (d->is_capturing)
        return ebb_fail(err, EBB_EINTERNAL, "cuda device: a capture is under way already");
    EBB_TRY(cuda_sync(device, err));
    EBB_TRY(
        check(cudaStreamBeginCapture(d->streams[DEVICE_COMPUTE], cudaStreamCaptureModeThreadLocal),
              "capture", err));
    d->is_capturing = true;
    d->capture_first = d->recorded;
    enum ebb_status status = EBB_OK;
    for (int k = DEVICE_COMPUTE + 1; k < DEVICE_STREAMS; k++)
        EBB_THEN(status, follow(device, (enum device_stream)k, DEVICE_COMPUTE, err));
    if (status != EBB_OK)
        (void)cuda_capture_end(device, NULL, NULL);
    return status;
}

/* Ready to be launched, all of its memory taken: a launch cannot fail for want of it. */
static enum ebb_status instantiate(struct cuda_device *d, struct device_graph *g, cudaGraph_t raw,
                                   struct ebb_error *err)
{
    cudaStream_t stream = d->streams[DEVICE_COMPUTE];
    size_t before = 0, after = 0, all = 0, nodes = 0;
    EBB_TRY(check(cudaGraphGetNodes(raw, NULL, &nodes), "graph", err));
    if (nodes > MOST_NODES - d->graph_nodes)
        return ebb_fail(err, EBB_ENOMEM,
                        "cuda device: a graph of %zu nodes beside %llu others: at most %llu fit "
                        "into the reserve",
                        nodes, (unsigned long long)d->graph_nodes, (unsigned long long)MOST_NODES);
    EBB_TRY(check(cudaMemGetInfo(&before, &all), "memory", err));
    EBB_TRY(check(cudaGraphInstantiate(&g->exec, raw, 0), "graph", err));
    EBB_TRY(check(cudaGraphUpload(g->exec, stream), "graph", err));
    EBB_TRY(check(cudaStreamSynchronize(stream), "graph", err));
    EBB_TRY(check(cudaMemGetInfo(&after, &all), "memory", err));
    g->nodes = nodes;
    g->bytes = before > after ? before - after : 0;
    d->graph_nodes += g->nodes;
    d->graph_bytes += g->bytes;
    if (d->graph_bytes > GRAPH_BYTES)
        return ebb_fail(err, EBB_ENOMEM,
                        "cuda device: graphs take %.2f GiB, of the reserve %.2f GiB are theirs",
                        GIB(d->graph_bytes), GIB(GRAPH_BYTES));
    return EBB_OK;
}

static void cuda_graph_free(struct device *device, struct device_graph *graph)
{
    struct cuda_device *d = self(device);
    if (!graph)
        return;
    if (graph->exec)
        (void)cudaGraphExecDestroy(graph->exec);
    d->graph_nodes -= graph->nodes;
    d->graph_bytes -= graph->bytes;
    ebb_free(graph);
}

static enum ebb_status cuda_capture_end(struct device *device, struct device_graph **graph,
                                        struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    if (!d->is_capturing)
        return ebb_fail(err, EBB_EINTERNAL, "cuda device: no capture is under way");
    enum ebb_status status = follow_all(device, DEVICE_COMPUTE, err);
    cudaGraph_t raw = NULL;
    struct device_graph *g = NULL;
    cudaError_t code = cudaStreamEndCapture(d->streams[DEVICE_COMPUTE], &raw);
    d->is_capturing = false;
    EBB_THEN(status, check(code, "capture", err));
    if (graph) {
        EBB_THEN(status, ebb_new(&g, 1, sizeof *g, err));
        EBB_THEN(status, instantiate(d, g, raw, err));
    }
    if (raw)
        (void)cudaGraphDestroy(raw);
    if (status == EBB_OK && graph)
        *graph = g;
    else
        cuda_graph_free(device, g);
    return status;
}

static enum ebb_status cuda_graph_launch(struct device *device, struct device_graph *graph,
                                         struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    if (d->is_capturing)
        return ebb_fail(err, EBB_EINTERNAL, "cuda device: a graph inside a capture");
    return check(cudaGraphLaunch(graph->exec, d->streams[DEVICE_COMPUTE]), "graph", err);
}

static uint64_t cuda_now(struct device *device, enum device_stream stream)
{
    (void)device;
    (void)stream;
    return ebb_clock_ns();
}

static uint64_t cuda_stall(struct device *device)
{
    (void)device;
    return 0; /* nobody on the host knows how long the device waited for itself */
}

/* The host's clock would see the launch and the wait as well: 20 us, more than many ops take. */
static enum ebb_status cuda_time_begin(struct device *device, struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    cudaStream_t stream = d->streams[DEVICE_COMPUTE];
    for (int k = 0; k < 2; k++)
        if (!d->timer[k])
            EBB_TRY(check(cudaEventCreate(&d->timer[k]), "timer", err));
    EBB_TRY(check((cudaError_t)cuda_hold(stream), "timer", err));
    return check(cudaEventRecord(d->timer[0], stream), "timer", err);
}

static enum ebb_status cuda_time_end(struct device *device, uint64_t *ns, struct ebb_error *err)
{
    struct cuda_device *d = self(device);
    float ms = 0;
    EBB_TRY(check(cudaEventRecord(d->timer[1], d->streams[DEVICE_COMPUTE]), "timer", err));
    EBB_TRY(check(cudaEventSynchronize(d->timer[1]), "timer", err));
    EBB_TRY(check(cudaEventElapsedTime(&ms, d->timer[0], d->timer[1]), "timer", err));
    *ns = (uint64_t)((double)ms * 1e6);
    return EBB_OK;
}

static uint64_t cuda_beside(struct device *device)
{
    size_t left = 0, all = 0;
    if (cudaMemGetInfo(&left, &all) != cudaSuccess)
        return 0;
    return (uint64_t)(all - left) - self(device)->bytes[DEVICE_T0];
}

void *cuda_stream_of(struct device *device, enum device_stream stream)
{
    return self(device)->streams[stream];
}

const struct device_table cuda_device_table = {
    .name = "cuda",
    .create = cuda_create,
    .destroy = cuda_destroy,
    .reserve = cuda_reserve,
    .address = cuda_address,
    .launch = cuda_launch,
    .copy = cuda_copy,
    .write = cuda_write,
    .read = cuda_read,
    .zero = cuda_zero,
    .host_take = cuda_host_take,
    .host_give = cuda_host_give,
    .record = cuda_record,
    .stream_wait = cuda_stream_wait,
    .event_done = cuda_event_done,
    .event_wait = cuda_event_wait,
    .sync = cuda_sync,
    .now_ns = cuda_now,
    .stall_ns = cuda_stall,
    .time_begin = cuda_time_begin,
    .time_end = cuda_time_end,
    .reserve_bytes = RESERVE_BYTES,
    .most_nodes = MOST_NODES,
    .beside_bytes = cuda_beside,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .graph_launch = cuda_graph_launch,
    .graph_free = cuda_graph_free,
};
