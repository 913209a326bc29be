/* Policies that know what comes (belady, capuchin, unified), on the null device: who leaves, how, and
 * what is waited for, checked by hand. */
#include "test.h"
#include "exec_kit.h"
#include "exec_traces.h"

#include "base/heap.h"
#include "exec/exec.h"

/* A host whose link takes `rate` bytes per ns each way. */
static struct exec_options with_host(const char *policy, uint64_t budget, double rate)
{
    struct exec_options o = {
        .policy = mem_policy_find(policy), .budget_bytes = budget, .ways = MEM_DROP | MEM_HOST};
    o.tier_bytes[DEVICE_HOST] = 1 << 20;
    o.links.out[DEVICE_HOST] = o.links.in[DEVICE_HOST] = (struct device_link){0, rate};
    return o;
}

/* Storage of the first event of that kind; UINT32_MAX: there is none. */
static uint32_t first_of(const struct exec_log *log, enum exec_event_kind kind)
{
    for (size_t i = 0; i < log->count; i++)
        if (log->events[i].kind == kind)
            return log->events[i].index;
    return UINT32_MAX;
}

/* Two chunks, one of which has to make room for a third. */
static struct trace *two_chunks(bool first_is_last)
{
    begin();
    uint32_t x = op(0, 256, NULL, 0);
    uint32_t a = op(100, 1024, &x, 1), b = op(100, 1024, &x, 1);
    uint32_t room = op(100, 1024, &x, 1);
    uint32_t soon = op(100, 256, (uint32_t[]){first_is_last ? b : a, room}, 2);
    return end(op(100, 256, (uint32_t[]){first_is_last ? a : b, soon}, 2));
}

TEST(belady__what_is_read_last_leaves)
{
    for (int first = 0; first < 2; first++) {
        struct trace *t = two_chunks(first);
        struct exec_log log = {0};
        struct exec_options o = with_host("belady", 256 + 2 * 1024, 1);
        CHECK_EQ(run(t, &o, &log).result, EXEC_OK);
        CHECK_EQ(first_of(&log, EXEC_EV_SEND), first ? 1 : 2); /* storages: x, a, b */
        exec_log_fini(&log);
        trace_destroy(t);
    }
}

/* The same two in turns: whichever was read just now is read last again. */
TEST(belady__in_turns__the_one_just_read_leaves)
{
    begin();
    uint32_t x = op(0, 256, NULL, 0);
    uint32_t chunk[2] = {op(100, 1024, &x, 1), op(100, 1024, &x, 1)}, at = x;
    for (int k = 0; k < 6; k++) {
        uint32_t large = op(100, 1024, (uint32_t[]){chunk[k % 2], at}, 2);
        at = op(100, 256, &large, 1);
    }
    struct trace *t = end(at);
    struct exec_log log = {0};
    struct exec_options o = with_host("belady", 3 * 1024 + 256, 1);
    CHECK_EQ(run(t, &o, &log).result, EXEC_OK);
    uint32_t read = 0;
    for (size_t i = 0; i < log.count; i++) { /* storages 1 and 2 are the chunks; op k reads one */
        const struct exec_event *e = &log.events[i];
        if (e->kind == EXEC_EV_RUN && e->index >= 3 && e->index % 2 == 1)
            read = (e->index - 3) / 2 % 2 + 1;
        if (e->kind == EXEC_EV_DROP && (e->index == 1 || e->index == 2) && read)
            CHECK_EQ(e->index, read);
    }
    exec_log_fini(&log);
    trace_destroy(t);
}

TEST(seeing__what_is_never_read_leaves_first)
{
    static const char *const names[] = {"belady", "unified"};
    for (size_t p = 0; p < 2; p++) {
        begin();
        uint32_t x = op(0, 256, NULL, 0);
        uint32_t a = op(100, 1024, &x, 1);
        op(100, 1024, &x, 1); /* storage 2 */
        uint32_t room = op(100, 1024, &x, 1);
        struct trace *t = end(op(100, 256, (uint32_t[]){a, room}, 2));
        struct exec_log log = {0};
        struct exec_options o = with_host(names[p], 256 + 2 * 1024 + 512, 1);
        o.dealloc = EXEC_IGNORE;
        struct exec_report r = run(t, &o, &log);
        CHECK_EQ(r.result, EXEC_OK);
        CHECK_EQ(first_of(&log, EXEC_EV_DROP), 2);
        exec_log_fini(&log);
        trace_destroy(t);
    }
}

/* a is made for `cost`, and read again more than `ops` ops of 1,000 ns later; a large one in the middle
 * needs its bytes. */
static struct trace *long_gap(uint64_t cost, int ops)
{
    begin();
    uint32_t x = op(0, 256, NULL, 0);
    uint32_t a = op(cost, 1024, &x, 1), b = op(1000, 256, &a, 1);
    for (int k = 0; k < ops; k++) {
        uint32_t large = k == ops / 2 ? op(1000, 1792, &x, 1) : b;
        b = op(1000, 256, (uint32_t[]){b, large}, large == b ? 1 : 2);
    }
    return end(op(1000, 256, (uint32_t[]){a, b}, 2));
}

/* Out and in take 1,024 ns each, and there are ops enough on either side of the one that is large. */
TEST(unified__copies_that_ops_hide__cost_nothing)
{
    struct trace *t = long_gap(50000, 12);
    struct exec_log log = {0};
    struct exec_options o = with_host("unified", 2816, 1);
    struct exec_report r = run(t, &o, &log);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK_EQ(r.remat_ops, 0);
    CHECK(r.swapped_bytes >= 2 * 1024);
    CHECK_EQ(r.stall_ns, 0);
    CHECK_EQ(r.device_ns, r.base_ns);
    struct exec_options late = with_host("belady", 2816, 1); /* copies when it must: both seen */
    CHECK(run(t, &late, &log).device_ns >= r.base_ns + 2 * 1024);
    exec_log_fini(&log);
    trace_destroy(t);
}

/* The same over a link that takes longer than the ops: made again if that is cheap, else copied. */
TEST(unified__what_nobody_hides__is_compared_with_making_it_again)
{
    struct exec_log log = {0};
    struct trace *cheap = long_gap(2000, 12), *dear = long_gap(5000000, 12);
    struct exec_options o = with_host("unified", 2816, 0.01);
    struct exec_report r = run(cheap, &o, &log);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK_EQ(r.remat_ops, 1);
    CHECK_EQ(r.swapped_bytes, 0);
    o.budget_bytes = 3072; /* copies that are under way keep their places for longer */
    r = run(dear, &o, &log);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK(r.remat_ns < 5000000);
    CHECK(r.swapped_bytes >= 2 * 1024);
    exec_log_fini(&log);
    trace_destroy(cheap);
    trace_destroy(dear);
}

/* What is read next before anybody needs room is not sent: nobody would gain. */
TEST(unified__without_pressure_in_between__nothing_leaves)
{
    struct trace *t = long_gap(50000, 12);
    struct exec_log log = {0};
    struct exec_options o = with_host("unified", 1024 + 2 * 1792 + 512, 1);
    struct exec_report r = run(t, &o, &log);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK_EQ(r.swapped_bytes, 0);
    CHECK_EQ(r.remat_ops, 0);
    exec_log_fini(&log);
    trace_destroy(t);
}

/* Without a tier it is a policy that drops what is cheap, large and read late. */
TEST(unified__without_a_tier__makes_things_again)
{
    struct trace *t = long_gap(2000, 12);
    struct exec_log log = {0};
    struct exec_options o = {.policy = mem_policy_find("unified"), .budget_bytes = 2816};
    struct exec_report r = run(t, &o, &log);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK_EQ(r.remat_ops, 1);
    exec_log_fini(&log);
    trace_destroy(t);
}

/* d is too dear to be made again, and its copies are hidden. a is made for `cost`, `early` ops before a
 * large one takes the room of both; that one is read until just before a is. */
static struct trace *dear_and_cheap(uint64_t cost, int early)
{
    begin();
    uint32_t x = op(0, 256, NULL, 0);
    uint32_t d = op(500000, 1024, &x, 1), b = op(1000, 256, &d, 1);
    for (int k = 0; k < 30; k++)
        b = op(1000, 256, &b, 1);
    uint32_t a = op(cost, 1024, &x, 1);
    b = op(1000, 256, (uint32_t[]){a, b}, 2);
    for (int k = 0; k < early; k++)
        b = op(1000, 256, &b, 1);
    uint32_t large = op(1000, 2816, &x, 1);
    for (int k = 0; k < 40; k++)
        b = op(1000, 256, &b, 1);
    b = op(1000, 256, (uint32_t[]){b, large}, 2);
    b = op(1000, 256, (uint32_t[]){a, b}, 2);
    for (int k = 0; k < 40; k++)
        b = op(1000, 256, &b, 1);
    return end(op(1000, 256, (uint32_t[]){d, b}, 2));
}

/* Out and in take 10,240 ns each. There is time for a to leave and to come back, but no room to come
 * back to before its reader waits. */
TEST(unified__a_copy_that_comes_too_late__is_left_for_making_it_again)
{
    struct trace *t = dear_and_cheap(1000, 20);
    struct exec_log log = {0};
    struct exec_options o = with_host("unified", 3840, 0.1);
    struct exec_report r = run(t, &o, &log);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK(r.swapped_bytes >= 2 * 1024);
    CHECK(r.device_ns <= r.base_ns + 1000);
    exec_log_fini(&log);
    trace_destroy(t);
}

/* a would not have left when the large one needs its bytes: that costs more than making it again. */
TEST(unified__what_cannot_leave_in_time__is_not_sent)
{
    struct trace *t = dear_and_cheap(3000, 3);
    struct exec_log log = {0};
    struct exec_options o = with_host("unified", 3840, 0.1);
    struct exec_report r = run(t, &o, &log);
    CHECK_EQ(r.result, EXEC_OK);
    CHECK(r.swapped_bytes >= 2 * 1024);
    CHECK(r.device_ns <= r.base_ns + 3000);
    exec_log_fini(&log);
    trace_destroy(t);
}

/* Over any link no slower than what it is made of: making everything again, copying everything. */
TEST(unified__any_link__is_no_slower_than_one_way_alone)
{
    static const struct {
        const char *name;
        struct trace_synth synth;
    } shapes[] = {
        {"resnet", {.layers = 8}}, {"transformer", {.layers = 6}}, {"unet", {.layers = 3}}};
    static const struct {
        const char *policy;
        unsigned ways;
    } alone[] = {{"dtr_eq", MEM_DROP}, {"dtr_eq", MEM_DROP | MEM_HOST}, {"belady", MEM_HOST}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct trace *t = exec_traces_shape(shapes[s].name, &shapes[s].synth);
        struct exec_log log = {0};
        struct exec_options all = {.budget_bytes = UINT64_MAX >> 1};
        uint64_t peak = run(t, &all, &log).peak_bytes;
        bool all_of_it = test_is_long();
        for (int part = 4; part <= 9; part += all_of_it ? 1 : 3)
            for (double rate = all_of_it ? 0.01 : 0.1; rate <= 100; rate *= all_of_it ? 10 : 100) {
                struct exec_options o = with_host("unified", peak * (uint64_t)part / 10, rate);
                o.tier_bytes[DEVICE_HOST] = peak;
                struct exec_report r = run(t, &o, &log);
                for (size_t k = 0; k < sizeof alone / sizeof *alone; k++) {
                    o.policy = mem_policy_find(alone[k].policy);
                    o.ways = alone[k].ways;
                    struct exec_report other = run(t, &o, &log);
                    if (other.result == EXEC_OK)
                        CHECK(r.result == EXEC_OK && r.device_ns <= other.device_ns);
                }
            }
        exec_log_fini(&log);
        trace_destroy(t);
    }
}

/* A residual network and a transformer over a fast link: faster than the policy that knows nothing of
 * time that is hidden, and than copies alone. */
TEST(unified__fast_link__is_faster_than_what_it_is_made_of)
{
    static const struct {
        const char *name;
        struct trace_synth synth;
    } shapes[] = {{"resnet", {.layers = 8}}, {"transformer", {.layers = 12}}};
    static const double parts[] = {0.9, 0.75};
    double product[3] = {1, 1, 1};
    static const char *const names[] = {"unified", "dtr_eq", "belady"};
    for (size_t s = 0; s < 2; s++) {
        struct trace *t = exec_traces_shape(shapes[s].name, &shapes[s].synth);
        struct exec_log log = {0};
        struct exec_options all = {.budget_bytes = UINT64_MAX >> 1};
        uint64_t peak = run(t, &all, &log).peak_bytes;
        for (size_t i = 0; i < 2; i++)
            for (size_t p = 0; p < 3; p++) {
                uint64_t budget = (uint64_t)(parts[i] * (double)peak);
                struct exec_options o = with_host(names[p], budget, 10);
                o.tier_bytes[DEVICE_HOST] = peak;
                o.links.in[DEVICE_T0].bytes_per_ns = 100;
                struct exec_report r = run(t, &o, &log);
                CHECK_EQ(r.result, EXEC_OK);
                product[p] *= exec_overhead(&r);
            }
        exec_log_fini(&log);
        trace_destroy(t);
    }
    print_message("products of overheads: unified %.3f, dtr_eq %.3f, belady %.3f\n", product[0],
                  product[1], product[2]);
    CHECK(product[0] < product[1] && product[0] < product[2]);
}

TEST_MAIN()
