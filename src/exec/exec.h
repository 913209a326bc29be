/* exec.h - the one interpreter: runs a trace on a device under a budget, by a policy or by a plan.
 *
 * exec_program is a trace made ready to run many times (adjacency, lifetimes, recipes; immutable,
 * shared by threads). exec_run runs it once. The simulator is exec_run on the null device.
 * Decisions never look at a wall clock: time is the sum of the frozen op costs.
 *
 * Rules (enum exec_rules):
 *
 *   EXEC_EBB    the default (README.md, rules E1-E4):
 *               - storages have addresses in one slab of `budget_bytes`; views cost nothing;
 *               - an op's outputs and workspace are reserved before it runs;
 *               - what has no further use is freed at once, recomputed intermediates included;
 *               - outputs that are resident are never made twice;
 *               - inputs are brought back in an order that needs least memory, and stay evictable
 *                 until the op that waits for them is about to run;
 *               - the keep set is pinned when final.
 *   EXEC_SIMRD  the published simulator, decision for decision: bytes are counted, not placed
 *               (src/simrd).
 *
 * A run ends ok, oom (nothing left to evict) or thrashed (recomputation above the limit). All three
 * are results, not errors. EXEC_REFUSED is no end of a run: commands that know a floor report it
 * for budgets below. */
#ifndef EBB_EXEC_EXEC_H
#define EBB_EXEC_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "device/device.h"
#include "mem/mem.h"
#include "plan/plan.h"
#include "trace/trace.h"

enum exec_rules { EXEC_EBB, EXEC_SIMRD };
enum exec_dealloc {
    EXEC_EAGER,  /* free when the last handle (simrd) or the last use (ebb) is gone */
    EXEC_BANISH, /* simrd only: the published V1 runtime */
    EXEC_IGNORE, /* releases are ignored: what is dead stays until chosen */
};
enum exec_result { EXEC_OK, EXEC_OOM, EXEC_THRASHED, EXEC_REFUSED };

const char *exec_result_text(enum exec_result result);

struct exec_program;

enum ebb_status exec_program_create(struct exec_program **program, const struct trace *trace,
                                    enum exec_rules rules, struct ebb_error *err);
void exec_program_destroy(struct exec_program *program);

/* What happened, in order; a real run and a simulated one must give equal logs. */
enum exec_event_kind {
    EXEC_EV_RUN,    /* index = op, first execution */
    EXEC_EV_RERUN,  /* index = op */
    EXEC_EV_PLACE,  /* index = storage, offset */
    EXEC_EV_DROP,   /* pressure victim, bytes given back */
    EXEC_EV_FREE,   /* dead: bytes given back */
    EXEC_EV_SEND,   /* index = storage, to tier */
    EXEC_EV_FETCH,  /* index = storage, from tier */
    EXEC_EV_FORGET, /* index = storage: its copy in the tier is given up */
    EXEC_EV_MOVE,   /* index = storage, new offset (compaction) */
    EXEC_EV_WORK,   /* index = op, offset of its workspace; before RUN or RERUN */
    EXEC_EV_ROOM,   /* index = storage: room for a copy in the tier, offset = where */
};

struct exec_event {
    uint8_t kind, tier;
    uint32_t index;
    uint64_t offset;
    uint64_t clock_ns;
};

struct exec_log { /* owned by the caller; exec_log_fini */
    struct exec_event *events;
    size_t count, capacity;
};
void exec_log_fini(struct exec_log *log);
/* The run as a plan with addresses (appended to an initialised plan): what exec did, the checker
 * can prove. */
enum ebb_status exec_log_to_plan(const struct exec_log *log, const struct trace *trace,
                                 struct plan *plan, struct ebb_error *err);

/* Where a real run's bytes come from and go to. Not called on the null device. */
struct exec_io {
    void *context;
    /* A leaf's turn has come; `tensor` is its id in the trace. Persistent leaves (plan.h) are not
     * asked for: they hold what the run before left. NULL: nothing is filled. */
    enum ebb_status (*fill)(void *context, uint32_t tensor, void *bytes, uint64_t count,
                            struct ebb_error *err);
    /* Images where the host cannot reach tier 0: a leaf's bytes where they lie already, in memory of the
     * device's host_take, untouched until the run is over; NULL: there are none, fill makes them. May
     * be NULL. */
    const void *(*lend)(void *context, uint32_t tensor, uint64_t count);
    /* Everything is done: every kept tensor that is no leaf. May be NULL. */
    enum ebb_status (*read)(void *context, uint32_t tensor, const void *bytes, uint64_t count,
                            struct ebb_error *err);
    /* Every op as it ran and how long, on a device of its own after it was waited for. A run
     * that is timed is never captured. May be NULL. */
    void (*timed)(void *context, uint32_t op, uint64_t ns);
    _Atomic uint32_t *now; /* NULL, or told the op that is about to run; not in a capture */
    bool measures;         /* the report tells the wall times of its parts; never captured either */
};

struct exec_options {
    const struct mem_policy *policy; /* NULL or "none": never evict */
    const struct plan *plan;         /* run this instead of a policy (rules ebb) */
    enum exec_dealloc dealloc;
    uint64_t budget_bytes;
    double limit;        /* overhead limit: recompute <= (limit - 1) x base; <= 0: none */
    uint64_t limit_ns;   /* when not 0: absolute limit on recomputation instead */
    uint64_t work_limit; /* rules ebb: what a policy may look at, counted; 0: no limit */
    uint64_t seed;       /* policies that draw */
    bool sampling;       /* rules ebb: score about 2 sqrt(n) candidates only */
    bool ignore_small;   /* rules ebb: storages below 1 % of the running average size are not
                            candidates */
    bool reference_scan; /* choose victims by a plain scan instead of the index: for tests */
    bool takes_first;    /* policies that see: the best victim, not the best that makes the hole */
    unsigned ways;       /* OR of mem_way; 0 = drop only */
    uint64_t tier_bytes[DEVICE_TIERS]; /* [1] host, [2] file: room for swapped storages */
    struct device_config
        links;             /* frozen transfer costs that decisions use (and the own null device) */
    struct device *device; /* NULL: a null device of its own; else its owner has reserved
                              budget_bytes in tier 0 and tier_bytes in the others */
    void *context;         /* of kernels: trace_call.context */
    void *below_context;   /* of kernels that the host runs in tier 1 */
    /* Images: called with `context` behind the last step of a run, on the way or in a capture. */
    enum ebb_status (*finish)(void *context, struct ebb_error *err);
    const struct exec_io *io;
    struct exec_log *log; /* NULL: none */
};

struct exec_report {
    enum exec_result result;
    uint64_t budget_bytes;
    uint64_t base_ns, remat_ns;
    uint64_t clock_ns;   /* the decision clock: ops and moves */
    uint64_t device_ns;  /* rules ebb: time on the device's compute stream, stalls included */
    uint64_t stall_ns;   /* of it, waiting for copies; 0 where the device does not know */
    uint64_t peak_bytes; /* highest address (ebb), byte sum (simrd) */
    uint64_t sum_bytes;  /* highest byte sum */
    uint64_t evictions_pressure, evictions_release, remat_ops, remat_collateral;
    uint64_t swapped_bytes;
    uint64_t host_ops; /* that the host ran, in tier 1 */
    uint64_t moved_bytes;
    uint64_t ops_done, eval_count, banished;
    uint64_t evict_hash; /* FNV-1a 64 over the root tensor ids of pressure victims */
    /* Wall times of a run that exec_io.measures: of ops as they run first and again, of making room
     * (cost_ns in it: what candidates cost; by a plan 0), of moves within the device. */
    uint64_t first_ns, again_ns, search_ns, cost_ns, move_ns;
    char why[160]; /* for oom, thrashed, refused: where and with which numbers */
};

/* Time over time without limit. Stalls for copies count: a simulated device knows them. */
static inline double exec_overhead(const struct exec_report *r)
{
    uint64_t ns = r->device_ns > r->clock_ns ? r->device_ns : r->clock_ns;
    return r->base_ns ? (double)ns / (double)r->base_ns : 1.0;
}

enum ebb_status exec_run(const struct exec_program *program, const struct exec_options *options,
                         struct exec_report *report, struct ebb_error *err);

/* A plan proved once and bound to the memory of options->device (required), to run many times with
 * nothing left to decide. Fails as plan_check does, or when copies do not find room in a lower
 * tier. The plan may go afterwards; program and device stay. */
struct exec_image;

enum ebb_status exec_image_create(struct exec_image **image, const struct exec_program *program,
                                  const struct plan *plan, const struct exec_options *options,
                                  struct ebb_error *err);
void exec_image_destroy(struct exec_image *image);
enum ebb_status exec_image_run(struct exec_image *image, const struct exec_io *io,
                               struct exec_log *log, struct exec_report *report,
                               struct ebb_error *err);

/* The plan that never evicts, packed; NULL when it is higher than `budget`. Belongs to the program.
 */
enum ebb_status exec_keep_all(const struct exec_program *program, uint64_t budget,
                              const struct plan **plan, struct ebb_error *err);

#endif
