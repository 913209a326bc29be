/* dnn.c - see dnn.h. */
#include "cuda/dnn.h"

#include <cudnn_graph.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/map.h"
#include "cuda/library.h"
#include "profile/profile.h"

#define ROWS "cudnn" /* family of rows of a profile */
#define KEY 320
#define NO_ENGINE 1                       /* algorithm: our own kernel */
#define NEXT UINT64_C(0x9e3779b97f4a7c15) /* between algorithms of one engine */

#define CONFIGS 64
#define MOST_WORKSPACE ((int64_t)512 << 20)

#define CALLS(X)                                                                                   \
    X(Create)                                                                                      \
    X(Destroy)                                                                                     \
    X(SetStream)                                                                                   \
    X(GetVersion)                                                                                  \
    X(BackendCreateDescriptor)                                                                     \
    X(BackendDestroyDescriptor)                                                                    \
    X(BackendSetAttribute)                                                                         \
    X(BackendGetAttribute)                                                                         \
    X(BackendFinalize)                                                                             \
    X(BackendExecute)

struct cuda_dnn {
#define X(name) __typeof__(&cudnn##name) name;
    CALLS(X)
#undef X
    cudnnHandle_t handle;
    cuda_stream stream;
    const struct profile *profile;
    struct cuda_dnn_plan **plans; /* owned */
    size_t count, capacity;
    struct ebb_strmap places;
};

enum { UID_X = 1, UID_W, UID_Y };

/* Descriptors that go together. */
#define MOST_OPEN 16

struct graph {
    struct cuda_dnn *dnn;
    cudnnBackendDescriptor_t open[MOST_OPEN];
    int count;
    cudnnStatus_t status; /* the first that was not success */
};

static void note(struct graph *g, cudnnStatus_t status)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->status = status;
}

static cudnnBackendDescriptor_t make(struct graph *g, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    if (g->count == MOST_OPEN) {
        note(g, CUDNN_STATUS_INTERNAL_ERROR);
        return NULL;
    }
    note(g, g->dnn->BackendCreateDescriptor(type, &d));
    g->open[g->count++] = d;
    return d;
}

static void set(struct graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *value)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        note(g, g->dnn->BackendSetAttribute(d, name, type, count, value));
}

/* How many there are; 0 where it fails. */
static int64_t get(struct graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t count, void *value)
{
    int64_t found = 0;
    if (g->status == CUDNN_STATUS_SUCCESS)
        note(g, g->dnn->BackendGetAttribute(d, name, type, count, &found, value));
    return g->status == CUDNN_STATUS_SUCCESS ? found : 0;
}

static void close_graph(struct graph *g)
{
    while (g->count > 0)
        (void)g->dnn->BackendDestroyDescriptor(g->open[--g->count]);
}

static void finalize(struct graph *g, cudnnBackendDescriptor_t d)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        note(g, g->dnn->BackendFinalize(d));
}

static cudnnDataType_t type_of(int dtype)
{
    return dtype == KERNEL_BF16  ? CUDNN_DATA_BFLOAT16
           : dtype == KERNEL_F16 ? CUDNN_DATA_HALF
                                 : CUDNN_DATA_FLOAT;
}

static cudnnBackendDescriptor_t tensor(struct graph *g, const struct cuda_dnn_conv *c, int64_t uid,
                                       const int64_t *dims, const int64_t *steps)
{
    cudnnBackendDescriptor_t t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type = type_of(c->dtype);
    int64_t alignment = 16;
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, c->rank, dims);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, c->rank, steps);
    finalize(g, t);
    return t;
}

static int spell(char *to, int at, const char *before, const int64_t *numbers, int count)
{
    for (int i = 0; i < count && at < KEY; i++)
        at += snprintf(to + at, KEY - (size_t)at, "%s%" PRId64, i ? "x" : before, numbers[i]);
    return at;
}

static void key_of(const struct cuda_dnn_conv *c, char key[KEY])
{
    static const char *const passes[] = {[KERNEL_CONV_FORWARD] = "forward",
                                         [KERNEL_CONV_DATA] = "data",
                                         [KERNEL_CONV_WEIGHTS] = "weights"};
    int nd = c->rank - 2;
    int at = snprintf(key, KEY, "%s:%s%s", passes[c->pass],
                      c->dtype == KERNEL_BF16  ? "bf16"
                      : c->dtype == KERNEL_F16 ? "f16"
                                               : "f32",
                      c->x_steps[1] == 1 ? ":last" : "");
    at = spell(key, at, ":", c->x, c->rank);
    at = spell(key, at, ":w", c->w, c->rank);
    at = spell(key, at, ":y", c->y, c->rank);
    at = spell(key, at, ":s", c->stride, nd);
    at = spell(key, at, ":d", c->dilation, nd);
    at = spell(key, at, ":p", c->before, nd);
    (void)spell(key, at, ",", c->after, nd);
}

/* Attributes of the three directions: x, w, y, the convolution, alpha, beta. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t x, w, y, conv, alpha, beta;
} directions[] = {
    [KERNEL_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [KERNEL_CONV_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [KERNEL_CONV_WEIGHTS] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static cudnnBackendDescriptor_t geometry(struct graph *g, const struct cuda_dnn_conv *c)
{
    cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t nd = c->rank - 2;
    set(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &nd);
    set(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, nd, c->before);
    set(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, nd, c->after);
    set(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, nd, c->stride);
    set(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, nd, c->dilation);
    finalize(g, d);
    return d;
}

static cudnnBackendDescriptor_t operation(struct graph *g, const struct cuda_dnn_conv *c)
{
    float alpha = 1, beta = 0;
    cudnnBackendDescriptor_t x = tensor(g, c, UID_X, c->x, c->x_steps),
                             w = tensor(g, c, UID_W, c->w, c->w_steps),
                             y = tensor(g, c, UID_Y, c->y, c->y_steps), conv = geometry(g, c);
    cudnnBackendDescriptor_t op = make(g, directions[c->pass].type),
                             all = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, op, directions[c->pass].x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    set(g, op, directions[c->pass].w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
    set(g, op, directions[c->pass].y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    set(g, op, directions[c->pass].conv, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &conv);
    set(g, op, directions[c->pass].alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    set(g, op, directions[c->pass].beta, CUDNN_TYPE_FLOAT, 1, &beta);
    finalize(g, op);
    set(g, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->dnn->handle);
    set(g, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &op);
    finalize(g, all);
    return all;
}

/* Notes that a repeatable engine of full precision does not have; those behind the first three are allowed to BF16. */
static bool is_allowed(struct graph *g, cudnnBackendDescriptor_t engine, int dtype)
{
    static const cudnnBackendNumericalNote_t bad[] = {
        CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
        CUDNN_NUMERICAL_NOTE_FFT,
        /* F32 */
        CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
        CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13};
    size_t count = dtype == KERNEL_F32 ? sizeof bad / sizeof *bad : 3;
    cudnnBackendNumericalNote_t notes[32];
    int64_t found =
        get(g, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 32, notes);
    for (int64_t i = 0; i < found && i < 32; i++)
        for (size_t k = 0; k < count; k++)
            if (notes[i] == bad[k])
                return false;
    return g->status == CUDNN_STATUS_SUCCESS;
}

/* What the library says of a description (a bad or unsupported parameter) is a function of it, so that the next
 * configuration may be taken. All else is about this moment (no memory, a compilation that failed): what is chosen must
 * not depend on it. */
static bool is_about_description(cudnnStatus_t status)
{
    return status / 1000 == CUDNN_STATUS_BAD_PARAM / 1000 ||
           status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
}

/* One of the configurations that may be used, in the library's order over all modes. */
struct search {
    const struct cuda_dnn_conv *conv;
    uint64_t wanted; /* the algorithm that a row names; 0: by `place` */
    int place, seen; /* the one that is wanted; those so far */
    struct cuda_dnn_plan *plan;
};

/* A plan of this configuration; the search has it when it is the one. */
static cudnnStatus_t try_config(struct cuda_dnn *dnn, cudnnBackendDescriptor_t config,
                                struct search *s)
{
    struct graph g = {.dnn = dnn, .status = CUDNN_STATUS_SUCCESS};
    cudnnBackendDescriptor_t engine = make(&g, CUDNN_BACKEND_ENGINE_DESCRIPTOR), p = NULL;
    int64_t index = -1, bytes = 0;
    (void)get(&g, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    (void)get(&g, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    bool is_usable = is_allowed(&g, engine, s->conv->dtype);
    if (is_usable) {
        p = make(&g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set(&g, p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn->handle);
        set(&g, p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &config);
        finalize(&g, p);
        (void)get(&g, p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
        is_usable = g.status == CUDNN_STATUS_SUCCESS && bytes <= MOST_WORKSPACE;
    }
    uint64_t algorithm =
        (uint64_t)index * 1000003u + (uint64_t)bytes + dnn->GetVersion() + (uint64_t)s->seen * NEXT;
    if (is_usable && (s->wanted ? algorithm == s->wanted : s->seen == s->place)) {
        s->plan->plan = p;
        s->plan->place = s->seen;
        s->plan->workspace_bytes = (uint64_t)bytes;
        s->plan->algorithm = algorithm;
        g.count--; /* stays */
    }
    s->seen += is_usable;
    close_graph(&g);
    return g.status;
}

/* The configurations of one mode of the heuristic. */
static void ask(struct graph *g, cudnnBackendDescriptor_t all, cudnnBackendHeurMode_t mode,
                struct search *s)
{
    cudnnBackendDescriptor_t heuristic = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR),
                             configs[CONFIGS];
    int made = 0;
    set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &all);
    set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(g, heuristic);
    for (; made < CONFIGS && g->status == CUDNN_STATUS_SUCCESS;
         made += g->status == CUDNN_STATUS_SUCCESS)
        note(g,
             g->dnn->BackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[made]));
    int64_t found = get(g, heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                        made, configs);
    for (int64_t i = 0; i < found && i < made && !s->plan->plan; i++) {
        cudnnStatus_t status = try_config(g->dnn, configs[i], s);
        if (status == CUDNN_STATUS_SUCCESS || is_about_description(status))
            continue;
        note(g, status);
        break;
    }
    for (int i = 0; i < made; i++)
        (void)g->dnn->BackendDestroyDescriptor(configs[i]);
}

/* plan->plan stays NULL where there is none. */
static enum ebb_status search(struct cuda_dnn *dnn, struct search *s, struct ebb_error *err)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    s->seen = 0;
    s->plan->conv = *s->conv;
    s->plan->plan = NULL;
    s->plan->workspace_bytes = 0;
    s->plan->algorithm = NO_ENGINE;
    for (size_t m = 0; m < sizeof modes / sizeof *modes && !s->plan->plan; m++) {
        struct graph g = {.dnn = dnn, .status = CUDNN_STATUS_SUCCESS};
        cudnnBackendDescriptor_t all = operation(&g, s->conv);
        ask(&g, all, modes[m], s);
        close_graph(&g);
        if (g.status != CUDNN_STATUS_SUCCESS && !is_about_description(g.status)) {
            char key[KEY];
            key_of(s->conv, key);
            return ebb_fail(err, EBB_EDEVICE, "cuda: convolution %s: cuDNN answers %d", key,
                            (int)g.status);
        }
    }
    return EBB_OK;
}

/* The one that a row of the profile names, made with this version of the library; else the first. */
static enum ebb_status find_plan(struct cuda_dnn *dnn, const struct cuda_dnn_conv *c,
                                 struct cuda_dnn_plan *plan, struct ebb_error *err)
{
    struct search s = {.conv = c, .plan = plan};
    uint64_t ignored;
    bool has_row = cuda_dnn_recall(dnn->profile, c, &ignored, &s.wanted);
    if (has_row && s.wanted == NO_ENGINE)
        return EBB_OK;
    if (has_row)
        EBB_TRY(search(dnn, &s, err));
    if (plan->plan)
        return EBB_OK;
    s.wanted = 0;
    return search(dnn, &s, err);
}

static void close_plan(struct cuda_dnn *dnn, struct cuda_dnn_plan *p)
{
    if (p->plan)
        (void)dnn->BackendDestroyDescriptor(p->plan);
    ebb_free(p);
}

void cuda_dnn_close(struct cuda_dnn *dnn)
{
    if (!dnn)
        return;
    for (size_t i = 0; i < dnn->count; i++)
        close_plan(dnn, dnn->plans[i]);
    if (dnn->handle)
        (void)dnn->Destroy(dnn->handle);
    ebb_strmap_fini(&dnn->places);
    ebb_free(dnn->plans);
    ebb_free(dnn);
}

enum ebb_status cuda_dnn_open(struct cuda_dnn **out, const struct profile *profile,
                              cuda_stream stream, struct ebb_error *err)
{
    struct cuda_dnn *dnn;
    EBB_TRY(ebb_new(&dnn, 1, sizeof *dnn, err));
    dnn->profile = profile;
    dnn->stream = stream;
    ebb_strmap_init(&dnn->places);
    const struct ebb_library_call calls[] = {
#define X(name) {"cudnn" #name, &dnn->name},
        CALLS(X)
#undef X
    };
    enum ebb_status status = cuda_library_load("libcudnn.so.9", "convolutions", calls,
                                               sizeof calls / sizeof *calls, err);
    if (status == EBB_OK && (dnn->Create(&dnn->handle) != CUDNN_STATUS_SUCCESS ||
                             dnn->SetStream(dnn->handle, stream) != CUDNN_STATUS_SUCCESS))
        status = ebb_fail(err, EBB_EDEVICE, "cuda: cuDNN does not start");
    if (status != EBB_OK) {
        cuda_dnn_close(dnn);
        return status;
    }
    *out = dnn;
    return EBB_OK;
}

enum ebb_status cuda_dnn_find(struct cuda_dnn *dnn, const struct cuda_dnn_conv *c,
                              const struct cuda_dnn_plan **plan, struct ebb_error *err)
{
    uint64_t place;
    if (!ebb_strmap_get(&dnn->places, (const char *)c, sizeof *c, &place)) {
        struct cuda_dnn_plan found = {.conv = *c, .algorithm = NO_ENGINE}, *p;
        EBB_TRY(ebb_grow(&dnn->plans, &dnn->capacity, dnn->count + 1, sizeof *dnn->plans, err));
        EBB_TRY(ebb_new(&p, 1, sizeof *p, err));
        place = dnn->count;
        dnn->plans[dnn->count++] = p;
        enum ebb_status status = find_plan(dnn, c, &found, err);
        *p = found;
        EBB_THEN(status, ebb_strmap_put(&dnn->places, (const char *)c, sizeof *c, place, err));
        if (status != EBB_OK) { /* nobody remembers it */
            close_plan(dnn, p);
            dnn->count--;
            return status;
        }
    }
    *plan = dnn->plans[place];
    return EBB_OK;
}

enum ebb_status cuda_dnn_run(struct cuda_dnn *dnn, const struct cuda_dnn_plan *plan, void *x,
                             void *w, void *y, void *workspace, struct ebb_error *err)
{
    struct graph g = {.dnn = dnn, .status = CUDNN_STATUS_SUCCESS};
    int64_t uids[3] = {UID_X, UID_W, UID_Y};
    void *pointers[3] = {x, w, y};
    cudnnBackendDescriptor_t pack = make(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers);
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, uids);
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finalize(&g, pack);
    if (g.status == CUDNN_STATUS_SUCCESS)
        note(&g, dnn->BackendExecute(dnn->handle, plan->plan, pack));
    if (pack)
        (void)dnn->BackendDestroyDescriptor(pack);
    return g.status == CUDNN_STATUS_SUCCESS
               ? EBB_OK
               : ebb_fail(err, EBB_EDEVICE, "cuda: convolution: cuDNN answers %d", (int)g.status);
}

/* ---- rows of a profile ------------------------------------------------------------------------------- */

bool cuda_dnn_recall(const struct profile *profile, const struct cuda_dnn_conv *conv,
                     uint64_t *workspace_bytes, uint64_t *algorithm)
{
    char key[KEY], *end;
    key_of(conv, key);
    const struct profile_row *row = profile_find(profile, ROWS, key);
    if (!row)
        return false;
    *workspace_bytes = row->workspace_bytes;
    *algorithm = strtoull(row->algorithm, &end, 16);
    return !*end;
}

/* This plan or the next of the library's that gives equal bits every time; *made: a plan of its own, to be closed. */
static enum ebb_status find_repeatable(struct cuda_dnn *dnn, const struct cuda_dnn_plan *plan,
                                       struct cuda_dnn_plan *made, struct ebb_error *err)
{
    struct search s = {.conv = &plan->conv, .place = plan->place, .plan = made};
    for (bool is = false; !is; s.place++) {
        EBB_TRY(search(dnn, &s, err));
        if (!made->plan)
            return EBB_OK; /* there is no other: our own kernel */
        enum ebb_status status = cuda_dnn_is_repeatable(dnn, made, dnn->stream, &is, err);
        if (status == EBB_OK && is)
            return EBB_OK;
        (void)dnn->BackendDestroyDescriptor(made->plan);
        made->plan = NULL;
        EBB_TRY(status);
    }
    return EBB_OK;
}

enum ebb_status cuda_dnn_rows(struct cuda_dnn *dnn, bool measures, kernel_row_sink *add, void *to,
                              struct ebb_error *err)
{
    char key[KEY], text[24];
    for (size_t i = 0; i < dnn->count; i++) {
        struct cuda_dnn_plan p = *dnn->plans[i];
        if (measures && p.plan) {
            EBB_TRY(find_repeatable(dnn, dnn->plans[i], &p, err));
            if (p.plan)
                (void)dnn->BackendDestroyDescriptor(p.plan);
        }
        key_of(&p.conv, key);
        snprintf(text, sizeof text, "%" PRIx64, p.algorithm);
        EBB_TRY(add(to,
                    &(struct profile_row){.family = ROWS,
                                          .key = key,
                                          .workspace_bytes = p.workspace_bytes,
                                          .algorithm = text},
                    err));
    }
    return EBB_OK;
}

uint64_t cuda_dnn_version(const struct cuda_dnn *dnn)
{
    return dnn->GetVersion();
}
