/* figure.h - a chart made ready to draw: checked, ranges known, stacks summed, every series with
 * its colour. Private to this folder; svg.c draws it as a picture, terminal.c with characters. */
#ifndef EBB_PLOT_FIGURE_H
#define EBB_PLOT_FIGURE_H

#include "base/arena.h"
#include "plot/plot.h"
#include "plot/scale.h"

#define PLOT_NO_ENTRY ((size_t)-1)
#define PLOT_MARKERS 10

struct plot_entry {    /* one line of the legend */
    const char *name;  /* borrowed */
    const char *color; /* borrowed or static */
    enum plot_style style;
    bool is_dashed, has_points;
    int marker; /* 0..PLOT_MARKERS-1 */
};

struct plot_layer {                   /* one series, ready */
    const struct plot_series *series; /* borrowed */
    const char *color;
    int marker;
    size_t entry;               /* in figure.entries, or PLOT_NO_ENTRY */
    double *x;                  /* series x, or 0, 1, 2 ... */
    double *low, *high;         /* AREA, BAND, BARS: the filled part; else NULL */
    double bar_left, bar_right; /* BARS: edges relative to x */
    bool has_points;
};

struct plot_pane {                  /* one panel, ready */
    const struct plot_panel *panel; /* borrowed */
    struct plot_layer *layers;      /* panel->series_count */
    struct plot_scale x, y;
    struct plot_scale value;            /* colours of CELLS */
    double cell_width, cell_height;     /* CELLS: 0 = none here */
    double square_width, square_height; /* SQUARES */
    bool has_data;
};

struct plot_figure {
    const struct plot_chart *chart; /* borrowed */
    struct ebb_arena arena;         /* of all that follows */
    struct plot_pane *panes;        /* chart->panel_count */
    struct plot_entry *entries;     /* unique names, in order of appearance */
    size_t entry_count;
    size_t columns, rows; /* of panels */
};

/* EBB_EINPUT says which panel and series is wrong. */
enum ebb_status plot_figure_init(struct plot_figure *figure, const struct plot_chart *chart,
                                 struct ebb_error *err);
void plot_figure_fini(struct plot_figure *figure);

/* Ticks of one axis of a pane, about `target`; those of a small heat map stand at the middle of its
 * cells. */
size_t plot_pane_ticks(const struct plot_pane *pane, bool is_y, size_t target,
                       struct plot_tick ticks[PLOT_TICKS]);

/* color.c */
bool plot_known(const char *name, const char **color, int *marker);
#define PLOT_VIRIDIS 8 /* steps between its samples */
/* Viridis, even in lightness, readable in grey and by colour-blind eyes: "#rrggbb" for 0 to 1. */
const char *plot_viridis(double part, char color[8]);
const char *plot_color_free(const char *const *used, size_t used_count, size_t order);

#endif
