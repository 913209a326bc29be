/* graph.c - storage-level adjacency of a trace, sorted by birth. */
#include "mem/mem.h"

#include <string.h>

#include "base/heap.h"
#include "plan/plan.h"

struct edge_list { /* every (from, to, birth) in op order, duplicates included */
    uint32_t *from, *to, *birth;
    size_t count;
};

static enum ebb_status edges_collect(struct edge_list *list, struct ebb_arena *arena,
                                     const struct trace *trace, bool with_views,
                                     struct ebb_error *err)
{
    size_t bound = 0;
    for (uint32_t o = 0; o < trace->op_count; o++)
        bound += (size_t)trace->ops[o].input_count * trace->ops[o].output_count;
    list->from = ebb_arena_calloc(arena, bound + 1, sizeof *list->from);
    list->to = ebb_arena_calloc(arena, bound + 1, sizeof *list->to);
    list->birth = ebb_arena_calloc(arena, bound + 1, sizeof *list->birth);
    EBB_TRY(ebb_arena_status(arena, err));
    for (uint32_t o = 0; o < trace->op_count; o++) {
        const struct trace_op *op = &trace->ops[o];
        if (!with_views && trace_is_view_op(trace, o))
            continue;
        for (uint32_t k = 0; k < op->output_count; k++) {
            uint32_t to = trace_output_of(trace, op, k)->storage;
            for (uint32_t i = 0; i < op->input_count; i++) {
                uint32_t from = trace->tensors[trace->inputs[op->input_first + i]].storage;
                if (from == to)
                    continue;
                list->from[list->count] = from;
                list->to[list->count] = to;
                list->birth[list->count++] = o;
            }
        }
    }
    return EBB_OK;
}

enum direction { PARENTS, CHILDREN, NEIGHBOURS };

/* Bucket the edges by owner (stable, so births stay sorted), then drop later duplicates. */
static enum ebb_status bucket(struct mem_graph *g, const struct edge_list *list,
                              enum direction direction, uint32_t *seen, uint32_t **first_out,
                              struct mem_edge **edges_out, struct ebb_error *err)
{
    size_t total = list->count * (direction == NEIGHBOURS ? 2 : 1);
    uint32_t storages = g->storage_count;
    uint32_t *first = ebb_arena_calloc(&g->arena, (size_t)storages + 2, sizeof *first);
    struct mem_edge *edges = ebb_arena_calloc(&g->arena, total + 1, sizeof *edges);
    EBB_TRY(ebb_arena_status(&g->arena, err));
    for (size_t e = 0; e < list->count; e++) {
        if (direction != PARENTS)
            first[list->from[e] + 2]++;
        if (direction != CHILDREN)
            first[list->to[e] + 2]++;
    }
    for (size_t s = 2; s < (size_t)storages + 2; s++)
        first[s] += first[s - 1];
    for (size_t e = 0; e < list->count; e++) { /* first[s + 1] is the fill position of s */
        if (direction != PARENTS)
            edges[first[list->from[e] + 1]++] = (struct mem_edge){list->to[e], list->birth[e]};
        if (direction != CHILDREN)
            edges[first[list->to[e] + 1]++] = (struct mem_edge){list->from[e], list->birth[e]};
    }
    memset(seen, 0xff, ((size_t)storages + 1) * sizeof *seen);
    uint32_t write = 0, begin = 0;
    for (uint32_t s = 0; s < storages; s++) {
        uint32_t end = first[s + 1];
        first[s] = write;
        for (uint32_t e = begin; e < end; e++) {
            if (seen[edges[e].storage] == s)
                continue;
            seen[edges[e].storage] = s;
            edges[write++] = edges[e];
        }
        begin = end;
    }
    first[storages] = write;
    *first_out = first;
    *edges_out = edges;
    return EBB_OK;
}

enum ebb_status mem_graph_init(struct mem_graph *graph, const struct trace *trace, bool with_views,
                               struct ebb_error *err)
{
    struct edge_list list = {0};
    struct ebb_arena scratch = {0};
    struct mem_graph g = {.storage_count = trace->storage_count};
    uint32_t *seen = ebb_arena_calloc(&scratch, (size_t)g.storage_count + 1, sizeof *seen);
    enum ebb_status status = edges_collect(&list, &scratch, trace, with_views, err);
    EBB_THEN(status, bucket(&g, &list, PARENTS, seen, &g.parent_first, &g.parents, err));
    EBB_THEN(status, bucket(&g, &list, CHILDREN, seen, &g.child_first, &g.children, err));
    EBB_THEN(status, bucket(&g, &list, NEIGHBOURS, seen, &g.neighbour_first, &g.neighbours, err));
    ebb_arena_fini(&scratch);
    if (status != EBB_OK) {
        mem_graph_fini(&g);
        return status;
    }
    *graph = g;
    return EBB_OK;
}

void mem_graph_fini(struct mem_graph *graph)
{
    ebb_arena_fini(&graph->arena);
    memset(graph, 0, sizeof *graph);
}
