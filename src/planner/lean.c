/* lean.c - a plan without what serves nobody.
 *
 * Games and policies decide as they go: a victim is copied out because it may be wanted again, an
 * output is made because somebody may read it, and what leaves stays until its bytes are wanted.
 * When the whole plan is known, looking back from its end tells what was read at last:
 *
 *   copies out that nobody fetches, fetches and reruns that nobody reads, and outputs that nobody
 *   reads where the op can do without are left out;
 *   what leaves does so behind its last reader, with its copy out: the room is there for copies in
 *   that come early (early.c keeps it until the copy has ended, where nobody wants the room).
 *
 * First runs stay. Addresses and moves are taken away. */
#include "planner/lean.h"

#include <string.h>

#include "base/heap.h"
#include "device/device.h"

#define NONE UINT32_MAX

struct fill { /* by a RUN or FETCH */
    uint32_t storage, place, next;
};

struct leaving { /* the end of a residence */
    uint32_t storage;
    uint32_t was;   /* step of its DROP; NONE: it stays to the end */
    uint32_t sends; /* step of the copy that goes before; linked by next_send */
    uint32_t next;  /* at the same step */
};

struct lean {
    const struct trace *trace;
    struct plan plan; /* as given, without moves and addresses */
    struct ebb_arena arena;
    struct fill *fills;
    struct leaving *leavings;
    uint32_t fill_count, leaving_count;
    uint32_t *filled, *leaves, *next_send; /* per step: lists of fills, of leavings, of copies */
    bool *is_kept, *is_clean, *is_again;   /* per step */
    /* per storage, while the plan is walked */
    bool *is_live, *is_written_later, *is_read_below, *is_wanted[DEVICE_TIERS];
    uint32_t *drop, *leaving, *pending; /* pending: copies that go with it */
    uint32_t *sent[DEVICE_TIERS];       /* its copy there, as written so far; NONE: there is none */
};

static bool is_home(const struct lean *l, uint32_t storage, int tier)
{
    const struct plan_home *h = plan_home_of(&l->plan.homes, storage);
    return h && h->tier == tier;
}

/* ---- forwards: what each step does ------------------------------------------------------------ */

static void note_fill(struct lean *l, size_t at, uint32_t storage, uint32_t place)
{
    l->fills[l->fill_count] = (struct fill){storage, place, l->filled[at]};
    l->filled[at] = l->fill_count++;
}

static void look_at(struct lean *l, const struct plan_walk *walk, size_t at, uint32_t *placed)
{
    const struct plan_step *s = &l->plan.steps[at];
    const struct trace *t = l->trace;
    l->filled[at] = l->leaves[at] = l->next_send[at] = NONE;
    if (s->act == PLAN_PLACE) {
        placed[s->index] = (uint32_t)at;
    } else if (s->act == PLAN_SEND) {
        const struct plan_residence *r = &walk->storages[s->index];
        l->is_clean[at] = r->copy[s->tier] == r->version + 1;
    } else if (s->act == PLAN_FETCH) {
        note_fill(l, at, s->index, placed[s->index]);
    } else if (s->act == PLAN_RUN && !s->tier) {
        const struct trace_op *op = &t->ops[s->index];
        l->is_again[at] = walk->run_counts[s->index] > 0;
        for (uint32_t k = 0; k < op->output_count; k++) {
            uint32_t o = trace_output_of(t, op, k)->storage;
            if (plan_walk_fate(walk, op->output_first + k, 0) == PLAN_FILLED)
                note_fill(l, at, o, placed[o]);
        }
    }
}

static enum ebb_status look(struct lean *l, struct ebb_error *err)
{
    size_t storages = (size_t)l->trace->storage_count + 1;
    uint32_t *placed = ebb_arena_calloc(&l->arena, storages, sizeof *placed);
    struct plan_walk walk;
    EBB_TRY(ebb_arena_status(&l->arena, err));
    enum ebb_status status = plan_walk_init(&walk, l->trace, &l->plan, err);
    for (size_t i = 0; i < l->plan.step_count && status == EBB_OK; i++) {
        look_at(l, &walk, i, placed);
        status = plan_walk_step(&walk, i, err);
    }
    plan_walk_fini(&walk);
    return status;
}

/* ---- backwards: what is read at last ---------------------------------------------------------- */

/* The residence ends behind step `at`, if nobody behind it was found to read it. */
static void note_leaving(struct lean *l, size_t at, uint32_t storage)
{
    if (l->leaving[storage] != NONE || l->drop[storage] == NONE)
        return;
    l->leavings[l->leaving_count] = (struct leaving){.storage = storage,
                                                     .was = l->drop[storage],
                                                     .sends = l->pending[storage],
                                                     .next = l->leaves[at]};
    l->pending[storage] = NONE;
    l->leaves[at] = l->leaving_count;
    l->leaving[storage] = l->leaving_count++;
}

static void read_at(struct lean *l, size_t at, uint32_t storage)
{
    l->is_live[storage] = true;
    note_leaving(l, at, storage);
}

/* Step `at` fills it: a residence begins, or, when that is not kept, is none. */
static void begin_at(struct lean *l, size_t at, const struct fill *f, bool is_kept)
{
    if (is_kept) {
        note_leaving(l, at, f->storage);
        l->is_kept[f->place] = true;
    }
    l->is_live[f->storage] = l->is_written_later[f->storage] = false;
    l->leaving[f->storage] = l->drop[f->storage] = NONE;
}

/* The host reads and writes copies: what lies in tier 0 is none of its business. */
static void settle_below(struct lean *l, size_t at)
{
    const struct plan_step *s = &l->plan.steps[at];
    const struct trace *t = l->trace;
    const struct trace_op *op = &t->ops[s->index];
    l->is_kept[at] = true;
    for (uint32_t k = 0; k < op->input_count; k++) {
        uint32_t storage = t->tensors[t->inputs[op->input_first + k]].storage;
        l->is_wanted[s->tier][storage] = l->is_read_below[storage] = true;
    }
}

static void settle_run(struct lean *l, size_t at)
{
    const struct trace *t = l->trace;
    const struct trace_op *op = &t->ops[l->plan.steps[at].index];
    bool is_wanted = !l->is_again[at];
    for (uint32_t k = 0; k < op->output_count; k++)
        if (trace_output_of(t, op, k)->alias == TRACE_MUTATE)
            is_wanted |= l->is_live[trace_output_of(t, op, k)->storage];
    for (uint32_t f = l->filled[at]; f != NONE; f = l->fills[f].next)
        is_wanted |= l->is_live[l->fills[f].storage];
    for (uint32_t f = l->filled[at]; f != NONE; f = l->fills[f].next) {
        bool is_read = l->is_live[l->fills[f].storage];
        begin_at(l, at, &l->fills[f],
                 is_wanted && (is_read || op->is_leaf || !plan_can_skip(op->kind)));
    }
    if (!is_wanted)
        return;
    l->is_kept[at] = true;
    for (uint32_t k = 0; k < op->output_count; k++)
        if (trace_output_of(t, op, k)->alias == TRACE_MUTATE)
            l->is_written_later[trace_output_of(t, op, k)->storage] = true;
    for (uint32_t k = 0; k < op->input_count; k++)
        read_at(l, at, t->tensors[t->inputs[op->input_first + k]].storage);
}

/* A copy out goes with its storage, unless that is written before. */
static void settle_send(struct lean *l, size_t at)
{
    const struct plan_step *s = &l->plan.steps[at];
    if (l->is_clean[at] || !l->is_wanted[s->tier][s->index])
        return;
    l->is_wanted[s->tier][s->index] = false;
    if (l->is_read_below[s->index]) { /* it may be written there: the copy goes before that */
        l->is_read_below[s->index] = false;
        l->is_kept[at] = true;
        read_at(l, at, s->index);
        return;
    }
    if (l->is_written_later[s->index] || l->drop[s->index] == NONE) {
        l->is_kept[at] = true;
        l->is_live[s->index] = true;
        return;
    }
    bool is_read = l->leaving[s->index] != NONE; /* else its last reader comes before */
    uint32_t *list = is_read ? &l->leavings[l->leaving[s->index]].sends : &l->pending[s->index];
    l->next_send[at] = *list;
    *list = (uint32_t)at;
    l->is_live[s->index] = true;
}

static void settle(struct lean *l)
{
    for (size_t i = l->plan.step_count; i-- > 0;) {
        const struct plan_step *s = &l->plan.steps[i];
        switch (s->act) {
        case PLAN_DROP:
            l->is_live[s->index] = l->is_written_later[s->index] = false;
            l->leaving[s->index] = NONE;
            l->drop[s->index] = (uint32_t)i;
            break;
        case PLAN_FORGET:
            l->is_wanted[s->tier][s->index] = false;
            break;
        case PLAN_SEND:
            settle_send(l, i);
            break;
        case PLAN_FETCH:
            l->is_kept[i] = l->is_live[s->index];
            l->is_wanted[s->tier][s->index] |= l->is_kept[i];
            begin_at(l, i, &l->fills[l->filled[i]], l->is_kept[i]);
            break;
        case PLAN_RUN:
            if (s->tier)
                settle_below(l, i);
            else
                settle_run(l, i);
            break;
        default: /* a PLACE is kept by who fills it */
            break;
        }
    }
}

/* ---- forwards again: written down ------------------------------------------------------------- */

/* A copy is given up unless it was left out, or written over by one that stood behind. */
static enum ebb_status write(struct lean *l, struct plan *to, size_t at, struct ebb_error *err)
{
    const struct plan_step *s = &l->plan.steps[at];
    if (s->act == PLAN_SEND)
        l->sent[s->tier][s->index] = (uint32_t)at;
    if (s->act == PLAN_FORGET) {
        uint32_t *sent = &l->sent[s->tier][s->index];
        if (*sent == NONE || *sent > at || is_home(l, s->index, s->tier))
            return EBB_OK;
        *sent = NONE;
    }
    return plan_add(to, (enum plan_act)s->act, s->index, s->offset, s->tier, err);
}

static enum ebb_status write_all(struct lean *l, struct plan *to, struct ebb_error *err)
{
    for (size_t i = 0; i < l->plan.step_count; i++) {
        if (l->is_kept[i] || l->plan.steps[i].act == PLAN_FORGET)
            EBB_TRY(write(l, to, i, err));
        for (uint32_t k = l->leaves[i]; k != NONE; k = l->leavings[k].next) {
            const struct leaving *leaving = &l->leavings[k];
            for (uint32_t j = leaving->sends; j != NONE; j = l->next_send[j])
                EBB_TRY(write(l, to, j, err));
            EBB_TRY(write(l, to, leaving->was, err));
        }
    }
    return EBB_OK;
}

static enum ebb_status allocate(struct lean *l, struct ebb_error *err)
{
    size_t n = l->plan.step_count + 2, storages = (size_t)l->trace->storage_count + 1;
    struct ebb_arena *a = &l->arena;
    l->fills = ebb_arena_calloc(a, n, sizeof *l->fills);
    l->leavings = ebb_arena_calloc(a, n, sizeof *l->leavings);
    l->filled = ebb_arena_calloc(a, n, sizeof *l->filled);
    l->leaves = ebb_arena_calloc(a, n, sizeof *l->leaves);
    l->next_send = ebb_arena_calloc(a, n, sizeof *l->next_send);
    l->is_kept = ebb_arena_calloc(a, n, 1);
    l->is_clean = ebb_arena_calloc(a, n, 1);
    l->is_again = ebb_arena_calloc(a, n, 1);
    l->is_live = ebb_arena_calloc(a, storages, 1);
    l->is_written_later = ebb_arena_calloc(a, storages, 1);
    l->is_read_below = ebb_arena_calloc(a, storages, 1);
    l->drop = ebb_arena_calloc(a, storages, sizeof *l->drop);
    l->leaving = ebb_arena_calloc(a, storages, sizeof *l->leaving);
    l->pending = ebb_arena_calloc(a, storages, sizeof *l->pending);
    for (int k = 0; k < DEVICE_TIERS; k++) {
        l->is_wanted[k] = ebb_arena_calloc(a, storages, 1);
        l->sent[k] = ebb_arena_calloc(a, storages, sizeof *l->sent[k]);
    }
    EBB_TRY(ebb_arena_status(a, err));
    memset(l->drop, 0xff, storages * sizeof *l->drop);
    memset(l->leaving, 0xff, storages * sizeof *l->leaving);
    memset(l->pending, 0xff, storages * sizeof *l->pending);
    for (int k = 0; k < DEVICE_TIERS; k++)
        memset(l->sent[k], 0xff, storages * sizeof *l->sent[k]);
    return EBB_OK;
}

/* At the end the keep set lies there, and homes have what belongs to them. */
static void begin(struct lean *l)
{
    const struct trace *t = l->trace;
    for (uint32_t c = t->command_count; c-- > 0 && t->commands[c].kind != TRACE_RUN;)
        if (t->commands[c].kind == TRACE_PIN)
            l->is_live[t->tensors[t->commands[c].index].storage] = true;
    for (size_t i = 0; i < l->plan.homes.count; i++) {
        const struct plan_home *h = &l->plan.homes.list[i];
        l->is_live[h->storage] = false;
        l->is_wanted[h->tier][h->storage] = true;
    }
}

enum ebb_status planner_lean(const struct trace *trace, const struct plan *from, struct plan *to,
                             struct ebb_error *err)
{
    struct lean l = {.trace = trace};
    ebb_arena_init(&l.arena);
    plan_init(&l.plan);
    enum ebb_status status = plan_copy(&l.plan, from, err);
    plan_strip_offsets(&l.plan);
    if (status == EBB_OK && plan_has_act(from, PLAN_ROOM)) { /* left as it is */
        ebb_arena_fini(&l.arena);
        *to = l.plan;
        return EBB_OK;
    }
    EBB_THEN(status, allocate(&l, err));
    EBB_THEN(status, look(&l, err));
    if (status == EBB_OK) {
        begin(&l);
        settle(&l);
    }
    EBB_THEN(status, write_all(&l, to, err));
    EBB_THEN(status, plan_homes_copy(&to->homes, &from->homes, err));
    to->signature = from->signature;
    to->exact_bytes = from->exact_bytes;
    to->budget_bytes = from->budget_bytes;
    memcpy(to->planner, from->planner, sizeof to->planner);
    plan_fini(&l.plan);
    ebb_arena_fini(&l.arena);
    return status;
}
