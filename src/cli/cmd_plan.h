/* cmd_plan.h - private to the command `ebb plan`: rows of results and how they are made and shown.
 */
#ifndef EBB_CLI_CMD_PLAN_H
#define EBB_CLI_CMD_PLAN_H

#include "cli/cli.h"
#include "planner/planner.h"
#include "trace/trace.h"

/* Options that the verbs share. */
#define CLI_PLAN_LIMITS                                                                            \
    {"gap", 0, 1}, {"time-limit", 0.001, 1e6},                                                     \
    {                                                                                              \
        "jobs", 1, 4096                                                                            \
    }

struct plan_graph {
    const char *path; /* borrowed from the arguments */
    struct trace *trace;
    struct planner_facts facts;
    uint64_t ratio_base; /* what --ratio is a fraction of */
};

struct plan_row {
    const struct plan_graph *graph;
    const struct planner *planner;
    const char *label; /* name in tables and files; the planner's when NULL */
    double ratio;      /* NaN: bytes were given */
    struct planner_request request;
    struct planner_result result;
    enum ebb_status status;
    struct ebb_error err;
    bool is_done;
};

/* Graph file, log or trace; EBB_EINPUT names the file. */
enum ebb_status cli_plan_load(struct plan_graph *graph, const char *path, struct ebb_error *err);
void cli_plan_unload(struct plan_graph *graph);
/* Run all rows, `jobs` at a time, with a progress line; stops early (rows not done) on Ctrl-C. */
enum ebb_status cli_plan_run_rows(struct plan_row *rows, size_t count, int jobs,
                                  struct ebb_error *err);
void cli_plan_rows_fini(struct plan_row *rows, size_t count);
void cli_plan_print_json(const struct plan_row *row);
void cli_plan_print_table(const struct plan_row *rows, size_t count);
double cli_plan_overhead(const struct plan_row *row); /* NaN unless ok */

struct cli_plan_sweep_how {
    double gap, time_limit;
    int64_t points, segments, jobs;
};
/* All strategies and `best` over one graph, without the online policies, as CSV. */
enum ebb_status cli_plan_sweep_baselines(const char *path, const struct cli_plan_sweep_how *how,
                                         const char *csv, struct ebb_error *err);

int cli_plan_figure(int argc, char **argv);
int cli_plan_show(int argc, char **argv);
int cli_plan_sweep(int argc, char **argv);
int cli_plan_maxbatch(int argc, char **argv);
int cli_plan_gap(int argc, char **argv);
int cli_plan_approx(int argc, char **argv);
int cli_plan_solve_time(int argc, char **argv);

#endif
