/* data.c - series as gnuplot data blocks and plot elements.
 *
 * Numbers only: names never reach a data block. Steps are expanded, gaps are blank lines, and a
 * line with many more points than the picture has columns is thinned to what can be seen: per
 * column the first, lowest, highest and last point, so that every spike stays. */
#include "plot/pen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LINE_WIDTH 2.2
#define THIN_FROM 4000    /* points; fewer are drawn as they are */
#define BAR_LABELS_MAX 40 /* bars that get their number written */
#define CELL_LABELS_MAX 400

void plot_num(struct ebb_str *out, double value)
{
    char buf[32];
    ebb_str_add(out, isfinite(value) ? ebb_format_double(value, buf, sizeof buf) : "NaN");
}

int plot_point_type(int marker)
{
    /* filled circle, square, triangle, diamond, lower triangle; the same hollow */
    static const int types[PLOT_MARKERS] = {7, 5, 9, 13, 11, 6, 4, 8, 12, 10};
    return types[marker % PLOT_MARKERS];
}

static void row(struct ebb_str *out, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            ebb_str_addc(out, ' ');
        plot_num(out, values[i]);
    }
    ebb_str_addc(out, '\n');
}

/* ---- thinning ------------------------------------------------------------------------------- */

/* Walks the points that are worth drawing. Columns of a thinned line are half a pixel wide. */
struct walk {
    const double *x, *y;
    size_t count, at; /* `at`: first point of the next column */
    const struct plot_scale *scale;
    double columns;
    bool is_thin;
    size_t keep[4], kept, next;
};

static double column_of(const struct walk *w, size_t i)
{
    return floor(plot_scale_place(w->scale, w->x[i]) * w->columns);
}

static void walk_init(struct walk *w, const struct plot_scale *scale, const double *x,
                      const double *y, size_t count, double pixels)
{
    *w = (struct walk){.x = x, .y = y, .count = count, .scale = scale, .columns = 2 * pixels};
    w->is_thin = count > THIN_FROM;
    for (size_t i = 1; w->is_thin && i < count; i++)
        w->is_thin = x[i] >= x[i - 1]; /* a curve that turns back is drawn whole */
}

static void keep(struct walk *w, size_t i)
{
    size_t k = w->kept;
    while (k > 0 && w->keep[k - 1] > i)
        k--;
    if (k > 0 && w->keep[k - 1] == i)
        return;
    memmove(&w->keep[k + 1], &w->keep[k], (w->kept - k) * sizeof w->keep[0]);
    w->keep[k] = i;
    w->kept++;
}

/* Next point to draw in *index; false at the end. A gap (NaN) is a column of its own. */
static bool walk_next(struct walk *w, size_t *index)
{
    if (w->next < w->kept) {
        *index = w->keep[w->next++];
        return true;
    }
    if (w->at >= w->count)
        return false;
    size_t first = w->at, low = first, high = first, last = first;
    if (w->is_thin && isfinite(w->y[first])) {
        double column = column_of(w, first);
        while (last + 1 < w->count && isfinite(w->y[last + 1]) &&
               column_of(w, last + 1) == column) {
            last++;
            low = w->y[last] < w->y[low] ? last : low;
            high = w->y[last] > w->y[high] ? last : high;
        }
    }
    w->at = last + 1;
    w->kept = 0;
    keep(w, first);
    keep(w, low);
    keep(w, high);
    keep(w, last);
    w->next = 1;
    *index = w->keep[0];
    return true;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static bool is_drawn(const struct plot_pane *pane, double x, double y)
{
    return isfinite(plot_scale_place(&pane->x, x)) && isfinite(plot_scale_place(&pane->y, y));
}

static void line_block(struct ebb_str *out, const struct plot_pane *pane,
                       const struct plot_layer *layer, double pixels)
{
    const struct plot_series *s = layer->series;
    bool is_open = false; /* inside a line */
    double y = 0;
    struct walk w;
    size_t i;
    walk_init(&w, &pane->x, layer->x, s->y, s->count, pixels);
    while (walk_next(&w, &i)) {
        bool has_x = isfinite(plot_scale_place(&pane->x, layer->x[i]));
        if (s->style == PLOT_STEP && is_open && has_x)
            row(out, (const double[]){layer->x[i], y}, 2);
        if (is_drawn(pane, layer->x[i], s->y[i])) {
            row(out, (const double[]){layer->x[i], s->y[i]}, 2);
            y = s->y[i];
            is_open = true;
        } else if (is_open) {
            ebb_str_addc(out, '\n');
            is_open = false;
        }
    }
}

static void point_block(struct ebb_str *out, const struct plot_pane *pane,
                        const struct plot_layer *layer, const struct plot_box *box)
{
    const struct plot_series *s = layer->series;
    double last_x = NAN, last_y = NAN;
    for (size_t i = 0; i < s->count; i++) {
        if (!is_drawn(pane, layer->x[i], s->y[i]))
            continue;
        double px = floor(plot_scale_place(&pane->x, layer->x[i]) * box->width * 2);
        double py = floor(plot_scale_place(&pane->y, s->y[i]) * box->height * 2);
        if (s->count > THIN_FROM && px == last_x && py == last_y)
            continue; /* on the same half pixel as the one before */
        last_x = px;
        last_y = py;
        row(out, (const double[]){layer->x[i], s->y[i]}, 2);
    }
}

/* x low high. A gap closes the filled part to nothing on both sides. */
static void fill_block(struct ebb_str *out, const struct plot_pane *pane,
                       const struct plot_layer *layer, double pixels)
{
    struct walk w;
    size_t i;
    bool is_open = false;
    double x = 0, floor_y = pane->y.min;
    walk_init(&w, &pane->x, layer->x, layer->high, layer->series->count, pixels);
    while (walk_next(&w, &i)) {
        double low = layer->low[i], high = layer->high[i];
        if (pane->panel->log_y && low <= 0)
            low = floor_y;
        if (!is_drawn(pane, layer->x[i], high) || !isfinite(low)) {
            if (is_open)
                row(out, (const double[]){x, floor_y, floor_y}, 3);
            is_open = false;
            continue;
        }
        x = layer->x[i];
        if (!is_open)
            row(out, (const double[]){x, floor_y, floor_y}, 3);
        row(out, (const double[]){x, low, high}, 3);
        is_open = true;
    }
}

/* x y left right bottom top, for boxxyerror */
static void bar_block(struct ebb_str *out, const struct plot_pane *pane,
                      const struct plot_layer *layer)
{
    for (size_t i = 0; i < layer->series->count; i++) {
        double x = layer->x[i], low = layer->low[i], high = layer->high[i];
        if (pane->panel->log_y && low <= 0)
            low = pane->y.min;
        if (is_drawn(pane, x, high))
            row(out,
                (const double[]){x, high, x + layer->bar_left, x + layer->bar_right, low, high}, 6);
    }
}

static double span(const struct plot_scale *s)
{
    return s->is_log ? log10(s->max / s->min) : s->max - s->min;
}

static double edge(double center, double half, bool is_log)
{
    return is_log ? pow(10, log10(center) + half) : center + half;
}

/* x y left right bottom top value; neighbours overlap by a hair, else light shines through between
 * them */
static void cell_block(struct ebb_str *out, const struct plot_pane *pane,
                       const struct plot_layer *layer, const struct plot_box *box)
{
    const struct plot_series *s = layer->series;
    bool lx = pane->panel->log_x, ly = pane->panel->log_y;
    double w = pane->cell_width / 2, h = pane->cell_height / 2;
    bool has_hair = s->count > CELL_LABELS_MAX; /* few cells have white borders instead */
    double hair_x = has_hair ? span(&pane->x) / box->width : 0;
    double hair_y = has_hair ? span(&pane->y) / box->height : 0;
    for (size_t i = 0; i < s->count; i++)
        if (is_drawn(pane, layer->x[i], s->y[i]) && isfinite(s->y2[i]))
            row(out,
                (const double[]){layer->x[i], s->y[i], edge(layer->x[i], -w, lx),
                                 edge(layer->x[i], w + hair_x, lx), edge(s->y[i], -h, ly),
                                 edge(s->y[i], h + hair_y, ly), s->y2[i]},
                7);
}

/* ---- numbers written on bars and cells --------------------------------------------------------
 */

static bool bars_labelled(const struct plot_pane *pane, const struct plot_box *box)
{
    size_t bars = 0;
    double width = INFINITY;
    for (size_t i = 0; i < pane->panel->series_count; i++) {
        const struct plot_layer *layer = &pane->layers[i];
        if (layer->series->style != PLOT_BARS)
            continue;
        bars += layer->series->count;
        width = layer->bar_right - layer->bar_left;
    }
    double pixels = width / (pane->x.max - pane->x.min) * box->width;
    return bars > 0 && bars <= BAR_LABELS_MAX && !pane->panel->is_stacked && pixels >= 24;
}

static bool cells_labelled(const struct plot_pane *pane, const struct plot_layer *layer,
                           const struct plot_box *box)
{
    double w = pane->cell_width, h = pane->cell_height;
    return layer->series->count <= CELL_LABELS_MAX && w / span(&pane->x) * box->width >= 34 &&
           h / span(&pane->y) * box->height >= 16;
}

/* x y text [colour]: the text is a number of ours, without blanks */
static void label_block(struct ebb_str *out, const struct plot_pane *pane,
                        const struct plot_layer *layer)
{
    const struct plot_series *s = layer->series;
    bool is_cells = s->style == PLOT_CELLS;
    for (size_t i = 0; i < s->count; i++) {
        double y = is_cells ? s->y[i] : layer->high[i], value = is_cells ? s->y2[i] : s->y[i];
        double x = layer->x[i] + (is_cells ? 0 : (layer->bar_left + layer->bar_right) / 2);
        char text[32];
        if (!is_drawn(pane, x, y) || !isfinite(value))
            continue;
        plot_number(value, text, sizeof text);
        plot_num(out, x);
        ebb_str_addc(out, ' ');
        plot_num(out, y);
        bool is_light = plot_scale_place(&pane->value, value) > 0.55;
        ebb_str_printf(out, " %s %d\n", text, is_light ? 0x222222 : 0xffffff);
    }
}

/* ---- all of a panel ----------------------------------------------------------------------------
 */

static void block_begin(struct ebb_str *out, size_t p, size_t i, const char *part)
{
    ebb_str_printf(out, "$p%zu_%zu%s << EOD\n", p, i, part);
}

static bool is_line(enum plot_style style)
{
    return style == PLOT_LINE || style == PLOT_STEP || style == PLOT_LINE_POINTS;
}

void plot_data_add(struct ebb_str *out, const struct plot_pane *pane, size_t p,
                   const struct plot_box *box)
{
    for (size_t i = 0; i < pane->panel->series_count; i++) {
        const struct plot_layer *layer = &pane->layers[i];
        enum plot_style style = layer->series->style;
        if (is_line(style)) {
            block_begin(out, p, i, "l");
            line_block(out, pane, layer, box->width);
            ebb_str_add(out, "EOD\n");
        }
        if (layer->has_points) {
            block_begin(out, p, i, "p");
            point_block(out, pane, layer, box);
            ebb_str_add(out, "EOD\n");
        }
        if (style == PLOT_AREA || style == PLOT_BAND || style == PLOT_BARS || style == PLOT_CELLS) {
            block_begin(out, p, i, "f");
            if (style == PLOT_BARS)
                bar_block(out, pane, layer);
            else if (style == PLOT_CELLS)
                cell_block(out, pane, layer, box);
            else
                fill_block(out, pane, layer, box->width);
            ebb_str_add(out, "EOD\n");
        }
        if ((style == PLOT_BARS && bars_labelled(pane, box)) ||
            (style == PLOT_CELLS && cells_labelled(pane, layer, box))) {
            block_begin(out, p, i, "t");
            label_block(out, pane, layer);
            ebb_str_add(out, "EOD\n");
        }
    }
}

/* Every element ends with ", \<newline>"; the caller closes the command with an element of its own.
 */
static void element(struct ebb_str *out, size_t p, size_t i, const char *part, const char *rest)
{
    ebb_str_printf(out, "$p%zu_%zu%s %s notitle, \\\n", p, i, part, rest);
}

static void label_element(struct ebb_str *out, size_t p, size_t i, const char *with, double font,
                          const char *color)
{
    char rest[160];
    snprintf(rest, sizeof rest, "%s font ',%.4g' textcolor rgb %s", with, font, color);
    element(out, p, i, "t", rest);
}

static bool has_drawn(const struct plot_pane *pane, const struct plot_layer *layer)
{
    for (size_t i = 0; i < layer->series->count; i++)
        if (is_drawn(pane, layer->x[i],
                     layer->high != NULL ? layer->high[i] : layer->series->y[i]) &&
            (layer->series->style != PLOT_CELLS || isfinite(layer->series->y2[i])))
            return true;
    return false;
}

static void fill_parts(struct plot_pen *pen, const struct plot_pane *pane, size_t p, size_t i,
                       const struct plot_box *box)
{
    const struct plot_layer *layer = &pane->layers[i];
    struct ebb_str *out = pen->out;
    double font = 10.5 * pen->font_scale;
    char rest[160];
    switch (layer->series->style) {
    case PLOT_AREA:
    case PLOT_BAND:
        snprintf(rest, sizeof rest,
                 "using 1:2:3 with filledcurves fillstyle solid %s noborder linecolor rgb '%s'",
                 layer->series->style == PLOT_BAND ? "0.25" : "0.85", layer->color);
        element(out, p, i, "f", rest);
        break;
    case PLOT_BARS:
        snprintf(
            rest, sizeof rest,
            "using 1:2:3:4:5:6 with boxxyerror fillstyle solid 0.92 noborder linecolor rgb '%s'",
            layer->color);
        element(out, p, i, "f", rest);
        if (bars_labelled(pane, box))
            label_element(out, p, i, "using 1:2:3 with labels center offset 0,0.55", font,
                          "'#444444'");
        break;
    case PLOT_CELLS:
        element(
            out, p, i, "f",
            layer->series->count > CELL_LABELS_MAX
                ? "using 1:2:3:4:5:6:7 with boxxyerror fillstyle solid 1 noborder linecolor palette"
                : "using 1:2:3:4:5:6:7 with boxxyerror fillstyle solid 1 border rgb '#ffffff' "
                  "linecolor palette");
        if (cells_labelled(pane, layer, box))
            label_element(out, p, i, "using 1:2:3:4 with labels center", font, "variable");
        break;
    default:
        break;
    }
}

void plot_parts_add(struct plot_pen *pen, const struct plot_pane *pane, size_t p,
                    const struct plot_box *box)
{
    struct ebb_str *out = pen->out;
    for (size_t i = 0; i < pane->panel->series_count; i++) {
        const struct plot_layer *layer = &pane->layers[i];
        const char *dash = layer->series->is_dashed ? "dashtype (9,5)" : "dashtype solid";
        char rest[160];
        if (!has_drawn(pane, layer))
            continue; /* gnuplot takes a block without points for an error */
        fill_parts(pen, pane, p, i, box);
        if (is_line(layer->series->style)) {
            snprintf(rest, sizeof rest, "using 1:2 with lines linewidth %g %s linecolor rgb '%s'",
                     LINE_WIDTH, dash, layer->color);
            element(out, p, i, "l", rest);
        }
        if (layer->has_points) {
            snprintf(
                rest, sizeof rest,
                "using 1:2 with points pointtype %d pointsize %g linewidth 1.5 linecolor rgb '%s'",
                plot_point_type(layer->marker), pen->point_size, layer->color);
            element(out, p, i, "p", rest);
        }
    }
}
