/* figure.c - overhead versus memory budget for several networks, in stages that can be run one by
 * one (the comparison of DTR with Checkmate).
 *
 *   baselines  every strategy over its parameters, `best` with its bound: DIR/NAME.baselines.csv
 *   simrd      the online policies at the budgets of `best`, by the published rules:
 *              DIR/NAME.simrd.csv
 *   ilp        Checkmate's ILP at some of these budgets, under a time limit: DIR/NAME.ilp.csv
 *   plot       one panel per network from these files: DIR/budget_sweep.{svg,png,pdf},
 *              DIR/slowdowns.csv, a table */
#include "study/points.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/str.h"
#include "base/thread.h"
#include "plot/plot.h"

struct network { /* what the plot stage has read of one graph */
    char name[64], title[96];
    struct study_points points;
};

static void base_name(const char *path, char *name, size_t room)
{
    snprintf(name, room, "%s", ebb_file_name(path));
    char *dot = strrchr(name, '.');
    if (dot)
        *dot = '\0';
}

bool study_figure_same_name(const char *graph, const char *other)
{
    char names[2][64];
    base_name(graph, names[0], sizeof names[0]);
    base_name(other, names[1], sizeof names[1]);
    return strcmp(names[0], names[1]) == 0;
}

/* "vgg16_b256_roofline" -> "VGG16, batch 256, roofline"; other names stay. */
static void make_title(const char *name, char *title, size_t room)
{
    static const struct {
        const char *prefix, *text;
    } known[] = {{"vgg16_", "VGG16"},          {"mobilenet_", "MobileNet"},
                 {"vgg_unet_", "U-Net (VGG)"}, {"resnet50_", "ResNet-50"},
                 {"densenet_", "DenseNet"},    {"unet3_", "U-Net, 3 levels"}};
    const char *batch = strstr(name, "_b"), *model = strrchr(name, '_');
    snprintf(title, room, "%.80s", name);
    for (size_t k = 0; k < sizeof known / sizeof *known && batch && model > batch; k++)
        if (strncmp(name, known[k].prefix, strlen(known[k].prefix)) == 0)
            snprintf(title, room, "%s, batch %.*s, %.24s costs", known[k].text,
                     (int)(model - batch - 2), batch + 2, model + 1);
}

static void file_name(const struct study_figure *f, const char *graph, const char *what, char *path,
                      size_t room)
{
    char name[64];
    base_name(graph, name, sizeof name);
    snprintf(path, room, "%s/%s.%s.csv", f->dir, name, what);
}

/* ---- stage simrd ---------------------------------------------------------------------------- */

struct online {
    const struct study_graph *graph;
    const struct study_how *how;
    const char *policy;
    double budget;
    struct exec_report report;
    enum ebb_status status;
    struct ebb_error err;
};

static void run_online(void *context, size_t i)
{
    struct online *o = (struct online *)context + i;
    if (!o->how->is_cancelled())
        o->status =
            study_online(o->graph->trace, o->policy, (uint64_t)o->budget, &o->report, &o->err);
}

static enum ebb_status write_online(const struct online *runs, size_t count, uint64_t fixed,
                                    const char *path, struct ebb_error *err)
{
    struct study_points points = {0};
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < count && status == EBB_OK; i++) {
        const struct exec_report *r = &runs[i].report;
        bool is_ok = r->result == EXEC_OK;
        struct study_point point = {.budget = runs[i].budget,
                                    .cost = (double)(r->clock_ns - 1),
                                    .overhead = (double)(r->clock_ns - 1) / (double)r->base_ns,
                                    .peak = (double)r->peak_bytes,
                                    .total = (double)(r->peak_bytes + fixed),
                                    .lower_bound = NAN,
                                    .seconds = NAN,
                                    .bound = NAN};
        snprintf(point.method, sizeof point.method, "%s", runs[i].policy);
        snprintf(point.status, sizeof point.status, "%s",
                 planner_status_text(is_ok ? PLANNER_OK : PLANNER_INFEASIBLE));
        status = study_points_add(&points, &point, err);
    }
    EBB_THEN(status, study_points_write(&points, path, err));
    study_points_fini(&points);
    return status;
}

static enum ebb_status run_all(struct online *runs, size_t count, const struct study_how *how,
                               struct ebb_error *err)
{
    EBB_TRY(ebb_parallel((int)how->jobs, count, run_online, runs, err));
    for (size_t i = 0; i < count; i++)
        if (runs[i].status != EBB_OK) {
            *err = runs[i].err;
            return runs[i].status;
        }
    return EBB_OK;
}

static enum ebb_status run_simrd(const struct study_figure *f, const char *path,
                                 struct ebb_error *err)
{
    static const char *const policies[] = {"dtr", "dtr_eq",  "dtr_local", "msps",
                                           "lru", "largest", "random"};
    enum { POLICIES = sizeof policies / sizeof *policies };
    char in[1024], out[1024];
    struct study_points points = {0};
    struct study_graph graph = {0};
    struct online *runs = NULL;
    size_t count = 0;
    file_name(f, path, "baselines", in, sizeof in);
    file_name(f, path, "simrd", out, sizeof out);
    enum ebb_status status = study_points_read(&points, in, err);
    EBB_THEN(status, study_load(&graph, path, &f->how, err));
    EBB_THEN(status, ebb_new(&runs, points.count * POLICIES, sizeof *runs, err));
    for (size_t p = 0; p < POLICIES && status == EBB_OK; p++)
        for (size_t i = 0; i < points.count; i++)
            if (strcmp(points.items[i].method, "best") == 0 && !isnan(points.items[i].budget))
                runs[count++] = (struct online){.graph = &graph,
                                                .how = &f->how,
                                                .policy = policies[p],
                                                .budget = points.items[i].budget};
    EBB_THEN(status, run_all(runs, count, &f->how, err));
    if (status == EBB_OK && f->how.is_cancelled())
        status = ebb_fail(err, EBB_ELIMIT, "%s: interrupted; nothing written", path);
    EBB_THEN(status, write_online(runs, count, graph.facts.fixed_bytes, out, err));
    ebb_free(runs);
    study_points_fini(&points);
    study_unload(&graph);
    return status;
}

/* ---- stage ilp ------------------------------------------------------------------------------ */

/* Evenly spaced among the budgets of `best` that make a difference, largest first. */
static size_t choose_budgets(const struct study_points *points, double *budgets, size_t most)
{
    size_t count = 0, used = 0;
    for (size_t i = 0; i < points->count; i++) {
        const struct study_point *p = &points->items[i];
        bool is_new = study_point_is_of(p, "best") && p->overhead > 1 + 1e-9;
        for (size_t k = 0; k < count && is_new; k++)
            is_new = budgets[k] != p->budget;
        size_t at = count;
        if (!is_new)
            continue;
        for (; at > 0 && budgets[at - 1] < p->budget; at--)
            budgets[at] = budgets[at - 1];
        budgets[at] = p->budget;
        count++;
    }
    for (size_t k = 0; k < most && count > 0; k++) {
        size_t at = most > 1 ? k * (count - 1) / (most - 1) : 0;
        if (used == 0 || budgets[at] < budgets[used - 1])
            budgets[used++] = budgets[at];
    }
    return used;
}

static enum ebb_status run_ilp(const struct study_figure *f, const char *path,
                               struct ebb_error *err)
{
    char in[1024], out[1024];
    struct study_points points = {0}, found = {0};
    struct study_graph graph = {0};
    struct study_row *rows = NULL;
    double *budgets = NULL;
    size_t count = 0;
    file_name(f, path, "baselines", in, sizeof in);
    file_name(f, path, "ilp", out, sizeof out);
    enum ebb_status status = study_points_read(&points, in, err);
    EBB_THEN(status, study_load(&graph, path, &f->how, err));
    EBB_THEN(status, ebb_new(&budgets, points.count + 1, sizeof *budgets, err));
    if (status == EBB_OK)
        count = choose_budgets(&points, budgets, (size_t)f->ilp_points);
    EBB_THEN(status, ebb_new(&rows, count + 1, sizeof *rows, err));
    for (size_t i = 0; i < count && status == EBB_OK; i++) {
        rows[i] = (struct study_row){
            .graph = &graph, .planner = planner_find("ilp"), .label = "ilp", .ratio = NAN};
        planner_request_init(&rows[i].request);
        rows[i].request.budget_bytes = (uint64_t)budgets[i];
        rows[i].request.gap = f->how.gap;
        rows[i].request.time_limit_s = f->ilp_limit;
    }
    EBB_THEN(status, study_run(rows, count, &f->how, err));
    if (status == EBB_OK && f->how.is_cancelled())
        status = ebb_fail(err, EBB_ELIMIT, "%s: interrupted; nothing written", path);
    for (size_t i = 0; i < count && status == EBB_OK; i++)
        status = study_points_add_row(&found, &rows[i], err);
    EBB_THEN(status, study_points_write(&found, out, err));
    if (rows)
        study_rows_fini(rows, count);
    ebb_free(budgets);
    study_points_fini(&points);
    study_points_fini(&found);
    study_unload(&graph);
    return status;
}

/* ---- stage plot ----------------------------------------------------------------------------- */

/* In the order of drawing: what matters most lies on top. */
static const struct {
    const char *method, *label, *color; /* color NULL: the method's own */
    bool is_dashed;
} drawn[] = {
    {"all", "checkpoint all", NULL, true},
    {"chen_sqrtn_noap", "Chen sqrt(n)", "#8c6d31", true},
    {"chen_sqrtn", "Chen sqrt(n), articulation points", "#bd9e39", true},
    {"griewank", "Griewank log(n)", NULL, true},
    {"chen_greedy_noap", "Chen greedy", "#7b4173", true},
    {"chen_greedy", "Chen greedy, articulation points", "#ce6dbd", true},
    {"knapsack", "knapsack (PyTorch)", NULL, true},
    {"rotor", "rotor", NULL, true},
    {"lru", "LRU", NULL, false},
    {"msps", "MSPS", NULL, false},
    {"dtr", "DTR", NULL, false},
    {"dtr_eq", "DTR eq", NULL, false},
    {"ilp", "Checkmate ILP", "#000000", true},
    {"best", "ebb best", NULL, false},
};
enum { DRAWN = sizeof drawn / sizeof *drawn };

/* The proven bound over the budget, as steps: between two budgets the one of the larger holds. */
static size_t bound_of(const struct network *n, struct study_xy *points, double *x, double *y)
{
    size_t count = 0, steps = 0;
    double fixed = 0;
    for (size_t i = 0; i < n->points.count; i++)
        if (study_point_is_ok(&n->points.items[i]))
            fixed = n->points.items[i].total - n->points.items[i].peak;
    for (size_t i = 0; i < n->points.count; i++)
        if (study_point_is_of(&n->points.items[i], "best") && n->points.items[i].bound > 0)
            points[count++] = (struct study_xy){(n->points.items[i].budget + fixed) / 1e9,
                                                n->points.items[i].bound};
    study_sort_xy(points, count);
    for (size_t i = count; i-- > 1;) /* what holds with more memory holds with less */
        if (points[i - 1].y < points[i].y)
            points[i - 1].y = points[i].y;
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            x[steps] = points[i - 1].x;
            y[steps++] = points[i].y;
        }
        x[steps] = points[i].x;
        y[steps++] = points[i].y;
    }
    return steps;
}

#define Y_MIN 0.97
#define Y_MAX 1.5
#define DEVICE_GB 16.0 /* memory of the published comparison's GPU */

/* What fits the device is shaded, where its edge is in the picture. */
static const struct plot_mark device_mark = {
    .at = DEVICE_GB, .is_vertical = true, .is_dashed = true, .label = "16 GB", .color = "#1f5fbf"};

static struct plot_series device_shade(double left, double *room)
{
    double *x = room, *y = room + 2, *y2 = room + 4;
    x[0] = left;
    x[1] = DEVICE_GB;
    y[0] = y[1] = Y_MIN;
    y2[0] = y2[1] = Y_MAX;
    return (struct plot_series){
        .style = PLOT_BAND, .x = x, .y = y, .y2 = y2, .count = 2, .color = "#bcd4f5"};
}

/* Budgets for which the ILP found no plan in its time. */
static size_t lost_points(const struct network *n, double *x, double *y)
{
    size_t count = 0;
    double fixed = 0;
    for (size_t i = 0; i < n->points.count; i++)
        if (study_point_is_ok(&n->points.items[i]))
            fixed = n->points.items[i].total - n->points.items[i].peak;
    for (size_t i = 0; i < n->points.count; i++) {
        const struct study_point *p = &n->points.items[i];
        if (strcmp(p->method, "ilp") != 0 || study_point_is_ok(p))
            continue;
        x[count] = (p->budget + fixed) / 1e9;
        y[count++] = Y_MAX - 0.02;
    }
    return count;
}

/* Room: DRAWN + 2 series of x, y and y2, each as long as the network has rows; then 6. */
static void fill_panel(const struct network *n, double *room, struct study_xy *points,
                       struct plot_series *series, struct plot_panel *panel)
{
    size_t stride = 2 * n->points.count + 2, used = 0;
    double left = INFINITY, right = 0;
    double *x = room, *y = room + stride, *y2 = room + 2 * stride;
    size_t count = bound_of(n, points, x, y);
    for (size_t i = 0; i < count; i++)
        y2[i] = Y_MIN;
    if (count > 0)
        series[used++] = (struct plot_series){.name = "proved impossible",
                                              .style = PLOT_BAND,
                                              .x = x,
                                              .y = y,
                                              .y2 = y2,
                                              .count = count,
                                              .color = "#9a9a9a"};
    for (size_t k = 0; k < DRAWN; k++) {
        double *sx = room + 3 * (k + 1) * stride, *sy = sx + stride;
        size_t steps = study_points_steps(&n->points, drawn[k].method, points, sx, sy);
        if (steps == 0)
            continue;
        if (strcmp(drawn[k].method, "best") == 0)
            left = sx[0];
        if (strcmp(drawn[k].method, "all") == 0)
            right = sx[0];
        series[used] = study_step_series(drawn[k].label, sx, sy, steps);
        series[used].color = drawn[k].color ? drawn[k].color : plot_color(drawn[k].method, k);
        series[used++].is_dashed = drawn[k].is_dashed;
    }
    double *lost = room + 3 * (DRAWN + 1) * stride;
    size_t lost_count = lost_points(n, lost, lost + stride);
    if (lost_count)
        series[used++] = (struct plot_series){.name = "Checkmate ILP: nothing in time",
                                              .style = PLOT_CROSSES,
                                              .x = lost,
                                              .y = lost + stride,
                                              .count = lost_count,
                                              .color = "#000000"};
    double width = right > left ? right - left : 1, edge = left - 0.03 * width;
    bool has_device = DEVICE_GB > edge && DEVICE_GB < right + 0.03 * width;
    if (has_device) {
        memmove(series + 1, series, used * sizeof *series);
        series[0] = device_shade(edge, room + 3 * (DRAWN + 2) * stride);
        used++;
    }
    *panel = (struct plot_panel){.title = n->title,
                                 .x_label = "peak memory, GB",
                                 .y_label = "overhead",
                                 .series = series,
                                 .series_count = used,
                                 .marks = &device_mark,
                                 .mark_count = has_device,
                                 .x_min = edge,
                                 .x_max = right + 0.03 * width,
                                 .y_min = Y_MIN,
                                 .y_max = Y_MAX};
}

/* PNG and PDF only where their program is. */
static enum ebb_status write_formats(const struct study_figure *f, const struct plot_chart *chart,
                                     struct ebb_error *err)
{
    static const char *const suffixes[] = {"svg", "png", "pdf"};
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && status == EBB_OK; i++) {
        char path[1024];
        struct ebb_error why = {0};
        snprintf(path, sizeof path, "%s/budget_sweep.%s", f->dir, suffixes[i]);
        status = plot_write(chart, path, &why);
        if (status == EBB_EUNSUPPORTED && i > 0) {
            if (f->notes)
                fprintf(f->notes, "ebb: note: only the SVG was written: %s\n", why.message);
            return EBB_OK;
        }
        if (status != EBB_OK && err)
            *err = why;
    }
    return status;
}

static enum ebb_status draw(const struct study_figure *f, const struct network *networks,
                            struct ebb_error *err)
{
    struct plot_panel panels[STUDY_FIGURE_GRAPHS];
    struct ebb_arena arena = {0};
    enum ebb_status status = EBB_OK;
    for (size_t g = 0; g < f->graph_count && status == EBB_OK; g++) {
        size_t rows = networks[g].points.count + 1;
        struct plot_series *series = ebb_arena_calloc(&arena, DRAWN + 3, sizeof *series);
        double *room = ebb_arena_calloc(&arena, 2 * rows * 3 * (DRAWN + 2) + 6, sizeof *room);
        struct study_xy *points = ebb_arena_calloc(&arena, rows, sizeof *points);
        status = ebb_arena_status(&arena, err);
        if (status == EBB_OK)
            fill_panel(&networks[g], room, points, series, &panels[g]);
    }
    const struct plot_chart chart = {
        .title = "Recomputation overhead versus memory budget",
        .subtitle = "ebb plan figure; memory includes weights and their gradients",
        .panels = panels,
        .panel_count = f->graph_count,
        .columns = f->graph_count > 4 ? 3 : 2,
        .shared_legend = true};
    EBB_THEN(status, write_formats(f, &chart, err));
    ebb_arena_fini(&arena);
    return status;
}

/* Cheapest row of a group of methods within a budget; NULL when none fits. */
static const struct study_point *cheapest(const struct network *n, double budget, bool is_online)
{
    static const char *const published[] = {
        "all",         "all_ap",           "chen_sqrtn", "chen_sqrtn_noap",
        "chen_greedy", "chen_greedy_noap", "griewank"};
    static const char *const policies[] = {"dtr", "dtr_eq", "dtr_local", "msps", "lru", "largest"};
    const struct study_point *best = NULL;
    for (size_t i = 0; i < n->points.count; i++) {
        const struct study_point *row = &n->points.items[i];
        bool is_wanted = false;
        for (size_t k = 0; k < sizeof published / sizeof *published && !is_online; k++)
            is_wanted |= strcmp(row->method, published[k]) == 0;
        for (size_t k = 0; k < sizeof policies / sizeof *policies && is_online; k++)
            is_wanted |= strcmp(row->method, policies[k]) == 0;
        if (is_wanted && study_point_is_ok(row) && row->peak <= budget &&
            (!best || row->cost < best->cost))
            best = row;
    }
    return best;
}

static int compare_budgets(const void *a, const void *b)
{
    const struct study_point *p = *(const struct study_point *const *)a;
    const struct study_point *q = *(const struct study_point *const *)b;
    return p->budget < q->budget ? 1 : p->budget > q->budget ? -1 : 0;
}

static void print_choice(FILE *out, const struct study_point *row)
{
    if (row)
        fprintf(out, " %.4f %s |", row->overhead, row->method);
    else
        fprintf(out, " none fits |");
}

static void print_markdown(FILE *out, const struct network *n, const struct study_point *row)
{
    fprintf(out, "| %s | %.2f | %.4f | %.4f | %.2f | %.1f |", n->title, row->budget / 1e9,
            row->overhead, row->bound, 100 * (row->overhead / row->bound - 1), row->seconds);
    print_choice(out, cheapest(n, row->budget, false));
    print_choice(out, cheapest(n, row->budget, true));
    fprintf(out, "\n");
}

static void json_choice(struct ebb_json_writer *w, const char *key, const struct study_point *row)
{
    char text[32];
    snprintf(text, sizeof text, "%s_overhead", key);
    ebb_jsonw_key_string(w, key, row ? row->method : NULL);
    ebb_jsonw_key_double(w, text, row ? row->overhead : NAN);
}

static void print_json(FILE *stream, const struct network *n, const struct study_point *row)
{
    struct ebb_str out = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &out, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "graph", n->name);
    ebb_jsonw_key_uint(&w, "budget_bytes", (uint64_t)row->budget);
    ebb_jsonw_key_double(&w, "overhead", row->overhead);
    ebb_jsonw_key_double(&w, "bound_overhead", row->bound > 0 ? row->bound : NAN);
    ebb_jsonw_key_double(&w, "seconds", row->seconds);
    json_choice(&w, "published", cheapest(n, row->budget, false));
    json_choice(&w, "online", cheapest(n, row->budget, true));
    ebb_jsonw_object_end(&w);
    fprintf(stream, "%s\n", ebb_str_c(&out));
    ebb_str_fini(&out);
}

/* A few budgets of every network; as JSON all of them. */
static enum ebb_status print_rows(FILE *out, const struct network *networks, size_t count,
                                  bool is_json, struct ebb_error *err)
{
    if (!is_json)
        fprintf(out,
                "| network | budget, GB | ebb | bound | gap, %% | s | best published strategy | "
                "best online policy |\n|---|---|---|---|---|---|---|---|\n");
    for (size_t g = 0; g < count; g++) {
        const struct network *n = &networks[g];
        const struct study_point **list;
        size_t used = 0;
        EBB_TRY(ebb_new(&list, n->points.count, sizeof *list, err));
        for (size_t i = 0; i < n->points.count; i++)
            if (study_point_is_of(&n->points.items[i], "best") &&
                n->points.items[i].overhead > 1 + 1e-9)
                list[used++] = &n->points.items[i];
        if (used > 0)
            qsort(list, used, sizeof *list, compare_budgets);
        for (size_t i = 0; i < used && is_json; i++)
            print_json(out, n, list[i]);
        for (size_t k = 0; k <= 5 && used > 0 && !is_json; k++)
            if (k == 0 || (used - 1) * k / 5 != (used - 1) * (k - 1) / 5)
                print_markdown(out, n, list[(used - 1) * k / 5]);
        ebb_free(list);
    }
    return EBB_OK;
}

/* For every budget of `best`: what each method needs at most that memory for, over best. */
static enum ebb_status write_slowdowns(const struct study_figure *f, const struct network *networks,
                                       struct ebb_error *err)
{
    char path[1024];
    struct ebb_file_out out;
    snprintf(path, sizeof path, "%s/slowdowns.csv", f->dir);
    EBB_TRY(ebb_file_out_open(&out, path, err));
    fprintf(out.stream, "network,method,points,max,geomean_slowdown\n");
    for (size_t g = 0; g < f->graph_count; g++)
        for (size_t k = 0; k + 1 < DRAWN; k++) {
            const struct network *n = &networks[g];
            double most = 0, sum = 0;
            size_t points = 0;
            for (size_t i = 0; i < n->points.count; i++) {
                double least = INFINITY;
                if (!study_point_is_of(&n->points.items[i], "best"))
                    continue;
                for (size_t j = 0; j < n->points.count; j++)
                    if (study_point_is_of(&n->points.items[j], drawn[k].method) &&
                        n->points.items[j].peak <= n->points.items[i].budget &&
                        n->points.items[j].cost < least)
                        least = n->points.items[j].cost;
                if (isinf(least))
                    continue;
                points++;
                sum += log(least / n->points.items[i].cost);
                most =
                    least / n->points.items[i].cost > most ? least / n->points.items[i].cost : most;
            }
            if (points > 0)
                fprintf(out.stream, "%s,%s,%zu,%.6f,%.6f\n", n->name, drawn[k].method, points, most,
                        exp(sum / (double)points));
        }
    return ebb_file_out_commit(&out, err);
}

enum ebb_status study_figure_plot(const struct study_figure *f, struct ebb_error *err)
{
    struct network networks[STUDY_FIGURE_GRAPHS] = {0};
    enum ebb_status status = EBB_OK;
    for (size_t g = 0; g < f->graph_count && status == EBB_OK; g++) {
        char path[1024];
        base_name(f->graphs[g], networks[g].name, sizeof networks[g].name);
        make_title(networks[g].name, networks[g].title, sizeof networks[g].title);
        file_name(f, f->graphs[g], "baselines", path, sizeof path);
        status = study_points_read(&networks[g].points, path, err);
        file_name(f, f->graphs[g], "simrd", path, sizeof path);
        EBB_THEN(status, study_points_read(&networks[g].points, path, err));
        file_name(f, f->graphs[g], "ilp", path, sizeof path);
        if (f->with_ilp)
            EBB_THEN(status, study_points_read(&networks[g].points, path, err));
    }
    EBB_THEN(status, draw(f, networks, err));
    EBB_THEN(status, write_slowdowns(f, networks, err));
    EBB_THEN(status, print_rows(f->out, networks, f->graph_count, f->is_json, err));
    for (size_t g = 0; g < f->graph_count; g++)
        study_points_fini(&networks[g].points);
    return status;
}

/* ---- stages --------------------------------------------------------------------------------- */

enum ebb_status study_figure_baselines(const struct study_figure *f, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    for (size_t g = 0; g < f->graph_count && status == EBB_OK; g++) {
        char path[1024];
        struct study_sweep sweep = {.how = f->how};
        file_name(f, f->graphs[g], "baselines", path, sizeof path);
        status = study_sweep_run(&sweep, f->graphs[g], false, err);
        if (status == EBB_OK && f->how.is_cancelled())
            status = ebb_fail(err, EBB_ELIMIT, "%s: interrupted; nothing written", f->graphs[g]);
        EBB_THEN(status, study_points_write(&sweep.points, path, err));
        study_sweep_fini(&sweep);
    }
    return status;
}

enum ebb_status study_figure_simrd(const struct study_figure *f, struct ebb_error *err)
{
    for (size_t g = 0; g < f->graph_count; g++)
        EBB_TRY(run_simrd(f, f->graphs[g], err));
    return EBB_OK;
}

enum ebb_status study_figure_ilp(const struct study_figure *f, struct ebb_error *err)
{
    for (size_t g = 0; g < f->graph_count; g++)
        EBB_TRY(run_ilp(f, f->graphs[g], err));
    return EBB_OK;
}
