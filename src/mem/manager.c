/* manager.c - the manager's state, what it tells, pins and waits. */
#include "mem/manager.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"

/* ---- setting up ------------------------------------------------------------------------------ */

/* R2: persistent storages have their bytes before anybody else asks. */
static enum ebb_status take_base(struct mem_manager *m, struct ebb_error *err)
{
    struct mem_slab *slab = &m->slab[0];
    for (uint32_t s = 0; s < m->r->storage_count; s++) {
        uint64_t bytes = mem_bytes(m, s);
        if (m->r->storages[s].base == PLAN_NOWHERE || bytes == 0)
            continue;
        uint32_t hole = mem_slab_find(slab, bytes, false);
        if (hole == MEM_NONE) {
            snprintf(m->tally->why, sizeof m->tally->why,
                     "weights and other persistent storages do not fit: %llu of %llu bytes free, "
                     "storage %u needs %llu",
                     (unsigned long long)slab->free_bytes, (unsigned long long)slab->bytes, s,
                     (unsigned long long)bytes);
            return EBB_EBUDGET;
        }
        EBB_TRY(mem_slab_take(slab, hole, bytes, false, s, &m->slots[s].segment, err));
    }
    return EBB_OK;
}

static enum ebb_status allocate(struct mem_manager *m, struct ebb_error *err)
{
    size_t n = (size_t)m->r->storage_count + 1;
    m->slots = ebb_arena_calloc(&m->arena, n, sizeof *m->slots);
    m->is_resident = ebb_arena_calloc(&m->arena, n, 1);
    m->cost = ebb_arena_calloc(&m->arena, n, sizeof *m->cost);
    m->last = ebb_arena_calloc(&m->arena, n, sizeof *m->last);
    m->price = ebb_arena_calloc(&m->arena, n, sizeof *m->price);
    m->swap = ebb_arena_calloc(&m->arena, n, sizeof *m->swap);
    m->mark = ebb_arena_calloc(&m->arena, n, sizeof *m->mark);
    m->walk = ebb_arena_calloc(&m->arena, n, sizeof *m->walk);
    return ebb_arena_status(&m->arena, err);
}

/* What only a policy needs: the pool, the index, neighbourhoods. */
static enum ebb_status init_pool(struct mem_manager *m, struct ebb_error *err)
{
    size_t n = (size_t)m->r->storage_count + 1;
    m->pool = ebb_arena_calloc(&m->arena, n, sizeof *m->pool);
    m->pool_at = ebb_arena_calloc(&m->arena, n, sizeof *m->pool_at);
    m->is_candidate = ebb_arena_calloc(&m->arena, n, 1);
    m->fresh = m->last;
    if (m->c.policy->numerator == MEM_UNION)
        m->fresh = ebb_arena_calloc(&m->arena, n, sizeof *m->fresh);
    EBB_TRY(ebb_arena_status(&m->arena, err));
    memset(m->pool_at, 0xff, n * sizeof *m->pool_at);
    for (uint32_t s = 0; s < m->r->storage_count; s++)
        m->is_candidate[s] = mem_bytes(m, s) > 0;
    EBB_TRY(mem_neigh_init(&m->neigh, m->c.graph, m->c.policy->numerator, err));
    m->neigh.is_resident = m->is_resident;
    m->neigh.is_candidate = m->is_candidate;
    m->neigh.cost = m->cost;
    m->neigh.last = m->c.policy->numerator == MEM_UNION ? m->last : NULL;
    ebb_mt_seed(&m->rng, (uint32_t)m->c.seed);
    if (m->c.policy->sight == MEM_HIDDEN)
        EBB_TRY(mem_ahead_create(m, err));
    return mem_index_create(&m->index, m->r->storage_count, m->c.policy->by_stale, err);
}

enum ebb_status mem_manager_init(struct mem_manager *m, const struct mem_config *config,
                                 struct mem_tally *tally, struct ebb_error *err)
{
    *m = (struct mem_manager){.c = *config, .r = config->recipes, .tally = tally};
    uint64_t total = 0;
    EBB_TRY(allocate(m, err));
    for (uint32_t s = 0; s < m->r->storage_count; s++) {
        m->slots[s].uses_left = m->r->storages[s].use_count;
        m->cost[s] = (int64_t)m->r->nodes[plan_version_of(m->r, s, 0)->maker].cost;
        total += mem_bytes(m, s);
    }
    m->average_bytes = m->r->storage_count ? total / m->r->storage_count : 0;
    for (int k = 0; k < DEVICE_TIERS; k++) {
        uint64_t most = k ? UINT64_MAX : TRACE_MAX_BYTES;
        EBB_TRY(mem_slab_init(&m->slab[k], config->bytes[k] < most ? config->bytes[k] : most, err));
    }
    EBB_TRY(take_base(m, err));
    return config->policy ? init_pool(m, err) : EBB_OK;
}

void mem_manager_fini(struct mem_manager *m)
{
    for (int k = 0; k < DEVICE_TIERS; k++)
        mem_slab_fini(&m->slab[k]);
    mem_ahead_destroy(m->ahead);
    mem_index_destroy(m->index);
    mem_neigh_fini(&m->neigh);
    ebb_arena_fini(&m->arena);
    ebb_free(m->waiting);
    ebb_free(m->asides);
}

/* ---- telling --------------------------------------------------------------------------------- */

static enum ebb_status tell(const struct mem_manager *m, struct mem_note note,
                            struct ebb_error *err)
{
    if (!m->c.listener.tell)
        return EBB_OK;
    note.clock_ns = m->tally->clock_ns;
    return m->c.listener.tell(m->c.listener.context, &note, err);
}

enum ebb_status mem_tell(const struct mem_manager *m, enum plan_act act, uint32_t storage,
                         uint64_t offset, uint8_t tier, struct ebb_error *err)
{
    struct mem_note note = {.act = (uint8_t)act, .tier = tier, .index = storage, .offset = offset};
    return tell(m, note, err);
}

enum ebb_status mem_tell_drop(const struct mem_manager *m, uint32_t storage, bool is_victim,
                              struct ebb_error *err)
{
    return tell(m, (struct mem_note){.act = PLAN_DROP, .is_again = is_victim, .index = storage},
                err);
}

/* ---- pins and waits -------------------------------------------------------------------------- */

void mem_pin(struct mem_manager *m, uint32_t s)
{
    m->slots[s].pins++;
    mem_victim_pool(m, s);
}

void mem_unpin(struct mem_manager *m, uint32_t s)
{
    m->slots[s].pins--;
    mem_victim_pool(m, s);
}

void mem_hold(struct mem_manager *m, uint32_t s)
{
    m->slots[s].is_held = 1;
    mem_victim_pool(m, s);
}

enum ebb_status mem_wait(struct mem_manager *m, uint32_t op, struct ebb_error *err)
{
    const struct plan_node *node = &m->r->nodes[op];
    EBB_TRY(
        ebb_grow(&m->waiting, &m->waiting_capacity, m->waiting_count + 1, sizeof *m->waiting, err));
    m->waiting[m->waiting_count++] = op;
    for (uint32_t i = 0; i < node->in_count; i++) {
        uint32_t s = m->r->ins[node->in_first + i].storage;
        m->slots[s].waits++;
        m->last[s] = (double)m->tally->clock_ns;
        mem_victim_pool(m, s);
    }
    return EBB_OK;
}

void mem_wait_over(struct mem_manager *m, bool is_used)
{
    const struct plan_node *node = &m->r->nodes[m->waiting[--m->waiting_count]];
    for (uint32_t i = 0; i < node->in_count; i++) {
        uint32_t s = m->r->ins[node->in_first + i].storage;
        m->slots[s].waits--;
        if (is_used)
            m->slots[s].uses_left--;
        mem_victim_pool(m, s);
    }
}
