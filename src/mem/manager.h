/* manager.h - private to mem: what the parts of the manager ask of each other. */
#ifndef EBB_MEM_MANAGER_H
#define EBB_MEM_MANAGER_H

#include "mem/mem.h"

static inline uint64_t mem_bytes(const struct mem_manager *m, uint32_t storage)
{
    return m->r->storages[storage].bytes;
}

static inline uint64_t mem_offset(const struct mem_manager *m, int tier, uint32_t segment)
{
    return m->slab[tier].segments[segment].offset;
}

/* manager.c: the listener is told */
enum ebb_status mem_tell(const struct mem_manager *m, enum plan_act act, uint32_t storage,
                         uint64_t offset, uint8_t tier, struct ebb_error *err);
enum ebb_status mem_tell_drop(const struct mem_manager *m, uint32_t storage, bool is_victim,
                              struct ebb_error *err);

/* victim.c: who may leave, and who is chosen to */
bool mem_victim_can_drop(const struct mem_manager *m, uint32_t storage);
/* Cheapest lower tier with room (or with a clean copy): cost of going out and coming back;
 * INFINITY: none. */
double mem_victim_swap_ns(const struct mem_manager *m, uint32_t storage, uint8_t *tier);
bool mem_victim_has_way(const struct mem_manager *m, uint32_t storage);
/* How it leaves: by being dropped, or by a copy to *tier. */
bool mem_victim_drops(struct mem_manager *m, uint32_t storage, uint8_t *tier);
void mem_victim_pool(struct mem_manager *m, uint32_t storage); /* in or out, as its state demands */
void mem_victim_remove(struct mem_manager *m, uint32_t storage);
void mem_victim_touch(struct mem_manager *m, uint32_t storage);
void mem_victim_rank(struct mem_manager *m, uint32_t storage); /* its place in the index, again */
void mem_victim_rank_lowered(struct mem_manager *m); /* those whose neighbourhood got cheaper */
bool mem_victim_settle(struct mem_manager *m, uint32_t storage);
uint32_t mem_victim_next(struct mem_manager *m); /* the policy's choice as it stands */
/* The policy's choice, or one nearly as good that makes a hole of `bytes`. */
uint32_t mem_victim_choose(struct mem_manager *m, uint64_t bytes);
uint32_t mem_victim_waiting(struct mem_manager *m);

/* Time until an op reads it, as if nothing more had to be made again; INFINITY: none does. */
double mem_victim_time_to_use(const struct mem_manager *m, uint32_t storage);
/* Cost of making it again; INFINITY: it may not be dropped. */
double mem_victim_make_ns(struct mem_manager *m, uint32_t storage);

/* ahead.c: what of its copies to the best tier no op hides; INFINITY: there is no tier */
enum ebb_status mem_ahead_create(struct mem_manager *m, struct ebb_error *err);
void mem_ahead_destroy(struct mem_ahead *ahead);
double mem_ahead_ns(const struct mem_manager *m, uint32_t storage, uint8_t *tier);
/* It went to the tier (sent: by a copy that was begun now); its way back is booked. */
void mem_ahead_left(struct mem_manager *m, uint32_t storage, uint8_t tier, bool is_sent);
void mem_ahead_fetched(struct mem_manager *m, uint32_t storage, uint8_t tier);
void mem_ahead_late(struct mem_manager *m, uint32_t storage); /* its reader waits for its copy */
/* How long its copies, out or in, are still under way, as far as decisions know. */
double mem_ahead_still_ns(const struct mem_manager *m, uint32_t storage);
/* It is away with a copy, and made again sooner than that would be here. */
bool mem_ahead_makes(struct mem_manager *m, uint32_t storage);
void mem_ahead_awaited(struct mem_manager *m, uint32_t storage); /* compute waits for them */

/* gather.c: *is_done when something was done that brings a hole of `bytes` nearer */
enum ebb_status mem_gather(struct mem_manager *m, uint64_t bytes, bool *is_done,
                           struct ebb_error *err);

/* From where its copy comes back: the host is the faster one. */
static inline uint8_t mem_copy_tier(const struct mem_manager *m, uint32_t storage)
{
    return m->slots[storage].has_copy >> DEVICE_HOST & 1 ? DEVICE_HOST : DEVICE_FILE;
}

/* room.c */
enum ebb_status mem_room_release(struct mem_manager *m, uint32_t storage, bool is_victim,
                                 struct ebb_error *err); /* it leaves tier 0 */
enum ebb_status mem_room_fetch(struct mem_manager *m, uint32_t storage, struct ebb_error *err);
enum ebb_status mem_room_evict(struct mem_manager *m, uint32_t storage, struct ebb_error *err);

/* tier.c: copies, by offsets; streams are ordered behind each other as rule D4 demands */
enum ebb_status mem_tier_send(struct mem_manager *m, uint32_t storage, uint8_t tier, uint64_t from,
                              struct ebb_error *err);
enum ebb_status mem_tier_fetch(struct mem_manager *m, uint32_t storage, uint8_t tier, uint64_t to,
                               struct ebb_error *err);

#endif
