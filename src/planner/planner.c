/* planner.c - the table, the job, and which orders of first runs it is about. */
#include "planner/planner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "mem/mem.h"
#include "planner/job.h"

const struct planner planner_table[] = {
#define X(name, published, help, solver, flags)                                                    \
    {#name, (const char *const[]){published, NULL}, help, planner_solve_##solver, flags},
    PLANNER_LIST(X)
#undef X
};
const size_t planner_count = sizeof planner_table / sizeof planner_table[0];

const struct planner *planner_find(const char *name)
{
    for (size_t i = 0; i < planner_count; i++) {
        if (strcmp(planner_table[i].name, name) == 0)
            return &planner_table[i];
        for (const char *const *a = planner_table[i].aliases; a && *a; a++)
            if (strcmp(*a, name) == 0)
                return &planner_table[i];
    }
    return NULL;
}

const struct mem_policy *planner_policy(const char *name)
{
    const struct planner *planner = planner_find(name);
    return planner && !(planner->flags & PLANNER_POLICY) ? NULL : mem_policy_find(name);
}

const char *planner_status_text(enum planner_status status)
{
    static const char *const text[] = {"ok", "infeasible", "timeout", "not_applicable"};
    return text[status];
}

const char *planner_bound_text(enum planner_bound bound)
{
    static const char *const text[] = {NULL, "merged", "flow", "joint"};
    return text[bound];
}

void planner_request_init(struct planner_request *request)
{
    *request = (struct planner_request){
        .budget_bytes = UINT64_MAX,
        .gap = 0.005,
        .effort = 1,
        .time_limit_s = 60,
        .move_bytes_per_ns = 300,
        .params = {.segment_bytes = NAN, .slots = -1, .lp_threshold = NAN}};
}

void planner_result_init(struct planner_result *result)
{
    *result = (struct planner_result){.gap = NAN};
}

void planner_result_fini(struct planner_result *result)
{
    plan_fini(&result->plan);
}

/* ---- the job -------------------------------------------------------------------------------- */

/* Has the graph what a planner with these flags needs? */
static bool is_applicable(struct planner_job *job, unsigned flags)
{
    const struct planner_graph *g = job->graph;
    const char *why = NULL;
    if ((flags & PLANNER_MIRRORED) && !(g->is_mirrored && g->forward_count > 0))
        why = "needs a graph whose backward pass mirrors the forward pass";
    if ((flags & PLANNER_FORWARD) && !(g->forward_count > 0 && g->forward_count < g->node_count))
        why = "the trace does not say where the backward pass begins";
    if (why)
        planner_job_not_applicable(job, why);
    return why == NULL;
}

enum ebb_status planner_job_solve(struct planner_job *job, const struct planner *planner,
                                  struct ebb_error *err)
{
    const struct planner *outer = job->planner;
    struct ebb_arena solve_arena = {0}, *outer_arena = job->arena;
    if (!is_applicable(job, planner->flags))
        return EBB_OK;
    job->planner = planner;
    job->arena = &solve_arena;
    enum ebb_status status = planner->solve(job, err);
    job->planner = outer;
    job->arena = outer_arena;
    ebb_arena_fini(&solve_arena);
    return status;
}

bool planner_job_offer(struct planner_job *job, const char *winner)
{
    struct planner_sched *s = &job->trial;
    if (!planner_sched_eval(&job->ev, s, NULL) || s->peak > job->budget)
        return false;
    if (job->has_best &&
        (s->cost > job->best.cost || (s->cost == job->best.cost && s->peak >= job->best.peak)))
        return false;
    planner_sched_copy(&job->best, s);
    job->has_best = true;
    snprintf(job->winner, sizeof job->winner, "%s", winner);
    return true;
}

void planner_job_not_applicable(struct planner_job *job, const char *why)
{
    job->is_not_applicable = true;
    snprintf(job->note, sizeof job->note, "%s", why);
}

/* What of the limit the search may use: packing and its retries come after it. */
static double search_limit(const struct planner_job *job)
{
    double limit = job->request->time_limit_s;
    if (job->graph->exact_bytes || job->has_fallback || job->request->no_addresses)
        return limit;
    return job->is_retry ? 1.5 * limit + 1 : 0.85 * limit;
}

double planner_job_seconds(const struct planner_job *job)
{
    return (double)(ebb_clock_ns() - job->start_ns) * 1e-9;
}

bool planner_job_out_of_time(const struct planner_job *job)
{
    return planner_job_seconds(job) >= search_limit(job);
}

double planner_job_time_left(const struct planner_job *job)
{
    return search_limit(job) - planner_job_seconds(job);
}

bool planner_job_has_plan(const struct planner_job *job)
{
    return job->has_best || (job->has_recorded && !job->graph->exact_bytes);
}

bool planner_job_is_close(const struct planner_job *job)
{
    uint64_t cost = job->has_best ? job->best.cost : UINT64_MAX;
    if (job->has_recorded && job->recorded_cost < cost && planner_job_has_plan(job))
        cost = job->recorded_cost;
    return cost != UINT64_MAX && job->lower_bound > 0 &&
           (double)cost <= (1 + job->request->gap) * job->lower_bound * (1 + 1e-9);
}

void planner_job_bound(struct planner_job *job, double bound, enum planner_bound bound_class)
{
    if (job->is_retry) /* with less room than asked for */
        return;
    if (job->bound_class != bound_class || bound > job->lower_bound) {
        job->lower_bound = bound;
        job->bound_class = bound_class;
    }
}

enum ebb_status planner_job_init(struct planner_job *job, const struct planner_graph *graph,
                                 const struct planner_request *request, struct ebb_error *err)
{
    *job =
        (struct planner_job){.graph = graph, .request = request, .budget = request->budget_bytes};
    job->start_ns = ebb_clock_ns();
    EBB_TRY(planner_eval_init(&job->ev, graph, err));
    EBB_TRY(planner_sched_init(&job->best, graph, err));
    return planner_sched_init(&job->trial, graph, err);
}

void planner_job_fini(struct planner_job *job)
{
    planner_eval_fini(&job->ev);
    planner_sched_fini(&job->best);
    planner_sched_fini(&job->trial);
    plan_fini(&job->made);
    plan_fini(&job->recorded);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Gap and optimality of a plan against the bound. A plan clearly below it shows that the bound is
 * about other plans than this one: then there is none. */
static void judge(struct planner_result *result)
{
    result->gap = NAN;
    result->optimal = false;
    if (result->status != PLANNER_OK || result->lower_bound <= 0)
        return;
    result->gap = (double)result->cost / result->lower_bound - 1;
    if (result->gap < -1e-6) {
        result->lower_bound = 0;
        result->bound_class = PLANNER_BOUND_NONE;
        result->gap = NAN;
        return;
    }
    if (result->gap < 0)
        result->gap = 0; /* rounding of the solver */
    result->optimal = result->gap < 1e-9 && (result->bound_class == PLANNER_BOUND_FLOW ||
                                             result->bound_class == PLANNER_BOUND_JOINT);
}

static void fill_result(const struct planner_job *job, struct planner_result *result)
{
    result->base_cost = job->graph->base_cost;
    result->fixed_bytes = job->graph->fixed_bytes;
    result->lower_bound = job->lower_bound;
    result->bound_class = job->bound_class;
    snprintf(result->winner, sizeof result->winner, "%s", job->winner);
    snprintf(result->note, sizeof result->note, "%s", job->note);
}

/* The portfolio found schedules, but none that can be packed, or nothing at all: what the simple
 * planners answer by themselves, packed by themselves, the cheapest of them. */
static enum ebb_status last_resort(const struct trace *trace, struct planner_job *job,
                                   struct planner_result *result, struct ebb_error *err)
{
    static const char *const names[] = {"knapsack",   "chen_greedy",     "chen_greedy_noap",
                                        "chen_sqrtn", "chen_sqrtn_noap", "griewank",
                                        "last",       "all_ap",          "rotor"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct planner_result other;
        EBB_TRY(planner_run(planner_find(names[i]), trace, job->request, &other, err));
        if (other.status != PLANNER_OK ||
            (result->status == PLANNER_OK && result->cost <= other.cost)) {
            planner_result_fini(&other);
            continue;
        }
        planner_result_fini(result);
        *result = other;
        snprintf(result->plan.planner, sizeof result->plan.planner, "best");
        snprintf(job->winner, sizeof job->winner, "%s", other.winner);
        job->note[0] = '\0';
    }
    return EBB_OK;
}

/* A search that ran out of time may not have come to a bound: the quick one takes milliseconds. */
static enum ebb_status ensure_bound(struct planner_job *job, struct ebb_error *err)
{
    if (job->request->effort <= 0 || job->lower_bound > 0 || job->is_proven_infeasible)
        return EBB_OK;
    job->start_ns = ebb_clock_ns();
    job->budget = job->request->budget_bytes;
    job->is_retry = false;
    return planner_best_bound_alone(job, err);
}

/* One order of first runs. */
static enum ebb_status run_order(const struct planner *planner, const struct planner_graph *graph,
                                 const struct planner_request *request, struct planner_job *job,
                                 struct planner_result *result, struct ebb_error *err)
{
    enum ebb_status status = planner_job_init(job, graph, request, err);
    EBB_THEN(status, planner_job_plan(planner, job, result, err));
    if (job->is_retry) /* what was proved then is about less room */
        job->is_proven_infeasible = false;
    if (status == EBB_OK && (planner->flags & PLANNER_PORTFOLIO) && result->status != PLANNER_OK &&
        !job->is_proven_infeasible && !graph->is_moved)
        status = last_resort(graph->trace, job, result, err);
    if (status == EBB_OK && (planner->flags & PLANNER_PORTFOLIO))
        status = ensure_bound(job, err);
    if (status == EBB_OK)
        fill_result(job, result);
    return status;
}

/* What holds for both orders: the cheaper plan, the lower bound. */
static void join(const struct planner_request *request, struct planner_result *result,
                 struct planner_result *other, bool is_impossible)
{
    bool is_other = other->status == PLANNER_OK &&
                    (result->status != PLANNER_OK ||
                     planner_result_price(request, other) < planner_result_price(request, result));
    if (!is_impossible && (other->lower_bound <= 0 || other->lower_bound < result->lower_bound)) {
        result->lower_bound = other->lower_bound;
        result->bound_class = other->bound_class;
    }
    if (!is_other && result->status != PLANNER_OK)
        result->status = other->status;
    if (is_other) {
        double bound = result->lower_bound;
        enum planner_bound bound_class = result->bound_class;
        ebb_swap(result, other, sizeof *result);
        result->lower_bound = bound;
        result->bound_class = bound_class;
    }
}

#define SMALL_NODES 400 /* up to here both orders are searched, beyond only one */

/* Planner best on a trace whose updates may come earlier: that order first, as it needs less. The
 * trace's own order is searched too where that is quick or nothing else was found; otherwise it
 * only has its say in the bound. */
static enum ebb_status run_orders(const struct planner *planner, const struct planner_graph *plain,
                                  const struct planner_graph *eager,
                                  const struct planner_request *request,
                                  struct planner_result *result, struct ebb_error *err)
{
    struct planner_request rest = *request;
    struct planner_result other;
    struct planner_job job, second;
    bool is_small = plain->node_count <= SMALL_NODES && request->effort > 0;
    rest.time_limit_s *= is_small ? 0.5 : 1;
    planner_result_init(&other);
    uint64_t start_ns = ebb_clock_ns();
    enum ebb_status status = run_order(planner, eager, &rest, &job, result, err);
    rest.time_limit_s = request->time_limit_s - (double)(ebb_clock_ns() - start_ns) * 1e-9;
    rest.write_lp = NULL;
    bool is_searched = is_small || (status == EBB_OK && result->status != PLANNER_OK);
    if (rest.time_limit_s < 0.02)
        rest.time_limit_s = 0.02;
    planner_job_fini(&job);
    if (status != EBB_OK) {
        planner_result_fini(&other);
        return status;
    }
    other.status = PLANNER_TIMEOUT;
    if (is_searched) {
        status = run_order(planner, plain, &rest, &second, &other, err);
    } else {
        status = planner_job_init(&second, plain, &rest, err);
        if (status == EBB_OK) /* a bound that is not about both orders is none */
            status = ensure_bound(&second, err);
        other.lower_bound = second.lower_bound;
        other.bound_class = second.bound_class;
    }
    if (status == EBB_OK)
        join(request, result, &other, second.is_proven_infeasible);
    planner_result_fini(&other);
    planner_job_fini(&second);
    return status;
}

/* Planners that copy have no bound of their own; those that do not and have none gain this one. */
static enum ebb_status bound_with_copies(const struct trace *trace,
                                         const struct planner_request *request,
                                         struct planner_result *result, struct ebb_error *err)
{
    static const double seconds[] = {0, 1, 5, 25}; /* by effort: of branch and cut */
    struct planner_tiers tiers = request->tiers;
    double limit = 0.3 * request->time_limit_s;
    limit = limit < seconds[request->effort & 3] ? limit : seconds[request->effort & 3];
    tiers.bytes[0] = request->budget_bytes;
    if (!request->is_bounded || !planner_has_tiers(&tiers) || result->lower_bound > 0)
        return EBB_OK;
    EBB_TRY(planner_bound(trace, &tiers, limit, &result->lower_bound, err));
    result->bound_class = result->lower_bound > 0 ? PLANNER_BOUND_JOINT : PLANNER_BOUND_NONE;
    return EBB_OK;
}

enum ebb_status planner_run(const struct planner *planner, const struct trace *trace,
                            const struct planner_request *request, struct planner_result *result,
                            struct ebb_error *err)
{
    struct planner_graph *graph = NULL, *eager = NULL;
    struct planner_job job = {0};
    uint64_t start_ns = ebb_clock_ns();
    EBB_TRY(planner_graph_create(trace, false, &graph, err));
    planner_result_init(result);
    enum ebb_status status = EBB_OK;
    if ((planner->flags & PLANNER_PORTFOLIO) && !trace->is_graph && !request->write_lp &&
        graph->no_remat_peak > request->budget_bytes)
        status = planner_graph_create(trace, true, &eager, err);
    if (status == EBB_OK && eager && eager->is_moved) {
        status = run_orders(planner, graph, eager, request, result, err);
    } else if (status == EBB_OK) {
        status = run_order(planner, graph, request, &job, result, err);
        planner_job_fini(&job);
    }
    EBB_THEN(status, bound_with_copies(trace, request, result, err));
    judge(result);
    result->seconds = (double)(ebb_clock_ns() - start_ns) * 1e-9;
    planner_graph_destroy(eager);
    planner_graph_destroy(graph);
    if (status != EBB_OK)
        planner_result_fini(result);
    return status;
}

enum ebb_status planner_facts_compute(const struct trace *trace, struct planner_facts *facts,
                                      struct ebb_error *err)
{
    struct planner_graph *g = NULL;
    EBB_TRY(planner_graph_create(trace, false, &g, err));
    bool *is_ap = ebb_arena_calloc(&g->arena, g->node_count, sizeof *is_ap);
    enum ebb_status status = ebb_arena_status(&g->arena, err);
    EBB_THEN(status, planner_graph_articulation(g, is_ap, err));
    if (status == EBB_OK) {
        *facts = (struct planner_facts){.node_count = g->node_count,
                                        .forward_count = g->forward_count,
                                        .edge_count = g->edge_count,
                                        .base_cost = g->base_cost,
                                        .no_remat_peak = g->no_remat_peak,
                                        .max_in_out = g->max_in_out,
                                        .max_degree_ram = g->max_degree_ram,
                                        .fixed_bytes = g->fixed_bytes,
                                        .is_mirrored = g->is_mirrored,
                                        .is_chain = true};
        for (uint32_t v = 0; v < g->forward_count; v++) {
            facts->forward_cost += g->nodes[v].cost;
            facts->is_chain &= is_ap[v];
        }
    }
    planner_graph_destroy(g);
    return status;
}
