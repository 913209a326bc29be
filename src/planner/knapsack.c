/* knapsack.c - PyTorch's activation memory budget as a planner.
 *
 * Items are forward outputs that the backward pass reads; value = what it costs to run their op
 * again, weight = bytes; 0/1 knapsack by dynamic programming over 10,000 units. What is not chosen
 * is run again when needed. The original ignores transient bytes, so its capacity says little about
 * the peak: capacities are tried from large to small until the schedule fits, with the interval
 * repair for the last step. */
#include "planner/search.h"

#include <string.h>

#include "base/arena.h"

#define UNITS 10000

struct sack {
    uint32_t *items; /* candidates, largest first */
    uint32_t count;
    uint32_t *weights;
    double *best;   /* [UNITS + 1] */
    uint8_t *taken; /* [count x (UNITS + 1)] */
    bool *chosen;   /* per item of the graph */
};

static bool is_candidate(const struct planner_graph *g, uint32_t i)
{
    const struct planner_item *item = &g->items[i];
    uint32_t last = planner_graph_last_use(g, item, 0);
    return item->node < g->forward_count && last >= g->forward_count && !item->is_fixed &&
           !item->is_kept && item->bytes > 0;
}

static void fill(const struct planner_graph *g, struct sack *k, uint64_t total)
{
    for (uint32_t c = 0; c < k->count; c++) {
        const struct planner_item *item = &g->items[k->items[c]];
        uint32_t w = (uint32_t)(((double)item->bytes * UNITS + (double)total - 1) / (double)total);
        double value = (double)g->nodes[item->node].cost;
        k->weights[c] = w;
        uint8_t *taken = k->taken + (size_t)c * (UNITS + 1);
        for (uint32_t u = UNITS + 1; u-- > w;)
            if (k->best[u - w] + value > k->best[u]) {
                k->best[u] = k->best[u - w] + value;
                taken[u] = 1;
            }
    }
}

static void choose(const struct planner_graph *g, struct sack *k, uint32_t capacity)
{
    memset(k->chosen, 0, g->item_count * sizeof *k->chosen);
    for (uint32_t c = k->count, u = capacity; c-- > 0;)
        if (k->taken[(size_t)c * (UNITS + 1) + u]) {
            k->chosen[k->items[c]] = true;
            u -= k->weights[c];
        }
}

/* Chosen items and everything outside the forward pass live as long as they are read; the rest
 * until the forward pass has read them. */
static void rows_of(struct planner_job *job, const struct sack *k)
{
    const struct planner_graph *g = job->graph;
    struct planner_sched *s = &job->trial;
    planner_sched_keep_all(s);
    for (uint32_t c = 0; c < k->count; c++) {
        const struct planner_item *item = &g->items[k->items[c]];
        uint32_t last = planner_graph_last_use_before(g, item, g->forward_count);
        for (uint32_t t = last + 1; t < s->stages && !k->chosen[k->items[c]]; t++)
            planner_bit_clear(planner_row(s, t), k->items[c]);
    }
    planner_sched_close(&job->ev, s);
    planner_sched_trim(&job->ev, s);
}

static enum ebb_status sweep(struct planner_job *job, struct sack *k, struct ebb_error *err)
{
    for (uint32_t step = 0; step <= 100 && !planner_job_out_of_time(job); step++) {
        choose(job->graph, k, UNITS - step * (UNITS / 100));
        rows_of(job, k);
        planner_job_offer(job, "knapsack");
    }
    if (job->has_best)
        return EBB_OK;
    struct planner_search search; /* nothing fits as it is: repair the one that keeps least */
    EBB_TRY(planner_search_init(&search, &job->ev, job->budget, 0, err));
    if (planner_search_from(&search, &job->trial) && planner_search_repair(&search, job)) {
        planner_sched_copy(&job->trial, &search.best);
        planner_sched_trim(&job->ev, &job->trial);
        planner_job_offer(job, "knapsack+repair");
    }
    planner_search_fini(&search);
    return EBB_OK;
}

enum ebb_status planner_solve_knapsack(struct planner_job *job, struct ebb_error *err)
{
    struct ebb_arena *arena = job->arena;
    const struct planner_graph *g = job->graph;
    size_t items = (size_t)g->item_count + 1;
    struct sack k = {.items = ebb_arena_calloc(arena, items, sizeof *k.items),
                     .weights = ebb_arena_calloc(arena, items, sizeof *k.weights),
                     .best = ebb_arena_calloc(arena, UNITS + 1, sizeof *k.best),
                     .chosen = ebb_arena_calloc(arena, items, sizeof *k.chosen)};
    uint64_t total = 0;
    EBB_TRY(ebb_arena_status(arena, err));
    for (uint32_t i = 0; i < g->item_count; i++) {
        if (!is_candidate(g, i))
            continue;
        uint32_t at = k.count++;
        for (; at > 0 && g->items[k.items[at - 1]].bytes < g->items[i].bytes; at--)
            k.items[at] = k.items[at - 1];
        k.items[at] = i;
        total += g->items[i].bytes;
    }
    k.taken = ebb_arena_calloc(arena, (size_t)k.count + 1, UNITS + 1);
    EBB_TRY(ebb_arena_status(arena, err));
    if (total > 0)
        fill(g, &k, total);
    return sweep(job, &k, err);
}
