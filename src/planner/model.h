/* model.h - the conservation ("flow") model of a planner graph, over groups of stages (private to
 * planner).
 *
 * A *group* is a run of consecutive nodes that are first run in it, in order; before them the group
 * may run earlier nodes again. One node per group is the full model (every schedule of the
 * published model); one group for the whole forward pass is the merged model. Only S (kept into a
 * group) is integer.
 *
 * Per group g and item i with presence P = S + R (or 1 when made here) and consumers k_1 < ... <
 * k_m that can run in g: P <= 1;  R[k_j] <= P - sum_{l<j} F_l;  S[g+1] <= P - sum_{l<m} F_l; and
 * the last consumer releases what is left and not kept: F_m = P - sum_{l<m} F_l - S[g+1]. No F is
 * needed before the last consumer that certainly runs. U[k] = U[k-1] + made(k) - released(k-1) <=
 * budget.
 *
 * With lower tiers P = S + R + IN, and the rest is rows of model_links.c. */
#ifndef EBB_PLANNER_MODEL_H
#define EBB_PLANNER_MODEL_H

#include "planner/graph.h"
#include "planner/mip.h"
#include "planner/planner.h"
#include "planner/sched.h"

struct planner_groups { /* arrays belong to an arena */
    uint32_t *begin;    /* group_count + 1 entries; begin[0] = 0, begin[count] = node count */
    uint32_t *of;       /* node -> group */
    uint32_t count;
    bool *can_rerun; /* node may run in a later group */
    bool is_flow; /* one node per group, everything may run again: bounds hold for every schedule */
};

enum planner_level {
    PLANNER_LEVEL_MERGED, /* one forward group; only forward nodes run again */
    PLANNER_LEVEL_PLUS,   /* and gradients with a late reader, with what they read */
    PLANNER_LEVEL_BACK,   /* one forward group; everything runs again */
    PLANNER_LEVEL_FULL,
};

enum ebb_status planner_groups_make(struct planner_groups *groups, struct ebb_arena *arena,
                                    const struct planner_graph *g, enum planner_level level,
                                    struct ebb_error *err);

struct planner_model { /* all zero: none, which may be finished, too */
    const struct planner_graph *graph;
    struct ebb_arena arena; /* owns groups and columns */
    struct planner_groups groups;
    struct planner_mip mip;
    int *s_col;       /* [group * item_count + item]; PLANNER_CELL_* when no column */
    int *r_col;       /* [group * node_count + node] */
    double mem_scale; /* bytes x scale = units of the model */
    double cost_scale;
    size_t binary_count;
    /* With lower tiers only (NULL otherwise), per tier, indexed as s_col: a copy is sent during the
     * group; it has come when the group begins. */
    int *out_col[DEVICE_TIERS], *in_col[DEVICE_TIERS];
    int *coming_col[DEVICE_TIERS], *going_col[DEVICE_TIERS]; /* parts in flight: they take room */
    const struct planner_tiers *tiers;
};
#define PLANNER_CELL_ZERO (-1)
#define PLANNER_CELL_ONE (-2)

/* tiers (may be NULL): what is sent and fetched goes beside the ops, over links that carry one copy
 * after the other, and the objective is the time of all groups (model_links.c). */
enum ebb_status planner_model_build(struct planner_model *model, const struct planner_graph *graph,
                                    enum planner_level level, uint64_t budget,
                                    const struct planner_tiers *tiers, struct ebb_error *err);
/* Its part about copies, called while it is built: S and R have their columns. */
enum ebb_status planner_model_links(struct planner_model *model, struct ebb_error *err);
void planner_model_fini(struct planner_model *model);

/* Columns to schedule (S rounded at 0.5), not yet evaluated. */
void planner_model_extract(const struct planner_model *model, const double *x,
                           struct planner_sched *sched);
/* Value of S[g][i] in a schedule whose stages are finer than the groups. */
bool planner_model_cell(const struct planner_model *model, const struct planner_sched *sched,
                        uint32_t group, uint32_t item);
/* Objective value of the model -> bound on the integer cost (rounded up to the gcd of costs where
 * that is safe). */
double planner_model_cost(const struct planner_model *model, double objective);
/* The same for any program: what a solver's value of a minimum proves about integer costs. */
double planner_bound_cost(const struct planner_graph *graph, double cost);

#endif
