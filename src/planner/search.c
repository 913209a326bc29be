/* search.c - retention-interval flips: repair, annealing, filling. */
#include "planner/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/rng.h"

void planner_search_fini(struct planner_search *s)
{
    planner_sched_fini(&s->sched);
    planner_sched_fini(&s->best);
    ebb_arena_fini(&s->arena);
    *s = (struct planner_search){0};
}

enum ebb_status planner_search_init(struct planner_search *s, struct planner_eval *ev,
                                    uint64_t budget, uint64_t seed, struct ebb_error *err)
{
    const struct planner_graph *g = ev->graph;
    *s = (struct planner_search){.graph = g, .ev = ev, .budget = budget};
    uint64_t mix = ~seed; /* neighbouring seeds must not give shifted copies of one stream */
    s->random = ebb_splitmix64(&mix) ^ (seed << 32);
    s->run_words = (g->node_count + 63) / 64;
    enum ebb_status status = planner_sched_init(&s->sched, g, err);
    EBB_THEN(status, planner_sched_init(&s->best, g, err));
    size_t item_words = (g->item_count + 63) / 64;
    struct ebb_arena *a = &s->arena;
    s->stages = ebb_arena_calloc(a, g->node_count + 1, sizeof *s->stages);
    s->used = ebb_arena_calloc(a, g->node_count + 1, item_words * sizeof *s->used);
    s->run = ebb_arena_calloc(a, g->node_count + 1, s->run_words * sizeof *s->run);
    s->saved = ebb_arena_calloc(a, 2, (item_words + s->run_words) * sizeof *s->saved);
    s->movable = ebb_arena_calloc(a, g->item_count, sizeof *s->movable);
    s->mark = ebb_arena_calloc(a, g->node_count, sizeof *s->mark);
    s->stack = ebb_arena_calloc(a, g->node_count + 1, sizeof *s->stack);
    s->row_hash = ebb_arena_calloc(a, g->node_count + 1, sizeof *s->row_hash);
    s->row_bytes = ebb_arena_calloc(a, g->node_count + 1, sizeof *s->row_bytes);
    s->item_hash = ebb_arena_calloc(a, g->item_count, sizeof *s->item_hash);
    s->seen = ebb_arena_calloc(a, PLANNER_SEEN, sizeof *s->seen);
    EBB_THEN(status, ebb_arena_status(a, err));
    if (status != EBB_OK) {
        planner_search_fini(s);
        return status;
    }
    for (uint32_t i = 0; i < g->item_count; i++)
        s->item_hash[i] = ebb_hash64(&i, sizeof i);
    for (uint32_t i = 0; i < g->item_count; i++)
        if (!g->items[i].is_fixed && g->items[i].last_stage > g->items[i].node + 1 &&
            g->items[i].bytes > 0)
            s->movable[s->movable_count++] = i;
    return EBB_OK;
}

static uint64_t *used_row(const struct planner_search *s, uint32_t t)
{
    return s->used + (size_t)t * s->sched.words;
}

static uint64_t *run_row(const struct planner_search *s, uint32_t t)
{
    return s->run + (size_t)t * s->run_words;
}

/* A limit by work gives the same answer on every machine. */
static bool is_over(const struct planner_search *s, const struct planner_job *job)
{
    return (s->most_work && s->work > s->most_work) || planner_job_out_of_time(job);
}

static uint64_t over(const struct planner_search *s, uint64_t peak)
{
    return peak > s->budget ? peak - s->budget : 0;
}

/* Evaluate stage t and store what it runs and uses. */
static bool refresh(struct planner_search *s, uint32_t t)
{
    const struct planner_graph *g = s->graph;
    struct planner_stage stage;
    s->work += g->node_count;
    if (!planner_stage_eval_row(s->ev, t, planner_row(&s->sched, t), s->row_bytes[t],
                                planner_row(&s->sched, t + 1), &stage))
        return false;
    uint64_t *used = used_row(s, t), *run = run_row(s, t);
    memset(used, 0, s->sched.words * sizeof *used);
    memset(run, 0, s->run_words * sizeof *run);
    memcpy(run, s->ev->run, (t / 64 + 1) * sizeof *run);
    for (uint32_t w = 0; w <= t / 64; w++)
        for (uint64_t left = run[w]; left; left &= left - 1) {
            const struct planner_node *node = &g->nodes[w * 64 + (uint32_t)__builtin_ctzll(left)];
            for (uint32_t k = 0; k < node->in_count; k++)
                planner_bit_set(used, g->ins[node->in_first + k]);
        }
    s->stages[t] = stage;
    return true;
}

static void note_best(struct planner_search *s)
{
    if (s->excess > 0 || (s->has_best && s->cost >= s->best.cost))
        return;
    planner_sched_copy(&s->best, &s->sched);
    s->best.cost = s->cost;
    s->has_best = true;
}

static void note_row(struct planner_search *s, uint32_t t)
{
    const uint64_t *row = planner_row(&s->sched, t);
    s->row_bytes[t] = planner_row_bytes(s->graph, row);
    s->row_hash[t] = 0;
    for (uint32_t w = 0; w < s->sched.words; w++)
        for (uint64_t left = row[w]; left; left &= left - 1)
            s->row_hash[t] ^= s->item_hash[w * 64 + (uint32_t)__builtin_ctzll(left)];
}

/* Back from a schedule that was made of the best one: only what differs is evaluated. */
static void back_to_best(struct planner_search *s)
{
    size_t bytes = s->sched.words * sizeof *s->sched.keep;
    bool differs = false;
    s->cost = s->excess = 0;
    for (uint32_t t = 0; t <= s->sched.stages; t++) {
        uint64_t *row = planner_row(&s->sched, t);
        bool differed = differs;
        differs = memcmp(row, planner_row(&s->best, t), bytes) != 0;
        if (differs) {
            memcpy(row, planner_row(&s->best, t), bytes);
            note_row(s, t);
        }
        if (t > 0 && (differed || differs))
            (void)refresh(s, t - 1); /* was valid before */
    }
    for (uint32_t t = 0; t < s->sched.stages; t++) {
        s->cost += s->stages[t].cost;
        s->excess += over(s, s->stages[t].peak);
    }
}

bool planner_search_from(struct planner_search *s, const struct planner_sched *from)
{
    const struct planner_graph *g = s->graph;
    planner_sched_copy(&s->sched, from);
    for (uint32_t i = 0; i < g->item_count; i++) /* reruns may read what cannot be made again */
        for (uint32_t t = g->items[i].node + 1;
             g->items[i].is_fixed && t < s->sched.stages && t <= g->items[i].last_stage; t++)
            planner_keep(&s->sched, t, i);
    planner_sched_close(s->ev, &s->sched);
    for (uint32_t t = 0; t <= s->sched.stages; t++)
        note_row(s, t);
    s->cost = s->excess = 0;
    for (uint32_t t = 0; t < s->sched.stages; t++) {
        if (!refresh(s, t))
            return false;
        s->cost += s->stages[t].cost;
        s->excess += over(s, s->stages[t].peak);
    }
    note_best(s);
    return true;
}

/* ---- one flip ------------------------------------------------------------------------------- */

struct flip {
    uint32_t item, first, last; /* rows first..last change; stages first-1 and last are evaluated */
    bool is_keep, is_plain;
    int64_t cost;    /* change */
    uint64_t excess; /* afterwards */
    struct planner_stage old[2];
};

/* The gap of item i around row t; false when a flip there means nothing. */
static bool find_gap(const struct planner_search *s, uint32_t i, uint32_t t, struct flip *f)
{
    const struct planner_item *item = &s->graph->items[i];
    uint32_t limit = item->last_stage < s->sched.stages ? item->last_stage : s->sched.stages - 1;
    if (t <= item->node || t > limit)
        return false;
    f->item = i;
    f->is_keep = !planner_bit(planner_row(&s->sched, t), i);
    uint32_t a = t, b = t;
    if (f->is_keep) {
        while (!planner_bit(run_row(s, a - 1), item->node)) { /* made there, or present there */
            if (planner_bit(planner_row(&s->sched, a - 1), i))
                break;
            a--;
        }
        while (b < limit && !planner_bit(used_row(s, b), i) &&
               !planner_bit(planner_row(&s->sched, b + 1), i))
            b++;
        if (!planner_bit(used_row(s, b), i) && !planner_bit(planner_row(&s->sched, b + 1), i))
            return false; /* nobody wants it */
    } else {
        while (a - 1 > item->node && planner_bit(planner_row(&s->sched, a - 1), i) &&
               !planner_bit(used_row(s, a - 1), i))
            a--;
        while (b < s->sched.stages - 1 && !planner_bit(used_row(s, b), i) &&
               planner_bit(planner_row(&s->sched, b + 1), i))
            b++;
    }
    f->first = a;
    f->last = b;
    return true;
}

/* Only a part of the gap: keep from row t on (it is then made in the stage before), or drop up to
 * or from row t. */
static void cut_gap(uint32_t t, uint64_t choice, struct flip *f)
{
    if (f->is_keep || choice % 2 == 0)
        f->first = t;
    else
        f->last = t;
}

static void set_rows(struct planner_search *s, const struct flip *f, bool is_keep)
{
    uint64_t bytes = s->graph->items[f->item].bytes;
    for (uint32_t t = f->first; t <= f->last; t++) {
        uint64_t *row = planner_row(&s->sched, t);
        if (is_keep)
            planner_bit_set(row, f->item);
        else
            planner_bit_clear(row, f->item);
        s->row_bytes[t] = is_keep ? s->row_bytes[t] + bytes : s->row_bytes[t] - bytes;
        s->row_hash[t] ^= s->item_hash[f->item];
    }
}

/* Inner stages: only the bytes of the item come or go. */
static void shift_inner(struct planner_search *s, const struct flip *f, bool is_keep)
{
    uint64_t bytes = s->graph->items[f->item].bytes;
    for (uint32_t t = f->first; t < f->last; t++) {
        uint64_t *peak = &s->stages[t].peak;
        s->excess -= over(s, *peak);
        *peak = is_keep ? *peak + bytes : *peak - bytes;
        s->excess += over(s, *peak);
    }
}

static void save_stage(struct planner_search *s, struct flip *f, int end, uint32_t t)
{
    uint64_t *to = s->saved + (size_t)end * (s->sched.words + s->run_words);
    f->old[end] = s->stages[t];
    memcpy(to, used_row(s, t), s->sched.words * sizeof *to);
    memcpy(to + s->sched.words, run_row(s, t), s->run_words * sizeof *to);
}

static void restore_stage(struct planner_search *s, const struct flip *f, int end, uint32_t t)
{
    const uint64_t *from = s->saved + (size_t)end * (s->sched.words + s->run_words);
    s->stages[t] = f->old[end];
    memcpy(used_row(s, t), from, s->sched.words * sizeof *from);
    memcpy(run_row(s, t), from + s->sched.words, s->run_words * sizeof *from);
}

/* One of several outputs: if its maker runs inside the gap for another output, inner stages are
 * evaluated, too. */
static bool is_plain(const struct planner_search *s, const struct flip *f)
{
    uint32_t maker = s->graph->items[f->item].node;
    if (s->graph->nodes[maker].out_count == 1)
        return true;
    for (uint32_t t = f->first; t < f->last; t++)
        if (planner_bit(run_row(s, t), maker))
            return false;
    return true;
}

static void undo_flip(struct planner_search *s, const struct flip *f, uint64_t excess)
{
    set_rows(s, f, !f->is_keep);
    if (f->is_plain)
        shift_inner(s, f, !f->is_keep);
    else
        for (uint32_t t = f->first; t < f->last; t++)
            (void)refresh(s, t); /* was valid before */
    restore_stage(s, f, 0, f->first - 1);
    restore_stage(s, f, 1, f->last);
    s->excess = excess;
    s->cost = (uint64_t)((int64_t)s->cost - f->cost);
}

static bool refresh_inner(struct planner_search *s, struct flip *f)
{
    for (uint32_t t = f->first; t < f->last; t++) {
        uint64_t cost = s->stages[t].cost;
        s->excess -= over(s, s->stages[t].peak);
        if (!refresh(s, t))
            return false;
        s->excess += over(s, s->stages[t].peak);
        f->cost += (int64_t)s->stages[t].cost - (int64_t)cost;
    }
    return true;
}

/* Apply; false (and nothing changed) when the schedule would become invalid. */
static bool try_flip(struct planner_search *s, struct flip *f)
{
    uint64_t excess = s->excess;
    uint32_t ends[2] = {f->first - 1, f->last};
    f->cost = 0;
    f->is_plain = is_plain(s, f);
    save_stage(s, f, 0, ends[0]);
    save_stage(s, f, 1, ends[1]);
    set_rows(s, f, f->is_keep);
    bool is_valid = true;
    if (f->is_plain)
        shift_inner(s, f, f->is_keep);
    else
        is_valid = refresh_inner(s, f);
    for (int e = 0; e < 2; e++) {
        uint32_t t = ends[e];
        s->excess -= over(s, s->stages[t].peak);
        if (!is_valid || !refresh(s, t)) {
            f->cost = 0; /* not booked yet */
            undo_flip(s, f, excess);
            return false;
        }
        s->excess += over(s, s->stages[t].peak);
        f->cost += (int64_t)s->stages[t].cost - (int64_t)f->old[e].cost;
    }
    s->cost = (uint64_t)((int64_t)s->cost + f->cost);
    f->excess = s->excess;
    return true;
}

/* ---- what a flip would do -------------------------------------------------------------------- */

static void toggle(uint64_t *row, uint32_t i)
{
    row[i / 64] ^= UINT64_C(1) << (i % 64);
}

/* Stage t as its rows stand; what was evaluated before is remembered. */
static bool look_at(struct planner_search *s, uint32_t t, uint64_t in_bytes, uint64_t in,
                    uint64_t out, struct planner_stage *stage)
{
    uint64_t mix = in + t, key = (ebb_splitmix64(&mix) ^ out) | 1;
    struct planner_seen *seen = &s->seen[(key >> 32) % PLANNER_SEEN];
    s->work += s->graph->node_count;
    if (seen->key != key) {
        seen->key = key;
        seen->is_valid = planner_stage_eval_row(s->ev, t, planner_row(&s->sched, t), in_bytes,
                                                planner_row(&s->sched, t + 1), &seen->stage);
    }
    *stage = seen->stage;
    return seen->is_valid;
}

/* Cost and excess of a plain flip; nothing is changed. False: it cannot be. */
static bool look_at_flip(struct planner_search *s, struct flip *f)
{
    uint32_t ends[2] = {f->first - 1, f->last};
    uint64_t bytes = s->graph->items[f->item].bytes, own = s->item_hash[f->item];
    uint64_t *first = planner_row(&s->sched, f->first), *last = planner_row(&s->sched, f->last);
    bool is_valid = true;
    f->cost = 0;
    f->excess = s->excess;
    toggle(first, f->item);
    if (last != first)
        toggle(last, f->item);
    for (int e = 0; e < 2 && is_valid; e++) {
        const struct planner_stage *old = &s->stages[ends[e]];
        struct planner_stage stage;
        uint64_t in = s->row_hash[ends[e]], out = s->row_hash[ends[e] + 1];
        uint64_t in_bytes = s->row_bytes[ends[e]];
        if (e) {
            in ^= own;
            in_bytes = f->is_keep ? in_bytes + bytes : in_bytes - bytes;
        } else {
            out ^= own;
        }
        is_valid = look_at(s, ends[e], in_bytes, in, out, &stage);
        f->cost += (int64_t)stage.cost - (int64_t)old->cost;
        f->excess += over(s, stage.peak) - over(s, old->peak);
    }
    toggle(first, f->item);
    if (last != first)
        toggle(last, f->item);
    for (uint32_t t = f->first; t < f->last && is_valid; t++) {
        uint64_t peak = s->stages[t].peak;
        f->excess += over(s, f->is_keep ? peak + bytes : peak - bytes) - over(s, peak);
    }
    return is_valid;
}

/* The same of any flip. */
static bool foresee(struct planner_search *s, struct flip *f)
{
    uint64_t before = s->excess;
    if (is_plain(s, f))
        return look_at_flip(s, f);
    if (!try_flip(s, f))
        return false;
    undo_flip(s, f, before);
    return true;
}

/* ---- repair --------------------------------------------------------------------------------- */

static uint32_t worst_stage(const struct planner_search *s)
{
    uint32_t worst = 0;
    for (uint32_t t = 1; t < s->sched.stages; t++)
        if (s->stages[t].peak > s->stages[worst].peak)
            worst = t;
    return worst;
}

/* What stage t would run in addition, node v first, if row t had no output of it; counted up to
 * `most`. */
static uint64_t rerun_cost(struct planner_search *s, uint32_t v, uint32_t t, uint64_t most)
{
    const struct planner_graph *g = s->graph;
    const uint64_t *row = planner_row(&s->sched, t), *run = run_row(s, t);
    uint32_t count = 0, stamp = ++s->stamp;
    uint64_t cost = 0;
    if (planner_bit(run, v))
        return 0;
    s->mark[v] = stamp;
    s->stack[count++] = v;
    while (count > 0 && cost < most) {
        const struct planner_node *node = &g->nodes[s->stack[--count]];
        cost += node->cost;
        for (uint32_t k = 0; k < node->in_count; k++) {
            uint32_t i = g->ins[node->in_first + k];
            if (planner_bit(row, i))
                continue;
            uint32_t maker = g->items[i].node;
            if (s->mark[maker] == stamp || planner_bit(run, maker))
                continue;
            s->mark[maker] = stamp;
            s->stack[count++] = maker;
        }
    }
    return cost;
}

/* Bytes above the budget that a drop takes away at most. */
static uint64_t most_gain(const struct planner_search *s, const struct flip *f)
{
    uint64_t bytes = s->graph->items[f->item].bytes;
    uint64_t gain = over(s, s->stages[f->first - 1].peak) + over(s, s->stages[f->last].peak);
    for (uint32_t t = f->first; t < f->last && gain < s->excess; t++) {
        uint64_t above = over(s, s->stages[t].peak);
        gain += above < bytes ? above : bytes;
    }
    return gain < s->excess ? gain : s->excess;
}

/* Is it sure that a plain drop has no better score? The stage behind runs what it misses; the one
 * before may run less, but only where it makes the item again. */
static bool is_hopeless(struct planner_search *s, const struct flip *f, double score)
{
    uint32_t i = f->item, maker = s->graph->items[i].node, before = f->first - 1;
    uint64_t gain = most_gain(s, f), less = 0;
    bool is_wanted =
        planner_bit(used_row(s, f->last), i) || planner_bit(planner_row(&s->sched, f->last + 1), i);
    if (gain == 0 || !is_wanted)
        return gain == 0;
    if (before != maker && !planner_bit(planner_row(&s->sched, before), i))
        less = s->stages[before].cost - s->graph->nodes[before].cost;
    double enough = score * (double)gain * (1 + 1e-9) + (double)less + 1;
    uint64_t most = enough < 1e18 ? (uint64_t)enough : UINT64_MAX;
    uint64_t more = rerun_cost(s, maker, f->last, most);
    return more > less && (double)(more - less) / (double)gain >= score;
}

/* Try one drop; remember it when it buys excess more cheaply than the best so far. */
static void consider_drop(struct planner_search *s, struct flip *f, struct flip *best,
                          double *best_score)
{
    uint64_t before = s->excess;
    if (*best_score < INFINITY && is_plain(s, f) && is_hopeless(s, f, *best_score)) {
        s->work += 2 * (uint64_t)s->graph->node_count; /* as if both ends had been looked at */
        return;
    }
    if (!foresee(s, f))
        return;
    double gain = (double)before - (double)f->excess;
    double price = f->cost > 0 ? (double)f->cost : 1e-3;
    bool is_gain = f->excess < before;
    if (is_gain && price / gain < *best_score) {
        *best_score = price / gain;
        *best = *f;
    }
}

/* The drop around stage t that buys most excess per cost, parts of gaps included; false when none
 * helps. Items of `spared` are left alone. */
static bool best_drop(struct planner_search *s, uint32_t t, uint32_t spared, struct flip *best)
{
    double best_score = INFINITY;
    for (uint32_t m = 0; m < s->movable_count; m++) {
        uint32_t i = s->movable[m];
        if (i == spared)
            continue;
        for (uint32_t row = t; row <= t + 1 && row < s->sched.stages; row++) {
            struct flip f, part;
            if (!planner_bit(planner_row(&s->sched, row), i) || !find_gap(s, i, row, &f) ||
                f.is_keep)
                continue;
            consider_drop(s, &f, best, &best_score);
            part = f;
            part.last = row; /* made anew in this stage, kept from then on */
            if (part.last < f.last)
                consider_drop(s, &part, best, &best_score);
            part = f;
            part.first = row;
            if (part.first > f.first)
                consider_drop(s, &part, best, &best_score);
        }
    }
    return isfinite(best_score);
}

/* Drop until everything fits; false when stuck or when the cost reaches `limit`. */
static bool drop_until_fit(struct planner_search *s, uint32_t spared, uint64_t limit,
                           const struct planner_job *job)
{
    uint32_t stuck = 0;
    uint64_t n = s->graph->node_count,
             drops = s->exact_work ? s->exact_work / (n * n + 1) : UINT64_MAX;
    while (s->excess > 0) {
        struct flip f = {0};
        if (s->cost >= limit || drops-- == 0 || is_over(s, job))
            return false;
        uint32_t t = worst_stage(s);
        if (!best_drop(s, t, spared, &f)) {
            /* the worst stage is stuck: look at any other that is too high */
            bool is_found = false;
            for (uint32_t other = 0; other < s->sched.stages && !is_found && !is_over(s, job);
                 other++)
                is_found = s->stages[other].peak > s->budget && other != t &&
                           best_drop(s, other, spared, &f);
            if (!is_found || ++stuck > s->sched.stages)
                return false;
        }
        if (!try_flip(s, &f))
            return false;
    }
    return s->cost < limit;
}

/* ---- quick repair: estimates choose, exact flips act ---------------------------------------- */

/* About what it costs to have item i in stage t when row t does not keep it. */
static double remake_cost(const struct planner_search *s, uint32_t i, uint32_t t, int depth)
{
    const struct planner_graph *g = s->graph;
    const struct planner_node *node = &g->nodes[g->items[i].node];
    double cost = (double)node->cost + 1e-3;
    if (node->deadline < t || depth == 0)
        return INFINITY;
    if (planner_bit(run_row(s, t), g->items[i].node))
        return 1e-3; /* runs there anyway */
    for (uint32_t k = 0; k < node->in_count; k++) {
        uint32_t u = g->ins[node->in_first + k];
        if (!planner_bit(planner_row(&s->sched, t), u))
            cost += remake_cost(s, u, t, depth - 1);
    }
    return cost;
}

/* Items kept out of stage t that it does not need, cheapest per byte and crowded stage first. */
static size_t guess_drops(const struct planner_search *s, uint32_t t, const uint32_t *crowded,
                          struct planner_scored *guesses)
{
    size_t n = 0;
    for (uint32_t m = 0; m < s->movable_count; m++) {
        struct flip f;
        uint32_t i = s->movable[m];
        if (!planner_bit(planner_row(&s->sched, t + 1), i) || !find_gap(s, i, t + 1, &f))
            continue;
        uint32_t stages = crowded[f.last] - crowded[f.first - 1];
        double gain = (double)s->graph->items[i].bytes * (stages + 1);
        guesses[n++] = (struct planner_scored){remake_cost(s, i, f.last, 6) / gain, i};
    }
    qsort(guesses, n, sizeof *guesses, planner_by_score);
    return n;
}

/* Large schedules: stage by stage from the worst, drop by estimate until it fits. False when some
 * stage stays too high; the exact repair then goes on from there. */
static bool repair_quickly(struct planner_search *s, const struct planner_job *job)
{
    uint32_t stages = s->sched.stages;
    uint32_t *crowded = ebb_calloc(stages + 1, sizeof *crowded);
    struct planner_scored *guesses = ebb_calloc(s->movable_count + 1, sizeof *guesses);
    bool is_stuck = !crowded || !guesses;
    while (!is_stuck && s->excess > 0 && !is_over(s, job)) {
        uint32_t t = worst_stage(s), count = 0;
        uint64_t before = s->excess;
        if (t + 1 >= stages)
            break;
        for (uint32_t k = 0; k < stages; k++)
            crowded[k] = count += s->stages[k].peak > s->budget;
        size_t n = guess_drops(s, t, crowded, guesses);
        for (size_t k = 0; k < n && s->stages[t].peak > s->budget; k++) {
            struct flip f;
            uint64_t excess = s->excess;
            if (isfinite(guesses[k].score) && find_gap(s, guesses[k].item, t + 1, &f) &&
                !f.is_keep && try_flip(s, &f) && f.excess >= excess)
                undo_flip(s, &f, excess);
        }
        is_stuck = s->excess >= before;
    }
    ebb_free(crowded);
    ebb_free(guesses);
    return s->excess == 0;
}

#define QUICK_NODES 400 /* beyond, exact choices cost more than they bring */

bool planner_search_repair(struct planner_search *s, const struct planner_job *job)
{
    if (s->graph->node_count > QUICK_NODES && repair_quickly(s, job)) {
        note_best(s);
        return true;
    }
    bool is_fit = drop_until_fit(s, UINT32_MAX, UINT64_MAX, job);
    note_best(s);
    return is_fit;
}

/* Keep one gap that does not fit, pay by dropping others: an exchange that no single flip reaches.
 * True when the schedule got cheaper; otherwise it is as before. */
static bool try_exchange(struct planner_search *s, struct flip *f, const struct planner_job *job)
{
    uint64_t before = s->cost;
    if (!foresee(s, f) || f->cost >= 0 || !try_flip(s, f))
        return false;
    if (f->excess == 0)
        return true;
    if (drop_until_fit(s, f->item, before, job)) {
        note_best(s);
        return true;
    }
    back_to_best(s);
    return false;
}

typedef bool visit(struct planner_search *s, uint32_t node, uint32_t t,
                   const struct planner_job *job);

/* Every node that stage t runs again; whether one of the visits changed the schedule. */
static bool for_reruns(struct planner_search *s, uint32_t t, const struct planner_job *job,
                       visit *act)
{
    bool is_changed = false;
    for (uint32_t w = 0; w <= t / 64; w++) {
        uint64_t left = run_row(s, t)[w];
        if (w == t / 64)
            left &= ~(UINT64_C(1) << (t % 64));
        for (; left; left &= left - 1)
            is_changed |= act(s, w * 64 + (uint32_t)__builtin_ctzll(left), t, job);
    }
    return is_changed;
}

/* Keeping an output over the gap before would save the rerun. */
static bool exchange_node(struct planner_search *s, uint32_t v, uint32_t t,
                          const struct planner_job *job)
{
    const struct planner_node *node = &s->graph->nodes[v];
    bool is_changed = false;
    for (uint32_t i = node->out_first; i < node->out_first + node->out_count; i++) {
        struct flip f;
        if (!planner_bit(planner_row(&s->sched, t), i) && find_gap(s, i, t, &f))
            is_changed |= try_exchange(s, &f, job);
    }
    return is_changed;
}

void planner_search_polish(struct planner_search *s, const struct planner_job *job)
{
    bool is_changed = s->has_best && planner_search_from(s, &s->best);
    while (is_changed) {
        is_changed = false;
        for (uint32_t t = 0; t < s->sched.stages && !is_over(s, job); t++)
            is_changed |= for_reruns(s, t, job, exchange_node);
        planner_search_fill(s, job);
    }
}

static uint32_t below(struct planner_search *s, uint32_t n)
{
    return (uint32_t)((ebb_splitmix64(&s->random) >> 16) % n);
}

/* A few flips whatever they cost, near one stage. */
static void shake(struct planner_search *s)
{
    uint32_t centre = below(s, s->sched.stages), wanted = 1 + below(s, 4);
    for (uint32_t tries = 0; tries < 64 && wanted > 0; tries++) {
        struct flip f;
        uint32_t i = s->movable[below(s, s->movable_count)];
        uint32_t t = centre + below(s, 8);
        if (t >= s->sched.stages || !find_gap(s, i, t, &f))
            continue;
        if (below(s, 2) == 0)
            cut_gap(t, below(s, 2), &f);
        wanted -= try_flip(s, &f);
    }
}

void planner_search_iterate(struct planner_search *s, uint32_t iterations,
                            const struct planner_job *job)
{
    if (!s->has_best || s->movable_count == 0)
        return;
    for (uint32_t n = 0; n < iterations && !is_over(s, job); n++) {
        planner_search_from(s, &s->best);
        shake(s);
        if (!drop_until_fit(s, UINT32_MAX, s->best.cost + s->best.cost / 50, job))
            continue;
        planner_search_fill(s, job);
        /* exchanges compare with the best schedule, so they only help once it is near */
        if (s->cost > s->best.cost)
            continue;
        uint32_t begin = below(s, s->sched.stages);
        for (uint32_t k = 0; k < 24; k++)
            for_reruns(s, (begin + k) % s->sched.stages, job, exchange_node);
    }
    planner_search_polish(s, job);
}

/* ---- annealing ------------------------------------------------------------------------------ */

static double uniform(struct planner_search *s)
{
    return (double)(ebb_splitmix64(&s->random) >> 11) * 0x1p-53;
}

void planner_search_anneal(struct planner_search *s, uint64_t flips, double heat_factor,
                           const struct planner_job *job)
{
    const struct planner_graph *g = s->graph;
    if (s->movable_count == 0 || flips == 0)
        return;
    double node_cost = (double)g->base_cost / g->node_count;
    double hot = node_cost * heat_factor, cold = hot * 1e-3;
    /* price of a byte above the budget for one stage, adapted so that the walk hugs the budget */
    double price = (double)g->base_cost / (double)s->budget * 0.05;
    uint64_t fitting = 0, window = 0;
    for (uint64_t n = 0; n < flips; n++) {
        double heat = hot * pow(cold / hot, (double)n / (double)flips);
        struct flip f;
        uint32_t i = s->movable[ebb_splitmix64(&s->random) % s->movable_count];
        const struct planner_item *item = &g->items[i];
        uint32_t span =
            (item->last_stage < s->sched.stages ? item->last_stage : s->sched.stages - 1) -
            item->node;
        uint32_t t = item->node + 1 + (uint32_t)(ebb_splitmix64(&s->random) % span);
        uint64_t before = s->excess, choice = ebb_splitmix64(&s->random) >> 20;
        if (!find_gap(s, i, t, &f))
            continue;
        if (choice % 4 == 0)
            cut_gap(t, choice / 4, &f);
        if (try_flip(s, &f)) {
            double delta = (double)f.cost + price * ((double)f.excess - (double)before);
            if (delta > 0 && uniform(s) >= exp(-delta / heat))
                undo_flip(s, &f, before);
            else
                note_best(s);
        }
        fitting += s->excess == 0;
        if (++window == 1024) {
            price *= fitting > 512 ? 0.9 : fitting < 256 ? 1.15 : 1.0;
            fitting = window = 0;
            if (is_over(s, job))
                break;
        }
    }
    if (s->has_best) {
        planner_search_from(s, &s->best);
        planner_search_fill(s, job);
    }
}

/* Is there room for the item in every stage of the gap in which its maker does not run? Looking is
 * far cheaper than trying. */
static bool has_room(const struct planner_search *s, const struct flip *f)
{
    const struct planner_item *item = &s->graph->items[f->item];
    bool is_single = s->graph->nodes[item->node].out_count == 1;
    for (uint32_t t = f->first; t < f->last; t++)
        if (s->stages[t].peak + item->bytes > s->budget &&
            (is_single || !planner_bit(run_row(s, t), item->node)))
            return false;
    return true;
}

static bool try_keep(struct planner_search *s, struct flip *f)
{
    return has_room(s, f) && foresee(s, f) && f->excess == 0 && f->cost < 0 && try_flip(s, f);
}

/* Undo a flip that is not the last one tried. */
static void take_back(struct planner_search *s, const struct flip *f)
{
    uint32_t ends[2] = {f->first - 1, f->last};
    for (int e = 0; e < 2; e++) {
        s->excess -= over(s, s->stages[ends[e]].peak);
        s->cost -= s->stages[ends[e]].cost;
    }
    set_rows(s, f, !f->is_keep);
    if (f->is_plain) {
        shift_inner(s, f, !f->is_keep);
    } else {
        struct flip inner = *f;
        inner.cost = 0;
        (void)refresh_inner(s, &inner); /* was valid before */
        s->cost = (uint64_t)((int64_t)s->cost + inner.cost);
    }
    for (int e = 0; e < 2; e++) {
        (void)refresh(s, ends[e]);
        s->excess += over(s, s->stages[ends[e]].peak);
        s->cost += s->stages[ends[e]].cost;
    }
}

#define MOST_OUTPUTS 8

/* A node with several outputs runs again as long as one of them is missing: keep all it runs for.
 */
static bool try_keep_all(struct planner_search *s, uint32_t v, uint32_t t)
{
    const struct planner_node *node = &s->graph->nodes[v];
    struct flip flips[MOST_OUTPUTS];
    uint64_t cost = s->cost;
    uint32_t wanted[MOST_OUTPUTS], n = 0, done = 0;
    for (uint32_t i = node->out_first; i < node->out_first + node->out_count; i++) {
        if (planner_bit(planner_row(&s->sched, t), i) ||
            (!planner_bit(used_row(s, t), i) && !planner_bit(planner_row(&s->sched, t + 1), i)))
            continue;
        if (n == MOST_OUTPUTS || !find_gap(s, i, t, &flips[n]) || !has_room(s, &flips[n]))
            return false;
        wanted[n++] = i;
    }
    for (; done < n; done++)
        if (!find_gap(s, wanted[done], t, &flips[done]) || !flips[done].is_keep ||
            !has_room(s, &flips[done]) || !try_flip(s, &flips[done]))
            break;
    if (n > 0 && done == n && s->excess == 0 && s->cost < cost)
        return true;
    while (done-- > 0)
        take_back(s, &flips[done]);
    return false;
}

static bool fill_node(struct planner_search *s, uint32_t v, uint32_t t,
                      const struct planner_job *job)
{
    const struct planner_node *node = &s->graph->nodes[v];
    struct flip f;
    (void)job;
    if (node->out_count > 1)
        return try_keep_all(s, v, t);
    return node->out_count == 1 && !planner_bit(planner_row(&s->sched, t), node->out_first) &&
           find_gap(s, node->out_first, t, &f) && try_keep(s, &f);
}

/* Keep whatever fits and saves, until nothing changes. */
void planner_search_fill(struct planner_search *s, const struct planner_job *job)
{
    bool is_changed = s->excess == 0;
    while (is_changed && !is_over(s, job)) {
        is_changed = false;
        for (uint32_t t = s->sched.stages; t-- > 0 && !is_over(s, job);)
            is_changed |= for_reruns(s, t, job, fill_node);
    }
    note_best(s);
}
