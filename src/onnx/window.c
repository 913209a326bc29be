/* window.c - windows over images: convolutions, pools, resizing. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "onnx/internal.h"

#define LARGEST (INT64_C(1) << 30) /* size of a window, a step, a frame; groups */

/* ---- attributes ------------------------------------------------------------------------------- */

enum ebb_status onnx_attr_list(const struct onnx_node *node, const char *name, size_t n,
                               int64_t least, int64_t fallback, int64_t *to, struct ebb_error *err)
{
    size_t count;
    const int64_t *v = onnx_attr_ints(node, name, &count);
    if (v && count != n)
        return ebb_fail(err, EBB_EINPUT, "%s: %s has %zu numbers, expected %zu", node->op, name,
                        count, n);
    for (size_t d = 0; d < n; d++) {
        to[d] = v ? v[d] : fallback;
        if (to[d] < least || to[d] > LARGEST)
            return ebb_fail(err, EBB_EINPUT, "%s: %s is %" PRId64, node->op, name, to[d]);
    }
    return EBB_OK;
}

/* Padding by a word; the word is one of those that there are. */
static enum ebb_status read_auto_pad(const struct onnx_node *node, const char **word,
                                     struct ebb_error *err)
{
    static const char *const words[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    *word = onnx_attr_text(node, "auto_pad", "NOTSET");
    if (ebb_name_index(*word, words, 4) < 0)
        return ebb_fail(err, EBB_EINPUT, "%s: auto_pad is '%s'", node->op, *word);
    return EBB_OK;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

enum ebb_status onnx_window_read(const struct onnx_node *node, int nd, const int64_t *sizes,
                                 const int64_t *kernel, struct onnx_window *w,
                                 struct ebb_error *err)
{
    const char *pad;
    int64_t pads[2 * ONNX_RANK];
    size_t n = (size_t)nd;
    EBB_TRY(read_auto_pad(node, &pad, err));
    bool is_same = strncmp(pad, "SAME_", 5) == 0;
    *w = (struct onnx_window){.nd = nd, .is_ceil = onnx_attr_int(node, "ceil_mode", 0) != 0};
    if (nd < 1 || nd > ONNX_RANK - 2)
        return ebb_fail(err, EBB_EINPUT, "%s: %d dimensions of places", node->op, nd);
    if (kernel)
        memcpy(w->kernel, kernel, n * sizeof *kernel);
    else
        EBB_TRY(onnx_attr_list(node, "kernel_shape", n, 1, 0, w->kernel, err));
    EBB_TRY(onnx_attr_list(node, "strides", n, 1, 1, w->stride, err));
    EBB_TRY(onnx_attr_list(node, "dilations", n, 1, 1, w->dilation, err));
    EBB_TRY(onnx_attr_list(node, "pads", 2 * n, 0, 0, pads, err));
    for (int d = 0; d < nd; d++) {
        if (w->kernel[d] < 1 || w->kernel[d] > LARGEST || sizes[d] > ONNX_ELEMENTS)
            return ebb_fail(err, EBB_EINPUT, "%s: a kernel of %" PRId64 " on %" PRId64 " places",
                            node->op, w->kernel[d], sizes[d]);
        int64_t reach = (w->kernel[d] - 1) * w->dilation[d] + 1;
        w->before[d] = pads[d];
        w->after[d] = pads[nd + d];
        if (strcmp(pad, "VALID") == 0)
            w->before[d] = w->after[d] = 0;
        if (is_same) {
            int64_t out = ceil_div(sizes[d], w->stride[d]);
            int64_t all = (out - 1) * w->stride[d] + reach - sizes[d];
            all = all < 0 ? 0 : all;
            w->before[d] = strcmp(pad, "SAME_LOWER") == 0 ? all - all / 2 : all / 2;
            w->after[d] = all - w->before[d];
        }
        int64_t span = sizes[d] + w->before[d] + w->after[d] - reach;
        if (span < 0)
            return ebb_fail(err, EBB_EINPUT, "%s: a kernel of %" PRId64 " on %" PRId64 " places",
                            node->op, reach, sizes[d]);
        w->out[d] = (w->is_ceil ? ceil_div(span, w->stride[d]) : span / w->stride[d]) + 1;
    }
    return EBB_OK;
}

/* ---- convolutions ----------------------------------------------------------------------------- */

/* Of doubles: x [n, c, ...], weights [m, c/groups, ...] */
struct conv {
    const struct onnx_value *x, *w, *bias;
    double x_zero, *w_zero; /* quantised: taken off; w_zero per channel or NULL */
    int64_t groups;
};

static double one_place(const struct conv *v, const struct onnx_window *win, int64_t n, int64_t m,
                        const int64_t *at)
{
    int nd = win->nd;
    int64_t per = v->w->dims[1], first = m / (v->w->dims[0] / v->groups) * per;
    int64_t area = onnx_product(win->kernel, 0, nd), sizes = onnx_product(v->x->dims, 2, nd + 2);
    double sum = 0, zero = v->w_zero ? v->w_zero[m] : 0;
    struct onnx_walk w = {.rank = nd, .dims = win->kernel};
    for (int64_t k = 0; k < area; k++) {
        int64_t place = 0;
        bool is_inside = true;
        for (int d = 0; d < nd; d++) {
            int64_t p = at[d] * win->stride[d] - win->before[d] + w.at[d] * win->dilation[d];
            is_inside &= p >= 0 && p < v->x->dims[2 + d];
            place = is_inside ? place * v->x->dims[2 + d] + p : 0;
        }
        for (int64_t c = 0; is_inside && c < per; c++)
            sum += (onnx_get(v->x, (n * v->x->dims[1] + first + c) * sizes + place) - v->x_zero) *
                   (onnx_get(v->w, (m * per + c) * area + k) - zero);
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    return v->bias ? sum + onnx_get(v->bias, m) : sum;
}

static enum ebb_status convolve(struct onnx_call *c, const struct conv *v, int type)
{
    struct onnx_window win;
    int64_t dims[ONNX_RANK];
    int nd = v->x->rank - 2;
    if (nd < 1 || v->w->rank != v->x->rank)
        return onnx_no(c, "%d and %d dimensions", v->x->rank, v->w->rank);
    if (v->groups < 1 || v->groups > LARGEST || v->w->dims[0] % v->groups ||
        v->x->dims[1] != v->w->dims[1] * v->groups || (v->bias && v->bias->count != v->w->dims[0]))
        return onnx_no(c, "channels, groups and weights do not fit");
    EBB_TRY(onnx_window_read(c->node, nd, v->x->dims + 2, v->w->dims + 2, &win, c->err));
    dims[0] = v->x->dims[0];
    dims[1] = v->w->dims[0];
    memcpy(dims + 2, win.out, (size_t)nd * sizeof *dims);
    EBB_TRY(onnx_make(c, 0, type, v->x->rank, dims));
    EBB_TRY(onnx_work(
        c, (int64_t[]){c->out[0].count, v->w->dims[1], onnx_product(win.kernel, 0, nd)}, 3));
    struct onnx_walk w = {.rank = v->x->rank, .dims = c->out[0].dims};
    for (int64_t i = 0; i < c->out[0].count; i++) {
        onnx_set(&c->out[0], i, one_place(v, &win, w.at[0], w.at[1], w.at + 2));
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    return EBB_OK;
}

static enum ebb_status conv(struct onnx_call *c)
{
    struct conv v = {&c->in[0], &c->in[1], onnx_has(c, 2) ? &c->in[2] : NULL,
                     0,         NULL,      onnx_attr_int(c->node, "group", 1)};
    return convolve(c, &v, c->in[0].type);
}

static enum ebb_status conv_integer(struct onnx_call *c)
{
    struct conv v = {&c->in[0], &c->in[1], NULL, 0, NULL, onnx_attr_int(c->node, "group", 1)};
    int64_t channels = c->in[1].rank ? c->in[1].dims[0] : 0;
    if ((onnx_has(c, 2) && c->in[2].count != 1) ||
        (onnx_has(c, 3) && c->in[3].count != 1 && c->in[3].count != channels))
        return onnx_no(c, "zero points do not fit");
    if (onnx_has(c, 2))
        v.x_zero = onnx_get(&c->in[2], 0);
    if (onnx_has(c, 3)) {
        EBB_TRY(onnx_take(c, channels, &v.w_zero, sizeof *v.w_zero));
        for (int64_t m = 0; m < channels; m++)
            v.w_zero[m] = onnx_get(&c->in[3], c->in[3].count == 1 ? 0 : m);
    }
    return convolve(c, &v, ONNX_INT32);
}

/* x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, B */
static enum ebb_status qlinear_conv(struct onnx_call *c)
{
    struct conv v = {&c->in[0], &c->in[3], onnx_has(c, 8) ? &c->in[8] : NULL,
                     0,         NULL,      onnx_attr_int(c->node, "group", 1)};
    const struct onnx_value *scale = &c->in[4], *zero = &c->in[7];
    if (c->in[1].count != 1 || c->in[2].count != 1 || c->in[6].count != 1 || zero->count != 1 ||
        c->in[3].rank < 1)
        return onnx_not_here(c, "scales per channel of the input");
    if ((scale->count != 1 && scale->count != c->in[3].dims[0]) || scale->count != c->in[5].count)
        return onnx_no(c, "scales do not fit");
    v.x_zero = onnx_get(&c->in[2], 0);
    EBB_TRY(onnx_take(c, c->in[3].dims[0], &v.w_zero, sizeof *v.w_zero));
    for (int64_t m = 0; m < c->in[3].dims[0]; m++)
        v.w_zero[m] = onnx_get(&c->in[5], scale->count == 1 ? 0 : m);
    EBB_TRY(convolve(c, &v, ONNX_INT32));
    int64_t inner = onnx_product(c->out[0].dims, 2, c->out[0].rank), n = c->out[0].dims[1];
    double low = zero->type == ONNX_INT8 ? -128 : 0, high = zero->type == ONNX_INT8 ? 127 : 255;
    c->out[0].type = zero->type;
    for (int64_t i = 0; i < c->out[0].count; i++) {
        double by = onnx_get(&c->in[1], 0) *
                    onnx_get(scale, scale->count == 1 ? 0 : i / inner % n) / onnx_get(&c->in[6], 0);
        double y = nearbyint((double)c->out[0].integer[i] * by) + onnx_get(zero, 0);
        c->out[0].integer[i] = (int64_t)fmax(low, fmin(high, y));
    }
    return EBB_OK;
}

static enum ebb_status transposed_window(struct onnx_call *c, int nd, struct onnx_window *w)
{
    const struct onnx_value *x = &c->in[0], *k = &c->in[1];
    const char *pad;
    int64_t pads[2 * ONNX_RANK], more[ONNX_RANK];
    size_t n = (size_t)nd, count;
    const int64_t *shape = onnx_attr_ints(c->node, "output_shape", &count);
    EBB_TRY(read_auto_pad(c->node, &pad, c->err));
    *w = (struct onnx_window){.nd = nd};
    memcpy(w->kernel, k->dims + 2, n * sizeof *w->kernel);
    EBB_TRY(onnx_attr_list(c->node, "strides", n, 1, 1, w->stride, c->err));
    EBB_TRY(onnx_attr_list(c->node, "dilations", n, 1, 1, w->dilation, c->err));
    EBB_TRY(onnx_attr_list(c->node, "pads", 2 * n, 0, 0, pads, c->err));
    EBB_TRY(onnx_attr_list(c->node, "output_padding", n, 0, 0, more, c->err));
    if (shape && count != n && count != n + 2)
        return onnx_no(c, "output_shape has %zu numbers", count);
    for (int d = 0; d < nd; d++) {
        int64_t full =
            w->stride[d] * (x->dims[2 + d] - 1) + more[d] + (w->kernel[d] - 1) * w->dilation[d] + 1;
        bool is_same = strncmp(pad, "SAME_", 5) == 0;
        int64_t want = shape ? shape[count - n + (size_t)d] : x->dims[2 + d] * w->stride[d];
        w->before[d] = pads[d];
        w->after[d] = pads[nd + d];
        if (want < 0 || want > ONNX_ELEMENTS || w->kernel[d] < 1 || w->kernel[d] > LARGEST)
            return onnx_no(c, "a size of %" PRId64 ", a kernel of %" PRId64, want, w->kernel[d]);
        if (shape || is_same) {
            int64_t all = full - want < 0 ? 0 : full - want;
            w->before[d] = strcmp(pad, "SAME_UPPER") == 0 ? all / 2 : all - all / 2;
            w->after[d] = all - w->before[d];
            w->out[d] = want;
        } else {
            w->out[d] = full - w->before[d] - w->after[d];
        }
        if (w->out[d] < 0)
            return onnx_no(c, "a size of the result is %" PRId64, w->out[d]);
    }
    return EBB_OK;
}

static enum ebb_status conv_transpose(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *k = &c->in[1],
                            *bias = onnx_has(c, 2) ? &c->in[2] : NULL;
    struct onnx_window win;
    int64_t groups = onnx_attr_int(c->node, "group", 1), dims[ONNX_RANK];
    double *sum;
    int nd = x->rank - 2;
    if (nd < 1 || k->rank != x->rank || groups < 1 || groups > LARGEST ||
        x->dims[1] != k->dims[0] || x->dims[1] % groups ||
        (bias && bias->count != k->dims[1] * groups))
        return onnx_no(c, "channels, groups and weights do not fit");
    EBB_TRY(transposed_window(c, nd, &win));
    dims[0] = x->dims[0];
    dims[1] = k->dims[1] * groups;
    memcpy(dims + 2, win.out, (size_t)nd * sizeof *dims);
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, dims));
    EBB_TRY(onnx_work(c, (int64_t[]){x->count, k->dims[1], onnx_product(win.kernel, 0, nd)}, 3));
    EBB_TRY(onnx_take(c, c->out[0].count, &sum, sizeof *sum));
    int64_t area = onnx_product(win.kernel, 0, nd), places = onnx_product(dims, 2, nd + 2);
    int64_t per = k->dims[1], in_per = x->dims[1] / groups;
    struct onnx_walk w = {.rank = x->rank, .dims = x->dims};
    for (int64_t i = 0; i < x->count; i++) {
        struct onnx_walk kw = {.rank = nd, .dims = win.kernel};
        for (int64_t e = 0; e < area; e++) {
            int64_t place = 0;
            bool is_inside = true;
            for (int d = 0; d < nd; d++) {
                int64_t p =
                    w.at[2 + d] * win.stride[d] + kw.at[d] * win.dilation[d] - win.before[d];
                is_inside &= p >= 0 && p < win.out[d];
                place = is_inside ? place * win.out[d] + p : 0;
            }
            for (int64_t m = 0; is_inside && m < per; m++)
                sum[(w.at[0] * dims[1] + w.at[1] / in_per * per + m) * places + place] +=
                    x->number[i] * k->number[(w.at[1] * per + m) * area + e];
            onnx_walk_next(&kw, 0, NULL, NULL);
        }
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    for (int64_t i = 0; i < c->out[0].count; i++)
        onnx_set(&c->out[0], i, sum[i] + (bias ? bias->number[i / places % dims[1]] : 0));
    return EBB_OK;
}

/* ---- pools ------------------------------------------------------------------------------------ */

enum { P_MAX, P_AVERAGE, P_LP };

/* Of one window; *best is the place of the maximum in x. */
static double pool_one(struct onnx_call *c, const struct onnx_window *win, int64_t plane,
                       const int64_t *at, bool counts_pad, int64_t *best)
{
    const struct onnx_value *x = &c->in[0];
    int nd = win->nd;
    int64_t area = onnx_product(win->kernel, 0, nd), sizes = onnx_product(x->dims, 2, nd + 2),
            counted = 0;
    double most = -INFINITY, sum = 0, p = (double)onnx_attr_int(c->node, "p", 2);
    struct onnx_walk w = {.rank = nd, .dims = win->kernel};
    *best = -1;
    for (int64_t k = 0; k < area; k++) {
        int64_t place = 0;
        bool is_inside = true, is_padded = true;
        for (int d = 0; d < nd; d++) {
            int64_t q = at[d] * win->stride[d] - win->before[d] + w.at[d] * win->dilation[d];
            is_inside &= q >= 0 && q < x->dims[2 + d];
            is_padded &= q < x->dims[2 + d] + win->after[d];
            place = is_inside ? place * x->dims[2 + d] + q : 0;
        }
        counted += counts_pad ? is_padded : is_inside;
        if (is_inside) {
            double v = onnx_get(x, plane * sizes + place);
            sum += c->variant == P_LP ? pow(fabs(v), p) : v;
            if (*best < 0 || v > most) {
                most = v;
                *best = plane * sizes + place;
            }
        }
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    return c->variant == P_MAX  ? most
           : c->variant == P_LP ? pow(sum, 1 / p)
                                : sum / (double)counted;
}

/* Indices count along the last dimension, or along the first place (storage_order). */
static int64_t index_of(const struct onnx_value *x, int64_t at, bool is_column_major)
{
    if (!is_column_major)
        return at;
    int64_t sizes = onnx_product(x->dims, 2, x->rank), in_plane = at % sizes, index = 0, step = 1;
    int64_t coordinates[ONNX_RANK];
    for (int d = x->rank - 1; d >= 2; d--) {
        coordinates[d] = in_plane % x->dims[d];
        in_plane /= x->dims[d];
    }
    for (int d = 2; d < x->rank; d++) {
        index += coordinates[d] * step;
        step *= x->dims[d];
    }
    return at / sizes * sizes + index;
}

static enum ebb_status pool(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    struct onnx_window win;
    int64_t dims[ONNX_RANK], best;
    int nd = x->rank - 2;
    bool counts_pad = onnx_attr_int(c->node, "count_include_pad", 0) != 0;
    bool is_column_major = onnx_attr_int(c->node, "storage_order", 0) != 0;
    if (nd < 1)
        return onnx_no(c, "%d dimensions", x->rank);
    EBB_TRY(onnx_window_read(c->node, nd, x->dims + 2, NULL, &win, c->err));
    memcpy(dims, x->dims, sizeof dims);
    memcpy(dims + 2, win.out, (size_t)nd * sizeof *dims);
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, dims));
    EBB_TRY(onnx_work(c, win.kernel, (size_t)nd));
    EBB_TRY(onnx_work(c, (int64_t[]){c->out[0].count, onnx_product(win.kernel, 0, nd)}, 2));
    bool has_places = onnx_wants(c, 1);
    if (has_places)
        EBB_TRY(onnx_make(c, 1, ONNX_INT64, x->rank, dims));
    struct onnx_walk w = {.rank = x->rank, .dims = c->out[0].dims};
    for (int64_t i = 0; i < c->out[0].count; i++) {
        onnx_set(&c->out[0], i,
                 pool_one(c, &win, w.at[0] * dims[1] + w.at[1], w.at + 2, counts_pad, &best));
        if (has_places)
            c->out[1].integer[i] = best < 0 ? 0 : index_of(x, best, is_column_major);
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    return EBB_OK;
}

static enum ebb_status global_pool(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t dims[ONNX_RANK];
    if (x->rank < 2)
        return onnx_no(c, "%d dimensions", x->rank);
    for (int d = 0; d < x->rank; d++)
        dims[d] = d < 2 ? x->dims[d] : 1;
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, dims));
    int64_t n = onnx_product(x->dims, 2, x->rank);
    for (int64_t i = 0; i < c->out[0].count; i++) {
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < n; k++) {
            sum += x->number[i * n + k];
            most = fmax(most, x->number[i * n + k]);
        }
        onnx_set(&c->out[0], i, c->variant == P_MAX ? most : sum / (double)n);
    }
    return EBB_OK;
}

static enum ebb_status max_unpool(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0], *index = &c->in[1];
    int64_t k[ONNX_RANK], s[ONNX_RANK], pads[2 * ONNX_RANK], so[ONNX_RANK], total = 1;
    int64_t inner[ONNX_RANK]; /* places count here: without the frame that output_shape may add */
    const int64_t *shape;
    size_t count;
    int nd = x->rank - 2;
    if (nd < 1 || index->count != x->count)
        return onnx_no(c, "indices do not fit");
    size_t n = (size_t)nd;
    EBB_TRY(onnx_attr_list(c->node, "kernel_shape", n, 1, 1, k, c->err));
    EBB_TRY(onnx_attr_list(c->node, "strides", n, 1, 1, s, c->err));
    EBB_TRY(onnx_attr_list(c->node, "pads", 2 * n, 0, 0, pads, c->err));
    EBB_TRY(onnx_list(c, 2, NULL, &shape, &count));
    if (shape && count != (size_t)x->rank)
        return onnx_no(c, "output_shape has %zu numbers", count);
    for (int d = 0; d < x->rank; d++) {
        inner[d] = x->dims[d];
        if (d >= 2)
            inner[d] = (x->dims[d] - 1) * s[d - 2] - pads[d - 2] - pads[nd + d - 2] + k[d - 2];
        if (inner[d] < 1 || __builtin_mul_overflow(total, inner[d], &total))
            return onnx_no(c, "a size of the result is %" PRId64, inner[d]);
    }
    const int64_t *dims = shape ? shape : inner;
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, dims));
    onnx_strides(&c->out[0], x->rank, dims, so);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t at = index->integer[i], to = 0;
        if (at < 0 || at >= total)
            return onnx_no(c, "index %" PRId64, at);
        for (int d = x->rank - 1; d >= 0; d--) {
            int64_t p = at % inner[d];
            at /= inner[d];
            if (p >= dims[d])
                return onnx_no(c, "an index is outside the result");
            to += p * so[d];
        }
        c->out[0].number[to] = x->number[i];
    }
    return EBB_OK;
}

static enum ebb_status lrn(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t n = onnx_attr_int(c->node, "size", 0);
    double alpha = onnx_attr_number(c->node, "alpha", (double)1e-4f);
    double beta = onnx_attr_number(c->node, "beta", 0.75),
           bias = onnx_attr_number(c->node, "bias", 1);
    if (x->rank < 2 || n < 1)
        return onnx_no(c, "channels and a size are needed");
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    int64_t ch = x->dims[1], inner = onnx_product(x->dims, 2, x->rank);
    EBB_TRY(onnx_work(c, (int64_t[]){x->count, n < ch ? n : ch}, 2));
    for (int64_t i = 0; i < x->count; i++) {
        int64_t k = i / inner % ch, from = k - (n - 1) / 2, to = k + n / 2;
        double sum = 0;
        for (int64_t j = from < 0 ? 0 : from; j <= to && j < ch; j++)
            sum += x->number[i + (j - k) * inner] * x->number[i + (j - k) * inner];
        onnx_set(&c->out[0], i, x->number[i] / pow(bias + alpha / (double)n * sum, beta));
    }
    return EBB_OK;
}

/* ---- resizing --------------------------------------------------------------------------------- */

struct resize {
    const char *coordinates, *nearest;
    int mode; /* 0 nearest, 1 linear, 2 cubic */
    double cubic, outside;
    bool excludes, is_cropped;
    double scale[ONNX_RANK], from[ONNX_RANK], to[ONNX_RANK];
    int64_t out[ONNX_RANK];
};

/* Coordinates that a scale and sizes alone give. */
static double plain_source(const char *how, double s, int64_t i, int64_t size, int64_t out)
{
    double at = (double)i;
    if (strcmp(how, "align_corners") == 0)
        return out > 1 ? at * (double)(size - 1) / (s * (double)size - 1) : 0;
    if (strcmp(how, "asymmetric") == 0)
        return at / s;
    if (strcmp(how, "pytorch_half_pixel") == 0 && out <= 1)
        return 0;
    if (strcmp(how, "tf_half_pixel_for_nn") == 0)
        return (at + 0.5) / s;
    return (at + 0.5) / s - 0.5;
}

bool onnx_resize_fits(const char *how, bool is_nearest, double scale, int64_t size, int64_t out)
{
    double ratio = (double)out / (double)size;
    for (int64_t i = 0; i < out; i++) {
        double a = plain_source(how, scale, i, size, out);
        double b = plain_source(how, ratio, i, size, out);
        if (is_nearest ? floor(a) < floor(b) || floor(a) > floor(b)
                       : !(fabs(a - b) <= 1e-6 * (double)size))
            return false;
    }
    return true;
}

/* The place in the input of place i of the result. */
static double source(const struct resize *r, int d, int64_t i, int64_t size)
{
    double at = (double)i;
    if (r->is_cropped)
        return r->out[d] > 1
                   ? r->from[d] * (double)(size - 1) +
                         at * (r->to[d] - r->from[d]) * (double)(size - 1) / (double)(r->out[d] - 1)
                   : 0.5 * (r->from[d] + r->to[d]) * (double)(size - 1);
    return plain_source(r->coordinates, r->scale[d], i, size, r->out[d]);
}

static int64_t nearest_of(const struct resize *r, double at)
{
    const char *how = r->nearest;
    double v = strcmp(how, "floor") == 0               ? floor(at)
               : strcmp(how, "ceil") == 0              ? ceil(at)
               : strcmp(how, "round_prefer_ceil") == 0 ? floor(at + 0.5)
                                                       : ceil(at - 0.5);
    return (int64_t)v;
}

static double cubic_weight(double t, double a)
{
    t = fabs(t);
    return t <= 1  ? (a + 2) * t * t * t - (a + 3) * t * t + 1
           : t < 2 ? a * t * t * t - 5 * a * t * t + 8 * a * t - 4 * a
                   : 0;
}

static bool is_kept(const struct resize *r, int d, int64_t size)
{
    return r->out[d] == size && !r->is_cropped && r->scale[d] >= 1 && r->scale[d] <= 1;
}

/* Neighbours of a place along one dimension and their weights; returns their number. */
static int neighbours(const struct resize *r, int d, int64_t i, int64_t size, int64_t *at,
                      double *w)
{
    if (is_kept(r, d, size)) {
        at[0] = i;
        w[0] = 1;
        return 1;
    }
    double p = source(r, d, i, size), sum = 0;
    if (r->is_cropped && (p < 0 || p > (double)(size - 1)))
        return 0;
    if (r->mode == 0) {
        at[0] = nearest_of(r, p);
        at[0] = at[0] < 0 ? 0 : at[0] >= size ? size - 1 : at[0];
        w[0] = 1;
        return 1;
    }
    int n = r->mode == 1 ? 2 : 4;
    double base = floor(p);
    for (int k = 0; k < n; k++) {
        double place = base + k - (n == 4);
        w[k] = n == 2 ? (k ? p - base : 1 - (p - base)) : cubic_weight(p - place, r->cubic);
        bool is_outside = place < 0 || place > (double)(size - 1);
        if (is_outside && r->excludes && n == 4)
            w[k] = 0;
        at[k] = place < 0 ? 0 : place > (double)(size - 1) ? size - 1 : (int64_t)place;
        sum += w[k];
    }
    for (int k = 0; k < n && r->excludes; k++)
        w[k] /= sum;
    return n;
}

static double resize_one(const struct onnx_value *x, const struct resize *r, int d, int64_t offset,
                         const int64_t *place, const int64_t *strides, bool *is_outside)
{
    int64_t at[4];
    double w[4], sum = 0;
    if (d == x->rank)
        return onnx_get(x, offset);
    int n = neighbours(r, d, place[d], x->dims[d], at, w);
    *is_outside |= n == 0;
    for (int k = 0; k < n; k++)
        sum +=
            w[k] * resize_one(x, r, d + 1, offset + at[k] * strides[d], place, strides, is_outside);
    return sum;
}

static enum ebb_status resize_all(struct onnx_call *c, const struct resize *r)
{
    const struct onnx_value *x = &c->in[0];
    int64_t s[ONNX_RANK], factors[ONNX_RANK + 1];
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, r->out));
    factors[x->rank] = c->out[0].count;
    for (int d = 0; d < x->rank; d++)
        factors[d] = is_kept(r, d, x->dims[d]) || r->mode == 0 ? 1 : r->mode == 1 ? 2 : 4;
    EBB_TRY(onnx_work(c, factors, (size_t)x->rank + 1));
    onnx_strides(x, x->rank, x->dims, s);
    struct onnx_walk w = {.rank = x->rank, .dims = c->out[0].dims};
    for (int64_t i = 0; i < c->out[0].count; i++) {
        bool is_outside = false;
        double v = resize_one(x, r, 0, 0, w.at, s, &is_outside);
        onnx_set(&c->out[0], i, is_outside ? r->outside : v);
        onnx_walk_next(&w, 0, NULL, NULL);
    }
    return EBB_OK;
}

static enum ebb_status read_sizes(struct onnx_call *c, struct resize *r, size_t scales,
                                  size_t sizes)
{
    const struct onnx_value *x = &c->in[0];
    bool by_size = onnx_has(c, sizes) && c->in[sizes].count > 0;
    const struct onnx_value *given = by_size               ? &c->in[sizes]
                                     : onnx_has(c, scales) ? &c->in[scales]
                                                           : NULL;
    if (!given || given->count != x->rank)
        return onnx_no(c, "one size or scale per dimension is needed");
    for (int d = 0; d < x->rank; d++) {
        double v = onnx_get(given, d);
        if (!(v > 0 && v < 0x1p31) || x->dims[d] < 1)
            return onnx_no(c, "a size or scale is %g", v);
        double out =
            by_size ? v
                    : floor((double)x->dims[d] * v * (r->is_cropped ? r->to[d] - r->from[d] : 1));
        if (!(out >= 1 && out < 0x1p31))
            return onnx_no(c, "a size of the result is %g", out);
        r->out[d] = (int64_t)out;
        r->scale[d] = by_size ? out / (double)x->dims[d] : v;
    }
    return EBB_OK;
}

static enum ebb_status read_mode(struct onnx_call *c, struct resize *r)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    const char *mode = onnx_attr_text(c->node, "mode", "nearest");
    r->mode = ebb_name_index(mode, modes, 3);
    return r->mode < 0 ? onnx_not_here(c, "mode '%s'", mode) : EBB_OK;
}

static enum ebb_status check_words(struct onnx_call *c, const struct resize *r)
{
    static const char *const coordinates[] = {"half_pixel",         "pytorch_half_pixel",
                                              "align_corners",      "asymmetric",
                                              "tf_crop_and_resize", "tf_half_pixel_for_nn"};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil"};
    if (ebb_name_index(r->coordinates, coordinates, 6) < 0)
        return onnx_not_here(c, "coordinates '%s'", r->coordinates);
    if (ebb_name_index(r->nearest, nearest, 4) < 0)
        return onnx_not_here(c, "nearest_mode '%s'", r->nearest);
    return EBB_OK;
}

static enum ebb_status resize(struct onnx_call *c)
{
    struct resize r = {.coordinates =
                           onnx_attr_text(c->node, "coordinate_transformation_mode", "half_pixel"),
                       .nearest = onnx_attr_text(c->node, "nearest_mode", "round_prefer_floor"),
                       .cubic = onnx_attr_number(c->node, "cubic_coeff_a", -0.75),
                       .outside = onnx_attr_number(c->node, "extrapolation_value", 0),
                       .excludes = onnx_attr_int(c->node, "exclude_outside", 0) != 0};
    const struct onnx_value *x = &c->in[0];
    EBB_TRY(read_mode(c, &r));
    EBB_TRY(check_words(c, &r));
    if (c->e->opset < 11) { /* scales alone, from the first corner */
        r.coordinates = "asymmetric";
        r.nearest = "floor";
        EBB_TRY(read_sizes(c, &r, 1, SIZE_MAX));
        return resize_all(c, &r);
    }
    r.is_cropped = strcmp(r.coordinates, "tf_crop_and_resize") == 0;
    if (r.is_cropped) {
        if (!onnx_has(c, 1) || c->in[1].count != 2 * x->rank)
            return onnx_no(c, "a region is needed");
        for (int d = 0; d < x->rank; d++) {
            r.from[d] = c->in[1].number[d];
            r.to[d] = c->in[1].number[x->rank + d];
            if (!(fabs(r.from[d]) < 0x1p31 && fabs(r.to[d]) < 0x1p31))
                return onnx_no(c, "a region from %g to %g", r.from[d], r.to[d]);
        }
    }
    EBB_TRY(read_sizes(c, &r, 2, 3));
    return resize_all(c, &r);
}

static enum ebb_status upsample(struct onnx_call *c)
{
    struct resize r = {.coordinates = "asymmetric", .nearest = "floor"};
    EBB_TRY(read_mode(c, &r));
    EBB_TRY(read_sizes(c, &r, 1, SIZE_MAX));
    return resize_all(c, &r);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static const struct onnx_op rows[] = {
    {"Conv", 1, 0, 2, 3, "f0", 1, conv, 0},
    {"ConvInteger", 10, 0, 2, 4, "q", 1, conv_integer, 0},
    {"QLinearConv", 10, 0, 8, 9, "qfqqfqfqi", 1, qlinear_conv, 0},
    {"ConvTranspose", 1, 0, 2, 3, "f0", 1, conv_transpose, 0},
    {"MaxPool", 1, 0, 1, 1, "n", 2, pool, P_MAX},
    {"AveragePool", 1, 18, 1, 1, "f", 1, pool, P_AVERAGE},
    {"LpPool", 2, 17, 1, 1, "f", 1, pool, P_LP},
    {"GlobalAveragePool", 1, 0, 1, 1, "f", 1, global_pool, P_AVERAGE},
    {"GlobalMaxPool", 1, 0, 1, 1, "f", 1, global_pool, P_MAX},
    {"MaxUnpool", 9, 0, 2, 3, "fi", 1, max_unpool, 0},
    {"LRN", 1, 0, 1, 1, "f", 1, lrn, 0},
    {"Resize", 10, 10, 2, 2, "nf", 1, resize, 0},
    {"Resize", 11, 17, 1, 4, "nffi", 1, resize, 0},
    {"Upsample", 9, 9, 2, 2, "nf", 1, upsample, 0},
};

const struct onnx_ops onnx_window_ops = {rows, sizeof rows / sizeof *rows};
