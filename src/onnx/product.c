/* product.c - products: matrices, Gemm, Einsum of two operands, determinants. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "onnx/internal.h"

/* ---- matrices --------------------------------------------------------------------------------- */

/* y = a b over the last two dimensions, the others stretched; integers modulo their type. The zeros
 * of quantised operands are taken off. */
static enum ebb_status multiply(struct onnx_call *c, const struct onnx_value *a,
                                const struct onnx_value *b, int type)
{
    int64_t adims[ONNX_RANK], bdims[ONNX_RANK], dims[ONNX_RANK], sa[ONNX_RANK], sb[ONNX_RANK];
    struct onnx_value p = *a, q = *b;
    bool is_row = p.rank == 1, is_column = q.rank == 1;
    int rank;
    if (p.rank < 1 || q.rank < 1)
        return onnx_no(c, "scalars");
    if (is_row) {
        p.dims[1] = p.dims[0];
        p.dims[0] = 1;
        p.rank = 2;
    }
    if (is_column) {
        q.dims[1] = 1;
        q.rank = 2;
    }
    int64_t m = p.dims[p.rank - 2], k = p.dims[p.rank - 1], n = q.dims[q.rank - 1];
    if (k != q.dims[q.rank - 2])
        return onnx_no(c, "sizes %" PRId64 " and %" PRId64 " do not fit", k, q.dims[q.rank - 2]);
    struct onnx_value po = p, qo = q; /* the outer dimensions */
    po.rank -= 2;
    qo.rank -= 2;
    EBB_TRY(onnx_broadcast(c, (const struct onnx_value *[]){&po, &qo}, 2, &rank, dims));
    onnx_strides(&po, rank, dims, sa);
    onnx_strides(&qo, rank, dims, sb);
    for (int d = 0; d < rank; d++) {
        adims[d] = sa[d] * m * k;
        bdims[d] = sb[d] * k * n;
    }
    int out_rank = rank;
    int64_t outer = onnx_product(dims, 0, rank), ai = 0, bi = 0, at = 0, out_dims[ONNX_RANK];
    if (rank + 2 > ONNX_RANK)
        return onnx_no(c, "too many dimensions");
    memcpy(out_dims, dims, sizeof out_dims);
    if (!is_row)
        out_dims[out_rank++] = m;
    if (!is_column)
        out_dims[out_rank++] = n;
    EBB_TRY(onnx_make(c, 0, type, out_rank, out_dims));
    EBB_TRY(onnx_work(c, (int64_t[]){c->out[0].count, k}, 2));
    struct onnx_walk w = {.rank = rank, .dims = dims};
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++, at++) {
                double sum = 0;
                uint64_t whole = 0;
                for (int64_t e = 0; e < k; e++)
                    if (p.number)
                        sum += p.number[ai + i * k + e] * q.number[bi + e * n + j];
                    else
                        whole += (uint64_t)p.integer[ai + i * k + e] *
                                 (uint64_t)q.integer[bi + e * n + j];
                if (p.number)
                    onnx_set(&c->out[0], at, sum);
                else
                    c->out[0].integer[at] = onnx_wrap(type, (int64_t)whole);
            }
        onnx_walk_next(&w, 2, (int64_t *[]){&ai, &bi}, (const int64_t *[]){adims, bdims});
    }
    return EBB_OK;
}

static enum ebb_status matmul(struct onnx_call *c)
{
    return multiply(c, &c->in[0], &c->in[1], c->in[0].type);
}

/* x minus its zero point, as 32-bit integers. */
static enum ebb_status centred(struct onnx_call *c, const struct onnx_value *x,
                               const struct onnx_value *zero, int axis, struct onnx_value *y)
{
    if (zero && zero->count != 1 && (axis < 0 || axis >= x->rank || zero->count != x->dims[axis]))
        return onnx_no(c, "zero points do not fit");
    EBB_TRY(onnx_make_value(c, y, ONNX_INT32, x->rank, x->dims));
    int64_t inner = axis >= 0 ? onnx_product(x->dims, axis + 1, x->rank) : 1;
    for (int64_t i = 0; i < x->count; i++) {
        int64_t z = !zero ? 0 : zero->integer[zero->count == 1 ? 0 : i / inner % x->dims[axis]];
        y->integer[i] = x->integer[i] - z;
    }
    return EBB_OK;
}

static enum ebb_status matmul_integer(struct onnx_call *c)
{
    struct onnx_value a, b;
    EBB_TRY(centred(c, &c->in[0], onnx_has(c, 2) ? &c->in[2] : NULL, c->in[0].rank - 2, &a));
    EBB_TRY(centred(c, &c->in[1], onnx_has(c, 3) ? &c->in[3] : NULL, c->in[1].rank - 1, &b));
    return multiply(c, &a, &b, ONNX_INT32);
}

/* a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero */
static enum ebb_status qlinear_matmul(struct onnx_call *c)
{
    struct onnx_value a, b;
    const struct onnx_value *zero = &c->in[7];
    for (size_t i = 1; i < 8; i += i == 2 ? 2 : 1)
        if (i != 3 && c->in[i].count != 1)
            return onnx_not_here(c, "scales per row");
    EBB_TRY(centred(c, &c->in[0], &c->in[2], -1, &a));
    EBB_TRY(centred(c, &c->in[3], &c->in[5], -1, &b));
    EBB_TRY(multiply(c, &a, &b, ONNX_INT32));
    double scale = onnx_get(&c->in[1], 0) * onnx_get(&c->in[4], 0) / onnx_get(&c->in[6], 0);
    int type = zero->type, low = type == ONNX_INT8 ? -128 : 0, high = type == ONNX_INT8 ? 127 : 255;
    c->out[0].type = type;
    for (int64_t i = 0; i < c->out[0].count; i++) {
        double v = nearbyint((double)c->out[0].integer[i] * scale) + onnx_get(zero, 0);
        c->out[0].integer[i] = (int64_t)fmax(low, fmin(high, v));
    }
    return EBB_OK;
}

static enum ebb_status gemm(struct onnx_call *c)
{
    const struct onnx_value *a = &c->in[0], *b = &c->in[1],
                            *bias = onnx_has(c, 2) ? &c->in[2] : NULL;
    bool ta = onnx_attr_int(c->node, "transA", 0) != 0,
         tb = onnx_attr_int(c->node, "transB", 0) != 0;
    double alpha = onnx_attr_number(c->node, "alpha", 1),
           beta = onnx_attr_number(c->node, "beta", 1);
    int64_t s[2] = {0, 0};
    if (a->rank != 2 || b->rank != 2)
        return onnx_no(c, "matrices are needed");
    int64_t m = a->dims[ta], k = a->dims[!ta], n = b->dims[!tb], at = 0;
    if (k != b->dims[tb])
        return onnx_no(c, "sizes %" PRId64 " and %" PRId64 " do not fit", k, b->dims[tb]);
    EBB_TRY(onnx_make(c, 0, a->type, 2, (int64_t[]){m, n}));
    EBB_TRY(onnx_work(c, (int64_t[]){m, n, k}, 3));
    if (bias) {
        if (bias->rank > 2)
            return onnx_no(c, "C has %d dimensions", bias->rank);
        for (int d = 0; d < bias->rank; d++)
            if (bias->dims[d] != 1 && bias->dims[d] != c->out[0].dims[2 - bias->rank + d])
                return onnx_no(c, "C does not fit");
        onnx_strides(bias, 2, c->out[0].dims, s);
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++, at++) {
            double sum = 0;
            for (int64_t e = 0; e < k; e++)
                sum +=
                    a->number[ta ? e * m + i : i * k + e] * b->number[tb ? j * k + e : e * n + j];
            onnx_set(&c->out[0], at,
                     alpha * sum + (bias ? beta * bias->number[i * s[0] + j * s[1]] : 0));
        }
    return EBB_OK;
}

/* ---- Einsum ----------------------------------------------------------------------------------- */

enum { LETTERS = 64 };

struct terms {
    char in[2][ONNX_RANK + 1], out[ONNX_RANK + 1];
    int count;
    bool is_implicit;
};

/* "...ij" with the dots as capital letters from 'A' on: at most 8 of them. */
static bool read_term(const char *text, size_t length, int rank, char *to)
{
    int letters = 0, n = 0;
    bool has_dots = false;
    for (size_t i = 0; i < length; i++)
        if (text[i] >= 'a' && text[i] <= 'z')
            letters++;
        else if (text[i] >= 'A' && text[i] <= 'Z')
            letters++;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ')
            continue;
        if (text[i] == '.') {
            if (has_dots || i + 2 >= length || text[i + 1] != '.' || text[i + 2] != '.')
                return false;
            has_dots = true;
            i += 2;
            for (int k = rank - letters; k > 0 && n < ONNX_RANK; k--)
                to[n++] = (char)('0' + k); /* counted from the right */
            continue;
        }
        bool is_letter = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z');
        if (!is_letter || n == ONNX_RANK)
            return false;
        to[n++] = text[i];
    }
    to[n] = 0;
    return rank < 0 || n == rank;
}

static enum ebb_status read_terms(struct onnx_call *c, struct terms *t)
{
    const char *text = onnx_attr_text(c->node, "equation", "");
    const char *arrow = strstr(text, "->");
    size_t end = arrow ? (size_t)(arrow - text) : strlen(text), at = 0;
    int most_dots = 0;
    for (size_t i = 0; i < c->in_count; i++) {
        size_t n = strcspn(text + at, ",");
        n = at + n > end ? end - at : n;
        if (!read_term(text + at, n, c->in[i].rank, t->in[i]))
            return onnx_no(c, "equation '%s' does not fit input %zu", text, i);
        for (const char *p = t->in[i]; *p; p++)
            if (*p >= '1' && *p <= '8' && *p - '0' > most_dots)
                most_dots = *p - '0';
        at += n + (at + n < end);
    }
    t->is_implicit = !arrow;
    if (arrow) { /* dots of the result are all that there are */
        int letters = 0;
        for (const char *p = arrow + 2; *p; p++)
            letters += *p != '.' && *p != ' ';
        bool has_dots = strstr(arrow, "...") != NULL;
        if (!read_term(arrow + 2, strlen(arrow + 2), letters + (has_dots ? most_dots : 0), t->out))
            return onnx_no(c, "equation '%s'", text);
        return EBB_OK;
    }
    int n = 0; /* dots, then letters that stand once, in order */
    for (int k = most_dots; k > 0 && n < ONNX_RANK; k--)
        t->out[n++] = (char)('0' + k);
    for (int letter = 'A'; letter <= 'z'; letter++) {
        int times = 0;
        for (size_t i = 0; i < c->in_count; i++)
            for (const char *p = t->in[i]; *p; p++)
                times += *p == letter;
        if (times == 1 && n < ONNX_RANK)
            t->out[n++] = (char)letter;
    }
    t->out[n] = 0;
    return EBB_OK;
}

static enum ebb_status einsum(struct onnx_call *c)
{
    struct terms t = {0};
    int64_t sizes[128], dims[2 * ONNX_RANK], s[3][2 * ONNX_RANK] = {{0}}, at[2 * ONNX_RANK] = {0};
    char letters[2 * ONNX_RANK + 1] = "";
    int count = 0, out_rank;
    double *sum;
    if (c->in_count > 2)
        return onnx_not_here(c, "%zu operands", c->in_count);
    EBB_TRY(read_terms(c, &t));
    for (int letter = 0; letter < 128; letter++)
        sizes[letter] = 1;
    for (size_t i = 0; i < c->in_count; i++)
        for (int d = 0; t.in[i][d]; d++) {
            int letter = t.in[i][d];
            int64_t size = c->in[i].dims[d];
            if (sizes[letter] != 1 && size != 1 && sizes[letter] != size)
                return onnx_no(c, "'%c' is %" PRId64 " and %" PRId64, letter, sizes[letter], size);
            if (!strchr(letters, letter))
                letters[count++] = (char)letter;
            sizes[letter] = size == 1 ? sizes[letter] : size;
        }
    out_rank = (int)strlen(t.out);
    int64_t out_dims[ONNX_RANK], total = 1;
    for (int d = 0; d < out_rank; d++) {
        if (!strchr(letters, t.out[d]) || strchr(t.out + d + 1, t.out[d]))
            return onnx_no(c, "'%c' of the result", t.out[d]);
        out_dims[d] = sizes[(int)t.out[d]];
    }
    EBB_TRY(onnx_make(c, 0, c->in[0].type, out_rank, out_dims));
    EBB_TRY(onnx_take(c, c->out[0].count, &sum, sizeof *sum));
    for (int k = 0; k < count; k++) {
        int letter = letters[k];
        dims[k] = sizes[letter];
        if (__builtin_mul_overflow(total, dims[k], &total) || total > ONNX_ELEMENTS)
            return onnx_no(c, "too many products");
        for (size_t i = 0; i <= c->in_count; i++) {
            const char *term = i < c->in_count ? t.in[i] : t.out;
            const int64_t *sizes_ = i < c->in_count ? c->in[i].dims : out_dims;
            int64_t step = 1;
            for (int d = (int)strlen(term) - 1; d >= 0; d--) {
                if (term[d] == letter && sizes_[d] > 1)
                    s[i < c->in_count ? i : 2][k] += step;
                step *= sizes_[d];
            }
        }
    }
    EBB_TRY(onnx_work(c, &total, 1));
    for (int64_t n = 0; n < total; n++) {
        int64_t o[3] = {0, 0, 0};
        for (int k = 0; k < count; k++)
            for (int i = 0; i < 3; i++)
                o[i] += at[k] * s[i][k];
        double v = c->in[0].number[o[0]];
        sum[o[2]] += c->in_count > 1 ? v * c->in[1].number[o[1]] : v;
        for (int k = count - 1; k >= 0 && ++at[k] == dims[k]; k--)
            at[k] = 0;
    }
    for (int64_t i = 0; i < c->out[0].count; i++)
        onnx_set(&c->out[0], i, sum[i]);
    return EBB_OK;
}

/* ---- determinants ----------------------------------------------------------------------------- */

static double determinant(double *m, int64_t n)
{
    double product = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            best = fabs(m[i * n + k]) > fabs(m[best * n + k]) ? i : best;
        if (!(fabs(m[best * n + k]) > 0))
            return 0;
        for (int64_t j = 0; best != k && j < n; j++) {
            double swap = m[k * n + j];
            m[k * n + j] = m[best * n + j];
            m[best * n + j] = swap;
        }
        product *= best != k ? -m[k * n + k] : m[k * n + k];
        for (int64_t i = k + 1; i < n; i++) {
            double f = m[i * n + k] / m[k * n + k];
            for (int64_t j = k; j < n; j++)
                m[i * n + j] -= f * m[k * n + j];
        }
    }
    return product;
}

static enum ebb_status det(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    double *m;
    if (x->rank < 2 || x->dims[x->rank - 1] != x->dims[x->rank - 2])
        return onnx_no(c, "square matrices are needed");
    int64_t n = x->dims[x->rank - 1];
    EBB_TRY(onnx_make(c, 0, x->type, x->rank - 2, x->dims));
    EBB_TRY(onnx_take(c, n * n, &m, sizeof *m));
    EBB_TRY(onnx_work(c, (int64_t[]){x->count, n}, 2));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        memcpy(m, x->number + i * n * n, (size_t)(n * n) * sizeof *m);
        onnx_set(&c->out[0], i, determinant(m, n));
    }
    return EBB_OK;
}

/* ---- rows ------------------------------------------------------------------------------------- */

static const struct onnx_op rows[] = {
    {"MatMul", 1, 0, 2, 2, "n0", 1, matmul, 0},
    {"MatMulInteger", 10, 0, 2, 4, "q", 1, matmul_integer, 0},
    {"QLinearMatMul", 10, 20, 8, 8, "qfqqfqfq", 1, qlinear_matmul, 0},
    {"Gemm", 7, 0, 2, 3, "f0", 1, gemm, 0},
    {"Gemm", 1, 6, 3, 3, "f0", 1, gemm, 0},
    {"Einsum", 12, 0, 1, ONNX_MANY, "f0", 1, einsum, 0},
    {"Det", 11, 0, 1, 1, "f", 1, det, 0},
};

const struct onnx_ops onnx_product_ops = {rows, sizeof rows / sizeof *rows};
