/* probe_attention.c - attention through cuDNN's graph interface in plain C.
 *
 *   probe_attention LIBRARY [REPEATS]
 *
 * Batch 32, 12 heads, 1,024 tokens, 64 channels per head, causal, bf16, on views of one packed projection
 * [batch, token, 3, head, channel]; the gradients are written packed as well. Prints engines, workspaces, times, the
 * distance to a double-precision head and whether repeated gradients have the same bits. */
#include "dnn.h"
#include "reference.h"

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t e_ = (call);                                                                   \
        if (e_ != cudaSuccess) {                                                                   \
            printf("%s: %s\n", #call, cudaGetErrorString(e_));                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { H = 12, T = 1024, D = 64 };

struct buffers {
    char *qkv, *o, *stats, *go, *dqkv, *accumulator, *workspace;
    size_t workspace_bytes;
};

static struct dnn_tensor packed(struct dnn_graph *g, int64_t b, char *base, int part,
                                bool is_transposed)
{
    int64_t dims[4] = {b, H, T, D}, strides[4] = {(int64_t)T * 3 * H * D, D, 3 * H * D, 1};
    if (is_transposed) {
        int64_t x = dims[2], y = strides[2];
        dims[2] = dims[3], dims[3] = x;
        strides[2] = strides[3], strides[3] = y;
    }
    return dnn_tensor4(g, CUDNN_DATA_BFLOAT16, dims, strides, base + (size_t)part * H * D * 2);
}

static struct dnn_tensor rows(struct dnn_graph *g, int64_t b, char *base)
{
    int64_t dims[4] = {b, H, T, D}, strides[4] = {(int64_t)T * H * D, D, H * D, 1};
    return dnn_tensor4(g, CUDNN_DATA_BFLOAT16, dims, strides, base);
}

static struct dnn_tensor square(struct dnn_graph *g, int64_t b, cudnnDataType_t type)
{
    int64_t dims[4] = {b, H, T, T}, strides[4] = {(int64_t)H * T * T, (int64_t)T * T, T, 1};
    return dnn_tensor4(g, type, dims, strides, NULL);
}

static struct dnn_tensor turned(struct dnn_graph *g, int64_t b)
{
    int64_t dims[4] = {b, H, T, T}, strides[4] = {(int64_t)H * T * T, (int64_t)T * T, 1, T};
    return dnn_tensor4(g, CUDNN_DATA_BFLOAT16, dims, strides, NULL);
}

static struct dnn_tensor column(struct dnn_graph *g, int64_t b, void *pointer)
{
    int64_t dims[4] = {b, H, T, 1}, strides[4] = {(int64_t)H * T, T, 1, 1};
    return dnn_tensor4(g, CUDNN_DATA_FLOAT, dims, strides, pointer);
}

#define F CUDNN_DATA_FLOAT
#define I CUDNN_DATA_INT32
#define L CUDNN_DATA_BOOLEAN

/* scale, then everything right of the diagonal becomes the lowest float */
static struct dnn_tensor masked(struct dnn_graph *g, int64_t b, struct dnn_tensor s,
                                struct dnn_tensor scale)
{
    struct dnn_tensor scaled = square(g, b, F), row = square(g, b, I), col = square(g, b, I),
                      keep = square(g, b, L), out = square(g, b, F);
    struct dnn_tensor lowest = dnn_scalar(g, -3.402823466e+38f);
    dnn_pointwise(g, CUDNN_POINTWISE_MUL, F, 0, s, &scale, NULL, scaled);
    dnn_pointwise(g, CUDNN_POINTWISE_GEN_INDEX, I, 2, scaled, NULL, NULL, row);
    dnn_pointwise(g, CUDNN_POINTWISE_GEN_INDEX, I, 3, scaled, NULL, NULL, col);
    dnn_pointwise(g, CUDNN_POINTWISE_CMP_GE, L, 0, row, &col, NULL, keep);
    dnn_pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, F, 0, scaled, &lowest, &keep, out);
    return out;
}

static void forward_graph(struct dnn_graph *g, int64_t b, struct buffers *m)
{
    struct dnn_tensor q = packed(g, b, m->qkv, 0, false), kt = packed(g, b, m->qkv, 1, true),
                      v = packed(g, b, m->qkv, 2, false), o = rows(g, b, m->o),
                      stats = column(g, b, m->stats), s = square(g, b, F);
    struct dnn_tensor scale = dnn_scalar(g, 0.125f);
    dnn_matmul(g, q, kt, s);
    s = masked(g, b, s, scale);
    struct dnn_tensor max = column(g, b, NULL), less = square(g, b, F), e = square(g, b, F),
                      sum = column(g, b, NULL), log = column(g, b, NULL),
                      p = square(g, b, CUDNN_DATA_BFLOAT16);
    dnn_reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, max);
    dnn_pointwise(g, CUDNN_POINTWISE_SUB, F, 0, s, &max, NULL, less);
    dnn_pointwise(g, CUDNN_POINTWISE_EXP, F, 0, less, NULL, NULL, e);
    dnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, sum);
    dnn_pointwise(g, CUDNN_POINTWISE_LOG, F, 0, sum, NULL, NULL, log);
    dnn_pointwise(g, CUDNN_POINTWISE_ADD, F, 0, max, &log, NULL, stats);
    dnn_pointwise(g, CUDNN_POINTWISE_DIV, F, 0, e, &sum, NULL, p);
    dnn_matmul(g, p, v, o);
}

/* key_type: type of the virtual K of the last product. has_accumulator: the variant that is not repeatable. */
static void backward_graph(struct dnn_graph *g, int64_t b, struct buffers *m,
                           cudnnDataType_t key_type, bool has_accumulator)
{
    struct dnn_tensor q = packed(g, b, m->qkv, 0, false), kt = packed(g, b, m->qkv, 1, true),
                      vt = packed(g, b, m->qkv, 2, true), o = rows(g, b, m->o),
                      go = rows(g, b, m->go), stats = column(g, b, m->stats),
                      dq = packed(g, b, m->dqkv, 0, false), dk = packed(g, b, m->dqkv, 1, false),
                      dv = packed(g, b, m->dqkv, 2, false);
    struct dnn_tensor one = dnn_scalar(g, 1.0f), scale = dnn_scalar(g, 0.125f);
    int64_t dims[4] = {b, H, T, D}, strides[4] = {(int64_t)H * T * D, (int64_t)T * D, H * D, 1};
    struct dnn_tensor product = dnn_tensor4(g, F, dims, strides, NULL), sum = column(g, b, NULL),
                      delta = column(g, b, NULL);
    dnn_pointwise(g, CUDNN_POINTWISE_MUL, F, 0, go, &o, NULL, product);
    dnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    dnn_pointwise(g, CUDNN_POINTWISE_MUL, F, 0, sum, &one, NULL, delta);

    struct dnn_tensor s = square(g, b, F);
    dnn_matmul(g, q, kt, s);
    s = masked(g, b, s, scale);
    struct dnn_tensor less = square(g, b, F), p = square(g, b, F), pt = turned(g, b);
    dnn_pointwise(g, CUDNN_POINTWISE_SUB, F, 0, s, &stats, NULL, less);
    dnn_pointwise(g, CUDNN_POINTWISE_EXP, F, 0, less, NULL, NULL, p);
    dnn_reshape(g, p, pt);
    dnn_matmul(g, pt, go, dv);

    struct dnn_tensor dp = square(g, b, F), dp1 = square(g, b, F), dp2 = square(g, b, F),
                      dp3 = square(g, b, F), ds = square(g, b, F), dst = turned(g, b);
    dnn_matmul(g, go, vt, dp);
    dnn_pointwise(g, CUDNN_POINTWISE_MUL, F, 0, dp, &one, NULL, dp1);
    dnn_pointwise(g, CUDNN_POINTWISE_SUB, F, 0, dp1, &delta, NULL, dp2);
    dnn_pointwise(g, CUDNN_POINTWISE_MUL, F, 0, dp2, &p, NULL, dp3);
    dnn_pointwise(g, CUDNN_POINTWISE_MUL, F, 0, dp3, &scale, NULL, ds);
    dnn_reshape(g, ds, dst);
    dnn_matmul(g, dst, q, dk);

    int64_t kdims[4] = {b, H, T, D}, kstrides[4] = {kt.strides[0], kt.strides[1], kt.strides[3], 1};
    struct dnn_tensor k = dnn_tensor4(g, key_type, kdims, kstrides, NULL);
    dnn_reshape(g, kt, k);
    if (has_accumulator) {
        int64_t astrides[4] = {(int64_t)H * T * D, (int64_t)T * D, D, 1};
        struct dnn_tensor a = dnn_tensor_full(g, F, 4, dims, astrides, m->accumulator, false, true);
        dnn_matmul(g, ds, k, a);
        dnn_pointwise(g, CUDNN_POINTWISE_IDENTITY, F, 0, a, NULL, NULL, dq);
    } else {
        dnn_matmul(g, ds, k, dq);
    }
}

static void judge(const char *what, struct buffers *m, bool is_backward, int batch)
{
    size_t qkv_count = (size_t)T * 3 * H * D, o_count = (size_t)T * H * D;
    uint16_t *qkv = malloc(qkv_count * 2), *o = malloc(o_count * 2), *go = malloc(o_count * 2),
             *dqkv = malloc(qkv_count * 2);
    size_t at = (size_t)batch * qkv_count * 2, at_o = (size_t)batch * o_count * 2;
    CHECK(cudaMemcpy(qkv, m->qkv + at, qkv_count * 2, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(dqkv, m->dqkv + at, qkv_count * 2, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(o, m->o + at_o, o_count * 2, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(go, m->go + at_o, o_count * 2, cudaMemcpyDeviceToHost));
    double *r = malloc(5 * (size_t)T * D * sizeof *r), *dq = r + T * D, *dk = dq + T * D,
           *dv = dk + T * D, *stats = dv + T * D;
    int head = 7;
    ref_attention(T, D, 1, qkv + head * D, qkv + (H + head) * D, qkv + (2 * H + head) * D,
                  go + head * D, 3 * H * D, H * D, r, stats, dq, dk, dv);
    printf("%s: error o %.2e", what, ref_error_bf16(o + head * D, H * D, T, D, r));
    if (is_backward)
        printf(" dq %.2e dk %.2e dv %.2e", ref_error_bf16(dqkv + head * D, 3 * H * D, T, D, dq),
               ref_error_bf16(dqkv + (H + head) * D, 3 * H * D, T, D, dk),
               ref_error_bf16(dqkv + (2 * H + head) * D, 3 * H * D, T, D, dv));
    printf("\n");
    free(qkv), free(o), free(go), free(dqkv), free(r);
}

static uint64_t hash_device(const char *device, size_t bytes)
{
    uint64_t *host = malloc(bytes), h = 1469598103934665603u;
    CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < bytes / 8; i++)
        h = (h ^ host[i]) * 1099511628211u;
    free(host);
    return h;
}

int main(int argc, char **argv)
{
    struct dnn dnn = {0};
    int repeats = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1000;
    CHECK(cudaFree(NULL));
    if (argc < 2 || !dnn_open(&dnn, argv[1]))
        return 1;
    printf("cudnn %zu from %s\n", dnn.version, argv[1]);
    enum { B = 32 };
    size_t qkv = (size_t)B * T * 3 * H * D, o = (size_t)B * T * H * D;
    struct buffers m = {.workspace_bytes = (size_t)3 << 30};
    CHECK(cudaMalloc((void **)&m.qkv, qkv * 2));
    CHECK(cudaMalloc((void **)&m.dqkv, qkv * 2));
    CHECK(cudaMalloc((void **)&m.o, o * 2));
    CHECK(cudaMalloc((void **)&m.go, o * 2));
    CHECK(cudaMalloc((void **)&m.stats, (size_t)B * H * T * 4));
    CHECK(cudaMalloc((void **)&m.accumulator, o * 4));
    CHECK(cudaMalloc((void **)&m.workspace, m.workspace_bytes));
    uint16_t *host = malloc(qkv * 2);
    ref_fill(host, qkv, 1.0f, 1);
    CHECK(cudaMemcpy(m.qkv, host, qkv * 2, cudaMemcpyHostToDevice));
    ref_fill(host, o, 1.0f, 2);
    CHECK(cudaMemcpy(m.go, host, o * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(m.dqkv, 0xff, qkv * 2));

    static struct dnn_graph graphs[64];
    int next = 0;
    struct dnn_plan plans[DNN_PLANS];
    struct dnn_graph *g = &graphs[next++];
    g->dnn = &dnn;
    forward_graph(g, B, &m);
    int count = dnn_plans(g, false, 8, plans);
    printf("forward: %d plans\n", count);
    for (int i = 0; i < count; i++) {
        float ms = dnn_time(g, &plans[i], m.workspace, 100);
        printf("  forward engine %d deterministic %d runtime-compiled %d workspace %.1f MiB: %.4f "
               "ms\n",
               (int)plans[i].engine, plans[i].is_deterministic, plans[i].is_runtime_compiled,
               (double)plans[i].workspace_bytes / 1048576, (double)ms);
    }
    if (count)
        judge("forward", &m, false, 31);

    for (int variant = 0; variant < 4; variant++) {
        bool has_accumulator = variant >= 2;
        cudnnDataType_t key_type = variant % 2 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
        g = &graphs[next++];
        g->dnn = &dnn;
        double start = dnn_seconds();
        backward_graph(g, B, &m, key_type, has_accumulator);
        count = dnn_plans(g, false, 8, plans);
        printf("backward %s, K as %s: %d plans, %.1f s\n",
               has_accumulator ? "accumulating" : "direct", variant % 2 ? "bf16" : "float", count,
               dnn_seconds() - start);
        for (int i = 0; i < count; i++) {
            if ((size_t)plans[i].workspace_bytes > m.workspace_bytes)
                continue;
            CHECK(cudaMemset(m.accumulator, 0, o * 4));
            float ms = dnn_time(g, &plans[i], m.workspace, 50);
            printf("  backward engine %d deterministic %d runtime-compiled %d workspace %.1f MiB: "
                   "%.4f ms\n",
                   (int)plans[i].engine, plans[i].is_deterministic, plans[i].is_runtime_compiled,
                   (double)plans[i].workspace_bytes / 1048576, (double)ms);
            CHECK(cudaMemset(m.accumulator, 0, o * 4));
            CHECK(cudaMemset(m.dqkv, 0xff, qkv * 2));
            cudnnBackendDescriptor_t pack = dnn_pack(g, m.workspace);
            dnn.execute(dnn.handle, plans[i].plan, pack);
            CHECK(cudaDeviceSynchronize());
            judge("  backward", &m, true, 31);
            uint64_t first = hash_device(m.dqkv, qkv * 2);
            int differing = 0, runs = i == 0 && !has_accumulator ? repeats : 5;
            for (int r = 0; r < runs; r++) {
                CHECK(cudaMemset(m.accumulator, 0, o * 4));
                dnn.execute(dnn.handle, plans[i].plan, pack);
                if (r % (runs / 5) == 0)
                    differing += hash_device(m.dqkv, qkv * 2) != first;
            }
            printf("  %d repeats, %d of 5 looks differ\n", runs, differing);
        }
        if (count && !has_accumulator)
            for (int slice = 4; slice <= 16; slice *= 2) {
                struct dnn_graph *h = &graphs[next++];
                h->dnn = &dnn;
                backward_graph(h, slice, &m, key_type, false);
                if (dnn_plans(h, false, 1, plans) == 1)
                    printf("  slice of %d: %.4f ms, %d slices %.4f ms, workspace %.1f MiB\n", slice,
                           (double)dnn_time(h, &plans[0], m.workspace, 50), B / slice,
                           (double)dnn_time(h, &plans[0], m.workspace, 50) * (double)(B / slice),
                           (double)plans[0].workspace_bytes / 1048576);
            }
    }
    return 0;
}
