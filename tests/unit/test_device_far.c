/* Memory that the host cannot read: touching it faults, kernels reach it by their shift, streams are
 * ordered by events alone, and what was captured runs again and again. */
#include "test.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "device/device.h"

#define SLAB (1u << 20)

static const struct device_table *const far = &device_far;
static struct ebb_error err;

static struct device *make(const struct device_config *config)
{
    struct device *d;
    CHECK_OK(far->create(&d, config, &err), &err);
    CHECK_OK(far->reserve(d, DEVICE_T0, SLAB, &err), &err);
    CHECK_OK(far->reserve(d, DEVICE_HOST, SLAB, &err), &err);
    return d;
}

struct sum { /* to[i] = a[i] + 1, slowly enough that a missing event shows */
    struct device *device;
    void *at;
    int count;
    bool is_slow;
};

static enum ebb_status add_one(void *argument, struct ebb_error *e)
{
    const struct sum *s = argument;
    int *at = (int *)(void *)((unsigned char *)s->at + device_far_shift(s->device));
    (void)e;
    if (s->is_slow)
        usleep(2000);
    for (int i = 0; i < s->count; i++)
        at[i]++;
    return EBB_OK;
}

static enum ebb_status fail_it(void *argument, struct ebb_error *e)
{
    (void)argument;
    return ebb_fail(e, EBB_EDEVICE, "on purpose");
}

TEST(host__faults_at_an_address)
{
    struct device *d = make(NULL);
    CHECK(!far->is_host_visible);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile unsigned char *)far->address(d, 4096));
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    far->destroy(d);
}

TEST(bytes__go_in_are_worked_on_and_come_out)
{
    struct device *d = make(NULL);
    enum { N = 1000 };
    int *in = far->host_take(d, N * sizeof *in), *out = far->host_take(d, N * sizeof *out);
    for (int i = 0; i < N; i++)
        in[i] = i;
    struct sum s = {d, far->address(d, 512), N, true};
    device_event written, worked;
    CHECK_OK(far->write(d, DEVICE_IN, 512, in, N * sizeof *in, &err), &err);
    CHECK_OK(far->record(d, DEVICE_IN, &written, &err), &err);
    CHECK_OK(far->stream_wait(d, DEVICE_COMPUTE, written, &err), &err);
    CHECK_OK(far->launch(d, add_one, &s, 0, &err), &err);
    CHECK_OK(far->record(d, DEVICE_COMPUTE, &worked, &err), &err);
    CHECK(!far->event_done(d, worked));
    CHECK_OK(far->stream_wait(d, DEVICE_OUT, worked, &err), &err);
    CHECK_OK(far->copy(d, DEVICE_OUT, DEVICE_HOST, 256, DEVICE_T0, 512, N * sizeof *in, &err),
             &err);
    CHECK_OK(far->copy(d, DEVICE_OUT, DEVICE_T0, 65536, DEVICE_HOST, 256, N * sizeof *in, &err),
             &err);
    CHECK_OK(far->read(d, DEVICE_OUT, out, 65536, N * sizeof *out, &err), &err);
    CHECK_OK(far->sync(d, &err), &err);
    CHECK(far->event_done(d, worked));
    for (int i = 0; i < N; i++)
        CHECK_EQ(out[i], i + 1);
    far->host_give(d, in);
    far->host_give(d, out);
    far->destroy(d);
}

/* In, one op, out on three streams, five times over one place: the events inside the graph order
 * the launches among themselves as well. */
TEST(captures__run_again_with_what_the_host_wrote)
{
    struct device *d = make(NULL);
    struct device_graph *graph;
    device_event written, worked, taken;
    int *box = far->host_take(d, sizeof *box), *result = far->host_take(d, sizeof *result);
    struct sum s = {d, far->address(d, 0), 1, true};
    *box = 7;
    *result = 0;
    CHECK_OK(far->capture_begin(d, &err), &err);
    CHECK_OK(far->write(d, DEVICE_IN, 0, box, sizeof *box, &err), &err);
    CHECK_OK(far->record(d, DEVICE_IN, &written, &err), &err);
    CHECK_OK(far->stream_wait(d, DEVICE_COMPUTE, written, &err), &err);
    CHECK_OK(far->launch(d, add_one, &s, 0, &err), &err);
    CHECK_OK(far->record(d, DEVICE_COMPUTE, &worked, &err), &err);
    CHECK_OK(far->stream_wait(d, DEVICE_OUT, worked, &err), &err);
    CHECK_OK(far->read(d, DEVICE_OUT, result, 0, sizeof *result, &err), &err);
    CHECK_OK(far->record(d, DEVICE_OUT, &taken, &err), &err);
    CHECK_OK(far->stream_wait(d, DEVICE_IN, taken, &err), &err);
    CHECK_OK(far->capture_end(d, &graph, &err), &err);
    CHECK_OK(far->sync(d, &err), &err);
    CHECK_EQ(*result, 0); /* nothing ran yet */
    for (int i = 0; i < 5; i++) {
        *box = i;
        CHECK_OK(far->graph_launch(d, graph, &err), &err);
        CHECK_OK(far->sync(d, &err), &err);
        CHECK_EQ(*result, i + 1);
    }
    for (int i = 0; i < 200; i++) /* more than a queue holds, nobody waiting */
        CHECK_OK(far->graph_launch(d, graph, &err), &err);
    CHECK_OK(far->sync(d, &err), &err);
    CHECK_EQ(*result, 5);
    far->graph_free(d, graph);
    far->host_give(d, box);
    far->host_give(d, result);
    far->destroy(d);
}

TEST(mistakes__are_refused_and_failures_told)
{
    struct device *d = make(NULL);
    struct device_graph *graph = NULL;
    struct sum s = {d, far->address(d, 0), 1, true};
    device_event before;
    CHECK_EQ(far->capture_end(d, &graph, &err), EBB_EINTERNAL);
    CHECK_OK(far->launch(d, add_one, &s, 0, &err), &err);
    CHECK_OK(far->record(d, DEVICE_COMPUTE, &before, &err), &err);
    CHECK_OK(far->capture_begin(d, &err), &err);
    CHECK_EQ(far->capture_begin(d, &err), EBB_EINTERNAL);
    CHECK_EQ(far->stream_wait(d, DEVICE_OUT, before, &err), EBB_EINTERNAL);
    CHECK_EQ(far->sync(d, &err), EBB_EINTERNAL);
    CHECK_EQ(far->event_wait(d, before, &err), EBB_EINTERNAL);
    CHECK_OK(far->capture_end(d, NULL, &err), &err);
    CHECK_OK(far->event_wait(d, before, &err), &err);
    CHECK_EQ(far->write(d, DEVICE_IN, SLAB - 2, &s, 4, &err), EBB_EDEVICE);
    CHECK_EQ(far->copy(d, DEVICE_OUT, DEVICE_FILE, 0, DEVICE_T0, 0, 4, &err), EBB_EDEVICE);
    CHECK_EQ(far->reserve(d, DEVICE_T0, 4096, &err), EBB_EINTERNAL);
    CHECK_OK(far->launch(d, fail_it, NULL, 0, &err), &err); /* the answer comes later */
    CHECK_EQ(far->sync(d, &err), EBB_EDEVICE);
    CHECK(strstr(err.message, "on purpose") != NULL);
    far->destroy(d);
}

/* A throttled link takes its time, on cpu as on far, and the compute stream's wait is a stall. */
TEST(links__are_no_faster_than_they_say)
{
    struct device_config slow = {.is_throttled[DEVICE_HOST] = true};
    slow.out[DEVICE_HOST] = (struct device_link){.latency_ns = 1000000, .bytes_per_ns = 0.1};
    uint64_t stalled = 0;
    for (int k = 0, tries = 0; k < 2;
         k += stalled >= 5000000) { /* a busy machine lets threads wait late */
        const struct device_table *t = k ? &device_far : &device_cpu;
        struct device *d;
        device_event sent;
        CHECK(tries++ < 100);
        CHECK_OK(t->create(&d, &slow, &err), &err);
        CHECK_OK(t->reserve(d, DEVICE_T0, SLAB, &err), &err);
        CHECK_OK(t->reserve(d, DEVICE_HOST, SLAB, &err), &err);
        uint64_t begin = ebb_clock_ns();
        CHECK_OK(t->copy(d, DEVICE_OUT, DEVICE_HOST, 0, DEVICE_T0, 0, 500000, &err), &err);
        CHECK_OK(t->record(d, DEVICE_OUT, &sent, &err), &err);
        CHECK_OK(t->stream_wait(d, DEVICE_COMPUTE, sent, &err), &err);
        CHECK_OK(t->sync(d, &err), &err);
        CHECK(ebb_clock_ns() - begin >= 6000000); /* 1 ms + 500,000 bytes / 0.1 */
        stalled = t->stall_ns(d);
        t->destroy(d);
    }
}

/* Sleeping too long does not add up: the link sets out with the next copy as soon as it is free. */
TEST(links__are_no_slower_over_many_small_copies)
{
    enum { COPIES = 200, NS = 40000 };
    struct device_config slow = {.is_throttled[DEVICE_HOST] = true};
    slow.out[DEVICE_HOST] = (struct device_link){.bytes_per_ns = 0.1};
    uint64_t least = UINT64_MAX;
    struct device *d;
    CHECK_OK(device_cpu.create(&d, &slow, &err), &err);
    CHECK_OK(device_cpu.reserve(d, DEVICE_T0, SLAB, &err), &err);
    CHECK_OK(device_cpu.reserve(d, DEVICE_HOST, SLAB, &err), &err);
    for (int tries = 0; tries < 2000 && least > COPIES * NS * 3 / 2; tries++) {
        uint64_t begin = ebb_clock_ns();
        for (int i = 0; i < COPIES; i++)
            CHECK_OK(device_cpu.copy(d, DEVICE_OUT, DEVICE_HOST, 0, DEVICE_T0, 0, NS / 10, &err),
                     &err);
        CHECK_OK(device_cpu.sync(d, &err), &err);
        uint64_t ns = ebb_clock_ns() - begin;
        least = ns < least ? ns : least;
        CHECK(ns >= COPIES * NS);
    }
    CHECK(least <= COPIES * NS * 3 / 2); /* a busy machine lets threads wait: the best of many */
    device_cpu.destroy(d);
}

TEST(allocations__that_fail_are_told)
{
    uint64_t live = ebb_heap_live();
    for (uint64_t n = 1;; n++) {
        struct device *d = NULL;
        struct device_graph *graph = NULL;
        struct sum s = {0};
        ebb_heap_fail_at(n);
        enum ebb_status status = far->create(&d, NULL, &err);
        if (status == EBB_OK)
            status = far->capture_begin(d, &err);
        if (status == EBB_OK)
            status = far->launch(d, add_one, &s, 0, &err);
        if (status == EBB_OK)
            status = far->capture_end(d, &graph, &err);
        ebb_heap_fail_at(0);
        if (d) {
            far->graph_free(d, graph);
            far->destroy(d);
        }
        CHECK_EQ(ebb_heap_live(), live);
        if (status == EBB_OK)
            break;
        CHECK_EQ(status, EBB_ENOMEM);
    }
}

TEST_MAIN()
