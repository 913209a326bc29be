/* zip.c - directories of zip files, with sizes of 64 bits. */
#include "base/zip.h"

#include <string.h>

#include "base/codec.h"

static enum ebb_status wrong(const struct ebb_zip *z, uint64_t at, const char *what,
                             struct ebb_error *err)
{
    return z->wrong(z->context, at, what, err);
}

static enum ebb_status load(const struct ebb_zip *z, uint64_t at, void *out, size_t n,
                            struct ebb_error *err)
{
    return z->read(z->context, at, out, n, err);
}

enum ebb_status ebb_zip_open(struct ebb_zip *z, struct ebb_error *err)
{
    uint8_t tail[22], wide[56];
    uint64_t most = z->length < 65557 ? z->length : 65557;
    for (uint64_t back = 22; back <= most; back++) { /* a comment may follow */
        uint64_t place = z->length - back;
        EBB_TRY(load(z, place, tail, 4, err));
        if (memcmp(tail, "PK\5\6", 4) != 0)
            continue;
        EBB_TRY(load(z, place, tail, 22, err));
        uint64_t bytes = ebb_load_u32(tail + 12);
        z->at = ebb_load_u32(tail + 16);
        if ((z->at == UINT32_MAX || bytes == UINT32_MAX) && place >= 20) { /* zip64 */
            EBB_TRY(load(z, place - 20, wide, 20, err));
            if (memcmp(wide, "PK\6\7", 4) != 0)
                return wrong(z, place - 20, "no zip64 locator", err);
            EBB_TRY(load(z, ebb_load_u64(wide + 8), wide, 56, err));
            bytes = ebb_load_u64(wide + 40);
            z->at = ebb_load_u64(wide + 48);
        }
        if (z->at > z->length || bytes > z->length - z->at)
            return wrong(z, place, "the directory lies outside the file", err);
        z->end = z->at + bytes;
        return EBB_OK;
    }
    return wrong(z, z->length, "no directory at the end of the file", err);
}

/* Sizes of 64 bits stand in the extra field, in this order, where the short ones are full. */
static enum ebb_status read_extra(const struct ebb_zip *z, uint64_t at, size_t n,
                                  struct ebb_zip_member *m, uint64_t *local, struct ebb_error *err)
{
    uint8_t extra[256];
    uint64_t *wide[] = {&m->bytes, &m->packed, local};
    n = n < sizeof extra ? n : sizeof extra;
    EBB_TRY(load(z, at, extra, n, err));
    for (size_t i = 0; i + 4 <= n;) {
        size_t id = (size_t)ebb_load_bytes(extra + i, 2);
        size_t size = (size_t)ebb_load_bytes(extra + i + 2, 2), from = i + 4;
        size_t end = size <= n - from ? from + size : n;
        for (int k = 0; id == 1 && k < 3; k++) {
            if (*wide[k] == UINT32_MAX && from + 8 <= end) {
                *wide[k] = ebb_load_u64(extra + from);
                from += 8;
            }
        }
        i += 4 + size;
    }
    return EBB_OK;
}

enum ebb_status ebb_zip_next(struct ebb_zip *z, struct ebb_zip_member *m, bool *is_end,
                             struct ebb_error *err)
{
    uint8_t head[46], local[30];
    *is_end = z->end - z->at < sizeof head;
    if (*is_end)
        return EBB_OK;
    EBB_TRY(load(z, z->at, head, sizeof head, err));
    size_t n = (size_t)ebb_load_bytes(head + 28, 2), extra = (size_t)ebb_load_bytes(head + 30, 2);
    uint64_t all = sizeof head + n + extra + ebb_load_bytes(head + 32, 2);
    if (memcmp(head, "PK\1\2", 4) != 0 || all > z->end - z->at)
        return wrong(z, z->at, "a damaged directory", err);
    unsigned method = (unsigned)ebb_load_bytes(head + 10, 2);
    uint64_t place = ebb_load_u32(head + 42);
    *m = (struct ebb_zip_member){.name = z->at + sizeof head,
                                 .name_length = n,
                                 .is_packed = method == 8,
                                 .sum = ebb_load_u32(head + 16),
                                 .packed = ebb_load_u32(head + 20),
                                 .bytes = ebb_load_u32(head + 24)};
    EBB_TRY(read_extra(z, m->name + n, extra, m, &place, err));
    EBB_TRY(load(z, place, local, sizeof local, err));
    m->data = place + sizeof local + ebb_load_bytes(local + 26, 2) + ebb_load_bytes(local + 28, 2);
    if (memcmp(local, "PK\3\4", 4) != 0)
        return wrong(z, place, "no local header", err);
    if (method != 0 && method != 8)
        return wrong(z, place, "a member is neither stored nor deflated: no other is read", err);
    if (!m->is_packed && m->packed != m->bytes)
        return wrong(z, place, "a stored member has two sizes", err);
    if (m->data > z->length || m->packed > z->length - m->data)
        return wrong(z, place, "a member leaves the file", err);
    z->at += all;
    return EBB_OK;
}
