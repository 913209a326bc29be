/* entropy.c - cross entropy of a product: loss(x W^T) without the logits as a whole.
 *
 * Forward: BLOCK rows of logits at a time in the workspace; kept are the logs of the row sums.
 * Backward: the same rows again, turned into their gradients in place, then multiplied into dx and
 * added to dW. Costs one product more than keeping the logits; saves their bytes twice.
 *
 * x and W in BF16: logits and losses are float32 all the same, their gradients are rounded to BF16
 * for the two products; dx is BF16, dW float32. */
#include "kernel/internal.h"

#define BLOCK 128

struct sizes {
    const struct kernel_product_entropy_desc *d;
    int64_t rows;  /* of a block */
    int32_t dtype; /* of x and W: F32 or BF16 */
};

static struct sizes sizes_of(const struct kernel_product_entropy_desc *d, uint8_t dtype)
{
    return (struct sizes){d, kernel_min(d->n, BLOCK), dtype};
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
    const int64_t k = z->d->k, classes = z->d->classes;
    struct kernel_matmul p = w == LOGITS ? product(count, classes, k, false, true)
                             : w == TO_X ? product(count, k, classes, false, false)
                                         : product(classes, k, count, true, false);
    p.dtype = z->dtype;
    p.out_dtype = w == TO_X ? z->dtype : KERNEL_F32;
    p.adds = adds;
    return p;
}

/* Workspace: the block of logits, their gradients as BF16 where that is wanted, then what the
 * products want. */
static size_t low_at(const struct sizes *z)
{
    return kernel_align((size_t)(z->rows * z->d->classes) * sizeof(float));
}

static size_t rest_at(const struct sizes *z, bool is_grad)
{
    bool has_low = is_grad && z->dtype != KERNEL_F32;
    return low_at(z) +
           (has_low ? kernel_align((size_t)(z->rows * z->d->classes) * sizeof(uint16_t)) : 0);
}

static enum ebb_status prepare(struct kernel_context *c, const struct sizes *z, bool is_grad,
                               struct kernel_need *need, struct ebb_error *err)
{
    int64_t full = z->rows, rest = z->d->n % full;
    size_t most = 0, bytes;
    for (int k = 0; k < 12; k++) { /* product, size of the block, adding or not */
        int64_t count = k / 3 % 2 ? rest : full;
        struct kernel_matmul m = make(z, (enum which)(k % 3), count, k >= 6);
        if (count == 0 || (k % 3 != LOGITS && !is_grad) || (k % 3 != TO_W && k >= 6))
            continue;
        EBB_TRY(kernel_matmul_prepare(c, &m, &bytes, err));
        most = bytes > most ? bytes : most;
    }
    need->workspace_bytes = rest_at(z, is_grad) + most;
    return EBB_OK;
}

KERNEL_NEED(product_entropy)
{
    struct sizes z = sizes_of(desc, types->in_dtype[0]);
    return prepare(c, &z, false, need, err);
}

KERNEL_NEED(product_entropy_grad)
{
    struct sizes z = sizes_of(desc, types->in_dtype[1]);
    return prepare(c, &z, true, need, err);
}

static struct kernel_cross_entropy rows_of(const struct kernel_product_entropy_desc *d)
{
    return (struct kernel_cross_entropy){.n = d->n,
                                         .classes = d->classes,
                                         .inner = 1,
                                         .ignore_index = d->ignore_index,
                                         .reduction = (int32_t)d->reduction};
}

/* Row `at` of a matrix of rows of k numbers. */
static const void *row_at(const struct sizes *z, const void *x, int64_t at)
{
    return (const unsigned char *)x +
           (size_t)(at * z->d->k) * (z->dtype == KERNEL_F32 ? sizeof(float) : sizeof(uint16_t));
}

KERNEL_CPU(product_entropy)
{
    const struct kernel_product_entropy_desc *d = desc;
    struct sizes z = sizes_of(d, args->in_dtype[0]);
    const int64_t *target = args->in[2];
    float *loss = args->out[0], *lse = args->out[1], *logits = args->workspace;
    void *rest = (unsigned char *)args->workspace + rest_at(&z, false);
    struct kernel_cross_entropy e = rows_of(d);
    double sum = 0, divisor;
    EBB_TRY(kernel_entropy_check(&e, target, &divisor, err));
    for (int64_t at = 0; at < d->n; at += z.rows) {
        e.n = kernel_min(z.rows, d->n - at);
        struct kernel_matmul m = make(&z, LOGITS, e.n, false);
        EBB_TRY(kernel_matmul_run(c, &m, row_at(&z, args->in[0], at), args->in[1], NULL, logits,
                                  rest, err));
        sum += kernel_entropy_block(c, &e, logits, target + at, lse ? lse + at : NULL);
    }
    if (loss)
        *loss = (float)(sum / divisor);
    return EBB_OK;
}

KERNEL_CPU(product_entropy_grad)
{
    const struct kernel_product_entropy_desc *d = desc;
    struct sizes z = sizes_of(d, args->in_dtype[1]);
    const void *x = args->in[1], *w = args->in[2];
    const float *dy = args->in[0], *lse = args->in[4];
    const int64_t *target = args->in[3];
    unsigned char *dx = args->out[0], *workspace = args->workspace;
    float *dw = args->out[1], *logits = args->workspace;
    void *low = workspace + low_at(&z), *rest = workspace + rest_at(&z, true);
    const void *g = z.dtype == KERNEL_F32 ? args->workspace : low;
    struct kernel_cross_entropy e = rows_of(d);
    double divisor;
    EBB_TRY(kernel_entropy_check(&e, target, &divisor, err));
    float scale = (float)((double)*dy / divisor);
    for (int64_t at = 0; at < d->n; at += z.rows) {
        const void *block = row_at(&z, x, at);
        e.n = kernel_min(z.rows, d->n - at);
        struct kernel_matmul m = make(&z, LOGITS, e.n, false), to_x = make(&z, TO_X, e.n, false),
                             to_w = make(&z, TO_W, e.n, at > 0);
        EBB_TRY(kernel_matmul_run(c, &m, block, w, NULL, logits, rest, err));
        kernel_entropy_block_grad(c, &e, scale, target + at, lse + at, logits);
        if (z.dtype != KERNEL_F32)
            kernel_convert(c, e.n * d->classes, KERNEL_F32, logits, z.dtype, low);
        if (dx) {
            void *to = dx + ((const unsigned char *)block - (const unsigned char *)x);
            EBB_TRY(kernel_matmul_run(c, &to_x, g, w, NULL, to, rest, err));
        }
        if (dw)
            EBB_TRY(kernel_matmul_run(c, &to_w, g, block, NULL, dw, rest, err));
    }
    return EBB_OK;
}
