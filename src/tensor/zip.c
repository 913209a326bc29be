/* zip.c - zip files: those of torch.save, which hold a pickle and raw storages, and those of numpy,
 * which hold arrays. The directory at the end is believed only as far as it fits the bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/codec.h"
#include "base/file.h"
#include "base/heap.h"
#include "tensor/internal.h"

#define MAX_MEMBERS 1000000
#define EXPANSION 1032 /* deflate cannot do more (zlib's own bound) */

struct source {
    const char *name;
    const unsigned char *bytes;
    uint64_t length;
};

static enum ebb_status wrong(const struct source *s, uint64_t at, const char *what,
                             struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINPUT, "%s: byte %" PRIu64 ": zip: %s", s->name, at, what);
}

/* ---- the directory --------------------------------------------------------------------------- */

static enum ebb_status find_directory(const struct source *s, uint64_t *at, uint64_t *bytes,
                                      struct ebb_error *err)
{
    uint64_t most = s->length < 65557 ? s->length : 65557;
    for (uint64_t back = 22; back <= most; back++) { /* a comment may follow */
        uint64_t place = s->length - back;
        const unsigned char *p = s->bytes + place;
        if (memcmp(p, "PK\5\6", 4) != 0)
            continue;
        *bytes = ebb_load_bytes(p + 12, 4);
        *at = ebb_load_bytes(p + 16, 4);
        if ((*at == UINT32_MAX || *bytes == UINT32_MAX) && place >= 20) { /* zip64 */
            uint64_t record = ebb_load_u64(p - 20 + 8);
            if (memcmp(p - 20, "PK\6\7", 4) != 0 || s->length < 56 || record > s->length - 56)
                return wrong(s, place - 20, "no zip64 record", err);
            *bytes = ebb_load_u64(s->bytes + record + 40);
            *at = ebb_load_u64(s->bytes + record + 48);
        }
        if (*at > s->length || *bytes > s->length - *at)
            return wrong(s, place, "the directory lies outside the file", err);
        return EBB_OK;
    }
    return wrong(s, s->length, "no directory at the end of the file", err);
}

/* Sizes of 64 bits stand in the extra field, in this order, where the short ones are full. */
static void read_extra(const unsigned char *p, size_t n, uint64_t *bytes, uint64_t *packed,
                       uint64_t *local)
{
    uint64_t *wide[] = {bytes, packed, local};
    for (size_t i = 0; i + 4 <= n;) {
        size_t id = (size_t)ebb_load_bytes(p + i, 2), size = (size_t)ebb_load_bytes(p + i + 2, 2);
        size_t from = i + 4, end = size <= n - from ? from + size : n;
        for (int k = 0; id == 1 && k < 3; k++)
            if (*wide[k] == UINT32_MAX && from + 8 <= end) {
                *wide[k] = ebb_load_u64(p + from);
                from += 8;
            }
        i += 4 + size;
    }
}

static enum ebb_status read_member(const struct source *s, const unsigned char *head, size_t extra,
                                   struct tensor_member *m, struct ebb_error *err)
{
    uint64_t local = ebb_load_bytes(head + 42, 4);
    m->method = (unsigned)ebb_load_bytes(head + 10, 2);
    m->packed = ebb_load_bytes(head + 20, 4);
    m->bytes = ebb_load_bytes(head + 24, 4);
    m->name = (const char *)head + 46;
    m->name_length = (size_t)ebb_load_bytes(head + 28, 2);
    read_extra(head + 46 + m->name_length, extra, &m->bytes, &m->packed, &local);
    if (s->length < 30 || local > s->length - 30 || memcmp(s->bytes + local, "PK\3\4", 4) != 0)
        return wrong(s, local, "no local header", err);
    uint64_t at = local + 30 + ebb_load_bytes(s->bytes + local + 26, 2) +
                  ebb_load_bytes(s->bytes + local + 28, 2);
    if (at > s->length || m->packed > s->length - at)
        return wrong(s, local, "a member leaves the file", err);
    if (m->method == 0 && m->packed != m->bytes)
        return wrong(s, local, "a stored member has two sizes", err);
    if (m->method != 0 && m->method != 8)
        return wrong(s, local, "a member is packed in a way that is not read here", err);
    m->data = s->bytes + at;
    return EBB_OK;
}

static enum ebb_status read_directory(const struct source *s, struct ebb_arena *arena,
                                      struct tensor_zip *zip, struct ebb_error *err)
{
    uint64_t at = 0, bytes = 0;
    EBB_TRY(find_directory(s, &at, &bytes, err));
    if (bytes / 46 > MAX_MEMBERS)
        return wrong(s, at, "more than 1000000 members", err);
    zip->members = ebb_arena_calloc(arena, (size_t)(bytes / 46) + 1, sizeof *zip->members);
    EBB_TRY(ebb_arena_status(arena, err));
    for (uint64_t end = at + bytes; end - at >= 46;) {
        const unsigned char *head = s->bytes + at;
        size_t n = (size_t)ebb_load_bytes(head + 28, 2),
               extra = (size_t)ebb_load_bytes(head + 30, 2);
        uint64_t all = 46 + n + extra + ebb_load_bytes(head + 32, 2);
        if (memcmp(head, "PK\1\2", 4) != 0 || all > end - at)
            return wrong(s, at, "a damaged directory", err);
        struct tensor_member *m = &zip->members[zip->count];
        EBB_TRY(read_member(s, head, extra, m, err));
        EBB_TRY(ebb_strmap_put(&zip->index, m->name, m->name_length, zip->count++, err));
        at += all;
    }
    return EBB_OK;
}

const struct tensor_member *tensor_zip_find(const struct tensor_zip *zip, const char *name,
                                            size_t length)
{
    uint64_t at;
    return ebb_strmap_get(&zip->index, name, length, &at) ? &zip->members[at] : NULL;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* The whole member in the arena. */
static const unsigned char *unpack(const struct source *s, const struct tensor_member *m,
                                   struct ebb_arena *arena, struct ebb_error *err)
{
    if (m->method == 0)
        return m->data;
    z_stream z = {0};
    if (m->bytes / EXPANSION > m->packed + 1 || m->bytes > UINT32_MAX || m->packed > UINT32_MAX) {
        wrong(s, (uint64_t)(m->data - s->bytes), "a member promises more than it can hold", err);
        return NULL;
    }
    unsigned char *out = ebb_arena_alloc(arena, (size_t)m->bytes + 1);
    if (!out || inflateInit2(&z, -15) != Z_OK) {
        ebb_no_memory(err, (size_t)m->bytes);
        return NULL;
    }
    z.next_in = (unsigned char *)(uintptr_t)m->data;
    z.avail_in = (unsigned)m->packed;
    z.next_out = out;
    z.avail_out = (unsigned)m->bytes;
    int code = inflate(&z, Z_FINISH);
    bool is_whole = code == Z_STREAM_END && z.avail_out == 0;
    inflateEnd(&z);
    if (is_whole)
        return out;
    wrong(s, (uint64_t)(m->data - s->bytes), "compressed data are damaged", err);
    return NULL;
}

/* Text after "'key':" in the header's dictionary, or NULL. */
static const char *dict_value(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    at = at ? at + strlen(key) : NULL;
    if (!at || (at[0] != '\'' && at[0] != '"'))
        return NULL;
    at += 1 + strspn(at + 1, " ");
    return *at == ':' ? at + 1 + strspn(at + 1, " ") : NULL;
}

static const struct {
    const char *descr;
    enum tensor_dtype dtype;
} npy_types[] = {
    {"<f4", TENSOR_F32},  {"<f2", TENSOR_F16}, {"<f8", TENSOR_F64}, {"<i8", TENSOR_I64},
    {"<i4", TENSOR_I32},  {"<i2", TENSOR_I16}, {"|i1", TENSOR_I8},  {"|u1", TENSOR_U8},
    {"|b1", TENSOR_BOOL}, {"<u2", TENSOR_U16}, {"<u4", TENSOR_U32}, {"<u8", TENSOR_U64},
};

static bool parse_type(const char *text, enum tensor_dtype *dtype)
{
    for (size_t i = 0; text && i < sizeof npy_types / sizeof *npy_types; i++)
        if ((*text == '\'' || *text == '"') && strncmp(text + 1, npy_types[i].descr, 3) == 0 &&
            text[4] == *text) {
            *dtype = npy_types[i].dtype;
            return true;
        }
    return false;
}

static bool parse_shape(const char *text, int64_t *dims, int *rank)
{
    if (!text || *text++ != '(')
        return false;
    for (*rank = 0;;) {
        text += strspn(text, " ,");
        if (*text == ')')
            return true;
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 15 || *rank == TENSOR_RANK)
            return false;
        dims[*rank] = 0;
        for (size_t i = 0; i < digits; i++)
            dims[*rank] = dims[*rank] * 10 + (text[i] - '0');
        ++*rank;
        text += digits;
        if (*text != ',' && *text != ')' && *text != ' ')
            return false;
    }
}

enum { HEADER_MOST = 4096 };

static enum ebb_status read_npy(const struct source *s, const struct tensor_member *m,
                                const unsigned char *data, struct tensor_entry *entry,
                                struct ebb_error *err)
{
    char text[HEADER_MOST + 1];
    uint64_t place = (uint64_t)(m->data - s->bytes), bytes = m->bytes;
    if (bytes < 12 || memcmp(data, "\x93NUMPY", 6) != 0 || data[6] < 1 || data[6] > 3)
        return wrong(s, place, "a member is no NPY array", err);
    size_t width = data[6] == 1 ? 2 : 4;
    uint64_t length = ebb_load_bytes(data + 8, width), start = 8 + width;
    if (length > HEADER_MOST || length > bytes - start)
        return wrong(s, place, "the header of an array is too long", err);
    memcpy(text, data + start, (size_t)length);
    text[length] = '\0';
    const char *order = dict_value(text, "fortran_order");
    enum tensor_dtype dtype;
    int64_t dims[TENSOR_RANK];
    int rank;
    if (!parse_type(dict_value(text, "descr"), &dtype))
        return ebb_fail(err, EBB_EINPUT, "%s: '%.*s' has a type that is not read here: %.60s",
                        s->name, (int)m->name_length, m->name, text);
    if (!order || (strncmp(order, "False", 5) != 0 && strncmp(order, "True", 4) != 0) ||
        !parse_shape(dict_value(text, "shape"), dims, &rank))
        return wrong(s, place, "the header of an array is damaged", err);
    bool is_fortran = *order == 'T' && rank > 1;
    if (is_fortran && rank != 2)
        return wrong(s, place, "fortran_order of more than two dimensions is not read here", err);
    uint64_t want = tensor_dtype_bytes(dtype);
    for (int d = 0; d < rank; d++)
        if (__builtin_mul_overflow(want, (uint64_t)dims[d], &want))
            return wrong(s, place, "a shape is too large", err);
    if (want != bytes - start - length)
        return wrong(s, place, "the shape of an array and its bytes differ", err);
    tensor_view_init(&entry->view, dtype, rank, dims);
    entry->data = data + start + length;
    entry->bytes = (size_t)want;
    entry->is_swapped = is_fortran;
    return EBB_OK;
}

static enum ebb_status read_arrays(const struct source *s, const struct tensor_zip *zip,
                                   struct tensor_file *f, struct ebb_error *err)
{
    size_t capacity = 0;
    for (size_t i = 0; i < zip->count; i++) {
        const struct tensor_member *m = &zip->members[i];
        size_t n = m->name_length;
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
        folder = m->name_length >= 8 ? m->name_length - 8 : 0;
        if (m->name_length >= 8 && memcmp(m->name + folder, "data.pkl", 8) == 0)
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
    FILE *stream;
    uint32_t crc;
    uint64_t bytes;
};

static bool to_crc(void *context, const void *bytes, size_t count)
{
    struct written *w = context;
    for (size_t at = 0; at < count;) {
        size_t n = count - at < (size_t)1 << 30 ? count - at : (size_t)1 << 30;
        w->crc = (uint32_t)crc32(w->crc, (const unsigned char *)bytes + at, (unsigned)n);
        at += n;
    }
    w->bytes += count;
    return !w->stream || fwrite(bytes, 1, count, w->stream) == count;
}

static void npy_header(const struct tensor_view *v, struct ebb_str *out)
{
    const char *descr = "|u1";
    struct ebb_str text = {0};
    for (size_t i = 0; i < sizeof npy_types / sizeof *npy_types; i++)
        if (npy_types[i].dtype == (enum tensor_dtype)v->dtype)
            descr = npy_types[i].descr;
    ebb_str_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int d = 0; d < v->rank; d++)
        ebb_str_printf(&text, "%" PRId64 ",%s", v->dims[d], d + 1 < v->rank ? " " : "");
    ebb_str_add(&text, "), }");
    while ((10 + text.length + 1) % 64)
        ebb_str_addc(&text, ' ');
    ebb_str_addc(&text, '\n');
    ebb_str_addn(out, "\x93NUMPY\1\0", 8);
    ebb_str_addc(out, (char)(text.length & 255));
    ebb_str_addc(out, (char)(text.length >> 8));
    ebb_str_addn(out, ebb_str_c(&text), text.length);
    out->failed |= text.failed;
    ebb_str_fini(&text);
}

static bool give(const struct tensor_to_write *item, struct written *w)
{
    size_t bytes =
        (size_t)tensor_count(&item->view) * tensor_dtype_bytes((enum tensor_dtype)item->view.dtype);
    return bytes == 0 ||
           (item->read ? item->read(item->data, to_crc, w) : to_crc(w, item->data, bytes));
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
static bool write_member(FILE *stream, const struct tensor_to_write *item, uint64_t at,
                         struct ebb_str *directory, uint64_t *bytes)
{
    struct ebb_str head = {0}, npy = {0};
    struct written sum = {0};
    npy_header(&item->view, &npy);
    bool ok = !npy.failed && to_crc(&sum, npy.data, npy.length) && give(item, &sum);
    ebb_str_addn(&head, "PK\3\4", 4);
    member_head(&head, &sum, item->name);
    add_bytes(&head, 20, 2);
    ebb_str_printf(&head, "%s.npy", item->name);
    add_bytes(&head, 1, 2);
    add_bytes(&head, 16, 2);
    add_bytes(&head, sum.bytes, 8);
    add_bytes(&head, sum.bytes, 8);
    struct written out = {.stream = stream};
    ok = ok && !head.failed && fwrite(head.data, 1, head.length, stream) == head.length &&
         to_crc(&out, npy.data, npy.length) && give(item, &out) && out.crc == sum.crc;
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
    return ok;
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
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++, at += bytes)
        ok = write_member(out.stream, &items[i], at, &directory, &bytes);
    size_t length = directory.length;
    write_end(&directory, at, length, count);
    ok = ok && !directory.failed &&
         fwrite(directory.data, 1, directory.length, out.stream) == directory.length;
    enum ebb_status status =
        ok ? ebb_file_out_commit(&out, err) : ebb_fail(err, EBB_EIO, "cannot write %s", path);
    ebb_file_out_abort(&out);
    ebb_str_fini(&directory);
    return status;
}
