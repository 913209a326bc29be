/* ahead.c - policies with MEM_HIDDEN: what of a copy no op hides, and copies that begin before they
 * must.
 *
 * The future is the trace, so the time until a storage is read next is known. Its copy out ends
 * behind those that wait for the link; its copy in has to end when it is read, and lies in a calendar
 * of the link in (nanoseconds of fetches per bucket of the step): what finds no room between the two
 * is what the reader waits. All times are sums of frozen costs of ops, moves and copies: the same
 * decisions on every device. */
#include "mem/manager.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/sorted.h"

#define BUCKETS 1024
#define TRAFFIC 0.02  /* of a hidden copy's time: links are not free; ties go to less of them */
#define OPS_AHEAD 256 /* looked at for what to fetch */
#define MOST_MADE 64  /* storages away that making one again may need */

struct mem_ahead {
    double out_free[DEVICE_TIERS], in_free[DEVICE_TIERS]; /* when links are idle */
    double bucket_ns;
    double busy[DEVICE_TIERS][BUCKETS]; /* fetches booked, on the clock of the trace */
    uint64_t excess_bytes;              /* of what is live at the worst moment, beyond the budget */
    uint32_t *over; /* node -> first one from there on at which more is live than the budget has */
    uint32_t *booked; /* storage -> node for whose sake a fetch is booked */
    uint8_t *is_late; /* storage -> a reader had to wait for it: nobody hides its way back */
    double *still;    /* storage -> when its last copy, out or in, ends */
    double waited;    /* by compute so far */
};

/* What the device's clock would say: ops, moves, and what was waited for. */
static double now_of(const struct mem_manager *m)
{
    return (double)m->tally->clock_ns + m->ahead->waited;
}

/* ---- what is live if nothing leaves ----------------------------------------------------------- */

/* Bytes that node k makes live, and takes for itself alone. */
static uint64_t fresh_bytes(const struct mem_manager *m, const struct plan_node *node)
{
    uint64_t bytes = node->workspace_bytes;
    for (uint32_t k = 0; k < node->out_count; k++) {
        struct plan_ref out = m->r->outs[node->out_first + k];
        if (out.version == 0 && m->slots[out.storage].state != MEM_RESIDENT)
            bytes += mem_bytes(m, out.storage);
    }
    return bytes;
}

/* live[k]: sums of what begins at k, less what ended before. */
static void add_lives(const struct plan_recipes *r, int64_t *live)
{
    for (uint32_t s = 0; s < r->storage_count; s++) {
        const struct plan_storage *st = &r->storages[s];
        if (st->base != PLAN_NOWHERE)
            continue;
        uint32_t first = plan_version_of(r, s, 0)->maker, last = plan_last_version(r, s)->last_use;
        if (st->is_kept || last >= r->node_count)
            last = r->node_count;
        live[first] += (int64_t)st->bytes;
        live[last + 1] -= (int64_t)st->bytes;
    }
    int64_t sum = (int64_t)r->base_bytes;
    for (uint32_t k = 0; k <= r->node_count; k++) {
        sum += live[k];
        live[k] = sum + (k < r->node_count ? (int64_t)r->nodes[k].workspace_bytes : 0);
    }
}

static enum ebb_status find_pressure(struct mem_manager *m, struct ebb_error *err)
{
    struct mem_ahead *a = m->ahead;
    uint32_t n = m->r->node_count;
    int64_t *live, most = 0, budget = (int64_t)m->slab[0].bytes;
    EBB_TRY(ebb_new(&live, (size_t)n + 2, sizeof *live, err));
    add_lives(m->r, live);
    a->over[n] = n;
    for (uint32_t k = n; k-- > 0;) {
        a->over[k] = live[k] > budget ? k : a->over[k + 1];
        most = live[k] > most ? live[k] : most;
    }
    a->excess_bytes = most > budget ? (uint64_t)(most - budget) : 0;
    ebb_free(live);
    return EBB_OK;
}

enum ebb_status mem_ahead_create(struct mem_manager *m, struct ebb_error *err)
{
    EBB_TRY(ebb_new(&m->ahead, 1, sizeof *m->ahead, err));
    struct mem_ahead *a = m->ahead;
    a->bucket_ns = ((double)m->r->base_cost + 1) / BUCKETS;
    a->over = ebb_arena_calloc(&m->arena, (size_t)m->r->node_count + 1, sizeof *a->over);
    a->booked = ebb_arena_calloc(&m->arena, (size_t)m->r->storage_count + 1, sizeof *a->booked);
    a->is_late = ebb_arena_calloc(&m->arena, (size_t)m->r->storage_count + 1, 1);
    a->still = ebb_arena_calloc(&m->arena, (size_t)m->r->storage_count + 1, sizeof *a->still);
    EBB_TRY(ebb_arena_status(&m->arena, err));
    return find_pressure(m, err);
}

void mem_ahead_destroy(struct mem_ahead *ahead)
{
    ebb_free(ahead);
}

/* ---- the calendar ----------------------------------------------------------------------------- */

/* Up to `most` nanoseconds that are free in [from, to), the latest first; `books`: they are taken. */
static double find_time(struct mem_ahead *a, uint8_t tier, double from, double to, double most,
                        bool books)
{
    double found = 0, end = a->bucket_ns * BUCKETS;
    to = to < end ? to : end;
    for (int k = (int)(to / a->bucket_ns); k >= 0 && found < most; k--) {
        if (k == BUCKETS)
            continue;
        double begins = a->bucket_ns * k, ends = begins + a->bucket_ns;
        double inside = fmin(ends, to) - fmax(begins, from);
        double room = fmin(fmin(inside, a->bucket_ns - a->busy[tier][k]), most - found);
        if (room > 0) {
            found += room;
            a->busy[tier][k] += books ? room : 0;
        }
        if (begins <= from)
            break;
    }
    return found;
}

/* Node that reads it next; the end when none does. */
static uint32_t next_use(const struct mem_manager *m, uint32_t s)
{
    const struct plan_storage *st = &m->r->storages[s];
    const uint32_t *uses = &m->r->uses[st->use_first];
    size_t at = ebb_first_u32(uses, st->use_count, m->op + 1);
    return at < st->use_count ? uses[at] : m->r->node_count;
}

struct way { /* by one tier: nanoseconds */
    double out, in;
    double room_waits;   /* until its bytes are free, when it leaves now */
    double reader_waits; /* what of the copy in finds no time before it is read */
};

/* The copy out begins when the link is free; the one in has to end when it is read. */
static struct way way_by(const struct mem_manager *m, uint32_t s, uint8_t tier)
{
    struct mem_ahead *a = m->ahead;
    bool is_clean = m->slots[s].has_copy >> tier & 1;
    uint64_t bytes = mem_bytes(m, s);
    double now = (double)m->r->clock[m->op], clock = now_of(m);
    struct way way = {.out = is_clean ? 0 : mem_copy_ns(&m->c.links->out[tier], bytes),
                      .in = mem_copy_ns(&m->c.links->in[tier], bytes)};
    double gap = mem_victim_time_to_use(m, s);
    way.room_waits = fmax(is_clean ? a->still[s] - clock : a->out_free[tier] - clock, 0) + way.out;
    double from = now + way.room_waits;
    double to = gap == INFINITY ? (double)m->r->base_cost : now + gap;
    double hidden = a->is_late[s] ? 0 : find_time(a, tier, from, to, way.in, false);
    way.reader_waits = fmax(from - to, 0) + way.in - hidden;
    return way;
}

/* Is there a copy, or room for one? */
static bool is_open(const struct mem_manager *m, uint32_t s, uint8_t tier)
{
    return m->c.ways & (tier == DEVICE_HOST ? MEM_HOST : MEM_FILE) &&
           (m->slots[s].has_copy >> tier & 1 ||
            mem_slab_find(&m->slab[tier], mem_bytes(m, s), false) != MEM_NONE);
}

/* The best tier; is_early: nobody waits for its bytes yet. */
static double price_of(const struct mem_manager *m, uint32_t s, bool is_early, uint8_t *tier)
{
    double best = INFINITY;
    for (uint8_t k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
        if (!is_open(m, s, k))
            continue;
        struct way way = way_by(m, s, k);
        double ns =
            way.reader_waits + (is_early ? 0 : way.room_waits) + TRAFFIC * (way.out + way.in);
        if (ns < best) {
            best = ns;
            *tier = k;
        }
    }
    return best;
}

double mem_ahead_ns(const struct mem_manager *m, uint32_t s, uint8_t *tier)
{
    return price_of(m, s, false, tier);
}

void mem_ahead_left(struct mem_manager *m, uint32_t s, uint8_t tier, bool is_sent)
{
    struct mem_ahead *a = m->ahead;
    uint64_t bytes = mem_bytes(m, s);
    double now = (double)m->r->clock[m->op], clock = now_of(m);
    uint32_t use = next_use(m, s);
    if (is_sent) {
        a->still[s] = fmax(a->out_free[tier], clock) + mem_copy_ns(&m->c.links->out[tier], bytes);
        a->out_free[tier] = a->still[s];
    }
    if (a->booked[s] == use + 1)
        return;
    a->booked[s] = use + 1;
    double in = mem_copy_ns(&m->c.links->in[tier], bytes);
    find_time(a, tier, now, (double)m->r->clock[use], in, true);
}

double mem_ahead_still_ns(const struct mem_manager *m, uint32_t s)
{
    return fmax(m->ahead->still[s] - now_of(m), 0);
}

void mem_ahead_awaited(struct mem_manager *m, uint32_t s)
{
    m->ahead->waited += mem_ahead_still_ns(m, s);
}

void mem_ahead_fetched(struct mem_manager *m, uint32_t s, uint8_t tier)
{
    struct mem_ahead *a = m->ahead;
    a->still[s] = fmax(fmax(a->in_free[tier], a->still[s]), now_of(m)) +
                  mem_copy_ns(&m->c.links->in[tier], mem_bytes(m, s));
    a->in_free[tier] = a->still[s];
}

void mem_ahead_late(struct mem_manager *m, uint32_t s)
{
    m->ahead->is_late[s] = 1;
}

/* ---- the way back ----------------------------------------------------------------------------- */

/* Until it is there, when its copy in begins now. */
static double arrival_ns(const struct mem_manager *m, uint32_t s)
{
    uint8_t tier = mem_copy_tier(m, s);
    double begin = fmax(m->ahead->in_free[tier], m->ahead->still[s]);
    return fmax(begin - now_of(m), 0) + mem_copy_ns(&m->c.links->in[tier], mem_bytes(m, s));
}

/* Time to make what is away again, with all that is away with it, until it is more than `most`;
 * INFINITY: an op destroyed what it was made from, or there is too much of it. */
static double again_ns(struct mem_manager *m, uint32_t s, double most)
{
    uint32_t visit = ++m->visit;
    size_t depth = 0, count = 0;
    double ns = 0;
    if (!(m->c.ways & MEM_DROP) || m->slots[s].version > 0 || m->slots[s].is_held ||
        plan_version_of(m->r, s, 0)->expire <= m->op)
        return INFINITY;
    m->walk[depth++] = s;
    m->mark[s] = visit;
    while (depth > 0) {
        uint32_t at = m->walk[--depth];
        const struct plan_node *maker = &m->r->nodes[plan_version_of(m->r, at, 0)->maker];
        if (at != s && m->slots[at].has_copy) {
            ns += mem_copy_ns(&m->c.links->in[mem_copy_tier(m, at)], mem_bytes(m, at));
            continue;
        }
        ns += (double)m->cost[at];
        for (uint32_t i = 0; i < maker->in_count; i++) {
            uint32_t in = m->r->ins[maker->in_first + i].storage;
            if (m->slots[in].state == MEM_RESIDENT || m->mark[in] == visit)
                continue;
            m->mark[in] = visit;
            m->walk[depth++] = in;
        }
        if (ns > most || ++count > MOST_MADE)
            return INFINITY;
    }
    return ns;
}

bool mem_ahead_makes(struct mem_manager *m, uint32_t s)
{
    double wait = arrival_ns(m, s);
    return again_ns(m, s, wait) < wait;
}

/* ---- before it must --------------------------------------------------------------------------- */

static uint64_t bytes_below(const struct mem_manager *m)
{
    uint64_t bytes = 0;
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        bytes += m->slab[k].bytes - m->slab[k].free_bytes;
    return bytes;
}

/* Its use is over for long, there will be too little room meanwhile, and its copies are hidden: they
 * begin now, so that it can leave at once when its turn comes. */
static enum ebb_status send_early(struct mem_manager *m, uint32_t s, struct ebb_error *err)
{
    const struct mem_slot *slot = &m->slots[s];
    uint32_t use = next_use(m, s);
    uint8_t tier;
    if (m->pool_at[s] == MEM_NONE || slot->has_copy || slot->uses_left == 0 ||
        m->ahead->over[m->op + 1] >= use || bytes_below(m) >= m->ahead->excess_bytes)
        return EBB_OK;
    double ns = price_of(m, s, true, &tier);
    if (ns == INFINITY || ns >= mem_victim_make_ns(m, s))
        return EBB_OK;
    struct way way = way_by(m, s, tier);
    double until_over = (double)(m->r->clock[m->ahead->over[m->op + 1]] - m->r->clock[m->op]);
    if (way.reader_waits > 0 ||
        way.room_waits > until_over + fmin(2 * way.out, mem_victim_make_ns(m, s)))
        return EBB_OK;
    EBB_TRY(mem_tier_send(m, s, tier, mem_offset(m, 0, slot->segment), err));
    mem_victim_pool(m, s);
    return EBB_OK;
}

/* Bytes that are free once node k has run, if they were `room` before and nobody else comes or
 * leaves; *least of all moments so far. */
static int64_t room_behind(const struct mem_manager *m, uint32_t k, int64_t room, int64_t *least)
{
    const struct plan_recipes *r = m->r;
    const struct plan_node *node = &r->nodes[k];
    room -= (int64_t)fresh_bytes(m, node);
    *least = room < *least ? room : *least;
    room += (int64_t)node->workspace_bytes;
    for (uint32_t i = 0; i < node->in_count; i++) {
        uint32_t s = r->ins[node->in_first + i].storage;
        if (r->storages[s].base == PLAN_NOWHERE && !r->storages[s].is_kept &&
            plan_last_version(r, s)->last_use == k)
            room += (int64_t)mem_bytes(m, s);
    }
    return room;
}

/* Is the link in free before the next op ends? More would be in the way of what is wanted at once. */
static bool is_idle(const struct mem_manager *m, uint32_t s)
{
    uint8_t tier = mem_copy_tier(m, s);
    double queue = m->ahead->in_free[tier] - now_of(m);
    return queue <= (double)(m->r->clock[m->done + 1] - m->r->clock[m->done]) +
                        mem_copy_ns(&m->c.links->in[tier], mem_bytes(m, s));
}

/* What the next ops read comes back, in their order, as soon as nobody has to leave for it. */
static enum ebb_status fetch_early(struct mem_manager *m, struct ebb_error *err)
{
    const struct plan_recipes *r = m->r;
    int64_t room = (int64_t)m->slab[0].free_bytes, least = room;
    for (uint32_t k = m->done; k < r->node_count && k < m->done + OPS_AHEAD; k++) {
        const struct plan_node *node = &r->nodes[k];
        if (node->is_view)
            continue;
        room = room_behind(m, k, room, &least);
        for (uint32_t i = 0; i < node->in_count; i++) {
            struct plan_ref in = r->ins[node->in_first + i];
            const struct mem_slot *slot = &m->slots[in.storage];
            uint64_t bytes = mem_bytes(m, in.storage);
            if (slot->state == MEM_RESIDENT || !slot->has_copy || slot->version != in.version)
                continue;
            double late =
                arrival_ns(m, in.storage) - (double)(m->r->clock[k] - m->r->clock[m->done]);
            if (late > 0 && again_ns(m, in.storage, late) < late)
                continue;
            if (least < (int64_t)bytes || !is_idle(m, in.storage) ||
                mem_slab_find(&m->slab[0], bytes, false) == MEM_NONE)
                return EBB_OK;
            EBB_TRY(mem_room_fetch(m, in.storage, err));
            mem_victim_pool(m, in.storage);
            room -= (int64_t)bytes;
            least -= (int64_t)bytes;
        }
    }
    return EBB_OK;
}

enum ebb_status mem_look_ahead(struct mem_manager *m, struct ebb_error *err)
{
    if (!m->ahead || !(m->c.ways & (MEM_HOST | MEM_FILE)))
        return EBB_OK;
    const struct plan_node *node = &m->r->nodes[m->op];
    for (uint32_t i = 0; i < node->in_count; i++)
        EBB_TRY(send_early(m, m->r->ins[node->in_first + i].storage, err));
    for (uint32_t k = 0; k < node->out_count; k++)
        EBB_TRY(send_early(m, m->r->outs[node->out_first + k].storage, err));
    return fetch_early(m, err);
}
