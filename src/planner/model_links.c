/* model_links.c - copies in the conservation model: what is sent, fetched and on its way.
 *
 * Per tier, group g and item i: OUT = sent in g; IN = there when g begins, by a copy; H = a copy
 * lies in the tier when g begins; C, F = parts that went out and came in up to the end of g.
 *   C_g <= sum of OUT up to g;  F_g - F_(g-1) <= C_g;  sum of IN up to g <= F_g;  C and F grow
 *   IN_g <= H_g <= H_(g-1) + OUT_(g-1);  OUT_g <= S_g unless i is made in g;  bytes x H <= room
 *   time of g >= its runs, copies of C_g - C_(g-1), copies of F_g - F_(g-1)
 * What has come in part, and what is not kept but has gone in part only, takes room by that part. */
#include "planner/model.h"

#include "mem/mem.h"

struct links {
    struct planner_model *m;
    const struct planner_graph *g;
    int *held[DEVICE_TIERS], *sent[DEVICE_TIERS], *come[DEVICE_TIERS];
};

static size_t index_of(const struct links *l, uint32_t group, uint32_t i)
{
    return (size_t)group * l->g->item_count + i;
}

static void add_columns(struct links *l, int tier, uint32_t group, uint32_t i)
{
    struct planner_model *m = l->m;
    const struct planner_item *item = &l->g->items[i];
    size_t at = index_of(l, group, i);
    int **all[] = {&m->out_col[tier], &m->in_col[tier], &m->coming_col[tier], &m->going_col[tier],
                   &l->held[tier],    &l->sent[tier],   &l->come[tier]};
    for (size_t c = 0; c < sizeof all / sizeof *all; c++)
        (*all[c])[at] = -1;
    bool can_go = item->bytes > 0 && item->bytes <= m->tiers->bytes[tier];
    bool is_in = can_go && m->s_col[at] >= 0;
    bool is_out = can_go && group + 1 < m->groups.count &&
                  item->node < m->groups.begin[group + 1] && m->s_col[at + l->g->item_count] >= 0;
    if (is_out)
        m->out_col[tier][at] = planner_mip_col(&m->mip, 0, 1, 0, true);
    if (is_in || is_out)
        l->sent[tier][at] = planner_mip_col(&m->mip, 0, PLANNER_INF, 0, false);
    if (!is_in)
        return;
    m->in_col[tier][at] = planner_mip_col(&m->mip, 0, 1, 0, true);
    l->held[tier][at] = planner_mip_col(&m->mip, 0, 1, 0, false);
    l->come[tier][at] = planner_mip_col(&m->mip, 0, PLANNER_INF, 0, false);
    m->coming_col[tier][at] = planner_mip_col(&m->mip, 0, 1, 0, false);
    m->going_col[tier][at] = planner_mip_col(&m->mip, 0, 1, 0, false);
}

/* Terms of a column of every group before `end`. */
static void sum_terms(struct links *l, const int *cols, uint32_t end, uint32_t i, double coef)
{
    for (uint32_t group = 0; group < end; group++)
        planner_mip_term(&l->m->mip, cols[index_of(l, group, i)], coef);
}

/* Begin the row 0 <= a - b. */
static void at_least(struct planner_mip *mip, int a, int b)
{
    planner_mip_row(mip, 0, PLANNER_INF);
    planner_mip_term(mip, a, 1);
    planner_mip_term(mip, b, -1);
}

static void in_rows(struct links *l, int tier, uint32_t group, uint32_t i)
{
    struct planner_model *m = l->m;
    size_t at = index_of(l, group, i);
    int come = l->come[tier][at], before = group ? l->come[tier][at - l->g->item_count] : -1;
    if (before >= 0)
        at_least(&m->mip, come, before);
    at_least(&m->mip, l->sent[tier][at], come);
    planner_mip_term(&m->mip, before, 1);
    at_least(&m->mip, come, -1);
    sum_terms(l, m->in_col[tier], group + 1, i, -1);
    at_least(&m->mip, l->held[tier][at], m->in_col[tier][at]);
    at_least(&m->mip, m->coming_col[tier][at], before);
    sum_terms(l, m->in_col[tier], group + 1, i, 1);
    at_least(&m->mip, m->going_col[tier][at], -1);
    planner_mip_term(&m->mip, l->sent[tier][at], 1);
    planner_mip_term(&m->mip, m->s_col[at], 1);
    sum_terms(l, m->out_col[tier], group, i, -1);
}

static void add_rows(struct links *l, int tier, uint32_t group, uint32_t i)
{
    struct planner_model *m = l->m;
    size_t at = index_of(l, group, i);
    int sent = l->sent[tier][at], out = m->out_col[tier][at], held = l->held[tier][at];
    if (sent < 0)
        return;
    if (group && l->sent[tier][at - l->g->item_count] >= 0)
        at_least(&m->mip, sent, l->sent[tier][at - l->g->item_count]);
    at_least(&m->mip, -1, sent);
    sum_terms(l, m->out_col[tier], group + 1, i, 1);
    if (out >= 0 && m->s_col[at] >= 0) /* else it is made here, or stays */
        at_least(&m->mip, m->s_col[at], out);
    if (held >= 0 && group) {
        at_least(&m->mip, l->held[tier][at - l->g->item_count], held);
        planner_mip_term(&m->mip, m->out_col[tier][at - l->g->item_count], 1);
    }
    if (held >= 0)
        in_rows(l, tier, group, i);
}

/* The time of a group is no less than that of copies on one link. */
static void link_row(struct links *l, int time, uint32_t group, int tier, bool is_out)
{
    struct planner_model *m = l->m;
    const struct device_link *link =
        is_out ? &m->tiers->links.out[tier] : &m->tiers->links.in[tier];
    const int *cols = is_out ? l->sent[tier] : l->come[tier];
    at_least(&m->mip, time, -1);
    for (uint32_t i = 0; i < l->g->item_count; i++) {
        size_t at = index_of(l, group, i);
        uint64_t bytes = l->g->trace->storages[l->g->items[i].storage].bytes;
        double ns = mem_copy_ns(link, bytes) * m->cost_scale;
        if (cols[at] < 0)
            continue;
        planner_mip_term(&m->mip, cols[at], -ns);
        planner_mip_term(&m->mip, group ? cols[at - l->g->item_count] : -1, ns);
    }
}

static void add_times(struct links *l, uint32_t group)
{
    struct planner_model *m = l->m;
    const struct planner_graph *g = l->g;
    double own = 0;
    for (uint32_t v = m->groups.begin[group]; v < m->groups.begin[group + 1]; v++)
        own += (double)g->nodes[v].cost * m->cost_scale;
    int time = planner_mip_col(&m->mip, own, PLANNER_INF, 1, false);
    planner_mip_row(&m->mip, own, PLANNER_INF);
    planner_mip_term(&m->mip, time, 1);
    for (uint32_t v = 0; v < g->node_count; v++)
        planner_mip_term(&m->mip, m->r_col[(size_t)group * g->node_count + v],
                         -(double)g->nodes[v].cost * m->cost_scale);
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++) {
        if (m->tiers->bytes[tier] == 0)
            continue;
        link_row(l, time, group, tier, true);
        link_row(l, time, group, tier, false);
        planner_mip_row(&m->mip, -PLANNER_INF, (double)m->tiers->bytes[tier] * m->mem_scale);
        for (uint32_t i = 0; i < g->item_count; i++)
            planner_mip_term(&m->mip, l->held[tier][index_of(l, group, i)],
                             (double)g->items[i].bytes * m->mem_scale);
    }
}

enum ebb_status planner_model_links(struct planner_model *m, struct ebb_error *err)
{
    struct links l = {.m = m, .g = m->graph};
    size_t cells = (size_t)m->groups.count * l.g->item_count;
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++) {
        int **all[] = {&m->out_col[tier],   &m->in_col[tier], &m->coming_col[tier],
                       &m->going_col[tier], &l.held[tier],    &l.sent[tier],
                       &l.come[tier]};
        for (size_t c = 0; c < sizeof all / sizeof *all; c++)
            *all[c] = ebb_arena_calloc(&m->arena, cells, sizeof **all[c]);
    }
    EBB_TRY(ebb_arena_status(&m->arena, err));
    for (uint32_t group = 0; group < m->groups.count; group++)
        for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++)
            for (uint32_t i = 0; i < l.g->item_count; i++)
                add_columns(&l, tier, group, i);
    for (uint32_t group = 0; group < m->groups.count; group++) {
        for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++)
            for (uint32_t i = 0; i < l.g->item_count; i++)
                add_rows(&l, tier, group, i);
        add_times(&l, group);
    }
    return planner_mip_status(&m->mip, err);
}
