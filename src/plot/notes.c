/* notes.c - the words and signs around the data: head, legends, labels, marks. */
#include "plot/pen.h"

#include <string.h>

#include "plot/text.h"

#define MARK "#707070"

/* ---- head and legends --------------------------------------------------------------------------
 */

static void write_lines(struct plot_pen *pen, const char *text, size_t columns, size_t max,
                        double y, double advance, const struct plot_words *like)
{
    for (size_t n = 0; text != NULL && *text != '\0' && n < max; n++) {
        struct plot_words w = *like;
        const char *next;
        w.text = text;
        w.length = plot_text_line(text, columns, &next);
        w.columns = columns;
        if (n + 1 == max && next != NULL)
            w.length = strlen(text); /* the last line shows that something was cut */
        w.x = PLOT_PAGE_MARGIN;
        w.y = y + (double)n * advance;
        plot_pen_words(pen, &w);
        text = next;
    }
}

void plot_head_add(struct plot_pen *pen)
{
    const struct plot_chart *chart = pen->figure->chart;
    const struct plot_layout *l = pen->layout;
    write_lines(pen, chart->title, l->title_columns, PLOT_TITLE_LINES, l->title_y, 25,
                &(struct plot_words){
                    .size = PLOT_FONT_TITLE, .align = "left", .color = PLOT_INK, .is_bold = true});
    write_lines(pen, chart->subtitle, l->subtitle_columns, PLOT_SUBTITLE_LINES, l->subtitle_y, 16,
                &(struct plot_words){.size = PLOT_FONT_SMALL, .align = "left", .color = PLOT_SOFT});
}

static void write_swatch(struct plot_pen *pen, const struct plot_entry *e, double x, double y)
{
    enum plot_style s = e->style;
    if (s == PLOT_AREA || s == PLOT_BARS || s == PLOT_BAND) {
        ebb_str_add(pen->out, "set object rectangle from ");
        plot_pen_at(pen, x + 10, y + 6);
        ebb_str_add(pen->out, " to ");
        plot_pen_at(pen, x + PLOT_SWATCH - 2, y - 6);
        ebb_str_printf(pen->out, " fillcolor rgb '%s' fillstyle solid %s noborder front\n",
                       e->color, s == PLOT_BAND ? "0.25" : "0.9");
    } else if (s != PLOT_POINTS) {
        ebb_str_add(pen->out, "set arrow from ");
        plot_pen_at(pen, x, y);
        ebb_str_add(pen->out, " to ");
        plot_pen_at(pen, x + PLOT_SWATCH, y);
        ebb_str_printf(pen->out, " nohead linewidth 2.2 %s linecolor rgb '%s' front\n",
                       e->is_dashed ? "dashtype (9,5)" : "dashtype solid", e->color);
    }
    if (e->has_points) {
        ebb_str_add(pen->out, "set label '' at ");
        plot_pen_at(pen, x + PLOT_SWATCH / 2, y);
        ebb_str_printf(pen->out,
                       " point pointtype %d pointsize %g linewidth 1.5 linecolor rgb '%s' front\n",
                       plot_point_type(e->marker), pen->point_size, e->color);
    }
}

/* Entries of the row that begins with `first`: returns the first one of the next row. */
static size_t legend_row(struct plot_pen *pen, const struct plot_legend *legend,
                         const struct plot_pane *pane, size_t first, double y)
{
    const struct plot_figure *f = pen->figure;
    double width = 0;
    size_t end = first;
    bool is_empty = true;
    for (; end < f->entry_count; end++) {
        if (!plot_legend_has(f, pane, end))
            continue;
        double w = plot_entry_width(&f->entries[end]);
        if (!is_empty && width + w - 20 > legend->width)
            break;
        width += w;
        is_empty = false;
    }
    double x = legend->center_x - (width - 20) / 2;
    x = x < 4 ? 4 : x;
    for (size_t i = first; i < end; i++) {
        if (!plot_legend_has(f, pane, i))
            continue;
        write_swatch(pen, &f->entries[i], x, y);
        plot_pen_words(pen, &(struct plot_words){.text = f->entries[i].name,
                                                 .length = strlen(f->entries[i].name),
                                                 .columns = PLOT_NAME_COLUMNS,
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
    struct plot_words w = {.size = PLOT_FONT, .align = "center", .color = PLOT_INK};
    if (panel->title != NULL) {
        w.text = panel->title;
        w.length = strlen(w.text);
        w.columns = (size_t)(b->width / (PLOT_FONT * 0.62));
        w.x = b->x;
        w.y = place->title_y;
        w.align = "left";
        w.is_bold = true;
        plot_pen_words(pen, &w);
    }
    w.is_bold = false;
    w.align = "center";
    w.size = PLOT_FONT_SMALL;
    if (panel->x_label != NULL) {
        w.text = panel->x_label;
        w.length = strlen(w.text);
        w.columns = (size_t)((b->width + 80) / (PLOT_FONT_SMALL * 0.58));
        w.x = b->x + b->width / 2;
        w.y = place->x_label_y;
        plot_pen_words(pen, &w);
    }
    if (panel->y_label != NULL) {
        w.text = panel->y_label;
        w.length = strlen(w.text);
        w.columns = (size_t)((b->height + 40) / (PLOT_FONT_SMALL * 0.58));
        w.x = place->y_label_x;
        w.y = b->y + b->height / 2;
        w.angle = 90;
        plot_pen_words(pen, &w);
    }
    if (!pane->has_data)
        plot_pen_words(pen, &(struct plot_words){.text = "no data",
                                                 .length = 7,
                                                 .columns = 7,
                                                 .x = b->x + b->width / 2,
                                                 .y = b->y + b->height / 2,
                                                 .size = PLOT_FONT,
                                                 .align = "center",
                                                 .color = PLOT_AXIS});
}

/* ---- marks -------------------------------------------------------------------------------------
 */

static bool is_filled(const struct plot_panel *panel)
{
    for (size_t i = 0; i < panel->series_count; i++) {
        enum plot_style style = panel->series[i].style;
        if (style == PLOT_AREA || style == PLOT_BARS || style == PLOT_CELLS)
            return true;
    }
    return false;
}

static void write_mark_line(struct plot_pen *pen, const struct plot_mark *m,
                            const struct plot_box *b, double x, double y, bool is_front)
{
    ebb_str_add(pen->out, "set arrow from ");
    plot_pen_at(pen, m->is_vertical ? x : b->x, m->is_vertical ? b->y : y);
    ebb_str_add(pen->out, " to ");
    plot_pen_at(pen, m->is_vertical ? x : b->x + b->width, m->is_vertical ? b->y + b->height : y);
    ebb_str_printf(pen->out, " nohead linewidth 1.4 %s linecolor rgb '%s' %s\n",
                   m->is_dashed ? "dashtype (5,4)" : "dashtype solid",
                   m->color != NULL ? m->color : MARK, is_front ? "front" : "back");
}

/* Lines lie behind curves but before filled shapes, which would hide them; words are always in
 * front. */
void plot_marks_add(struct plot_pen *pen, const struct plot_pane *pane,
                    const struct plot_place *place)
{
    const struct plot_box *b = &place->plot;
    struct plot_box done[32]; /* where words already are */
    size_t done_count = 0;
    bool filled = is_filled(pane->panel);
    for (size_t i = 0; i < pane->panel->mark_count; i++) {
        const struct plot_mark *m = &pane->panel->marks[i];
        double part = plot_scale_place(m->is_vertical ? &pane->x : &pane->y, m->at);
        if (!(part >= -1e-9 && part <= 1 + 1e-9))
            continue;
        double x = b->x + part * b->width, y = b->y + (1 - part) * b->height;
        write_mark_line(pen, m, b, x, y, filled);
        if (m->label == NULL || m->label[0] == '\0')
            continue;
        struct plot_words w = {.text = m->label,
                               .length = strlen(m->label),
                               .columns = PLOT_NAME_COLUMNS,
                               .size = PLOT_FONT_SMALL - 0.5,
                               .color = m->color != NULL ? m->color
                                        : filled         ? PLOT_INK
                                                         : PLOT_SOFT,
                               .align = "right",
                               .angle = m->is_vertical ? 90 : 0,
                               .is_front = true};
        struct plot_box words =
            plot_free_place(pane, b, i, plot_text_pixels(m->label, w.size), done, done_count);
        if (done_count < sizeof done / sizeof done[0])
            done[done_count++] = words;
        w.x = m->is_vertical ? words.x + words.width / 2 : words.x + words.width;
        w.y = m->is_vertical ? words.y : words.y + words.height / 2;
        plot_pen_words(pen, &w);
    }
}

void plot_notes_add(struct plot_pen *pen, const struct plot_pane *pane,
                    const struct plot_place *place)
{
    const struct plot_box *b = &place->plot;
    if (pane->panel->note_count > 0)
        ebb_str_add(pen->out, "set style textbox opaque margins 0.3,0.2 fillcolor rgb 'white' "
                              "noborder\n");
    for (size_t i = 0; i < pane->panel->note_count; i++) {
        const struct plot_note *n = &pane->panel->notes[i];
        double x = plot_scale_place(&pane->x, n->x), y = plot_scale_place(&pane->y, n->y);
        if (!(x >= 0 && x <= 1 && y >= 0 && y <= 1))
            continue;
        plot_pen_words(pen, &(struct plot_words){.text = n->text,
                                                 .length = strlen(n->text),
                                                 .columns = PLOT_TICK_COLUMNS,
                                                 .x = b->x + x * b->width,
                                                 .y = b->y + (1 - y) * b->height,
                                                 .size = PLOT_FONT_SMALL - 1.5,
                                                 .align = n->align,
                                                 .color = PLOT_INK,
                                                 .is_front = true,
                                                 .is_boxed = true});
    }
}
