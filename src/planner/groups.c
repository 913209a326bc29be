/* groups.c - which nodes share a stage of the model, and which may run again. */
#include "planner/model.h"

/* Nodes of the one forward group: the forward pass, and the loss of a mirrored graph. */
static uint32_t forward_end(const struct planner_graph *g)
{
    uint32_t end = g->forward_count + (g->is_mirrored ? 1 : 0);
    return end < g->node_count ? end : g->node_count;
}

static bool has_late_reader(const struct planner_graph *g, uint32_t v)
{
    for (uint32_t o = 0; o < g->nodes[v].out_count; o++)
        if (planner_graph_last_use(g, &g->items[g->nodes[v].out_first + o], 0) > v + 1)
            return true;
    return false;
}

static void allow_reruns(struct planner_groups *groups, const struct planner_graph *g,
                         enum planner_level level)
{
    uint32_t n = forward_end(g);
    for (uint32_t v = 0; v < g->node_count; v++)
        groups->can_rerun[v] =
            !g->nodes[v].is_fixed && (v < g->forward_count || level >= PLANNER_LEVEL_BACK);
    if (level != PLANNER_LEVEL_PLUS)
        return;
    for (uint32_t v = n; v < g->node_count; v++) {
        if (g->nodes[v].is_fixed || !has_late_reader(g, v))
            continue;
        groups->can_rerun[v] = true;
        for (uint32_t k = 0; k < g->nodes[v].in_count; k++) {
            uint32_t maker = g->items[g->ins[g->nodes[v].in_first + k]].node;
            groups->can_rerun[maker] = !g->nodes[maker].is_fixed;
        }
    }
}

enum ebb_status planner_groups_make(struct planner_groups *groups, struct ebb_arena *arena,
                                    const struct planner_graph *g, enum planner_level level,
                                    struct ebb_error *err)
{
    size_t nodes = (size_t)g->node_count + 2;
    *groups = (struct planner_groups){
        .begin = ebb_arena_calloc(arena, nodes, sizeof *groups->begin),
        .of = ebb_arena_calloc(arena, nodes, sizeof *groups->of),
        .can_rerun = ebb_arena_calloc(arena, nodes, sizeof *groups->can_rerun)};
    EBB_TRY(ebb_arena_status(arena, err));
    uint32_t joined = level == PLANNER_LEVEL_FULL ? 0 : forward_end(g);
    for (uint32_t v = 0; v < g->node_count; v++) {
        if (v == 0 || v >= joined)
            groups->begin[groups->count++] = v;
        groups->of[v] = groups->count - 1;
    }
    groups->begin[groups->count] = g->node_count;
    groups->is_flow = level == PLANNER_LEVEL_FULL;
    allow_reruns(groups, g, level);
    return EBB_OK;
}
