/* easy.c - a run written down as a plan, and the plan that needs no planner: nothing is ever
 * evicted, every storage goes after its last use. It is used by itself whenever its packed height
 * fits the budget: then no policy has anything to decide. */
#include "exec/ebb.h"

#include <pthread.h>
#include <stdio.h>

#include "base/heap.h"

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
