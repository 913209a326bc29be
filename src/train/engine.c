/* engine.c - has it decided how a program runs when it is added (decide.h), binds it to memory when
 * it runs first.
 *
 * The slab is reserved at the first run: an engine without a limit takes addresses for more than
 * the machine has, of which only what is written costs memory; where all of it does, as much as the
 * programs that are there then need. */
#include "train/engine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/thread.h"
#include "ops/ops.h"
#include "train/costs.h"
#include "train/engine_inside.h"

/* ---- creating -------------------------------------------------------------------------------- */

/* One more thread of the host, where its bits are the device's: updates are bound by memory, of
 * which two threads have all. */
static enum ebb_status open_below(struct train_engine *e, struct ebb_error *err)
{
    bool is_able =
        e->options.host_bytes && e->place.device->launch_below && strcmp(e->place.bits, "cpu") == 0;
    enum train_wish wish = e->options.wishes.hybrid_adam;
    bool has_cores = e->options.threads > 1 && wish == TRAIN_OPEN; /* the device's threads */
    if (!is_able || (has_cores && e->options.wishes.cpu_embedding != TRAIN_ON))
        return EBB_OK;
    e->ways.updates = wish == TRAIN_OFF ? PLANNER_BY_HOST
                      : has_cores       ? PLANNER_BY_DEVICE
                                        : PLANNER_SHARED;
    e->ways.host_slowness = e->options.threads > 1 ? 2 : 1;
    EBB_TRY(ops_backend_create(&e->below, &kernel_cpu, e->device, NULL, 1, err));
    e->ways.below = e->below;
    return EBB_OK;
}

/* The device and its kernels; without memory only what they would need and cost. */
static enum ebb_status open_place(struct train_engine *e, struct ebb_error *err)
{
    EBB_TRY(train_place_find(e->options.device, &e->place, err));
    if (e->place.is_paper && !e->options.is_dry)
        return ebb_fail(err, EBB_EINPUT,
                        "device %s is a kind of GPU to plan for (explain, plan, model trace); "
                        "where there is one, say device: cuda",
                        e->options.device);
    const char *profile = e->place.kernels->profile;
    if (!e->options.costs && profile) {
        EBB_TRY(
            profile_read(e->place.kernels->device, profile, strlen(profile), &e->own_costs, err));
        e->ways.profile = e->options.costs = e->own_costs;
    }
    e->ways.file_path = e->file_path;
    struct device_config config = train_ways_options(&e->ways).links;
    config.threads = e->options.threads;
    const struct device_table *table = e->options.is_dry ? &device_null : e->place.device;
    EBB_TRY(table->create(&e->device, &config, err));
    bool is_cpu = strcmp(e->place.bits, "cpu") == 0; /* its estimates are those that are built in */
    EBB_TRY(ops_backend_create(&e->backend, e->place.kernels, e->options.is_dry ? NULL : e->device,
                               is_cpu ? NULL : e->options.costs, e->options.threads, err));
    e->ways.backend = e->backend;
    return open_below(e, err);
}

enum ebb_status train_engine_create(struct train_engine **engine,
                                    const struct train_engine_options *options,
                                    struct ebb_error *err)
{
    struct train_engine *e;
    EBB_TRY(ebb_new(&e, 1, sizeof *e, err));
    e->options = *options;
    if (e->options.threads <= 0)
        e->options.threads = ebb_cpu_count();
    train_ways_budget(&e->ways, options->budget_bytes);
    e->ways.host_bytes = options->host_bytes;
    e->ways.file_bytes = options->file_bytes;
    e->ways.seed = options->seed;
    e->ways.samples = options->samples;
    e->ways.ignores_small = options->ignores_small;
    e->ways.link = options->link;
    e->ways.is_online = options->is_online;
    train_ways_wish(&e->ways, &options->wishes);
    e->ways.profile = options->costs ? options->costs : profile_builtin();
    unsigned passes = 0;
    enum ebb_status status = train_ways_name(&e->ways, options->policy, err);
    if (status == EBB_OK && options->file_path) {
        size_t n = strlen(options->file_path) + 1;
        e->file_path = ebb_alloc(n);
        if (e->file_path)
            memcpy(e->file_path, options->file_path, n);
        else
            status = ebb_no_memory(err, n);
    }
    EBB_THEN(status, open_place(e, err));
    EBB_THEN(status,
             ops_rewrites_parse(options->rewrites, ops_backend_passes(e->backend), &passes, err));
    if (status == EBB_OK)
        ops_backend_set_passes(e->backend, passes);
    return EBB_HAND_OUT(status, engine, e, train_engine_destroy);
}

static void program_destroy(struct train_program *p)
{
    if (!p)
        return;
    exec_image_destroy(p->image);
    train_choice_fini(&p->choice);
    train_tables_fini(p);
    exec_program_destroy(p->exec);
    trace_destroy(p->trace);
    ebb_free(p->plain.ops);
    plan_homes_fini(&p->homes);
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
    if (e->stage)
        e->device->table->host_give(e->device, e->stage);
    ops_backend_destroy(e->below);
    ops_backend_destroy(e->backend);
    if (e->device)
        e->device->table->destroy(e->device);
    plan_homes_fini(&e->homes);
    ebb_free(e->is_table);
    profile_destroy(e->own_costs);
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

const char *train_engine_bits(const struct train_engine *e)
{
    return e->place.bits;
}

const struct profile *train_engine_costs(const struct train_engine *e)
{
    return e->options.costs ? e->options.costs : profile_builtin();
}

void train_engine_go_by(struct train_engine *e, const struct profile *costs)
{
    e->ways.profile = e->options.costs = costs;
}

const char *train_engine_identity(const struct train_engine *e)
{
    const struct kernel_table *k = e->place.kernels;
    return k->identity && !e->options.is_dry ? k->identity(e->backend) : "";
}

enum ebb_status train_engine_algorithms(struct train_engine *e, bool measures, kernel_row_sink *add,
                                        void *to, struct ebb_error *err)
{
    const struct kernel_table *k = e->place.kernels;
    return k->algorithms && !e->options.is_dry ? k->algorithms(e->backend, measures, add, to, err)
                                               : EBB_OK;
}

uint64_t train_engine_reserved(const struct train_engine *e)
{
    return e->device->table->reserve_bytes;
}

uint64_t train_engine_beside(const struct train_engine *e)
{
    const struct device_table *d = e->device->table;
    return d->beside_bytes ? d->beside_bytes(e->device) : 0;
}

bool train_engine_is_hidden(const struct train_engine *e)
{
    return !e->device->table->is_host_visible && !e->device->table->is_clock;
}

void *train_engine_host_take(struct train_engine *e, uint64_t bytes)
{
    return e->device->table->host_take(e->device, bytes);
}

void train_engine_host_give(struct train_engine *e, void *host)
{
    if (host)
        e->device->table->host_give(e->device, host);
}

/* ---- adding ---------------------------------------------------------------------------------- */

static enum ebb_status find_persistent(struct train_program *p, struct ebb_error *err)
{
    const struct trace *t = p->trace;
    p->base = ebb_alloc(((size_t)t->storage_count + 1) * sizeof *p->base);
    p->persistent = ebb_alloc(((size_t)t->storage_count + 1) * sizeof *p->persistent);
    if (!p->base || !p->persistent)
        return ebb_no_memory(err, t->storage_count * sizeof *p->base);
    EBB_TRY(plan_base_layout(t, NULL, p->base, &p->choice.info.persistent_bytes, err));
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

/* ---- where state lives ------------------------------------------------------------------------ */

/* The engine's homes are those of this program's plan. */
static enum ebb_status settle_by(struct train_engine *e, const struct train_program *p,
                                 struct ebb_error *err)
{
    EBB_TRY(plan_homes_copy(&e->homes, &train_plan_of(p)->homes, err));
    for (uint32_t leaf = 0, i = 0; leaf < p->persistent_count && i < e->homes.count; leaf++)
        if (train_leaf_storage(p, leaf) == e->homes.list[i].storage)
            e->homes.list[i++].storage = leaf;
    return EBB_OK;
}

/* The same homes under the numbers of this program. */
static enum ebb_status take_homes(const struct train_engine *e, struct train_program *p,
                                  struct ebb_error *err)
{
    EBB_TRY(plan_homes_copy(&p->homes, &e->homes, err));
    for (size_t i = 0; i < p->homes.count; i++)
        p->homes.list[i].storage = train_leaf_storage(p, p->homes.list[i].storage);
    return plan_base_layout(p->trace, &p->homes, p->base, &p->base_bytes, err);
}

/* The first program of an engine has its state where that is fastest; the others find it there. */
static enum ebb_status ways_of(const struct train_engine *e, struct train_program *p,
                               struct train_ways *ways, struct ebb_error *err)
{
    *ways = e->ways;
    ways->homes = &p->homes;
    ways->is_settled = p->is_settled;
    return train_tables_ways(p, ways, err);
}

/* What it is decided about. */
static const struct trace *trace_of(const struct train_program *p)
{
    return p->tables ? planner_tables_light(p->tables) : p->trace;
}

static void look_at(struct train_choice *c, const struct train_program *p)
{
    c->trace = trace_of(p);
    c->plain = p->plain.ops ? &p->plain : NULL;
    c->exec = p->tables ? p->light : p->exec;
}

static enum ebb_status decide(struct train_engine *e, struct train_program *p,
                              struct ebb_error *err)
{
    if (p->is_settled)
        EBB_TRY(take_homes(e, p, err));
    struct train_ways ways;
    EBB_TRY(ways_of(e, p, &ways, err));
    look_at(&p->choice, p);
    return p->tables ? train_tables_decide(e, p, &ways, err)
                     : train_choice_make(&ways, &p->choice, err);
}

/* Programs decided so far are decided again with as much state below as there is room for. */
static enum ebb_status settle_below(struct train_engine *e, struct train_program *newest,
                                    struct ebb_error *err)
{
    struct planner_tiers tiers = {.bytes = {0, e->ways.host_bytes, e->ways.file_bytes}};
    struct train_program *first = e->programs;
    while (first->next)
        first = first->next;
    EBB_TRY(first->tables ? train_tables_below(e, first, err)
                          : planner_homes(first->trace, &tiers, 1, PLANNER_SMALL_TOO,
                                          &first->choice.plan.homes, err));
    EBB_TRY(settle_by(e, first, err));
    newest->next = e->programs;
    for (struct train_program *p = newest; p; p = p->next) {
        train_choice_fini(&p->choice);
        train_choice_init(&p->choice);
        p->choice.info.persistent_bytes = first->choice.info.persistent_bytes;
        p->is_settled = true;
        EBB_TRY(decide(e, p, err));
    }
    return EBB_OK;
}

static enum ebb_status decide_all(struct train_engine *e, struct train_program *p,
                                  struct ebb_error *err)
{
    struct ebb_error why = {0};
    bool may_settle = e->programs && !e->is_reserved && (e->ways.host_bytes || e->ways.file_bytes);
    enum ebb_status status = decide(e, p, may_settle ? &why : err);
    if (status == EBB_EBUDGET && may_settle)
        status = settle_below(e, p, err);
    else if (status != EBB_OK && may_settle && err)
        *err = why;
    if (status == EBB_EBUDGET && p->choice.info.floor_bytes > e->needed_bytes)
        e->needed_bytes = p->choice.info.floor_bytes;
    if (!p->is_settled)
        EBB_THEN(status, settle_by(e, p, err));
    return status;
}

enum ebb_status train_engine_decide_again(struct train_engine *e, struct ebb_error *err)
{
    struct train_program *first = e->programs;
    while (first->next)
        first = first->next;
    plan_homes_fini(&e->homes);
    for (struct train_program *p = first;;) { /* in the order in which they were added */
        uint64_t bytes = p->choice.info.persistent_bytes;
        exec_image_destroy(p->image);
        p->image = NULL;
        train_choice_fini(&p->choice);
        train_choice_init(&p->choice);
        p->choice.info.persistent_bytes = bytes;
        p->is_settled = p != first;
        EBB_TRY(decide(e, p, err));
        if (p == first)
            EBB_TRY(settle_by(e, p, err));
        EBB_TRY(take_homes(e, p, err));
        struct train_program *newer = e->programs == p ? NULL : e->programs;
        while (newer && newer->next != p)
            newer = newer->next;
        if (!newer)
            return EBB_OK;
        p = newer;
    }
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

/* The trace gets measured times; those that are built in stay beside it. */
static enum ebb_status apply_costs(struct train_engine *e, struct train_program *p,
                                   struct ebb_error *err)
{
    const struct trace *seen = trace_of(p);
    struct trace_op *ops;
    EBB_TRY(ebb_new(&ops, (size_t)seen->op_count + 1, sizeof *ops, err));
    memcpy(ops, seen->ops, seen->op_count * sizeof *ops);
    p->plain = *seen;
    p->plain.ops = ops;
    exec_program_destroy(p->exec);
    p->exec = NULL;
    train_costs_apply(p->trace, e->options.costs);
    EBB_TRY(train_tables_reprice(p, err));
    return exec_program_create(&p->exec, p->trace, EXEC_EBB, err);
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
    train_choice_init(&p->choice);
    enum ebb_status status = find_persistent(p, err);
    p->is_settled = e->programs != NULL;
    if (status == EBB_OK && p->is_settled) {
        status = compare_persistent(e->programs, p, err);
        EBB_THEN(status, take_homes(e, p, err));
    }
    if (status == EBB_OK)
        status = exec_program_create(&p->exec, trace, EXEC_EBB, err);
    EBB_THEN(status, train_tables_make(e, p, err));
    if (e->options.costs)
        EBB_THEN(status, apply_costs(e, p, err));
    EBB_THEN(status, decide_all(e, p, err));
    EBB_THEN(status, take_homes(e, p, err));
    if (status == EBB_OK && e->is_reserved && p->choice.info.peak_bytes > e->slab_bytes)
        status = ebb_fail(err, EBB_EBUDGET, "%s needs %llu bytes, %llu are reserved", trace->name,
                          (unsigned long long)p->choice.info.peak_bytes,
                          (unsigned long long)e->slab_bytes);
    if (status != EBB_OK) {
        program_destroy(p);
        return status;
    }
    p->next = e->programs;
    e->programs = p;
    *program = p;
    return EBB_OK;
}

enum ebb_status train_engine_floor(struct train_engine *e, struct train_program *p,
                                   uint64_t *floor_bytes, struct ebb_error *err)
{
    struct train_choice free = {0};
    struct train_ways ways;
    EBB_TRY(ways_of(e, p, &ways, err));
    ways.is_settled = false;
    look_at(&free, p);
    enum ebb_status status =
        train_choice_floor(&ways, p->homes.count ? &free : &p->choice, floor_bytes, err);
    train_choice_fini(&free); /* with the least in tier 0 state may live elsewhere than now */
    return status;
}

/* What one run under the policy does; planners and the free choice have to make their plan. */
static enum ebb_status try_policy(const struct train_ways *w, struct train_choice *c,
                                  struct ebb_error *err)
{
    struct exec_options o = train_ways_options(w);
    EBB_TRY(exec_run(c->exec, &o, &c->info.report, err));
    if (c->info.report.result != EXEC_OK)
        return ebb_fail(err, EBB_EBUDGET, "%s", c->info.report.why);
    c->info.peak_bytes = c->info.report.peak_bytes;
    c->info.overhead = exec_overhead(&c->info.report);
    return EBB_OK;
}

enum ebb_status train_engine_predict(struct train_engine *e, struct train_program *p,
                                     uint64_t budget_bytes, const char *policy,
                                     struct train_program_info *info, struct ebb_error *err)
{
    struct train_ways ways, given;
    struct train_choice choice;
    uint64_t floor_bytes;
    EBB_TRY(ways_of(e, p, &ways, err));
    given = ways;
    train_ways_budget(&ways, budget_bytes);
    ways.is_online = true; /* those that are tried by name are policies */
    EBB_TRY(train_ways_name(&ways, policy, err));
    EBB_TRY(train_choice_floor(&given, &p->choice, &floor_bytes, err));
    choice = p->choice; /* the floor's plan is lent */
    choice.is_made = false;
    plan_init(&choice.plan);
    /* without a way to give memory back a policy is not asked: the floor's games are played */
    bool is_tried = ways.policy && !ways.is_free && ways.budget_bytes >= floor_bytes &&
                    train_ways_options(&ways).ways != 0;
    enum ebb_status status =
        is_tried ? try_policy(&ways, &choice, err) : train_choice_make(&ways, &choice, err);
    *info = choice.info;
    plan_fini(&choice.plan);
    return status;
}

/* The plan as it is, run on the null device. */
static enum ebb_status run_repriced(const struct train_engine *e, const struct train_program *p,
                                    const struct profile *profile, struct exec_report *report,
                                    struct ebb_error *err)
{
    struct train_ways ways = e->ways;
    struct exec_program *exec = NULL;
    ways.profile = profile;
    struct exec_options o = train_ways_options(&ways);
    o.plan = train_plan_of(p);
    o.policy = NULL;
    EBB_TRY(exec_program_create(&exec, p->trace, EXEC_EBB, err));
    enum ebb_status status = exec_run(exec, &o, report, err);
    exec_program_destroy(exec);
    return status;
}

enum ebb_status train_engine_reprice(struct train_engine *e, struct train_program *p,
                                     const struct profile *profile, double *overhead,
                                     struct ebb_error *err)
{
    uint64_t *kept;
    struct exec_report report;
    EBB_TRY(ebb_new(&kept, (size_t)p->trace->op_count + 1, sizeof *kept, err));
    for (uint32_t i = 0; i < p->trace->op_count; i++)
        kept[i] = p->trace->ops[i].cost_ns;
    train_costs_apply(p->trace, profile);
    enum ebb_status status = run_repriced(e, p, profile, &report, err);
    for (uint32_t i = 0; i < p->trace->op_count; i++)
        p->trace->ops[i].cost_ns = kept[i];
    ebb_free(kept);
    if (status == EBB_OK)
        *overhead = exec_overhead(&report);
    return status;
}

uint64_t train_engine_needed(const struct train_engine *e)
{
    return e->needed_bytes;
}

const struct train_program_info *train_program_info(const struct train_program *p)
{
    return &p->choice.info;
}

const struct trace *train_program_trace(const struct train_program *p)
{
    return p->trace;
}

const struct trace *train_program_near(const struct train_program *p)
{
    return trace_of(p);
}

const struct plan *train_program_plan(const struct train_program *p)
{
    return train_plan_of(p);
}

/* ---- running --------------------------------------------------------------------------------- */

/* The longest slab that is taken as it was asked for: of addresses beyond, the host would have no memory behind them; a
 * device with memory of its own knows how much it has. */
static uint64_t longest_slab(const struct train_engine *e)
{
    const struct device_table *d = e->device->table;
    if (e->options.is_dry)
        return TRACE_MAX_BYTES;
    if (!d->is_lazy && !d->is_host_visible)
        return UINT64_MAX - 1;
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? 2 * (uint64_t)pages * (uint64_t)size : UINT64_C(1) << 34;
}

enum ebb_status train_engine_reserve(struct train_engine *e, struct ebb_error *err)
{
    const struct device_table *d = e->device->table;
    if (e->is_reserved)
        return EBB_OK;
    if (e->refusal.status != EBB_OK) /* half of it is there: it stays so */
        return ebb_fail(err, e->refusal.status, "%s", e->refusal.message);
    uint64_t bytes = e->ways.budget_bytes;
    uint64_t most = longest_slab(e);
    if (bytes > most) {
        bytes = d->is_lazy || e->options.is_dry ? most : 0;
        for (const struct train_program *p = e->programs; p; p = p->next)
            bytes = p->choice.info.peak_bytes > bytes ? p->choice.info.peak_bytes : bytes;
    }
    const uint64_t tiers[DEVICE_TIERS] = {bytes, e->options.host_bytes, e->options.file_bytes};
    enum ebb_status status = EBB_OK;
    for (int k = DEVICE_T0; k < DEVICE_TIERS && status == EBB_OK; k++)
        if (k == DEVICE_T0 || tiers[k])
            status = d->reserve(e->device, (enum device_tier)k, tiers[k], &e->refusal);
    e->refusal.status = status;
    e->slab_bytes = bytes;
    e->is_reserved = status == EBB_OK;
    return status == EBB_OK ? EBB_OK : ebb_fail(err, status, "%s", e->refusal.message);
}

static enum ebb_status finish(void *backend, struct ebb_error *err)
{
    const struct kernel_table *kernels = ((const struct kernel_head *)backend)->table;
    return kernels->finish(backend, err);
}

/* What a kernel found wrong in its operands, where it could not say so at once. */
static enum ebb_status check_fault(const struct train_engine *e, const struct train_program *p,
                                   struct ebb_error *err)
{
    uint32_t fault =
        e->place.kernels->fault && !e->options.is_dry ? e->place.kernels->fault(e->backend) : 0;
    if (fault == 0)
        return EBB_OK;
    const struct trace_op *op = &p->trace->ops[fault - 1];
    const char *label = trace_label(p->trace, op);
    return ebb_fail(err, EBB_EINPUT, "op %u (%s%s%s): an index or a target is out of range",
                    fault - 1, op->kind->name, *label ? " " : "", label);
}

static enum ebb_status run_online(struct train_engine *e, struct train_program *p,
                                  const struct exec_options *o, struct exec_report *report,
                                  struct ebb_error *err)
{
    EBB_TRY(exec_run(p->exec, o, report, err));
    if (report->result != EXEC_OK)
        return ebb_fail(err, EBB_EBUDGET, "%s: %s", exec_result_text(report->result), report->why);
    return e->place.kernels->finish && !e->options.is_dry ? finish(e->backend, err) : EBB_OK;
}

enum ebb_status train_engine_run(struct train_engine *e, struct train_program *p,
                                 const struct exec_io *io, struct exec_log *log,
                                 struct exec_report *report, struct ebb_error *err)
{
    static const struct exec_io nothing = {0};
    struct exec_options o = train_ways_options(&e->ways);
    EBB_TRY(train_engine_reserve(e, err));
    io = io ? io : &nothing;
    o.device = e->device;
    o.finish = e->place.kernels->finish && !e->options.is_dry ? finish : NULL;
    if (e->options.is_online && e->ways.policy && !e->ways.is_free && !p->choice.info.is_fallback &&
        !p->tables && e->ways.budget_bytes < p->choice.info.unlimited_bytes) {
        o.io = io;
        o.log = log;
        EBB_TRY(run_online(e, p, &o, report, err));
        EBB_TRY(e->device->table->sync(e->device, err));
        return check_fault(e, p, err);
    }
    if (!p->image) {
        EBB_TRY(exec_image_create(&p->image, p->exec, train_plan_of(p), &o, err));
        ebb_heap_trim(); /* of what planning took: the reserve is small */
    }
    EBB_TRY(exec_image_run(p->image, io, log, report, err));
    return check_fault(e, p, err);
}
