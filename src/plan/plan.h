/* plan.h - a schedule as data: what runs, what is placed where, what leaves, in order.
 *
 * A plan is a straight-line program over a trace. It is proved before use: plan_check is a pure
 * integer walk that rejects it if any instant exceeds the budget, two residents overlap, an input
 * is missing or of the wrong version, or the keep set is not resident at the end. exec runs exactly
 * what the checker accepted. The rules P1-P13 stand in README.md.
 *
 * Steps (enum plan_act); index is a storage unless said otherwise:
 *
 *   PLACE   reserve tier-0 bytes for the storage at `offset`. Contents are undefined until a RUN or
 *           FETCH fills it.
 *   RUN     index is an op. Its inputs must be resident with the version it reads. FRESH outputs
 *           that were PLACEd and are not yet filled are produced; outputs not placed are skipped
 *           (kind->can_skip_outputs, else scratch covers them); resident outputs are never
 *           rewritten. The op's workspace, then scratch, lies at `offset` for this step.
 *           With `tier` 1 the host runs it, beside the device: it reads copies there, writes in
 *           place there and fills what has ROOM there; its workspace lies at `offset` of tier 1.
 *   DROP    give the tier-0 bytes back.
 *   SEND    copy tier 0 -> `tier` to `offset` there, asynchronously; a copy that is there already
 *           is written over where it lies. The storage may be DROPped at once: whoever touches
 *           the bytes next waits for the copy.
 *   FETCH   copy `tier` -> tier 0 into a PLACEd storage, asynchronously; it is resident at once for
 *           the checker, its first reader waits for the copy.
 *   ROOM    reserve `bytes` of `tier` for a copy at `offset`, without contents until a RUN there
 *           or a SEND fills it.
 *   FORGET  give up the copy in `tier`.
 *   MOVE    copy a placed storage to `offset` inside tier 0 (the ranges may overlap); its old bytes
 *           are free. Only plans with addresses have moves.
 *
 * Leaves become resident by the RUN of their leaf op. Views cost nothing: a plan never runs a view
 * op; reading a view reads its base storage.
 *
 * Offsets: multiples of PLAN_UNIT. PLAN_NOWHERE = not assigned yet (byte-sum mode): the checker
 * then counts rounded bytes instead of addresses; plan_assign_offsets gives every residence an
 * address. Sizes are rounded up to PLAN_UNIT everywhere, except in exact-bytes mode (graph files:
 * golden data count bytes). */
#ifndef EBB_PLAN_PLAN_H
#define EBB_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"
#include "trace/trace.h"

#define PLAN_UNIT 256u
#define PLAN_NOWHERE UINT64_MAX
#define PLAN_TIERS 3 /* 0 device, 1 host, 2 file */
#define PLAN_HOST 1

enum plan_act {
    PLAN_PLACE,
    PLAN_RUN,
    PLAN_DROP,
    PLAN_SEND,
    PLAN_FETCH,
    PLAN_FORGET,
    PLAN_MOVE,
    PLAN_ROOM
};

struct plan_step {
    uint8_t act;  /* enum plan_act */
    uint8_t tier; /* SEND, FETCH, FORGET: 1 or 2; ROOM: 1; RUN: 1 on the host, else 0 */
    uint32_t index;
    /* PLACE, MOVE: where to; RUN: workspace, in `tier`; SEND, ROOM: where to there; else 0 */
    uint64_t offset;
};

/* Where a persistent storage (see plan_base_layout) lives when no run is under way and that is not
 * tier 0: a run finds version 0 there, as a copy, and leaves the last version there. Its leaf op
 * never runs. Homes lie at the bottom of their tier, one behind the other as listed. */
struct plan_home {
    uint32_t storage;
    uint8_t tier; /* 1 or 2 */
    uint64_t offset;
};

struct plan_homes {
    struct plan_home *list; /* by storage, ascending; owned by whoever owns the homes */
    size_t count;
};

struct plan {
    struct ebb_hash128 signature; /* of the trace it was made for */
    char planner[32];             /* name of the planner or policy that made it */
    uint64_t budget_bytes;        /* it was made for */
    struct plan_step *steps;      /* owned */
    size_t step_count, step_capacity;
    struct plan_homes homes; /* owned; of storages that do not live in tier 0 */
    bool exact_bytes;        /* sizes are not rounded (graph files) */
};

/* The home of a storage; NULL: tier 0, or it does not persist. */
const struct plan_home *plan_home_of(const struct plan_homes *homes, uint32_t storage);
/* `to`, which is zero or made so before, becomes a copy. */
enum ebb_status plan_homes_copy(struct plan_homes *to, const struct plan_homes *from,
                                struct ebb_error *err);
void plan_homes_fini(struct plan_homes *homes);

static inline uint64_t plan_round(uint64_t bytes)
{
    return (bytes + (PLAN_UNIT - 1)) & ~(uint64_t)(PLAN_UNIT - 1);
}

/* May an output be left out? Kernels say so themselves; ops of files have none, so nothing need be
 * produced. */
static inline bool plan_can_skip(const struct trace_kind *kind)
{
    return !kind->run || kind->can_skip_outputs;
}

/* Where persistent storages lie. Persistent: a leaf that is made before every op that is none, and
 * that is kept at the end (weights, buffers, optimizer state). What one run leaves there the next
 * one finds, so a plan with addresses has them from byte 0 upwards in order of storage id, never
 * moves or drops them, and puts nothing else there, not even before their PLACE. Those with a home
 * in another tier (homes; NULL: none has) come and go like everything else. offsets: per storage,
 * PLAN_NOWHERE for all others; *bytes (may be NULL): end of the last one. */
enum ebb_status plan_base_layout(const struct trace *trace, const struct plan_homes *homes,
                                 uint64_t *offsets, uint64_t *bytes, struct ebb_error *err);

void plan_init(struct plan *plan);
void plan_fini(struct plan *plan);
/* `to`, which is initialised, becomes a copy. */
bool plan_has_act(const struct plan *plan, enum plan_act act); /* a step of that kind */
enum ebb_status plan_copy(struct plan *to, const struct plan *from, struct ebb_error *err);
enum ebb_status plan_add(struct plan *plan, enum plan_act act, uint32_t index, uint64_t offset,
                         uint8_t tier, struct ebb_error *err);

/* What a walk over (trace, plan) finds. */
struct plan_report {
    uint64_t cost_ns;      /* sum of the costs of all RUN steps in tier 0 */
    uint64_t base_ns;      /* each op once */
    uint64_t peak_bytes;   /* highest sum of (rounded) bytes at any instant, workspace included */
    uint64_t height_bytes; /* highest end address; 0 when offsets are not assigned */
    uint64_t sent_bytes, fetched_bytes, moved_bytes, tier_peak_bytes[PLAN_TIERS];
    uint64_t run_count, rerun_count;
    size_t peak_step; /* step index of the peak */
};

struct plan_limits {
    uint64_t budget_bytes[PLAN_TIERS]; /* UINT64_MAX = unlimited; 0 = tier absent */
};

/* EBB_OK and the report, or EBB_EINPUT / EBB_EBUDGET with the step, the op and the numbers. Purity
 * `once` may run once; a MUTATE op must find its input at the version it consumes. Works with
 * assigned and unassigned offsets. */
enum ebb_status plan_check(const struct trace *trace, const struct plan *plan,
                           const struct plan_limits *limits, struct plan_report *report,
                           struct ebb_error *err);

/* ---- one step at a time ---------------------------------------------------------------------- */

/* The only place that knows what a step does to residency, versions and copies: the checker, the
 * assignment of offsets and exec's images all go through it. It knows nothing of addresses:
 * extra_bytes tells what lies in tier 0 for the duration of a RUN besides the residents. */
#define PLAN_EMPTY UINT32_MAX /* room for a copy, nothing in it */

struct plan_residence {
    uint32_t version;          /* of the contents, valid when is_filled */
    uint32_t copy[PLAN_TIERS]; /* version + 1 of the copy in tier 1, 2; 0 = none; PLAN_EMPTY */
    uint8_t home;              /* tier it lives in; 0: tier 0, or it does not persist */
    bool is_placed, is_filled;
};

struct plan_walk {
    const struct trace *trace;
    const struct plan *plan;
    struct plan_residence *storages; /* owned */
    uint32_t *run_counts;            /* owned; per op */
    uint64_t resident_bytes;         /* of every placed storage */
    uint64_t tier_bytes[PLAN_TIERS]; /* copies in tier 1, 2 */
    uint64_t extra_bytes;            /* of the last RUN: workspace + scratch; 0 after other steps */
    uint64_t below_bytes;            /* of the last RUN in tier 1: workspace there; else 0 */
};

enum ebb_status plan_walk_init(struct plan_walk *walk, const struct trace *trace,
                               const struct plan *plan, struct ebb_error *err);
void plan_walk_fini(struct plan_walk *walk);
/* Apply step `at`; EBB_EINPUT names the step and what is wrong. */
enum ebb_status plan_walk_step(struct plan_walk *walk, size_t at, struct ebb_error *err);
/* After the last step: every op ran, the keep set is resident. */
enum ebb_status plan_walk_end(const struct plan_walk *walk, struct ebb_error *err);

/* Could the host run it where copies lie (rule P13)? */
bool plan_can_run_below(const struct trace *trace, uint32_t op);

/* What a RUN that comes now, in that tier, would do with an output of its op (rules P3, P13). */
enum plan_fate {
    PLAN_FILLED,   /* produced: placed and empty */
    PLAN_WRITTEN,  /* written in place */
    PLAN_SCRATCH,  /* not wanted, but the op cannot do without: into scratch */
    PLAN_LEFT_OUT, /* not produced */
};
enum plan_fate plan_walk_fate(const struct plan_walk *walk, uint32_t tensor, uint8_t tier);

/* Bytes that `bytes` take in this plan (rounded unless exact). */
static inline uint64_t plan_size(const struct plan *plan, uint64_t bytes)
{
    return plan->exact_bytes ? bytes : plan_round(bytes);
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* Give every residence (PLACE..DROP) and workspace an address so that none overlap; deterministic.
 * Fails with EBB_EBUDGET when the packed height exceeds `budget` (UINT64_MAX = do not care).
 * Quality: height <= 1.03 x peak is the aim. */
enum ebb_status plan_assign_offsets(const struct trace *trace, struct plan *plan, uint64_t budget,
                                    uint64_t *height, struct ebb_error *err);
/* The same by a few orders only, in a small part of the time: for plans that are one of many. */
enum ebb_status plan_assign_quickly(const struct trace *trace, struct plan *plan, uint64_t budget,
                                    struct ebb_error *err);
/* Addresses of copies in the lower tiers, above what lives there; EBB_EBUDGET: they do not find room
 * in budget[tier]. Sends that have one already get another. */
enum ebb_status plan_assign_low(const struct trace *trace, struct plan *plan,
                                const uint64_t budget[PLAN_TIERS], struct ebb_error *err);
/* Some copy has no address yet. */
bool plan_lacks_low(const struct plan *plan);
/* Takes addresses and moves away again: whoever runs it places storages by itself. */
void plan_strip_offsets(struct plan *plan);
bool plan_has_addresses(const struct plan *plan);

/* The same within any height that is no less than the peak, for the price of moves where free bytes
 * lie scattered: *moved_bytes (may be NULL). Deterministic. */
enum ebb_status plan_assign_sliding(const struct trace *trace, struct plan *plan, uint64_t height,
                                    uint64_t *moved_bytes, struct ebb_error *err);

/* ---- recipes: what a trace says about memory ------------------------------------------------- */

/* A *node* is an op in the order of first runs; *stage* t is everything up to and including the
 * first run of node t. A *version* of a storage is made by one node; its *recipe* is that node and,
 * for versions above 0, the ones before it that wrote the storage in place. What has no recipe is
 * an *anchor*: a leaf, an output of a `once` op, a storage of an op that writes another one in
 * place (running it again would write that one twice). plan_check uses nothing of this. */
enum plan_look {
    PLAN_ONLINE,  /* for a manager that decides as it goes: nodes are all ops by their number, views
                     do nothing; nobody promises to restore anything */
    PLAN_OFFLINE, /* for schedules: nodes are the ops that run, then the end, which reads the keep
                     set; what must be restored is */
    PLAN_EARLY,   /* the same in the order TRACE_EARLY */
};

#define PLAN_NEVER UINT32_MAX

struct plan_ref { /* a version of a storage */
    uint32_t storage, version;
};

struct plan_node {
    uint64_t cost, workspace_bytes;
    uint32_t op;                           /* TRACE_NONE: the end */
    uint32_t in_first, in_count;           /* into ins: each storage once */
    uint32_t out_first, out_count;         /* into outs; views are left out */
    uint32_t restore_first, restore_count; /* into restores: versions whose recipe ends with this
                                              stage while they are still wanted */
    uint32_t end_first, end_count;         /* into ends: anchors that go after this stage */
    bool is_leaf, is_view, can_skip;
    bool is_replayable; /* may run again: pure, or writes one storage in place and nothing else */
};

struct plan_storage {
    uint64_t bytes;                        /* rounded as the plan will be */
    uint64_t base;                         /* address of a persistent storage, else PLAN_NOWHERE */
    uint32_t use_first, use_count;         /* into uses: nodes that read it, ascending */
    uint32_t version_first, version_count; /* into versions */
    uint8_t home;                          /* tier where it lives, if that is not tier 0; else 0 */
    bool is_kept;
};

struct plan_version {
    uint32_t maker;    /* node */
    uint32_t last_use; /* last node that reads it; its maker when none does; the end when kept */
    uint32_t gone;     /* node that overwrites it; PLAN_NEVER */
    /* Last stage at which its recipe works; 0: it has none, PLAN_NEVER: it always does. It is
     * restored at that stage if anybody reads it later. */
    uint32_t expire;
    uint32_t had_until; /* last stage at which it can be had, by lying there or by its recipe */
};

struct plan_recipes {
    struct ebb_arena arena; /* owns all below */
    const struct trace *trace;
    struct plan_node *nodes; /* node_count real ones and the end */
    struct plan_storage *storages;
    struct plan_version *versions;
    struct plan_ref *ins, *outs, *restores;
    uint32_t *uses, *ends;
    uint32_t *need_until; /* storage -> last stage that may need it, recomputations included */
    uint64_t *clock;      /* node -> sum of costs before it */
    uint32_t node_count, storage_count;
    uint64_t base_bytes; /* persistent storages, reserved throughout */
    uint64_t base_cost;
    bool is_online, exact_bytes;
    bool is_moved; /* updates stand earlier than in the trace */
};

/* homes (may be NULL; offline): of these storages the end reads nothing. */
enum ebb_status plan_recipes_create(struct plan_recipes **recipes, const struct trace *trace,
                                    const struct plan_homes *homes, enum plan_look look,
                                    struct ebb_error *err);
void plan_recipes_destroy(struct plan_recipes *recipes);

/* How long anchors are held (offline). All zero: while anything derived from them that is no kept
 * value may have to be made again. */
struct plan_holds {
    const uint8_t *may_rerun;   /* node -> it may run again; NULL: all may */
    const uint32_t *last_stage; /* storage -> no longer than this stage; NULL: no limit */
    bool keep_again;            /* also for making the keep set again at the end */
    bool is_shortest;           /* only for their readers: nothing may run again */
};

/* Work out needs, recipes, restores and ends for schedules of that kind. */
void plan_recipes_settle(struct plan_recipes *recipes, const struct plan_holds *holds);

static inline struct plan_version *plan_version_of(const struct plan_recipes *r, uint32_t storage,
                                                   uint32_t version)
{
    return &r->versions[r->storages[storage].version_first + version];
}

static inline struct plan_version *plan_last_version(const struct plan_recipes *r, uint32_t storage)
{
    return plan_version_of(r, storage, r->storages[storage].version_count - 1);
}

/* First stage at which it may no longer be dropped. */
static inline uint32_t plan_pinned_from(const struct plan_version *v)
{
    return v->expire == 0 || v->expire == PLAN_NEVER ? v->expire : v->expire + 1;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Text, versioned, one step per line (docs/formats/plan.md). The reader refuses anything it
 * does not know, with file:line. */
enum ebb_status plan_write(const struct plan *plan, const char *path, struct ebb_error *err);
enum ebb_status plan_load(const char *path, struct plan *plan, struct ebb_error *err);
enum ebb_status plan_read(const char *name, const char *bytes, size_t length, struct plan *plan,
                          struct ebb_error *err);

#endif
