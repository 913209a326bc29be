/* cmd_plan_sweep.c - `ebb plan sweep`: overhead versus memory, as in the published comparison (spec
 * 10).
 *
 * Stage 1 the strategies with fixed checkpoints, over their own parameters; stage 2 the planner at
 * global points; stage 3 at local points around the least memory reached; the online policies at
 * all points of 2 and 3. */
#include "cli/cmd_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "base/thread.h"
#include "cli/cmd_dev_checkmate.h"
#include "plot/plot.h"

struct sweep {
    struct plan_graph graph;
    struct plan_row *rows; /* owned */
    size_t count, capacity;
    size_t global_from, local_from, online_from; /* first row of stages 2, 3 and of the policies */
    size_t global_to, others_from;
    double gap, time_limit;
    int64_t points, segments, jobs;
    bool is_json;
};

static enum ebb_status add_row(struct sweep *s, const char *planner, const char *label,
                               struct plan_row **row, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&s->rows, &s->capacity, s->count + 1, sizeof *s->rows, err));
    *row = &s->rows[s->count++];
    **row = (struct plan_row){
        .graph = &s->graph, .planner = planner_find(planner), .label = label, .ratio = NAN};
    planner_request_init(&(*row)->request);
    (*row)->request.gap = s->gap;
    (*row)->request.time_limit_s = s->time_limit;
    return EBB_OK;
}

static enum ebb_status run_from(struct sweep *s, size_t first, struct ebb_error *err)
{
    return cli_plan_run_rows(s->rows + first, s->count - first, (int)s->jobs, err);
}

static bool is_ok(const struct plan_row *row)
{
    return row->is_done && row->result.status == PLANNER_OK;
}

/* Stage 1. Greedy thresholds are relative to the peak of sqrt(n) over all nodes. */
static enum ebb_status fixed_strategies(struct sweep *s, struct ebb_error *err)
{
    static const char *const constants[] = {"all", "all_ap", "chen_sqrtn", "chen_sqrtn_noap"};
    static const char *const greedy[] = {"chen_greedy_noap", "chen_greedy"};
    struct plan_row *row;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        EBB_TRY(add_row(s, constants[i], constants[i], &row, err));
    EBB_TRY(run_from(s, 0, err));
    size_t first = s->count;
    uint64_t reference = s->rows[3].result.peak_bytes;
    for (size_t k = 0; k < (s->graph.facts.is_chain ? 1u : 2u) && is_ok(&s->rows[3]); k++)
        for (int64_t p = 0; p < s->segments; p++) {
            EBB_TRY(add_row(s, greedy[k], greedy[k], &row, err));
            row->request.params.segment_bytes =
                (double)reference * 3.0 * (double)p / (double)s->segments;
        }
    for (uint32_t c = 0;
         s->graph.facts.is_chain && s->graph.facts.is_mirrored && c <= s->graph.facts.forward_count;
         c++) {
        EBB_TRY(add_row(s, "griewank", "griewank", &row, err));
        row->request.params.slots = (int32_t)c;
    }
    return run_from(s, first, err);
}

static uint64_t round_up_1000(double bytes)
{
    return (uint64_t)(ceil(bytes / 1000) * 1000);
}

static enum ebb_status add_points(struct sweep *s, double start, double stop, bool is_closed,
                                  struct ebb_error *err)
{
    struct plan_row *row;
    double n = (double)(is_closed ? s->points - 1 : s->points);
    for (int64_t j = 0; j < s->points; j++) {
        EBB_TRY(add_row(s, "best", "best", &row, err));
        row->request.budget_bytes =
            round_up_1000(start + (stop - start) * (double)j / (n > 0 ? n : 1));
    }
    return EBB_OK;
}

/* A plan for less memory fits more: where a smaller budget was planned more cheaply, plan again
 * from there. */
static enum ebb_status refine(struct sweep *s, struct ebb_error *err)
{
    for (size_t i = s->global_from; i < s->count; i++) {
        struct plan_row *row = &s->rows[i], *better = NULL;
        for (size_t k = s->global_from; k < s->count; k++) {
            struct plan_row *other = &s->rows[k];
            if (is_ok(other) && other->result.peak_bytes <= row->request.budget_bytes &&
                (!is_ok(row) || other->result.cost < row->result.cost) &&
                (!better || other->result.cost < better->result.cost))
                better = other;
        }
        if (!better || !row->is_done || cli_interrupted())
            continue;
        struct planner_result result;
        row->request.warm = &better->result.plan;
        row->request.effort = 0;
        EBB_TRY(planner_run(row->planner, s->graph.trace, &row->request, &result, err));
        row->request.warm = NULL;
        if (result.status != PLANNER_OK || (is_ok(row) && result.cost >= row->result.cost)) {
            planner_result_fini(&result);
            continue;
        }
        result.lower_bound =
            row->result.lower_bound; /* the bound is about the budget, not the plan */
        result.bound_class = row->result.bound_class;
        result.gap = result.lower_bound > 0 ? (double)result.cost / result.lower_bound - 1 : NAN;
        result.seconds += row->result.seconds;
        planner_result_fini(&row->result);
        row->result = result;
    }
    return EBB_OK;
}

/* Stage 2: from the largest working set to the cheapest strategy's peak; stage 3: around the least
 * peak reached. */
static enum ebb_status planned_points(struct sweep *s, struct ebb_error *err)
{
    const struct planner_facts *facts = &s->graph.facts;
    uint64_t all_cost = s->rows[0].result.cost, all_peak = s->rows[0].result.peak_bytes;
    double stop = (double)all_peak;
    for (size_t i = 0; i < s->count; i++)
        if (is_ok(&s->rows[i]) && s->rows[i].result.cost <= all_cost &&
            (double)s->rows[i].result.peak_bytes < stop)
            stop = (double)s->rows[i].result.peak_bytes;
    s->global_from = s->count;
    EBB_TRY(add_points(s, (double)facts->max_degree_ram, stop, false, err));
    struct plan_row *row;
    EBB_TRY(add_row(s, "best", "best", &row, err));
    row->request.budget_bytes = all_peak;
    if (facts->fixed_bytes > 0 && all_peak > facts->fixed_bytes) {
        EBB_TRY(add_row(s, "best", "best", &row, err));
        row->request.budget_bytes = all_peak - facts->fixed_bytes;
    }
    EBB_TRY(run_from(s, s->global_from, err));
    s->global_to = s->count;
    double least = (double)all_peak;
    for (size_t i = 0; i < s->count; i++)
        if (is_ok(&s->rows[i]) && (double)s->rows[i].result.peak_bytes < least)
            least = (double)s->rows[i].result.peak_bytes;
    s->local_from = s->count;
    EBB_TRY(add_points(s, 0.5 * least, 1.5 * least, true, err));
    EBB_TRY(run_from(s, s->local_from, err));
    return refine(s, err);
}

/* Planners that take a budget, at the global points: for comparison. */
static enum ebb_status other_planners(struct sweep *s, struct ebb_error *err)
{
    static const char *const names[] = {"rotor", "knapsack"};
    size_t first = s->count;
    s->others_from = first;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (size_t i = s->global_from; i < s->global_to; i++) {
            struct plan_row *row;
            EBB_TRY(add_row(s, names[k], names[k], &row, err));
            row->request.budget_bytes = s->rows[i].request.budget_bytes;
        }
    return run_from(s, first, err);
}

/* The online policies at the points of stages 2 and 3, by the published simulator's rules. */
static enum ebb_status online_points(struct sweep *s, struct ebb_error *err)
{
    static const char *const policies[] = {"dtr", "dtr_eq", "lru"};
    s->online_from = s->count;
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        for (size_t i = s->global_from; i < s->others_from; i++) {
            struct exec_report report;
            struct plan_row *row;
            EBB_TRY(add_row(s, "best", policies[p], &row, err));
            row->request.budget_bytes = s->rows[i].request.budget_bytes;
            EBB_TRY(cli_checkmate_simrd(s->graph.trace, policies[p], row->request.budget_bytes,
                                        &report, err));
            planner_result_init(&row->result);
            row->result.status = report.result == EXEC_OK ? PLANNER_OK : PLANNER_INFEASIBLE;
            row->result.cost = report.clock_ns - 1;
            row->result.base_cost = report.base_ns;
            row->result.peak_bytes = report.peak_bytes;
            row->result.fixed_bytes = s->graph.facts.fixed_bytes;
            row->is_done = true;
        }
    return EBB_OK;
}

static enum ebb_status write_csv(const struct sweep *s, const char *path, struct ebb_error *err)
{
    struct ebb_file_out out;
    EBB_TRY(ebb_file_out_open(&out, path, err));
    fprintf(out.stream, "method,budget_bytes,status,cost,overhead,peak_bytes,total_bytes,"
                        "lower_bound,seconds,bound_overhead\n");
    for (size_t i = 0; i < s->count; i++) {
        const struct plan_row *row = &s->rows[i];
        if (!row->is_done)
            continue;
        fprintf(out.stream, "%s,", row->label);
        if (row->request.budget_bytes != UINT64_MAX)
            fprintf(out.stream, "%" PRIu64, row->request.budget_bytes);
        fprintf(out.stream, ",%s", planner_status_text(row->result.status));
        if (is_ok(row))
            fprintf(out.stream, ",%" PRIu64 ",%.9f,%" PRIu64 ",%" PRIu64, row->result.cost,
                    cli_plan_overhead(row), row->result.peak_bytes,
                    row->result.peak_bytes + s->graph.facts.fixed_bytes);
        else
            fprintf(out.stream, ",,,,");
        fprintf(out.stream, ",%.17g,%.3f,%.9f\n", row->result.lower_bound, row->result.seconds,
                row->result.lower_bound / (double)s->graph.facts.base_cost);
    }
    return ebb_file_out_commit(&out, err);
}

/* ---- the chart ------------------------------------------------------------------------------ */

struct point {
    double x, y;
};

static int compare_points(const void *a, const void *b)
{
    const struct point *p = a, *q = b;
    return p->x != q->x ? (p->x < q->x ? -1 : 1) : p->y < q->y ? -1 : p->y > q->y;
}

/* Running minimum over the peak of one method; returns the number of steps. */
static size_t prefix_min(const struct sweep *s, const char *label, struct point *points, double *x,
                         double *y)
{
    size_t n = 0, steps = 0;
    for (size_t i = 0; i < s->count; i++)
        if (is_ok(&s->rows[i]) && strcmp(s->rows[i].label, label) == 0)
            points[n++] = (struct point){
                (double)(s->rows[i].result.peak_bytes + s->graph.facts.fixed_bytes) / 1e9,
                cli_plan_overhead(&s->rows[i])};
    if (n > 0)
        qsort(points, n, sizeof *points, compare_points);
    for (size_t i = 0; i < n; i++)
        if (steps == 0 || points[i].y < y[steps - 1]) {
            x[steps] = points[i].x;
            y[steps++] = points[i].y;
        }
    return steps;
}

static enum ebb_status draw(const struct sweep *s, const char *path, struct ebb_error *err)
{
    static const char *const labels[] = {"best",
                                         "dtr",
                                         "dtr_eq",
                                         "lru",
                                         "chen_greedy_noap",
                                         "chen_greedy",
                                         "chen_sqrtn_noap",
                                         "chen_sqrtn",
                                         "griewank",
                                         "rotor",
                                         "knapsack",
                                         "all"};
    enum { COUNT = sizeof labels / sizeof *labels };
    struct plot_series series[COUNT];
    double *room = ebb_calloc((s->count + 1) * 2 * COUNT, sizeof *room);
    struct point *points = ebb_calloc(s->count + 1, sizeof *points);
    size_t used = 0;
    if (!room || !points) {
        ebb_free(room);
        ebb_free(points);
        return ebb_no_memory(err, s->count * sizeof *points);
    }
    for (size_t k = 0; k < COUNT; k++) {
        double *x = room + 2 * k * (s->count + 1), *y = x + s->count + 1;
        size_t n = prefix_min(s, labels[k], points, x, y);
        if (n > 0)
            series[used++] = (struct plot_series){.name = labels[k],
                                                  .style = n > 1 ? PLOT_STEP : PLOT_POINTS,
                                                  .x = x,
                                                  .y = y,
                                                  .count = n};
    }
    const struct plot_mark ideal = {.at = 1, .is_dashed = true};
    const struct plot_panel panel = {.x_label = "peak memory, GB (fixed memory included)",
                                     .y_label =
                                         "overhead (compute / compute without recomputation)",
                                     .series = series,
                                     .series_count = used,
                                     .marks = &ideal,
                                     .mark_count = 1,
                                     .x_min = NAN,
                                     .x_max = NAN,
                                     .y_min = 0.95,
                                     .y_max = 1.5};
    const char *name = strrchr(s->graph.path, '/');
    const struct plot_chart chart = {.title = name ? name + 1 : s->graph.path,
                                     .subtitle = "ebb plan sweep",
                                     .panels = &panel,
                                     .panel_count = 1};
    enum ebb_status status = plot_write(&chart, path, err);
    ebb_free(room);
    ebb_free(points);
    return status;
}

static void summarize(const struct sweep *s)
{
    size_t proven = 0, close = 0, planned = 0, found = 0;
    double seconds = 0;
    for (size_t i = s->global_from; i < s->others_from; i++) {
        const struct planner_result *r = &s->rows[i].result;
        planned++;
        seconds += r->seconds;
        found += is_ok(&s->rows[i]);
        proven += is_ok(&s->rows[i]) && r->optimal;
        close += is_ok(&s->rows[i]) && r->gap <= 0.01;
    }
    printf("%zu rows; of %zu planned points %zu have a plan, %zu within 1 %% of their bound, %zu "
           "proven "
           "optimal; %.1f s of planning\n",
           s->count, planned, found, close, proven, seconds);
}

enum ebb_status cli_plan_sweep_baselines(const char *path, const struct cli_plan_sweep_how *how,
                                         const char *csv, struct ebb_error *err)
{
    struct sweep s = {.gap = how->gap,
                      .time_limit = how->time_limit,
                      .points = how->points,
                      .segments = how->segments,
                      .jobs = how->jobs};
    enum ebb_status status = cli_plan_load(&s.graph, path, err);
    if (status == EBB_OK && !s.graph.trace->is_graph)
        status = ebb_fail(err, EBB_EINPUT, "%s: a sweep needs a graph file", path);
    if (status == EBB_OK)
        status = fixed_strategies(&s, err);
    if (status == EBB_OK)
        status = planned_points(&s, err);
    if (status == EBB_OK)
        status = other_planners(&s, err);
    if (status == EBB_OK && cli_interrupted())
        status = ebb_fail(err, EBB_ELIMIT, "%s: interrupted; nothing written", path);
    if (status == EBB_OK)
        status = write_csv(&s, csv, err);
    cli_plan_rows_fini(s.rows, s.count);
    cli_plan_unload(&s.graph);
    return status;
}

int cli_plan_sweep(int argc, char **argv)
{
    struct sweep s = {
        .gap = 0.005, .time_limit = 10, .points = 32, .segments = 300, .jobs = ebb_cpu_count()};
    const char *output = NULL, *chart = NULL;
    const struct cli_option options[] = {
        {"points", 'n', CLI_INT, &s.points, "N", "global and local points each (default 32)"},
        {"segments", 0, CLI_INT, &s.segments, "N", "thresholds of the greedy sweep (default 300)"},
        {"gap", 0, CLI_DOUBLE, &s.gap, "G",
         "stop within this fraction of the bound (default 0.005)"},
        {"time-limit", 0, CLI_DOUBLE, &s.time_limit, "S", "seconds per point (default 10)"},
        {"jobs", 'j', CLI_INT, &s.jobs, "N", "points at a time (default: all cores)"},
        {"output", 'o', CLI_STRING, &output, "FILE", "write all rows as CSV"},
        {"chart", 0, CLI_STRING, &chart, "FILE", "draw the step curves: .svg, .png, .pdf"},
        {"json", 0, CLI_FLAG, &s.is_json, NULL, "one object per row"},
    };
    const struct cli_spec spec = {
        .usage = "ebb plan sweep GRAPH [--points N] [-o FILE.csv] [--chart FILE.svg]",
        .description =
            "Overhead versus memory budget: fixed strategies over their parameters, `best` at\n"
            "global and local points, the online policies at the same points.\n\n"
            "Example:\n"
            "  ebb plan sweep vgg16.json -o vgg16.csv --chart vgg16.svg",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        CLI_LIMITS(CLI_PLAN_LIMITS, {"points", 1, 1000}, {"segments", 1, 10000}),
        .min_positional = 1,
        .max_positional = 1,
    };
    struct cli_args args;
    struct ebb_error err;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    enum ebb_status status = chart ? plot_check_name(chart, &err) : EBB_OK;
    if (status == EBB_OK)
        status = cli_plan_load(&s.graph, args.positional[0], &err);
    if (status == EBB_OK && !s.graph.trace->is_graph)
        status = ebb_fail(&err, EBB_EINPUT, "%s: a sweep needs a graph file", args.positional[0]);
    if (status == EBB_OK)
        status = fixed_strategies(&s, &err);
    if (status == EBB_OK)
        status = planned_points(&s, &err);
    if (status == EBB_OK)
        status = other_planners(&s, &err);
    if (status == EBB_OK)
        status = online_points(&s, &err);
    if (status == EBB_OK && output)
        status = write_csv(&s, output, &err);
    if (status == EBB_OK && chart)
        status = draw(&s, chart, &err);
    for (size_t i = 0; i < s.count && status == EBB_OK && s.is_json; i++)
        if (s.rows[i].is_done)
            cli_plan_print_json(&s.rows[i]);
    if (status == EBB_OK && !s.is_json)
        summarize(&s);
    code = status == EBB_OK ? 0 : cli_report(&err);
    cli_plan_rows_fini(s.rows, s.count);
    cli_plan_unload(&s.graph);
    cli_args_fini(&args);
    return code;
}
