/* gather.c - one hole out of scattered free bytes. */
#include "mem/manager.h"

#include <math.h>

#include "base/clock.h"

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
enum remedy { CLEAR, SLIDE };

struct window {
    uint32_t first, last;
    double ns;
};

static bool may_move(const struct mem_manager *m, uint32_t owner)
{
    return owner < m->r->storage_count && m->slots[owner].pins == 0 &&
           m->r->storages[owner].base == PLAN_NOWHERE;
}

static double move_ns(const struct mem_manager *m, uint64_t bytes)
{
    return mem_copy_ns(&m->c.links->in[DEVICE_T0], bytes);
}

/* Of a storage, whose copies must have ended. */
static double relocation_ns(const struct mem_manager *m, uint32_t owner)
{
    double ns = move_ns(m, mem_bytes(m, owner));
    return m->ahead ? ns + mem_ahead_still_ns(m, owner) : ns;
}

/* What the return of an evicted `owner` would cost; infinite when it may not leave. */
static double return_ns(struct mem_manager *m, uint32_t owner)
{
    double back = INFINITY;
    uint8_t tier;
    if (m->pool_at[owner] == MEM_NONE)
        return back;
    if (mem_victim_can_drop(m, owner)) {
        mem_victim_settle(m, owner);
        back = (double)m->neigh.bound[owner];
    }
    double copy = m->ahead ? mem_ahead_ns(m, owner, &tier) : mem_victim_swap_ns(m, owner, &tier);
    return mem_price(back, copy, NULL);
}

/* Some segments in address order, among which windows are looked for. */
struct stretch {
    uint32_t first, count;
};

/* What segment `at` brings to a window: bytes of the hole, which for a slide are those free now. */
static inline uint64_t gain(const struct mem_segment *at, enum remedy remedy)
{
    return remedy == CLEAR || at->owner == MEM_NONE ? at->bytes : 0;
}

static inline double price(const struct mem_manager *m, const struct mem_segment *at,
                           enum remedy remedy)
{
    if (at->owner == MEM_NONE)
        return 0;
    return remedy == CLEAR ? m->price[at->owner] : relocation_ns(m, at->owner);
}

/* The cheapest run of segments with `bytes` of gain; those at its low end that it can do without are
 * left out. Always inlined, with a remedy known to the compiler: this is where requests spend their
 * time. */
__attribute__((always_inline)) static inline void search(struct mem_manager *m, enum remedy remedy,
                                                         uint64_t bytes, struct stretch in,
                                                         struct window *best)
{
    const struct mem_segment *seg = m->slab[0].segments;
    double sum = 0;
    uint64_t length = 0;
    uint32_t begin = in.first;
    for (uint32_t at = in.first; at != MEM_NONE && in.count-- > 0; at = seg[at].next) {
        uint32_t owner = seg[at].owner;
        m->tally->work++;
        if (owner != MEM_NONE && !may_move(m, owner)) {
            begin = seg[at].next;
            sum = 0;
            length = 0;
            continue;
        }
        if (owner != MEM_NONE && remedy == CLEAR)
            m->price[owner] = fmin(relocation_ns(m, owner), return_ns(m, owner));
        sum += price(m, &seg[at], remedy);
        length += gain(&seg[at], remedy);
        while (begin != at &&
               (gain(&seg[begin], remedy) == 0 || length - gain(&seg[begin], remedy) >= bytes)) {
            length -= gain(&seg[begin], remedy);
            sum -= price(m, &seg[begin], remedy);
            begin = seg[begin].next;
        }
        if (length >= bytes && sum < best->ns)
            *best = (struct window){begin, at, sum};
    }
}

static void search_by(struct mem_manager *m, enum remedy remedy, uint64_t bytes, struct stretch in,
                      struct window *best)
{
    if (remedy == CLEAR)
        search(m, CLEAR, bytes, in, best);
    else
        search(m, SLIDE, bytes, in, best);
}

/* Where to look in a large slab, so that the work does not grow with it: at the largest holes, and
 * at the victims that the policy would choose next. */
static uint32_t places_to_look(struct mem_manager *m, uint32_t segments[2 * PLACES])
{
    uint32_t victims[PLACES], count = 0;
    uint32_t holes = mem_slab_largest(&m->slab[0], segments, PLACES);
    while (count < PLACES && m->c.policy->numerator != MEM_RANDOM && !m->c.policy->sight &&
           !m->c.sampling) {
        uint32_t s = mem_victim_next(m);
        if (s == MEM_NONE)
            break;
        mem_index_remove(m->index, s);
        victims[count++] = s;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = victims[i];
        mem_victim_rank(m, s);
        segments[holes + i] = m->slots[s].segment;
    }
    return holes + count;
}

/* Up to `reach` segments to either side of each place; everywhere when there is none. */
static struct window best_window(struct mem_manager *m, uint64_t bytes, enum remedy remedy,
                                 const uint32_t *places, uint32_t count, uint32_t reach)
{
    const struct mem_slab *slab = &m->slab[0];
    struct window best = {MEM_NONE, MEM_NONE, INFINITY};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = places[i];
        for (uint32_t k = 0; k < reach && slab->segments[first].prev != MEM_NONE; k++)
            first = slab->segments[first].prev;
        search_by(m, remedy, bytes, (struct stretch){first, 2 * reach + 1}, &best);
    }
    if (count == 0)
        search_by(m, remedy, bytes, (struct stretch){slab->head, UINT32_MAX}, &best);
    return best;
}

/* The storage's bytes are elsewhere now: a copy inside tier 0, in stream order. */
static enum ebb_status told_of_move(void *context, uint32_t owner, uint64_t from, uint64_t to,
                                    uint64_t bytes, struct ebb_error *err)
{
    struct mem_manager *m = context;
    EBB_TRY(mem_await_free(m, owner, err));
    m->tally->moved_bytes += bytes;
    m->tally->clock_ns += (uint64_t)move_ns(m, bytes);
    const struct device_table *d = m->c.device->table;
    uint64_t begin = m->c.measures ? ebb_clock_ns() : 0;
    EBB_TRY(d->copy(m->c.device, DEVICE_COMPUTE, DEVICE_T0, to, DEVICE_T0, from, bytes, err));
    if (m->c.measures && !d->is_host_visible)
        EBB_TRY(d->sync(m->c.device, err));
    if (m->c.measures)
        m->tally->move_ns += ebb_clock_ns() - begin;
    return mem_tell(m, PLAN_MOVE, owner, to, 0, err);
}

static enum ebb_status relocate(struct mem_manager *m, uint32_t s, uint32_t hole,
                                struct ebb_error *err)
{
    struct mem_slab *slab = &m->slab[0];
    uint32_t old = m->slots[s].segment, taken;
    uint64_t from = slab->segments[old].offset;
    EBB_TRY(mem_slab_take(slab, hole, mem_bytes(m, s), false, s, &taken, err));
    m->slots[s].segment = taken;
    EBB_TRY(told_of_move(m, s, from, slab->segments[taken].offset, mem_bytes(m, s), err));
    mem_slab_give(slab, old);
    return EBB_OK;
}

/* Moves first. Those that found no hole after all are evicted too, unless that would cost more than
 * `most_ns`: then nothing is evicted and *is_cleared stays false. */
static enum ebb_status clear_window(struct mem_manager *m, struct window w, double most_ns,
                                    bool *is_cleared, struct ebb_error *err)
{
    struct mem_slab *slab = &m->slab[0];
    uint64_t low = slab->segments[w.first].offset;
    uint64_t high = slab->segments[w.last].offset + slab->segments[w.last].bytes;
    uint32_t count = 0, staying = 0;
    for (uint32_t at = w.first;;
         at = slab->segments[at].next) { /* segments change below: note the owners */
        if (slab->segments[at].owner != MEM_NONE)
            m->walk[count++] = slab->segments[at].owner;
        if (at == w.last)
            break;
    }
    double stuck_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = m->walk[i], hole = MEM_NONE;
        double back = return_ns(m, s);
        bool moves = relocation_ns(m, s) <= back;
        if (moves)
            hole = mem_slab_find_outside(slab, mem_bytes(m, s), low, high);
        if (hole != MEM_NONE)
            EBB_TRY(relocate(m, s, hole, err));
        else
            m->walk[staying++] = s;
        stuck_ns += moves && hole == MEM_NONE ? back : 0;
    }
    *is_cleared = stuck_ns <= most_ns;
    for (uint32_t i = 0; i < staying && *is_cleared; i++) {
        uint32_t s = m->walk[i];
        if (m->pool_at[s] != MEM_NONE && mem_victim_has_way(m, s))
            EBB_TRY(mem_room_evict(m, s, err));
    }
    return EBB_OK;
}

/* True when something was done that brings a hole of `bytes` nearer. */
enum ebb_status mem_gather(struct mem_manager *m, uint64_t bytes, bool *is_done,
                           struct ebb_error *err)
{
    uint32_t places[2 * PLACES] = {0}, count = 0;
    if (m->slab[0].segment_count > FEW_SEGMENTS)
        count = places_to_look(m, places);
    struct window clear = best_window(m, bytes, CLEAR, places, count, CLEAR_REACH);
    struct window slide = best_window(m, bytes, SLIDE, places, count, SLIDE_REACH);
    if (count && clear.first == MEM_NONE && slide.first == MEM_NONE) { /* too large for a place */
        count = 0;
        clear = best_window(m, bytes, CLEAR, places, count, 0);
        slide = best_window(m, bytes, SLIDE, places, count, 0);
    }
    uint64_t moved = m->tally->moved_bytes, before = moved + m->tally->evictions_pressure;
    bool is_cleared = false;
    if (clear.ns < slide.ns)
        EBB_TRY(clear_window(m, clear, slide.ns, &is_cleared, err));
    if (!is_cleared) {
        if (count && m->tally->moved_bytes != moved) /* the places are not what they were */
            count = places_to_look(m, places);
        slide = best_window(m, bytes, SLIDE, places, count, SLIDE_REACH);
        if (slide.ns < INFINITY)
            EBB_TRY(mem_slab_slide(&m->slab[0], slide.first, slide.last, told_of_move, m, err));
    }
    *is_done = m->tally->moved_bytes + m->tally->evictions_pressure != before;
    return EBB_OK;
}
