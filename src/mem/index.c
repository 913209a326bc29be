/* index.c - see mem.h. Merits are lines in time, so between two entries the lead changes at most
 * once.
 *
 * Level 0 are the entries; a node of level k stands for 64 nodes of level k - 1. A node keeps its
 * winner and `until`: while now <= until, and nothing below changed, the winner is right. Changes
 * mark a bit per level (early out when it is already set), and a query repairs only marked or
 * expired nodes: O(64 log64 n) for a change, amortised.
 *
 *   IX1 an unmarked node with until >= now holds the winner of its subtree at now.
 *   IX2 a certificate is never late: `until` is rounded towards now by more than the rounding error
 * of merits. */
#include "mem/mem.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/heap.h"

#define FAN 64u
#define LEVELS 6

struct mem_index {
    bool by_stale;
    uint32_t capacity;
    struct ebb_arena arena;   /* owns the arrays */
    int levels;               /* levels above the entries */
    double *weight, *last;    /* entries; weight 0 = absent */
    uint32_t *winner[LEVELS]; /* [k]: nodes of level k + 1 */
    double *until[LEVELS];
    uint64_t *marks[LEVELS]; /* bit per node of level k + 1 */
    uint32_t size[LEVELS];   /* nodes per level */
};

static double merit(const struct mem_index *x, uint32_t id, double now)
{
    return x->by_stale ? x->weight[id] * (now - x->last[id]) : x->weight[id];
}

static bool beats(const struct mem_index *x, uint32_t a, double ma, uint32_t b, double mb)
{
    if (ma != mb)
        return ma > mb;
    if (x->last[a] != x->last[b])
        return x->last[a] < x->last[b];
    return a < b;
}

enum ebb_status mem_index_create(struct mem_index **index, uint32_t capacity, bool by_stale,
                                 struct ebb_error *err)
{
    struct mem_index *x;
    EBB_TRY(ebb_new(&x, 1, sizeof *x, err));
    x->by_stale = by_stale;
    x->capacity = capacity ? capacity : 1;
    x->weight = ebb_arena_calloc(&x->arena, x->capacity, sizeof *x->weight);
    x->last = ebb_arena_calloc(&x->arena, x->capacity, sizeof *x->last);
    uint32_t nodes = x->capacity;
    do {
        nodes = (nodes + FAN - 1) / FAN;
        int k = x->levels++;
        x->size[k] = nodes;
        x->winner[k] = ebb_arena_calloc(&x->arena, nodes, sizeof *x->winner[k]);
        x->until[k] = ebb_arena_calloc(&x->arena, nodes, sizeof *x->until[k]);
        x->marks[k] = ebb_arena_calloc(&x->arena, (nodes + 63) / 64, sizeof *x->marks[k]);
    } while (nodes > 1);
    enum ebb_status status = ebb_arena_status(&x->arena, err);
    if (status == EBB_OK)
        mem_index_clear(x);
    return EBB_HAND_OUT(status, index, x, mem_index_destroy);
}

void mem_index_destroy(struct mem_index *x)
{
    if (!x)
        return;
    ebb_arena_fini(&x->arena);
    ebb_free(x);
}

void mem_index_clear(struct mem_index *x)
{
    memset(x->weight, 0, x->capacity * sizeof *x->weight);
    for (int k = 0; k < x->levels; k++) {
        for (uint32_t i = 0; i < x->size[k]; i++) {
            x->winner[k][i] = MEM_NONE;
            x->until[k][i] = INFINITY;
        }
        memset(x->marks[k], 0, (x->size[k] + 63) / 64 * sizeof *x->marks[k]);
    }
}

static void mark(struct mem_index *x, uint32_t id)
{
    uint32_t node = id;
    for (int k = 0; k < x->levels; k++) {
        node /= FAN;
        uint64_t bit = UINT64_C(1) << (node % 64);
        if (x->marks[k][node / 64] & bit)
            return;
        x->marks[k][node / 64] |= bit;
    }
}

void mem_index_set(struct mem_index *x, uint32_t id, double weight, double last)
{
    x->weight[id] = weight;
    x->last[id] = last;
    mark(x, id);
}

void mem_index_remove(struct mem_index *x, uint32_t id)
{
    if (x->weight[id] == 0)
        return;
    x->weight[id] = 0;
    mark(x, id);
}

/* Last moment at which `lead` (merit ml now) surely still beats `other` (merit mo). */
static double safe_until(const struct mem_index *x, uint32_t lead, double ml, uint32_t other,
                         double mo, double now)
{
    double gain = x->weight[other] - x->weight[lead];
    if (!x->by_stale || gain <= 0)
        return INFINITY;
    double ahead = ml - mo - 8 * DBL_EPSILON * ml;
    return ahead <= 0 ? now : now + ahead / gain * (1 - 0x1p-30);
}

static void repair(struct mem_index *x, int level, uint32_t node, double now);

/* The members among the leaves of `node`. */
static uint32_t members(const struct mem_index *x, uint32_t node, uint32_t *ids)
{
    uint32_t first = node * FAN, count = 0;
    uint32_t end = first + FAN < x->capacity ? first + FAN : x->capacity;
    for (uint32_t id = first; id < end; id++) {
        ids[count] = id;
        count += x->weight[id] != 0;
    }
    return count;
}

/* The winners of the nodes below `node`, each made right first; `*until` is the least of theirs. */
static uint32_t winners(struct mem_index *x, int level, uint32_t node, double now, uint32_t *ids,
                        double *until)
{
    uint32_t first = node * FAN, count = 0;
    uint32_t end = first + FAN < x->size[level] ? first + FAN : x->size[level];
    uint64_t marks = x->marks[level][first / 64]; /* FAN == 64: one word */
    for (uint32_t child = first; child < end; child++) {
        if (marks >> (child % 64) & 1 || x->until[level][child] < now)
            repair(x, level, child, now);
        if (x->until[level][child] < *until)
            *until = x->until[level][child];
        uint32_t id = x->winner[level][child];
        if (id != MEM_NONE && x->weight[id] != 0)
            ids[count++] = id;
    }
    return count;
}

static void repair(struct mem_index *x, int level, uint32_t node, double now)
{
    uint32_t ids[FAN];
    double merits[FAN];
    double until = INFINITY;
    uint32_t count = level ? winners(x, level - 1, node, now, ids, &until) : members(x, node, ids);
    uint32_t best = 0;
    for (uint32_t i = 0; i < count; i++) {
        merits[i] = merit(x, ids[i], now);
        if (i && beats(x, ids[i], merits[i], ids[best], merits[best]))
            best = i;
    }
    if (x->by_stale) {
        for (uint32_t i = 0; i < count; i++) {
            double safe = i == best
                              ? INFINITY
                              : safe_until(x, ids[best], merits[best], ids[i], merits[i], now);
            until = safe < until ? safe : until;
        }
    }
    x->winner[level][node] = count ? ids[best] : MEM_NONE;
    x->until[level][node] = until;
    x->marks[level][node / 64] &= ~(UINT64_C(1) << (node % 64));
}

uint32_t mem_index_top(struct mem_index *x, double now)
{
    int top = x->levels - 1;
    if ((x->marks[top][0] & 1) || x->until[top][0] < now)
        repair(x, top, 0, now);
    return x->winner[top][0];
}

uint32_t mem_index_scan(const struct mem_index *x, double now)
{
    uint32_t best = MEM_NONE;
    double top = 0;
    for (uint32_t id = 0; id < x->capacity; id++) {
        if (x->weight[id] == 0)
            continue;
        double m = merit(x, id, now);
        if (best == MEM_NONE || beats(x, id, m, best, top)) {
            best = id;
            top = m;
        }
    }
    return best;
}
