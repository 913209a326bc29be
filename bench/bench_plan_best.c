/* bench_plan_best.c - is `best` ever above another planner or policy?
 *
 *     bench_plan_best [-e EFFORT] [-t SECONDS] [FILE...]
 *
 * Files: graphs, logs or traces; without any, all golden graphs of the tree (run from its root) and
 * synthetic traces of every shape. Budgets: 0.95 to 0.3 of the least peak without recomputation.
 * Exit code 1 when a rival is cheaper anywhere. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#include "../tests/planner_rivals.h"

#define GRAPHS "tests/golden/checkmate/graphs"
#define ILP_NODES 26 /* above, the published program takes its whole time limit */

struct totals {
    size_t cases, compared, above, feasible;
    double worst_gap;
};

static const double ratios[] = {0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3};

static int run_trace(const char *name, const struct trace *trace, int effort, double seconds,
                     struct totals *t)
{
    struct planner_facts facts;
    struct ebb_error err;
    if (planner_facts_compute(trace, &facts, &err) != EBB_OK) {
        fprintf(stderr, "%s: %s\n", name, err.message);
        return 1;
    }
    for (size_t k = 0; k < sizeof ratios / sizeof *ratios; k++) {
        struct planner_request request;
        struct rivals r;
        planner_request_init(&request);
        request.effort = effort;
        request.time_limit_s = seconds;
        request.budget_bytes = (uint64_t)((double)facts.no_remat_peak * ratios[k]);
        if (rivals_run(trace, &request, facts.node_count <= ILP_NODES, &r, &err) != EBB_OK) {
            fprintf(stderr, "%s: %s\n", name, err.message);
            return 1;
        }
        double base = (double)facts.base_cost;
        t->cases++;
        t->compared += r.compared;
        t->above += r.above;
        t->feasible += r.has_best;
        if (r.has_best || r.compared)
            printf("%-34s %.2f  best %9.6f  bound %9.6f  next %9.6f %-18s %6.2f s%s\n", name,
                   ratios[k], r.has_best ? (double)r.best / base : NAN,
                   r.bound > 0 ? r.bound / base : NAN, r.compared ? (double)r.cheapest / base : NAN,
                   r.name, r.seconds, r.above ? "  ABOVE" : "");
        fflush(stdout);
    }
    return 0;
}

static int run_file(const char *path, int effort, double seconds, struct totals *t)
{
    struct trace *trace = NULL;
    struct ebb_error err;
    const char *slash = strrchr(path, '/');
    if (trace_load(path, TRACE_FORMAT_AUTO, &trace, &err) != EBB_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    int code = run_trace(slash ? slash + 1 : path, trace, effort, seconds, t);
    trace_destroy(trace);
    return code;
}

static int run_golden(int effort, double seconds, struct totals *t)
{
    struct dirent **names = NULL;
    int count = scandir(GRAPHS, &names, NULL, alphasort), code = count < 0;
    if (count < 0)
        fprintf(stderr, "%s: cannot be opened; run from the root of the tree\n", GRAPHS);
    for (int i = 0; i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%.200s", GRAPHS, names[i]->d_name);
        if (code == 0 && strstr(names[i]->d_name, ".json"))
            code = run_file(path, effort, seconds, t);
        free(names[i]);
    }
    free(names);
    return code;
}

static int run_shapes(int effort, double seconds, struct totals *t)
{
    for (size_t i = 0; i < trace_shape_count; i++)
        for (uint64_t seed = 1; seed <= 2; seed++) {
            bool is_tree = strcmp(trace_shapes[i].name, "tree") == 0; /* doubles with each layer */
            struct trace_synth synth = {.layers = seed == 1 ? 4
                                                  : is_tree ? 5
                                                            : 8,
                                        .ops = seed == 1 ? 60 : 200,
                                        .bytes = 1 << 20,
                                        .weight_bytes = 1 << 16,
                                        .cost_ns = 1000,
                                        .seed = seed,
                                        .spread = seed == 1 ? 0 : 0.8};
            struct ebb_error err;
            struct trace *trace = NULL;
            char name[64];
            if (trace_shape_make(&trace_shapes[i], &synth, &trace, &err) != EBB_OK) {
                fprintf(stderr, "%s\n", err.message);
                return 1;
            }
            snprintf(name, sizeof name, "%s, seed %d", trace_shapes[i].name, (int)seed);
            int code = run_trace(name, trace, effort, seconds, t);
            trace_destroy(trace);
            if (code)
                return code;
        }
    return 0;
}

int main(int argc, char **argv)
{
    int effort = 1, first = 1, code = 0;
    double seconds = 20;
    struct totals t = {0};
    while (first + 1 < argc && argv[first][0] == '-') {
        if (argv[first][1] == 'e')
            effort = (int)strtol(argv[first + 1], NULL, 10);
        else
            seconds = strtod(argv[first + 1], NULL);
        first += 2;
    }
    for (int i = first; i < argc && code == 0; i++)
        code = run_file(argv[i], effort, seconds, &t);
    if (first >= argc) {
        code = run_golden(effort, seconds, &t);
        if (code == 0)
            code = run_shapes(effort, seconds, &t);
    }
    printf("%zu budgets, %zu with a plan, %zu answers of others compared, %zu cheaper than best\n",
           t.cases, t.feasible, t.compared, t.above);
    return code || t.above > 0;
}
