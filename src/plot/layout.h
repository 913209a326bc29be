/* layout.h - where everything goes on the page, in pixels from the top left corner. Private to this
 * folder.
 *
 * Plot areas have a fixed size; the page grows around them, so nothing is squeezed, cut or covered:
 * labels and legends get the room their text needs. */
#ifndef EBB_PLOT_LAYOUT_H
#define EBB_PLOT_LAYOUT_H

#include "plot/figure.h"

#define PLOT_FONT 13.0 /* pixels: labels; ticks and legends */
#define PLOT_FONT_SMALL 11.5
#define PLOT_FONT_TITLE 18.0
#define PLOT_TITLE_LINES 2
#define PLOT_TITLE_LINE 25.0 /* height of one */
#define PLOT_SUBTITLE_LINES 3
#define PLOT_SUBTITLE_LINE 16.0
#define PLOT_MARK_WORDS 32    /* of a panel that keep clear of each other */
#define PLOT_NAME_WIDTH 270.0 /* longer names are cut */
#define PLOT_TICK_WIDTH 160.0
#define PLOT_PAGE_MARGIN 22.0
#define PLOT_LEGEND_ROW 21.0
#define PLOT_SWATCH 30.0 /* width of the sample before a name */

struct plot_box {
    double x, y, width, height;
};

struct plot_legend { /* rows of entries, centred on center_x */
    double top, center_x, width;
    size_t rows;
};

struct plot_place {       /* one panel */
    struct plot_box plot; /* inside the axes */
    double title_y;       /* baseline centre of the panel's title */
    double x_tick_y, x_label_y, y_label_x;
    bool ticks_slanted;
    struct plot_legend legend; /* rows 0 = none */
    struct plot_tick x_ticks[PLOT_TICKS], y_ticks[PLOT_TICKS], value_ticks[PLOT_TICKS];
    size_t x_tick_count, y_tick_count, value_tick_count;
};

struct plot_layout {
    double width, height;
    struct plot_place *places;              /* owned */
    double title_y, subtitle_y;             /* centres of their first lines */
    size_t title_columns, subtitle_columns; /* where lines are broken */
    struct plot_legend legend;              /* shared; rows 0 = none */
};

enum ebb_status plot_layout_init(struct plot_layout *layout, const struct plot_figure *figure,
                                 struct ebb_error *err);
void plot_layout_fini(struct plot_layout *layout);

/* The pixel of a value along a box; NaN when the scale has no place for it. */
double plot_box_x(const struct plot_box *box, const struct plot_scale *scale, double value);
double plot_box_y(const struct plot_box *box, const struct plot_scale *scale, double value);

/* True if the legend of `pane` (NULL = the shared one) shows entry i. */
bool plot_legend_has(const struct plot_figure *figure, const struct plot_pane *pane, size_t i);
double plot_entry_width(const struct plot_entry *entry);
/* One row of a legend `room` pixels wide: the entry after it, and the width it takes. */
size_t plot_legend_row(const struct plot_figure *figure, const struct plot_pane *pane, size_t first,
                       double room, double *width);

/* crowd.c: where the words of a mark, `length` pixels long, disturb least: beside its line, away
 * from curves, other lines and words already placed. */
struct plot_box plot_free_place(const struct plot_pane *pane, const struct plot_box *plot,
                                size_t mark, double length, const struct plot_box *done,
                                size_t done_count);

#endif
