/* svg.h - a figure as an SVG picture: text that depends on the chart alone. Private to this folder.
 *
 * Everything is placed in pixels by layout.c; the files that draw share this pen. Fonts are named
 * with fallbacks of like width. The ground is white, so that a chart reads the same on a light
 * and on a dark page. No element refers to another one but the colours of heat maps, whose
 * definition is the same in every chart: pictures can be put into one page as they are. */
#ifndef EBB_PLOT_SVG_H
#define EBB_PLOT_SVG_H

#include "plot/layout.h"

#define PLOT_INK "#222222"
#define PLOT_SOFT "#666666" /* ticks, subtitles */
#define PLOT_AXIS "#8c8c8c"
#define PLOT_LINE_WIDTH 2.2
#define PLOT_LINE_DASH "9 5"

struct plot_pen {
    struct ebb_str *out;
    const struct plot_figure *figure;
    const struct plot_layout *layout;
};

/* svg.c: the whole picture */
void plot_svg_add(struct ebb_str *out, const struct plot_figure *figure,
                  const struct plot_layout *layout);

/* ---- pen.c: strokes and words ---------------------------------------------------------------- */

struct plot_words {
    const char *text;
    size_t length;     /* bytes; 0 = all */
    double x, y, size; /* y: middle of the line */
    double width;      /* pixels; longer words are cut; 0 = any */
    const char *align; /* "left", "center" or "right" of (x, y) */
    const char *color;
    bool is_bold, has_halo; /* halo: on a white rim, readable across curves */
    double angle;           /* degrees, counterclockwise */
};

void plot_pen_words(struct plot_pen *pen, const struct plot_words *words);
/* dash: NULL = solid */
void plot_pen_line(struct plot_pen *pen, double x0, double y0, double x1, double y1,
                   const char *color, double width, const char *dash);
void plot_pen_rect(struct plot_pen *pen, const struct plot_box *box, const char *color,
                   double opacity);
/* "12.5 7 ": a place inside a path; two decimals, and nothing beyond 1e5. */
void plot_pen_at(struct plot_pen *pen, double x, double y);
/* <path d=" ... the caller's strokes ... then one of the ends. */
void plot_pen_path(struct plot_pen *pen);
void plot_pen_stroke(struct plot_pen *pen, const char *color, double width, const char *dash);
void plot_pen_fill(struct plot_pen *pen, const char *color, double opacity);
/* Strokes of a marker around a place, and the end of a path of such. */
void plot_pen_marker(struct plot_pen *pen, int marker, double x, double y);
void plot_pen_cross(struct plot_pen *pen, double x, double y); /* to be stroked */
void plot_pen_markers_end(struct plot_pen *pen, int marker, const char *color);

/* ---- parts of a panel ------------------------------------------------------------------------ */

/* axes.c: what lies behind the data; what lies before it; colours of a heat map */
void plot_grid_add(struct plot_pen *pen, const struct plot_pane *pane,
                   const struct plot_place *place);
void plot_axes_add(struct plot_pen *pen, const struct plot_pane *pane,
                   const struct plot_place *place);
void plot_color_bar_add(struct plot_pen *pen, const struct plot_pane *pane,
                        const struct plot_place *place);

/* data.c */
void plot_data_add(struct plot_pen *pen, const struct plot_pane *pane, const struct plot_box *box);

/* notes.c: title and subtitle; the words of a panel; lines across it, behind or before the data,
 * and their words; a legend (pane NULL = the shared one) */
void plot_head_add(struct plot_pen *pen);
void plot_panel_words_add(struct plot_pen *pen, const struct plot_pane *pane,
                          const struct plot_place *place);
void plot_mark_lines_add(struct plot_pen *pen, const struct plot_pane *pane,
                         const struct plot_box *box, bool is_front);
void plot_notes_add(struct plot_pen *pen, const struct plot_pane *pane, const struct plot_box *box);
void plot_legend_add(struct plot_pen *pen, const struct plot_legend *legend,
                     const struct plot_pane *pane);

#endif
