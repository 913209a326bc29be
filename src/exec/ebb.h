/* ebb.h - private: the compiled trace and the state of one run under rules ebb. */
#ifndef EBB_EXEC_EBB_H
#define EBB_EXEC_EBB_H

#include "base/rng.h"
#include "exec/internal.h"

#define EXEC_NEVER UINT32_MAX

struct ebb_op {
    uint64_t cost;
    uint64_t workspace; /* rounded */
    uint32_t in_first,
        in_count; /* distinct storages read, views resolved: in_storage, in_version */
    uint32_t out_first,
        out_count; /* distinct storages written: out_storage, out_version (0 = fresh) */
    uint32_t restore_first, restore_count; /* storages whose way back ends when this op runs */
    uint32_t end_first, end_count;         /* anchors that nothing can need after this op */
    bool is_skipped;                       /* only views: nothing happens, nothing is paid */
    bool can_skip_outputs;
    bool is_once;
};

struct ebb_program {
    const struct trace *trace;
    struct mem_graph graph;
    uint32_t op_count, storage_count;
    struct ebb_op *ops;
    uint32_t *in_storage, *in_version, *out_storage, *out_version;
    uint32_t *restore, *ends;
    /* per storage */
    uint64_t *bytes; /* rounded; 0 stays 0: such storages need no room */
    uint32_t *root_op, *final_version;
    uint32_t *use_count, *last_use;
    uint32_t *need_until; /* last op for which it may be needed, recomputations included */
    uint8_t *is_leaf, *is_keep, *is_candidate;
    uint64_t *base;          /* where a persistent storage lies for good, else PLAN_NOWHERE */
    uint32_t *version_first; /* storage_count + 1: into expire and mutator */
    uint32_t *expire;        /* per (storage, version): first op after which it can no longer be
                                recomputed;        0: never could be */
    uint32_t *mutator; /* per (storage, version): op that makes this version (root op for 0) */
    uint32_t ports;    /* most inputs and outputs of one op */
    uint64_t base_ns;
    uint64_t average_bytes; /* of a storage */
    uint64_t keep_peak;     /* byte sum at the peak when nothing is ever evicted */
    struct exec_easy *easy; /* plan for budgets that need no eviction, made on first demand */
};

enum slot_state { SLOT_ABSENT, SLOT_RESIDENT };

struct ebb_slot {         /* a storage's place in the tiers */
    uint32_t segment;     /* in the slab of tier 0 */
    uint32_t version;     /* of the newest value, wherever it is */
    uint32_t uses_left;   /* program uses still to come */
    uint16_t pins, waits; /* hard: op about to run; soft: frames that wait with it as input */
    uint8_t state;        /* enum slot_state */
    uint8_t is_held;      /* its way back is gone: may not be dropped */
    uint8_t is_droppable; /* as last noted: see swap of the run */
    uint8_t is_small;     /* below the small-tensor rule: no candidate */
    uint8_t has_copy;     /* bit per tier: a copy (policy: of the newest version) */
    uint32_t copy_segment[DEVICE_TIERS]; /* in the slab of that tier */
    uint32_t copy_version[DEVICE_TIERS];
    device_event ready; /* copy in: readers wait for it */
};

struct ebb_frame {
    uint32_t op;
    uint32_t target; /* storage wanted by the frame below; EXEC_NEVER for a model op */
    uint32_t tries;
    bool is_remat;
};

struct ebb_aside { /* chosen to leave; its bytes are given back, but nothing lies there yet */
    uint32_t storage;
    uint32_t segment; /* that was its own: a hole now, or part of one */
    uint64_t offset;
};

struct ebb_run {
    const struct ebb_program *p;
    const struct exec_options *o;
    struct exec_report *r;
    struct device *device;
    struct mem_slab slab[DEVICE_TIERS];
    struct ebb_slot *slots;
    uint8_t *is_resident;
    int64_t *cost;
    double *last, *price;
    double *swap; /* per storage: cost of leaving by a copy as last noted, INFINITY = no way */
    struct mem_index *index;
    uint32_t *pool, *pool_at; /* the same members, dense: for policies that draw */
    uint32_t pool_count;
    struct mem_neigh neigh;
    uint64_t clock, limit_ns, sum_bytes;
    uint32_t op;   /* model op being served */
    uint32_t done; /* model ops finished */
    struct ebb_frame *frames;
    size_t frame_count, frame_capacity;
    struct ebb_aside *asides; /* victims of the request in service, in order of choice */
    size_t aside_count, aside_capacity;
    uint32_t *mark, *walk; /* scratch of estimates */
    uint32_t visit;
    uint64_t seen_bytes, seen_count; /* running average of storage sizes (small-tensor rule) */
    struct ebb_mt19937 rng;
    unsigned ways;
    void **pointers;    /* of one launch: as many as the widest op has inputs and outputs */
    bool has_tier_room; /* copies were forgotten since the pool was last looked over */
};

/* ebb_victim.c: who may leave, and who is chosen to */
bool exec_victim_can_drop(const struct ebb_run *run, uint32_t storage);
/* Cheapest lower tier with room (or with a clean copy): cost of going out and coming back, or -1 */
double exec_victim_swap_ns(const struct ebb_run *run, uint32_t storage, uint8_t *tier);
bool exec_victim_has_way(const struct ebb_run *run, uint32_t storage);
bool exec_victim_drops(struct ebb_run *run, uint32_t storage,
                       uint8_t *tier); /* else it leaves by a copy to *tier */
void exec_victim_pool(struct ebb_run *run,
                      uint32_t storage); /* put in or take out of the pool as its state demands */
void exec_victim_remove(struct ebb_run *run, uint32_t storage);
void exec_victim_touch(struct ebb_run *run, uint32_t storage);
void exec_victim_rank(struct ebb_run *run, uint32_t storage); /* its place in the index, again */
void exec_victim_rank_lowered(struct ebb_run *run); /* those whose neighbourhood got cheaper */
bool exec_victim_settle(struct ebb_run *run, uint32_t storage);
uint32_t exec_victim_next(struct ebb_run *run); /* the policy's choice as it stands */
/* The policy's choice, or one nearly as good that makes a hole of `bytes`. */
uint32_t exec_victim_choose(struct ebb_run *run, uint64_t bytes);
uint32_t exec_victim_waiting(struct ebb_run *run);

/* ebb_gather.c: *is_done when something was done that brings a hole of `bytes` nearer */
enum ebb_status exec_gather(struct ebb_run *run, uint64_t bytes, bool *is_done,
                            struct ebb_error *err);

/* ebb_room.c: addresses */
/* Tier-0 room for `bytes` (rounded, > 0); EBB_EBUDGET when nothing more may leave. */
enum ebb_status exec_room_take(struct ebb_run *run, uint64_t bytes, bool is_high, uint32_t owner,
                               uint32_t *segment, struct ebb_error *err);
enum ebb_status exec_room_release(struct ebb_run *run, uint32_t storage, enum exec_event_kind kind,
                                  struct ebb_error *err); /* storage leaves tier 0 */
enum ebb_status exec_room_evict(struct ebb_run *run, uint32_t storage, struct ebb_error *err);
enum ebb_status exec_room_arrive(struct ebb_run *run, uint32_t storage, struct ebb_error *err);
enum ebb_status exec_room_fetch(struct ebb_run *run, uint32_t storage, struct ebb_error *err);
enum ebb_status exec_room_log(struct ebb_run *run, enum exec_event_kind kind, uint32_t index,
                              uint64_t offset, uint8_t tier, struct ebb_error *err);
bool exec_room_is_short_lived(const struct ebb_run *run, uint32_t storage);

/* ebb_tier.c: copies, by offsets; the streams are ordered behind each other as device.h demands */
double exec_link_ns(const struct device_link *link, uint64_t bytes);
uint64_t exec_move_ns(const struct exec_options *o, uint64_t bytes); /* inside tier 0 */
uint64_t exec_offset(const struct ebb_run *run, int tier, uint32_t segment);
/* The compute stream goes on only behind the copy that still fills the storage (D4): before its
 * bytes are read, moved or given back. */
enum ebb_status exec_tier_await(struct ebb_run *run, uint32_t storage, struct ebb_error *err);
enum ebb_status exec_tier_send(struct ebb_run *run, uint32_t storage, uint8_t tier, uint64_t from,
                               struct ebb_error *err);
enum ebb_status exec_tier_fetch(struct ebb_run *run, uint32_t storage, uint8_t tier, uint64_t to,
                                struct ebb_error *err);
enum ebb_status exec_tier_forget(struct ebb_run *run, uint32_t storage,
                                 struct ebb_error *err); /* all of them */

/* image.c: a plan proved and laid out in memory; exec_image_* are public. */
enum ebb_status exec_image_bind(struct exec_image **image, const struct ebb_program *program,
                                const struct plan *plan, const struct exec_options *options,
                                struct ebb_error *err);

/* launch.c: one op, with addresses */
enum ebb_status exec_launch_op(const struct ebb_program *p, const struct exec_options *o,
                               struct device *device, uint32_t op, const struct trace_call *call,
                               struct ebb_error *err);
/* Output k's scratch lies behind the workspace, in output order (rule P4 of plan): its distance
 * from the workspace; *bytes grows by it. */
uint64_t exec_scratch(const struct ebb_program *p, uint32_t storage, uint64_t *bytes);
/* Kept results that are no leaves go to the caller. */
enum ebb_status exec_hand_over(const struct ebb_program *p, const struct exec_options *o,
                               void *(*address)(void *context, uint32_t storage), void *context,
                               struct ebb_error *err);

/* easy.c */
/* When everything fits without eviction: the plan that never evicts, offsets assigned; NULL when it
 * does not fit. Thread-safe; the plan belongs to the program. */
enum ebb_status exec_easy_create(struct exec_easy **easy, struct ebb_error *err);
void exec_easy_destroy(struct exec_easy *easy);
enum ebb_status exec_easy_plan(const struct ebb_program *p, uint64_t budget,
                               const struct plan **plan, struct ebb_error *err);
uint64_t exec_keep_peak(const struct ebb_program *p);

#endif
