/* step.cu - one training step of GPT-2 124M (32 x 1,024 tokens) put together by hand from src/cuda and cuBLASLt, as one CUDA
 * graph: what the kernels give when they follow each other on a warm device. A bound for the program, and a proof that the
 * kernels train: the loss of a repeated batch must fall.
 *
 *   step [UPDATES] [first] [eager]    first: the library's first answers instead of the fastest; eager: no graph
 *
 * bf16 activations, residual stream and weights, F32 statistics and weight gradients, split master weights, AdamW, vocabulary
 * 50,304, no dropout, no clipping, everything kept (nothing is computed twice). */
#include "cuda/cuda.h"
#include "reference.h"
#include <algorithm>
#include <cstdio>
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        int e_ = (int)(call);                                                                      \
        if (e_) {                                                                                  \
            printf("%s:%d %s: %d %s\n", __FILE__, __LINE__, #call, e_,                             \
                   cudaGetErrorString((cudaError_t)e_));                                           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { B = 32, T = 1024, M = B * T, C = 768, H = 12, LAYERS = 12, V = 50304, BLOCK = 4096 };
#define WORKSPACE ((size_t)32 << 20)

typedef uint16_t half_bits;

static cudaStream_t stream;
static cublasLtHandle_t lt;
static char *lt_workspace;
static bool is_first_answer;

template <class T> static T *take(size_t n)
{
    T *p;
    MUST(cudaMalloc(&p, n * sizeof(T) + 256));
    MUST(cudaMemset(p, 0, n * sizeof(T) + 256));
    return p;
}

/* ---- products ------------------------------------------------------------------------------- */

struct product {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
};

/* column-major: D[m, n] = op(A) op(B) (+ bias) (+ C) */
static std::map<std::tuple<int, int, int, int, int, int, int>, product> products;

enum { FORWARD, DATA, WEIGHT }; /* op T,N  N,N  N,T */

static void multiply(int kind, int m, int n, int k, const void *a, const void *b,
                     const half_bits *bias, const void *c, void *d, float beta)
{
    auto key = std::make_tuple(kind, m, n, k, bias != NULL, beta != 0, c != d);
    float alpha = 1;
    bool is_new = !products.count(key);
    product &p = products[key];
    if (is_new) {
        cublasOperation_t turn = CUBLAS_OP_T;
        cudaDataType_t out = kind == WEIGHT ? CUDA_R_32F : CUDA_R_16BF;
        MUST(cublasLtMatmulDescCreate(&p.op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        if (kind == FORWARD)
            MUST(cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_TRANSA, &turn,
                                                sizeof turn));
        if (kind == WEIGHT)
            MUST(cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_TRANSB, &turn,
                                                sizeof turn));
        if (bias) {
            cublasLtEpilogue_t e = CUBLASLT_EPILOGUE_BIAS;
            MUST(cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e));
        }
        int ar = kind == FORWARD ? k : m, ac = kind == FORWARD ? m : k, br = kind == WEIGHT ? n : k,
            bc = kind == WEIGHT ? k : n;
        MUST(cublasLtMatrixLayoutCreate(&p.a, CUDA_R_16BF, (uint64_t)ar, (uint64_t)ac, ar));
        MUST(cublasLtMatrixLayoutCreate(&p.b, CUDA_R_16BF, (uint64_t)br, (uint64_t)bc, br));
        MUST(cublasLtMatrixLayoutCreate(&p.c, out, (uint64_t)m, (uint64_t)n, m));
    }
    if (bias)
        MUST(cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                            sizeof bias));
    if (is_new) { /* the fastest of the library's answers, on the first operands seen */
        cublasLtMatmulPreference_t preference;
        size_t workspace = WORKSPACE;
        uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
        cublasLtMatmulHeuristicResult_t results[16];
        int found = 0;
        MUST(cublasLtMatmulPreferenceCreate(&preference));
        MUST(cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
        MUST(cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes));
        MUST(cublasLtMatmulAlgoGetHeuristic(lt, p.op, p.a, p.b, p.c, p.c, preference, 16, results,
                                            &found));
        float best = 1e30f;
        cudaEvent_t x, y;
        MUST(cudaEventCreate(&x));
        MUST(cudaEventCreate(&y));
        for (int i = 0; i < (is_first_answer ? 1 : found); i++) {
            float ms = 0;
            for (int r = 0; r < 12; r++) {
                if (r == 2)
                    MUST(cudaEventRecord(x, stream));
                MUST(cublasLtMatmul(lt, p.op, &alpha, a, p.a, b, p.b, &beta, c, p.c, d, p.c,
                                    &results[i].algo, lt_workspace, WORKSPACE, stream));
            }
            MUST(cudaEventRecord(y, stream));
            MUST(cudaEventSynchronize(y));
            MUST(cudaEventElapsedTime(&ms, x, y));
            if (ms < best)
                best = ms, p.algo = results[i].algo;
        }
    }
    MUST(cublasLtMatmul(lt, p.op, &alpha, a, p.a, b, p.b, &beta, c, p.c, d, p.c, &p.algo,
                        lt_workspace, WORKSPACE, stream));
}

/* y [rows, out] = x [rows, in] w [out, in]' + bias (+ residual) */
static void linear(int rows, int in, int out, const half_bits *x, const half_bits *w,
                   const half_bits *bias, const half_bits *residual, half_bits *y)
{
    multiply(FORWARD, out, rows, in, w, x, bias, residual ? residual : y, y,
             residual ? 1.0f : 0.0f);
}

static void linear_data(int rows, int in, int out, const half_bits *dy, const half_bits *w,
                        half_bits *dx)
{
    multiply(DATA, in, rows, out, w, dy, NULL, dx, dx, 0);
}

static void linear_weight(int rows, int in, int out, const half_bits *dy, const half_bits *x,
                          float *dw, bool is_adding)
{
    multiply(WEIGHT, in, out, rows, x, dy, NULL, dw, dw, is_adding ? 1.0f : 0.0f);
}

/* ---- parameters ----------------------------------------------------------------------------- */

struct parameter {
    size_t at, count;
};

static size_t total;
static std::vector<parameter> tensors;

static parameter parameter_new(size_t count)
{
    parameter p = {total, count};
    total += (count + 127) / 128 * 128;
    tensors.push_back(p);
    return p;
}

struct layer {
    parameter wqkv, wo, wfc, wp, bqkv, bo, bfc, bp, g1, b1, g2, b2;
    half_bits *y1, *qkv, *o, *x2, *y2, *fc, *act, *out;
    float *stats, *m1, *r1, *m2, *r2;
};

static layer layers[LAYERS];
static parameter wte, wpe, gf, bf;
static half_bits *high, *rest_bits;
static float *gradient, *moment, *square, *norms,
    *scalars; /* norms: F32 copies of the layer norms' weights */
static size_t norm_first, norm_count;
static half_bits *x0, *yf, *dyf, *logits, *dx[2], *dwide, *dwide2, *dqkv, *dsmall;
static float *mf, *rf, *loss;
static double *loss_sum;
static int64_t *tokens, *targets;
static char *workspace;

static float *norm_of(parameter p)
{
    return norms + (p.at - norm_first);
}

static void setup(void)
{
    std::vector<std::pair<parameter, float>> scales;
    auto weight = [&](size_t count, float scale) {
        parameter p = parameter_new(count);
        scales.push_back({p, scale});
        return p;
    };
    wte = weight((size_t)V * C, 0.02f);
    wpe = weight((size_t)T * C, 0.01f);
    for (layer &l : layers) {
        l.wqkv = weight((size_t)3 * C * C, 0.02f);
        l.wo = weight((size_t)C * C, 0.02f / sqrtf(2.0f * LAYERS));
        l.wfc = weight((size_t)4 * C * C, 0.02f);
        l.wp = weight((size_t)4 * C * C, 0.02f / sqrtf(2.0f * LAYERS));
        l.bqkv = parameter_new(3 * C), l.bo = parameter_new(C), l.bfc = parameter_new(4 * C),
        l.bp = parameter_new(C);
    }
    norm_first = total;
    for (layer &l : layers)
        l.g1 = parameter_new(C), l.b1 = parameter_new(C), l.g2 = parameter_new(C),
        l.b2 = parameter_new(C);
    gf = parameter_new(C), bf = parameter_new(C);
    norm_count = total - norm_first;
    std::vector<half_bits> host(total, 0);
    uint64_t seed = 7;
    for (auto &s : scales)
        for (size_t i = 0; i < s.first.count; i++)
            host[s.first.at + i] = ref_bf16(s.second * ref_noise(&seed));
    auto ones = [&](parameter p) {
        std::fill_n(host.begin() + (long)p.at, p.count, (half_bits)0x3f80);
    };
    for (layer &l : layers)
        ones(l.g1), ones(l.g2);
    ones(gf);
    high = take<half_bits>(total);
    MUST(cudaMemcpy(high, host.data(), total * 2, cudaMemcpyHostToDevice));
    rest_bits = take<half_bits>(total);
    gradient = take<float>(total), moment = take<float>(total), square = take<float>(total);
    norms = take<float>(norm_count);
    scalars = take<float>(12);
    size_t u = (size_t)M * C;
    for (layer &l : layers) {
        l.y1 = take<half_bits>(u), l.qkv = take<half_bits>(3 * u), l.o = take<half_bits>(u),
        l.x2 = take<half_bits>(u);
        l.y2 = take<half_bits>(u), l.fc = take<half_bits>(4 * u), l.act = take<half_bits>(4 * u),
        l.out = take<half_bits>(u);
        l.stats = take<float>((size_t)B * H * T);
        l.m1 = take<float>(M), l.r1 = take<float>(M), l.m2 = take<float>(M), l.r2 = take<float>(M);
    }
    x0 = take<half_bits>(u), yf = take<half_bits>(u), dyf = take<half_bits>(u),
    logits = take<half_bits>((size_t)BLOCK * V);
    dx[0] = take<half_bits>(u), dx[1] = take<half_bits>(u), dwide = take<half_bits>(4 * u),
    dwide2 = take<half_bits>(4 * u);
    dqkv = take<half_bits>(3 * u), dsmall = take<half_bits>(u);
    mf = take<float>(M), rf = take<float>(M), loss = take<float>(M), loss_sum = take<double>(1);
    tokens = take<int64_t>(M), targets = take<int64_t>(M);
    std::vector<int64_t> t(M + 1);
    for (auto &i : t) { /* skewed, as words are */
        ref_noise(&seed);
        i = (int64_t)(pow((double)(seed >> 11) / 9007199254740992.0, 3) * 50257);
    }
    MUST(cudaMemcpy(tokens, t.data(), M * 8, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(targets, t.data() + 1, M * 8, cudaMemcpyHostToDevice));
}

/* ---- the step --------------------------------------------------------------------------------- */

static struct cuda_norm norm_shape = {M, C, 1e-5f, CUDA_BF16};
static struct cuda_attention attention = {
    B, H, T, true, 0.125f, 3 * C, 64, (int64_t)T * 3 * C, C, 64, (int64_t)T *C};
static struct cuda_embed embed = {M, V, C, T, CUDA_BF16};
static struct cuda_entropy entropy = {BLOCK, V, V, -100, 1.0f / M, CUDA_BF16};

static void sums(int n, const half_bits *x, parameter p)
{
    MUST(cuda_column_sums(M, n, CUDA_BF16, x, gradient + p.at, workspace, stream));
}

static void forward(void)
{
    MUST(cuda_embed(&embed, tokens, high + wte.at, high + wpe.at, x0, NULL, stream));
    const half_bits *x = x0;
    for (layer &l : layers) {
        MUST(cuda_layer_norm(&norm_shape, x, NULL, norm_of(l.g1), norm_of(l.b1), NULL, l.y1, l.m1,
                             l.r1, stream));
        linear(M, C, 3 * C, l.y1, high + l.wqkv.at, high + l.bqkv.at, NULL, l.qkv);
        MUST(cuda_attention(&attention, l.qkv, l.qkv + C, l.qkv + 2 * C, l.o, l.stats, stream));
        linear(M, C, C, l.o, high + l.wo.at, high + l.bo.at, x, l.x2);
        MUST(cuda_layer_norm(&norm_shape, l.x2, NULL, norm_of(l.g2), norm_of(l.b2), NULL, l.y2,
                             l.m2, l.r2, stream));
        linear(M, C, 4 * C, l.y2, high + l.wfc.at, high + l.bfc.at, NULL, l.fc);
        MUST(cuda_unary(CUDA_GELU_TANH, (int64_t)4 * M * C, CUDA_BF16, l.fc, CUDA_BF16, l.act,
                        stream));
        linear(M, 4 * C, C, l.act, high + l.wp.at, high + l.bp.at, l.x2, l.out);
        x = l.out;
    }
    MUST(cuda_layer_norm(&norm_shape, x, NULL, norm_of(gf), norm_of(bf), NULL, yf, mf, rf, stream));
}

static void head(void)
{
    for (int at = 0; at < M; at += BLOCK) {
        const half_bits *y = yf + (size_t)at * C;
        multiply(FORWARD, V, BLOCK, C, high + wte.at, y, NULL, logits, logits, 0);
        MUST(cuda_entropy_grad(&entropy, logits, targets + at, loss + at, NULL, stream));
        linear_data(BLOCK, C, V, logits, high + wte.at, dyf + (size_t)at * C);
        linear_weight(BLOCK, C, V, logits, y, gradient + wte.at, at > 0);
    }
    MUST(cuda_sum(M, loss, loss_sum, stream));
}

static void backward(void)
{
    half_bits *d = dx[0], *other = dx[1];
    MUST(cuda_layer_norm_grad(&norm_shape, dyf, layers[LAYERS - 1].out, NULL, norm_of(gf), mf, rf,
                              d, gradient + gf.at, gradient + bf.at, workspace, stream));
    for (int i = LAYERS - 1; i >= 0; i--) {
        layer &l = layers[i];
        const half_bits *x = i ? layers[i - 1].out : x0;
        sums(C, d, l.bp);
        linear_weight(M, 4 * C, C, d, l.act, gradient + l.wp.at, false);
        linear_data(M, 4 * C, C, d, high + l.wp.at, dwide);
        MUST(cuda_unary_grad_sums(CUDA_GELU_TANH, M, 4 * C, CUDA_BF16, dwide, l.fc, dwide2,
                                  gradient + l.bfc.at, workspace, stream));
        linear_weight(M, C, 4 * C, dwide2, l.y2, gradient + l.wfc.at, false);
        linear_data(M, C, 4 * C, dwide2, high + l.wfc.at, dsmall);
        MUST(cuda_layer_norm_grad(&norm_shape, dsmall, l.x2, d, norm_of(l.g2), l.m2, l.r2, other,
                                  gradient + l.g2.at, gradient + l.b2.at, workspace, stream));
        sums(C, other, l.bo);
        linear_weight(M, C, C, other, l.o, gradient + l.wo.at, false);
        linear_data(M, C, C, other, high + l.wo.at, dsmall);
        MUST(cuda_attention_grad(&attention, l.qkv, l.qkv + C, l.qkv + 2 * C, l.o, dsmall, l.stats,
                                 dqkv, dqkv + C, dqkv + 2 * C, workspace, stream));
        sums(3 * C, dqkv, l.bqkv);
        linear_weight(M, C, 3 * C, dqkv, l.y1, gradient + l.wqkv.at, false);
        linear_data(M, C, 3 * C, dqkv, high + l.wqkv.at, dsmall);
        MUST(cuda_layer_norm_grad(&norm_shape, dsmall, x, other, norm_of(l.g1), l.m1, l.r1, d,
                                  gradient + l.g1.at, gradient + l.b1.at, workspace, stream));
    }
    MUST(cuda_embed_grad(&embed, tokens, d, gradient + wte.at, workspace, stream));
    MUST(cuda_embed_position_grad(&embed, d, gradient + wpe.at, stream));
}

static void update(void)
{
    std::vector<struct cuda_update> many;
    for (parameter p : tensors)
        many.push_back({(int64_t)p.count, gradient + p.at, high + p.at, rest_bits + p.at,
                        moment + p.at, square + p.at});
    MUST(cuda_adam_split_many((int)many.size(), many.data(), CUDA_F32, scalars, stream));
    MUST(cuda_unary(CUDA_COPY, (int64_t)norm_count, CUDA_BF16, high + norm_first, CUDA_F32, norms,
                    stream));
}

static cudaGraphExec_t capture(void (*part)(void))
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    part();
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void whole(void)
{
    forward();
    head();
    backward();
    update();
}

static double median_ms(cudaGraphExec_t exec, int runs)
{
    std::vector<float> ms((size_t)runs);
    cudaEvent_t a, b;
    MUST(cudaEventCreate(&a));
    MUST(cudaEventCreate(&b));
    for (auto &m : ms) {
        MUST(cudaEventRecord(a, stream));
        MUST(cudaGraphLaunch(exec, stream));
        MUST(cudaEventRecord(b, stream));
        MUST(cudaEventSynchronize(b));
        MUST(cudaEventElapsedTime(&m, a, b));
    }
    std::sort(ms.begin(), ms.end());
    return (double)ms[ms.size() / 2];
}

int main(int argc, char **argv)
{
    bool is_eager = false;
    for (int i = 2; i < argc; i++) {
        is_first_answer = is_first_answer || !strcmp(argv[i], "first");
        is_eager = is_eager || !strcmp(argv[i], "eager");
    }
    int updates = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 60;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cublasLtCreate(&lt));
    lt_workspace = take<char>(WORKSPACE);
    setup();
    size_t need = std::max(
        std::max(cuda_attention_grad_workspace(&attention), cuda_embed_grad_workspace(&embed)),
        std::max(cuda_layer_norm_grad_workspace(&norm_shape), cuda_columns_workspace(M, 4 * C)));
    workspace = take<char>(need);
    MUST(cuda_unary(CUDA_COPY, (int64_t)norm_count, CUDA_BF16, high + norm_first, CUDA_F32, norms,
                    stream));
    forward(); /* chooses algorithms; the update is left out */
    head();
    backward();
    MUST(cudaStreamSynchronize(stream));
    cudaGraphExec_t step = capture(whole);
    std::vector<float> times;
    cudaEvent_t a, b;
    MUST(cudaEventCreate(&a));
    MUST(cudaEventCreate(&b));
    double first = 0, last = 0;
    for (int i = 1; i <= updates; i++) {
        double c1 = 1 - pow(0.9, i), c2 = 1 - pow(0.95, i), rate = 3e-4 * std::min(1.0, i / 10.0);
        float k[12] = {(float)(rate / c1),      0, 0.9f, 0.1f, 0.95f, 0.05f, (float)sqrt(c2), 1e-8f,
                       (float)(1 - rate * 0.1), 0, 0,    1};
        MUST(cudaMemcpyAsync(scalars, k, sizeof k, cudaMemcpyHostToDevice, stream));
        MUST(cudaEventRecord(a, stream));
        if (is_eager)
            whole();
        else
            MUST(cudaGraphLaunch(step, stream));
        MUST(cudaEventRecord(b, stream));
        MUST(cudaEventSynchronize(b));
        float ms;
        MUST(cudaEventElapsedTime(&ms, a, b));
        times.push_back(ms);
        double sum;
        MUST(cudaMemcpy(&sum, loss_sum, 8, cudaMemcpyDeviceToHost));
        last = sum / M;
        first = i == 1 ? last : first;
        if (i <= 3 || i % 50 == 0)
            printf("update %d: loss %.4f, %.2f ms\n", i, last, (double)ms);
    }
    std::vector<float> late(times.begin() + (long)times.size() / 2, times.end());
    std::sort(late.begin(), late.end());
    size_t free_bytes, all_bytes;
    MUST(cudaMemGetInfo(&free_bytes, &all_bytes));
    printf("STEP GPT-2 124M 32 x 1024: median %.2f ms, best %.2f ms, loss %.3f to %.3f, %.1f GiB "
           "used\n",
           (double)late[late.size() / 2], (double)*std::min_element(times.begin(), times.end()),
           first, last, (double)(all_bytes - free_bytes) / (1 << 30));
    std::vector<half_bits> weights(2 * total);
    MUST(cudaMemcpy(weights.data(), high, total * 2, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(weights.data() + total, rest_bits, total * 2, cudaMemcpyDeviceToHost));
    uint64_t hash = 1469598103934665603u;
    for (half_bits w : weights)
        hash = (hash ^ w) * 1099511628211u;
    printf("WEIGHTS after %d updates: %016llx%s%s\n", updates, (unsigned long long)hash,
           is_first_answer ? ", first answers" : "", is_eager ? ", eager" : "");
    printf("PARTS forward %.2f, head %.2f, backward %.2f, update %.2f ms\n",
           median_ms(capture(forward), 15), median_ms(capture(head), 15),
           median_ms(capture(backward), 15), median_ms(capture(update), 15));
    return !(last < first);
}
