/* sequence.h - which workload one trial does next.
 *
 * A pure state machine for each trial: operations of the search and completions come in, the next
 * workload comes out. It also decides what preemption and a lost process mean. Invariants:
 *
 *  Q1  At a step boundary the order is train, validate, checkpoint.
 *  Q2  A process ends only with its last step checkpointed, unless it crashes.
 *  Q3  Wishes (validation, checkpoint at a step) outlive a rollback, so the same ones are done
 *      again.
 *  Q4  Memory is bounded by the wishes since the last checkpoint, not by the steps.
 *  Q5  A trial that is over (patience) trains no more; what was asked beyond that is told as done, in
 *      the order in which it would have been. */
#ifndef EBB_EXP_SEQUENCE_SEQUENCE_H
#define EBB_EXP_SEQUENCE_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/doc.h"
#include "base/json.h"
#include "base/status.h"
#include "exp/config/config.h"
#include "exp/search/search.h"

enum exp_workload_kind {
    EXP_WORK_TRAIN, /* step = the one after the last completed */
    EXP_WORK_VALIDATE,
    EXP_WORK_CHECKPOINT,
    EXP_WORK_TERMINATE, /* nothing to do, or a stop was asked for: the process ends, slots are free
                         */
};

struct exp_workload {
    enum exp_workload_kind kind;
    int64_t step;
};

struct exp_sequence_rules {
    int64_t min_validation_period, min_checkpoint_period; /* 0 = none */
    enum exp_checkpoint_policy checkpoint_policy;
    int64_t max_restarts;
    int64_t patience; /* validations without a better one after which the trial is over; 0 = none */
};

struct exp_wish { /* what is to be done at a step besides training it */
    int64_t step;
    bool validation, checkpoint;
};

struct exp_watch { /* validations so far */
    bool has_metric;
    double best;   /* smaller is better */
    int64_t since; /* validations since the best one */
};

struct exp_sequence {
    struct exp_sequence_rules rules;
    int64_t requested;                   /* steps the search asked for */
    int64_t current;                     /* last completed step; 0 = none */
    bool has_validation, has_checkpoint; /* done for `current`; true for step 0 */
    int64_t checkpoint;                  /* step of the last checkpoint; 0 = none */
    int64_t restarts;                    /* failures so far, never reset */
    struct exp_watch watch, watch_kept;  /* now; when the last checkpoint was made */
    struct exp_wish told;                /* of a trial that is over: what was told as done */
    struct exp_wish *wishes;             /* ascending by step, from the last checkpoint on */
    size_t wish_count, wish_capacity;
    int64_t validation_before,
        checkpoint_before; /* last wished step that was dropped from the list */
    bool is_close_asked;
    bool is_stop_asked; /* end gracefully as soon as possible (preemption, pause, cancel) */
    bool is_running;    /* a process exists */
    bool is_busy;       /* it was given `work` */
    bool is_failed;     /* restarts are used up */
    struct exp_workload work;
};

void exp_sequence_init(struct exp_sequence *sequence, const struct exp_sequence_rules *rules);
void exp_sequence_fini(struct exp_sequence *sequence);

/* An operation of the search for this trial: TRAIN (contiguous), VALIDATE, CHECKPOINT (not before
 * the current step), CLOSE. Others and impossible ones: EBB_EINPUT. */
enum ebb_status exp_sequence_ask(struct exp_sequence *sequence, const struct exp_op *op,
                                 struct ebb_error *err);

/* There is work: the trial wants slots. */
bool exp_sequence_has_work(const struct exp_sequence *sequence);
/* Closed by the search, everything done, no process left: the trial is complete. */
bool exp_sequence_is_done(const struct exp_sequence *sequence);

/* A process starts, from the checkpoint of the returned step (0 = none of its own). */
int64_t exp_sequence_start(struct exp_sequence *sequence);
/* The next workload for the running process. */
struct exp_workload exp_sequence_peek(const struct exp_sequence *sequence);
/* The same; it counts as begun. */
struct exp_workload exp_sequence_next(struct exp_sequence *sequence);
/* The begun workload is complete. is_best: a validation better than all before it in the experiment
 * (exp_best_update); ignored otherwise. TERMINATE is completed by the exit. */
enum ebb_status exp_sequence_complete(struct exp_sequence *sequence,
                                      const struct exp_workload *work, bool is_best,
                                      struct ebb_error *err);
/* The metric of a validation that is about to be complete, its sign turned: smaller is better (NaN is
 * DBL_MAX). True: the trial is over by it. */
bool exp_sequence_watch(struct exp_sequence *sequence, double metric);
bool exp_sequence_is_over(const struct exp_sequence *sequence);
/* Of a trial that is over and has no process: the next of what was asked for and will not be done; it
 * counts as done. TRAIN stands for all steps up to its own. False: there is nothing. */
bool exp_sequence_skip(struct exp_sequence *sequence, struct exp_workload *work);
/* Ask for a graceful end; the workload in progress is never interrupted. */
void exp_sequence_stop(struct exp_sequence *sequence);

enum exp_sequence_exit {
    EXP_SEQUENCE_ENDED,       /* told to terminate, and did */
    EXP_SEQUENCE_ROLLED_BACK, /* failed: state is that of the last checkpoint; delete what came
                                 after it */
    EXP_SEQUENCE_FAILED,      /* failed once too often */
    EXP_SEQUENCE_UNCHANGED,   /* no process had started: nothing is counted */
};

enum exp_sequence_end {
    EXP_END_CLEAN, /* exit status 0 of its leader */
    EXP_END_FAULT, /* counts as a failure */
    EXP_END_LOST,  /* nobody knows, or it was not its fault: rolled back, nothing is counted */
    EXP_END_VAIN,  /* no later start can go better: failed now, nothing is counted */
};

/* The process is gone. */
enum exp_sequence_exit exp_sequence_exit(struct exp_sequence *sequence, enum exp_sequence_end end);

/* The last checkpoint is lost: back to that of an earlier step (0 = none). A process that is there
 * goes on; having ended without another checkpoint it is rolled back to that step. */
void exp_sequence_rewind(struct exp_sequence *sequence, int64_t step);

/* Saved form, at any moment; a loaded sequence has no process (it is rolled back to its
 * checkpoint; exp_sequence_unroll: it is not, the process may still be there). */
void exp_sequence_save(const struct exp_sequence *sequence, struct ebb_json_writer *w);
enum ebb_status exp_sequence_load(struct exp_sequence *sequence,
                                  const struct exp_sequence_rules *rules,
                                  const struct ebb_doc_node *node, struct ebb_error *err);

void exp_sequence_unroll(struct exp_sequence *sequence, const struct ebb_doc_node *node);

/* ---- the best validation of an experiment: all its trials compete ---- */

struct exp_best {
    bool has_metric;
    double metric; /* sign turned: smaller is better */
};

/* True if this one is the first or strictly better than every earlier one; then it is remembered.
 */
bool exp_best_update(struct exp_best *best, double reported, bool smaller_is_better);

#endif
