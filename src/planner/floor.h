/* floor.h - the parts of planner `floor` (private to planner).
 *
 * floor_sweep.c  plays it within a number of bytes: what runs, what leaves (addresses come later)
 * floor_room.c   who leaves to make room in it
 * floor_blocks.c another way to a plan: checkpoints of blocks
 * floor_bound.c  what no plan can be without
 * floor_last.c   another such bound: room to make the last input
 * floor.c        the smallest number of bytes at which the game is won, and the plan for it
 *
 * The trace as a pebbling game (nodes, stages, versions, recipes) is plan_recipes of plan.h. */
#ifndef EBB_PLANNER_FLOOR_H
#define EBB_PLANNER_FLOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "mem/mem.h"
#include "plan/plan.h"
#include "planner/planner.h"
#include "trace/trace.h"

/* ---- playing --------------------------------------------------------------------------------- */

struct floor_game {   /* result of one play */
    struct plan plan; /* owned: its steps, without addresses */
    uint64_t peak_bytes, cost;
    uint64_t work;        /* what playing took: things looked at */
    uint64_t copy_ns;     /* to and from lower tiers, one after the other */
    uint8_t *reruns;      /* owned: node -> it ran more than once */
    uint32_t *last_stage; /* owned: storage -> last stage that read it */
    uint32_t *missed;     /* owned: when it was lost for room, what was being made again */
    size_t missed_count, missed_capacity;
    uint32_t stage; /* reached */
    bool is_won;    /* else: why it was lost */
};

struct floor_rules {
    uint64_t budget_bytes; /* byte sum that must not be passed */
    uint64_t cost_limit;   /* of everything that runs */
    uint64_t run_limit;    /* runs */
    uint64_t work_limit;   /* work of the play */
    uint64_t stage_limit;  /* what one stage may cost, in halves of all stages before it */
    const struct planner_tiers *tiers; /* lower ones to copy to; NULL: none */
    unsigned demands;                  /* OR of planner_demand */
    const struct planner_fate *fates;  /* storage -> what becomes of it; NULL: games decide */
    const float *dear; /* storage -> how many times dearer it is than it looks; NULL: none is */
    /* Use (plan_recipes.uses) -> how the storage may be gone until then, OR of mem_way,
     * FLOOR_FIRST and FLOOR_SKIP; NULL: as it likes. */
    const uint8_t *ways;
    int variant;        /* how victims are compared: below FLOOR_VARIANTS a rule, above shaken */
    bool clears;        /* what nobody reads any more goes, though it has no way back */
    bool keeps_sources; /* what a smaller version of it was made of may stay while that is read */
    bool
        is_patient; /* what is on the way back to something absent is of use, and what an op is about
                        to make unrecoverable may leave by a copy */
};
#define FLOOR_VARIANTS 3
#define FLOOR_FIRST 8 /* it leaves before others */
#define FLOOR_SKIP 16 /* it is not made until it is read, where its op can do without */
#define FLOOR_ANY (MEM_DROP | MEM_HOST | MEM_FILE)

/* Does a node make a smaller version of s, as a cast to 16 bits does, and nothing else? Who has s has
 * that for next to nothing. */
bool planner_floor_is_source(const struct plan_recipes *graph, const struct plan_node *node,
                             uint32_t s);

enum ebb_status planner_floor_play(const struct plan_recipes *graph,
                                   const struct floor_rules *rules, struct floor_game *game,
                                   struct ebb_error *err);
void planner_floor_game_fini(struct floor_game *game);

/* One game at tiers->bytes[0] with those ways: its steps, without addresses. */
enum ebb_status planner_floor_once(struct plan_recipes *graph, const struct planner_tiers *tiers,
                                   int variant, bool is_patient, const uint8_t *ways,
                                   struct plan *plan, bool *is_won, struct ebb_error *err);

/* ---- checkpoints of blocks ------------------------------------------------------------------- */

struct floor_found {
    struct plan plan; /* with addresses, proved; owned when is_there */
    uint64_t height_bytes, cost;
    bool is_there;
};

/* Plans of blocks, updates early, within `height` that cost less than `cost`, or within less and
 * then less than `most_cost`: the one that needs least. most_cost 0: within `height` alone. */
enum ebb_status planner_floor_blocks(const struct trace *trace, uint64_t height, uint64_t cost,
                                     uint64_t most_cost, struct floor_found *found,
                                     struct ebb_error *err);

/* ---- bounds ------------------------------------------------------------------------
 */

/* Bytes without which no plan can make the last input of some node. */
enum ebb_status planner_floor_last(const struct plan_recipes *graph, uint64_t *bytes,
                                   struct ebb_error *err);

struct planner_floor_facts;
/* Fills always_live_bytes, working_bytes, lower_bound_bytes; the rest is untouched. */
enum ebb_status planner_floor_bound(const struct plan_recipes *graph,
                                    struct planner_floor_facts *facts, struct ebb_error *err);

#endif
