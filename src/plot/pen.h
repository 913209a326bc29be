/* pen.h - what the parts of a script share: where it goes, how a place and words are written.
 * Private to this folder. Everything is placed in pixels by layout.c and written as fractions of
 * the page. */
#ifndef EBB_PLOT_PEN_H
#define EBB_PLOT_PEN_H

#include "plot/layout.h"

#define PLOT_INK "#222222"
#define PLOT_SOFT "#666666" /* ticks, subtitles */
#define PLOT_AXIS "#8c8c8c"

struct plot_pen {
    struct ebb_str *out;
    const struct plot_figure *figure;
    const struct plot_layout *layout;
    double font_scale; /* page pixels to the terminal's font unit */
    double point_size; /* of a marker, in the terminal's unit */
};

struct plot_words {
    const char *text;
    size_t length, columns; /* bytes; code points shown at most */
    double x, y, size;      /* y: middle of the line */
    const char *align, *color;
    bool is_bold, is_front, is_boxed; /* boxed: on a white ground, readable across curves */
    double angle;
};

/* "screen 0.25,0.9": a pixel as gnuplot counts, from the bottom left. */
void plot_pen_at(struct plot_pen *pen, double x, double y);
void plot_pen_words(struct plot_pen *pen, const struct plot_words *words);

/* axes.c */
void plot_axes_add(struct plot_pen *pen, const struct plot_pane *pane,
                   const struct plot_place *place);
void plot_color_bar_add(struct plot_pen *pen, const struct plot_pane *pane,
                        const struct plot_place *place);

/* notes.c: title and subtitle; the words of a panel; lines across it; a legend (pane NULL = the
 * shared one) */
void plot_head_add(struct plot_pen *pen);
void plot_panel_words_add(struct plot_pen *pen, const struct plot_pane *pane,
                          const struct plot_place *place);
void plot_marks_add(struct plot_pen *pen, const struct plot_pane *pane,
                    const struct plot_place *place);
void plot_notes_add(struct plot_pen *pen, const struct plot_pane *pane,
                    const struct plot_place *place);
void plot_legend_add(struct plot_pen *pen, const struct plot_legend *legend,
                     const struct plot_pane *pane);

/* data.c: the data blocks of one panel, "$p<panel>_<series>..."; the elements of its plot command;
 * a number that reads back the same; gnuplot's number of a marker */
void plot_data_add(struct ebb_str *out, const struct plot_pane *pane, size_t p,
                   const struct plot_box *box);
void plot_parts_add(struct plot_pen *pen, const struct plot_pane *pane, size_t p,
                    const struct plot_box *box);
void plot_num(struct ebb_str *out, double value);
int plot_point_type(int marker);

#endif
