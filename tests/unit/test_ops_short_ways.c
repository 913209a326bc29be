/* Gradients that go a shorter way: the same numbers, with less lying there. Those of a convolution
 * over two tensors side by side are made part by part, so neither what joins them nor its gradient
 * is wanted backwards; that of a relu before a mean is not spread over all places first. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/rng.h"
#include "grad/grad.h"
#include "ops/ops.h"
#include "ops_kit.h"

#define LEAVES 4

struct got {
    float *values;
    size_t count;
    uint32_t joins; /* of more than the weights: they are last read in the forward pass */
};

/* Ops of the backward pass that read what `cat` made of the two. */
static uint32_t late_readers(const struct trace *t)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < t->op_count; i++) {
        for (uint32_t k = 0; k < t->ops[i].input_count; k++) {
            const struct trace_op *from =
                &t->ops[t->tensors[t->inputs[t->ops[i].input_first + k]].op];
            found += t->ops[i].phase == TRACE_BACKWARD && from->phase == TRACE_FORWARD &&
                     strcmp(from->kind->name, "cat") == 0;
        }
    }
    return found;
}

/* Gradients of sum(r * conv(join(a, b), w)) for a, b, w, bias; is_hidden: something stands between,
 * so that the rule does not see the join. */
static struct got gradients(int64_t ca, int64_t cb, bool is_hidden)
{
    struct ebb_error err = {0};
    struct tensor_session *s;
    struct trace *trace;
    struct ops_host host;
    struct got got = {0};
    void *backend;
    tensor_id leaf[LEAVES], grads[LEAVES];
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 2, &err), &err);
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    leaf[0] = tensor_leaf(s, TENSOR_F32, 4, (int64_t[]){3, ca, 9, 7}, "a");
    leaf[1] = tensor_leaf(s, TENSOR_F32, 4, (int64_t[]){3, cb, 9, 7}, "b");
    leaf[2] = tensor_leaf(s, TENSOR_F32, 4, (int64_t[]){24, ca + cb, 3, 3}, "w");
    leaf[3] = tensor_leaf(s, TENSOR_F32, 1, (int64_t[]){24}, "bias");
    tensor_id x = ops_kit_call(s, "cat", "{\"dim\":1}", leaf, 2);
    if (is_hidden)
        x = ops_add_scalar(s, x, 0.0f);
    tensor_id y =
        ops_kit_call(s, "conv2d", "{\"padding\":[1,1]}", (tensor_id[]){x, leaf[2], leaf[3]}, 3);
    y = ops_mul(s, y, y);
    tensor_id loss = ops_kit_call(s, "sum", NULL, &y, 1);
    CHECK_OK(grad_backward(s, &loss, NULL, 1, leaf, LEAVES, grads, &err), &err);
    for (int i = 0; i < LEAVES; i++)
        tensor_keep(s, grads[i] = ops_contiguous(s, grads[i]));
    CHECK_OK(tensor_finish(s, "parts", &trace, &err), &err);
    got.joins = late_readers(trace);
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    got.values = ebb_calloc(100000, sizeof *got.values);
    for (int i = 0; i < LEAVES; i++) {
        uint64_t seed = 11 + (uint64_t)i;
        float *p = ops_host_tensor(&host, tensor_trace_id(s, leaf[i]));
        for (int64_t e = 0; e < tensor_count(tensor_view_of(s, leaf[i])); e++)
            p[e] = (float)((double)(ebb_splitmix64(&seed) >> 11) * 0x1p-53 - 0.5);
    }
    CHECK_OK(ops_host_run(&host, &err), &err);
    for (int i = 0; i < LEAVES; i++) {
        const float *p = ops_host_tensor(&host, tensor_trace_id(s, grads[i]));
        for (int64_t e = 0; e < tensor_count(tensor_view_of(s, leaf[i])); e++)
            got.values[got.count++] = p[e];
    }
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(s);
    ops_backend_destroy(backend);
    return got;
}

static void compare(int64_t ca, int64_t cb)
{
    struct got parts = gradients(ca, cb, false), whole = gradients(ca, cb, true);
    double most = 0, size = 0;
    CHECK_EQ(parts.count, whole.count);
    for (size_t i = 0; i < parts.count; i++) {
        CHECK(isfinite(parts.values[i]) && isfinite(whole.values[i]));
        most = fmax(most, fabs((double)parts.values[i] - (double)whole.values[i]));
        size = fmax(size, fabs((double)whole.values[i]));
    }
    CHECK(size > 1.0);
    CHECK(most <= 1e-5 * size);
    CHECK_EQ(parts.joins, 0);
    ebb_free(parts.values);
    ebb_free(whole.values);
}

TEST(convolution_over_two_parts__has_the_gradients_of_the_whole)
{
    compare(16, 32); /* in blocks */
    compare(5, 3);   /* plain, or brought into blocks */
    compare(16, 3);
}

/* Gradient of sum(mean over places of relu(x) * r); is_hidden: relu does not see the mean. Returns
 * how many ops of the backward pass make something as large as x. */
static uint32_t relu_gradient(bool is_hidden, float *values)
{
    struct ebb_error err = {0};
    struct tensor_session *s;
    struct trace *trace;
    struct ops_host host;
    void *backend;
    const int64_t n = (int64_t)2 * 32 * 6 * 5;
    uint32_t large = 0;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 2, &err), &err);
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    tensor_id x = tensor_leaf(s, TENSOR_F32, 4, (int64_t[]){2, 32, 6, 5}, "x"), grad;
    tensor_id r = tensor_leaf(s, TENSOR_F32, 4, (int64_t[]){2, 32, 1, 1}, "r");
    tensor_id y = ops_kit_call(s, "relu", NULL, &x, 1);
    if (is_hidden)
        y = ops_mul_scalar(s, y, 1.0f);
    y = ops_kit_call(s, "adaptive_avg_pool2d", "{\"output_size\":[1,1]}", &y, 1);
    y = ops_mul(s, y, r);
    tensor_id loss = ops_kit_call(s, "sum", NULL, &y, 1);
    CHECK_OK(grad_backward(s, &loss, NULL, 1, &x, 1, &grad, &err), &err);
    tensor_keep(s, grad = ops_contiguous(s, grad));
    CHECK_OK(tensor_finish(s, "relu", &trace, &err), &err);
    for (uint32_t i = 0; i < trace->op_count; i++)
        large += trace->ops[i].phase == TRACE_BACKWARD &&
                 trace->storages[trace->tensors[trace->ops[i].output_first].storage].bytes >=
                     (uint64_t)n * sizeof(float);
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    for (int k = 0; k < 2; k++) {
        uint64_t seed = 5 + (uint64_t)k;
        float *p = ops_host_tensor(&host, tensor_trace_id(s, k ? r : x));
        for (int64_t e = 0; e < (k ? 64 : n); e++)
            p[e] = (float)((double)(ebb_splitmix64(&seed) >> 11) * 0x1p-53 - 0.5);
    }
    CHECK_OK(ops_host_run(&host, &err), &err);
    memcpy(values, ops_host_tensor(&host, tensor_trace_id(s, grad)), (size_t)n * sizeof *values);
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(s);
    ops_backend_destroy(backend);
    return large;
}

TEST(relu_before_a_mean__has_a_gradient_that_is_not_spread_first)
{
    static float short_way[1920], long_way[1920];
    double most = 0;
    CHECK_EQ(relu_gradient(false, short_way), 1);
    CHECK(relu_gradient(true, long_way) > 1);
    for (int i = 0; i < 1920; i++) {
        CHECK(fabs((double)short_way[i] - (double)long_way[i]) < 1e-8);
        most = fmax(most, fabs((double)short_way[i]));
    }
    CHECK(most > 0.01);
}

TEST_MAIN()
