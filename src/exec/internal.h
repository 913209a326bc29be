/* internal.h - private to exec: the compiled forms of a trace and the entry points of the two rule
 * sets. */
#ifndef EBB_EXEC_INTERNAL_H
#define EBB_EXEC_INTERNAL_H

#include "exec/exec.h"
#include "simrd/simrd.h"

struct ebb_program;

struct exec_program {
    const struct trace *trace; /* borrowed; outlives the program */
    enum exec_rules rules;
    struct simrd_program *simrd; /* rules simrd */
    struct ebb_program *ebb;     /* rules ebb */
};

enum ebb_status exec_ebb_compile(struct ebb_program **program, const struct trace *trace,
                                 struct ebb_error *err);
void exec_ebb_destroy(struct ebb_program *program);
enum ebb_status exec_ebb_run(const struct ebb_program *program, const struct exec_options *options,
                             struct exec_report *report, struct ebb_error *err);

enum ebb_status exec_log_add(struct exec_log *log, struct exec_event event, struct ebb_error *err);
struct mem_listener exec_log_listener(struct exec_log *log); /* NULL: nobody listens */

/* Nanoseconds of recomputation allowed by the options; UINT64_MAX = no limit. */
uint64_t exec_limit_ns(const struct exec_options *options, uint64_t base_ns);

#endif
