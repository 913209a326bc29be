/* null.c - the device without memory or kernels: every stream is a clock.
 *
 * Launches add their expected nanoseconds to the compute stream, copies occupy the link of their
 * direction and tier. An event is a point on those clocks (its number is the moment, and one), so
 * overlap, contention and stalls are simulated repeatably, and exactly but for this:
 *
 * Where a link carries less in each direction while both are busy, whoever comes later gets what
 * the other leaves, half of it at least: then the earlier copy takes longer, and those behind it
 * begin later. An event recorded behind it before keeps the moment that was known then, so who
 * waits for it is let go up to twice too early. */
#include "device/memory.h"

#include "base/heap.h"

struct busy {
    uint64_t from, until; /* copies without a pause between them, the last ones of a stream */
};

struct null_device {
    struct device base; /* first: device_table comes from here */
    struct device_config config;
    uint64_t now[DEVICE_STREAMS];
    struct busy busy[DEVICE_STREAMS];
    uint64_t stall_ns;
    struct device_memory memory; /* sizes only */
};

static struct null_device *self(struct device *device)
{
    return (struct null_device *)device;
}

static enum ebb_status null_create(struct device **device, const struct device_config *config,
                                   struct ebb_error *err)
{
    struct null_device *d;
    EBB_TRY(ebb_new(&d, 1, sizeof *d, err));
    d->base.table = &device_null;
    if (config)
        d->config = *config;
    *device = &d->base;
    return EBB_OK;
}

static void null_destroy(struct device *device)
{
    ebb_free(device);
}

static enum ebb_status null_reserve(struct device *device, enum device_tier tier, uint64_t bytes,
                                    struct ebb_error *err)
{
    struct null_device *d = self(device);
    if (d->memory.bytes[tier])
        return ebb_fail(err, EBB_EINTERNAL, "null device: tier %d is reserved already", (int)tier);
    d->memory.bytes[tier] = bytes;
    return EBB_OK;
}

static void *null_address(struct device *device, uint64_t offset)
{
    (void)device;
    (void)offset;
    return NULL;
}

static enum ebb_status null_launch(struct device *device, device_work work, void *argument,
                                   uint64_t cost_ns, struct ebb_error *err)
{
    (void)work;
    (void)argument;
    (void)err;
    self(device)->now[DEVICE_COMPUTE] += cost_ns;
    return EBB_OK;
}

static enum ebb_status null_launch_below(struct device *device, device_work work, void *argument,
                                         uint64_t cost_ns, struct ebb_error *err)
{
    struct null_device *d = self(device);
    double slowness = d->config.host_slowness;
    (void)work;
    (void)argument;
    (void)err;
    d->now[DEVICE_BELOW] += slowness > 0 ? (uint64_t)(slowness * (double)cost_ns) : cost_ns;
    return EBB_OK;
}

/* A copy and the other direction of its link, with what each carries alone and beside the other. */
struct meeting {
    double alone, beside, other_alone, other_beside;
};

/* When `bytes` that set out at `at` are there. The other direction is done later for it. */
static double arrival(double at, double bytes, const struct meeting *m, struct busy *other)
{
    double from = (double)other->from, until = (double)other->until;
    double before = at < from ? (from - at) * m->alone : 0;
    if (at >= until || bytes <= before)
        return at + bytes / m->alone;
    at = at < from ? from : at;
    bytes -= before;
    double left = (until - at) * m->other_alone; /* bytes of the other direction */
    double mine = bytes / m->beside, others = left / m->other_beside;
    double met = mine < others ? mine : others;
    uint64_t end = (uint64_t)(at + met + (left - met * m->other_beside) / m->other_alone);
    other->until = end > other->until ? end : other->until;
    return at + met + (bytes - met * m->beside) / m->alone;
}

static uint64_t copy_ns(struct null_device *d, enum device_stream stream, enum device_tier to,
                        enum device_tier from, uint64_t bytes)
{
    uint64_t ns = device_link_ns(&d->config, to, from, bytes);
    bool is_out = from == DEVICE_T0;
    enum device_tier low = is_out ? to : from;
    const struct device_link *out = &d->config.out[low], *in = &d->config.in[low];
    const struct device_link *mine = is_out ? out : in, *others = is_out ? in : out;
    double both = d->config.both[low], alone = mine->bytes_per_ns, beside = both / 2;
    enum device_stream opposite = device_copy_stream(low, !is_out);
    if (to == from || both == 0 || alone == 0 || others->bytes_per_ns == 0 ||
        both >= alone + others->bytes_per_ns || d->busy[opposite].until <= d->now[stream])
        return ns;
    if (both - others->bytes_per_ns > beside)
        beside = both - others->bytes_per_ns;
    if (beside > alone)
        beside = alone;
    struct meeting m = {alone, beside, others->bytes_per_ns, both - beside};
    double end =
        arrival((double)(d->now[stream] + mine->latency_ns), (double)bytes, &m, &d->busy[opposite]);
    if (d->now[opposite] < d->busy[opposite].until)
        d->now[opposite] = d->busy[opposite].until;
    uint64_t shared = (uint64_t)(end - (double)d->now[stream]);
    return shared > ns ? shared : ns;
}

static enum ebb_status null_copy(struct device *device, enum device_stream stream,
                                 enum device_tier to, uint64_t to_offset, enum device_tier from,
                                 uint64_t from_offset, uint64_t bytes, struct ebb_error *err)
{
    struct null_device *d = self(device);
    struct device_item item = {
        .to = to, .from = from, .to_offset = to_offset, .from_offset = from_offset, .bytes = bytes};
    EBB_TRY(device_memory_check(&d->memory, &item, err));
    uint64_t begin = d->now[stream];
    d->now[stream] += copy_ns(d, stream, to, from, bytes);
    if (begin > d->busy[stream].until)
        d->busy[stream].from = begin;
    d->busy[stream].until = d->now[stream];
    return EBB_OK;
}

/* Filling leaves and reading results costs nothing here: they happen between steps. */
static enum ebb_status null_write(struct device *device, enum device_stream stream,
                                  uint64_t to_offset, const void *host, uint64_t bytes,
                                  struct ebb_error *err)
{
    struct device_item item = {.to_offset = to_offset, .bytes = bytes};
    (void)stream;
    (void)host;
    return device_memory_check(&self(device)->memory, &item, err);
}

static enum ebb_status null_read(struct device *device, enum device_stream stream, void *host,
                                 uint64_t from_offset, uint64_t bytes, struct ebb_error *err)
{
    return null_write(device, stream, from_offset, host, bytes, err);
}

static enum ebb_status null_zero(struct device *device, enum device_stream stream, uint64_t offset,
                                 uint64_t bytes, struct ebb_error *err)
{
    return null_write(device, stream, offset, NULL, bytes, err);
}

static enum ebb_status null_record(struct device *device, enum device_stream stream,
                                   device_event *event, struct ebb_error *err)
{
    (void)err;
    *event = self(device)->now[stream] + 1;
    return EBB_OK;
}

static uint64_t done_at(device_event event)
{
    return event ? event - 1 : 0;
}

static enum ebb_status null_stream_wait(struct device *device, enum device_stream stream,
                                        device_event event, struct ebb_error *err)
{
    struct null_device *d = self(device);
    (void)err;
    uint64_t at = done_at(event);
    if (at > d->now[stream]) {
        if (stream == DEVICE_COMPUTE)
            d->stall_ns += at - d->now[stream];
        d->now[stream] = at;
    }
    return EBB_OK;
}

static bool null_event_done(struct device *device, device_event event)
{
    return done_at(event) <= self(device)->now[DEVICE_COMPUTE];
}

static enum ebb_status null_event_wait(struct device *device, device_event event,
                                       struct ebb_error *err)
{
    return null_stream_wait(device, DEVICE_COMPUTE, event, err);
}

static enum ebb_status null_sync(struct device *device, struct ebb_error *err)
{
    struct null_device *d = self(device);
    (void)err;
    uint64_t latest = 0;
    for (int s = 0; s < DEVICE_STREAMS; s++)
        latest = d->now[s] > latest ? d->now[s] : latest;
    for (int s = 0; s < DEVICE_STREAMS; s++)
        d->now[s] = latest;
    return EBB_OK;
}

static uint64_t null_now(struct device *device, enum device_stream stream)
{
    return self(device)->now[stream];
}

static uint64_t null_stall(struct device *device)
{
    return self(device)->stall_ns;
}

const struct device_table device_null = {
    .name = "null",
    .is_clock = true,
    .create = null_create,
    .destroy = null_destroy,
    .reserve = null_reserve,
    .address = null_address,
    .launch = null_launch,
    .launch_below = null_launch_below,
    .below = null_address,
    .copy = null_copy,
    .write = null_write,
    .read = null_read,
    .zero = null_zero,
    .host_take = device_host_take,
    .host_give = device_host_give,
    .record = null_record,
    .stream_wait = null_stream_wait,
    .event_done = null_event_done,
    .event_wait = null_event_wait,
    .sync = null_sync,
    .now_ns = null_now,
    .stall_ns = null_stall,
};

const struct device_table *const device_tables[] = {&device_null, &device_cpu, &device_far, NULL};
