/* floor.h - the parts of planner `floor` (private to planner).
 *
 * floor_graph.c  the trace as a pebbling game: nodes in order, versions, how long each can be had
 * floor_sweep.c  plays it within a number of bytes: what runs, what leaves (addresses come later)
 * floor_room.c   who leaves to make room in it
 * floor_blocks.c another way to a plan: checkpoints of blocks
 * floor_bound.c  what no plan can be without
 * floor_last.c   another such bound: room to make the last input
 * floor.c        the smallest number of bytes at which the game is won, and the plan for it
 *
 * Nouns. A *node* is an op that runs (no view); nodes are numbered in the order of their first
 * runs. A *stage* t is everything up to and including the first run of node t. A *version* of a
 * storage is made by one node; its *recipe* is that node and, for v > 0, the ones before it that
 * wrote the storage in place. */
#ifndef EBB_PLANNER_FLOOR_H
#define EBB_PLANNER_FLOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "plan/plan.h"
#include "trace/trace.h"

#define FLOOR_NEVER UINT32_MAX

struct floor_ref { /* a version of a storage */
    uint32_t storage, version;
};

struct floor_node {
    uint64_t cost, workspace_bytes;
    uint32_t op;                           /* TRACE_NONE: the end, which reads the keep set */
    uint32_t in_first, in_count;           /* into graph.ins, each storage once */
    uint32_t out_first, out_count;         /* into graph.outs; views are left out */
    uint32_t restore_first, restore_count; /* into graph.restores: versions whose recipe ends with
                                              this stage while they are still wanted */
    uint32_t end_first, end_count;         /* into graph.ends: anchors that go after this stage */
    bool is_leaf, can_skip;
    bool is_replayable; /* may run again: pure, or writes one storage in place and nothing else */
};

struct floor_storage {
    uint64_t bytes;                        /* rounded as the plan will be */
    uint64_t base;                         /* address of a persistent storage, else PLAN_NOWHERE */
    uint32_t use_first, use_count;         /* into graph.uses: nodes that read it, ascending */
    uint32_t version_first, version_count; /* into graph.versions */
    bool is_kept;
};

struct floor_version {
    uint32_t maker;    /* node */
    uint32_t last_use; /* last node that reads it; its maker when none does; the end when kept */
    uint32_t gone;     /* node that overwrites it; FLOOR_NEVER */
    /* It can be dropped while stage < pinned_from, because until then its recipe works; 0: there
     * is none (an *anchor*). At stage pinned_from - 1 it is restored if anybody reads it later. */
    uint32_t pinned_from;
    uint32_t had_until; /* last stage at which it can be had, by lying there or by its recipe */
};

struct floor_graph {
    struct ebb_arena arena; /* owns all below */
    const struct trace *trace;
    struct floor_node *nodes; /* node_count real ones and the end */
    struct floor_storage *storages;
    struct floor_version *versions;
    struct floor_ref *ins, *outs, *restores;
    uint32_t *uses, *ends;
    uint32_t *need_until; /* storage -> last stage anchors are held to */
    uint64_t *clock;      /* node -> sum of costs before it */
    uint32_t node_count, storage_count, version_total;
    uint64_t base_bytes; /* persistent storages, reserved throughout */
    uint64_t base_cost;
    bool exact_bytes;
    bool is_moved; /* updates stand earlier than in the trace */
};

enum ebb_status planner_floor_graph_create(const struct trace *trace, bool is_eager,
                                           struct floor_graph **graph, struct ebb_error *err);
void planner_floor_graph_destroy(struct floor_graph *graph);
/* How long anchors are held. All zero: while anything derived from them that is no kept value may
 * have to be made again. */
struct floor_holds {
    const uint8_t *may_rerun;   /* node -> it may run again; NULL: all may */
    const uint32_t *last_stage; /* storage -> no longer than this stage; NULL: no limit */
    bool keep_again;            /* also for making the keep set again at the end */
    bool is_shortest;           /* only for their readers: nothing may run again */
};

/* Work out needs, recipes, restores and ends for games of that kind. */
void planner_floor_graph_settle(struct floor_graph *graph, const struct floor_holds *holds);

static inline struct floor_version *floor_version_of(const struct floor_graph *g, uint32_t storage,
                                                     uint32_t version)
{
    return &g->versions[g->storages[storage].version_first + version];
}

static inline bool floor_is_anchor(const struct floor_graph *g, uint32_t storage, uint32_t version)
{
    return floor_version_of(g, storage, version)->pinned_from == 0;
}

/* ---- playing --------------------------------------------------------------------------------- */

struct floor_step { /* PLACE, DROP, SEND, FETCH, FORGET: storage; RUN: node, extra = workspace and
                       scratch */
    uint8_t act;    /* enum plan_act */
    uint32_t index;
    uint64_t extra_bytes;
};

struct floor_game {           /* result of one play */
    struct floor_step *steps; /* owned */
    size_t count, capacity;
    uint64_t peak_bytes, cost;
    uint64_t work;        /* what playing took: things looked at */
    uint64_t copy_ns;     /* to and from the host, one after the other */
    uint8_t *reruns;      /* owned: node -> it ran more than once */
    uint32_t *last_stage; /* owned: storage -> last stage that read it */
    uint32_t *missed;     /* owned: when it was lost for room, what was being made again */
    size_t missed_count, missed_capacity;
    uint32_t stage;   /* reached */
    bool is_won;      /* else: why it was lost */
    bool is_too_long; /* lost for time, not for room */
};

struct floor_host { /* a lower tier to copy to; bytes 0: none */
    uint64_t bytes;
    double out_ns_per_byte, in_ns_per_byte;
};

struct floor_rules {
    uint64_t budget_bytes; /* byte sum that must not be passed */
    uint64_t cost_limit;   /* of everything that runs */
    uint64_t run_limit;    /* runs */
    uint64_t work_limit;   /* work of the play */
    uint64_t stage_limit;  /* what one stage may cost, in times all stages before it */
    struct floor_host host;
    const float *dear; /* storage -> how many times dearer it is than it looks; NULL: none is */
    int variant;       /* how victims are compared: below FLOOR_VARIANTS a rule, above shaken */
};
#define FLOOR_VARIANTS 3

enum ebb_status planner_floor_play(const struct floor_graph *graph, const struct floor_rules *rules,
                                   struct floor_game *game, struct ebb_error *err);
void planner_floor_game_fini(struct floor_game *game);

/* ---- checkpoints of blocks ------------------------------------------------------------------- */

struct floor_found {
    struct plan plan; /* with addresses, proved; owned when is_there */
    uint64_t height_bytes, cost;
    bool is_there;
};

/* Plans of blocks, updates early, within `height` that cost less than `cost`, or within less and
 * then less than `most_cost`: the one that needs least. */
enum ebb_status planner_floor_blocks(const struct trace *trace, uint64_t height, uint64_t cost,
                                     uint64_t most_cost, struct floor_found *found,
                                     struct ebb_error *err);

/* ---- bounds ------------------------------------------------------------------------
 */

/* Bytes without which no plan can make the last input of some node. */
enum ebb_status planner_floor_last(const struct floor_graph *graph, uint64_t *bytes,
                                   struct ebb_error *err);

struct planner_floor_facts;
/* Fills always_live_bytes, working_bytes, lower_bound_bytes; the rest is untouched. */
enum ebb_status planner_floor_bound(const struct floor_graph *graph,
                                    struct planner_floor_facts *facts, struct ebb_error *err);

#endif
