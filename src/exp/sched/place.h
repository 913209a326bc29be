/* place.h - finding agents for a task. Private to exp/sched. */
#ifndef EBB_EXP_SCHED_PLACE_H
#define EBB_EXP_SCHED_PLACE_H

#include "exp/sched/sched.h"

struct exp_sched_cluster {
    const struct exp_sched_input *input;
    int64_t *free;  /* slots of each agent; falls as tasks start */
    uint64_t *hash; /* of each agent's address */
    struct ebb_arena *arena;
};

/* Fill in what the tasks hold. */
enum ebb_status exp_sched_cluster_init(struct exp_sched_cluster *cluster,
                                       const struct exp_sched_input *input, struct ebb_arena *arena,
                                       struct ebb_error *err);
/* Slots of all agents with this label, used or not. */
int64_t exp_sched_capacity(const struct exp_sched_input *input, const char *label);

/* Place the task and take the slots: decision becomes START; else its `wait` says why not. */
enum ebb_status exp_sched_place(struct exp_sched_cluster *cluster, size_t task,
                                struct exp_sched_decision *decision, bool *is_placed,
                                struct ebb_error *err);

#endif
