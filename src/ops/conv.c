/* conv.c - convolutions. Three primitives (forward, towards data, towards weights) are each other's
 * gradients; a transposed convolution is the one towards data. */
#include <inttypes.h>

#include "ops/internal.h"

enum {
    ROW_CONV,
    ROW_CONV_DATA,
    ROW_CONV_WEIGHTS,
    ROW_CONV1D,
    ROW_CONV2D,
    ROW_CONV3D,
    ROW_TRANSPOSE1D,
    ROW_TRANSPOSE2D,
    ROW_TRANSPOSE3D,
    ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];

struct conv_attr {
    struct ops_ints stride, padding, dilation, output_padding;
    int64_t groups;
};

/* ---- primitives: attr is the kernel's own description --------------------------------------- */

static void shape_x(const struct kernel_conv *c, int64_t *dims)
{
    dims[0] = c->n;
    dims[1] = c->ci;
    memcpy(dims + 2, c->in, sizeof c->in);
}

static void shape_y(const struct kernel_conv *c, int64_t *dims)
{
    dims[0] = c->n;
    dims[1] = c->co;
    memcpy(dims + 2, c->out, sizeof c->out);
}

static void shape_w(const struct kernel_conv *c, int64_t *dims)
{
    dims[0] = c->co;
    dims[1] = c->ci / c->groups;
    memcpy(dims + 2, c->k, sizeof c->k);
}

static bool is_bf16_conv(const struct ops_infer *i)
{
    const struct kernel_conv *c = i->attr;
    return c->dtype == KERNEL_BF16;
}

static enum ebb_status infer_conv(struct ops_infer *i, struct ebb_error *err)
{
    const struct kernel_conv *c = i->attr;
    enum kernel_conv_pass pass = (enum kernel_conv_pass)i->def->variant;
    int64_t x[5], y[5], w[5];
    shape_x(c, x);
    shape_y(c, y);
    shape_w(c, w);
    const int64_t *first = pass == KERNEL_CONV_DATA ? y : x;
    const int64_t *second = pass == KERNEL_CONV_WEIGHTS ? y : w;
    const int64_t *result = pass == KERNEL_CONV_FORWARD ? y : pass == KERNEL_CONV_DATA ? x : w;
    size_t bytes = (size_t)(c->nd + 2) * sizeof *x;
    uint8_t dtype = c->dtype == KERNEL_BF16 ? TENSOR_BF16 : TENSOR_F32;
    if (i->in[0]->dtype != dtype || i->in[1]->dtype != dtype)
        return ops_wrong(i, err, "inputs must be F32, BF16 or F16");
    EBB_TRY(ops_want_f32(i, ~UINT64_C(3), err));
    if (i->in[0]->rank != c->nd + 2 || i->in[1]->rank != c->nd + 2 ||
        memcmp(i->in[0]->dims, first, bytes) != 0 || memcmp(i->in[1]->dims, second, bytes) != 0)
        return ops_wrong(i, err, "shapes do not fit the convolution");
    if (i->in_count > 2 && (i->in[2]->rank != 1 || i->in[2]->dims[0] != c->co))
        return ops_wrong(i, err, "the bias must have %" PRId64 " elements", c->co);
    int first_block = pass == KERNEL_CONV_DATA ? c->y_block : c->x_block;
    int second_block = pass == KERNEL_CONV_WEIGHTS ? c->y_block : 0;
    if (i->in[0]->block != first_block || i->in[1]->block != second_block)
        return ops_wrong(i, err, "layouts do not fit the convolution");
    ops_out(i, pass == KERNEL_CONV_WEIGHTS ? TENSOR_F32 : (enum tensor_dtype)dtype, c->nd + 2,
            result);
    if (pass != KERNEL_CONV_WEIGHTS)
        tensor_view_block(&i->out[0], pass == KERNEL_CONV_DATA ? c->x_block : c->y_block);
    i->flops = 2.0 * (double)(c->n * c->co * (c->ci / c->groups));
    for (int d = 0; d < c->nd; d++)
        i->flops *= (double)(c->out[d] * c->k[d]);
    return kernel_conv_prepare(tensor_backend(i->session), c, pass, &i->workspace_bytes, err);
}

static enum ebb_status run_as(const struct trace_call *call, enum kernel_conv_pass pass,
                              struct ebb_error *err)
{
    struct tensor_call c;
    EBB_TRY(tensor_call_decode(call, &c, err));
    if (!c.wanted)
        return EBB_OK;
    return kernel_conv_run(ops_context(&c), c.attr, pass, tensor_call_in(&c, 0),
                           tensor_call_in(&c, 1), c.input_count > 2 ? tensor_call_in(&c, 2) : NULL,
                           tensor_call_out(&c, 0), call->workspace, err);
}

static enum ebb_status run_forward(const struct trace_call *call, struct ebb_error *err)
{
    return run_as(call, KERNEL_CONV_FORWARD, err);
}

static enum ebb_status run_data(const struct trace_call *call, struct ebb_error *err)
{
    return run_as(call, KERNEL_CONV_DATA, err);
}

static enum ebb_status run_weights(const struct trace_call *call, struct ebb_error *err)
{
    return run_as(call, KERNEL_CONV_WEIGHTS, err);
}

/* Operands are brought into the layout that the library likes for this shape and pass. */
static tensor_id emit(struct tensor_session *s, int row, const struct kernel_conv *conv,
                      tensor_id a, tensor_id b, tensor_id bias)
{
    struct kernel_conv c = *conv;
    enum kernel_conv_pass pass = (enum kernel_conv_pass)rows[row].variant;
    struct ebb_error err;
    c.has_bias = bias.v != 0;
    c.has_relu = conv->has_relu && pass == KERNEL_CONV_FORWARD;
    c.x_block = c.y_block = 0;
    if (tensor_status(s, NULL) != EBB_OK)
        return TENSOR_NONE;
    c.is_winograd = 0;
    bool is_bf16 = tensor_view_of(s, a)->dtype == TENSOR_BF16 && kernel_has_bf16();
    c.dtype = is_bf16 && tensor_view_of(s, b)->dtype == TENSOR_BF16 ? KERNEL_BF16 : KERNEL_F32;
    c.is_small = ops_has_pass(s, OPS_PASS_SMALL) && kernel_conv_is_small(&c);
    enum ebb_status status = EBB_OK;
    if (ops_has_pass(s, OPS_PASS_LAYOUT))
        status = kernel_conv_choose(tensor_backend(s), &c, pass, ops_has_pass(s, OPS_PASS_WINOGRAD),
                                    &err);
    if (status != EBB_OK)
        return tensor_fail(s, status, "%s: %s", rows[row].name, err.message);
    a = ops_in_layout(s, a, pass == KERNEL_CONV_DATA ? c.y_block : c.x_block);
    b = ops_in_layout(s, b, pass == KERNEL_CONV_WEIGHTS ? c.y_block : 0);
    if (bias.v)
        bias = ops_cast(s, ops_in_layout(s, bias, 0), TENSOR_F32);
    return ops_emit(s, &rows[row], &c, bias.v ? 3 : 2, (tensor_id[]){a, b, bias});
}

/* Gradients of a convolution over two tensors side by side, by part: what joins them need not be
 * there, nor be made again, and neither does its gradient as a whole. */
static bool grad_parts(struct ops_backward *b, tensor_id g)
{
    struct tensor_session *s = b->session;
    const struct kernel_conv *c = b->attr;
    tensor_id parts[2], data[2], weights[2];
    int64_t at = 0;
    if (c->groups != 1 || c->k[0] * c->k[1] == 1 || !ops_cat_parts(s, b->in[0], parts, 2))
        return false;
    for (int k = 0; k < 2; k++) {
        struct kernel_conv part = *c;
        part.ci = tensor_view_of(s, parts[k])->dims[1];
        if (b->needs[0])
            data[k] = emit(s, ROW_CONV_DATA, &part, g,
                           ops_slice_dim(s, b->in[1], 1, at, at + part.ci, 1), TENSOR_NONE);
        if (b->needs[1])
            weights[k] = emit(s, ROW_CONV_WEIGHTS, &part, parts[k], g, TENSOR_NONE);
        at += part.ci;
    }
    if (b->needs[0])
        b->gin[0] = ops_cat(s, data, 2, 1);
    if (b->needs[1])
        b->gin[1] = ops_cat(s, weights, 2, 1);
    return true;
}

static void grad_conv(struct ops_backward *b)
{
    struct tensor_session *s = b->session;
    const struct kernel_conv *c = b->attr;
    tensor_id g = c->has_relu ? ops_relu_grad(s, b->gout[0], b->out[0]) : b->gout[0];
    bool is_done = grad_parts(b, g);
    if (b->needs[0] && !is_done)
        b->gin[0] = emit(s, ROW_CONV_DATA, b->attr, g, b->in[1], TENSOR_NONE);
    if (b->needs[1] && !is_done)
        b->gin[1] = emit(s, ROW_CONV_WEIGHTS, b->attr, b->in[0], g, TENSOR_NONE);
    if (b->in_count > 2 && b->needs[2])
        b->gin[2] = ops_reduce_dims(s, "sum", g, ~UINT64_C(2), false);
}

/* dx = data(g, w): towards g a forward convolution of the incoming gradient, towards w (it, g). */
static void grad_data(struct ops_backward *b)
{
    if (b->needs[0])
        b->gin[0] = emit(b->session, ROW_CONV, b->attr, b->gout[0], b->in[1], TENSOR_NONE);
    if (b->needs[1])
        b->gin[1] = emit(b->session, ROW_CONV_WEIGHTS, b->attr, b->gout[0], b->in[0], TENSOR_NONE);
}

static void grad_weights(struct ops_backward *b)
{
    if (b->needs[0])
        b->gin[0] = emit(b->session, ROW_CONV_DATA, b->attr, b->in[1], b->gout[0], TENSOR_NONE);
    if (b->needs[1])
        b->gin[1] = emit(b->session, ROW_CONV, b->attr, b->in[0], b->gout[0], TENSOR_NONE);
}

tensor_id ops_conv_relu(struct tensor_session *s, tensor_id x)
{
    if (!x.v || tensor_status(s, NULL) != EBB_OK)
        return TENSOR_NONE;
    struct tensor_node n = tensor_node_at(s, tensor_producer(s, x));
    if (n.def != &rows[ROW_CONV])
        return TENSOR_NONE;
    struct kernel_conv c = *(const struct kernel_conv *)n.attr;
    if (c.has_relu)
        return TENSOR_NONE;
    c.has_relu = 1;
    return emit(s, ROW_CONV, &c, n.inputs[0], n.inputs[1],
                n.input_count > 2 ? n.inputs[2] : TENSOR_NONE);
}

/* ---- from torch's arguments ----------------------------------------------------------------- */

static bool spread(const struct ops_ints *v, int nd, int64_t fallback, int64_t least, int64_t *out)
{
    for (int d = 0; d < nd; d++) {
        out[d] = v->count == 0 ? fallback : v->v[v->count == 1 ? 0 : d];
        if (out[d] < least || out[d] > INT32_MAX)
            return false;
    }
    return v->count <= 1 || v->count == nd;
}

/* Everything but in and out. */
static bool geometry(struct tensor_session *s, const struct ops_def *def, const struct conv_attr *a,
                     const tensor_id *in, int nd, struct kernel_conv *c, int64_t *output_padding)
{
    const struct tensor_view *x = tensor_view_of(s, in[0]), *w = tensor_view_of(s, in[1]);
    memset(c, 0, sizeof *c);
    c->nd = nd;
    c->groups = a->groups;
    if (x->rank != nd + 2 || w->rank != nd + 2) {
        tensor_fail(s, EBB_EINPUT, "%s: input and weights must have rank %d", def->name, nd + 2);
        return false;
    }
    if (!spread(&a->stride, nd, 1, 1, c->stride) || !spread(&a->padding, nd, 0, 0, c->pad) ||
        !spread(&a->dilation, nd, 1, 1, c->dilation) ||
        !spread(&a->output_padding, nd, 0, 0, output_padding) || a->groups < 1) {
        tensor_fail(s, EBB_EINPUT, "%s: stride, padding, dilation or groups out of range",
                    def->name);
        return false;
    }
    c->n = x->dims[0];
    for (int d = 0; d < nd; d++)
        c->k[d] = w->dims[d + 2];
    if (tensor_count(w) == 0) {
        tensor_fail(s, EBB_EINPUT, "%s: the weights are empty", def->name);
        return false;
    }
    return true;
}

/* One sample without its dimension: a batch of one. */
static bool build_single(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                         size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    const struct tensor_view x = *tensor_view_of(s, in[0]);
    int64_t dims[TENSOR_RANK + 1] = {1};
    if (x.rank != def->variant + 1)
        return false;
    memcpy(dims + 1, x.dims, sizeof x.dims);
    tensor_id batch[3] = {ops_reshape(s, in[0], x.rank + 1, dims), in[1]};
    if (in_count > 2)
        batch[2] = in[2];
    out[0] = TENSOR_NONE;
    def->build(s, def, batch, in_count, attr, out, out_count);
    if (out[0].v) {
        const struct tensor_view y = *tensor_view_of(s, out[0]);
        out[0] = ops_reshape(s, out[0], y.rank - 1, y.dims + 1);
    }
    return true;
}

static void build_conv(struct tensor_session *s, const struct ops_def *def, const tensor_id *in,
                       size_t in_count, const void *attr, tensor_id *out, size_t *out_count)
{
    int nd = def->variant;
    struct kernel_conv c;
    int64_t unused[3];
    *out_count = 1;
    if (build_single(s, def, in, in_count, attr, out, out_count))
        return;
    if (!geometry(s, def, attr, in, nd, &c, unused))
        return;
    const struct tensor_view *x = tensor_view_of(s, in[0]), *w = tensor_view_of(s, in[1]);
    c.ci = x->dims[1];
    c.co = w->dims[0];
    c.has_bias = in_count > 2;
    if (c.ci % c.groups || c.co % c.groups || w->dims[1] != c.ci / c.groups) {
        tensor_fail(s, EBB_EINPUT,
                    "%s: %" PRId64 " input and %" PRId64 " output channels, %" PRId64
                    " groups, weights for %" PRId64,
                    def->name, c.ci, c.co, c.groups, w->dims[1]);
        return;
    }
    for (int d = 0; d < nd; d++) {
        c.in[d] = x->dims[d + 2];
        int64_t span = c.in[d] + 2 * c.pad[d] - c.dilation[d] * (c.k[d] - 1) - 1;
        if (span < 0) {
            tensor_fail(s, EBB_EINPUT, "%s: input of %" PRId64 " is smaller than the kernel",
                        def->name, c.in[d]);
            return;
        }
        c.out[d] = span / c.stride[d] + 1;
    }
    out[0] = emit(s, ROW_CONV, &c, in[0], in[1], in_count > 2 ? in[2] : TENSOR_NONE);
}

static tensor_id add_channels(struct tensor_session *s, tensor_id y, tensor_id bias)
{
    int64_t dims[TENSOR_RANK] = {1, tensor_view_of(s, bias)->dims[0], 1, 1, 1};
    return ops_add(s, y, ops_reshape(s, bias, tensor_view_of(s, y)->rank, dims));
}

/* The convolution whose input is our output. */
static void build_transposed(struct tensor_session *s, const struct ops_def *def,
                             const tensor_id *in, size_t in_count, const void *attr, tensor_id *out,
                             size_t *out_count)
{
    int nd = def->variant;
    struct kernel_conv c;
    int64_t extra[3];
    *out_count = 1;
    if (build_single(s, def, in, in_count, attr, out, out_count))
        return;
    if (!geometry(s, def, attr, in, nd, &c, extra))
        return;
    const struct tensor_view *x = tensor_view_of(s, in[0]), *w = tensor_view_of(s, in[1]);
    c.co = x->dims[1];
    c.ci = w->dims[1] * c.groups;
    if (w->dims[0] != c.co || c.co % c.groups) {
        tensor_fail(s, EBB_EINPUT, "%s: input has %" PRId64 " channels, weights %" PRId64,
                    def->name, c.co, w->dims[0]);
        return;
    }
    for (int d = 0; d < nd; d++) {
        c.out[d] = x->dims[d + 2];
        c.in[d] = (c.out[d] - 1) * c.stride[d] - 2 * c.pad[d] + c.dilation[d] * (c.k[d] - 1) +
                  extra[d] + 1;
        if (c.in[d] < 1 || (extra[d] >= c.stride[d] && extra[d] >= c.dilation[d])) {
            tensor_fail(s, EBB_EINPUT, "%s: output of %" PRId64 " with output_padding %" PRId64,
                        def->name, c.in[d], extra[d]);
            return;
        }
    }
    int64_t beyond[3] = {0}; /* zeros behind what the kernel reaches, which oneDNN refuses */
    for (int d = 0; d < nd; d++)
        if (extra[d] - c.pad[d] >= c.stride[d]) {
            beyond[d] = extra[d] - c.pad[d];
            c.in[d] -= beyond[d];
        }
    out[0] = emit(s, ROW_CONV_DATA, &c, in[0], in[1], TENSOR_NONE);
    for (int d = 0; d < nd; d++)
        if (beyond[d] && out[0].v) {
            struct tensor_view v = *tensor_view_of(s, out[0]);
            v.dims[d + 2] = beyond[d];
            tensor_id zero = ops_full(s, v.rank, v.dims, 0.0f);
            out[0] = ops_cat(s, (tensor_id[]){out[0], zero}, 2, d + 2);
        }
    if (in_count > 2)
        out[0] = add_channels(s, out[0], in[2]);
}

#define INTS(text)                                                                                 \
    {                                                                                              \
#text, OPS_INTS, offsetof(struct conv_attr, text), NULL, false                             \
    }
#define GROUPS                                                                                     \
    {                                                                                              \
        "groups", OPS_INT, offsetof(struct conv_attr, groups), NULL, false                         \
    }
static const struct ops_field conv_fields[] = {
    INTS(stride), INTS(padding), INTS(dilation), GROUPS, {0}};
static const struct ops_field transposed_fields[] = {
    INTS(stride), INTS(padding), INTS(dilation), INTS(output_padding), GROUPS, {0}};
static const struct conv_attr conv_default = {.groups = 1};

#define PRIMITIVE(id, text, high, pass, run_, grad_)                                               \
    [id] = {OPS_PRIMITIVE(text, 2, high, infer_conv, run_, grad_),                                 \
            .variant = pass,                                                                       \
            .attr_bytes = sizeof(struct kernel_conv),                                              \
            .is_internal = true,                                                                   \
            .is_layout_own = true,                                                                 \
            .low_rule = OPS_LOW_WHOLE,                                                             \
            .low_out = (pass) != KERNEL_CONV_WEIGHTS,                                              \
            .takes_low = is_bf16_conv}
#define TORCH(id, text, nd, build_, fields_)                                                       \
    [id] = {.name = text,                                                                          \
            .min_in = 2,                                                                           \
            .max_in = 3,                                                                           \
            .variant = nd,                                                                         \
            .build = build_,                                                                       \
            .attr_bytes = sizeof(struct conv_attr),                                                \
            .fields = fields_,                                                                     \
            .defaults = &conv_default}

static const struct ops_def rows[ROW_COUNT] = {
    PRIMITIVE(ROW_CONV, "conv", 3, KERNEL_CONV_FORWARD, run_forward, grad_conv),
    PRIMITIVE(ROW_CONV_DATA, "conv_data", 2, KERNEL_CONV_DATA, run_data, grad_data),
    PRIMITIVE(ROW_CONV_WEIGHTS, "conv_weights", 2, KERNEL_CONV_WEIGHTS, run_weights, grad_weights),
    TORCH(ROW_CONV1D, "conv1d", 1, build_conv, conv_fields),
    TORCH(ROW_CONV2D, "conv2d", 2, build_conv, conv_fields),
    TORCH(ROW_CONV3D, "conv3d", 3, build_conv, conv_fields),
    TORCH(ROW_TRANSPOSE1D, "conv_transpose1d", 1, build_transposed, transposed_fields),
    TORCH(ROW_TRANSPOSE2D, "conv_transpose2d", 2, build_transposed, transposed_fields),
    TORCH(ROW_TRANSPOSE3D, "conv_transpose3d", 3, build_transposed, transposed_fields),
};

const struct ops_family ops_conv_family = {rows, ROW_COUNT};
