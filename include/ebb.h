/* ebb.h - write a trial in C (or anything that can make a shared object).
 *
 * Build a shared object that exports one constant of type ebb_trial_ops:
 *
 *     #include <ebb.h>
 *     const ebb_trial_ops trial = {.abi = EBB_TRIAL_ABI, .open = ..., ...};
 *     $ cc -shared -fPIC -o libmodel.so model.c
 *
 * and name it in the experiment file: `entrypoint: libmodel.so:trial`. Nothing has to be linked:
 * everything a trial may ask of ebb goes through the context it is given. The loop, the metrics,
 * checkpoints, restarts and the search are ebb's business; the model and its arithmetic are yours.
 * examples/c-trial is a complete one.
 *
 * Functions return 0 for success. Anything else is a failure of the trial: it is restarted from its
 * last checkpoint, `max_restarts` times. ebb_ctx_fail says why before you return. All functions are
 * called from one thread. Usable from C99 and C++. */
#ifndef EBB_H
#define EBB_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EBB_TRIAL_ABI 1u

typedef struct ebb_ctx ebb_ctx;         /* ebb's: what the trial may know and say */
typedef struct ebb_metrics ebb_metrics; /* ebb's: names with numbers */
typedef struct ebb_batch ebb_batch;     /* yours: define struct ebb_batch as you like */

typedef enum { EBB_F32, EBB_F64, EBB_F16, EBB_BF16, EBB_I64, EBB_I32, EBB_U8 } ebb_dtype;

/* A named array that the default save writes and the default load fills. */
typedef struct ebb_tensor {
    const char *name;
    ebb_dtype dtype;
    int rank; /* 0 ... 8 */
    int64_t shape[8];
    void *data;
} ebb_tensor;

/* What has to survive in a checkpoint. `user` is yours. */
typedef struct ebb_model {
    const ebb_tensor *tensors;
    size_t tensor_count;
    void *user;
} ebb_model;

typedef struct ebb_optim {
    const ebb_tensor *tensors; /* moments, counters, ... */
    size_t tensor_count;
    void *user;
} ebb_optim;

typedef enum { EBB_LR_EACH_BATCH, EBB_LR_EACH_EPOCH, EBB_LR_BY_HAND } ebb_lr_when;

/* A rate schedule: `set` is called before each batch (or epoch) with its number, counted from 0
 * over the whole trial, so that it needs no state of its own. */
typedef struct ebb_lr {
    ebb_lr_when when;
    void (*set)(struct ebb_lr *lr, int64_t count);
    void *user;
} ebb_lr;

/* A data loader: batch `index` of epoch `epoch`, on demand and in any order, so that a resumed
 * trial needs no skipping. The batch stays valid until the next read. */
typedef struct ebb_loader {
    int64_t batch_count; /* of one epoch on this rank; > 0 */
    int (*read)(struct ebb_loader *loader, int64_t epoch, int64_t index, ebb_batch **batch,
                int64_t *records);
    void (*close)(struct ebb_loader *loader); /* may be NULL */
    void *user;
} ebb_loader;

typedef enum { EBB_REDUCE_AVG, EBB_REDUCE_SUM, EBB_REDUCE_MAX, EBB_REDUCE_MIN } ebb_reducer;

typedef struct ebb_trial_ops {
    uint32_t abi; /* EBB_TRIAL_ABI */
    int (*open)(ebb_ctx *ctx, void **self);
    int (*build_model)(void *self, ebb_ctx *ctx, ebb_model **model);
    int (*build_optimizer)(void *self, ebb_ctx *ctx, ebb_model *model, ebb_optim **optim);
    int (*build_lr)(void *self, ebb_ctx *ctx, ebb_optim *optim, ebb_lr **lr); /* may be NULL */
    int (*train_data)(void *self, ebb_ctx *ctx, ebb_loader **loader);
    int (*valid_data)(void *self, ebb_ctx *ctx, ebb_loader **loader);
    /* Must set "loss". */
    int (*train_batch)(void *self, ebb_ctx *ctx, ebb_batch *batch, int64_t epoch, int64_t index,
                       ebb_metrics *metrics);
    /* Exactly one of these two. eval_batch: the same names for every batch, reduced over them. */
    int (*eval_batch)(void *self, ebb_ctx *ctx, ebb_batch *batch, ebb_metrics *metrics);
    int (*eval_full)(void *self, ebb_ctx *ctx, ebb_loader *loader, ebb_metrics *metrics);
    ebb_reducer (*reducer)(void *self, const char *metric); /* NULL = average */
    /* NULL = the tensors of model and optimizer, as safetensors. Both or none. */
    int (*save)(void *self, ebb_ctx *ctx, const char *dir);
    int (*load)(void *self, ebb_ctx *ctx, const char *dir);
    void (*close)(void *self); /* may be NULL */
} ebb_trial_ops;

/* ---- the context ---- */

typedef enum { EBB_ERRORED, EBB_INVALID_HPARAMS, EBB_USER_CANCELED } ebb_failure;

typedef enum {
    EBB_GET_EXPERIMENT_ID,
    EBB_GET_TRIAL_ID,
    EBB_GET_TRIAL_SEED,
    EBB_GET_GLOBAL_BATCH_SIZE,
    EBB_GET_SLOT_BATCH_SIZE,
    EBB_GET_RANK,
    EBB_GET_LOCAL_RANK,
    EBB_GET_SIZE,
    EBB_GET_AGENTS,
    EBB_GET_SHOULD_STOP,
    EBB_GET_IS_WARM_START, /* weights come from another trial's checkpoint */
} ebb_get;

typedef enum {
    EBB_JSON_HPARAM_NAMED,
    EBB_JSON_HPARAMS,
    EBB_JSON_DATA,
    EBB_JSON_CONFIG
} ebb_json_of;

/* How the context reaches back into ebb. Later versions only append. */
typedef struct ebb_api {
    uint32_t abi;
    int (*hparam_int)(ebb_ctx *ctx, const char *name, int64_t *value);
    int (*hparam_double)(ebb_ctx *ctx, const char *name, double *value);
    int (*hparam_bool)(ebb_ctx *ctx, const char *name, int *value);
    int (*hparam_string)(ebb_ctx *ctx, const char *name, const char **value);
    const char *(*json)(ebb_ctx *ctx, ebb_json_of what, const char *name);
    int64_t (*get)(ebb_ctx *ctx, ebb_get what);
    void (*log)(ebb_ctx *ctx, const char *text);
    int (*fail)(ebb_ctx *ctx, ebb_failure kind, const char *reason);
    int (*metric)(ebb_metrics *metrics, const char *name, double value);
} ebb_api;

struct ebb_ctx {
    const ebb_api *api;
};

struct ebb_metrics {
    const ebb_api *api;
};

/* A hyperparameter by name. An unknown name or another type: not 0, and the reason is recorded, so
 * that returning the result is enough. An integer is accepted where a double is wanted. */
static inline int ebb_ctx_int(ebb_ctx *ctx, const char *name, int64_t *value)
{
    return ctx->api->hparam_int(ctx, name, value);
}

static inline int ebb_ctx_double(ebb_ctx *ctx, const char *name, double *value)
{
    return ctx->api->hparam_double(ctx, name, value);
}

static inline int ebb_ctx_bool(ebb_ctx *ctx, const char *name, int *value)
{
    return ctx->api->hparam_bool(ctx, name, value);
}

static inline int ebb_ctx_string(ebb_ctx *ctx, const char *name, const char **value)
{
    return ctx->api->hparam_string(ctx, name, value);
}

/* As JSON text, valid until close; NULL when absent. */
static inline const char *ebb_ctx_hparam_json(ebb_ctx *ctx, const char *name)
{
    return ctx->api->json(ctx, EBB_JSON_HPARAM_NAMED, name);
}

static inline const char *ebb_ctx_hparams(ebb_ctx *ctx)
{
    return ctx->api->json(ctx, EBB_JSON_HPARAMS, NULL);
}

static inline const char *ebb_ctx_data(ebb_ctx *ctx) /* the section `data` */
{
    return ctx->api->json(ctx, EBB_JSON_DATA, NULL);
}

static inline const char *ebb_ctx_config(ebb_ctx *ctx)
{
    return ctx->api->json(ctx, EBB_JSON_CONFIG, NULL);
}

static inline int64_t ebb_ctx_get(ebb_ctx *ctx, ebb_get what)
{
    return ctx->api->get(ctx, what);
}

/* One line in the log of the trial. */
static inline void ebb_ctx_log(ebb_ctx *ctx, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ctx->api->log(ctx, text);
}

/* Say why; returns not 0, so `return ebb_ctx_fail(...)` works. EBB_INVALID_HPARAMS: this sample
 * makes no sense, do not try it again. */
static inline int ebb_ctx_fail(ebb_ctx *ctx, ebb_failure kind, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ctx->api->fail(ctx, kind, text);
}

static inline int ebb_metric(ebb_metrics *metrics, const char *name, double value)
{
    return metrics->api->metric(metrics, name, value);
}

#ifdef __cplusplus
}
#endif

#endif
