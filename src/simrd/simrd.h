/* simrd.h - rules simrd: the published simulator, decision for decision.
 *
 * Bytes are counted, not placed; views are replayed; an op's outputs are all made again; what is
 * dead goes at once, never, or by the published V1 runtime ("banishing"). It exists to reproduce
 * published results exactly, and as the yardstick of rules ebb. Replayed views, duplicate outputs
 * and counted bytes contradict the contract of rules ebb, so it is an interpreter of its own; what
 * it shares with `exec` is below both: traces, policies, adjacency, the words of events, the tally.
 *
 * exec_run chooses between the two; nothing above exec includes this header.
 */
#ifndef EBB_SIMRD_SIMRD_H
#define EBB_SIMRD_SIMRD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "mem/mem.h"
#include "trace/trace.h"

struct simrd_program; /* a trace made ready to run many times; immutable, shared by threads */

/* The trace is borrowed. Refuses ops that write in place: these rules know copy-on-write only. */
enum ebb_status simrd_compile(struct simrd_program **program, const struct trace *trace,
                              struct ebb_error *err);
void simrd_destroy(struct simrd_program *program);
uint64_t simrd_base_ns(const struct simrd_program *program); /* every op once, views included */

struct simrd_options {
    const struct mem_policy *policy; /* NULL: never evict */
    uint64_t budget_bytes;
    uint64_t limit_ns;   /* of recomputation; UINT64_MAX: none */
    uint64_t seed;       /* policies that draw */
    bool is_eager;       /* free when the last handle is gone */
    bool banishes;       /* or by the published V1 runtime; neither: releases are ignored */
    bool reference_scan; /* choose victims by the published scan: for tests */
    struct mem_listener listener;
};

/* EBB_EBUDGET (nothing left to evict) and EBB_ELIMIT (recomputation above the limit) are told in
 * tally->why. */
enum ebb_status simrd_run(const struct simrd_program *program, const struct simrd_options *options,
                          struct mem_tally *tally, struct ebb_error *err);

#endif
