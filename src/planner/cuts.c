/* cuts.c - rows and columns of the split program. */
#include "planner/cuts.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "mem/mem.h"

#define NO_COL (-1)
#define ALWAYS (-2) /* S is one: what cannot be had again and is read later */

struct span {            /* an interval */
    uint32_t begin, end; /* nodes that run first in it */
    uint32_t node;       /* whose working set lies there when it ends */
    bool is_run;         /* with copies: exactly the first run of `node` */
};

struct build {
    struct planner_cuts *cuts;
    struct planner_mip *mip;
    const struct planner_graph *g;
    const struct span *spans;
    uint32_t count; /* of those that end in an instant; span `count` is what comes after the last */
    uint32_t *interval; /* node -> interval of its first run */
    uint32_t *last;     /* item -> last interval in which it can be of use */
    uint32_t *certain;  /* item -> last interval in which a first run reads it */
    int *s, *s_next;    /* item -> column of S at the begin and at the end of the interval */
    int *r;             /* node -> column of R in this interval */
    const struct planner_tiers *tiers; /* NULL: nothing is copied */
    bool *may_run;                     /* node -> it may run again */
    uint32_t *deadline;                /* node -> last stage in which it may */
    bool *stays;                       /* item -> in tier 0 as long as a first run reads it */
    int *sent[DEVICE_TIERS], *sent_next[DEVICE_TIERS]; /* item -> column of C, as s */
    int *in[DEVICE_TIERS];                             /* item -> column of I in this interval */
    int *coming, *coming_next, *come; /* item -> columns of L, as s, and of A; only in integers */
    bool is_integer;
    int *made; /* item -> column of S past the first run of its maker, an instant's node */
    double cost_scale, mem_scale, budget;
};

/* Lower tiers that an item can be copied to. */
static bool has_room(const struct build *b, int tier, uint32_t i)
{
    return b->tiers && !b->stays[i] && b->g->items[i].bytes <= b->tiers->bytes[tier];
}

/* With copies a version that was overwritten may come back, unless it persists: then it never left
 * tier 0. */
static void find_rules_with_copies(struct build *b)
{
    const struct planner_graph *g = b->g;
    const struct plan_recipes *r = g->recipes;
    for (uint32_t v = 0; v < g->node_count; v++) {
        const struct trace_op *op = &g->trace->ops[g->nodes[v].op];
        const struct plan_node *node = &r->nodes[v];
        b->may_run[v] = !op->is_leaf && op->kind->purity != TRACE_ONCE;
        b->deadline[v] = TRACE_NONE;
        for (uint32_t k = 0; k < node->out_count; k++)
            if (r->outs[node->out_first + k].version > 0 &&
                r->storages[r->outs[node->out_first + k].storage].base != PLAN_NOWHERE)
                b->may_run[v] = false;
        for (uint32_t k = 0; k < node->in_count; k++) {
            struct plan_ref in = r->ins[node->in_first + k];
            uint32_t gone = plan_version_of(r, in.storage, in.version)->gone;
            if (r->storages[in.storage].base != PLAN_NOWHERE && gone < b->deadline[v])
                b->deadline[v] = gone;
        }
    }
    for (uint32_t i = 0; i < g->item_count; i++)
        b->stays[i] =
            g->items[i].bytes == 0 || r->storages[g->items[i].storage].base != PLAN_NOWHERE;
}

static void find_rules(struct build *b)
{
    const struct planner_graph *g = b->g;
    if (b->tiers) {
        find_rules_with_copies(b);
        return;
    }
    for (uint32_t v = 0; v < g->node_count; v++) {
        b->may_run[v] = !g->nodes[v].is_fixed;
        b->deadline[v] = g->nodes[v].deadline;
    }
    for (uint32_t i = 0; i < g->item_count; i++)
        b->stays[i] = g->items[i].is_fixed;
}

/* With copies and in integers the first run of an instant's node is an interval of its own: what it
 * reads has come before, what it makes goes after it, and what leaves meanwhile is in nobody's room.
 * With few instants among many ops that makes no difference but columns. */
static void find_spans(struct build *b, struct span *spans, const uint32_t *at, uint32_t count)
{
    bool is_split = b->tiers && b->is_integer;
    uint32_t begin = 0;
    b->spans = spans;
    for (uint32_t k = 0; k < count; k++) {
        if (is_split) {
            spans[b->count++] = (struct span){begin, at[k], at[k], false};
            begin = at[k];
        }
        spans[b->count++] = (struct span){begin, at[k] + 1, at[k], is_split};
        begin = at[k] + 1;
    }
    spans[b->count] = (struct span){begin, b->g->node_count, TRACE_NONE, false};
    for (uint32_t k = 0; k <= b->count; k++)
        for (uint32_t v = spans[k].begin; v < spans[k].end; v++)
            b->interval[v] = k;
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
            for (uint32_t o = 0; o < node->out_count && b->may_run[reader]; o++) {
                uint32_t later = b->last[node->out_first + o];
                while (later > last && b->spans[later].begin > b->deadline[reader])
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
        if (b->stays[i] && b->certain[i] > k)
            b->s_next[i] = ALWAYS;
        else if (b->made[i] >= 0 && b->interval[item->node] == k)
            b->s_next[i] = b->made[i];
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
        if (b->interval[v] >= k || !b->may_run[v] || !is_useful || b->spans[k].is_run ||
            b->deadline[v] < b->spans[k].begin)
            continue;
        double cost = b->tiers ? 0 : (double)node->cost * b->cost_scale; /* else: in d_k */
        b->r[v] = planner_mip_col(b->mip, 0, 1, cost, false);
    }
}

/* Columns of C past interval k and of I in it. */
static void copy_columns(struct build *b, int tier, uint32_t k)
{
    const struct planner_graph *g = b->g;
    for (uint32_t i = 0; i < g->item_count; i++) {
        uint32_t made = b->interval[g->items[i].node];
        b->sent_next[tier][i] = b->in[tier][i] = NO_COL;
        bool is_run = b->spans[k].is_run;
        if (!has_room(b, tier, i) || made + is_run > k || k > b->last[i] || made == b->last[i])
            continue;
        b->sent_next[tier][i] = planner_mip_col(b->mip, 0, 1, 0, false);
        if (made < k && !(is_run && planner_graph_reads(g, &g->nodes[b->spans[k].node], i)))
            b->in[tier][i] = planner_mip_col(b->mip, 0, 1, 0, false);
    }
}

/* In integers S cannot be the part that has come: that is L_k = L_(k-1) + I_k - A_k, and A_k says
 * whether all of it has. What t_k reads does not come while it runs. */
static void coming_columns(struct build *b, uint32_t k)
{
    const struct planner_graph *g = b->g;
    for (uint32_t i = 0; i < g->item_count; i++) {
        b->coming_next[i] = b->come[i] = NO_COL;
        if (!b->is_integer || k > b->last[i] ||
            (b->in[DEVICE_HOST][i] < 0 && b->in[DEVICE_FILE][i] < 0 && b->coming[i] < 0))
            continue;
        if (b->s_next[i] >= 0)
            b->coming_next[i] = planner_mip_col(b->mip, 0, 1, 0, false);
        if (!(b->spans[k].is_run && planner_graph_reads(g, &g->nodes[b->spans[k].node], i)))
            b->come[i] = planner_mip_col(b->mip, 0, 1, 0, true);
        planner_mip_row(b->mip, 0, PLANNER_INF);
        planner_mip_term(b->mip, b->coming[i], 1);
        for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++)
            planner_mip_term(b->mip, b->in[tier][i], 1);
        planner_mip_term(b->mip, b->coming_next[i], -1);
        planner_mip_term(b->mip, b->come[i], -1);
    }
}

/* An item that comes from below in the interval: the part, in integers whether all of it has come;
 * but_for: not from that tier. */
static void arrival_terms(struct build *b, uint32_t i, int but_for)
{
    planner_mip_term(b->mip, b->come[i], 1);
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS && b->tiers && !b->is_integer; tier++)
        planner_mip_term(b->mip, tier == but_for ? NO_COL : b->in[tier][i], 1);
}

/* What may be fetched and sent in interval k. */
static void copy_rows(struct build *b, int tier, uint32_t begin)
{
    const struct planner_graph *g = b->g;
    for (uint32_t i = 0; i < g->item_count && g->items[i].node < begin; i++) {
        int before = b->sent[tier][i], after = b->sent_next[tier][i];
        if (after < 0)
            continue;
        if (b->in[tier][i] >= 0)
            planner_mip_at_most(b->mip, b->in[tier][i], after, NO_COL);
        if (before >= 0)
            planner_mip_at_most(b->mip, before, after, NO_COL);
        planner_mip_row(b->mip, 0, PLANNER_INF);
        planner_mip_term(b->mip, b->s[i], 1);
        planner_mip_term(b->mip, b->r[g->items[i].node], 1);
        arrival_terms(b, i, tier);
        planner_mip_term(b->mip, after, -1);
        planner_mip_term(b->mip, before, 1);
    }
}

/* d_k, and what takes no longer than it. */
static void time_rows(struct build *b, const struct span *span)
{
    const struct planner_graph *g = b->g;
    uint32_t begin = span->begin, end = span->end;
    double own = 0;
    for (uint32_t v = begin; v < end; v++)
        own += (double)g->nodes[v].cost * b->cost_scale;
    int time = planner_mip_col(b->mip, own, span->is_run ? own : PLANNER_INF, 1, false);
    if (!span->is_run)
        planner_mip_row(b->mip, own, PLANNER_INF);
    planner_mip_term(b->mip, span->is_run ? NO_COL : time, 1);
    for (uint32_t v = 0; v < begin && !span->is_run; v++)
        planner_mip_term(b->mip, b->r[v], -(double)g->nodes[v].cost * b->cost_scale);
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++)
        for (int is_out = 0; is_out < 2 && b->tiers->bytes[tier] > 0; is_out++) {
            const struct device_link *link =
                is_out ? &b->tiers->links.out[tier] : &b->tiers->links.in[tier];
            planner_mip_row(b->mip, 0, PLANNER_INF);
            planner_mip_term(b->mip, time, 1);
            for (uint32_t i = 0; i < g->item_count && g->items[i].node < end; i++) {
                uint64_t bytes = g->trace->storages[g->items[i].storage].bytes;
                double ns = floor(mem_copy_ns(link, bytes)) * b->cost_scale;
                int after = b->sent_next[tier][i];
                planner_mip_term(b->mip, is_out ? after : b->in[tier][i], -ns);
                planner_mip_term(b->mip, is_out && after >= 0 ? b->sent[tier][i] : NO_COL, ns);
            }
        }
}

/* Everything about copies in interval k, before the rows of readers. */
static void add_copies(struct build *b, uint32_t k)
{
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++)
        copy_columns(b, tier, k);
    coming_columns(b, k);
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++)
        copy_rows(b, tier, b->spans[k].begin);
    time_rows(b, &b->spans[k]);
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++)
        ebb_swap(&b->sent[tier], &b->sent_next[tier], sizeof b->sent[tier]);
}

/* S + R + I of an item from before the interval, at least `constant` + `other` (a column or NO_COL).
 */
static void presence(struct build *b, uint32_t i, double constant, int other)
{
    if (b->s[i] == ALWAYS)
        return;
    planner_mip_row(b->mip, constant, PLANNER_INF);
    planner_mip_term(b->mip, b->s[i], 1);
    planner_mip_term(b->mip, b->r[b->g->items[i].node], 1);
    arrival_terms(b, i, DEVICE_T0);
    planner_mip_term(b->mip, other, -1);
}

/* What runs in interval k needs its inputs; what is kept past it was there or is made in it. */
static void flow_rows(struct build *b, uint32_t k)
{
    const struct planner_graph *g = b->g;
    uint32_t begin = b->spans[k].begin, end = b->spans[k].end;
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
        unit = planner_gcd(unit, b->g->nodes[b->spans[k].node].workspace_bytes);
    b->mem_scale = planner_mem_scale(b->g, &unit);
    b->budget = (double)(budget / unit * unit) * b->mem_scale;
}

/* With copies a first run may leave out what it makes, if the op can: it is then made later. What it
 * makes lies there from its beginning on: S past its run is the column, and it begins here. */
static double output_terms(struct build *b, uint32_t k)
{
    const struct planner_graph *g = b->g;
    const struct planner_node *node = &g->nodes[b->spans[k].node];
    bool can_skip = b->tiers && plan_can_skip(g->trace->ops[node->op].kind);
    double whole = 0;
    for (uint32_t o = node->out_first; o < node->out_first + node->out_count; o++) {
        double bytes = (double)g->items[o].bytes * b->mem_scale;
        whole += can_skip ? 0 : bytes;
        if (!can_skip || b->stays[o] || b->last[o] <= b->interval[b->spans[k].node])
            continue;
        if (b->made[o] < 0)
            b->made[o] = b->s_next[o] >= 0 ? b->s_next[o] : planner_mip_col(b->mip, 0, 1, 0, true);
        planner_mip_term(b->mip, b->made[o], bytes);
    }
    return whole;
}

static void memory_row(struct build *b, uint32_t k)
{
    const struct planner_graph *g = b->g;
    const struct planner_node *node = &g->nodes[b->spans[k].node];
    double room = b->budget - (double)node->workspace_bytes * b->mem_scale;
    planner_mip_row(b->mip, -PLANNER_INF, 0);
    room -= output_terms(b, k);
    for (uint32_t i = 0; i < node->out_first; i++) {
        double bytes = (double)g->items[i].bytes * b->mem_scale;
        bool is_read = planner_graph_reads(g, node, i);
        if (is_read || b->s_next[i] == ALWAYS)
            room -= bytes;
        else if (b->s_next[i] >= 0)
            planner_mip_term(b->mip, b->s_next[i], bytes);
        planner_mip_term(b->mip, is_read ? NO_COL : b->coming_next[i], bytes);
    }
    planner_mip_upper(b->mip, room);
}

static void add_intervals(struct build *b)
{
    for (uint32_t i = 0; i < b->g->item_count; i++)
        b->s[i] = b->made[i] = b->coming[i] = b->coming_next[i] = b->come[i] = NO_COL;
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS && b->tiers; tier++)
        for (uint32_t i = 0; i < b->g->item_count; i++)
            b->sent[tier][i] = NO_COL;
    for (uint32_t k = 0; k <= b->count; k++) {
        keep_columns(b, k);
        rerun_columns(b, k);
        if (b->tiers)
            add_copies(b, k);
        flow_rows(b, k);
        if (k < b->count)
            memory_row(b, k);
        if (k < b->count && !b->tiers)
            memcpy(b->cuts->s_col + (size_t)k * b->g->item_count, b->s_next,
                   b->g->item_count * sizeof *b->s_next);
        ebb_swap(&b->s, &b->s_next, sizeof b->s);
        ebb_swap(&b->coming, &b->coming_next, sizeof b->coming);
    }
}

enum ebb_status planner_cuts_build(struct planner_cuts *cuts, const struct planner_graph *g,
                                   uint64_t budget, const struct planner_tiers *tiers,
                                   bool is_integer, const uint32_t *at, uint32_t count,
                                   struct ebb_error *err)
{
    struct ebb_arena build_arena = {0};
    size_t items = (size_t)g->item_count + 1, nodes = (size_t)g->node_count + 1;
    *cuts = (struct planner_cuts){.graph = g, .count = count, .cost_scale = planner_cost_scale(g)};
    cuts->mip.offset = tiers ? 0 : (double)g->base_cost * cuts->cost_scale;
    cuts->s_col = ebb_arena_calloc(&cuts->arena, (size_t)count + 1, items * sizeof *cuts->s_col);
    cuts->at = ebb_arena_calloc(&cuts->arena, (size_t)count + 1, sizeof *cuts->at);
    struct span *spans = ebb_arena_calloc(&build_arena, 2 * (size_t)count + 1, sizeof *spans);
    struct build b = {.cuts = cuts,
                      .mip = &cuts->mip,
                      .g = g,
                      .tiers = tiers,
                      .is_integer = is_integer,
                      .made = ebb_arena_calloc(&build_arena, items, sizeof *b.made),
                      .coming = ebb_arena_calloc(&build_arena, items, sizeof *b.coming),
                      .coming_next = ebb_arena_calloc(&build_arena, items, sizeof *b.coming_next),
                      .come = ebb_arena_calloc(&build_arena, items, sizeof *b.come),
                      .may_run = ebb_arena_calloc(&build_arena, nodes, sizeof *b.may_run),
                      .deadline = ebb_arena_calloc(&build_arena, nodes, sizeof *b.deadline),
                      .stays = ebb_arena_calloc(&build_arena, items, sizeof *b.stays),
                      .interval = ebb_arena_calloc(&build_arena, nodes, sizeof *b.interval),
                      .r = ebb_arena_calloc(&build_arena, nodes, sizeof *b.r),
                      .last = ebb_arena_calloc(&build_arena, items, sizeof *b.last),
                      .certain = ebb_arena_calloc(&build_arena, items, sizeof *b.certain),
                      .s = ebb_arena_calloc(&build_arena, items, sizeof *b.s),
                      .s_next = ebb_arena_calloc(&build_arena, items, sizeof *b.s_next),
                      .cost_scale = cuts->cost_scale};
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++) {
        int **columns[] = {&b.sent[tier], &b.sent_next[tier], &b.in[tier]};
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            *columns[c] = ebb_arena_calloc(&build_arena, items, sizeof **columns[c]);
    }
    enum ebb_status status = ebb_arena_status(&cuts->arena, err);
    EBB_THEN(status, ebb_arena_status(&build_arena, err));
    if (status == EBB_OK) {
        memcpy(cuts->at, at, count * sizeof *at);
        find_rules(&b);
        find_spans(&b, spans, at, count);
        set_scales(&b, budget);
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
