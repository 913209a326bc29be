/* axes.c - frames, ticks, grids and the colour bar of a heat map.
 *
 * gnuplot draws the strokes; the labels beside them are placed by us, since its own offsets count
 * in characters, whose size differs from one terminal to the next. */
#include "plot/pen.h"

#include <string.h>

#define GRID "#e2e2e2"

static void tick_words(struct plot_pen *pen, const char *text, double x, double y,
                       const char *align, double angle)
{
    if (text[0] == '\0')
        return;
    plot_pen_words(pen, &(struct plot_words){.text = text,
                                             .length = strlen(text),
                                             .columns = PLOT_TICK_COLUMNS,
                                             .x = x,
                                             .y = y,
                                             .size = PLOT_FONT_SMALL,
                                             .align = align,
                                             .color = PLOT_SOFT,
                                             .angle = angle});
}

static void write_tick_list(struct plot_pen *pen, const char *axis, const struct plot_tick *ticks,
                            size_t count)
{
    ebb_str_printf(pen->out, "set %stics (", axis);
    for (size_t i = 0; i < count; i++) {
        ebb_str_add(pen->out, i > 0 ? ", '' " : "'' ");
        plot_num(pen->out, ticks[i].at);
        if (ticks[i].text[0] == '\0')
            ebb_str_add(pen->out, " 1"); /* a minor tick */
    }
    ebb_str_add(pen->out, ")\n");
}

static void write_axis(struct plot_pen *pen, const char *axis, const struct plot_scale *s)
{
    ebb_str_printf(pen->out, "%sset logscale %s\n", s->is_log ? "" : "un", axis);
    ebb_str_printf(pen->out, "set %srange [", axis);
    plot_num(pen->out, s->min);
    ebb_str_addc(pen->out, ':');
    plot_num(pen->out, s->max);
    ebb_str_add(pen->out, "]\n");
}

static void write_margins(struct plot_pen *pen, const struct plot_box *b)
{
    const struct plot_layout *l = pen->layout;
    ebb_str_printf(pen->out, "set lmargin at screen %.6f\nset rmargin at screen %.6f\n",
                   b->x / l->width, (b->x + b->width) / l->width);
    ebb_str_printf(pen->out, "set tmargin at screen %.6f\nset bmargin at screen %.6f\n",
                   1 - b->y / l->height, 1 - (b->y + b->height) / l->height);
}

static void write_names(struct plot_pen *pen, const struct plot_pane *pane,
                        const struct plot_place *place)
{
    const struct plot_box *b = &place->plot;
    for (size_t i = 0; i < pane->panel->x_tick_count; i++) {
        double part = plot_scale_place(&pane->x, (double)i);
        if (!(part >= 0 && part <= 1))
            continue; /* the caller's limits leave it out, or a log axis has no 0 */
        double x = b->x + part * b->width;
        if (place->ticks_slanted)
            tick_words(pen, pane->panel->x_ticks[i], x + 5, b->y + b->height + 9, "right", 35);
        else
            tick_words(pen, pane->panel->x_ticks[i], x, b->y + b->height + 13, "center", 0);
    }
}

void plot_axes_add(struct plot_pen *pen, const struct plot_pane *pane,
                   const struct plot_place *place)
{
    const struct plot_box *b = &place->plot;
    bool is_named = pane->panel->x_ticks != NULL && pane->panel->x_tick_count > 0;
    write_margins(pen, b);
    write_axis(pen, "x", &pane->x);
    write_axis(pen, "y", &pane->y);
    ebb_str_printf(pen->out,
                   "set xtics out nomirror scale 0.6,0.3\nset ytics out nomirror scale 0.6,0.3\n");
    if (is_named) {
        ebb_str_add(pen->out, "unset xtics\n");
        write_names(pen, pane, place);
    } else {
        write_tick_list(pen, "x", place->x_ticks, place->x_tick_count);
        for (size_t i = 0; i < place->x_tick_count; i++)
            tick_words(pen, place->x_ticks[i].text,
                       b->x + plot_scale_place(&pane->x, place->x_ticks[i].at) * b->width,
                       b->y + b->height + 16, "center", 0);
    }
    if (pane->panel->has_no_y_axis)
        ebb_str_add(pen->out, "set border 0\nunset ytics\n");
    else
        write_tick_list(pen, "y", place->y_ticks, place->y_tick_count);
    for (size_t i = 0; i < place->y_tick_count; i++)
        tick_words(pen, place->y_ticks[i].text, b->x - 9,
                   b->y + (1 - plot_scale_place(&pane->y, place->y_ticks[i].at)) * b->height,
                   "right", 0);
    ebb_str_add(pen->out, "unset grid\n");
    if (pane->cell_width <= 0 && !pane->panel->has_no_y_axis)
        ebb_str_printf(
            pen->out,
            "set grid %s ytics back linetype 1 linewidth 1 dashtype solid linecolor rgb '" GRID
            "'\n",
            is_named ? "" : "xtics");
}

/* ---- heat maps ---------------------------------------------------------------------------------
 */

/* Viridis, sampled: even in lightness, readable in grey and by colour-blind eyes. */
static const char *const viridis[] = {"#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c",
                                      "#28ae80", "#5ec962", "#addc30", "#fde725"};

void plot_color_bar_add(struct plot_pen *pen, const struct plot_pane *pane,
                        const struct plot_place *place)
{
    const struct plot_box *b = &place->plot;
    const struct plot_layout *l = pen->layout;
    /* cells without a value stay grey, not white as if there were no cell */
    ebb_str_add(pen->out,
                "set object rectangle from graph 0,0 to graph 1,1 fillcolor rgb '#ececec' "
                "fillstyle solid 1 noborder behind\n");
    ebb_str_add(pen->out, "set palette defined (");
    for (size_t i = 0; i < sizeof viridis / sizeof viridis[0]; i++)
        ebb_str_printf(pen->out, "%s%zu '%s'", i > 0 ? ", " : "", i, viridis[i]);
    ebb_str_add(pen->out, ")\n");
    write_axis(pen, "cb", &pane->value);
    ebb_str_add(pen->out, "set cbtics out nomirror scale 0.4\n");
    write_tick_list(pen, "cb", place->value_ticks, place->value_tick_count);
    for (size_t i = 0; i < place->value_tick_count; i++)
        tick_words(pen, place->value_ticks[i].text, b->x + b->width + 33,
                   b->y +
                       (1 - plot_scale_place(&pane->value, place->value_ticks[i].at)) * b->height,
                   "left", 0);
    ebb_str_printf(
        pen->out,
        "set colorbox user vertical origin screen %.6f,%.6f size screen %.6f,%.6f noborder\n",
        (b->x + b->width + 14) / l->width, 1 - (b->y + b->height) / l->height, 12 / l->width,
        b->height / l->height);
    for (size_t i = 0; i < pane->panel->series_count; i++) {
        const struct plot_series *s = &pane->panel->series[i];
        if (s->style != PLOT_CELLS || s->name == NULL)
            continue;
        plot_pen_words(
            pen, &(struct plot_words){.text = s->name,
                                      .length = strlen(s->name),
                                      .columns = (size_t)(b->height / (PLOT_FONT_SMALL * 0.58)),
                                      .x = b->x + b->width + 66,
                                      .y = b->y + b->height / 2,
                                      .size = PLOT_FONT_SMALL,
                                      .align = "center",
                                      .color = PLOT_INK,
                                      .angle = 90});
        return;
    }
}
