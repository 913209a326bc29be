/* harness.h - measurements of whole trainings: files say which trials, every trial is a child that
 * has the machine to itself, and what they say becomes results.
 *
 *     file -> trials -> children -> results -> charts
 *
 * Not through the master of experiments: a measurement wants a quiet machine, a time limit, and its
 * baseline first. Nothing here prints or exits; docs/pareto.md is the user's page. */
#ifndef EBB_HARNESS_HARNESS_H
#define EBB_HARNESS_HARNESS_H

#include "base/report.h"
#include "harness/chart.h"
#include "harness/report.h"
#include "harness/results.h"
#include "harness/runs.h"

/* ---- Pareto files ---------------------------------------------------------------------------- */

/* A file in the published format (docs/pareto.md), read and checked: settings, which are commands
 * with their lists unfolded, each with one or more inputs. A *trial* is one setting and one input. */
struct harness_pareto;

/* All mistakes, warnings and notes are in the report. Everything lives in the arena. */
enum ebb_status harness_pareto_parse(struct ebb_arena *arena, const char *name, const char *bytes,
                                     size_t length, bool is_cuda, struct harness_pareto **pareto,
                                     struct ebb_report *report, struct ebb_error *err);
enum ebb_status harness_pareto_read(struct ebb_arena *arena, const char *path, bool is_cuda,
                                    struct harness_pareto **pareto, struct ebb_report *report,
                                    struct ebb_error *err);
bool harness_pareto_is_active(const struct harness_pareto *pareto);
size_t harness_pareto_trials(const struct harness_pareto *pareto);
/* Settings as results name them, nothing measured yet; `inputs` (may be NULL) are their numbers. */
enum ebb_status harness_pareto_list(struct ebb_arena *arena, const struct harness_pareto *pareto,
                                    struct harness_results *results, int64_t **inputs,
                                    struct ebb_error *err);

struct harness_how {    /* what the caller lends to a run */
    const char *folder; /* of results; made when it is not there */
    const char *device; /* NULL: cpu */
    int64_t threads;    /* of kernels; 0: all */
    bool (*is_cancelled)(void);
    void *context;
    /* May be NULL: a trial begins; a repetition is done; a setting is done. */
    void (*begin)(void *context, const struct harness_setting *setting, int64_t input);
    void (*beat)(void *context, const struct harness_row *row);
    void (*done)(void *context, const struct harness_results *results,
                 const struct harness_setting *setting);
};

/* Runs every trial that is not finished yet, then writes data.json, summary.json, errors.json and a
 * CSV file per setting into the folder. EBB_ECANCELED: what is finished is kept; EBB_EINFEASIBLE: a
 * trial failed and the file says that this ends all. */
enum ebb_status harness_pareto_run(struct ebb_arena *arena, const struct harness_pareto *pareto,
                                   const struct harness_how *how, struct harness_results *results,
                                   struct ebb_error *err);

/* ---- the child ------------------------------------------------------------------------------- */

struct harness_listener {
    void *context;
    enum ebb_status (*tell)(void *context, const char *line, struct ebb_error *err);
};
/* One trial in this process: what is asked is JSON, a line of JSON is told after every repetition. */
enum ebb_status harness_measure(const char *bytes, size_t length,
                                const struct harness_listener *listener, struct ebb_error *err);

/* ---- comparing ------------------------------------------------------------------------------- */

struct harness_pair { /* a setting of A, and what B has there */
    const struct harness_setting *a;
    bool is_baseline;                      /* values are ms by the wall clock; else slowdowns */
    double ratio;                          /* budget over the baseline's peak; NaN: unknown */
    struct harness_point a_value, b_value; /* NaN: not measured */
    bool is_between;                       /* B's is on the line between its neighbours */
    const char *b_error;                   /* NULL: none there */
};
struct harness_pairs {
    struct harness_pair *items;
    size_t count;
};
/* Every setting of A with B's value of the same model and type (or of B's only type) at the same part
 * of the baseline's peak; models are the same under their aliases. In the arena. */
enum ebb_status harness_compare(struct ebb_arena *arena, const struct harness_results *a,
                                const struct harness_results *b, struct harness_pairs *pairs,
                                struct ebb_error *err);

#endif
