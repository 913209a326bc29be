/* victim.c - who may leave tier 0, and who is chosen to.
 *
 *   V1 in the pool <=> resident, no pins, no waits, bytes > 0, and some way back is open.
 *   V2 a storage whose way back has expired is dropped by nobody until it is dead.
 *   V3 the keep set leaves no more once its final version is resident.
 *   V4 persistent storages never leave. */
#include "mem/manager.h"

#include <math.h>

#include "base/clock.h"
#include "base/sorted.h"

/* How far a victim may stand behind the best when it makes the hole that is needed. Values from 0.5
 * to 0.8 and 8 to 32 differ by less than 0.3 % in the mean on the recorded steps. */
#define NEXT_BEST 32
#define NEARLY_AS_GOOD 0.5

/* ---- ways back ------------------------------------------------------------------------------- */

/* No way back is needed. */
static bool is_dead(const struct mem_manager *m, uint32_t s)
{
    return m->slots[s].uses_left == 0 && !m->r->storages[s].is_kept && m->r->need_until[s] < m->op;
}

bool mem_victim_can_drop(const struct mem_manager *m, uint32_t s)
{
    const struct mem_slot *slot = &m->slots[s];
    if (is_dead(m, s))
        return true;
    if (!(m->c.ways & MEM_DROP) || slot->is_held)
        return false;
    /* the op in service is the last that may still destroy it: V2 */
    return plan_version_of(m->r, s, slot->version)->expire > m->op;
}

double mem_victim_swap_ns(const struct mem_manager *m, uint32_t s, uint8_t *tier)
{
    const struct mem_slot *slot = &m->slots[s];
    double best = INFINITY;
    if (m->c.ways == MEM_DROP)
        return best;
    for (uint8_t k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
        if (!(m->c.ways & (k == DEVICE_HOST ? MEM_HOST : MEM_FILE)))
            continue;
        bool is_clean = slot->has_copy >> k & 1;
        uint64_t bytes = mem_bytes(m, s);
        if (!is_clean && mem_slab_find(&m->slab[k], bytes, false) == MEM_NONE)
            continue;
        double ns = mem_swap_ns(&m->c.links->in[k], &m->c.links->out[k], bytes, is_clean);
        if (ns < best) {
            best = ns;
            *tier = k;
        }
    }
    return best;
}

bool mem_victim_has_way(const struct mem_manager *m, uint32_t s)
{
    uint8_t tier;
    return mem_victim_can_drop(m, s) || mem_victim_swap_ns(m, s, &tier) < INFINITY;
}

/* ---- the pool -------------------------------------------------------------------------------- */

void mem_victim_remove(struct mem_manager *m, uint32_t s)
{
    uint32_t at = m->pool_at[s];
    if (at == MEM_NONE)
        return;
    uint32_t moved = m->pool[--m->pool_count];
    m->pool[at] = moved;
    m->pool_at[moved] = at;
    m->pool_at[s] = MEM_NONE;
    mem_index_remove(m->index, s);
}

/* What leaving would cost by other ways than recomputation is noted when a storage enters the pool
 * or is used, not when somebody happens to look: so the order of looking decides nothing. */
static void note_ways(struct mem_manager *m, uint32_t s)
{
    uint8_t tier;
    m->fresh[s] = m->last[s];
    m->slots[s].is_droppable = mem_victim_can_drop(m, s);
    m->swap[s] = mem_victim_swap_ns(m, s, &tier);
}

static double weight_of(const struct mem_manager *m, uint32_t s)
{
    const struct mem_policy *policy = m->c.policy;
    double n = m->slots[s].is_droppable ? (double)m->neigh.bound[s] : INFINITY;
    if (policy->numerator == MEM_ONE || policy->numerator == MEM_RANDOM)
        n = 1;
    n = mem_price(n, m->swap[s], NULL);
    double scale = policy->by_size ? (double)mem_bytes(m, s) : 1.0;
    return scale / (n >= 1 ? n : 1);
}

void mem_victim_rank(struct mem_manager *m, uint32_t s)
{
    mem_index_set(m->index, s, weight_of(m, s), m->fresh[s]);
}

/* V1, waits aside; V3, V4. */
static bool may_leave(const struct mem_manager *m, uint32_t s)
{
    const struct mem_slot *slot = &m->slots[s];
    const struct plan_storage *st = &m->r->storages[s];
    return slot->state == MEM_RESIDENT && slot->pins == 0 && st->bytes > 0 &&
           st->base == PLAN_NOWHERE && !(st->is_kept && slot->version + 1 == st->version_count) &&
           mem_victim_has_way(m, s);
}

void mem_victim_pool(struct mem_manager *m, uint32_t s)
{
    const struct mem_slot *slot = &m->slots[s];
    if (!m->index)
        return;
    bool is_in = slot->waits == 0 && !slot->is_small && may_leave(m, s);
    if (!is_in) {
        mem_victim_remove(m, s);
        return;
    }
    if (m->pool_at[s] == MEM_NONE) {
        m->pool_at[s] = m->pool_count;
        m->pool[m->pool_count++] = s;
    }
    note_ways(m, s);
    mem_victim_rank(m, s);
}

void mem_victim_touch(struct mem_manager *m, uint32_t s)
{
    m->last[s] = (double)m->tally->clock_ns;
    if (m->index && m->pool_at[s] != MEM_NONE) {
        note_ways(m, s);
        mem_victim_rank(m, s);
    }
}

/* ---- choosing -------------------------------------------------------------------------------- */

static int64_t exact_cost(struct mem_manager *m, uint32_t s)
{
    uint64_t begin = m->c.measures ? ebb_clock_ns() : 0;
    m->neigh.now_op = m->op;
    int64_t exact = mem_neigh_exact(&m->neigh, s);
    if (m->c.measures)
        m->tally->cost_ns += ebb_clock_ns() - begin;
    return exact;
}

/* Bounds are optimistic: ask for the winner's exact numerator (and for the freshest member of its
 * set), put it back if it was better than that. */
bool mem_victim_settle(struct mem_manager *m, uint32_t s)
{
    enum mem_numerator numerator = m->c.policy->numerator;
    m->tally->eval_count++;
    if (numerator == MEM_ONE || numerator == MEM_LOCAL || numerator == MEM_RANDOM)
        return true;
    int64_t exact = exact_cost(m, s);
    bool is_fresher = numerator == MEM_UNION && m->neigh.latest > m->fresh[s];
    if (exact <= m->neigh.bound[s] && !is_fresher)
        return true;
    if (is_fresher)
        m->fresh[s] = m->neigh.latest;
    if (exact > m->neigh.bound[s])
        m->neigh.bound[s] = exact;
    mem_victim_rank(m, s);
    return false;
}

static double merit_now(const struct mem_manager *m, uint32_t s)
{
    double stale = m->c.policy->by_stale ? (double)m->tally->clock_ns - m->fresh[s] : 1.0;
    return weight_of(m, s) * stale;
}

/* About 2 sqrt(n) candidates, a random step apart; the first best wins. */
static uint32_t choose_sampled(struct mem_manager *m)
{
    uint32_t n = m->pool_count, root = 1, best = MEM_NONE;
    while ((uint64_t)(root + 1) * (root + 1) <= n)
        root++;
    double top = 0;
    for (uint32_t i = 0; i < n; i += 1 + (uint32_t)ebb_mt_int64(&m->rng, 0, root)) {
        uint32_t s = m->pool[i];
        mem_victim_settle(m, s);
        double merit = merit_now(m, s);
        if (best == MEM_NONE || merit > top) {
            best = s;
            top = merit;
        }
    }
    return best;
}

/* Every exact score, one by one: what the index must agree with. */
static uint32_t choose_reference(struct mem_manager *m)
{
    for (uint32_t i = 0; i < m->pool_count; i++)
        mem_victim_settle(m, m->pool[i]);
    return mem_index_scan(m->index, (double)m->tally->clock_ns);
}

/* ---- policies that see ------------------------------------------------------------------------ */

double mem_victim_time_to_use(const struct mem_manager *m, uint32_t s)
{
    const struct plan_storage *st = &m->r->storages[s];
    const uint32_t *uses = &m->r->uses[st->use_first];
    size_t at = ebb_first_u32(uses, st->use_count, m->op + 1);
    if (at < st->use_count)
        return (double)(m->r->clock[uses[at]] - m->r->clock[m->op]);
    return m->r->need_until[s] > m->op && m->r->need_until[s] < m->r->node_count
               ? (double)(m->r->clock[m->r->need_until[s]] - m->r->clock[m->op])
               : INFINITY;
}

/* How long before its next use a copy out and in would have ended. */
static double free_time(const struct mem_manager *m, uint32_t s)
{
    uint8_t tier;
    double swap = mem_victim_swap_ns(m, s, &tier);
    return swap == INFINITY ? -INFINITY : mem_victim_time_to_use(m, s) - swap;
}

static bool is_copied(const struct mem_manager *m, uint32_t s)
{
    uint8_t tier;
    if (mem_victim_swap_ns(m, s, &tier) == INFINITY)
        return false;
    return m->c.policy->sight == MEM_FARTHEST || free_time(m, s) >= 0;
}

double mem_victim_make_ns(struct mem_manager *m, uint32_t s)
{
    double still =
        m->ahead ? mem_ahead_still_ns(m, s) : 0; /* its bytes are waited for all the same */
    return mem_victim_can_drop(m, s) ? (double)exact_cost(m, s) + still : INFINITY;
}

/* Byte-nanoseconds gained per nanosecond that nobody hides. */
static double hidden_merit(struct mem_manager *m, uint32_t s)
{
    uint8_t tier;
    if (is_dead(m, s))
        return INFINITY;
    double ns = mem_price(mem_victim_make_ns(m, s), mem_ahead_ns(m, s, &tier), NULL);
    double gap = mem_victim_time_to_use(m, s), most = (double)m->r->base_cost;
    return (double)mem_bytes(m, s) * (1 + (gap < most ? gap : most)) / (1 + ns);
}

/* The first best of the pool: first by copies, then by making again; by one price for both. */
static uint32_t choose_seeing(struct mem_manager *m)
{
    uint32_t best = MEM_NONE;
    double top = 0;
    bool top_copied = false;
    for (uint32_t i = 0; i < m->pool_count; i++) {
        uint32_t s = m->pool[i];
        bool copied = !m->ahead && is_copied(m, s);
        double merit = m->ahead ? hidden_merit(m, s)
                       : m->c.policy->sight == MEM_FARTHEST || copied
                           ? mem_victim_time_to_use(m, s)
                           : (double)mem_bytes(m, s) / (1 + (double)exact_cost(m, s));
        bool is_better = copied != top_copied ? copied
                         : merit != top       ? merit > top
                                              : best == MEM_NONE || s < best;
        m->tally->eval_count++;
        if (best == MEM_NONE || is_better) {
            best = s;
            top = merit;
            top_copied = copied;
        }
    }
    return best;
}

uint32_t mem_victim_next(struct mem_manager *m)
{
    if (!m->index || m->pool_count == 0)
        return MEM_NONE;
    if (m->c.policy->sight != MEM_BLIND)
        return choose_seeing(m);
    if (m->c.policy->numerator == MEM_RANDOM)
        return m->pool[ebb_mt_int64(&m->rng, 0, m->pool_count)];
    if (m->c.sampling)
        return choose_sampled(m);
    if (m->c.reference_scan)
        return choose_reference(m);
    for (;;) {
        uint32_t s = mem_index_top(m->index, (double)m->tally->clock_ns);
        if (s == MEM_NONE || mem_victim_settle(m, s))
            return s;
    }
}

/* Ways close without the pool being told: a tier fills up, a recipe expires. Some open again when a
 * tier gets room. */
static uint32_t choose_open(struct mem_manager *m)
{
    for (;;) {
        uint32_t s = mem_victim_next(m);
        if (s != MEM_NONE && mem_victim_has_way(m, s))
            return s;
        if (s != MEM_NONE) {
            mem_victim_remove(m, s);
            continue;
        }
        if (!m->index || !m->has_tier_room)
            return MEM_NONE;
        m->has_tier_room = false;
        for (uint32_t k = 0; k < m->r->storage_count; k++)
            mem_victim_pool(m, k);
    }
}

bool mem_victim_drops(struct mem_manager *m, uint32_t s, uint8_t *tier)
{
    bool drops = mem_victim_can_drop(m, s), by_copy;
    double swap = m->ahead ? mem_ahead_ns(m, s, tier) : mem_victim_swap_ns(m, s, tier);
    if (!drops || swap == INFINITY || (m->ahead && is_dead(m, s)))
        return drops;
    if (m->c.policy->sight != MEM_BLIND && !m->ahead && !is_dead(m, s))
        return !is_copied(m, s);
    mem_price(mem_victim_make_ns(m, s), swap, &by_copy);
    return !by_copy;
}

void mem_victim_rank_lowered(struct mem_manager *m)
{
    for (size_t i = 0; i < m->neigh.lowered_count; i++) {
        uint32_t s = m->neigh.lowered[i];
        if (m->pool_at[s] == MEM_NONE)
            continue;
        m->fresh[s] = m->last[s];
        mem_victim_rank(m, s);
    }
}

/* When the pool is empty: an input that some waiting op already has, outermost first. It is brought
 * back when that op's turn comes. */
uint32_t mem_victim_waiting(struct mem_manager *m)
{
    for (size_t f = 0; f + 1 < m->waiting_count; f++) {
        const struct plan_node *op = &m->r->nodes[m->waiting[f]];
        uint32_t best = MEM_NONE;
        for (uint32_t i = 0; i < op->in_count; i++) {
            uint32_t s = m->r->ins[op->in_first + i].storage;
            if (may_leave(m, s) && (best == MEM_NONE || mem_bytes(m, s) > mem_bytes(m, best)))
                best = s;
        }
        if (best != MEM_NONE)
            return best;
    }
    return MEM_NONE;
}

/* Bytes of the hole that would be there if `s` left. */
static uint64_t hole_after(const struct mem_manager *m, uint32_t s)
{
    const struct mem_segment *seg = m->slab[0].segments, *at = &seg[m->slots[s].segment];
    uint64_t bytes = at->bytes;
    if (at->prev != MEM_NONE && seg[at->prev].owner == MEM_NONE)
        bytes += seg[at->prev].bytes;
    if (at->next != MEM_NONE && seg[at->next].owner == MEM_NONE)
        bytes += seg[at->next].bytes;
    return bytes;
}

/* Of the whole pool the best that would make the hole, if it is nearly as good as the first. */
static uint32_t choose_hole(struct mem_manager *m, uint32_t first, uint64_t bytes)
{
    double top = hidden_merit(m, first) * NEARLY_AS_GOOD;
    uint32_t best = first;
    for (uint32_t i = 0; i < m->pool_count; i++) {
        uint32_t s = m->pool[i];
        double merit =
            hole_after(m, s) >= bytes && mem_victim_has_way(m, s) ? hidden_merit(m, s) : 0;
        if (merit > top || (merit == top && best != first && s < best)) {
            top = merit;
            best = s;
        }
    }
    return best;
}

/* The policy's choice, unless one of the next few is nearly as good and would make the hole that is
 * needed. */
uint32_t mem_victim_choose(struct mem_manager *m, uint64_t bytes)
{
    uint32_t top[NEXT_BEST], count = 0, found = MEM_NONE;
    uint32_t first = choose_open(m);
    if (first != MEM_NONE && m->ahead && !m->c.takes_first && hole_after(m, first) < bytes)
        return choose_hole(m, first, bytes);
    /* without staleness merits are costs: the first is taken as it is */
    if (first == MEM_NONE || !m->c.policy->by_stale || m->c.sampling ||
        hole_after(m, first) >= bytes)
        return first;
    double least = merit_now(m, first) * NEARLY_AS_GOOD;
    top[count++] = first;
    mem_index_remove(m->index, first);
    while (count < NEXT_BEST && found == MEM_NONE) {
        uint32_t s = mem_victim_next(m);
        if (s == MEM_NONE || merit_now(m, s) < least)
            break;
        if (!mem_victim_has_way(m, s)) {
            mem_victim_remove(m, s);
            continue;
        }
        if (hole_after(m, s) >= bytes) {
            found = s;
        } else {
            top[count++] = s;
            mem_index_remove(m->index, s);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        mem_victim_rank(m, top[i]);
    return found == MEM_NONE ? first : found;
}
