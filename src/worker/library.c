/* library.c - a shared object with the interface of include/ebb.h, seen as a worker_trial. */
#include "worker/worker.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"
#include <ebb.h>
#include "worker/internal.h"
#include "worker/library.h"

struct worker_library {
    struct worker_trial trial; /* first: worker_job.trial leads back here */
    void *handle;
    const ebb_trial_ops *ops;
};

struct library_self {
    struct worker_library_context context; /* first member is the public ebb_ctx */
    const ebb_trial_ops *ops;
    void *user;
    ebb_model *model;
    ebb_optim *optim;
    ebb_lr *lr;
    ebb_loader *train_data, *valid_data;
    int64_t batches_done;
    bool is_open;
};

/* ---- failures ---- */

static enum ebb_status failed(struct library_self *s, const char *what, int code,
                              struct ebb_error *err)
{
    struct worker_library_context *c = &s->context;
    static const enum ebb_status kinds[] = {
        [EBB_ERRORED] = EBB_EIO,
        [EBB_INVALID_HPARAMS] = EBB_EINFEASIBLE,
        [EBB_USER_CANCELED] = EBB_ECANCELED,
    };
    if (c->has_failure)
        return ebb_fail(err, kinds[c->failure], "%s: %s", what, c->reason);
    return ebb_fail(err, EBB_EIO, "%s returned %d", what, code);
}

/* What a function of the library has answered: 0 is well. */
static enum ebb_status checked(struct library_self *s, const char *what, int code,
                               struct ebb_error *err)
{
    return code == 0 ? EBB_OK : failed(s, what, code, err);
}

/* ---- the table ---- */

static void library_destroy(void *self)
{
    struct library_self *s = self;
    if (s == NULL)
        return;
    if (s->train_data != NULL && s->train_data->close != NULL)
        s->train_data->close(s->train_data);
    if (s->valid_data != NULL && s->valid_data->close != NULL)
        s->valid_data->close(s->valid_data);
    if (s->is_open && s->ops->close != NULL)
        s->ops->close(s->user);
    worker_library_context_fini(&s->context);
    ebb_free(s);
}

static enum ebb_status check_loader(const ebb_loader *loader, const char *what,
                                    struct ebb_error *err)
{
    if (loader == NULL || loader->batch_count < 1 || loader->read == NULL)
        return ebb_fail(err, EBB_EINPUT, "%s gave no loader with at least one batch", what);
    return EBB_OK;
}

static enum ebb_status build(struct library_self *s, struct ebb_error *err)
{
    const ebb_trial_ops *ops = s->ops;
    ebb_ctx *ctx = &s->context.ctx;
    EBB_TRY(checked(s, "open", ops->open(ctx, &s->user), err));
    s->is_open = true;
    EBB_TRY(checked(s, "build_model", ops->build_model(s->user, ctx, &s->model), err));
    EBB_TRY(checked(s, "build_optimizer", ops->build_optimizer(s->user, ctx, s->model, &s->optim),
                    err));
    if (ops->build_lr != NULL)
        EBB_TRY(checked(s, "build_lr", ops->build_lr(s->user, ctx, s->optim, &s->lr), err));
    EBB_TRY(checked(s, "train_data", ops->train_data(s->user, ctx, &s->train_data), err));
    EBB_TRY(checked(s, "valid_data", ops->valid_data(s->user, ctx, &s->valid_data), err));
    EBB_TRY(check_loader(s->train_data, "train_data", err));
    return check_loader(s->valid_data, "valid_data", err);
}

static enum ebb_status library_create(const struct worker_job *job, void **self,
                                      struct ebb_error *err)
{
    struct library_self *s;
    EBB_TRY(ebb_new(&s, 1, sizeof *s, err));
    s->ops = ((const struct worker_library *)(const void *)job->trial)->ops;
    worker_library_context_init(&s->context, job);
    enum ebb_status status = build(s, err);
    return EBB_HAND_OUT(status, self, s, library_destroy);
}

static enum ebb_status library_load(void *self, const char *dir, enum worker_load kind,
                                    int64_t batches_done, struct ebb_error *err)
{
    struct library_self *s = self;
    s->batches_done = batches_done;
    s->context.is_warm_start = kind == WORKER_WARM_START;
    if (s->ops->load == NULL)
        return worker_state_load(dir, s->model, kind == WORKER_RESUME ? s->optim : NULL, err);
    return checked(s, "load", s->ops->load(s->user, &s->context.ctx, dir), err);
}

static enum ebb_status library_save(void *self, const char *dir, struct ebb_error *err)
{
    struct library_self *s = self;
    if (s->ops->save == NULL)
        return worker_state_save(dir, s->model, s->optim, s->batches_done, err);
    return checked(s, "save", s->ops->save(s->user, &s->context.ctx, dir), err);
}

static void set_rate(struct library_self *s, int64_t epoch, int64_t index)
{
    ebb_lr *lr = s->lr;
    if (lr == NULL || lr->set == NULL || lr->when == EBB_LR_BY_HAND)
        return;
    if (lr->when == EBB_LR_EACH_BATCH)
        lr->set(lr, s->batches_done);
    else if (index == 0 || s->batches_done == s->context.first_batch)
        lr->set(lr, epoch);
}

static enum ebb_status library_train(void *self, int64_t batches, struct worker_run *run,
                                     struct ebb_error *err)
{
    struct library_self *s = self;
    struct worker_library_metrics m;
    enum ebb_status status = EBB_OK;
    worker_library_metrics_init(&m);
    s->context.run = run;
    s->context.first_batch = s->batches_done;
    for (int64_t i = 0; i < batches && status == EBB_OK; i++) {
        int64_t epoch = s->batches_done / s->train_data->batch_count;
        int64_t index = s->batches_done % s->train_data->batch_count;
        ebb_batch *batch = NULL;
        int64_t records = 0;
        set_rate(s, epoch, index);
        int code = s->train_data->read(s->train_data, epoch, index, &batch, &records);
        if (code != 0) {
            status = failed(s, "read of the training loader", code, err);
            break;
        }
        worker_metrics_clear(&m.values);
        code = s->ops->train_batch(s->user, &s->context.ctx, batch, epoch, s->batches_done,
                                   &m.metrics);
        s->batches_done++;
        status = code == 0 ? worker_batch_done(run, &m.values, records, err)
                           : failed(s, "train_batch", code, err);
    }
    worker_library_metrics_fini(&m);
    return status;
}

/* ---- validation ---- */

static void reduce(struct worker_metric *into, double value, ebb_reducer how)
{
    if (how == EBB_REDUCE_MAX)
        into->value = value > into->value || value != value ? value : into->value;
    else if (how == EBB_REDUCE_MIN)
        into->value = value < into->value || value != value ? value : into->value;
    else
        into->value += value;
}

static ebb_reducer reducer_of(struct library_self *s, const char *name)
{
    return s->ops->reducer != NULL ? s->ops->reducer(s->user, name) : EBB_REDUCE_AVG;
}

/* Join one batch's metrics; their names are those of the first. */
static enum ebb_status join(struct library_self *s, struct worker_metrics *total,
                            const struct worker_metrics *batch, bool is_first,
                            struct ebb_error *err)
{
    if (!is_first && batch->count != total->count)
        return ebb_fail(err, EBB_EINPUT, "eval_batch: %zu metrics after %zu in the first batch",
                        batch->count, total->count);
    for (size_t i = 0; i < batch->count; i++) {
        const struct worker_metric *m = &batch->items[i];
        struct worker_metric *into = worker_metrics_find(total, m->name);
        if (is_first)
            EBB_TRY(worker_metrics_set(total, m->name, m->value, err));
        else if (into == NULL)
            return ebb_fail(err, EBB_EINPUT, "eval_batch: metric '%s' is not in the first batch",
                            m->name);
        else
            reduce(into, m->value, reducer_of(s, m->name));
    }
    return EBB_OK;
}

static enum ebb_status eval_batches(struct library_self *s, struct worker_run *run,
                                    struct worker_metrics *total, int64_t *records,
                                    struct ebb_error *err)
{
    struct worker_library_metrics m;
    enum ebb_status status = EBB_OK;
    worker_library_metrics_init(&m);
    int64_t count = s->valid_data->batch_count;
    for (int64_t i = 0; i < count && status == EBB_OK; i++) {
        ebb_batch *batch = NULL;
        int64_t n = 0;
        int code = s->valid_data->read(s->valid_data, 0, i, &batch, &n);
        if (code != 0) {
            status = failed(s, "read of the validation loader", code, err);
            break;
        }
        worker_metrics_clear(&m.values);
        code = s->ops->eval_batch(s->user, &s->context.ctx, batch, &m.metrics);
        status =
            code == 0 ? join(s, total, &m.values, i == 0, err) : failed(s, "eval_batch", code, err);
        *records += n;
        EBB_THEN(status, worker_check(run, err));
    }
    for (size_t i = 0; i < total->count && status == EBB_OK; i++)
        if (reducer_of(s, total->items[i].name) == EBB_REDUCE_AVG)
            total->items[i].value /= (double)count;
    worker_library_metrics_fini(&m);
    return status;
}

static enum ebb_status library_validate(void *self, struct worker_run *run,
                                        struct worker_metrics *metrics, int64_t *records,
                                        struct ebb_error *err)
{
    struct library_self *s = self;
    s->context.run = run;
    if (s->ops->eval_batch != NULL)
        return eval_batches(s, run, metrics, records, err);
    struct worker_library_metrics m;
    worker_library_metrics_init(&m);
    int code = s->ops->eval_full(s->user, &s->context.ctx, s->valid_data, &m.metrics);
    enum ebb_status status = checked(s, "eval_full", code, err);
    for (size_t i = 0; i < m.values.count && status == EBB_OK; i++)
        status = worker_metrics_set(metrics, m.values.items[i].name, m.values.items[i].value, err);
    worker_library_metrics_fini(&m);
    return status;
}

/* ---- opening ---- */

static enum ebb_status check_ops(const ebb_trial_ops *ops, const char *symbol,
                                 struct ebb_error *err)
{
    if (ops->abi != EBB_TRIAL_ABI)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "%s has interface version %u, this program %u: build it again with the "
                        "ebb.h of this version",
                        symbol, (unsigned)ops->abi, EBB_TRIAL_ABI);
    const char *missing = ops->open == NULL              ? "open"
                          : ops->build_model == NULL     ? "build_model"
                          : ops->build_optimizer == NULL ? "build_optimizer"
                          : ops->train_data == NULL      ? "train_data"
                          : ops->valid_data == NULL      ? "valid_data"
                          : ops->train_batch == NULL     ? "train_batch"
                                                         : NULL;
    if (missing != NULL)
        return ebb_fail(err, EBB_EINPUT, "%s has no function %s", symbol, missing);
    if ((ops->eval_batch == NULL) == (ops->eval_full == NULL))
        return ebb_fail(err, EBB_EINPUT, "%s must have exactly one of eval_batch and eval_full",
                        symbol);
    if ((ops->save == NULL) != (ops->load == NULL))
        return ebb_fail(err, EBB_EINPUT, "%s must have both save and load, or none", symbol);
    return EBB_OK;
}

/* "libmodel.so", "model" and "dir/model" all name a file below the working directory. */
static void *open_object(const char *module, struct ebb_str *why)
{
    static const char *const forms[][2] = {{"", ""}, {"", ".so"}, {"lib", ".so"}};
    const char *slash = strrchr(module, '/');
    size_t folder = slash != NULL ? (size_t)(slash + 1 - module) : 0;
    void *handle = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0] && handle == NULL; i++) {
        struct ebb_str path = {0};
        ebb_str_add(&path, module[0] == '/' ? "" : "./");
        ebb_str_addn(&path, module, folder);
        ebb_str_printf(&path, "%s%s%s", forms[i][0], module + folder, forms[i][1]);
        handle = path.failed ? NULL : dlopen(ebb_str_c(&path), RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL)
            ebb_str_printf(why, "%s%s", why->length > 0 ? "; " : "", dlerror());
        ebb_str_fini(&path);
    }
    return handle;
}

enum ebb_status worker_library_open(const char *entrypoint, struct worker_library **library,
                                    const struct worker_trial **trial, struct ebb_error *err)
{
    const char *colon = strchr(entrypoint, ':');
    if (colon == NULL || colon == entrypoint || colon[1] == '\0')
        return ebb_fail(err, EBB_EINPUT, "entrypoint '%s': expected FILE.so:SYMBOL", entrypoint);
    struct worker_library *l = ebb_calloc(1, sizeof *l);
    char *module = ebb_strndup(entrypoint, (size_t)(colon - entrypoint));
    struct ebb_str why = {0};
    enum ebb_status status = EBB_OK;
    if (l == NULL || module == NULL) {
        status = ebb_no_memory(err, sizeof *l);
        goto out;
    }
    l->handle = open_object(module, &why);
    if (l->handle == NULL) {
        status = ebb_fail(err, EBB_EINPUT, "cannot load '%s': %s", module, ebb_str_c(&why));
        goto out;
    }
    l->ops = dlsym(l->handle, colon + 1);
    if (l->ops == NULL) {
        status = ebb_fail(err, EBB_EINPUT, "'%s' exports no symbol '%s'", module, colon + 1);
        goto out;
    }
    status = check_ops(l->ops, entrypoint, err);
    l->trial = (struct worker_trial){
        .name = "library",
        .create = library_create,
        .load = library_load,
        .train = library_train,
        .validate = library_validate,
        .save = library_save,
        .destroy = library_destroy,
    };
out:
    ebb_str_fini(&why);
    ebb_free(module);
    if (status == EBB_OK)
        *trial = &l->trial;
    return EBB_HAND_OUT(status, library, l, worker_library_close);
}

void worker_library_close(struct worker_library *library)
{
    if (library == NULL)
        return;
    if (library->handle != NULL)
        dlclose(library->handle);
    ebb_free(library);
}
