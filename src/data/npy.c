/* npy.c - NumPy arrays as datasets, alone or in a zip. */
#include "data/npy.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/heap.h"
#include "base/npy.h"
#include "base/str.h"
#include "base/zip.h"

enum { PIECE = 16384 };

enum ebb_status data_npy_read(const struct data_file *file, uint64_t offset, uint64_t bytes,
                              struct data_h5_dataset *d, struct ebb_error *err)
{
    uint8_t head[EBB_NPY_MOST];
    size_t n = bytes < sizeof head ? (size_t)bytes : sizeof head;
    struct ebb_npy a;
    struct ebb_error why = {0};
    EBB_TRY(data_file_read(file, offset, head, n, err));
    if (ebb_npy_read(head, n, &a, &why) != EBB_OK)
        return data_corrupt(err, file, offset, "%s", why.message);
    if (a.rank > DATA_MAX_RANK)
        return data_corrupt(err, file, offset, "NPY: a shape of %d dimensions, allowed: at most %d",
                            a.rank, DATA_MAX_RANK);
    if (a.data_bytes > bytes - a.head_bytes)
        return data_corrupt(err, file, offset,
                            "NPY: the shape promises more than the %llu bytes of data",
                            (unsigned long long)(bytes - a.head_bytes));
    *d = (struct data_h5_dataset){.layout = DATA_H5_CONTIGUOUS,
                                  .type = {.class = a.kind == 'f' ? DATA_H5_FLOAT : DATA_H5_INTEGER,
                                           .bytes = a.item_bytes,
                                           .is_big_endian = a.is_big_endian,
                                           .is_signed = a.kind == 'i'},
                                  .rank = a.rank,
                                  .is_fortran = a.is_fortran && a.rank > 1,
                                  .address = offset + a.head_bytes,
                                  .bytes = bytes - a.head_bytes,
                                  .header = offset};
    for (int i = 0; i < a.rank; i++)
        d->dims[i] = (uint64_t)a.dims[i];
    return EBB_OK;
}

/* Element `at` of an array in C order: where it stands in Fortran order. */
static uint64_t fortran_place(const struct data_h5_dataset *d, uint64_t at)
{
    uint64_t place = 0;
    for (int i = d->rank - 1; i >= 0; i--) {
        uint64_t step = 1;
        for (int k = 0; k < i; k++)
            step *= d->dims[k];
        place += at % d->dims[i] * step;
        at /= d->dims[i];
    }
    return place;
}

enum ebb_status data_npy_order(const struct data_file *file, struct data_h5_dataset *d,
                               struct data_set *set, struct data_file *ordered,
                               struct ebb_error *err)
{
    uint64_t count = 1, width = d->type.bytes;
    uint8_t *from = NULL, *to = NULL;
    for (int i = 0; i < d->rank; i++)
        count *= d->dims[i]; /* times the width within the file: data_npy_read */
    size_t bytes = (size_t)(count * width);
    struct ebb_str path = {0};
    ebb_str_printf(&path, "%s (in C order)", file->path);
    enum ebb_status status = ebb_str_status(&path, err);
    EBB_THEN(status, ebb_new(&from, bytes + 1, 1, err));
    EBB_THEN(status, ebb_new(&to, bytes + 1, 1, err));
    EBB_THEN(status, data_file_read(file, d->address, from, bytes, err));
    for (uint64_t i = 0; i < count && status == EBB_OK; i++)
        memcpy(to + i * width, from + fortran_place(d, i) * width, (size_t)width);
    ebb_free(from);
    if (status != EBB_OK) {
        ebb_free(to);
        ebb_str_fini(&path);
        return status;
    }
    *ordered = (struct data_file){
        .path = ebb_str_take(&path), .fd = -1, .length = bytes, .memory = to, .owned = to};
    d->address = 0;
    d->bytes = bytes;
    d->is_fortran = false;
    if (set)
        set->info.resident_bytes += bytes;
    return EBB_OK;
}

/* ---- zip ---- */

static enum ebb_status read_zip(const void *file, uint64_t at, void *out, size_t n,
                                struct ebb_error *err)
{
    return data_file_read(file, at, out, n, err);
}

static enum ebb_status wrong_zip(const void *file, uint64_t at, const char *what,
                                 struct ebb_error *err)
{
    return data_corrupt(err, file, at, "zip: %s", what);
}

static bool name_fits(const uint8_t *found, size_t n, const char *name)
{
    size_t length = strlen(name);
    if (n != length && n != length + 4)
        return false;
    return memcmp(found, name, length) == 0 &&
           (n == length || memcmp(found + length, ".npy", 4) == 0);
}

static enum ebb_status find_member(const struct data_file *file, const char *name,
                                   struct ebb_zip_member *m, struct ebb_error *err)
{
    struct ebb_zip zip = {
        .context = file, .length = file->length, .read = read_zip, .wrong = wrong_zip};
    uint8_t found[256];
    char others[200] = ""; /* names that are there */
    EBB_TRY(ebb_zip_open(&zip, err));
    for (bool is_end = false;;) {
        EBB_TRY(ebb_zip_next(&zip, m, &is_end, err));
        if (is_end)
            return ebb_fail(err, EBB_EINPUT, "%s: no array named %s (data.fields); there is%s",
                            file->path, name, *others ? others : " none");
        if (m->name_length > sizeof found)
            continue;
        EBB_TRY(data_file_read(file, m->name, found, m->name_length, err));
        if (name_fits(found, m->name_length, name))
            return EBB_OK;
        size_t n = m->name_length > 4 ? m->name_length - 4 : m->name_length, at = strlen(others);
        snprintf(others + at, sizeof others - at, "%s %.*s", at ? "," : "", (int)n,
                 (const char *)found);
    }
}

/* Whether the bytes are those that were packed; a zip has no other proof. */
static enum ebb_status prove(const struct data_file *file, uint64_t at,
                             const struct ebb_zip_member *m, const char *name,
                             struct ebb_error *err)
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

static enum ebb_status unpack_member(const struct data_file *file, const struct ebb_zip_member *m,
                                     struct data_set *set, struct data_file *unpacked,
                                     struct ebb_error *err)
{
    struct data_stream s;
    EBB_TRY(data_stream_open(&s, file, DATA_WRAP_RAW, m->data, m->packed, err));
    enum ebb_status status = data_unpack(&s, m->bytes, set, unpacked, err);
    data_stream_close(&s);
    if (status == EBB_OK && unpacked->length != m->bytes) {
        status = data_corrupt(err, file, m->data, "zip: %llu bytes promised, %llu came out",
                              (unsigned long long)m->bytes, (unsigned long long)unpacked->length);
        data_file_close(unpacked);
    }
    return status;
}

enum ebb_status data_npz_find(const struct data_file *file, const char *name, struct data_set *set,
                              struct data_file *unpacked, struct data_h5_dataset *d,
                              struct ebb_error *err)
{
    struct ebb_zip_member m;
    EBB_TRY(find_member(file, name, &m, err));
    if (!m.is_packed) {
        EBB_TRY(prove(file, m.data, &m, name, err));
        return data_npy_read(file, m.data, m.bytes, d, err);
    }
    EBB_TRY(unpack_member(file, &m, set, unpacked, err));
    enum ebb_status status = prove(unpacked, 0, &m, name, err);
    EBB_THEN(status, data_npy_read(unpacked, 0, unpacked->length, d, err));
    if (status != EBB_OK)
        data_file_close(unpacked);
    return status;
}
