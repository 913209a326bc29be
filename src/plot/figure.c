/* figure.c - check a chart and make it ready to draw. */
#include "plot/figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

#define POINTS_SHOWN_MAX                                                                           \
    60 /* a step line with more points than this gets no markers: they would touch */
#define PANELS_MAX 1000

/* ---- checks -------------------------------------------------------------------------------- */

static bool needs_y2(enum plot_style style)
{
    return style == PLOT_BAND || style == PLOT_CELLS || style == PLOT_INTERVALS;
}

static bool is_color(const char *text)
{
    return text[0] == '#' && strlen(text) == 7 && strspn(text + 1, "0123456789abcdefABCDEF") == 6;
}

static enum ebb_status check_series(const struct plot_panel *panel, size_t p, size_t i,
                                    struct ebb_error *err)
{
    const struct plot_series *s = &panel->series[i];
    if (s->style > PLOT_SQUARES)
        return ebb_fail(err, EBB_EINPUT, "plot: panel %zu, series %zu: style %d does not exist", p,
                        i, (int)s->style);
    if (s->count > 0 && s->y == NULL)
        return ebb_fail(err, EBB_EINPUT, "plot: panel %zu, series %zu: %zu points without y", p, i,
                        s->count);
    if (s->count > 0 && needs_y2(s->style) && s->y2 == NULL)
        return ebb_fail(err, EBB_EINPUT, "plot: panel %zu, series %zu: its style needs y2", p, i);
    if (s->color != NULL && !is_color(s->color))
        return ebb_fail(err, EBB_EINPUT,
                        "plot: panel %zu, series %zu: colour '%.20s' is not of the form #rrggbb", p,
                        i, s->color);
    return EBB_OK;
}

/* Limits that were never filled in, both 0, are automatic like NaN. */
static double limit(const struct plot_panel *p, bool is_y, bool is_high)
{
    double low = is_y ? p->y_min : p->x_min, high = is_y ? p->y_max : p->x_max;
    return low == 0 && high == 0 ? NAN : is_high ? high : low;
}

static enum ebb_status check_panel(const struct plot_panel *panel, size_t p, struct ebb_error *err)
{
    for (size_t i = 0; i < panel->series_count; i++)
        EBB_TRY(check_series(panel, p, i, err));
    for (size_t i = 0; i < panel->mark_count; i++)
        if (panel->marks[i].color != NULL && !is_color(panel->marks[i].color))
            return ebb_fail(err, EBB_EINPUT,
                            "plot: panel %zu, mark %zu: colour '%.20s' is not of the form #rrggbb",
                            p, i, panel->marks[i].color);
    for (int is_y = 0; is_y < 2; is_y++) {
        double low = limit(panel, is_y, false), high = limit(panel, is_y, true);
        if (isfinite(low) && low >= high)
            return ebb_fail(err, EBB_EINPUT, "plot: panel %zu: an axis ends before it begins", p);
        if ((is_y ? panel->log_y : panel->log_x) && (low <= 0 || high <= 0))
            return ebb_fail(err, EBB_EINPUT,
                            "plot: panel %zu: a logarithmic axis has a limit that is not positive",
                            p);
    }
    return EBB_OK;
}

/* ---- legend and colours ---------------------------------------------------------------------- */

static size_t find_entry(const struct plot_figure *f, const char *name)
{
    for (size_t i = 0; i < f->entry_count; i++)
        if (strcmp(f->entries[i].name, name) == 0)
            return i;
    return PLOT_NO_ENTRY;
}

static bool is_line(enum plot_style style)
{
    return style == PLOT_LINE || style == PLOT_STEP || style == PLOT_LINE_POINTS;
}

/* A name that is a lonely point in one panel and a line in another one is shown as a line. */
static void add_entry(struct plot_figure *f, const struct plot_series *s)
{
    if (s->name == NULL || s->style == PLOT_CELLS || s->style == PLOT_INTERVALS)
        return;
    size_t found = find_entry(f, s->name);
    if (found != PLOT_NO_ENTRY) {
        if (f->entries[found].style == PLOT_POINTS && is_line(s->style)) {
            f->entries[found].style = s->style;
            f->entries[found].is_dashed = s->is_dashed;
        }
        return;
    }
    struct plot_entry *e = &f->entries[f->entry_count];
    *e = (struct plot_entry){.name = s->name, .style = s->style, .is_dashed = s->is_dashed};
    e->marker = (int)(f->entry_count % PLOT_MARKERS);
    plot_known(s->name, &e->color, &e->marker);
    if (s->color != NULL)
        e->color = s->color;
    f->entry_count++;
}

/* Explicit and known colours first: those of other names must not repeat them. */
static enum ebb_status collect_entries(struct plot_figure *f, struct ebb_error *err)
{
    size_t most = 1;
    for (size_t p = 0; p < f->chart->panel_count; p++)
        most += f->chart->panels[p].series_count;
    f->entries = ebb_arena_calloc(&f->arena, most, sizeof *f->entries);
    EBB_TRY(ebb_arena_status(&f->arena, err));
    for (int are_crosses = 0; are_crosses < 2; are_crosses++) /* what failed comes last */
        for (size_t p = 0; p < f->chart->panel_count; p++) {
            const struct plot_panel *panel = &f->chart->panels[p];
            for (size_t i = 0; i < panel->series_count; i++)
                if ((panel->series[i].style == PLOT_CROSSES) == are_crosses)
                    add_entry(f, &panel->series[i]);
        }
    return EBB_OK;
}

static enum ebb_status color_entries(struct plot_figure *f, struct ebb_error *err)
{
    const char **used = ebb_arena_calloc(&f->arena, f->entry_count + 1, sizeof *used);
    size_t used_count = 0, order = 0;
    EBB_TRY(ebb_arena_status(&f->arena, err));
    for (size_t i = 0; i < f->entry_count; i++)
        if (f->entries[i].color != NULL)
            used[used_count++] = f->entries[i].color;
    for (size_t i = 0; i < f->entry_count; i++)
        if (f->entries[i].color == NULL) {
            f->entries[i].color = plot_color_free(used, used_count, order++);
            used[used_count++] = f->entries[i].color;
        }
    return EBB_OK;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static double *copy_doubles(struct ebb_arena *arena, const double *from, size_t count)
{
    double *to = ebb_arena_calloc(arena, count + 1, sizeof *to);
    for (size_t i = 0; to != NULL && i < count; i++)
        to[i] = from != NULL ? from[i] : (double)i; /* no x: 0, 1, 2 ... */
    return to;
}

/* Heights below layer `index` at each of its points: what the earlier series of the same style sum
 * to. */
static enum ebb_status stack_under(const struct plot_pane *pane, size_t index, size_t p,
                                   struct ebb_error *err)
{
    struct plot_layer *top = &pane->layers[index];
    const struct plot_series *s = top->series;
    for (size_t j = 0; j < index; j++) {
        const struct plot_layer *under = &pane->layers[j];
        const struct plot_series *u = under->series;
        if (u->style != s->style)
            continue;
        bool is_same = u->count == s->count;
        for (size_t i = 0; is_same && i < s->count; i++)
            is_same = under->x[i] == top->x[i];
        if (!is_same)
            return ebb_fail(err, EBB_EINPUT,
                            "plot: panel %zu: series %zu and %zu are stacked but differ in x", p, j,
                            index);
        for (size_t i = 0; i < s->count; i++)
            top->low[i] = under->high[i];
    }
    for (size_t i = 0; i < s->count; i++) /* a gap in a stack counts as nothing */
        top->high[i] = top->low[i] + (isfinite(s->y[i]) ? s->y[i] : 0);
    return EBB_OK;
}

static enum ebb_status fill_layer(struct ebb_arena *arena, const struct plot_pane *pane,
                                  size_t index, size_t p, struct ebb_error *err)
{
    struct plot_layer *layer = &pane->layers[index];
    const struct plot_series *s = layer->series;
    bool is_between = s->style == PLOT_BAND || s->style == PLOT_INTERVALS;
    if (s->style != PLOT_AREA && s->style != PLOT_BARS && !is_between)
        return EBB_OK;
    layer->low = ebb_arena_calloc(arena, s->count + 1, sizeof *layer->low);
    layer->high = ebb_arena_calloc(arena, s->count + 1, sizeof *layer->high);
    EBB_TRY(ebb_arena_status(arena, err));
    if (pane->panel->is_stacked && !is_between)
        return stack_under(pane, index, p, err);
    for (size_t i = 0; i < s->count; i++) {
        layer->low[i] = is_between ? s->y[i] : 0;
        layer->high[i] = is_between ? s->y2[i] : s->y[i];
    }
    return EBB_OK;
}

static bool wants_points(const struct plot_series *s)
{
    return s->style == PLOT_POINTS || s->style == PLOT_LINE_POINTS || s->style == PLOT_CROSSES ||
           (s->style == PLOT_STEP && s->count <= POINTS_SHOWN_MAX);
}

static enum ebb_status make_layers(struct plot_figure *f, struct plot_pane *pane, size_t p,
                                   struct ebb_error *err)
{
    const struct plot_panel *panel = pane->panel;
    pane->layers = ebb_arena_calloc(&f->arena, panel->series_count + 1, sizeof *pane->layers);
    EBB_TRY(ebb_arena_status(&f->arena, err));
    for (size_t i = 0; i < panel->series_count; i++) {
        const struct plot_series *s = &panel->series[i];
        struct plot_layer *layer = &pane->layers[i];
        layer->series = s;
        layer->has_points = wants_points(s);
        layer->entry = s->name != NULL ? find_entry(f, s->name) : PLOT_NO_ENTRY;
        layer->marker = (int)(i % PLOT_MARKERS);
        layer->color = plot_color(s->name, i);
        if (layer->entry != PLOT_NO_ENTRY) {
            struct plot_entry *e = &f->entries[layer->entry];
            layer->color = e->color;
            layer->marker = e->marker;
            e->has_points = e->has_points || layer->has_points;
        }
        if (s->color != NULL)
            layer->color = s->color;
        layer->x = copy_doubles(&f->arena, s->x, s->count);
        EBB_TRY(ebb_arena_status(&f->arena, err));
        EBB_TRY(fill_layer(&f->arena, pane, i, p, err));
    }
    return EBB_OK;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b; /* finite, both */
    return (x > y) - (x < y);
}

/* Smallest distance between neighbouring distinct values of the layers of one style; on a log axis,
 * of their logarithms. 1 when there is one value only. */
static enum ebb_status spacing(const struct plot_pane *pane, enum plot_style style, bool is_y,
                               bool is_log, double *out, struct ebb_error *err)
{
    double *values = NULL;
    size_t count = 0, capacity = 0;
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < pane->panel->series_count && status == EBB_OK; i++) {
        const struct plot_layer *layer = &pane->layers[i];
        if (layer->series->style != style)
            continue;
        status = ebb_grow(&values, &capacity, count + layer->series->count, sizeof *values, err);
        for (size_t k = 0; status == EBB_OK && k < layer->series->count; k++) {
            double v = is_y ? layer->series->y[k] : layer->x[k];
            v = is_log ? log10(v) : v;
            if (isfinite(v))
                values[count++] = v;
        }
    }
    *out = 1;
    bool is_found = false;
    if (count > 0)
        qsort(values, count, sizeof *values, by_value);
    for (size_t i = 1; i < count; i++) {
        double d = values[i] - values[i - 1];
        if (d > 1e-12 * fabs(values[i]) && (!is_found || d < *out)) {
            *out = d;
            is_found = true;
        }
    }
    ebb_free(values);
    return status;
}

static enum ebb_status place_bars(struct plot_pane *pane, struct ebb_error *err)
{
    size_t bars = 0, at = 0;
    double slot = 1;
    for (size_t i = 0; i < pane->panel->series_count; i++)
        bars += pane->panel->series[i].style == PLOT_BARS;
    if (bars == 0)
        return EBB_OK;
    if (pane->panel->x_ticks == NULL)
        EBB_TRY(spacing(pane, PLOT_BARS, false, false, &slot, err));
    double width = 0.78 * slot / (pane->panel->is_stacked ? 1 : (double)bars);
    width = !pane->panel->is_stacked && bars == 1 ? 0.62 * slot : width;
    for (size_t i = 0; i < pane->panel->series_count; i++) {
        struct plot_layer *layer = &pane->layers[i];
        if (layer->series->style != PLOT_BARS)
            continue;
        double left =
            pane->panel->is_stacked || bars == 1 ? -width / 2 : -0.39 * slot + (double)at * width;
        layer->bar_left = left;
        layer->bar_right = left + width * (pane->panel->is_stacked || bars == 1 ? 1 : 0.94);
        at++;
    }
    return EBB_OK;
}

static double untransform(double v, bool is_log)
{
    return is_log ? pow(10, v) : v;
}

static double transform(double v, bool is_log)
{
    return is_log ? log10(v) : v;
}

struct extents {
    struct plot_extent x, y, value;
    bool is_exact;   /* bars and cells end where their boxes end */
    bool wants_zero; /* y */
    bool has_points, has_area;
};

static void extend_layer(const struct plot_pane *pane, const struct plot_layer *layer,
                         struct extents *e)
{
    const struct plot_series *s = layer->series;
    const struct plot_panel *panel = pane->panel;
    for (size_t i = 0; i < s->count; i++) {
        double x = layer->x[i];
        if (s->style == PLOT_CELLS) {
            double tx = transform(x, panel->log_x), ty = transform(s->y[i], panel->log_y);
            for (int side = -1; side <= 1; side += 2) {
                plot_extent_add(&e->x, untransform(tx + side * pane->cell_width / 2, panel->log_x),
                                panel->log_x);
                plot_extent_add(&e->y, untransform(ty + side * pane->cell_height / 2, panel->log_y),
                                panel->log_y);
            }
            plot_extent_add(&e->value, s->y2[i], false);
            continue;
        }
        if (s->style == PLOT_BARS) {
            plot_extent_add(&e->x, x + layer->bar_left * 1.25, panel->log_x);
            plot_extent_add(&e->x, x + layer->bar_right * 1.25, panel->log_x);
        } else {
            plot_extent_add(&e->x, x, panel->log_x);
        }
        if (layer->high != NULL) {
            plot_extent_add(&e->y, layer->high[i], panel->log_y);
            if (!panel->log_y || s->style == PLOT_BAND || s->style == PLOT_INTERVALS)
                plot_extent_add(&e->y, layer->low[i], panel->log_y);
        } else {
            plot_extent_add(&e->y, s->y[i], panel->log_y);
        }
    }
    e->is_exact = e->is_exact || s->style == PLOT_CELLS || s->style == PLOT_BARS;
    e->wants_zero = e->wants_zero || s->style == PLOT_AREA || s->style == PLOT_BARS;
    e->has_points = e->has_points || layer->has_points;
    e->has_area = e->has_area || s->style == PLOT_AREA || s->style == PLOT_BAND;
}

/* is_flush: end where the data ends. */
static struct plot_scale range_of(const struct plot_panel *panel, const struct plot_extent *e,
                                  bool is_y, bool is_flush, bool wants_zero)
{
    double low = limit(panel, is_y, false), high = limit(panel, is_y, true);
    if (is_flush && e->count > 0 && e->min < e->max) {
        low = isfinite(low) ? low : e->min;
        high = isfinite(high) ? high : e->max;
    }
    return plot_scale_make(e, is_y ? panel->log_y : panel->log_x, wants_zero, !is_y, low, high);
}

/* Names of categories and lines across the panel want room, too. */
static void extend_panel(const struct plot_panel *panel, struct extents *e)
{
    if (panel->x_ticks != NULL && panel->x_tick_count > 0) {
        plot_extent_add(&e->x, -0.5, false);
        plot_extent_add(&e->x, (double)panel->x_tick_count - 0.5, false);
        e->is_exact = true;
    }
    for (size_t i = 0; i < panel->mark_count; i++) {
        const struct plot_mark *m = &panel->marks[i];
        plot_extent_add(m->is_vertical ? &e->x : &e->y, m->at,
                        m->is_vertical ? panel->log_x : panel->log_y);
    }
}

/* Epochs, updates, ops: more than one place, all of them whole numbers. */
static bool counts_along_x(const struct plot_pane *pane)
{
    bool has_two = false;
    double first = NAN;
    for (size_t i = 0; i < pane->panel->series_count; i++) {
        const struct plot_layer *layer = &pane->layers[i];
        for (size_t k = 0; k < layer->series->count; k++) {
            double x = layer->x[k];
            if (isfinite(x) && x != floor(x))
                return false;
            first = isnan(first) ? x : first;
            has_two |= x != first;
        }
    }
    return has_two;
}

static enum ebb_status find_ranges(struct plot_pane *pane, struct ebb_error *err)
{
    const struct plot_panel *panel = pane->panel;
    struct extents e = {0};
    bool has_cells = false, has_squares = false;
    for (size_t i = 0; i < panel->series_count; i++) {
        has_cells = has_cells || panel->series[i].style == PLOT_CELLS;
        has_squares = has_squares || panel->series[i].style == PLOT_SQUARES;
    }
    if (has_cells) {
        EBB_TRY(spacing(pane, PLOT_CELLS, false, panel->log_x, &pane->cell_width, err));
        EBB_TRY(spacing(pane, PLOT_CELLS, true, panel->log_y, &pane->cell_height, err));
    }
    if (has_squares) {
        EBB_TRY(spacing(pane, PLOT_SQUARES, false, panel->log_x, &pane->square_width, err));
        EBB_TRY(spacing(pane, PLOT_SQUARES, true, panel->log_y, &pane->square_height, err));
    }
    EBB_TRY(place_bars(pane, err));
    for (size_t i = 0; i < panel->series_count; i++)
        extend_layer(pane, &pane->layers[i], &e);
    pane->has_data = e.x.count > 0 && e.y.count > 0;
    extend_panel(panel, &e);
    bool is_flush = e.is_exact || (e.has_area && !e.has_points && !panel->log_x);
    pane->x = range_of(panel, &e.x, false, is_flush, false);
    pane->x.is_whole = counts_along_x(pane);
    pane->y = range_of(panel, &e.y, true, has_cells, e.wants_zero);
    pane->value =
        plot_scale_make(&e.value, false, false, true, e.value.count > 0 ? e.value.min : 0,
                        e.value.count > 0 && e.value.max > e.value.min ? e.value.max : NAN);
    return EBB_OK;
}

/* ---- ticks of cells -------------------------------------------------------------------------- */

#define CELL_TICKS_MAX 16

size_t plot_pane_ticks(const struct plot_pane *pane, bool is_y, size_t target,
                       struct plot_tick ticks[PLOT_TICKS])
{
    size_t count = 0;
    bool is_small = pane->cell_width > 0;
    for (size_t k = 0; k < pane->panel->series_count && is_small; k++) {
        const struct plot_layer *layer = &pane->layers[k];
        is_small = layer->series->style == PLOT_CELLS;
        for (size_t i = 0; i < layer->series->count && is_small; i++) {
            double v = is_y ? layer->series->y[i] : layer->x[i];
            size_t at = 0;
            while (at < count && ticks[at].at < v)
                at++;
            if (!isfinite(plot_scale_place(is_y ? &pane->y : &pane->x, v)) ||
                (at < count && ticks[at].at == v))
                continue;
            is_small = count < CELL_TICKS_MAX && count < 2 * target;
            if (!is_small)
                break;
            memmove(&ticks[at + 1], &ticks[at], (count - at) * sizeof *ticks);
            ticks[at].at = v;
            snprintf(ticks[at].text, sizeof ticks[at].text, "%.6g", v);
            count++;
        }
    }
    return is_small && count > 0 ? count : plot_ticks(is_y ? &pane->y : &pane->x, target, ticks);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static size_t grid_columns(size_t panels, size_t asked)
{
    static const size_t good[] = {1, 1, 2, 3, 2, 3, 3, 4, 4, 3};
    size_t columns = asked > 0 ? asked : panels < 10 ? good[panels] : 4;
    return columns > panels ? panels : columns;
}

static enum ebb_status make_figure(struct plot_figure *f, struct ebb_error *err)
{
    const struct plot_chart *chart = f->chart;
    f->columns = grid_columns(chart->panel_count, chart->columns);
    f->rows = (chart->panel_count + f->columns - 1) / f->columns;
    f->panes = ebb_arena_calloc(&f->arena, chart->panel_count, sizeof *f->panes);
    EBB_TRY(ebb_arena_status(&f->arena, err));
    EBB_TRY(collect_entries(f, err));
    EBB_TRY(color_entries(f, err));
    for (size_t p = 0; p < chart->panel_count; p++) {
        f->panes[p].panel = &chart->panels[p];
        EBB_TRY(make_layers(f, &f->panes[p], p, err));
        EBB_TRY(find_ranges(&f->panes[p], err));
    }
    return EBB_OK;
}

enum ebb_status plot_figure_init(struct plot_figure *figure, const struct plot_chart *chart,
                                 struct ebb_error *err)
{
    *figure = (struct plot_figure){.chart = chart};
    if (chart->panel_count == 0 || chart->panel_count > PANELS_MAX)
        return ebb_fail(err, EBB_EINPUT, "plot: a chart has 1 to %d panels, not %zu", PANELS_MAX,
                        chart->panel_count);
    for (size_t p = 0; p < chart->panel_count; p++)
        EBB_TRY(check_panel(&chart->panels[p], p, err));
    ebb_arena_init(&figure->arena);
    enum ebb_status status = make_figure(figure, err);
    if (status != EBB_OK)
        plot_figure_fini(figure);
    return status;
}

void plot_figure_fini(struct plot_figure *figure)
{
    ebb_arena_fini(&figure->arena);
    *figure = (struct plot_figure){0};
}
