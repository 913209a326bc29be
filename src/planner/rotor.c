/* rotor.c - the exact dynamic program of Beaumont et al. for chains with persistent checkpoints
 * (2019), on chains and on the chain of articulation points.
 *
 * Block l = the forward nodes after articulation point l-1 up to point l; the loss is block L.
 * Sizes in slots of budget/500. opt(m, a, b): least time to run blocks a..b forward and backward
 * with m slots free, the input of a stored and not counted. The rows of the schedule follow from
 * the decisions; transient bytes of the graph are not exactly the chain's, so several budgets are
 * tried and the exact evaluator chooses. */
#include "planner/job.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"

#define SLOTS 500
#define MOST_BLOCKS 220

struct rotor {
    struct planner_job *job;
    uint32_t blocks;      /* L; block L is the loss */
    uint32_t *first, *ap; /* first node and articulation point of each block */
    double *fw, *bw;      /* time of the keeping forward (= plain forward) and of the backward */
    uint32_t *cw, *cbw; /* slots: input of block l; everything block l - 1 keeps for its backward */
    float *opt;         /* [(b * (L + 1) + a) * (SLOTS + 1) + m] */
    int16_t *pick;      /* 0: now; j > a: checkpoint the input of j; -1: impossible */
    double *prefix;     /* forward time of blocks 0..l-1 */
};

static size_t at(const struct rotor *r, uint32_t m, uint32_t a, uint32_t b)
{
    return ((size_t)b * (r->blocks + 1) + a) * (SLOTS + 1) + m;
}

/* Least memory in which blocks a..b can be run forward at all. */
static uint32_t least_memory(const struct rotor *r, uint32_t a, uint32_t b)
{
    uint32_t out = b < r->blocks ? r->cw[b + 1] : 0, least = out + r->cw[a + 1];
    for (uint32_t j = a + 1; j < b; j++)
        if (out + r->cw[j] + r->cw[j + 1] > least)
            least = out + r->cw[j] + r->cw[j + 1];
    return least;
}

/* opt(m, a, b) for every m. Memory is the inner loop: all rows it touches are consecutive. */
static void solve_blocks(struct rotor *r, uint32_t a, uint32_t b)
{
    float *best = &r->opt[at(r, 0, a, b)];
    int16_t *pick = &r->pick[at(r, 0, a, b)];
    float own = (float)(r->fw[a] + r->bw[a]);
    for (uint32_t m = 0; m <= SLOTS; m++) {
        best[m] = INFINITY;
        pick[m] = -1;
    }
    if (a == b) {
        for (uint32_t m = r->cw[a] + r->cbw[a + 1]; m <= SLOTS; m++) {
            best[m] = own;
            pick[m] = 0;
        }
        return;
    }
    uint32_t least = least_memory(r, a, b);
    for (uint32_t j = a + 1; j <= b; j++) {
        const float *after = &r->opt[at(r, 0, j, b)], *before = &r->opt[at(r, 0, a, j - 1)];
        float forward = (float)(r->prefix[j] - r->prefix[a]);
        uint32_t from = least > r->cw[j] ? least : r->cw[j];
        for (uint32_t m = from; m <= SLOTS; m++) {
            float cost = forward + after[m - r->cw[j]] + before[m];
            if (cost < best[m]) {
                best[m] = cost;
                pick[m] = (int16_t)j;
            }
        }
    }
    uint32_t kept = r->cbw[a + 1];
    uint32_t now = (r->cw[a + 1] > r->cw[a] ? r->cw[a + 1] : r->cw[a]) + kept;
    const float *rest = &r->opt[at(r, 0, a + 1, b)];
    for (uint32_t m = now; m <= SLOTS; m++)
        if (own + rest[m - kept] < best[m]) {
            best[m] = own + rest[m - kept];
            pick[m] = 0;
        }
}

static uint32_t backward_end(const struct rotor *r, uint32_t block)
{
    uint32_t total = r->job->graph->node_count;
    return block < r->blocks ? total - 1 - r->first[block] : r->job->graph->forward_count;
}

/* In the Keras convention the backward node of a layer reads its consumers' outputs, too: one block
 * further. */
static uint32_t last_reader(const struct rotor *r, uint32_t node)
{
    const struct planner_graph *g = r->job->graph;
    return planner_graph_last_use(g, &g->items[node], node);
}

/* Node i lies in memory after stage `created` (TRACE_NONE: its own) until stage `end`. */
static void keep_node(struct rotor *r, uint32_t node, uint32_t created, uint32_t end)
{
    planner_sched_keep(&r->job->trial, node, (created == TRACE_NONE ? node : created) + 1, end);
}

static void follow(struct rotor *r, uint32_t m, uint32_t a, uint32_t b, uint32_t created)
{
    for (;;) {
        int16_t pick = r->pick[at(r, m, a, b)];
        if (pick < 0)
            return;
        if (pick == 0) {
            for (uint32_t i = r->first[a]; a < r->blocks && i <= r->ap[a]; i++)
                keep_node(r, i, created, last_reader(r, i));
            if (a == b)
                return;
            m -= r->cbw[a + 1];
            a++;
            continue;
        }
        uint32_t j = (uint32_t)pick;
        keep_node(r, r->ap[j - 1], created, backward_end(r, j));
        follow(r, m - r->cw[j], j, b, created);
        created =
            backward_end(r, j) + 1; /* the next stage is the first backward one of block j-1 */
        b = j - 1;
    }
}

static void offer(struct rotor *r, uint32_t m)
{
    struct planner_sched *s = &r->job->trial;
    const struct planner_graph *g = r->job->graph;
    planner_sched_keep_gradients(s);
    for (uint32_t v = 0; v < g->forward_count; v++) /* the forward pass runs once */
        for (uint32_t k = 0; k < g->nodes[v].in_count; k++)
            keep_node(r, g->ins[g->nodes[v].in_first + k], TRACE_NONE, v);
    keep_node(r, g->forward_count - 1, TRACE_NONE, g->forward_count);
    follow(r, m, 0, r->blocks, TRACE_NONE);
    planner_sched_close(&r->job->ev, s);
    planner_sched_trim(&r->job->ev, s);
    planner_job_offer(r->job, "rotor");
}

static uint32_t slots_up(uint64_t bytes, uint64_t slot)
{
    uint64_t n = (bytes + slot - 1) / slot;
    return n > SLOTS ? SLOTS + 1 : (uint32_t)n;
}

static void set_sizes(struct rotor *r, uint64_t slot)
{
    const struct planner_graph *g = r->job->graph;
    r->prefix[0] = 0;
    r->cw[0] = 0;
    for (uint32_t l = 0; l <= r->blocks; l++) {
        uint64_t kept = 0;
        r->fw[l] = r->bw[l] = 0;
        for (uint32_t i = r->first[l]; l < r->blocks && i <= r->ap[l]; i++) {
            kept += g->items[i].bytes;
            r->fw[l] += (double)g->nodes[i].cost;
            r->bw[l] += (double)g->nodes[g->node_count - 1 - i].cost;
        }
        if (l == r->blocks) {
            r->bw[l] = (double)g->nodes[g->forward_count].cost;
            kept = g->items[g->forward_count].bytes;
        }
        r->cw[l + 1] = l < r->blocks ? slots_up(g->items[r->ap[l]].bytes, slot) : 0;
        r->cbw[l + 1] = slots_up(kept, slot);
        r->prefix[l + 1] = r->prefix[l] + r->fw[l];
    }
}

static void solve_budget(struct rotor *r, uint64_t budget)
{
    uint64_t slot = budget / SLOTS + 1;
    set_sizes(r, slot);
    for (uint32_t b = 0; b <= r->blocks; b++)
        for (uint32_t a = b + 1; a-- > 0;)
            solve_blocks(r, a, b);
    uint32_t all = (uint32_t)(budget / slot);
    if (r->pick[at(r, all, 0, r->blocks)] >= 0)
        offer(r, all);
}

static enum ebb_status make_blocks(struct rotor *r, bool *is_ap, struct ebb_error *err)
{
    const struct planner_graph *g = r->job->graph;
    EBB_TRY(planner_graph_articulation(g, is_ap, err));
    uint32_t begin = 0;
    for (uint32_t v = 0; v < g->forward_count; v++)
        if (is_ap[v] || v + 1 == g->forward_count) {
            r->first[r->blocks] = begin;
            r->ap[r->blocks++] = v;
            begin = v + 1;
        }
    r->first[r->blocks] = r->ap[r->blocks] = g->forward_count;
    return EBB_OK;
}

enum ebb_status planner_solve_rotor(struct planner_job *job, struct ebb_error *err)
{
    struct ebb_arena *arena = job->arena;
    struct rotor rotor = {.job = job}, *r = &rotor;
    uint64_t most = 2 * job->graph->no_remat_peak;
    uint64_t budget = job->budget < most ? job->budget : most;
    size_t n = (size_t)job->graph->forward_count + 3;
    r->first = ebb_arena_calloc(arena, n, sizeof *r->first);
    r->ap = ebb_arena_calloc(arena, n, sizeof *r->ap);
    r->fw = ebb_arena_calloc(arena, n, sizeof *r->fw);
    r->bw = ebb_arena_calloc(arena, n, sizeof *r->bw);
    r->cw = ebb_arena_calloc(arena, n, sizeof *r->cw);
    r->cbw = ebb_arena_calloc(arena, n, sizeof *r->cbw);
    r->prefix = ebb_arena_calloc(arena, n, sizeof *r->prefix);
    bool *is_ap = ebb_arena_calloc(arena, job->graph->node_count, sizeof *is_ap);
    EBB_TRY(ebb_arena_status(arena, err));
    EBB_TRY(make_blocks(r, is_ap, err));
    if (r->blocks > MOST_BLOCKS) {
        planner_job_not_applicable(job, "the chain is longer than 220 blocks");
        return EBB_OK;
    }
    size_t cells = (size_t)(r->blocks + 1) * (r->blocks + 1) * (SLOTS + 1);
    r->opt = ebb_arena_alloc(arena, cells * sizeof *r->opt);
    r->pick = ebb_arena_alloc(arena, cells * sizeof *r->pick);
    EBB_TRY(ebb_arena_status(arena, err));
    for (int k = 0; k < 6 && !planner_job_out_of_time(job); k++)
        solve_budget(r, (uint64_t)((double)budget * (1.12 - 0.06 * k)));
    return EBB_OK;
}
