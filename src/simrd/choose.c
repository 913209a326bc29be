/* choose.c - which storage leaves, exactly as the published simulator decides.
 *
 * The reference walks the pool in insertion order, keeps the last of the lowest scores and stops at
 * the first score of zero (choose_literal does just that). The fast path gives the same answer: a
 * vector pass over all storages computes an upper bound of each merit 1/score (neighbourhoods left
 * out: they only lower it), candidates that cannot win are never evaluated, evaluations stop as
 * soon as they have lost, and what is left within rounding distance of the best is compared by
 * correctly rounded quotients and pool order. */
#include "simrd/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

/* One body for several instruction sets; the choice runs before a sanitizer is ready, so not there. */
#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(__SANITIZE_ADDRESS__) ||                 \
    defined(__SANITIZE_THREAD__) || HAS_FEATURE(address_sanitizer) ||                              \
    HAS_FEATURE(thread_sanitizer)
#define SIMRD_CLONES
#else
#define SIMRD_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#endif

#define SLACK 0x1p-44 /* covers the rounding of every floating-point filter below */

double simrd_quotient(int64_t n, ebb_u128 d)
{
    uint64_t un = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    if (un == 0) /* the loop below looks for a first bit */
        return 0;
    if (un < (UINT64_C(1) << 53) && d < ((ebb_u128)1 << 53)) {
        double q = (double)un / (double)(uint64_t)d;
        return n < 0 ? -q : q;
    }
    ebb_u128 q = un / d, r = un % d;
    int shift = 0;
    while (q < ((ebb_u128)1 << 62)) { /* 63 significant bits, then a sticky bit */
        r <<= 1;
        q <<= 1;
        if (r >= d) {
            r -= d;
            q |= 1;
        }
        shift++;
    }
    uint64_t bits = (uint64_t)q; /* 2^62 <= bits < 2^63; round to 53: 10 bits go */
    uint64_t low = bits & 1023, keep = bits >> 10;
    if (low > 512 || (low == 512 && (r != 0 || (keep & 1))))
        keep++;
    double value = ldexp((double)keep, 10 - shift);
    return n < 0 ? -value : value;
}

/* ---- classes of evicted storages (union-find; never split, signed, as published) ------------- */

static uint32_t find(struct simrd_node *nodes, uint32_t node)
{
    while (nodes[node].parent != node) {
        nodes[node].parent = nodes[nodes[node].parent].parent;
        node = nodes[node].parent;
    }
    return node;
}

static void set_value(struct simrd_run *run, uint32_t root, int64_t value)
{
    int64_t before = run->nodes[root].value;
    run->negative_sum += (value < 0 ? value : 0) - (before < 0 ? before : 0);
    run->nodes[root].value = value;
}

static enum ebb_status new_node(struct simrd_run *run, uint32_t storage, int64_t value,
                                struct ebb_error *err)
{
    if (run->node_count == run->node_capacity)
        EBB_TRY(ebb_grow(&run->nodes, &run->node_capacity, run->node_count + 1, sizeof *run->nodes,
                         err));
    uint32_t node = (uint32_t)run->node_count++;
    run->nodes[node] = (struct simrd_node){.parent = node};
    set_value(run, node, value);
    run->node_of[storage] = node;
    return EBB_OK;
}

enum ebb_status simrd_class_evict(struct simrd_run *run, uint32_t storage, struct ebb_error *err)
{
    const struct mem_graph *g = &run->p->graph;
    EBB_TRY(new_node(run, storage, run->cost[storage], err));
    uint32_t root = run->node_of[storage];
    for (uint32_t e = g->neighbour_first[storage]; e < g->neighbour_first[storage + 1]; e++) {
        if (g->neighbours[e].birth > run->op)
            break;
        uint32_t other = g->neighbours[e].storage;
        if (run->material[other])
            continue;
        if (run->node_of[other] == SIMRD_NO_NODE) /* output of a pending call: class of value 0 */
            EBB_TRY(new_node(run, other, 0, err));
        uint32_t theirs = find(run->nodes, run->node_of[other]);
        if (theirs == root)
            continue;
        int64_t value = run->nodes[theirs].value;
        set_value(run, theirs, 0); /* no root any more: leaves the sum of negatives */
        run->nodes[theirs].parent = root;
        set_value(run, root, run->nodes[root].value + value);
    }
    return EBB_OK;
}

void simrd_class_material(struct simrd_run *run, uint32_t storage)
{
    uint32_t node = run->node_of[storage];
    if (node == SIMRD_NO_NODE)
        return;
    uint32_t root = find(run->nodes, node);
    set_value(run, root, run->nodes[root].value - run->cost[storage]);
    run->node_of[storage] = SIMRD_NO_NODE;
}

/* ---- numerators ------------------------------------------------------------------------------ */

/* Each may stop once the sum exceeds `most`; the caller then only knows that it does. */

static int64_t add_classes(struct simrd_run *run, uint32_t storage, int64_t sum, double most)
{
    const struct mem_graph *g = &run->p->graph;
    uint32_t visit = ++run->visit;
    for (uint32_t e = g->neighbour_first[storage]; e < g->neighbour_first[storage + 1]; e++) {
        if (g->neighbours[e].birth > run->op)
            break;
        uint32_t node = run->node_of[g->neighbours[e].storage];
        if (node == SIMRD_NO_NODE) /* material, or pending and untouched (value 0) */
            continue;
        uint32_t root = find(run->nodes, node);
        if (run->nodes[root].mark == visit)
            continue;
        run->nodes[root].mark = visit;
        sum += run->nodes[root].value;
        if ((double)(sum + run->negative_sum) > most) /* the rest cannot take off more than that */
            break;
    }
    return sum;
}

/* Evicted storages reachable in one direction through evicted ones. `latest` (may be NULL) gets the
 * freshest access; `mark` decides whether two walks share their visits (one set) or not. */
static int64_t add_region(struct simrd_run *run, uint32_t storage, bool is_backward, uint32_t visit,
                          int64_t sum, double most, double *latest)
{
    const struct mem_graph *g = &run->p->graph;
    const uint32_t *first = is_backward ? g->parent_first : g->child_first;
    const struct mem_edge *edges = is_backward ? g->parents : g->children;
    uint32_t *walk = run->walk;
    size_t depth = 0;
    walk[depth++] = storage;
    run->mark[storage] = visit;
    while (depth > 0) {
        uint32_t at = walk[--depth];
        for (uint32_t e = first[at]; e < first[at + 1]; e++) {
            if (edges[e].birth > run->op)
                break;
            uint32_t other = edges[e].storage;
            if (run->material[other] || run->mark[other] == visit)
                continue;
            run->mark[other] = visit;
            sum += run->cost[other];
            if (latest && run->last[other] > *latest)
                *latest = run->last[other];
            if ((double)sum > most)
                return sum;
            walk[depth++] = other;
        }
    }
    return sum;
}

static int64_t numerator(struct simrd_run *run, uint32_t storage, double most, double *latest)
{
    int64_t own = run->cost[storage];
    switch (run->o->policy->numerator) {
    case MEM_ONE:
    case MEM_RANDOM:
        return 1;
    case MEM_LOCAL:
        return own;
    case MEM_EQ:
        return add_classes(run, storage, own, most);
    case MEM_ANCESTORS:
        return add_region(run, storage, true, ++run->visit, own, most, NULL);
    case MEM_REGION:
        own = add_region(run, storage, false, ++run->visit, own, most, NULL);
        if ((double)own > most)
            return own;
        return add_region(run, storage, true, ++run->visit, own, most, NULL);
    case MEM_UNION: { /* one set: the second walk keeps the marks of the first */
        uint32_t visit = ++run->visit;
        own = add_region(run, storage, false, visit, own, most, latest);
        return add_region(run, storage, true, visit, own, most, latest);
    }
    }
    return own;
}

static double score(struct simrd_run *run, uint32_t storage)
{
    const struct mem_policy *policy = run->o->policy;
    double latest = run->last[storage];
    int64_t n = numerator(run, storage, INFINITY, &latest);
    ebb_u128 d = policy->by_size ? run->p->bytes[storage] : 1;
    if (policy->by_stale)
        d *= run->clock - (uint64_t)latest;
    return d == 0 ? INFINITY : simrd_quotient(n, d);
}

/* ---- choosing -------------------------------------------------------------------------------- */

struct pooled {
    uint32_t stamp, storage;
};

static int by_stamp(const void *a, const void *b)
{
    uint32_t x = ((const struct pooled *)a)->stamp, y = ((const struct pooled *)b)->stamp;
    return (x > y) - (x < y);
}

/* The published scan, word for word. */
static enum ebb_status choose_literal(struct simrd_run *run, uint32_t *victim,
                                      struct ebb_error *err)
{
    struct pooled *pool;
    EBB_TRY(ebb_new(&pool, run->pool_count, sizeof *pool, err));
    size_t count = 0;
    for (uint32_t s = 0; s < run->created; s++) {
        if (run->in_pool[s])
            pool[count++] = (struct pooled){run->stamps[s], s};
    }
    qsort(pool, count, sizeof *pool, by_stamp);
    double best = INFINITY;
    for (size_t i = 0; i < count; i++) {
        double cost = score(run, pool[i].storage);
        run->r->eval_count++;
        if (cost <= best) {
            best = cost;
            *victim = pool[i].storage;
        }
        if (cost == 0)
            break;
    }
    ebb_free(pool);
    return EBB_OK;
}

/* merit[i] = weight[i] * (clock - last[i]) or weight[i]; returns the largest. Eight lanes so that
 * compilers vectorise. */
SIMRD_CLONES static double fill_merits(double *restrict merit, const double *restrict weight,
                                       const double *restrict last, double clock, size_t count)
{
    double top[8] = {0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (size_t k = 0; k < 8; k++) {
            double m = weight[i + k] * (clock - last[i + k]);
            merit[i + k] = m;
            top[k] = m > top[k] ? m : top[k];
        }
    }
    for (; i < count; i++) {
        merit[i] = weight[i] * (clock - last[i]);
        top[0] = merit[i] > top[0] ? merit[i] : top[0];
    }
    for (size_t k = 1; k < 8; k++)
        top[0] = top[k] > top[0] ? top[k] : top[0];
    return top[0];
}

/* First index from `at` on whose merit is at least `least`; `count` when there is none. */
SIMRD_CLONES static uint32_t next_at_least(const double *merit, uint32_t at, uint32_t count,
                                           double least)
{
    for (; at + 8 <= count; at += 8) {
        int any = 0;
        for (uint32_t k = 0; k < 8; k++)
            any |= merit[at + k] >= least;
        if (any)
            break;
    }
    while (at < count && !(merit[at] >= least))
        at++;
    return at;
}

static double fill(struct simrd_run *run, const double *weight)
{
    if (run->o->policy->by_stale)
        return fill_merits(run->merit, weight, run->last, (double)run->clock, run->created);
    double top = 0;
    for (uint32_t s = 0; s < run->created; s++) {
        run->merit[s] = weight[s];
        top = weight[s] > top ? weight[s] : top;
    }
    return top;
}

/* Merit with everything counted; evaluation may stop early, then the result is merely an upper
 * bound below `floor`. */
static double full_merit(struct simrd_run *run, uint32_t storage, double floor_merit)
{
    const struct mem_policy *policy = run->o->policy;
    double scale = policy->by_size ? (double)run->p->bytes[storage] : 1.0;
    double stale = policy->by_stale ? (double)run->clock - run->last[storage] : 1.0;
    double most = floor_merit > 0 ? scale * stale / floor_merit * (1 + SLACK) : INFINITY;
    int64_t n = run->cost[storage] + run->negative_sum; /* no numerator is smaller */
    if (!((double)n > most))
        n = numerator(run, storage, most, NULL);
    run->guess[storage] = run->live_guess[storage] = scale / (double)n;
    return run->guess[storage] * stale;
}

/* Last in pool order among the lowest exact scores of the candidates whose merit is within rounding
 * of `best`. */
static uint32_t settle(struct simrd_run *run, const uint32_t *candidates, size_t count)
{
    if (count == 1)
        return candidates[0];
    uint32_t winner = candidates[0];
    double lowest = INFINITY;
    for (size_t i = 0; i < count; i++) {
        uint32_t s = candidates[i];
        double cost = score(run, s);
        if (cost < lowest || (cost == lowest && run->stamps[s] > run->stamps[winner])) {
            lowest = cost;
            winner = s;
        }
    }
    return winner;
}

static bool is_local(const struct mem_policy *policy)
{
    return policy->numerator == MEM_ONE || policy->numerator == MEM_LOCAL;
}

/* Merits that are exact integers need no settling: equal merit = equal score, the last in pool
 * order wins. */
static uint32_t last_with_merit(const struct simrd_run *run, double top)
{
    uint32_t winner = UINT32_MAX;
    for (uint32_t s = 0; s < run->created; s++) {
        if (run->merit[s] == top && (winner == UINT32_MAX || run->stamps[s] > run->stamps[winner]))
            winner = s;
    }
    return winner;
}

static void choose_local(struct simrd_run *run, double top, uint32_t *victim)
{
    const struct mem_policy *policy = run->o->policy;
    if (policy->numerator == MEM_ONE && !(policy->by_size && policy->by_stale)) {
        *victim = last_with_merit(run, top);
        return;
    }
    uint32_t *candidates = run->walk;
    size_t count = 0;
    double least = top * (1 - SLACK);
    for (uint32_t s = 0; (s = next_at_least(run->merit, s, run->created, least)) < run->created;
         s++)
        candidates[count++] = s;
    *victim = settle(run, candidates, count);
}

/* The storage that looked best when last evaluated: a strong incumbent lets most others stop early.
 */
static uint32_t incumbent(struct simrd_run *run)
{
    double top = fill(run, run->live_guess);
    uint32_t best = next_at_least(run->merit, 0, run->created, top);
    return best < run->created ? best : 0;
}

/* False when a numerator is not positive: drifting classes can do that, and the literal scan knows
 * what then happens. While some class is negative, sums do not only grow, so nothing may be skipped
 * or stopped early. */
static bool choose_neighbourly(struct simrd_run *run, uint32_t *victim)
{
    bool is_monotone = run->negative_sum == 0;
    uint32_t first = incumbent(run);
    double best = full_merit(run, first, 0);
    uint32_t *candidates = run->candidates;
    size_t count = 0;
    if (!(best > 0 && best < INFINITY))
        return false;
    candidates[count++] = first;
    fill(run, run->live);
    for (uint32_t s = 0;; s++) {
        s = next_at_least(run->merit, s, run->created,
                          is_monotone ? best * (1 - SLACK) : 0x1p-1000);
        if (s >= run->created)
            break;
        if (s == first)
            continue;
        double m = full_merit(run, s, best);
        if (!(m > 0 && m < INFINITY))
            return false;
        if (m < best * (1 - SLACK))
            continue;
        if (m > best * (1 + SLACK))
            count = 0;
        candidates[count++] = s;
        best = m > best ? m : best;
    }
    *victim = settle(run, candidates, count);
    return true;
}

enum ebb_status simrd_choose(struct simrd_run *run, uint32_t *victim, struct ebb_error *err)
{
    const struct mem_policy *policy = run->o->policy;
    *victim = UINT32_MAX;
    if (run->pool_count == 0)
        return EBB_OK;
    if (policy->numerator == MEM_RANDOM) {
        uint64_t k = (uint64_t)ebb_mt_int64(&run->rng, 0, run->pool_count);
        run->r->eval_count++;
        for (uint32_t s = 0; s < run->created; s++) {
            if (run->in_pool[s] && k-- == 0) {
                *victim = s;
                return EBB_OK;
            }
        }
    }
    if (run->o->reference_scan || policy->numerator == MEM_UNION)
        return choose_literal(run, victim, err);

    double top = fill(run, run->live);
    if (!(top > 0) || !(top < 1e290)) /* every score infinite, or a numerator of zero */
        return choose_literal(run, victim, err);
    if (is_local(policy))
        choose_local(run, top, victim);
    else if (!choose_neighbourly(run, victim))
        return choose_literal(run, victim, err);
    run->r->eval_count += run->pool_count;
    return EBB_OK;
}
