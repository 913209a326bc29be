/* runs.h - what one training left behind: the log of a benchmark, or the CSV of ebb train, as facts
 * and curves.
 *
 * Both are read line by line; a line that is neither ours nor well formed is passed over, because
 * logs are mixed with what launchers and libraries say. */
#ifndef EBB_HARNESS_RUNS_H
#define EBB_HARNESS_RUNS_H

#include "harness/results.h"
#include "plot/plot.h"

#define HARNESS_CURVES 32
#define HARNESS_FACTS 64

struct harness_curve {
    const char *name;
    double *x, *y;
    size_t count, capacity;
};

struct harness_fact {
    const char *name, *value;
};

struct harness_run {
    const char *what; /* "resnet", or "training" */
    const char *unit; /* of x: "epoch", "update" */
    struct harness_curve curves[HARNESS_CURVES];
    size_t curve_count;
    struct harness_fact facts[HARNESS_FACTS];
    size_t fact_count;
};

/* Everything is in the arena. EBB_EINPUT: it is neither. */
enum ebb_status harness_run_parse(struct ebb_arena *arena, const char *name, const char *bytes,
                                  size_t length, struct harness_run *run, struct ebb_error *err);
enum ebb_status harness_run_read(struct ebb_arena *arena, const char *path, struct harness_run *run,
                                 struct ebb_error *err);
/* Whether the beginning of a file looks like one of them. */
bool harness_run_is(const char *bytes, size_t length);
/* A panel per curve. */
enum ebb_status harness_run_chart(struct ebb_arena *arena, const struct harness_run *run,
                                  const char *title, struct plot_chart *chart,
                                  struct ebb_error *err);

#endif
