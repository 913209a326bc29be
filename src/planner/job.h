/* job.h - what one planner call works on (private to planner). */
#ifndef EBB_PLANNER_JOB_H
#define EBB_PLANNER_JOB_H

#include "planner/planner.h"
#include "planner/sched.h"

struct planner_job {
    const struct planner *planner; /* whose row is being solved */
    const struct planner_graph *graph;
    const struct planner_request *request;
    struct planner_eval ev;
    uint64_t budget; /* what byte sums must not pass: the request's, or less after a packing that
                        did not fit */
    struct ebb_arena *arena;   /* of the row being solved: gone when it is */
    struct planner_sched best; /* cheapest schedule within the budget so far */
    bool has_best;
    struct planner_sched trial; /* scratch for the next candidate */
    double lower_bound;
    enum planner_bound bound_class;
    bool is_proven_infeasible, is_timeout, is_not_applicable;
    uint64_t start_ns;
    bool is_retry;     /* the last answer could not be packed: `best` holds it, a quick one with
                          less room is wanted */
    bool has_fallback; /* but with moves it could */
    char winner[32];
    char note[160];
    struct plan made; /* a planner that makes its plan itself (joint, floor) fills this; has_made */
    bool has_made;
    struct plan recorded; /* best: the cheapest run of an online policy, with its addresses */
    bool has_recorded, is_unplaced; /* unplaced: `made` has no addresses yet */
    uint64_t recorded_cost;
    char recorded_by[32];
    uint64_t made_cost; /* of `made`, copies included, when its planner knows; 0 otherwise */
};

/* A job takes graph and request on loan. */
enum ebb_status planner_job_init(struct planner_job *job, const struct planner_graph *graph,
                                 const struct planner_request *request, struct ebb_error *err);
void planner_job_fini(struct planner_job *job);
/* One row of the table at work on the job: asked for, or as part of another. */
enum ebb_status planner_job_solve(struct planner_job *job, const struct planner *planner,
                                  struct ebb_error *err);
/* Evaluate job->trial; keep it when it fits and is cheaper (ties: lower peak). True when it became
 * the best. */
bool planner_job_offer(struct planner_job *job, const char *winner);
void planner_job_not_applicable(struct planner_job *job, const char *why);
double planner_job_seconds(const struct planner_job *job);
bool planner_job_out_of_time(const struct planner_job *job);
double planner_job_time_left(const struct planner_job *job); /* seconds, may be negative */
/* A schedule, or on traces a recorded run. On graph files a run only replaces a dearer schedule. */
bool planner_job_has_plan(const struct planner_job *job);
/* cost <= (1 + gap) x bound? */
bool planner_job_is_close(const struct planner_job *job);
/* Of a search with the room asked for: in retries, which have less, nothing is noted. */
void planner_job_bound(struct planner_job *job, double bound, enum planner_bound bound_class);

/* Solve, pack and prove: fills all of the result but bound, gap and names. */
enum ebb_status planner_job_plan(const struct planner *planner, struct planner_job *job,
                                 struct planner_result *result, struct ebb_error *err);
/* What a plan takes: its runs or, where it has copies, its time on the null device with the
 * request's links. Plans without addresses, as those of graph files, do not run there: their copies
 * go beside the ops, too, and whoever drops what is still being sent waits. */
enum ebb_status planner_job_time(const struct planner_job *job, const struct plan *plan,
                                 uint64_t *ns, struct ebb_error *err);
/* Addresses for copies below, if they find room; else they have none: byte sums fit all the same. */
enum ebb_status planner_place_low(const struct trace *trace, struct plan *plan,
                                  const uint64_t *budget, struct ebb_error *err);
/* Its cost and the time of moves inside the slab. */
double planner_result_price(const struct planner_request *request,
                            const struct planner_result *result);

/* The planners: name, published name, help, solver, flags. To add one: a row here and a file with its
 * planner_solve_<solver>. */
#define PLANNER_LIST(X)                                                                            \
    X(best, NULL, "portfolio: seeds, search and exact models, with a bound", best,                 \
      PLANNER_PORTFOLIO | PLANNER_LP)                                                              \
    X(floor, NULL, "least memory: the plan for the smallest budget that works", floor,             \
      PLANNER_HOST)                                                                                \
    X(unified, NULL, "keep, make again, or copy to host and file beside the ops: fastest of many", \
      unified, PLANNER_HOST)                                                                       \
    X(belady, NULL, "what is read last leaves, by a copy beside the ops", policy,                  \
      PLANNER_HOST | PLANNER_POLICY)                                                               \
    X(capuchin, NULL, "copied where that ends before its next use, else made again", policy,       \
      PLANNER_HOST | PLANNER_POLICY)                                                               \
    X(all, "CHECKPOINT_ALL", "every forward output is a checkpoint", all, PLANNER_FORWARD)         \
    X(all_ap, "CHECKPOINT_ALL_AP", "every articulation point is a checkpoint", all,                \
      PLANNER_FORWARD | PLANNER_AP)                                                                \
    X(last, "CHECKPOINT_LAST_NODE", "keep the newest output only: least memory", last, 0)          \
    X(chen_sqrtn, "CHEN_SQRTN", "Chen et al.: every sqrt(n)-th articulation point", chen_sqrtn,    \
      PLANNER_FORWARD | PLANNER_AP)                                                                \
    X(chen_sqrtn_noap, "CHEN_SQRTN_NOAP", "the same over all forward outputs", chen_sqrtn,         \
      PLANNER_FORWARD)                                                                             \
    X(chen_greedy, "CHEN_GREEDY", "Chen et al.: segments of equal bytes, swept", chen_greedy,      \
      PLANNER_FORWARD | PLANNER_AP)                                                                \
    X(chen_greedy_noap, "CHEN_GREEDY_NOAP", "the same over all forward outputs", chen_greedy,      \
      PLANNER_FORWARD)                                                                             \
    X(griewank, "GRIEWANK_LOGN", "Griewank and Walther: binomial checkpointing", griewank,         \
      PLANNER_MIRRORED)                                                                            \
    X(rotor, NULL, "Beaumont et al.: exact program for chains with persistent checkpoints", rotor, \
      PLANNER_MIRRORED)                                                                            \
    X(knapsack, NULL, "PyTorch's activation memory budget: 0/1 knapsack, then repair", knapsack,   \
      PLANNER_FORWARD)                                                                             \
    X(ilp, "OPTIMAL_ILP_GC", "Checkmate's published ILP", ilp, PLANNER_LP)                         \
    X(joint, "POET", "recomputation and copies together, by branch and cut: up to 40 ops", joint,  \
      PLANNER_HOST | PLANNER_LP)                                                                   \
    X(lp_round, "APPROX_DET_ROUND_LP_SWEEP", "its LP relaxation, rounded at thresholds", lp_round, \
      0)
#define X(name, published, help, solver, flags) planner_solve_fn planner_solve_##solver;
PLANNER_LIST(X)
#undef X
/* Only its bound, by relaxations: for another order of first runs than the one searched. */
enum ebb_status planner_best_bound_alone(struct planner_job *job, struct ebb_error *err);

#endif
