/* run.c - one batch after another: inputs in, programs run, losses out. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/rng.h"
#include "train/costs.h"
#include "train/ports.h"
#include "train/trial.h"

/* ---- inputs and results of one run ---------------------------------------------------------- */

/* Random content of a port: element e is word e % 4 of block e / 4. */
static void make_port(const struct train_pass *p, const struct nn_port *port, int64_t classes,
                      uint32_t which, void *bytes, uint64_t count)
{
    uint64_t seed = p->trial->config.seed;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, word[4] = {0};
    bool is_float = port->view.dtype == TENSOR_F32;
    uint64_t n = count / (is_float ? sizeof(float) : sizeof(int64_t));
    for (uint64_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            ebb_philox(key,
                       (uint32_t[4]){(uint32_t)(i / 4), (uint32_t)p->number,
                                     (uint32_t)(p->number >> 32), which},
                       word);
        if (is_float)
            ((float *)bytes)[i] = (float)(word[i % 4] >> 8) * 0x1p-24f;
        else
            ((int64_t *)bytes)[i] =
                port->kind == NN_MASK ? 1 : (int64_t)(word[i % 4] % (uint64_t)classes);
    }
}

static int64_t token_range(const struct train_trial *t, const struct nn_port *port)
{
    int64_t n = strcmp(port->name, "segments") == 0 ? 2 : nn_config_int(&t->net, "vocabulary", 0);
    return n > 0 ? n : 2;
}

/* Classes of samples are drawn, so that no class is meant by the first one. */
static void fill_ones(const struct train_pass *p, const struct nn_port *port, void *bytes,
                      uint64_t count)
{
    bool is_float = port->view.dtype == TENSOR_F32;
    if (port->view.dtype == TENSOR_U8) { /* the largest byte is 1 */
        memset(bytes, 255, count);
        return;
    }
    uint64_t n = count / (is_float ? sizeof(float) : sizeof(int64_t));
    int64_t classes = 0, one = 1;
    for (size_t i = 0; i < p->step->target_count; i++)
        if (port == &p->step->targets[i] && port->kind == NN_CLASSES && port->view.rank == 1)
            classes = p->step->target_classes[i];
    if (classes > 0)
        one = (int64_t)(p->trial->config.seed % (uint64_t)classes);
    for (uint64_t i = 0; i < n; i++)
        if (is_float)
            ((float *)bytes)[i] = 1;
        else
            ((int64_t *)bytes)[i] = one;
}

#define FILL_THREADS 8 /* more do not make the memory faster */

static void fill_port(struct train_pass *p, const struct nn_port *port, int field, void *bytes,
                      uint64_t count)
{
    struct train_trial *t = p->trial;
    int threads = train_engine_threads(t->engine);
    if (p->is_ones)
        fill_ones(p, port, bytes, count);
    else if (field >= 0)
        train_port_fill(port, &t->info->fields[field], t->fields[field], bytes, count,
                        threads < FILL_THREADS ? threads : FILL_THREADS);
    else if (port->is_generated)
        nn_generate(&t->net, port, t->config.seed, p->number, bytes);
    else
        memset(bytes, 0, count); /* states that are not carried over */
}

static void fill_input(struct train_pass *p, size_t i, void *bytes, uint64_t count)
{
    const struct nn_port *port = &p->step->inputs[i];
    if (p->trial->options.makes_data && !port->is_generated && port->kind != NN_STATE)
        make_port(p, port, token_range(p->trial, port), (uint32_t)i, bytes, count);
    else
        fill_port(p, port, p->trial->input_fields[i], bytes, count);
}

static void fill_target(struct train_pass *p, size_t i, void *bytes, uint64_t count)
{
    const struct train_step *st = p->step;
    i -= NN_PORTS;
    if (p->trial->options.makes_data && !st->targets[i].is_generated)
        make_port(p, &st->targets[i], st->target_classes[i], NN_PORTS + (uint32_t)i, bytes, count);
    else
        fill_port(p, &st->targets[i], p->trial->target_fields[i], bytes, count);
}

/* Repetitions read the same batch: it is made once, so that making it is no part of a measurement. */
static enum ebb_status fill_once(struct train_pass *p, size_t which,
                                 void (*make)(struct train_pass *, size_t, void *, uint64_t),
                                 void *bytes, uint64_t count, struct ebb_error *err)
{
    void **made = &p->trial->made[which];
    if (p->trial->options.is_repeated && !*made) {
        EBB_TRY(ebb_new(made, 1, (size_t)count, err));
        make(p, which, *made, count);
    }
    if (*made)
        memcpy(bytes, *made, count);
    else
        make(p, which, bytes, count);
    return EBB_OK;
}

static enum ebb_status fill(void *context, uint32_t tensor, void *bytes, uint64_t count,
                            struct ebb_error *err)
{
    struct train_pass *p = context;
    const struct train_step *st = p->step;
    for (size_t i = 0; i < st->input_count; i++)
        if (st->input_ids[i] == tensor)
            return fill_once(p, i, fill_input, bytes, count, err);
    for (size_t i = 0; i < st->target_count; i++)
        if (st->target_ids[i] == tensor)
            return fill_once(p, NN_PORTS + i, fill_target, bytes, count, err);
    for (size_t g = 0; g <= p->trial->config.group_count; g++) {
        const float *from = tensor == st->scalars_id[g] ? p->scalars[g]
                            : tensor == st->bare_id[g]  ? p->bare[g]
                                                        : NULL;
        if (from && count == sizeof p->scalars[g]) {
            memcpy(bytes, from, count);
            return EBB_OK;
        }
    }
    if (tensor == st->average_id && count == sizeof p->average)
        memcpy(bytes, p->average, count);
    else if (tensor == st->step_id && count == sizeof p->number)
        memcpy(bytes, &p->number, count);
    else if (tensor == st->scale_id && count == sizeof p->scale)
        memcpy(bytes, &p->scale, count);
    else if (tensor == st->weights_id && count <= sizeof p->trial->class_weights)
        memcpy(bytes, p->trial->class_weights, count);
    else
        return ebb_fail(err, EBB_EINTERNAL, "input %u of the step, %" PRIu64 " bytes, is unknown",
                        tensor, count);
    return EBB_OK;
}

/* The field of a port, where the step reads it as the loader leaves it: a device copies from there. */
static const void *staged(const struct train_trial *t, const struct nn_port *port, int field,
                          uint64_t count)
{
    if (field < 0 || port->is_generated)
        return NULL;
    const struct data_field *f = &t->info->fields[field];
    bool is_same =
        tensor_dtype_bytes((enum tensor_dtype)port->view.dtype) == data_dtype_bytes(f->dtype);
    return is_same && count % f->bytes == 0 ? t->fields[field] : NULL;
}

static const void *lend(void *context, uint32_t tensor, uint64_t count)
{
    const struct train_pass *p = context;
    const struct train_trial *t = p->trial;
    const struct train_step *st = p->step;
    if (t->options.makes_data || t->options.is_repeated || p->is_ones || !t->info)
        return NULL;
    for (size_t i = 0; i < st->input_count; i++)
        if (st->input_ids[i] == tensor)
            return staged(t, &st->inputs[i], t->input_fields[i], count);
    for (size_t i = 0; i < st->target_count; i++)
        if (st->target_ids[i] == tensor)
            return staged(t, &st->targets[i], t->target_fields[i], count);
    return NULL;
}

static enum ebb_status take(void *context, uint32_t tensor, const void *bytes, uint64_t count,
                            struct ebb_error *err)
{
    struct train_pass *p = context;
    const struct train_step *st = p->step;
    float value = 0;
    (void)err;
    if (tensor == st->answer_id && p->answer)
        p->answer(p->answer_context, st, bytes);
    if (count < sizeof value)
        return EBB_OK;
    memcpy(&value, bytes, sizeof value);
    if (tensor == st->loss_id)
        p->loss = (double)value;
    if (tensor == st->part_id)
        p->part = (double)value;
    if (tensor == st->norm_id)
        p->norm = (double)value;
    for (size_t i = 0; i < st->metric_count; i++)
        if (tensor == st->metric_ids[i])
            p->metrics[i] = (double)value;
    return EBB_OK;
}

static void timed(void *context, uint32_t op, uint64_t ns)
{
    const struct train_pass *p = context;
    if (p->op_ns && p->op_ns[op] == 0)
        p->op_ns[op] = ns;
    else if (!p->op_ns)
        train_times_add(p->trial->options.times, train_program_trace(p->step->program), op, ns);
}

enum ebb_status train_pass_run(struct train_pass *pass, struct exec_report *report,
                               struct ebb_error *err)
{
    struct exec_io io = {
        .context = pass, .fill = fill, .lend = lend, .read = take, .measures = pass->measures};
    /* the first update warms up */
    if (pass->op_ns || (pass->trial->options.times && pass->trial->updates > 0))
        io.timed = timed;
    pass->loss = pass->part = pass->norm = NAN;
    struct train_trial *t = pass->trial;
    uint64_t accounted = t->monitor ? train_accounted_bytes(t) : 0;
    if (t->monitor) {
        io.now = train_monitor_op(t->monitor);
        train_monitor_tell(t->monitor, train_program_trace(pass->step->program), accounted,
                           t->updates + 1);
    }
    enum ebb_status status =
        train_engine_run(t->engine, pass->step->program, &io, NULL, report, err);
    if (t->monitor)
        train_monitor_tell(t->monitor, NULL, accounted, t->updates + 1);
    return status;
}

/* ---- rates ---------------------------------------------------------------------------------- */

/* Steps of the schedule so far: it begins when the warm-up has ended. */
static int64_t schedule_step(const struct train_trial *t)
{
    int64_t warm = t->updates - t->config.warmup;
    return t->config.interval == TRAIN_PER_EPOCH ? t->epoch : warm > 0 ? warm : 0;
}

/* During the warm-up a rate grows by equal steps to the one that the schedule begins with. */
static enum ebb_status rate_of(const struct train_trial *t, double base,
                               const struct optim_schedule *schedule, double *rate,
                               struct ebb_error *err)
{
    *rate = base;
    if (schedule)
        EBB_TRY(optim_schedule_rate(schedule, schedule_step(t), rate, err));
    if (t->updates < t->config.warmup)
        *rate *= (double)(t->updates + 1) / (double)t->config.warmup;
    return EBB_OK;
}

/* The rate of the next update. */
static enum ebb_status next_rate(const struct train_trial *t, double *rate, struct ebb_error *err)
{
    return rate_of(t, t->config.optim.lr, t->schedule, rate, err);
}

enum ebb_status train_trial_lasts(const struct train_trial *t, int64_t updates,
                                  struct ebb_error *err)
{
    double rate;
    int64_t last = updates - 1, batches = t->config.accumulate;
    if (!t->schedule || updates <= t->updates)
        return EBB_OK;
    if (t->config.interval != TRAIN_PER_EPOCH)
        last = last > t->config.warmup ? last - t->config.warmup : 0;
    else if (t->config.drops_leftover && t->epoch_batches >= batches)
        last /= t->epoch_batches / batches;
    else /* of the batch that ends the last update */
        last = t->epoch_batches && last < INT64_MAX / batches - 1
                   ? ((last + 1) * batches - 1) / t->epoch_batches
                   : 0;
    return optim_schedule_rate(t->schedule, last, &rate, err);
}

enum ebb_status train_tell_metric(struct train_trial *t, double metric, struct ebb_error *err)
{
    if (!t->schedule)
        return EBB_OK;
    EBB_TRY(
        ebb_grow(&t->history, &t->history_capacity, t->history_count + 1, sizeof *t->history, err));
    t->history[t->history_count++] = metric;
    optim_schedule_metric(t->schedule, metric);
    for (size_t g = 0; g < TRAIN_GROUPS; g++)
        if (t->group_schedules[g])
            optim_schedule_metric(t->group_schedules[g], metric);
    return EBB_OK;
}

/* Scalars of the next update. Counts it. */
static enum ebb_status begin_update(struct train_trial *t, struct train_pass *pass, double *rate,
                                    struct ebb_error *err)
{
    const struct train_config *c = &t->config;
    struct optim_config optim = c->optim;
    struct optim_count next = t->count;
    double momentum;
    EBB_TRY(next_rate(t, rate, err));
    if (t->schedule && optim_schedule_momentum(t->schedule, schedule_step(t), &momentum))
        optim_set_momentum(&optim, momentum);
    for (size_t g = 0; g <= c->group_count; g++) {
        struct optim_count again = t->count, bare_again = t->count; /* one step, told to all */
        struct optim_config own = optim;
        double own_rate = *rate;
        if (g > 0 && isfinite(c->groups[g - 1].lr))
            EBB_TRY(rate_of(t, c->groups[g - 1].lr, t->group_schedules[g - 1], &own_rate, err));
        if (g > 0 && isfinite(c->groups[g - 1].weight_decay))
            own.weight_decay = c->groups[g - 1].weight_decay;
        struct optim_config bare = own;
        bare.weight_decay = 0;
        optim_step(&bare, &bare_again, own_rate, pass->bare[g]);
        optim_step(&own, &again, own_rate, pass->scalars[g]);
        next = again;
    }
    t->count = next;
    ops_update_scalars(OPS_SGD, &(struct ops_scalars){.rate = 1 - c->ema, .fresh = 1, .sign = 1},
                       pass->average);
    return EBB_OK;
}

/* No gradient overflows because of so small a factor: it would be 0 first. */
#define LEAST_SCALE 0x1p-64

/* ---- a batch -------------------------------------------------------------------------------- */

static void add_report(struct train_trial *t, const struct exec_report *r)
{
    t->total.evictions_pressure += r->evictions_pressure;
    t->total.remat_ops += r->remat_ops;
    t->total.host_ops += r->host_ops;
    t->total.swapped_bytes += r->swapped_bytes;
    t->total.stall_ns += r->stall_ns;
    if (r->peak_bytes > t->total.peak_bytes)
        t->total.peak_bytes = r->peak_bytes;
}

static enum ebb_status load_batch(struct train_trial *t, struct train_batch *batch,
                                  const struct train_step **step, struct ebb_error *err)
{
    struct data_batch b;
    uint64_t start = ebb_clock_ns();
    *step = &t->main;
    batch->records = t->config.batch_size;
    if (!t->loader)
        return EBB_OK;
    EBB_TRY(train_next_batch(t, &b, err));
    batch->records = (int64_t)b.count;
    if (t->tail_batch && (int64_t)b.count == t->tail_batch)
        *step = &t->tail;
    else if (b.count != (size_t)t->config.batch_size)
        return ebb_fail(err, EBB_EINTERNAL, "the loader gave %zu samples instead of %" PRId64,
                        b.count, t->config.batch_size);
    batch->is_epoch_end = b.is_last;
    batch->wait_ns = ebb_clock_ns() - start;
    return EBB_OK;
}

static enum ebb_status apply(struct train_trial *t, struct train_pass *micro,
                             struct train_batch *batch, struct ebb_error *err)
{
    struct train_pass pass = {.trial = t, .step = &t->apply, .number = t->batches};
    struct exec_report report = {0};
    if (t->is_scaled && optim_scaler_update(&t->scaler, !isfinite(micro->norm))) {
        t->skipped++;
        batch->is_skipped = true;
        EBB_TRY(train_clear_gradients(t, err));
        if (t->scaler.scale < LEAST_SCALE)
            return ebb_fail(err, EBB_ELIMIT,
                            "gradients of batch %" PRId64 " are not finite even with a loss scale "
                            "of %g (loss %g, %" PRId64 " updates skipped): training has diverged",
                            t->batches, t->scaler.scale, micro->loss, t->skipped);
        return EBB_OK;
    }
    pass.scale = micro->scale > 0 ? 1.0f / micro->scale : 1.0f;
    EBB_TRY(begin_update(t, &pass, &batch->rate, err));
    EBB_TRY(train_pass_run(&pass, &report, err));
    add_report(t, &report);
    batch->norm = pass.norm;
    return train_clear_gradients(t, err);
}

void train_pass_accumulates(struct train_pass *pass)
{
    ops_update_scalars(OPS_SGD, &(struct ops_scalars){.rate = -1, .fresh = 1, .sign = 1},
                       pass->scalars[0]); /* adds: w - (-1) g */
    pass->scale = (float)pass->trial->scaler.scale;
}

static enum ebb_status run_micro(struct train_trial *t, const struct train_step *step,
                                 struct train_batch *batch, struct ebb_error *err)
{
    struct train_pass pass = {.trial = t, .step = step, .number = t->batches};
    struct exec_report report = {0};
    train_pass_accumulates(&pass);
    EBB_TRY(next_rate(t, &batch->rate, err));
    EBB_TRY(train_pass_run(&pass, &report, err));
    add_report(t, &report);
    batch->loss = pass.loss;
    int64_t kept = train_kept(t, t->batches) + 1;
    batch->is_update = kept == t->config.accumulate;
    if (batch->is_update)
        return apply(t, &pass, batch, err);
    if (!batch->is_epoch_end || !t->config.drops_leftover)
        return EBB_OK;
    batch->dropped = kept;
    return train_clear_gradients(t, err);
}

static enum ebb_status run_step(struct train_trial *t, const struct train_step *step,
                                struct train_batch *batch, struct ebb_error *err)
{
    struct train_pass pass = {.trial = t, .step = step, .number = t->batches};
    struct exec_report report = {0};
    EBB_TRY(begin_update(t, &pass, &batch->rate, err));
    EBB_TRY(train_pass_run(&pass, &report, err));
    add_report(t, &report);
    batch->loss = pass.loss;
    batch->norm = pass.norm;
    batch->is_update = true;
    return EBB_OK;
}

/* The first update is over: state may lie where it is best. */
static enum ebb_status end_warmup(struct train_trial *t, struct ebb_error *err)
{
    t->is_warm = false;
    t->warm_bytes = train_engine_below(t->engine);
    return train_engine_lift_cap(t->engine, err);
}

enum ebb_status train_trial_batch(struct train_trial *t, struct train_batch *batch,
                                  struct ebb_error *err)
{
    uint64_t start = ebb_clock_ns();
    const struct train_step *step;
    *batch = (struct train_batch){.norm = NAN};
    EBB_TRY(load_batch(t, batch, &step, err));
    t->is_torn = true; /* weights may be halfway through an update */
    EBB_TRY(t->has_gradients ? run_micro(t, step, batch, err) : run_step(t, step, batch, err));
    if (t->is_warm && batch->is_update)
        EBB_TRY(end_warmup(t, err));
    t->is_torn = false;
    t->batches++;
    if (batch->is_update && !batch->is_skipped)
        t->updates++;
    if (batch->is_epoch_end)
        t->epoch++;
    batch->ns = ebb_clock_ns() - start;
    t->busy_ns += batch->ns;
    t->wait_ns += batch->wait_ns;
    t->update_ns += batch->ns;
    if (batch->dropped)
        t->update_ns = 0;
    if (batch->is_update) {
        t->times[t->time_count++ % TRAIN_TIMES] = t->update_ns;
        t->update_ns = 0;
    }
    return EBB_OK;
}
