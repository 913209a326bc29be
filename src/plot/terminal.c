/* terminal.c - charts as text, drawn here.
 *
 * Curves are Braille dots; since a terminal need not have colours, each series is told apart by the
 * marker on its points, filled shapes by their shade. Panels of bars become rows, which leave room
 * for names. */
#include "plot/plot.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "plot/canvas.h"
#include "plot/figure.h"
#include "plot/text.h"

#define COLUMNS_MIN 24
#define COLUMNS_MAX 1000
#define ROWS_MAX 1000
#define PLOT_ROWS_MIN 6
#define PANEL_COLUMNS 56 /* narrower panels are not put side by side */

static const uint32_t markers[PLOT_MARKERS] = {0x25cf, 0x25a0, 0x25b2, 0x25c6, 0x25bc,
                                               0x25cb, 0x25a1, 0x25b3, 0x25c7, 0x25bd};
static const uint32_t shades[] = {0x2588, 0x2593, 0x2592, 0x2591, '#', '+', ':', '='};
static const uint32_t mark_lines[] = {0x2508, 0x250a}; /* level, upright */
#define SHADES (sizeof shades / sizeof shades[0])

/* Markers by order of appearance: without colours, no two series of a chart may share one. */
static uint32_t marker_of(size_t entry)
{
    return entry < PLOT_MARKERS ? markers[entry]
                                : (uint32_t)('a' + (int)((entry - PLOT_MARKERS) % 26));
}

#define CROSS 0x00d7 /* what failed */

static bool is_filled(enum plot_style style)
{
    return style == PLOT_AREA || style == PLOT_BAND || style == PLOT_BARS;
}

static uint32_t sign_of(const struct plot_layer *layer, size_t index)
{
    size_t order = layer->entry != PLOT_NO_ENTRY ? layer->entry : index;
    if (layer->series->style == PLOT_BAND)
        return 0x2591;
    if (layer->series->style == PLOT_CROSSES)
        return CROSS;
    return is_filled(layer->series->style) ? shades[order % SHADES] : marker_of(order);
}

/* Rounded down to a place on the canvas; what is nowhere near it becomes a place outside. */
static int whole(double v)
{
    return v > -1e6 && v < 1e6 ? (int)floor(v) : -1000000;
}

/* ---- curves and filled shapes ---------------------------------------------------------------- */

struct area { /* the part of a panel's canvas inside the axes */
    struct plot_canvas *canvas;
    int left, top, width, height;
};

static double dot_x(const struct area *a, const struct plot_pane *pane, double x)
{
    return (a->left + plot_scale_place(&pane->x, x) * (a->width - 0.5)) * 2;
}

static double dot_y(const struct area *a, const struct plot_pane *pane, double y)
{
    return (a->top + (1 - plot_scale_place(&pane->y, y)) * (a->height - 0.25)) * 4;
}

static bool is_inside(const struct area *a, double x, double y)
{
    return x >= 2 * a->left && x < 2 * (a->left + a->width) && y >= 4 * a->top &&
           y < 4 * (a->top + a->height);
}

/* A line clipped to the area by leaving out what is outside: dots are small enough for that. */
static void area_line(const struct area *a, double x0, double y0, double x1, double y1)
{
    double length = fmax(fabs(x1 - x0), fabs(y1 - y0));
    if (!(length < 1e5))
        return;
    int steps = (int)ceil(length) + 1;
    for (int i = 0; i <= steps; i++) {
        double t = (double)i / steps, x = x0 + t * (x1 - x0), y = y0 + t * (y1 - y0);
        if (!is_inside(a, x, y))
            continue;
        plot_canvas_dot(a->canvas, whole(x), whole(y));
        plot_canvas_uncover(a->canvas, whole(x / 2), whole(y / 4), shades, SHADES);
        plot_canvas_uncover(a->canvas, whole(x / 2), whole(y / 4), mark_lines, 2);
    }
}

static void draw_intervals(const struct area *a, const struct plot_pane *pane,
                           const struct plot_layer *layer)
{
    for (size_t i = 0; i < layer->series->count; i++) {
        double x = dot_x(a, pane, layer->x[i]), low = dot_y(a, pane, layer->low[i]),
               high = dot_y(a, pane, layer->high[i]);
        if (isfinite(x) && isfinite(low) && isfinite(high))
            area_line(a, x, low, x, high);
    }
}

static void draw_curve(const struct area *a, const struct plot_pane *pane,
                       const struct plot_layer *layer)
{
    const struct plot_series *s = layer->series;
    double last_x = NAN, last_y = NAN;
    for (size_t i = 0; i < s->count; i++) {
        double x = dot_x(a, pane, layer->x[i]), y = dot_y(a, pane, s->y[i]);
        if (isfinite(last_x) && isfinite(x) && s->style == PLOT_STEP) {
            area_line(a, last_x, last_y, x, last_y);
            last_x = x;
        }
        if (isfinite(last_x) && isfinite(x) && isfinite(y))
            area_line(a, last_x, last_y, x, y);
        last_x = isfinite(y) ? x : NAN;
        last_y = y;
    }
}

/* Markers on points; on a curve without points only now and then, and only when there is something
 * to tell apart. */
static void draw_markers(const struct area *a, const struct plot_pane *pane,
                         const struct plot_layer *layer, uint32_t sign, bool is_alone)
{
    const struct plot_series *s = layer->series;
    if (!layer->has_points && is_alone)
        return;
    double apart = layer->has_points ? 0 : a->width / 6.0, last = -INFINITY;
    for (size_t i = 0; i < s->count; i++) {
        double x = dot_x(a, pane, layer->x[i]), y = dot_y(a, pane, s->y[i]);
        if (!isfinite(x) || !isfinite(y) || !is_inside(a, x, y) || fabs(x / 2 - last) < apart)
            continue;
        plot_canvas_glyph(a->canvas, whole(x / 2), whole(y / 4), sign);
        last = x / 2;
    }
}

/* Height of a filled layer at x: between points as drawn, NaN outside. */
static void fill_at(const struct plot_layer *layer, double x, double *low, double *high)
{
    size_t n = layer->series->count, from = 0, to = n;
    *low = *high = NAN;
    if (n == 0 || x < layer->x[0] || x > layer->x[n - 1])
        return;
    while (to - from > 1) { /* last point at or before x */
        size_t middle = from + (to - from) / 2;
        if (layer->x[middle] <= x)
            from = middle;
        else
            to = middle;
    }
    size_t next = from + 1 < n ? from + 1 : from;
    double span = layer->x[next] - layer->x[from], t = span > 0 ? (x - layer->x[from]) / span : 0;
    *low = layer->low[from] + t * (layer->low[next] - layer->low[from]);
    *high = layer->high[from] + t * (layer->high[next] - layer->high[from]);
}

static double unplace(const struct plot_scale *s, double part)
{
    return s->is_log ? s->min * pow(s->max / s->min, part) : s->min + part * (s->max - s->min);
}

static void draw_fill(const struct area *a, const struct plot_pane *pane,
                      const struct plot_layer *layer, uint32_t sign)
{
    for (int c = 0; c < a->width; c++) {
        double low, high;
        fill_at(layer, unplace(&pane->x, (c + 0.5) / a->width), &low, &high);
        for (int r = 0; r < a->height; r++) {
            double y = unplace(&pane->y, 1 - (r + 0.5) / a->height);
            if (y >= low && y < high)
                plot_canvas_glyph(a->canvas, a->left + c, a->top + r, sign);
        }
    }
}

/* Cells as five shades from the lowest to the highest value. */
static void draw_cells(const struct area *a, const struct plot_pane *pane,
                       const struct plot_layer *layer)
{
    static const uint32_t levels[] = {0xb7, 0x2591, 0x2592, 0x2593, 0x2588};
    const struct plot_series *s = layer->series;
    double half_w = pane->cell_width / plot_scale_span(&pane->x) / 2;
    double half_h = pane->cell_height / plot_scale_span(&pane->y) / 2;
    for (size_t i = 0; i < s->count; i++) {
        double level = plot_scale_place(&pane->value, s->y2[i]);
        double x = plot_scale_place(&pane->x, layer->x[i]);
        double y = 1 - plot_scale_place(&pane->y, s->y[i]);
        if (!isfinite(level) || !isfinite(x) || !isfinite(y))
            continue;
        int c0 = whole((x - half_w) * a->width + 0.5), c1 = whole((x + half_w) * a->width + 0.5);
        int r0 = whole((y - half_h) * a->height + 0.5), r1 = whole((y + half_h) * a->height + 0.5);
        int step = whole(level * 4.999);
        for (int r = r0 < 0 ? 0 : r0; r < (r1 > r0 ? r1 : r0 + 1) && r < a->height; r++)
            for (int c = c0 < 0 ? 0 : c0; c < (c1 > c0 ? c1 : c0 + 1) && c < a->width; c++)
                plot_canvas_glyph(a->canvas, a->left + c, a->top + r,
                                  levels[step < 0   ? 0
                                         : step > 4 ? 4
                                                    : step]);
    }
}

static void draw_marks(const struct area *a, const struct plot_pane *pane)
{
    for (size_t i = 0; i < pane->panel->mark_count; i++) {
        const struct plot_mark *m = &pane->panel->marks[i];
        double x = dot_x(a, pane, m->at), y = dot_y(a, pane, m->at);
        if (m->is_vertical)
            for (int r = 0; r < a->height && isfinite(x) && is_inside(a, x, 4.0 * a->top); r++)
                plot_canvas_glyph(a->canvas, whole(x / 2), a->top + r, mark_lines[1]);
        else
            for (int c = 0; c < a->width && isfinite(y) && is_inside(a, 2.0 * a->left, y); c++)
                plot_canvas_glyph(a->canvas, a->left + c, whole(y / 4), mark_lines[0]);
    }
}

/* ---- axes ------------------------------------------------------------------------------------ */

static void draw_x_axis(const struct area *a, const struct plot_pane *pane)
{
    const struct plot_panel *panel = pane->panel;
    struct plot_tick ticks[PLOT_TICKS];
    size_t count = 0;
    int y = a->top + a->height, free_from = 0;
    for (int c = 0; c < a->width; c++)
        plot_canvas_glyph(a->canvas, a->left + c, y, 0x2500);
    plot_canvas_glyph(a->canvas, a->left - 1, y, 0x2514);
    if (panel->x_ticks != NULL && panel->x_tick_count > 0) {
        for (; count < panel->x_tick_count && count < PLOT_TICKS; count++) {
            ticks[count].at = (double)count;
            snprintf(ticks[count].text, sizeof ticks[count].text, "%.20s", panel->x_ticks[count]);
        }
    } else {
        count = plot_pane_ticks(pane, false, (size_t)(a->width / 12), ticks);
    }
    for (size_t i = 0; i < count; i++) {
        int c = whole(dot_x(a, pane, ticks[i].at) / 2);
        if (c < a->left || c >= a->left + a->width || ticks[i].text[0] == '\0')
            continue;
        int length = (int)plot_text_columns(ticks[i].text), from = c - length / 2;
        from = from + length > a->canvas->width ? a->canvas->width - length : from;
        if (from < free_from)
            continue;
        plot_canvas_glyph(a->canvas, c, y, 0x252c);
        free_from = plot_canvas_text(a->canvas, from, y + 1, ticks[i].text) + 1;
    }
}

static size_t y_ticks(const struct plot_pane *pane, int height, struct plot_tick *ticks)
{
    int target = height / 3 + 1;
    return plot_pane_ticks(pane, true, target > 0 ? (size_t)target : 1, ticks);
}

static void draw_y_axis(const struct area *a, const struct plot_pane *pane)
{
    struct plot_tick ticks[PLOT_TICKS];
    size_t count = y_ticks(pane, a->height, ticks);
    int last = -1;
    for (int r = 0; r < a->height; r++)
        plot_canvas_glyph(a->canvas, a->left - 1, a->top + r, 0x2502);
    for (size_t i = 0; i < count; i++) {
        int r = whole(dot_y(a, pane, ticks[i].at) / 4);
        if (r < a->top || r >= a->top + a->height || r == last || ticks[i].text[0] == '\0')
            continue;
        int length = (int)plot_text_columns(ticks[i].text);
        plot_canvas_text(a->canvas, a->left - 2 - length, r, ticks[i].text);
        plot_canvas_glyph(a->canvas, a->left - 1, r, 0x2524);
        last = r;
    }
}

static int y_label_width(const struct plot_pane *pane, int height)
{
    struct plot_tick ticks[PLOT_TICKS];
    size_t count = y_ticks(pane, height, ticks);
    int width = 1;
    for (size_t i = 0; i < count; i++) {
        int n = (int)plot_text_columns(ticks[i].text);
        width = n > width ? n : width;
    }
    return width;
}

/* ---- one panel ------------------------------------------------------------------------------- */

static void draw_layers(const struct area *a, const struct plot_pane *pane)
{
    size_t n = pane->panel->series_count, curves = 0;
    for (size_t i = 0; i < n; i++) {
        const struct plot_layer *layer = &pane->layers[i];
        enum plot_style style = layer->series->style;
        curves += !is_filled(style) && style != PLOT_CELLS && style != PLOT_INTERVALS;
        if (style == PLOT_CELLS)
            draw_cells(a, pane, layer);
        else if (style == PLOT_AREA || style == PLOT_BAND)
            draw_fill(a, pane, layer, sign_of(layer, i));
    }
    draw_marks(a, pane);
    for (size_t i = 0; i < n; i++) {
        enum plot_style style = pane->layers[i].series->style;
        if (style == PLOT_LINE || style == PLOT_STEP || style == PLOT_LINE_POINTS)
            draw_curve(a, pane, &pane->layers[i]);
        if (style == PLOT_INTERVALS)
            draw_intervals(a, pane, &pane->layers[i]);
    }
    for (size_t i = 0; i < n; i++)
        if (!is_filled(pane->layers[i].series->style) &&
            pane->layers[i].series->style != PLOT_CELLS &&
            pane->layers[i].series->style != PLOT_INTERVALS)
            draw_markers(a, pane, &pane->layers[i], sign_of(&pane->layers[i], i), curves == 1);
}

/* Title and y label; returns the rows they take. */
static int draw_names(struct plot_canvas *canvas, const struct plot_panel *panel)
{
    int y = 0;
    if (plot_has_text(panel->title))
        plot_canvas_text(canvas, 0, y++, panel->title);
    if (plot_has_text(panel->y_label))
        plot_canvas_text(canvas, 0, y++, panel->y_label);
    return y;
}

/* Title, y label, plot, axis, numbers, x label: on a canvas of its own. */
static void draw_panel(struct plot_canvas *canvas, const struct plot_pane *pane)
{
    const struct plot_panel *panel = pane->panel;
    int top = draw_names(canvas, panel);
    int bottom = canvas->height - 2 - plot_has_text(panel->x_label);
    struct area a = {canvas, 0, top, 0, bottom - top};
    a.left = y_label_width(pane, a.height) + 2;
    a.width = canvas->width - a.left - 1;
    if (a.width < 4 || a.height < 2)
        return;
    draw_y_axis(&a, pane);
    draw_x_axis(&a, pane);
    if (plot_has_text(panel->x_label)) {
        int length = (int)plot_text_columns(panel->x_label);
        int x = a.left + (a.width - length) / 2;
        plot_canvas_text(canvas, x < 0 ? 0 : x, bottom + 2, panel->x_label);
    }
    draw_layers(&a, pane);
    if (!pane->has_data)
        plot_canvas_text(canvas, a.left + a.width / 2 - 3, a.top + a.height / 2, "no data");
}

/* ---- bars as rows ---------------------------------------------------------------------------- */

/* Bars come first; intervals on them, and crosses, may follow. */
static bool is_bars(const struct plot_panel *panel)
{
    for (size_t i = 0; i < panel->series_count; i++) {
        enum plot_style style = panel->series[i].style;
        if (style != PLOT_BARS && (i == 0 || (style != PLOT_INTERVALS && style != PLOT_CROSSES)))
            return false;
    }
    return panel->series_count > 0;
}

static size_t last_bars(const struct plot_panel *panel)
{
    size_t last = 0;
    for (size_t i = 0; i < panel->series_count; i++)
        last = panel->series[i].style == PLOT_BARS ? i : last;
    return last;
}

/* A cross within the room of a bar. */
static bool is_crossed(const struct plot_pane *pane, double left, double right)
{
    for (size_t k = 0; k < pane->panel->series_count; k++)
        for (size_t i = 0;
             pane->panel->series[k].style == PLOT_CROSSES && i < pane->panel->series[k].count; i++)
            if (pane->layers[k].x[i] >= left && pane->layers[k].x[i] <= right)
                return true;
    return false;
}

static void bar_name(const struct plot_panel *panel, double x, char *buf, size_t size)
{
    if (panel->x_ticks != NULL && x >= 0 && x < (double)panel->x_tick_count && x == floor(x)) {
        struct ebb_str name = {0};
        plot_text_clean(&name, panel->x_ticks[(size_t)x], strlen(panel->x_ticks[(size_t)x]), 24);
        snprintf(buf, size, "%s", ebb_str_c(&name));
        ebb_str_fini(&name);
    } else {
        plot_number(x, buf, size);
    }
}

/* One row of a bar: `eighths` of a character long, in the series' shade. */
static int bar_run(struct plot_canvas *c, int x, int y, double length, uint32_t sign)
{
    int run = whole(length + (sign == 0x2588 ? 0 : 0.5));
    for (int i = 0; i < run; i++)
        plot_canvas_glyph(c, x + i, y, sign);
    int eighths = whole((length - run) * 8);
    if (sign == 0x2588 && eighths > 0) /* only the full block has fractions */
        plot_canvas_glyph(c, x + run++, y, 0x2590u - (uint32_t)eighths);
    return x + run;
}

static void draw_bar_rows(struct plot_canvas *canvas, const struct plot_pane *pane)
{
    const struct plot_panel *panel = pane->panel;
    const struct plot_layer *first = &pane->layers[0];
    size_t last = last_bars(panel);
    int y = draw_names(canvas, panel), name_width = 0;
    char name[128], number[32];
    for (size_t i = 0; i < first->series->count; i++) {
        bar_name(panel, first->x[i], name, sizeof name);
        int n = (int)plot_text_columns(name);
        name_width = n > name_width ? n : name_width;
    }
    struct plot_scale scale = pane->y;
    if (!scale.is_log && scale.min > 0)
        scale.min = 0;
    double room = canvas->width - name_width - 10;
    for (size_t i = 0; i < first->series->count && room > 2; i++) {
        bar_name(panel, first->x[i], name, sizeof name);
        plot_canvas_text(canvas, 0, y, name);
        int x = name_width + 1;
        for (size_t k = 0; k < panel->series_count; k++) {
            const struct plot_layer *layer = &pane->layers[k];
            if (i >= layer->series->count || layer->series->style != PLOT_BARS)
                continue;
            double from = panel->is_stacked ? plot_scale_place(&scale, layer->low[i]) : 0;
            double part = plot_scale_place(&scale, layer->high[i]);
            from = isfinite(from) && from > 0 ? from : 0;
            if (isfinite(part) && part > from)
                x = bar_run(canvas, panel->is_stacked ? x : name_width + 1, y, (part - from) * room,
                            sign_of(layer, k));
            if (panel->is_stacked && k < last)
                continue;
            plot_number(layer->high[i], number, sizeof number);
            if (is_crossed(pane, layer->x[i] + layer->bar_left, layer->x[i] + layer->bar_right))
                plot_canvas_glyph(canvas, x + 1, y++, CROSS);
            else
                plot_canvas_text(canvas, x + 1, y++, number);
            x = name_width + 1;
        }
    }
}

static int bar_rows(const struct plot_pane *pane)
{
    const struct plot_panel *panel = pane->panel;
    size_t bars = 0;
    for (size_t k = 0; k < panel->series_count; k++)
        bars += panel->series[k].style != PLOT_BARS || (panel->is_stacked && k > 0)
                    ? 0
                    : panel->series[k].count;
    bars = bars < ROWS_MAX ? bars : ROWS_MAX;
    return (int)bars + plot_has_text(panel->title) + plot_has_text(panel->y_label);
}

/* ---- legend ---------------------------------------------------------------------------------- */

struct legend {
    struct ebb_str *out;
    size_t at, columns;
};

static void legend_item(struct legend *l, uint32_t sign, const char *text)
{
    size_t width = plot_text_columns(text) + 2;
    struct plot_canvas one;
    if (l->at > 0 && l->at + 3 + width > l->columns) {
        ebb_str_addc(l->out, '\n');
        l->at = 0;
    }
    if (l->at > 0)
        ebb_str_add(l->out, "   ");
    l->at += width + (l->at > 0 ? 3 : 0);
    width = width > l->columns ? l->columns : width;
    if (plot_canvas_init(&one, (int)width, 1, NULL) != EBB_OK) {
        l->out->failed = true;
        return;
    }
    plot_canvas_glyph(&one, 0, 0, sign);
    plot_canvas_text(&one, 2, 0, text);
    plot_canvas_row(&one, 0, false, l->out);
    plot_canvas_fini(&one);
}

static void legend_cells(struct legend *l, const struct plot_pane *pane)
{
    char low[32], high[32], text[160];
    for (size_t i = 0; i < pane->panel->series_count; i++) {
        const struct plot_series *s = &pane->panel->series[i];
        if (s->style != PLOT_CELLS)
            continue;
        plot_number(pane->value.min, low, sizeof low);
        plot_number(pane->value.max, high, sizeof high);
        snprintf(text, sizeof text, "%.60s: \xc2\xb7 %s  ░▒▓  █ %s",
                 s->name != NULL ? s->name : "value", low, high);
        legend_item(l, ' ', text);
    }
}

/* Panels often share a line, such as a budget: it is named once. */
static bool is_repeated(const struct plot_figure *f, size_t panel, size_t mark)
{
    const struct plot_mark *m = &f->chart->panels[panel].marks[mark];
    for (size_t p = 0; p <= panel; p++)
        for (size_t i = 0; i < (p < panel ? f->chart->panels[p].mark_count : mark); i++) {
            const struct plot_mark *o = &f->chart->panels[p].marks[i];
            if (o->is_vertical == m->is_vertical && o->at == m->at && o->label != NULL &&
                strcmp(o->label, m->label) == 0)
                return true;
        }
    return false;
}

static void write_legend(const struct plot_figure *f, int columns, struct ebb_str *out)
{
    struct legend l = {out, 0, (size_t)columns};
    for (size_t i = 0; i < f->entry_count; i++) {
        enum plot_style style = f->entries[i].style;
        uint32_t sign = style == PLOT_BAND      ? 0x2591
                        : style == PLOT_CROSSES ? CROSS
                        : is_filled(style)      ? shades[i % SHADES]
                                                : marker_of(i);
        legend_item(&l, sign, f->entries[i].name);
    }
    for (size_t p = 0; p < f->chart->panel_count; p++) {
        const struct plot_pane *pane = &f->panes[p];
        legend_cells(&l, pane);
        for (size_t i = 0; i < pane->panel->mark_count; i++) {
            const struct plot_mark *m = &pane->panel->marks[i];
            char number[32], text[160];
            if (!plot_has_text(m->label) || is_repeated(f, p, i))
                continue;
            plot_number(m->at, number, sizeof number);
            snprintf(text, sizeof text, "%.100s (%s)", m->label, number);
            legend_item(&l, mark_lines[m->is_vertical], text);
        }
    }
    if (l.at > 0)
        ebb_str_addc(out, '\n');
}

/* ---- the page -------------------------------------------------------------------------------- */

static void write_head(const char *text, int columns, size_t max, struct ebb_str *out)
{
    for (size_t n = 0; plot_has_text(text) && n < max; n++) {
        const char *next;
        size_t bytes = plot_text_line(text, (size_t)columns, &next);
        plot_text_clean(out, text, n + 1 == max && next != NULL ? strlen(text) : bytes,
                        (size_t)columns);
        ebb_str_addc(out, '\n');
        text = next;
    }
}

/* Panels of one line of the grid, side by side. */
static enum ebb_status write_row(const struct plot_figure *f, size_t first, size_t count, int width,
                                 int height, struct ebb_str *out, struct ebb_error *err)
{
    struct plot_canvas *canvases;
    EBB_TRY(ebb_new(&canvases, count, sizeof *canvases, err));
    enum ebb_status status = EBB_OK;
    int tallest = height;
    for (size_t i = 0; i < count; i++) {
        int rows = is_bars(f->panes[first + i].panel) ? bar_rows(&f->panes[first + i]) : height;
        tallest = i == 0 || rows > tallest ? rows : tallest;
    }
    for (size_t i = 0; i < count && status == EBB_OK; i++) {
        const struct plot_pane *pane = &f->panes[first + i];
        status = plot_canvas_init(&canvases[i], width, tallest, err);
        if (status == EBB_OK && is_bars(pane->panel))
            draw_bar_rows(&canvases[i], pane);
        else if (status == EBB_OK)
            draw_panel(&canvases[i], pane);
    }
    for (int y = 0; y < tallest && status == EBB_OK; y++) {
        for (size_t i = 0; i < count; i++) {
            plot_canvas_row(&canvases[i], y, i + 1 < count, out);
            if (i + 1 < count)
                ebb_str_add(out, "  ");
        }
        ebb_str_addc(out, '\n');
    }
    for (size_t i = 0; i < count; i++)
        plot_canvas_fini(&canvases[i]);
    ebb_free(canvases);
    return status;
}

static size_t count_lines(const struct ebb_str *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->length; i++)
        n += text->data[i] == '\n';
    return n;
}

static enum ebb_status write_page(const struct plot_figure *f, int columns, int rows,
                                  struct ebb_str *out, struct ebb_error *err)
{
    const struct plot_chart *chart = f->chart;
    struct ebb_str legend = {0};
    write_legend(f, columns, &legend);
    write_head(chart->title, columns, 2, out);
    write_head(chart->subtitle, columns, 2, out);
    size_t across = f->columns;
    assert(across > 0 && chart->panel_count > 0); /* plot_figure_init */
    while (across > 1 && columns / (int)across < PANEL_COLUMNS)
        across--;
    size_t down = (chart->panel_count + across - 1) / across;
    int left = rows - (int)count_lines(out) - (int)count_lines(&legend);
    int height = left / (int)down, width = (columns - 2 * ((int)across - 1)) / (int)across;
    height = height < PLOT_ROWS_MIN + 5 ? PLOT_ROWS_MIN + 5 : height;
    enum ebb_status status = EBB_OK;
    for (size_t first = 0; first < chart->panel_count && status == EBB_OK; first += across) {
        size_t count = chart->panel_count - first < across ? chart->panel_count - first : across;
        status = write_row(f, first, count, width, height, out, err);
    }
    ebb_str_add(out, ebb_str_c(&legend));
    out->failed = out->failed || legend.failed;
    ebb_str_fini(&legend);
    return status;
}

enum ebb_status plot_terminal(const struct plot_chart *chart, int columns, int rows,
                              struct ebb_str *out, struct ebb_error *err)
{
    struct plot_figure figure;
    struct ebb_str page = {0};
    if (columns < COLUMNS_MIN || columns > COLUMNS_MAX || rows < 1 || rows > ROWS_MAX)
        return ebb_fail(err, EBB_EINPUT,
                        "plot: a terminal of %d columns and %d rows; allowed: %d to %d and 1 to %d",
                        columns, rows, COLUMNS_MIN, COLUMNS_MAX, ROWS_MAX);
    EBB_TRY(plot_figure_init(&figure, chart, err));
    enum ebb_status status = write_page(&figure, columns, rows, &page, err);
    EBB_THEN(status, ebb_str_status(&page, err));
    if (status == EBB_OK) {
        ebb_str_add(out, ebb_str_c(&page));
        status = ebb_str_status(out, err);
    }
    ebb_str_fini(&page);
    plot_figure_fini(&figure);
    return status;
}
