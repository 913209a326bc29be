/* library_state.c - default checkpoint of a shared-object trial: the named arrays of its model and
 * optimizer, as safetensors. Loading reads outside bytes: every number in the file is checked
 * against the file's length and the array it is for. */
#include "worker/internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include <ebb.h>

#define STATE_MAX_BYTES ((size_t)1 << 40)
#define HEADER_MAX_BYTES ((size_t)16 << 20)

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [EBB_F32] = {"F32", 4},   [EBB_F64] = {"F64", 8}, [EBB_F16] = {"F16", 2},
    [EBB_BF16] = {"BF16", 2}, [EBB_I64] = {"I64", 8}, [EBB_I32] = {"I32", 4},
    [EBB_U8] = {"U8", 1},
};

static enum ebb_status tensor_bytes(const ebb_tensor *t, size_t *bytes, struct ebb_error *err)
{
    if (t->name == NULL || t->rank < 0 || t->rank > 8 || (unsigned)t->dtype > EBB_U8 ||
        t->data == NULL)
        return ebb_fail(err, EBB_EINPUT, "tensor '%s': bad dtype, rank or data",
                        t->name != NULL ? t->name : "");
    size_t n = dtypes[t->dtype].bytes;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0 || !ebb_mul_size(n, (size_t)t->shape[i], &n))
            return ebb_fail(err, EBB_EINPUT, "tensor '%s': bad shape", t->name);
    *bytes = n;
    return EBB_OK;
}

/* ---- saving ---- */

static enum ebb_status write_header(const ebb_tensor *tensors, size_t count, struct ebb_str *header,
                                    struct ebb_error *err)
{
    struct ebb_json_writer w;
    size_t at = 0;
    ebb_jsonw_init(&w, header, 0);
    ebb_jsonw_object(&w);
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        EBB_TRY(tensor_bytes(&tensors[i], &bytes, err));
        ebb_jsonw_key(&w, tensors[i].name);
        ebb_jsonw_object(&w);
        ebb_jsonw_key(&w, "dtype");
        ebb_jsonw_string(&w, dtypes[tensors[i].dtype].name);
        ebb_jsonw_key(&w, "shape");
        ebb_jsonw_array(&w);
        for (int d = 0; d < tensors[i].rank; d++)
            ebb_jsonw_int(&w, tensors[i].shape[d]);
        ebb_jsonw_array_end(&w);
        ebb_jsonw_key(&w, "data_offsets");
        ebb_jsonw_array(&w);
        ebb_jsonw_uint(&w, at);
        ebb_jsonw_uint(&w, at + bytes);
        ebb_jsonw_array_end(&w);
        ebb_jsonw_object_end(&w);
        at += bytes;
    }
    ebb_jsonw_object_end(&w);
    while (header->length % 8 != 0)
        ebb_str_addc(header, ' ');
    return ebb_str_status(header, err);
}

static enum ebb_status save_file(const char *path, const ebb_tensor *tensors, size_t count,
                                 struct ebb_error *err)
{
    struct ebb_str header;
    struct ebb_file_out out;
    ebb_str_init(&header);
    enum ebb_status status = write_header(tensors, count, &header, err);
    if (status == EBB_OK)
        status = ebb_file_out_open(&out, path, err);
    if (status == EBB_OK) {
        uint8_t length[8];
        for (int i = 0; i < 8; i++)
            length[i] = (uint8_t)((uint64_t)header.length >> (8 * i));
        fwrite(length, 1, sizeof length, out.stream);
        fwrite(header.data, 1, header.length, out.stream);
        for (size_t i = 0; i < count; i++) {
            size_t bytes = 0;
            tensor_bytes(&tensors[i], &bytes, NULL);
            fwrite(tensors[i].data, 1, bytes, out.stream);
        }
        status = ebb_file_out_commit(&out, err); /* tells of write errors */
        if (status != EBB_OK)
            ebb_file_out_abort(&out);
    }
    ebb_str_fini(&header);
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
    struct ebb_str path;
    char text[64];
    ebb_str_init(&path);
    ebb_str_printf(&path, "%s/state", dir);
    enum ebb_status status = ebb_file_mkdirs(ebb_str_c(&path), err);
    if (status == EBB_OK)
        status = path_in(&path, dir, "weights.safetensors", err);
    if (status == EBB_OK)
        status = save_file(ebb_str_c(&path), model != NULL ? model->tensors : NULL,
                           model != NULL ? model->tensor_count : 0, err);
    if (status == EBB_OK)
        status = path_in(&path, dir, "optimizer.safetensors", err);
    if (status == EBB_OK)
        status = save_file(ebb_str_c(&path), optim != NULL ? optim->tensors : NULL,
                           optim != NULL ? optim->tensor_count : 0, err);
    if (status == EBB_OK)
        status = path_in(&path, dir, "train.json", err);
    if (status == EBB_OK) {
        int n = snprintf(text, sizeof text, "{\"batches\": %lld}\n", (long long)batches_done);
        status = ebb_file_write_atomic(ebb_str_c(&path), text, (size_t)n, err);
    }
    ebb_str_fini(&path);
    return status;
}

/* ---- loading ---- */

/* One array: dtype, shape and place must be what the file says. */
static enum ebb_status load_tensor(const char *path, const struct ebb_doc_node *header,
                                   const char *data, size_t length, const ebb_tensor *t,
                                   struct ebb_error *err)
{
    size_t bytes;
    EBB_TRY(tensor_bytes(t, &bytes, err));
    const struct ebb_doc_node *node = ebb_doc_get(header, t->name);
    if (node == NULL)
        return ebb_fail(err, EBB_EINPUT, "%s has no tensor '%s'", path, t->name);
    const struct ebb_doc_node *shape = ebb_doc_get(node, "shape");
    const struct ebb_doc_node *offsets = ebb_doc_get(node, "data_offsets");
    bool is_same = strcmp(ebb_doc_string(node, "dtype", ""), dtypes[t->dtype].name) == 0 &&
                   shape != NULL && shape->kind == EBB_DOC_LIST && shape->count == (size_t)t->rank;
    for (int i = 0; is_same && i < t->rank; i++)
        is_same = shape->items[i]->kind == EBB_DOC_INT && shape->items[i]->integer == t->shape[i];
    if (!is_same)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: tensor '%s' has another dtype or shape than the model: the "
                        "checkpoint is of a different model",
                        path, t->name);
    if (offsets == NULL || offsets->kind != EBB_DOC_LIST || offsets->count != 2 ||
        offsets->items[0]->kind != EBB_DOC_INT || offsets->items[1]->kind != EBB_DOC_INT)
        return ebb_fail(err, EBB_ECORRUPT, "%s: tensor '%s' has no data_offsets", path, t->name);
    int64_t from = offsets->items[0]->integer, to = offsets->items[1]->integer;
    if (from < 0 || to < from || (uint64_t)to > length || (uint64_t)(to - from) != bytes)
        return ebb_fail(err, EBB_ECORRUPT,
                        "%s: tensor '%s' lies at bytes %lld to %lld of %zu, needs %zu", path,
                        t->name, (long long)from, (long long)to, length, bytes);
    memcpy(t->data, data + from, bytes);
    return EBB_OK;
}

enum ebb_status worker_state_parse(const char *path, const char *data, size_t length,
                                   const ebb_tensor *tensors, size_t count, struct ebb_error *err)
{
    uint64_t header_length = 0;
    if (length < 8)
        return ebb_fail(err, EBB_ECORRUPT, "%s: %zu bytes are too few", path, length);
    for (int i = 0; i < 8; i++)
        header_length |= (uint64_t)(uint8_t)data[i] << (8 * i);
    if (header_length > length - 8 || header_length > HEADER_MAX_BYTES)
        return ebb_fail(err, EBB_ECORRUPT, "%s: header of %llu bytes in a file of %zu", path,
                        (unsigned long long)header_length, length);
    struct ebb_arena arena; /* of the header */
    const struct ebb_doc_node *header = NULL;
    ebb_arena_init(&arena);
    enum ebb_status status =
        ebb_doc_parse_json(&arena, path, data + 8, (size_t)header_length, &header, err);
    for (size_t i = 0; i < count && status == EBB_OK; i++)
        status = load_tensor(path, header, data + 8 + header_length,
                             length - 8 - (size_t)header_length, &tensors[i], err);
    ebb_arena_fini(&arena);
    return status;
}

static enum ebb_status load_file(const char *dir, const char *name, const ebb_tensor *tensors,
                                 size_t count, struct ebb_error *err)
{
    struct ebb_str path;
    struct ebb_file_view view;
    ebb_str_init(&path);
    enum ebb_status status = path_in(&path, dir, name, err);
    if (status == EBB_OK)
        status = ebb_file_view_open(&view, ebb_str_c(&path), STATE_MAX_BYTES, err);
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
