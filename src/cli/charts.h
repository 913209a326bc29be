/* charts.h - charts of an experiment: learning curves and parallel coordinates. Private to cli. */
#ifndef EBB_CLI_CHARTS_H
#define EBB_CLI_CHARTS_H

#include "cli/master.h"

/* Write learning-curves.{svg,png} and parallel-coordinates.{svg,png} into `dir` (made if missing).
 * `written` receives the names, one per line. EBB_EUNSUPPORTED: no rsvg-convert (err says how
 * to get it). With fewer than two trials that have a metric there is nothing to compare: only curves. */
enum ebb_status cli_charts_write(struct cli_master *m, int64_t id, const char *dir,
                                 struct ebb_str *written, struct ebb_error *err);

/* Learning curves as text for a terminal, appended to out; nothing when there are none. */
enum ebb_status cli_charts_terminal(struct cli_master *m, int64_t id, int columns, int rows,
                                    struct ebb_str *out, struct ebb_error *err);

#endif
