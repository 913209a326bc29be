/* parallel.c - parallel coordinates: an ordinary chart whose axes are marks with notes beside them.
 *
 * Each axis is scaled to heights 0 to 1 by its own range; lines are drawn from the worst to the
 * best, so the best lie on top. */
#include "plot/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/heap.h"
#include "plot/scale.h"

#define NOTES_PER_AXIS (PLOT_TICKS + 1)

struct parallel {
    struct ebb_arena arena; /* of all that follows */
    const struct plot_parallel *in;
    struct plot_scale *scales;
    double *heights; /* line by line */
    double *places;  /* 0, 1, 2 ...: x of every line */
    size_t *order;   /* worst first */
    struct plot_tick (*ticks)[PLOT_TICKS];
    struct plot_note *notes;
    size_t note_count;
    struct plot_mark *marks;
    struct plot_series *series;
    const char **names;
};

static enum ebb_status parallel_init(struct parallel *p, const struct plot_parallel *in,
                                     struct ebb_error *err)
{
    size_t axes = in->axis_count, lines = in->line_count, cells;
    *p = (struct parallel){.in = in};
    ebb_arena_init(&p->arena);
    if (axes < 2 || lines < 1 || in->stride < axes || in->color_axis >= axes)
        return ebb_fail(err, EBB_EINPUT,
                        "plot: parallel coordinates need two axes and one line, got %zu and %zu",
                        axes, lines);
    if (!ebb_mul_size(axes, lines, &cells))
        return ebb_no_memory(err, SIZE_MAX);
    p->scales = ebb_arena_calloc(&p->arena, axes, sizeof *p->scales);
    p->heights = ebb_arena_calloc(&p->arena, cells, sizeof *p->heights);
    p->places = ebb_arena_calloc(&p->arena, axes, sizeof *p->places);
    p->order = ebb_arena_calloc(&p->arena, lines, sizeof *p->order);
    p->ticks = ebb_arena_calloc(&p->arena, axes, sizeof *p->ticks);
    p->notes = ebb_arena_calloc(&p->arena, axes * NOTES_PER_AXIS, sizeof *p->notes);
    p->marks = ebb_arena_calloc(&p->arena, axes, sizeof *p->marks);
    p->series = ebb_arena_calloc(&p->arena, lines, sizeof *p->series);
    p->names = ebb_arena_calloc(&p->arena, axes, sizeof *p->names);
    return ebb_arena_status(&p->arena, err);
}

static struct plot_scale scale_of(const struct plot_parallel *in, size_t a)
{
    const struct plot_axis *axis = &in->axes[a];
    struct plot_extent extent = {0};
    for (size_t i = 0; i < in->line_count; i++)
        plot_extent_add(&extent, in->values[i * in->stride + a], axis->is_log);
    if (axis->categories != NULL) { /* a little air, so that no category lies on the edge */
        double last = (double)(axis->category_count > 0 ? axis->category_count - 1 : 0);
        return (struct plot_scale){.min = -0.25, .max = last + 0.25};
    }
    return plot_scale_make(&extent, axis->is_log, false, true, NAN, NAN);
}

static void note(struct parallel *p, size_t axis, double height, const char *text)
{
    bool is_last = axis + 1 == p->in->axis_count;
    p->notes[p->note_count++] = (struct plot_note){.x = (double)axis + (is_last ? 0.03 : -0.02),
                                                   .y = height,
                                                   .text = text,
                                                   .align = is_last ? "left" : "right"};
}

static void make_axis(struct parallel *p, size_t a)
{
    const struct plot_axis *axis = &p->in->axes[a];
    p->scales[a] = scale_of(p->in, a);
    p->places[a] = (double)a;
    p->names[a] = axis->name;
    p->marks[a] = (struct plot_mark){.at = (double)a, .is_vertical = true, .color = "#555555"};
    if (axis->categories != NULL) {
        for (size_t i = 0; i < axis->category_count && i < PLOT_TICKS; i++)
            note(p, a, plot_scale_place(&p->scales[a], (double)i), axis->categories[i]);
        return;
    }
    size_t count = plot_ticks(&p->scales[a], 5, p->ticks[a]);
    for (size_t i = 0; i < count; i++)
        if (p->ticks[a][i].text[0] != '\0')
            note(p, a, plot_scale_place(&p->scales[a], p->ticks[a][i].at), p->ticks[a][i].text);
}

/* How good a line is, 0 to 1; NaN counts as the worst. */
static double goodness(const struct parallel *p, size_t line)
{
    double h = p->heights[line * p->in->axis_count + p->in->color_axis];
    if (isnan(h))
        return -1;
    return p->in->is_low_best ? 1 - h : h;
}

/* Insertion by merging would be faster; charts have hundreds of lines at most. */
static void sort_lines(struct parallel *p)
{
    for (size_t i = 0; i < p->in->line_count; i++) {
        double g = goodness(p, i);
        size_t at = i;
        for (; at > 0 && goodness(p, p->order[at - 1]) > g; at--)
            p->order[at] = p->order[at - 1];
        p->order[at] = i;
    }
}

enum ebb_status plot_parallel_write(const struct plot_parallel *chart, const char *path,
                                    struct ebb_error *err)
{
    struct parallel p;
    size_t axes = chart->axis_count;
    enum ebb_status status = parallel_init(&p, chart, err);
    if (status != EBB_OK)
        goto out;
    for (size_t a = 0; a < axes; a++)
        make_axis(&p, a);
    for (size_t i = 0; i < chart->line_count; i++)
        for (size_t a = 0; a < axes; a++)
            p.heights[i * axes + a] =
                plot_scale_place(&p.scales[a], chart->values[i * chart->stride + a]);
    sort_lines(&p);
    for (size_t k = 0; k < chart->line_count; k++) {
        /* By rank as much as by value: one bad outlier must not make all others look the same. */
        double rank = chart->line_count > 1 ? (double)k / (double)(chart->line_count - 1) : 1;
        p.series[k] = (struct plot_series){.style = PLOT_LINE,
                                           .x = p.places,
                                           .y = p.heights + p.order[k] * axes,
                                           .count = axes,
                                           .color = plot_scale_color(rank)};
    }
    const struct plot_panel panel = {.series = p.series,
                                     .series_count = chart->line_count,
                                     .marks = p.marks,
                                     .mark_count = axes,
                                     .x_min = -0.35,
                                     .x_max = (double)axes - 1 + 0.35,
                                     .y_min = -0.02,
                                     .y_max = 1.02,
                                     .x_ticks = p.names,
                                     .x_tick_count = axes,
                                     .notes = p.notes,
                                     .note_count = p.note_count,
                                     .has_no_y_axis = true};
    const struct plot_chart whole = {
        .title = chart->title, .subtitle = chart->subtitle, .panels = &panel, .panel_count = 1};
    status = plot_write(&whole, path, err);
out:
    ebb_arena_fini(&p.arena);
    return status;
}
