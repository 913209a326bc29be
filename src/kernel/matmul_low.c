/* matmul_low.c - large products of numbers of 16 bits that the library does not multiply.
 *
 * The result is made in tiles: of each the rows of A and the columns of B are converted, multiplied in float32 and stored,
 * so that no operand is there a second time with four bytes an element. Every sum goes over all of k at once,
 * as where operands are converted whole. How large tiles are depends on shapes alone. */
#include <string.h>

#include "kernel/context.h"
#include "kernel/internal.h"

/* Bytes of a tile with what it is made of, and its least rows and columns: small where a product is thin, which takes
 * as long as reading it does. Half as many columns will do. */
#define TILE (UINT64_C(4) << 20)
#define THIN_TILE (UINT64_C(1) << 20)
#define LEAST 128
#define THIN_LEAST 16

struct tiles {
    int64_t m, n, k;       /* of the product */
    int64_t rows, columns; /* of a tile; the last ones may be smaller */
    bool is_direct;        /* the product writes into the result */
    size_t a, b, c;        /* bytes of the parts of the workspace */
};

/* Floats of a tile and of what it is made of. */
static int64_t floats_of(const struct tiles *t)
{
    return (t->rows + t->columns) * t->k + (t->is_direct ? 0 : t->rows * t->columns);
}

/* A result in float32 is written where it belongs while tiles are as wide as it is. */
static struct tiles tiles_of(const struct kernel_matmul *m)
{
    struct tiles t = {.m = m->c_dims[0], .n = m->c_dims[1], .k = m->a_dims[1]};
    bool is_thin = kernel_min(t.m, kernel_min(t.n, t.k)) <= LEAST / 2;
    int64_t most = (int64_t)((is_thin ? THIN_TILE : TILE) / sizeof(float));
    int64_t least[] = {is_thin ? THIN_LEAST : LEAST, is_thin ? THIN_LEAST : LEAST / 2};
    int64_t *sides[] = {&t.rows, &t.columns};
    t.rows = t.m;
    t.columns = t.n;
    t.is_direct = m->out_dtype == KERNEL_F32 && (t.n + least[0]) * t.k <= most;
    for (bool is_less = true; is_less && floats_of(&t) > most;) {
        int side = t.is_direct || (t.columns < t.rows && t.rows > least[0]) || t.columns <= least[1]
                       ? 0
                       : 1;
        is_less = *sides[side] > least[side];
        if (is_less)
            *sides[side] = (*sides[side] / 2 + least[side] - 1) / least[side] * least[side];
    }
    t.a = kernel_align((size_t)(t.rows * t.k) * sizeof(float));
    t.b = kernel_align((size_t)(t.columns * t.k) * sizeof(float));
    t.c = t.is_direct ? 0 : kernel_align((size_t)(t.rows * t.columns) * sizeof(float));
    return t;
}

/* The product of a tile, as it lies in the workspace: operands keep which of their sides is dense. */
static struct kernel_matmul tile_of(const struct kernel_matmul *m, bool is_direct, int64_t rows,
                                    int64_t columns)
{
    struct kernel_matmul tile = *m;
    int64_t k = m->a_dims[1];
    bool ta = m->a_strides[1] != 1, tb = m->b_strides[1] != 1;
    tile.dtype = tile.out_dtype = KERNEL_F32;
    tile.adds = is_direct && m->adds ? KERNEL_ADDS_ITSELF : KERNEL_ADDS_NOTHING;
    tile.a_dims[0] = tile.c_dims[0] = rows;
    tile.b_dims[1] = tile.c_dims[1] = columns;
    tile.a_strides[0] = ta ? 1 : k;
    tile.a_strides[1] = ta ? rows : 1;
    tile.b_strides[0] = tb ? 1 : columns;
    tile.b_strides[1] = tb ? k : 1;
    return tile;
}

bool kernel_matmul_is_low(const struct kernel_matmul *m)
{
    bool is_taken = m->dtype == KERNEL_BF16 && kernel_has_bf16();
    double all = (double)(m->c_dims[0] + m->c_dims[1]) * (double)m->a_dims[1] +
                 (double)m->c_dims[0] * (double)m->c_dims[1];
    return m->dtype != KERNEL_F32 && !is_taken && m->rank == 2 && m->adds != KERNEL_ADDS_OTHER &&
           m->a_dims[1] > 1 && m->c_dims[0] > 1 && m->c_dims[1] > 1 && all * sizeof(float) > TILE;
}

enum ebb_status kernel_matmul_low_need(struct kernel_context *c, const struct kernel_matmul *m,
                                       size_t *bytes, struct ebb_error *err)
{
    struct tiles t = tiles_of(m);
    *bytes = 0;
    for (int i = 0; i < 4; i++) { /* whole tiles, and those at both ends */
        int64_t rows = i & 1 ? t.m % t.rows : t.rows, columns = i & 2 ? t.n % t.columns : t.columns;
        struct kernel_matmul tile = tile_of(m, t.is_direct, rows, columns);
        size_t inner = 0;
        if (rows > 0 && columns > 0)
            EBB_TRY(kernel_matmul_prepare(c, &tile, &inner, err));
        *bytes = inner > *bytes ? inner : *bytes;
    }
    *bytes += t.a + t.b + t.c;
    return EBB_OK;
}

/* Lines of `count` numbers. */
struct lines {
    const void *from;
    void *to;
    int64_t from_stride, to_stride, count;
};

#define LINES(name, from_type, to_type, value)                                                     \
    KERNEL_CLONES static void name(void *argument, int64_t first, int64_t last)                    \
    {                                                                                              \
        const struct lines *l = argument;                                                          \
        for (int64_t i = first; i < last; i++) {                                                   \
            const from_type *restrict x = (const from_type *)l->from + i * l->from_stride;         \
            to_type *restrict y = (to_type *)l->to + i * l->to_stride;                             \
            for (int64_t j = 0; j < l->count; j++)                                                 \
                y[j] = value;                                                                      \
        }                                                                                          \
    }
LINES(from_bf16, uint16_t, float, kernel_from_bf16(x[j]))
LINES(from_f16, uint16_t, float, kernel_from_f16(x[j]))
LINES(to_bf16, float, uint16_t, kernel_to_bf16(x[j]))
LINES(to_f16, float, uint16_t, kernel_to_f16(x[j]))
LINES(to_float, float, float, x[j])
LINES(to_sum, float, float, y[j] + x[j])

/* `high` x `wide` numbers of a matrix, of which one stride is 1, as lines of the dense side. */
static void load(const struct kernel_context *c, int dtype, const uint16_t *x, int64_t high,
                 int64_t wide, const int64_t strides[2], float *to)
{
    bool is_turned = strides[1] != 1;
    struct lines l = {.from = x,
                      .to = to,
                      .from_stride = strides[is_turned],
                      .to_stride = is_turned ? high : wide,
                      .count = is_turned ? high : wide};
    kernel_parallel(c, is_turned ? wide : high, l.count,
                    dtype == KERNEL_BF16 ? from_bf16 : from_f16, &l);
}

static void store(const struct kernel_context *c, const float *from, int64_t rows, int64_t columns,
                  const struct kernel_matmul *m, void *out, int64_t at)
{
    int dtype = m->out_dtype;
    static const kernel_body bodies[KERNEL_DTYPES] = {
        [KERNEL_F32] = to_float, [KERNEL_BF16] = to_bf16, [KERNEL_F16] = to_f16};
    struct lines l = {.from = from,
                      .to = (char *)out + at * (dtype == KERNEL_F32 ? 4 : 2),
                      .from_stride = columns,
                      .to_stride = m->c_dims[1],
                      .count = columns};
    kernel_parallel(c, rows, columns, m->adds ? to_sum : bodies[dtype], &l);
}

enum ebb_status kernel_matmul_low(struct kernel_context *c, const struct kernel_matmul *m,
                                  const uint16_t *a, const uint16_t *b, const float *bias,
                                  void *out, void *workspace, struct ebb_error *err)
{
    struct tiles t = tiles_of(m);
    float *a_tile = workspace, *b_tile = (float *)(void *)((char *)workspace + t.a);
    float *c_tile = (float *)(void *)((char *)b_tile + t.b);
    void *inner = (char *)c_tile + t.c;
    for (int64_t i = 0; i < t.m; i += t.rows) {
        int64_t rows = kernel_min(t.rows, t.m - i);
        load(c, m->dtype, a + i * m->a_strides[0], rows, t.k, m->a_strides, a_tile);
        for (int64_t j = 0; j < t.n; j += t.columns) {
            int64_t columns = kernel_min(t.columns, t.n - j);
            struct kernel_matmul tile = tile_of(m, t.is_direct, rows, columns);
            if (i == 0 || t.columns < t.n)
                load(c, m->dtype, b + j * m->b_strides[1], t.k, columns, m->b_strides, b_tile);
            EBB_TRY(kernel_matmul_run(c, &tile, a_tile, b_tile, bias ? bias + j : NULL,
                                      t.is_direct ? (float *)out + i * t.n : c_tile, inner, err));
            if (!t.is_direct)
                store(c, c_tile, rows, columns, m, out, i * t.n + j);
        }
    }
    return EBB_OK;
}
