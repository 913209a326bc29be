/* convert.c - 16-bit floats: round to nearest, ties to even; NaN stays a quiet NaN. */
#include "kernel/internal.h"

uint16_t kernel_bf16_from_float(float x)
{
    uint32_t u = kernel_float_bits(x);
    if (x != x)
        return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float kernel_float_from_bf16(uint16_t x)
{
    return kernel_bits_float((uint32_t)x << 16);
}

uint16_t kernel_f16_from_float(float x)
{
    uint32_t u = kernel_float_bits(x), sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((u >> 13) & 0x3ffu));
    if (u >= 0x477ff000u) /* 65520 and above */
        return (uint16_t)(sign | 0x7c00u);
    if (u < 0x38800000u) { /* subnormal: the addition of 1/2 aligns and rounds the bits */
        uint32_t r = kernel_float_bits(kernel_bits_float(u) + 0.5f);
        return (uint16_t)(sign | (r - 0x3f000000u));
    }
    u += 0xfffu + ((u >> 13) & 1u);
    return (uint16_t)(sign | ((u - 0x38000000u) >> 13));
}

float kernel_float_from_f16(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, exponent = (x >> 10) & 31u, m = x & 0x3ffu;
    if (exponent == 31)
        return kernel_bits_float(sign | 0x7f800000u | (m << 13));
    if (exponent == 0) {
        float v = (float)m * 0x1p-24f;
        return sign ? -v : v;
    }
    return kernel_bits_float(sign | ((exponent + 112u) << 23) | (m << 13));
}

struct convert_job {
    enum kernel_dtype from, to;
    const void *x;
    void *y;
};

static void convert_body(void *argument, int64_t first, int64_t last)
{
    const struct convert_job *j = argument;
    const uint16_t *in = j->x;
    uint16_t *out = j->y;
    for (int64_t i = first; i < last; i++) {
        float v = j->from == KERNEL_F32    ? ((const float *)j->x)[i]
                  : j->from == KERNEL_BF16 ? kernel_float_from_bf16(in[i])
                                           : kernel_float_from_f16(in[i]);
        if (j->to == KERNEL_F32)
            ((float *)j->y)[i] = v;
        else
            out[i] = j->to == KERNEL_BF16 ? kernel_bf16_from_float(v) : kernel_f16_from_float(v);
    }
}

void kernel_convert(const struct kernel_context *c, int64_t n, enum kernel_dtype from,
                    const void *x, enum kernel_dtype to, void *y)
{
    struct convert_job job = {from, to, x, y};
    kernel_parallel(c, n, KERNEL_GRAIN, convert_body, &job);
}
