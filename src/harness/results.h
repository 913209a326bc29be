/* results.h - what measurements gave: repetitions, their statistics, and the files of both.
 *
 *     repetitions (harness_row) --harness_summarize--> figures of one input (harness_input)
 *     settings of all models, each with its inputs = results, a JSON file
 *
 * Both files are those of the published Pareto harness, with measures of our own added: so curves
 * of others are read by the same functions. Times are milliseconds, memory is MB (1e6 bytes) under
 * the published names and bytes where a name says so.
 *
 * S1  A measure that was not taken is NaN here and -1e-06 in files, as published (absent is the
 *     same).
 * S2  Statistics depend on the values and nothing else: the resamples of a bootstrap are drawn by a
 *     fixed generator.
 * S3  Settings of one model lie together, in the order of the file. */
#ifndef EBB_HARNESS_RESULTS_H
#define EBB_HARNESS_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/status.h"
#include "base/str.h"

/* Every measure is a row: its name in files, and what is worked out for it. The published ones come
 * first, in the order of the published rows; DERIVED ones are of summaries only. */
#define HARNESS_MEASURE_LIST(X)                                                                    \
    X(TIME, "time", HARNESS_BOOTSTRAP, "ms of a repetition, by the wall clock")                    \
    X(GPU_TIME, "gpu_time", HARNESS_BOOTSTRAP, "ms of it on the device")                           \
    X(SYNC_TIME, "sync_time", HARNESS_BOOTSTRAP, "ms of it behind the last op")                    \
    X(INPUT_MEM, "input_mem", 0, "MB of the batch")                                                \
    X(MODEL_MEM, "model_mem", 0, "MB of the batch, weights, buffers and gradients")                \
    X(TOTAL_MEM, "total_mem", 0, "MB at the peak")                                                 \
    X(BASE_TIME, "base_compute_time", HARNESS_BOOTSTRAP, "ms of first runs of ops")                \
    X(REMAT_TIME, "remat_compute_time", HARNESS_BOOTSTRAP, "ms of ops that run again")             \
    X(SEARCH_TIME, "search_time", HARNESS_BOOTSTRAP, "ms of making room, cost_time included")      \
    X(COST_TIME, "cost_time", HARNESS_BOOTSTRAP, "ms of it, working out what candidates cost")     \
    X(MEMORY_BUDGET, "memory_budget", 0, "bytes; -1: none")                                        \
    X(CPU_TIME, "cpu_time", HARNESS_BOOTSTRAP, "ms of processor time, of all threads together")    \
    X(MOVE_TIME, "move_time", HARNESS_BOOTSTRAP, "ms of moving bytes within the device")           \
    X(STALL_TIME, "stall_time", HARNESS_BOOTSTRAP, "ms of waiting for copies")                     \
    X(PLAN_MS, "plan_ms", 0, "ms of deciding before the first repetition")                         \
    X(FLOOR_BYTES, "floor_bytes", 0, "least budget of the step")                                   \
    X(PEAK_BYTES, "peak_bytes", 0, "highest address of the step")                                  \
    X(OP_US, "median_op_us", 0, "median time of an op of the baseline, in us")                     \
    X(PREDICTED, "predicted_slowdown", 0, "slowdown that the plan predicts")                       \
    X(PAIR_TIME, "baseline_time", HARNESS_BOOTSTRAP, "ms of a repetition without limit beside it") \
    X(LOSS, "loss", 0, "of the repetition")                                                        \
    X(SLOWDOWN, "slowdown", HARNESS_BOOTSTRAP | HARNESS_DERIVED,                                   \
      "gpu_time over that of the baseline")                                                        \
    X(THROUGHPUT, "throughput", HARNESS_BOOTSTRAP | HARNESS_DERIVED,                               \
      "batch_size in a second of gpu_time")

enum harness_measure_flag {
    HARNESS_BOOTSTRAP = 1u << 0, /* intervals are worked out */
    HARNESS_DERIVED = 1u << 1,   /* from other measures, in summaries only */
};

enum harness_measure {
#define X(name, text, flags, about) HARNESS_##name,
    HARNESS_MEASURE_LIST(X)
#undef X
        HARNESS_MEASURES
};

struct harness_measure_info {
    const char *name;
    unsigned flags;
    const char *about;
};
extern const struct harness_measure_info harness_measure_info[HARNESS_MEASURES];

/* ---- repetitions ----------------------------------------------------------------------------- */

#define HARNESS_HASH 65 /* hexadecimal digits and the end */
#define HARNESS_WAY 80  /* names of two planners or policies */
#define HARNESS_INSTEAD " instead of "

struct harness_row {
    int64_t input, rep, num_retries;
    double values[HARNESS_MEASURES]; /* NaN: not measured */
    char gradients[HARNESS_HASH];    /* SHA-256 of all gradients; "": not known */
    char decided_by[HARNESS_WAY];    /* "unified", "floor instead of dtr_eq"; "": not known */
};

struct harness_rows {
    struct harness_row *items; /* owned */
    size_t count, capacity;
};

void harness_row_init(struct harness_row *row); /* everything NaN */
enum ebb_status harness_rows_add(struct harness_rows *rows, const struct harness_row *row,
                                 struct ebb_error *err);
void harness_rows_fini(struct harness_rows *rows);

/* CSV: names in the first line. `params` (NULL: none) are written as columns behind, the same in
 * every row; a mapping or list as JSON. Columns of other names are passed over by the reader. */
void harness_rows_write(const struct harness_rows *rows, const struct ebb_doc_node *params,
                        struct ebb_str *out);
enum ebb_status harness_rows_parse(struct harness_rows *rows, const char *name, const char *bytes,
                                   size_t length, struct ebb_error *err);
enum ebb_status harness_rows_read(struct harness_rows *rows, const char *path,
                                  struct ebb_error *err);

/* ---- statistics ------------------------------------------------------------------------------ */

struct harness_figure {
    double mean, median, std;            /* of the population; all NaN: not measured */
    double mean_conf[2], median_conf[2]; /* bootstrap intervals of 95 %; NaN: none */
};

enum { HARNESS_RESAMPLES = 10000 };

/* Values that are NaN are left out. */
enum ebb_status harness_figure_of(const double *values, size_t count, bool has_intervals,
                                  struct harness_figure *figure, struct ebb_error *err);
bool harness_is_measured(const struct harness_figure *figure);

struct harness_input { /* of one child: one input, all its repetitions */
    struct harness_figure figures[HARNESS_MEASURES];
    size_t rep_count; /* 0: the file does not say */
    uint64_t seed;
    char gradients[HARNESS_HASH]; /* of the last repetition; "": not known, or they differ */
    char decided_by[HARNESS_WAY];
};

/* Of the rows of one input; `baseline` (NULL: none) are those of the same input of the baseline,
 * for the slowdown, row by row. batch_size > 0 asks for the throughput. */
enum ebb_status harness_summarize(const struct harness_rows *rows,
                                  const struct harness_rows *baseline, double batch_size,
                                  struct harness_input *input, struct ebb_error *err);

/* ---- results --------------------------------------------------------------------------------- */

struct harness_setting {
    const char *model;
    int64_t command_id;
    int64_t num_retries;               /* -1: not told */
    const struct ebb_doc_node *params; /* "specific_params": the command, lists unfolded */
    /* What of params charts and comparisons look at. */
    const char *type, *kind;      /* "baseline", "dtr", ...; kind "": none */
    double batch_size;            /* NaN: not told */
    double memory_budget, ratio;  /* bytes, -1: no limit, of kind ratio too; NaN: not told */
    const char *error;            /* NULL: it was measured; else why not ("error" when published) */
    int64_t error_input;          /* whose trial failed */
    struct harness_input *inputs; /* one per input, when measured */
    size_t input_count;
};

struct harness_results {
    const char *file;                                           /* for messages; may be NULL */
    const char *timestamp, *start_time, *end_time, *time_delta; /* NULL: not told */
    const struct ebb_doc_node *machine; /* what it was measured on and how; NULL: not told */
    struct harness_setting *settings;
    size_t count, capacity;
};

/* Everything is in the arena; the files' own texts as well. */
enum ebb_status harness_results_parse(struct ebb_arena *arena, const char *name, const char *bytes,
                                      size_t length, struct harness_results *results,
                                      struct ebb_error *err);
enum ebb_status harness_results_read(struct ebb_arena *arena, const char *path,
                                     struct harness_results *results, struct ebb_error *err);
/* A new setting at the end, with what params say; NULL: memory is out. */
struct harness_setting *harness_results_add(struct ebb_arena *arena,
                                            struct harness_results *results, const char *model,
                                            const struct ebb_doc_node *params);
void harness_results_format(const struct harness_results *results, struct ebb_str *out);
enum ebb_status harness_results_write(const struct harness_results *results, const char *path,
                                      struct ebb_error *err);

/* One measure of a setting: the median over its inputs of their medians, and the interval that goes
 * with it (of one input its own, of several the medians of both ends). NaN: not measured. */
struct harness_point {
    double value, low, high;
};
struct harness_point harness_setting_point(const struct harness_setting *setting,
                                           enum harness_measure measure);
/* The baseline of a setting: same model and batch size, measured; NULL: none. A baseline is its
 * own. */
const struct harness_setting *harness_baseline(const struct harness_results *results,
                                               const struct harness_setting *setting);
/* Slowdown of a setting: its own figure, else its time over the baseline's (published files have it
 * for kind ratio only). NaN: it or the baseline was not measured. */
struct harness_point harness_slowdown(const struct harness_results *results,
                                      const struct harness_setting *setting);
/* What ran in the place of the policy or planner that was asked for, which found no way in this
 * budget: "floor instead of dtr_eq"; NULL: nothing did, or it is not told. */
const char *harness_fallback(const struct harness_setting *setting);
/* Budget as a part of the baseline's peak; of kind ratio what the file asked for. NaN: unknown. */
double harness_setting_ratio(const struct harness_results *results,
                             const struct harness_setting *setting);
bool harness_is_baseline(const struct harness_setting *setting);
/* Published names are aliases of the zoo's. */
bool harness_same_model(const char *a, const char *b);
/* Where the settings of the model at `from` end. */
size_t harness_model_end(const struct harness_results *results, size_t from);

#endif
