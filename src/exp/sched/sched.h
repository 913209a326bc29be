/* sched.h - who gets slots: one pass over agents, groups and tasks.
 *
 * A pass is a pure function of the lists it is given: it changes nothing, reads no clock, and
 * answers with one decision for each task. Applying the decisions and running it again gives no
 * further ones while the tasks of each group need the same slots, as the trials of an experiment
 * do. (In a group of different sizes the starved-group rule looks at the smallest pending task, and
 * starting that one changes it; the rule is kept as published.) The order of the lists is the order
 * of registration; everything older-first and latest-first means that order. */
#ifndef EBB_EXP_SCHED_SCHED_H
#define EBB_EXP_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum exp_sched_kind { EXP_SCHED_FAIR_SHARE, EXP_SCHED_PRIORITY };
enum exp_sched_fit { EXP_FIT_BEST, EXP_FIT_WORST };

struct exp_sched_agent {
    const char *id;
    const char *label; /* "" = none */
    int64_t slots;
};

struct exp_sched_group { /* an experiment */
    const char *id;
    double weight;     /* > 0 */
    int64_t max_slots; /* < 0 = no limit */
};

enum exp_task_state {
    EXP_TASK_PENDING,
    EXP_TASK_RUNNING,
    EXP_TASK_TERMINATING,
    EXP_TASK_TERMINATED
};

struct exp_placement {
    size_t agent; /* index */
    int64_t slots;
};

struct exp_sched_task {
    const char *id;
    const char *label;
    size_t group; /* index */
    int64_t slots;
    enum exp_task_state state;
    bool is_non_preemptible;
    const struct exp_placement *placements; /* what it holds: RUNNING and TERMINATING */
    size_t placement_count;
};

struct exp_sched_input {
    enum exp_sched_kind kind;
    enum exp_sched_fit fit;
    bool allow_partial_agents; /* a gang may take part of one larger agent when no whole ones are
                                  free */
    const struct exp_sched_agent *agents;
    size_t agent_count;
    const struct exp_sched_group *groups;
    size_t group_count;
    const struct exp_sched_task *tasks;
    size_t task_count;
};

enum exp_sched_action { EXP_SCHED_KEEP, EXP_SCHED_START, EXP_SCHED_STOP };

/* Why a pending task was not started: users ask. */
enum exp_sched_wait {
    EXP_WAIT_NONE,       /* it is not pending, or starts now */
    EXP_WAIT_SHARE,      /* its group has no share left */
    EXP_WAIT_FIT,        /* no agent has the free slots it needs, yet */
    EXP_WAIT_TOO_LARGE,  /* needs more slots than all agents of its label have: it waits for ever */
    EXP_WAIT_NEVER_FITS, /* no set of these agents, all free, could hold it (a gang takes whole
                            agents) */
};

struct exp_sched_decision {
    enum exp_sched_action action;
    enum exp_sched_wait wait;
    const struct exp_placement *placements; /* START; in the arena */
    size_t placement_count;
};

struct exp_sched_share { /* of a group; fair share only */
    bool is_counted;     /* it has a task that counts */
    int64_t demand, offered;
};

struct exp_sched_output {
    const struct exp_sched_decision *decisions; /* one for each task; in the arena */
    const struct exp_sched_share *shares;       /* one for each group; in the arena */
};

/* EBB_EINPUT: an index, weight or count that cannot be. */
enum ebb_status exp_sched_pass(const struct exp_sched_input *input, struct ebb_arena *arena,
                               struct exp_sched_output *output, struct ebb_error *err);

const char *exp_task_state_text(enum exp_task_state state); /* "PENDING", ... */
const char *exp_sched_wait_text(enum exp_sched_wait wait);

#endif
