/* safetensors.c - named tensors in one file: 8 bytes of header length, a JSON header, raw data.
 *
 * The reader trusts nothing: every size is checked against the bytes that are there. Data is not
 * copied. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/str.h"
#include "tensor/internal.h"

#define MAX_HEADER (UINT64_C(100) << 20) /* as in the format's own reader */

struct reader {
    struct ebb_json json;
    struct tensor_file *file;
    const char *name;
    size_t capacity;
    const unsigned char *data;
    uint64_t data_bytes;
};

static enum ebb_status wrong(const struct reader *r, const struct ebb_json_event *e,
                             const char *what, struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINPUT, "%s: header, byte %u: %s", r->name, e->column + 7, what);
}

static enum ebb_status read_dtype(struct reader *r, struct tensor_view *view, struct ebb_error *err)
{
    struct ebb_json_event e;
    EBB_TRY(ebb_json_next(&r->json, &e, err));
    for (int i = 0; e.kind == EBB_JSON_STRING && i < TENSOR_DTYPE_COUNT; i++) {
        const char *name = tensor_dtype_name((enum tensor_dtype)i);
        if (strlen(name) == e.length && memcmp(name, e.text, e.length) == 0) {
            view->dtype = (uint8_t)i;
            return EBB_OK;
        }
    }
    return wrong(
        r, &e,
        "dtype must be F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I16, I8, U64, U32, "
        "U16, U8 or BOOL",
        err);
}

/* A list of at most `limit` integers >= 0. */
static enum ebb_status read_integers(struct reader *r, int64_t *values, int limit, int *count,
                                     struct ebb_error *err)
{
    struct ebb_json_event e;
    *count = 0;
    EBB_TRY(ebb_json_next(&r->json, &e, err));
    if (e.kind != EBB_JSON_ARRAY)
        return wrong(r, &e, "a list of integers is needed", err);
    for (;;) {
        EBB_TRY(ebb_json_next(&r->json, &e, err));
        if (e.kind == EBB_JSON_ARRAY_END)
            return EBB_OK;
        if (e.kind != EBB_JSON_INT || e.integer < 0 || *count == limit)
            return wrong(r, &e, "integers >= 0, at most 8, are needed", err);
        values[(*count)++] = e.integer;
    }
}

static enum ebb_status check_range(const struct reader *r, struct tensor_entry *entry,
                                   const int64_t *range, const struct ebb_json_event *e,
                                   struct ebb_error *err)
{
    uint64_t bytes = tensor_dtype_bytes(entry->view.dtype);
    for (int i = 0; i < entry->view.rank; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)entry->view.dims[i], &bytes))
            return wrong(r, e, "shape is too large", err);
    if (range[0] > range[1] || (uint64_t)range[1] > r->data_bytes)
        return wrong(r, e, "data_offsets leave the file", err);
    if ((uint64_t)(range[1] - range[0]) != bytes)
        return wrong(r, e, "data_offsets do not match the shape", err);
    entry->data = r->data + range[0];
    entry->bytes = (size_t)bytes;
    return EBB_OK;
}

static enum ebb_status read_entry(struct reader *r, struct tensor_entry *entry,
                                  struct ebb_error *err)
{
    struct ebb_json_event e;
    int64_t range[2] = {0, 0}, dims[TENSOR_RANK] = {0};
    int rank = -1, range_count = 0, have_dtype = 0;
    EBB_TRY(ebb_json_next(&r->json, &e, err));
    if (e.kind != EBB_JSON_OBJECT)
        return wrong(r, &e, "a tensor must be an object", err);
    for (;;) {
        EBB_TRY(ebb_json_next(&r->json, &e, err));
        if (e.kind == EBB_JSON_OBJECT_END)
            break;
        if (e.length == 5 && memcmp(e.text, "dtype", 5) == 0 && !have_dtype) {
            have_dtype = 1;
            EBB_TRY(read_dtype(r, &entry->view, err));
        } else if (e.length == 5 && memcmp(e.text, "shape", 5) == 0 && rank < 0) {
            EBB_TRY(read_integers(r, dims, TENSOR_RANK, &rank, err));
        } else if (e.length == 12 && memcmp(e.text, "data_offsets", 12) == 0 && !range_count) {
            EBB_TRY(read_integers(r, range, 2, &range_count, err));
        } else {
            return wrong(r, &e, "keys of a tensor are dtype, shape, data_offsets, once each", err);
        }
    }
    if (!have_dtype || rank < 0 || range_count != 2)
        return wrong(r, &e, "a tensor needs dtype, shape and data_offsets", err);
    uint64_t elements = 1;
    for (int i = 0; i < rank; i++)
        if (dims[i] && (__builtin_mul_overflow(elements, (uint64_t)dims[i], &elements) ||
                        elements > INT64_MAX / 8))
            return wrong(r, &e, "shape is too large", err);
    tensor_view_init(&entry->view, entry->view.dtype, rank, dims);
    return check_range(r, entry, range, &e, err);
}

static enum ebb_status read_member(struct reader *r, const struct ebb_json_event *key,
                                   struct ebb_error *err)
{
    struct tensor_file *f = r->file;
    struct ebb_json_event e = *key;
    if (key->length == 12 && memcmp(key->text, "__metadata__", 12) == 0) {
        EBB_TRY(ebb_json_next(&r->json, &e, err));
        if (e.kind != EBB_JSON_OBJECT)
            return wrong(r, &e, "__metadata__ must be an object", err);
        return ebb_json_skip(&r->json, &e, err);
    }
    if (memchr(key->text, '\0', key->length))
        return wrong(r, key, "a name holds a zero byte", err);
    if (ebb_strmap_get(&f->index, key->text, key->length, NULL))
        return wrong(r, key, "a name occurs twice", err);
    struct ebb_error why = {0};
    struct tensor_entry *entry =
        tensor_file_add(f, &r->capacity, key->text, key->length, err ? err : &why);
    if (!entry)
        return EBB_ENOMEM;
    EBB_TRY(read_entry(r, entry, err));
    f->count++;
    return EBB_OK;
}

static int by_data(const void *a, const void *b)
{
    const struct tensor_entry *const *x = a, *const *y = b;
    uintptr_t p = (uintptr_t)(*x)->data, q = (uintptr_t)(*y)->data;
    if (p != q)
        return p < q ? -1 : 1;
    return ((*x)->bytes > (*y)->bytes) - ((*x)->bytes < (*y)->bytes); /* empty ones first */
}

/* Ranges, by address, must follow each other without holes and end with the file. */
static enum ebb_status check_layout(struct reader *r, struct ebb_error *err)
{
    struct tensor_file *f = r->file;
    const unsigned char *at = r->data;
    const struct tensor_entry **order = ebb_arena_calloc(&f->arena, f->count + 1, sizeof *order);
    EBB_TRY(ebb_arena_status(&f->arena, err));
    for (size_t i = 0; i < f->count; i++)
        order[i] = &f->entries[i];
    qsort(order, f->count, sizeof *order, by_data);
    for (size_t i = 0; i < f->count; i++) {
        if (order[i]->data != at)
            return ebb_fail(
                err, EBB_EINPUT, "%s: tensor '%s' starts at data byte %td, expected %td", r->name,
                order[i]->name, (const unsigned char *)order[i]->data - r->data, at - r->data);
        at += order[i]->bytes;
    }
    if ((uint64_t)(at - r->data) != r->data_bytes)
        return ebb_fail(err, EBB_EINPUT, "%s: %" PRIu64 " data bytes, tensors use %td", r->name,
                        r->data_bytes, at - r->data);
    return EBB_OK;
}

static enum ebb_status read_header(struct reader *r, struct ebb_error *err)
{
    struct ebb_json_event e;
    EBB_TRY(ebb_json_next(&r->json, &e, err));
    if (e.kind != EBB_JSON_OBJECT)
        return wrong(r, &e, "the header must be an object", err);
    for (;;) {
        EBB_TRY(ebb_json_next(&r->json, &e, err));
        if (e.kind == EBB_JSON_OBJECT_END)
            break;
        EBB_TRY(read_member(r, &e, err));
    }
    EBB_TRY(ebb_json_next(&r->json, &e, err)); /* nothing but blanks may follow */
    return check_layout(r, err);
}

static enum ebb_status read_safetensors(struct tensor_file *f, const char *name, const void *bytes,
                                        size_t length, struct ebb_error *err)
{
    const unsigned char *p = bytes;
    if (length < 8)
        return ebb_fail(err, EBB_EINPUT, "%s: %zu bytes, a header needs 8", name, length);
    uint64_t header = ebb_load_u64(p);
    if (memcmp(p, "\x80\2\x8a\12\x6c\xfc\x9c\x46", 8) == 0)
        return ebb_fail(
            err, EBB_EINPUT,
            "%s: a file of torch before 1.6: load it and save it again with a newer one", name);
    if (header > length - 8 || header > MAX_HEADER)
        return ebb_fail(err, EBB_EINPUT, "%s: header of %" PRIu64 " bytes in a file of %zu", name,
                        header, length);
    struct reader r = {
        .file = f, .name = name, .data = p + 8 + header, .data_bytes = length - 8 - header};
    ebb_json_init(&r.json, name, (const char *)p + 8, (size_t)header, EBB_JSON_ONE);
    enum ebb_status status = read_header(&r, err);
    ebb_json_fini(&r.json);
    return status;
}

enum ebb_status tensor_file_read(struct tensor_file *file, const char *name, const void *bytes,
                                 size_t length, struct ebb_error *err)
{
    struct tensor_file f = {0};
    bool is_zip = length > 4 && memcmp(bytes, "PK\3\4", 4) == 0;
    ebb_arena_init(&f.arena);
    ebb_strmap_init(&f.index);
    enum ebb_status status = is_zip ? tensor_zip_read(&f, name, bytes, length, err)
                                    : read_safetensors(&f, name, bytes, length, err);
    if (status == EBB_OK)
        *file = f;
    else
        tensor_file_fini(&f);
    return status;
}

struct tensor_entry *tensor_file_add(struct tensor_file *f, size_t *capacity, const char *name,
                                     size_t length, struct ebb_error *err)
{
    if (f->count == *capacity) { /* an arena cannot grow in place: double */
        size_t more = *capacity ? 2 * *capacity : 32;
        struct tensor_entry *bigger = ebb_arena_calloc(&f->arena, more, sizeof *bigger);
        if (bigger && f->count)
            memcpy(bigger, f->entries, f->count * sizeof *bigger);
        if (bigger) {
            f->entries = bigger;
            *capacity = more;
        }
    }
    char *copy = ebb_arena_strndup(&f->arena, name, length);
    if (ebb_arena_status(&f->arena, err) != EBB_OK ||
        ebb_strmap_put(&f->index, name, length, f->count, err) != EBB_OK)
        return NULL;
    struct tensor_entry *entry = &f->entries[f->count];
    *entry = (struct tensor_entry){.name = copy};
    return entry;
}

void tensor_file_fini(struct tensor_file *file)
{
    ebb_strmap_fini(&file->index);
    ebb_arena_fini(&file->arena);
    file->entries = NULL;
    file->count = 0;
}

const struct tensor_entry *tensor_file_find(const struct tensor_file *file, const char *name)
{
    uint64_t at;
    return ebb_strmap_get(&file->index, name, strlen(name), &at) ? &file->entries[at] : NULL;
}

/* ---- writing -------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct tensor_to_write *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void write_header(struct ebb_str *out, const struct tensor_to_write **order, size_t count)
{
    struct ebb_json_writer w;
    uint64_t at = 0;
    ebb_jsonw_init(&w, out, 0);
    ebb_jsonw_object(&w);
    for (size_t i = 0; i < count; i++) {
        const struct tensor_view *v = &order[i]->view;
        uint64_t bytes = (uint64_t)tensor_count(v) * tensor_dtype_bytes(v->dtype);
        ebb_jsonw_key(&w, order[i]->name);
        ebb_jsonw_object(&w);
        ebb_jsonw_key(&w, "dtype");
        ebb_jsonw_string(&w, tensor_dtype_name(v->dtype));
        ebb_jsonw_key(&w, "shape");
        ebb_jsonw_array(&w);
        for (int d = 0; d < v->rank; d++)
            ebb_jsonw_int(&w, v->dims[d]);
        ebb_jsonw_array_end(&w);
        ebb_jsonw_key(&w, "data_offsets");
        ebb_jsonw_array(&w);
        ebb_jsonw_uint(&w, at);
        ebb_jsonw_uint(&w, at += bytes);
        ebb_jsonw_array_end(&w);
        ebb_jsonw_object_end(&w);
    }
    ebb_jsonw_object_end(&w);
}

struct target {
    FILE *stream;
    const char *path;
};

static enum ebb_status to_stream(void *context, const void *bytes, size_t count,
                                 struct ebb_error *err)
{
    const struct target *to = context;
    if (fwrite(bytes, 1, count, to->stream) == count)
        return EBB_OK;
    return ebb_fail(err, ebb_errno_status(errno), "cannot write %s: %s", to->path, strerror(errno));
}

static enum ebb_status write_all(struct ebb_file_out *out, const struct ebb_str *header,
                                 const struct tensor_to_write **order, size_t count,
                                 const char *path, struct ebb_error *err)
{
    unsigned char size[8];
    const char *text = ebb_str_c(header);
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    struct target to = {out->stream, path};
    ebb_store_u64(size, padded);
    EBB_TRY(to_stream(&to, size, sizeof size, err));
    EBB_TRY(to_stream(&to, text, length, err));
    EBB_TRY(to_stream(&to, "       ", padded - length, err));
    for (size_t i = 0; i < count; i++) {
        size_t bytes =
            (size_t)tensor_count(&order[i]->view) * tensor_dtype_bytes(order[i]->view.dtype);
        if (bytes > 0)
            EBB_TRY(order[i]->read ? order[i]->read(order[i]->data, to_stream, &to, err)
                                   : to_stream(&to, order[i]->data, bytes, err));
    }
    return ebb_file_out_commit(out, err);
}

enum ebb_status tensor_file_write(const char *path, const struct tensor_to_write *items,
                                  size_t count, struct ebb_error *err)
{
    size_t n = strlen(path);
    if (n > 4 && strcmp(path + n - 4, ".npz") == 0)
        return tensor_npz_write(path, items, count, err);
    struct ebb_str header = {0};
    struct ebb_file_out out = {0};
    const struct tensor_to_write **order;
    EBB_TRY(ebb_new(&order, count, sizeof *order, err));
    for (size_t i = 0; i < count; i++)
        order[i] = &items[i];
    qsort(order, count, sizeof *order, by_name);
    write_header(&header, order, count);
    enum ebb_status status = ebb_str_status(&header, err);
    if (status == EBB_OK)
        status = ebb_file_out_open(&out, path, err);
    if (status == EBB_OK) {
        status = write_all(&out, &header, order, count, path, err);
        ebb_file_out_abort(&out);
    }
    ebb_str_fini(&header);
    ebb_free(order);
    return status;
}
