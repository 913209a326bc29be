/* study.h - experiments of the published comparisons: planners over budgets, overhead versus
 * memory, figures, how far approximations are from the best plan, the largest batch.
 *
 * A study is rows: graph x planner x budget, run many at a time, stopped in order when the caller
 * says so. Files are written here; what is shown on a terminal is up to the caller. */
#ifndef EBB_STUDY_STUDY_H
#define EBB_STUDY_STUDY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "exec/exec.h"
#include "planner/planner.h"
#include "trace/trace.h"

/* ---- rows ---- */

struct study_graph {
    const char *path; /* borrowed */
    struct trace *trace;
    struct planner_facts facts;
    uint64_t ratio_base; /* what --ratio is a fraction of */
};

struct study_row {
    const struct study_graph *graph;
    const struct planner *planner;
    const char *label; /* name in tables and files; the planner's when NULL */
    double ratio;      /* NaN: bytes were given */
    struct planner_request request;
    struct planner_result result;
    enum ebb_status status;
    struct ebb_error err;
    bool is_done;
};

/* How: what the caller lends to every study. */
struct study_how {
    double gap, time_limit;
    int64_t points, segments, jobs;
    enum ebb_status (*load)(const void *context, const char *path, struct trace **trace,
                            struct ebb_error *err);
    const void *context; /* of load; borrowed */
    bool (*is_cancelled)(void);
};

/* A file that `load` can read; the error names it. */
enum ebb_status study_load(struct study_graph *graph, const char *path, const struct study_how *how,
                           struct ebb_error *err);
void study_unload(struct study_graph *graph);
/* Run all rows, how->jobs at a time, with a progress line; stops early (rows not done) when
 * cancelled. */
enum ebb_status study_run(struct study_row *rows, size_t count, const struct study_how *how,
                          struct ebb_error *err);
void study_rows_fini(struct study_row *rows, size_t count);
bool study_is_ok(const struct study_row *row);
double study_overhead(const struct study_row *row); /* NaN unless ok */

/* A graph run by the published online simulator, thrash limit 2. */
enum ebb_status study_online(const struct trace *graph, const char *heuristic, uint64_t budget,
                             struct exec_report *report, struct ebb_error *err);

/* ---- overhead versus memory ---- */

struct study_point {
    char method[24];
    char status[16];                    /* as planner_status_text has it */
    double budget;                      /* NaN: unlimited */
    double cost, overhead, peak, total; /* NaN unless ok; total: fixed memory included */
    double lower_bound, seconds;        /* NaN: of an online policy */
    double bound;                       /* lower_bound as an overhead; 0 = none */
};

struct study_points {
    struct study_point *items; /* owned */
    size_t count, capacity;
};

/* As CSV. */
enum ebb_status study_points_write(const struct study_points *points, const char *path,
                                   struct ebb_error *err);

struct study_sweep {
    struct study_how how;
    struct study_graph graph;
    struct study_row *rows; /* owned */
    size_t count, capacity;
    size_t global_from, global_to; /* rows of `best` at global points */
    size_t others_from;            /* first row after those at local points */
    struct study_points points;    /* of all finished rows */
};

/* The strategies over their parameters, `best` at global and local points, planners that take a
 * budget; with_online: the online policies at the same points. Finish in any case. */
enum ebb_status study_sweep_run(struct study_sweep *sweep, const char *path, bool with_online,
                                struct ebb_error *err);
enum ebb_status study_sweep_chart(const struct study_sweep *sweep, const char *path,
                                  struct ebb_error *err);
void study_sweep_fini(struct study_sweep *sweep);

#define STUDY_FIGURE_GRAPHS 12

struct study_figure {
    const char *dir;
    const char *const *graphs;
    size_t graph_count;
    struct study_how how;
    double ilp_limit;   /* seconds of Checkmate's ILP for a budget */
    int64_t ilp_points; /* budgets of a network that it is asked about, at most */
    bool with_ilp;      /* draw what stage ilp wrote */
    bool is_json;
    FILE *out, *notes; /* the table, or one object per planned budget; what could not be written */
};

/* Whether files of both would have the same names. */
bool study_figure_same_name(const char *graph, const char *other);
/* Stages: baselines, simrd, ilp, plot; see figure.c. */
enum ebb_status study_figure_baselines(const struct study_figure *figure, struct ebb_error *err);
enum ebb_status study_figure_simrd(const struct study_figure *figure, struct ebb_error *err);
enum ebb_status study_figure_ilp(const struct study_figure *figure, struct ebb_error *err);
enum ebb_status study_figure_plot(const struct study_figure *figure, struct ebb_error *err);

/* ---- methods side by side ---- */

struct study_method {
    const char *label, *planner;
    double threshold; /* lp_round: NaN = sweep */
    uint32_t randoms; /* lp_round: draws */
};

struct study_compare {
    struct study_how how;
    struct study_graph graph;
    struct study_row *rows; /* owned; budget-major */
    size_t method_count, budget_count;
};

/* Every method at every fraction of ratio_base. Finish in any case. */
enum ebb_status study_compare_run(struct study_compare *compare, const char *path,
                                  const struct study_method *methods, size_t method_count,
                                  const double *ratios, size_t ratio_count, struct ebb_error *err);
void study_compare_fini(struct study_compare *compare);
const struct study_row *study_compare_row(const struct study_compare *compare, size_t budget,
                                          size_t method);

/* One method against method 0, over the budgets where both have a plan. */
struct study_slowdown {
    size_t points;
    double geomean, max; /* geomean: NaN without points */
    double median_seconds;
};
struct study_slowdown study_slowdown_of(const struct study_compare *compare, size_t method);

/* LP bounds at one budget, as overheads, with the seconds they took; NaN: none. */
struct study_lp {
    double overhead, seconds;
};
struct study_lp study_lp_bound(const struct study_compare *compare, size_t budget,
                               enum planner_model_kind kind);

/* ---- the largest batch ---- */

struct study_batch {
    const struct study_graph *graph;
    uint64_t memory;     /* of the device, weights included */
    int64_t batch, most; /* that the graph was made for; that is tried */
    double time_limit;   /* seconds per batch size tried */
    bool is_twice;       /* subtract the fixed memory twice, as the published baselines did */
    bool (*is_cancelled)(void);
};

/* That fits with at most one extra forward pass; 0: none does. */
enum ebb_status study_batch_largest(const struct study_batch *batch, const struct planner *planner,
                                    int64_t *largest, struct ebb_error *err);

#endif
