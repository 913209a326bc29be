/* tier.c - copies in lower tiers: sent, fetched, forgotten, in stream order. */
#include "mem/manager.h"

enum ebb_status mem_await(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    device_event ready = m->slots[s].ready;
    m->slots[s].ready = 0;
    if (ready && m->ahead)
        mem_ahead_awaited(m, s);
    return ready ? m->c.device->table->stream_wait(m->c.device, DEVICE_COMPUTE, ready, err)
                 : EBB_OK;
}

enum ebb_status mem_await_free(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    device_event gone = m->slots[s].gone;
    EBB_TRY(mem_await(m, s, err));
    m->slots[s].gone = 0;
    if (gone && m->ahead)
        mem_ahead_awaited(m, s);
    return gone ? m->c.device->table->stream_wait(m->c.device, DEVICE_COMPUTE, gone, err) : EBB_OK;
}

/* The copy there, if any. */
static enum ebb_status forget_in(struct mem_manager *m, uint32_t s, uint8_t tier,
                                 struct ebb_error *err)
{
    struct mem_slot *slot = &m->slots[s];
    if (!(slot->has_copy >> tier & 1))
        return EBB_OK;
    if (slot->ready) /* nobody writes over a copy that is still being read (D4) */
        EBB_TRY(m->c.device->table->stream_wait(
            m->c.device, device_copy_stream((enum device_tier)tier, true), slot->ready, err));
    slot->has_copy &= (uint8_t) ~(1u << tier);
    mem_slab_give(&m->slab[tier], slot->copy_segment[tier]);
    m->has_tier_room = true;
    return mem_tell(m, PLAN_FORGET, s, 0, tier, err);
}

enum ebb_status mem_forget(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    for (uint8_t k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        EBB_TRY(forget_in(m, s, k, err));
    return EBB_OK;
}

/* Copy to a lower tier; the compute stream may reuse the bytes only behind the copy (D4): whoever
 * gives them back waits (mem_await_free). Clean copies are not repeated. */
enum ebb_status mem_tier_send(struct mem_manager *m, uint32_t s, uint8_t tier, uint64_t from,
                              struct ebb_error *err)
{
    struct mem_slot *slot = &m->slots[s];
    const struct device_table *d = m->c.device->table;
    uint64_t bytes = mem_bytes(m, s);
    bool has_copy = slot->has_copy >> tier & 1;
    if (has_copy && slot->copy_version[tier] == slot->version)
        return EBB_OK;
    EBB_TRY(mem_await(m, s, err));
    if (!has_copy) { /* else a plan renews the copy where it is */
        uint32_t hole = mem_slab_find(&m->slab[tier], bytes, false);
        if (hole == MEM_NONE)
            return ebb_fail(err, EBB_EBUDGET, "tier %d has no room for storage %u (%llu bytes)",
                            tier, s, (unsigned long long)bytes);
        EBB_TRY(
            mem_slab_take(&m->slab[tier], hole, bytes, false, s, &slot->copy_segment[tier], err));
    }
    slot->has_copy |= (uint8_t)(1u << tier);
    slot->copy_version[tier] = slot->version;
    enum device_stream out = device_copy_stream((enum device_tier)tier, true);
    device_event made;
    EBB_TRY(d->record(m->c.device, DEVICE_COMPUTE, &made, err));
    EBB_TRY(d->stream_wait(m->c.device, out, made, err));
    EBB_TRY(d->copy(m->c.device, out, (enum device_tier)tier,
                    mem_offset(m, tier, slot->copy_segment[tier]), DEVICE_T0, from, bytes, err));
    EBB_TRY(d->record(m->c.device, out, &slot->gone, err));
    m->tally->swapped_bytes += bytes;
    if (m->ahead)
        mem_ahead_left(m, s, tier, true);
    return mem_tell(m, PLAN_SEND, s, mem_offset(m, tier, slot->copy_segment[tier]), tier, err);
}

enum ebb_status mem_tier_fetch(struct mem_manager *m, uint32_t s, uint8_t tier, uint64_t to,
                               struct ebb_error *err)
{
    struct mem_slot *slot = &m->slots[s];
    const struct device_table *d = m->c.device->table;
    enum device_stream in = device_copy_stream((enum device_tier)tier, false);
    device_event freed;
    EBB_TRY(d->record(m->c.device, DEVICE_COMPUTE, &freed, err));
    EBB_TRY(d->stream_wait(m->c.device, in, freed, err));
    EBB_TRY(d->copy(m->c.device, in, DEVICE_T0, to, (enum device_tier)tier,
                    mem_offset(m, tier, slot->copy_segment[tier]), mem_bytes(m, s), err));
    EBB_TRY(d->record(m->c.device, in, &slot->ready, err));
    m->tally->swapped_bytes += mem_bytes(m, s);
    if (m->ahead)
        mem_ahead_fetched(m, s, tier);
    return mem_tell(m, PLAN_FETCH, s, 0, tier, err);
}
