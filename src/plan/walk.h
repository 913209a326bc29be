/* walk.h - one step of a plan applied to the state of memory; private to plan.
 *
 * The checker and the offset assignment both replay a plan; this is the only place that knows what
 * a step does to residency, versions and copies. It knows nothing of addresses: `extra` tells the
 * caller what lies in tier 0 for the duration of a RUN besides the residents (workspace and
 * scratch). */
#ifndef EBB_PLAN_WALK_H
#define EBB_PLAN_WALK_H

#include "plan/plan.h"

struct plan_residence {
    uint32_t version;          /* of the contents, valid when is_filled */
    uint32_t copy[PLAN_TIERS]; /* version + 1 of the copy in tier 1, 2; 0 = none */
    bool is_placed, is_filled;
};

struct plan_walk {
    const struct trace *trace;
    const struct plan *plan;
    struct plan_residence *storages; /* owned */
    uint32_t *run_counts;            /* owned; per op */
    uint64_t resident_bytes;         /* of every placed storage */
    uint64_t tier_bytes[PLAN_TIERS]; /* copies in tier 1, 2 */
    uint64_t extra_bytes;            /* of the last RUN: workspace + scratch; 0 after other steps */
};

enum ebb_status plan_walk_init(struct plan_walk *walk, const struct trace *trace,
                               const struct plan *plan, struct ebb_error *err);
void plan_walk_fini(struct plan_walk *walk);
/* Apply step `at`; EBB_EINPUT names the step and what is wrong. */
enum ebb_status plan_walk_step(struct plan_walk *walk, size_t at, struct ebb_error *err);
/* After the last step: every op ran, the keep set is resident. */
enum ebb_status plan_walk_end(const struct plan_walk *walk, struct ebb_error *err);

/* Bytes that `bytes` take in this plan (rounded unless exact). */
static inline uint64_t plan_size(const struct plan *plan, uint64_t bytes)
{
    return plan->exact_bytes ? bytes : plan_round(bytes);
}

#endif
