/* dnn.h - the few calls of cuDNN's graph interface that the probes need, opened at run time.
 *
 * One struct dnn per process. Every failure prints one line and returns false; the probe goes on with
 * the next question. Descriptors live until the process ends. */
#ifndef EBB_BENCH_GPU_DNN_H
#define EBB_BENCH_GPU_DNN_H

#include <cuda_runtime.h>
#include <cudnn_graph.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct dnn {
    void *library;
    cudnnHandle_t handle;
    size_t version;
    cudnnStatus_t (*create)(cudnnHandle_t *);
    cudnnStatus_t (*set_stream)(cudnnHandle_t, cudaStream_t);
    size_t (*get_version)(void);
    void (*last_error)(char *, size_t);
    cudnnStatus_t (*descriptor)(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *);
    cudnnStatus_t (*destroy)(cudnnBackendDescriptor_t);
    cudnnStatus_t (*set)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                         cudnnBackendAttributeType_t, int64_t, const void *);
    cudnnStatus_t (*get)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                         cudnnBackendAttributeType_t, int64_t, int64_t *, void *);
    cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t);
    cudnnStatus_t (*execute)(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t);
};

#define DNN_OPS 64
#define DNN_PLANS 64
#define DNN_BINDINGS 24

struct dnn_tensor {
    cudnnBackendDescriptor_t d;
    int64_t uid, dims[5], strides[5];
    int rank;
    cudnnDataType_t type;
};

struct dnn_graph {
    struct dnn *dnn;
    cudnnBackendDescriptor_t ops[DNN_OPS], graph;
    int op_count;
    int64_t next_uid;
    int64_t uids[DNN_BINDINGS]; /* what is not virtual */
    void *pointers[DNN_BINDINGS];
    int binding_count;
    float scalars[DNN_BINDINGS];
    int scalar_count;
    bool is_bad;
};

struct dnn_plan {
    cudnnBackendDescriptor_t plan;
    int64_t engine, workspace_bytes;
    bool is_deterministic, is_runtime_compiled;
};

static inline double dnn_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline bool dnn_symbol(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, sizeof symbol);
    if (!symbol)
        printf("dnn: no symbol %s\n", name);
    return symbol != NULL;
}

static inline bool dnn_open(struct dnn *d, const char *path)
{
    d->library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!d->library) {
        printf("dnn: %s\n", dlerror());
        return false;
    }
    bool is_ok = dnn_symbol(d->library, "cudnnCreate", &d->create) &&
                 dnn_symbol(d->library, "cudnnSetStream", &d->set_stream) &&
                 dnn_symbol(d->library, "cudnnGetVersion", &d->get_version) &&
                 dnn_symbol(d->library, "cudnnGetLastErrorString", &d->last_error) &&
                 dnn_symbol(d->library, "cudnnBackendCreateDescriptor", &d->descriptor) &&
                 dnn_symbol(d->library, "cudnnBackendDestroyDescriptor", &d->destroy) &&
                 dnn_symbol(d->library, "cudnnBackendSetAttribute", &d->set) &&
                 dnn_symbol(d->library, "cudnnBackendGetAttribute", &d->get) &&
                 dnn_symbol(d->library, "cudnnBackendFinalize", &d->finalize) &&
                 dnn_symbol(d->library, "cudnnBackendExecute", &d->execute);
    if (!is_ok || d->create(&d->handle) != CUDNN_STATUS_SUCCESS) {
        printf("dnn: no handle\n");
        return false;
    }
    d->version = d->get_version();
    return true;
}

static inline void dnn_check(struct dnn_graph *g, cudnnStatus_t status, const char *what)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return;
    char text[512] = "";
    g->dnn->last_error(text, sizeof text);
    if (!g->is_bad)
        printf("dnn: %s: status %d %s\n", what, (int)status, text);
    g->is_bad = true;
}

static inline void dnn_set(struct dnn_graph *g, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           int64_t count, const void *value)
{
    if (!g->is_bad)
        dnn_check(g, g->dnn->set(d, name, type, count, value), "set");
}

static inline cudnnBackendDescriptor_t dnn_new(struct dnn_graph *g,
                                               cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    dnn_check(g, g->dnn->descriptor(type, &d), "create");
    return d;
}

static inline void dnn_done(struct dnn_graph *g, cudnnBackendDescriptor_t d, const char *what)
{
    if (!g->is_bad)
        dnn_check(g, g->dnn->finalize(d), what);
}

/* pointer NULL: virtual. */
static inline struct dnn_tensor dnn_tensor_full(struct dnn_graph *g, cudnnDataType_t type, int rank,
                                                const int64_t *dims, const int64_t *strides,
                                                void *pointer, bool is_value, bool is_reordered)
{
    struct dnn_tensor t = {.uid = ++g->next_uid, .rank = rank, .type = type};
    memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    memcpy(t.strides, strides, (size_t)rank * sizeof *strides);
    t.d = dnn_new(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t alignment = is_value ? 4 : 16;
    bool is_virtual = !pointer;
    dnn_set(g, t.d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t.uid);
    dnn_set(g, t.d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    dnn_set(g, t.d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    dnn_set(g, t.d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dims);
    dnn_set(g, t.d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides);
    dnn_set(g, t.d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    dnn_set(g, t.d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_value);
    if (is_reordered) {
        cudnnBackendTensorReordering_t mode = CUDNN_TENSOR_REORDERING_F16x16;
        dnn_set(g, t.d, CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, 1,
                &mode);
    }
    dnn_done(g, t.d, "tensor");
    if (pointer) {
        g->uids[g->binding_count] = t.uid;
        g->pointers[g->binding_count++] = pointer;
    }
    return t;
}

static inline struct dnn_tensor dnn_tensor4(struct dnn_graph *g, cudnnDataType_t type,
                                            const int64_t dims[4], const int64_t strides[4],
                                            void *pointer)
{
    return dnn_tensor_full(g, type, 4, dims, strides, pointer, false, false);
}

static inline struct dnn_tensor dnn_scalar(struct dnn_graph *g, float value)
{
    static const int64_t ones[4] = {1, 1, 1, 1};
    float *place = &g->scalars[g->scalar_count++];
    *place = value;
    return dnn_tensor_full(g, CUDNN_DATA_FLOAT, 4, ones, ones, place, true, false);
}

static inline void dnn_push(struct dnn_graph *g, cudnnBackendDescriptor_t op, const char *what)
{
    dnn_done(g, op, what);
    g->ops[g->op_count++] = op;
}

#define DNN_LINK(g, op, name, tensor)                                                              \
    dnn_set(g, op, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &(tensor).d)

static inline void dnn_matmul(struct dnn_graph *g, struct dnn_tensor a, struct dnn_tensor b,
                              struct dnn_tensor c)
{
    cudnnBackendDescriptor_t m = dnn_new(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    dnn_set(g, m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    dnn_done(g, m, "matmul");
    cudnnBackendDescriptor_t op = dnn_new(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    DNN_LINK(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    DNN_LINK(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    DNN_LINK(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    dnn_set(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &m);
    dnn_push(g, op, "matmul op");
}

/* b, t may be NULL. */
static inline void dnn_pointwise(struct dnn_graph *g, cudnnPointwiseMode_t mode,
                                 cudnnDataType_t precision, int64_t axis, struct dnn_tensor x,
                                 const struct dnn_tensor *b, const struct dnn_tensor *t,
                                 struct dnn_tensor y)
{
    cudnnBackendDescriptor_t p = dnn_new(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    dnn_set(g, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    dnn_set(g, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        dnn_set(g, p, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    dnn_done(g, p, "pointwise");
    cudnnBackendDescriptor_t op = dnn_new(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    dnn_set(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &p);
    DNN_LINK(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        DNN_LINK(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    if (t)
        DNN_LINK(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *t);
    DNN_LINK(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    dnn_push(g, op, "pointwise op");
}

static inline void dnn_reduce(struct dnn_graph *g, cudnnReduceTensorOp_t mode, struct dnn_tensor x,
                              struct dnn_tensor y)
{
    cudnnBackendDescriptor_t r = dnn_new(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    dnn_set(g, r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    dnn_set(g, r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    dnn_done(g, r, "reduction");
    cudnnBackendDescriptor_t op = dnn_new(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    DNN_LINK(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    DNN_LINK(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    dnn_set(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &r);
    dnn_push(g, op, "reduction op");
}

static inline void dnn_reshape(struct dnn_graph *g, struct dnn_tensor x, struct dnn_tensor y)
{
    cudnnBackendDescriptor_t op = dnn_new(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    DNN_LINK(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    DNN_LINK(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    dnn_push(g, op, "reshape op");
}

static inline bool dnn_has_note(struct dnn *d, cudnnBackendDescriptor_t engine,
                                cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                int wanted)
{
    int notes[32];
    int64_t count = 0;
    if (d->get(engine, name, type, 32, &count, notes) != CUDNN_STATUS_SUCCESS)
        return false;
    for (int64_t i = 0; i < count && i < 32; i++)
        if (notes[i] == wanted)
            return true;
    return false;
}

/* Plans in the order of the library's heuristics; at most `limit`. */
static inline int dnn_plans(struct dnn_graph *g, bool is_deterministic_only, int limit,
                            struct dnn_plan *out)
{
    struct dnn *d = g->dnn;
    g->graph = dnn_new(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    dnn_set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->handle);
    dnn_set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->op_count,
            g->ops);
    dnn_done(g, g->graph, "operation graph");
    cudnnBackendDescriptor_t heuristic = dnn_new(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    const char *asked = getenv("DNN_MODE"); /* 1 B, 2 fallback, 3 A */
    cudnnBackendHeurMode_t mode =
        asked ? (cudnnBackendHeurMode_t)strtol(asked, NULL, 10) : CUDNN_HEUR_MODE_A;
    dnn_set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &g->graph);
    dnn_set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    dnn_done(g, heuristic, "heuristic");
    if (g->is_bad)
        return 0;
    cudnnBackendDescriptor_t configs[DNN_PLANS];
    for (int i = 0; i < DNN_PLANS; i++)
        configs[i] = dnn_new(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t found = 0;
    dnn_check(g,
              d->get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                     DNN_PLANS, &found, configs),
              "heuristic results");
    int count = 0;
    for (int64_t i = 0; i < found && i < DNN_PLANS && count < limit && !g->is_bad; i++) {
        cudnnBackendDescriptor_t engine = dnn_new(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        int64_t n = 0;
        if (d->get(configs[i], CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                   &engine) != CUDNN_STATUS_SUCCESS)
            continue;
        struct dnn_plan p = {0};
        d->get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, &p.engine);
        p.is_deterministic =
            !dnn_has_note(d, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                          CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
        p.is_runtime_compiled =
            dnn_has_note(d, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                         CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
        if (is_deterministic_only && !p.is_deterministic)
            continue;
        p.plan = dnn_new(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (d->set(p.plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->handle) ||
            d->set(p.plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                   1, &configs[i]) ||
            d->finalize(p.plan) != CUDNN_STATUS_SUCCESS)
            continue;
        d->get(p.plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
               &p.workspace_bytes);
        out[count++] = p;
    }
    return count;
}

static inline cudnnBackendDescriptor_t dnn_pack(struct dnn_graph *g, void *workspace)
{
    cudnnBackendDescriptor_t v = dnn_new(g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    dnn_set(g, v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, g->binding_count,
            g->pointers);
    dnn_set(g, v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, g->binding_count, g->uids);
    dnn_set(g, v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    dnn_done(g, v, "variant pack");
    return v;
}

static inline int dnn_compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median ms of `runs` runs after two warm ones; negative where it fails. */
static inline float dnn_time(struct dnn_graph *g, struct dnn_plan *p, void *workspace, int runs)
{
    float ms[256];
    cudaEvent_t a, b;
    cudaEventCreate(&a), cudaEventCreate(&b);
    cudnnBackendDescriptor_t pack = dnn_pack(g, workspace);
    runs = runs > 256 ? 256 : runs;
    float result = -1;
    if (g->is_bad)
        goto out;
    for (int i = -2; i < runs; i++) {
        cudaEventRecord(a, 0);
        if (g->dnn->execute(g->dnn->handle, p->plan, pack) != CUDNN_STATUS_SUCCESS)
            goto out;
        cudaEventRecord(b, 0);
        if (cudaEventSynchronize(b) != cudaSuccess) {
            printf("dnn: %s\n", cudaGetErrorString(cudaGetLastError()));
            goto out;
        }
        if (i >= 0)
            cudaEventElapsedTime(&ms[i], a, b);
    }
    qsort(ms, (size_t)runs, sizeof *ms, dnn_compare);
    result = ms[runs / 2];
out:
    cudaEventDestroy(a), cudaEventDestroy(b);
    g->dnn->destroy(pack);
    return result;
}

#endif
