/* cpu.c - this machine: real memory, kernels that run where they are launched, copies by threads.
 *
 * The compute stream is the caller's thread, so a launch, and a copy on that stream, is done when
 * the call returns. Each copy stream is a thread, started with its tier; so is that of launches
 * below. */
#include "device/memory.h"

#include "base/clock.h"
#include "base/heap.h"

struct cpu_device {
    struct device base; /* first */
    struct device_config config;
    struct device_memory memory;
    struct device_threads *threads;
};

static struct cpu_device *self(struct device *device)
{
    return (struct cpu_device *)device;
}

static enum ebb_status run_item(void *device, unsigned char *buffer, const struct device_item *item,
                                struct ebb_error *err)
{
    if (item->work)
        return item->work(item->argument, err);
    return device_memory_copy(&self(device)->memory, buffer, item, err);
}

static void cpu_destroy(struct device *device)
{
    if (!device)
        return;
    struct cpu_device *d = self(device);
    device_threads_destroy(d->threads);
    device_memory_fini(&d->memory);
    ebb_free(d);
}

static enum ebb_status cpu_create(struct device **device, const struct device_config *config,
                                  struct ebb_error *err)
{
    struct cpu_device *d;
    EBB_TRY(ebb_new(&d, 1, sizeof *d, err));
    d->base.table = &device_cpu;
    device_memory_init(&d->memory);
    if (config)
        d->config = *config;
    enum ebb_status status = device_threads_create(&d->threads, d, run_item, err);
    if (status != EBB_OK) {
        cpu_destroy(&d->base);
        return status;
    }
    *device = &d->base;
    return EBB_OK;
}

static enum ebb_status cpu_reserve(struct device *device, enum device_tier tier, uint64_t bytes,
                                   struct ebb_error *err)
{
    struct cpu_device *d = self(device);
    for (int k = 0; tier != DEVICE_T0 && bytes && k < 2; k++)
        EBB_TRY(device_threads_start(d->threads, device_copy_stream(tier, k), err));
    if (tier == DEVICE_HOST && bytes)
        EBB_TRY(device_threads_start(d->threads, DEVICE_BELOW, err));
    return device_memory_reserve(&d->memory, tier, bytes, d->config.file_path, err);
}

static void *cpu_address(struct device *device, uint64_t offset)
{
    return self(device)->memory.slab[DEVICE_T0] + offset;
}

static enum ebb_status cpu_launch(struct device *device, device_work work, void *argument,
                                  uint64_t cost_ns, struct ebb_error *err)
{
    (void)device;
    (void)cost_ns;
    return work ? work(argument, err) : EBB_OK;
}

static enum ebb_status cpu_launch_below(struct device *device, device_work work, void *argument,
                                        uint64_t cost_ns, struct ebb_error *err)
{
    struct device_item item = {.work = work, .argument = argument};
    (void)cost_ns;
    return work ? device_threads_push(self(device)->threads, DEVICE_BELOW, &item, err) : EBB_OK;
}

static void *cpu_below(struct device *device, uint64_t offset)
{
    return self(device)->memory.slab[DEVICE_HOST] + offset;
}

/* The compute stream is the caller; so is a copy stream without a thread: nothing is queued there.
 */
static enum ebb_status hand_over(struct cpu_device *d, enum device_stream stream,
                                 const struct device_item *item, struct ebb_error *err)
{
    EBB_TRY(device_memory_check(&d->memory, item, err));
    if (device_threads_has(d->threads, stream))
        return device_threads_push(d->threads, stream, item, err);
    return device_memory_copy(&d->memory, NULL, item, err);
}

static enum ebb_status cpu_copy(struct device *device, enum device_stream stream,
                                enum device_tier to, uint64_t to_offset, enum device_tier from,
                                uint64_t from_offset, uint64_t bytes, struct ebb_error *err)
{
    struct cpu_device *d = self(device);
    struct device_item item = {
        .to = to, .from = from, .to_offset = to_offset, .from_offset = from_offset, .bytes = bytes};
    if (stream == DEVICE_COMPUTE && (to != DEVICE_T0 || from != DEVICE_T0))
        return ebb_fail(err, EBB_EDEVICE,
                        "cpu device: copies between tiers have their own streams");
    if (d->config.is_throttled[to == DEVICE_T0 ? from : to] && stream != DEVICE_COMPUTE)
        item.least_ns = device_link_ns(&d->config, to, from, bytes);
    return hand_over(d, stream, &item, err);
}

static enum ebb_status cpu_write(struct device *device, enum device_stream stream,
                                 uint64_t to_offset, const void *host, uint64_t bytes,
                                 struct ebb_error *err)
{
    struct device_item item = {
        .to_offset = to_offset, .host = (void *)(uintptr_t)host, .bytes = bytes};
    return hand_over(self(device), stream, &item, err);
}

static enum ebb_status cpu_read(struct device *device, enum device_stream stream, void *host,
                                uint64_t from_offset, uint64_t bytes, struct ebb_error *err)
{
    struct device_item item = {
        .from_offset = from_offset, .host = host, .is_read = true, .bytes = bytes};
    return hand_over(self(device), stream, &item, err);
}

static enum ebb_status cpu_zero(struct device *device, enum device_stream stream, uint64_t offset,
                                uint64_t bytes, struct ebb_error *err)
{
    struct device_item item = {.to_offset = offset, .is_zero = true, .bytes = bytes};
    return hand_over(self(device), stream, &item, err);
}

static enum ebb_status cpu_record(struct device *device, enum device_stream stream,
                                  device_event *event, struct ebb_error *err)
{
    (void)err;
    *event = device_threads_record(self(device)->threads, stream);
    return EBB_OK;
}

static enum ebb_status cpu_event_wait(struct device *device, device_event event,
                                      struct ebb_error *err)
{
    return device_threads_wait(self(device)->threads, event, true, err);
}

static enum ebb_status cpu_stream_wait(struct device *device, enum device_stream stream,
                                       device_event event, struct ebb_error *err)
{
    if (stream == DEVICE_COMPUTE)
        return cpu_event_wait(device, event, err);
    return device_threads_follow(self(device)->threads, stream, event, err);
}

static bool cpu_event_done(struct device *device, device_event event)
{
    return device_threads_is_done(self(device)->threads, event);
}

static enum ebb_status cpu_sync(struct device *device, struct ebb_error *err)
{
    return device_threads_sync(self(device)->threads, true, err);
}

static uint64_t cpu_now(struct device *device, enum device_stream stream)
{
    (void)device;
    (void)stream;
    return ebb_clock_ns();
}

static uint64_t cpu_stall(struct device *device)
{
    return device_threads_stall_ns(self(device)->threads);
}

const struct device_table device_cpu = {
    .name = "cpu",
    .is_lazy = true,
    .is_host_visible = true,
    .create = cpu_create,
    .destroy = cpu_destroy,
    .reserve = cpu_reserve,
    .address = cpu_address,
    .launch = cpu_launch,
    .launch_below = cpu_launch_below,
    .below = cpu_below,
    .copy = cpu_copy,
    .write = cpu_write,
    .read = cpu_read,
    .zero = cpu_zero,
    .host_take = device_host_take,
    .host_give = device_host_give,
    .record = cpu_record,
    .stream_wait = cpu_stream_wait,
    .event_done = cpu_event_done,
    .event_wait = cpu_event_wait,
    .sync = cpu_sync,
    .now_ns = cpu_now,
    .stall_ns = cpu_stall,
};
