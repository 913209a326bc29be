/* The experiment file: search space and searcher. */
#include "exp_config_support.h"

#define SPACE "hyperparameters: {global_batch_size: 64, "

/* ---- hyperparameters ---- */

struct mistake { /* where, and what is said there */
    const char *path, *value;
};

TEST(hparam__plain_values_are_constants)
{
    struct reading r;
    reading_open(&r, SPACE "z: [1, 2], a: text, n: null}");
    CHECK_OK(r.status, &r.err);
    const struct exp_hparams *h = &r.config.hyperparameters;
    CHECK_EQ(h->count, 4);
    CHECK_STR(h->items[0].name, "a"); /* byte order, whatever the file's */
    CHECK_STR(h->items[1].name, "global_batch_size");
    CHECK_STR(h->items[2].name, "n");
    CHECK_EQ(h->items[2].value->kind, EBB_DOC_NULL);
    CHECK_EQ(h->items[3].value->count, 2);
    CHECK_STR(normal_json(&r, "hyperparameters", "a"), "{\"type\": \"const\", \"val\": \"text\"}");
    CHECK(exp_hparams_find(h, "z") == &h->items[3]);
    CHECK(exp_hparams_find(h, "y") == NULL);
    reading_close(&r);
}

TEST(hparam__ranges_become_typed)
{
    struct reading r;
    reading_open(&r, SPACE "a: {type: int, minval: -3, maxval: 4.0, count: 2}, "
                           "b: {type: double, minval: 0, maxval: 0.5}, "
                           "c: {type: log, base: 10, minval: -4, maxval: -1}, "
                           "d: {type: categorical, vals: [x, 1, [2]]}}");
    CHECK_OK(r.status, &r.err);
    const struct exp_hparam *h = r.config.hyperparameters.items;
    CHECK_EQ(h[0].kind, EXP_HPARAM_INT);
    CHECK(h[0].int_min == -3 && h[0].int_max == 4 && h[0].count == 2);
    CHECK_EQ(h[1].kind, EXP_HPARAM_DOUBLE);
    CHECK(h[1].min == 0 && h[1].max == 0.5 && h[1].count == 0);
    CHECK_EQ(h[2].kind, EXP_HPARAM_LOG);
    CHECK(h[2].base == 10 && h[2].min == -4 && h[2].max == -1);
    CHECK_EQ(h[3].kind, EXP_HPARAM_CATEGORICAL);
    CHECK(h[3].value_count == 3 && h[3].values[1]->integer == 1);
    reading_close(&r);
}

TEST(hparam__rules)
{
    static const struct mistake bad[] = {
        {"a.type", "{minval: 1, maxval: 2}"},
        {"a.type", "{}"},
        {"a.type", "{type: uniform, minval: 1, maxval: 3}"},
        {"a.val", "{type: const}"},
        {"a", "{type: int, minval: 3, maxval: 3}"},
        {"a", "{type: int, minval: 4, maxval: 3}"},
        {"a.minval", "{type: int, minval: 1.5, maxval: 3}"},
        {"a.minval", "{type: int, maxval: 3}"},
        {"a.maxval", "{type: int, minval: 3}"},
        {"a.count", "{type: int, minval: 1, maxval: 3, count: 0}"},
        {"a", "{type: int, minval: -9223372036854775807, maxval: 9223372036854775807}"},
        {"a", "{type: double, minval: 0, maxval: 0}"},
        {"a.maxval", "{type: double, minval: 0, maxval: '1'}"},
        {"a", "{type: double, minval: -1.7e308, maxval: 1.7e308}"},
        {"a.base", "{type: log, base: 0, minval: -3, maxval: -1}"},
        {"a.base", "{type: log, base: -2, minval: -3, maxval: -1}"},
        {"a.base", "{type: log, minval: -3, maxval: -1}"},
        {"a", "{type: log, base: 10, minval: -1, maxval: -1}"},
        {"a", "{type: log, base: 10, minval: 0, maxval: 400}"},
        {"a.vals", "{type: categorical, vals: []}"},
        {"a.vals", "{type: categorical}"},
        {"a.vals", "{type: categorical, vals: x}"},
        {"a.vals", "{type: int, minval: 1, maxval: 3, vals: [1]}"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[256], path[64];
        snprintf(line, sizeof line, SPACE "a: %s}", bad[i].value);
        snprintf(path, sizeof path, "hyperparameters.%s", bad[i].path);
        expect_refused(path, line);
    }
    expect_accepted(SPACE "a: {type: int, minval: 0, maxval: 9223372036854775806}}");
    expect_refused("hyperparameters.a",
                   SPACE "a: {type: int, minval: 0, maxval: 9223372036854775807}}");
    expect_refused("hyperparameters.", SPACE "'': 1}");
}

TEST(batch_size__is_required_and_every_value_a_positive_integer)
{
    static const char *const bad[] = {"32.5",
                                      "'32'",
                                      "0",
                                      "-1",
                                      "null",
                                      "[32]",
                                      "{type: categorical, vals: [32, x]}",
                                      "{type: categorical, vals: [32, 0]}",
                                      "{type: int, minval: 0, maxval: 8}",
                                      "{type: double, minval: 1, maxval: 8}",
                                      "{type: log, base: 2, minval: 1, maxval: 8}"};
    static const char *const good[] = {"32.0", "{type: categorical, vals: [32, 64]}",
                                       "{type: int, minval: 1, maxval: 8}",
                                       "{type: const, val: 1}"};
    char line[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(line, sizeof line, "hyperparameters: {global_batch_size: %s}", bad[i]);
        expect_refused("hyperparameters.global_batch_size", line);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(line, sizeof line, "hyperparameters: {global_batch_size: %s}", good[i]);
        expect_accepted(line);
    }
    expect_refused("hyperparameters.global_batch_size", "hyperparameters: {lr: 0.1}");
    expect_refused("hyperparameters.global_batch_size", "hyperparameters: null");
}

TEST(batch_size__feeds_every_slot)
{
    struct reading r;
    const char *const line =
        "hyperparameters: {global_batch_size: {type: categorical, vals: [8, 3]}}\nresources: ";
    char text[256];
    snprintf(text, sizeof text, "%s{slots_per_trial: 4}", line);
    expect_refused("hyperparameters.global_batch_size", text);
    snprintf(text, sizeof text, "%s{slots_per_trial: 4, native_parallel: true}", line);
    expect_accepted(text);
    expect_refused("hyperparameters.global_batch_size",
                   "hyperparameters: {global_batch_size: 0}\nresources: {native_parallel: true}");
    reading_open(&r, "hyperparameters: {global_batch_size: 10}\nresources: {slots_per_trial: 4}");
    CHECK_OK(r.status, &r.err);
    const struct ebb_finding *f =
        reading_find(&r, EBB_FINDING_WARNING, "hyperparameters.global_batch_size");
    CHECK(f && strstr(f->message, "10") && strstr(f->message, "8"));
    reading_close(&r);
    reading_open(&r, "hyperparameters: {global_batch_size: 8, batch_size: 8}");
    CHECK(reading_find(&r, EBB_FINDING_WARNING, "hyperparameters.batch_size"));
    reading_close(&r);
}

/* ---- searchers ---- */

TEST(searcher__common_keys)
{
    expect_refused("searcher", "searcher: null");
    expect_refused("searcher.name", "searcher: {metric: m}");
    expect_refused("searcher.metric", "searcher: {name: single, max_steps: 1}");
    expect_refused("searcher.metric", "searcher: {name: single, max_steps: 1, metric: ''}");
    expect_refused("searcher.source_trial_id",
                   "searcher: {name: single, max_steps: 1, metric: m, source_trial_id: 3, "
                   "source_checkpoint_uuid: 01234567-89ab-cdef-0123-456789abcdef}");
    expect_refused("searcher.source_checkpoint_uuid",
                   "searcher: {name: single, max_steps: 1, metric: m, source_checkpoint_uuid: x}");
    struct reading r;
    reading_open(&r, "searcher: {name: pbt, metric: m, population_size: 2, num_rounds: 2, "
                     "steps_per_round: 1, replace_function: {truncate_fraction: 0.5}, "
                     "explore_function: {resample_probability: 0, perturb_factor: 1}, "
                     "source_checkpoint_uuid: 01234567-89AB-CDEF-0123-456789ABCDEF}");
    CHECK_OK(r.status, &r.err);
    CHECK_STR(r.config.searcher.source_checkpoint_uuid, "01234567-89ab-cdef-0123-456789abcdef");
    CHECK(r.config.searcher.truncate_fraction == 0.5 && r.config.searcher.perturb_factor == 1);
    reading_close(&r);
}

TEST(searcher__every_method_with_its_defaults)
{
    static const struct {
        const char *keys;
        enum exp_searcher_kind kind;
    } all[] = {
        {"single, max_steps: 1", EXP_SEARCHER_SINGLE},
        {"random, max_steps: 1, max_trials: 1", EXP_SEARCHER_RANDOM},
        {"grid, max_steps: 1", EXP_SEARCHER_GRID},
        {"adaptive, target_trial_steps: 16, step_budget: 160", EXP_SEARCHER_ADAPTIVE},
        {"adaptive_simple, max_steps: 1, max_trials: 2000", EXP_SEARCHER_ADAPTIVE_SIMPLE},
        {"pbt, population_size: 1, num_rounds: 1, steps_per_round: 1, replace_function: "
         "{truncate_fraction: 0}, explore_function: {resample_probability: 0, perturb_factor: 0}",
         EXP_SEARCHER_PBT},
        {"adaptive_asha, max_length: 64, max_trials: 16", EXP_SEARCHER_ADAPTIVE_ASHA},
        {"async_halving, max_length: 64, max_trials: 16, num_rungs: 3", EXP_SEARCHER_ASYNC_HALVING},
        {"tpe, max_steps: 4, max_trials: 16", EXP_SEARCHER_TPE},
        {"custom, command: [./search, --fast]", EXP_SEARCHER_CUSTOM},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct reading r;
        char line[300];
        snprintf(line, sizeof line, "searcher: {metric: m, name: %s}", all[i].keys);
        reading_open(&r, line);
        CHECK_OK(r.status, &r.err);
        CHECK_EQ(r.config.searcher.kind, all[i].kind);
        CHECK(strncmp(all[i].keys, exp_searcher_name(all[i].kind),
                      strlen(exp_searcher_name(all[i].kind))) == 0);
        CHECK(r.config.searcher.smaller_is_better);
        reading_close(&r);
    }
    struct reading r;
    reading_open(&r, "searcher: {metric: m, name: adaptive, target_trial_steps: 16, step_budget: "
                     "160}");
    CHECK_EQ(r.config.searcher.mode, EXP_MODE_STANDARD);
    CHECK(r.config.searcher.divisor == 4 && r.config.searcher.max_rungs == 5);
    reading_close(&r);
}

TEST(searcher__limits)
{
    static const struct mistake bad[] = {
        {"max_steps", "single, max_steps: 0"},
        {"max_trials", "random, max_steps: 1, max_trials: 0"},
        {"max_trials", "random, max_steps: 1"},
        {"max_steps", "grid"},
        {"step_budget", "adaptive, target_trial_steps: 64, step_budget: 64"},
        {"step_budget", "adaptive, target_trial_steps: 64, step_budget: 50001"},
        {"target_trial_steps", "adaptive, target_trial_steps: 0, step_budget: 64"},
        {"mode", "adaptive, target_trial_steps: 6, step_budget: 64, mode: fast"},
        {"divisor", "adaptive, target_trial_steps: 6, step_budget: 64, divisor: 1.0"},
        {"max_rungs", "adaptive, target_trial_steps: 6, step_budget: 64, max_rungs: 0"},
        {"max_rungs", "adaptive, target_trial_steps: 6, step_budget: 64, max_rungs: 40"},
        {"max_trials", "adaptive_simple, max_steps: 1, max_trials: 2001"},
        {"bracket_rungs", "adaptive_simple, max_steps: 1, max_trials: 1, bracket_rungs: []"},
        {"bracket_rungs[1]", "adaptive_simple, max_steps: 1, max_trials: 1, bracket_rungs: [1, 0]"},
        {"command", "custom, command: []"},
        {"command[1]", "custom, command: [a, 1]"},
        {"gamma", "tpe, max_steps: 1, max_trials: 1, gamma: 1"},
        {"max_concurrent_trials", "single, max_steps: 1, max_concurrent_trials: -1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[200], path[64];
        snprintf(line, sizeof line, "searcher: {metric: m, name: %s}", bad[i].value);
        snprintf(path, sizeof path, "searcher.%s", bad[i].path);
        expect_refused(path, line);
    }
    expect_accepted("searcher: {metric: m, name: adaptive, target_trial_steps: 64, step_budget: "
                    "50000}");
}

TEST(searcher__pbt_functions_are_required)
{
#define PBT "searcher: {name: pbt, metric: m, population_size: 2, num_rounds: 2, steps_per_round: 1"
    struct reading r;
    reading_open(&r, PBT "}");
    CHECK_EQ(r.report.errors, 2);
    CHECK_STR(r.report.items[0].path, "searcher.replace_function");
    CHECK_STR(r.report.items[1].path, "searcher.explore_function");
    reading_close(&r);
    expect_refused("searcher.replace_function.truncate_fraction",
                   PBT ", replace_function: {}, explore_function: {resample_probability: 0, "
                       "perturb_factor: 0}}");
    expect_refused("searcher.replace_function.truncate_fraction",
                   PBT ", replace_function: {truncate_fraction: 0.51}, explore_function: "
                       "{resample_probability: 0, perturb_factor: 0}}");
    expect_refused("searcher.explore_function.perturb_factor",
                   PBT ", replace_function: {truncate_fraction: 0.5}, explore_function: "
                       "{resample_probability: 1, perturb_factor: 1.5}}");
    expect_refused("searcher.explore_function.perturb",
                   PBT ", replace_function: {truncate_fraction: 0.5}, explore_function: "
                       "{resample_probability: 1, perturb_factor: 1, perturb: 1}}");
#undef PBT
}

TEST(searcher__brackets_that_are_all_empty_are_refused)
{
#define ADAPTIVE "searcher: {name: adaptive, metric: m, target_trial_steps: 64, step_budget: 65"
    /* With a divisor this small every rung holds one trial, and half the budget is no trial. */
    expect_refused("searcher.step_budget",
                   ADAPTIVE ", mode: conservative, max_rungs: 2, divisor: 1.01}");
    expect_refused("searcher.step_budget", ADAPTIVE ", bracket_rungs: [1, 1]}");
    expect_accepted(ADAPTIVE ", bracket_rungs: [1]}");
    expect_accepted(ADAPTIVE ", mode: aggressive, max_rungs: 1}");
    expect_accepted(ADAPTIVE ", mode: conservative, max_rungs: 2}");
#undef ADAPTIVE
}

/* ---- grid ---- */

TEST(grid__every_range_needs_a_count)
{
    struct reading r;
    reading_open(&r, "searcher: {name: grid, metric: m, max_steps: 1}\n" SPACE
                     "a: {type: int, minval: 0, maxval: 3}, b: {type: double, minval: 0, maxval: "
                     "1}, c: {type: log, base: 2, minval: 0, maxval: 1, count: 2}, d: 4, "
                     "e: {type: categorical, vals: [1]}}");
    CHECK_EQ(r.report.errors, 2);
    CHECK_STR(r.report.items[0].path, "hyperparameters.a.count");
    CHECK_STR(r.report.items[1].path, "hyperparameters.b.count");
    reading_close(&r);
}

TEST(grid__has_at_most_2000_points_and_an_int_range_counts_both_ends)
{
#define GRID "searcher: {name: grid, metric: m, max_steps: 1}\n" SPACE
    expect_accepted(GRID "a: {type: int, minval: 1, maxval: 2000, count: 5000}}");
    expect_refused("hyperparameters", GRID "a: {type: int, minval: 0, maxval: 2000, count: 5000}}");
    expect_accepted(GRID "a: {type: double, minval: 0, maxval: 1, count: 1000}, b: {type: "
                         "categorical, vals: [1, 2]}}");
    expect_refused("hyperparameters",
                   GRID "a: {type: double, minval: 0, maxval: 1, count: 1001}, b: {type: "
                        "categorical, vals: [1, 2]}}");
    expect_refused("hyperparameters",
                   GRID "a: {type: double, minval: 0, maxval: 1, count: 9000000000000000000}, "
                        "b: {type: double, minval: 0, maxval: 1, count: 9000000000000000000}}");
    expect_refused("hyperparameters.a", GRID "a: {type: int, minval: 4, maxval: 3, count: 2}}");
#undef GRID
}

/* ---- the two sections alone ---- */

TEST(search_parse__reads_the_sections_alone)
{
    struct ebb_arena arena;
    struct ebb_error err = {0};
    const struct ebb_doc_node *root = NULL;
    struct exp_searcher searcher;
    struct exp_hparams hparams;
    static const char text[] = "s: {name: grid, metric: m, max_steps: 1}\n"
                               "bad: {name: grid, metric: m, max_step: 1}\n"
                               "h: {b: {type: int, minval: 0, maxval: 3, count: 2}, a: 1}\n"
                               "open: {b: {type: int, minval: 0, maxval: 3}}\nnone: {}\n";
    ebb_arena_init(&arena);
    CHECK_OK(ebb_doc_parse_yaml(&arena, "t", text, sizeof text - 1, &root, &err), &err);
    const struct ebb_doc_node *s = ebb_doc_get(root, "s"), *h = ebb_doc_get(root, "h");
    CHECK_OK(exp_search_parse(&arena, "search", s, h, &searcher, &hparams, &err), &err);
    CHECK_EQ(searcher.kind, EXP_SEARCHER_GRID);
    CHECK_EQ(hparams.count, 2);
    CHECK_OK(exp_search_parse(&arena, "search", NULL, h, NULL, &hparams, &err), &err);
    CHECK_OK(exp_search_parse(&arena, "search", s, NULL, &searcher, NULL, &err), &err);
    CHECK_EQ(
        exp_search_parse(&arena, "search", ebb_doc_get(root, "bad"), h, &searcher, &hparams, &err),
        EBB_EINPUT);
    CHECK(strstr(err.message, "searcher.max_step: ") &&
          strstr(err.message, "searcher.max_steps: "));
    CHECK_EQ(
        exp_search_parse(&arena, "search", s, ebb_doc_get(root, "open"), &searcher, &hparams, &err),
        EBB_EINPUT);
    CHECK_EQ(
        exp_search_parse(&arena, "search", s, ebb_doc_get(root, "none"), &searcher, &hparams, &err),
        EBB_EINPUT);
    CHECK_EQ(exp_search_parse(&arena, "search", NULL, h, &searcher, &hparams, &err), EBB_EINPUT);
    ebb_arena_fini(&arena);
}

TEST_MAIN()
