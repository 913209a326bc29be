/* notes.c - the words and signs around the data: head, legends, labels, marks. */
#include "plot/svg.h"

#include <string.h>

#include "plot/text.h"

#define MARK "#707070"
#define MARK_DASH "5 4"

/* ---- head and legends ------------------------------------------------------------------------ */

static void add_lines(struct plot_pen *pen, const char *text, size_t columns, size_t max, double y,
                      double advance, const struct plot_words *like)
{
    for (size_t n = 0; text != NULL && *text != '\0' && n < max; n++) {
        struct plot_words w = *like;
        const char *next;
        size_t length = plot_text_line(text, columns, &next);
        w.text = text;
        w.length = n + 1 == max ? 0 : length; /* the last line shows that something was cut */
        w.width = pen->layout->width - 2 * PLOT_PAGE_MARGIN;
        w.x = PLOT_PAGE_MARGIN;
        w.y = y + (double)n * advance;
        if (length > 0)
            plot_pen_words(pen, &w);
        text = next;
    }
}

void plot_head_add(struct plot_pen *pen)
{
    const struct plot_chart *chart = pen->figure->chart;
    const struct plot_layout *l = pen->layout;
    add_lines(pen, chart->title, l->title_columns, PLOT_TITLE_LINES, l->title_y, PLOT_TITLE_LINE,
              &(struct plot_words){
                  .size = PLOT_FONT_TITLE, .align = "left", .color = PLOT_INK, .is_bold = true});
    add_lines(pen, chart->subtitle, l->subtitle_columns, PLOT_SUBTITLE_LINES, l->subtitle_y,
              PLOT_SUBTITLE_LINE,
              &(struct plot_words){.size = PLOT_FONT_SMALL, .align = "left", .color = PLOT_SOFT});
}

static void add_swatch(struct plot_pen *pen, const struct plot_entry *e, double x, double y)
{
    enum plot_style s = e->style;
    if (s == PLOT_AREA || s == PLOT_BARS || s == PLOT_BAND || s == PLOT_SQUARES)
        plot_pen_rect(pen, &(struct plot_box){x + 10, y - 6, PLOT_SWATCH - 12, 12}, e->color,
                      s == PLOT_BAND ? 0.25 : 0.9);
    else if (s == PLOT_CROSSES) {
        plot_pen_path(pen);
        plot_pen_cross(pen, x + PLOT_SWATCH / 2, y);
        plot_pen_stroke(pen, e->color, 2.2, NULL);
    } else if (s != PLOT_POINTS)
        plot_pen_line(pen, x, y, x + PLOT_SWATCH, y, e->color, PLOT_LINE_WIDTH,
                      e->is_dashed ? PLOT_LINE_DASH : NULL);
    if (e->has_points && s != PLOT_CROSSES) {
        plot_pen_path(pen);
        plot_pen_marker(pen, e->marker, x + PLOT_SWATCH / 2, y);
        plot_pen_markers_end(pen, e->marker, e->color);
    }
}

/* Entries of the row that begins with `first`: returns the first one of the next row. */
static size_t legend_row(struct plot_pen *pen, const struct plot_legend *legend,
                         const struct plot_pane *pane, size_t first, double y)
{
    const struct plot_figure *f = pen->figure;
    double width;
    size_t end = plot_legend_row(f, pane, first, legend->width, &width);
    double x = legend->center_x - width / 2;
    x = x < 4 ? 4 : x;
    for (size_t i = first; i < end; i++) {
        if (!plot_legend_has(f, pane, i))
            continue;
        add_swatch(pen, &f->entries[i], x, y);
        plot_pen_words(pen, &(struct plot_words){.text = f->entries[i].name,
                                                 .width = PLOT_NAME_WIDTH,
                                                 .x = x + PLOT_SWATCH + 8,
                                                 .y = y,
                                                 .size = PLOT_FONT_SMALL,
                                                 .align = "left",
                                                 .color = PLOT_INK});
        x += plot_entry_width(&f->entries[i]);
    }
    return end;
}

void plot_legend_add(struct plot_pen *pen, const struct plot_legend *legend,
                     const struct plot_pane *pane)
{
    size_t first = 0;
    for (size_t r = 0; r < legend->rows; r++)
        first =
            legend_row(pen, legend, pane, first, legend->top + ((double)r + 0.5) * PLOT_LEGEND_ROW);
}

void plot_panel_words_add(struct plot_pen *pen, const struct plot_pane *pane,
                          const struct plot_place *place)
{
    const struct plot_panel *panel = pane->panel;
    const struct plot_box *b = &place->plot;
    double x = b->x + b->width / 2, y = b->y + b->height / 2;
    const struct plot_words all[] = {{.text = panel->title,
                                      .x = b->x,
                                      .y = place->title_y,
                                      .width = b->width,
                                      .size = PLOT_FONT,
                                      .align = "left",
                                      .color = PLOT_INK,
                                      .is_bold = true},
                                     {.text = panel->x_label,
                                      .x = x,
                                      .y = place->x_label_y,
                                      .width = b->width + 80,
                                      .size = PLOT_FONT_SMALL,
                                      .align = "center",
                                      .color = PLOT_INK},
                                     {.text = panel->y_label,
                                      .x = place->y_label_x,
                                      .y = y,
                                      .width = b->height + 40,
                                      .size = PLOT_FONT_SMALL,
                                      .align = "center",
                                      .color = PLOT_INK,
                                      .angle = 90},
                                     {.text = pane->has_data ? NULL : "no data",
                                      .x = x,
                                      .y = y,
                                      .size = PLOT_FONT,
                                      .align = "center",
                                      .color = PLOT_AXIS}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (plot_has_text(all[i].text))
            plot_pen_words(pen, &all[i]);
}

/* ---- marks ----------------------------------------------------------------------------------- */

static bool is_filled(const struct plot_panel *panel)
{
    for (size_t i = 0; i < panel->series_count; i++) {
        enum plot_style style = panel->series[i].style;
        if (style == PLOT_AREA || style == PLOT_BARS || style == PLOT_CELLS)
            return true;
    }
    return false;
}

static bool is_inside(const struct plot_pane *pane, const struct plot_mark *m)
{
    double part = plot_scale_place(m->is_vertical ? &pane->x : &pane->y, m->at);
    return part >= -1e-9 && part <= 1 + 1e-9;
}

static void mark_words(struct plot_pen *pen, const struct plot_pane *pane, size_t mark,
                       const struct plot_box *b, struct plot_box *done, size_t *done_count)
{
    const struct plot_mark *m = &pane->panel->marks[mark];
    struct plot_words w = {.text = m->label,
                           .width = PLOT_NAME_WIDTH,
                           .size = PLOT_FONT_SMALL - 0.5,
                           .color = m->color != NULL         ? m->color
                                    : is_filled(pane->panel) ? PLOT_INK
                                                             : PLOT_SOFT,
                           .align = "right",
                           .angle = m->is_vertical ? 90 : 0};
    double length = plot_text_pixels(m->label, w.size);
    struct plot_box words =
        plot_free_place(pane, b, mark, length < w.width ? length : w.width, done, *done_count);
    if (*done_count < PLOT_MARK_WORDS)
        done[(*done_count)++] = words;
    w.x = m->is_vertical ? words.x + words.width / 2 : words.x + words.width;
    w.y = m->is_vertical ? words.y : words.y + words.height / 2;
    plot_pen_words(pen, &w);
}

/* Lines lie behind curves but before filled shapes, which would hide them. */
void plot_mark_lines_add(struct plot_pen *pen, const struct plot_pane *pane,
                         const struct plot_box *b, bool is_front)
{
    for (size_t i = 0; i < pane->panel->mark_count && is_front == is_filled(pane->panel); i++) {
        const struct plot_mark *m = &pane->panel->marks[i];
        double x = plot_box_x(b, &pane->x, m->at), y = plot_box_y(b, &pane->y, m->at);
        if (is_inside(pane, m))
            plot_pen_line(pen, m->is_vertical ? x : b->x, m->is_vertical ? b->y : y,
                          m->is_vertical ? x : b->x + b->width,
                          m->is_vertical ? b->y + b->height : y, m->color != NULL ? m->color : MARK,
                          1.4, m->is_dashed ? MARK_DASH : NULL);
    }
}

/* The words of marks, then notes: always in front. */
void plot_notes_add(struct plot_pen *pen, const struct plot_pane *pane, const struct plot_box *b)
{
    struct plot_box done[PLOT_MARK_WORDS]; /* where words already are */
    size_t done_count = 0;
    for (size_t i = 0; i < pane->panel->mark_count; i++) {
        const struct plot_mark *m = &pane->panel->marks[i];
        if (is_inside(pane, m) && plot_has_text(m->label))
            mark_words(pen, pane, i, b, done, &done_count);
    }
    for (size_t i = 0; i < pane->panel->note_count; i++) {
        const struct plot_note *n = &pane->panel->notes[i];
        double x = plot_scale_place(&pane->x, n->x), y = plot_scale_place(&pane->y, n->y);
        if (x >= 0 && x <= 1 && y >= 0 && y <= 1)
            plot_pen_words(pen, &(struct plot_words){.text = n->text,
                                                     .width = PLOT_TICK_WIDTH,
                                                     .x = plot_box_x(b, &pane->x, n->x),
                                                     .y = plot_box_y(b, &pane->y, n->y),
                                                     .size = PLOT_FONT_SMALL - 1.5,
                                                     .align = n->align,
                                                     .color = PLOT_INK,
                                                     .has_halo = true});
    }
}
