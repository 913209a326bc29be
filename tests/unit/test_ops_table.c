/* Ops and the table of kernels: what a table answers while ops are recorded is in the trace. */
#include "test.h"

#include "base/heap.h"
#include "kernel/kernel.h"
#include "ops/ops.h"

/* ---- a table like the cpu's that answers something else ---------------------------------------- */

static uint64_t algorithm; /* of every call */
static bool takes_all;
static struct kernel_table planted;

static enum ebb_status open(struct kernel_context **context, struct device *device,
                            const struct profile *profile, int threads, struct ebb_error *err)
{
    EBB_TRY(kernel_cpu.open(context, device, profile, threads, err));
    ((struct kernel_head *)*context)->table = &planted;
    return EBB_OK;
}

static bool takes(const struct kernel_context *context, enum kernel_family family, const void *desc,
                  const struct kernel_args *types)
{
    return takes_all || kernel_cpu.takes(context, family, desc, types);
}

static enum ebb_status need(struct kernel_context *context, enum kernel_family family,
                            const void *desc, const struct kernel_args *types,
                            struct kernel_need *answer, struct ebb_error *err)
{
    EBB_TRY(kernel_cpu.need(context, family, desc, types, answer, err));
    answer->algorithm = algorithm;
    return EBB_OK;
}

struct result {
    struct ebb_hash128 signature;
    uint64_t workspace_bytes;
    uint8_t dtype;
    float sum;
};

/* sum(leaky_relu(x)) for x of a type; run unless the table takes what the cpu cannot. */
static struct result record(enum tensor_dtype dtype)
{
    struct result r;
    struct tensor_session *s;
    struct trace *t;
    void *backend;
    struct ebb_error err;
    planted = kernel_cpu;
    planted.open = open;
    planted.takes = takes;
    planted.need = need;
    CHECK_OK(ops_backend_create(&backend, &planted, NULL, NULL, 1, &err), &err);
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    tensor_id x = tensor_leaf(s, dtype, 1, (int64_t[]){64}, "x"), y, z;
    size_t count;
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    CHECK_OK(ops_parse(ops_find("leaky_relu"), NULL, attr, &err), &err);
    ops_call(s, ops_find("leaky_relu"), &x, 1, attr, &y, &count);
    r.dtype = tensor_view_of(s, y)->dtype;
    z = ops_sum(s, y);
    tensor_keep(s, z);
    CHECK_OK(tensor_finish(s, "test", &t, &err), &err);
    r.signature = trace_signature(t);
    r.workspace_bytes = 0;
    for (uint32_t i = 0; i < t->op_count; i++)
        r.workspace_bytes += t->ops[i].workspace_bytes;
    if (!takes_all) {
        struct ops_host host;
        CHECK_OK(ops_host_create(&host, t, backend, &err), &err);
        uint16_t *low = ops_host_tensor(&host, tensor_trace_id(s, x));
        float *whole = ops_host_tensor(&host, tensor_trace_id(s, x));
        for (int i = 0; i < 64; i++)
            if (dtype == TENSOR_F32)
                whole[i] = 2.0f;
            else
                low[i] = 0x4000;
        CHECK_OK(ops_host_run(&host, &err), &err);
        r.sum = *(const float *)ops_host_tensor(&host, tensor_trace_id(s, z));
        ops_host_destroy(&host);
    }
    trace_destroy(t);
    tensor_session_destroy(s);
    ops_backend_destroy(backend);
    return r;
}

TEST(an_algorithm__is_part_of_the_signature)
{
    for (int k = 0; k < 2; k++) { /* converted calls, too */
        enum tensor_dtype dtype = k ? TENSOR_BF16 : TENSOR_F32;
        algorithm = 0;
        struct result one = record(dtype);
        algorithm = 7;
        struct result other = record(dtype), again = record(dtype);
        CHECK(memcmp(&one.signature, &other.signature, sizeof one.signature) != 0);
        CHECK(memcmp(&again.signature, &other.signature, sizeof one.signature) == 0);
        CHECK(one.sum == 128.0f && other.sum == 128.0f);
        algorithm = 0;
    }
}

TEST(numbers_of_16_bits__are_converted_where_they_are_not_taken)
{
    struct result converted = record(TENSOR_BF16);
    takes_all = true;
    struct result taken = record(TENSOR_BF16);
    takes_all = false;
    CHECK_EQ(converted.dtype, TENSOR_BF16);
    CHECK_EQ(taken.dtype, TENSOR_BF16);
    CHECK(converted.workspace_bytes > 0);
    CHECK_EQ(taken.workspace_bytes, 0);
}

TEST_MAIN()
