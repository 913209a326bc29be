/* Which of cuDNN's configurations a convolution takes, on a library that is made up here: a function of the description, the
 * library and the profile, and of nothing else; what does not repeat is passed over by measuring. */
#include "test.h"

#include <stdio.h>

#include <cudnn_graph.h>

#include "fake_cuda.h"

#include "base/heap.h"
#include "cuda/dnn.h"
#include "cuda/library.h"
#include "profile/profile.h"

static struct ebb_error err;

/* ---- the library -------------------------------------------------------------------------------- */

#define MOST 4
#define VERSION 91400

struct candidate {
    cudnnStatus_t status; /* of its plan */
    bool is_noted;        /* as not repeatable */
    bool is_unstable;     /* without a word */
    int64_t bytes;
};

struct descriptor {
    cudnnBackendDescriptorType_t type;
    int index; /* of the candidate */
};

static struct {
    struct candidate list[MOST];
    int count;
    cudnnStatus_t heuristic;
    int open, runs[MOST];
    uint64_t noise;
} lib;

static struct descriptor *as_descriptor(cudnnBackendDescriptor_t d)
{
    return (struct descriptor *)d;
}

static cudnnStatus_t lib_create(cudnnHandle_t *handle)
{
    static int any;
    *handle = (cudnnHandle_t)(void *)&any;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t lib_destroy(cudnnHandle_t handle)
{
    (void)handle;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t lib_set_stream(cudnnHandle_t handle, cudaStream_t stream)
{
    (void)handle, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}

static size_t lib_version(void)
{
    return VERSION;
}

static cudnnStatus_t lib_make(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *d)
{
    struct descriptor *made = calloc(1, sizeof *made);
    made->type = type;
    made->index = -1;
    lib.open++;
    *d = made;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t lib_free(cudnnBackendDescriptor_t d)
{
    lib.open -= d != NULL;
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t lib_set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t count, const void *value)
{
    (void)type, (void)count;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
        as_descriptor(d)->index = (*(struct descriptor *const *)value)->index;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t lib_get(const cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t count, int64_t *found,
                             void *value)
{
    int index = as_descriptor(d)->index;
    (void)type;
    *found = 1;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        for (*found = 0; *found < lib.count && *found < count; ++*found)
            ((struct descriptor **)value)[*found]->index = (int)*found;
        break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        (*(struct descriptor **)value)->index = index;
        break;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        *found = lib.list[index].is_noted;
        *(cudnnBackendNumericalNote_t *)value = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        break;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        *(int64_t *)value = 7; /* configurations of one engine */
        break;
    default:
        *(int64_t *)value = lib.list[index].bytes;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t lib_finalize(cudnnBackendDescriptor_t d)
{
    const struct descriptor *x = as_descriptor(d);
    return x->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ? lib.list[x->index].status
           : x->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR   ? lib.heuristic
                                                              : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t lib_execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                 cudnnBackendDescriptor_t pack)
{
    int index = as_descriptor(plan)->index;
    (void)handle, (void)pack;
    lib.runs[index]++;
    lib.noise += lib.list[index].is_unstable && lib.runs[index] % 13 == 0; /* not at once */
    return CUDNN_STATUS_SUCCESS;
}

enum ebb_status cuda_library_load(const char *file, const char *what,
                                  const struct ebb_library_call *calls, size_t count,
                                  struct ebb_error *e)
{
    (void)file, (void)what, (void)e;
#define CALL(name, call)                                                                           \
    {                                                                                              \
        "cudnn" #name,                                                                             \
        {                                                                                          \
            .name = call                                                                           \
        }                                                                                          \
    }
    const struct {
        const char *name;
        union {
            __typeof__(&cudnnCreate) Create;
            __typeof__(&cudnnDestroy) Destroy;
            __typeof__(&cudnnSetStream) SetStream;
            __typeof__(&cudnnGetVersion) GetVersion;
            __typeof__(&cudnnBackendCreateDescriptor) BackendCreateDescriptor;
            __typeof__(&cudnnBackendDestroyDescriptor) BackendDestroyDescriptor;
            __typeof__(&cudnnBackendSetAttribute) BackendSetAttribute;
            __typeof__(&cudnnBackendGetAttribute) BackendGetAttribute;
            __typeof__(&cudnnBackendFinalize) BackendFinalize;
            __typeof__(&cudnnBackendExecute) BackendExecute;
        } call;
    } all[] = {CALL(Create, lib_create),
               CALL(Destroy, lib_destroy),
               CALL(SetStream, lib_set_stream),
               CALL(GetVersion, lib_version),
               CALL(BackendCreateDescriptor, lib_make),
               CALL(BackendDestroyDescriptor, lib_free),
               CALL(BackendSetAttribute, lib_set),
               CALL(BackendGetAttribute, lib_get),
               CALL(BackendFinalize, lib_finalize),
               CALL(BackendExecute, lib_execute)};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            if (strcmp(calls[i].name, all[k].name) == 0)
                memcpy(calls[i].place, &all[k].call, sizeof all[k].call);
    return EBB_OK;
}

int cuda_noise(int64_t words, uint64_t seed, void *to, cuda_stream stream)
{
    (void)words, (void)seed, (void)to;
    return (int)fake_enqueue(stream);
}

int cuda_fingerprint(int64_t words, const void *x, uint64_t *sum, cuda_stream stream)
{
    (void)words, (void)x;
    *sum = lib.noise;
    return (int)fake_enqueue(stream);
}

/* ---- the tests ----------------------------------------------------------------------------------- */

static void begin(const struct candidate *list, int count)
{
    fake_begin();
    memset(&lib, 0, sizeof lib);
    memcpy(lib.list, list, (size_t)count * sizeof *list);
    lib.count = count;
}

static struct cuda_dnn_conv some_conv(void)
{
    struct cuda_dnn_conv c;
    memset(&c, 0, sizeof c);
    c.pass = KERNEL_CONV_WEIGHTS;
    c.rank = 4;
    c.dtype = KERNEL_BF16;
    for (int k = 0; k < 4; k++)
        c.x[k] = c.y[k] = c.w[k] = 8;
    return c;
}

/* The bytes of the plan tell which it is; 0: none; -1: an error. */
static int64_t found_by(const struct profile *profile)
{
    struct cuda_dnn *dnn;
    const struct cuda_dnn_plan *plan;
    struct cuda_dnn_conv c = some_conv();
    int64_t bytes = -1;
    CHECK_OK(cuda_dnn_open(&dnn, profile, NULL, &err), &err);
    if (cuda_dnn_find(dnn, &c, &plan, &err) == EBB_OK) {
        bytes = plan->plan ? (int64_t)plan->workspace_bytes : 0;
        CHECK((plan->plan == NULL) == (plan->algorithm == 1));
    }
    cuda_dnn_close(dnn);
    CHECK_EQ(lib.open, 0);
    return bytes;
}

TEST(a_configuration_that_is_not_for_this__leads_to_the_next)
{
    static const cudnnStatus_t statuses[] = {
        CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
        CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT, CUDNN_STATUS_BAD_PARAM};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        struct candidate list[] = {{.bytes = 100, .is_noted = true},
                                   {.bytes = 200, .status = statuses[i]},
                                   {.bytes = 300}};
        begin(list, 3);
        CHECK_EQ(found_by(profile_builtin()), 300);
        begin(list, 2);
        CHECK_EQ(found_by(profile_builtin()), 0); /* our own kernel */
    }
}

TEST(a_failure_of_this_moment__is_an_error_and_no_choice)
{
    static const cudnnStatus_t statuses[] = {CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
                                             CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                                             CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED,
                                             CUDNN_STATUS_EXECUTION_FAILED,
                                             CUDNN_STATUS_NOT_INITIALIZED};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        char code[16];
        struct candidate list[] = {{.bytes = 100, .is_noted = true},
                                   {.bytes = 200, .status = statuses[i]},
                                   {.bytes = 300}};
        snprintf(code, sizeof code, "%d", (int)statuses[i]);
        begin(list, 3);
        CHECK_EQ(found_by(profile_builtin()), -1);
        CHECK(strstr(err.message, code) && strstr(err.message, "weights:bf16"));
        begin(list, 1);
        lib.heuristic = statuses[i];
        CHECK_EQ(found_by(profile_builtin()), -1);
    }
}

/* ---- measured -------------------------------------------------------------------------------------- */

static enum ebb_status add_row(void *to, const struct profile_row *row, struct ebb_error *e)
{
    return profile_add_row(to, row, e);
}

static struct profile *measured(bool measures)
{
    struct profile *profile;
    struct cuda_dnn *dnn;
    const struct cuda_dnn_plan *plan;
    struct cuda_dnn_conv c = some_conv();
    CHECK_OK(profile_create(&profile, "fake", &err), &err);
    CHECK_OK(cuda_dnn_open(&dnn, profile_builtin(), NULL, &err), &err);
    CHECK_OK(cuda_dnn_find(dnn, &c, &plan, &err), &err);
    CHECK_OK(cuda_dnn_rows(dnn, measures, add_row, profile, &err), &err);
    cuda_dnn_close(dnn);
    CHECK_EQ(lib.open, 0);
    CHECK_OK(profile_finish(profile, &err), &err);
    return profile;
}

TEST(what_does_not_repeat__is_passed_over_and_the_row_chooses)
{
    struct candidate list[] = {
        {.bytes = 100, .is_unstable = true}, {.bytes = 100, .is_unstable = true}, {.bytes = 300}};
    uint64_t bytes, algorithm;
    struct cuda_dnn_conv c = some_conv();
    begin(list, 3);
    CHECK_EQ(found_by(profile_builtin()), 100); /* by its word */
    struct profile *plain = measured(false);
    CHECK_EQ(lib.runs[0], 0);
    CHECK_EQ(found_by(plain), 100);
    struct profile *profile = measured(true);
    CHECK(lib.runs[0] < 20 && lib.runs[2] == 20);
    CHECK(cuda_dnn_recall(profile, &c, &bytes, &algorithm) && bytes == 300);
    CHECK_EQ(found_by(profile), 300);
    lib.count = 2; /* another library: the row says nothing */
    CHECK_EQ(found_by(profile), 100);
    profile_destroy(plain);
    profile_destroy(profile);
    begin(list, 2);
    profile = measured(true); /* none that repeats: our own kernel */
    CHECK_EQ(found_by(profile), 0);
    profile_destroy(profile);
}

/* Two configurations of one engine, equal workspaces: the row tells them apart. */
TEST(configurations_of_one_engine__have_names_of_their_own)
{
    struct candidate list[] = {{.bytes = 100, .is_unstable = true}, {.bytes = 100}};
    const struct cuda_dnn_plan *plan;
    struct cuda_dnn_conv c = some_conv();
    struct cuda_dnn *dnn;
    begin(list, 2);
    struct profile *profile = measured(true);
    CHECK_OK(cuda_dnn_open(&dnn, profile, NULL, &err), &err);
    CHECK_OK(cuda_dnn_find(dnn, &c, &plan, &err), &err);
    CHECK_EQ(plan->place, 1);
    CHECK_EQ(((struct descriptor *)plan->plan)->index, 1);
    cuda_dnn_close(dnn);
    profile_destroy(profile);
}

TEST_MAIN()
