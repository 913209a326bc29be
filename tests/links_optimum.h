/* links_optimum.h - the fastest plan of a tiny trace with copies beside the ops, by exact search.
 *
 * It shares no code with planner, plan, mem or exec. What is searched: every plan whose first runs
 * follow the trace, with reruns, drops, sends and fetches anywhere, timed as the null device does,
 * addresses ignored: bytes are alike. Bytes that are left while their copy out is under way come
 * free when it ends, and whoever takes bytes chooses which.
 *
 *   time       a clock of compute and one per direction and lower tier. A step starts at the latest
 *              of its stream, compute's clock where the plan has it, and what it must follow: a run
 *              the copies in of its inputs, the copies out of what it writes in place, and the bytes
 *              of its outputs; a copy in the copy out that made it, and its bytes; a copy out the
 *              copy in that fills it. The end follows every copy.
 *   state      the next first run; per storage the version that lies there and those of its copies;
 *              clocks; when copies under way end; bytes that come free with them.
 *   search     best-first by a bound on the whole time; of states that have the same things, those
 *              that are no sooner in anything go.
 *   bound      the first runs to come, and every op that must run again because nothing else has
 *              what is read; no op before its inputs can have arrived.
 *
 * A *point* lies between two runs. Plans are looked at in one order only; why that loses none:
 *
 *   C1 Drops are lazy: they stand before the run or fetch that takes the bytes, and none could be
 *      left out without delaying it. Dropping costs no time, so it can always wait.
 *   C2 At a point copies out come before copies in: they read only, other streams carry them. Those
 *      to the host come before those to the file for the same reason.
 *   C3 A copy out starts as soon as its link is free: when the link stood idle before this point,
 *      only what was not there at the point before may go first. Sooner is never worse: tiers have
 *      room for everything.
 *   C4 A copy belongs to the last point that does not delay it: one that starts behind the end of
 *      the run that follows is begun at a later point. Its bytes are free meanwhile.
 *   C5 What was fetched or made again is read or sent before it leaves, else it is left out.
 *   C6 What nothing can need any more leaves at once, and is not made; if it was sent and not fetched
 *      since, the plan without that copy is no slower.
 *   C7 A run takes its bytes as soon as they suffice, a fetch perhaps later (a run behind it may
 *      want those that are free now): at the end of some copy out, and the latest free by then.
 *
 * With `is_plain` C1 to C6 are not used: for the proof that they lose nothing, on the tiniest. */
#ifndef EBB_TESTS_LINKS_OPTIMUM_H
#define EBB_TESTS_LINKS_OPTIMUM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINKS_MOST = 12, LINKS_FLYING = 12, LINKS_NEVER = UINT16_MAX };

struct links_op {
    uint8_t ins, outs;
    uint8_t in[4], in_version[4], out[3], out_version[3]; /* storages; out_version > 0: in place */
    uint16_t cost, work;                                  /* units */
    bool may_again;
};

struct links_case {
    unsigned ops, storages, tiers;
    struct links_op op[LINKS_MOST];
    uint8_t units[LINKS_MOST]; /* per storage */
    uint8_t kept[LINKS_MOST];  /* 1 + version at the end; 0: need not be there */
    bool is_fixed[LINKS_MOST]; /* lies there throughout, not counted in room */
    uint16_t out_ns[2][LINKS_MOST], in_ns[2][LINKS_MOST];
    unsigned room; /* units */
    bool is_plain;
    /* worked out by links_prepare */
    uint16_t need[LINKS_MOST + 1]; /* stage -> storages that something may need */
    uint16_t rest[LINKS_MOST + 1]; /* stage -> cost of the first runs to come */
    uint8_t maker[LINKS_MOST][8];  /* storage, version -> op */
    uint16_t tail[LINKS_MOST + 1]
                 [LINKS_MOST]; /* stage, storage -> least time from reading to end */
};

enum links_act { LINKS_RUN, LINKS_SEND, LINKS_FETCH, LINKS_DROP, LINKS_NONE };

struct links_step {
    uint8_t act, index, tier; /* op of a run, else storage */
    uint16_t outs;            /* run: storages it makes */
    uint16_t drops;           /* storages dropped before it */
    uint16_t start, end;      /* claimed */
};

struct links_state {
    /* what is there: states that differ here are not compared */
    uint8_t k, phase;
    uint8_t res[LINKS_MOST], copy[2][LINKS_MOST]; /* 1 + version; 0: none */
    uint16_t unread, fresh;                       /* C5; C3: not there at the point before */
    uint16_t sent[2];                             /* C6: copies that nobody has fetched */
    /* when: less is better */
    uint16_t now, late; /* compute; the latest start of a copy of this point */
    uint16_t out[2], in[2];
    uint16_t arrive[LINKS_MOST], ready[2][LINKS_MOST]; /* ends of copies; 0: past */
    uint8_t flying;                                    /* bytes that come free, by time */
    uint8_t fly_units[LINKS_FLYING];
    uint16_t fly_end[LINKS_FLYING];
    /* of the search */
    uint16_t bound;
    bool is_gone;
    uint32_t parent, next; /* in its bucket; 0: none */
    struct links_step step;
};

struct links_search {
    const struct links_case *c;
    struct links_state *states; /* number 0 is not used */
    size_t count, capacity, most;
    uint32_t *heap, *buckets;
    size_t heap_count, heap_capacity, bucket_count;
    unsigned limit; /* nothing above it is looked at */
    bool is_full;   /* more states than `most`: nothing is known */
};

#define LINKS_KEY offsetof(struct links_state, now)

/* ---- facts ------------------------------------------------------------------------------------ */

static inline unsigned links_max(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* Whoever reads next is a first run, with all behind it, or runs again for somebody. */
static inline void links_tails(struct links_case *c, unsigned k)
{
    uint16_t *tail = c->tail[k];
    for (unsigned s = 0; s < c->storages; s++)
        tail[s] = c->kept[s] ? 0 : LINKS_NEVER;
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (unsigned o = 0; o < c->ops; o++) {
            unsigned least = o >= k ? c->rest[o] : LINKS_NEVER;
            for (unsigned i = 0; i < c->op[o].outs && o < k && c->op[o].may_again; i++)
                if (tail[c->op[o].out[i]] != LINKS_NEVER &&
                    (unsigned)c->op[o].cost + tail[c->op[o].out[i]] < least)
                    least = (unsigned)c->op[o].cost + tail[c->op[o].out[i]];
            for (unsigned i = 0; i < c->op[o].ins; i++)
                if (least < tail[c->op[o].in[i]]) {
                    tail[c->op[o].in[i]] = (uint16_t)least;
                    is_changed = true;
                }
        }
    }
}

static inline void links_prepare(struct links_case *c)
{
    for (unsigned o = 0; o < c->ops; o++)
        for (unsigned i = 0; i < c->op[o].outs; i++)
            c->maker[c->op[o].out[i]][c->op[o].out_version[i]] = (uint8_t)o;
    for (unsigned k = c->ops + 1; k-- > 0;) {
        c->rest[k] = k < c->ops ? (uint16_t)(c->rest[k + 1] + c->op[k].cost) : 0;
        uint16_t need = 0, before;
        for (unsigned s = 0; s < c->storages; s++)
            need |= (uint16_t)((c->kept[s] ? 1u : 0u) << s);
        for (unsigned o = k; o < c->ops; o++)
            for (unsigned i = 0; i < c->op[o].ins; i++)
                need |= (uint16_t)(1u << c->op[o].in[i]);
        do { /* what runs again needs what it reads */
            before = need;
            for (unsigned o = 0; o < k; o++)
                for (unsigned i = 0; i < c->op[o].outs && c->op[o].may_again; i++)
                    for (unsigned j = 0; j < c->op[o].ins && need >> c->op[o].out[i] & 1; j++)
                        need |= (uint16_t)(1u << c->op[o].in[j]);
        } while (need != before);
        c->need[k] = c->is_plain ? UINT16_MAX : need;
        links_tails(c, k);
    }
}

static inline bool links_copied(const struct links_case *c, const struct links_state *s,
                                unsigned storage, unsigned version)
{
    bool is_so = false;
    for (unsigned t = 0; t < c->tiers; t++)
        is_so |= s->copy[t][storage] == version + 1;
    return is_so;
}

/* Adds the ops that must run again to have a version; false: it cannot be had any more. */
static inline bool links_must(const struct links_case *c, const struct links_state *s,
                              unsigned storage, unsigned version, uint16_t *again)
{
    if (s->res[storage] == version + 1 || links_copied(c, s, storage, version))
        return true;
    unsigned o = c->maker[storage][version];
    const struct links_op *op = &c->op[o];
    if (o >= s->k || *again >> o & 1)
        return true; /* a first run makes it, or it is counted */
    if (!op->may_again)
        return false;
    *again |= (uint16_t)(1u << o);
    for (unsigned i = 0; i < op->ins; i++)
        if (!links_must(c, s, op->in[i], op->in_version[i], again))
            return false;
    return true;
}

/* When a version can be there at the earliest; it was made before. */
static inline unsigned links_soonest(const struct links_case *c, const struct links_state *s,
                                     unsigned storage, unsigned version)
{
    if (s->res[storage] == version + 1)
        return links_max(s->now, s->arrive[storage]);
    unsigned o = c->maker[storage][version], best = LINKS_NEVER;
    if (c->op[o].may_again)
        best = s->now + c->op[o].cost;
    for (unsigned t = 0; t < c->tiers; t++) {
        unsigned at =
            links_max(links_max(s->now, s->in[t]), s->ready[t][storage]) + c->in_ns[t][storage];
        if (s->copy[t][storage] == version + 1 && at < best)
            best = at;
    }
    return best;
}

/* Copies out were made to be fetched (C6), one after the other, and then read. */
static inline unsigned links_fetches(const struct links_case *c, const struct links_state *s,
                                     unsigned t)
{
    unsigned from = links_max(s->now, s->in[t]), sum = from, least = LINKS_NEVER, bound = 0;
    for (unsigned i = 0; i < c->storages; i++)
        if (s->sent[t] >> i & 1) {
            unsigned tail = c->tail[s->k][i], ns = c->in_ns[t][i];
            sum += ns;
            least = tail < least ? tail : least;
            bound = links_max(bound, links_max(from, s->ready[t][i]) + ns + tail);
        }
    return links_max(bound, least < LINKS_NEVER ? sum + least : 0);
}

/* No plan through this state is faster; LINKS_NEVER: there is none. */
static inline unsigned links_bound(const struct links_case *c, const struct links_state *s)
{
    uint16_t again = 0;
    unsigned bound = 0, sum = s->now + c->rest[s->k];
    for (unsigned o = s->k; o < c->ops; o++)
        for (unsigned i = 0; i < c->op[o].ins; i++) {
            unsigned in = c->op[o].in[i], version = c->op[o].in_version[i];
            if (c->maker[in][version] >= s->k)
                continue;
            if (!links_must(c, s, in, version, &again))
                return LINKS_NEVER;
            bound = links_max(bound, links_soonest(c, s, in, version) + c->rest[o]);
        }
    for (unsigned i = 0; i < c->storages; i++)
        if (c->kept[i] && c->maker[i][c->kept[i] - 1] < s->k) {
            if (!links_must(c, s, i, c->kept[i] - 1u, &again))
                return LINKS_NEVER;
            bound = links_max(bound, links_soonest(c, s, i, c->kept[i] - 1u));
        }
    for (unsigned o = 0; o < s->k; o++)
        sum += again >> o & 1 ? c->op[o].cost : 0;
    bound = links_max(bound, sum);
    for (unsigned t = 0; t < c->tiers; t++) {
        bound = links_max(bound, links_max(s->out[t], s->in[t]));
        bound = links_max(bound, links_fetches(c, s, t));
    }
    for (unsigned i = 0; i < c->storages; i++)
        if (s->unread >> i & 1) /* C5 */
            bound = links_max(bound, links_max(s->arrive[i], s->now) + c->tail[s->k][i]);
    return bound < LINKS_NEVER ? bound : LINKS_NEVER;
}

static inline bool links_is_end(const struct links_case *c, const struct links_state *s)
{
    bool is_end = s->k == c->ops;
    for (unsigned i = 0; i < c->storages; i++)
        is_end = is_end && (!c->kept[i] || s->res[i] == c->kept[i]);
    return is_end;
}

/* ---- states ----------------------------------------------------------------------------------- */

static inline unsigned links_flying_at(const struct links_state *s, unsigned when)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < s->flying; i++)
        sum += s->fly_end[i] > when ? s->fly_units[i] : 0;
    return sum;
}

/* Is `a` no later than `b` in anything? They have the same things. */
static inline bool links_no_later(const struct links_state *a, const struct links_state *b)
{
    if (a->now > b->now || a->late > b->late)
        return false;
    for (unsigned t = 0; t < 2; t++)
        if (a->out[t] > b->out[t] || a->in[t] > b->in[t])
            return false;
    for (unsigned i = 0; i < LINKS_MOST; i++)
        if (a->arrive[i] > links_max(b->arrive[i], b->now) ||
            a->ready[0][i] > links_max(b->ready[0][i], b->now) ||
            a->ready[1][i] > links_max(b->ready[1][i], b->now))
            return false;
    for (unsigned i = 0; i <= b->flying; i++) { /* steps: right before each of b's ends */
        unsigned when = i < b->flying ? b->fly_end[i] : b->now;
        if (links_flying_at(a, when) > links_flying_at(b, when))
            return false;
    }
    return true;
}

/* What is past is 0; bytes that are free are not counted. */
static inline void links_settle(struct links_state *s)
{
    unsigned left = 0;
    for (unsigned i = 0; i < LINKS_MOST; i++) {
        s->arrive[i] = s->arrive[i] > s->now ? s->arrive[i] : 0;
        for (unsigned t = 0; t < 2; t++)
            s->ready[t][i] = s->ready[t][i] > s->now ? s->ready[t][i] : 0;
    }
    for (unsigned t = 0; t < 2; t++) {
        s->out[t] = s->out[t] >= s->now ? s->out[t] : 0;
        s->in[t] = s->in[t] >= s->now ? s->in[t] : 0;
    }
    for (unsigned i = 0; i < s->flying; i++)
        if (s->fly_end[i] > s->now && s->fly_units[i]) {
            s->fly_end[left] = s->fly_end[i];
            s->fly_units[left++] = s->fly_units[i];
        }
    for (unsigned i = left; i < s->flying; i++)
        s->fly_end[i] = s->fly_units[i] = 0;
    s->flying = (uint8_t)left;
}

static inline unsigned links_send_end(const struct links_state *s, unsigned storage)
{
    return links_max(s->ready[0][storage], s->ready[1][storage]);
}

static inline void links_fly(struct links_state *s, unsigned end, unsigned units)
{
    unsigned at = s->flying;
    if (end <= s->now || units == 0)
        return;
    if (at == LINKS_FLYING)
        abort();
    for (; at > 0 && s->fly_end[at - 1] > end; at--) {
        s->fly_end[at] = s->fly_end[at - 1];
        s->fly_units[at] = s->fly_units[at - 1];
    }
    s->fly_end[at] = (uint16_t)end;
    s->fly_units[at] = (uint8_t)units;
    s->flying++;
}

static inline void links_leave(const struct links_case *c, struct links_state *s, unsigned storage)
{
    uint16_t bit = (uint16_t)(1u << storage);
    links_fly(s, links_send_end(s, storage), c->units[storage]);
    s->res[storage] = 0;
    s->arrive[storage] = 0;
    s->unread &= (uint16_t)~bit;
    s->fresh &= (uint16_t)~bit;
}

static inline unsigned links_resident(const struct links_case *c, const struct links_state *s)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < c->storages; i++)
        sum += s->res[i] && !c->is_fixed[i] ? c->units[i] : 0;
    return sum;
}

/* ---- the queue -------------------------------------------------------------------------------- */

static inline bool links_before(const struct links_search *q, uint32_t a, uint32_t b)
{
    const struct links_state *x = &q->states[a], *y = &q->states[b];
    if (x->bound != y->bound)
        return x->bound < y->bound;
    if (x->k != y->k)
        return x->k > y->k;
    return a > b;
}

static inline void links_push(struct links_search *q, uint32_t number)
{
    if (q->heap_count == q->heap_capacity) {
        q->heap_capacity = q->heap_capacity ? 2 * q->heap_capacity : 1024;
        q->heap = realloc(q->heap, q->heap_capacity * sizeof *q->heap);
        if (!q->heap)
            abort();
    }
    size_t i = q->heap_count++;
    for (; i > 0 && links_before(q, number, q->heap[(i - 1) / 2]); i = (i - 1) / 2)
        q->heap[i] = q->heap[(i - 1) / 2];
    q->heap[i] = number;
}

static inline uint32_t links_pop(struct links_search *q)
{
    uint32_t best = q->heap[0], last = q->heap[--q->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= q->heap_count)
            break;
        if (child + 1 < q->heap_count && links_before(q, q->heap[child + 1], q->heap[child]))
            child++;
        if (!links_before(q, q->heap[child], last))
            break;
        q->heap[i] = q->heap[child];
        i = child;
    }
    q->heap[i] = last;
    return best;
}

static inline size_t links_bucket(const struct links_search *q, const struct links_state *s)
{
    const unsigned char *bytes = (const unsigned char *)s;
    uint64_t hash = UINT64_C(1469598103934665603);
    for (size_t i = 0; i < LINKS_KEY; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return (size_t)(hash ^ hash >> 29) & (q->bucket_count - 1);
}

/* A state that nobody is no later than joins. */
static inline void links_offer(struct links_search *q, struct links_state *s, uint32_t parent)
{
    links_settle(s);
    s->bound = (uint16_t)links_bound(q->c, s);
    s->parent = parent;
    s->is_gone = false;
    if (parent && q->states[parent].bound > s->bound)
        s->bound = q->states[parent].bound;
    if (s->bound > q->limit || s->bound == LINKS_NEVER)
        return;
    uint32_t *head = &q->buckets[links_bucket(q, s)];
    for (uint32_t *at = head; *at;) {
        struct links_state *other = &q->states[*at];
        bool is_same = memcmp(other, s, LINKS_KEY) == 0;
        if (is_same && links_no_later(other, s))
            return;
        if (is_same && links_no_later(s, other)) {
            other->is_gone = true;
            *at = other->next;
        } else {
            at = &other->next;
        }
    }
    if (q->count >= q->most) {
        q->is_full = true;
        return;
    }
    if (q->count == q->capacity) {
        q->capacity *= 2;
        q->states = realloc(q->states, q->capacity * sizeof *q->states);
        if (!q->states)
            abort();
    }
    s->next = *head;
    *head = (uint32_t)q->count;
    q->states[q->count] = *s;
    links_push(q, (uint32_t)q->count++);
}

/* ---- steps ------------------------------------------------------------------------------------ */

/* When `need` more units are free at or after `from`, if `drops` leave now; LINKS_NEVER: never. */
static inline unsigned links_fits(const struct links_case *c, const struct links_state *s,
                                  unsigned need, uint16_t drops, unsigned from)
{
    struct links_state after = *s;
    for (unsigned i = 0; i < c->storages; i++)
        if (drops >> i & 1)
            links_leave(c, &after, i);
    unsigned resident = links_resident(c, &after) + need;
    if (resident > c->room)
        return LINKS_NEVER;
    unsigned when = from;
    for (unsigned i = 0; i < after.flying; i++)
        if (resident + links_flying_at(&after, when) > c->room)
            when = links_max(when, after.fly_end[i]);
    return when;
}

/* C1: is every one of the drops needed for that moment? */
static inline bool links_all_needed(const struct links_case *c, const struct links_state *s,
                                    unsigned need, uint16_t drops, unsigned from, unsigned when)
{
    for (unsigned i = 0; i < c->storages; i++)
        if (drops >> i & 1 && links_fits(c, s, need, (uint16_t)(drops & ~(1u << i)), from) <= when)
            return false;
    return true;
}

static inline uint16_t links_droppable(const struct links_case *c, const struct links_state *s,
                                       uint16_t pinned)
{
    uint16_t may = 0;
    for (unsigned i = 0; i < c->storages; i++)
        if (s->res[i] && !c->is_fixed[i] && !(pinned >> i & 1) && !(s->unread >> i & 1))
            may |= (uint16_t)(1u << i);
    return c->is_plain ? 0 : may;
}

/* C6; false: one of them was sent for nothing. */
static inline bool links_clear(const struct links_case *c, struct links_state *s)
{
    for (unsigned i = 0; i < c->storages; i++) {
        bool is_dead = !(c->need[s->k] >> i & 1);
        if (!is_dead || c->is_fixed[i] || c->is_plain)
            continue;
        if ((s->sent[0] | s->sent[1]) >> i & 1)
            return false;
        if (s->res[i])
            links_leave(c, s, i);
        for (unsigned t = 0; t < 2; t++) {
            s->copy[t][i] = 0;
            s->ready[t][i] = 0;
        }
    }
    return true;
}

static inline void links_run_with(struct links_search *q, uint32_t number, unsigned o,
                                  uint16_t outs, uint16_t drops, unsigned start)
{
    const struct links_case *c = q->c;
    const struct links_op *op = &c->op[o];
    struct links_state s = q->states[number];
    bool is_first = o == s.k;
    for (unsigned i = 0; i < c->storages; i++)
        if (drops >> i & 1)
            links_leave(c, &s, i);
    unsigned end = start + op->cost;
    if (end >= LINKS_NEVER || (s.late > end && !c->is_plain)) /* C4 */
        return;
    for (unsigned i = 0; i < op->ins; i++)
        s.unread &= (uint16_t) ~(1u << op->in[i]);
    s.fresh = 0;
    for (unsigned i = 0; i < op->outs; i++) {
        uint16_t bit = (uint16_t)(1u << op->out[i]);
        bool is_written = op->out_version[i] > 0;
        if (!is_written && !(outs & bit))
            continue;
        s.res[op->out[i]] = (uint8_t)(op->out_version[i] + 1);
        s.fresh |= bit;
        if (!is_first && !c->is_plain)
            s.unread |= bit;
    }
    s.now = (uint16_t)end;
    s.late = 0;
    s.phase = 0;
    s.k = (uint8_t)(s.k + is_first);
    s.step =
        (struct links_step){LINKS_RUN, (uint8_t)o, 0, outs, drops, (uint16_t)start, (uint16_t)end};
    links_settle(&s);
    if (links_clear(c, &s))
        links_offer(q, &s, number);
}

static inline void links_run_making(struct links_search *q, uint32_t number, unsigned o,
                                    uint16_t outs)
{
    const struct links_case *c = q->c;
    const struct links_op *op = &c->op[o];
    const struct links_state s = q->states[number];
    unsigned need = op->work, from = s.now;
    uint16_t pinned = 0;
    for (unsigned i = 0; i < op->ins; i++) {
        pinned |= (uint16_t)(1u << op->in[i]);
        from = links_max(from, s.arrive[op->in[i]]);
    }
    for (unsigned i = 0; i < op->outs; i++) {
        if (op->out_version[i] > 0)
            from = links_max(from, links_send_end(&s, op->out[i]));
        else if (outs >> op->out[i] & 1 && !c->is_fixed[op->out[i]])
            need += c->units[op->out[i]];
    }
    uint16_t may = links_droppable(c, &s, pinned);
    for (uint16_t drops = may;; drops = (uint16_t)((drops - 1) & may)) {
        unsigned when = links_fits(c, &s, need, drops, from);
        if (when < LINKS_NEVER && links_all_needed(c, &s, need, drops, from, when))
            links_run_with(q, number, o, outs, drops, when);
        if (drops == 0)
            break;
    }
}

static inline void links_run(struct links_search *q, uint32_t number, unsigned o)
{
    const struct links_case *c = q->c;
    const struct links_op *op = &c->op[o];
    const struct links_state s = q->states[number];
    uint16_t could = 0, must = 0;
    bool is_written = false;
    for (unsigned i = 0; i < op->ins; i++)
        if (s.res[op->in[i]] != op->in_version[i] + 1)
            return;
    for (unsigned i = 0; i < op->outs; i++) {
        uint16_t bit = (uint16_t)(1u << op->out[i]);
        is_written |= op->out_version[i] > 0;
        if (op->out_version[i] == 0 && c->is_fixed[op->out[i]])
            must |= bit;
        else if (op->out_version[i] == 0 && !s.res[op->out[i]] && c->need[s.k] >> op->out[i] & 1)
            could |= bit;
    }
    for (uint16_t outs = could;; outs = (uint16_t)((outs - 1) & could)) {
        if (o == s.k || outs || is_written)
            links_run_making(q, number, o, outs | must);
        if (outs == 0)
            break;
    }
}

static inline void links_send(struct links_search *q, uint32_t number, unsigned storage,
                              unsigned tier)
{
    const struct links_case *c = q->c;
    struct links_state s = q->states[number];
    uint16_t bit = (uint16_t)(1u << storage);
    unsigned free_at = links_max(s.out[tier], s.arrive[storage]);
    if (!s.res[storage] || s.copy[tier][storage] == s.res[storage] || c->is_fixed[storage] ||
        !(c->need[s.k] >> storage & 1))
        return;
    if (!c->is_plain && (s.phase > tier || (free_at < s.now && !(s.fresh & bit)))) /* C2, C3 */
        return;
    unsigned start = links_max(free_at, s.now), end = start + c->out_ns[tier][storage];
    if (end >= LINKS_NEVER)
        return;
    s.phase = (uint8_t)tier;
    s.late = (uint16_t)links_max(s.late, start);
    s.copy[tier][storage] = s.res[storage];
    s.ready[tier][storage] = s.out[tier] = (uint16_t)end;
    s.unread &= (uint16_t)~bit;
    s.sent[tier] |= c->is_plain ? 0 : bit;
    s.step = (struct links_step){LINKS_SEND, (uint8_t)storage, (uint8_t)tier, 0,
                                 0,          (uint16_t)start,  (uint16_t)end};
    links_offer(q, &s, number);
}

/* C7: takes the bytes that are free last, of those that are by then. */
static inline void links_fetch_with(struct links_search *q, uint32_t number, unsigned storage,
                                    unsigned tier, uint16_t drops, unsigned start)
{
    const struct links_case *c = q->c;
    struct links_state s = q->states[number];
    uint16_t bit = (uint16_t)(1u << storage);
    unsigned units = c->units[storage], end = start + c->in_ns[tier][storage];
    if (end >= LINKS_NEVER)
        return;
    for (unsigned i = 0; i < c->storages; i++)
        if (drops >> i & 1)
            links_leave(c, &s, i);
    for (unsigned i = s.flying; i-- > 0;) {
        unsigned taken = s.fly_end[i] > start ? 0 : s.fly_units[i] < units ? s.fly_units[i] : units;
        s.fly_units[i] = (uint8_t)(s.fly_units[i] - taken);
        units -= taken;
    }
    s.phase = 2;
    s.late = (uint16_t)links_max(s.late, start);
    s.res[storage] = s.copy[tier][storage];
    s.arrive[storage] = s.in[tier] = (uint16_t)end;
    s.unread |= c->is_plain ? 0 : bit;
    s.sent[tier] &= (uint16_t)~bit;
    s.fresh |= bit;
    s.step = (struct links_step){LINKS_FETCH, (uint8_t)storage, (uint8_t)tier, 0,
                                 drops,       (uint16_t)start,  (uint16_t)end};
    links_offer(q, &s, number);
}

static inline void links_fetch(struct links_search *q, uint32_t number, unsigned storage,
                               unsigned tier)
{
    const struct links_case *c = q->c;
    const struct links_state s = q->states[number];
    if (s.res[storage] || !s.copy[tier][storage] || !(c->need[s.k] >> storage & 1))
        return;
    unsigned from = links_max(links_max(s.now, s.in[tier]), s.ready[tier][storage]);
    uint16_t may = links_droppable(c, &s, 0);
    unsigned moments[1 + LINKS_FLYING + LINKS_MOST], count = 0;
    moments[count++] = from;
    for (unsigned i = 0; i < s.flying; i++)
        moments[count++] = s.fly_end[i];
    for (unsigned i = 0; i < c->storages; i++)
        if (may >> i & 1 && links_send_end(&s, i))
            moments[count++] = links_send_end(&s, i);
    for (unsigned m = 0; m < count; m++) {
        bool is_new = moments[m] >= from;
        for (unsigned j = 0; j < m && is_new; j++)
            is_new = moments[j] != moments[m];
        for (uint16_t drops = may; is_new; drops = (uint16_t)((drops - 1) & may)) {
            unsigned when = links_fits(c, &s, c->units[storage], drops, from);
            if (when <= moments[m] &&
                links_all_needed(c, &s, c->units[storage], drops, from, moments[m]))
                links_fetch_with(q, number, storage, tier, drops, moments[m]);
            if (drops == 0)
                break;
        }
    }
}

/* Plain search only: a drop at any time, of anything. */
static inline void links_drop(struct links_search *q, uint32_t number, unsigned storage)
{
    struct links_state s = q->states[number];
    if (!s.res[storage] || q->c->is_fixed[storage] || s.arrive[storage] > s.now)
        return;
    links_leave(q->c, &s, storage);
    s.step = (struct links_step){LINKS_DROP, (uint8_t)storage, 0, 0, 0, s.now, s.now};
    links_offer(q, &s, number);
}

static inline void links_expand(struct links_search *q, uint32_t number)
{
    const struct links_case *c = q->c;
    unsigned k = q->states[number].k;
    if (k < c->ops)
        links_run(q, number, k);
    for (unsigned o = 0; o < k; o++)
        if (c->op[o].may_again)
            links_run(q, number, o);
    for (unsigned i = 0; i < c->storages; i++) {
        for (unsigned t = 0; t < c->tiers; t++) {
            links_send(q, number, i, t);
            links_fetch(q, number, i, t);
        }
        if (c->is_plain)
            links_drop(q, number, i);
    }
}

/* ---- the search ------------------------------------------------------------------------------- */

struct links_answer {
    unsigned ns;  /* of the fastest plan; LINKS_NEVER: none within the limit */
    bool is_full; /* it was too much */
    size_t states, count;
    struct links_step steps[256];
};

/* `limit`: plans above it are not looked for. `most`: states that may be kept. */
static inline void links_solve(const struct links_case *c, unsigned limit, size_t most,
                               struct links_answer *answer)
{
    struct links_search q = {.c = c, .count = 1, .capacity = 4096, .most = most, .limit = limit};
    q.bucket_count = 1 << 18;
    q.states = malloc(q.capacity * sizeof *q.states);
    q.buckets = calloc(q.bucket_count, sizeof *q.buckets);
    if (!q.states || !q.buckets)
        abort();
    *answer = (struct links_answer){.ns = LINKS_NEVER};
    struct links_state first;
    memset(&first, 0, sizeof first);
    first.step.act = LINKS_NONE;
    links_offer(&q, &first, 0);
    while (q.heap_count > 0 && !q.is_full) {
        uint32_t number = links_pop(&q);
        if (q.states[number].is_gone)
            continue;
        if (!links_is_end(c, &q.states[number])) {
            links_expand(&q, number);
            continue;
        }
        answer->ns = q.states[number].bound;
        uint32_t at = number;
        for (; at; at = q.states[at].parent)
            answer->count += q.states[at].step.act != LINKS_NONE;
        if (answer->count > sizeof answer->steps / sizeof *answer->steps)
            abort();
        size_t i = answer->count;
        for (at = number; at; at = q.states[at].parent)
            if (q.states[at].step.act != LINKS_NONE)
                answer->steps[--i] = q.states[at].step;
        break;
    }
    answer->is_full = q.is_full;
    answer->states = q.count;
    free(q.states);
    free(q.buckets);
    free(q.heap);
}

#endif
