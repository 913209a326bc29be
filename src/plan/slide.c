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

struct block {
    uint64_t begin, end;
    uint32_t storage;
    size_t leaves; /* step of its DROP */
};

struct pack {
    struct ebb_arena arena; /* all but the blocks */
    const struct trace *trace;
    const struct plan *from; /* without addresses */
    struct plan *plan;       /* with */
    uint64_t *base;          /* storage -> where it lies for good, or PLAN_NOWHERE */
    uint64_t base_bytes;
    uint64_t *extra;      /* step of a RUN -> workspace and scratch */
    struct block *blocks; /* by address, above the persistent storages */
    size_t count, capacity;
    size_t soon; /* what leaves within so many steps goes to the top; 0: the hole that fits best */
    uint64_t moved_bytes;
    size_t *leaves; /* step of a PLACE -> step of the DROP that ends it, or the number of steps */
    uint64_t height;
};

static uint64_t hole_begin(const struct pack *p, size_t i)
{
    return i == 0 ? p->base_bytes : p->blocks[i - 1].end;
}

static uint64_t hole_end(const struct pack *p, size_t i)
{
    return i == p->count ? p->height : p->blocks[i].begin;
}

static size_t apart(size_t a, size_t b)
{
    return a > b ? a - b : b - a;
}

/* The hole (by the index of the block above it) that fits best; count + 1: none. */
static size_t find_hole(const struct pack *p, uint64_t bytes)
{
    size_t best = p->count + 1;
    uint64_t room = UINT64_MAX;
    for (size_t i = 0; i <= p->count; i++) {
        uint64_t free_bytes = hole_end(p, i) - hole_begin(p, i);
        if (free_bytes >= bytes && free_bytes < room) {
            room = free_bytes;
            best = i;
        }
    }
    return best;
}

/* The lowest hole that is large enough, or the highest. */
static size_t find_end_hole(const struct pack *p, uint64_t bytes, bool from_top)
{
    for (size_t k = 0; k <= p->count; k++) {
        size_t i = from_top ? p->count - k : k;
        if (hole_end(p, i) - hole_begin(p, i) >= bytes)
            return i;
    }
    return p->count + 1;
}

/* Slide blocks down so that one hole of `bytes` appears: the window whose inner blocks are
 * smallest. Returns the hole, or count + 1 when even all free bytes together are too few. */
static enum ebb_status gather(struct pack *p, uint64_t bytes, size_t *hole, struct ebb_error *err)
{
    size_t low = 0, best_low = 0, best_high = p->count + 1;
    uint64_t free_bytes = 0, inside = 0, least = UINT64_MAX;
    for (size_t high = 0; high <= p->count; high++) { /* holes low..high, blocks low..high-1 */
        free_bytes += hole_end(p, high) - hole_begin(p, high);
        inside += high > 0 ? p->blocks[high - 1].end - p->blocks[high - 1].begin : 0;
        while (low < high && free_bytes - (hole_end(p, low) - hole_begin(p, low)) >= bytes) {
            free_bytes -= hole_end(p, low) - hole_begin(p, low);
            inside -= p->blocks[low].end - p->blocks[low].begin;
            low++;
        }
        if (free_bytes >= bytes && inside < least) {
            least = inside;
            best_low = low;
            best_high = high;
        }
    }
    *hole = best_high;
    for (size_t i = best_low; best_high <= p->count && i < best_high; i++) {
        struct block *b = &p->blocks[i];
        uint64_t to = hole_begin(p, i), size = b->end - b->begin;
        if (to != b->begin) {
            EBB_TRY(plan_add(p->plan, PLAN_MOVE, b->storage, to, 0, err));
            p->moved_bytes += size;
        }
        b->begin = to;
        b->end = to + size;
    }
    return EBB_OK;
}

static enum ebb_status take(struct pack *p, uint64_t bytes, bool is_short, size_t *hole,
                            struct ebb_error *err)
{
    *hole = p->soon ? find_end_hole(p, bytes, is_short) : find_hole(p, bytes);
    if (*hole > p->count)
        EBB_TRY(gather(p, bytes, hole, err));
    if (*hole > p->count)
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
    size_t i, end = p->leaves[step];
    bool is_short = end - step <= p->soon;
    EBB_TRY(take(p, bytes, is_short, &i, err));
    uint64_t at = hole_begin(p, i);
    bool is_top = i < p->count &&
                  (i == 0 || apart(p->blocks[i].leaves, end) < apart(p->blocks[i - 1].leaves, end));
    if (p->soon)
        is_top = is_short;
    if (is_top)
        at = hole_end(p, i) - bytes;
    EBB_TRY(ebb_grow(&p->blocks, &p->capacity, p->count + 1, sizeof *p->blocks, err));
    memmove(&p->blocks[i + 1], &p->blocks[i], (p->count - i) * sizeof *p->blocks);
    p->blocks[i] = (struct block){.begin = at, .end = at + bytes, .storage = s, .leaves = end};
    p->count++;
    return plan_add(p->plan, PLAN_PLACE, s, at, 0, err);
}

static enum ebb_status remove_block(struct pack *p, uint32_t s, struct ebb_error *err)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->blocks[i].storage == s) {
            memmove(&p->blocks[i], &p->blocks[i + 1], (p->count - i - 1) * sizeof *p->blocks);
            p->count--;
            break;
        }
    }
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
    size_t hole = 0;
    uint64_t at = 0;
    if (p->extra[step]) {
        EBB_TRY(take(p, p->extra[step], true, &hole, err));
        at = p->soon ? hole_end(p, hole) - p->extra[step] : hole_begin(p, hole);
    }
    return plan_add(p->plan, PLAN_RUN, p->from->steps[step].index, at, p->from->steps[step].tier,
                    err);
}

static enum ebb_status pack(struct pack *p, struct ebb_error *err)
{
    for (size_t i = 0; i < p->from->step_count; i++) {
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
        p.count = 0;
        p.moved_bytes = 0;
        status = pack(&p, err);
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
    ebb_free(p.blocks);
    ebb_arena_fini(&p.arena);
    return status;
}
