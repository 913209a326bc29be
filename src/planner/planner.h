/* planner.h - trace + budget -> checked plan: one table of planners.
 *
 * A planner decides offline what is kept and what is run again. Every answer passes plan_check
 * before it is handed out; peak, height and cost in the result are the checker's. For graph files
 * the budget counts bytes as they are and the peak is a byte sum; for other traces sizes are
 * rounded to 256 bytes and a plan counts only if its packed height fits the budget, unless whoever
 * runs it gives addresses itself (no_addresses): then the sum of bytes decides there, too.
 *
 * Decisions depend on trace, request and table only. `time_limit_s` and `effort` bound the search;
 * with a time limit that strikes, two machines may answer differently (both answers are checked
 * plans). */
#ifndef EBB_PLANNER_PLANNER_H
#define EBB_PLANNER_PLANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "device/device.h"
#include "plan/plan.h"
#include "trace/trace.h"

/* What the default goes by, here and in training. */
#define PLANNER_MOST_OVERHEAD 20.0 /* a policy that takes longer has failed in its dry run */
#define PLANNER_MOST_WORK 64000000 /* or looks at more: well below a second */
#define PLANNER_ALL_HIDDEN 1.0005  /* nothing is left to gain */

enum planner_status {
    PLANNER_OK,
    PLANNER_INFEASIBLE,     /* proved, or this planner has no schedule within the budget */
    PLANNER_TIMEOUT,        /* nothing found in the time given, nothing proved */
    PLANNER_NOT_APPLICABLE, /* the trace lacks what the planner needs (reason in `note`) */
};

enum planner_bound { /* what a lower bound is valid for */
                     PLANNER_BOUND_NONE,
                     PLANNER_BOUND_MERGED, /* schedules that run nothing again during the forward
                                              pass */
                     PLANNER_BOUND_FLOW,   /* every schedule of the published model */
                     PLANNER_BOUND_JOINT,  /* plans with copies to lower tiers, too */
};

/* Parameters of single strategies; zero / NULL = their own default or sweep. */
struct planner_params {
    const uint32_t *order; /* chen_*: iteration order of the candidate set; borrowed */
    size_t order_count;
    const uint32_t *forward_order; /* chen_greedy: order of the walk; borrowed */
    size_t forward_order_count;
    double segment_bytes;   /* chen_greedy: threshold; NaN = sweep, best within the budget */
    uint32_t sweep_points;  /* chen_greedy sweep; 0 = 300 */
    int32_t slots;          /* griewank: snapshots; -1 = sweep */
    double lp_threshold;    /* lp_round: NaN = sweep 0.1 .. 0.9 */
    uint32_t random_rounds; /* lp_round: > 0 = randomized rounding, that many draws, best within the
                               budget */
    bool imposed_cover_all, imposed_cover_last; /* ilp: looser stage rules of the gap study */
};

/* What plans may not do, or have to. Games keep to it (planners floor and unified, and what they
 * fall back on); other planners know nothing of it. */
enum planner_demand {
    PLANNER_NOTHING_AGAIN = 1, /* nothing is made again */
    PLANNER_NO_COPIES = 2,     /* only what has its home below is copied */
    PLANNER_INPUTS_LEAVE = 4,  /* inputs of blocks wait in a lower tier: with fates */
};

/* Checkpoints by blocks (blocks.c): the inputs of blocks stay, everything else that the backward
 * pass reads leaves after its last reader in the forward pass and is made again. */
struct planner_fate {
    uint32_t after; /* op: its last reader in the forward pass */
    enum { PLANNER_FREE, PLANNER_INPUT, PLANNER_AGAIN } way;
};
/* Per storage, to be freed; *fates is NULL where there is no backward pass. EBB_EUNSUPPORTED: the
 * step is no chain of blocks. */
enum ebb_status planner_fates(const struct trace *trace, struct planner_fate **fates,
                              struct ebb_error *err);

/* Who runs updates of state that lives in host memory. */
enum planner_updates { PLANNER_BY_DEVICE, PLANNER_SHARED, PLANNER_BY_HOST };

struct planner_tiers {
    uint64_t bytes[DEVICE_TIERS]; /* [0]: the budget, where it matters */
    struct device_config links;
    const struct plan_homes *homes; /* persistent storages that live there; NULL: none; borrowed */
    unsigned demands;               /* OR of planner_demand */
    enum planner_updates updates;
    const struct planner_fate *fates; /* NULL: games decide; borrowed */
};

/* The same without lower tiers. */
static inline struct planner_tiers planner_without_tiers(const struct planner_tiers *tiers)
{
    struct planner_tiers none = *tiers;
    none.bytes[DEVICE_HOST] = none.bytes[DEVICE_FILE] = 0;
    return none;
}

/* For want of room, in tier 0 or below, a try fails and nothing else does: above the floor there is
 * a way. */
enum ebb_status planner_unless_no_room(enum ebb_status status, const struct ebb_error *why,
                                       struct ebb_error *err);

static inline bool planner_has_tiers(const struct planner_tiers *tiers)
{
    return tiers && (tiers->bytes[DEVICE_HOST] || tiers->bytes[DEVICE_FILE]);
}

struct planner_request {
    uint64_t budget_bytes;    /* UINT64_MAX = unlimited */
    double gap;               /* stop when cost <= (1 + gap) x bound; default 0.005; 0 = prove */
    int effort;               /* 0 seeds only, 1 default, 2 and 3: more neighbourhoods */
    double time_limit_s;      /* per call; default 60 */
    double move_bytes_per_ns; /* inside the slab; default 300: a device with its own memory */
    uint64_t seed;
    struct planner_params params;
    struct planner_tiers tiers; /* lower ones that plans may copy to; bytes 0: not there */
    bool is_bounded; /* with tiers: a planner that has no bound of its own gets planner_bound's */
    const struct plan
        *warm; /* best: a plan for another budget, used as a seed; borrowed; may be NULL */
    const char *write_lp; /* write the model to this file instead of solving (ilp, best, joint) */
    bool no_addresses;    /* plans have none, hence no moves: byte sums keep the budget */
};

void planner_request_init(struct planner_request *request);

struct planner_result {
    enum planner_status status;
    uint64_t cost, base_cost; /* of the plan; of every op once (offload time included in cost) */
    uint64_t moved_bytes;     /* inside the slab */
    uint64_t peak_bytes, height_bytes; /* height: 0 without addresses */
    uint64_t fixed_bytes;              /* graph files: outside the budget */
    /* On the cost of any plan within the budget whose first runs follow the trace, or (best, on
     * traces) the trace with updates as early as they can be, and that makes nothing again that is
     * written in place; 0 = none, also when a plan below it shows that it is about others. */
    double lower_bound;
    enum planner_bound bound_class;
    bool optimal; /* proved, against a flow or joint bound */
    double gap;   /* cost / lower_bound - 1; NaN without a bound */
    double seconds;
    char winner[32];  /* which part of a portfolio made it */
    char note[160];   /* why not, or a warning */
    struct plan plan; /* steps empty unless status is PLANNER_OK */
};

void planner_result_init(struct planner_result *result);
void planner_result_fini(struct planner_result *result);

struct planner_job;
typedef enum ebb_status planner_solve_fn(struct planner_job *job, struct ebb_error *err);

enum planner_flag {
    PLANNER_PORTFOLIO = 1, /* tries both orders of updates and has other planners to fall back on */
    PLANNER_HOST = 2,      /* copies to lower tiers where there are some */
    PLANNER_LP = 4,        /* has a model that write_lp writes */
    PLANNER_AP = 8,        /* only articulation points are candidates */
    PLANNER_FORWARD = 16,  /* needs a trace that says where the backward pass begins */
    PLANNER_MIRRORED = 32, /* needs a graph whose backward pass mirrors the forward pass */
    PLANNER_POLICY = 64,   /* decisions of the policy of the same name, written down */
};

struct planner {
    const char *name;
    const char *const *aliases; /* published names; NULL-terminated */
    const char *help;
    planner_solve_fn *solve;
    unsigned flags; /* OR of planner_flag */
};

extern const struct planner planner_table[];
extern const size_t planner_count;
const struct planner *planner_find(const char *name); /* by name or alias; NULL = unknown */
/* The policy of that name, unless a planner of the same name does more than write its decisions
 * down (PLANNER_POLICY); NULL: none. */
struct mem_policy;
const struct mem_policy *planner_policy(const char *name);
const char *planner_status_text(enum planner_status status);
const char *planner_bound_text(enum planner_bound bound); /* NULL for none */

/* Plan. EBB_OK with any status in the result; errors are for memory, files and bugs only. */
enum ebb_status planner_run(const struct planner *planner, const struct trace *trace,
                            const struct planner_request *request, struct planner_result *result,
                            struct ebb_error *err);

/* The smallest height planner `floor` has a plan for, and (when plan is not NULL) that plan,
 * proved. With lower tiers that have room, what leaves may also be copied there, to the one where
 * that takes least: nothing need be recomputed, so the floor is near persistent leaves + largest
 * working set. NULL: none. */
enum ebb_status planner_floor(const struct trace *trace, const struct planner_tiers *tiers,
                              struct plan *plan, uint64_t *floor_bytes, struct ebb_error *err);

/* The cheapest of a few such games in a number of bytes, in milliseconds, without looking for the
 * floor: *is_found is false when none is won. The plan has addresses within the budget, which is no
 * less (room that games leave spares moves), and is proved. */
enum ebb_status planner_floor_at(const struct trace *trace, const struct planner_tiers *tiers,
                                 uint64_t game_bytes, uint64_t budget_bytes, struct plan *plan,
                                 bool *is_found, struct ebb_error *err);

/* The plan with its copies moved to where they go beside the ops (early.c), with addresses within
 * the budget; `drops_late`: what is sent keeps its bytes until it has left, which takes room that
 * later copies could have had. `to` is initialised. *is_found is false when it has no copies, results
 * in tier 1 (ROOM), or no addresses are found. Whether it is faster the null device says. */
enum ebb_status planner_early(const struct trace *trace, const struct plan *from,
                              const struct planner_tiers *tiers, bool drops_late, struct plan *to,
                              bool *is_found, struct ebb_error *err);

/* The plan with updates of state that lives in tier 1 given to the host, which runs them there
 * beside the device (below.c): of the weights that allow it a part, 0 to 1 of their bytes. What is
 * copied for nobody goes; it has no addresses. *count: ops that the host runs. */
enum ebb_status planner_below(const struct trace *trace, const struct plan *from, double part,
                              struct plan *to, size_t *count, struct ebb_error *err);

/* Tables that live in tier 1, looked up and updated there by the host (tables.c). What belongs to
 * them (moments, kept gradients) lives there, too; what updates them (gradients) is made there.
 * Plans are made for a *light* trace, in which all of that weighs nothing, and then said for the
 * trace itself: tier 0 never holds a table, and all addresses in it stay. */
struct planner_tables;
/* Persistent leaves that only lookups and updates read, and what is named after them; per storage,
 * zeros before. EBB_EINFEASIBLE: there is none, and why. */
enum ebb_status planner_tables_find(const struct trace *trace, bool *is_table,
                                    struct ebb_error *err);
/* is_table: as found here, or in another program with the same persistent leaves. The trace is
 * borrowed. EBB_EUNSUPPORTED: an op that the host cannot run there needs one of them. */
enum ebb_status planner_tables_create(struct planner_tables **tables, const struct trace *trace,
                                      const bool *is_table, struct ebb_error *err);
void planner_tables_destroy(struct planner_tables *tables);
const struct trace *planner_tables_light(const struct planner_tables *tables);
/* The light trace has the trace's costs, when those have changed. */
void planner_tables_reprice(struct planner_tables *tables);
/* Most of tier 1 that they and what passes through take: a plan for the light trace has the rest. */
uint64_t planner_tables_bytes(const struct planner_tables *tables);
/* Homes without those of tables, and with them again. `to` is zero or made so before. */
enum ebb_status planner_tables_homes(const struct planner_tables *tables,
                                     const struct plan_homes *from, bool with_tables,
                                     struct plan_homes *to, struct ebb_error *err);
/* The plan, proved for the light trace, said for the trace; copies get their addresses within
 * host_bytes, EBB_EBUDGET: they find none. `to` is initialised. */
enum ebb_status planner_tables_plan(const struct planner_tables *tables, const struct plan *light,
                                    const uint64_t bytes[PLAN_TIERS], struct plan *to,
                                    struct ebb_error *err);

/* Homes below tier 0 (homes.c) for a part of the persistent bytes, 0 to 1, and no more than the
 * tiers have room for. `how`: OR of planner_leaving. `homes` is zero before. */
enum planner_leaving {
    PLANNER_SMALL_TOO = 1, /* also small ones, whose copies are mostly latency */
    PLANNER_SPREAD = 2, /* moments of all layers in equal parts, not all of those that come first:
                              where links have no rest, they then have none the whole step long */
};
enum ebb_status planner_homes(const struct trace *trace, const struct planner_tiers *tiers,
                              double part, unsigned how, struct plan_homes *homes,
                              struct ebb_error *err);

/* The fastest plan known within tiers->bytes[0] that keeps, makes again, or copies to lower tiers
 * (unified.c), as the null device times it: *report is of that run. Budgets below floor_bytes are
 * not tried; *is_found is false when there is none. `plan` is initialised. */
struct exec_program;
struct exec_report;
enum ebb_status planner_unified(const struct exec_program *program, const struct trace *trace,
                                const struct planner_tiers *tiers, uint64_t floor_bytes,
                                uint64_t seed, struct plan *plan, struct exec_report *report,
                                bool *is_found, struct ebb_error *err);

/* Nanoseconds that every plan takes, on the null device, which stays within tiers->bytes, whose first
 * runs follow the trace, or the trace with updates as early as they can be, and whose persistent
 * leaves stay in tier 0: with homes below (tiers->homes) there is no bound, 0. Not below every op
 * once. Of up to 40 ops the program is solved in integers, for no more than `seconds` in each order. */
enum ebb_status planner_bound(const struct trace *trace, const struct planner_tiers *tiers,
                              double seconds, double *bound, struct ebb_error *err);

/* The floor and what it is compared with. Persistent leaves (plan.h) are reserved throughout. */
struct planner_floor_facts {
    uint64_t floor_bytes;
    /* Always live, at the stage where it is most: persistent leaves, other leaves until their last
     * reader, the keep set once final, and what is read after something its recipe needs has been
     * overwritten (all gradients before the first update). In trace order. */
    uint64_t always_live_bytes;
    uint64_t working_bytes; /* largest working set of one op besides persistent leaves */
    /* No plan whose first runs and in-place writes follow the trace is below: an op's working set
     * and the least bytes from which all that is read later can still be had (a minimum cut over
     * recipes), at the worst op; or an op's other inputs and the working set of whatever made its
     * last one. The floor itself may run updates earlier than the trace. */
    uint64_t lower_bound_bytes;
    uint64_t cost, base_cost; /* of the floor plan: its overhead is cost / base_cost */
    uint64_t moved_bytes;     /* that it slides within the device */
    uint64_t run_count;
};
enum ebb_status planner_floor_facts_compute(const struct trace *trace,
                                            struct planner_floor_facts *facts,
                                            struct ebb_error *err);

/* Facts about a trace that commands print and sweep over. */
struct planner_facts {
    uint32_t node_count, forward_count;
    size_t edge_count;
    uint64_t base_cost, forward_cost, no_remat_peak, max_in_out, max_degree_ram, fixed_bytes;
    bool is_mirrored, is_chain;
};
enum ebb_status planner_facts_compute(const struct trace *trace, struct planner_facts *facts,
                                      struct ebb_error *err);

/* LP relaxation bounds (overheads are bound / base_cost); EBB_EINFEASIBLE when the relaxation has
 * no point. */
enum planner_model_kind {
    PLANNER_MODEL_PUBLISHED,
    PLANNER_MODEL_FLOW,
    PLANNER_MODEL_MERGED,
    PLANNER_MODEL_COVER_ALL,  /* published, looser stages: every op runs at least once, anywhere */
    PLANNER_MODEL_COVER_LAST, /* only the last op must run */
};
enum ebb_status planner_lp_bound(const struct trace *trace, uint64_t budget_bytes,
                                 enum planner_model_kind kind, double time_limit_s, double *bound,
                                 double *seconds, struct ebb_error *err);

#endif
