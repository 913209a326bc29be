/* cpu.c - the table of the cpu: a row per family, at once on the caller's thread. */
#include "base/heap.h"
#include "kernel/context.h"
#include "kernel/conv_low.h"
#include "kernel/internal.h"
#include "profile/profile.h"

_Static_assert(KERNEL_FAMILIES <= 64, "a bit per family"); /* not in the header: C++ reads it */

size_t kernel_dtype_bytes(uint8_t dtype)
{
    static const uint8_t bytes[KERNEL_DTYPES] = {
#define X(name, bytes) bytes,
        KERNEL_DTYPE_LIST(X)
#undef X
    };
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

size_t kernel_desc_bytes(enum kernel_family family)
{
    static const uint16_t bytes[KERNEL_FAMILIES] = {
#define X(name, text, type) sizeof(type),
        KERNEL_FAMILY_LIST(X)
#undef X
    };
    return bytes[family];
}

int kernel_threads(const struct kernel_context *context)
{
    return context ? context->head.threads : 1;
}

/* ---- the rows ----------------------------------------------------------------------------------- */

static kernel_cpu_runs *const runs[KERNEL_FAMILIES] = {
#define X(name, text, type) kernel_cpu_##text,
    KERNEL_FAMILY_LIST(X)
#undef X
};

static kernel_cpu_needs *const needs[KERNEL_FAMILIES] = {
#define X(name, text) [KERNEL_FAMILY_##name] = kernel_need_##text,
    KERNEL_CPU_NEEDS(X)
#undef X
};

/* Which operands of 16 bits a family works on; F32 alone unless said here. */
static const struct takes {
    enum { NOTHING, PAIR, REST } rule;
    uint32_t first;
} rules[KERNEL_FAMILIES] = {
    /* two BF16 from `first` on, where oneDNN multiplies them */
    [KERNEL_FAMILY_MATMUL] = {PAIR, 0},
    [KERNEL_FAMILY_CONV] = {PAIR, 0},
    [KERNEL_FAMILY_PRODUCT_ENTROPY] = {PAIR, 0},
    [KERNEL_FAMILY_PRODUCT_ENTROPY_STEP] = {PAIR, 0},
    [KERNEL_FAMILY_PRODUCT_ENTROPY_GRAD] = {PAIR, 1},
    /* all of one type, but for weights and statistics: four from `first` on, F32 */
    [KERNEL_FAMILY_BATCH_NORM_STATS] = {REST, 1},
    [KERNEL_FAMILY_BATCH_NORM] = {REST, 1},
    [KERNEL_FAMILY_BATCH_NORM_GRAD] = {REST, 2},
};

bool kernel_cpu_takes(const struct kernel_context *context, enum kernel_family family,
                      const void *desc, const struct kernel_args *types)
{
    const struct takes t = rules[family];
    const uint8_t *type = types->in_dtype;
    (void)context;
    if (family == KERNEL_FAMILY_MATMUL &&
        ((const struct kernel_matmul *)desc)->adds == KERNEL_ADDS_OTHER)
        return false;
    if (family == KERNEL_FAMILY_MATMUL && type[0] == type[1] && kernel_matmul_is_low(desc))
        return true;
    if (family == KERNEL_FAMILY_CONV && type[0] == type[1] &&
        type[0] == ((const struct kernel_conv_desc *)desc)->conv.dtype &&
        kernel_conv_is_low(&((const struct kernel_conv_desc *)desc)->conv))
        return true;
    if (family == KERNEL_FAMILY_CROSS_ENTROPY || family == KERNEL_FAMILY_CROSS_ENTROPY_GRAD)
        return kernel_entropy_takes(desc, types, family == KERNEL_FAMILY_CROSS_ENTROPY_GRAD);
    if (t.rule == PAIR)
        return type[t.first] == KERNEL_BF16 && type[t.first + 1] == KERNEL_BF16 &&
               kernel_has_bf16();
    for (uint32_t k = 0; k < types->in_count; k++)
        if (type[k] != (k >= t.first && k < t.first + 4 ? (uint8_t)KERNEL_F32 : type[0]))
            return false;
    return t.rule == REST;
}

static enum ebb_status cpu_open(struct kernel_context **context, struct device *device,
                                const struct profile *profile, int threads, struct ebb_error *err)
{
    if (threads < 1 || threads > 1024)
        return ebb_fail(err, EBB_EINPUT, "kernel: %d threads, allowed are 1 to 1024", threads);
    struct kernel_context *c;
    EBB_TRY(ebb_new(&c, 1, sizeof *c, err));
    c->head.table = &kernel_cpu;
    c->head.threads = threads;
    for (int k = 0; k < KERNEL_FAMILIES; k++)
        c->fits[k] = profile_fit_of(profile ? profile : profile_builtin(),
                                    kernel_family_name((enum kernel_family)k));
    c->device = device;
    enum ebb_status status = kernel_dnnl_open(c, err);
    return EBB_HAND_OUT(status, context, c, ebb_free);
}

void kernel_cpu_close(struct kernel_context *context)
{
    if (!context)
        return;
    kernel_dnnl_close(context);
    ebb_free(context);
}

enum ebb_status kernel_cpu_need(struct kernel_context *context, enum kernel_family family,
                                const void *desc, const struct kernel_args *types,
                                struct kernel_need *need, struct ebb_error *err)
{
    need->workspace_bytes = need->algorithm = 0;
    const struct profile_fit *fit =
        context ? context->fits[family]
                : profile_fit_of(profile_builtin(), kernel_family_name(family));
    need->cost_ns =
        profile_fit_ns(fit, need->flops, need->bytes, context ? context->head.threads : 1);
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
    .sized = KERNEL_CPU_SIZED,
    .open = cpu_open,
    .close = kernel_cpu_close,
    .takes = kernel_cpu_takes,
    .choose = kernel_conv_choose,
    .need = kernel_cpu_need,
    .run = cpu_run,
};
