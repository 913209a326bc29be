/* early.c - a plan with copies, its copies moved to where they can go beside the ops.
 *
 * Planners and policies write a SEND before the DROP it serves and a FETCH before its reader: every
 * byte costs its full time. Here the same steps are put elsewhere; what runs, stays and leaves does
 * not change.
 *
 *   sends    forward: when the link is free, of the versions that are final, the one that leaves T0
 *            first; never where its tier has no room for the copy so long
 *   drops    of what was sent: so late that the copy has ended, or nobody could take the bytes
 *            without waiting for it; never where the byte sum would pass the budget
 *   fetches  backward: so early that the copy ends when its reader, or the next copy on the link,
 *            begins; never where the byte sum would pass the budget
 *
 * Time is the sum of the costs of the ops before. Where readers wait all the same, it is done again
 * with the times at which they go on: bytes then stay until their copy has really left, and what
 * comes in finds others. Addresses are given anew. */
#include <string.h>

#include "base/heap.h"
#include "mem/mem.h"
#include "planner/planner.h"
#include "planner/sums.h"

#define LITTLE 500       /* moves may take this part of the step */
#define MOST_WAITING 512 /* copies that are looked at for the next one */
#define PASSES 3         /* of moving, as long as readers wait */

struct copy {
    uint32_t step;  /* where the plan has it */
    uint32_t place; /* FETCH: its PLACE */
    uint32_t from;  /* no earlier than before this step */
    uint32_t user;  /* SEND: the DROP behind; FETCH: first reader */
    uint32_t at;    /* new place: before this step */
    uint32_t made;  /* FETCH: 1 + number of the SEND that made the bytes; 0: none */
    uint32_t again; /* SEND: where the storage is placed next; UINT32_MAX: nowhere */
    uint32_t back;  /* SEND: 1 + number of the FETCH there; 0: none */
    uint64_t bytes, ns;
    uint64_t end_ns; /* SEND: when it has ended */
    uint64_t room;   /* SEND: bytes it takes below; 0: its place is there already */
    bool is_done;
};

struct early {
    const struct trace *trace;
    struct plan plan; /* as given, without moves and addresses */
    const struct planner_tiers *tiers;
    uint64_t budget;                /* of tier 0; where there is none, what the plan takes */
    struct sums sums[DEVICE_TIERS]; /* bytes in each tier at each step */
    uint64_t *clock;                /* before each step; one more at the end */
    struct copy *copies;
    size_t copy_count;
    uint32_t *copy_of; /* per step: 1 + its copy; 0: none */
    uint32_t *late;    /* per DROP: before which step it stands now; 0: where it was */
    uint32_t *quiet; /* per step: the last one up to it before which nothing is placed and empty */
};

/* ---- looking ---------------------------------------------------------------------------------- */

static const struct plan_step *step_of(const struct early *e, const struct copy *c)
{
    return &e->plan.steps[c->step];
}

static uint64_t link_ns(const struct early *e, const struct plan_step *s, uint64_t bytes)
{
    const struct device_config *links = &e->tiers->links;
    return (uint64_t)mem_copy_ns(s->act == PLAN_SEND ? &links->out[s->tier] : &links->in[s->tier],
                                 bytes);
}

struct looking { /* per storage, while the plan is walked */
    struct plan_walk walk;
    uint32_t *placed, *written, *dropped, *forgotten; /* 1 + last such step */
    uint32_t *sent[DEVICE_TIERS], *wants_user;        /* 1 + copy */
    uint32_t *left;                                   /* 1 + copy behind which it was dropped */
    uint32_t empty;                                   /* placed and not filled yet */
};

static void note_copy(struct early *e, struct looking *l, size_t i)
{
    const struct plan_step *s = &e->plan.steps[i];
    struct copy *c = &e->copies[e->copy_count++];
    uint32_t number = (uint32_t)e->copy_count;
    uint64_t bytes = plan_size(&e->plan, e->trace->storages[s->index].bytes);
    *c = (struct copy){.step = (uint32_t)i,
                       .at = (uint32_t)i,
                       .user = (uint32_t)i,
                       .again = UINT32_MAX,
                       .bytes = bytes,
                       .ns = link_ns(e, s, bytes)};
    e->copy_of[i] = number;
    l->wants_user[s->index] = number;
    if (s->act == PLAN_SEND) {
        c->room = l->walk.storages[s->index].copy[s->tier] ? 0 : bytes;
        c->from = l->written[s->index] > l->forgotten[s->index] ? l->written[s->index]
                                                                : l->forgotten[s->index];
        l->sent[s->tier][s->index] = number;
        return;
    }
    if (l->left[s->index])
        e->copies[l->left[s->index] - 1].back = number;
    c->place = l->placed[s->index] - 1;
    c->from = l->dropped[s->index];
    c->made = l->sent[s->tier][s->index];
    l->written[s->index] = (uint32_t)i + 1; /* what is sent from here on stays behind it */
    l->empty--;
}

/* Copies in of what the host writes stay behind it. */
static void note_below(struct early *e, struct looking *l, size_t i)
{
    const struct trace_op *op = &e->trace->ops[e->plan.steps[i].index];
    for (uint32_t k = 0; k < op->output_count; k++)
        l->dropped[trace_output_of(e->trace, op, k)->storage] = (uint32_t)i + 1;
}

/* Who reads and writes what at step i. */
static void note_run(struct early *e, struct looking *l, size_t i)
{
    const struct trace *t = e->trace;
    const struct trace_op *op = &t->ops[e->plan.steps[i].index];
    for (uint32_t k = 0; k < op->input_count; k++) {
        uint32_t s = t->tensors[t->inputs[op->input_first + k]].storage;
        uint32_t wants = l->wants_user[s];
        if (wants && e->plan.steps[e->copies[wants - 1].step].act == PLAN_FETCH) {
            e->copies[wants - 1].user = (uint32_t)i;
            l->wants_user[s] = 0;
        }
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        enum plan_fate fate = plan_walk_fate(&l->walk, op->output_first + k, 0);
        l->empty -= fate == PLAN_FILLED;
        if (fate == PLAN_FILLED || fate == PLAN_WRITTEN)
            l->written[trace_output_of(t, op, k)->storage] = (uint32_t)i + 1;
    }
}

static void note_step(struct early *e, struct looking *l, size_t i)
{
    const struct plan_step *s = &e->plan.steps[i];
    if (s->act == PLAN_RUN && s->tier) {
        note_below(e, l, i);
    } else if (s->act == PLAN_RUN) {
        note_run(e, l, i);
    } else if (s->act == PLAN_PLACE) {
        l->placed[s->index] = (uint32_t)i + 1;
        if (l->left[s->index])
            e->copies[l->left[s->index] - 1].again = (uint32_t)i;
        l->empty++;
    } else if (s->act == PLAN_DROP) {
        uint32_t wants = l->wants_user[s->index];
        if (wants) /* of a SEND; a FETCH that nobody reads stays where it is */
            e->copies[wants - 1].user = (uint32_t)i;
        l->left[s->index] = wants;
        l->wants_user[s->index] = 0;
        l->dropped[s->index] = (uint32_t)i + 1;
    } else if (s->act == PLAN_FORGET) {
        l->forgotten[s->index] = (uint32_t)i + 1;
    } else {
        note_copy(e, l, i);
    }
}

static enum ebb_status look_at_steps(struct early *e, struct looking *l, struct ebb_error *err)
{
    for (size_t i = 0; i < e->plan.step_count; i++) {
        const struct plan_step *s = &e->plan.steps[i];
        uint64_t before[DEVICE_TIERS], after[DEVICE_TIERS];
        memcpy(before, l->walk.tier_bytes, sizeof before);
        before[0] = l->walk.resident_bytes;
        e->quiet[i] = l->empty || i == 0 ? e->quiet[i ? i - 1 : 0] : (uint32_t)i;
        note_step(e, l, i);
        EBB_TRY(plan_walk_step(&l->walk, i, err));
        memcpy(after, l->walk.tier_bytes, sizeof after);
        after[0] = l->walk.resident_bytes + l->walk.extra_bytes;
        for (int k = 0; k < DEVICE_TIERS; k++)
            planner_sums_add(&e->sums[k], i, i + 1, before[k] > after[k] ? before[k] : after[k]);
        bool is_run = s->act == PLAN_RUN && !s->tier;
        e->clock[i + 1] = e->clock[i] + (is_run ? e->trace->ops[s->index].cost_ns : 0);
    }
    for (uint32_t s = 0; s < e->trace->storage_count; s++) /* what is kept is wanted at the end */
        if (l->wants_user[s] && step_of(e, &e->copies[l->wants_user[s] - 1])->act == PLAN_FETCH)
            e->copies[l->wants_user[s] - 1].user = (uint32_t)e->plan.step_count;
    return EBB_OK;
}

static enum ebb_status look(struct early *e, struct ebb_error *err)
{
    struct looking l = {0};
    struct ebb_arena arena;
    size_t n = (size_t)e->trace->storage_count + 1;
    uint32_t **all[] = {&l.placed,  &l.written, &l.dropped,    &l.forgotten,
                        &l.sent[1], &l.sent[2], &l.wants_user, &l.left};
    ebb_arena_init(&arena);
    enum ebb_status status = plan_walk_init(&l.walk, e->trace, &e->plan, err);
    for (size_t i = 0; i < sizeof all / sizeof *all && status == EBB_OK; i++) {
        *all[i] = ebb_arena_calloc(&arena, n, sizeof **all[i]);
        status = *all[i] ? EBB_OK : ebb_no_memory(err, n * sizeof **all[i]);
    }
    EBB_THEN(status, look_at_steps(e, &l, err));
    plan_walk_fini(&l.walk);
    ebb_arena_fini(&arena);
    return status;
}

/* ---- moving ----------------------------------------------------------------------------------- */

static bool has_room(const struct early *e, int tier, size_t first, size_t end, uint64_t bytes)
{
    const struct sums *s = &e->sums[tier];
    if (bytes > e->tiers->bytes[tier])
        return false;
    return planner_sums_last_above(s, end, (int64_t)(e->tiers->bytes[tier] - bytes)) <= first;
}

static void put_send(struct early *e, struct copy *c, size_t at, uint64_t *link_free)
{
    uint64_t now = e->clock[at];
    planner_sums_add(&e->sums[step_of(e, c)->tier], at, c->step, c->room);
    c->at = (uint32_t)at;
    c->is_done = true;
    *link_free = (*link_free > now ? *link_free : now) + c->ns;
    c->end_ns = *link_free;
}

/* The waiting copy that leaves tier 0 first and can go now. */
static struct copy *next_send(struct early *e, size_t at, int tier, size_t *first)
{
    struct copy *best = NULL;
    bool is_first = true;
    for (size_t i = *first; i < e->copy_count && i < *first + MOST_WAITING; i++) {
        struct copy *c = &e->copies[i];
        const struct plan_step *s = step_of(e, c);
        bool is_over = c->is_done || s->act != PLAN_SEND;
        *first += is_first && is_over;
        is_first = is_first && is_over;
        if (is_over || s->tier != tier || c->from > at || c->step <= at ||
            (best && c->user >= best->user))
            continue;
        if (has_room(e, tier, at, c->step, c->room))
            best = c;
    }
    return best;
}

static void move_sends(struct early *e)
{
    uint64_t link_free[DEVICE_TIERS] = {0};
    size_t first = 0;
    for (size_t at = 0; at < e->plan.step_count; at++) {
        uint32_t number = e->copy_of[at];
        struct copy *here = number ? &e->copies[number - 1] : NULL;
        if (here && !here->is_done && step_of(e, here)->act == PLAN_SEND)
            put_send(e, here, at, &link_free[step_of(e, here)->tier]); /* no later */
        bool is_last_moment = e->clock[at] != e->clock[at + 1];        /* before time passes */
        for (int k = DEVICE_HOST; k < DEVICE_TIERS && is_last_moment; k++)
            while (link_free[k] <= e->clock[at]) {
                struct copy *c = next_send(e, at, k, &first);
                if (!c)
                    break;
                put_send(e, c, at, &link_free[k]);
            }
    }
}

/* The last step that begins no later than `moment`, at or before `most`. */
static size_t step_at(const struct early *e, uint64_t moment, size_t most)
{
    size_t low = 0, high = most;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (e->clock[middle] <= moment)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Before which step a FETCH has to begin so that its reader need not wait. */
static size_t latest_start(const struct early *e, const struct copy *c, size_t most)
{
    uint64_t end = e->clock[c->user];
    return step_at(e, end > c->ns ? end - c->ns : 0, most);
}

/* Bytes that a copy still reads stay, where there is room: who takes them next would wait. */
static void move_drops(struct early *e)
{
    const struct sums *s = &e->sums[0];
    for (size_t i = 0; i < e->copy_count; i++) {
        const struct copy *c = &e->copies[i];
        size_t drop = c->user, most = e->plan.step_count;
        if (step_of(e, c)->act != PLAN_SEND || e->plan.steps[drop].act != PLAN_DROP)
            continue;
        most = c->again < most ? c->again : most;
        if (c->back)
            most = latest_start(e, &e->copies[c->back - 1], most);
        if (most <= drop + 2 || c->end_ns <= e->clock[drop])
            continue;
        size_t at = step_at(e, c->end_ns - 1, most - 1) + 1;
        at = planner_sums_first_above(s, drop + 1, at < most ? at : most - 1,
                                      (int64_t)(e->budget - c->bytes));
        at = e->quiet[at];
        if (at <= drop + 1)
            continue;
        e->late[drop] = (uint32_t)at;
        planner_sums_add(&e->sums[0], drop + 1, at, c->bytes);
    }
}

/* The next step behind `at` before which nothing is placed and empty, or `most`. */
static size_t next_quiet(const struct early *e, size_t at, size_t most)
{
    do
        at++;
    while (at < most && e->quiet[at] != at);
    return at;
}

static void move_fetches(struct early *e)
{
    uint64_t next[DEVICE_TIERS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    const struct sums *s = &e->sums[0];
    for (size_t i = e->copy_count; i-- > 0;) {
        struct copy *c = &e->copies[i];
        int tier = step_of(e, c)->tier;
        if (step_of(e, c)->act != PLAN_FETCH || c->user == c->step)
            continue;
        uint64_t end = e->clock[c->user] < next[tier] ? e->clock[c->user] : next[tier];
        uint64_t start = end > c->ns ? end - c->ns : 0;
        size_t least = c->from;
        if (least && e->late[least - 1])
            least = e->late[least - 1];
        if (c->made && e->copies[c->made - 1].at > least)
            least = e->copies[c->made - 1].at;
        size_t full = planner_sums_last_above(s, c->place, (int64_t)(e->budget - c->bytes));
        least = full > least ? full : least;
        size_t at = step_at(e, start, c->place);
        at = e->quiet[at > least ? at : least];
        while (at < least) /* between the places of an op's results and the op nothing may move */
            at = next_quiet(e, at, c->place);
        c->at = (uint32_t)(at < c->place ? at : c->place);
        planner_sums_add(&e->sums[0], c->at, c->place, c->bytes);
        next[tier] = e->clock[c->at] > start ? e->clock[c->at] : start;
    }
}

/* ---- stalls ----------------------------------------------------------------------------------- */

/* Lists of copies by their new places; those of one place in the plan's order. */
static void order(const struct early *e, uint32_t *heads, uint32_t *links, bool is_out)
{
    for (size_t i = e->copy_count; i-- > 0;) {
        const struct copy *c = &e->copies[i];
        if ((step_of(e, c)->act == PLAN_SEND) != is_out)
            continue;
        links[i] = heads[c->at];
        heads[c->at] = (uint32_t)i + 1;
    }
}

struct streams {
    uint64_t out[DEVICE_TIERS], in[DEVICE_TIERS], compute;
};

/* Copies of one place begin. */
static void begin_copies(struct early *e, uint32_t head, const uint32_t *links, struct streams *t)
{
    for (; head; head = links[head - 1]) {
        struct copy *c = &e->copies[head - 1];
        const struct plan_step *s = step_of(e, c);
        uint64_t *link = s->act == PLAN_SEND ? &t->out[s->tier] : &t->in[s->tier];
        uint64_t made = c->made ? e->copies[c->made - 1].end_ns : 0;
        *link = *link > t->compute ? *link : t->compute;
        *link = (*link > made ? *link : made) + c->ns;
        c->end_ns = *link;
    }
}

/* Times before each step with the copies where they stand now, whatever the addresses: readers wait
 * for what comes in. */
static enum ebb_status time_steps(struct early *e, uint64_t *clock, struct ebb_error *err)
{
    size_t n = e->plan.step_count + 1, copies = e->copy_count + 1;
    uint32_t *lists;
    EBB_TRY(ebb_new(&lists, 3 * n + 2 * copies, sizeof *lists, err));
    uint32_t *out = lists, *in = out + n, *read = in + n, *links = read + n;
    uint32_t *readers = links + copies;
    struct streams t = {0};
    order(e, out, links, true);
    order(e, in, links, false);
    for (uint32_t i = 0; i < e->copy_count; i++)
        if (step_of(e, &e->copies[i])->act == PLAN_FETCH) {
            readers[i] = read[e->copies[i].user];
            read[e->copies[i].user] = i + 1;
        }
    for (size_t i = 0; i < n; i++) {
        clock[i] = t.compute;
        begin_copies(e, out[i], links, &t);
        begin_copies(e, in[i], links, &t);
        for (uint32_t r = read[i]; r; r = readers[r - 1])
            if (e->copies[r - 1].end_ns > t.compute)
                t.compute = e->copies[r - 1].end_ns;
        const struct plan_step *s = i + 1 < n ? &e->plan.steps[i] : NULL;
        t.compute += s && s->act == PLAN_RUN && !s->tier ? e->trace->ops[s->index].cost_ns : 0;
    }
    ebb_free(lists);
    return EBB_OK;
}

/* ---- writing ---------------------------------------------------------------------------------- */

/* Drops that stand elsewhere now, by their new places. */
static void order_drops(const struct early *e, uint32_t *heads, uint32_t *links)
{
    for (size_t i = e->plan.step_count; i-- > 0;)
        if (e->late[i]) {
            links[i] = heads[e->late[i]];
            heads[e->late[i]] = (uint32_t)i + 1;
        }
}

static enum ebb_status write_copies(const struct early *e, uint32_t head, const uint32_t *links,
                                    struct plan *to, struct ebb_error *err)
{
    for (; head; head = links[head - 1]) {
        const struct copy *c = &e->copies[head - 1];
        const struct plan_step *s = step_of(e, c);
        if (s->act == PLAN_FETCH)
            EBB_TRY(plan_add(to, PLAN_PLACE, s->index, PLAN_NOWHERE, 0, err));
        EBB_TRY(plan_add(to, (enum plan_act)s->act, s->index, s->offset, s->tier, err));
    }
    return EBB_OK;
}

static enum ebb_status write_steps(const struct early *e, struct plan *to, struct ebb_error *err)
{
    size_t n = e->plan.step_count + 1;
    uint32_t *out = NULL, *in = NULL, *links = NULL, *drops = NULL, *next_drop = NULL;
    bool *is_gone = NULL;
    enum ebb_status status = ebb_new(&out, n, sizeof *out, err);
    EBB_THEN(status, ebb_new(&drops, n, sizeof *drops, err));
    EBB_THEN(status, ebb_new(&next_drop, n, sizeof *next_drop, err));
    EBB_THEN(status, ebb_new(&in, n, sizeof *in, err));
    EBB_THEN(status, ebb_new(&links, e->copy_count + 1, sizeof *links, err));
    EBB_THEN(status, ebb_new(&is_gone, n, sizeof *is_gone, err));
    if (status == EBB_OK) {
        order(e, out, links, true);
        order(e, in, links, false);
        order_drops(e, drops, next_drop);
    }
    for (size_t i = 0; i < e->copy_count && status == EBB_OK; i++)
        if (step_of(e, &e->copies[i])->act == PLAN_FETCH)
            is_gone[e->copies[i].place] = true; /* written with the copy */
    for (size_t i = 0; i < e->plan.step_count && status == EBB_OK; i++) {
        const struct plan_step *s = &e->plan.steps[i];
        for (uint32_t d = drops[i]; d && status == EBB_OK; d = next_drop[d - 1])
            status = plan_add(to, PLAN_DROP, e->plan.steps[d - 1].index, PLAN_NOWHERE, 0, err);
        EBB_THEN(status, write_copies(e, out[i], links, to, err));
        EBB_THEN(status, write_copies(e, in[i], links, to, err));
        if (!e->copy_of[i] && !is_gone[i] && !e->late[i])
            EBB_THEN(status,
                     plan_add(to, (enum plan_act)s->act, s->index, s->offset, s->tier, err));
    }
    ebb_free(out);
    ebb_free(in);
    ebb_free(links);
    ebb_free(drops);
    ebb_free(next_drop);
    ebb_free(is_gone);
    return status;
}

/* With moves, which takes little time to find; without, where that would spare more than a little. */
static enum ebb_status addresses(const struct early *e, struct plan *to, bool *is_found,
                                 struct ebb_error *err)
{
    struct ebb_error why = {0};
    struct plan still = {0};
    uint64_t moved = 0, budget = e->budget;
    *is_found = to->exact_bytes; /* graph files: byte sums, no addresses */
    if (*is_found)
        return EBB_OK;
    enum ebb_status status = plan_copy(&still, to, &why);
    EBB_THEN(status, plan_assign_sliding(e->trace, to, budget, &moved, &why));
    *is_found = status == EBB_OK;
    double moved_ns = mem_copy_ns(&e->tiers->links.in[DEVICE_T0], moved);
    if ((status == EBB_OK && moved_ns * LITTLE > (double)e->clock[e->plan.step_count]) ||
        status == EBB_EBUDGET) {
        status = plan_assign_quickly(e->trace, &still, budget, &why);
        if (status == EBB_OK)
            ebb_swap(to, &still, sizeof still);
        *is_found = *is_found || status == EBB_OK;
    }
    plan_fini(&still);
    if (*is_found) {
        status = plan_assign_low(e->trace, to, e->tiers->bytes, &why);
        *is_found = status == EBB_OK;
    }
    return status == EBB_OK || status == EBB_EBUDGET ? EBB_OK
                                                     : ebb_fail(err, status, "%s", why.message);
}

/* All copies moved, at the times of `clock`; NULL: without stalls. */
static enum ebb_status move_copies(struct early *e, bool drops_late, const uint64_t *clock,
                                   struct ebb_error *err)
{
    size_t n = e->plan.step_count + 1;
    for (int k = 0; k < DEVICE_TIERS; k++) {
        planner_sums_fini(&e->sums[k]);
        EBB_TRY(planner_sums_init(&e->sums[k], n, err));
    }
    e->copy_count = 0;
    memset(e->copy_of, 0, n * sizeof *e->copy_of);
    memset(e->late, 0, n * sizeof *e->late);
    EBB_TRY(look(e, err));
    e->budget = e->tiers->bytes[0];
    if (e->budget >= TRACE_MAX_BYTES)
        e->budget = (uint64_t)planner_sums_most(&e->sums[0]);
    if (clock)
        memcpy(e->clock, clock, n * sizeof *clock);
    move_sends(e);
    if (drops_late)
        move_drops(e);
    move_fetches(e);
    return EBB_OK;
}

static enum ebb_status move_until_quiet(struct early *e, bool drops_late, struct ebb_error *err)
{
    size_t n = e->plan.step_count;
    uint64_t *clock;
    EBB_TRY(ebb_new(&clock, n + 2, sizeof *clock, err));
    enum ebb_status status = move_copies(e, drops_late, NULL, err);
    uint64_t alone = e->clock[n];
    for (int pass = 1; pass < PASSES && e->copy_count && status == EBB_OK; pass++) {
        status = time_steps(e, clock, err);
        if (clock[n] - alone <= alone / LITTLE)
            break;
        EBB_THEN(status, move_copies(e, drops_late, clock, err));
    }
    ebb_free(clock);
    return status;
}

static enum ebb_status make(struct early *e, const struct plan *from, bool drops_late,
                            struct plan *to, bool *is_found, struct ebb_error *err)
{
    EBB_TRY(plan_copy(&e->plan, from, err));
    plan_strip_offsets(&e->plan);
    size_t n = e->plan.step_count;
    EBB_TRY(ebb_new(&e->clock, n + 2, sizeof *e->clock, err));
    EBB_TRY(ebb_new(&e->copies, n + 1, sizeof *e->copies, err));
    EBB_TRY(ebb_new(&e->copy_of, n + 1, sizeof *e->copy_of, err));
    EBB_TRY(ebb_new(&e->late, n + 1, sizeof *e->late, err));
    EBB_TRY(ebb_new(&e->quiet, n + 1, sizeof *e->quiet, err));
    EBB_TRY(move_until_quiet(e, drops_late, err));
    if (e->copy_count == 0)
        return EBB_OK;
    EBB_TRY(write_steps(e, to, err));
    EBB_TRY(plan_homes_copy(&to->homes, &from->homes, err));
    to->signature = from->signature;
    to->exact_bytes = from->exact_bytes;
    to->budget_bytes = e->tiers->bytes[0];
    memcpy(to->planner, from->planner, sizeof to->planner);
    return addresses(e, to, is_found, err);
}

enum ebb_status planner_early(const struct trace *trace, const struct plan *from,
                              const struct planner_tiers *tiers, bool drops_late, struct plan *to,
                              bool *is_found, struct ebb_error *err)
{
    struct early e = {.trace = trace, .tiers = tiers};
    *is_found = false;
    if (plan_has_act(from, PLAN_ROOM)) /* results in tier 1 stand where their op runs */
        return EBB_OK;
    plan_init(&e.plan);
    enum ebb_status status = make(&e, from, drops_late, to, is_found, err);
    plan_fini(&e.plan);
    for (int k = 0; k < DEVICE_TIERS; k++)
        planner_sums_fini(&e.sums[k]);
    ebb_free(e.clock);
    ebb_free(e.copies);
    ebb_free(e.copy_of);
    ebb_free(e.late);
    ebb_free(e.quiet);
    return status;
}
