/* floor_room.c - what lies there during a game, when it will be read, and who leaves to make room.
 *
 * Victims. The least (time to make it again) / (bytes x time until its next use), both known
 * exactly: the future is the trace. That is DTR's rule with hindsight; it spreads what stays over
 * the forward pass, densest where it is wanted first, so recomputation is recursive and not from
 * the beginning each time.
 *
 * What an earlier game should not have let go counts as dearer (rules->dear).
 *
 * With lower tiers a victim is copied to one when that takes less time than making it again, or when
 * it cannot be made again. */
#include "planner/floor_play.h"

#include <math.h>

#include "base/heap.h"
#include "base/rng.h"
#include "base/sorted.h"

#define MANY 256 /* candidates */
#define VERY_MANY 4096
#define HELPER 16 /* how much smaller a helper is than what it helps to make */

/* ---- residents ------------------------------------------------------------------------------- */

static unsigned class_of(uint64_t bytes)
{
    return bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0;
}

enum ebb_status planner_floor_emit(struct floor_play *w, enum plan_act act, uint32_t index)
{
    bool is_copy = act == PLAN_SEND || act == PLAN_FETCH || act == PLAN_FORGET;
    return plan_add(&w->game->plan, act, index, is_copy && act != PLAN_SEND ? 0 : PLAN_NOWHERE,
                    is_copy ? w->copy_tier[index] : 0, w->err);
}

static void link(struct floor_play *w, uint32_t s, unsigned list)
{
    w->list_of[s] = (uint8_t)list;
    w->next[s] = w->heads[list];
    w->prev[s] = FLOOR_NOWHERE;
    if (w->heads[list] != FLOOR_NOWHERE)
        w->prev[w->heads[list]] = s;
    w->heads[list] = s;
}

static void unlink_resident(struct floor_play *w, uint32_t s)
{
    if (w->next[s] != FLOOR_NOWHERE)
        w->prev[w->next[s]] = w->prev[s];
    if (w->prev[s] != FLOOR_NOWHERE)
        w->next[w->prev[s]] = w->next[s];
    else
        w->heads[w->list_of[s]] = w->next[s];
}

enum ebb_status planner_floor_place(struct floor_play *w, struct plan_ref ref)
{
    uint32_t s = ref.storage;
    const struct plan_storage *st = &w->g->storages[s];
    w->is_resident[s] = 1;
    w->version[s] = ref.version;
    w->there[s] = ref.version + 1;
    w->known_cost[s] = w->g->nodes[w->g->versions[st->version_first].maker].cost + 1;
    if (st->base == PLAN_NOWHERE) {
        w->sum += st->bytes;
        link(w, s, class_of(st->bytes));
    }
    if (w->sum > w->game->peak_bytes)
        w->game->peak_bytes = w->sum;
    return planner_floor_emit(w, PLAN_PLACE, s);
}

enum ebb_status planner_floor_clear(struct floor_play *w, uint32_t s)
{
    w->is_resident[s] = 0;
    w->there[s] = 0;
    w->sum -= w->g->storages[s].bytes;
    unlink_resident(w, s);
    return planner_floor_emit(w, PLAN_DROP, s);
}

static enum ebb_status drop(struct floor_play *w, uint32_t s)
{
    const struct plan_storage *st = &w->g->storages[s];
    if (st->home && w->copy[s] != w->version[s] + 1 &&
        !planner_floor_is_old(w, s)) { /* the next run finds it at home */
        w->copy[s] = w->version[s] + 1;
        EBB_TRY(planner_floor_emit(w, PLAN_SEND, s));
    }
    return planner_floor_clear(w, s);
}

static enum ebb_status forget_copy(struct floor_play *w, uint32_t s)
{
    if (w->copy[s] == 0 || w->g->storages[s].home)
        return EBB_OK;
    w->copy[s] = 0;
    w->low_sum[w->copy_tier[s]] -= w->g->storages[s].bytes;
    return planner_floor_emit(w, PLAN_FORGET, s);
}

enum ebb_status planner_floor_outdate(struct floor_play *w, uint32_t s)
{
    if (!w->g->storages[s].home)
        return forget_copy(w, s);
    w->copy[s] = FLOOR_OUTDATED;
    return EBB_OK;
}

enum ebb_status planner_floor_discard(struct floor_play *w, uint32_t s)
{
    EBB_TRY(forget_copy(w, s));
    return w->is_resident[s] ? drop(w, s) : EBB_OK;
}

/* First use of s at or after the stage; the node of the stage itself counts until it has run. */
uint32_t planner_floor_main_use(struct floor_play *w, uint32_t s)
{
    const struct plan_storage *st = &w->g->storages[s];
    while (w->use_at[s] < st->use_count && w->g->uses[st->use_first + w->use_at[s]] < w->stage)
        w->use_at[s]++;
    return w->use_at[s] < st->use_count ? w->g->uses[st->use_first + w->use_at[s]] : PLAN_NEVER;
}

/* First use of s in a level at its position `from` or later; its position, or PLAN_NEVER. */
uint32_t planner_floor_level_use(const struct floor_play *w, const struct floor_level *level,
                                 uint32_t s, uint32_t from)
{
    const struct plan_storage *st = &w->g->storages[s];
    if (from >= level->count)
        return PLAN_NEVER;
    const uint32_t *uses = &w->g->uses[st->use_first];
    size_t low = ebb_first_u32(uses, st->use_count, level->seq[from]);
    uint32_t last = level->seq[level->count - 1];
    for (; low < st->use_count && uses[low] <= last; low++)
        if (level->position[uses[low]])
            return level->position[uses[low]] - 1;
    return PLAN_NEVER;
}

bool planner_floor_is_source(const struct plan_recipes *g, const struct plan_node *node, uint32_t s)
{
    uint64_t bytes = g->storages[s].bytes, made = 0;
    if (!node->is_replayable || node->in_count != 1 || node->out_count != 1)
        return false;
    made = g->storages[g->outs[node->out_first].storage].bytes;
    return made < bytes && made >= bytes / 2;
}

/* A small value nobody reads any more, but from which a large one that somebody will read can be
 * made, is worth its few bytes; so is what a smaller version was made of, where the rules say so.
 * Returns the first stage that reads such a one. */
static uint32_t helper_use(struct floor_play *w, uint32_t s)
{
    const struct plan_recipes *g = w->g;
    const struct plan_storage *st = &g->storages[s];
    uint32_t first = PLAN_NEVER;
    for (uint32_t u = 0; u < st->use_count && g->uses[st->use_first + u] < w->stage; u++) {
        const struct plan_node *node = &g->nodes[g->uses[st->use_first + u]];
        for (uint32_t k = 0; k < node->out_count && node->is_replayable; k++) {
            uint32_t out = g->outs[node->out_first + k].storage;
            bool is_absent = w->rules->is_patient && !w->is_resident[out] && !w->copy[out];
            bool is_source = w->rules->keeps_sources && planner_floor_is_source(g, node, s);
            if (out != s &&
                (is_absent || is_source || st->bytes <= g->storages[out].bytes / HELPER)) {
                uint32_t use = planner_floor_main_use(w, out);
                first = use < first ? use : first;
            }
        }
    }
    return first;
}

/* Time until s is read next, as if nothing more had to be made again; UINT64_MAX: never. *when: the
 * stage of that. `at` of a level is the node that runs or waits: it counts. */
static uint64_t distance(struct floor_play *w, uint32_t s, uint32_t *when)
{
    uint64_t before = 0;
    *when = w->stage;
    for (uint32_t d = w->depth; d > 0; d--) {
        const struct floor_level *level = &w->levels[d - 1];
        uint64_t now = level->clock[level->at];
        uint32_t use = planner_floor_level_use(w, level, s, level->at);
        if (use != PLAN_NEVER)
            return before + level->clock[use] - now;
        before += level->clock[level->count] - now;
        if (w->targeted[s]) {
            for (uint32_t i = 0; i < level->target_count; i++)
                if (level->targets[i] == s)
                    return before;
        }
    }
    *when = planner_floor_main_use(w, s);
    if (*when == PLAN_NEVER)
        *when = helper_use(w, s);
    if (*when == PLAN_NEVER && planner_floor_is_useful(w, s)) /* for recipes only */
        *when = w->g->need_until[s];
    return *when == PLAN_NEVER ? UINT64_MAX : before + w->g->clock[*when] - w->g->clock[w->stage];
}

bool planner_floor_is_useful(struct floor_play *w, uint32_t s)
{
    const struct plan_storage *st = &w->g->storages[s];
    if (st->base != PLAN_NOWHERE || w->targeted[s] || planner_floor_main_use(w, s) != PLAN_NEVER)
        return true;
    if (plan_version_of(w->g, s, w->version[s])->expire == 0 && w->stage <= w->g->need_until[s])
        return true;
    for (uint32_t d = w->depth; d > 0; d--)
        if (planner_floor_level_use(w, &w->levels[d - 1], s, w->levels[d - 1].at) != PLAN_NEVER)
            return true;
    return helper_use(w, s) != PLAN_NEVER;
}

/* ---- victims --------------------------------------------------------------------------------- */

enum ebb_status planner_floor_push(struct floor_play *w, struct plan_ref ref)
{
    EBB_TRY(ebb_grow(&w->stack, &w->stack_capacity, w->stack_count + 1, sizeof *w->stack, w->err));
    w->stack[w->stack_count++] = ref;
    return EBB_OK;
}

/* What lies there now helps to make `bytes` again at stage `when` only if it is of use until then. */
static bool helps(const struct floor_play *w, const struct floor_input *in, uint32_t when,
                  uint64_t bytes)
{
    return w->there[in->storage] == in->version + 1 &&
           (in->until >= when || w->g->storages[in->storage].bytes <= bytes / HELPER);
}

/* Cost of making s again at stage `when` if it left now; gives up above `limit`. Nothing else is
 * done as often in a game. */
static uint64_t recovery_cost(struct floor_play *w, uint32_t s, uint32_t when, uint64_t limit)
{
    const struct plan_recipes *g = w->g;
    uint64_t sum = 0, runs = 0;
    uint32_t *mark = w->mark, stamp = ++w->stamp;
    struct floor_input *top = w->walk;
    *top++ = (struct floor_input){.storage = s,
                                  .version = w->version[s],
                                  .maker = plan_version_of(g, s, w->version[s])->maker};
    while (top > w->walk && sum <= limit) {
        struct floor_input ref = *--top;
        uint64_t bytes = g->storages[ref.storage].bytes;
        for (uint32_t v = ref.version, n = ref.maker; mark[n] != stamp;
             n = plan_version_of(g, ref.storage, --v)->maker) {
            const struct floor_node *node = &w->walk_nodes[n];
            const struct floor_input *in = &w->walk_inputs[node->in_first];
            mark[n] = stamp;
            sum += node->cost;
            runs++;
            for (const struct floor_input *end = in + node->in_count; in < end; in++) {
                if (w->has_below && w->copy[in->storage] == in->version + 1)
                    sum +=
                        (uint64_t)mem_copy_ns(&w->rules->tiers->links.in[w->copy_tier[in->storage]],
                                              g->storages[in->storage].bytes);
                else if (in->storage != ref.storage && mark[in->maker] != stamp &&
                         !helps(w, in, when, bytes))
                    *top++ = *in;
            }
            if (v == 0)
                break;
        }
    }
    w->game->work += runs;
    return sum;
}

/* How s may be gone until it is read next. */
static unsigned ways_of(const struct floor_play *w, uint32_t s)
{
    const struct plan_storage *st = &w->g->storages[s];
    uint32_t use = w->use_at[s];
    if (w->is_plain || !w->rules->ways)
        return FLOOR_ANY;
    while (use < st->use_count && w->g->uses[st->use_first + use] < w->stage)
        use++;
    return use < st->use_count ? w->rules->ways[st->use_first + use] : FLOOR_ANY;
}

/* Time to copy s to a tier, if it is not there, and back; INFINITY: it does not fit, or its copy has a
 * place elsewhere, which it keeps. */
static double copy_cost_in(const struct floor_play *w, uint32_t s, uint8_t tier)
{
    const struct planner_tiers *t = w->rules->tiers;
    uint64_t bytes = w->g->storages[s].bytes, more = w->copy[s] ? 0 : bytes;
    if ((w->rules->demands & PLANNER_NO_COPIES) && !w->g->storages[s].home)
        return INFINITY;
    if (!(ways_of(w, s) >> tier & 1) || (w->copy[s] && tier != w->copy_tier[s]))
        return INFINITY;
    if (t->bytes[tier] == 0 || more > t->bytes[tier] - w->low_sum[tier])
        return INFINITY;
    return floor(mem_swap_ns(&t->links.in[tier], &t->links.out[tier], bytes,
                             w->copy[s] == w->version[s] + 1));
}

/* The same for the tier where that is least. */
static double copy_cost(const struct floor_play *w, uint32_t s, uint8_t *tier)
{
    double best = INFINITY;
    for (uint8_t k = DEVICE_HOST; w->rules->tiers && k < DEVICE_TIERS; k++) {
        double cost = copy_cost_in(w, s, k);
        if (cost < best) {
            best = cost;
            *tier = k;
        }
    }
    return best;
}

static bool has_recipe(const struct floor_play *w, uint32_t s)
{
    uint32_t expire = plan_version_of(w->g, s, w->version[s])->expire;
    if (w->is_plain)
        return expire != 0 && expire >= w->stage && !w->is_restored[s];
    if ((w->rules->demands & PLANNER_NOTHING_AGAIN) ||
        (w->rules->fates && w->rules->fates[s].way == PLANNER_INPUT) ||
        !(ways_of(w, s) & MEM_DROP) || w->is_restored[s])
        return false;
    return expire != 0 && expire >= w->stage;
}

static bool can_leave(const struct floor_play *w, uint32_t s)
{
    uint8_t tier;
    return w->pins[s] == 0 &&
           (has_recipe(w, s) || (!w->is_plain && copy_cost(w, s, &tier) < INFINITY));
}

/* What having s again will cost, by what is known. With lower tiers the last variant copies whatever
 * it can: that needs the least room. */
static uint64_t price_of(const struct floor_play *w, uint32_t s, bool *is_copied)
{
    uint8_t tier;
    *is_copied = false;
    if (w->is_plain)
        return w->known_cost[s];
    double copy = copy_cost(w, s, &tier);
    bool is_made =
        has_recipe(w, s) && (copy == INFINITY || w->rules->variant != FLOOR_VARIANTS - 1);
    double price = mem_price(is_made ? (double)w->known_cost[s] : INFINITY, copy, is_copied);
    if (!*is_copied)
        price = (double)w->known_cost[s] * (w->rules->dear ? (double)w->rules->dear[s] : 1);
    return (uint64_t)price;
}

/* Its way back is a copy in copy_tier. */
static enum ebb_status send(struct floor_play *w, uint32_t s, double cost_ns)
{
    w->game->copy_ns += (uint64_t)cost_ns;
    if (w->copy[s] != w->version[s] + 1 && !planner_floor_is_old(w, s)) {
        w->low_sum[w->copy_tier[s]] += w->copy[s] ? 0 : w->g->storages[s].bytes;
        w->copy[s] = w->version[s] + 1;
        EBB_TRY(planner_floor_emit(w, PLAN_SEND, s));
    }
    return drop(w, s);
}

/* A victim goes, to a lower tier when that is its way back. */
static enum ebb_status leave(struct floor_play *w, uint32_t s)
{
    bool is_copied;
    price_of(w, s, &is_copied);
    if (!is_copied || !planner_floor_is_useful(w, s))
        return drop(w, s);
    double cost_ns = copy_cost(w, s, &w->copy_tier[s]);
    return send(w, s, cost_ns);
}

enum ebb_status planner_floor_part(struct floor_play *w, uint32_t s, bool *is_done)
{
    if (w->rules->fates[s].way == PLANNER_AGAIN)
        return has_recipe(w, s) ? drop(w, s) : EBB_OK;
    if (!(w->rules->demands & PLANNER_INPUTS_LEAVE))
        return EBB_OK;
    for (uint8_t k = DEVICE_HOST; w->rules->tiers && k < DEVICE_TIERS; k++) {
        double cost_ns = copy_cost_in(w, s, k);
        if (cost_ns < INFINITY) { /* the host before the file */
            w->copy_tier[s] = k;
            return send(w, s, cost_ns);
        }
    }
    *is_done = false;
    return EBB_OK;
}

/* A factor between 1/2 and 2, a function of the variant and of what the game has done so far. */
static double shake(const struct floor_play *w)
{
    uint64_t random = w->game->work * 64 + (uint64_t)w->rules->variant;
    return exp2((double)(ebb_splitmix64(&random) >> 11) * 0x1p-52 - 1);
}

/* What bytes and time until the next use are worth; a victim has the least cost / weight. */
static double weight_of(const struct floor_play *w, uint64_t bytes, uint64_t distance_ns,
                        uint64_t need)
{
    double b = (double)bytes, d = (double)distance_ns + 1;
    switch (w->rules->variant) {
    case 1: /* what is more than needed counts for nothing */
        return (bytes > need ? (double)need : b) * d;
    case 2: /* whenever it is used */
        return b;
    default:
        return w->rules->variant < FLOOR_VARIANTS ? b * d : b * d * shake(w);
    }
}

/* Candidates in lists low..high-1, with the costs known for them; a score below zero: nobody will
 * read it. */
static void list_candidates(struct floor_play *w, unsigned low, unsigned high, uint64_t need)
{
    w->candidate_count = 0;
    for (unsigned c = high; c-- > low;) {
        for (uint32_t s = w->heads[c]; s != FLOOR_NOWHERE; s = w->next[s]) {
            if (!can_leave(w, s) || w->g->storages[s].bytes == 0)
                continue;
            struct floor_candidate *one = &w->candidates[w->candidate_count++];
            w->game->work += 2;
            uint64_t ahead = distance(w, s, &one->when);
            one->storage = s;
            one->weight = weight_of(w, w->g->storages[s].bytes, ahead, need);
            bool is_copied;
            uint64_t price = price_of(w, s, &is_copied);
            bool is_first = ahead == UINT64_MAX || (ways_of(w, s) & FLOOR_FIRST);
            one->score = is_first ? -1 : ((double)price + 1) / one->weight;
            one->is_exact = is_copied;
        }
    }
}

/* Work its cost out; above `limit` it is enough to know that it is. */
static void refresh(struct floor_play *w, struct floor_candidate *c, double limit)
{
    double most = 4.0 * (double)w->g->base_cost + w->g->node_count;
    limit = limit < most ? limit : most;
    w->known_cost[c->storage] = recovery_cost(w, c->storage, c->when, (uint64_t)limit);
    uint64_t price = price_of(w, c->storage, &c->is_exact);
    c->score = ((double)price + 1) / c->weight;
    if (price > w->g->base_cost / 2 && w->list_of[c->storage] != FLOOR_DEAR) {
        unlink_resident(w, c->storage);
        link(w, c->storage, FLOOR_DEAR);
    }
}

static bool is_better(const struct floor_candidate *a, const struct floor_candidate *b)
{
    return a->score < b->score || (a->score == b->score && a->storage < b->storage);
}

static void sift_down(struct floor_play *w, size_t i)
{
    struct floor_candidate *list = w->candidates, sinks = list[i];
    size_t count = w->candidate_count;
    for (size_t child = 2 * i + 1; child < count; child = 2 * i + 1) {
        if (child + 1 < count && is_better(&list[child + 1], &list[child]))
            child++;
        if (!is_better(&list[child], &sinks))
            break;
        list[i] = list[child];
        i = child;
    }
    list[i] = sinks;
}

/* Candidates of lists low..high-1 as a heap, the best first. One cost each time is worked out anew,
 * so that those that have shrunk are not forgotten. */
static void gather(struct floor_play *w, unsigned low, unsigned high, uint64_t need)
{
    list_candidates(w, low, high, need);
    if (w->candidate_count == 0)
        return;
    struct floor_candidate *extra = &w->candidates[w->choices++ % w->candidate_count];
    if (extra->score >= 0 && !extra->is_exact)
        refresh(w, extra, 2.0 * (double)w->known_cost[extra->storage]);
    for (size_t i = w->candidate_count / 2; i-- > 0;)
        sift_down(w, i);
}

/* Take the best off the heap. Costs that are known were worked out earlier: mostly they have grown
 * since. So the best by them is worked out anew until it stays the best. */
static uint32_t choose(struct floor_play *w)
{
    struct floor_candidate *list = w->candidates;
    uint32_t victim = FLOOR_NOWHERE;
    while (w->candidate_count > 0) {
        if (list[0].storage == victim || list[0].score < 0 || list[0].is_exact ||
            w->candidate_count == 1)
            break;
        victim = list[0].storage;
        size_t second = w->candidate_count > 2 && is_better(&list[2], &list[1]) ? 2 : 1;
        refresh(w, &list[0], 4 * list[second].score * list[0].weight);
        sift_down(w, 0);
    }
    if (w->candidate_count == 0)
        return FLOOR_NOWHERE;
    victim = list[0].storage;
    list[0] = list[--w->candidate_count];
    sift_down(w, 0);
    return victim;
}

static bool is_forgotten(struct floor_play *w, uint32_t s)
{
    return w->pins[s] == 0 && !w->g->storages[s].home && !can_leave(w, s) &&
           !planner_floor_is_useful(w, s);
}

/* What stayed for something that was made of it and is gone since, as an activation for the gradient
 * of a weight, and has no way back: nobody asked about it again. */
static enum ebb_status clear_forgotten(struct floor_play *w)
{
    for (unsigned c = 0; c < FLOOR_LISTS; c++)
        for (uint32_t s = w->heads[c], next; s != FLOOR_NOWHERE; s = next) {
            next = w->next[s];
            if (is_forgotten(w, s))
                EBB_TRY(planner_floor_discard(w, s));
        }
    return EBB_OK;
}

/* Let go until `need` more bytes fit. Where candidates are many, a little more: looking at all of
 * them pays for several. */
enum ebb_status planner_floor_make_room(struct floor_play *w, uint64_t need, bool *fits)
{
    uint64_t budget = w->rules->budget_bytes;
    *fits = need <= budget && w->sum <= budget - need;
    if (*fits || need > budget)
        return EBB_OK;
    uint64_t want = w->sum - (budget - need);
    unsigned low = class_of(want) > 10 ? class_of(want) - 10 : 0;
    gather(w, low, FLOOR_CLASSES, want);
    uint64_t spare = w->candidate_count > VERY_MANY ? budget / 128
                     : w->candidate_count > MANY    ? budget / 512
                                                    : 0;
    bool is_all = false;
    while (w->sum + need + (*fits ? spare : 0) > budget) {
        uint32_t victim = choose(w);
        if (victim == FLOOR_NOWHERE) {
            if (*fits || is_all)
                return EBB_OK;
            is_all = true;
            if (w->rules->clears)
                EBB_TRY(clear_forgotten(w));
            *fits = w->sum <= budget - need;
            gather(w, 0, FLOOR_LISTS, want);
            continue;
        }
        EBB_TRY(leave(w, victim));
        *fits = w->sum <= budget - need;
    }
    return EBB_OK;
}
