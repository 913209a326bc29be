/* internal.h - private to exec: a trace made ready to run, and what the parts ask of each other. */
#ifndef EBB_EXEC_INTERNAL_H
#define EBB_EXEC_INTERNAL_H

#include "exec/exec.h"
#include "simrd/simrd.h"

struct exec_program {
    const struct trace *trace; /* borrowed; outlives the program */
    enum exec_rules rules;
    struct simrd_program *simrd;  /* rules simrd; the rest belongs to rules ebb */
    struct plan_recipes *recipes; /* PLAN_ONLINE: node o is op o */
    struct mem_graph graph;
    uint32_t ports;         /* most inputs and outputs of one op */
    uint64_t keep_peak;     /* byte sum at the peak when nothing is ever evicted */
    struct exec_easy *easy; /* plan for budgets that need no eviction, made on first demand */
};

/* exec.c */
/* Nanoseconds of recomputation allowed by the options; UINT64_MAX = no limit. */
uint64_t exec_limit_ns(const struct exec_options *options, uint64_t base_ns);
enum ebb_status exec_needs_ebb(const struct exec_program *program, struct ebb_error *err);
enum ebb_status exec_log_add(struct exec_log *log, struct exec_event event,
                             struct ebb_error *err); /* NULL: nobody listens */
struct mem_listener exec_log_listener(struct exec_log *log);
void exec_report_tally(struct exec_report *report, const struct mem_tally *tally);
/* A null device as the options ask for becomes theirs. */
enum ebb_status exec_own_device(struct exec_options *options, struct ebb_error *err);

/* run.c */
enum ebb_status exec_run_policy(const struct exec_program *program,
                                const struct exec_options *options, struct exec_report *report,
                                struct ebb_error *err);

/* tries.c: of the ways of deciding that policy `unified` is, the fastest on the null device */
enum ebb_status exec_try_policies(const struct exec_program *program, struct exec_options *options,
                                  struct ebb_error *err);

/* launch.c */
/* An op ready to be handed to the device; stays as it is until the device is done (D7). */
struct exec_launch {
    const struct exec_program *p;
    const struct exec_options *o; /* io: that of the run */
    struct trace_call call;
    uint32_t op;
    device_work work; /* what it does, and what it costs: found when it is made */
    uint64_t cost_ns;
};
struct exec_launch exec_launch_make(const struct exec_program *p, const struct exec_options *o,
                                    const struct trace_call *call);
enum ebb_status exec_launch_op(struct exec_launch *launch, struct device *device,
                               struct ebb_error *err);
/* The same for a launch that does not outlive the call: on a device that works beside the host, the
 * host waits. */
enum ebb_status exec_launch_now(struct exec_launch *launch, struct device *device,
                                uint64_t leaf_offset, struct ebb_error *err);
/* Does this run look at the wall clock for every op? */
bool exec_is_timed(const struct exec_options *o, const struct device *device);
/* An op took so long: whoever asked is told, and it is added to `sum`; leaves are no work. */
void exec_took(const struct exec_program *p, const struct exec_io *io, uint32_t op, uint64_t ns,
               uint64_t *sum);
/* What the caller fills when the turn of this op comes: bytes of a leaf that is not persistent; else
 * 0. */
uint64_t exec_leaf_bytes(const struct exec_program *p, uint32_t op);
enum ebb_status exec_fill(const struct exec_launch *launch, void *bytes, struct ebb_error *err);
/* Is tier 0 memory that the host cannot reach? */
static inline bool exec_is_hidden(const struct device *device)
{
    return !device->table->is_host_visible && !device->table->is_clock;
}
/* Its arguments: `pointers` of inputs, then outputs. */
struct trace_call exec_call(const struct exec_program *p, const struct exec_options *o, uint32_t op,
                            void **pointers, void *workspace);
/* Output k's scratch lies behind the workspace, in output order (rule P4 of plan): its distance
 * from the workspace; *bytes grows by it. */
uint64_t exec_scratch(const struct exec_program *p, uint32_t storage, uint64_t *bytes);
/* Kept results that are no leaves, last first: `tensor` is its place in the trace's commands, one
 * more than the number of them to begin with; false: there are no more. */
bool exec_next_result(const struct exec_program *p, uint32_t *at, uint32_t *tensor);

/* waits.c */
struct exec_wait {
    uint32_t number, copy;
};
struct exec_waits_of { /* of one step: numbers of copies in exec_waits.list */
    uint32_t first, count;
    bool
        follows_compute; /* a copy behind work of the compute stream that its stream has not seen */
};
struct exec_waits {         /* all zero at the start */
    struct exec_copy *open; /* copies, and what runs below */
    size_t open_count, open_capacity;
    size_t below_count; /* ranges of the run below that is being looked at: the last ones open */
    uint32_t *list;
    size_t capacity;
    uint32_t count, copies;
    uint32_t last[DEVICE_STREAMS],
        known[DEVICE_STREAMS];             /* copies enqueued; waited for by compute */
    uint64_t done, seen[DEVICE_STREAMS];   /* steps of compute; how many of them a stream follows */
    struct exec_wait need[DEVICE_STREAMS]; /* of the step that is being looked at */
};
/* What the next step of compute does in tier 0, range by range; then the step. */
void exec_waits_touch(struct exec_waits *w, uint64_t offset, uint64_t bytes, bool is_write);
enum ebb_status exec_waits_compute(struct exec_waits *w, struct exec_waits_of *of,
                                   struct ebb_error *err);
/* A copy of `bytes` between `offset` in tier 0 and `low`; it gets the next number. */
enum ebb_status exec_waits_copy(struct exec_waits *w, enum device_tier tier, bool is_out,
                                uint64_t offset, uint64_t low, uint64_t bytes,
                                struct exec_waits_of *of, struct ebb_error *err);
/* The same for a run below: its ranges in tier 1, then the run, which gets the next number of a
 * copy. */
enum ebb_status exec_waits_touch_below(struct exec_waits *w, uint64_t low, uint64_t bytes,
                                       bool is_write, struct ebb_error *err);
enum ebb_status exec_waits_below(struct exec_waits *w, struct exec_waits_of *of,
                                 struct ebb_error *err);
enum ebb_status exec_waits_end(struct exec_waits *w, struct exec_waits_of *of,
                               struct ebb_error *err);
void exec_waits_fini(struct exec_waits *w);

/* easy.c */
enum ebb_status exec_easy_create(struct exec_easy **easy, struct ebb_error *err);
void exec_easy_destroy(struct exec_easy *easy);
uint64_t exec_keep_peak(const struct plan_recipes *recipes);

#endif
