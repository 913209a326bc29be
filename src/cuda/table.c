/* table.c - a row per family: whether it takes the types, its workspace, how it runs.
 *
 * Rows call the launchers of family.h and product.h. Products ask their library when an op is recorded; everything else is
 * a matter of arithmetic. */
#include "cuda/table.h"

#include <inttypes.h>
#include <stdio.h>

#include <cuda_runtime_api.h>

#include "base/heap.h"
#include "cuda/runtime.h"
#include "profile/profile.h"

static struct cuda_in in(const struct kernel_args *a, uint32_t i)
{
    return i < a->in_count ? (struct cuda_in){a->in[i], a->in_dtype[i]}
                           : (struct cuda_in){NULL, KERNEL_F32};
}

static struct cuda_out out(const struct kernel_args *a, uint32_t i)
{
    return i < a->out_count ? (struct cuda_out){a->out[i], a->out_dtype[i]}
                            : (struct cuda_out){NULL, KERNEL_F32};
}

static const float *in_f32(const struct kernel_args *a, uint32_t i)
{
    return in(a, i).p;
}

static float *out_f32(const struct kernel_args *a, uint32_t i)
{
    return out(a, i).p;
}

/* What is written in place: the result's address, which is the operand's. */
static void *place(const struct kernel_args *a, uint32_t result, uint32_t operand)
{
    void *p = out(a, result).p;
    return p ? p : (void *)(uintptr_t)in(a, operand).p;
}

static struct cuda_fault fault_of(const struct kernel_context *c, const struct kernel_args *a)
{
    return (struct cuda_fault){c->fault, a->op};
}

/* ---- types --------------------------------------------------------------------------------------- */

typedef bool takes_rule(const void *desc, const struct kernel_args *types);

/* Numbers of any type, each its own, beside whole numbers. */
static bool takes_any(const void *desc, const struct kernel_args *types)
{
    (void)desc;
    for (uint32_t i = 0; i < types->in_count; i++)
        if (types->in_dtype[i] == KERNEL_F64)
            return false;
    return true;
}

static bool takes_one(const struct kernel_args *types, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (types->in_dtype[i] != types->in_dtype[first] || !cuda_is_number(types->in_dtype[i]))
            return false;
    return true;
}

/* Two of one type and a bias. */
static bool takes_pair(const struct kernel_args *types)
{
    return takes_one(types, 0, 2) && (types->in_count < 3 || types->in_dtype[2] == KERNEL_F32);
}

static bool takes_product(const void *desc, const struct kernel_args *types)
{
    const struct kernel_matmul *m = desc;
    return takes_pair(types) &&
           (m->adds < KERNEL_ADDS_OTHER || types->in_dtype[3] == types->out_dtype[0]);
}

static bool takes_conv(const void *desc, const struct kernel_args *types)
{
    (void)desc;
    return takes_pair(types) && types->in_dtype[0] != KERNEL_F16;
}

static bool takes_attention(const void *desc, const struct kernel_args *types)
{
    return takes_one(types, 0, ((const struct kernel_attention *)desc)->heads ? 1 : 3);
}

static bool takes_attention_grad(const void *desc, const struct kernel_args *types)
{
    if (((const struct kernel_attention *)desc)->heads)
        return takes_one(types, 0, 2) && types->in_dtype[2] == KERNEL_F32 &&
               types->in_dtype[3] == types->in_dtype[0];
    return takes_attention(desc, types) && types->in_dtype[3] == types->in_dtype[0] &&
           types->in_dtype[4] == KERNEL_F32 && types->in_dtype[5] == types->in_dtype[0];
}

/* F32 from input `first` to before `last`. */
static bool takes_f32(const struct kernel_args *types, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i < last && i < types->in_count; i++)
        if (types->in_dtype[i] != KERNEL_F32)
            return false;
    return true;
}

static bool takes_norm(const void *desc, const struct kernel_args *types)
{
    (void)desc;
    return takes_f32(types, 1, 5);
}

static bool takes_layer_grad(const void *desc, const struct kernel_args *types)
{
    (void)desc;
    return takes_f32(types, 2, 5);
}

static bool takes_norm_grad(const void *desc, const struct kernel_args *types)
{
    (void)desc;
    return takes_f32(types, 2, 6);
}

static bool takes_entropy(const void *desc, const struct kernel_args *types)
{
    (void)desc;
    return takes_one(types, 0, 2) && types->in_dtype[0] != KERNEL_F16;
}

static bool takes_entropy_grad(const void *desc, const struct kernel_args *types)
{
    (void)desc;
    return takes_one(types, 1, 2) && types->in_dtype[1] != KERNEL_F16 &&
           types->in_dtype[0] == KERNEL_F32;
}

/* ---- workspaces ----------------------------------------------------------------------------------- */

typedef enum ebb_status need_rule(struct kernel_context *c, const void *desc,
                                  const struct kernel_args *types, struct kernel_need *need,
                                  struct ebb_error *err);

#define NEED(name)                                                                                 \
    static enum ebb_status need_##name(struct kernel_context *c, const void *desc,                 \
                                       const struct kernel_args *types, struct kernel_need *need,  \
                                       struct ebb_error *err)

/* Workspaces that are a function of the description alone. */
#define NEED_BYTES(name, bytes)                                                                    \
    NEED(name)                                                                                     \
    {                                                                                              \
        (void)c, (void)types, (void)err;                                                           \
        need->workspace_bytes = (bytes);                                                           \
        return EBB_OK;                                                                             \
    }

NEED_BYTES(unary_grad, cuda_unary_grad_workspace(desc))
NEED_BYTES(reduce, cuda_fold_workspace(desc))
NEED_BYTES(index, cuda_index_workspace(desc))
NEED_BYTES(loss, cuda_loss_workspace(desc))
NEED_BYTES(cross_entropy, cuda_cross_entropy_workspace(desc))
NEED_BYTES(layer_norm_grad, cuda_any_layer_norm_grad_workspace(desc))
NEED_BYTES(batch_norm, cuda_any_batch_norm_workspace(desc))
NEED_BYTES(update, cuda_update_workspace(desc, false))
NEED_BYTES(update_split, cuda_update_workspace(desc, true))

NEED(matmul)
{
    (void)types;
    need->workspace_bytes = cuda_matmul_workspace(desc);
    return cuda_matmul_need(c->products, desc, &need->algorithm, err);
}

NEED(attention)
{
    need->workspace_bytes = cuda_attend_workspace(desc, types->in_dtype[0], false);
    return cuda_attend_need(c->products, desc, types->in_dtype[0], false, &need->algorithm, err);
}

NEED(attention_grad)
{
    need->workspace_bytes = cuda_attend_workspace(desc, types->in_dtype[0], true);
    return cuda_attend_need(c->products, desc, types->in_dtype[0], true, &need->algorithm, err);
}

NEED(product_entropy)
{
    need->workspace_bytes = cuda_product_entropy_workspace(desc, types->in_dtype[0]);
    return cuda_product_entropy_need(c->products, desc, types->in_dtype[0], false, &need->algorithm,
                                     err);
}

NEED(product_entropy_grad)
{
    need->workspace_bytes = cuda_product_entropy_workspace(desc, types->in_dtype[1]);
    return cuda_product_entropy_need(c->products, desc, types->in_dtype[1], true, &need->algorithm,
                                     err);
}

NEED(product_entropy_step)
{
    need->workspace_bytes = cuda_product_entropy_workspace(desc, types->in_dtype[0]);
    return cuda_product_entropy_need(c->products, desc, types->in_dtype[0], true, &need->algorithm,
                                     err);
}

NEED(conv)
{
    (void)types;
    return cuda_conv_need(c, desc, need, err);
}

/* ---- runs ------------------------------------------------------------------------------------------ */

typedef enum ebb_status run_rule(struct kernel_context *c, const void *desc,
                                 const struct kernel_args *a, struct ebb_error *err);

static enum ebb_status check(int code, const char *family, struct ebb_error *err)
{
    if (code == (int)cudaSuccess)
        return EBB_OK;
    return ebb_fail(err, EBB_EDEVICE, "cuda: %s: %s", family,
                    cudaGetErrorString((cudaError_t)code));
}

/* A launcher's call; d is the description. */
#define RUN(name, type, call)                                                                      \
    static enum ebb_status run_##name(struct kernel_context *c, const void *desc,                  \
                                      const struct kernel_args *a, struct ebb_error *err)          \
    {                                                                                              \
        const type *d = desc;                                                                      \
        return check(call, #name, err);                                                            \
    }

typedef struct kernel_unary_desc unary_desc;
typedef struct kernel_binary_desc binary_desc;
typedef struct kernel_mask_desc mask_desc;
typedef struct kernel_nd nd_desc;
typedef struct kernel_count_desc count_desc;
typedef struct kernel_fill_desc fill_desc;

RUN(unary, unary_desc, cuda_each_unary(d->f, d->n, d->a, d->b, in(a, 0), out(a, 0), c->stream))
RUN(unary_grad, unary_desc,
    d->columns ? cuda_unary_grad_columns(d, in(a, 0), in(a, 1), out(a, 0), out_f32(a, 1),
                                         a->workspace, c->stream)
    : !in(a, 2).p
        ? cuda_each_unary_grad(d->f, d->n, d->a, d->b, in(a, 0), in(a, 1), out(a, 0), c->stream)
    : d->f == KERNEL_RELU
        ? cuda_each_gate_sum(d->n, in(a, 0), in(a, 2), in(a, 1), out(a, 0), c->stream)
        : (int)cudaErrorInvalidValue)
RUN(binary, binary_desc, cuda_each_binary(d->f, &d->nd, in(a, 0), in(a, 1), out(a, 0), c->stream))
RUN(mask, mask_desc,
    cuda_each_mask(&d->nd, d->invert != 0, d->scale, d->fill, in(a, 0), in(a, 1).p, out(a, 0),
                   c->stream))
RUN(where, nd_desc, cuda_each_where(d, in(a, 0).p, in(a, 1), in(a, 2), out(a, 0), c->stream))
RUN(truth, count_desc, cuda_each_truth(d->n, in(a, 0).p, in(a, 0).dtype, out(a, 0).p, c->stream))
RUN(copy, nd_desc,
    cuda_each_copy(d, cuda_dtype_bytes(in(a, 0).dtype), in(a, 0).p, out(a, 0).p, c->stream))
RUN(fill, fill_desc, cuda_each_fill(d->n, d->value, out(a, 0), c->stream))
RUN(convert, count_desc, cuda_each_convert(d->n, in(a, 0), out(a, 0), c->stream))
RUN(reduce, struct kernel_reduce_desc, cuda_fold(d, in(a, 0), out(a, 0), a->workspace, c->stream))
RUN(lines, struct kernel_lines_desc, cuda_lines(d, in(a, 0), in(a, 1), out(a, 0), c->stream))
RUN(batch_norm_stats, struct kernel_batch_norm,
    cuda_any_batch_norm_stats(d, in(a, 0), out_f32(a, 0), out_f32(a, 1), a->workspace, c->stream))
RUN(batch_norm, struct kernel_batch_norm,
    cuda_any_batch_norm(d, in(a, 0), in_f32(a, 1), in_f32(a, 2), in_f32(a, 3), in_f32(a, 4),
                        in(a, 5), out(a, 0), c->stream))
RUN(batch_norm_grad, struct kernel_batch_norm,
    cuda_any_batch_norm_grad(d, in(a, 0), in(a, 1), in_f32(a, 2), in_f32(a, 3), in_f32(a, 4),
                             in_f32(a, 5), out(a, 0), out_f32(a, 1), out_f32(a, 2), a->workspace,
                             c->stream))
RUN(batch_norm_update, struct kernel_batch_norm_update_desc,
    cuda_batch_norm_update(d, place(a, 0, 0), place(a, 1, 1), in_f32(a, 2), in_f32(a, 3),
                           a->in_count > 4 ? place(a, 2, 4) : NULL, c->stream))
RUN(layer_norm, struct kernel_layer_norm_desc,
    cuda_any_layer_norm(d, in(a, 0), in_f32(a, 1), in_f32(a, 2), out(a, 0), out_f32(a, 1),
                        out_f32(a, 2), c->stream))
RUN(layer_norm_grad, struct kernel_layer_norm_desc,
    cuda_any_layer_norm_grad(d, in(a, 0), in(a, 1), in_f32(a, 2), in_f32(a, 3), in_f32(a, 4),
                             in(a, 5), out(a, 0), out_f32(a, 1), out_f32(a, 2), a->workspace,
                             c->stream))
RUN(pool, struct kernel_pool_desc,
    cuda_window_pool(d, in(a, 0), in(a, 1).p, out(a, 0), out(a, 1).p, c->stream))
RUN(unpool, struct kernel_unpool_desc,
    cuda_window_unpool(d, in(a, 0), in(a, 1).p, out(a, 0), fault_of(c, a), c->stream))
RUN(resample, struct kernel_resample_desc, cuda_window_resample(d, in(a, 0), out(a, 0), c->stream))
RUN(channel_window, struct kernel_channel_window_desc,
    cuda_window_channels(d, in(a, 0), out(a, 0), c->stream))
RUN(index, struct kernel_index_desc,
    cuda_index(d, in(a, 0), in(a, 1).p, out(a, 0), a->workspace, fault_of(c, a), c->stream))
RUN(loss, struct kernel_loss_desc,
    cuda_loss(d, in(a, 0), in(a, 1), out(a, 0), a->workspace, c->stream))
RUN(loss_grad, struct kernel_loss_desc,
    cuda_loss_grad(d, in(a, 0), in(a, 1), in(a, 2), out(a, 0), c->stream))
RUN(cross_entropy, struct kernel_cross_entropy,
    cuda_cross_entropy(d, in(a, 0), in(a, 1).p, in(a, 2), out(a, 0), a->workspace, fault_of(c, a),
                       c->stream))
RUN(cross_entropy_grad, struct kernel_cross_entropy,
    cuda_cross_entropy_grad(d, in(a, 0), in(a, 1), in(a, 2).p, in(a, 3), out(a, 0), a->workspace,
                            fault_of(c, a), c->stream))
RUN(lstm, struct kernel_gates_desc,
    cuda_lstm(d, in(a, 0), in(a, 1), in(a, 2), out(a, 0), out(a, 1), out(a, 2), c->stream))
RUN(lstm_grad, struct kernel_gates_desc,
    cuda_lstm_grad(d, (struct cuda_in[]){in(a, 0), in(a, 1), in(a, 2), in(a, 3), in(a, 4)},
                   out(a, 0), out(a, 1), c->stream))
RUN(gru, struct kernel_gates_desc,
    cuda_gru(d, in(a, 0), in(a, 1), in(a, 2), out(a, 0), out(a, 1), c->stream))
RUN(gru_grad, struct kernel_gates_desc,
    cuda_gru_grad(d, (struct cuda_in[]){in(a, 0), in(a, 1), in(a, 2), in(a, 3)},
                  (struct cuda_out[]){out(a, 0), out(a, 1), out(a, 2)}, c->stream))
RUN(dropout, struct kernel_dropout_desc,
    cuda_dropout(d, in(a, 0), in(a, 1).p, out(a, 0), c->stream))
RUN(master_join, count_desc,
    cuda_master_join(d->n, in(a, 0).p, in(a, 1).p, out_f32(a, 0), c->stream))
RUN(update, struct kernel_update_desc,
    cuda_update(d, in_f32(a, 0), in(a, 1), place(a, 0, 2), NULL, NULL,
                (float *[]){place(a, 1, 3), place(a, 2, 4), place(a, 3, 5)}, a->workspace,
                c->stream))
RUN(update_split, struct kernel_update_desc,
    cuda_update(d, in_f32(a, 0), in(a, 1), NULL, place(a, 0, 2), place(a, 1, 3),
                (float *[]){place(a, 2, 4), place(a, 3, 5), place(a, 4, 6)}, a->workspace,
                c->stream))
RUN(adam_step, struct kernel_adam_step_desc,
    cuda_adam_step(d, (struct cuda_in[]){in(a, 0), in(a, 1), in(a, 2), in(a, 3), in(a, 4)},
                   (struct cuda_out[]){out(a, 0), out(a, 1), out(a, 2)}, c->stream))

static enum ebb_status run_adam_step_grad(struct kernel_context *c, const void *desc,
                                          const struct kernel_args *a, struct ebb_error *err)
{
    const struct kernel_adam_step_desc *d = desc;
    struct cuda_in all[7] = {in(a, 0), in(a, 1), in(a, 2), in(a, 3)};
    uint32_t next = 4;
    for (int k = 0; k < 3; k++)
        all[4 + k] = d->given >> k & 1 ? in(a, next++) : (struct cuda_in){NULL, KERNEL_F32};
    return check(cuda_adam_step_grad(d, all, (struct cuda_out[]){out(a, 0), out(a, 1), out(a, 2)},
                                     c->stream),
                 "adam_step_grad", err);
}

static enum ebb_status run_matmul(struct kernel_context *c, const void *desc,
                                  const struct kernel_args *a, struct ebb_error *err)
{
    return cuda_matmul_run(c->products, desc, a, c->stream, err);
}

static enum ebb_status run_conv(struct kernel_context *c, const void *desc,
                                const struct kernel_args *a, struct ebb_error *err)
{
    return cuda_conv_run(c, desc, a, err);
}

static enum ebb_status run_attention(struct kernel_context *c, const void *desc,
                                     const struct kernel_args *a, struct ebb_error *err)
{
    return cuda_attend_run(c->products, desc, a, c->stream, err);
}

static enum ebb_status run_attention_grad(struct kernel_context *c, const void *desc,
                                          const struct kernel_args *a, struct ebb_error *err)
{
    return cuda_attend_grad_run(c->products, desc, a, c->stream, err);
}

static enum ebb_status run_product_entropy(struct kernel_context *c, const void *desc,
                                           const struct kernel_args *a, struct ebb_error *err)
{
    return cuda_product_entropy_run(c->products, desc, a, fault_of(c, a), c->stream, err);
}

static enum ebb_status run_product_entropy_grad(struct kernel_context *c, const void *desc,
                                                const struct kernel_args *a, struct ebb_error *err)
{
    return cuda_product_entropy_grad_run(c->products, desc, a, fault_of(c, a), c->stream, err);
}

static enum ebb_status run_product_entropy_step(struct kernel_context *c, const void *desc,
                                                const struct kernel_args *a, struct ebb_error *err)
{
    return cuda_product_entropy_step_run(c->products, desc, a, fault_of(c, a), c->stream, err);
}

/* ---- the rows --------------------------------------------------------------------------------------- */

static const char *const names[KERNEL_FAMILIES] = {
#define X(name, text, type) #text,
    KERNEL_FAMILY_LIST(X)
#undef X
};

static run_rule *const runs[KERNEL_FAMILIES] = {
#define X(name, text, type) run_##text,
    KERNEL_FAMILY_LIST(X)
#undef X
};

static need_rule *const needs[KERNEL_FAMILIES] = {
    [KERNEL_FAMILY_UNARY_GRAD] = need_unary_grad,
    [KERNEL_FAMILY_REDUCE] = need_reduce,
    [KERNEL_FAMILY_MATMUL] = need_matmul,
    [KERNEL_FAMILY_CONV] = need_conv,
    [KERNEL_FAMILY_ATTENTION] = need_attention,
    [KERNEL_FAMILY_ATTENTION_GRAD] = need_attention_grad,
    [KERNEL_FAMILY_BATCH_NORM_STATS] = need_batch_norm,
    [KERNEL_FAMILY_BATCH_NORM_GRAD] = need_batch_norm,
    [KERNEL_FAMILY_LAYER_NORM_GRAD] = need_layer_norm_grad,
    [KERNEL_FAMILY_INDEX] = need_index,
    [KERNEL_FAMILY_LOSS] = need_loss,
    [KERNEL_FAMILY_CROSS_ENTROPY] = need_cross_entropy,
    [KERNEL_FAMILY_CROSS_ENTROPY_GRAD] = need_cross_entropy,
    [KERNEL_FAMILY_PRODUCT_ENTROPY] = need_product_entropy,
    [KERNEL_FAMILY_PRODUCT_ENTROPY_GRAD] = need_product_entropy_grad,
    [KERNEL_FAMILY_PRODUCT_ENTROPY_STEP] = need_product_entropy_step,
    [KERNEL_FAMILY_UPDATE] = need_update,
    [KERNEL_FAMILY_UPDATE_SPLIT] = need_update_split,
};

static takes_rule *const rules[KERNEL_FAMILIES] = {
    [KERNEL_FAMILY_MATMUL] = takes_product,
    [KERNEL_FAMILY_CONV] = takes_conv,
    [KERNEL_FAMILY_ATTENTION] = takes_attention,
    [KERNEL_FAMILY_ATTENTION_GRAD] = takes_attention_grad,
    [KERNEL_FAMILY_BATCH_NORM] = takes_norm,
    [KERNEL_FAMILY_BATCH_NORM_GRAD] = takes_norm_grad,
    [KERNEL_FAMILY_LAYER_NORM] = takes_norm,
    [KERNEL_FAMILY_LAYER_NORM_GRAD] = takes_layer_grad,
    [KERNEL_FAMILY_PRODUCT_ENTROPY] = takes_entropy,
    [KERNEL_FAMILY_PRODUCT_ENTROPY_STEP] = takes_entropy,
    [KERNEL_FAMILY_PRODUCT_ENTROPY_GRAD] = takes_entropy_grad,
};

/* ---- contexts ---------------------------------------------------------------------------------------- */

static void table_close(struct kernel_context *c)
{
    if (!c)
        return;
    cuda_products_close(c->products);
    cuda_conv_close(c);
    if (c->fault)
        (void)cudaFree(c->fault);
    if (c->fault_seen)
        (void)cudaFreeHost(c->fault_seen);
    ebb_free(c);
}

static enum ebb_status make_fault(struct kernel_context *c, struct ebb_error *err)
{
    cudaError_t code = cudaMalloc((void **)&c->fault, sizeof *c->fault);
    if (code == cudaSuccess)
        code = cudaHostAlloc((void **)&c->fault_seen, sizeof *c->fault_seen, cudaHostAllocDefault);
    if (code == cudaSuccess)
        code = cudaMemsetAsync(c->fault, 0xff, sizeof *c->fault, c->stream);
    if (code != cudaSuccess)
        return check((int)code, "fault word", err);
    *c->fault_seen = UINT32_MAX;
    return EBB_OK;
}

static enum ebb_status table_open(struct kernel_context **context, struct device *device,
                                  const struct profile *profile, int threads, struct ebb_error *err)
{
    struct kernel_context *c;
    (void)threads;
    EBB_TRY(ebb_new(&c, 1, sizeof *c, err));
    c->head.table = &kernel_cuda;
    c->head.threads = 1;
    c->device = device;
    c->profile = profile ? profile : profile_builtin();
    c->stream = device ? cuda_stream_of(device, DEVICE_COMPUTE) : NULL;
    enum ebb_status status =
        cuda_products_open(&c->products, device != NULL, c->stream, c->profile, err);
    if (status == EBB_OK && device)
        status = make_fault(c, err);
    if (status != EBB_OK) {
        table_close(c);
        return status;
    }
    *context = c;
    return EBB_OK;
}

static bool table_takes(const struct kernel_context *c, enum kernel_family family, const void *desc,
                        const struct kernel_args *types)
{
    (void)c;
    return (rules[family] ? rules[family] : takes_any)(desc, types);
}

static enum ebb_status table_need(struct kernel_context *c, enum kernel_family family,
                                  const void *desc, const struct kernel_args *types,
                                  struct kernel_need *need, struct ebb_error *err)
{
    need->workspace_bytes = need->algorithm = 0;
    need->cost_ns =
        profile_cost_ns(c->profile, names[family], "", need->flops, need->bytes, 1, NULL);
    return needs[family] ? needs[family](c, desc, types, need, err) : EBB_OK;
}

static enum ebb_status table_run(struct kernel_context *c, enum kernel_family family,
                                 const void *desc, const struct kernel_args *args,
                                 struct ebb_error *err)
{
    if (!c->device)
        return ebb_fail(err, EBB_EUNSUPPORTED, "cuda: %s: this context has no device to run on",
                        names[family]);
    return runs[family](c, desc, args, err);
}

static enum ebb_status table_finish(struct kernel_context *c, struct ebb_error *err)
{
    cudaError_t code = cudaMemcpyAsync(c->fault_seen, c->fault, sizeof *c->fault,
                                       cudaMemcpyDeviceToHost, c->stream);
    if (code == cudaSuccess)
        code = cudaMemsetAsync(c->fault, 0xff, sizeof *c->fault, c->stream);
    return check((int)code, "fault word", err);
}

static uint32_t table_fault(struct kernel_context *c)
{
    uint32_t seen = *(volatile uint32_t *)c->fault_seen;
    return seen == UINT32_MAX ? 0 : seen;
}

/* Of the profile only what chooses: times of ops change plans, not results. */
static const char *table_identity(struct kernel_context *c)
{
    struct cudaDeviceProp facts;
    int at, device = 0;
    if (!c->device || cudaGetDevice(&device) != cudaSuccess ||
        cudaGetDeviceProperties(&facts, device) != cudaSuccess)
        return "";
    at = snprintf(c->identity, sizeof c->identity, "%.100s, %d multiprocessors, cuBLASLt %" PRIu64,
                  facts.name, facts.multiProcessorCount, cuda_products_version(c->products));
    if (cuda_conv_version(c))
        at += snprintf(c->identity + at, sizeof c->identity - (size_t)at,
                       ", cuDNN %" PRIu64 " (%016" PRIx64 ")", cuda_conv_version(c),
                       profile_hash(c->profile, "cudnn"));
    snprintf(c->identity + at, sizeof c->identity - (size_t)at, ", algorithms %016" PRIx64,
             profile_hash(c->profile, "cublaslt"));
    return c->identity;
}

static enum ebb_status table_algorithms(struct kernel_context *c, bool measures,
                                        kernel_row_sink *add, void *to, struct ebb_error *err)
{
    EBB_TRY(cuda_products_rows(c->products, measures, add, to, err));
    return cuda_conv_rows(c, measures, add, to, err);
}

const struct kernel_table kernel_cuda = {
    .device = "cuda",
    .profile = cuda_profile,
    .rewrites = "+head,+gate,+packed,+residual,+addend,+bias,-sums",
    .is_last = true,
    .open = table_open,
    .close = table_close,
    .takes = table_takes,
    .choose = cuda_conv_choose,
    .need = table_need,
    .run = table_run,
    .finish = table_finish,
    .fault = table_fault,
    .identity = table_identity,
    .algorithms = table_algorithms,
};
