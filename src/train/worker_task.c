/* worker_task.c - the built-in tasks as trials of `ebb worker`. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "train/internal.h"

struct work {
    struct ebb_arena arena;
    struct train_config config;
    struct train_trial *trial;
    struct train_state before; /* when the last report was made */
    bool has_reported;
};

static void work_destroy(void *self)
{
    struct work *w = self;
    if (!w)
        return;
    train_trial_destroy(w->trial);
    ebb_arena_fini(&w->arena);
    ebb_free(w);
}

static enum ebb_status work_create(const struct worker_job *job, void **self, struct ebb_error *err)
{
    struct train_source source = {.file = "experiment",
                                  .entrypoint = job->entrypoint,
                                  .root = job->config,
                                  .hparams = job->hparams,
                                  .seed = job->seed};
    struct work *w;
    EBB_TRY(ebb_new(&w, 1, sizeof *w, err));
    enum ebb_status status = train_config_read(&w->arena, &source, &w->config, NULL, err);
    if (status == EBB_EINPUT) /* this sample of hyperparameters can never work */
        status = ebb_context(err, EBB_EINFEASIBLE, "configuration");
    struct train_options options = {.workers = -1, .knows_machine = true};
    EBB_THEN(status, train_trial_create(&w->trial, &w->config, &options, err));
    return EBB_HAND_OUT(status, self, w, work_destroy);
}

static enum ebb_status work_load(void *self, const char *dir, enum worker_load kind,
                                 int64_t batches_done, struct ebb_error *err)
{
    struct work *w = self;
    struct train_state state;
    EBB_TRY(
        train_trial_load(w->trial, dir, kind == WORKER_RESUME ? TRAIN_RESUME : TRAIN_WEIGHTS, err));
    train_trial_state(w->trial, &state);
    if (kind == WORKER_RESUME && state.batches != batches_done)
        return ebb_fail(err, EBB_ECORRUPT,
                        "checkpoint %s is of batch %" PRId64 ", the trial stands at %" PRId64, dir,
                        state.batches, batches_done);
    return EBB_OK;
}

static enum ebb_status work_train(void *self, int64_t batches, struct worker_run *run,
                                  struct ebb_error *err)
{
    struct work *w = self;
    struct worker_metrics metrics;
    struct train_batch batch;
    enum ebb_status status = EBB_OK;
    worker_metrics_init(&metrics);
    for (int64_t i = 0; status == EBB_OK && i < batches; i++) {
        worker_metrics_clear(&metrics);
        status = train_trial_batch(w->trial, &batch, err);
        EBB_THEN(status, worker_metrics_set(&metrics, "loss", batch.loss, err));
        EBB_THEN(status, worker_metrics_set(&metrics, "learning_rate", batch.rate, err));
        if (status == EBB_OK && isfinite(batch.norm))
            status = worker_metrics_set(&metrics, "gradient_norm", batch.norm, err);
        EBB_THEN(status, worker_batch_done(run, &metrics, batch.records, err));
    }
    worker_metrics_fini(&metrics);
    return status;
}

static enum ebb_status poll(void *context, struct ebb_error *err)
{
    return worker_check(context, err);
}

static enum ebb_status work_validate(void *self, struct worker_run *run,
                                     struct worker_metrics *metrics, int64_t *records,
                                     struct ebb_error *err)
{
    struct work *w = self;
    struct train_metrics found;
    EBB_TRY(train_trial_validate(w->trial, poll, run, &found, err));
    for (size_t i = 0; i < found.count; i++)
        EBB_TRY(worker_metrics_set(metrics, found.items[i].name, found.items[i].value, err));
    *records = found.records;
    return EBB_OK;
}

static enum ebb_status work_save(void *self, const char *dir, struct ebb_error *err)
{
    struct work *w = self;
    return train_trial_save(w->trial, dir, err);
}

/* ---- what a step took ---- */

/* With the first report only, for they stay as they are: bytes by kind over a step that keeps
 * everything. */
static void report_kinds(struct work *w, struct ebb_json_writer *out)
{
    struct ebb_arena arena = {0};
    struct train_explained e = {0};
    if (train_trial_explain(w->trial, &arena, &e, NULL) == EBB_OK) {
        ebb_jsonw_key_object(out, "kinds");
        for (int k = 0; k < TRAIN_KINDS; k++)
            ebb_jsonw_key_uint(out, train_kind_names[k], e.kinds[k]);
        ebb_jsonw_object_end(out);
        train_timeline_write(w->trial, &e, out);
    }
    ebb_arena_fini(&arena);
}

/* The step as its budget makes it, tiers included. */
static void report_managed(struct work *w, struct ebb_json_writer *out)
{
    struct ebb_arena arena = {0};
    struct train_managed m = {0};
    if (train_trial_managed(w->trial, &arena, &m, NULL) == EBB_OK && m.count > 0) {
        ebb_jsonw_key_object(out, "managed");
        ebb_jsonw_key_string(out, "how", m.how);
        ebb_jsonw_key_uint(out, "peak_bytes", m.peak_bytes);
        ebb_jsonw_key_uint(out, "runs", m.count);
        ebb_jsonw_key_uint(out, "again", m.again);
        ebb_jsonw_key_uint(out, "evictions", m.evictions[m.count - 1]);
        ebb_jsonw_key_uint(out, "copies", m.copies[m.count - 1]);
        train_managed_write(&m, out);
        ebb_jsonw_object_end(out);
    }
    ebb_arena_fini(&arena);
}

static void report_memory(struct work *w, const struct train_state *s, struct ebb_json_writer *out)
{
    ebb_jsonw_key_object(out, "memory");
    ebb_jsonw_key_uint_or_null(out, "budget_bytes", s->budget_bytes, s->budget_bytes != UINT64_MAX);
    ebb_jsonw_key_uint(out, "peak_bytes", s->peak_bytes);
    ebb_jsonw_key_uint_or_null(out, "floor_bytes", s->floor_bytes, s->floor_bytes > 0);
    ebb_jsonw_key_uint(out, "unlimited_bytes", s->unlimited_bytes);
    ebb_jsonw_key_uint(out, "persistent_bytes", s->persistent_bytes);
    ebb_jsonw_key_uint(out, "buffer_bytes", s->buffer_bytes);
    if (!w->has_reported)
        report_kinds(w, out);
    if (!w->has_reported && s->budget_bytes != UINT64_MAX)
        report_managed(w, out);
    ebb_jsonw_object_end(out);
}

/* What kernels did twice is told by prediction: nobody measures an op. */
static void report_time(const struct work *w, const struct train_state *s,
                        struct ebb_json_writer *out)
{
    double all = (double)(s->busy_ns - w->before.busy_ns) * 1e-9;
    double data = (double)(s->wait_ns - w->before.wait_ns) * 1e-9;
    double copies = (double)(s->stall_ns - w->before.stall_ns) * 1e-9;
    double compute = all > data + copies ? all - data - copies : 0;
    double again = s->overhead > 1 ? compute * (1 - 1 / s->overhead) : 0;
    ebb_jsonw_key_object(out, "time");
    ebb_jsonw_key_double(out, "kernels", compute - again);
    ebb_jsonw_key_double(out, "recomputation", again);
    ebb_jsonw_key_double(out, "copies", copies);
    ebb_jsonw_key_double(out, "data", data);
    ebb_jsonw_object_end(out);
}

static void work_report(void *self, struct ebb_json_writer *out)
{
    struct work *w = self;
    struct train_state s;
    train_trial_state(w->trial, &s);
    report_memory(w, &s, out);
    report_time(w, &s, out);
    if (s.bad_samples)
        ebb_jsonw_key_uint(out, "bad_samples", s.bad_samples);
    if (s.bad_samples > w->before.bad_samples) {
        ebb_jsonw_key_array(out, "bad_sample_names"); /* of those that are new */
        for (size_t i = (size_t)w->before.bad_samples; train_trial_bad_sample(w->trial, i); i++)
            ebb_jsonw_string(out, train_trial_bad_sample(w->trial, i));
        ebb_jsonw_array_end(out);
    }
    w->before = s;
    w->has_reported = true;
}

#define ROW(text)                                                                                  \
    {                                                                                              \
        .name = text, .create = work_create, .load = work_load, .train = work_train,               \
        .validate = work_validate, .save = work_save, .report = work_report,                       \
        .destroy = work_destroy                                                                    \
    }

static const struct worker_trial trials[] = {
    ROW("image_classification"), ROW("segmentation"), ROW("language_model"),
    ROW("regression"),           ROW("gan"),
};

const struct worker_trial *train_worker(const char *task)
{
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
        if (!task || strcmp(trials[i].name, task) == 0)
            return &trials[i]; /* they differ by name alone: an ONNX file says its task itself */
    return NULL;
}
