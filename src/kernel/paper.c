/* paper.c - a GPU on paper: what the kernels of src/cuda take and need, where the plug-in is not there.
 *
 * Plans for a GPU need no GPU, and no compiler for one. Sizes are written down here once more, by the
 * shape alone; the test cuda_paper compares them with the plug-in's wherever that can be built. What
 * only its libraries know is left out: the workspaces of engines of cuDNN, and which algorithm a
 * product takes, so plan files made here have other signatures. */
#include "base/heap.h"
#include "kernel/internal.h"
#include "profile/profile.h"

struct paper_context {
    struct kernel_head head; /* first */
    const struct profile *profile;
};

static uint64_t align(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t size_of(int dtype)
{
    return kernel_dtype_bytes((uint8_t)dtype);
}

/* ---- types --------------------------------------------------------------------------------------- */

static bool is_number(uint8_t dtype)
{
    return dtype == KERNEL_F32 || dtype == KERNEL_BF16 || dtype == KERNEL_F16;
}

static bool are_one(const struct kernel_args *types, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (types->in_dtype[i] != types->in_dtype[first] || !is_number(types->in_dtype[i]))
            return false;
    return true;
}

static bool are_f32(const struct kernel_args *types, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i < last && i < types->in_count; i++)
        if (types->in_dtype[i] != KERNEL_F32)
            return false;
    return true;
}

static bool takes_product(const void *desc, const struct kernel_args *types)
{
    const struct kernel_matmul *m = desc;
    return are_one(types, 0, 2) && are_f32(types, 2, 3) &&
           (m->adds < KERNEL_ADDS_OTHER || types->in_dtype[3] == types->out_dtype[0]);
}

static bool takes_attention(const void *desc, const struct kernel_args *types, bool is_grad)
{
    const struct kernel_attention *a = desc;
    uint32_t parts = a->heads ? 1 : 3;
    if (!are_one(types, 0, parts) || !is_grad)
        return are_one(types, 0, parts);
    return types->in_dtype[parts] == types->in_dtype[0] &&
           types->in_dtype[parts + 1] == KERNEL_F32 &&
           types->in_dtype[parts + 2] == types->in_dtype[0];
}

static bool paper_takes(const struct kernel_context *context, enum kernel_family family,
                        const void *desc, const struct kernel_args *types)
{
    (void)context;
    switch (family) {
    case KERNEL_FAMILY_MATMUL:
        return takes_product(desc, types);
    case KERNEL_FAMILY_CONV:
        return are_one(types, 0, 2) && are_f32(types, 2, 3) && types->in_dtype[0] != KERNEL_F16;
    case KERNEL_FAMILY_ATTENTION:
    case KERNEL_FAMILY_ATTENTION_GRAD:
        return takes_attention(desc, types, family == KERNEL_FAMILY_ATTENTION_GRAD);
    case KERNEL_FAMILY_BATCH_NORM:
    case KERNEL_FAMILY_LAYER_NORM:
        return are_f32(types, 1, 5);
    case KERNEL_FAMILY_BATCH_NORM_GRAD:
        return are_f32(types, 2, 6);
    case KERNEL_FAMILY_LAYER_NORM_GRAD:
        return are_f32(types, 2, 5);
    case KERNEL_FAMILY_PRODUCT_ENTROPY:
    case KERNEL_FAMILY_PRODUCT_ENTROPY_STEP:
        return are_one(types, 0, 2) && types->in_dtype[0] != KERNEL_F16;
    case KERNEL_FAMILY_PRODUCT_ENTROPY_GRAD:
        return are_one(types, 1, 2) && types->in_dtype[1] != KERNEL_F16 &&
               types->in_dtype[0] == KERNEL_F32;
    default:
        for (uint32_t i = 0; i < types->in_count; i++)
            if (types->in_dtype[i] == KERNEL_F64)
                return false;
        return true;
    }
}

/* ---- sizes --------------------------------------------------------------------------------------- */

/* Of one call of cuBLASLt. */
static uint64_t product_bytes(double m, double n, double k, double batch)
{
    return m * n * k * batch < (double)(1 << 27) ? 0 : UINT64_C(32) << 20;
}

/* Batch dimensions that all operands cross evenly are one; the last of what is left is in one call. */
static uint64_t matmul_bytes(const struct kernel_matmul *m)
{
    int64_t step = m->c_dims[m->rank - 1] * m->c_dims[m->rank - 2], batch = 1, a = 0, b = 0, c = 0;
    int64_t steps[KERNEL_RANK];
    bool has_any = false;
    for (int d = m->rank - 3; d >= 0; d--) {
        steps[d] = step;
        step *= m->c_dims[d];
    }
    for (int d = 0; d < m->rank - 2; d++) {
        int64_t n = m->c_dims[d], next_a = m->a_dims[d] == 1 ? 0 : m->a_strides[d],
                next_b = m->b_dims[d] == 1 ? 0 : m->b_strides[d];
        if (n == 1)
            continue;
        bool is_even = has_any && a == next_a * n && b == next_b * n && c == steps[d] * n;
        batch = is_even ? batch * n : n;
        a = next_a;
        b = next_b;
        c = steps[d];
        has_any = true;
    }
    uint64_t bias =
        m->has_bias && m->out_dtype != KERNEL_F32 ? align((uint64_t)m->c_dims[m->rank - 1] * 2) : 0;
    return bias + product_bytes((double)m->c_dims[m->rank - 2], (double)m->c_dims[m->rank - 1],
                                (double)m->a_dims[m->rank - 1], (double)batch);
}

/* By a kernel of its own where heads have 64 channels, else by products, a slice of the scores at a
 * time. */
static uint64_t attention_bytes(const struct kernel_attention *a, int dtype, bool is_grad)
{
    uint64_t rows = (uint64_t)a->rows, tiles = (uint64_t)(a->tq + 127) / 128 * 128;
    if (dtype == KERNEL_BF16 && a->d == 64 && a->dv == 64 && a->tq == a->tk && !a->mask_rows &&
        a->rows <= 65535 && a->rows > 0)
        return is_grad ? rows * tiles * 8 + (rows < 132 ? rows : 132) * tiles * 64 * 4 : 0;
    uint64_t one = (uint64_t)(a->tq * a->tk) * 4, fit = one ? (UINT64_C(256) << 20) / one : 1;
    uint64_t slice = rows < most(fit, 1) ? rows : most(fit, 1), n = slice * one / 4;
    uint64_t low = dtype == KERNEL_F32 ? 0 : align(n * 2), part = 0;
    if (a->heads)
        part = align(rows * (uint64_t)(a->tq * a->d) * size_of(dtype));
    double wide = (double)(a->d > a->dv ? a->d : a->dv);
    return (align(n * 4) + low) * (is_grad ? 2 : 1) + part * (is_grad ? 7 : 4) +
           product_bytes((double)a->tq, (double)a->tk, wide, (double)slice);
}

static uint64_t entropy_bytes(const struct kernel_product_entropy_desc *d, int dtype)
{
    int64_t rows = 4096, stride = (d->classes + 7) / 8 * 8;
    while (rows > 128 && (uint64_t)(rows * stride) * size_of(dtype) > UINT64_C(512) << 20)
        rows /= 2;
    rows = d->n < rows ? d->n : rows;
    return 256 + 2 * align((uint64_t)d->n * 4) + align((uint64_t)(rows * stride) * size_of(dtype)) +
           product_bytes((double)rows, (double)d->classes, (double)d->k, 1);
}

static uint64_t columns_bytes(int64_t rows, int64_t n)
{
    return (uint64_t)((rows + 255) / 256 * n) * 4;
}

/* Sums over rows by columns; other folds in segments, where there are too few results. */
static uint64_t reduce_bytes(const struct kernel_reduce_desc *d)
{
    int64_t kept = 1, folded = 1;
    int before = -1, kept_runs = 0, folded_runs = 0;
    for (int k = 0; k < d->rank; k++) {
        int now = (int)(d->folded >> k & 1);
        *(now ? &folded : &kept) *= d->dims[k];
        if (d->dims[k] == 1)
            continue;
        *(now ? &folded_runs : &kept_runs) += before != now;
        before = now;
    }
    bool is_inner_kept = before == 0 && folded_runs;
    int64_t lanes = is_inner_kept ? 1 : 32, units = kept * lanes, fit = folded / (64 * lanes);
    int64_t segments = units ? 132 * 2048 / units : 1;
    segments = segments > fit ? fit : segments;
    segments = segments > 1024 ? 1024 : segments < 1 ? 1 : segments;
    int64_t length = (folded + segments - 1) / segments;
    segments = length ? (folded + length - 1) / length : 1;
    bool is_columns = d->f == KERNEL_SUM && is_inner_kept && kept_runs == 1 && folded_runs == 1 &&
                      kept % 8 == 0 && folded >= 512 && folded <= (int64_t)65535 * 256;
    return most(segments > 1 ? (uint64_t)(kept * segments) * 8 : 0,
                is_columns ? columns_bytes(folded, kept) : 0);
}

/* Indices are sorted: lists of keys and places, sums of chunks, room of the sort. */
static uint64_t index_bytes(const struct kernel_index_desc *d)
{
    uint64_t n = (uint64_t)d->count;
    if (d->f != KERNEL_INDEX_ADD || d->count <= 0)
        return 0;
    return 6 * align(n * 4) + align((n + 31) / 32 * 2 * (uint64_t)d->inner * 4) + align(n) +
           (UINT64_C(64) << 10);
}

static uint64_t layer_grad_bytes(const struct kernel_layer_norm_desc *d)
{
    uint64_t n = (uint64_t)d->n, own = (uint64_t)((d->rows + 63) / 64) * 2 * n * 8;
    if (d->n % 8 || d->n > 8192 || d->rows <= 0)
        return own;
    int64_t tiles = d->n <= 1024 ? 256 : 512, rows = (d->rows + tiles - 1) / tiles;
    tiles = (d->rows + rows - 1) / rows;
    return most(own, (uint64_t)tiles * 2 * n * 4 + 2 * align(n * 4));
}

static uint64_t batch_norm_bytes(const struct kernel_batch_norm *d)
{
    uint64_t spare = 2 * align((uint64_t)d->channels * 8);
    int64_t rows = d->n * d->spatial, all = d->channels / 8;
    if (d->block != d->channels || d->channels % 8 || d->channels > 1 << 20 || rows <= 0)
        return spare;
    int64_t strips = (all + 255) / 256, vectors = (all + strips - 1) / strips,
            lanes = 256 / vectors;
    int64_t tiles = 1056 / strips, length = (rows + tiles - 1) / tiles;
    length = length < lanes * 4 ? lanes * 4 : (length + lanes - 1) / lanes * lanes;
    return spare + (uint64_t)((rows + length - 1) / length) * 2 * (uint64_t)d->channels * 4;
}

/* Pictures are folded: squares of as many pixels as the stride become channels. */
static bool is_picture(const struct kernel_conv *v, enum kernel_conv_pass pass)
{
    return pass != KERNEL_CONV_DATA && v->dtype == KERNEL_BF16 && v->nd == 2 && v->groups == 1 &&
           v->ci <= 4 && v->co % 8 == 0 && v->dilation[0] == 1 && v->dilation[1] == 1 &&
           v->stride[0] == v->stride[1] && v->stride[0] <= 2 && v->n <= 65535 &&
           v->out[0] + v->k[0] <= 65535 && v->in[0] % v->stride[0] == 0 &&
           v->in[1] % v->stride[1] == 0;
}

static uint64_t picture_bytes(const struct kernel_conv *v)
{
    int64_t f = v->stride[0], wide = (v->ci * f * f + 7) / 8 * 8, filter = 1, image = 1;
    for (int k = 0; k < 2; k++) {
        int64_t shift = (f - v->pad[k] % f) % f, folded = (v->k[k] - 1 + shift) / f + 1;
        filter *= folded;
        image *= v->out[k] + folded - 1;
    }
    return align((uint64_t)(v->co * filter * wide) * 2) +
           align((uint64_t)(v->n * image * wide) * 2);
}

/* Filters are turned, and their gradient is made in BF16 first. */
static uint64_t conv_bytes(const struct kernel_conv_desc *d)
{
    const struct kernel_conv *v = &d->conv;
    int64_t places = 1;
    if (v->y_block && !v->x_block)
        return picture_bytes(v);
    for (int k = 0; k < v->nd; k++)
        places *= v->k[k];
    uint64_t w = (uint64_t)(v->co * (v->ci / v->groups) * places) * size_of(v->dtype);
    bool is_turned = v->y_block && places > 1 && v->ci / v->groups > 1;
    return (is_turned ? align(w) : 0) +
           (d->pass == KERNEL_CONV_WEIGHTS && v->dtype != KERNEL_F32 ? align(w) : 0);
}

static uint64_t update_bytes(const struct kernel_update_desc *d)
{
    if (d->f != KERNEL_UPDATE_LARS && d->f != KERNEL_UPDATE_LAMB)
        return 0;
    return 2 * 64 * 8 + 256 + (d->f == KERNEL_UPDATE_LAMB ? (uint64_t)d->n * 4 : 0);
}

static uint64_t bytes_of(enum kernel_family family, const union kernel_desc *d,
                         const struct kernel_args *types)
{
    switch (family) {
    case KERNEL_FAMILY_UNARY_GRAD:
        return d->unary_grad.columns
                   ? columns_bytes(d->unary_grad.n / d->unary_grad.columns, d->unary_grad.columns)
                   : 0;
    case KERNEL_FAMILY_REDUCE:
        return reduce_bytes(&d->reduce);
    case KERNEL_FAMILY_MATMUL:
        return matmul_bytes(&d->matmul);
    case KERNEL_FAMILY_CONV:
        return conv_bytes(&d->conv);
    case KERNEL_FAMILY_ATTENTION:
    case KERNEL_FAMILY_ATTENTION_GRAD:
        return attention_bytes(&d->attention, types->in_dtype[0],
                               family == KERNEL_FAMILY_ATTENTION_GRAD);
    case KERNEL_FAMILY_BATCH_NORM_STATS:
    case KERNEL_FAMILY_BATCH_NORM_GRAD:
        return batch_norm_bytes(&d->batch_norm);
    case KERNEL_FAMILY_LAYER_NORM_GRAD:
        return layer_grad_bytes(&d->layer_norm_grad);
    case KERNEL_FAMILY_INDEX:
        return index_bytes(&d->index);
    case KERNEL_FAMILY_LOSS:
        return d->loss.reduction == KERNEL_REDUCE_NONE ? 0 : 1024 * 8;
    case KERNEL_FAMILY_CROSS_ENTROPY:
    case KERNEL_FAMILY_CROSS_ENTROPY_GRAD:
        return 256 + (d->cross_entropy.reduction == KERNEL_REDUCE_NONE
                          ? 0
                          : (uint64_t)(d->cross_entropy.n * d->cross_entropy.inner) * 16);
    case KERNEL_FAMILY_PRODUCT_ENTROPY:
    case KERNEL_FAMILY_PRODUCT_ENTROPY_STEP:
        return entropy_bytes(&d->product_entropy, types->in_dtype[0]);
    case KERNEL_FAMILY_PRODUCT_ENTROPY_GRAD:
        return entropy_bytes(&d->product_entropy, types->in_dtype[1]);
    case KERNEL_FAMILY_UPDATE:
    case KERNEL_FAMILY_UPDATE_SPLIT:
        return update_bytes(&d->update);
    default:
        return 0;
    }
}

/* ---- the table ------------------------------------------------------------------------------------ */

static enum ebb_status paper_open(struct kernel_context **context, struct device *device,
                                  const struct profile *profile, int threads, struct ebb_error *err)
{
    struct paper_context *c;
    (void)device, (void)threads;
    EBB_TRY(ebb_new(&c, 1, sizeof *c, err));
    c->head.table = &kernel_paper;
    c->head.threads = 1;
    c->profile = profile ? profile : profile_builtin();
    *context = (struct kernel_context *)(void *)c;
    return EBB_OK;
}

static void paper_close(struct kernel_context *context)
{
    ebb_free(context);
}

/* Channels last, but for pictures and what is small. */
static enum ebb_status paper_choose(struct kernel_context *context, struct kernel_conv *conv,
                                    enum kernel_conv_pass pass, bool may_winograd,
                                    struct ebb_error *err)
{
    (void)context, (void)may_winograd, (void)err;
    conv->is_winograd = conv->x_block = conv->y_block = 0;
    if (!conv->is_small && conv->nd >= 2 && conv->ci <= UINT16_MAX && conv->co <= UINT16_MAX) {
        conv->x_block = is_picture(conv, pass) ? 0 : (int32_t)conv->ci;
        conv->y_block = (int32_t)conv->co;
    }
    return EBB_OK;
}

static enum ebb_status paper_need(struct kernel_context *context, enum kernel_family family,
                                  const void *desc, const struct kernel_args *types,
                                  struct kernel_need *need, struct ebb_error *err)
{
    const struct paper_context *c = (const void *)context;
    union kernel_desc d;
    (void)err;
    memcpy(&d, desc, kernel_desc_bytes(family));
    need->algorithm = 0;
    need->workspace_bytes = bytes_of(family, &d, types);
    need->cost_ns = profile_cost_ns(c->profile, kernel_family_name(family), "", need->flops,
                                    need->bytes, 1, NULL);
    return EBB_OK;
}

static enum ebb_status paper_run(struct kernel_context *context, enum kernel_family family,
                                 const void *desc, const struct kernel_args *args,
                                 struct ebb_error *err)
{
    (void)context, (void)desc, (void)args;
    return ebb_fail(err, EBB_EUNSUPPORTED, "%s: a GPU on paper runs nothing",
                    kernel_family_name(family));
}

const struct kernel_table kernel_paper = {
    .device = "cuda",
    .profile = kernel_paper_h200,
    .rewrites = "+head,+gate,+packed,+residual,+addend,+bias,-sums",
    .is_last = true,
    .open = paper_open,
    .close = paper_close,
    .takes = paper_takes,
    .choose = paper_choose,
    .need = paper_need,
    .run = paper_run,
};
