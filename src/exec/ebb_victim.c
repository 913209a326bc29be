/* ebb_victim.c - who may leave tier 0, and who is chosen to (rules ebb).
 *
 *   V1 in the pool <=> resident, no pins, no waits, bytes > 0, and some way back is open.
 *   V2 a storage whose way back has expired is dropped by nobody until it is dead.
 *   V3 the keep set leaves no more once its final version is resident.
 *   V4 persistent storages never leave. */
#include "exec/ebb.h"

#include <math.h>

/* How far a victim may stand behind the best when it makes the hole that is needed. Values from 0.5
 * to 0.8 and 8 to 32 differ by less than 0.3 % in the mean on the recorded steps. */
#define NEXT_BEST 32
#define NEARLY_AS_GOOD 0.5

/* ---- ways back ------------------------------------------------------------------------------- */

bool exec_victim_can_drop(const struct ebb_run *run, uint32_t s)
{
    const struct ebb_program *p = run->p;
    const struct ebb_slot *slot = &run->slots[s];
    if (slot->uses_left == 0 && !p->is_keep[s] && p->need_until[s] < run->op)
        return true; /* dead: no way back is needed */
    if (!(run->ways & MEM_DROP) || slot->is_held)
        return false;
    uint32_t expire = p->expire[p->version_first[s] + slot->version];
    return expire > run->op; /* the op in service is the last that may still destroy it: V2 */
}

/* Cheapest lower tier with room (or with a clean copy); its cost of going out and coming back, or
 * -1. */
double exec_victim_swap_ns(const struct ebb_run *run, uint32_t s, uint8_t *tier)
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
        double ns = exec_link_ns(&run->o->links.in[k], bytes) +
                    (is_clean ? 0 : exec_link_ns(&run->o->links.out[k], bytes));
        if (best < 0 || ns < best) {
            best = ns;
            *tier = k;
        }
    }
    return best;
}

bool exec_victim_has_way(const struct ebb_run *run, uint32_t s)
{
    uint8_t tier;
    return exec_victim_can_drop(run, s) || exec_victim_swap_ns(run, s, &tier) >= 0;
}

/* ---- the pool -------------------------------------------------------------------------------- */

void exec_victim_remove(struct ebb_run *run, uint32_t s)
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
    double swap = (run->ways & ~(unsigned)MEM_DROP) ? exec_victim_swap_ns(run, s, &tier) : -1;
    run->slots[s].is_droppable = exec_victim_can_drop(run, s);
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

void exec_victim_rank(struct ebb_run *run, uint32_t s)
{
    mem_index_set(run->index, s, weight_of(run, s), run->last[s]);
}

void exec_victim_pool(struct ebb_run *run, uint32_t s)
{
    const struct ebb_program *p = run->p;
    const struct ebb_slot *slot = &run->slots[s];
    if (!run->index)
        return;
    bool is_in = slot->state == SLOT_RESIDENT && slot->pins == 0 && slot->waits == 0 &&
                 p->bytes[s] > 0 && !slot->is_small && p->base[s] == PLAN_NOWHERE &&
                 !(p->is_keep[s] && slot->version == p->final_version[s]) &&
                 exec_victim_has_way(run, s);
    if (!is_in) {
        exec_victim_remove(run, s);
        return;
    }
    if (run->pool_at[s] == MEM_NONE) {
        run->pool_at[s] = run->pool_count;
        run->pool[run->pool_count++] = s;
    }
    note_ways(run, s);
    exec_victim_rank(run, s);
}

void exec_victim_touch(struct ebb_run *run, uint32_t s)
{
    run->last[s] = (double)run->clock;
    if (run->index && run->pool_at[s] != MEM_NONE) {
        note_ways(run, s);
        exec_victim_rank(run, s);
    }
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Bounds are optimistic: ask for the winner's exact numerator, put it back if it was better than
 * that. */
bool exec_victim_settle(struct ebb_run *run, uint32_t s)
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
    exec_victim_rank(run, s);
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
        exec_victim_settle(run, s);
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
        exec_victim_settle(run, run->pool[i]);
    return mem_index_scan(run->index, (double)run->clock);
}

uint32_t exec_victim_next(struct ebb_run *run)
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
        if (s == MEM_NONE || exec_victim_settle(run, s))
            return s;
    }
}

/* Ways close without the pool being told: a tier fills up, a recipe expires. Some open again when a
 * tier gets room. */
static uint32_t choose_open(struct ebb_run *run)
{
    for (;;) {
        uint32_t s = exec_victim_next(run);
        if (s != MEM_NONE && exec_victim_has_way(run, s))
            return s;
        if (s != MEM_NONE) {
            exec_victim_remove(run, s);
            continue;
        }
        if (!run->index || !run->has_tier_room)
            return MEM_NONE;
        run->has_tier_room = false;
        for (uint32_t k = 0; k < run->p->storage_count; k++)
            exec_victim_pool(run, k);
    }
}

/* How `s` leaves: by being dropped, or by a copy to *tier. */
bool exec_victim_drops(struct ebb_run *run, uint32_t s, uint8_t *tier)
{
    bool drops = exec_victim_can_drop(run, s);
    double swap = (run->ways & ~(unsigned)MEM_DROP) ? exec_victim_swap_ns(run, s, tier) : -1;
    if (drops && swap >= 0) {
        run->neigh.now_op = run->op;
        drops = (double)mem_neigh_exact(&run->neigh, s) <= swap;
    }
    return drops;
}

void exec_victim_rank_lowered(struct ebb_run *run)
{
    for (size_t i = 0; i < run->neigh.lowered_count; i++) {
        uint32_t s = run->neigh.lowered[i];
        if (run->pool_at[s] != MEM_NONE)
            exec_victim_rank(run, s);
    }
}

/* When the pool is empty: an input that some waiting frame already has, outermost frame first. It
 * is brought back when that frame's turn comes. */
uint32_t exec_victim_waiting(struct ebb_run *run)
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
                !(exec_victim_can_drop(run, s) || exec_victim_swap_ns(run, s, &tier) >= 0))
                continue;
            if (best == MEM_NONE || run->p->bytes[s] > run->p->bytes[best])
                best = s;
        }
        if (best != MEM_NONE)
            return best;
    }
    return MEM_NONE;
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
uint32_t exec_victim_choose(struct ebb_run *run, uint64_t bytes)
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
        uint32_t s = exec_victim_next(run);
        if (s == MEM_NONE || merit_now(run, s) < least)
            break;
        if (!exec_victim_has_way(run, s)) {
            exec_victim_remove(run, s);
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
        exec_victim_rank(run, top[i]);
    return found == MEM_NONE ? first : found;
}
