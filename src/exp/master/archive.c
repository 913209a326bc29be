/* archive.c - see base64.h. */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/heap.h"
#include "exp/master/base64.h"

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

bool exp_base64_decode(const char *text, size_t length, char *out, size_t *out_length)
{
    uint32_t bits = 0;
    int count = 0;
    size_t at = 0, i = 0;
    for (; i < length && text[i] != '='; i++) {
        int v = value_of(text[i]);
        if (text[i] == '\n' || text[i] == '\r' || text[i] == ' ')
            continue;
        if (v < 0)
            return false;
        bits = bits << 6 | (uint32_t)v;
        if (++count % 4 != 1)
            out[at++] = (char)(uint8_t)(bits >> (count % 4 == 0 ? 0 : count % 4 == 2 ? 4 : 2));
    }
    for (; i < length; i++)
        if (text[i] != '=' && text[i] != '\n' && text[i] != '\r')
            return false;
    *out_length = at;
    return count % 4 != 1;
}

/* ---- tar.gz ---- */

struct gzip {
    z_stream stream;
    struct ebb_str *out;
    bool failed;
};

static void put(struct gzip *z, const void *data, size_t length, int flush)
{
    unsigned char buffer[16384];
    z->stream.next_in = (unsigned char *)(uintptr_t)data;
    z->stream.avail_in = (uInt)length;
    do {
        z->stream.next_out = buffer;
        z->stream.avail_out = sizeof buffer;
        if (deflate(&z->stream, flush) == Z_STREAM_ERROR)
            z->failed = true;
        ebb_str_addn(z->out, (char *)buffer, sizeof buffer - z->stream.avail_out);
    } while (z->stream.avail_out == 0 && !z->failed);
}

/* name is the part after a slash, prefix the part before it. */
static bool split(const char *path, char *name, char *prefix)
{
    size_t length = strlen(path);
    if (length <= 100) {
        memcpy(name, path, length);
        return true;
    }
    for (size_t i = length - 1; i > 0; i--)
        if (path[i] == '/' && i <= 155 && length - i - 1 <= 100 && i + 1 < length) {
            memcpy(prefix, path, i);
            memcpy(name, path + i + 1, length - i - 1);
            return true;
        }
    return false;
}

static bool put_header(struct gzip *z, const struct exp_store_file *f)
{
    char h[512] = {0}, path[1040];
    unsigned sum = 0;
    snprintf(path, sizeof path, "%s%s", f->path, f->is_directory ? "/" : "");
    if (!split(path, h, h + 345))
        return false;
    snprintf(h + 100, 8, "%07o", (unsigned)(f->mode & 0777));
    snprintf(h + 108, 8, "%07o", 0u);
    snprintf(h + 116, 8, "%07o", 0u);
    snprintf(h + 124, 12, "%011llo", (unsigned long long)(f->is_directory ? 0 : f->length));
    snprintf(h + 136, 12, "%011llo",
             (unsigned long long)(f->mtime > 0 ? f->mtime : 0) & 077777777777);
    memset(h + 148, ' ', 8);
    h[156] = f->is_directory ? '5' : '0';
    memcpy(h + 257,
           "ustar\0"
           "00",
           8);
    for (size_t i = 0; i < sizeof h; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    put(z, h, sizeof h, Z_NO_FLUSH);
    return true;
}

enum ebb_status exp_archive_write(const struct exp_store_file *files, size_t count,
                                  struct ebb_str *out, struct ebb_error *err)
{
    static const char zeros[1024];
    struct gzip z = {.out = out};
    if (deflateInit2(&z.stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return ebb_no_memory(err, 1 << 18);
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; status == EBB_OK && i < count; i++) {
        const struct exp_store_file *f = &files[i];
        if (!put_header(&z, f)) {
            status =
                ebb_fail(err, EBB_EINPUT, "%s: the path is too long for a tar archive", f->path);
        } else if (!f->is_directory && f->length > 0) {
            put(&z, f->data, f->length, Z_NO_FLUSH);
            if (f->length % 512 != 0)
                put(&z, zeros, 512 - f->length % 512, Z_NO_FLUSH);
        }
    }
    put(&z, zeros, sizeof zeros, Z_FINISH);
    deflateEnd(&z.stream);
    if (status == EBB_OK && z.failed)
        status = ebb_fail(err, EBB_EINTERNAL, "the archive cannot be made");
    return status != EBB_OK ? status : ebb_str_status(out, err);
}
