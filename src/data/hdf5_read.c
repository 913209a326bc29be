/* hdf5_read.c - the data of HDF5 datasets: contiguous, compact, chunked, variable-length rows. */
#include "data/hdf5.h"

#include <string.h>

#include "base/codec.h"

enum { BLOCK_BYTES = 16384, MAX_LEVEL = 16 };

/* ---- numbers ---- */

static double half_to_double(uint16_t bits)
{
    uint64_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 0
                       ? (double)fraction * 0x1p-24
                       : (double)(fraction + 1024) * 0x1p-25 * (double)(UINT64_C(1) << exponent);
    if (exponent == 31)
        value = fraction ? __builtin_nan("") : __builtin_inf();
    return bits & 0x8000 ? -value : value;
}

static uint64_t load_bits(const uint8_t *p, const struct data_h5_type *t)
{
    return t->is_big_endian ? ebb_load_big(p, t->bytes) : ebb_load_bytes(p, t->bytes);
}

static double load_float(uint64_t bits, uint32_t bytes)
{
    if (bytes == 2)
        return half_to_double((uint16_t)bits);
    if (bytes == 4) {
        uint32_t word = (uint32_t)bits;
        float f;
        memcpy(&f, &word, sizeof f);
        return (double)f;
    }
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static int64_t load_integer(uint64_t bits, const struct data_h5_type *t)
{
    unsigned shift = 64 - 8 * t->bytes;
    int64_t value;
    bits <<= shift;
    memcpy(&value, &bits, sizeof value);
    if (t->is_signed)
        return value >> shift;
    bits >>= shift;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A float as an integer, held at the ends of the range: a damaged file must not be undefined. */
static int64_t float_to_integer(double v)
{
    if (!(v > -9.2e18))
        return INT64_MIN;
    return v < 9.2e18 ? (int64_t)v : INT64_MAX;
}

static bool is_same(const struct data_h5_type *t, enum data_dtype dtype)
{
    if (t->bytes != data_dtype_bytes(dtype) || (t->is_big_endian && t->bytes > 1))
        return false;
    if (t->class == DATA_H5_FLOAT)
        return dtype == DATA_F32 || dtype == DATA_F64;
    bool is_signed = dtype == DATA_I16 || dtype == DATA_I32 || dtype == DATA_I64;
    return (dtype == DATA_U8 || is_signed) && t->is_signed == is_signed;
}

/* n numbers at `from` to dtype at out[at...]. */
static void convert(const struct data_h5_type *t, const uint8_t *from, size_t n,
                    enum data_dtype dtype, void *out, uint64_t at)
{
    size_t size = data_dtype_bytes(dtype);
    uint8_t *to = (uint8_t *)out + at * size;
    if (is_same(t, dtype)) {
        memcpy(to, from, n * size);
        return;
    }
    for (size_t i = 0; i < n; i++, from += t->bytes, to += size) {
        uint64_t bits = load_bits(from, t);
        double number = 0;
        int64_t whole;
        if (t->class == DATA_H5_FLOAT) {
            number = load_float(bits, t->bytes);
            whole = float_to_integer(number);
        } else {
            whole = load_integer(bits, t);
            number = (double)whole;
        }
        float single = (float)number;
        uint64_t raw;
        memcpy(&raw, &whole, sizeof raw);
        if (dtype == DATA_F32)
            memcpy(to, &single, size);
        else if (dtype == DATA_F64)
            memcpy(to, &number, size);
        else
            memcpy(to, &raw, size); /* low bytes, little endian */
    }
}

static enum ebb_status read_flat(const struct data_h5 *h, const struct data_h5_type *t,
                                 uint64_t address, uint64_t n, enum data_dtype dtype, void *out,
                                 struct ebb_error *err)
{
    if (is_same(t, dtype))
        return data_h5_fetch(h, address, out, n * t->bytes, err);
    uint8_t block[BLOCK_BYTES];
    for (uint64_t done = 0; done < n;) {
        uint64_t most = BLOCK_BYTES / t->bytes, now = n - done < most ? n - done : most;
        EBB_TRY(data_h5_fetch(h, address + done * t->bytes, block, now * t->bytes, err));
        convert(t, block, (size_t)now, dtype, out, done);
        done += now;
    }
    return EBB_OK;
}

/* ---- chunks ---- */

struct chunk {
    uint64_t address, bytes; /* stored; address UINT64_MAX: never written, all zero */
    uint32_t mask;           /* filters left out */
};

/* Compare chunk offsets with a tree key: order of the first that differs. */
static int key_order(const uint8_t *key, const uint64_t *start, int rank)
{
    for (int i = 0; i < rank; i++) {
        uint64_t at = ebb_load_bytes(key + 8 + 8 * (size_t)i, 8);
        if (start[i] != at)
            return start[i] < at ? -1 : 1;
    }
    return 0;
}

static enum ebb_status find_chunk(const struct data_h5 *h, const struct data_h5_dataset *d,
                                  const uint64_t *start, struct chunk *c, struct ebb_error *err)
{
    uint8_t head[24], key[8 + 8 * (DATA_MAX_RANK + 1)], child[8];
    size_t key_bytes = 8 + 8 * (size_t)(d->rank + 1), pair = key_bytes + 8;
    unsigned above = MAX_LEVEL;
    *c = (struct chunk){.address = UINT64_MAX};
    for (uint64_t node = d->address; node != UINT64_MAX;) {
        EBB_TRY(data_h5_fetch(h, node, head, 24, err));
        if (memcmp(head, "TREE", 4) != 0 || head[4] != 1 || head[5] >= above)
            return data_corrupt(err, h->file, h->base + node, "HDF5: no chunk tree node");
        above = head[5];
        uint64_t low = 0, high = ebb_load_bytes(head + 6, 2); /* the last key not after start */
        if (high == 0)
            return EBB_OK;
        while (low + 1 < high) {
            uint64_t middle = low + (high - low) / 2;
            EBB_TRY(data_h5_fetch(h, node + 24 + pair * middle, key, key_bytes, err));
            if (key_order(key, start, d->rank) >= 0)
                low = middle;
            else
                high = middle;
        }
        EBB_TRY(data_h5_fetch(h, node + 24 + pair * low, key, key_bytes, err));
        EBB_TRY(data_h5_fetch(h, node + 24 + pair * low + key_bytes, child, 8, err));
        if (above == 0) {
            if (key_order(key, start, d->rank) == 0)
                *c = (struct chunk){ebb_load_bytes(child, 8), ebb_load_bytes(key, 4),
                                    (uint32_t)ebb_load_bytes(key + 4, 4)};
            return EBB_OK;
        }
        node = ebb_load_bytes(child, 8);
    }
    return EBB_OK;
}

static enum ebb_status locate_chunk(const struct data_h5 *h, const struct data_h5_dataset *d,
                                    const uint64_t *start, struct chunk *c, struct ebb_error *err)
{
    if (d->index == DATA_H5_BTREE)
        return find_chunk(h, d, start, c, err);
    *c = (struct chunk){.address = d->address, .bytes = d->chunk_bytes};
    if (d->index == DATA_H5_SINGLE) {
        c->bytes = d->single_bytes ? d->single_bytes : d->chunk_bytes;
        return EBB_OK;
    }
    uint64_t number = 0; /* implicit: chunks lie in row-major order */
    for (int i = 0; i < d->rank; i++)
        number = number * ((d->dims[i] + d->chunk[i] - 1) / d->chunk[i]) + start[i] / d->chunk[i];
    if (d->address != UINT64_MAX && (__builtin_mul_overflow(number, d->chunk_bytes, &number) ||
                                     __builtin_add_overflow(d->address, number, &c->address)))
        return data_corrupt(err, h->file, h->base + d->header, "HDF5: a chunk leads nowhere");
    return EBB_OK;
}

static uint32_t fletcher32(const uint8_t *data, uint64_t n)
{
    uint64_t low = 0, high = 0;
    for (uint64_t i = 0; i + 1 < n; i += 2) {
        low = (low + ((uint64_t)data[i] << 8 | data[i + 1])) % 65535;
        high = (high + low) % 65535;
    }
    if (n & 1) {
        low = (low + ((uint64_t)data[n - 1] << 8)) % 65535;
        high = (high + low) % 65535;
    }
    return (uint32_t)(high << 16 | low);
}

static void unshuffle(const uint8_t *from, uint8_t *to, uint64_t bytes, uint32_t element)
{
    uint64_t n = bytes / element;
    for (uint32_t b = 0; b < element; b++) {
        for (uint64_t i = 0; i < n; i++)
            to[i * element + b] = from[b * n + i];
    }
    memcpy(to + n * element, from + n * element, bytes - n * element);
}

/* Undo the filters, last first. `a` holds `bytes` stored bytes; both buffers have room for a chunk
 * and its checksum. The buffer that ends up with the data is returned through *data. */
static enum ebb_status filter_chunk(const struct data_h5 *h, const struct data_h5_dataset *d,
                                    const struct chunk *c, uint8_t *a, uint8_t *b, uint8_t **data,
                                    struct ebb_error *err)
{
    uint64_t bytes = c->bytes, room = d->chunk_bytes + 4;
    uint64_t place = h->base + c->address;
    int last = d->filter_count - 1;
    bool is_packed = last >= 0 && d->filters[last] == 1 && !(c->mask & 1u << last);
    if (!is_packed) { /* nothing to unpack first */
        if (bytes > room)
            return data_corrupt(err, h->file, place, "HDF5: a chunk of %llu bytes, %llu expected",
                                (unsigned long long)bytes, (unsigned long long)d->chunk_bytes);
        EBB_TRY(data_file_read(h->file, place, a, bytes, err));
    }
    for (int i = last; i >= 0; i--) {
        if (c->mask & 1u << i)
            continue;
        if (d->filters[i] == 1) {
            struct data_stream s;
            struct data_file memory = {
                .path = h->file->path, .fd = -1, .length = bytes, .memory = a};
            size_t got = 0;
            bool is_file = i == last;
            EBB_TRY(data_stream_open(&s, is_file ? h->file : &memory, DATA_WRAP_ZLIB,
                                     is_file ? place : 0, bytes, err));
            enum ebb_status status = data_stream_read(&s, b, room, &got, err);
            data_stream_close(&s);
            EBB_TRY(status);
            bytes = got;
        } else if (d->filters[i] == 2) {
            unshuffle(a, b, bytes, d->type.bytes);
        } else {
            if (bytes < 4 || fletcher32(a, bytes - 4) != ebb_load_bytes(a + bytes - 4, 4))
                return data_corrupt(err, h->file, place, "HDF5: a chunk's checksum is wrong");
            bytes -= 4;
            continue;
        }
        uint8_t *t = a;
        a = b;
        b = t;
    }
    if (bytes != d->chunk_bytes)
        return data_corrupt(err, h->file, place, "HDF5: a chunk of %llu bytes, %llu expected",
                            (unsigned long long)bytes, (unsigned long long)d->chunk_bytes);
    *data = a;
    return EBB_OK;
}

/* Copy what a chunk at `start` shares with rows [first, first + n) to out. */
static void place_chunk(const struct data_h5_dataset *d, const uint64_t *start, const uint8_t *data,
                        uint64_t first, uint64_t n, enum data_dtype dtype, void *out)
{
    uint64_t low[DATA_MAX_RANK], high[DATA_MAX_RANK], at[DATA_MAX_RANK];
    int last = d->rank - 1;
    for (int i = 0; i < d->rank; i++) {
        uint64_t end = i == 0 ? first + n : d->dims[i];
        low[i] = i == 0 && first > start[0] ? first : start[i];
        high[i] = start[i] + d->chunk[i] < end ? start[i] + d->chunk[i] : end;
        at[i] = low[i];
        if (low[i] >= high[i])
            return;
    }
    for (;;) { /* one run of the last dimension at a time */
        uint64_t from = 0, to = 0;
        for (int i = 0; i < d->rank; i++) {
            from = from * d->chunk[i] + (at[i] - start[i]);
            to = to * (i == 0 ? n : d->dims[i]) + (i == 0 ? at[i] - first : at[i]);
        }
        uint64_t run = last == 0 ? high[0] - low[0] : high[last] - low[last];
        if (data)
            convert(&d->type, data + from * d->type.bytes, (size_t)run, dtype, out, to);
        else
            memset((uint8_t *)out + to * data_dtype_bytes(dtype), 0,
                   (size_t)run * data_dtype_bytes(dtype));
        int i = last - 1;
        for (; i >= 0; i--) {
            if (++at[i] < high[i])
                break;
            at[i] = low[i];
        }
        if (i < 0)
            return;
    }
}

static enum ebb_status read_chunked(const struct data_h5 *h, const struct data_h5_dataset *d,
                                    uint64_t first, uint64_t n, enum data_dtype dtype, void *out,
                                    struct data_scratch *scratch, struct ebb_error *err)
{
    size_t before = scratch->used;
    uint8_t *a, *b;
    uint64_t start[DATA_MAX_RANK] = {0};
    EBB_TRY(data_scratch_take(scratch, (size_t)d->chunk_bytes + 4, &a, err));
    EBB_TRY(data_scratch_take(scratch, (size_t)d->chunk_bytes + 4, &b, err));
    start[0] = first / d->chunk[0] * d->chunk[0];
    for (;;) {
        struct chunk c;
        uint8_t *data = NULL;
        EBB_TRY(locate_chunk(h, d, start, &c, err));
        if (c.address != UINT64_MAX) {
            if (c.address > h->file->length || h->base > h->file->length - c.address)
                return data_corrupt(err, h->file, h->base + d->header,
                                    "HDF5: a chunk lies outside the file");
            EBB_TRY(filter_chunk(h, d, &c, a, b, &data, err));
        }
        place_chunk(d, start, data, first, n, dtype, out);
        int i = d->rank - 1;
        for (; i >= 0; i--) {
            uint64_t end = i == 0 ? first + n : d->dims[i];
            start[i] += d->chunk[i];
            if (start[i] < end)
                break;
            start[i] = i == 0 ? first / d->chunk[0] * d->chunk[0] : 0;
        }
        if (i < 0)
            break;
    }
    scratch->used = before;
    return EBB_OK;
}

size_t data_h5_scratch(const struct data_h5_dataset *d)
{
    if (d->layout != DATA_H5_CHUNKED)
        return 64;
    return 2 * ((size_t)d->chunk_bytes + 32) + DATA_STREAM_BYTES;
}

enum ebb_status data_h5_read(const struct data_h5 *h, const struct data_h5_dataset *d,
                             uint64_t first, uint64_t n, enum data_dtype dtype, void *out,
                             struct data_scratch *scratch, struct ebb_error *err)
{
    uint64_t rows = d->rank ? d->dims[0] : 1, per_row = data_h5_row_count(d);
    if (first > rows || n > rows - first)
        return ebb_fail(err, EBB_EINPUT, "%s: rows %llu to %llu wanted, the dataset has %llu",
                        h->file->path, (unsigned long long)first, (unsigned long long)(first + n),
                        (unsigned long long)rows);
    if (d->type.class == DATA_H5_ROWS)
        return ebb_fail(err, EBB_EINPUT, "%s: rows of variable length where numbers are wanted",
                        h->file->path);
    if (n == 0 || per_row == 0)
        return EBB_OK;
    if (d->layout == DATA_H5_CHUNKED)
        return read_chunked(h, d, first, n, dtype, out, scratch, err);
    if (d->address == UINT64_MAX) { /* never written: the fill value, taken as zero */
        memset(out, 0, (size_t)(n * per_row) * data_dtype_bytes(dtype));
        return EBB_OK;
    }
    return read_flat(h, &d->type, d->address + first * per_row * d->type.bytes, n * per_row, dtype,
                     out, err);
}

/* ---- variable-length rows: length, collection, number of the object within ---- */

static enum ebb_status find_object(const struct data_h5 *h, uint64_t collection, uint64_t number,
                                   uint64_t *address, uint64_t *bytes, struct ebb_error *err)
{
    uint8_t head[16];
    EBB_TRY(data_h5_fetch(h, collection, head, 16, err));
    if (memcmp(head, "GCOL", 4) != 0)
        return data_corrupt(err, h->file, h->base + collection, "HDF5: no global heap");
    uint64_t size = ebb_load_bytes(head + 8, 8), at = 16;
    while (size >= 16 && at <= size - 16) {
        EBB_TRY(data_h5_fetch(h, collection + at, head, 16, err));
        uint64_t index = ebb_load_bytes(head, 2), length = ebb_load_bytes(head + 8, 8);
        if (index == 0 || length > size)
            break;
        if (index == number) {
            *address = collection + at + 16;
            *bytes = length;
            return EBB_OK;
        }
        at += 16 + ((length + 7) & ~UINT64_C(7));
    }
    return data_corrupt(err, h->file, h->base + collection,
                        "HDF5: object %llu is not in this global heap", (unsigned long long)number);
}

enum ebb_status data_h5_read_row(const struct data_h5 *h, const struct data_h5_dataset *d,
                                 uint64_t row, size_t most, int64_t *out, size_t *count,
                                 struct data_scratch *scratch, struct ebb_error *err)
{
    uint64_t rows = d->rank ? d->dims[0] : 1;
    if (row >= rows)
        return ebb_fail(err, EBB_EINPUT, "%s: row %llu wanted, the dataset has %llu", h->file->path,
                        (unsigned long long)row, (unsigned long long)rows);
    if (d->type.class != DATA_H5_ROWS) {
        uint64_t n = data_h5_row_count(d);
        if (n > most)
            return data_corrupt(err, h->file, h->base + d->header,
                                "HDF5: rows of %llu numbers, %zu expected", (unsigned long long)n,
                                most);
        *count = (size_t)n;
        return data_h5_read(h, d, row, 1, DATA_I64, out, scratch, err);
    }
    uint8_t entry[16];
    if (d->rank != 1)
        return ebb_fail(err, EBB_EUNSUPPORTED, "%s: variable-length rows of rank %d", h->file->path,
                        d->rank);
    if (d->layout == DATA_H5_CHUNKED) { /* entries are opaque bytes here */
        struct data_h5_dataset bytes = *d;
        bytes.type = (struct data_h5_type){.class = DATA_H5_INTEGER, .bytes = 1};
        bytes.rank = 2;
        bytes.dims[1] = bytes.chunk[1] = 16;
        EBB_TRY(data_h5_read(h, &bytes, row, 1, DATA_U8, entry, scratch, err));
    } else {
        EBB_TRY(data_h5_fetch(h, d->address + 16 * row, entry, 16, err));
    }
    uint64_t length = ebb_load_bytes(entry, 4), address = 0, bytes = 0;
    if (length > most)
        return data_corrupt(err, h->file, h->base + d->header,
                            "HDF5: row %llu has %llu numbers, at most %zu expected",
                            (unsigned long long)row, (unsigned long long)length, most);
    *count = (size_t)length;
    if (length == 0)
        return EBB_OK;
    EBB_TRY(find_object(h, ebb_load_bytes(entry + 4, 8), ebb_load_bytes(entry + 12, 4), &address,
                        &bytes, err));
    if (bytes < length * d->base.bytes)
        return data_corrupt(err, h->file, h->base + address, "HDF5: row %llu is cut",
                            (unsigned long long)row);
    return read_flat(h, &d->base, address, length, DATA_I64, out, err);
}
