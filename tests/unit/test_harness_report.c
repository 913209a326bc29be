/* Logs and CSV files as curves; a folder as one page. */
#include "test_folder.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "harness/harness.h"

#define LINE(key, value, more)                                                                     \
    ":::MLLOG {\"namespace\": \"gpt\", \"time_ms\": 1, \"event_type\": \"POINT_IN_TIME\", "        \
    "\"key\": \"" key "\", \"value\": " value                                                      \
    ", \"metadata\": {\"file\": \"f\", \"lineno\": 0" more "}}\n"

static const char log_text[] =
    LINE("seed", "1.0", "") LINE("opt_name", "\"ADAM\"", "") "warning: of somebody else\n" LINE(
        "train_loss", "2.5",
        ", \"epoch_num\": 1") "Processing Speed: 100.5\n"
                              "Peak Memory: 4096\n" LINE("eval_accuracy", "0.25",
                                                         ", \"epoch_num\": 1")
                                  LINE("train_loss", "2.0",
                                       ", \"epoch_num\": 2") "Processing Speed: 110\n"
                                                             "Processing Speed: "
                                                             "fast\n" LINE(
                                                                 "run_stop", "null",
                                                                 ", \"status\": "
                                                                 "\"success\"") "Time To "
                                                                                "Target: "
                                                                                "12.5\n"
                                                                                ":::MLLOG "
                                                                                "{broken\n";

static struct ebb_arena arena;

static struct harness_run read_run(const char *text)
{
    struct harness_run run;
    struct ebb_error err = {0};
    CHECK_OK(harness_run_parse(&arena, "test", text, strlen(text), &run, &err), &err);
    return run;
}

static const struct harness_curve *curve(const struct harness_run *run, const char *name)
{
    for (size_t i = 0; i < run->curve_count; i++)
        if (strcmp(run->curves[i].name, name) == 0)
            return &run->curves[i];
    fail_msg("no curve %s", name);
    return NULL;
}

static const char *fact(const struct harness_run *run, const char *name)
{
    for (size_t i = 0; i < run->fact_count; i++)
        if (strcmp(run->facts[i].name, name) == 0)
            return run->facts[i].value;
    return "";
}

TEST(log__becomes_curves_and_facts)
{
    struct harness_run run = read_run(log_text);
    CHECK_STR(run.what, "gpt");
    const struct harness_curve *loss = curve(&run, "training loss"),
                               *speed = curve(&run, "samples per second");
    CHECK_EQ(loss->count, 2);
    CHECK(loss->x[0] == 1 && loss->y[0] == 2.5 && loss->x[1] == 2 && loss->y[1] == 2.0);
    CHECK_EQ(speed->count, 2);
    CHECK(speed->x[1] == 2 && speed->y[1] == 110);
    CHECK(curve(&run, "validation metric")->y[0] == 0.25);
    CHECK_STR(fact(&run, "opt_name"), "ADAM");
    CHECK_STR(fact(&run, "status"), "success");
    CHECK_STR(fact(&run, "peak memory, bytes"), "4096");
    CHECK_STR(fact(&run, "time to target, s"), "12.5");
}

TEST(csv__becomes_a_curve_per_name)
{
    struct harness_run run = read_run("update,name,value\n1,loss,2.5\n1,learning_rate,0.1\n"
                                      "2,loss,2.25\nbroken\n3,loss\n3,loss,x\n");
    CHECK_EQ(run.curve_count, 2);
    CHECK_EQ(curve(&run, "loss")->count, 2);
    CHECK(curve(&run, "loss")->x[1] == 2 && curve(&run, "loss")->y[1] == 2.25);
    struct harness_run other;
    struct ebb_error err = {0};
    CHECK_EQ(harness_run_parse(&arena, "x.txt", "hello", 5, &other, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "x.txt") != NULL);
}

static void put(const char *name, const char *text)
{
    char path[512];
    struct ebb_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_OK(ebb_file_write_atomic(path, text, strlen(text), &err), &err);
}

#define RESULTS                                                                                    \
    "{\"timestamp\": \"now\", \"n<e>t\": [{\"command_id\": 0, \"specific_params\": {\"type\": "    \
    "\"baseline\", \"batch_size\": 8}, \"summary\": [{\"time\": {\"mean\": 100, \"median\": 100, " \
    "\"std\": 0}, \"gpu_time\": {\"mean\": 100, \"median\": 100, \"std\": 0}, \"total_mem\": "     \
    "{\"mean\": 10, \"median\": 10, \"std\": 0}}]}, {\"command_id\": 1, \"specific_params\": "     \
    "{\"type\": \"dtr\", \"kind\": \"ratio\", \"ratio\": 0.5, \"batch_size\": 8}, \"summary\": "   \
    "\"error\"}]}"

TEST(folder__becomes_one_page_that_loads_nothing)
{
    struct ebb_error err = {0};
    struct ebb_str page = {0};
    struct harness_reported what;
    char path[512];
    snprintf(path, sizeof path, "%s/sub", folder);
    CHECK_EQ(mkdir(path, 0777), 0);
    put("data.json", RESULTS);
    put("sub/run.log", log_text);
    put("sub/other.json", "{\"mine\": 1}");
    put("errors.json", "{\"x\": {\"net\": [{\"specific_params\": {}, \"msg\": 1}]}}");
    put("chart.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>");
    put("torn.json", "{\"a\": [{\"summary\": 1, \"specific_params\": {");
    struct harness_report report = {.folder = folder, .title = "a & b"};
    CHECK_OK(harness_report_make(&report, &page, &what, &err), &err);
    CHECK_EQ(what.results, 1);
    CHECK_EQ(what.runs, 1);
    CHECK_EQ(what.charts, 1);
    CHECK_EQ(what.failed, 1);
    const char *text = ebb_str_c(&page);
    CHECK(strstr(text, "<title>a &amp; b</title>") != NULL);
    CHECK(strstr(text, "<td>n&lt;e&gt;t</td>") != NULL && strstr(text, "n<e>t") == NULL);
    CHECK(strstr(text, "failed: error") != NULL);
    CHECK(strstr(text, "sub/run.log") != NULL && strstr(text, "other.json") == NULL);
    CHECK(strstr(text, "<script") == NULL); /* images of others run nothing */
    CHECK(strstr(text, "data:image/svg+xml;base64,") != NULL);
    CHECK(strstr(text, "Not shown") != NULL && strstr(text, "torn.json") != NULL);
    CHECK(strstr(text, " src=\"http") == NULL && strstr(text, " href=") == NULL);
    ebb_str_fini(&page);
}

TEST(folder__without_anything_is_refused)
{
    struct ebb_error err = {0};
    struct ebb_str page = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/empty", folder);
    CHECK_EQ(mkdir(path, 0777), 0);
    struct harness_report report = {.folder = path};
    CHECK_EQ(harness_report_make(&report, &page, NULL, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "nothing to report") != NULL);
    ebb_str_fini(&page);
}

static int begin(void **state)
{
    arena = (struct ebb_arena){0};
    return folder_open(state);
}

static int end(void **state)
{
    ebb_arena_fini(&arena);
    return folder_close(state);
}

TEST_MAIN_EACH(begin, end)
