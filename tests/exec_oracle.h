/* exec_oracle.h - judges a run by its event log alone: no code of exec, mem or plan is used.
 *
 * Memory is pieces with an owner each, cut wherever anything begins or ends, so two ranges that
 * overlap, or leave the budget, are seen. Contents are hashes: an op's output is a hash of the op and of what its inputs
 * hold at that moment; the reference values come from executing the trace once without a limit. So
 * an op that reads something stale, half restored or fetched from an old copy gives itself away at
 * once. A clock per stream (compute; out and in of each lower tier) follows the copies. Under a
 * plan every piece of every tier knows until when a copy, or an op that the host runs in tier 1, reads
 * or fills it, and whoever touches it must wait so long; nobody waits for anything else. Under a policy compute waits for a copy
 * out when its storage is written, moved or given back, and for a copy in when it is read, too.
 *
 *     char why[ORACLE_WHY];
 *     CHECK(oracle_judge(&(struct oracle_case){...}, why)); */
#ifndef EBB_TESTS_EXEC_ORACLE_H
#define EBB_TESTS_EXEC_ORACLE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "exec/exec.h"

#define ORACLE_WHY 240
#define ORACLE_UNIT 256u
#define ORACLE_NOBODY UINT32_MAX
#define ORACLE_WORKSPACE (UINT32_MAX - 1)

struct oracle_case {
    const struct trace *trace;
    const struct exec_options *options; /* its log is judged */
    const struct exec_report *report;
    bool is_planned; /* a plan was followed: pressure and release are told apart otherwise */
    bool is_strange; /* the plan is nobody's: ops may run in any order that keeps their values and
                      * before their outputs have a place, and what holds nothing may leave */
    const struct plan_homes *homes; /* of the plan: state that lives below; NULL: none */
};

struct oracle_slot {
    uint64_t offset, value, copy[DEVICE_TIERS], copy_at[DEVICE_TIERS];
    uint64_t ready, gone; /* under a policy: when a copy into it, out of it, is complete */
    bool is_placed, is_filled, has_copy[DEVICE_TIERS];
    bool has_room[DEVICE_TIERS]; /* for a copy, and nothing in it */
    uint8_t home;                /* tier where it lives; 0: in tier 0, or not for long */
};

struct oracle_piece {             /* until the next one begins, or the tier ends */
    uint64_t begin, filled, read; /* by copies, until when */
    uint32_t owner;
};

struct oracle {
    const struct oracle_case *c;
    const struct trace *t;
    struct oracle_slot *slots;
    uint64_t *reference, *version_first; /* per (storage, version) */
    uint32_t *runs;                      /* per op */
    struct oracle_piece *map[DEVICE_TIERS];
    size_t pieces[DEVICE_TIERS], room[DEVICE_TIERS]; /* in map */
    uint64_t bytes[DEVICE_TIERS];                    /* whole units */
    uint32_t work_op, next_op; /* op whose workspace lies at work_offset; next first run */
    uint64_t work_offset;
    uint64_t clock, sum, peak_sum, peak_address, remat_ns, remat_ops, drops, frees, swapped, moved;
    uint64_t hash, compute, out[DEVICE_TIERS], in[DEVICE_TIERS], moved_ns;
    uint64_t below, below_ns, host_ops; /* the host's clock; what the device was spared */
    char *why;
};

static inline uint64_t oracle_round(uint64_t bytes)
{
    return (bytes + ORACLE_UNIT - 1) / ORACLE_UNIT * ORACLE_UNIT;
}

static inline uint64_t oracle_bytes(const struct oracle *o, uint32_t s)
{
    return oracle_round(o->t->storages[s].bytes);
}

#define ORACLE_NO(...) (snprintf(o->why, ORACLE_WHY, __VA_ARGS__), false)

/* ---- values
 * ------------------------------------------------------------------------------------------ */

static inline uint64_t oracle_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 29);
}

static inline bool oracle_is_view_op(const struct trace *t, uint32_t op)
{
    for (uint32_t k = 0; k < t->ops[op].output_count; k++)
        if (t->tensors[t->ops[op].output_first + k].alias != TRACE_VIEW)
            return false;
    return true;
}

static inline uint64_t *oracle_value(const struct oracle *o, uint32_t tensor)
{
    const struct trace_tensor *x = &o->t->tensors[tensor];
    return &o->reference[o->version_first[x->storage] + x->version];
}

/* What every version of every storage holds when the program runs without a limit. */
static inline void oracle_reference(struct oracle *o)
{
    const struct trace *t = o->t;
    uint64_t at = 0;
    for (uint32_t s = 0; s < t->storage_count; s++) {
        o->version_first[s] = at;
        at += t->storages[s].version_count;
    }
    for (uint32_t p = 0; p < t->op_count; p++) {
        const struct trace_op *op = &t->ops[p];
        uint64_t h = oracle_mix(p + 1, op->input_count);
        for (uint32_t i = 0; i < op->input_count; i++)
            h = oracle_mix(h, *oracle_value(o, t->inputs[op->input_first + i]));
        for (uint32_t k = 0; k < op->output_count; k++)
            if (t->tensors[op->output_first + k].alias != TRACE_VIEW)
                *oracle_value(o, op->output_first + k) = oracle_mix(h, k);
    }
}

/* ---- bytes
 * ------------------------------------------------------------------------------------------- */

/* The piece that begins there, cut if none did; behind the tier: how many there are. */
static inline size_t oracle_cut(struct oracle *o, int tier, uint64_t offset)
{
    size_t low = 0, high = o->pieces[tier];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (o->map[tier][middle].begin < offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (offset >= o->bytes[tier] || (low < o->pieces[tier] && o->map[tier][low].begin == offset))
        return low;
    if (o->pieces[tier] == o->room[tier]) {
        o->room[tier] *= 2;
        o->map[tier] = realloc(o->map[tier], o->room[tier] * sizeof **o->map);
    }
    struct oracle_piece *at = &o->map[tier][low]; /* the first begins at 0 */
    memmove(at + 1, at, (o->pieces[tier]++ - low) * sizeof *at);
    *at = at[-1];
    at->begin = offset;
    return low;
}

static inline bool oracle_paint(struct oracle *o, int tier, uint64_t offset, uint64_t bytes,
                                uint32_t from, uint32_t to)
{
    if (bytes == 0)
        return true;
    if (offset % ORACLE_UNIT || offset > o->bytes[tier] || bytes > o->bytes[tier] - offset)
        return ORACLE_NO("tier %d: bytes %llu + %llu leave its %llu", tier,
                         (unsigned long long)offset, (unsigned long long)bytes,
                         (unsigned long long)o->bytes[tier]);
    size_t first = oracle_cut(o, tier, offset), end = oracle_cut(o, tier, offset + bytes);
    for (struct oracle_piece *p = o->map[tier] + first; p < o->map[tier] + end; p++) {
        if (p->owner != from)
            return ORACLE_NO("tier %d: byte %llu belongs to %u, not to %u, when %u takes it", tier,
                             (unsigned long long)p->begin, p->owner, from, to);
        p->owner = to;
    }
    if (tier == 0 && to != ORACLE_NOBODY && offset + bytes > o->peak_address)
        o->peak_address = offset + bytes;
    return true;
}

static inline void oracle_sum(struct oracle *o, uint64_t extra)
{
    if (o->sum + extra > o->peak_sum)
        o->peak_sum = o->sum + extra;
}

/* As the null device counts. */
static inline uint64_t oracle_link(const struct device_link *link, uint64_t bytes)
{
    return link->latency_ns +
           (link->bytes_per_ns > 0 ? (uint64_t)((double)bytes / link->bytes_per_ns) : 0);
}

static inline void oracle_wait(uint64_t *stream, uint64_t moment)
{
    *stream = moment > *stream ? moment : *stream;
}

/* A stream is about to read or write these bytes. */
static inline void oracle_touch(struct oracle *o, uint64_t *stream, int tier, uint64_t offset,
                                uint64_t bytes, bool is_write)
{
    size_t first = oracle_cut(o, tier, offset);
    size_t end = oracle_cut(o, tier, offset + bytes); /* behind the tier: painting says so */
    for (const struct oracle_piece *p = o->map[tier] + first; p < o->map[tier] + end; p++) {
        oracle_wait(stream, p->filled);
        if (is_write)
            oracle_wait(stream, p->read);
    }
}

/* A copy fills them, or reads them, until then. */
static inline void oracle_busy(struct oracle *o, bool is_filled, int tier, uint64_t offset,
                               uint64_t bytes, uint64_t moment)
{
    size_t first = oracle_cut(o, tier, offset), end = oracle_cut(o, tier, offset + bytes);
    for (struct oracle_piece *p = o->map[tier] + first; p < o->map[tier] + end; p++)
        oracle_wait(is_filled ? &p->filled : &p->read, moment);
}

/* ---- events
 * ------------------------------------------------------------------------------------------ */

static inline bool oracle_place(struct oracle *o, const struct exec_event *e)
{
    struct oracle_slot *slot = &o->slots[e->index];
    if (slot->is_placed)
        return ORACLE_NO("storage %u is placed twice", e->index);
    if (!oracle_paint(o, 0, e->offset, oracle_bytes(o, e->index), ORACLE_NOBODY, e->index))
        return false;
    slot->is_placed = true;
    slot->is_filled = false;
    slot->offset = e->offset;
    slot->ready = slot->gone = 0;
    o->sum += oracle_bytes(o, e->index);
    oracle_sum(o, 0);
    return true;
}

static inline bool oracle_leave(struct oracle *o, const struct exec_event *e)
{
    struct oracle_slot *slot = &o->slots[e->index];
    if (!slot->is_placed || !(slot->is_filled || o->c->is_strange))
        return ORACLE_NO("storage %u leaves, but is %s", e->index,
                         slot->is_placed ? "not written yet" : "not there");
    if (!oracle_paint(o, 0, slot->offset, oracle_bytes(o, e->index), e->index, ORACLE_NOBODY))
        return false;
    oracle_wait(&o->compute, slot->ready); /* a copy that still writes there must end first */
    oracle_wait(&o->compute, slot->gone);  /* or reads there */
    slot->is_placed = slot->is_filled = false;
    o->sum -= oracle_bytes(o, e->index);
    if (e->kind == EXEC_EV_DROP) {
        o->drops++;
        o->hash = ebb_fnv1a_u32(o->hash, o->t->storages[e->index].root);
    } else {
        o->frees++;
    }
    return true;
}

static inline bool oracle_move(struct oracle *o, const struct exec_event *e)
{
    struct oracle_slot *slot = &o->slots[e->index];
    uint64_t bytes = oracle_bytes(o, e->index);
    if (!slot->is_placed || !(slot->is_filled || o->c->is_planned)) /* plan.h: what is placed */
        return ORACLE_NO("storage %u moves, but holds nothing", e->index);
    if (!oracle_paint(o, 0, slot->offset, bytes, e->index, ORACLE_NOBODY) ||
        !oracle_paint(o, 0, e->offset, bytes, ORACLE_NOBODY, e->index))
        return false;
    oracle_touch(o, &o->compute, 0, slot->offset, bytes, false);
    oracle_touch(o, &o->compute, 0, e->offset, bytes, true);
    slot->offset = e->offset;
    o->moved += bytes;
    oracle_wait(&o->compute, slot->ready);
    oracle_wait(&o->compute, slot->gone);
    o->compute += oracle_link(&o->c->options->links.in[DEVICE_T0], bytes);
    return true;
}

/* When the copy of an event ends. */
static inline void oracle_carry(struct oracle *o, const struct exec_event *e)
{
    struct oracle_slot *slot = &o->slots[e->index];
    uint64_t bytes = oracle_bytes(o, e->index), low = slot->copy_at[e->tier];
    bool is_out = e->kind == EXEC_EV_SEND;
    uint64_t *stream = is_out ? &o->out[e->tier] : &o->in[e->tier];
    const struct device_config *links = &o->c->options->links;
    if (is_out && !o->c->is_planned) {
        oracle_wait(&o->compute, slot->ready);
        slot->ready = 0;
    }
    oracle_wait(stream, o->compute);
    if (o->c->is_planned) {
        oracle_touch(o, stream, 0, slot->offset, bytes, !is_out);
        oracle_touch(o, stream, e->tier, low, bytes, is_out);
    }
    *stream += oracle_link(is_out ? &links->out[e->tier] : &links->in[e->tier], bytes);
    if (o->c->is_planned) {
        oracle_busy(o, !is_out, 0, slot->offset, bytes, *stream);
        oracle_busy(o, is_out, e->tier, low, bytes, *stream);
    } else if (is_out) {
        slot->gone = *stream;
    } else {
        slot->ready = *stream;
    }
}

static inline bool oracle_copy(struct oracle *o, const struct exec_event *e)
{
    struct oracle_slot *slot = &o->slots[e->index];
    uint64_t bytes = oracle_bytes(o, e->index);
    if (e->tier < DEVICE_HOST || e->tier >= DEVICE_TIERS)
        return ORACLE_NO("storage %u: there is no tier %u", e->index, e->tier);
    if (e->kind == EXEC_EV_ROOM) {
        if (slot->has_copy[e->tier] || slot->has_room[e->tier] || e->tier != DEVICE_HOST)
            return ORACLE_NO("storage %u has room in tier %u already", e->index, e->tier);
        slot->has_room[e->tier] = true;
        slot->copy_at[e->tier] = e->offset;
        return oracle_paint(o, e->tier, e->offset, bytes, ORACLE_NOBODY, e->index);
    }
    if (e->kind == EXEC_EV_FORGET) {
        if (!slot->has_copy[e->tier] && !slot->has_room[e->tier])
            return ORACLE_NO("storage %u has no copy to forget in tier %u", e->index, e->tier);
        slot->has_copy[e->tier] = slot->has_room[e->tier] = false;
        oracle_wait(&o->out[e->tier], slot->ready); /* nobody writes there while it is read */
        return oracle_paint(o, e->tier, slot->copy_at[e->tier], bytes, e->index, ORACLE_NOBODY);
    }
    o->swapped += bytes;
    if (e->kind == EXEC_EV_SEND) {
        bool is_stale =
            slot->has_copy[e->tier] ? slot->copy[e->tier] != slot->value : slot->has_room[e->tier];
        if (!slot->is_filled || (slot->has_copy[e->tier] && !is_stale))
            return ORACLE_NO("storage %u is sent to tier %u, but %s", e->index, e->tier,
                             slot->is_filled ? "has a clean copy there" : "holds nothing");
        if (is_stale && !oracle_paint(o, e->tier, slot->copy_at[e->tier], bytes, e->index,
                                      ORACLE_NOBODY)) /* written over */
            return false;
        slot->has_copy[e->tier] = true;
        slot->has_room[e->tier] = false;
        slot->copy[e->tier] = slot->value;
        slot->copy_at[e->tier] = e->offset;
        if (bytes)
            oracle_carry(o, e);
        return oracle_paint(o, e->tier, e->offset, bytes, ORACLE_NOBODY, e->index);
    }
    if (!slot->is_placed || slot->is_filled || !slot->has_copy[e->tier])
        return ORACLE_NO("storage %u is fetched from tier %u, but %s", e->index, e->tier,
                         !slot->is_placed  ? "has no place"
                         : slot->is_filled ? "is there already"
                                           : "has no copy there");
    slot->is_filled = true;
    slot->value = slot->copy[e->tier];
    if (bytes)
        oracle_carry(o, e);
    return true;
}

static inline bool oracle_inputs(struct oracle *o, uint32_t p, uint64_t *hash)
{
    const struct trace *t = o->t;
    const struct trace_op *op = &t->ops[p];
    *hash = oracle_mix(p + 1, op->input_count);
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t tensor = t->inputs[op->input_first + i];
        struct oracle_slot *slot = &o->slots[t->tensors[tensor].storage];
        if (!slot->is_filled)
            return ORACLE_NO("op %u reads storage %u, which is not there", p,
                             t->tensors[tensor].storage);
        if (slot->value != *oracle_value(o, tensor))
            return ORACLE_NO("op %u reads storage %u, which does not hold version %u", p,
                             t->tensors[tensor].storage, t->tensors[tensor].version);
        *hash = oracle_mix(*hash, slot->value);
        oracle_touch(o, &o->compute, 0, slot->offset, oracle_bytes(o, t->tensors[tensor].storage),
                     false);
        oracle_wait(&o->compute, slot->ready);
        slot->ready = 0;
    }
    return true;
}

static inline bool oracle_outputs(struct oracle *o, uint32_t p, uint64_t hash, uint64_t *extra)
{
    const struct trace *t = o->t;
    const struct trace_op *op = &t->ops[p];
    *extra = oracle_round(op->workspace_bytes);
    for (uint32_t k = 0; k < op->output_count; k++) {
        const struct trace_tensor *x = &t->tensors[op->output_first + k];
        struct oracle_slot *slot = &o->slots[x->storage];
        if (x->alias == TRACE_MUTATE) {
            if (!slot->is_filled)
                return ORACLE_NO("op %u writes storage %u, which is not there", p, x->storage);
            oracle_touch(o, &o->compute, 0, slot->offset, oracle_bytes(o, x->storage), true);
            oracle_wait(&o->compute, slot->gone);
            slot->value = oracle_mix(hash, k);
        } else if (x->alias == TRACE_FRESH && slot->is_placed && !slot->is_filled) {
            oracle_touch(o, &o->compute, 0, slot->offset, oracle_bytes(o, x->storage), true);
            slot->is_filled = true;
            slot->value = oracle_mix(hash, k);
        } else if (x->alias == TRACE_FRESH && o->runs[p] == 0 && !o->c->is_strange) {
            return ORACLE_NO("op %u runs first without making storage %u", p, x->storage);
        } else if (x->alias == TRACE_FRESH && op->kind->run && !op->kind->can_skip_outputs) {
            *extra += oracle_bytes(o, x->storage);
        }
    }
    return true;
}

static inline bool oracle_has_run(const struct oracle *o, uint32_t p)
{
    return oracle_is_view_op(o->t, p) || o->runs[p] > 0;
}

/* The host reads and writes copies in tier 1, one op after the other, and follows the device so far
 * as that has been told what to do. */
static inline bool oracle_run_below(struct oracle *o, const struct exec_event *e)
{
    const struct trace *t = o->t;
    const struct trace_op *op = &t->ops[e->index];
    double slowness = o->c->options->links.host_slowness;
    uint64_t hash = oracle_mix(e->index + 1, op->input_count);
    uint64_t extra = oracle_round(op->workspace_bytes);
    bool is_written[8] = {false};
    if (op->output_count > 8)
        return ORACLE_NO("op %u makes more than the oracle can count", e->index);
    bool is_once = op->is_leaf || op->kind->purity == TRACE_ONCE;
    if (e->tier != DEVICE_HOST || op->is_leaf || (is_once && o->runs[e->index]))
        return ORACLE_NO("op %u runs in tier %u, %u times before", e->index, e->tier,
                         o->runs[e->index]);
    oracle_wait(&o->below, o->compute);
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t tensor = t->inputs[op->input_first + i], s = t->tensors[tensor].storage;
        struct oracle_slot *slot = &o->slots[s];
        if (!slot->has_copy[DEVICE_HOST] || slot->copy[DEVICE_HOST] != *oracle_value(o, tensor))
            return ORACLE_NO("op %u reads storage %u in tier 1, which has not version %u", e->index,
                             s, t->tensors[tensor].version);
        hash = oracle_mix(hash, slot->copy[DEVICE_HOST]);
        oracle_touch(o, &o->below, DEVICE_HOST, slot->copy_at[DEVICE_HOST], oracle_bytes(o, s),
                     false);
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        const struct trace_tensor *x = &t->tensors[op->output_first + k];
        struct oracle_slot *slot = &o->slots[x->storage];
        if (x->alias == TRACE_FRESH && !slot->has_room[DEVICE_HOST] &&
            (slot->has_copy[DEVICE_HOST] || !op->kind->run || op->kind->can_skip_outputs))
            continue; /* left out */
        if (x->alias == TRACE_MUTATE ? !slot->has_copy[DEVICE_HOST] : !slot->has_room[DEVICE_HOST])
            return ORACLE_NO("op %u makes storage %u in tier 1", e->index, x->storage);
        slot->has_room[DEVICE_HOST] = false;
        slot->has_copy[DEVICE_HOST] = is_written[k % 8] = true;
        slot->copy[DEVICE_HOST] = oracle_mix(hash, k);
        oracle_touch(o, &o->below, DEVICE_HOST, slot->copy_at[DEVICE_HOST],
                     oracle_bytes(o, x->storage), true);
    }
    if (extra && (o->work_op != e->index ||
                  !oracle_paint(o, 1, o->work_offset, extra, ORACLE_NOBODY, ORACLE_WORKSPACE) ||
                  !oracle_paint(o, 1, o->work_offset, extra, ORACLE_WORKSPACE, ORACLE_NOBODY)))
        return ORACLE_NO("op %u has no workspace in tier 1", e->index);
    oracle_touch(o, &o->below, DEVICE_HOST, o->work_offset, extra, true);
    o->below += slowness > 0 ? (uint64_t)(slowness * (double)op->cost_ns) : op->cost_ns;
    oracle_busy(o, true, DEVICE_HOST, o->work_offset, extra, o->below);
    for (uint32_t i = 0; i < op->input_count + op->output_count; i++) {
        bool is_out = i >= op->input_count;
        if (is_out && !is_written[i - op->input_count])
            continue;
        uint32_t s = t->tensors[is_out ? op->output_first + (i - op->input_count)
                                       : t->inputs[op->input_first + i]]
                         .storage;
        oracle_busy(o, is_out, DEVICE_HOST, o->slots[s].copy_at[DEVICE_HOST], oracle_bytes(o, s),
                    o->below);
    }
    o->work_op = ORACLE_NOBODY;
    o->below_ns += o->runs[e->index]++ ? 0 : op->cost_ns;
    o->host_ops++;
    return true;
}

static inline bool oracle_run(struct oracle *o, const struct exec_event *e)
{
    uint32_t p = e->index;
    const struct trace_op *op = &o->t->ops[p];
    uint64_t hash, extra;
    bool is_rerun = e->kind == EXEC_EV_RERUN;
    if (oracle_is_view_op(o->t, p))
        return ORACLE_NO("view op %u is run", p);
    if (is_rerun != (o->runs[p] > 0))
        return ORACLE_NO("op %u: %s, but it ran %u times", p, is_rerun ? "rerun" : "run",
                         o->runs[p]);
    if (is_rerun && (op->is_leaf || op->kind->purity == TRACE_ONCE))
        return ORACLE_NO("op %u may run once only", p);
    if (!is_rerun) {
        while (o->next_op < p && oracle_has_run(o, o->next_op))
            o->next_op++;
        if (o->next_op != p && !o->c->is_strange)
            return ORACLE_NO("op %u runs first before op %u", p, o->next_op);
        o->next_op++;
    }
    if (!oracle_inputs(o, p, &hash) || !oracle_outputs(o, p, hash, &extra))
        return false;
    if (extra && o->work_op != p)
        return ORACLE_NO("op %u needs %llu bytes of workspace and has none", p,
                         (unsigned long long)extra);
    if (extra && (!oracle_paint(o, 0, o->work_offset, extra, ORACLE_NOBODY, ORACLE_WORKSPACE) ||
                  !oracle_paint(o, 0, o->work_offset, extra, ORACLE_WORKSPACE, ORACLE_NOBODY)))
        return false;
    oracle_touch(o, &o->compute, 0, o->work_offset, extra, true);
    o->work_op = ORACLE_NOBODY;
    oracle_sum(o, extra);
    o->runs[p]++;
    o->clock += op->cost_ns;
    o->compute += op->cost_ns;
    o->remat_ns += is_rerun ? op->cost_ns : 0;
    o->remat_ops += is_rerun;
    return true;
}

static inline bool oracle_event(struct oracle *o, const struct exec_event *e)
{
    bool is_op = e->kind == EXEC_EV_RUN || e->kind == EXEC_EV_RERUN || e->kind == EXEC_EV_WORK;
    if (e->index >= (is_op ? o->t->op_count : o->t->storage_count))
        return ORACLE_NO("there is no %s %u", is_op ? "op" : "storage", e->index);
    if (e->kind == EXEC_EV_MOVE) {
        uint64_t ns = oracle_link(&o->c->options->links.in[DEVICE_T0], oracle_bytes(o, e->index));
        o->clock += ns;
        o->moved_ns += ns;
    }
    if (e->clock_ns != o->clock)
        return ORACLE_NO("the clock says %llu, the events %llu", (unsigned long long)e->clock_ns,
                         (unsigned long long)o->clock);
    switch ((enum exec_event_kind)e->kind) {
    case EXEC_EV_RUN:
    case EXEC_EV_RERUN:
        return e->tier ? oracle_run_below(o, e) : oracle_run(o, e);
    case EXEC_EV_PLACE:
        return oracle_place(o, e);
    case EXEC_EV_DROP:
    case EXEC_EV_FREE:
        return oracle_leave(o, e);
    case EXEC_EV_SEND:
    case EXEC_EV_FETCH:
    case EXEC_EV_FORGET:
    case EXEC_EV_ROOM:
        return oracle_copy(o, e);
    case EXEC_EV_MOVE:
        return oracle_move(o, e);
    case EXEC_EV_WORK:
        o->work_op = e->index;
        o->work_offset = e->offset;
        return true;
    }
    return ORACLE_NO("unknown event %u", e->kind);
}

/* ---- the verdict
 * ------------------------------------------------------------------------------------- */

static inline bool oracle_same(struct oracle *o, const char *what, uint64_t reported,
                               uint64_t implied)
{
    if (reported == implied)
        return true;
    return ORACLE_NO("%s: reported %llu, the log says %llu", what, (unsigned long long)reported,
                     (unsigned long long)implied);
}

static inline bool oracle_counters(struct oracle *o)
{
    const struct exec_report *r = o->c->report;
    uint64_t base = 0,
             with_views = 0; /* views cost nothing, but count in the baseline of a trace */
    for (uint32_t p = 0; p < o->t->op_count; p++) {
        base += oracle_is_view_op(o->t, p) ? 0 : o->t->ops[p].cost_ns;
        with_views += o->t->ops[p].cost_ns;
    }
    if (!oracle_same(o, "base_ns", r->base_ns, with_views) ||
        !oracle_same(o, "clock_ns", r->clock_ns, o->clock) ||
        !oracle_same(o, "remat_ns", r->remat_ns, o->remat_ns) ||
        !oracle_same(o, "remat_ops", r->remat_ops, o->remat_ops) ||
        !oracle_same(o, "moved_bytes", r->moved_bytes, o->moved) ||
        !oracle_same(o, "swapped_bytes", r->swapped_bytes, o->swapped) ||
        !oracle_same(o, "host_ops", r->host_ops, o->host_ops) ||
        !oracle_same(o, "evictions", r->evictions_pressure + r->evictions_release,
                     o->drops + o->frees))
        return false;
    if (!o->c->is_planned &&
        (!oracle_same(o, "evictions_pressure", r->evictions_pressure, o->drops) ||
         !oracle_same(o, "evict_hash", r->evict_hash, o->hash)))
        return false;
    if (r->result != EXEC_OK) /* the last request failed half-way: its bytes are not in the log */
        return r->peak_bytes >= o->peak_address || ORACLE_NO("peak below the log's");
    oracle_wait(&o->compute, o->below);
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++) { /* everything has come to an end */
        oracle_wait(&o->compute, o->out[k]);
        oracle_wait(&o->compute, o->in[k]);
    }
    return oracle_same(o, "ops_done", r->ops_done, o->t->op_count) &&
           oracle_same(o, "clock = base + remat + moves", o->clock,
                       base + o->remat_ns + o->moved_ns - o->below_ns) &&
           oracle_same(o, "peak_bytes", r->peak_bytes, o->peak_address) &&
           oracle_same(o, "sum_bytes", r->sum_bytes, o->peak_sum) &&
           oracle_same(o, "device_ns", r->device_ns, o->compute);
}

static inline bool oracle_end(struct oracle *o)
{
    const struct trace *t = o->t;
    for (uint32_t p = 0; p < t->op_count; p++)
        if (o->runs[p] == 0 && !oracle_is_view_op(t, p))
            return ORACLE_NO("op %u never ran", p);
    for (uint32_t c = t->command_count; c-- > 0 && t->commands[c].kind != TRACE_RUN;) {
        uint32_t tensor = t->commands[c].index;
        const struct oracle_slot *slot = &o->slots[t->tensors[tensor].storage];
        if (t->commands[c].kind == TRACE_PIN && slot->home) {
            if (!slot->has_copy[slot->home] || slot->copy[slot->home] != *oracle_value(o, tensor))
                return ORACLE_NO("kept tensor %u is not at home at the end", tensor);
            continue;
        }
        if (t->commands[c].kind == TRACE_PIN &&
            (!slot->is_filled || slot->value != *oracle_value(o, tensor)))
            return ORACLE_NO("kept tensor %u (storage %u) is %s at the end", tensor,
                             t->tensors[tensor].storage,
                             slot->is_filled ? "of another version" : "away");
    }
    return true;
}

/* State that lives below is there, and its leaf never runs. */
static inline bool oracle_move_in(struct oracle *o)
{
    for (size_t i = 0; o->c->homes && i < o->c->homes->count; i++) {
        const struct plan_home *h = &o->c->homes->list[i];
        struct oracle_slot *slot = &o->slots[h->storage];
        slot->home = h->tier;
        slot->has_copy[h->tier] = true;
        slot->copy[h->tier] = o->reference[o->version_first[h->storage]];
        slot->copy_at[h->tier] = h->offset;
        o->runs[o->t->tensors[o->t->storages[h->storage].root].op] = 1;
        if (!oracle_paint(o, h->tier, h->offset, oracle_bytes(o, h->storage), ORACLE_NOBODY,
                          h->storage))
            return false;
    }
    return true;
}

/* tools/plant knows the oracle's verdict by its first words. */
static inline bool oracle_walk(struct oracle *o)
{
    const struct exec_log *log = o->c->options->log;
    char inner[ORACLE_WHY];
    size_t i = 0;
    while (i < log->count && oracle_event(o, &log->events[i]))
        i++;
    if (i == log->count && (o->c->report->result != EXEC_OK || oracle_end(o)) && oracle_counters(o))
        return true;
    memcpy(inner, o->why, sizeof inner);
    return ORACLE_NO("the oracle says, event %zu of %zu: %.160s", i, log->count, inner);
}

static inline bool oracle_judge(const struct oracle_case *c, char why[ORACLE_WHY])
{
    const struct trace *t = c->trace;
    struct oracle o = {
        .c = c, .t = t, .work_op = ORACLE_NOBODY, .hash = EBB_FNV1A_INIT, .why = why};
    uint64_t budget = c->options->budget_bytes;
    /* a budget without end: what the report claims as the highest address bounds the map */
    o.bytes[0] = budget < c->report->peak_bytes ? budget : c->report->peak_bytes;
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        o.bytes[k] = c->options->tier_bytes[k];
    uint64_t versions = 0;
    for (uint32_t s = 0; s < t->storage_count; s++)
        versions += t->storages[s].version_count;
    o.slots = calloc(t->storage_count + 1, sizeof *o.slots);
    o.reference = calloc(versions + 1, sizeof *o.reference);
    o.version_first = calloc(t->storage_count + 1, sizeof *o.version_first);
    o.runs = calloc(t->op_count + 1, sizeof *o.runs);
    for (int k = 0; k < DEVICE_TIERS; k++) {
        o.bytes[k] -= o.bytes[k] % ORACLE_UNIT;
        o.pieces[k] = 1;
        o.room[k] = 64;
        o.map[k] = malloc(o.room[k] * sizeof *o.map[k]);
        o.map[k][0] = (struct oracle_piece){.owner = ORACLE_NOBODY};
    }
    oracle_reference(&o);
    bool is_good = oracle_move_in(&o) && oracle_walk(&o);
    free(o.slots);
    free(o.reference);
    free(o.version_first);
    free(o.runs);
    for (int k = 0; k < DEVICE_TIERS; k++)
        free(o.map[k]);
    return is_good;
}

#endif
