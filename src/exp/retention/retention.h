/* retention.h - which checkpoints of an experiment may go. A pure function of the list. */
#ifndef EBB_EXP_RETENTION_RETENTION_H
#define EBB_EXP_RETENTION_RETENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct exp_checkpoint {
    int64_t id, trial, step;
    bool is_completed; /* others are neither ranked nor deleted */
    bool has_metric;   /* the step was validated */
    double metric;     /* as reported; NaN ranks as the worst */
    bool is_protected; /* a trial was started from it, or somebody pinned it: never deleted, but
                          ranked */
};

struct exp_retention {
    int64_t save_experiment_best, save_trial_best, save_trial_latest;
    bool smaller_is_better;
};

/* is_deleted[i] for checkpoints[i], any order. Kept are the best of the experiment, the best of
 * each trial and the latest of each trial; one without a metric only as a latest one. Ties go to
 * the lower id. */
enum ebb_status exp_retention_select(const struct exp_checkpoint *checkpoints, size_t count,
                                     const struct exp_retention *policy, bool *is_deleted,
                                     struct ebb_error *err);

#endif
