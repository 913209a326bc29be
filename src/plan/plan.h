/* plan.h - a schedule as data: what runs, what is placed where, what leaves, in order.
 *
 * A plan is a straight-line program over a trace. It is proved before use: plan_check is a pure
 * integer walk that rejects it if any instant exceeds the budget, two residents overlap, an input
 * is missing or of the wrong version, or the keep set is not resident at the end. exec runs exactly
 * what the checker accepted.
 *
 * Steps (enum plan_act), index is a storage unless said otherwise:
 *   PLACE  reserve tier-0 bytes for the storage at `offset`. Contents undefined until a RUN or
 * FETCH fills it. RUN    index is an op. Inputs must be resident with the version the op reads;
 * FRESH outputs that were PLACEd and are not yet filled are produced; outputs not placed are
 * skipped (kind->can_skip_outputs, else `scratch` covers them); resident outputs are never
 * rewritten. The op's workspace (+ scratch) lies at `offset` for this step. DROP   give the tier-0
 * bytes back. SEND   copy tier 0 -> `tier` (asynchronous; the tier-0 bytes stay until DROP, which
 * waits for the copy). FETCH  copy `tier` -> tier 0 into a PLACEd storage; it is resident at once
 * for the checker, exec waits for the copy before the first reader. FORGET drop the copy in `tier`.
 *   MOVE   copy a placed storage to `offset` inside tier 0 (the ranges may overlap); its old bytes
 * are free. Only plans with addresses have moves: they are records of runs that gathered scattered
 * free bytes. Leaves become resident by the RUN of their leaf op. Views cost nothing: a plan never
 * runs a view op; reading a view reads its base storage.
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

#include "base/hash.h"
#include "base/status.h"
#include "trace/trace.h"

#define PLAN_UNIT 256u
#define PLAN_NOWHERE UINT64_MAX
#define PLAN_TIERS 3 /* 0 device, 1 host, 2 file */

enum plan_act { PLAN_PLACE, PLAN_RUN, PLAN_DROP, PLAN_SEND, PLAN_FETCH, PLAN_FORGET, PLAN_MOVE };

struct plan_step {
    uint8_t act;  /* enum plan_act */
    uint8_t tier; /* SEND, FETCH, FORGET: 1 or 2 */
    uint32_t index;
    uint64_t offset; /* PLACE, MOVE: where to; RUN: workspace; else 0 */
};

struct plan {
    struct ebb_hash128 signature; /* of the trace it was made for */
    char planner[32];             /* name of the planner or policy that made it */
    uint64_t budget_bytes;        /* it was made for */
    struct plan_step *steps;      /* owned */
    size_t step_count, step_capacity;
    bool exact_bytes; /* sizes are not rounded (graph files) */
};

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
 * moves or drops them, and puts nothing else there, not even before their PLACE. offsets: per
 * storage, PLAN_NOWHERE for all others; *bytes (may be NULL): end of the last one. */
enum ebb_status plan_base_layout(const struct trace *trace, uint64_t *offsets, uint64_t *bytes,
                                 struct ebb_error *err);

void plan_init(struct plan *plan);
void plan_fini(struct plan *plan);
enum ebb_status plan_add(struct plan *plan, enum plan_act act, uint32_t index, uint64_t offset,
                         uint8_t tier, struct ebb_error *err);

/* What a walk over (trace, plan) finds. */
struct plan_report {
    uint64_t cost_ns;      /* sum of the costs of all RUN steps */
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

/* Give every residence (PLACE..DROP) and workspace an address so that none overlap; deterministic.
 * Fails with EBB_EBUDGET when the packed height exceeds `budget` (UINT64_MAX = do not care).
 * Quality: height <= 1.03 x peak is the aim. */
enum ebb_status plan_assign_offsets(const struct trace *trace, struct plan *plan, uint64_t budget,
                                    uint64_t *height, struct ebb_error *err);

/* The same within any height that is no less than the peak, for the price of moves where free bytes
 * lie scattered: *moved_bytes (may be NULL). Deterministic. */
enum ebb_status plan_assign_sliding(const struct trace *trace, struct plan *plan, uint64_t height,
                                    uint64_t *moved_bytes, struct ebb_error *err);

/* Files: text, versioned, one step per line (docs/formats/plan.md). The reader refuses anything it
 * does not know, with file:line. */
enum ebb_status plan_write(const struct plan *plan, const char *path, struct ebb_error *err);
enum ebb_status plan_load(const char *path, struct plan *plan, struct ebb_error *err);
enum ebb_status plan_read(const char *name, const char *bytes, size_t length, struct plan *plan,
                          struct ebb_error *err);

#endif
