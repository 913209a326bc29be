/* Keys of Pareto files, each where it acts; lists, defaults, models. */
#include "test_arena.h"

#include <math.h>
#include <stdio.h>

#include "base/heap.h"
#include "harness/pareto.h"

static struct ebb_report report;

/* A file with `top` among its keys, and its commands of model resnet32 (or others as they are). */
static struct harness_pareto *parse(const char *top, const char *settings)
{
    struct ebb_str text = {0};
    struct ebb_error err = {0};
    struct harness_pareto *f = NULL;
    ebb_str_printf(&text, "{\"active\": true, \"n_reps\": 5, %s%s\"dtr_settings\": {%s}}", top,
                   *top ? ", " : "", settings);
    enum ebb_status status = harness_pareto_parse(&arena, "file.json", ebb_str_c(&text),
                                                  text.length, false, &f, &report, &err);
    ebb_str_fini(&text);
    if (status != EBB_OK)
        f = NULL;
    return f;
}

static struct harness_pareto *good(const char *top, const char *settings)
{
    struct harness_pareto *f = parse(top, settings);
    if (!f)
        fail_msg("%s", report.count ? report.items[0].message : "no JSON");
    return f;
}

/* The only setting of one command of resnet32. */
static const struct harness_setup *one(const char *command)
{
    char text[1024];
    snprintf(text, sizeof text, "\"resnet32\": [{\"batch_size\": 4, %s}]", command);
    struct harness_pareto *f = good("", text);
    CHECK_EQ(f->count, 1);
    return &f->setups[0];
}

static void refused(const char *top, const char *settings, const char *path, const char *words)
{
    CHECK(!parse(top, settings));
    for (size_t i = 0; i < report.count; i++)
        if (report.items[i].kind == EBB_FINDING_ERROR && strcmp(report.items[i].path, path) == 0) {
            if (!strstr(report.items[i].message, words))
                fail_msg("%s: %s", path, report.items[i].message);
            return;
        }
    fail_msg("nothing is said about %s", path);
}

static void warned(const char *path, const char *words)
{
    for (size_t i = 0; i < report.count; i++)
        if (report.items[i].kind != EBB_FINDING_ERROR && strcmp(report.items[i].path, path) == 0) {
            CHECK(strstr(report.items[i].message, words));
            return;
        }
    fail_msg("no warning about %s", path);
}

#define DTR "\"type\": \"dtr\", \"kind\": \"fixed\", \"memory_budget\": 1e9"
#define BASE "\"resnet32\": [{\"type\": \"baseline\", \"batch_size\": 4}]"

/* ---- the file ---- */

TEST(active__is_told)
{
    struct ebb_error err;
    static const char text[] = "{\"active\": false, \"n_reps\": 1, \"dtr_settings\": {" BASE "}}";
    struct harness_pareto *f;
    CHECK(harness_pareto_is_active(good("", BASE)));
    CHECK_OK(harness_pareto_parse(&arena, "x", text, strlen(text), false, &f, &report, &err), &err);
    CHECK(!harness_pareto_is_active(f));
}

TEST(models__are_sorted_and_told_once)
{
    struct harness_pareto *f = good("\"models\": [\"unet\", \"resnet20\", \"unet\"]",
                                    "\"unet\": [{\"type\": \"baseline\", \"batch_size\": 1}], "
                                    "\"resnet20\": [{\"type\": \"baseline\", \"batch_size\": 2}]");
    CHECK_EQ(f->count, 2);
    CHECK_STR(f->setups[0].model, "resnet20");
    CHECK_STR(f->setups[1].model, "unet");
    CHECK_STR(good("\"models\": \"resnet32\"", BASE)->models[0], "resnet32");
    refused("\"models\": [\"resnet32\", \"resnet33\"]", BASE, "models[1]", "nearest: resnet3");
    refused("\"models\": [\"gru\"]", "", "models[0]", "has no such model either");
    refused("\"models\": [\"treelstm_old\"]", "", "models[0]", "SICK");
    refused("\"models\": [\"unet\"]", BASE, "dtr_settings.unet", "required but missing");
    good("", BASE ", \"unet\": [{\"type\": 1}]");
    warned("dtr_settings.unet", "models does not list it");
    good("\"models\": [\"resnet32\", \"unet\"]", BASE ", \"unet\": []");
    warned("dtr_settings.unet", "no commands");
}

TEST(counts__have_defaults_and_commands_may_have_their_own)
{
    const struct harness_setup *s = &good("", BASE)->setups[0];
    CHECK(s->dry_run == 8 && s->n_inputs == 3 && s->n_reps == 5);
    s = &good("\"dry_run\": 2, \"n_inputs\": 4", BASE)->setups[0];
    CHECK(s->dry_run == 2 && s->n_inputs == 4);
    s = one("\"type\": \"baseline\", \"dry_run\": 0, \"n_inputs\": 1, \"n_reps\": 9");
    CHECK(s->dry_run == 0 && s->n_inputs == 1 && s->n_reps == 9);
    CHECK_EQ(harness_pareto_trials(good("\"n_inputs\": 4", BASE)), 4);
    refused("\"n_inputs\": 0", BASE, "n_inputs", "> 0");
    refused("\"dry_run\": -1", BASE, "dry_run", ">= 0");
}

TEST(seed__and_set_seed)
{
    struct harness_pareto *f = good("", BASE);
    CHECK(!f->set_seed && f->seed == 0);
    f = good("\"set_seed\": true, \"seed\": 17", BASE);
    CHECK(f->set_seed && f->seed == 17);
    refused("\"seed\": -1", BASE, "seed", ">= 0");
}

TEST(report_errors__is_off_unless_asked_for)
{
    CHECK(!good("", BASE)->report_errors);
    CHECK(good("\"report_errors\": true", BASE)->report_errors);
}

TEST(save_logs__needs_a_folder_and_may_stand_in_a_command)
{
    setenv("HOME", "/home/somebody", 1);
    struct harness_pareto *f = good("\"save_logs\": true, \"log_dest\": \"~/logs\"", BASE);
    CHECK(f->setups[0].save_logs);
    CHECK_STR(f->log_dest, "/home/somebody/logs");
    CHECK_STR(good("\"log_dest\": \"~other\"", BASE)->log_dest, "~other");
    CHECK(one("\"type\": \"baseline\", \"save_logs\": true")->save_logs);
    CHECK(!one("\"type\": \"baseline\"")->save_logs);
    refused("\"save_logs\": true", BASE, "log_dest", "required with save_logs");
}

TEST(keys__of_other_programs_are_told)
{
    good("\"dtr_torch_cmd\": \"python3\", \"notify\": [\"a\"], \"sync_gpu\": true, \"title\": "
         "\"t\", "
         "\"priority\": 1, \"rerun_setup\": true, \"simrd_config\": \"x\", \"methods\": [\"dtr\"], "
         "\"ignore_kind\": [], \"batch_size\": 8, \"note_this\": 1",
         BASE);
    CHECK_EQ(report.count, 11);
    warned("dtr_torch_cmd", "trials run in this program");
    warned("notify", "nobody is told");
    warned("sync_gpu", "device cuda");
    warned("title", "no effect");
    warned("priority", "no effect");
    warned("rerun_setup", "no effect");
    warned("simrd_config", "no effect");
    warned("methods", "no effect");
    warned("ignore_kind", "no effect");
    warned("batch_size", "no effect");
    warned("note_this", "note");
    good("\"notify\": []", BASE);
    CHECK_EQ(report.count, 0);
    one("\"type\": \"baseline\", \"input_params\": {}, \"note\": 1");
    warned("dtr_settings.resnet32[0].input_params", "no effect");
    warned("dtr_settings.resnet32[0].note", "note");
}

/* ---- commands ---- */

TEST(type__is_a_baseline_dtr_simrd_a_policy_or_a_planner)
{
    CHECK_EQ(one("\"type\": \"baseline\"")->type, PARETO_BASELINE);
    CHECK_EQ(one(DTR)->type, PARETO_DTR);
    CHECK_EQ(one("\"type\": \"lru\", \"kind\": \"fixed\", \"memory_budget\": 1e9")->type,
             PARETO_NAMED);
    CHECK_EQ(one("\"type\": \"best\", \"kind\": \"fixed\", \"memory_budget\": 1e9")->type,
             PARETO_NAMED);
    const struct harness_setup *s = one("\"type\": \"simrd\", \"kind\": \"use_log\", "
                                        "\"memory_budget\": -1, \"file_path\": \"~/a.log\"");
    CHECK(s->type == PARETO_SIMRD && s->kind == PARETO_USE_LOG && !s->section);
    CHECK(strstr(s->file_path, "/a.log") && s->file_path[0] == '/');
    CHECK_EQ(one("\"type\": \"simrd\", \"kind\": \"get_log\", \"memory_budget\": -1")->kind,
             PARETO_GET_LOG);
    refused("", "\"resnet32\": [{\"type\": \"drt\", \"batch_size\": 1}]",
            "dtr_settings.resnet32[0].type", "nearest: dtr");
}

TEST(kind__says_which_budget_is_needed)
{
    CHECK_EQ(one(DTR)->kind, PARETO_FIXED);
    CHECK_EQ(one("\"type\": \"dtr\", \"kind\": \"param_sweep\", \"memory_budget\": -1")->kind,
             PARETO_SWEEP);
    const struct harness_setup *s = one("\"type\": \"dtr\", \"kind\": \"ratio\", \"ratio\": 0.5");
    CHECK(s->kind == PARETO_RATIO && s->ratio == 0.5 && isnan(s->memory_budget));
    CHECK_EQ(one("\"type\": \"baseline\", \"kind\": \"param_sweep\"")->kind, PARETO_NO_KIND);
    warned("dtr_settings.resnet32[0].kind", "no effect on a baseline");
}

TEST(memory_budget__is_bytes_or_none)
{
    CHECK(one(DTR)->memory_budget == 1e9);
    CHECK(one("\"type\": \"dtr\", \"kind\": \"fixed\", \"memory_budget\": -1")->memory_budget ==
          -1);
    refused("",
            "\"resnet32\": [{\"type\": \"dtr\", \"kind\": \"fixed\", \"memory_budget\": 0, "
            "\"batch_size\": 1}]",
            "dtr_settings.resnet32[0].memory_budget", "bytes, or -1");
}

TEST(timeout__of_a_baseline_is_its_own)
{
    struct harness_pareto *f =
        good("", "\"default\": {\"timeout\": 7, \"batch_size\": 3}, "
                 "\"resnet32\": [{\"type\": \"baseline\"}, {" DTR "}, {" DTR ", \"timeout\": 9}]");
    CHECK(f->setups[0].timeout == 60 && f->setups[0].batch_size == 3);
    CHECK(f->setups[1].timeout == 7 && f->setups[1].batch_size == 3);
    CHECK(f->setups[2].timeout == 9);
}

TEST(baselines__come_first)
{
    struct harness_pareto *f = good("", "\"resnet32\": [{\"batch_size\": 1, " DTR
                                        "}, {\"type\": \"baseline\", \"batch_size\": 1}]");
    CHECK(f->setups[0].type == PARETO_BASELINE && f->setups[0].command_id == 1);
    CHECK(f->setups[1].type == PARETO_DTR && f->setups[1].command_id == 0);
}

TEST(switches__are_on_or_off_as_published)
{
    const struct harness_setup *s = one(DTR);
    CHECK(!s->use_profiling && s->ignore_small_tensors && s->use_sampling && !s->retry_on_error);
    s = one(DTR
            ", \"use_profiling\": true, \"ignore_small_tensors\": false, \"use_sampling\": false");
    CHECK(s->use_profiling && !s->ignore_small_tensors && !s->use_sampling);
    CHECK(!one(DTR ", \"extra_params\": {\"use_sampling\": false}")->use_sampling);
    refused("",
            "\"resnet32\": [{\"batch_size\": 1, " DTR
            ", \"use_sampling\": true, \"extra_params\": {\"use_sampling\": false}}]",
            "dtr_settings.resnet32[0].extra_params.use_sampling", "differs");
}

TEST(no_sampling_below__is_a_budget_or_a_ratio)
{
    CHECK(one(DTR ", \"no_sampling_below_budget\": 5e9")->no_sampling_below_budget == 5e9);
    CHECK(one("\"type\": \"dtr\", \"kind\": \"ratio\", \"ratio\": 1, \"extra_params\": "
              "{\"no_sampling_below_ratio\": 0.4}")
              ->no_sampling_below_ratio == 0.4);
    CHECK_EQ(report.count, 0);
    one("\"type\": \"dtr\", \"kind\": \"ratio\", \"ratio\": 1, \"no_sampling_below_ratio\": 5e9");
    warned("dtr_settings.resnet32[0].no_sampling_below_ratio", "above 1");
    refused("",
            "\"resnet32\": [{\"batch_size\": 1, " DTR
            ", \"no_sampling_below_budget\": 1, \"no_sampling_below_ratio\": 1}]",
            "dtr_settings.resnet32[0].no_sampling_below_ratio", "one of them");
}

TEST(costs__are_built_in_or_those_of_the_baseline)
{
    CHECK_EQ(one(DTR)->costs, PARETO_BUILTIN);
    CHECK_EQ(one(DTR ", \"costs\": \"baseline\"")->costs, PARETO_MEASURED);
}

TEST(paired__is_asked_for)
{
    CHECK(!one(DTR)->paired && one(DTR ", \"paired\": true")->paired);
}

TEST(retries__stand_in_extra_params_or_beside)
{
    const struct harness_setup *s = one(DTR);
    CHECK(s->max_retries == 10 && s->attempt_timeout == 15);
    s = one(DTR ", \"attempt_timeout\": 3, \"extra_params\": {\"retry_on_error\": true, "
                "\"max_retries\": 25}");
    CHECK(s->retry_on_error && s->max_retries == 25 && s->attempt_timeout == 3);
}

/* ---- lists ---- */

TEST(lists__are_unfolded_into_all_combinations)
{
    struct harness_pareto *f =
        good("\"n_inputs\": 2",
             "\"resnet32\": [{\"type\": \"dtr\", \"kind\": \"ratio\", \"batch_size\": [1, 2, 1], "
             "\"ratio\": [0.9, 0.5], \"extra_params\": {\"blocks\": [1, 1, 1]}}]");
    static const double want[][2] = {{1, 0.9}, {1, 0.5}, {2, 0.9}, {2, 0.5}};
    CHECK_EQ(f->count, 4);
    CHECK_EQ(harness_pareto_trials(f), 8);
    for (size_t i = 0; i < 4; i++) {
        CHECK(f->setups[i].batch_size == (int64_t)want[i][0] && f->setups[i].ratio == want[i][1]);
        CHECK_EQ(ebb_doc_int(f->setups[i].params, "batch_size", 0), (int64_t)want[i][0]);
    }
}

/* ---- models ---- */

static const struct harness_setup *model(const char *name, const char *command)
{
    char top[64], text[1024];
    snprintf(top, sizeof top, "\"models\": [\"%s\"]", name);
    snprintf(text, sizeof text, "\"%s\": [{\"type\": \"baseline\", %s}]", name, command);
    return &good(top, text)->setups[0];
}

static int64_t option(const struct harness_setup *s, const char *key)
{
    return ebb_doc_int(s->section, key, -1);
}

TEST(extra_params__of_images)
{
    const struct harness_setup *s =
        model("unet", "\"batch_size\": 6, \"extra_params\": {\"height\": 608, \"width\": 416}");
    CHECK(s->samples == 6 && option(s, "height") == 608 && option(s, "width") == 416);
    CHECK_STR(ebb_doc_string(s->section, "name", ""), "unet");
    CHECK_STR(s->task, "segmentation");
}

TEST(extra_params__of_chains_and_trees)
{
    const struct harness_setup *s =
        model("lstm", "\"batch_size\": 256, \"extra_params\": {\"in_dim\": 512, \"mem_dim\": 1700, "
                      "\"input_size\": 64}");
    CHECK(s->samples == 64 && s->batch_size == 256 && option(s, "steps") == 256);
    CHECK(option(s, "features") == 512 && option(s, "memory") == 1700);
    CHECK_STR(s->task, "regression");
    s = model("treelstm", "\"batch_size\": 9");
    CHECK(s->samples == 50 && option(s, "depth") == 9);
    CHECK(option(s, "features") == 10 && option(s, "memory") == 300);
}

TEST(extra_params__of_transformers)
{
    const struct harness_setup *s =
        model("transformer", "\"batch_size\": 10, \"extra_params\": {\"input_seq_length\": 512, "
                             "\"target_seq_length\": 30, \"num_feature\": 256}");
    CHECK(s->samples == 10 && option(s, "length") == 512);
    CHECK(option(s, "target_length") == 30 && option(s, "width") == 256);
    CHECK_EQ(option(model("transformer", "\"batch_size\": 10"), "length"), 10);
}

TEST(extra_params__of_the_gan)
{
    const struct harness_setup *s =
        model("unroll_gan", "\"batch_size\": 512, \"extra_params\": {\"g_hid\": 64, \"d_hid\": 64, "
                            "\"g_inp\": 32, \"unrolled_steps\": 6}");
    CHECK(s->samples == 512 && option(s, "hidden") == 64);
    CHECK(option(s, "noise") == 32 && option(s, "unroll") == 6);
    refused("\"models\": [\"unroll_gan\"]",
            "\"unroll_gan\": [{\"type\": \"baseline\", \"batch_size\": 1, \"extra_params\": "
            "{\"g_hid\": 1, \"d_hid\": 2}}]",
            "dtr_settings.unroll_gan[0].extra_params", "d_hid differs from g_hid");
}

TEST(extra_params__that_the_model_has_not_are_refused)
{
    refused("",
            "\"resnet32\": [{\"type\": \"baseline\", \"batch_size\": 1, \"extra_params\": "
            "{\"hight\": 1}}]",
            "dtr_settings.resnet32[0].extra_params.hight", "nearest: height");
    refused("",
            "\"resnet32\": [{\"type\": \"baseline\", \"batch_size\": 1, \"extra_params\": "
            "{\"height\": \"tall\"}}]",
            "dtr_settings.resnet32[0].extra_params.height", "found \"tall\"");
}

TEST(models__may_be_one_name_that_is_checked_as_well)
{
    refused("\"models\": \"nosuch\"", "\"nosuch\": [{\"type\": \"baseline\", \"batch_size\": 1}]",
            "models", "found \"nosuch\"");
    refused("\"models\": \"gru\"", "", "models", "found \"gru\"");
    CHECK_EQ(good("\"models\": \"resnet32\"", BASE)->count, 1);
}

TEST(keys__that_do_nothing_for_a_type_are_told)
{
    static const struct {
        const char *command, *key, *words;
    } rows[] = {
        {"\"type\": \"baseline\", \"paired\": true", "paired", "baseline"},
        {"\"type\": \"baseline\", \"costs\": \"baseline\"", "costs", "baseline"},
        {"\"type\": \"simrd\", \"kind\": \"get_log\", \"memory_budget\": 1, \"paired\": true",
         "paired", "simulated"},
        {"\"type\": \"unified\", \"kind\": \"fixed\", \"memory_budget\": 1, \"use_sampling\": "
         "true",
         "use_sampling", "planner"},
        {DTR ", \"file_path\": \"x\"", "file_path", "use_log"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[64];
        snprintf(path, sizeof path, "dtr_settings.resnet32[0].%s", rows[i].key);
        one(rows[i].command);
        warned(path, rows[i].words);
    }
    good("", "\"default\": {\"use_sampling\": true}, \"resnet32\": [{\"batch_size\": 4, \"type\": "
             "\"unified\", \"kind\": \"fixed\", \"memory_budget\": 1}]");
    CHECK_EQ(report.warnings, 0); /* defaults are for whom they concern */
}

TEST(notes__may_have_blanks)
{
    good("\"note of mine\": 1", BASE);
    warned("note of mine", "a note");
    refused("\"note of mine\": 1, \"of\": 2", BASE, "of", "unknown key");
}

TEST_MAIN_EACH(arena_open, arena_close)
