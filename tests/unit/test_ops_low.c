/* Convolutions of 16 bits that would convert much are computed some samples at a time, poolings some
 * planes: in little memory, to the bits that every one has alone. */
#include "test.h"

#include "base/heap.h"
#include "base/rng.h"
#include "grad/grad.h"
#include "ops/internal.h"
#include "ops/ops.h"
#include "ops_kit.h"

#define SAMPLES 5
#define CHANNELS 16
#define HIGH 350
#define WIDE 600
#define SAMPLE ((size_t)CHANNELS * HIGH * WIDE)
#define MOST_BYTES (UINT64_C(80) << 20) /* about 64 MiB, weights and the library's own */
#define MOST_POOL_BYTES (UINT64_C(66) << 20)

/* Samples first .. first + n - 1: conv(x), and the gradient of the sum of its squares by x; pooled:
 * samples are groups of planes of one. */
static void run(const char *pool, int64_t first, int64_t n, float *y, float *dx, uint32_t *ops)
{
    struct ebb_error err = {0};
    struct tensor_session *s;
    struct trace *trace;
    struct ops_host host;
    void *backend;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 2, &err), &err);
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    int64_t dims[4] = {pool ? 1 : n, pool ? n * CHANNELS : CHANNELS, HIGH, WIDE};
    tensor_id x = tensor_leaf(s, TENSOR_F32, 4, dims, "x");
    tensor_id w = tensor_leaf(s, TENSOR_F32, 4, (int64_t[]){CHANNELS, CHANNELS, 3, 3}, "w");
    tensor_id in[2] = {ops_cast(s, x, TENSOR_F16), ops_cast(s, w, TENSOR_F16)}, grad;
    tensor_id out = pool ? ops_kit_call(s, pool, "{\"kernel\": [2, 2]}", in, 1)
                         : ops_kit_call(s, "conv2d", "{\"padding\": 1}", in, 2);
    size_t size = SAMPLE / (pool ? 4 : 1);
    CHECK_EQ(tensor_view_of(s, out)->dtype, TENSOR_F16);
    out = ops_cast(s, ops_contiguous(s, out), TENSOR_F32);
    tensor_id loss = ops_sum_squares(s, out);
    CHECK_OK(grad_backward(s, &loss, NULL, 1, &x, 1, &grad, &err), &err);
    grad = ops_contiguous(s, grad);
    tensor_keep(s, out);
    tensor_keep(s, grad);
    CHECK_OK(tensor_finish(s, "low", &trace, &err), &err);
    for (uint32_t i = 0; i < trace->op_count; i++)
        if (strncmp(trace->ops[i].kind->name, pool ? pool : "conv", pool ? 3 : 4) == 0) {
            CHECK(trace->ops[i].workspace_bytes <= (pool ? MOST_POOL_BYTES : MOST_BYTES));
            ++*ops;
        }
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    float *p = ops_host_tensor(&host, tensor_trace_id(s, x));
    for (size_t i = 0; i < (size_t)n * SAMPLE; i++) {
        uint64_t seed = (uint64_t)first * SAMPLE + i;
        p[i] = (float)((double)(ebb_splitmix64(&seed) >> 11) * 0x1p-53 - 0.4);
    }
    p = pool ? NULL : ops_host_tensor(&host, tensor_trace_id(s, w));
    for (uint64_t i = 0; p && i < CHANNELS * CHANNELS * 9; i++)
        p[i] = (float)i / 1000 - 0.3f;
    CHECK_OK(ops_host_run(&host, &err), &err);
    memcpy(y, ops_host_tensor(&host, tensor_trace_id(s, out)), (size_t)n * size * sizeof *y);
    memcpy(dx, ops_host_tensor(&host, tensor_trace_id(s, grad)), (size_t)n * SAMPLE * sizeof *dx);
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(s);
    ops_backend_destroy(backend);
}

static void come_in_parts(const char *pool)
{
    float *all[2], *one[2];
    uint32_t ops = 0;
    for (int k = 0; k < 2; k++) {
        all[k] = ebb_alloc(SAMPLES * SAMPLE * sizeof(float));
        one[k] = ebb_alloc(SAMPLE * sizeof(float));
    }
    run(pool, 0, SAMPLES, all[0], all[1], &ops);
    CHECK_EQ(ops, 2);
    for (int64_t i = 0; i < SAMPLES; i += SAMPLES - 1) {
        run(pool, i, 1, one[0], one[1], &ops);
        for (int k = 0; k < 2; k++) {
            size_t size = SAMPLE / (pool && k == 0 ? 4 : 1);
            CHECK(memcmp(all[k] + (size_t)i * size, one[k], size * sizeof(float)) == 0);
        }
    }
    for (int k = 0; k < 2; k++)
        ebb_free(all[k]), ebb_free(one[k]);
}

TEST(samples__come_in_parts_with_the_bits_that_each_has_alone)
{
    come_in_parts(NULL);
}

TEST(planes__come_in_parts_with_the_bits_that_each_has_alone)
{
    come_in_parts("max_pool2d");
    come_in_parts("avg_pool2d");
}

TEST_MAIN()
