/* Gradients of every op in the table against finite differences.
 *
 * One row per case: op, attributes, inputs as "2x3x4" with a letter for the kind: n normal
 * (default), p positive, u in (0, 1), iN integers below N, m mask, . scalar; '!' behind an input:
 * not differentiated. The check is a directional derivative per input in random directions, sums in
 * double over float32 results. Every op of the table that has a gradient must have a row. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <stdatomic.h>

#include "base/doc.h"
#include "base/heap.h"
#include "base/rng.h"
#include "device/device.h"
#include "grad/grad.h"
#include "kernel/kernel.h"
#include "ops/ops.h"

/* ---- counting allocations ---------------------------------------------------------------------
 */

/* oneDNN keeps small maps of arguments per launch; anything beyond that is an allocation at run
 * time. The exception is known and bounded: convolutions that no direct kernel covers (one to three
 * channels with strides or dilation) go through its gemm, which packs into memory of its own. */
#define SMALL_BYTES 4096
#define CONV_BYTES (1u << 20)

#if !TEST_IS_SANITIZED && defined(__GLIBC__)
#define COUNTS_ALLOCATIONS true
static atomic_size_t large_bytes;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static void count_bytes(size_t bytes)
{
    if (bytes > SMALL_BYTES)
        atomic_fetch_add(&large_bytes, bytes);
}

void *malloc(size_t bytes)
{
    count_bytes(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    count_bytes(count * bytes);
    return __libc_calloc(count, bytes);
}

void *realloc(void *p, size_t bytes)
{
    count_bytes(bytes);
    return __libc_realloc(p, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    count_bytes(bytes);
    return __libc_memalign(align, bytes);
}

int posix_memalign(void **p, size_t align, size_t bytes)
{
    count_bytes(bytes);
    *p = __libc_memalign(align, bytes);
    return *p ? 0 : 12;
}
#else
#define COUNTS_ALLOCATIONS false
static size_t large_bytes;
#endif

struct row {
    const char *op, *attrs, *inputs;
};

static const struct row rows[] = {
    {"neg", "", "3x5"},
    {"abs", "", "3x5"},
    {"exp", "", "3x5"},
    {"log", "", "3x5p"},
    {"sqrt", "", "3x5p"},
    {"rsqrt", "", "3x5p"},
    {"square", "", "3x5"},
    {"reciprocal", "", "3x5p"},
    {"erf", "", "3x5"},
    {"sin", "", "3x5"},
    {"cos", "", "3x5"},
    {"relu", "", "3x5"},
    {"relu6", "", "3x5"},
    {"leaky_relu", "{\"negative_slope\": 0.2}", "3x5"},
    {"elu", "{\"alpha\": 1.3}", "3x5"},
    {"sigmoid", "", "3x5"},
    {"tanh", "", "3x5"},
    {"gelu", "", "3x5"},
    {"gelu", "{\"approximate\": \"tanh\"}", "3x5"},
    {"silu", "", "3x5"},
    {"softplus", "{\"beta\": 2.0}", "3x5"},
    {"hardswish", "", "3x5"},
    {"hardsigmoid", "", "3x5"},
    {"clamp", "{\"min\": -0.4}", "3x5"},
    {"pow_scalar", "{\"exponent\": 2.5}", "3x5p"},
    {"pow_scalar", "{\"exponent\": 3}", "3x5"},
    {"add_scalar", "{\"value\": 2}", "3x5"},
    {"mul_scalar", "{\"value\": -3}", "3x5"},
    {"add", "", "2x3x4 3x1"},
    {"sub", "", "3x4 2x3x1"},
    {"mul", "", "2x1x4 3x1"},
    {"div", "", "2x3x4 4p"},
    {"maximum", "", "3x4 2x3x4"},
    {"minimum", "", "3x4 4"},
    {"where", "", "3x4m 3x1 4"},
    {"masked_fill", "{\"value\": 2}", "2x3x4 3x4m"},
    {"dropout_mask", "{\"p\": 0.3}", "3x4 3x4m"},
    {"sum", "{\"dims\": [0, -1]}", "3x4x5"},
    {"sum", "", "3x4"},
    {"mean", "{\"dims\": [1], \"keepdim\": true}", "3x4x5"},
    {"amax", "{\"dims\": [0, 2]}", "3x4x5"},
    {"sum_squares", "{\"dims\": [1]}", "3x4"},
    {"var", "{\"dims\": [0, 2], \"unbiased\": false}", "3x4x5"},
    {"norm2", "", "3x4"},
    {"cumsum", "{\"dim\": 1}", "3x4x2"},
    {"softmax", "{\"dim\": 0}", "4x3"},
    {"log_softmax", "{\"dim\": 1}", "2x5x3"},
    {"logsumexp", "{\"dim\": -1}", "3x5"},
    {"matmul", "{\"ta\": true, \"tb\": true}", "2x4x3 5x4"},
    {"matmul", "", "1x3x4x2 5x1x2x6"},
    {"linear", "", "2x3x4 5x4 5"},
    {"attention", "{\"causal\": true}", "2x3x4 2x5x4 2x5x3"},
    {"attention", "{\"scale\": 0.7}", "2x2x3x4 2x2x3x4 2x2x3x4 2x1x3x3!"},
    {"conv1d", "{\"stride\": 2, \"padding\": 2, \"dilation\": 2}", "2x3x9 4x3x3 4"},
    {"conv2d", "{\"groups\": 2, \"padding\": [1, 0]}", "2x4x5x6 6x2x3x2"},
    {"conv3d", "{\"padding\": 1}", "1x2x3x4x3 2x2x3x3x3 2"},
    {"conv_transpose1d", "{\"stride\": 3}", "2x3x4 3x2x2 2"},
    {"conv_transpose2d", "{\"stride\": 2, \"groups\": 2, \"dilation\": 2}", "1x4x3x3 4x2x2x3 4"},
    {"conv_transpose3d", "{\"stride\": 2, \"output_padding\": 1, \"padding\": 1}",
     "1x2x2x3x2 2x2x3x3x3"},
    {"max_pool1d", "{\"kernel\": 3, \"stride\": 1, \"padding\": 1}", "2x3x7"},
    {"max_pool2d", "{\"kernel\": 3, \"stride\": 2, \"ceil_mode\": true, \"dilation\": 2}",
     "1x2x9x8"},
    {"max_pool3d", "{\"kernel\": 2}", "1x2x4x4x4"},
    {"avg_pool1d", "{\"kernel\": 2}", "2x3x6"},
    {"avg_pool2d", "{\"kernel\": [3, 2], \"stride\": 2, \"padding\": [1, 0], \"ceil_mode\": true}",
     "1x2x6x7"},
    {"avg_pool3d", "{\"kernel\": 2, \"count_include_pad\": false, \"padding\": 1}", "1x2x3x4x3"},
    {"adaptive_avg_pool2d", "{\"output_size\": [2, 3]}", "1x2x5x7"},
    {"upsample_nearest2d", "{\"size\": [5, 7]}", "1x2x3x4"},
    {"upsample_bilinear2d", "{\"scale\": 1.5}", "1x2x4x6"},
    {"upsample_bilinear2d", "{\"size\": [5, 1], \"align_corners\": true}", "1x2x3x4"},
    {"max_unpool2d", "{\"kernel\": 2}", "1x2x2x2 1x2x2x2i16"},
    {"lrn", "{\"size\": 4, \"alpha\": 0.5}", "2x6x3"},
    {"batch_norm", "{}", "4x3x5 3p 3 3! 3p!"},
    {"batch_norm", "{\"training\": false}", "4x3x2x2 3p 3 3! 3p!"},
    {"layer_norm", "{\"shape\": [3, 4]}", "5x3x4 3x4p 3x4"},
    {"group_norm", "{\"groups\": 3}", "2x6x4 6p 6"},
    {"instance_norm", "", "2x3x7 3p 3"},
    {"rms_norm", "", "5x6 6p"},
    {"index_select", "{\"dim\": 1}", "3x4x2 5i4"},
    {"gather", "{\"dim\": 0}", "3x4 2x4i3"},
    {"embedding", "", "2x3i5 5x4"},
    {"copy", "", "3x4"},
    {"reshape", "{\"shape\": [4, -1]}", "2x6"},
    {"permute", "{\"dims\": [2, 0, 1]}", "2x3x4"},
    {"transpose", "{\"dims\": [0, -1]}", "2x3x4"},
    {"expand", "{\"shape\": [5, 3, 4]}", "3x1"},
    {"squeeze", "{\"dim\": 1}", "3x1x4"},
    {"unsqueeze", "{\"dim\": -1}", "3x4"},
    {"slice", "{\"ranges\": [[0, 1, 4, 2], [1, -3, 1073741824, 1]]}", "5x4"},
    {"split", "{\"sizes\": 2, \"dim\": 1}", "3x5"},
    {"cat", "{\"dim\": -1}", "3x2 3x4"},
    {"stack", "{\"dim\": 1}", "3x2 3x2"},
    {"pad", "{\"pad\": [2, 1, 0, 3], \"value\": 1}", "2x3x4"},
    {"tile", "{\"reps\": [2, 1, 3]}", "2x3"},
    {"channel_shuffle", "{\"groups\": 3}", "2x6x2"},
    {"mse_loss", "{\"reduction\": \"sum\"}", "3x4 3x4"},
    {"l1_loss", "{\"reduction\": \"none\"}", "3x4 3x4"},
    {"smooth_l1_loss", "{\"beta\": 0.5}", "3x4 3x4"},
    {"bce_loss", "{\"reduction\": \"none\"}", "3x4u 3x4u!"},
    {"bce_with_logits_loss", "", "3x4 3x4u!"},
    {"kl_div_loss", "{\"reduction\": \"batchmean\"}", "3x4 3x4u!"},
    {"cross_entropy", "{\"label_smoothing\": 0.2, \"reduction\": \"sum\"}", "3x5x2 3x2i5 5p!"},
    {"nll_loss", "{\"reduction\": \"none\"}", "3x5 3i5 5p!"},
    {"adam_step", "{\"betas\": [0.5, 0.9], \"lr\": 0.3, \"eps\": 0.1}", "3x4 3x4 3x4p 3x4 2p!"},
    {"lstm_cell", "", "3x4 3x5 3x5 20x4 20x5"},
    {"gru_cell", "", "3x4 3x5 15x4 15x5 15 15"},
    {"lstm", "", "4x2x3 1x2x3 1x2x3 12x3 12x3 12 12"},
    {"gru", "", "4x2x3 1x2x3 9x3 9x3"},
};

#define INPUTS 8

struct check {
    struct tensor_session *s;
    struct ops_host host;
    tensor_id in[INPUTS], out[TENSOR_PORTS], gout[TENSOR_PORTS], gin[INPUTS];
    bool is_diff[INPUTS];
    float *value[INPUTS], *direction[INPUTS];
    size_t in_count, out_count;
    uint64_t random;
    enum tensor_dtype low; /* not F32: inputs and results go through casts */
};

static double unit(uint64_t *state)
{
    return (double)(ebb_splitmix64(state) >> 11) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    double u = 1 - unit(state), v = unit(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static bool is_coarse; /* values that 8 bits can hold */
static float coarse(float x);

/* Parses one input, makes its leaf and its values. */
static const char *add_input(struct check *c, const char *text)
{
    int64_t dims[TENSOR_RANK], limit = 0;
    int rank = 0;
    char *end;
    do {
        dims[rank++] = strtoll(text, &end, 10);
        text = end + (*end == 'x');
    } while (*end == 'x');
    char kind = *text && *text != ' ' && *text != '!' ? *text++ : 'n';
    if (kind == 'i')
        limit = strtoll(text, &end, 10), text = end;
    enum tensor_dtype dtype = kind == 'i' ? TENSOR_I64 : kind == 'm' ? TENSOR_U8 : TENSOR_F32;
    size_t i = c->in_count++;
    c->in[i] = tensor_leaf(c->s, dtype, rank, dims, NULL);
    c->is_diff[i] = dtype == TENSOR_F32 && *text != '!';
    text += *text == '!';
    int64_t n = tensor_count(tensor_view_of(c->s, c->in[i]));
    c->value[i] = ebb_calloc((size_t)n, 8);
    c->direction[i] = ebb_calloc((size_t)n, 8);
    for (int64_t k = 0; k < n; k++) {
        double r = kind == 'n' ? normal(&c->random) : unit(&c->random);
        if (kind == 'i')
            ((int64_t *)(void *)c->value[i])[k] = (int64_t)(r * (double)limit);
        else if (kind == 'm')
            ((uint8_t *)(void *)c->value[i])[k] = r < 0.6;
        else
            c->value[i][k] = (float)(kind == 'p' ? 0.3 + r : kind == 'u' ? 0.1 + 0.8 * r : r);
        if (is_coarse && dtype == TENSOR_F32)
            c->value[i][k] = coarse(c->value[i][k]);
        c->direction[i][k] = (float)normal(&c->random);
    }
    return *text == ' ' ? text + 1 : text;
}

static void fill(struct check *c, tensor_id id, const void *data)
{
    const struct tensor_view *v = tensor_view_of(c->s, id);
    uint32_t t = tensor_trace_id(c->s, id);
    if (t != TRACE_NONE)
        memcpy(ops_host_tensor(&c->host, t), data,
               (size_t)tensor_count(v) * tensor_dtype_bytes(v->dtype));
}

/* sum of outputs times cotangents with input `moved` shifted by h times its direction */
static double objective(struct check *c, size_t moved, double h)
{
    struct ebb_error err;
    double sum = 0;
    for (size_t i = 0; i < c->in_count; i++) {
        int64_t n = tensor_count(tensor_view_of(c->s, c->in[i]));
        if (i != moved) {
            fill(c, c->in[i], c->value[i]);
            continue;
        }
        float *shifted = ebb_calloc((size_t)n, sizeof *shifted);
        for (int64_t k = 0; k < n; k++)
            shifted[k] = c->value[i][k] + (float)h * c->direction[i][k];
        fill(c, c->in[i], shifted);
        ebb_free(shifted);
    }
    CHECK_OK(ops_host_run(&c->host, &err), &err);
    for (size_t j = 0; j < c->out_count; j++) {
        const struct tensor_view *v = tensor_view_of(c->s, c->out[j]);
        if (!c->gout[j].v)
            continue;
        const float *y = ops_host_tensor(&c->host, tensor_trace_id(c->s, c->out[j]));
        const float *g = ops_host_tensor(&c->host, tensor_trace_id(c->s, c->gout[j]));
        for (int64_t k = 0; k < tensor_count(v); k++)
            sum += (double)y[v->offset + k] * (double)g[k];
    }
    return sum;
}

static void compare(struct check *c, const struct row *row)
{
    for (size_t i = 0; i < c->in_count; i++) {
        if (!c->is_diff[i])
            continue;
        const struct tensor_view *v = tensor_view_of(c->s, c->gin[i]);
        double want = (objective(c, i, 2e-3) - objective(c, i, -2e-3)) / 4e-3, got = 0, size = 0;
        objective(c, SIZE_MAX, 0);
        const float *g = ops_host_tensor(&c->host, tensor_trace_id(c->s, c->gin[i]));
        for (int64_t k = 0; k < tensor_count(v); k++) {
            got += (double)g[v->offset + k] * (double)c->direction[i][k];
            size += fabs((double)g[v->offset + k] * (double)c->direction[i][k]);
        }
        if (!(fabs(got - want) <= 4e-3 * (size + 0.1)))
            fail_msg("%s %s: input %zu: gradient %.6g, finite difference %.6g", row->op, row->attrs,
                     i, got, want);
    }
}

static void build(struct check *c, const struct row *row, const void *attr)
{
    struct ebb_error err = {0};
    tensor_id diff[INPUTS], gin[INPUTS], outs[TENSOR_PORTS], gouts[TENSOR_PORTS];
    size_t n = 0, m = 0;
    tensor_id given[INPUTS];
    for (size_t i = 0; i < c->in_count; i++) {
        bool is_float = tensor_view_of(c->s, c->in[i])->dtype == TENSOR_F32;
        given[i] = is_float ? ops_cast(c->s, c->in[i], c->low) : c->in[i];
    }
    ops_call(c->s, ops_find(row->op), given, c->in_count, attr, c->out, &c->out_count);
    if (tensor_status(c->s, &err) != EBB_OK)
        fail_msg("%s: %s", row->op, err.message);
    for (size_t j = 0; j < c->out_count; j++)
        if (tensor_view_of(c->s, c->out[j])->dtype == c->low)
            c->out[j] = ops_cast(c->s, c->out[j], TENSOR_F32);
    for (size_t j = 0; j < c->out_count; j++) {
        const struct tensor_view v = *tensor_view_of(c->s, c->out[j]);
        bool is_statistic = strcmp(row->op, "batch_norm") == 0 && j > 0;
        c->gout[j] = TENSOR_NONE;
        if (v.dtype != TENSOR_F32 || is_statistic)
            continue;
        c->gout[j] = tensor_leaf(c->s, TENSOR_F32, v.rank, v.dims, NULL);
        outs[m] = c->out[j];
        gouts[m++] = c->gout[j];
    }
    for (size_t i = 0; i < c->in_count; i++)
        if (c->is_diff[i])
            diff[n++] = c->in[i];
    CHECK_OK(grad_backward(c->s, outs, gouts, m, diff, n, gin, &err), &err);
    for (size_t i = 0, k = 0; i < c->in_count; i++)
        if (c->is_diff[i]) {
            c->gin[i] = ops_contiguous(c->s, gin[k++]);
            CHECK(c->gin[i].v != 0);
            tensor_keep(c->s, c->gin[i]);
        }
    for (size_t j = 0; j < c->out_count; j++) {
        c->out[j] = ops_contiguous(c->s, c->out[j]);
        tensor_keep(c->s, c->out[j]);
        if (c->gout[j].v)
            tensor_keep(c->s, c->gout[j]);
    }
}

/* ---- the contract with the interpreter --------------------------------------------------------
 */

static size_t output_bytes(const struct trace *t, const struct trace_op *op, uint32_t k)
{
    return (size_t)t->storages[t->tensors[op->output_first + k].storage].bytes;
}

/* Runs one op with the outputs in `mask` given, the rest NULL; what it made must be what it made
 * with all of them. */
static void check_subset(struct check *c, const struct trace *t, const struct trace_op *op,
                         unsigned mask, unsigned char *const *want, void *context)
{
    const void *in[TENSOR_PORTS];
    void *out[TENSOR_PORTS];
    struct ebb_error err = {0};
    for (uint32_t k = 0; k < op->input_count; k++)
        in[k] = ops_host_tensor(&c->host, t->inputs[op->input_first + k]);
    for (uint32_t k = 0; k < op->output_count; k++) {
        out[k] = mask >> k & 1 ? ops_host_tensor(&c->host, op->output_first + k) : NULL;
        memset(ops_host_tensor(&c->host, op->output_first + k), 0x5A, output_bytes(t, op, k));
    }
    struct trace_call call = {.kind = op->kind,
                              .in = in,
                              .out = out,
                              .workspace = op->workspace_bytes ? c->host.workspace : NULL,
                              .attr = t->attrs + op->attr_first,
                              .attr_bytes = op->attr_bytes,
                              .context = context};
    size_t before = large_bytes;
    CHECK_OK(op->kind->run(&call, &err), &err);
    size_t taken = large_bytes - before;
    if (taken > (strncmp(op->kind->name, "conv", 4) == 0 ? CONV_BYTES : 0))
        fail_msg("%s: %zu bytes allocated at run time", op->kind->name, taken);
    for (uint32_t k = 0; k < op->output_count; k++) {
        const unsigned char *got = ops_host_tensor(&c->host, op->output_first + k);
        bool is_right = true;
        for (size_t i = 0; i < output_bytes(t, op, k); i++)
            is_right = is_right && got[i] == (mask >> k & 1 ? want[k][i] : 0x5A);
        if (!is_right)
            fail_msg("%s: output %u is wrong with outputs %#x", op->kind->name, k, mask);
    }
}

/* Op i of a run in order; true: it may be run again, where it stands: later ones may write over what it reads. */
static bool run_pure(struct check *c, const struct trace *t, uint32_t i)
{
    struct ebb_error err;
    if (t->ops[i].is_leaf)
        return false;
    CHECK_OK(ops_host_run_op(&c->host, i, &err), &err);
    return t->ops[i].kind->purity == TRACE_PURE;
}

/* Every op of the trace, forward and backward: every subset of its outputs. */
static void check_contract(struct check *c, const struct trace *t, void *context)
{
    objective(c, SIZE_MAX, 0);
    for (uint32_t i = 0; i < t->op_count; i++) {
        const struct trace_op *op = &t->ops[i];
        unsigned char *want[TENSOR_PORTS];
        if (!run_pure(c, t, i))
            continue;
        CHECK(op->kind->can_skip_outputs && op->output_count <= 4);
        for (uint32_t k = 0; k < op->output_count; k++) {
            want[k] = ebb_alloc(output_bytes(t, op, k));
            memcpy(want[k], ops_host_tensor(&c->host, op->output_first + k),
                   output_bytes(t, op, k));
        }
        for (unsigned mask = 0; mask < 1u << op->output_count; mask++)
            check_subset(c, t, op, mask, want, context);
        check_subset(c, t, op, (1u << op->output_count) - 1, want, context);
        for (uint32_t k = 0; k < op->output_count; k++)
            ebb_free(want[k]);
    }
}

/* ---- memory that the host cannot read --------------------------------------------------------- */

#define FAR_BYTES (4u << 20)

struct far { /* one op of a trace on device far */
    struct device *device;
    void *context;
    struct trace_call call;
};

static enum ebb_status run_far(void *argument, struct ebb_error *err)
{
    const struct far *f = argument;
    return f->call.kind->run(&f->call, err);
}

/* The place of a tensor's storage: one behind the other, as this op meets them. */
static uint64_t place(const struct trace *t, uint32_t tensor, uint64_t *offsets, uint64_t *top)
{
    uint32_t storage = t->tensors[tensor].storage;
    if (offsets[storage] == UINT64_MAX) {
        offsets[storage] = *top;
        *top += (t->storages[storage].bytes + 255) / 256 * 256;
    }
    return offsets[storage];
}

static void check_far_op(struct check *c, const struct trace *t, const struct trace_op *op,
                         struct far *f)
{
    const struct device_table *d = f->device->table;
    const void *in[TENSOR_PORTS];
    void *out[TENSOR_PORTS];
    struct ebb_error err = {0};
    uint64_t top = 0, *offsets = ebb_alloc(t->storage_count * sizeof *offsets);
    memset(offsets, 0xFF, t->storage_count * sizeof *offsets);
    for (uint32_t k = 0; k < op->input_count; k++) {
        uint32_t tensor = t->inputs[op->input_first + k], storage = t->tensors[tensor].storage;
        uint64_t at = place(t, tensor, offsets, &top);
        CHECK_OK(d->write(f->device, DEVICE_COMPUTE, at, ops_host_tensor(&c->host, tensor),
                          t->storages[storage].bytes, &err),
                 &err);
        in[k] = d->address(f->device, at);
    }
    for (uint32_t k = 0; k < op->output_count; k++)
        out[k] = d->address(f->device, place(t, op->output_first + k, offsets, &top));
    CHECK(top + op->workspace_bytes <= FAR_BYTES);
    f->call =
        (struct trace_call){.kind = op->kind,
                            .in = in,
                            .out = out,
                            .workspace = op->workspace_bytes ? d->address(f->device, top) : NULL,
                            .attr = t->attrs + op->attr_first,
                            .attr_bytes = op->attr_bytes,
                            .context = f->context};
    CHECK_OK(d->launch(f->device, run_far, f, 0, &err), &err);
    for (uint32_t k = 0; k < op->output_count; k++) {
        size_t bytes = output_bytes(t, op, k);
        unsigned char *got = ebb_alloc(bytes);
        CHECK_OK(d->read(f->device, DEVICE_COMPUTE, got,
                         offsets[t->tensors[op->output_first + k].storage], bytes, &err),
                 &err);
        CHECK_OK(d->sync(f->device, &err), &err);
        if (memcmp(got, ops_host_tensor(&c->host, op->output_first + k), bytes) != 0)
            fail_msg("%s: output %u is another on device far", op->kind->name, k);
        ebb_free(got);
    }
    ebb_free(offsets);
}

/* Every op of the trace, forward and backward: the bytes of the cpu. */
static void check_far(struct check *c, const struct trace *t, struct far *f)
{
    objective(c, SIZE_MAX, 0);
    for (uint32_t i = 0; i < t->op_count; i++)
        if (run_pure(c, t, i))
            check_far_op(c, t, &t->ops[i], f);
}

/* ---- numbers of 16 bits -----------------------------------------------------------------------
 */

/* Results and gradients behind each other; the caller frees. */
static float *collect(struct check *c, size_t *count)
{
    float *all = ebb_calloc(20000, sizeof *all);
    *count = 0;
    objective(c, SIZE_MAX, 0);
    for (size_t k = 0; k < c->out_count + c->in_count; k++) {
        tensor_id id = k < c->out_count               ? c->out[k]
                       : c->is_diff[k - c->out_count] ? c->gin[k - c->out_count]
                                                      : TENSOR_NONE;
        const struct tensor_view *v = tensor_view_of(c->s, id);
        if (!id.v || v->dtype != TENSOR_F32)
            continue;
        const float *p = ops_host_tensor(&c->host, tensor_trace_id(c->s, id));
        for (int64_t i = 0; i < tensor_count(v); i++)
            all[(*count)++] = p[v->offset + i];
        CHECK(*count < 20000);
    }
    return all;
}

enum judge { JUDGE_GRADIENT, JUDGE_CONTRACT, JUDGE_FAR, JUDGE_VALUES };
static struct far far;

static float *run_row_as(const struct row *row, void *backend, uint64_t seed, enum judge judge,
                         enum tensor_dtype low, size_t *count)
{
    struct check c = {.random = seed, .low = low};
    float *values = NULL;
    struct ebb_error err = {0};
    struct ebb_arena arena;
    const struct ebb_doc_node *map = NULL;
    struct trace *trace;
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    ebb_arena_init(&arena);
    CHECK(ops_find(row->op) != NULL);
    CHECK_OK(tensor_session_create(&c.s, backend, &err), &err);
    for (const char *text = row->inputs; *text;)
        text = add_input(&c, text);
    if (*row->attrs)
        CHECK_OK(ebb_doc_parse_json(&arena, row->op, row->attrs, strlen(row->attrs), &map, &err),
                 &err);
    CHECK_OK(ops_parse(ops_find(row->op), map, attr, &err), &err);
    build(&c, row, attr);
    CHECK_OK(tensor_finish(c.s, row->op, &trace, &err), &err);
    CHECK_OK(ops_host_create(&c.host, trace, backend, &err), &err);
    for (size_t j = 0; j < c.out_count; j++) {
        int64_t n = c.gout[j].v ? tensor_count(tensor_view_of(c.s, c.gout[j])) : 0;
        float *g = n ? ops_host_tensor(&c.host, tensor_trace_id(c.s, c.gout[j])) : NULL;
        for (int64_t k = 0; k < n; k++)
            g[k] = (float)normal(&c.random);
    }
    if (judge == JUDGE_GRADIENT)
        compare(&c, row);
    else if (judge == JUDGE_CONTRACT)
        check_contract(&c, trace, backend);
    else if (judge == JUDGE_FAR)
        check_far(&c, trace, &far);
    else
        values = collect(&c, count);
    for (size_t i = 0; i < c.in_count; i++) {
        ebb_free(c.value[i]);
        ebb_free(c.direction[i]);
    }
    ops_host_destroy(&c.host);
    trace_destroy(trace);
    tensor_session_destroy(c.s);
    ebb_arena_fini(&arena);
    return values;
}

static void run_row(const struct row *row, void *backend, uint64_t seed, enum judge judge)
{
    run_row_as(row, backend, seed, judge, TENSOR_F32, NULL);
}

static void run_all(uint64_t seed, enum judge judge)
{
    void *backend;
    struct ebb_error err;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        run_row(&rows[i], backend, seed + i, judge);
    ops_backend_destroy(backend);
}

TEST(every_op__agrees_with_finite_differences)
{
    run_all(1000, JUDGE_GRADIENT);
}

TEST(every_op__skips_outputs_and_allocates_nothing)
{
    if (COUNTS_ALLOCATIONS) { /* the counter itself */
        size_t before = large_bytes;
        ebb_free(ebb_alloc(2 * SMALL_BYTES));
        CHECK(large_bytes == before + 2 * SMALL_BYTES);
    }
    run_all(2000, JUDGE_CONTRACT);
}

TEST(every_op__runs_where_the_host_cannot_read)
{
    void *backend;
    struct ebb_error err;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    CHECK_OK(device_far.create(&far.device, NULL, &err), &err);
    CHECK_OK(device_far.reserve(far.device, DEVICE_T0, FAR_BYTES, &err), &err);
    CHECK_OK(ops_backend_create(&far.context, &kernel_far, far.device, NULL, 1, &err), &err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 2; k++) {
            enum tensor_dtype type = k ? TENSOR_BF16 : TENSOR_F32;
            CHECK(run_row_as(&rows[i], backend, 2000 + i, JUDGE_FAR, type, NULL) == NULL);
        }
    ops_backend_destroy(far.context);
    device_far.destroy(far.device);
    ops_backend_destroy(backend);
}

/* Every value is representable in both types, so that only the op itself rounds. */
static float coarse(float x)
{
    return (float)(nearbyint((double)x * 32) / 32 + (x > 0 ? 1 : -1) / 64.0);
}

TEST(every_op__takes_numbers_of_16_bits)
{
    void *backend;
    struct ebb_error err;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    is_coarse = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 2; k++) {
            size_t n, m;
            enum tensor_dtype low = k ? TENSOR_F16 : TENSOR_BF16;
            float *want = run_row_as(&rows[i], backend, 3000 + i, JUDGE_VALUES, TENSOR_F32, &n);
            float *got = run_row_as(&rows[i], backend, 3000 + i, JUDGE_VALUES, low, &m);
            double most = 0, size = 0;
            CHECK_EQ(n, m);
            for (size_t e = 0; e < n; e++) {
                size = fmax(size, fabs((double)want[e]));
                most = fmax(most, fabs((double)want[e] - (double)got[e]));
                if (!isfinite(got[e])) /* fmax would pass over it */
                    fail_msg("%s %s: %s gives %g", rows[i].op, rows[i].attrs,
                             tensor_dtype_name(low), (double)got[e]);
            }
            if (!(most <= (k ? 4e-3 : 3e-2) * size))
                fail_msg("%s %s: %s is off by %g of %g", rows[i].op, rows[i].attrs,
                         tensor_dtype_name(low), most, size);
            ebb_free(want);
            ebb_free(got);
        }
    is_coarse = false;
    ops_backend_destroy(backend);
}

TEST(every_op_with_a_gradient__has_a_row)
{
    for (size_t i = 0; i < ops_count(); i++) {
        const struct ops_def *def = ops_at(i);
        bool has_row = ops_is_internal(def) || !ops_has_gradient(def) ||
                       strcmp(ops_name(def), "full") == 0 || strcmp(ops_name(def), "detach") == 0;
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            has_row |= strcmp(rows[k].op, ops_name(def)) == 0;
        if (!has_row)
            fail_msg("%s has a gradient rule and no row here", ops_name(def));
    }
}

TEST(names__are_unique)
{
    for (size_t i = 0; i < ops_count(); i++)
        CHECK(ops_find(ops_name(ops_at(i))) == ops_at(i));
}

TEST_MAIN()
