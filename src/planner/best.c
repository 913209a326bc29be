/* best.c - the portfolio: keep everything if it fits; else seeds, search, bounds, and
 * exact or partial programs.
 *
 * The table `stages` says what comes when:
 *   1 nothing to do, or proven impossible (an op alone does not fit);
 *   2 seeds: games of planner `floor`, checkpoints of blocks, recorded runs of the online policies,
 *     repair of "keep everything", classic strategies;
 *   3 the split program's relaxation: a bound in milliseconds; it often ends the matter;
 *   4 exchanges (first on large steps) and annealing, in turn with the split program in integers;
 *   5 the flow model: relaxation, branch and cut where it is small;
 *   6 rounds of annealing and of sub-programs around the LP's opinion (RINS) until gap, effort or
 *     time says stop. */
#include "planner/best.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"

double planner_best_time_left(const struct best *b)
{
    return planner_job_time_left(b->job);
}

bool planner_best_is_done(const struct best *b)
{
    return planner_job_is_close(b->job) || planner_best_time_left(b) <= 0;
}

void planner_best_exchange(struct best *b, const char *name)
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

void planner_best_repair(struct best *b, const char *name)
{
    struct planner_job *job = b->job;
    planner_sched_close(&job->ev, &job->trial);
    if (planner_search_from(&b->search, &job->trial) && planner_search_repair(&b->search, job))
        planner_search_fill(&b->search, job);
    planner_best_exchange(b, name);
}

double planner_best_cutoff(const struct best *b, double gap)
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

void planner_best_note_bound(struct best *b, double cost, enum planner_bound bound_class)
{
    struct planner_job *job = b->job;
    if (job->bound_class == PLANNER_BOUND_FLOW && bound_class != PLANNER_BOUND_FLOW)
        return;
    if (job->has_best && cost > (double)job->best.cost)
        cost = (double)job->best.cost;
    planner_job_bound(job, cost, bound_class);
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
        planner_sched_keep_newest(trial);
        planner_search_from(&b->search, trial);
    } else if (plans[k].from == FROM_ALL) {
        planner_sched_keep_all(trial);
        planner_search_from(&b->search, trial);
    } else if (b->job->has_best) {
        planner_search_from(&b->search, &b->job->best);
    }
    planner_search_anneal(&b->search, flips, plans[k].heat, b->job);
    planner_search_polish(&b->search, b->job);
    planner_best_exchange(b, "anneal");
    planner_search_iterate(&b->search, 20 + 40000 / (g->node_count + 1), b->job);
    planner_best_exchange(b, "shake");
}

/* The model for another solver: full where it is not too large, else merged. */
static enum ebb_status write_model(const struct planner_job *job, struct ebb_error *err)
{
    struct planner_model model;
    bool is_full = job->graph->node_count <= 200;
    EBB_TRY(planner_model_build(&model, job->graph,
                                is_full ? PLANNER_LEVEL_FULL : PLANNER_LEVEL_MERGED, job->budget,
                                NULL, err));
    enum ebb_status status = planner_mip_write_lp(&model.mip, job->request->write_lp,
                                                  is_full ? "flow model, cost x 1e4 / base cost"
                                                          : "merged model, cost x 1e4 / base cost",
                                                  err);
    planner_model_fini(&model);
    return status;
}

#define PLAYED_NODES 5000  /* beyond, a game takes seconds */
#define BOUNDED_NODES 1000 /* beyond, the seeds have the bound */

/* ---- stages --------------------------------------------------------------------------------- */

static uint64_t flips_of(const struct best *b)
{
    return 100000 + 200 * (uint64_t)b->job->graph->node_count;
}

/* The last schedule fits in bytes but not in addresses: make it smaller, quickly. */
static enum ebb_status shrink(struct best *b, struct ebb_error *err)
{
    (void)err;
    planner_sched_copy(&b->job->trial, &b->job->best);
    if (planner_search_from(&b->search, &b->job->trial) &&
        planner_search_repair(&b->search, b->job))
        planner_search_fill(&b->search, b->job);
    planner_best_exchange(b, "shrink");
    b->is_over = b->job->has_best;
    return EBB_OK;
}

static enum ebb_status first_bound(struct best *b, struct ebb_error *err)
{
    return planner_best_bound(b, 1, err);
}

/* When recorded runs are all that was wanted, other seeds are left out. */
static enum ebb_status recorded_runs(struct best *b, struct ebb_error *err)
{
    const struct planner_job *job = b->job;
    EBB_TRY(planner_best_online(b, err));
    b->is_seeded =
        planner_best_is_done(b) || (job->request->effort <= 0 && planner_job_has_plan(job) &&
                                    job->graph->node_count > PLANNER_BEST_SMALL);
    return EBB_OK;
}

static enum ebb_status take_filled(struct best *b, struct ebb_error *err)
{
    (void)err;
    planner_best_exchange(b, "fill");
    return EBB_OK;
}

static enum ebb_status first_plan(struct best *b, struct ebb_error *err)
{
    (void)err;
    bool is_planless = !planner_job_has_plan(b->job);
    for (uint32_t round = 0; round < 2 && is_planless && planner_best_time_left(b) > 0; round++)
        anneal(b, round, flips_of(b));
    b->is_over = true;
    return EBB_OK;
}

static enum ebb_status relaxed_bound(struct best *b, struct ebb_error *err)
{
    return planner_best_bound(b, 4, err);
}

static enum ebb_status exchanges(struct best *b, struct ebb_error *err)
{
    (void)err;
    planner_search_polish(&b->search, b->job);
    planner_best_exchange(b, "exchange");
    return EBB_OK;
}

static bool is_optimal(const struct best *b)
{
    return b->job->has_best && (double)b->job->best.cost <= b->job->lower_bound * (1 + 1e-9);
}

/* Near the bound already: two short rounds still find what a lucky rival would. */
static enum ebb_status first_rounds(struct best *b, struct ebb_error *err)
{
    (void)err;
    bool is_small = b->job->graph->node_count <= PLANNER_BEST_SMALL;
    for (uint32_t round = 0;
         round < 2 &&
         (is_small ? planner_best_time_left(b) > 0 && !is_optimal(b) : !planner_best_is_done(b));
         round++)
        anneal(b, round, flips_of(b));
    return EBB_OK;
}

static enum ebb_status first_proof(struct best *b, struct ebb_error *err)
{
    return planner_best_prove(b, 0.3 * planner_best_time_left(b), err);
}

static enum ebb_status more_rounds(struct best *b, struct ebb_error *err)
{
    (void)err;
    const struct planner_job *job = b->job;
    double stop = 0.6 * planner_best_time_left(b);
    for (uint32_t round = 2; round < (job->has_best ? 10u : 4u) && !planner_best_is_done(b) &&
                             planner_best_time_left(b) > stop && !job->is_proven_infeasible;
         round++)
        anneal(b, round, 2 * flips_of(b));
    return EBB_OK;
}

static enum ebb_status second_proof(struct best *b, struct ebb_error *err)
{
    return planner_best_prove(b, 0.5 * planner_best_time_left(b), err);
}

static enum ebb_status improve(struct best *b, struct ebb_error *err)
{
    static const uint32_t rounds_of[] = {0, 8, 32, UINT32_MAX};
    int effort = b->job->request->effort;
    uint32_t rounds = rounds_of[effort < 0 ? 0 : effort > 3 ? 3 : effort];
    uint64_t flips = 4 * flips_of(b);
    for (uint32_t round = 1; round <= rounds && !planner_best_is_done(b); round++) {
        anneal(b, round, flips);
        if (b->has_model && b->job->has_best && !planner_best_is_done(b)) {
            double seconds = planner_best_time_left(b) < 4 ? planner_best_time_left(b) : 4;
            EBB_TRY(planner_best_neighbourhood(b, (round + 2) % 3, seconds, err));
        }
        if (round % 4 == 0 && flips < (UINT64_C(1) << 24))
            flips *= 2;
    }
    return EBB_OK;
}

/* What a stage may ask for. */
enum when {
    ALWAYS = 0,
    RETRY = 1,          /* a schedule is there that cannot be packed */
    QUICK = 1 << 1,     /* the first good plan is wanted */
    PATIENT = 1 << 2,   /* the best one is */
    SMALL = 1 << 3,     /* nodes */
    LARGE = 1 << 4,     /* more */
    PLAYABLE = 1 << 5,  /* a game for memory takes less than seconds */
    BOUNDABLE = 1 << 6, /* larger ones have their bound from the seeds */
    PLANLESS = 1 << 7,  /* nothing found yet, not even a recorded run */
    NOTHING = 1 << 8,   /* no schedule found yet */
    UNSEEDED = 1 << 9,  /* recorded runs were not good enough */
    WARM = 1 << 10,     /* a plan for another budget was given */
    OPEN = 1 << 11,     /* not close enough, time left */
    POSSIBLE = 1 << 12, /* not proved that no plan exists */
};

static unsigned situation(const struct best *b)
{
    const struct planner_job *job = b->job;
    uint32_t n = job->graph->node_count;
    return (job->is_retry ? RETRY : 0) | (job->request->effort <= 0 ? QUICK : PATIENT) |
           (n <= PLANNER_BEST_SMALL ? SMALL : LARGE) | (n <= PLAYED_NODES ? PLAYABLE : 0) |
           (n <= BOUNDED_NODES ? BOUNDABLE : 0) | (planner_job_has_plan(job) ? 0 : PLANLESS) |
           (job->has_best ? 0 : NOTHING) | (b->is_seeded ? 0 : UNSEEDED) |
           (job->request->warm ? WARM : 0) | (planner_best_is_done(b) ? 0 : OPEN) |
           (job->is_proven_infeasible ? 0 : POSSIBLE);
}

/* In this order, each when all it asks for holds. What proves also finds, so it comes first where
 * it is cheap. */
static const struct {
    const char *name;
    unsigned when; /* OR of enum when */
    enum ebb_status (*run)(struct best *b, struct ebb_error *err);
} stages[] = {
    {"shrink", RETRY, shrink},
    {"game", PATIENT | PLAYABLE, planner_best_game},
    {"game", QUICK | LARGE | PLAYABLE, planner_best_game},
    {"first bound", PATIENT | LARGE, first_bound},
    {"blocks", PATIENT | LARGE | OPEN, planner_best_blocks},
    {"blocks", QUICK | LARGE | PLANLESS, planner_best_blocks},
    {"recorded runs", ALWAYS, recorded_runs},
    {"blocks", UNSEEDED | SMALL, planner_best_blocks},
    {"repair", UNSEEDED, planner_best_repair_all},
    {"floor", UNSEEDED | PATIENT | PLAYABLE, planner_best_floor},
    {"unified", UNSEEDED | PATIENT | PLAYABLE | OPEN, planner_best_unified},
    {"classic", UNSEEDED | PATIENT, planner_best_classic},
    {"classic", UNSEEDED | QUICK | NOTHING, planner_best_classic},
    {"fill", UNSEEDED, take_filled},
    {"warm", UNSEEDED | WARM, planner_best_warm},
    {"first plan", QUICK, first_plan},
    {"relaxed bound", BOUNDABLE, relaxed_bound},
    {"exchanges", LARGE | OPEN, exchanges},
    {"annealing", ALWAYS, first_rounds},
    {"proof", OPEN, first_proof},
    {"annealing", ALWAYS, more_rounds},
    {"proof", ALWAYS, second_proof},
    {"flow model", OPEN | POSSIBLE, planner_best_relax},
    {"branch and cut", OPEN | POSSIBLE, planner_best_exact},
    {"neighbourhoods", POSSIBLE, improve},
};

static enum ebb_status run_stages(struct best *b, struct ebb_error *err)
{
    for (size_t k = 0; k < sizeof stages / sizeof *stages && !b->is_over; k++)
        if ((stages[k].when & ~situation(b)) == 0)
            EBB_TRY(stages[k].run(b, err));
    return EBB_OK;
}

enum ebb_status planner_best_bound_alone(struct planner_job *job, struct ebb_error *err)
{
    struct best b = {.job = job};
    if (job->budget < job->graph->max_in_out) {
        job->is_proven_infeasible = true;
        return EBB_OK;
    }
    EBB_TRY(planner_best_bound(&b, 1, err));
    if (!job->is_proven_infeasible)
        EBB_TRY(planner_best_bound(&b, 2, err));
    return EBB_OK;
}

static enum ebb_status finish(struct best *b, enum ebb_status status)
{
    planner_search_fini(&b->search);
    planner_model_fini(&b->model);
    ebb_free(b->lp);
    return status;
}

static enum ebb_status solve(struct planner_job *job, struct ebb_error *err)
{
    struct best b = {.job = job, .random = job->request->seed + 17, .slices = 4};
    if (job->request->write_lp && !job->is_retry)
        EBB_TRY(write_model(job, err));
    if (job->graph->no_remat_peak <= job->budget) {
        planner_sched_keep_all(&job->trial);
        planner_sched_close(&job->ev, &job->trial);
        if (planner_job_offer(job, "keep")) {
            planner_job_bound(job, (double)job->graph->base_cost, PLANNER_BOUND_FLOW);
            return EBB_OK;
        }
    }
    if (job->budget < job->graph->max_in_out) {
        job->is_proven_infeasible = true;
        return EBB_OK;
    }
    b.cost_unit = planner_cost_unit(job->graph);
    EBB_TRY(planner_search_init(&b.search, &job->ev, job->budget, job->request->seed, err));
    enum ebb_status status = run_stages(&b, err);
    if (status == EBB_OK && !planner_job_has_plan(job) && !job->is_proven_infeasible &&
        !job->graph->trace->is_graph) {
        status = planner_solve_floor(job, err); /* the online run may still have a plan */
        if (job->has_made)
            return finish(&b, status);
    }
    job->is_timeout = !planner_job_has_plan(job) && !job->is_proven_infeasible;
    return finish(&b, status);
}

/* So small that it is solved outright in a second or two: a tolerance would only let an exact rival
 * be cheaper. */
#define OUTRIGHT_NODES 32

enum ebb_status planner_solve_best(struct planner_job *job, struct ebb_error *err)
{
    const struct planner_request *asked = job->request;
    struct planner_request outright = *asked;
    outright.gap = 0;
    if (job->graph->node_count <= OUTRIGHT_NODES && asked->effort > 0)
        job->request = &outright;
    enum ebb_status status = solve(job, err);
    job->request = asked;
    return status;
}
