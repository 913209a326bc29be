/* data.c - series as strokes and shapes.
 *
 * A line with many more points than the picture has columns is thinned to what can be seen: per
 * column the first, lowest, highest and last point, so that every spike stays. Filled shapes and
 * lines are cut at the edge of the plot; markers are left out when their middle lies outside. */
#include "plot/svg.h"

#include <math.h>

#include "base/heap.h"

#define THIN_FROM 4000    /* points; fewer are drawn as they are */
#define BAR_LABELS_MAX 40 /* bars that get their number written */
#define CELL_LABELS_MAX 400

struct canvas { /* one panel */
    struct plot_pen *pen;
    const struct plot_pane *pane;
    const struct plot_box *box;
};

static double at_x(const struct canvas *c, double x)
{
    return plot_box_x(c->box, &c->pane->x, x);
}

static double at_y(const struct canvas *c, double y)
{
    return plot_box_y(c->box, &c->pane->y, y);
}

static bool is_drawn(const struct canvas *c, double x, double y)
{
    return isfinite(at_x(c, x)) && isfinite(at_y(c, y));
}

static void stroke_to(const struct canvas *c, char verb, double x, double y)
{
    ebb_str_addc(c->pen->out, verb);
    plot_pen_at(c->pen, at_x(c, x), at_y(c, y));
}

/* ---- thinning ------------------------------------------------------------------------------- */

static bool goes_right(const double *x, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (!(x[i] >= x[i - 1]))
            return false; /* a curve that turns back is drawn whole */
    return true;
}

/* Columns are half a pixel wide. */
static double column_of(const struct canvas *c, double x)
{
    return floor(2 * at_x(c, x));
}

/* Indexes of the points worth drawing, in order; a gap (NaN) is a column of its own. The array is
 * the caller's; NULL when memory is short, which the picture's text then says. */
static size_t *thin(const struct canvas *c, const double *x, const double *y, size_t count,
                    size_t *kept)
{
    size_t *list = ebb_calloc(count + 1, sizeof *list);
    bool is_thin = count > THIN_FROM && goes_right(x, count);
    *kept = 0;
    c->pen->out->failed = c->pen->out->failed || list == NULL;
    for (size_t first = 0, last; list != NULL && first < count; first = last + 1) {
        size_t low = first, high = first;
        last = first;
        while (is_thin && isfinite(y[first]) && last + 1 < count && isfinite(y[last + 1]) &&
               column_of(c, x[last + 1]) == column_of(c, x[first])) {
            last++;
            low = y[last] < y[low] ? last : low;
            high = y[last] > y[high] ? last : high;
        }
        const size_t points[] = {first, low < high ? low : high, low < high ? high : low, last};
        for (size_t k = 0; k < 4; k++)
            if (k == 0 || points[k] > points[k - 1])
                list[(*kept)++] = points[k];
    }
    return list;
}

/* ---- lines, points, areas -------------------------------------------------------------------- */

static void add_line(const struct canvas *c, const struct plot_layer *layer)
{
    const struct plot_series *s = layer->series;
    size_t kept, *points = thin(c, layer->x, s->y, s->count, &kept);
    bool is_open = false; /* inside a line */
    double y = 0;
    plot_pen_path(c->pen);
    for (size_t k = 0; k < kept; k++) {
        size_t i = points[k];
        if (s->style == PLOT_STEP && is_open && isfinite(at_x(c, layer->x[i])))
            stroke_to(c, 'L', layer->x[i], y);
        bool is_here = is_drawn(c, layer->x[i], s->y[i]);
        if (is_here)
            stroke_to(c, is_open ? 'L' : 'M', layer->x[i], s->y[i]);
        y = s->y[i];
        is_open = is_here;
    }
    plot_pen_stroke(c->pen, layer->color, PLOT_LINE_WIDTH, s->is_dashed ? PLOT_LINE_DASH : NULL);
    ebb_free(points);
}

static void add_points(const struct canvas *c, const struct plot_layer *layer)
{
    const struct plot_series *s = layer->series;
    const struct plot_box *b = c->box;
    double last_x = NAN, last_y = NAN;
    plot_pen_path(c->pen);
    for (size_t i = 0; i < s->count; i++) {
        double x = at_x(c, layer->x[i]), y = at_y(c, s->y[i]);
        if (!(x > b->x - 0.5 && x < b->x + b->width + 0.5 && y > b->y - 0.5 &&
              y < b->y + b->height + 0.5))
            continue;
        if (s->count > THIN_FROM && floor(2 * x) == last_x && floor(2 * y) == last_y)
            continue; /* on the same half pixel as the one before */
        last_x = floor(2 * x);
        last_y = floor(2 * y);
        plot_pen_marker(c->pen, layer->marker, x, y);
    }
    plot_pen_markers_end(c->pen, layer->marker, layer->color);
}

static double floor_of(const struct canvas *c, double low)
{
    return c->pane->panel->log_y && low <= 0 ? c->pane->y.min : low;
}

static bool has_height(const struct canvas *c, const struct plot_layer *layer, size_t i)
{
    return is_drawn(c, layer->x[i], layer->high[i]) &&
           is_drawn(c, layer->x[i], floor_of(c, layer->low[i]));
}

/* A shape per run without gaps: along the upper edge, back along the lower one. */
static void add_area(const struct canvas *c, const struct plot_layer *layer)
{
    size_t kept, *points = thin(c, layer->x, layer->high, layer->series->count, &kept);
    plot_pen_path(c->pen);
    for (size_t from = 0, to; from<kept; from = to> from ? to : from + 1) {
        for (to = from; to < kept && has_height(c, layer, points[to]); to++)
            stroke_to(c, to == from ? 'M' : 'L', layer->x[points[to]], layer->high[points[to]]);
        for (size_t k = to; k > from; k--)
            stroke_to(c, 'L', layer->x[points[k - 1]], floor_of(c, layer->low[points[k - 1]]));
        if (to > from)
            ebb_str_addc(c->pen->out, 'z');
    }
    plot_pen_fill(c->pen, layer->color, layer->series->style == PLOT_BAND ? 0.25 : 0.85);
    ebb_free(points);
}

/* Strokes with feet. Those that belong to bars stand in their middle. */
static void add_intervals(const struct canvas *c, const struct plot_layer *layer)
{
    double shift = 0;
    for (size_t k = 0; k < c->pane->panel->series_count; k++) {
        const struct plot_layer *bars = &c->pane->layers[k];
        if (bars->series->style == PLOT_BARS && layer->entry != PLOT_NO_ENTRY &&
            bars->entry == layer->entry)
            shift = (bars->bar_left + bars->bar_right) / 2;
    }
    plot_pen_path(c->pen);
    for (size_t i = 0; i < layer->series->count; i++) {
        double x = layer->x[i] + shift;
        if (!is_drawn(c, x, layer->low[i]) || !is_drawn(c, x, layer->high[i]))
            continue;
        stroke_to(c, 'M', x, layer->low[i]);
        stroke_to(c, 'L', x, layer->high[i]);
        for (int end = 0; end < 2; end++) {
            double y = at_y(c, end ? layer->high[i] : layer->low[i]);
            ebb_str_addc(c->pen->out, 'M');
            plot_pen_at(c->pen, at_x(c, x) - 4, y);
            ebb_str_addc(c->pen->out, 'L');
            plot_pen_at(c->pen, at_x(c, x) + 4, y);
        }
    }
    plot_pen_stroke(c->pen, shift != 0 ? PLOT_INK : layer->color, 1.5, NULL);
}

static void add_crosses(const struct canvas *c, const struct plot_layer *layer)
{
    const struct plot_series *s = layer->series;
    plot_pen_path(c->pen);
    for (size_t i = 0; i < s->count; i++)
        if (is_drawn(c, layer->x[i], s->y[i]))
            plot_pen_cross(c->pen, at_x(c, layer->x[i]), at_y(c, s->y[i]));
    plot_pen_stroke(c->pen, layer->color, 2.2, NULL);
}

/* ---- bars and cells -------------------------------------------------------------------------- */

static void add_corners(const struct canvas *c, double left, double right, double low, double high)
{
    stroke_to(c, 'M', left, low);
    stroke_to(c, 'L', left, high);
    stroke_to(c, 'L', right, high);
    stroke_to(c, 'L', right, low);
    ebb_str_addc(c->pen->out, 'z');
}

static void add_bars(const struct canvas *c, const struct plot_layer *layer)
{
    plot_pen_path(c->pen);
    for (size_t i = 0; i < layer->series->count; i++) {
        double left = layer->x[i] + layer->bar_left, right = layer->x[i] + layer->bar_right;
        if (is_drawn(c, left, layer->high[i]) && isfinite(at_x(c, right)))
            add_corners(c, left, right, floor_of(c, layer->low[i]), layer->high[i]);
    }
    plot_pen_fill(c->pen, layer->color, 0.92);
}

/* The cell's middle in pixels; its size is the same for all. */
static void add_cells(const struct canvas *c, const struct plot_layer *layer)
{
    const struct plot_series *s = layer->series;
    double width = c->pane->cell_width / plot_scale_span(&c->pane->x) * c->box->width;
    double height = c->pane->cell_height / plot_scale_span(&c->pane->y) * c->box->height;
    bool is_many = s->count > CELL_LABELS_MAX; /* few cells have white borders */
    char color[8];
    ebb_str_add(c->pen->out, is_many ? "<g shape-rendering=\"crispEdges\">\n"
                                     : "<g stroke=\"#ffffff\" stroke-width=\"1\">\n");
    for (size_t i = 0; i < s->count; i++)
        if (is_drawn(c, layer->x[i], s->y[i]) && isfinite(s->y2[i]))
            plot_pen_rect(c->pen,
                          &(struct plot_box){at_x(c, layer->x[i]) - width / 2,
                                             at_y(c, s->y[i]) - height / 2, width, height},
                          plot_viridis(plot_scale_place(&c->pane->value, s->y2[i]), color), 1);
    ebb_str_add(c->pen->out, "</g>\n");
}

/* One path: a rectangle each would make pictures ten times as long. */
static void add_squares(const struct canvas *c, const struct plot_layer *layer)
{
    const struct plot_series *s = layer->series;
    double width = c->pane->square_width / plot_scale_span(&c->pane->x) * c->box->width;
    double height = c->pane->square_height / plot_scale_span(&c->pane->y) * c->box->height;
    ebb_str_add(c->pen->out, "<g shape-rendering=\"crispEdges\">\n");
    plot_pen_path(c->pen);
    for (size_t i = 0; i < s->count; i++) {
        if (!is_drawn(c, layer->x[i], s->y[i]))
            continue;
        ebb_str_addc(c->pen->out, 'M');
        plot_pen_at(c->pen, at_x(c, layer->x[i]) - width / 2, at_y(c, s->y[i]) - height / 2);
        ebb_str_printf(c->pen->out, "h%.2fv%.2fh-%.2fz", width, height, width);
    }
    plot_pen_fill(c->pen, layer->color, 1);
    ebb_str_add(c->pen->out, "</g>\n");
}

/* ---- numbers written on bars and cells -------------------------------------------------------- */

static bool bars_labelled(const struct canvas *c)
{
    const struct plot_pane *pane = c->pane;
    size_t bars = 0;
    double width = INFINITY;
    for (size_t i = 0; i < pane->panel->series_count; i++) {
        const struct plot_layer *layer = &pane->layers[i];
        if (layer->series->style != PLOT_BARS)
            continue;
        bars += layer->series->count;
        width = layer->bar_right - layer->bar_left;
    }
    double pixels = width / (pane->x.max - pane->x.min) * c->box->width;
    return bars > 0 && bars <= BAR_LABELS_MAX && !pane->panel->is_stacked && pixels >= 24;
}

static bool cells_labelled(const struct canvas *c, const struct plot_layer *layer)
{
    const struct plot_pane *pane = c->pane;
    return layer->series->count <= CELL_LABELS_MAX &&
           pane->cell_width / plot_scale_span(&pane->x) * c->box->width >= 34 &&
           pane->cell_height / plot_scale_span(&pane->y) * c->box->height >= 16;
}

/* Where a number stands clear of its bar and of the interval on it. */
static double top_of(const struct canvas *c, const struct plot_layer *layer, size_t i)
{
    double top = layer->high[i];
    for (size_t k = 0; k < c->pane->panel->series_count; k++) {
        const struct plot_layer *other = &c->pane->layers[k];
        if (other->series->style == PLOT_INTERVALS && layer->entry != PLOT_NO_ENTRY &&
            other->entry == layer->entry && i < other->series->count && other->high[i] > top &&
            isfinite(at_y(c, other->high[i])))
            top = other->high[i];
    }
    return top;
}

static void add_numbers(const struct canvas *c, const struct plot_layer *layer)
{
    const struct plot_series *s = layer->series;
    bool is_cells = s->style == PLOT_CELLS;
    for (size_t i = 0; i < s->count; i++) {
        double value = is_cells ? s->y2[i] : s->y[i];
        double x = layer->x[i] + (layer->bar_left + layer->bar_right) / 2; /* cells: both 0 */
        double y = is_cells ? s->y[i] : top_of(c, layer, i);
        char text[32];
        if (!is_drawn(c, x, y) || !isfinite(value))
            continue;
        plot_number(value, text, sizeof text);
        bool is_light = plot_scale_place(&c->pane->value, value) > 0.55;
        plot_pen_words(c->pen, &(struct plot_words){.text = text,
                                                    .x = at_x(c, x),
                                                    .y = at_y(c, y) - (is_cells ? 0 : 8),
                                                    .size = 10.5,
                                                    .align = "center",
                                                    .color = !is_cells  ? "#444444"
                                                             : is_light ? PLOT_INK
                                                                        : "#ffffff"});
    }
}

/* ---- all of a panel -------------------------------------------------------------------------- */

/* Inside a picture of its own, in the same coordinates, which cuts what leaves it. */
static void add_shape(const struct canvas *c, const struct plot_layer *layer)
{
    const struct plot_box *b = c->box;
    ebb_str_printf(c->pen->out,
                   "<svg x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" viewBox=\"%g %g %g %g\">\n",
                   b->x, b->y, b->width, b->height, b->x, b->y, b->width, b->height);
    switch (layer->series->style) {
    case PLOT_LINE:
    case PLOT_STEP:
    case PLOT_LINE_POINTS:
        add_line(c, layer);
        break;
    case PLOT_AREA:
    case PLOT_BAND:
        add_area(c, layer);
        break;
    case PLOT_BARS:
        add_bars(c, layer);
        break;
    case PLOT_CELLS:
        add_cells(c, layer);
        break;
    case PLOT_INTERVALS:
        add_intervals(c, layer);
        break;
    case PLOT_SQUARES:
        add_squares(c, layer);
        break;
    case PLOT_CROSSES:
    case PLOT_POINTS:
        break;
    }
    ebb_str_add(c->pen->out, "</svg>\n");
}

void plot_data_add(struct plot_pen *pen, const struct plot_pane *pane, const struct plot_box *box)
{
    const struct canvas c = {pen, pane, box};
    for (size_t i = 0; i < pane->panel->series_count; i++) {
        const struct plot_layer *layer = &pane->layers[i];
        enum plot_style style = layer->series->style;
        if (style == PLOT_CROSSES)
            add_crosses(&c, layer);
        else if (style != PLOT_POINTS)
            add_shape(&c, layer);
        if (layer->has_points && style != PLOT_CROSSES)
            add_points(&c, layer);
        if (style == PLOT_BARS ? bars_labelled(&c)
                               : style == PLOT_CELLS && cells_labelled(&c, layer))
            add_numbers(&c, layer);
    }
}
