/* unified_search.c - planner `unified`: which searches there are, and how they go together.
 *
 * A plan for no tier, or for a slower link, is one for a tier and for a faster link, and takes no
 * longer there. So the whole search without tiers is part of every other, and of small steps so are
 * those of links that are slower, down to where they are of no use. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mem/mem.h"
#include "planner/floor.h"
#include "planner/job.h"
#include "planner/unified.h"

enum { SLOWER = 2 };    /* links that are slower, of few ops */
#define THRASHES_MUCH 2 /* times the step: games take long, and exchanges find more than flips */
#define WORTH_IT 1.05   /* exchanges still find something */

/* A game with updates as early as they can be: the host then begins with them sooner. */
static enum ebb_status play_early(struct unified *u, struct plan *plan, bool *is_won,
                                  struct ebb_error *err)
{
    struct plan_recipes *graph;
    *is_won = false;
    EBB_TRY(plan_recipes_create(&graph, u->trace, u->tiers->homes, PLAN_EARLY, err));
    enum ebb_status status = EBB_OK;
    if (graph->is_moved)
        status = planner_floor_once(graph, u->tiers, 0, false, NULL, plan, is_won, err);
    plan_recipes_destroy(graph);
    return status;
}

/* How much of the updates of state in host memory the host had better run there. */
static enum ebb_status try_below(struct unified *u, struct ebb_error *err)
{
    static const double parts[] = {1, 0.5, 0.25, 0.75};
    bool is_all = u->tiers->updates == PLANNER_BY_HOST, is_won = false;
    struct plan bases[3] = {{.steps = NULL}}; /* the best known, that for it, updates early */
    if (!u->is_found || !u->shared)
        return EBB_OK;
    enum ebb_status status = plan_copy(&bases[0], u->best, err);
    EBB_THEN(status, plan_copy(&bases[1], u->shared, err));
    EBB_THEN(status, play_early(u, &bases[2], &is_won, err));
    bool is_there[] = {true, u->shared->step_count > 0, is_won};
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; is_there[k] && i < (is_all ? 1 : sizeof parts / sizeof *parts); i++)
            EBB_THEN(status, planner_unified_compare_below(u, &bases[k], parts[i], err));
    for (int k = 0; k < 3; k++)
        plan_fini(&bases[k]);
    return status;
}

/* Moves are for want of a good packing: the best plan is worth a longer search for one. */
static enum ebb_status pack_best(struct unified *u, struct ebb_error *err)
{
    struct plan still = {0};
    struct ebb_error why = {0};
    if (!u->is_found || u->report->moved_bytes == 0 || !planner_has_tiers(u->tiers))
        return EBB_OK;
    enum ebb_status status = plan_copy(&still, u->best, &why);
    plan_strip_offsets(&still);
    EBB_THEN(status, plan_assign_offsets(u->trace, &still, u->tiers->bytes[0], NULL, &why));
    if (status == EBB_OK)
        status = planner_unified_compare(u, &still, &why);
    plan_fini(&still);
    return planner_unless_no_room(status, &why, err);
}

/* What another search found. Where it is the best, flips begin as there (`leads`), or as they would. */
static enum ebb_status take(struct unified *u, const struct unified *from, bool leads,
                            struct ebb_error *err)
{
    struct plan plan = {0};
    if (!from->is_found)
        return EBB_OK;
    u->is_new = false;
    enum ebb_status status = plan_copy(&plan, from->best, err);
    EBB_THEN(status, planner_unified_compare(u, &plan, err));
    plan_fini(&plan);
    if (u->is_new && leads) {
        u->slack = from->slack;
        u->price = from->price;
    }
    return status;
}

/* Flips among copies that take longer than the whole step: none of them stays, but from one plan
 * without copies to the next the way may be over one that has some. */
static enum ebb_status flip_detour(struct unified *u, struct ebb_error *err)
{
    struct planner_tiers tiers = *u->tiers;
    struct plan plan = {0};
    struct exec_report report;
    struct unified v = planner_unified_begin(u, &tiers, &plan, &report);
    if (!u->is_found || planner_unified_is_hidden(u) || u->trace->op_count > UNIFIED_SOME_OPS ||
        planner_unified_is_exchanged(u) || planner_has_tiers(&tiers) || tiers.demands ||
        tiers.fates)
        return EBB_OK;
    tiers.bytes[DEVICE_HOST] = TRACE_MAX_BYTES;
    tiers.links.in[DEVICE_HOST] = tiers.links.out[DEVICE_HOST] =
        (struct device_link){.bytes_per_ns = PLAN_UNIT / (double)(u->report->clock_ns + 1)};
    enum ebb_status status = take(&v, u, true, err);
    EBB_THEN(status, planner_unified_flip(&v, err));
    EBB_THEN(status, take(u, &v, false, err));
    plan_fini(&plan);
    return status;
}

/* ---- slower links ------------------------------------------------------------------------------ */

static void slow_down(struct device_link *link, double most)
{
    link->bytes_per_ns = link->bytes_per_ns > most ? most : link->bytes_per_ns;
}

/* The tiers with one of them less, or with links no faster than the next power of ten: what is found
 * there is a plan for faster ones, too. False: there are no more such. */
static bool next_slower(const struct planner_tiers *tiers, struct planner_tiers *slower)
{
    const struct device_config *links = &tiers->links;
    double most = 0, fastest = 1e9;
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        for (int i = 0; i < 2 && tiers->bytes[k]; i++) {
            double rate = i ? links->in[k].bytes_per_ns : links->out[k].bytes_per_ns;
            most = rate > most ? rate : most;
        }
    while (fastest >= most * (1 - 1e-9) && fastest > 1e-9)
        fastest /= 10;
    *slower = *tiers;
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
        slow_down(&slower->links.in[k], fastest);
        slow_down(&slower->links.out[k], fastest);
    }
    return most > 0 && fastest > 1e-9;
}

/* Is the shortest way there and back longer than the whole step takes by a plan that is known? */
static bool is_useless(const struct unified *u, const struct planner_tiers *tiers)
{
    double least = INFINITY;
    if (!u->is_found)
        return false;
    for (uint32_t s = 0; s < u->trace->storage_count; s++)
        for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
            uint64_t bytes = plan_round(u->trace->storages[s].bytes);
            double ns = mem_swap_ns(&tiers->links.in[k], &tiers->links.out[k], bytes, false);
            if (tiers->bytes[k] && bytes && ns < least)
                least = ns;
        }
    return least > (double)u->report->clock_ns;
}

/* With those tiers, beginning with what was found without any. */
static enum ebb_status try_slower(struct unified *u, const struct unified *without,
                                  const struct planner_tiers *tiers, uint64_t floor_bytes,
                                  struct ebb_error *err)
{
    struct plan plan = {0};
    struct exec_report report;
    struct unified v = planner_unified_begin(u, tiers, &plan, &report);
    enum ebb_status status = planner_unified_try_copies(&v, floor_bytes, err);
    EBB_THEN(status, take(&v, without, !v.is_found, err));
    EBB_THEN(status, planner_unified_flip(&v, err));
    EBB_THEN(status, pack_best(&v, err));
    EBB_THEN(status, take(u, &v, false, err));
    plan_fini(&plan);
    return status;
}

/* A tier or a faster link never makes a plan slower: what one tier less, or slower links, would find
 * is taken, too. The longer a try takes, the fewer. */
static enum ebb_status try_all_slower(struct unified *u, const struct unified *without,
                                      uint64_t floor_bytes, struct ebb_error *err)
{
    struct planner_tiers tiers = *u->tiers, one;
    int tries = u->trace->op_count <= UNIFIED_FEW_OPS    ? SLOWER
                : u->trace->op_count <= UNIFIED_SOME_OPS ? 1
                                                         : 0;
    enum ebb_status status = EBB_OK;
    for (int k = DEVICE_HOST; k < DEVICE_TIERS && tries && status == EBB_OK; k++) {
        one = *u->tiers;
        one.bytes[k] = 0;
        if (planner_has_tiers(&one) && u->tiers->bytes[k] && !planner_unified_is_hidden(u))
            status = try_slower(u, without, &one, floor_bytes, err);
    }
    for (int i = 0; i < tries && status == EBB_OK && !planner_unified_is_hidden(u); i++) {
        if (!next_slower(&tiers, &one) || is_useless(without->is_found ? without : u, &one))
            break;
        status = try_slower(u, without, &one, floor_bytes, err);
        tiers = one;
    }
    return status;
}

/* Near the floor a few games may find nothing: then the floor's own plan is where it begins. Who
 * knows the floor has its plan, too: large steps are not searched for it again. */
static enum ebb_status try_floor(struct unified *u, uint64_t floor_bytes, struct ebb_error *err)
{
    struct plan plan = {0};
    uint64_t bytes;
    if (u->is_found || (floor_bytes && u->trace->op_count > UNIFIED_SOME_OPS))
        return EBB_OK;
    enum ebb_status status = planner_floor(u->trace, u->tiers, &plan, &bytes, err);
    if (status == EBB_OK && bytes <= u->tiers->bytes[0])
        status = planner_unified_offer(u, &plan, true, err);
    plan_fini(&plan);
    return status;
}

/* All of it without lower tiers first, unless copies are hidden as it is. */
static enum ebb_status search(struct unified *u, uint64_t floor_bytes, struct ebb_error *err)
{
    struct planner_tiers none = planner_without_tiers(u->tiers);
    struct plan plan = {0};
    struct exec_report report;
    struct unified without = planner_unified_begin(u, &none, &plan, &report);
    enum ebb_status status = EBB_OK;
    if (planner_has_tiers(u->tiers))
        status = planner_unified_try_copies(u, floor_bytes, err);
    if (!u->tiers->homes && !planner_unified_is_hidden(u)) {
        EBB_THEN(status, planner_unified_try_without(&without, floor_bytes, err));
        EBB_THEN(status, take(u, &without, true, err));
        if (u->is_found && planner_has_tiers(u->tiers))
            *(planner_unified_has_copies(u->best) ? &without.is_part : &u->is_part) = true;
        EBB_THEN(status, planner_unified_try_exchanges(&without, THRASHES_MUCH, err));
        EBB_THEN(status, planner_unified_flip(&without, err));
        EBB_THEN(status, flip_detour(&without, err));
        EBB_THEN(status, planner_unified_try_exchanges(&without, WORTH_IT, err));
        EBB_THEN(status, take(u, &without, false, err));
    }
    EBB_THEN(status, try_floor(u, floor_bytes, err));
    if (planner_has_tiers(u->tiers)) {
        EBB_THEN(status, planner_unified_flip(u, err));
        if (!u->tiers->homes)
            EBB_THEN(status, try_all_slower(u, &without, floor_bytes, err));
    }
    plan_fini(&plan);
    return status;
}

enum ebb_status planner_unified(const struct exec_program *program, const struct trace *trace,
                                const struct planner_tiers *tiers, uint64_t floor_bytes,
                                uint64_t seed, struct plan *plan, struct exec_report *report,
                                bool *is_found, struct ebb_error *err)
{
    struct unified u = planner_unified_begin(
        &(struct unified){.program = program, .trace = trace, .seed = seed}, tiers, plan, report);
    struct plan shared = {0};
    u.shared = tiers->homes && tiers->updates != PLANNER_BY_DEVICE ? &shared : NULL;
    enum ebb_status status = search(&u, floor_bytes, err);
    EBB_THEN(status, try_below(&u, err));
    EBB_THEN(status, pack_best(&u, err));
    plan_fini(&shared);
    *is_found = u.is_found;
    return status;
}

enum ebb_status planner_solve_unified(struct planner_job *job, struct ebb_error *err)
{
    const struct trace *trace = job->graph->trace;
    struct planner_tiers tiers = job->request->tiers;
    struct exec_program *program = NULL;
    struct exec_report report = {0};
    struct plan plan = {0};
    bool is_found = false;
    if (job->graph->exact_bytes) {
        planner_job_not_applicable(job,
                                   "graph files have no addresses: convert the graph to a trace");
        return EBB_OK;
    }
    tiers.bytes[0] = job->request->budget_bytes;
    enum ebb_status status = exec_program_create(&program, trace, EXEC_EBB, err);
    EBB_THEN(status, planner_unified(program, trace, &tiers, 0, job->request->seed, &plan, &report,
                                     &is_found, err));
    exec_program_destroy(program);
    if (status != EBB_OK || !is_found) {
        plan_fini(&plan);
        return status;
    }
    plan_fini(&job->made);
    job->made = plan;
    job->has_made = true;
    job->is_unplaced = false;
    snprintf(job->winner, sizeof job->winner, "%s", plan.planner);
    return planner_job_time(job, &job->made, &job->made_cost, err);
}
