/* check_device.cu - does the CUDA device keep the contract of device.h? Streams, events, tiers, moves, graphs; and what pinned copies and
 * graphs with copies cost. Needs a GPU. Built and run by bench/gpu/check_device. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cuda_runtime.h>

#include "../../src/cuda/runtime.h"

static struct ebb_error err;
static int failures;
static const struct device_table *const t = &cuda_device_table;

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != EBB_OK) {                                                                    \
            printf("FAIL %s:%d: %s: %s\n", __FILE__, __LINE__, #call, err.message);               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #x);                                   \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

__global__ void add_kernel(int *at, int n, int times)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        for (int k = 0; k < times; k++)
            atomicAdd(&at[i], 1);
}

struct sum {
    struct device *device;
    void *at;
    int count, times;
};

static enum ebb_status add(void *argument, struct ebb_error *e)
{
    const struct sum *s = (const struct sum *)argument;
    (void)e;
    add_kernel<<<264, 256, 0, (cudaStream_t)cuda_stream_of(s->device, DEVICE_COMPUTE)>>>((int *)s->at, s->count, s->times);
    return cudaGetLastError() == cudaSuccess ? EBB_OK : EBB_EDEVICE;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static struct device *make(uint64_t slab, uint64_t host)
{
    struct device *d;
    OK(t->create(&d, NULL, &err));
    OK(t->reserve(d, DEVICE_T0, slab, &err));
    if (host)
        OK(t->reserve(d, DEVICE_HOST, host, &err));
    return d;
}

/* In on one stream, work on another, out by way of the host tier on a third. */
static void round_trip(void)
{
    enum { N = 1 << 22 };
    struct device *d = make(64u << 20, 64u << 20);
    int *in = (int *)t->host_take(d, N * sizeof *in), *out = (int *)t->host_take(d, N * sizeof *out);
    struct sum s = {d, t->address(d, 512), N, 3};
    device_event written, worked, sent;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < N; i += 1)
            in[i] = i + round;
        memset(out, 0, N * sizeof *out);
        OK(t->write(d, DEVICE_IN, 512, in, N * sizeof *in, &err));
        OK(t->record(d, DEVICE_IN, &written, &err));
        OK(t->stream_wait(d, DEVICE_COMPUTE, written, &err));
        OK(t->launch(d, add, &s, 0, &err));
        OK(t->record(d, DEVICE_COMPUTE, &worked, &err));
        OK(t->stream_wait(d, DEVICE_OUT, worked, &err));
        OK(t->copy(d, DEVICE_OUT, DEVICE_HOST, 256, DEVICE_T0, 512, N * sizeof *in, &err));
        OK(t->record(d, DEVICE_OUT, &sent, &err));
        OK(t->stream_wait(d, DEVICE_IN, sent, &err));
        OK(t->copy(d, DEVICE_IN, DEVICE_T0, 32u << 20, DEVICE_HOST, 256, N * sizeof *in, &err));
        OK(t->read(d, DEVICE_IN, out, 32u << 20, N * sizeof *out, &err));
        OK(t->sync(d, &err));
        CHECK(t->event_done(d, written) && t->event_done(d, worked) && t->event_done(d, sent));
        bool same = true;
        for (int i = 0; i < N; i++)
            same = same && out[i] == i + round + 3;
        CHECK(same);
    }
    t->host_give(d, in);
    t->host_give(d, out);
    t->destroy(d);
}

static void moves(void)
{
    const uint64_t bytes = 24u << 20;
    struct device *d = make(64u << 20, 0);
    unsigned char *box = (unsigned char *)t->host_take(d, bytes), *back = (unsigned char *)t->host_take(d, bytes);
    const uint64_t distances[] = {256, 4096, 1 << 20, 5 << 20, 30 << 20};
    const uint64_t sizes[] = {16, 100, 4096, 19201, 131072, 131073, bytes}; /* a kernel's, and larger */
    for (uint64_t i = 0; i < bytes; i++)
        box[i] = (unsigned char)(i * 2654435761u >> 11);
    for (int k = 0; k < 70; k++) {
        uint64_t a = 1024, b = 1024 + distances[k % 5], from = k % 10 < 5 ? a : b, to = k % 10 < 5 ? b : a, n = sizes[k / 10];
        OK(t->write(d, DEVICE_COMPUTE, from, box, n, &err));
        OK(t->copy(d, DEVICE_COMPUTE, DEVICE_T0, to, DEVICE_T0, from, n, &err));
        OK(t->read(d, DEVICE_COMPUTE, back, to, n, &err));
        OK(t->sync(d, &err));
        CHECK(memcmp(box, back, n) == 0);
    }
    t->host_give(d, box);
    t->host_give(d, back);
    t->destroy(d);
}

/* Many events, more than the ring holds; and graphs whose copies run on forked streams. */
static void graphs(void)
{
    struct device *d = make(1u << 30, 1u << 30);
    int *box = (int *)t->host_take(d, 4096), *result = (int *)t->host_take(d, 4096);
    struct sum small = {d, t->address(d, 0), 1024, 1}, large = {d, t->address(d, 512u << 20), 1 << 22, 400};
    struct device_graph *graph;
    device_event written, worked, begun;
    for (int i = 0; i < 10000; i++) {
        OK(t->launch(d, add, &small, 0, &err));
        OK(t->record(d, DEVICE_COMPUTE, &worked, &err));
        OK(t->stream_wait(d, i % 2 ? DEVICE_OUT : DEVICE_IN, worked, &err));
    }
    OK(t->sync(d, &err));
    for (int with_copies = 0; with_copies < 2; with_copies++) {
        OK(t->capture_begin(d, &err));
        CHECK(t->sync(d, &err) != EBB_OK);
        OK(t->write(d, DEVICE_IN, 0, box, 4096, &err));
        OK(t->record(d, DEVICE_IN, &written, &err));
        OK(t->stream_wait(d, DEVICE_COMPUTE, written, &err));
        OK(t->record(d, DEVICE_COMPUTE, &begun, &err));
        for (int i = 0; i < 8; i++)
            OK(t->launch(d, add, &large, 0, &err));
        for (int i = 0; with_copies && i < 2; i++) { /* 256 MiB each way beside the kernels */
            enum device_stream stream = i ? DEVICE_IN : DEVICE_OUT;
            OK(t->stream_wait(d, stream, begun, &err));
            if (i)
                OK(t->copy(d, stream, DEVICE_T0, 1 << 20, DEVICE_HOST, 300u << 20, 256u << 20, &err));
            else
                OK(t->copy(d, stream, DEVICE_HOST, 0, DEVICE_T0, 700u << 20, 256u << 20, &err));
        }
        OK(t->launch(d, add, &small, 0, &err));
        OK(t->read(d, DEVICE_COMPUTE, result, 0, 4096, &err));
        OK(t->capture_end(d, &graph, &err));
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < 1024; k++)
                box[k] = i * 1000 + k;
            OK(t->graph_launch(d, graph, &err));
            OK(t->sync(d, &err));
            CHECK(result[0] == i * 1000 + 1 && result[1023] == i * 1000 + 1024);
        }
        double begin = now_ms();
        for (int i = 0; i < 10; i++)
            OK(t->graph_launch(d, graph, &err));
        OK(t->sync(d, &err));
        printf("graph of 9 kernels%s: %.3f ms\n", with_copies ? " with 256 MiB each way beside them" : "", (now_ms() - begin) / 10);
        t->graph_free(d, graph);
    }
    t->destroy(d);
}

/* What is written right behind the reservation stays: nothing clears the slab later. Host memory is taken before, so that
 * nothing waits for the device by accident. */
static void clears(void)
{
    const uint64_t slab = UINT64_C(100) << 30, bytes = 1u << 20;
    for (int stream = 0; stream < 3; stream++) {
        struct device *d;
        OK(t->create(&d, NULL, &err));
        unsigned char *box = (unsigned char *)t->host_take(d, bytes), *back = (unsigned char *)t->host_take(d, bytes);
        for (uint64_t i = 0; i < bytes; i++)
            box[i] = (unsigned char)(i % 251 + 1);
        OK(t->reserve(d, DEVICE_T0, slab, &err));
        OK(t->write(d, (enum device_stream)stream, slab - bytes, box, bytes, &err));
        OK(t->sync(d, &err));
        cudaDeviceSynchronize();
        OK(t->read(d, DEVICE_COMPUTE, back, slab - bytes, bytes, &err));
        OK(t->sync(d, &err));
        CHECK(memcmp(box, back, bytes) == 0);
        OK(t->read(d, DEVICE_COMPUTE, back, slab / 2, bytes, &err));
        OK(t->sync(d, &err));
        memset(box, 0, bytes);
        CHECK(memcmp(box, back, bytes) == 0); /* zeros elsewhere */
        t->host_give(d, box);
        t->host_give(d, back);
        t->destroy(d);
    }
}

/* In a capture: a slow copy in, more events than there are places, then the kernel that waits for the copy. */
static void long_ago(void)
{
    const uint64_t bytes = 512u << 20;
    struct device *d = make(1u << 30, bytes);
    int *result = (int *)t->host_take(d, 4096), *box = (int *)t->host_take(d, 4096);
    struct sum last = {d, t->address(d, bytes - 4096), 1024, 1};
    struct device_graph *graph;
    device_event copied, other;
    for (int i = 0; i < 1024; i++)
        box[i] = i;
    OK(t->write(d, DEVICE_OUT, 0, box, 4096, &err)); /* what the host tier holds at its end */
    OK(t->copy(d, DEVICE_OUT, DEVICE_HOST, bytes - 4096, DEVICE_T0, 0, 4096, &err));
    OK(t->sync(d, &err));
    OK(t->capture_begin(d, &err));
    OK(t->copy(d, DEVICE_IN, DEVICE_T0, 0, DEVICE_HOST, 0, bytes, &err));
    OK(t->record(d, DEVICE_IN, &copied, &err));
    for (int i = 0; i < 5000; i++)
        OK(t->record(d, DEVICE_OUT, &other, &err));
    OK(t->stream_wait(d, DEVICE_COMPUTE, copied, &err));
    OK(t->launch(d, add, &last, 0, &err));
    OK(t->read(d, DEVICE_COMPUTE, result, bytes - 4096, 4096, &err));
    OK(t->capture_end(d, &graph, &err));
    for (int i = 0; i < 3; i++) {
        OK(t->zero(d, DEVICE_COMPUTE, bytes - 4096, 4096, &err));
        OK(t->sync(d, &err));
        OK(t->graph_launch(d, graph, &err));
        OK(t->sync(d, &err));
        CHECK(result[0] == 1 && result[1023] == 1024);
    }
    t->graph_free(d, graph);
    t->host_give(d, result);
    t->host_give(d, box);
    t->destroy(d);
}

/* The slab leaves room for the reserve, and graphs stay inside it. */
static void reserve(void)
{
    size_t left, all;
    struct device *d;
    OK(t->create(&d, NULL, &err));
    cudaMemGetInfo(&left, &all);
    CHECK(t->reserve(d, DEVICE_T0, left - (UINT64_C(256) << 20), &err) == EBB_ENOMEM);
    printf("refused: %s\n", err.message);
    OK(t->reserve(d, DEVICE_T0, 1u << 30, &err));
    struct sum small = {d, t->address(d, 0), 1024, 1};
    struct device_graph *graphs[2];
    OK(t->launch(d, add, &small, 0, &err));
    OK(t->sync(d, &err));
    uint64_t before = t->beside_bytes(d);
    for (int k = 0; k < 2; k++) {
        int nodes = (int)(t->most_nodes * 6 / 10);
        OK(t->capture_begin(d, &err));
        for (int i = 0; i < nodes; i++)
            OK(t->launch(d, add, &small, 0, &err));
        enum ebb_status status = t->capture_end(d, &graphs[k], &err);
        CHECK(status == (k ? EBB_ENOMEM : EBB_OK)); /* two do not fit */
        printf("graph of %d kernels: %s, %.0f MiB more beside the slab\n", nodes, k ? err.message : "made",
               (double)(t->beside_bytes(d) - before) / (1 << 20));
        CHECK(t->beside_bytes(d) <= t->reserve_bytes);
    }
    OK(t->graph_launch(d, graphs[0], &err));
    OK(t->sync(d, &err));
    CHECK(t->beside_bytes(d) <= t->reserve_bytes);
    printf("beside the slab after its launch: %.0f MiB\n", (double)t->beside_bytes(d) / (1 << 20));
    t->graph_free(d, graphs[0]);
    t->destroy(d);
}

static void rates(void)
{
    double begin = now_ms();
    struct device *d = make(1u << 30, UINT64_C(5) << 30);
    printf("1 GiB of device, 5 GiB pinned in pieces: %.0f ms\n", now_ms() - begin);
    for (int both = 0; both < 3; both++) {
        OK(t->sync(d, &err));
        begin = now_ms();
        for (int i = 0; i < 16; i++) {
            if (both != 1)
                OK(t->copy(d, DEVICE_OUT, DEVICE_HOST, UINT64_C(256) << 20, DEVICE_T0, 0, 512u << 20, &err));
            if (both != 0)
                OK(t->copy(d, DEVICE_IN, DEVICE_T0, 512u << 20, DEVICE_HOST, UINT64_C(3) << 30, 512u << 20, &err));
        }
        OK(t->sync(d, &err));
        double ms = now_ms() - begin;
        printf("%s: %.1f GB/s each\n", both == 0 ? "out" : both == 1 ? "in" : "both at once", 16 * 512.0 * (1 << 20) / ms / 1e6);
    }
    size_t free_bytes, total;
    cudaMemGetInfo(&free_bytes, &total);
    printf("taken of the device beyond the slab: %.0f MiB\n", ((double)(total - free_bytes) - (double)(1u << 30)) / (1 << 20));
    CHECK(t->copy(d, DEVICE_OUT, DEVICE_HOST, UINT64_C(5) << 30, DEVICE_T0, 0, 256, &err) == EBB_EDEVICE);
    CHECK(t->reserve(d, DEVICE_FILE, 4096, &err) == EBB_EUNSUPPORTED);
    t->destroy(d);
}

int main(void)
{
    round_trip();
    moves();
    graphs();
    clears();
    long_ago();
    reserve();
    rates();
    printf(failures ? "%d failures\n" : "device contract kept\n", failures);
    return failures != 0;
}
