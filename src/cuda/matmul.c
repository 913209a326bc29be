/* matmul.c - the family of matrix products: batches merged, biases in the type of the result. */
#include <string.h>

#include "cuda/product.h"

/* Batch dimensions that all three operands cross evenly are one; the others are walked. */
struct batches {
    int rank;
    int64_t dims[KERNEL_RANK], a[KERNEL_RANK], b[KERNEL_RANK], c[KERNEL_RANK];
};

static struct batches batches_of(const struct kernel_matmul *m)
{
    struct batches w = {.rank = 0};
    int64_t step = m->c_dims[m->rank - 1] * m->c_dims[m->rank - 2], c_steps[KERNEL_RANK];
    for (int d = m->rank - 3; d >= 0; d--) {
        c_steps[d] = step;
        step *= m->c_dims[d];
    }
    for (int d = 0; d < m->rank - 2; d++) {
        int64_t n = m->c_dims[d], a = m->a_dims[d] == 1 ? 0 : m->a_strides[d],
                b = m->b_dims[d] == 1 ? 0 : m->b_strides[d];
        int last = w.rank - 1;
        if (n == 1)
            continue;
        if (last >= 0 && w.a[last] == a * n && w.b[last] == b * n && w.c[last] == c_steps[d] * n)
            w.dims[last] *= n;
        else
            w.dims[last = w.rank++] = n;
        w.a[last] = a;
        w.b[last] = b;
        w.c[last] = c_steps[d];
    }
    return w;
}

/* Do all steps keep an alignment of 16 bytes? */
static bool is_even(const struct kernel_matmul *m, const struct batches *w)
{
    int64_t in = (int64_t)cuda_dtype_bytes(m->dtype), out = (int64_t)cuda_dtype_bytes(m->out_dtype);
    bool is = true;
    for (int d = 0; d < w->rank; d++)
        is = is && w->a[d] * in % 16 == 0 && w->b[d] * in % 16 == 0 && w->c[d] * out % 16 == 0;
    return is;
}

/* One call of the library: the last of the batch dimensions in it. */
static struct cuda_product product_of(const struct kernel_matmul *m, const struct batches *w,
                                      bool is_aligned)
{
    struct cuda_product p;
    const int64_t *a = m->a_strides + m->rank - 2, *b = m->b_strides + m->rank - 2;
    memset(&p, 0, sizeof p);
    p.m = m->c_dims[m->rank - 2];
    p.n = m->c_dims[m->rank - 1];
    p.k = m->a_dims[m->rank - 1];
    p.is_a_turned = a[1] != 1;
    p.is_b_turned = b[1] != 1;
    int64_t a_least = p.is_a_turned ? p.m : p.k, b_least = p.is_b_turned ? p.k : p.n;
    p.a_ld = a[p.is_a_turned] > a_least ? a[p.is_a_turned] : a_least;
    p.b_ld = b[p.is_b_turned] > b_least ? b[p.is_b_turned] : b_least;
    p.c_ld = p.n;
    p.batch = 1;
    if (w->rank) {
        p.batch = w->dims[w->rank - 1];
        p.a_step = w->a[w->rank - 1];
        p.b_step = w->b[w->rank - 1];
        p.c_step = w->c[w->rank - 1];
    }
    p.dtype = m->dtype;
    p.out_dtype = m->out_dtype;
    p.has_bias = m->has_bias != 0;
    p.has_relu = m->has_relu != 0;
    /* the library adds what is given in the place of the result as well */
    p.adds = m->adds == KERNEL_ADDS_SUM ? KERNEL_ADDS_OTHER : m->adds;
    p.alpha = 1.0f;
    p.alignment = is_aligned && is_even(m, w) ? 16 : (int32_t)cuda_dtype_bytes(m->dtype);
    return p;
}

static bool is_empty(const struct kernel_matmul *m)
{
    bool is = false;
    for (int d = 0; d < m->rank; d++)
        is = is || m->c_dims[d] == 0;
    return is;
}

static size_t bias_bytes(const struct kernel_matmul *m)
{
    return m->has_bias && m->out_dtype != KERNEL_F32
               ? cuda_align((size_t)m->c_dims[m->rank - 1] * sizeof(uint16_t))
               : 0;
}

size_t cuda_matmul_workspace(const struct kernel_matmul *m)
{
    struct batches w = batches_of(m);
    struct cuda_product p = product_of(m, &w, true);
    return bias_bytes(m) + cuda_product_workspace(&p);
}

enum ebb_status cuda_matmul_need(struct cuda_products *products, const struct kernel_matmul *m,
                                 uint64_t *algorithm, struct ebb_error *err)
{
    struct batches w = batches_of(m);
    struct cuda_product p = product_of(m, &w, true);
    *algorithm = 0;
    return is_empty(m) || p.k == 0 ? EBB_OK : cuda_product_need(products, &p, algorithm, err);
}

enum ebb_status cuda_matmul_run(struct cuda_products *products, const struct kernel_matmul *m,
                                const struct kernel_args *args, cuda_stream stream,
                                struct ebb_error *err)
{
    struct batches w = batches_of(m);
    bool is_aligned = cuda_is_aligned(args->in[0]) && cuda_is_aligned(args->in[1]) &&
                      cuda_is_aligned(args->out[0]) && cuda_is_aligned(args->in[3]);
    struct cuda_product p = product_of(m, &w, is_aligned);
    const unsigned char *a = args->in[0], *b = args->in[1], *r = args->in[3];
    unsigned char *c = args->out[0], *workspace = args->workspace;
    const void *bias = args->in[2];
    int64_t in = (int64_t)cuda_dtype_bytes(m->dtype), out = (int64_t)cuda_dtype_bytes(m->out_dtype);
    int64_t at[KERNEL_RANK] = {0};
    if (is_empty(m))
        return EBB_OK;
    if (p.k == 0)
        return ebb_fail(err, EBB_EUNSUPPORTED, "cuda: a product over no elements");
    if (bias_bytes(m)) {
        struct cuda_out low = {workspace, m->out_dtype};
        int code = cuda_each_convert(p.n, (struct cuda_in){bias, KERNEL_F32}, low, stream);
        if (code)
            return ebb_fail(err, EBB_EDEVICE, "cuda: bias: error %d", code);
        bias = workspace;
        workspace += bias_bytes(m);
    }
    for (;;) {
        int64_t oa = 0, ob = 0, oc = 0;
        int d = w.rank - 2;
        for (int k = 0; k <= d; k++) {
            oa += at[k] * w.a[k];
            ob += at[k] * w.b[k];
            oc += at[k] * w.c[k];
        }
        EBB_TRY(cuda_product_run(products, &p, a + oa * in, b + ob * in, bias,
                                 r ? r + oc * out : NULL, c + oc * out, workspace, err));
        while (d >= 0 && ++at[d] == w.dims[d])
            at[d--] = 0;
        if (d < 0)
            return EBB_OK;
    }
}
