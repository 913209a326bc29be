/* convert.c - 16-bit floats: round to nearest, ties to even; NaN stays a quiet NaN. Written without
 * branches, so that the loops become vectors. */
#include "kernel/internal.h"

struct convert_job {
    const void *x;
    void *y;
};

#define CONVERT(name, from_type, to_type, value)                                                   \
    KERNEL_CLONES static void name(void *argument, int64_t first, int64_t last)                    \
    {                                                                                              \
        const struct convert_job *j = argument;                                                    \
        const from_type *restrict x = j->x;                                                        \
        to_type *restrict y = j->y;                                                                \
        for (int64_t i = first; i < last; i++)                                                     \
            y[i] = value;                                                                          \
    }
CONVERT(float_to_float, float, float, x[i])
CONVERT(float_to_bf16, float, uint16_t, kernel_to_bf16(x[i]))
CONVERT(float_to_f16, float, uint16_t, kernel_to_f16(x[i]))
CONVERT(bf16_to_float, uint16_t, float, kernel_from_bf16(x[i]))
CONVERT(bf16_to_f16, uint16_t, uint16_t, kernel_to_f16(kernel_from_bf16(x[i])))
CONVERT(f16_to_float, uint16_t, float, kernel_from_f16(x[i]))
CONVERT(f16_to_bf16, uint16_t, uint16_t, kernel_to_bf16(kernel_from_f16(x[i])))
CONVERT(half_to_half, uint16_t, uint16_t, x[i])
CONVERT(byte_to_float, uint8_t, float, (float)x[i] / 255.0f)
CONVERT(byte_to_bf16, uint8_t, uint16_t, kernel_to_bf16((float)x[i] / 255.0f))
CONVERT(byte_to_f16, uint8_t, uint16_t, kernel_to_f16((float)x[i] / 255.0f))

void kernel_convert(const struct kernel_context *c, int64_t n, int from, const void *x, int to,
                    void *y)
{
    static const kernel_body bodies[KERNEL_DTYPES][3] = {
        [KERNEL_F32] = {float_to_float, float_to_bf16, float_to_f16},
        [KERNEL_BF16] = {bf16_to_float, half_to_half, bf16_to_f16},
        [KERNEL_F16] = {f16_to_float, f16_to_bf16, half_to_half},
        [KERNEL_U8] = {byte_to_float, byte_to_bf16, byte_to_f16},
    };
    struct convert_job job = {x, y};
    if (c)
        kernel_parallel(c, n, 1, bodies[from][to], &job);
    else
        bodies[from][to](&job, 0, n);
}

KERNEL_CPU(convert)
{
    const struct kernel_count_desc *d = desc;
    kernel_convert(c, d->n, args->in_dtype[0], args->in[0], args->out_dtype[0], args->out[0]);
    return EBB_OK;
}

/* ---- split master weights -------------------------------------------------------------------- */

struct master_job {
    const uint16_t *high, *rest;
    uint16_t *high_out, *rest_out;
    const float *w;
    float *w_out;
};

KERNEL_CLONES static void join_body(void *argument, int64_t first, int64_t last)
{
    const struct master_job *j = argument;
    const uint16_t *restrict high = j->high, *restrict rest = j->rest;
    float *restrict w = j->w_out;
    for (int64_t i = first; i < last; i++) {
        uint32_t low = rest[i];
        w[i] = kernel_bits_float((((uint32_t)high[i] - (low >> 15)) << 16) | low);
    }
}

KERNEL_CLONES static void split_body(void *argument, int64_t first, int64_t last)
{
    const struct master_job *j = argument;
    const float *restrict w = j->w;
    uint16_t *restrict high = j->high_out, *restrict rest = j->rest_out;
    for (int64_t i = first; i < last; i++) {
        uint32_t u = kernel_float_bits(w[i]);
        rest[i] = (uint16_t)u;
        high[i] = (uint16_t)((u >> 16) + (u >> 15 & 1u));
    }
}

void kernel_master_join(const struct kernel_context *c, int64_t n, const uint16_t *high,
                        const uint16_t *rest, float *w)
{
    struct master_job job = {.high = high, .rest = rest, .w_out = w};
    kernel_parallel(c, n, 1, join_body, &job);
}

void kernel_master_split(const struct kernel_context *c, int64_t n, const float *w, uint16_t *high,
                         uint16_t *rest)
{
    struct master_job job = {.w = w, .high_out = high, .rest_out = rest};
    kernel_parallel(c, n, 1, split_body, &job);
}

KERNEL_CPU(master_join)
{
    const struct kernel_count_desc *d = desc;
    kernel_master_join(c, d->n, args->in[0], args->in[1], args->out[0]);
    return EBB_OK;
}
