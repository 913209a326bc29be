/* far.c - reference cases on a device whose memory the host cannot read: bytes go there, every op runs, bytes come back. */
#include "dev/far.h"

#include <string.h>

#include "base/heap.h"
#include "device/device.h"
#include "kernel/kernel.h"

#define SLAB_BYTES                                                                                 \
    (UINT64_C(1) << 30) /* cases are small; workspaces of a GPU's libraries are not */
#define STAGE_BYTES (UINT64_C(4) << 20)

struct dev_far {
    struct device *device;
    void *stage;
};

static uint64_t align(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

void dev_far_destroy(struct dev_far *far)
{
    if (!far)
        return;
    if (far->stage)
        far->device->table->host_give(far->device, far->stage);
    if (far->device)
        far->device->table->destroy(far->device);
    ebb_free(far);
}

static enum ebb_status open_device(struct dev_far *f, const struct device_table *table,
                                   struct ebb_error *err)
{
    EBB_TRY(table->create(&f->device, NULL, err));
    EBB_TRY(table->reserve(f->device, DEVICE_T0, SLAB_BYTES, err));
    f->stage = table->host_take(f->device, STAGE_BYTES);
    return f->stage ? EBB_OK : ebb_no_memory(err, STAGE_BYTES);
}

enum ebb_status dev_far_create(struct dev_far **far, const char *name, int threads, void **backend,
                               struct ebb_error *err)
{
    const struct kernel_plugin *plugin = NULL;
    bool is_far = strcmp(name, "far") == 0;
    if (!is_far && strcmp(name, "cuda") != 0)
        return ebb_fail(err, EBB_EINPUT, "--device %s: allowed: cpu, cuda, far", name);
    if (!is_far)
        EBB_TRY(kernel_plugin_load(name, &plugin, err));
    struct dev_far *f;
    EBB_TRY(ebb_new(&f, 1, sizeof *f, err));
    enum ebb_status status = open_device(f, is_far ? &device_far : plugin->device, err);
    EBB_THEN(status, ops_backend_create(backend, is_far ? &kernel_far : plugin->kernels, f->device,
                                        NULL, threads, err));
    return EBB_HAND_OUT(status, far, f, dev_far_destroy);
}

static enum ebb_status pass(struct dev_far *f, uint64_t at, unsigned char *bytes, uint64_t count,
                            bool is_back, struct ebb_error *err)
{
    const struct device_table *d = f->device->table;
    for (uint64_t done = 0, n; done < count; done += n) {
        n = count - done < STAGE_BYTES ? count - done : STAGE_BYTES;
        if (!is_back)
            memcpy(f->stage, bytes + done, (size_t)n);
        EBB_TRY(is_back ? d->read(f->device, DEVICE_COMPUTE, f->stage, at + done, n, err)
                        : d->write(f->device, DEVICE_COMPUTE, at + done, f->stage, n, err));
        EBB_TRY(d->sync(f->device, err));
        if (is_back)
            memcpy(bytes + done, f->stage, (size_t)n);
    }
    return EBB_OK;
}

/* All storages, one after the other; returns where the workspace begins. */
static enum ebb_status pass_all(struct dev_far *f, struct ops_host *host, bool is_back,
                                uint64_t *end, struct ebb_error *err)
{
    uint64_t at = 0;
    for (uint32_t s = 0; s < host->trace->storage_count; s++) {
        uint64_t bytes = host->trace->storages[s].bytes;
        if (at + bytes > SLAB_BYTES)
            return ebb_fail(err, EBB_EUNSUPPORTED, "a case of more than %llu bytes",
                            (unsigned long long)SLAB_BYTES);
        EBB_TRY(pass(f, at, host->pointers[s], bytes, is_back, err));
        at += align(bytes);
    }
    *end = at;
    return EBB_OK;
}

static enum ebb_status run_call(void *argument, struct ebb_error *err)
{
    const struct trace_call *call = argument;
    return call->kind->run(call, err);
}

static enum ebb_status run_op(struct dev_far *f, const struct ops_host *host, uint32_t op,
                              uint64_t workspace, struct ebb_error *err)
{
    const struct device_table *d = f->device->table;
    const struct trace *t = host->trace;
    const struct trace_op *o = &t->ops[op];
    void *pointers[2][TENSOR_PORTS];
    if (o->is_leaf)
        return EBB_OK;
    if (workspace + o->workspace_bytes > SLAB_BYTES)
        return ebb_fail(err, EBB_EUNSUPPORTED, "a workspace of %llu bytes",
                        (unsigned long long)o->workspace_bytes);
    for (uint32_t k = 0; k < o->input_count + o->output_count; k++) {
        bool is_out = k >= o->input_count;
        uint32_t tensor =
            is_out ? o->output_first + k - o->input_count : t->inputs[o->input_first + k];
        uint64_t at = 0;
        for (uint32_t s = 0; s < t->tensors[tensor].storage; s++)
            at += align(t->storages[s].bytes);
        pointers[is_out][is_out ? k - o->input_count : k] = d->address(f->device, at);
    }
    struct trace_call call = {.kind = o->kind,
                              .in = (const void *const *)pointers[0],
                              .out = pointers[1],
                              .workspace = d->address(f->device, workspace),
                              .attr = t->attrs + o->attr_first,
                              .attr_bytes = o->attr_bytes,
                              .op = op,
                              .context = host->context};
    EBB_TRY(d->launch(f->device, run_call, &call, 0, err));
    return d->sync(f->device, err);
}

enum ebb_status dev_far_run(struct dev_far *f, struct ops_host *host, struct ebb_error *err)
{
    const struct kernel_table *kernels = ((const struct kernel_head *)host->context)->table;
    uint64_t end;
    EBB_TRY(pass_all(f, host, false, &end, err));
    for (uint32_t i = 0; i < host->trace->op_count; i++)
        EBB_TRY(run_op(f, host, i, end, err));
    EBB_TRY(kernels->finish(host->context, err));
    EBB_TRY(f->device->table->sync(f->device, err));
    if (kernels->fault(host->context))
        return ebb_fail(err, EBB_EINPUT, "an index or a target is out of range");
    return pass_all(f, host, true, &end, err);
}
