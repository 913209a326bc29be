/* reduce.c - sums over dimensions: reductions, softmax, normalisations, losses. All sums are made in
 * double and rounded once. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "onnx/internal.h"

/* ---- over named dimensions -------------------------------------------------------------------- */

enum {
    R_SUM,
    R_MEAN,
    R_MAX,
    R_MIN,
    R_PROD,
    R_L1,
    R_L2,
    R_LOG_SUM,
    R_LOG_SUM_EXP,
    R_SUM_SQUARE,
};

static double begin(int f)
{
    return f == R_MAX ? -INFINITY : f == R_MIN ? INFINITY : f == R_PROD ? 1 : 0;
}

static double add(int f, double sum, double v, double most)
{
    switch (f) {
    case R_MAX:
        return v > sum || isnan(v) ? v : sum;
    case R_MIN:
        return v < sum || isnan(v) ? v : sum;
    case R_PROD:
        return sum * v;
    case R_L1:
        return sum + fabs(v);
    case R_L2:
    case R_SUM_SQUARE:
        return sum + v * v;
    case R_LOG_SUM_EXP:
        return sum + exp(v - most);
    default:
        return sum + v;
    }
}

static double finish(int f, double sum, double count, double most)
{
    return f == R_MEAN          ? sum / count
           : f == R_L2          ? sqrt(sum)
           : f == R_LOG_SUM     ? log(sum)
           : f == R_LOG_SUM_EXP ? log(sum) + most
                                : sum;
}

/* For every element of x, the place in the result: strides of 0 along what is summed. */
static void kept_strides(const struct onnx_value *x, const bool *goes, int64_t *strides)
{
    int64_t step = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        strides[d] = goes[d] ? 0 : step;
        step *= goes[d] ? 1 : x->dims[d];
    }
}

static enum ebb_status find_axes(struct onnx_call *c, bool *goes, bool *is_none)
{
    const struct onnx_value *x = &c->in[0];
    const int64_t *axes;
    size_t count;
    EBB_TRY(onnx_list(c, 1, "axes", &axes, &count));
    *is_none = (!axes || !count) && onnx_attr_int(c->node, "noop_with_empty_axes", 0);
    for (int d = 0; d < x->rank; d++)
        goes[d] = !axes || !count;
    return onnx_axes(c, axes, count, x->rank, goes);
}

static enum ebb_status reduce(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    bool goes[ONNX_RANK] = {false}, is_none, keeps = onnx_attr_int(c->node, "keepdims", 1) != 0;
    int64_t dims[ONNX_RANK], s[ONNX_RANK], at = 0;
    int rank = 0, f = c->variant;
    double *sum, *most;
    EBB_TRY(find_axes(c, goes, &is_none));
    if (is_none)
        return onnx_again(c, 0, x, x->rank, x->dims);
    for (int d = 0; d < x->rank; d++)
        if (!goes[d] || keeps)
            dims[rank++] = goes[d] ? 1 : x->dims[d];
    EBB_TRY(onnx_make(c, 0, x->type, rank, dims));
    int64_t n = c->out[0].count, each = n ? x->count / n : 0;
    EBB_TRY(onnx_take(c, n, &sum, sizeof *sum));
    EBB_TRY(onnx_take(c, n, &most, sizeof *most));
    kept_strides(x, goes, s);
    for (int64_t i = 0; i < n; i++) {
        sum[i] = begin(f);
        most[i] = -INFINITY;
    }
    for (int pass = f == R_LOG_SUM_EXP ? 0 : 1; pass < 2 && x->count; pass++) {
        struct onnx_walk w = {.rank = x->rank, .dims = x->dims};
        int64_t i = 0;
        at = 0;
        do {
            double v = onnx_get(x, i++);
            if (pass == 0)
                most[at] = v > most[at] ? v : most[at];
            else
                sum[at] = add(f, sum[at], v, most[at]);
        } while (onnx_walk_next(&w, 1, (int64_t *[]){&at}, (const int64_t *[]){s}));
    }
    for (int64_t i = 0; i < n; i++)
        onnx_set(&c->out[0], i, finish(f, sum[i], (double)each, most[i]));
    return EBB_OK;
}

static enum ebb_status arg(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    bool is_max = c->variant != 0, is_last = onnx_attr_int(c->node, "select_last_index", 0) != 0;
    bool keeps = onnx_attr_int(c->node, "keepdims", 1) != 0;
    int64_t dims[ONNX_RANK];
    int axis, rank = 0;
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", 0), x->rank, &axis));
    for (int d = 0; d < x->rank; d++)
        if (d != axis || keeps)
            dims[rank++] = d == axis ? 1 : x->dims[d];
    EBB_TRY(onnx_make(c, 0, ONNX_INT64, rank, dims));
    int64_t size = x->dims[axis], inner = onnx_product(x->dims, axis + 1, x->rank);
    for (int64_t i = 0; i < c->out[0].count; i++) {
        int64_t first = i / inner * size * inner + i % inner, best = 0;
        for (int64_t k = 1; k < size; k++) {
            double v = onnx_get(x, first + k * inner), b = onnx_get(x, first + best * inner);
            bool is_better = is_max ? v > b : v < b, is_same = !(v < b) && !(v > b);
            if (is_better || (is_last && is_same))
                best = k;
        }
        c->out[0].integer[i] = best;
    }
    return EBB_OK;
}

static enum ebb_status cumsum(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    bool is_exclusive = onnx_attr_int(c->node, "exclusive", 0) != 0;
    bool is_reverse = onnx_attr_int(c->node, "reverse", 0) != 0;
    int axis;
    if (c->in[1].count != 1)
        return onnx_no(c, "one axis is needed");
    EBB_TRY(onnx_axis(c, c->in[1].integer[0], x->rank, &axis));
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    int64_t size = x->dims[axis], inner = onnx_product(x->dims, axis + 1, x->rank);
    int64_t lines = size ? x->count / size : 0;
    for (int64_t line = 0; line < lines; line++) {
        int64_t first = line / inner * size * inner + line % inner;
        double sum = 0;
        for (int64_t k = 0; k < size; k++) {
            int64_t at = first + (is_reverse ? size - 1 - k : k) * inner;
            double v = onnx_get(x, at);
            onnx_set(&c->out[0], at, is_exclusive ? sum : sum + v);
            sum += v;
        }
    }
    return EBB_OK;
}

/* ---- softmax ---------------------------------------------------------------------------------- */

enum { S_SOFTMAX, S_LOG, S_HARD };

static void soften(struct onnx_call *c, int64_t first, int64_t size, int64_t step)
{
    const struct onnx_value *x = &c->in[0];
    struct onnx_value *y = &c->out[0];
    double most = -INFINITY, sum = 0;
    int64_t best = -1;
    for (int64_t k = 0; k < size; k++)
        if (best < 0 || x->number[first + k * step] > most) {
            best = k;
            most = x->number[first + k * step];
        }
    for (int64_t k = 0; k < size; k++)
        sum += exp(x->number[first + k * step] - most);
    for (int64_t k = 0; k < size; k++) {
        double v = x->number[first + k * step] - most;
        onnx_set(y, first + k * step,
                 c->variant == S_HARD  ? k == best
                 : c->variant == S_LOG ? v - log(sum)
                                       : exp(v) / sum);
    }
}

/* Before version 13 the dimensions from the axis on are one. */
static enum ebb_status softmax(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    bool is_old = c->e->opset < 13;
    int axis = 0;
    int64_t given = onnx_attr_int(c->node, "axis", is_old ? 1 : -1);
    if (!(is_old && given == x->rank))
        EBB_TRY(onnx_axis(c, given, x->rank, &axis));
    else
        axis = x->rank;
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    int64_t size = is_old ? onnx_product(x->dims, axis, x->rank) : x->dims[axis];
    int64_t inner = is_old ? 1 : onnx_product(x->dims, axis + 1, x->rank);
    for (int64_t line = 0; size && line < x->count / size; line++)
        soften(c, line / inner * size * inner + line % inner, size, inner);
    return EBB_OK;
}

/* ---- normalisations --------------------------------------------------------------------------- */

/* Mean and variance of `count` groups: element i belongs to group(i). */
struct moments {
    double *mean, *var;
};

static enum ebb_status take_moments(struct onnx_call *c, const struct onnx_value *x, int64_t groups,
                                    int64_t outer, int64_t inner, struct moments *m)
{
    int64_t each = groups ? x->count / groups : 0;
    EBB_TRY(onnx_take(c, groups, &m->mean, sizeof *m->mean));
    EBB_TRY(onnx_take(c, groups, &m->var, sizeof *m->var));
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < x->count; i++) {
            int64_t g = i / inner % outer;
            double v = x->number[i] - (pass ? m->mean[g] / (double)each : 0);
            if (pass)
                m->var[g] += v * v;
            else
                m->mean[g] += v;
        }
    for (int64_t g = 0; g < groups; g++) {
        m->mean[g] /= (double)each;
        m->var[g] /= (double)each;
    }
    return EBB_OK;
}

static enum ebb_status need_vector(struct onnx_call *c, size_t i, int64_t n)
{
    if (c->in[i].count != n)
        return onnx_no(c, "input %zu has %" PRId64 " elements, expected %" PRId64, i,
                       c->in[i].count, n);
    return EBB_OK;
}

static enum ebb_status batch_norm(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    double eps = onnx_attr_number(c->node, "epsilon", (double)1e-5f);
    double momentum = onnx_attr_number(c->node, "momentum", (double)0.9f);
    bool is_training = onnx_attr_int(c->node, "training_mode", 0) != 0;
    if (x->rank < 1 || (c->e->opset < 9 && !onnx_attr_int(c->node, "spatial", 1)))
        return onnx_not_here(c, "spatial = 0");
    if (c->e->opset < 7 && !onnx_attr_int(c->node, "is_test", 0))
        return onnx_not_here(c, "training in version 6");
    int64_t n = x->rank > 1 ? x->dims[1] : 1, inner = onnx_product(x->dims, 2, x->rank);
    for (size_t i = 1; i < 5; i++)
        EBB_TRY(need_vector(c, i, n));
    struct moments m = {c->in[3].number, c->in[4].number};
    if (is_training)
        EBB_TRY(take_moments(c, x, n, n, inner, &m));
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    for (int64_t i = 0; i < x->count; i++) {
        int64_t g = i / inner % n;
        onnx_set(&c->out[0], i,
                 (x->number[i] - m.mean[g]) / sqrt(m.var[g] + eps) * c->in[1].number[g] +
                     c->in[2].number[g]);
    }
    for (size_t k = 1; is_training && k < 3; k++) {
        if (!onnx_wants(c, k))
            continue;
        EBB_TRY(onnx_make(c, k, c->in[k + 2].type, 1, &n));
        for (int64_t g = 0; g < n; g++)
            onnx_set(&c->out[k], g,
                     c->in[k + 2].number[g] * momentum +
                         (k == 1 ? m.mean[g] : m.var[g]) * (1 - momentum));
    }
    return EBB_OK;
}

static enum ebb_status instance_norm(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    double eps = onnx_attr_number(c->node, "epsilon", (double)1e-5f);
    struct moments m;
    if (x->rank < 3)
        return onnx_no(c, "%d dimensions, allowed: 3 and more", x->rank);
    int64_t n = x->dims[1], groups = x->dims[0] * n, inner = onnx_product(x->dims, 2, x->rank);
    EBB_TRY(need_vector(c, 1, n));
    EBB_TRY(need_vector(c, 2, n));
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    if (!x->count)
        return EBB_OK;
    EBB_TRY(take_moments(c, x, groups, groups, inner, &m));
    for (int64_t i = 0; i < x->count; i++) {
        int64_t g = i / inner;
        onnx_set(&c->out[0], i,
                 (x->number[i] - m.mean[g]) / sqrt(m.var[g] + eps) * c->in[1].number[g % n] +
                     c->in[2].number[g % n]);
    }
    return EBB_OK;
}

/* Weights of every channel; before version 21 of every group. */
static enum ebb_status group_norm(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    double eps = onnx_attr_number(c->node, "epsilon", (double)1e-5f);
    int64_t groups = onnx_attr_int(c->node, "num_groups", 0);
    struct moments m;
    if (x->rank < 3 || groups < 1 || x->dims[1] % groups)
        return onnx_no(c, "channels in %" PRId64 " groups", groups);
    int64_t n = x->dims[1], each = n / groups, places = onnx_product(x->dims, 2, x->rank);
    bool is_old = c->e->opset < 21;
    EBB_TRY(need_vector(c, 1, is_old ? groups : n));
    EBB_TRY(need_vector(c, 2, is_old ? groups : n));
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    if (!x->count)
        return EBB_OK;
    int64_t all = x->dims[0] * groups, inner = each * places;
    EBB_TRY(take_moments(c, x, all, all, inner, &m));
    for (int64_t i = 0; i < x->count; i++) {
        int64_t g = i / inner, k = i / places % n / (is_old ? each : 1);
        onnx_set(&c->out[0], i,
                 (x->number[i] - m.mean[g]) / sqrt(m.var[g] + eps) * c->in[1].number[k] +
                     c->in[2].number[k]);
    }
    return EBB_OK;
}

static enum ebb_status layer_norm(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    double eps = onnx_attr_number(c->node, "epsilon", (double)1e-5f);
    struct moments m;
    int axis;
    int64_t dims[ONNX_RANK], sw[ONNX_RANK], sb[ONNX_RANK] = {0}, i = 0, w_at = 0, b_at = 0;
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", -1), x->rank, &axis));
    int64_t inner = onnx_product(x->dims, axis, x->rank), rows = onnx_product(x->dims, 0, axis);
    if (c->in[1].rank > x->rank - axis || (onnx_has(c, 2) && c->in[2].rank > x->rank - axis))
        return onnx_no(c, "weights have too many dimensions");
    for (size_t k = 1; k < 3 && onnx_has(c, k); k++) {
        int rank;
        EBB_TRY(onnx_broadcast(c, (const struct onnx_value *[]){x, &c->in[k]}, 2, &rank, dims));
        if (memcmp(dims, x->dims, (size_t)x->rank * sizeof *dims) != 0)
            return onnx_no(c, "weights do not fit");
    }
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    EBB_TRY(take_moments(c, x, rows, rows, inner, &m));
    onnx_strides(&c->in[1], x->rank, x->dims, sw);
    if (onnx_has(c, 2))
        onnx_strides(&c->in[2], x->rank, x->dims, sb);
    struct onnx_walk w = {.rank = x->rank, .dims = x->dims};
    if (x->count)
        do {
            double v = (x->number[i] - m.mean[i / inner]) / sqrt(m.var[i / inner] + eps) *
                       c->in[1].number[w_at];
            onnx_set(&c->out[0], i++, onnx_has(c, 2) ? v + c->in[2].number[b_at] : v);
        } while (onnx_walk_next(&w, 2, (int64_t *[]){&w_at, &b_at}, (const int64_t *[]){sw, sb}));
    memcpy(dims, x->dims, sizeof dims);
    for (int d = axis; d < x->rank; d++)
        dims[d] = 1;
    for (size_t k = 1; k < 3; k++) {
        if (!onnx_wants(c, k))
            continue;
        EBB_TRY(onnx_make(c, k, ONNX_FLOAT, x->rank, dims));
        for (int64_t r = 0; r < rows; r++)
            onnx_set(&c->out[k], r, k == 1 ? m.mean[r] : 1 / sqrt(m.var[r] + eps));
    }
    return EBB_OK;
}

static enum ebb_status mean_variance(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    bool goes[ONNX_RANK] = {false};
    size_t count;
    const int64_t *axes = onnx_attr_ints(c->node, "axes", &count);
    int64_t s[ONNX_RANK], at = 0, i = 0, groups = 1;
    double *sum, *squares;
    static const int64_t usual[3] = {0, 2, 3};
    EBB_TRY(onnx_axes(c, axes ? axes : usual, axes ? count : 3, x->rank, goes));
    for (int d = 0; d < x->rank; d++)
        groups *= goes[d] ? 1 : x->dims[d];
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    EBB_TRY(onnx_take(c, groups, &sum, sizeof *sum));
    EBB_TRY(onnx_take(c, groups, &squares, sizeof *squares));
    if (!x->count)
        return EBB_OK;
    double each = (double)(x->count / groups);
    kept_strides(x, goes, s);
    for (int pass = 0; pass < 3; pass++) {
        struct onnx_walk w = {.rank = x->rank, .dims = x->dims};
        at = i = 0;
        do {
            double v = x->number[i], centre = v - sum[at] / each;
            if (pass == 0)
                sum[at] += v;
            else if (pass == 1)
                squares[at] += centre * centre;
            else
                onnx_set(&c->out[0], i, centre / (sqrt(squares[at] / each) + 1e-9));
            i++;
        } while (onnx_walk_next(&w, 1, (int64_t *[]){&at}, (const int64_t *[]){s}));
    }
    return EBB_OK;
}

static enum ebb_status lp_norm(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int64_t p = onnx_attr_int(c->node, "p", 2);
    int axis;
    EBB_TRY(onnx_axis(c, onnx_attr_int(c->node, "axis", -1), x->rank, &axis));
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    int64_t size = x->dims[axis], inner = onnx_product(x->dims, axis + 1, x->rank);
    if (p != 1 && p != 2)
        return onnx_no(c, "p is %" PRId64 ", allowed: 1, 2", p);
    for (int64_t line = 0; size && line < x->count / size; line++) {
        int64_t first = line / inner * size * inner + line % inner;
        double sum = 0;
        for (int64_t k = 0; k < size; k++)
            sum += p == 1 ? fabs(x->number[first + k * inner])
                          : x->number[first + k * inner] * x->number[first + k * inner];
        for (int64_t k = 0; k < size; k++)
            onnx_set(&c->out[0], first + k * inner,
                     x->number[first + k * inner] / (p == 1 ? sum : sqrt(sum)));
    }
    return EBB_OK;
}

/* ---- losses ----------------------------------------------------------------------------------- */

/* x: log-probabilities [n, classes, ...] */
static enum ebb_status nll(struct onnx_call *c, const struct onnx_value *x)
{
    const struct onnx_value *target = &c->in[1], *weight = onnx_has(c, 2) ? &c->in[2] : NULL;
    const char *how = onnx_attr_text(c->node, "reduction", "mean");
    bool is_none = strcmp(how, "none") == 0, is_mean = strcmp(how, "mean") == 0;
    bool has_ignored = onnx_attr_find(c->node, "ignore_index") != NULL;
    int64_t ignored = onnx_attr_int(c->node, "ignore_index", 0), dims[ONNX_RANK];
    double sum = 0, weights = 0;
    if (x->rank < 2 || target->rank != x->rank - 1)
        return onnx_no(c, "scores [n, classes, ...] and targets [n, ...] are needed");
    if (!is_none && !is_mean && strcmp(how, "sum") != 0)
        return onnx_not_here(c, "reduction '%s'", how);
    int64_t classes = x->dims[1], inner = onnx_product(x->dims, 2, x->rank);
    for (int d = 0; d < target->rank; d++)
        if (target->dims[d] != x->dims[d + (d > 0)])
            return onnx_no(c, "scores and targets do not fit");
    if (weight)
        EBB_TRY(need_vector(c, 2, classes));
    memcpy(dims, target->dims, sizeof dims);
    EBB_TRY(onnx_make(c, 0, x->type, is_none ? target->rank : 0, dims));
    for (int64_t i = 0; i < target->count; i++) {
        int64_t t = target->integer[i];
        bool is_ignored = has_ignored && t == ignored;
        if (!is_ignored && (t < 0 || t >= classes))
            return onnx_no(c, "target %" PRId64 " of %" PRId64 " classes", t, classes);
        double w = is_ignored ? 0 : weight ? weight->number[t] : 1;
        double loss =
            is_ignored ? 0 : -x->number[(i / inner * classes + t) * inner + i % inner] * w;
        if (is_none)
            onnx_set(&c->out[0], i, loss);
        sum += loss;
        weights += w;
    }
    if (!is_none)
        onnx_set(&c->out[0], 0, is_mean ? sum / weights : sum);
    return EBB_OK;
}

static enum ebb_status nll_loss(struct onnx_call *c)
{
    return nll(c, &c->in[0]);
}

static enum ebb_status entropy(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    struct onnx_value log_p;
    if (x->rank < 2)
        return onnx_no(c, "scores [n, classes, ...] are needed");
    EBB_TRY(onnx_make_value(c, &log_p, x->type, x->rank, x->dims));
    int64_t size = x->dims[1], inner = onnx_product(x->dims, 2, x->rank);
    for (int64_t line = 0; size && line < x->count / size; line++) {
        int64_t first = line / inner * size * inner + line % inner;
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < size; k++)
            most = fmax(most, x->number[first + k * inner]);
        for (int64_t k = 0; k < size; k++)
            sum += exp(x->number[first + k * inner] - most);
        for (int64_t k = 0; k < size; k++)
            onnx_set(&log_p, first + k * inner, x->number[first + k * inner] - most - log(sum));
    }
    EBB_TRY(nll(c, &log_p));
    if (onnx_wants(c, 1))
        c->out[1] = log_p;
    return EBB_OK;
}

/* ---- rows ------------------------------------------------------------------------------------- */

#define REDUCE(name, variant)                                                                      \
    {                                                                                              \
        name, 1, 17, 1, 1, "n", 1, reduce, variant                                                 \
    }

static const struct onnx_op rows[] = {
    {"ReduceSum", 1, 0, 1, 2, "ni", 1, reduce, R_SUM},
    REDUCE("ReduceMean", R_MEAN),
    REDUCE("ReduceMax", R_MAX),
    REDUCE("ReduceMin", R_MIN),
    REDUCE("ReduceProd", R_PROD),
    REDUCE("ReduceL1", R_L1),
    REDUCE("ReduceL2", R_L2),
    REDUCE("ReduceLogSum", R_LOG_SUM),
    REDUCE("ReduceLogSumExp", R_LOG_SUM_EXP),
    REDUCE("ReduceSumSquare", R_SUM_SQUARE),
    {"ArgMax", 1, 0, 1, 1, "n", 1, arg, 1},
    {"ArgMin", 1, 0, 1, 1, "n", 1, arg, 0},
    {"CumSum", 11, 0, 2, 2, "ni", 1, cumsum, 0},
    {"Softmax", 1, 0, 1, 1, "f", 1, softmax, S_SOFTMAX},
    {"LogSoftmax", 1, 0, 1, 1, "f", 1, softmax, S_LOG},
    {"Hardmax", 1, 0, 1, 1, "f", 1, softmax, S_HARD},
    {"BatchNormalization", 1, 0, 5, 5, "f", 5, batch_norm, 0},
    {"InstanceNormalization", 6, 0, 3, 3, "f", 1, instance_norm, 0},
    {"GroupNormalization", 18, 0, 3, 3, "f", 1, group_norm, 0},
    {"LayerNormalization", 17, 0, 2, 3, "f", 3, layer_norm, 0},
    {"MeanVarianceNormalization", 9, 0, 1, 1, "f", 1, mean_variance, 0},
    {"LpNormalization", 1, 0, 1, 1, "f", 1, lp_norm, 0},
    {"NegativeLogLikelihoodLoss", 12, 0, 2, 3, "fif", 1, nll_loss, 0},
    {"SoftmaxCrossEntropyLoss", 12, 0, 2, 3, "fif", 2, entropy, 0},
};

const struct onnx_ops onnx_reduce_ops = {rows, sizeof rows / sizeof *rows};
