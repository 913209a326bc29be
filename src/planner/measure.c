/* measure.c - sizes and costs of a graph as a solver likes them, and small questions about nodes. */
#include "planner/graph.h"

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
    uint32_t low = node->in_first, high = low + node->in_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (g->ins[middle] < item)
            low = middle + 1;
        else
            high = middle;
    }
    return low < node->in_first + node->in_count && g->ins[low] == item;
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

uint32_t planner_graph_last_use(const struct planner_graph *g, const struct planner_item *item,
                                uint32_t otherwise)
{
    return item->use_count ? g->uses[item->use_first + item->use_count - 1] : otherwise;
}
