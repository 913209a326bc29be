/* floor_last.c - a second thing no plan can be without: room to make the last input.
 *
 * When a node runs, everything it reads lies there, and one of these was made last, in its first
 * run or again. While that one's maker ran, all the others lay there already, and so did what the
 * maker reads, makes and works in. Which one was last is the plan's choice: the least over them
 * counts. This is what a chain needs beyond its largest working set: the gradient towards a weight
 * reads an activation and a gradient, and either is made from a neighbour of the same size.
 *
 * Something made only once (a leaf, an op that must not run again) was not last when another input
 * is made after it in the trace. */
#include "planner/floor.h"

#include "base/heap.h"

#define MOST_INPUTS 16 /* of a node that is looked at: the work is quadratic */

struct last {
    const struct plan_recipes *g;
    uint32_t *seen; /* storage -> number of the set it was counted in */
    uint32_t set;
    uint32_t *leaves; /* storages of leaves that stand before all other nodes and do not persist */
    uint32_t leaf_count;
    uint32_t first; /* node that is no leaf */
};

static uint64_t count(struct last *l, uint32_t storage)
{
    const struct plan_storage *st = &l->g->storages[storage];
    if (l->seen[storage] == l->set || st->base != PLAN_NOWHERE)
        return 0;
    l->seen[storage] = l->set;
    return st->bytes;
}

static uint32_t maker_of(const struct plan_recipes *g, struct plan_ref ref)
{
    return plan_version_of(g, ref.storage, ref.version)->maker;
}

/* Was it there in every plan before some other input of t? */
static bool is_early(const struct plan_recipes *g, const struct plan_node *t, struct plan_ref ref)
{
    uint32_t maker = maker_of(g, ref);
    if (g->nodes[maker].is_replayable)
        return false;
    for (uint32_t i = 0; i < t->in_count; i++)
        if (maker_of(g, g->ins[t->in_first + i]) > maker)
            return true;
    return false;
}

/* Bytes while the maker of `ref` runs, if that input of t is made last. */
static uint64_t bytes_if_last(struct last *l, uint32_t t, struct plan_ref ref)
{
    const struct plan_recipes *g = l->g;
    const struct plan_node *node = &g->nodes[t], *maker = &g->nodes[maker_of(g, ref)];
    uint64_t bytes = maker->workspace_bytes + g->base_bytes;
    l->set++;
    for (uint32_t i = 0; i < node->in_count; i++)
        bytes += count(l, g->ins[node->in_first + i].storage);
    for (uint32_t i = 0; i < maker->in_count; i++)
        bytes += count(l, g->ins[maker->in_first + i].storage);
    for (uint32_t k = 0; k < maker->out_count && !maker->can_skip; k++)
        bytes += count(l, g->outs[maker->out_first + k].storage);
    for (uint32_t i = 0; i < l->leaf_count && maker_of(g, ref) >= l->first; i++)
        if (plan_version_of(g, l->leaves[i], 0)->last_use >= t)
            bytes += count(l, l->leaves[i]); /* it has no recipe: it was there, too */
    return bytes;
}

static void list_leaves(struct last *l)
{
    const struct plan_recipes *g = l->g;
    while (l->first < g->node_count && g->nodes[l->first].is_leaf)
        l->first++;
    for (uint32_t n = 0; n < l->first; n++)
        for (uint32_t k = 0; k < g->nodes[n].out_count; k++) {
            uint32_t storage = g->outs[g->nodes[n].out_first + k].storage;
            if (g->storages[storage].base == PLAN_NOWHERE)
                l->leaves[l->leaf_count++] = storage;
        }
}

enum ebb_status planner_floor_last(const struct plan_recipes *g, uint64_t *bytes,
                                   struct ebb_error *err)
{
    size_t storages = (size_t)g->storage_count + 1;
    struct last l = {.g = g};
    uint32_t *block;
    *bytes = 0;
    EBB_TRY(ebb_new(&block, 2 * storages, sizeof *block, err));
    l.seen = block;
    l.leaves = block + storages;
    list_leaves(&l);
    for (uint32_t t = 0; t < g->node_count; t++) {
        const struct plan_node *node = &g->nodes[t];
        uint64_t least = UINT64_MAX;
        for (uint32_t i = 0; i < node->in_count && node->in_count <= MOST_INPUTS; i++) {
            struct plan_ref ref = g->ins[node->in_first + i];
            if (is_early(g, node, ref))
                continue;
            uint64_t all = bytes_if_last(&l, t, ref);
            least = all < least ? all : least;
        }
        if (least != UINT64_MAX && least > *bytes)
            *bytes = least;
    }
    ebb_free(block);
    return EBB_OK;
}
