/* chart.h - results as charts (plot/plot.h).
 *
 *   slowdown    time over that of the baseline by the budget as a part of its peak: a line per
 *               model, a panel per model where there are several ways to keep a budget
 *   breakdown   where the time of a repetition goes, a panel per model: bars by budget
 *   throughput  samples per second by batch size, a panel per model: bars by budget
 *   sweep       where the time goes by batch size
 *
 * C1  A point is the median over the inputs, its stroke the bootstrap interval of 95 %.
 * C2  What failed is a cross, never left out.
 * C3  cost_time is part of search_time and is drawn once.
 * C4  References are dashed, each over the baseline of its own file. */
#ifndef EBB_HARNESS_CHART_H
#define EBB_HARNESS_CHART_H

#include "harness/results.h"
#include "plot/plot.h"

enum harness_chart {
    HARNESS_CHART_SLOWDOWN,
    HARNESS_CHART_BREAKDOWN,
    HARNESS_CHART_THROUGHPUT,
    HARNESS_CHART_SWEEP,
    HARNESS_CHARTS
};

struct harness_charts {
    const struct harness_results *results;
    const struct harness_results *references; /* published ones, for slowdowns; may be NULL */
    size_t reference_count;
    const char *subtitle; /* NULL: the results' own file and time */
};

const char *harness_chart_name(enum harness_chart kind); /* "slowdown": of its file */
/* Everything is in the arena. *chart has no panels when there is nothing of the kind. */
enum ebb_status harness_chart_make(struct ebb_arena *arena, const struct harness_charts *what,
                                   enum harness_chart kind, struct plot_chart *chart,
                                   struct ebb_error *err);

#endif
