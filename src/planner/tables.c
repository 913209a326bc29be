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
 * Plans are made for the light trace, in which what is below has no bytes, and said again for the
 * trace (tables_plan.c). */
#include "planner/tables.h"

#include <string.h>

#include "base/heap.h"

#define LEAST_TABLE 1024 /* bytes: what is smaller is no table */

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
    for (uint32_t k = 0; k < op->input_count + op->output_count; k++)
        if (p->is_below[planner_tables_touched(t, op, k)])
            return true;
    return false;
}

/* The largest of an op's storages that stay below: a gradient is about as large. */
static uint64_t largest_below(const struct planner_tables *p, const struct trace_op *op)
{
    const struct trace *t = p->trace;
    uint64_t most = 0;
    for (uint32_t k = 0; k < op->input_count + op->output_count; k++) {
        uint32_t s = planner_tables_touched(t, op, k);
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
            stays[trace_output_of(t, op, k)->storage] = true;
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
            is_good &= trace_output_of(t, op, k)->alias == TRACE_FRESH ||
                       p->is_below[trace_output_of(t, op, k)->storage];
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
        for (uint32_t k = 0; k < op->input_count + op->output_count && p->is_hosted[o]; k++) {
            uint32_t s = planner_tables_touched(t, op, k);
            p->bytes += p->is_below[s] ? 0 : plan_round(t->storages[s].bytes);
        }
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
        if (!p->is_below[trace_output_of(p->trace, op, k)->storage])
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
