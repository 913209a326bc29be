/* Samples, metrics, and the rules around every search method. */
#include "exp_kit.h"

#include <float.h>
#include <math.h>

/* ---- samples ---- */

static struct exp_hparams space_of(struct kit *k, const char *space)
{
    kit_parse(k, "{name: single, metric: m, max_steps: 1}", space);
    return k->space;
}

TEST(int__is_drawn_from_both_ends_inclusive)
{
    static struct kit k;
    struct exp_hparams space = space_of(&k, "{i: {type: int, minval: -1, maxval: 1}}");
    struct ebb_mt19937 rng;
    bool seen[3] = {false};
    ebb_mt_seed(&rng, 1);
    for (int n = 0; n < 200; n++) {
        struct exp_value v = exp_sample_one(&space.items[0], &rng);
        CHECK(v.kind == EXP_VALUE_INT && v.integer >= -1 && v.integer <= 1);
        seen[v.integer + 1] = true;
    }
    CHECK(seen[0] && seen[1] && seen[2]);
    kit_close(&k);
}

TEST(int__of_the_widest_range_neither_overflows_nor_leaves_it)
{
    static struct kit k;
    struct exp_hparams space = space_of(
        &k,
        "{i: {type: int, minval: -4000000000000000000, maxval: 4000000000000000000, count: 5}}");
    struct ebb_mt19937 rng;
    ebb_mt_seed(&rng, 1);
    for (int n = 0; n < 100; n++) {
        int64_t v = exp_sample_one(&space.items[0], &rng).integer;
        CHECK(v >= -4000000000000000000 && v <= 4000000000000000000);
    }
    CHECK_EQ(exp_grid_value(&space.items[0], 0).integer, -4000000000000000000);
    CHECK_EQ(exp_grid_value(&space.items[0], 2).integer, 0);
    CHECK_EQ(exp_grid_value(&space.items[0], 4).integer, 4000000000000000000);
    kit_close(&k);
}

TEST(single_choice__draws_nothing)
{
    static struct kit k;
    struct exp_hparams space =
        space_of(&k, "{c: {type: categorical, vals: [only]}, d: 5, n: null, l: [1, 2]}");
    struct ebb_mt19937 rng;
    struct exp_value sample[4];
    ebb_mt_seed(&rng, 3);
    exp_sample(&space, &rng, sample);
    CHECK_EQ(rng.position, 624);
    CHECK_STR(sample[0].node->text, "only");
    kit_close(&k);
}

TEST(grid__counts_nothing_without_a_count_and_saturates)
{
    static struct kit k;
    struct exp_hparams space = space_of(&k, "{a: {type: double, minval: 0, maxval: 1}, b: {type: "
                                            "int, minval: 0, maxval: 5, count: 9}}");
    CHECK_EQ(exp_grid_count(&space.items[0]), 0);
    CHECK_EQ(exp_grid_count(&space.items[1]), 6);
    CHECK_EQ(exp_grid_size(&space), 0);
    kit_close(&k);
    space = space_of(&k, "{a: {type: double, minval: 0, maxval: 1, count: 4000000000000},"
                         " b: {type: double, minval: 0, maxval: 1, count: 4000000000000},"
                         " c: {type: double, minval: 0, maxval: 1, count: 4000000000000}}");
    CHECK(exp_grid_size(&space) == UINT64_MAX);
    kit_close(&k);
}

TEST(grid__without_parameters_is_refused)
{
    static struct kit k;
    kit_parse(&k, "{name: single, metric: m, max_steps: 1}", "{}");
    k.searcher.kind = EXP_SEARCHER_GRID;
    CHECK_EQ(exp_search_create(&k.searcher, &k.space, k.failure, 0, &k.search, &k.err), EBB_EINPUT);
    CHECK(strstr(k.err.message, "no hyperparameter") != NULL);
    kit_close(&k);
}

TEST(explore__keeps_within_the_bounds)
{
    static struct kit k;
    kit_parse(&k,
              "{name: pbt, metric: m, population_size: 4, num_rounds: 2, steps_per_round: 1,"
              " replace_function: {truncate_fraction: 0.5},"
              " explore_function: {resample_probability: 0.1, perturb_factor: 0.9}}",
              "{i: {type: int, minval: -8, maxval: 9}, d: {type: double, minval: -1, maxval: 2},"
              " l: {type: log, base: 0.5, minval: 1, maxval: 3}}");
    struct ebb_mt19937 rng;
    struct exp_value sample[3];
    ebb_mt_seed(&rng, 5);
    exp_sample(&k.space, &rng, sample);
    for (int n = 0; n < 500; n++) {
        exp_explore(&k.space, &k.searcher, &rng, sample, sample);
        CHECK(sample[0].number >= -1 && sample[0].number <= 2);
        CHECK(sample[1].integer >= -8 && sample[1].integer <= 9);
        CHECK(sample[2].number >= 0.125 && sample[2].number <= 0.5);
    }
    kit_close(&k);
}

/* ---- request ids, metrics, events ---- */

TEST(request_id__reads_back)
{
    struct exp_request_id id, back;
    char text[EXP_REQUEST_TEXT];
    for (int i = 0; i < 16; i++)
        id.bytes[i] = (uint8_t)(17 * i);
    CHECK_STR(exp_request_format(id, text), "00112233-4455-6677-8899-aabbccddeeff");
    CHECK(exp_request_parse(text, 36, &back) && memcmp(&id, &back, 16) == 0);
    CHECK(exp_request_parse("00112233-4455-6677-8899-AABBCCDDEEFF", 36, &back));
    CHECK(!exp_request_parse("00112233-4455-6677-8899-aabbccddeef", 35, &back));
    CHECK(!exp_request_parse("00112233x4455-6677-8899-aabbccddeeff", 36, &back));
    CHECK(!exp_request_parse("0011223g-4455-6677-8899-aabbccddeeff", 36, &back));
}

TEST(nan__is_the_worst_in_both_directions)
{
    CHECK(exp_metric_signed((double)NAN, true) == DBL_MAX);
    CHECK(exp_metric_signed((double)NAN, false) == DBL_MAX); /* -DBL_MAX, its sign turned */
    CHECK(exp_metric_signed(2, false) == -2);
    CHECK(exp_metric_signed(-(double)INFINITY, true) == -(double)INFINITY);
}

TEST(metric__missing_or_no_number_lists_the_names)
{
    struct ebb_arena arena;
    struct ebb_error err;
    const struct ebb_doc_node *metrics;
    const char *text = "{acc: 1, loss: NaN, text: high, none: null, inf: -Infinity}";
    double value;
    ebb_arena_init(&arena);
    CHECK_OK(ebb_doc_parse_yaml(&arena, "m", text, strlen(text), &metrics, &err), &err);
    CHECK_OK(exp_metric_find(metrics, "acc", &value, &err), &err);
    CHECK(value == 1);
    CHECK_OK(exp_metric_find(metrics, "loss", &value, &err), &err);
    CHECK(isnan(value));
    CHECK_OK(exp_metric_find(metrics, "inf", &value, &err), &err);
    CHECK(value == -(double)INFINITY);
    CHECK_EQ(exp_metric_find(metrics, "auc", &value, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "'auc'") && strstr(err.message, "acc, loss, text, none, inf"));
    CHECK_EQ(exp_metric_find(metrics, "text", &value, &err), EBB_EINPUT);
    CHECK_EQ(exp_metric_find(metrics, "none", &value, &err), EBB_EINPUT);
    CHECK_EQ(exp_metric_find(NULL, "acc", &value, &err), EBB_EINPUT);
    ebb_arena_fini(&arena);
}

TEST(event__reads_back)
{
    struct ebb_arena arena;
    struct ebb_error err;
    ebb_arena_init(&arena);
    for (int kind = EXP_EVENT_CREATED; kind <= EXP_EVENT_EXITED; kind++) {
        struct exp_event event = {.kind = (enum exp_event_kind)kind,
                                  .trial_id = 4,
                                  .step = 9,
                                  .metric = -(double)INFINITY,
                                  .reason = EXP_EXIT_INVALID_HP},
                         back;
        struct ebb_str text;
        struct ebb_json_writer w;
        const struct ebb_doc_node *node;
        event.request.bytes[3] = 77;
        ebb_str_init(&text);
        ebb_jsonw_init(&w, &text, 0);
        exp_event_write(&event, &w);
        CHECK_OK(ebb_doc_parse_json(&arena, "e", ebb_str_c(&text), text.length, &node, &err), &err);
        CHECK_OK(exp_event_read(node, &back, &err), &err);
        CHECK_EQ(back.kind, kind);
        CHECK(memcmp(&back.request, &event.request, 16) == 0);
        CHECK(kind != EXP_EVENT_CREATED || back.trial_id == 4);
        CHECK(kind != EXP_EVENT_VALIDATED || (back.step == 9 && back.metric == event.metric));
        CHECK(kind != EXP_EVENT_EXITED || back.reason == EXP_EXIT_INVALID_HP);
        ebb_str_fini(&text);
    }
    ebb_arena_fini(&arena);
}

TEST(event__broken_ones_say_what_is_wrong)
{
#define ID "\"request_id\":\"00112233-4455-6677-8899-aabbccddeeff\""
    static const char *const broken[] = {
        "{}",
        "{\"type\":\"x\"}",
        "{\"type\":\"trial_closed\"}",
        "{\"type\":\"trial_closed\",\"request_id\":\"abc\"}",
        "{\"type\":\"step_completed\"," ID "}",
        "{\"type\":\"validation_completed\"," ID ",\"step\":1,\"metric\":null}",
        "{\"type\":\"trial_exited_early\"," ID ",\"reason\":\"BORED\"}",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct ebb_arena arena;
        struct ebb_error err;
        struct exp_event event;
        const struct ebb_doc_node *node;
        ebb_arena_init(&arena);
        CHECK_OK(ebb_doc_parse_json(&arena, "e", broken[i], strlen(broken[i]), &node, &err), &err);
        CHECK_EQ(exp_event_read(node, &event, &err), EBB_EINPUT);
        ebb_arena_fini(&arena);
    }
}

/* ---- rules around every method ---- */

#define RANDOM2 "{name: random, metric: m, max_steps: 3, max_trials: 2}"

TEST(random__asks_for_everything_at_once)
{
    static struct kit k;
    kit_open(&k, RANDOM2, "{x: 1}");
    CHECK_STR(kit_start(&k), "C0 T0:1-3 V0:3 X0 C1 T1:1-3 V1:3 X1");
    CHECK_STR(kit_result(&k, 0, 3, 1), "");
    CHECK_STR(kit_closed(&k, 0), "");
    CHECK_STR(kit_result(&k, 1, 3, 1), "");
    CHECK(exp_search_progress(k.search) == 1.0);
    CHECK_STR(kit_closed(&k, 1), "END");
    CHECK(k.search->is_shut_down);
    kit_close(&k);
}

TEST(completions__nobody_asked_for_do_not_count) /* S1 */
{
    static struct kit k;
    kit_open(&k, RANDOM2, "{x: 1}");
    kit_start(&k);
    CHECK_STR(kit_trained(&k, 0, 1), "");
    CHECK_STR(kit_validated(&k, 0, 1, 0.1), "");
    CHECK_STR(kit_checkpointed(&k, 0, 1), "");
    CHECK_EQ(k.search->workloads, 1);
    kit_close(&k);
}

TEST(completions__done_again_after_a_crash_count_once) /* S2 */
{
    static struct kit k;
    kit_open(&k, RANDOM2, "{x: 1}");
    kit_start(&k);
    kit_result(&k, 0, 3, 0.5);
    CHECK_EQ(k.search->workloads, 4);
    CHECK_STR(kit_trained(&k, 0, 2), "");
    CHECK_EQ(k.search->workloads, 4);
    CHECK_STR(kit_trained(&k, 0, 3), "");
    CHECK_STR(kit_validated(&k, 0, 3, 0.5), "");
    CHECK_EQ(k.search->workloads, 4);
    kit_close(&k);
}

TEST(events__that_cannot_be_are_refused_and_change_nothing)
{
    static struct kit k;
    kit_open(&k, RANDOM2, "{x: 1}");
    struct exp_event event = {.kind = EXP_EVENT_TRAINED, .step = 1};
    CHECK(exp_search_event(k.search, &event, &k.ops, &k.err) != EBB_OK); /* not started */
    kit_start(&k);
    CHECK_EQ(exp_search_event(k.search, &event, &k.ops, &k.err), EBB_EINPUT); /* unknown trial */
    event.request = k.ids[0];
    event.step = 4;
    CHECK_EQ(exp_search_event(k.search, &event, &k.ops, &k.err), EBB_EINPUT); /* beyond */
    CHECK(strstr(k.err.message, "step 4 of 3") != NULL);
    CHECK_EQ(exp_search_start(k.search, &k.ops, &k.err), EBB_EINTERNAL); /* twice */
    CHECK_STR(kit_trained(&k, 0, 3), "");
    kit_close(&k);
}

TEST(limit__holds_creations_back_and_draws_the_same_trials) /* S6 */
{
    static struct kit k, free_one;
    const char *space = "{x: {type: double, minval: 0, maxval: 1}}";
    kit_open(&k, "{name: random, metric: m, max_steps: 2, max_trials: 4, max_concurrent_trials: 2}",
             space);
    kit_open(&free_one, "{name: random, metric: m, max_steps: 2, max_trials: 4}", space);
    kit_start(&free_one);
    CHECK_STR(kit_start(&k), "C0 T0:1-2 V0:2 X0 C1 T1:1-2 V1:2 X1");
    CHECK_STR(kit_trained(&k, 1, 2), "");
    CHECK_STR(kit_validated(&k, 1, 2, 0), "C2 T2:1-2 V2:2 X2");
    CHECK_STR(kit_closed(&k, 1), "");
    CHECK_STR(kit_exited(&k, 0, EXP_EXIT_ERRORED), "C3 T3:1-2 V3:2 X3");
    for (uint32_t i = 0; i < 4; i++)
        CHECK(memcmp(&k.ids[i], &free_one.ids[i], 16) == 0);
    kit_result(&k, 2, 2, 0), kit_result(&k, 3, 2, 0);
    CHECK_STR(kit_closed(&k, 2), "");
    CHECK_STR(kit_closed(&k, 3), "END");
    kit_close(&k);
    kit_close(&free_one);
}

/* ---- failures, both ways ---- */

TEST(failure__ends_the_experiment_by_default)
{
    static struct kit k;
    kit_parse(&k, RANDOM2, "{x: 1}");
    k.failure = EXP_FAILURE_FAIL_EXPERIMENT;
    CHECK_OK(exp_search_create(&k.searcher, &k.space, k.failure, 7, &k.search, &k.err), &k.err);
    kit_start(&k);
    CHECK_STR(kit_exited(&k, 0, EXP_EXIT_ERRORED), "FAIL");
    CHECK_STR(kit_result(&k, 1, 3, 1), ""); /* ignored from now on */
    CHECK_STR(kit_closed(&k, 1), "");
    kit_close(&k);
}

TEST(failure__continue_completes_if_one_trial_completed)
{
    static struct kit k;
    kit_open(&k, RANDOM2, "{x: 1}");
    kit_start(&k);
    CHECK_STR(kit_exited(&k, 0, EXP_EXIT_ERRORED), "");
    CHECK_STR(kit_closed(&k, 0), ""); /* an echo */
    kit_result(&k, 1, 3, 1);
    CHECK_STR(kit_closed(&k, 1), "END");
    kit_close(&k);
}

TEST(failure__continue_fails_if_none_completed)
{
    static struct kit k;
    kit_open(&k, RANDOM2, "{x: 1}");
    kit_start(&k);
    CHECK_STR(kit_exited(&k, 0, EXP_EXIT_ERRORED), "");
    CHECK_STR(kit_exited(&k, 1, EXP_EXIT_ERRORED), "FAIL");
    kit_close(&k);
}

TEST(user_cancel__is_a_normal_close_under_either_policy)
{
    static struct kit k;
    kit_parse(&k, RANDOM2, "{x: 1}");
    k.failure = EXP_FAILURE_FAIL_EXPERIMENT;
    CHECK_OK(exp_search_create(&k.searcher, &k.space, k.failure, 7, &k.search, &k.err), &k.err);
    kit_start(&k);
    CHECK_STR(kit_exited(&k, 0, EXP_EXIT_USER_CANCELED), "");
    CHECK_STR(kit_exited(&k, 1, EXP_EXIT_USER_CANCELED), "END");
    kit_close(&k);
}

TEST(invalid_sample__is_replaced_but_not_for_ever) /* S9 */
{
    static struct kit k;
    kit_open(&k, "{name: random, metric: m, max_steps: 3, max_trials: 1}",
             "{x: {type: double, minval: 1, maxval: 9}}");
    kit_start(&k);
    CHECK_STR(kit_exited(&k, 0, EXP_EXIT_INVALID_HP), "C1 T1:1-3 V1:3 X1");
    for (uint32_t i = 1; i < 100; i++)
        CHECK(strstr(kit_exited(&k, i, EXP_EXIT_INVALID_HP), "C") != NULL);
    CHECK_STR(kit_exited(&k, 100, EXP_EXIT_INVALID_HP), "FAIL");
    kit_close(&k);
}

TEST(invalid_sample__a_validation_between_starts_the_count_anew)
{
    static struct kit k;
    kit_open(&k, RANDOM2, "{x: {type: double, minval: 1, maxval: 9}}");
    kit_start(&k);
    uint32_t last = 0;
    for (int i = 0; i < 80; i++) {
        CHECK(strstr(kit_exited(&k, last, EXP_EXIT_INVALID_HP), "C") != NULL);
        last = (uint32_t)k.search->trial_count - 1;
    }
    kit_result(&k, 1, 3, 0.5);
    for (int i = 0; i < 80; i++) {
        CHECK(strstr(kit_exited(&k, last, EXP_EXIT_INVALID_HP), "C") != NULL);
        last = (uint32_t)k.search->trial_count - 1;
    }
    kit_close(&k);
}

TEST(invalid_sample__the_only_one_is_not_drawn_again)
{
    static struct kit k;
    kit_open(&k, "{name: single, metric: m, max_steps: 3}", "{x: 1}");
    kit_start(&k);
    CHECK_STR(kit_exited(&k, 0, EXP_EXIT_INVALID_HP), "FAIL");
    kit_close(&k);
}

TEST(invalid_sample__is_not_drawn_again_by_any_method)
{
    static const char *const methods[] = {
        "{name: random, metric: m, max_steps: 3, max_trials: 1}",
        "{name: tpe, metric: m, max_steps: 3, max_trials: 1}",
        "{name: async_halving, metric: m, max_length: 8, num_rungs: 2, divisor: 2, max_trials: 1, "
        "max_concurrent_trials: 1}",
        "{name: pbt, metric: m, population_size: 1, num_rounds: 2, steps_per_round: 1, "
        "replace_function: {truncate_fraction: 0}, explore_function: {resample_probability: 0, "
        "perturb_factor: 0.2}}",
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        static struct kit k;
        kit_open(&k, methods[i], "{x: {type: int, minval: 1, maxval: 9}}");
        kit_start(&k);
        for (uint32_t t = 0; t < 8; t++) {
            uint32_t by;
            CHECK(!exp_search_refused_by(k.search, t, &by));
            CHECK(strstr(kit_exited(&k, t, EXP_EXIT_INVALID_HP), "C") != NULL);
            CHECK(exp_search_refused_by(k.search, t, &by) && by == t);
        }
        for (uint32_t a = 0; a < 9; a++)
            for (uint32_t b = 0; b < a; b++)
                CHECK(k.search->trials[a].sample != k.search->trials[b].sample);
        CHECK(strstr(kit_exited(&k, 8, EXP_EXIT_INVALID_HP), "C") == NULL); /* there is no other */
        kit_close(&k);
    }
}

TEST(invalid_point__of_a_grid_has_no_replacement)
{
    static struct kit k;
    kit_open(&k, "{name: grid, metric: m, max_steps: 1}", "{x: {type: categorical, vals: [1, 2]}}");
    CHECK_STR(kit_start(&k), "C0 T0:1-1 V0:1 X0 C1 T1:1-1 V1:1 X1");
    CHECK_STR(kit_exited(&k, 0, EXP_EXIT_INVALID_HP), "");
    kit_result(&k, 1, 1, 0);
    CHECK_STR(kit_closed(&k, 1), "END");
    kit_close(&k);
}

TEST_MAIN()
