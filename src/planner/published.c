/* published.c - columns and rows of the published ILP, constraint by constraint (numbers as in spec
 * 6). */
#include "planner/published.h"

#include <string.h>

#include "base/heap.h"

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
    struct ebb_error *err;
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

static enum ebb_status add_cells(struct pub *b)
{
    uint32_t n = b->g->node_count;
    bool is_full = b->p->imposed == PLANNER_IMPOSED_FULL;
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < n; i++) {
            double r_low = is_full && i == t, r_high = is_full && i > t ? 0 : 1;
            double s_high = t == 0 || (is_full && i >= t) ? 0 : 1;
            EBB_TRY(planner_mip_col(&b->p->mip, r_low, r_high,
                                    (double)b->g->nodes[i].cost * b->p->cost_scale, true,
                                    &b->p->r[(size_t)t * n + i], b->err));
            EBB_TRY(planner_mip_col(&b->p->mip, 0, s_high, 0, true, &b->p->s[(size_t)t * n + i],
                                    b->err));
        }
    for (uint32_t i = 0; i < n && !is_full;
         i++) { /* every column, or only the last, runs at least once */
        if (b->p->imposed == PLANNER_IMPOSED_LAST && i + 1 < n)
            continue;
        EBB_TRY(planner_mip_row(&b->p->mip, 1, PLANNER_INF, b->err));
        for (uint32_t t = 0; t < n; t++)
            EBB_TRY(planner_mip_term(&b->p->mip, r_at(b, t, i), 1, b->err));
    }
    return EBB_OK;
}

/* (2) and (3) */
static enum ebb_status dependency_rows(struct pub *b, uint32_t t)
{
    struct planner_mip *mip = &b->p->mip;
    const struct planner_graph *g = b->g;
    for (uint32_t i = 0; i < g->node_count && t + 1 < g->node_count; i++) {
        EBB_TRY(planner_mip_row(mip, -PLANNER_INF, 0, b->err));
        EBB_TRY(planner_mip_term(mip, s_at(b, t + 1, i), 1, b->err));
        EBB_TRY(planner_mip_term(mip, s_at(b, t, i), -1, b->err));
        EBB_TRY(planner_mip_term(mip, r_at(b, t, i), -1, b->err));
    }
    for (uint32_t v = 0; v < g->node_count; v++)
        for (uint32_t k = 0; k < g->nodes[v].in_count; k++) {
            uint32_t u = g->ins[g->nodes[v].in_first + k];
            EBB_TRY(planner_mip_row(mip, -PLANNER_INF, 0, b->err));
            EBB_TRY(planner_mip_term(mip, r_at(b, t, v), 1, b->err));
            EBB_TRY(planner_mip_term(mip, r_at(b, t, u), -1, b->err));
            EBB_TRY(planner_mip_term(mip, s_at(b, t, u), -1, b->err));
        }
    return EBB_OK;
}

/* Terms of H(t,i,k) without its constant 1, times `sign`. */
static enum ebb_status hazard_terms(struct pub *b, uint32_t t, uint32_t i, uint32_t use,
                                    double sign)
{
    struct planner_mip *mip = &b->p->mip;
    const struct planner_item *item = &b->g->items[i];
    EBB_TRY(planner_mip_term(mip, r_at(b, t, b->g->uses[item->use_first + use]), -sign, b->err));
    if (t + 1 < b->g->node_count)
        EBB_TRY(planner_mip_term(mip, s_at(b, t + 1, i), sign, b->err));
    for (uint32_t u = use + 1; u < item->use_count; u++)
        EBB_TRY(planner_mip_term(mip, r_at(b, t, b->g->uses[item->use_first + u]), sign, b->err));
    return EBB_OK;
}

/* (4): 1 - FREE <= H and Hmax (1 - FREE) >= H, H = 1 + terms. */
static enum ebb_status hazard_rows(struct pub *b, uint32_t t)
{
    struct planner_mip *mip = &b->p->mip;
    const struct planner_graph *g = b->g;
    for (uint32_t i = 0; i < g->item_count; i++)
        for (uint32_t use = 0; use < g->items[i].use_count; use++) {
            int *f = &b->free_col[g->items[i].use_first + use];
            double most =
                (double)(g->items[i].use_count - 1 - use) + (t + 1 < g->node_count ? 2.0 : 1.0);
            EBB_TRY(planner_mip_col(mip, 0, 1, 0, true, f, b->err));
            EBB_TRY(planner_mip_row(mip, 0, PLANNER_INF, b->err));
            EBB_TRY(planner_mip_term(mip, *f, 1, b->err));
            EBB_TRY(hazard_terms(b, t, i, use, 1));
            EBB_TRY(planner_mip_row(mip, 1 - most, PLANNER_INF, b->err));
            EBB_TRY(planner_mip_term(mip, *f, -most, b->err));
            EBB_TRY(hazard_terms(b, t, i, use, -1));
        }
    return EBB_OK;
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
static enum ebb_status memory_rows(struct pub *b, uint32_t t)
{
    struct planner_mip *mip = &b->p->mip;
    const struct planner_graph *g = b->g;
    int previous = -1;
    for (uint32_t k = 0; k < g->node_count; k++) {
        int u;
        double workspace = (double)g->nodes[k].workspace_bytes * b->scale;
        EBB_TRY(planner_mip_col(mip, 0, b->budget, 0, false, &u, b->err));
        EBB_TRY(planner_mip_row(mip, 0, 0, b->err));
        EBB_TRY(planner_mip_term(mip, u, 1, b->err));
        EBB_TRY(
            planner_mip_term(mip, r_at(b, t, k), -(double)g->items[k].bytes * b->scale, b->err));
        for (uint32_t i = 0; i < g->item_count && k == 0; i++)
            EBB_TRY(planner_mip_term(mip, s_at(b, t, i), -(double)g->items[i].bytes * b->scale,
                                     b->err));
        if (previous >= 0)
            EBB_TRY(planner_mip_term(mip, previous, -1, b->err));
        for (uint32_t e = 0; k > 0 && e < g->nodes[k - 1].in_count; e++) {
            uint32_t i = g->ins[g->nodes[k - 1].in_first + e];
            EBB_TRY(planner_mip_term(mip, free_of(b, i, k - 1),
                                     (double)g->items[i].bytes * b->scale, b->err));
        }
        if (workspace > 0) {
            EBB_TRY(planner_mip_row(mip, -PLANNER_INF, b->budget, b->err));
            EBB_TRY(planner_mip_term(mip, u, 1, b->err));
            EBB_TRY(planner_mip_term(mip, r_at(b, t, k), workspace, b->err));
        }
        previous = u;
    }
    return EBB_OK;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
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
    struct pub b = {.p = p, .g = graph, .err = err};
    planner_mip_init(&p->mip);
    p->r = ebb_calloc(cells, sizeof *p->r);
    p->s = ebb_calloc(cells, sizeof *p->s);
    b.free_col = ebb_calloc(graph->edge_count + 1, sizeof *b.free_col);
    enum ebb_status status = EBB_OK;
    if (!p->r || !p->s || !b.free_col) {
        status = ebb_no_memory(err, cells * sizeof *p->r);
        goto out;
    }
    uint64_t unit = budget, largest = 1;
    for (uint32_t i = 0; i < graph->item_count; i++) {
        unit = gcd(unit, graph->items[i].bytes);
        if (graph->items[i].bytes > largest)
            largest = graph->items[i].bytes;
    }
    b.scale = 1.0 / (double)(unit ? unit : 1);
    while ((double)largest * b.scale > 1e7)
        b.scale /= 2;
    b.budget = (double)budget * b.scale;
    p->cost_scale = graph->base_cost ? 1e4 / (double)graph->base_cost : 1;
    status = add_cells(&b);
    for (uint32_t t = 0; t < graph->node_count && status == EBB_OK; t++) {
        status = dependency_rows(&b, t);
        if (status == EBB_OK)
            status = hazard_rows(&b, t);
        if (status == EBB_OK)
            status = memory_rows(&b, t);
    }
out:
    ebb_free(b.free_col);
    if (status != EBB_OK)
        planner_published_fini(p);
    return status;
}

void planner_published_fini(struct planner_published *p)
{
    planner_mip_fini(&p->mip);
    ebb_free(p->r);
    ebb_free(p->s);
    p->r = p->s = NULL;
}

void planner_published_round(const struct planner_published *p, const double *x, double threshold,
                             struct planner_sched *sched)
{
    uint32_t n = p->graph->node_count;
    memset(sched->keep, 0, (size_t)sched->stages * sched->words * sizeof *sched->keep);
    for (uint32_t t = 1; t < n; t++)
        for (uint32_t i = 0; i < t; i++)
            if (x[p->s[(size_t)t * n + i]] >= threshold)
                planner_keep(sched, t, i);
}
