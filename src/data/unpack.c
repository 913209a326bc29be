/* unpack.c - packed data are unpacked once: into a nameless file of the cache folder, so that they
 * take no memory of the process, or into memory when there is no such folder. */
#include "data/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"

enum { BLOCK_BYTES = 65536, SMALL_BYTES = 1 << 20 };

enum ebb_status data_cache_folder(const struct data_set *set, struct ebb_str *folder,
                                  struct ebb_error *err)
{
    if (!set->cache)
        return ebb_file_cache_folder(folder, err);
    ebb_str_add(folder, set->cache);
    EBB_TRY(ebb_str_status(folder, err));
    return ebb_file_mkdirs(folder->data, err);
}

struct unpacking {
    struct data_stream *stream;
    uint64_t most;
    int fd;          /* -1: memory */
    uint8_t *memory; /* everything, or one block */
    size_t capacity;
    uint64_t length;
};

/* What was unpacked so far goes from memory to the file, or stays when that fails. */
static void spill(struct unpacking *u, const struct data_set *set)
{
    struct ebb_str folder = {0};
    int fd = -1;
    if (data_cache_folder(set, &folder, NULL) == EBB_OK)
        fd = open(folder.data, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ebb_str_fini(&folder);
    if (fd < 0)
        return;
    if (!ebb_write_all(fd, u->memory, (size_t)u->length)) {
        close(fd);
        return;
    }
    u->fd = fd;
}

/* A disk that fills up: take everything back into memory. */
static enum ebb_status unspill(struct unpacking *u, uint8_t *block, size_t n, struct ebb_error *err)
{
    size_t capacity = (size_t)u->length + n + BLOCK_BYTES;
    uint8_t *all;
    EBB_TRY(ebb_new(&all, capacity, 1, err));
    struct data_file file = {.path = u->stream->file->path, .fd = u->fd, .length = u->length};
    enum ebb_status status = data_file_read(&file, 0, all, (size_t)u->length, err);
    if (status != EBB_OK) {
        ebb_free(all);
        return status;
    }
    memcpy(all + u->length, block, n);
    ebb_free(u->memory);
    close(u->fd);
    u->fd = -1;
    u->memory = all;
    u->capacity = capacity;
    return EBB_OK;
}

static enum ebb_status unpack_more(struct unpacking *u, const struct data_set *set, bool *is_end,
                                   struct ebb_error *err)
{
    size_t got = 0;
    if (u->fd < 0) {
        EBB_TRY(ebb_grow(&u->memory, &u->capacity, (size_t)u->length + BLOCK_BYTES, 1, err));
        EBB_TRY(data_stream_read(u->stream, u->memory + u->length, BLOCK_BYTES, &got, err));
    } else {
        EBB_TRY(data_stream_read(u->stream, u->memory, BLOCK_BYTES, &got, err));
        if (!ebb_write_all(u->fd, u->memory, got))
            EBB_TRY(unspill(u, u->memory, got, err));
    }
    bool was_small = u->length < SMALL_BYTES;
    u->length += got;
    *is_end = got < BLOCK_BYTES;
    if (u->length > u->most)
        return ebb_fail(err, EBB_ELIMIT, "%s: more than %llu bytes when unpacked",
                        u->stream->file->path, (unsigned long long)u->most);
    if (u->fd < 0 && set && was_small && u->length >= SMALL_BYTES)
        spill(u, set);
    return EBB_OK;
}

enum ebb_status data_unpack(struct data_stream *stream, uint64_t most, struct data_set *set,
                            struct data_file *out, struct ebb_error *err)
{
    struct unpacking u = {.stream = stream, .most = most, .fd = -1};
    bool is_end = false;
    enum ebb_status status = EBB_OK;
    while (status == EBB_OK && !is_end)
        status = unpack_more(&u, set, &is_end, err);
    struct ebb_str path = {0};
    ebb_str_printf(&path, "%s (unpacked)", stream->file->path);
    EBB_THEN(status, ebb_str_status(&path, err));
    if (status != EBB_OK) {
        ebb_str_fini(&path);
        ebb_free(u.memory);
        if (u.fd >= 0)
            close(u.fd);
        return status;
    }
    *out = (struct data_file){.path = ebb_str_take(&path), .fd = u.fd, .length = u.length};
    if (u.fd >= 0) {
        ebb_free(u.memory);
    } else {
        uint8_t *fitted = ebb_realloc(u.memory, u.length ? (size_t)u.length : 1, 1);
        out->owned = fitted ? fitted : u.memory;
        out->memory = out->owned;
        if (set)
            set->info.resident_bytes += u.length;
    }
    return EBB_OK;
}
