/* internal.h - shared by the kernels: clones per instruction set, parallel ranges, vector-friendly
 * math. */
#ifndef EBB_KERNEL_INTERNAL_H
#define EBB_KERNEL_INTERNAL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernel/kernel.h"

/* One body, compiled for three instruction sets, chosen when the program is loaded. The arithmetic
 * is the same in all (no contraction), so are the bits. Sanitizers cannot instrument the chooser.
 * clang's does not know levels of x86-64, so there it is a feature that decides; and it is not
 * static, so functions with clones have names of their own in the whole folder. */
#ifdef __has_feature
#define KERNEL_HAS_FEATURE(name) __has_feature(name)
#else
#define KERNEL_HAS_FEATURE(name) 0
#endif
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(__SANITIZE_ADDRESS__) ||                 \
    defined(__SANITIZE_THREAD__) || KERNEL_HAS_FEATURE(address_sanitizer) ||                       \
    KERNEL_HAS_FEATURE(thread_sanitizer) || KERNEL_HAS_FEATURE(memory_sanitizer)
#define KERNEL_CLONES
#elif defined(__clang__)
#define KERNEL_CLONES __attribute__((target_clones("avx512vl", "fma", "default")))
#else
#define KERNEL_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

/* Allow a multiply and an add to become one instruction in this function: one for gcc at its head,
 * one for clang where its body begins. */
#if defined(__clang__)
#define KERNEL_CONTRACT
#define KERNEL_CONTRACT_BODY _Pragma("clang fp contract(fast)")
#else
#define KERNEL_CONTRACT __attribute__((optimize("fp-contract=fast")))
#define KERNEL_CONTRACT_BODY
#endif

/* Before a loop: iterations do not depend on each other, though a result may lie exactly over an
 * operand (which `restrict` would forbid). */
#if defined(__GNUC__) && !defined(__clang__)
#define KERNEL_EACH _Pragma("GCC ivdep")
#else
#define KERNEL_EACH
#endif

#define KERNEL_UNUSED __attribute__((unused))

/* The head of a kernel of the cpu: kernel_cpu_<family> with its description and its operands. */
#define KERNEL_CPU(family)                                                                         \
    enum ebb_status kernel_cpu_##family(KERNEL_UNUSED struct kernel_context *c, const void *desc,  \
                                        const struct kernel_args *args,                            \
                                        KERNEL_UNUSED struct ebb_error *err)

typedef enum ebb_status kernel_cpu_runs(struct kernel_context *c, const void *desc,
                                        const struct kernel_args *args, struct ebb_error *err);
/* The same for what a family needs beside its operands. */
#define KERNEL_NEED(family)                                                                        \
    enum ebb_status kernel_need_##family(                                                          \
        KERNEL_UNUSED struct kernel_context *c, KERNEL_UNUSED const void *desc,                    \
        KERNEL_UNUSED const struct kernel_args *types, struct kernel_need *need,                   \
        KERNEL_UNUSED struct ebb_error *err)
typedef enum ebb_status kernel_cpu_needs(struct kernel_context *c, const void *desc,
                                         const struct kernel_args *types, struct kernel_need *need,
                                         struct ebb_error *err);
kernel_cpu_needs kernel_need_matmul, kernel_need_conv, kernel_need_attention,
    kernel_need_attention_grad, kernel_need_layer_norm_grad, kernel_need_product_entropy,
    kernel_need_product_entropy_grad, kernel_need_product_entropy_step, kernel_need_update,
    kernel_need_update_split, kernel_need_cross_entropy, kernel_need_cross_entropy_grad;

#define X(name, text, type) kernel_cpu_runs kernel_cpu_##text;
KERNEL_FAMILY_LIST(X)
#undef X

#define KERNEL_GRAIN 16384 /* elements of a piece */

/* Runs body(argument, first, last) over a partition of 0..count; an item is `work` elements. Pieces
 * have about KERNEL_GRAIN elements and depend on shapes alone, so results cannot depend on the
 * thread count; little work stays on this thread. Returns EBB_OK: most kernels end with it. */
typedef void (*kernel_body)(void *argument, int64_t first, int64_t last);
enum ebb_status kernel_parallel(const struct kernel_context *c, int64_t count, int64_t work,
                                kernel_body body, void *argument);

static inline int64_t kernel_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t kernel_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline float kernel_bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t kernel_float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* ---- numbers of 16 bits: without branches, so that loops become vectors ---------------------- */

static inline uint16_t kernel_to_bf16(float x)
{
    uint32_t u = kernel_float_bits(x);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = (u >> 16) | 0x40u;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

static inline float kernel_from_bf16(uint16_t x)
{
    return kernel_bits_float((uint32_t)x << 16);
}

static inline uint16_t kernel_to_f16(float x)
{
    uint32_t u = kernel_float_bits(x), sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    uint32_t nan = 0x7e00u | ((u >> 13) & 0x3ffu);
    /* subnormal: the addition of 1/2 aligns and rounds the bits */
    uint32_t small = kernel_float_bits(kernel_bits_float(u) + 0.5f) - 0x3f000000u;
    uint32_t normal = (u + 0xfffu + ((u >> 13) & 1u) - 0x38000000u) >> 13;
    uint32_t r = u < 0x38800000u ? small : normal;
    r = u >= 0x477ff000u ? 0x7c00u : r; /* 65520 and above */
    r = u > 0x7f800000u ? nan : r;
    return (uint16_t)(sign | r);
}

static inline float kernel_from_f16(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, m = (uint32_t)(x & 0x7fffu) << 13;
    /* exponents move by 112; a subnormal one is 2^-14 too large with its hidden bit, then less it
     */
    uint32_t normal = m + 0x38000000u;
    uint32_t small = kernel_float_bits(kernel_bits_float(m + 0x38800000u) - 0x1p-14f);
    uint32_t r = m < 0x00800000u ? small : normal;
    r = m >= 0x0f800000u ? m + 0x70000000u : r; /* infinity and NaN */
    return kernel_bits_float(sign | r);
}

/* ---- math that vectorises (relative error below 3e-7 unless said) ---------------------------- */

/* e^x: x = n ln2 + r, |r| <= ln2/2, polynomial of degree 6; 2^n applied in two halves so that
 * subnormals and infinity come out right. NaN stays NaN. */
static inline float kernel_expf(float x)
{
    float c = x > -104.0f ? x : -104.0f; /* for NaN, too: it has no integer below */
    c = c < 89.0f ? c : 89.0f;
    float shifted = c * 1.44269504f + 12582912.0f;
    float n = shifted - 12582912.0f;
    float r = c - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = fmaf(p, r * r, r) + 1.0f;
    int32_t k = (int32_t)n;
    int32_t half = k >> 1;
    float s1 = kernel_bits_float((uint32_t)(half + 127) << 23);
    float s2 = kernel_bits_float((uint32_t)(k - half + 127) << 23);
    float y = p * s1 * s2;
    return x != x ? x : y;
}

static inline float kernel_sigmoidf(float x)
{
    return 1.0f / (1.0f + kernel_expf(-x));
}

static inline float kernel_tanhf(float x)
{
    float a = fabsf(x);
    float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float small = p * z * x + x;
    float e = 1.0f - 2.0f / (kernel_expf(2.0f * a) + 1.0f);
    float large = x < 0.0f ? -e : e;
    return a < 0.625f ? small : large;
}

/* erf(x): x times a polynomial in x^2 below 0.9, 1 - e^(polynomial in |x|) above (both fitted for
 * least relative error). */
static inline float kernel_erff(float x)
{
    float t = fabsf(x), z = x * x;
    float p = 8.5130946e-05f;
    p = p * z - 0.000817563698f;
    p = p * z + 0.00520385895f;
    p = p * z - 0.0268605084f;
    p = p * z + 0.11283715f;
    p = p * z - 0.37612635f;
    p = p * z + 1.12837917f;
    float c = t > 4.0f ? 4.0f : t;
    float q = -7.37315277e-07f;
    q = q * c - 1.13132412e-05f;
    q = q * c + 0.000378860492f;
    q = q * c - 0.00399413554f;
    q = q * c + 0.0247745794f;
    q = q * c - 0.107858294f;
    q = q * c - 0.633663252f;
    q = q * c - 1.12938184f;
    q = q * c + 0.000150618183f;
    float e = 1.0f - kernel_expf(q);
    float large = x < 0.0f ? -e : e;
    float y = t < 0.9f ? p * x : large;
    return x != x ? x : y;
}

/* ---- parts of kernels that others use --------------------------------------------------------- */

bool kernel_has_bf16(void); /* products and convolutions can take it on this processor */
void kernel_fill(const struct kernel_context *c, int64_t n, float *y, float value);
/* Whether cross entropy works on logits of 16 bits, input `logits`, as they are. */
bool kernel_entropy_takes(const struct kernel_cross_entropy *e, const struct kernel_args *types,
                          uint32_t logits);
/* c NULL: on this thread alone. */
void kernel_convert(const struct kernel_context *c, int64_t n, int from, const void *x, int to,
                    void *y);
/* Builds and caches the primitive, and answers its workspace; running finds it again. c may be
 * NULL: nothing. */
enum ebb_status kernel_matmul_prepare(struct kernel_context *c, const struct kernel_matmul *m,
                                      size_t *workspace_bytes, struct ebb_error *err);
/* Small ones in float32, with every sum in double (matmul_own.c); in floats those of few terms, of any size. */
#define KERNEL_THIN 4
bool kernel_matmul_is_thin(const struct kernel_matmul *m);
void kernel_matmul_own(const struct kernel_context *c, const struct kernel_matmul *m,
                       const float *a, const float *b, const float *bias, float *out);
enum ebb_status kernel_matmul_run(struct kernel_context *c, const struct kernel_matmul *m,
                                  const void *a, const void *b, const void *bias, void *out,
                                  void *workspace, struct ebb_error *err);
/* Large ones of 16 bits that oneDNN does not multiply (matmul_low.c). */
bool kernel_matmul_is_low(const struct kernel_matmul *m);
enum ebb_status kernel_matmul_low_need(struct kernel_context *c, const struct kernel_matmul *m,
                                       size_t *bytes, struct ebb_error *err);
enum ebb_status kernel_matmul_low(struct kernel_context *c, const struct kernel_matmul *m,
                                  const uint16_t *a, const uint16_t *b, const float *bias,
                                  void *out, void *workspace, struct ebb_error *err);
/* Parts of a workspace begin at multiples of 256 bytes. */
static inline size_t kernel_align(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Sum of n floats: 16 lanes of float over blocks of 4096, blocks in double. */
double kernel_sum_row(int64_t n, const float *x);
double kernel_dot_row(int64_t n, const float *x, const float *y);
/* Largest of n floats and m (NaN wins), and the sum of exp(x - m). */
float kernel_max_row(int64_t n, const float *x, float m);
double kernel_exp_row_sum(int64_t n, const float *x, float m);

#endif
