/* tables_plan.c - a plan for the light trace of tables.c said again for the trace.
 *
 * Step by step: what it does with storages below falls away, a RUN of a hosted op is one in tier 1,
 * with what it reads sent and what others read of its results fetched. */
#include <string.h>

#include "base/heap.h"
#include "planner/tables.h"

enum ebb_status planner_tables_homes(const struct planner_tables *p, const struct plan_homes *from,
                                     bool with_tables, struct plan_homes *to, struct ebb_error *err)
{
    uint64_t next[PLAN_TIERS] = {0};
    struct plan_homes made = {0};
    const struct trace *t = with_tables ? p->trace : &p->light;
    EBB_TRY(ebb_new(&made.list, (size_t)t->storage_count + 1, sizeof *made.list, err));
    for (uint32_t s = 0; s < t->storage_count; s++) {
        const struct plan_home *h = plan_home_of(from, s);
        uint8_t tier = p->is_table[s] ? with_tables ? PLAN_HOST : 0 : h ? h->tier : 0;
        if (!tier)
            continue;
        made.list[made.count++] =
            (struct plan_home){.storage = s, .tier = tier, .offset = next[tier]};
        next[tier] += plan_round(t->storages[s].bytes);
    }
    plan_homes_fini(to);
    *to = made;
    return EBB_OK;
}

struct saying {
    const struct planner_tables *p;
    struct plan_walk walk; /* of what is said */
    struct plan *to;
    size_t walked;
    size_t *last;  /* storage -> 1 + the last step of the light plan that runs a hosted op on it */
    bool *is_lent; /* storage: its copy is there for hosted ops alone */
};

static enum ebb_status say(struct saying *s, enum plan_act act, uint32_t index, uint64_t offset,
                           uint8_t tier, struct ebb_error *err)
{
    EBB_TRY(plan_add(s->to, act, index, offset, tier, err));
    return plan_walk_step(&s->walk, s->walked++, err);
}

static uint32_t copy_of(const struct saying *s, uint32_t storage)
{
    return s->walk.storages[storage].copy[PLAN_HOST];
}

/* Is anything left to do for the op: a result that is not there, or something written in place? */
static bool has_work(const struct saying *s, const struct trace_op *op)
{
    for (uint32_t k = 0; k < op->output_count; k++) {
        const struct trace_tensor *out = trace_output_of(s->p->trace, op, k);
        const struct plan_residence *r = &s->walk.storages[out->storage];
        bool is_wanted = s->p->is_below[out->storage] ? copy_of(s, out->storage) == 0
                                                      : r->is_placed && !r->is_filled;
        if (out->alias == TRACE_MUTATE || is_wanted)
            return true;
    }
    return false;
}

/* Copies of what the op reads and is not there, room for what it makes. */
static enum ebb_status bring(struct saying *s, const struct trace_op *op, struct ebb_error *err)
{
    const struct trace *t = s->p->trace;
    for (uint32_t k = 0; k < op->input_count; k++) {
        const struct trace_tensor *in = trace_input_of(t, op, k);
        uint32_t copy = copy_of(s, in->storage);
        if (s->p->is_below[in->storage] || copy == in->version + 1)
            continue;
        s->is_lent[in->storage] |= copy == 0;
        EBB_TRY(say(s, PLAN_SEND, in->storage, PLAN_NOWHERE, PLAN_HOST, err));
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        const struct trace_tensor *out = trace_output_of(t, op, k);
        const struct plan_residence *r = &s->walk.storages[out->storage];
        bool is_wanted = s->p->is_below[out->storage] || (r->is_placed && !r->is_filled);
        if (out->alias == TRACE_MUTATE || !is_wanted || copy_of(s, out->storage) != 0)
            continue;
        s->is_lent[out->storage] = true;
        EBB_TRY(say(s, PLAN_ROOM, out->storage, PLAN_NOWHERE, PLAN_HOST, err));
    }
    return EBB_OK;
}

/* What the device waits for goes up. */
static enum ebb_status take_up(struct saying *s, const struct trace_op *op, struct ebb_error *err)
{
    for (uint32_t k = 0; k < op->output_count; k++) {
        uint32_t out = trace_output_of(s->p->trace, op, k)->storage;
        const struct plan_residence *r = &s->walk.storages[out];
        if (!s->p->is_below[out] && r->is_placed && !r->is_filled)
            EBB_TRY(say(s, PLAN_FETCH, out, 0, PLAN_HOST, err));
    }
    return EBB_OK;
}

/* Copies that no later hosted op wants. */
static enum ebb_status clear(struct saying *s, const struct trace_op *op, size_t at,
                             struct ebb_error *err)
{
    const struct trace *t = s->p->trace;
    for (uint32_t k = 0; k < op->input_count + op->output_count; k++) {
        uint32_t of = planner_tables_touched(t, op, k);
        if (!s->is_lent[of] || s->last[of] > at + 1)
            continue;
        s->is_lent[of] = false;
        EBB_TRY(say(s, PLAN_FORGET, of, 0, PLAN_HOST, err));
    }
    return EBB_OK;
}

static enum ebb_status say_hosted(struct saying *s, uint32_t op, size_t at, struct ebb_error *err)
{
    const struct trace_op *o = &s->p->trace->ops[op];
    if (has_work(s, o)) {
        EBB_TRY(bring(s, o, err));
        EBB_TRY(say(s, PLAN_RUN, op, PLAN_NOWHERE, PLAN_HOST, err));
        EBB_TRY(take_up(s, o, err));
    }
    return clear(s, o, at, err);
}

static enum ebb_status say_step(struct saying *s, const struct plan_step *step, size_t at,
                                struct ebb_error *err)
{
    const struct trace *t = s->p->trace;
    if (step->act == PLAN_RUN && s->p->is_hosted[step->index])
        return say_hosted(s, step->index, at, err);
    uint32_t of = step->act != PLAN_RUN ? step->index
                  : t->ops[step->index].output_count
                      ? trace_output_of(t, &t->ops[step->index], 0)->storage
                      : TRACE_NONE;
    if (of != TRACE_NONE && s->p->is_below[of]) /* the leaf of a table among them */
        return EBB_OK;
    if (step->act != PLAN_RUN && step->tier == PLAN_HOST && s->is_lent[of]) {
        s->is_lent[of] = false; /* from now on the plan's own */
        if (step->act == PLAN_FORGET)
            return ebb_fail(err, EBB_EINTERNAL, "a copy of storage %u is given up twice",
                            (unsigned)of);
    }
    uint64_t offset = step->act == PLAN_SEND || (step->act == PLAN_RUN && step->tier)
                          ? PLAN_NOWHERE
                          : step->offset;
    return say(s, (enum plan_act)step->act, step->index, offset, step->tier, err);
}

static void note_last(struct saying *s, const struct plan *light)
{
    const struct trace *t = s->p->trace;
    for (size_t i = 0; i < light->step_count; i++) {
        const struct trace_op *op = &t->ops[light->steps[i].index];
        if (light->steps[i].act != PLAN_RUN || !s->p->is_hosted[light->steps[i].index])
            continue;
        for (uint32_t k = 0; k < op->input_count; k++)
            s->last[trace_input_of(t, op, k)->storage] = i + 1;
    }
}

static enum ebb_status say_all(struct saying *s, const struct plan *light, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    size_t storages = (size_t)s->p->trace->storage_count + 1;
    s->last = ebb_arena_calloc(&arena, storages, sizeof *s->last);
    s->is_lent = ebb_arena_calloc(&arena, storages, 1);
    enum ebb_status status = ebb_arena_status(&arena, err);
    if (status == EBB_OK)
        note_last(s, light);
    for (size_t i = 0; i < light->step_count && status == EBB_OK; i++)
        status = say_step(s, &light->steps[i], i, err);
    ebb_arena_fini(&arena);
    return status;
}

enum ebb_status planner_tables_plan(const struct planner_tables *p, const struct plan *light,
                                    const uint64_t bytes[PLAN_TIERS], struct plan *to,
                                    struct ebb_error *err)
{
    struct plan made = {.signature = p->trace->signature, .budget_bytes = light->budget_bytes};
    struct saying s = {.p = p, .to = &made};
    memcpy(made.planner, light->planner, sizeof made.planner);
    enum ebb_status status = planner_tables_homes(p, &light->homes, true, &made.homes, err);
    EBB_THEN(status, plan_walk_init(&s.walk, p->trace, &made, err));
    if (status == EBB_OK) {
        status = say_all(&s, light, err);
        plan_walk_fini(&s.walk);
    }
    EBB_THEN(status, plan_assign_low(p->trace, &made, bytes, err));
    if (status == EBB_OK) {
        plan_fini(to);
        *to = made;
        return EBB_OK;
    }
    plan_fini(&made);
    return status;
}
