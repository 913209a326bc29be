/* chart_bars.c - results as bars: where time goes by budget or batch size, samples per second by
 * batch size. A panel per model. */
#include "harness/chart_parts.h"

#include <math.h>
#include <string.h>

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
    const struct harness_setting **items;
    const char **names; /* of their bars */
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
static bool belongs(const struct harness_setting *s, bool is_swept, enum harness_chart kind)
{
    if (harness_is_baseline(s))
        return kind == HARNESS_CHART_BREAKDOWN ? !is_swept : is_swept;
    return harness_is_sweep(s) == (kind != HARNESS_CHART_BREAKDOWN);
}

static void collect(const struct harness_results *r, size_t from, size_t to,
                    enum harness_chart kind, struct group *g)
{
    bool is_swept = false;
    for (size_t i = from; i < to; i++)
        is_swept |= harness_is_sweep(&r->settings[i]);
    g->count = 0;
    for (size_t i = from; i < to; i++) {
        if (!belongs(&r->settings[i], is_swept, kind))
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

static const char *batch_text(struct ebb_arena *arena, double size)
{
    return isnan(size) ? "-" : ebb_arena_printf(arena, "%g", size);
}

static const char *bar_name(struct ebb_arena *arena, const struct harness_setting *s,
                            const char *type, enum harness_chart kind)
{
    const char *gap = *type ? " " : "";
    const char *budget = harness_is_baseline(s) ? "baseline"
                         : isfinite(s->ratio) && s->ratio > 0
                             ? ebb_arena_printf(arena, "%s%s%.3g", type, gap, s->ratio)
                             : ebb_arena_printf(arena, "%s%s%s", type, gap,
                                                harness_budget_text(arena, s->memory_budget));
    return kind == HARNESS_CHART_SWEEP
               ? ebb_arena_printf(arena, "%s, %s", batch_text(arena, s->batch_size),
                                  budget ? budget : "")
               : budget;
}

static enum ebb_status name_bars(struct ebb_arena *arena, struct group *g, enum harness_chart kind,
                                 struct ebb_error *err)
{
    bool is_mixed = has_types(g);
    for (size_t i = 0; i < g->count; i++)
        g->names[i] = bar_name(arena, g->items[i], is_mixed ? g->items[i]->type : "", kind);
    return ebb_arena_status(arena, err);
}

struct room { /* of one panel, in the arena */
    struct plot_series *series;
    size_t count;
    double *x, *y[PARTS], *low, *high, *fx, *fy;
    const char **names;
};

/* For `bars` bars beside each other, or in so many rows. */
static enum ebb_status make_room(struct ebb_arena *arena, size_t bars, struct room *m,
                                 struct ebb_error *err)
{
    *m = (struct room){0};
    m->series = ebb_arena_calloc(arena, PARTS + 2 * bars + 2, sizeof *m->series);
    m->names = ebb_arena_calloc(arena, bars + 1, sizeof *m->names);
    m->x = harness_doubles(arena, bars);
    m->low = harness_doubles(arena, bars);
    m->high = harness_doubles(arena, bars);
    m->fx = harness_doubles(arena, bars);
    m->fy = harness_doubles(arena, bars);
    for (int k = 0; k < PARTS; k++)
        m->y[k] = harness_doubles(arena, bars);
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
    size_t failed = 0;
    bool is_used[PARTS] = {false};
    double most = 0;
    EBB_TRY(make_room(arena, g->count, &m, err));
    for (size_t i = 0; i < g->count; i++) {
        double split_[PARTS] = {0};
        struct harness_point wall = harness_setting_point(g->items[i], HARNESS_TIME);
        m.x[i] = (double)i;
        m.names[i] = g->names[i];
        most = wall.value > most ? wall.value : most;
        if (!isfinite(wall.value))
            m.fx[failed++] = (double)i;
        else
            split(g->items[i], split_);
        m.low[i] = isfinite(wall.low) ? wall.low : NAN;
        m.high[i] = isfinite(wall.high) ? wall.high : NAN;
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
    return EBB_OK;
}

/* ---- samples per second --------------------------------------------------------------------- */

#define MOST_BARS 100000 /* of a panel */

static bool is_same_size(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Sizes in order, each once; one that nobody told comes last. */
static size_t list_sizes(const struct group *g, double *sizes)
{
    size_t count = 0;
    for (size_t i = 0; i < g->count; i++) {
        double size = g->items[i]->batch_size;
        size_t at = 0;
        while (at < count && (sizes[at] < size || (isnan(size) && !isnan(sizes[at]))))
            at++;
        if (at < count && is_same_size(sizes[at], size))
            continue;
        memmove(&sizes[at + 1], &sizes[at], (count - at) * sizeof *sizes);
        sizes[at] = size;
        count++;
    }
    return count;
}

static size_t list_names(const struct group *g, const char **names)
{
    size_t count = 0;
    for (size_t i = 0; i < g->count; i++) {
        size_t k = 0;
        while (k < count && strcmp(names[k], g->names[i]) != 0)
            k++;
        if (k == count)
            names[count++] = g->names[i];
    }
    return count;
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

struct bars { /* of one name, one per batch size */
    double *x, *y, *low, *high;
};

static enum ebb_status make_bars(struct ebb_arena *arena, size_t count, struct bars *b,
                                 struct ebb_error *err)
{
    *b = (struct bars){harness_doubles(arena, count), harness_doubles(arena, count),
                       harness_doubles(arena, count), harness_doubles(arena, count)};
    EBB_TRY(ebb_arena_status(arena, err));
    for (size_t i = 0; i < count; i++) {
        b->x[i] = (double)i;
        b->y[i] = b->low[i] = b->high[i] = NAN;
    }
    return EBB_OK;
}

static enum ebb_status fill_throughput(struct ebb_arena *arena, const struct group *g,
                                       struct plot_panel *panel, struct ebb_error *err)
{
    struct room m;
    size_t failed = 0;
    EBB_TRY(make_room(arena, g->count, &m, err));
    const char **names = m.names;
    double *sizes = m.x;
    size_t size_count = list_sizes(g, sizes), name_count = list_names(g, names);
    if (name_count > MOST_BARS / size_count)
        return ebb_fail(
            err, EBB_EINPUT,
            "model %s: %zu budgets with %zu batch sizes are more bars than a chart holds",
            g->items[0]->model, name_count, size_count);
    for (size_t k = 0; k < name_count; k++) {
        struct bars bars;
        EBB_TRY(make_bars(arena, size_count, &bars, err));
        for (size_t i = 0; i < g->count; i++) {
            size_t b = 0;
            if (strcmp(g->names[i], names[k]) != 0)
                continue;
            while (!is_same_size(sizes[b], g->items[i]->batch_size))
                b++;
            struct harness_point p = throughput(g->items[i]);
            bars.y[b] = p.value;
            bars.low[b] = p.low;
            bars.high[b] = p.high;
            if (isfinite(p.value))
                continue;
            m.fx[failed] = (double)b - 0.39 + 0.78 * ((double)k + 0.5) / (double)name_count;
            m.fy[failed++] = 0;
        }
        m.series[m.count++] = (struct plot_series){
            .name = names[k], .style = PLOT_BARS, .x = bars.x, .y = bars.y, .count = size_count};
        m.series[m.count++] = (struct plot_series){.name = names[k],
                                                   .style = PLOT_INTERVALS,
                                                   .x = bars.x,
                                                   .y = bars.low,
                                                   .y2 = bars.high,
                                                   .count = size_count};
    }
    add_failures(&m, failed);
    const char **ticks = ebb_arena_calloc(arena, size_count + 1, sizeof *ticks);
    for (size_t b = 0; ticks && b < size_count; b++)
        ticks[b] = batch_text(arena, sizes[b]);
    *panel = (struct plot_panel){.title = g->items[0]->model,
                                 .x_label = "batch size",
                                 .y_label = "samples per second",
                                 .series = m.series,
                                 .series_count = m.count,
                                 .x_ticks = ticks,
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
    struct group g = {.items = ebb_arena_calloc(arena, r->count + 1, sizeof *g.items)};
    size_t count = 0;
    EBB_TRY(ebb_arena_status(arena, err));
    for (size_t from = 0; from < r->count; from = harness_model_end(r, from)) {
        collect(r, from, harness_model_end(r, from), kind, &g);
        g.names = ebb_arena_calloc(arena, g.count + 1, sizeof *g.names);
        EBB_TRY(ebb_arena_status(arena, err));
        bool has_trial = false;
        for (size_t i = 0; i < g.count; i++)
            has_trial |= !harness_is_baseline(g.items[i]);
        if (!has_trial)
            continue;
        EBB_TRY(name_bars(arena, &g, kind, err));
        EBB_TRY(kind == HARNESS_CHART_THROUGHPUT
                    ? fill_throughput(arena, &g, &panels[count], err)
                    : fill_parts(arena, &g, kind, &panels[count], err));
        count++;
    }
    chart->title = titles[kind];
    chart->panels = panels;
    chart->panel_count = count;
    chart->shared_legend = count > 1 && kind != HARNESS_CHART_THROUGHPUT;
    return EBB_OK;
}
