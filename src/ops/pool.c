/* pool.c - pooling, resampling, unpooling, response normalisation. */
#include <inttypes.h>

#include "ops/internal.h"

enum {
    ROW_MAX,
    ROW_MAX_GRAD,
    ROW_AVG,
    ROW_AVG_GRAD,
    ROW_ADAPTIVE,
    ROW_ADAPTIVE_GRAD,
    ROW_RESAMPLE,
    ROW_RESAMPLE_GRAD,
    ROW_UNPOOL,
    ROW_UNPOOL_GRAD,
    ROW_WINDOW,
    ROW_MAX_INDEX,
    ROW_MAX1D,
    ROW_MAX2D,
    ROW_MAX3D,
    ROW_AVG1D,
    ROW_AVG2D,
    ROW_AVG3D,
    ROW_ADAPTIVE2D,
    ROW_NEAREST2D,
    ROW_BILINEAR2D,
    ROW_MAX_UNPOOL2D,
    ROW_LRN,
    ROW_COUNT
};

static const struct ops_def rows[ROW_COUNT];
_Static_assert((int)ROW_MAX == (int)KERNEL_MAX_POOL &&
                   (int)ROW_ADAPTIVE_GRAD == (int)KERNEL_ADAPTIVE_GRAD,
               "rows in the order of their kernels");

struct pool_attr {
    struct ops_ints kernel, stride, padding, dilation;
    int32_t ceil_mode, count_include_pad;
};

/* Attribute of the primitives: the kernel's description and the shapes around it. */
struct pool_shape {
    struct kernel_pool pool;
    int64_t rank;
    int64_t in[TENSOR_RANK], out[TENSOR_RANK];
};

/* ---- primitives ----------------------------------------------------------------------------- */

static bool has_shape(const struct tensor_view *v, int64_t rank, const int64_t *dims)
{
    return v->rank == rank && memcmp(v->dims, dims, (size_t)rank * sizeof *dims) == 0;
}

/* With a batch dimension: else the channels are dimension 0. */
static bool pool_takes_block(const struct ops_infer *i, int block)
{
    const struct pool_shape *p = i->attr;
    int64_t spatial = p->pool.in[0] * p->pool.in[1] * p->pool.in[2];
    (void)block;
    return p->pool.planes == p->in[0] * p->in[1] && spatial > 0;
}

static enum ebb_status infer_pool(struct ops_infer *i, struct ebb_error *err)
{
    const struct pool_shape *p = i->attr;
    int row = i->def->variant;
    bool is_grad = row == ROW_MAX_GRAD || row == ROW_AVG_GRAD || row == ROW_ADAPTIVE_GRAD;
    EBB_TRY(ops_want_f32(i, 1, err));
    if (!has_shape(i->in[0], p->rank, is_grad ? p->out : p->in))
        return ops_wrong(i, err, "the shape does not fit the pooling");
    if (row == ROW_MAX_GRAD &&
        (i->in[1]->dtype != TENSOR_U8 || !has_shape(i->in[1], p->rank, p->out)))
        return ops_wrong(i, err, "input 1 must be the winners of the pooling");
    ops_out(i, TENSOR_F32, (int)p->rank, is_grad ? p->in : p->out);
    if (row == ROW_MAX)
        ops_out(i, TENSOR_U8, (int)p->rank, p->out);
    i->flops = (double)tensor_count(i->in[0]) * 4.0;
    return EBB_OK;
}

static int64_t planes_of_pool(const void *attr)
{
    return ((const struct pool_shape *)attr)->pool.planes;
}

/* For the layout of the call. */
static void describe_pool(const struct ops_views *v, void *desc)
{
    struct kernel_pool_desc *d = desc;
    const struct pool_shape *shape = v->attr;
    d->pool = shape->pool;
    d->pool.lanes = v->in[0]->block ? v->in[0]->block : 1;
    if (shape->pool.planes ==
        shape->in[0] * shape->in[1]) /* some planes of a call in 16 bits, or all */
        d->pool.planes = v->in[0]->dims[0] * v->in[0]->dims[1];
    d->pool.planes /= d->pool.lanes;
    d->f = v->def->variant == ROW_MAX_INDEX ? (int)KERNEL_MAX_POOL_INDEX : v->def->variant;
}

/* winners -> indices: only where somebody asks for them */
static enum ebb_status infer_index(struct ops_infer *i, struct ebb_error *err)
{
    const struct pool_shape *p = i->attr;
    if (i->in[0]->dtype != TENSOR_U8 || !has_shape(i->in[0], p->rank, p->out))
        return ops_wrong(i, err, "input must be the winners of the pooling");
    ops_out(i, TENSOR_I64, (int)p->rank, p->out);
    return EBB_OK;
}

static void grad_pool(struct ops_backward *b)
{
    int row = b->def->variant;
    tensor_id in[2] = {b->gout[0], b->out_count > 1 ? b->out[1] : TENSOR_NONE};
    /* a gradient of few elements takes the layout of the many */
    int block = tensor_view_of(b->session, b->in[0])->block;
    if (block && in[0].v)
        in[0] = ops_in_layout(b->session, in[0], block);
    if (b->gout[0].v) /* X and X_grad are neighbours: linear maps, each the other's transpose */
        b->gin[0] = ops_emit(b->session, &rows[row % 2 ? row - 1 : row + 1], b->attr,
                             row == ROW_MAX ? 2 : 1, in);
}

/* ---- from torch's arguments ----------------------------------------------------------------- */

/* Shapes and planes of x with nd trailing spatial dimensions. */
static bool start(struct tensor_session *s, const struct ops_def *def, tensor_id x, int nd,
                  struct pool_shape *p)
{
    const struct tensor_view *v = tensor_view_of(s, x);
    memset(p, 0, sizeof *p);
    if (v->rank < nd + 1 || v->rank > nd + 2) {
        tensor_fail(s, EBB_EINPUT, "%s: input of rank %d, %d is needed", def->name, v->rank,
                    nd + 2);
        return false;
    }
    p->rank = v->rank;
    memcpy(p->in, v->dims, sizeof v->dims);
    memcpy(p->out, v->dims, sizeof v->dims);
    p->pool.planes = 1;
    for (int d = 0; d < v->rank - nd; d++)
        p->pool.planes *= v->dims[d];
    for (int d = 0; d < 3; d++) {
        p->pool.in[d] = p->pool.out[d] = p->pool.k[d] = p->pool.stride[d] = p->pool.dilation[d] = 1;
        if (d >= 3 - nd)
            p->pool.in[d] = v->dims[v->rank - 3 + d];
    }
    return true;
}

static int64_t pooled(const struct kernel_pool *p, int d, bool is_ceil)
{
    int64_t span = p->in[d] + 2 * p->pad[d] - p->dilation[d] * (p->k[d] - 1) - 1;
    if (span < 0 && !is_ceil)
        return 0;
    int64_t n = (span + (is_ceil ? p->stride[d] - 1 : 0)) / p->stride[d] + 1;
    if (is_ceil && (n - 1) * p->stride[d] >= p->in[d] + p->pad[d])
        n--; /* a window must start in the input or the left padding */
    return n;
}

static tensor_id build_pool(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct pool_attr *a = b->attr;
    bool is_max = b->def->variant < 10;
    int nd = b->def->variant % 10;
    struct pool_shape p;
    const int64_t ones[3] = {1, 1, 1}, zeros[3] = {0};
    int first = 3 - nd; /* of the three dimensions that the kernel has */
    if (!start(s, b->def, b->in[0], nd, &p))
        return TENSOR_NONE;
    p.pool.count_include_pad = a->count_include_pad;
    bool ok = a->kernel.count && ops_spread(&a->kernel, nd, ones, 1, p.pool.k + first) &&
              ops_spread(&a->stride, nd, p.pool.k + first, 1, p.pool.stride + first) &&
              ops_spread(&a->padding, nd, zeros, 0, p.pool.pad + first) &&
              ops_spread(&a->dilation, nd, ones, 1, p.pool.dilation + first);
    for (int d = 3 - nd; ok && d < 3; d++) {
        p.pool.out[d] = pooled(&p.pool, d, a->ceil_mode);
        p.out[p.rank - 3 + d] = p.pool.out[d];
        ok = 2 * p.pool.pad[d] <= p.pool.k[d];
        if (ok && p.pool.out[d] <= 0)
            return tensor_fail(
                s, EBB_EINPUT,
                "%s: windows of %lld do not fit into an input of %lld, padding %lld: "
                "what the model is given is too small for it",
                b->def->name, (long long)(p.pool.dilation[d] * (p.pool.k[d] - 1) + 1),
                (long long)p.pool.in[d], (long long)p.pool.pad[d]);
    }
    if (!ok)
        return tensor_fail(s, EBB_EINPUT, "%s: kernel, stride, padding or dilation out of range",
                           b->def->name);
    double volume = (double)p.pool.k[0] * (double)p.pool.k[1] * (double)p.pool.k[2];
    if (is_max && volume > KERNEL_POOL_WINDOW)
        return tensor_fail(s, EBB_EUNSUPPORTED, "%s: windows have at most %d elements",
                           b->def->name, KERNEL_POOL_WINDOW);
    tensor_id y = ops_emit(s, &rows[is_max ? ROW_MAX : ROW_AVG], &p, 1, b->in);
    if (is_max) {
        tensor_id winner = ops_output(y, 1);
        b->out[b->out_count++] = ops_emit(s, &rows[ROW_MAX_INDEX], &p, 1, &winner);
    }
    return y;
}

static tensor_id build_adaptive(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    struct ops_ints size = *(const struct ops_ints *)b->attr;
    struct pool_shape p;
    if (!start(s, b->def, b->in[0], 2, &p))
        return TENSOR_NONE;
    for (int k = 0; k < size.count && size.count == 2; k++)
        if (size.v[k] == 0)
            size.v[k] = p.pool.in[1 + k];
    if (!ops_spread(&size, 2, p.pool.in + 1, 1, p.pool.out + 1))
        return tensor_fail(s, EBB_EINPUT, "%s: output_size out of range", b->def->name);
    p.out[p.rank - 2] = p.pool.out[1];
    p.out[p.rank - 1] = p.pool.out[2];
    return ops_emit(s, &rows[ROW_ADAPTIVE], &p, 1, b->in);
}

tensor_id ops_pool_share(struct tensor_session *s, tensor_id x)
{
    if (!x.v || tensor_status(s, NULL) != EBB_OK)
        return TENSOR_NONE;
    struct tensor_node n = tensor_node_at(s, tensor_producer(s, x));
    const struct pool_shape *p = n.attr;
    int64_t places = 1;
    if (n.def != &rows[ROW_ADAPTIVE_GRAD] || tensor_view_of(s, x)->dtype != TENSOR_F32)
        return TENSOR_NONE;
    for (int64_t d = 2; d < p->rank; d++) {
        places *= p->in[d];
        if (p->out[d] != 1)
            return TENSOR_NONE;
    }
    return ops_mul_scalar(s, ops_in_layout(s, n.inputs[0], 0), 1.0f / (float)places);
}

/* ---- resampling ----------------------------------------------------------------------------- */

struct resample_shape {
    struct kernel_resample r;
    int64_t rank;
    int64_t in[TENSOR_RANK], out[TENSOR_RANK];
};

struct resample_attr {
    struct ops_floats scale;
    struct ops_ints size;
    int32_t align_corners, zero;
};

static enum ebb_status infer_resample(struct ops_infer *i, struct ebb_error *err)
{
    const struct resample_shape *p = i->attr;
    bool is_grad = i->def->variant == ROW_RESAMPLE_GRAD;
    EBB_TRY(ops_want_f32(i, 1, err));
    if (!has_shape(i->in[0], p->rank, is_grad ? p->out : p->in))
        return ops_wrong(i, err, "the shape does not fit the resampling");
    ops_out(i, TENSOR_F32, (int)p->rank, is_grad ? p->in : p->out);
    i->flops = 10.0 * (double)(p->r.planes * p->r.out[0] * p->r.out[1]);
    return EBB_OK;
}

static void describe_resample(const struct ops_views *v, void *desc)
{
    struct kernel_resample_desc *d = desc;
    const struct resample_shape *p = v->attr;
    d->resample = p->r;
    d->resample.lanes = v->in[0]->block ? v->in[0]->block : 1;
    d->resample.planes /= d->resample.lanes;
    d->is_grad = v->def->variant == ROW_RESAMPLE_GRAD;
}

static tensor_id build_resample(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct resample_attr *a = b->attr;
    const struct tensor_view v = *tensor_view_of(s, b->in[0]);
    struct resample_shape p;
    memset(&p, 0, sizeof p);
    if (v.rank != 4 || !a->scale.count == !a->size.count || a->scale.count > 2 || a->size.count > 2)
        return tensor_fail(s, EBB_EINPUT, "%s: input of rank 4 and one of scale, size are needed",
                           b->def->name);
    p.r.planes = v.dims[0] * v.dims[1];
    p.r.is_bilinear = b->def->variant == ROW_BILINEAR2D;
    p.r.align_corners = a->align_corners && p.r.is_bilinear;
    p.rank = 4;
    memcpy(p.in, v.dims, sizeof v.dims);
    memcpy(p.out, v.dims, sizeof v.dims);
    for (int d = 0; d < 2; d++) {
        int64_t n = v.dims[2 + d], m;
        double scale = a->scale.count ? a->scale.v[a->scale.count == 1 ? 0 : d] : 0;
        m = a->scale.count ? (int64_t)floor((double)n * scale)
                           : a->size.v[a->size.count == 1 ? 0 : d];
        if (m < 1 || m > INT32_MAX || n < 1)
            return tensor_fail(s, EBB_EINPUT, "%s: output of %" PRId64, b->def->name, m);
        p.r.in[d] = n;
        p.r.out[d] = p.out[2 + d] = m;
        if (p.r.align_corners)
            p.r.scale[d] = m > 1 ? (double)(n - 1) / (double)(m - 1) : 0;
        else if (m == n) /* a copy along this dimension, whatever the scale */
            p.r.scale[d] = 1.0;
        else
            p.r.scale[d] = a->scale.count ? 1.0 / scale : (double)n / (double)m;
    }
    return ops_emit(s, &rows[ROW_RESAMPLE], &p, 1, b->in);
}

/* ---- unpooling ------------------------------------------------------------------------------ */

struct unpool_attr {
    struct ops_ints kernel, stride, padding, output_size;
};

struct plane { /* attribute of the primitives: spatial size on the large side */
    int64_t h, w;
};

static enum ebb_status infer_unpool(struct ops_infer *i, struct ebb_error *err)
{
    const struct plane *p = i->attr;
    const struct tensor_view *index = i->in[1];
    bool is_grad = i->def->variant == ROW_UNPOOL_GRAD;
    EBB_TRY(ops_want_f32(i, 1, err));
    if (index->dtype != TENSOR_I64 || index->rank < 3 ||
        (!is_grad && !tensor_same_shape(i->in[0], index)))
        return ops_wrong(i, err, "indices must be I64 in the shape of the pooled tensor");
    struct tensor_view big = *index;
    big.dims[big.rank - 2] = p->h;
    big.dims[big.rank - 1] = p->w;
    if (is_grad && !has_shape(i->in[0], big.rank, big.dims))
        return ops_wrong(i, err, "the gradient has the wrong shape");
    ops_out(i, TENSOR_F32, big.rank, is_grad ? index->dims : big.dims);
    return EBB_OK;
}

static void describe_unpool(const struct ops_views *v, void *desc)
{
    struct kernel_unpool_desc *d = desc;
    const struct plane *p = v->attr;
    const struct tensor_view *index = v->in[1];
    d->in_size = index->dims[index->rank - 2] * index->dims[index->rank - 1];
    d->planes = d->in_size ? tensor_count(index) / d->in_size : 0;
    d->out_size = p->h * p->w;
    d->is_grad = v->def->variant == ROW_UNPOOL_GRAD;
}

static void grad_unpool(struct ops_backward *b)
{
    int row = b->def->variant == ROW_UNPOOL ? ROW_UNPOOL_GRAD : ROW_UNPOOL;
    if (b->needs[0])
        b->gin[0] =
            ops_emit(b->session, &rows[row], b->attr, 2, (tensor_id[]){b->gout[0], b->in[1]});
}

static tensor_id build_unpool(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct unpool_attr *a = b->attr;
    const struct tensor_view *v = tensor_view_of(s, b->in[0]);
    int64_t size[2];
    for (int d = 0; d < 2 && v->rank >= 3; d++) {
        const struct ops_ints *t = a->stride.count ? &a->stride : &a->kernel;
        int64_t k = a->kernel.v[a->kernel.count == 1 ? 0 : d], stride = t->v[t->count == 1 ? 0 : d];
        int64_t pad = a->padding.v[a->padding.count <= 1 ? 0 : d];
        bool fits = k >= 0 && k <= INT32_MAX && stride >= 0 && stride <= INT32_MAX && pad >= 0 &&
                    pad <= INT32_MAX && v->dims[v->rank - 2 + d] <= INT32_MAX;
        size[d] = fits ? (v->dims[v->rank - 2 + d] - 1) * stride - 2 * pad + k : 0;
        if (fits && a->output_size.count >= 2)
            size[d] = a->output_size.v[a->output_size.count - 2 + d];
    }
    if (v->rank < 3 || a->kernel.count > 2 || a->stride.count > 2 || a->padding.count > 2 ||
        a->output_size.count == 1 || size[0] < 1 || size[1] < 1)
        return tensor_fail(s, EBB_EINPUT, "%s: kernel, stride, padding or output_size out of range",
                           b->def->name);
    struct plane p = {size[0], size[1]};
    return ops_emit(s, &rows[ROW_UNPOOL], &p, 2, b->in);
}

/* ---- local response normalisation ----------------------------------------------------------- */

struct window_attr {
    int64_t before, after;
};

static enum ebb_status infer_window(struct ops_infer *i, struct ebb_error *err)
{
    EBB_TRY(ops_want_f32(i, 1, err));
    if (i->in[0]->rank < 2)
        return ops_wrong(i, err, "rank 2 or more is needed");
    ops_out(i, TENSOR_F32, i->in[0]->rank, i->in[0]->dims);
    return EBB_OK;
}

static void describe_window(const struct ops_views *v, void *desc)
{
    struct kernel_channel_window_desc *d = desc;
    const struct window_attr *a = v->attr;
    ops_lines(v->in[0], 1, &d->outer, &d->channels, &d->inner);
    d->before = a->before;
    d->after = a->after;
}

static void grad_window(struct ops_backward *b)
{
    const struct window_attr *a = b->attr;
    struct window_attr mirror = {a->after, a->before};
    b->gin[0] = ops_emit(b->session, b->def, &mirror, 1, b->gout);
}

struct lrn_attr {
    int64_t size;
    float alpha, beta, k, zero;
};

static tensor_id build_lrn(struct ops_build *b)
{
    struct tensor_session *s = b->s;
    const struct lrn_attr *a = b->attr;
    struct window_attr window = {a->size / 2, (a->size - 1) / 2};
    if (a->size < 1)
        return tensor_fail(s, EBB_EINPUT, "lrn: size %" PRId64, a->size);
    tensor_id square = ops_unary(s, KERNEL_SQUARE, b->in[0], 0, 0);
    tensor_id sum = ops_emit(s, &rows[ROW_WINDOW], &window, 1, &square);
    tensor_id d = ops_add_scalar(
        s, ops_mul_scalar(s, sum, (float)((double)a->alpha / (double)a->size)), a->k);
    return ops_mul(s, b->in[0], ops_unary(s, KERNEL_POW, d, -a->beta, 0));
}

/* ---- rows ----------------------------------------------------------------------------------- */

static const struct ops_field max_fields[] = {
    OPS_REQUIRED(pool_attr, kernel, OPS_INTS), OPS_FIELD(pool_attr, stride, OPS_INTS),
    OPS_FIELD(pool_attr, padding, OPS_INTS),   OPS_FIELD(pool_attr, dilation, OPS_INTS),
    OPS_FIELD(pool_attr, ceil_mode, OPS_BOOL), {0}};
static const struct ops_field avg_fields[] = {
    OPS_REQUIRED(pool_attr, kernel, OPS_INTS),         OPS_FIELD(pool_attr, stride, OPS_INTS),
    OPS_FIELD(pool_attr, padding, OPS_INTS),           OPS_FIELD(pool_attr, ceil_mode, OPS_BOOL),
    OPS_FIELD(pool_attr, count_include_pad, OPS_BOOL), {0}};
static const struct pool_attr pool_default = {.count_include_pad = 1};
static const struct ops_field adaptive_fields[] = {{"output_size", OPS_SIZES, 0, NULL, true}, {0}};
static const struct ops_field nearest_fields[] = {
    OPS_FIELD(resample_attr, scale, OPS_FLOATS), OPS_FIELD(resample_attr, size, OPS_INTS), {0}};
static const struct ops_field bilinear_fields[] = {
    OPS_FIELD(resample_attr, scale, OPS_FLOATS),
    OPS_FIELD(resample_attr, size, OPS_INTS),
    OPS_FIELD(resample_attr, align_corners, OPS_BOOL),
    {0}};
static const struct ops_field unpool_fields[] = {OPS_REQUIRED(unpool_attr, kernel, OPS_INTS),
                                                 OPS_FIELD(unpool_attr, stride, OPS_INTS),
                                                 OPS_FIELD(unpool_attr, padding, OPS_INTS),
                                                 OPS_FIELD(unpool_attr, output_size, OPS_INTS),
                                                 {0}};
static const struct ops_field lrn_fields[] = {OPS_REQUIRED(lrn_attr, size, OPS_INT),
                                              OPS_FIELD(lrn_attr, alpha, OPS_FLOAT),
                                              OPS_FIELD(lrn_attr, beta, OPS_FLOAT),
                                              OPS_FIELD(lrn_attr, k, OPS_FLOAT),
                                              {0}};
static const struct lrn_attr lrn_default = {.alpha = 1e-4f, .beta = 0.75f, .k = 1.0f};

/* Primitives with a description of their own kind that work on numbers of 16 bits as a whole, or on
 * some planes at a time. */
#define INTERNAL_LOW(id, type, rule)                                                               \
    .variant = id, .attr_bytes = sizeof(struct type), .is_internal = true, .low_rule = rule,       \
    .low_out = 1
#define INTERNAL(id, type) INTERNAL_LOW(id, type, OPS_LOW_WHOLE)
#define POOLING(id, text, ins, grad_)                                                              \
    [id] = {OPS_PRIMITIVE(text, ins, ins, infer_pool, POOL, describe_pool, grad_),                 \
            INTERNAL_LOW(id, pool_shape, OPS_LOW_PLANES),                                          \
            .planes = planes_of_pool,                                                              \
            .blocked = 3,                                                                          \
            .blocked_out = 3,                                                                      \
            .takes_block = pool_takes_block}
#define RESAMPLING(id, text)                                                                       \
    [id] = {OPS_PRIMITIVE(text, 1, 1, infer_resample, RESAMPLE, describe_resample, grad_pool),     \
            INTERNAL(id, resample_shape), .blocked = 1, .blocked_out = 1}
#define UNPOOLING(id, text)                                                                        \
    [id] = {OPS_PRIMITIVE(text, 2, 2, infer_unpool, UNPOOL, describe_unpool, grad_unpool),         \
            INTERNAL(id, plane)}
#define TORCH(id, text, n, kind, build_, type, fields_, defaults_)                                 \
    [id] = {OPS_COMPOSITE(text, n, n, build_), .variant = kind,                                    \
            OPS_ATTR(struct type, fields_, defaults_)}
#define WINDOWS(id, text, kind, fields_)                                                           \
    TORCH(id, text, 1, kind, build_pool, pool_attr, fields_, &pool_default)

static const struct ops_def rows[ROW_COUNT] = {
    POOLING(ROW_MAX, "max_pool", 1, grad_pool),
    POOLING(ROW_MAX_GRAD, "max_pool_grad", 2, NULL),
    POOLING(ROW_AVG, "avg_pool", 1, grad_pool),
    POOLING(ROW_AVG_GRAD, "avg_pool_grad", 1, grad_pool),
    POOLING(ROW_ADAPTIVE, "adaptive_pool", 1, grad_pool),
    POOLING(ROW_ADAPTIVE_GRAD, "adaptive_pool_grad", 1, grad_pool),
    RESAMPLING(ROW_RESAMPLE, "resample"),
    RESAMPLING(ROW_RESAMPLE_GRAD, "resample_grad"),
    UNPOOLING(ROW_UNPOOL, "unpool"),
    UNPOOLING(ROW_UNPOOL_GRAD, "unpool_grad"),
    [ROW_WINDOW] = {OPS_PRIMITIVE("channel_window", 1, 1, infer_window, CHANNEL_WINDOW,
                                  describe_window, grad_window),
                    INTERNAL(ROW_WINDOW, window_attr)},
    [ROW_MAX_INDEX] = {OPS_PRIMITIVE("max_pool_index", 1, 1, infer_index, POOL, describe_pool,
                                     NULL),
                       .variant = ROW_MAX_INDEX, .attr_bytes = sizeof(struct pool_shape),
                       .is_internal = true},
    WINDOWS(ROW_MAX1D, "max_pool1d", 1, max_fields),
    WINDOWS(ROW_MAX2D, "max_pool2d", 2, max_fields),
    WINDOWS(ROW_MAX3D, "max_pool3d", 3, max_fields),
    WINDOWS(ROW_AVG1D, "avg_pool1d", 11, avg_fields),
    WINDOWS(ROW_AVG2D, "avg_pool2d", 12, avg_fields),
    WINDOWS(ROW_AVG3D, "avg_pool3d", 13, avg_fields),
    TORCH(ROW_ADAPTIVE2D, "adaptive_avg_pool2d", 1, 0, build_adaptive, ops_ints, adaptive_fields,
          NULL),
    TORCH(ROW_NEAREST2D, "upsample_nearest2d", 1, ROW_NEAREST2D, build_resample, resample_attr,
          nearest_fields, NULL),
    TORCH(ROW_BILINEAR2D, "upsample_bilinear2d", 1, ROW_BILINEAR2D, build_resample, resample_attr,
          bilinear_fields, NULL),
    TORCH(ROW_MAX_UNPOOL2D, "max_unpool2d", 2, 0, build_unpool, unpool_attr, unpool_fields, NULL),
    TORCH(ROW_LRN, "lrn", 1, 0, build_lrn, lrn_attr, lrn_fields, &lrn_default),
};

const struct ops_family ops_pool_family = {rows, ROW_COUNT};
