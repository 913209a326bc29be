/* Evicted neighbourhoods on random graphs: exact values against walks from scratch, bounds never
 * above them, and every bound that falls is told. Seeds are fixed. */
#include <stdio.h>
#include "test.h"
#include "exec_traces.h"

#include "base/heap.h"
#include "base/rng.h"
#include "mem/mem.h"

#define MOST 400

enum away { HERE, NEEDED, GONE, ELSEWHERE /* in another tier: neigh is not told */ };

struct scene {
    const struct trace *t;
    struct mem_graph graph;
    struct mem_neigh neigh;
    uint8_t is_resident[MOST], is_candidate[MOST], away[MOST], exists[MOST], seen[MOST];
    int64_t cost[MOST], before[MOST];
    uint32_t count;
    uint64_t random;
};

/* Edges straight from the trace: an op up to now_op reads `from` and makes `to`. */
static bool has_edge(const struct scene *w, uint32_t from, uint32_t to)
{
    const struct trace *t = w->t;
    for (uint32_t o = 0; o <= w->neigh.now_op && from != to; o++) {
        const struct trace_op *op = &t->ops[o];
        bool makes = false, reads = false, is_view_only = true;
        for (uint32_t k = 0; k < op->output_count; k++) {
            const struct trace_tensor *x = &t->tensors[op->output_first + k];
            makes |= x->storage == to;
            is_view_only &= x->alias == TRACE_VIEW;
        }
        for (uint32_t i = 0; i < op->input_count; i++)
            reads |= t->tensors[t->inputs[op->input_first + i]].storage == from;
        if (makes && reads && !is_view_only)
            return true;
    }
    return false;
}

static bool edges[MOST][MOST];

static void collect_edges(const struct scene *w)
{
    for (uint32_t a = 0; a < w->count; a++)
        for (uint32_t b = 0; b < w->count; b++)
            edges[a][b] = w->exists[a] && w->exists[b] && has_edge(w, a, b);
}

/* Costs of what is away and reachable through what is away; the dead count backwards only. */
static int64_t walk(struct scene *w, uint32_t at, bool is_backward)
{
    int64_t sum = 0;
    for (uint32_t other = 0; other < w->count; other++) {
        if (w->seen[other] || !(is_backward ? edges[other][at] : edges[at][other]))
            continue;
        if (w->away[other] != NEEDED && !(w->away[other] == GONE && is_backward))
            continue;
        w->seen[other] = 1;
        sum += w->cost[other] + walk(w, other, is_backward);
    }
    return sum;
}

static int64_t from_scratch(struct scene *w, uint32_t s)
{
    int64_t sum = w->cost[s];
    memset(w->seen, 0, sizeof w->seen);
    w->seen[s] = 1;
    sum += walk(w, s, true);
    if (w->neigh.numerator == MEM_ANCESTORS)
        return sum;
    memset(w->seen, 0, sizeof w->seen);
    w->seen[s] = 1;
    return sum + walk(w, s, false);
}

static void remember(struct scene *w)
{
    memcpy(w->before, w->neigh.bound, w->count * sizeof *w->before);
}

/* What fell in the last call is listed, so that a caller who keys an index by bounds hears of it.
 */
static void check_told(struct scene *w, uint32_t self)
{
    for (uint32_t s = 0; s < w->count; s++) {
        if (s == self || w->neigh.bound[s] >= w->before[s])
            continue;
        bool is_told = false;
        for (size_t i = 0; i < w->neigh.lowered_count; i++)
            is_told |= w->neigh.lowered[i] == s;
        CHECK(is_told);
    }
}

static void need_ancestors(struct scene *w, uint32_t s)
{
    for (uint32_t p = 0; p < w->count; p++) {
        if (edges[p][s] && w->away[p] == GONE) {
            w->away[p] = NEEDED;
            need_ancestors(w, p);
        }
    }
}

static void leave(struct scene *w, uint32_t s, enum away how)
{
    struct ebb_error err;
    w->is_resident[s] = 0;
    w->away[s] = (uint8_t)how;
    remember(w);
    if (how == ELSEWHERE)
        return;
    CHECK_OK(mem_neigh_evicted(&w->neigh, s, how == NEEDED, &err), &err);
    if (how == NEEDED)
        need_ancestors(w, s);
    check_told(w, MEM_NONE);
}

static void come(struct scene *w, uint32_t s)
{
    struct ebb_error err;
    w->is_resident[s] = 1;
    w->away[s] = HERE;
    remember(w);
    CHECK_OK(mem_neigh_returned(&w->neigh, s, &err), &err);
    check_told(w, s);
}

static void check_all(struct scene *w)
{
    int64_t all = 0;
    for (uint32_t s = 0; s < w->count; s++)
        all += w->away[s] == NEEDED || w->away[s] == GONE ? w->cost[s] : 0;
    for (uint32_t s = 0; s < w->count; s++) {
        if (!w->exists[s] || !w->is_resident[s] || !w->is_candidate[s])
            continue;
        int64_t exact = mem_neigh_exact(&w->neigh, s);
        CHECK(w->neigh.bound[s] <= exact);
        if (w->neigh.numerator == MEM_EQ) { /* classes may be too large, not too small */
            int64_t least = w->cost[s];
            for (uint32_t other = 0; other < w->count; other++)
                if (((edges[s][other] || edges[other][s]) && w->away[other] == NEEDED) ||
                    (edges[other][s] && w->away[other] == GONE && other < s))
                    least += w->cost[other];
            CHECK(exact >= least);
            CHECK(exact <= w->cost[s] + all);
        } else if (w->neigh.numerator == MEM_LOCAL) {
            CHECK_EQ(exact, w->cost[s]);
        } else {
            CHECK_EQ(exact, from_scratch(w, s));
        }
        if (ebb_splitmix64(&w->random) % 3 == 0)
            w->neigh.bound[s] = exact; /* as exec does with the winner */
    }
}

static void play_op(struct scene *w, uint32_t o)
{
    const struct trace *t = w->t;
    const struct trace_op *op = &t->ops[o];
    w->neigh.now_op = o;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t s = t->tensors[t->inputs[op->input_first + i]].storage;
        if (!w->is_resident[s])
            come(w, s);
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        uint32_t s = t->tensors[op->output_first + k].storage;
        if (t->tensors[op->output_first + k].alias != TRACE_FRESH)
            continue;
        w->exists[s] = 1;
        w->is_candidate[s] = !op->is_leaf;
        w->cost[s] = (int64_t)op->cost_ns;
        come(w, s);
    }
    collect_edges(w);
    for (int i = 0; i < 4; i++) {
        uint64_t bits = ebb_splitmix64(&w->random);
        uint32_t s = (uint32_t)(bits % w->count);
        if (!w->exists[s] || !w->is_candidate[s])
            continue;
        if (!w->is_resident[s])
            come(w, s);
        else
            leave(w, s, bits >> 40 & 3 ? NEEDED : bits >> 42 & 1 ? GONE : ELSEWHERE);
        if (i % 2 == 0)
            check_all(w);
    }
}

static void play(uint64_t seed, enum mem_numerator numerator)
{
    static struct scene w;
    struct ebb_error err;
    uint64_t blocks = ebb_heap_live();
    struct trace *t = exec_traces_nasty(seed, seed % 2);
    w = (struct scene){.t = t, .count = t->storage_count, .random = seed};
    CHECK(t->storage_count <= MOST);
    CHECK_OK(mem_graph_init(&w.graph, t, false, &err), &err);
    CHECK_OK(mem_neigh_init(&w.neigh, &w.graph, numerator, &err), &err);
    w.neigh.is_resident = w.is_resident;
    w.neigh.is_candidate = w.is_candidate;
    w.neigh.cost = w.cost;
    for (uint32_t o = 0; o < t->op_count; o++)
        play_op(&w, o);
    mem_neigh_fini(&w.neigh);
    mem_graph_fini(&w.graph);
    trace_destroy(t);
    CHECK_EQ(ebb_heap_live(), blocks);
}

TEST(regions__equal_walks_from_scratch)
{
    for (uint64_t seed = 1; seed <= 40; seed++)
        play(seed, seed % 4 ? MEM_REGION : MEM_UNION);
}

TEST(ancestors__equal_walks_from_scratch)
{
    for (uint64_t seed = 101; seed <= 140; seed++)
        play(seed, MEM_ANCESTORS);
}

TEST(classes__cover_what_is_away_nearby)
{
    for (uint64_t seed = 201; seed <= 260; seed++)
        play(seed, MEM_EQ);
}

TEST(local__is_the_own_cost)
{
    play(301, MEM_LOCAL);
}

/* Every list is free of duplicates and sorted by birth, and both directions tell the same. */
TEST(graphs__list_each_edge_once_in_order)
{
    static struct scene w;
    struct ebb_error err;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct trace *t = exec_traces_nasty(seed, true);
        struct mem_graph g;
        CHECK_OK(mem_graph_init(&g, t, false, &err), &err);
        w = (struct scene){.t = t, .count = t->storage_count};
        w.neigh.now_op = t->op_count - 1;
        memset(w.exists, 1, sizeof w.exists);
        collect_edges(&w);
        for (uint32_t s = 0; s < g.storage_count; s++) {
            uint32_t parents = 0, children = 0;
            for (uint32_t other = 0; other < w.count; other++) {
                parents += edges[other][s];
                children += edges[s][other];
            }
            CHECK_EQ(g.parent_first[s + 1] - g.parent_first[s], parents);
            CHECK_EQ(g.child_first[s + 1] - g.child_first[s], children);
            for (uint32_t e = g.parent_first[s]; e < g.parent_first[s + 1]; e++) {
                CHECK(edges[g.parents[e].storage][s]);
                CHECK(e == g.parent_first[s] || g.parents[e].birth >= g.parents[e - 1].birth);
            }
            for (uint32_t e = g.child_first[s]; e < g.child_first[s + 1]; e++) {
                CHECK(edges[s][g.children[e].storage]);
                CHECK(e == g.child_first[s] || g.children[e].birth >= g.children[e - 1].birth);
            }
            for (uint32_t e = g.neighbour_first[s]; e < g.neighbour_first[s + 1]; e++) {
                uint32_t other = g.neighbours[e].storage;
                CHECK(edges[s][other] || edges[other][s]);
                for (uint32_t f = g.neighbour_first[s]; f < e; f++)
                    CHECK(g.neighbours[f].storage != other);
            }
        }
        mem_graph_fini(&g);
        trace_destroy(t);
    }
}

TEST_MAIN()
