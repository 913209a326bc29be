/* Charts as files: SVG byte for byte; PNG and PDF by rsvg-convert, real, missing and failing. Tests
 * that need the real one skip without it. */
#include "test_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "plot/plot.h"
#include "plot_golden.h"

static char original_path[4096]; /* not from our heap: tests count what is left there */

static const char *in_folder(const char *name)
{
    static char path[2][256];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static char *slurp(const char *path)
{
    struct ebb_file_view view;
    struct ebb_error err;
    CHECK_OK(ebb_file_view_open(&view, path, 1u << 26, &err), &err);
    char *text = ebb_strndup(view.data, view.length);
    assert_non_null(text);
    ebb_file_view_close(&view);
    return text;
}

static void need_converter(void)
{
    if (system("rsvg-convert --version > /dev/null 2>&1") != 0)
        skip();
}

/* A chart with every style, and words chosen to break things. */
static const double x4[] = {0.1, 0.2, 0.3, 0.4}, y4[] = {4, 3, NAN, 1}, z4[] = {5, 4, 3, 2};
static const double cx[] = {0, 1, 0, 1}, cy[] = {0, 0, 1, 1}, cv[] = {1, 2, 3, NAN};
static const char *const names[] = {"it's", "a_b^{2}", "c\\d\n\"e\"", "`id` @f $g"};
static const struct plot_series curves[] = {
    {.name = "dtr_eq", .style = PLOT_STEP, .x = x4, .y = y4, .count = 4},
    {.name = "quo'te", .style = PLOT_LINE, .x = x4, .y = z4, .count = 4, .is_dashed = true},
    {.name = "lru <&> {x}", .style = PLOT_LINE_POINTS, .x = x4, .y = z4, .count = 4},
    {.name = "points", .style = PLOT_POINTS, .x = x4, .y = y4, .count = 4},
    {.name = "band", .style = PLOT_BAND, .x = x4, .y = y4, .y2 = z4, .count = 4}};
static const struct plot_series areas[] = {
    {.name = "weights", .style = PLOT_AREA, .x = x4, .y = z4, .count = 4},
    {.name = "free", .style = PLOT_AREA, .x = x4, .y = y4, .count = 4}};
static const struct plot_series bars[] = {
    {.name = "dtr_eq", .style = PLOT_BARS, .y = y4, .count = 4},
    {.name = "best", .style = PLOT_BARS, .y = z4, .count = 4}};
static const struct plot_series cells[] = {
    {.name = "v", .style = PLOT_CELLS, .x = cx, .y = cy, .y2 = cv, .count = 4}};
static const struct plot_mark marks[] = {
    {.at = 0.25, .is_vertical = true, .label = "fails 'here'", .color = "#cc0000"},
    {.at = 2, .is_dashed = true, .label = "bud\\get"}};
static const struct plot_panel panels[] = {
    {.title = "Curves: \"double\" 'single'",
     .x_label = "budget_ratio",
     .y_label = "x^2 {y}",
     .series = curves,
     .series_count = 5,
     .marks = marks,
     .mark_count = 2},
    {.title = "Area & more <b>", .series = areas, .series_count = 2, .is_stacked = true},
    {.title = "Bars", .series = bars, .series_count = 2, .x_ticks = names, .x_tick_count = 4},
    {.title = "Cells", .series = cells, .series_count = 1},
    {.title = "log", .series = curves, .series_count = 3, .log_x = true, .log_y = true},
    {.title = "nothing"}};
static const struct plot_chart chart = {
    .title = "T'i\"t\\le\nüñí 漢字 `touch /tmp/ebb-owned` $(id) a_b^c{d} & <x>",
    .subtitle = "]]> ebb sim 'log' --policy \"dtr\"\nsecond line",
    .panels = panels,
    .panel_count = 6,
    .shared_legend = true};

TEST(write__same_chart_same_bytes)
{
    struct ebb_error err;
    CHECK_OK(plot_write(&chart, in_folder("a.svg"), &err), &err);
    CHECK_OK(plot_write(&chart, in_folder("b.svg"), &err), &err);
    char *a = slurp(in_folder("a.svg")), *b = slurp(in_folder("b.svg"));
    CHECK_STR(a, b);
    assert_non_null(strstr(a, "<desc>Made by ebb</desc>"));
    ebb_free(a);
    ebb_free(b);
}

/* Words arrive as typed: shown literally, escaped for XML, never as markup, never run. */
TEST(write__shows_words_as_typed)
{
    struct ebb_error err;
    CHECK_OK(plot_write(&chart, in_folder("a.svg"), &err), &err);
    char *svg = slurp(in_folder("a.svg"));
    static const char *const shown[] = {"`touch /tmp/ebb-owned` $(id) a_b^c{d} &amp; &lt;x&gt;",
                                        "lru &lt;&amp;&gt; {x}",
                                        "dtr_eq",
                                        "budget_ratio",
                                        "x^2 {y}",
                                        "a_b^{2}",
                                        "üñí 漢字",
                                        "Area &amp; more &lt;b&gt;",
                                        "]]&gt;",
                                        "`id` @f $g",
                                        "fails 'here'",
                                        "bud\\get",
                                        "c\\d \"e\""};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        if (strstr(svg, shown[i]) == NULL)
            fail_msg("not in the picture: %s", shown[i]);
    CHECK(access("/tmp/ebb-owned", F_OK) != 0);
    ebb_free(svg);
}

TEST(write__knows_three_formats)
{
    static const struct {
        const char *name, *magic;
    } formats[] = {{"c.svg", "<?xml"}, {"c.png", "\x89PNG"}, {"c.PDF", "%PDF"}};
    struct ebb_error err;
    need_converter();
    for (size_t i = 0; i < 3; i++) {
        CHECK_OK(plot_write(&chart, in_folder(formats[i].name), &err), &err);
        char *bytes = slurp(in_folder(formats[i].name));
        CHECK(strncmp(bytes, formats[i].magic, strlen(formats[i].magic)) == 0);
        ebb_free(bytes);
    }
    CHECK_EQ(plot_write(&chart, in_folder("c.gif"), &err), EBB_EINPUT);
    assert_non_null(strstr(err.message, ".svg, .png or .pdf"));
    CHECK_EQ(plot_write(&chart, "svg", NULL), EBB_EINPUT);
    CHECK_EQ(ebb_heap_live(), 0);
}

/* A picture, word for word. */
TEST(write__is_as_recorded)
{
    struct plot_chart c = chart;
    struct ebb_error err;
    c.panel_count = 4; /* without the log axes, whose ends come from libm */
    CHECK_OK(plot_write(&c, in_folder("g.svg"), &err), &err);
    char *svg = slurp(in_folder("g.svg"));
    check_golden(svg, "chart");
    ebb_free(svg);
}

TEST(write__thins_long_lines_but_keeps_spikes)
{
    enum { N = 200000 };
    double *x = ebb_calloc(N, sizeof *x), *y = ebb_calloc(N, sizeof *y);
    assert_non_null(x);
    assert_non_null(y);
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = i == 123457 ? 80 : 1;
    }
    const struct plot_series s = {.style = PLOT_LINE, .x = x, .y = y, .count = N};
    const struct plot_panel panel = {
        .series = &s, .series_count = 1, .x_max = N, .y_max = 100}; /* 0 to 410 pixels high */
    const struct plot_chart c = {.panels = &panel, .panel_count = 1};
    struct ebb_error err;
    CHECK_OK(plot_write(&c, in_folder("s.svg"), &err), &err);
    char *svg = slurp(in_folder("s.svg"));
    double top, left, low, high;
    const char *inner = strstr(svg, "<svg x=");
    assert_non_null(inner);
    CHECK_EQ(sscanf(inner, "<svg x=\"%lf\" y=\"%lf\"", &left, &top), 2);
    char spike[64];
    low = left + 123457.0 / N * 820;
    high = top + 0.2 * 410;
    snprintf(spike, sizeof spike, "L%.2f %g ", low, high);
    if (strstr(svg, spike) == NULL)
        fail_msg("no %s in the picture", spike);
    CHECK(strlen(svg) < 200000);
    ebb_free(svg);
    ebb_free(x);
    ebb_free(y);
    CHECK_EQ(ebb_heap_live(), 0);
}

/* What leaves the caller's limits is cut off, not drawn over the labels; values without a place on
 * the axis never reach the file. */
TEST(write__numbers_are_always_finite)
{
    static const double wild[] = {1, -5, NAN, 1e300, INFINITY, -INFINITY, 1e-300, 2};
    static const double ones[] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int style = PLOT_LINE; style <= PLOT_SQUARES; style++)
        for (int log = 0; log < 2; log++) {
            const struct plot_series s = {.style = (enum plot_style)style,
                                          .x = log ? wild : ones,
                                          .y = wild,
                                          .y2 = ones,
                                          .count = 8};
            const struct plot_panel panel = {
                .series = &s, .series_count = 1, .log_y = log, .y_min = 1, .y_max = 3};
            const struct plot_chart c = {.panels = &panel, .panel_count = 1};
            struct ebb_error err;
            CHECK_OK(plot_write(&c, in_folder("w.svg"), &err), &err);
            char *svg = slurp(in_folder("w.svg"));
            assert_null(strstr(svg, "nan"));
            assert_null(strstr(svg, "inf"));
            ebb_free(svg);
        }
}

TEST(write__keeps_the_old_file_when_it_fails)
{
    struct ebb_error err;
    CHECK_OK(ebb_file_write_atomic(in_folder("old.png"), "old", 3, &err), &err);
    setenv("PATH", "/nonexistent", 1);
    enum ebb_status status = plot_write(&chart, in_folder("old.png"), &err);
    CHECK_EQ(plot_write(&chart, in_folder("new.svg"), NULL), EBB_OK); /* needs no program */
    setenv("PATH", original_path, 1);
    CHECK_EQ(status, EBB_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "apt-get install librsvg2-bin"));
    char *text = slurp(in_folder("old.png"));
    CHECK_STR(text, "old");
    ebb_free(text);
    CHECK_EQ(ebb_heap_live(), 0);
}

static int group_begin(void **state)
{
    const char *path = getenv("PATH");
    snprintf(original_path, sizeof original_path, "%s", path != NULL ? path : "/usr/bin:/bin");
    return folder_open(state);
}

TEST_MAIN_ONCE(group_begin, folder_close)
