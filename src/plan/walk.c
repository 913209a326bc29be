/* walk.c - what each step of a plan does (rules P1-P8, P12 and P13 of README.md). */
#include "plan/plan.h"

#include <inttypes.h>

#include "base/heap.h"

/* Storages with a home below are there, as copies of version 0 (rule P12). */
static enum ebb_status move_in(struct plan_walk *walk, struct ebb_error *err)
{
    const struct trace *t = walk->trace;
    for (size_t i = 0; i < walk->plan->homes.count; i++) {
        const struct plan_home *h = &walk->plan->homes.list[i];
        bool is_known = h->storage < t->storage_count && h->tier >= 1 && h->tier < PLAN_TIERS &&
                        (i == 0 || h[-1].storage < h->storage);
        uint32_t op = is_known ? t->tensors[t->storages[h->storage].root].op : 0;
        if (!is_known || !t->ops[op].is_leaf)
            return ebb_fail(err, EBB_EINPUT, "plan: home %zu: storage %" PRIu32 " in tier %u %s", i,
                            h->storage, (unsigned)h->tier,
                            is_known ? "is no leaf" : "is not known, or listed twice");
        walk->storages[h->storage].copy[h->tier] = 1;
        walk->storages[h->storage].home = h->tier;
        walk->tier_bytes[h->tier] += plan_size(walk->plan, t->storages[h->storage].bytes);
        walk->run_counts[op] = 1;
    }
    return EBB_OK;
}

enum ebb_status plan_walk_init(struct plan_walk *walk, const struct trace *trace,
                               const struct plan *plan, struct ebb_error *err)
{
    *walk = (struct plan_walk){.trace = trace, .plan = plan};
    EBB_TRY(ebb_new(&walk->storages, trace->storage_count, sizeof *walk->storages, err));
    enum ebb_status status =
        ebb_new(&walk->run_counts, trace->op_count, sizeof *walk->run_counts, err);
    EBB_THEN(status, move_in(walk, err));
    if (status != EBB_OK)
        plan_walk_fini(walk);
    return status;
}

void plan_walk_fini(struct plan_walk *walk)
{
    ebb_free(walk->storages);
    ebb_free(walk->run_counts);
    walk->storages = NULL;
    walk->run_counts = NULL;
}

static enum ebb_status bad(struct ebb_error *err, size_t at, const char *what, uint32_t index)
{
    return ebb_fail(err, EBB_EINPUT, "plan: step %zu: %s %" PRIu32, at, what, index);
}

static const char *op_name(const struct plan_walk *walk, uint32_t op)
{
    const struct trace_op *o = &walk->trace->ops[op];
    const char *label = o->label ? walk->trace->text + o->label : "";
    return *label ? label : o->kind->name;
}

static enum ebb_status walk_place(struct plan_walk *walk, size_t at, uint32_t s, bool is_place,
                                  struct ebb_error *err)
{
    struct plan_residence *r = &walk->storages[s];
    uint64_t bytes = plan_size(walk->plan, walk->trace->storages[s].bytes);
    if (r->is_placed == is_place)
        return bad(err, at, is_place ? "place of resident storage" : "drop of absent storage", s);
    r->is_placed = is_place;
    r->is_filled = false;
    if (is_place)
        walk->resident_bytes += bytes;
    else
        walk->resident_bytes -= bytes;
    return EBB_OK;
}

static enum ebb_status walk_copy(struct plan_walk *walk, size_t at, const struct plan_step *step,
                                 struct ebb_error *err)
{
    struct plan_residence *r = &walk->storages[step->index];
    uint64_t bytes = plan_size(walk->plan, walk->trace->storages[step->index].bytes);
    if (step->tier < 1 || step->tier >= PLAN_TIERS)
        return bad(err, at, "no such tier:", step->tier);
    uint32_t *copy = &r->copy[step->tier];
    switch (step->act) {
    case PLAN_ROOM:
        if (*copy != 0 || step->tier != PLAN_HOST)
            return bad(err, at,
                       *copy ? "room for a copy that is there of storage"
                             : "only the host runs ops: room in its tier alone for storage",
                       step->index);
        walk->tier_bytes[step->tier] += bytes;
        *copy = PLAN_EMPTY;
        return EBB_OK;
    case PLAN_SEND:
        if (!r->is_filled)
            return bad(err, at, "send of empty storage", step->index);
        if (*copy == 0)
            walk->tier_bytes[step->tier] += bytes;
        *copy = r->version + 1;
        return EBB_OK;
    case PLAN_FETCH:
        if (*copy == 0 || *copy == PLAN_EMPTY)
            return bad(err, at, "fetch without a copy of storage", step->index);
        if (!r->is_placed || r->is_filled)
            return bad(err, at,
                       r->is_filled ? "fetch over contents of storage"
                                    : "fetch into absent storage",
                       step->index);
        r->is_filled = true;
        r->version = *copy - 1;
        return EBB_OK;
    default: /* PLAN_FORGET */
        if (*copy == 0 || step->tier == r->home)
            return bad(err, at,
                       *copy ? "forget of the home of storage" : "forget without a copy of storage",
                       step->index);
        *copy = 0;
        walk->tier_bytes[step->tier] -= bytes;
        return EBB_OK;
    }
}

static enum ebb_status check_inputs(const struct plan_walk *walk, size_t at, uint32_t op,
                                    struct ebb_error *err)
{
    const struct trace *trace = walk->trace;
    const struct trace_op *o = &trace->ops[op];
    for (uint32_t i = 0; i < o->input_count; i++) {
        const struct trace_tensor *t = &trace->tensors[trace->inputs[o->input_first + i]];
        const struct plan_residence *r = &walk->storages[t->storage];
        if (!r->is_filled)
            return ebb_fail(err, EBB_EINPUT,
                            "plan: step %zu: op %" PRIu32 " (%s) reads storage %" PRIu32
                            ", which is not resident",
                            at, op, op_name(walk, op), t->storage);
        if (r->version != t->version)
            return ebb_fail(err, EBB_EINPUT,
                            "plan: step %zu: op %" PRIu32 " (%s) reads version %" PRIu32
                            " of storage %" PRIu32 ", version %" PRIu32 " is resident",
                            at, op, op_name(walk, op), t->version, t->storage, r->version);
    }
    return EBB_OK;
}

enum plan_fate plan_walk_fate(const struct plan_walk *walk, uint32_t tensor, uint8_t tier)
{
    const struct trace_tensor *t = &walk->trace->tensors[tensor];
    const struct plan_residence *r = &walk->storages[t->storage];
    if (t->alias != TRACE_FRESH)
        return t->alias == TRACE_MUTATE ? PLAN_WRITTEN : PLAN_LEFT_OUT;
    if (tier ? r->copy[tier] == PLAN_EMPTY : r->is_placed && !r->is_filled)
        return PLAN_FILLED;
    return plan_can_skip(walk->trace->ops[t->op].kind) ? PLAN_LEFT_OUT : PLAN_SCRATCH;
}

static enum ebb_status may_run(const struct plan_walk *walk, size_t at, uint32_t op,
                               struct ebb_error *err)
{
    const struct trace_op *o = &walk->trace->ops[op];
    if (trace_is_view_op(walk->trace, op))
        return bad(err, at, "run of view op", op);
    if (walk->run_counts[op] > 0 && (o->is_leaf || o->kind->purity == TRACE_ONCE))
        return ebb_fail(err, EBB_EINPUT,
                        "plan: step %zu: second run of op %" PRIu32 " (%s), which may run once", at,
                        op, op_name(walk, op));
    return EBB_OK;
}

bool plan_can_run_below(const struct trace *trace, uint32_t op)
{
    const struct trace_op *o = &trace->ops[op];
    return !o->is_leaf && o->output_count > 0 && !trace_is_view_op(trace, op);
}

/* On the host: copies there are read, written and filled (rule P13). */
static enum ebb_status walk_run_below(struct plan_walk *walk, size_t at, uint32_t op, uint8_t tier,
                                      struct ebb_error *err)
{
    const struct trace *trace = walk->trace;
    const struct trace_op *o = &trace->ops[op];
    EBB_TRY(may_run(walk, at, op, err));
    if (tier != PLAN_HOST)
        return bad(err, at, "ops run in tiers 0 and 1, not in", tier);
    if (!plan_can_run_below(trace, op))
        return ebb_fail(err, EBB_EINPUT,
                        "plan: step %zu: op %" PRIu32 " (%s) is a leaf or makes nothing: it cannot "
                        "run in tier %u",
                        at, op, op_name(walk, op), (unsigned)tier);
    for (uint32_t i = 0; i < o->input_count; i++) {
        const struct trace_tensor *t = &trace->tensors[trace->inputs[o->input_first + i]];
        if (walk->storages[t->storage].copy[tier] != t->version + 1)
            return ebb_fail(err, EBB_EINPUT,
                            "plan: step %zu: op %" PRIu32 " (%s) reads version %" PRIu32
                            " of storage %" PRIu32 " in tier %u, which is not there",
                            at, op, op_name(walk, op), t->version, t->storage, (unsigned)tier);
    }
    walk->run_counts[op]++;
    walk->below_bytes = plan_size(walk->plan, o->workspace_bytes);
    for (uint32_t i = 0; i < o->output_count; i++) {
        const struct trace_tensor *t = trace_output_of(trace, o, i);
        enum plan_fate fate = plan_walk_fate(walk, o->output_first + i, tier);
        if (fate == PLAN_SCRATCH)
            return ebb_fail(err, EBB_EINPUT,
                            "plan: step %zu: op %" PRIu32
                            " (%s) has no room in tier %u for storage "
                            "%" PRIu32 ", which it makes",
                            at, op, op_name(walk, op), (unsigned)tier, t->storage);
        if (fate != PLAN_LEFT_OUT)
            walk->storages[t->storage].copy[tier] = t->version + 1;
    }
    return EBB_OK;
}

static enum ebb_status walk_run(struct plan_walk *walk, size_t at, uint32_t op,
                                struct ebb_error *err)
{
    const struct trace *trace = walk->trace;
    const struct trace_op *o = &trace->ops[op];
    EBB_TRY(may_run(walk, at, op, err));
    EBB_TRY(check_inputs(walk, at, op, err));
    walk->run_counts[op]++;
    uint64_t extra = plan_size(walk->plan, o->workspace_bytes);
    for (uint32_t i = 0; i < o->output_count; i++) {
        const struct trace_tensor *t = trace_output_of(trace, o, i);
        struct plan_residence *r = &walk->storages[t->storage];
        enum plan_fate fate = plan_walk_fate(walk, o->output_first + i, 0);
        if (fate == PLAN_FILLED || fate == PLAN_WRITTEN) {
            r->is_filled = true;
            r->version = t->version;
        } else if (fate == PLAN_SCRATCH) {
            extra += plan_size(walk->plan, trace->storages[t->storage].bytes);
        }
    }
    walk->extra_bytes = extra;
    return EBB_OK;
}

enum ebb_status plan_walk_step(struct plan_walk *walk, size_t at, struct ebb_error *err)
{
    const struct plan_step *step = &walk->plan->steps[at];
    uint32_t limit = step->act == PLAN_RUN ? walk->trace->op_count : walk->trace->storage_count;
    walk->extra_bytes = walk->below_bytes = 0;
    if (step->index >= limit)
        return bad(err, at,
                   step->act == PLAN_RUN ? "no such op:" : "no such storage:", step->index);
    switch (step->act) {
    case PLAN_PLACE:
    case PLAN_DROP:
        return walk_place(walk, at, step->index, step->act == PLAN_PLACE, err);
    case PLAN_RUN:
        return step->tier ? walk_run_below(walk, at, step->index, step->tier, err)
                          : walk_run(walk, at, step->index, err);
    case PLAN_SEND:
    case PLAN_FETCH:
    case PLAN_FORGET:
    case PLAN_ROOM:
        return walk_copy(walk, at, step, err);
    case PLAN_MOVE:
        if (!walk->storages[step->index].is_placed)
            return bad(err, at, "move of absent storage", step->index);
        return EBB_OK;
    default:
        return bad(err, at, "unknown act", step->act);
    }
}

enum ebb_status plan_walk_end(const struct plan_walk *walk, struct ebb_error *err)
{
    const struct trace *trace = walk->trace;
    for (uint32_t op = 0; op < trace->op_count; op++)
        if (walk->run_counts[op] == 0 && !trace_is_view_op(trace, op))
            return ebb_fail(err, EBB_EINPUT, "plan: op %" PRIu32 " (%s) is never run", op,
                            op_name(walk, op));
    for (uint32_t c = trace->command_count; c-- > 0 && trace->commands[c].kind != TRACE_RUN;) {
        if (trace->commands[c].kind != TRACE_PIN)
            continue;
        const struct trace_tensor *t = &trace->tensors[trace->commands[c].index];
        const struct plan_residence *r = &walk->storages[t->storage];
        if (r->home && r->copy[r->home] != t->version + 1)
            return ebb_fail(err, EBB_EINPUT,
                            "plan: storage %" PRIu32 " must be at home in tier %u at the end with "
                            "version %" PRIu32 ", version %" PRIu32 " is there",
                            t->storage, (unsigned)r->home, t->version, r->copy[r->home] - 1);
        if (r->home)
            continue;
        if (!r->is_filled || r->version != t->version)
            return ebb_fail(err, EBB_EINPUT,
                            "plan: storage %" PRIu32 " must be resident at the end with version "
                            "%" PRIu32 ", but %s",
                            t->storage, t->version,
                            r->is_filled ? "holds another version" : "is not");
    }
    return EBB_OK;
}
