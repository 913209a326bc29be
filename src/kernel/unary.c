/* unary.c - element-wise functions of one tensor and their gradients.
 *
 * One row per function: the value from (v, a, b) and the derivative from the saved tensor s. */
#include "kernel/internal.h"

#define SQRT_1_2 0.70710678118654752f
#define GELU_C 0.79788456080286536f /* sqrt(2/pi) */
#define GELU_K 0.044715f

static inline float gelu_tanh_grad(float x)
{
    float t = kernel_tanhf(GELU_C * (x + GELU_K * x * x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * GELU_C * (1.0f + 3.0f * GELU_K * x * x);
}

static inline float gelu_grad(float x)
{
    float phi = 0.3989422804014327f * kernel_expf(-0.5f * x * x);
    return 0.5f * (1.0f + kernel_erff(x * SQRT_1_2)) + x * phi;
}

static inline float silu_grad(float x)
{
    float s = kernel_sigmoidf(x);
    return s * (1.0f + x * (1.0f - s));
}

static inline float pow_fast(float x, float e)
{
    return e == 2.0f ? x * x : e == 3.0f ? x * x * x : e == 1.0f ? x : powf(x, e);
}

/* NaN is kept by relu and clamp, as comparisons with it are false. Derivatives that would be
 * infinite at a boundary (sqrt at 0) are 0 there: dead units would make everything NaN otherwise.
 */
#define UNARY_TABLE(X)                                                                             \
    X(neg, -v, -1.0f)                                                                              \
    X(abs, fabsf(v), s > 0.0f ? 1.0f : s < 0.0f ? -1.0f : 0.0f)                                    \
    X(exp, kernel_expf(v), s)                                                                      \
    X(log, logf(v), 1.0f / s)                                                                      \
    X(sqrt, sqrtf(v), s == 0.0f ? 0.0f : 0.5f / s)                                                 \
    X(rsqrt, 1.0f / sqrtf(v), -0.5f * s * s * s)                                                   \
    X(square, v *v, 2.0f * s)                                                                      \
    X(reciprocal, 1.0f / v, -s * s)                                                                \
    X(erf, kernel_erff(v), 1.1283791670955126f * kernel_expf(-s * s))                              \
    X(sin, sinf(v), cosf(s))                                                                       \
    X(cos, cosf(v), -sinf(s))                                                                      \
    X(relu, v<0.0f ? 0.0f : v, s> 0.0f ? 1.0f : 0.0f)                                              \
    X(relu6, v<0.0f ? 0.0f : v> 6.0f ? 6.0f : v, s > 0.0f && s < 6.0f ? 1.0f : 0.0f)               \
    X(leaky_relu, v > 0.0f ? v : a * v, s > 0.0f ? 1.0f : a)                                       \
    X(elu, v > 0.0f ? v : a * expm1f(v), s > 0.0f ? 1.0f : a * kernel_expf(s))                     \
    X(sigmoid, kernel_sigmoidf(v), s *(1.0f - s))                                                  \
    X(tanh, kernel_tanhf(v), 1.0f - s * s)                                                         \
    X(gelu, 0.5f * v * (1.0f + kernel_erff(v * SQRT_1_2)), gelu_grad(s))                           \
    X(gelu_tanh, 0.5f * v * (1.0f + kernel_tanhf(GELU_C * (v + GELU_K * v * v * v))),              \
      gelu_tanh_grad(s))                                                                           \
    X(silu, v *kernel_sigmoidf(v), silu_grad(s))                                                   \
    X(softplus, a *v > b ? v : log1pf(kernel_expf(a * v)) / a,                                     \
      a * s > b ? 1.0f : kernel_sigmoidf(a * s))                                                   \
    X(hardswish,                                                                                   \
      v *(v < -3.0f  ? 0.0f                                                                        \
          : v > 3.0f ? 6.0f                                                                        \
                     : v + 3.0f) /                                                                 \
          6.0f,                                                                                    \
      s < -3.0f  ? 0.0f                                                                            \
      : s > 3.0f ? 1.0f                                                                            \
                 : s / 3.0f + 0.5f)                                                                \
    X(hardsigmoid,                                                                                 \
      (v < -3.0f  ? 0.0f                                                                           \
       : v > 3.0f ? 6.0f                                                                           \
                  : v + 3.0f) /                                                                    \
          6.0f,                                                                                    \
      s > -3.0f && s < 3.0f ? 1.0f / 6.0f : 0.0f)                                                  \
    X(clamp, v<a ? a : v> b ? b : v, s >= a && s <= b ? 1.0f : 0.0f)                               \
    X(pow_scalar, pow_fast(v, a), a == 0.0f ? 0.0f : a * pow_fast(s, a - 1.0f))                    \
    X(add_scalar, v + a, 1.0f)                                                                     \
    X(mul_scalar, v *a, a)

struct unary_job {
    const float *x, *s, *more;
    float *y;
    float a, b;
};

#define X(name, value, slope)                                                                      \
    KERNEL_CLONES static void forward_##name(void *argument, int64_t first, int64_t last)          \
    {                                                                                              \
        const struct unary_job *j = argument;                                                      \
        const float *x = j->x;                                                                     \
        float *y = j->y;                                                                           \
        const float a = j->a, b = j->b;                                                            \
        (void)a, (void)b;                                                                          \
        KERNEL_EACH for (int64_t i = first; i < last; i++)                                         \
        {                                                                                          \
            const float v = x[i];                                                                  \
            y[i] = value;                                                                          \
        }                                                                                          \
    }                                                                                              \
    KERNEL_CLONES static void backward_##name(void *argument, int64_t first, int64_t last)         \
    {                                                                                              \
        const struct unary_job *j = argument;                                                      \
        const float *dy = j->x, *saved = j->s;                                                     \
        float *dx = j->y;                                                                          \
        const float a = j->a, b = j->b;                                                            \
        (void)a, (void)b;                                                                          \
        KERNEL_EACH for (int64_t i = first; i < last; i++)                                         \
        {                                                                                          \
            const float s = saved[i];                                                              \
            (void)s;                                                                               \
            dx[i] = dy[i] * (slope);                                                               \
        }                                                                                          \
    }
UNARY_TABLE(X)
#undef X

static const struct {
    kernel_body forward, backward;
} table[KERNEL_UNARY_COUNT] = {
#define X(name, text, saves) [KERNEL_##name] = {forward_##text, backward_##text},
    KERNEL_UNARY_LIST(X)
#undef X
};

/* Of one element. */
static int64_t work(int32_t f)
{
    switch (f) {
    case KERNEL_NEG:
    case KERNEL_ABS:
    case KERNEL_SQUARE:
    case KERNEL_RELU:
    case KERNEL_RELU6:
    case KERNEL_LEAKY_RELU:
    case KERNEL_CLAMP:
    case KERNEL_ADD_SCALAR:
    case KERNEL_MUL_SCALAR:
        return 1;
    default:
        return 4; /* polynomials, divisions, roots */
    }
}

KERNEL_CPU(unary)
{
    const struct kernel_unary_desc *d = desc;
    struct unary_job job = {.x = args->in[0], .y = args->out[0], .a = d->a, .b = d->b};
    return kernel_parallel(c, d->n, work(d->f), table[d->f].forward, &job);
}

/* Two gradients, added, through a relu: what the sum and its gradient would make one after the other. */
KERNEL_CLONES static void backward_sum(void *argument, int64_t first, int64_t last)
{
    const struct unary_job *j = argument;
    const float *dy = j->x, *more = j->more, *saved = j->s;
    float *dx = j->y;
    KERNEL_EACH for (int64_t i = first; i < last; i++)
    {
        dx[i] = (dy[i] + more[i]) * (saved[i] > 0.0f ? 1.0f : 0.0f);
    }
}

/* A gradient together with the sums of its columns: what the function's gradient and a sum over rows
 * would make one after the other. */
#define COLUMNS 64

struct sums_job {
    struct unary_job each; /* y: not wanted where NULL */
    kernel_body backward;
    int64_t rows, width;
    float *sums;
};

KERNEL_CLONES static void add_to_sums(int64_t n, const float *x, double *sums)
{
    for (int64_t k = 0; k < n; k++)
        sums[k] += (double)x[k];
}

/* COLUMNS of them are one piece of work. */
static void sums_body(void *argument, int64_t first, int64_t last)
{
    const struct sums_job *j = argument;
    for (int64_t block = first; block < last; block++) {
        int64_t column = block * COLUMNS, n = kernel_min(COLUMNS, j->width - column);
        double sums[COLUMNS] = {0};
        float part[COLUMNS];
        for (int64_t r = 0; r < j->rows; r++) {
            int64_t at = r * j->width + column;
            struct unary_job one = j->each;
            one.x += at;
            one.s += at;
            one.y = part;
            j->backward(&one, 0, n);
            add_to_sums(n, part, sums);
            if (j->each.y)
                memcpy(j->each.y + at, part, (size_t)n * sizeof *part);
        }
        for (int64_t k = 0; k < n; k++)
            j->sums[column + k] = (float)sums[k];
    }
}

KERNEL_CPU(unary_grad)
{
    const struct kernel_unary_desc *d = desc;
    struct unary_job job = {.x = args->in[0],
                            .s = args->in[1],
                            .more = args->in_count > 2 ? args->in[2] : NULL,
                            .y = args->out[0],
                            .a = d->a,
                            .b = d->b};
    if (job.more && d->f != KERNEL_RELU)
        return ebb_fail(err, EBB_EINTERNAL, "unary_grad: a sum goes through a relu alone");
    if (d->columns && args->out[1]) {
        struct sums_job sums = {job, table[d->f].backward, d->n / d->columns, d->columns,
                                args->out[1]};
        return kernel_parallel(c, (sums.width + COLUMNS - 1) / COLUMNS,
                               sums.rows * COLUMNS * work(d->f), sums_body, &sums);
    }
    if (job.more)
        return kernel_parallel(c, d->n, 1, backward_sum, &job);
    return kernel_parallel(c, d->n, work(d->f), table[d->f].backward, &job);
}
