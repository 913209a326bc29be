/* floor_bound.c - what no plan can be without.
 *
 * While node t runs for the first time, three kinds of bytes are in memory in every plan whose
 * first runs and in-place writes follow the trace: the persistent storages; what t reads, makes and
 * works in; and enough of the rest that everything read later can still be had. The last is a cut.
 * A version that lies nowhere can be had only by its recipe, hence only if everything the recipe
 * reads can be had; it is lost for good when it has no recipe (leaves, `once`) or the recipe reads
 * a version that has been overwritten. So every path of recipes from something lost to something
 * read later must hold a resident: the least bytes that do are a minimum vertex cut, and that is
 * the greatest flow of bytes. What t reads and makes is there and counts as cut for nothing.
 *
 * The bound is the largest over the stages that are looked at; each alone is valid. They are taken
 * in the order of a quick estimate from above, until that is no larger than what was found. */
#include "planner/floor.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "planner/planner.h"

#define MOST_STAGES 12 /* looked at by flow */
#define ENDLESS (UINT64_C(1) << 62)

struct arc {
    uint32_t to, next; /* next arc of the same vertex */
    uint64_t room;     /* what more can flow; the arc back is this one's number ^ 1 */
};

struct flow {
    const struct plan_recipes *g;
    struct arc *arcs;
    size_t arc_count, arc_capacity;
    uint32_t *head, *at, *depth, *queue, *path; /* per vertex */
    uint32_t vertex_count;
    uint32_t *current; /* storage -> version that is current, PLAN_NEVER before it is made */
    uint32_t *free_at; /* storage -> working set it lies in */
    uint32_t set;      /* number of the working set that was marked last */
};

static enum ebb_status add_arc(struct flow *f, uint32_t from, uint32_t to, uint64_t room,
                               struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&f->arcs, &f->arc_capacity, f->arc_count + 2, sizeof *f->arcs, err));
    f->arcs[f->arc_count] = (struct arc){.to = to, .next = f->head[from], .room = room};
    f->head[from] = (uint32_t)f->arc_count++;
    f->arcs[f->arc_count] = (struct arc){.to = from, .next = f->head[to], .room = 0};
    f->head[to] = (uint32_t)f->arc_count++;
    return EBB_OK;
}

/* Vertices: 2s enters storage s, 2s + 1 leaves it; the arc between carries its bytes. */
static uint32_t source_of(const struct flow *f)
{
    return f->vertex_count - 2;
}

static uint32_t sink_of(const struct flow *f)
{
    return f->vertex_count - 1;
}

/* Depths of all that is nearer than the sink: no shortest path leads through anything else. */
static bool is_reached(struct flow *f)
{
    uint32_t first = 0, count = 0;
    memset(f->depth, 0xff, f->vertex_count * sizeof *f->depth);
    f->depth[source_of(f)] = 0;
    f->queue[count++] = source_of(f);
    while (first < count && f->depth[sink_of(f)] == PLAN_NEVER) {
        uint32_t v = f->queue[first++];
        for (uint32_t a = f->head[v]; a != PLAN_NEVER; a = f->arcs[a].next) {
            if (f->arcs[a].room > 0 && f->depth[f->arcs[a].to] == PLAN_NEVER) {
                f->depth[f->arcs[a].to] = f->depth[v] + 1;
                f->queue[count++] = f->arcs[a].to;
            }
        }
    }
    return f->depth[sink_of(f)] != PLAN_NEVER;
}

/* Send what one path carries along it; back to the first arc that is full. */
static uint32_t send(struct flow *f, uint32_t length, uint64_t *total)
{
    uint64_t least = ENDLESS;
    uint32_t keep = length;
    for (uint32_t i = 0; i < length; i++)
        least = f->arcs[f->path[i]].room < least ? f->arcs[f->path[i]].room : least;
    for (uint32_t i = length; i-- > 0;) {
        f->arcs[f->path[i]].room -= least;
        f->arcs[f->path[i] ^ 1].room += least;
        if (f->arcs[f->path[i]].room == 0)
            keep = i;
    }
    *total += least;
    return keep;
}

/* Dinic's algorithm; paths are walked without recursion. */
static uint64_t max_flow(struct flow *f)
{
    uint64_t total = 0;
    while (is_reached(f)) {
        memcpy(f->at, f->head, f->vertex_count * sizeof *f->at);
        uint32_t length = 0;
        for (;;) {
            uint32_t v = length ? f->arcs[f->path[length - 1]].to : source_of(f);
            if (v == sink_of(f)) {
                length = send(f, length, &total);
                continue;
            }
            uint32_t a = f->at[v];
            while (a != PLAN_NEVER &&
                   !(f->arcs[a].room > 0 && f->depth[f->arcs[a].to] == f->depth[v] + 1))
                a = f->arcs[a].next;
            f->at[v] = a;
            if (a != PLAN_NEVER) {
                f->path[length++] = a;
            } else if (length == 0) {
                break;
            } else { /* a dead end: do not come here again */
                f->depth[v] = PLAN_NEVER;
                length--;
            }
        }
    }
    return total;
}

/* ---- one stage ------------------------------------------------------------------------------- */

/* Does it lie there anyway? */
static bool is_free(const struct flow *f, uint32_t s)
{
    return f->free_at[s] == f->set || f->g->storages[s].base != PLAN_NOWHERE;
}

/* What the working set of node t takes besides persistent storages; marks it as there. */
static uint64_t take_working_set(struct flow *f, uint32_t t)
{
    const struct plan_recipes *g = f->g;
    const struct plan_node *node = &g->nodes[t];
    uint64_t bytes = node->workspace_bytes;
    f->set++;
    for (uint32_t k = 0; k < node->in_count + node->out_count; k++) {
        struct plan_ref ref = k < node->in_count ? g->ins[node->in_first + k]
                                                 : g->outs[node->out_first + k - node->in_count];
        const struct plan_storage *st = &g->storages[ref.storage];
        /* an output nobody reads need not be made */
        bool is_skipped = k >= node->in_count && st->use_count == 0 && node->can_skip;
        if (!is_free(f, ref.storage) && !is_skipped)
            bytes += st->bytes;
        f->free_at[ref.storage] = f->set;
    }
    return bytes;
}

static void find_current(struct flow *f, uint32_t t)
{
    const struct plan_recipes *g = f->g;
    for (uint32_t s = 0; s < g->storage_count; s++) {
        const struct plan_storage *st = &g->storages[s];
        f->current[s] = PLAN_NEVER;
        for (uint32_t v = 0; v < st->version_count; v++)
            if (g->versions[st->version_first + v].maker <= t)
                f->current[s] = v;
    }
}

/* Arcs of storage s at stage t: from what its recipe reads, or from the source when it is lost. */
static enum ebb_status add_storage(struct flow *f, uint32_t s, uint32_t t, struct ebb_error *err)
{
    const struct plan_recipes *g = f->g;
    bool is_lost = false;
    for (uint32_t v = 0; v <= f->current[s]; v++) {
        const struct plan_node *node = &g->nodes[plan_version_of(g, s, v)->maker];
        is_lost |= !node->is_replayable;
        for (uint32_t i = 0; i < node->in_count && !is_lost; i++) {
            struct plan_ref in = g->ins[node->in_first + i];
            is_lost |= in.storage != s && plan_version_of(g, in.storage, in.version)->gone <= t;
        }
    }
    EBB_TRY(add_arc(f, 2 * s, 2 * s + 1, g->storages[s].bytes, err));
    if (plan_version_of(g, s, f->current[s])->last_use > t)
        EBB_TRY(add_arc(f, 2 * s + 1, sink_of(f), ENDLESS, err));
    if (is_lost)
        return add_arc(f, source_of(f), 2 * s, ENDLESS, err);
    for (uint32_t v = 0; v <= f->current[s]; v++) {
        const struct plan_node *node = &g->nodes[plan_version_of(g, s, v)->maker];
        for (uint32_t i = 0; i < node->in_count; i++) {
            uint32_t in = g->ins[node->in_first + i].storage;
            if (in != s && !is_free(f, in))
                EBB_TRY(add_arc(f, 2 * in + 1, 2 * s, ENDLESS, err));
        }
    }
    return EBB_OK;
}

/* Bytes no plan can be without while t runs (t = node_count: at the end). */
static enum ebb_status stage_bound(struct flow *f, uint32_t t, uint64_t *bytes,
                                   struct ebb_error *err)
{
    const struct plan_recipes *g = f->g;
    uint64_t working = take_working_set(f, t);
    find_current(f, t);
    f->arc_count = 0;
    memset(f->head, 0xff, f->vertex_count * sizeof *f->head);
    for (uint32_t s = 0; s < g->storage_count; s++)
        if (f->current[s] != PLAN_NEVER && !is_free(f, s) && g->storages[s].bytes > 0)
            EBB_TRY(add_storage(f, s, t, err));
    *bytes = g->base_bytes + max_flow(f) + working;
    return EBB_OK;
}

/* ---- which stages ---------------------------------------------------------------------------- */

struct guess {
    uint64_t bytes;
    uint32_t stage;
};

static int compare_guesses(const void *a, const void *b)
{
    const struct guess *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->stage < y->stage ? -1 : x->stage > y->stage;
}

/* What is there at each stage if nothing is made again whose recipe reads something overwritten:
 * leaves and outputs of `once` ops until their last reader, the keep set from when it is final, and
 * what is read after its recipe ended. Mostly no less than the least cut. Difference sums over
 * stages; with each working set on top (counted twice where held). */
static void make_guesses(struct flow *f, bool with_working_set, struct guess *guesses)
{
    const struct plan_recipes *g = f->g;
    for (uint32_t t = 0; t <= g->node_count + 1; t++)
        guesses[t] = (struct guess){.stage = t};
    for (uint32_t s = 0; s < g->storage_count; s++) {
        const struct plan_storage *st = &g->storages[s];
        for (uint32_t k = 0; k < st->version_count && st->base == PLAN_NOWHERE; k++) {
            const struct plan_version *v = &g->versions[st->version_first + k];
            uint32_t from = plan_pinned_from(v) > v->maker ? plan_pinned_from(v) : v->maker;
            uint32_t to = v->last_use;
            if (st->is_kept && k + 1 == st->version_count)
                from = v->maker;
            if (from > to)
                continue;
            guesses[from].bytes += st->bytes;
            guesses[to + 1].bytes -= st->bytes; /* wraps, and back in the sum */
        }
    }
    uint64_t now = g->base_bytes;
    for (uint32_t t = 0; t <= g->node_count; t++) {
        now += guesses[t].bytes;
        guesses[t].bytes = now + (with_working_set ? take_working_set(f, t) : 0);
    }
    qsort(guesses, (size_t)g->node_count + 1, sizeof *guesses, compare_guesses);
}

static void allocate(struct flow *f, struct ebb_arena *a)
{
    size_t vertices = f->vertex_count, storages = (size_t)f->g->storage_count + 1;
    f->head = ebb_arena_calloc(a, vertices, 4);
    f->at = ebb_arena_calloc(a, vertices, 4);
    f->depth = ebb_arena_calloc(a, vertices, 4);
    f->queue = ebb_arena_calloc(a, vertices, 4);
    f->path = ebb_arena_calloc(a, vertices, 4);
    f->current = ebb_arena_calloc(a, storages, 4);
    f->free_at = ebb_arena_calloc(a, storages, 4);
}

static enum ebb_status find_largest(struct flow *f, struct guess *guesses, uint64_t *largest,
                                    struct ebb_error *err)
{
    make_guesses(f, true, guesses);
    for (uint32_t i = 0; i <= f->g->node_count && i < MOST_STAGES; i++) {
        uint64_t bytes;
        if (guesses[i].bytes <= *largest)
            break;
        EBB_TRY(stage_bound(f, guesses[i].stage, &bytes, err));
        *largest = bytes > *largest ? bytes : *largest;
    }
    return EBB_OK;
}

static enum ebb_status find_bounds(struct flow *f, struct guess *guesses,
                                   struct planner_floor_facts *facts, struct ebb_error *err)
{
    facts->working_bytes = facts->always_live_bytes = facts->lower_bound_bytes = 0;
    for (uint32_t t = 0; t < f->g->node_count; t++) {
        uint64_t working = take_working_set(f, t);
        facts->working_bytes = working > facts->working_bytes ? working : facts->working_bytes;
    }
    make_guesses(f, false, guesses);
    facts->always_live_bytes = guesses[0].bytes;
    EBB_TRY(planner_floor_last(f->g, &facts->lower_bound_bytes, err));
    return find_largest(f, guesses, &facts->lower_bound_bytes, err);
}

enum ebb_status planner_floor_bound(const struct plan_recipes *g, struct planner_floor_facts *facts,
                                    struct ebb_error *err)
{
    struct flow f = {.g = g, .vertex_count = 2 * g->storage_count + 2};
    struct ebb_arena arena = {0};
    struct guess *guesses = ebb_arena_calloc(&arena, (size_t)g->node_count + 2, sizeof *guesses);
    allocate(&f, &arena);
    enum ebb_status status = ebb_arena_status(&arena, err);
    EBB_THEN(status, find_bounds(&f, guesses, facts, err));
    ebb_free(f.arcs);
    ebb_arena_fini(&arena);
    return status;
}
