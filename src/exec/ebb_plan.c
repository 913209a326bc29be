/* ebb_plan.c - running a plan: every step was proved by plan_check, so here things are only done.
 *
 * Also the plan that needs no planner: nothing is ever evicted, every storage goes after its last
 * use. It is used by itself whenever its packed height fits the budget: then no policy has anything
 * to decide. */
#include "exec/ebb.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"

/* ---- running
 * ------------------------------------------------------------------------------------------------------
 */

static enum ebb_status run_op(struct ebb_run *run, const struct plan_step *step, uint8_t *has_run,
                              const uint8_t *is_placed, struct ebb_error *err)
{
    const struct ebb_program *p = run->p;
    const struct trace_op *top = &p->trace->ops[step->index];
    const struct ebb_op *op = &p->ops[step->index];
    uint8_t small[64], *is_produced = small;
    if (top->output_count > sizeof small) {
        is_produced = ebb_calloc(top->output_count, 1);
        if (!is_produced)
            return ebb_no_memory(err, top->output_count);
    }
    uint64_t extra = op->workspace;
    for (uint32_t k = 0; k < top->output_count; k++) {
        const struct trace_tensor *out = &p->trace->tensors[top->output_first + k];
        is_produced[k] = out->alias == TRACE_FRESH && is_placed[out->storage] &&
                         run->slots[out->storage].state != SLOT_RESIDENT;
        if (out->alias == TRACE_FRESH && !is_produced[k] && !op->can_skip_outputs)
            extra += p->bytes[out->storage];
    }
    bool is_remat = has_run[step->index];
    uint64_t work = extra ? step->offset : PLAN_NOWHERE;
    enum ebb_status status = EBB_OK;
    if (extra)
        status = exec_room_log(run, EXEC_EV_WORK, step->index, step->offset, 0, err);
    if (status == EBB_OK)
        status = exec_room_log(run, is_remat ? EXEC_EV_RERUN : EXEC_EV_RUN, step->index, 0, 0, err);
    if (status == EBB_OK)
        status = exec_launch(run, step->index, is_produced, work, err);
    run->clock += op->cost;
    run->r->remat_ns += is_remat ? op->cost : 0;
    run->r->remat_ops += is_remat;
    run->r->ops_done += !is_remat;
    has_run[step->index] = 1;
    for (uint32_t k = 0; k < top->output_count; k++) {
        const struct trace_tensor *out = &p->trace->tensors[top->output_first + k];
        struct ebb_slot *slot = &run->slots[out->storage];
        if (is_produced[k])
            slot->state = SLOT_RESIDENT;
        if (is_produced[k] || out->alias == TRACE_MUTATE)
            slot->version = out->version;
    }
    if (run->sum_bytes + extra > run->r->sum_bytes)
        run->r->sum_bytes = run->sum_bytes + extra;
    if (extra && step->offset + extra > run->r->peak_bytes)
        run->r->peak_bytes = step->offset + extra;
    if (is_produced != small)
        ebb_free(is_produced);
    return status;
}

static enum ebb_status run_step(struct ebb_run *run, const struct plan_step *step, uint8_t *has_run,
                                uint8_t *is_placed, uint32_t *places_left, struct ebb_error *err)
{
    uint32_t s = step->index;
    struct ebb_slot *slot = &run->slots[s];
    switch (step->act) {
    case PLAN_PLACE:
        is_placed[s] = 1;
        places_left[s]--;
        slot->offset = step->offset;
        run->sum_bytes += run->p->bytes[s];
        if (step->offset + run->p->bytes[s] > run->r->peak_bytes)
            run->r->peak_bytes = step->offset + run->p->bytes[s];
        if (run->sum_bytes > run->r->sum_bytes)
            run->r->sum_bytes = run->sum_bytes;
        return exec_room_log(run, EXEC_EV_PLACE, s, step->offset, 0, err);
    case PLAN_RUN:
        return run_op(run, step, has_run, is_placed, err);
    case PLAN_DROP: {
        bool comes_back = places_left[s] > 0;
        EBB_TRY(exec_room_await(run, s, err));
        is_placed[s] = 0;
        slot->state = SLOT_ABSENT;
        run->sum_bytes -= run->p->bytes[s];
        run->r->evictions_pressure += comes_back;
        run->r->evictions_release += !comes_back;
        return exec_room_log(run, comes_back ? EXEC_EV_DROP : EXEC_EV_FREE, s, 0, 0, err);
    }
    case PLAN_SEND:
        return exec_room_copy_out(run, s, step->tier, slot->offset, err);
    case PLAN_FETCH:
        slot->state = SLOT_RESIDENT;
        slot->version = slot->copy_version[step->tier];
        return exec_room_copy_in(run, s, step->tier, slot->offset, err);
    case PLAN_FORGET:
        return exec_room_forget_in(run, s, step->tier, err);
    case PLAN_MOVE:
        EBB_TRY(exec_room_await(run, s, err));
        EBB_TRY(run->device->table->copy(run->device, DEVICE_COMPUTE, DEVICE_T0, step->offset,
                                         DEVICE_T0, slot->offset, run->p->bytes[s], err));
        slot->offset = step->offset;
        run->r->moved_bytes += run->p->bytes[s];
        run->clock += exec_room_move_ns(run, run->p->bytes[s]);
        if (step->offset + run->p->bytes[s] > run->r->peak_bytes)
            run->r->peak_bytes = step->offset + run->p->bytes[s];
        return exec_room_log(run, EXEC_EV_MOVE, s, step->offset, 0, err);
    }
    return ebb_fail(err, EBB_EINTERNAL, "plan: unknown step %d", step->act);
}

enum ebb_status exec_plan_run(struct ebb_run *run, const struct plan *plan, struct ebb_error *err)
{
    const struct trace *t = run->p->trace;
    struct plan_report proof;
    struct plan_limits limits = {
        .budget_bytes = {run->o->budget_bytes, run->o->tier_bytes[1], run->o->tier_bytes[2]}};
    if (memcmp(&plan->signature, &t->signature, sizeof plan->signature) != 0)
        return ebb_fail(err, EBB_EINPUT, "plan by %s was made for another trace than %s",
                        plan->planner, t->name);
    EBB_TRY(plan_check(t, plan, &limits, &proof, err));
    if (proof.height_bytes == 0 && proof.peak_bytes > 0)
        return ebb_fail(err, EBB_EINPUT, "plan by %s has no addresses yet", plan->planner);
    uint8_t *has_run = ebb_calloc((size_t)t->op_count + 1, 1);
    uint8_t *is_placed = ebb_calloc((size_t)t->storage_count + 1, 1);
    uint32_t *places_left = ebb_calloc((size_t)t->storage_count + 1, sizeof *places_left);
    enum ebb_status status = EBB_OK;
    if (!has_run || !is_placed || !places_left) {
        status = ebb_no_memory(err, t->op_count);
        goto out;
    }
    for (size_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].act == PLAN_PLACE) /* the index of a RUN is an op */
            places_left[plan->steps[i].index]++;
    }
    for (size_t i = 0; i < plan->step_count && status == EBB_OK; i++)
        status = run_step(run, &plan->steps[i], has_run, is_placed, places_left, err);
    if (status == EBB_OK)
        status = run->device->table->sync(run->device, err);
    if (status == EBB_OK)
        run->r->ops_done = t->op_count; /* views, which cost nothing, are done too */
out:
    ebb_free(has_run);
    ebb_free(is_placed);
    ebb_free(places_left);
    return status;
}

/* ---- a run as a plan
 * ---------------------------------------------------------------------------------------------- */

enum ebb_status exec_log_to_plan(const struct exec_log *log, const struct trace *trace,
                                 struct plan *plan, struct ebb_error *err)
{
    uint64_t work = 0;
    plan->signature = trace->signature;
    for (size_t i = 0; i < log->count; i++) {
        const struct exec_event *e = &log->events[i];
        switch ((enum exec_event_kind)e->kind) {
        case EXEC_EV_WORK:
            work = e->offset;
            break;
        case EXEC_EV_RUN:
        case EXEC_EV_RERUN:
            EBB_TRY(plan_add(plan, PLAN_RUN, e->index, work, 0, err));
            work = 0;
            break;
        case EXEC_EV_PLACE:
            EBB_TRY(plan_add(plan, PLAN_PLACE, e->index, e->offset, 0, err));
            break;
        case EXEC_EV_DROP:
        case EXEC_EV_FREE:
            EBB_TRY(plan_add(plan, PLAN_DROP, e->index, 0, 0, err));
            break;
        case EXEC_EV_SEND:
            EBB_TRY(plan_add(plan, PLAN_SEND, e->index, 0, e->tier, err));
            break;
        case EXEC_EV_FETCH:
            EBB_TRY(plan_add(plan, PLAN_FETCH, e->index, 0, e->tier, err));
            break;
        case EXEC_EV_FORGET:
            EBB_TRY(plan_add(plan, PLAN_FORGET, e->index, 0, e->tier, err));
            break;
        case EXEC_EV_MOVE:
            EBB_TRY(plan_add(plan, PLAN_MOVE, e->index, e->offset, 0, err));
            break;
        }
    }
    return EBB_OK;
}

/* ---- the plan without evictions
 * ----------------------------------------------------------------------------------- */

struct exec_easy {
    pthread_mutex_t lock; /* guards the rest */
    struct plan plan;
    uint64_t height; /* 0: not packed yet; a function of the trace, not of the first budget */
};

enum ebb_status exec_easy_create(struct exec_easy **easy, struct ebb_error *err)
{
    struct exec_easy *e = ebb_calloc(1, sizeof *e);
    if (!e)
        return ebb_no_memory(err, sizeof *e);
    pthread_mutex_init(&e->lock, NULL);
    plan_init(&e->plan);
    *easy = e;
    return EBB_OK;
}

void exec_easy_destroy(struct exec_easy *easy)
{
    if (!easy)
        return;
    pthread_mutex_destroy(&easy->lock);
    plan_fini(&easy->plan);
    ebb_free(easy);
}

/* Last op after which the storage is of no use; EXEC_NEVER for the keep set. */
static uint32_t end_of(const struct ebb_program *p, uint32_t s)
{
    if (p->is_keep[s])
        return EXEC_NEVER;
    uint32_t final_op = p->mutator[p->version_first[s] + p->final_version[s]];
    return p->use_count[s] && p->last_use[s] > final_op ? p->last_use[s] : final_op;
}

uint64_t exec_keep_peak(const struct ebb_program *p)
{
    uint64_t now = 0, peak = 0;
    for (uint32_t o = 0; o < p->op_count; o++) {
        const struct ebb_op *op = &p->ops[o];
        for (uint32_t k = 0; k < op->out_count; k++) {
            if (p->out_version[op->out_first + k] == 0)
                now += p->bytes[p->out_storage[op->out_first + k]];
        }
        peak = now + op->workspace > peak ? now + op->workspace : peak;
        for (uint32_t i = 0; i < op->in_count; i++) {
            uint32_t s = p->in_storage[op->in_first + i];
            now -= end_of(p, s) == o ? p->bytes[s] : 0;
        }
        for (uint32_t k = 0; k < op->out_count;
             k++) { /* made and never read; inputs were counted above */
            uint32_t s = p->out_storage[op->out_first + k];
            bool is_input = p->use_count[s] && p->last_use[s] == o;
            now -= end_of(p, s) == o && !is_input ? p->bytes[s] : 0;
        }
    }
    return peak;
}

static enum ebb_status build(const struct ebb_program *p, struct plan *plan, struct ebb_error *err)
{
    for (uint32_t o = 0; o < p->op_count; o++) {
        const struct ebb_op *op = &p->ops[o];
        if (op->is_skipped)
            continue;
        for (uint32_t k = 0; k < op->out_count; k++) {
            if (p->out_version[op->out_first + k] == 0)
                EBB_TRY(plan_add(plan, PLAN_PLACE, p->out_storage[op->out_first + k], PLAN_NOWHERE,
                                 0, err));
        }
        EBB_TRY(plan_add(plan, PLAN_RUN, o, PLAN_NOWHERE, 0, err));
        for (uint32_t i = 0; i < op->in_count; i++) {
            uint32_t s = p->in_storage[op->in_first + i];
            if (end_of(p, s) == o)
                EBB_TRY(plan_add(plan, PLAN_DROP, s, 0, 0, err));
        }
        for (uint32_t k = 0; k < op->out_count; k++) {
            uint32_t s = p->out_storage[op->out_first + k];
            bool is_input = p->use_count[s] && p->last_use[s] == o;
            if (end_of(p, s) == o && !is_input)
                EBB_TRY(plan_add(plan, PLAN_DROP, s, 0, 0, err));
        }
    }
    return EBB_OK;
}

enum ebb_status exec_easy_plan(const struct ebb_program *p, uint64_t budget,
                               const struct plan **plan, struct ebb_error *err)
{
    struct exec_easy *easy = p->easy;
    enum ebb_status status = EBB_OK;
    *plan = NULL;
    pthread_mutex_lock(&easy->lock);
    if (easy->height == 0) {
        struct plan made;
        uint64_t height = 0;
        plan_init(&made);
        made.signature = p->trace->signature;
        snprintf(made.planner, sizeof made.planner, "keep_all");
        status = build(p, &made, err);
        if (status == EBB_OK)
            status = plan_assign_offsets(p->trace, &made, UINT64_MAX, &height, err);
        if (status == EBB_OK) {
            made.budget_bytes = height;
            plan_fini(&easy->plan);
            easy->plan = made;
            easy->height = height ? height : 1;
        } else {
            plan_fini(&made);
        }
    }
    if (status == EBB_OK && easy->height <= budget) /* else the policy decides */
        *plan = &easy->plan;
    pthread_mutex_unlock(&easy->lock);
    return status;
}
