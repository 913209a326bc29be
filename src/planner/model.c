/* model.c - columns and rows of the conservation model. */
#include "planner/model.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"

/* One group under construction. */
struct release { /* bytes x (sum of columns + constant) are released after the slot of `node` */
    uint32_t node, next;
    int col;     /* -1: constant only */
    double coef; /* in units of the model */
};

struct build {
    struct planner_model *m;
    const struct planner_graph *g;
    const struct planner_groups *gr;
    struct ebb_error *err;
    uint32_t *last_const; /* item -> last node whose first run reads it (its maker when none) */
    uint32_t *last_group; /* item -> last group in which it can be of use */
    struct release *releases;
    size_t release_count, release_capacity;
    int *n_col;         /* item -> column that makes it anew in this group, -1 = none */
    uint32_t *head;     /* node -> first release of this group, UINT32_MAX = none */
    double *made_const; /* node -> constant units made at its slot in this group */
    double start_const; /* constant units present when the group begins */
    double budget;      /* units */
};

static int cell(const struct build *b, uint32_t group, uint32_t item)
{
    if (group >= b->gr->count)
        return b->g->items[item].is_kept ? PLANNER_CELL_ONE : PLANNER_CELL_ZERO;
    return b->m->s_col[(size_t)group * b->g->item_count + item];
}

static int rerun(const struct build *b, uint32_t group, uint32_t node)
{
    return b->m->r_col[(size_t)group * b->g->node_count + node];
}

static double units(const struct build *b, uint64_t bytes)
{
    return (double)bytes * b->m->mem_scale;
}

static void set_scales(struct build *b, uint64_t budget)
{
    uint64_t unit = 0;
    for (uint32_t v = 0; v < b->g->node_count; v++)
        unit = planner_gcd(unit, b->g->nodes[v].workspace_bytes);
    b->m->mem_scale = planner_mem_scale(b->g, &unit);
    b->budget = (double)(budget / unit * unit) * b->m->mem_scale;
    b->m->cost_scale = planner_cost_scale(b->g);
}

/* Last group in which an item is of use, given what may run again. */
static void find_last_groups(struct build *b)
{
    const struct planner_graph *g = b->g;
    for (uint32_t i = g->item_count; i-- > 0;) {
        const struct planner_item *item = &g->items[i];
        uint32_t last = item->node, group = b->gr->of[item->node];
        for (uint32_t u = 0; u < item->use_count; u++) {
            uint32_t reader = g->uses[item->use_first + u];
            const struct planner_node *node = &g->nodes[reader];
            if (reader > last)
                last = reader;
            if (b->gr->of[reader] > group)
                group = b->gr->of[reader];
            for (uint32_t o = 0; o < node->out_count && b->gr->can_rerun[reader]; o++) {
                uint32_t later = b->last_group[node->out_first + o];
                while (later > group && b->gr->begin[later] > node->deadline)
                    later--;
                if (later > group)
                    group = later;
            }
        }
        b->last_const[i] = last;
        b->last_group[i] = item->is_kept ? b->gr->count - 1 : group;
    }
}

static void add_cells(struct build *b)
{
    const struct planner_graph *g = b->g;
    struct planner_model *m = b->m;
    for (uint32_t group = 0; group < b->gr->count; group++) {
        uint32_t begin = b->gr->begin[group];
        int *s = &m->s_col[(size_t)group * g->item_count];
        int *r = &m->r_col[(size_t)group * g->node_count];
        for (uint32_t i = 0; i < g->item_count; i++) {
            const struct planner_item *item = &g->items[i];
            s[i] = PLANNER_CELL_ZERO;
            if (item->node >= begin || group > b->last_group[i])
                continue;
            bool is_held =
                !b->gr->can_rerun[item->node] && (item->is_kept || begin <= b->last_const[i]);
            if (is_held && !(m->tiers && planner_graph_can_leave(g, item))) {
                s[i] = PLANNER_CELL_ONE;
                continue;
            }
            s[i] = planner_mip_col(&m->mip, 0, 1, 0, true);
            m->binary_count++;
        }
        for (uint32_t v = 0; v < g->node_count; v++) {
            bool is_useful = false;
            r[v] = PLANNER_CELL_ZERO;
            for (uint32_t o = 0; o < g->nodes[v].out_count; o++)
                is_useful |= b->last_group[g->nodes[v].out_first + o] >= group;
            if (v >= begin || !is_useful || !b->gr->can_rerun[v] || g->nodes[v].deadline < begin)
                continue;
            double cost = m->tiers ? 0 : (double)g->nodes[v].cost * m->cost_scale;
            r[v] = planner_mip_col(&m->mip, 0, 1, cost, false);
        }
    }
}

static void add_release(struct build *b, uint32_t node, int col, double coef)
{
    if (b->m->mip.is_short || ebb_grow(&b->releases, &b->release_capacity, b->release_count + 1,
                                       sizeof *b->releases, NULL) != EBB_OK) {
        b->m->mip.is_short = true;
        return;
    }
    b->releases[b->release_count] =
        (struct release){.node = node, .next = b->head[node], .col = col, .coef = coef};
    b->head[node] = (uint32_t)b->release_count++;
}

/* Presence of an item in a group: constant + S + N + IN. */
struct presence {
    double constant;
    int s, n, in[DEVICE_TIERS]; /* columns or -1 */
};

static const struct presence nowhere = {.s = -1, .n = -1, .in = {-1, -1, -1}};

static int column_count(const struct presence *p)
{
    return (p->s >= 0) + (p->n >= 0) + (p->in[DEVICE_HOST] >= 0) + (p->in[DEVICE_FILE] >= 0);
}

/* Begin the row  lower <= P - sum of f[0..count) - other <= upper; `other` may be -1. */
static void presence_row(struct build *b, const struct presence *p, const int *f, size_t count,
                         int other, double lower, double upper)
{
    struct planner_mip *mip = &b->m->mip;
    planner_mip_row(mip, lower <= -PLANNER_INF ? lower : lower - p->constant,
                    upper >= PLANNER_INF ? upper : upper - p->constant);
    planner_mip_term(mip, p->s, 1);
    planner_mip_term(mip, p->n, 1);
    planner_mip_term(mip, p->in[DEVICE_HOST], 1);
    planner_mip_term(mip, p->in[DEVICE_FILE], 1);
    for (size_t l = 0; l < count; l++)
        planner_mip_term(mip, f[l], -1);
    planner_mip_term(mip, other, -1);
}

/* Releases of what is left of P after the F's, less what is kept. */
static void release_rest(struct build *b, uint32_t at, const struct presence *p, const int *f,
                         size_t count, int out, double size)
{
    const int columns[] = {p->s, p->n, p->in[DEVICE_HOST], p->in[DEVICE_FILE]};
    double constant = p->constant - (out == PLANNER_CELL_ONE);
    if (constant != 0)
        add_release(b, at, -1, size * constant);
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
        if (columns[k] >= 0)
            add_release(b, at, columns[k], size);
    for (size_t l = 0; l < count; l++)
        add_release(b, at, f[l], -size);
    if (out >= 0)
        add_release(b, at, out, -size);
}

#define MAX_USES 512

/* An item that a first run in this group reads last (or that nobody here reads): it is there until
 * then. */
static void certain_rows(struct build *b, uint32_t i, const struct presence *p, uint32_t at,
                         int out)
{
    struct presence one = nowhere;
    one.constant = 1;
    if (column_count(p) > 0)
        presence_row(b, p, NULL, 0, -1, 1, 1);
    release_rest(b, at, &one, NULL, 0, out, units(b, b->g->items[i].bytes));
}

/* Rows of one item in one group (see model.h). `k` are the consumers that can run here, ascending:
 * reruns come before the first runs of the group, so the last one says whether any is certain. */
static void item_rows(struct build *b, uint32_t group, uint32_t i, const struct presence *p,
                      const uint32_t *k, size_t n)
{
    uint32_t begin = b->gr->begin[group], maker = b->g->items[i].node;
    uint32_t last = n > 0 ? k[n - 1] : maker;
    int out = cell(b, group + 1, i), f[MAX_USES];
    double size = units(b, b->g->items[i].bytes);
    size_t f_count = 0;
    bool is_constant = column_count(p) == 0;
    if (last >= begin || out == PLANNER_CELL_ONE) {
        certain_rows(b, i, p, last, out);
        return;
    }
    if (column_count(p) > 1)
        presence_row(b, p, NULL, 0, -1, -PLANNER_INF, 1);
    for (size_t j = 0; j < n; j++) {
        if (!is_constant || f_count > 0)
            presence_row(b, p, f, f_count, rerun(b, group, k[j]), 0, PLANNER_INF);
        if (j + 1 < n) {
            f[f_count] = planner_mip_col(&b->m->mip, 0, 1, 0, false);
            add_release(b, k[j], f[f_count], size);
            f_count++;
        }
    }
    if (f_count > 0 || (!is_constant && out >= 0))
        presence_row(b, p, f, f_count, out, 0, PLANNER_INF);
    release_rest(b, last, p, f, f_count, out, size);
}

/* Where an item comes from in a group; false: nobody can need it there. */
static bool find_presence(struct build *b, uint32_t group, uint32_t i, struct presence *p)
{
    const struct planner_graph *g = b->g;
    const struct planner_item *item = &g->items[i];
    struct planner_mip *mip = &b->m->mip;
    uint32_t begin = b->gr->begin[group];
    *p = nowhere;
    if (item->node >= begin) {
        p->constant = 1;
        b->made_const[item->node] += units(b, item->bytes);
        return true;
    }
    p->s = cell(b, group, i);
    if (p->s == PLANNER_CELL_ONE) {
        p->constant = 1;
        b->start_const += units(b, item->bytes);
        return true;
    }
    int r = p->n = rerun(b, group, item->node);
    if (r >= 0 && g->nodes[item->node].out_count > 1) {
        p->n = planner_mip_col(mip, 0, 1, 0, false);
        planner_mip_row(mip, 0, PLANNER_INF); /* N <= R */
        planner_mip_term(mip, r, 1);
        planner_mip_term(mip, p->n, -1);
    }
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS && b->m->tiers; tier++)
        p->in[tier] = b->m->in_col[tier][(size_t)group * g->item_count + i];
    return column_count(p) > 0;
}

static enum ebb_status add_item(struct build *b, uint32_t group, uint32_t i)
{
    const struct planner_graph *g = b->g;
    const struct planner_item *item = &g->items[i];
    uint32_t begin = b->gr->begin[group], end = b->gr->begin[group + 1], k[MAX_USES];
    size_t n = 0;
    struct presence p;
    b->n_col[i] = -1;
    if (!find_presence(b, group, i, &p))
        return EBB_OK;
    b->n_col[i] = p.n;
    for (uint32_t u = 0; u < item->use_count && n < MAX_USES; u++) {
        uint32_t reader = g->uses[item->use_first + u];
        if (reader < end && (reader >= begin || rerun(b, group, reader) >= 0))
            k[n++] = reader;
    }
    if (item->use_count > MAX_USES && n == MAX_USES)
        return ebb_fail(b->err, EBB_ELIMIT, "planner: a storage with more than %d readers",
                        MAX_USES);
    /* else it is there from begin to end */
    if (column_count(&p) > 0 || cell(b, group + 1, i) != PLANNER_CELL_ONE)
        item_rows(b, group, i, &p, k, n);
    return EBB_OK;
}

/* Rerun v: what it makes, in the row of U; then its workspace, and scratch for outputs it does not
 * make but cannot skip: U + ws R + sum bytes (R - N) <= budget. */
static void rerun_rows(struct build *b, uint32_t v, int u, int r)
{
    struct planner_mip *mip = &b->m->mip;
    const struct planner_node *node = &b->g->nodes[v];
    double transient = units(b, node->workspace_bytes);
    for (uint32_t o = node->out_first; o < node->out_first + node->out_count; o++)
        planner_mip_term(mip, b->n_col[o], -units(b, b->g->items[o].bytes));
    if (transient <= 0 && !node->needs_scratch)
        return;
    planner_mip_row(mip, -PLANNER_INF, b->budget);
    planner_mip_term(mip, u, 1);
    for (uint32_t o = node->out_first; o < node->out_first + node->out_count && node->needs_scratch;
         o++) {
        double size = units(b, b->g->items[o].bytes);
        transient += size;
        planner_mip_term(mip, b->n_col[o], -size);
    }
    planner_mip_term(mip, r, transient);
}

/* What the first slot of a group finds: all that was kept into it, comes from below, or is on its
 * way. */
static void start_terms(struct build *b, uint32_t group)
{
    const struct planner_graph *g = b->g;
    struct planner_model *m = b->m;
    for (uint32_t i = 0; i < g->item_count; i++) {
        double size = -units(b, g->items[i].bytes);
        size_t at = (size_t)group * g->item_count + i;
        if (g->items[i].node < b->gr->begin[group])
            planner_mip_term(&m->mip, cell(b, group, i), size);
        for (int tier = DEVICE_HOST; tier < DEVICE_TIERS && m->tiers; tier++) {
            planner_mip_term(&m->mip, m->in_col[tier][at], size);
            planner_mip_term(&m->mip, m->coming_col[tier][at], size);
            planner_mip_term(&m->mip, m->going_col[tier][at], size);
        }
    }
}

/* U of each slot that can run: U[k] = U[previous] - released after previous + made at k; U[k] +
 * transient <= budget. */
static void memory_rows(struct build *b, uint32_t group)
{
    const struct planner_graph *g = b->g;
    struct planner_mip *mip = &b->m->mip;
    uint32_t begin = b->gr->begin[group], end = b->gr->begin[group + 1];
    int previous = -1;
    uint32_t previous_node = 0;
    for (uint32_t v = 0; v < end; v++) {
        int r = v < begin ? rerun(b, group, v) : -1;
        if (v < begin && r < 0)
            continue;
        double constant = b->made_const[v] + (previous < 0 ? b->start_const : 0);
        double transient = units(b, g->nodes[v].workspace_bytes);
        double limit = b->budget - (v >= begin ? transient : 0);
        int u = planner_mip_col(mip, 0, limit > 0 ? limit : 0, 0, false);
        if (limit < 0) /* the op alone does not fit */
            planner_mip_row(mip, 1, 1);
        planner_mip_row(mip, constant, constant);
        planner_mip_term(mip, u, 1);
        planner_mip_term(mip, previous, -1);
        for (uint32_t e = previous < 0 ? UINT32_MAX : b->head[previous_node]; e != UINT32_MAX;
             e = b->releases[e].next) {
            if (b->releases[e].col < 0)
                planner_mip_constant(mip, b->releases[e].coef);
            else
                planner_mip_term(mip, b->releases[e].col, b->releases[e].coef);
        }
        if (previous < 0)
            start_terms(b, group);
        if (v < begin)
            rerun_rows(b, v, u, r);
        previous = u;
        previous_node = v;
    }
}

/* While a node runs for the first time, what is kept into the next group lies beside its inputs and
 * outputs: sum of bytes x S[g+1] <= budget - working set. Implied by the rows of U, but a knapsack
 * in binaries that a solver can cut. */
static void knapsack_row(struct build *b, uint32_t group, uint32_t v)
{
    const struct planner_graph *g = b->g;
    const struct planner_node *node = &g->nodes[v];
    double room = b->budget - units(b, node->workspace_bytes);
    bool has_row = false;
    for (uint32_t k = 0; k < node->in_count; k++)
        room -= units(b, g->items[g->ins[node->in_first + k]].bytes);
    for (uint32_t o = 0; o < node->out_count; o++)
        room -= units(b, g->items[node->out_first + o].bytes);
    for (uint32_t i = 0; i < node->out_first; i++) {
        int s = cell(b, group + 1, i);
        if (s == PLANNER_CELL_ZERO || planner_graph_reads(g, node, i))
            continue;
        if (s == PLANNER_CELL_ONE) {
            room -= units(b, g->items[i].bytes);
            continue;
        }
        if (!has_row)
            planner_mip_row(&b->m->mip, -PLANNER_INF, 0);
        has_row = true;
        planner_mip_term(&b->m->mip, s, units(b, g->items[i].bytes));
    }
    if (has_row)
        planner_mip_upper(&b->m->mip, room);
}

static enum ebb_status add_group(struct build *b, uint32_t group)
{
    uint32_t end = b->gr->begin[group + 1];
    b->release_count = 0;
    b->start_const = 0;
    for (uint32_t v = 0; v < end; v++) {
        b->head[v] = UINT32_MAX;
        b->made_const[v] = 0;
    }
    for (uint32_t i = 0; i < b->g->item_count && b->g->items[i].node < end; i++)
        EBB_TRY(add_item(b, group, i));
    memory_rows(b, group);
    for (uint32_t v = b->gr->begin[group]; v < end; v++)
        knapsack_row(b, group, v);
    return planner_mip_status(&b->m->mip, b->err);
}

static enum ebb_status build(struct build *b, uint64_t budget)
{
    struct planner_model *m = b->m;
    set_scales(b, budget);
    m->mip.offset = m->tiers ? 0 : (double)b->g->base_cost * m->cost_scale;
    find_last_groups(b);
    add_cells(b);
    if (m->tiers)
        EBB_TRY(planner_model_links(m, b->err));
    for (uint32_t group = 0; group < b->gr->count; group++)
        EBB_TRY(add_group(b, group));
    return EBB_OK;
}

enum ebb_status planner_model_build(struct planner_model *model, const struct planner_graph *graph,
                                    enum planner_level level, uint64_t budget,
                                    const struct planner_tiers *tiers, struct ebb_error *err)
{
    struct ebb_arena build_arena = {0};
    struct build b = {.m = model, .g = graph, .gr = &model->groups, .err = err};
    size_t items = (size_t)graph->item_count + 1, nodes = (size_t)graph->node_count + 1;
    *model = (struct planner_model){.graph = graph, .tiers = tiers};
    enum ebb_status status = planner_groups_make(&model->groups, &model->arena, graph, level, err);
    size_t cells = model->groups.count * items;
    model->s_col = ebb_arena_calloc(&model->arena, cells, sizeof *model->s_col);
    model->r_col = ebb_arena_calloc(&model->arena, model->groups.count * nodes, sizeof(int));
    b.last_const = ebb_arena_calloc(&build_arena, items, sizeof *b.last_const);
    b.last_group = ebb_arena_calloc(&build_arena, items, sizeof *b.last_group);
    b.n_col = ebb_arena_calloc(&build_arena, items, sizeof *b.n_col);
    b.head = ebb_arena_calloc(&build_arena, nodes, sizeof *b.head);
    b.made_const = ebb_arena_calloc(&build_arena, nodes, sizeof *b.made_const);
    EBB_THEN(status, ebb_arena_status(&model->arena, err));
    EBB_THEN(status, ebb_arena_status(&build_arena, err));
    EBB_THEN(status, build(&b, budget));
    ebb_free(b.releases);
    ebb_arena_fini(&build_arena);
    if (status != EBB_OK)
        planner_model_fini(model);
    return status;
}

void planner_model_fini(struct planner_model *model)
{
    planner_mip_fini(&model->mip);
    ebb_arena_fini(&model->arena);
    *model = (struct planner_model){0};
}

/* ---- between columns and schedules ---------------------------------------------------------- */

static bool is_kept_into(const struct planner_model *m, const double *x, uint32_t group,
                         uint32_t item)
{
    if (group >= m->groups.count)
        return m->graph->items[item].is_kept;
    int s = m->s_col[(size_t)group * m->graph->item_count + item];
    return s == PLANNER_CELL_ONE || (s >= 0 && x[s] > 0.5);
}

void planner_model_extract(const struct planner_model *m, const double *x,
                           struct planner_sched *sched)
{
    const struct planner_graph *g = m->graph;
    planner_sched_clear(sched);
    for (uint32_t group = 0; group < m->groups.count; group++) {
        uint32_t begin = m->groups.begin[group], end = m->groups.begin[group + 1];
        for (uint32_t i = 0; i < g->item_count; i++) {
            const struct planner_item *item = &g->items[i];
            if (item->node < begin && is_kept_into(m, x, group, i))
                planner_keep(sched, begin, i);
            /* inside the group: until the last reader, or to the end when the next group has it */
            uint32_t last = is_kept_into(m, x, group + 1, i) ? end - 1 : 0;
            for (uint32_t u = item->use_count; u-- > 0 && last == 0;) {
                uint32_t reader = g->uses[item->use_first + u];
                if (reader < end)
                    last = reader > begin ? reader : 0;
                if (reader < end)
                    break;
            }
            for (uint32_t t = begin + 1; t <= last && t < end; t++)
                if (item->node < t)
                    planner_keep(sched, t, i);
        }
    }
}

bool planner_model_cell(const struct planner_model *m, const struct planner_sched *sched,
                        uint32_t group, uint32_t item)
{
    return planner_bit(planner_row(sched, m->groups.begin[group]), item);
}

double planner_bound_cost(const struct planner_graph *g, double cost)
{
    uint64_t unit = planner_cost_unit(g);
    double slack = 1e-7 * (double)g->base_cost; /* the solver's tolerances, generously */
    if (unit == 0)
        return 0;
    if (slack < 0.05 * (double)unit)
        return ceil((cost - slack) / (double)unit) * (double)unit;
    return cost - slack;
}

double planner_model_cost(const struct planner_model *m, double objective)
{
    return planner_bound_cost(m->graph, objective / m->cost_scale);
}
