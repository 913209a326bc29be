/* sweep.c - overhead versus memory, as in the published comparison.
 *
 * Stage 1 the strategies with fixed checkpoints, over their own parameters; stage 2 the planner at
 * global points; stage 3 at local points around the least memory reached; the online policies at
 * all points of 2 and 3. */
#include "study/points.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/heap.h"

static enum ebb_status add_row(struct study_sweep *s, const char *planner, const char *label,
                               struct study_row **row, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&s->rows, &s->capacity, s->count + 1, sizeof *s->rows, err));
    *row = &s->rows[s->count++];
    **row = (struct study_row){
        .graph = &s->graph, .planner = planner_find(planner), .label = label, .ratio = NAN};
    planner_request_init(&(*row)->request);
    (*row)->request.gap = s->how.gap;
    (*row)->request.time_limit_s = s->how.time_limit;
    return EBB_OK;
}

static enum ebb_status run_from(struct study_sweep *s, size_t first, struct ebb_error *err)
{
    return study_run(s->rows + first, s->count - first, &s->how, err);
}

/* Stage 1. Greedy thresholds are relative to the peak of sqrt(n) over all nodes. */
static enum ebb_status fixed_strategies(struct study_sweep *s, struct ebb_error *err)
{
    static const char *const constants[] = {"all", "all_ap", "chen_sqrtn", "chen_sqrtn_noap"};
    static const char *const greedy[] = {"chen_greedy_noap", "chen_greedy"};
    struct study_row *row;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        EBB_TRY(add_row(s, constants[i], constants[i], &row, err));
    EBB_TRY(run_from(s, 0, err));
    size_t first = s->count;
    uint64_t reference = s->rows[3].result.peak_bytes;
    for (size_t k = 0; k < (s->graph.facts.is_chain ? 1u : 2u) && study_is_ok(&s->rows[3]); k++)
        for (int64_t p = 0; p < s->how.segments; p++) {
            EBB_TRY(add_row(s, greedy[k], greedy[k], &row, err));
            row->request.params.segment_bytes =
                (double)reference * 3.0 * (double)p / (double)s->how.segments;
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

static enum ebb_status add_points(struct study_sweep *s, double start, double stop, bool is_closed,
                                  struct ebb_error *err)
{
    struct study_row *row;
    double n = (double)(is_closed ? s->how.points - 1 : s->how.points);
    for (int64_t j = 0; j < s->how.points; j++) {
        EBB_TRY(add_row(s, "best", "best", &row, err));
        row->request.budget_bytes =
            round_up_1000(start + (stop - start) * (double)j / (n > 0 ? n : 1));
    }
    return EBB_OK;
}

/* A plan for less memory fits more: where a smaller budget was planned more cheaply, plan again
 * from there. */
static enum ebb_status refine(struct study_sweep *s, struct ebb_error *err)
{
    for (size_t i = s->global_from; i < s->count; i++) {
        struct study_row *row = &s->rows[i], *better = NULL;
        for (size_t k = s->global_from; k < s->count; k++) {
            struct study_row *other = &s->rows[k];
            if (study_is_ok(other) && other->result.peak_bytes <= row->request.budget_bytes &&
                (!study_is_ok(row) || other->result.cost < row->result.cost) &&
                (!better || other->result.cost < better->result.cost))
                better = other;
        }
        if (!better || !row->is_done || s->how.is_cancelled())
            continue;
        struct planner_result result;
        row->request.warm = &better->result.plan;
        row->request.effort = 0;
        EBB_TRY(planner_run(row->planner, s->graph.trace, &row->request, &result, err));
        row->request.warm = NULL;
        if (result.status != PLANNER_OK || (study_is_ok(row) && result.cost >= row->result.cost)) {
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
static enum ebb_status planned_points(struct study_sweep *s, struct ebb_error *err)
{
    const struct planner_facts *facts = &s->graph.facts;
    uint64_t all_cost = s->rows[0].result.cost, all_peak = s->rows[0].result.peak_bytes;
    double stop = (double)all_peak;
    for (size_t i = 0; i < s->count; i++)
        if (study_is_ok(&s->rows[i]) && s->rows[i].result.cost <= all_cost &&
            (double)s->rows[i].result.peak_bytes < stop)
            stop = (double)s->rows[i].result.peak_bytes;
    s->global_from = s->count;
    EBB_TRY(add_points(s, (double)facts->max_degree_ram, stop, false, err));
    struct study_row *row;
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
        if (study_is_ok(&s->rows[i]) && (double)s->rows[i].result.peak_bytes < least)
            least = (double)s->rows[i].result.peak_bytes;
    size_t local_from = s->count;
    EBB_TRY(add_points(s, 0.5 * least, 1.5 * least, true, err));
    EBB_TRY(run_from(s, local_from, err));
    return refine(s, err);
}

/* Planners that take a budget, at the global points: for comparison. */
static enum ebb_status other_planners(struct study_sweep *s, struct ebb_error *err)
{
    static const char *const names[] = {"rotor", "knapsack"};
    size_t first = s->count;
    s->others_from = first;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (size_t i = s->global_from; i < s->global_to; i++) {
            struct study_row *row;
            EBB_TRY(add_row(s, names[k], names[k], &row, err));
            row->request.budget_bytes = s->rows[i].request.budget_bytes;
        }
    return run_from(s, first, err);
}

/* The online policies at the points of stages 2 and 3, by the published simulator's rules. */
static enum ebb_status online_points(struct study_sweep *s, struct ebb_error *err)
{
    static const char *const policies[] = {"dtr", "dtr_eq", "lru"};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        for (size_t i = s->global_from; i < s->others_from; i++) {
            struct exec_report report;
            struct study_row *row;
            EBB_TRY(add_row(s, "best", policies[p], &row, err));
            row->request.budget_bytes = s->rows[i].request.budget_bytes;
            EBB_TRY(
                study_online(s->graph.trace, policies[p], row->request.budget_bytes, &report, err));
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

/* ---- the chart ------------------------------------------------------------------------------ */

static enum ebb_status draw(const struct study_sweep *s, struct ebb_arena *arena, const char *path,
                            struct ebb_error *err)
{
    const struct study_points *points = &s->points;
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
    size_t used = 0, stride = points->count + 1;
    double *curves = ebb_arena_calloc(arena, 2 * stride * COUNT, sizeof *curves);
    struct study_xy *room = ebb_arena_calloc(arena, stride, sizeof *room);
    EBB_TRY(ebb_arena_status(arena, err));
    for (size_t k = 0; k < COUNT; k++) {
        double *x = curves + 2 * k * stride, *y = x + stride;
        size_t n = study_points_steps(points, labels[k], room, x, y);
        if (n > 0)
            series[used++] = study_step_series(labels[k], x, y, n);
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
    const struct plot_chart chart = {.title = ebb_file_name(s->graph.path),
                                     .subtitle = "ebb plan sweep",
                                     .panels = &panel,
                                     .panel_count = 1};
    return plot_write(&chart, path, err);
}

enum ebb_status study_sweep_chart(const struct study_sweep *s, const char *path,
                                  struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    enum ebb_status status = draw(s, &arena, path, err);
    ebb_arena_fini(&arena);
    return status;
}

enum ebb_status study_sweep_run(struct study_sweep *s, const char *path, bool with_online,
                                struct ebb_error *err)
{
    EBB_TRY(study_load(&s->graph, path, &s->how, err));
    if (!s->graph.trace->is_graph)
        return ebb_fail(err, EBB_EINPUT, "%s: a sweep needs a graph file", path);
    EBB_TRY(fixed_strategies(s, err));
    EBB_TRY(planned_points(s, err));
    EBB_TRY(other_planners(s, err));
    if (with_online)
        EBB_TRY(online_points(s, err));
    for (size_t i = 0; i < s->count; i++)
        EBB_TRY(study_points_add_row(&s->points, &s->rows[i], err));
    return EBB_OK;
}

void study_sweep_fini(struct study_sweep *s)
{
    study_points_fini(&s->points);
    study_rows_fini(s->rows, s->count);
    study_unload(&s->graph);
}
