/* plot.h - charts for people: SVG, PNG and PDF files, and text for the terminal.
 *
 * A chart is data: panels of series with points. The module knows nothing of what the numbers mean;
 * commands and tools fill the struct. Colours are a colour-blind safe cycle, fixed per series name
 * where `plot_color` knows the name, so that one policy has one colour in every chart. The same
 * chart gives the same SVG, byte for byte. PNG and PDF are made from it by the program rsvg-convert;
 * when that is missing: EBB_EUNSUPPORTED with the command that installs it. */
#ifndef EBB_PLOT_PLOT_H
#define EBB_PLOT_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/str.h"

enum plot_style {
    PLOT_LINE,
    PLOT_STEP, /* holds its value to the right ("post") */
    PLOT_POINTS,
    PLOT_LINE_POINTS,
    PLOT_AREA, /* filled to zero; series stack in order when the panel says so */
    PLOT_BAND, /* between y and y2 */
    PLOT_BARS,
    PLOT_CELLS,     /* x, y, value in y2: a heat map */
    PLOT_INTERVALS, /* upright strokes from y to y2, in the colour of the series of the same name and
                       without a place of their own in the legend; on bars of that name in their middle */
    PLOT_CROSSES,   /* what failed */
    PLOT_SQUARES,   /* squares of one colour that fill their places in a grid: a matrix */
};

struct plot_series {
    const char *name; /* legend; NULL = none */
    enum plot_style style;
    const double *x, *y,
        *y2; /* borrowed for the call; NaN breaks a line; x NULL = 0, 1, 2 ...; y2 may be NULL */
    size_t count;
    const char *color; /* "#rrggbb" or NULL = by name, else by order */
    bool is_dashed;
};

struct plot_mark { /* a straight line across the panel */
    double at;
    bool is_vertical, is_dashed;
    const char *label; /* may be NULL */
    const char *color; /* may be NULL = grey */
};

struct plot_note { /* words at a place of the data */
    double x, y;
    const char *text, *align; /* align: "left", "center" or "right" of the place */
};

struct plot_panel {
    const char *title, *x_label, *y_label;
    const struct plot_series *series;
    size_t series_count;
    const struct plot_mark *marks;
    size_t mark_count;
    bool log_x, log_y;
    bool is_stacked; /* AREA and BARS; their series must share x; a gap counts as 0 */
    double x_min, x_max, y_min, y_max; /* NaN, or both 0 = automatic */
    const char *const *x_ticks;        /* category names for BARS, or NULL */
    size_t x_tick_count;
    const struct plot_note *notes; /* drawn in front, small */
    size_t note_count;
    bool has_no_y_axis; /* heights mean nothing by themselves: no ticks, grid or line */
};

struct plot_chart {
    const char *title, *subtitle; /* subtitle: how to repeat it, machine, date; may be NULL */
    const struct plot_panel *panels;
    size_t panel_count, columns; /* grid; columns 0 = automatic */
    bool shared_legend;          /* one legend for all panels, below */
};

/* Format by suffix: .svg, .png, .pdf. Written atomically. */
enum ebb_status plot_check_name(const char *path, struct ebb_error *err); /* before long work */
enum ebb_status plot_write(const struct plot_chart *chart, const char *path, struct ebb_error *err);
/* The SVG itself, appended to out: for pages that hold several. */
enum ebb_status plot_svg(const struct plot_chart *chart, struct ebb_str *out,
                         struct ebb_error *err);
/* Text for a terminal of the given size, appended to out. */
enum ebb_status plot_terminal(const struct plot_chart *chart, int columns, int rows,
                              struct ebb_str *out, struct ebb_error *err);
const char *plot_color(const char *name, size_t order);
/* From 0 (light) to 1 (dark): colours of a quantity, readable in grey. Static. */
const char *plot_scale_color(double part);

/* ---- parallel coordinates: one upright axis per quantity, one line per row ---- */

struct plot_axis {
    const char *name;
    bool is_log;                   /* all values > 0 */
    const char *const *categories; /* values are indexes into it; NULL = numbers */
    size_t category_count;
};

struct plot_parallel {
    const char *title, *subtitle;
    const struct plot_axis *axes;
    size_t axis_count; /* 2 or more */
    const double *values;
    size_t stride; /* row i has its values at values[i * stride + axis]; NaN = the line is broken */
    size_t line_count;
    size_t color_axis; /* lines are coloured by their place there: the best are dark and on top */
    bool is_low_best;
};

enum ebb_status plot_parallel_write(const struct plot_parallel *chart, const char *path,
                                    struct ebb_error *err);

#endif
