/* The null device: clocks, links, events, overlap, stalls. Every number can be checked by hand. */
#include "test.h"

#include "base/heap.h"
#include "device/device.h"

static const struct device_config links = {
    .out = {[DEVICE_HOST] = {.latency_ns = 10, .bytes_per_ns = 2},
            [DEVICE_FILE] = {.latency_ns = 100, .bytes_per_ns = 0.5}},
    .in = {[DEVICE_T0] = {.latency_ns = 1, .bytes_per_ns = 100},
           [DEVICE_HOST] = {.latency_ns = 20, .bytes_per_ns = 4},
           [DEVICE_FILE] = {.latency_ns = 200, .bytes_per_ns = 1}},
};

static struct device *d;
static struct ebb_error err;

static int open_device(void **state)
{
    (void)state;
    if (device_null.create(&d, &links, &err) != EBB_OK)
        return -1;
    for (int k = 0; k < DEVICE_TIERS; k++)
        if (device_null.reserve(d, (enum device_tier)k, 1000, &err) != EBB_OK)
            return -1;
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    device_null.destroy(d);
    return 0;
}

static uint64_t now(enum device_stream stream)
{
    return device_null.now_ns(d, stream);
}

static void copy(enum device_stream stream, enum device_tier to, enum device_tier from,
                 uint64_t bytes)
{
    CHECK_OK(device_null.copy(d, stream, to, 0, from, 0, bytes, &err), &err);
}

static void launch(uint64_t ns)
{
    CHECK_OK(device_null.launch(d, NULL, NULL, ns, &err), &err);
}

static device_event record(enum device_stream stream)
{
    device_event event = 0;
    CHECK_OK(device_null.record(d, stream, &event, &err), &err);
    CHECK(event != 0);
    return event;
}

TEST(table__has_the_null_device)
{
    CHECK(device_tables[0] == &device_null && device_tables[1] == &device_cpu &&
          device_tables[2] == &device_far && device_tables[3] == NULL);
    CHECK_STR(device_null.name, "null");
    CHECK(device_null.address(d, 0) == NULL);
}

TEST(copies__take_latency_and_bytes_over_bandwidth)
{
    copy(DEVICE_OUT, DEVICE_HOST, DEVICE_T0, 500);
    CHECK_EQ(now(DEVICE_OUT), 10 + 250);
    copy(DEVICE_OUT, DEVICE_FILE, DEVICE_T0, 500);
    CHECK_EQ(now(DEVICE_OUT), 260 + 100 + 1000);
    copy(DEVICE_IN, DEVICE_T0, DEVICE_HOST, 500);
    CHECK_EQ(now(DEVICE_IN), 20 + 125);
    copy(DEVICE_IN, DEVICE_T0, DEVICE_FILE, 500);
    CHECK_EQ(now(DEVICE_IN), 145 + 200 + 500);
    CHECK_EQ(now(DEVICE_COMPUTE), 0);
}

TEST(copies__of_an_endless_link_end)
{
    CHECK_EQ(device_copy_ns(&(struct device_link){10, 1e-300}, 500), DEVICE_MOST_COPY_NS);
    CHECK_EQ(device_copy_ns(&(struct device_link){UINT64_MAX, 1}, 500), DEVICE_MOST_COPY_NS);
    CHECK_EQ(device_copy_ns(&(struct device_link){10, 0.5}, UINT64_MAX), DEVICE_MOST_COPY_NS);
    CHECK_EQ(device_copy_ns(&(struct device_link){10, 0.5}, 500), 1010);
}

TEST(moves__inside_tier_0_use_their_own_link)
{
    copy(DEVICE_COMPUTE, DEVICE_T0, DEVICE_T0, 500);
    CHECK_EQ(now(DEVICE_COMPUTE), 1 + 5);
}

TEST(links__without_bandwidth_cost_their_latency)
{
    struct device *fast = NULL;
    struct device_config config = {.out[DEVICE_HOST] = {.latency_ns = 7}};
    CHECK_OK(device_null.create(&fast, &config, &err), &err);
    CHECK_OK(device_null.reserve(fast, DEVICE_T0, 64, &err), &err);
    CHECK_OK(device_null.reserve(fast, DEVICE_HOST, 64, &err), &err);
    CHECK_OK(device_null.copy(fast, DEVICE_OUT, DEVICE_HOST, 0, DEVICE_T0, 0, 64, &err), &err);
    CHECK_OK(device_null.copy(fast, DEVICE_IN, DEVICE_T0, 0, DEVICE_HOST, 0, 64, &err), &err);
    CHECK_EQ(device_null.now_ns(fast, DEVICE_OUT), 7);
    CHECK_EQ(device_null.now_ns(fast, DEVICE_IN), 0);
    device_null.destroy(fast);
    CHECK_OK(device_null.create(&fast, NULL, &err), &err); /* no links at all */
    device_null.destroy(fast);
    device_null.destroy(NULL);
}

TEST(streams__overlap_until_an_event_orders_them)
{
    launch(300);
    device_event made = record(DEVICE_COMPUTE);
    CHECK(device_null.event_done(d, made));
    CHECK_OK(device_null.stream_wait(d, DEVICE_OUT, made, &err), &err);
    CHECK_EQ(now(DEVICE_OUT), 300);
    copy(DEVICE_OUT, DEVICE_HOST, DEVICE_T0, 200); /* 300 .. 410 */
    device_event gone = record(DEVICE_OUT);
    launch(50); /* meanwhile: 300 .. 350 */
    CHECK_EQ(now(DEVICE_COMPUTE), 350);
    CHECK(!device_null.event_done(d, gone));
    CHECK_EQ(device_null.stall_ns(d), 0);
    CHECK_OK(device_null.stream_wait(d, DEVICE_COMPUTE, gone, &err), &err);
    CHECK_EQ(now(DEVICE_COMPUTE), 410);
    CHECK_EQ(device_null.stall_ns(d), 60);
    CHECK(device_null.event_done(d, gone));
    CHECK_OK(device_null.event_wait(d, gone, &err), &err); /* over: costs nothing */
    CHECK_EQ(device_null.stall_ns(d), 60);
}

TEST(events__keep_their_moment)
{
    launch(10);
    device_event first = record(DEVICE_COMPUTE);
    launch(10);
    device_event second = record(DEVICE_COMPUTE);
    CHECK(first != second);
    CHECK_OK(device_null.stream_wait(d, DEVICE_IN, first, &err), &err);
    CHECK_EQ(now(DEVICE_IN), 10);
    CHECK_OK(device_null.stream_wait(d, DEVICE_IN, 0, &err), &err); /* 0: always done */
    CHECK_EQ(now(DEVICE_IN), 10);
    CHECK(device_null.event_done(d, 0));
    CHECK_EQ(device_null.stall_ns(d), 0); /* copy streams wait for free */
}

TEST(sync__brings_all_streams_to_the_latest)
{
    launch(5);
    copy(DEVICE_IN, DEVICE_T0, DEVICE_HOST, 400);
    CHECK_OK(device_null.sync(d, &err), &err);
    for (int s = 0; s < DEVICE_STREAMS; s++)
        CHECK_EQ(now((enum device_stream)s), 120);
}

/* However long a run is, with or without a sync: it takes no memory, and old events stay done. */
TEST(events__take_no_memory)
{
    device_event first, event = 0;
    copy(DEVICE_IN, DEVICE_T0, DEVICE_HOST, 400);
    ebb_heap_fail_at(1);
    CHECK_OK(device_null.record(d, DEVICE_IN, &first, &err), &err);
    CHECK(!device_null.event_done(d, first));
    for (int k = 0; k < 10000; k++) {
        launch(5);
        CHECK_OK(device_null.record(d, DEVICE_COMPUTE, &event, &err), &err);
        CHECK(device_null.event_done(d, event));
    }
    CHECK(device_null.event_done(d, first));
    CHECK_OK(device_null.stream_wait(d, DEVICE_OUT, first, &err), &err);
    CHECK_EQ(now(DEVICE_OUT), 120); /* an old one keeps its moment */
    CHECK_OK(device_null.sync(d, &err), &err);
    ebb_heap_fail_at(0);
    CHECK(device_null.event_done(d, first) && device_null.event_done(d, event));
    CHECK_OK(device_null.stream_wait(d, DEVICE_COMPUTE, first, &err), &err);
    CHECK_EQ(now(DEVICE_COMPUTE), 5 * 10000);
    CHECK_EQ(device_null.stall_ns(d), 0);
}

TEST(slabs__are_taken_once_and_not_left)
{
    CHECK_EQ(device_null.reserve(d, DEVICE_HOST, 5, &err), EBB_EINTERNAL);
    CHECK_EQ(device_null.copy(d, DEVICE_OUT, DEVICE_HOST, 600, DEVICE_T0, 0, 500, &err),
             EBB_EDEVICE);
    CHECK_EQ(device_null.copy(d, DEVICE_OUT, DEVICE_HOST, 0, DEVICE_T0, 501, 500, &err),
             EBB_EDEVICE);
    CHECK(strstr(err.message, "501") != NULL);
    CHECK_EQ(device_null.copy(d, DEVICE_OUT, DEVICE_HOST, 8, DEVICE_T0, UINT64_MAX - 3, 8, &err),
             EBB_EDEVICE);
    CHECK_EQ(now(DEVICE_OUT), 0);
}

/* A device of the links above whose two directions to the host together carry `both`. */
static void share(double both)
{
    struct device_config shared = links;
    shared.both[DEVICE_HOST] = both;
    device_null.destroy(d);
    CHECK_OK(device_null.create(&d, &shared, &err), &err);
    for (int k = 0; k < DEVICE_TIERS; k++)
        CHECK_OK(device_null.reserve(d, (enum device_tier)k, 1000, &err), &err);
}

TEST(directions__who_comes_later_gets_what_is_left)
{
    share(4.5);
    copy(DEVICE_OUT, DEVICE_HOST, DEVICE_T0, 400);
    CHECK_EQ(now(DEVICE_OUT), 210); /* nobody was there before it */
    copy(DEVICE_IN, DEVICE_T0, DEVICE_HOST, 500);
    CHECK_EQ(now(DEVICE_IN), 216); /* 190 ns at 2.5, then 25 bytes at 4 */
    copy(DEVICE_FILE_IN, DEVICE_T0, DEVICE_FILE, 500);
    CHECK_EQ(now(DEVICE_FILE_IN), 700); /* another link */
    copy(DEVICE_IN, DEVICE_T0, DEVICE_HOST, 40);
    CHECK_EQ(now(DEVICE_IN), 216 + 30); /* out has ended */
    copy(DEVICE_COMPUTE, DEVICE_T0, DEVICE_T0, 500);
    CHECK_EQ(now(DEVICE_COMPUTE), 6);
}

TEST(directions__an_overlap_in_the_middle)
{
    share(4.5);
    launch(300);
    CHECK_OK(device_null.stream_wait(d, DEVICE_OUT, record(DEVICE_COMPUTE), &err), &err);
    copy(DEVICE_OUT, DEVICE_HOST, DEVICE_T0, 80); /* from 300 to 350 */
    copy(DEVICE_IN, DEVICE_T0, DEVICE_HOST, 500);
    CHECK_EQ(now(DEVICE_IN), 145); /* long before */
    copy(DEVICE_IN, DEVICE_T0, DEVICE_HOST, 800);
    CHECK_EQ(now(DEVICE_IN), 383); /* 540 bytes until 300, 125 until 350, 135 at 4 */
}

TEST(directions__a_link_for_one_at_a_time)
{
    share(2); /* half each while both are busy: 1000 bytes in 500 ns */
    copy(DEVICE_OUT, DEVICE_HOST, DEVICE_T0, 400);
    copy(DEVICE_IN, DEVICE_T0, DEVICE_HOST, 500);
    CHECK_EQ(now(DEVICE_OUT), 400); /* 20 bytes until in begins at 20, 380 at 1 */
    CHECK_EQ(now(DEVICE_IN), 430);  /* 380 bytes until then, 120 at 4 */
    copy(DEVICE_OUT, DEVICE_HOST, DEVICE_T0, 100);
    CHECK_EQ(now(DEVICE_IN), 490);  /* 80 bytes were left when out began at 410 */
    CHECK_EQ(now(DEVICE_OUT), 500); /* 80 bytes until then, 20 at 2 */
    share(6);                       /* enough for both */
    copy(DEVICE_OUT, DEVICE_HOST, DEVICE_T0, 400);
    copy(DEVICE_IN, DEVICE_T0, DEVICE_HOST, 500);
    CHECK_EQ(now(DEVICE_IN), 145);
}

/* A small fetch beside a large send: a faster link never makes it later than its half. */
TEST(directions__nobody_starves)
{
    static const int rates[] = {5, 8, 10, 16, 20};
    for (size_t k = 0; k < 5; k++) {
        int rate = rates[k];
        struct device_config even = {.in[DEVICE_HOST].bytes_per_ns = rate,
                                     .out[DEVICE_HOST].bytes_per_ns = rate,
                                     .both[DEVICE_HOST] = 10};
        device_null.destroy(d);
        CHECK_OK(device_null.create(&d, &even, &err), &err);
        for (int tier = 0; tier < DEVICE_TIERS; tier++)
            CHECK_OK(device_null.reserve(d, (enum device_tier)tier, 1000000, &err), &err);
        copy(DEVICE_OUT, DEVICE_HOST, DEVICE_T0, 1000000);
        copy(DEVICE_IN, DEVICE_T0, DEVICE_HOST, 10000);
        CHECK_EQ(now(DEVICE_IN), 2000);
        CHECK_EQ(now(DEVICE_OUT), 2000 + (1000000 - 10000) / rate); /* what it lost meanwhile */
    }
}

/* Whoever comes later may be too slow for half of the link: the rest is the other's, not more. */
TEST(directions__together_carry_no_more_than_the_link)
{
    struct device_config odd = {.in[DEVICE_HOST].bytes_per_ns = 4,
                                .out[DEVICE_HOST].bytes_per_ns = 10,
                                .both[DEVICE_HOST] = 10};
    device_null.destroy(d);
    CHECK_OK(device_null.create(&d, &odd, &err), &err);
    for (int tier = 0; tier < DEVICE_TIERS; tier++)
        CHECK_OK(device_null.reserve(d, (enum device_tier)tier, 1000000, &err), &err);
    copy(DEVICE_OUT, DEVICE_HOST, DEVICE_T0, 1000000);
    copy(DEVICE_IN, DEVICE_T0, DEVICE_HOST, 400000);
    CHECK_EQ(now(DEVICE_IN), 100000);
    CHECK_EQ(now(DEVICE_OUT), 100000 + (1000000 - 600000) / 10);
}

TEST(allocations__that_fail_are_told)
{
    uint64_t blocks = ebb_heap_live();
    struct device *other = NULL;
    ebb_heap_fail_at(1);
    CHECK_EQ(device_null.create(&other, &links, &err), EBB_ENOMEM);
    CHECK_OK(device_null.create(&other, &links, &err), &err);
    device_null.destroy(other);
    CHECK_EQ(ebb_heap_live(), blocks);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)

TEST_MAIN(FRESH(table__has_the_null_device), FRESH(copies__take_latency_and_bytes_over_bandwidth),
          FRESH(copies__of_an_endless_link_end), FRESH(moves__inside_tier_0_use_their_own_link),
          FRESH(links__without_bandwidth_cost_their_latency),
          FRESH(streams__overlap_until_an_event_orders_them), FRESH(events__keep_their_moment),
          FRESH(sync__brings_all_streams_to_the_latest), FRESH(events__take_no_memory),
          FRESH(slabs__are_taken_once_and_not_left),
          FRESH(directions__who_comes_later_gets_what_is_left),
          FRESH(directions__an_overlap_in_the_middle), FRESH(directions__a_link_for_one_at_a_time),
          FRESH(directions__nobody_starves),
          FRESH(directions__together_carry_no_more_than_the_link),
          FRESH(allocations__that_fail_are_told))
