/* ebb_gather.c - one hole out of scattered free bytes (rules ebb). */
#include "exec/ebb.h"

#include <math.h>

/* Windows are looked for everywhere in a slab of few segments, else around so many holes and so
 * many victims, so many segments to either side. Chains and random graphs of 10,000 ops with spread
 * sizes, five policies: the mean overhead is 1.003 of that of looking everywhere. A chain of
 * 100,000 ops takes 0.4 s instead of 8. */
#define FEW_SEGMENTS 4096
#define PLACES 4
#define CLEAR_REACH 32
#define SLIDE_REACH 256

/* ---- a hole in one piece --------------------------------------------------------------------- */

/* Enough bytes are free, but scattered. Two remedies, priced in nanoseconds: clear a contiguous
 * window, each of its occupants leaving by the cheaper of eviction (what its return would cost) and
 * a move to a hole elsewhere; or slide the occupants of a window together. */
struct window {
    uint32_t first, last;
    double ns;
};

static bool may_move(const struct ebb_run *run, uint32_t owner)
{
    return owner < run->p->storage_count && run->slots[owner].pins == 0 &&
           run->p->base[owner] == PLAN_NOWHERE;
}

static double move_ns(const struct ebb_run *run, uint64_t bytes)
{
    return exec_link_ns(&run->o->links.in[DEVICE_T0], bytes);
}

/* What the return of an evicted `owner` would cost; infinite when it may not leave. */
static double return_ns(struct ebb_run *run, uint32_t owner)
{
    double back = INFINITY;
    uint8_t tier;
    if (run->pool_at[owner] == MEM_NONE)
        return back;
    if (exec_victim_can_drop(run, owner)) {
        exec_victim_settle(run, owner);
        back = (double)run->neigh.bound[owner];
    }
    double swap = (run->ways & ~(unsigned)MEM_DROP) ? exec_victim_swap_ns(run, owner, &tier) : -1;
    return swap >= 0 && swap < back ? swap : back;
}

/* Some segments in address order, among which windows are looked for. */
struct stretch {
    uint32_t first, count;
};

static void best_clearing(struct ebb_run *run, uint64_t bytes, struct stretch in,
                          struct window *best)
{
    const struct mem_segment *seg = run->slab[0].segments;
    double sum = 0;
    uint64_t length = 0;
    uint32_t begin = in.first;
    for (uint32_t at = in.first; at != MEM_NONE && in.count-- > 0; at = seg[at].next) {
        uint32_t owner = seg[at].owner;
        if (owner != MEM_NONE && !may_move(run, owner)) {
            begin = seg[at].next;
            sum = 0;
            length = 0;
            continue;
        }
        if (owner != MEM_NONE)
            sum += run->price[owner] =
                fmin(move_ns(run, run->p->bytes[owner]), return_ns(run, owner));
        length += seg[at].bytes;
        while (begin != at && length - seg[begin].bytes >= bytes) {
            length -= seg[begin].bytes;
            sum -= seg[begin].owner == MEM_NONE ? 0 : run->price[seg[begin].owner];
            begin = seg[begin].next;
        }
        if (length >= bytes && sum < best->ns)
            *best = (struct window){begin, at, sum};
    }
}

static void best_sliding(struct ebb_run *run, uint64_t bytes, struct stretch in,
                         struct window *best)
{
    const struct mem_segment *seg = run->slab[0].segments;
    uint64_t free_bytes = 0;
    double sum = 0;
    uint32_t begin = in.first;
    for (uint32_t at = in.first; at != MEM_NONE && in.count-- > 0; at = seg[at].next) {
        if (seg[at].owner == MEM_NONE) {
            free_bytes += seg[at].bytes;
        } else if (may_move(run, seg[at].owner)) {
            sum += move_ns(run, seg[at].bytes);
        } else {
            begin = seg[at].next;
            free_bytes = 0;
            sum = 0;
            continue;
        }
        while (begin != at &&
               (seg[begin].owner != MEM_NONE ||
                free_bytes - seg[begin].bytes >= bytes)) { /* not needed at the low end */
            if (seg[begin].owner != MEM_NONE)
                sum -= move_ns(run, seg[begin].bytes);
            else
                free_bytes -= seg[begin].bytes;
            begin = seg[begin].next;
        }
        if (free_bytes >= bytes && sum < best->ns)
            *best = (struct window){begin, at, sum};
    }
}

/* Where to look in a large slab, so that the work does not grow with it: at the largest holes, and
 * at the victims that the policy would choose next. */
static uint32_t places_to_look(struct ebb_run *run, uint32_t segments[2 * PLACES])
{
    uint32_t victims[PLACES], count = 0;
    uint32_t holes = mem_slab_largest(&run->slab[0], segments, PLACES);
    while (count < PLACES && run->o->policy->numerator != MEM_RANDOM && !run->o->sampling) {
        uint32_t s = exec_victim_next(run);
        if (s == MEM_NONE)
            break;
        mem_index_remove(run->index, s);
        victims[count++] = s;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = victims[i];
        exec_victim_rank(run, s);
        segments[holes + i] = run->slots[s].segment;
    }
    return holes + count;
}

typedef void (*window_search)(struct ebb_run *run, uint64_t bytes, struct stretch in,
                              struct window *best);

/* Up to `reach` segments to either side of each place; everywhere when there is none. */
static struct window best_window(struct ebb_run *run, uint64_t bytes, window_search search,
                                 const uint32_t *places, uint32_t count, uint32_t reach)
{
    const struct mem_slab *slab = &run->slab[0];
    struct window best = {MEM_NONE, MEM_NONE, INFINITY};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = places[i];
        for (uint32_t k = 0; k < reach && slab->segments[first].prev != MEM_NONE; k++)
            first = slab->segments[first].prev;
        search(run, bytes, (struct stretch){first, 2 * reach + 1}, &best);
    }
    if (count == 0)
        search(run, bytes, (struct stretch){slab->head, UINT32_MAX}, &best);
    return best;
}

/* The storage's bytes are elsewhere now: a copy inside tier 0, in stream order. */
static enum ebb_status told_of_move(void *context, uint32_t owner, uint64_t from, uint64_t to,
                                    uint64_t bytes, struct ebb_error *err)
{
    struct ebb_run *run = context;
    EBB_TRY(exec_tier_await(run, owner, err));
    run->r->moved_bytes += bytes;
    run->clock += (uint64_t)move_ns(run, bytes);
    EBB_TRY(run->device->table->copy(run->device, DEVICE_COMPUTE, DEVICE_T0, to, DEVICE_T0, from,
                                     bytes, err));
    return exec_room_log(run, EXEC_EV_MOVE, owner, to, 0, err);
}

static enum ebb_status relocate(struct ebb_run *run, uint32_t s, uint32_t hole,
                                struct ebb_error *err)
{
    struct mem_slab *slab = &run->slab[0];
    uint32_t old = run->slots[s].segment, taken;
    uint64_t from = slab->segments[old].offset;
    EBB_TRY(mem_slab_take(slab, hole, run->p->bytes[s], false, s, &taken, err));
    run->slots[s].segment = taken;
    EBB_TRY(told_of_move(run, s, from, slab->segments[taken].offset, run->p->bytes[s], err));
    mem_slab_give(slab, old);
    return EBB_OK;
}

/* Moves first. Those that found no hole after all are evicted too, unless that would cost more than
 * `most_ns`: then nothing is evicted and *is_cleared stays false. */
static enum ebb_status clear_window(struct ebb_run *run, struct window w, double most_ns,
                                    bool *is_cleared, struct ebb_error *err)
{
    struct mem_slab *slab = &run->slab[0];
    uint64_t low = slab->segments[w.first].offset;
    uint64_t high = slab->segments[w.last].offset + slab->segments[w.last].bytes;
    uint32_t count = 0, staying = 0;
    for (uint32_t at = w.first;;
         at = slab->segments[at].next) { /* segments change below: note the owners */
        if (slab->segments[at].owner != MEM_NONE)
            run->walk[count++] = slab->segments[at].owner;
        if (at == w.last)
            break;
    }
    double stuck_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = run->walk[i], hole = MEM_NONE;
        double back = return_ns(run, s);
        bool moves = move_ns(run, run->p->bytes[s]) <= back;
        if (moves)
            hole = mem_slab_find_outside(slab, run->p->bytes[s], low, high);
        if (hole != MEM_NONE)
            EBB_TRY(relocate(run, s, hole, err));
        else
            run->walk[staying++] = s;
        stuck_ns += moves && hole == MEM_NONE ? back : 0;
    }
    *is_cleared = stuck_ns <= most_ns;
    for (uint32_t i = 0; i < staying && *is_cleared; i++) {
        uint32_t s = run->walk[i];
        if (run->pool_at[s] != MEM_NONE && exec_victim_has_way(run, s))
            EBB_TRY(exec_room_evict(run, s, err));
    }
    return EBB_OK;
}

/* True when something was done that brings a hole of `bytes` nearer. */
enum ebb_status exec_gather(struct ebb_run *run, uint64_t bytes, bool *is_done,
                            struct ebb_error *err)
{
    uint32_t places[2 * PLACES] = {0}, count = 0;
    if (run->slab[0].segment_count > FEW_SEGMENTS)
        count = places_to_look(run, places);
    struct window clear = best_window(run, bytes, best_clearing, places, count, CLEAR_REACH);
    struct window slide = best_window(run, bytes, best_sliding, places, count, SLIDE_REACH);
    if (count && clear.first == MEM_NONE && slide.first == MEM_NONE) { /* too large for a place */
        count = 0;
        clear = best_window(run, bytes, best_clearing, places, count, 0);
        slide = best_window(run, bytes, best_sliding, places, count, 0);
    }
    uint64_t moved = run->r->moved_bytes, before = moved + run->r->evictions_pressure;
    bool is_cleared = false;
    if (clear.ns < slide.ns)
        EBB_TRY(clear_window(run, clear, slide.ns, &is_cleared, err));
    if (!is_cleared) {
        if (count && run->r->moved_bytes != moved) /* the places are not what they were */
            count = places_to_look(run, places);
        slide = best_window(run, bytes, best_sliding, places, count, SLIDE_REACH);
        if (slide.ns < INFINITY)
            EBB_TRY(mem_slab_slide(&run->slab[0], slide.first, slide.last, told_of_move, run, err));
    }
    *is_done = run->r->moved_bytes + run->r->evictions_pressure != before;
    return EBB_OK;
}
