/* Convolutions of 16 bits that would convert much are computed some samples at a time: in little memory, to the
 * bits that every sample has alone. */
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

/* Samples first .. first + n - 1: conv(x), and the gradient of the sum of its squares by x. */
static void run(int64_t first, int64_t n, float *y, float *dx, uint32_t *convs)
{
    struct ebb_error err = {0};
    struct tensor_session *s;
    struct trace *trace;
    struct ops_host host;
    void *backend;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 2, &err), &err);
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    tensor_id x = tensor_leaf(s, TENSOR_F32, 4, (int64_t[]){n, CHANNELS, HIGH, WIDE}, "x");
    tensor_id w = tensor_leaf(s, TENSOR_F32, 4, (int64_t[]){CHANNELS, CHANNELS, 3, 3}, "w");
    tensor_id in[2] = {ops_cast(s, x, TENSOR_F16), ops_cast(s, w, TENSOR_F16)}, grad;
    tensor_id out = ops_kit_call(s, "conv2d", "{\"padding\": 1}", in, 2);
    CHECK_EQ(tensor_view_of(s, out)->dtype, TENSOR_F16);
    out = ops_cast(s, ops_contiguous(s, out), TENSOR_F32);
    tensor_id loss = ops_sum_squares(s, out);
    CHECK_OK(grad_backward(s, &loss, NULL, 1, &x, 1, &grad, &err), &err);
    grad = ops_contiguous(s, grad);
    tensor_keep(s, out);
    tensor_keep(s, grad);
    CHECK_OK(tensor_finish(s, "low", &trace, &err), &err);
    for (uint32_t i = 0; i < trace->op_count; i++)
        if (strncmp(trace->ops[i].kind->name, "conv", 4) == 0) {
            CHECK(trace->ops[i].workspace_bytes <= MOST_BYTES);
            ++*convs;
        }
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    float *p = ops_host_tensor(&host, tensor_trace_id(s, x));
    for (size_t i = 0; i < (size_t)n * SAMPLE; i++) {
        uint64_t seed = (uint64_t)first * SAMPLE + i;
        p[i] = (float)((double)(ebb_splitmix64(&seed) >> 11) * 0x1p-53 - 0.4);
    }
    p = ops_host_tensor(&host, tensor_trace_id(s, w));
    for (uint64_t i = 0; i < CHANNELS * CHANNELS * 9; i++)
        p[i] = (float)i / 1000 - 0.3f;
    CHECK_OK(ops_host_run(&host, &err), &err);
    memcpy(y, ops_host_tensor(&host, tensor_trace_id(s, out)), (size_t)n * SAMPLE * sizeof *y);
    memcpy(dx, ops_host_tensor(&host, tensor_trace_id(s, grad)), (size_t)n * SAMPLE * sizeof *dx);
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(s);
    ops_backend_destroy(backend);
}

TEST(samples__come_in_parts_with_the_bits_that_each_has_alone)
{
    float *all[2], *one[2];
    uint32_t convs = 0;
    for (int k = 0; k < 2; k++) {
        all[k] = ebb_alloc(SAMPLES * SAMPLE * sizeof(float));
        one[k] = ebb_alloc(SAMPLE * sizeof(float));
    }
    run(0, SAMPLES, all[0], all[1], &convs);
    CHECK_EQ(convs, 2);
    for (int64_t i = 0; i < SAMPLES; i += SAMPLES - 1) {
        run(i, 1, one[0], one[1], &convs);
        for (int k = 0; k < 2; k++)
            CHECK(memcmp(all[k] + (size_t)i * SAMPLE, one[k], SAMPLE * sizeof(float)) == 0);
    }
    for (int k = 0; k < 2; k++)
        ebb_free(all[k]), ebb_free(one[k]);
}

TEST_MAIN()
