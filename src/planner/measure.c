/* measure.c - sizes and costs of a graph as a solver likes them, and small questions about nodes. */
#include "planner/graph.h"

#include "base/sorted.h"

uint64_t planner_gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

double planner_mem_scale(const struct planner_graph *g, uint64_t *unit)
{
    uint64_t largest = 1;
    for (uint32_t i = 0; i < g->item_count; i++) {
        *unit = planner_gcd(*unit, g->items[i].bytes);
        if (g->items[i].bytes > largest)
            largest = g->items[i].bytes;
    }
    if (*unit == 0)
        *unit = 1;
    double scale = 1.0 / (double)*unit;
    while ((double)largest * scale > 1e7)
        scale /= 2;
    return scale;
}

double planner_cost_scale(const struct planner_graph *g)
{
    return g->base_cost ? 1e4 / (double)g->base_cost : 1;
}

uint64_t planner_cost_unit(const struct planner_graph *g)
{
    uint64_t unit = 0;
    for (uint32_t v = 0; v < g->node_count; v++)
        unit = planner_gcd(unit, g->nodes[v].cost);
    return unit;
}

bool planner_graph_reads(const struct planner_graph *g, const struct planner_node *node,
                         uint32_t item)
{
    const uint32_t *ins = &g->ins[node->in_first];
    size_t at = ebb_first_u32(ins, node->in_count, item);
    return at < node->in_count && ins[at] == item;
}

uint64_t planner_graph_working_set(const struct planner_graph *g, const struct planner_node *node)
{
    uint64_t bytes = node->workspace_bytes;
    for (uint32_t k = 0; k < node->in_count; k++)
        bytes += g->items[g->ins[node->in_first + k]].bytes;
    for (uint32_t o = 0; o < node->out_count; o++)
        bytes += g->items[node->out_first + o].bytes;
    return bytes;
}

bool planner_graph_can_leave(const struct planner_graph *g, const struct planner_item *item)
{
    const struct plan_storage *s = &g->recipes->storages[item->storage];
    return s->base == PLAN_NOWHERE && s->version_count == 1;
}

uint32_t planner_graph_last_use(const struct planner_graph *g, const struct planner_item *item,
                                uint32_t otherwise)
{
    return item->use_count ? g->uses[item->use_first + item->use_count - 1] : otherwise;
}

uint32_t planner_graph_last_use_before(const struct planner_graph *g,
                                       const struct planner_item *item, uint32_t end)
{
    uint32_t last = item->node;
    for (uint32_t u = 0; u < item->use_count && g->uses[item->use_first + u] < end; u++)
        last = g->uses[item->use_first + u];
    return last;
}

uint32_t planner_graph_port(const struct planner_graph *g, const struct planner_node *node,
                            uint32_t k)
{
    return k < node->in_count ? g->ins[node->in_first + k] : node->out_first + k - node->in_count;
}

int planner_by_score(const void *a, const void *b)
{
    const struct planner_scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}
