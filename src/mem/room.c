/* room.c - room in tier 0: who leaves, who comes back, where the bytes are (rules R1, R2).
 *
 * Who may leave is the matter of victim.c, one hole out of scattered bytes that of gather.c, copies
 * in lower tiers that of tier.c. */
#include "mem/manager.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/heap.h"

#define MAX_ROUNDS 64  /* of gathering per request, then victims by policy alone */
#define MOST_ASIDE 64  /* victims that may still come back */
#define SHORT_LIVED 16 /* ops */
#define A_CHOICE 100   /* counts for that much work */

/* ---- leaving and coming ---------------------------------------------------------------------- */

enum ebb_status mem_room_release(struct mem_manager *m, uint32_t s, bool is_victim,
                                 struct ebb_error *err)
{
    struct mem_slot *slot = &m->slots[s];
    EBB_TRY(mem_await_free(m, s, err));
    EBB_TRY(mem_tell_drop(m, s, is_victim, err));
    if (mem_bytes(m, s))
        mem_slab_give(&m->slab[0], slot->segment);
    slot->state = MEM_ABSENT;
    m->is_resident[s] = 0;
    m->sum_bytes -= mem_bytes(m, s);
    if (m->index)
        mem_victim_remove(m, s);
    return EBB_OK;
}

static enum ebb_status arrive(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    struct mem_slot *slot = &m->slots[s];
    slot->state = MEM_RESIDENT;
    m->is_resident[s] = 1;
    m->sum_bytes += mem_bytes(m, s);
    if (m->sum_bytes > m->tally->sum_bytes)
        m->tally->sum_bytes = m->sum_bytes;
    if (m->c.ignore_small) {
        m->seen_bytes += mem_bytes(m, s);
        m->seen_count++;
        slot->is_small = mem_bytes(m, s) < m->seen_bytes / m->seen_count / 100;
    }
    if (!m->index)
        return EBB_OK;
    m->neigh.now_op = m->op;
    EBB_TRY(mem_neigh_returned(&m->neigh, s, err));
    mem_victim_rank_lowered(m);
    return EBB_OK;
}

static void count_victim(struct mem_manager *m, uint32_t s)
{
    m->tally->evictions_pressure++;
    m->tally->evict_hash = ebb_fnv1a_u32(m->tally->evict_hash, m->r->trace->storages[s].root);
}

enum ebb_status mem_room_evict(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    uint8_t tier = 0;
    bool drops = mem_victim_drops(m, s, &tier);
    count_victim(m, s);
    if (!drops) {
        EBB_TRY(mem_tier_send(m, s, tier, mem_offset(m, 0, m->slots[s].segment), err));
        if (m->ahead)
            mem_ahead_left(m, s, tier, false);
        return mem_room_release(m, s, true, err);
    }
    EBB_TRY(mem_room_release(m, s, true, err));
    m->neigh.now_op = m->op;
    return mem_neigh_evicted(&m->neigh, s, true, err);
}

/* ---- second thoughts ------------------------------------------------------------------------- */

/* A policy names one victim after the other; often the last one alone would have made the hole.
 * Until something is written into their bytes, victims that turn out not to be needed come back for
 * nothing. So those who are dropped stand aside first, and leave for good when the request is
 * served. */
static enum ebb_status stand_aside(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    struct mem_slot *slot = &m->slots[s];
    EBB_TRY(ebb_grow(&m->asides, &m->aside_capacity, m->aside_count + 1, sizeof *m->asides, err));
    m->asides[m->aside_count++] =
        (struct mem_aside){s, slot->segment, mem_offset(m, 0, slot->segment)};
    mem_slab_give(&m->slab[0], slot->segment);
    slot->state = MEM_ABSENT;
    m->is_resident[s] = 0;
    m->sum_bytes -= mem_bytes(m, s);
    mem_victim_remove(m, s);
    m->neigh.now_op = m->op;
    return mem_neigh_evicted(&m->neigh, s, true, err);
}

/* The hole around the bytes of aside i. A hole has the id of the last segment that was given back
 * into it; what a taken segment left of its hole lies right beside it. */
static uint32_t hole_of(const struct mem_manager *m, size_t i, uint32_t taken)
{
    const struct mem_slab *slab = &m->slab[0];
    struct mem_aside a = m->asides[i];
    uint64_t bytes = mem_bytes(m, a.storage);
    for (size_t k = i; k <= m->aside_count; k++) {
        uint32_t at = k < m->aside_count ? m->asides[k].segment : taken;
        const uint32_t near[] = {at, slab->segments[at].prev, slab->segments[at].next};
        for (int n = 0; n < 3; n++)
            if (near[n] != MEM_NONE && mem_slab_is_around(slab, near[n], a.offset, bytes))
                return near[n];
    }
    return MEM_NONE;
}

static enum ebb_status come_back(struct mem_manager *m, size_t i, uint32_t taken,
                                 struct ebb_error *err)
{
    struct mem_aside *a = &m->asides[i];
    uint32_t s = a->storage, hole = hole_of(m, i, taken);
    if (hole == MEM_NONE)
        return ebb_fail(err, EBB_EINTERNAL, "storage %u stood aside, its bytes are lost", s);
    EBB_TRY(mem_slab_take_at(&m->slab[0], hole, a->offset, mem_bytes(m, s), s, &m->slots[s].segment,
                             err));
    a->segment = m->slots[s].segment;
    m->slots[s].state = MEM_RESIDENT;
    m->is_resident[s] = 1;
    m->sum_bytes += mem_bytes(m, s);
    m->neigh.now_op = m->op;
    EBB_TRY(mem_neigh_returned(&m->neigh, s, err));
    mem_victim_rank_lowered(m);
    mem_victim_pool(m, s);
    return EBB_OK;
}

static enum ebb_status leave(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    count_victim(m, s);
    EBB_TRY(mem_await_free(m, s, err));
    return mem_tell_drop(m, s, true, err);
}

/* The first `count` of those aside leave for good. */
static enum ebb_status settle_first(struct mem_manager *m, size_t count, struct ebb_error *err)
{
    size_t rest = m->aside_count - count;
    for (size_t i = 0; i < count; i++)
        EBB_TRY(leave(m, m->asides[i].storage, err));
    for (size_t i = 0; i < rest; i++)
        m->asides[i] = m->asides[count + i];
    m->aside_count = rest;
    return EBB_OK;
}

/* The request is served by segment `taken`: whoever stood aside elsewhere comes back, the last
 * chosen, who is worth most, first; the others leave. */
static enum ebb_status settle_around(struct mem_manager *m, uint32_t taken, struct ebb_error *err)
{
    uint64_t low = mem_offset(m, 0, taken), high = low + m->slab[0].segments[taken].bytes;
    size_t staying = 0;
    for (size_t i = m->aside_count; i-- > 0;) {
        struct mem_aside *a = &m->asides[i];
        if (a->offset < high && a->offset + mem_bytes(m, a->storage) > low)
            continue;
        EBB_TRY(come_back(m, i, taken, err));
        a->storage = MEM_NONE;
    }
    for (size_t i = 0; i < m->aside_count; i++)
        if (m->asides[i].storage != MEM_NONE)
            m->asides[staying++] = m->asides[i];
    m->aside_count = staying;
    return settle_first(m, staying, err);
}

/* What ends soon is placed at the high end, away from what stays. */
static bool is_short_lived(const struct mem_manager *m, uint32_t s)
{
    if (m->r->storages[s].is_kept || m->r->nodes[plan_version_of(m->r, s, 0)->maker].is_leaf)
        return false;
    return m->slots[s].uses_left == 0 || plan_last_version(m->r, s)->last_use - m->op < SHORT_LIVED;
}

/* The hole is found: take it, and let those come back who need not have left. */
static enum ebb_status take_hole(struct mem_manager *m, uint32_t hole, uint64_t bytes, bool is_high,
                                 uint32_t owner, uint32_t *segment, struct ebb_error *err)
{
    EBB_TRY(mem_slab_take(&m->slab[0], hole, bytes, is_high, owner, segment, err));
    return settle_around(m, *segment, err);
}

static enum ebb_status send_away(struct mem_manager *m, uint32_t victim, struct ebb_error *err)
{
    uint8_t tier = 0;
    if (m->slots[victim].waits > 0 || !mem_victim_drops(m, victim, &tier)) {
        EBB_TRY(settle_first(m, m->aside_count, err));
        return mem_room_evict(m, victim, err);
    }
    if (m->aside_count == MOST_ASIDE) /* the first chosen is worth least */
        EBB_TRY(settle_first(m, MOST_ASIDE / 2, err));
    return stand_aside(m, victim, err);
}

static enum ebb_status no_room(struct mem_manager *m, uint64_t bytes, struct ebb_error *err)
{
    EBB_TRY(settle_first(m, m->aside_count, err));
    snprintf(m->tally->why, sizeof m->tally->why,
             "op %u needs %llu bytes in one piece; %llu of %llu free, nothing left to evict", m->op,
             (unsigned long long)bytes, (unsigned long long)m->slab[0].free_bytes,
             (unsigned long long)m->slab[0].bytes);
    return EBB_EBUDGET;
}

static enum ebb_status find_room(struct mem_manager *m, uint64_t bytes, bool is_high,
                                 uint32_t owner, uint32_t *segment, struct ebb_error *err)
{
    bool is_last = false;
    for (uint32_t rounds = 0;;) {
        uint32_t hole = mem_slab_find(&m->slab[0], bytes, is_high);
        if (hole != MEM_NONE)
            return take_hole(m, hole, bytes, is_high, owner, segment, err);
        if (m->c.policy && m->slab[0].free_bytes >= bytes && rounds < MAX_ROUNDS) {
            bool is_done;
            rounds++; /* of gathering: victims may take many more */
            EBB_TRY(settle_first(m, m->aside_count, err));
            EBB_TRY(mem_gather(m, bytes, &is_done, err));
            if (is_done)
                continue;
        }
        uint32_t victim = m->c.policy ? mem_victim_choose(m, bytes) : MEM_NONE;
        m->tally->work += A_CHOICE;
        if (victim == MEM_NONE && m->c.policy)
            victim = mem_victim_waiting(m);
        if (victim == MEM_NONE && rounds >= MAX_ROUNDS && !is_last && m->c.policy) {
            is_last = true; /* nobody is left to leave: gather once more */
            rounds = MAX_ROUNDS - 1;
            continue;
        }
        if (victim == MEM_NONE)
            return no_room(m, bytes, err);
        EBB_TRY(send_away(m, victim, err));
    }
}

enum ebb_status mem_take(struct mem_manager *m, uint64_t bytes, bool is_high, uint32_t owner,
                         uint32_t *segment, struct ebb_error *err)
{
    if (!m->c.measures || mem_slab_find(&m->slab[0], bytes, is_high) != MEM_NONE)
        return find_room(m, bytes, is_high, owner, segment, err);
    uint64_t begin = ebb_clock_ns(), moved_ns = m->tally->move_ns;
    enum ebb_status status = find_room(m, bytes, is_high, owner, segment, err);
    m->tally->search_ns += ebb_clock_ns() - begin - (m->tally->move_ns - moved_ns);
    return status;
}

/* Bytes of its own, told. Persistent storages and empty ones have what they need. */
static enum ebb_status take_place(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    struct mem_slot *slot = &m->slots[s];
    uint64_t bytes = mem_bytes(m, s);
    if (bytes && m->r->storages[s].base == PLAN_NOWHERE)
        EBB_TRY(mem_take(m, bytes, is_short_lived(m, s), s, &slot->segment, err));
    return mem_tell(m, PLAN_PLACE, s, bytes ? mem_offset(m, 0, slot->segment) : 0, 0, err);
}

enum ebb_status mem_room_fetch(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    struct mem_slot *slot = &m->slots[s];
    uint8_t tier = mem_copy_tier(m, s);
    EBB_TRY(take_place(m, s, err));
    EBB_TRY(mem_tier_fetch(m, s, tier, mem_offset(m, 0, slot->segment), err));
    EBB_TRY(arrive(m, s, err));
    mem_victim_touch(m, s);
    return EBB_OK;
}

bool mem_is_fetched(struct mem_manager *m, uint32_t s)
{
    return !m->ahead || !mem_ahead_makes(m, s);
}

enum ebb_status mem_fetch(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    if (m->ahead)
        mem_ahead_late(m, s);
    return mem_room_fetch(m, s, err);
}

enum ebb_status mem_place(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    struct mem_slot *slot = &m->slots[s];
    EBB_TRY(take_place(m, s, err));
    slot->pins++; /* not to be taken by what the same op still needs */
    slot->version = 0;
    /* its in-place ops run again; until now others counted them in their neighbourhood */
    m->cost[s] = (int64_t)m->r->nodes[plan_version_of(m->r, s, 0)->maker].cost;
    return arrive(m, s, err);
}
