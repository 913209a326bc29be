/* ebb_room.c - room in tier 0: who leaves, who comes back, where the bytes are (rules ebb).
 *
 *   R1 bytes are taken from the slab before anything is written there, and the slab is exactly the
 *      budget.
 *   R2 persistent storages have their bytes from the beginning, at the bottom, and neither move nor
 *      leave.
 * Who may leave is the matter of ebb_victim.c, one hole out of scattered bytes that of
 * ebb_gather.c, copies in lower tiers that of ebb_tier.c. */
#include "exec/ebb.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/heap.h"

#define MAX_ROUNDS 64  /* of gathering per request, then victims by policy alone */
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

/* ---- leaving and coming ---------------------------------------------------------------------- */

enum ebb_status exec_room_release(struct ebb_run *run, uint32_t s, enum exec_event_kind kind,
                                  struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    EBB_TRY(exec_tier_await(run, s, err));
    EBB_TRY(exec_room_log(run, kind, s, 0, 0, err));
    if (run->p->bytes[s])
        mem_slab_give(&run->slab[0], slot->segment);
    slot->state = SLOT_ABSENT;
    run->is_resident[s] = 0;
    run->sum_bytes -= run->p->bytes[s];
    if (run->index)
        exec_victim_remove(run, s);
    return EBB_OK;
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
    exec_victim_rank_lowered(run);
    return EBB_OK;
}

static void count_victim(struct ebb_run *run, uint32_t s)
{
    run->r->evictions_pressure++;
    run->r->evict_hash = ebb_fnv1a_u32(run->r->evict_hash, run->p->trace->storages[s].root);
}

enum ebb_status exec_room_evict(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    uint8_t tier = 0;
    bool drops = exec_victim_drops(run, s, &tier);
    count_victim(run, s);
    if (!drops) {
        EBB_TRY(exec_tier_send(run, s, tier, exec_offset(run, 0, run->slots[s].segment), err));
        return exec_room_release(run, s, EXEC_EV_DROP, err);
    }
    EBB_TRY(exec_room_release(run, s, EXEC_EV_DROP, err));
    run->neigh.now_op = run->op;
    return mem_neigh_evicted(&run->neigh, s, true, err);
}

/* ---- second thoughts ------------------------------------------------------------------------- */

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
        (struct ebb_aside){s, slot->segment, exec_offset(run, 0, slot->segment)};
    mem_slab_give(&run->slab[0], slot->segment);
    slot->state = SLOT_ABSENT;
    run->is_resident[s] = 0;
    run->sum_bytes -= run->p->bytes[s];
    exec_victim_remove(run, s);
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
    exec_victim_rank_lowered(run);
    exec_victim_pool(run, s);
    return EBB_OK;
}

static enum ebb_status leave(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    count_victim(run, s);
    EBB_TRY(exec_tier_await(run, s, err));
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
    uint64_t low = exec_offset(run, 0, taken), high = low + run->slab[0].segments[taken].bytes;
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

bool exec_room_is_short_lived(const struct ebb_run *run, uint32_t s)
{
    const struct ebb_slot *slot = &run->slots[s];
    if (run->p->is_keep[s] || run->p->is_leaf[s])
        return false;
    return slot->uses_left == 0 || run->p->last_use[s] - run->op < SHORT_LIVED;
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
    if (run->slots[victim].waits > 0 || !exec_victim_drops(run, victim, &tier)) {
        EBB_TRY(settle_first(run, run->aside_count, err));
        return exec_room_evict(run, victim, err);
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
            EBB_TRY(exec_gather(run, bytes, &is_done, err));
            if (is_done)
                continue;
        }
        uint32_t victim = run->o->policy ? exec_victim_choose(run, bytes) : MEM_NONE;
        if (victim == MEM_NONE && run->o->policy)
            victim = exec_victim_waiting(run);
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
    EBB_TRY(exec_room_log(run, EXEC_EV_PLACE, s, exec_offset(run, 0, slot->segment), 0, err));
    EBB_TRY(exec_tier_fetch(run, s, tier, exec_offset(run, 0, slot->segment), err));
    EBB_TRY(exec_room_arrive(run, s, err));
    exec_victim_touch(run, s);
    return EBB_OK;
}
