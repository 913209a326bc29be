/* Axes, colours, stacks: what a chart becomes before anything is drawn. */
#include "test.h"

#include <stdio.h>

#include <math.h>

#include "base/heap.h"
#include "plot/layout.h"

static const char *labels(double min, double max, bool is_log, size_t target)
{
    static char text[512];
    struct plot_scale s = {.min = min, .max = max, .is_log = is_log};
    struct plot_tick ticks[PLOT_TICKS];
    size_t n = plot_ticks(&s, target, ticks), at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        if (ticks[i].text[0] != '\0')
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at > 0 ? " " : "",
                                   ticks[i].text);
    return text;
}

TEST(ticks__are_round)
{
    CHECK_STR(labels(0, 1, false, 5), "0.0 0.2 0.4 0.6 0.8 1.0");
    CHECK_STR(labels(-3, 7, false, 5), "-2 0 2 4 6");
    CHECK_STR(labels(0, 60000, false, 3), "0 20k 40k 60k");
    CHECK_STR(labels(0, 2.5e9, false, 5), "0.0 0.5G 1.0G 1.5G 2.0G 2.5G");
    CHECK_STR(labels(1e-9, 3e-9, false, 2), "1e-09 2e-09 3e-09");
    CHECK_STR(labels(0.95, 1.08, false, 3), "0.95 1.00 1.05");
}

TEST(ticks__of_counted_things_are_whole)
{
    const double epochs[] = {1, 2, 3}, halves[] = {1, 1.5, 3}, y[] = {1, 2, 3};
    struct plot_series series = {.style = PLOT_LINE, .x = epochs, .y = y, .count = 3};
    struct plot_panel panel = {.series = &series, .series_count = 1};
    struct plot_chart one = {.panels = &panel, .panel_count = 1};
    struct plot_figure f;
    struct plot_tick ticks[PLOT_TICKS];
    struct ebb_error err = {0};
    CHECK_OK(plot_figure_init(&f, &one, &err), &err);
    CHECK_EQ(plot_pane_ticks(&f.panes[0], false, 8, ticks), 3);
    CHECK_STR(ticks[1].text, "2");
    plot_figure_fini(&f);
    series.x = halves;
    CHECK_OK(plot_figure_init(&f, &one, &err), &err);
    CHECK(plot_pane_ticks(&f.panes[0], false, 8, ticks) > 3);
    plot_figure_fini(&f);
}

TEST(ticks__of_log_axes_are_powers)
{
    CHECK_STR(labels(1, 1e5, true, 6), "1 10 100 1000 10k 100k");
    CHECK_STR(labels(0.5, 30, true, 8), "0.5 1 2 5 10 20");
    CHECK_STR(labels(1, 1e12, true, 4), "1 1000 1M 1G 1T");
    CHECK_STR(labels(3, 6, true, 4), "3 4 5 6"); /* too short for powers */
}

TEST(scale__is_never_empty)
{
    const struct plot_extent cases[] = {
        {0, 0, 0}, {0, 0, 3}, {5, 5, 1}, {-2, -2, 1}, {1e300, 1e300, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < 8; k++) {
            struct plot_extent e = cases[i];
            bool is_log = (k & 1) != 0;
            if (is_log && e.count > 0 && e.min <= 0)
                continue; /* plot_extent_add lets none through */
            struct plot_scale s = plot_scale_make(&e, is_log, (k & 2) != 0, (k & 4) != 0, NAN, NAN);
            CHECK(s.min < s.max);
            CHECK(isfinite(s.min) && isfinite(s.max));
            CHECK(!is_log || s.min > 0);
        }
}

TEST(scale__starts_at_zero_only_when_near_or_filled)
{
    struct plot_extent overhead = {1, 4, 9}, near = {0.1, 4, 9};
    CHECK(plot_scale_make(&overhead, false, false, false, NAN, NAN).min > 0.5);
    CHECK(plot_scale_make(&overhead, false, true, false, NAN, NAN).min == 0);
    CHECK(plot_scale_make(&near, false, false, false, NAN, NAN).min == 0);
    CHECK(plot_scale_make(&overhead, false, false, false, -1, 9).min == -1);
    CHECK(plot_scale_make(&overhead, false, false, false, -1, 9).max == 9);
}

static const double one_two[] = {1, 2}, three_four[] = {3, 4}, gap[] = {5, NAN};

static enum ebb_status make(struct plot_figure *f, struct plot_panel *panel, struct ebb_error *err)
{
    static struct plot_chart chart;
    chart = (struct plot_chart){.panels = panel, .panel_count = 1};
    return plot_figure_init(f, &chart, err);
}

TEST(figure__stacks_in_order)
{
    const struct plot_series s[] = {{.style = PLOT_AREA, .y = one_two, .count = 2},
                                    {.style = PLOT_AREA, .y = gap, .count = 2},
                                    {.style = PLOT_AREA, .y = three_four, .count = 2}};
    struct plot_panel panel = {.series = s, .series_count = 3, .is_stacked = true};
    struct plot_figure f;
    struct ebb_error err;
    CHECK_OK(make(&f, &panel, &err), &err);
    const struct plot_layer *top = &f.panes[0].layers[2];
    CHECK(top->low[0] == 6 && top->high[0] == 9);
    CHECK(top->low[1] == 2 && top->high[1] == 6); /* the gap counts as nothing */
    CHECK(f.panes[0].y.min == 0 && f.panes[0].y.max >= 9);
    plot_figure_fini(&f);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(legend__shows_lines_as_lines_and_what_failed_last)
{
    const double x[] = {1, 2}, y[] = {1, 2};
    struct plot_series first[] = {
        {.name = "failed", .style = PLOT_CROSSES, .x = x, .y = y, .count = 1},
        {.name = "rotor", .style = PLOT_POINTS, .x = x, .y = y, .count = 1, .is_dashed = true}};
    struct plot_series second[] = {
        {.name = "rotor", .style = PLOT_STEP, .x = x, .y = y, .count = 2, .is_dashed = true}};
    struct plot_panel panels[] = {{.series = first, .series_count = 2},
                                  {.series = second, .series_count = 1}};
    struct plot_chart two = {.panels = panels, .panel_count = 2, .shared_legend = true};
    struct plot_figure f;
    struct ebb_error err = {0};
    CHECK_OK(plot_figure_init(&f, &two, &err), &err);
    CHECK_EQ(f.entry_count, 2);
    CHECK_STR(f.entries[0].name, "rotor");
    CHECK(f.entries[0].style == PLOT_STEP && f.entries[0].is_dashed);
    CHECK_STR(f.entries[1].name, "failed");
    plot_figure_fini(&f);
}

TEST(figure__includes_marks_in_its_ranges)
{
    const struct plot_series s[] = {
        {.style = PLOT_LINE, .x = one_two, .y = three_four, .count = 2}};
    const struct plot_mark m[] = {{.at = 0.2, .is_vertical = true}, {.at = 11}};
    struct plot_panel panel = {.series = s, .series_count = 1, .marks = m, .mark_count = 2};
    struct plot_figure f;
    struct ebb_error err;
    CHECK_OK(make(&f, &panel, &err), &err);
    CHECK(f.panes[0].x.min < 0.2 && f.panes[0].y.max > 11);
    plot_figure_fini(&f);
}

/* A point on the line of the mark is drawn as a marker: words keep clear of all of it. */
TEST(words_of_marks__keep_clear_of_markers)
{
    const double x[] = {1, 2}, y[] = {9.5, 1};
    const struct plot_series s[] = {{.style = PLOT_POINTS, .x = x, .y = y, .count = 2}};
    const struct plot_mark m[] = {{.at = 1, .is_vertical = true, .label = "floor"}};
    struct plot_panel panel = {.series = s, .series_count = 1, .marks = m, .mark_count = 1};
    const struct plot_box box = {0, 0, 400, 300};
    struct plot_figure f;
    struct ebb_error err;
    CHECK_OK(make(&f, &panel, &err), &err);
    double at_x = plot_box_x(&box, &f.panes[0].x, 1), at_y = plot_box_y(&box, &f.panes[0].y, 9.5);
    struct plot_box w = plot_free_place(&f.panes[0], &box, 0, 30, NULL, 0);
    CHECK(w.x > at_x + 4 || w.x + w.width < at_x - 4 || w.y > at_y + 4 ||
          w.y + w.height < at_y - 4);
    plot_figure_fini(&f);
}

TEST(colors__are_fixed_for_known_names)
{
    CHECK_STR(plot_color("dtr", 0), plot_color("dtr", 7));
    CHECK_STR(plot_color("DTREqClass", 3), plot_color("dtr_eq", 0));
    CHECK(strcmp(plot_color("lru", 0), plot_color("dtr", 0)) != 0);
    CHECK(strcmp(plot_color("x", 0), plot_color("x", 1)) != 0);
    CHECK_STR(plot_color(NULL, 2), plot_color("unknown", 12)); /* the cycle comes round */
}

TEST(colors__of_unknown_names_avoid_the_known)
{
    const struct plot_series s[] = {{.name = "mine", .y = one_two, .count = 2},
                                    {.name = "dtr", .y = one_two, .count = 2},
                                    {.name = "yours", .y = one_two, .count = 2},
                                    {.name = "given", .y = one_two, .count = 2, .color = "#e69f00"},
                                    {.name = "mine", .y = three_four, .count = 2}};
    struct plot_panel panel = {.series = s, .series_count = 5};
    struct plot_figure f;
    struct ebb_error err;
    CHECK_OK(make(&f, &panel, &err), &err);
    CHECK_EQ(f.entry_count, 4);
    for (size_t i = 0; i < f.entry_count; i++)
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(f.entries[i].color, f.entries[k].color) != 0);
    CHECK_STR(f.panes[0].layers[0].color, f.panes[0].layers[4].color);
    CHECK_STR(f.entries[3].color, "#e69f00");
    plot_figure_fini(&f);
}

TEST(figure__refuses_what_it_cannot_draw)
{
    const struct plot_series no_y = {.style = PLOT_LINE, .count = 2};
    const struct plot_series no_y2 = {.style = PLOT_CELLS, .y = one_two, .count = 2};
    const struct plot_series style = {.style = (enum plot_style)99, .y = one_two, .count = 2};
    const struct plot_series color = {.y = one_two, .count = 2, .color = "red'; system('ls')"};
    const struct plot_series uneven[] = {{.style = PLOT_AREA, .y = one_two, .count = 2},
                                         {.style = PLOT_AREA, .y = one_two, .count = 1}};
    const struct plot_mark mark = {.at = 1, .color = "#12345g"};
    const struct {
        struct plot_panel panel;
        const char *says;
    } cases[] = {
        {{.series = &no_y, .series_count = 1}, "without y"},
        {{.series = &no_y2, .series_count = 1}, "needs y2"},
        {{.series = &style, .series_count = 1}, "style 99"},
        {{.series = &color, .series_count = 1}, "#rrggbb"},
        {{.series = uneven, .series_count = 2, .is_stacked = true}, "differ in x"},
        {{.marks = &mark, .mark_count = 1}, "#rrggbb"},
        {{.x_min = 2, .x_max = 1, .y_min = NAN, .y_max = NAN}, "ends before"},
        {{.log_y = true, .y_min = -1, .y_max = 5}, "not positive"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plot_panel panel = cases[i].panel;
        struct plot_figure f;
        struct ebb_error err;
        CHECK_EQ(make(&f, &panel, &err), EBB_EINPUT);
        if (strstr(err.message, cases[i].says) == NULL)
            fail_msg("expected '%s' in: %s", cases[i].says, err.message);
        CHECK_EQ(ebb_heap_live(), 0);
    }
    struct plot_chart empty = {.panel_count = 0};
    struct plot_figure f;
    CHECK_EQ(plot_figure_init(&f, &empty, NULL), EBB_EINPUT);
}

TEST(figure__survives_every_failed_allocation)
{
    const struct plot_series s[] = {
        {.name = "a", .style = PLOT_BARS, .y = one_two, .count = 2},
        {.name = "b", .style = PLOT_CELLS, .y = one_two, .y2 = gap, .count = 2}};
    struct plot_panel panel = {.series = s, .series_count = 2};
    struct plot_figure f;
    struct ebb_error err;
    enum ebb_status status = EBB_ENOMEM;
    for (uint64_t n = 1; status != EBB_OK; n++) {
        ebb_heap_fail_at(n);
        status = make(&f, &panel, &err);
        ebb_heap_fail_at(0);
        CHECK(status == EBB_OK || status == EBB_ENOMEM);
        if (status != EBB_OK)
            CHECK_EQ(ebb_heap_live(), 0);
    }
    plot_figure_fini(&f);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST_MAIN()
