/* chart.c - see chart.h: which charts there are; slowdown by ratio. */
#include "harness/chart_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *harness_chart_name(enum harness_chart kind)
{
    static const char *const names[HARNESS_CHARTS] = {"slowdown", "breakdown", "throughput",
                                                      "sweep"};
    return names[kind];
}

/* ---- what charts share ---------------------------------------------------------------------- */

bool harness_is_sweep(const struct harness_setting *s)
{
    return strcmp(s->kind, "param_sweep") == 0;
}

/* "dtr", or the policy or planner. */
bool harness_same_type(const struct harness_setting *a, const struct harness_setting *b)
{
    return strcmp(a->type, b->type) == 0;
}

double *harness_doubles(struct ebb_arena *arena, size_t count)
{
    double *list = ebb_arena_calloc(arena, count + 1, sizeof *list);
    return list;
}

const char *harness_budget_text(struct ebb_arena *arena, double bytes)
{
    if (!(bytes > 0))
        return "no limit";
    if (bytes >= 1e8)
        return ebb_arena_printf(arena, "%.4g GB", bytes / 1e9);
    return bytes >= 1e6 ? ebb_arena_printf(arena, "%.4g MB", bytes / 1e6)
                        : ebb_arena_printf(arena, "%.4g kB", bytes / 1e3);
}

/* ---- slowdown by ratio ---------------------------------------------------------------------- */

#define MOST_SLOWDOWN 2.0  /* published figures end there */
#define LEAST_SLOWDOWN 0.7 /* a wide interval below it is cut */

static bool is_point(const struct harness_results *r, const struct harness_setting *s)
{
    double ratio = harness_setting_ratio(r, s);
    return !harness_is_baseline(s) && !harness_is_sweep(s) && isfinite(ratio) && ratio > 0;
}

/* One model under one way to keep budgets. */
struct line {
    const struct harness_results *results;
    size_t from, to; /* settings of the model */
    const char *type;
};

static bool is_on(const struct line *l, size_t i)
{
    const struct harness_setting *s = &l->results->settings[i];
    return is_point(l->results, s) && strcmp(s->type, l->type) == 0;
}

struct drawing {
    struct ebb_arena *arena;
    struct plot_series *series;
    size_t count, capacity, failures, above;
    double bottom, top; /* of the panel */
};

/* Nothing happens when memory is out, which the arena knows. */
static void add_series(struct drawing *d, struct plot_series series)
{
    if (d->count == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : 32;
        struct plot_series *more = ebb_arena_calloc(d->arena, capacity, sizeof *more);
        if (!more)
            return;
        if (d->count)
            memcpy(more, d->series, d->count * sizeof *more);
        d->series = more;
        d->capacity = capacity;
    }
    d->series[d->count++] = series;
}

/* By ratio: the order of a file is free. */
static void sort_points(double *x, double *y, double *low, double *high, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && x[k] < x[k - 1]; k--) {
            double *lists[] = {x, y, low, high};
            for (size_t j = 0; j < 4; j++) {
                double t = lists[j][k];
                lists[j][k] = lists[j][k - 1];
                lists[j][k - 1] = t;
            }
        }
}

static enum ebb_status add_line(struct drawing *d, const struct line *l, const char *name,
                                const char *color, bool is_reference, struct ebb_error *err)
{
    size_t most = l->to - l->from, n = 0, failed = 0;
    double *x = harness_doubles(d->arena, most), *y = harness_doubles(d->arena, most),
           *low = harness_doubles(d->arena, most), *high = harness_doubles(d->arena, most),
           *fx = harness_doubles(d->arena, most), *fy = harness_doubles(d->arena, most);
    EBB_TRY(ebb_arena_status(d->arena, err));
    for (size_t i = l->from; i < l->to; i++) {
        if (!is_on(l, i))
            continue;
        const struct harness_setting *s = &l->results->settings[i];
        struct harness_point p = harness_slowdown(l->results, s);
        double ratio = harness_setting_ratio(l->results, s);
        if (!isfinite(p.value)) {
            fx[failed++] = ratio;
            continue;
        }
        d->above += p.value > MOST_SLOWDOWN;
        x[n] = ratio;
        y[n] = p.value;
        low[n] = isfinite(p.low) ? p.low : p.value;
        high[n++] = isfinite(p.high) ? p.high : p.value;
    }
    sort_points(x, y, low, high, n);
    for (size_t i = 0; i < failed; i++) /* one row of crosses for each line, under the edge */
        fy[i] = d->top - 0.035 * (d->top - d->bottom) * (1 + (double)d->failures);
    d->failures += failed > 0 && !is_reference;
    add_series(d, (struct plot_series){.name = name,
                                       .style = PLOT_LINE_POINTS,
                                       .x = x,
                                       .y = y,
                                       .count = n,
                                       .color = color,
                                       .is_dashed = is_reference});
    add_series(d, (struct plot_series){.name = name,
                                       .style = PLOT_INTERVALS,
                                       .x = x,
                                       .y = low,
                                       .y2 = high,
                                       .count = n,
                                       .color = color});
    if (!is_reference)
        add_series(d,
                   (struct plot_series){
                       .style = PLOT_CROSSES, .x = fx, .y = fy, .count = failed, .color = color});
    return ebb_arena_status(d->arena, err);
}

/* From the lowest to the highest interval of all lines; the panels of a chart share them. */
static void find_range(const struct harness_charts *w, double *bottom, double *top)
{
    *bottom = 0.98;
    *top = 1.13;
    for (size_t k = 0; k <= w->reference_count; k++) {
        const struct harness_results *r = k == 0 ? w->results : &w->references[k - 1];
        for (size_t i = 0; i < r->count; i++) {
            struct harness_point p = harness_slowdown(r, &r->settings[i]);
            if (!is_point(r, &r->settings[i]) || !isfinite(p.value))
                continue;
            *top = fmax(*top, fmax(p.value, p.high));
            *bottom = fmin(*bottom, fmin(p.value, fmax(p.low, LEAST_SLOWDOWN)));
        }
    }
    *top = *top < MOST_SLOWDOWN ? *top * 1.06 : MOST_SLOWDOWN * 1.03;
    *bottom -= 0.04 * (*top - *bottom);
}

/* Ways to keep a budget among settings from..to-1, each once; `types` has room for all. */
static size_t list_types(const struct harness_results *r, size_t from, size_t to,
                         const char **types)
{
    size_t count = 0;
    for (size_t i = from; i < to; i++) {
        bool is_new = is_point(r, &r->settings[i]);
        for (size_t k = 0; k < count && is_new; k++)
            is_new = strcmp(types[k], r->settings[i].type) != 0;
        if (is_new)
            types[count++] = r->settings[i].type;
    }
    return count;
}

/* Lines of one panel: of one model (every type), or of all models (one type). */
struct scope {
    const struct harness_charts *what;
    const char *model; /* NULL: all */
    const char *const *types;
    size_t type_count;
};

static enum ebb_status add_reference(struct drawing *d, const struct scope *s, const char *model,
                                     const char *color, const struct harness_results *r,
                                     struct ebb_error *err)
{
    const char **types = ebb_arena_calloc(d->arena, r->count + 1, sizeof *types);
    const char *name = s->model ? "published" : ebb_arena_printf(d->arena, "%s, published", model);
    EBB_TRY(ebb_arena_status(d->arena, err));
    for (size_t from = 0, to; from < r->count; from = to) {
        to = harness_model_end(r, from);
        if (!harness_same_model(r->settings[from].model, model))
            continue;
        size_t count = list_types(r, from, to, types);
        for (size_t t = 0; t < count; t++) {
            struct line line = {r, from, to, types[t]};
            EBB_TRY(add_line(d, &line, name, color, true, err));
        }
    }
    return EBB_OK;
}

static enum ebb_status fill_slowdown(struct ebb_arena *arena, const struct scope *s,
                                     struct plot_panel *panel, size_t *above, struct ebb_error *err)
{
    const struct harness_results *r = s->what->results;
    struct drawing d = {.arena = arena};
    find_range(s->what, &d.bottom, &d.top);
    size_t order = 0;
    for (size_t from = 0; from < r->count; from = harness_model_end(r, from)) {
        const char *model = r->settings[from].model;
        size_t to = harness_model_end(r, from);
        if (s->model && strcmp(s->model, model) != 0)
            continue;
        for (size_t t = 0; t < s->type_count; t++) {
            struct line line = {r, from, to, s->types[t]};
            const char *name = s->model ? s->types[t] : model;
            EBB_TRY(add_line(&d, &line, name, plot_color(name, order++), false, err));
        }
        const char *color = s->model ? "#555555" : plot_color(model, order - 1);
        for (size_t k = 0; k < s->what->reference_count; k++)
            EBB_TRY(add_reference(&d, s, model, color, &s->what->references[k], err));
    }
    double left = INFINITY, right = -INFINITY;
    for (size_t i = 0; i < d.count; i++)
        for (size_t k = 0; k < d.series[i].count; k++) {
            left = fmin(left, d.series[i].x[k]);
            right = fmax(right, d.series[i].x[k]);
        }
    double edge = right > left ? 0.04 * (right - left) /* points keep off the axes */
                               : 0.1 * fmax(1, fabs(left));
    struct plot_mark *one = ebb_arena_calloc(arena, 1, sizeof *one);
    if (one)
        *one = (struct plot_mark){.at = 1, .is_dashed = true, .label = "baseline"};
    if (d.failures)
        add_series(
            &d, (struct plot_series){.name = "failed", .style = PLOT_CROSSES, .color = "#555555"});
    *panel = (struct plot_panel){.title = s->model,
                                 .x_label = "budget, part of the baseline's peak",
                                 .y_label = "time over the baseline's",
                                 .series = d.series,
                                 .series_count = d.count,
                                 .marks = one,
                                 .mark_count = one != NULL,
                                 .x_min = left <= right ? left - edge : NAN,
                                 .x_max = left <= right ? right + edge : NAN,
                                 .y_min = d.bottom,
                                 .y_max = d.top};
    *above += d.above;
    return ebb_arena_status(arena, err);
}

static enum ebb_status make_slowdown(struct ebb_arena *arena, const struct harness_charts *w,
                                     struct plot_chart *chart, struct ebb_error *err)
{
    const char **types = ebb_arena_calloc(arena, w->results->count + 1, sizeof *types);
    struct plot_panel *panels = ebb_arena_calloc(arena, w->results->count + 1, sizeof *panels);
    EBB_TRY(ebb_arena_status(arena, err));
    size_t type_count = list_types(w->results, 0, w->results->count, types), panel_count = 0,
           above = 0;
    struct scope s = {.what = w, .types = types, .type_count = type_count};
    if (type_count == 0)
        return EBB_OK;
    for (size_t i = 0; i < w->results->count && type_count > 1;
         i = harness_model_end(w->results, i)) {
        s.model = w->results->settings[i].model;
        EBB_TRY(fill_slowdown(arena, &s, &panels[panel_count++], &above, err));
    }
    if (type_count == 1)
        EBB_TRY(fill_slowdown(arena, &s, &panels[panel_count++], &above, err));
    chart->title = type_count == 1 ? ebb_arena_printf(arena, "Slowdown by budget, %s", types[0])
                                   : "Slowdown by budget";
    chart->panels = panels;
    chart->panel_count = panel_count;
    chart->shared_legend = panel_count > 1;
    if (above)
        chart->subtitle = ebb_arena_printf(arena, "%s; %zu points above %g are not shown",
                                           chart->subtitle, above, MOST_SLOWDOWN);
    return ebb_arena_status(arena, err);
}

/* ---- all ------------------------------------------------------------------------------------ */

enum ebb_status harness_chart_make(struct ebb_arena *arena, const struct harness_charts *w,
                                   enum harness_chart kind, struct plot_chart *chart,
                                   struct ebb_error *err)
{
    const struct harness_results *r = w->results;
    *chart = (struct plot_chart){.subtitle = w->subtitle};
    if (!chart->subtitle)
        chart->subtitle = ebb_arena_printf(arena, "%s%s%s: medians, intervals of 95 %%",
                                           r->file ? r->file : "results", r->timestamp ? ", " : "",
                                           r->timestamp ? r->timestamp : "");
    EBB_TRY(ebb_arena_status(arena, err));
    return kind == HARNESS_CHART_SLOWDOWN ? make_slowdown(arena, w, chart, err)
                                          : harness_chart_bars(arena, w, kind, chart, err);
}
