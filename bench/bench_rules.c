/* bench_rules.c - rules ebb against rules simrd on recorded steps: same policies, same budgets, one
 * run per point.
 *
 *     build/bench/bench_rules [FOLDER [CHART.svg]]      FOLDER defaults to ../shared/data/simrd;
 * skipped when absent
 *
 * Overheads are each rule set's own: time / sum of the costs of the ops it runs once. Geometric
 * means and the worst point are over ratios 0.1 .. 1.0; the lowest surviving ratio is looked for on
 * a grid of 0.02. Limit 2. Printed as Markdown. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "exec/exec.h"
#include "plot/plot.h"
#include "trace/trace.h"

#define GRID 50
#define COPY_BYTES_PER_NS 300.0

static const char *const logs[] = {"resnet32", "unet", "transformer", "unroll_gan"};
#define LOG_COUNT (sizeof logs / sizeof *logs)
static const char *const drawn[] = {"dtr", "dtr_eq", "lru"};
#define DRAWN_COUNT (sizeof drawn / sizeof *drawn)

struct curve {
    double overhead[2][GRID + 1]; /* [rules][k]: at ratio k / 50; NaN = failed */
};

struct totals {
    int pairs, lower, higher, mean_worse, points_worse;
};

static enum ebb_status measure(const struct exec_program *const programs[2], double peak,
                               const struct mem_policy *policy, struct curve *curve,
                               struct ebb_error *err)
{
    for (int k = 1; k <= GRID; k++) {
        for (int rules = 0; rules < 2; rules++) {
            struct exec_options options = {.policy = policy,
                                           .budget_bytes = (uint64_t)(peak * (k / (double)GRID)),
                                           .limit = 2.0,
                                           .links.in[0].bytes_per_ns = COPY_BYTES_PER_NS};
            struct exec_report report;
            EBB_TRY(exec_run(programs[rules], &options, &report, err));
            curve->overhead[rules][k] = report.result == EXEC_OK ? exec_overhead(&report) : NAN;
        }
    }
    return EBB_OK;
}

static double lowest(const double *overhead)
{
    for (int k = 1; k <= GRID; k++) {
        if (!isnan(overhead[k]))
            return k / (double)GRID;
    }
    return NAN;
}

static void print_row(const char *log, const char *policy, const struct curve *curve,
                      struct totals *totals)
{
    double sum = 0, worst = 0, at = 0;
    int count = 0;
    for (int k = 5; k <= GRID; k += 5) {
        double ratio = curve->overhead[1][k] / curve->overhead[0][k];
        if (isnan(ratio))
            continue;
        sum += log10(ratio);
        count++;
        if (ratio > worst) {
            worst = ratio;
            at = k / (double)GRID;
        }
    }
    double mean = count ? pow(10, sum / count) : 1, simrd = lowest(curve->overhead[0]),
           ebb = lowest(curve->overhead[1]);
    bool is_lower = ebb < simrd || (isnan(simrd) && !isnan(ebb));
    bool is_higher = ebb > simrd || (isnan(ebb) && !isnan(simrd));
    totals->pairs++;
    totals->lower += is_lower;
    totals->higher += is_higher;
    totals->mean_worse += mean > 1 + 1e-9;
    totals->points_worse += worst > 1.05;
    printf("| %s | %s | %.4f%s | %.4f at %.1f%s | %.2f | %.2f%s |\n", log, policy, mean,
           mean > 1 + 1e-9 ? " !" : "", worst, at, worst > 1.05 ? " !" : "", simrd, ebb,
           is_higher ? " !" : "");
}

static enum ebb_status draw(const struct curve *curves, const char *path, struct ebb_error *err)
{
    static double x[GRID + 1];
    struct plot_panel panels[LOG_COUNT];
    struct plot_series series[LOG_COUNT][2 * DRAWN_COUNT];
    static char names[DRAWN_COUNT][32];
    for (int k = 0; k <= GRID; k++)
        x[k] = k / (double)GRID;
    for (size_t l = 0; l < LOG_COUNT; l++) {
        for (size_t d = 0; d < DRAWN_COUNT; d++) {
            const struct curve *c = &curves[l * DRAWN_COUNT + d];
            snprintf(names[d], sizeof names[d], "%s, simrd", drawn[d]);
            series[l][2 * d] = (struct plot_series){.name = drawn[d],
                                                    .style = PLOT_LINE,
                                                    .x = x + 1,
                                                    .y = c->overhead[1] + 1,
                                                    .count = GRID,
                                                    .color = plot_color(drawn[d], d)};
            series[l][2 * d + 1] = (struct plot_series){.name = names[d],
                                                        .style = PLOT_LINE,
                                                        .x = x + 1,
                                                        .y = c->overhead[0] + 1,
                                                        .count = GRID,
                                                        .color = plot_color(drawn[d], d),
                                                        .is_dashed = true};
        }
        panels[l] = (struct plot_panel){.title = logs[l],
                                        .x_label = "memory budget / peak",
                                        .y_label = "time / time without limit",
                                        .series = series[l],
                                        .series_count = 2 * DRAWN_COUNT,
                                        .x_min = 0,
                                        .x_max = 1.02,
                                        .y_min = 0.95,
                                        .y_max = 2};
    }
    struct plot_chart chart = {.title = "Rules ebb (solid) and simrd (dashed)",
                               .subtitle = "recorded training steps; ebb places addresses and pays "
                                           "for moves at 300 GB/s, simrd counts bytes",
                               .panels = panels,
                               .panel_count = LOG_COUNT,
                               .columns = 2,
                               .shared_legend = true};
    return plot_write(&chart, path, err);
}

static enum ebb_status run_log(size_t l, const char *folder, struct curve *curves,
                               struct totals *totals, struct ebb_error *err)
{
    char path[4096];
    struct trace *trace = NULL;
    struct exec_program *programs[2] = {NULL, NULL};
    struct trace_stats stats;
    snprintf(path, sizeof path, "%s/%s.log", folder, logs[l]);
    enum ebb_status status = trace_load(path, TRACE_FORMAT_DTR, &trace, err);
    if (status == EBB_OK)
        status = trace_stats_compute(trace, &stats, err);
    if (status == EBB_OK)
        status = exec_program_create(&programs[0], trace, EXEC_SIMRD, err);
    if (status == EBB_OK)
        status = exec_program_create(&programs[1], trace, EXEC_EBB, err);
    for (size_t p = 0; p < mem_policy_count && status == EBB_OK; p++) {
        struct curve curve;
        if (mem_policies[p].numerator == MEM_RANDOM || mem_policies[p].numerator == MEM_UNION)
            continue;
        const struct exec_program *const both[2] = {programs[0], programs[1]};
        status = measure(both, (double)stats.baseline_bytes, &mem_policies[p], &curve, err);
        if (status != EBB_OK)
            break;
        print_row(logs[l], mem_policies[p].name, &curve, totals);
        fflush(stdout);
        for (size_t d = 0; d < DRAWN_COUNT; d++) {
            if (strcmp(drawn[d], mem_policies[p].name) == 0)
                curves[l * DRAWN_COUNT + d] = curve;
        }
    }
    exec_program_destroy(programs[0]);
    exec_program_destroy(programs[1]);
    trace_destroy(trace);
    return status;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "../shared/data/simrd";
    static struct curve curves[LOG_COUNT * DRAWN_COUNT];
    struct totals totals = {0};
    struct ebb_error err;
    char probe[4096];
    snprintf(probe, sizeof probe, "%s/%s.log", folder, logs[0]);
    FILE *file = fopen(probe, "r");
    if (!file) {
        printf("bench_rules: skipped, no recorded logs in %s\n", folder);
        return 0;
    }
    fclose(file);
    printf("| log | policy | ebb / simrd, geometric mean | worst point | lowest ratio, simrd | "
           "lowest ratio, ebb |\n|---|---|---|---|---|---|\n");
    for (size_t l = 0; l < LOG_COUNT; l++) {
        if (run_log(l, folder, curves, &totals, &err) != EBB_OK) {
            fprintf(stderr, "bench_rules: %s\n", err.message);
            return 1;
        }
    }
    printf(
        "\n%d pairs: %d survive lower than simrd, %d higher; geometric mean worse in %d; a point "
        "worse by more than 5 %% in %d.\n",
        totals.pairs, totals.lower, totals.higher, totals.mean_worse, totals.points_worse);
    if (argc > 2 && draw(curves, argv[2], &err) != EBB_OK) {
        fprintf(stderr, "bench_rules: %s\n", err.message);
        return 1;
    }
    return 0;
}
