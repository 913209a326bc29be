/* check.c - the proof of a plan: a pure integer walk that accepts or says where and why not.
 *
 * Addresses: either every residence (and every nonempty workspace) has one or none has. With
 * addresses the residents are kept sorted by offset, so that each new block is compared with its
 * two neighbours only. */
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/heap.h"
#include "plan/row.h"

struct layout {
    struct plan_row row; /* disjoint; empty storages are left out */
    uint64_t height;
    bool has_offsets, has_gaps; /* some residence has an address; some has none */
    uint64_t *base;             /* per storage: where a persistent one lies, else PLAN_NOWHERE */
    uint64_t base_bytes;
    uint64_t awaited_bytes; /* of persistent ones that are not placed yet: nobody else has them */
};

struct low { /* a lower tier */
    struct layout layout;
    uint64_t *offsets; /* per storage, of its copy */
    bool *is_there;
};

/* Check a block of `bytes` at `offset` against the others and the budget; insert it when `storage`
 * is one. */
static enum ebb_status layout_put(struct layout *layout, const struct plan *plan, size_t at,
                                  uint64_t offset, uint64_t bytes, uint32_t storage,
                                  uint64_t budget, struct ebb_error *err)
{
    if (bytes == 0)
        return EBB_OK;
    if (offset == PLAN_NOWHERE) {
        layout->has_gaps = true;
        return EBB_OK;
    }
    layout->has_offsets = true;
    uint64_t end;
    if ((!plan->exact_bytes && offset % PLAN_UNIT != 0) ||
        __builtin_add_overflow(offset, bytes, &end))
        return ebb_fail(err, EBB_EINPUT, "plan: step %zu: offset %" PRIu64 " is not usable", at,
                        offset);
    bool is_base = layout->base && storage != TRACE_NONE && layout->base[storage] != PLAN_NOWHERE;
    if (is_base ? offset != layout->base[storage] : offset < layout->base_bytes)
        return ebb_fail(err, EBB_EINPUT,
                        is_base ? "plan: step %zu: persistent storage at %" PRIu64
                                  ", its place is %" PRIu64
                                : "plan: step %zu: offset %" PRIu64 " is below %" PRIu64
                                  ", where persistent storages lie",
                        at, offset, is_base ? layout->base[storage] : layout->base_bytes);
    struct plan_place i = plan_row_at(&layout->row, offset);
    const struct plan_block *hit = NULL, *below = plan_row_below(&layout->row, i);
    if (!plan_row_is_last(&layout->row, i) && plan_row_block(&layout->row, i)->begin < end)
        hit = plan_row_block(&layout->row, i);
    else if (below && below->end > offset)
        hit = below;
    if (hit)
        return ebb_fail(err, EBB_EINPUT,
                        "plan: step %zu: bytes %" PRIu64 "..%" PRIu64 " overlap storage %" PRIu32
                        " at %" PRIu64 "..%" PRIu64,
                        at, offset, end, hit->storage, hit->begin, hit->end);
    if (end > budget)
        return ebb_fail(err, EBB_EBUDGET,
                        "plan: step %zu reaches byte %" PRIu64 ", budget %" PRIu64, at, end,
                        budget);
    if (end > layout->height)
        layout->height = end;
    if (storage == TRACE_NONE)
        return EBB_OK;
    struct plan_block block = {.begin = offset, .end = end, .storage = storage};
    return plan_row_put(&layout->row, i, &block, err);
}

static void layout_remove(struct layout *layout, uint64_t offset, uint32_t storage)
{
    struct plan_place i = plan_row_at(&layout->row, offset);
    if (!plan_row_is_last(&layout->row, i) && plan_row_block(&layout->row, i)->storage == storage)
        plan_row_remove(&layout->row, i);
}

/* Homes are of persistent storages and lie one behind the other at the bottom of their tiers (P12).
 */
static enum ebb_status check_homes(const struct trace *trace, const struct plan *plan,
                                   uint64_t *base, struct low *low, struct ebb_error *err)
{
    if (plan->homes.count && plan->exact_bytes)
        return ebb_fail(err, EBB_EINPUT, "plan: homes in a plan in exact bytes");
    EBB_TRY(plan_base_layout(trace, NULL, base, NULL, err));
    for (size_t i = 0; i < plan->homes.count; i++) { /* the walk has seen that they are known */
        const struct plan_home *h = &plan->homes.list[i];
        if (base[h->storage] == PLAN_NOWHERE)
            return ebb_fail(err, EBB_EINPUT, "plan: home of storage %" PRIu32 ", which is not kept",
                            h->storage);
        if (h->offset != low[h->tier].layout.base_bytes)
            return ebb_fail(err, EBB_EINPUT,
                            "plan: home of storage %" PRIu32 " at %" PRIu64
                            ", its place is %" PRIu64,
                            h->storage, h->offset, low[h->tier].layout.base_bytes);
        low[h->tier].offsets[h->storage] = h->offset;
        low[h->tier].layout.base_bytes += plan_size(plan, trace->storages[h->storage].bytes);
    }
    return EBB_OK;
}

/* A copy has a place of its own from its ROOM or first SEND to its FORGET (P11). */
static enum ebb_status check_low(struct plan_walk *walk, struct low *low, size_t at,
                                 uint64_t budget, struct ebb_error *err)
{
    const struct plan_step *step = &walk->plan->steps[at];
    uint32_t s = step->index;
    if (step->act == PLAN_RUN)
        return layout_put(&low->layout, walk->plan, at, step->offset, walk->below_bytes, TRACE_NONE,
                          budget, err);
    if (step->act == PLAN_FORGET) {
        layout_remove(&low->layout, low->offsets[s], s);
        low->is_there[s] = false;
    }
    if (step->act != PLAN_SEND && step->act != PLAN_ROOM)
        return EBB_OK;
    bool was_there = low->is_there[s] || walk->storages[s].home == step->tier;
    low->is_there[s] = true;
    if (!was_there) {
        low->offsets[s] = step->offset;
        return layout_put(&low->layout, walk->plan, at, step->offset,
                          plan_size(walk->plan, walk->trace->storages[s].bytes), s, budget, err);
    }
    if (step->offset == low->offsets[s] || walk->trace->storages[s].bytes == 0)
        return EBB_OK;
    if (step->offset != PLAN_NOWHERE)
        return ebb_fail(err, EBB_EINPUT,
                        "plan: step %zu: storage %" PRIu32 " is sent to %" PRIu64
                        " of tier %u, its copy lies at %" PRIu64,
                        at, s, step->offset, (unsigned)step->tier, low->offsets[s]);
    low->layout.has_gaps = true;
    return EBB_OK;
}

/* Book what the step just walked did: sums, tiers, traffic. `awaited` bytes are reserved besides. */
static enum ebb_status account(const struct plan_walk *walk, size_t at, uint64_t awaited,
                               const struct plan_limits *limits, struct plan_report *report,
                               struct ebb_error *err)
{
    const struct plan_step *step = &walk->plan->steps[at];
    uint64_t bytes = step->act == PLAN_RUN ? 0 : walk->trace->storages[step->index].bytes;
    uint64_t now = walk->resident_bytes + walk->extra_bytes;
    if (now + awaited > limits->budget_bytes[0])
        return ebb_fail(err, EBB_EBUDGET, "plan: step %zu needs %" PRIu64 " bytes, budget %" PRIu64,
                        at, now + awaited, limits->budget_bytes[0]);
    if (now > report->peak_bytes) {
        report->peak_bytes = now;
        report->peak_step = at;
    }
    if (step->act == PLAN_RUN) {
        report->run_count++;
        report->rerun_count += walk->run_counts[step->index] > 1;
        uint64_t cost = step->tier ? 0 : walk->trace->ops[step->index].cost_ns;
        if (__builtin_add_overflow(report->cost_ns, cost, &report->cost_ns))
            return ebb_fail(err, EBB_EINPUT, "plan: step %zu: the cost overflows", at);
    }
    if (step->act == PLAN_SEND)
        report->sent_bytes += bytes;
    if (step->act == PLAN_MOVE)
        report->moved_bytes += bytes;
    if (step->act == PLAN_FETCH)
        report->fetched_bytes += bytes;
    for (int tier = 1; tier < PLAN_TIERS; tier++) {
        uint64_t there = walk->tier_bytes[tier] + (tier == PLAN_HOST ? walk->below_bytes : 0);
        if (there > limits->budget_bytes[tier])
            return ebb_fail(err, EBB_EBUDGET,
                            "plan: step %zu needs %" PRIu64 " bytes of tier %d, budget %" PRIu64,
                            at, there, tier, limits->budget_bytes[tier]);
        if (there > report->tier_peak_bytes[tier])
            report->tier_peak_bytes[tier] = there;
    }
    return EBB_OK;
}

static enum ebb_status check_step(struct plan_walk *walk, struct layout *layout, uint64_t *offsets,
                                  size_t at, uint64_t budget, struct ebb_error *err)
{
    const struct plan *plan = walk->plan;
    const struct plan_step *step = &plan->steps[at];
    EBB_TRY(plan_walk_step(walk, at, err));
    if ((step->act == PLAN_DROP || step->act == PLAN_MOVE) &&
        layout->base[step->index] != PLAN_NOWHERE)
        return ebb_fail(err, EBB_EINPUT,
                        "plan: step %zu: storage %" PRIu32 " is persistent, it may not be %s", at,
                        step->index, step->act == PLAN_DROP ? "dropped" : "moved");
    if (step->act == PLAN_DROP || step->act == PLAN_MOVE)
        layout_remove(layout, offsets[step->index], step->index);
    if (step->act == PLAN_RUN && !step->tier)
        return layout_put(layout, plan, at, step->offset, walk->extra_bytes, TRACE_NONE, budget,
                          err);
    if (step->act == PLAN_PLACE || step->act == PLAN_MOVE) {
        uint64_t bytes = plan_size(plan, walk->trace->storages[step->index].bytes);
        offsets[step->index] = step->offset;
        if (layout->base[step->index] != PLAN_NOWHERE) /* placed once: it is never dropped */
            layout->awaited_bytes -= bytes;
        return layout_put(layout, plan, at, step->offset, bytes, step->index, budget, err);
    }
    return EBB_OK;
}

static bool is_mixed(const struct low *low)
{
    return low->layout.has_offsets && low->layout.has_gaps;
}

enum ebb_status plan_check(const struct trace *trace, const struct plan *plan,
                           const struct plan_limits *limits, struct plan_report *report,
                           struct ebb_error *err)
{
    if (plan->signature.low != trace->signature.low ||
        plan->signature.high != trace->signature.high)
        return ebb_fail(err, EBB_EINPUT,
                        "plan: made for another trace (signature %016" PRIx64 "%016" PRIx64
                        ", this one has %016" PRIx64 "%016" PRIx64 ")",
                        plan->signature.high, plan->signature.low, trace->signature.high,
                        trace->signature.low);
    struct plan_walk walk;
    EBB_TRY(plan_walk_init(&walk, trace, plan, err));
    struct layout layout = {0};
    struct low low[PLAN_TIERS] = {0};
    struct plan_report found = {0};
    struct ebb_arena arena = {0};
    uint64_t *offsets = ebb_arena_calloc(&arena, trace->storage_count, sizeof *offsets);
    layout.base = ebb_arena_calloc(&arena, trace->storage_count, sizeof *layout.base);
    for (int k = 1; k < PLAN_TIERS; k++) {
        low[k].offsets = ebb_arena_calloc(&arena, trace->storage_count, sizeof *low[k].offsets);
        low[k].is_there = ebb_arena_calloc(&arena, trace->storage_count, sizeof *low[k].is_there);
    }
    enum ebb_status status = ebb_arena_status(&arena, err);
    EBB_THEN(status, check_homes(trace, plan, layout.base, low, err));
    EBB_THEN(status, plan_base_layout(trace, &plan->homes, layout.base, &layout.base_bytes, err));
    if (status == EBB_OK && plan->exact_bytes) { /* graphs have none */
        memset(layout.base, 0xff, trace->storage_count * sizeof *layout.base);
        layout.base_bytes = 0;
    }
    layout.awaited_bytes = layout.base_bytes;
    for (size_t at = 0; at < plan->step_count && status == EBB_OK; at++) {
        status = check_step(&walk, &layout, offsets, at, limits->budget_bytes[0], err);
        EBB_THEN(status, account(&walk, at, layout.awaited_bytes, limits, &found, err));
        uint8_t act = plan->steps[at].act;
        bool is_below =
            act == PLAN_SEND || act == PLAN_FORGET || act == PLAN_RUN || act == PLAN_ROOM;
        uint8_t tier = status == EBB_OK && is_below ? plan->steps[at].tier : 0;
        if (tier && !plan->exact_bytes)
            status = check_low(&walk, &low[tier], at, limits->budget_bytes[tier], err);
        if (status == EBB_OK && ((layout.has_offsets && layout.has_gaps) || is_mixed(&low[tier])))
            status = ebb_fail(err, EBB_EINPUT,
                              "plan: step %zu: some residences have an offset, some have none", at);
    }
    EBB_THEN(status, plan_walk_end(&walk, err));
    if (status != EBB_OK)
        goto out;
    for (uint32_t op = 0; op < trace->op_count; op++)
        if (!trace_is_view_op(trace, op))
            found.base_ns += trace->ops[op].cost_ns;
    found.height_bytes = layout.height;
    *report = found;
out:
    for (int k = 1; k < PLAN_TIERS; k++)
        plan_row_fini(&low[k].layout.row);
    plan_row_fini(&layout.row);
    ebb_arena_fini(&arena);
    plan_walk_fini(&walk);
    return status;
}
