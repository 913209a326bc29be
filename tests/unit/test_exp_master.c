/* The master with real processes: what they train, how they fail, who gets the slots. */
#include "test.h"

#include "exp/exp.h"
#include "master_fixture.h"

static char yaml[4096];

TEST(random_search__completes_and_keeps_what_the_policy_says)
{
    TEST_UNUSED;
    struct fixture f;
    fixture_begin(&f, 2);
    fixture_open(&f);
    int64_t id = fixture_submit(
        &f, fixture_yaml(yaml, sizeof yaml, "", "name: random, max_steps: 3, max_trials: 4",
                         "min_validation_period: 1\ncheckpoint_policy: all\n"));
    fixture_run(&f, 60);
    const struct ebb_doc_node *e = fixture_get(&f, "/experiments/%lld", (long long)id);
    CHECK_STR(ebb_doc_string(e, "state", ""), "COMPLETED");
    CHECK_EQ(ebb_doc_int(e, "num_trials", 0), 4);
    CHECK_EQ(ebb_doc_int(e, "num_ended", 0), 4);
    const struct ebb_doc_node *trials =
        ebb_doc_get(fixture_get(&f, "/experiments/%lld/trials", (long long)id), "trials");
    CHECK_EQ(trials->count, 4);
    for (size_t i = 0; i < trials->count; i++) {
        CHECK_STR(ebb_doc_string(trials->items[i], "state", ""), "COMPLETED");
        CHECK_EQ(ebb_doc_int(trials->items[i], "steps", 0), 3);
        CHECK_EQ(ebb_doc_int(trials->items[i], "restarts", -1), 0);
    }
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/%lld/checkpoints", (long long)id), "checkpoints");
    CHECK_EQ(list->count, 12);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct ebb_doc_node *c = list->items[i];
        bool is_kept = strcmp(ebb_doc_string(c, "state", ""), "COMPLETED") == 0;
        CHECK_EQ(access(ebb_doc_string(c, "path", ""), F_OK) == 0, is_kept);
        kept += is_kept;
    }
    CHECK(kept >= 4 && kept <= 8); /* best and latest of each trial */
    fixture_end(&f);
}

TEST_MAIN(RUN(random_search__completes_and_keeps_what_the_policy_says))
