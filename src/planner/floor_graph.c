/* floor_graph.c - a trace as a pebbling game: who reads what, and how long each version can be had.
 *
 * Three things can end the recipe of a version: a node overwrites something the recipe reads; an
 * anchor it reads is let go; or something it reads ends for one of these reasons. Whatever is still
 * read after its recipe ended is restored before that and stays (pinned) until its last reader; so
 * it can be had until then, and the recipes that read it go on working.
 *
 * Anchors have no recipe at all: leaves, outputs of `once` ops, and storages of ops that write
 * several storages of which one in place (running those again would write it twice). They stay as
 * long as a recipe may need them: need_until, at first the last stage of anything derived from
 * them. A play tells how long they really were of use (floor.c then settles anew). */
#include "planner/floor.h"

#include <string.h>

#include "base/heap.h"

static uint64_t size_of(const struct floor_graph *g, uint64_t bytes)
{
    return g->exact_bytes ? bytes : plan_round(bytes);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct maker {
    struct floor_graph *g;
    uint32_t *seen; /* storage -> node + 1 that read it last */
    uint32_t in_total, out_total;
};

static void add_node(struct maker *m, uint32_t op)
{
    struct floor_graph *g = m->g;
    const struct trace *t = g->trace;
    const struct trace_op *o = &t->ops[op];
    uint32_t n = g->node_count++;
    struct floor_node *node = &g->nodes[n];
    *node = (struct floor_node){.cost = o->cost_ns,
                                .workspace_bytes = size_of(g, o->workspace_bytes),
                                .op = op,
                                .in_first = m->in_total,
                                .out_first = m->out_total,
                                .is_leaf = o->is_leaf,
                                .can_skip = plan_can_skip(o->kind)};
    for (uint32_t i = 0; i < o->input_count; i++) {
        const struct trace_tensor *in = &t->tensors[t->inputs[o->input_first + i]];
        if (m->seen[in->storage] == n + 1)
            continue;
        m->seen[in->storage] = n + 1;
        g->ins[m->in_total++] = (struct floor_ref){in->storage, in->version};
        g->storages[in->storage].use_count++;
        floor_version_of(g, in->storage, in->version)->last_use = n;
    }
    node->in_count = m->in_total - node->in_first;
    uint32_t written = 0;
    for (uint32_t k = 0; k < o->output_count; k++) {
        const struct trace_tensor *out = &t->tensors[o->output_first + k];
        if (out->alias == TRACE_VIEW)
            continue;
        g->outs[m->out_total++] = (struct floor_ref){out->storage, out->version};
        struct floor_version *v = floor_version_of(g, out->storage, out->version);
        v->maker = v->last_use = n;
        if (out->alias == TRACE_MUTATE) {
            written++;
            v[-1].gone = n;
        }
    }
    node->out_count = m->out_total - node->out_first;
    node->is_replayable = !o->is_leaf && o->kind->purity != TRACE_ONCE &&
                          (written == 0 || (written == 1 && node->out_count == 1));
    g->clock[n + 1] = g->clock[n] + o->cost_ns;
}

/* The end reads the keep set: what it names must lie there. */
static void add_end(struct maker *m)
{
    struct floor_graph *g = m->g;
    const struct trace *t = g->trace;
    struct floor_node *end = &g->nodes[g->node_count];
    *end =
        (struct floor_node){.op = TRACE_NONE, .in_first = m->in_total, .out_first = m->out_total};
    for (uint32_t c = t->command_count; c-- > 0 && t->commands[c].kind != TRACE_RUN;) {
        const struct trace_tensor *kept = &t->tensors[t->commands[c].index];
        struct floor_storage *s = &g->storages[kept->storage];
        if (t->commands[c].kind != TRACE_PIN || s->is_kept)
            continue;
        s->is_kept = true;
        s->use_count++;
        g->ins[m->in_total++] = (struct floor_ref){kept->storage, kept->version};
        floor_version_of(g, kept->storage, kept->version)->last_use = g->node_count;
    }
    end->in_count = m->in_total - end->in_first;
}

static void add_uses(struct floor_graph *g)
{
    uint32_t first = 0;
    for (uint32_t s = 0; s < g->storage_count; s++) {
        g->storages[s].use_first = first;
        first += g->storages[s].use_count;
        g->storages[s].use_count = 0;
    }
    for (uint32_t n = 0; n <= g->node_count; n++)
        for (uint32_t i = 0; i < g->nodes[n].in_count; i++) {
            struct floor_storage *s = &g->storages[g->ins[g->nodes[n].in_first + i].storage];
            g->uses[s->use_first + s->use_count++] = n;
        }
}

/* ---- how long -------------------------------------------------------------------------------- */

/* Consumers are known before their inputs, walking backwards. A node that never runs again needs
 * nothing after its first run. The keep set is not made again after its last reader, unless that is
 * asked for. */
static void find_needs(struct floor_graph *g, const struct floor_holds *holds)
{
    for (uint32_t s = 0; s < g->storage_count; s++) {
        const struct floor_storage *st = &g->storages[s];
        g->need_until[s] = g->versions[st->version_first + st->version_count - 1].maker;
        for (uint32_t u = 0; u < st->use_count; u++)
            if (g->uses[st->use_first + u] > g->need_until[s] &&
                (holds->keep_again || g->uses[st->use_first + u] < g->node_count))
                g->need_until[s] = g->uses[st->use_first + u];
    }
    for (uint32_t n = g->node_count; n-- > 0;) {
        const struct floor_node *node = &g->nodes[n];
        uint32_t latest = n;
        bool reruns = node->is_replayable && !holds->is_shortest &&
                      (!holds->may_rerun || holds->may_rerun[n]);
        for (uint32_t k = 0; k < node->out_count && reruns; k++) {
            uint32_t need = g->need_until[g->outs[node->out_first + k].storage];
            latest = need > latest ? need : latest;
        }
        for (uint32_t i = 0; i < node->in_count; i++) {
            uint32_t s = g->ins[node->in_first + i].storage;
            g->need_until[s] = g->need_until[s] > latest ? g->need_until[s] : latest;
        }
    }
    for (uint32_t s = 0; s < g->storage_count; s++) {
        const struct floor_storage *st = &g->storages[s];
        uint32_t first = g->versions[st->version_first + st->version_count - 1].maker;
        if (holds->last_stage && g->need_until[s] > holds->last_stage[s])
            g->need_until[s] = holds->last_stage[s] > first ? holds->last_stage[s] : first;
        if (st->is_kept)
            g->need_until[s] = g->node_count;
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void find_recipe_end(struct floor_graph *g, const struct floor_node *node, uint32_t storage,
                            uint32_t version)
{
    struct floor_version *v = floor_version_of(g, storage, version);
    bool is_last = version + 1 == g->storages[storage].version_count;
    uint32_t until = FLOOR_NEVER;
    if (!node->is_replayable)
        until = 0;
    if (version > 0 && v[-1].pinned_from == 0)
        until = 0; /* its storage cannot be begun again */
    if (until == 0) {
        v->pinned_from = 0;
        v->had_until = is_last ? g->need_until[storage] : v->gone;
        return;
    }
    if (version > 0)
        until = least(until, v[-1].pinned_from - 1);
    for (uint32_t i = 0; i < node->in_count; i++) {
        struct floor_ref in = g->ins[node->in_first + i];
        if (in.storage != storage)
            until = least(until, floor_version_of(g, in.storage, in.version)->had_until);
    }
    v->pinned_from = until == FLOOR_NEVER ? FLOOR_NEVER : until + 1;
    v->had_until = until > v->last_use ? until : v->last_use;
    v->had_until = least(v->had_until, v->gone);
}

static bool must_restore(const struct floor_version *v)
{
    return v->pinned_from != 0 && v->pinned_from != FLOOR_NEVER && v->maker < v->pinned_from - 1 &&
           v->gone > v->pinned_from - 1 && v->last_use > v->pinned_from - 1;
}

/* Lists per node, by counting first. */
static void list_restores(struct floor_graph *g)
{
    for (uint32_t n = 0; n <= g->node_count; n++)
        g->nodes[n].restore_count = g->nodes[n].end_count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t s = 0; s < g->storage_count; s++) {
            const struct floor_storage *st = &g->storages[s];
            for (uint32_t k = 0; k < st->version_count; k++) {
                const struct floor_version *v = &g->versions[st->version_first + k];
                if (!must_restore(v))
                    continue;
                struct floor_node *at = &g->nodes[v->pinned_from - 1];
                if (pass == 1)
                    g->restores[at->restore_first + at->restore_count] = (struct floor_ref){s, k};
                at->restore_count++;
            }
            const struct floor_version *last =
                &g->versions[st->version_first + st->version_count - 1];
            if (last->pinned_from == 0) {
                struct floor_node *at = &g->nodes[g->need_until[s]];
                if (pass == 1)
                    g->ends[at->end_first + at->end_count] = s;
                at->end_count++;
            }
        }
        uint32_t restores = 0, ends = 0;
        for (uint32_t n = 0; n <= g->node_count && pass == 0; n++) {
            g->nodes[n].restore_first = restores;
            g->nodes[n].end_first = ends;
            restores += g->nodes[n].restore_count;
            ends += g->nodes[n].end_count;
            g->nodes[n].restore_count = g->nodes[n].end_count = 0;
        }
    }
}

void planner_floor_graph_settle(struct floor_graph *g, const struct floor_holds *holds)
{
    find_needs(g, holds);
    for (uint32_t n = 0; n < g->node_count; n++) {
        const struct floor_node *node = &g->nodes[n];
        for (uint32_t k = 0; k < node->out_count; k++)
            find_recipe_end(g, node, g->outs[node->out_first + k].storage,
                            g->outs[node->out_first + k].version);
    }
    list_restores(g);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool allocate(struct floor_graph *g)
{
    const struct trace *t = g->trace;
    size_t nodes = (size_t)t->op_count + 2, storages = (size_t)t->storage_count + 1;
    size_t versions = (size_t)t->tensor_count + 1;
    size_t reads = t->input_count + storages;
    struct ebb_arena *a = &g->arena;
    return (g->nodes = ebb_arena_calloc(a, nodes, sizeof *g->nodes)) &&
           (g->storages = ebb_arena_calloc(a, storages, sizeof *g->storages)) &&
           (g->versions = ebb_arena_calloc(a, versions, sizeof *g->versions)) &&
           (g->ins = ebb_arena_calloc(a, reads, sizeof *g->ins)) &&
           (g->outs = ebb_arena_calloc(a, versions, sizeof *g->outs)) &&
           (g->uses = ebb_arena_calloc(a, reads, sizeof *g->uses)) &&
           (g->restores = ebb_arena_calloc(a, versions, sizeof *g->restores)) &&
           (g->ends = ebb_arena_calloc(a, storages, sizeof *g->ends)) &&
           (g->need_until = ebb_arena_calloc(a, storages, sizeof *g->need_until)) &&
           (g->clock = ebb_arena_calloc(a, nodes, sizeof *g->clock));
}

static enum ebb_status find_base(struct floor_graph *g, struct ebb_error *err)
{
    uint64_t *base = ebb_arena_calloc(&g->arena, (size_t)g->storage_count + 1, sizeof *base);
    if (!base)
        return ebb_no_memory(err, g->storage_count * sizeof *base);
    if (!g->exact_bytes)
        EBB_TRY(plan_base_layout(g->trace, base, &g->base_bytes, err));
    for (uint32_t s = 0; s < g->storage_count; s++)
        g->storages[s].base = g->exact_bytes ? PLAN_NOWHERE : base[s];
    return EBB_OK;
}

enum ebb_status planner_floor_graph_create(const struct trace *trace, bool is_eager,
                                           struct floor_graph **graph, struct ebb_error *err)
{
    struct floor_graph *g = ebb_calloc(1, sizeof *g);
    if (!g)
        return ebb_no_memory(err, sizeof *g);
    ebb_arena_init(&g->arena);
    g->trace = trace;
    g->exact_bytes = trace->is_graph;
    g->storage_count = trace->storage_count;
    struct maker m = {.g = g};
    uint32_t count = 0, *order = ebb_arena_calloc(&g->arena, (size_t)trace->op_count + 1, 4);
    enum ebb_status status = EBB_OK;
    if (!order || !allocate(g) ||
        !(m.seen = ebb_arena_calloc(&g->arena, (size_t)g->storage_count + 1, sizeof *m.seen)))
        status = ebb_no_memory(err, trace->op_count * sizeof *g->nodes);
    if (status == EBB_OK)
        status = trace_reorder(trace, is_eager ? TRACE_EARLY : TRACE_AS_RECORDED, order, &count,
                               &g->is_moved, err);
    if (status == EBB_OK)
        status = find_base(g, err);
    if (status != EBB_OK) {
        planner_floor_graph_destroy(g);
        return status;
    }
    for (uint32_t s = 0; s < g->storage_count; s++) {
        struct floor_storage *st = &g->storages[s];
        st->bytes = size_of(g, trace->storages[s].bytes);
        st->version_first = g->version_total;
        st->version_count = trace->storages[s].version_count;
        g->version_total += st->version_count;
    }
    for (uint32_t v = 0; v < g->version_total; v++)
        g->versions[v].gone = FLOOR_NEVER;
    for (uint32_t i = 0; i < count; i++)
        add_node(&m, order[i]);
    add_end(&m);
    g->base_cost = g->clock[g->node_count];
    add_uses(g);
    planner_floor_graph_settle(g, &(struct floor_holds){0});
    *graph = g;
    return EBB_OK;
}

void planner_floor_graph_destroy(struct floor_graph *graph)
{
    if (!graph)
        return;
    struct ebb_arena arena = graph->arena;
    ebb_arena_fini(&arena);
    ebb_free(graph);
}
