/* Charts as text: exact pictures, small enough to read. */
#include "test.h"

#include <stdio.h>

#include <math.h>
#include <stdlib.h>

#include "base/heap.h"
#include "plot/plot.h"
#include "plot_golden.h"

static char page[16384];

static const char *draw(const struct plot_panel *panels, size_t count, int columns, int rows)
{
    const struct plot_chart chart = {.title = "Title", .panels = panels, .panel_count = count};
    struct ebb_str out;
    struct ebb_error err;
    ebb_str_init(&out);
    CHECK_OK(plot_terminal(&chart, columns, rows, &out, &err), &err);
    snprintf(page, sizeof page, "%s", ebb_str_c(&out));
    ebb_str_fini(&out);
    CHECK_EQ(ebb_heap_live(), 0);
    return page;
}

static const double x3[] = {0, 1, 2}, y3[] = {1, 2, 4}, z3[] = {2, 1, NAN}, ones[] = {1, 1, 1};
static const char *const names[] = {"first", "größer", "third"};

TEST(terminal__draws_steps_with_markers)
{
    const struct plot_series s[] = {
        {.name = "dtr", .style = PLOT_STEP, .x = x3, .y = y3, .count = 3},
        {.name = "lru", .style = PLOT_STEP, .x = x3, .y = z3, .count = 3}};
    const struct plot_mark m = {.at = 1.5, .is_vertical = true, .label = "fails"};
    const struct plot_panel p = {.series = s,
                                 .series_count = 2,
                                 .marks = &m,
                                 .mark_count = 1,
                                 .x_label = "x",
                                 .y_label = "y"};
    check_golden(draw(&p, 1, 40, 14), "steps");
}

TEST(terminal__draws_bars_as_rows)
{
    const struct plot_series s[] = {{.name = "a", .style = PLOT_BARS, .y = y3, .count = 3},
                                    {.name = "b", .style = PLOT_BARS, .y = ones, .count = 3}};
    struct plot_panel p = {.series = s, .series_count = 2, .x_ticks = names, .x_tick_count = 3};
    check_golden(draw(&p, 1, 40, 14), "bars");
    p.is_stacked = true;
    check_golden(draw(&p, 1, 40, 14), "stacked");
}

TEST(terminal__draws_areas_and_cells)
{
    const struct plot_series areas[] = {
        {.name = "weights", .style = PLOT_AREA, .x = x3, .y = ones, .count = 3},
        {.name = "free", .style = PLOT_AREA, .x = x3, .y = y3, .count = 3}};
    const double cx[] = {0, 1, 0, 1}, cy[] = {0, 0, 1, 1}, cv[] = {0, 1, 2, NAN};
    const struct plot_series cells = {
        .name = "v", .style = PLOT_CELLS, .x = cx, .y = cy, .y2 = cv, .count = 4};
    const struct plot_panel p[] = {{.series = areas, .series_count = 2, .is_stacked = true},
                                   {.series = &cells, .series_count = 1}};
    check_golden(draw(p, 2, 116, 12), "areas");
}

TEST(terminal__says_no_data)
{
    const struct plot_panel p = {.title = "empty"};
    assert_non_null(strstr(draw(&p, 1, 40, 12), "no data"));
}

/* Whatever the size and the numbers, lines are no longer than the terminal and nothing breaks. */
TEST(terminal__fits_any_size)
{
    double wild[] = {1e300, -1e300, 0, NAN, INFINITY, 1e-300, 5};
    const struct plot_series s[] = {
        {.name = "wild", .style = PLOT_LINE, .y = wild, .count = 7},
        {.name = "a rather long name for a series of a chart", .y = wild, .count = 7}};
    const struct plot_panel p = {
        .title = "t", .series = s, .series_count = 2, .x_label = "some label"};
    for (int columns = 24; columns < 140; columns += 7)
        for (int rows = 1; rows < 40; rows += 6) {
            draw(&p, 1, columns, rows);
            int width = 0;
            for (const char *c = page; *c != '\0'; c++) {
                width = *c == '\n' ? 0 : width + (((unsigned char)*c & 0xc0) != 0x80);
                CHECK(width <= columns);
            }
        }
    struct ebb_str out;
    const struct plot_chart chart = {.panels = &p, .panel_count = 1};
    ebb_str_init(&out);
    CHECK_EQ(plot_terminal(&chart, 10, 10, &out, NULL), EBB_EINPUT);
    CHECK_EQ(out.length, 0);
}

TEST(terminal__survives_every_failed_allocation)
{
    const struct plot_series s[] = {
        {.name = "dtr", .style = PLOT_STEP, .x = x3, .y = y3, .count = 3}};
    const struct plot_panel p = {.series = s, .series_count = 1};
    const struct plot_chart chart = {.title = "T", .panels = &p, .panel_count = 1};
    enum ebb_status status = EBB_ENOMEM;
    for (uint64_t n = 1; status != EBB_OK; n++) {
        struct ebb_str out;
        ebb_str_init(&out);
        ebb_heap_fail_at(n);
        status = plot_terminal(&chart, 60, 16, &out, NULL);
        ebb_heap_fail_at(0);
        CHECK(status == EBB_OK || status == EBB_ENOMEM);
        ebb_str_fini(&out);
        CHECK_EQ(ebb_heap_live(), 0);
    }
}

TEST_MAIN()
