/* below.c - a plan, some of its updates given to the host.
 *
 * State that lives in host memory travels to the device once a step to be updated there, and back.
 * The host can update it where it lies: then the gradient goes out and nothing else moves. It works
 * beside the device, at its own speed, so only a part of the updates may be worth it; how much the
 * null device says.
 *
 * Weights and what is updated with them go together, all ranges of them: ops that write the same
 * storages are a group. The host takes a group when all that it writes lives in tier 1 and nobody
 * else reads what it makes. */
#include <string.h>

#include "base/heap.h"
#include "planner/lean.h"
#include "planner/planner.h"

struct below {
    const struct trace *trace;
    const struct plan *plan;
    struct ebb_arena arena;
    uint64_t *base;    /* storage -> PLAN_NOWHERE: it does not persist */
    uint32_t *group;   /* storage -> another one of its group, or itself */
    uint64_t *bytes;   /* of a group, by its first storage: what it writes */
    bool *is_possible; /* of a group, by its first storage */
    bool *is_taken;    /* of a group, by its first storage: the host runs its updates */
    bool *is_seen;     /* of a group, by its first storage: that is decided */
    bool *is_written;  /* storage: an op that could run below writes it */
    bool *is_chosen;   /* op */
    bool *is_lent;     /* storage: its copy is there for the host alone */
};

static uint32_t first_of(const struct below *b, uint32_t storage)
{
    while (b->group[storage] != storage)
        storage = b->group[storage];
    return storage;
}

/* It writes state in place and nothing else; what scales a gradient in place is the device's. */
static bool is_update(const struct below *b, uint32_t op)
{
    const struct trace *t = b->trace;
    bool is_so = t->ops[op].phase == TRACE_UPDATE && plan_can_run_below(t, op);
    for (uint32_t k = 0; k < t->ops[op].output_count; k++) {
        const struct trace_tensor *out = &t->tensors[t->ops[op].output_first + k];
        is_so &= out->alias == TRACE_MUTATE && b->base[out->storage] != PLAN_NOWHERE;
    }
    return is_so;
}

static void join(struct below *b, uint32_t one, uint32_t other)
{
    one = first_of(b, one);
    other = first_of(b, other);
    b->group[one > other ? one : other] = one > other ? other : one;
}

/* Groups, the least storage of each first: what one update writes, and what it reads that another
 * one has written. */
static void find_groups(struct below *b)
{
    const struct trace *t = b->trace;
    for (uint32_t s = 0; s < t->storage_count; s++)
        b->group[s] = s;
    for (uint32_t o = 0; o < t->op_count; o++) {
        const struct trace_op *op = &t->ops[o];
        if (!is_update(b, o))
            continue;
        uint32_t one = trace_output_of(t, op, 0)->storage;
        for (uint32_t k = 0; k < op->output_count; k++) {
            join(b, one, trace_output_of(t, op, k)->storage);
            b->is_written[trace_output_of(t, op, k)->storage] = true;
        }
        for (uint32_t k = 0; k < op->input_count; k++)
            if (b->is_written[trace_input_of(t, op, k)->storage])
                join(b, one, trace_input_of(t, op, k)->storage);
    }
}

/* Which groups live in tier 1, and have new versions that nobody else reads. */
static void judge_groups(struct below *b)
{
    const struct trace *t = b->trace;
    for (uint32_t s = 0; s < t->storage_count; s++) {
        uint32_t first = first_of(b, s);
        const struct plan_home *h = plan_home_of(&b->plan->homes, s);
        if (s == first)
            b->is_possible[s] = b->is_written[s];
        if (b->is_written[s] && (!h || h->tier != PLAN_HOST))
            b->is_possible[first] = false;
        b->bytes[first] += plan_round(t->storages[s].bytes);
    }
    for (uint32_t o = 0; o < t->op_count; o++) {
        const struct trace_op *op = &t->ops[o];
        bool is_own = is_update(b, o);
        for (uint32_t k = 0; k < op->input_count && !is_own; k++)
            if (trace_input_of(t, op, k)->version > 0)
                b->is_possible[first_of(b, trace_input_of(t, op, k)->storage)] = false;
    }
}

/* Of the groups that are possible, spread evenly over the step, about that part of their bytes. */
static void choose(struct below *b, double part, size_t *count)
{
    const struct trace *t = b->trace;
    double owed = 0;
    *count = 0;
    for (uint32_t o = 0; o < t->op_count; o++) {
        if (!is_update(b, o))
            continue;
        uint32_t first = first_of(b, t->tensors[t->ops[o].output_first].storage);
        if (b->is_possible[first] && !b->is_seen[first]) {
            double bytes = (double)b->bytes[first];
            owed += part * bytes;
            b->is_taken[first] = owed >= bytes / 2;
            owed -= b->is_taken[first] ? bytes : 0;
            b->is_seen[first] = true;
        }
        b->is_chosen[o] = b->is_taken[first];
        *count += b->is_chosen[o];
    }
}

/* Is input k the first of the op that reads its storage? */
static bool is_first(const struct trace *t, const struct trace_op *op, uint32_t k)
{
    for (uint32_t j = 0; j < k; j++)
        if (trace_input_of(t, op, j)->storage == trace_input_of(t, op, k)->storage)
            return false;
    return true;
}

/* Copies out of what the op reads, unless they are there. */
static enum ebb_status send_inputs(struct below *b, const struct plan_walk *walk, uint32_t op,
                                   struct plan *to, struct ebb_error *err)
{
    const struct trace *t = b->trace;
    for (uint32_t k = 0; k < t->ops[op].input_count; k++) {
        const struct trace_tensor *in = trace_input_of(t, &t->ops[op], k);
        uint32_t copy = walk->storages[in->storage].copy[PLAN_HOST];
        if (!is_first(t, &t->ops[op], k) || copy == in->version + 1)
            continue;
        b->is_lent[in->storage] |= copy == 0;
        EBB_TRY(plan_add(to, PLAN_SEND, in->storage, PLAN_NOWHERE, PLAN_HOST, err));
    }
    return EBB_OK;
}

static bool is_group_taken(const struct below *b, uint32_t storage)
{
    return plan_home_of(&b->plan->homes, storage) && b->is_taken[first_of(b, storage)];
}

/* Which inputs of chosen ops are read by no later one: their copies go. */
static enum ebb_status forget_inputs(struct below *b, const uint32_t *last, uint32_t op,
                                     struct plan *to, struct ebb_error *err)
{
    const struct trace *t = b->trace;
    for (uint32_t k = 0; k < t->ops[op].input_count; k++) {
        uint32_t s = trace_input_of(t, &t->ops[op], k)->storage;
        if (last[s] != op + 1 || !b->is_lent[s])
            continue;
        b->is_lent[s] = false;
        EBB_TRY(plan_add(to, PLAN_FORGET, s, 0, PLAN_HOST, err));
    }
    return EBB_OK;
}

/* Where the device ran a chosen op the host does; what it would have sent back is there. The walk
 * is of what is written. */
static enum ebb_status rewrite(struct below *b, struct plan *to, struct ebb_error *err)
{
    const struct trace *t = b->trace;
    struct plan_walk walk;
    uint32_t *last = ebb_arena_calloc(&b->arena, (size_t)t->storage_count + 1, sizeof *last);
    EBB_TRY(ebb_arena_status(&b->arena, err));
    for (size_t i = 0; i < b->plan->step_count; i++) {
        const struct plan_step *s = &b->plan->steps[i];
        for (uint32_t k = 0;
             s->act == PLAN_RUN && b->is_chosen[s->index] && k < t->ops[s->index].input_count; k++)
            last[trace_input_of(t, &t->ops[s->index], k)->storage] = s->index + 1;
    }
    EBB_TRY(plan_walk_init(&walk, t, to, err));
    enum ebb_status status = EBB_OK;
    for (size_t i = 0, walked = 0; i < b->plan->step_count && status == EBB_OK; i++) {
        const struct plan_step *s = &b->plan->steps[i];
        bool is_run = s->act == PLAN_RUN && b->is_chosen[s->index];
        bool is_late = s->act == PLAN_SEND && s->tier == PLAN_HOST && is_group_taken(b, s->index) &&
                       walk.storages[s->index].copy[PLAN_HOST] > 1;
        if (is_run)
            status = send_inputs(b, &walk, s->index, to, err);
        else if (s->act != PLAN_RUN &&
                 s->tier == PLAN_HOST) /* the plan has a copy of its own, or gives it up */
            b->is_lent[s->index] = false;
        if (!is_late)
            EBB_THEN(status, plan_add(to, (enum plan_act)s->act, s->index, s->offset,
                                      is_run ? PLAN_HOST : s->tier, err));
        if (is_run)
            EBB_THEN(status, forget_inputs(b, last, s->index, to, err));
        for (; walked < to->step_count && status == EBB_OK; walked++)
            status = plan_walk_step(&walk, walked, err);
    }
    plan_walk_fini(&walk);
    return status;
}

static enum ebb_status make(struct below *b, double part, struct plan *to, size_t *count,
                            struct ebb_error *err)
{
    size_t storages = (size_t)b->trace->storage_count + 1;
    b->group = ebb_arena_calloc(&b->arena, storages, sizeof *b->group);
    b->bytes = ebb_arena_calloc(&b->arena, storages, sizeof *b->bytes);
    b->is_possible = ebb_arena_calloc(&b->arena, storages, 1);
    b->is_taken = ebb_arena_calloc(&b->arena, storages, 1);
    b->is_seen = ebb_arena_calloc(&b->arena, storages, 1);
    b->is_written = ebb_arena_calloc(&b->arena, storages, 1);
    b->is_lent = ebb_arena_calloc(&b->arena, storages, 1);
    b->is_chosen = ebb_arena_calloc(&b->arena, (size_t)b->trace->op_count + 1, 1);
    b->base = ebb_arena_calloc(&b->arena, storages, sizeof *b->base);
    EBB_TRY(ebb_arena_status(&b->arena, err));
    EBB_TRY(plan_base_layout(b->trace, NULL, b->base, NULL, err));
    find_groups(b);
    judge_groups(b);
    choose(b, part, count);
    return *count ? rewrite(b, to, err) : EBB_OK;
}

enum ebb_status planner_below(const struct trace *trace, const struct plan *from, double part,
                              struct plan *to, size_t *count, struct ebb_error *err)
{
    struct plan still = {0}, made = {0};
    struct below b = {.trace = trace, .plan = &still};
    ebb_arena_init(&b.arena);
    *count = 0;
    enum ebb_status status = plan_copy(&still, from, err);
    plan_strip_offsets(&still);
    EBB_THEN(status, plan_homes_copy(&made.homes, &from->homes, err));
    EBB_THEN(status, make(&b, part, &made, count, err));
    made.signature = from->signature;
    made.budget_bytes = from->budget_bytes;
    memcpy(made.planner, from->planner, sizeof made.planner);
    if (*count)
        EBB_THEN(status, planner_lean(trace, &made, to, err));
    plan_fini(&made);
    plan_fini(&still);
    ebb_arena_fini(&b.arena);
    return status;
}
