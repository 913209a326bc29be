/* pack.c - from a solved job to a proven plan: addresses, the checker, and what to try when a
 * schedule fits in bytes but not in addresses. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "exec/exec.h"
#include "planner/job.h"

static enum ebb_status make_plan(struct planner_job *job, const char *name, struct plan *plan,
                                 struct ebb_error *err)
{
    const struct trace *trace = job->graph->trace;
    plan_init(plan);
    if (job->has_made) {
        *plan = job->made;
        plan_init(&job->made);
    } else {
        enum ebb_status status = planner_sched_emit(&job->ev, &job->best, NULL, plan, err);
        if (status != EBB_OK) {
            plan_fini(plan);
            return status;
        }
    }
    plan->signature = trace->signature;
    plan->budget_bytes = job->request->budget_bytes;
    plan->exact_bytes = job->graph->exact_bytes;
    snprintf(plan->planner, sizeof plan->planner, "%s", name);
    return EBB_OK;
}

enum ebb_status planner_place_low(const struct trace *trace, struct plan *plan,
                                  const uint64_t *budget, struct ebb_error *err)
{
    struct ebb_error why = {0};
    enum ebb_status status =
        plan_lacks_low(plan) ? plan_assign_low(trace, plan, budget, &why) : EBB_OK;
    return status == EBB_OK || status == EBB_EBUDGET ? EBB_OK
                                                     : ebb_fail(err, status, "%s", why.message);
}

enum packing { PACK_STILL, PACK_SLIDING }; /* with moves where free bytes lie scattered */

/* Addresses for what has none yet, or none for anybody. */
static enum ebb_status pack(const struct planner_job *job, struct plan *plan, enum packing packing,
                            const uint64_t *budget, struct ebb_error *err)
{
    const struct trace *trace = job->graph->trace;
    bool has_addresses = job->has_made && !job->is_unplaced;
    if (job->request->no_addresses) {
        plan_strip_offsets(plan);
        return EBB_OK;
    }
    if (!has_addresses && packing == PACK_SLIDING)
        EBB_TRY(plan_assign_sliding(trace, plan, job->request->budget_bytes, NULL, err));
    else if (!has_addresses)
        EBB_TRY(plan_assign_offsets(trace, plan, budget[DEVICE_T0], NULL, err));
    return job->graph->exact_bytes ? EBB_OK : planner_place_low(trace, plan, budget, err);
}

/* Pack, prove and fill the result; EBB_EBUDGET: the byte sum fits, but the packing is too high. */
static enum ebb_status prove(struct planner_job *job, struct plan *plan, enum packing packing,
                             struct planner_result *result, struct ebb_error *err)
{
    const struct planner_graph *g = job->graph;
    uint64_t budget = job->request->budget_bytes;
    struct plan_limits limits = {.budget_bytes = {g->exact_bytes ? UINT64_MAX : budget,
                                                  job->request->tiers.bytes[DEVICE_HOST],
                                                  job->request->tiers.bytes[DEVICE_FILE]}};
    struct plan_report report;
    EBB_TRY(pack(job, plan, packing, limits.budget_bytes, err));
    EBB_TRY(plan_check(g->trace, plan, &limits, &report, err));
    if (report.peak_bytes > budget)
        return ebb_fail(err, EBB_EINTERNAL, "planner: plan needs %llu bytes, budget %llu",
                        (unsigned long long)report.peak_bytes, (unsigned long long)budget);
    if (!job->has_made && (report.cost_ns != job->best.cost || report.peak_bytes != job->best.peak))
        return ebb_fail(err, EBB_EINTERNAL,
                        "planner: evaluator says cost %llu peak %llu, checker %llu, %llu",
                        (unsigned long long)job->best.cost, (unsigned long long)job->best.peak,
                        (unsigned long long)report.cost_ns, (unsigned long long)report.peak_bytes);
    result->cost = job->request->no_addresses ? 0 : job->made_cost;
    if (result->cost == 0)
        EBB_TRY(planner_job_time(job, plan, &result->cost, err));
    result->peak_bytes = report.peak_bytes;
    result->height_bytes = report.height_bytes;
    result->moved_bytes = report.moved_bytes;
    return EBB_OK;
}

/* The plan as it runs: copies go beside the ops, and ops wait for them. */
static enum ebb_status time_on_null(const struct planner_job *job, const struct plan *plan,
                                    uint64_t *ns, struct ebb_error *err)
{
    const struct planner_tiers *tiers = &job->request->tiers;
    struct exec_program *program = NULL;
    struct exec_report report;
    struct exec_options options = {
        .plan = plan,
        .budget_bytes = plan->budget_bytes,
        .tier_bytes = {0, tiers->bytes[DEVICE_HOST], tiers->bytes[DEVICE_FILE]},
        .links = tiers->links};
    EBB_TRY(exec_program_create(&program, job->graph->trace, EXEC_EBB, err));
    enum ebb_status status = exec_run(program, &options, &report, err);
    exec_program_destroy(program);
    if (status == EBB_OK && report.result != EXEC_OK)
        status = ebb_fail(err, EBB_EINTERNAL, "planner: a proved plan ends %s: %s",
                          exec_result_text(report.result), report.why);
    *ns = report.device_ns > report.clock_ns ? report.device_ns : report.clock_ns;
    return status;
}

/* The same of a plan without addresses: who drops what is still being sent waits for that. */
struct byte_clock {
    uint64_t now[DEVICE_STREAMS];
    uint64_t *here,
        *sent; /* storage -> its bytes are in tier 0; nobody reads them there any more */
    uint64_t *below[DEVICE_TIERS]; /* storage -> its copy is whole */
};

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void clock_copy(struct byte_clock *c, const struct planner_job *job,
                       const struct plan_step *step)
{
    const struct device_config *links = &job->request->tiers.links;
    bool is_out = step->act == PLAN_SEND;
    uint32_t s = step->index;
    uint64_t *now = &c->now[device_copy_stream((enum device_tier)step->tier, is_out)];
    uint64_t waits = is_out ? c->here[s] : c->below[step->tier][s];
    uint64_t ns = (uint64_t)mem_copy_ns(is_out ? &links->out[step->tier] : &links->in[step->tier],
                                        job->graph->trace->storages[s].bytes);
    *now = later(later(*now, c->now[DEVICE_COMPUTE]), waits) + ns;
    if (is_out)
        c->sent[s] = c->below[step->tier][s] = *now;
    else
        c->here[s] = *now;
}

static void clock_step(struct byte_clock *c, const struct planner_job *job,
                       const struct plan_step *step)
{
    const struct trace *t = job->graph->trace;
    uint64_t *now = &c->now[DEVICE_COMPUTE];
    if (step->act == PLAN_SEND || step->act == PLAN_FETCH)
        clock_copy(c, job, step);
    if (step->act == PLAN_DROP)
        *now = later(*now, c->sent[step->index]);
    if (step->act != PLAN_RUN)
        return;
    const struct trace_op *op = &t->ops[step->index];
    for (uint32_t k = 0; k < op->input_count; k++)
        *now = later(*now, c->here[t->tensors[t->inputs[op->input_first + k]].storage]);
    *now += op->cost_ns;
}

static enum ebb_status time_in_bytes(const struct planner_job *job, const struct plan *plan,
                                     uint64_t *ns, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    size_t count = (size_t)job->graph->trace->storage_count + 1;
    struct byte_clock c = {.here = ebb_arena_calloc(&arena, count, sizeof *c.here),
                           .sent = ebb_arena_calloc(&arena, count, sizeof *c.sent)};
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++)
        c.below[tier] = ebb_arena_calloc(&arena, count, sizeof *c.below[tier]);
    enum ebb_status status = ebb_arena_status(&arena, err);
    *ns = 0;
    for (size_t i = 0; i < plan->step_count && status == EBB_OK; i++)
        clock_step(&c, job, &plan->steps[i]);
    for (int s = 0; s < DEVICE_STREAMS; s++)
        *ns = later(*ns, c.now[s]);
    ebb_arena_fini(&arena);
    return status;
}

enum ebb_status planner_job_time(const struct planner_job *job, const struct plan *plan,
                                 uint64_t *ns, struct ebb_error *err)
{
    bool has_copies = false;
    for (size_t i = 0; i < plan->step_count; i++)
        has_copies |= plan->steps[i].act == PLAN_SEND || plan->steps[i].act == PLAN_FETCH;
    if (has_copies && !job->graph->exact_bytes && !job->request->no_addresses)
        return time_on_null(job, plan, ns, err);
    return time_in_bytes(job, plan, ns, err);
}

/* The recorded run becomes the answer. */
static void take_recorded(struct planner_job *job)
{
    plan_fini(&job->made);
    job->made = job->recorded;
    plan_init(&job->recorded);
    job->has_recorded = false;
    job->has_made = true;
    job->is_unplaced = job->graph->exact_bytes;
    snprintf(job->winner, sizeof job->winner, "%s", job->recorded_by);
}

static enum ebb_status attempt_plan(const char *name, struct planner_job *job, enum packing packing,
                                    struct planner_result *result, struct ebb_error *err)
{
    struct plan plan;
    EBB_TRY(make_plan(job, name, &plan, err));
    enum ebb_status status = prove(job, &plan, packing, result, err);
    if (status == EBB_OK) {
        result->status = PLANNER_OK;
        result->plan = plan;
    } else {
        plan_fini(&plan);
    }
    return status;
}

double planner_result_price(const struct planner_request *request, const struct planner_result *r)
{
    return (double)r->cost + (double)r->moved_bytes / request->move_bytes_per_ns;
}

struct slid { /* the first schedule, packed with moves */
    struct planner_result result;
    char winner[sizeof(((struct planner_job *)0)->winner)];
    bool is_there;
};

static void take_slid(struct planner_job *job, struct slid *slid, struct planner_result *result)
{
    ebb_swap(result, &slid->result, sizeof *result);
    slid->is_there = false;
    snprintf(job->winner, sizeof job->winner, "%s", slid->winner);
    job->note[0] = '\0';
}

/* Solve; when a packing does not fit, with moves, and again with less room: the cheaper. A recorded
 * run needs no packing: it is taken when it is as cheap, or when nothing can be packed. */
static enum ebb_status attempts(const struct planner *planner, struct planner_job *job,
                                struct slid *slid, struct planner_result *result,
                                struct ebb_error *err)
{
    for (int attempt = 0;; attempt++) {
        EBB_TRY(planner_job_solve(job, planner, err));
        if (job->is_not_applicable) {
            result->status = PLANNER_NOT_APPLICABLE;
            return EBB_OK;
        }
        uint64_t less = (job->request->budget_bytes >> 8) << attempt;
        bool is_last = attempt == 6 || less >= job->request->budget_bytes;
        if (job->has_recorded && !job->has_made && planner_job_has_plan(job) &&
            (!job->has_best || job->recorded_cost < job->best.cost))
            take_recorded(job);
        if (!job->has_best && !job->has_made) {
            result->status = job->is_timeout ? PLANNER_TIMEOUT : PLANNER_INFEASIBLE;
            return EBB_OK;
        }
        enum ebb_status status = attempt_plan(planner->name, job, PACK_STILL, result, err);
        if (status != EBB_EBUDGET)
            return status;
        if (!slid->is_there && !job->has_made) {
            status = attempt_plan(planner->name, job, PACK_SLIDING, &slid->result, err);
            if (status != EBB_OK && status != EBB_EBUDGET) /* what an op holds cannot slide */
                return status;
            slid->is_there = status == EBB_OK;
        }
        if (slid->is_there && !job->has_fallback) {
            snprintf(slid->winner, sizeof slid->winner, "%s", job->winner);
            job->has_fallback = true;
            double cost = (double)slid->result.cost;
            if (planner_result_price(job->request, &slid->result) <= cost * (1 + job->request->gap))
                return EBB_OK;
        }
        if (slid->is_there && planner_job_seconds(job) >= job->request->time_limit_s)
            return EBB_OK;
        if (is_last && job->has_recorded) {
            take_recorded(job);
            return attempt_plan(planner->name, job, PACK_STILL, result, err);
        }
        /* The packing was too high although the sum fits: ask for 0.5 % less, then 1 %, 2 %, ... */
        if (is_last) {
            result->status = PLANNER_INFEASIBLE;
            snprintf(job->note, sizeof job->note, "%s", "no schedule found that can be packed");
            return EBB_OK;
        }
        job->budget = job->request->budget_bytes - less;
        job->is_retry = true;
        job->has_best = false;
    }
}

enum ebb_status planner_job_plan(const struct planner *planner, struct planner_job *job,
                                 struct planner_result *result, struct ebb_error *err)
{
    struct slid slid = {.is_there = false};
    planner_result_init(&slid.result);
    result->status = PLANNER_INFEASIBLE; /* until there is one */
    enum ebb_status status = attempts(planner, job, &slid, result, err);
    if (status == EBB_OK && slid.is_there &&
        (result->status != PLANNER_OK || planner_result_price(job->request, &slid.result) <
                                             planner_result_price(job->request, result)))
        take_slid(job, &slid, result);
    planner_result_fini(&slid.result);
    return status;
}
