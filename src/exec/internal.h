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

/* run.c */
enum ebb_status exec_run_policy(const struct exec_program *program,
                                const struct exec_options *options, struct exec_report *report,
                                struct ebb_error *err);

/* launch.c: one op, with addresses */
enum ebb_status exec_launch_op(const struct exec_program *p, const struct exec_options *o,
                               struct device *device, uint32_t op, const struct trace_call *call,
                               struct ebb_error *err);
/* Its arguments: `pointers` of inputs, then outputs. */
struct trace_call exec_call(const struct exec_program *p, const struct exec_options *o, uint32_t op,
                            void **pointers, void *workspace);
/* Output k's scratch lies behind the workspace, in output order (rule P4 of plan): its distance
 * from the workspace; *bytes grows by it. */
uint64_t exec_scratch(const struct exec_program *p, uint32_t storage, uint64_t *bytes);
/* Kept results that are no leaves go to the caller. */
enum ebb_status exec_hand_over(const struct exec_program *p, const struct exec_options *o,
                               void *(*address)(void *context, uint32_t storage), void *context,
                               struct ebb_error *err);

/* easy.c */
enum ebb_status exec_easy_create(struct exec_easy **easy, struct ebb_error *err);
void exec_easy_destroy(struct exec_easy *easy);
uint64_t exec_keep_peak(const struct plan_recipes *recipes);

#endif
