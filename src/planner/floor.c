/* floor.c - the least memory: the smallest budget this planner has a plan for, and that plan.
 *
 * One game (floor_sweep.c) is played at smaller and smaller budgets; the smallest one won within
 * the time limit gives the plan. The same plan answers every larger budget, unless a game at that
 * budget is cheaper, so what the floor accepts is monotone by construction. Every play is a
 * function of the trace and the budget. */
#include "planner/floor.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "planner/job.h"

#define MOST_OVERHEAD 8   /* a floor that takes longer than this is of no use to anybody */
#define MOST_RUNS 100000  /* plans stay short: so many, or a few for each op when there are more */
#define SHAKES 24         /* random variants, for a cheaper plan of a small trace */
#define MANY_NODES 1500   /* from here on fewer variants and less patience */
#define LARGE_NODES 10000 /* from here on one variant, and a game that thrashes ends sooner */
#define LESSONS 8         /* games played again at a budget after a lost one taught something */
#define FEW_LESSONS 1     /* the same when the best is below what a floor is compared with */
#define DEARER 4.0f       /* how much dearer each lesson makes what was missed */
#define CHEAPER 1.5       /* times: sources stay where games then take so much less */
#define WORTH_SOURCES 1.1 /* times the step: above, a game is played again with them */
#define BLOCKS_NODES 5000 /* beyond, schedules take too much memory and time */
#define MORE_WORK (140 * UINT64_C(1000000)) /* of the whole search when the best is above that */

struct search {
    struct plan_recipes *graph;
    struct planner_tiers tiers; /* lower ones */
    bool has_tiers, keeps_sources, clears;
    struct floor_game best;   /* least peak so far */
    uint64_t low;             /* no plan is below it */
    uint64_t aim;             /* always live + working set: what a floor is compared with */
    uint64_t work_left;       /* the search ends when it is spent */
    float *dear;              /* storage -> factor that lessons taught; NULL: none */
    struct floor_found found; /* better than the best game, which then has its figures */
};

/* Is the best above what a floor is compared with? Then the search has more patience. */
static bool is_above(const struct search *s)
{
    return s->best.is_won && s->best.peak_bytes > s->aim;
}

static bool is_large(const struct search *s)
{
    return s->graph->node_count >= LARGE_NODES;
}

static struct floor_rules rules_for(const struct search *s, uint64_t budget, int variant,
                                    uint64_t work)
{
    const struct plan_recipes *g = s->graph;
    uint64_t nodes = g->node_count, most = nodes * MOST_OVERHEAD + 1000;
    uint64_t few = MOST_RUNS > nodes * 4 ? MOST_RUNS : nodes * 4;
    return (struct floor_rules){.budget_bytes = budget,
                                .cost_limit = g->base_cost * MOST_OVERHEAD,
                                .run_limit = most < few ? most : few,
                                .work_limit = work,
                                .tiers = s->has_tiers ? &s->tiers : NULL,
                                .demands = s->tiers.demands,
                                .fates = s->tiers.fates,
                                .dear = s->dear,
                                .stage_limit = is_large(s)          ? 1
                                               : is_above(s)        ? 16
                                               : nodes < MANY_NODES ? 8
                                                                    : 4,
                                .variant = variant,
                                .keeps_sources = s->keeps_sources,
                                .clears = s->clears};
}

/* Enough for a few tenths of a second, for one second where there are 50,000 nodes. */
static uint64_t work_for(const struct plan_recipes *g)
{
    uint64_t nodes = g->node_count;
    if (nodes >= LARGE_NODES)
        return 15 * 1000 * 1000 + nodes * 500;
    return 15 * 1000 * 1000 + nodes * 4000;
}

/* With lower tiers the last variant is the one that needs least. */
static int variants_for(const struct search *s)
{
    bool is_all = s->graph->node_count < MANY_NODES || s->has_tiers || is_above(s);
    return is_large(s) && !s->has_tiers ? 1 : is_all ? FLOOR_VARIANTS : 2;
}

/* Copies count as if nothing ran meanwhile. */
static uint64_t cost_of(const struct floor_game *game)
{
    return game->cost + game->copy_ns;
}

/* A game of the search; won with a lower peak it becomes the best. */
static enum ebb_status play(struct search *s, uint64_t budget, int variant, struct floor_game *game,
                            struct ebb_error *err)
{
    uint64_t share = work_for(s->graph) / 6, third = s->work_left / 3;
    struct floor_rules rules = rules_for(s, budget, variant, (third > share ? third : share) + 1);
    EBB_TRY(planner_floor_play(s->graph, &rules, game, err));
    s->work_left -= game->work < s->work_left ? game->work : s->work_left;
    if (game->is_won && (!s->best.is_won || game->peak_bytes < s->best.peak_bytes)) {
        ebb_swap(&s->best, game, sizeof *game);
        game->is_won = true;
    }
    return EBB_OK;
}

/* What was being made again when there was no room for it should not have gone: it is dearer in the
 * next game. */
static enum ebb_status learn(struct search *s, const struct floor_game *game, struct ebb_error *err)
{
    uint32_t count = s->graph->storage_count;
    if (!s->dear) {
        EBB_TRY(ebb_new(&s->dear, count, sizeof *s->dear, err));
        for (uint32_t i = 0; i < count; i++)
            s->dear[i] = 1;
    }
    for (size_t i = 0; i < game->missed_count; i++)
        s->dear[game->missed[i]] *= DEARER;
    return EBB_OK;
}

static void forget(struct search *s)
{
    ebb_free(s->dear);
    s->dear = NULL;
}

/* One variant at a budget, and again as long as it is lost for room and lessons are left. */
static enum ebb_status try_variant(struct search *s, uint64_t budget, int variant, int *lessons,
                                   bool *is_won, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    bool is_again = true;
    while (is_again && status == EBB_OK) {
        struct floor_game game;
        status = play(s, budget, variant, &game, err);
        if (status != EBB_OK)
            break;
        *is_won = game.is_won;
        is_again = !game.is_won && game.missed_count > 0 && s->work_left > 0 && *lessons > 0;
        if (is_again)
            status = learn(s, &game, err);
        *lessons -= is_again;
        planner_floor_game_fini(&game);
    }
    forget(s);
    return status;
}

/* Play at a budget until a game is won. */
static enum ebb_status try_budget(struct search *s, uint64_t budget, bool *is_won,
                                  struct ebb_error *err)
{
    int lessons = is_above(s) ? LESSONS : FEW_LESSONS;
    *is_won = false;
    for (int variant = 0; variant < variants_for(s) && !*is_won; variant++)
        EBB_TRY(try_variant(s, budget, variant, &lessons, is_won, err));
    return EBB_OK;
}

/* Does the graph have smaller versions of what does not lie there for good? */
static bool has_sources(const struct plan_recipes *g)
{
    for (uint32_t n = 0; n < g->node_count; n++) {
        const struct plan_node *node = &g->nodes[n];
        uint32_t s = node->in_count ? g->ins[node->in_first].storage : 0;
        if (node->in_count && g->storages[s].base == PLAN_NOWHERE &&
            planner_floor_is_source(g, node, s))
            return true;
    }
    return false;
}

/* Where steps build on one another (optimizers in a loop) and only a version in 16 bits is read
 * later, the way back is long without what that was made of; elsewhere keeping it is waste. One
 * game with twice the aim says which. */
static enum ebb_status choose_sources(struct search *s, struct ebb_error *err)
{
    uint64_t cost[2] = {UINT64_MAX, UINT64_MAX};
    if (s->aim >= s->best.peak_bytes / 2 || !has_sources(s->graph))
        return EBB_OK;
    for (int k = 0; k < 2; k++) {
        struct floor_game game;
        s->keeps_sources = k == 1;
        struct floor_rules rules = rules_for(s, 2 * s->aim, 0, work_for(s->graph) / 6);
        EBB_TRY(planner_floor_play(s->graph, &rules, &game, err));
        if (game.is_won)
            cost[k] = cost_of(&game);
        planner_floor_game_fini(&game);
    }
    s->keeps_sources = (double)cost[1] * CHEAPER < (double)cost[0];
    return EBB_OK;
}

/* Halve the distance between the best and `low` until it is a `grain`-th of the best. */
static enum ebb_status bisect(struct search *s, uint64_t low, uint64_t grain, struct ebb_error *err)
{
    uint64_t unit = s->graph->exact_bytes ? 1 : PLAN_UNIT;
    while (s->best.peak_bytes > low + unit && s->work_left > 0 &&
           s->best.peak_bytes - low > s->best.peak_bytes / grain) {
        uint64_t half = (s->best.peak_bytes - low) / 2;
        uint64_t middle = low + (half + unit - 1) / unit * unit;
        bool is_won;
        if (middle >= s->best.peak_bytes)
            break;
        EBB_TRY(try_budget(s, middle, &is_won, err));
        if (!is_won)
            low = middle;
    }
    return EBB_OK;
}

/* The other variants at the best's own budget, for a cheaper one; small traces try shaken ones. */
static enum ebb_status cheapen(struct search *s, struct ebb_error *err)
{
    int variants = FLOOR_VARIANTS + (s->graph->node_count < MANY_NODES ? SHAKES : 0);
    if (is_large(s))
        variants = 2;
    for (int variant = is_large(s) ? 1 : 0; variant < variants; variant++) {
        struct floor_game game;
        struct floor_rules rules =
            rules_for(s, s->best.peak_bytes, variant, work_for(s->graph) / 8);
        if (!s->has_tiers)
            rules.cost_limit = s->best.cost;
        EBB_TRY(planner_floor_play(s->graph, &rules, &game, err));
        if (game.is_won && cost_of(&game) < cost_of(&s->best))
            ebb_swap(&s->best, &game, sizeof game);
        planner_floor_game_fini(&game);
    }
    return EBB_OK;
}

/* Settle the graph by what the best game did, copied: the game may be replaced meanwhile. */
static enum ebb_status settle_by(struct search *s, bool by_reruns, struct ebb_error *err)
{
    size_t bytes = by_reruns ? s->graph->node_count : s->graph->storage_count * sizeof(uint32_t);
    void *copy;
    EBB_TRY(ebb_new(&copy, bytes, 1, err));
    memcpy(copy, by_reruns ? (void *)s->best.reruns : (void *)s->best.last_stage, bytes);
    struct plan_holds holds = {.may_rerun = by_reruns ? copy : NULL,
                               .last_stage = by_reruns ? NULL : copy};
    plan_recipes_settle(s->graph, &holds);
    ebb_free(copy);
    return EBB_OK;
}

/* First with anchors held for anything that might be made again; then only for what the best game
 * so far did make again; then no longer than that game read them; to the end, for the keep set; and
 * only for their readers. Large traces spend all their work on the first of these, unless the best
 * is still above the aim, and the largest do without all but the first. */
static enum ebb_status descend(struct search *s, struct ebb_error *err)
{
    bool is_won;
    s->work_left = UINT64_MAX;
    EBB_TRY(try_budget(s, TRACE_MAX_BYTES, &is_won, err));
    if (!is_won && (s->tiers.demands & PLANNER_INPUTS_LEAVE))
        return ebb_fail(err, EBB_EBUDGET,
                        "host and file, %llu and %llu bytes, have no room for the inputs of blocks "
                        "of %s",
                        (unsigned long long)s->tiers.bytes[DEVICE_HOST],
                        (unsigned long long)s->tiers.bytes[DEVICE_FILE], s->graph->trace->name);
    if (!is_won)
        return ebb_fail(err, EBB_EINTERNAL, "floor: the trace does not run without a limit");
    EBB_TRY(choose_sources(s, err));
    s->work_left = work_for(s->graph);
    EBB_TRY(bisect(s, s->low, is_large(s) ? 256 : 24, err));
    if (is_large(s))
        return EBB_OK;
    if (is_above(s) && work_for(s->graph) < MORE_WORK)
        s->work_left += MORE_WORK - work_for(s->graph);
    if (!is_above(s) || s->graph->node_count < MANY_NODES)
        EBB_TRY(bisect(s, s->low, 64, err));
    EBB_TRY(settle_by(s, true, err));
    EBB_TRY(bisect(s, s->low, 256, err));
    EBB_TRY(settle_by(s, false, err));
    EBB_TRY(bisect(s, s->low, 256, err));
    plan_recipes_settle(s->graph, &(struct plan_holds){.keep_again = true});
    EBB_TRY(bisect(s, s->low, 256, err));
    plan_recipes_settle(s->graph, &(struct plan_holds){.is_shortest = true});
    return bisect(s, s->low, 256, err);
}

static enum ebb_status find_floor(struct search *s, struct ebb_error *err)
{
    EBB_TRY(descend(s, err));
    EBB_TRY(settle_by(s, true, err));
    EBB_TRY(cheapen(s, err));
    plan_recipes_settle(s->graph, &(struct plan_holds){0});
    return is_large(s) ? EBB_OK : cheapen(s, err);
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Within `height`; room above the game's peak spares slides. What blocks found has addresses. */
static enum ebb_status make_plan(const struct search *s, const struct floor_game *game,
                                 uint64_t height, struct plan *plan, struct plan_report *proof,
                                 struct ebb_error *err)
{
    const struct plan_recipes *g = s->graph;
    bool is_found = game == &s->best && s->found.is_there;
    struct plan_limits limits = {.budget_bytes = {is_found ? s->found.height_bytes : height,
                                                  s->tiers.bytes[DEVICE_HOST],
                                                  s->tiers.bytes[DEVICE_FILE]}};
    struct plan made = {0};
    enum ebb_status status = plan_copy(&made, is_found ? &s->found.plan : &game->plan, err);
    made.signature = g->trace->signature;
    made.exact_bytes = g->exact_bytes;
    snprintf(made.planner, sizeof made.planner, "floor");
    if (status == EBB_OK && !is_found)
        status = plan_assign_sliding(g->trace, &made, height, NULL, err);
    EBB_THEN(status, planner_place_low(g->trace, &made, limits.budget_bytes, err));
    EBB_THEN(status, plan_check(g->trace, &made, &limits, proof, err));
    if (status != EBB_OK) {
        plan_fini(&made);
        return status;
    }
    made.budget_bytes = proof->height_bytes;
    *plan = made;
    return EBB_OK;
}

/* The cheapest of several games at a budget, if it costs less than `most`; small traces try shaken
 * ones, too. */
static enum ebb_status play_cheapest(struct search *s, uint64_t budget, uint64_t most,
                                     struct ebb_error *err)
{
    int variants = variants_for(s) + (s->graph->node_count < MANY_NODES ? SHAKES / 3 : 0);
    for (int k = 0; k <= variants; k++) { /* the last: once more, with sources */
        struct floor_game game;
        bool is_last = k == variants;
        if (is_last && ((s->best.is_won &&
                         (double)cost_of(&s->best) < WORTH_SOURCES * (double)s->graph->base_cost) ||
                        !has_sources(s->graph)))
            break;
        s->keeps_sources = is_last;
        struct floor_rules rules = rules_for(s, budget, is_last ? 0 : k, work_for(s->graph) / 2);
        uint64_t limit = s->best.is_won && cost_of(&s->best) < most ? cost_of(&s->best) : most;
        rules.cost_limit = limit < rules.cost_limit ? limit : rules.cost_limit;
        EBB_TRY(planner_floor_play(s->graph, &rules, &game, err));
        if (game.is_won && (!s->best.is_won || cost_of(&game) < cost_of(&s->best)))
            ebb_swap(&s->best, &game, sizeof game);
        planner_floor_game_fini(&game);
    }
    return EBB_OK;
}

enum ebb_status planner_floor_once(struct plan_recipes *graph, const struct planner_tiers *tiers,
                                   int variant, bool is_patient, const uint8_t *ways,
                                   struct plan *plan, bool *is_won, struct ebb_error *err)
{
    struct search s = {.graph = graph, .tiers = *tiers, .aim = UINT64_MAX};
    struct floor_game game;
    s.has_tiers = planner_has_tiers(tiers);
    struct floor_rules rules = rules_for(&s, tiers->bytes[0], variant, work_for(graph) / 2);
    rules.ways = ways;
    rules.is_patient = is_patient;
    EBB_TRY(planner_floor_play(graph, &rules, &game, err));
    *is_won = game.is_won;
    ebb_swap(plan, &game.plan, sizeof *plan);
    plan->signature = graph->trace->signature;
    plan->exact_bytes = graph->exact_bytes;
    plan->budget_bytes = tiers->bytes[0];
    snprintf(plan->planner, sizeof plan->planner, "floor");
    planner_floor_game_fini(&game);
    return EBB_OK;
}

/* The graph in one order. */
static enum ebb_status search_order(struct search *s, const struct trace *trace,
                                    const struct planner_tiers *tiers, bool is_eager,
                                    struct ebb_error *err)
{
    *s = (struct search){.aim = UINT64_MAX}; /* nothing is above it */
    if (tiers)
        s->tiers = *tiers;
    s->has_tiers = planner_has_tiers(tiers);
    return plan_recipes_create(&s->graph, trace, tiers ? tiers->homes : NULL,
                               is_eager ? PLAN_EARLY : PLAN_OFFLINE, err);
}

static void search_fini(struct search *s)
{
    if (s->found.is_there)
        plan_fini(&s->found.plan);
    planner_floor_game_fini(&s->best);
    plan_recipes_destroy(s->graph);
    *s = (struct search){0};
}

/* Does it win in 3 % less than the other needs? */
static enum ebb_status challenge(struct search *s, const struct search *other, bool *is_won,
                                 struct ebb_error *err)
{
    s->work_left = work_for(s->graph);
    return try_budget(s, other->best.peak_bytes - other->best.peak_bytes / 32, is_won, err);
}

/* Where games end above what must be there, or are slow, plans of blocks may be better. */
static enum ebb_status refine(struct search *s, const struct planner_floor_facts *facts,
                              struct ebb_error *err)
{
    const struct plan_recipes *g = s->graph;
    uint64_t low = facts->lower_bound_bytes;
    if (s->has_tiers || s->tiers.demands || s->tiers.fates || g->exact_bytes ||
        g->node_count > BLOCKS_NODES ||
        (s->best.peak_bytes <= low + low / 128 && s->best.cost < 2 * g->base_cost))
        return EBB_OK;
    EBB_TRY(planner_floor_blocks(g->trace, s->best.peak_bytes, s->best.cost,
                                 g->base_cost * MOST_OVERHEAD, &s->found, err));
    if (s->found.is_there) {
        s->best.peak_bytes = s->found.height_bytes;
        s->best.cost = s->found.cost;
    }
    return EBB_OK;
}

/* Far below what is always live, wide layers lie there whose activations are small: some of them are
 * all that is in the way. */
static enum ebb_status clear_more(struct search *s, struct ebb_error *err)
{
    uint64_t before = s->best.peak_bytes;
    if (s->found.is_there || is_above(s) || is_large(s) || s->aim == UINT64_MAX)
        return EBB_OK;
    s->clears = true;
    s->work_left = work_for(s->graph);
    EBB_TRY(bisect(s, s->low, 256, err));
    return s->best.peak_bytes < before ? cheapen(s, err) : EBB_OK;
}

/* The trace's order and, when that is another, the one with early updates. The latter is searched
 * first; the former too if the trace is small, or if it can do with clearly less. */
static enum ebb_status search_orders(struct search *s, const struct trace *trace,
                                     const struct planner_tiers *tiers,
                                     struct planner_floor_facts *facts, struct ebb_error *err)
{
    struct search eager = {0};
    enum ebb_status status = search_order(s, trace, tiers, false, err);
    EBB_THEN(status, planner_floor_bound(s->graph, facts, err));
    EBB_THEN(status, search_order(&eager, trace, tiers, true, err));
    if (status != EBB_OK)
        goto out;
    /* the bound is about trace order without copies */
    eager.low = facts->working_bytes + s->graph->base_bytes;
    s->low = s->has_tiers ? eager.low : facts->lower_bound_bytes;
    s->aim = eager.aim = facts->always_live_bytes + facts->working_bytes;
    bool is_searched = true;
    if (eager.graph->is_moved) {
        status = find_floor(&eager, err);
        if (status == EBB_OK && s->graph->node_count >= MANY_NODES)
            status = challenge(s, &eager, &is_searched, err);
    }
    if (status == EBB_OK && is_searched)
        status = find_floor(s, err);
    if (status == EBB_OK && eager.best.is_won &&
        (!s->best.is_won || eager.best.peak_bytes < s->best.peak_bytes))
        ebb_swap(s, &eager, sizeof *s);
    EBB_THEN(status, refine(s, facts, err));
    EBB_THEN(status, clear_more(s, err));
out:
    search_fini(&eager);
    return status;
}

/* Tiers with little room may lead the games astray: then the floor without them counts. */
static enum ebb_status search_init(struct search *s, const struct trace *trace,
                                   const struct planner_tiers *tiers,
                                   struct planner_floor_facts *facts, struct ebb_error *err)
{
    EBB_TRY(search_orders(s, trace, tiers, facts, err));
    if (!s->has_tiers || tiers->homes || (tiers->demands & PLANNER_INPUTS_LEAVE) ||
        s->best.peak_bytes <= s->low + s->low / 16)
        return EBB_OK;
    struct search plain;
    struct planner_tiers none = planner_without_tiers(tiers);
    enum ebb_status status = search_orders(&plain, trace, &none, facts, err);
    if (status == EBB_OK && plain.best.peak_bytes < s->best.peak_bytes)
        ebb_swap(s, &plain, sizeof *s);
    search_fini(&plain);
    return status;
}

static enum ebb_status solve(const struct trace *trace, const struct planner_tiers *tiers,
                             struct plan *plan, struct planner_floor_facts *facts,
                             struct ebb_error *err)
{
    struct search s;
    struct plan_report proof;
    enum ebb_status status = search_init(&s, trace, tiers, facts, err);
    EBB_THEN(status, make_plan(&s, &s.best, s.best.peak_bytes, plan, &proof, err));
    if (status == EBB_OK) {
        facts->floor_bytes = proof.height_bytes;
        facts->cost = proof.cost_ns;
        facts->base_cost = proof.base_ns;
        facts->moved_bytes = proof.moved_bytes;
        facts->run_count = proof.run_count;
    }
    search_fini(&s);
    return status;
}

enum ebb_status planner_floor(const struct trace *trace, const struct planner_tiers *tiers,
                              struct plan *plan, uint64_t *floor_bytes, struct ebb_error *err)
{
    struct planner_floor_facts facts = {0};
    struct plan made;
    struct planner_tiers any = tiers ? *tiers : (struct planner_tiers){0};
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++) /* the least is no matter of speed */
        any.links.in[k] = any.links.out[k] =
            (struct device_link){.latency_ns = 100000, .bytes_per_ns = 1};
    EBB_TRY(solve(trace, tiers ? &any : NULL, &made, &facts, err));
    *floor_bytes = facts.floor_bytes;
    if (plan)
        *plan = made;
    else
        plan_fini(&made);
    return EBB_OK;
}

enum ebb_status planner_floor_at(const struct trace *trace, const struct planner_tiers *tiers,
                                 uint64_t game_bytes, uint64_t budget, struct plan *plan,
                                 bool *is_found, struct ebb_error *err)
{
    struct search orders[2] = {{0}, {0}}; /* as it stands; updates early */
    struct search *best = NULL;
    struct plan_report proof;
    enum ebb_status status = EBB_OK;
    *is_found = false;
    for (int k = 2; k-- > 0 && status == EBB_OK;) { /* early updates first: such games are short */
        struct search *s = &orders[k];
        status = search_order(s, trace, tiers, k == 1, err);
        if (status == EBB_OK && (k == 0 || s->graph->is_moved))
            status = play_cheapest(s, game_bytes, best ? cost_of(&best->best) : UINT64_MAX, err);
        if (status == EBB_OK && s->best.is_won &&
            (!best || cost_of(&s->best) <= cost_of(&best->best)))
            best = s;
    }
    if (status == EBB_OK && best) {
        status = make_plan(best, &best->best, budget, plan, &proof, err);
        *is_found = status == EBB_OK;
    }
    search_fini(&orders[0]);
    search_fini(&orders[1]);
    return status;
}

enum ebb_status planner_floor_facts_compute(const struct trace *trace,
                                            struct planner_floor_facts *facts,
                                            struct ebb_error *err)
{
    struct planner_floor_facts found = {0};
    struct plan made;
    EBB_TRY(solve(trace, NULL, &made, &found, err));
    plan_fini(&made);
    *facts = found;
    return EBB_OK;
}

/* `plan` becomes the job's, if it takes less time than the one there is. */
static enum ebb_status offer(struct planner_job *job, struct plan *plan, struct ebb_error *err)
{
    uint64_t ns;
    enum ebb_status status = planner_job_time(job, plan, &ns, err);
    if (status == EBB_OK && (!job->has_made || ns < job->made_cost)) {
        plan_fini(&job->made);
        job->made = *plan;
        job->made_cost = ns;
        job->has_made = true;
        job->is_unplaced = false;
        plan_init(plan);
    }
    plan_fini(plan);
    return status;
}

/* The cheapest game at this budget, if there is one. */
static enum ebb_status offer_game(struct planner_job *job, const struct planner_tiers *tiers,
                                  struct ebb_error *err)
{
    struct plan plan = {0};
    bool is_found = false;
    uint64_t budget = job->request->budget_bytes;
    enum ebb_status status =
        planner_floor_at(job->graph->trace, tiers, budget, budget, &plan, &is_found, err);
    return status == EBB_OK && is_found ? offer(job, &plan, err) : status;
}

enum ebb_status planner_solve_floor(struct planner_job *job, struct ebb_error *err)
{
    struct search s;
    struct plan plan;
    struct plan_report proof;
    struct planner_floor_facts facts = {0};
    const struct planner_tiers *tiers = &job->request->tiers;
    uint64_t budget = job->request->budget_bytes;
    enum ebb_status status = search_init(&s, job->graph->trace, tiers, &facts, err);
    job->has_made = false;
    if (status == EBB_OK && s.best.peak_bytes > budget) {
        snprintf(job->note, sizeof job->note, "the floor is %llu bytes",
                 (unsigned long long)s.best.peak_bytes);
        goto out;
    }
    if (status == EBB_OK && budget > s.best.peak_bytes)
        status = offer_game(job, tiers, err);
    struct planner_tiers none = planner_without_tiers(tiers);
    if (status == EBB_OK && budget > s.best.peak_bytes && s.has_tiers) /* copies may take longer */
        status = offer_game(job, &none, err);
    if (status == EBB_OK && (!job->has_made || s.has_tiers || s.best.cost < job->made_cost)) {
        status = make_plan(&s, &s.best, s.best.peak_bytes, &plan, &proof, err);
        EBB_THEN(status, offer(job, &plan, err));
    }
    snprintf(job->winner, sizeof job->winner, "floor");
out:
    search_fini(&s);
    return status;
}
