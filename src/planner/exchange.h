/* exchange.h - a plan without copies, made cheaper by exchanges (private to planner). */
#ifndef EBB_PLANNER_EXCHANGE_H
#define EBB_PLANNER_EXCHANGE_H

#include "planner/planner.h"

#define PLANNER_EXCHANGE "exchange" /* plan.planner */

/* Within `budget_bytes` by the sum of bytes, without addresses; `work` limits the search: stages
 * evaluated times nodes. `plan` is initialised and empty. */
enum ebb_status planner_exchange(const struct trace *trace, uint64_t budget_bytes,
                                 const struct plan *from, uint64_t work, struct plan *plan,
                                 bool *is_found, struct ebb_error *err);

#endif
