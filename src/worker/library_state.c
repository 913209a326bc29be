/* library_state.c - default checkpoint of a shared-object trial: the named arrays of its model and
 * optimizer, as safetensors. Loading reads outside bytes: what the file says is checked against the
 * array it is for. */
#include "worker/internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "tensor/tensor.h"
#include <ebb.h>

#define STATE_MAX_BYTES ((size_t)1 << 40)

static enum ebb_status view_of(const ebb_tensor *t, struct tensor_view *view, struct ebb_error *err)
{
    static const enum tensor_dtype dtypes[] = {
        [EBB_F32] = TENSOR_F32,   [EBB_F64] = TENSOR_F64, [EBB_F16] = TENSOR_F16,
        [EBB_BF16] = TENSOR_BF16, [EBB_I64] = TENSOR_I64, [EBB_I32] = TENSOR_I32,
        [EBB_U8] = TENSOR_U8,
    };
    if (t->name == NULL || t->rank < 0 || t->rank > TENSOR_RANK || (unsigned)t->dtype > EBB_U8 ||
        t->data == NULL)
        return ebb_fail(err, EBB_EINPUT, "tensor '%s': bad dtype, rank or data",
                        t->name != NULL ? t->name : "");
    size_t n = tensor_dtype_bytes(dtypes[t->dtype]);
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0 || !ebb_mul_size(n, (size_t)t->shape[i], &n))
            return ebb_fail(err, EBB_EINPUT, "tensor '%s': bad shape", t->name);
    tensor_view_init(view, dtypes[t->dtype], t->rank, t->shape);
    return EBB_OK;
}

/* ---- saving ---- */

static enum ebb_status save_file(const char *path, const ebb_tensor *tensors, size_t count,
                                 struct ebb_error *err)
{
    struct tensor_to_write *items = ebb_calloc(count + 1, sizeof *items);
    enum ebb_status status = items != NULL ? EBB_OK : ebb_no_memory(err, count * sizeof *items);
    for (size_t i = 0; i < count && status == EBB_OK; i++) {
        items[i].name = tensors[i].name;
        items[i].data = tensors[i].data;
        status = view_of(&tensors[i], &items[i].view, err);
    }
    EBB_THEN(status, tensor_file_write(path, items, count, err));
    ebb_free(items);
    return status;
}

static enum ebb_status path_in(struct ebb_str *path, const char *dir, const char *name,
                               struct ebb_error *err)
{
    ebb_str_clear(path);
    ebb_str_printf(path, "%s/state/%s", dir, name);
    return ebb_str_status(path, err);
}

enum ebb_status worker_state_save(const char *dir, const struct ebb_model *model,
                                  const struct ebb_optim *optim, int64_t batches_done,
                                  struct ebb_error *err)
{
    struct ebb_str path = {0};
    char text[64];
    ebb_str_printf(&path, "%s/state", dir);
    enum ebb_status status = ebb_file_mkdirs(ebb_str_c(&path), err);
    EBB_THEN(status, path_in(&path, dir, "weights.safetensors", err));
    EBB_THEN(status, save_file(ebb_str_c(&path), model != NULL ? model->tensors : NULL,
                               model != NULL ? model->tensor_count : 0, err));
    EBB_THEN(status, path_in(&path, dir, "optimizer.safetensors", err));
    EBB_THEN(status, save_file(ebb_str_c(&path), optim != NULL ? optim->tensors : NULL,
                               optim != NULL ? optim->tensor_count : 0, err));
    EBB_THEN(status, path_in(&path, dir, "train.json", err));
    if (status == EBB_OK) {
        int n = snprintf(text, sizeof text, "{\"batches\": %lld}\n", (long long)batches_done);
        status = ebb_file_write_atomic(ebb_str_c(&path), text, (size_t)n, err);
    }
    ebb_str_fini(&path);
    return status;
}

/* ---- loading ---- */

/* One array: dtype and shape must be what the file says. */
static enum ebb_status load_tensor(const char *path, const struct tensor_file *file,
                                   const ebb_tensor *t, struct ebb_error *err)
{
    struct tensor_view view;
    EBB_TRY(view_of(t, &view, err));
    const struct tensor_entry *entry = tensor_file_find(file, t->name);
    if (entry == NULL)
        return ebb_fail(err, EBB_EINPUT, "%s has no tensor '%s'", path, t->name);
    if (entry->view.dtype != view.dtype || !tensor_same_shape(&entry->view, &view))
        return ebb_fail(err, EBB_EINPUT,
                        "%s: tensor '%s' has another dtype or shape than the model: the "
                        "checkpoint is of a different model",
                        path, t->name);
    memcpy(t->data, entry->data, entry->bytes);
    return EBB_OK;
}

enum ebb_status worker_state_parse(const char *path, const char *data, size_t length,
                                   const ebb_tensor *tensors, size_t count, struct ebb_error *err)
{
    struct tensor_file file;
    enum ebb_status status = tensor_file_read(&file, path, data, length, err);
    if (status != EBB_OK)
        return status == EBB_EINPUT ? ebb_context(err, EBB_ECORRUPT, "damaged") : status;
    for (size_t i = 0; i < count && status == EBB_OK; i++)
        status = load_tensor(path, &file, &tensors[i], err);
    tensor_file_fini(&file);
    return status;
}

static enum ebb_status load_file(const char *dir, const char *name, const ebb_tensor *tensors,
                                 size_t count, struct ebb_error *err)
{
    struct ebb_str path = {0};
    struct ebb_file_view view;
    enum ebb_status status = path_in(&path, dir, name, err);
    EBB_THEN(status, ebb_file_view_open(&view, ebb_str_c(&path), STATE_MAX_BYTES, err));
    if (status == EBB_OK) {
        status = worker_state_parse(ebb_str_c(&path), view.data, view.length, tensors, count, err);
        ebb_file_view_close(&view);
    }
    ebb_str_fini(&path);
    return status;
}

enum ebb_status worker_state_load(const char *dir, struct ebb_model *model, struct ebb_optim *optim,
                                  struct ebb_error *err)
{
    if (model != NULL)
        EBB_TRY(load_file(dir, "weights.safetensors", model->tensors, model->tensor_count, err));
    if (optim != NULL)
        EBB_TRY(load_file(dir, "optimizer.safetensors", optim->tensors, optim->tensor_count, err));
    return EBB_OK;
}
