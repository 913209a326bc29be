/* joint.c - recomputation and offload together (POET's problem, spec 12.5) on the conservation
 * model.
 *
 * A second commodity "on host" per item: sent in the stage that has it, fetched at the start of the
 * stage that needs it and counted there from its start. Time of a stage = max(compute, bytes in,
 * bytes out); the cost of the result is the sum, re-computed in integers from the solution. Small
 * graphs only: the model has four binaries per cell. The best schedule without offload is the
 * incumbent. */
#include "planner/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "planner/model.h"

#define MOST_BINARIES 9000
#define MOST_NODES 65 /* beyond, the solver may end with nothing */

struct joint {
    struct planner_link link;
    struct planner_job *job;
    struct planner_model model;
    struct ebb_arena arena;
    uint64_t *fetch, *send, *row; /* bit rows */
    bool is_solved;               /* job->made is the model's */
};

static bool is_one(const double *x, int col)
{
    return col >= 0 && x[col] > 0.5;
}

/* Bits of the solution; a send lands in the stage that has the item (its own when made in the
 * group). */
static void read_solution(struct joint *j, const double *x)
{
    struct planner_sched *s = &j->job->trial;
    const struct planner_graph *g = j->job->graph;
    size_t rows = (size_t)s->stages * s->words;
    planner_model_extract(&j->model, x, s);
    memset(j->fetch, 0, rows * sizeof *j->fetch);
    memset(j->send, 0, rows * sizeof *j->send);
    for (uint32_t group = 0; group < j->model.groups.count; group++)
        for (uint32_t i = 0; i < g->item_count; i++) {
            size_t at = (size_t)group * g->item_count + i;
            uint32_t stage = j->model.groups.begin[group];
            if (is_one(x, j->model.in_col[at]))
                planner_bit_set(j->fetch + (size_t)stage * s->words, i);
            if (is_one(x, j->model.out_col[at])) {
                uint32_t when = g->items[i].node > stage ? g->items[i].node : stage;
                planner_bit_set(j->send + (size_t)when * s->words, i);
            }
        }
}

static uint64_t transfer_ns(const struct joint *j, const uint64_t *row, double rate)
{
    const struct planner_graph *g = j->job->graph;
    double ns = 0;
    for (uint32_t i = 0; i < g->item_count; i++)
        if (planner_bit(row, i))
            ns += (double)g->items[i].bytes / rate + (double)j->link.latency_ns;
    return (uint64_t)ceil(ns);
}

/* Exact time of the rows; UINT64_MAX when a stage does not fit or cannot run. */
static uint64_t evaluate(struct joint *j)
{
    struct planner_sched *s = &j->job->trial;
    const struct planner_link *link = &j->link;
    uint64_t total = 0;
    for (uint32_t group = 0; group < j->model.groups.count; group++) {
        uint64_t compute = 0, in = 0, out = 0;
        for (uint32_t t = j->model.groups.begin[group]; t < j->model.groups.begin[group + 1]; t++) {
            struct planner_stage stage;
            const uint64_t *fetch = j->fetch + (size_t)t * s->words;
            for (uint32_t w = 0; w < s->words; w++)
                j->row[w] = planner_row(s, t)[w] | fetch[w];
            if (!planner_stage_eval(&j->job->ev, t, j->row, planner_row(s, t + 1), &stage) ||
                stage.peak > j->job->budget)
                return UINT64_MAX;
            compute += stage.cost;
            in += transfer_ns(j, fetch, link->in_bytes_per_ns);
            out += transfer_ns(j, j->send + (size_t)t * s->words, link->out_bytes_per_ns);
        }
        uint64_t most = compute > in ? compute : in;
        total += most > out ? most : out;
    }
    return total;
}

static enum ebb_status solve(struct joint *j, struct ebb_error *err)
{
    struct planner_job *job = j->job;
    struct planner_mip_result result = {0};
    double scale = j->model.cost_scale;
    struct planner_mip_options options = {
        .seconds = planner_job_time_left(job),
        .ratio_gap = job->request->gap,
        .cutoff = job->has_best ? (double)job->best.cost * scale * (1 - 1e-7) : PLANNER_INF};
    EBB_TRY(planner_mip_solve(&j->model.mip, &options, &result, err));
    enum ebb_status status = EBB_OK;
    if (result.has_x) {
        read_solution(j, result.x);
        uint64_t cost = evaluate(j);
        if (cost != UINT64_MAX && (!job->has_best || cost < job->best.cost) &&
            (!job->has_made || cost < job->made_cost)) {
            struct planner_transfers transfers = {j->fetch, j->send, j->row};
            plan_fini(&job->made);
            status = planner_sched_emit(&job->ev, &job->trial, &transfers, &job->made, err);
            job->has_made = job->is_unplaced = j->is_solved = status == EBB_OK;
            job->made_cost = cost;
            snprintf(job->winner, sizeof job->winner, "joint");
        }
    }
    if (result.status == PLANNER_MIP_INFEASIBLE && job->has_best)
        planner_job_bound(job, (double)job->best.cost * (1 - 1e-7), PLANNER_BOUND_JOINT);
    else if (result.status == PLANNER_MIP_INFEASIBLE)
        job->is_proven_infeasible = true;
    else if (result.bound > 0 && result.bound < 1e20)
        planner_job_bound(job, result.bound / scale * (1 - 1e-7), PLANNER_BOUND_JOINT);
    planner_mip_result_fini(&result);
    return status;
}

static enum ebb_status joint_init(struct joint *j, struct ebb_error *err)
{
    const struct planner_graph *g = j->job->graph;
    const struct planner_sched *s = &j->job->trial;
    size_t rows = (size_t)s->stages * s->words;
    j->fetch = ebb_arena_calloc(&j->arena, rows, sizeof *j->fetch);
    j->send = ebb_arena_calloc(&j->arena, rows, sizeof *j->send);
    j->row = ebb_arena_calloc(&j->arena, s->words, sizeof *j->row);
    EBB_TRY(ebb_arena_status(&j->arena, err));
    return planner_model_build(&j->model, g,
                               g->node_count <= 40 ? PLANNER_LEVEL_FULL : PLANNER_LEVEL_MERGED,
                               j->job->budget, &j->link, err);
}

/* The way to the host, as the model has it. */
static struct planner_link host_link(const struct planner_tiers *tiers)
{
    const struct device_link *out = &tiers->links.out[DEVICE_HOST],
                             *in = &tiers->links.in[DEVICE_HOST];
    return (struct planner_link){.out_bytes_per_ns = out->bytes_per_ns,
                                 .in_bytes_per_ns = in->bytes_per_ns,
                                 .latency_ns = in->latency_ns,
                                 .host_bytes = tiers->bytes[DEVICE_HOST]};
}

/* The same budget without a host. */
static enum ebb_status find_incumbent(struct planner_job *job, struct ebb_error *err)
{
    const struct planner_request *asked = job->request;
    struct planner_request quick = *asked;
    quick.effort = 0;
    quick.write_lp = NULL;
    quick.tiers = (struct planner_tiers){0};
    job->request = &quick;
    enum ebb_status status = planner_solve_best(job, err);
    job->request = asked;
    return status;
}

/* Solve the model where it is small enough. What it does not answer is not answered without copies
 * instead, unless that is proved to be as good. */
static enum ebb_status with_copies(struct joint *j, struct ebb_error *err)
{
    struct planner_job *job = j->job;
    const char *path = job->request->write_lp;
    EBB_TRY(joint_init(j, err));
    if (path)
        EBB_TRY(planner_mip_write_lp(&j->model.mip, path, "joint model", err));
    if (j->model.binary_count * 4 > MOST_BINARIES) {
        planner_job_not_applicable(job, "too many ops for the joint model (about 65 at most)");
        return EBB_OK;
    }
    EBB_TRY(solve(j, err));
    bool is_answered = j->is_solved || planner_job_is_close(job);
    if (!is_answered && job->graph->node_count > MOST_NODES)
        planner_job_not_applicable(
            job, "no plan with copies found in time: the joint model takes about 65 ops");
    else if (!is_answered && planner_job_has_plan(job))
        snprintf(job->note, sizeof job->note, "no plan with copies found in time");
    return EBB_OK;
}

enum ebb_status planner_solve_joint(struct planner_job *job, struct ebb_error *err)
{
    struct joint j = {.job = job, .link = host_link(&job->request->tiers)};
    const struct planner_link *link = &j.link;
    if (link->host_bytes == 0 || link->in_bytes_per_ns <= 0 || link->out_bytes_per_ns <= 0) {
        planner_job_not_applicable(job, "needs a host: --host-bytes, --host-in, --host-out");
        return EBB_OK;
    }
    if (!planner_mip_has_solver()) {
        planner_job_not_applicable(job, "this build has no solver (coinor-libcbc-dev)");
        return EBB_OK;
    }
    enum ebb_status status = find_incumbent(job, err);
    bool is_free = job->has_best && job->best.cost == job->graph->base_cost;
    job->is_proven_infeasible = job->budget < job->graph->max_in_out;
    job->is_timeout = false; /* offload may still help */
    if (is_free) {
        job->bound_class = PLANNER_BOUND_JOINT;
    } else { /* bounds without a host do not hold with one */
        job->bound_class = PLANNER_BOUND_NONE;
        job->lower_bound = 0;
    }
    if (status == EBB_OK && !is_free && !job->is_proven_infeasible)
        status = with_copies(&j, err);
    job->is_timeout = !job->has_best && !job->has_made && !job->is_proven_infeasible;
    planner_model_fini(&j.model);
    ebb_arena_fini(&j.arena);
    return status;
}
