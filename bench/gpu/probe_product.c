/* probe_product.c - products of one GPT-2 124M step and of ResNet-50's 1x1 convolutions through cuBLASLt.
 *
 *   probe_product measure FILE    times up to 16 answers of the library, writes the best algorithm of each as text
 *   probe_product replay FILE     another process: same algorithms from FILE, same bits?
 *
 * bf16 operands, float accumulation, 32 MiB workspace. Every chosen algorithm runs 20 times at two offsets with a copy
 * running beside; equal bits or it says so. */
#include "reference.h"
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <stdbool.h>
#include <stdio.h>

#define WORKSPACE ((size_t)32 << 20)

/* column-major as the library wants it: C[m, n] = op(A) op(B), op T where the flag is set */
struct product {
    const char *name;
    int64_t m, n, k;
    bool is_a_turned, is_b_turned, is_float_out, has_bias, has_residual, is_adding;
};

#define TOKENS 32768
#define FORWARD(name, in, out, residual)                                                           \
    {                                                                                              \
        name, out, TOKENS, in, true, false, false, true, residual, false                           \
    }
#define DATA(name, in, out)                                                                        \
    {                                                                                              \
        name, in, TOKENS, out, false, false, false, false, false, false                            \
    }
#define WEIGHT(name, in, out)                                                                      \
    {                                                                                              \
        name, in, out, TOKENS, false, true, true, false, false, false                              \
    }
#define CONV(name, in, out, pixels)                                                                \
    {name " forward", out, 256 * pixels, in, true, false, false, false, false, false},             \
        {name " data", in, 256 * pixels, out, false, false, false, false, false, false},           \
    {                                                                                              \
        name " weight", in, out, 256 * pixels, false, true, true, false, false, false              \
    }

static const struct product products[] = {
    FORWARD("qkv forward", 768, 2304, false),
    FORWARD("projection forward + residual", 768, 768, true),
    FORWARD("fc forward", 768, 3072, false),
    FORWARD("fc projection forward + residual", 3072, 768, true),
    DATA("qkv data", 768, 2304),
    DATA("projection data", 768, 768),
    DATA("fc data", 768, 3072),
    DATA("fc projection data", 3072, 768),
    WEIGHT("qkv weight", 768, 2304),
    WEIGHT("projection weight", 768, 768),
    WEIGHT("fc weight", 768, 3072),
    WEIGHT("fc projection weight", 3072, 768),
    {"head forward 4096", 50304, 4096, 768, true, false, false, false, false, false},
    {"head data 4096", 768, 4096, 50304, false, false, false, false, false, false},
    {"head weight 4096 +=", 768, 50304, 4096, false, true, true, false, false, true},
    {"head forward 2048", 50304, 2048, 768, true, false, false, false, false, false},
    {"head data 2048", 768, 2048, 50304, false, false, false, false, false, false},
    {"head weight 2048 +=", 768, 50304, 2048, false, true, true, false, false, true},
    {"head forward 8192", 50304, 8192, 768, true, false, false, false, false, false},
    {"head data 8192", 768, 8192, 50304, false, false, false, false, false, false},
    {"head weight 8192 +=", 768, 50304, 8192, false, true, true, false, false, true},
    CONV("conv 64-64 @56", 64, 64, 3136),
    CONV("conv 256-64 @56", 256, 64, 3136),
    CONV("conv 64-256 @56", 64, 256, 3136),
    CONV("conv 256-128 @56", 256, 128, 3136),
    CONV("conv 128-512 @28", 128, 512, 784),
    CONV("conv 512-128 @28", 512, 128, 784),
    CONV("conv 512-256 @28", 512, 256, 784),
    CONV("conv 256-1024 @14", 256, 1024, 196),
    CONV("conv 1024-256 @14", 1024, 256, 196),
    CONV("conv 1024-512 @14", 1024, 512, 196),
    CONV("conv 512-2048 @7", 512, 2048, 49),
    CONV("conv 2048-512 @7", 2048, 512, 49),
};

struct device {
    cublasLtHandle_t lt;
    char *a, *b, *c, *d, *bias, *workspace, *beside;
    char *pinned;
    cudaStream_t stream, copy;
};

struct setup {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
    float alpha, beta;
};

#define MUST(call)                                                                                 \
    do {                                                                                           \
        int e_ = (int)(call);                                                                      \
        if (e_) {                                                                                  \
            printf("%s: %d\n", #call, e_);                                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void prepare(const struct product *p, const struct device *d, struct setup *s)
{
    cublasOperation_t turn = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    cudaDataType_t out = p->is_float_out ? CUDA_R_32F : CUDA_R_16BF;
    MUST(cublasLtMatmulDescCreate(&s->op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    MUST(cublasLtMatmulDescSetAttribute(s->op, CUBLASLT_MATMUL_DESC_TRANSA,
                                        p->is_a_turned ? &turn : &plain, sizeof turn));
    MUST(cublasLtMatmulDescSetAttribute(s->op, CUBLASLT_MATMUL_DESC_TRANSB,
                                        p->is_b_turned ? &turn : &plain, sizeof turn));
    if (p->has_bias) {
        cublasLtEpilogue_t e = CUBLASLT_EPILOGUE_BIAS;
        cudaDataType_t type = CUDA_R_16BF;
        MUST(cublasLtMatmulDescSetAttribute(s->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e));
        MUST(cublasLtMatmulDescSetAttribute(s->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &d->bias,
                                            sizeof d->bias));
        MUST(cublasLtMatmulDescSetAttribute(s->op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                                            sizeof type));
    }
    int64_t ar = p->is_a_turned ? p->k : p->m, ac = p->is_a_turned ? p->m : p->k;
    int64_t br = p->is_b_turned ? p->n : p->k, bc = p->is_b_turned ? p->k : p->n;
    MUST(cublasLtMatrixLayoutCreate(&s->a, CUDA_R_16BF, (uint64_t)ar, (uint64_t)ac, ar));
    MUST(cublasLtMatrixLayoutCreate(&s->b, CUDA_R_16BF, (uint64_t)br, (uint64_t)bc, br));
    MUST(cublasLtMatrixLayoutCreate(&s->c, out, (uint64_t)p->m, (uint64_t)p->n, p->m));
    s->alpha = 1;
    s->beta = p->has_residual || p->is_adding ? 1 : 0;
}

static int run(const struct product *p, const struct device *d, const struct setup *s,
               size_t offset, const cublasLtMatmulAlgo_t *algo)
{
    const char *c = p->has_residual ? d->c : d->d; /* residual: another C */
    return (int)cublasLtMatmul(d->lt, s->op, &s->alpha, d->a + offset, s->a, d->b + offset, s->b,
                               &s->beta, p->has_residual ? c : d->d + offset, s->c, d->d + offset,
                               s->c, algo, d->workspace, WORKSPACE, d->stream);
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median_ms(const struct product *p, const struct device *d, const struct setup *s,
                       const cublasLtMatmulAlgo_t *algo, int runs)
{
    float ms[64];
    cudaEvent_t a, b;
    cudaEventCreate(&a), cudaEventCreate(&b);
    for (int i = -2; i < runs; i++) {
        cudaEventRecord(a, d->stream);
        if (run(p, d, s, 0, algo))
            return -1;
        cudaEventRecord(b, d->stream);
        if (cudaEventSynchronize(b))
            return -1;
        if (i >= 0)
            cudaEventElapsedTime(&ms[i], a, b);
    }
    cudaEventDestroy(a), cudaEventDestroy(b);
    qsort(ms, (size_t)runs, sizeof *ms, compare);
    return ms[runs / 2];
}

static uint64_t output_hash(const struct product *p, const struct device *d, size_t offset)
{
    size_t bytes = (size_t)(p->m * p->n) * (p->is_float_out ? 4 : 2);
    static uint64_t *host;
    static size_t room;
    if (bytes > room) {
        free(host);
        host = malloc(room = bytes);
    }
    cudaMemcpy(host, d->d + offset, bytes, cudaMemcpyDeviceToHost);
    uint64_t h[4] = {1, 2, 3, 4};
    for (size_t i = 0; i + 4 <= bytes / 8; i += 4)
        for (int j = 0; j < 4; j++)
            h[j] = (h[j] ^ host[i + (size_t)j]) * 1099511628211u;
    return h[0] ^ h[1] * 3 ^ h[2] * 5 ^ h[3] * 7;
}

/* 20 runs, two offsets, a copy beside; *hash of the first. */
static bool is_repeatable(const struct product *p, const struct device *d, const struct setup *s,
                          const cublasLtMatmulAlgo_t *algo, uint64_t *hash)
{
    static const size_t offsets[2] = {0, (size_t)7 << 20};
    bool is_same = true;
    for (int o = 0; o < 2; o++) {
        /* the same operands at the other offset */
        if (o) {
            size_t a = (size_t)(p->m * p->k) * 2, b = (size_t)(p->n * p->k) * 2;
            char *stage = d->beside;
            cudaMemcpy(stage, d->a, a, cudaMemcpyDeviceToDevice);
            cudaMemcpy(d->a + offsets[1], stage, a, cudaMemcpyDeviceToDevice);
            cudaMemcpy(stage, d->b, b, cudaMemcpyDeviceToDevice);
            cudaMemcpy(d->b + offsets[1], stage, b, cudaMemcpyDeviceToDevice);
            cudaDeviceSynchronize(); /* copies within the device do not wait, and our streams do not wait for them */
        }
        for (int i = 0; i < 10; i++) {
            cudaMemcpyAsync(d->beside, d->pinned, (size_t)64 << 20, cudaMemcpyHostToDevice,
                            d->copy);
            if (p->is_adding)
                cudaMemsetAsync(d->d + offsets[o], 0, (size_t)(p->m * p->n) * 4, d->stream);
            run(p, d, s, offsets[o], algo);
            if (i == 0 || i == 9) {
                cudaDeviceSynchronize();
                uint64_t h = output_hash(p, d, offsets[o]);
                if (!o && !i)
                    *hash = h;
                is_same = is_same && h == *hash;
            }
        }
        cudaDeviceSynchronize();
    }
    return is_same;
}

/* The same 64 MiB of noise over and over, shifted between the buffers. */
static void fill(const struct device *d, size_t bytes)
{
    size_t block = (size_t)64 << 20;
    uint16_t *host = malloc(block);
    ref_fill(host, block / 2, 0.5f, 5);
    for (size_t at = 0; at + block <= bytes; at += block) {
        cudaMemcpy(d->a + at, host, block, cudaMemcpyHostToDevice);
        cudaMemcpy(d->b + at + 0, (char *)host + 4096, block - 4096, cudaMemcpyHostToDevice);
        cudaMemcpy(d->b + at + block - 4096, host, 4096, cudaMemcpyHostToDevice);
        cudaMemcpy(d->c + at, host, block, cudaMemcpyHostToDevice);
    }
    cudaMemcpy(d->bias, host, 1 << 20, cudaMemcpyHostToDevice);
    free(host);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    bool is_measure = !strcmp(argv[1], "measure");
    struct device d = {0};
    size_t bytes = (size_t)1 << 30;
    MUST(cublasLtCreate(&d.lt));
    MUST(cudaMalloc((void **)&d.a, bytes));
    MUST(cudaMalloc((void **)&d.b, bytes));
    MUST(cudaMalloc((void **)&d.c, bytes));
    MUST(cudaMalloc((void **)&d.d, bytes));
    MUST(cudaMalloc((void **)&d.beside, bytes));
    MUST(cudaMalloc((void **)&d.bias, 1 << 20));
    MUST(cudaMalloc((void **)&d.workspace, WORKSPACE));
    MUST(cudaHostAlloc((void **)&d.pinned, (size_t)64 << 20, 0));
    MUST(cudaStreamCreateWithFlags(&d.stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&d.copy, cudaStreamNonBlocking));
    FILE *file = fopen(argv[2], is_measure ? "w" : "r");
    if (!file)
        return 1;
    double layer_first = 0, layer_best = 0;
    int equal = 0, count = (int)(sizeof products / sizeof *products);
    fill(&d, bytes);
    printf("cublasLt %zu: product, first ms, best of n ms, TFLOP/s, workspace, split, bits\n",
           cublasLtGetVersion());
    for (int i = 0; i < count; i++) {
        const struct product *p = &products[i];
        struct setup s;
        prepare(p, &d, &s);
        double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
        uint64_t hash = 0;
        if (is_measure) {
            cublasLtMatmulPreference_t preference;
            size_t workspace = WORKSPACE;
            uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
            cublasLtMatmulPreferenceCreate(&preference);
            cublasLtMatmulPreferenceSetAttribute(
                preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
            cublasLtMatmulPreferenceSetAttribute(
                preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
            cublasLtMatmulHeuristicResult_t results[16];
            int found = 0;
            MUST(cublasLtMatmulAlgoGetHeuristic(d.lt, s.op, s.a, s.b, s.c, s.c, preference, 16,
                                                results, &found));
            float first = -1, best = -1;
            int winner = 0;
            for (int r = 0; r < found; r++) {
                float ms = median_ms(p, &d, &s, &results[r].algo, 11);
                first = r ? first : ms;
                if (ms > 0 && (best < 0 || ms < best))
                    best = ms, winner = r;
            }
            first = median_ms(p, &d, &s, &results[0].algo, 31);
            best = median_ms(p, &d, &s, &results[winner].algo, 31);
            int32_t split = 0;
            size_t n;
            cublasLtMatmulAlgoConfigGetAttribute(
                &results[winner].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split, sizeof split, &n);
            bool is_same = is_repeatable(p, &d, &s, &results[winner].algo, &hash);
            printf("%-34s %.4f  %.4f (#%d of %d)  %.0f (%.0f)  ws %.1f MiB split %d %s\n", p->name,
                   (double)first, (double)best, winner, found, flops / (double)best * 1e-9,
                   flops / (double)first * 1e-9, (double)results[winner].workspaceSize / 1048576,
                   split, is_same ? "same" : "DIFFERS");
            if (i < 12)
                layer_first += (double)first, layer_best += (double)best;
            const unsigned char *raw = (const unsigned char *)&results[winner].algo;
            fprintf(file, "%d %016llx ", i, (unsigned long long)hash);
            for (size_t b = 0; b < sizeof results[winner].algo; b++)
                fprintf(file, "%02x", raw[b]);
            fprintf(file, "\n");
        } else {
            int index;
            unsigned long long stored;
            char text[256];
            if (fscanf(file, "%d %llx %255s", &index, &stored, text) != 3)
                break;
            cublasLtMatmulAlgo_t algo;
            for (size_t b = 0; b < sizeof algo; b++) {
                unsigned byte;
                sscanf(text + 2 * b, "%2x", &byte);
                ((unsigned char *)&algo)[b] = (unsigned char)byte;
            }
            cublasLtMatmulHeuristicResult_t check;
            int status =
                (int)cublasLtMatmulAlgoCheck(d.lt, s.op, s.a, s.b, s.c, s.c, &algo, &check);
            bool is_same = is_repeatable(p, &d, &s, &algo, &hash);
            equal += status == 0 && is_same && hash == stored;
            if (status || !is_same || hash != stored)
                printf("%-34s check %d, repeatable %d, hash %s\n", p->name, status, is_same,
                       hash == stored ? "equal" : "DIFFERS");
        }
        fflush(stdout);
    }
    if (is_measure)
        printf("SUM of twelve layer products: first %.3f best %.3f ms; twelve layers %.2f / %.2f\n",
               layer_first, layer_best, 12 * layer_first, 12 * layer_best);
    else
        printf("REPLAY in a second process: %d of %d products have the same bits\n", equal, count);
    fclose(file);
    return 0;
}
