/* slide.c - addresses for a plan within any height no less than its highest byte sum, with moves.
 *
 * Persistent storages lie where plan.h puts them. Everything else goes into a hole: the one that
 * fits best, next to the neighbour that leaves at about the same time; or what stays long to the
 * bottom and what leaves soon to the top. When the free bytes suffice but no hole does, the
 * residents between two others are slid down, those that cost the fewest bytes to copy. The free
 * bytes then lie together, so a slide always helps. Of several ways to choose holes the one that
 * slides least is taken. */
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/heap.h"
#include "plan/row.h"

struct pack {
    struct ebb_arena arena; /* all but the row */
    const struct trace *trace;
    const struct plan *from; /* without addresses */
    struct plan *plan;       /* with */
    uint64_t *base;          /* storage -> where it lies for good, or PLAN_NOWHERE */
    uint64_t base_bytes;
    uint64_t *extra;     /* step of a RUN -> workspace and scratch */
    struct plan_row row; /* what lies above the persistent storages */
    uint64_t *begins;    /* storage -> where it lies in the row */
    size_t soon; /* what leaves within so many steps goes to the top; 0: the hole that fits best */
    uint64_t moved_bytes;
    size_t *leaves; /* step of a PLACE -> step of the DROP that ends it, or the number of steps */
    uint64_t height;
};

static size_t apart(size_t a, size_t b)
{
    return a > b ? a - b : b - a;
}

static uint64_t block_bytes(const struct pack *p, struct plan_place at)
{
    const struct plan_block *b = plan_row_block(&p->row, at);
    return b->end - b->begin;
}

static bool is_same(struct plan_place a, struct plan_place b)
{
    return a.group == b.group && a.index == b.index;
}

/* Blocks from `low` up to `high`, which stays, slide down. */
static enum ebb_status slide(struct pack *p, struct plan_place low, struct plan_place high,
                             struct ebb_error *err)
{
    for (struct plan_place at = low; !is_same(at, high); at = plan_row_next(&p->row, at)) {
        const struct plan_block *b = plan_row_block(&p->row, at);
        uint64_t to = plan_row_hole_begin(&p->row, at);
        if (to == b->begin)
            continue;
        EBB_TRY(plan_add(p->plan, PLAN_MOVE, b->storage, to, 0, err));
        p->moved_bytes += b->end - b->begin;
        p->begins[b->storage] = to;
        plan_row_move(&p->row, at, to);
    }
    return EBB_OK;
}

/* Slide blocks down so that one hole of `bytes` appears: the window whose inner blocks are
 * smallest. *is_found is false when even all free bytes together are too few. */
static enum ebb_status gather(struct pack *p, uint64_t bytes, struct plan_place *hole,
                              bool *is_found, struct ebb_error *err)
{
    struct plan_place low = {0}, best_low = {0};
    uint64_t free_bytes = 0, inside = 0, least = UINT64_MAX;
    for (struct plan_place high = {0};; high = plan_row_next(&p->row, high)) {
        free_bytes +=
            plan_row_hole(&p->row, high); /* holes low..high, and the blocks between them */
        while (!is_same(low, high) && free_bytes - plan_row_hole(&p->row, low) >= bytes) {
            free_bytes -= plan_row_hole(&p->row, low);
            inside -= block_bytes(p, low);
            low = plan_row_next(&p->row, low);
        }
        if (free_bytes >= bytes && inside < least) {
            least = inside;
            best_low = low;
            *hole = high;
        }
        if (plan_row_is_last(&p->row, high))
            break;
        inside += block_bytes(p, high);
    }
    *is_found = least != UINT64_MAX;
    return *is_found ? slide(p, best_low, *hole, err) : EBB_OK;
}

static enum ebb_status take(struct pack *p, uint64_t bytes, bool is_short, struct plan_place *hole,
                            struct ebb_error *err)
{
    enum plan_fit fit = !p->soon ? PLAN_FIT_BEST : is_short ? PLAN_FIT_HIGH : PLAN_FIT_LOW;
    bool is_found = plan_row_find(&p->row, fit, bytes, hole);
    if (!is_found)
        EBB_TRY(gather(p, bytes, hole, &is_found, err));
    if (!is_found)
        return ebb_fail(err, EBB_EBUDGET,
                        "plan: %" PRIu64 " more bytes do not fit under height %" PRIu64, bytes,
                        p->height);
    return EBB_OK;
}

static enum ebb_status put(struct pack *p, size_t step, struct ebb_error *err)
{
    uint32_t s = p->from->steps[step].index;
    uint64_t bytes = plan_size(p->from, p->trace->storages[s].bytes);
    if (p->base[s] != PLAN_NOWHERE)
        return plan_add(p->plan, PLAN_PLACE, s, p->base[s], 0, err);
    if (bytes == 0)
        return plan_add(p->plan, PLAN_PLACE, s, 0, 0, err);
    struct plan_place hole;
    size_t end = p->leaves[step];
    bool is_short = end - step <= p->soon;
    EBB_TRY(take(p, bytes, is_short, &hole, err));
    const struct plan_block *below = plan_row_below(&p->row, hole);
    bool is_top =
        !plan_row_is_last(&p->row, hole) &&
        (!below || apart(plan_row_block(&p->row, hole)->leaves, end) < apart(below->leaves, end));
    if (p->soon)
        is_top = is_short;
    uint64_t at =
        is_top ? plan_row_hole_end(&p->row, hole) - bytes : plan_row_hole_begin(&p->row, hole);
    p->begins[s] = at;
    struct plan_block block = {.begin = at, .end = at + bytes, .storage = s, .leaves = end};
    EBB_TRY(plan_row_put(&p->row, hole, &block, err));
    return plan_add(p->plan, PLAN_PLACE, s, at, 0, err);
}

static enum ebb_status remove_block(struct pack *p, uint32_t s, struct ebb_error *err)
{
    if (p->begins[s] != PLAN_NOWHERE)
        plan_row_remove(&p->row, plan_row_at(&p->row, p->begins[s]));
    p->begins[s] = PLAN_NOWHERE;
    return plan_add(p->plan, PLAN_DROP, s, 0, 0, err);
}

/* What the steps alone tell: when residents leave, and what runs need besides. */
static enum ebb_status look_ahead(struct pack *p, struct ebb_error *err)
{
    const struct plan *plan = p->from;
    struct plan_walk walk;
    size_t *open = ebb_arena_calloc(&p->arena, p->trace->storage_count, sizeof *open);
    EBB_TRY(ebb_arena_status(&p->arena, err));
    EBB_TRY(plan_walk_init(&walk, p->trace, plan, err));
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < plan->step_count && status == EBB_OK; i++) {
        const struct plan_step *step = &plan->steps[i];
        status = plan_walk_step(&walk, i, err);
        if (status != EBB_OK)
            break;
        p->leaves[i] = plan->step_count;
        p->extra[i] = step->act == PLAN_RUN ? walk.extra_bytes : 0;
        if (step->act == PLAN_PLACE)
            open[step->index] = i;
        else if (step->act == PLAN_DROP)
            p->leaves[open[step->index]] = i;
        else if (step->act == PLAN_MOVE)
            status = ebb_fail(err, EBB_EINPUT,
                              "plan: step %zu is a move: the plan has addresses already", i);
    }
    plan_walk_fini(&walk);
    return status;
}

static enum ebb_status run_in(struct pack *p, size_t step, struct ebb_error *err)
{
    struct plan_place hole;
    uint64_t at = 0;
    if (p->extra[step]) {
        EBB_TRY(take(p, p->extra[step], true, &hole, err));
        at = p->soon ? plan_row_hole_end(&p->row, hole) - p->extra[step]
                     : plan_row_hole_begin(&p->row, hole);
    }
    const struct plan_step *s = &p->from->steps[step];
    return plan_add(p->plan, PLAN_RUN, s->index, s->tier ? s->offset : at, s->tier, err);
}

/* Ends early, unfinished, when it slides as much as another way does: `least`. */
static enum ebb_status pack(struct pack *p, uint64_t least, struct ebb_error *err)
{
    for (size_t i = 0; i < p->from->step_count && p->moved_bytes < least; i++) {
        const struct plan_step *step = &p->from->steps[i];
        if (step->act == PLAN_PLACE)
            EBB_TRY(put(p, i, err));
        else if (step->act == PLAN_DROP)
            EBB_TRY(remove_block(p, step->index, err));
        else if (step->act == PLAN_RUN)
            EBB_TRY(run_in(p, i, err));
        else
            EBB_TRY(plan_add(p->plan, (enum plan_act)step->act, step->index, step->offset,
                             step->tier, err));
    }
    return EBB_OK;
}

static enum ebb_status pack_init(struct pack *p, const struct trace *trace, const struct plan *plan,
                                 struct ebb_error *err)
{
    size_t storages = (size_t)trace->storage_count + 1, steps = plan->step_count + 1;
    p->trace = trace;
    p->from = plan;
    p->base = ebb_arena_calloc(&p->arena, storages, sizeof *p->base);
    p->extra = ebb_arena_calloc(&p->arena, steps, sizeof *p->extra);
    p->leaves = ebb_arena_calloc(&p->arena, steps, sizeof *p->leaves);
    p->begins = ebb_arena_calloc(&p->arena, storages, sizeof *p->begins);
    EBB_TRY(ebb_arena_status(&p->arena, err));
    memset(p->base, 0xff, storages * sizeof *p->base);
    if (!plan->exact_bytes)
        EBB_TRY(plan_base_layout(trace, &plan->homes, p->base, &p->base_bytes, err));
    return look_ahead(p, err);
}

/* The steps of `from` change places with those of `to`; what else a plan says stays. */
static void swap_steps(struct plan *from, struct plan *to)
{
    ebb_swap(&from->steps, &to->steps, sizeof from->steps);
    ebb_swap(&from->step_count, &to->step_count, sizeof from->step_count);
    ebb_swap(&from->step_capacity, &to->step_capacity, sizeof from->step_capacity);
}

enum ebb_status plan_assign_sliding(const struct trace *trace, struct plan *plan, uint64_t height,
                                    uint64_t *moved_bytes, struct ebb_error *err)
{
    static const size_t ways[] = {0, 16, 64, 512};
    uint64_t unit = plan->exact_bytes ? 1 : PLAN_UNIT; /* what lies at the top ends there */
    struct pack p = {.height = height / unit * unit};
    struct plan best = {0};
    uint64_t least = UINT64_MAX;
    enum ebb_status status = pack_init(&p, trace, plan, err);
    for (size_t k = 0; k < sizeof ways / sizeof *ways && status == EBB_OK && least > 0; k++) {
        struct plan made = {0};
        p.plan = &made;
        p.soon = ways[k];
        p.moved_bytes = 0;
        plan_row_clear(&p.row, p.base_bytes, p.height);
        memset(p.begins, 0xff, trace->storage_count * sizeof *p.begins);
        status = pack(&p, least, err);
        if (status == EBB_OK && p.moved_bytes < least) {
            least = p.moved_bytes;
            swap_steps(&best, &made);
        }
        plan_fini(&made);
    }
    if (status == EBB_OK) {
        swap_steps(plan, &best);
        if (moved_bytes)
            *moved_bytes = least;
    }
    plan_fini(&best);
    plan_row_fini(&p.row);
    ebb_arena_fini(&p.arena);
    return status;
}
