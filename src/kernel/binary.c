/* binary.c - element-wise work on several tensors with broadcasting: an index space is walked row
 * by row, neighbouring dimensions that every operand crosses evenly are merged first. */
#include "kernel/internal.h"

#define OPERANDS 4

struct walk {
    struct kernel_nd nd; /* merged; the last dimension is the row */
    int operands;
    int64_t rows, row_length, pieces_per_row, piece;
    void (*row)(const struct walk *w, int64_t n, const int64_t *offset, const int64_t *stride);
    enum kernel_binary f;
    float *y;
    const float *a, *b;
    const uint8_t *m;
    bool invert;
    float scale, fill;
    void *to;
    const void *from;
};

/* Drop dimensions of size 1, merge d into d-1 where every operand steps evenly. */
static void merge(const struct kernel_nd *in, int operands, struct kernel_nd *out)
{
    out->rank = 0;
    for (int d = 0; d < in->rank; d++) {
        if (in->dims[d] == 1)
            continue;
        int last = out->rank - 1;
        bool even = last >= 0;
        for (int k = 0; even && k < operands; k++)
            even = out->stride[k][last] == in->stride[k][d] * in->dims[d];
        if (even) {
            out->dims[last] *= in->dims[d];
        } else {
            last = out->rank++;
            out->dims[last] = in->dims[d];
        }
        for (int k = 0; k < operands; k++)
            out->stride[k][last] = in->stride[k][d];
    }
    if (out->rank == 0) {
        out->rank = 1;
        out->dims[0] = 1;
        for (int k = 0; k < operands; k++)
            out->stride[k][0] = 0;
    }
}

/* Rows that are one piece each: coordinates are counted up, not divided out. */
static void count_body(void *argument, int64_t first, int64_t last)
{
    const struct walk *w = argument;
    const struct kernel_nd *nd = &w->nd;
    int row_dim = nd->rank - 1;
    int64_t stride[OPERANDS] = {0}, offset[OPERANDS] = {0}, at[KERNEL_RANK] = {0}, row = first;
    for (int k = 0; k < w->operands; k++)
        stride[k] = nd->stride[k][row_dim];
    for (int d = row_dim - 1; d >= 0; d--) {
        at[d] = row % nd->dims[d];
        row /= nd->dims[d];
        for (int k = 0; k < w->operands; k++)
            offset[k] += at[d] * nd->stride[k][d];
    }
    for (int64_t i = first; i < last; i++) {
        w->row(w, w->row_length, offset, stride);
        for (int d = row_dim - 1; d >= 0; d--) {
            for (int k = 0; k < w->operands; k++)
                offset[k] += nd->stride[k][d];
            if (++at[d] < nd->dims[d])
                break;
            at[d] = 0;
            for (int k = 0; k < w->operands; k++)
                offset[k] -= nd->dims[d] * nd->stride[k][d];
        }
    }
}

static void walk_body(void *argument, int64_t first, int64_t last)
{
    const struct walk *w = argument;
    const struct kernel_nd *nd = &w->nd;
    int row_dim = nd->rank - 1;
    int64_t stride[OPERANDS] = {0};
    for (int k = 0; k < w->operands; k++)
        stride[k] = nd->stride[k][row_dim];
    for (int64_t i = first; i < last; i++) {
        int64_t row = i / w->pieces_per_row, begin = i % w->pieces_per_row * w->piece;
        int64_t offset[OPERANDS] = {0};
        for (int d = row_dim - 1; d >= 0; d--) {
            int64_t at = row % nd->dims[d];
            row /= nd->dims[d];
            for (int k = 0; k < w->operands; k++)
                offset[k] += at * nd->stride[k][d];
        }
        for (int k = 0; k < w->operands; k++)
            offset[k] += begin * stride[k];
        w->row(w, kernel_min(w->piece, w->row_length - begin), offset, stride);
    }
}

static enum ebb_status walk_run(const struct kernel_context *c, struct walk *w,
                                const struct kernel_nd *nd, int operands)
{
    int64_t total = 1;
    merge(nd, operands, &w->nd);
    w->operands = operands;
    for (int d = 0; d < w->nd.rank; d++)
        total *= w->nd.dims[d];
    if (total == 0)
        return EBB_OK;
    w->row_length = w->nd.dims[w->nd.rank - 1];
    w->rows = total / w->row_length;
    w->piece = kernel_min(w->row_length, KERNEL_GRAIN);
    w->pieces_per_row = (w->row_length + w->piece - 1) / w->piece;
    return kernel_parallel(c, w->rows * w->pieces_per_row, w->piece,
                           w->pieces_per_row == 1 ? count_body : walk_body, w);
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

#define BINARY_TABLE(X)                                                                            \
    X(ADD, p + q)                                                                                  \
    X(SUB, p - q)                                                                                  \
    X(MUL, p *q)                                                                                   \
    X(DIV, p / q)                                                                                  \
    X(MAXIMUM, p > q || p != p ? p : q)                                                            \
    X(MINIMUM, p < q || p != p ? p : q)                                                            \
    X(GREATER_HALF, p > q ? 1.0f : p == q ? 0.5f : 0.0f)                                           \
    X(EQUAL, p == q ? 1.0f : 0.0f)                                                                 \
    X(GATE, q > 0.0f ? p : 0.0f)

#define X(name, value)                                                                             \
    KERNEL_CLONES static void row_##name(const struct walk *w, int64_t n, const int64_t *offset,   \
                                         const int64_t *stride)                                    \
    {                                                                                              \
        float *y = w->y + offset[0];                                                               \
        const float *a = w->a + offset[1], *b = w->b + offset[2];                                  \
        const int64_t sy = stride[0], sa = stride[1], sb = stride[2];                              \
        if (sy == 1 && sa == 1 && sb == 1) {                                                       \
            KERNEL_EACH for (int64_t i = 0; i < n; i++)                                            \
            {                                                                                      \
                const float p = a[i], q = b[i];                                                    \
                y[i] = value;                                                                      \
            }                                                                                      \
        } else if (sy == 1 && sa == 1 && sb == 0) {                                                \
            const float q = b[0];                                                                  \
            KERNEL_EACH for (int64_t i = 0; i < n; i++)                                            \
            {                                                                                      \
                const float p = a[i];                                                              \
                y[i] = value;                                                                      \
            }                                                                                      \
        } else {                                                                                   \
            KERNEL_EACH for (int64_t i = 0; i < n; i++)                                            \
            {                                                                                      \
                const float p = a[i * sa], q = b[i * sb];                                          \
                y[i * sy] = value;                                                                 \
            }                                                                                      \
        }                                                                                          \
    }
BINARY_TABLE(X)
#undef X

KERNEL_CPU(binary)
{
    static void (*const rows[KERNEL_BINARY_COUNT])(const struct walk *, int64_t, const int64_t *,
                                                   const int64_t *) = {
#define X(name, value) [KERNEL_##name] = row_##name,
        BINARY_TABLE(X)
#undef X
    };
    const struct kernel_binary_desc *d = desc;
    struct walk w = {.row = rows[d->f], .y = args->out[0], .a = args->in[0], .b = args->in[1]};
    return walk_run(c, &w, &d->nd, 3);
}

/* ---- masks ---------------------------------------------------------------------------------- */

static void row_mask(const struct walk *w, int64_t n, const int64_t *offset, const int64_t *stride)
{
    float *y = w->y + offset[0];
    const float *x = w->a + offset[1];
    const uint8_t *m = w->m + offset[2];
    for (int64_t i = 0; i < n; i++) {
        bool on = (m[i * stride[2]] != 0) != w->invert;
        y[i * stride[0]] = on ? x[i * stride[1]] * w->scale : w->fill;
    }
}

KERNEL_CPU(mask)
{
    const struct kernel_mask_desc *d = desc;
    struct walk w = {.row = row_mask,
                     .y = args->out[0],
                     .a = args->in[0],
                     .m = args->in[1],
                     .invert = d->invert,
                     .scale = d->scale,
                     .fill = d->fill};
    return walk_run(c, &w, &d->nd, 3);
}

struct truth_job {
    const void *x;
    uint8_t *y;
};

static void truth_of_int(void *argument, int64_t first, int64_t last)
{
    const struct truth_job *j = argument;
    const int64_t *x = j->x;
    for (int64_t i = first; i < last; i++)
        j->y[i] = x[i] != 0;
}

static void truth_of_float(void *argument, int64_t first, int64_t last)
{
    const struct truth_job *j = argument;
    const float *x = j->x;
    for (int64_t i = first; i < last; i++)
        j->y[i] = x[i] != 0.0f;
}

KERNEL_CPU(truth)
{
    const struct kernel_count_desc *d = desc;
    struct truth_job job = {args->in[0], args->out[0]};
    return kernel_parallel(c, d->n, 1,
                           args->in_dtype[0] == KERNEL_F32 ? truth_of_float : truth_of_int, &job);
}

static void row_where(const struct walk *w, int64_t n, const int64_t *offset, const int64_t *stride)
{
    float *y = w->y + offset[0];
    const uint8_t *m = w->m + offset[1];
    const float *a = w->a + offset[2], *b = w->b + offset[3];
    for (int64_t i = 0; i < n; i++)
        y[i * stride[0]] = m[i * stride[1]] ? a[i * stride[2]] : b[i * stride[3]];
}

KERNEL_CPU(where)
{
    struct walk w = {
        .row = row_where, .y = args->out[0], .m = args->in[0], .a = args->in[1], .b = args->in[2]};
    return walk_run(c, &w, desc, 4);
}

/* ---- copies --------------------------------------------------------------------------------- */

#define ROW_COPY(name, type)                                                                       \
    static void name(const struct walk *w, int64_t n, const int64_t *offset,                       \
                     const int64_t *stride)                                                        \
    {                                                                                              \
        type *restrict to = (type *)w->to + offset[0];                                             \
        const type *restrict from = (const type *)w->from + offset[1];                             \
        const int64_t st = stride[0], sf = stride[1];                                              \
        if (st == 1 && sf == 1 && n == 16) /* a block of channels */                               \
            memcpy(to, from, 16 * sizeof *to);                                                     \
        else if (st == 1 && sf == 1)                                                               \
            memcpy(to, from, (size_t)n * sizeof *to);                                              \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i * st] = from[i * sf];                                                         \
    }
ROW_COPY(row_copy1, uint8_t)
ROW_COPY(row_copy2, uint16_t)
ROW_COPY(row_copy4, uint32_t)
ROW_COPY(row_copy8, uint64_t)

#define TILE 32

struct tiles { /* source runs along dimension `fast`, target along the last: copied in squares */
    struct kernel_nd nd;
    int fast;
    int64_t strips; /* of TILE along `fast` */
    void *to;
    const void *from;
};

#define TILE_BODY(name, type)                                                                      \
    static void name(void *argument, int64_t first, int64_t last)                                  \
    {                                                                                              \
        const struct tiles *t = argument;                                                          \
        const struct kernel_nd *nd = &t->nd;                                                       \
        int inner = nd->rank - 1;                                                                  \
        int64_t width = nd->dims[inner], source = nd->stride[1][inner];                            \
        int64_t target = nd->stride[0][t->fast], height = nd->dims[t->fast];                       \
        for (int64_t i = first; i < last; i++) {                                                   \
            int64_t index = i / t->strips, row = i % t->strips * TILE, to = 0, from = 0;           \
            for (int d = inner - 1; d >= 0; d--) {                                                 \
                if (d == t->fast)                                                                  \
                    continue;                                                                      \
                to += index % nd->dims[d] * nd->stride[0][d];                                      \
                from += index % nd->dims[d] * nd->stride[1][d];                                    \
                index /= nd->dims[d];                                                              \
            }                                                                                      \
            int64_t end = kernel_min(height, row + TILE);                                          \
            type *restrict y = (type *)t->to + to;                                                 \
            const type *restrict x = (const type *)t->from + from;                                 \
            for (int64_t column = 0; column < width; column += TILE)                               \
                for (int64_t r = row; r < end; r++)                                                \
                    for (int64_t k = column; k < kernel_min(width, column + TILE); k++)            \
                        y[r * target + k] = x[k * source + r];                                     \
        }                                                                                          \
    }
TILE_BODY(tile_body2, uint16_t)
TILE_BODY(tile_body4, uint32_t)

/* True when it was a transposition of elements of 2 or 4 bytes, and is done. */
static bool copy_tiles(const struct kernel_context *c, const struct kernel_nd *nd,
                       size_t element_bytes, void *to, const void *from)
{
    struct tiles t = {.fast = -1, .to = to, .from = from};
    int64_t total = 1;
    merge(nd, 2, &t.nd);
    int inner = t.nd.rank - 1;
    if (t.nd.stride[0][inner] != 1 || t.nd.stride[1][inner] <= 1)
        return false;
    for (int d = 0; d < inner; d++)
        if (t.nd.stride[1][d] == 1)
            t.fast = d;
    if (t.fast < 0)
        return false;
    for (int d = 0; d < t.nd.rank; d++)
        total *= t.nd.dims[d];
    if (total == 0)
        return true;
    t.strips = (t.nd.dims[t.fast] + TILE - 1) / TILE;
    int64_t rest = total / (t.nd.dims[inner] * t.nd.dims[t.fast]);
    kernel_parallel(c, rest * t.strips, t.nd.dims[inner] * TILE,
                    element_bytes == 2 ? tile_body2 : tile_body4, &t);
    return true;
}

KERNEL_CPU(copy)
{
    size_t bytes = kernel_dtype_bytes(args->in_dtype[0]);
    struct walk w = {.row = bytes == 1   ? row_copy1
                            : bytes == 2 ? row_copy2
                            : bytes == 4 ? row_copy4
                                         : row_copy8,
                     .to = args->out[0],
                     .from = args->in[0]};
    if ((bytes == 4 || bytes == 2) && copy_tiles(c, desc, bytes, args->out[0], args->in[0]))
        return EBB_OK;
    return walk_run(c, &w, desc, 2);
}

struct fill_job {
    float *y;
    float value;
};

static void fill_body(void *argument, int64_t first, int64_t last)
{
    const struct fill_job *j = argument;
    for (int64_t i = first; i < last; i++)
        j->y[i] = j->value;
}

void kernel_fill(const struct kernel_context *c, int64_t n, float *y, float value)
{
    struct fill_job job = {y, value};
    kernel_parallel(c, n, 1, fill_body, &job);
}

KERNEL_CPU(fill)
{
    const struct kernel_fill_desc *d = desc;
    if (args->out_dtype[0] == KERNEL_F32)
        kernel_fill(c, d->n, args->out[0], d->value);
    else if (d->value == 0.0f)
        memset(args->out[0], 0, (size_t)d->n * kernel_dtype_bytes(args->out_dtype[0]));
    else
        return ebb_fail(err, EBB_EUNSUPPORTED, "fill: only zeros but for F32");
    return EBB_OK;
}
