/* product.c - see product.h. */
#include "cuda/product_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "cuda/library.h"

#define WORKSPACE ((size_t)32 << 20) /* what the library recommends for this chip */
#define SMALL ((int64_t)1 << 27)     /* multiplications below which a product gets none */

/* What the library calls the description's A is our B: it has columns where we have rows. */
static cudaDataType type_of(int dtype)
{
    return dtype == KERNEL_BF16 ? CUDA_R_16BF : dtype == KERNEL_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static enum ebb_status check(cublasStatus_t status, const char *what, struct ebb_error *err)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return EBB_OK;
    return ebb_fail(err, EBB_EDEVICE, "cuda: %s: cuBLASLt answers %d", what, (int)status);
}

static void forget(struct cuda_products *s, struct cuda_answer *a)
{
    if (a->op)
        (void)s->MatmulDescDestroy(a->op);
    if (a->a)
        (void)s->MatrixLayoutDestroy(a->a);
    if (a->b)
        (void)s->MatrixLayoutDestroy(a->b);
    if (a->c)
        (void)s->MatrixLayoutDestroy(a->c);
    ebb_free(a);
}

void cuda_products_close(struct cuda_products *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        forget(s, s->answers[i]);
    if (s->handle)
        (void)s->Destroy(s->handle);
    ebb_strmap_fini(&s->places);
    ebb_free(s->answers);
    ebb_free(s);
}

enum ebb_status cuda_products_open(struct cuda_products **products, bool has_device,
                                   cuda_stream stream, const struct profile *profile,
                                   struct ebb_error *err)
{
    struct cuda_products *s;
    EBB_TRY(ebb_new(&s, 1, sizeof *s, err));
    ebb_strmap_init(&s->places);
    s->stream = stream;
    s->profile = profile;
    if (has_device) {
        const struct ebb_library_call calls[] = {
#define X(name) {"cublasLt" #name, &s->name},
            CUDA_PRODUCT_CALLS(X)
#undef X
        };
        enum ebb_status status = cuda_library_load("libcublasLt.so.13", "matrix products", calls,
                                                   sizeof calls / sizeof *calls, err);
        EBB_THEN(status, check(s->Create(&s->handle), "products", err));
        if (status != EBB_OK) {
            cuda_products_close(s);
            return status;
        }
    }
    *products = s;
    return EBB_OK;
}

size_t cuda_product_workspace(const struct cuda_product *p)
{
    double work = (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
    return work < (double)SMALL ? 0 : WORKSPACE;
}

static enum ebb_status layout(struct cuda_products *s, cublasLtMatrixLayout_t *to, int dtype,
                              int64_t rows, int64_t columns, int64_t ld, int64_t batch,
                              int64_t step, struct ebb_error *err)
{
    int32_t count = (int32_t)batch;
    EBB_TRY(check(s->MatrixLayoutCreate(to, type_of(dtype), (uint64_t)rows, (uint64_t)columns, ld),
                  "layout", err));
    if (batch == 1)
        return EBB_OK;
    EBB_TRY(check(
        s->MatrixLayoutSetAttribute(*to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "batch", err));
    return check(s->MatrixLayoutSetAttribute(*to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &step, sizeof step),
                 "batch", err);
}

static enum ebb_status describe(struct cuda_products *s, struct cuda_answer *a,
                                struct ebb_error *err)
{
    const struct cuda_product *p = &a->p;
    cublasOperation_t turn = CUBLAS_OP_T;
    cublasLtEpilogue_t end =
        p->has_bias   ? p->has_relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
        : p->has_relu ? CUBLASLT_EPILOGUE_RELU
                      : CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType bias = type_of(p->out_dtype);
    EBB_TRY(check(s->MatmulDescCreate(&a->op, CUBLAS_COMPUTE_32F, CUDA_R_32F), "product", err));
    if (p->is_b_turned)
        EBB_TRY(
            check(s->MatmulDescSetAttribute(a->op, CUBLASLT_MATMUL_DESC_TRANSA, &turn, sizeof turn),
                  "product", err));
    if (p->is_a_turned)
        EBB_TRY(
            check(s->MatmulDescSetAttribute(a->op, CUBLASLT_MATMUL_DESC_TRANSB, &turn, sizeof turn),
                  "product", err));
    if (end != CUBLASLT_EPILOGUE_DEFAULT)
        EBB_TRY(
            check(s->MatmulDescSetAttribute(a->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end),
                  "product", err));
    if (p->has_bias)
        EBB_TRY(check(s->MatmulDescSetAttribute(a->op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias,
                                                sizeof bias),
                      "product", err));
    EBB_TRY(layout(s, &a->a, p->dtype, p->is_b_turned ? p->k : p->n, p->is_b_turned ? p->n : p->k,
                   p->b_ld, p->batch, p->b_step, err));
    EBB_TRY(layout(s, &a->b, p->dtype, p->is_a_turned ? p->m : p->k, p->is_a_turned ? p->k : p->m,
                   p->a_ld, p->batch, p->a_step, err));
    return layout(s, &a->c, p->out_dtype, p->n, p->m, p->c_ld, p->batch, p->c_step, err);
}

enum ebb_status cuda_product_candidates(struct cuda_products *s, struct cuda_answer *a,
                                        cublasLtMatmulAlgo_t to[CUDA_PRODUCT_ANSWERS], int *count,
                                        struct ebb_error *err)
{
    static const cublasLtMatmulPreferenceAttributes_t sides[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    uint64_t room = cuda_product_workspace(&a->p);
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = (uint32_t)a->p.alignment;
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found[CUDA_PRODUCT_ANSWERS];
    int answers = 0;
    EBB_TRY(check(s->MatmulPreferenceCreate(&wish), "preference", err));
    cublasStatus_t status = s->MatmulPreferenceSetAttribute(
        wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = s->MatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                 &schemes, sizeof schemes);
    for (size_t i = 0; i < sizeof sides / sizeof *sides && status == CUBLAS_STATUS_SUCCESS; i++)
        status = s->MatmulPreferenceSetAttribute(wish, sides[i], &alignment, sizeof alignment);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = s->MatmulAlgoGetHeuristic(s->handle, a->op, a->a, a->b, a->c, a->c, wish,
                                           CUDA_PRODUCT_ANSWERS, found, &answers);
    (void)s->MatmulPreferenceDestroy(wish);
    *count = 0;
    for (int i = 0; i < answers && status == CUBLAS_STATUS_SUCCESS; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            to[(*count)++] = found[i].algo;
    if (*count)
        return EBB_OK;
    return ebb_fail(err, EBB_EUNSUPPORTED,
                    "cuda: cuBLASLt has no answer (%d) for a product of %lld x %lld x %lld",
                    (int)status, (long long)a->p.m, (long long)a->p.n, (long long)a->p.k);
}

/* ---- rows of a profile ---------------------------------------------------------------------------- */

static const char *name_of(int dtype)
{
    return dtype == KERNEL_BF16 ? "bf16" : dtype == KERNEL_F16 ? "f16" : "f32";
}

void cuda_product_key(const struct cuda_product *p, char key[CUDA_PRODUCT_KEY])
{
    snprintf(key, CUDA_PRODUCT_KEY,
             "%s>%s:%" PRId64 "x%" PRId64 "x%" PRId64 "*%" PRId64 ":%s%" PRId64 ",%s%" PRId64
             ",%" PRId64 ":%" PRId64 ",%" PRId64 ",%" PRId64 ":%d%s%s%s:%.9g",
             name_of(p->dtype), name_of(p->out_dtype), p->m, p->n, p->k, p->batch,
             p->is_a_turned ? "t" : "", p->a_ld, p->is_b_turned ? "t" : "", p->b_ld, p->c_ld,
             p->a_step, p->b_step, p->c_step, p->alignment, p->has_bias ? "+bias" : "",
             p->has_relu ? "+relu" : "",
             p->adds == KERNEL_ADDS_OTHER ? "+r"
             : p->adds                    ? "+c"
                                          : "",
             (double)p->alpha);
}

void cuda_product_spell(uint64_t version, const cublasLtMatmulAlgo_t *algorithm,
                        char text[CUDA_PRODUCT_KEY])
{
    uint64_t words[CUDA_PRODUCT_WORDS];
    int last = CUDA_PRODUCT_WORDS, at;
    memcpy(words, algorithm, sizeof words);
    while (last > 0 && !words[last - 1])
        last--;
    at = snprintf(text, CUDA_PRODUCT_KEY, "%" PRIu64, version);
    for (int i = 0; i < last; i++)
        at += snprintf(text + at, CUDA_PRODUCT_KEY - (size_t)at, ":%" PRIx64, words[i]);
}

/* What a row says of a product; false: nothing. */
static bool read_row(const struct cuda_products *s, const struct cuda_product *p, uint64_t *version,
                     cublasLtMatmulAlgo_t *algorithm)
{
    char key[CUDA_PRODUCT_KEY], *at;
    uint64_t words[CUDA_PRODUCT_WORDS] = {0};
    cuda_product_key(p, key);
    const struct profile_row *row = profile_find(s->profile, CUDA_PRODUCT_ROWS, key);
    if (!row)
        return false;
    *version = strtoull(row->algorithm, &at, 10);
    for (int i = 0; i < CUDA_PRODUCT_WORDS && *at == ':'; i++)
        words[i] = strtoull(at + 1, &at, 16);
    memcpy(algorithm, words, sizeof words);
    return !*at;
}

/* The row's algorithm, if it is of this version of the library and fits. */
static bool take_row(struct cuda_products *s, struct cuda_answer *a)
{
    uint64_t version;
    cublasLtMatmulAlgo_t algorithm;
    cublasLtMatmulHeuristicResult_t result;
    if (!read_row(s, &a->p, &version, &algorithm) || version != s->GetVersion() ||
        s->MatmulAlgoCheck(s->handle, a->op, a->a, a->b, a->c, a->c, &algorithm, &result) !=
            CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > cuda_product_workspace(&a->p))
        return false;
    a->algorithm = algorithm;
    return true;
}

static enum ebb_status choose(struct cuda_products *s, struct cuda_answer *a, struct ebb_error *err)
{
    cublasLtMatmulAlgo_t found[CUDA_PRODUCT_ANSWERS];
    int count;
    if (take_row(s, a))
        return EBB_OK;
    EBB_TRY(cuda_product_candidates(s, a, found, &count, err));
    a->algorithm = found[0];
    return EBB_OK;
}

static enum ebb_status find(struct cuda_products *s, const struct cuda_product *p,
                            struct cuda_answer **answer, struct ebb_error *err)
{
    uint64_t place;
    if (ebb_strmap_get(&s->places, (const char *)p, sizeof *p, &place)) {
        *answer = s->answers[place];
        return EBB_OK;
    }
    struct cuda_answer *a;
    EBB_TRY(ebb_grow(&s->answers, &s->capacity, s->count + 1, sizeof *s->answers, err));
    EBB_TRY(ebb_new(&a, 1, sizeof *a, err));
    a->p = *p;
    enum ebb_status status = describe(s, a, err);
    EBB_THEN(status, choose(s, a, err));
    EBB_THEN(status, ebb_strmap_put(&s->places, (const char *)p, sizeof *p, s->count, err));
    if (status != EBB_OK) {
        forget(s, a);
        return status;
    }
    *answer = s->answers[s->count++] = a;
    return EBB_OK;
}

static uint64_t hash_of(uint64_t version, const cublasLtMatmulAlgo_t *algorithm)
{
    const unsigned char *p = (const unsigned char *)algorithm;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < sizeof *algorithm; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash ^ version;
}

/* Without a device the row of the profile answers, as it would with the library it was measured with. */
enum ebb_status cuda_product_need(struct cuda_products *s, const struct cuda_product *p,
                                  uint64_t *hash, struct ebb_error *err)
{
    struct cuda_answer *a;
    cublasLtMatmulAlgo_t algorithm;
    uint64_t version = 0;
    if (!s->handle) {
        bool is_known = read_row(s, p, &version, &algorithm);
        if (hash)
            *hash = is_known ? hash_of(version, &algorithm) : 0;
        return EBB_OK;
    }
    EBB_TRY(find(s, p, &a, err));
    if (hash)
        *hash = hash_of(s->GetVersion(), &a->algorithm);
    return EBB_OK;
}

uint64_t cuda_products_version(const struct cuda_products *s)
{
    return s->handle ? s->GetVersion() : 0;
}

enum ebb_status cuda_product_run(struct cuda_products *s, const struct cuda_product *p,
                                 const void *a, const void *b, const void *bias, const void *other,
                                 void *c, void *workspace, struct ebb_error *err)
{
    struct cuda_answer *found;
    const void *added = p->adds == KERNEL_ADDS_OTHER ? other : c;
    float beta = p->adds ? 1.0f : 0.0f;
    EBB_TRY(find(s, p, &found, err));
    if (p->has_bias)
        EBB_TRY(check(s->MatmulDescSetAttribute(found->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                                sizeof bias),
                      "bias", err));
    return check(s->Matmul(s->handle, found->op, &p->alpha, b, found->a, a, found->b, &beta, added,
                           found->c, c, found->c, &found->algorithm, workspace,
                           cuda_product_workspace(p), s->stream),
                 "product", err);
}
