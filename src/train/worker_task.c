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
    EBB_THEN(status, train_trial_create(&w->trial, &w->config, NULL, err));
    if (status != EBB_OK)
        work_destroy(w);
    else
        *self = w;
    return status;
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

#define ROW(text)                                                                                  \
    {                                                                                              \
        .name = text, .create = work_create, .load = work_load, .train = work_train,               \
        .validate = work_validate, .save = work_save, .destroy = work_destroy                      \
    }

static const struct worker_trial trials[] = {
    ROW("image_classification"), ROW("segmentation"), ROW("language_model"),
    ROW("regression"),           ROW("gan"),
};

const struct worker_trial *train_worker(const char *task)
{
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
        if (strcmp(trials[i].name, task) == 0)
            return &trials[i];
    return NULL;
}
