/* Weights of linear layers in blocks of rows: which rows, and that the layer is still the same layer. */
#include "test.h"

#include <string.h>

#include "base/heap.h"
#include "grad/grad.h"
#include "nn/nn.h"
#include "ops/ops.h"

enum { BATCH = 3, IN = 5, OUT = 23 };

struct layer { /* of one recording, everything as one array */
    float answer[BATCH * OUT], to_input[BATCH * IN], to_weights[OUT * IN], to_bias[OUT];
};

/* Small whole numbers: no sum of them is rounded, so its order does not matter. */
static void fill(float *to, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)((i * 7 + seed * 3) % 9) - 4;
}

static float *bytes_of(const struct ops_host *host, struct tensor_session *s, tensor_id id)
{
    return ops_host_tensor(host, tensor_trace_id(s, id));
}

/* loss = sum(y * y) / 2 has the gradient y. */
static void run(int64_t tile, int64_t most, bool has_bias, size_t blocks, struct layer *result)
{
    struct ebb_error err = {0};
    struct tensor_session *s;
    struct nn_builder b;
    struct trace *trace;
    struct ops_host host;
    void *backend;
    int64_t dims[2] = {BATCH, IN};
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    nn_builder_init(&b, s, &(struct nn_mode){.is_training = true, .tile = tile, .tile_most = most});
    tensor_id x = tensor_leaf(s, TENSOR_F32, 2, dims, "x");
    struct nn_dense dense = {.out = OUT, .has_no_bias = !has_bias};
    tensor_id y = ops_contiguous(s, nn_linear(&b, "fc", x, &dense));
    CHECK_OK(tensor_status(s, &err), &err);
    const struct nn_item *w = nn_item_find(&b, "fc.weight"), *bias = nn_item_find(&b, "fc.bias");
    CHECK_EQ(w->block_count, blocks);
    tensor_id half = ops_mul_scalar(s, ops_sum_squares(s, y), 0.5f);
    tensor_id wanted[66] = {x}, g[66] = {TENSOR_NONE};
    size_t n = 1, first = n;
    for (size_t k = 0; k < (blocks ? blocks : 1); k++)
        wanted[n++] = blocks ? w->blocks[k] : w->id;
    if (has_bias)
        wanted[n++] = bias->id;
    CHECK_OK(grad_backward(s, &half, NULL, 1, wanted, n, g, &err), &err);
    for (size_t k = 0; k < n; k++)
        tensor_keep(s, g[k] = ops_contiguous(s, g[k]));
    tensor_keep(s, y);
    CHECK_OK(tensor_finish(s, "layer", &trace, &err), &err);
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    float all[OUT * IN];
    fill(all, OUT * IN, 1);
    fill(bytes_of(&host, s, x), BATCH * IN, 2);
    if (has_bias)
        fill(bytes_of(&host, s, bias->leaf), OUT, 3);
    size_t at = 0;
    for (size_t k = 0; k < (blocks ? blocks : 1); k++) {
        tensor_id leaf = blocks ? w->blocks[k] : w->leaf;
        size_t count = (size_t)tensor_count(tensor_view_of(s, leaf));
        memcpy(bytes_of(&host, s, leaf), all + at, count * sizeof *all);
        at += count;
    }
    CHECK_EQ(at, OUT * IN);
    CHECK_OK(ops_host_run(&host, &err), &err);
    memset(result, 0, sizeof *result);
    memcpy(result->answer, bytes_of(&host, s, y), sizeof result->answer);
    memcpy(result->to_input, bytes_of(&host, s, g[0]), sizeof result->to_input);
    at = 0;
    for (size_t k = first; k < first + (blocks ? blocks : 1); k++) {
        size_t count = (size_t)tensor_count(tensor_view_of(s, g[k]));
        memcpy(result->to_weights + at, bytes_of(&host, s, g[k]), count * sizeof(float));
        at += count;
    }
    if (has_bias)
        memcpy(result->to_bias, bytes_of(&host, s, g[n - 1]), sizeof result->to_bias);
    ops_host_destroy(&host);
    trace_destroy(trace);
    nn_builder_fini(&b);
    tensor_session_destroy(s);
    ops_backend_destroy(backend);
}

TEST(blocks__are_the_same_layer)
{
    static const struct {
        int64_t tile, most;
        size_t blocks;
    } cases[] = {
        {OUT * IN, 32, 0}, /* no larger than a block */
        {64, 32, 2},       /* 12 rows, 11 */
        {4 * IN, 32, 6},   /* 4 rows each, 3 at the end */
        {1, 32, 23},       /* a row is the least */
        {1, 4, 4},         /* no more than four */
    };
    struct layer whole, tiled;
    for (int has_bias = 0; has_bias < 2; has_bias++) {
        run(0, 0, has_bias, 0, &whole);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            run(cases[i].tile, cases[i].most, has_bias, cases[i].blocks, &tiled);
            CHECK(memcmp(&whole, &tiled, sizeof whole) == 0);
        }
    }
    CHECK(whole.answer[0] != 0 && whole.to_weights[OUT * IN - 1] != 0);
}

/* A table is looked up whole and gates are read so; kernels and vectors have no rows that are outputs. */
TEST(blocks__are_of_matrices_of_weights_alone)
{
    struct ebb_error err = {0};
    struct tensor_session *s;
    struct nn_builder b;
    void *backend;
    int64_t dims[4] = {40, 40, 3, 3};
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    nn_builder_init(&b, s, &(struct nn_mode){.is_training = true, .tile = 16, .tile_most = 32});
    static const struct {
        const char *layer, *name;
        enum nn_role role;
        int rank;
        size_t blocks;
    } cases[] = {
        {"table", "weight", NN_EMBEDDING, 2, 0},  {"conv", "weight", NN_WEIGHT, 4, 0},
        {"rnn", "weight_ih_l0", NN_WEIGHT, 2, 0}, {"fc", "bias", NN_BIAS, 1, 0},
        {"fc", "weight", NN_WEIGHT, 2, 20},       {"block", "fc.weight", NN_WEIGHT, 2, 20}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nn_push(&b, "%s", cases[i].layer);
        nn_parameter(&b, cases[i].name, cases[i].role, cases[i].rank, dims, nn_init_constant(0));
        CHECK_EQ(nn_item_at(&b, i)->block_count, cases[i].blocks);
        nn_pop(&b);
    }
    CHECK_OK(tensor_status(s, &err), &err);
    nn_push(&b, "fc");
    nn_replace(&b, "weight", tensor_leaf(s, TENSOR_F32, 2, dims, "other"));
    CHECK_EQ(tensor_status(s, &err), EBB_EUNSUPPORTED);
    CHECK(strstr(err.message, "updates 'fc.weight' itself"));
    nn_builder_fini(&b);
    tensor_session_destroy(s);
    ops_backend_destroy(backend);
}

TEST_MAIN()
