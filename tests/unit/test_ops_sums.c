/* Gradients of weights that several steps share: each step's product is added to the sum so far, in its place. A small
 * net with a state, with the rewrite and without. */
#include "test.h"

#include <math.h>

#include "base/heap.h"
#include "base/rng.h"
#include "grad/grad.h"
#include "ops/ops.h"
#include "ops_kit.h"

#define ROWS 3
#define WIDTH 20

struct net {
    struct tensor_session *s;
    tensor_id w, u, x, gw, gu;
    enum tensor_dtype dtype;
    int steps;
    bool is_twice;  /* gradients of gradients */
    bool is_square; /* the weights are multiplied with themselves, too: last */
    bool is_square_first;
};

struct result {
    float values[1 + 2 * WIDTH * WIDTH];
    uint32_t ops, adds, sums, in_place, storages;
};

static tensor_id low(const struct net *n, tensor_id x)
{
    return n->dtype == TENSOR_F32 ? x : ops_cast(n->s, x, n->dtype);
}

static tensor_id square(struct net *n, tensor_id w)
{
    return ops_sum_squares(n->s, ops_kit_call(n->s, "linear", NULL, (tensor_id[]){w, w}, 2));
}

static tensor_id build(struct net *n)
{
    n->w = tensor_leaf(n->s, TENSOR_F32, 2, (int64_t[]){WIDTH, WIDTH}, "w");
    n->u = tensor_leaf(n->s, TENSOR_F32, 2, (int64_t[]){WIDTH, WIDTH}, "u");
    n->x = tensor_leaf(n->s, TENSOR_F32, 2, (int64_t[]){ROWS, WIDTH}, "x");
    tensor_id w = low(n, n->w), u = low(n, n->u), h = low(n, n->x);
    tensor_id loss = n->is_square_first ? square(n, w) : TENSOR_NONE;
    for (int t = 0; t < n->steps; t++) {
        tensor_id y = ops_kit_call(n->s, "linear", NULL, (tensor_id[]){h, w}, 2);
        tensor_id z = ops_kit_call(n->s, "linear", NULL, (tensor_id[]){ops_mul(n->s, h, h), u}, 2);
        y = ops_add(n->s, y, z);
        h = ops_kit_call(n->s, "tanh", NULL, &y, 1);
    }
    tensor_id end = ops_sum_squares(n->s, h);
    loss = loss.v ? ops_add(n->s, loss, end) : end;
    return n->is_square ? ops_add(n->s, loss, square(n, w)) : loss;
}

static void differentiate(struct net *n, tensor_id loss)
{
    struct ebb_error err = {0};
    tensor_id g[2], params[] = {n->w, n->u};
    CHECK_OK(grad_backward(n->s, &loss, NULL, 1, params, 2, g, &err), &err);
    if (n->is_twice) {
        tensor_id norm = ops_add(n->s, ops_sum_squares(n->s, g[0]), ops_sum_squares(n->s, g[1]));
        CHECK_OK(grad_backward(n->s, &norm, NULL, 1, params, 2, g, &err), &err);
    }
    n->gw = g[0];
    n->gu = g[1];
    tensor_keep(n->s, loss);
    tensor_keep(n->s, n->gw);
    tensor_keep(n->s, n->gu);
}

static void count_ops(const struct trace *t, struct result *r)
{
    r->ops = t->op_count;
    r->storages = t->storage_count;
    for (uint32_t i = 0; i < t->op_count; i++) {
        bool is_sum = strcmp(t->ops[i].kind->name, "matmul_add") == 0;
        r->adds += strcmp(t->ops[i].kind->name, "add") == 0;
        r->sums += is_sum;
        r->in_place += is_sum && t->ops[i].kind->purity == TRACE_MUTATING;
    }
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
    CHECK_OK(tensor_finish(n.s, "sums", &trace, &err), &err);
    count_ops(trace, r);
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    uint64_t seed = 5;
    tensor_id leaves[] = {n.w, n.u, n.x}, results[] = {loss, n.gw, n.gu};
    for (int k = 0; k < 3; k++) {
        float *p = ops_host_tensor(&host, tensor_trace_id(n.s, leaves[k]));
        for (int64_t i = 0; i < tensor_count(tensor_view_of(n.s, leaves[k])); i++)
            p[i] = (float)(((double)(ebb_splitmix64(&seed) >> 11) * 0x1p-53 - 0.5) * 0.5);
    }
    CHECK_OK(ops_host_run(&host, &err), &err);
    size_t at = 0;
    for (int k = 0; k < 3; k++) {
        const struct tensor_view *v = tensor_view_of(n.s, results[k]);
        const float *p = ops_host_tensor(&host, tensor_trace_id(n.s, results[k]));
        CHECK_EQ(v->dtype, TENSOR_F32);
        for (int64_t i = 0; i < tensor_count(v); i++)
            r->values[at++] = p[i];
    }
    CHECK_EQ(at, sizeof r->values / sizeof *r->values);
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(n.s);
    ops_backend_destroy(backend);
    return r;
}

static void check_near(const struct result *a, const struct result *b, double most)
{
    double size = 0;
    size_t count = sizeof a->values / sizeof *a->values;
    for (size_t i = 1; i < count; i++)
        size = fmax(size, fabs((double)a->values[i]));
    CHECK(size > 1e-3);
    for (size_t i = 1; i < count; i++)
        CHECK(fabs((double)a->values[i] - (double)b->values[i]) <= most * size);
}

TEST(a_sum_of_many__stays_where_it_is)
{
    struct net n = {.dtype = TENSOR_F32, .steps = 6};
    struct result *none = run(n, 0), *sums = run(n, OPS_PASS_SUMS);
    CHECK_EQ(none->sums, 0);
    CHECK_EQ(sums->sums, 10); /* all but the first of each */
    CHECK_EQ(sums->in_place, 10);
    CHECK_EQ(sums->adds, none->adds - 10);
    CHECK_EQ(sums->ops, none->ops - 10);
    CHECK_EQ(sums->storages, none->storages - 20);
    check_near(none, sums, 1e-6);
    ebb_free(none);
    ebb_free(sums);
}

TEST(a_sum_of_two__can_be_made_again)
{
    struct net n = {.dtype = TENSOR_F32, .steps = 2};
    struct result *none = run(n, 0), *sums = run(n, OPS_PASS_SUMS);
    CHECK_EQ(sums->sums, 2);
    CHECK_EQ(sums->in_place, 0);
    CHECK_EQ(sums->storages, none->storages - 2);
    check_near(none, sums, 1e-6);
    ebb_free(none);
    ebb_free(sums);
}

TEST(numbers_of_16_bits__are_added_in_full)
{
    static const enum tensor_dtype low_ones[] = {TENSOR_BF16, TENSOR_F16};
    for (int k = 0; k < 2; k++) {
        struct net n = {.dtype = low_ones[k], .steps = 5};
        struct result *none = run(n, 0), *sums = run(n, OPS_PASS_SUMS);
        CHECK_EQ(sums->sums, 8);
        CHECK_EQ(sums->adds, none->adds - 8);
        check_near(none, sums, 1e-6);
        ebb_free(none);
        ebb_free(sums);
    }
}

TEST(the_second_derivative__goes_through_the_sums)
{
    struct net n = {.dtype = TENSOR_F32, .steps = 4, .is_twice = true};
    struct result *none = run(n, 0), *sums = run(n, OPS_PASS_SUMS);
    CHECK(sums->sums >= 6);
    check_near(none, sums, 1e-6);
    ebb_free(none);
    ebb_free(sums);
}

TEST(weights_that_are_their_own_input__get_both_gradients)
{
    for (int k = 1; k < 4; k++) {
        struct net n = {
            .dtype = TENSOR_F32, .steps = 3, .is_square = k & 1, .is_square_first = k >> 1};
        struct result *none = run(n, 0), *sums = run(n, OPS_PASS_SUMS);
        CHECK(sums->sums >= 4);
        check_near(none, sums, 1e-6);
        ebb_free(none);
        ebb_free(sums);
    }
}

TEST_MAIN()
