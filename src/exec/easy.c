/* easy.c - a run written down as a plan, and the plan that needs no planner: nothing is ever
 * evicted, every storage goes after its last use. It is used by itself whenever its packed height
 * fits the budget: then no policy has anything to decide. */
#include "exec/internal.h"

#include <pthread.h>
#include <stdio.h>

#include "base/heap.h"

/* ---- a run as a plan ------------------------------------------------------------------------- */

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
            EBB_TRY(plan_add(plan, PLAN_RUN, e->index, work, e->tier, err));
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
            EBB_TRY(plan_add(plan, PLAN_SEND, e->index, e->offset, e->tier, err));
            break;
        case EXEC_EV_FETCH:
            EBB_TRY(plan_add(plan, PLAN_FETCH, e->index, 0, e->tier, err));
            break;
        case EXEC_EV_FORGET:
            EBB_TRY(plan_add(plan, PLAN_FORGET, e->index, 0, e->tier, err));
            break;
        case EXEC_EV_ROOM:
            EBB_TRY(plan_add(plan, PLAN_ROOM, e->index, e->offset, e->tier, err));
            break;
        case EXEC_EV_MOVE:
            EBB_TRY(plan_add(plan, PLAN_MOVE, e->index, e->offset, 0, err));
            break;
        }
    }
    return EBB_OK;
}

/* ---- the plan without evictions -------------------------------------------------------------- */

struct exec_easy {
    pthread_mutex_t lock; /* guards the rest */
    struct plan plan;
    uint64_t height; /* 0: not packed yet */
};

enum ebb_status exec_easy_create(struct exec_easy **easy, struct ebb_error *err)
{
    struct exec_easy *e;
    EBB_TRY(ebb_new(&e, 1, sizeof *e, err));
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

/* Last op after which the storage is of no use; PLAN_NEVER for the keep set. */
static uint32_t end_of(const struct plan_recipes *r, uint32_t s)
{
    return r->storages[s].is_kept ? PLAN_NEVER : plan_last_version(r, s)->last_use;
}

/* What the op leaves behind for nobody: its inputs first, then what is made and never read. */
static uint32_t ending(const struct plan_recipes *r, const struct plan_node *node, uint32_t i)
{
    bool is_in = i < node->in_count;
    uint32_t s = is_in ? r->ins[node->in_first + i].storage
                       : r->outs[node->out_first + i - node->in_count].storage;
    bool is_input = r->storages[s].use_count && plan_last_version(r, s)->last_use == node->op;
    return end_of(r, s) == node->op && (is_in || !is_input) ? s : TRACE_NONE;
}

uint64_t exec_keep_peak(const struct plan_recipes *r)
{
    uint64_t now = 0, peak = 0;
    for (uint32_t o = 0; o < r->node_count; o++) {
        const struct plan_node *node = &r->nodes[o];
        for (uint32_t k = 0; k < node->out_count; k++) {
            struct plan_ref out = r->outs[node->out_first + k];
            now += out.version == 0 ? r->storages[out.storage].bytes : 0;
        }
        peak = now + node->workspace_bytes > peak ? now + node->workspace_bytes : peak;
        for (uint32_t i = 0; i < node->in_count + node->out_count; i++) {
            uint32_t s = ending(r, node, i);
            now -= s == TRACE_NONE ? 0 : r->storages[s].bytes;
        }
    }
    return peak;
}

static enum ebb_status build(const struct plan_recipes *r, struct plan *plan, struct ebb_error *err)
{
    for (uint32_t o = 0; o < r->node_count; o++) {
        const struct plan_node *node = &r->nodes[o];
        if (node->is_view)
            continue;
        for (uint32_t k = 0; k < node->out_count; k++) {
            struct plan_ref out = r->outs[node->out_first + k];
            if (out.version == 0)
                EBB_TRY(plan_add(plan, PLAN_PLACE, out.storage, PLAN_NOWHERE, 0, err));
        }
        EBB_TRY(plan_add(plan, PLAN_RUN, o, PLAN_NOWHERE, 0, err));
        for (uint32_t i = 0; i < node->in_count + node->out_count; i++) {
            uint32_t s = ending(r, node, i);
            if (s != TRACE_NONE)
                EBB_TRY(plan_add(plan, PLAN_DROP, s, 0, 0, err));
        }
    }
    return EBB_OK;
}

/* Packed once; a function of the trace, not of the first budget. */
static enum ebb_status pack(const struct exec_program *p, struct exec_easy *easy,
                            struct ebb_error *err)
{
    struct plan made;
    uint64_t height = 0;
    plan_init(&made);
    made.signature = p->trace->signature;
    snprintf(made.planner, sizeof made.planner, "keep_all");
    enum ebb_status status = build(p->recipes, &made, err);
    EBB_THEN(status, plan_assign_offsets(p->trace, &made, UINT64_MAX, &height, err));
    if (status != EBB_OK) {
        plan_fini(&made);
        return status;
    }
    made.budget_bytes = height;
    easy->plan = made;
    easy->height = height ? height : 1;
    return EBB_OK;
}

enum ebb_status exec_keep_all(const struct exec_program *program, uint64_t budget,
                              const struct plan **plan, struct ebb_error *err)
{
    EBB_TRY(exec_needs_ebb(program, err));
    struct exec_easy *easy = program->easy;
    *plan = NULL;
    pthread_mutex_lock(&easy->lock);
    enum ebb_status status = easy->height ? EBB_OK : pack(program, easy, err);
    if (status == EBB_OK && easy->height <= budget) /* else the policy decides */
        *plan = &easy->plan;
    pthread_mutex_unlock(&easy->lock);
    return status;
}
