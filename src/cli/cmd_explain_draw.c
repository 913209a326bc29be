/* cmd_explain_draw.c - what `ebb explain` found, as a chart. */
#include "cli/cmd_explain.h"

#include <inttypes.h>
#include <string.h>
#include <math.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "exec/exec.h"
#include "plot/plot.h"

enum { POINTS = 400 };

/* Bytes by kind over the step (largest of each group of ops); time over budget; where a budget was
 * asked for, between them the step as it runs inside it. */
struct picture {
    double x[POINTS], y[TRAIN_KINDS][POINTS];
    double run[POINTS], held[TRAIN_KINDS][POINTS], with_away[POINTS];
    double events[3][POINTS];
    struct plot_series managed[TRAIN_KINDS + 1], counts[3];
    struct plot_mark budget_mark[1];
    double budget[EXPLAIN_BUDGETS], over[EXPLAIN_POLICIES][EXPLAIN_BUDGETS];
    struct plot_series kinds[TRAIN_KINDS], lines[EXPLAIN_POLICIES];
    struct plot_mark marks[2], floor_mark[1];
    double below[2][POINTS], carried[4][POINTS];
    struct plot_series tiers[2], links[4];
    struct plot_panel panels[6];
    char title[200], managed_title[160];
    double peak; /* x of the peak */
};

static uint64_t moment_bytes(const struct explain_view *v, size_t op)
{
    uint64_t sum = 0;
    for (int k = 0; k < TRAIN_KINDS; k++)
        sum += v->e.moments[op].kinds[k];
    return sum;
}

/* Leaves take no time: they are left out. x counts the ops that compute. */
static void draw_step(const struct explain_view *v, struct picture *pic, double unit)
{
    const struct trace *t = train_trial_trace(v->trial);
    size_t count = 0, n = 0, at = 0;
    for (size_t i = 0; i < v->e.moment_count; i++)
        count += !t->ops[i].is_leaf;
    size_t group = count / POINTS + 1;
    uint64_t most = 0;
    for (size_t i = 0; i < v->e.moment_count; i++) {
        if (t->ops[i].is_leaf)
            continue;
        if (i == v->e.peak_op)
            pic->peak = (double)at;
        if (at % group == 0) {
            pic->x[n++] = (double)at;
            most = 0;
        }
        at++;
        if (moment_bytes(v, i) < most)
            continue;
        most = moment_bytes(v, i);
        for (int k = 0; k < TRAIN_KINDS; k++)
            pic->y[k][n - 1] = (double)v->e.moments[i].kinds[k] / unit;
    }
    for (int k = 0; k < TRAIN_KINDS; k++)
        pic->kinds[k] = (struct plot_series){.name = train_kind_names[k],
                                             .style = PLOT_AREA,
                                             .x = pic->x,
                                             .y = pic->y[k],
                                             .count = n};
}

static uint64_t run_bytes(const struct train_run *run)
{
    uint64_t sum = 0;
    for (int k = 0; k < TRAIN_KINDS; k++)
        sum += run->kinds[k];
    return sum;
}

/* The same of a step inside a budget; what was evicted and is wanted again lies above. */
static size_t draw_managed(const struct explain_view *v, struct picture *pic, double unit)
{
    const struct train_managed *m = &v->managed;
    size_t group = m->count / POINTS + 1, n = 0, again = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct train_run *run = &m->runs[i];
        again += run->is_again;
        if (i % group == 0) {
            pic->run[n++] = (double)i;
            most = 0;
        }
        pic->events[0][n - 1] = (double)m->evictions[i];
        pic->events[1][n - 1] = (double)again;
        pic->events[2][n - 1] = (double)m->copies[i];
        if (run_bytes(run) < most)
            continue;
        most = run_bytes(run);
        pic->with_away[n - 1] = (double)(most + run->away_bytes) / unit;
        for (int k = 0; k < TRAIN_KINDS; k++)
            pic->held[k][n - 1] = (double)run->kinds[k] / unit;
    }
    for (int k = 0; k < TRAIN_KINDS; k++)
        pic->managed[k] = (struct plot_series){.name = train_kind_names[k],
                                               .style = PLOT_AREA,
                                               .x = pic->run,
                                               .y = pic->held[k],
                                               .count = n};
    pic->managed[TRAIN_KINDS] = (struct plot_series){.name = "with what is evicted",
                                                     .style = PLOT_LINE,
                                                     .x = pic->run,
                                                     .y = pic->with_away,
                                                     .count = n,
                                                     .color = "#444444",
                                                     .is_dashed = true};
    return n;
}

static size_t draw_events(const struct explain_view *v, struct picture *pic, size_t n)
{
    static const char *const names[] = {"evictions", "ops run again", "copies between tiers"};
    static const char *const colors[] = {"#d55e00", "#0072b2", "#009e73"};
    size_t used = 0;
    for (size_t k = 0; k < 3; k++)
        if (k < 2 || v->managed.copies[v->managed.count - 1] > 0)
            pic->counts[used++] = (struct plot_series){.name = names[k],
                                                       .style = PLOT_LINE,
                                                       .x = pic->run,
                                                       .y = pic->events[k],
                                                       .count = n,
                                                       .color = colors[k]};
    return used;
}

/* Bytes below, of the tiers that there are, and what their links have carried. */
static void add_tiers(const struct explain_view *v, struct picture *pic, bool is_large, double unit)
{
    static const char *const names[] = {"host", "file"};
    static const char *const ways[][2] = {{"to host", "from host"}, {"to file", "from file"}};
    static const char *const colors[] = {"#0072b2", "#56b4e9", "#d55e00", "#e69f00"};
    const struct train_config *c = &v->file->config;
    const struct train_managed *m = &v->managed;
    size_t group = m->count / POINTS + 1, n = 0, tiers = 0, links = 0;
    for (size_t i = 0; i < m->count; i++) {
        n += i % group == 0;
        for (int k = 0; k < 2; k++) {
            double below = (double)m->runs[i].below_bytes[DEVICE_HOST + k] / unit;
            if (i % group == 0 || below > pic->below[k][n - 1])
                pic->below[k][n - 1] = below;
            pic->carried[2 * k][n - 1] = (double)m->runs[i].sent_bytes[DEVICE_HOST + k] / unit;
            pic->carried[2 * k + 1][n - 1] =
                (double)m->runs[i].fetched_bytes[DEVICE_HOST + k] / unit;
        }
    }
    for (int k = 0; k < 2; k++) {
        if ((k ? c->file_bytes : c->host_bytes) == 0)
            continue;
        pic->tiers[tiers++] = (struct plot_series){.name = names[k],
                                                   .style = PLOT_AREA,
                                                   .x = pic->run,
                                                   .y = pic->below[k],
                                                   .count = n,
                                                   .color = colors[2 * k]};
        for (int way = 0; way < 2; way++)
            pic->links[links++] = (struct plot_series){.name = ways[k][way],
                                                       .style = PLOT_LINE,
                                                       .x = pic->run,
                                                       .y = pic->carried[2 * k + way],
                                                       .count = n,
                                                       .color = colors[2 * k + way]};
    }
    pic->panels[4] = (struct plot_panel){.title = "Bytes in lower tiers",
                                         .x_label = "op in the order they run, again included",
                                         .y_label = is_large ? "GiB" : "MiB",
                                         .series = pic->tiers,
                                         .series_count = tiers,
                                         .is_stacked = true};
    pic->panels[5] = (struct plot_panel){.title = "Copied over the links so far",
                                         .x_label = "op in the order they run, again included",
                                         .y_label = is_large ? "GiB" : "MiB",
                                         .series = pic->links,
                                         .series_count = links};
}

static void add_managed(const struct explain_view *v, struct picture *pic, bool is_large,
                        double unit)
{
    size_t n = draw_managed(v, pic, unit), used = draw_events(v, pic, n);
    char budget[32];
    ebb_format_bytes(v->budgets[0], budget, sizeof budget);
    snprintf(pic->managed_title, sizeof pic->managed_title, "The step in %s, by %s", budget,
             v->managed.how);
    pic->budget_mark[0] = (struct plot_mark){.at = (double)v->budgets[0] / unit,
                                             .is_dashed = true,
                                             .label = "budget",
                                             .color = "#d62728"};
    pic->panels[2] = (struct plot_panel){.title = pic->managed_title,
                                         .x_label = "op in the order they run, again included",
                                         .y_label = is_large ? "GiB" : "MiB",
                                         .series = pic->managed,
                                         .series_count = TRAIN_KINDS + 1,
                                         .marks = pic->budget_mark,
                                         .mark_count = 1,
                                         .is_stacked = true};
    pic->panels[3] = (struct plot_panel){.title = "Evictions and reruns so far",
                                         .x_label = "op in the order they run, again included",
                                         .y_label = "count",
                                         .series = pic->counts,
                                         .series_count = used};
}

static void draw_sweep(const struct explain_view *v, struct picture *pic, double unit)
{
    for (size_t b = 0; b < v->budget_count; b++)
        pic->budget[b] = (double)v->budgets[b] / unit;
    for (size_t p = 0; p < v->policy_count; p++) {
        for (size_t b = 0; b < v->budget_count; b++)
            pic->over[p][b] = v->cells[p][b].is_ok ? v->cells[p][b].overhead : NAN;
        pic->lines[p] = (struct plot_series){.name = v->policies[p],
                                             .style = PLOT_LINE_POINTS,
                                             .x = pic->budget,
                                             .y = pic->over[p],
                                             .count = v->budget_count,
                                             .color = p == 0 ? "#222222" : NULL};
    }
}

enum ebb_status cli_explain_draw(const struct explain_view *v, struct ebb_error *err)
{
    struct picture *pic = ebb_calloc(1, sizeof *pic);
    struct ebb_str text = {0};
    if (!pic)
        return ebb_no_memory(err, sizeof *pic);
    bool is_large = v->e.peak_bytes >= (UINT64_C(10) << 30);
    double unit = is_large ? 1024.0 * 1024 * 1024 : 1024.0 * 1024;
    draw_step(v, pic, unit);
    draw_sweep(v, pic, unit);
    pic->marks[0] = (struct plot_mark){
        .at = (double)v->floor_bytes / unit, .is_dashed = true, .label = "floor"};
    pic->marks[1] = (struct plot_mark){
        .at = pic->peak, .is_vertical = true, .is_dashed = true, .label = "peak"};
    pic->floor_mark[0] = pic->marks[0];
    pic->floor_mark[0].is_vertical = true;
    pic->panels[0] = (struct plot_panel){.title = "Bytes over one training step",
                                         .x_label = "op of the step (without leaves)",
                                         .y_label = is_large ? "GiB" : "MiB",
                                         .series = pic->kinds,
                                         .series_count = TRAIN_KINDS,
                                         .marks = pic->marks,
                                         .mark_count = 2,
                                         .is_stacked = true};
    pic->panels[1] = (struct plot_panel){.title = "Time when the budget is smaller",
                                         .x_label = is_large ? "budget, GiB" : "budget, MiB",
                                         .y_label = "time over time without limit",
                                         .series = pic->lines,
                                         .series_count = v->policy_count,
                                         .marks = pic->floor_mark,
                                         .mark_count = 1};
    if (v->is_trace)
        snprintf(pic->title, sizeof pic->title, "%s", ebb_file_name(v->path));
    else
        snprintf(pic->title, sizeof pic->title, "%s, batch %" PRId64, ebb_file_name(v->path),
                 v->file->config.batch_size);
    struct plot_chart chart = {
        .title = pic->title, .panels = pic->panels, .panel_count = 2, .columns = 2};
    if (v->managed.count) {
        add_managed(v, pic, is_large, unit);
        chart.panel_count = 4;
    }
    if (v->managed.count && explain_has_tiers(v)) {
        add_tiers(v, pic, is_large, unit);
        chart.panel_count = 6;
    }
    enum ebb_status status = EBB_OK;
    if (v->o->output && v->o->is_quick) { /* no times */
        memmove(pic->panels + 1, pic->panels + 2, (chart.panel_count - 2) * sizeof *pic->panels);
        chart.panel_count--;
        chart.columns = chart.panel_count > 1 ? 2 : 1;
    }
    if (v->o->output) {
        status = plot_write(&chart, v->o->output, err);
    } else {
        chart.panels = v->managed.count ? pic->panels + 2 : pic->panels;
        chart.panel_count = 1;
        status = plot_terminal(&chart, 100, 24, &text, err);
        if (status == EBB_OK)
            printf("\n%s", ebb_str_c(&text));
    }
    ebb_str_fini(&text);
    ebb_free(pic);
    return status;
}
