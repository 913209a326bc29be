/* The index against a scan of every entry: same winner, whatever changes and however time passes.
 */
#include <math.h>
#include "test.h"

#include "base/heap.h"
#include "base/rng.h"
#include "mem/mem.h"

static struct mem_index *make(uint32_t capacity, bool by_stale)
{
    struct ebb_error err;
    struct mem_index *index = NULL;
    CHECK_OK(mem_index_create(&index, capacity, by_stale, &err), &err);
    return index;
}

TEST(empty_index__has_no_top)
{
    struct mem_index *x = make(0, true);
    CHECK_EQ(mem_index_top(x, 5), MEM_NONE);
    CHECK_EQ(mem_index_scan(x, 5), MEM_NONE);
    mem_index_destroy(x);
    mem_index_destroy(NULL);
}

TEST(stale_entry__overtakes_as_time_passes)
{
    struct mem_index *x = make(200, true);
    mem_index_set(x, 3, 1, 0);    /* merit now */
    mem_index_set(x, 150, 3, 90); /* merit 3 (now - 90): ahead from 135 on */
    CHECK_EQ(mem_index_top(x, 100), 3);
    CHECK_EQ(mem_index_top(x, 134), 3);
    CHECK_EQ(mem_index_top(x, 135), 3); /* equal merit: the smaller last wins */
    CHECK_EQ(mem_index_top(x, 136), 150);
    mem_index_remove(x, 150);
    mem_index_remove(x, 150);
    CHECK_EQ(mem_index_top(x, 137), 3);
    mem_index_clear(x);
    CHECK_EQ(mem_index_top(x, 138), MEM_NONE);
    mem_index_destroy(x);
}

TEST(ties__go_to_the_lowest_id)
{
    struct mem_index *x = make(5000, false);
    for (uint32_t id = 5000; id-- > 7;)
        mem_index_set(x, id, 2.5, 1);
    CHECK_EQ(mem_index_top(x, 1), 7);
    mem_index_remove(x, 7);
    CHECK_EQ(mem_index_top(x, 2), 8);
    mem_index_set(x, 4000, 2.5, 0.5); /* smaller last goes before smaller id */
    CHECK_EQ(mem_index_top(x, 2), 4000);
    mem_index_destroy(x);
}

static double draw_weight(uint64_t *random, uint64_t style)
{
    uint64_t bits = ebb_splitmix64(random);
    if (style == 0)
        return (double)(1 + bits % 3); /* many ties */
    if (style == 1)
        return ldexp(1 + (double)(bits % 1000), (int)(bits >> 20 & 63) - 32);
    return (double)(1 + bits % 1000000) / (double)(1 + (bits >> 32) % 1000);
}

/* Mixes of sets, removes and time; time stands still, creeps or leaps. */
static void compare(uint32_t capacity, bool by_stale, uint64_t seed, uint32_t steps)
{
    uint64_t random = seed, blocks = ebb_heap_live();
    struct mem_index *x = make(capacity, by_stale);
    double now = 1;
    for (uint32_t i = 0; i < steps; i++) {
        uint64_t bits = ebb_splitmix64(&random);
        uint32_t changes = (uint32_t)(bits >> 56) % 6;
        for (uint32_t k = 0; k < changes; k++) {
            uint64_t more = ebb_splitmix64(&random);
            uint32_t id = (uint32_t)(more % capacity);
            double last = now - (double)((more >> 40) % 4 ? (more >> 45) % 50 : 0);
            if (more >> 33 & 1)
                mem_index_set(x, id, draw_weight(&random, seed % 3), last < 0 ? 0 : last);
            else
                mem_index_remove(x, id);
        }
        if (bits & 1)
            now += (double)(bits >> 8 & 7);
        if ((bits & 62) == 0)
            now += (double)(bits >> 16 & 0xfffff);
        CHECK_EQ(mem_index_top(x, now), mem_index_scan(x, now));
    }
    mem_index_destroy(x);
    CHECK_EQ(ebb_heap_live(), blocks);
}

TEST(top__equals_a_scan)
{
    static const uint32_t capacities[] = {1, 2, 63, 64, 65, 300, 4096, 4097};
    for (uint64_t seed = 0; seed < 48; seed++)
        compare(capacities[seed % 8], seed % 16 < 12, seed, 1500);
    compare(300000, true, 3, 60); /* four levels */
    compare(300000, true, 4, 60);
}

/* The pattern of a run: the winner leaves, something else is used, time goes on. */
TEST(evicting_the_top__equals_evicting_by_scan)
{
    struct mem_index *x = make(20000, true), *y = make(20000, true);
    uint64_t random = 9;
    for (uint32_t id = 0; id < 20000; id++) {
        double weight = draw_weight(&random, 2);
        mem_index_set(x, id, weight, id);
        mem_index_set(y, id, weight, id);
    }
    for (uint32_t i = 0; i < 3000; i++) {
        double now = 20000 + i * 7, weight = draw_weight(&random, 2);
        uint32_t used = (uint32_t)(ebb_splitmix64(&random) % 20000);
        uint32_t victim = mem_index_top(x, now);
        CHECK_EQ(victim, mem_index_scan(y, now));
        mem_index_remove(x, victim);
        mem_index_remove(y, victim);
        mem_index_set(x, used, weight, now);
        mem_index_set(y, used, weight, now);
    }
    mem_index_destroy(x);
    mem_index_destroy(y);
}

TEST(create__survives_failing_allocations)
{
    struct ebb_error err;
    uint64_t blocks = ebb_heap_live();
    for (uint64_t n = 1;; n++) {
        struct mem_index *index = NULL;
        ebb_heap_fail_at(n);
        enum ebb_status status = mem_index_create(&index, 10000, true, &err);
        ebb_heap_fail_at(0);
        if (status == EBB_OK) {
            CHECK(n > 1);
            mem_index_destroy(index);
            break;
        }
        CHECK_EQ(status, EBB_ENOMEM);
        CHECK_EQ(ebb_heap_live(), blocks);
    }
    CHECK_EQ(ebb_heap_live(), blocks);
}

TEST_MAIN()
