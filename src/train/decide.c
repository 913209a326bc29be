/* decide.c - see decide.h. */
#include "train/decide.h"

#include <math.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/heap.h"
#include "profile/profile.h"

#define PLANNING_SECONDS 10 /* searches longer than that hardly gain */
#define MANY_OPS 5000       /* from here on state leaves tier 0 only if it must */
#define LONG_OPS 500        /* from here on a part of it takes some tenths of a second to plan */

/* Where links are measured a plan with copies that promises less than this against one without is not
 * worth its risk. */
#define LEAST_GAIN 0.03

#define LITTLE_PART (1.0 / 24) /* of the state: steps towards the best part of it */
#define WORTH_PARTS 1.02       /* and what a step has to take longer to be worth them */
#define NEAR_TRIES 3

/* The policy's decisions, taken on the null device and written down. */
static enum ebb_status by_policy(const struct train_ways *w, const struct train_choice *c,
                                 struct plan *plan, bool *is_found, struct ebb_error *err)
{
    struct exec_log log = {0};
    struct exec_options o = train_ways_options(w);
    struct exec_report report;
    o.log = &log;
    struct ebb_error why = {0};
    *is_found = false;
    if (o.ways == 0) /* nothing may be made again, and there is nowhere to copy to */
        return EBB_OK;
    enum ebb_status status = exec_run(c->exec, &o, &report, &why);
    *is_found = status == EBB_OK && report.result == EXEC_OK;
    if (*is_found) {
        status = exec_log_to_plan(&log, c->trace, plan, &why);
        snprintf(plan->planner, sizeof plan->planner, "%s", w->policy->name);
    }
    exec_log_fini(&log);
    return planner_unless_no_room(status, &why, err);
}

static struct planner_tiers tiers_of(const struct train_ways *w, const struct train_choice *c)
{
    struct exec_options o = train_ways_options(w);
    return (struct planner_tiers){.bytes = {o.budget_bytes, w->host_bytes, w->file_bytes},
                                  .links = o.links,
                                  .demands = w->demands,
                                  .updates = w->updates,
                                  .fates = c->fates,
                                  .homes = w->is_settled && w->homes->count ? w->homes : NULL};
}

static enum ebb_status by_planner(const struct train_ways *w, const struct train_choice *c,
                                  struct plan *plan, bool *is_found, struct ebb_error *err)
{
    struct planner_request request;
    struct planner_result result;
    planner_request_init(&request);
    planner_result_init(&result);
    request.budget_bytes = w->budget_bytes;
    request.tiers = tiers_of(w, c);
    request.seed = w->seed;
    request.time_limit_s = PLANNING_SECONDS;
    request.move_bytes_per_ns = request.tiers.links.in[DEVICE_T0].bytes_per_ns;
    struct ebb_error why = {0};
    enum ebb_status status = planner_run(w->planner, c->trace, &request, &result, &why);
    *is_found = status == EBB_OK && result.status == PLANNER_OK;
    if (*is_found)
        status = plan_copy(plan, &result.plan, &why);
    planner_result_fini(&result);
    return planner_unless_no_room(status, &why, err);
}

/* Whether the copies in lower tiers find a place: planners count their bytes, not their addresses.
 */
static enum ebb_status is_placed(const struct train_ways *w, const struct train_choice *c,
                                 const struct plan *plan, uint64_t bytes, bool *is_good,
                                 struct ebb_error *err)
{
    struct exec_options o = train_ways_options(w);
    struct exec_report report;
    struct ebb_error why = {0};
    o.plan = plan;
    o.policy = NULL;
    o.budget_bytes = bytes;
    enum ebb_status status = exec_run(c->exec, &o, &report, &why);
    *is_good = status == EBB_OK && report.result == EXEC_OK;
    return planner_unless_no_room(status, &why, err);
}

/* Half of the room in each, or none when that is little. */
static void halve(struct planner_tiers *t)
{
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++)
        t->bytes[k] = t->bytes[k] < 4 * PLAN_UNIT ? 0 : t->bytes[k] / 2;
}

/* The floor goes by what is built in: a measurement must not turn an accepted budget into a refusal. */
static const struct trace *plain_of(const struct train_choice *c)
{
    return c->plain ? c->plain : c->trace;
}

/* Games that swap count only where they can be placed, with less room below if need be, and where
 * they end below those that do not swap: a tier never makes the floor higher. */
static enum ebb_status find_least_in(const struct train_ways *w, struct train_choice *c,
                                     struct planner_tiers tiers, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    for (bool is_last = false; status == EBB_OK && !is_last;) {
        struct plan game = {0};
        uint64_t bytes = UINT64_MAX;
        bool is_good = true;
        is_last = !planner_has_tiers(&tiers) || tiers.homes ||
                  (tiers.fates && (tiers.demands & PLANNER_INPUTS_LEAVE));
        status = planner_floor(plain_of(c), &tiers, &game, &bytes, err);
        if (status == EBB_OK && planner_has_tiers(&tiers))
            status = is_placed(w, c, &game, bytes, &is_good, err);
        if (status == EBB_OK && is_good && bytes < c->info.floor_bytes) {
            c->info.floor_bytes = bytes;
            status = plan_copy(&c->least, &game, err);
        }
        plan_fini(&game);
        if (is_good)
            tiers.bytes[DEVICE_HOST] = tiers.bytes[DEVICE_FILE] = 0;
        else
            halve(&tiers);
    }
    return status;
}

/* With all state in tier 0, then with as much of it below as there is room for. */
static enum ebb_status find_least(const struct train_ways *w, struct train_choice *c,
                                  struct ebb_error *err)
{
    struct planner_tiers tiers = tiers_of(w, c);
    struct plan_homes homes = {0};
    c->info.floor_bytes = UINT64_MAX;
    enum ebb_status status = find_least_in(w, c, tiers, err);
    if (status != EBB_OK) {
        c->info.floor_bytes = 0; /* not known */
        return status;
    }
    c->state_floor = c->info.floor_bytes;
    if (w->is_settled || !planner_has_tiers(&tiers))
        return EBB_OK;
    status = planner_homes(plain_of(c), &tiers, 1, PLANNER_SMALL_TOO, &homes, err);
    tiers.homes = &homes;
    if (status == EBB_OK && homes.count)
        status = find_least_in(w, c, tiers, err);
    plan_homes_fini(&homes);
    return status;
}

/* Checkpoints, where they were asked for and the program has a backward pass. */
static enum ebb_status prepare(const struct train_ways *w, struct train_choice *c,
                               struct ebb_error *err)
{
    if (c->is_ready || !w->is_checkpointed)
        return EBB_OK;
    enum ebb_status status = planner_fates(c->trace, &c->fates, err);
    c->is_ready = status == EBB_OK;
    return status == EBB_OK ? status : ebb_context(err, status, "memory.use_ckp: true");
}

/* The least memory and its plan; never more than keeping everything takes. */
static enum ebb_status find_floor(const struct train_ways *w, struct train_choice *c,
                                  struct ebb_error *err)
{
    const struct plan *all = NULL;
    struct train_ways plain = *w;
    if (c->has_least)
        return EBB_OK;
    plain.profile = profile_builtin();
    EBB_TRY(prepare(w, c, err));
    EBB_TRY(exec_keep_all(c->exec, UINT64_MAX, &all, err));
    c->info.unlimited_bytes = all->budget_bytes;
    EBB_TRY(find_least(&plain, c, err));
    if (c->info.floor_bytes > c->info.unlimited_bytes && !tiers_of(w, c).homes && !c->fates) {
        c->info.floor_bytes = c->info.unlimited_bytes;
        EBB_TRY(plan_copy(&c->least, all, err));
    }
    c->has_least = true;
    return EBB_OK;
}

enum ebb_status train_choice_floor(const struct train_ways *w, struct train_choice *c,
                                   uint64_t *floor_bytes, struct ebb_error *err)
{
    EBB_TRY(find_floor(w, c, err));
    *floor_bytes = c->info.floor_bytes;
    return EBB_OK;
}

/* The op at which the plan of the floor has most bytes; TRACE_NONE: not known. */
static uint32_t tightest_op(const struct train_choice *c)
{
    struct plan_walk walk;
    uint32_t op = TRACE_NONE;
    uint64_t most = 0;
    if (plan_walk_init(&walk, c->trace, &c->least, NULL) != EBB_OK)
        return op;
    for (size_t i = 0; i < c->least.step_count; i++) {
        if (plan_walk_step(&walk, i, NULL) != EBB_OK)
            break;
        uint64_t bytes = walk.resident_bytes + walk.extra_bytes;
        if (c->least.steps[i].act == PLAN_RUN && bytes > most) {
            most = bytes;
            op = c->least.steps[i].index;
        }
    }
    plan_walk_fini(&walk);
    return op;
}

static void name_op(const struct train_choice *c, char *text, size_t size)
{
    uint32_t op = tightest_op(c);
    const struct trace_op *o = op != TRACE_NONE ? &c->trace->ops[op] : NULL;
    const char *label = o ? trace_label(c->trace, o) : "";
    *text = '\0';
    if (o)
        snprintf(text, size, "; op %u (%s%s%s) needs them in tier 0", op, o->kind->name,
                 *label ? " " : "", label);
}

/* Persistent bytes in tier 0; *optimizer: of those, what only updates read. */
static enum ebb_status near_bytes(const struct trace *t, const struct plan_homes *homes,
                                  uint64_t *all, uint64_t *optimizer, struct ebb_error *err)
{
    uint64_t *base, ignored;
    bool *is_read;
    *all = *optimizer = 0;
    EBB_TRY(ebb_new(&base, (size_t)t->storage_count + 1, sizeof *base + sizeof *is_read, err));
    is_read = (bool *)(base + t->storage_count + 1);
    trace_mark_read(t, is_read);
    enum ebb_status status = plan_base_layout(t, homes, base, &ignored, err);
    for (uint32_t s = 0; s < t->storage_count && status == EBB_OK; s++) {
        uint64_t bytes = base[s] != PLAN_NOWHERE ? plan_round(t->storages[s].bytes) : 0;
        *all += bytes;
        *optimizer += is_read[s] ? 0 : bytes;
    }
    ebb_free(base);
    return status;
}

static enum ebb_status refuse(const struct train_ways *w, const struct train_choice *c,
                              struct ebb_error *err)
{
    char where[200], least[32];
    uint64_t near = 0, optimizer;
    name_op(c, where, sizeof where);
    ebb_format_bytes(c->info.floor_bytes, least, sizeof least);
    EBB_TRY(near_bytes(c->trace, &c->least.homes, &near, &optimizer, err));
    return ebb_fail(err, EBB_EBUDGET,
                    "a budget of %llu bytes is too small for %s: the least it can run in is %llu "
                    "bytes, %s (%llu of them weights and other state)%s%s",
                    (unsigned long long)w->asked_bytes, c->trace->name,
                    (unsigned long long)c->info.floor_bytes, least, (unsigned long long)near, where,
                    w->demands & PLANNER_NOTHING_AGAIN
                        ? ", since use_ckp: false forbids to recompute"
                    : c->fates ? ", since use_ckp: true keeps block inputs"
                    : w->demands & PLANNER_NO_COPIES
                        ? ", since with_activation_offload: false forbids to copy activations"
                        : ". A smaller batch, or memory below it (--host, --file), needs less");
}

/* One of the floor's games at this budget, with lower tiers or without. */
static enum ebb_status by_game(const struct train_ways *w, const struct train_choice *c,
                               struct plan *plan, bool *is_found, struct ebb_error *err)
{
    struct planner_tiers tiers = tiers_of(w, c);
    uint64_t budget = w->budget_bytes;
    EBB_TRY(planner_floor_at(c->trace, &tiers, budget, budget, plan, is_found, err));
    if (*is_found && planner_has_tiers(&tiers))
        EBB_TRY(is_placed(w, c, plan, budget, is_found, err));
    if (!*is_found && planner_has_tiers(&tiers) && !tiers.homes) {
        struct planner_tiers none = planner_without_tiers(&tiers);
        plan_fini(plan);
        EBB_TRY(planner_floor_at(c->trace, &none, budget, budget, plan, is_found, err));
    }
    snprintf(plan->planner, sizeof plan->planner, "floor");
    return EBB_OK;
}

static enum ebb_status by_floor(const struct train_ways *w, const struct train_choice *c,
                                struct plan *plan, bool *is_found, struct ebb_error *err)
{
    (void)w;
    *is_found = true;
    return plan_copy(plan, &c->least, err);
}

static enum ebb_status by_keeping(const struct train_ways *w, const struct train_choice *c,
                                  struct plan *plan, bool *is_found, struct ebb_error *err)
{
    const struct plan *all = NULL;
    (void)w;
    *is_found = true;
    EBB_TRY(exec_keep_all(c->exec, UINT64_MAX, &all, err));
    return plan_copy(plan, all, err);
}

typedef enum ebb_status maker(const struct train_ways *w, const struct train_choice *c,
                              struct plan *plan, bool *is_found, struct ebb_error *err);

/* What the plan at hand has to be better than. */
static double least_overhead(const struct train_ways *w, const struct train_choice *c,
                             const struct exec_report *report)
{
    bool is_riskier = report->swapped_bytes && !c->info.report.swapped_bytes;
    return c->info.overhead * (train_ways_are_measured(w) && is_riskier ? 1 - LEAST_GAIN : 1);
}

/* See what a plan will do, on the null device; it is taken if there is none yet, or if it is
 * faster. */
static enum ebb_status compare(const struct train_ways *w, struct train_choice *c,
                               struct plan *plan, struct ebb_error *err)
{
    struct exec_options o = train_ways_options(w);
    struct exec_report report;
    o.plan = plan;
    o.policy = NULL;
    EBB_TRY(exec_run(c->exec, &o, &report, err));
    if (c->is_made && exec_overhead(&report) >= least_overhead(w, c, &report))
        return EBB_OK;
    struct plan before = c->plan;
    c->plan = *plan;
    *plan = before;
    c->is_made = true;
    c->info.report = report;
    c->info.peak_bytes = report.peak_bytes;
    c->info.overhead = exec_overhead(&report);
    snprintf(c->info.how, sizeof c->info.how, "%s", c->plan.planner);
    return EBB_OK;
}

/* The same with the copies of the plan beside its ops. */
static enum ebb_status compare_early(const struct train_ways *w, struct train_choice *c,
                                     const struct plan *plan, struct ebb_error *err)
{
    struct planner_tiers tiers = tiers_of(w, c);
    struct ebb_error why = {0};
    struct plan early = {0};
    bool is_found;
    enum ebb_status status = planner_early(c->trace, plan, &tiers, true, &early, &is_found, &why);
    if (status == EBB_OK && is_found)
        status = compare(w, c, &early, &why);
    plan_fini(&early);
    return planner_unless_no_room(status, &why, err);
}

static enum ebb_status offer(const struct train_ways *w, struct train_choice *c, maker *make,
                             struct ebb_error *err)
{
    struct plan plan = {0};
    bool is_found = false;
    enum ebb_status status = make(w, c, &plan, &is_found, err);
    if (is_found && (w->host_bytes || w->file_bytes))
        EBB_THEN(status, compare_early(w, c, &plan, err));
    if (is_found)
        EBB_THEN(status, compare(w, c, &plan, err));
    plan_fini(&plan);
    return status;
}

/* The fastest plan known with state where `tiers` has it. */
static enum ebb_status choose_in(const struct train_ways *w, struct train_choice *c,
                                 const struct planner_tiers *tiers, struct ebb_error *err)
{
    struct plan plan = {0};
    struct exec_report report;
    bool is_found;
    uint64_t floor_bytes = tiers->homes ? 0 : c->state_floor;
    enum ebb_status status = planner_unified(c->exec, c->trace, tiers, floor_bytes, w->seed, &plan,
                                             &report, &is_found, err);
    if (status == EBB_OK && is_found)
        status = compare(w, c, &plan, err);
    plan_fini(&plan);
    return status;
}

/* ---- how much state may be near ---------------------------------------------------------------- */

static bool has_caps(const struct train_ways *w)
{
    return w->state_cap != UINT64_MAX || w->margin_ratio >= 0;
}

/* May state live where these homes have it? What is near with none of them says how much the rest
 * takes. */
static enum ebb_status is_allowed(const struct train_ways *w, const struct train_choice *c,
                                  const struct plan_homes *homes, bool *is_so,
                                  struct ebb_error *err)
{
    uint64_t near, optimizer, every, whole;
    *is_so = true;
    if (!has_caps(w) || w->is_settled)
        return EBB_OK;
    EBB_TRY(near_bytes(c->trace, NULL, &every, &whole, err));
    EBB_TRY(near_bytes(c->trace, homes, &near, &optimizer, err));
    uint64_t rest = c->info.unlimited_bytes - whole;
    uint64_t left = w->budget_bytes > rest ? w->budget_bytes - rest : 0;
    *is_so = near <= w->state_cap &&
             (w->margin_ratio < 0 || (double)optimizer <= w->margin_ratio * (double)left);
    return EBB_OK;
}

static enum ebb_status refuse_cap(const struct train_ways *w, const struct train_choice *c,
                                  struct ebb_error *err)
{
    return ebb_fail(err, EBB_EBUDGET,
                    "host and file, %llu and %llu bytes, have no room for the state of %s that "
                    "mem_tracer.%s leaves no room for in tier 0, of %llu bytes in all",
                    (unsigned long long)w->host_bytes, (unsigned long long)w->file_bytes,
                    c->trace->name,
                    w->state_cap != UINT64_MAX ? "warmup_gpu_chunk_mem_ratio" : "margin_use_ratio",
                    (unsigned long long)c->info.persistent_bytes);
}

struct homes { /* that were tried, one after the other */
    struct plan_homes now;
    uint64_t seen[16];
    size_t seen_count;
};

/* Other parts often leave state in the same homes, for which there is the same plan. */
static bool is_seen(struct homes *homes)
{
    uint64_t hash = EBB_FNV1A_INIT;
    for (size_t i = 0; i < homes->now.count; i++) {
        hash = ebb_fnv1a_u32(hash, homes->now.list[i].storage);
        hash = ebb_fnv1a_u32(hash, homes->now.list[i].tier);
    }
    for (size_t i = 0; i < homes->seen_count; i++)
        if (homes->seen[i] == hash)
            return true;
    if (homes->seen_count < sizeof homes->seen / sizeof *homes->seen)
        homes->seen[homes->seen_count++] = hash;
    return false;
}

/* One part of the state below tier 0, if that is allowed and was not tried before. */
static enum ebb_status choose_part(const struct train_ways *w, struct train_choice *c, double part,
                                   unsigned how, struct homes *homes, struct ebb_error *err)
{
    struct planner_tiers tiers = tiers_of(w, c);
    bool is_so;
    EBB_TRY(planner_homes(c->trace, &tiers, part, how, &homes->now, err));
    EBB_TRY(is_allowed(w, c, &homes->now, &is_so, err));
    if (homes->now.count == 0 || !is_so || is_seen(homes))
        return EBB_OK;
    tiers.homes = &homes->now;
    if (tiers.bytes[0] > c->info.unlimited_bytes) /* from there on one choice */
        tiers.bytes[0] = c->info.unlimited_bytes;
    return choose_in(w, c, &tiers, err);
}

/* No more than a cap of the state is near. */
static double part_for_cap(const struct train_ways *w, const struct train_choice *c)
{
    double every = (double)c->info.persistent_bytes;
    return every > 0 && (double)w->state_cap < every ? 1 - (double)w->state_cap / every : 0;
}

static bool has_updates(const struct trace *t)
{
    for (uint32_t o = 0; o < t->op_count; o++)
        if (t->ops[o].phase == TRACE_UPDATE)
            return true;
    return false;
}

/* Are all updates of this program the host's? */
static bool runs_on_host(const struct train_ways *w, const struct train_choice *c)
{
    return w->updates == PLANNER_BY_HOST && has_updates(c->trace);
}

/* Something that reads a new weight keeps its update where it is read. Gradients that are added up
 * are no weights. */
static enum ebb_status refuse_shared(const struct train_choice *c, struct ebb_error *err)
{
    const struct trace *t = c->trace;
    bool *is_weight;
    EBB_TRY(ebb_new(&is_weight, t->storage_count, sizeof *is_weight, err));
    trace_mark_read(t, is_weight);
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < c->plan.step_count && status == EBB_OK; i++) {
        const struct plan_step *s = &c->plan.steps[i];
        const struct trace_op *op = s->act == PLAN_RUN && !s->tier ? &t->ops[s->index] : NULL;
        for (uint32_t k = 0; op && op->phase == TRACE_UPDATE && k < op->output_count; k++) {
            const struct trace_tensor *out = trace_output_of(t, op, k);
            if (out->alias == TRACE_MUTATE && is_weight[out->storage] &&
                plan_home_of(&c->plan.homes, out->storage))
                status = ebb_fail(err, EBB_EINPUT,
                                  "use_hybrid_adam: false gives all updates to the host, but what "
                                  "%s (%s) makes is read by the device in the same step: allowed "
                                  "without opt.ema",
                                  trace_label(t, op), op->kind->name);
        }
    }
    ebb_free(is_weight);
    return status;
}

/* Then all state lives there. */
static enum ebb_status choose_on_host(const struct train_ways *w, struct train_choice *c,
                                      struct ebb_error *err)
{
    struct planner_tiers tiers = tiers_of(w, c), host = tiers;
    struct plan_homes homes = {0};
    enum ebb_status status = EBB_OK;
    host.bytes[DEVICE_FILE] = 0;
    uint64_t near = 0, optimizer;
    if (!tiers.homes) {
        status = planner_homes(c->trace, &host, 1, PLANNER_SMALL_TOO, &homes, err);
        tiers.homes = &homes;
    }
    EBB_THEN(status, near_bytes(c->trace, tiers.homes, &near, &optimizer, err));
    if (near == 0)
        EBB_THEN(status, choose_in(w, c, &tiers, err));
    plan_homes_fini(&homes);
    if (status == EBB_OK && c->is_made)
        return refuse_shared(c, err);
    if (status == EBB_OK)
        status = ebb_fail(err, EBB_EBUDGET,
                          "use_hybrid_adam: false keeps all state of %s, %llu bytes, in host "
                          "memory, with the gradients that are on their way: a host of %llu bytes, "
                          "or the budget, is too small",
                          c->trace->name, (unsigned long long)c->info.persistent_bytes,
                          (unsigned long long)w->host_bytes);
    return status;
}

/* May the host's share of the updates make a step shorter than all of it on the device? Then homes
 * below are worth a look at every budget: what is decided for few bytes is a choice for many. */
static bool may_share(const struct train_ways *w, const struct train_choice *c)
{
    return w->is_default && !w->is_settled && w->updates == PLANNER_SHARED && w->host_bytes &&
           !c->fates && c->trace->op_count <= MANY_OPS && has_updates(c->trace);
}

struct part { /* of the state below tier 0 */
    double part;
    unsigned how;
};

/* *best: the part, if it is better. */
static enum ebb_status try_part(const struct train_ways *w, struct train_choice *c,
                                struct part part, struct homes *homes, struct part *best,
                                bool *is_better, struct ebb_error *err)
{
    double before = c->is_made ? c->info.overhead : INFINITY;
    EBB_TRY(choose_part(w, c, part.part, part.how, homes, err));
    *is_better = c->is_made && c->info.overhead < before;
    if (*is_better)
        *best = part;
    return EBB_OK;
}

/* A little less than the best part, or a little more, as long as that is better. */
static enum ebb_status choose_near(const struct train_ways *w, struct train_choice *c,
                                   struct part best, struct homes *homes, struct ebb_error *err)
{
    double begin = best.part, step = -LITTLE_PART;
    for (int i = 0; i < NEAR_TRIES && begin > 0 && c->info.overhead > WORTH_PARTS; i++) {
        struct part next = {best.part + step, best.how};
        bool is_better = false;
        if (next.part > 0 && next.part <= 1)
            EBB_TRY(try_part(w, c, next, homes, &best, &is_better, err));
        if (!is_better && (step > 0 || best.part < begin))
            break;
        step = is_better ? step : -step;
    }
    return EBB_OK;
}

/* Parts of the state below tier 0, until nothing is left to gain. */
static enum ebb_status choose_parts(const struct train_ways *w, struct train_choice *c,
                                    struct ebb_error *err)
{
    const struct part parts[] = {{part_for_cap(w, c), PLANNER_SMALL_TOO},
                                 {1.0 / 3, 0},
                                 {1.0 / 3, PLANNER_SPREAD},
                                 {2.0 / 3, 0},
                                 {2.0 / 3, PLANNER_SPREAD},
                                 {5.0 / 6, 0},
                                 {1, 0},
                                 {1, PLANNER_SMALL_TOO}};
    struct planner_tiers tiers = tiers_of(w, c);
    struct homes homes = {.seen_count = 0};
    struct part best = {0, 0};
    bool is_shared = may_share(w, c), is_better;
    bool is_large = c->trace->op_count > MANY_OPS, is_long = c->trace->op_count > LONG_OPS;
    enum ebb_status status = EBB_OK;
    if (w->budget_bytes == UINT64_MAX && !is_shared)
        return EBB_OK; /* then it stays where there is room for all */
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == EBB_OK; i++) {
        bool is_hidden = c->is_made && c->info.overhead < PLANNER_ALL_HIDDEN && !is_shared;
        if (w->is_settled || !planner_has_tiers(&tiers) || (w->is_static && i > 0) || is_hidden ||
            (c->is_made && is_large))
            break;
        if (is_long && best.part > 0 && parts[i - 1].part > best.part) /* more of it is worse */
            break;
        if (parts[i].part > 0)
            status = try_part(w, c, parts[i], &homes, &best, &is_better, err);
    }
    if (!is_large && !w->is_static)
        EBB_THEN(status, choose_near(w, c, best, &homes, err));
    plan_homes_fini(&homes.now);
    return status;
}

/* Nobody asked for a policy: the fastest plan known, with tiers or without. */
static enum ebb_status choose_freely(const struct train_ways *w, struct train_choice *c,
                                     struct ebb_error *err)
{
    struct planner_tiers tiers = tiers_of(w, c);
    bool is_so;
    if (runs_on_host(w, c))
        return choose_on_host(w, c, err);
    EBB_TRY(is_allowed(w, c, NULL, &is_so, err));
    bool is_near = is_so && w->budget_bytes >= c->state_floor;
    if (is_near && train_ways_are_measured(w) && planner_has_tiers(&tiers) && !tiers.homes) {
        struct planner_tiers none = planner_without_tiers(&tiers);
        EBB_TRY(choose_in(w, c, &none, err));
    }
    if (tiers.homes || is_near)
        EBB_TRY(choose_in(w, c, &tiers, err));
    return choose_parts(w, c, err);
}

/* The plan of the floor fits every budget; near the floor little else is better. */
static enum ebb_status choose_least(const struct train_ways *w, struct train_choice *c,
                                    struct ebb_error *err)
{
    bool is_so = c->has_least && !w->is_settled;
    if (is_so)
        EBB_TRY(is_allowed(w, c, &c->least.homes, &is_so, err));
    return is_so ? offer(w, c, by_floor, err) : EBB_OK;
}

/* What is left when that found nothing: a game, or the floor's. */
static enum ebb_status choose_last(const struct train_ways *w, struct train_choice *c,
                                   struct ebb_error *err)
{
    bool is_so = !has_caps(w);
    if (is_so)
        EBB_TRY(offer(w, c, by_game, err));
    if (c->is_made)
        return EBB_OK;
    EBB_TRY(find_floor(w, c, err));
    EBB_TRY(is_allowed(w, c, &c->least.homes, &is_so, err));
    return is_so ? offer(w, c, by_floor, err) : refuse_cap(w, c, err);
}

enum ebb_status train_choice_make(const struct train_ways *w, struct train_choice *c,
                                  struct ebb_error *err)
{
    const struct plan *all = NULL;
    EBB_TRY(exec_keep_all(c->exec, UINT64_MAX, &all, err));
    c->info.unlimited_bytes = all->budget_bytes;
    EBB_TRY(prepare(w, c, err));
    bool has_homes = w->is_settled && w->homes->count; /* what is kept has to come first */
    bool is_free = w->is_free || has_homes || c->fates || has_caps(w) || runs_on_host(w, c);
    bool is_allowed_near;
    EBB_TRY(is_allowed(w, c, NULL, &is_allowed_near, err));
    is_allowed_near &= !runs_on_host(w, c);
    if (c->info.unlimited_bytes <= w->budget_bytes && !has_homes && !c->fates && is_allowed_near) {
        EBB_TRY(offer(w, c, by_keeping, err));
        return may_share(w, c) ? choose_parts(w, c, err) : EBB_OK;
    }
    if (w->budget_bytes != UINT64_MAX)
        EBB_TRY(find_floor(w, c, err));
    if (w->budget_bytes < c->info.floor_bytes)
        return refuse(w, c, err);
    if (!w->policy && !w->planner && !is_free)
        return ebb_fail(err, EBB_EBUDGET,
                        "policy none keeps everything: %s needs %llu bytes, the budget is %llu; "
                        "with another policy it needs at least %llu",
                        c->trace->name, (unsigned long long)c->info.unlimited_bytes,
                        (unsigned long long)w->budget_bytes,
                        (unsigned long long)c->info.floor_bytes);
    if (is_free) {
        EBB_TRY(choose_freely(w, c, err));
        if (!runs_on_host(w, c))
            EBB_TRY(choose_least(w, c, err));
    } else {
        EBB_TRY(offer(w, c, w->policy ? by_policy : by_planner, err));
    }
    c->info.is_fallback = !c->is_made && !w->is_free;
    return c->is_made ? EBB_OK : choose_last(w, c, err);
}

void train_choice_init(struct train_choice *c)
{
    *c = (struct train_choice){0};
    plan_init(&c->plan);
    plan_init(&c->least);
}

void train_choice_fini(struct train_choice *c)
{
    plan_fini(&c->plan);
    plan_fini(&c->least);
    ebb_free(c->fates);
}
