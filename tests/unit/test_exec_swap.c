/* Ways back other than recomputation, on the null device: every time can be checked by hand. */
#include "test.h"
#include "exec_kit.h"

#include "base/heap.h"
#include "exec/exec.h"

static struct ebb_error err;

static struct exec_options tiers(uint64_t budget, unsigned ways, uint64_t host, uint64_t file)
{
    struct exec_options o = {
        .policy = mem_policy_find("dtr"), .budget_bytes = budget, .ways = ways};
    o.tier_bytes[DEVICE_HOST] = host;
    o.tier_bytes[DEVICE_FILE] = file;
    o.links.out[DEVICE_HOST] = (struct device_link){10, 1};
    o.links.in[DEVICE_HOST] = (struct device_link){20, 2};
    o.links.out[DEVICE_FILE] = (struct device_link){1000, 0.5};
    o.links.in[DEVICE_FILE] = (struct device_link){1000, 0.5};
    return o;
}

static size_t count_events(const struct exec_log *log, enum exec_event_kind kind, uint8_t tier)
{
    size_t count = 0;
    for (size_t i = 0; i < log->count; i++)
        count += log->events[i].kind == kind && log->events[i].tier == tier;
    return count;
}

/* A weight that is used first, in the middle and last, and has to make room twice. */
static struct trace *weight_used_thrice(void)
{
    begin();
    uint32_t w = op(0, 1024, NULL, 0);
    uint32_t a = op(100, 512, &w, 1);
    uint32_t b = op(100, 1024, &a, 1); /* a, b and w are more than 2048: w leaves */
    uint32_t c = op(100, 512, &b, 1);
    uint32_t d = op(100, 512, (uint32_t[]){w, c}, 2); /* w comes back */
    uint32_t e = op(100, 768, &d, 1);                 /* w leaves again */
    return end(op(100, 256, (uint32_t[]){w, e}, 2));  /* and comes back again */
}

TEST(leaves__leave_by_a_copy_only)
{
    struct trace *t = weight_used_thrice();
    struct exec_log log = {0};
    struct exec_options dropping = tiers(2048, MEM_DROP, 4096, 0);
    CHECK_EQ(run(t, &dropping, &log).result, EXEC_OOM);
    struct exec_options swapping = tiers(2048, MEM_DROP | MEM_HOST, 4096, 0);
    struct exec_report r = run(t, &swapping, &log);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK_EQ(r.remat_ops, 0);
    CHECK_EQ(r.evictions_pressure, 2);
    exec_log_fini(&log);
    trace_destroy(t);
}

TEST(clean_copies__are_not_sent_twice)
{
    struct trace *t = weight_used_thrice();
    struct exec_log log = {0};
    struct exec_options o = tiers(2048, MEM_DROP | MEM_HOST, 4096, 0);
    struct exec_report r = run(t, &o, &log);
    CHECK_EQ(count_events(&log, EXEC_EV_SEND, DEVICE_HOST), 1);
    CHECK_EQ(count_events(&log, EXEC_EV_FETCH, DEVICE_HOST), 2);
    CHECK_EQ(count_events(&log, EXEC_EV_FORGET, DEVICE_HOST), 1); /* when the weight is dead */
    CHECK_EQ(r.swapped_bytes, 3 * 1024);
    exec_log_fini(&log);
    trace_destroy(t);
}

/* Six ops of 100 ns. Out: 10 + 1024 ns, in: 20 + 512 ns, all of it waited for:
 * 100, out until 1134, ops until 1334, in until 1866, ops until 2066, in until 2598, op. */
TEST(stalls__count_on_the_device_not_on_the_clock)
{
    struct trace *t = weight_used_thrice();
    struct exec_log log = {0};
    struct exec_options o = tiers(2048, MEM_DROP | MEM_HOST, 4096, 0);
    struct exec_report r = run(t, &o, &log);
    CHECK_EQ(r.clock_ns, 600);
    CHECK_EQ(r.device_ns, 600 + 1034 + 2 * 532);
    exec_log_fini(&log);
    trace_destroy(t);
}

/* The caller's own device: its slabs are the caller's, its clock is read at the end. */
TEST(given_device__is_used_and_left_to_its_owner)
{
    struct trace *t = weight_used_thrice();
    struct exec_log log = {0};
    struct device *device = NULL;
    struct exec_options o = tiers(2048, MEM_DROP | MEM_HOST, 4096, 0);
    CHECK_OK(device_null.create(&device, &o.links, &err), &err);
    CHECK_OK(device_null.reserve(device, DEVICE_T0, 2048, &err), &err);
    CHECK_OK(device_null.reserve(device, DEVICE_HOST, 4096, &err), &err);
    o.device = device;
    struct exec_report r = run(t, &o, &log);
    CHECK_EQ(r.device_ns, device_null.now_ns(device, DEVICE_COMPUTE));
    CHECK_EQ(device_null.stall_ns(device), 1034 + 2 * 532);
    device_null.destroy(device);
    exec_log_fini(&log);
    trace_destroy(t);
}

TEST(tiers__hold_no_more_than_their_size)
{
    struct trace *t = weight_used_thrice();
    struct exec_log log = {0};
    for (uint64_t host = 0; host <= 2048; host += 128) { /* the weight needs 1024 */
        struct exec_options o = tiers(2048, MEM_DROP | MEM_HOST, host, 0);
        CHECK_EQ(run(t, &o, &log).result, host >= 1024 ? EXEC_OK : EXEC_OOM);
    }
    struct exec_options o = tiers(2048, MEM_DROP | MEM_HOST | MEM_FILE, 512, 1024);
    CHECK_EQ(run(t, &o, &log).result, EXEC_OK); /* what the host cannot take goes to the file */
    CHECK_EQ(count_events(&log, EXEC_EV_SEND, DEVICE_HOST), 0);
    CHECK_EQ(count_events(&log, EXEC_EV_SEND, DEVICE_FILE), 1);
    exec_log_fini(&log);
    trace_destroy(t);
}

/* a is made for `cost` ns, has to leave, and is needed at the end. */
static struct trace *one_must_leave(uint64_t cost)
{
    begin();
    uint32_t x = op(0, 256, NULL, 0);
    uint32_t a = op(cost, 1024, &x, 1);
    uint32_t b = op(100, 1024, &x, 1);
    uint32_t c = op(100, 1024, &b, 1);
    return end(op(100, 256, (uint32_t[]){a, c}, 2));
}

TEST(cheap_storages__are_recomputed_and_dear_ones_swapped)
{
    struct exec_log log = {0};
    struct trace *cheap = one_must_leave(50), *dear = one_must_leave(1000000);
    struct exec_options o = tiers(2816, MEM_DROP | MEM_HOST, 4096, 0);
    struct exec_report r = run(cheap, &o, &log);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK_EQ(r.remat_ops, 1);
    CHECK_EQ(r.swapped_bytes, 0);
    r = run(dear, &o, &log);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK_EQ(r.remat_ops, 0);
    CHECK_EQ(r.swapped_bytes, 2 * 1024);
    o.ways = MEM_HOST; /* no dropping at all */
    r = run(cheap, &o, &log);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK_EQ(r.remat_ops, 0);
    CHECK_EQ(r.swapped_bytes, 2 * 1024);
    exec_log_fini(&log);
    trace_destroy(cheap);
    trace_destroy(dear);
}

TEST_MAIN()
