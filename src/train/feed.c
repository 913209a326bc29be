/* feed.c - a trial and its data: the set is opened and told to the model, the loader made, rooms for
 * batches taken, batches handed out. */
#include <inttypes.h>

#include "base/heap.h"
#include "base/thread.h"
#include "train/trial.h"

static void adapt(struct train_trial *t)
{
    const struct data_info *d = t->info;
    const struct data_field *x = &d->fields[0], *y = &d->fields[1];
    bool is_volume = x->rank == 4, has_numbers = d->kind == DATA_NUMBERS && d->field_count > 1;
    const struct {
        const char *key;
        int64_t value;
    } facts[] = {{"channels", is_volume ? x->dims[0] : d->channels},
                 {"height", d->height},
                 {"width", d->width},
                 {"classes", d->classes},
                 {"labels", d->kind == DATA_CLASSES ? d->classes : 0},
                 {"vocabulary", d->vocabulary},
                 {"length", d->sequence},
                 {"features", x->rank == 1 && x->dtype == DATA_F32 ? x->dims[0] : 0},
                 {"size", is_volume ? x->dims[1] : 0},
                 {"outputs", has_numbers && y->rank == 1 ? y->dims[0] : 0}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (facts[i].value > 0)
            nn_config_adapt(&t->net, facts[i].key, facts[i].value);
}

enum ebb_status train_open_data(struct train_trial *t, struct ebb_error *err)
{
    struct data_env env = {
        .benchmark = t->config.benchmark, .directory = t->config.directory, .seed = t->config.seed};
    if (!t->config.data || t->options.makes_data)
        return EBB_OK;
    struct ebb_error why = {0};
    enum ebb_status status = data_open(t->config.data, &env, &t->set, &why);
    if (status != EBB_OK && t->options.is_dry && status != EBB_ENOMEM) {
        t->set = NULL; /* the section was checked; shapes of the model's own defaults, then */
        if (t->options.no_data)
            *t->options.no_data = why;
        return EBB_OK;
    }
    if (status != EBB_OK) {
        if (err)
            *err = why;
        return status;
    }
    t->info = data_describe(t->set);
    t->validation_count = t->info->count[DATA_VALIDATION];
    adapt(t);
    return EBB_OK;
}

enum ebb_status train_open_net(const struct train_config *config, struct nn_config *net,
                               struct data_set **set, struct ebb_error *err)
{
    struct train_trial t = {.config = *config, .net = *config->net};
    EBB_TRY(train_open_data(&t, err));
    enum ebb_status status = nn_config_check(&t.net, err);
    if (status == EBB_OK) {
        *net = t.net;
        *set = t.set;
    } else {
        data_close(t.set);
    }
    return status;
}

/* Before the programs: how many samples the last batch of an epoch has depends on it. */
enum ebb_status train_open_loader(struct train_trial *t, struct ebb_error *err)
{
    struct data_loader_options o;
    uint64_t samples = t->info->count[DATA_TRAIN], batch = (uint64_t)t->config.batch_size;
    data_loader_options_of(t->set, DATA_TRAIN, &o);
    o.batch = (size_t)batch;
    o.seed = t->config.seed;
    if (t->options.workers >= 0)
        o.workers = t->options.workers;
    t->tail_batch = o.drop_last ? 0 : (int64_t)(samples % batch);
    if (t->options.is_dry)
        return EBB_OK;
    if (samples == 0 || (o.drop_last && samples < batch))
        return ebb_fail(err, EBB_EINPUT,
                        "data %s has %" PRIu64 " training samples, less than one batch of %" PRIu64,
                        t->info->name, samples, batch);
    enum ebb_status status = data_loader_create(t->set, &o, &t->loader, err);
    if (status == EBB_EBUDGET) /* the budget it means is data.buffer */
        status = ebb_context(err, EBB_EINPUT, "data.buffer");
    EBB_TRY(status);
    t->epoch_batches = (int64_t)data_loader_batches(t->loader);
    if (t->config.drops_leftover && t->epoch_batches < t->config.accumulate)
        return ebb_fail(err, EBB_EINPUT,
                        "an epoch of %" PRId64 " batches has no update of %" PRId64 " batches",
                        t->epoch_batches, t->config.accumulate);
    t->tail_batch = o.drop_last ? 0 : (int64_t)(data_loader_samples(t->loader) % batch);
    return EBB_OK;
}

enum ebb_status train_stage(struct train_trial *t, struct ebb_error *err)
{
    for (size_t f = 0; f < t->info->field_count; f++) {
        bool is_used = false;
        for (size_t i = 0; i < NN_PORTS; i++)
            is_used |= (i < t->main.input_count && t->input_fields[i] == (int)f) ||
                       (i < t->main.target_count && t->target_fields[i] == (int)f);
        size_t bytes, most = (size_t)t->config.batch_size;
        if (!is_used)
            continue;
        if (t->has_eval && (size_t)t->eval.batch > most)
            most = (size_t)t->eval.batch;
        if (!ebb_mul_size(t->info->fields[f].bytes, most, &bytes))
            return ebb_fail(err, EBB_ELIMIT, "a batch of %" PRId64 " samples is too large",
                            (int64_t)most);
        bool is_hidden = train_engine_is_hidden(t->engine);
        t->fields[f] =
            is_hidden ? train_engine_host_take(t->engine, bytes) : ebb_alloc_aligned(64, bytes);
        if (is_hidden)
            t->spare[f] = train_engine_host_take(t->engine, bytes);
        if (!t->fields[f] || (is_hidden && !t->spare[f]))
            return ebb_no_memory(err, bytes);
        t->staging_bytes += is_hidden ? 2 * bytes : bytes;
    }
    return EBB_OK;
}

void train_unstage(struct train_trial *t)
{
    bool is_hidden = t->engine && train_engine_is_hidden(t->engine);
    for (size_t f = 0; f < DATA_MAX_FIELDS; f++) {
        if (is_hidden) {
            train_engine_host_give(t->engine, t->fields[f]);
            train_engine_host_give(t->engine, t->spare[f]);
        } else {
            ebb_free(t->fields[f]);
        }
        t->fields[f] = t->spare[f] = NULL;
    }
}

/* ---- batches -------------------------------------------------------------------------------------
 *
 * While a device runs a step the host has nothing to do: where that is so, the next batch is copied
 * together meanwhile. Where the host runs the kernels itself, only the loader's workers read ahead. */

static void *load_ahead(void *argument)
{
    struct train_trial *t = argument;
    t->ahead.status = data_loader_next(t->loader, t->spare, &t->ahead.batch, &t->ahead.error);
    return NULL;
}

static void begin_ahead(struct train_trial *t)
{
    if (!train_engine_is_hidden(t->engine))
        return;
    data_loader_save(t->loader, &t->ahead.position);
    data_loader_stats(t->loader, &t->ahead.stats);
    t->ahead.is_under_way = ebb_thread_start(&t->ahead.thread, load_ahead, t) == 0;
}

static void end_ahead(struct train_trial *t)
{
    pthread_join(t->ahead.thread, NULL);
    t->ahead.is_under_way = false;
}

enum ebb_status train_next_batch(struct train_trial *t, struct data_batch *batch,
                                 struct ebb_error *err)
{
    struct data_batch b;
    if (!t->ahead.is_under_way) {
        EBB_TRY(data_loader_next(t->loader, t->fields, &b, err));
    } else {
        end_ahead(t);
        if (t->ahead.status != EBB_OK) {
            if (err)
                *err = t->ahead.error;
            return t->ahead.status;
        }
        b = t->ahead.batch;
        for (size_t f = 0; f < DATA_MAX_FIELDS; f++) {
            void *made = t->spare[f];
            t->spare[f] = t->fields[f];
            t->fields[f] = made;
        }
    }
    *batch = b;
    if (b.count)
        begin_ahead(t);
    return EBB_OK;
}

void train_position(const struct train_trial *t, struct data_position *position)
{
    if (t->ahead.is_under_way)
        *position = t->ahead.position;
    else
        data_loader_save(t->loader, position);
}

void train_loader_stats(const struct train_trial *t, struct data_stats *stats)
{
    if (t->ahead.is_under_way)
        *stats = t->ahead.stats;
    else
        data_loader_stats(t->loader, stats);
}

void train_recall(struct train_trial *t)
{
    if (t->ahead.is_under_way)
        end_ahead(t);
}
