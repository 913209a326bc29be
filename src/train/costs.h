/* costs.h - private to train: times of ops measured while steps run, and put into traces.
 *
 * An op is known by the name of its kind and a hash of its attributes, which hold shapes, layouts and
 * types: the key of a row of a profile. Times are medians, rounded to quarter octaves, so that noise
 * does not make another plan. */
#ifndef EBB_TRAIN_COSTS_H
#define EBB_TRAIN_COSTS_H

#include "device/device.h"
#include "profile/profile.h"
#include "trace/trace.h"

/* Every op that has a row costs what it says; the others keep their estimate: how many, and how much
 * of the cost is theirs. */
struct train_costs {
    uint32_t measured, estimated;
    uint64_t measured_ns, estimated_ns;
};
struct train_costs train_costs_apply(struct trace *trace, const struct profile *profile);

/* How much of the time of a trace is of ops that have rows, and how much there is: as it is now, so that
 * one clock judges both. */
void train_costs_known(const struct trace *trace, const struct profile *profile, uint64_t *known_ns,
                       uint64_t *all_ns);

/* The others (train_trial_fitted). */
struct train_fitted;
size_t train_costs_fitted(const struct trace *trace, const struct profile *profile,
                          struct train_fitted *list, size_t room, uint64_t *all_ns);

/* Measurements of some runs of some programs (train.h makes and reads them). */
struct train_times;
void train_times_add(struct train_times *times, const struct trace *trace, uint32_t op,
                     uint64_t ns);
/* A row of an algorithm, each once: files that are measured together share shapes. `times` is a struct
 * train_times. */
enum ebb_status train_times_keep(void *times, const struct profile_row *row, struct ebb_error *err);
#endif
