/* published.c - columns and rows of the published ILP, constraint by constraint. */
#include "planner/published.h"

bool planner_published_applies(const struct planner_graph *graph)
{
    if (graph->item_count != graph->node_count)
        return false;
    for (uint32_t v = 0; v < graph->node_count; v++)
        if (graph->nodes[v].out_count != 1 || graph->nodes[v].is_fixed ||
            graph->nodes[v].deadline != TRACE_NONE || graph->items[v].is_kept)
            return false;
    return true;
}

struct pub {
    struct planner_published *p;
    const struct planner_graph *g;
    int *free_col; /* per edge (item use) of the current stage */
    double scale, budget;
};

static int r_at(const struct pub *b, uint32_t t, uint32_t i)
{
    return b->p->r[(size_t)t * b->g->node_count + i];
}

static int s_at(const struct pub *b, uint32_t t, uint32_t i)
{
    return b->p->s[(size_t)t * b->g->node_count + i];
}

static void add_cells(struct pub *b)
{
    uint32_t n = b->g->node_count;
    bool is_full = b->p->imposed == PLANNER_IMPOSED_FULL;
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < n; i++) {
            double r_low = is_full && i == t, r_high = is_full && i > t ? 0 : 1;
            double s_high = t == 0 || (is_full && i >= t) ? 0 : 1;
            b->p->r[(size_t)t * n + i] = planner_mip_col(
                &b->p->mip, r_low, r_high, (double)b->g->nodes[i].cost * b->p->cost_scale, true);
            b->p->s[(size_t)t * n + i] = planner_mip_col(&b->p->mip, 0, s_high, 0, true);
        }
    for (uint32_t i = 0; i < n && !is_full;
         i++) { /* every column, or only the last, runs at least once */
        if (b->p->imposed == PLANNER_IMPOSED_LAST && i + 1 < n)
            continue;
        planner_mip_row(&b->p->mip, 1, PLANNER_INF);
        for (uint32_t t = 0; t < n; t++)
            planner_mip_term(&b->p->mip, r_at(b, t, i), 1);
    }
}

/* (2) and (3) */
static void dependency_rows(struct pub *b, uint32_t t)
{
    struct planner_mip *mip = &b->p->mip;
    const struct planner_graph *g = b->g;
    for (uint32_t i = 0; i < g->node_count && t + 1 < g->node_count; i++)
        planner_mip_at_most(mip, s_at(b, t + 1, i), s_at(b, t, i), r_at(b, t, i));
    for (uint32_t v = 0; v < g->node_count; v++)
        for (uint32_t k = 0; k < g->nodes[v].in_count; k++) {
            uint32_t u = g->ins[g->nodes[v].in_first + k];
            planner_mip_at_most(mip, r_at(b, t, v), r_at(b, t, u), s_at(b, t, u));
        }
}

/* Terms of H(t,i,k) without its constant 1, times `sign`. */
static void hazard_terms(struct pub *b, uint32_t t, uint32_t i, uint32_t use, double sign)
{
    struct planner_mip *mip = &b->p->mip;
    const struct planner_item *item = &b->g->items[i];
    planner_mip_term(mip, r_at(b, t, b->g->uses[item->use_first + use]), -sign);
    if (t + 1 < b->g->node_count)
        planner_mip_term(mip, s_at(b, t + 1, i), sign);
    for (uint32_t u = use + 1; u < item->use_count; u++)
        planner_mip_term(mip, r_at(b, t, b->g->uses[item->use_first + u]), sign);
}

/* (4): 1 - FREE <= H and Hmax (1 - FREE) >= H, H = 1 + terms. */
static void hazard_rows(struct pub *b, uint32_t t)
{
    struct planner_mip *mip = &b->p->mip;
    const struct planner_graph *g = b->g;
    for (uint32_t i = 0; i < g->item_count; i++)
        for (uint32_t use = 0; use < g->items[i].use_count; use++) {
            int *f = &b->free_col[g->items[i].use_first + use];
            double most =
                (double)(g->items[i].use_count - 1 - use) + (t + 1 < g->node_count ? 2.0 : 1.0);
            *f = planner_mip_col(mip, 0, 1, 0, true);
            planner_mip_row(mip, 0, PLANNER_INF);
            planner_mip_term(mip, *f, 1);
            hazard_terms(b, t, i, use, 1);
            planner_mip_row(mip, 1 - most, PLANNER_INF);
            planner_mip_term(mip, *f, -most);
            hazard_terms(b, t, i, use, -1);
        }
}

static int free_of(const struct pub *b, uint32_t i, uint32_t k)
{
    const struct planner_item *item = &b->g->items[i];
    for (uint32_t use = 0; use < item->use_count; use++)
        if (b->g->uses[item->use_first + use] == k)
            return b->free_col[item->use_first + use];
    return -1;
}

/* (5), (6), (7) */
static void memory_rows(struct pub *b, uint32_t t)
{
    struct planner_mip *mip = &b->p->mip;
    const struct planner_graph *g = b->g;
    int previous = -1;
    for (uint32_t k = 0; k < g->node_count; k++) {
        double workspace = (double)g->nodes[k].workspace_bytes * b->scale;
        int u = planner_mip_col(mip, 0, b->budget, 0, false);
        planner_mip_row(mip, 0, 0);
        planner_mip_term(mip, u, 1);
        planner_mip_term(mip, r_at(b, t, k), -(double)g->items[k].bytes * b->scale);
        for (uint32_t i = 0; i < g->item_count && k == 0; i++)
            planner_mip_term(mip, s_at(b, t, i), -(double)g->items[i].bytes * b->scale);
        planner_mip_term(mip, previous, -1);
        for (uint32_t e = 0; k > 0 && e < g->nodes[k - 1].in_count; e++) {
            uint32_t i = g->ins[g->nodes[k - 1].in_first + e];
            planner_mip_term(mip, free_of(b, i, k - 1), (double)g->items[i].bytes * b->scale);
        }
        if (workspace > 0) {
            planner_mip_row(mip, -PLANNER_INF, b->budget);
            planner_mip_term(mip, u, 1);
            planner_mip_term(mip, r_at(b, t, k), workspace);
        }
        previous = u;
    }
}

enum ebb_status planner_published_build(struct planner_published *p,
                                        const struct planner_graph *graph, uint64_t budget,
                                        enum planner_imposed imposed, struct ebb_error *err)
{
    size_t cells = (size_t)graph->node_count * graph->node_count;
    *p = (struct planner_published){.graph = graph, .imposed = imposed};
    if (!planner_published_applies(graph))
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "planner: the published model needs one pure output per op");
    struct pub b = {.p = p, .g = graph};
    uint64_t unit = budget;
    p->r = ebb_arena_calloc(&p->arena, cells, sizeof *p->r);
    p->s = ebb_arena_calloc(&p->arena, cells, sizeof *p->s);
    b.free_col =
        ebb_arena_calloc(&p->arena, graph->edge_count + graph->item_count + 1, sizeof *b.free_col);
    p->mip.is_short = p->arena.short_of > 0;
    b.scale = planner_mem_scale(graph, &unit);
    b.budget = (double)budget * b.scale;
    p->cost_scale = planner_cost_scale(graph);
    if (!p->mip.is_short)
        add_cells(&b);
    for (uint32_t t = 0; t < graph->node_count && !p->mip.is_short; t++) {
        dependency_rows(&b, t);
        hazard_rows(&b, t);
        memory_rows(&b, t);
    }
    enum ebb_status status = planner_mip_status(&p->mip, err);
    if (status != EBB_OK)
        planner_published_fini(p);
    return status;
}

void planner_published_fini(struct planner_published *p)
{
    planner_mip_fini(&p->mip);
    ebb_arena_fini(&p->arena);
}

void planner_published_round(const struct planner_published *p, const double *x, double threshold,
                             struct planner_sched *sched)
{
    uint32_t n = p->graph->node_count;
    planner_sched_clear(sched);
    for (uint32_t t = 1; t < n; t++)
        for (uint32_t i = 0; i < t; i++)
            if (x[p->s[(size_t)t * n + i]] >= threshold)
                planner_keep(sched, t, i);
}
