/* floor_sweep.c - plays the pebbling game within a number of bytes.
 *
 * The main level runs every node once, in order. What a node reads and does not find is made
 * again: the missing recipes, cut off at what lies there, are run in node order as a level of
 * their own, and so on downwards. While a level runs, what the nodes above wait for may itself
 * leave (it has a near use, so it is expensive); when they find it missing afterwards it is made
 * once more, this time with all they already have pinned: so every wait ends.
 *
 * Victims. The least (time to make it again) / (bytes x time until its next use), both known
 * exactly: the future is the trace. That is DTR's rule with hindsight; it spreads what stays over
 * the forward pass, densest where it is wanted first, so recomputation is recursive and not from
 * the beginning each time. */
#include "planner/floor.h"

#include <string.h>

#include "base/heap.h"

#define DEPTH 48
#define CLASSES 64
#define DEAR CLASSES        /* the list of those too dear to look at while there are others */
#define LISTS (CLASSES + 1) /* the sizes, by powers of two, and DEAR */
#define NOWHERE UINT32_MAX
#define HELPER 16 /* how much smaller a helper is than what it helps to make */

struct level {
    uint32_t *seq;      /* nodes, ascending */
    uint64_t *clock;    /* sum of costs before each */
    uint32_t *position; /* node -> 1 + index in seq; 0: not in it */
    uint32_t *targets;  /* storages the level is run for */
    size_t seq_capacity, clock_capacity, target_capacity;
    uint32_t count, at, target_count;
};

struct candidate {
    double score, weight;
    uint32_t storage, when;
};

struct sweep {
    const struct floor_graph *g;
    const struct floor_rules *rules;
    struct floor_game *game;
    struct ebb_error *err;
    uint8_t *is_resident;
    uint32_t *version;  /* storage -> that lies there */
    uint32_t *pins;     /* storage -> nodes that hold it right now */
    uint32_t *targeted; /* storage -> levels run for it */
    uint32_t *use_at;   /* storage -> index of its first use at or after the stage */
    uint32_t *next, *prev, heads[LISTS]; /* residents that are not persistent, by size */
    uint8_t *list_of;                    /* storage -> its list */
    uint32_t *mark, stamp;               /* nodes seen by a walk */
    uint64_t *bitmap;                    /* nodes of a level being collected */
    struct floor_ref *stack;
    size_t stack_count, stack_capacity;
    uint32_t *frames; /* storages pinned by waiting nodes */
    size_t frame_count, frame_capacity;
    uint64_t *known_cost; /* storage -> of making it again, when last worked out */
    struct candidate *candidates;
    size_t candidate_count;
    uint64_t choices;
    uint32_t *placing; /* outputs of the node about to run */
    size_t placing_count;
    struct level levels[DEPTH];
    uint32_t depth; /* levels in use; 0: main only */
    uint32_t stage;
    uint64_t sum, runs;
    uint64_t stage_cost, stage_runs; /* when the stage began */
};

/* ---- residents ------------------------------------------------------------------------------- */

static unsigned class_of(uint64_t bytes)
{
    return bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0;
}

static enum ebb_status emit(struct sweep *w, enum plan_act act, uint32_t index, uint64_t extra)
{
    struct floor_game *game = w->game;
    EBB_TRY(ebb_grow(&game->steps, &game->capacity, game->count + 1, sizeof *game->steps, w->err));
    game->steps[game->count++] =
        (struct floor_step){.act = (uint8_t)act, .index = index, .extra_bytes = extra};
    return EBB_OK;
}

static void link(struct sweep *w, uint32_t s, unsigned list)
{
    w->list_of[s] = (uint8_t)list;
    w->next[s] = w->heads[list];
    w->prev[s] = NOWHERE;
    if (w->heads[list] != NOWHERE)
        w->prev[w->heads[list]] = s;
    w->heads[list] = s;
}

static void unlink_resident(struct sweep *w, uint32_t s)
{
    if (w->next[s] != NOWHERE)
        w->prev[w->next[s]] = w->prev[s];
    if (w->prev[s] != NOWHERE)
        w->next[w->prev[s]] = w->next[s];
    else
        w->heads[w->list_of[s]] = w->next[s];
}

static enum ebb_status place(struct sweep *w, uint32_t s)
{
    const struct floor_storage *st = &w->g->storages[s];
    w->is_resident[s] = 1;
    w->known_cost[s] = w->g->nodes[w->g->versions[st->version_first].maker].cost + 1;
    if (st->base == PLAN_NOWHERE) {
        w->sum += st->bytes;
        link(w, s, class_of(st->bytes));
    }
    if (w->sum > w->game->peak_bytes)
        w->game->peak_bytes = w->sum;
    return emit(w, PLAN_PLACE, s, 0);
}

static enum ebb_status drop(struct sweep *w, uint32_t s)
{
    const struct floor_storage *st = &w->g->storages[s];
    w->is_resident[s] = 0;
    w->sum -= st->bytes;
    unlink_resident(w, s);
    return emit(w, PLAN_DROP, s, 0);
}

static bool have(const struct sweep *w, struct floor_ref ref)
{
    return w->is_resident[ref.storage] && w->version[ref.storage] == ref.version;
}

/* First use of s at or after the stage; the node of the stage itself counts until it has run. */
static uint32_t main_use(struct sweep *w, uint32_t s)
{
    const struct floor_storage *st = &w->g->storages[s];
    while (w->use_at[s] < st->use_count && w->g->uses[st->use_first + w->use_at[s]] < w->stage)
        w->use_at[s]++;
    return w->use_at[s] < st->use_count ? w->g->uses[st->use_first + w->use_at[s]] : FLOOR_NEVER;
}

/* First use of s in a level at its position `from` or later; its position, or FLOOR_NEVER. */
static uint32_t level_use(const struct sweep *w, const struct level *level, uint32_t s,
                          uint32_t from)
{
    const struct floor_storage *st = &w->g->storages[s];
    if (from >= level->count)
        return FLOOR_NEVER;
    uint32_t low = 0, high = st->use_count, first = level->seq[from];
    const uint32_t *uses = &w->g->uses[st->use_first];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (uses[middle] < first)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t last = level->seq[level->count - 1];
    for (; low < st->use_count && uses[low] <= last; low++)
        if (level->position[uses[low]])
            return level->position[uses[low]] - 1;
    return FLOOR_NEVER;
}

/* A small value nobody reads any more, but from which a large one that somebody will read can be
 * made, is worth its few bytes. Returns the first stage that reads such a one. */
static uint32_t helper_use(struct sweep *w, uint32_t s)
{
    const struct floor_graph *g = w->g;
    const struct floor_storage *st = &g->storages[s];
    uint32_t first = FLOOR_NEVER;
    for (uint32_t u = 0; u < st->use_count && g->uses[st->use_first + u] < w->stage; u++) {
        const struct floor_node *node = &g->nodes[g->uses[st->use_first + u]];
        for (uint32_t k = 0; k < node->out_count && node->is_replayable; k++) {
            uint32_t out = g->outs[node->out_first + k].storage;
            if (out != s && st->bytes <= g->storages[out].bytes / HELPER) {
                uint32_t use = main_use(w, out);
                first = use < first ? use : first;
            }
        }
    }
    return first;
}

/* Time until s is read next, as if nothing more had to be made again; UINT64_MAX: never. *when: the
 * stage of that. `at` of a level is the node that runs or waits: it counts. */
static uint64_t distance(struct sweep *w, uint32_t s, uint32_t *when)
{
    uint64_t before = 0;
    *when = w->stage;
    for (uint32_t d = w->depth; d > 0; d--) {
        const struct level *level = &w->levels[d - 1];
        uint64_t now = level->clock[level->at];
        uint32_t use = level_use(w, level, s, level->at);
        if (use != FLOOR_NEVER)
            return before + level->clock[use] - now;
        before += level->clock[level->count] - now;
        if (w->targeted[s]) {
            for (uint32_t i = 0; i < level->target_count; i++)
                if (level->targets[i] == s)
                    return before;
        }
    }
    *when = main_use(w, s);
    if (*when == FLOOR_NEVER)
        *when = helper_use(w, s);
    return *when == FLOOR_NEVER ? UINT64_MAX : before + w->g->clock[*when] - w->g->clock[w->stage];
}

static bool is_useful(struct sweep *w, uint32_t s)
{
    const struct floor_storage *st = &w->g->storages[s];
    if (st->base != PLAN_NOWHERE || w->targeted[s] || main_use(w, s) != FLOOR_NEVER)
        return true;
    if (floor_is_anchor(w->g, s, w->version[s]) && w->stage <= w->g->need_until[s])
        return true;
    for (uint32_t d = w->depth; d > 0; d--)
        if (level_use(w, &w->levels[d - 1], s, w->levels[d - 1].at) != FLOOR_NEVER)
            return true;
    return helper_use(w, s) != FLOOR_NEVER;
}

/* ---- victims --------------------------------------------------------------------------------- */

static enum ebb_status push(struct sweep *w, struct floor_ref ref)
{
    EBB_TRY(ebb_grow(&w->stack, &w->stack_capacity, w->stack_count + 1, sizeof *w->stack, w->err));
    w->stack[w->stack_count++] = ref;
    return EBB_OK;
}

/* Cost of making s again at stage `when` if it left now; gives up above `limit`. What lies there
 * now helps only if it is of use until then. */
static enum ebb_status recovery_cost(struct sweep *w, uint32_t s, uint32_t when, uint64_t limit,
                                     uint64_t *cost)
{
    const struct floor_graph *g = w->g;
    uint64_t sum = 0;
    w->stamp++;
    w->stack_count = 0;
    EBB_TRY(push(w, (struct floor_ref){s, w->version[s]}));
    while (w->stack_count > 0 && sum <= limit) {
        struct floor_ref ref = w->stack[--w->stack_count];
        for (uint32_t v = ref.version + 1; v-- > 0;) {
            uint32_t n = floor_version_of(g, ref.storage, v)->maker;
            const struct floor_node *node = &g->nodes[n];
            if (w->mark[n] == w->stamp)
                break;
            w->mark[n] = w->stamp;
            sum += node->cost + 1;
            w->game->work++;
            for (uint32_t i = 0; i < node->in_count; i++) {
                struct floor_ref in = g->ins[node->in_first + i];
                const struct floor_version *v_in = floor_version_of(g, in.storage, in.version);
                bool helps = have(w, in) && (v_in->last_use >= when || v_in->pinned_from == 0 ||
                                             g->storages[in.storage].bytes <=
                                                 g->storages[ref.storage].bytes / HELPER);
                if (in.storage != ref.storage && !helps)
                    EBB_TRY(push(w, in));
            }
        }
    }
    *cost = sum;
    return EBB_OK;
}

static bool can_leave(const struct sweep *w, uint32_t s)
{
    return w->pins[s] == 0 && floor_version_of(w->g, s, w->version[s])->pinned_from > w->stage;
}

/* What bytes and time until the next use are worth; a victim has the least cost / weight. */
static double weight_of(const struct sweep *w, uint64_t bytes, uint64_t distance_ns, uint64_t need)
{
    double b = (double)bytes, d = (double)distance_ns + 1;
    switch (w->rules->variant) {
    case 1: /* what is more than needed counts for nothing */
        return (bytes > need ? (double)need : b) * d;
    case 2: /* whenever it is used */
        return b;
    default:
        return b * d;
    }
}

/* Candidates in lists low..high-1, with the costs known for them; a score below zero: nobody will
 * read it. */
static void list_candidates(struct sweep *w, unsigned low, unsigned high, uint64_t need)
{
    w->candidate_count = 0;
    for (unsigned c = high; c-- > low;) {
        for (uint32_t s = w->heads[c]; s != NOWHERE; s = w->next[s]) {
            if (!can_leave(w, s) || w->g->storages[s].bytes == 0)
                continue;
            struct candidate *one = &w->candidates[w->candidate_count++];
            w->game->work += 2;
            uint64_t ahead = distance(w, s, &one->when);
            one->storage = s;
            one->weight = weight_of(w, w->g->storages[s].bytes, ahead, need);
            one->score = ahead == UINT64_MAX ? -1 : (double)w->known_cost[s] / one->weight;
        }
    }
}

/* Work its cost out; above `limit` it is enough to know that it is. */
static enum ebb_status refresh(struct sweep *w, struct candidate *c, double limit)
{
    double most = 4.0 * (double)w->g->base_cost + w->g->node_count;
    limit = limit < most ? limit : most;
    EBB_TRY(recovery_cost(w, c->storage, c->when, (uint64_t)limit, &w->known_cost[c->storage]));
    c->score = (double)w->known_cost[c->storage] / c->weight;
    if (w->known_cost[c->storage] > w->g->base_cost / 2 && w->list_of[c->storage] != DEAR) {
        unlink_resident(w, c->storage);
        link(w, c->storage, DEAR);
    }
    return EBB_OK;
}

static bool is_better(const struct candidate *a, const struct candidate *b)
{
    return a->score < b->score || (a->score == b->score && a->storage < b->storage);
}

/* The best victim in lists low..high-1. Costs that are known were worked out
 * earlier: mostly they have grown since. So the best by them is worked out anew until it stays the
 * best; one more each time keeps those that have shrunk from being forgotten. */
static enum ebb_status choose(struct sweep *w, unsigned low, unsigned high, uint64_t need,
                              uint32_t *victim)
{
    struct candidate *list = w->candidates;
    *victim = NOWHERE;
    list_candidates(w, low, high, need);
    if (w->candidate_count == 0)
        return EBB_OK;
    struct candidate *extra = &list[w->choices++ % w->candidate_count];
    if (extra->score >= 0)
        EBB_TRY(refresh(w, extra, 2.0 * (double)w->known_cost[extra->storage]));
    for (size_t fresh = SIZE_MAX;;) {
        size_t best = 0, second = SIZE_MAX;
        for (size_t i = 1; i < w->candidate_count; i++) {
            if (is_better(&list[i], &list[best])) {
                second = best;
                best = i;
            } else if (second == SIZE_MAX || is_better(&list[i], &list[second])) {
                second = i;
            }
        }
        if (best == fresh || list[best].score < 0 || second == SIZE_MAX) {
            *victim = list[best].storage;
            return EBB_OK;
        }
        fresh = best;
        EBB_TRY(refresh(w, &list[best], 4 * list[second].score * list[best].weight));
    }
}

/* Let go until `need` more bytes fit. */
static enum ebb_status make_room(struct sweep *w, uint64_t need, bool *fits)
{
    uint64_t budget = w->rules->budget_bytes;
    *fits = need <= budget && w->sum <= budget - need;
    if (need > budget)
        return EBB_OK;
    while (!*fits) {
        uint64_t want = w->sum - (budget - need);
        unsigned low = class_of(want) > 10 ? class_of(want) - 10 : 0;
        uint32_t victim;
        EBB_TRY(choose(w, low, CLASSES, want, &victim));
        if (victim == NOWHERE)
            EBB_TRY(choose(w, 0, LISTS, want, &victim));
        if (victim == NOWHERE)
            return EBB_OK;
        EBB_TRY(drop(w, victim));
        *fits = w->sum <= budget - need;
    }
    return EBB_OK;
}

/* ---- levels ---------------------------------------------------------------------------------- */

/* The recipes of the targets of a level, cut off at what lies there. False: one is gone. */
static enum ebb_status collect(struct sweep *w, struct level *level, bool *is_possible)
{
    const struct floor_graph *g = w->g;
    uint32_t lowest = UINT32_MAX, highest = 0, count = 0;
    *is_possible = true;
    while (w->stack_count > 0) {
        struct floor_ref ref = w->stack[--w->stack_count];
        for (uint32_t v = ref.version + 1; v-- > 0;) {
            uint32_t n = floor_version_of(g, ref.storage, v)->maker;
            const struct floor_node *node = &g->nodes[n];
            if (w->bitmap[n / 64] >> (n % 64) & 1)
                break;
            if (!node->is_replayable || n >= w->stage) {
                *is_possible = false;
                continue;
            }
            w->bitmap[n / 64] |= UINT64_C(1) << (n % 64);
            lowest = n < lowest ? n : lowest;
            highest = n > highest ? n : highest;
            count++;
            for (uint32_t i = 0; i < node->in_count; i++) {
                struct floor_ref in = g->ins[node->in_first + i];
                if (in.storage != ref.storage && !have(w, in))
                    EBB_TRY(push(w, in));
            }
        }
    }
    EBB_TRY(
        ebb_grow(&level->seq, &level->seq_capacity, (size_t)count + 1, sizeof *level->seq, w->err));
    EBB_TRY(ebb_grow(&level->clock, &level->clock_capacity, (size_t)count + 1, sizeof *level->clock,
                     w->err)); /* clock[count]: all of it */
    level->count = level->at = 0;
    level->clock[0] = 0;
    for (uint32_t k = lowest / 64; count > 0 && k <= highest / 64; k++) {
        for (uint64_t bits = w->bitmap[k]; bits; bits &= bits - 1) {
            uint32_t n = k * 64 + (uint32_t)__builtin_ctzll(bits);
            level->clock[level->count + 1] = level->clock[level->count] + g->nodes[n].cost;
            level->seq[level->count++] = n;
            level->position[n] = level->count;
        }
        w->bitmap[k] = 0;
    }
    return EBB_OK;
}

static enum ebb_status run_node(struct sweep *w, uint32_t n, bool *is_done);

static bool is_wanted(struct sweep *w, const struct level *level, struct floor_ref out)
{
    if (w->is_resident[out.storage] && w->version[out.storage] >= out.version)
        return false;
    if (level_use(w, level, out.storage, level->at + 1) != FLOOR_NEVER)
        return true;
    for (uint32_t i = 0; w->targeted[out.storage] && i < level->target_count; i++)
        if (level->targets[i] == out.storage)
            return true;
    return false;
}

static enum ebb_status run_level(struct sweep *w, struct level *level, bool *is_done)
{
    const struct floor_graph *g = w->g;
    *is_done = true;
    for (; level->at < level->count && *is_done; level->at++) {
        const struct floor_node *node = &g->nodes[level->seq[level->at]];
        bool wanted = false;
        for (uint32_t k = 0; k < node->out_count && !wanted; k++)
            wanted = is_wanted(w, level, g->outs[node->out_first + k]);
        if (wanted)
            EBB_TRY(run_node(w, level->seq[level->at], is_done));
    }
    return EBB_OK;
}

/* Run a level for the refs on the stack that are missing. */
static enum ebb_status descend(struct sweep *w, bool *is_done)
{
    *is_done = false;
    if (w->depth == DEPTH)
        return EBB_OK;
    struct level *level = &w->levels[w->depth];
    if (!level->position) {
        level->position = ebb_calloc((size_t)w->g->node_count + 1, sizeof *level->position);
        if (!level->position)
            return ebb_no_memory(w->err, w->g->node_count * sizeof *level->position);
    }
    EBB_TRY(ebb_grow(&level->targets, &level->target_capacity, w->stack_count,
                     sizeof *level->targets, w->err));
    level->target_count = 0;
    for (size_t i = 0; i < w->stack_count; i++) {
        level->targets[level->target_count++] = w->stack[i].storage;
        w->targeted[w->stack[i].storage]++;
    }
    bool is_possible;
    enum ebb_status status = collect(w, level, &is_possible);
    w->depth++;
    if (status == EBB_OK && is_possible)
        status = run_level(w, level, is_done);
    w->depth--;
    for (uint32_t i = 0; i < level->count; i++)
        level->position[level->seq[i]] = 0;
    for (uint32_t i = 0; i < level->target_count; i++)
        w->targeted[level->targets[i]]--;
    /* what a run inside a deeper level made superfluous */
    for (uint32_t i = 0; i < level->count && status == EBB_OK && *is_done; i++) {
        const struct floor_node *node = &w->g->nodes[level->seq[i]];
        for (uint32_t k = 0; k < node->out_count && status == EBB_OK; k++) {
            uint32_t s = w->g->outs[node->out_first + k].storage;
            if (w->is_resident[s] && w->pins[s] == 0 && w->targeted[s] == 0 && !is_useful(w, s))
                status = drop(w, s);
        }
    }
    return status;
}

static enum ebb_status hold(struct sweep *w, uint32_t s)
{
    EBB_TRY(
        ebb_grow(&w->frames, &w->frame_capacity, w->frame_count + 1, sizeof *w->frames, w->err));
    w->frames[w->frame_count++] = s;
    w->pins[s]++;
    return EBB_OK;
}

static void let_go(struct sweep *w, size_t frame)
{
    while (w->frame_count > frame)
        w->pins[w->frames[--w->frame_count]]--;
}

/* Make everything node n reads lie there, pinned from frame on. */
static enum ebb_status bring(struct sweep *w, uint32_t n, bool *is_done)
{
    const struct floor_graph *g = w->g;
    const struct floor_node *node = &g->nodes[n];
    size_t frame = w->frame_count;
    bool is_main = w->depth == 0;
    uint32_t restores = is_main ? node->restore_count : 0;
    for (uint32_t round = 0;; round++) {
        let_go(w, frame);
        w->stack_count = 0;
        for (uint32_t i = 0; i < node->in_count + restores; i++) {
            struct floor_ref ref = i < node->in_count
                                       ? g->ins[node->in_first + i]
                                       : g->restores[node->restore_first + i - node->in_count];
            if (!have(w, ref))
                EBB_TRY(push(w, ref));
            else if (round > 0)
                EBB_TRY(hold(w, ref.storage));
        }
        if (w->stack_count == 0 && round > 0)
            break;
        if (w->stack_count > 0) {
            EBB_TRY(descend(w, is_done));
            if (!*is_done || round > node->in_count + restores + 2) {
                *is_done = false;
                return EBB_OK;
            }
        }
    }
    *is_done = true;
    return EBB_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Which outputs are made: at the main level all that anybody will read; below, those the levels
 * want. Returns the bytes they need; *extra: workspace and scratch for the others. */
static uint64_t plan_outputs(struct sweep *w, const struct floor_node *node, uint64_t *extra)
{
    const struct floor_graph *g = w->g;
    uint64_t need = 0;
    w->placing_count = 0;
    *extra = node->workspace_bytes;
    for (uint32_t k = 0; k < node->out_count; k++) {
        struct floor_ref out = g->outs[node->out_first + k];
        const struct floor_storage *st = &g->storages[out.storage];
        if (out.version > 0)
            continue;
        bool wanted = !w->is_resident[out.storage] &&
                      (w->depth == 0 ? st->use_count > 0 || st->base != PLAN_NOWHERE
                                     : is_wanted(w, &w->levels[w->depth - 1], out));
        if (wanted) {
            w->placing[w->placing_count++] = out.storage;
            need += st->base == PLAN_NOWHERE ? st->bytes : 0;
        } else if (!node->can_skip) {
            *extra += st->bytes;
        }
    }
    return need;
}

/* Outputs nobody waits for now but somebody will read: made too where they cost no room. */
static void add_bonus(struct sweep *w, const struct floor_node *node, uint64_t *need,
                      uint64_t *extra)
{
    const struct floor_graph *g = w->g;
    for (uint32_t k = 0; k < node->out_count && w->depth > 0 && node->out_count > 1; k++) {
        struct floor_ref out = g->outs[node->out_first + k];
        uint64_t bytes = g->storages[out.storage].bytes;
        bool is_listed = false;
        for (size_t i = 0; i < w->placing_count; i++)
            is_listed |= w->placing[i] == out.storage;
        if (is_listed || out.version > 0 || w->is_resident[out.storage] ||
            main_use(w, out.storage) == FLOOR_NEVER)
            continue;
        uint64_t less = node->can_skip ? 0 : bytes;
        if (w->sum + *need + *extra + bytes - less > w->rules->budget_bytes)
            continue;
        w->placing[w->placing_count++] = out.storage;
        *need += bytes;
        *extra -= less;
    }
}

/* One stage may take a few times what everything before it took: more is thrashing, and the sooner
 * it ends the better. */
static bool is_too_long(struct sweep *w, const struct floor_node *node)
{
    uint64_t spent = w->game->cost - w->stage_cost, runs = w->runs - w->stage_runs;
    uint64_t times = w->rules->stage_limit;
    w->runs++;
    w->game->work += 8;
    return w->game->work > w->rules->work_limit ||
           w->game->cost + node->cost > w->rules->cost_limit || w->runs > w->rules->run_limit ||
           spent > times * (w->g->clock[w->stage] + w->g->base_cost / 256) + node->cost ||
           runs > times * ((uint64_t)w->stage + 256);
}

static enum ebb_status run_node(struct sweep *w, uint32_t n, bool *is_done)
{
    const struct floor_graph *g = w->g;
    const struct floor_node *node = &g->nodes[n];
    size_t frame = w->frame_count;
    uint64_t extra, need;
    EBB_TRY(bring(w, n, is_done));
    if (*is_done) {
        need = plan_outputs(w, node, &extra);
        EBB_TRY(make_room(w, need + extra, is_done));
    }
    if (*is_done && is_too_long(w, node)) {
        w->game->is_too_long = true;
        *is_done = false;
    }
    if (!*is_done) {
        let_go(w, frame);
        return EBB_OK;
    }
    add_bonus(w, node, &need, &extra);
    for (size_t i = 0; i < w->placing_count; i++) {
        EBB_TRY(place(w, w->placing[i]));
        w->version[w->placing[i]] = 0;
    }
    EBB_TRY(emit(w, PLAN_RUN, n, extra));
    w->game->cost += node->cost;
    w->game->reruns[n] |= w->depth > 0;
    if (w->sum + extra > w->game->peak_bytes)
        w->game->peak_bytes = w->sum + extra;
    for (uint32_t k = 0; k < node->out_count; k++) {
        struct floor_ref out = g->outs[node->out_first + k];
        if (out.version > 0)
            w->version[out.storage] = out.version;
    }
    let_go(w, frame);
    if (w->depth == 0)
        w->stage++;
    else
        w->levels[w->depth - 1].at++; /* it has run: what it read counts no more */
    enum ebb_status status = EBB_OK;
    for (uint32_t k = 0; k < node->in_count + node->out_count && status == EBB_OK; k++) {
        uint32_t s = k < node->in_count ? g->ins[node->in_first + k].storage
                                        : g->outs[node->out_first + k - node->in_count].storage;
        if (k < node->in_count)
            w->game->last_stage[s] = w->depth == 0 ? n : w->stage;
        if (w->is_resident[s] && w->pins[s] == 0 && !is_useful(w, s))
            status = drop(w, s);
    }
    if (w->depth > 0)
        w->levels[w->depth - 1].at--;
    return status;
}

static enum ebb_status play(struct sweep *w)
{
    const struct floor_graph *g = w->g;
    bool is_done = true;
    for (uint32_t n = 0; n < g->node_count && is_done; n++) {
        w->stage_cost = w->game->cost;
        w->stage_runs = w->runs;
        EBB_TRY(run_node(w, n, &is_done));
        for (uint32_t i = 0; i < g->nodes[n].end_count && is_done; i++) {
            uint32_t s = g->ends[g->nodes[n].end_first + i];
            if (w->is_resident[s] && !is_useful(w, s))
                EBB_TRY(drop(w, s));
        }
    }
    if (is_done)
        EBB_TRY(bring(w, g->node_count, &is_done));
    w->game->is_won = is_done;
    w->game->stage = w->stage;
    return EBB_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool allocate(struct sweep *w)
{
    size_t storages = (size_t)w->g->storage_count + 1, nodes = (size_t)w->g->node_count + 1;
    return (w->is_resident = ebb_calloc(storages, 1)) && (w->version = ebb_calloc(storages, 4)) &&
           (w->pins = ebb_calloc(storages, 4)) && (w->targeted = ebb_calloc(storages, 4)) &&
           (w->use_at = ebb_calloc(storages, 4)) && (w->next = ebb_calloc(storages, 4)) &&
           (w->prev = ebb_calloc(storages, 4)) && (w->list_of = ebb_calloc(storages, 1)) &&
           (w->placing = ebb_calloc(storages, 4)) && (w->known_cost = ebb_calloc(storages, 8)) &&
           (w->candidates = ebb_calloc(storages, sizeof *w->candidates)) &&
           (w->mark = ebb_calloc(nodes, 4)) && (w->bitmap = ebb_calloc(nodes / 64 + 1, 8)) &&
           (w->game->reruns = ebb_calloc(nodes, 1)) &&
           (w->game->last_stage = ebb_calloc(storages, 4));
}

static void release(struct sweep *w)
{
    ebb_free(w->is_resident);
    ebb_free(w->version);
    ebb_free(w->pins);
    ebb_free(w->targeted);
    ebb_free(w->use_at);
    ebb_free(w->next);
    ebb_free(w->prev);
    ebb_free(w->list_of);
    ebb_free(w->placing);
    ebb_free(w->known_cost);
    ebb_free(w->candidates);
    ebb_free(w->mark);
    ebb_free(w->bitmap);
    ebb_free(w->stack);
    ebb_free(w->frames);
    for (int d = 0; d < DEPTH; d++) {
        ebb_free(w->levels[d].seq);
        ebb_free(w->levels[d].clock);
        ebb_free(w->levels[d].position);
        ebb_free(w->levels[d].targets);
    }
}

enum ebb_status planner_floor_play(const struct floor_graph *graph, const struct floor_rules *rules,
                                   struct floor_game *game, struct ebb_error *err)
{
    struct sweep w = {.g = graph, .rules = rules, .game = game, .err = err};
    *game = (struct floor_game){0};
    memset(w.heads, 0xff, sizeof w.heads);
    w.sum = graph->base_bytes;
    game->peak_bytes = w.sum;
    enum ebb_status status =
        allocate(&w) ? EBB_OK : ebb_no_memory(err, graph->storage_count * sizeof *w.version);
    if (status == EBB_OK && w.sum <= rules->budget_bytes)
        status = play(&w);
    release(&w);
    if (status != EBB_OK)
        planner_floor_game_fini(game);
    return status;
}

void planner_floor_game_fini(struct floor_game *game)
{
    ebb_free(game->steps);
    ebb_free(game->reruns);
    ebb_free(game->last_stage);
    *game = (struct floor_game){0};
}
