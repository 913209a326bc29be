/* best.c - the portfolio (spec 14.3): keep everything if it fits; else repair, anneal, bound, and
 * exact or partial programs.
 *
 * Order of events for one budget:
 *   1 nothing to do, or proven impossible (an op alone does not fit);
 *   2 seeds: drop intervals until it fits, fill the slack; the thrifty strategies when that gets
 * stuck; a short annealing; 3 LP bounds: merged, then flow (valid for every schedule); 4 small
 * models: branch and cut with the incumbent as cutoff, merged-plus first, then full; 5 rounds of
 * annealing and of sub-programs around the LP's opinion (RINS) until gap, effort or time says stop.
 */
#include "planner/search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/rng.h"
#include "exec/exec.h"
#include "planner/model.h"

#define LP_NODES 420   /* merged LP beyond: no bound */
#define FLOW_NODES 380 /* flow LP beyond: merged bound only */
#define EXACT_BINARIES 1600
#define FULL_BINARIES 2600

struct best {
    struct planner_job *job;
    struct planner_search search;
    double *lp; /* owned: solution of the relaxation of `model` */
    struct planner_groups groups;
    struct planner_model model; /* merged or full: the one neighbourhoods are cut from */
    bool has_model, is_merged_infeasible;
    uint64_t cost_unit; /* gcd of costs */
    uint64_t random;
};

void planner_sched_keep_all(struct planner_sched *s)
{
    const struct planner_graph *g = s->graph;
    memset(s->keep, 0, (size_t)s->stages * s->words * sizeof *s->keep);
    for (uint32_t i = 0; i < g->item_count; i++) {
        const struct planner_item *item = &g->items[i];
        uint32_t last = item->use_count ? g->uses[item->use_first + item->use_count - 1] : 0;
        if (item->is_kept)
            last = s->stages - 1;
        for (uint32_t t = item->node + 1; t <= last; t++)
            planner_keep(s, t, i);
    }
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

static double time_left(const struct best *b)
{
    return planner_job_time_left(b->job);
}

static bool is_done(const struct best *b)
{
    return planner_job_is_close(b->job) || time_left(b) <= 0;
}

/* ---- seeds and annealing -------------------------------------------------------------------- */

/* Hand the search's best to the job, and the job's best to the search. */
static void exchange(struct best *b, const char *name)
{
    struct planner_job *job = b->job;
    if (b->search.has_best && (!job->has_best || b->search.best.cost < job->best.cost)) {
        planner_sched_copy(&job->trial, &b->search.best);
        planner_sched_trim(&job->ev, &job->trial);
        planner_job_offer(job, name);
    }
    if (job->has_best && (!b->search.has_best || job->best.cost < b->search.best.cost))
        planner_search_from(&b->search, &job->best);
}

static enum ebb_status thrifty_seeds(struct best *b, struct ebb_error *err)
{
    struct planner_job *job = b->job;
    enum ebb_status (*const solvers[])(struct planner_job *, struct ebb_error *) = {
        planner_solve_last, planner_solve_griewank, planner_solve_chen_sqrtn_noap,
        planner_solve_chen_sqrtn, planner_solve_chen_greedy_noap};
    for (size_t k = 0; k < sizeof solvers / sizeof solvers[0]; k++) {
        if (job->graph->node_count > 600 && k > 0)
            break;
        EBB_TRY(solvers[k](job, err));
    }
    job->is_not_applicable = false; /* of a seed only */
    job->note[0] = '\0';
    return EBB_OK;
}

/* A schedule given as a plan: made to fit, then filled. */
static enum ebb_status plan_seed(struct best *b, const struct plan *plan, const char *name,
                                 struct ebb_error *err)
{
    struct planner_job *job = b->job;
    EBB_TRY(planner_sched_from_plan(&job->trial, plan, err));
    planner_sched_close(&job->ev, &job->trial);
    if (planner_search_from(&b->search, &job->trial) && planner_search_repair(&b->search, job))
        planner_search_fill(&b->search, job);
    exchange(b, name);
    return EBB_OK;
}

/* What the online policies do at this budget and a little below, recorded. */
static enum ebb_status online_seeds(struct best *b, struct ebb_error *err)
{
    static const char *const policies[] = {"dtr_eq", "dtr", "msps"};
    const struct trace *trace = b->job->graph->trace;
    struct exec_program *program = NULL;
    EBB_TRY(exec_program_create(&program, trace, EXEC_EBB, err));
    enum ebb_status status = EBB_OK;
    for (int k = 0; k < 6 && status == EBB_OK && time_left(b) > 0; k++) {
        struct exec_log log = {0};
        struct exec_report report;
        struct plan plan;
        struct exec_options options = {.policy = mem_policy_find(policies[k % 3]),
                                       .budget_bytes =
                                           b->job->budget - (k < 3 ? 0 : b->job->budget / 20),
                                       .limit = 10,
                                       .log = &log};
        plan_init(&plan);
        status = exec_run(program, &options, &report, err);
        if (status == EBB_OK && report.result == EXEC_OK)
            status = exec_log_to_plan(&log, trace, &plan, err);
        if (status == EBB_OK && plan.step_count > 0)
            status = plan_seed(b, &plan, policies[k % 3], err);
        plan_fini(&plan);
        exec_log_fini(&log);
    }
    exec_program_destroy(program);
    return status;
}

static enum ebb_status seeds(struct best *b, struct ebb_error *err)
{
    struct planner_job *job = b->job;
    planner_sched_keep_all(&job->trial);
    planner_sched_close(&job->ev, &job->trial);
    if (planner_search_from(&b->search, &job->trial) && planner_search_repair(&b->search, job))
        planner_search_fill(&b->search, job);
    if (job->graph->node_count <= (job->request->effort > 0 ? 600 : 200))
        planner_search_polish(&b->search, job);
    exchange(b, "repair");
    if (!job->has_best) {
        EBB_TRY(thrifty_seeds(b, err));
        if (job->has_best && planner_search_from(&b->search, &job->best))
            planner_search_fill(&b->search, job);
    }
    exchange(b, "fill");
    if (job->request->warm)
        EBB_TRY(plan_seed(b, job->request->warm, "warm", err));
    if (!job->graph->trace->is_graph && (!job->has_best || job->request->effort > 0) &&
        job->graph->node_count <= 20000)
        EBB_TRY(online_seeds(b, err));
    return EBB_OK;
}

/* Annealing round `round`: different heats, and different places to begin (the incumbent, nothing
 * kept, everything kept): each leads into other basins. */
static void anneal(struct best *b, uint32_t round, uint64_t flips)
{
    static const struct {
        double heat;
        enum { FROM_BEST, FROM_LITTLE, FROM_ALL } from;
    } plans[] = {{1, FROM_BEST},    {1, FROM_LITTLE}, {0.1, FROM_LITTLE}, {10, FROM_ALL},
                 {0.1, FROM_BEST},  {1, FROM_LITTLE}, {10, FROM_BEST},    {0.1, FROM_LITTLE},
                 {0.01, FROM_BEST}, {1, FROM_LITTLE}};
    const struct planner_graph *g = b->job->graph;
    struct planner_sched *trial = &b->job->trial;
    uint32_t k = round % (sizeof plans / sizeof plans[0]);
    if (plans[k].from == FROM_LITTLE) {
        memset(trial->keep, 0, (size_t)trial->stages * trial->words * sizeof *trial->keep);
        for (uint32_t t = 1; t < trial->stages; t++)
            for (uint32_t o = 0; o < g->nodes[t - 1].out_count; o++)
                planner_keep(trial, t, g->nodes[t - 1].out_first + o);
        planner_search_from(&b->search, trial);
    } else if (plans[k].from == FROM_ALL) {
        planner_sched_keep_all(trial);
        planner_search_from(&b->search, trial);
    } else if (b->job->has_best) {
        planner_search_from(&b->search, &b->job->best);
    }
    planner_search_anneal(&b->search, flips, plans[k].heat, b->job);
    planner_search_polish(&b->search, b->job);
    exchange(b, "anneal");
    planner_search_iterate(&b->search, 20 + 40000 / (g->node_count + 1), b->job);
    exchange(b, "shake");
}

/* ---- programs ------------------------------------------------------------------------------- */

/* Only costs below this are of interest: by the requested gap, or by one unit of cost. */
static double cutoff_cost(const struct best *b, double gap)
{
    const struct planner_job *job = b->job;
    if (!job->has_best)
        return PLANNER_INF;
    double step = 0.5 * (double)b->cost_unit, best = (double)job->best.cost;
    if (step < 1e-7 * best)
        step = 1e-7 * best;
    double by_gap = best / (1 + gap);
    return by_gap < best - step ? by_gap : best - step;
}

/* Offer the schedule in x; the solver's word is never taken for peak or cost. */
static bool offer_solution(struct best *b, const struct planner_model *model, const double *x,
                           const char *name)
{
    struct planner_job *job = b->job;
    planner_model_extract(model, x, &job->trial);
    planner_sched_close(&job->ev, &job->trial);
    planner_sched_trim(&job->ev, &job->trial);
    bool is_better = planner_job_offer(job, name);
    if (is_better)
        exchange(b, name);
    return is_better;
}

static enum planner_bound bound_class(const struct planner_model *model)
{
    return model->groups->is_flow ? PLANNER_BOUND_FLOW : PLANNER_BOUND_MERGED;
}

/* A bound counts when its class is at least as general as the one there is. */
static void note_bound(struct best *b, const struct planner_model *model, double cost)
{
    struct planner_job *job = b->job;
    if (job->bound_class == PLANNER_BOUND_FLOW && !model->groups->is_flow)
        return;
    if (job->has_best && cost > (double)job->best.cost)
        cost = (double)job->best.cost;
    planner_job_bound(job, cost, bound_class(model));
}

static enum ebb_status relax(struct best *b, const struct planner_model *model, double seconds,
                             struct planner_mip_result *result, struct ebb_error *err)
{
    struct planner_mip_options options = {.seconds = seconds, .is_relaxed = true};
    EBB_TRY(planner_mip_solve(&model->mip, &options, result, err));
    if (result->status == PLANNER_MIP_OPTIMAL)
        note_bound(b, model, planner_model_cost(model, result->bound));
    if (result->status == PLANNER_MIP_INFEASIBLE && model->groups->is_flow && !b->job->has_best)
        b->job->is_proven_infeasible = true;
    if (result->status == PLANNER_MIP_INFEASIBLE && !model->groups->is_flow)
        b->is_merged_infeasible = true;
    return EBB_OK;
}

/* LP of a level; with `keep_it` model and solution stay for the neighbourhoods. */
static enum ebb_status bound_level(struct best *b, enum planner_level level, bool keep_it,
                                   struct ebb_error *err)
{
    struct planner_groups groups;
    struct planner_model model = {0};
    struct planner_mip_result result;
    planner_mip_result_init(&result);
    EBB_TRY(planner_groups_make(&groups, b->job->graph, level, err));
    enum ebb_status status =
        planner_model_build(&model, b->job->graph, &groups, b->job->budget, NULL, err);
    if (status == EBB_OK)
        status = relax(b, &model, time_left(b), &result, err);
    if (status == EBB_OK && keep_it && result.status == PLANNER_MIP_OPTIMAL) {
        planner_model_fini(&b->model);
        planner_groups_fini(&b->groups);
        ebb_free(b->lp);
        b->groups = groups;
        b->model = model;
        b->model.groups = &b->groups;
        b->lp = result.x;
        b->has_model = true;
        result.x = NULL;
    } else {
        planner_model_fini(&model);
        planner_groups_fini(&groups);
    }
    planner_mip_result_fini(&result);
    return status;
}

/* Branch and cut on a whole level. */
static enum ebb_status exact_level(struct best *b, enum planner_level level, double seconds,
                                   size_t most_binaries, struct ebb_error *err)
{
    struct planner_job *job = b->job;
    struct planner_groups groups;
    struct planner_model model = {0};
    struct planner_mip_result result;
    planner_mip_result_init(&result);
    EBB_TRY(planner_groups_make(&groups, job->graph, level, err));
    enum ebb_status status =
        planner_model_build(&model, job->graph, &groups, job->budget, NULL, err);
    double stop = planner_job_seconds(job) + seconds;
    bool is_first = true;
    while (status == EBB_OK && model.binary_count <= most_binaries && !is_done(b) &&
           planner_job_seconds(job) < stop) {
        double cutoff = cutoff_cost(b, job->request->gap);
        struct planner_mip_options options = {
            .seconds = stop - planner_job_seconds(job),
            .ratio_gap = job->has_best ? 0 : job->request->gap,
            .cutoff = cutoff < PLANNER_INF ? cutoff * model.cost_scale : PLANNER_INF};
        status = planner_mip_solve(&model.mip, &options, &result, err);
        if (status != EBB_OK)
            break;
        bool is_better =
            result.has_x && offer_solution(b, &model, result.x, groups.is_flow ? "flow" : "merged");
        if (result.status == PLANNER_MIP_INFEASIBLE && cutoff < PLANNER_INF)
            note_bound(b, &model, job->request->gap > 0 ? cutoff : (double)job->best.cost);
        else if (result.status == PLANNER_MIP_INFEASIBLE && groups.is_flow && !job->has_best)
            job->is_proven_infeasible = true;
        else if (result.status == PLANNER_MIP_OPTIMAL && result.has_x)
            note_bound(b, &model,
                       planner_model_cost(&model, result.objective * (1 - options.ratio_gap)));
        else if (result.status == PLANNER_MIP_LIMIT && result.bound > 0 && result.bound < 1e20)
            note_bound(b, &model, planner_model_cost(&model, result.bound));
        if (!is_better || result.status == PLANNER_MIP_LIMIT || !is_first)
            break;
        is_first = false; /* a better incumbent: the cutoff falls once more */
    }
    planner_mip_result_fini(&result);
    planner_model_fini(&model);
    planner_groups_fini(&groups);
    return status;
}

/* Fix every cell outside the neighbourhood to the incumbent; returns how many stay free. Kinds: 0
 * RINS (free where LP and incumbent differ), 1 a window of groups, 2 a window of items. */
static size_t cut_neighbourhood(struct best *b, uint32_t kind, double *lower, double *upper)
{
    const struct planner_graph *g = b->job->graph;
    const struct planner_groups *groups = &b->groups;
    size_t free_count = 0;
    uint32_t group_width = groups->count / 6 + 2, item_width = g->item_count / 8 + 2;
    uint32_t group_at = (uint32_t)(ebb_splitmix64(&b->random) % groups->count);
    uint32_t item_at = (uint32_t)(ebb_splitmix64(&b->random) % g->item_count);
    for (uint32_t group = 0; group < groups->count; group++)
        for (uint32_t i = 0; i < g->item_count; i++) {
            int s = b->model.s_col[(size_t)group * g->item_count + i];
            if (s < 0)
                continue;
            double value = planner_model_cell(&b->model, &b->job->best, group, i);
            bool is_free = kind == 0   ? fabs(b->lp[s] - value) > 0.05
                           : kind == 1 ? group - group_at < group_width
                                       : i - item_at < item_width;
            lower[s] = is_free ? 0 : value;
            upper[s] = is_free ? 1 : value;
            free_count += is_free;
        }
    return free_count;
}

static enum ebb_status neighbourhood(struct best *b, uint32_t kind, double seconds,
                                     struct ebb_error *err)
{
    struct planner_mip sub = b->model.mip; /* shares all but the bounds */
    struct planner_mip_result result;
    planner_mip_result_init(&result);
    size_t bytes = sub.col_count * sizeof(double);
    double *lower = ebb_alloc(bytes), *upper = ebb_alloc(bytes);
    enum ebb_status status = EBB_OK;
    if (!lower || !upper) {
        status = ebb_no_memory(err, bytes);
        goto out;
    }
    memcpy(lower, sub.col_lower, bytes);
    memcpy(upper, sub.col_upper, bytes);
    if (cut_neighbourhood(b, kind, lower, upper) == 0)
        goto out;
    sub.col_lower = lower;
    sub.col_upper = upper;
    struct planner_mip_options options = {.seconds = seconds,
                                          .cutoff = cutoff_cost(b, 0) * b->model.cost_scale};
    status = planner_mip_solve(&sub, &options, &result, err);
    if (status == EBB_OK && result.has_x)
        offer_solution(b, &b->model, result.x, kind == 0 ? "rins" : "window");
out:
    ebb_free(lower);
    ebb_free(upper);
    planner_mip_result_fini(&result);
    return status;
}

/* ---- the portfolio -------------------------------------------------------------------------- */

static enum ebb_status bounds(struct best *b, struct ebb_error *err)
{
    uint32_t n = b->job->graph->node_count;
    if (!planner_mip_has_solver() || n > LP_NODES)
        return EBB_OK;
    EBB_TRY(bound_level(b, PLANNER_LEVEL_MERGED, true, err));
    if (n <= FLOW_NODES && time_left(b) > 0)
        EBB_TRY(bound_level(b, PLANNER_LEVEL_FULL, n <= 130, err));
    return EBB_OK;
}

static enum ebb_status improve(struct best *b, uint64_t flips, struct ebb_error *err)
{
    static const uint32_t rounds_of[] = {0, 8, 32, UINT32_MAX};
    int effort = b->job->request->effort;
    uint32_t rounds = rounds_of[effort < 0 ? 0 : effort > 3 ? 3 : effort];
    for (uint32_t round = 1; round <= rounds && !is_done(b); round++) {
        anneal(b, round, flips);
        if (b->has_model && b->job->has_best && !is_done(b)) {
            double seconds = time_left(b) < 4 ? time_left(b) : 4;
            EBB_TRY(neighbourhood(b, round % 3 == 1 ? 0 : round % 3 == 2 ? 1 : 2, seconds, err));
        }
        if (round % 4 == 0 && flips < (UINT64_C(1) << 24))
            flips *= 2;
    }
    return EBB_OK;
}

/* Branch and cut where the models are small: the merged one finds, the full one proves. */
static enum ebb_status exact(struct best *b, struct ebb_error *err)
{
    bool is_exact = b->job->request->gap <= 0;
    if (!planner_mip_has_solver() || b->job->graph->node_count > LP_NODES)
        return EBB_OK;
    if (!b->job->has_best && b->is_merged_infeasible) /* is there anything at all? */
        EBB_TRY(exact_level(b, PLANNER_LEVEL_FULL, time_left(b) * 0.8, FULL_BINARIES, err));
    if (b->job->is_proven_infeasible || is_done(b))
        return EBB_OK;
    if (!b->is_merged_infeasible)
        EBB_TRY(exact_level(b, PLANNER_LEVEL_MERGED, time_left(b) * 0.3,
                            EXACT_BINARIES * (is_exact ? 2 : 1), err));
    else
        EBB_TRY(exact_level(b, PLANNER_LEVEL_BACK, time_left(b) * 0.3, EXACT_BINARIES, err));
    if (is_done(b))
        return EBB_OK;
    return exact_level(b, PLANNER_LEVEL_FULL, time_left(b) * (is_exact ? 1 : 0.5), FULL_BINARIES,
                       err);
}

/* The last schedule fits in bytes but not in addresses: make it smaller, quickly. */
static void shrink(struct best *b)
{
    planner_sched_copy(&b->job->trial, &b->job->best);
    if (planner_search_from(&b->search, &b->job->trial) &&
        planner_search_repair(&b->search, b->job))
        planner_search_fill(&b->search, b->job);
    exchange(b, "shrink");
}

/* The model for another solver: full where it is not too large, else merged. */
static enum ebb_status write_model(const struct planner_job *job, struct ebb_error *err)
{
    struct planner_groups groups;
    struct planner_model model = {0};
    bool is_full = job->graph->node_count <= 200;
    EBB_TRY(planner_groups_make(&groups, job->graph,
                                is_full ? PLANNER_LEVEL_FULL : PLANNER_LEVEL_MERGED, err));
    enum ebb_status status =
        planner_model_build(&model, job->graph, &groups, job->budget, NULL, err);
    if (status == EBB_OK)
        status = planner_mip_write_lp(&model.mip, job->request->write_lp,
                                      is_full ? "flow model, cost x 1e4 / base cost"
                                              : "merged model, cost x 1e4 / base cost",
                                      err);
    planner_model_fini(&model);
    planner_groups_fini(&groups);
    return status;
}

static enum ebb_status run_portfolio(struct best *b, struct ebb_error *err)
{
    struct planner_job *job = b->job;
    if (job->is_retry) {
        shrink(b);
        if (job->has_best)
            return EBB_OK;
    }
    uint64_t flips = 100000 + 200 * (uint64_t)job->graph->node_count;
    EBB_TRY(seeds(b, err));
    if (job->request->effort <= 0 && job->has_best)
        return EBB_OK;
    for (uint32_t round = 0; round < 2 && time_left(b) > 0; round++)
        anneal(b, round, flips);
    if (job->request->effort <= 0)
        return EBB_OK;
    EBB_TRY(bounds(b, err));
    if (is_done(b) || job->is_proven_infeasible)
        return EBB_OK;
    for (uint32_t round = 2; round < (job->has_best ? 10u : 4u) && !is_done(b); round++)
        anneal(b, round, flips * 2);
    if (!is_done(b))
        EBB_TRY(exact(b, err));
    if (job->is_proven_infeasible)
        return EBB_OK;
    return improve(b, flips * 4, err);
}

static enum ebb_status finish(struct best *b, enum ebb_status status)
{
    planner_search_fini(&b->search);
    planner_model_fini(&b->model);
    planner_groups_fini(&b->groups);
    ebb_free(b->lp);
    return status;
}

enum ebb_status planner_solve_best(struct planner_job *job, struct ebb_error *err)
{
    struct best b = {.job = job, .random = job->request->seed + 17};
    if (job->request->write_lp && !job->is_retry)
        EBB_TRY(write_model(job, err));
    planner_sched_keep_all(&job->trial);
    planner_sched_close(&job->ev, &job->trial);
    if (planner_job_offer(job, "keep")) {
        planner_job_bound(job, (double)job->graph->base_cost, PLANNER_BOUND_FLOW);
        return EBB_OK;
    }
    if (job->budget < job->graph->max_in_out) {
        job->is_proven_infeasible = true;
        return EBB_OK;
    }
    for (uint32_t v = 0; v < job->graph->node_count; v++)
        b.cost_unit = gcd(b.cost_unit, job->graph->nodes[v].cost);
    EBB_TRY(planner_search_init(&b.search, &job->ev, job->budget, job->request->seed, err));
    enum ebb_status status = run_portfolio(&b, err);
    if (status == EBB_OK && !job->has_best && !job->is_proven_infeasible &&
        !job->graph->trace->is_graph) {
        status = planner_solve_floor(job, err); /* the online run may still have a plan */
        if (job->has_made)
            return finish(&b, status);
    }
    job->is_timeout = !job->has_best && !job->is_proven_infeasible;
    return finish(&b, status);
}
