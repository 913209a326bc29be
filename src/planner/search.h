/* search.h - improving a schedule by flipping retention intervals (private to planner).
 *
 * A flip keeps an item over the gap between two moments at which it is present or used, or stops
 * keeping it there. Inside the gap only the peaks change, by exactly the item's bytes; the two ends
 * are evaluated exactly. So a flip costs two stage evaluations plus one addition per stage of the
 * gap. A flip that is only looked at changes nothing, and what its ends cost is remembered by the
 * rows around them: a repair looks at the same ones again and again, and passes over drops that a
 * bound says cannot be the best. Where a maker of several
 * outputs runs inside the gap, looking is trying and undoing. */
#ifndef EBB_PLANNER_SEARCH_H
#define EBB_PLANNER_SEARCH_H

#include "planner/job.h"

#define PLANNER_SEEN 65536

/* What a stage costs between two rows that were seen before. */
struct planner_seen {
    uint64_t key; /* of stage and rows; 0: free */
    struct planner_stage stage;
    bool is_valid;
};

struct planner_search {
    const struct planner_graph *graph;
    struct planner_eval *ev;    /* borrowed */
    struct planner_sched sched; /* owned: current schedule */
    struct planner_sched best;  /* owned: cheapest within the budget */
    bool has_best;
    struct ebb_arena arena;       /* owns the arrays below */
    struct planner_stage *stages; /* T */
    uint64_t *used, *run;         /* rows of items used and nodes run per stage */
    uint64_t *saved;              /* rows of the ends of the flip under trial */
    uint64_t *row_hash;           /* T + 1, of the current schedule's rows */
    uint64_t *item_hash;          /* whose sum (xor) they are */
    uint64_t *row_bytes;          /* T + 1 */
    struct planner_seen *seen;    /* PLANNER_SEEN of them */
    uint32_t run_words;
    uint64_t budget, cost;
    uint64_t excess;   /* sum over stages of bytes above the budget */
    uint32_t *movable; /* items that can be flipped */
    uint32_t movable_count;
    uint32_t *mark, stamp, *stack; /* nodes seen by a walk, and still to be seen */
    uint64_t random;
    uint64_t exact_work; /* limit of a repair: exact drops x nodes squared; 0: none */
    uint64_t most_work;  /* limit of everything: stages looked at x nodes; 0: none */
    uint64_t work;       /* of which so much is used up */
};

enum ebb_status planner_search_init(struct planner_search *s, struct planner_eval *ev,
                                    uint64_t budget, uint64_t seed, struct ebb_error *err);
void planner_search_fini(struct planner_search *s);
/* Begin from a schedule (copied, made valid). False when it cannot be. */
bool planner_search_from(struct planner_search *s, const struct planner_sched *from);
/* Drop intervals, cheapest per byte first, until every stage fits; false when stuck. */
bool planner_search_repair(struct planner_search *s, const struct planner_job *job);
/* Anneal for `flips` trials, beginning at heat_factor x the mean cost of a node; then fill what
 * slack is left. */
void planner_search_anneal(struct planner_search *s, uint64_t flips, double heat_factor,
                           const struct planner_job *job);
/* Exchanges of one kept gap against dropped ones, from the best schedule, until none pays. */
void planner_search_polish(struct planner_search *s, const struct planner_job *job);
/* Shake the best schedule, repair, fill; keep what is cheaper; polish at the end. */
void planner_search_iterate(struct planner_search *s, uint32_t iterations,
                            const struct planner_job *job);
void planner_search_fill(struct planner_search *s, const struct planner_job *job);

#endif
