/* zip.c - zip files: those of torch.save, which hold a pickle and raw storages, and those of numpy,
 * which hold arrays. The directory at the end is believed only as far as it fits the bytes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/codec.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/npy.h"
#include "tensor/internal.h"

#define MAX_MEMBERS 1000000
#define EXPANSION 1032 /* deflate cannot do more (zlib's own bound) */

struct source {
    const char *name;
    const unsigned char *bytes;
    uint64_t length;
};

static enum ebb_status wrong(const void *source, uint64_t at, const char *what,
                             struct ebb_error *err)
{
    const struct source *s = source;
    return ebb_fail(err, EBB_EINPUT, "%s: byte %" PRIu64 ": zip: %s", s->name, at, what);
}

/* ---- the directory --------------------------------------------------------------------------- */

static enum ebb_status read_bytes(const void *source, uint64_t at, void *out, size_t n,
                                  struct ebb_error *err)
{
    const struct source *s = source;
    if (at > s->length || n > s->length - at)
        return wrong(s, at, "bytes behind the end of the file", err);
    memcpy(out, s->bytes + at, n);
    return EBB_OK;
}

static enum ebb_status read_directory(const struct source *s, struct ebb_arena *arena,
                                      struct tensor_zip *zip, struct ebb_error *err)
{
    struct ebb_zip z = {.context = s, .length = s->length, .read = read_bytes, .wrong = wrong};
    EBB_TRY(ebb_zip_open(&z, err));
    uint64_t most = (z.end - z.at) / 46;
    if (most > MAX_MEMBERS)
        return wrong(s, z.at, "more than 1000000 members", err);
    zip->members = ebb_arena_calloc(arena, (size_t)most + 1, sizeof *zip->members);
    EBB_TRY(ebb_arena_status(arena, err));
    for (bool is_end = false;;) {
        struct tensor_member *m = &zip->members[zip->count];
        EBB_TRY(ebb_zip_next(&z, &m->zip, &is_end, err));
        if (is_end)
            return EBB_OK;
        m->name = (const char *)s->bytes + m->zip.name;
        m->data = s->bytes + m->zip.data;
        EBB_TRY(ebb_strmap_put(&zip->index, m->name, m->zip.name_length, zip->count++, err));
    }
}

struct tensor_member *tensor_zip_find(const struct tensor_zip *zip, const char *name, size_t length)
{
    uint64_t at;
    return ebb_strmap_get(&zip->index, name, length, &at) ? &zip->members[at] : NULL;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* The whole member in the arena. */
static const unsigned char *unpack(const struct source *s, const struct tensor_member *m,
                                   struct ebb_arena *arena, struct ebb_error *err)
{
    if (!m->zip.is_packed)
        return m->data;
    z_stream z = {0};
    if (m->zip.bytes / EXPANSION > m->zip.packed + 1 || m->zip.bytes > UINT32_MAX ||
        m->zip.packed > UINT32_MAX) {
        wrong(s, m->zip.data, "a member promises more than it can hold", err);
        return NULL;
    }
    unsigned char *out = ebb_arena_alloc(arena, (size_t)m->zip.bytes + 1);
    if (!out || inflateInit2(&z, -15) != Z_OK) {
        ebb_no_memory(err, (size_t)m->zip.bytes);
        return NULL;
    }
    z.next_in = (unsigned char *)(uintptr_t)m->data;
    z.avail_in = (unsigned)m->zip.packed;
    z.next_out = out;
    z.avail_out = (unsigned)m->zip.bytes;
    int code = inflate(&z, Z_FINISH);
    bool is_whole = code == Z_STREAM_END && z.avail_out == 0;
    inflateEnd(&z);
    if (is_whole)
        return out;
    wrong(s, m->zip.data, "compressed data are damaged", err);
    return NULL;
}

bool tensor_zip_prove(const struct tensor_member *m, const unsigned char *data)
{
    return (uint32_t)crc32_z(0, data, (z_size_t)m->zip.bytes) == m->zip.sum;
}

/* The bytes are those that were written. */
static enum ebb_status prove(const struct source *s, const struct tensor_member *m,
                             const unsigned char *data, struct ebb_error *err)
{
    return tensor_zip_prove(m, data)
               ? EBB_OK
               : wrong(s, m->zip.data, "an array was changed: its CRC-32 is another", err);
}

static const struct {
    char kind;
    enum tensor_dtype dtype;
} npy_types[] = {
    {'f', TENSOR_F32},  {'f', TENSOR_F16}, {'f', TENSOR_F64}, {'i', TENSOR_I64},
    {'i', TENSOR_I32},  {'i', TENSOR_I16}, {'i', TENSOR_I8},  {'u', TENSOR_U8},
    {'b', TENSOR_BOOL}, {'u', TENSOR_U16}, {'u', TENSOR_U32}, {'u', TENSOR_U64},
};
enum { NPY_TYPES = sizeof npy_types / sizeof *npy_types };

static enum ebb_status read_npy(const struct source *s, const struct tensor_member *m,
                                const unsigned char *data, struct tensor_entry *entry,
                                struct ebb_error *err)
{
    struct ebb_npy a;
    struct ebb_error why = {0};
    size_t type = 0;
    if (ebb_npy_read(data, (size_t)m->zip.bytes, &a, &why) != EBB_OK)
        return ebb_fail(err, EBB_EINPUT, "%s: '%.*s': %s", s->name, (int)m->zip.name_length,
                        m->name, why.message);
    while (type < NPY_TYPES && (npy_types[type].kind != a.kind ||
                                tensor_dtype_bytes(npy_types[type].dtype) != a.item_bytes))
        type++;
    if (type == NPY_TYPES || (a.is_big_endian && a.item_bytes > 1))
        return ebb_fail(err, EBB_EINPUT, "%s: '%.*s' has items that are not read here: %s%c%u",
                        s->name, (int)m->zip.name_length, m->name, a.is_big_endian ? ">" : "",
                        a.kind, a.item_bytes);
    bool is_fortran = a.is_fortran && a.rank > 1;
    if (is_fortran && a.rank != 2)
        return wrong(s, m->zip.data, "fortran_order of more than two dimensions is not read here",
                     err);
    if (a.data_bytes != m->zip.bytes - a.head_bytes)
        return wrong(s, m->zip.data, "the shape of an array and its bytes differ", err);
    tensor_view_init(&entry->view, npy_types[type].dtype, a.rank, a.dims);
    entry->data = data + a.head_bytes;
    entry->bytes = (size_t)a.data_bytes;
    entry->is_swapped = is_fortran;
    return EBB_OK;
}

static enum ebb_status read_arrays(const struct source *s, const struct tensor_zip *zip,
                                   struct tensor_file *f, struct ebb_error *err)
{
    size_t capacity = 0;
    for (size_t i = 0; i < zip->count; i++) {
        const struct tensor_member *m = &zip->members[i];
        size_t n = m->zip.name_length;
        if (n <= 4 || memcmp(m->name + n - 4, ".npy", 4) != 0 || memchr(m->name, '\0', n))
            return ebb_fail(err, EBB_EINPUT,
                            "%s: a zip without data.pkl (torch.save) and with other members than "
                            "arrays (numpy.savez): '%.*s'",
                            s->name, (int)(n < 100 ? n : 100), m->name);
        if (ebb_strmap_get(&f->index, m->name, n - 4, NULL))
            return wrong(s, 0, "a name occurs twice", err);
        const unsigned char *data = unpack(s, m, &f->arena, err);
        struct tensor_entry *entry =
            data ? tensor_file_add(f, &capacity, m->name, n - 4, err) : NULL;
        if (!entry)
            return err ? err->status : EBB_ENOMEM;
        EBB_TRY(prove(s, m, data, err));
        EBB_TRY(read_npy(s, m, data, entry, err));
        f->count++;
    }
    return EBB_OK;
}

enum ebb_status tensor_zip_read(struct tensor_file *file, const char *name, const void *bytes,
                                size_t length, struct ebb_error *err)
{
    struct source s = {name, bytes, length};
    struct tensor_zip zip = {.name = name};
    struct ebb_error own;
    err = err ? err : &own;
    ebb_strmap_init(&zip.index);
    enum ebb_status status = read_directory(&s, &file->arena, &zip, err);
    const struct tensor_member *pickle = NULL;
    size_t folder = 0;
    for (size_t i = 0; status == EBB_OK && i < zip.count && !pickle; i++) {
        const struct tensor_member *m = &zip.members[i];
        folder = m->zip.name_length >= 8 ? m->zip.name_length - 8 : 0;
        if (m->zip.name_length >= 8 && memcmp(m->name + folder, "data.pkl", 8) == 0)
            pickle = m;
    }
    if (status == EBB_OK && pickle)
        status = tensor_pickle_read(file, &zip, pickle->name, folder, pickle, err);
    else if (status == EBB_OK)
        status = read_arrays(&s, &zip, file, err);
    ebb_strmap_fini(&zip.index);
    return status;
}

/* ---- writing arrays -------------------------------------------------------------------------- */

struct written {
    FILE *stream; /* NULL: only counted */
    const char *path;
    uint32_t crc;
    uint64_t bytes;
};

static enum ebb_status to_crc(void *context, const void *bytes, size_t count, struct ebb_error *err)
{
    struct written *w = context;
    for (size_t at = 0; at < count;) {
        size_t n = count - at < (size_t)1 << 30 ? count - at : (size_t)1 << 30;
        w->crc = (uint32_t)crc32(w->crc, (const unsigned char *)bytes + at, (unsigned)n);
        at += n;
    }
    w->bytes += count;
    if (!w->stream || fwrite(bytes, 1, count, w->stream) == count)
        return EBB_OK;
    return ebb_fail(err, ebb_errno_status(errno), "cannot write %s: %s", w->path, strerror(errno));
}

static void npy_header(const struct tensor_view *v, struct ebb_str *out)
{
    struct ebb_npy a = {.rank = v->rank,
                        .item_bytes = (unsigned)tensor_dtype_bytes((enum tensor_dtype)v->dtype)};
    for (size_t i = 0; i < NPY_TYPES; i++)
        if (npy_types[i].dtype == (enum tensor_dtype)v->dtype)
            a.kind = npy_types[i].kind;
    for (int d = 0; d < v->rank; d++)
        a.dims[d] = v->dims[d];
    ebb_npy_write(&a, out);
}

static enum ebb_status give(const struct tensor_to_write *item, struct written *w,
                            struct ebb_error *err)
{
    size_t bytes =
        (size_t)tensor_count(&item->view) * tensor_dtype_bytes((enum tensor_dtype)item->view.dtype);
    if (bytes == 0)
        return EBB_OK;
    return item->read ? item->read(item->data, to_crc, w, err) : to_crc(w, item->data, bytes, err);
}

static void add_bytes(struct ebb_str *s, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++, value >>= 8)
        ebb_str_addc(s, (char)(value & 255));
}

/* What local header and directory share; sizes always in the zip64 field. */
static void member_head(struct ebb_str *s, const struct written *w, const char *name)
{
    add_bytes(s, 45, 2);    /* needs zip64 */
    add_bytes(s, 0x800, 2); /* names are UTF-8 */
    add_bytes(s, 0, 2);     /* stored */
    add_bytes(s, 0, 2);
    add_bytes(s, 33, 2); /* 1980-01-01: the same bytes whenever it is written */
    add_bytes(s, w->crc, 4);
    add_bytes(s, UINT32_MAX, 4);
    add_bytes(s, UINT32_MAX, 4);
    add_bytes(s, strlen(name) + 4, 2);
}

/* Twice: its checksum stands before it. */
static enum ebb_status write_member(const struct ebb_file_out *to, const char *path,
                                    const struct tensor_to_write *item, uint64_t at,
                                    struct ebb_str *directory, uint64_t *bytes,
                                    struct ebb_error *err)
{
    struct ebb_str head = {0}, npy = {0};
    struct written sum = {0};
    npy_header(&item->view, &npy);
    enum ebb_status status = ebb_str_status(&npy, err);
    EBB_THEN(status, to_crc(&sum, npy.data, npy.length, err));
    EBB_THEN(status, give(item, &sum, err));
    ebb_str_addn(&head, "PK\3\4", 4);
    member_head(&head, &sum, item->name);
    add_bytes(&head, 20, 2);
    ebb_str_printf(&head, "%s.npy", item->name);
    add_bytes(&head, 1, 2);
    add_bytes(&head, 16, 2);
    add_bytes(&head, sum.bytes, 8);
    add_bytes(&head, sum.bytes, 8);
    struct written out = {.stream = to->stream, .path = path};
    EBB_THEN(status, ebb_str_status(&head, err));
    EBB_THEN(status, to_crc(&out, head.data, head.length, err));
    out.crc = 0; /* of what follows */
    EBB_THEN(status, to_crc(&out, npy.data, npy.length, err));
    EBB_THEN(status, give(item, &out, err));
    if (status == EBB_OK && out.crc != sum.crc)
        status =
            ebb_fail(err, EBB_EINTERNAL, "%s: '%s' changed while it was written", path, item->name);
    *bytes = head.length + sum.bytes;
    ebb_str_addn(directory, "PK\1\2", 4);
    add_bytes(directory, 45, 2);
    member_head(directory, &sum, item->name);
    add_bytes(directory, 28, 2);
    add_bytes(directory, 0, 10); /* no comment, disk 0, attributes */
    add_bytes(directory, UINT32_MAX, 4);
    ebb_str_printf(directory, "%s.npy", item->name);
    add_bytes(directory, 1, 2);
    add_bytes(directory, 24, 2);
    add_bytes(directory, sum.bytes, 8);
    add_bytes(directory, sum.bytes, 8);
    add_bytes(directory, at, 8);
    ebb_str_fini(&head);
    ebb_str_fini(&npy);
    return status;
}

static void write_end(struct ebb_str *s, uint64_t at, uint64_t bytes, size_t count)
{
    uint64_t record = at + bytes;
    ebb_str_addn(s, "PK\6\6", 4);
    add_bytes(s, 44, 8);
    add_bytes(s, 45, 2);
    add_bytes(s, 45, 2);
    add_bytes(s, 0, 8);
    add_bytes(s, count, 8);
    add_bytes(s, count, 8);
    add_bytes(s, bytes, 8);
    add_bytes(s, at, 8);
    ebb_str_addn(s, "PK\6\7", 4);
    add_bytes(s, 0, 4);
    add_bytes(s, record, 8);
    add_bytes(s, 1, 4);
    ebb_str_addn(s, "PK\5\6", 4);
    add_bytes(s, 0, 4);
    add_bytes(s, UINT16_MAX, 2);
    add_bytes(s, UINT16_MAX, 2);
    add_bytes(s, UINT32_MAX, 4);
    add_bytes(s, UINT32_MAX, 4);
    add_bytes(s, 0, 2);
}

enum ebb_status tensor_npz_write(const char *path, const struct tensor_to_write *items,
                                 size_t count, struct ebb_error *err)
{
    struct ebb_file_out out = {0};
    struct ebb_str directory = {0};
    uint64_t at = 0, bytes = 0;
    for (size_t i = 0; i < count; i++)
        if (items[i].view.dtype == TENSOR_BF16 || items[i].view.dtype >= TENSOR_F8_E4M3)
            return ebb_fail(err, EBB_EUNSUPPORTED,
                            "%s: '%s' is %s, which numpy has not: write "
                            ".safetensors",
                            path, items[i].name,
                            tensor_dtype_name((enum tensor_dtype)items[i].view.dtype));
    EBB_TRY(ebb_file_out_open(&out, path, err));
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < count && status == EBB_OK; i++, at += bytes)
        status = write_member(&out, path, &items[i], at, &directory, &bytes, err);
    size_t length = directory.length;
    write_end(&directory, at, length, count);
    struct written last = {.stream = out.stream, .path = path};
    EBB_THEN(status, ebb_str_status(&directory, err));
    EBB_THEN(status, to_crc(&last, directory.data, directory.length, err));
    EBB_THEN(status, ebb_file_out_commit(&out, err));
    ebb_file_out_abort(&out);
    ebb_str_fini(&directory);
    return status;
}
