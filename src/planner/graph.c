/* graph.c - recipes to planner graph: storages become items, versions become deadlines. */
#include "planner/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

/* Nodes and items in the order of first runs. */
static void add_nodes(struct planner_graph *g)
{
    const struct trace *trace = g->trace;
    uint32_t *node_of = g->node_of;
    for (uint32_t v = 0; v < g->node_count; v++) {
        const struct plan_node *from = &g->recipes->nodes[v];
        const struct trace_op *op = &trace->ops[from->op];
        struct planner_node *node = &g->nodes[v];
        *node = (struct planner_node){.cost = from->cost,
                                      .workspace_bytes = from->workspace_bytes,
                                      .op = from->op,
                                      .out_first = g->item_count,
                                      .deadline = TRACE_NONE,
                                      .partner = TRACE_NONE,
                                      .phase = op->phase,
                                      .is_fixed = op->is_leaf || op->kind->purity != TRACE_PURE};
        for (uint32_t k = 0; k < from->out_count; k++) {
            struct plan_ref out = g->recipes->outs[from->out_first + k];
            const struct plan_storage *s = &g->recipes->storages[out.storage];
            if (out.version > 0)
                continue;
            node->is_fixed |= s->version_count > 1;
            g->item_of[out.storage] = g->item_count;
            g->items[g->item_count++] =
                (struct planner_item){.bytes = s->bytes,
                                      .node = v,
                                      .storage = out.storage,
                                      .use_first = s->use_first,
                                      .use_count = s->use_count - s->is_kept, /* the end's */
                                      .is_kept = s->is_kept};
            node->out_count++;
        }
        node->needs_scratch = node->out_count > 1 && !from->can_skip;
        if (op->partner != TRACE_NONE)
            node->partner = node_of[op->partner];
        node_of[from->op] = v;
    }
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* A node that reads a version can run until that is overwritten. */
static void add_edges(struct planner_graph *g)
{
    for (uint32_t v = 0; v < g->node_count; v++) {
        const struct plan_node *from = &g->recipes->nodes[v];
        struct planner_node *node = &g->nodes[v];
        uint32_t *list = &g->ins[g->edge_count];
        node->in_first = (uint32_t)g->edge_count;
        node->in_count = from->in_count;
        g->edge_count += from->in_count;
        for (uint32_t i = 0; i < from->in_count; i++) {
            struct plan_ref in = g->recipes->ins[from->in_first + i];
            uint32_t gone = plan_version_of(g->recipes, in.storage, in.version)->gone;
            list[i] = g->item_of[in.storage];
            node->deadline = gone < node->deadline ? gone : node->deadline;
        }
        qsort(list, from->in_count, sizeof *list, compare_u32);
        if (node->is_fixed)
            node->deadline = v;
        for (uint32_t i = 0; i < node->out_count; i++)
            g->items[node->out_first + i].is_fixed = node->is_fixed;
    }
}

/* Outputs for nobody are not made where the op can do without, as in planner `floor`. In graph
 * files every output counts. */
static void mark_void(struct planner_graph *g)
{
    for (uint32_t i = 0; i < g->item_count && !g->exact_bytes; i++) {
        struct planner_item *item = &g->items[i];
        const struct trace_op *op = &g->trace->ops[g->nodes[item->node].op];
        item->is_void = item->use_count == 0 && !item->is_kept && !op->is_leaf &&
                        plan_can_skip(op->kind) &&
                        g->trace->storages[item->storage].version_count == 1;
        if (item->is_void)
            item->bytes = 0;
    }
}

/* Items of later nodes first: an item is of use while a reader can still run for something of use.
 */
static void find_last_stages(struct planner_graph *g)
{
    for (uint32_t i = g->item_count; i-- > 0;) {
        struct planner_item *item = &g->items[i];
        item->last_stage = item->is_kept ? g->node_count : item->node;
        for (uint32_t u = 0; u < item->use_count; u++) {
            uint32_t reader = g->uses[item->use_first + u], last = reader;
            const struct planner_node *node = &g->nodes[reader];
            for (uint32_t o = 0; o < node->out_count; o++)
                if (g->items[node->out_first + o].last_stage > last)
                    last = g->items[node->out_first + o].last_stage;
            if (last > node->deadline)
                last = node->deadline;
            if (last >= g->node_count)
                last = g->node_count - 1; /* nothing runs after the last stage */
            if (last > item->last_stage)
                item->last_stage = last;
        }
    }
}

/* Bytes of what must lie in memory while v runs: what cannot be made again and is needed later,
 * besides its own. At the last node the whole keep set counts. */
static uint64_t held_at(const struct planner_graph *g, uint32_t v, uint64_t held)
{
    const struct planner_node *node = &g->nodes[v];
    uint64_t bytes = held;
    for (uint32_t k = 0; k < node->in_count + node->out_count; k++) {
        const struct planner_item *item = &g->items[planner_graph_port(g, node, k)];
        bool is_held = item->is_fixed && item->node < v;
        if (!is_held && !(item->is_kept && v + 1 == g->node_count))
            bytes += item->bytes;
    }
    for (uint32_t i = 0; i < g->item_count && v + 1 == g->node_count; i++)
        if (g->items[i].is_kept && !(g->items[i].is_fixed && g->items[i].node < v))
            bytes += g->items[i].bytes;
    return bytes + node->workspace_bytes;
}

/* The largest of these is a lower limit of any budget. */
static void find_least_budget(struct planner_graph *g)
{
    uint64_t held = 0; /* fixed items made before v that v or a later first run reads */
    for (uint32_t v = 0; v < g->node_count; v++) {
        const struct planner_node *node = &g->nodes[v];
        uint64_t bytes = held_at(g, v, held);
        if (bytes > g->max_in_out)
            g->max_in_out = bytes;
        for (uint32_t o = node->out_first; o < node->out_first + node->out_count; o++)
            if (g->items[o].is_fixed && (g->items[o].use_count > 0 || g->items[o].is_kept))
                held += g->items[o].bytes;
        for (uint32_t k = 0; k < node->in_count; k++) {
            const struct planner_item *item = &g->items[g->ins[node->in_first + k]];
            if (item->is_fixed && !item->is_kept && planner_graph_last_use(g, item, 0) == v)
                held -= item->bytes;
        }
    }
}

static void measure(struct planner_graph *g)
{
    uint64_t now = 0;
    for (uint32_t v = 0; v < g->node_count; v++) {
        const struct planner_node *node = &g->nodes[v];
        uint64_t made = 0, read = 0;
        g->base_cost += node->cost;
        for (uint32_t i = 0; i < node->out_count; i++)
            made += g->items[node->out_first + i].bytes;
        for (uint32_t i = 0; i < node->in_count; i++)
            read += g->items[g->ins[node->in_first + i]].bytes;
        now += made;
        uint64_t extra = node->workspace_bytes;
        if (now + extra > g->no_remat_peak)
            g->no_remat_peak = now + extra;
        if (v < g->forward_count && made + read > g->max_degree_ram)
            g->max_degree_ram = made + read;
        for (uint32_t i = 0; i < node->in_count + node->out_count; i++) {
            const struct planner_item *item = &g->items[planner_graph_port(g, node, i)];
            if (planner_graph_last_use(g, item, item->node) == v && !item->is_kept)
                now -= item->bytes;
        }
    }
}

static void find_shape(struct planner_graph *g)
{
    uint32_t n = g->node_count;
    while (g->forward_count < n && g->nodes[g->forward_count].phase == TRACE_FORWARD)
        g->forward_count++;
    if (!g->trace->is_graph || n % 2 == 0 || g->item_count != n)
        return;
    g->is_mirrored = true;
    g->forward_count = n / 2;
    for (uint32_t v = 0; v < n; v++)
        if (g->nodes[v].out_count != 1 || g->nodes[v].is_fixed)
            g->is_mirrored = false;
}

static enum ebb_status allocate(struct planner_graph *g, struct ebb_error *err)
{
    const struct trace *trace = g->trace;
    struct ebb_arena *a = &g->arena;
    g->nodes = ebb_arena_calloc(a, trace->op_count, sizeof *g->nodes);
    g->items = ebb_arena_calloc(a, trace->storage_count, sizeof *g->items);
    g->ins = ebb_arena_calloc(a, trace->input_count, sizeof *g->ins);
    g->node_of = ebb_arena_calloc(a, trace->op_count, sizeof *g->node_of);
    g->item_of = ebb_arena_calloc(a, trace->storage_count, sizeof *g->item_of);
    return ebb_arena_status(a, err);
}

enum ebb_status planner_graph_create(const struct trace *trace, bool is_eager,
                                     struct planner_graph **graph, struct ebb_error *err)
{
    struct planner_graph *g;
    EBB_TRY(ebb_new(&g, 1, sizeof *g, err));
    g->trace = trace;
    g->fixed_bytes = trace->graph_fixed_bytes;
    enum ebb_status status = allocate(g, err);
    EBB_THEN(status, plan_recipes_create(&g->recipes, trace, NULL,
                                         is_eager ? PLAN_EARLY : PLAN_OFFLINE, err));
    if (status != EBB_OK) {
        planner_graph_destroy(g);
        return status;
    }
    g->exact_bytes = g->recipes->exact_bytes;
    g->is_moved = g->recipes->is_moved;
    g->uses = g->recipes->uses;
    g->node_count = g->recipes->node_count;
    memset(g->item_of, 0xff, trace->storage_count * sizeof *g->item_of);
    memset(g->node_of, 0xff, trace->op_count * sizeof *g->node_of);
    add_nodes(g);
    add_edges(g);
    mark_void(g);
    find_shape(g);
    find_last_stages(g);
    measure(g);
    find_least_budget(g);
    *graph = g;
    return EBB_OK;
}

void planner_graph_destroy(struct planner_graph *graph)
{
    if (!graph)
        return;
    plan_recipes_destroy(graph->recipes);
    ebb_arena_fini(&graph->arena);
    ebb_free(graph);
}

/* ---- the forward graph ---------------------------------------------------------------------- */

static bool is_forward_edge(const struct planner_graph *g, uint32_t item, uint32_t reader)
{
    return g->items[item].node < g->forward_count && reader < g->forward_count;
}

bool planner_graph_has_forward_edge(const struct planner_graph *g, uint32_t node)
{
    if (node >= g->forward_count)
        return false;
    for (uint32_t i = 0; i < g->nodes[node].in_count; i++)
        if (is_forward_edge(g, g->ins[g->nodes[node].in_first + i], node))
            return true;
    for (uint32_t o = 0; o < g->nodes[node].out_count; o++) {
        const struct planner_item *item = &g->items[g->nodes[node].out_first + o];
        for (uint32_t u = 0; u < item->use_count; u++)
            if (g->uses[item->use_first + u] < g->forward_count)
                return true;
    }
    return false;
}

/* Components of the forward graph without `removed`, source and sink included, by union-find. */
static uint32_t count_components(const struct planner_graph *g, uint32_t removed, uint32_t last,
                                 uint32_t *parent)
{
    uint32_t n = g->forward_count, source = n, sink = n + 1, count = 0;
    for (uint32_t v = 0; v < n + 2; v++)
        parent[v] = v;
    for (uint32_t e = 0; e < n + 2; e++) {
        uint32_t v = e < n ? e : e == source ? 0 : last;
        uint32_t edges = e < n ? g->nodes[v].in_count : 1;
        for (uint32_t i = 0; i < edges; i++) {
            uint32_t u = e < n ? g->items[g->ins[g->nodes[v].in_first + i]].node : e;
            if (u == removed || v == removed)
                continue;
            uint32_t a = u, b = v;
            while (parent[a] != a)
                a = parent[a] = parent[parent[a]];
            while (parent[b] != b)
                b = parent[b] = parent[parent[b]];
            parent[a] = b;
        }
    }
    for (uint32_t v = 0; v < n + 2; v++)
        if (v != removed && parent[v] == v &&
            (v == source || v == sink || planner_graph_has_forward_edge(g, v)))
            count++;
    return count;
}

enum ebb_status planner_graph_articulation(const struct planner_graph *g, bool *is_ap,
                                           struct ebb_error *err)
{
    uint32_t *parent;
    EBB_TRY(ebb_new(&parent, (size_t)g->forward_count + 2, sizeof *parent, err));
    uint32_t last = 0;
    for (uint32_t v = 0; v < g->forward_count; v++)
        if (planner_graph_has_forward_edge(g, v))
            last = v;
    for (uint32_t v = 0; v < g->node_count; v++)
        is_ap[v] = v < g->forward_count && planner_graph_has_forward_edge(g, v) &&
                   count_components(g, v, last, parent) > 1;
    ebb_free(parent);
    return EBB_OK;
}
