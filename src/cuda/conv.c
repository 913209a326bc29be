/* conv.c - convolutions: channels-last by cuDNN, small ones and what it has no engine for by a kernel of our own.
 *
 * The library wants filters with channels last; ours have them first, so they are turned in the workspace (1 x 1 filters are
 * the same either way). Gradients of BF16 filters come as BF16 (its engines for F32 results are slow) and are widened.
 *
 * With the three channels of a picture its engines are slow: such images stay plain and are folded in the workspace
 * (image.cu), squares of as many pixels as the stride becoming channels, and the convolution is one of stride 1. The first
 * one of ResNet-50 takes 0.66 ms instead of 1.76. The layouts say so: x plain, y with channels last. */
#include <string.h>

#include "base/heap.h"
#include "cuda/dnn.h"
#include "cuda/table.h"

struct cuda_convolutions {
    struct cuda_dnn *dnn;
};

void cuda_conv_close(struct kernel_context *c)
{
    if (!c->convolutions)
        return;
    cuda_dnn_close(c->convolutions->dnn);
    ebb_free(c->convolutions);
    c->convolutions = NULL;
}

static enum ebb_status library(struct kernel_context *c, struct cuda_dnn **dnn,
                               struct ebb_error *err)
{
    if (!c->convolutions) {
        struct cuda_convolutions *s;
        EBB_TRY(ebb_new(&s, 1, sizeof *s, err));
        enum ebb_status status = cuda_dnn_open(&s->dnn, c->profile, c->stream, err);
        if (status != EBB_OK) {
            ebb_free(s);
            return status;
        }
        c->convolutions = s;
    }
    *dnn = c->convolutions->dnn;
    return EBB_OK;
}

/* Whether the image is worth folding; never towards data. */
static bool can_fold(const struct kernel_conv *v, enum kernel_conv_pass pass)
{
    return pass != KERNEL_CONV_DATA && v->dtype == KERNEL_BF16 && v->nd == 2 && v->groups == 1 &&
           v->ci <= 4 && v->co % 8 == 0 && v->dilation[0] == 1 && v->dilation[1] == 1 &&
           v->stride[0] == v->stride[1] && v->stride[0] <= 2 && v->n <= 65535 &&
           v->out[0] + v->k[0] <= 65535 && v->in[0] % v->stride[0] == 0 &&
           v->in[1] % v->stride[1] == 0;
}

enum ebb_status cuda_conv_choose(struct kernel_context *c, struct kernel_conv *conv,
                                 enum kernel_conv_pass pass, bool may_winograd,
                                 struct ebb_error *err)
{
    (void)c, (void)may_winograd, (void)err;
    conv->is_winograd = 0;
    conv->x_block = conv->y_block = 0;
    if (!conv->is_small && conv->nd >= 2 && conv->ci <= CUDA_MOST_BLOCK &&
        conv->co <= CUDA_MOST_BLOCK) {
        conv->x_block = can_fold(conv, pass) ? 0 : (int32_t)conv->ci;
        conv->y_block = (int32_t)conv->co;
    }
    return EBB_OK;
}

/* ---- as the library sees it ------------------------------------------------------------------------ */

static int64_t count_of(const int64_t *dims, int rank)
{
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        n *= dims[d];
    return n;
}

/* Steps of [n, c, spatial...], plain or with channels last. */
static void steps_of(const int64_t *dims, int rank, bool is_last, int64_t *steps)
{
    int64_t step = is_last ? dims[1] : 1;
    for (int d = rank - 1; d >= 2; d--) {
        steps[d] = step;
        step *= dims[d];
    }
    steps[1] = is_last ? 1 : step;
    steps[0] = count_of(dims + 1, rank - 1);
}

static bool is_last(const struct kernel_conv *v)
{
    return v->y_block != 0;
}

static bool is_folded(const struct kernel_conv *v)
{
    return v->y_block && !v->x_block;
}

/* Row 2 r - pad + t of the image is row p of the folded one's r - before + a where t + shift = 2 a + p. */
static struct cuda_image fold_of(const struct kernel_conv *v)
{
    int64_t f = v->stride[0];
    struct cuda_image d = {.ci = (int)v->ci,
                           .f = (int)f,
                           .wide = (int)((v->ci * f * f + 7) / 8 * 8),
                           .n = v->n,
                           .co = v->co};
    for (int k = 0; k < 2; k++) {
        d.in[k] = v->in[k];
        d.k[k] = v->k[k];
        d.shift[k] = (f - v->pad[k] % f) % f;
        d.before[k] = (v->pad[k] + d.shift[k]) / f;
        d.folded[k] = (v->k[k] - 1 + d.shift[k]) / f + 1;
        d.out[k] = v->out[k] + d.folded[k] - 1;
    }
    return d;
}

/* The convolution of a folded image: no border, stride 1. */
static struct cuda_dnn_conv describe_folded(const struct kernel_conv_desc *d)
{
    const struct kernel_conv *v = &d->conv;
    struct cuda_image image = fold_of(v);
    struct cuda_dnn_conv c;
    memset(&c, 0, sizeof c);
    c.pass = d->pass;
    c.rank = 4;
    c.dtype = v->dtype;
    c.x[0] = c.y[0] = v->n;
    c.x[1] = c.w[1] = image.wide;
    c.y[1] = c.w[0] = v->co;
    for (int k = 0; k < 2; k++) {
        c.x[2 + k] = image.out[k];
        c.y[2 + k] = v->out[k];
        c.w[2 + k] = image.folded[k];
        c.stride[k] = c.dilation[k] = 1;
    }
    steps_of(c.x, c.rank, true, c.x_steps);
    steps_of(c.y, c.rank, true, c.y_steps);
    steps_of(c.w, c.rank, true, c.w_steps);
    return c;
}

/* One spatial dimension becomes the second of two. */
static struct cuda_dnn_conv describe(const struct kernel_conv_desc *d)
{
    const struct kernel_conv *v = &d->conv;
    struct cuda_dnn_conv c;
    if (is_folded(v))
        return describe_folded(d);
    memset(&c, 0, sizeof c);
    int more = v->nd == 1;
    c.pass = d->pass;
    c.rank = v->nd + 2 + more;
    c.dtype = v->dtype;
    c.x[0] = c.y[0] = v->n;
    c.x[1] = v->ci;
    c.y[1] = c.w[0] = v->co;
    c.w[1] = v->ci / v->groups;
    c.x[2] = c.y[2] = c.w[2] = c.stride[0] = c.dilation[0] = 1;
    for (int k = 0; k < v->nd; k++) {
        int64_t span = v->dilation[k] * (v->k[k] - 1) + 1;
        c.x[2 + more + k] = v->in[k];
        c.y[2 + more + k] = v->out[k];
        c.w[2 + more + k] = v->k[k];
        c.stride[more + k] = v->stride[k];
        c.dilation[more + k] = v->dilation[k];
        c.before[more + k] = c.after[more + k] = v->pad[k];
        if ((v->in[k] + 2 * v->pad[k] - span) / v->stride[k] + 1 != v->out[k])
            c.after[more + k] = (v->out[k] - 1) * v->stride[k] + span - v->in[k] - v->pad[k];
    }
    steps_of(c.x, c.rank, is_last(v), c.x_steps);
    steps_of(c.y, c.rank, is_last(v), c.y_steps);
    steps_of(c.w, c.rank, is_last(v), c.w_steps);
    return c;
}

/* Filters need turning: channels last, and more than one place. */
static bool is_turned(const struct kernel_conv *v)
{
    return is_last(v) && count_of(v->k, v->nd) > 1 && v->ci / v->groups > 1;
}

/* Filters turned, their gradient in BF16 (as the library gives it, then turned back), the library's own. Of a folded
 * image: its filters, itself. */
struct space {
    size_t turned, low, rest;
};

static struct space space_folded(const struct kernel_conv *v)
{
    struct cuda_image d = fold_of(v);
    struct space s;
    s.turned = cuda_align((size_t)(v->co * d.folded[0] * d.folded[1] * d.wide) * 2);
    s.low = cuda_align((size_t)(v->n * d.out[0] * d.out[1] * d.wide) * 2);
    s.rest = s.turned + s.low;
    return s;
}

static struct space space_of(const struct kernel_conv_desc *d)
{
    const struct kernel_conv *v = &d->conv;
    if (is_folded(v))
        return space_folded(v);
    size_t w =
        (size_t)(v->co * (v->ci / v->groups) * count_of(v->k, v->nd)) * cuda_dtype_bytes(v->dtype);
    struct space s;
    s.turned = is_turned(v) ? cuda_align(w) : 0;
    s.low = d->pass == KERNEL_CONV_WEIGHTS && v->dtype != KERNEL_F32 ? cuda_align(w) : 0;
    s.rest = s.turned + s.low;
    return s;
}

static enum ebb_status find(struct kernel_context *c, const struct kernel_conv_desc *d,
                            const struct cuda_dnn_plan **plan, struct ebb_error *err)
{
    struct cuda_dnn *dnn;
    struct cuda_dnn_conv conv = describe(d);
    *plan = NULL;
    if (d->conv.is_small)
        return EBB_OK;
    EBB_TRY(library(c, &dnn, err));
    EBB_TRY(cuda_dnn_find(dnn, &conv, plan, err));
    if (!(*plan)->plan)
        *plan = NULL;
    return EBB_OK;
}

enum ebb_status cuda_conv_need(struct kernel_context *c, const struct kernel_conv_desc *d,
                               struct kernel_need *need, struct ebb_error *err)
{
    const struct cuda_dnn_plan *plan = NULL;
    struct cuda_dnn_conv conv = describe(d);
    uint64_t more = 0;
    need->workspace_bytes = space_of(d).rest;
    need->algorithm = d->conv.is_small ? 1 : 0; /* our own */
    if (c->device) {
        EBB_TRY(find(c, d, &plan, err));
        more = plan ? plan->workspace_bytes : 0;
        need->algorithm = plan ? plan->algorithm : 1;
    } else if (!d->conv.is_small) {
        (void)cuda_dnn_recall(c->profile, &conv, &more, &need->algorithm);
    }
    need->workspace_bytes += more;
    return EBB_OK;
}

uint64_t cuda_conv_version(const struct kernel_context *c)
{
    return c->convolutions ? cuda_dnn_version(c->convolutions->dnn) : 0;
}

enum ebb_status cuda_conv_rows(const struct kernel_context *c, bool measures, kernel_row_sink *add,
                               void *to, struct ebb_error *err)
{
    return c->convolutions ? cuda_dnn_rows(c->convolutions->dnn, measures, add, to, err) : EBB_OK;
}

/* ---- running ------------------------------------------------------------------------------------------ */

static enum ebb_status check(int code, struct ebb_error *err)
{
    return code ? ebb_fail(err, EBB_EDEVICE, "cuda: convolution: error %d", code) : EBB_OK;
}

/* Filters from channels first to channels last, or back. */
static enum ebb_status turn(const struct kernel_conv *v, bool is_back, const void *from, void *to,
                            cuda_stream stream, struct ebb_error *err)
{
    int64_t ci = v->ci / v->groups, k = count_of(v->k, v->nd);
    struct kernel_nd nd;
    memset(&nd, 0, sizeof nd);
    nd.rank = 3; /* co, then what the target runs along */
    nd.dims[0] = v->co;
    nd.dims[1] = is_back ? ci : k;
    nd.dims[2] = is_back ? k : ci;
    nd.stride[0][0] = nd.stride[1][0] = ci * k;
    nd.stride[0][1] = nd.dims[2];
    nd.stride[0][2] = nd.stride[1][1] = 1;
    nd.stride[1][2] = nd.dims[1];
    return check(cuda_each_copy(&nd, cuda_dtype_bytes(v->dtype), from, to, stream), err);
}

/* y += bias, relu: over the result of the library. */
static enum ebb_status finish(const struct kernel_conv *v, const float *bias, void *y,
                              cuda_stream stream, struct ebb_error *err)
{
    int64_t places = count_of(v->out, v->nd);
    struct cuda_in from = {y, v->dtype};
    struct cuda_out to = {y, v->dtype};
    if (bias) {
        struct kernel_nd nd;
        memset(&nd, 0, sizeof nd);
        nd.rank = 3;
        nd.dims[0] = v->n;
        nd.dims[1] = is_last(v) ? places : v->co;
        nd.dims[2] = is_last(v) ? v->co : places;
        for (int k = 0; k < 2; k++) {
            nd.stride[k][0] = v->co * places;
            nd.stride[k][1] = nd.dims[2];
            nd.stride[k][2] = 1;
        }
        nd.stride[2][is_last(v) ? 2 : 1] = 1;
        EBB_TRY(check(
            cuda_each_binary(KERNEL_ADD, &nd, from, (struct cuda_in){bias, KERNEL_F32}, to, stream),
            err));
    }
    if (v->has_relu)
        EBB_TRY(check(cuda_each_unary(KERNEL_RELU, v->n * v->co * places, 0, 0, from, to, stream),
                      err));
    return EBB_OK;
}

static enum ebb_status run_folded(struct kernel_context *c, const struct kernel_conv_desc *d,
                                  const struct cuda_dnn_plan *plan, const struct kernel_args *args,
                                  struct ebb_error *err)
{
    const struct kernel_conv *v = &d->conv;
    struct cuda_image image = fold_of(v);
    struct space s = space_of(d);
    struct cuda_dnn *dnn = c->convolutions->dnn;
    unsigned char *at = args->workspace;
    void *filter = at, *x = at + s.turned, *rest = at + s.rest;
    EBB_TRY(check(cuda_image_fold(&image, args->in[0], x, c->stream), err));
    if (d->pass == KERNEL_CONV_WEIGHTS) {
        struct cuda_out to = {args->out[0], args->out_dtype[0]};
        EBB_TRY(cuda_dnn_run(dnn, plan, x, filter, (void *)(uintptr_t)args->in[1], rest, err));
        return check(cuda_image_filter_back(&image, filter, to, c->stream), err);
    }
    EBB_TRY(check(cuda_image_filter(&image, args->in[1], filter, c->stream), err));
    EBB_TRY(cuda_dnn_run(dnn, plan, x, filter, args->out[0], rest, err));
    return finish(v, v->has_bias ? args->in[2] : NULL, args->out[0], c->stream, err);
}

static enum ebb_status run_library(struct kernel_context *c, const struct kernel_conv_desc *d,
                                   const struct cuda_dnn_plan *plan, const struct kernel_args *args,
                                   struct ebb_error *err)
{
    const struct kernel_conv *v = &d->conv;
    struct space s = space_of(d);
    unsigned char *at = args->workspace;
    void *turned = at, *low = at + s.turned, *rest = at + s.rest;
    void *a = (void *)(uintptr_t)args->in[0], *b = (void *)(uintptr_t)args->in[1];
    struct cuda_dnn *dnn = c->convolutions->dnn;
    if (d->pass == KERNEL_CONV_WEIGHTS) {
        void *made = s.turned ? turned : s.low ? low : args->out[0];
        EBB_TRY(cuda_dnn_run(dnn, plan, a, made, b, rest, err));
        if (s.turned)
            EBB_TRY(turn(v, true, turned, s.low ? low : args->out[0], c->stream, err));
        if (!s.low)
            return EBB_OK;
        int64_t n = v->co * (v->ci / v->groups) * count_of(v->k, v->nd);
        struct cuda_out to = {args->out[0], args->out_dtype[0]};
        return check(cuda_each_convert(n, (struct cuda_in){low, v->dtype}, to, c->stream), err);
    }
    if (s.turned) {
        EBB_TRY(turn(v, false, b, turned, c->stream, err));
        b = turned;
    }
    if (d->pass == KERNEL_CONV_DATA)
        return cuda_dnn_run(dnn, plan, args->out[0], b, a, rest, err);
    EBB_TRY(cuda_dnn_run(dnn, plan, a, b, args->out[0], rest, err));
    return finish(v, v->has_bias ? args->in[2] : NULL, args->out[0], c->stream, err);
}

enum ebb_status cuda_conv_run(struct kernel_context *c, const struct kernel_conv_desc *d,
                              const struct kernel_args *args, struct ebb_error *err)
{
    const struct cuda_dnn_plan *plan;
    const struct kernel_conv *v = &d->conv;
    bool is_aligned = cuda_is_aligned(args->in[0]) && cuda_is_aligned(args->in[1]) &&
                      cuda_is_aligned(args->out[0]);
    if (!args->out[0])
        return EBB_OK;
    EBB_TRY(find(c, d, &plan, err));
    if (plan && is_aligned && is_folded(v))
        return run_folded(c, d, plan, args, err);
    if (plan && is_aligned)
        return run_library(c, d, plan, args, err);
    struct cuda_in a = {args->in[0], args->in_dtype[0]}, b = {args->in[1], args->in_dtype[1]};
    struct cuda_out to = {args->out[0], args->out_dtype[0]};
    const float *bias = d->pass == KERNEL_CONV_FORWARD && v->has_bias ? args->in[2] : NULL;
    return check(cuda_plain_conv(d, a, b, bias, to, c->stream), err);
}
