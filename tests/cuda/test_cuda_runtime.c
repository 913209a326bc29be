/* The CUDA device on a runtime that only knows what is before what (fake_cuda.h): nothing is enqueued beside what it needs, and
 * the reserve is kept. */
#include "test.h"

#include "fake_cuda.h"

#include "cuda/runtime.h"

static struct ebb_error err;
static const struct device_table *const t = &cuda_device_table;

static struct device *make(uint64_t slab)
{
    struct device *d;
    CHECK_OK(t->create(&d, NULL, &err), &err);
    CHECK_OK(t->reserve(d, DEVICE_T0, slab, &err), &err);
    return d;
}

static struct fake_item write_on(struct device *d, enum device_stream stream)
{
    static int box;
    CHECK_OK(t->write(d, stream, 0, &box, sizeof box, &err), &err);
    return fake.last;
}

static struct fake_item work_on_compute(struct device *d)
{
    CHECK_OK(t->zero(d, DEVICE_COMPUTE, 0, 4, &err), &err);
    return fake.last;
}

TEST(the_first_write__comes_after_the_slab_is_cleared)
{
    for (int stream = 0; stream < DEVICE_STREAMS; stream++) {
        fake_begin();
        struct device *d = make(1 << 20);
        struct fake_item cleared = fake.last, written = write_on(d, (enum device_stream)stream);
        CHECK(fake_follows(&written, &cleared));
        t->destroy(d);
    }
}

/* A copy, then more events than there are places, then whoever waits for the copy. */
static void wait_late(bool is_captured, int events)
{
    fake_begin();
    struct device *d = make(1 << 20);
    struct device_graph *graph = NULL;
    device_event copied, other;
    if (is_captured)
        CHECK_OK(t->capture_begin(d, &err), &err);
    struct fake_item copy = write_on(d, DEVICE_IN);
    CHECK_OK(t->record(d, DEVICE_IN, &copied, &err), &err);
    for (int i = 0; i < events; i++)
        CHECK_OK(t->record(d, DEVICE_OUT, &other, &err), &err);
    CHECK_OK(t->stream_wait(d, DEVICE_COMPUTE, copied, &err), &err);
    struct fake_item read = work_on_compute(d);
    CHECK(fake_follows(&read, &copy));
    if (is_captured) {
        CHECK_OK(t->capture_end(d, &graph, &err), &err);
        t->graph_free(d, graph);
    }
    t->destroy(d);
}

TEST(an_event_that_is_long_ago__is_still_waited_for)
{
    for (int is_captured = 0; is_captured < 2; is_captured++)
        for (int events = 1; events < 20000; events *= 7)
            wait_late(is_captured, events);
}

/* Its place may be taken by an event of the capture. */
TEST(an_event_before_a_capture__is_done_behind_it)
{
    fake_begin();
    struct device *d = make(1 << 20);
    struct device_graph *graph;
    device_event copied, other;
    struct fake_item copy = write_on(d, DEVICE_IN);
    CHECK_OK(t->record(d, DEVICE_IN, &copied, &err), &err);
    CHECK_OK(t->capture_begin(d, &err), &err);
    for (int i = 0; i < 10000; i++)
        CHECK_OK(t->record(d, DEVICE_OUT, &other, &err), &err);
    CHECK_OK(t->capture_end(d, &graph, &err), &err);
    CHECK_OK(t->stream_wait(d, DEVICE_COMPUTE, copied, &err), &err);
    struct fake_item read = work_on_compute(d);
    CHECK(fake_follows(&read, &copy));
    t->graph_free(d, graph);
    t->destroy(d);
}

TEST(another_kind_of_gpu__is_refused_by_name)
{
    static const int kinds[][2] = {{8, 0}, {8, 9}, {10, 0}, {9, 1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct device *d = NULL;
        fake_begin();
        fake.major = kinds[i][0];
        fake.minor = kinds[i][1];
        CHECK_EQ(t->create(&d, NULL, &err), EBB_EUNSUPPORTED);
        CHECK(strstr(err.message, "NVIDIA Fake") && strstr(err.message, "9.0"));
    }
}

/* ---- the reserve ------------------------------------------------------------------------------ */

TEST(a_budget_that_leaves_no_reserve__is_refused_with_numbers)
{
    struct device *d;
    fake_begin();
    fake.total_bytes = UINT64_C(80) << 30;
    fake.free_bytes = fake.total_bytes - (UINT64_C(512) << 20); /* the context */
    CHECK_OK(t->create(&d, NULL, &err), &err);
    CHECK_EQ(t->reserve(d, DEVICE_T0, fake.free_bytes - (UINT64_C(256) << 20), &err), EBB_ENOMEM);
    CHECK(strstr(err.message, "--budget") && strstr(err.message, "79.24 GiB") &&
          strstr(err.message, "80.00 GiB"));
    CHECK_EQ(t->reserve(d, DEVICE_T0, UINT64_C(200) << 30, &err), EBB_ENOMEM);
    CHECK(strstr(err.message, "--budget") && strstr(err.message, "200.00 GiB"));
    CHECK_OK(t->reserve(d, DEVICE_T0, fake.total_bytes - t->reserve_bytes, &err), &err);
    t->destroy(d);
}

static enum ebb_status capture(struct device *d, uint64_t nodes, uint64_t bytes,
                               struct device_graph **graph)
{
    fake.graph_nodes = nodes;
    fake.graph_bytes = bytes;
    CHECK_OK(t->capture_begin(d, &err), &err);
    return t->capture_end(d, graph, &err);
}

TEST(graphs_together__stay_within_the_reserve)
{
    fake_begin();
    struct device *d = make(1 << 20);
    struct device_graph *first, *second = NULL;
    uint64_t most = t->most_nodes;
    CHECK(most > 200000 && most * 2355 < t->reserve_bytes);
    CHECK_EQ(capture(d, most + 1, 1, &second), EBB_ENOMEM);
    CHECK_OK(capture(d, most * 6 / 10, 1, &first), &err);
    CHECK_EQ(capture(d, most * 6 / 10, 1, &second), EBB_ENOMEM);
    CHECK_EQ(fake.graphs, 1);
    CHECK(strstr(err.message, "nodes"));
    t->graph_free(d, first); /* makes room */
    CHECK_OK(capture(d, most * 6 / 10, 1, &second), &err);
    t->graph_free(d, second);
    CHECK_EQ(fake.graphs, 0);
    t->destroy(d);
}

/* Nodes of libraries may be larger than was measured. */
TEST(graphs_of_few_large_nodes__stay_within_the_reserve_as_well)
{
    fake_begin();
    struct device *d = make(1 << 20);
    struct device_graph *first, *second = NULL;
    CHECK_OK(capture(d, 1000, UINT64_C(400) << 20, &first), &err);
    CHECK_EQ(capture(d, 1000, UINT64_C(400) << 20, &second), EBB_ENOMEM);
    CHECK_EQ(fake.graphs, 1);
    t->graph_free(d, first);
    t->destroy(d);
}

TEST(a_graph_that_the_driver_has_no_room_for__is_told_as_that)
{
    fake_begin();
    struct device *d = make(1 << 20);
    struct device_graph *graph = NULL;
    CHECK_EQ(capture(d, 10, fake.free_bytes + 1, &graph), EBB_ENOMEM);
    CHECK_OK(capture(d, 10, 1, &graph), &err); /* nothing is left under way */
    t->graph_free(d, graph);
    t->destroy(d);
}

TEST_MAIN()
