/* attend.c - attention of any width, type and mask: by products, a few heads' scores at a time in the workspace.
 *
 * BF16 with 64 channels, no mask and as many keys as queries goes to the kernels of attention.cu, packed or not. Other
 * packed operands are taken apart in the workspace. How many rows (heads of batch elements) make a slice is fixed by the
 * shape. */
#include <string.h>

#include "cuda/product.h"

#define MOST_BYTES ((int64_t)256 << 20) /* of the scores of a slice in F32 */

static bool is_fast(const struct kernel_attention *a, int dtype)
{
    return dtype == KERNEL_BF16 && a->d == 64 && a->dv == 64 && a->tq == a->tk && !a->mask_rows &&
           a->rows <= 65535 && a->rows > 0;
}

static struct cuda_attention packed_of(const struct kernel_attention *a)
{
    int64_t width = a->heads * a->d;
    return (struct cuda_attention){.batch = (int32_t)(a->rows / a->heads),
                                   .heads = a->heads,
                                   .tokens = (int32_t)a->tq,
                                   .is_causal = a->is_causal != 0,
                                   .scale = a->scale,
                                   .token_stride = 3 * width,
                                   .head_stride = a->d,
                                   .batch_stride = a->tq * 3 * width,
                                   .out_token_stride = width,
                                   .out_head_stride = a->d,
                                   .out_batch_stride = a->tq * width};
}

static struct cuda_attention fast_of(const struct kernel_attention *a)
{
    if (a->heads)
        return packed_of(a);
    return (struct cuda_attention){.batch = (int32_t)a->rows,
                                   .heads = 1,
                                   .tokens = (int32_t)a->tq,
                                   .is_causal = a->is_causal != 0,
                                   .scale = a->scale,
                                   .token_stride = a->d,
                                   .head_stride = a->tq * a->d,
                                   .batch_stride = a->tq * a->d,
                                   .out_token_stride = a->d,
                                   .out_head_stride = a->tq * a->d,
                                   .out_batch_stride = a->tq * a->d};
}

static int64_t slice_of(const struct kernel_attention *a)
{
    int64_t one = a->tq * a->tk * (int64_t)sizeof(float), most = one ? MOST_BYTES / one : 1;
    most = most < 1 ? 1 : most;
    return a->rows < most ? a->rows : most;
}

/* [m, k] [k, n] for every row of a slice; matrices one after the other. */
static struct cuda_product product(int64_t rows, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                                   int dtype, int out_dtype, float alpha)
{
    struct cuda_product p;
    memset(&p, 0, sizeof p);
    p.m = m;
    p.n = n;
    p.k = k;
    p.batch = rows;
    p.a_ld = ta ? m : k;
    p.b_ld = tb ? k : n;
    p.c_ld = n;
    p.a_step = m * k;
    p.b_step = k * n;
    p.c_step = m * n;
    p.is_a_turned = ta;
    p.is_b_turned = tb;
    p.dtype = dtype;
    p.out_dtype = out_dtype;
    p.alpha = alpha;
    p.alignment = (int32_t)cuda_dtype_bytes(dtype);
    return p;
}

/* scores; o = P v. gradient: dP = dO v^T; dv = P^T dO; dq = dS k; dk = dS^T q. */
enum which { SCORES, OUTPUT, TO_P, TO_V, TO_Q, TO_K, PRODUCTS };

static struct cuda_product make(const struct kernel_attention *a, enum which w, int64_t rows,
                                int dtype)
{
    switch (w) {
    case SCORES:
        return product(rows, a->tq, a->tk, a->d, false, true, dtype, KERNEL_F32, a->scale);
    case OUTPUT:
        return product(rows, a->tq, a->dv, a->tk, false, false, dtype, dtype, 1.0f);
    case TO_P:
        return product(rows, a->tq, a->tk, a->dv, false, true, dtype, KERNEL_F32, 1.0f);
    case TO_V:
        return product(rows, a->tk, a->dv, a->tq, true, false, dtype, dtype, 1.0f);
    case TO_Q:
        return product(rows, a->tq, a->d, a->tk, false, false, dtype, dtype, a->scale);
    default:
        return product(rows, a->tk, a->d, a->tq, true, false, dtype, dtype, a->scale);
    }
}

/* Scores in F32, for the gradient dP as well; probabilities and dS in the type of the operands. */
struct space {
    float *scores, *slopes;
    void *low, *low_slopes, *rest;
    size_t bytes;
};

static struct space carve(const struct kernel_attention *a, int dtype, bool is_grad, void *base)
{
    struct space s;
    unsigned char *at = base;
    int64_t n = slice_of(a) * a->tq * a->tk;
    size_t wide = cuda_align((size_t)n * sizeof(float)),
           low = dtype == KERNEL_F32 ? 0 : cuda_align((size_t)n * sizeof(uint16_t)), most = 0;
    for (int w = 0; w < PRODUCTS; w++) {
        struct cuda_product p = make(a, (enum which)w, slice_of(a), dtype);
        size_t bytes = cuda_product_workspace(&p);
        most = bytes > most ? bytes : most;
    }
    s.scores = (float *)(void *)at;
    at += wide;
    s.slopes = (float *)(void *)at;
    at += is_grad ? wide : 0;
    s.low = low ? (void *)at : s.scores;
    at += low;
    s.low_slopes = low ? (void *)at : s.slopes;
    at += is_grad ? low : 0;
    s.rest = at;
    s.bytes = (size_t)(at - (unsigned char *)base) + most;
    return s;
}

/* Bytes of one operand [rows, T, d] that is taken apart: q, k, v, o; gradient: q, k, v, do, dq, dk, dv. */
static size_t part_bytes(const struct kernel_attention *a, int dtype)
{
    return a->heads ? cuda_align((size_t)(a->rows * a->tq * a->d) * cuda_dtype_bytes(dtype)) : 0;
}

size_t cuda_attend_workspace(const struct kernel_attention *a, int dtype, bool is_grad)
{
    unsigned char base[1];
    struct cuda_attention fast = fast_of(a);
    if (is_fast(a, dtype))
        return is_grad ? cuda_attention_grad_workspace(&fast) : 0;
    return carve(a, dtype, is_grad, base).bytes + (is_grad ? 7 : 4) * part_bytes(a, dtype);
}

enum ebb_status cuda_attend_need(struct cuda_products *products, const struct kernel_attention *a,
                                 int dtype, bool is_grad, uint64_t *algorithm,
                                 struct ebb_error *err)
{
    int64_t full = slice_of(a);
    uint64_t hash = 0, one;
    *algorithm = 1; /* our own */
    if (is_fast(a, dtype) || a->rows * a->tq * a->tk == 0)
        return EBB_OK;
    for (int w = 0; w < PRODUCTS; w++)
        for (int rest = 0; rest < 2; rest++) {
            int64_t rows = rest ? a->rows % full : full;
            if (rows == 0 || is_grad == (w == OUTPUT) || (!is_grad && w > OUTPUT))
                continue;
            struct cuda_product p = make(a, (enum which)w, rows, dtype);
            EBB_TRY(cuda_product_need(products, &p, &one, err));
            hash = (hash ^ one) * 0x100000001b3u;
        }
    *algorithm = hash;
    return EBB_OK;
}

static enum ebb_status check(int code, struct ebb_error *err)
{
    return code ? ebb_fail(err, EBB_EDEVICE, "cuda: attention: error %d", code) : EBB_OK;
}

static enum ebb_status multiply(struct cuda_products *products, const struct kernel_attention *a,
                                enum which w, int64_t rows, int dtype, const void *left,
                                const void *right, void *to, void *workspace, struct ebb_error *err)
{
    struct cuda_product p = make(a, w, rows, dtype);
    return cuda_product_run(products, &p, left, right, NULL, NULL, to, workspace, err);
}

/* Part `part` of the packed [B, T, parts, H, d] to or from [B, H, T, d]. */
static enum ebb_status turn(const struct kernel_attention *a, int dtype, int parts, int part,
                            const void *from, void *to, bool is_back, cuda_stream stream,
                            struct ebb_error *err)
{
    struct kernel_nd nd;
    size_t e = cuda_dtype_bytes(dtype);
    int64_t h = a->heads, packed[4] = {a->tq * parts * h * a->d, a->d, parts * h * a->d, 1},
            plain[4] = {h * a->tq * a->d, a->tq * a->d, a->d, 1},
            dims[4] = {a->rows / h, h, a->tq, a->d};
    size_t shift = (size_t)(part * h * a->d) * e;
    memset(&nd, 0, sizeof nd);
    nd.rank = 4;
    for (int k = 0; k < 4; k++) {
        nd.dims[k] = dims[k];
        nd.stride[0][k] = is_back ? packed[k] : plain[k];
        nd.stride[1][k] = is_back ? plain[k] : packed[k];
    }
    return check(cuda_each_copy(&nd, e, (const unsigned char *)from + (is_back ? 0 : shift),
                                (unsigned char *)to + (is_back ? shift : 0), stream),
                 err);
}

/* The call on parts that lie one after the other behind its own workspace, and back. */
static enum ebb_status run_apart(struct cuda_products *products, const struct kernel_attention *a,
                                 const struct kernel_args *args, bool is_grad, cuda_stream stream,
                                 struct ebb_error *err)
{
    int dtype = args->in_dtype[0];
    struct kernel_attention plain = *a;
    struct kernel_args inner = {.workspace = args->workspace, .op = args->op};
    size_t bytes = part_bytes(a, dtype);
    unsigned char *parts =
        (unsigned char *)args->workspace + carve(a, dtype, is_grad, args->workspace).bytes;
    plain.heads = 0;
    for (int p = 0; p < 3; p++) {
        EBB_TRY(turn(a, dtype, 3, p, args->in[0], parts + (size_t)p * bytes, false, stream, err));
        inner.in[p] = parts + (size_t)p * bytes;
    }
    for (int p = 0; p < KERNEL_PORTS; p++)
        inner.in_dtype[p] = inner.out_dtype[p] = (uint8_t)dtype;
    if (!is_grad) {
        inner.out[0] = args->out[0] ? parts + 3 * bytes : NULL;
        inner.out[1] = args->out[1];
        EBB_TRY(cuda_attend_run(products, &plain, &inner, stream, err));
        return args->out[0] ? turn(a, dtype, 1, 0, inner.out[0], args->out[0], true, stream, err)
                            : EBB_OK;
    }
    EBB_TRY(turn(a, dtype, 1, 0, args->in[3], parts + 3 * bytes, false, stream, err));
    inner.in[4] = args->in[2];
    inner.in[5] = parts + 3 * bytes;
    for (int p = 0; p < 3; p++)
        inner.out[p] = parts + (size_t)(4 + p) * bytes;
    EBB_TRY(cuda_attend_grad_run(products, &plain, &inner, stream, err));
    for (int p = 0; p < 3; p++)
        EBB_TRY(turn(a, dtype, 3, p, inner.out[p], args->out[0], true, stream, err));
    return EBB_OK;
}

/* The kernels of attention.cu on a packed x: x, o, lse, do -> dx. */
static int run_packed(const struct kernel_attention *a, const struct kernel_args *args,
                      bool is_grad, cuda_stream stream)
{
    struct cuda_attention fast = packed_of(a);
    const uint16_t *x = args->in[0];
    uint16_t *dx = args->out[0];
    int64_t width = a->heads * a->d;
    if (!is_grad)
        return cuda_attention(&fast, x, x + width, x + 2 * width, args->out[0], args->out[1],
                              stream);
    return cuda_attention_grad(&fast, x, x + width, x + 2 * width, args->in[1], args->in[3],
                               args->in[2], dx, dx + width, dx + 2 * width, args->workspace,
                               stream);
}

/* q, k, v [, mask] -> o, lse */
enum ebb_status cuda_attend_run(struct cuda_products *products, const struct kernel_attention *a,
                                const struct kernel_args *args, cuda_stream stream,
                                struct ebb_error *err)
{
    int dtype = args->in_dtype[0];
    const unsigned char *q = args->in[0], *k = args->in[1], *v = args->in[2];
    unsigned char *o = args->out[0];
    float *lse = args->out[1];
    size_t e = cuda_dtype_bytes(dtype);
    if (a->rows * a->tq * a->tk == 0)
        return EBB_OK;
    if (a->heads)
        return is_fast(a, dtype) ? check(run_packed(a, args, false, stream), err)
                                 : run_apart(products, a, args, false, stream, err);
    if (is_fast(a, dtype)) {
        struct cuda_attention fast = fast_of(a);
        return check(cuda_attention(&fast, q, k, v, o, lse, stream), err);
    }
    struct space s = carve(a, dtype, false, args->workspace);
    for (int64_t at = 0, full = slice_of(a); at < a->rows; at += full) {
        int64_t rows = a->rows - at < full ? a->rows - at : full;
        EBB_TRY(multiply(products, a, SCORES, rows, dtype, q + (size_t)(at * a->tq * a->d) * e,
                         k + (size_t)(at * a->tk * a->d) * e, s.scores, s.rest, err));
        struct cuda_in mask = {args->in[3], args->in_dtype[3]};
        struct cuda_out p = {s.low, dtype};
        EBB_TRY(check(cuda_attend_softmax(a, at, rows, s.scores, mask, p,
                                          lse ? lse + at * a->tq : NULL, stream),
                      err));
        if (o)
            EBB_TRY(multiply(products, a, OUTPUT, rows, dtype, s.low,
                             v + (size_t)(at * a->tk * a->dv) * e,
                             o + (size_t)(at * a->tq * a->dv) * e, s.rest, err));
    }
    return EBB_OK;
}

static void *row_at(void *p, int64_t elements, size_t bytes)
{
    return p ? (unsigned char *)p + (size_t)elements * bytes : NULL;
}

/* q, k, v, o, lse, do [, mask] -> dq, dk, dv */
enum ebb_status cuda_attend_grad_run(struct cuda_products *products,
                                     const struct kernel_attention *a,
                                     const struct kernel_args *args, cuda_stream stream,
                                     struct ebb_error *err)
{
    int dtype = args->in_dtype[0];
    const unsigned char *q = args->in[0], *k = args->in[1], *v = args->in[2], *go = args->in[5];
    const float *lse = args->in[4];
    size_t e = cuda_dtype_bytes(dtype);
    if (a->rows * a->tq * a->tk == 0)
        return EBB_OK;
    if (a->heads)
        return is_fast(a, dtype) ? check(run_packed(a, args, true, stream), err)
                                 : run_apart(products, a, args, true, stream, err);
    if (is_fast(a, dtype)) {
        struct cuda_attention fast = fast_of(a);
        return check(cuda_attention_grad(&fast, q, k, v, args->in[3], go, lse, args->out[0],
                                         args->out[1], args->out[2], args->workspace, stream),
                     err);
    }
    struct space s = carve(a, dtype, true, args->workspace);
    for (int64_t at = 0, full = slice_of(a); at < a->rows; at += full) {
        int64_t rows = a->rows - at < full ? a->rows - at : full;
        const void *q_at = q + (size_t)(at * a->tq * a->d) * e,
                   *k_at = k + (size_t)(at * a->tk * a->d) * e,
                   *v_at = v + (size_t)(at * a->tk * a->dv) * e,
                   *go_at = go + (size_t)(at * a->tq * a->dv) * e;
        struct cuda_in mask = {args->in[6], args->in_dtype[6]};
        struct cuda_out p = {s.low, dtype}, ds = {s.low_slopes, dtype};
        EBB_TRY(multiply(products, a, SCORES, rows, dtype, q_at, k_at, s.scores, s.rest, err));
        EBB_TRY(multiply(products, a, TO_P, rows, dtype, go_at, v_at, s.slopes, s.rest, err));
        EBB_TRY(check(cuda_attend_slopes(a, at, rows, s.scores, s.slopes, mask, lse + at * a->tq, p,
                                         ds, stream),
                      err));
        if (args->out[2])
            EBB_TRY(multiply(products, a, TO_V, rows, dtype, s.low, go_at,
                             row_at(args->out[2], at * a->tk * a->dv, e), s.rest, err));
        if (args->out[0])
            EBB_TRY(multiply(products, a, TO_Q, rows, dtype, s.low_slopes, k_at,
                             row_at(args->out[0], at * a->tq * a->d, e), s.rest, err));
        if (args->out[1])
            EBB_TRY(multiply(products, a, TO_K, rows, dtype, s.low_slopes, q_at,
                             row_at(args->out[1], at * a->tk * a->d, e), s.rest, err));
    }
    return EBB_OK;
}
