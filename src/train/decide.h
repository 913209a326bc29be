/* decide.h - private to train: how a trace will run, decided before it runs.
 *
 * What there is (*ways*: a budget, tiers, a policy or planner) and a trace make a *choice*: a
 * proved plan and what it is predicted to do. A policy decides on the null device, a planner by
 * itself. One that fails above the floor gives way to a game of planner `floor`, which also
 * competes when nobody asked for a policy: the fastest is chosen, with the tiers or without. Below
 * the floor the answer is EBB_EBUDGET. */
#ifndef EBB_TRAIN_DECIDE_H
#define EBB_TRAIN_DECIDE_H

#include "planner/planner.h"
#include "train/engine.h"

struct train_ways {
    const struct mem_policy *policy;
    const struct planner *planner;
    bool is_default; /* nobody asked for a policy */
    bool is_free;    /* and there is a limit: planner unified */
    bool is_online;  /* a name that a policy and a planner share is the policy */
    uint64_t budget_bytes, host_bytes, file_bytes;
    uint64_t asked_bytes;  /* budget, before it was rounded down */
    const char *file_path; /* borrowed */
    struct train_link link;
    const struct profile *profile; /* of the links; borrowed */
    uint64_t seed;
    bool samples, ignores_small; /* policies: exec_options */
    void *backend;
    void *below; /* context of the host's own kernels */
    enum planner_updates updates;
    double host_slowness;
    unsigned demands;    /* OR of planner_demand */
    uint64_t state_cap;  /* most state in tier 0 */
    double margin_ratio; /* train_wishes */
    bool is_static;
    bool is_checkpointed; /* inputs of blocks stay, the rest is made again: planner_fates */
    /* Where state lives, when that is settled: programs of an engine agree on it. */
    const struct plan_homes *homes;
    bool is_settled;
};

/* Of a policy or planner; NULL: what suits the budget. EBB_EINPUT: unknown. */
enum ebb_status train_ways_name(struct train_ways *ways, const char *name, struct ebb_error *err);
void train_ways_wish(struct train_ways *ways, const struct train_wishes *wishes);
void train_ways_budget(struct train_ways *ways, uint64_t bytes);
struct exec_options train_ways_options(const struct train_ways *ways);
bool train_ways_are_measured(const struct train_ways *ways); /* their links */

struct train_choice {
    const struct trace *trace; /* borrowed, as are */
    const struct trace *plain; /* with the times that are built in; NULL: the trace has them */
    struct exec_program *exec; /* the program made of the trace */
    struct plan plan, least;   /* least: of the floor */
    uint64_t state_floor;      /* floor with all state in tier 0 */
    bool has_least, is_made, is_ready;
    struct planner_fate *fates; /* of its storages, where checkpoints were asked for; else NULL */
    struct train_program_info info;
};

void train_choice_init(struct train_choice *choice);
void train_choice_fini(struct train_choice *choice);
/* EBB_EBUDGET: below the floor, which the message and info name. */
enum ebb_status train_choice_make(const struct train_ways *ways, struct train_choice *choice,
                                  struct ebb_error *err);
enum ebb_status train_choice_floor(const struct train_ways *ways, struct train_choice *choice,
                                   uint64_t *floor_bytes, struct ebb_error *err);

#endif
