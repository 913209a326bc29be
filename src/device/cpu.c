/* cpu.c - this machine: real memory, kernels that run where they are launched, copies by two
 * threads.
 *
 * Tier 0 and the host tier are mapped, not touched: pages that are never written cost nothing. The
 * compute stream is the caller's thread, so a launch runs at once. Each copy stream is a thread
 * with a queue; both are started by the first lower tier. The file tier is read and written past
 * the page cache (O_DIRECT where the file system has it) through one aligned buffer per thread;
 * blocks at the ends of a range that belong to others too are read before they are written.
 *
 * Events are positions in a stream: (stream, number of items before it). */
#include "device/device.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"

#define BLOCK 4096u
#define BUFFER_BYTES (1u << 20)
#define QUEUE 256u /* items; a full queue makes the caller wait */

struct item {
    enum device_tier to, from;
    uint64_t to_offset, from_offset, bytes;
    device_event wait; /* not 0: nothing but a wait for another stream */
};

struct stream {
    struct cpu_device *device;
    pthread_t thread;
    struct item items[QUEUE];
    uint64_t pushed, done; /* guarded by the device's lock */
    unsigned char *buffer; /* of the thread */
};

struct cpu_device {
    struct device base; /* first */
    struct device_config config;
    unsigned char *slab[DEVICE_TIERS]; /* T0, host */
    uint64_t bytes[DEVICE_TIERS];
    int fd;
    bool is_direct, has_threads, is_closing;
    pthread_mutex_t lock; /* guards the queues and the failure */
    pthread_cond_t changed;
    struct stream streams[DEVICE_STREAMS]; /* compute has no thread */
    struct ebb_error failure;              /* first one of a copy thread */
    uint64_t stall_ns;
};

static struct cpu_device *self(struct device *device)
{
    return (struct cpu_device *)device;
}

/* ---- events -----------------------------------------------------------------------------------
 */

static device_event event_make(enum device_stream stream, uint64_t position)
{
    return position << 2 | (uint64_t)stream;
}

/* Under the lock. */
static bool is_done(const struct cpu_device *d, device_event event)
{
    enum device_stream stream = (enum device_stream)(event & 3);
    return stream == DEVICE_COMPUTE || d->streams[stream].done >= event >> 2;
}

/* ---- the file tier ----------------------------------------------------------------------------
 */

static enum ebb_status whole_io(struct cpu_device *d, bool is_write, unsigned char *bytes,
                                uint64_t count, uint64_t offset, struct ebb_error *err)
{
    while (count > 0) {
        ssize_t n = is_write ? pwrite(d->fd, bytes, (size_t)count, (off_t)offset)
                             : pread(d->fd, bytes, (size_t)count, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ebb_fail(err, EBB_EIO, "file tier: cannot %s %llu bytes at %llu: %s",
                            is_write ? "write" : "read", (unsigned long long)count,
                            (unsigned long long)offset, n < 0 ? strerror(errno) : "end of file");
        bytes += n;
        offset += (uint64_t)n;
        count -= (uint64_t)n;
    }
    return EBB_OK;
}

/* One buffer's worth: whole blocks around [offset, offset + count). */
static enum ebb_status file_piece(struct cpu_device *d, unsigned char *buffer, bool is_write,
                                  unsigned char *bytes, uint64_t count, uint64_t offset,
                                  struct ebb_error *err)
{
    uint64_t low = offset - offset % BLOCK, end = offset + count;
    uint64_t high = (end + BLOCK - 1) / BLOCK * BLOCK;
    if (!is_write) {
        EBB_TRY(whole_io(d, false, buffer, high - low, low, err));
        memcpy(bytes, buffer + (offset - low), (size_t)count);
        return EBB_OK;
    }
    if (low != offset)
        EBB_TRY(whole_io(d, false, buffer, BLOCK, low, err));
    if (high != end && (high - BLOCK != low || low == offset))
        EBB_TRY(whole_io(d, false, buffer + (high - BLOCK - low), BLOCK, high - BLOCK, err));
    memcpy(buffer + (offset - low), bytes, (size_t)count);
    return whole_io(d, true, buffer, high - low, low, err);
}

static enum ebb_status file_copy(struct cpu_device *d, unsigned char *buffer, bool is_write,
                                 unsigned char *bytes, uint64_t count, uint64_t offset,
                                 struct ebb_error *err)
{
    while (count > 0) {
        uint64_t piece = BUFFER_BYTES - offset % BLOCK;
        piece = piece < count ? piece : count;
        EBB_TRY(file_piece(d, buffer, is_write, bytes, piece, offset, err));
        bytes += piece;
        offset += piece;
        count -= piece;
    }
    return EBB_OK;
}

/* A file without a name: gone when the process is. */
static enum ebb_status file_open(struct cpu_device *d, uint64_t bytes, struct ebb_error *err)
{
    const char *folder = d->config.file_path;
    char path[4096];
    if (!folder || !*folder)
        folder = getenv("TMPDIR");
    if (!folder || !*folder)
        folder = "/tmp";
    int n = snprintf(path, sizeof path, "%s/ebb-tier-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof path)
        return ebb_fail(err, EBB_EINPUT, "file tier: path too long: %s", folder);
    d->fd = mkostemp(path, O_CLOEXEC);
    if (d->fd < 0)
        return ebb_fail(err, EBB_EIO, "file tier: cannot create a file in %s: %s", folder,
                        strerror(errno));
    unlink(path);
    uint64_t size = (bytes + BLOCK - 1) / BLOCK * BLOCK;
    int reason = posix_fallocate(d->fd, 0, (off_t)size);
    if (reason)
        return ebb_fail(err, EBB_EIO, "file tier: no room for %llu bytes in %s: %s",
                        (unsigned long long)size, folder, strerror(reason));
    int flags = fcntl(d->fd, F_GETFL);
    d->is_direct = flags >= 0 && fcntl(d->fd, F_SETFL, flags | O_DIRECT) == 0;
    return EBB_OK;
}

/* ---- copy threads -----------------------------------------------------------------------------
 */

static enum ebb_status do_copy(struct cpu_device *d, unsigned char *buffer, const struct item *i,
                               struct ebb_error *err)
{
    if (i->to == DEVICE_FILE)
        return file_copy(d, buffer, true, d->slab[i->from] + i->from_offset, i->bytes, i->to_offset,
                         err);
    if (i->from == DEVICE_FILE)
        return file_copy(d, buffer, false, d->slab[i->to] + i->to_offset, i->bytes, i->from_offset,
                         err);
    memmove(d->slab[i->to] + i->to_offset, d->slab[i->from] + i->from_offset, (size_t)i->bytes);
    return EBB_OK;
}

static void *stream_main(void *argument)
{
    struct stream *s = argument;
    struct cpu_device *d = s->device;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (s->done == s->pushed && !d->is_closing)
            pthread_cond_wait(&d->changed, &d->lock);
        if (s->done == s->pushed)
            break;
        struct item item = s->items[s->done % QUEUE];
        while (item.wait && !is_done(d, item.wait) && !d->is_closing)
            pthread_cond_wait(&d->changed, &d->lock);
        if (!item.wait && d->failure.status == EBB_OK) {
            struct ebb_error err = {0};
            pthread_mutex_unlock(&d->lock);
            enum ebb_status status = do_copy(d, s->buffer, &item, &err);
            pthread_mutex_lock(&d->lock);
            if (status != EBB_OK && d->failure.status == EBB_OK) {
                d->failure = err;
                d->failure.status = status;
            }
        }
        s->done++;
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static enum ebb_status start_threads(struct cpu_device *d, struct ebb_error *err)
{
    for (int k = DEVICE_OUT; k <= DEVICE_IN; k++) {
        struct stream *s = &d->streams[k];
        s->device = d;
        s->buffer = ebb_alloc_aligned(BLOCK, BUFFER_BYTES);
        if (!s->buffer)
            return ebb_no_memory(err, BUFFER_BYTES);
        int reason = pthread_create(&s->thread, NULL, stream_main, s);
        if (reason) {
            ebb_free(s->buffer);
            s->buffer = NULL;
            return ebb_fail(err, EBB_EDEVICE, "cpu device: cannot start a copy thread: %s",
                            strerror(reason));
        }
    }
    d->has_threads = true;
    return EBB_OK;
}

/* ---- the table --------------------------------------------------------------------------------
 */

static enum ebb_status cpu_create(struct device **device, const struct device_config *config,
                                  struct ebb_error *err)
{
    struct cpu_device *d = ebb_calloc(1, sizeof *d);
    if (!d)
        return ebb_no_memory(err, sizeof *d);
    d->base.table = &device_cpu;
    d->fd = -1;
    if (config)
        d->config = *config;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    *device = &d->base;
    return EBB_OK;
}

static void cpu_destroy(struct device *device)
{
    if (!device)
        return;
    struct cpu_device *d = self(device);
    pthread_mutex_lock(&d->lock);
    d->is_closing = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    for (int k = DEVICE_OUT; k <= DEVICE_IN; k++) {
        if (!d->streams[k].buffer)
            continue;
        pthread_join(d->streams[k].thread, NULL);
        ebb_free(d->streams[k].buffer);
    }
    for (int k = 0; k < DEVICE_FILE; k++) {
        if (d->slab[k])
            munmap(d->slab[k], (size_t)d->bytes[k]);
    }
    if (d->fd >= 0)
        close(d->fd);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    ebb_free(d);
}

static enum ebb_status cpu_reserve(struct device *device, enum device_tier tier, uint64_t bytes,
                                   struct ebb_error *err)
{
    struct cpu_device *d = self(device);
    if (d->bytes[tier])
        return ebb_fail(err, EBB_EINTERNAL, "cpu device: tier %d is reserved already", (int)tier);
    if (bytes == 0)
        return EBB_OK;
    if (tier != DEVICE_T0 && !d->has_threads)
        EBB_TRY(start_threads(d, err));
    if (tier == DEVICE_FILE) {
        EBB_TRY(file_open(d, bytes, err));
    } else {
        void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            return ebb_fail(err, EBB_ENOMEM, "cpu device: cannot map %llu bytes: %s",
                            (unsigned long long)bytes, strerror(errno));
        madvise(at, (size_t)bytes, MADV_HUGEPAGE); /* where there are none, small pages do */
        d->slab[tier] = at;
    }
    d->bytes[tier] = bytes;
    return EBB_OK;
}

static void *cpu_address(struct device *device, uint64_t offset)
{
    return self(device)->slab[DEVICE_T0] + offset;
}

static enum ebb_status cpu_launch(struct device *device, device_work work, void *argument,
                                  uint64_t cost_ns, struct ebb_error *err)
{
    (void)device;
    (void)cost_ns;
    return work ? work(argument, err) : EBB_OK;
}

/* Under the lock. */
static enum ebb_status push(struct cpu_device *d, enum device_stream stream,
                            const struct item *item, struct ebb_error *err)
{
    struct stream *s = &d->streams[stream];
    if (!d->has_threads)
        return ebb_fail(err, EBB_EINTERNAL, "cpu device: no lower tier is reserved");
    while (s->pushed - s->done == QUEUE)
        pthread_cond_wait(&d->changed, &d->lock);
    s->items[s->pushed++ % QUEUE] = *item;
    pthread_cond_broadcast(&d->changed);
    if (d->failure.status != EBB_OK)
        return ebb_fail(err, d->failure.status, "%s", d->failure.message);
    return EBB_OK;
}

static bool is_inside(const struct cpu_device *d, enum device_tier tier, uint64_t offset,
                      uint64_t bytes)
{
    return bytes <= d->bytes[tier] && offset <= d->bytes[tier] - bytes;
}

static enum ebb_status cpu_copy(struct device *device, enum device_stream stream,
                                enum device_tier to, uint64_t to_offset, enum device_tier from,
                                uint64_t from_offset, uint64_t bytes, struct ebb_error *err)
{
    struct cpu_device *d = self(device);
    struct item item = {
        .to = to, .from = from, .to_offset = to_offset, .from_offset = from_offset, .bytes = bytes};
    if (!is_inside(d, to, to_offset, bytes) || !is_inside(d, from, from_offset, bytes))
        return ebb_fail(err, EBB_EDEVICE,
                        "cpu device: copy of %llu bytes from tier %d offset %llu to tier %d offset "
                        "%llu leaves the slab",
                        (unsigned long long)bytes, (int)from, (unsigned long long)from_offset,
                        (int)to, (unsigned long long)to_offset);
    if (stream == DEVICE_COMPUTE && to == DEVICE_T0 && from == DEVICE_T0)
        return do_copy(d, NULL, &item, err);
    if (stream == DEVICE_COMPUTE)
        return ebb_fail(err, EBB_EDEVICE,
                        "cpu device: copies between tiers have their own streams");
    pthread_mutex_lock(&d->lock);
    enum ebb_status status = push(d, stream, &item, err);
    pthread_mutex_unlock(&d->lock);
    return status;
}

static enum ebb_status cpu_record(struct device *device, enum device_stream stream,
                                  device_event *event, struct ebb_error *err)
{
    struct cpu_device *d = self(device);
    (void)err;
    pthread_mutex_lock(&d->lock);
    *event = stream == DEVICE_COMPUTE ? 0 : event_make(stream, d->streams[stream].pushed);
    pthread_mutex_unlock(&d->lock);
    return EBB_OK;
}

static enum ebb_status cpu_event_wait(struct device *device, device_event event,
                                      struct ebb_error *err)
{
    struct cpu_device *d = self(device);
    if (event == 0)
        return EBB_OK;
    pthread_mutex_lock(&d->lock);
    if (!is_done(d, event)) {
        uint64_t begin = ebb_clock_ns();
        while (!is_done(d, event))
            pthread_cond_wait(&d->changed, &d->lock);
        d->stall_ns += ebb_clock_ns() - begin;
    }
    enum ebb_status status = d->failure.status;
    if (status != EBB_OK)
        status = ebb_fail(err, status, "%s", d->failure.message);
    pthread_mutex_unlock(&d->lock);
    return status;
}

static enum ebb_status cpu_stream_wait(struct device *device, enum device_stream stream,
                                       device_event event, struct ebb_error *err)
{
    struct cpu_device *d = self(device);
    if (event == 0 || (enum device_stream)(event & 3) == stream)
        return EBB_OK; /* in order already */
    if (stream == DEVICE_COMPUTE)
        return cpu_event_wait(device, event, err);
    struct item item = {.wait = event};
    pthread_mutex_lock(&d->lock);
    enum ebb_status status = push(d, stream, &item, err);
    pthread_mutex_unlock(&d->lock);
    return status;
}

static bool cpu_event_done(struct device *device, device_event event)
{
    struct cpu_device *d = self(device);
    pthread_mutex_lock(&d->lock);
    bool done = event == 0 || is_done(d, event);
    pthread_mutex_unlock(&d->lock);
    return done;
}

static enum ebb_status cpu_sync(struct device *device, struct ebb_error *err)
{
    device_event event;
    for (int k = DEVICE_OUT; k <= DEVICE_IN; k++) {
        EBB_TRY(cpu_record(device, (enum device_stream)k, &event, err));
        EBB_TRY(cpu_event_wait(device, event, err));
    }
    return EBB_OK;
}

static uint64_t cpu_now(struct device *device, enum device_stream stream)
{
    (void)device;
    (void)stream;
    return ebb_clock_ns();
}

static uint64_t cpu_stall(struct device *device)
{
    return self(device)->stall_ns;
}

const struct device_table device_cpu = {
    .name = "cpu",
    .create = cpu_create,
    .destroy = cpu_destroy,
    .reserve = cpu_reserve,
    .address = cpu_address,
    .launch = cpu_launch,
    .copy = cpu_copy,
    .record = cpu_record,
    .stream_wait = cpu_stream_wait,
    .event_done = cpu_event_done,
    .event_wait = cpu_event_wait,
    .sync = cpu_sync,
    .now_ns = cpu_now,
    .stall_ns = cpu_stall,
};
