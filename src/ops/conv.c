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
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    if (i->in[0]->rank != c->nd + 2 || i->in[1]->rank != c->nd + 2 ||
        memcmp(i->in[0]->dims, first, bytes) != 0 || memcmp(i->in[1]->dims, second, bytes) != 0)
        return ops_wrong(i, err, "shapes do not fit the convolution");
    if (i->in_count > 2 && (i->in[2]->rank != 1 || i->in[2]->dims[0] != c->co))
        return ops_wrong(i, err, "the bias must have %" PRId64 " elements", c->co);
    int first_block = pass == KERNEL_CONV_DATA ? c->y_block : c->x_block;
    int second_block = pass == KERNEL_CONV_WEIGHTS ? c->y_block : 0;
    if (i->in[0]->block != first_block || i->in[1]->block != second_block)
        return ops_wrong(i, err, "layouts do not fit the convolution");
    ops_out(i, TENSOR_F32, c->nd + 2, result);
    if (pass != KERNEL_CONV_WEIGHTS)
        tensor_view_block(&i->out[0], pass == KERNEL_CONV_DATA ? c->x_block : c->y_block);
    i->flops = 2.0 * (double)(c->n * c->co * (c->ci / c->groups));
    for (int d = 0; d < c->nd; d++)
        i->flops *= (double)(c->out[d] * c->k[d]);
    return EBB_OK;
}

static void describe_conv(const struct ops_views *v, void *desc)
{
    struct kernel_conv_desc *d = desc;
    memcpy(&d->conv, v->attr, sizeof d->conv);
    d->pass = v->def->variant;
    if (d->pass != KERNEL_CONV_WEIGHTS) /* some samples of a call in 16 bits, or all */
        d->conv.n = v->out[0].dims[0];
}

/* Whether the kernels take both operands in the type that they have. */
static bool takes_low(const struct tensor_session *s, const struct kernel_conv *c,
                      enum kernel_conv_pass pass, tensor_id a, tensor_id b)
{
    uint8_t type = tensor_view_of(s, a)->dtype;
    struct kernel_conv_desc desc = {.conv = *c, .pass = (int64_t)pass};
    struct kernel_args types = {.in_dtype = {type, type}, .in_count = 2};
    desc.conv.dtype = type;
    return type != TENSOR_F32 && type == tensor_view_of(s, b)->dtype &&
           ops_table(s)->takes(tensor_backend(s), KERNEL_FAMILY_CONV, &desc, &types);
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
    c.dtype = takes_low(s, &c, pass, a, b) ? tensor_view_of(s, a)->dtype : KERNEL_F32;
    c.is_small = ops_has_pass(s, OPS_PASS_SMALL) && kernel_conv_is_small(&c);
    enum ebb_status status = EBB_OK;
    if (ops_has_pass(s, OPS_PASS_LAYOUT))
        status = ops_table(s)->choose(tensor_backend(s), &c, pass,
                                      ops_has_pass(s, OPS_PASS_WINOGRAD), &err);
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

static bool match_relu(const struct ops_build *b, struct ops_match *m)
{
    m->node = tensor_node_at(b->s, tensor_producer(b->s, b->in[0]));
    const struct kernel_conv *c = m->node.attr;
    return m->node.def == &rows[ROW_CONV] && !c->has_relu;
}

static tensor_id replace_relu(const struct ops_build *b, const struct ops_match *m)
{
    const struct tensor_node *n = &m->node;
    struct kernel_conv c = *(const struct kernel_conv *)n->attr;
    c.has_relu = 1;
    return emit(b->s, ROW_CONV, &c, n->inputs[0], n->inputs[1],
                n->input_count > 2 ? n->inputs[2] : TENSOR_NONE);
}

const struct ops_rewrite ops_conv_relu_rewrite = {"relu", OPS_PASS_RELU, false,
                                                  "relu", match_relu,    replace_relu};
/* Asked where a convolution is appended (emit). */
const struct ops_rewrite ops_layout_rewrite = {"layout", OPS_PASS_LAYOUT, .is_default = true};
const struct ops_rewrite ops_winograd_rewrite = {"winograd", OPS_PASS_WINOGRAD, .is_default = true};
const struct ops_rewrite ops_small_rewrite = {"small", OPS_PASS_SMALL, .is_default = true};

/* ---- from torch's arguments ----------------------------------------------------------------- */

/* Everything but in and out. */
static bool geometry(const struct ops_build *b, struct kernel_conv *c, int64_t *output_padding)
{
    struct tensor_session *s = b->s;
    const struct ops_def *def = b->def;
    const struct conv_attr *a = b->attr;
    const struct tensor_view *x = tensor_view_of(s, b->in[0]), *w = tensor_view_of(s, b->in[1]);
    const int64_t ones[3] = {1, 1, 1}, zeros[3] = {0};
    int nd = def->variant;
    memset(c, 0, sizeof *c);
    c->nd = nd;
    c->groups = a->groups;
    if (x->rank != nd + 2 || w->rank != nd + 2) {
        tensor_fail(s, EBB_EINPUT, "%s: input and weights must have rank %d", def->name, nd + 2);
        return false;
    }
    if (!ops_spread(&a->stride, nd, ones, 1, c->stride) ||
        !ops_spread(&a->padding, nd, zeros, 0, c->pad) ||
        !ops_spread(&a->dilation, nd, ones, 1, c->dilation) ||
        !ops_spread(&a->output_padding, nd, zeros, 0, output_padding) || a->groups < 1) {
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
static tensor_id build_single(const struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct tensor_view x = *tensor_view_of(s, b->in[0]);
    int64_t dims[TENSOR_RANK + 1] = {1};
    memcpy(dims + 1, x.dims, sizeof x.dims);
    struct ops_build one = *b;
    one.in = (tensor_id[]){ops_reshape(s, b->in[0], x.rank + 1, dims), b->in[1], ops_given(b, 2)};
    tensor_id y = b->def->build(&one);
    if (!y.v)
        return y;
    const struct tensor_view v = *tensor_view_of(s, y);
    return ops_reshape(s, y, v.rank - 1, v.dims + 1);
}

static bool is_single(const struct ops_build *b)
{
    return tensor_view_of(b->s, b->in[0])->rank == b->def->variant + 1;
}

static tensor_id build_conv(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    int nd = b->def->variant;
    struct kernel_conv c;
    int64_t unused[3];
    if (is_single(b))
        return build_single(b);
    if (!geometry(b, &c, unused))
        return TENSOR_NONE;
    const struct tensor_view *x = tensor_view_of(s, b->in[0]), *w = tensor_view_of(s, b->in[1]);
    c.ci = x->dims[1];
    c.co = w->dims[0];
    c.has_bias = b->in_count > 2;
    if (c.ci % c.groups || c.co % c.groups || w->dims[1] != c.ci / c.groups)
        return tensor_fail(s, EBB_EINPUT,
                           "%s: %" PRId64 " input and %" PRId64 " output channels, %" PRId64
                           " groups, weights for %" PRId64,
                           b->def->name, c.ci, c.co, c.groups, w->dims[1]);
    for (int d = 0; d < nd; d++) {
        c.in[d] = x->dims[d + 2];
        int64_t span = c.in[d] + 2 * c.pad[d] - c.dilation[d] * (c.k[d] - 1) - 1;
        if (span < 0)
            return tensor_fail(s, EBB_EINPUT, "%s: input of %" PRId64 " is smaller than the kernel",
                               b->def->name, c.in[d]);
        c.out[d] = span / c.stride[d] + 1;
    }
    return emit(s, ROW_CONV, &c, b->in[0], b->in[1], ops_given(b, 2));
}

static tensor_id add_channels(struct tensor_session *s, tensor_id y, tensor_id bias)
{
    int64_t dims[TENSOR_RANK] = {1, tensor_view_of(s, bias)->dims[0], 1, 1, 1};
    return ops_add(s, y, ops_reshape(s, bias, tensor_view_of(s, y)->rank, dims));
}

/* The convolution whose input is our output. */
static tensor_id build_transposed(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    int nd = b->def->variant;
    struct kernel_conv c;
    int64_t extra[3];
    if (is_single(b))
        return build_single(b);
    if (!geometry(b, &c, extra))
        return TENSOR_NONE;
    const struct tensor_view *x = tensor_view_of(s, b->in[0]), *w = tensor_view_of(s, b->in[1]);
    c.co = x->dims[1];
    c.ci = w->dims[1] * c.groups;
    if (w->dims[0] != c.co || c.co % c.groups)
        return tensor_fail(s, EBB_EINPUT, "%s: input has %" PRId64 " channels, weights %" PRId64,
                           b->def->name, c.co, w->dims[0]);
    for (int d = 0; d < nd; d++) {
        c.out[d] = x->dims[d + 2];
        c.in[d] = (c.out[d] - 1) * c.stride[d] - 2 * c.pad[d] + c.dilation[d] * (c.k[d] - 1) +
                  extra[d] + 1;
        if (c.in[d] < 1 || (extra[d] >= c.stride[d] && extra[d] >= c.dilation[d]))
            return tensor_fail(s, EBB_EINPUT,
                               "%s: output of %" PRId64 " with output_padding %" PRId64,
                               b->def->name, c.in[d], extra[d]);
    }
    int64_t beyond[3] = {0}; /* zeros behind what the kernel reaches, which oneDNN refuses */
    for (int d = 0; d < nd; d++)
        if (extra[d] - c.pad[d] >= c.stride[d]) {
            beyond[d] = extra[d] - c.pad[d];
            c.in[d] -= beyond[d];
        }
    tensor_id y = emit(s, ROW_CONV_DATA, &c, b->in[0], b->in[1], TENSOR_NONE);
    for (int d = 0; d < nd; d++)
        if (beyond[d] && y.v) {
            struct tensor_view v = *tensor_view_of(s, y);
            v.dims[d + 2] = beyond[d];
            tensor_id zero = ops_full(s, v.rank, v.dims, 0.0f);
            y = ops_cat(s, (tensor_id[]){y, zero}, 2, d + 2);
        }
    return b->in_count > 2 ? add_channels(s, y, b->in[2]) : y;
}

#define INTS(text) OPS_FIELD(conv_attr, text, OPS_INTS)
#define GROUPS OPS_FIELD(conv_attr, groups, OPS_INT)
static const struct ops_field conv_fields[] = {
    INTS(stride), INTS(padding), INTS(dilation), GROUPS, {0}};
static const struct ops_field transposed_fields[] = {
    INTS(stride), INTS(padding), INTS(dilation), INTS(output_padding), GROUPS, {0}};
static const struct conv_attr conv_default = {.groups = 1};

#define PRIMITIVE(id, text, high, pass, grad_)                                                     \
    [id] = {OPS_PRIMITIVE(text, 2, high, infer_conv, CONV, describe_conv, grad_),                  \
            .variant = pass,                                                                       \
            .attr_bytes = sizeof(struct kernel_conv),                                              \
            .is_internal = true,                                                                   \
            .is_layout_own = true,                                                                 \
            .low_rule = (pass) != KERNEL_CONV_WEIGHTS ? OPS_LOW_APART : OPS_LOW_WHOLE,             \
            .low_out = (pass) != KERNEL_CONV_WEIGHTS}
#define TORCH(id, text, nd, build_, fields_)                                                       \
    [id] = {OPS_COMPOSITE(text, 2, 3, build_), .variant = nd,                                      \
            OPS_ATTR(struct conv_attr, fields_, &conv_default)}

static const struct ops_def rows[ROW_COUNT] = {
    PRIMITIVE(ROW_CONV, "conv", 3, KERNEL_CONV_FORWARD, grad_conv),
    PRIMITIVE(ROW_CONV_DATA, "conv_data", 2, KERNEL_CONV_DATA, grad_data),
    PRIMITIVE(ROW_CONV_WEIGHTS, "conv_weights", 2, KERNEL_CONV_WEIGHTS, grad_weights),
    TORCH(ROW_CONV1D, "conv1d", 1, build_conv, conv_fields),
    TORCH(ROW_CONV2D, "conv2d", 2, build_conv, conv_fields),
    TORCH(ROW_CONV3D, "conv3d", 3, build_conv, conv_fields),
    TORCH(ROW_TRANSPOSE1D, "conv_transpose1d", 1, build_transposed, transposed_fields),
    TORCH(ROW_TRANSPOSE2D, "conv_transpose2d", 2, build_transposed, transposed_fields),
    TORCH(ROW_TRANSPOSE3D, "conv_transpose3d", 3, build_transposed, transposed_fields),
};

const struct ops_family ops_conv_family = {rows, ROW_COUNT};
