/* floor_play.h - the state of one game (private to floor_sweep.c and floor_room.c). */
#ifndef EBB_PLANNER_FLOOR_PLAY_H
#define EBB_PLANNER_FLOOR_PLAY_H

#include "planner/floor.h"

#define FLOOR_DEPTH 48
#define FLOOR_CLASSES 64
#define FLOOR_DEAR                                                                                 \
    FLOOR_CLASSES /* the list of those too dear to look at while there are others                  \
                   */
#define FLOOR_LISTS (FLOOR_CLASSES + 1) /* the sizes, by powers of two, and FLOOR_DEAR */
#define FLOOR_NOWHERE UINT32_MAX
#define FLOOR_OUTDATED UINT32_MAX /* copy: a place with an old version in it */

struct floor_level {
    uint32_t *seq;      /* nodes, ascending */
    uint64_t *clock;    /* sum of costs before each */
    uint32_t *position; /* node -> 1 + index in seq; 0: not in it */
    uint32_t *targets;  /* storages the level is run for */
    size_t seq_capacity, clock_capacity, target_capacity;
    uint32_t count, at, target_count;
};

struct floor_candidate {
    double score, weight;
    uint32_t storage, when;
    bool is_exact; /* its way back is a copy: nothing to work out */
};

/* What a walk through recipes wants of an input, side by side. */
struct floor_input {
    uint32_t storage, version, maker;
    uint32_t until; /* last node that reads it; PLAN_NEVER: it has no recipe */
};

struct floor_node {
    uint64_t cost;               /* + 1 */
    uint32_t in_first, in_count; /* into inputs */
};

struct floor_play {
    struct ebb_arena arena; /* owns what has no capacity below */
    const struct plan_recipes *g;
    const struct floor_rules *rules;
    struct floor_game *game;
    struct ebb_error *err;
    uint8_t *is_resident;
    uint32_t *version;    /* storage -> that lies there */
    uint32_t *there;      /* storage -> 1 + version that lies there; 0: none does */
    uint32_t *pins;       /* storage -> nodes that hold it right now */
    uint32_t *targeted;   /* storage -> levels run for it */
    uint8_t *is_restored; /* storage -> the node about to run ends its recipe (patient games) */
    uint32_t *use_at;     /* storage -> index of its first use at or after the stage */
    uint32_t *next, *prev, heads[FLOOR_LISTS]; /* residents that are not persistent, by size */
    uint8_t *list_of;                          /* storage -> its list */
    uint32_t *mark, stamp;                     /* nodes seen by a walk */
    struct floor_node *walk_nodes;
    struct floor_input *walk_inputs, *walk; /* of all nodes; stack with room for all of them */
    uint64_t *bitmap;                       /* nodes of a level being collected */
    struct plan_ref *stack;
    size_t stack_count, stack_capacity;
    uint32_t *frames; /* storages pinned by waiting nodes */
    size_t frame_count, frame_capacity;
    uint64_t *known_cost; /* storage -> of making it again, when last worked out */
    struct floor_candidate *candidates;
    size_t candidate_count;
    uint64_t choices;
    uint32_t *placing; /* outputs of the node about to run */
    size_t placing_count;
    struct floor_level levels[FLOOR_DEPTH];
    uint32_t depth; /* levels in use; 0: main only */
    uint32_t stage;
    bool has_below; /* there may be copies */
    bool is_plain;  /* the only way back is a recipe, and all have the prices that they seem to */
    uint32_t *copy; /* storage -> 1 + version that a lower tier has; 0: none */
    uint8_t *copy_tier;             /* storage -> which one */
    uint64_t low_sum[DEVICE_TIERS]; /* bytes of the copies there */
    uint64_t sum, runs;
    uint64_t stage_cost, stage_runs; /* when the stage began */
};

/* ---- floor_room.c ---- */

/* Append a step; index of a RUN is an op. A copy is where copy_tier says. */
enum ebb_status planner_floor_emit(struct floor_play *w, enum plan_act act, uint32_t index);
enum ebb_status planner_floor_place(struct floor_play *w, struct plan_ref ref);
/* It leaves, whatever lies below. */
enum ebb_status planner_floor_clear(struct floor_play *w, uint32_t storage);
/* It is of no use any more, nor is its copy. */
enum ebb_status planner_floor_discard(struct floor_play *w, uint32_t storage);
/* It was written: its copy is of an old version. A home stays, but what is there serves nobody. */
enum ebb_status planner_floor_outdate(struct floor_play *w, uint32_t storage);
/* Let go until `need` more bytes fit; *fits is false when nobody is left to go. */
enum ebb_status planner_floor_make_room(struct floor_play *w, uint64_t need, bool *fits);
/* It leaves now, as its fate says; *is_done is false when there is no room for it below. */
enum ebb_status planner_floor_part(struct floor_play *w, uint32_t storage, bool *is_done);
enum ebb_status planner_floor_push(struct floor_play *w, struct plan_ref ref);

/* First use of a storage at or after the stage; the node of the stage counts until it has run. */
uint32_t planner_floor_main_use(struct floor_play *w, uint32_t storage);
/* First use in a level at its position `from` or later: its position, or PLAN_NEVER. */
uint32_t planner_floor_level_use(const struct floor_play *w, const struct floor_level *level,
                                 uint32_t storage, uint32_t from);
/* Will anything read it, or something large that can be made from it? */
bool planner_floor_is_useful(struct floor_play *w, uint32_t storage);

static inline bool planner_floor_has_copy(const struct floor_play *w, struct plan_ref ref)
{
    return w->copy[ref.storage] == ref.version + 1;
}

/* Made again on the way to something else, while a newer version lies below. */
static inline bool planner_floor_is_old(const struct floor_play *w, uint32_t storage)
{
    return w->copy[storage] != FLOOR_OUTDATED && w->copy[storage] > w->version[storage] + 1;
}

static inline bool planner_floor_have(const struct floor_play *w, struct plan_ref ref)
{
    return w->there[ref.storage] == ref.version + 1;
}

#endif
