/* unified.c - one decision for every byte: keep, make again, copy to the host, copy to the file.
 *
 * Two ways of deciding are known, a policy (dtr_eq) and the games of the floor; both weigh the time
 * of making a tensor again against that of copying it there and back. What a copy really costs is
 * the part of it that no op hides, and that is known only when all copies have their places
 * (early.c). So plans are made with copies taken for a part of their price, and in a part of the
 * budget, so that what comes early finds room; each is offered with its copies moved and as it is,
 * without what serves nobody (lean.c), and with and without lower tiers. Without them what smaller
 * budgets, the portfolio and the other policies make is offered, too; of large steps games that leave
 * room, so that nothing need be moved within the device. Everything kept, with moves, is offered
 * first, and of small steps checkpoints of blocks. Then single decisions of the best are changed
 * (flips.c), and where much runs again what is kept (exchange.c). The null device says which is
 * fastest. The number of tries is fixed: the answer is a function of trace, tiers and seed. */
#include "planner/unified.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"
#include "planner/exchange.h"
#include "planner/flips.h"
#include "planner/floor.h"
#include "planner/job.h"
#include "planner/lean.h"

#define MANY_OPS 5000       /* from here on fewer tries */
#define MANY_MORE_OPS 20000 /* from here on games alone */
#define GAMES 60000         /* over the number of ops: games of large steps */
#define TINY_OPS 16         /* up to here most */
#define FLIPS 40000         /* over the number of ops: games with decisions changed */
#define MOST_FLIPS 1000     /* of few ops */
#define STARTS_OPS 600      /* over the number of ops: games that flips begin with */
#define SMALL_OPS 1500      /* up to here a try takes next to nothing */
#define SHORT_OPS 500       /* up to here a portfolio is quick wherever it is asked */
#define EXCHANGED_OPS 3000  /* up to here exchanges find much in some tenths of a second */
#define THRASHES 1.3 /* times the step: from here on larger ones take seconds near the floor */
#define FEWER 4
#define WORTH_BLOCKS 1.1 /* times the step: games that take longer are worth another way */

/* Stages evaluated x nodes; of slow steps more: twice their nanoseconds. */
#define EXCHANGE_WORK 1000000000
#define MOST_EXCHANGE_WORK 4000000000

static const double slacks[] = {0, 0.03, 0.08, 0.15, 0.25};
static const double prices[] = {1, 0.5, 0.25, 0.0625, 1e-6};
enum { SLACKS = sizeof slacks / sizeof *slacks, PRICES = sizeof prices / sizeof *prices };
#define MOST_SLACK 0.3  /* without lower tiers */
#define NEAR_FLOOR 1.05 /* times the floor: nearer a portfolio searches long */
#define AT_FLOOR 1.002  /* nearer large steps have nothing but the floor's own plan */
enum { TRIES = 6, SMALL_TRIES = 20 };
_Static_assert(UNIFIED_SEEN >= 2 * (SLACKS * PRICES + SMALL_TRIES), "all plans have a place");

/* Another price often makes the same plan. */
static bool is_known(struct unified *u, const struct plan *plan)
{
    uint64_t hash = ebb_hash64(plan->steps, plan->step_count * sizeof *plan->steps);
    for (size_t i = 0; i < u->seen_count; i++)
        if (u->seen[i] == hash)
            return true;
    u->seen[u->seen_count++] = hash;
    return false;
}

/* What one try may use. */
static struct exec_options options_for(const struct unified *u, const struct planner_tiers *tiers)
{
    struct exec_options o = {.budget_bytes = tiers->bytes[0],
                             .seed = u->seed,
                             .limit = PLANNER_MOST_OVERHEAD,
                             .work_limit = PLANNER_MOST_WORK,
                             .ways = MEM_DROP,
                             .tier_bytes = {0, tiers->bytes[1], tiers->bytes[2]},
                             .links = tiers->links};
    o.ways |= tiers->bytes[DEVICE_HOST] ? MEM_HOST : 0;
    o.ways |= tiers->bytes[DEVICE_FILE] ? MEM_FILE : 0;
    return o;
}

enum ebb_status planner_unless_no_room(enum ebb_status status, const struct ebb_error *why,
                                       struct ebb_error *err)
{
    if (status == EBB_OK || status == EBB_EBUDGET)
        return EBB_OK;
    return ebb_fail(err, status, "%s", why->message);
}

static uint64_t time_of(const struct exec_report *report)
{
    return report->device_ns > report->clock_ns ? report->device_ns : report->clock_ns;
}

/* Times a plan; a faster one changes places with the best. */
enum ebb_status planner_unified_compare(struct unified *u, struct plan *plan, struct ebb_error *err)
{
    struct exec_options o = options_for(u, u->tiers);
    struct exec_report report;
    struct ebb_error why = {0};
    o.plan = plan;
    enum ebb_status status = exec_run(u->program, &o, &report, &why);
    if (status != EBB_OK)
        return planner_unless_no_room(status, &why, err);
    uint64_t ns = time_of(&report);
    if (u->fastest && ns < u->fastest_ns) {
        EBB_TRY(plan_copy(u->fastest, plan, err));
        u->fastest_ns = ns;
    }
    if (!u->is_found || exec_overhead(&report) < exec_overhead(u->report)) {
        ebb_swap(u->best, plan, sizeof *plan);
        u->best->budget_bytes = u->tiers->bytes[0];
        *u->report = report;
        u->is_found = u->is_new = true;
    }
    return EBB_OK;
}

/* Wherever its copies go, a plan takes as long as its ops do, and as long as the copies of a link. */
static uint64_t least_ns(const struct unified *u, const struct plan *plan)
{
    const struct device_config *links = &u->tiers->links;
    uint64_t out[DEVICE_TIERS] = {0}, in[DEVICE_TIERS] = {0}, least = 0;
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *s = &plan->steps[i];
        if (s->act == PLAN_RUN && !s->tier)
            least += u->trace->ops[s->index].cost_ns;
        if (s->act != PLAN_SEND && s->act != PLAN_FETCH)
            continue;
        uint64_t bytes = plan_size(plan, u->trace->storages[s->index].bytes);
        bool is_out = s->act == PLAN_SEND;
        (is_out ? out : in)[s->tier] +=
            device_copy_ns(is_out ? &links->out[s->tier] : &links->in[s->tier], bytes);
    }
    for (int k = 0; k < DEVICE_TIERS; k++) {
        least = out[k] > least ? out[k] : least;
        least = in[k] > least ? in[k] : least;
    }
    return least;
}

/* Is it known before its copies are moved that a plan is of no use? */
static bool is_too_slow(const struct unified *u, const struct plan *plan)
{
    uint64_t most = u->fastest ? u->fastest_ns : u->is_found ? time_of(u->report) : UINT64_MAX;
    return least_ns(u, plan) >= (most < u->most_ns ? most : u->most_ns);
}

static enum ebb_status compare_early(struct unified *u, const struct plan *plan, bool drops_late,
                                     struct ebb_error *err)
{
    struct plan early = {0};
    bool is_found;
    struct ebb_error why = {0};
    if (is_too_slow(u, plan))
        return EBB_OK;
    enum ebb_status status =
        planner_early(u->trace, plan, u->tiers, drops_late, &early, &is_found, &why);
    status = planner_unless_no_room(status, &why, err);
    if (status == EBB_OK && is_found)
        status = planner_unified_compare(u, &early, err);
    plan_fini(&early);
    return status;
}

bool planner_unified_has_copies(const struct plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].act == PLAN_SEND || plan->steps[i].act == PLAN_FETCH)
            return true;
    return false;
}

/* A plan without copies and addresses. */
static enum ebb_status compare_still(struct unified *u, struct plan *plan, struct ebb_error *err)
{
    struct ebb_error why = {0};
    enum ebb_status status = plan_assign_sliding(u->trace, plan, u->tiers->bytes[0], NULL, &why);
    if (status == EBB_OK)
        return planner_unified_compare(u, plan, err);
    return planner_unless_no_room(status, &why, err);
}

/* Without what serves nobody, and then with its copies moved. */
static enum ebb_status compare_lean(struct unified *u, const struct plan *plan,
                                    struct ebb_error *err)
{
    struct plan lean = {0};
    enum ebb_status status = planner_lean(u->trace, plan, &lean, err);
    if (status == EBB_OK)
        status = planner_unified_has_copies(&lean) ? compare_early(u, &lean, true, err)
                                                   : compare_still(u, &lean, err);
    plan_fini(&lean);
    return status;
}

/* A part of its updates on the host. */
enum ebb_status planner_unified_compare_below(struct unified *u, const struct plan *plan,
                                              double part, struct ebb_error *err)
{
    struct plan below = {0};
    size_t count;
    enum ebb_status status = planner_below(u->trace, plan, part, &below, &count, err);
    if (status == EBB_OK && count) {
        u->is_found &= u->tiers->updates != PLANNER_BY_HOST || u->is_below;
        u->is_below = true; /* where all are the host's nothing else counts */
        status = compare_early(u, &below, true, err);
    }
    plan_fini(&below);
    return status;
}

/* With the host's help links have more room: another game may then be the best to begin with. */
static enum ebb_status compare_shared(struct unified *u, const struct plan *plan,
                                      struct ebb_error *err)
{
    struct plan best = {0};
    struct exec_report report;
    struct unified v = planner_unified_begin(u, u->tiers, &best, &report);
    if (!u->shared || u->trace->op_count > MANY_OPS)
        return EBB_OK;
    v.most_ns = u->shared_ns;
    enum ebb_status status = planner_unified_compare_below(&v, plan, 1, err);
    if (status == EBB_OK && v.is_found && time_of(&report) < u->shared_ns) {
        u->shared_ns = time_of(&report);
        status = plan_copy(u->shared, plan, err);
    }
    plan_fini(&best);
    return status;
}

/* Lean, and small ones with all they had, too: what serves nobody may have stood in a lucky place. */
static enum ebb_status compare_moved(struct unified *u, const struct plan *plan,
                                     struct ebb_error *err)
{
    enum ebb_status status = compare_lean(u, plan, err);
    for (int late = 1; late >= 0 && u->trace->op_count <= UNIFIED_FEW_OPS; late--)
        EBB_THEN(status, compare_early(u, plan, late, err));
    return status;
}

enum ebb_status planner_unified_offer(struct unified *u, struct plan *plan, bool is_whole,
                                      struct ebb_error *err)
{
    enum ebb_status status = planner_has_tiers(u->tiers) ? compare_moved(u, plan, err) : EBB_OK;
    if (is_whole)
        EBB_THEN(status, planner_unified_compare(u, plan, err));
    return status;
}

static enum ebb_status share_and_offer(struct unified *u, struct plan *plan, bool is_whole,
                                       struct ebb_error *err)
{
    EBB_TRY(compare_shared(u, plan, err));
    return planner_unified_offer(u, plan, is_whole, err);
}

/* The decisions of the policy, written down. */
static enum ebb_status try_policy(struct unified *u, const struct planner_tiers *tiers,
                                  const struct mem_policy *policy, double limit, struct plan *plan,
                                  bool *is_found, struct ebb_error *err)
{
    struct exec_log log = {0};
    struct exec_options o = options_for(u, tiers);
    struct exec_report report;
    struct ebb_error why = {0};
    o.policy = policy;
    o.limit = limit;
    o.log = &log;
    enum ebb_status status = exec_run(u->program, &o, &report, &why);
    *is_found = status == EBB_OK && report.result == EXEC_OK;
    if (*is_found)
        status = exec_log_to_plan(&log, u->trace, plan, &why);
    snprintf(plan->planner, sizeof plan->planner, "%s", policy->name);
    exec_log_fini(&log);
    return planner_unless_no_room(status, &why, err);
}

/* Its residents find their places within `height`. */
static enum ebb_status try_game(struct unified *u, const struct planner_tiers *tiers,
                                uint64_t height, struct plan *plan, bool *is_found,
                                struct ebb_error *err)
{
    enum ebb_status status =
        planner_floor_at(u->trace, tiers, tiers->bytes[0], height, plan, is_found, err);
    snprintf(plan->planner, sizeof plan->planner, "floor");
    return status;
}

/* A part of the budget, copies at a part of their price. */
static struct planner_tiers tiers_for(const struct unified *u, double slack, double price,
                                      bool has_tiers)
{
    struct planner_tiers tiers = *u->tiers;
    uint64_t part = plan_round((uint64_t)((double)tiers.bytes[0] * (1 - slack)));
    if (slack > 0 && part < tiers.bytes[0]) /* rounded up it may be more */
        tiers.bytes[0] = part;
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
        struct device_link *both[] = {&tiers.links.out[k], &tiers.links.in[k]};
        tiers.bytes[k] = has_tiers ? tiers.bytes[k] : 0;
        for (int i = 0; i < 2; i++) {
            both[i]->latency_ns = (uint64_t)((double)both[i]->latency_ns * price);
            both[i]->bytes_per_ns /= price;
        }
    }
    return tiers;
}

static bool is_large(const struct unified *u)
{
    return u->trace->op_count > MANY_OPS;
}

/* Both ways of deciding. Where no copies are to be moved, and of large steps, the game comes first, and a
 * policy that is slower than the best known ends: one that thrashes takes long. */
static enum ebb_status try_both(struct unified *u, double slack, double price, bool has_tiers,
                                struct ebb_error *err)
{
    struct planner_tiers tiers = tiers_for(u, slack, price, has_tiers);
    enum ebb_status status = EBB_OK;
    bool is_played = u->tiers->homes || u->tiers->demands || u->tiers->fates;
    bool is_ended = is_large(u) || !has_tiers;
    u->is_new = false;
    for (int k = 0; k < 2 && status == EBB_OK; k++) {
        struct plan plan = {0};
        bool is_found = false, is_game = (k == 0) == is_ended;
        double limit = is_ended && u->is_found ? exec_overhead(u->report) : PLANNER_MOST_OVERHEAD;
        if (is_game)
            status = try_game(u, &tiers, has_tiers ? tiers.bytes[0] : u->tiers->bytes[0], &plan,
                              &is_found, err);
        else if (!is_played)
            status = try_policy(u, &tiers, mem_policy_find("dtr_eq"), limit, &plan, &is_found, err);
        if (is_found && !has_tiers && tiers.bytes[0] < u->won_bytes)
            u->won_bytes = tiers.bytes[0];
        if (status == EBB_OK && is_found && !is_known(u, &plan))
            status = share_and_offer(u, &plan, slack <= 0 || !has_tiers, err);
        plan_fini(&plan);
    }
    if (u->is_new) {
        u->slack = slack;
        u->price = price;
    }
    return status;
}

/* A game of the flips, as fast as it can be made. */
static enum ebb_status time_game(void *context, const struct plan *game, struct plan *fastest,
                                 uint64_t *ns, struct ebb_error *err)
{
    struct unified *u = context;
    u->fastest = fastest;
    u->fastest_ns = *ns;
    enum ebb_status status = compare_moved(u, game, err);
    u->fastest = NULL;
    *ns = u->fastest_ns;
    return status;
}

/* Where state is below it is asked for several times. */
static int starts_for(const struct unified *u)
{
    uint32_t ops = u->trace->op_count, starts = STARTS_OPS / ops;
    return u->tiers->homes || starts < 1 ? 1 : ops <= UNIFIED_FEW_OPS ? 4 : (int)starts;
}

static enum ebb_status flip_in(struct unified *u, double slack, struct ebb_error *err)
{
    struct planner_tiers tiers = tiers_for(u, slack, u->price, true);
    uint32_t ops = u->trace->op_count, share = u->is_part && ops > UNIFIED_SOME_OPS ? 3 : 1;
    share *= planner_unified_is_exchanged(u) ? FEWER : 1;
    struct planner_flips flips = {.trace = u->trace,
                                  .tiers = &tiers,
                                  .tries =
                                      ops <= UNIFIED_FEW_OPS ? MOST_FLIPS : FLIPS / ops / share,
                                  .starts = starts_for(u),
                                  .is_thorough = ops <= TINY_OPS && !u->tiers->homes,
                                  .time = time_game,
                                  .context = u};
    return planner_flip(&flips, err);
}

/* Single decisions of the games by which the best was found. */
enum ebb_status planner_unified_flip(struct unified *u, struct ebb_error *err)
{
    if (!u->is_found || u->tiers->fates ||
        (!planner_has_tiers(u->tiers) && u->trace->op_count > SMALL_OPS) ||
        exec_overhead(u->report) < PLANNER_ALL_HIDDEN ||
        (u->tiers->homes && u->trace->op_count > UNIFIED_SOME_OPS))
        return EBB_OK;
    if (u->trace->op_count > UNIFIED_FEW_OPS)
        return flip_in(u, u->slack, err);
    if (u->slack > 0)
        EBB_TRY(flip_in(u, 0, err));
    return flip_in(u, u->slack, err);
}

/* The first good plan of the portfolio. */
static enum ebb_status try_best(struct unified *u, double slack, struct ebb_error *err)
{
    struct planner_request request;
    struct planner_result result;
    struct ebb_error why = {0};
    planner_request_init(&request);
    planner_result_init(&result);
    request.budget_bytes = plan_round((uint64_t)((double)u->tiers->bytes[0] * (1 - slack)));
    if (request.budget_bytes > u->tiers->bytes[0])
        request.budget_bytes = u->tiers->bytes[0];
    request.effort = 0;
    request.move_bytes_per_ns = u->tiers->links.in[DEVICE_T0].bytes_per_ns;
    request.seed = u->seed;
    enum ebb_status status = planner_run(planner_find("best"), u->trace, &request, &result, &why);
    status = planner_unless_no_room(status, &why, err);
    if (status == EBB_OK && result.status == PLANNER_OK)
        status = planner_unified_compare(u, &result.plan, err);
    planner_result_fini(&result);
    return status;
}

/* Where games run much again, checkpoints of blocks may be better. */
static enum ebb_status try_blocks(struct unified *u, struct ebb_error *err)
{
    struct floor_found found;
    if (u->is_found && exec_overhead(u->report) < WORTH_BLOCKS)
        return EBB_OK;
    uint64_t most = u->is_found ? u->report->clock_ns : UINT64_MAX;
    EBB_TRY(planner_floor_blocks(u->trace, u->tiers->bytes[0], most, 0, &found, err));
    if (!found.is_there)
        return EBB_OK;
    enum ebb_status status = planner_unified_compare(u, &found.plan, err);
    plan_fini(&found.plan);
    return status;
}

/* The longer a step takes the longer it may be searched for. */
static uint64_t exchange_work(const struct unified *u)
{
    uint64_t ns = u->report->clock_ns, most = MOST_EXCHANGE_WORK - EXCHANGE_WORK;
    return EXCHANGE_WORK + (ns < most / 2 ? 2 * ns : most);
}

/* Where much runs again: exchanges of what the best keeps. */
enum ebb_status planner_unified_try_exchanges(struct unified *u, double above,
                                              struct ebb_error *err)
{
    struct plan plan = {0};
    bool is_found = false;
    if (!u->is_found || exec_overhead(u->report) < above || planner_unified_is_exchanged(u) ||
        u->tiers->demands || u->tiers->fates || u->trace->op_count > EXCHANGED_OPS)
        return EBB_OK;
    enum ebb_status status = planner_exchange(u->trace, u->tiers->bytes[0], u->best,
                                              exchange_work(u), &plan, &is_found, err);
    if (status == EBB_OK && is_found)
        status = compare_still(u, &plan, err);
    plan_fini(&plan);
    return status;
}

/* Every policy that decides without looking ahead, until it is slower than the best known. */
static enum ebb_status try_policies(struct unified *u, struct ebb_error *err)
{
    struct planner_tiers tiers = planner_without_tiers(u->tiers);
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < mem_policy_count && status == EBB_OK; i++) {
        struct plan plan = {0};
        bool is_found = false;
        double limit = u->is_found ? exec_overhead(u->report) : PLANNER_MOST_OVERHEAD;
        status = try_policy(u, &tiers, &mem_policies[i], limit, &plan, &is_found, err);
        if (status == EBB_OK && is_found)
            status = planner_unified_compare(u, &plan, err);
        plan_fini(&plan);
    }
    return status;
}

/* A game in some bytes of the budget. */
static enum ebb_status try_room(struct unified *u, uint64_t bytes, struct ebb_error *err)
{
    struct planner_tiers tiers = planner_without_tiers(u->tiers);
    struct plan plan = {0};
    bool is_found = false;
    tiers.bytes[0] = bytes / PLAN_UNIT * PLAN_UNIT;
    enum ebb_status status = try_game(u, &tiers, u->tiers->bytes[0], &plan, &is_found, err);
    if (status == EBB_OK && is_found && !is_known(u, &plan))
        status = planner_unified_compare(u, &plan, err);
    plan_fini(&plan);
    return status;
}

/* Does the best known plan move much within the device? */
static bool has_moves(const struct unified *u)
{
    double rate = u->tiers->links.in[DEVICE_T0].bytes_per_ns;
    return u->is_found && rate > 0 &&
           (double)u->report->moved_bytes / rate > 0.002 * (double)u->report->clock_ns;
}

/* Large steps: games that leave room, in which their residents find places without moves. The larger
 * the step, the fewer. Most of them are played at the same bytes whatever the budget is, in steps
 * from the floor: what a smaller budget found a larger one finds, too. */
static enum ebb_status try_games(struct unified *u, uint64_t floor_bytes, struct ebb_error *err)
{
    double budget = (double)u->tiers->bytes[0], floor = (double)floor_bytes;
    int tries = (int)(GAMES / u->trace->op_count) + (u->trace->op_count <= GAMES / 2);
    tries = tries > 0 ? tries : 1;
    double step = 1 + 0.2 / tries, at = floor;
    enum ebb_status status = EBB_OK;
    double part = u->trace->op_count > GAMES / 2 ? 0.92 : 0.98; /* the only one but for one */
    if (budget * part > floor)
        status = try_room(u, (uint64_t)(budget * part), err);
    if (status == EBB_OK && (u->trace->op_count <= MANY_MORE_OPS || !has_moves(u)))
        status = try_room(u, u->tiers->bytes[0], err);
    if (floor <= 0)
        return status;
    while (at * step < budget * 0.99)
        at *= step;
    for (int i = 0; i < tries && at > floor && status == EBB_OK; i++) {
        status = try_room(u, (uint64_t)at, err);
        at /= step;
    }
    return status;
}

/* Everything kept, where the byte sum allows it and only addresses do not: with moves. */
static enum ebb_status try_kept(struct unified *u, struct ebb_error *err)
{
    const struct plan *all = NULL;
    struct plan plan = {0};
    if (u->tiers->demands || u->tiers->fates)
        return EBB_OK;
    EBB_TRY(exec_keep_all(u->program, UINT64_MAX, &all, err));
    enum ebb_status status = plan_copy(&plan, all, err);
    plan_strip_offsets(&plan);
    EBB_THEN(status, compare_still(u, &plan, err));
    plan_fini(&plan);
    return status;
}

/* Does a portfolio take little time near the floor, too? Where much runs again it anneals for long. */
static bool is_quick_near(const struct unified *u)
{
    bool thrashes = !u->is_found || exec_overhead(u->report) > THRASHES;
    return u->trace->op_count <= (thrashes ? SHORT_OPS : SMALL_OPS);
}

/* Steps whose games take long: at the floor its own plan is one of them. Up to MANY_MORE_OPS
 * checkpoints of blocks and policies are tried, too. */
static enum ebb_status try_large(struct unified *u, uint64_t floor_bytes, struct ebb_error *err)
{
    bool is_at_floor = (double)u->tiers->bytes[0] < AT_FLOOR * (double)floor_bytes;
    if (!is_at_floor)
        EBB_TRY(try_games(u, floor_bytes, err));
    if (u->trace->op_count > MANY_MORE_OPS)
        return EBB_OK;
    EBB_TRY(try_blocks(u, err));
    return is_at_floor ? EBB_OK : try_policies(u, err);
}

/* Without lower tiers: what a smaller budget makes may be better, and so may what others make. With
 * tiers it is all tried as it would be without, unless copies are hidden as it is: so a tier never
 * makes a plan slower. */
enum ebb_status planner_unified_try_without(struct unified *u, uint64_t floor_bytes,
                                            struct ebb_error *err)
{
    bool is_small = u->trace->op_count <= SMALL_OPS;
    bool is_alone = is_large(u) && !u->tiers->demands && !u->tiers->fates;
    int tries = is_large(u) ? 1 : is_small ? SMALL_TRIES : TRIES;
    EBB_TRY(try_kept(u, err));
    if (is_alone)
        return try_large(u, floor_bytes, err);
    enum ebb_status status = EBB_OK;
    for (int i = 0; i < tries && status == EBB_OK; i++) {
        double slack = MOST_SLACK * i / tries;
        if (i > 0 && (double)u->tiers->bytes[0] * (1 - slack) < (double)floor_bytes)
            break;
        status = try_both(u, slack, 1, false, err);
    }
    if (is_large(u) || u->tiers->demands || u->tiers->fates)
        return status;
    EBB_THEN(status, try_blocks(u, err));
    for (int i = 0; i < (is_small && floor_bytes ? 3 : 1); i++) {
        bool is_short = is_quick_near(u);
        double slack = MOST_SLACK / 4 * i, above = i || !is_short ? NEAR_FLOOR : 0;
        double bytes = (double)u->tiers->bytes[0];
        double floor = (double)(is_short ? floor_bytes : u->won_bytes);
        if (bytes * (1 - slack) > above * floor)
            EBB_THEN(status, try_best(u, slack, err));
        else if (i == 1 && is_short &&
                 bytes > AT_FLOOR * floor) /* what the floor itself would do */
            EBB_THEN(status, try_best(u, 1 - floor / bytes, err));
    }
    EBB_THEN(status, try_policies(u, err));
    return status;
}

/* Copies at several prices, in several parts of the budget. */
enum ebb_status planner_unified_try_copies(struct unified *u, uint64_t floor_bytes,
                                           struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < SLACKS * PRICES && status == EBB_OK; i++) {
        double slack = slacks[i / PRICES];
        if (is_large(u) && (i / PRICES % 2 || i % PRICES % 2))
            continue; /* a game takes long: every other slack and price */
        if (planner_unified_is_hidden(u) ||
            (double)u->tiers->bytes[0] * (1 - slack) < (double)floor_bytes)
            break;
        if (slack > 0 && u->seen_count == 0) /* with less room there is no plan either */
            break;
        status = try_both(u, slack, prices[i % PRICES], true, err);
    }
    return status;
}
