/* Ops that have another one in them: a linear layer with what is added to it, the gradient of a layer
 * norm with what its input got before, the gradient of a gelu with that of a bias. Two blocks of a
 * transformer without attention, with each rewrite and without: the same bits in float32. */
#include "test.h"

#include <math.h>

#include "base/heap.h"
#include "base/rng.h"
#include "grad/grad.h"
#include "ops/ops.h"
#include "ops_kit.h"

#define ROWS 10
#define WIDTH 72 /* more than rows that are summed in double */
#define PARAMS 16
#define ALL (OPS_PASS_RESIDUAL | OPS_PASS_ADDEND | OPS_PASS_BIAS)

struct net {
    struct tensor_session *s;
    enum tensor_dtype dtype;
    tensor_id params[PARAMS], grads[PARAMS], x;
    size_t count;
    bool is_read_before; /* the layer's result is read before the addition */
    bool is_twice;       /* gradients of gradients */
};

struct result {
    float values[60000]; /* the loss, then all gradients */
    size_t count;
    uint32_t ops, products, adds, sums, fused_linear, fused_norm, fused_gelu;
};

static tensor_id param(struct net *n, int rank, const int64_t *dims)
{
    CHECK(n->count < PARAMS);
    return n->params[n->count++] = tensor_leaf(n->s, TENSOR_F32, rank, dims, "w");
}

static tensor_id low(struct net *n, tensor_id x)
{
    return n->dtype == TENSOR_F32 ? x : ops_cast(n->s, x, n->dtype);
}

static tensor_id linear(struct net *n, tensor_id x, int64_t in, int64_t out, bool has_bias)
{
    tensor_id w = low(n, param(n, 2, (int64_t[]){out, in}));
    tensor_id bias = has_bias ? param(n, 1, &out) : TENSOR_NONE;
    return ops_kit_call(n->s, "linear", NULL, (tensor_id[]){x, w, bias}, has_bias ? 3 : 2);
}

/* x + linear(gelu(linear(norm(x)))) */
static tensor_id block(struct net *n, tensor_id x, const char *gelu, bool is_first)
{
    int64_t width = WIDTH;
    char shape[32];
    snprintf(shape, sizeof shape, "{\"shape\": [%d]}", WIDTH);
    tensor_id w = param(n, 1, &width), b = param(n, 1, &width);
    tensor_id y = ops_kit_call(n->s, "layer_norm", shape, (tensor_id[]){x, w, b}, 3);
    y = linear(n, y, WIDTH, 2 * WIDTH + 3, true);
    y = ops_kit_call(n->s, "gelu", gelu, &y, 1);
    y = linear(n, y, 2 * WIDTH + 3, WIDTH, is_first);
    tensor_id in[2] = {is_first ? x : y, is_first ? y : x};
    tensor_id other = n->is_read_before ? ops_kit_call(n->s, "sigmoid", NULL, &y, 1) : TENSOR_NONE;
    tensor_id sum = ops_kit_call(n->s, "add", NULL, in, 2);
    return other.v ? ops_mul(n->s, sum, other) : sum;
}

static void fill(const struct net *n, const struct ops_host *h, tensor_id id, uint64_t seed)
{
    const struct tensor_view *v = tensor_view_of(n->s, id);
    float *p = ops_host_tensor(h, tensor_trace_id(n->s, id));
    double scale = v->rank == 2 ? 1.0 / sqrt((double)v->dims[1]) : 1.0;
    for (int64_t i = 0; i < tensor_count(v); i++)
        p[i] = (float)(((double)(ebb_splitmix64(&seed) >> 11) * 0x1p-53 - 0.4) * scale);
}

static void count_ops(const struct trace *t, struct result *r)
{
    r->ops = t->op_count;
    for (uint32_t i = 0; i < t->op_count; i++) {
        const char *name = t->ops[i].kind->name;
        r->products += strcmp(name, "linear2") == 0 || strcmp(name, "linear_add") == 0;
        r->fused_linear += strcmp(name, "linear_add") == 0;
        r->fused_norm += strcmp(name, "layer_norm_grad_add") == 0;
        r->fused_gelu += strstr(name, "_grad_sums") != NULL;
        r->adds += strcmp(name, "add") == 0;
        r->sums += strcmp(name, "sum") == 0;
    }
}

static void differentiate(struct net *n, tensor_id loss)
{
    struct ebb_error err = {0};
    size_t count = n->count;
    CHECK_OK(grad_backward(n->s, &loss, NULL, 1, n->params, count, n->grads, &err), &err);
    if (n->is_twice) {
        tensor_id norm = TENSOR_NONE;
        for (size_t i = 0; i < count; i++) {
            tensor_id one = ops_sum_squares(n->s, n->grads[i]);
            norm = norm.v ? ops_add(n->s, norm, one) : one;
        }
        CHECK_OK(grad_backward(n->s, &norm, NULL, 1, n->params, count, n->grads, &err), &err);
    }
    tensor_keep(n->s, loss);
    for (size_t i = 0; i < count; i++)
        tensor_keep(n->s, n->grads[i] = ops_contiguous(n->s, n->grads[i]));
}

static tensor_id build(struct net *n)
{
    n->x = tensor_leaf(n->s, TENSOR_F32, 3, (int64_t[]){2, ROWS / 2, WIDTH}, "x");
    tensor_id x = low(n, n->x);
    if (n->is_twice) { /* a layer norm has no second derivative */
        x = linear(n, x, WIDTH, 40, true);
        x = ops_kit_call(n->s, "gelu", "{\"approximate\": \"tanh\"}", &x, 1);
        return ops_sum_squares(n->s, linear(n, x, 40, 5, true));
    }
    x = linear(n, x, WIDTH, WIDTH, true);
    x = block(n, x, "{\"approximate\": \"tanh\"}", true);
    return ops_sum_squares(n->s, block(n, x, NULL, false));
}

static struct result *run(struct net n, unsigned passes)
{
    struct ebb_error err = {0};
    struct trace *trace;
    struct ops_host host;
    struct result *r = ebb_calloc(1, sizeof *r);
    void *backend;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 2, &err), &err);
    ops_backend_set_passes(backend, passes);
    CHECK_OK(tensor_session_create(&n.s, backend, &err), &err);
    tensor_id loss = build(&n);
    differentiate(&n, loss);
    CHECK_OK(tensor_finish(n.s, "epilogue", &trace, &err), &err);
    count_ops(trace, r);
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    fill(&n, &host, n.x, 7);
    for (size_t i = 0; i < n.count; i++)
        fill(&n, &host, n.params[i], 100 + i);
    CHECK_OK(ops_host_run(&host, &err), &err);
    r->values[r->count++] = *(float *)ops_host_tensor(&host, tensor_trace_id(n.s, loss));
    for (size_t i = 0; i < n.count; i++) {
        int64_t many = tensor_count(tensor_view_of(n.s, n.grads[i]));
        const float *from = ops_host_tensor(&host, tensor_trace_id(n.s, n.grads[i]));
        CHECK(r->count + (size_t)many <= sizeof r->values / sizeof *r->values);
        for (int64_t e = 0; e < many; e++)
            r->values[r->count++] = from[e];
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
        CHECK(isfinite(a->values[i]) && isfinite(b->values[i]));
        most = fmax(most, fabs((double)a->values[i] - (double)b->values[i]));
        size = fmax(size, fabs((double)a->values[i]));
    }
    CHECK(size > 0.01);
    return most / size;
}

static void check_same(const struct result *a, const struct result *b)
{
    CHECK_EQ(a->count, b->count);
    CHECK(memcmp(a->values, b->values, a->count * sizeof *a->values) == 0);
}

TEST(each_rewrite__takes_ops_away_and_changes_no_bit)
{
    struct net n = {.dtype = TENSOR_F32};
    struct result *none = run(n, 0), *residual = run(n, OPS_PASS_RESIDUAL),
                  *addend = run(n, OPS_PASS_ADDEND), *bias = run(n, OPS_PASS_BIAS),
                  *all = run(n, ALL);
    check_same(none, residual);
    check_same(none, addend);
    check_same(none, bias);
    check_same(none, all);
    CHECK_EQ(none->fused_linear + none->fused_norm + none->fused_gelu, 0);
    CHECK_EQ(residual->fused_linear, 2); /* one with a bias, one without */
    CHECK_EQ(residual->products, none->products);
    CHECK_EQ(residual->ops, none->ops - 2);
    CHECK_EQ(addend->fused_norm, 2);
    CHECK_EQ(addend->ops, none->ops - 2);
    CHECK_EQ(bias->fused_gelu, 2); /* both functions */
    CHECK_EQ(bias->ops, none->ops - 2);
    CHECK_EQ(all->ops, none->ops - 6);
    CHECK(none->adds == 4 && all->adds == 0 && all->sums == none->sums - 2);
    ebb_free(none);
    ebb_free(residual);
    ebb_free(addend);
    ebb_free(bias);
    ebb_free(all);
}

/* The sum is rounded once instead of twice: no further from float32 than without. */
static void check_low(enum tensor_dtype dtype)
{
    struct net wide = {.dtype = TENSOR_F32}, narrow = {.dtype = dtype};
    struct result *exact = run(wide, 0), *none = run(narrow, 0), *all = run(narrow, ALL);
    CHECK_EQ(all->ops, none->ops - 6);
    double off = difference(exact, none);
    CHECK(off > 0 && difference(exact, all) <= 1.5 * off);
    ebb_free(exact);
    ebb_free(none);
    ebb_free(all);
}

TEST(numbers_of_16_bits__are_rounded_once)
{
    check_low(TENSOR_BF16);
    check_low(TENSOR_F16);
}

TEST(a_layer_that_was_read_before__is_not_made_twice)
{
    struct net n = {.dtype = TENSOR_F32, .is_read_before = true};
    struct result *none = run(n, 0), *all = run(n, ALL);
    check_same(none, all);
    CHECK_EQ(all->fused_linear, 0);
    CHECK_EQ(all->products, none->products);
    ebb_free(none);
    ebb_free(all);
}

TEST(the_second_derivative__goes_through_the_sums)
{
    struct net n = {.dtype = TENSOR_F32, .is_twice = true};
    struct result *none = run(n, 0), *bias = run(n, OPS_PASS_BIAS);
    CHECK(bias->fused_gelu >= 1);
    CHECK(difference(none, bias) < 1e-6);
    ebb_free(none);
    ebb_free(bias);
}

TEST_MAIN()
