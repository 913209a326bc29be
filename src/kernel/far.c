/* far.c - the table of device `far`: the cpu's kernels on memory that the host cannot read.
 *
 * Operands come as the addresses that the device shows; on the thread of its compute stream they are
 * shifted to where the bytes are. So whatever else looks at an operand faults at once. What a kernel
 * finds wrong goes to a word, as on a device that cannot call back. */
#include "device/device.h"
#include "kernel/context.h"

static enum ebb_status far_open(struct kernel_context **context, struct device *device,
                                const struct profile *profile, int threads, struct ebb_error *err)
{
    EBB_TRY(kernel_cpu.open(context, device, profile, threads, err));
    (*context)->head.table = &kernel_far;
    return EBB_OK;
}

static const void *shifted(const void *p, ptrdiff_t shift)
{
    return p ? (const unsigned char *)p + shift : NULL;
}

static enum ebb_status far_run(struct kernel_context *context, enum kernel_family family,
                               const void *desc, const struct kernel_args *args,
                               struct ebb_error *err)
{
    if (!context->device)
        return ebb_fail(err, EBB_EUNSUPPORTED, "kernel: this context has no device to run on");
    ptrdiff_t shift = device_far_shift(context->device);
    struct kernel_args near = *args;
    for (uint32_t i = 0; i < KERNEL_PORTS; i++) {
        near.in[i] = shifted(i < args->in_count ? args->in[i] : NULL, shift);
        near.out[i] = (void *)(uintptr_t)shifted(i < args->out_count ? args->out[i] : NULL, shift);
    }
    near.workspace = (void *)(uintptr_t)shifted(args->workspace, shift);
    enum ebb_status status = kernel_cpu.run(context, family, desc, &near, err);
    if (status != EBB_EINPUT)
        return status;
    if (!context->fault || args->op + 1 < context->fault)
        context->fault = args->op + 1;
    return EBB_OK;
}

static enum ebb_status show_fault(void *argument, struct ebb_error *err)
{
    struct kernel_context *context = argument;
    (void)err;
    context->last_fault = context->fault;
    context->fault = 0;
    return EBB_OK;
}

static enum ebb_status far_finish(struct kernel_context *context, struct ebb_error *err)
{
    return context->device->table->launch(context->device, show_fault, context, 0, err);
}

static uint32_t far_fault(struct kernel_context *context)
{
    return context->last_fault;
}

const struct kernel_table kernel_far = {
    .device = "far",
    .sized = KERNEL_CPU_SIZED,
    .open = far_open,
    .close = kernel_cpu_close,
    .takes = kernel_cpu_takes,
    .choose = kernel_conv_choose,
    .need = kernel_cpu_need,
    .run = far_run,
    .finish = far_finish,
    .fault = far_fault,
};
