/* chart_parts.h - private to harness: what the files of charts share. */
#ifndef EBB_HARNESS_CHART_PARTS_H
#define EBB_HARNESS_CHART_PARTS_H

#include "harness/chart.h"

bool harness_is_sweep(const struct harness_setting *setting);
bool harness_same_type(const struct harness_setting *a, const struct harness_setting *b);
/* In the arena; NULL when memory is out (ebb_arena_status). */
double *harness_doubles(struct ebb_arena *arena, size_t count);
const char *harness_budget_text(struct ebb_arena *arena, double bytes);

/* chart_bars.c: breakdown, throughput, sweep */
enum ebb_status harness_chart_bars(struct ebb_arena *arena, const struct harness_charts *what,
                                   enum harness_chart kind, struct plot_chart *chart,
                                   struct ebb_error *err);

#endif
