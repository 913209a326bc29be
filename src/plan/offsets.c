/* offsets.c - an address for every residence and workspace: rectangles (steps x bytes) packed into
 * a strip.
 *
 * Each rectangle goes to the lowest address that is free over its whole life; what matters is the
 * order in which they are taken. Several orders are tried (large first, long first, those alive at
 * the peak first, program order), then the best one is improved by taking the rectangles that stick
 * out earlier. The byte-sum peak is a lower bound, so a packing that reaches it ends the search.
 * Everything is counted in visits, not in time: the same plan always gets the same addresses. */
#include "plan/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/rng.h"
#include "plan/strip.h"

#define VISIT_LIMIT UINT64_C(60000000)  /* visits in all: about 100 ms */
#define VISITS_PER_RECT UINT64_C(10000) /* when no budget has to be met */

struct rect {
    /* [begin, end): a residence from 2*place to 2*drop, a workspace 2*run .. 2*run+1 */
    uint64_t begin, end; /* begin comes first: it is what they are sorted by */
    uint64_t bytes, offset;
    size_t step; /* that gets the offset */
    bool at_peak;
    bool is_base; /* persistent: packed first, in order, so that each lies where it must */
};

struct packer {
    struct ebb_arena arena; /* all but the rectangles */
    struct rect *rects;     /* in order of begin; persistent storages first */
    size_t count, capacity, base_count;
    struct plan_strip strip; /* those packed so far */
    uint64_t visits, visit_limit, height, peak;
};

struct ranked { /* sort key: larger first, then lower index */
    double key, second;
    uint32_t index;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    if (x->second != y->second)
        return x->second > y->second ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Pack in the given order; false when the height passes `limit` (the packing is then useless). */
static bool pack(struct packer *p, const uint32_t *order, uint64_t limit)
{
    plan_strip_clear(&p->strip);
    p->height = 0;
    for (size_t i = 0; i < p->count; i++) {
        struct rect *r = &p->rects[order[i]];
        r->offset = plan_strip_lowest(&p->strip, r->bytes, r->begin, r->end, &p->visits);
        if (r->offset + r->bytes > p->height)
            p->height = r->offset + r->bytes;
        if (p->height > limit)
            return false;
        plan_strip_add(&p->strip, &(struct plan_strip_rect){r->offset, r->offset + r->bytes,
                                                            r->begin, r->end});
    }
    return true;
}

enum order { BY_BYTES, BY_AREA, BY_LENGTH, BY_PEAK_END, BY_PEAK_BYTES, BY_BEGIN, ORDER_COUNT };

static void make_order(const struct packer *p, enum order kind, struct ranked *keys,
                       uint32_t *order)
{
    uint64_t last = p->count ? p->rects[p->count - 1].begin : 0;
    for (size_t i = 0; i < p->count; i++) {
        const struct rect *r = &p->rects[i];
        double bytes = (double)r->bytes, length = (double)(r->end - r->begin);
        bool is_whole = r->begin == p->rects[0].begin && r->end > last;
        double key = bytes, second = length;
        switch (kind) {
        case BY_AREA:
            key = bytes * length;
            break;
        case BY_LENGTH:
            key = length;
            second = bytes;
            break;
        case BY_PEAK_END: /* nested lives stack like brackets: the longest at the bottom */
            key = r->at_peak ? 1e30 + length : bytes;
            break;
        case BY_PEAK_BYTES:
            key = r->at_peak ? 1e30 + bytes : length;
            break;
        case BY_BEGIN:
            key = -(double)r->begin;
            second = bytes;
            break;
        default:
            break;
        }
        if (r->is_base || is_whole)
            key = r->is_base ? 1e39 : 1e38;
        keys[i] =
            (struct ranked){.key = key, .second = r->is_base ? 0 : second, .index = (uint32_t)i};
    }
    qsort(keys, p->count, sizeof *keys, compare_ranked);
    for (size_t i = 0; i < p->count; i++)
        order[i] = keys[i].index;
}

static void save(const struct packer *p, uint64_t *offsets)
{
    for (size_t i = 0; i < p->count; i++)
        offsets[i] = p->rects[i].offset;
}

/* Take a rectangle that sticks out earlier, keep the order when the packing does not get worse. */
static void improve(struct packer *p, uint32_t *order, uint64_t *best, uint64_t *best_height,
                    uint64_t goal)
{
    uint64_t random = 0x9e3779b97f4a7c15u;
    while (*best_height > goal && p->visits < p->visit_limit) {
        size_t at = p->count, seen = 0;
        for (size_t i = 0; i < p->count; i++) {
            const struct rect *r = &p->rects[order[i]];
            if (best[order[i]] + r->bytes == *best_height && ebb_splitmix64(&random) % ++seen == 0)
                at = i;
        }
        if (at == p->count || at <= p->base_count)
            return;
        size_t to = p->base_count + ebb_splitmix64(&random) % (at - p->base_count);
        uint32_t moved = order[at];
        memmove(&order[to + 1], &order[to], (at - to) * sizeof *order);
        order[to] = moved;
        if (pack(p, order, *best_height)) {
            *best_height = p->height;
            save(p, best);
        } else {
            memmove(&order[to], &order[to + 1], (at - to) * sizeof *order);
            order[at] = moved;
        }
        p->visits += p->count;
    }
}

static enum ebb_status add_rect(struct packer *p, uint64_t bytes, size_t step, uint64_t length,
                                struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&p->rects, &p->capacity, p->count + 1, sizeof *p->rects, err));
    p->rects[p->count++] = (struct rect){.bytes = bytes,
                                         .begin = 2 * (uint64_t)step,
                                         .end = 2 * (uint64_t)step + length,
                                         .step = step};
    return EBB_OK;
}

/* Its offset is one of a lower tier. */
static bool lies_below(const struct plan_step *step)
{
    return step->act == PLAN_SEND || step->act == PLAN_ROOM ||
           (step->act == PLAN_RUN && step->tier);
}

/* Persistent storages take their places for good before anything else. */
static enum ebb_status collect_base(const struct trace *trace, const struct plan *plan,
                                    size_t *open, struct packer *p, struct ebb_error *err)
{
    uint64_t *base = ebb_arena_calloc(&p->arena, trace->storage_count, sizeof *base);
    EBB_TRY(ebb_arena_status(&p->arena, err));
    EBB_TRY(plan_base_layout(trace, &plan->homes, base, NULL, err));
    for (uint32_t s = 0; s < trace->storage_count; s++) {
        if (base[s] == PLAN_NOWHERE || trace->storages[s].bytes == 0)
            continue;
        open[s] = p->count;
        EBB_TRY(
            add_rect(p, plan_round(trace->storages[s].bytes), 0, 2 * plan->step_count + 2, err));
        p->rects[p->count - 1].is_base = true;
    }
    p->base_count = p->count;
    return EBB_OK;
}

/* Replay the plan into rectangles. `open` maps a storage to its residence. */
static enum ebb_status collect(const struct trace *trace, const struct plan *plan, size_t *open,
                               struct packer *p, struct ebb_error *err)
{
    struct plan_walk walk;
    size_t peak_step = 0;
    if (!plan->exact_bytes)
        EBB_TRY(collect_base(trace, plan, open, p, err));
    EBB_TRY(plan_walk_init(&walk, trace, plan, err));
    enum ebb_status status = EBB_OK;
    for (size_t at = 0; at < plan->step_count && status == EBB_OK; at++) {
        const struct plan_step *step = &plan->steps[at];
        status = plan_walk_step(&walk, at, err);
        if (status != EBB_OK)
            break;
        if (walk.resident_bytes + walk.extra_bytes > p->peak) {
            p->peak = walk.resident_bytes + walk.extra_bytes;
            peak_step = at;
        }
        size_t base = step->act == PLAN_RUN ? SIZE_MAX : open[step->index];
        if (base < p->base_count) {
            if (step->act == PLAN_DROP || step->act == PLAN_MOVE)
                status = ebb_fail(err, EBB_EINPUT,
                                  "plan: step %zu: storage %" PRIu32 " is persistent: it stays", at,
                                  step->index);
            if (step->act == PLAN_PLACE)
                p->rects[base].step = at;
            continue;
        }
        if (step->act == PLAN_PLACE) {
            open[step->index] = p->count;
            status = add_rect(p, plan_size(plan, trace->storages[step->index].bytes), at,
                              2 * (plan->step_count - at) + 2, err);
        } else if (step->act == PLAN_MOVE) {
            status = ebb_fail(err, EBB_EINPUT,
                              "plan: step %zu is a move: the plan has addresses already", at);
        } else if (step->act == PLAN_DROP) {
            p->rects[open[step->index]].end = 2 * (uint64_t)at;
        } else if (step->act == PLAN_RUN && walk.extra_bytes > 0) {
            status = add_rect(p, walk.extra_bytes, at, 1, err);
        }
    }
    for (size_t i = 0; i < p->count; i++)
        p->rects[i].at_peak = p->rects[i].begin <= 2 * (uint64_t)peak_step &&
                              p->rects[i].end > 2 * (uint64_t)peak_step;
    plan_walk_fini(&walk);
    return status;
}

static enum ebb_status search(struct packer *p, uint64_t budget, bool is_quick, uint64_t *best,
                              uint64_t *best_height, struct ebb_error *err)
{
    uint64_t goal = p->peak;
    p->visit_limit = VISIT_LIMIT;
    if (budget == UINT64_MAX && p->count < VISIT_LIMIT / VISITS_PER_RECT)
        p->visit_limit = VISITS_PER_RECT * p->count;
    if (budget != UINT64_MAX && budget > goal)
        goal = budget;
    struct ranked *keys = ebb_arena_calloc(&p->arena, p->count, sizeof *keys);
    uint32_t *order = ebb_arena_calloc(&p->arena, p->count, sizeof *order);
    uint32_t *best_order = ebb_arena_calloc(&p->arena, p->count, sizeof *best_order);
    EBB_TRY(ebb_arena_status(&p->arena, err));
    for (int kind = 0; kind<ORDER_COUNT && * best_height> goal; kind++) {
        if (kind > 0 && p->visits > p->visit_limit)
            break;
        make_order(p, (enum order)kind, keys, order);
        if (pack(p, order, *best_height - 1)) {
            *best_height = p->height;
            save(p, best);
            memcpy(best_order, order, p->count * sizeof *order);
        }
    }
    if (!is_quick)
        improve(p, best_order, best, best_height, goal);
    return EBB_OK;
}

/* Find addresses for what was collected: in p->rects. */
static enum ebb_status solve(struct packer *p, uint64_t budget, bool is_quick, uint64_t *height,
                             struct ebb_error *err)
{
    uint64_t best_height = UINT64_MAX;
    uint64_t *best = ebb_arena_calloc(&p->arena, p->count, sizeof *best);
    EBB_TRY(plan_strip_init(&p->strip, &p->arena, p->count, err));
    EBB_TRY(search(p, budget, is_quick, best, &best_height, err));
    if (best_height > budget)
        return ebb_fail(err, EBB_EBUDGET,
                        "plan: packed height %" PRIu64 " bytes (byte sum %" PRIu64
                        "), budget %" PRIu64,
                        best_height, p->peak, budget);
    for (size_t i = 0; i < p->count; i++)
        p->rects[i].offset = best[i];
    *height = best_height;
    return EBB_OK;
}

static enum ebb_status assign(struct packer *p, const struct trace *trace, struct plan *plan,
                              uint64_t budget, bool is_quick, uint64_t *height,
                              struct ebb_error *err)
{
    uint64_t best_height;
    size_t *open = ebb_arena_calloc(&p->arena, trace->storage_count, sizeof *open);
    EBB_TRY(ebb_arena_status(&p->arena, err));
    memset(open, 0xff, trace->storage_count * sizeof *open);
    EBB_TRY(collect(trace, plan, open, p, err));
    EBB_TRY(solve(p, budget, is_quick, &best_height, err));
    for (size_t at = 0; at < plan->step_count; at++)
        plan->steps[at].offset = lies_below(&plan->steps[at]) ? plan->steps[at].offset : 0;
    for (size_t i = 0; i < p->count; i++)
        plan->steps[p->rects[i].step].offset = p->rects[i].offset;
    if (height)
        *height = best_height;
    return EBB_OK;
}

/* ---- lower tiers ----------------------------------------------------------------------------- */

/* A copy lies there from its ROOM or SEND to its FORGET; of a later SEND over it too. What the host runs has its
 * workspace there; whoever takes the bytes next waits. */
static enum ebb_status collect_low(const struct trace *trace, const struct plan *plan, int tier,
                                   size_t *rect_of, struct packer *p, struct ebb_error *err)
{
    struct plan_walk walk;
    size_t *open = ebb_arena_calloc(&p->arena, trace->storage_count, sizeof *open);
    EBB_TRY(ebb_arena_status(&p->arena, err));
    EBB_TRY(plan_walk_init(&walk, trace, plan, err)); /* homes are what they should be */
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < plan->homes.count && status == EBB_OK; i++) {
        const struct plan_home *h = &plan->homes.list[i];
        if (h->tier != tier)
            continue;
        open[h->storage] = p->count;
        status = add_rect(p, plan_size(plan, trace->storages[h->storage].bytes), 0,
                          2 * plan->step_count + 2, err);
        if (status == EBB_OK)
            p->rects[p->count - 1].is_base = true;
    }
    p->base_count = p->count;
    p->peak = walk.tier_bytes[tier];
    for (size_t at = 0; at < plan->step_count && status == EBB_OK; at++) {
        const struct plan_step *step = &plan->steps[at];
        bool is_put = step->act == PLAN_SEND || step->act == PLAN_ROOM;
        bool is_here = step->tier == tier && (is_put || step->act == PLAN_FORGET);
        bool is_there = is_here && step->index < trace->storage_count &&
                        walk.storages[step->index].copy[tier] != 0;
        status = plan_walk_step(&walk, at, err);
        uint64_t bytes = walk.tier_bytes[tier] + (tier == PLAN_HOST ? walk.below_bytes : 0);
        p->peak = bytes > p->peak ? bytes : p->peak;
        if (status == EBB_OK && step->act == PLAN_RUN && step->tier == tier && walk.below_bytes) {
            rect_of[at] = p->count;
            status = add_rect(p, walk.below_bytes, at, 1, err);
        }
        if (status != EBB_OK || !is_here)
            continue;
        if (is_put && !is_there) {
            open[step->index] = p->count;
            status = add_rect(p, plan_size(plan, trace->storages[step->index].bytes), at,
                              2 * (plan->step_count - at) + 2, err);
        } else if (step->act == PLAN_FORGET) {
            p->rects[open[step->index]].end = 2 * (uint64_t)at;
        }
        rect_of[at] = open[step->index];
    }
    plan_walk_fini(&walk);
    return status;
}

static enum ebb_status assign_tier(const struct trace *trace, struct plan *plan, int tier,
                                   uint64_t budget, struct ebb_error *err)
{
    struct packer p = {0};
    uint64_t height;
    size_t *rect_of = ebb_arena_calloc(&p.arena, plan->step_count + 1, sizeof *rect_of);
    enum ebb_status status = ebb_arena_status(&p.arena, err);
    EBB_THEN(status, collect_low(trace, plan, tier, rect_of, &p, err));
    EBB_THEN(status, solve(&p, budget, false, &height, err));
    for (size_t at = 0; at < plan->step_count && status == EBB_OK; at++) {
        struct plan_step *step = &plan->steps[at];
        bool has_work = step->act == PLAN_RUN && trace->ops[step->index].workspace_bytes;
        bool is_put = step->act == PLAN_SEND || step->act == PLAN_ROOM;
        if (step->tier == tier && (is_put || has_work))
            step->offset = p.rects[rect_of[at]].offset;
    }
    ebb_free(p.rects);
    ebb_arena_fini(&p.arena);
    return status;
}

bool plan_lacks_low(const struct plan *plan)
{
    for (size_t at = 0; at < plan->step_count; at++)
        if (lies_below(&plan->steps[at]) && plan->steps[at].offset == PLAN_NOWHERE)
            return true;
    return false;
}

enum ebb_status plan_assign_low(const struct trace *trace, struct plan *plan,
                                const uint64_t budget[PLAN_TIERS], struct ebb_error *err)
{
    bool is_used[PLAN_TIERS] = {false};
    for (size_t at = 0; at < plan->step_count; at++)
        is_used[plan->steps[at].tier % PLAN_TIERS] |= lies_below(&plan->steps[at]);
    for (int tier = 1; tier < PLAN_TIERS; tier++)
        if (is_used[tier])
            EBB_TRY(assign_tier(trace, plan, tier, budget[tier], err));
    return EBB_OK;
}

static enum ebb_status assign_once(const struct trace *trace, struct plan *plan, uint64_t budget,
                                   bool is_quick, uint64_t *height, struct ebb_error *err)
{
    struct packer p = {0};
    enum ebb_status status = assign(&p, trace, plan, budget, is_quick, height, err);
    ebb_free(p.rects);
    ebb_arena_fini(&p.arena);
    return status;
}

enum ebb_status plan_assign_offsets(const struct trace *trace, struct plan *plan, uint64_t budget,
                                    uint64_t *height, struct ebb_error *err)
{
    return assign_once(trace, plan, budget, false, height, err);
}

enum ebb_status plan_assign_quickly(const struct trace *trace, struct plan *plan, uint64_t budget,
                                    struct ebb_error *err)
{
    return assign_once(trace, plan, budget, true, NULL, err);
}

bool plan_has_addresses(const struct plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].act == PLAN_PLACE && plan->steps[i].offset != PLAN_NOWHERE)
            return true;
    return false;
}

void plan_strip_offsets(struct plan *plan)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->step_count; i++) {
        struct plan_step step = plan->steps[i];
        bool has_place = step.act == PLAN_PLACE || step.act == PLAN_RUN;
        step.offset = has_place || lies_below(&step) ? PLAN_NOWHERE : 0;
        if (step.act != PLAN_MOVE)
            plan->steps[count++] = step;
    }
    plan->step_count = count;
}
