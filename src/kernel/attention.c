/* attention.c - softmax(q k^T) v without the score matrix.
 *
 * One row (a head of a batch element) is one piece of work; it walks blocks of BLOCK queries
 * against all keys. Per thread: k (and v for the gradient) transposed, and one or two blocks of
 * scores. The gradient remakes the scores from the saved log of the row sums. */
#include <omp.h>

#include "kernel/internal.h"

#define BLOCK 32
#define TILE_M 8
#define TILE_N 32

/* c[m][n] (+)= sum_k a[m*am + k*ak] * b[k*ldb + n], tiles kept in registers. Multiply and add are
 * one instruction where there is one: other bits on other instruction sets, twice the speed. */
KERNEL_CLONES KERNEL_CONTRACT static void product(int64_t m, int64_t n, int64_t k, const float *a,
                                                  int64_t am, int64_t ak, const float *restrict b,
                                                  int64_t ldb, float *restrict c, int64_t ldc,
                                                  float scale, bool add)
{
    KERNEL_CONTRACT_BODY
    for (int64_t i0 = 0; i0 < m; i0 += TILE_M)
        for (int64_t j0 = 0; j0 < n; j0 += TILE_N) {
            int64_t mm = m - i0 < TILE_M ? m - i0 : TILE_M, nn = n - j0 < TILE_N ? n - j0 : TILE_N;
            float acc[TILE_M][TILE_N] = {{0}};
            if (mm == TILE_M && nn == TILE_N) {
                for (int64_t p = 0; p < k; p++) {
                    const float *restrict row = b + p * ldb + j0;
                    for (int i = 0; i < TILE_M; i++) {
                        const float v = a[(i0 + i) * am + p * ak];
                        for (int j = 0; j < TILE_N; j++)
                            acc[i][j] += v * row[j];
                    }
                }
            } else {
                for (int64_t p = 0; p < k; p++)
                    for (int64_t i = 0; i < mm; i++)
                        for (int64_t j = 0; j < nn; j++)
                            acc[i][j] += a[(i0 + i) * am + p * ak] * b[p * ldb + j0 + j];
            }
            for (int64_t i = 0; i < mm; i++)
                for (int64_t j = 0; j < nn; j++) {
                    float *to = c + (i0 + i) * ldc + j0 + j;
                    *to = (add ? *to : 0.0f) + scale * acc[i][j];
                }
        }
}

KERNEL_CLONES static void transpose(int64_t rows, int64_t columns, const float *x, float *y)
{
    for (int64_t j0 = 0; j0 < columns; j0 += 16)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = j0; j < kernel_min(columns, j0 + 16); j++)
                y[j * rows + i] = x[i * columns + j];
}

struct attention_job {
    const struct kernel_attention *a;
    const float *q, *k, *v, *mask, *o, *lse_in, *d_o;
    float *out, *lse, *dq, *dk, *dv;
    float *workspace;
    int64_t workspace_floats; /* per thread */
};

static int64_t thread_floats(const struct kernel_attention *a)
{
    return (a->d + a->dv + 2 * BLOCK) * a->tk;
}

/* Floats of one operand [rows, T, d] of a packed call, taken apart in the workspace. */
static int64_t part_floats(const struct kernel_attention *a)
{
    return a->rows * a->tq * a->d;
}

static uint64_t need_bytes(const struct kernel_context *c, const struct kernel_attention *a,
                           int parts)
{
    int64_t floats = (int64_t)kernel_threads(c) * thread_floats(a);
    return (uint64_t)(floats + (a->heads ? parts * part_floats(a) : 0)) * sizeof(float);
}

KERNEL_NEED(attention) /* q, k, v, o */
{
    need->workspace_bytes = need_bytes(c, desc, 4);
    return EBB_OK;
}

KERNEL_NEED(attention_grad) /* q, k, v, do, dq, dk, dv */
{
    need->workspace_bytes = need_bytes(c, desc, 7);
    return EBB_OK;
}

/* Of one row: products of its blocks, forward. */
static int64_t work(const struct kernel_attention *a)
{
    return a->tq * a->tk * (a->d + a->dv);
}

/* Heads [B, H, T, d] from or to the packed [B, T, parts, H, d]. */
struct heads_job {
    const struct kernel_attention *a;
    const float *from;
    float *to;
    int parts, part;
    bool is_back;
};

static void heads_body(void *argument, int64_t first, int64_t last)
{
    const struct heads_job *j = argument;
    int64_t heads = j->a->heads, t = j->a->tq, d = j->a->d;
    for (int64_t row = first; row < last; row++)
        for (int64_t i = 0; i < t; i++) {
            int64_t packed =
                (((row / heads * t + i) * j->parts + j->part) * heads + row % heads) * d;
            int64_t plain = (row * t + i) * d;
            memcpy(j->to + (j->is_back ? packed : plain), j->from + (j->is_back ? plain : packed),
                   (size_t)d * sizeof(float));
        }
}

static enum ebb_status turn_heads(struct kernel_context *c, struct heads_job job)
{
    return kernel_parallel(c, job.a->rows, job.a->tq * job.a->d, heads_body, &job);
}

/* Keys that some query of i0 .. i0 + count - 1 may see. */
static int64_t visible(const struct kernel_attention *a, int64_t i0, int64_t count)
{
    if (!a->is_causal)
        return a->tk;
    return kernel_max(0, kernel_min(a->tk, i0 + count + a->tk - a->tq));
}

/* Scores of queries i0.. of one row towards the first `seen` keys, masked with minus infinity. */
static void scores(const struct attention_job *j, int64_t row, int64_t i0, int64_t count,
                   int64_t seen, const float *kt, float *s)
{
    const struct kernel_attention *a = j->a;
    product(count, seen, a->d, j->q + (row * a->tq + i0) * a->d, a->d, 1, kt, a->tk, s, a->tk,
            a->scale, false);
    const float *mask = NULL;
    if (a->mask_rows)
        mask = j->mask + row / a->mask_period % a->mask_rows * a->tq * a->tk;
    for (int64_t i = 0; i < count; i++) {
        if (a->is_causal)
            for (int64_t p = kernel_max(0, i0 + i + 1 + a->tk - a->tq); p < seen; p++)
                s[i * a->tk + p] = -INFINITY;
        for (int64_t p = 0; mask && p < seen; p++)
            s[i * a->tk + p] += mask[(i0 + i) * a->tk + p];
    }
}

KERNEL_CLONES static void exp_row(int64_t n, float *x, float shift)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = kernel_expf(x[i] - shift);
}

KERNEL_CLONES static void scale_row(int64_t n, float *x, float scale)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= scale;
}

/* ds = p (ds - dot) */
KERNEL_CLONES static void slope_row(int64_t n, const float *restrict p, float *restrict ds,
                                    float dot)
{
    for (int64_t i = 0; i < n; i++)
        ds[i] = p[i] * (ds[i] - dot);
}

static float *thread_space(const struct attention_job *j)
{
    return j->workspace + omp_get_thread_num() * j->workspace_floats;
}

static void forward_body(void *argument, int64_t first, int64_t last)
{
    const struct attention_job *j = argument;
    const struct kernel_attention *a = j->a;
    float *kt = thread_space(j), *s = kt + (a->d + a->dv) * a->tk;
    for (int64_t row = first; row < last; row++) {
        transpose(a->tk, a->d, j->k + row * a->tk * a->d, kt);
        for (int64_t i0 = 0; i0 < a->tq; i0 += BLOCK) {
            int64_t count = kernel_min(BLOCK, a->tq - i0), seen = visible(a, i0, count);
            scores(j, row, i0, count, seen, kt, s);
            for (int64_t i = 0; i < count; i++) {
                float *p = s + i * a->tk, m = kernel_max_row(seen, p, -INFINITY);
                exp_row(seen, p, m == -INFINITY ? 0.0f : m);
                double sum = kernel_sum_row(seen, p);
                scale_row(seen, p, (float)(1.0 / sum));
                if (j->lse)
                    j->lse[row * a->tq + i0 + i] = m + (float)log(sum);
            }
            if (j->out)
                product(count, a->dv, seen, s, a->tk, 1, j->v + row * a->tk * a->dv, a->dv,
                        j->out + (row * a->tq + i0) * a->dv, a->dv, 1.0f, false);
        }
    }
}

static enum ebb_status run_packed(struct kernel_context *c, const struct kernel_attention *a,
                                  const struct kernel_args *args)
{
    int64_t n = part_floats(a);
    float *parts = (float *)args->workspace + (int64_t)kernel_threads(c) * thread_floats(a);
    for (int p = 0; p < 3; p++)
        EBB_TRY(turn_heads(c, (struct heads_job){a, args->in[0], parts + p * n, 3, p, false}));
    struct attention_job job = {.a = a,
                                .q = parts,
                                .k = parts + n,
                                .v = parts + 2 * n,
                                .out = args->out[0] ? parts + 3 * n : NULL,
                                .lse = args->out[1],
                                .workspace = args->workspace,
                                .workspace_floats = thread_floats(a)};
    EBB_TRY(kernel_parallel(c, a->rows, work(a), forward_body, &job));
    return job.out ? turn_heads(c, (struct heads_job){a, job.out, args->out[0], 1, 0, true})
                   : EBB_OK;
}

KERNEL_CPU(attention)
{
    const struct kernel_attention *a = desc;
    if (a->heads)
        return run_packed(c, a, args);
    struct attention_job job = {.a = a,
                                .q = args->in[0],
                                .k = args->in[1],
                                .v = args->in[2],
                                .mask = args->in[3],
                                .out = args->out[0],
                                .lse = args->out[1],
                                .workspace = args->workspace,
                                .workspace_floats = thread_floats(a)};
    return kernel_parallel(c, a->rows, work(a), forward_body, &job);
}

static void backward_block(const struct attention_job *j, int64_t row, int64_t i0, const float *kt,
                           const float *vt, float *p, float *ds)
{
    const struct kernel_attention *a = j->a;
    int64_t count = kernel_min(BLOCK, a->tq - i0), at = row * a->tq + i0;
    int64_t seen = visible(a, i0, count);
    scores(j, row, i0, count, seen, kt, p);
    for (int64_t i = 0; i < count; i++)
        exp_row(seen, p + i * a->tk, j->lse_in[at + i]);
    if (j->dv)
        product(seen, a->dv, count, p, 1, a->tk, j->d_o + at * a->dv, a->dv,
                j->dv + row * a->tk * a->dv, a->dv, 1.0f, true);
    if (!j->dq && !j->dk)
        return;
    product(count, seen, a->dv, j->d_o + at * a->dv, a->dv, 1, vt, a->tk, ds, a->tk, 1.0f, false);
    for (int64_t i = 0; i < count;
         i++) { /* sum(p ds), not dO O: a single key has slope 0 exactly */
        float dot = (float)kernel_dot_row(seen, p + i * a->tk, ds + i * a->tk);
        slope_row(seen, p + i * a->tk, ds + i * a->tk, dot);
    }
    if (j->dq)
        product(count, a->d, seen, ds, a->tk, 1, j->k + row * a->tk * a->d, a->d, j->dq + at * a->d,
                a->d, a->scale, false);
    if (j->dk)
        product(seen, a->d, count, ds, 1, a->tk, j->q + at * a->d, a->d, j->dk + row * a->tk * a->d,
                a->d, a->scale, true);
}

static void backward_body(void *argument, int64_t first, int64_t last)
{
    const struct attention_job *j = argument;
    const struct kernel_attention *a = j->a;
    float *kt = thread_space(j), *vt = kt + a->d * a->tk, *p = vt + a->dv * a->tk;
    for (int64_t row = first; row < last; row++) {
        transpose(a->tk, a->d, j->k + row * a->tk * a->d, kt);
        transpose(a->tk, a->dv, j->v + row * a->tk * a->dv, vt);
        if (j->dv)
            memset(j->dv + row * a->tk * a->dv, 0, (size_t)(a->tk * a->dv) * sizeof(float));
        if (j->dk)
            memset(j->dk + row * a->tk * a->d, 0, (size_t)(a->tk * a->d) * sizeof(float));
        for (int64_t i0 = 0; i0 < a->tq; i0 += BLOCK)
            backward_block(j, row, i0, kt, vt, p, p + BLOCK * a->tk);
    }
}

static enum ebb_status run_packed_grad(struct kernel_context *c, const struct kernel_attention *a,
                                       const struct kernel_args *args)
{
    int64_t n = part_floats(a);
    float *parts = (float *)args->workspace + (int64_t)kernel_threads(c) * thread_floats(a);
    for (int p = 0; p < 3; p++)
        EBB_TRY(turn_heads(c, (struct heads_job){a, args->in[0], parts + p * n, 3, p, false}));
    EBB_TRY(turn_heads(c, (struct heads_job){a, args->in[3], parts + 3 * n, 1, 0, false}));
    struct attention_job job = {.a = a,
                                .q = parts,
                                .k = parts + n,
                                .v = parts + 2 * n,
                                .lse_in = args->in[2],
                                .d_o = parts + 3 * n,
                                .dq = parts + 4 * n,
                                .dk = parts + 5 * n,
                                .dv = parts + 6 * n,
                                .workspace = args->workspace,
                                .workspace_floats = thread_floats(a)};
    EBB_TRY(kernel_parallel(c, a->rows, 2 * work(a), backward_body, &job));
    for (int p = 0; p < 3; p++)
        EBB_TRY(
            turn_heads(c, (struct heads_job){a, parts + (4 + p) * n, args->out[0], 3, p, true}));
    return EBB_OK;
}

KERNEL_CPU(attention_grad)
{
    const struct kernel_attention *a = desc;
    if (a->heads)
        return run_packed_grad(c, a, args);
    struct attention_job job = {.a = a,
                                .q = args->in[0],
                                .k = args->in[1],
                                .v = args->in[2],
                                .o = args->in[3],
                                .lse_in = args->in[4],
                                .d_o = args->in[5],
                                .mask = args->in[6],
                                .dq = args->out[0],
                                .dk = args->out[1],
                                .dv = args->out[2],
                                .workspace = args->workspace,
                                .workspace_floats = thread_floats(a)};
    return kernel_parallel(c, a->rows, 2 * work(a), backward_body, &job);
}
