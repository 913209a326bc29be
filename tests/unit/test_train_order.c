/* Streams of a device are ordered by events alone: whatever those allow gives the same bits, and every wait that is left out
 * is seen. The places where steps run are this file's own: the device is `late`. */
#include "engine_kit.h"

#include "late_device.h"

#include "base/heap.h"
#include "device/device.h"
#include "grad/grad.h"
#include "kernel/kernel.h"
#include "ops/ops.h"
#include "train/engine.h"
#include "train/place.h"

#define DRAWN 2 /* orders beside those that are written down */
#define ORDERS (LATE_ORDERS + DRAWN)

static struct ebb_error err;

enum ebb_status train_place_find(const char *name, struct train_place *place, struct ebb_error *e)
{
    (void)e;
    *place = name ? (struct train_place){late_device(), &kernel_far, "cpu", false}
                  : (struct train_place){&device_cpu, &kernel_cpu, "cpu", false};
    return EBB_OK;
}

/* Copies there; all state there and updates, too. Then those of policy unified, which decides while
 * it runs and begins copies before it must. */
enum way { IN_HOST, IN_FILE, ON_HOST, WAYS, ONLINE_HOST = WAYS, ONLINE_FILE, ALL_WAYS };

/* In a quarter of the room; in an eighth, where copying has to be worth it; with all state below, in half of what it takes
 * else. */
static struct train_engine_options with_tier(enum way way)
{
    bool is_file = way == IN_FILE || way == ONLINE_FILE;
    struct train_engine_options o = {.threads = 1,
                                     .device = "late",
                                     .policy = way == ON_HOST ? NULL : "lru",
                                     .host_bytes = is_file ? 0 : 1 << 20,
                                     .file_bytes = is_file ? 1 << 20 : 0};
    if (way >= ONLINE_HOST) {
        o.policy = "unified";
        o.is_online = true;
    }
    o.wishes.hybrid_adam = way == ON_HOST ? TRAIN_OFF : TRAIN_OPEN;
    o.budget_bytes = (way == ON_HOST ? reference.floor / 2
                                     : reference.floor + (reference.unlimited - reference.floor) /
                                                             (way >= ONLINE_HOST ? 8 : 4)) /
                     256 * 256;
    return o;
}

static bool is_reference(enum way way, unsigned order)
{
    struct train_engine_options o = with_tier(way);
    late.order = order;
    late.is_lazy = way >= ONLINE_HOST;
    CHECK_OK(train(&o, false, &other, &err), &err);
    CHECK(other.swapped > 0);
    return memcmp(reference.weights, other.weights, sizeof other.weights) == 0 &&
           memcmp(reference.losses, other.losses, sizeof other.losses) == 0 &&
           reference.validation == other.validation;
}

/* Some order shows it. */
static bool is_seen(enum way way)
{
    for (unsigned order = 0; order < ORDERS; order++)
        if (!is_reference(way, order))
            return true;
    return false;
}

TEST(any_order_that_events_allow__gives_the_same_bits)
{
    run_reference(&err);
    late.has_gap = false;
    for (enum way way = 0; way < ALL_WAYS; way++)
        for (unsigned order = 0; order < ORDERS; order++)
            CHECK(is_reference(way, order));
}

/* What leaves early is waited for by whoever writes over its bytes, what comes early by its reader. Copies wait for ops,
 * too, but the host has waited for those before. */
TEST(a_wait_of_the_policy_that_is_left_out__is_seen)
{
    static const struct {
        enum way way;
        enum device_stream copies;
    } cases[] = {{ONLINE_HOST, DEVICE_OUT},
                 {ONLINE_HOST, DEVICE_IN},
                 {ONLINE_FILE, DEVICE_FILE_OUT},
                 {ONLINE_FILE, DEVICE_FILE_IN}};
    run_reference(&err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        late.has_gap = true;
        late.waiter = DEVICE_COMPUTE;
        late.maker = cases[i].copies;
        late.at = SIZE_MAX;
        if (!is_seen(cases[i].way))
            fail_msg("compute does not wait for %d (%zu times): nobody sees it", cases[i].copies,
                     late.waits[DEVICE_COMPUTE][cases[i].copies]);
    }
    late.has_gap = false;
}

/* Of every kind that there is: the stream that waits and the one that is waited for. */
TEST(a_kind_of_wait_that_is_left_out__is_seen)
{
    size_t waits[DEVICE_STREAMS][DEVICE_STREAMS];
    run_reference(&err);
    for (enum way way = 0; way < WAYS; way++) {
        int kinds = 0;
        late.has_gap = false;
        CHECK(is_reference(way, 0));
        memcpy(waits, late.waits, sizeof waits);
        for (int a = 0; a < DEVICE_STREAMS; a++)
            for (int b = 0; b < DEVICE_STREAMS; b++) {
                if (!waits[a][b] || (a == DEVICE_COMPUTE && b == DEVICE_BELOW))
                    continue; /* the latter only at the end, where the host waits for all */
                late.has_gap = true;
                late.waiter = (enum device_stream)a;
                late.maker = (enum device_stream)b;
                late.at = SIZE_MAX;
                kinds++;
                if (!is_seen(way))
                    fail_msg("stream %d does not wait for %d (%zu times): nobody sees it", a, b,
                             waits[a][b]);
            }
        CHECK(kinds >= 4); /* compute for copies in and out, and they for it */
    }
    late.has_gap = false;
}

/* One event alone: compute goes on before a copy in has arrived. */
TEST(one_missing_event__is_seen)
{
    run_reference(&err);
    late.has_gap = false;
    CHECK(is_reference(IN_HOST, 0));
    size_t count = late.waits[DEVICE_COMPUTE][DEVICE_IN], seen = 0, tried = 0;
    CHECK(count > 0);
    late.waiter = DEVICE_COMPUTE;
    late.maker = DEVICE_IN;
    for (late.at = 0; late.at < count; late.at += 1 + count / 8, tried++) {
        late.has_gap = true;
        seen += is_seen(IN_HOST);
    }
    late.has_gap = false;
    print_message("%zu of %zu missing events seen\n", seen, tried);
    CHECK(2 * seen >= tried);
}

TEST_MAIN()
