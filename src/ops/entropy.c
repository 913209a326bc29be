/* entropy.c - cross entropy of a product: loss(x W^T) without the logits as a whole.
 *
 * Forward: BLOCK rows of logits at a time in the workspace; kept are the logs of the row sums.
 * Backward: the same rows again, turned into their gradients in place, then multiplied into dx and
 * added to dW. Costs one product more than keeping the logits; saves their bytes twice.
 *
 * x and W in BF16: logits and losses are float32 all the same, their gradients are rounded to BF16
 * for the two products; dx is BF16, dW float32. */
#include "ops/internal.h"

#define BLOCK 128

enum { ROW_FORWARD, ROW_GRAD, ROW_COUNT };

static const struct ops_def rows[ROW_COUNT];

struct sizes {
    int64_t n, k, classes;
    enum kernel_dtype dtype; /* of x and W: F32 or BF16 */
};

static struct sizes sizes_of(const struct tensor_view *x, const struct tensor_view *w)
{
    return (struct sizes){x->dims[0], x->dims[1], w->dims[0],
                          x->dtype == TENSOR_BF16 ? KERNEL_BF16 : KERNEL_F32};
}

static int64_t block_rows(const struct sizes *z)
{
    return z->n < BLOCK ? z->n : BLOCK;
}

/* [m, k] or its transpose times [k, n] or its transpose. */
static struct kernel_matmul product(int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    struct kernel_matmul p;
    memset(&p, 0, sizeof p);
    p.rank = 2;
    p.a_dims[0] = p.c_dims[0] = m;
    p.b_dims[1] = p.c_dims[1] = n;
    p.a_dims[1] = p.b_dims[0] = k;
    p.a_strides[0] = ta ? 1 : k;
    p.a_strides[1] = ta ? m : 1;
    p.b_strides[0] = tb ? 1 : n;
    p.b_strides[1] = tb ? k : 1;
    return p;
}

/* The three products of `count` rows: logits = x W^T; dx = g W; dW (+)= g^T x. */
enum which { LOGITS, TO_X, TO_W };

static struct kernel_matmul make(const struct sizes *z, enum which w, int64_t count, bool adds)
{
    struct kernel_matmul p = w == LOGITS ? product(count, z->classes, z->k, false, true)
                             : w == TO_X ? product(count, z->k, z->classes, false, false)
                                         : product(z->classes, z->k, count, true, false);
    p.dtype = (int32_t)z->dtype;
    p.out_dtype = w == TO_X ? (int32_t)z->dtype : KERNEL_F32;
    p.adds = adds;
    return p;
}

/* Workspace: the block of logits, their gradients as BF16 where that is wanted, then what the
 * products want. */
static size_t low_at(const struct sizes *z)
{
    return ops_align((size_t)(block_rows(z) * z->classes) * sizeof(float));
}

static size_t rest_at(const struct sizes *z, bool is_grad)
{
    bool has_low = is_grad && z->dtype != KERNEL_F32;
    return low_at(z) +
           (has_low ? ops_align((size_t)(block_rows(z) * z->classes) * sizeof(uint16_t)) : 0);
}

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
    i->workspace_bytes = rest_at(z, is_grad) + most;
    return EBB_OK;
}

static bool takes_bf16(const struct ops_infer *i)
{
    size_t x = i->def == &rows[ROW_GRAD];
    return i->in[x]->dtype == TENSOR_BF16 && i->in[x + 1]->dtype == TENSOR_BF16 &&
           kernel_has_bf16();
}

static enum ebb_status want_sizes(const struct ops_infer *i, size_t first, struct sizes *z,
                                  struct ebb_error *err)
{
    const struct tensor_view *x = i->in[first], *w = i->in[first + 1], *t = i->in[first + 2];
    bool is_number = x->dtype == TENSOR_F32 || x->dtype == TENSOR_BF16;
    if (!is_number || w->dtype != x->dtype || t->dtype != TENSOR_I64 || x->rank != 2 ||
        w->rank != 2 || t->rank != 1 || x->dims[1] != w->dims[1] || t->dims[0] != x->dims[0] ||
        x->dims[0] < 1 || x->dims[1] < 1 || w->dims[0] < 1)
        return ops_wrong(i, err, "x [n, k], weights [classes, k], targets I64 [n] are needed");
    *z = sizes_of(x, w);
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

static struct kernel_cross_entropy describe(const struct ops_entropy *a, const struct sizes *z)
{
    return (struct kernel_cross_entropy){.n = z->n,
                                         .classes = z->classes,
                                         .inner = 1,
                                         .ignore_index = a->ignore_index,
                                         .reduction = (enum kernel_reduction)a->reduction};
}

/* Row `at` of a matrix of rows of k numbers. */
static const void *row_at(const struct sizes *z, const void *x, int64_t at)
{
    return (const unsigned char *)x +
           (size_t)(at * z->k) * (z->dtype == KERNEL_F32 ? sizeof(float) : sizeof(uint16_t));
}

static enum ebb_status run_forward(const struct ops_run *r)
{
    struct sizes z = sizes_of(&r->in[0], &r->in[1]);
    const void *x = ops_arg(r, 0), *w = ops_arg(r, 1);
    const int64_t *target = ops_arg(r, 2);
    float *loss = ops_result(r, 0), *lse = ops_result(r, 1);
    float *logits = r->workspace;
    void *rest = (unsigned char *)r->workspace + rest_at(&z, false);
    struct kernel_cross_entropy e = describe(r->attr, &z);
    double sum = 0, divisor;
    EBB_TRY(kernel_entropy_check(&e, target, &divisor, r->err));
    for (int64_t at = 0; at < z.n; at += block_rows(&z)) {
        e.n = z.n - at < block_rows(&z) ? z.n - at : block_rows(&z);
        struct kernel_matmul m = make(&z, LOGITS, e.n, false);
        EBB_TRY(
            kernel_matmul_run(r->context, &m, row_at(&z, x, at), w, NULL, logits, rest, r->err));
        sum += kernel_entropy_block(r->context, &e, logits, target + at, lse ? lse + at : NULL);
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
    ops_out(i, (enum tensor_dtype)i->in[1]->dtype, 2, i->in[1]->dims);
    ops_out(i, TENSOR_F32, 2, i->in[2]->dims);
    i->flops = 6.0 * (double)z.n * (double)z.k * (double)z.classes;
    return prepare(i, &z, true, err);
}

static enum ebb_status run_grad(const struct ops_run *r)
{
    struct kernel_context *context = r->context;
    struct sizes z = sizes_of(&r->in[1], &r->in[2]);
    const void *x = ops_arg(r, 1), *w = ops_arg(r, 2);
    const float *dy = ops_arg(r, 0), *lse = ops_arg(r, 4);
    const int64_t *target = ops_arg(r, 3);
    unsigned char *dx = ops_result(r, 0);
    float *dw = ops_result(r, 1);
    unsigned char *workspace = r->workspace;
    float *logits = r->workspace;
    void *low = workspace + low_at(&z), *rest = workspace + rest_at(&z, true);
    const void *g = z.dtype == KERNEL_F32 ? r->workspace : low;
    struct kernel_cross_entropy e = describe(r->attr, &z);
    double divisor;
    EBB_TRY(kernel_entropy_check(&e, target, &divisor, r->err));
    float scale = (float)((double)*dy / divisor);
    for (int64_t at = 0; at < z.n; at += block_rows(&z)) {
        const void *block = row_at(&z, x, at);
        e.n = z.n - at < block_rows(&z) ? z.n - at : block_rows(&z);
        struct kernel_matmul m = make(&z, LOGITS, e.n, false), to_x = make(&z, TO_X, e.n, false),
                             to_w = make(&z, TO_W, e.n, at > 0);
        EBB_TRY(kernel_matmul_run(context, &m, block, w, NULL, logits, rest, r->err));
        kernel_entropy_block_grad(context, &e, scale, target + at, lse + at, logits);
        if (z.dtype != KERNEL_F32)
            kernel_convert(context, e.n * z.classes, KERNEL_F32, logits, z.dtype, low);
        if (dx) {
            void *to = dx + ((const unsigned char *)block - (const unsigned char *)x);
            EBB_TRY(kernel_matmul_run(context, &to_x, g, w, NULL, to, rest, r->err));
        }
        if (dw)
            EBB_TRY(kernel_matmul_run(context, &to_w, g, block, NULL, dw, rest, r->err));
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

/* The mean or the sum of the cross entropy of rows that are a product x W^T, each for itself. */
static bool match(const struct ops_build *b, struct ops_match *m)
{
    const struct ops_entropy *a = b->attr;
    const struct tensor_view *v = tensor_view_of(b->s, b->in[0]);
    if (b->in_count != 2 || a->label_smoothing != 0.0f || v->rank != 2 ||
        a->reduction == KERNEL_REDUCE_NONE)
        return false;
    m->node = ops_maker(b->s, b->in[0]);
    if (!m->node.def || !ops_is_product(&m->node))
        return false;
    const struct tensor_view *x = tensor_view_of(b->s, m->node.inputs[0]),
                             *w = tensor_view_of(b->s, m->node.inputs[1]);
    return x->rank == 2 && w->rank == 2 && x->dims[0] == v->dims[0] && w->dims[0] == v->dims[1] &&
           x->dtype == w->dtype;
}

static tensor_id replace(const struct ops_build *b, const struct ops_match *m)
{
    return ops_emit(b->s, &rows[ROW_FORWARD], b->attr, 3,
                    (tensor_id[]){m->node.inputs[0], m->node.inputs[1], b->in[1]});
}

const struct ops_rewrite ops_entropy_rewrite = {"entropy", OPS_PASS_ENTROPY, false, "cross_entropy",
                                                match,     replace};

#define ENTROPY(id, text, ins, infer_, run_, grad_, low_out_)                                      \
    [id] = {OPS_PRIMITIVE(text, ins, ins, infer_, run_, grad_),                                    \
            .attr_bytes = sizeof(struct ops_entropy),                                              \
            .is_internal = true,                                                                   \
            .low_rule = OPS_LOW_WHOLE,                                                             \
            .low_out = low_out_,                                                                   \
            .takes_low = takes_bf16}

static const struct ops_def rows[ROW_COUNT] = {
    ENTROPY(ROW_FORWARD, "product_entropy", 3, infer_forward, run_forward, grad_forward, 0),
    ENTROPY(ROW_GRAD, "product_entropy_grad", 5, infer_grad, run_grad, NULL, 1),
};

const struct ops_family ops_entropy_family = {rows, ROW_COUNT};
