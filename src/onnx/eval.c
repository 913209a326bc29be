/* eval.c - values, and one node after the other. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "onnx/internal.h"

/* ---- what ops say ----------------------------------------------------------------------------- */

bool onnx_has(const struct onnx_call *c, size_t i)
{
    return i < c->in_count && c->in[i].type;
}

bool onnx_wants(const struct onnx_call *c, size_t i)
{
    return i < c->node->out_count && c->node->out[i] != ONNX_NONE;
}

static enum ebb_status say(struct onnx_call *c, enum ebb_status status, const char *fmt,
                           va_list args)
{
    char text[512];
    vsnprintf(text, sizeof text, fmt, args);
    return ebb_fail(c->err, status, "%s: %s", c->node->op, text);
}

enum ebb_status onnx_no(struct onnx_call *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    enum ebb_status status = say(c, EBB_EINPUT, fmt, args);
    va_end(args);
    return status;
}

enum ebb_status onnx_not_here(struct onnx_call *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    enum ebb_status status = say(c, EBB_EUNSUPPORTED, fmt, args);
    va_end(args);
    return status;
}

/* ---- memory ----------------------------------------------------------------------------------- */

static enum ebb_status take(struct onnx_eval *e, int64_t count, size_t bytes, void *pointer,
                            struct ebb_error *err)
{
    size_t total;
    if (count < 0 || __builtin_mul_overflow((size_t)count, bytes, &total) || total > e->room)
        return ebb_fail(err, EBB_ELIMIT,
                        "%" PRId64 " elements of %zu bytes: only %" PRIu64 " bytes may be taken",
                        count, bytes, e->room);
    void *p = ebb_arena_calloc(e->arena, (size_t)count, bytes);
    if (!p)
        return ebb_no_memory(err, total);
    e->room -= total;
    memcpy(pointer, &p, sizeof p);
    return EBB_OK;
}

enum ebb_status onnx_take(struct onnx_call *c, int64_t count, void *pointer, size_t bytes)
{
    return take(c->e, count, bytes, pointer, c->err);
}

#define SPAN (INT64_C(1) << 31)

enum ebb_status onnx_work(struct onnx_call *c, const int64_t *factors, size_t count)
{
    int64_t steps = 1;
    for (size_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(steps, factors[i] > 1 ? factors[i] : 1, &steps))
            steps = INT64_MAX;
    uint64_t left = c->e->steps < ONNX_STEPS ? c->e->steps : ONNX_STEPS;
    if ((uint64_t)steps > left)
        return ebb_fail(c->err, EBB_ELIMIT,
                        "%s: more steps on the host than the %" PRIu64 " that are left",
                        c->node->op, left);
    c->e->steps -= (uint64_t)steps;
    return EBB_OK;
}

static enum ebb_status shape(struct onnx_value *v, int type, int rank, const int64_t *dims,
                             struct ebb_error *err)
{
    if (rank < 0 || rank > ONNX_RANK)
        return ebb_fail(err, EBB_ELIMIT, "%d dimensions, allowed: at most %d", rank, ONNX_RANK);
    *v = (struct onnx_value){.type = type, .rank = rank, .count = 1};
    int64_t span = 1; /* without zeros, so that no product of some sizes is too large */
    for (int d = 0; d < rank; d++) {
        if (dims[d] < 0 || dims[d] > SPAN || (span *= dims[d] ? dims[d] : 1) > SPAN)
            return ebb_fail(
                err, EBB_ELIMIT,
                "a size of a result is %" PRId64 ", or all of them are too many elements", dims[d]);
        v->dims[d] = dims[d];
        v->count *= dims[d];
    }
    return EBB_OK;
}

static enum ebb_status make(struct onnx_eval *e, struct onnx_value *v, int type, int rank,
                            const int64_t *dims, struct ebb_error *err)
{
    EBB_TRY(shape(v, type, rank, dims, err));
    if (type == ONNX_STRING)
        return take(e, v->count, sizeof *v->texts, &v->texts, err);
    if (onnx_type_is_float(type))
        return take(e, v->count, sizeof *v->number, &v->number, err);
    if (!onnx_type_bytes(type) || type == ONNX_COMPLEX64 || type == ONNX_COMPLEX128)
        return ebb_fail(err, EBB_EUNSUPPORTED, "values of type %s", onnx_type_name(type));
    return take(e, v->count, sizeof *v->integer, &v->integer, err);
}

enum ebb_status onnx_make_value(struct onnx_call *c, struct onnx_value *v, int type, int rank,
                                const int64_t *dims)
{
    enum ebb_status status = make(c->e, v, type, rank, dims, c->err);
    return status == EBB_OK ? status : ebb_context(c->err, status, "%s", c->node->op);
}

enum ebb_status onnx_make(struct onnx_call *c, size_t out, int type, int rank, const int64_t *dims)
{
    struct onnx_value local;
    return onnx_make_value(c, out < c->node->out_count ? &c->out[out] : &local, type, rank, dims);
}

enum ebb_status onnx_again(struct onnx_call *c, size_t out, const struct onnx_value *v, int rank,
                           const int64_t *dims)
{
    struct onnx_value y;
    EBB_TRY(shape(&y, v->type, rank, dims, c->err));
    if (y.count != v->count)
        return onnx_no(c, "%" PRId64 " elements do not fit a shape of %" PRId64, v->count, y.count);
    y.number = v->number;
    y.integer = v->integer;
    y.texts = v->texts;
    c->out[out] = y;
    return EBB_OK;
}

/* ---- elements --------------------------------------------------------------------------------- */

static double round_half(double v)
{
    int e;
    if (!isfinite(v) || !(fabs(v) > 0))
        return v;
    frexp(v, &e);
    int place = e - 11 < -24 ? -24 : e - 11; /* of the last bit */
    double r = ldexp(nearbyint(ldexp(v, -place)), place);
    return fabs(r) > 65504 ? copysign(INFINITY, v) : r;
}

static double round_brain(double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (!isfinite(f))
        return (double)f;
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

double onnx_round(int type, double v)
{
    return type == ONNX_FLOAT      ? (double)(float)v
           : type == ONNX_FLOAT16  ? round_half(v)
           : type == ONNX_BFLOAT16 ? round_brain(v)
                                   : v;
}

int64_t onnx_wrap(int type, int64_t v)
{
    switch (type) {
    case ONNX_UINT8:
        return (uint8_t)v;
    case ONNX_INT8:
        return (int8_t)v;
    case ONNX_UINT16:
        return (uint16_t)v;
    case ONNX_INT16:
        return (int16_t)v;
    case ONNX_UINT32:
        return (uint32_t)v;
    case ONNX_INT32:
        return (int32_t)v;
    case ONNX_BOOL:
        return v != 0;
    default:
        return v;
    }
}

double onnx_get(const struct onnx_value *v, int64_t i)
{
    return v->number                ? v->number[i]
           : v->type == ONNX_UINT64 ? (double)(uint64_t)v->integer[i]
                                    : (double)v->integer[i];
}

static int64_t whole(int type, double v)
{
    if (type == ONNX_BOOL)
        return v < 0 || v > 0 || isnan(v);
    if (isnan(v))
        return 0;
    if (type == ONNX_UINT64 && v >= 0x1p63)
        return v < 0x1p64 ? (int64_t)(uint64_t)v : -1;
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : onnx_wrap(type, (int64_t)v);
}

void onnx_set(struct onnx_value *v, int64_t i, double number)
{
    if (v->number)
        v->number[i] = onnx_round(v->type, number);
    else
        v->integer[i] = whole(v->type, number);
}

void onnx_copy(struct onnx_value *to, int64_t i, const struct onnx_value *from, int64_t k)
{
    if (to->number)
        to->number[i] = from->number[k];
    else if (to->integer)
        to->integer[i] = from->integer[k];
    else
        ((struct onnx_text *)(uintptr_t)to->texts)[i] = from->texts[k];
}

void onnx_fill(struct onnx_value *to, int64_t i, const struct onnx_value *scalar)
{
    if (scalar && scalar->type == to->type && scalar->count > 0)
        onnx_copy(to, i, scalar, 0);
    else if (to->texts)
        ((struct onnx_text *)(uintptr_t)to->texts)[i] = (struct onnx_text){"", 0};
    else
        onnx_set(to, i, 0);
}

/* ---- values from outside ---------------------------------------------------------------------- */

enum ebb_status onnx_value_from(struct onnx_eval *e, const struct onnx_tensor *t,
                                struct onnx_value *v, struct ebb_error *err)
{
    bool is_text = t->type == ONNX_STRING;
    enum ebb_status status = is_text ? shape(v, t->type, t->rank, t->dims, err)
                                     : make(e, v, t->type, t->rank, t->dims, err);
    if (status != EBB_OK) {
        *v = (struct onnx_value){0}; /* V1 */
        return ebb_context(err, status, "tensor '%s'", t->name);
    }
    if (is_text) {
        v->texts = t->texts;
        return EBB_OK;
    }
    for (int64_t i = 0; i < v->count; i++)
        if (v->number)
            v->number[i] = onnx_tensor_number(t, i);
        else
            v->integer[i] = onnx_tensor_integer(t, i);
    return EBB_OK;
}

enum ebb_status onnx_value_ints(struct onnx_eval *e, int rank, const int64_t *ints, int64_t count,
                                struct onnx_value *v, struct ebb_error *err)
{
    EBB_TRY(make(e, v, ONNX_INT64, rank, &count, err));
    memcpy(v->integer, ints, (size_t)count * sizeof *ints);
    return EBB_OK;
}

/* ---- shared by ops ---------------------------------------------------------------------------- */

enum ebb_status onnx_axis(struct onnx_call *c, int64_t given, int rank, int *axis)
{
    if (given < -rank || given >= rank)
        return onnx_no(c, "axis %" PRId64 " of %d dimensions", given, rank);
    *axis = (int)(given < 0 ? given + rank : given);
    return EBB_OK;
}

enum ebb_status onnx_axes(struct onnx_call *c, const int64_t *axes, size_t count, int rank,
                          bool *is_named)
{
    int axis;
    for (size_t i = 0; i < count; i++) {
        EBB_TRY(onnx_axis(c, axes[i], rank, &axis));
        if (is_named[axis])
            return onnx_no(c, "axis %" PRId64 " is named twice", axes[i]);
        is_named[axis] = true;
    }
    return EBB_OK;
}

enum ebb_status onnx_list(struct onnx_call *c, size_t i, const char *name, const int64_t **v,
                          size_t *count)
{
    *count = 0;
    *v = name ? onnx_attr_ints(c->node, name, count) : NULL;
    if (*v || !onnx_has(c, i))
        return EBB_OK;
    *v = c->in[i].integer;
    *count = (size_t)c->in[i].count;
    return EBB_OK;
}

void onnx_strides(const struct onnx_value *v, int rank, const int64_t *dims, int64_t *strides)
{
    int64_t step = 1;
    for (int d = rank - 1, k = v->rank - 1; d >= 0; d--, k--) {
        strides[d] = k < 0 || (v->dims[k] == 1 && dims[d] != 1) ? 0 : step;
        step *= k < 0 ? 1 : v->dims[k];
    }
}

enum ebb_status onnx_broadcast(struct onnx_call *c, const struct onnx_value *const *v, size_t count,
                               int *rank, int64_t *dims)
{
    *rank = 0;
    for (size_t i = 0; i < count; i++)
        *rank = v[i]->rank > *rank ? v[i]->rank : *rank;
    for (int d = 0; d < *rank; d++) {
        dims[d] = 1;
        for (size_t i = 0; i < count; i++) {
            int k = d - *rank + v[i]->rank;
            int64_t size = k < 0 ? 1 : v[i]->dims[k];
            if (size != dims[d] && size != 1 && dims[d] != 1)
                return onnx_no(c, "sizes %" PRId64 " and %" PRId64 " do not fit", dims[d], size);
            dims[d] = size == 1 ? dims[d] : size;
        }
    }
    return EBB_OK;
}

/* ---- nodes ------------------------------------------------------------------------------------ */

/* Kinds of the inputs, and a step for each element that is read. */
static enum ebb_status check_values(struct onnx_call *c, const struct onnx_op *row)
{
    int types[ONNX_MANY];
    int64_t elements = 0;
    for (size_t i = 0; i < c->in_count; i++) {
        types[i] = c->in[i].type;
        elements += c->in[i].count;
        if (!types[i] && i < (size_t)row->least)
            return onnx_no(c, "input %zu has no value", i);
    }
    EBB_TRY(onnx_op_types(c->node, c->e->opset, types, c->err));
    return onnx_work(c, &elements, 1);
}

/* V1 of what was made, and a step for each element of it. */
static enum ebb_status check_made(struct onnx_call *c)
{
    int64_t elements = 0;
    for (size_t i = 0; i < c->node->out_count; i++) {
        const struct onnx_value *y = &c->out[i];
        if (onnx_wants(c, i) && !y->number && !y->integer && !y->texts)
            return onnx_not_here(c, "output %zu is not made", i);
        elements += y->count;
    }
    return onnx_work(c, &elements, 1);
}

enum ebb_status onnx_eval_node(struct onnx_eval *e, const struct onnx_node *node,
                               const struct onnx_value *in, struct onnx_value *out,
                               struct ebb_error *err)
{
    const struct onnx_op *row;
    struct onnx_call c = {
        .e = e, .node = node, .in = in, .in_count = node->in_count, .out = out, .err = err};
    EBB_TRY(onnx_op_check(node, e->opset, err));
    EBB_TRY(onnx_op_find(node, e->opset, &row, err));
    c.variant = row->variant;
    memset(out, 0, node->out_count * sizeof *out);
    EBB_TRY(check_values(&c, row));
    EBB_TRY(row->run(&c));
    return check_made(&c);
}

enum ebb_status onnx_eval_graph(struct onnx_eval *e, const struct onnx_graph *g,
                                struct onnx_value *values, struct ebb_error *err)
{
    struct onnx_value in[ONNX_MANY], out[ONNX_MANY];
    for (size_t i = 0; i < g->initializer_count; i++)
        EBB_TRY(onnx_value_from(e, &g->initializers[i], &values[g->initializer_values[i]], err));
    for (size_t i = 0; i < g->node_count; i++) {
        const struct onnx_node *n = &g->nodes[i];
        if (n->in_count > ONNX_MANY || n->out_count > ONNX_MANY)
            return ebb_fail(err, EBB_ELIMIT, "%s: more than %d inputs or outputs", n->op,
                            ONNX_MANY);
        for (size_t k = 0; k < n->in_count; k++)
            in[k] = n->in[k] == ONNX_NONE ? (struct onnx_value){0} : values[n->in[k]];
        enum ebb_status status = onnx_eval_node(e, n, in, out, err);
        if (status != EBB_OK)
            return ebb_context(err, status, "node %zu%s%s%s", i, *n->name ? " (" : "", n->name,
                               *n->name ? ")" : "");
        for (size_t k = 0; k < n->out_count; k++)
            if (n->out[k] != ONNX_NONE)
                values[n->out[k]] = out[k];
    }
    return EBB_OK;
}
