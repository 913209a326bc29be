/* matmul_own.c - small matrix products in float32, summed in double.
 *
 * A block of the result is one piece of work: ROWS x COLUMNS. Its columns go in panels of WIDE: of them a
 * slice of b is laid out in doubles once and meets all rows of the block, TALL at a time, whose sums stay in
 * registers. Every sum begins with the bias, or what is added to, and goes over k in order. A product
 * of two floats is exact in double, so whether multiply and add are one instruction changes no
 * bit: they are the same for every shape of block and on every processor.
 *
 * Sums of a few terms (the share of one step in the gradient of weights) are bound by the result's way through memory:
 * they go row by row in floats, in order, and are added last: again the same everywhere. */
#include "kernel/internal.h"

#define ROWS 24
#define COLUMNS 64
#define WIDE 8
#define TALL 6
#define DEEP 256 /* of a slice: 16 KiB */

struct own_job {
    const struct kernel_matmul *m;
    const float *a, *b, *bias;
    float *out;
    int64_t row_blocks, column_blocks; /* of each product of the batch */
};

/* sum[i][j] += a[i*si + p*sp] * b[p][j] over `deep` p, for `tall` rows. */
static inline __attribute__((always_inline)) void tile(int tall, int64_t deep, const float *a,
                                                       int64_t si, int64_t sp,
                                                       const double (*restrict b)[WIDE],
                                                       double (*restrict sum)[WIDE])
{
    double kept[TALL][WIDE];
    for (int i = 0; i < tall; i++)
        for (int j = 0; j < WIDE; j++)
            kept[i][j] = sum[i][j];
    for (int64_t p = 0; p < deep; p++)
        for (int i = 0; i < tall; i++) {
            const double v = (double)a[i * si + p * sp];
            for (int j = 0; j < WIDE; j++)
                kept[i][j] += v * b[p][j];
        }
    for (int i = 0; i < tall; i++)
        for (int j = 0; j < WIDE; j++)
            sum[i][j] = kept[i][j];
}

KERNEL_CLONES KERNEL_CONTRACT static void own_tiles(int64_t rows, int64_t deep, const float *a,
                                                    int64_t si, int64_t sp,
                                                    const double (*restrict b)[WIDE],
                                                    double (*restrict sum)[WIDE])
{
    KERNEL_CONTRACT_BODY
    int64_t i = 0;
    for (; i + TALL <= rows; i += TALL)
        tile(TALL, deep, a + i * si, si, sp, b, sum + i);
    for (; i + 2 <= rows; i += 2)
        tile(2, deep, a + i * si, si, sp, b, sum + i);
    if (i < rows)
        tile(1, deep, a + i * si, si, sp, b, sum + i);
}

/* A slice of `wide` columns; those that are missing are zeros. */
KERNEL_CLONES static void own_slice(int64_t deep, int64_t wide, const float *b, int64_t sp,
                                    int64_t sj, double (*restrict to)[WIDE])
{
    if (wide == WIDE && sj == 1) {
        for (int64_t p = 0; p < deep; p++)
            for (int j = 0; j < WIDE; j++)
                to[p][j] = (double)b[p * sp + j];
        return;
    }
    for (int64_t j = 0; j < WIDE; j++)
        for (int64_t p = 0; p < deep; p++)
            to[p][j] = j < wide ? (double)b[p * sp + j * sj] : 0.0;
}

struct own_block {
    const float *a, *b;
    int64_t rows, out; /* out: of its first element */
    int64_t column;    /* of the bias */
};

static void own_panel(const struct own_job *job, const struct own_block *k, int64_t wide)
{
    const struct kernel_matmul *m = job->m;
    const int r = m->rank;
    const int64_t n = m->c_dims[r - 1], depth = m->a_dims[r - 1];
    const int64_t si = m->a_strides[r - 2], sp = m->a_strides[r - 1];
    double sum[ROWS][WIDE] = {{0}}, slice[DEEP][WIDE];
    float *out = job->out + k->out;
    for (int64_t i = 0; i < k->rows; i++)
        for (int64_t j = 0; j < wide; j++)
            sum[i][j] = m->adds     ? (double)out[i * n + j]
                        : job->bias ? (double)job->bias[k->column + j]
                                    : 0.0;
    for (int64_t p = 0; p < depth; p += DEEP) {
        int64_t deep = kernel_min(DEEP, depth - p);
        own_slice(deep, wide, k->b + p * m->b_strides[r - 2], m->b_strides[r - 2],
                  m->b_strides[r - 1], slice);
        own_tiles(k->rows, deep, k->a + p * sp, si, sp, (const double(*)[WIDE])slice, sum);
    }
    for (int64_t i = 0; i < k->rows; i++)
        for (int64_t j = 0; j < wide; j++) {
            float value = (float)sum[i][j];
            out[i * n + j] = m->has_relu && value < 0.0f ? 0.0f : value;
        }
}

/* ---- few terms ------------------------------------------------------------------------------- */

/* A row of the result: out[j] = its begin + (a[0] b[0][j] + ...) */
static inline __attribute__((always_inline)) void thin_row(int depth, int64_t n, const float *a,
                                                           const float *restrict b, int64_t sp,
                                                           const float *restrict begin,
                                                           float *restrict out)
{
    for (int64_t j = 0; j < n; j++) {
        float sum = a[0] * b[j];
        for (int p = 1; p < depth; p++)
            sum += a[p] * b[p * sp + j];
        out[j] = begin ? begin[j] + sum : sum;
    }
}

static inline __attribute__((always_inline)) void thin_sum(int depth, int64_t n, const float *a,
                                                           const float *restrict b, int64_t sp,
                                                           float *restrict out)
{
    for (int64_t j = 0; j < n; j++) {
        float sum = a[0] * b[j];
        for (int p = 1; p < depth; p++)
            sum += a[p] * b[p * sp + j];
        out[j] += sum;
    }
}

#define DEPTHS(X) X(1) X(2) X(3) X(4)

KERNEL_CLONES static void thin_rows(void *argument, int64_t first, int64_t last)
{
    const struct own_job *job = argument;
    const struct kernel_matmul *m = job->m;
    const int64_t n = m->c_dims[1], sp = m->b_strides[0];
    for (int64_t i = first; i < last; i++) {
        float a[KERNEL_THIN];
        float *out = job->out + i * n;
        for (int p = 0; p < m->a_dims[1]; p++)
            a[p] = job->a[i * m->a_strides[0] + p * m->a_strides[1]];
        switch (m->a_dims[1]) {
#define X(depth)                                                                                   \
    case depth:                                                                                    \
        if (m->adds)                                                                               \
            thin_sum(depth, n, a, job->b, sp, out);                                                \
        else                                                                                       \
            thin_row(depth, n, a, job->b, sp, job->bias, out);                                     \
        break;
            DEPTHS(X)
#undef X
        }
    }
}

bool kernel_matmul_is_thin(const struct kernel_matmul *m)
{
    return m->rank == 2 && m->dtype == KERNEL_F32 && m->out_dtype == KERNEL_F32 &&
           m->a_dims[1] >= 1 && m->a_dims[1] <= KERNEL_THIN && m->b_strides[1] == 1 &&
           !m->has_relu && m->c_dims[1] >= 16;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void own_body(void *argument, int64_t first, int64_t last)
{
    const struct own_job *job = argument;
    const struct kernel_matmul *m = job->m;
    const int r = m->rank;
    const int64_t rows = m->c_dims[r - 2], n = m->c_dims[r - 1];
    for (int64_t at = first; at < last; at++) {
        int64_t batch = at / (job->row_blocks * job->column_blocks), index = batch;
        int64_t row = at / job->column_blocks % job->row_blocks * ROWS;
        int64_t column = at % job->column_blocks * COLUMNS;
        struct own_block k = {.a = job->a + row * m->a_strides[r - 2],
                              .b = job->b,
                              .rows = kernel_min(ROWS, rows - row)};
        for (int d = r - 3; d >= 0; d--) {
            k.a += m->a_dims[d] == 1 ? 0 : index % m->c_dims[d] * m->a_strides[d];
            k.b += m->b_dims[d] == 1 ? 0 : index % m->c_dims[d] * m->b_strides[d];
            index /= m->c_dims[d];
        }
        const float *b = k.b;
        for (int64_t end = kernel_min(n, column + COLUMNS); column < end; column += WIDE) {
            k.b = b + column * m->b_strides[r - 1];
            k.column = column;
            k.out = (batch * rows + row) * n + column;
            own_panel(job, &k, kernel_min(WIDE, end - column));
        }
    }
}

void kernel_matmul_own(const struct kernel_context *c, const struct kernel_matmul *m,
                       const float *a, const float *b, const float *bias, float *out)
{
    int64_t rows = m->c_dims[m->rank - 2], n = m->c_dims[m->rank - 1], batch = 1;
    struct own_job job = {.m = m,
                          .a = a,
                          .b = b,
                          .bias = m->has_bias ? bias : NULL,
                          .out = out,
                          .row_blocks = (rows + ROWS - 1) / ROWS,
                          .column_blocks = (n + COLUMNS - 1) / COLUMNS};
    if (kernel_matmul_is_thin(m)) {
        kernel_parallel(c, rows, n * m->a_dims[1], thin_rows, &job);
        return;
    }
    for (int d = 0; d < m->rank - 2; d++)
        batch *= m->c_dims[d];
    kernel_parallel(c, batch * job.row_blocks * job.column_blocks,
                    kernel_min(rows, ROWS) * kernel_min(n, COLUMNS) * m->a_dims[m->rank - 1],
                    own_body, &job);
}
