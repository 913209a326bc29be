/* lean.h - a plan without what serves nobody (private to planner). */
#ifndef EBB_PLANNER_LEAN_H
#define EBB_PLANNER_LEAN_H

#include "planner/planner.h"

/* The same first runs in the same order, without addresses; `to` is initialised and empty. A
 * plan with results in tier 1 (ROOM) stays as it is. */
enum ebb_status planner_lean(const struct trace *trace, const struct plan *from, struct plan *to,
                             struct ebb_error *err);

#endif
