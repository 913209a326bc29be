/* dead.c - what has been made or written, and what is of no use any more (rule E4). */
#include "mem/manager.h"

#define MOST_LOOKED 256 /* storages, then it counts as a stepping stone */

enum ebb_status mem_made(struct mem_manager *m, const struct plan_node *op, bool is_remat,
                         struct ebb_error *err)
{
    for (uint32_t k = 0; k < op->out_count; k++) {
        struct plan_ref out = m->r->outs[op->out_first + k];
        if (out.version > 0) { /* copies of the version before are stale */
            EBB_TRY(mem_forget(m, out.storage, err));
            m->slots[out.storage].version = out.version;
            m->cost[out.storage] += (int64_t)op->cost;
        }
        if (!is_remat || out.version > 0)
            m->last[out.storage] = (double)m->tally->clock_ns;
    }
    return EBB_OK;
}

/* Is a storage without uses of its own on the way back to something that was evicted and will be
 * used? */
static bool is_stepping_stone(struct mem_manager *m, uint32_t s)
{
    const struct mem_graph *g = m->c.graph;
    size_t depth = 0;
    uint32_t visit = ++m->visit, looked = 0;
    m->walk[depth++] = s;
    m->mark[s] = visit;
    while (depth > 0) {
        uint32_t at = m->walk[--depth];
        for (uint32_t e = g->child_first[at]; e < g->child_first[at + 1]; e++) {
            uint32_t other = g->children[e].storage;
            if (g->children[e].birth > m->op)
                break;
            if (m->slots[other].state == MEM_RESIDENT || m->mark[other] == visit)
                continue;
            if (m->slots[other].uses_left || ++looked > MOST_LOOKED)
                return true;
            m->mark[other] = visit;
            m->walk[depth++] = other;
        }
    }
    return false;
}

/* Dead, but so small that keeping it in the pool costs nothing, and something made from it may
 * still have to be rebuilt. Long chains of such storages (optimizer arithmetic on biases) otherwise
 * turn one eviction into thousands of recomputations. */
static bool is_small_change(const struct mem_manager *m, uint32_t s)
{
    return m->r->need_until[s] > m->op && mem_bytes(m, s) < m->average_bytes / 100;
}

/* Anchors wait for the last op that may need them. */
enum ebb_status mem_free_if_dead(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    struct mem_slot *slot = &m->slots[s];
    if (slot->uses_left || slot->waits || slot->pins || m->r->storages[s].is_kept ||
        m->c.ignores_dead)
        return EBB_OK;
    bool is_anchor = plan_version_of(m->r, s, slot->version)->expire == 0;
    if (is_anchor && m->r->need_until[s] >= m->done) /* the op in service may need it again */
        return EBB_OK;
    if (slot->state == MEM_RESIDENT && !is_anchor && m->index &&
        (is_small_change(m, s) || is_stepping_stone(m, s)))
        return EBB_OK;
    EBB_TRY(mem_forget(m, s, err));
    if (slot->state != MEM_RESIDENT)
        return EBB_OK;
    m->tally->evictions_release++;
    EBB_TRY(mem_room_release(m, s, false, err));
    if (!m->index || is_anchor)
        return EBB_OK;
    m->neigh.now_op = m->op;
    return mem_neigh_evicted(&m->neigh, s, false, err);
}
