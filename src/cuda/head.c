/* head.c - cross entropy of a product, by blocks of rows: logits lie in the workspace, never as a whole.
 *
 * Rows of a block are fixed by the shape. Logits have the type of x: BF16 or F32. The gradient makes the logits again from
 * what the forward pass kept (the logarithm of each row's sum), turns them into their gradients in place, and adds up dW
 * in float32 in the order of the blocks. */
#include <string.h>

#include "cuda/product.h"

#define MOST_ROWS 4096
#define MOST_BYTES ((int64_t)512 << 20)

enum which { LOGITS, TO_X, TO_W };

static int64_t stride_of(const struct kernel_product_entropy_desc *d)
{
    return (d->classes + 7) / 8 * 8;
}

static int64_t rows_of(const struct kernel_product_entropy_desc *d, int dtype)
{
    int64_t rows = MOST_ROWS, row = stride_of(d) * (int64_t)cuda_dtype_bytes(dtype);
    while (rows > 128 && rows * row > MOST_BYTES)
        rows /= 2;
    return d->n < rows ? d->n : rows;
}

/* logits = x W^T; dx = g W; dW (+)= g^T x */
static struct cuda_product product_of(const struct kernel_product_entropy_desc *d, int dtype,
                                      enum which w, int64_t rows, bool adds)
{
    struct cuda_product p;
    int64_t ld = stride_of(d);
    memset(&p, 0, sizeof p);
    p.m = w == TO_W ? d->classes : rows;
    p.n = w == LOGITS ? d->classes : d->k;
    p.k = w == LOGITS ? d->k : w == TO_X ? d->classes : rows;
    p.is_a_turned = w == TO_W;
    p.is_b_turned = w == LOGITS;
    p.a_ld = w == LOGITS ? d->k : ld;
    p.b_ld = d->k;
    p.c_ld = w == LOGITS ? ld : d->k;
    p.batch = 1;
    p.dtype = dtype;
    p.out_dtype = w == TO_W ? KERNEL_F32 : dtype;
    p.adds = adds;
    p.alpha = 1.0f;
    p.alignment =
        d->k * (int64_t)cuda_dtype_bytes(dtype) % 16 ? (int32_t)cuda_dtype_bytes(dtype) : 16;
    return p;
}

/* Numbers of the reduction, losses and lse of all rows, a block of logits, room of the products. */
struct space {
    double *numbers;
    float *losses, *lse;
    unsigned char *logits, *rest;
    size_t bytes;
};

static struct space carve(const struct kernel_product_entropy_desc *d, int dtype, void *base)
{
    struct space s;
    unsigned char *at = base;
    size_t rows = cuda_align((size_t)d->n * sizeof(float)), most = 0;
    for (int w = LOGITS; w <= TO_W; w++) {
        struct cuda_product p = product_of(d, dtype, (enum which)w, rows_of(d, dtype), false);
        size_t bytes = cuda_product_workspace(&p);
        most = bytes > most ? bytes : most;
    }
    s.numbers = (double *)(void *)at;
    s.losses = (float *)(void *)(at += 256);
    s.lse = (float *)(void *)(at += rows);
    s.logits = at += rows;
    s.rest = at += cuda_align((size_t)(rows_of(d, dtype) * stride_of(d)) * cuda_dtype_bytes(dtype));
    s.bytes = (size_t)(at - (unsigned char *)base) + most;
    return s;
}

size_t cuda_product_entropy_workspace(const struct kernel_product_entropy_desc *d, int dtype)
{
    unsigned char base[1];
    return carve(d, dtype, base).bytes;
}

enum ebb_status cuda_product_entropy_need(struct cuda_products *products,
                                          const struct kernel_product_entropy_desc *d, int dtype,
                                          bool is_grad, uint64_t *algorithm, struct ebb_error *err)
{
    int64_t full = rows_of(d, dtype);
    uint64_t hash = 0, one;
    for (int w = LOGITS; w <= (is_grad ? TO_W : LOGITS); w++)
        for (int rest = 0; rest < 2; rest++) {
            int64_t rows = rest && full ? d->n % full : full;
            if (rows == 0)
                continue;
            for (int adds = 0; adds <= (w == TO_W); adds++) {
                struct cuda_product p = product_of(d, dtype, (enum which)w, rows, adds);
                EBB_TRY(cuda_product_need(products, &p, &one, err));
                hash = (hash ^ one) * 0x100000001b3u;
            }
        }
    *algorithm = hash;
    return EBB_OK;
}

static enum ebb_status check(int code, struct ebb_error *err)
{
    return code ? ebb_fail(err, EBB_EDEVICE, "cuda: product_entropy: error %d", code) : EBB_OK;
}

static struct cuda_head head_of(const struct kernel_product_entropy_desc *d, int dtype,
                                int64_t rows)
{
    return (struct cuda_head){.rows = rows,
                              .classes = d->classes,
                              .ld = stride_of(d),
                              .ignore_index = d->ignore_index,
                              .dtype = dtype,
                              .is_mean = d->reduction == KERNEL_REDUCE_MEAN};
}

/* x, w, target -> loss, lse */
enum ebb_status cuda_product_entropy_run(struct cuda_products *products,
                                         const struct kernel_product_entropy_desc *d,
                                         const struct kernel_args *args, struct cuda_fault fault,
                                         cuda_stream stream, struct ebb_error *err)
{
    int dtype = args->in_dtype[0];
    struct space s = carve(d, dtype, args->workspace);
    const unsigned char *x = args->in[0];
    const int64_t *target = args->in[2];
    int64_t full = rows_of(d, dtype), row = d->k * (int64_t)cuda_dtype_bytes(dtype);
    float *lse = args->out[1] ? args->out[1] : s.lse;
    struct cuda_head h = head_of(d, dtype, full);
    EBB_TRY(check(cuda_head_begin(&h, d->n, target, NULL, s.numbers, fault, stream), err));
    for (int64_t at = 0; at < d->n; at += full) {
        h.rows = d->n - at < full ? d->n - at : full;
        struct cuda_product p = product_of(d, dtype, LOGITS, h.rows, false);
        EBB_TRY(cuda_product_run(products, &p, x + at * row, args->in[1], NULL, NULL, s.logits,
                                 s.rest, err));
        EBB_TRY(
            check(cuda_head_rows(&h, s.logits, target + at, s.losses + at, lse + at, stream), err));
    }
    return args->out[0] ? check(cuda_head_end(d->n, s.losses, s.numbers, args->out[0], stream), err)
                        : EBB_OK;
}

/* dy, x, w, target, lse -> dx, dw */
enum ebb_status cuda_product_entropy_grad_run(struct cuda_products *products,
                                              const struct kernel_product_entropy_desc *d,
                                              const struct kernel_args *args,
                                              struct cuda_fault fault, cuda_stream stream,
                                              struct ebb_error *err)
{
    int dtype = args->in_dtype[1];
    struct space s = carve(d, dtype, args->workspace);
    const unsigned char *x = args->in[1];
    unsigned char *dx = args->out[0];
    const int64_t *target = args->in[3];
    const float *lse = args->in[4];
    int64_t full = rows_of(d, dtype), row = d->k * (int64_t)cuda_dtype_bytes(dtype);
    struct cuda_head h = head_of(d, dtype, full);
    EBB_TRY(check(cuda_head_begin(&h, d->n, target, args->in[0], s.numbers, fault, stream), err));
    for (int64_t at = 0; at < d->n; at += full) {
        const void *block = x + at * row;
        h.rows = d->n - at < full ? d->n - at : full;
        struct cuda_product logits = product_of(d, dtype, LOGITS, h.rows, false),
                            to_x = product_of(d, dtype, TO_X, h.rows, false),
                            to_w = product_of(d, dtype, TO_W, h.rows, at > 0);
        EBB_TRY(cuda_product_run(products, &logits, block, args->in[2], NULL, NULL, s.logits,
                                 s.rest, err));
        EBB_TRY(
            check(cuda_head_slope(&h, s.logits, target + at, lse + at, s.numbers, stream), err));
        if (dx)
            EBB_TRY(cuda_product_run(products, &to_x, s.logits, args->in[2], NULL, NULL,
                                     dx + at * row, s.rest, err));
        if (args->out[1])
            EBB_TRY(cuda_product_run(products, &to_w, s.logits, block, NULL, NULL, args->out[1],
                                     s.rest, err));
    }
    return EBB_OK;
}

/* x, w, target -> loss, dx, dw */
enum ebb_status cuda_product_entropy_step_run(struct cuda_products *products,
                                              const struct kernel_product_entropy_desc *d,
                                              const struct kernel_args *args,
                                              struct cuda_fault fault, cuda_stream stream,
                                              struct ebb_error *err)
{
    int dtype = args->in_dtype[0];
    struct space s = carve(d, dtype, args->workspace);
    const unsigned char *x = args->in[0];
    unsigned char *dx = args->out[1];
    const int64_t *target = args->in[2];
    int64_t full = rows_of(d, dtype), row = d->k * (int64_t)cuda_dtype_bytes(dtype);
    struct cuda_head h = head_of(d, dtype, full);
    EBB_TRY(check(cuda_head_begin(&h, d->n, target, NULL, s.numbers, fault, stream), err));
    for (int64_t at = 0; at < d->n; at += full) {
        const void *block = x + at * row;
        h.rows = d->n - at < full ? d->n - at : full;
        struct cuda_product logits = product_of(d, dtype, LOGITS, h.rows, false),
                            to_x = product_of(d, dtype, TO_X, h.rows, false),
                            to_w = product_of(d, dtype, TO_W, h.rows, at > 0);
        struct cuda_entropy e = {.rows = h.rows,
                                 .classes = d->classes,
                                 .stride = h.ld,
                                 .ignore_index = d->ignore_index,
                                 .dtype = dtype == KERNEL_BF16 ? CUDA_BF16 : CUDA_F32,
                                 .scale_at = s.numbers + 1};
        EBB_TRY(cuda_product_run(products, &logits, block, args->in[1], NULL, NULL, s.logits,
                                 s.rest, err));
        EBB_TRY(
            check(cuda_entropy_grad(&e, s.logits, target + at, s.losses + at, NULL, stream), err));
        if (dx)
            EBB_TRY(cuda_product_run(products, &to_x, s.logits, args->in[1], NULL, NULL,
                                     dx + at * row, s.rest, err));
        if (args->out[2])
            EBB_TRY(cuda_product_run(products, &to_w, s.logits, block, NULL, NULL, args->out[2],
                                     s.rest, err));
    }
    return args->out[0] ? check(cuda_head_end(d->n, s.losses, s.numbers, args->out[0], stream), err)
                        : EBB_OK;
}
