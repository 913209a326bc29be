/* sched.c - the exact evaluator of schedules, in integers.
 *
 * Stage t: (1) node t runs; so does the maker of every item that row t+1 keeps and row t does not;
 * so does the maker of every input of these that row t does not keep. (2) In node order: outputs
 * are allocated, the node runs, and every item whose last use this was and that row t+1 does not
 * keep is released. Items kept by row t for nothing go first. */
#include "planner/sched.h"

#include <string.h>

#include "base/heap.h"

enum ebb_status planner_sched_init(struct planner_sched *s, const struct planner_graph *graph,
                                   struct ebb_error *err)
{
    *s = (struct planner_sched){.graph = graph, .stages = graph->node_count};
    s->words = (graph->item_count + 63) / 64;
    EBB_TRY(ebb_new(&s->keep, (size_t)s->stages + 1, s->words * sizeof *s->keep, err));
    for (uint32_t i = 0; i < graph->item_count; i++)
        if (graph->items[i].is_kept)
            planner_keep(s, s->stages, i);
    return EBB_OK;
}

void planner_sched_fini(struct planner_sched *s)
{
    ebb_free(s->keep);
    s->keep = NULL;
}

void planner_sched_copy(struct planner_sched *to, const struct planner_sched *from)
{
    uint64_t *keep = to->keep;
    memcpy(keep, from->keep, ((size_t)from->stages + 1) * from->words * sizeof *keep);
    *to = *from;
    to->keep = keep;
}

void planner_sched_clear(struct planner_sched *s)
{
    memset(s->keep, 0, (size_t)s->stages * s->words * sizeof *s->keep);
}

void planner_sched_keep(struct planner_sched *s, uint32_t i, uint32_t first, uint32_t last)
{
    for (uint32_t t = first; t <= last; t++)
        planner_keep(s, t, i);
}

void planner_sched_keep_all(struct planner_sched *s)
{
    const struct planner_graph *g = s->graph;
    planner_sched_clear(s);
    for (uint32_t i = 0; i < g->item_count; i++) {
        const struct planner_item *item = &g->items[i];
        uint32_t last = item->is_kept ? s->stages - 1 : planner_graph_last_use(g, item, 0);
        planner_sched_keep(s, i, item->node + 1, last);
    }
}

void planner_sched_keep_newest(struct planner_sched *s)
{
    const struct planner_graph *g = s->graph;
    planner_sched_clear(s);
    for (uint32_t t = 1; t < s->stages; t++)
        for (uint32_t o = 0; o < g->nodes[t - 1].out_count; o++)
            planner_keep(s, t, g->nodes[t - 1].out_first + o);
}

void planner_sched_keep_gradients(struct planner_sched *s)
{
    const struct planner_graph *g = s->graph;
    planner_sched_clear(s);
    for (uint32_t v = g->forward_count; v < g->node_count; v++)
        for (uint32_t k = 0; k < g->nodes[v].in_count; k++) {
            uint32_t u = g->ins[g->nodes[v].in_first + k];
            if (u >= g->forward_count)
                planner_sched_keep(s, u, u + 1, v);
        }
}

enum ebb_status planner_eval_init(struct planner_eval *ev, const struct planner_graph *graph,
                                  struct ebb_error *err)
{
    *ev = (struct planner_eval){.graph = graph, .run_words = (graph->node_count + 63) / 64};
    ev->last_use = ebb_arena_calloc(&ev->arena, graph->item_count, sizeof *ev->last_use);
    ev->stamp = ebb_arena_calloc(&ev->arena, graph->item_count, sizeof *ev->stamp);
    ev->run = ebb_arena_calloc(&ev->arena, ev->run_words, sizeof *ev->run);
    enum ebb_status status = ebb_arena_status(&ev->arena, err);
    if (status != EBB_OK)
        planner_eval_fini(ev);
    return status;
}

void planner_eval_fini(struct planner_eval *ev)
{
    ebb_arena_fini(&ev->arena);
    *ev = (struct planner_eval){0};
}

/* Begin a stage: which nodes do rows in -> out ask for by themselves? */
static void stage_begin(struct planner_eval *ev, uint32_t t, const uint64_t *in,
                        const uint64_t *out)
{
    const struct planner_graph *g = ev->graph;
    uint32_t words = (g->item_count + 63) / 64;
    ev->now++;
    memset(ev->run, 0, (t / 64 + 1) * sizeof *ev->run);
    planner_bit_set(ev->run, t);
    for (uint32_t w = 0; w < words; w++)
        for (uint64_t fresh = out[w] & ~in[w]; fresh; fresh &= fresh - 1)
            planner_bit_set(ev->run, g->items[w * 64 + (uint32_t)__builtin_ctzll(fresh)].node);
}

/* Inputs of v: note the last use; ask for the makers of those absent. Walking v downwards, the
 * first reader met is the last to run. */
static void stage_need(struct planner_eval *ev, uint32_t v, const uint64_t *in)
{
    const struct planner_graph *g = ev->graph;
    const uint32_t *list = &g->ins[g->nodes[v].in_first];
    for (uint32_t k = 0; k < g->nodes[v].in_count; k++) {
        uint32_t i = list[k];
        if (ev->stamp[i] != ev->now) {
            ev->stamp[i] = ev->now;
            ev->last_use[i] = v;
            if (!planner_bit(in, i))
                planner_bit_set(ev->run, g->items[i].node);
        }
    }
}

static bool stage_close_runs(struct planner_eval *ev, uint32_t t, const uint64_t *in)
{
    const struct planner_graph *g = ev->graph;
    for (uint32_t w = t / 64 + 1; w-- > 0;) {
        uint64_t todo = ev->run[w];
        while (todo) {
            uint32_t bit = 63 - (uint32_t)__builtin_clzll(todo);
            uint32_t v = w * 64 + bit;
            if (v != t && g->nodes[v].deadline < t)
                return false;
            stage_need(ev, v, in);
            todo = ev->run[w] & ((UINT64_C(1) << bit) - 1);
        }
    }
    return true;
}

static bool is_used(const struct planner_eval *ev, uint32_t i)
{
    return ev->stamp[i] == ev->now;
}

uint64_t planner_row_bytes(const struct planner_graph *g, const uint64_t *row)
{
    uint32_t words = (g->item_count + 63) / 64;
    uint64_t bytes = 0;
    for (uint32_t w = 0; w < words; w++)
        for (uint64_t left = row[w]; left; left &= left - 1)
            bytes += g->items[w * 64 + (uint32_t)__builtin_ctzll(left)].bytes;
    return bytes;
}

/* Bytes of a row that the stage begins with: what is kept for nothing goes first. */
static uint64_t idle_bytes(const struct planner_eval *ev, const uint64_t *in, const uint64_t *out)
{
    const struct planner_graph *g = ev->graph;
    uint32_t words = (g->item_count + 63) / 64;
    uint64_t bytes = 0;
    for (uint32_t w = 0; w < words; w++)
        for (uint64_t left = in[w] & ~out[w]; left; left &= left - 1) {
            uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(left);
            if (!is_used(ev, i))
                bytes += g->items[i].bytes;
        }
    return bytes;
}

struct slot { /* effect of one run */
    uint64_t made, transient, freed;
};

static struct slot stage_slot(const struct planner_eval *ev, uint32_t t, uint32_t v,
                              const uint64_t *in, const uint64_t *out)
{
    const struct planner_graph *g = ev->graph;
    const struct planner_node *node = &g->nodes[v];
    struct slot slot = {.transient = node->workspace_bytes};
    for (uint32_t o = node->out_first; o < node->out_first + node->out_count; o++) {
        if (planner_bit(in, o)) {
            if (node->needs_scratch)
                slot.transient += g->items[o].bytes;
        } else if (is_used(ev, o) || planner_bit(out, o)) {
            slot.made += g->items[o].bytes;
        } else if (v == t || node->out_count == 1 || node->needs_scratch) {
            slot.transient += g->items[o].bytes;
        }
    }
    for (uint32_t k = 0; k < node->in_count; k++) {
        uint32_t i = g->ins[node->in_first + k];
        if (ev->last_use[i] == v && !planner_bit(out, i))
            slot.freed += g->items[i].bytes;
    }
    return slot;
}

bool planner_stage_eval_row(struct planner_eval *ev, uint32_t t, const uint64_t *in,
                            uint64_t in_bytes, const uint64_t *out, struct planner_stage *stage)
{
    const struct planner_graph *g = ev->graph;
    *stage = (struct planner_stage){0};
    stage_begin(ev, t, in, out);
    if (!stage_close_runs(ev, t, in))
        return false;
    uint64_t bytes = in_bytes - idle_bytes(ev, in, out);
    for (uint32_t w = 0; w <= t / 64; w++)
        for (uint64_t left = ev->run[w]; left; left &= left - 1) {
            uint32_t v = w * 64 + (uint32_t)__builtin_ctzll(left);
            struct slot slot = stage_slot(ev, t, v, in, out);
            stage->cost += g->nodes[v].cost;
            bytes += slot.made;
            if (bytes + slot.transient > stage->peak)
                stage->peak = bytes + slot.transient;
            bytes -= slot.freed;
        }
    return true;
}

bool planner_stage_eval(struct planner_eval *ev, uint32_t t, const uint64_t *in,
                        const uint64_t *out, struct planner_stage *stage)
{
    return planner_stage_eval_row(ev, t, in, planner_row_bytes(ev->graph, in), out, stage);
}

bool planner_sched_eval(struct planner_eval *ev, struct planner_sched *s,
                        struct planner_stage *stages)
{
    uint64_t cost = 0, peak = 0;
    for (uint32_t t = 0; t < s->stages; t++) {
        struct planner_stage stage;
        if (!planner_stage_eval(ev, t, planner_row(s, t), planner_row(s, t + 1), &stage))
            return false;
        cost += stage.cost;
        peak = stage.peak > peak ? stage.peak : peak;
        if (stages)
            stages[t] = stage;
    }
    s->cost = cost;
    s->peak = peak;
    return true;
}

/* Keep what is needed in stage t but cannot be made there. Going down the stages, the keeping
 * reaches back to a stage where it can: at the latest the node's own. */
static void close_stage(struct planner_eval *ev, struct planner_sched *s, uint32_t t)
{
    const struct planner_graph *g = ev->graph;
    uint64_t *in = planner_row(s, t);
    const uint64_t *out = planner_row(s, t + 1);
    for (uint32_t w = 0; w < s->words; w++) /* nothing exists before its own stage */
        for (uint64_t left = in[w]; left; left &= left - 1) {
            uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(left);
            if (g->items[i].node >= t)
                planner_bit_clear(in, i);
        }
    for (uint32_t w = 0; w < s->words; w++)
        for (uint64_t fresh = out[w] & ~in[w]; fresh; fresh &= fresh - 1) {
            uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(fresh);
            if (g->items[i].node != t && g->nodes[g->items[i].node].deadline < t)
                planner_bit_set(in, i);
        }
    stage_begin(ev, t, in, out);
    for (uint32_t w = t / 64 + 1; w-- > 0;) {
        uint64_t todo = ev->run[w];
        while (todo) {
            uint32_t bit = 63 - (uint32_t)__builtin_clzll(todo);
            uint32_t v = w * 64 + bit;
            for (uint32_t k = 0; k < g->nodes[v].in_count; k++) {
                uint32_t i = g->ins[g->nodes[v].in_first + k];
                uint32_t maker = g->items[i].node;
                if (maker != t && g->nodes[maker].deadline < t)
                    planner_bit_set(in, i);
            }
            stage_need(ev, v, in);
            todo = ev->run[w] & ((UINT64_C(1) << bit) - 1);
        }
    }
}

void planner_sched_close(struct planner_eval *ev, struct planner_sched *s)
{
    for (uint32_t t = s->stages; t-- > 0;)
        close_stage(ev, s, t);
}

void planner_sched_trim(struct planner_eval *ev, struct planner_sched *s)
{
    for (uint32_t t = s->stages; t-- > 0;) {
        uint64_t *in = planner_row(s, t);
        const uint64_t *out = planner_row(s, t + 1);
        stage_begin(ev, t, in, out);
        if (!stage_close_runs(ev, t, in))
            return;
        for (uint32_t w = 0; w < s->words; w++)
            for (uint64_t left = in[w] & ~out[w]; left; left &= left - 1) {
                uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(left);
                if (!is_used(ev, i))
                    planner_bit_clear(in, i);
            }
    }
}

/* ---- plan steps ----------------------------------------------------------------------------- */

/* Of what is never made there is nothing to do, whatever a schedule keeps. */
static enum ebb_status emit_copy(const struct planner_graph *g, enum plan_act act, uint32_t item,
                                 int tier, struct plan *plan, struct ebb_error *err)
{
    if (g->items[item].is_void)
        return EBB_OK;
    return plan_add(plan, act, g->items[item].storage,
                    act == PLAN_PLACE || act == PLAN_SEND ? PLAN_NOWHERE : 0, (uint8_t)tier, err);
}

static enum ebb_status emit(const struct planner_graph *g, enum plan_act act, uint32_t item,
                            struct plan *plan, struct ebb_error *err)
{
    return emit_copy(g, act, item, 0, plan, err);
}

/* What v has just made and stage t sends. */
static enum ebb_status emit_sends(const struct planner_sched *s,
                                  const struct planner_transfers *transfers, uint32_t t, uint32_t v,
                                  const uint64_t *in, struct plan *plan, struct ebb_error *err)
{
    const struct planner_node *node = &s->graph->nodes[v];
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++)
        for (uint32_t o = node->out_first; o < node->out_first + node->out_count; o++)
            if (planner_bit(transfers->send[tier] + (size_t)t * s->words, o) && !planner_bit(in, o))
                EBB_TRY(emit_copy(s->graph, PLAN_SEND, o, tier, plan, err));
    return EBB_OK;
}

static enum ebb_status emit_run(struct planner_eval *ev, const struct planner_sched *s, uint32_t t,
                                uint32_t v, const uint64_t *in, const uint64_t *out,
                                const struct planner_transfers *transfers, struct plan *plan,
                                struct ebb_error *err)
{
    const struct planner_graph *g = ev->graph;
    const struct planner_node *node = &g->nodes[v];
    bool is_first = v == t || node->out_count == 1;
    for (uint32_t o = node->out_first; o < node->out_first + node->out_count; o++)
        if (!planner_bit(in, o) && (is_first || is_used(ev, o) || planner_bit(out, o)))
            EBB_TRY(emit(g, PLAN_PLACE, o, plan, err));
    EBB_TRY(plan_add(plan, PLAN_RUN, node->op, PLAN_NOWHERE, 0, err));
    if (transfers)
        EBB_TRY(emit_sends(s, transfers, t, v, in, plan, err));
    for (uint32_t k = 0; k < node->in_count; k++) {
        uint32_t i = g->ins[node->in_first + k];
        if (ev->last_use[i] == v && !planner_bit(out, i))
            EBB_TRY(emit(g, PLAN_DROP, i, plan, err));
    }
    for (uint32_t o = node->out_first; o < node->out_first + node->out_count; o++)
        if (is_first && !planner_bit(in, o) && !is_used(ev, o) && !planner_bit(out, o))
            EBB_TRY(emit(g, PLAN_DROP, o, plan, err));
    return EBB_OK;
}

/* What comes back when stage t begins, and what leaves that is there already. */
static enum ebb_status emit_transfers(const struct planner_sched *s,
                                      const struct planner_transfers *transfers, int tier,
                                      uint32_t t, struct plan *plan, struct ebb_error *err)
{
    const struct planner_graph *g = s->graph;
    const uint64_t *fetch = transfers->fetch[tier], *send = transfers->send[tier];
    size_t row = (size_t)t * s->words;
    for (uint32_t i = 0; i < g->item_count; i++) {
        if (planner_bit(fetch + row, i)) {
            bool is_last = true;
            for (uint32_t k = t + 1; k < s->stages && is_last; k++)
                is_last = !planner_bit(fetch + (size_t)k * s->words, i);
            EBB_TRY(emit(g, PLAN_PLACE, i, plan, err));
            EBB_TRY(emit_copy(g, PLAN_FETCH, i, tier, plan, err));
            if (is_last)
                EBB_TRY(emit_copy(g, PLAN_FORGET, i, tier, plan, err));
        } else if (planner_bit(send + row, i) && planner_bit(planner_row(s, t), i)) {
            EBB_TRY(emit_copy(g, PLAN_SEND, i, tier, plan, err));
        }
    }
    return EBB_OK;
}

const uint64_t *planner_transfers_row(const struct planner_sched *s,
                                      const struct planner_transfers *transfers, uint32_t t)
{
    size_t row = (size_t)t * s->words;
    for (uint32_t w = 0; w < s->words; w++)
        transfers->row[w] = planner_row(s, t)[w] | transfers->fetch[DEVICE_HOST][row + w] |
                            transfers->fetch[DEVICE_FILE][row + w];
    return transfers->row;
}

enum ebb_status planner_sched_emit(struct planner_eval *ev, const struct planner_sched *s,
                                   const struct planner_transfers *transfers, struct plan *plan,
                                   struct ebb_error *err)
{
    const struct planner_graph *g = s->graph;
    for (uint32_t t = 0; t < s->stages; t++) {
        const uint64_t *in = planner_row(s, t), *out = planner_row(s, t + 1);
        for (int tier = DEVICE_HOST; tier < DEVICE_TIERS && transfers; tier++)
            EBB_TRY(emit_transfers(s, transfers, tier, t, plan, err));
        if (transfers)
            in = planner_transfers_row(s, transfers, t);
        stage_begin(ev, t, in, out);
        if (!stage_close_runs(ev, t, in))
            return ebb_fail(err, EBB_EINTERNAL, "planner: stage %u needs an op that cannot run", t);
        for (uint32_t w = 0; w < s->words; w++)
            for (uint64_t left = in[w] & ~out[w]; left; left &= left - 1) {
                uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(left);
                if (!is_used(ev, i))
                    EBB_TRY(emit(g, PLAN_DROP, i, plan, err));
            }
        for (uint32_t w = 0; w <= t / 64; w++)
            for (uint64_t left = ev->run[w]; left; left &= left - 1)
                EBB_TRY(emit_run(ev, s, t, w * 64 + (uint32_t)__builtin_ctzll(left), in, out,
                                 transfers, plan, err));
    }
    return EBB_OK;
}

/* Node -> the earliest first run of it or any later node in the plan, as a step. Where that is not
 * its own, the plan runs it later than the graph does. */
static void first_runs(const struct planner_graph *g, const struct plan *plan, size_t *of_op,
                       size_t *own, size_t *least)
{
    for (uint32_t o = 0; o < g->trace->op_count; o++)
        of_op[o] = SIZE_MAX;
    for (size_t k = plan->step_count; k-- > 0;)
        if (plan->steps[k].act == PLAN_RUN)
            of_op[plan->steps[k].index] = k;
    least[g->node_count] = SIZE_MAX;
    for (uint32_t v = g->node_count; v-- > 0;) {
        own[v] = of_op[g->nodes[v].op];
        least[v] = own[v] < least[v + 1] ? own[v] : least[v + 1];
    }
}

enum ebb_status planner_sched_from_plan(struct planner_sched *s, const struct plan *plan,
                                        struct ebb_error *err)
{
    const struct planner_graph *g = s->graph;
    uint32_t next = 0;        /* node whose first run comes next */
    bool is_just_run = false; /* only drops since the last first run: they belong to its stage */
    struct ebb_arena arena = {0};
    size_t *own = ebb_arena_calloc(&arena, g->node_count, sizeof *own);
    size_t *least = ebb_arena_calloc(&arena, (size_t)g->node_count + 1, sizeof *least);
    size_t *of_op = ebb_arena_calloc(&arena, g->trace->op_count, sizeof *of_op);
    uint64_t *resident = ebb_arena_calloc(&arena, s->words, sizeof *resident);
    enum ebb_status status = ebb_arena_status(&arena, err);
    if (status != EBB_OK)
        goto out;
    first_runs(g, plan, of_op, own, least);
    memset(s->keep, 0, (size_t)s->stages * s->words * sizeof *s->keep);
    for (size_t k = 0; k < plan->step_count; k++) {
        const struct plan_step *step = &plan->steps[k];
        bool is_place = step->act == PLAN_PLACE, is_drop = step->act == PLAN_DROP;
        uint32_t item = is_place || is_drop ? g->item_of[step->index] : TRACE_NONE;
        /* what the plan runs later: its stage changes nothing but what it makes */
        while (next + 1 < s->stages && own[next] != least[next]) {
            memcpy(planner_row(s, next + 1), resident, s->words * sizeof *resident);
            for (uint32_t o = 0; o < g->nodes[next].out_count; o++)
                planner_bit_set(planner_row(s, next + 1), g->nodes[next].out_first + o);
            next++;
            is_just_run = false;
        }
        is_just_run &= is_drop;
        if (is_place && item != TRACE_NONE)
            planner_bit_set(resident, item);
        if (is_drop && item != TRACE_NONE) {
            planner_bit_clear(resident, item);
            if (is_just_run)
                planner_bit_clear(planner_row(s, next), item);
        }
        if (step->act != PLAN_RUN || next + 1 >= s->stages || step->index != g->nodes[next].op)
            continue;
        next++;
        memcpy(planner_row(s, next), resident, s->words * sizeof *resident);
        is_just_run = true;
    }
out:
    ebb_arena_fini(&arena);
    return status;
}
