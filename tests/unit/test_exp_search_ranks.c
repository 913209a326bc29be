/* The sorted list of results against a plain array. */
#include "test.h"

#include "base/heap.h"
#include "base/rng.h"
#include "exp/search/ranks.h"

#define MOST 3000

struct plain {
    struct exp_rank items[MOST];
    size_t count;
};

static size_t plain_insert(struct plain *p, struct exp_rank entry, enum exp_rank_ties ties)
{
    size_t at = 0;
    while (at < p->count && (ties == EXP_AFTER_EQUALS ? p->items[at].metric <= entry.metric
                                                      : p->items[at].metric < entry.metric))
        at++;
    memmove(p->items + at + 1, p->items + at, (p->count - at) * sizeof *p->items);
    p->items[at] = entry;
    p->count++;
    return at;
}

static void check_equal(const struct exp_ranks *ranks, const struct plain *p)
{
    struct exp_rank_walk walk = exp_ranks_from(ranks, 0);
    struct exp_rank entry;
    CHECK_EQ(ranks->count, p->count);
    for (size_t i = 0; i < p->count; i++) {
        CHECK(exp_ranks_next(&walk, &entry));
        CHECK_EQ(entry.trial, p->items[i].trial);
        CHECK_EQ(exp_ranks_at(ranks, i).trial, entry.trial);
    }
    CHECK(!exp_ranks_next(&walk, &entry));
}

/* values: how many different metrics; few make many ties across chunk borders */
static void compare(uint64_t seed, uint64_t values, enum exp_rank_ties ties)
{
    static struct plain p;
    struct exp_ranks ranks;
    struct ebb_error err;
    size_t index;
    p.count = 0;
    exp_ranks_init(&ranks);
    for (uint32_t i = 0; i < MOST; i++) {
        struct exp_rank entry = {(double)(ebb_splitmix64(&seed) % values), i};
        CHECK_OK(exp_ranks_insert(&ranks, entry, ties, &index, &err), &err);
        CHECK_EQ(index, plain_insert(&p, entry, ties));
    }
    check_equal(&ranks, &p);
    for (uint32_t i = 0; i < MOST; i += 3) {
        CHECK(exp_ranks_remove(&ranks, i));
        CHECK(!exp_ranks_remove(&ranks, i));
        size_t at = 0;
        while (p.items[at].trial != i)
            at++;
        memmove(p.items + at, p.items + at + 1, (p.count - at - 1) * sizeof *p.items);
        p.count--;
    }
    check_equal(&ranks, &p);
    for (uint32_t i = 0; i < MOST; i++)
        exp_ranks_remove(&ranks, i);
    CHECK_EQ(ranks.count, 0);
    CHECK_OK(exp_ranks_insert(&ranks, (struct exp_rank){1, 1}, ties, &index, &err), &err);
    CHECK_EQ(index, 0);
    exp_ranks_fini(&ranks);
}

TEST(ranks__equal_a_plain_sorted_array)
{
    uint64_t live = ebb_heap_live();
    for (uint64_t values = 1; values <= 1000000; values *= 10) {
        compare(values, values, EXP_AFTER_EQUALS);
        compare(values + 1, values, EXP_BEFORE_EQUALS);
    }
    CHECK_EQ(ebb_heap_live(), live);
}

TEST(ranks__rising_and_falling_input)
{
    for (int falls = 0; falls < 2; falls++) {
        struct exp_ranks ranks;
        struct ebb_error err;
        size_t index;
        exp_ranks_init(&ranks);
        for (uint32_t i = 0; i < 20000; i++) {
            double metric = falls ? -(double)i : (double)i;
            CHECK_OK(exp_ranks_insert(&ranks, (struct exp_rank){metric, i}, EXP_AFTER_EQUALS,
                                      &index, &err),
                     &err);
            CHECK_EQ(index, falls ? 0 : i);
        }
        exp_ranks_fini(&ranks);
    }
}

TEST_MAIN()
