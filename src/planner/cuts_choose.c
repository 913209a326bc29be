/* cuts_choose.c - where the split program looks at memory. */
#include <stdlib.h>

#include "base/arena.h"
#include "planner/cuts.h"

/* Items that can be made again, cheapest per byte first. */
static uint32_t sort_items(const struct planner_graph *g, struct planner_scored *list)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->item_count; i++) {
        const struct planner_item *item = &g->items[i];
        if (item->bytes > 0 && !item->is_fixed)
            list[n++] =
                (struct planner_scored){(double)g->nodes[item->node].cost / (double)item->bytes, i};
    }
    qsort(list, n, sizeof *list, planner_by_score);
    return n;
}

static bool is_read_after(const struct planner_graph *g, uint32_t i, uint32_t t)
{
    const struct planner_item *item = &g->items[i];
    return item->node <= t && (item->is_kept || planner_graph_last_use(g, item, 0) > t);
}

/* What must at least be run again because of the instant t alone: enough of what is read later, by
 * cost per byte, to make room. */
static double price_of(const struct planner_graph *g, uint64_t budget, uint32_t t, uint64_t live,
                       const struct planner_scored *list, uint32_t count)
{
    double price = 0;
    double excess = (double)live - (double)budget;
    for (uint32_t k = 0; k < count && excess > 0; k++) {
        if (!is_read_after(g, list[k].item, t) || g->items[list[k].item].node == t ||
            planner_graph_reads(g, &g->nodes[t], list[k].item))
            continue;
        double bytes = (double)g->items[list[k].item].bytes;
        price += (excess < bytes ? excess : bytes) * list[k].score;
        excess -= bytes;
    }
    return price;
}

/* Bytes at each first run when everything is kept as long as it is read. */
static void live_bytes(const struct planner_graph *g, uint64_t *live)
{
    uint64_t now = 0;
    for (uint32_t v = 0; v < g->node_count; v++) {
        const struct planner_node *node = &g->nodes[v];
        for (uint32_t o = 0; o < node->out_count; o++)
            now += g->items[node->out_first + o].bytes;
        live[v] = now + node->workspace_bytes;
        for (uint32_t k = 0; k < node->in_count + node->out_count; k++) {
            uint32_t i = planner_graph_port(g, node, k);
            if (!is_read_after(g, i, v))
                now -= g->items[i].bytes;
        }
    }
}

#define LOOKED_AT 400 /* nodes for which the price is computed */

/* How dear room is while v runs: what the instant alone costs; where everything fits, a trifle. */
static double score_of(const struct planner_graph *g, uint64_t budget, uint32_t v, uint64_t live,
                       const struct planner_scored *list, uint32_t count)
{
    double trifle = 1e-9 * (double)g->base_cost * (double)live / ((double)budget + 1);
    return trifle + (live > budget ? price_of(g, budget, v, live, list, count) : 0);
}

static void add_instant(uint32_t *at, uint32_t *count, uint32_t v)
{
    uint32_t k = *count;
    for (uint32_t e = 0; e < *count; e++)
        if (at[e] == v)
            return;
    for (; k > 0 && at[k - 1] > v; k--)
        at[k] = at[k - 1];
    at[k] = v;
    (*count)++;
}

struct place { /* an instant, and how good it is */
    uint32_t node;
    double score;
};

enum ebb_status planner_cuts_choose(const struct planner_graph *g, uint64_t budget, uint32_t slices,
                                    uint32_t *at, uint32_t *count, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    uint64_t *live = ebb_arena_calloc(&arena, (size_t)g->node_count + 1, sizeof *live);
    struct planner_scored *list = ebb_arena_calloc(&arena, g->item_count, sizeof *list);
    enum ebb_status status = ebb_arena_status(&arena, err);
    uint32_t first = 0;
    *count = 0;
    if (status != EBB_OK)
        goto out;
    live_bytes(g, live);
    while (first < g->node_count && live[first] <= budget)
        first++;
    uint32_t span = g->node_count - first, items = sort_items(g, list);
    uint32_t stride = 1 + span / LOOKED_AT;
    struct place top[2] = {{0}};
    for (uint32_t k = 0; k < slices && k < span; k++) {
        uint32_t parts = slices < span ? slices : span;
        uint32_t begin = first + (uint32_t)((uint64_t)span * k / parts);
        uint32_t end = first + (uint32_t)((uint64_t)span * (k + 1) / parts);
        struct place dearest = {begin, -1}, widest = {begin, -1};
        for (uint32_t v = begin; v < end; v++) {
            double width = (double)planner_graph_working_set(g, &g->nodes[v]);
            if (width > widest.score)
                widest = (struct place){v, width};
            if ((v - begin) % stride != 0 && v + 1 != g->forward_count)
                continue;
            double score = score_of(g, budget, v, live[v], list, items);
            if (score > dearest.score)
                dearest = (struct place){v, score};
        }
        if (slices > 1) {
            add_instant(at, count, dearest.node);
            add_instant(at, count, widest.node);
        }
        if (dearest.score > top[0].score)
            top[0] = dearest;
        if (widest.score > top[1].score)
            top[1] = widest;
    }
    for (int k = 0; k < 2 && span > 0; k++)
        add_instant(at, count, top[k].node);
out:
    ebb_arena_fini(&arena);
    return status;
}
