/* charts.c - see charts.h. Colours go from the good trials (dark) to the bad ones (light), so the
 * eye finds what matters; the best few have names, the best its own colour. */
#include "cli/charts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "cli/show.h"
#include "plot/plot.h"

#define CURVES_MAX 60
#define NAMED_MAX 5
#define BEST_COLOR "#d55e00"
#define AXES_MAX 12
#define LINES_MAX 500

/* ---- learning curves ---- */

struct curves {
    struct ebb_arena arena;
    const struct ebb_doc_node *experiment, *sample; /* answers */
    struct plot_series *series;
    size_t count, trial_count;
    bool has_lines; /* some trial has more than one validation */
};

static bool curve_of(struct curves *c, const struct ebb_doc_node *trial, struct plot_series *out)
{
    const struct ebb_doc_node *data = ebb_doc_get(trial, "data");
    if (data == NULL || data->kind != EBB_DOC_LIST || data->count == 0)
        return false;
    double *x = ebb_arena_calloc(&c->arena, data->count, sizeof *x);
    double *y = ebb_arena_calloc(&c->arena, data->count, sizeof *y);
    if (x == NULL || y == NULL)
        return false;
    bool has_any = false;
    for (size_t i = 0; i < data->count; i++) {
        x[i] = ebb_doc_double(data->items[i], "batches", (double)i);
        y[i] = cli_metric(ebb_doc_get(data->items[i], "value"));
        if (!isfinite(y[i]))
            y[i] = NAN;
        has_any = has_any || isfinite(y[i]);
    }
    *out = (struct plot_series){
        .style = data->count == 1 ? PLOT_POINTS : PLOT_LINE, .x = x, .y = y, .count = data->count};
    return has_any;
}

/* The best few have names; beside curves, a trial with one validation only if it is the best. */
static bool is_named(const struct curves *c, const struct plot_series *s, size_t rank)
{
    return rank == 0 || (rank < NAMED_MAX && (s->count > 1 || !c->has_lines));
}

/* The others that were stopped after their first validation, as one cloud of points. */
static enum ebb_status add_single(struct curves *c, const struct ebb_doc_node *trials, size_t n,
                                  struct ebb_error *err)
{
    double *x = ebb_arena_calloc(&c->arena, n + 1, sizeof *x);
    double *y = ebb_arena_calloc(&c->arena, n + 1, sizeof *y);
    size_t count = 0;
    EBB_TRY(ebb_arena_status(&c->arena, err));
    for (size_t i = 0; i < n; i++) {
        struct plot_series s;
        if (!curve_of(c, trials->items[i], &s) || s.count != 1 || is_named(c, &s, i))
            continue;
        x[count] = s.x[0];
        y[count++] = s.y[0];
    }
    if (count > 0)
        c->series[c->count++] = (struct plot_series){.name = "stopped after one validation",
                                                     .style = PLOT_POINTS,
                                                     .x = x,
                                                     .y = y,
                                                     .count = count,
                                                     .color = "#9bbfae"};
    c->trial_count += count;
    return EBB_OK;
}

/* Series of the trials, the best last so that it lies on top. */
static enum ebb_status curves_load(struct curves *c, struct cli_master *m, int64_t id,
                                   struct ebb_error *err)
{
    struct ebb_str target = {0};
    *c = (struct curves){0};
    ebb_arena_init(&c->arena);
    EBB_TRY(cli_get(m, &c->experiment, err, "/experiments/%lld", (long long)id));
    const char *metric = ebb_doc_string(c->experiment, "metric", "");
    ebb_str_printf(&target, "/experiments/%lld/trials-sample?max_trials=%d&metric=", (long long)id,
                   CURVES_MAX);
    serve_http_escape(&target, metric);
    enum ebb_status status = cli_get(m, &c->sample, err, "%s", ebb_str_c(&target));
    ebb_str_fini(&target);
    EBB_TRY(status);
    const struct ebb_doc_node *trials = ebb_doc_get(c->sample, "trials");
    size_t n = trials != NULL && trials->kind == EBB_DOC_LIST ? trials->count : 0;
    c->series = ebb_arena_calloc(&c->arena, n + 2, sizeof *c->series);
    EBB_TRY(ebb_arena_status(&c->arena, err));
    for (size_t i = 0; i < n; i++) {
        const struct ebb_doc_node *data = ebb_doc_get(trials->items[i], "data");
        c->has_lines |= data != NULL && data->kind == EBB_DOC_LIST && data->count > 1;
    }
    EBB_TRY(add_single(c, trials, n, err));
    for (size_t i = n; i-- > 0;) { /* the answer has the best first */
        struct plot_series s;
        if (!curve_of(c, trials->items[i], &s) || (s.count == 1 && !is_named(c, &s, i)))
            continue;
        s.color = i == 0 ? BEST_COLOR : plot_scale_color(1 - (double)i / (double)n);
        if (is_named(c, &s, i)) {
            s.style = s.count == 1 ? PLOT_POINTS : PLOT_LINE_POINTS;
            s.name = ebb_arena_printf(&c->arena, "%strial %lld", i == 0 ? "best: " : "",
                                      (long long)ebb_doc_int(trials->items[i], "trial_id", 0));
        }
        c->series[c->count++] = s;
        c->trial_count++;
    }
    return EBB_OK;
}

/* Losses over more than an order of magnitude are read on a logarithmic axis. */
static bool is_wide(double low, double high)
{
    return low > 0 && high > 20 * low;
}

static bool wants_log(const struct curves *c)
{
    double low = INFINITY, high = 0;
    for (size_t s = 0; s < c->count; s++)
        for (size_t i = 0; i < c->series[s].count; i++) {
            double y = c->series[s].y[i];
            if (isnan(y))
                continue;
            low = y < low ? y : low;
            high = y > high ? y : high;
        }
    return is_wide(low, high);
}

static struct plot_panel curves_panel(const struct curves *c)
{
    return (struct plot_panel){
        .x_label = "batches",
        .y_label = ebb_doc_string(c->experiment, "metric", ""),
        .series = c->series,
        .series_count = c->count,
        .log_y = wants_log(c),
    };
}

enum ebb_status cli_charts_terminal(struct cli_master *m, int64_t id, int columns, int rows,
                                    struct ebb_str *out, struct ebb_error *err)
{
    struct curves c;
    enum ebb_status status = curves_load(&c, m, id, err);
    if (status == EBB_OK && c.count > 0) {
        /* Text has no shades: the best few are enough. */
        size_t skip = c.count > 5 ? c.count - 5 : 0;
        struct plot_panel panel = curves_panel(&c);
        panel.series += skip;
        panel.series_count -= skip;
        struct plot_chart chart = {.title = "learning curves", .panels = &panel, .panel_count = 1};
        status = plot_terminal(&chart, columns, rows, out, err);
    }
    ebb_arena_fini(&c.arena);
    return status;
}

/* ---- parallel coordinates ---- */

struct line {
    const struct ebb_doc_node *trial;
    double metric, badness; /* badness: smaller is better */
};

struct lines {
    struct ebb_arena arena;
    struct line *lines;
    size_t left_out;
    struct plot_axis axes[AXES_MAX];
    size_t axis_count;
    double *values; /* line by line */
    size_t line_count;
};

static const struct ebb_doc_node *value_of(const struct ebb_doc_node *trial, const char *name)
{
    return ebb_doc_get(ebb_doc_get(trial, "hparams"), name);
}

static bool is_number(const struct ebb_doc_node *node)
{
    return node != NULL && (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE);
}

/* Text of a value that is no number; owned by the arena. */
static const char *text_of(struct ebb_arena *arena, const struct ebb_doc_node *node)
{
    struct ebb_str text = {0};
    if (node != NULL)
        cli_show_value(&text, node);
    const char *kept = ebb_arena_strndup(arena, ebb_str_c(&text), text.length);
    ebb_str_fini(&text);
    return kept != NULL ? kept : "";
}

/* Place of a category, in order of appearance; new ones are added. */
static double category(struct lines *l, struct plot_axis *axis, const char **names,
                       const struct ebb_doc_node *node)
{
    const char *text = text_of(&l->arena, node);
    size_t i = 0;
    while (i < axis->category_count && strcmp(names[i], text) != 0)
        i++;
    if (i == axis->category_count && i < 64)
        names[axis->category_count++] = text;
    return (double)i;
}

/* Spread over orders of magnitude on purpose? The experiment's own words decide. */
static bool is_log_hparam(const struct ebb_doc_node *experiment, const char *name)
{
    const struct ebb_doc_node *config = ebb_doc_get(experiment, "config");
    const struct ebb_doc_node *h = ebb_doc_get(ebb_doc_get(config, "hyperparameters"), name);
    return strcmp(ebb_doc_string(h, "type", ""), "log") == 0;
}

/* An axis for one hyperparameter, if its values differ. Its column is filled. */
static void add_axis(struct lines *l, const struct ebb_doc_node *experiment, const char *name)
{
    struct plot_axis *axis = &l->axes[l->axis_count];
    const char **names = ebb_arena_calloc(&l->arena, 64, sizeof *names);
    bool all_numbers = true, differs = false, all_positive = true;
    *axis = (struct plot_axis){.name = ebb_arena_strndup(&l->arena, name, strlen(name))};
    for (size_t i = 0; i < l->line_count; i++)
        all_numbers = all_numbers && is_number(value_of(l->lines[i].trial, name));
    for (size_t i = 0; i < l->line_count && names != NULL; i++) {
        const struct ebb_doc_node *node = value_of(l->lines[i].trial, name);
        double v = all_numbers ? node->number : category(l, axis, names, node);
        l->values[i * AXES_MAX + l->axis_count] = v;
        all_positive = all_positive && v > 0;
        differs = differs || v != l->values[l->axis_count];
    }
    axis->categories = all_numbers ? NULL : names;
    axis->is_log = all_numbers && all_positive && is_log_hparam(experiment, name);
    l->axis_count += differs && names != NULL && axis->name != NULL;
}

static int compare_lines(const void *pa, const void *pb)
{
    const struct line *a = pa, *b = pb;
    return a->badness < b->badness ? -1 : a->badness > b->badness;
}

/* The lines to draw, the best first. Trials that went astray (a thousand times the median) would
 * press all others into one point of the axis: they are counted instead. */
static void choose_lines(struct lines *l)
{
    qsort(l->lines, l->line_count, sizeof *l->lines, compare_lines);
    double median = fabs(l->lines[l->line_count / 2].metric);
    size_t kept = l->line_count < LINES_MAX ? l->line_count : LINES_MAX;
    while (median > 0 && kept > 2 && fabs(l->lines[kept - 1].metric) > 1000 * median)
        kept--;
    l->left_out = l->line_count - kept;
    l->line_count = kept;
}

static enum ebb_status lines_load(struct lines *l, struct cli_master *m,
                                  const struct ebb_doc_node *experiment, struct ebb_error *err)
{
    bool is_smaller = ebb_doc_bool(experiment, "smaller_is_better", true);
    const struct ebb_doc_node *root;
    *l = (struct lines){0};
    ebb_arena_init(&l->arena);
    EBB_TRY(cli_get(m, &root, err, "/experiments/%lld/trials",
                    (long long)ebb_doc_int(experiment, "id", 0)));
    const struct ebb_doc_node *list = ebb_doc_get(root, "trials");
    size_t n = list != NULL && list->kind == EBB_DOC_LIST ? list->count : 0;
    l->lines = ebb_arena_calloc(&l->arena, n + 1, sizeof *l->lines);
    l->values = ebb_arena_calloc(&l->arena, (n + 1) * AXES_MAX, sizeof *l->values);
    EBB_TRY(ebb_arena_status(&l->arena, err));
    for (size_t i = 0; i < n; i++) {
        double v = cli_metric(ebb_doc_get(list->items[i], "best_validation"));
        if (isfinite(v))
            l->lines[l->line_count++] = (struct line){list->items[i], v, is_smaller ? v : -v};
    }
    if (l->line_count < 2)
        return EBB_OK;
    choose_lines(l);
    const struct ebb_doc_node *first = ebb_doc_get(l->lines[0].trial, "hparams");
    for (size_t i = 0; first != NULL && i < first->count && l->axis_count < AXES_MAX - 1; i++)
        add_axis(l, experiment, first->keys[i]->text);
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < l->line_count; i++) {
        double v = l->lines[i].metric;
        l->values[i * AXES_MAX + l->axis_count] = v;
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    l->axes[l->axis_count++] = (struct plot_axis){.name = ebb_doc_string(experiment, "metric", ""),
                                                  .is_log = is_wide(low, high)};
    return EBB_OK;
}

/* ---- files ---- */

/* One of the charts as dir/name.svg and dir/name.png; the names are appended to `written`. */
static enum ebb_status write_both(const char *dir, const char *name, const struct plot_chart *chart,
                                  const struct plot_parallel *parallel, struct ebb_str *written,
                                  struct ebb_error *err)
{
    static const char *const endings[] = {"svg", "png"};
    struct ebb_str path = {0};
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < 2 && status == EBB_OK; i++) {
        ebb_str_clear(&path);
        ebb_str_printf(&path, "%s/%s.%s", dir, name, endings[i]);
        status = ebb_str_status(&path, err);
        EBB_THEN(status, chart != NULL ? plot_write(chart, ebb_str_c(&path), err)
                                       : plot_parallel_write(parallel, ebb_str_c(&path), err));
        if (status == EBB_OK)
            ebb_str_printf(written, "%s\n", ebb_str_c(&path));
    }
    ebb_str_fini(&path);
    return status;
}

static enum ebb_status write_curves(struct cli_master *m, int64_t id, const char *dir,
                                    struct ebb_str *written, struct ebb_error *err)
{
    struct curves c;
    char subtitle[96];
    enum ebb_status status = curves_load(&c, m, id, err);
    if (status == EBB_OK && c.count > 0) {
        struct plot_panel panel = curves_panel(&c);
        snprintf(subtitle, sizeof subtitle, "experiment %lld: validation of %s%zu trials",
                 (long long)id, c.trial_count == CURVES_MAX ? "the best " : "", c.trial_count);
        struct plot_chart chart = {.title = ebb_doc_string(c.experiment, "description", ""),
                                   .subtitle = subtitle,
                                   .panels = &panel,
                                   .panel_count = 1};
        status = write_both(dir, "learning-curves", &chart, NULL, written, err);
    }
    ebb_arena_fini(&c.arena);
    return status;
}

static enum ebb_status write_lines(struct cli_master *m, int64_t id, const char *dir,
                                   struct ebb_str *written, struct ebb_error *err)
{
    const struct ebb_doc_node *e;
    struct lines l = {0};
    char subtitle[96];
    EBB_TRY(cli_get(m, &e, err, "/experiments/%lld", (long long)id));
    enum ebb_status status = lines_load(&l, m, e, err);
    if (status == EBB_OK && l.line_count >= 2 && l.axis_count >= 2) {
        int at = snprintf(subtitle, sizeof subtitle,
                          "experiment %lld: one line per trial, dark is best", (long long)id);
        if (l.left_out > 0)
            snprintf(subtitle + at, sizeof subtitle - (size_t)at, "; %zu far worse left out",
                     l.left_out);
        struct plot_parallel chart = {
            .title = ebb_doc_string(e, "description", ""),
            .subtitle = subtitle,
            .axes = l.axes,
            .axis_count = l.axis_count,
            .values = l.values,
            .stride = AXES_MAX,
            .line_count = l.line_count,
            .color_axis = l.axis_count - 1,
            .is_low_best = ebb_doc_bool(e, "smaller_is_better", true),
        };
        status = write_both(dir, "parallel-coordinates", NULL, &chart, written, err);
    }
    ebb_arena_fini(&l.arena);
    return status;
}

enum ebb_status cli_charts_write(struct cli_master *m, int64_t id, const char *dir,
                                 struct ebb_str *written, struct ebb_error *err)
{
    const struct ebb_doc_node *experiment;
    EBB_TRY(cli_get(m, &experiment, err, "/experiments/%lld", (long long)id)); /* is it there? */
    EBB_TRY(ebb_file_mkdirs(dir, err));
    EBB_TRY(write_curves(m, id, dir, written, err));
    return write_lines(m, id, dir, written, err);
}
