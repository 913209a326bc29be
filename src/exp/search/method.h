/* method.h - between the search (search.c: bookkeeping that is the same for all) and a method.
 *
 * Private to exp/search. A method is a const table of functions over its own state. It names trials
 * by index (0, 1, ... in order of creation), asks by exp_search_ask_*, and hears only of what it
 * asked for, once (S1, S2). Callbacks never see the trial's numbers twice, a NaN, or a turned sign.
 */
#ifndef EBB_EXP_SEARCH_METHOD_H
#define EBB_EXP_SEARCH_METHOD_H

#include "base/map.h"
#include "exp/search/ranks.h"
#include "exp/search/search.h"

#define EXP_NO_TRIAL UINT32_MAX

struct exp_search_method {
    bool limits_itself; /* max_concurrent_trials is the method's business, not search.c's */
    size_t state_bytes; /* zeroed by search.c */

    /* Brackets and rungs that follow from the settings; NULL = it has none. */
    enum ebb_status (*shape)(const struct exp_searcher *config, struct ebb_arena *arena,
                             struct exp_shape *shape, struct ebb_error *err);
    /* Check the settings, compute what follows from them; no draws. */
    enum ebb_status (*init)(struct exp_search *s, struct ebb_error *err);
    void (*fini)(struct exp_search *s); /* also after a failed init */
    enum ebb_status (*start)(struct exp_search *s, struct ebb_error *err);
    /* NULL = does not care. */
    enum ebb_status (*trained)(struct exp_search *s, uint32_t trial, int64_t step,
                               struct ebb_error *err);
    enum ebb_status (*validated)(struct exp_search *s, uint32_t trial, int64_t step, double metric,
                                 struct ebb_error *err);
    enum ebb_status (*checkpointed)(struct exp_search *s, uint32_t trial, int64_t step,
                                    struct ebb_error *err);
    enum ebb_status (*closed)(struct exp_search *s, uint32_t trial, struct ebb_error *err);
    /* has_work: something was asked for and will never be done. */
    enum ebb_status (*exited)(struct exp_search *s, uint32_t trial, enum exp_exit_reason reason,
                              bool has_work, struct ebb_error *err);
    /* Workloads of this trial are done (before trained/validated/checkpointed). NULL = fine. */
    void (*worked)(struct exp_search *s, uint32_t trial, int64_t workloads);
    /* A result of the rung a trial is in (brackets.h); NULL = there are no brackets. */
    enum ebb_status (*report)(struct exp_search *s, uint32_t trial, double metric,
                              struct ebb_error *err);
    double (*progress)(const struct exp_search *s);                /* unclamped */
    size_t (*bracket)(const struct exp_search *s, uint32_t trial); /* NULL = 0 */
};

#define X(KIND, name, method) extern const struct exp_search_method exp_method_##method;
EXP_SEARCHERS(X)
#undef X

/* NULL: no such kind, or no method: what files may say and nobody runs (exp/config/unbuilt.c). */
const struct exp_search_method *exp_method_find(enum exp_searcher_kind kind);

/* A validation or checkpoint that was asked for and is not done; a list for each trial in a common
 * pool. */
struct exp_wanted {
    int64_t step;
    uint32_t next; /* EXP_NO_TRIAL ends; also links free entries */
    bool is_checkpoint;
};

struct exp_search_trial {
    struct exp_request_id id;
    uint64_t sample;            /* a hash of its values */
    int64_t requested, trained; /* steps asked for, steps done */
    int64_t checkpoint;         /* last step checkpointed, asked for or not; 0 = none */
    uint32_t wanted;            /* head in the pool */
    uint32_t held_ops;          /* S6: operations that wait with its creation; 0 = it is out */
    bool is_close_asked, is_closed, is_exited;
    bool is_completed; /* closed without having failed */
    bool is_replaced;  /* exited, and another one counts instead of it */
};

struct exp_ready {
    uint32_t trial;
    int64_t step;
};

struct exp_search {
    const struct exp_search_method *method;
    const struct exp_searcher *config; /* borrowed */
    const struct exp_hparams *space;   /* borrowed */
    enum exp_trial_failure failure;
    struct ebb_mt19937 rng;
    struct ebb_arena arena; /* shape and other things of the search's life */

    struct exp_search_trial *trials;
    size_t trial_count, trial_capacity;
    struct ebb_strmap ids; /* 16 bytes of id -> index */
    struct exp_wanted *wanted;
    size_t wanted_count, wanted_capacity;
    uint32_t wanted_free;

    uint64_t workloads;
    size_t closed_count, completed_count;
    size_t busy_count;      /* trials with something asked for and not done */
    int64_t invalid_row;    /* INVALID_HP exits since the last validation (S9) */
    struct ebb_map invalid; /* hashes of samples that are not valid -> the trial that said so */
    bool is_started, is_shut_down, is_broken;

    struct exp_ops held;     /* S6: operations of trials whose creation waits */
    size_t held_at;          /* first not yet released */
    struct exp_ready *ready; /* S3: checkpoints asked for that had already happened */
    size_t ready_count, ready_capacity, ready_at;

    struct exp_ops *out;       /* where operations go, during a call */
    struct exp_value *scratch; /* one sample */
    void *state;               /* the method's, state_bytes */
};

/* ---- what a method may ask for; each appends operations ---- */

struct exp_identity {
    struct exp_request_id id;
    uint32_t seed;
};

/* Steps (2) and (3) of the draw order for a new trial. */
void exp_search_draw_identity(struct exp_search *s, struct exp_identity *identity);

struct exp_new_trial {
    struct exp_identity identity;
    const struct exp_value *sample; /* borrowed for the call */
    uint32_t parent;                /* EXP_NO_TRIAL = none */
    int64_t parent_step;
};

enum ebb_status exp_search_ask_create(struct exp_search *s, const struct exp_new_trial *trial,
                                      uint32_t *index, struct ebb_error *err);
/* Train from what was asked so far up to `step`, validate there. */
enum ebb_status exp_search_ask_train(struct exp_search *s, uint32_t trial, int64_t step,
                                     struct ebb_error *err);
enum ebb_status exp_search_ask_checkpoint(struct exp_search *s, uint32_t trial, int64_t step,
                                          struct ebb_error *err);
enum ebb_status exp_search_ask_close(struct exp_search *s, uint32_t trial, struct ebb_error *err);
/* Draw a sample and an identity, create, train 0..step, validate. */
enum ebb_status exp_search_ask_sampled(struct exp_search *s, int64_t step, uint32_t *index,
                                       struct ebb_error *err);

/* Draw a sample into `sample`, again while it is one that is known to be invalid (S9). */
void exp_search_draw(struct exp_search *s, struct exp_value *sample);
/* Did a trial call these values invalid? */
bool exp_search_is_refused(const struct exp_search *s, const struct exp_value *sample);
/* How often a draw is repeated for that; then it is taken as it is. */
#define EXP_DRAWS_MAX 10000
/* Append one operation list entry to another list, sample included. */
enum ebb_status exp_ops_copy(struct exp_ops *to, const struct exp_ops *from,
                             const struct exp_op *op, size_t params, struct ebb_error *err);

/* ---- shapes (shape.c) ---- */

enum ebb_status exp_shape_synchronous(const struct exp_searcher *config, struct ebb_arena *arena,
                                      struct exp_shape *shape, struct ebb_error *err);
enum ebb_status exp_shape_asynchronous(const struct exp_searcher *config, struct ebb_arena *arena,
                                       struct exp_shape *shape, struct ebb_error *err);
/* trunc() to a non-negative integer that later sums of a million cannot overflow; NaN gives 0. */
int64_t exp_trunc(double value);

#endif
