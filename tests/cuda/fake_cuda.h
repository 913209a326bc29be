/* fake_cuda.h - CUDA's runtime as far as src/cuda calls it, without a GPU: little is copied, but what is ordered before what is
 * known exactly. Private to tests of the plug-in's host side, which link this instead of the library.
 *
 * Every stream, and the host, has a clock of all streams: how much of each lies before whatever it does next. An item is
 * told its place in its stream; `fake_follows` says whether one is before another. The legacy stream, of calls without a
 * stream, is one more: streams that do not block know nothing of it. */
#ifndef EBB_TESTS_CUDA_FAKE_CUDA_H
#define EBB_TESTS_CUDA_FAKE_CUDA_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cuda_runtime_api.h>

#include "cuda/cuda.h"
#include "cuda/family.h"

#define FAKE_STREAMS 16 /* the first is the legacy one */

struct fake_clock {
    uint64_t of[FAKE_STREAMS];
};

struct fake_item { /* the newest that was enqueued */
    int stream;
    uint64_t number;
    struct fake_clock before;
};

struct fake_stream {
    int index;
    struct fake_clock clock;
};

struct fake_event {
    struct fake_clock clock;
    bool is_captured;
};

static struct {
    /* what a test says */
    int devices, major, minor;
    uint64_t total_bytes, free_bytes;
    uint64_t graph_nodes, graph_bytes; /* of the next capture; what its graph takes of the device */
    /* what it looks at */
    struct fake_stream streams[FAKE_STREAMS];
    struct fake_stream outside[FAKE_STREAMS]; /* while a capture is under way: it runs nothing */
    int stream_count;
    struct fake_clock host;
    bool is_capturing;
    struct fake_item last;
    int graphs;
} fake;

static void fake_begin(void)
{
    memset(&fake, 0, sizeof fake);
    fake.devices = 1;
    fake.major = 9;
    fake.total_bytes = UINT64_C(140) << 30;
    fake.free_bytes = UINT64_C(139) << 30;
    fake.stream_count = 1;
}

static inline bool fake_follows(const struct fake_item *later, const struct fake_item *earlier)
{
    return later->before.of[earlier->stream] >= earlier->number;
}

static void fake_join(struct fake_clock *to, const struct fake_clock *from)
{
    for (int k = 0; k < FAKE_STREAMS; k++)
        to->of[k] = to->of[k] > from->of[k] ? to->of[k] : from->of[k];
}

static struct fake_stream *fake_stream_of(cudaStream_t stream)
{
    return stream ? (struct fake_stream *)(void *)stream : &fake.streams[0];
}

static cudaError_t fake_enqueue(cudaStream_t stream)
{
    struct fake_stream *s = fake_stream_of(stream);
    if (!fake.is_capturing)
        fake_join(&s->clock, &fake.host);
    fake.last.before = s->clock;
    fake.last.stream = s->index;
    fake.last.number = ++s->clock.of[s->index];
    return cudaSuccess;
}

/* ---- memory ----------------------------------------------------------------------------------- */

static void *fake_map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

cudaError_t cudaMalloc(void **at, size_t bytes)
{
    if (bytes > fake.free_bytes)
        return cudaErrorMemoryAllocation;
    fake.free_bytes -= bytes;
    *at = fake_map(bytes);
    return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *at)
{
    (void)at; /* addresses alone: they go with the process */
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned flags)
{
    (void)flags;
    *at = fake_map(bytes);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *at)
{
    (void)at;
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags)
{
    (void)at, (void)bytes, (void)flags;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *at)
{
    (void)at;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    *left = fake.free_bytes;
    *all = fake.total_bytes;
    return cudaSuccess;
}

cudaError_t cudaMemset(void *at, int value, size_t bytes)
{
    (void)at, (void)value, (void)bytes;
    return fake.is_capturing ? cudaErrorStreamCaptureImplicit : fake_enqueue(NULL);
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
    (void)at, (void)value, (void)bytes;
    return fake_enqueue(stream);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    if (kind == cudaMemcpyDeviceToHost) /* the tests' kernels write numbers there */
        memcpy(to, from, bytes);
    return fake_enqueue(stream);
}

/* ---- devices ---------------------------------------------------------------------------------- */

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaErrorMemoryAllocation ? "out of memory" : "an error";
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = fake.devices;
    return fake.devices ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr name, int device)
{
    (void)device;
    *value = name == cudaDevAttrComputeCapabilityMajor ? fake.major : fake.minor;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *facts, int device)
{
    (void)device;
    memset(facts, 0, sizeof *facts);
    strcpy(facts->name, "NVIDIA Fake");
    facts->multiProcessorCount = 132;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    for (int k = 0; k < fake.stream_count; k++)
        fake_join(&fake.host, &fake.streams[k].clock);
    return cudaSuccess;
}

/* ---- streams and events ------------------------------------------------------------------------ */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    if (flags != cudaStreamNonBlocking || fake.stream_count == FAKE_STREAMS)
        return cudaErrorInvalidValue;
    struct fake_stream *s = &fake.streams[fake.stream_count];
    s->index = fake.stream_count++;
    *stream = (cudaStream_t)(void *)s;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (fake.is_capturing)
        return cudaErrorStreamCaptureUnsupported;
    fake_join(&fake.host, &fake_stream_of(stream)->clock);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(struct fake_event));
    return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct fake_event *e = (struct fake_event *)(void *)event;
    e->clock = fake_stream_of(stream)->clock;
    e->is_captured = fake.is_capturing;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    const struct fake_event *e = (const struct fake_event *)(void *)event;
    (void)flags;
    if (e->is_captured != fake.is_capturing)
        return cudaErrorStreamCaptureIsolation;
    fake_join(&fake_stream_of(stream)->clock, &e->clock);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    const struct fake_event *e = (const struct fake_event *)(void *)event;
    for (int k = 0; k < FAKE_STREAMS; k++)
        if (e->clock.of[k] > fake.host.of[k])
            return cudaErrorNotReady;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    const struct fake_event *e = (const struct fake_event *)(void *)event;
    if (fake.is_capturing || e->is_captured)
        return cudaErrorStreamCaptureUnsupported;
    fake_join(&fake.host, &e->clock);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    (void)begin, (void)end;
    *ms = 1;
    return cudaSuccess;
}

/* ---- graphs ------------------------------------------------------------------------------------ */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)stream, (void)mode;
    fake.is_capturing = true;
    memcpy(fake.outside, fake.streams, sizeof fake.outside);
    for (int k = 0; k < fake.stream_count; k++)
        memset(&fake.streams[k].clock, 0, sizeof fake.streams[k].clock);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    static int any;
    const struct fake_clock *joined = &fake_stream_of(stream)->clock;
    bool is_joined = true;
    for (int k = 1; k < fake.stream_count; k++)
        is_joined = is_joined && joined->of[k] >= fake.streams[k].clock.of[k];
    fake.is_capturing = false;
    memcpy(fake.streams, fake.outside, sizeof fake.outside);
    if (!is_joined)
        return cudaErrorStreamCaptureUnjoined;
    *graph = (cudaGraph_t)(void *)&any;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    (void)graph, (void)nodes;
    *count = fake.graph_nodes;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    (void)graph;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    static int any;
    (void)graph, (void)flags;
    if (fake.graph_bytes > fake.free_bytes)
        return cudaErrorMemoryAllocation;
    fake.free_bytes -= fake.graph_bytes;
    fake.graphs++;
    *exec = (cudaGraphExec_t)(void *)&any;
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    (void)exec;
    return fake_enqueue(stream);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    (void)exec;
    fake.graphs--;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    (void)exec;
    return fake_enqueue(stream);
}

/* ---- kernels ----------------------------------------------------------------------------------- */

int cuda_move(const void *from, void *to, size_t bytes, cuda_stream stream)
{
    (void)from, (void)to, (void)bytes;
    return (int)fake_enqueue(stream);
}

int cuda_hold(cuda_stream stream)
{
    return (int)fake_enqueue(stream);
}

#endif
