/* matmul.c - batched matrix products through oneDNN. Transposition is a matter of strides.
 *
 * oneDNN's blocked kernels keep to the scratchpad they are given. Its other implementation packs
 * into memory of its own; it is left to large products that nothing else covers, small ones are
 * done in matmul_own.c. Where it does not pack, lines that lie multiples of 2 KiB apart drive each other
 * from the caches: such operands are copied into lines that are a little longer. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernel/context.h"
#include "kernel/internal.h"

struct matmul_key {
    char kind[8];
    int64_t threads;
    struct kernel_matmul m;
};

static dnnl_data_type_t data_type(int32_t dtype)
{
    return dtype == KERNEL_BF16 ? dnnl_bf16 : dtype == KERNEL_F16 ? dnnl_f16 : dnnl_f32;
}

static void make_key(const struct kernel_context *c, const struct kernel_matmul *m,
                     struct matmul_key *key)
{
    memset(key, 0, sizeof *key); /* padding and unused dimensions count as zero */
    memcpy(key->kind, "matmul", 6);
    key->threads = c->head.threads;
    key->m.dtype = m->dtype;
    key->m.out_dtype = m->out_dtype;
    key->m.rank = m->rank;
    key->m.has_bias = m->has_bias;
    key->m.adds = m->adds;
    key->m.has_relu = m->has_relu;
    for (int i = 0; i < m->rank; i++) {
        key->m.a_dims[i] = m->a_dims[i];
        key->m.a_strides[i] = m->a_strides[i];
        key->m.b_dims[i] = m->b_dims[i];
        key->m.b_strides[i] = m->b_strides[i];
        key->m.c_dims[i] = m->c_dims[i];
    }
}

static bool is_empty(const struct kernel_matmul *m)
{
    for (int i = 0; i < m->rank; i++)
        if (m->c_dims[i] == 0 || m->a_dims[i] == 0 || m->b_dims[i] == 0)
            return true;
    return false;
}

/* ---- small ones ------------------------------------------------------------------------------ */

#define OWN_FLOPS 4e6 /* beyond this a loop of our own is not worth it */

static bool is_blocked(const_dnnl_primitive_desc_t pd)
{
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return strncmp(name, "brg", 3) == 0;
}

static double flops(const struct kernel_matmul *m)
{
    double n = 2.0 * (double)m->a_dims[m->rank - 1];
    for (int d = 0; d < m->rank; d++)
        n *= (double)m->c_dims[d];
    return n;
}

/* One or two terms are ours everywhere: the library takes them to the result in patches. */
static bool is_own(const struct kernel_matmul *m, const_dnnl_primitive_desc_t pd)
{
    bool is_thin = kernel_matmul_is_thin(m);
    if (is_thin && (m->a_dims[1] <= 2 || !is_blocked(pd)))
        return true;
    return m->dtype == KERNEL_F32 && m->out_dtype == KERNEL_F32 && flops(m) <= OWN_FLOPS &&
           !is_blocked(pd);
}

#define ALONE_FLOPS 5e5  /* some microseconds: other threads are not worth calling */
#define ALONE_DEPTH 1024 /* longer sums oneDNN may divide among threads: other bits */

static int threads_of(const struct kernel_context *c, const struct kernel_matmul *m)
{
    bool is_alone = flops(m) <= ALONE_FLOPS && m->a_dims[m->rank - 1] <= ALONE_DEPTH;
    return is_alone ? 1 : c->head.threads;
}

/* ---- steep operands -------------------------------------------------------------------------- */

#define STEEP 512           /* floats from term to term, or a multiple */
#define STEEP_MORE 16       /* of the lines they are copied into */
#define STEEP_LEAST 32      /* so often an element must be used */
#define STEEP_BYTES 4194304 /* of both copies; the sums of longer ones are cut */

/* What oneDNN multiplies where it lies, on processors without AVX-512. */
static bool is_narrow(const struct kernel_matmul *m)
{
    int64_t rows = m->c_dims[0], columns = m->c_dims[1];
    int64_t less = kernel_min(rows, columns), more = kernel_max(rows, columns);
    return m->rank == 2 && m->dtype == KERNEL_F32 && m->out_dtype == KERNEL_F32 && !m->has_relu &&
           (less <= 256 || more <= 512) && less >= STEEP_LEAST && flops(m) > OWN_FLOPS;
}

static bool is_steep_a(const struct kernel_context *c, const struct kernel_matmul *m)
{
    return !c->has_blocks && m->a_strides[1] != 1 && m->a_strides[1] % STEEP == 0 && is_narrow(m);
}

static bool is_steep_b(const struct kernel_context *c, const struct kernel_matmul *m)
{
    return !c->has_blocks && m->b_strides[0] != 1 && m->b_strides[0] % STEEP == 0 && is_narrow(m);
}

/* So many terms of every sum have copies of that size. */
static int64_t steep_depth(const struct kernel_context *c, const struct kernel_matmul *m)
{
    int64_t all = m->a_dims[m->rank - 1], line = 0;
    if (is_steep_a(c, m))
        line += m->c_dims[0] + STEEP_MORE;
    if (is_steep_b(c, m))
        line += m->c_dims[1] + STEEP_MORE;
    int64_t most = line ? STEEP_BYTES / (int64_t)sizeof(float) / line / 16 * 16 : all;
    return kernel_min(all, kernel_max(most, 16));
}

/* ---- oneDNN's -------------------------------------------------------------------------------- */

/* The operands as they lie, and a descriptor. */
static enum ebb_status describe(struct kernel_context *c, const struct kernel_matmul *m,
                                int threads, struct kernel_plain plain[4],
                                dnnl_primitive_desc_t *pd, struct ebb_error *err)
{
    dnnl_dims_t strides, one, bias_dims, a_dims, a_strides, b_dims, b_strides, c_dims;
    int64_t total = 1;
    for (int i = m->rank - 1; i >= 0; i--) {
        strides[i] = total;
        total *= m->c_dims[i];
        bias_dims[i] = i == m->rank - 1 ? m->c_dims[i] : 1;
        one[i] = i == m->rank - 1 ? 1 : m->c_dims[m->rank - 1];
        a_dims[i] = m->a_dims[i];
        a_strides[i] = m->a_strides[i];
        b_dims[i] = m->b_dims[i];
        b_strides[i] = m->b_strides[i];
        c_dims[i] = m->c_dims[i];
    }
    plain[0] = (struct kernel_plain){.argument = DNNL_ARG_SRC, .query = dnnl_query_src_md};
    plain[1] = (struct kernel_plain){.argument = DNNL_ARG_WEIGHTS, .query = dnnl_query_weights_md};
    plain[2] = (struct kernel_plain){.argument = m->has_bias ? DNNL_ARG_BIAS : 0,
                                     .query = dnnl_query_weights_md,
                                     .query_index = 1};
    plain[3] =
        (struct kernel_plain){.argument = DNNL_ARG_DST, .query = dnnl_query_dst_md, .is_output = 1};
    dnnl_data_type_t in = data_type(m->dtype), out = data_type(m->out_dtype);
    dnnl_memory_desc_init_by_strides(&plain[0].md, m->rank, a_dims, in, a_strides);
    dnnl_memory_desc_init_by_strides(&plain[1].md, m->rank, b_dims, in, b_strides);
    dnnl_memory_desc_init_by_strides(&plain[2].md, m->rank, bias_dims, dnnl_f32, one);
    dnnl_memory_desc_init_by_strides(&plain[3].md, m->rank, c_dims, out, strides);
    dnnl_memory_desc_t a = plain[0].md, b = plain[1].md;
    if (is_steep_a(c, m))
        dnnl_memory_desc_init_by_strides(&a, 2, a_dims, in,
                                         (dnnl_dims_t){1, a_dims[0] + STEEP_MORE});
    if (is_steep_b(c, m))
        dnnl_memory_desc_init_by_strides(&b, 2, b_dims, in,
                                         (dnnl_dims_t){b_dims[1] + STEEP_MORE, 1});
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr;
    EBB_TRY(kernel_dnnl_check(
        dnnl_matmul_desc_init(&desc, &a, &b, m->has_bias ? &plain[2].md : NULL, &plain[3].md),
        "matmul", err));
    EBB_TRY(kernel_dnnl_check(dnnl_primitive_attr_create(&attr), "attributes", err));
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    dnnl_post_ops_t sum = NULL;
    if (m->adds && dnnl_post_ops_create(&sum) == dnnl_success) {
        dnnl_post_ops_append_sum(sum, 1.0f);
        dnnl_primitive_attr_set_post_ops(attr, sum);
        dnnl_post_ops_destroy(sum);
    }
    if (m->has_relu)
        kernel_dnnl_relu(attr);
    omp_set_num_threads(threads);
    dnnl_status_t status = dnnl_primitive_desc_create(pd, &desc, attr, c->engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    return kernel_dnnl_check(status, "matmul", err);
}

static enum ebb_status create(struct kernel_context *c, const struct kernel_matmul *m,
                              const struct matmul_key *key, struct kernel_primitive **p,
                              struct ebb_error *err)
{
    struct kernel_plain plain[4];
    dnnl_primitive_desc_t pd;
    int threads = threads_of(c, m);
    EBB_TRY(describe(c, m, threads, plain, &pd, err));
    enum ebb_status result =
        kernel_dnnl_add(c, key, sizeof *key, is_own(m, pd) ? NULL : pd, plain, 4, p, err);
    dnnl_primitive_desc_destroy(pd);
    if (result == EBB_OK)
        (*p)->threads = threads;
    return result;
}

static enum ebb_status get(struct kernel_context *c, const struct kernel_matmul *m,
                           struct kernel_primitive **p, struct ebb_error *err)
{
    struct matmul_key key;
    make_key(c, m, &key);
    *p = kernel_dnnl_find(c, &key, sizeof key);
    return *p ? EBB_OK : create(c, m, &key, p, err);
}

/* ---- in parts -------------------------------------------------------------------------------- */

#define LEAST_DEPTH 64 /* of a part */

/* Terms first .. first + depth - 1 of every sum; the bias comes with the first. */
static struct kernel_matmul part_of(const struct kernel_matmul *m, int64_t first, int64_t depth)
{
    struct kernel_matmul part = *m;
    part.a_dims[m->rank - 1] = part.b_dims[m->rank - 2] = depth;
    part.has_bias = m->has_bias && first == 0;
    part.adds = first == 0 ? m->adds : KERNEL_ADDS_ITSELF;
    return part;
}

/* Of one that keeps to the scratchpad it is given; else infinite. */
static enum ebb_status scratch_of(struct kernel_context *c, const struct kernel_matmul *m,
                                  int threads, double *bytes, struct ebb_error *err)
{
    struct kernel_plain plain[4];
    dnnl_primitive_desc_t pd;
    EBB_TRY(describe(c, m, threads, plain, &pd, err));
    *bytes = is_blocked(pd) ? (double)kernel_dnnl_scratch(pd) : INFINITY;
    dnnl_primitive_desc_destroy(pd);
    return EBB_OK;
}

/* With many threads oneDNN gives parts of long sums to different ones, each with a copy of the result.
 * Where those are large, the parts come one after the other and are added in the result, by all
 * threads. How long they are depends on shapes and threads alone. */
static enum ebb_status choose_depth(struct kernel_context *c, const struct kernel_matmul *m,
                                    int64_t *depth, struct ebb_error *err)
{
    double all, one;
    *depth = m->a_dims[m->rank - 1];
    if (m->out_dtype != KERNEL_F32 || m->has_relu || m->rank != 2)
        return EBB_OK;
    EBB_TRY(scratch_of(c, m, c->head.threads, &all, err));
    if (all <= (double)KERNEL_SCRATCH || all == INFINITY)
        return EBB_OK;
    EBB_TRY(scratch_of(c, m, 1, &one, err));
    for (int64_t less = *depth; all > one + (double)KERNEL_SCRATCH && less / 2 >= LEAST_DEPTH;) {
        double bytes;
        less = (less / 2 + 15) / 16 * 16;
        struct kernel_matmul part = part_of(m, 0, less);
        EBB_TRY(scratch_of(c, &part, c->head.threads, &bytes, err));
        if (bytes < all) {
            all = bytes;
            *depth = less;
        }
    }
    return EBB_OK;
}

/* How many terms of its sums are added together; all, unless that took much. */
static enum ebb_status get_depth(struct kernel_context *c, const struct kernel_matmul *m,
                                 int64_t *depth, struct ebb_error *err)
{
    struct matmul_key key;
    *depth = steep_depth(c, m);
    if (c->head.threads <= 2) /* one copy more at most */
        return EBB_OK;
    make_key(c, m, &key);
    memcpy(key.kind, "depth", 6);
    const struct kernel_primitive *known = kernel_dnnl_find(c, &key, sizeof key);
    if (known) {
        *depth = known->choice[0];
        return EBB_OK;
    }
    struct kernel_matmul part = part_of(m, 0, *depth);
    EBB_TRY(choose_depth(c, &part, depth, err));
    return kernel_dnnl_add_choice(c, &key, sizeof key, (int[3]){(int)*depth}, err);
}

enum ebb_status kernel_matmul_prepare(struct kernel_context *c, const struct kernel_matmul *m,
                                      size_t *workspace_bytes, struct ebb_error *err)
{
    struct kernel_primitive *p;
    int64_t depth, all = m->a_dims[m->rank - 1];
    *workspace_bytes = 0;
    if (!c || is_empty(m)) /* no context: a trace without kernels */
        return EBB_OK;
    EBB_TRY(get_depth(c, m, &depth, err));
    for (int64_t k = 0; k < all; k += depth) {
        struct kernel_matmul part = part_of(m, k, kernel_min(depth, all - k));
        EBB_TRY(get(c, &part, &p, err));
        if (p->workspace_bytes > *workspace_bytes)
            *workspace_bytes = p->workspace_bytes;
    }
    return EBB_OK;
}

/* Nothing to multiply: zeros, or the bias. */
static void run_empty(const struct kernel_matmul *m, const float *bias, void *out)
{
    int64_t n = 1, last = m->c_dims[m->rank - 1];
    for (int i = 0; i < m->rank; i++)
        n *= m->c_dims[i];
    if (m->adds)
        return;
    if (m->out_dtype != KERNEL_F32) {
        memset(out, 0, (size_t)n * 2);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        ((float *)out)[i] = bias && !(m->has_relu && bias[i % last] < 0.0f) ? bias[i % last] : 0.0f;
}

static enum ebb_status run_part(struct kernel_context *c, const struct kernel_matmul *m,
                                const void *a, const void *b, const void *bias, void *out,
                                void *workspace, struct ebb_error *err)
{
    struct kernel_primitive *p;
    EBB_TRY(get(c, m, &p, err));
    if (!p->primitive) {
        kernel_matmul_own(c, m, a, b, bias, out);
        return EBB_OK;
    }
    /* oneDNN takes inputs through the same non-const handle type; it does not write them. */
    void *pointer[4];
    memcpy(&pointer[0], &a, sizeof a);
    memcpy(&pointer[1], &b, sizeof b);
    memcpy(&pointer[2], &bias, sizeof bias);
    pointer[3] = out;
    return kernel_dnnl_run(c, p, pointer, workspace, err);
}

enum ebb_status kernel_matmul_run(struct kernel_context *c, const struct kernel_matmul *m,
                                  const void *a, const void *b, const void *bias, void *out,
                                  void *workspace, struct ebb_error *err)
{
    int64_t depth, all = m->a_dims[m->rank - 1], bytes = m->dtype == KERNEL_F32 ? 4 : 2;
    if (is_empty(m)) {
        run_empty(m, bias, out);
        return EBB_OK;
    }
    EBB_TRY(get_depth(c, m, &depth, err));
    for (int64_t k = 0; k < all; k += depth) {
        struct kernel_matmul part = part_of(m, k, kernel_min(depth, all - k));
        EBB_TRY(run_part(c, &part, (const char *)a + k * m->a_strides[m->rank - 1] * bytes,
                         (const char *)b + k * m->b_strides[m->rank - 2] * bytes, bias, out,
                         workspace, err));
    }
    return EBB_OK;
}

/* What is given beside is added behind the product: the bits of both ops, one after the other. A sum is
 * brought to where the result will be, and the product adds to it. */
static struct kernel_matmul alone(const struct kernel_matmul *m)
{
    struct kernel_matmul product = *m;
    if (m->adds == KERNEL_ADDS_OTHER)
        product.adds = KERNEL_ADDS_NOTHING;
    if (m->adds == KERNEL_ADDS_SUM)
        product.adds = KERNEL_ADDS_ITSELF;
    return product;
}

struct add_job {
    const float *r;
    float *c;
};

KERNEL_CLONES static void add_other(void *argument, int64_t first, int64_t last)
{
    const struct add_job *j = argument;
    const float *restrict r = j->r;
    float *restrict c = j->c;
    for (int64_t i = first; i < last; i++)
        c[i] += r[i];
}

static void copy_other(void *argument, int64_t first, int64_t last)
{
    const struct add_job *j = argument;
    memcpy(j->c + first, j->r + first, (size_t)(last - first) * sizeof *j->c);
}

KERNEL_NEED(matmul)
{
    struct kernel_matmul m = alone(desc);
    size_t bytes = 0;
    if (!kernel_matmul_is_low(&m))
        EBB_TRY(kernel_matmul_prepare(c, &m, &bytes, err));
    else if (c)
        EBB_TRY(kernel_matmul_low_need(c, &m, &bytes, err));
    need->workspace_bytes = bytes;
    return EBB_OK;
}

KERNEL_CPU(matmul)
{
    const struct kernel_matmul *d = desc;
    struct kernel_matmul m = alone(d);
    struct add_job job = {args->in[3], args->out[0]};
    int64_t n = 1;
    for (int i = 0; i < d->rank; i++)
        n *= d->c_dims[i];
    if (d->adds == KERNEL_ADDS_SUM && job.r != job.c)
        EBB_TRY(kernel_parallel(c, n, 1, copy_other, &job));
    if (kernel_matmul_is_low(&m))
        return kernel_matmul_low(c, &m, args->in[0], args->in[1], args->in[2], args->out[0],
                                 args->workspace, err);
    EBB_TRY(kernel_matmul_run(c, &m, args->in[0], args->in[1], args->in[2], args->out[0],
                              args->workspace, err));
    return d->adds == KERNEL_ADDS_OTHER ? kernel_parallel(c, n, 1, add_other, &job) : EBB_OK;
}
