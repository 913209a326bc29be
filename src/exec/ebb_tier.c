/* ebb_tier.c - copies in lower tiers: sent, fetched, forgotten, in stream order (rules ebb). */
#include "exec/ebb.h"

double exec_link_ns(const struct device_link *link, uint64_t bytes)
{
    return (double)link->latency_ns +
           (link->bytes_per_ns > 0 ? (double)bytes / link->bytes_per_ns : 0.0);
}

uint64_t exec_offset(const struct ebb_run *run, int tier, uint32_t segment)
{
    return run->slab[tier].segments[segment].offset;
}

enum ebb_status exec_tier_await(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    device_event ready = run->slots[s].ready;
    run->slots[s].ready = 0;
    return ready ? run->device->table->stream_wait(run->device, DEVICE_COMPUTE, ready, err)
                 : EBB_OK;
}

/* The copy there, if any. */
static enum ebb_status forget_in(struct ebb_run *run, uint32_t s, uint8_t tier,
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

enum ebb_status exec_tier_forget(struct ebb_run *run, uint32_t s, struct ebb_error *err)
{
    for (uint8_t k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        EBB_TRY(forget_in(run, s, k, err));
    return EBB_OK;
}

uint64_t exec_move_ns(const struct exec_options *o, uint64_t bytes)
{
    return (uint64_t)exec_link_ns(&o->links.in[DEVICE_T0], bytes);
}

/* Copy to a lower tier; the compute stream may reuse the bytes only behind the copy (D4). Clean
 * copies are not repeated. */
enum ebb_status exec_tier_send(struct ebb_run *run, uint32_t s, uint8_t tier, uint64_t from,
                               struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    const struct device_table *d = run->device->table;
    uint64_t bytes = run->p->bytes[s];
    bool has_copy = slot->has_copy >> tier & 1;
    if (has_copy && slot->copy_version[tier] == slot->version)
        return EBB_OK;
    EBB_TRY(exec_tier_await(run, s, err));
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
                    exec_offset(run, tier, slot->copy_segment[tier]), DEVICE_T0, from, bytes, err));
    EBB_TRY(d->record(run->device, DEVICE_OUT, &gone, err));
    EBB_TRY(d->stream_wait(run->device, DEVICE_COMPUTE, gone, err));
    run->r->swapped_bytes += bytes;
    return exec_room_log(run, EXEC_EV_SEND, s, exec_offset(run, tier, slot->copy_segment[tier]),
                         tier, err);
}

enum ebb_status exec_tier_fetch(struct ebb_run *run, uint32_t s, uint8_t tier, uint64_t to,
                                struct ebb_error *err)
{
    struct ebb_slot *slot = &run->slots[s];
    const struct device_table *d = run->device->table;
    device_event freed;
    EBB_TRY(d->record(run->device, DEVICE_COMPUTE, &freed, err));
    EBB_TRY(d->stream_wait(run->device, DEVICE_IN, freed, err));
    EBB_TRY(d->copy(run->device, DEVICE_IN, DEVICE_T0, to, (enum device_tier)tier,
                    exec_offset(run, tier, slot->copy_segment[tier]), run->p->bytes[s], err));
    EBB_TRY(d->record(run->device, DEVICE_IN, &slot->ready, err));
    run->r->swapped_bytes += run->p->bytes[s];
    return exec_room_log(run, EXEC_EV_FETCH, s, 0, tier, err);
}
