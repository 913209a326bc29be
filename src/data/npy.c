/* npy.c - NPY headers and the zip directory of NPZ files. */
#include "data/npy.h"

#include <string.h>
#include <zlib.h>

#include "base/codec.h"
#include "base/heap.h"

enum { HEADER_MOST = 4096, PIECE = 16384 };

/* ---- NPY ---- */

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

static bool parse_type(const char *text, struct data_h5_type *t)
{
    if (!text || (text[0] != '\'' && text[0] != '"') || !text[1] || !text[2] || !text[3])
        return false;
    char order = text[1], kind = text[2], size = text[3];
    if (size < '1' || size > '8' || text[4] != text[0] || !strchr("<>|=", order))
        return false;
    t->bytes = (uint32_t)(size - '0');
    t->is_big_endian = order == '>';
    t->is_signed = kind == 'i';
    t->class = kind == 'f' ? DATA_H5_FLOAT : DATA_H5_INTEGER;
    bool is_power = (t->bytes & (t->bytes - 1)) == 0;
    return is_power && (kind == 'i' || kind == 'u' || (kind == 'f' && t->bytes > 1) ||
                        (kind == 'b' && t->bytes == 1));
}

static bool parse_shape(const char *text, struct data_h5_dataset *d)
{
    if (!text || *text != '(')
        return false;
    text++;
    for (d->rank = 0;;) {
        text += strspn(text, " ,");
        if (*text == ')')
            return true;
        uint64_t n = 0;
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 15 || d->rank == DATA_MAX_RANK)
            return false;
        for (size_t i = 0; i < digits; i++)
            n = n * 10 + (uint64_t)(text[i] - '0');
        d->dims[d->rank++] = n;
        text += digits;
        if (*text != ',' && *text != ')' && *text != ' ')
            return false;
    }
}

enum ebb_status data_npy_read(const struct data_file *file, uint64_t offset, uint64_t bytes,
                              struct data_h5_dataset *d, struct ebb_error *err)
{
    uint8_t head[12] = {0};
    char text[HEADER_MOST + 1];
    struct data_h5_dataset read = {.layout = DATA_H5_CONTIGUOUS};
    if (bytes < 12)
        return data_corrupt(err, file, offset, "not an NPY array: %llu bytes",
                            (unsigned long long)bytes);
    EBB_TRY(data_file_read(file, offset, head, 12, err));
    if (memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3)
        return data_corrupt(err, file, offset, "not an NPY array: no signature");
    size_t width = head[6] == 1 ? 2 : 4;
    uint64_t length = ebb_load_bytes(head + 8, width), start = 8 + width;
    if (length > HEADER_MOST || length > bytes - start)
        return data_corrupt(err, file, offset + 8, "NPY: a header of %llu bytes",
                            (unsigned long long)length);
    EBB_TRY(data_file_read(file, offset + start, text, (size_t)length, err));
    text[length] = '\0';
    const char *order = dict_value(text, "fortran_order");
    if (!parse_type(dict_value(text, "descr"), &read.type))
        return data_corrupt(err, file, offset + start, "NPY: a type that is not read here: %.60s",
                            text);
    if (!order || strncmp(order, "False", 5) != 0)
        return data_corrupt(err, file, offset + start,
                            "NPY: fortran_order must be False (numpy.ascontiguousarray)");
    if (!parse_shape(dict_value(text, "shape"), &read))
        return data_corrupt(err, file, offset + start, "NPY: a shape that is not read here");
    uint64_t count = read.type.bytes;
    bool is_good = true;
    for (int i = 0; i < read.rank; i++) {
        uint64_t n = read.dims[i] ? read.dims[i] : 1;
        is_good = is_good && !__builtin_mul_overflow(count, n, &count) && count < UINT64_C(1) << 60;
    }
    read.bytes = bytes - start - length;
    if (!is_good || data_h5_count(&read) * read.type.bytes > read.bytes)
        return data_corrupt(err, file, offset + start,
                            "NPY: the shape promises more than the %llu bytes of data",
                            (unsigned long long)read.bytes);
    read.address = offset + start + length;
    read.header = offset;
    *d = read;
    return EBB_OK;
}

/* ---- zip ---- */

struct member {
    unsigned method;
    uint64_t packed, bytes, local; /* sizes; place of the local header */
    uint32_t sum;                  /* CRC-32 of the bytes */
};

/* Place and number of bytes of the central directory. */
static enum ebb_status find_directory(const struct data_file *file, uint64_t *at, uint64_t *bytes,
                                      struct ebb_error *err)
{
    uint8_t tail[22];
    uint64_t most = file->length < 65557 ? file->length : 65557;
    for (uint64_t back = 22; back <= most; back++) { /* a comment may follow */
        uint64_t place = file->length - back;
        EBB_TRY(data_file_read(file, place, tail, 4, err));
        if (memcmp(tail, "PK\5\6", 4) != 0)
            continue;
        EBB_TRY(data_file_read(file, place, tail, 22, err));
        *bytes = ebb_load_bytes(tail + 12, 4);
        *at = ebb_load_bytes(tail + 16, 4);
        uint8_t wide[56];
        if ((*at == 0xffffffffu || *bytes == 0xffffffffu) && place >= 20) { /* zip64 */
            EBB_TRY(data_file_read(file, place - 20, wide, 20, err));
            uint64_t record = ebb_load_bytes(wide + 8, 8);
            if (memcmp(wide, "PK\6\7", 4) != 0)
                return data_corrupt(err, file, place - 20, "zip: no zip64 locator");
            EBB_TRY(data_file_read(file, record, wide, 56, err));
            *bytes = ebb_load_bytes(wide + 40, 8);
            *at = ebb_load_bytes(wide + 48, 8);
        }
        if (*at > file->length || *bytes > file->length - *at)
            return data_corrupt(err, file, place, "zip: the directory lies outside the file");
        return EBB_OK;
    }
    return data_corrupt(err, file, file->length, "zip: no directory at the end of the file");
}

/* Sizes of 64 bits stand in the extra field, in this order, where the short ones are full. */
static enum ebb_status read_extra(const struct data_file *file, uint64_t at, size_t bytes,
                                  struct member *m, struct ebb_error *err)
{
    uint8_t extra[256];
    uint64_t *wide[] = {&m->bytes, &m->packed, &m->local};
    size_t n = bytes < sizeof extra ? bytes : sizeof extra;
    EBB_TRY(data_file_read(file, at, extra, n, err));
    for (size_t i = 0; i + 4 <= n;) {
        size_t id = (size_t)ebb_load_bytes(extra + i, 2),
               size = (size_t)ebb_load_bytes(extra + i + 2, 2);
        size_t from = i + 4, end = from + size < n ? from + size : n;
        for (int k = 0; id == 1 && k < 3; k++) {
            if (*wide[k] == 0xffffffffu && from + 8 <= end) {
                *wide[k] = ebb_load_bytes(extra + from, 8);
                from += 8;
            }
        }
        i += 4 + size;
    }
    return EBB_OK;
}

static bool name_fits(const uint8_t *found, size_t n, const char *name)
{
    size_t length = strlen(name);
    if (n != length && n != length + 4)
        return false;
    return memcmp(found, name, length) == 0 &&
           (n == length || memcmp(found + length, ".npy", 4) == 0);
}

static enum ebb_status find_member(const struct data_file *file, const char *name, struct member *m,
                                   struct ebb_error *err)
{
    uint64_t at = 0, bytes = 0;
    uint8_t head[46], found[256];
    EBB_TRY(find_directory(file, &at, &bytes, err));
    for (uint64_t end = at + bytes; at + 46 <= end;) {
        EBB_TRY(data_file_read(file, at, head, 46, err));
        if (memcmp(head, "PK\1\2", 4) != 0)
            return data_corrupt(err, file, at, "zip: a damaged directory");
        size_t n = (size_t)ebb_load_bytes(head + 28, 2),
               extra = (size_t)ebb_load_bytes(head + 30, 2);
        if (n <= sizeof found) {
            EBB_TRY(data_file_read(file, at + 46, found, n, err));
            if (name_fits(found, n, name)) {
                *m = (struct member){(unsigned)ebb_load_bytes(head + 10, 2),
                                     ebb_load_bytes(head + 20, 4), ebb_load_bytes(head + 24, 4),
                                     ebb_load_bytes(head + 42, 4), ebb_load_u32(head + 16)};
                return read_extra(file, at + 46 + n, extra, m, err);
            }
        }
        at += 46 + n + extra + ebb_load_bytes(head + 32, 2);
    }
    return ebb_fail(err, EBB_EINPUT, "%s: no array named %s", file->path, name);
}

/* Whether the bytes are those that were packed; a zip has no other proof. */
static enum ebb_status prove(const struct data_file *file, uint64_t at, const struct member *m,
                             const char *name, struct ebb_error *err)
{
    uint8_t piece[PIECE];
    uLong sum = crc32_z(0, NULL, 0);
    for (uint64_t done = 0, n; done < m->bytes; done += n) {
        n = m->bytes - done < sizeof piece ? m->bytes - done : sizeof piece;
        EBB_TRY(data_file_read(file, at + done, piece, (size_t)n, err));
        sum = crc32_z(sum, piece, (z_size_t)n);
    }
    if ((uint32_t)sum != m->sum)
        return data_corrupt(err, file, at, "zip: '%s' was changed: its CRC-32 is %08x, not %08x",
                            name, (unsigned)sum, (unsigned)m->sum);
    return EBB_OK;
}

static enum ebb_status unpack_member(const struct data_file *file, const struct member *m,
                                     uint64_t at, struct data_set *set, struct data_file *unpacked,
                                     struct ebb_error *err)
{
    struct data_stream s;
    EBB_TRY(data_stream_open(&s, file, DATA_WRAP_RAW, at, m->packed, err));
    enum ebb_status status = data_unpack(&s, m->bytes, set, unpacked, err);
    data_stream_close(&s);
    if (status == EBB_OK && unpacked->length != m->bytes) {
        status = data_corrupt(err, file, at, "zip: %llu bytes promised, %llu came out",
                              (unsigned long long)m->bytes, (unsigned long long)unpacked->length);
        data_file_close(unpacked);
    }
    return status;
}

enum ebb_status data_npz_find(const struct data_file *file, const char *name, struct data_set *set,
                              struct data_file *unpacked, struct data_h5_dataset *d,
                              struct ebb_error *err)
{
    struct member m = {0};
    uint8_t local[30];
    EBB_TRY(find_member(file, name, &m, err));
    EBB_TRY(data_file_read(file, m.local, local, 30, err));
    if (memcmp(local, "PK\3\4", 4) != 0)
        return data_corrupt(err, file, m.local, "zip: no local header");
    uint64_t at = m.local + 30 + ebb_load_bytes(local + 26, 2) + ebb_load_bytes(local + 28, 2);
    if (m.method == 0) {
        if (at > file->length || m.bytes > file->length - at)
            return data_corrupt(err, file, m.local, "zip: a member leaves the file");
        EBB_TRY(prove(file, at, &m, name, err));
        return data_npy_read(file, at, m.bytes, d, err);
    }
    if (m.method != 8)
        return ebb_fail(err, EBB_EUNSUPPORTED, "%s: zip method %u; stored and deflated are read",
                        file->path, m.method);
    EBB_TRY(unpack_member(file, &m, at, set, unpacked, err));
    enum ebb_status status = prove(unpacked, 0, &m, name, err);
    EBB_THEN(status, data_npy_read(unpacked, 0, unpacked->length, d, err));
    if (status != EBB_OK)
        data_file_close(unpacked);
    return status;
}
