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

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Sizes over their gcd, then halved until the largest is at most 1e7: the solver works with
 * absolute tolerances. */
static void set_scales(struct build *b, uint64_t budget)
{
    uint64_t unit = 0, largest = 1;
    for (uint32_t i = 0; i < b->g->item_count; i++) {
        unit = gcd(unit, b->g->items[i].bytes);
        if (b->g->items[i].bytes > largest)
            largest = b->g->items[i].bytes;
    }
    for (uint32_t v = 0; v < b->g->node_count; v++)
        unit = gcd(unit, b->g->nodes[v].workspace_bytes);
    if (unit == 0)
        unit = 1;
    b->m->mem_scale = 1.0 / (double)unit;
    while ((double)largest * b->m->mem_scale > 1e7)
        b->m->mem_scale /= 2;
    b->budget = (double)(budget / unit * unit) * b->m->mem_scale;
    b->m->cost_scale = b->g->base_cost ? 1e4 / (double)b->g->base_cost : 1;
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

static enum ebb_status add_cells(struct build *b)
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
            if (is_held) {
                s[i] = PLANNER_CELL_ONE;
                continue;
            }
            EBB_TRY(planner_mip_col(&m->mip, 0, 1, 0, true, &s[i], b->err));
            m->binary_count++;
        }
        for (uint32_t v = 0; v < g->node_count; v++) {
            bool is_useful = false;
            r[v] = PLANNER_CELL_ZERO;
            for (uint32_t o = 0; o < g->nodes[v].out_count; o++)
                is_useful |= b->last_group[g->nodes[v].out_first + o] >= group;
            if (v >= begin || !is_useful || !b->gr->can_rerun[v] || g->nodes[v].deadline < begin)
                continue;
            double cost = m->link ? 0 : (double)g->nodes[v].cost * m->cost_scale;
            EBB_TRY(planner_mip_col(&m->mip, 0, 1, cost, false, &r[v], b->err));
        }
    }
    return EBB_OK;
}

static enum ebb_status add_release(struct build *b, uint32_t node, int col, double coef)
{
    EBB_TRY(ebb_grow(&b->releases, &b->release_capacity, b->release_count + 1, sizeof *b->releases,
                     b->err));
    b->releases[b->release_count] =
        (struct release){.node = node, .next = b->head[node], .col = col, .coef = coef};
    b->head[node] = (uint32_t)b->release_count++;
    return EBB_OK;
}

/* Presence of an item in a group: constant + S + N. */
struct presence {
    double constant;
    int s, n, in; /* columns or -1 */
};

/* Begin the row  lower <= P - sum of f[0..count) - (other) ; the caller adds `other`. */
static enum ebb_status presence_row(struct build *b, const struct presence *p, const int *f,
                                    size_t count, double lower, double upper)
{
    struct planner_mip *mip = &b->m->mip;
    EBB_TRY(planner_mip_row(mip, lower <= -PLANNER_INF ? lower : lower - p->constant,
                            upper >= PLANNER_INF ? upper : upper - p->constant, b->err));
    if (p->s >= 0)
        EBB_TRY(planner_mip_term(mip, p->s, 1, b->err));
    if (p->n >= 0)
        EBB_TRY(planner_mip_term(mip, p->n, 1, b->err));
    if (p->in >= 0)
        EBB_TRY(planner_mip_term(mip, p->in, 1, b->err));
    for (size_t l = 0; l < count; l++)
        EBB_TRY(planner_mip_term(mip, f[l], -1, b->err));
    return EBB_OK;
}

/* Releases of what is left of P after the F's, less what is kept. */
static enum ebb_status release_rest(struct build *b, uint32_t at, const struct presence *p,
                                    const int *f, size_t count, int out, double size)
{
    if (p->constant - (out == PLANNER_CELL_ONE) != 0)
        EBB_TRY(add_release(b, at, -1, size * (p->constant - (out == PLANNER_CELL_ONE))));
    if (p->s >= 0)
        EBB_TRY(add_release(b, at, p->s, size));
    if (p->n >= 0)
        EBB_TRY(add_release(b, at, p->n, size));
    if (p->in >= 0)
        EBB_TRY(add_release(b, at, p->in, size));
    for (size_t l = 0; l < count; l++)
        EBB_TRY(add_release(b, at, f[l], -size));
    if (out >= 0)
        EBB_TRY(add_release(b, at, out, -size));
    return EBB_OK;
}

#define MAX_USES 512

/* An item that a first run in this group reads last (or that nobody here reads): it is there until
 * then. */
static enum ebb_status certain_rows(struct build *b, uint32_t i, const struct presence *p,
                                    uint32_t at, int out)
{
    const struct presence one = {.constant = 1, .s = -1, .n = -1, .in = -1};
    if (p->s >= 0 || p->n >= 0 || p->in >= 0)
        EBB_TRY(presence_row(b, p, NULL, 0, 1, 1));
    return release_rest(b, at, &one, NULL, 0, out, units(b, b->g->items[i].bytes));
}

/* Rows of one item in one group (see model.h). `k` are the consumers that can run here, ascending:
 * reruns come before the first runs of the group, so the last one says whether any is certain. */
static enum ebb_status item_rows(struct build *b, uint32_t group, uint32_t i,
                                 const struct presence *p, const uint32_t *k, size_t n)
{
    struct planner_mip *mip = &b->m->mip;
    uint32_t begin = b->gr->begin[group], maker = b->g->items[i].node;
    int out = cell(b, group + 1, i), f[MAX_USES];
    double size = units(b, b->g->items[i].bytes);
    size_t f_count = 0;
    bool is_constant = p->s < 0 && p->n < 0 && p->in < 0;
    if (n == 0 && maker >= begin)
        return certain_rows(b, i, p, maker, out);
    if ((n > 0 && k[n - 1] >= begin) || out == PLANNER_CELL_ONE)
        return certain_rows(b, i, p, n > 0 ? k[n - 1] : maker, out);
    if ((p->s >= 0) + (p->n >= 0) + (p->in >= 0) > 1)
        EBB_TRY(presence_row(b, p, NULL, 0, -PLANNER_INF, 1));
    for (size_t j = 0; j < n; j++) {
        if (!is_constant || f_count > 0) {
            EBB_TRY(presence_row(b, p, f, f_count, 0, PLANNER_INF));
            EBB_TRY(planner_mip_term(mip, rerun(b, group, k[j]), -1, b->err));
        }
        if (j + 1 < n) {
            EBB_TRY(planner_mip_col(mip, 0, 1, 0, false, &f[f_count], b->err));
            EBB_TRY(add_release(b, k[j], f[f_count], size));
            f_count++;
        }
    }
    if (f_count > 0 || (!is_constant && out >= 0)) {
        EBB_TRY(presence_row(b, p, f, f_count, 0, PLANNER_INF));
        if (out >= 0)
            EBB_TRY(planner_mip_term(mip, out, -1, b->err));
    }
    return release_rest(b, n > 0 ? k[n - 1] : maker, p, f, f_count, out, size);
}

static int joint(const struct build *b, const int *cols, uint32_t group, uint32_t item)
{
    return group < b->gr->count ? cols[(size_t)group * b->g->item_count + item] : -1;
}

/* Host copies: H[g+1] <= H[g] + OUT[g]; IN[g] <= H[g]; OUT[g] <= S[g], or made here. */
static enum ebb_status link_rows(struct build *b, uint32_t group, uint32_t i,
                                 const struct presence *p)
{
    struct planner_mip *mip = &b->m->mip;
    if (!b->m->link)
        return EBB_OK;
    int h = joint(b, b->m->h_col, group, i), out = joint(b, b->m->out_col, group, i);
    int next = joint(b, b->m->h_col, group + 1, i);
    if (next >= 0) {
        EBB_TRY(planner_mip_row(mip, -PLANNER_INF, 0, b->err));
        EBB_TRY(planner_mip_term(mip, next, 1, b->err));
        if (h >= 0)
            EBB_TRY(planner_mip_term(mip, h, -1, b->err));
        if (out >= 0)
            EBB_TRY(planner_mip_term(mip, out, -1, b->err));
    }
    if (h >= 0) {
        EBB_TRY(planner_mip_row(mip, -PLANNER_INF, 0, b->err));
        EBB_TRY(planner_mip_term(mip, joint(b, b->m->in_col, group, i), 1, b->err));
        EBB_TRY(planner_mip_term(mip, h, -1, b->err));
    }
    if (out >=
        0) { /* what is made anew only to be sent is no use: kept or made here for the first time */
        const struct presence lasting = {p->constant, p->s, -1, -1};
        EBB_TRY(presence_row(b, &lasting, NULL, 0, 0, PLANNER_INF));
        EBB_TRY(planner_mip_term(mip, out, -1, b->err));
    }
    return EBB_OK;
}

/* Columns of the host's side, and the time of each group: at least its compute, its bytes in and
 * its bytes out. */
static enum ebb_status add_link(struct build *b)
{
    struct planner_model *m = b->m;
    const struct planner_graph *g = b->g;
    const struct planner_link *link = m->link;
    for (uint32_t group = 0; group < b->gr->count; group++) {
        for (uint32_t i = 0; i < g->item_count; i++) {
            size_t at = (size_t)group * g->item_count + i;
            m->h_col[at] = m->in_col[at] = m->out_col[at] = -1;
            if (m->s_col[at] >= 0) {
                EBB_TRY(planner_mip_col(&m->mip, 0, 1, 0, true, &m->h_col[at], b->err));
                EBB_TRY(planner_mip_col(&m->mip, 0, 1, 0, true, &m->in_col[at], b->err));
            }
            if (group + 1 < b->gr->count && g->items[i].node < b->gr->begin[group + 1] &&
                m->s_col[at + g->item_count] >= 0)
                EBB_TRY(planner_mip_col(&m->mip, 0, 1, 0, true, &m->out_col[at], b->err));
        }
        int time;
        double own = 0;
        for (uint32_t v = b->gr->begin[group]; v < b->gr->begin[group + 1]; v++)
            own += (double)g->nodes[v].cost;
        EBB_TRY(
            planner_mip_col(&m->mip, own * m->cost_scale, PLANNER_INF, 1, false, &time, b->err));
        EBB_TRY(planner_mip_row(&m->mip, own * m->cost_scale, PLANNER_INF, b->err));
        EBB_TRY(planner_mip_term(&m->mip, time, 1, b->err));
        for (uint32_t v = 0; v < g->node_count; v++)
            if (rerun(b, group, v) >= 0)
                EBB_TRY(planner_mip_term(&m->mip, rerun(b, group, v),
                                         -(double)g->nodes[v].cost * m->cost_scale, b->err));
        for (int way = 0; way < 2; way++) {
            const int *cols = way ? m->out_col : m->in_col;
            double rate = way ? link->out_bytes_per_ns : link->in_bytes_per_ns;
            EBB_TRY(planner_mip_row(&m->mip, 0, PLANNER_INF, b->err));
            EBB_TRY(planner_mip_term(&m->mip, time, 1, b->err));
            for (uint32_t i = 0; i < g->item_count; i++)
                if (joint(b, cols, group, i) >= 0)
                    EBB_TRY(planner_mip_term(
                        &m->mip, joint(b, cols, group, i),
                        -((double)g->items[i].bytes / rate + (double)link->latency_ns) *
                            m->cost_scale,
                        b->err));
        }
        EBB_TRY(planner_mip_row(&m->mip, -PLANNER_INF, units(b, link->host_bytes), b->err));
        for (uint32_t i = 0; i < g->item_count; i++)
            if (joint(b, m->h_col, group, i) >= 0)
                EBB_TRY(planner_mip_term(&m->mip, joint(b, m->h_col, group, i),
                                         units(b, g->items[i].bytes), b->err));
    }
    return EBB_OK;
}

static enum ebb_status add_item(struct build *b, uint32_t group, uint32_t i)
{
    const struct planner_graph *g = b->g;
    const struct planner_item *item = &g->items[i];
    uint32_t begin = b->gr->begin[group], end = b->gr->begin[group + 1], k[MAX_USES];
    size_t n = 0;
    int s = item->node < begin ? cell(b, group, i) : PLANNER_CELL_ZERO;
    struct presence p = {.s = s, .n = -1, .in = -1};
    b->n_col[i] = -1;
    if (item->node >= begin) {
        p.constant = 1;
        b->made_const[item->node] += units(b, item->bytes);
    } else if (s == PLANNER_CELL_ONE) {
        p.constant = 1;
        b->start_const += units(b, item->bytes);
    } else {
        int r = rerun(b, group, item->node);
        p.n = r;
        if (r >= 0 && g->nodes[item->node].out_count > 1) {
            EBB_TRY(planner_mip_col(&b->m->mip, 0, 1, 0, false, &p.n, b->err));
            EBB_TRY(planner_mip_row(&b->m->mip, 0, PLANNER_INF, b->err)); /* N <= R */
            EBB_TRY(planner_mip_term(&b->m->mip, r, 1, b->err));
            EBB_TRY(planner_mip_term(&b->m->mip, p.n, -1, b->err));
        }
        if (b->m->link)
            p.in = b->m->in_col[(size_t)group * g->item_count + i];
        if (s < 0 && r < 0 && p.in < 0)
            return EBB_OK; /* never present, nobody can need it */
    }
    b->n_col[i] = p.n;
    for (uint32_t u = 0; u < item->use_count && n < MAX_USES; u++) {
        uint32_t reader = g->uses[item->use_first + u];
        if (reader < end && (reader >= begin || rerun(b, group, reader) >= 0))
            k[n++] = reader;
    }
    if (item->use_count > MAX_USES && n == MAX_USES)
        return ebb_fail(b->err, EBB_ELIMIT, "planner: a storage with more than %d readers",
                        MAX_USES);
    EBB_TRY(link_rows(b, group, i, &p));
    if (p.s < 0 && p.n < 0 && p.in < 0 && cell(b, group + 1, i) == PLANNER_CELL_ONE)
        return EBB_OK; /* there from begin to end */
    return item_rows(b, group, i, &p, k, n);
}

static enum ebb_status made_terms(struct build *b, uint32_t v)
{
    for (uint32_t o = 0; v != TRACE_NONE && o < b->g->nodes[v].out_count; o++) {
        uint32_t i = b->g->nodes[v].out_first + o;
        if (b->n_col[i] >= 0)
            EBB_TRY(
                planner_mip_term(&b->m->mip, b->n_col[i], -units(b, b->g->items[i].bytes), b->err));
    }
    return EBB_OK;
}

/* A rerun's workspace, and scratch for outputs it does not make but cannot skip: U + ws R + sum
 * bytes (R - N) <= budget. */
static enum ebb_status transient_row(struct build *b, uint32_t v, int u, int r)
{
    struct planner_mip *mip = &b->m->mip;
    if (v == TRACE_NONE)
        return EBB_OK;
    const struct planner_node *node = &b->g->nodes[v];
    double transient = units(b, node->workspace_bytes);
    if (transient <= 0 && !node->needs_scratch)
        return EBB_OK;
    EBB_TRY(planner_mip_row(mip, -PLANNER_INF, b->budget, b->err));
    EBB_TRY(planner_mip_term(mip, u, 1, b->err));
    for (uint32_t o = 0; o < node->out_count && node->needs_scratch; o++) {
        double size = units(b, b->g->items[node->out_first + o].bytes);
        transient += size;
        if (b->n_col[node->out_first + o] >= 0)
            EBB_TRY(planner_mip_term(mip, b->n_col[node->out_first + o], -size, b->err));
    }
    return planner_mip_term(mip, r, transient, b->err);
}

/* U of each slot that can run: U[k] = U[previous] - released after previous + made at k; U[k] +
 * transient <= budget. */
static enum ebb_status memory_rows(struct build *b, uint32_t group)
{
    const struct planner_graph *g = b->g;
    struct planner_mip *mip = &b->m->mip;
    uint32_t begin = b->gr->begin[group], end = b->gr->begin[group + 1];
    int previous = -1;
    uint32_t previous_node = 0;
    for (uint32_t v = 0; v < end; v++) {
        int r = v < begin ? rerun(b, group, v) : -1, u;
        if (v < begin && r < 0)
            continue;
        double constant = b->made_const[v] + (previous < 0 ? b->start_const : 0);
        double transient = units(b, g->nodes[v].workspace_bytes);
        double limit = b->budget - (v >= begin ? transient : 0);
        EBB_TRY(planner_mip_col(mip, 0, limit > 0 ? limit : 0, 0, false, &u, b->err));
        if (limit < 0) { /* the op alone does not fit */
            EBB_TRY(planner_mip_row(mip, 1, 1, b->err));
        }
        EBB_TRY(planner_mip_row(mip, constant, constant, b->err));
        size_t row = mip->row_count - 1;
        EBB_TRY(planner_mip_term(mip, u, 1, b->err));
        if (previous >= 0) {
            EBB_TRY(planner_mip_term(mip, previous, -1, b->err));
            for (uint32_t e = b->head[previous_node]; e != UINT32_MAX; e = b->releases[e].next) {
                const struct release *rel = &b->releases[e];
                if (rel->col < 0) {
                    mip->row_lower[row] -= rel->coef;
                    mip->row_upper[row] -= rel->coef;
                } else {
                    EBB_TRY(planner_mip_term(mip, rel->col, rel->coef, b->err));
                }
            }
        } else {
            for (uint32_t i = 0; i < g->item_count; i++) {
                double size = -units(b, g->items[i].bytes);
                if (g->items[i].node < begin && cell(b, group, i) >= 0)
                    EBB_TRY(planner_mip_term(mip, cell(b, group, i), size, b->err));
                if (b->m->link && joint(b, b->m->in_col, group, i) >= 0)
                    EBB_TRY(planner_mip_term(mip, joint(b, b->m->in_col, group, i), size, b->err));
            }
        }
        EBB_TRY(made_terms(b, v < begin ? v : TRACE_NONE));
        EBB_TRY(transient_row(b, v < begin ? v : TRACE_NONE, u, r));
        previous = u;
        previous_node = v;
    }
    return EBB_OK;
}

/* While a node runs for the first time, what is kept into the next group lies beside its inputs and
 * outputs: sum of bytes x S[g+1] <= budget - working set. Implied by the rows of U, but a knapsack
 * in binaries that a solver can cut. */
static enum ebb_status knapsack_row(struct build *b, uint32_t group, uint32_t v)
{
    const struct planner_graph *g = b->g;
    const struct planner_node *node = &g->nodes[v];
    double room = b->budget - units(b, node->workspace_bytes);
    bool has_term = false;
    for (uint32_t k = 0; k < node->in_count; k++)
        room -= units(b, g->items[g->ins[node->in_first + k]].bytes);
    for (uint32_t o = 0; o < node->out_count; o++)
        room -= units(b, g->items[node->out_first + o].bytes);
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            if (!has_term)
                return EBB_OK;
            EBB_TRY(planner_mip_row(&b->m->mip, -PLANNER_INF, room, b->err));
        }
        uint32_t k = 0;
        for (uint32_t i = 0; i < node->out_first; i++) {
            while (k < node->in_count && g->ins[node->in_first + k] < i)
                k++;
            int s = cell(b, group + 1, i);
            if (s == PLANNER_CELL_ZERO || (k < node->in_count && g->ins[node->in_first + k] == i))
                continue;
            if (s == PLANNER_CELL_ONE && pass == 0)
                room -= units(b, g->items[i].bytes);
            if (s < 0)
                continue;
            has_term = true;
            if (pass == 1)
                EBB_TRY(planner_mip_term(&b->m->mip, s, units(b, g->items[i].bytes), b->err));
        }
    }
    return EBB_OK;
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
    EBB_TRY(memory_rows(b, group));
    for (uint32_t v = b->gr->begin[group]; v < end; v++)
        EBB_TRY(knapsack_row(b, group, v));
    return EBB_OK;
}

enum ebb_status planner_model_build(struct planner_model *model, const struct planner_graph *graph,
                                    const struct planner_groups *groups, uint64_t budget,
                                    const struct planner_link *link, struct ebb_error *err)
{
    *model = (struct planner_model){.graph = graph, .groups = groups, .link = link};
    planner_mip_init(&model->mip);
    struct build b = {.m = model, .g = graph, .gr = groups, .err = err};
    size_t items = graph->item_count, nodes = graph->node_count;
    enum ebb_status status = EBB_OK;
    model->s_col = ebb_calloc(groups->count * items + 1, sizeof *model->s_col);
    model->r_col = ebb_calloc(groups->count * nodes + 1, sizeof *model->r_col);
    b.last_const = ebb_calloc(items + 1, sizeof *b.last_const);
    b.last_group = ebb_calloc(items + 1, sizeof *b.last_group);
    b.head = ebb_calloc(nodes + 1, sizeof *b.head);
    b.n_col = ebb_calloc(items + 1, sizeof *b.n_col);
    b.made_const = ebb_calloc(nodes + 1, sizeof *b.made_const);
    if (link) {
        model->h_col = ebb_calloc(groups->count * items + 1, sizeof *model->h_col);
        model->in_col = ebb_calloc(groups->count * items + 1, sizeof *model->in_col);
        model->out_col = ebb_calloc(groups->count * items + 1, sizeof *model->out_col);
    }
    if ((link && (!model->h_col || !model->in_col || !model->out_col)) || !model->s_col ||
        !model->r_col || !b.last_const || !b.last_group || !b.head || !b.n_col || !b.made_const) {
        status = ebb_no_memory(err, groups->count * items * sizeof *model->s_col);
        goto out;
    }
    set_scales(&b, budget);
    model->mip.offset = link ? 0 : (double)graph->base_cost * model->cost_scale;
    find_last_groups(&b);
    status = add_cells(&b);
    if (status == EBB_OK && link)
        status = add_link(&b);
    for (uint32_t group = 0; group < groups->count && status == EBB_OK; group++)
        status = add_group(&b, group);
out:
    ebb_free(b.last_const);
    ebb_free(b.last_group);
    ebb_free(b.head);
    ebb_free(b.n_col);
    ebb_free(b.made_const);
    ebb_free(b.releases);
    if (status != EBB_OK)
        planner_model_fini(model);
    return status;
}

void planner_model_fini(struct planner_model *model)
{
    planner_mip_fini(&model->mip);
    ebb_free(model->s_col);
    ebb_free(model->r_col);
    ebb_free(model->h_col);
    ebb_free(model->in_col);
    ebb_free(model->out_col);
    model->s_col = model->r_col = model->h_col = model->in_col = model->out_col = NULL;
}

/* ---- between columns and schedules ---------------------------------------------------------- */

static bool is_kept_into(const struct planner_model *m, const double *x, uint32_t group,
                         uint32_t item)
{
    if (group >= m->groups->count)
        return m->graph->items[item].is_kept;
    int s = m->s_col[(size_t)group * m->graph->item_count + item];
    return s == PLANNER_CELL_ONE || (s >= 0 && x[s] > 0.5);
}

void planner_model_extract(const struct planner_model *m, const double *x,
                           struct planner_sched *sched)
{
    const struct planner_graph *g = m->graph;
    memset(sched->keep, 0, (size_t)sched->stages * sched->words * sizeof *sched->keep);
    for (uint32_t group = 0; group < m->groups->count; group++) {
        uint32_t begin = m->groups->begin[group], end = m->groups->begin[group + 1];
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
    return planner_bit(planner_row(sched, m->groups->begin[group]), item);
}

double planner_bound_cost(const struct planner_graph *g, double cost)
{
    uint64_t unit = 0;
    for (uint32_t v = 0; v < g->node_count; v++)
        unit = gcd(unit, g->nodes[v].cost);
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
