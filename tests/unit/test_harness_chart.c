/* Charts of results: what is drawn is where the data says, what failed is drawn, references lie over
 * their own baseline. */
#include "test_arena.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/str.h"
#include "harness/harness.h"

#define FIGURE(v)                                                                                  \
    "{\"mean\": " #v ", \"median\": " #v ", \"std\": 0, \"mean_conf\": [" #v ", " #v               \
    "], \"median_conf\": [" #v ", " #v "]}"
#define TIME(ms)                                                                                         \
    "{\"time\": " FIGURE(ms) ", \"gpu_time\": " FIGURE(ms) ", \"total_mem\": " FIGURE(                   \
        1000) ", \"base_compute_time\": " FIGURE(80) ", \"search_time\": " FIGURE(10) ", "               \
                                                                                      "\"cost_"          \
                                                                                      "time\":"          \
                                                                                      " " FIGURE(        \
                                                                                          4) ", "        \
                                                                                             "\"r"       \
                                                                                             "ema"       \
                                                                                             "t_"        \
                                                                                             "com"       \
                                                                                             "put"       \
                                                                                             "e_"        \
                                                                                             "tim"       \
                                                                                             "e\""       \
                                                                                             ":"         \
                                                                                             " " FIGURE( \
                                                                                                 20) "}"
#define SET(params, summary)                                                                       \
    "{\"command_id\": 0, \"specific_params\": {" params "}, \"summary\": " summary "}"
#define BASE SET("\"type\": \"baseline\", \"batch_size\": 8", "[" TIME(100) "]")
#define BUDGET(bytes, summary)                                                                     \
    SET("\"type\": \"dtr\", \"kind\": \"fixed\", \"batch_size\": 8, \"memory_budget\": " #bytes,   \
        summary)

static const char results_text[] =
    "{\"timestamp\": \"now\", \"net\": [" BASE
    ", " BUDGET(800000000, "[" TIME(110) "]") ", " BUDGET(600000000, "[" TIME(125) "]") ", " BUDGET(
        400000000, "[" TIME(160) "]") ", " BUDGET(200000000, "\"error\"") "]}";
static const char reference_text[] =
    "{\"timestamp\": \"then\", \"net\": [" BASE
    ", " BUDGET(500000000, "[" TIME(150) "]") ", " BUDGET(700000000, "[" TIME(130) "]") "]}";

static struct harness_results read_text(const char *text)
{
    struct harness_results r;
    struct ebb_error err = {0};
    CHECK_OK(harness_results_parse(&arena, "test", text, strlen(text), &r, &err), &err);
    return r;
}

static struct ebb_str svg;
static struct plot_chart chart;

static const char *draw(const struct harness_charts *what, enum harness_chart kind)
{
    struct ebb_error err = {0};
    CHECK_OK(harness_chart_make(&arena, what, kind, &chart, &err), &err);
    ebb_str_fini(&svg);
    if (chart.panel_count)
        CHECK_OK(plot_svg(&chart, &svg, &err), &err);
    return ebb_str_c(&svg);
}

/* The place of the tick with these words: of y (they end at the axis) or of x (in the middle). */
static double tick(const char *text, bool is_y)
{
    char end[64];
    snprintf(end, sizeof end, ">%s</text>", text);
    for (const char *at = ebb_str_c(&svg); (at = strstr(at, end)) != NULL; at++) {
        const char *begin = at;
        while (begin > ebb_str_c(&svg) && *begin != '<')
            begin--;
        bool is_end = strstr(begin, "text-anchor=\"end\"") != NULL &&
                      strstr(begin, "text-anchor=\"end\"") < at;
        if (is_end != is_y)
            continue;
        double x = strtod(strstr(begin, " x=\"") + 4, NULL),
               y = strtod(strstr(begin, " y=\"") + 4, NULL);
        return is_y ? y - 0.35 * 11.5 : x;
    }
    fail_msg("no tick %s", text);
    return 0;
}

struct line {
    double at0, value0, at1, value1;
};

static struct line axis(const char *low, const char *high, bool is_y)
{
    return (struct line){tick(low, is_y), strtod(low, NULL), tick(high, is_y), strtod(high, NULL)};
}

static double value_at(const struct line *a, double pixel)
{
    return a->value0 + (pixel - a->at0) / (a->at1 - a->at0) * (a->value1 - a->value0);
}

/* Is there a stroke that begins with these words ("M" or a marker) at (x, y)? */
static bool has_place(const struct line *across, const struct line *up, const char *after, double x,
                      double y)
{
    for (const char *at = ebb_str_c(&svg); (at = strchr(at, 'M')) != NULL; at++) {
        char *rest;
        double px = strtod(at + 1, &rest);
        if (rest == at + 1)
            continue;
        double py = strtod(rest, &rest);
        while (*rest == ' ')
            rest++;
        if (strncmp(rest, after, strlen(after)) == 0 && fabs(value_at(across, px) - x) < 2e-3 &&
            fabs(value_at(up, py) - y) < 4e-3)
            return true;
    }
    return false;
}

TEST(slowdown__points_lie_where_the_results_are)
{
    struct harness_results r = read_text(results_text);
    struct harness_charts what = {.results = &r};
    draw(&what, HARNESS_CHART_SLOWDOWN);
    CHECK_EQ(chart.panel_count, 1);
    struct line x = axis("0.30", "0.70", false), y = axis("1.2", "1.6", true);
    CHECK(has_place(&x, &y, "m-3.6", 0.8, 1.10));
    CHECK(has_place(&x, &y, "m-3.6", 0.6, 1.25));
    CHECK(has_place(&x, &y, "m-3.6", 0.4, 1.60));
    CHECK(!has_place(&x, &y, "m-3.6", 0.5, 1.25));
}

/* 125 ms measured from 120 to 130: a stroke from 1.2 to 1.3, since the baseline took 100. */
TEST(slowdown__intervals_are_strokes_from_end_to_end)
{
    char *text = ebb_strdup(results_text);
    char *at = strstr(text, "\"median_conf\": [125, 125]");
    for (; at != NULL; at = strstr(at, "\"median_conf\": [125, 125]"))
        memcpy(at, "\"median_conf\": [120, 130]", strlen("\"median_conf\": [120, 130]"));
    struct harness_results r = read_text(text);
    struct harness_charts what = {.results = &r};
    draw(&what, HARNESS_CHART_SLOWDOWN);
    struct line x = axis("0.30", "0.70", false), y = axis("1.2", "1.6", true);
    struct harness_point p = harness_slowdown(&r, &r.settings[2]);
    CHECK(p.value == 1.25 && p.low < 1.21 && p.high > 1.29);
    CHECK(has_place(&x, &y, "L", 0.6, p.low));
    ebb_free(text);
}

/* Strokes end inside the picture; one that is wider than all sense is cut. */
TEST(slowdown__intervals_have_room)
{
    static const double lows[] = {0.85, 0.1};
    for (size_t i = 0; i < 2; i++) {
        struct harness_results r = read_text(results_text);
        struct harness_figure *f = &r.settings[1].inputs[0].figures[HARNESS_SLOWDOWN];
        *f = (struct harness_figure){1.1, 1.1, 0, {1, 1}, {lows[i], 1.8}};
        struct harness_charts what = {.results = &r};
        draw(&what, HARNESS_CHART_SLOWDOWN);
        CHECK(chart.panels[0].y_max > 1.8);
        CHECK(chart.panels[0].y_min < fmax(lows[i], 0.7) && chart.panels[0].y_min > 0.5);
    }
}

TEST(slowdown__what_failed_is_a_cross_at_its_budget)
{
    struct harness_results r = read_text(results_text);
    struct harness_charts what = {.results = &r};
    draw(&what, HARNESS_CHART_SLOWDOWN);
    struct line x = axis("0.30", "0.70", false), y = axis("1.2", "1.6", true);
    double top = chart.panels[0].y_max, bottom = chart.panels[0].y_min;
    CHECK(has_place(&x, &y, "m-4 -4l8 8", 0.2, top - 0.035 * (top - bottom)));
    CHECK(strstr(ebb_str_c(&svg), ">failed</text>") != NULL);
}

TEST(slowdown__references_are_dashed_over_their_own_baseline)
{
    struct harness_results r = read_text(results_text), other = read_text(reference_text);
    struct harness_charts what = {.results = &r, .references = &other, .reference_count = 1};
    draw(&what, HARNESS_CHART_SLOWDOWN);
    struct line x = axis("0.30", "0.70", false), y = axis("1.2", "1.6", true);
    CHECK(strstr(ebb_str_c(&svg), ">net, published</text>") != NULL);
    CHECK(strstr(ebb_str_c(&svg), "stroke-dasharray=\"9 5\"") != NULL);
    CHECK(has_place(&x, &y, "L", 0.5, 1.5)); /* its line begins with the smaller budget */
}

TEST(breakdown__parts_add_up_to_the_wall_clock)
{
    struct harness_results r = read_text(results_text);
    struct harness_charts what = {.results = &r};
    draw(&what, HARNESS_CHART_BREAKDOWN);
    const struct plot_panel *p = &chart.panels[0];
    static const struct {
        const char *name;
        double value; /* at 800 MB: 110 ms */
    } parts[] = {{"model ops", 80}, {"ops again", 20}, {"scores", 4}, {"making room", 6}};
    CHECK_EQ(p->x_tick_count, 5);
    CHECK_STR(p->x_ticks[0], "baseline");
    CHECK_STR(p->x_ticks[1], "0.8 GB");
    CHECK_STR(p->x_ticks[4], "0.2 GB");
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        bool is_there = false;
        for (size_t i = 0; i < p->series_count; i++)
            if (p->series[i].name && strcmp(p->series[i].name, parts[k].name) == 0)
                is_there = p->series[i].y[1] == parts[k].value;
        CHECK(is_there);
    }
    double sum[5] = {0};
    for (size_t i = 0; i < p->series_count; i++)
        for (size_t b = 0; p->series[i].style == PLOT_BARS && b < 5; b++)
            sum[b] += p->series[i].y[b];
    CHECK(sum[0] == 110); /* the parts of the baseline are more than its wall clock */
    CHECK(sum[1] == 110 && sum[2] == 125 && sum[3] == 160 && sum[4] == 0);
    CHECK(strstr(ebb_str_c(&svg), "m-4 -4l8 8") != NULL); /* 0.2 GB failed */
}

TEST(throughput__bars_by_batch_and_crosses)
{
#define SWEEP(batch, summary)                                                                      \
    SET("\"type\": \"dtr\", \"kind\": \"param_sweep\", \"memory_budget\": 6000000000, "            \
        "\"batch_size\": " #batch,                                                                 \
        summary)
    struct harness_results r = read_text("{\"net\": [" BASE ", " SET(
        "\"type\": \"baseline\", \"batch_size\": 16",
        "\"error\"") ", " SWEEP(8, "[" TIME(100) "]") ", " SWEEP(16, "[" TIME(160) "]") "]}");
    struct harness_charts what = {.results = &r};
    draw(&what, HARNESS_CHART_THROUGHPUT);
    const struct plot_panel *p = &chart.panels[0];
    CHECK_EQ(p->x_tick_count, 2);
    CHECK_STR(p->x_ticks[1], "16");
    CHECK_STR(p->series[0].name, "baseline");
    CHECK(p->series[0].y[0] == 80 && isnan(p->series[0].y[1]));
    CHECK_STR(p->series[2].name, "6 GB");
    CHECK(p->series[2].y[0] == 80 && p->series[2].y[1] == 100);
    CHECK_STR(p->series[4].name, "failed");
    CHECK_EQ(p->series[4].count, 1);
    draw(&what, HARNESS_CHART_SWEEP);
    CHECK_EQ(chart.panel_count, 1);
    CHECK_EQ(chart.panels[0].x_tick_count, 4);
    draw(&what, HARNESS_CHART_SLOWDOWN);
    CHECK_EQ(chart.panel_count, 0);
    draw(&what, HARNESS_CHART_BREAKDOWN);
    CHECK_EQ(chart.panel_count, 0);
}

TEST(slowdown__knows_models_by_their_aliases)
{
    struct harness_results r =
        read_text("{\"densenet121\": [" BASE ", " BUDGET(500000000, "[" TIME(110) "]") "]}");
    struct harness_results other =
        read_text("{\"tv_densenet121\": [" BASE ", " BUDGET(500000000, "[" TIME(150) "]") "]}");
    struct harness_charts what = {.results = &r, .references = &other, .reference_count = 1};
    CHECK(strstr(draw(&what, HARNESS_CHART_SLOWDOWN), ">densenet121, published</text>") != NULL);
}

/* More than any list that was once long enough. */
TEST(breakdown__draws_every_setting)
{
    struct ebb_str text = {0};
    ebb_str_add(&text, "{\"net\": [" BASE);
    for (int i = 1; i <= 60; i++)
        ebb_str_printf(&text,
                       ", {\"command_id\": 0, \"specific_params\": {\"type\": \"way%d\", "
                       "\"kind\": \"fixed\", \"batch_size\": 8, \"memory_budget\": %d}, "
                       "\"summary\": [" TIME(110) "]}",
                       i, i * 10000000);
    ebb_str_add(&text, "]}");
    struct harness_results r = read_text(ebb_str_c(&text));
    struct harness_charts what = {.results = &r};
    draw(&what, HARNESS_CHART_BREAKDOWN);
    CHECK_EQ(chart.panels[0].x_tick_count, 61);
    draw(&what, HARNESS_CHART_SLOWDOWN);
    CHECK_EQ(chart.panels[0].series_count, 180);
    ebb_str_fini(&text);
}

static int end(void **state)
{
    ebb_str_fini(&svg);
    return arena_close(state);
}

TEST_MAIN_EACH(arena_open, end)
