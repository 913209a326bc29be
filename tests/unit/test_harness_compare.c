/* Two results side by side: the same budgets, budgets between, models under aliases, failures. */
#include "test_arena.h"

#include <math.h>
#include <stdio.h>

#include "harness/harness.h"

/* A setting with one input: so many ms, so many MB at the peak. */
static void add(struct harness_results *r, const char *model, const char *params, double ms,
                double mb, const char *error)
{
    const struct ebb_doc_node *node;
    struct ebb_error err;
    CHECK_OK(ebb_doc_parse_json(&arena, "params", params, strlen(params), &node, &err), &err);
    struct harness_setting *s = harness_results_add(&arena, r, model, node);
    s->error = error;
    s->inputs = ebb_arena_calloc(&arena, 1, sizeof *s->inputs);
    s->input_count = 1;
    for (int m = 0; m < HARNESS_MEASURES; m++)
        s->inputs[0].figures[m] = (struct harness_figure){NAN, NAN, NAN, {NAN, NAN}, {NAN, NAN}};
    struct harness_figure *f = s->inputs[0].figures;
    f[HARNESS_TIME].median = f[HARNESS_GPU_TIME].median = ms;
    f[HARNESS_TOTAL_MEM].median = mb;
}

#define BASE "{\"type\": \"baseline\", \"batch_size\": 4}"
#define RATIO(type, ratio)                                                                         \
    "{\"type\": \"" type "\", \"kind\": \"ratio\", \"batch_size\": 4, \"ratio\": " ratio "}"
#define FIXED(type, bytes)                                                                         \
    "{\"type\": \"" type "\", \"kind\": \"fixed\", \"batch_size\": 4, \"memory_budget\": " bytes "}"

static struct harness_pairs compare(const struct harness_results *a,
                                    const struct harness_results *b)
{
    struct harness_pairs pairs;
    struct ebb_error err;
    CHECK_OK(harness_compare(&arena, a, b, &pairs, &err), &err);
    CHECK_EQ(pairs.count, a->count);
    return pairs;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

TEST(compare__finds_the_same_part_of_each_peak)
{
    struct harness_results a = {0}, b = {0};
    add(&a, "lstm", BASE, 10, 100, NULL);
    add(&a, "lstm", RATIO("dtr", "0.5"), 15, 50, NULL);
    add(&b, "lstm", BASE, 100, 8000, NULL); /* another machine: its own baseline counts */
    add(&b, "lstm", FIXED("dtr", "4e9"), 120, 4000, NULL);
    struct harness_pairs p = compare(&a, &b);
    CHECK(p.items[0].is_baseline && near(p.items[0].a_value.value, 10));
    CHECK(near(p.items[0].b_value.value, 100));
    CHECK(!p.items[1].is_baseline && near(p.items[1].ratio, 0.5) && !p.items[1].is_between);
    CHECK(near(p.items[1].a_value.value, 1.5) && near(p.items[1].b_value.value, 1.2));
}

TEST(compare__goes_between_neighbours_and_not_beyond)
{
    struct harness_results a = {0}, b = {0};
    add(&a, "lstm", BASE, 10, 100, NULL);
    add(&a, "lstm", RATIO("dtr", "0.6"), 15, 60, NULL);
    add(&a, "lstm", RATIO("dtr", "0.3"), 20, 30, NULL);
    add(&b, "lstm", BASE, 10, 100, NULL);
    add(&b, "lstm", RATIO("dtr", "0.8"), 11, 80, NULL);
    add(&b, "lstm", RATIO("dtr", "0.4"), 14, 40, NULL);
    struct harness_pairs p = compare(&a, &b);
    CHECK(p.items[1].is_between && near(p.items[1].b_value.value, 1.25));
    CHECK(!p.items[2].is_between && isnan(p.items[2].b_value.value));
}

TEST(compare__knows_aliases_and_takes_the_only_other_type)
{
    struct harness_results a = {0}, b = {0};
    add(&a, "densenet121", BASE, 10, 100, NULL);
    add(&a, "densenet121", RATIO("unified", "0.5"), 15, 50, NULL);
    add(&b, "tv_densenet121", BASE, 10, 100, NULL);
    add(&b, "tv_densenet121", RATIO("dtr", "0.5"), 18, 50, NULL);
    CHECK(near(compare(&a, &b).items[1].b_value.value, 1.8));
    add(&b, "tv_densenet121", RATIO("lru", "0.5"), 20, 50, NULL); /* which one is meant? */
    CHECK(isnan(compare(&a, &b).items[1].b_value.value));
    add(&b, "tv_densenet121", RATIO("unified", "0.5"), 14, 50, NULL);
    CHECK(near(compare(&a, &b).items[1].b_value.value, 1.4));
}

TEST(compare__tells_what_failed)
{
    struct harness_results a = {0}, b = {0};
    add(&a, "lstm", BASE, 10, 100, NULL);
    add(&a, "lstm", RATIO("dtr", "0.5"), 15, 50, NULL);
    add(&b, "lstm", BASE, 10, 100, NULL);
    add(&b, "lstm", RATIO("dtr", "0.5"), NAN, NAN, "out of memory");
    add(&b, "unet", RATIO("dtr", "0.5"), 1, 1, NULL);
    struct harness_pairs p = compare(&a, &b);
    CHECK_STR(p.items[1].b_error, "out of memory");
    CHECK(isnan(p.items[1].b_value.value));
}

TEST_MAIN_EACH(arena_open, arena_close)
