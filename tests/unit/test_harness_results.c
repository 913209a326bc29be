/* Repetitions, their statistics, results in files: ours and the published ones. */
#include "test_folder.h"

#include <math.h>

#include "base/file.h"
#include "base/heap.h"
#include "harness/harness.h"

static struct harness_row row_of(int64_t rep, double time, const char *hash)
{
    struct harness_row row;
    harness_row_init(&row);
    row.rep = rep;
    row.values[HARNESS_TIME] = time;
    row.values[HARNESS_GPU_TIME] = time - 0.25;
    row.values[HARNESS_MEMORY_BUDGET] = 1e9;
    snprintf(row.gradients, sizeof row.gradients, "%s", hash);
    return row;
}

static void add(struct harness_rows *rows, struct harness_row row)
{
    struct ebb_error err;
    CHECK_OK(harness_rows_add(rows, &row, &err), &err);
}

static const struct ebb_doc_node *json(struct ebb_arena *arena, const char *text)
{
    const struct ebb_doc_node *node;
    struct ebb_error err;
    CHECK_OK(ebb_doc_parse_json(arena, "test", text, strlen(text), &node, &err), &err);
    return node;
}

/* ---- statistics ---- */

TEST(figure__knows_mean_median_and_deviation)
{
    const double values[] = {4, NAN, 1, 3, 2};
    struct harness_figure f;
    struct ebb_error err;
    CHECK_OK(harness_figure_of(values, 5, false, &f, &err), &err);
    CHECK(f.mean == 2.5 && f.median == 2.5 && fabs(f.std - sqrt(1.25)) < 1e-15);
    CHECK(isnan(f.mean_conf[0]) && isnan(f.median_conf[1]));
    CHECK_OK(harness_figure_of(values, 1, true, &f, &err), &err);
    CHECK(f.mean_conf[0] == 4 && f.median_conf[1] == 4 && f.std == 0);
    CHECK_OK(harness_figure_of(values + 1, 1, true, &f, &err), &err);
    CHECK(!harness_is_measured(&f));
}

/* 400 values 0..399: the mean of a resample has deviation 115.5 / 20, so 95 % of them lie within
 * 1.96 x 5.77 of 199.5. */
TEST(figure__has_the_interval_that_the_theory_says)
{
    double values[400];
    struct harness_figure f, again;
    struct ebb_error err;
    for (int i = 0; i < 400; i++)
        values[i] = (i * 7) % 400;
    CHECK_OK(harness_figure_of(values, 400, true, &f, &err), &err);
    CHECK(fabs(f.mean_conf[0] - (199.5 - 11.3)) < 0.6);
    CHECK(fabs(f.mean_conf[1] - (199.5 + 11.3)) < 0.6);
    CHECK(f.median_conf[0] > 170 && f.median_conf[0] < 190);
    CHECK(f.median_conf[1] > 209 && f.median_conf[1] < 229);
    CHECK_OK(harness_figure_of(values, 400, true, &again, &err), &err);
    CHECK(memcmp(&f, &again, sizeof f) == 0);
}

TEST(summarize__divides_row_by_row)
{
    struct harness_rows rows = {0}, base = {0};
    struct harness_input input;
    struct ebb_error err;
    add(&base, row_of(0, 10.25, "a"));
    add(&base, row_of(1, 20.25, "a"));
    add(&rows, row_of(0, 15.25, "a"));
    add(&rows, row_of(1, 20.25, "a"));
    add(&rows, row_of(2, 1000.25, "a"));
    CHECK_OK(harness_summarize(&rows, &base, 40, &input, &err), &err);
    CHECK(input.figures[HARNESS_SLOWDOWN].mean == 1.25 && input.rep_count == 3);
    CHECK(input.figures[HARNESS_THROUGHPUT].median == 2000);
    CHECK(input.figures[HARNESS_MEMORY_BUDGET].median == 1e9);
    rows.items[1].values[HARNESS_PAIR_TIME] = 4; /* its own neighbour counts */
    CHECK_OK(harness_summarize(&rows, &base, 40, &input, &err), &err);
    CHECK(input.figures[HARNESS_SLOWDOWN].mean == 3.25);
    rows.items[1].values[HARNESS_PAIR_TIME] = NAN;
    CHECK(!harness_is_measured(&input.figures[HARNESS_SEARCH_TIME]));
    CHECK_STR(input.gradients, "a");
    memcpy(rows.items[0].gradients, "b", 2); /* repetitions disagree: no hash */
    CHECK_OK(harness_summarize(&rows, NULL, 0, &input, &err), &err);
    CHECK_STR(input.gradients, "");
    CHECK(!harness_is_measured(&input.figures[HARNESS_SLOWDOWN]));
    CHECK(!harness_is_measured(&input.figures[HARNESS_THROUGHPUT]));
    harness_rows_fini(&rows);
    harness_rows_fini(&base);
    CHECK_EQ(ebb_heap_live(), 0);
}

/* ---- CSV ---- */

TEST(rows__come_back_as_they_were_written)
{
    struct ebb_arena arena = {0};
    struct harness_rows rows = {0}, back = {0};
    struct ebb_error err;
    struct ebb_str text;
    ebb_str_init(&text);
    add(&rows, row_of(-2, 0.1, "ab12"));
    add(&rows, row_of(3, 1e300, ""));
    rows.items[1].num_retries = 4;
    snprintf(rows.items[1].decided_by, HARNESS_WAY, "floor instead of lru");
    rows.items[1].input = 2;
    const struct ebb_doc_node *params =
        json(&arena, "{\"type\": \"a \\\"b\\\"\", \"memory_budget\": 1, \"extra_params\": "
                     "{\"x\": [1, 2]}}");
    harness_rows_write(&rows, params, &text);
    CHECK(strstr(ebb_str_c(&text), "gradients_sha256,decided_by,type,extra_params\n"));
    CHECK(strstr(ebb_str_c(&text), ",\"a \"\"b\"\"\",\"{\"\"x\"\": [1, 2]}\"\n"));
    CHECK_OK(harness_rows_parse(&back, "x.csv", ebb_str_c(&text), text.length, &err), &err);
    CHECK_EQ(back.count, 2);
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(back.items[i].input, rows.items[i].input);
        CHECK_EQ(back.items[i].rep, rows.items[i].rep);
        CHECK_EQ(back.items[i].num_retries, rows.items[i].num_retries);
        CHECK_STR(back.items[i].gradients, rows.items[i].gradients);
        CHECK_STR(back.items[i].decided_by, rows.items[i].decided_by);
        CHECK(back.items[i].values[HARNESS_TIME] == rows.items[i].values[HARNESS_TIME]);
        CHECK(isnan(back.items[i].values[HARNESS_COST_TIME]));
    }
    ebb_str_fini(&text);
    harness_rows_fini(&rows);
    harness_rows_fini(&back);
    ebb_arena_fini(&arena);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(rows__of_other_programs_are_read_by_their_names)
{
    static const char text[] = "model,time,note,rep\r\nx,1.5,\"two\nlines, \"\"q\"\"\",7\r\n\r\n";
    struct harness_rows rows = {0};
    struct ebb_error err;
    CHECK_OK(harness_rows_parse(&rows, "x.csv", text, sizeof text - 1, &err), &err);
    CHECK_EQ(rows.count, 1);
    CHECK(rows.items[0].values[HARNESS_TIME] == 1.5 && rows.items[0].rep == 7);
    harness_rows_fini(&rows);
}

static void refused_rows(const char *text, const char *words)
{
    struct harness_rows rows = {0};
    struct ebb_error err;
    CHECK_EQ(harness_rows_parse(&rows, "x.csv", text, strlen(text), &err), EBB_EINPUT);
    CHECK_STR(err.message, words);
    harness_rows_fini(&rows);
}

TEST(rows__that_are_broken_are_refused_with_their_line)
{
    refused_rows("a,b\n1,2\n", "x.csv:1: no column 'time': not repetitions of a measurement");
    refused_rows("", "x.csv:1: no column 'time': not repetitions of a measurement");
    refused_rows("rep,time\n0,1\n1\n", "x.csv:3: 1 columns where the first line names 2");
    refused_rows("rep,time\n0,1\n1,2,3\n", "x.csv:3: 3 columns where the first line names 2");
    refused_rows("rep,time\n0,fast\n", "x.csv:2: column 2: found \"fast\", allowed: a number");
    refused_rows("rep,time\n0.5,1\n", "x.csv:2: column 1: found \"0.5\", allowed: a number");
}

/* ---- JSON ---- */

static void fill(struct ebb_arena *arena, struct harness_results *r)
{
    static const char *const commands[] = {
        "{\"type\": \"baseline\", \"batch_size\": 4}",
        "{\"type\": \"dtr\", \"kind\": \"ratio\", \"batch_size\": 4, \"ratio\": 0.5}",
        "{\"type\": \"dtr\", \"kind\": \"fixed\", \"batch_size\": 4, \"memory_budget\": 3e9}"};
    *r = (struct harness_results){.timestamp = "now", .machine = json(arena, "{\"cores\": 2}")};
    for (size_t i = 0; i < 3; i++) {
        struct harness_setting *s = harness_results_add(arena, r, "lstm", json(arena, commands[i]));
        s->command_id = (int64_t)i;
        s->num_retries = i == 2 ? -1 : 0;
        s->error = i == 2 ? "below the floor" : NULL;
        s->inputs = ebb_arena_calloc(arena, 2, sizeof *s->inputs);
        s->input_count = 2;
        for (size_t k = 0; k < 2; k++) {
            struct harness_rows rows = {0};
            struct ebb_error err;
            for (int rep = 0; rep < 3; rep++) {
                struct harness_row row = row_of(rep, (double)(10 * (i + 1) + k) + 0.25, "ff");
                row.values[HARNESS_TOTAL_MEM] = 6000;
                row.values[HARNESS_PLAN_MS] = 3;
                add(&rows, row);
            }
            CHECK_OK(harness_summarize(&rows, NULL, 0, &s->inputs[k], &err), &err);
            s->inputs[k].seed = 7 + k;
            harness_rows_fini(&rows);
        }
    }
}

TEST(results__come_back_as_they_were_written)
{
    struct ebb_arena arena = {0};
    struct harness_results r, back;
    struct ebb_error err;
    struct ebb_str first, second;
    char path[64];
    ebb_str_init(&first);
    ebb_str_init(&second);
    fill(&arena, &r);
    snprintf(path, sizeof path, "%s/data.json", folder);
    harness_results_format(&r, &first);
    CHECK_OK(harness_results_write(&r, path, &err), &err);
    CHECK_OK(harness_results_read(&arena, path, &back, &err), &err);
    harness_results_format(&back, &second);
    CHECK_STR(ebb_str_c(&first), ebb_str_c(&second));
    CHECK_EQ(back.count, 3);
    CHECK_STR(back.settings[2].error, "below the floor");
    CHECK_EQ(back.settings[1].inputs[1].seed, 8);
    CHECK_EQ(back.settings[1].inputs[1].rep_count, 3);
    CHECK(isnan(back.settings[1].inputs[1].figures[HARNESS_SEARCH_TIME].mean));
    ebb_str_fini(&first);
    ebb_str_fini(&second);
    ebb_arena_fini(&arena);
}

TEST(results__answer_about_settings)
{
    struct ebb_arena arena = {0};
    struct harness_results r;
    fill(&arena, &r);
    struct harness_point p = harness_setting_point(&r.settings[0], HARNESS_GPU_TIME);
    CHECK(p.value == 10.5 && p.low == 10.5 && p.high == 10.5);
    CHECK(harness_baseline(&r, &r.settings[1]) == &r.settings[0]);
    CHECK(harness_slowdown(&r, &r.settings[1]).value == 20.5 / 10.5);
    CHECK(isnan(harness_slowdown(&r, &r.settings[2]).value)); /* failed */
    CHECK(harness_setting_ratio(&r, &r.settings[1]) == 0.5);
    CHECK(harness_setting_ratio(&r, &r.settings[2]) == 0.5);
    CHECK(harness_setting_ratio(&r, &r.settings[0]) == 1);
    CHECK_EQ(harness_model_end(&r, 0), 3);
    r.settings[0].error = "gone";
    CHECK(!harness_baseline(&r, &r.settings[1]));
    CHECK(isnan(harness_slowdown(&r, &r.settings[1]).value));
    ebb_arena_fini(&arena);
}

static void refused_results(const char *text, const char *words)
{
    struct ebb_arena arena = {0};
    struct harness_results r;
    struct ebb_error err;
    CHECK_EQ(harness_results_parse(&arena, "x.json", text, strlen(text), &r, &err), EBB_EINPUT);
    CHECK_STR(err.message, words);
    ebb_arena_fini(&arena);
}

TEST(results__that_are_none_are_refused)
{
    refused_results("[]", "x.json:1:1: found a list where results have a mapping of models");
    refused_results("{\"a\": 1}", "x.json: no settings: not the results of a measurement");
    refused_results("{\"m\": [{\"summary\": []}]}",
                    "x.json:1:8: found a mapping where results have a setting with its "
                    "specific_params");
    refused_results("{\"m\": [{\"specific_params\": {}}]}",
                    "x.json:1:8: found a mapping where results have a setting with a summary");
    refused_results("{\"m\": [{\"specific_params\": {}, \"summary\": 3}]}",
                    "x.json:1:43: found an integer where results have \"error\" or a list with "
                    "one summary per input");
    refused_results("{\"m\": [{\"specific_params\": {}, \"summary\": [3]}]}",
                    "x.json:1:44: found an integer where results have the summary of one input");
}

TEST(results__as_published_are_read)
{
    static const char path[] = EBB_SOURCE_DIR "/../shared/data/dtr_gpu_results/data-full.json";
    struct ebb_arena arena = {0};
    struct harness_results r;
    struct ebb_error err;
    if (access(path, R_OK) != 0) {
        print_message("no %s: skipped\n", path);
        skip();
    }
    CHECK_OK(harness_results_read(&arena, path, &r, &err), &err);
    CHECK_EQ(r.count, 45);
    size_t errors = 0;
    for (size_t i = 0; i < r.count; i++) {
        const struct harness_setting *s = &r.settings[i];
        errors += s->error != NULL;
        if (strcmp(s->model, "lstm") == 0 && s->memory_budget == 4e9) {
            CHECK(fabs(harness_slowdown(&r, s).value - 1.414) < 0.002);
            CHECK(fabs(harness_setting_ratio(&r, s) - 4.0 / 11.123) < 1e-4);
            CHECK(fabs(harness_setting_point(s, HARNESS_COST_TIME).value - 27.66) < 0.2);
        }
    }
    CHECK_EQ(errors, 1);
    ebb_arena_fini(&arena);
}

TEST_MAIN_EACH(folder_open, folder_close)
