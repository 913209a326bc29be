/* file_operators.c - operators of expressions, on numbers, texts, lists and tensors. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "nn/file.h"

/* ---- operators -------------------------------------------------------------------------------- */

static bool is_number(const struct nn_value *v)
{
    return v->kind == NN_VALUE_INT || v->kind == NN_VALUE_FLOAT || v->kind == NN_VALUE_BOOL;
}

static bool is_whole(const struct nn_value *v)
{
    return v->kind == NN_VALUE_INT || v->kind == NN_VALUE_BOOL;
}

bool nn_is_true(struct nn_eval *e, const struct nn_value *v)
{
    if (v->kind == NN_VALUE_TENSOR)
        nn_eval_fail(e, "a tensor is neither true nor false: its values are not known here");
    return is_number(v)               ? v->number != 0
           : v->kind == NN_VALUE_TEXT ? *v->text != 0
                                      : v->kind != NN_VALUE_NONE;
}

static struct nn_value int_result(struct nn_eval *e, bool overflows, int64_t v)
{
    return overflows ? nn_eval_fail(e, "a whole number leaves 64 bits") : nn_whole(v);
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
        return nn_whole(a == 0 ? b == 0 : a == 1 || b % 2 == 0 ? 1 : -1);
    for (int64_t i = 0; i < b; i++)
        if (__builtin_mul_overflow(v, a, &v))
            return int_result(e, true, 0);
    return nn_whole(v);
}

static struct nn_value of_ints(struct nn_eval *e, const char *op, int64_t a, int64_t b)
{
    int64_t v = 0;
    bool divides = strcmp(op, "/") == 0 || strcmp(op, "//") == 0 || strcmp(op, "%") == 0;
    if ((divides && b == 0) || (strcmp(op, "**") == 0 && a == 0 && b < 0))
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
        return nn_whole(floor_divide(a, b));
    if (strcmp(op, "%") == 0) {
        int64_t rest = a % b;
        return nn_whole(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    }
    if (strcmp(op, "**") == 0 && b >= 0)
        return int_power(e, a, b);
    return strcmp(op, "**") == 0 ? nn_real(pow((double)a, (double)b))
                                 : nn_real((double)a / (double)b);
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
    return fabs(v) <= FLT_MAX ? nn_real(v)
                              : nn_eval_fail(e, "'%s' gives no finite number of 32 bits", op);
}

static struct nn_value compare(struct nn_eval *e, const char *op, const struct nn_value *a,
                               const struct nn_value *b)
{
    bool is_equal = a->kind == b->kind && a->kind == NN_VALUE_TEXT ? strcmp(a->text, b->text) == 0
                    : is_number(a) && is_number(b)
                        ? !(a->number < b->number) && !(a->number > b->number)
                        : a->kind == b->kind && a->kind == NN_VALUE_NONE;
    if (strcmp(op, "==") == 0)
        return nn_boolean(is_equal);
    if (strcmp(op, "!=") == 0)
        return nn_boolean(!is_equal);
    if (!is_number(a) || !is_number(b))
        return nn_eval_fail(e, "'%s' between %s and %s", op, nn_value_noun(a), nn_value_noun(b));
    bool less = a->number < b->number;
    return nn_boolean(strcmp(op, "<") == 0    ? less
                      : strcmp(op, ">") == 0  ? a->number > b->number
                      : strcmp(op, "<=") == 0 ? less || is_equal
                                              : !less);
}

static struct nn_value op1(struct nn_eval *e, const char *op, tensor_id x)
{
    return nn_of_tensor(nn_op(e->b, op, 1, &x, NULL, NULL));
}

/* A number becomes a tensor of one. */
static tensor_id to_tensor(struct nn_eval *e, const struct nn_value *v)
{
    int64_t one = 1;
    struct ops_value values[] = {{"shape", .ints = &one, .count = 1},
                                 {"value", .number = v->number}};
    return v->kind == NN_VALUE_TENSOR ? v->tensor : nn_call(e->b, "full", 0, NULL, NULL, 2, values);
}

static tensor_id op2(struct nn_eval *e, const char *op, tensor_id a, tensor_id b)
{
    return nn_op(e->b, op, 2, (tensor_id[]){a, b}, NULL, NULL);
}

/* 1 where it is so, else 0: from shares (1, a half where both are equal, 0), which are exact. */
static struct nn_value compare_tensors(struct nn_eval *e, const char *op, const struct nn_value *a,
                                       const struct nn_value *b)
{
    for (int i = 0; i < 2; i++) {
        const struct nn_value *v = i ? b : a;
        if (v->kind != NN_VALUE_TENSOR && !is_number(v))
            return nn_eval_fail(e, "'%s' between %s and %s", op, nn_value_noun(a),
                                nn_value_noun(b));
        if (v->kind == NN_VALUE_TENSOR && nn_eval_ok(e) &&
            tensor_view_of(e->b->session, v->tensor)->dtype == TENSOR_I64)
            return nn_eval_fail(e, "whole numbers of tensors are not compared here; "
                                   "accuracy(scores, classes) tells the share that is right");
    }
    bool is_less = *op == '<', has_equal = op[1] == '=';
    tensor_id x = nn_full(e->b, to_tensor(e, is_less ? b : a));
    tensor_id y = nn_full(e->b, to_tensor(e, is_less ? a : b));
    tensor_id equal = op2(e, "equal", x, y);
    if (*op == '=')
        return nn_of_tensor(equal);
    if (*op == '!')
        return nn_operate(e, "-", nn_whole(1), nn_of_tensor(equal));
    tensor_id half = nn_scale(e->b, equal, has_equal ? 0.5 : -0.5);
    return nn_of_tensor(nn_add(e->b, op2(e, "greater_half", x, y), half));
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
        return nn_of_tensor(shift(e, x, v));
    if (strcmp(op, "*") == 0)
        return nn_of_tensor(nn_scale(e->b, x, v));
    if (strcmp(op, "-") == 0)
        return nn_of_tensor(is_left ? shift(e, op1(e, "neg", x).tensor, v) : shift(e, x, -v));
    if (strcmp(op, "/") == 0 && is_left)
        return nn_of_tensor(nn_scale(e->b, op1(e, "reciprocal", x).tensor, v));
    if (strcmp(op, "/") == 0 && (v > 0 || v < 0))
        return nn_of_tensor(nn_scale(e->b, x, 1 / v));
    if (strcmp(op, "**") == 0 && !is_left && v >= 2 && v <= 2)
        return op1(e, "square", x);
    if (strcmp(op, "**") == 0 && !is_left)
        return nn_of_tensor(nn_call(e->b, "pow_scalar", 1, &x, NULL, 1, &exponent));
    return nn_eval_fail(e, "'%s' between %s", op,
                        is_left ? "a number and a tensor" : "a tensor and a number");
}

static struct nn_value with_tensor(struct nn_eval *e, const char *op, tensor_id a, tensor_id b)
{
    static const char *const ops[][2] = {{"-", "sub"}, {"/", "div"}, {"@", "matmul"}};
    if (strcmp(op, "+") == 0)
        return nn_of_tensor(nn_add(e->b, a, b));
    if (strcmp(op, "*") == 0)
        return nn_of_tensor(nn_mul(e->b, a, b));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(op, ops[i][0]) == 0)
            return nn_of_tensor(nn_op(e->b, ops[i][1], 2, (tensor_id[]){a, b}, NULL, NULL));
    return nn_eval_fail(e, "'%s' between tensors", op);
}

static struct nn_value lists(struct nn_eval *e, const struct nn_value *a, const struct nn_value *b)
{
    struct nn_value v = {.kind = NN_VALUE_LIST, .count = a->count + b->count};
    if (v.count > 4096)
        return nn_eval_fail(e, "a list of more than 4096 values");
    v.items = nn_eval_take(e, v.count, sizeof *v.items);
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

struct nn_value nn_operate(struct nn_eval *e, const char *op, struct nn_value a, struct nn_value b)
{
    if (is_comparison(op) && (a.kind == NN_VALUE_TENSOR || b.kind == NN_VALUE_TENSOR))
        return compare_tensors(e, op, &a, &b);
    if (is_comparison(op))
        return compare(e, op, &a, &b);
    if (a.kind == NN_VALUE_TENSOR && b.kind == NN_VALUE_TENSOR)
        return with_tensor(e, op, a.tensor, b.tensor);
    if (a.kind == NN_VALUE_TENSOR && is_number(&b))
        return with_number(e, op, a.tensor, b.number, false);
    if (b.kind == NN_VALUE_TENSOR && is_number(&a))
        return with_number(e, op, b.tensor, a.number, true);
    if (is_whole(&a) && is_whole(&b)) /* True is 1 */
        return of_ints(e, op, a.integer, b.integer);
    if (is_number(&a) && is_number(&b))
        return of_numbers(e, op, a.number, b.number);
    if (a.kind == NN_VALUE_LIST && b.kind == NN_VALUE_LIST && strcmp(op, "+") == 0)
        return lists(e, &a, &b);
    return nn_eval_fail(e, "'%s' between %s and %s", op, nn_value_noun(&a), nn_value_noun(&b));
}

struct nn_value nn_operate_one(struct nn_eval *e, const char *op, struct nn_value v)
{
    if (strcmp(op, "not") == 0)
        return nn_boolean(!nn_is_true(e, &v));
    if (*op == '+' && (is_number(&v) || v.kind == NN_VALUE_TENSOR))
        return v;
    if (v.kind == NN_VALUE_TENSOR)
        return op1(e, "neg", v.tensor);
    if (v.kind == NN_VALUE_INT && v.integer != INT64_MIN)
        return nn_whole(-v.integer);
    if (v.kind == NN_VALUE_FLOAT)
        return nn_real(-v.number);
    return nn_eval_fail(e, "'%s' before %s", op, nn_value_noun(&v));
}
