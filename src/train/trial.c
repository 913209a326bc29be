/* trial.c - a trial is made, looked at and ended. Running is in run.c, validation in validate.c,
 * checkpoints in checkpoint.c, the bytes of weights and states in slots.c. */
#include "train/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "mem/mem.h"
#include "train/costs.h"
#include "train/ports.h"

/* ---- programs ------------------------------------------------------------------------------- */

#define RANGE_ON_CPU (INT64_C(1) << 20) /* elements of a moment that come and go together */
#define RANGE_ON_DEVICE (INT64_C(1) << 24)

static enum ebb_status build_step(struct train_trial *t, enum train_program_kind kind,
                                  int64_t batch, struct train_step *step, struct ebb_error *err)
{
    struct train_step_options o = {.kind = kind,
                                   .batch = batch,
                                   .config = &t->config,
                                   .net = &t->net,
                                   .backend = train_engine_backend(t->engine),
                                   .has_gradients = t->has_gradients,
                                   .is_scaled = t->is_scaled && kind != TRAIN_EVAL,
                                   .wants_scores = t->options.wants_classes,
                                   .is_mixed = t->info && t->info->mixup_field,
                                   .byte_inputs = t->byte_inputs,
                                   .range = t->config.chunk > 0 ? t->config.chunk
                                            : strcmp(train_engine_bits(t->engine), "cpu") == 0
                                                ? RANGE_ON_CPU
                                                : RANGE_ON_DEVICE,
                                   .micro = kind == TRAIN_APPLY ? &t->main : NULL};
    return train_step_build(&t->arena, &o, step, err);
}

/* A refusal waits until all programs were asked: the floor is that of the largest. */
static enum ebb_status add_step(struct train_trial *t, struct train_step *step,
                                struct ebb_error *err)
{
    struct trace *trace = step->trace;
    struct ebb_error why = {0};
    uint64_t begin = ebb_clock_ns();
    step->trace = NULL; /* the engine's from here on, whatever happens */
    enum ebb_status status = train_engine_add(t->engine, trace, &step->program, &why);
    t->plan_ns += ebb_clock_ns() - begin;
    uint64_t needed = train_engine_needed(t->engine);
    if (status == EBB_EBUDGET && needed > 0) {
        if (needed > t->floor_bytes)
            t->refusal = why;
        t->floor_bytes = needed;
        return EBB_OK;
    }
    if (status != EBB_OK && err)
        *err = why;
    return status;
}

/* Which field is which; where one has bytes for an input of numbers, the step begins with them. */
static enum ebb_status match_data(struct train_trial *t, struct ebb_error *err)
{
    EBB_TRY(train_ports_match(&t->main, t->info, t->input_fields, t->target_fields, err));
    for (size_t i = 0; i < t->main.input_count; i++)
        if (t->input_fields[i] >= 0 && t->info->fields[t->input_fields[i]].dtype == DATA_U8)
            t->byte_inputs |= 1u << i;
    if (!t->byte_inputs)
        return EBB_OK;
    trace_destroy(t->main.trace);
    t->main.trace = NULL;
    return build_step(t, t->main.kind, t->config.batch_size, &t->main, err);
}

static enum ebb_status make_evaluation(struct train_trial *t, struct ebb_error *err)
{
    int64_t batch = t->config.eval_batch ? t->config.eval_batch : t->config.batch_size;
    if (t->set && t->validation_count < (uint64_t)batch)
        batch = (int64_t)t->validation_count;
    EBB_TRY(build_step(t, TRAIN_EVAL, batch, &t->eval, err));
    EBB_TRY(add_step(t, &t->eval, err));
    t->has_eval = true;
    int64_t rest = t->set ? (int64_t)(t->validation_count % (uint64_t)batch) : 0;
    if (rest == 0)
        return EBB_OK;
    EBB_TRY(build_step(t, TRAIN_EVAL, rest, &t->rest, err));
    EBB_TRY(add_step(t, &t->rest, err));
    t->has_rest = true;
    return EBB_OK;
}

/* Nothing is trained: state lies where evaluation has it, which needs no more memory than that. */
static enum ebb_status evaluate_only(struct train_trial *t, struct ebb_error *err)
{
    if (t->set && t->validation_count == 0)
        return ebb_fail(err, EBB_EINPUT, "the data have no validation split: nothing is measured");
    EBB_TRY(make_evaluation(t, err));
    t->main.slots = t->eval.slots;
    t->main.program = t->eval.program;
    return EBB_OK;
}

static enum ebb_status make_programs(struct train_trial *t, struct ebb_error *err)
{
    int64_t batch = t->config.batch_size;
    EBB_TRY(build_step(t, t->has_gradients ? TRAIN_MICRO : TRAIN_STEP, batch, &t->main, err));
    bool wants = train_ports_want_data(&t->main);
    if (wants && t->set)
        EBB_TRY(match_data(t, err));
    else if (wants && !t->options.is_dry && !t->options.makes_data)
        return ebb_fail(err, EBB_EINPUT, "model %s needs data: the section 'data' is missing",
                        t->net.model->name);
    else if (!wants && t->set)
        return ebb_fail(err, EBB_EINPUT,
                        "model %s makes its own inputs: the section 'data' has no use",
                        t->net.model->name);
    if (!wants && t->config.schedule_name && t->config.interval == TRAIN_PER_EPOCH)
        return ebb_fail(err, EBB_EINPUT,
                        "lr_schedule.interval: epoch: model %s makes its own inputs, which have no "
                        "epochs; allowed: update",
                        t->net.model->name);
    if (t->options.only_validates)
        return evaluate_only(t, err);
    train_machine_judge(t);
    EBB_TRY(add_step(t, &t->main, err));
    if (t->options.is_repeated)
        return EBB_OK;
    if (t->tail_batch) {
        EBB_TRY(build_step(t, t->main.kind, t->tail_batch, &t->tail, err));
        EBB_TRY(add_step(t, &t->tail, err));
    }
    if (t->has_gradients) {
        EBB_TRY(build_step(t, TRAIN_APPLY, 1, &t->apply, err));
        EBB_TRY(add_step(t, &t->apply, err));
        t->has_apply = true;
    }
    if ((t->set && t->validation_count == 0) || (wants && !t->set && t->options.is_dry))
        return EBB_OK;
    return make_evaluation(t, err);
}

/* ---- life ----------------------------------------------------------------------------------- */

static enum ebb_status make_schedule(struct train_trial *t, struct ebb_error *err)
{
    const struct train_config *c = &t->config;
    if (!c->schedule_name)
        return EBB_OK;
    EBB_TRY(optim_schedule_create(&t->schedule, c->schedule_name, c->schedule, c->optim.lr, err));
    for (size_t g = 0; g < c->group_count; g++)
        if (isfinite(c->groups[g].lr))
            EBB_TRY(optim_schedule_create(&t->group_schedules[g], c->schedule_name, c->schedule,
                                          c->groups[g].lr, err));
    return EBB_OK;
}

/* Weights of model.init_from, over the initial ones. */
static enum ebb_status take_init(struct train_trial *t, struct ebb_error *err)
{
    const struct train_init *init = t->config.init;
    const char *folder = t->config.directory;
    if (!init)
        return EBB_OK;
    struct train_init found = *init;
    if (folder && *init->path != '/')
        found.path = ebb_arena_printf(&t->arena, "%s/%s", folder, init->path);
    if (!found.path)
        return ebb_no_memory(err, strlen(init->path));
    enum ebb_status status = train_trial_import(t, &found, NULL, err);
    return status == EBB_OK ? status : ebb_context(err, status, "model.init_from");
}

uint64_t train_machine_bytes(uint64_t known)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    if (known)
        return known;
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
}

/* Promised memory that is not there ends a process without a word: say it before. */
static enum ebb_status check_machine(const struct train_trial *t, struct ebb_error *err)
{
    uint64_t have = train_machine_bytes(t->options.machine_bytes);
    uint64_t needed = train_engine_accounted(t->engine); /* host memory is of the same machine */
    char needs[32], has[32];
    if (needed <= have)
        return EBB_OK;
    ebb_format_bytes(needed, needs, sizeof needs);
    ebb_format_bytes(have, has, sizeof has);
    return ebb_fail(err, EBB_ENOMEM,
                    "model %s takes %s in this training, the machine has %s: give a memory budget "
                    "('ebb explain' tells the least that is possible)%s",
                    t->net.model->name, needs, has,
                    t->config.host_bytes ? ", less of memory.host, or room in memory.file" : "");
}

/* Budget and host as parts of the machine. */
void train_take_ratios(struct train_config *c, uint64_t machine_bytes)
{
    double have = (double)train_machine_bytes(machine_bytes);
    if (c->wishes.gpu_ratio > 0)
        c->budget_bytes = (uint64_t)(have * c->wishes.gpu_ratio);
    if (c->wishes.cpu_ratio > 0)
        c->host_bytes = (uint64_t)(have * c->wishes.cpu_ratio) / PLAN_UNIT * PLAN_UNIT;
}

struct train_engine_options train_engine_asked(const struct train_config *c)
{
    return (struct train_engine_options){.budget_bytes = c->budget_bytes,
                                         .host_bytes = c->host_bytes,
                                         .file_bytes = c->file_bytes,
                                         .file_path = c->file_path,
                                         .link = c->link,
                                         .wishes = c->wishes,
                                         .policy = c->policy,
                                         .rewrites = c->rewrites,
                                         .device = c->device,
                                         .threads = c->threads,
                                         .seed = c->seed};
}

static enum ebb_status make(struct train_trial *t, struct ebb_error *err)
{
    train_take_ratios(&t->config, t->options.machine_bytes);
    const struct train_config *c = &t->config;
    struct train_engine_options o = train_engine_asked(c);
    o.is_dry = t->options.is_dry;
    o.is_online = t->options.is_online;
    o.samples = t->options.samples;
    o.ignores_small = t->options.ignores_small;
    const struct mem_policy *policy = c->policy ? mem_policy_find(c->policy) : NULL;
    if (policy && mem_policy_needs_tier(policy) && !c->host_bytes && !c->file_bytes)
        return ebb_fail(err, EBB_EINPUT,
                        "memory.policy: %s copies to lower tiers: give memory.host or memory.file",
                        policy->name);
    if (c->costs)
        EBB_TRY(profile_load(c->costs, &t->costs, err));
    o.costs = t->costs;
    EBB_TRY(train_machine_recall(t, err));
    t->is_warm = c->wishes.has_warmup && !c->wishes.is_static && !t->options.is_dry;
    t->is_scaled = c->precision == TRAIN_FP16;
    t->has_gradients = c->accumulate > 1 || t->is_scaled || t->options.is_repeated ||
                       c->wishes.gradients == TRAIN_GRADIENTS_SEPARATE;
    optim_scaler_grad(&t->scaler);
    train_loss_weights(c->loss, t->class_weights, TRAIN_MAX_WEIGHTS);
    EBB_TRY(make_schedule(t, err));
    EBB_TRY(train_open_data(t, err));
    EBB_TRY(nn_config_check(&t->net, err));
    EBB_TRY(train_engine_create(&t->engine, &o, err));
    if (t->set)
        EBB_TRY(train_open_loader(t, err));
    EBB_TRY(make_programs(t, err));
    if (t->refusal.status != EBB_OK) {
        if (t->options.needed_bytes)
            *t->options.needed_bytes = t->floor_bytes;
        if (err)
            *err = t->refusal;
        return EBB_EBUDGET;
    }
    if (t->options.is_dry)
        return EBB_OK;
    EBB_TRY(check_machine(t, err));
    if (c->wishes.monitor == TRAIN_ON || c->wishes.tracer_monitor == TRAIN_ON) {
        EBB_TRY(train_reserve_recall(t, err));
        EBB_TRY(train_monitor_start(&t->monitor, err));
    }
    EBB_TRY(train_engine_reserve(t->engine, err));
    if (t->is_warm)
        EBB_TRY(train_engine_can_lift(t->engine, err));
    if (t->set)
        EBB_TRY(train_stage(t, err));
    EBB_TRY(train_slots_begin(t, err));
    EBB_TRY(take_init(t, err));
    return train_begin_averages(t, err);
}

enum ebb_status train_trial_create(struct train_trial **trial, const struct train_config *config,
                                   const struct train_options *options, struct ebb_error *err)
{
    struct train_trial *t;
    EBB_TRY(ebb_new(&t, 1, sizeof *t, err));
    ebb_arena_init(&t->arena);
    t->config = *config;
    t->net = *config->net;
    if (options)
        t->options = *options;
    else
        t->options.workers = -1;
    for (size_t i = 0; i < NN_PORTS; i++)
        t->input_fields[i] = t->target_fields[i] = -1;
    enum ebb_status status = make(t, err);
    return EBB_HAND_OUT(status, trial, t, train_trial_destroy);
}

void train_trial_destroy(struct train_trial *t)
{
    uint64_t next;
    if (!t)
        return;
    (void)train_trial_remember(t, &next, NULL); /* whoever wants to know asked before */
    train_monitor_stop(t->monitor);
    train_recall(t);
    data_loader_destroy(t->loader);
    data_close(t->set);
    train_unstage(t);
    trace_destroy(t->main.trace);
    trace_destroy(t->apply.trace);
    trace_destroy(t->tail.trace);
    trace_destroy(t->eval.trace);
    trace_destroy(t->rest.trace);
    train_engine_destroy(t->engine);
    ebb_free(t->halves);
    profile_destroy(t->costs);
    optim_schedule_destroy(t->schedule);
    for (size_t g = 0; g < TRAIN_GROUPS; g++)
        optim_schedule_destroy(t->group_schedules[g]);
    for (size_t i = 0; i < 2 * NN_PORTS; i++)
        ebb_free(t->made[i]);
    for (size_t i = 0; t->begun && i < t->main.slot_count; i++)
        ebb_free(t->begun[i]);
    ebb_free(t->begun);
    ebb_free(t->history);
    ebb_free(t->confusion_counts);
    ebb_arena_fini(&t->arena);
    ebb_free(t);
}

/* ---- looking -------------------------------------------------------------------------------- */

bool train_trial_has_validation(const struct train_trial *t)
{
    return t->has_eval;
}

const struct train_confusion *train_trial_confusion(const struct train_trial *t)
{
    return t->confusion_counts && t->confusion.classes ? &t->confusion : NULL;
}

bool train_trial_watch(struct train_trial *t, enum train_watch which, double metric,
                       bool smaller_is_better)
{
    double best = t->watches[which].best;
    bool is_best = isfinite(metric) && (!t->watches[which].has_best ||
                                        (smaller_is_better ? metric < best : metric > best));
    t->watches[which].since = is_best ? 0 : t->watches[which].since + 1;
    if (is_best) {
        t->watches[which].best = metric;
        t->watches[which].has_best = true;
    }
    return is_best;
}

int64_t train_trial_since_best(const struct train_trial *t, enum train_watch which)
{
    return t->watches[which].since;
}

bool train_trial_is_whole(const struct train_trial *t)
{
    return !t->is_torn;
}

int64_t train_trial_updates(const struct train_trial *t)
{
    return t->updates;
}

const struct trace *train_trial_trace(const struct train_trial *t)
{
    return train_program_trace(t->main.program);
}

/* Anonymous memory of this process; 0: unknown. */
static uint64_t anonymous_bytes(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %llu kB", &kib) == 1)
            break;
    fclose(file);
    return (uint64_t)kib * 1024;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t median(const struct train_trial *t)
{
    uint64_t sorted[TRAIN_TIMES];
    size_t n = t->time_count < TRAIN_TIMES ? t->time_count : TRAIN_TIMES;
    if (n == 0)
        return 0;
    memcpy(sorted, t->times, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_number);
    return sorted[n / 2];
}

static void tell_sight(const struct train_trial *t, struct train_state *state)
{
    struct train_sight sight;
    train_monitor_look(t->monitor, &sight);
    state->observed_bytes = sight.observed_bytes;
    state->accounted_bytes = sight.accounted_bytes;
    state->beyond_bytes = sight.beyond_bytes;
    state->samples = sight.samples;
    state->beyond_update = sight.update;
    state->allowed_bytes = t->allowed_bytes;
    state->reserve_file = t->reserve_file;
    if (sight.trace && sight.op < sight.trace->op_count) {
        state->beyond_op = sight.trace->ops[sight.op].kind->name;
        state->beyond_label = trace_label(sight.trace, &sight.trace->ops[sight.op]);
    }
}

uint64_t train_accounted_bytes(const struct train_trial *t)
{
    struct data_stats stats = {0};
    if (t->loader)
        data_loader_stats(t->loader, &stats);
    return train_engine_accounted(t->engine) + stats.private_bytes + t->staging_bytes +
           (t->info ? t->info->resident_bytes : 0);
}

const char *train_trial_bad_sample(const struct train_trial *t, size_t i)
{
    return data_bad_name(t->set, i);
}

static uint64_t predicted_ns(const struct train_program_info *info)
{
    const struct exec_report *r = &info->report;
    return r->device_ns > r->clock_ns ? r->device_ns : r->clock_ns;
}

void train_trial_state(const struct train_trial *t, struct train_state *state)
{
    const struct train_program_info *main = train_program_info(t->main.program);
    const struct train_step *steps[] = {&t->main, &t->tail, &t->apply, &t->eval, &t->rest};
    struct data_stats stats = {0};
    memset(state, 0, sizeof *state);
    state->updates = t->updates;
    state->batches = t->batches;
    state->epoch = t->epoch;
    state->batches_per_epoch = t->epoch_batches;
    state->budget_bytes = t->config.budget_bytes;
    state->floor_bytes = t->floor_bytes ? t->floor_bytes : main->floor_bytes;
    state->persistent_bytes = main->persistent_bytes;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const struct train_program_info *info =
            steps[i]->program ? train_program_info(steps[i]->program) : NULL;
        if (info && info->unlimited_bytes > state->unlimited_bytes)
            state->unlimited_bytes = info->unlimited_bytes;
        if (info && info->peak_bytes > state->peak_bytes)
            state->peak_bytes = info->peak_bytes;
    }
    if (t->total.peak_bytes > state->peak_bytes)
        state->peak_bytes = t->total.peak_bytes;
    state->evictions = t->total.evictions_pressure;
    state->remat_ops = t->total.remat_ops;
    state->host_ops = t->total.host_ops;
    state->swapped_bytes = t->total.swapped_bytes;
    state->stall_ns = t->total.stall_ns;
    bool goes_by = train_engine_costs(t->engine) == t->costs;
    state->costs = !goes_by ? NULL : t->config.costs ? t->config.costs : t->machine_costs;
    state->machine_costs = t->machine_costs;
    state->machine_known = t->machine_known;
    state->predicted_ns = (uint64_t)t->config.accumulate * predicted_ns(main);
    if (t->has_apply)
        state->predicted_ns += predicted_ns(train_program_info(t->apply.program));
    state->run_updates = (int64_t)t->time_count;
    state->overhead = main->overhead;
    state->below_bytes = train_engine_below(t->engine);
    state->warm_below_bytes = t->warm_bytes;
    state->plan_ns = t->plan_ns;
    state->how = main->how;
    state->is_fallback = main->is_fallback;
    state->threads = train_engine_threads(t->engine);
    state->parameters = (int64_t)t->main.parameters;
    state->update_ns = median(t);
    state->wait_ns = t->wait_ns;
    state->busy_ns = t->busy_ns;
    state->skipped = t->skipped;
    state->bad_samples = data_bad_count(t->set);
    state->loss_scale = t->is_scaled ? t->scaler.scale : 1;
    if (t->loader)
        train_loader_stats(t, &stats);
    state->buffer_bytes =
        stats.private_bytes + t->staging_bytes + (t->info ? t->info->resident_bytes : 0);
    if (t->monitor)
        tell_sight(t, state);
    state->device_reserve_bytes = train_engine_reserved(t->engine);
    state->device_beside_bytes = train_engine_beside(t->engine);
    uint64_t anonymous = anonymous_bytes(), planned = train_engine_accounted(t->engine);
    state->reserve_bytes = anonymous > planned ? anonymous - planned : 0;
}

enum ebb_status train_trial_floor(struct train_trial *t, uint64_t *floor_bytes,
                                  struct ebb_error *err)
{
    struct train_step *steps[] = {&t->main, &t->tail, &t->apply, &t->eval, &t->rest};
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !t->floor_bytes; i++) {
        uint64_t bytes = 0;
        if (!steps[i]->program)
            continue;
        EBB_TRY(train_engine_floor(t->engine, steps[i]->program, &bytes, err));
        if (bytes > most)
            most = bytes;
    }
    if (!t->floor_bytes) {
        t->floor_bytes = most;
        ebb_heap_trim();
    }
    *floor_bytes = t->floor_bytes;
    return EBB_OK;
}

/* ---- only the trace ------------------------------------------------------------------------- */

enum ebb_status train_trace_from_config(const struct train_config *config, struct trace **trace,
                                        struct ebb_error *err)
{
    struct train_trial t = {.config = *config, .net = *config->net, .options = {.is_dry = true}};
    struct train_engine_options o = {.budget_bytes = UINT64_MAX,
                                     .threads = config->threads,
                                     .rewrites = config->rewrites,
                                     .device = config->device,
                                     .is_dry = true};
    ebb_arena_init(&t.arena);
    t.is_scaled = config->precision == TRAIN_FP16;
    t.has_gradients = config->accumulate > 1 || t.is_scaled ||
                      config->wishes.gradients == TRAIN_GRADIENTS_SEPARATE;
    enum ebb_status status = train_open_data(&t, err);
    EBB_THEN(status, nn_config_check(&t.net, err));
    if (config->costs)
        EBB_THEN(status, profile_load(config->costs, &t.costs, err));
    o.costs = t.costs;
    EBB_THEN(status, train_engine_create(&t.engine, &o, err));
    EBB_THEN(status, build_step(&t, t.has_gradients ? TRAIN_MICRO : TRAIN_STEP, config->batch_size,
                                &t.main, err));
    if (status == EBB_OK) {
        *trace = t.main.trace;
        train_costs_apply(*trace, train_engine_costs(t.engine));
    }
    data_close(t.set);
    train_engine_destroy(t.engine);
    profile_destroy(t.costs);
    ebb_arena_fini(&t.arena);
    return status;
}
