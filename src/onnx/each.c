/* each.c - ops element by element: functions, arithmetic, comparisons, choices, casts. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "onnx/internal.h"

/* ---- functions of one number ------------------------------------------------------------------ */

#define FUNCTIONS(X)                                                                               \
    X(ABS, fabs(x))                                                                                \
    X(ACOS, acos(x))                                                                               \
    X(ACOSH, acosh(x))                                                                             \
    X(ASIN, asin(x))                                                                               \
    X(ASINH, asinh(x))                                                                             \
    X(ATAN, atan(x))                                                                               \
    X(ATANH, atanh(x))                                                                             \
    X(CEIL, ceil(x))                                                                               \
    X(COS, cos(x))                                                                                 \
    X(COSH, cosh(x))                                                                               \
    X(ELU, x < 0 ? a * expm1(x) : x)                                                               \
    X(CELU, fmax(0, x) + fmin(0, a * expm1(x / a)))                                                \
    X(ERF, erf(x))                                                                                 \
    X(EXP, exp(x))                                                                                 \
    X(FLOOR, floor(x))                                                                             \
    X(GELU, 0.5 * x * (1 + erf(x / sqrt(2))))                                                      \
    X(GELU_TANH,                                                                                   \
      0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x))))         \
    X(HARD_SIGMOID, fmax(0, fmin(1, a *x + b)))                                                    \
    X(HARD_SWISH, x *fmax(0, fmin(1, x / 6 + 0.5)))                                                \
    X(LEAKY_RELU, x < 0 ? a * x : x)                                                               \
    X(LOG, log(x))                                                                                 \
    X(MISH, x *tanh(log1p(exp(x))))                                                                \
    X(NEG, -x)                                                                                     \
    X(RECIPROCAL, 1 / x)                                                                           \
    X(RELU, x > 0 ? x : x < 0 ? 0 : x)                                                             \
    X(ROUND, nearbyint(x))                                                                         \
    X(SELU, x > 0 ? b * x : b * a * expm1(x))                                                      \
    X(SHRINK, x<-b ? x + a : x> b ? x - a : 0)                                                     \
    X(SIGMOID, 1 / (1 + exp(-x)))                                                                  \
    X(SIGN, (double)((x > 0) - (x < 0)))                                                           \
    X(SIN, sin(x))                                                                                 \
    X(SINH, sinh(x))                                                                               \
    X(SOFTPLUS, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)))                                        \
    X(SOFTSIGN, x / (1 + fabs(x)))                                                                 \
    X(SQRT, sqrt(x))                                                                               \
    X(TAN, tan(x))                                                                                 \
    X(TANH, tanh(x))                                                                               \
    X(THRESHOLDED_RELU, x > a ? x : 0)

enum function {
#define X(name, value) F_##name,
    FUNCTIONS(X)
#undef X
};

static double apply(int f, double x, double a, double b)
{
    switch (f) {
#define X(name, value)                                                                             \
    case F_##name:                                                                                 \
        return (value);
        FUNCTIONS(X)
#undef X
    default:
        return x;
    }
}

/* Its two numbers, where it has some. */
static void constants(const struct onnx_call *c, double *a, double *b)
{
    const struct onnx_node *n = c->node;
    switch (c->variant) {
    case F_ELU:
    case F_CELU:
    case F_THRESHOLDED_RELU:
        *a = onnx_attr_number(n, "alpha", 1);
        break;
    case F_HARD_SIGMOID:
        *a = onnx_attr_number(n, "alpha", (double)0.2f);
        *b = onnx_attr_number(n, "beta", 0.5);
        break;
    case F_LEAKY_RELU:
        *a = onnx_attr_number(n, "alpha", (double)0.01f);
        break;
    case F_SELU:
        *a = onnx_attr_number(n, "alpha", 1.67326319217681884765625);
        *b = onnx_attr_number(n, "gamma", 1.05070102214813232421875);
        break;
    case F_SHRINK:
        *a = onnx_attr_number(n, "bias", 0);
        *b = onnx_attr_number(n, "lambd", 0.5);
        break;
    default:
        break;
    }
}

static enum ebb_status function(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    double a = 0, b = 0;
    int f = c->variant;
    if (f == F_GELU && strcmp(onnx_attr_text(c->node, "approximate", "none"), "tanh") == 0)
        f = F_GELU_TANH;
    constants(c, &a, &b);
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    for (int64_t i = 0; i < x->count; i++) {
        if (x->number)
            c->out[0].number[i] = onnx_round(x->type, apply(f, x->number[i], a, b));
        else if (f == F_SHRINK || x->type == ONNX_UINT64)
            onnx_set(&c->out[0], i, apply(f, onnx_get(x, i), a, b));
        else {
            int64_t v = x->integer[i];
            uint64_t negative = -(uint64_t)v;
            c->out[0].integer[i] =
                onnx_wrap(x->type, f == F_NEG || (f == F_ABS && v < 0) ? (int64_t)negative
                                   : f == F_SIGN                       ? (v > 0) - (v < 0)
                                   : f == F_RELU && v < 0              ? 0
                                                                       : v);
        }
    }
    return EBB_OK;
}

enum { TEST_NAN, TEST_INF, TEST_NOT };

static enum ebb_status test(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    bool positive = onnx_attr_int(c->node, "detect_positive", 1) != 0;
    bool negative = onnx_attr_int(c->node, "detect_negative", 1) != 0;
    EBB_TRY(onnx_make(c, 0, ONNX_BOOL, x->rank, x->dims));
    for (int64_t i = 0; i < x->count; i++)
        c->out[0].integer[i] =
            c->variant == TEST_NOT ? !x->integer[i]
            : c->variant == TEST_NAN
                ? isnan(x->number[i]) != 0
                : isinf(x->number[i]) && (x->number[i] > 0 ? positive : negative);
    return EBB_OK;
}

/* ---- arithmetic of two and more ---------------------------------------------------------------- */

enum binary {
    B_ADD,
    B_SUB,
    B_MUL,
    B_DIV,
    B_POW,
    B_MOD,
    B_MAX,
    B_MIN,
    B_PRELU,
    B_SHIFT,
    B_AND,
    B_OR,
    B_XOR,
    B_EQUAL,
    B_GREATER,
    B_LESS,
    B_GREATER_EQUAL,
    B_LESS_EQUAL,
    B_MEAN, /* as a sum, divided at the end */
};
#define IS_TRUTH(f) ((f) >= B_AND && (f) <= B_LESS_EQUAL)

static double of_numbers(int f, double a, double b, bool is_fmod)
{
    switch (f) {
    case B_ADD:
    case B_MEAN:
        return a + b;
    case B_SUB:
        return a - b;
    case B_MUL:
        return a * b;
    case B_DIV:
        return a / b;
    case B_POW:
        return pow(a, b);
    case B_MOD: {
        double r = fmod(a, b);
        return !is_fmod && r * b < 0 ? r + b : r;
    }
    case B_MAX:
        return isnan(a) || isnan(b) ? NAN : fmax(a, b);
    case B_MIN:
        return isnan(a) || isnan(b) ? NAN : fmin(a, b);
    case B_PRELU:
        return a < 0 ? a * b : a;
    default:
        return 0;
    }
}

static int64_t power(int64_t a, int64_t b)
{
    uint64_t r = 1, base = (uint64_t)a;
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    for (; b; b >>= 1, base *= base)
        if (b & 1)
            r *= base;
    return (int64_t)r;
}

static int64_t remainder_of(int64_t a, int64_t b, bool is_fmod, bool is_unsigned)
{
    if (is_unsigned)
        return (int64_t)((uint64_t)a % (uint64_t)b);
    if (b == -1)
        return 0;
    int64_t r = a % b;
    return !is_fmod && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t of_integers(int f, int64_t a, int64_t b, bool flag, bool is_unsigned)
{
    uint64_t p = (uint64_t)a, q = (uint64_t)b;
    bool is_less = is_unsigned ? p < q : a < b;
    switch (f) {
    case B_ADD:
    case B_MEAN:
        return (int64_t)(p + q);
    case B_SUB:
        return (int64_t)(p - q);
    case B_MUL:
        return (int64_t)(p * q);
    case B_DIV:
        return q == 0 ? 0 : is_unsigned ? (int64_t)(p / q) : b == -1 ? (int64_t)-p : a / b;
    case B_POW:
        return power(a, b);
    case B_MOD:
        return q == 0 ? 0 : remainder_of(a, b, flag, is_unsigned);
    case B_MAX:
        return is_less ? b : a;
    case B_MIN:
        return is_less ? a : b;
    case B_PRELU:
        return a < 0 ? (int64_t)(p * q) : a;
    case B_SHIFT:
        return q > 63 ? 0 : flag ? (int64_t)(p << q) : (int64_t)(p >> q);
    default:
        return 0;
    }
}

static bool truth(int f, const struct onnx_value *a, int64_t i, const struct onnx_value *b,
                  int64_t k)
{
    if (f == B_EQUAL && a->texts)
        return a->texts[i].length == b->texts[k].length &&
               memcmp(a->texts[i].text, b->texts[k].text, a->texts[i].length) == 0;
    if (a->number) {
        double p = a->number[i], q = b->number[k];
        return f == B_EQUAL           ? !(p < q || p > q) && !isnan(p) && !isnan(q)
               : f == B_GREATER       ? p > q
               : f == B_LESS          ? p < q
               : f == B_GREATER_EQUAL ? p >= q
                                      : p <= q;
    }
    int64_t p = a->integer[i], q = b->integer[k];
    bool is_less = a->type == ONNX_UINT64 ? (uint64_t)p < (uint64_t)q : p < q;
    switch (f) {
    case B_AND:
        return p && q;
    case B_OR:
        return p || q;
    case B_XOR:
        return !p != !q;
    case B_EQUAL:
        return p == q;
    case B_GREATER:
        return !is_less && p != q;
    case B_LESS:
        return is_less;
    case B_GREATER_EQUAL:
        return !is_less;
    default:
        return is_less || p == q;
    }
}

/* Before version 7 the second operand lay at `axis` of the first. */
static enum ebb_status old_broadcast(struct onnx_call *c, const struct onnx_value *a,
                                     struct onnx_value *b)
{
    int64_t axis = onnx_attr_int(c->node, "axis", a->rank - b->rank);
    if (!onnx_attr_int(c->node, "broadcast", 0) || axis < 0 || axis + b->rank > a->rank)
        return EBB_OK;
    int behind = a->rank - b->rank - (int)axis;
    if (b->rank + behind > ONNX_RANK)
        return onnx_no(c, "too many dimensions");
    for (int d = 0; d < behind; d++)
        b->dims[b->rank++] = 1;
    return EBB_OK;
}

static enum ebb_status pair(struct onnx_call *c, const struct onnx_value *a,
                            const struct onnx_value *b, struct onnx_value *y)
{
    int f = c->variant, rank;
    int64_t dims[ONNX_RANK], sa[ONNX_RANK], sb[ONNX_RANK], i = 0, k = 0, n = 0;
    bool is_power = f == B_POW; /* types may differ */
    bool flag = f == B_SHIFT ? strcmp(onnx_attr_text(c->node, "direction", ""), "LEFT") == 0
                             : onnx_attr_int(c->node, "fmod", 0) != 0;
    EBB_TRY(onnx_broadcast(c, (const struct onnx_value *[]){a, b}, 2, &rank, dims));
    EBB_TRY(onnx_make_value(c, y, IS_TRUTH(f) ? ONNX_BOOL : a->type, rank, dims));
    onnx_strides(a, rank, dims, sa);
    onnx_strides(b, rank, dims, sb);
    struct onnx_walk w = {.rank = rank, .dims = dims};
    if (!y->count)
        return EBB_OK;
    do {
        if (IS_TRUTH(f))
            y->integer[n] = truth(f, a, i, b, k);
        else if (a->number || (is_power && b->number))
            onnx_set(y, n, of_numbers(f, onnx_get(a, i), onnx_get(b, k), flag));
        else
            y->integer[n] = onnx_wrap(a->type, of_integers(f, a->integer[i], b->integer[k], flag,
                                                           a->type == ONNX_UINT64));
        n++;
    } while (onnx_walk_next(&w, 2, (int64_t *[]){&i, &k}, (const int64_t *[]){sa, sb}));
    return EBB_OK;
}

static enum ebb_status binary(struct onnx_call *c)
{
    struct onnx_value b = c->in[1];
    if (c->e->opset < 7)
        EBB_TRY(old_broadcast(c, &c->in[0], &b));
    return pair(c, &c->in[0], &b, &c->out[0]);
}

static enum ebb_status prelu(struct onnx_call *c)
{
    struct onnx_value b = c->in[1];
    if (c->e->opset < 7 && b.rank == 1 && b.count > 1) /* one slope per channel */
        for (int d = 2; d < c->in[0].rank; d++)
            b.dims[b.rank++] = 1;
    return pair(c, &c->in[0], &b, &c->out[0]);
}

/* Sums are made in double and rounded once. */
static enum ebb_status several(struct onnx_call *c)
{
    struct onnx_value sum = c->in[0], next;
    int type = sum.type;
    bool is_sum = c->variant == B_ADD || c->variant == B_MEAN;
    for (size_t i = 1; i < c->in_count; i++) {
        struct onnx_value other = c->in[i];
        if (is_sum && other.number)
            sum.type = other.type = ONNX_DOUBLE;
        EBB_TRY(pair(c, &sum, &other, &next));
        sum = next;
    }
    EBB_TRY(onnx_make(c, 0, type, sum.rank, sum.dims));
    for (int64_t i = 0; i < sum.count; i++)
        if (sum.number)
            onnx_set(&c->out[0], i,
                     c->variant == B_MEAN ? sum.number[i] / (double)c->in_count : sum.number[i]);
        else
            c->out[0].integer[i] = sum.integer[i];
    return EBB_OK;
}

/* ---- choices ---------------------------------------------------------------------------------- */

static enum ebb_status where(struct onnx_call *c)
{
    int rank;
    int64_t dims[ONNX_RANK], s[3][ONNX_RANK], i = 0, j = 0, k = 0, n = 0;
    const struct onnx_value *const v[3] = {&c->in[0], &c->in[1], &c->in[2]};
    EBB_TRY(onnx_broadcast(c, v, 3, &rank, dims));
    EBB_TRY(onnx_make(c, 0, v[1]->type, rank, dims));
    for (int m = 0; m < 3; m++)
        onnx_strides(v[m], rank, dims, s[m]);
    struct onnx_walk w = {.rank = rank, .dims = dims};
    if (!c->out[0].count)
        return EBB_OK;
    do {
        bool is_first = v[0]->integer[i] != 0;
        onnx_copy(&c->out[0], n++, is_first ? v[1] : v[2], is_first ? j : k);
    } while (
        onnx_walk_next(&w, 3, (int64_t *[]){&i, &j, &k}, (const int64_t *[]){s[0], s[1], s[2]}));
    return EBB_OK;
}

static enum ebb_status clip(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    for (size_t i = 1; i < 3; i++)
        if (onnx_has(c, i) && c->in[i].count != 1)
            return onnx_no(c, "a bound is one number");
    bool is_old = c->e->opset < 11;
    if (is_old && !x->number)
        return onnx_not_here(c, "type %s in version 6", onnx_type_name(x->type));
    bool has_low = is_old || onnx_has(c, 1), has_high = is_old || onnx_has(c, 2);
    double low = is_old    ? onnx_attr_number(c->node, "min", -INFINITY)
                 : has_low ? onnx_get(&c->in[1], 0)
                           : 0;
    double high = is_old     ? onnx_attr_number(c->node, "max", INFINITY)
                  : has_high ? onnx_get(&c->in[2], 0)
                             : 0;
    EBB_TRY(onnx_make(c, 0, x->type, x->rank, x->dims));
    for (int64_t i = 0; i < x->count; i++) {
        if (x->number) {
            double v = x->number[i];
            v = has_low && v < low ? low : v;
            c->out[0].number[i] = has_high && v > high ? high : v;
            continue;
        }
        int64_t v = x->integer[i];
        bool is_unsigned = x->type == ONNX_UINT64;
        v = has_low ? of_integers(B_MAX, v, c->in[1].integer[0], false, is_unsigned) : v;
        c->out[0].integer[i] =
            has_high ? of_integers(B_MIN, v, c->in[2].integer[0], false, is_unsigned) : v;
    }
    return EBB_OK;
}

/* ---- types ------------------------------------------------------------------------------------ */

static enum ebb_status cast(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    int to = c->variant ? c->in[1].type : onnx_attr_type(c->node, "to", ONNX_UNDEFINED);
    const char *old = onnx_attr_text(c->node, "to", NULL);
    if (old)
        return onnx_not_here(c, "types as texts (version 1)");
    if (x->texts || to == ONNX_STRING)
        return onnx_not_here(c, "to or from texts");
    EBB_TRY(onnx_make(c, 0, to, x->rank, x->dims));
    for (int64_t i = 0; i < x->count; i++)
        if (c->out[0].integer && x->integer)
            c->out[0].integer[i] = onnx_wrap(to, x->integer[i]);
        else
            onnx_set(&c->out[0], i, onnx_get(x, i));
    return EBB_OK;
}

static enum ebb_status identity(struct onnx_call *c)
{
    return onnx_again(c, 0, &c->in[0], c->in[0].rank, c->in[0].dims);
}

/* In training, masks are drawn: only a ratio of 0 has one answer. */
static enum ebb_status dropout(struct onnx_call *c)
{
    const struct onnx_value *x = &c->in[0];
    for (size_t i = 1; i < 3; i++)
        if (onnx_has(c, i) && c->in[i].count != 1)
            return onnx_no(c, "ratio and training_mode are one number");
    bool is_training = onnx_has(c, 2) && c->in[2].integer[0];
    double ratio = onnx_has(c, 1) ? c->in[1].number[0] : onnx_attr_number(c->node, "ratio", 0.5);
    if (c->e->opset < 7 && !onnx_attr_int(c->node, "is_test", 0))
        is_training = true;
    if (is_training && ratio > 0)
        return onnx_not_here(c, "random numbers");
    if (onnx_wants(c, 1)) {
        EBB_TRY(onnx_make(c, 1, c->e->opset < 10 ? x->type : ONNX_BOOL, x->rank, x->dims));
        for (int64_t i = 0; i < x->count; i++)
            onnx_set(&c->out[1], i, 1);
    }
    return identity(c);
}

/* ---- rows ------------------------------------------------------------------------------------- */

#define FN(name, since, kind, variant)                                                             \
    {                                                                                              \
        name, since, 0, 1, 1, kind, 1, function, F_##variant                                       \
    }
#define TWO(name, since, kinds, variant)                                                           \
    {                                                                                              \
        name, since, 0, 2, 2, kinds, 1, binary, B_##variant                                        \
    }
#define MANY(name, kinds, variant)                                                                 \
    {                                                                                              \
        name, 1, 0, 1, ONNX_MANY, kinds, 1, several, B_##variant                                   \
    }

static const struct onnx_op rows[] = {
    FN("Abs", 1, "n", ABS),
    FN("Acos", 7, "f", ACOS),
    FN("Acosh", 9, "f", ACOSH),
    FN("Asin", 7, "f", ASIN),
    FN("Asinh", 9, "f", ASINH),
    FN("Atan", 7, "f", ATAN),
    FN("Atanh", 9, "f", ATANH),
    FN("Ceil", 1, "f", CEIL),
    FN("Celu", 12, "f", CELU),
    FN("Cos", 7, "f", COS),
    FN("Cosh", 9, "f", COSH),
    FN("Elu", 1, "f", ELU),
    FN("Erf", 9, "f", ERF),
    FN("Exp", 1, "f", EXP),
    FN("Floor", 1, "f", FLOOR),
    FN("Gelu", 20, "f", GELU),
    FN("HardSigmoid", 1, "f", HARD_SIGMOID),
    FN("HardSwish", 14, "f", HARD_SWISH),
    FN("LeakyRelu", 1, "f", LEAKY_RELU),
    FN("Log", 1, "f", LOG),
    FN("Mish", 18, "f", MISH),
    FN("Neg", 1, "n", NEG),
    FN("Reciprocal", 1, "f", RECIPROCAL),
    FN("Relu", 1, "n", RELU),
    FN("Round", 11, "f", ROUND),
    FN("Selu", 6, "f", SELU),
    FN("Shrink", 9, "n", SHRINK),
    FN("Sigmoid", 1, "f", SIGMOID),
    FN("Sign", 9, "n", SIGN),
    FN("Sin", 7, "f", SIN),
    FN("Sinh", 9, "f", SINH),
    FN("Softplus", 1, "f", SOFTPLUS),
    FN("Softsign", 1, "f", SOFTSIGN),
    FN("Sqrt", 1, "f", SQRT),
    FN("Tan", 7, "f", TAN),
    FN("Tanh", 1, "f", TANH),
    FN("ThresholdedRelu", 10, "f", THRESHOLDED_RELU),
    {"IsNaN", 9, 0, 1, 1, "f", 1, test, TEST_NAN},
    {"IsInf", 10, 0, 1, 1, "f", 1, test, TEST_INF},
    {"Not", 1, 0, 1, 1, "b", 1, test, TEST_NOT},
    TWO("Add", 1, "n0", ADD),
    TWO("Sub", 1, "n0", SUB),
    TWO("Mul", 1, "n0", MUL),
    TWO("Div", 1, "n0", DIV),
    TWO("Pow", 1, "nn", POW),
    TWO("Mod", 10, "n0", MOD),
    TWO("BitShift", 11, "i0", SHIFT),
    TWO("And", 1, "b", AND),
    TWO("Or", 1, "b", OR),
    TWO("Xor", 1, "b", XOR),
    TWO("Equal", 1, "a0", EQUAL),
    TWO("Greater", 1, "n0", GREATER),
    TWO("Less", 1, "n0", LESS),
    TWO("GreaterOrEqual", 12, "n0", GREATER_EQUAL),
    TWO("LessOrEqual", 12, "n0", LESS_EQUAL),
    {"PRelu", 1, 0, 2, 2, "n0", 1, prelu, B_PRELU},
    MANY("Sum", "n0", ADD),
    MANY("Mean", "f0", MEAN),
    MANY("Max", "n0", MAX),
    MANY("Min", "n0", MIN),
    {"Where", 9, 0, 3, 3, "ba1", 1, where, 0},
    {"Clip", 6, 0, 1, 3, "n0", 1, clip, 0},
    {"Cast", 6, 18, 1, 1, "a", 1, cast, 0},
    {"CastLike", 15, 18, 2, 2, "a", 1, cast, 1},
    {"Identity", 1, 0, 1, 1, "a", 1, identity, 0},
    {"Dropout", 1, 0, 1, 3, "ffb", 2, dropout, 0},
};

const struct onnx_ops onnx_each_ops = {rows, sizeof rows / sizeof *rows};
