/* memory.c - the tiers of this machine: mapped memory and a file. */
#include "device/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/file.h"
#include "base/heap.h"

void device_memory_init(struct device_memory *m)
{
    *m = (struct device_memory){.fd = -1};
}

void device_memory_fini(struct device_memory *m)
{
    for (int k = 0; k < DEVICE_FILE; k++) {
        if (m->slab[k])
            munmap(m->slab[k], (size_t)m->bytes[k]);
    }
    if (m->fd >= 0)
        close(m->fd);
}

/* ---- the file tier ----------------------------------------------------------------------------
 */

/* Some file systems take O_DIRECT and then do not keep it. false: it was not set. */
static bool leave_direct(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

/* Of a transfer that ended early: whole blocks, where what follows must begin with one. */
static uint64_t whole_blocks(int fd, uint64_t n)
{
    uint64_t whole = n - n % DEVICE_BLOCK;
    int flags = fcntl(fd, F_GETFL);
    bool is_direct = flags >= 0 && (flags & O_DIRECT);
    return !is_direct || (whole == 0 && leave_direct(fd)) ? n : whole;
}

static enum ebb_status whole_io(const struct device_memory *m, bool is_write, unsigned char *bytes,
                                uint64_t count, uint64_t offset, struct ebb_error *err)
{
    while (count > 0) {
        ssize_t n = is_write ? pwrite(m->fd, bytes, (size_t)count, (off_t)offset)
                             : pread(m->fd, bytes, (size_t)count, (off_t)offset);
        if (n < 0 && (errno == EINTR || (errno == EINVAL && leave_direct(m->fd))))
            continue;
        if (n <= 0)
            return ebb_fail(err, EBB_EIO, "file tier: cannot %s %llu bytes at %llu: %s",
                            is_write ? "write" : "read", (unsigned long long)count,
                            (unsigned long long)offset, n < 0 ? strerror(errno) : "end of file");
        uint64_t done = (uint64_t)n < count ? whole_blocks(m->fd, (uint64_t)n) : count;
        bytes += done;
        offset += done;
        count -= done;
    }
    return EBB_OK;
}

/* One buffer's worth: whole blocks around [offset, offset + count). */
static enum ebb_status file_piece(const struct device_memory *m, unsigned char *buffer,
                                  bool is_write, unsigned char *bytes, uint64_t count,
                                  uint64_t offset, struct ebb_error *err)
{
    uint64_t low = offset - offset % DEVICE_BLOCK, end = offset + count;
    uint64_t high = (end + DEVICE_BLOCK - 1) / DEVICE_BLOCK * DEVICE_BLOCK;
    if (!is_write) {
        EBB_TRY(whole_io(m, false, buffer, high - low, low, err));
        memcpy(bytes, buffer + (offset - low), (size_t)count);
        return EBB_OK;
    }
    if (low != offset)
        EBB_TRY(whole_io(m, false, buffer, DEVICE_BLOCK, low, err));
    if (high != end && (high - DEVICE_BLOCK != low || low == offset))
        EBB_TRY(whole_io(m, false, buffer + (high - DEVICE_BLOCK - low), DEVICE_BLOCK,
                         high - DEVICE_BLOCK, err));
    memcpy(buffer + (offset - low), bytes, (size_t)count);
    return whole_io(m, true, buffer, high - low, low, err);
}

static enum ebb_status file_copy(const struct device_memory *m, unsigned char *buffer,
                                 bool is_write, unsigned char *bytes, uint64_t count,
                                 uint64_t offset, struct ebb_error *err)
{
    while (count > 0) {
        uint64_t piece = DEVICE_BUFFER_BYTES - offset % DEVICE_BLOCK;
        piece = piece < count ? piece : count;
        EBB_TRY(file_piece(m, buffer, is_write, bytes, piece, offset, err));
        bytes += piece;
        offset += piece;
        count -= piece;
    }
    return EBB_OK;
}

static enum ebb_status file_open(struct device_memory *m, uint64_t bytes, const char *folder,
                                 struct ebb_error *err)
{
    m->fd = ebb_file_unnamed(folder);
    folder = folder && *folder ? folder : "the folder of temporary files";
    if (m->fd < 0)
        return ebb_fail(err, EBB_EIO, "file tier: cannot create a file in %s: %s", folder,
                        strerror(errno));
    uint64_t size = (bytes + DEVICE_BLOCK - 1) / DEVICE_BLOCK * DEVICE_BLOCK;
    int reason = posix_fallocate(m->fd, 0, (off_t)size);
    if (reason)
        return ebb_fail(err, EBB_EIO, "file tier: no room for %llu bytes in %s: %s",
                        (unsigned long long)size, folder, strerror(reason));
    int flags = fcntl(m->fd, F_GETFL);
    if (flags >= 0)
        (void)fcntl(m->fd, F_SETFL, flags | O_DIRECT); /* where it is not known, without */
    return EBB_OK;
}

/* ---- all tiers -------------------------------------------------------------------------------- */

enum ebb_status device_memory_reserve(struct device_memory *m, enum device_tier tier,
                                      uint64_t bytes, const char *file_path, struct ebb_error *err)
{
    if (m->bytes[tier])
        return ebb_fail(err, EBB_EINTERNAL, "device: tier %d is reserved already", (int)tier);
    if (bytes == 0)
        return EBB_OK;
    if (tier == DEVICE_FILE) {
        EBB_TRY(file_open(m, bytes, file_path, err));
    } else {
        void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            return ebb_fail(err, EBB_ENOMEM, "device: cannot map %llu bytes: %s",
                            (unsigned long long)bytes, strerror(errno));
        madvise(at, (size_t)bytes, MADV_HUGEPAGE); /* where there are none, small pages do */
        m->slab[tier] = at;
    }
    m->bytes[tier] = bytes;
    return EBB_OK;
}

static bool is_inside(const struct device_memory *m, enum device_tier tier, uint64_t offset,
                      uint64_t bytes)
{
    return bytes <= m->bytes[tier] && offset <= m->bytes[tier] - bytes;
}

enum ebb_status device_memory_check(const struct device_memory *m, const struct device_item *c,
                                    struct ebb_error *err)
{
    if (is_inside(m, c->to, c->to_offset, c->bytes) &&
        is_inside(m, c->from, c->from_offset, c->bytes))
        return EBB_OK;
    return ebb_fail(err, EBB_EDEVICE,
                    "device: copy of %llu bytes from tier %d offset %llu to tier %d offset %llu "
                    "leaves the slab",
                    (unsigned long long)c->bytes, (int)c->from, (unsigned long long)c->from_offset,
                    (int)c->to, (unsigned long long)c->to_offset);
}

/* ---- copies between tiers in memory -----------------------------------------------------------
 *
 * What they write goes past the caches: what leaves is not read soon, what comes back came early, and
 * the op that runs beside keeps its lines. A step of ResNet-20 in 25 MiB over 2 GB/s takes 112 to 119 ms
 * instead of 127 to 131 (109 to 111 without a limit); memcpy does so by itself only from some tens of
 * MiB on. From 16, 64 and 256 KiB on made no difference. */

#define LARGE_BYTES 16384

#if defined(__has_feature) /* the sanitizer of threads sees memcpy, and not these stores */
#define HAS_STREAMS !__has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define HAS_STREAMS 0
#else
#define HAS_STREAMS 1
#endif

#if defined(__x86_64__) && HAS_STREAMS
/* to: a multiple of 16. */
static void copy_large(unsigned char *to, const unsigned char *from, size_t bytes)
{
    enum { LINE = 64 };
    for (; bytes >= LINE; bytes -= LINE, to += LINE, from += LINE)
        for (int i = 0; i < LINE; i += 16)
            _mm_stream_si128((__m128i *)(void *)(to + i),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
    _mm_sfence(); /* before anybody is told that it is there */
    memcpy(to, from, bytes);
}
#else
static void copy_large(unsigned char *to, const unsigned char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif

static void copy_tiers(unsigned char *to, const unsigned char *from, size_t bytes)
{
    if (bytes >= LARGE_BYTES && (uintptr_t)to % 16 == 0)
        copy_large(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

enum ebb_status device_memory_copy(const struct device_memory *m, unsigned char *buffer,
                                   const struct device_item *c, struct ebb_error *err)
{
    if (c->is_zero) {
        memset(m->slab[DEVICE_T0] + c->to_offset, 0, (size_t)c->bytes);
        return EBB_OK;
    }
    if (c->host && c->is_read) {
        memcpy(c->host, m->slab[DEVICE_T0] + c->from_offset, (size_t)c->bytes);
        return EBB_OK;
    }
    if (c->host) {
        memcpy(m->slab[DEVICE_T0] + c->to_offset, c->host, (size_t)c->bytes);
        return EBB_OK;
    }
    if (c->to == DEVICE_FILE)
        return file_copy(m, buffer, true, m->slab[c->from] + c->from_offset, c->bytes, c->to_offset,
                         err);
    if (c->from == DEVICE_FILE)
        return file_copy(m, buffer, false, m->slab[c->to] + c->to_offset, c->bytes, c->from_offset,
                         err);
    if (c->to != c->from)
        copy_tiers(m->slab[c->to] + c->to_offset, m->slab[c->from] + c->from_offset,
                   (size_t)c->bytes);
    else /* slides may overlap */
        memmove(m->slab[c->to] + c->to_offset, m->slab[c->from] + c->from_offset, (size_t)c->bytes);
    return EBB_OK;
}

uint64_t device_link_ns(const struct device_config *config, enum device_tier to,
                        enum device_tier from, uint64_t bytes)
{
    bool is_out = from == DEVICE_T0 && to != DEVICE_T0;
    const struct device_link *link = is_out ? &config->out[to] : &config->in[from];
    return device_copy_ns(link, bytes);
}

void *device_host_take(struct device *device, uint64_t bytes)
{
    (void)device;
    return ebb_alloc_aligned(DEVICE_BLOCK,
                             (size_t)(bytes + DEVICE_BLOCK - 1) & ~(size_t)(DEVICE_BLOCK - 1));
}

void device_host_give(struct device *device, void *host)
{
    (void)device;
    ebb_free(host);
}
