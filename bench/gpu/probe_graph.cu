/* probe_graph.cu - what the device costs around kernels.
 *
 *   probe_graph reserve CUDNN     device memory taken by context, modules, library handles (run it under
 *                                 CUDA_MODULE_LOADING=LAZY and =EAGER)
 *   probe_graph gaps              650 small kernels eager and as a graph; copies on forked streams inside a graph;
 *                                 pinned rates; the cost of pinning; what copies cost kernels that are bound by
 *                                 memory */
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        cudaError_t e_ = (call);                                                                   \
        if (e_ != cudaSuccess) {                                                                   \
            printf("%s: %s\n", #call, cudaGetErrorString(e_));                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* x += 1 over n floats: 8n bytes. */
__global__ void small(float *x, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        x[i] += 1.0f;
}

/* Spins without touching memory: a stand-in for a product. */
__global__ void busy(float *x, int rounds)
{
    float a = threadIdx.x, b = 1.0001f;
    for (int i = 0; i < rounds; i++)
        a = fmaf(a, b, 0.5f), b = fmaf(b, 0.999f, 0.001f);
    if (a == 12345.0f)
        *x = a;
}

static double used_mib(void)
{
    size_t free_bytes, total;
    MUST(cudaMemGetInfo(&free_bytes, &total));
    return (double)(total - free_bytes) / 1048576;
}

static float elapsed(cudaEvent_t a, cudaEvent_t b)
{
    float ms;
    MUST(cudaEventSynchronize(b));
    MUST(cudaEventElapsedTime(&ms, a, b));
    return ms;
}

static int reserve(const char *cudnn)
{
    float *x;
    MUST(cudaFree(NULL));
    double context = used_mib();
    MUST(cudaMalloc(&x, 1 << 20));
    small<<<1, 32>>>(x, 32);
    busy<<<1, 32>>>(x, 3);
    MUST(cudaDeviceSynchronize());
    double own = used_mib();
    cublasLtHandle_t lt;
    cublasLtCreate(&lt);
    double handle = used_mib();
    /* one product, so that the library loads a kernel */
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a;
    cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&a, CUDA_R_16BF, 256, 256, 256);
    float one = 1, zero = 0;
    cublasLtMatmul(lt, op, &one, x, a, x, a, &zero, x, a, x, a, NULL, NULL, 0, 0);
    MUST(cudaDeviceSynchronize());
    double product = used_mib(), dnn_handle = 0;
    void *library = dlopen(cudnn, RTLD_NOW | RTLD_GLOBAL);
    if (library) {
        int (*create)(void **);
        void *symbol = dlsym(library, "cudnnCreate"), *h = NULL;
        memcpy(&create, &symbol, sizeof symbol);
        if (create && create(&h) == 0)
            dnn_handle = used_mib();
    } else {
        printf("%s\n", dlerror());
    }
    const char *mode = getenv("CUDA_MODULE_LOADING");
    printf("RESERVE %s: context %.0f, + own kernels %.0f, + cuBLASLt handle %.0f, + first product "
           "%.0f, + cuDNN handle %.0f "
           "MiB used\n",
           mode ? mode : "default", context, own, handle, product, dnn_handle);
    return 0;
}

static int by_float(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void gaps(size_t floats)
{
    enum { N = 650, RUNS = 21 };
    float *x, ms[RUNS];
    cudaStream_t s;
    cudaEvent_t a, b;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    MUST(cudaMalloc(&x, floats * 4));
    MUST(cudaMemset(x, 0, floats * 4));
    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&a));
    MUST(cudaEventCreate(&b));
    int blocks = (int)((floats + 255) / 256);
    double cpu = 0;
    for (int r = 0; r < RUNS; r++) {
        MUST(cudaStreamSynchronize(s));
        MUST(cudaEventRecord(a, s));
        double start = seconds();
        for (int i = 0; i < N; i++)
            small<<<blocks, 256, 0, s>>>(x, floats);
        cpu = seconds() - start;
        MUST(cudaEventRecord(b, s));
        ms[r] = elapsed(a, b);
    }
    qsort(ms, RUNS, sizeof *ms, by_float);
    float eager = ms[RUNS / 2];
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < N; i++)
        small<<<blocks, 256, 0, s>>>(x, floats);
    MUST(cudaStreamEndCapture(s, &graph));
    double before = used_mib(), start = seconds();
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaGraphUpload(exec, s));
    MUST(cudaStreamSynchronize(s));
    double made = seconds() - start, after = used_mib(), launch = 0;
    for (int r = 0; r < RUNS; r++) {
        MUST(cudaStreamSynchronize(s));
        MUST(cudaEventRecord(a, s));
        start = seconds();
        MUST(cudaGraphLaunch(exec, s));
        launch = seconds() - start;
        MUST(cudaEventRecord(b, s));
        ms[r] = elapsed(a, b);
    }
    qsort(ms, RUNS, sizeof *ms, by_float);
    printf("GAPS %zu KiB kernels: eager %.2f us each (%.2f us of CPU), graph %.2f us each; "
           "instantiate %.1f ms, launch %.0f us, "
           "%.0f MiB\n",
           floats * 4 / 1024, (double)eager * 1e3 / N, cpu * 1e6 / N,
           (double)ms[RUNS / 2] * 1e3 / N, made * 1e3, launch * 1e6, after - before);
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaFree(x));
}

/* kind bits: 1 compute, 2 host to device, 4 device to host. */
static float overlap(int kind, int pieces, size_t bytes, char *pinned, char *device, int is_graph,
                     int rounds)
{
    enum { RUNS = 7 };
    cudaStream_t s, in, out;
    cudaEvent_t fork, join_in, join_out, a, b;
    cudaGraph_t graph;
    cudaGraphExec_t exec = NULL;
    float ms[RUNS];
    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&in, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&join_in, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&join_out, cudaEventDisableTiming));
    MUST(cudaEventCreate(&a));
    MUST(cudaEventCreate(&b));
    for (int r = -1; r < RUNS; r++) {
        int is_capture = is_graph && r == -1;
        if (is_capture)
            MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        else
            MUST(cudaEventRecord(a, s));
        if (!is_graph || is_capture) {
            MUST(cudaEventRecord(fork, s));
            MUST(cudaStreamWaitEvent(in, fork, 0));
            MUST(cudaStreamWaitEvent(out, fork, 0));
            for (int i = 0; i < pieces; i++) {
                size_t at = (size_t)i * bytes;
                if (kind & 1)
                    busy<<<132, 256, 0, s>>>((float *)device, rounds);
                if (kind & 2)
                    MUST(cudaMemcpyAsync(device + at, pinned + at, bytes, cudaMemcpyHostToDevice,
                                         in));
                if (kind & 4)
                    MUST(cudaMemcpyAsync(pinned + at + (size_t)pieces * bytes, device + at, bytes,
                                         cudaMemcpyDeviceToHost, out));
            }
            MUST(cudaEventRecord(join_in, in));
            MUST(cudaEventRecord(join_out, out));
            MUST(cudaStreamWaitEvent(s, join_in, 0));
            MUST(cudaStreamWaitEvent(s, join_out, 0));
        }
        if (is_capture) {
            MUST(cudaStreamEndCapture(s, &graph));
            MUST(cudaGraphInstantiate(&exec, graph, 0));
            continue;
        }
        if (is_graph)
            MUST(cudaGraphLaunch(exec, s));
        MUST(cudaEventRecord(b, s));
        float t = elapsed(a, b);
        if (r >= 0)
            ms[r] = t;
    }
    qsort(ms, RUNS, sizeof *ms, by_float);
    return ms[RUNS / 2];
}

static void copies(void)
{
    enum { PIECES = 32 };
    size_t bytes = (size_t)16 << 20;
    char *pinned, *device;
    MUST(cudaHostAlloc(&pinned, bytes * PIECES * 2, 0));
    memset(pinned, 1, bytes * PIECES * 2);
    MUST(cudaMalloc(&device, bytes * PIECES));
    for (int is_graph = 0; is_graph < 2; is_graph++) {
        float compute = overlap(1, PIECES, bytes, pinned, device, is_graph, 100000),
              in = overlap(2, PIECES, bytes, pinned, device, is_graph, 0),
              out = overlap(4, PIECES, bytes, pinned, device, is_graph, 0),
              both = overlap(6, PIECES, bytes, pinned, device, is_graph, 0),
              all = overlap(7, PIECES, bytes, pinned, device, is_graph, 100000);
        double total = (double)(bytes * PIECES);
        printf("COPIES %s: compute alone %.2f ms; in %.1f GB/s, out %.1f GB/s, both %.1f GB/s "
               "together; all three %.2f ms "
               "(longest alone %.2f)\n",
               is_graph ? "graph" : "eager", (double)compute, total / (double)in * 1e-6,
               total / (double)out * 1e-6, 2 * total / (double)both * 1e-6, (double)all,
               (double)(both > compute ? both : compute));
    }
    MUST(cudaFreeHost(pinned));
    size_t four = (size_t)4 << 30;
    double start = seconds();
    MUST(cudaHostAlloc(&pinned, four, 0));
    double alloc = seconds() - start;
    MUST(cudaFreeHost(pinned));
    char *plain =
        (char *)mmap(NULL, four, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    start = seconds();
    memset(plain, 1, four);
    double touched = seconds() - start;
    start = seconds();
    MUST(cudaHostRegister(plain, four, cudaHostRegisterDefault));
    double registered = seconds() - start;
    MUST(cudaHostUnregister(plain));
    munmap(plain, four);
    plain = (char *)mmap(NULL, four, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(plain, four, MADV_HUGEPAGE);
    start = seconds();
    memset(plain, 1, four);
    double huge_touched = seconds() - start;
    start = seconds();
    MUST(cudaHostRegister(plain, four, cudaHostRegisterDefault));
    double huge = seconds() - start;
    start = seconds();
    MUST(cudaHostUnregister(plain));
    printf("PINNING s per GiB: cudaHostAlloc %.3f; touch %.3f + register %.3f; huge pages touch "
           "%.3f + register %.3f; "
           "unregister %.3f\n",
           alloc / 4, touched / 4, registered / 4, huge_touched / 4, huge / 4,
           (seconds() - start) / 4);
}

/* 600 kernels that read and write `floats` each, beside `copies` out and as many in, as a graph: copy k
 * out sets out behind kernel 600 k / copies / 2, copy k in is waited for when the next one sets out; without
 * edges all set out at once and the end waits for them. Median ms. */
static float beside(size_t floats, int copies, size_t bytes, int has_edges, char *pinned, float *x,
                    char *device)
{
    enum { N = 600, RUNS = 9 };
    cudaStream_t s, out, in;
    cudaEvent_t a, b, e, came;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float ms[RUNS];
    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&in, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&a));
    MUST(cudaEventCreate(&b));
    MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&came, cudaEventDisableTiming));
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    MUST(cudaEventRecord(e, s));
    MUST(cudaStreamWaitEvent(out, e, 0));
    MUST(cudaStreamWaitEvent(in, e, 0));
    int every = copies ? N / 2 / copies : N;
    for (int i = 0; i < N; i++) {
        int k = i < N / 2 ? i / every : (i - N / 2) / every;
        bool is_turn = copies && k < copies && (i % (N / 2)) % every == 0;
        size_t at = (size_t)k * bytes;
        if (is_turn && i >= N / 2) {
            if (has_edges && k > 0)
                MUST(cudaStreamWaitEvent(s, came, 0)); /* the one before: it had time */
            MUST(cudaMemcpyAsync(device + at, pinned + at, bytes, cudaMemcpyHostToDevice, in));
            MUST(cudaEventRecord(came, in));
        }
        small<<<132 * 8, 256, 0, s>>>(x, floats);
        if (is_turn && i < N / 2) {
            MUST(cudaEventRecord(e, s));
            if (has_edges)
                MUST(cudaStreamWaitEvent(out, e, 0));
            MUST(cudaMemcpyAsync(pinned + at, device + at, bytes, cudaMemcpyDeviceToHost, out));
        }
    }
    MUST(cudaEventRecord(e, out));
    MUST(cudaStreamWaitEvent(s, e, 0));
    MUST(cudaEventRecord(e, in));
    MUST(cudaStreamWaitEvent(s, e, 0));
    MUST(cudaStreamEndCapture(s, &graph));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    for (int r = -1; r < RUNS; r++) {
        MUST(cudaEventRecord(a, s));
        MUST(cudaGraphLaunch(exec, s));
        MUST(cudaEventRecord(b, s));
        float t = elapsed(a, b);
        if (r >= 0)
            ms[r] = t;
    }
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
    qsort(ms, RUNS, sizeof *ms, by_float);
    return ms[RUNS / 2];
}

static void neighbours(void)
{
    static const size_t sizes[] = {1 << 20, 4 << 20, 16 << 20};
    size_t bytes = (size_t)16 << 20;
    char *pinned, *device;
    float *x;
    MUST(cudaHostAlloc(&pinned, bytes * 32, 0));
    MUST(cudaMalloc(&device, bytes * 32));
    MUST(cudaMalloc(&x, sizes[2] * 4));
    MUST(cudaMemset(x, 0, sizes[2] * 4));
    for (int k = 0; k < 3; k++) {
        float alone = beside(sizes[k], 0, 0, 0, pinned, x, device);
        printf("BESIDE %zu MiB kernels: alone %.3f ms (%.1f us each)\n", sizes[k] >> 18,
               (double)alone, (double)alone / 0.6);
        for (int copies = 2; copies <= 32; copies *= 4)
            printf(
                "BESIDE   %2d copies each way: 256 bytes %.3f, with edges %.3f; 16 MiB %.3f, with "
                "edges %.3f ms\n",
                copies, (double)beside(sizes[k], copies, 256, 0, pinned, x, device),
                (double)beside(sizes[k], copies, 256, 1, pinned, x, device),
                (double)beside(sizes[k], copies, bytes, 0, pinned, x, device),
                (double)beside(sizes[k], copies, bytes, 1, pinned, x, device));
    }
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "reserve"))
        return reserve(argv[2]);
    gaps(256);
    gaps(64 * 1024);
    gaps(1024 * 1024);
    copies();
    neighbours();
    return 0;
}
