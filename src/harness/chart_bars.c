/* chart_bars.c - results as bars: where time goes by budget or batch size, samples per second by
 * batch size. A panel per model. */
#include "harness/chart_parts.h"

#include <math.h>
#include <string.h>

#define MOST_GROUPS 32 /* bars beside each other, and bars of a batch size */

/* ---- where time goes ------------------------------------------------------------------------ */

/* Parts of the wall clock's time, from the bottom of a bar. */
enum part { MODEL, REMAT, SCORES, SEARCH, MOVES, STALLS, REST, PARTS };
static const struct {
    const char *name, *color;
} parts[PARTS] = {
    [MODEL] = {"model ops", "#0072b2"},   [REMAT] = {"ops again", "#e69f00"},
    [SCORES] = {"scores", "#009e73"},     [SEARCH] = {"making room", "#cc79a7"},
    [MOVES] = {"moves", "#56b4e9"},       [STALLS] = {"waiting for copies", "#882255"},
    [REST] = {"not profiled", "#bbbbbb"},
};

static double value_of(const struct harness_setting *s, enum harness_measure measure)
{
    double v = harness_setting_point(s, measure).value;
    return isfinite(v) && v > 0 ? v : 0;
}

/* Cost is inside search (rule C3); what is left of the wall clock nobody measured. */
static void split(const struct harness_setting *s, double out[PARTS])
{
    double search = value_of(s, HARNESS_SEARCH_TIME), cost = value_of(s, HARNESS_COST_TIME);
    double sum = 0;
    out[MODEL] = value_of(s, HARNESS_BASE_TIME);
    out[REMAT] = value_of(s, HARNESS_REMAT_TIME);
    out[SCORES] = cost < search ? cost : search;
    out[SEARCH] = search - out[SCORES];
    out[MOVES] = value_of(s, HARNESS_MOVE_TIME);
    out[STALLS] = value_of(s, HARNESS_STALL_TIME);
    for (int k = 0; k < REST; k++)
        sum += out[k];
    double wall = value_of(s, HARNESS_TIME);
    out[REST] = wall > sum ? wall - sum : 0;
}

struct group { /* the settings of one panel, in order */
    const struct harness_setting *items[MOST_GROUPS];
    size_t count;
};

static double budget_order(const struct harness_setting *s)
{
    return harness_is_baseline(s) || !(s->memory_budget > 0) ? INFINITY : s->memory_budget;
}

/* Breakdown: largest budget first, the baseline before all; sweeps by batch size, then so. */
static bool is_before(const struct harness_setting *a, const struct harness_setting *b,
                      enum harness_chart kind)
{
    if (kind == HARNESS_CHART_SWEEP && a->batch_size != b->batch_size)
        return a->batch_size < b->batch_size;
    if (harness_is_baseline(a) != harness_is_baseline(b))
        return harness_is_baseline(a);
    if (strcmp(a->type, b->type) != 0)
        return strcmp(a->type, b->type) < 0;
    if (kind == HARNESS_CHART_BREAKDOWN && a->ratio != b->ratio && isfinite(a->ratio) &&
        isfinite(b->ratio))
        return a->ratio > b->ratio;
    return budget_order(a) > budget_order(b);
}

/* Sweeps have baselines of every batch size; other charts the settings that are no sweep. */
static bool belongs(const struct harness_results *r, size_t from, size_t to, size_t i,
                    enum harness_chart kind)
{
    const struct harness_setting *s = &r->settings[i];
    bool is_swept = false;
    for (size_t k = from; k < to; k++)
        is_swept |= harness_is_sweep(&r->settings[k]);
    if (harness_is_baseline(s))
        return kind == HARNESS_CHART_BREAKDOWN ? !is_swept : is_swept;
    return harness_is_sweep(s) == (kind != HARNESS_CHART_BREAKDOWN);
}

static void collect(const struct harness_results *r, size_t from, size_t to,
                    enum harness_chart kind, struct group *g)
{
    g->count = 0;
    for (size_t i = from; i < to; i++) {
        if (!belongs(r, from, to, i, kind) || g->count == MOST_GROUPS)
            continue;
        size_t at = g->count++;
        for (; at > 0 && is_before(&r->settings[i], g->items[at - 1], kind); at--)
            g->items[at] = g->items[at - 1];
        g->items[at] = &r->settings[i];
    }
}

static bool has_types(const struct group *g)
{
    const struct harness_setting *first = NULL;
    for (size_t i = 0; i < g->count; i++) {
        if (harness_is_baseline(g->items[i]))
            continue;
        if (first && !harness_same_type(first, g->items[i]))
            return true;
        first = g->items[i];
    }
    return false;
}

static const char *bar_name(struct ebb_arena *arena, const struct group *g, size_t i,
                            enum harness_chart kind)
{
    const struct harness_setting *s = g->items[i];
    const char *type = has_types(g) ? s->type : "", *gap = *type ? " " : "";
    const char *budget = harness_is_baseline(s) ? "baseline"
                         : isfinite(s->ratio) && s->ratio > 0
                             ? ebb_arena_printf(arena, "%s%s%.3g", type, gap, s->ratio)
                             : ebb_arena_printf(arena, "%s%s%s", type, gap,
                                                harness_budget_text(arena, s->memory_budget));
    return kind == HARNESS_CHART_SWEEP
               ? ebb_arena_printf(arena, "%g, %s", s->batch_size, budget ? budget : "")
               : budget;
}

struct room { /* of one panel, in the arena */
    struct plot_series *series;
    size_t count;
    double *x, *y[PARTS], *low, *high, *fx, *fy;
    const char **names;
};

static enum ebb_status make_room(struct ebb_arena *arena, struct room *m, struct ebb_error *err)
{
    *m = (struct room){0};
    m->series = ebb_arena_calloc(arena, PARTS + MOST_GROUPS * 2 + 2, sizeof *m->series);
    m->names = ebb_arena_calloc(arena, MOST_GROUPS, sizeof *m->names);
    m->x = harness_doubles(arena, MOST_GROUPS);
    m->low = harness_doubles(arena, MOST_GROUPS);
    m->high = harness_doubles(arena, MOST_GROUPS);
    m->fx = harness_doubles(arena, MOST_GROUPS * MOST_GROUPS);
    m->fy = harness_doubles(arena, MOST_GROUPS * MOST_GROUPS);
    for (int k = 0; k < PARTS; k++)
        m->y[k] = harness_doubles(arena, MOST_GROUPS);
    return ebb_arena_status(arena, err);
}

static void add_failures(struct room *m, size_t failed)
{
    if (failed)
        m->series[m->count++] = (struct plot_series){.name = "failed",
                                                     .style = PLOT_CROSSES,
                                                     .x = m->fx,
                                                     .y = m->fy,
                                                     .count = failed,
                                                     .color = "#d62728"};
}

static enum ebb_status fill_parts(struct ebb_arena *arena, const struct group *g,
                                  enum harness_chart kind, struct plot_panel *panel,
                                  struct ebb_error *err)
{
    struct room m;
    size_t failed = 0, measured = 0;
    bool is_used[PARTS] = {false};
    double most = 0;
    EBB_TRY(make_room(arena, &m, err));
    for (size_t i = 0; i < g->count; i++) {
        double split_[PARTS] = {0};
        struct harness_point wall = harness_setting_point(g->items[i], HARNESS_TIME);
        m.x[i] = (double)i;
        m.names[i] = bar_name(arena, g, i, kind);
        most = wall.value > most ? wall.value : most;
        if (!isfinite(wall.value))
            m.fx[failed++] = (double)i;
        else
            split(g->items[i], split_);
        m.low[i] = isfinite(wall.low) ? wall.low : NAN;
        m.high[i] = isfinite(wall.high) ? wall.high : NAN;
        measured += isfinite(wall.value);
        for (int k = 0; k < PARTS; k++) {
            m.y[k][i] = split_[k];
            is_used[k] |= split_[k] > 0;
        }
    }
    for (size_t i = 0; i < failed; i++)
        m.fy[i] = 0.03 * (most > 0 ? most : 1);
    for (int k = 0; k < PARTS; k++)
        if (is_used[k])
            m.series[m.count++] = (struct plot_series){.name = parts[k].name,
                                                       .style = PLOT_BARS,
                                                       .x = m.x,
                                                       .y = m.y[k],
                                                       .count = g->count,
                                                       .color = parts[k].color};
    m.series[m.count++] = (struct plot_series){.style = PLOT_INTERVALS,
                                               .x = m.x,
                                               .y = m.low,
                                               .y2 = m.high,
                                               .count = g->count,
                                               .color = "#222222"};
    add_failures(&m, failed);
    *panel = (struct plot_panel){.title = g->items[0]->model,
                                 .x_label = kind == HARNESS_CHART_SWEEP ? "batch size, budget"
                                            : isfinite(g->items[g->count - 1]->ratio) &&
                                                    g->items[g->count - 1]->ratio > 0
                                                ? "budget, part of the baseline's peak"
                                                : "budget",
                                 .y_label = "ms per repetition",
                                 .series = m.series,
                                 .series_count = m.count,
                                 .is_stacked = true,
                                 .x_ticks = m.names,
                                 .x_tick_count = g->count};
    return measured || failed ? ebb_arena_status(arena, err) : EBB_OK;
}

/* ---- samples per second --------------------------------------------------------------------- */

static size_t place_of(double *list, size_t *count, double value)
{
    size_t at = 0;
    while (at < *count && list[at] < value)
        at++;
    if (at < *count && list[at] == value)
        return at;
    memmove(&list[at + 1], &list[at], (*count - at) * sizeof *list);
    list[at] = value;
    ++*count;
    return at;
}

/* Throughput as published for baselines and sweeps, else worked out. */
static struct harness_point throughput(const struct harness_setting *s)
{
    struct harness_point p = harness_setting_point(s, HARNESS_THROUGHPUT);
    struct harness_point time = harness_setting_point(s, HARNESS_GPU_TIME);
    if (isfinite(p.value) || !(time.value > 0))
        return p;
    double one = s->batch_size * 1000;
    return (struct harness_point){one / time.value, one / time.high, one / time.low};
}

static enum ebb_status fill_throughput(struct ebb_arena *arena, const struct group *g,
                                       struct plot_panel *panel, struct ebb_error *err)
{
    double sizes[MOST_GROUPS + 1];
    const char *names[MOST_GROUPS];
    size_t size_count = 0, name_count = 0, failed = 0;
    struct room m;
    EBB_TRY(make_room(arena, &m, err));
    for (size_t i = 0; i < g->count; i++) {
        const char *name = bar_name(arena, g, i, HARNESS_CHART_THROUGHPUT);
        size_t k = 0;
        while (name && k < name_count && strcmp(names[k], name) != 0)
            k++;
        if (name && k == name_count)
            names[name_count++] = name;
        place_of(sizes, &size_count, g->items[i]->batch_size);
    }
    EBB_TRY(ebb_arena_status(arena, err));
    for (size_t k = 0; k < name_count; k++) {
        double *x = harness_doubles(arena, size_count), *y = harness_doubles(arena, size_count),
               *low = harness_doubles(arena, size_count),
               *high = harness_doubles(arena, size_count);
        EBB_TRY(ebb_arena_status(arena, err));
        for (size_t b = 0; b < size_count; b++) {
            x[b] = (double)b;
            y[b] = low[b] = high[b] = NAN;
            for (size_t i = 0; i < g->count; i++) {
                const char *name = bar_name(arena, g, i, HARNESS_CHART_THROUGHPUT);
                if (g->items[i]->batch_size != sizes[b] || !name || strcmp(name, names[k]) != 0)
                    continue;
                struct harness_point p = throughput(g->items[i]);
                y[b] = p.value;
                low[b] = p.low;
                high[b] = p.high;
                if (isfinite(p.value))
                    continue;
                m.fx[failed] = (double)b - 0.39 + 0.78 * ((double)k + 0.5) / (double)name_count;
                m.fy[failed++] = 0;
            }
        }
        m.series[m.count++] = (struct plot_series){
            .name = names[k], .style = PLOT_BARS, .x = x, .y = y, .count = size_count};
        m.series[m.count++] = (struct plot_series){.name = names[k],
                                                   .style = PLOT_INTERVALS,
                                                   .x = x,
                                                   .y = low,
                                                   .y2 = high,
                                                   .count = size_count};
    }
    add_failures(&m, failed);
    for (size_t b = 0; b < size_count; b++)
        m.names[b] = ebb_arena_printf(arena, "%g", sizes[b]);
    *panel = (struct plot_panel){.title = g->items[0]->model,
                                 .x_label = "batch size",
                                 .y_label = "samples per second",
                                 .series = m.series,
                                 .series_count = m.count,
                                 .x_ticks = m.names,
                                 .x_tick_count = size_count};
    return ebb_arena_status(arena, err);
}

enum ebb_status harness_chart_bars(struct ebb_arena *arena, const struct harness_charts *w,
                                   enum harness_chart kind, struct plot_chart *chart,
                                   struct ebb_error *err)
{
    static const char *const titles[HARNESS_CHARTS] = {NULL, "Where the time goes, by budget",
                                                       "Throughput by batch size",
                                                       "Where the time goes, by batch size"};
    const struct harness_results *r = w->results;
    struct plot_panel *panels = ebb_arena_calloc(arena, r->count + 1, sizeof *panels);
    struct group *g = ebb_arena_calloc(arena, 1, sizeof *g);
    size_t count = 0;
    EBB_TRY(ebb_arena_status(arena, err));
    for (size_t from = 0; from < r->count; from = harness_model_end(r, from)) {
        collect(r, from, harness_model_end(r, from), kind, g);
        bool has_trial = false;
        for (size_t i = 0; i < g->count; i++)
            has_trial |= !harness_is_baseline(g->items[i]);
        if (!has_trial)
            continue;
        EBB_TRY(kind == HARNESS_CHART_THROUGHPUT ? fill_throughput(arena, g, &panels[count], err)
                                                 : fill_parts(arena, g, kind, &panels[count], err));
        count++;
    }
    chart->title = titles[kind];
    chart->panels = panels;
    chart->panel_count = count;
    chart->shared_legend = count > 1 && kind != HARNESS_CHART_THROUGHPUT;
    return EBB_OK;
}
