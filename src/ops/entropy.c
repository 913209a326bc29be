/* entropy.c - cross entropy of a product: loss(x W^T) without the logits as a whole.
 *
 * Forward: BLOCK rows of logits at a time in the workspace; kept are the logs of the row sums.
 * Backward: the same rows again, turned into their gradients in place, then multiplied into dx and
 * added to dW. Costs one product more than keeping the logits; saves their bytes twice. */
#include <inttypes.h>

#include "ops/internal.h"

#define BLOCK 128
#define ALIGN 256

enum { ROW_FORWARD, ROW_GRAD, ROW_COUNT };

static const struct ops_def rows[ROW_COUNT];

struct attr {
    int64_t ignore_index;
    int32_t reduction, zero;
};

struct sizes {
    int64_t n, k, classes;
};

static int64_t block_rows(const struct sizes *z)
{
    return z->n < BLOCK ? z->n : BLOCK;
}

/* The three products of `rows` rows: logits = x W^T; dx = g W; dW (+)= g^T x. */
static struct kernel_matmul product(int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool adds)
{
    struct kernel_matmul p;
    memset(&p, 0, sizeof p);
    p.rank = 2;
    p.adds = adds;
    p.a_dims[0] = p.c_dims[0] = m;
    p.b_dims[1] = p.c_dims[1] = n;
    p.a_dims[1] = p.b_dims[0] = k;
    p.a_strides[0] = ta ? 1 : k;
    p.a_strides[1] = ta ? m : 1;
    p.b_strides[0] = tb ? 1 : n;
    p.b_strides[1] = tb ? k : 1;
    return p;
}

enum which { LOGITS, TO_X, TO_W };

static struct kernel_matmul make(const struct sizes *z, enum which w, int64_t count, bool adds)
{
    if (w == LOGITS)
        return product(count, z->classes, z->k, false, true, false);
    if (w == TO_X)
        return product(count, z->k, z->classes, false, false, false);
    return product(z->classes, z->k, count, true, false, adds);
}

static size_t logits_bytes(const struct sizes *z)
{
    size_t bytes = (size_t)(block_rows(z) * z->classes) * sizeof(float);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Workspace: the block of logits, then what the products want. */
static enum ebb_status prepare(struct ops_infer *i, const struct sizes *z, bool is_grad,
                               struct ebb_error *err)
{
    int64_t full = block_rows(z), rest = z->n % full;
    size_t most = 0, bytes;
    for (int k = 0; k < 12; k++) { /* product, size of the block, adding or not */
        int64_t count = k / 3 % 2 ? rest : full;
        struct kernel_matmul m = make(z, (enum which)(k % 3), count, k >= 6);
        if (count == 0 || (k % 3 != LOGITS && !is_grad) || (k % 3 != TO_W && k >= 6))
            continue;
        EBB_TRY(kernel_matmul_prepare(tensor_backend(i->session), &m, &bytes, err));
        most = bytes > most ? bytes : most;
    }
    i->workspace_bytes = logits_bytes(z) + most;
    return EBB_OK;
}

static enum ebb_status want_sizes(const struct ops_infer *i, size_t first, struct sizes *z,
                                  struct ebb_error *err)
{
    const struct tensor_view *x = i->in[first], *w = i->in[first + 1], *t = i->in[first + 2];
    if (x->dtype != TENSOR_F32 || w->dtype != TENSOR_F32 || t->dtype != TENSOR_I64 ||
        x->rank != 2 || w->rank != 2 || t->rank != 1 || x->dims[1] != w->dims[1] ||
        t->dims[0] != x->dims[0] || x->dims[0] < 1 || x->dims[1] < 1 || w->dims[0] < 1)
        return ops_wrong(i, err, "x [n, k], weights [classes, k], targets I64 [n] are needed");
    *z = (struct sizes){x->dims[0], x->dims[1], w->dims[0]};
    return EBB_OK;
}

/* x, W, target -> loss, lse */
static enum ebb_status infer_forward(struct ops_infer *i, struct ebb_error *err)
{
    struct sizes z;
    EBB_TRY(want_sizes(i, 0, &z, err));
    ops_out(i, TENSOR_F32, 0, NULL);
    ops_out(i, TENSOR_F32, 1, &z.n);
    i->flops = 2.0 * (double)z.n * (double)z.k * (double)z.classes;
    return prepare(i, &z, false, err);
}

static struct kernel_cross_entropy describe(const struct attr *a, const struct sizes *z,
                                            int64_t count)
{
    return (struct kernel_cross_entropy){.n = count,
                                         .classes = z->classes,
                                         .inner = 1,
                                         .ignore_index = a->ignore_index,
                                         .reduction = (enum kernel_reduction)a->reduction};
}

static enum ebb_status run_forward(const struct ops_run *r)
{
    struct kernel_context *context = r->context;
    struct sizes z = {r->in[0].dims[0], r->in[0].dims[1], r->in[1].dims[0]};
    const float *x = ops_arg(r, 0), *w = ops_arg(r, 1);
    const int64_t *target = ops_arg(r, 2);
    float *loss = ops_result(r, 0), *lse = ops_result(r, 1), *logits = r->workspace;
    void *room = (unsigned char *)r->workspace + logits_bytes(&z);
    struct kernel_cross_entropy e = describe(r->attr, &z, z.n);
    double sum = 0, divisor;
    EBB_TRY(kernel_entropy_check(&e, target, &divisor, r->err));
    for (int64_t at = 0; at < z.n; at += block_rows(&z)) {
        e.n = z.n - at < block_rows(&z) ? z.n - at : block_rows(&z);
        struct kernel_matmul m = make(&z, LOGITS, e.n, false);
        EBB_TRY(kernel_matmul_run(context, &m, x + at * z.k, w, NULL, logits, room, r->err));
        sum += kernel_entropy_block(context, &e, logits, target + at, lse ? lse + at : NULL);
    }
    if (loss)
        *loss = (float)(sum / divisor);
    return EBB_OK;
}

/* dy, x, W, target, lse -> dx, dW */
static enum ebb_status infer_grad(struct ops_infer *i, struct ebb_error *err)
{
    struct sizes z;
    EBB_TRY(want_sizes(i, 1, &z, err));
    ops_out(i, TENSOR_F32, 2, i->in[1]->dims);
    ops_out(i, TENSOR_F32, 2, i->in[2]->dims);
    i->flops = 6.0 * (double)z.n * (double)z.k * (double)z.classes;
    return prepare(i, &z, true, err);
}

static enum ebb_status run_grad(const struct ops_run *r)
{
    struct kernel_context *context = r->context;
    struct sizes z = {r->in[1].dims[0], r->in[1].dims[1], r->in[2].dims[0]};
    const float *dy = ops_arg(r, 0), *x = ops_arg(r, 1), *w = ops_arg(r, 2), *lse = ops_arg(r, 4);
    const int64_t *target = ops_arg(r, 3);
    float *dx = ops_result(r, 0), *dw = ops_result(r, 1), *logits = r->workspace;
    void *room = (unsigned char *)r->workspace + logits_bytes(&z);
    struct kernel_cross_entropy e = describe(r->attr, &z, z.n);
    double divisor;
    EBB_TRY(kernel_entropy_check(&e, target, &divisor, r->err));
    float scale = (float)((double)*dy / divisor);
    for (int64_t at = 0; at < z.n; at += block_rows(&z)) {
        e.n = z.n - at < block_rows(&z) ? z.n - at : block_rows(&z);
        struct kernel_matmul m = make(&z, LOGITS, e.n, false), to_x = make(&z, TO_X, e.n, false),
                             to_w = make(&z, TO_W, e.n, at > 0);
        EBB_TRY(kernel_matmul_run(context, &m, x + at * z.k, w, NULL, logits, room, r->err));
        kernel_entropy_block_grad(context, &e, scale, target + at, lse + at, logits);
        if (dx)
            EBB_TRY(
                kernel_matmul_run(context, &to_x, logits, w, NULL, dx + at * z.k, room, r->err));
        if (dw)
            EBB_TRY(
                kernel_matmul_run(context, &to_w, logits, x + at * z.k, NULL, dw, room, r->err));
    }
    return EBB_OK;
}

static void grad_forward(struct ops_backward *b)
{
    if (!b->gout[0].v)
        return;
    tensor_id first = ops_emit(b->session, &rows[ROW_GRAD], b->attr, 5,
                               (tensor_id[]){b->gout[0], b->in[0], b->in[1], b->in[2], b->out[1]});
    b->gin[0] = first;
    b->gin[1] = ops_output(first, 1);
}

tensor_id ops_product_entropy(struct tensor_session *s, tensor_id logits, tensor_id target,
                              int64_t ignore_index, enum kernel_reduction reduction)
{
    struct attr a;
    const struct tensor_view *v = tensor_view_of(s, logits);
    if (!logits.v || tensor_status(s, NULL) != EBB_OK || v->rank != 2 ||
        reduction == KERNEL_REDUCE_NONE)
        return TENSOR_NONE;
    int64_t n = v->dims[0], classes = v->dims[1];
    struct tensor_node node = tensor_node_at(s, tensor_producer(s, logits));
    while (node.def && strcmp(ops_name(node.def), "reshape") == 0)
        node = tensor_node_at(s, tensor_producer(s, node.inputs[0]));
    if (!node.def || !ops_is_product(&node))
        return TENSOR_NONE;
    const struct tensor_view *x = tensor_view_of(s, node.inputs[0]),
                             *w = tensor_view_of(s, node.inputs[1]);
    if (x->rank != 2 || w->rank != 2 || x->dims[0] != n || w->dims[0] != classes ||
        x->dtype != TENSOR_F32 || w->dtype != TENSOR_F32)
        return TENSOR_NONE;
    memset(&a, 0, sizeof a);
    a.ignore_index = ignore_index;
    a.reduction = (int32_t)reduction;
    return ops_emit(s, &rows[ROW_FORWARD], &a, 3,
                    (tensor_id[]){node.inputs[0], node.inputs[1], target});
}

static const struct ops_def rows[ROW_COUNT] = {
    [ROW_FORWARD] = {OPS_PRIMITIVE("product_entropy", 3, 3, infer_forward, run_forward,
                                   grad_forward),
                     .attr_bytes = sizeof(struct attr), .is_internal = true},
    [ROW_GRAD] = {OPS_PRIMITIVE("product_entropy_grad", 5, 5, infer_grad, run_grad, NULL),
                  .attr_bytes = sizeof(struct attr), .is_internal = true},
};

const struct ops_family ops_entropy_family = {rows, ROW_COUNT};
