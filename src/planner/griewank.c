/* griewank.c - binomial checkpointing on chains and on the chain of articulation points. */
#include "planner/job.h"

#include <stdio.h>

struct revolve {
    uint32_t states, slots; /* chain length a, snapshots c */
    uint64_t *steps;        /* t(l, c): [c * (a + 1) + l] */
    uint32_t *split;        /* argmin m */
    const uint32_t *real;   /* meta-time -> stage */
    struct planner_sched *rows;
};

static size_t at(const struct revolve *r, uint32_t l, uint32_t c)
{
    return (size_t)c * (r->states + 1) + l;
}

/* t(1,c) = 0; t(l,0) = l(l-1)/2; t(l,c) = min m + t(l-m,c-1) + t(m,c), smallest m on ties. */
static void fill_table(struct revolve *r)
{
    for (uint32_t c = 0; c <= r->slots; c++)
        for (uint32_t l = 2; l <= r->states; l++) {
            uint64_t best = c == 0 ? (uint64_t)l * (l - 1) / 2 : UINT64_MAX;
            for (uint32_t m = 1; c > 0 && m < l; m++) {
                uint64_t cost = m + r->steps[at(r, l - m, c - 1)] + r->steps[at(r, m, c)];
                if (cost < best) {
                    best = cost;
                    r->split[at(r, l, c)] = m;
                }
            }
            r->steps[at(r, l, c)] = best;
        }
}

/* Reverse states [lo, hi) with c snapshots; `created` is the meta-time at which snapshots taken now
 * come to be, TRACE_NONE in the first forward sweep (a state is then taken as it is passed). */
static void reverse(const struct revolve *r, uint32_t lo, uint32_t hi, uint32_t c, uint32_t created)
{
    while (hi - lo > 1 && c > 0) {
        uint32_t m = lo + r->split[at(r, hi - lo, c)];
        uint32_t begin = created == TRACE_NONE ? m : created, end = 2 * r->states - 1 - m;
        for (uint32_t t = r->real[begin] + 1; t <= r->real[end] && t < r->rows->stages; t++)
            planner_keep(r->rows, t, r->real[m]);
        reverse(r, m, hi, c - 1, created);
        created = 2 * r->states - 1 - (m - 1);
        hi = m;
    }
}

static void griewank_rows(struct planner_job *job, struct revolve *r, uint32_t slots)
{
    const struct planner_graph *g = job->graph;
    struct planner_sched *s = &job->trial;
    planner_sched_keep_gradients(s);
    for (uint32_t t = 1; t < s->stages; t++)
        planner_keep(s, t, t - 1);
    reverse(r, 0, r->states, slots, TRACE_NONE);
    for (uint32_t t = 0; t < s->stages; t++) /* nothing on or above the diagonal */
        for (uint32_t i = t; i < g->item_count; i++)
            planner_bit_clear(planner_row(s, t), i);
}

enum ebb_status planner_solve_griewank(struct planner_job *job, struct ebb_error *err)
{
    struct ebb_arena *arena = job->arena;
    const struct planner_graph *g = job->graph;
    struct revolve r = {.rows = &job->trial};
    bool *is_ap = ebb_arena_calloc(arena, g->node_count, sizeof *is_ap);
    uint32_t *real = ebb_arena_calloc(arena, (size_t)2 * g->node_count, sizeof *real);
    EBB_TRY(ebb_arena_status(arena, err));
    EBB_TRY(planner_graph_articulation(g, is_ap, err));
    for (uint32_t v = 0; v < g->forward_count; v++)
        if (is_ap[v])
            real[r.states++] = v;
    for (uint32_t k = 0; k < r.states; k++)
        real[r.states + k] = g->node_count - 1 - real[r.states - 1 - k];
    r.real = real;
    int32_t wanted = job->request->params.slots;
    r.slots = wanted >= 0 ? (uint32_t)wanted : r.states;
    if (r.slots > r.states)
        r.slots = r.states;
    size_t cells = (size_t)(r.states + 1) * (r.slots + 1);
    r.steps = ebb_arena_calloc(arena, cells, sizeof *r.steps);
    r.split = ebb_arena_calloc(arena, cells, sizeof *r.split);
    EBB_TRY(ebb_arena_status(arena, err));
    fill_table(&r);
    for (uint32_t c = wanted >= 0 ? r.slots : 0; c <= r.slots; c++) {
        char name[32];
        snprintf(name, sizeof name, "griewank/%u", c);
        griewank_rows(job, &r, c);
        planner_job_offer(job, name);
    }
    return EBB_OK;
}
