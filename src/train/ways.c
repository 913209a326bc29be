/* ways.c - what there is to run a program with: a policy or planner, bytes per tier, links. */
#include "train/decide.h"

#include <string.h>

#include "profile/profile.h"

/* Links are measured while nothing else runs. Beside ops, which may be faster than they were
 * measured, a plan that counts on all of it has its readers wait. ResNet-50 on an H200 with host
 * memory in 4, 3 and 2 GiB, ms per update: 42.5, 43.8, 46.7 at 1; 38.9, 41.6, 44.8 at 0.85; 39.6,
 * 42.3, 45.7 at 0.8; without host memory 38.5, 40.0, 47.8. */
#define TRUST 0.85

bool train_ways_are_measured(const struct train_ways *w)
{
    return w->profile != profile_builtin();
}

static struct device_link link_of(const struct train_ways *w, enum profile_link_name name)
{
    struct profile_link l = profile_link(w->profile, name);
    bool is_doubted = train_ways_are_measured(w) && name != PROFILE_MOVE;
    return (struct device_link){.latency_ns = l.latency_ns,
                                .bytes_per_ns =
                                    is_doubted ? TRUST * l.bytes_per_ns : l.bytes_per_ns};
}

/* Of out and in together while both are busy; 0: each as alone. Of a link said to be faster than it
 * was measured, as much more. It is counted on in full: the one run that keeps a link busy both ways
 * all the time (16.5 billion parameters, docs/benchmarks.md) takes 1.83 s where 1.9 are predicted. */
static double both_of(const struct train_ways *w, enum profile_link_name out,
                      enum profile_link_name in, double rate)
{
    struct profile_link o = profile_link(w->profile, out), i = profile_link(w->profile, in);
    double alone = o.bytes_per_ns > i.bytes_per_ns ? o.bytes_per_ns : i.bytes_per_ns;
    if (o.both_bytes_per_ns <= 0 || i.both_bytes_per_ns <= 0)
        return 0;
    return (o.both_bytes_per_ns + i.both_bytes_per_ns) *
           (alone > 0 && rate > alone ? rate / alone : 1);
}

/* What the file says of a link counts in both directions. */
static void throttle(struct device_config *c, enum device_tier tier, double rate, double latency_us)
{
    struct device_link *both[] = {&c->out[tier], &c->in[tier]};
    for (int k = 0; k < 2; k++) {
        both[k]->bytes_per_ns = rate > 0 ? rate : both[k]->bytes_per_ns;
        both[k]->latency_ns = latency_us > 0 ? (uint64_t)(latency_us * 1e3) : both[k]->latency_ns;
    }
    c->is_throttled[tier] = rate > 0 || latency_us > 0;
}

/* Frozen transfer prices: decisions must not depend on a measurement of the moment. */
static struct device_config tier_links(const struct train_ways *w)
{
    struct device_config c = {
        .file_path = w->file_path,
        .host_slowness = w->host_slowness,
        .out = {[DEVICE_HOST] = link_of(w, PROFILE_HOST_OUT),
                [DEVICE_FILE] = link_of(w, PROFILE_FILE_OUT)},
        .in = {[DEVICE_T0] = link_of(w, PROFILE_MOVE),
               [DEVICE_HOST] = link_of(w, PROFILE_HOST_IN),
               [DEVICE_FILE] = link_of(w, PROFILE_FILE_IN)},
        .both = {[DEVICE_HOST] = both_of(w, PROFILE_HOST_OUT, PROFILE_HOST_IN, w->link.host_rate),
                 [DEVICE_FILE] = both_of(w, PROFILE_FILE_OUT, PROFILE_FILE_IN, w->link.file_rate)}};
    throttle(&c, DEVICE_HOST, w->link.host_rate, w->link.host_latency);
    throttle(&c, DEVICE_FILE, w->link.file_rate, w->link.file_latency);
    return c;
}

enum ebb_status train_ways_name(struct train_ways *w, const char *name, struct ebb_error *err)
{
    w->policy = NULL;
    w->planner = NULL;
    w->is_default = !name;
    w->is_free = !name && w->budget_bytes != UINT64_MAX;
    if (!name)
        name = w->is_free ? "dtr_eq" : "none";
    if (strcmp(name, "none") == 0)
        return EBB_OK;
    w->policy = w->is_online ? mem_policy_find(name) : planner_policy(name);
    w->planner = w->policy ? NULL : planner_find(name);
    if (!w->policy && !w->planner)
        return ebb_fail(err, EBB_EINPUT,
                        "memory policy \"%s\" is unknown; `ebb sim --help` lists the policies, "
                        "`ebb plan --help` the planners",
                        name);
    return EBB_OK;
}

void train_ways_wish(struct train_ways *w, const struct train_wishes *wishes)
{
    bool is_capped = wishes->has_warmup && w->budget_bytes != UINT64_MAX;
    w->state_cap =
        is_capped ? (uint64_t)(wishes->warmup_ratio * (double)w->budget_bytes) : UINT64_MAX;
    w->margin_ratio =
        wishes->has_margin && w->budget_bytes != UINT64_MAX ? wishes->margin_ratio : -1;
    w->is_static = wishes->is_static;
    w->is_checkpointed = wishes->use_ckp == TRAIN_ON;
    w->demands = wishes->use_ckp == TRAIN_OFF ? PLANNER_NOTHING_AGAIN : 0;
    if (wishes->activation_offload == TRAIN_ON)
        w->demands |= PLANNER_INPUTS_LEAVE;
    if (wishes->activation_offload == TRAIN_OFF)
        w->demands |= PLANNER_NO_COPIES;
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
                             .sampling = w->samples,
                             .ignore_small = w->ignores_small,
                             .limit = PLANNER_MOST_OVERHEAD,
                             .work_limit = PLANNER_MOST_WORK,
                             .ways = MEM_DROP,
                             .tier_bytes = {0, w->host_bytes, w->file_bytes},
                             .links = tier_links(w),
                             .context = w->backend,
                             .below_context = w->below};
    if (w->demands & PLANNER_NOTHING_AGAIN)
        o.ways = 0;
    if (w->demands & PLANNER_NO_COPIES)
        return o;
    o.ways |= w->host_bytes ? MEM_HOST : 0;
    o.ways |= w->file_bytes ? MEM_FILE : 0;
    return o;
}
