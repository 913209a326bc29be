/* axes.c - frames, ticks, grids and the colour bar of a heat map. */
#include "plot/svg.h"

#include <math.h>
#include <string.h>

#define GRID "#e2e2e2"
#define NO_CELL "#ececec" /* cells without a value stay grey, not white as if there were no cell */
#define TICK 6.0
#define TICK_MINOR 3.0
#define NAME_ROOM 21.0 /* along the axis between slanted names: 12 pixels from line to line */

static void tick_words(struct plot_pen *pen, const char *text, double x, double y,
                       const char *align, double angle)
{
    if (text[0] != '\0')
        plot_pen_words(pen, &(struct plot_words){.text = text,
                                                 .width = PLOT_TICK_WIDTH,
                                                 .x = x,
                                                 .y = y,
                                                 .size = PLOT_FONT_SMALL,
                                                 .align = align,
                                                 .color = PLOT_SOFT,
                                                 .angle = angle});
}

static bool is_named(const struct plot_panel *panel)
{
    return panel->x_ticks != NULL && panel->x_tick_count > 0;
}

void plot_grid_add(struct plot_pen *pen, const struct plot_pane *pane,
                   const struct plot_place *place)
{
    const struct plot_box *b = &place->plot;
    if (pane->cell_width > 0) {
        plot_pen_rect(pen, b, NO_CELL, 1);
        return;
    }
    if (pane->panel->has_no_y_axis)
        return;
    plot_pen_path(pen);
    for (size_t i = 0; i < place->y_tick_count; i++)
        if (place->y_ticks[i].text[0] != '\0') {
            ebb_str_addc(pen->out, 'M');
            plot_pen_at(pen, b->x, plot_box_y(b, &pane->y, place->y_ticks[i].at));
            ebb_str_printf(pen->out, "h%g", b->width);
        }
    for (size_t i = 0; i < place->x_tick_count; i++)
        if (place->x_ticks[i].text[0] != '\0') {
            ebb_str_addc(pen->out, 'M');
            plot_pen_at(pen, plot_box_x(b, &pane->x, place->x_ticks[i].at), b->y);
            ebb_str_printf(pen->out, "v%g", b->height);
        }
    plot_pen_stroke(pen, GRID, 1, NULL);
}

/* Slanted names that would lie on each other are left out: every second one stays, or third. */
static void x_names(struct plot_pen *pen, const struct plot_pane *pane,
                    const struct plot_place *place)
{
    const struct plot_box *b = &place->plot;
    size_t count = pane->panel->x_tick_count, every = 1;
    if (place->ticks_slanted)
        every = (size_t)ceil(NAME_ROOM * (double)count / b->width);
    for (size_t i = 0; i<count; i += every> 0 ? every : 1) {
        double part = plot_scale_place(&pane->x, (double)i), x = b->x + part * b->width;
        if (!(part >= 0 && part <= 1))
            continue; /* the caller's limits leave it out, or a log axis has no 0 */
        if (place->ticks_slanted)
            tick_words(pen, pane->panel->x_ticks[i], x + 5, b->y + b->height + 9, "right", 35);
        else
            tick_words(pen, pane->panel->x_ticks[i], x, b->y + b->height + 13, "center", 0);
    }
}

/* The frame's two lines and the ticks that stand out of them, as one stroke. */
static void strokes(struct plot_pen *pen, const struct plot_pane *pane,
                    const struct plot_place *place)
{
    const struct plot_box *b = &place->plot;
    double bottom = b->y + b->height;
    plot_pen_path(pen);
    if (!pane->panel->has_no_y_axis) {
        ebb_str_addc(pen->out, 'M');
        plot_pen_at(pen, b->x, b->y);
        ebb_str_printf(pen->out, "v%gh%g", b->height, b->width);
    }
    for (size_t i = 0; i < place->x_tick_count; i++) {
        ebb_str_addc(pen->out, 'M');
        plot_pen_at(pen, plot_box_x(b, &pane->x, place->x_ticks[i].at), bottom);
        ebb_str_printf(pen->out, "v%g", place->x_ticks[i].text[0] != '\0' ? TICK : TICK_MINOR);
    }
    for (size_t i = 0; i < place->y_tick_count; i++) {
        ebb_str_addc(pen->out, 'M');
        plot_pen_at(pen, b->x, plot_box_y(b, &pane->y, place->y_ticks[i].at));
        ebb_str_printf(pen->out, "h%g", place->y_ticks[i].text[0] != '\0' ? -TICK : -TICK_MINOR);
    }
    plot_pen_stroke(pen, PLOT_AXIS, 1, NULL);
}

void plot_axes_add(struct plot_pen *pen, const struct plot_pane *pane,
                   const struct plot_place *place)
{
    const struct plot_box *b = &place->plot;
    strokes(pen, pane, place);
    if (is_named(pane->panel))
        x_names(pen, pane, place);
    for (size_t i = 0; i < place->x_tick_count; i++)
        tick_words(pen, place->x_ticks[i].text, plot_box_x(b, &pane->x, place->x_ticks[i].at),
                   b->y + b->height + 16, "center", 0);
    for (size_t i = 0; i < place->y_tick_count; i++)
        tick_words(pen, place->y_ticks[i].text, b->x - 9,
                   plot_box_y(b, &pane->y, place->y_ticks[i].at), "right", 0);
}

/* The bar, its ticks, and the name of what the colours mean. */
void plot_color_bar_add(struct plot_pen *pen, const struct plot_pane *pane,
                        const struct plot_place *place)
{
    const struct plot_box *b = &place->plot;
    double left = b->x + b->width + 14, right = left + 12;
    char color[8];
    ebb_str_add(pen->out, "<linearGradient id=\"ebb-viridis\" x2=\"0\" y1=\"1\" y2=\"0\">");
    for (int i = 0; i <= PLOT_VIRIDIS; i++)
        ebb_str_printf(pen->out, "<stop offset=\"%g\" stop-color=\"%s\"/>",
                       (double)i / PLOT_VIRIDIS, plot_viridis((double)i / PLOT_VIRIDIS, color));
    ebb_str_add(pen->out, "</linearGradient>\n");
    plot_pen_rect(pen, &(struct plot_box){left, b->y, 12, b->height}, "url(#ebb-viridis)", 1);
    for (size_t i = 0; i < place->value_tick_count; i++) {
        double y = plot_box_y(b, &pane->value, place->value_ticks[i].at);
        plot_pen_line(pen, right, y, right + 4, y, PLOT_AXIS, 1, NULL);
        tick_words(pen, place->value_ticks[i].text, right + 7, y, "left", 0);
    }
    for (size_t i = 0; i < pane->panel->series_count; i++) {
        const struct plot_series *s = &pane->panel->series[i];
        if (s->style != PLOT_CELLS || s->name == NULL)
            continue;
        plot_pen_words(pen, &(struct plot_words){.text = s->name,
                                                 .width = b->height,
                                                 .x = right + 42,
                                                 .y = b->y + b->height / 2,
                                                 .size = PLOT_FONT_SMALL,
                                                 .align = "center",
                                                 .color = PLOT_INK,
                                                 .angle = 90});
        return;
    }
}
