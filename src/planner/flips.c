/* flips.c - single decisions of a game changed, the fastest kept.
 *
 * A game decides by prices; what a decision really costs is seen when the plan is timed: an op waits
 * for a copy in, or something is made again. Here the game that is fastest is played again with one
 * decision changed, of a *gap*: a storage that is gone until a certain use. It stays, is made again,
 * or waits in another tier; the game sees to the rest. Gaps that cost most come first. A change that
 * makes the plan faster stays, and its gaps are looked at anew. Where uses are few, those that have
 * no gap are asked to leave as well, and decisions are changed two at a time. The number of games is
 * given: the answer is a function of trace and tiers. */
#include "planner/flips.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"
#include "planner/floor.h"

#define FEW_USES 64   /* up to here decisions are changed two at a time */
#define SOME_USES 512 /* up to here all of them are */
#define SHAKEN 8      /* variants beside the plain ones */
#define SEEN 8192     /* hashes of games that were timed */
#define VARIANTS (2 * (FLOOR_VARIANTS + SHAKEN))
#define EASY 8  /* steps an op: a game of more counts as several */
#define GAMES 8 /* for every one that is timed: most are seen to be slower before */

struct gap {
    uint32_t use; /* index into plan_recipes.uses */
    uint8_t way;  /* how it came back: a mem_way; 0: it has none */
    uint64_t ns;  /* stall, or time to make it again */
};

struct flipping {
    const struct planner_flips *f;
    struct ebb_arena arena;
    struct plan_recipes *graph;
    uint32_t *node_of; /* op -> node */
    uint8_t *ways;     /* per use */
    struct gap *gaps;
    size_t gap_count;
    struct plan best;
    uint64_t best_ns;
    uint32_t use_count, tries, games; /* left */
    int variant;                      /* odd: patient; half of it: that of the game */
    uint64_t *seen;                   /* SEEN of them; 0: free */
    size_t seen_count;
};

/* ---- gaps of a plan --------------------------------------------------------------------------- */

struct clocks { /* of streams and per storage, addresses ignored */
    uint64_t now, out[DEVICE_TIERS], in[DEVICE_TIERS];
    uint64_t *arrive, *ready;
    uint32_t *gap,
        *gone; /* storage -> 1 + gap that its FETCH ended; 1 + use until which it is gone */
    uint8_t *has_run;
    bool *is_placed;
    uint32_t stage;
};

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void note_gone(struct flipping *p, struct clocks *c, uint32_t s)
{
    const struct plan_storage *st = &p->graph->storages[s];
    const uint32_t *uses = &p->graph->uses[st->use_first];
    uint32_t use = 0;
    while (use < st->use_count && uses[use] < c->stage)
        use++;
    c->gone[s] = use < st->use_count ? st->use_first + use + 1 : 0;
}

static void note_back(struct flipping *p, struct clocks *c, uint32_t s, uint8_t way, uint64_t ns)
{
    if (c->gone[s] == 0 || p->gap_count == p->use_count)
        return;
    p->gaps[p->gap_count++] = (struct gap){.use = c->gone[s] - 1, .way = way, .ns = ns};
    c->gap[s] = way == MEM_DROP ? 0 : (uint32_t)p->gap_count;
    c->gone[s] = 0;
}

static void see_run(struct flipping *p, struct clocks *c, uint32_t o)
{
    const struct trace *t = p->f->trace;
    const struct trace_op *op = &t->ops[o];
    uint64_t start = c->now;
    uint32_t last = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t s = t->tensors[t->inputs[op->input_first + i]].storage;
        last = c->arrive[s] > start ? c->gap[s] : last;
        start = later(start, c->arrive[s]);
    }
    if (last)
        p->gaps[last - 1].ns += start - c->now;
    c->now = start + op->cost_ns;
    for (uint32_t i = 0; i < op->output_count; i++) {
        uint32_t s = trace_output_of(t, op, i)->storage;
        if (c->has_run[o] && c->is_placed[s])
            note_back(p, c, s, MEM_DROP, op->cost_ns);
    }
    if (!c->has_run[o])
        c->stage = p->node_of[o] + 1;
    c->has_run[o] = 1;
}

static void see_copy(struct flipping *p, struct clocks *c, const struct plan_step *step)
{
    const struct device_config *links = &p->f->tiers->links;
    uint32_t s = step->index;
    uint64_t bytes = p->graph->storages[s].bytes;
    if (step->act == PLAN_SEND) {
        uint64_t start = later(c->now, later(c->out[step->tier], c->arrive[s]));
        c->out[step->tier] = start + (uint64_t)mem_copy_ns(&links->out[step->tier], bytes);
        c->ready[s] = c->out[step->tier];
        return;
    }
    uint64_t start = later(c->now, later(c->in[step->tier], c->ready[s]));
    c->in[step->tier] = start + (uint64_t)mem_copy_ns(&links->in[step->tier], bytes);
    c->arrive[s] = c->in[step->tier];
    note_back(p, c, s, (uint8_t)(1u << step->tier), 0);
}

static int by_ns(const void *a, const void *b)
{
    const struct gap *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return (x->use > y->use) - (x->use < y->use);
}

/* Uses without a gap, where they are few. */
static void add_others(struct flipping *p)
{
    size_t count = p->gap_count;
    for (uint32_t use = 0; use < p->use_count && p->use_count <= SOME_USES; use++) {
        bool is_there = false;
        for (size_t i = 0; i < count; i++)
            is_there |= p->gaps[i].use == use;
        if (!is_there && p->gap_count < p->use_count)
            p->gaps[p->gap_count++] = (struct gap){.use = use};
    }
}

static enum ebb_status see_gaps(struct flipping *p, struct ebb_error *err)
{
    size_t storages = (size_t)p->graph->storage_count + 1;
    struct ebb_arena arena;
    struct clocks c = {0};
    ebb_arena_init(&arena);
    c.arrive = ebb_arena_calloc(&arena, storages, sizeof *c.arrive);
    c.ready = ebb_arena_calloc(&arena, storages, sizeof *c.ready);
    c.gap = ebb_arena_calloc(&arena, storages, sizeof *c.gap);
    c.gone = ebb_arena_calloc(&arena, storages, sizeof *c.gone);
    c.is_placed = ebb_arena_calloc(&arena, storages, 1);
    c.has_run = ebb_arena_calloc(&arena, (size_t)p->f->trace->op_count + 1, 1);
    enum ebb_status status = ebb_arena_status(&arena, err);
    p->gap_count = 0;
    for (size_t i = 0; i < p->best.step_count && status == EBB_OK; i++) {
        const struct plan_step *s = &p->best.steps[i];
        if (s->act == PLAN_RUN)
            see_run(p, &c, s->index);
        else if (s->act == PLAN_SEND || s->act == PLAN_FETCH)
            see_copy(p, &c, s);
        else if (s->act == PLAN_PLACE || s->act == PLAN_DROP)
            c.is_placed[s->index] = s->act == PLAN_PLACE;
        if (s->act == PLAN_DROP)
            note_gone(p, &c, s->index);
    }
    ebb_arena_fini(&arena);
    if (p->gap_count)
        qsort(p->gaps, p->gap_count, sizeof *p->gaps, by_ns);
    add_others(p);
    return status;
}

/* ---- games ------------------------------------------------------------------------------------ */

/* Another decision often makes the same game. */
static bool is_known(struct flipping *p, const struct plan *game)
{
    uint64_t hash = ebb_hash64(game->steps, game->step_count * sizeof *game->steps) | 1;
    size_t at = (size_t)(hash >> 20) % SEEN;
    while (p->seen[at] && p->seen[at] != hash)
        at = (at + 1) % SEEN;
    bool is_there = p->seen[at] == hash;
    if (!is_there && p->seen_count < SEEN / 2) {
        p->seen[at] = hash;
        p->seen_count++;
    }
    return is_there;
}

/* A game that is not known, and whose ops alone take less than the best. */
static bool is_promising(struct flipping *p, const struct plan *game)
{
    uint64_t ns = 0;
    for (size_t i = 0; i < game->step_count; i++)
        if (game->steps[i].act == PLAN_RUN)
            ns += p->f->trace->ops[game->steps[i].index].cost_ns;
    return ns < p->best_ns && !is_known(p, game);
}

static bool is_over(const struct flipping *p)
{
    return p->tries == 0 || p->games == 0;
}

/* *is_better: it is the fastest so far. */
static enum ebb_status play(struct flipping *p, int variant, bool *is_better, struct ebb_error *err)
{
    struct plan game = {0}, fastest = {0};
    uint64_t ns = p->best_ns;
    bool is_won = false;
    enum ebb_status status = planner_floor_once(p->graph, p->f->tiers, variant / 2, variant % 2,
                                                p->ways, &game, &is_won, err);
    uint32_t price = 1 + (uint32_t)(game.step_count / (EASY * ((size_t)p->f->trace->op_count + 1)));
    p->games -= price < p->games ? price : p->games;
    if (status == EBB_OK && is_won && is_promising(p, &game)) {
        p->tries -= p->tries > 0;
        status = p->f->time(p->f->context, &game, &fastest, &ns, err);
    }
    *is_better = status == EBB_OK && ns < p->best_ns;
    if (*is_better) {
        ebb_swap(&p->best, &fastest, sizeof fastest);
        p->best_ns = ns;
        p->variant = variant;
    }
    plan_fini(&fastest);
    plan_fini(&game);
    return status;
}

/* How a use is tried: what is gone comes back otherwise or stays, what stays goes before others, and
 * what is made early is made when it is read. */
static const uint8_t others[] = {MEM_DROP, MEM_HOST, MEM_FILE, 0, FLOOR_SKIP | FLOOR_ANY};
static const uint8_t leaving[] = {FLOOR_FIRST | FLOOR_ANY, FLOOR_FIRST | MEM_DROP,
                                  FLOOR_FIRST | MEM_HOST, FLOOR_FIRST | MEM_FILE,
                                  FLOOR_SKIP | FLOOR_ANY};
enum { WAYS = sizeof others };

static bool has_way(const struct flipping *p, uint8_t way)
{
    const uint64_t *bytes = p->f->tiers->bytes;
    return !(way & FLOOR_ANY) || (way & MEM_DROP) || (bytes[DEVICE_HOST] && (way & MEM_HOST)) ||
           (bytes[DEVICE_FILE] && (way & MEM_FILE));
}

/* One use in every other way; *is_better: one was faster and stays. */
static enum ebb_status flip(struct flipping *p, uint32_t use, const uint8_t *list, uint8_t but,
                            bool *is_better, struct ebb_error *err)
{
    uint8_t before = p->ways[use];
    *is_better = false;
    for (int i = 0; i < WAYS && !is_over(p) && !*is_better; i++) {
        if (list[i] == but || list[i] == before || !has_way(p, list[i]))
            continue;
        p->ways[use] = list[i];
        EBB_TRY(play(p, p->variant, is_better, err));
    }
    if (!*is_better)
        p->ways[use] = before;
    return EBB_OK;
}

/* Gaps one after the other, until none is better otherwise. */
static enum ebb_status flip_gaps(struct flipping *p, struct ebb_error *err)
{
    for (bool is_better = true; is_better && !is_over(p);) {
        is_better = false;
        EBB_TRY(see_gaps(p, err));
        for (size_t i = 0; i < p->gap_count && !is_over(p) && !is_better; i++) {
            const struct gap *gap = &p->gaps[i];
            EBB_TRY(flip(p, gap->use, gap->way ? others : leaving, gap->way, &is_better, err));
        }
    }
    return EBB_OK;
}

/* One use in one way, and every use behind it in every way. */
static enum ebb_status flip_behind(struct flipping *p, uint32_t use, uint8_t way, bool *is_better,
                                   struct ebb_error *err)
{
    uint8_t before = p->ways[use];
    *is_better = false;
    if (way == before || !has_way(p, way))
        return EBB_OK;
    p->ways[use] = way;
    for (uint32_t other = use + 1; other < p->use_count && !*is_better; other++) {
        EBB_TRY(flip(p, other, others, FLOOR_ANY, is_better, err));
        if (!*is_better)
            EBB_TRY(flip(p, other, leaving, FLOOR_ANY, is_better, err));
    }
    if (!*is_better)
        p->ways[use] = before;
    return EBB_OK;
}

/* Where uses are few, two at a time. */
static enum ebb_status flip_all(struct flipping *p, struct ebb_error *err)
{
    bool is_better = true;
    while (is_better) {
        is_better = false;
        EBB_TRY(flip_gaps(p, err));
        for (uint32_t use = 0; use < p->use_count && p->use_count <= FEW_USES && !is_better; use++)
            for (int i = 0; i < 2 * WAYS && !is_over(p) && !is_better; i++)
                EBB_TRY(
                    flip_behind(p, use, i < WAYS ? others[i] : leaving[i - WAYS], &is_better, err));
    }
    return EBB_OK;
}

static enum ebb_status prepare(struct flipping *p, enum plan_look look, struct ebb_error *err)
{
    const struct trace *t = p->f->trace;
    EBB_TRY(plan_recipes_create(&p->graph, t, p->f->tiers->homes, look, err));
    const struct plan_recipes *g = p->graph;
    for (uint32_t s = 0; s < g->storage_count; s++)
        p->use_count += g->storages[s].use_count;
    p->node_of = ebb_arena_calloc(&p->arena, (size_t)t->op_count + 1, sizeof *p->node_of);
    p->ways = ebb_arena_calloc(&p->arena, (size_t)p->use_count + 1, 1);
    p->gaps = ebb_arena_calloc(&p->arena, (size_t)p->use_count + 1, sizeof *p->gaps);
    p->seen = ebb_arena_calloc(&p->arena, SEEN, sizeof *p->seen);
    EBB_TRY(ebb_arena_status(&p->arena, err));
    memset(p->ways, FLOOR_ANY, p->use_count);
    for (uint32_t n = 0; n < g->node_count; n++)
        p->node_of[g->nodes[n].op] = n;
    return EBB_OK;
}

static void forget_games(struct flipping *p)
{
    p->best_ns = UINT64_MAX;
    p->seen_count = 0;
    memset(p->seen, 0, SEEN * sizeof *p->seen);
}

/* How fast each variant is as it comes. */
static enum ebb_status play_all(struct flipping *p, uint64_t *ns, struct ebb_error *err)
{
    bool is_better;
    memset(ns, 0xff, VARIANTS * sizeof *ns);
    for (int v = 0; v < VARIANTS; v += p->use_count <= SOME_USES ? 1 : 2) {
        forget_games(p); /* patient games take longer */
        EBB_TRY(play(p, v, &is_better, err));
        ns[v] = p->best_ns;
    }
    return EBB_OK;
}

/* From a variant, or where an earlier start came to, as far as single changes lead. */
static enum ebb_status begin_at(struct flipping *p, int variant, const uint8_t *ways,
                                struct ebb_error *err)
{
    bool is_better;
    forget_games(p);
    p->variant = variant;
    memcpy(p->ways, ways, p->use_count);
    EBB_TRY(play(p, variant, &is_better, err));
    return p->best_ns != UINT64_MAX ? flip_gaps(p, err) : EBB_OK;
}

/* From the variants that are fastest; then two at a time from where that was best. */
static enum ebb_status flip_starts(struct flipping *p, struct ebb_error *err)
{
    uint64_t ns[VARIANTS], best_ns = UINT64_MAX;
    uint8_t *any = ebb_arena_calloc(&p->arena, (size_t)p->use_count + 1, 1);
    uint8_t *ways = ebb_arena_calloc(&p->arena, (size_t)p->use_count + 1, 1);
    int variant = 0;
    EBB_TRY(ebb_arena_status(&p->arena, err));
    memset(any, FLOOR_ANY, p->use_count);
    EBB_TRY(play_all(p, ns, err));
    for (int i = 0; i < p->f->starts; i++) {
        int first = 0;
        for (int v = 1; v < VARIANTS; v++)
            first = ns[v] < ns[first] ? v : first;
        if (ns[first] == UINT64_MAX)
            break;
        p->tries = p->f->tries;
        p->games = GAMES * p->f->tries;
        EBB_TRY(begin_at(p, first, any, err));
        ns[first] = UINT64_MAX;
        if (p->best_ns < best_ns) {
            best_ns = p->best_ns;
            variant = p->variant;
            memcpy(ways, p->ways, p->use_count);
        }
    }
    if (best_ns == UINT64_MAX || p->use_count > FEW_USES)
        return EBB_OK;
    for (int i = 0; i < 2; i++) { /* patient, and not */
        p->tries = p->f->tries;
        p->games = GAMES * p->f->tries;
        EBB_TRY(begin_at(p, variant ^ i, ways, err));
        if (p->best_ns != UINT64_MAX)
            EBB_TRY(flip_all(p, err));
    }
    return EBB_OK;
}

static enum ebb_status flip_order(const struct planner_flips *flips, enum plan_look look,
                                  const struct plan_holds *holds, struct ebb_error *err)
{
    struct flipping p = {
        .f = flips, .best_ns = UINT64_MAX, .tries = flips->tries, .games = GAMES * flips->tries};
    ebb_arena_init(&p.arena);
    plan_init(&p.best);
    enum ebb_status status = prepare(&p, look, err);
    if (status == EBB_OK && (look == PLAN_OFFLINE || p.graph->is_moved)) {
        plan_recipes_settle(p.graph, holds);
        status = flip_starts(&p, err);
    }
    plan_fini(&p.best);
    plan_recipes_destroy(p.graph);
    ebb_arena_fini(&p.arena);
    return status;
}

enum ebb_status planner_flip(const struct planner_flips *flips, struct ebb_error *err)
{
    static const struct plan_holds holds[] = {{0}, {.keep_again = true}, {.is_shortest = true}};
    enum ebb_status status = EBB_OK;
    struct planner_flips f = *flips;
    for (size_t i = 0; i < (f.is_thorough ? sizeof holds / sizeof *holds : 1); i++, f.starts = 2)
        for (int k = 0; k < 2; k++)
            EBB_THEN(status, flip_order(&f, k ? PLAN_EARLY : PLAN_OFFLINE, &holds[i], err));
    return status;
}
