/* ebb_room.c - room in tier 0: who may leave, who leaves, and where the bytes are (rules ebb).
 *
 *   R1 bytes are taken from the slab before anything is written there, and the slab is exactly the
 * budget. R2 in the pool <=> resident, no pins, no waits, bytes > 0, and some way back is open. R3
 * a storage whose way back has expired is dropped by nobody until it is dead. R4 the keep set
 * leaves no more once its final version is resident. R5 persistent storages have their bytes from
 * the beginning, at the bottom, and neither move nor leave. */
#include "exec/ebb.h"

#include <math.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/heap.h"

/* Windows are looked for everywhere in a slab of few segments, else around so many holes and so
 * many victims, so many segments to either side. Chains and random graphs of 10,000 ops with spread
 * sizes, five policies: the mean overhead is 1.003 of that of looking everywhere. A chain of
 * 100,000 ops takes 0.4 s instead of 8. */
#define FEW_SEGMENTS 4096
#define PLACES 4
#define CLEAR_REACH 32
#define SLIDE_REACH 256
#define MAX_ROUNDS 64 /* of gathering per request, then victims by policy alone */
/* How far a victim may stand behind the best when it makes the hole that is needed. Values from 0.5
 * to 0.8 and 8 to 32 differ by less than 0.3 % in the mean on the recorded steps. */
#define NEXT_BEST 32
#define NEARLY_AS_GOOD 0.5
#define MOST_ASIDE 64  /* victims that may still come back */
#define SHORT_LIVED 16 /* ops: what ends sooner is placed at the high end, away from what stays */

enum ebb_status exec_room_log(struct ebb_run *run, enum exec_event_kind kind, uint32_t index,
                              uint64_t offset, uint8_t tier, struct ebb_error *err)
{
    struct exec_log *log = run->o->log;
    if (!log)
        return EBB_OK;
    EBB_TRY(ebb_grow(&log->events, &log->capacity, log->count + 1, sizeof *log->events, err));
    log->events[log->count++] = (struct exec_event){(uint8_t)kind, tier, index, offset, run->clock};
    return EBB_OK;
}

/* ---- ways back
 * ----------------------------------------------------------------------------------------------------
 */

static bool can_drop(const struct ebb_run *run, uint32_t s)
{
    const struct ebb_program *p = run->p;
    const struct ebb_slot *slot = &run->slots[s];
    if (slot->uses_left == 0 && !p->is_keep[s] && p->need_until[s] < run->op)
        return true; /* dead: no way back is needed */
    if (!(run->ways & MEM_DROP) || slot->is_held)
        return false;
    uint32_t expire = p->expire[p->version_first[s] + slot->version];
    return expire > run->op; /* the op in service is the last that may still destroy it: R3 */
}

static double link_ns(const struct device_link *link, uint64_t bytes)
{
    return (double)link->latency_ns +
           (link->bytes_per_ns > 0 ? (double)bytes / link->bytes_per_ns : 0.0);
}

/* Cheapest lower tier with room (or with a clean copy); its cost of going out and coming back, or
 * -1. */
static double swap_ns(const struct ebb_run *run, uint32_t s, uint8_t *tier)
{
    const struct ebb_slot *slot = &run->slots[s];
    double best = -1;
    for (uint8_t k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
        if (!(run->ways & (k == DEVICE_HOST ? MEM_HOST : MEM_FILE)))
            continue;
        bool is_clean = slot->has_copy >> k & 1;
        uint64_t bytes = run->p->bytes[s];
        if (!is_clean && mem_slab_find(&run->slab[k], bytes, false) == MEM_NONE)
            continue;
        double ns = link_ns(&run->o->links.in[k], bytes) +
                    (is_clean ? 0 : link_ns(&run->o->links.out[k], bytes));
        if (best < 0 || ns < best) {
            best = ns;
            *tier = k;
        }
    }
    return best;
}

static bool has_way(const struct ebb_run *run, uint32_t s)
{
    uint8_t tier;
    return can_drop(run, s) || swap_ns(run, s, &tier) >= 0;
}

/* ---- the pool
 * -----------------------------------------------------------------------------------------------------
 */

static void pool_remove(struct ebb_run *run, uint32_t s)
{
    uint32_t at = run->pool_at[s];
    if (at == MEM_NONE)
        return;
    uint32_t moved = run->pool[--run->pool_count];
    run->pool[at] = moved;
    run->pool_at[moved] = at;
    run->pool_at[s] = MEM_NONE;
    mem_index_remove(run->index, s);
}

/* What leaving would cost by other ways than recomputation is noted when a storage enters the pool
 * or is used, not when somebody happens to look: so the order of looking decides nothing. */
static void note_ways(struct ebb_run *run, uint32_t s)
{
    uint8_t tier;
    double swap = (run->ways & ~(unsigned)MEM_DROP) ? swap_ns(run, s, &tier) : -1;
    run->slots[s].is_droppable = can_drop(run, s);
    run->swap[s] = swap >= 0 ? swap : INFINITY;
}

static double weight_of(const struct ebb_run *run, uint32_t s)
{
    const struct mem_policy *policy = run->o->policy;
    double n = run->slots[s].is_droppable ? (double)run->neigh.bound[s] : INFINITY;
    if (policy->numerator == MEM_ONE || policy->numerator == MEM_RANDOM)
        n = 1;
    n = run->swap[s] < n ? run->swap[s] : n;
    double scale = policy->by_size ? (double)run->p->bytes[s] : 1.0;
    return scale / (n >= 1 ? n : 1);
}

void exec_room_pool(struct ebb_run *run, uint32_t s)
{
    const struct ebb_program *p = run->p;
    const struct ebb_slot *slot = &run->slots[s];
    if (!run->index)
        return;
    bool is_in = slot->state == SLOT_RESIDENT && slot->pins == 0 && slot->waits == 0 &&
                 p->bytes[s] > 0 && !slot->is_small && p->base[s] == PLAN_NOWHERE &&
                 !(p->is_keep[s] && slot->version == p->final_version[s]) && has_way(run, s);
    if (!is_in) {
        pool_remove(run, s);
        return;
    }
    if (run->pool_at[s] == MEM_NONE) {
        run->pool_at[s] = run->pool_count;
        run->pool[run->pool_count++] = s;
    }
    note_ways(run, s);
    mem_index_set(run->index, s, weight_of(run, s), run->last[s]);
}

void exec_room_touch(struct ebb_run *run, uint32_t s)
{
    run->last[s] = (double)run->clock;
    if (run->index && run->pool_at[s] != MEM_NONE) {
        note_ways(run, s);
        mem_index_set(run->index, s, weight_of(run, s), run->last[s]);
    }
}

/* ---- choosing
 * -----------------------------------------------------------------------------------------------------
 */

/* Bounds are optimistic: ask for the winner's exact numerator, put it back if it was better than
 * that. */
static bool settle(struct ebb_run *run, uint32_t s)
{
    enum mem_numerator numerator = run->o->policy->numerator;
    run->r->eval_count++;
    if (numerator == MEM_ONE || numerator == MEM_LOCAL || numerator == MEM_RANDOM)
        return true;
    run->neigh.now_op = run->op;
    int64_t exact = mem_neigh_exact(&run->neigh, s);
    if (exact <= run->neigh.bound[s])
        return true;
    run->neigh.bound[s] = exact;
    mem_index_set(run->index, s, weight_of(run, s), run->last[s]);
    return false;
}

static double merit_now(const struct ebb_run *run, uint32_t s)
{
    double stale = run->o->policy->by_stale ? (double)run->clock - run->last[s] : 1.0;
    return weight_of(run, s) * stale;
}

/* About 2 sqrt(n) candidates, a random step apart; the first best wins. */
static uint32_t choose_sampled(struct ebb_run *run)
{
    uint32_t n = run->pool_count, root = 1, best = MEM_NONE;
    while ((uint64_t)(root + 1) * (root + 1) <= n)
        root++;
    double top = 0;
    for (uint32_t i = 0; i < n; i += 1 + (uint32_t)ebb_mt_int64(&run->rng, 0, root)) {
        uint32_t s = run->pool[i];
        settle(run, s);
        double m = merit_now(run, s);
        if (best == MEM_NONE || m > top) {
            best = s;
            top = m;
        }
    }
    return best;
}

/* Every exact score, one by one: what the index must agree with. */
static uint32_t choose_reference(struct ebb_run *run)
{
    for (uint32_t i = 0; i < run->pool_count; i++)
        settle(run, run->pool[i]);
    return mem_index_scan(run->index, (double)run->clock);
}

static uint32_t choose(struct ebb_run *run)
{
    if (!run->index || run->pool_count == 0)
        return MEM_NONE;
    if (run->o->policy->numerator == MEM_RANDOM)
        return run->pool[ebb_mt_int64(&run->rng, 0, run->pool_count)];
    if (run->o->sampling)
        return choose_sampled(run);
    if (run->o->reference_scan)
        return choose_reference(run);
    for (;;) {
        uint32_t s = mem_index_top(run->index, (double)run->clock);
        if (s == MEM_NONE || settle(run, s))
            return s;
    }
}

/* Ways close without the pool being told: a tier fills up, a recipe expires. Some open again when a
 * tier gets room. */
static uint32_t choose_open(struct ebb_run *run)
{
    for (;;) {
        uint32_t s = choose(run);
        if (s != MEM_NONE && has_way(run, s))
            return s;
        if (s != MEM_NONE) {
            pool_remove(run, s);
            continue;
        }
        if (!run->index || !run->has_tier_room)
            return MEM_NONE;
        run->has_tier_room = false;
        for (uint32_t k = 0; k < run->p->storage_count; k++)
            exec_room_pool(run, k);
    }
}

/* ---- leaving and coming
 * ------------------------------------------------------------------------------------------- */

enum ebb_status exec_room_await(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    device_event ready = run->slots[s].ready;
    run->slots[s].ready = 0;
    return ready ? run->device->table->stream_wait(run->device, DEVICE_COMPUTE, ready, err)
                 : EBB_OK;
}

enum ebb_status exec_room_release(struct ebb_run *run, uint32_t s, enum exec_event_kind kind,
                                  struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    EBB_TRY(exec_room_await(run, s, err));
    EBB_TRY(exec_room_log(run, kind, s, 0, 0, err));
    if (run->p->bytes[s])
        mem_slab_give(&run->slab[0], slot->segment);
    slot->state = SLOT_ABSENT;
    run->is_resident[s] = 0;
    run->sum_bytes -= run->p->bytes[s];
    if (run->index)
        pool_remove(run, s);
    return EBB_OK;
}

static void requeue_lowered(struct ebb_run *run)
{
    for (size_t i = 0; i < run->neigh.lowered_count; i++) {
        uint32_t s = run->neigh.lowered[i];
        if (run->pool_at[s] != MEM_NONE)
            mem_index_set(run->index, s, weight_of(run, s), run->last[s]);
    }
}

enum ebb_status exec_room_arrive(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    slot->state = SLOT_RESIDENT;
    run->is_resident[s] = 1;
    run->sum_bytes += run->p->bytes[s];
    if (run->sum_bytes > run->r->sum_bytes)
        run->r->sum_bytes = run->sum_bytes;
    if (run->o->ignore_small) {
        run->seen_bytes += run->p->bytes[s];
        run->seen_count++;
        slot->is_small = run->p->bytes[s] < run->seen_bytes / run->seen_count / 100;
    }
    if (!run->index)
        return EBB_OK;
    run->neigh.now_op = run->op;
    EBB_TRY(mem_neigh_returned(&run->neigh, s, err));
    requeue_lowered(run);
    return EBB_OK;
}

enum ebb_status exec_room_forget_in(struct ebb_run *run, uint32_t s, uint8_t tier,
                                    struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    if (!(slot->has_copy >> tier & 1))
        return EBB_OK;
    if (slot->ready) /* nobody writes over a copy that is still being read (D4) */
        EBB_TRY(run->device->table->stream_wait(run->device, DEVICE_OUT, slot->ready, err));
    slot->has_copy &= (uint8_t) ~(1u << tier);
    mem_slab_give(&run->slab[tier], slot->copy_segment[tier]);
    run->has_tier_room = true;
    return exec_room_log(run, EXEC_EV_FORGET, s, 0, tier, err);
}

enum ebb_status exec_room_forget(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    for (uint8_t k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        EBB_TRY(exec_room_forget_in(run, s, k, err));
    return EBB_OK;
}

uint64_t exec_move_ns(const struct exec_options *o, uint64_t bytes)
{
    return (uint64_t)link_ns(&o->links.in[DEVICE_T0], bytes);
}

static uint64_t offset_of(const struct ebb_run *run, int tier, uint32_t segment)
{
    return run->slab[tier].segments[segment].offset;
}

/* Copy to a lower tier; the compute stream may reuse the bytes only behind the copy (D4). Clean
 * copies are not repeated. */
enum ebb_status exec_room_copy_out(struct ebb_run *run, uint32_t s, uint8_t tier, uint64_t from,
                                   struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    const struct device_table *d = run->device->table;
    uint64_t bytes = run->p->bytes[s];
    bool has_copy = slot->has_copy >> tier & 1;
    if (has_copy && slot->copy_version[tier] == slot->version)
        return EBB_OK;
    EBB_TRY(exec_room_await(run, s, err));
    if (!has_copy) { /* else a plan renews the copy where it is */
        uint32_t hole = mem_slab_find(&run->slab[tier], bytes, false);
        if (hole == MEM_NONE)
            return ebb_fail(err, EBB_EBUDGET, "tier %d has no room for storage %u (%llu bytes)",
                            tier, s, (unsigned long long)bytes);
        EBB_TRY(
            mem_slab_take(&run->slab[tier], hole, bytes, false, s, &slot->copy_segment[tier], err));
    }
    slot->has_copy |= (uint8_t)(1u << tier);
    slot->copy_version[tier] = slot->version;
    device_event made, gone;
    EBB_TRY(d->record(run->device, DEVICE_COMPUTE, &made, err));
    EBB_TRY(d->stream_wait(run->device, DEVICE_OUT, made, err));
    EBB_TRY(d->copy(run->device, DEVICE_OUT, (enum device_tier)tier,
                    offset_of(run, tier, slot->copy_segment[tier]), DEVICE_T0, from, bytes, err));
    EBB_TRY(d->record(run->device, DEVICE_OUT, &gone, err));
    EBB_TRY(d->stream_wait(run->device, DEVICE_COMPUTE, gone, err));
    run->r->swapped_bytes += bytes;
    return exec_room_log(run, EXEC_EV_SEND, s, offset_of(run, tier, slot->copy_segment[tier]), tier,
                         err);
}

enum ebb_status exec_room_copy_in(struct ebb_run *run, uint32_t s, uint8_t tier, uint64_t to,
                                  struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    const struct device_table *d = run->device->table;
    device_event freed;
    EBB_TRY(d->record(run->device, DEVICE_COMPUTE, &freed, err));
    EBB_TRY(d->stream_wait(run->device, DEVICE_IN, freed, err));
    EBB_TRY(d->copy(run->device, DEVICE_IN, DEVICE_T0, to, (enum device_tier)tier,
                    offset_of(run, tier, slot->copy_segment[tier]), run->p->bytes[s], err));
    EBB_TRY(d->record(run->device, DEVICE_IN, &slot->ready, err));
    run->r->swapped_bytes += run->p->bytes[s];
    return exec_room_log(run, EXEC_EV_FETCH, s, 0, tier, err);
}

/* How `s` leaves: by being dropped, or by a copy to *tier. */
static bool leaves_by_drop(struct ebb_run *run, uint32_t s, uint8_t *tier)
{
    bool drops = can_drop(run, s);
    double swap = (run->ways & ~(unsigned)MEM_DROP) ? swap_ns(run, s, tier) : -1;
    if (drops && swap >= 0) {
        run->neigh.now_op = run->op;
        drops = (double)mem_neigh_exact(&run->neigh, s) <= swap;
    }
    return drops;
}

static void count_victim(struct ebb_run *run, uint32_t s)
{
    run->r->evictions_pressure++;
    run->r->evict_hash = ebb_fnv1a_u32(run->r->evict_hash, run->p->trace->storages[s].root);
}

static enum ebb_status evict(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    uint8_t tier = 0;
    bool drops = leaves_by_drop(run, s, &tier);
    count_victim(run, s);
    if (!drops) {
        EBB_TRY(exec_room_copy_out(run, s, tier, offset_of(run, 0, run->slots[s].segment), err));
        return exec_room_release(run, s, EXEC_EV_DROP, err);
    }
    EBB_TRY(exec_room_release(run, s, EXEC_EV_DROP, err));
    run->neigh.now_op = run->op;
    return mem_neigh_evicted(&run->neigh, s, true, err);
}

/* ---- second thoughts
 * --------------------------------------------------------------------------------------------- */

/* A policy names one victim after the other; often the last one alone would have made the hole.
 * Until something is written into their bytes, victims that turn out not to be needed come back for
 * nothing. So those who are dropped stand aside first, and leave for good when the request is
 * served. */
static enum ebb_status stand_aside(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    EBB_TRY(ebb_grow(&run->asides, &run->aside_capacity, run->aside_count + 1, sizeof *run->asides,
                     err));
    run->asides[run->aside_count++] =
        (struct ebb_aside){s, slot->segment, offset_of(run, 0, slot->segment)};
    mem_slab_give(&run->slab[0], slot->segment);
    slot->state = SLOT_ABSENT;
    run->is_resident[s] = 0;
    run->sum_bytes -= run->p->bytes[s];
    pool_remove(run, s);
    run->neigh.now_op = run->op;
    return mem_neigh_evicted(&run->neigh, s, true, err);
}

/* The hole around the bytes of aside i. A hole has the id of the last segment that was given back
 * into it; what a taken segment left of its hole lies right beside it. */
static uint32_t hole_of(const struct ebb_run *run, size_t i, uint32_t taken)
{
    const struct mem_slab *slab = &run->slab[0];
    struct ebb_aside a = run->asides[i];
    uint64_t bytes = run->p->bytes[a.storage];
    for (size_t k = i; k <= run->aside_count; k++) {
        uint32_t at = k < run->aside_count ? run->asides[k].segment : taken;
        const uint32_t near[] = {at, slab->segments[at].prev, slab->segments[at].next};
        for (int n = 0; n < 3; n++)
            if (near[n] != MEM_NONE && mem_slab_is_around(slab, near[n], a.offset, bytes))
                return near[n];
    }
    return MEM_NONE;
}

static enum ebb_status come_back(struct ebb_run *run, size_t i, uint32_t taken,
                                 struct ebb_error *err)
{
    struct ebb_aside *a = &run->asides[i];
    uint32_t s = a->storage, hole = hole_of(run, i, taken);
    if (hole == MEM_NONE)
        return ebb_fail(err, EBB_EINTERNAL, "storage %u stood aside, its bytes are lost", s);
    EBB_TRY(mem_slab_take_at(&run->slab[0], hole, a->offset, run->p->bytes[s], s,
                             &run->slots[s].segment, err));
    a->segment = run->slots[s].segment;
    run->slots[s].state = SLOT_RESIDENT;
    run->is_resident[s] = 1;
    run->sum_bytes += run->p->bytes[s];
    run->neigh.now_op = run->op;
    EBB_TRY(mem_neigh_returned(&run->neigh, s, err));
    requeue_lowered(run);
    exec_room_pool(run, s);
    return EBB_OK;
}

static enum ebb_status leave(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    count_victim(run, s);
    EBB_TRY(exec_room_await(run, s, err));
    return exec_room_log(run, EXEC_EV_DROP, s, 0, 0, err);
}

/* The first `count` of those aside leave for good. */
static enum ebb_status settle_first(struct ebb_run *run, size_t count, struct ebb_error *err)
{
    size_t rest = run->aside_count - count;
    for (size_t i = 0; i < count; i++)
        EBB_TRY(leave(run, run->asides[i].storage, err));
    for (size_t i = 0; i < rest; i++)
        run->asides[i] = run->asides[count + i];
    run->aside_count = rest;
    return EBB_OK;
}

/* The request is served by segment `taken`: whoever stood aside elsewhere comes back, the last
 * chosen, who is worth most, first; the others leave. */
static enum ebb_status settle_around(struct ebb_run *run, uint32_t taken, struct ebb_error *err)
{
    uint64_t low = offset_of(run, 0, taken), high = low + run->slab[0].segments[taken].bytes;
    size_t staying = 0;
    for (size_t i = run->aside_count; i-- > 0;) {
        struct ebb_aside *a = &run->asides[i];
        if (a->offset < high && a->offset + run->p->bytes[a->storage] > low)
            continue;
        EBB_TRY(come_back(run, i, taken, err));
        a->storage = MEM_NONE;
    }
    for (size_t i = 0; i < run->aside_count; i++)
        if (run->asides[i].storage != MEM_NONE)
            run->asides[staying++] = run->asides[i];
    run->aside_count = staying;
    return settle_first(run, staying, err);
}

/* When the pool is empty: an input that some waiting frame already has, outermost frame first. It
 * is brought back when that frame's turn comes. */
static uint32_t waiting_victim(struct ebb_run *run)
{
    for (size_t f = 0; f + 1 < run->frame_count; f++) {
        const struct ebb_op *op = &run->p->ops[run->frames[f].op];
        uint32_t best = MEM_NONE;
        for (uint32_t i = 0; i < op->in_count; i++) {
            uint32_t s = run->p->in_storage[op->in_first + i];
            const struct ebb_slot *slot = &run->slots[s];
            uint8_t tier;
            if (slot->state != SLOT_RESIDENT || slot->pins || run->p->bytes[s] == 0 ||
                run->p->base[s] != PLAN_NOWHERE ||
                (run->p->is_keep[s] && slot->version == run->p->final_version[s]) ||
                !(can_drop(run, s) || swap_ns(run, s, &tier) >= 0))
                continue;
            if (best == MEM_NONE || run->p->bytes[s] > run->p->bytes[best])
                best = s;
        }
        if (best != MEM_NONE)
            return best;
    }
    return MEM_NONE;
}

bool exec_room_is_short_lived(const struct ebb_run *run, uint32_t s)
{
    const struct ebb_slot *slot = &run->slots[s];
    if (run->p->is_keep[s] || run->p->is_leaf[s])
        return false;
    return slot->uses_left == 0 || run->p->last_use[s] - run->op < SHORT_LIVED;
}

/* ---- a hole in one piece
 * ------------------------------------------------------------------------------------------ */

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
    return link_ns(&run->o->links.in[DEVICE_T0], bytes);
}

/* What the return of an evicted `owner` would cost; infinite when it may not leave. */
static double return_ns(struct ebb_run *run, uint32_t owner)
{
    double back = INFINITY;
    uint8_t tier;
    if (run->pool_at[owner] == MEM_NONE)
        return back;
    if (can_drop(run, owner)) {
        settle(run, owner);
        back = (double)run->neigh.bound[owner];
    }
    double swap = (run->ways & ~(unsigned)MEM_DROP) ? swap_ns(run, owner, &tier) : -1;
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
        uint32_t s = choose(run);
        if (s == MEM_NONE)
            break;
        mem_index_remove(run->index, s);
        victims[count++] = s;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = victims[i];
        mem_index_set(run->index, s, weight_of(run, s), run->last[s]);
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
    EBB_TRY(exec_room_await(run, owner, err));
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
        if (run->pool_at[s] != MEM_NONE && has_way(run, s))
            EBB_TRY(evict(run, s, err));
    }
    return EBB_OK;
}

/* True when something was done that brings a hole of `bytes` nearer. */
static enum ebb_status gather(struct ebb_run *run, uint64_t bytes, bool *is_done,
                              struct ebb_error *err)
{
    uint32_t places[2 * PLACES], count = 0;
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

/* Bytes of the hole that would be there if `s` left. */
static uint64_t hole_after(const struct ebb_run *run, uint32_t s)
{
    const struct mem_segment *seg = run->slab[0].segments, *at = &seg[run->slots[s].segment];
    uint64_t bytes = at->bytes;
    if (at->prev != MEM_NONE && seg[at->prev].owner == MEM_NONE)
        bytes += seg[at->prev].bytes;
    if (at->next != MEM_NONE && seg[at->next].owner == MEM_NONE)
        bytes += seg[at->next].bytes;
    return bytes;
}

/* The policy's choice, unless one of the next few is nearly as good and would make the hole that is
 * needed. */
static uint32_t choose_fitting(struct ebb_run *run, uint64_t bytes)
{
    uint32_t top[NEXT_BEST], count = 0, found = MEM_NONE;
    uint32_t first = choose_open(run);
    /* without staleness merits are costs: the first is taken as it is */
    if (first == MEM_NONE || !run->o->policy->by_stale || run->o->sampling ||
        hole_after(run, first) >= bytes)
        return first;
    double least = merit_now(run, first) * NEARLY_AS_GOOD;
    top[count++] = first;
    mem_index_remove(run->index, first);
    while (count < NEXT_BEST && found == MEM_NONE) {
        uint32_t s = choose(run);
        if (s == MEM_NONE || merit_now(run, s) < least)
            break;
        if (!has_way(run, s)) {
            pool_remove(run, s);
            continue;
        }
        if (hole_after(run, s) >= bytes) {
            found = s;
        } else {
            top[count++] = s;
            mem_index_remove(run->index, s);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        mem_index_set(run->index, top[i], weight_of(run, top[i]), run->last[top[i]]);
    return found == MEM_NONE ? first : found;
}

/* The hole is found: take it, and let those come back who need not have left. */
static enum ebb_status take_hole(struct ebb_run *run, uint32_t hole, uint64_t bytes, bool is_high,
                                 uint32_t owner, uint32_t *segment, struct ebb_error *err)
{
    EBB_TRY(mem_slab_take(&run->slab[0], hole, bytes, is_high, owner, segment, err));
    return settle_around(run, *segment, err);
}

static enum ebb_status send_away(struct ebb_run *run, uint32_t victim, struct ebb_error *err)
{
    uint8_t tier = 0;
    if (run->slots[victim].waits > 0 || !leaves_by_drop(run, victim, &tier)) {
        EBB_TRY(settle_first(run, run->aside_count, err));
        return evict(run, victim, err);
    }
    if (run->aside_count == MOST_ASIDE) /* the first chosen is worth least */
        EBB_TRY(settle_first(run, MOST_ASIDE / 2, err));
    return stand_aside(run, victim, err);
}

static enum ebb_status no_room(struct ebb_run *run, uint64_t bytes, struct ebb_error *err)
{
    EBB_TRY(settle_first(run, run->aside_count, err));
    run->r->result = EXEC_OOM;
    snprintf(run->r->why, sizeof run->r->why,
             "op %u needs %llu bytes in one piece; %llu of %llu free, nothing left to evict",
             run->op, (unsigned long long)bytes, (unsigned long long)run->slab[0].free_bytes,
             (unsigned long long)run->slab[0].bytes);
    return EBB_EBUDGET;
}

enum ebb_status exec_room_take(struct ebb_run *run, uint64_t bytes, bool is_high, uint32_t owner,
                               uint32_t *segment, struct ebb_error *err)
{
    bool is_last = false;
    for (uint32_t rounds = 0;;) {
        uint32_t hole = mem_slab_find(&run->slab[0], bytes, is_high);
        if (hole != MEM_NONE)
            return take_hole(run, hole, bytes, is_high, owner, segment, err);
        if (run->o->policy && run->slab[0].free_bytes >= bytes && rounds < MAX_ROUNDS) {
            bool is_done;
            rounds++; /* of gathering: victims may take many more */
            EBB_TRY(settle_first(run, run->aside_count, err));
            EBB_TRY(gather(run, bytes, &is_done, err));
            if (is_done)
                continue;
        }
        uint32_t victim = run->o->policy ? choose_fitting(run, bytes) : MEM_NONE;
        if (victim == MEM_NONE && run->o->policy)
            victim = waiting_victim(run);
        if (victim == MEM_NONE && rounds >= MAX_ROUNDS && !is_last && run->o->policy) {
            is_last = true; /* nobody is left to leave: gather once more */
            rounds = MAX_ROUNDS - 1;
            continue;
        }
        if (victim == MEM_NONE)
            return no_room(run, bytes, err);
        EBB_TRY(send_away(run, victim, err));
    }
}

enum ebb_status exec_room_fetch(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    uint8_t tier = slot->has_copy >> DEVICE_HOST & 1 ? DEVICE_HOST : DEVICE_FILE;
    EBB_TRY(exec_room_take(run, run->p->bytes[s], exec_room_is_short_lived(run, s), s,
                           &slot->segment, err));
    EBB_TRY(exec_room_log(run, EXEC_EV_PLACE, s, offset_of(run, 0, slot->segment), 0, err));
    EBB_TRY(exec_room_copy_in(run, s, tier, offset_of(run, 0, slot->segment), err));
    EBB_TRY(exec_room_arrive(run, s, err));
    exec_room_touch(run, s);
    return EBB_OK;
}
