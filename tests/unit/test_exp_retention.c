/* Which checkpoints go. */
#include "test.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "exp/exp.h"

#define OPEN (-1.0) /* no metric */

/* The specification's worked example: trial 1 has ids 1..5, trial 2 ids 6..10. */
static const double metrics[10] = {OPEN, OPEN, .6, .5, .4, OPEN, .2, .3, OPEN, OPEN};

static void fill(struct exp_checkpoint c[10])
{
    for (int i = 0; i < 10; i++)
        c[i] = (struct exp_checkpoint){.id = i + 1,
                                       .trial = i < 5 ? 1 : 2,
                                       .step = i % 5 + 1,
                                       .is_completed = true,
                                       .has_metric = metrics[i] >= 0,
                                       .metric = metrics[i]};
}

static const char *kept(const struct exp_checkpoint *c, size_t count,
                        const struct exp_retention *policy)
{
    static char text[256];
    bool is_deleted[64];
    struct ebb_error err;
    size_t length = 0;
    text[0] = '\0';
    CHECK_OK(exp_retention_select(c, count, policy, is_deleted, &err), &err);
    for (size_t i = 0; i < count; i++)
        if (!is_deleted[i])
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%lld",
                                       length > 0 ? " " : "", (long long)c[i].id);
    return text;
}

TEST(retention__worked_examples)
{
    static const struct {
        int64_t best, trial_best, latest;
        const char *kept;
    } rows[] = {{0, 0, 0, ""},      {2, 0, 0, "7 8"},    {5, 0, 0, "3 4 5 7 8"},
                {0, 1, 0, "5 7"},   {0, 0, 1, "5 10"},   {0, 0, 3, "3 4 5 8 9 10"},
                {2, 1, 0, "5 7 8"}, {0, 1, 1, "5 7 10"}, {2, 1, 1, "5 7 8 10"}};
    struct exp_checkpoint c[10];
    fill(c);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct exp_retention policy = {rows[i].best, rows[i].trial_best, rows[i].latest, true};
        CHECK_STR(kept(c, 10, &policy), rows[i].kept);
    }
}

TEST(retention__larger_is_better_and_ties_go_to_the_lower_id)
{
    struct exp_checkpoint c[10];
    struct exp_retention policy = {.save_experiment_best = 1, .smaller_is_better = false};
    fill(c);
    CHECK_STR(kept(c, 10, &policy), "3");
    c[7].metric = .6;
    CHECK_STR(kept(c, 10, &policy), "3");
    c[7].id = 2; /* any order of the list */
    CHECK_STR(kept(c, 10, &policy), "2");
}

TEST(retention__protected_ones_stay_but_take_a_rank)
{
    struct exp_checkpoint c[10];
    struct exp_retention policy = {.save_experiment_best = 1, .smaller_is_better = true};
    fill(c);
    c[0].is_protected = true; /* a trial was started from it */
    CHECK_STR(kept(c, 10, &policy), "1 7");
    c[6].is_protected = true; /* the best one: the second best does not move up */
    CHECK_STR(kept(c, 10, &policy), "1 7");
}

TEST(retention__only_completed_ones_count)
{
    struct exp_checkpoint c[10];
    struct exp_retention policy = {.save_experiment_best = 1, .smaller_is_better = true};
    bool is_deleted[10];
    struct ebb_error err;
    fill(c);
    c[6].is_completed = false;
    CHECK_OK(exp_retention_select(c, 10, &policy, is_deleted, &err), &err);
    CHECK(!is_deleted[6]); /* not ours to delete */
    CHECK(!is_deleted[7]); /* the best of those that are complete */
}

TEST(retention__nan_is_a_metric_but_the_worst)
{
    struct exp_checkpoint c[10];
    struct exp_retention policy = {.save_experiment_best = 5, .smaller_is_better = false};
    fill(c);
    c[6].metric = (double)NAN;
    CHECK_STR(kept(c, 10, &policy), "3 4 5 7 8");
    policy.save_experiment_best = 4;
    CHECK_STR(kept(c, 10, &policy), "3 4 5 8");
}

/* The rule as the specification states it, one checkpoint at a time. */
static bool is_deleted_slowly(const struct exp_checkpoint *c, size_t n, size_t i,
                              const struct exp_retention *p)
{
    int64_t experiment_rank = 1, trial_rank = 1, recency = 1;
    for (size_t j = 0; j < n; j++) {
        if (j == i || !c[j].is_completed)
            continue;
        double a = exp_metric_signed(c[j].metric, p->smaller_is_better);
        double b = exp_metric_signed(c[i].metric, p->smaller_is_better);
        bool is_better = c[j].has_metric != c[i].has_metric ? c[j].has_metric
                         : c[j].has_metric && a != b        ? a < b
                                                            : c[j].id < c[i].id;
        experiment_rank += is_better;
        trial_rank += is_better && c[j].trial == c[i].trial;
        recency += c[j].trial == c[i].trial && c[j].step > c[i].step;
    }
    return c[i].is_completed && !c[i].is_protected && recency > p->save_trial_latest &&
           (!c[i].has_metric ||
            (experiment_rank > p->save_experiment_best && trial_rank > p->save_trial_best));
}

TEST(retention__equals_the_rule_on_random_lists)
{
    uint64_t rng = 5;
    for (int round = 0; round < 300; round++) {
        struct exp_checkpoint c[40];
        bool is_deleted[40];
        struct ebb_error err;
        size_t n = ebb_splitmix64(&rng) % 41;
        for (size_t i = 0; i < n; i++)
            c[i] = (struct exp_checkpoint){.id = (int64_t)(40 - i),
                                           .trial = (int64_t)(ebb_splitmix64(&rng) % 4),
                                           .step = (int64_t)i,
                                           .is_completed = ebb_splitmix64(&rng) % 5 > 0,
                                           .has_metric = ebb_splitmix64(&rng) % 3 > 0,
                                           .metric = (double)(ebb_splitmix64(&rng) % 6),
                                           .is_protected = ebb_splitmix64(&rng) % 9 == 0};
        struct exp_retention p = {
            (int64_t)(ebb_splitmix64(&rng) % 5), (int64_t)(ebb_splitmix64(&rng) % 3),
            (int64_t)(ebb_splitmix64(&rng) % 3), ebb_splitmix64(&rng) % 2 == 0};
        CHECK_OK(exp_retention_select(c, n, &p, is_deleted, &err), &err);
        for (size_t i = 0; i < n; i++)
            CHECK_EQ(is_deleted[i], is_deleted_slowly(c, n, i, &p));
    }
}

TEST_MAIN()
