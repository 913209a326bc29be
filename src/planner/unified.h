/* unified.h - one search of planner `unified` (private to planner).
 *
 * unified.c         plans are made, timed on the null device, and the fastest kept
 * unified_search.c  which searches there are: with tiers, without, with slower links */
#ifndef EBB_PLANNER_UNIFIED_H
#define EBB_PLANNER_UNIFIED_H

#include <string.h>

#include "exec/exec.h"
#include "planner/exchange.h"
#include "planner/planner.h"

#define UNIFIED_FEW_OPS 64   /* up to here more is tried */
#define UNIFIED_SOME_OPS 500 /* from here on no flips where state is below: it is asked often */
enum { UNIFIED_SEEN = 90 };  /* tries of one search, two plans each */

struct unified {
    const struct exec_program *program;
    const struct trace *trace;
    const struct planner_tiers *tiers;
    uint64_t seed;
    struct plan *best;
    struct exec_report *report;  /* of the best */
    bool is_found, is_new;       /* is_new: since that was reset */
    bool is_part;                /* another one gets more of the time */
    bool is_below;               /* the host ran updates in a plan */
    uint64_t won_bytes;          /* least in which there was a plan without tiers */
    double slack, price;         /* with which it was found */
    uint64_t seen[UNIFIED_SEEN]; /* hashes of plans that were offered */
    size_t seen_count;
    struct plan *fastest; /* NULL, or the fastest of one game: fastest_ns */
    uint64_t fastest_ns;
    struct plan *shared; /* NULL, or the game that is fastest when the host runs its updates */
    uint64_t shared_ns;
    uint64_t most_ns; /* slower plans are of no use */
};

/* Another search of the same step, its answer in plan and report. */
static inline struct unified planner_unified_begin(const struct unified *u,
                                                   const struct planner_tiers *tiers,
                                                   struct plan *plan, struct exec_report *report)
{
    return (struct unified){.program = u->program,
                            .trace = u->trace,
                            .tiers = tiers,
                            .seed = u->seed,
                            .price = 1,
                            .won_bytes = UINT64_MAX,
                            .shared_ns = UINT64_MAX,
                            .most_ns = UINT64_MAX,
                            .best = plan,
                            .report = report};
}

/* Nothing is left to gain. */
static inline bool planner_unified_is_hidden(const struct unified *u)
{
    return u->is_found && exec_overhead(u->report) < PLANNER_ALL_HIDDEN;
}

/* The best came of exchanges. */
static inline bool planner_unified_is_exchanged(const struct unified *u)
{
    return u->is_found && strcmp(u->best->planner, PLANNER_EXCHANGE) == 0;
}

bool planner_unified_has_copies(const struct plan *plan);
/* Times a plan; a faster one changes places with the best. */
enum ebb_status planner_unified_compare(struct unified *u, struct plan *plan,
                                        struct ebb_error *err);
/* The same with a part of its updates on the host. */
enum ebb_status planner_unified_compare_below(struct unified *u, const struct plan *plan,
                                              double part, struct ebb_error *err);
/* The same with its copies moved and, is_whole, as it is. */
enum ebb_status planner_unified_offer(struct unified *u, struct plan *plan, bool is_whole,
                                      struct ebb_error *err);
/* Makers of plans. Budgets below floor_bytes are not tried. */
enum ebb_status planner_unified_try_copies(struct unified *u, uint64_t floor_bytes,
                                           struct ebb_error *err);
enum ebb_status planner_unified_try_without(struct unified *u, uint64_t floor_bytes,
                                            struct ebb_error *err);
/* The best without copies with exchanges of what it keeps, if it takes longer than that. */
enum ebb_status planner_unified_try_exchanges(struct unified *u, double above,
                                              struct ebb_error *err);
/* Single decisions of the games by which the best was found. */
enum ebb_status planner_unified_flip(struct unified *u, struct ebb_error *err);

#endif
