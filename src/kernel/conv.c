/* conv.c - convolutions through oneDNN, algorithm direct or Winograd, layouts chosen by the library
 * from the shape; those of little work, and weight gradients that it has no kernel for, by our own.
 *
 * Operands come and go channel-first; where the primitive wants another layout, the copy is part of
 * this kernel and lives in its workspace. */
#include <omp.h>
#include <string.h>

#include "kernel/context.h"
#include "kernel/conv_depth.h"
#include "kernel/conv_low.h"
#include "kernel/conv_small.h"
#include "kernel/internal.h"

_Static_assert(sizeof(struct kernel_conv) == 8 * sizeof(int32_t) + 22 * sizeof(int64_t),
               "a key has no padding");

struct conv_key {
    char kind[8];
    int64_t threads, pass;
    struct kernel_conv conv;
};

struct shapes {
    int rank, weights_rank;
    bool has_relu;
    dnnl_data_type_t type;
    dnnl_dims_t x, w, y, bias, stride, dilation, pad, pad_after;
};

static void make_key(const struct kernel_context *c, const struct kernel_conv *conv,
                     enum kernel_conv_pass pass, struct conv_key *key)
{
    memset(key, 0, sizeof *key);
    memcpy(key->kind, "conv", 4);
    key->threads = c->head.threads;
    key->pass = (int64_t)pass;
    memcpy(&key->conv, conv, sizeof *conv); /* without padding; what is beyond nd is 0 */
}

static void make_shapes(const struct kernel_conv *conv, struct shapes *s)
{
    int w = 0;
    memset(s, 0, sizeof *s);
    s->rank = conv->nd + 2;
    s->has_relu = conv->has_relu;
    s->type = conv->dtype == KERNEL_BF16 ? dnnl_bf16 : dnnl_f32;
    s->x[0] = s->y[0] = conv->n;
    s->x[1] = conv->ci;
    s->y[1] = conv->co;
    if (conv->groups > 1) {
        s->w[w++] = conv->groups;
        s->w[w++] = conv->co / conv->groups;
        s->w[w++] = conv->ci / conv->groups;
    } else {
        s->w[w++] = conv->co;
        s->w[w++] = conv->ci;
    }
    for (int i = 0; i < conv->nd; i++) {
        s->x[i + 2] = conv->in[i];
        s->y[i + 2] = conv->out[i];
        s->w[w++] = conv->k[i];
        s->stride[i] = conv->stride[i];
        s->dilation[i] = conv->dilation[i] - 1;
        s->pad[i] = conv->pad[i];
        /* what is needed on the right so that oneDNN's own formula gives `out`; may be negative */
        s->pad_after[i] = (conv->out[i] - 1) * conv->stride[i] +
                          conv->dilation[i] * (conv->k[i] - 1) + 1 - conv->in[i] - conv->pad[i];
    }
    s->weights_rank = w;
    s->bias[0] = conv->co;
}

static void plain_md(dnnl_memory_desc_t *md, int rank, const dnnl_dims_t dims,
                     dnnl_data_type_t type)
{
    dnnl_dims_t strides = {0};
    dnnl_dim_t total = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = total;
        total *= dims[i] ? dims[i] : 1;
    }
    dnnl_memory_desc_init_by_strides(md, rank, dims, type, strides);
}

/* Activations: plain, or channels in blocks. */
static void activation_md(dnnl_memory_desc_t *md, int rank, const dnnl_dims_t dims,
                          dnnl_data_type_t type, int block)
{
    static const dnnl_format_tag_t tags[2][3] = {{dnnl_nCw8c, dnnl_nChw8c, dnnl_nCdhw8c},
                                                 {dnnl_nCw16c, dnnl_nChw16c, dnnl_nCdhw16c}};
    if (block)
        dnnl_memory_desc_init_by_tag(md, rank, dims, type, tags[block == 16][rank - 3]);
    else
        plain_md(md, rank, dims, type);
}

/* The block a memory descriptor amounts to: 0 when it is something else. */
static int block_of(const dnnl_memory_desc_t *md, int rank, const dnnl_dims_t dims)
{
    for (int block = 16; block >= 8; block -= 8) {
        dnnl_memory_desc_t want;
        if (dims[1] % block)
            continue;
        activation_md(&want, rank, dims, md->data_type, block);
        if (dnnl_memory_desc_equal(md, &want))
            return block;
    }
    return 0;
}

/* For a backward primitive oneDNN wants a forward one as a hint. */
static dnnl_status_t create_pd(struct kernel_context *c, const struct shapes *s, bool has_bias,
                               bool is_winograd, enum kernel_conv_pass pass, int threads,
                               dnnl_primitive_desc_t *pd)
{
    dnnl_memory_desc_t x, w, y, b, dw;
    dnnl_convolution_desc_t desc, hint_desc;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_alg_kind_t kind = is_winograd ? dnnl_convolution_winograd : dnnl_convolution_direct;
    dnnl_memory_desc_init_by_tag(&x, s->rank, s->x, s->type, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&w, s->weights_rank, s->w, s->type, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&dw, s->weights_rank, s->w, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&y, s->rank, s->y, s->type, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&b, 1, s->bias, dnnl_f32, dnnl_a);
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &hint_desc, dnnl_forward_training, kind, &x, &w, has_bias ? &b : NULL, &y, s->stride,
        s->dilation, s->pad, s->pad_after);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && s->has_relu && pass == KERNEL_CONV_FORWARD)
        status = kernel_dnnl_relu(attr);
    omp_set_num_threads(threads);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&hint, &hint_desc, attr, c->engine, NULL);
    if (status == dnnl_success && pass == KERNEL_CONV_FORWARD) {
        *pd = hint;
        hint = NULL;
    } else if (status == dnnl_success) {
        status =
            pass == KERNEL_CONV_DATA
                ? dnnl_dilated_convolution_backward_data_desc_init(
                      &desc, kind, &x, &w, &y, s->stride, s->dilation, s->pad, s->pad_after)
                : dnnl_dilated_convolution_backward_weights_desc_init(
                      &desc, kind, &x, &dw, NULL, &y, s->stride, s->dilation, s->pad, s->pad_after);
        if (status == dnnl_success)
            status = dnnl_primitive_desc_create(pd, &desc, attr, c->engine, hint);
    }
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return status;
}

static double operand_bytes(const struct shapes *s)
{
    const dnnl_dim_t *dims[3] = {s->x, s->y, s->w};
    double bytes = 0;
    for (int k = 0; k < 3; k++) {
        double n = s->type == dnnl_f32 ? 4 : 2;
        for (int d = 0; d < (k == 2 ? s->weights_rank : s->rank); d++)
            n *= (double)dims[k][d];
        bytes += n;
    }
    return bytes;
}

/* Weight gradients sum or transpose apart in every thread. Where that takes far more than one thread and
 * the operands do, fewer threads work: these are kernels that are bound by those bytes. */
static dnnl_status_t create_lean(struct kernel_context *c, const struct shapes *s, bool has_bias,
                                 bool is_winograd, enum kernel_conv_pass pass, int *threads,
                                 dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_desc_t one;
    *threads = c->head.threads;
    dnnl_status_t status = create_pd(c, s, has_bias, is_winograd, pass, *threads, pd);
    if (status != dnnl_success || *threads == 1 || kernel_dnnl_scratch(*pd) <= KERNEL_SCRATCH)
        return status;
    status = create_pd(c, s, has_bias, is_winograd, pass, 1, &one);
    double most = 0, more = 2 * operand_bytes(s);
    if (status == dnnl_success) {
        most = (double)kernel_dnnl_scratch(one) + (more > KERNEL_SCRATCH ? more : KERNEL_SCRATCH);
        dnnl_primitive_desc_destroy(one);
    }
    while (status == dnnl_success && *threads > 1 && (double)kernel_dnnl_scratch(*pd) > most) {
        dnnl_primitive_desc_destroy(*pd);
        *threads /= 2;
        status = create_pd(c, s, has_bias, is_winograd, pass, *threads, pd);
    }
    return status;
}

/* A weight gradient for which the library would unfold the pictures. */
static bool is_depth(const struct kernel_conv *conv, enum kernel_conv_pass pass,
                     const_dnnl_primitive_desc_t pd)
{
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return pass == KERNEL_CONV_WEIGHTS && kernel_conv_is_depth(conv) &&
           (strstr(name, "gemm") || strstr(name, "ref"));
}

static enum ebb_status create(struct kernel_context *c, const struct kernel_conv *conv,
                              enum kernel_conv_pass pass, const struct conv_key *key,
                              struct kernel_primitive **p, struct ebb_error *err)
{
    static const struct kernel_plain roles[3][2] = {
        {{.argument = DNNL_ARG_SRC, .query = dnnl_query_src_md},
         {.argument = DNNL_ARG_WEIGHTS, .query = dnnl_query_weights_md}},
        {{.argument = DNNL_ARG_DIFF_DST, .query = dnnl_query_diff_dst_md},
         {.argument = DNNL_ARG_WEIGHTS, .query = dnnl_query_weights_md}},
        {{.argument = DNNL_ARG_SRC, .query = dnnl_query_src_md},
         {.argument = DNNL_ARG_DIFF_DST, .query = dnnl_query_diff_dst_md}},
    };
    static const struct kernel_plain results[3] = {
        {.argument = DNNL_ARG_DST, .query = dnnl_query_dst_md, .is_output = 1},
        {.argument = DNNL_ARG_DIFF_SRC, .query = dnnl_query_diff_src_md, .is_output = 1},
        {.argument = DNNL_ARG_DIFF_WEIGHTS, .query = dnnl_query_diff_weights_md, .is_output = 1},
    };
    struct shapes s;
    struct kernel_plain plain[4];
    dnnl_primitive_desc_t pd;
    make_shapes(conv, &s);
    memset(plain, 0, sizeof plain);
    plain[0] = roles[pass][0];
    plain[1] = roles[pass][1];
    plain[3] = results[pass];
    bool has_bias = conv->has_bias && pass == KERNEL_CONV_FORWARD;
    if (has_bias)
        plain[2] = (struct kernel_plain){
            .argument = DNNL_ARG_BIAS, .query = dnnl_query_weights_md, .query_index = 1};
    activation_md(&plain[0].md, s.rank, pass == KERNEL_CONV_DATA ? s.y : s.x, s.type,
                  pass == KERNEL_CONV_DATA ? conv->y_block : conv->x_block);
    if (pass == KERNEL_CONV_WEIGHTS)
        activation_md(&plain[1].md, s.rank, s.y, s.type, conv->y_block);
    else
        plain_md(&plain[1].md, s.weights_rank, s.w, s.type);
    plain_md(&plain[2].md, 1, s.bias, dnnl_f32);
    if (pass == KERNEL_CONV_WEIGHTS)
        plain_md(&plain[3].md, s.weights_rank, s.w, dnnl_f32);
    else
        activation_md(&plain[3].md, s.rank, pass == KERNEL_CONV_FORWARD ? s.y : s.x, s.type,
                      pass == KERNEL_CONV_FORWARD ? conv->y_block : conv->x_block);
    int threads;
    dnnl_status_t made = create_lean(c, &s, has_bias, conv->is_winograd, pass, &threads, &pd);
    if (made == dnnl_unimplemented && conv->is_winograd) /* a piece with other edges */
        made = create_lean(c, &s, has_bias, false, pass, &threads, &pd);
    EBB_TRY(kernel_dnnl_check(made, "convolution", err));
    bool is_own = is_depth(conv, pass, pd);
    enum ebb_status status =
        kernel_dnnl_add(c, key, sizeof *key, is_own ? NULL : pd, plain, 4, p, err);
    dnnl_primitive_desc_destroy(pd);
    if (status == EBB_OK)
        (*p)->threads = threads;
    if (status == EBB_OK && is_own)
        (*p)->workspace_bytes = kernel_conv_depth_workspace(c, conv);
    return status;
}

static enum ebb_status get(struct kernel_context *c, const struct kernel_conv *conv,
                           enum kernel_conv_pass pass, struct kernel_primitive **p,
                           struct ebb_error *err)
{
    struct conv_key key;
    make_key(c, conv, pass, &key);
    *p = kernel_dnnl_find(c, &key, sizeof key);
    return *p ? EBB_OK : create(c, conv, pass, &key, p, err);
}

static bool is_winograd_shape(const struct kernel_conv *v)
{
    /* below 32 channels it gains nothing, and others than whole blocks would be padded */
    bool fits = v->nd == 2 && v->groups == 1 && v->dtype == KERNEL_F32 && v->ci >= 32 &&
                v->co >= 32 && v->ci % 16 == 0 && v->co % 16 == 0;
    for (int d = 0; fits && d < 2; d++)
        fits = v->k[d] == 3 && v->stride[d] == 1 && v->dilation[d] == 1;
    return fits;
}

/* A Winograd descriptor whose scratch is no more than so many bytes; NULL otherwise. */
static dnnl_primitive_desc_t try_winograd(struct kernel_context *c, const struct kernel_conv *v,
                                          bool has_bias, enum kernel_conv_pass pass, double most)
{
    dnnl_primitive_desc_t pd;
    struct shapes s;
    make_shapes(v, &s);
    if (!is_winograd_shape(v) ||
        create_pd(c, &s, has_bias, true, pass, c->head.threads, &pd) != dnnl_success)
        return NULL;
    if ((double)kernel_dnnl_scratch(pd) <= most)
        return pd;
    dnnl_primitive_desc_destroy(pd);
    return NULL;
}

/* What it may take: the bytes of the operands; a piece no more than the whole in float32 does. */
static dnnl_primitive_desc_t find_winograd(struct kernel_context *c, const struct kernel_conv *v,
                                           const struct kernel_conv *piece, bool has_bias,
                                           enum kernel_conv_pass pass)
{
    struct kernel_conv whole = *v;
    struct shapes s;
    whole.dtype = piece->dtype;
    make_shapes(&whole, &s);
    dnnl_primitive_desc_t pd = try_winograd(c, &whole, has_bias, pass, operand_bytes(&s));
    if (!pd || piece == v)
        return pd;
    double most = (double)kernel_dnnl_scratch(pd);
    dnnl_primitive_desc_destroy(pd);
    return try_winograd(c, piece, has_bias, pass, most);
}

/* Of a convolution, or of the first piece of one that is made in pieces. */
static enum ebb_status find_choice(struct kernel_context *c, const struct kernel_conv *conv,
                                   enum kernel_conv_pass pass, bool may_winograd, int choice[3],
                                   struct ebb_error *err)
{
    static const dnnl_query_t queries[3][2] = {
        {dnnl_query_src_md, dnnl_query_dst_md},
        {dnnl_query_diff_src_md, dnnl_query_diff_dst_md},
        {dnnl_query_src_md, dnnl_query_diff_dst_md},
    };
    bool is_low = kernel_conv_is_low(conv),
         has_bias = conv->has_bias && pass == KERNEL_CONV_FORWARD;
    struct kernel_conv first, like = *conv;
    const struct kernel_conv *piece = is_low ? &first : conv;
    struct shapes s;
    like.is_winograd = may_winograd;
    if (is_low)
        kernel_conv_low_first(&like, pass, &first);
    dnnl_primitive_desc_t pd = may_winograd ? find_winograd(c, conv, piece, has_bias, pass) : NULL;
    choice[2] = like.is_winograd = pd != NULL;
    if (is_low)
        kernel_conv_low_first(&like, pass, &first);
    make_shapes(piece, &s);
    if (!pd)
        EBB_TRY(kernel_dnnl_check(create_pd(c, &s, has_bias, false, pass, c->head.threads, &pd),
                                  "convolution", err));
    choice[0] = block_of(dnnl_primitive_desc_query_md(pd, queries[pass][0], 0), s.rank, s.x);
    choice[1] = block_of(dnnl_primitive_desc_query_md(pd, queries[pass][1], 0), s.rank, s.y);
    bool is_own = is_depth(piece, pass, pd);
    dnnl_primitive_desc_destroy(pd);
    if (is_own) { /* as forward has them */
        struct kernel_conv forward = *conv;
        EBB_TRY(kernel_conv_choose(c, &forward, KERNEL_CONV_FORWARD, false, err));
        choice[0] = choice[1] = forward.x_block == forward.y_block ? forward.x_block : 0;
    }
    if (choice[0] && conv->ci % choice[0])
        choice[0] = 0;
    if (choice[1] && conv->co % choice[1])
        choice[1] = 0;
    return EBB_OK;
}

enum ebb_status kernel_conv_choose(struct kernel_context *c, struct kernel_conv *conv,
                                   enum kernel_conv_pass pass, bool may_winograd,
                                   struct ebb_error *err)
{
    struct conv_key key;
    conv->x_block = conv->y_block = conv->is_winograd = 0;
    if (!c || conv->is_small)
        return EBB_OK;
    make_key(c, conv, pass, &key);
    memcpy(key.kind, may_winograd ? "choice+" : "choice", may_winograd ? 7 : 6);
    const struct kernel_primitive *p = kernel_dnnl_find(c, &key, sizeof key);
    if (!p) {
        int choice[3];
        EBB_TRY(find_choice(c, conv, pass, may_winograd, choice, err));
        EBB_TRY(kernel_dnnl_add_choice(c, &key, sizeof key, choice, err));
        p = kernel_dnnl_find(c, &key, sizeof key);
    }
    conv->x_block = p->choice[0];
    conv->y_block = p->choice[1];
    conv->is_winograd = p->choice[2];
    return EBB_OK;
}

enum ebb_status kernel_conv_prepare(struct kernel_context *c, const struct kernel_conv *conv,
                                    enum kernel_conv_pass pass, size_t *bytes,
                                    struct ebb_error *err)
{
    struct kernel_primitive *p;
    EBB_TRY(get(c, conv, pass, &p, err));
    *bytes = p->workspace_bytes;
    return EBB_OK;
}

enum ebb_status kernel_conv_run(struct kernel_context *c, const struct kernel_conv *conv,
                                enum kernel_conv_pass pass, const void *a, const void *b,
                                const void *bias, void *out, void *workspace, struct ebb_error *err)
{
    struct kernel_primitive *p;
    const void *in[3] = {a, b, bias};
    void *pointer[4];
    EBB_TRY(get(c, conv, pass, &p, err));
    if (!p->primitive) {
        kernel_conv_depth(c, conv, a, b, out, workspace);
        return EBB_OK;
    }
    memcpy(pointer, in, sizeof in); /* not written through */
    pointer[3] = out;
    return kernel_dnnl_run(c, p, pointer, workspace, err);
}

KERNEL_NEED(conv)
{
    const struct kernel_conv_desc *d = desc;
    enum kernel_conv_pass pass = (enum kernel_conv_pass)d->pass;
    size_t bytes = 0;
    if (!c) /* a trace without kernels */
        return EBB_OK;
    if (d->conv.is_small)
        bytes = kernel_conv_small_workspace(&d->conv, pass);
    else if (kernel_conv_is_low(&d->conv))
        EBB_TRY(kernel_conv_low_need(c, &d->conv, pass, &bytes, err));
    else
        EBB_TRY(kernel_conv_prepare(c, &d->conv, pass, &bytes, err));
    need->workspace_bytes = bytes;
    return EBB_OK;
}

KERNEL_CPU(conv)
{
    const struct kernel_conv_desc *d = desc;
    enum kernel_conv_pass pass = (enum kernel_conv_pass)d->pass;
    if (d->conv.is_small) {
        kernel_conv_small(c, &d->conv, pass, args->in[0], args->in[1], args->in[2], args->out[0],
                          args->workspace);
        return EBB_OK;
    }
    if (kernel_conv_is_low(&d->conv))
        return kernel_conv_low(c, &d->conv, pass, args->in[0], args->in[1], args->in[2],
                               args->out[0], args->workspace, err);
    return kernel_conv_run(c, &d->conv, pass, args->in[0], args->in[1], args->in[2], args->out[0],
                           args->workspace, err);
}
