/* Rewrites change nothing: a small network with every op that follows a convolution, trained for
 * two steps with all rewrites, with some, with none. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/rng.h"
#include "grad/grad.h"
#include "ops/ops.h"
#include "ops_kit.h"

#define PARAMS 32
#define STEPS 2

struct net {
    struct tensor_session *s;
    tensor_id params[PARAMS], grads[PARAMS], running[PARAMS];
    size_t count, running_count;
    tensor_id x, target, scalars, loss;
};

struct result {
    float loss[STEPS];
    float *values; /* gradients of the last step, then running statistics */
    size_t count;
    int64_t batches;
    uint32_t copies, ops, overwritten;
    uint64_t peak_bytes;
};

static tensor_id param(struct net *n, int rank, const int64_t *dims)
{
    CHECK(n->count < PARAMS);
    return n->params[n->count++] = tensor_leaf(n->s, TENSOR_F32, rank, dims, "w");
}

static tensor_id call(struct net *n, const char *name, const char *json, const tensor_id *in,
                      size_t count)
{
    return ops_kit_call(n->s, name, json, in, count);
}

static tensor_id conv(struct net *n, tensor_id x, int64_t co, int64_t k, const char *json)
{
    int64_t dims[4] = {co, tensor_view_of(n->s, x)->dims[1], k, k};
    tensor_id w = param(n, 4, dims), b = param(n, 1, &co);
    return call(n, "conv2d", json, (tensor_id[]){x, w, b}, 3);
}

static tensor_id norm(struct net *n, tensor_id x)
{
    int64_t c = tensor_view_of(n->s, x)->dims[1], one = 1;
    tensor_id w = param(n, 1, &c), b = param(n, 1, &c), *r = n->running + n->running_count;
    r[0] = tensor_leaf(n->s, TENSOR_F32, 1, &c, "mean");
    r[1] = tensor_leaf(n->s, TENSOR_F32, 1, &c, "var");
    r[2] = tensor_leaf(n->s, TENSOR_I64, 1, &one, "batches");
    n->running_count += 3;
    x = ops_batch_norm_train(n->s, x, w, b, r, 0.1f, 1e-5f);
    for (int i = 0; i < 3; i++)
        tensor_keep(n->s, r[i]);
    return x;
}

/* Residual block, pooling, upsampling with padding, concatenation, slices of channels. */
static void build(struct net *n)
{
    static const char pad1[] = "{\"padding\": 1}";
    n->x = tensor_leaf(n->s, TENSOR_F32, 4, (int64_t[]){2, 3, 13, 10}, "x");
    n->scalars = tensor_leaf(n->s, TENSOR_F32, 1, (int64_t[]){OPS_UPDATE_SCALARS}, "scalars");
    tensor_id a = conv(n, n->x, 32, 3, pad1);
    a = call(n, "relu", NULL, (tensor_id[]){norm(n, a)}, 1);
    tensor_id y = norm(n, conv(n, a, 32, 3, pad1));
    y = call(n, "relu", NULL, (tensor_id[]){ops_add(n->s, y, a)}, 1);
    tensor_id down = call(n, "max_pool2d", "{\"kernel\": 3, \"stride\": 2, \"padding\": 1}", &y, 1);
    down = conv(n, down, 48, 1, NULL);
    down = call(n, "leaky_relu", NULL, &down, 1);
    tensor_id up =
        call(n, "upsample_bilinear2d", "{\"size\": [11, 10], \"align_corners\": true}", &down, 1);
    up = call(n, "pad", "{\"pad\": [0, 0, 1, 1]}", &up, 1);
    tensor_id joined = call(n, "cat", "{\"dim\": 1}", (tensor_id[]){y, up}, 2);
    tensor_id cut = call(n, "slice", "{\"ranges\": [[1, 16, 64, 1], [2, 0, 12, 1]]}", &joined, 1);
    tensor_id z = conv(n, cut, 16, 3, "{\"stride\": 2}");
    z = call(n, "relu", NULL, &z, 1);
    z = call(n, "avg_pool2d", "{\"kernel\": 2}", &z, 1);
    tensor_id odd =
        call(n, "slice", "{\"ranges\": [[1, 3, 10, 1]]}", &z, 1); /* leaves the blocks */
    z = ops_add(n->s, call(n, "adaptive_avg_pool2d", "{\"output_size\": 1}", &z, 1),
                call(n, "mean", NULL, &odd, 1));
    z = ops_reshape(n->s, z, 2, (int64_t[]){2, 16});
    tensor_id w = param(n, 2, (int64_t[]){16, 16}), bias = param(n, 1, (int64_t[]){16});
    z = call(n, "linear", NULL, (tensor_id[]){z, w, bias}, 3);
    z = ops_add(n->s, z, call(n, "relu", NULL, &z, 1)); /* the other reader keeps the plain one */
    z = call(n, "relu", NULL, (tensor_id[]){call(n, "linear", NULL, (tensor_id[]){z, w, bias}, 3)},
             1);
    n->target = tensor_leaf(n->s, TENSOR_I64, 1, (int64_t[]){2}, "target");
    n->loss = call(n, "cross_entropy", NULL, (tensor_id[]){z, n->target}, 2);
}

static void fill(const struct net *n, const struct ops_host *h, tensor_id id, uint64_t seed)
{
    const struct tensor_view *v = tensor_view_of(n->s, id);
    float *p = ops_host_tensor(h, tensor_trace_id(n->s, id));
    double scale = v->rank == 4 ? sqrt(2.0 / (double)(v->dims[1] * v->dims[2])) : 1.0;
    for (int64_t i = 0; i < tensor_count(v); i++)
        p[i] = (float)(((double)(ebb_splitmix64(&seed) >> 11) * 0x1p-53 - 0.4) * scale);
}

static struct result train(unsigned passes)
{
    struct net n = {0};
    struct result r = {0};
    struct ebb_error err = {0};
    struct trace *trace;
    struct trace_stats stats;
    struct ops_host host;
    void *backend;
    tensor_id out[1];
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 2, &err), &err);
    ops_backend_set_passes(backend, passes);
    CHECK_OK(tensor_session_create(&n.s, backend, &err), &err);
    build(&n);
    CHECK_OK(grad_backward(n.s, &n.loss, NULL, 1, n.params, n.count, n.grads, &err), &err);
    for (size_t i = 0; i < n.count; i++) {
        n.grads[i] = ops_contiguous(n.s, n.grads[i]);
        tensor_keep(n.s, n.grads[i]);
        ops_update(n.s, OPS_SGD, 0, n.scalars, n.grads[i], n.params[i], NULL, 0, out);
        tensor_keep(n.s, out[0]);
    }
    tensor_keep(n.s, n.loss);
    CHECK_OK(tensor_finish(n.s, "net", &trace, &err), &err);
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    for (uint32_t i = 0; i < trace->op_count; i++) {
        const struct trace_storage *t =
            &trace->storages[trace->tensors[trace->ops[i].output_first].storage];
        if (trace->ops[i].is_leaf)
            memset(ops_host_tensor(&host, trace->ops[i].output_first), 0, (size_t)t->bytes);
        r.copies += strcmp(trace->ops[i].kind->name, "copy") == 0;
        r.overwritten += trace->ops[i].kind->purity == TRACE_MUTATING &&
                         !strstr(trace->ops[i].kind->name, "update");
    }
    r.ops = trace->op_count;
    CHECK_OK(trace_stats_compute(trace, &stats, &err), &err);
    r.peak_bytes = stats.baseline_bytes;
    for (size_t i = 0; i < n.count; i++)
        fill(&n, &host, n.params[i], 100 + i);
    fill(&n, &host, n.x, 7);
    float *scalars = ops_host_tensor(&host, tensor_trace_id(n.s, n.scalars));
    ops_update_scalars(OPS_SGD, &(struct ops_scalars){.rate = 0.05, .sign = 1}, scalars);
    for (int k = 0; k < STEPS; k++) {
        CHECK_OK(ops_host_run(&host, &err), &err);
        r.loss[k] = *(float *)ops_host_tensor(&host, tensor_trace_id(n.s, n.loss));
    }
    r.values = ebb_calloc(200000, sizeof *r.values);
    for (size_t i = 0; i < n.count + n.running_count; i++) {
        tensor_id id = i < n.count ? n.grads[i] : n.running[i - n.count];
        const struct tensor_view *v = tensor_view_of(n.s, id);
        const void *data = ops_host_tensor(&host, tensor_trace_id(n.s, id));
        if (v->dtype == TENSOR_I64)
            r.batches = *(const int64_t *)data;
        for (int64_t e = 0; v->dtype == TENSOR_F32 && e < tensor_count(v); e++)
            r.values[r.count++] = ((const float *)data)[e];
    }
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(n.s);
    ops_backend_destroy(backend);
    return r;
}

static double difference(const struct result *a, const struct result *b)
{
    double most = 0, size = 0;
    CHECK_EQ(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        CHECK(isfinite(a->values[i]) && isfinite(b->values[i])); /* fmax would pass over it */
        most = fmax(most, fabs((double)a->values[i] - (double)b->values[i]));
        size = fmax(size, fabs((double)a->values[i]));
    }
    CHECK(size > 0.01 && isfinite(size));
    return most / size;
}

TEST(rewrites__change_nothing)
{
    struct result none = train(0), layout = train(OPS_PASS_LAYOUT | OPS_PASS_WINOGRAD),
                  norms = train(OPS_PASS_NORM), relus = train(OPS_PASS_RELU),
                  both = train(OPS_PASS_LAYOUT | OPS_PASS_WINOGRAD | OPS_PASS_NORM),
                  all =
                      train(~(unsigned)OPS_PASS_SMALL), /* with it no other would have much to do */
        small = train(OPS_PASS_SMALL), gates = train(OPS_PASS_GATE);
    CHECK(memcmp(none.values, gates.values, none.count * sizeof(float)) == 0);
    CHECK(gates.ops < none.ops); /* a sum of gradients is gone */
    CHECK(memcmp(none.values, norms.values, none.count * sizeof(float)) == 0);
    CHECK(memcmp(layout.values, both.values, both.count * sizeof(float)) == 0);
    CHECK(memcmp(layout.loss, both.loss, sizeof both.loss) == 0);
    CHECK(difference(&none, &relus) < 5e-6);
    CHECK(difference(&none, &small) < 5e-6);
    CHECK(difference(&none, &all) < 2e-5);
    for (int k = 0; k < STEPS; k++)
        CHECK(fabsf(none.loss[k] - all.loss[k]) <= 1e-5f * fabsf(none.loss[k]));
    CHECK(norms.ops < none.ops && both.ops < layout.ops);
    CHECK_EQ(all.batches, STEPS);
    CHECK_EQ(none.batches, STEPS);
    ebb_free(none.values);
    ebb_free(layout.values);
    ebb_free(norms.values);
    ebb_free(relus.values);
    ebb_free(both.values);
    ebb_free(all.values);
    ebb_free(small.values);
    ebb_free(gates.values);
}

TEST(writing_over_dead_inputs__changes_no_bit)
{
    const unsigned usual = OPS_PASS_LAYOUT | OPS_PASS_NORM | OPS_PASS_WINOGRAD;
    struct result a = train(0), b = train(OPS_PASS_OVER), c = train(usual),
                  d = train(usual | OPS_PASS_OVER);
    CHECK(memcmp(a.values, b.values, a.count * sizeof(float)) == 0);
    CHECK(memcmp(c.values, d.values, c.count * sizeof(float)) == 0);
    CHECK(a.overwritten == 1 && b.overwritten > 5 && d.overwritten > 5); /* 1: of leaky relu */
    CHECK(b.peak_bytes <= a.peak_bytes && d.peak_bytes <= c.peak_bytes);
    ebb_free(a.values);
    ebb_free(b.values);
    ebb_free(c.values);
    ebb_free(d.values);
}

TEST(the_same_steps__give_the_same_bits)
{
    struct result a = train(~0u), b = train(~0u);
    CHECK(memcmp(a.values, b.values, a.count * sizeof(float)) == 0);
    ebb_free(a.values);
    ebb_free(b.values);
}

/* ---- cross entropy in blocks -------------------------------------------------------------------
 */

#define ROWS 300
#define WIDTH 24
#define CLASSES 500

static void entropy(unsigned passes, enum tensor_dtype dtype, float *loss, float *grads,
                    uint64_t *peak)
{
    struct net n = {0};
    struct ebb_error err = {0};
    struct trace *trace;
    struct ops_host host;
    struct trace_stats stats;
    void *backend;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 2, &err), &err);
    ops_backend_set_passes(backend, passes);
    CHECK_OK(tensor_session_create(&n.s, backend, &err), &err);
    tensor_id x = param(&n, 3, (int64_t[]){3, ROWS / 3, WIDTH});
    tensor_id w = param(&n, 2, (int64_t[]){CLASSES, WIDTH});
    n.target = tensor_leaf(n.s, TENSOR_I64, 1, (int64_t[]){ROWS}, "target");
    tensor_id in[2] = {ops_cast(n.s, x, dtype), ops_cast(n.s, w, dtype)};
    tensor_id y = call(&n, "linear", NULL, in, 2);
    y = ops_reshape(n.s, y, 2, (int64_t[]){ROWS, CLASSES});
    n.loss = call(&n, "cross_entropy", "{\"ignore_index\": 7}", (tensor_id[]){y, n.target}, 2);
    CHECK_OK(grad_backward(n.s, &n.loss, NULL, 1, n.params, n.count, n.grads, &err), &err);
    for (size_t i = 0; i < n.count; i++)
        tensor_keep(n.s, n.grads[i] = ops_contiguous(n.s, n.grads[i]));
    tensor_keep(n.s, n.loss);
    CHECK_OK(tensor_finish(n.s, "entropy", &trace, &err), &err);
    CHECK_OK(trace_stats_compute(trace, &stats, &err), &err);
    *peak = stats.baseline_bytes;
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    fill(&n, &host, x, 1);
    fill(&n, &host, w, 2);
    int64_t *target = ops_host_tensor(&host, tensor_trace_id(n.s, n.target));
    for (int i = 0; i < ROWS; i++)
        target[i] = i % 11 ? (i * 37) % CLASSES : 7;
    CHECK_OK(ops_host_run(&host, &err), &err);
    *loss = *(float *)ops_host_tensor(&host, tensor_trace_id(n.s, n.loss));
    memcpy(grads, ops_host_tensor(&host, tensor_trace_id(n.s, n.grads[0])),
           ROWS * WIDTH * sizeof(float));
    memcpy(grads + ROWS * WIDTH, ops_host_tensor(&host, tensor_trace_id(n.s, n.grads[1])),
           CLASSES * WIDTH * sizeof(float));
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(n.s);
    ops_backend_destroy(backend);
}

static void compare_entropy(unsigned pass, enum tensor_dtype dtype, float loss_error,
                            double grad_error)
{
    static float a[(ROWS + CLASSES) * WIDTH], b[(ROWS + CLASSES) * WIDTH];
    float loss_a, loss_b;
    uint64_t peak_a, peak_b;
    double most = 0, size = 0;
    entropy(0, dtype, &loss_a, a, &peak_a);
    entropy(pass, dtype, &loss_b, b, &peak_b);
    CHECK(fabsf(loss_a - loss_b) <= loss_error * fabsf(loss_a));
    for (size_t i = 0; i < sizeof a / sizeof *a; i++) {
        CHECK(isfinite(a[i]) && isfinite(b[i]));
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)a[i]));
    }
    CHECK(size > 0 && most <= grad_error * size);
    /* of 16 bits the logits are small beside the blocks */
    CHECK(peak_b < peak_a - (dtype == TENSOR_F32 ? ROWS * CLASSES * sizeof(float) : 0));
}

TEST(cross_entropy_in_blocks__is_the_same_in_less_memory)
{
    compare_entropy(OPS_PASS_ENTROPY, TENSOR_F32, 1e-6f, 2e-6);
    compare_entropy(OPS_PASS_HEAD, TENSOR_F32, 1e-6f, 2e-6);
}

/* The other way rounds the logits as well. */
TEST(cross_entropy_in_blocks__of_numbers_of_16_bits)
{
    compare_entropy(OPS_PASS_ENTROPY, TENSOR_BF16, 1e-3f, 1e-2);
    compare_entropy(OPS_PASS_ENTROPY, TENSOR_F16, 1e-4f, 1e-3);
    compare_entropy(OPS_PASS_HEAD, TENSOR_BF16, 1e-3f, 1e-2);
    compare_entropy(OPS_PASS_HEAD, TENSOR_F16, 1e-4f, 1e-3);
}

/* ---- attention on a packed projection ---------------------------------------------------------- */

#define TOKENS 11
#define HEADS 3
#define SIZE 8

/* Loss and gradients of the packed projection; *copies: how many were made. */
static void attend(unsigned passes, const char *options, float *values, uint32_t *copies)
{
    struct net n = {0};
    struct ebb_error err = {0};
    struct trace *trace;
    struct ops_host host;
    void *backend;
    int64_t width = HEADS * SIZE;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 2, &err), &err);
    ops_backend_set_passes(backend, passes);
    CHECK_OK(tensor_session_create(&n.s, backend, &err), &err);
    tensor_id w = param(&n, 3, (int64_t[]){2, TOKENS, 3 * width}), part[3];
    tensor_id x = ops_reshape(n.s, w, 5, (int64_t[]){2, TOKENS, 3, HEADS, SIZE});
    x = call(&n, "permute", "{\"dims\": [2, 0, 3, 1, 4]}", &x, 1);
    x = call(&n, "split", "{\"sizes\": [1, 1, 1], \"dim\": 0}",
             (tensor_id[]){ops_contiguous(n.s, x)}, 1);
    for (uint32_t k = 0; k < 3; k++)
        part[k] = ops_reshape(n.s, (tensor_id){x.v + k}, 4, (int64_t[]){2, HEADS, TOKENS, SIZE});
    tensor_id y = call(&n, "attention", options, part, 3);
    y = call(&n, "permute", "{\"dims\": [0, 2, 1, 3]}", &y, 1);
    y = ops_reshape(n.s, y, 3, (int64_t[]){2, TOKENS, width});
    n.loss = ops_sum_squares(n.s, y);
    CHECK_OK(grad_backward(n.s, &n.loss, NULL, 1, n.params, n.count, n.grads, &err), &err);
    tensor_keep(n.s, n.grads[0] = ops_contiguous(n.s, n.grads[0]));
    tensor_keep(n.s, n.loss);
    CHECK_OK(tensor_finish(n.s, "attention", &trace, &err), &err);
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    *copies = 0;
    for (uint32_t i = 0; i < trace->op_count; i++)
        *copies += strcmp(trace->ops[i].kind->name, "copy") == 0;
    fill(&n, &host, w, 5);
    CHECK_OK(ops_host_run(&host, &err), &err);
    values[0] = *(float *)ops_host_tensor(&host, tensor_trace_id(n.s, n.loss));
    memcpy(values + 1, ops_host_tensor(&host, tensor_trace_id(n.s, n.grads[0])),
           (size_t)(2 * TOKENS * 3 * width) * sizeof(float));
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(n.s);
    ops_backend_destroy(backend);
}

TEST(attention__on_a_packed_projection_has_the_same_bits)
{
    static float a[1 + 2 * TOKENS * 3 * HEADS * SIZE], b[1 + 2 * TOKENS * 3 * HEADS * SIZE];
    static const char *const options[] = {NULL, "{\"causal\": true}", "{\"scale\": 0.3}"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        uint32_t plain, packed;
        attend(0, options[i], a, &plain);
        attend(OPS_PASS_PACKED, options[i], b, &packed);
        CHECK(memcmp(a, b, sizeof a) == 0);
        CHECK(isfinite(a[0]) && a[0] > 0);
        CHECK(plain >= 3);
        CHECK_EQ(packed, 0);
    }
}

TEST(names_of_rewrites__make_sets)
{
    struct ebb_error err = {0};
    const unsigned usual = OPS_PASS_LAYOUT | OPS_PASS_NORM | OPS_PASS_WINOGRAD | OPS_PASS_SMALL;
    static const struct {
        const char *text;
        unsigned passes;
    } cases[] = {{NULL, usual},
                 {"none", 0},
                 {"norm, relu", OPS_PASS_NORM | OPS_PASS_RELU},
                 {"+entropy", usual | OPS_PASS_ENTROPY},
                 {"-norm,+over", (usual & ~(unsigned)OPS_PASS_NORM) | OPS_PASS_OVER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned passes = ~0u;
        CHECK_OK(ops_rewrites_parse(cases[i].text, usual, &passes, &err), &err);
        CHECK_EQ(passes, cases[i].passes);
    }
    static const char *const wrong[] = {"", "nrom", "+none", "norm,,relu", "+"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        unsigned passes = 0;
        CHECK_EQ(ops_rewrites_parse(wrong[i], usual, &passes, &err), EBB_EINPUT);
        CHECK(
            strstr(err.message,
                   "allowed: none, layout, norm, winograd, small, head, entropy, relu, over, gate, "
                   "packed, residual, addend, bias"));
    }
}

/* A trace for looking at needs no kernels. */
TEST(without_a_backend__ops_can_be_recorded)
{
    struct net n = {0};
    struct ebb_error err = {0};
    struct trace *trace;
    CHECK_OK(tensor_session_create(&n.s, NULL, &err), &err);
    build(&n);
    CHECK_OK(grad_backward(n.s, &n.loss, NULL, 1, n.params, n.count, n.grads, &err), &err);
    for (size_t i = 0; i < n.count; i++)
        tensor_keep(n.s, n.grads[i]);
    CHECK_OK(tensor_finish(n.s, "net", &trace, &err), &err);
    CHECK(trace->op_count > 50);
    trace_destroy(trace);
    tensor_session_destroy(n.s);
}

TEST_MAIN()
