/* flips.h - single decisions of a game changed, the fastest kept (private to planner). */
#ifndef EBB_PLANNER_FLIPS_H
#define EBB_PLANNER_FLIPS_H

#include "planner/planner.h"

struct planner_flips {
    const struct trace *trace;
    const struct planner_tiers
        *tiers;       /* what games see: the part of the budget, prices of copies */
    uint32_t tries;   /* games */
    int starts;       /* games that it begins with, the fastest first */
    bool is_thorough; /* also with anchors held longer, and shorter */
    /* Times a game (steps without addresses). Where it takes less than *ns that becomes its time, and
     * `fastest`, initialised and empty, the plan as it was timed. */
    enum ebb_status (*time)(void *context, const struct plan *game, struct plan *fastest,
                            uint64_t *ns, struct ebb_error *err);
    void *context;
};

enum ebb_status planner_flip(const struct planner_flips *flips, struct ebb_error *err);

#endif
