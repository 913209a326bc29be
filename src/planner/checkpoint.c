/* checkpoint.c - the strategies that fix a set of checkpoints: all, all_ap, last, Chen's sqrt(n)
 * and greedy.
 *
 * On a Checkmate graph the rows are built by the published rules, bit for bit, waste included
 * (checkpoints stay to the end). On any other trace the same idea is expressed with the lifetimes
 * of the trace: checkpoints, gradients and updates live as long as they are read; the rest of a
 * segment lives through the forward pass of its segment, and again from the first to the last
 * backward op that reads anything of it. */
#include "planner/job.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"

/* ---- published rules (mirrored graphs) ------------------------------------------------------ */

/* One segment [a, e) of forward nodes: ladder, forward block, backward block (5.1 rule 4). */
static void mirrored_segment(struct planner_sched *s, uint32_t a, uint32_t e)
{
    uint32_t total = s->stages, n = s->graph->forward_count;
    for (uint32_t x = a; x < e && x < total; x++) {
        uint32_t t = total - 1 - x;
        for (uint32_t i = a; i < e && i < t; i++)
            planner_keep(s, t, i);
    }
    for (uint32_t t = a; t <= e && t < total; t++)
        for (uint32_t i = a; i < e && i < t; i++)
            planner_keep(s, t, i);
    for (uint32_t x = a; x <= e && x < total; x++) {
        uint32_t t = total - 1 - x;
        for (uint32_t i = a; i < e && i < n; i++)
            if (total - 1 - i < t)
                planner_keep(s, t, total - 1 - i);
    }
}

static void mirrored_rows(struct planner_sched *s, const bool *is_checkpoint)
{
    const struct planner_graph *g = s->graph;
    uint32_t total = s->stages, n = g->forward_count;
    for (uint32_t v = 0; v < total; v++)
        for (uint32_t k = 0; k < g->nodes[v].in_count; k++) {
            uint32_t u = g->ins[g->nodes[v].in_first + k];
            if (u >= n && v >= n)
                planner_sched_keep(s, u, u + 1, v);
            planner_keep(s, v, u);
        }
    uint32_t begin = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (!is_checkpoint[k])
            continue;
        if (k + 1 < total)
            planner_sched_keep(s, k, k + 1, total - 1);
        mirrored_segment(s, begin, k);
        begin = k;
    }
    mirrored_segment(s, begin, n + 1);
}

/* ---- any trace ------------------------------------------------------------------------------ */

static void keep_to(struct planner_sched *s, uint32_t item, uint32_t last)
{
    if (last > s->graph->items[item].node)
        planner_sched_keep(s, item, s->graph->items[item].node + 1, last);
}

static void trace_rows(struct planner_sched *s, const bool *is_checkpoint)
{
    const struct planner_graph *g = s->graph;
    uint32_t n = g->forward_count;
    for (uint32_t i = 0; i < g->item_count; i++) {
        const struct planner_item *item = &g->items[i];
        uint32_t last = item->is_kept ? s->stages - 1 : planner_graph_last_use(g, item, item->node);
        bool is_whole =
            item->node >= n || is_checkpoint[item->node] || item->is_fixed || item->is_kept;
        keep_to(s, i, is_whole ? last : planner_graph_last_use_before(g, item, n));
    }
    for (uint32_t begin = 0; begin < n;) {
        uint32_t end = begin + 1;
        while (end < n && !is_checkpoint[end])
            end++;
        uint32_t first = s->stages; /* first backward op that reads anything of the segment */
        for (uint32_t pass = 0; pass < 2; pass++)
            for (uint32_t v = begin; v < end; v++)
                for (uint32_t o = 0; o < g->nodes[v].out_count; o++) {
                    const struct planner_item *item = &g->items[g->nodes[v].out_first + o];
                    for (uint32_t u = 0; u < item->use_count; u++) {
                        uint32_t t = g->uses[item->use_first + u];
                        if (t < n)
                            continue;
                        if (pass == 0 && t < first)
                            first = t;
                        if (pass == 1 && t > first)
                            planner_sched_keep(s, g->nodes[v].out_first + o, first + 1, t);
                    }
                }
        begin = end;
    }
}

static void set_rows(struct planner_job *job, const bool *is_checkpoint)
{
    struct planner_sched *s = &job->trial;
    planner_sched_clear(s);
    if (job->graph->is_mirrored) {
        mirrored_rows(s, is_checkpoint);
    } else {
        trace_rows(s, is_checkpoint);
        planner_sched_close(&job->ev, s);
        planner_sched_trim(&job->ev, s);
    }
}

/* ---- constant sets -------------------------------------------------------------------------- */

static bool only_ap(const struct planner_job *job)
{
    return job->planner->flags & PLANNER_AP;
}

enum ebb_status planner_solve_all(struct planner_job *job, struct ebb_error *err)
{
    bool *set = ebb_arena_calloc(job->arena, job->graph->node_count, sizeof *set);
    EBB_TRY(ebb_arena_status(job->arena, err));
    if (only_ap(job))
        EBB_TRY(planner_graph_articulation(job->graph, set, err));
    for (uint32_t v = 0; v < job->graph->forward_count && !only_ap(job); v++)
        set[v] = true;
    set_rows(job, set);
    planner_job_offer(job, job->planner->name);
    return EBB_OK;
}

enum ebb_status planner_solve_last(struct planner_job *job, struct ebb_error *err)
{
    (void)err;
    struct planner_sched *s = &job->trial;
    planner_sched_keep_newest(s);
    if (!job->graph->is_mirrored)
        planner_sched_close(&job->ev, s);
    planner_job_offer(job, "last");
    return EBB_OK;
}

/* ---- Chen et al. ---------------------------------------------------------------------------- */

struct candidates {  /* arrays belong to an arena */
    uint32_t *order; /* candidate nodes in iteration order */
    size_t count;
    bool *is_member; /* per node */
    bool *chosen;    /* per node */
};

static enum ebb_status find_candidates(struct planner_job *job, bool is_ap, struct candidates *c,
                                       struct ebb_error *err)
{
    struct ebb_arena *arena = job->arena;
    const struct planner_graph *g = job->graph;
    const struct planner_params *params = &job->request->params;
    *c = (struct candidates){.order = ebb_arena_calloc(arena, g->node_count, sizeof *c->order),
                             .is_member =
                                 ebb_arena_calloc(arena, g->node_count, sizeof *c->is_member),
                             .chosen = ebb_arena_calloc(arena, g->node_count, sizeof *c->chosen)};
    EBB_TRY(ebb_arena_status(arena, err));
    if (is_ap)
        EBB_TRY(planner_graph_articulation(g, c->is_member, err));
    for (uint32_t v = 0; v < g->forward_count && !is_ap; v++)
        c->is_member[v] = planner_graph_has_forward_edge(g, v);
    for (uint32_t v = 0; v < g->node_count && !params->order; v++)
        if (c->is_member[v])
            c->order[c->count++] = v;
    for (size_t k = 0; k < params->order_count && params->order; k++)
        if (params->order[k] < g->forward_count && c->is_member[params->order[k]])
            c->order[c->count++] = params->order[k];
    return EBB_OK;
}

/* Every sqrt(n)-th candidate; false: there are none. */
static bool choose_sqrtn(struct candidates *c)
{
    size_t k = (size_t)sqrt((double)c->count);
    for (size_t i = k; k > 0 && i <= c->count; i += k)
        c->chosen[c->order[i - 1]] = true;
    return k > 0;
}

enum ebb_status planner_solve_chen_sqrtn(struct planner_job *job, struct ebb_error *err)
{
    struct candidates c;
    EBB_TRY(find_candidates(job, only_ap(job), &c, err));
    if (choose_sqrtn(&c)) {
        set_rows(job, c.chosen);
        planner_job_offer(job, job->planner->name);
    } else {
        planner_job_not_applicable(job, "no forward op can be a checkpoint");
    }
    return EBB_OK;
}

static uint64_t node_bytes(const struct planner_graph *g, uint32_t v)
{
    uint64_t bytes = 0;
    for (uint32_t o = 0; o < g->nodes[v].out_count; o++)
        bytes += g->items[g->nodes[v].out_first + o].bytes;
    return bytes;
}

/* Walk the forward nodes; a candidate that ends a segment larger than b becomes a checkpoint. */
static void greedy_set(struct planner_job *job, struct candidates *c, double b)
{
    const struct planner_graph *g = job->graph;
    const struct planner_params *params = &job->request->params;
    uint64_t segment = 0;
    memset(c->chosen, 0, g->node_count * sizeof *c->chosen);
    size_t n = params->forward_order ? params->forward_order_count : g->forward_count;
    for (size_t i = 0; i < n; i++) {
        uint32_t v = params->forward_order ? params->forward_order[i] : (uint32_t)i;
        if (v >= g->forward_count || g->nodes[v].is_fixed)
            continue;
        segment += node_bytes(g, v);
        if (c->is_member[v] && (double)segment > b) {
            c->chosen[v] = true;
            segment = 0;
        }
    }
}

/* b = A (1 + x), x from -1 in steps of 3/points, A = peak of sqrt(n) over all forward nodes. */
static enum ebb_status greedy_sweep(struct planner_job *job, struct candidates *c,
                                    struct ebb_error *err)
{
    struct candidates all;
    EBB_TRY(find_candidates(job, false, &all, err));
    (void)choose_sqrtn(&all);
    set_rows(job, all.chosen);
    if (!planner_sched_eval(&job->ev, &job->trial, NULL))
        return EBB_OK;
    double reference = (double)job->trial.peak;
    uint32_t points = job->request->params.sweep_points ? job->request->params.sweep_points : 300;
    for (uint32_t p = 0; p < points && !planner_job_out_of_time(job); p++) {
        greedy_set(job, c, reference * (3.0 * p / points));
        set_rows(job, c->chosen);
        planner_job_offer(job, job->planner->name);
    }
    return EBB_OK;
}

enum ebb_status planner_solve_chen_greedy(struct planner_job *job, struct ebb_error *err)
{
    struct candidates c;
    double b = job->request->params.segment_bytes;
    EBB_TRY(find_candidates(job, only_ap(job), &c, err));
    if (isnan(b))
        return greedy_sweep(job, &c, err);
    greedy_set(job, &c, b);
    set_rows(job, c.chosen);
    planner_job_offer(job, job->planner->name);
    return EBB_OK;
}
