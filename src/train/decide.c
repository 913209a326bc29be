/* decide.c - see decide.h. */
#include "train/decide.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"

#define PLANNING_SECONDS 10 /* searches longer than that hardly gain */
#define MOST_OVERHEAD 20.0 /* a policy that takes longer has failed in its dry run */

/* Frozen transfer prices of this machine's tiers, in bytes per nanosecond: decisions must not
 * depend on a measurement. */
#define MOVE_RATE 8.0
#define HOST_RATE 6.0
#define FILE_RATE 1.0
#define FILE_LATENCY_NS 100000

static struct device_config tier_links(const char *file_path)
{
    struct device_config c = {.file_path = file_path};
    c.in[DEVICE_T0].bytes_per_ns = MOVE_RATE;
    c.in[DEVICE_HOST].bytes_per_ns = c.out[DEVICE_HOST].bytes_per_ns = HOST_RATE;
    c.in[DEVICE_FILE].bytes_per_ns = c.out[DEVICE_FILE].bytes_per_ns = FILE_RATE;
    c.in[DEVICE_FILE].latency_ns = c.out[DEVICE_FILE].latency_ns = FILE_LATENCY_NS;
    return c;
}

enum ebb_status train_ways_name(struct train_ways *w, const char *name, struct ebb_error *err)
{
    w->policy = NULL;
    w->planner = NULL;
    w->is_free = !name && w->budget_bytes != UINT64_MAX;
    if (!name)
        name = w->is_free ? "dtr_eq" : "none";
    if (strcmp(name, "none") == 0)
        return EBB_OK;
    w->policy = mem_policy_find(name);
    w->planner = w->policy ? NULL : planner_find(name);
    if (!w->policy && !w->planner)
        return ebb_fail(err, EBB_EINPUT,
                        "memory policy \"%s\" is unknown; `ebb sim --help` lists the policies, "
                        "`ebb plan --help` the planners",
                        name);
    return EBB_OK;
}

void train_ways_budget(struct train_ways *w, uint64_t bytes)
{
    w->asked_bytes = bytes;
    w->budget_bytes = bytes != UINT64_MAX ? bytes - bytes % PLAN_UNIT : bytes;
}

struct exec_options train_ways_options(const struct train_ways *w)
{
    uint64_t budget = w->budget_bytes;
    struct exec_options o = {.policy = w->policy,
                             .budget_bytes = budget < TRACE_MAX_BYTES ? budget : TRACE_MAX_BYTES,
                             .seed = w->seed,
                             .limit = MOST_OVERHEAD,
                             .ways = MEM_DROP,
                             .tier_bytes = {0, w->host_bytes, w->file_bytes},
                             .links = tier_links(w->file_path),
                             .context = w->backend};
    o.ways |= w->host_bytes ? MEM_HOST : 0;
    o.ways |= w->file_bytes ? MEM_FILE : 0;
    return o;
}

static enum ebb_status plan_copy(struct plan *to, const struct plan *from, struct ebb_error *err)
{
    struct plan made = *from;
    made.steps = ebb_alloc((from->step_count + 1) * sizeof *made.steps);
    made.step_capacity = from->step_count + 1;
    if (!made.steps)
        return ebb_no_memory(err, from->step_count * sizeof *made.steps);
    memcpy(made.steps, from->steps, from->step_count * sizeof *made.steps);
    plan_fini(to);
    *to = made;
    return EBB_OK;
}

/* A policy or planner that gives up for want of room has failed: above the floor there is a way. */
static enum ebb_status unless_no_room(enum ebb_status status, const struct ebb_error *why,
                                      struct ebb_error *err)
{
    if (status == EBB_OK || status == EBB_EBUDGET)
        return EBB_OK;
    if (err)
        *err = *why;
    return status;
}

/* The policy's decisions, taken on the null device and written down. */
static enum ebb_status decide_by_policy(const struct train_ways *w, struct train_choice *c,
                                        bool *is_done, struct ebb_error *err)
{
    struct exec_log log = {0};
    struct exec_options o = train_ways_options(w);
    o.log = &log;
    struct ebb_error why = {0};
    enum ebb_status status = exec_run(c->exec, &o, &c->info.report, &why);
    *is_done = status == EBB_OK && c->info.report.result == EXEC_OK;
    if (*is_done) {
        status = exec_log_to_plan(&log, c->trace, &c->plan, &why);
        snprintf(c->plan.planner, sizeof c->plan.planner, "%s", w->policy->name);
    }
    exec_log_fini(&log);
    return unless_no_room(status, &why, err);
}

static enum ebb_status decide_by_planner(const struct train_ways *w, struct train_choice *c,
                                         bool *is_done, struct ebb_error *err)
{
    struct planner_request request;
    struct planner_result result;
    planner_request_init(&request);
    planner_result_init(&result);
    request.budget_bytes = w->budget_bytes;
    request.seed = w->seed;
    request.time_limit_s = PLANNING_SECONDS;
    struct ebb_error why = {0};
    enum ebb_status status = planner_run(w->planner, c->trace, &request, &result, &why);
    *is_done = status == EBB_OK && result.status == PLANNER_OK;
    if (*is_done)
        status = plan_copy(&c->plan, &result.plan, &why);
    planner_result_fini(&result);
    return unless_no_room(status, &why, err);
}

static struct planner_link host_link(const struct train_ways *w)
{
    return (struct planner_link){
        .out_bytes_per_ns = HOST_RATE, .in_bytes_per_ns = HOST_RATE, .host_bytes = w->host_bytes};
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
    if (status == EBB_OK || status == EBB_EBUDGET)
        return EBB_OK;
    return ebb_fail(err, status, "%s", why.message);
}

/* Games that swap count only where they can be placed, with less host memory if need be, and where
 * they end below those that do not swap: a tier never makes the floor higher. */
static enum ebb_status find_least(const struct train_ways *w, struct train_choice *c,
                                  struct ebb_error *err)
{
    struct planner_link link = host_link(w);
    enum ebb_status status = EBB_OK;
    c->info.floor_bytes = UINT64_MAX;
    for (bool is_last = false; status == EBB_OK && !is_last;) {
        struct plan game;
        uint64_t bytes = UINT64_MAX;
        bool is_good = true;
        is_last = link.host_bytes == 0;
        plan_init(&game);
        status = planner_floor_with_host(c->trace, &link, &game, &bytes, err);
        if (status == EBB_OK && !is_last)
            status = is_placed(w, c, &game, bytes, &is_good, err);
        if (status == EBB_OK && is_good && bytes < c->info.floor_bytes) {
            c->info.floor_bytes = bytes;
            status = plan_copy(&c->least, &game, err);
        }
        plan_fini(&game);
        link.host_bytes = is_good || link.host_bytes < 4 * PLAN_UNIT ? 0 : link.host_bytes / 2;
    }
    return status;
}

/* The least memory and its plan; never more than keeping everything takes. */
static enum ebb_status find_floor(const struct train_ways *w, struct train_choice *c,
                                  struct ebb_error *err)
{
    const struct plan *all = NULL;
    if (c->has_least)
        return EBB_OK;
    EBB_TRY(exec_keep_all(c->exec, UINT64_MAX, &all, err));
    EBB_TRY(find_least(w, c, err));
    if (c->info.floor_bytes > c->info.unlimited_bytes) {
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

static enum ebb_status refuse(const struct train_ways *w, const struct train_choice *c,
                              struct ebb_error *err)
{
    return ebb_fail(err, EBB_EBUDGET,
                    "a budget of %llu bytes is too small for %s: the least it can run in is %llu "
                    "bytes (%llu of them weights and other state)",
                    (unsigned long long)w->asked_bytes, c->trace->name,
                    (unsigned long long)c->info.floor_bytes,
                    (unsigned long long)c->info.persistent_bytes);
}

/* What the plan will do, from its proof and a run on the null device. */
static enum ebb_status predict(const struct train_ways *w, struct train_choice *c,
                               struct ebb_error *err)
{
    struct exec_options o = train_ways_options(w);
    o.plan = &c->plan;
    o.policy = NULL;
    uint64_t hash = c->info.report.evict_hash;
    EBB_TRY(exec_run(c->exec, &o, &c->info.report, err));
    if (hash)
        c->info.report.evict_hash = hash;
    c->info.peak_bytes = c->info.report.peak_bytes;
    c->info.overhead = exec_overhead(&c->info.report);
    snprintf(c->info.how, sizeof c->info.how, "%s", c->plan.planner);
    return EBB_OK;
}

/* One of the floor's games at this budget, with the host's memory or without. */
static enum ebb_status find_game(const struct train_ways *w, const struct train_choice *c,
                                 struct plan *game, bool *is_found, struct ebb_error *err)
{
    struct planner_link link = host_link(w);
    uint64_t budget = w->budget_bytes;
    EBB_TRY(planner_floor_at(c->trace, &link, budget, game, is_found, err));
    if (*is_found && link.host_bytes)
        EBB_TRY(is_placed(w, c, game, budget, is_found, err));
    if (*is_found || !link.host_bytes)
        return EBB_OK;
    link.host_bytes = 0;
    plan_fini(game);
    return planner_floor_at(c->trace, &link, budget, game, is_found, err);
}

/* A game instead of a policy that failed, or when it is cheaper and nobody asked for a policy. */
static enum ebb_status try_game(const struct train_ways *w, struct train_choice *c, bool is_needed,
                                bool *is_taken, struct ebb_error *err)
{
    struct plan game, before = c->plan;
    struct train_program_info info = c->info;
    bool is_found = false;
    *is_taken = false;
    plan_init(&game);
    enum ebb_status status = find_game(w, c, &game, &is_found, err);
    if (status == EBB_OK && is_found && !is_needed) {
        status = predict(w, c, err);
        info = c->info;
    }
    if (status != EBB_OK || !is_found) {
        plan_fini(&game);
        return status;
    }
    snprintf(game.planner, sizeof game.planner, "floor");
    c->plan = game;
    status = predict(w, c, err);
    *is_taken = status == EBB_OK && (is_needed || c->info.overhead < info.overhead);
    if (*is_taken) {
        plan_fini(&before);
    } else {
        plan_fini(&game);
        c->plan = before;
        c->info = info;
    }
    return status;
}

/* The plan, not yet what it will do. */
static enum ebb_status choose(const struct train_ways *w, struct train_choice *c,
                              struct ebb_error *err)
{
    const struct plan *all = NULL;
    bool is_done = false, is_game = false;
    EBB_TRY(exec_keep_all(c->exec, UINT64_MAX, &all, err));
    c->info.unlimited_bytes = all->budget_bytes;
    if (c->info.unlimited_bytes <= w->budget_bytes)
        return plan_copy(&c->plan, all, err);
    EBB_TRY(find_floor(w, c, err));
    if (w->budget_bytes < c->info.floor_bytes)
        return refuse(w, c, err);
    if (w->policy)
        EBB_TRY(decide_by_policy(w, c, &is_done, err));
    if (w->planner)
        EBB_TRY(decide_by_planner(w, c, &is_done, err));
    if (!w->policy && !w->planner)
        return ebb_fail(err, EBB_EBUDGET,
                        "policy none keeps everything: %s needs %llu bytes, the budget is %llu; "
                        "with another policy it needs at least %llu",
                        c->trace->name, (unsigned long long)c->info.unlimited_bytes,
                        (unsigned long long)w->budget_bytes,
                        (unsigned long long)c->info.floor_bytes);
    if (!is_done || w->is_free)
        EBB_TRY(try_game(w, c, !is_done, &is_game, err));
    if (!is_done && !is_game)
        EBB_TRY(plan_copy(&c->plan, &c->least, err));
    c->info.is_fallback = !is_done && !w->is_free;
    return EBB_OK;
}

enum ebb_status train_choice_make(const struct train_ways *w, struct train_choice *c,
                                  struct ebb_error *err)
{
    EBB_TRY(choose(w, c, err));
    return predict(w, c, err);
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
}
