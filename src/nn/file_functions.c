/* file_functions.c - what a model file may call in expressions: torch's functions where their
 * arguments differ from those of our ops, numbers, initial values. Every op of the table that is
 * not internal is a function as well, its inputs first, its attributes by name or behind them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/file.h"

static int rank_of(const struct nn_call *c, tensor_id x)
{
    return tensor_view_of(c->e->b->session, x)->rank;
}

/* A dimension, counted from the end where it is negative. */
static int dim_of(const struct nn_call *c, size_t i, int64_t fallback, int rank)
{
    int64_t d = nn_int(c, i, fallback);
    if (nn_eval_ok(c->e) && (d < -rank || d >= rank))
        nn_eval_fail(c->e, "%s: dimension %" PRId64 " of a tensor with %d", c->name, d, rank);
    return (int)(d < 0 ? d + rank : d);
}

static struct nn_value list_of(const struct nn_call *c, const tensor_id *x, size_t count)
{
    struct nn_value v = {.kind = NN_VALUE_LIST, .count = count};
    v.items = ebb_arena_calloc(c->e->arena, count + 1, sizeof *v.items);
    if (!v.items)
        return nn_eval_fail(c->e, "out of memory");
    for (size_t i = 0; i < count; i++)
        v.items[i] = nn_of_tensor(x[i]);
    return v;
}

/* ---- ops of the table ------------------------------------------------------------------------- */

static const struct ebb_doc_node *doc_of(struct nn_eval *e, const struct nn_value *v)
{
    struct ebb_doc_node *node;
    switch (v->kind) {
    case NN_VALUE_BOOL:
        return ebb_doc_new_bool(e->arena, v->integer != 0);
    case NN_VALUE_INT:
        return ebb_doc_new_int(e->arena, v->integer);
    case NN_VALUE_FLOAT:
        return ebb_doc_new_double(e->arena, v->number);
    case NN_VALUE_TEXT:
        return ebb_doc_new_string(e->arena, v->text);
    case NN_VALUE_NONE:
        return ebb_doc_new(e->arena, EBB_DOC_NULL);
    case NN_VALUE_LIST:
        node = ebb_doc_new(e->arena, EBB_DOC_LIST);
        for (size_t i = 0; node && i < v->count; i++) {
            const struct ebb_doc_node *item = doc_of(e, &v->items[i]);
            if (!item || !ebb_doc_append(e->arena, node, item))
                return NULL;
        }
        return node;
    default:
        nn_eval_fail(e, "found %s, allowed: numbers, texts and lists of them", nn_value_noun(v));
        return NULL;
    }
}

/* Tensors that begin the arguments, one by one or as lists. */
static size_t take_tensors(struct nn_eval *e, const struct ops_def *def,
                           const struct nn_value *args, const char *const *names, size_t count,
                           tensor_id in[TENSOR_PORTS], size_t *used)
{
    size_t n = 0;
    for (*used = 0; *used < count && !(names && names[*used]); ++*used) {
        const struct nn_value *v = &args[*used];
        size_t many = v->kind == NN_VALUE_LIST && v->count && v->items[0].kind == NN_VALUE_TENSOR
                          ? v->count
                          : v->kind == NN_VALUE_TENSOR;
        if (!many)
            break;
        if (n + many > TENSOR_PORTS || n + many > ops_most_inputs(def)) {
            nn_eval_fail(e, "%s takes at most %zu tensors", ops_name(def), ops_most_inputs(def));
            return 0;
        }
        for (size_t i = 0; i < many; i++) {
            const struct nn_value *one = v->kind == NN_VALUE_LIST ? &v->items[i] : v;
            if (one->kind != NN_VALUE_TENSOR)
                nn_eval_fail(e, "%s: a list holds %s among its tensors", ops_name(def),
                             nn_value_noun(one));
            in[n++] = one->tensor;
        }
    }
    return n;
}

struct nn_value nn_function_op(struct nn_eval *e, const struct ops_def *def,
                               const struct nn_value *args, const char *const *names, size_t count)
{
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    tensor_id in[TENSOR_PORTS], out[TENSOR_PORTS];
    struct ebb_doc_node *map = ebb_doc_new(e->arena, EBB_DOC_MAP);
    struct ebb_error err = {0};
    size_t at, outputs = 0, n = take_tensors(e, def, args, names, count, in, &at);
    for (size_t k = 0, i = at; map && i < count && nn_eval_ok(e); i++) {
        const char *name = names && names[i]              ? names[i]
                           : k < ops_attribute_count(def) ? ops_attribute(def, k++)
                                                          : NULL;
        const struct ebb_doc_node *value = name ? doc_of(e, &args[i]) : NULL;
        if (!name)
            nn_eval_fail(e, "%s takes no value here", ops_name(def));
        if (value && !ebb_doc_set(e->arena, map, name, value))
            map = NULL;
    }
    if (!nn_eval_ok(e))
        return nn_of_tensor(TENSOR_NONE);
    if (!map || ops_parse(def, map, attr, &err) != EBB_OK)
        return nn_eval_fail(e, "%s", map ? err.message : "out of memory");
    tensor_id y = nn_apply(e->b, def, n, in, out, &outputs, attr);
    if (!nn_eval_ok(e) || !ebb_words_find("split lstm gru lstm_cell gru_cell", ops_name(def),
                                          strlen(ops_name(def)), NULL))
        return nn_of_tensor(y);
    return list_of(&(struct nn_call){.e = e}, out, outputs);
}

/* ---- numbers ---------------------------------------------------------------------------------- */

static struct nn_value to_int(const struct nn_call *c)
{
    double v = nn_number(c, 0, 0);
    return fabs(v) < 0x1p62 ? nn_whole((int64_t)v) : nn_eval_fail(c->e, "int: %g is too large", v);
}

static struct nn_value extreme(const struct nn_call *c)
{
    const struct nn_value *items = c->args[0].items;
    size_t n = c->args[0].count;
    bool is_max = strcmp(c->name, "max") == 0;
    if (n == 1 && items[0].kind == NN_VALUE_LIST) {
        n = items[0].count;
        items = items[0].items;
    }
    struct nn_value best = n ? items[0] : (struct nn_value){0};
    for (size_t i = 0; i < n; i++) {
        if (items[i].kind != NN_VALUE_INT && items[i].kind != NN_VALUE_FLOAT)
            return nn_eval_fail(c->e, "%s: found %s, allowed: numbers", c->name,
                                nn_value_noun(&items[i]));
        if (is_max ? items[i].number > best.number : items[i].number < best.number)
            best = items[i];
    }
    return n ? best : nn_eval_fail(c->e, "%s of nothing", c->name);
}

static struct nn_value length(const struct nn_call *c)
{
    const struct nn_value *v = &c->args[0];
    if (v->kind == NN_VALUE_LIST)
        return nn_whole((int64_t)v->count);
    if (v->kind == NN_VALUE_MODULE)
        return nn_whole((int64_t)v->module->part_count);
    return nn_eval_fail(c->e, "len of %s", nn_value_noun(v));
}

static struct nn_value root(const struct nn_call *c)
{
    if (c->args[0].kind == NN_VALUE_TENSOR)
        return nn_of_tensor(nn_op(c->e->b, "sqrt", 1, &c->args[0].tensor, NULL, NULL));
    double v = nn_number(c, 0, 0);
    return v >= 0 ? (struct nn_value){.kind = NN_VALUE_FLOAT, .number = sqrt(v)}
                  : nn_eval_fail(c->e, "sqrt of a number below 0");
}

/* ---- initial values --------------------------------------------------------------------------- */

static struct nn_value initial(const struct nn_call *c, const char *rule, double a, double b,
                               size_t over)
{
    struct nn_file_init *init = ebb_arena_calloc(c->e->arena, 1, sizeof *init);
    if (!init)
        return nn_eval_fail(c->e, "out of memory");
    *init = (struct nn_file_init){.rule = rule, .a = a, .b = b};
    init->over = nn_word(c, over, NULL);
    init->copy = nn_word(c, over + 1, NULL);
    if (init->over &&
        !ebb_words_find("uniform normal constant", init->over, strlen(init->over), NULL))
        nn_eval_fail(c->e, "%s: over is '%s', allowed: uniform, normal, constant", c->name,
                     init->over);
    return (struct nn_value){.kind = NN_VALUE_INIT, .init = init};
}

static struct nn_value init_normal(const struct nn_call *c)
{
    return initial(c, "normal", nn_number(c, 0, 0), nn_number(c, 1, 1), 2);
}

static struct nn_value init_uniform(const struct nn_call *c)
{
    return initial(c, "uniform", nn_number(c, 0, 0), nn_number(c, 1, 1), 2);
}

static struct nn_value init_constant(const struct nn_call *c)
{
    return initial(c, "constant", nn_number(c, 0, 0), 0, 1);
}

static struct nn_value init_by_fan(const struct nn_call *c)
{
    const char *mode = nn_word(c, 0, "fan_in");
    struct nn_value v = initial(c, c->name, 0, 0, 1);
    if (strcmp(mode, "fan_in") != 0 && strcmp(mode, "fan_out") != 0)
        return nn_eval_fail(c->e, "%s: mode is '%s', allowed: 'fan_in', 'fan_out'", c->name, mode);
    if (v.init)
        v.init->is_fan_out = strcmp(mode, "fan_out") == 0;
    return v;
}

static struct nn_value init_xavier(const struct nn_call *c)
{
    return initial(c, c->name, 0, 0, 0);
}

/* zeros() are initial values, zeros(2, 3) a tensor. */
static struct nn_value filled(const struct nn_call *c)
{
    int64_t dims[TENSOR_RANK];
    double value = *c->name == 'o';
    if (c->args[0].kind == NN_VALUE_NONE)
        return initial(c, "constant", value, 0, 1);
    size_t rank = nn_ints_of(c, &c->args[0], dims, TENSOR_RANK);
    struct ops_value values[] = {{"shape", .ints = dims, .count = (int)rank},
                                 {"value", .number = value}};
    return nn_eval_ok(c->e) ? nn_of_tensor(nn_call(c->e->b, "full", 0, NULL, NULL, 2, values))
                            : nn_of_tensor(TENSOR_NONE);
}

/* ---- shapes ----------------------------------------------------------------------------------- */

static struct nn_value reshape(const struct nn_call *c)
{
    int64_t dims[TENSOR_RANK], known = 1;
    tensor_id x = nn_tensor(c, 0);
    size_t rank = nn_ints_of(c, &c->args[1], dims, TENSOR_RANK);
    int64_t count = nn_eval_ok(c->e) ? tensor_count(tensor_view_of(c->e->b->session, x)) : 0;
    int open = -1;
    for (size_t d = 0; d < rank; d++) {
        if (dims[d] == -1 && open < 0) {
            open = (int)d;
        } else if (dims[d] < 1 || __builtin_mul_overflow(known, dims[d], &known)) {
            return nn_eval_fail(c->e, "%s: a size is %" PRId64 ", allowed: at least 1, or one -1",
                                c->name, dims[d]);
        }
    }
    if (open >= 0 && nn_eval_ok(c->e)) {
        if (count % known)
            return nn_eval_fail(c->e, "%s: %" PRId64 " values do not divide by %" PRId64, c->name,
                                count, known);
        dims[open] = count / known;
    } else if (nn_eval_ok(c->e) && count != known) {
        char shape[96];
        return nn_eval_fail(
            c->e, "%s: %s has %" PRId64 " values, the new shape %" PRId64, c->name,
            tensor_shape_text(tensor_view_of(c->e->b->session, x), shape, sizeof shape), count,
            known);
    }
    return nn_of_tensor(nn_reshape(c->e->b, x, (int)rank, dims));
}

static struct nn_value permute(const struct nn_call *c)
{
    int64_t dims[TENSOR_RANK];
    tensor_id x = nn_tensor(c, 0);
    size_t n = nn_ints_of(c, &c->args[1], dims, TENSOR_RANK);
    return nn_eval_ok(c->e) ? nn_of_tensor(nn_permute(c->e->b, x, (int)n, dims))
                            : nn_of_tensor(TENSOR_NONE);
}

static struct nn_value transpose(const struct nn_call *c)
{
    int64_t dims[TENSOR_RANK];
    tensor_id x = nn_tensor(c, 0);
    int rank = nn_eval_ok(c->e) ? rank_of(c, x) : 0;
    int a = dim_of(c, 1, 0, rank), b = dim_of(c, 2, 0, rank);
    if (!nn_eval_ok(c->e))
        return nn_of_tensor(TENSOR_NONE);
    for (int d = 0; d < rank; d++)
        dims[d] = d == a ? b : d == b ? a : d;
    return nn_of_tensor(nn_permute(c->e->b, x, rank, dims));
}

static struct nn_value flatten(const struct nn_call *c)
{
    int64_t dims[TENSOR_RANK];
    tensor_id x = nn_tensor(c, 0);
    int rank = nn_eval_ok(c->e) ? rank_of(c, x) : 0, n = 0;
    int from = dim_of(c, 1, 0, rank), to = dim_of(c, 2, -1, rank);
    if (!nn_eval_ok(c->e) || from > to)
        return nn_eval_fail(c->e, "flatten: from dimension %d to %d", from, to);
    for (int d = 0; d < rank; d++) {
        int64_t size = nn_dim(c->e->b, x, d);
        if (d > from && d <= to)
            dims[n - 1] *= size;
        else
            dims[n++] = size;
    }
    return nn_of_tensor(nn_reshape(c->e->b, x, n, dims));
}

/* -1: as it is. */
static struct nn_value expand(const struct nn_call *c)
{
    int64_t dims[TENSOR_RANK];
    tensor_id x = nn_tensor(c, 0);
    size_t rank = nn_ints_of(c, &c->args[1], dims, TENSOR_RANK);
    if (!nn_eval_ok(c->e))
        return nn_of_tensor(TENSOR_NONE);
    int have = rank_of(c, x);
    for (size_t d = 0; d < rank; d++)
        if (dims[d] == -1 && (int)d + have >= (int)rank)
            dims[d] = nn_dim(c->e->b, x, (int)d + have - (int)rank);
    struct ops_value shape = {"shape", .ints = dims, .count = (int)rank};
    return nn_of_tensor(nn_call(c->e->b, "expand", 1, &x, NULL, 1, &shape));
}

static struct nn_value repeat(const struct nn_call *c)
{
    int64_t dims[TENSOR_RANK];
    tensor_id x = nn_tensor(c, 0);
    struct ops_value reps = {"reps", .ints = dims,
                             .count = (int)nn_ints_of(c, &c->args[1], dims, TENSOR_RANK)};
    return nn_eval_ok(c->e) ? nn_of_tensor(nn_call(c->e->b, "tile", 1, &x, NULL, 1, &reps))
                            : nn_of_tensor(TENSOR_NONE);
}

static struct nn_value size(const struct nn_call *c)
{
    tensor_id x = nn_tensor(c, 0);
    if (!nn_eval_ok(c->e))
        return nn_of_tensor(TENSOR_NONE);
    const struct tensor_view *v = tensor_view_of(c->e->b->session, x);
    int d = dim_of(c, 1, 0, v->rank);
    return nn_eval_ok(c->e) ? nn_whole(v->dims[d]) : nn_whole(0);
}

static struct nn_value pieces(const struct nn_call *c, tensor_id x, int dim, int64_t *sizes,
                              int count)
{
    tensor_id out[TENSOR_PORTS];
    struct ops_value values[] = {{"sizes", .ints = sizes, .count = count}, {"dim", .integer = dim}};
    nn_call(c->e->b, "split", 1, &x, out, 2, values);
    return nn_eval_ok(c->e) ? list_of(c, out, (size_t)count) : nn_of_tensor(TENSOR_NONE);
}

enum { PIECES = 48 }; /* what the op has room for */

static struct nn_value cut(const struct nn_call *c, tensor_id x, int dim, int64_t each)
{
    int64_t left = nn_dim(c->e->b, x, dim), sizes[PIECES];
    int n = 0;
    if (each < 1 || (left + each - 1) / each > PIECES)
        return nn_eval_fail(c->e,
                            "%s: pieces of %" PRId64 " of %" PRId64
                            ", allowed: at least 1 and at most %d pieces",
                            c->name, each, left, PIECES);
    for (; left > 0; left -= each)
        sizes[n++] = left < each ? left : each;
    return pieces(c, x, dim, sizes, n);
}

static struct nn_value chunk(const struct nn_call *c)
{
    tensor_id x = nn_tensor(c, 0);
    int64_t n = nn_int(c, 1, 1);
    int dim = dim_of(c, 2, 0, nn_eval_ok(c->e) ? rank_of(c, x) : 0);
    if (!nn_eval_ok(c->e) || n < 1)
        return nn_eval_fail(c->e, "chunk: %" PRId64 " pieces, allowed: at least 1", n);
    return cut(c, x, dim, (nn_dim(c->e->b, x, dim) + n - 1) / n);
}

static struct nn_value split(const struct nn_call *c)
{
    int64_t sizes[PIECES];
    tensor_id x = nn_tensor(c, 0);
    int dim = dim_of(c, 2, 0, nn_eval_ok(c->e) ? rank_of(c, x) : 0);
    size_t n = nn_ints_of(c, &c->args[1], sizes, PIECES);
    if (!nn_eval_ok(c->e) || !n)
        return nn_of_tensor(TENSOR_NONE);
    return c->args[1].kind == NN_VALUE_LIST ? pieces(c, x, dim, sizes, (int)n)
                                            : cut(c, x, dim, sizes[0]);
}

static struct nn_value join(const struct nn_call *c)
{
    tensor_id in[TENSOR_PORTS];
    const struct nn_value *v = &c->args[0];
    if (v->kind != NN_VALUE_LIST || v->count == 0 || v->count > TENSOR_PORTS)
        return nn_eval_fail(c->e, "%s: found %s, allowed: a list of 1 to %d tensors", c->name,
                            nn_value_noun(v), TENSOR_PORTS);
    for (size_t i = 0; i < v->count; i++) {
        if (v->items[i].kind != NN_VALUE_TENSOR)
            return nn_eval_fail(c->e, "%s: a list holds %s", c->name, nn_value_noun(&v->items[i]));
        in[i] = v->items[i].tensor;
    }
    bool is_stack = strcmp(c->name, "stack") == 0;
    int dim = dim_of(c, 1, 0, rank_of(c, in[0]) + is_stack);
    struct ops_value value = {"dim", .integer = dim};
    if (!nn_eval_ok(c->e))
        return nn_of_tensor(TENSOR_NONE);
    return nn_of_tensor(is_stack ? nn_call(c->e->b, "stack", v->count, in, NULL, 1, &value)
                                 : nn_cat(c->e->b, v->count, in, dim));
}

static struct nn_value contiguous(const struct nn_call *c)
{
    return nn_of_tensor(nn_contiguous(c->e->b, nn_tensor(c, 0)));
}

/* ---- sums ------------------------------------------------------------------------------------- */

static struct nn_value reduce(const struct nn_call *c)
{
    tensor_id x = nn_tensor(c, 0);
    int64_t dims[TENSOR_RANK];
    size_t n = nn_given(c, 1) ? nn_ints_of(c, &c->args[1], dims, TENSOR_RANK) : 0;
    struct ops_value values[] = {{"keepdim", .integer = nn_truth(c, 2, false)},
                                 {"dims", .ints = dims, .count = (int)n}};
    return nn_eval_ok(c->e)
               ? nn_of_tensor(nn_call(c->e->b, c->name, 1, &x, NULL, n ? 2 : 1, values))
               : nn_of_tensor(TENSOR_NONE);
}

static struct nn_value variance(const struct nn_call *c)
{
    tensor_id x = nn_tensor(c, 0);
    int64_t dims[TENSOR_RANK];
    size_t n = nn_given(c, 1) ? nn_ints_of(c, &c->args[1], dims, TENSOR_RANK) : 0;
    struct ops_value values[] = {{"unbiased", .integer = nn_truth(c, 2, true)},
                                 {"keepdim", .integer = nn_truth(c, 3, false)},
                                 {"dims", .ints = dims, .count = (int)n}};
    return nn_eval_ok(c->e) ? nn_of_tensor(nn_call(c->e->b, "var", 1, &x, NULL, n ? 3 : 2, values))
                            : nn_of_tensor(TENSOR_NONE);
}

/* The least is the largest of what lies below zero. */
static struct nn_value least(const struct nn_call *c)
{
    struct nn_value args[3] = {c->args[0], c->args[1], c->args[2]};
    tensor_id x = nn_tensor(c, 0);
    args[0] = nn_of_tensor(nn_op(c->e->b, "neg", 1, &x, NULL, NULL));
    struct nn_value y = reduce(&(struct nn_call){c->e, "amax", args, 3});
    return nn_eval_ok(c->e) ? nn_of_tensor(nn_op(c->e->b, "neg", 1, &y.tensor, NULL, NULL)) : y;
}

static struct nn_value deviation(const struct nn_call *c)
{
    struct nn_value y = variance(c);
    return nn_eval_ok(c->e) ? nn_of_tensor(nn_op(c->e->b, "sqrt", 1, &y.tensor, NULL, NULL)) : y;
}

static struct nn_value power(const struct nn_call *c)
{
    tensor_id x = nn_tensor(c, 0);
    struct ops_value exponent = {"exponent", .number = nn_number(c, 1, 1)};
    return nn_eval_ok(c->e)
               ? nn_of_tensor(nn_call(c->e->b, "pow_scalar", 1, &x, NULL, 1, &exponent))
               : nn_of_tensor(TENSOR_NONE);
}

/* ---- pools, sizes of images ------------------------------------------------------------------- */

/* kernel, stride, padding, ...: attributes of the op under names of its own. */
static struct nn_value pool(const struct nn_call *c)
{
    static const char *const max[] = {"kernel", "stride", "padding", "dilation", "ceil_mode"};
    static const char *const avg[] = {"kernel", "stride", "padding", "ceil_mode",
                                      "count_include_pad"};
    const char *const *names = *c->name == 'm' ? max : avg;
    struct nn_value args[7] = {c->args[0]};
    const char *given[7] = {NULL};
    size_t n = 1;
    for (size_t i = 1; i <= 5; i++)
        if (nn_given(c, i)) {
            given[n] = names[i - 1];
            args[n++] = c->args[i];
        }
    if (!nn_given(c, 2)) { /* as large as the kernel */
        given[n] = "stride";
        args[n++] = c->args[1];
    }
    if (*c->name != 'm' || !nn_truth(c, 6, false))
        return nn_function_op(c->e, ops_find(c->name), args, given, n);
    tensor_id x = nn_tensor(c, 0), out[TENSOR_PORTS] = {TENSOR_NONE};
    if (nn_int(c, 4, 1) != 1 || nn_truth(c, 5, false))
        return nn_eval_fail(c->e, "%s: return_indices is for dilation 1 and no ceil_mode", c->name);
    int64_t k = nn_int(c, 1, 1), s = nn_int(c, 2, k), p = nn_int(c, 3, 0);
    struct ops_value values[] = {
        {"kernel", .integer = k}, {"stride", .integer = s}, {"padding", .integer = p}};
    if (nn_eval_ok(c->e))
        nn_call(c->e->b, c->name, 1, &x, out, 3, values);
    return nn_eval_ok(c->e) ? list_of(c, out, 2) : nn_of_tensor(TENSOR_NONE);
}

static struct nn_value interpolate(const struct nn_call *c)
{
    const char *mode = nn_word(c, 3, "nearest");
    bool is_bilinear = strcmp(mode, "bilinear") == 0;
    struct nn_value args[4] = {c->args[0]};
    const char *names[4] = {NULL};
    size_t n = 1;
    if (!is_bilinear && strcmp(mode, "nearest") != 0)
        return nn_eval_fail(c->e, "%s: mode is '%s', allowed: 'nearest', 'bilinear'", c->name,
                            mode);
    for (size_t i = 1; i <= 2; i++)
        if (nn_given(c, i)) {
            names[n] = i == 1 ? "size" : "scale";
            args[n++] = c->args[i];
        }
    if (n != 2)
        return nn_eval_fail(c->e, "%s needs either size or scale_factor", c->name);
    if (is_bilinear && nn_given(c, 4)) {
        names[n] = "align_corners";
        args[n++] = c->args[4];
    }
    return nn_function_op(
        c->e, ops_find(is_bilinear ? "upsample_bilinear2d" : "upsample_nearest2d"), args, names, n);
}

/* ---- layers without weights ------------------------------------------------------------------- */

static struct nn_value dropout(const struct nn_call *c)
{
    double p = nn_number(c, 1, 0.5);
    if (!(p >= 0 && p < 1))
        return nn_eval_fail(c->e, "dropout: p is from 0 to below 1");
    return nn_of_tensor(nn_dropout(c->e->b, nn_tensor(c, 0), p));
}

static struct nn_value attention(const struct nn_call *c)
{
    tensor_id in[4] = {nn_tensor(c, 0), nn_tensor(c, 1), nn_tensor(c, 2),
                       nn_given(c, 3) ? nn_tensor(c, 3) : TENSOR_NONE};
    double p = nn_number(c, 4, 0);
    bool is_causal = nn_truth(c, 5, false);
    if (!nn_eval_ok(c->e))
        return nn_of_tensor(TENSOR_NONE);
    int rank = rank_of(c, in[0]);
    if (is_causal && rank > 1 && rank_of(c, in[1]) == rank &&
        nn_dim(c->e->b, in[0], rank - 2) != nn_dim(c->e->b, in[1], rank - 2))
        return nn_eval_fail(
            c->e, "is_causal with %" PRId64 " places that look at %" PRId64 ": give attn_mask",
            nn_dim(c->e->b, in[0], rank - 2), nn_dim(c->e->b, in[1], rank - 2));
    return nn_of_tensor(nn_attention(c->e->b, in[0], in[1], in[2], in[3], is_causal, p));
}

static struct nn_value activate(const struct nn_call *c)
{
    static const char *const names[] = {"relu", "relu6", "silu", "sigmoid", "tanh"};
    static const enum nn_act acts[] = {NN_RELU, NN_RELU6, NN_SILU, NN_SIGMOID, NN_TANH};
    tensor_id x = nn_tensor(c, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names && nn_eval_ok(c->e); i++)
        if (strcmp(names[i], c->name) == 0)
            return nn_of_tensor(nn_activate(c->e->b, acts[i], x));
    return nn_of_tensor(TENSOR_NONE);
}

/* ---- losses and metrics ----------------------------------------------------------------------- */

/* Losses that torch calls otherwise than our ops. */
static struct nn_value loss_of(const struct nn_call *c)
{
    bool is_logits = strcmp(c->name, "binary_cross_entropy_with_logits") == 0;
    tensor_id in[] = {nn_tensor(c, 0), nn_tensor(c, 1)};
    return nn_eval_ok(c->e)
               ? nn_of_tensor(nn_op(c->e->b, is_logits ? "bce_with_logits_loss" : "bce_loss", 2, in,
                                    NULL, NULL))
               : nn_of_tensor(TENSOR_NONE);
}

/* Numbers 1, 2, ... of classes, as fractions: what can be compared. */
static tensor_id class_numbers(const struct nn_call *c, int64_t classes, tensor_id which)
{
    struct nn_builder *b = c->e->b;
    struct ops_value ones[] = {{"shape", .ints = &classes, .count = 1}, {"value", .number = 1}};
    struct ops_value dim = {"dim", .integer = 0};
    const struct tensor_view *v = tensor_view_of(b->session, which);
    tensor_id table = nn_call(b, "full", 0, NULL, NULL, 2, ones);
    tensor_id in[] = {nn_call(b, "cumsum", 1, &table, NULL, 1, &dim),
                      nn_reshape(b, which, 1, (int64_t[]){tensor_count(v)})};
    return nn_call(b, "index_select", 2, in, NULL, 1, &dim);
}

/* The share of places where the best score is that of the wanted class. */
static struct nn_value accuracy(const struct nn_call *c)
{
    struct nn_builder *b = c->e->b;
    tensor_id scores = nn_tensor(c, 0), wanted = nn_tensor(c, 1);
    struct ops_value dim = {"dim", .integer = 1};
    if (!nn_eval_ok(c->e))
        return nn_of_tensor(TENSOR_NONE);
    if (rank_of(c, scores) < 2 || tensor_view_of(b->session, wanted)->dtype != TENSOR_I64)
        return nn_eval_fail(c->e, "accuracy takes scores [batch, classes, ...] and classes, which "
                                  "are whole numbers (dtype: int64)");
    scores = nn_full(b, scores);
    tensor_id best = nn_call(b, "argmax", 1, &scores, NULL, 1, &dim);
    if (nn_eval_ok(c->e) &&
        !tensor_same_shape(tensor_view_of(b->session, best), tensor_view_of(b->session, wanted)))
        return nn_eval_fail(c->e, "accuracy: there are other numbers of answers and of classes");
    int64_t classes = nn_eval_ok(c->e) ? nn_dim(b, scores, 1) : 1;
    tensor_id pair[] = {best, wanted};
    for (size_t i = 0; i < 2 && nn_eval_ok(c->e); i++)
        pair[i] = class_numbers(c, classes, pair[i]);
    if (!nn_eval_ok(c->e))
        return nn_of_tensor(TENSOR_NONE);
    tensor_id same = nn_op(b, "equal", 2, pair, NULL, NULL);
    return nn_of_tensor(nn_op(b, "mean", 1, &same, NULL, NULL));
}

/* ---- the table -------------------------------------------------------------------------------- */

#define MAX_POOL "x, kernel_size, stride=, padding=0, dilation=1, ceil_mode=False, return_indices="
#define AVG_POOL "x, kernel_size, stride=, padding=0, ceil_mode=False, count_include_pad=True"
#define DRAWN "over=, copy="

static const struct nn_function functions[] = {
    {{"int", "x"}, to_int},
    {{"min", "*values"}, extreme},
    {{"max", "*values"}, extreme},
    {{"len", "x"}, length},
    {{"sqrt", "x"}, root},
    {{"normal", "mean=0, std=1, " DRAWN}, init_normal},
    {{"uniform", "a=0, b=1, " DRAWN}, init_uniform},
    {{"constant", "value, " DRAWN}, init_constant},
    {{"kaiming_normal", "mode='fan_in', " DRAWN}, init_by_fan},
    {{"kaiming_uniform", "mode='fan_in', " DRAWN}, init_by_fan},
    {{"xavier_normal", DRAWN}, init_xavier},
    {{"xavier_uniform", DRAWN}, init_xavier},
    {{"zeros", "*shape"}, filled},
    {{"ones", "*shape"}, filled},
    {{"reshape", "x, *shape"}, reshape},
    {{"view", "x, *shape"}, reshape},
    {{"permute", "x, *dims"}, permute},
    {{"transpose", "x, dim0, dim1"}, transpose},
    {{"flatten", "x, start_dim=0, end_dim=-1"}, flatten},
    {{"expand", "x, *sizes"}, expand},
    {{"repeat", "x, *sizes"}, repeat},
    {{"size", "x, dim"}, size},
    {{"chunk", "x, chunks, dim=0"}, chunk},
    {{"split", "x, sizes, dim=0"}, split},
    {{"cat", "tensors, dim=0"}, join},
    {{"stack", "tensors, dim=0"}, join},
    {{"contiguous", "x"}, contiguous},
    {{"sum", "x, dim=, keepdim=False"}, reduce},
    {{"mean", "x, dim=, keepdim=False"}, reduce},
    {{"amax", "x, dim=, keepdim=False"}, reduce},
    {{"amin", "x, dim=, keepdim=False"}, least},
    {{"var", "x, dim=, unbiased=True, keepdim=False"}, variance},
    {{"std", "x, dim=, unbiased=True, keepdim=False"}, deviation},
    {{"pow", "x, exponent"}, power},
    {{"max_pool1d", MAX_POOL}, pool},
    {{"max_pool2d", MAX_POOL}, pool},
    {{"max_pool3d", MAX_POOL}, pool},
    {{"avg_pool1d", AVG_POOL}, pool},
    {{"avg_pool2d", AVG_POOL}, pool},
    {{"avg_pool3d", AVG_POOL}, pool},
    {{"interpolate", "x, size=, scale_factor=, mode='nearest', align_corners=False"}, interpolate},
    {{"dropout", "x, p=0.5"}, dropout},
    {{"scaled_dot_product_attention", "q, k, v, attn_mask=, dropout_p=0, is_causal=False"},
     attention},
    {{"relu", "x"}, activate},
    {{"relu6", "x"}, activate},
    {{"silu", "x"}, activate},
    {{"sigmoid", "x"}, activate},
    {{"tanh", "x"}, activate},
    {{"binary_cross_entropy", "x, target"}, loss_of},
    {{"binary_cross_entropy_with_logits", "x, target"}, loss_of},
    {{"accuracy", "scores, target"}, accuracy},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

const struct nn_function *nn_function_find(const char *name)
{
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (strcmp(functions[i].signature.name, name) == 0)
            return &functions[i];
    return NULL;
}

const char *nn_function_name(size_t i)
{
    if (i < FUNCTIONS)
        return functions[i].signature.name;
    i -= FUNCTIONS;
    for (size_t k = 0; k < ops_count(); k++)
        if (!ops_is_internal(ops_at(k)) && i-- == 0)
            return ops_name(ops_at(k));
    return NULL;
}
