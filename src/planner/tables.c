/* tables.c - tables in tier 1: the host looks them up and updates them where they lie.
 *
 * A lookup reads few rows of a table and makes little; its table, moments and gradient would fill
 * tier 0 for nothing. So what touches a table runs on the host: lookups, whose results go up, and
 * all that has to do with its gradient. Which storages stay below (*below*) and which ops run there
 * (*hosted*) follow from the trace:
 *
 *   - tables and what is named after them are below
 *   - an op that reads or writes something below is hosted
 *   - what a hosted update reads that is about as large as a table, and that updates alone read, is
 *     its gradient: below
 *
 * Plans are made for the light trace, in which what is below has no bytes. A plan for it becomes one
 * for the trace step by step: what it does with storages below falls away, a RUN of a hosted op is
 * one in tier 1, with what it reads sent and what others read of its results fetched. */
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "planner/planner.h"

#define LEAST_TABLE 1024 /* bytes: what is smaller is no table */

struct planner_tables {
    const struct trace *trace;
    struct trace light; /* shares all but ops and storages */
    struct ebb_arena arena;
    bool *is_below;  /* storage */
    bool *is_table;  /* storage: below, and persistent */
    bool *is_hosted; /* op */
    uint64_t bytes;
};

static const struct trace_tensor *output_of(const struct trace *t, const struct trace_op *op,
                                            uint32_t k)
{
    return &t->tensors[op->output_first + k];
}

/* Storages that are there before the first op and kept at the end. */
static enum ebb_status find_persistent(const struct trace *t, struct ebb_arena *arena,
                                       uint64_t **base, struct ebb_error *err)
{
    *base = ebb_arena_calloc(arena, (size_t)t->storage_count + 1, sizeof **base);
    EBB_TRY(ebb_arena_status(arena, err));
    return plan_base_layout(t, NULL, *base, NULL, err);
}

/* ---- which are tables ------------------------------------------------------------------------- */

static const char *leaf_name(const struct trace *t, uint32_t storage)
{
    const char *name = trace_label(t, &t->ops[t->tensors[t->storages[storage].root].op]);
    return name ? name : "";
}

/* The op that makes it none: it reads the storage and is neither lookup nor update. */
static void judge_reader(const struct trace *t, uint32_t op, uint32_t *lookups, uint32_t *others)
{
    const struct trace_op *o = &t->ops[op];
    for (uint32_t k = 0; k < o->input_count && o->phase != TRACE_UPDATE; k++) {
        uint32_t s = trace_input_of(t, o, k)->storage;
        if (o->kind->picks_rows && k == 0)
            lookups[s]++;
        else if (!trace_is_view_op(t, op))
            others[s] = op + 1;
    }
}

static bool is_named_after(const char *name, const char *other)
{
    size_t n = strlen(other);
    return n && strncmp(name, other, n) == 0 && name[n] == '.';
}

/* Moments and the like are called as what they belong to, and a word more; so may be other weights,
 * and their moments: the longest name counts. TRACE_NONE: it is its own. */
static uint32_t owner_of(const struct trace *t, const uint64_t *base, uint32_t storage)
{
    uint32_t owner = TRACE_NONE;
    size_t longest = 0;
    for (uint32_t s = 0; s < t->storage_count; s++) {
        if (base[s] == PLAN_NOWHERE || !is_named_after(leaf_name(t, storage), leaf_name(t, s)))
            continue;
        size_t n = strlen(leaf_name(t, s));
        owner = n > longest ? s : owner;
        longest = n > longest ? n : longest;
    }
    return owner;
}

static bool may_belong(const struct trace *t, const uint32_t *tables, uint32_t count, uint32_t s)
{
    for (uint32_t i = 0; i < count; i++)
        if (is_named_after(leaf_name(t, s), leaf_name(t, tables[i])))
            return true;
    return false;
}

static enum ebb_status find_tables(const struct trace *t, struct ebb_arena *arena, bool *is_table,
                                   struct ebb_error *err)
{
    uint64_t *base;
    uint32_t count = 0, tied = 0;
    uint32_t *lookups = ebb_arena_calloc(arena, (size_t)t->storage_count + 1, sizeof *lookups);
    uint32_t *others = ebb_arena_calloc(arena, (size_t)t->storage_count + 1, sizeof *others);
    uint32_t *tables = ebb_arena_calloc(arena, (size_t)t->storage_count + 1, sizeof *tables);
    EBB_TRY(find_persistent(t, arena, &base, err));
    for (uint32_t o = 0; o < t->op_count; o++)
        judge_reader(t, o, lookups, others);
    for (uint32_t s = 0; s < t->storage_count; s++) {
        bool is_picked =
            base[s] != PLAN_NOWHERE && lookups[s] && t->storages[s].bytes >= LEAST_TABLE;
        is_table[s] = is_picked && !others[s];
        if (is_table[s])
            tables[count++] = s;
        tied = is_picked && others[s] ? s + 1 : tied;
    }
    if (count == 0 && tied)
        return ebb_fail(err, EBB_EINFEASIBLE, "%s is also read by %s, which the device runs",
                        leaf_name(t, tied - 1), t->ops[others[tied - 1] - 1].kind->name);
    if (count == 0)
        return ebb_fail(err, EBB_EINFEASIBLE, "%s looks nothing up", t->name);
    for (uint32_t s = 0; s < t->storage_count; s++) {
        bool is_state = base[s] != PLAN_NOWHERE && !lookups[s] && !others[s]; /* updates alone */
        uint32_t owner = is_state && may_belong(t, tables, count, s) ? owner_of(t, base, s) : s;
        is_table[s] |= owner != TRACE_NONE && is_table[owner];
    }
    return EBB_OK;
}

enum ebb_status planner_tables_find(const struct trace *trace, bool *is_table,
                                    struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    enum ebb_status status = find_tables(trace, &arena, is_table, err);
    ebb_arena_fini(&arena);
    return status;
}

/* ---- what stays below ------------------------------------------------------------------------- */

static bool touches_below(const struct planner_tables *p, const struct trace_op *op)
{
    const struct trace *t = p->trace;
    for (uint32_t k = 0; k < op->input_count; k++)
        if (p->is_below[trace_input_of(t, op, k)->storage])
            return true;
    for (uint32_t k = 0; k < op->output_count; k++)
        if (p->is_below[output_of(t, op, k)->storage])
            return true;
    return false;
}

/* The largest of an op's storages that stay below: a gradient is about as large. */
static uint64_t largest_below(const struct planner_tables *p, const struct trace_op *op)
{
    const struct trace *t = p->trace;
    uint64_t most = 0;
    for (uint32_t k = 0; k < op->input_count + op->output_count; k++) {
        uint32_t s =
            (k < op->input_count ? trace_input_of(t, op, k) : output_of(t, op, k - op->input_count))
                ->storage;
        if (p->is_below[s] && t->storages[s].bytes > most)
            most = t->storages[s].bytes;
    }
    return most;
}

/* One pass from the last op to the first; is there more to find? `stays`: storages that must not go
 * below: leaves, what is kept, what others than updates read. */
static bool spread(struct planner_tables *p, const bool *stays)
{
    const struct trace *t = p->trace;
    bool is_more = false;
    for (uint32_t o = t->op_count; o-- > 0;) {
        const struct trace_op *op = &t->ops[o];
        if (op->is_leaf || trace_is_view_op(t, o) || !touches_below(p, op))
            continue;
        is_more |= !p->is_hosted[o];
        p->is_hosted[o] = true;
        uint64_t most = largest_below(p, op);
        for (uint32_t k = 0; k < op->input_count && op->phase == TRACE_UPDATE; k++) {
            uint32_t s = trace_input_of(t, op, k)->storage;
            if (p->is_below[s] || stays[s] || t->storages[s].bytes < most / 2 ||
                t->storages[s].bytes < LEAST_TABLE / 2)
                continue;
            p->is_below[s] = is_more = true;
        }
    }
    return is_more;
}

/* Storages that cannot be gradients. */
static bool *find_staying(struct planner_tables *p)
{
    const struct trace *t = p->trace;
    bool *stays = ebb_arena_calloc(&p->arena, (size_t)t->storage_count + 1, 1);
    for (uint32_t o = 0; stays && o < t->op_count; o++) {
        const struct trace_op *op = &t->ops[o];
        for (uint32_t k = 0; k < op->input_count && op->phase != TRACE_UPDATE; k++)
            stays[trace_input_of(t, op, k)->storage] |= !trace_is_view_op(t, o);
        for (uint32_t k = 0; k < op->output_count && op->is_leaf; k++)
            stays[output_of(t, op, k)->storage] = true;
    }
    for (uint32_t c = t->command_count; stays && c-- > 0 && t->commands[c].kind != TRACE_RUN;)
        if (t->commands[c].kind == TRACE_PIN)
            stays[t->tensors[t->commands[c].index].storage] = true;
    return stays;
}

/* What is written in place there is below, and a table is read by lookups and updates alone. */
static enum ebb_status check_hosted(const struct planner_tables *p, struct ebb_error *err)
{
    const struct trace *t = p->trace;
    for (uint32_t o = 0; o < t->op_count; o++) {
        const struct trace_op *op = &t->ops[o];
        bool is_good = plan_can_run_below(t, o);
        for (uint32_t k = 0; k < op->output_count && p->is_hosted[o]; k++)
            is_good &= output_of(t, op, k)->alias == TRACE_FRESH ||
                       p->is_below[output_of(t, op, k)->storage];
        for (uint32_t k = 0; k < op->input_count && p->is_hosted[o]; k++)
            is_good &= !p->is_table[trace_input_of(t, op, k)->storage] ||
                       op->phase == TRACE_UPDATE || (op->kind->picks_rows && k == 0);
        if (p->is_hosted[o] && !is_good)
            return ebb_fail(err, EBB_EUNSUPPORTED, "%s: op %u (%s) needs a table, and the device",
                            t->name, (unsigned)o, op->kind->name);
    }
    return EBB_OK;
}

/* All that is below, all that goes up and down for hosted ops, side by side. */
static void add_up(struct planner_tables *p)
{
    const struct trace *t = p->trace;
    uint64_t work = 0;
    for (uint32_t s = 0; s < t->storage_count; s++)
        p->bytes += p->is_below[s] ? plan_round(t->storages[s].bytes) : 0;
    for (uint32_t o = 0; o < t->op_count; o++) {
        const struct trace_op *op = &t->ops[o];
        for (uint32_t k = 0; k < op->input_count && p->is_hosted[o]; k++)
            p->bytes += p->is_below[trace_input_of(t, op, k)->storage]
                            ? 0
                            : plan_round(t->storages[trace_input_of(t, op, k)->storage].bytes);
        for (uint32_t k = 0; k < op->output_count && p->is_hosted[o]; k++)
            p->bytes += p->is_below[output_of(t, op, k)->storage]
                            ? 0
                            : plan_round(t->storages[output_of(t, op, k)->storage].bytes);
        if (p->is_hosted[o] && plan_round(op->workspace_bytes) > work)
            work = plan_round(op->workspace_bytes);
    }
    p->bytes += work;
}

/* ---- the light trace -------------------------------------------------------------------------- */

/* Does the device wait for what it makes? */
static bool is_awaited(const struct planner_tables *p, const struct trace_op *op)
{
    for (uint32_t k = 0; k < op->output_count; k++)
        if (!p->is_below[output_of(p->trace, op, k)->storage])
            return true;
    return false;
}

void planner_tables_reprice(struct planner_tables *p)
{
    for (uint32_t o = 0; o < p->trace->op_count; o++) {
        const struct trace_op *op = &p->trace->ops[o];
        p->light.ops[o].cost_ns = p->is_hosted[o] && !is_awaited(p, op) ? 0 : op->cost_ns;
    }
}

static enum ebb_status make_light(struct planner_tables *p, struct ebb_error *err)
{
    const struct trace *t = p->trace;
    p->light = *t;
    p->light.ops = ebb_arena_calloc(&p->arena, (size_t)t->op_count + 1, sizeof *t->ops);
    p->light.storages =
        ebb_arena_calloc(&p->arena, (size_t)t->storage_count + 1, sizeof *t->storages);
    EBB_TRY(ebb_arena_status(&p->arena, err));
    memcpy(p->light.ops, t->ops, t->op_count * sizeof *t->ops);
    memcpy(p->light.storages, t->storages, t->storage_count * sizeof *t->storages);
    p->light.signature.low = ~t->signature.low; /* no plan is taken for one of the trace */
    for (uint32_t s = 0; s < t->storage_count; s++)
        p->light.storages[s].bytes = p->is_below[s] ? 0 : t->storages[s].bytes;
    for (uint32_t o = 0; o < t->op_count; o++)
        p->light.ops[o].workspace_bytes = p->is_hosted[o] ? 0 : t->ops[o].workspace_bytes;
    planner_tables_reprice(p);
    return EBB_OK;
}

static enum ebb_status create(struct planner_tables *p, const bool *is_table, struct ebb_error *err)
{
    const struct trace *t = p->trace;
    p->is_below = ebb_arena_calloc(&p->arena, (size_t)t->storage_count + 1, 1);
    p->is_table = ebb_arena_calloc(&p->arena, (size_t)t->storage_count + 1, 1);
    p->is_hosted = ebb_arena_calloc(&p->arena, (size_t)t->op_count + 1, 1);
    const bool *stays = find_staying(p);
    EBB_TRY(ebb_arena_status(&p->arena, err));
    memcpy(p->is_below, is_table, t->storage_count);
    memcpy(p->is_table, is_table, t->storage_count);
    while (spread(p, stays)) {
    }
    EBB_TRY(check_hosted(p, err));
    add_up(p);
    return make_light(p, err);
}

enum ebb_status planner_tables_create(struct planner_tables **tables, const struct trace *trace,
                                      const bool *is_table, struct ebb_error *err)
{
    struct planner_tables *p;
    EBB_TRY(ebb_new(&p, 1, sizeof *p, err));
    p->trace = trace;
    ebb_arena_init(&p->arena);
    enum ebb_status status = create(p, is_table, err);
    return EBB_HAND_OUT(status, tables, p, planner_tables_destroy);
}

void planner_tables_destroy(struct planner_tables *p)
{
    if (!p)
        return;
    ebb_arena_fini(&p->arena);
    ebb_free(p);
}

const struct trace *planner_tables_light(const struct planner_tables *p)
{
    return &p->light;
}

uint64_t planner_tables_bytes(const struct planner_tables *p)
{
    return p->bytes;
}

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

/* ---- a plan said again ------------------------------------------------------------------------ */

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
        const struct trace_tensor *out = output_of(s->p->trace, op, k);
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
        const struct trace_tensor *out = output_of(t, op, k);
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
        uint32_t out = output_of(s->p->trace, op, k)->storage;
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
        uint32_t of =
            (k < op->input_count ? trace_input_of(t, op, k) : output_of(t, op, k - op->input_count))
                ->storage;
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
                      ? output_of(t, &t->ops[step->index], 0)->storage
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
