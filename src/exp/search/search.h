/* search.h - which trials exist, and how many steps each gets.
 *
 * A search is a pure state machine: events in, operations out. It knows no clock, file or thread;
 * its randomness is one generator inside. So a search is a function of (configuration, seed, order
 * of events): whoever keeps the events can make it again by telling them again. README.md beside this file has the nouns, the numbered rules (S1..S9) and
 * how to add a method.
 *
 * Ownership: a search borrows the configuration and the space for its whole life. One thread owns
 * it. */
#ifndef EBB_EXP_SEARCH_SEARCH_H
#define EBB_EXP_SEARCH_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/status.h"
#include "exp/config/config.h"

/* ---- names of trials ---- */

/* Names a trial before it has a number. Compared as bytes (memcmp) wherever an order is needed. */
struct exp_request_id {
    uint8_t bytes[16];
};

#define EXP_REQUEST_TEXT 37 /* 36 characters and the end */

const char *exp_request_format(struct exp_request_id id, char text[EXP_REQUEST_TEXT]);
/* Lower or upper case hexadecimal digits with four hyphens; false: text is none. */
bool exp_request_parse(const char *text, size_t length, struct exp_request_id *id);

/* ---- samples ---- */

/* One hyperparameter's value. A sample is an array of them, one for each parameter of the space, in
 * the space's order. Nodes are borrowed from the space. */
enum exp_value_kind { EXP_VALUE_NODE, EXP_VALUE_INT, EXP_VALUE_DOUBLE };

struct exp_value {
    enum exp_value_kind kind;
    union {
        const struct ebb_doc_node *node; /* const and categorical parameters */
        int64_t integer;
        double number;
    };
};

/* Draws, in the order of the space, one number each, as `ebb dev vectors` proves. */
void exp_sample(const struct exp_hparams *space, struct ebb_mt19937 *rng, struct exp_value *sample);
struct exp_value exp_sample_one(const struct exp_hparam *param, struct ebb_mt19937 *rng);

/* Points of one parameter on a grid, and of the whole space (the last name varies fastest). An int,
 * double or log parameter without count has none: 0. The product saturates at UINT64_MAX. */
uint64_t exp_grid_count(const struct exp_hparam *param);
struct exp_value exp_grid_value(const struct exp_hparam *param, uint64_t i);
uint64_t exp_grid_size(const struct exp_hparams *space);
void exp_grid_point(const struct exp_hparams *space, uint64_t point, struct exp_value *sample);

/* PBT's step from a parent's sample to a child's. child may be parent. */
void exp_explore(const struct exp_hparams *space, const struct exp_searcher *pbt,
                 struct ebb_mt19937 *rng, const struct exp_value *parent, struct exp_value *child);

/* Name -> value; NULL when memory is out. */
struct ebb_doc_node *exp_sample_doc(struct ebb_arena *arena, const struct exp_hparams *space,
                                    const struct exp_value *sample);

/* ---- operations ---- */

enum exp_op_kind {
    EXP_OP_CREATE,
    EXP_OP_TRAIN,      /* steps first_step..last_step, contiguous with what was asked before */
    EXP_OP_VALIDATE,   /* at the end of last_step */
    EXP_OP_CHECKPOINT, /* at the end of last_step */
    EXP_OP_CLOSE,      /* the trial ends once everything asked for is done */
    EXP_OP_SHUTDOWN,   /* no more operations will come */
};

struct exp_op {
    enum exp_op_kind kind;
    bool is_failure; /* SHUTDOWN: the experiment failed (S8) */
    uint32_t trial;  /* 0, 1, ... in the order of creation; none for SHUTDOWN */
    struct exp_request_id request;
    int64_t first_step, last_step;
    size_t create; /* CREATE: index into ops->creates */
};

struct exp_create {
    uint32_t trial_seed; /* < 2^31 */
    bool has_source;     /* start from the newest checkpoint of `source`, taken at source_step */
    struct exp_request_id source;
    int64_t source_step;
    size_t values; /* first value in ops->values; there is one for each parameter */
};

/* A growing list; consecutive Train operations are one entry, so that it is as long as there are
 * decisions, not steps. */
struct exp_ops {
    struct exp_op *items;
    size_t count, capacity;
    struct exp_create *creates;
    size_t create_count, create_capacity;
    struct exp_value *values;
    size_t value_count, value_capacity;
};

void exp_ops_init(struct exp_ops *ops);
void exp_ops_fini(struct exp_ops *ops);
void exp_ops_clear(struct exp_ops *ops); /* keeps the memory */
/* The sample of a CREATE as a mapping, in `arena`. */
enum ebb_status exp_ops_hparams(const struct exp_ops *ops, const struct exp_op *op,
                                const struct exp_hparams *space, struct ebb_arena *arena,
                                const struct ebb_doc_node **hparams, struct ebb_error *err);
/* One operation as a JSON object; `hparams` (NULL unless CREATE) as made by exp_ops_hparams. */
void exp_op_write(const struct exp_ops *ops, const struct exp_op *op,
                  const struct ebb_doc_node *hparams, struct ebb_json_writer *w);

/* ---- events ---- */

enum exp_event_kind {
    EXP_EVENT_CREATED,      /* request, trial_id */
    EXP_EVENT_TRAINED,      /* step; completions may be batched: all steps up to it are done */
    EXP_EVENT_VALIDATED,    /* step, metric as reported (NaN allowed) */
    EXP_EVENT_CHECKPOINTED, /* step */
    EXP_EVENT_CLOSED,
    EXP_EVENT_EXITED, /* reason: it will do nothing more; no CLOSED needs to follow */
};

enum exp_exit_reason {
    EXP_EXIT_ERRORED,       /* restarts used up */
    EXP_EXIT_INVALID_HP,    /* the model says that the sample makes no sense */
    EXP_EXIT_USER_CANCELED, /* ended by hand */
};

struct exp_event {
    enum exp_event_kind kind;
    struct exp_request_id request;
    int64_t trial_id; /* CREATED: the number it got */
    int64_t step;
    double metric;
    enum exp_exit_reason reason;
};

const char *exp_event_name(enum exp_event_kind kind); /* "trial_created", ... */
const char *exp_exit_name(enum exp_exit_reason reason);
/* {"type":"validation_completed","request_id":...,"step":...,"metric":...}: one form for the event
 * log and for external search programs. Non-finite metrics are the strings "NaN", "Infinity",
 * "-Infinity". */
void exp_event_write(const struct exp_event *event, struct ebb_json_writer *w);
enum ebb_status exp_event_read(const struct ebb_doc_node *node, struct exp_event *event,
                               struct ebb_error *err);

/* false: neither a number nor one of those strings. */
bool exp_metric_read(const struct ebb_doc_node *node, double *value);
/* The value of `metric` in a validation result. Missing, null or no number: EBB_EINPUT, listing the
 * names that are there. Infinities and NaN come as the strings above. */
enum ebb_status exp_metric_find(const struct ebb_doc_node *metrics, const char *metric,
                                double *value, struct ebb_error *err);
/* What methods minimise: the sign turned when larger is better; NaN is the worst (DBL_MAX). */
double exp_metric_signed(double reported, bool smaller_is_better);

/* ---- searches ---- */

struct exp_search;

/* seed: experiment_seed. EBB_EINPUT when the settings cannot make a search (no trial at all, a grid
 * parameter without count). */
enum ebb_status exp_search_create(const struct exp_searcher *config,
                                  const struct exp_hparams *space, enum exp_trial_failure failure,
                                  uint32_t seed, struct exp_search **search, struct ebb_error *err);
void exp_search_destroy(struct exp_search *search);

/* The first operations; call once, before any event. */
enum ebb_status exp_search_start(struct exp_search *search, struct exp_ops *ops,
                                 struct ebb_error *err);
/* Appends to `ops` what follows from the event. EBB_EINPUT: the event cannot be (unknown trial, a
 * step nobody asked for), nothing has changed. Any other failure (memory) leaves a search that only
 * refuses: make it again from its events. On failure `ops` is as before. */
enum ebb_status exp_search_event(struct exp_search *search, const struct exp_event *event,
                                 struct exp_ops *ops, struct ebb_error *err);

double exp_search_progress(const struct exp_search *search); /* 0..1 */
/* The trial's index (0, 1, ... in the order of creation). */
bool exp_search_find(const struct exp_search *search, struct exp_request_id request,
                     uint32_t *trial);
/* Have its values been called invalid by another trial (*by, an index)? Then it need not be tried. */
bool exp_search_refused_by(const struct exp_search *search, uint32_t trial, uint32_t *by);
/* The bracket that made a trial: an index into the shape; 0 for methods without brackets. */
size_t exp_search_bracket(const struct exp_search *search, uint32_t trial);

/* ---- shape of a halving search ---- */

struct exp_rung_shape {
    int64_t steps;   /* cumulative */
    int64_t start;   /* trials that enter; asynchronous: 0 */
    int64_t promote; /* trials that leave upward; asynchronous: 0 */
};

struct exp_bracket_shape {
    struct exp_rung_shape *rungs; /* in the arena */
    size_t rung_count;
    int64_t expected_workloads;         /* synchronous only */
    int64_t max_trials, initial_trials; /* synchronous: both the first rung's start */
};

struct exp_shape {
    const struct exp_bracket_shape *brackets; /* in the order they start; in the arena */
    size_t count;                             /* 0 for methods without brackets */
};

enum ebb_status exp_search_shape(const struct exp_searcher *config, struct ebb_arena *arena,
                                 struct exp_shape *shape, struct ebb_error *err);

/* ---- simulation ---- */

struct exp_sim_trial {
    struct exp_request_id request;
    uint32_t trial_seed;
    bool is_closed;
    uint32_t bracket;
    int64_t steps;
    int64_t from_trial, from_step;      /* 1-based index of the parent; 0 = none */
    const char *workloads;              /* "12S 1V 38S 1V" */
    const char *validated_at;           /* "12 50" */
    const struct ebb_doc_node *hparams; /* NULL unless asked for */
};

struct exp_sim {
    struct exp_sim_trial *trials; /* in the order of creation; in the arena */
    size_t trial_count;
    int64_t initial_operations; /* every single train step counts */
    int64_t total_steps, total_validations, total_checkpoints;
    bool is_shut_down;
    double *progress; /* after each workload; NULL unless asked for */
    size_t workload_count;
    double final_progress;
};

struct exp_sim_options {
    /* Metric of trial index t (1, 2, ...) at its step s. */
    double (*metric)(void *context, int64_t t, int64_t s);
    void *context;
    bool wants_hparams, wants_progress;
    int64_t max_workloads; /* EBB_ELIMIT beyond; 0 = no limit */
};

/* Run a search to its end with a single first-in first-out queue of operations, each completing at
 * once (the order the reference cases are made with). */
enum ebb_status exp_sim_run(struct exp_search *search, const struct exp_hparams *space,
                            const struct exp_sim_options *options, struct ebb_arena *arena,
                            struct exp_sim *sim, struct ebb_error *err);

#endif
