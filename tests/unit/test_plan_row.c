/* Blocks and rectangles in groups find what a look at every one of them finds. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "plan/plan.h"
#include "plan/row.h"
#include "plan/strip.h"

enum { MOST = 600, TOP = 4096 * 256 };

struct plain { /* the same, one after the other */
    struct plan_block blocks[MOST];
    size_t count;
};

static uint64_t plain_begin(const struct plain *p, size_t i)
{
    return i ? p->blocks[i - 1].end : 0;
}

static uint64_t plain_end(const struct plain *p, size_t i)
{
    return i == p->count ? TOP : p->blocks[i].begin;
}

static size_t plain_find(const struct plain *p, enum plan_fit fit, uint64_t bytes)
{
    size_t best = MOST + 1;
    uint64_t room = UINT64_MAX;
    for (size_t i = 0; i <= p->count; i++) {
        uint64_t free_bytes = plain_end(p, i) - plain_begin(p, i);
        if (free_bytes < bytes || (fit == PLAN_FIT_BEST && free_bytes >= room) ||
            (fit == PLAN_FIT_LOW && best <= MOST))
            continue;
        best = i;
        room = free_bytes;
    }
    return best;
}

static void same(const struct plan_row *row, const struct plain *p)
{
    struct plan_place at = {0};
    for (size_t i = 0; i < p->count; i++, at = plan_row_next(row, at)) {
        CHECK(!plan_row_is_last(row, at));
        CHECK_EQ(plan_row_block(row, at)->begin, p->blocks[i].begin);
        CHECK_EQ(plan_row_block(row, at)->end, p->blocks[i].end);
        CHECK_EQ(plan_row_hole_begin(row, at), plain_begin(p, i));
    }
    CHECK(plan_row_is_last(row, at));
}

static void put(struct plan_row *row, struct plain *p, uint64_t *random)
{
    struct plan_place hole;
    struct ebb_error err;
    uint64_t bytes = 256 * (1 + ebb_splitmix64(random) % 40);
    enum plan_fit fit = (enum plan_fit)(ebb_splitmix64(random) % 3);
    size_t i = plain_find(p, fit, bytes);
    CHECK_EQ(plan_row_find(row, fit, bytes, &hole), i <= MOST);
    if (i > MOST || p->count == MOST)
        return;
    CHECK_EQ(plan_row_hole_begin(row, hole), plain_begin(p, i));
    CHECK_EQ(plan_row_hole_end(row, hole), plain_end(p, i));
    uint64_t room = (plain_end(p, i) - plain_begin(p, i) - bytes) / 256;
    uint64_t begin = plain_begin(p, i) + 256 * (ebb_splitmix64(random) % (room + 1));
    struct plan_block block = {.begin = begin, .end = begin + bytes};
    CHECK_OK(plan_row_put(row, hole, &block, &err), &err);
    memmove(&p->blocks[i + 1], &p->blocks[i], (p->count - i) * sizeof block);
    p->blocks[i] = block;
    p->count++;
}

static void take_away(struct plan_row *row, struct plain *p, uint64_t *random)
{
    size_t i = (size_t)(ebb_splitmix64(random) % p->count);
    struct plan_place at = plan_row_at(row, p->blocks[i].begin);
    CHECK_EQ(plan_row_block(row, at)->end, p->blocks[i].end);
    if (ebb_splitmix64(random) % 4 == 0) { /* down, to its neighbour */
        uint64_t to = plain_begin(p, i), bytes = p->blocks[i].end - p->blocks[i].begin;
        plan_row_move(row, at, to);
        p->blocks[i].begin = to;
        p->blocks[i].end = to + bytes;
        return;
    }
    plan_row_remove(row, at);
    memmove(&p->blocks[i], &p->blocks[i + 1], (p->count - i - 1) * sizeof *p->blocks);
    p->count--;
}

TEST(row__finds_what_a_look_at_all_finds)
{
    static struct plain p;
    struct plan_row row = {0};
    uint64_t random = 7;
    for (int round = 0; round < 4; round++) {
        p.count = 0;
        plan_row_clear(&row, 0, TOP);
        for (int i = 0; i < 4000; i++) {
            bool grows = (i / 1000) % 2 == 0;
            if (p.count == 0 || ebb_splitmix64(&random) % 8 < (grows ? 6u : 2u))
                put(&row, &p, &random);
            else
                take_away(&row, &p, &random);
            if (i % 50 == 0)
                same(&row, &p);
        }
    }
    CHECK_EQ(plan_row_is_last(&row, plan_row_at(&row, TOP)), true);
    plan_row_fini(&row);
}

/* Walks every rectangle. */
static uint64_t lowest(const struct plan_strip_rect *rects, size_t count, uint64_t bytes,
                       uint64_t begin, uint64_t end, uint64_t *visits)
{
    uint64_t at = 0;
    for (size_t k = 0; k < count; k++) {
        const struct plan_strip_rect *r = &rects[k];
        ++*visits;
        if (r->offset >= at + bytes)
            break;
        if (r->begin < end && r->end > begin && r->top > at)
            at = r->top;
    }
    return at;
}

TEST(strip__finds_the_lowest_address_and_counts_the_walk)
{
    static struct plan_strip_rect rects[2000];
    struct ebb_arena arena = {0};
    struct plan_strip strip;
    struct ebb_error err;
    uint64_t random = 11;
    CHECK_OK(plan_strip_init(&strip, &arena, 2000, &err), &err);
    for (int round = 0; round < 3; round++) {
        uint64_t walked = 0, counted = 0;
        plan_strip_clear(&strip);
        for (size_t count = 0; count < 2000; count++) { /* lives nest, and short ones between */
            uint64_t a = round == 1 ? count : ebb_splitmix64(&random) % 2000;
            uint64_t length = round == 1 ? 4000 - 2 * count : 1 + ebb_splitmix64(&random) % 300;
            uint64_t bytes = 256 * (1 + ebb_splitmix64(&random) % 9);
            uint64_t at = lowest(rects, count, bytes, a, a + length, &walked);
            CHECK_EQ(plan_strip_lowest(&strip, bytes, a, a + length, &counted), at);
            CHECK_EQ(counted, walked);
            struct plan_strip_rect r = {at, at + bytes, a, a + length};
            plan_strip_add(&strip, &r);
            size_t i = count;
            while (i > 0 && rects[i - 1].offset > at)
                i--;
            memmove(&rects[i + 1], &rects[i], (count - i) * sizeof r);
            rects[i] = r;
        }
    }
    ebb_arena_fini(&arena);
}

TEST_MAIN()
