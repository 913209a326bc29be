/* The slab against a map with one owner per unit. */
#include <stdio.h>
#include <string.h>
#include "test.h"

#include "base/heap.h"
#include "base/rng.h"
#include "mem/mem.h"
#include "plan/plan.h"

#define UNITS 512u

struct map {
    uint32_t owner[UNITS]; /* MEM_NONE = free */
    uint32_t units;
};

struct moves {
    struct map *map;
    uint64_t last_to;
    size_t count;
};

static void map_set(struct map *map, uint64_t offset, uint64_t bytes, uint32_t from, uint32_t to)
{
    CHECK(offset % PLAN_UNIT == 0 && bytes % PLAN_UNIT == 0);
    CHECK(offset / PLAN_UNIT + bytes / PLAN_UNIT <= map->units);
    for (uint64_t u = offset / PLAN_UNIT; u < (offset + bytes) / PLAN_UNIT; u++) {
        CHECK_EQ(map->owner[u], from);
        map->owner[u] = to;
    }
}

/* SL1-SL3, and every unit has the owner the map says. */
static void check_slab(const struct mem_slab *slab, const struct map *map)
{
    uint64_t offset = 0, free_bytes = 0;
    uint32_t prev = MEM_NONE;
    bool was_free = false;
    for (uint32_t at = slab->head; at != MEM_NONE; at = slab->segments[at].next) {
        const struct mem_segment *seg = &slab->segments[at];
        CHECK_EQ(seg->offset, offset);
        CHECK(seg->bytes > 0 && seg->bytes % PLAN_UNIT == 0);
        CHECK_EQ(seg->prev, prev);
        for (uint64_t u = 0; u < seg->bytes / PLAN_UNIT; u++)
            CHECK_EQ(map->owner[offset / PLAN_UNIT + u], seg->owner);
        CHECK(!(was_free && seg->owner == MEM_NONE));
        was_free = seg->owner == MEM_NONE;
        free_bytes += was_free ? seg->bytes : 0;
        offset += seg->bytes;
        prev = at;
    }
    CHECK_EQ(offset, slab->bytes);
    CHECK_EQ(prev, slab->tail);
    CHECK_EQ(free_bytes, slab->free_bytes);
}

/* Smallest run of free units of at least `units` outside [low, high); 0 = none. */
static uint32_t smallest_hole(const struct map *map, uint64_t units, uint64_t low, uint64_t high)
{
    uint32_t best = 0;
    for (uint32_t u = 0; u < map->units;) {
        uint32_t end = u;
        while (end < map->units && map->owner[end] == MEM_NONE)
            end++;
        bool touches = u < high && end > low;
        if (end - u >= units && end > u && !touches && (best == 0 || end - u < best))
            best = end - u;
        u = end + (end == u);
    }
    return best;
}

static enum ebb_status moved(void *context, uint32_t owner, uint64_t from, uint64_t to,
                             uint64_t bytes, struct ebb_error *err)
{
    struct moves *m = context;
    (void)err;
    CHECK(to < from); /* down only, in address order */
    CHECK(m->count == 0 || to > m->last_to);
    map_set(m->map, from, bytes, owner, MEM_NONE);
    map_set(m->map, to, bytes, MEM_NONE, owner);
    m->last_to = to;
    m->count++;
    return EBB_OK;
}

static struct mem_slab slab;
static struct map map;

static void begin(uint32_t units)
{
    struct ebb_error err;
    CHECK_OK(mem_slab_init(&slab, (uint64_t)units * PLAN_UNIT + 17, &err), &err); /* 17 are lost */
    memset(map.owner, 0xff, sizeof map.owner);
    map.units = units;
    CHECK_EQ(slab.bytes, (uint64_t)units * PLAN_UNIT);
}

static uint32_t take(uint32_t units, bool is_high, uint32_t owner)
{
    struct ebb_error err;
    uint32_t segment, hole = mem_slab_find(&slab, (uint64_t)units * PLAN_UNIT, is_high);
    CHECK(hole != MEM_NONE);
    CHECK_OK(
        mem_slab_take(&slab, hole, (uint64_t)units * PLAN_UNIT, is_high, owner, &segment, &err),
        &err);
    map_set(&map, slab.segments[segment].offset, (uint64_t)units * PLAN_UNIT, MEM_NONE, owner);
    return segment;
}

static void give(uint32_t segment)
{
    const struct mem_segment *seg = &slab.segments[segment];
    map_set(&map, seg->offset, seg->bytes, seg->owner, MEM_NONE);
    mem_slab_give(&slab, segment);
}

TEST(ends__are_taken_low_and_high)
{
    begin(10);
    uint32_t low = take(2, false, 1), high = take(3, true, 2);
    CHECK_EQ(slab.segments[low].offset, 0);
    CHECK_EQ(slab.segments[high].offset, 7 * PLAN_UNIT);
    CHECK_EQ(slab.peak_bytes, 10 * PLAN_UNIT);
    check_slab(&slab, &map);
    mem_slab_fini(&slab);
}

TEST(neighbours__coalesce_on_both_sides)
{
    begin(9);
    uint32_t a = take(3, false, 1), b = take(3, false, 2), c = take(3, false, 3);
    CHECK_EQ(mem_slab_find(&slab, PLAN_UNIT, false), MEM_NONE);
    give(a);
    give(c);
    CHECK_EQ(mem_slab_find(&slab, 4 * PLAN_UNIT, false), MEM_NONE);
    give(b);
    check_slab(&slab, &map);
    CHECK(mem_slab_find(&slab, 9 * PLAN_UNIT, false) != MEM_NONE);
    mem_slab_fini(&slab);
}

TEST(fit__is_the_smallest_that_fits)
{
    begin(30);
    uint32_t holes[4], walls[4];
    static const uint32_t sizes[] = {9, 4, 6, 5};
    for (uint32_t i = 0; i < 4; i++) {
        holes[i] = take(sizes[i], false, i);
        walls[i] = take(1, false, 10 + i);
    }
    for (uint32_t i = 0; i < 4; i++)
        give(holes[i]);
    CHECK_EQ(slab.segments[mem_slab_find(&slab, 5 * PLAN_UNIT, false)].bytes, 5 * PLAN_UNIT);
    CHECK_EQ(slab.segments[mem_slab_find(&slab, 7 * PLAN_UNIT, false)].bytes, 9 * PLAN_UNIT);
    CHECK_EQ(mem_slab_find(&slab, 10 * PLAN_UNIT, false), MEM_NONE);
    give(walls[0]);
    check_slab(&slab, &map);
    mem_slab_fini(&slab);
}

/* A bin holds sizes up to an eighth apart: whoever asks for its largest must not be put off by many
 * of its smallest. */
TEST(fit__is_found_behind_many_too_small)
{
    begin(UNITS);
    uint32_t holes[29], count = 0;
    for (uint32_t i = 0; i < 29; i++) {
        holes[count++] = take(i == 0 ? 17 : 16, false, i);
        if (i < 28)
            take(1, false, 100 + i);
    }
    take(UNITS - 17 - 28 * 17, false, 200); /* nothing else is free */
    for (uint32_t i = 0; i < 29; i++)
        give(holes[i]);
    check_slab(&slab, &map);
    uint32_t found = mem_slab_find(&slab, 17 * PLAN_UNIT, false);
    CHECK(found != MEM_NONE);
    CHECK_EQ(slab.segments[found].bytes, 17 * PLAN_UNIT);
    mem_slab_fini(&slab);
}

TEST(largest__lists_holes_by_size)
{
    begin(40);
    uint32_t holes[4], found[8];
    static const uint32_t sizes[] = {4, 16, 1, 9};
    for (uint32_t i = 0; i < 4; i++) {
        holes[i] = take(sizes[i], false, i);
        take(1, false, 10 + i);
    }
    take(6, false, 20);
    for (uint32_t i = 0; i < 4; i++)
        give(holes[i]);
    CHECK_EQ(mem_slab_largest(&slab, found, 8), 4);
    static const uint32_t order[] = {16, 9, 4, 1};
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQ(slab.segments[found[i]].bytes, order[i] * PLAN_UNIT);
    CHECK_EQ(mem_slab_largest(&slab, found, 2), 2);
    CHECK_EQ(slab.segments[found[1]].bytes, 9 * PLAN_UNIT);
    mem_slab_fini(&slab);
}

TEST(slide__gathers_the_window_and_no_more)
{
    struct ebb_error err;
    struct moves m = {.map = &map};
    begin(12);
    uint32_t seg[6];
    for (uint32_t i = 0; i < 6; i++)
        seg[i] = take(2, false, i);
    give(seg[1]);
    give(seg[3]);
    give(seg[5]);
    CHECK_OK(mem_slab_slide(&slab, seg[1], seg[3], moved, &m, &err),
             &err); /* owner 2 moves, 4 not */
    check_slab(&slab, &map);
    CHECK_EQ(m.count, 1);
    CHECK_EQ(slab.segments[seg[2]].offset, 2 * PLAN_UNIT);
    CHECK_EQ(slab.segments[seg[4]].offset, 8 * PLAN_UNIT);
    uint32_t hole = mem_slab_find(&slab, 4 * PLAN_UNIT, false);
    CHECK(hole != MEM_NONE && slab.segments[hole].offset == 4 * PLAN_UNIT);
    mem_slab_fini(&slab);
}

TEST(empty_slab__has_no_room)
{
    struct ebb_error err;
    CHECK_OK(mem_slab_init(&slab, 255, &err), &err);
    CHECK_EQ(slab.bytes, 0);
    CHECK_EQ(mem_slab_find(&slab, PLAN_UNIT, false), MEM_NONE);
    CHECK_EQ(mem_slab_find_outside(&slab, PLAN_UNIT, 0, 1), MEM_NONE);
    mem_slab_fini(&slab);
}

static void random_slide(uint64_t *random)
{
    struct ebb_error err;
    struct moves m = {.map = &map};
    uint32_t at[UNITS], count = 0;
    for (uint32_t s = slab.head; s != MEM_NONE; s = slab.segments[s].next)
        at[count++] = s;
    uint32_t first = (uint32_t)(ebb_splitmix64(random) % count);
    uint32_t last = first + (uint32_t)(ebb_splitmix64(random) % (count - first));
    bool has_free = false;
    uint64_t free_bytes = 0;
    for (uint32_t i = first; i <= last; i++) {
        has_free |= slab.segments[at[i]].owner == MEM_NONE;
        free_bytes += slab.segments[at[i]].owner == MEM_NONE ? slab.segments[at[i]].bytes : 0;
    }
    if (!has_free)
        return;
    CHECK_OK(mem_slab_slide(&slab, at[first], at[last], moved, &m, &err), &err);
    CHECK(smallest_hole(&map, free_bytes / PLAN_UNIT, 0, 0) > 0);
}

TEST(random_operations__agree_with_the_map)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t random = seed;
        uint32_t owned[UNITS], count = 0, peak = 0;
        begin(seed % 3 ? 64 : UNITS);
        for (uint32_t step = 0; step < 600; step++) {
            uint64_t bits = ebb_splitmix64(&random);
            uint32_t units = 1 + (uint32_t)(bits >> 8) % (bits & 1 ? 4 : 40);
            uint64_t low = (bits >> 20) % map.units, high = low + (bits >> 40) % 20;
            uint32_t hole = mem_slab_find(&slab, (uint64_t)units * PLAN_UNIT, bits & 2);
            uint32_t best = smallest_hole(&map, units, 0, 0);
            CHECK_EQ(hole == MEM_NONE, best == 0);
            uint32_t outside = mem_slab_find_outside(&slab, (uint64_t)units * PLAN_UNIT,
                                                     low * PLAN_UNIT, high * PLAN_UNIT);
            uint32_t expected = smallest_hole(&map, units, low, high);
            CHECK_EQ(outside == MEM_NONE ? 0 : slab.segments[outside].bytes / PLAN_UNIT, expected);
            if (hole != MEM_NONE && (bits >> 4) % 100 < 55) {
                owned[count++] = take(units, bits & 2, step);
                const struct mem_segment *seg = &slab.segments[owned[count - 1]];
                uint32_t end = (uint32_t)((seg->offset + seg->bytes) / PLAN_UNIT);
                peak = end > peak ? end : peak;
            } else if (count > 0) {
                uint32_t i = (uint32_t)(bits >> 33) % count;
                give(owned[i]);
                owned[i] = owned[--count];
            }
            if ((bits >> 50) % 16 == 0)
                random_slide(&random);
            check_slab(&slab, &map);
        }
        CHECK_EQ(slab.peak_bytes, (uint64_t)peak * PLAN_UNIT);
        mem_slab_fini(&slab);
    }
}

TEST(failed_allocation__leaves_the_slab_as_it_was)
{
    struct ebb_error err;
    uint64_t blocks = ebb_heap_live();
    begin(UNITS);
    uint32_t owners = 0, segment;
    for (;;) { /* until the table of segments has to grow */
        uint32_t hole = mem_slab_find(&slab, PLAN_UNIT, false);
        ebb_heap_fail_at(1);
        enum ebb_status status =
            mem_slab_take(&slab, hole, PLAN_UNIT, false, owners, &segment, &err);
        ebb_heap_fail_at(0);
        if (status != EBB_OK) {
            CHECK_EQ(status, EBB_ENOMEM);
            break;
        }
        map_set(&map, slab.segments[segment].offset, PLAN_UNIT, MEM_NONE, owners++);
    }
    check_slab(&slab, &map);
    take(1, false, owners);
    check_slab(&slab, &map);
    mem_slab_fini(&slab);
    CHECK_EQ(ebb_heap_live(), blocks);
}

TEST_MAIN()
