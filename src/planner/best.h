/* best.h - the parts of the portfolio (private to planner): one struct, five files.
 *
 * best.c says what comes when; best_seeds.c begins, blocks.c has a seed of its own, best_bound.c
 * bounds by the split program, best_exact.c solves the flow model and neighbourhoods of the
 * incumbent in it. */
#ifndef EBB_PLANNER_BEST_H
#define EBB_PLANNER_BEST_H

#include "planner/model.h"
#include "planner/search.h"

struct best {
    struct planner_job *job;
    struct planner_search search;
    double *lp;                 /* owned: solution of the relaxation of `model` */
    struct planner_model model; /* merged or full: the one neighbourhoods are cut from */
    bool has_model, is_merged_infeasible;
    uint64_t cost_unit; /* gcd of costs */
    uint64_t random;
    uint32_t slices; /* of the split program to be solved next */
    bool is_seeded;  /* recorded runs do: no more seeds */
    bool is_over;    /* no more stages */
};

#define PLANNER_BEST_SMALL 400 /* nodes; beyond, the first plan is a recorded run */

double planner_best_time_left(const struct best *b);
bool planner_best_is_done(const struct best *b); /* close enough, or out of time */
/* Hand the search's best to the job, and the job's best to the search. */
void planner_best_exchange(struct best *b, const char *name);
/* job->trial made valid, made to fit, then filled: a seed. */
void planner_best_repair(struct best *b, const char *name);
/* Offer the schedule in x; the solver's word is never taken for peak or cost. */
bool planner_best_offer(struct best *b, const struct planner_model *model, const double *x,
                        const char *name);
/* Only costs below this are of interest: by the gap, or by one unit of cost. */
double planner_best_cutoff(const struct best *b, double gap);
/* A bound counts when its class is at least as general as the one there is. */
void planner_best_note_bound(struct best *b, double cost, enum planner_bound bound_class);

/* ---- stages (best_seeds.c, blocks.c, best_bound.c, best_exact.c) ---- */

/* A game for memory at this very budget, in milliseconds: the first plan where no policy gets
 * through, and what `floor` itself would answer. */
enum ebb_status planner_best_game(struct best *b, struct ebb_error *err);
/* What the online policies do at this budget, recorded: quick, and with addresses. */
enum ebb_status planner_best_online(struct best *b, struct ebb_error *err);
enum ebb_status planner_best_repair_all(struct best *b, struct ebb_error *err);
/* Planner `floor` plays for memory; with room to spare its plans are sometimes cheap. It may run
 * updates in another order than the trace, so its plan is kept as it is, and is a seed besides. */
enum ebb_status planner_best_floor(struct best *b, struct ebb_error *err);
/* What `unified` would do without tiers, where its searches are thorough: kept and a seed likewise. */
enum ebb_status planner_best_unified(struct best *b, struct ebb_error *err);
/* The classic strategies, with their own parameters: what each would answer by itself. */
enum ebb_status planner_best_classic(struct best *b, struct ebb_error *err);
enum ebb_status planner_best_warm(struct best *b, struct ebb_error *err);

/* Checkpoints of a chain of blocks (blocks.c). */
enum ebb_status planner_best_blocks(struct best *b, struct ebb_error *err);

/* Relaxation of the split program with about 2 x slices instants. */
enum ebb_status planner_best_bound(struct best *b, uint32_t slices, struct ebb_error *err);
/* The split program in integers: more and more instants until the gap is proved or `seconds` have
 * passed; the next call goes on where this one ended. Its solutions are seeds, too. */
enum ebb_status planner_best_prove(struct best *b, double seconds, struct ebb_error *err);

enum ebb_status planner_best_relax(struct best *b, struct ebb_error *err);
enum ebb_status planner_best_exact(struct best *b, struct ebb_error *err);
/* Sub-program around the incumbent. Kinds: 0 RINS (free where LP and incumbent differ), 1 a window
 * of groups, 2 a window of items. */
enum ebb_status planner_best_neighbourhood(struct best *b, uint32_t kind, double seconds,
                                           struct ebb_error *err);

#endif
