/* recipe.c - who reads what, how long each version can be had, and what must be restored.
 *
 * Three things can end the recipe of a version: a node overwrites something the recipe reads; an
 * anchor it reads is let go; or something it reads ends for one of these reasons. Whatever is still
 * read after its recipe ended is restored before that and stays until its last reader. Offline a
 * schedule keeps that promise, so what was restored can be had until then and the recipes that read
 * it go on working; and anchors are let go. Online nobody promises anything: a recipe counts as
 * ended with the first recipe it depends on, and anchors stay for as long as anything may need
 * them. */
#include "plan/plan.h"

#include "base/heap.h"

static uint64_t size_of(const struct plan_recipes *r, uint64_t bytes)
{
    return r->exact_bytes ? bytes : plan_round(bytes);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct maker {
    struct plan_recipes *r;
    uint32_t *seen; /* storage -> node + 1 that read it last */
    uint32_t in_total, out_total;
};

static void add_inputs(struct maker *m, uint32_t n, const struct trace_op *op)
{
    struct plan_recipes *r = m->r;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const struct trace_tensor *in = &r->trace->tensors[r->trace->inputs[op->input_first + i]];
        if (m->seen[in->storage] == n + 1)
            continue;
        m->seen[in->storage] = n + 1;
        r->ins[m->in_total++] = (struct plan_ref){in->storage, in->version};
        r->storages[in->storage].use_count++;
        plan_version_of(r, in->storage, in->version)->last_use = n;
    }
    r->nodes[n].in_count = m->in_total - r->nodes[n].in_first;
}

/* Returns how many storages it writes in place. */
static uint32_t add_outputs(struct maker *m, uint32_t n, const struct trace_op *op)
{
    struct plan_recipes *r = m->r;
    uint32_t written = 0;
    for (uint32_t k = 0; k < op->output_count; k++) {
        const struct trace_tensor *out = trace_output_of(r->trace, op, k);
        if (out->alias == TRACE_VIEW)
            continue;
        r->outs[m->out_total++] = (struct plan_ref){out->storage, out->version};
        struct plan_version *v = plan_version_of(r, out->storage, out->version);
        v->maker = v->last_use = n;
        if (out->alias == TRACE_MUTATE) {
            written++;
            v[-1].gone = n;
        }
    }
    r->nodes[n].out_count = m->out_total - r->nodes[n].out_first;
    return written;
}

static void add_node(struct maker *m, uint32_t index)
{
    struct plan_recipes *r = m->r;
    const struct trace_op *op = &r->trace->ops[index];
    uint32_t n = r->node_count++, written = 0;
    struct plan_node *node = &r->nodes[n];
    *node = (struct plan_node){.cost = op->cost_ns,
                               .workspace_bytes = size_of(r, op->workspace_bytes),
                               .op = index,
                               .in_first = m->in_total,
                               .out_first = m->out_total,
                               .is_leaf = op->is_leaf,
                               .is_view = trace_is_view_op(r->trace, index),
                               .can_skip = plan_can_skip(op->kind)};
    if (!node->is_view) {
        add_inputs(m, n, op);
        written = add_outputs(m, n, op);
    }
    node->is_replayable = !op->is_leaf && op->kind->purity != TRACE_ONCE &&
                          (written == 0 || (written == 1 && node->out_count == 1));
    r->clock[n + 1] = r->clock[n] + op->cost_ns;
}

/* What is pinned after the last run. Offline the end is a node that reads it. */
static void add_end(struct maker *m)
{
    struct plan_recipes *r = m->r;
    const struct trace *t = r->trace;
    struct plan_node *end = &r->nodes[r->node_count];
    *end = (struct plan_node){.op = TRACE_NONE, .in_first = m->in_total, .out_first = m->out_total};
    for (uint32_t c = t->command_count; c-- > 0 && t->commands[c].kind != TRACE_RUN;) {
        const struct trace_tensor *kept = &t->tensors[t->commands[c].index];
        struct plan_storage *s = &r->storages[kept->storage];
        if (t->commands[c].kind != TRACE_PIN || s->is_kept || s->home)
            continue;
        s->is_kept = true;
        if (r->is_online)
            continue;
        s->use_count++;
        r->ins[m->in_total++] = (struct plan_ref){kept->storage, kept->version};
        plan_version_of(r, kept->storage, kept->version)->last_use = r->node_count;
    }
    end->in_count = m->in_total - end->in_first;
}

/* Online a pin holds from when it is met, leaves aside. */
static void keep_pinned(struct plan_recipes *r)
{
    const struct trace *t = r->trace;
    for (uint32_t c = 0; c < t->command_count && r->is_online; c++) {
        const struct trace_tensor *tensor = &t->tensors[t->commands[c].index];
        if (t->commands[c].kind == TRACE_PIN && !t->ops[tensor->op].is_leaf)
            r->storages[tensor->storage].is_kept = true;
    }
}

static void add_uses(struct plan_recipes *r)
{
    uint32_t first = 0;
    for (uint32_t s = 0; s < r->storage_count; s++) {
        r->storages[s].use_first = first;
        first += r->storages[s].use_count;
        r->storages[s].use_count = 0;
    }
    for (uint32_t n = 0; n <= r->node_count; n++)
        for (uint32_t i = 0; i < r->nodes[n].in_count; i++) {
            struct plan_storage *s = &r->storages[r->ins[r->nodes[n].in_first + i].storage];
            r->uses[s->use_first + s->use_count++] = n;
        }
}

/* ---- how long -------------------------------------------------------------------------------- */

/* Consumers are known before their inputs, walking backwards. A node that never runs again needs
 * nothing after its first run. The keep set is not made again after its last reader, unless that is
 * asked for. */
static void find_needs(struct plan_recipes *r, const struct plan_holds *holds)
{
    for (uint32_t s = 0; s < r->storage_count; s++) {
        const struct plan_storage *st = &r->storages[s];
        r->need_until[s] = plan_last_version(r, s)->maker;
        for (uint32_t u = 0; u < st->use_count; u++)
            if (r->uses[st->use_first + u] > r->need_until[s] &&
                (holds->keep_again || r->uses[st->use_first + u] < r->node_count))
                r->need_until[s] = r->uses[st->use_first + u];
    }
    for (uint32_t n = r->node_count; n-- > 0;) {
        const struct plan_node *node = &r->nodes[n];
        uint32_t latest = n;
        bool reruns = r->is_online || (node->is_replayable && !holds->is_shortest &&
                                       (!holds->may_rerun || holds->may_rerun[n]));
        for (uint32_t k = 0; k < node->out_count && reruns; k++) {
            uint32_t need = r->need_until[r->outs[node->out_first + k].storage];
            latest = need > latest ? need : latest;
        }
        for (uint32_t i = 0; i < node->in_count; i++) {
            uint32_t s = r->ins[node->in_first + i].storage;
            r->need_until[s] = r->need_until[s] > latest ? r->need_until[s] : latest;
        }
    }
    for (uint32_t s = 0; s < r->storage_count; s++) {
        uint32_t first = plan_last_version(r, s)->maker;
        if (holds->last_stage && r->need_until[s] > holds->last_stage[s])
            r->need_until[s] = holds->last_stage[s] > first ? holds->last_stage[s] : first;
        if (r->storages[s].is_kept)
            r->need_until[s] = r->node_count;
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Can running the node again make this storage alone? Not if it would write another one twice.
 * Offline such a node is not run again for any of its outputs. */
static bool is_made_again(const struct plan_recipes *r, const struct plan_node *node,
                          uint32_t storage)
{
    const struct trace_op *op = &r->trace->ops[node->op];
    if (!r->is_online || node->is_leaf || op->kind->purity == TRACE_ONCE)
        return node->is_replayable;
    for (uint32_t k = 0; k < node->out_count; k++) {
        struct plan_ref out = r->outs[node->out_first + k];
        if (out.version > 0 && out.storage != storage)
            return false;
    }
    return true;
}

static void find_recipe_end(struct plan_recipes *r, const struct plan_node *node,
                            struct plan_ref ref)
{
    struct plan_version *v = plan_version_of(r, ref.storage, ref.version);
    bool is_begun = ref.version == 0 || v[-1].expire != 0; /* its storage can be begun again */
    if (!is_begun || !is_made_again(r, node, ref.storage)) {
        bool is_last = ref.version + 1 == r->storages[ref.storage].version_count;
        v->expire = 0;
        v->had_until = is_last && !r->is_online ? r->need_until[ref.storage] : v->gone;
        return;
    }
    uint32_t until = ref.version > 0 ? v[-1].expire : PLAN_NEVER;
    for (uint32_t i = 0; i < node->in_count; i++) {
        struct plan_ref in = r->ins[node->in_first + i];
        if (in.storage != ref.storage)
            until = least(until, plan_version_of(r, in.storage, in.version)->had_until);
    }
    v->expire = until;
    v->had_until = !r->is_online && v->last_use > until ? v->last_use : until;
    v->had_until = least(v->had_until, v->gone);
}

/* Online the node that makes a version may itself end its recipe. */
static bool must_restore(const struct plan_recipes *r, const struct plan_version *v, bool is_kept)
{
    uint32_t at = v->expire;
    if (at == 0 || at == PLAN_NEVER || v->gone <= at)
        return false;
    if (r->is_online)
        return v->maker <= at && (is_kept || v->last_use > at);
    return v->maker < at && v->last_use > at;
}

/* Lists per node, by counting first. */
static void list_restores(struct plan_recipes *r)
{
    for (uint32_t n = 0; n <= r->node_count; n++)
        r->nodes[n].restore_count = r->nodes[n].end_count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t s = 0; s < r->storage_count; s++) {
            const struct plan_storage *st = &r->storages[s];
            for (uint32_t k = 0; k < st->version_count; k++) {
                const struct plan_version *v = &r->versions[st->version_first + k];
                if (!must_restore(r, v, st->is_kept))
                    continue;
                struct plan_node *at = &r->nodes[v->expire];
                if (pass == 1)
                    r->restores[at->restore_first + at->restore_count] = (struct plan_ref){s, k};
                at->restore_count++;
            }
            if (plan_last_version(r, s)->expire == 0 && !st->is_kept) {
                struct plan_node *at = &r->nodes[r->need_until[s]];
                if (pass == 1)
                    r->ends[at->end_first + at->end_count] = s;
                at->end_count++;
            }
        }
        uint32_t restores = 0, ends = 0;
        for (uint32_t n = 0; n <= r->node_count && pass == 0; n++) {
            r->nodes[n].restore_first = restores;
            r->nodes[n].end_first = ends;
            restores += r->nodes[n].restore_count;
            ends += r->nodes[n].end_count;
            r->nodes[n].restore_count = r->nodes[n].end_count = 0;
        }
    }
}

void plan_recipes_settle(struct plan_recipes *r, const struct plan_holds *holds)
{
    find_needs(r, holds);
    for (uint32_t n = 0; n < r->node_count; n++)
        for (uint32_t k = 0; k < r->nodes[n].out_count; k++)
            find_recipe_end(r, &r->nodes[n], r->outs[r->nodes[n].out_first + k]);
    list_restores(r);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum ebb_status allocate(struct plan_recipes *r, struct ebb_error *err)
{
    const struct trace *t = r->trace;
    size_t nodes = (size_t)t->op_count + 2, storages = (size_t)t->storage_count + 1;
    size_t versions = (size_t)t->tensor_count + 1;
    size_t reads = t->input_count + storages;
    struct ebb_arena *a = &r->arena;
    r->nodes = ebb_arena_calloc(a, nodes, sizeof *r->nodes);
    r->storages = ebb_arena_calloc(a, storages, sizeof *r->storages);
    r->versions = ebb_arena_calloc(a, versions, sizeof *r->versions);
    r->ins = ebb_arena_calloc(a, reads, sizeof *r->ins);
    r->outs = ebb_arena_calloc(a, versions, sizeof *r->outs);
    r->uses = ebb_arena_calloc(a, reads, sizeof *r->uses);
    r->restores = ebb_arena_calloc(a, versions, sizeof *r->restores);
    r->ends = ebb_arena_calloc(a, storages, sizeof *r->ends);
    r->need_until = ebb_arena_calloc(a, storages, sizeof *r->need_until);
    r->clock = ebb_arena_calloc(a, nodes, sizeof *r->clock);
    return ebb_arena_status(a, err);
}

static enum ebb_status add_storages(struct plan_recipes *r, const struct plan_homes *homes,
                                    struct ebb_error *err)
{
    uint64_t *base = ebb_arena_calloc(&r->arena, (size_t)r->storage_count + 1, sizeof *base);
    uint32_t versions = 0;
    EBB_TRY(ebb_arena_status(&r->arena, err));
    if (!r->exact_bytes)
        EBB_TRY(plan_base_layout(r->trace, homes, base, &r->base_bytes, err));
    for (uint32_t s = 0; s < r->storage_count; s++) {
        struct plan_storage *st = &r->storages[s];
        st->base = r->exact_bytes ? PLAN_NOWHERE : base[s];
        const struct plan_home *home = plan_home_of(homes, s);
        st->home = home ? home->tier : 0;
        st->bytes = size_of(r, r->trace->storages[s].bytes);
        st->version_first = versions;
        st->version_count = r->trace->storages[s].version_count;
        versions += st->version_count;
    }
    for (uint32_t v = 0; v < versions; v++)
        r->versions[v].gone = PLAN_NEVER;
    return EBB_OK;
}

/* Nodes: online every op by its number; offline those that run, in the order asked for. */
static enum ebb_status add_nodes(struct plan_recipes *r, enum plan_look look, struct ebb_error *err)
{
    const struct trace *t = r->trace;
    struct maker m = {.r = r};
    uint32_t count = t->op_count;
    uint32_t *order = ebb_arena_calloc(&r->arena, (size_t)count + 1, sizeof *order);
    m.seen = ebb_arena_calloc(&r->arena, (size_t)r->storage_count + 1, sizeof *m.seen);
    EBB_TRY(ebb_arena_status(&r->arena, err));
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    if (!r->is_online)
        EBB_TRY(trace_reorder(t, look == PLAN_EARLY ? TRACE_EARLY : TRACE_AS_RECORDED, order,
                              &count, &r->is_moved, err));
    for (uint32_t i = 0; i < count; i++)
        add_node(&m, order[i]);
    add_end(&m);
    keep_pinned(r);
    add_uses(r);
    r->base_cost = r->clock[r->node_count];
    return EBB_OK;
}

enum ebb_status plan_recipes_create(struct plan_recipes **recipes, const struct trace *trace,
                                    const struct plan_homes *homes, enum plan_look look,
                                    struct ebb_error *err)
{
    struct plan_recipes *r;
    EBB_TRY(ebb_new(&r, 1, sizeof *r, err));
    r->trace = trace;
    r->is_online = look == PLAN_ONLINE;
    r->exact_bytes = trace->is_graph && !r->is_online;
    r->storage_count = trace->storage_count;
    enum ebb_status status = allocate(r, err);
    EBB_THEN(status, add_storages(r, homes, err));
    EBB_THEN(status, add_nodes(r, look, err));
    if (status == EBB_OK)
        plan_recipes_settle(r, &(struct plan_holds){0});
    return EBB_HAND_OUT(status, recipes, r, plan_recipes_destroy);
}

void plan_recipes_destroy(struct plan_recipes *recipes)
{
    if (!recipes)
        return;
    ebb_arena_fini(&recipes->arena);
    ebb_free(recipes);
}
