/* mem.h - memory under a budget: slabs, the pool of what may leave, the policies that rank it, and
 * the manager that makes room. States and rules: README.md.
 *
 * A policy only ranks; it never frees, copies or launches, so one policy runs unchanged on a GPU,
 * under the simulator and in a unit test. Every published heuristic is one row: a numerator (what
 * losing the storage would cost) over size and staleness, each on or off:
 *
 *     score = numerator / (bytes^by_size * (now - last_use)^by_stale)
 *
 * The lowest score leaves first. */
#ifndef EBB_MEM_MEM_H
#define EBB_MEM_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/rng.h"
#include "base/status.h"
#include "device/device.h"
#include "plan/plan.h"
#include "trace/trace.h"

enum mem_numerator {
    MEM_ONE,       /* 1 */
    MEM_LOCAL,     /* own cost c */
    MEM_EQ,        /* c + values of the distinct classes of evicted neighbours (union-find) */
    MEM_ANCESTORS, /* c + exact evicted ancestors */
    MEM_REGION,    /* c + exact evicted neighbourhood, both directions */
    MEM_UNION,  /* as REGION, as one set, staleness of its freshest member (published "unoptimised"
                   form) */
    MEM_RANDOM, /* no score: uniform choice */
};

/* What a policy knows of the future. The trace is known, so it may know when a storage is read next;
 * only copies to lower tiers make that worth much. */
enum mem_sight {
    MEM_BLIND,    /* nothing: the past decides, by the score above */
    MEM_FARTHEST, /* whose next use is farthest leaves, by a copy (Belady) */
    MEM_FREE,     /* whose copies out and in end longest before its next use leaves by a copy; where
                     none ends before, the least (time to make it again) / bytes is dropped (Capuchin) */
    MEM_HIDDEN,   /* least (cheaper of making it again and of what no op hides of its copies) /
                     (bytes * time to its next use); copies begin before they must (ahead.c) */
};

enum mem_way { MEM_DROP = 1u << 0, MEM_HOST = 1u << 1, MEM_FILE = 1u << 2 };

struct mem_policy {
    const char *name;
    const char *aliases[3]; /* published spellings */
    enum mem_numerator numerator;
    bool by_size, by_stale;
    const char *help;
    enum mem_sight sight;
};

extern const struct mem_policy mem_policies[];
extern const size_t mem_policy_count; /* the blind ones; those that see follow */
extern const size_t mem_policy_total;

/* By name or alias; NULL when unknown. */
const struct mem_policy *mem_policy_find(const char *name);
/* Does it know no way but copies, for all or for some? */
static inline bool mem_policy_needs_tier(const struct mem_policy *policy)
{
    return policy->sight == MEM_FARTHEST || policy->sight == MEM_FREE;
}

/* ---- what happened --------------------------------------------------------------------------- */

/* Told in the words of a plan, in order. */
struct mem_note {
    uint8_t act;    /* enum plan_act */
    uint8_t tier;   /* SEND, FETCH, FORGET */
    bool is_again;  /* RUN: a recomputation; DROP: a victim (else it is dead) */
    uint32_t index; /* op of a RUN, else storage */
    uint64_t offset;
    uint64_t clock_ns;
};

struct mem_listener {
    void *context;
    enum ebb_status (*tell)(void *context, const struct mem_note *note,
                            struct ebb_error *err); /* NULL: nobody listens */
};

/* Counted while a run goes on. */
struct mem_tally {
    uint64_t clock_ns;              /* the decision clock: ops and moves */
    uint64_t remat_ns;              /* of it for recomputation */
    uint64_t peak_bytes, sum_bytes; /* highest address; highest byte sum */
    uint64_t evictions_pressure, evictions_release, remat_ops, remat_collateral;
    uint64_t swapped_bytes, moved_bytes;
    uint64_t ops_done, eval_count, banished;
    uint64_t evict_hash; /* FNV-1a 64 over the root tensor ids of pressure victims */
    uint64_t work;       /* what was looked at besides neighbourhoods, about 10 ns each */
    /* Wall time, where it is measured: making room (cost_ns in it, move_ns not), working out what
     * losing a storage would cost, moving bytes to make one hole. */
    uint64_t search_ns, cost_ns, move_ns;
    char why[160]; /* why it ended before the end, with numbers; "" when it did not */
};

/* ---- who is whose neighbour ------------------------------------------------------------------ */

/* Storage-level edges of a trace: P -> Q when an op reads a tensor on P and makes one on Q. Each
 * list is free of duplicates and sorted by the op that created the edge, so at any time the edges
 * that exist are a prefix. */
struct mem_edge {
    uint32_t storage;
    uint32_t birth; /* op that created the edge */
};

struct mem_graph {
    struct ebb_arena arena; /* owns all below */
    uint32_t storage_count;
    uint32_t *parent_first, *child_first, *neighbour_first; /* storage_count + 1 each */
    struct mem_edge *parents, *children, *neighbours;       /* neighbours: both directions merged */
};

/* with_views: ops all of whose outputs are views make edges too (rules simrd). */
enum ebb_status mem_graph_init(struct mem_graph *graph, const struct trace *trace, bool with_views,
                               struct ebb_error *err);
void mem_graph_fini(struct mem_graph *graph);

#define MEM_NONE UINT32_MAX

/* ---- the slab: one tier's bytes -------------------------------------------------------------- */

struct mem_segment {
    uint64_t offset, bytes;
    uint32_t owner;              /* caller's id, MEM_NONE = free */
    uint32_t prev, next;         /* address order */
    uint32_t bin_prev, bin_next; /* free segments of about this size */
};

#define MEM_SLAB_BINS (64 * 8)

struct mem_slab {
    struct mem_segment *segments;
    size_t segment_count, segment_capacity;
    uint32_t head, tail, spare;
    uint32_t bins[MEM_SLAB_BINS];
    uint64_t bin_used[MEM_SLAB_BINS / 64];
    uint64_t bytes, free_bytes;
    uint64_t peak_bytes; /* highest end address ever taken */
};

enum ebb_status mem_slab_init(struct mem_slab *slab, uint64_t bytes, struct ebb_error *err);
void mem_slab_fini(struct mem_slab *slab);
/* A free segment of at least `bytes` (a positive multiple of PLAN_UNIT), about the smallest;
 * MEM_NONE when there is none. */
uint32_t mem_slab_find(const struct mem_slab *slab, uint64_t bytes, bool is_high);
/* Take `bytes` of the free segment `hole`, from its high or low end. */
enum ebb_status mem_slab_take(struct mem_slab *slab, uint32_t hole, uint64_t bytes, bool is_high,
                              uint32_t owner, uint32_t *segment, struct ebb_error *err);
void mem_slab_give(struct mem_slab *slab, uint32_t segment);
/* Is `segment` free around [offset, offset + bytes)? Any id ever given out may be asked about. */
bool mem_slab_is_around(const struct mem_slab *slab, uint32_t segment, uint64_t offset,
                        uint64_t bytes);
/* Take exactly [offset, offset + bytes) of the free segment `hole` around it. */
enum ebb_status mem_slab_take_at(struct mem_slab *slab, uint32_t hole, uint64_t offset,
                                 uint64_t bytes, uint32_t owner, uint32_t *segment,
                                 struct ebb_error *err);

/* Slide the used segments of the window first..last together (it holds at least one free one); the
 * free bytes become one segment. `moved` is told of every segment that changes its offset, in
 * address order. */
typedef enum ebb_status (*mem_slab_moved)(void *context, uint32_t owner, uint64_t from, uint64_t to,
                                          uint64_t bytes, struct ebb_error *err);
enum ebb_status mem_slab_slide(struct mem_slab *slab, uint32_t first, uint32_t last,
                               mem_slab_moved moved, void *context, struct ebb_error *err);
/* Up to `most` free segments, large ones first (by bin: sizes an eighth apart); how many. */
uint32_t mem_slab_largest(const struct mem_slab *slab, uint32_t *segments, uint32_t most);
/* Smallest free segment of at least `bytes` that does not touch [low, high). */
uint32_t mem_slab_find_outside(const struct mem_slab *slab, uint64_t bytes, uint64_t low,
                               uint64_t high);

/* ---- the index: best merit under a moving clock ---------------------------------------------- */

/* merit(id) = weight * (now - last), or weight alone when not by_stale. The best id (largest merit;
 * ties: smaller last, then smaller id) is found without looking at every entry: a 64-way tournament
 * whose nodes know until when their winner cannot be overtaken (merits are straight lines in time)
 * and are recomputed only when changed or expired. */
struct mem_index;

enum ebb_status mem_index_create(struct mem_index **index, uint32_t capacity, bool by_stale,
                                 struct ebb_error *err);
void mem_index_destroy(struct mem_index *index);
void mem_index_clear(struct mem_index *index);
void mem_index_set(struct mem_index *index, uint32_t id, double weight,
                   double last); /* weight > 0 */
void mem_index_remove(struct mem_index *index, uint32_t id);
uint32_t mem_index_top(struct mem_index *index,
                       double now); /* MEM_NONE when empty; now never goes back */
/* The same answer by looking at every entry: the reference for tests. */
uint32_t mem_index_scan(const struct mem_index *index, double now);

/* ---- neighbourhoods with lower bounds -------------------------------------------------------- */

/* What evicting a storage would cost beyond its own op (rules ebb). `bound` never exceeds the exact
 * numerator: evictions only raise numerators, so bounds stay valid without work; a storage coming
 * back lowers some, and those are listed. The caller keys its index by bounds and asks for the
 * exact value of the winner only.
 *
 * Unlike the published classes, a member takes out exactly what it put in, so values are never
 * negative; and a class that half of its members have left is split into its connected components,
 * so phantom connections do not pile up. */
struct mem_neigh {
    const struct mem_graph *graph; /* borrowed */
    const uint8_t *
        is_resident; /* borrowed, per storage: kept by the caller, changed before the calls below */
    const uint8_t *is_candidate; /* borrowed: storages that may ever be in the pool (no leaves) */
    const int64_t *cost;         /* borrowed: own recompute cost */
    const double *last;          /* borrowed: last use (MEM_UNION), else NULL */
    double latest;               /* MEM_UNION: of the set that was counted last */
    enum mem_numerator numerator;
    uint32_t now_op; /* edges born later do not exist; set by the caller */
    int64_t *bound;
    uint32_t *lowered; /* storages whose bound fell in the last call */
    size_t lowered_count;
    /* private */
    struct ebb_arena arena; /* the arrays per storage */
    struct mem_class *classes;
    size_t class_count, class_capacity;
    struct mem_class_link *links;
    size_t link_count, link_capacity;
    uint32_t spare_link;
    uint8_t *state;
    uint32_t *class_of;
    int64_t *contributed;
    uint32_t *mark, *walk, *walk_more, *next_member, *prev_member;
    uint32_t *far; /* storages whose bound counts more than its neighbours (classes) */
    size_t far_count;
    uint8_t *is_far;
    uint32_t visit;
    uint64_t work; /* storages and links looked at so far, about 10 ns each */
};

/* fini in any case. */
enum ebb_status mem_neigh_init(struct mem_neigh *neigh, const struct mem_graph *graph,
                               enum mem_numerator numerator, struct ebb_error *err);
void mem_neigh_fini(struct mem_neigh *neigh);
/* is_needed: it will be used again, or lies on the way back to something that will. What is not
 * needed counts for its descendants (they would be rebuilt through it), not for its ancestors. */
enum ebb_status mem_neigh_evicted(struct mem_neigh *neigh, uint32_t storage, bool is_needed,
                                  struct ebb_error *err);
enum ebb_status mem_neigh_returned(struct mem_neigh *neigh, uint32_t storage,
                                   struct ebb_error *err);
int64_t mem_neigh_exact(struct mem_neigh *neigh,
                        uint32_t storage); /* numerator now, own cost included */

/* ---- prices ---------------------------------------------------------------------------------- */

double mem_copy_ns(const struct device_link *link, uint64_t bytes);
/* Of going out, unless a clean copy lies there, and coming back. */
double mem_swap_ns(const struct device_link *in, const struct device_link *out, uint64_t bytes,
                   bool is_clean);
/* What having a storage again costs: the cheaper of making it and copying it; INFINITY = not that
 * way. *is_copied (may be NULL). Making it wins a tie. */
static inline double mem_price(double make_ns, double copy_ns, bool *is_copied)
{
    bool copies = copy_ns < make_ns;
    if (is_copied)
        *is_copied = copies;
    return copies ? copy_ns : make_ns;
}

/* ---- the manager ----------------------------------------------------------------------------- */

/* Where every storage of a trace is: it makes room, chooses who leaves and how, and brings back
 * copies. It launches nothing: whoever drives it (exec) says which op is served, waits with, pins
 * and reports what ops did, and runs the ops that make things again. States and rules: README.md. */

enum mem_state { MEM_ABSENT, MEM_RESIDENT };

struct mem_slot {         /* a storage's place in the tiers */
    uint32_t segment;     /* in the slab of tier 0 */
    uint32_t version;     /* of the newest value, wherever it is */
    uint32_t uses_left;   /* program uses still to come */
    uint16_t pins, waits; /* hard: op about to run; soft: ops that wait with it as input */
    uint8_t state;        /* enum mem_state */
    uint8_t is_held;      /* its way back is gone: may not be dropped */
    uint8_t is_droppable; /* as last noted: see swap of the manager */
    uint8_t is_small;     /* below the small-tensor rule: no candidate */
    uint8_t has_copy;     /* bit per tier: a copy of the newest version */
    uint32_t copy_segment[DEVICE_TIERS]; /* in the slab of that tier */
    uint32_t copy_version[DEVICE_TIERS];
    device_event ready; /* copy in: readers wait for it */
    device_event gone;  /* copy out: whoever writes over its bytes waits for it */
};

struct mem_config {
    const struct plan_recipes *recipes; /* PLAN_ONLINE; borrowed, as all below */
    const struct mem_graph *graph;
    const struct mem_policy *policy;   /* NULL: nobody is evicted */
    unsigned ways;                     /* OR of mem_way */
    uint64_t bytes[DEVICE_TIERS];      /* of the slabs */
    const struct device_config *links; /* frozen transfer costs that decisions use */
    struct device *device;             /* does the copies */
    uint64_t seed;                     /* policies that draw */
    bool sampling;                     /* score about 2 sqrt(n) candidates only */
    bool ignore_small;                 /* those below 1 % of the average size are none */
    bool reference_scan;               /* choose by a plain scan: for tests */
    bool takes_first;                  /* the best victim, whatever hole it makes */
    bool ignores_dead;                 /* what is dead stays until chosen */
    bool measures;                     /* wall time is taken: mem_tally */
    struct mem_listener listener;
};

struct mem_aside { /* chosen to leave; its bytes are given back, but nothing lies there yet */
    uint32_t storage;
    uint32_t segment; /* that was its own: a hole now, or part of one */
    uint64_t offset;
};

struct mem_manager {
    struct mem_config c;
    const struct plan_recipes *r;
    struct mem_tally *tally; /* borrowed; its clock is the one decisions see */
    struct mem_slab slab[DEVICE_TIERS];
    struct mem_slot *slots;
    uint32_t op;   /* being served */
    uint32_t done; /* finished */
    uint64_t sum_bytes;
    /* private */
    struct ebb_arena arena; /* the arrays per storage */
    uint8_t *is_resident, *is_candidate;
    int64_t *cost; /* per storage: of making it again from what lies there */
    double *fresh; /* per storage: last use of the freshest member of its set as last counted
                      (MEM_UNION), else `last` itself */
    double *last;  /* per storage: last use */
    double *price; /* scratch of gathering */
    double *swap;  /* per storage: cost of leaving by a copy as last noted, INFINITY = no way */
    struct mem_ahead *ahead;  /* of a policy with MEM_HIDDEN, else NULL */
    struct mem_index *index;  /* NULL: no policy */
    uint32_t *pool, *pool_at; /* the same members, dense: for policies that draw */
    uint32_t pool_count;
    struct mem_neigh neigh;
    uint32_t *waiting; /* ops that wait, outermost first */
    size_t waiting_count, waiting_capacity;
    struct mem_aside *asides; /* victims of the request in service, in order of choice */
    size_t aside_count, aside_capacity;
    uint32_t *mark, *walk; /* scratch of walks */
    uint32_t visit;
    uint64_t average_bytes;          /* of a storage */
    uint64_t seen_bytes, seen_count; /* running average of storage sizes (small-tensor rule) */
    struct ebb_mt19937 rng;
    bool has_tier_room; /* copies were forgotten since the pool was last looked over */
};

/* EBB_EBUDGET with tally->why when persistent storages do not fit; fini in any case. */
enum ebb_status mem_manager_init(struct mem_manager *m, const struct mem_config *config,
                                 struct mem_tally *tally, struct ebb_error *err);
void mem_manager_fini(struct mem_manager *m);

/* Tier-0 room for `bytes` (rounded, > 0); EBB_EBUDGET with tally->why when nothing more may leave.
 * What is taken for no storage (owner MEM_NONE - 1) is given back by mem_slab_give. */
enum ebb_status mem_take(struct mem_manager *m, uint64_t bytes, bool is_high, uint32_t owner,
                         uint32_t *segment, struct ebb_error *err);
/* An output of the op about to run gets its bytes, pinned, at version 0. */
enum ebb_status mem_place(struct mem_manager *m, uint32_t storage, struct ebb_error *err);
/* Its copy comes back, now that an op reads it. */
enum ebb_status mem_fetch(struct mem_manager *m, uint32_t storage, struct ebb_error *err);
/* It is away with a copy: does that come back, or is it made again? */
bool mem_is_fetched(struct mem_manager *m, uint32_t storage);
/* The copies of it in lower tiers are given up. */
enum ebb_status mem_forget(struct mem_manager *m, uint32_t storage, struct ebb_error *err);
/* The compute stream goes on only behind the copy that still fills the storage (D4): before its
 * bytes are read. Free: also behind the one that still reads it, before they are written, moved or
 * given back. */
enum ebb_status mem_await(struct mem_manager *m, uint32_t storage, struct ebb_error *err);
enum ebb_status mem_await_free(struct mem_manager *m, uint32_t storage, struct ebb_error *err);
/* An op of the program is done: a policy that looks ahead begins copies out of what is not read for
 * long, and copies in of what is read soon. */
enum ebb_status mem_look_ahead(struct mem_manager *m, struct ebb_error *err);
/* The op has run: what it wrote in place has a new version, its outputs were just used. */
enum ebb_status mem_made(struct mem_manager *m, const struct plan_node *op, bool is_remat,
                         struct ebb_error *err);
enum ebb_status mem_free_if_dead(struct mem_manager *m, uint32_t storage, struct ebb_error *err);

void mem_pin(struct mem_manager *m, uint32_t storage);
void mem_unpin(struct mem_manager *m, uint32_t storage);
void mem_hold(struct mem_manager *m, uint32_t storage); /* its way back ends with the op served */
/* An op waits for what it reads; the last one that began to is done (is_used: for good). */
enum ebb_status mem_wait(struct mem_manager *m, uint32_t op, struct ebb_error *err);
void mem_wait_over(struct mem_manager *m, bool is_used);

static inline bool mem_has(const struct mem_manager *m, uint32_t storage, uint32_t version)
{
    return m->slots[storage].state == MEM_RESIDENT && m->slots[storage].version == version;
}

#endif
