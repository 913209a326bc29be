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
/* What planners need of a trace; else not applicable: a graph whose backward pass mirrors the
 * forward pass; one that says where the backward pass begins. */
bool planner_job_is_mirrored(struct planner_job *job);
bool planner_job_has_forward(struct planner_job *job);
/* Solve with memory that is gone afterwards. */
enum ebb_status planner_job_in_arena(struct planner_job *job,
                                     enum ebb_status (*solve)(struct planner_job *job,
                                                              struct ebb_arena *arena,
                                                              struct ebb_error *err),
                                     struct ebb_error *err);
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
/* What a plan takes: its runs or, where it copies to the host, its time on the null device with the
 * request's link (plans of graph files do not run there: runs, and copies one after the other).
 * Moves inside the slab are not in it: see planner_result_price. */
enum ebb_status planner_job_time(const struct planner_job *job, const struct plan *plan,
                                 uint64_t *ns, struct ebb_error *err);
/* Its cost and the time of moves inside the slab. */
double planner_result_price(const struct planner_request *request,
                            const struct planner_result *result);

/* The planners. */
planner_solve_fn planner_solve_best, planner_solve_floor, planner_solve_all, planner_solve_last,
    planner_solve_chen_sqrtn, planner_solve_chen_greedy, planner_solve_griewank,
    planner_solve_rotor, planner_solve_knapsack, planner_solve_ilp, planner_solve_joint,
    planner_solve_lp_round;
/* Only its bound, by relaxations: for another order of first runs than the one searched. */
enum ebb_status planner_best_bound_alone(struct planner_job *job, struct ebb_error *err);

#endif
