/* Sums along steps against a plain array: what is added to ranges, the most, and where a limit is passed. */
#include "test.h"

#include "base/rng.h"
#include "planner/sums.h"

enum { MOST = 70, ADDS = 60, ROUNDS = 500 };

static uint64_t state = 1;

static size_t draw(size_t below)
{
    return (size_t)(ebb_splitmix64(&state) % below);
}

static void check_searches(const struct sums *s, const int64_t *plain, size_t count)
{
    int64_t limit = (int64_t)draw(4000) - 2000;
    size_t end = 1 + draw(count), first = draw(end), last_above = 0, first_above = end;
    for (size_t i = 0; i < end; i++)
        last_above = plain[i] > limit ? i + 1 : last_above;
    for (size_t i = end; i-- > first;)
        first_above = plain[i] > limit ? i : first_above;
    CHECK_EQ(planner_sums_last_above(s, end, limit), last_above);
    CHECK_EQ(planner_sums_first_above(s, first, end, limit), first_above);
}

TEST(sums__are_those_of_an_array)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = 1 + draw(MOST);
        int64_t plain[2 * MOST] = {0};
        struct ebb_error err;
        struct sums s;
        CHECK_OK(planner_sums_init(&s, count, &err), &err);
        for (int k = 0; k < ADDS; k++) {
            size_t first = draw(count), end = first + draw(count - first + 1);
            int64_t value = (int64_t)draw(1000) - 500, most = INT64_MIN;
            planner_sums_add(&s, first, end, (uint64_t)value);
            for (size_t i = first; i < end; i++)
                plain[i] += value;
            for (size_t i = 0; i < s.leaves; i++)
                most = plain[i] > most ? plain[i] : most;
            CHECK_EQ(planner_sums_most(&s), most);
            check_searches(&s, plain, count);
        }
        planner_sums_fini(&s);
    }
}

TEST_MAIN()
