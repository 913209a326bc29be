/* cuts.c - rows and columns of the split program. */
#include "planner/cuts.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

#define NO_COL (-1)
#define ALWAYS (-2) /* S is one: what cannot be made again and is read later */

struct build {
    struct planner_cuts *cuts;
    struct planner_mip *mip;
    const struct planner_graph *g;
    const uint32_t *at; /* instants */
    uint32_t count;     /* of them; interval `count` holds what comes after the last */
    uint32_t *interval; /* node -> interval of its first run */
    uint32_t *last;     /* item -> last interval in which it can be of use */
    uint32_t *certain;  /* item -> last interval in which a first run reads it */
    int *s, *s_next;    /* item -> column of S at the begin and at the end of the interval */
    int *r;             /* node -> column of R in this interval */
    double cost_scale, mem_scale, budget;
};

static void find_intervals(struct build *b)
{
    for (uint32_t v = 0, k = 0; v < b->g->node_count; v++) {
        while (k < b->count && b->at[k] < v)
            k++;
        b->interval[v] = k;
    }
}

static uint32_t interval_begin(const struct build *b, uint32_t k)
{
    return k == 0 ? 0 : b->at[k - 1] + 1;
}

/* Later items first: an item is of use while a reader can still run for something of use. */
static void find_last(struct build *b)
{
    const struct planner_graph *g = b->g;
    for (uint32_t i = g->item_count; i-- > 0;) {
        const struct planner_item *item = &g->items[i];
        uint32_t last = b->interval[item->node];
        b->certain[i] = last;
        for (uint32_t u = 0; u < item->use_count; u++) {
            uint32_t reader = g->uses[item->use_first + u];
            const struct planner_node *node = &g->nodes[reader];
            if (b->interval[reader] > b->certain[i])
                b->certain[i] = b->interval[reader];
            for (uint32_t o = 0; o < node->out_count && !node->is_fixed; o++) {
                uint32_t later = b->last[node->out_first + o];
                while (later > last && interval_begin(b, later) > node->deadline)
                    later--;
                if (later > last)
                    last = later;
            }
        }
        if (b->certain[i] > last)
            last = b->certain[i];
        b->last[i] = item->is_kept ? b->count + 1 : last;
        if (item->is_kept)
            b->certain[i] = b->count + 1;
    }
}

/* Columns of S past instant k. */
static void keep_columns(struct build *b, uint32_t k)
{
    const struct planner_graph *g = b->g;
    for (uint32_t i = 0; i < g->item_count; i++) {
        const struct planner_item *item = &g->items[i];
        b->s_next[i] = NO_COL;
        if (b->interval[item->node] > k || b->last[i] <= k)
            continue;
        if (k == b->count) {
            b->s_next[i] = item->is_kept ? ALWAYS : NO_COL;
            continue;
        }
        if (item->is_fixed && b->certain[i] > k)
            b->s_next[i] = ALWAYS;
        else
            b->s_next[i] = planner_mip_col(b->mip, 0, 1, 0, true);
    }
}

static void rerun_columns(struct build *b, uint32_t k)
{
    const struct planner_graph *g = b->g;
    for (uint32_t v = 0; v < g->node_count; v++) {
        const struct planner_node *node = &g->nodes[v];
        bool is_useful = false;
        b->r[v] = NO_COL;
        for (uint32_t o = 0; o < node->out_count; o++)
            is_useful |= b->last[node->out_first + o] >= k;
        if (b->interval[v] >= k || node->is_fixed || !is_useful ||
            node->deadline < interval_begin(b, k))
            continue;
        b->r[v] = planner_mip_col(b->mip, 0, 1, (double)node->cost * b->cost_scale, false);
    }
}

/* S + R of an item from before the interval, at least `constant` + `other` (a column or NO_COL). */
static void presence(struct build *b, uint32_t i, double constant, int other)
{
    if (b->s[i] == ALWAYS)
        return;
    planner_mip_row(b->mip, constant, PLANNER_INF);
    planner_mip_term(b->mip, b->s[i], 1);
    planner_mip_term(b->mip, b->r[b->g->items[i].node], 1);
    planner_mip_term(b->mip, other, -1);
}

/* What runs in interval k needs its inputs; what is kept past it was there or is made in it. */
static void flow_rows(struct build *b, uint32_t k)
{
    const struct planner_graph *g = b->g;
    uint32_t begin = interval_begin(b, k), end = k < b->count ? b->at[k] + 1 : g->node_count;
    for (uint32_t i = 0; i < g->item_count && g->items[i].node < begin; i++) {
        bool is_read = false;
        for (uint32_t u = 0; u < g->items[i].use_count; u++) {
            uint32_t reader = g->uses[g->items[i].use_first + u];
            if (reader >= begin && reader < end)
                is_read = true;
            else if (reader < begin && b->r[reader] >= 0)
                presence(b, i, 0, b->r[reader]);
        }
        if (is_read || b->s_next[i] == ALWAYS)
            presence(b, i, 1, NO_COL);
        else if (b->s_next[i] >= 0)
            presence(b, i, 0, b->s_next[i]);
    }
}

static void set_scales(struct build *b, uint64_t budget)
{
    uint64_t unit = 0;
    for (uint32_t k = 0; k < b->count; k++)
        unit = planner_gcd(unit, b->g->nodes[b->at[k]].workspace_bytes);
    b->mem_scale = planner_mem_scale(b->g, &unit);
    b->budget = (double)(budget / unit * unit) * b->mem_scale;
}

static void memory_row(struct build *b, uint32_t k)
{
    const struct planner_graph *g = b->g;
    const struct planner_node *node = &g->nodes[b->at[k]];
    double room = b->budget - (double)planner_graph_working_set(g, node) * b->mem_scale;
    planner_mip_row(b->mip, -PLANNER_INF, 0);
    for (uint32_t i = 0; i < node->out_first; i++) {
        double bytes = (double)g->items[i].bytes * b->mem_scale;
        if (b->s_next[i] == NO_COL || planner_graph_reads(g, node, i))
            continue;
        if (b->s_next[i] == ALWAYS)
            room -= bytes;
        else
            planner_mip_term(b->mip, b->s_next[i], bytes);
    }
    planner_mip_upper(b->mip, room);
}

static void add_intervals(struct build *b)
{
    for (uint32_t i = 0; i < b->g->item_count; i++)
        b->s[i] = NO_COL;
    for (uint32_t k = 0; k <= b->count; k++) {
        keep_columns(b, k);
        rerun_columns(b, k);
        flow_rows(b, k);
        if (k < b->count)
            memory_row(b, k);
        if (k < b->count)
            memcpy(b->cuts->s_col + (size_t)k * b->g->item_count, b->s_next,
                   b->g->item_count * sizeof *b->s_next);
        ebb_swap(&b->s, &b->s_next, sizeof b->s);
    }
}

enum ebb_status planner_cuts_build(struct planner_cuts *cuts, const struct planner_graph *g,
                                   uint64_t budget, const uint32_t *at, uint32_t count,
                                   struct ebb_error *err)
{
    struct ebb_arena build_arena = {0};
    size_t items = (size_t)g->item_count + 1, nodes = (size_t)g->node_count + 1;
    *cuts = (struct planner_cuts){.graph = g, .count = count, .cost_scale = planner_cost_scale(g)};
    cuts->mip.offset = (double)g->base_cost * cuts->cost_scale;
    cuts->s_col = ebb_arena_calloc(&cuts->arena, (size_t)count + 1, items * sizeof *cuts->s_col);
    cuts->at = ebb_arena_calloc(&cuts->arena, (size_t)count + 1, sizeof *cuts->at);
    struct build b = {.cuts = cuts,
                      .mip = &cuts->mip,
                      .g = g,
                      .at = at,
                      .count = count,
                      .interval = ebb_arena_calloc(&build_arena, nodes, sizeof *b.interval),
                      .r = ebb_arena_calloc(&build_arena, nodes, sizeof *b.r),
                      .last = ebb_arena_calloc(&build_arena, items, sizeof *b.last),
                      .certain = ebb_arena_calloc(&build_arena, items, sizeof *b.certain),
                      .s = ebb_arena_calloc(&build_arena, items, sizeof *b.s),
                      .s_next = ebb_arena_calloc(&build_arena, items, sizeof *b.s_next),
                      .cost_scale = cuts->cost_scale};
    enum ebb_status status = ebb_arena_status(&cuts->arena, err);
    EBB_THEN(status, ebb_arena_status(&build_arena, err));
    if (status == EBB_OK) {
        memcpy(cuts->at, at, count * sizeof *at);
        set_scales(&b, budget);
        find_intervals(&b);
        find_last(&b);
        add_intervals(&b);
        status = planner_mip_status(&cuts->mip, err);
    }
    ebb_arena_fini(&build_arena);
    if (status != EBB_OK)
        planner_cuts_fini(cuts);
    return status;
}

void planner_cuts_fini(struct planner_cuts *cuts)
{
    planner_mip_fini(&cuts->mip);
    ebb_arena_fini(&cuts->arena);
}

/* ---- the schedule a solution speaks of ------------------------------------------------------ */

bool planner_cuts_is_kept(const struct planner_cuts *cuts, const double *x, uint32_t k, uint32_t i)
{
    int s = cuts->s_col[(size_t)k * cuts->graph->item_count + i];
    return s == ALWAYS || (s >= 0 && x[s] > 0.5);
}

/* Rows of the stages of interval k: an item lies there while it is kept past the interval's end or
 * a first run in it still reads it, if it was there or is made there for the first time. */
static void extract_interval(const struct planner_cuts *cuts, const double *x, uint32_t k,
                             struct planner_sched *sched)
{
    const struct planner_graph *g = cuts->graph;
    uint32_t begin = k == 0 ? 0 : cuts->at[k - 1] + 1;
    uint32_t end = k < cuts->count ? cuts->at[k] + 1 : g->node_count;
    for (uint32_t i = 0; i < g->item_count && g->items[i].node + 1 < end; i++) {
        const struct planner_item *item = &g->items[i];
        uint32_t from = item->node < begin ? begin : item->node + 1, last = 0;
        if (item->node < begin && !planner_cuts_is_kept(cuts, x, k - 1, i))
            continue;
        for (uint32_t u = 0; u < item->use_count; u++)
            if (g->uses[item->use_first + u] < end)
                last = g->uses[item->use_first + u];
        if (k < cuts->count ? planner_cuts_is_kept(cuts, x, k, i) : item->is_kept)
            last = end - 1;
        planner_sched_keep(sched, i, from, last < end ? last : end - 1);
    }
}

void planner_cuts_extract(const struct planner_cuts *cuts, const double *x,
                          struct planner_sched *sched)
{
    planner_sched_clear(sched);
    for (uint32_t k = 0; k <= cuts->count; k++)
        extract_interval(cuts, x, k, sched);
}

/* ---- where to cut --------------------------------------------------------------------------- */

/* Items that can be made again, cheapest per byte first. */
static uint32_t sort_items(const struct planner_graph *g, struct planner_scored *list)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->item_count; i++) {
        const struct planner_item *item = &g->items[i];
        if (item->bytes > 0 && !item->is_fixed)
            list[n++] =
                (struct planner_scored){(double)g->nodes[item->node].cost / (double)item->bytes, i};
    }
    qsort(list, n, sizeof *list, planner_by_score);
    return n;
}

static bool is_read_after(const struct planner_graph *g, uint32_t i, uint32_t t)
{
    const struct planner_item *item = &g->items[i];
    return item->node <= t && (item->is_kept || planner_graph_last_use(g, item, 0) > t);
}

/* What must at least be run again because of the instant t alone: enough of what is read later, by
 * cost per byte, to make room. */
static double price_of(const struct planner_graph *g, uint64_t budget, uint32_t t, uint64_t live,
                       const struct planner_scored *list, uint32_t count)
{
    double price = 0;
    double excess = (double)live - (double)budget;
    for (uint32_t k = 0; k < count && excess > 0; k++) {
        if (!is_read_after(g, list[k].item, t) || g->items[list[k].item].node == t ||
            planner_graph_reads(g, &g->nodes[t], list[k].item))
            continue;
        double bytes = (double)g->items[list[k].item].bytes;
        price += (excess < bytes ? excess : bytes) * list[k].score;
        excess -= bytes;
    }
    return price;
}

/* Bytes at each first run when everything is kept as long as it is read. */
static void live_bytes(const struct planner_graph *g, uint64_t *live)
{
    uint64_t now = 0;
    for (uint32_t v = 0; v < g->node_count; v++) {
        const struct planner_node *node = &g->nodes[v];
        for (uint32_t o = 0; o < node->out_count; o++)
            now += g->items[node->out_first + o].bytes;
        live[v] = now + node->workspace_bytes;
        for (uint32_t k = 0; k < node->in_count + node->out_count; k++) {
            uint32_t i = planner_graph_port(g, node, k);
            if (!is_read_after(g, i, v))
                now -= g->items[i].bytes;
        }
    }
}

#define LOOKED_AT 400 /* nodes for which the price is computed */

/* How dear room is while v runs: what the instant alone costs; where everything fits, a trifle. */
static double score_of(const struct planner_graph *g, uint64_t budget, uint32_t v, uint64_t live,
                       const struct planner_scored *list, uint32_t count)
{
    double trifle = 1e-9 * (double)g->base_cost * (double)live / ((double)budget + 1);
    return trifle + (live > budget ? price_of(g, budget, v, live, list, count) : 0);
}

static void add_instant(uint32_t *at, uint32_t *count, uint32_t v)
{
    uint32_t k = *count;
    for (uint32_t e = 0; e < *count; e++)
        if (at[e] == v)
            return;
    for (; k > 0 && at[k - 1] > v; k--)
        at[k] = at[k - 1];
    at[k] = v;
    (*count)++;
}

struct place { /* an instant, and how good it is */
    uint32_t node;
    double score;
};

enum ebb_status planner_cuts_choose(const struct planner_graph *g, uint64_t budget, uint32_t slices,
                                    uint32_t *at, uint32_t *count, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    uint64_t *live = ebb_arena_calloc(&arena, (size_t)g->node_count + 1, sizeof *live);
    struct planner_scored *list = ebb_arena_calloc(&arena, g->item_count, sizeof *list);
    enum ebb_status status = ebb_arena_status(&arena, err);
    uint32_t first = 0;
    *count = 0;
    if (status != EBB_OK)
        goto out;
    live_bytes(g, live);
    while (first < g->node_count && live[first] <= budget)
        first++;
    uint32_t span = g->node_count - first, items = sort_items(g, list);
    uint32_t stride = 1 + span / LOOKED_AT;
    struct place top[2] = {{0}};
    for (uint32_t k = 0; k < slices && k < span; k++) {
        uint32_t parts = slices < span ? slices : span;
        uint32_t begin = first + (uint32_t)((uint64_t)span * k / parts);
        uint32_t end = first + (uint32_t)((uint64_t)span * (k + 1) / parts);
        struct place dearest = {begin, -1}, widest = {begin, -1};
        for (uint32_t v = begin; v < end; v++) {
            double width = (double)planner_graph_working_set(g, &g->nodes[v]);
            if (width > widest.score)
                widest = (struct place){v, width};
            if ((v - begin) % stride != 0 && v + 1 != g->forward_count)
                continue;
            double score = score_of(g, budget, v, live[v], list, items);
            if (score > dearest.score)
                dearest = (struct place){v, score};
        }
        if (slices > 1) {
            add_instant(at, count, dearest.node);
            add_instant(at, count, widest.node);
        }
        if (dearest.score > top[0].score)
            top[0] = dearest;
        if (widest.score > top[1].score)
            top[1] = widest;
    }
    for (int k = 0; k < 2 && span > 0; k++)
        add_instant(at, count, top[k].node);
out:
    ebb_arena_fini(&arena);
    return status;
}
