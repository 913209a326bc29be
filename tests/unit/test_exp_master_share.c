/* Who gets the slots, with real processes: fair share by weight, and what pausing frees.
 * EBB_SHARE_SECONDS (default: a few) is how long is measured; 60 is what the bar asks for. */
#include "test.h"

#include <math.h>

#include "serve/serve.h"
#include "master_fixture.h"

static char yaml[4096];

struct held { /* slot-seconds of two experiments */
    double of[2];
};

/* Look at the slots after every turn and add up. */
static struct held measure(struct fixture *f, double seconds)
{
    struct held held = {{0, 0}};
    uint64_t start = ebb_clock_ns(), before = start;
    while ((double)(before - start) < seconds * 1e9) {
        exp_master_turn(f->m, 20);
        const struct ebb_doc_node *tasks = ebb_doc_get(fixture_get(f, "/tasks"), "tasks");
        uint64_t now = ebb_clock_ns();
        for (size_t i = 0; i < tasks->count; i++) {
            int64_t experiment = ebb_doc_int(tasks->items[i], "experiment_id", 0);
            if (ebb_doc_get(tasks->items[i], "slots")->count > 0)
                held.of[experiment - 1] += (double)(now - before) * 1e-9;
        }
        before = now;
    }
    return held;
}

static int64_t submit(struct fixture *f, const char *weight)
{
    char more[128];
    snprintf(more, sizeof more, "resources: {weight: %s}\n", weight);
    return fixture_submit(f, fixture_yaml(yaml, sizeof yaml, "--sleep-ms 150",
                                          "name: random, max_steps: 3, max_trials: 2000", more));
}

static size_t slots_of(struct fixture *f, int64_t experiment)
{
    size_t count = 0;
    const struct ebb_doc_node *tasks = ebb_doc_get(fixture_get(f, "/tasks"), "tasks");
    for (size_t i = 0; i < tasks->count; i++)
        if (ebb_doc_int(tasks->items[i], "experiment_id", 0) == experiment)
            count += ebb_doc_get(tasks->items[i], "slots")->count;
    return count;
}

TEST(weights_one_and_three__share_four_slots_so)
{
    struct fixture f;
    const char *text = getenv("EBB_SHARE_SECONDS");
    double seconds = text != NULL ? strtod(text, NULL) : 4;
    fixture_begin(&f, 4);
    fixture_open(&f);
    int64_t one = submit(&f, "1"), three = submit(&f, "3");
    FIXTURE_UNTIL(&f, slots_of(&f, one) == 1 && slots_of(&f, three) == 3); /* it had all at first */
    struct held held = measure(&f, seconds);
    double ratio = held.of[1] / held.of[0];
    print_message("slot-seconds %.2f and %.2f: 1:%.3f\n", held.of[0], held.of[1], ratio);
    CHECK(fabs(ratio - 3) <= 0.3);
    fixture_end(&f);
}

/* Two experiments that have two slots each. */
static void two_of_two(struct fixture *f, int64_t *one, int64_t *two)
{
    fixture_begin(f, 4);
    fixture_open(f);
    *one = submit(f, "1");
    *two = submit(f, "1");
    FIXTURE_UNTIL(f, slots_of(f, *one) == 2 && slots_of(f, *two) == 2);
}

TEST(pause__gives_the_slots_to_the_other_at_the_next_boundary)
{
    struct fixture f;
    int64_t one, two;
    two_of_two(&f, &one, &two);
    char target[64];
    snprintf(target, sizeof target, "/experiments/%lld/pause", (long long)one);
    fixture_ask(&f, "POST", target, NULL, NULL);
    FIXTURE_UNTIL(&f, slots_of(&f, one) == 0 && slots_of(&f, two) == 4);
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/%lld/trials", (long long)one), "trials");
    for (size_t i = 0; i < list->count; i++) /* nothing was lost, nothing failed */
        CHECK_EQ(ebb_doc_int(list->items[i], "restarts", -1), 0);
    fixture_end(&f);
}

TEST(weight__changes_while_running)
{
    struct fixture f;
    int64_t one, two;
    two_of_two(&f, &one, &two);
    char target[64];
    snprintf(target, sizeof target, "/experiments/%lld", (long long)two);
    fixture_ask(&f, "PATCH", target, "{\"resources\": {\"weight\": 100}}", NULL);
    FIXTURE_UNTIL(&f, slots_of(&f, one) == 1 && slots_of(&f, two) == 3);
    fixture_ask(&f, "PATCH", target, "{\"resources\": {\"max_slots\": 1}}", NULL);
    FIXTURE_UNTIL(&f, slots_of(&f, one) == 3 && slots_of(&f, two) == 1);
    fixture_end(&f);
}

TEST_MAIN()
