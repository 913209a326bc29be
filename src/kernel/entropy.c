/* entropy.c - cross entropy, of logits and of a product. Sums in double, in 64 parts that are added in
 * order. */
#include "kernel/internal.h"

#define SEGMENTS 64 /* partial sums, added in order */

/* Logits of 16 bits become float32 row by row, in rows of the workspace: one for each of a few lanes
 * that go side by side, each through segments of its own. */
#define LANES 16

static int64_t lane_count(const struct kernel_cross_entropy *e)
{
    return e->n < LANES ? kernel_max(1, e->n) : LANES;
}

static bool is_low(uint8_t dtype)
{
    return dtype == KERNEL_BF16 || dtype == KERNEL_F16;
}

bool kernel_entropy_takes(const struct kernel_cross_entropy *e, const struct kernel_args *types,
                          uint32_t logits)
{
    for (uint32_t k = 0; k < types->in_count; k++)
        if (k != logits && is_low(types->in_dtype[k]))
            return false;
    return e->inner == 1 && is_low(types->in_dtype[logits]);
}

static const void *low_row(const void *x, int64_t i, int64_t classes)
{
    return (const uint16_t *)x + i * classes;
}

static enum ebb_status check_targets(const struct kernel_cross_entropy *e, const int64_t *target,
                                     struct ebb_error *err)
{
    for (int64_t i = 0; i < e->n * e->inner; i++)
        if (target[i] != e->ignore_index && (target[i] < 0 || target[i] >= e->classes))
            return ebb_fail(err, EBB_EINPUT,
                            "cross_entropy: target %lld at element %lld, allowed are 0 to %lld",
                            (long long)target[i], (long long)i, (long long)(e->classes - 1));
    return EBB_OK;
}

/* Largest logit and log of the sum of exponentials of one position. */
static inline __attribute__((always_inline)) double log_sum(const struct kernel_cross_entropy *e,
                                                            const float *x)
{
    float m = -INFINITY;
    double sum = 0;
    if (e->inner == 1) {
        m = kernel_max_row(e->classes, x, m);
        return (double)m + log(kernel_exp_row_sum(e->classes, x, m));
    }
    for (int64_t k = 0; k < e->classes; k++)
        m = fmaxf(m, x[k * e->inner]);
    for (int64_t k = 0; k < e->classes; k++)
        sum += (double)kernel_expf(x[k * e->inner] - m);
    return (double)m + log(sum);
}

static double position_loss(const struct kernel_cross_entropy *e, const float *x, double lse,
                            int64_t t, const float *weight)
{
    double wt = weight ? (double)weight[t] : 1.0;
    double value = wt * (lse - (double)x[t * e->inner]);
    if (e->smoothing == 0.0f)
        return value;
    double smooth = 0;
    for (int64_t k = 0; k < e->classes; k++)
        smooth += (weight ? (double)weight[k] : 1.0) * (lse - (double)x[k * e->inner]);
    return (1.0 - (double)e->smoothing) * value +
           (double)e->smoothing / (double)e->classes * smooth;
}

static double weight_total(const struct kernel_cross_entropy *e, const int64_t *target,
                           const float *weight)
{
    double total = 0;
    for (int64_t i = 0; i < e->n * e->inner; i++)
        if (target[i] != e->ignore_index)
            total += weight ? (double)weight[target[i]] : 1.0;
    return total;
}

struct sum_job {
    const struct kernel_cross_entropy *e;
    const float *x, *weight;
    const int64_t *target;
    float *y, *lse; /* y: reduction none; lse: kept per position; either may be NULL */
    float *rows;    /* where x is of 16 bits, else NULL */
    uint8_t dtype;  /* of x then */
    double partial[SEGMENTS];
};

/* row: where a row of 16 bits becomes float32, else NULL */
static inline __attribute__((always_inline)) void sum_segments(struct sum_job *j, int64_t first,
                                                               int64_t last, float *row)
{
    const struct kernel_cross_entropy *e = j->e;
    int64_t n = e->n * e->inner;
    for (int64_t s = first; s < last; s++) {
        double sum = 0;
        for (int64_t i = n * s / SEGMENTS; i < n * (s + 1) / SEGMENTS; i++) {
            const float *p = row ? row : j->x + i / e->inner * e->classes * e->inner + i % e->inner;
            bool is_ignored = j->target[i] == e->ignore_index;
            if (row && !is_ignored)
                kernel_convert(NULL, e->classes, j->dtype, low_row(j->x, i, e->classes), KERNEL_F32,
                               row);
            double lse = is_ignored || e->is_log_prob ? 0.0 : log_sum(e, p);
            double v = is_ignored ? 0.0 : position_loss(e, p, lse, j->target[i], j->weight);
            if (j->y)
                j->y[i] = (float)v;
            if (j->lse)
                j->lse[i] = (float)lse;
            sum += v;
        }
        j->partial[s] = sum;
    }
}

KERNEL_CLONES static void sum_plain(void *argument, int64_t first, int64_t last)
{
    sum_segments(argument, first, last, NULL);
}

KERNEL_CLONES static void sum_low(void *argument, int64_t first, int64_t last)
{
    struct sum_job *j = argument;
    int64_t lanes = lane_count(j->e);
    for (int64_t k = first; k < last; k++)
        sum_segments(j, SEGMENTS * k / lanes, SEGMENTS * (k + 1) / lanes,
                     j->rows + k * j->e->classes);
}

static double sum_losses(const struct kernel_context *c, struct sum_job *job)
{
    const struct kernel_cross_entropy *e = job->e;
    double sum = 0;
    int64_t parts = job->rows ? lane_count(e) : SEGMENTS;
    int64_t work = kernel_max(1, e->n * e->inner * e->classes / parts);
    kernel_parallel(c, parts, work, job->rows ? sum_low : sum_plain, job);
    for (int s = 0; s < SEGMENTS; s++)
        sum += job->partial[s];
    return sum;
}

KERNEL_CPU(cross_entropy)
{
    const struct kernel_cross_entropy *e = desc;
    float *y = args->out[0];
    struct sum_job job = {.e = e, .x = args->in[0], .target = args->in[1], .weight = args->in[2]};
    job.y = e->reduction == KERNEL_REDUCE_NONE ? y : NULL;
    job.dtype = args->in_dtype[0];
    job.rows = is_low(job.dtype) ? args->workspace : NULL;
    EBB_TRY(check_targets(e, job.target, err));
    double sum = sum_losses(c, &job);
    if (e->reduction == KERNEL_REDUCE_MEAN)
        y[0] = (float)(sum / weight_total(e, job.target, job.weight));
    else if (e->reduction == KERNEL_REDUCE_SUM)
        y[0] = (float)sum;
    return EBB_OK;
}

struct entropy_job {
    const struct kernel_cross_entropy *e;
    double scale, weight_sum;
    const float *dy, *x, *weight;
    const int64_t *target;
    float *dx;
    float *rows; /* where x and dx are of 16 bits: one for each lane */
    uint8_t dtype;
};

KERNEL_CLONES static void softmax_scaled(int64_t n, const float *restrict x, float lse, float share,
                                         float *restrict dx)
{
    for (int64_t k = 0; k < n; k++)
        dx[k] = kernel_expf(x[k] - lse) * share;
}

KERNEL_CLONES static void softmax_in_place(int64_t n, float *x, float lse, float share)
{
    for (int64_t k = 0; k < n; k++)
        x[k] = kernel_expf(x[k] - lse) * share;
}

static inline __attribute__((always_inline)) void
entropy_grad_position(const struct entropy_job *j, int64_t i, const float *x, float *dx)
{
    const struct kernel_cross_entropy *e = j->e;
    int64_t t = j->target[i];
    bool is_ignored = t == e->ignore_index;
    double g = e->reduction == KERNEL_REDUCE_NONE ? (double)j->dy[i] : j->scale;
    double wt = is_ignored ? 0.0 : j->weight ? (double)j->weight[t] : 1.0;
    double smooth = (double)e->smoothing / (double)e->classes;
    float lse = is_ignored || e->is_log_prob ? 0.0f : (float)log_sum(e, x);
    float share = (float)(g * ((1.0 - (double)e->smoothing) * wt + smooth * j->weight_sum));
    bool is_smooth = !is_ignored && e->smoothing != 0.0f;
    bool is_plain = e->inner == 1 && !is_ignored && !e->is_log_prob && !is_smooth;
    if (is_plain && x == dx)
        softmax_in_place(e->classes, dx, lse, share);
    else if (is_plain)
        softmax_scaled(e->classes, x, lse, share, dx);
    for (int64_t k = 0; !is_plain && !is_smooth && k < e->classes; k++)
        dx[k * e->inner] =
            is_ignored || e->is_log_prob ? 0.0f : kernel_expf(x[k * e->inner] - lse) * share;
    for (int64_t k = 0; is_smooth && k < e->classes; k++) { /* differences first: one class has 0 */
        double p = (double)kernel_expf(x[k * e->inner] - lse);
        double w = j->weight ? (double)j->weight[k] : 1.0;
        double hit = (1.0 - (double)e->smoothing) * wt * (p - (k == t ? 1.0 : 0.0));
        dx[k * e->inner] = (float)(g * (hit + smooth * (j->weight_sum * p - w)));
    }
    if (!is_ignored && !is_smooth)
        dx[t * e->inner] -= (float)(g * (1.0 - (double)e->smoothing) * wt);
}

KERNEL_CLONES static void entropy_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct entropy_job *j = argument;
    const struct kernel_cross_entropy *e = j->e;
    for (int64_t i = first; i < last; i++) {
        int64_t base = i / e->inner * e->classes * e->inner + i % e->inner;
        entropy_grad_position(j, i, j->x + base, j->dx + base);
    }
}

KERNEL_CLONES static void entropy_grad_low(void *argument, int64_t first, int64_t last)
{
    const struct entropy_job *j = argument;
    int64_t n = j->e->n, classes = j->e->classes, lanes = lane_count(j->e);
    for (int64_t k = first; k < last; k++) {
        float *row = j->rows + k * classes;
        for (int64_t i = n * k / lanes; i < n * (k + 1) / lanes; i++) {
            kernel_convert(NULL, classes, j->dtype, low_row(j->x, i, classes), KERNEL_F32, row);
            entropy_grad_position(j, i, row, row);
            kernel_convert(NULL, classes, KERNEL_F32, row, j->dtype,
                           (uint16_t *)(void *)j->dx + i * classes);
        }
    }
}

KERNEL_CPU(cross_entropy_grad)
{
    const struct kernel_cross_entropy *e = desc;
    struct entropy_job job = {.e = e,
                              .dy = args->in[0],
                              .x = args->in[1],
                              .target = args->in[2],
                              .weight = args->in[3],
                              .dx = args->out[0],
                              .weight_sum = (double)e->classes};
    EBB_TRY(check_targets(e, job.target, err));
    if (e->reduction != KERNEL_REDUCE_NONE)
        job.scale = (double)job.dy[0];
    if (e->reduction == KERNEL_REDUCE_MEAN)
        job.scale /= weight_total(e, job.target, job.weight);
    if (job.weight) {
        job.weight_sum = 0;
        for (int64_t k = 0; k < e->classes; k++)
            job.weight_sum += (double)job.weight[k];
    }
    job.dtype = args->in_dtype[1];
    job.rows = is_low(job.dtype) ? args->workspace : NULL;
    if (job.rows)
        return kernel_parallel(c, lane_count(e),
                               kernel_max(1, e->n * e->classes * 4 / lane_count(e)),
                               entropy_grad_low, &job);
    return kernel_parallel(c, e->n * e->inner, e->classes * 4, entropy_grad_body, &job);
}

static uint64_t row_bytes(const void *desc, uint8_t dtype)
{
    const struct kernel_cross_entropy *e = desc;
    return is_low(dtype) ? (uint64_t)(e->classes * lane_count(e)) * sizeof(float) : 0;
}

KERNEL_NEED(cross_entropy)
{
    need->workspace_bytes = types ? row_bytes(desc, types->in_dtype[0]) : 0;
    return EBB_OK;
}

KERNEL_NEED(cross_entropy_grad)
{
    need->workspace_bytes = types ? row_bytes(desc, types->in_dtype[1]) : 0;
    return EBB_OK;
}

/* ---- of a product, by blocks of rows ----------------------------------------------------------
 *
 * loss(x W^T) without the logits as a whole. Forward: BLOCK rows of logits at a time in the
 * workspace; kept are the logs of the row sums. Backward: the same rows again, turned into their
 * gradients in place, then multiplied into dx and added to dW.
 *
 * x and W in BF16: logits and losses are float32 all the same, their gradients are rounded to BF16
 * for the two products; dx is BF16, dW float32. */

#define BLOCK 128

/* Targets of all rows, and the divisor of the reduction. */
static enum ebb_status block_check(const struct kernel_cross_entropy *e, const int64_t *target,
                                   double *total, struct ebb_error *err)
{
    EBB_TRY(check_targets(e, target, err));
    *total = e->reduction == KERNEL_REDUCE_MEAN ? weight_total(e, target, NULL) : 1.0;
    return EBB_OK;
}

/* Sum of the losses of its rows, lse of each. */
static double block_losses(const struct kernel_context *c, const struct kernel_cross_entropy *e,
                           const float *x, const int64_t *target, float *lse)
{
    struct sum_job job = {.e = e, .x = x, .target = target, .lse = lse};
    return sum_losses(c, &job);
}

struct block_job {
    const struct kernel_cross_entropy *e;
    float scale, *x;
    const float *lse;
    const int64_t *target;
};

static void block_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct block_job *j = argument;
    const int64_t n = j->e->classes;
    for (int64_t i = first; i < last; i++) {
        float *x = j->x + i * n;
        if (j->target[i] == j->e->ignore_index) {
            memset(x, 0, (size_t)n * sizeof *x);
            continue;
        }
        softmax_in_place(n, x, j->lse[i], j->scale);
        x[j->target[i]] -= j->scale;
    }
}

/* Logits become their gradients in place. */
static void block_grad(const struct kernel_context *c, const struct kernel_cross_entropy *e,
                       float scale, const int64_t *target, const float *lse, float *x)
{
    struct block_job job = {.e = e, .scale = scale, .x = x, .lse = lse, .target = target};
    kernel_parallel(c, e->n, e->classes * 4, block_grad_body, &job);
}

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

KERNEL_NEED(product_entropy_step)
{
    struct sizes z = sizes_of(desc, types->in_dtype[0]);
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
    EBB_TRY(block_check(&e, target, &divisor, err));
    for (int64_t at = 0; at < d->n; at += z.rows) {
        e.n = kernel_min(z.rows, d->n - at);
        struct kernel_matmul m = make(&z, LOGITS, e.n, false);
        EBB_TRY(kernel_matmul_run(c, &m, row_at(&z, args->in[0], at), args->in[1], NULL, logits,
                                  rest, err));
        sum += block_losses(c, &e, logits, target + at, lse ? lse + at : NULL);
    }
    if (loss)
        *loss = (float)(sum / divisor);
    return EBB_OK;
}

/* A block of gradients of logits into dx and dW. */
struct gradients {
    const struct sizes *z;
    const void *x, *w;
    unsigned char *dx;
    float *dw, *logits;
    void *low, *rest;
};

static enum ebb_status block_products(struct kernel_context *c, const struct gradients *g,
                                      int64_t at, int64_t count, struct ebb_error *err)
{
    const struct sizes *z = g->z;
    const void *block = row_at(z, g->x, at), *slopes = g->logits;
    struct kernel_matmul to_x = make(z, TO_X, count, false), to_w = make(z, TO_W, count, at > 0);
    if (z->dtype != KERNEL_F32) {
        kernel_convert(c, count * z->d->classes, KERNEL_F32, g->logits, z->dtype, g->low);
        slopes = g->low;
    }
    if (g->dx) {
        void *to = g->dx + ((const unsigned char *)block - (const unsigned char *)g->x);
        EBB_TRY(kernel_matmul_run(c, &to_x, slopes, g->w, NULL, to, g->rest, err));
    }
    if (g->dw)
        EBB_TRY(kernel_matmul_run(c, &to_w, slopes, block, NULL, g->dw, g->rest, err));
    return EBB_OK;
}

static struct gradients gradients_of(const struct sizes *z, const struct kernel_args *args,
                                     int first_in, int first_out)
{
    unsigned char *workspace = args->workspace;
    return (struct gradients){.z = z,
                              .x = args->in[first_in],
                              .w = args->in[first_in + 1],
                              .dx = args->out[first_out],
                              .dw = args->out[first_out + 1],
                              .logits = args->workspace,
                              .low = workspace + low_at(z),
                              .rest = workspace + rest_at(z, true)};
}

KERNEL_CPU(product_entropy_grad)
{
    const struct kernel_product_entropy_desc *d = desc;
    struct sizes z = sizes_of(d, args->in_dtype[1]);
    struct gradients g = gradients_of(&z, args, 1, 0);
    const float *dy = args->in[0], *lse = args->in[4];
    const int64_t *target = args->in[3];
    struct kernel_cross_entropy e = rows_of(d);
    double divisor;
    EBB_TRY(block_check(&e, target, &divisor, err));
    float scale = (float)((double)*dy / divisor);
    for (int64_t at = 0; at < d->n; at += z.rows) {
        e.n = kernel_min(z.rows, d->n - at);
        struct kernel_matmul m = make(&z, LOGITS, e.n, false);
        EBB_TRY(kernel_matmul_run(c, &m, row_at(&z, g.x, at), g.w, NULL, g.logits, g.rest, err));
        block_grad(c, &e, scale, target + at, lse + at, g.logits);
        EBB_TRY(block_products(c, &g, at, e.n, err));
    }
    return EBB_OK;
}

KERNEL_CPU(product_entropy_step)
{
    const struct kernel_product_entropy_desc *d = desc;
    struct sizes z = sizes_of(d, args->in_dtype[0]);
    struct gradients g = gradients_of(&z, args, 0, 1);
    const int64_t *target = args->in[2];
    float *loss = args->out[0], lse[BLOCK];
    struct kernel_cross_entropy e = rows_of(d);
    double sum = 0, divisor;
    EBB_TRY(block_check(&e, target, &divisor, err));
    for (int64_t at = 0; at < d->n; at += z.rows) {
        e.n = kernel_min(z.rows, d->n - at);
        struct kernel_matmul m = make(&z, LOGITS, e.n, false);
        EBB_TRY(kernel_matmul_run(c, &m, row_at(&z, g.x, at), g.w, NULL, g.logits, g.rest, err));
        sum += block_losses(c, &e, g.logits, target + at, lse);
        if (!g.dx && !g.dw)
            continue;
        block_grad(c, &e, (float)(1.0 / divisor), target + at, lse, g.logits);
        EBB_TRY(block_products(c, &g, at, e.n, err));
    }
    if (loss)
        *loss = (float)(sum / divisor);
    return EBB_OK;
}
