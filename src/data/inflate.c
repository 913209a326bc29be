/* inflate.c - compressed and plain bytes as one stream.
 *
 * Deflate cannot expand more than 1032 times (zlib's own bound), so what a header claims is held
 * against the compressed length before anything is allocated. */
#include "data/internal.h"

#include <string.h>
#include <zlib.h>

#include "base/heap.h"

enum { IN_BYTES = 16384, EXPANSION = 1032 };

static void *zlib_alloc(void *opaque, unsigned count, unsigned bytes)
{
    (void)opaque;
    return ebb_calloc(count, bytes);
}

static void zlib_release(void *opaque, void *p)
{
    (void)opaque;
    ebb_free(p);
}

enum ebb_status data_stream_open(struct data_stream *s, const struct data_file *file,
                                 enum data_wrap wrap, uint64_t offset, uint64_t bytes,
                                 struct ebb_error *err)
{
    *s = (struct data_stream){.file = file, .in_offset = offset};
    if (offset > file->length || bytes > file->length - offset)
        return data_corrupt(err, file, offset,
                            "%llu compressed bytes wanted, the file ends at %llu",
                            (unsigned long long)bytes, (unsigned long long)file->length);
    s->in_end = offset + bytes;
    if (wrap == DATA_WRAP_PLAIN ||
        (wrap == DATA_WRAP_AUTO && !(offset == 0 && data_file_is_gzip(file))))
        return EBB_OK;
    z_stream *z;
    int window = wrap == DATA_WRAP_AUTO ? 15 + 16 : wrap == DATA_WRAP_RAW ? -15 : 15;
    enum ebb_status status = ebb_new(&z, 1, sizeof *z, err);
    EBB_THEN(status, ebb_new(&s->buffer, IN_BYTES, 1, err));
    if (status == EBB_OK) {
        z->zalloc = zlib_alloc;
        z->zfree = zlib_release;
        if (inflateInit2(z, window) == Z_OK) {
            s->state = z;
            return EBB_OK;
        }
        status = ebb_no_memory(err, DATA_STREAM_BYTES);
    }
    ebb_free(z);
    data_stream_close(s);
    return status;
}

void data_stream_close(struct data_stream *s)
{
    if (s->state) {
        inflateEnd(s->state);
        ebb_free(s->state);
    }
    ebb_free(s->buffer);
    *s = (struct data_stream){0};
}

uint64_t data_stream_limit(const struct data_stream *s)
{
    uint64_t in = s->in_end - s->in_offset + (s->buffered - s->taken);
    if (!s->state)
        return in;
    return in > UINT64_MAX / EXPANSION - 65536 ? UINT64_MAX : in * EXPANSION + 65536;
}

static enum ebb_status stream_fill(struct data_stream *s, struct ebb_error *err)
{
    uint64_t left = s->in_end - s->in_offset;
    size_t n = left < IN_BYTES ? (size_t)left : IN_BYTES;
    if (n == 0)
        return data_corrupt(err, s->file, s->in_offset, "compressed data end in the middle");
    EBB_TRY(data_file_read(s->file, s->in_offset, s->buffer, n, err));
    s->in_offset += n;
    s->buffered = n;
    s->taken = 0;
    return EBB_OK;
}

/* A gzip file may hold several members one after the other. */
static enum ebb_status stream_member(struct data_stream *s, z_stream *z, struct ebb_error *err)
{
    if (s->taken == s->buffered && s->in_offset == s->in_end) {
        s->is_end = true;
        return EBB_OK;
    }
    if (inflateReset(z) != Z_OK)
        return data_corrupt(err, s->file, s->in_offset, "compressed data cannot be restarted");
    return EBB_OK;
}

enum ebb_status data_stream_read(struct data_stream *s, void *out, size_t n, size_t *got,
                                 struct ebb_error *err)
{
    if (!s->state) {
        uint64_t left = s->in_end - s->in_offset;
        size_t now = n < left ? n : (size_t)left;
        EBB_TRY(data_file_read(s->file, s->in_offset, out, now, err));
        s->in_offset += now;
        s->out_offset += now;
        *got = now;
        return EBB_OK;
    }
    z_stream *z = s->state;
    size_t done = 0;
    while (done < n && !s->is_end) {
        if (s->taken == s->buffered)
            EBB_TRY(stream_fill(s, err));
        size_t room = n - done < 1u << 30 ? n - done : 1u << 30;
        z->next_in = s->buffer + s->taken;
        z->avail_in = (unsigned)(s->buffered - s->taken);
        z->next_out = (uint8_t *)out + done;
        z->avail_out = (unsigned)room;
        int code = inflate(z, Z_NO_FLUSH);
        s->taken = s->buffered - z->avail_in;
        done += room - z->avail_out;
        if (code == Z_MEM_ERROR)
            return ebb_no_memory(err, DATA_STREAM_BYTES);
        if (code == Z_STREAM_END)
            EBB_TRY(stream_member(s, z, err));
        else if (code != Z_OK && code != Z_BUF_ERROR)
            return data_corrupt(err, s->file, s->in_offset - (s->buffered - s->taken),
                                "compressed data: %s", z->msg ? z->msg : "damaged");
    }
    s->out_offset += done;
    *got = done;
    return EBB_OK;
}

enum ebb_status data_stream_take(struct data_stream *s, void *out, size_t n, struct ebb_error *err)
{
    size_t got = 0;
    EBB_TRY(data_stream_read(s, out, n, &got, err));
    if (got < n)
        return data_corrupt(err, s->file, s->in_offset,
                            "%zu more bytes wanted at %llu of the unpacked data, %zu are there", n,
                            (unsigned long long)(s->out_offset - got), got);
    return EBB_OK;
}
