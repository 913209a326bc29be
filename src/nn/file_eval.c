/* file_eval.c - a model file is built: modules are constructed, then forward is evaluated. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nn/file.h"

#define MAX_CALLS 500000 /* of modules and functions in one build */
#define MAX_SIZE (INT64_C(1) << 40)

struct frame { /* one call of a block */
    const struct nn_block *block;
    struct nn_part *part;        /* whose modules are called */
    const struct nn_value *args; /* of block->head */
    const int64_t *index;        /* of a repeated module; NULL: none */
    struct ebb_strmap names;     /* of variables, to places in values */
    struct nn_value *values;
    size_t count, room;
};

static struct nn_value eval(struct nn_eval *e, struct frame *f, const struct nn_expr *x);

/* ---- failing ---------------------------------------------------------------------------------- */

bool nn_eval_ok(const struct nn_eval *e)
{
    return tensor_status(e->b->session, NULL) == EBB_OK;
}

static void mark(struct nn_eval *e)
{
    if (e->b->place.line || !e->at)
        return;
    e->b->place = (struct nn_place){e->file->path, e->at->line, e->at->column};
}

struct nn_value nn_eval_fail(struct nn_eval *e, const char *fmt, ...)
{
    char text[384];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (nn_eval_ok(e))
        mark(e);
    tensor_fail(e->b->session, EBB_EINPUT, "%s", text);
    return (struct nn_value){0};
}

const char *nn_value_noun(const struct nn_value *v)
{
    static const char *const nouns[] = {"None",     "true or false", "a whole number",
                                        "a number", "a text",        "a list",
                                        "a tensor", "a module",      "initial values"};
    return nouns[v->kind];
}

static struct nn_value whole(int64_t v)
{
    return (struct nn_value){.kind = NN_VALUE_INT, .integer = v, .number = (double)v};
}

static struct nn_value real(double v)
{
    return (struct nn_value){.kind = NN_VALUE_FLOAT, .number = v};
}

static struct nn_value truth(bool v)
{
    return (struct nn_value){.kind = NN_VALUE_BOOL, .integer = v, .number = v};
}

static struct nn_value tensor(tensor_id id)
{
    return (struct nn_value){.kind = NN_VALUE_TENSOR, .tensor = id};
}

static void *take(struct nn_eval *e, size_t count, size_t bytes)
{
    void *p = ebb_arena_calloc(e->arena, count ? count : 1, bytes);
    if (!p)
        tensor_fail(e->b->session, EBB_ENOMEM, "out of memory");
    return p;
}

/* ---- names ------------------------------------------------------------------------------------ */

static void set_variable(struct nn_eval *e, struct frame *f, const char *name, struct nn_value v)
{
    uint64_t at;
    size_t n = strlen(name);
    if (!ebb_strmap_get(&f->names, name, n, &at)) {
        if (f->count == f->room) {
            size_t room = f->room ? 2 * f->room : 16;
            struct nn_value *more = take(e, room, sizeof *more);
            if (!more)
                return;
            if (f->count)
                memcpy(more, f->values, f->count * sizeof *more);
            f->values = more;
            f->room = room;
        }
        at = f->count++;
        if (ebb_strmap_put(&f->names, name, n, at, NULL) != EBB_OK) {
            tensor_fail(e->b->session, EBB_ENOMEM, "out of memory");
            return;
        }
    }
    f->values[at] = v;
}

static bool option(const struct nn_eval *e, const char *name, struct nn_value *v)
{
    for (size_t i = 0; i < e->file->option_count; i++) {
        const struct ebb_key *o = &e->file->options[i];
        const unsigned char *at = e->config->bytes + o->at;
        if (strcmp(o->path, name) != 0)
            continue;
        struct nn_ints list;
        int64_t n;
        double d;
        bool b;
        if (o->kind == EBB_KEY_INT) {
            memcpy(&n, at, sizeof n);
            *v = whole(n);
        } else if (o->kind == EBB_KEY_DOUBLE) {
            memcpy(&d, at, sizeof d);
            *v = real(d);
        } else if (o->kind == EBB_KEY_BOOL) {
            memcpy(&b, at, sizeof b);
            *v = truth(b);
        } else {
            memcpy(&list, at, sizeof list);
            *v = (struct nn_value){.kind = NN_VALUE_LIST, .count = (size_t)list.count};
            v->items = ebb_arena_calloc(e->arena, (size_t)list.count + 1, sizeof *v->items);
            for (int64_t k = 0; v->items && k < list.count; k++)
                v->items[k] = whole(list.v[k]);
            v->count = v->items ? v->count : 0;
        }
        return true;
    }
    return false;
}

/* "layer1.0.conv" of a chain of members; false: it does not begin with a name. */
static bool dotted(const struct nn_expr *x, char *buf, size_t size)
{
    if (x->kind == NN_EXPR_NAME)
        return snprintf(buf, size, "%s", x->text) < (int)size;
    if (x->kind != NN_EXPR_MEMBER || !dotted(x->items[0], buf, size))
        return false;
    size_t n = strlen(buf);
    return snprintf(buf + n, size - n, ".%s", x->text) < (int)(size - n);
}

static struct nn_part *find_part(struct nn_part *of, const char *path)
{
    for (size_t i = 0; i < of->part_count; i++) {
        size_t n = strlen(of->parts[i].name);
        if (strncmp(path, of->parts[i].name, n) != 0 || (path[n] && path[n] != '.'))
            continue;
        struct nn_part *below = path[n] ? find_part(&of->parts[i], path + n + 1) : &of->parts[i];
        if (below)
            return below;
    }
    return NULL;
}

/* Names of items are those of the modules from the top: entered below the part of the caller. */
static int enter(struct nn_eval *e, const struct nn_part *part, const struct nn_part *from)
{
    if (part == from || !part || !part->up)
        return 0;
    int n = enter(e, part->up, from);
    nn_enter(e->b, part->name);
    return n + 1;
}

static void leave(struct nn_eval *e, int count)
{
    while (count-- > 0)
        nn_pop(e->b);
}

/* An item of a module, by its name below it. */
static struct nn_value item(struct nn_eval *e, struct frame *f, const struct nn_part *part,
                            const char *name)
{
    char full[512];
    int n = enter(e, part, f->part);
    nn_full_name(e->b, name, full, sizeof full);
    leave(e, n);
    const struct nn_item *i = nn_item_find(e->b, full);
    if (!i)
        return nn_eval_fail(e, "there is no tensor '%s'", full);
    return tensor(i->id);
}

/* Parameters and buffers are read, other modules called. */
static struct nn_value part_value(struct nn_eval *e, struct frame *f, struct nn_part *part)
{
    return part->class && !part->class->calls
               ? item(e, f, part->up, part->name)
               : (struct nn_value){.kind = NN_VALUE_MODULE, .module = part};
}

static struct nn_value name_value(struct nn_eval *e, struct frame *f, const struct nn_expr *x)
{
    struct nn_value v;
    uint64_t at;
    if (ebb_strmap_get(&f->names, x->text, strlen(x->text), &at))
        return f->values[at];
    struct nn_part *part = f->part ? find_part(f->part, x->text) : NULL;
    if (part)
        return part_value(e, f, part);
    for (size_t i = 0; f->block && i < f->block->head.count; i++)
        if (strcmp(f->block->head.names[i], x->text) == 0)
            return f->args[i];
    if (option(e, x->text, &v))
        return v;
    if (f->index && strcmp(x->text, "index") == 0)
        return whole(*f->index);
    if (strcmp(x->text, "batch") == 0)
        return whole(e->batch);
    return nn_eval_fail(e, "there is no '%s'", x->text);
}

/* ---- signatures ------------------------------------------------------------------------------- */

size_t nn_signature_count(const char *parameters)
{
    size_t n = *parameters != 0;
    for (const char *p = parameters; *p; p++)
        n += *p == ',';
    return n;
}

const char *nn_signature_at(const char *parameters, size_t i, char buf[32], bool *is_optional,
                            bool *is_rest)
{
    const char *p = parameters;
    for (; i > 0 && *p; p++)
        i -= *p == ',';
    while (*p == ' ')
        p++;
    *is_rest = *p == '*';
    p += *is_rest;
    size_t n = strcspn(p, ",= ");
    *is_optional = p[n] == '=' || *is_rest;
    n = n < 31 ? n : 31;
    memcpy(buf, p, n);
    buf[n] = '\0';
    return buf;
}

int nn_signature_find(const char *parameters, const char *name)
{
    char buf[32];
    bool is_optional, is_rest;
    for (size_t i = 0; i < nn_signature_count(parameters); i++)
        if (strcmp(nn_signature_at(parameters, i, buf, &is_optional, &is_rest), name) == 0)
            return (int)i;
    return -1;
}

const struct nn_value *nn_bind(struct nn_eval *e, const char *what, const char *parameters,
                               const struct nn_value *args, const char *const *names, size_t count)
{
    size_t n = nn_signature_count(parameters), at = 0;
    struct nn_value *to = take(e, n, sizeof *to);
    bool given[NN_FILE_NAMES + 2] = {false}, is_optional, is_rest;
    char name[32];
    for (size_t i = 0; to && i < count; i++) {
        int k = names && names[i] ? nn_signature_find(parameters, names[i]) : -1;
        if (names && names[i] && k < 0) {
            nn_eval_fail(e, "%s has no argument '%s'", what, names[i]);
            return NULL;
        }
        if (k < 0 && at >= n) {
            nn_eval_fail(e, "%s takes %zu values: %s", what, n, parameters);
            return NULL;
        }
        if (k < 0)
            nn_signature_at(parameters, at, name, &is_optional, &is_rest);
        else
            is_rest = false;
        if (is_rest) { /* everything that has no name, from here on */
            size_t more = 0;
            for (size_t j = i; j < count && !(names && names[j]); j++)
                more++;
            to[at] = (struct nn_value){
                .kind = NN_VALUE_LIST, .items = take(e, more, sizeof *args), .count = more};
            if (!to[at].items)
                return NULL;
            memcpy(to[at].items, args + i, more * sizeof *args);
            given[at++] = true;
            i += more - 1;
            continue;
        }
        size_t place = k < 0 ? at++ : (size_t)k;
        to[place] = args[i];
        given[place] = true;
    }
    for (size_t i = 0; to && i < n; i++) {
        nn_signature_at(parameters, i, name, &is_optional, &is_rest);
        if (!given[i] && !is_optional) {
            nn_eval_fail(e, "%s needs '%s'", what, name);
            return NULL;
        }
    }
    return to;
}

/* ---- arguments as C values -------------------------------------------------------------------- */

bool nn_given(const struct nn_call *c, size_t i)
{
    return i < c->count && c->args[i].kind != NN_VALUE_NONE;
}

static const char *argument(const struct nn_call *c, size_t i, char buf[32])
{
    bool is_optional, is_rest;
    const struct nn_function *f = nn_function_find(c->name);
    const struct nn_class *k = nn_class_find(c->name);
    const char *parameters = f ? f->signature.parameters : k ? k->signature.parameters : "";
    return i < nn_signature_count(parameters)
               ? nn_signature_at(parameters, i, buf, &is_optional, &is_rest)
               : "a value";
}

static void wrong(const struct nn_call *c, size_t i, const char *allowed)
{
    char buf[32];
    nn_eval_fail(c->e, "%s: '%s' is %s, allowed: %s", c->name, argument(c, i, buf),
                 i < c->count ? nn_value_noun(&c->args[i]) : "missing", allowed);
}

int64_t nn_int(const struct nn_call *c, size_t i, int64_t fallback)
{
    if (!nn_given(c, i))
        return fallback;
    const struct nn_value *v = &c->args[i];
    if (v->kind == NN_VALUE_INT && v->integer > -MAX_SIZE && v->integer < MAX_SIZE)
        return v->integer;
    wrong(c, i, "a whole number");
    return fallback;
}

double nn_number(const struct nn_call *c, size_t i, double fallback)
{
    if (!nn_given(c, i))
        return fallback;
    if (c->args[i].kind == NN_VALUE_INT || c->args[i].kind == NN_VALUE_FLOAT)
        return c->args[i].number;
    wrong(c, i, "a number");
    return fallback;
}

bool nn_truth(const struct nn_call *c, size_t i, bool fallback)
{
    if (!nn_given(c, i))
        return fallback;
    if (c->args[i].kind == NN_VALUE_BOOL)
        return c->args[i].integer != 0;
    wrong(c, i, "True or False");
    return fallback;
}

const char *nn_word(const struct nn_call *c, size_t i, const char *fallback)
{
    if (!nn_given(c, i))
        return fallback;
    if (c->args[i].kind == NN_VALUE_TEXT)
        return c->args[i].text;
    wrong(c, i, "a text in quotes");
    return fallback;
}

tensor_id nn_tensor(const struct nn_call *c, size_t i)
{
    if (i < c->count && c->args[i].kind == NN_VALUE_TENSOR)
        return c->args[i].tensor;
    if (nn_eval_ok(c->e))
        wrong(c, i, "a tensor");
    return TENSOR_NONE;
}

size_t nn_ints_of(const struct nn_call *c, const struct nn_value *v, int64_t *to, size_t room)
{
    size_t n = v->kind == NN_VALUE_LIST ? v->count : 1;
    const struct nn_value *items = v->kind == NN_VALUE_LIST ? v->items : v;
    if (v->kind == NN_VALUE_LIST && n == 1 && items[0].kind == NN_VALUE_LIST) { /* f(*[[a, b]]) */
        n = items[0].count;
        items = items[0].items;
    }
    for (size_t i = 0; i < n; i++)
        if (n > room || items[i].kind != NN_VALUE_INT || items[i].integer < -MAX_SIZE ||
            items[i].integer > MAX_SIZE) {
            nn_eval_fail(c->e, "%s: found %s among its numbers, allowed: at most %zu whole numbers",
                         c->name, n > room ? "too many" : nn_value_noun(&items[i]), room);
            return 0;
        } else {
            to[i] = items[i].integer;
        }
    return n;
}

/* ---- operators -------------------------------------------------------------------------------- */

static bool is_number(const struct nn_value *v)
{
    return v->kind == NN_VALUE_INT || v->kind == NN_VALUE_FLOAT || v->kind == NN_VALUE_BOOL;
}

static bool is_true(struct nn_eval *e, const struct nn_value *v)
{
    if (v->kind == NN_VALUE_TENSOR)
        nn_eval_fail(e, "a tensor is neither true nor false: its values are not known here");
    return is_number(v)               ? v->number != 0
           : v->kind == NN_VALUE_TEXT ? *v->text != 0
                                      : v->kind != NN_VALUE_NONE;
}

static struct nn_value int_result(struct nn_eval *e, bool overflows, int64_t v)
{
    return overflows ? nn_eval_fail(e, "a whole number leaves 64 bits") : whole(v);
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static struct nn_value int_power(struct nn_eval *e, int64_t a, int64_t b)
{
    int64_t v = 1;
    if (a >= -1 && a <= 1)
        return whole(a == 0 ? b == 0 : a == 1 || b % 2 == 0 ? 1 : -1);
    for (int64_t i = 0; i < b; i++)
        if (__builtin_mul_overflow(v, a, &v))
            return int_result(e, true, 0);
    return whole(v);
}

static struct nn_value of_ints(struct nn_eval *e, const char *op, int64_t a, int64_t b)
{
    int64_t v = 0;
    if ((strcmp(op, "/") == 0 || strcmp(op, "//") == 0 || strcmp(op, "%") == 0) && b == 0)
        return nn_eval_fail(e, "a division by zero");
    if (strcmp(op, "+") == 0) {
        bool overflows = __builtin_add_overflow(a, b, &v);
        return int_result(e, overflows, v);
    }
    if (strcmp(op, "-") == 0) {
        bool overflows = __builtin_sub_overflow(a, b, &v);
        return int_result(e, overflows, v);
    }
    if (strcmp(op, "*") == 0) {
        bool overflows = __builtin_mul_overflow(a, b, &v);
        return int_result(e, overflows, v);
    }
    if (a == INT64_MIN && b == -1 && strcmp(op, "/") != 0)
        return int_result(e, true, 0);
    if (strcmp(op, "//") == 0)
        return whole(floor_divide(a, b));
    if (strcmp(op, "%") == 0)
        return whole(a - b * floor_divide(a, b));
    if (strcmp(op, "**") == 0 && b >= 0)
        return int_power(e, a, b);
    return strcmp(op, "**") == 0 ? real(pow((double)a, (double)b)) : real((double)a / (double)b);
}

static struct nn_value of_numbers(struct nn_eval *e, const char *op, double a, double b)
{
    double v = strcmp(op, "+") == 0    ? a + b
               : strcmp(op, "-") == 0  ? a - b
               : strcmp(op, "*") == 0  ? a * b
               : strcmp(op, "/") == 0  ? a / b
               : strcmp(op, "//") == 0 ? floor(a / b)
               : strcmp(op, "%") == 0  ? a - b * floor(a / b)
               : strcmp(op, "**") == 0 ? pow(a, b)
                                       : (double)NAN;
    return isfinite(v) ? real(v) : nn_eval_fail(e, "'%s' gives no finite number", op);
}

static struct nn_value compare(struct nn_eval *e, const char *op, const struct nn_value *a,
                               const struct nn_value *b)
{
    bool is_equal = a->kind == b->kind && a->kind == NN_VALUE_TEXT ? strcmp(a->text, b->text) == 0
                    : is_number(a) && is_number(b)
                        ? !(a->number < b->number) && !(a->number > b->number)
                        : a->kind == b->kind && a->kind == NN_VALUE_NONE;
    if (a->kind == NN_VALUE_TENSOR || b->kind == NN_VALUE_TENSOR)
        return nn_eval_fail(e, "tensors are not compared here: only numbers and texts are");
    if (strcmp(op, "==") == 0)
        return truth(is_equal);
    if (strcmp(op, "!=") == 0)
        return truth(!is_equal);
    if (!is_number(a) || !is_number(b))
        return nn_eval_fail(e, "'%s' between %s and %s", op, nn_value_noun(a), nn_value_noun(b));
    bool less = a->number < b->number;
    return truth(strcmp(op, "<") == 0    ? less
                 : strcmp(op, ">") == 0  ? a->number > b->number
                 : strcmp(op, "<=") == 0 ? less || is_equal
                                         : !less);
}

static struct nn_value op1(struct nn_eval *e, const char *op, tensor_id x)
{
    return tensor(nn_op(e->b, op, 1, &x, NULL, NULL));
}

static tensor_id shift(struct nn_eval *e, tensor_id x, double v)
{
    struct ops_value value = {"value", .number = v};
    return nn_call(e->b, "add_scalar", 1, &x, NULL, 1, &value);
}

/* A tensor and a number, in this order or the other. */
static struct nn_value with_number(struct nn_eval *e, const char *op, tensor_id x, double v,
                                   bool is_left)
{
    struct ops_value exponent = {"exponent", .number = v};
    if (strcmp(op, "+") == 0)
        return tensor(shift(e, x, v));
    if (strcmp(op, "*") == 0)
        return tensor(nn_scale(e->b, x, v));
    if (strcmp(op, "-") == 0)
        return tensor(is_left ? shift(e, op1(e, "neg", x).tensor, v) : shift(e, x, -v));
    if (strcmp(op, "/") == 0 && is_left)
        return tensor(nn_scale(e->b, op1(e, "reciprocal", x).tensor, v));
    if (strcmp(op, "/") == 0 && (v > 0 || v < 0))
        return tensor(nn_scale(e->b, x, 1 / v));
    if (strcmp(op, "**") == 0 && !is_left && v >= 2 && v <= 2)
        return op1(e, "square", x);
    if (strcmp(op, "**") == 0 && !is_left)
        return tensor(nn_call(e->b, "pow_scalar", 1, &x, NULL, 1, &exponent));
    return nn_eval_fail(e, "'%s' between %s", op,
                        is_left ? "a number and a tensor" : "a tensor and a number");
}

static struct nn_value with_tensor(struct nn_eval *e, const char *op, tensor_id a, tensor_id b)
{
    static const char *const ops[][2] = {{"-", "sub"}, {"/", "div"}, {"@", "matmul"}};
    if (strcmp(op, "+") == 0)
        return tensor(nn_add(e->b, a, b));
    if (strcmp(op, "*") == 0)
        return tensor(nn_mul(e->b, a, b));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(op, ops[i][0]) == 0)
            return tensor(nn_op(e->b, ops[i][1], 2, (tensor_id[]){a, b}, NULL, NULL));
    return nn_eval_fail(e, "'%s' between tensors", op);
}

static struct nn_value lists(struct nn_eval *e, const struct nn_value *a, const struct nn_value *b)
{
    struct nn_value v = {.kind = NN_VALUE_LIST, .count = a->count + b->count};
    if (v.count > 4096)
        return nn_eval_fail(e, "a list of more than 4096 values");
    v.items = take(e, v.count, sizeof *v.items);
    if (!v.items)
        return (struct nn_value){0};
    memcpy(v.items, a->items, a->count * sizeof *v.items);
    memcpy(v.items + a->count, b->items, b->count * sizeof *v.items);
    return v;
}

static bool is_comparison(const char *op)
{
    return *op == '<' || *op == '>' || *op == '=' || *op == '!';
}

/* x @ w.T is the product that linear layers have. */
static bool is_linear(struct nn_eval *e, struct frame *f, const struct nn_expr *x,
                      struct nn_value *result)
{
    const struct nn_expr *right = x->items[1];
    if (strcmp(x->text, "@") != 0 || right->kind != NN_EXPR_MEMBER || strcmp(right->text, "T") != 0)
        return false;
    struct nn_value a = eval(e, f, x->items[0]), w = eval(e, f, right->items[0]);
    e->at = x;
    if (a.kind != NN_VALUE_TENSOR || w.kind != NN_VALUE_TENSOR ||
        tensor_view_of(e->b->session, w.tensor)->rank != 2) {
        *result = nn_eval_fail(e, "x @ w.T needs a tensor and a matrix");
        return true;
    }
    *result = tensor(nn_op(e->b, "linear", 2, (tensor_id[]){a.tensor, w.tensor}, NULL, NULL));
    return true;
}

static struct nn_value binary(struct nn_eval *e, struct frame *f, const struct nn_expr *x)
{
    const char *op = x->text;
    struct nn_value result;
    if (is_linear(e, f, x, &result))
        return result;
    struct nn_value a = eval(e, f, x->items[0]);
    if (!nn_eval_ok(e))
        return a;
    if (strcmp(op, "and") == 0 || strcmp(op, "or") == 0)
        return is_true(e, &a) == (*op == 'o') ? a : eval(e, f, x->items[1]);
    struct nn_value b = eval(e, f, x->items[1]);
    e->at = x;
    if (!nn_eval_ok(e))
        return b;
    if (is_comparison(op))
        return compare(e, op, &a, &b);
    if (a.kind == NN_VALUE_TENSOR && b.kind == NN_VALUE_TENSOR)
        return with_tensor(e, op, a.tensor, b.tensor);
    if (a.kind == NN_VALUE_TENSOR && is_number(&b))
        return with_number(e, op, a.tensor, b.number, false);
    if (b.kind == NN_VALUE_TENSOR && is_number(&a))
        return with_number(e, op, b.tensor, a.number, true);
    if (a.kind == NN_VALUE_INT && b.kind == NN_VALUE_INT)
        return of_ints(e, op, a.integer, b.integer);
    if (is_number(&a) && is_number(&b))
        return of_numbers(e, op, a.number, b.number);
    if (a.kind == NN_VALUE_LIST && b.kind == NN_VALUE_LIST && strcmp(op, "+") == 0)
        return lists(e, &a, &b);
    return nn_eval_fail(e, "'%s' between %s and %s", op, nn_value_noun(&a), nn_value_noun(&b));
}

static struct nn_value unary(struct nn_eval *e, struct frame *f, const struct nn_expr *x)
{
    struct nn_value v = eval(e, f, x->items[0]);
    e->at = x;
    if (!nn_eval_ok(e))
        return v;
    if (strcmp(x->text, "not") == 0)
        return truth(!is_true(e, &v));
    if (*x->text == '+' && (is_number(&v) || v.kind == NN_VALUE_TENSOR))
        return v;
    if (v.kind == NN_VALUE_TENSOR)
        return op1(e, "neg", v.tensor);
    if (v.kind == NN_VALUE_INT && v.integer != INT64_MIN)
        return whole(-v.integer);
    if (v.kind == NN_VALUE_FLOAT)
        return real(-v.number);
    return nn_eval_fail(e, "'%s' before %s", x->text, nn_value_noun(&v));
}

/* ---- indices ---------------------------------------------------------------------------------- */

static int64_t bound(struct nn_eval *e, struct frame *f, const struct nn_expr *x, int64_t fallback)
{
    if (!x)
        return fallback;
    struct nn_value v = eval(e, f, x);
    e->at = x;
    if (nn_eval_ok(e) && (v.kind != NN_VALUE_INT || v.integer > MAX_SIZE || v.integer < -MAX_SIZE))
        nn_eval_fail(e, "an index is %s, allowed: a whole number", nn_value_noun(&v));
    return v.integer;
}

static struct nn_value tensor_index(struct nn_eval *e, struct frame *f, tensor_id t,
                                    const struct nn_expr *x)
{
    struct tensor_view view = *tensor_view_of(e->b->session, t);
    int64_t ranges[4 * TENSOR_RANK], dims[TENSOR_RANK];
    int count = 0, rank = 0;
    bool drops = false, is_dropped[TENSOR_RANK] = {false};
    if (x->count - 1 > view.rank)
        return nn_eval_fail(e, "%zu indices of a tensor with %d dimensions", x->count - 1,
                            view.rank);
    for (int d = 0; d < (int)x->count - 1; d++) {
        const struct nn_expr *i = x->items[d + 1];
        int64_t size = view.dims[d], *r = ranges + 4 * (size_t)count;
        if (i->kind == NN_EXPR_SLICE && !i->items[0] && !i->items[1] && !i->items[2])
            continue;
        bool is_slice = i->kind == NN_EXPR_SLICE;
        int64_t begin = bound(e, f, is_slice ? i->items[0] : i, 0);
        if (!is_slice && nn_eval_ok(e) && (begin < -size || begin >= size))
            return nn_eval_fail(e, "index %" PRId64 " of a dimension of %" PRId64, begin, size);
        begin += !is_slice && begin < 0 ? size : 0;
        r[0] = d;
        r[1] = begin;
        r[2] = is_slice ? bound(e, f, i->items[1], size) : begin + 1;
        r[3] = is_slice ? bound(e, f, i->items[2], 1) : 1;
        is_dropped[d] = !is_slice;
        drops |= !is_slice;
        count++;
    }
    if (!nn_eval_ok(e))
        return (struct nn_value){0};
    struct ops_value value = {"ranges", .ints = ranges, .count = 4 * count};
    e->at = x;
    tensor_id y = count ? nn_call(e->b, "slice", 1, &t, NULL, 1, &value) : t;
    if (!drops || !nn_eval_ok(e))
        return tensor(y);
    view = *tensor_view_of(e->b->session, y);
    for (int d = 0; d < view.rank; d++)
        if (!is_dropped[d])
            dims[rank++] = view.dims[d];
    return tensor(nn_reshape(e->b, y, rank, dims));
}

static struct nn_value list_index(struct nn_eval *e, struct frame *f, const struct nn_value *v,
                                  const struct nn_expr *x)
{
    int64_t n = v->kind == NN_VALUE_MODULE ? (int64_t)v->module->part_count : (int64_t)v->count;
    const struct nn_expr *i = x->items[1];
    if (x->count != 2 || (v->kind == NN_VALUE_MODULE && i->kind == NN_EXPR_SLICE))
        return nn_eval_fail(e, "%s takes one index", nn_value_noun(v));
    if (i->kind != NN_EXPR_SLICE) {
        int64_t at = bound(e, f, i, 0);
        e->at = x;
        if (nn_eval_ok(e) && (at < -n || at >= n))
            return nn_eval_fail(e, "index %" PRId64 " of %" PRId64 " values", at, n);
        if (!nn_eval_ok(e))
            return (struct nn_value){0};
        at += at < 0 ? n : 0;
        return v->kind == NN_VALUE_MODULE
                   ? (struct nn_value){.kind = NN_VALUE_MODULE, .module = &v->module->parts[at]}
                   : v->items[at];
    }
    int64_t from = bound(e, f, i->items[0], 0), to = bound(e, f, i->items[1], n);
    from += from < 0 ? n : 0;
    to += to < 0 ? n : 0;
    from = from < 0 ? 0 : from > n ? n : from;
    to = to < from ? from : to > n ? n : to;
    return (struct nn_value){
        .kind = NN_VALUE_LIST, .items = v->items + from, .count = (size_t)(to - from)};
}

static struct nn_value index_value(struct nn_eval *e, struct frame *f, const struct nn_expr *x)
{
    struct nn_value v = eval(e, f, x->items[0]);
    e->at = x;
    if (!nn_eval_ok(e))
        return v;
    if (v.kind == NN_VALUE_TENSOR)
        return tensor_index(e, f, v.tensor, x);
    if (v.kind == NN_VALUE_LIST || (v.kind == NN_VALUE_MODULE && !v.module->class))
        return list_index(e, f, &v, x);
    return nn_eval_fail(e, "%s has no indices", nn_value_noun(&v));
}

static struct nn_value shape_of(struct nn_eval *e, tensor_id t)
{
    const struct tensor_view *view = tensor_view_of(e->b->session, t);
    struct nn_value v = {.kind = NN_VALUE_LIST, .count = view->rank};
    v.items = take(e, v.count, sizeof *v.items);
    for (size_t d = 0; v.items && d < v.count; d++)
        v.items[d] = whole(view->dims[d]);
    v.count = v.items ? v.count : 0;
    return v;
}

static struct nn_value member(struct nn_eval *e, struct frame *f, const struct nn_expr *x)
{
    char path[512];
    struct nn_part *part =
        f->part && dotted(x, path, sizeof path) ? find_part(f->part, path) : NULL;
    if (part)
        return part_value(e, f, part);
    struct nn_value v = eval(e, f, x->items[0]);
    e->at = x;
    if (!nn_eval_ok(e))
        return v;
    if (v.kind == NN_VALUE_MODULE) {
        part = find_part(v.module, x->text);
        return part ? part_value(e, f, part) : item(e, f, v.module, x->text);
    }
    if (v.kind != NN_VALUE_TENSOR)
        return nn_eval_fail(e, "%s has no '%s'", nn_value_noun(&v), x->text);
    int rank = tensor_view_of(e->b->session, v.tensor)->rank;
    if (strcmp(x->text, "shape") == 0)
        return shape_of(e, v.tensor);
    if (strcmp(x->text, "ndim") == 0)
        return whole(rank);
    if (rank != 2)
        return nn_eval_fail(e, ".T of a tensor with %d dimensions, allowed: 2 (or transpose)",
                            rank);
    return tensor(nn_permute(e->b, v.tensor, 2, (int64_t[]){1, 0}));
}

/* ---- calls ------------------------------------------------------------------------------------ */

static struct nn_value call_part(struct nn_eval *e, struct nn_part *part,
                                 const struct nn_value *args, const char *const *names,
                                 size_t count, int depth);

static struct nn_value run_lines(struct nn_eval *e, struct frame *f)
{
    struct nn_value v = {0};
    for (size_t i = 0; i < f->block->line_count && nn_eval_ok(e); i++) {
        const struct nn_line *line = &f->block->lines[i];
        v = eval(e, f, line->value);
        e->at = line->value;
        if (!nn_eval_ok(e))
            break;
        if (line->target_count == 1)
            set_variable(e, f, line->targets[0], v);
        if (line->target_count < 2)
            continue;
        if (v.kind != NN_VALUE_LIST || v.count != line->target_count) {
            nn_eval_fail(e, "%zu names for %s%s", line->target_count, nn_value_noun(&v),
                         v.kind == NN_VALUE_LIST ? " of another length" : "");
            break;
        }
        for (size_t k = 0; k < v.count; k++)
            set_variable(e, f, line->targets[k], v.items[k]);
    }
    return v;
}

static struct nn_value call_block(struct nn_eval *e, struct nn_part *part,
                                  const struct nn_value *args, const char *const *names,
                                  size_t count)
{
    const struct nn_block *block = part->block;
    struct ebb_str parameters = {0};
    struct frame f = {.block = block, .part = part, .args = part->args};
    for (size_t i = 0; i < block->input_count; i++)
        ebb_str_printf(&parameters, "%s%s", i ? ", " : "", block->inputs[i]);
    const struct nn_value *in = nn_bind(e, part->name, ebb_str_c(&parameters), args, names, count);
    ebb_str_fini(&parameters);
    struct nn_value v = {0};
    ebb_strmap_init(&f.names);
    for (size_t i = 0; in && i < block->input_count; i++)
        set_variable(e, &f, block->inputs[i], in[i]);
    if (in)
        v = run_lines(e, &f);
    ebb_strmap_fini(&f.names);
    return v;
}

/* One after the other; what one gives the next takes, further values go to all. */
static struct nn_value call_container(struct nn_eval *e, struct nn_part *part,
                                      const struct nn_value *args, const char *const *names,
                                      size_t count, int depth)
{
    struct nn_value *in = take(e, count, sizeof *in);
    if (!in || count == 0)
        return nn_eval_fail(e, "%s takes at least one value", part->name);
    memcpy(in, args, count * sizeof *in);
    for (size_t i = 0; i < part->part_count && nn_eval_ok(e); i++) {
        nn_enter(e->b, part->parts[i].name);
        in[0] = call_part(e, &part->parts[i], in, names, count, depth + 1);
        nn_pop(e->b);
    }
    return in[0];
}

/* The prefix is that of the part. */
static struct nn_value call_part(struct nn_eval *e, struct nn_part *part,
                                 const struct nn_value *args, const char *const *names,
                                 size_t count, int depth)
{
    const struct nn_expr *at = e->at;
    struct nn_value v = {0};
    if (++e->calls > MAX_CALLS || depth > NN_FILE_CALLS)
        return nn_eval_fail(e, "more than %d calls, or blocks nested deeper than %d", MAX_CALLS,
                            NN_FILE_CALLS);
    if (part->class && !part->class->calls) {
        return nn_eval_fail(e, "'%s' is read, not called", part->name);
    } else if (part->class) {
        const char *name = part->class->signature.name;
        const struct nn_value *in = nn_bind(e, part->name, part->class->calls, args, names, count);
        struct nn_call made = {e, name, part->args, part->arg_count};
        struct nn_call call = {e, part->name, in, nn_signature_count(part->class->calls)};
        if (in)
            v = part->class->run(&made, &call);
    } else if (part->block) {
        v = call_block(e, part, args, names, count);
    } else {
        v = call_container(e, part, args, names, count, depth);
    }
    if (nn_eval_ok(e))
        e->at = at;
    else
        mark(e);
    return v;
}

struct nn_value nn_function_call(struct nn_eval *e, const char *name, const struct nn_value *args,
                                 const char *const *names, size_t count)
{
    const struct nn_function *function = nn_function_find(name);
    const struct ops_def *def = function ? NULL : ops_find(name);
    if (++e->calls > MAX_CALLS)
        return nn_eval_fail(e, "more than %d calls", MAX_CALLS);
    if (function) {
        const char *parameters = function->signature.parameters;
        const struct nn_value *in = nn_bind(e, name, parameters, args, names, count);
        struct nn_call call = {e, function->signature.name, in, nn_signature_count(parameters)};
        return in ? function->run(&call) : (struct nn_value){0};
    }
    if (!def || ops_is_internal(def))
        return nn_eval_fail(e, "no function is called '%s'", name);
    return nn_function_op(e, def, args, names, count);
}

static struct nn_value call(struct nn_eval *e, struct frame *f, const struct nn_expr *x)
{
    const struct nn_expr *callee = x->items[0];
    char path[512];
    struct nn_part *part =
        f->part && dotted(callee, path, sizeof path) ? find_part(f->part, path) : NULL;
    const char *name = NULL;
    struct nn_value args[NN_FILE_NAMES + 2];
    const char *names[NN_FILE_NAMES + 2];
    size_t count = 0;
    if (!part && callee->kind == NN_EXPR_NAME) {
        name = callee->text;
    } else if (!part) {
        struct nn_value of = eval(e, f, callee->kind == NN_EXPR_MEMBER ? callee->items[0] : callee);
        if (!nn_eval_ok(e))
            return of;
        struct nn_part *below = of.kind == NN_VALUE_MODULE && callee->kind == NN_EXPR_MEMBER
                                    ? find_part(of.module, callee->text)
                                    : NULL;
        if (below) {
            part = below;
        } else if (callee->kind == NN_EXPR_MEMBER) {
            name = callee->text;
            names[count] = NULL;
            args[count++] = of;
        } else if (of.kind == NN_VALUE_MODULE) {
            part = of.module;
        } else {
            e->at = callee;
            return nn_eval_fail(e, "%s is not called", nn_value_noun(&of));
        }
    }
    for (size_t i = 1; i < x->count; i++) {
        names[count] = x->names[i];
        args[count++] = eval(e, f, x->items[i]);
        if (!nn_eval_ok(e))
            return (struct nn_value){0};
    }
    e->at = x;
    struct nn_value v;
    if (part) {
        int n = enter(e, part, f->part);
        v = call_part(e, part, args, names, count, n);
        leave(e, n);
    } else {
        v = nn_function_call(e, name, args, names, count);
    }
    return v;
}

static struct nn_value eval_kind(struct nn_eval *e, struct frame *f, const struct nn_expr *x)
{
    struct nn_value v = {0};
    switch (x->kind) {
    case NN_EXPR_NONE:
        return v;
    case NN_EXPR_BOOL:
        return truth(x->integer != 0);
    case NN_EXPR_INT:
        return whole(x->integer);
    case NN_EXPR_FLOAT:
        return real(x->number);
    case NN_EXPR_TEXT:
        return (struct nn_value){.kind = NN_VALUE_TEXT, .text = x->text};
    case NN_EXPR_NAME:
        return name_value(e, f, x);
    case NN_EXPR_LIST:
        v = (struct nn_value){.kind = NN_VALUE_LIST, .count = x->count};
        v.items = take(e, v.count, sizeof *v.items);
        for (size_t i = 0; v.items && i < v.count; i++)
            v.items[i] = eval(e, f, x->items[i]);
        v.count = v.items ? v.count : 0;
        return v;
    case NN_EXPR_CALL:
        return call(e, f, x);
    case NN_EXPR_MEMBER:
        return member(e, f, x);
    case NN_EXPR_INDEX:
        return index_value(e, f, x);
    case NN_EXPR_SLICE:
        return nn_eval_fail(e, "a range stands inside [] only");
    case NN_EXPR_UNARY:
        return unary(e, f, x);
    case NN_EXPR_BINARY:
        return binary(e, f, x);
    case NN_EXPR_CHOICE:
        v = eval(e, f, x->items[0]);
        return nn_eval_ok(e) ? eval(e, f, x->items[is_true(e, &v) ? 1 : 2]) : v;
    }
    return v;
}

/* The innermost expression that fails is the place that is told. */
static struct nn_value eval(struct nn_eval *e, struct frame *f, const struct nn_expr *x)
{
    e->at = x;
    if (!nn_eval_ok(e))
        return (struct nn_value){0};
    struct nn_value v = eval_kind(e, f, x);
    e->at = x;
    if (!nn_eval_ok(e))
        mark(e);
    return v;
}

/* ---- construction ----------------------------------------------------------------------------- */

static void construct(struct nn_eval *e, struct frame *f, const struct nn_module *m,
                      struct nn_part *part, int depth);

static void construct_all(struct nn_eval *e, struct frame *f, const struct nn_module *m,
                          size_t count, struct nn_part *part, int depth)
{
    part->parts = take(e, count, sizeof *part->parts);
    for (size_t i = 0; part->parts && i < count && nn_eval_ok(e); i++) {
        struct nn_part *p = &part->parts[part->part_count++];
        *p = (struct nn_part){.name = m[i].name, .up = part};
        nn_enter(e->b, p->name);
        construct(e, f, &m[i], p, depth + 1);
        nn_pop(e->b);
    }
}

/* Parameters of a block, the missing ones by their defaults, which see options alone. */
static struct nn_value *block_args(struct nn_eval *e, const struct nn_block *block,
                                   const struct nn_value *args, const char *const *names,
                                   size_t count)
{
    struct ebb_str text = {0};
    for (size_t i = 0; i < block->head.count; i++)
        ebb_str_printf(&text, "%s%s%s", i ? ", " : "", block->head.names[i],
                       block->head.defaults[i] ? "=" : "");
    const struct nn_value *bound_args =
        nn_bind(e, block->head.name, ebb_str_c(&text), args, names, count);
    ebb_str_fini(&text);
    struct nn_value *to = take(e, block->head.count, sizeof *to);
    struct frame none = {0};
    ebb_strmap_init(&none.names);
    for (size_t i = 0; bound_args && to && i < block->head.count; i++)
        to[i] = bound_args[i].kind == NN_VALUE_NONE && block->head.defaults[i]
                    ? eval(e, &none, block->head.defaults[i])
                    : bound_args[i];
    ebb_strmap_fini(&none.names);
    return bound_args && nn_eval_ok(e) ? to : NULL;
}

static void make_block(struct nn_eval *e, const struct nn_block *block, struct nn_part *part,
                       struct nn_value *args, int depth)
{
    struct frame inner = {.block = block, .args = args};
    part->block = block;
    part->args = args;
    part->arg_count = block->head.count;
    ebb_strmap_init(&inner.names);
    construct_all(e, &inner, block->modules, block->module_count, part, depth);
    ebb_strmap_fini(&inner.names);
}

static void make(struct nn_eval *e, struct frame *f, const struct nn_expr *x, struct nn_part *part,
                 int depth)
{
    struct nn_value args[NN_FILE_NAMES + 2];
    const char *name = x->items[0]->text;
    e->at = x;
    if (++e->parts > NN_FILE_MODULES || depth > NN_FILE_CALLS) {
        nn_eval_fail(e, "more than %d modules, or blocks nested deeper than %d", NN_FILE_MODULES,
                     NN_FILE_CALLS);
        return;
    }
    if (strcmp(name, "Sequential") == 0) {
        part->parts = take(e, x->count, sizeof *part->parts);
        for (size_t i = 1; part->parts && i < x->count && nn_eval_ok(e); i++) {
            struct nn_part *p = &part->parts[part->part_count++];
            *p = (struct nn_part){.name = ebb_arena_printf(e->arena, "%zu", i - 1), .up = part};
            if (!p->name)
                return;
            nn_enter(e->b, p->name);
            make(e, f, x->items[i], p, depth + 1);
            nn_pop(e->b);
        }
        return;
    }
    for (size_t i = 1; i < x->count; i++)
        args[i - 1] = eval(e, f, x->items[i]);
    e->at = x;
    if (!nn_eval_ok(e))
        return;
    const struct nn_class *class = nn_class_find(name);
    const struct nn_block *block = class ? NULL : nn_file_block(e->file, name);
    if (class) {
        const struct nn_value *in =
            nn_bind(e, name, class->signature.parameters, args, x->names + 1, x->count - 1);
        part->class = class;
        part->args = in;
        part->arg_count = nn_signature_count(class->signature.parameters);
        e->made = part->name;
        if (in && class->declare)
            class->declare(&(struct nn_call){e, name, in, part->arg_count});
    } else if (block) {
        struct nn_value *in = block_args(e, block, args, x->names + 1, x->count - 1);
        if (in)
            make_block(e, block, part, in, depth);
    } else {
        nn_eval_fail(e, "no module or block is called '%s'", name);
    }
    e->at = x;
    if (!nn_eval_ok(e))
        mark(e);
}

static void construct(struct nn_eval *e, struct frame *f, const struct nn_module *m,
                      struct nn_part *part, int depth)
{
    if (!m->use) {
        construct_all(e, f, m->parts, m->count, part, depth);
        return;
    }
    if (m->when) {
        struct nn_value v = eval(e, f, m->when);
        if (!nn_eval_ok(e))
            return;
        if (!is_true(e, &v) && !m->other)
            return; /* an empty container gives what it gets */
        make(e, f, is_true(e, &v) ? m->use : m->other, part, depth);
        return;
    }
    if (!m->repeat) {
        make(e, f, m->use, part, depth);
        return;
    }
    struct nn_value n = eval(e, f, m->repeat);
    e->at = m->repeat;
    if (nn_eval_ok(e) && (n.kind != NN_VALUE_INT || n.integer < 0 || n.integer > NN_FILE_MODULES))
        nn_eval_fail(e, "repeat: allowed: a whole number from 0 to %d", NN_FILE_MODULES);
    if (!nn_eval_ok(e))
        return;
    part->parts = take(e, (size_t)n.integer, sizeof *part->parts);
    for (int64_t i = 0; part->parts && i < n.integer && nn_eval_ok(e); i++) {
        struct nn_part *p = &part->parts[part->part_count++];
        struct frame inner = *f;
        inner.index = &i;
        *p = (struct nn_part){.name = ebb_arena_printf(e->arena, "%" PRId64, i), .up = part};
        if (!p->name)
            return;
        nn_enter(e->b, p->name);
        make(e, &inner, m->use, p, depth + 1);
        nn_pop(e->b);
    }
}

/* ---- the model -------------------------------------------------------------------------------- */

static const char *loss_of(const struct nn_file *file, size_t i)
{
    for (size_t k = 0; k < file->loss_count; k++)
        if (file->losses[k].output ? strcmp(file->losses[k].output, file->outputs[i]) == 0 : i == 0)
            return file->losses[k].op;
    return NULL;
}

static bool is_state(const struct nn_file *file, const char *name)
{
    for (size_t i = 0; i < file->input_count; i++)
        if (file->inputs[i].is_state && strcmp(file->inputs[i].name, name) == 0)
            return true;
    return false;
}

static void add_output(struct nn_eval *e, size_t i, tensor_id x, struct nn_output *out)
{
    const struct nn_file *file = e->file;
    const char *loss = loss_of(file, i), *name = file->outputs[i];
    bool has_classes =
        loss && (strcmp(loss, "cross_entropy") == 0 || strcmp(loss, "nll_loss") == 0 ||
                 strcmp(loss, "bce_with_logits_loss") == 0);
    if (has_classes) {
        nn_classes(e->b, out, name, x, loss);
    } else {
        enum nn_output_kind kind = is_state(file, name) ? NN_NEXT : NN_VALUES;
        if (loss)
            x = nn_full(e->b, x);
        *out = (struct nn_output){.name = name, .kind = kind, .id = x, .loss = loss};
        if (loss && nn_eval_ok(e)) {
            const struct tensor_view *v = tensor_view_of(e->b->session, x);
            nn_port_set(&out->target, "targets", NN_FLOATS, false, v->rank, v->dims);
        }
    }
    out->target.is_generated = loss && file->makes_targets;
}

static size_t add_outputs(struct nn_eval *e, const struct nn_value *v, struct nn_output *out)
{
    size_t n = v->kind == NN_VALUE_LIST ? v->count : 1;
    const struct nn_value *items = v->kind == NN_VALUE_LIST ? v->items : v;
    if (n != e->file->output_count) {
        nn_eval_fail(e, "forward gives a list: name its parts first (a, b = ...)");
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (items[i].kind != NN_VALUE_TENSOR) {
            nn_eval_fail(e, "forward gives %s, allowed: tensors", nn_value_noun(&items[i]));
            return 0;
        }
        add_output(e, i, items[i].tensor, &out[i]);
    }
    return n;
}

/* Losses and metrics of the file: scalars over its outputs and inputs. */
static size_t add_scalar(struct nn_eval *e, struct frame *f, const struct nn_expr *x,
                         const char *name, enum nn_output_kind kind, struct nn_output *out)
{
    struct nn_value v = eval(e, f, x);
    e->at = x;
    if (!nn_eval_ok(e))
        return 0;
    const struct tensor_view *view =
        v.kind == NN_VALUE_TENSOR ? tensor_view_of(e->b->session, v.tensor) : NULL;
    if (!view || tensor_count(view) != 1) {
        nn_eval_fail(e, "%s is %s, allowed: one number, such as a mean", name,
                     view ? "a tensor of several numbers" : nn_value_noun(&v));
        return 0;
    }
    tensor_id one = nn_full(e->b, v.tensor);
    if (view->rank > 0)
        one = nn_reshape(e->b, one, 0, NULL);
    *out = (struct nn_output){.name = name, .kind = kind, .id = one};
    return 1;
}

static size_t add_scalars(struct nn_eval *e, struct frame *f, const struct nn_value *v,
                          struct nn_output *out, size_t n)
{
    const struct nn_file *file = e->file;
    size_t results = n;
    for (size_t i = 0; i < results; i++)
        set_variable(e, f, file->outputs[i], v->kind == NN_VALUE_LIST ? v->items[i] : *v);
    if (file->loss && nn_eval_ok(e))
        n += add_scalar(e, f, file->loss, "loss", NN_LOSS, &out[n]);
    for (size_t i = 0; i < file->metric_count && nn_eval_ok(e); i++)
        n += add_scalar(e, f, file->metrics[i], file->metric_names[i], NN_METRIC, &out[n]);
    return n;
}

size_t nn_file_build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                     struct nn_output *out)
{
    const struct nn_file *file = config->model->context;
    struct ebb_arena arena;
    struct nn_part top = {.name = "", .block = &file->top};
    struct nn_eval e = {.file = file, .config = config, .b = b, .arena = &arena, .batch = 1};
    struct frame f = {.block = &file->top};
    size_t n = 0;
    memset(&b->place, 0, sizeof b->place);
    ebb_arena_init(&arena);
    ebb_strmap_init(&f.names);
    for (size_t i = 0; i < file->input_count; i++) { /* the batch is that of the leaves */
        const struct nn_file_input *port = &file->inputs[i];
        const struct tensor_view *v = tensor_view_of(b->session, in[i]);
        if (!port->has_batch && v->rank) {
            e.batch = v->dims[0];
            break;
        }
        for (size_t d = 0; d < port->rank && d < v->rank; d++)
            if (port->dims[d]->kind == NN_EXPR_NAME && strcmp(port->dims[d]->text, "batch") == 0)
                e.batch = v->dims[d];
    }
    construct_all(&e, &f, file->top.modules, file->top.module_count, &top, 0);
    f.part = &top;
    for (size_t i = 0; i < file->input_count; i++)
        if (!file->inputs[i].is_target)
            set_variable(&e, &f, file->inputs[i].name, tensor(in[i]));
    struct nn_value v = run_lines(&e, &f);
    if (nn_eval_ok(&e))
        n = add_outputs(&e, &v, out);
    for (size_t i = 0; i < file->input_count; i++)
        if (file->inputs[i].is_target)
            set_variable(&e, &f, file->inputs[i].name, tensor(in[i]));
    if (nn_eval_ok(&e))
        n = add_scalars(&e, &f, &v, out, n);
    ebb_strmap_fini(&f.names);
    ebb_arena_fini(&arena);
    return n;
}

/* ---- inputs ----------------------------------------------------------------------------------- */

/* Sizes are expressions of options and `batch`: evaluated without a session. */
static bool size_value(const struct nn_eval *e, const struct nn_expr *x, double *v)
{
    struct nn_value option_value;
    double a, b;
    switch (x->kind) {
    case NN_EXPR_INT:
        *v = x->number;
        return true;
    case NN_EXPR_NAME:
        if (strcmp(x->text, "batch") == 0) {
            *v = (double)e->batch;
            return true;
        }
        if (!option(e, x->text, &option_value) || option_value.kind != NN_VALUE_INT)
            return false;
        *v = option_value.number;
        return true;
    case NN_EXPR_BINARY:
        if (!size_value(e, x->items[0], &a) || !size_value(e, x->items[1], &b))
            return false;
        *v = strcmp(x->text, "+") == 0    ? a + b
             : strcmp(x->text, "-") == 0  ? a - b
             : strcmp(x->text, "*") == 0  ? a * b
             : strcmp(x->text, "//") == 0 ? floor(a / b)
             : strcmp(x->text, "**") == 0 ? pow(a, b)
                                          : -1;
        return true;
    default:
        return false;
    }
}

size_t nn_file_inputs(const struct nn_config *config, int64_t batch, struct nn_port *ports)
{
    const struct nn_file *file = config->model->context;
    struct ebb_arena arena;
    struct nn_eval e = {.file = file, .config = config, .arena = &arena, .batch = batch};
    size_t i;
    ebb_arena_init(&arena);
    for (i = 0; i < file->input_count; i++) {
        const struct nn_file_input *in = &file->inputs[i];
        int64_t dims[TENSOR_RANK];
        int rank = 0;
        bool is_good = true;
        if (!in->has_batch)
            dims[rank++] = batch;
        for (size_t d = 0; d < in->rank; d++) {
            double v = -1;
            is_good = size_value(&e, in->dims[d], &v) && v >= 1 && v < 0x1p40 && is_good;
            dims[rank++] = is_good ? (int64_t)v : 1;
        }
        if (!is_good)
            break;
        bool is_int = in->dtype == 1;
        enum nn_port_kind kind = in->is_state                            ? NN_STATE
                                 : in->is_mask                           ? NN_MASK
                                 : is_int && in->is_target               ? NN_CLASSES
                                 : is_int                                ? NN_TOKENS
                                 : rank >= 4 && in->fill == NN_FILL_DATA ? NN_IMAGES
                                                                         : NN_FLOATS;
        nn_port_set(&ports[i], in->name, kind, in->is_state || in->fill != NN_FILL_DATA, rank,
                    dims);
    }
    ebb_arena_fini(&arena);
    return i;
}
