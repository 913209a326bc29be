/* cpu.c - the table of the cpu: a row per family, at once on the caller's thread. */
#include "base/heap.h"
#include "kernel/context.h"
#include "kernel/internal.h"
#include "profile/profile.h"

size_t kernel_dtype_bytes(uint8_t dtype)
{
    static const uint8_t bytes[KERNEL_DTYPES] = {
        [KERNEL_F32] = 4, [KERNEL_BF16] = 2, [KERNEL_F16] = 2, [KERNEL_F64] = 8, [KERNEL_I64] = 8,
        [KERNEL_I32] = 4, [KERNEL_I16] = 2,  [KERNEL_U8] = 1,  [KERNEL_BOOL] = 1};
    return bytes[dtype];
}

const char *kernel_family_name(enum kernel_family family)
{
    static const char *const names[KERNEL_FAMILIES] = {
#define X(name, text, type) #text,
        KERNEL_FAMILY_LIST(X)
#undef X
    };
    return names[family];
}

int kernel_threads(const struct kernel_context *context)
{
    return context ? context->head.threads : 1;
}

/* ---- types of numbers ------------------------------------------------------------------------- */

/* F32 alone unless said here. */
typedef bool takes_rule(const void *desc, const struct kernel_args *types);

static bool takes_product(const void *desc, const struct kernel_args *types)
{
    (void)desc;
    return types->in_dtype[0] == KERNEL_BF16 && types->in_dtype[1] == KERNEL_BF16 &&
           kernel_has_bf16();
}

static bool takes_entropy_grad(const void *desc, const struct kernel_args *types)
{
    (void)desc;
    return types->in_dtype[1] == KERNEL_BF16 && types->in_dtype[2] == KERNEL_BF16 &&
           kernel_has_bf16();
}

static bool takes_conv(const void *desc, const struct kernel_args *types)
{
    const struct kernel_conv_desc *d = desc;
    return d->conv.dtype == KERNEL_BF16 && takes_product(desc, types);
}

/* Numbers of one type, but for weights and statistics. */
static bool takes_norm(const void *desc, const struct kernel_args *types, uint32_t first)
{
    (void)desc;
    for (uint32_t k = 0; k < types->in_count; k++)
        if (types->in_dtype[k] !=
            (k >= first && k < first + 4 ? (uint8_t)KERNEL_F32 : types->in_dtype[0]))
            return false;
    return true;
}

static bool takes_batch_norm(const void *desc, const struct kernel_args *types)
{
    return takes_norm(desc, types, 1);
}

static bool takes_batch_norm_grad(const void *desc, const struct kernel_args *types)
{
    return takes_norm(desc, types, 2);
}

/* ---- the rows ----------------------------------------------------------------------------------- */

static kernel_cpu_run *const runs[KERNEL_FAMILIES] = {
#define X(name, text, type) kernel_cpu_##text,
    KERNEL_FAMILY_LIST(X)
#undef X
};

static kernel_cpu_need *const needs[KERNEL_FAMILIES] = {
    [KERNEL_FAMILY_MATMUL] = kernel_need_matmul,
    [KERNEL_FAMILY_CONV] = kernel_need_conv,
    [KERNEL_FAMILY_ATTENTION] = kernel_need_attention,
    [KERNEL_FAMILY_ATTENTION_GRAD] = kernel_need_attention,
    [KERNEL_FAMILY_LAYER_NORM_GRAD] = kernel_need_layer_norm_grad,
    [KERNEL_FAMILY_PRODUCT_ENTROPY] = kernel_need_product_entropy,
    [KERNEL_FAMILY_PRODUCT_ENTROPY_GRAD] = kernel_need_product_entropy_grad,
    [KERNEL_FAMILY_UPDATE] = kernel_need_update,
    [KERNEL_FAMILY_UPDATE_SPLIT] = kernel_need_update_split,
};

static takes_rule *const rules[KERNEL_FAMILIES] = {
    [KERNEL_FAMILY_MATMUL] = takes_product,
    [KERNEL_FAMILY_CONV] = takes_conv,
    [KERNEL_FAMILY_BATCH_NORM_STATS] = takes_batch_norm,
    [KERNEL_FAMILY_BATCH_NORM] = takes_batch_norm,
    [KERNEL_FAMILY_BATCH_NORM_GRAD] = takes_batch_norm_grad,
    [KERNEL_FAMILY_PRODUCT_ENTROPY] = takes_product,
    [KERNEL_FAMILY_PRODUCT_ENTROPY_GRAD] = takes_entropy_grad,
};

static enum ebb_status cpu_open(struct kernel_context **context, struct device *device,
                                const struct profile *profile, int threads, struct ebb_error *err)
{
    if (threads < 1 || threads > 1024)
        return ebb_fail(err, EBB_EINPUT, "kernel: %d threads, allowed are 1 to 1024", threads);
    struct kernel_context *c;
    EBB_TRY(ebb_new(&c, 1, sizeof *c, err));
    c->head.table = &kernel_cpu;
    c->head.threads = threads;
    c->profile = profile ? profile : profile_builtin();
    c->device = device;
    enum ebb_status status = kernel_dnnl_open(c, err);
    if (status != EBB_OK) {
        ebb_free(c);
        return status;
    }
    *context = c;
    return EBB_OK;
}

static void cpu_close(struct kernel_context *context)
{
    if (!context)
        return;
    kernel_dnnl_close(context);
    ebb_free(context);
}

static bool cpu_takes(const struct kernel_context *context, enum kernel_family family,
                      const void *desc, const struct kernel_args *types)
{
    (void)context;
    return rules[family] && rules[family](desc, types);
}

static enum ebb_status cpu_need(struct kernel_context *context, enum kernel_family family,
                                const void *desc, const struct kernel_args *types,
                                struct kernel_need *need, struct ebb_error *err)
{
    need->workspace_bytes = need->algorithm = 0;
    need->cost_ns =
        profile_cost_ns(context ? context->profile : profile_builtin(), kernel_family_name(family),
                        "", need->flops, need->bytes, kernel_threads(context), NULL);
    return needs[family] ? needs[family](context, desc, types, need, err) : EBB_OK;
}

static enum ebb_status cpu_run(struct kernel_context *context, enum kernel_family family,
                               const void *desc, const struct kernel_args *args,
                               struct ebb_error *err)
{
    return runs[family](context, desc, args, err);
}

const struct kernel_table kernel_cpu = {
    .device = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .takes = cpu_takes,
    .choose = kernel_conv_choose,
    .need = cpu_need,
    .run = cpu_run,
};

size_t kernel_cpu_primitives(const struct kernel_context *context)
{
    return context->count;
}
