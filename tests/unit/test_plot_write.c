/* Charts as files: gnuplot real, missing, failing and hanging. Tests that need the real one skip
 * without it. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/heap.h"
#include "plot/gnuplot.h"
#include "plot/plot.h"
#include "plot/script.h"
#include "plot_golden.h"

static char folder[] = "/tmp/ebb-plot-XXXXXX";
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

static void need_gnuplot(void)
{
    if (system("gnuplot --version > /dev/null 2>&1") != 0)
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
    TEST_UNUSED;
    struct ebb_error err;
    need_gnuplot();
    CHECK_OK(plot_write(&chart, in_folder("a.svg"), &err), &err);
    CHECK_OK(plot_write(&chart, in_folder("b.svg"), &err), &err);
    char *a = slurp(in_folder("a.svg")), *b = slurp(in_folder("b.svg"));
    CHECK_STR(a, b);
    assert_non_null(strstr(a, "<desc>Made by ebb</desc>"));
    assert_null(strstr(a, "GNUPLOT"));
    ebb_free(a);
    ebb_free(b);
}

/* Words arrive as typed: shown literally, escaped for XML, never as markup, never run. */
TEST(write__shows_words_as_typed)
{
    TEST_UNUSED;
    struct ebb_error err;
    need_gnuplot();
    CHECK_OK(plot_write(&chart, in_folder("a.svg"), &err), &err);
    char *svg = slurp(in_folder("a.svg"));
    static const char *const shown[] = {"`touch /tmp/ebb-owned` $(id) a_b^c{d} &amp; &lt;x>",
                                        "lru &lt;&amp;> {x}",
                                        "dtr_eq",
                                        "budget_ratio",
                                        "x^2 {y}",
                                        "a_b^{2}",
                                        "üñí 漢字",
                                        "Area &amp; more &lt;b>",
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
    TEST_UNUSED;
    static const struct {
        const char *name, *magic;
    } formats[] = {{"c.svg", "<?xml"}, {"c.png", "\x89PNG"}, {"c.PDF", "%PDF"}};
    struct ebb_error err;
    need_gnuplot();
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

/* What gnuplot is told, word for word: the part of a picture that does not depend on its version.
 */
TEST(script__is_as_recorded)
{
    TEST_UNUSED;
    struct plot_chart c = chart;
    struct plot_figure figure;
    struct plot_layout layout;
    struct ebb_str script;
    struct ebb_error err;
    c.panel_count = 4; /* without the log axes, whose ends come from libm */
    ebb_str_init(&script);
    CHECK_OK(plot_figure_init(&figure, &c, &err), &err);
    CHECK_OK(plot_layout_init(&layout, &figure, &err), &err);
    plot_script_add(&script, &figure, &layout, PLOT_SVG);
    check_golden(ebb_str_c(&script), "script");
    ebb_str_fini(&script);
    plot_layout_fini(&layout);
    plot_figure_fini(&figure);
}

TEST(write__thins_long_lines_but_keeps_spikes)
{
    TEST_UNUSED;
    enum { N = 200000 };
    double *x = ebb_calloc(N, sizeof *x), *y = ebb_calloc(N, sizeof *y);
    assert_non_null(x);
    assert_non_null(y);
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = i == 123457 ? 77.25 : 1;
    }
    const struct plot_series s = {.style = PLOT_LINE, .x = x, .y = y, .count = N};
    const struct plot_panel panel = {.series = &s, .series_count = 1};
    const struct plot_chart c = {.panels = &panel, .panel_count = 1};
    struct plot_figure figure;
    struct plot_layout layout;
    struct ebb_str script;
    struct ebb_error err;
    ebb_str_init(&script);
    CHECK_OK(plot_figure_init(&figure, &c, &err), &err);
    CHECK_OK(plot_layout_init(&layout, &figure, &err), &err);
    plot_script_add(&script, &figure, &layout, PLOT_SVG);
    assert_non_null(strstr(ebb_str_c(&script), "\n123457 77.25\n"));
    CHECK(script.length < 200000);
    ebb_str_fini(&script);
    plot_layout_fini(&layout);
    plot_figure_fini(&figure);
    ebb_free(x);
    ebb_free(y);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(write__keeps_the_old_file_when_it_fails)
{
    TEST_UNUSED;
    struct ebb_error err;
    CHECK_OK(ebb_file_write_atomic(in_folder("old.svg"), "old", 3, &err), &err);
    setenv("PATH", "/nonexistent", 1);
    enum ebb_status status = plot_write(&chart, in_folder("old.svg"), &err);
    setenv("PATH", original_path, 1);
    CHECK_EQ(status, EBB_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "apt-get install gnuplot-nox"));
    char *text = slurp(in_folder("old.svg"));
    CHECK_STR(text, "old");
    ebb_free(text);
    CHECK_EQ(ebb_heap_live(), 0);
}

/* A program of that name that does what the test wants. */
static void pretend(const char *body)
{
    const char *path = in_folder("gnuplot");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", body);
    fclose(f);
    chmod(path, 0755);
    char with[4200];
    snprintf(with, sizeof with, "%s:%s", folder, original_path);
    setenv("PATH", with, 1);
}

static enum ebb_status pretend_run(const char *body, uint64_t timeout_ns, struct ebb_str *out,
                                   struct ebb_error *err)
{
    pretend(body);
    enum ebb_status status = plot_gnuplot_run("plot x\n", 7, timeout_ns, out, err);
    setenv("PATH", original_path, 1);
    return status;
}

TEST(run__tells_how_it_failed)
{
    TEST_UNUSED;
    struct ebb_error err;
    struct ebb_str out;
    ebb_str_init(&out);
    CHECK_EQ(pretend_run("echo '\"-\", line 3: undefined variable: x' >&2; exit 1", PLOT_TIMEOUT_NS,
                         &out, &err),
             EBB_EIO);
    assert_non_null(strstr(err.message, "gnuplot failed (exit 1): line 3: undefined variable: x"));
    CHECK_EQ(pretend_run("kill -9 $$", PLOT_TIMEOUT_NS, &out, &err), EBB_EIO);
    assert_non_null(strstr(err.message, "signal 9"));
    CHECK_EQ(pretend_run("exit 0", PLOT_TIMEOUT_NS, &out, &err), EBB_EIO); /* drew nothing */
    CHECK_EQ(out.length, 0);
    ebb_str_fini(&out);
}

TEST(run__ends_what_does_not_end)
{
    TEST_UNUSED;
    struct ebb_error err;
    struct ebb_str out;
    ebb_str_init(&out);
    uint64_t begin = ebb_clock_ns();
    CHECK_EQ(pretend_run("exec sleep 30", 300u * 1000 * 1000, &out, &err), EBB_ELIMIT);
    CHECK(ebb_clock_ns() - begin < 10ull * 1000 * 1000 * 1000);
    assert_non_null(strstr(err.message, "0.3 s"));
    ebb_str_fini(&out);
}

TEST(run__hands_over_more_than_a_pipe_holds)
{
    TEST_UNUSED;
    struct ebb_error err;
    struct ebb_str script, out;
    ebb_str_init(&script);
    ebb_str_init(&out);
    for (int i = 0; i < 100000; i++)
        ebb_str_add(&script, "0123456789\n");
    pretend("cat; cat >/dev/null");
    enum ebb_status status =
        plot_gnuplot_run(ebb_str_c(&script), script.length, PLOT_TIMEOUT_NS, &out, &err);
    setenv("PATH", original_path, 1);
    CHECK_OK(status, &err);
    CHECK_EQ(out.length, script.length);
    ebb_str_fini(&script);
    ebb_str_fini(&out);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(tame__replaces_what_no_font_has)
{
    TEST_UNUSED;
    struct ebb_str s;
    ebb_str_init(&s);
    ebb_str_add(&s, "set label 'größe ≤ 2 × α … \xf3\xb0\x80\x80' # U+F0000 is in no font\n");
    setenv("PATH", "/nonexistent", 1); /* nobody to ask: the answer is no */
    plot_gnuplot_tame(&s);
    setenv("PATH", original_path, 1);
    CHECK_STR(ebb_str_c(&s), "set label 'größe ≤ 2 × α … ?' # U+F0000 is in no font\n");
    ebb_str_fini(&s);
    CHECK_EQ(ebb_heap_live(), 0);
}

static int group_begin(void **state)
{
    (void)state;
    const char *path = getenv("PATH");
    snprintf(original_path, sizeof original_path, "%s", path != NULL ? path : "/usr/bin:/bin");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int group_end(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(write__same_chart_same_bytes),
        RUN(write__shows_words_as_typed),
        RUN(write__knows_three_formats),
        RUN(script__is_as_recorded),
        RUN(write__thins_long_lines_but_keeps_spikes),
        RUN(write__keeps_the_old_file_when_it_fails),
        RUN(run__tells_how_it_failed),
        RUN(run__ends_what_does_not_end),
        RUN(run__hands_over_more_than_a_pipe_holds),
        RUN(tame__replaces_what_no_font_has),
    };
    return cmocka_run_group_tests(tests, group_begin, group_end);
}
