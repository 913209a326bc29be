/* graph.c - trace to planner graph: views collapse, versions become deadlines, sizes are rounded as
 * the plan will be. */
#include "planner/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "plan/plan.h"
#include "planner/floor.h"

struct maker {
    const struct trace *trace;
    struct planner_graph *graph;
    uint32_t *node_of;      /* op -> node */
    uint32_t *item_of;      /* storage -> item */
    uint32_t *overwriter;   /* tensor -> node that overwrites its version, TRACE_NONE = nobody */
    uint32_t *newest;       /* storage -> newest tensor so far */
    uint32_t *order, count; /* ops that run, in the order of their first runs */
};

static uint64_t size_of(const struct planner_graph *g, uint64_t bytes)
{
    return g->exact_bytes ? bytes : plan_round(bytes);
}

/* Nodes and items in the order of first runs. */
static void add_nodes(struct maker *m)
{
    const struct trace *trace = m->trace;
    struct planner_graph *g = m->graph;
    for (uint32_t k = 0; k < m->count; k++) {
        uint32_t o = m->order[k];
        const struct trace_op *op = &trace->ops[o];
        struct planner_node *node = &g->nodes[g->node_count];
        *node = (struct planner_node){.cost = op->cost_ns,
                                      .workspace_bytes = size_of(g, op->workspace_bytes),
                                      .op = o,
                                      .out_first = g->item_count,
                                      .deadline = TRACE_NONE,
                                      .partner = TRACE_NONE,
                                      .phase = op->phase,
                                      .is_fixed = op->is_leaf || op->kind->purity != TRACE_PURE};
        for (uint32_t i = 0; i < op->output_count; i++) {
            const struct trace_tensor *t = &trace->tensors[op->output_first + i];
            if (t->alias != TRACE_FRESH)
                continue;
            const struct trace_storage *s = &trace->storages[t->storage];
            node->is_fixed |= s->version_count > 1;
            m->item_of[t->storage] = g->item_count;
            g->items[g->item_count++] = (struct planner_item){
                .bytes = size_of(g, s->bytes), .node = g->node_count, .storage = t->storage};
            node->out_count++;
        }
        node->needs_scratch = node->out_count > 1 && !plan_can_skip(op->kind);
        if (op->partner != TRACE_NONE)
            node->partner = m->node_of[op->partner];
        m->node_of[o] = g->node_count++;
    }
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Which node overwrites the version a tensor denotes? Views share their base's answer through
 * (storage, version). */
static void find_overwriters(struct maker *m)
{
    const struct trace *trace = m->trace;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        m->overwriter[t] = TRACE_NONE;
    for (uint32_t t = trace->tensor_count; t-- > 0;) {
        const struct trace_tensor *tensor = &trace->tensors[t];
        m->overwriter[t] = m->newest[tensor->storage]; /* the first later MUTATE of this storage */
        if (tensor->alias == TRACE_MUTATE)
            m->newest[tensor->storage] = m->node_of[tensor->op];
    }
}

static void add_edges(struct maker *m)
{
    const struct trace *trace = m->trace;
    struct planner_graph *g = m->graph;
    for (uint32_t v = 0; v < g->node_count; v++) {
        struct planner_node *node = &g->nodes[v];
        const struct trace_op *op = &trace->ops[node->op];
        uint32_t *list = &g->ins[g->edge_count];
        uint32_t n = 0;
        for (uint32_t i = 0; i < op->input_count; i++) {
            uint32_t tensor = trace->inputs[op->input_first + i];
            list[n++] = m->item_of[trace->tensors[tensor].storage];
            if (m->overwriter[tensor] < node->deadline)
                node->deadline = m->overwriter[tensor];
        }
        qsort(list, n, sizeof *list, compare_u32);
        uint32_t unique = 0;
        for (uint32_t i = 0; i < n; i++)
            if (unique == 0 || list[unique - 1] != list[i])
                list[unique++] = list[i];
        node->in_first = (uint32_t)g->edge_count;
        node->in_count = unique;
        g->edge_count += unique;
        if (node->is_fixed)
            node->deadline = v;
        for (uint32_t i = 0; i < unique; i++)
            g->items[list[i]].use_count++;
        for (uint32_t i = 0; i < node->out_count; i++)
            g->items[node->out_first + i].is_fixed = node->is_fixed;
    }
    uint32_t first = 0;
    for (uint32_t i = 0; i < g->item_count; i++) {
        g->items[i].use_first = first;
        first += g->items[i].use_count;
        g->items[i].use_count = 0;
    }
    for (uint32_t v = 0; v < g->node_count; v++)
        for (uint32_t i = 0; i < g->nodes[v].in_count; i++) {
            struct planner_item *item = &g->items[g->ins[g->nodes[v].in_first + i]];
            g->uses[item->use_first + item->use_count++] = v;
        }
}

static void mark_kept(struct maker *m)
{
    const struct trace *trace = m->trace;
    for (uint32_t c = trace->command_count; c-- > 0 && trace->commands[c].kind != TRACE_RUN;)
        if (trace->commands[c].kind == TRACE_PIN) {
            uint32_t storage = trace->tensors[trace->commands[c].index].storage;
            m->graph->items[m->item_of[storage]].is_kept = true;
        }
}

/* Outputs for nobody are not made where the op can do without, as in planner `floor`. In graph
 * files every output counts (spec 4). */
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
        uint32_t i =
            k < node->in_count ? g->ins[node->in_first + k] : node->out_first + k - node->in_count;
        const struct planner_item *item = &g->items[i];
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
            if (item->is_fixed && !item->is_kept &&
                g->uses[item->use_first + item->use_count - 1] == v)
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
            uint32_t id = i < node->in_count ? g->ins[node->in_first + i]
                                             : node->out_first + i - node->in_count;
            const struct planner_item *item = &g->items[id];
            uint32_t last =
                item->use_count ? g->uses[item->use_first + item->use_count - 1] : item->node;
            if (last == v && !item->is_kept)
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

enum ebb_status planner_graph_create(const struct trace *trace, bool is_eager,
                                     struct planner_graph **graph, struct ebb_error *err)
{
    struct planner_graph *g = ebb_calloc(1, sizeof *g);
    if (!g)
        return ebb_no_memory(err, sizeof *g);
    ebb_arena_init(&g->arena);
    g->trace = trace;
    g->exact_bytes = trace->is_graph;
    g->fixed_bytes = trace->graph_fixed_bytes;
    struct maker m = {.trace = trace, .graph = g};
    g->nodes = ebb_arena_calloc(&g->arena, trace->op_count, sizeof *g->nodes);
    g->items = ebb_arena_calloc(&g->arena, trace->storage_count, sizeof *g->items);
    g->ins = ebb_arena_calloc(&g->arena, trace->input_count, sizeof *g->ins);
    g->uses = ebb_arena_calloc(&g->arena, trace->input_count, sizeof *g->uses);
    m.node_of = ebb_arena_calloc(&g->arena, trace->op_count, sizeof *m.node_of);
    m.order = ebb_arena_calloc(&g->arena, (size_t)trace->op_count + 1, sizeof *m.order);
    m.item_of = g->item_of = ebb_arena_calloc(&g->arena, trace->storage_count, sizeof *m.item_of);
    m.newest = ebb_arena_calloc(&g->arena, trace->storage_count, sizeof *m.newest);
    m.overwriter = ebb_arena_calloc(&g->arena, trace->tensor_count, sizeof *m.overwriter);
    enum ebb_status status = EBB_OK;
    if (!g->nodes || !g->items || !g->ins || !g->uses || !m.node_of || !m.order || !m.item_of ||
        !m.newest || !m.overwriter)
        status = ebb_no_memory(err, trace->op_count * sizeof *g->nodes);
    if (status == EBB_OK)
        status = trace_reorder(trace, is_eager ? TRACE_EARLY : TRACE_AS_RECORDED, m.order, &m.count,
                               &g->is_moved, err);
    if (status != EBB_OK) {
        planner_graph_destroy(g);
        return status;
    }
    memset(m.newest, 0xff, trace->storage_count * sizeof *m.newest);
    memset(m.item_of, 0xff, trace->storage_count * sizeof *m.item_of);
    memset(m.node_of, 0xff, trace->op_count * sizeof *m.node_of);
    add_nodes(&m);
    find_overwriters(&m);
    add_edges(&m);
    mark_kept(&m);
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
    struct ebb_arena arena = graph->arena;
    ebb_arena_fini(&arena);
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
    uint32_t *parent = ebb_calloc((size_t)g->forward_count + 2, sizeof *parent);
    if (!parent)
        return ebb_no_memory(err, (g->forward_count + 2) * sizeof *parent);
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
