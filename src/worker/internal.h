/* internal.h - parts of the worker that its files share. Private to this folder. */
#ifndef EBB_WORKER_INTERNAL_H
#define EBB_WORKER_INTERNAL_H

#include "base/arena.h"
#include "base/json.h"
#include "worker/link.h"
#include "worker/worker.h"

/* ---- metrics.c ---- */
struct worker_metric *worker_metrics_find(const struct worker_metrics *metrics, const char *name);
void worker_metrics_write(const struct worker_metrics *metrics, struct ebb_json_writer *w);

/* ---- job.c: what the environment and EBB_CONFIG say ---- */
struct worker_setup {
    struct ebb_arena arena; /* holds config.json */
    struct worker_job job;
    const char *socket_path, *allocation; /* borrowed from the environment */
    const char *checkpoint_path;          /* to start from; NULL = from scratch */
    enum worker_load checkpoint_kind;
    int64_t checkpoint_step; /* completed steps of a resumed trial; else 0 */
};

enum ebb_status worker_setup_read(struct worker_setup *setup, const char *entrypoint,
                                  struct ebb_error *err);
void worker_setup_fini(struct worker_setup *setup);

/* ---- store.c: a checkpoint directory ---- */
struct worker_checkpoint {
    const char *uuid, *path; /* borrowed from the workload */
    int64_t step;
};

/* Save `self` under checkpoint->path and append {"uuid":..., "resources":...} to w. */
enum ebb_status worker_checkpoint_save(const struct worker_checkpoint *checkpoint,
                                       const struct worker_trial *trial, void *self,
                                       struct ebb_json_writer *w, struct ebb_error *err);

/* ---- library_state.c: default save and load of shared-object trials ---- */
struct ebb_model;
struct ebb_optim;
struct ebb_tensor;
/* The bytes of one file into arrays that exist already; names, dtypes and shapes must agree. */
enum ebb_status worker_state_parse(const char *path, const char *data, size_t length,
                                   const struct ebb_tensor *tensors, size_t count,
                                   struct ebb_error *err);
enum ebb_status worker_state_save(const char *dir, const struct ebb_model *model,
                                  const struct ebb_optim *optim, int64_t batches_done,
                                  struct ebb_error *err);
enum ebb_status worker_state_load(const char *dir, struct ebb_model *model, struct ebb_optim *optim,
                                  struct ebb_error *err);

#endif
