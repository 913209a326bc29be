/* output.h - private to harness: files of results that people and other programs read. */
#ifndef EBB_HARNESS_OUTPUT_H
#define EBB_HARNESS_OUTPUT_H

#include <time.h>

#include "harness/results.h"

struct harness_clock {
    time_t start;
    uint64_t start_ns;
};
void harness_clock_start(struct harness_clock *clock);
/* Times of the results, as the published harness writes them. */
enum ebb_status harness_clock_stop(struct ebb_arena *arena, const struct harness_clock *clock,
                                   struct harness_results *results, struct ebb_error *err);

/* The repetitions of the last setting under the published name of their file, with a number where
 * an earlier one of the same command has that name. */
enum ebb_status harness_write_rows(const char *folder, const struct harness_results *results,
                                   const struct harness_rows *rows, struct ebb_error *err);
/* data.json, summary.json, errors.json, status.json */
enum ebb_status harness_write_all(const char *folder, const struct harness_results *results,
                                  struct ebb_error *err);
/* status.json alone; `failure` (NULL: none) is why the run ended early. */
enum ebb_status harness_write_status(const char *folder, const struct harness_results *results,
                                     const char *failure, struct ebb_error *err);

#endif
