/* engine.c - decides how a program runs when it is added, binds it to memory when it runs first.
 *
 * The slab is reserved at the first run: an engine without a limit takes addresses for more than
 * the machine has, of which only what is written costs memory. */
#include "train/engine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/thread.h"
#include "ops/ops.h"
#include "planner/planner.h"

#define MOST_OVERHEAD 20.0 /* a policy that takes longer has failed in its dry run */

/* Frozen transfer prices of this machine's tiers, in bytes per nanosecond: decisions must not
 * depend on a measurement. */
#define MOVE_RATE 8.0
#define HOST_RATE 6.0
#define FILE_RATE 1.0
#define FILE_LATENCY_NS 100000

struct train_program {
    struct trace *trace;
    struct exec_program *exec;
    struct plan plan; /* own, unless online */
    struct exec_image *image;
    struct train_program_info info;
    uint32_t *persistent; /* leaf tensors in order */
    uint64_t *base;       /* per storage: plan_base_layout */
    uint32_t persistent_count;
    struct train_program *next;
};

struct train_engine {
    struct train_engine_options options;
    char *file_path;
    const struct mem_policy *policy;
    const struct planner *planner;
    bool is_free; /* nobody asked for a policy: the cheaper of dtr_eq and the floor's games */
    void *backend;
    struct device *device;
    bool is_reserved;
    uint64_t slab_bytes;
    uint64_t asked_bytes;           /* budget, before it was rounded down */
    uint64_t needed_bytes;          /* largest floor of the programs refused so far */
    struct train_program *programs; /* newest first */
};

static struct device_config device_links(const struct train_engine *e)
{
    struct device_config c = {.file_path = e->file_path};
    c.in[DEVICE_T0].bytes_per_ns = MOVE_RATE;
    c.in[DEVICE_HOST].bytes_per_ns = c.out[DEVICE_HOST].bytes_per_ns = HOST_RATE;
    c.in[DEVICE_FILE].bytes_per_ns = c.out[DEVICE_FILE].bytes_per_ns = FILE_RATE;
    c.in[DEVICE_FILE].latency_ns = c.out[DEVICE_FILE].latency_ns = FILE_LATENCY_NS;
    return c;
}

/* ---- creating ---------------------------------------------------------------------------------
 */

static enum ebb_status find_way(struct train_engine *e, const char *name, struct ebb_error *err)
{
    e->is_free = !name && e->options.budget_bytes != UINT64_MAX;
    if (!name)
        name = e->is_free ? "dtr_eq" : "none";
    if (strcmp(name, "none") == 0)
        return EBB_OK;
    e->policy = mem_policy_find(name);
    e->planner = e->policy ? NULL : planner_find(name);
    if (!e->policy && !e->planner)
        return ebb_fail(err, EBB_EINPUT,
                        "memory policy \"%s\" is unknown; `ebb sim --help` lists the policies, "
                        "`ebb plan --help` the planners",
                        name);
    return EBB_OK;
}

enum ebb_status train_engine_create(struct train_engine **engine,
                                    const struct train_engine_options *options,
                                    struct ebb_error *err)
{
    struct train_engine *e = ebb_calloc(1, sizeof *e);
    if (!e)
        return ebb_no_memory(err, sizeof *e);
    e->options = *options;
    if (e->options.threads <= 0)
        e->options.threads = ebb_cpu_count();
    e->asked_bytes = e->options.budget_bytes;
    if (e->options.budget_bytes != UINT64_MAX)
        e->options.budget_bytes -= e->options.budget_bytes % PLAN_UNIT;
    enum ebb_status status = find_way(e, options->policy, err);
    if (status == EBB_OK && options->file_path) {
        size_t n = strlen(options->file_path) + 1;
        e->file_path = ebb_alloc(n);
        if (e->file_path)
            memcpy(e->file_path, options->file_path, n);
        else
            status = ebb_no_memory(err, n);
    }
    if (status == EBB_OK)
        status = ops_backend_create(&e->backend, e->options.threads, err);
    if (status == EBB_OK) {
        struct device_config config = device_links(e);
        config.threads = e->options.threads;
        const struct device_table *table = options->is_dry ? &device_null : &device_cpu;
        status = table->create(&e->device, &config, err);
    }
    if (status != EBB_OK) {
        train_engine_destroy(e);
        return status;
    }
    *engine = e;
    return EBB_OK;
}

static void program_destroy(struct train_program *p)
{
    if (!p)
        return;
    exec_image_destroy(p->image);
    plan_fini(&p->plan);
    exec_program_destroy(p->exec);
    trace_destroy(p->trace);
    ebb_free(p->persistent);
    ebb_free(p->base);
    ebb_free(p);
}

void train_engine_destroy(struct train_engine *e)
{
    if (!e)
        return;
    while (e->programs) {
        struct train_program *next = e->programs->next;
        program_destroy(e->programs);
        e->programs = next;
    }
    if (e->device)
        e->device->table->destroy(e->device);
    ops_backend_destroy(e->backend);
    ebb_free(e->file_path);
    ebb_free(e);
}

void *train_engine_backend(const struct train_engine *e)
{
    return e->backend;
}

int train_engine_threads(const struct train_engine *e)
{
    return e->options.threads;
}

/* ---- deciding ---------------------------------------------------------------------------------
 */

static struct exec_options run_options(const struct train_engine *e)
{
    uint64_t budget = e->options.budget_bytes;
    struct exec_options o = {.policy = e->policy,
                             .budget_bytes = budget < TRACE_MAX_BYTES ? budget : TRACE_MAX_BYTES,
                             .seed = e->options.seed,
                             .limit = MOST_OVERHEAD,
                             .ways = MEM_DROP,
                             .tier_bytes = {0, e->options.host_bytes, e->options.file_bytes},
                             .links = device_links(e),
                             .context = e->backend};
    o.ways |= e->options.host_bytes ? MEM_HOST : 0;
    o.ways |= e->options.file_bytes ? MEM_FILE : 0;
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
static enum ebb_status decide_by_policy(const struct train_engine *e, struct train_program *p,
                                        bool *is_done, struct ebb_error *err)
{
    struct exec_log log = {0};
    struct exec_options o = run_options(e);
    o.log = &log;
    struct ebb_error why = {0};
    enum ebb_status status = exec_run(p->exec, &o, &p->info.report, &why);
    *is_done = status == EBB_OK && p->info.report.result == EXEC_OK;
    if (*is_done) {
        status = exec_log_to_plan(&log, p->trace, &p->plan, &why);
        snprintf(p->plan.planner, sizeof p->plan.planner, "%s", e->policy->name);
    }
    exec_log_fini(&log);
    return unless_no_room(status, &why, err);
}

static enum ebb_status decide_by_planner(const struct train_engine *e, struct train_program *p,
                                         bool *is_done, struct ebb_error *err)
{
    struct planner_request request;
    struct planner_result result;
    planner_request_init(&request);
    planner_result_init(&result);
    request.budget_bytes = e->options.budget_bytes;
    request.seed = e->options.seed;
    struct ebb_error why = {0};
    enum ebb_status status = planner_run(e->planner, p->trace, &request, &result, &why);
    *is_done = status == EBB_OK && result.status == PLANNER_OK;
    if (*is_done)
        status = plan_copy(&p->plan, &result.plan, &why);
    planner_result_fini(&result);
    return unless_no_room(status, &why, err);
}

static struct planner_link host_link(const struct train_engine *e)
{
    return (struct planner_link){.out_bytes_per_ns = HOST_RATE,
                                 .in_bytes_per_ns = HOST_RATE,
                                 .host_bytes = e->options.host_bytes};
}

/* Whether the copies in lower tiers find a place: planners count their bytes, not their addresses.
 */
static enum ebb_status is_placed(const struct train_engine *e, const struct train_program *p,
                                 const struct plan *plan, uint64_t bytes, bool *is_good,
                                 struct ebb_error *err)
{
    struct exec_options o = run_options(e);
    struct exec_report report;
    struct ebb_error why = {0};
    o.plan = plan;
    o.policy = NULL;
    o.budget_bytes = bytes;
    enum ebb_status status = exec_run(p->exec, &o, &report, &why);
    *is_good = status == EBB_OK && report.result == EXEC_OK;
    if (status == EBB_OK || status == EBB_EBUDGET)
        return EBB_OK;
    return ebb_fail(err, status, "%s", why.message);
}

/* Games that swap count only where they can be placed, with less host memory if need be, and where
 * they end below those that do not swap: a tier never makes the floor higher. */
static enum ebb_status find_least(const struct train_engine *e, struct train_program *p,
                                  struct plan *plan, struct ebb_error *err)
{
    struct planner_link link = host_link(e);
    enum ebb_status status = EBB_OK;
    p->info.floor_bytes = UINT64_MAX;
    for (bool is_last = false; status == EBB_OK && !is_last;) {
        struct plan game;
        uint64_t bytes = UINT64_MAX;
        bool is_good = true;
        is_last = link.host_bytes == 0;
        plan_init(&game);
        status =
            planner_floor_with_host(p->trace, &link, plan || !is_last ? &game : NULL, &bytes, err);
        if (status == EBB_OK && !is_last)
            status = is_placed(e, p, &game, bytes, &is_good, err);
        if (status == EBB_OK && is_good && bytes < p->info.floor_bytes) {
            p->info.floor_bytes = bytes;
            if (plan)
                status = plan_copy(plan, &game, err);
        }
        plan_fini(&game);
        link.host_bytes = is_good || link.host_bytes < 4 * PLAN_UNIT ? 0 : link.host_bytes / 2;
    }
    return status;
}

/* The least memory and its plan (may be NULL); never more than keeping everything takes. */
static enum ebb_status find_floor(const struct train_engine *e, struct train_program *p,
                                  struct plan *plan, struct ebb_error *err)
{
    const struct plan *all = NULL;
    EBB_TRY(find_least(e, p, plan, err));
    if (p->info.floor_bytes <= p->info.unlimited_bytes)
        return EBB_OK;
    EBB_TRY(exec_keep_all(p->exec, UINT64_MAX, &all, err));
    p->info.floor_bytes = p->info.unlimited_bytes;
    return plan ? plan_copy(plan, all, err) : EBB_OK;
}

enum ebb_status train_engine_floor(struct train_engine *e, struct train_program *p,
                                   uint64_t *floor_bytes, struct ebb_error *err)
{
    if (p->info.floor_bytes == 0)
        EBB_TRY(find_floor(e, p, NULL, err));
    *floor_bytes = p->info.floor_bytes;
    return EBB_OK;
}

static enum ebb_status refuse(const struct train_engine *e, const struct train_program *p,
                              struct ebb_error *err)
{
    return ebb_fail(err, EBB_EBUDGET,
                    "a budget of %llu bytes is too small for %s: the least it can run in is %llu "
                    "bytes (%llu of them weights and other state)",
                    (unsigned long long)e->asked_bytes, p->trace->name,
                    (unsigned long long)p->info.floor_bytes,
                    (unsigned long long)p->info.persistent_bytes);
}

/* What the plan will do, from its proof and a run on the null device. */
static enum ebb_status predict(const struct train_engine *e, struct train_program *p,
                               struct ebb_error *err)
{
    struct exec_options o = run_options(e);
    o.plan = &p->plan;
    o.policy = NULL;
    uint64_t hash = p->info.report.evict_hash;
    EBB_TRY(exec_run(p->exec, &o, &p->info.report, err));
    if (hash)
        p->info.report.evict_hash = hash;
    p->info.peak_bytes = p->info.report.peak_bytes;
    p->info.overhead = exec_overhead(&p->info.report);
    snprintf(p->info.how, sizeof p->info.how, "%s", p->plan.planner);
    return EBB_OK;
}

/* One of the floor's games at this budget, with the host's memory or without. */
static enum ebb_status find_game(const struct train_engine *e, const struct train_program *p,
                                 struct plan *game, bool *is_found, struct ebb_error *err)
{
    struct planner_link link = host_link(e);
    uint64_t budget = e->options.budget_bytes;
    EBB_TRY(planner_floor_at(p->trace, &link, budget, game, is_found, err));
    if (*is_found && link.host_bytes)
        EBB_TRY(is_placed(e, p, game, budget, is_found, err));
    if (*is_found || !link.host_bytes)
        return EBB_OK;
    link.host_bytes = 0;
    plan_fini(game);
    return planner_floor_at(p->trace, &link, budget, game, is_found, err);
}

/* A game instead of a policy that failed, or when it is cheaper and nobody asked for a policy. */
static enum ebb_status try_game(const struct train_engine *e, struct train_program *p,
                                bool is_needed, bool *is_taken, struct ebb_error *err)
{
    struct plan game, before = p->plan;
    struct train_program_info info = p->info;
    bool is_found = false;
    *is_taken = false;
    plan_init(&game);
    enum ebb_status status = find_game(e, p, &game, &is_found, err);
    if (status == EBB_OK && is_found && !is_needed) {
        status = predict(e, p, err);
        info = p->info;
    }
    if (status != EBB_OK || !is_found) {
        plan_fini(&game);
        return status;
    }
    snprintf(game.planner, sizeof game.planner, "floor");
    p->plan = game;
    status = predict(e, p, err);
    *is_taken = status == EBB_OK && (is_needed || p->info.overhead < info.overhead);
    if (*is_taken) {
        plan_fini(&before);
    } else {
        plan_fini(&game);
        p->plan = before;
        p->info = info;
    }
    return status;
}

static enum ebb_status decide(struct train_engine *e, struct train_program *p,
                              struct ebb_error *err)
{
    const struct plan *all = NULL;
    EBB_TRY(exec_keep_all(p->exec, UINT64_MAX, &all, err));
    p->info.unlimited_bytes = all->budget_bytes;
    if (p->info.unlimited_bytes <= e->options.budget_bytes)
        return plan_copy(&p->plan, all, err);
    struct plan least;
    bool is_done = false, is_game = false;
    plan_init(&least);
    enum ebb_status status = find_floor(e, p, &least, err);
    if (status == EBB_OK && e->options.budget_bytes < p->info.floor_bytes) {
        if (p->info.floor_bytes > e->needed_bytes)
            e->needed_bytes = p->info.floor_bytes;
        status = refuse(e, p, err);
    }
    if (status == EBB_OK && e->policy)
        status = decide_by_policy(e, p, &is_done, err);
    if (status == EBB_OK && e->planner)
        status = decide_by_planner(e, p, &is_done, err);
    if (status == EBB_OK && !is_done && !e->policy && !e->planner) {
        status = ebb_fail(err, EBB_EBUDGET,
                          "policy none keeps everything: %s needs %llu bytes, the budget is %llu; "
                          "with another policy it needs at least %llu",
                          p->trace->name, (unsigned long long)p->info.unlimited_bytes,
                          (unsigned long long)e->options.budget_bytes,
                          (unsigned long long)p->info.floor_bytes);
    }
    if (status == EBB_OK && (!is_done || e->is_free))
        status = try_game(e, p, !is_done, &is_game, err);
    if (status == EBB_OK && !is_done && !is_game)
        status = plan_copy(&p->plan, &least, err);
    p->info.is_fallback = !is_done && !e->is_free;
    plan_fini(&least);
    return status;
}

/* ---- adding -----------------------------------------------------------------------------------
 */

static enum ebb_status find_persistent(struct train_program *p, struct ebb_error *err)
{
    const struct trace *t = p->trace;
    p->base = ebb_alloc(((size_t)t->storage_count + 1) * sizeof *p->base);
    p->persistent = ebb_alloc(((size_t)t->storage_count + 1) * sizeof *p->persistent);
    if (!p->base || !p->persistent)
        return ebb_no_memory(err, t->storage_count * sizeof *p->base);
    EBB_TRY(plan_base_layout(t, p->base, &p->info.persistent_bytes, err));
    for (uint32_t s = 0; s < t->storage_count; s++)
        if (p->base[s] != PLAN_NOWHERE)
            p->persistent[p->persistent_count++] = t->storages[s].root;
    return EBB_OK;
}

static const char *leaf_name(const struct train_program *p, uint32_t i)
{
    const struct trace *t = p->trace;
    return trace_label(t, &t->ops[t->tensors[p->persistent[i]].op]);
}

static uint64_t leaf_bytes(const struct train_program *p, uint32_t i)
{
    return p->trace->storages[p->trace->tensors[p->persistent[i]].storage].bytes;
}

/* Programs find each other's weights only where they left them. */
static enum ebb_status compare_persistent(const struct train_program *a,
                                          const struct train_program *b, struct ebb_error *err)
{
    uint32_t n =
        a->persistent_count < b->persistent_count ? a->persistent_count : b->persistent_count;
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(leaf_name(a, i), leaf_name(b, i)) != 0 || leaf_bytes(a, i) != leaf_bytes(b, i))
            return ebb_fail(
                err, EBB_EINTERNAL,
                "%s and %s disagree on persistent leaf %u: %s of %llu bytes, %s of %llu",
                a->trace->name, b->trace->name, i, leaf_name(a, i),
                (unsigned long long)leaf_bytes(a, i), leaf_name(b, i),
                (unsigned long long)leaf_bytes(b, i));
    }
    if (a->persistent_count != b->persistent_count)
        return ebb_fail(err, EBB_EINTERNAL, "%s has %u persistent leaves, %s has %u",
                        a->trace->name, a->persistent_count, b->trace->name, b->persistent_count);
    return EBB_OK;
}

static struct train_program *find_equal(const struct train_engine *e, const struct trace *t)
{
    for (struct train_program *p = e->programs; p; p = p->next) {
        if (memcmp(&p->trace->signature, &t->signature, sizeof t->signature) == 0 &&
            p->trace->op_count == t->op_count)
            return p;
    }
    return NULL;
}

enum ebb_status train_engine_add(struct train_engine *e, struct trace *trace,
                                 struct train_program **program, struct ebb_error *err)
{
    struct train_program *p = find_equal(e, trace);
    if (p) {
        trace_destroy(trace);
        *program = p;
        return EBB_OK;
    }
    p = ebb_calloc(1, sizeof *p);
    if (!p) {
        trace_destroy(trace);
        return ebb_no_memory(err, sizeof *p);
    }
    p->trace = trace;
    plan_init(&p->plan);
    enum ebb_status status = find_persistent(p, err);
    if (status == EBB_OK && e->programs)
        status = compare_persistent(e->programs, p, err);
    if (status == EBB_OK)
        status = exec_program_create(&p->exec, trace, EXEC_EBB, err);
    if (status == EBB_OK)
        status = decide(e, p, err);
    if (status == EBB_OK)
        status = predict(e, p, err);
    if (status == EBB_OK && e->is_reserved && p->info.peak_bytes > e->slab_bytes)
        status =
            ebb_fail(err, EBB_EBUDGET, "%s needs %llu bytes, %llu are reserved", trace->name,
                     (unsigned long long)p->info.peak_bytes, (unsigned long long)e->slab_bytes);
    if (status != EBB_OK) {
        program_destroy(p);
        return status;
    }
    p->next = e->programs;
    e->programs = p;
    *program = p;
    return EBB_OK;
}

uint64_t train_engine_needed(const struct train_engine *e)
{
    return e->needed_bytes;
}

const struct train_program_info *train_program_info(const struct train_program *p)
{
    return &p->info;
}

const struct trace *train_program_trace(const struct train_program *p)
{
    return p->trace;
}

/* ---- running ----------------------------------------------------------------------------------
 */

static uint64_t more_than_there_is(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? 2 * (uint64_t)pages * (uint64_t)size : UINT64_C(1) << 34;
}

enum ebb_status train_engine_reserve(struct train_engine *e, struct ebb_error *err)
{
    const struct device_table *d = e->device->table;
    if (e->is_reserved)
        return EBB_OK;
    uint64_t bytes = e->options.budget_bytes;
    uint64_t most = e->options.is_dry ? TRACE_MAX_BYTES : more_than_there_is();
    if (bytes > most) { /* addresses beyond would have no memory behind them */
        bytes = most;
        for (const struct train_program *p = e->programs; p; p = p->next)
            bytes = p->info.peak_bytes > bytes ? p->info.peak_bytes : bytes;
    }
    EBB_TRY(d->reserve(e->device, DEVICE_T0, bytes, err));
    e->slab_bytes = bytes;
    e->is_reserved = true;
    if (e->options.host_bytes)
        EBB_TRY(d->reserve(e->device, DEVICE_HOST, e->options.host_bytes, err));
    if (e->options.file_bytes)
        EBB_TRY(d->reserve(e->device, DEVICE_FILE, e->options.file_bytes, err));
    return EBB_OK;
}

enum ebb_status train_engine_run(struct train_engine *e, struct train_program *p,
                                 const struct train_io *io, struct exec_report *report,
                                 struct ebb_error *err)
{
    struct exec_io exec_io = {0};
    struct exec_options o = run_options(e);
    EBB_TRY(train_engine_reserve(e, err));
    if (io)
        exec_io = (struct exec_io){.context = io->context, .fill = io->fill, .read = io->read};
    o.device = e->device;
    if (e->options.is_online && e->policy && !e->is_free && !p->info.is_fallback) {
        o.io = &exec_io;
        o.log = io ? io->log : NULL;
        EBB_TRY(exec_run(p->exec, &o, report, err));
        if (report->result != EXEC_OK)
            return ebb_fail(err, EBB_EBUDGET, "%s: %s", exec_result_text(report->result),
                            report->why);
        return EBB_OK;
    }
    if (!p->image)
        EBB_TRY(exec_image_create(&p->image, p->exec, &p->plan, &o, err));
    EBB_TRY(exec_image_run(p->image, &exec_io, io ? io->log : NULL, report, err));
    report->evict_hash = p->info.report.evict_hash;
    return EBB_OK;
}

void *train_engine_persistent(struct train_engine *e, const struct train_program *p,
                              uint32_t tensor, uint64_t *bytes)
{
    uint32_t s = p->trace->tensors[tensor].storage;
    if (p->base[s] == PLAN_NOWHERE || train_engine_reserve(e, NULL) != EBB_OK)
        return NULL;
    if (bytes)
        *bytes = p->trace->storages[s].bytes;
    return e->device->table->address(e->device, p->base[s]);
}
