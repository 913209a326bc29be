/* probe_conv.c - the convolutions of ResNet-50, batch 256, bf16, channels-last, through cuDNN's graph interface,
 * engines without the note "not deterministic" only.
 *
 *   probe_conv LIBRARY [CANDIDATES] [SECONDS]
 *
 * For every distinct shape and direction: ms of the first and of the best candidate, its workspace, whether 20 repeats
 * have the same bits; at the end the sums over the network. Weight gradients are asked for in float, else in bf16. */
#include "dnn.h"
#include "reference.h"

struct shape {
    int count, c, k, size, out, filter, stride;
    int has_no_padding;
};

static const struct shape shapes[] = {
    {1, 4, 64, 224, 112, 7, 2, 0},
    {1, 64, 64, 56, 56, 1, 1, 0},
    {2, 256, 64, 56, 56, 1, 1, 0},
    {3, 64, 64, 56, 56, 3, 1, 0},
    {4, 64, 256, 56, 56, 1, 1, 0},
    {1, 256, 128, 56, 56, 1, 1, 0},
    {1, 128, 128, 56, 28, 3, 2, 0},
    {4, 128, 512, 28, 28, 1, 1, 0},
    {1, 256, 512, 56, 28, 1, 2, 0},
    {3, 512, 128, 28, 28, 1, 1, 0},
    {3, 128, 128, 28, 28, 3, 1, 0},
    {1, 512, 256, 28, 28, 1, 1, 0},
    {1, 256, 256, 28, 14, 3, 2, 0},
    {6, 256, 1024, 14, 14, 1, 1, 0},
    {1, 512, 1024, 28, 14, 1, 2, 0},
    {5, 1024, 256, 14, 14, 1, 1, 0},
    {5, 256, 256, 14, 14, 3, 1, 0},
    {1, 1024, 512, 14, 14, 1, 1, 0},
    {1, 512, 512, 14, 7, 3, 2, 0},
    {3, 512, 2048, 7, 7, 1, 1, 0},
    {1, 1024, 2048, 14, 7, 1, 2, 0},
    {2, 2048, 512, 7, 7, 1, 1, 0},
    {2, 512, 512, 7, 7, 3, 1, 0},
    {0, 3, 64, 224, 112, 7, 2, 0},
    {0, 8, 64, 224, 112, 7, 2, 0},
    /* the first convolution folded: 2 x 2 pixels become channels (12, or 16 with padding), filter 4 x 4, stride 1 */
    {0, 16, 64, 115, 112, 4, 1, 1},
    {0, 12, 64, 115, 112, 4, 1, 1},
};

enum { BATCH = 256 };

static struct dnn_tensor last(struct dnn_graph *g, cudnnDataType_t type, int64_t n, int64_t c,
                              int64_t h, void *pointer)
{
    int64_t dims[4] = {n, c, h, h}, strides[4] = {c * h * h, 1, h * c, c};
    return dnn_tensor4(g, type, dims, strides, pointer);
}

static void build(struct dnn_graph *g, const struct shape *s, int direction,
                  cudnnDataType_t dw_type, char *x, char *w, char *y)
{
    struct dnn_tensor tx = last(g, CUDNN_DATA_BFLOAT16, BATCH, s->c, s->size, x),
                      tw = last(g, direction == 2 ? dw_type : CUDNN_DATA_BFLOAT16, s->k, s->c,
                                s->filter, w),
                      ty = last(g, CUDNN_DATA_BFLOAT16, BATCH, s->k, s->out, y);
    cudnnBackendDescriptor_t c = dnn_new(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t rank = 2,
            pad[2] = {s->has_no_padding ? 0 : s->filter / 2, s->has_no_padding ? 0 : s->filter / 2},
            stride[2] = {s->stride, s->stride}, dil[2] = {1, 1};
    dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank);
    dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dil);
    dnn_done(g, c, "convolution");
    float alpha = 1, beta = 0;
    cudnnBackendDescriptor_t op;
    if (direction == 0) {
        op = dnn_new(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
        DNN_LINK(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tx);
        DNN_LINK(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tw);
        DNN_LINK(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, ty);
        dnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c);
        dnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &alpha);
        dnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &beta);
    } else if (direction == 1) {
        op = dnn_new(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
        DNN_LINK(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, tx);
        DNN_LINK(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, tw);
        DNN_LINK(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, ty);
        dnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c);
        dnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, 1,
                &alpha);
        dnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, 1, &beta);
    } else {
        op = dnn_new(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
        DNN_LINK(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, tx);
        DNN_LINK(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, tw);
        DNN_LINK(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, ty);
        dnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c);
        dnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, 1,
                &alpha);
        dnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, 1,
                &beta);
    }
    dnn_push(g, op, "convolution op");
}

static bool is_repeatable(struct dnn_graph *g, struct dnn_plan *p, void *workspace, const char *out,
                          size_t bytes)
{
    char *first = malloc(bytes), *again = malloc(bytes);
    bool is_same = true;
    cudnnBackendDescriptor_t pack = dnn_pack(g, workspace);
    for (int i = 0; i < 20 && is_same; i++) {
        g->dnn->execute(g->dnn->handle, p->plan, pack);
        if (i == 0 || i > 17) {
            cudaMemcpy(i ? again : first, out, bytes, cudaMemcpyDeviceToHost);
            is_same = !i || !memcmp(first, again, bytes);
        }
    }
    free(first), free(again);
    return is_same;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"forward", "data", "weight"};
    struct dnn dnn = {0};
    cudaFree(NULL);
    if (argc < 2 || !dnn_open(&dnn, argv[1]))
        return 1;
    int candidates = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 6;
    double limit = argc > 3 ? strtod(argv[3], NULL) : 150, start = dnn_seconds();
    size_t big = (size_t)BATCH * 256 * 56 * 56 * 2, workspace_bytes = (size_t)2 << 30;
    char *x, *w, *y, *workspace;
    if (cudaMalloc((void **)&x, big) || cudaMalloc((void **)&w, 64 << 20) ||
        cudaMalloc((void **)&y, big) || cudaMalloc((void **)&workspace, workspace_bytes))
        return 1;
    uint16_t *host = malloc(big);
    ref_fill(host, big / 2, 1.0f, 3);
    cudaMemcpy(x, host, big, cudaMemcpyHostToDevice);
    cudaMemcpy(y, host, big, cudaMemcpyHostToDevice);
    double first_sum[3] = {0}, best_sum[3] = {0}, small_sum[3] = {0}, most_workspace[3] = {0};
    printf("cudnn %zu: shape, direction, first ms, best ms (workspace MiB), best with workspace <= "
           "64 MiB, repeatable\n",
           dnn.version);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int direction = 0; direction < 3; direction++) {
            const struct shape *s = &shapes[i];
            if ((s->c <= 16 && direction == 1) || dnn_seconds() - start > limit)
                continue;
            cudaMemcpy(w, host, 64 << 20, cudaMemcpyHostToDevice);
            static struct dnn_graph graphs[256];
            static int next;
            struct dnn_plan plans[DNN_PLANS];
            struct dnn_graph *g = &graphs[next++];
            g->dnn = &dnn;
            cudnnDataType_t dw = CUDNN_DATA_FLOAT;
            build(g, s, direction, dw, x, w, y);
            int count = dnn_plans(g, true, candidates, plans);
            if (!count && direction == 2) {
                g = &graphs[next++];
                g->dnn = &dnn;
                dw = CUDNN_DATA_BFLOAT16;
                build(g, s, direction, dw, x, w, y);
                count = dnn_plans(g, true, candidates, plans);
            }
            float first = -1, best = -1, small = -1;
            int winner = -1;
            for (int p = 0; p < count; p++) {
                if ((size_t)plans[p].workspace_bytes > workspace_bytes)
                    continue;
                float ms = dnn_time(g, &plans[p], workspace, 9);
                if (ms < 0)
                    continue;
                first = first < 0 ? ms : first;
                if (best < 0 || ms < best)
                    best = ms, winner = p;
                if (plans[p].workspace_bytes <= 64 << 20 && (small < 0 || ms < small))
                    small = ms;
            }
            size_t x_bytes = (size_t)BATCH * (size_t)(s->c * s->size * s->size) * 2,
                   y_bytes = (size_t)BATCH * (size_t)(s->k * s->out * s->out) * 2,
                   w_bytes = (size_t)(s->c * s->k * s->filter * s->filter) *
                             (dw == CUDNN_DATA_FLOAT ? 4 : 2);
            bool is_same = winner >= 0 && is_repeatable(g, &plans[winner], workspace,
                                                        direction == 0   ? y
                                                        : direction == 1 ? x
                                                                         : w,
                                                        direction == 0   ? y_bytes
                                                        : direction == 1 ? x_bytes
                                                                         : w_bytes);
            double flops = 2.0 * BATCH * s->k * s->out * s->out * s->c * s->filter * s->filter;
            printf("%2d x %4d -> %4d %3d/%d %dx%d %-7s %d plans first %.3f best %.3f (%.1f MiB "
                   "engine %d) small %.3f %4.0f "
                   "TFLOP/s %4.0f GB/s %s%s\n",
                   s->count, s->c, s->k, s->size, s->stride, s->filter, s->filter, names[direction],
                   count, (double)first, (double)best,
                   winner >= 0 ? (double)plans[winner].workspace_bytes / 1048576 : -1.0,
                   winner >= 0 ? (int)plans[winner].engine : -1, (double)small,
                   flops / (double)best * 1e-9, (double)(x_bytes + y_bytes) / (double)best * 1e-6,
                   is_same ? "same" : "DIFFERS",
                   direction == 2 && dw != CUDNN_DATA_FLOAT ? " bf16 out" : "");
            fflush(stdout);
            first_sum[direction] += s->count * (double)first;
            best_sum[direction] += s->count * (double)best;
            small_sum[direction] += s->count * (double)small;
            if (winner >= 0 && (double)plans[winner].workspace_bytes > most_workspace[direction])
                most_workspace[direction] = (double)plans[winner].workspace_bytes;
        }
    for (int direction = 0; direction < 3; direction++)
        printf("SUM %s first %.2f best %.2f (workspace up to %.0f MiB) small %.2f ms\n",
               names[direction], first_sum[direction], best_sum[direction],
               most_workspace[direction] / 1048576, small_sum[direction]);
    printf("SUM all first %.2f best %.2f small %.2f ms, %.0f s\n",
           first_sum[0] + first_sum[1] + first_sum[2], best_sum[0] + best_sum[1] + best_sum[2],
           small_sum[0] + small_sum[1] + small_sum[2], dnn_seconds() - start);
    return 0;
}
