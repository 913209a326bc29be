/* The lazy builder: views are no ops, what nothing needs is left out, releases and pins, sticky
 * errors. */
#include "test.h"

#include "base/heap.h"
#include "grad/grad.h"
#include "ops/ops.h"

struct kit {
    void *backend;
    struct tensor_session *s;
};

static struct kit open_kit(void)
{
    struct kit k;
    struct ebb_error err;
    CHECK_OK(ops_backend_create(&k.backend, NULL, NULL, NULL, 1, &err), &err);
    CHECK_OK(tensor_session_create(&k.s, k.backend, &err), &err);
    return k;
}

static void close_kit(struct kit *k)
{
    tensor_session_destroy(k->s);
    ops_backend_destroy(k->backend);
}

static uint32_t count_kind(const struct trace *t, const char *name)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->op_count; i++)
        n += strcmp(t->ops[i].kind->name, name) == 0;
    return n;
}

TEST(views__are_no_ops)
{
    struct kit k = open_kit();
    struct ebb_error err;
    struct trace *t;
    tensor_id x = tensor_leaf(k.s, TENSOR_F32, 2, (int64_t[]){4, 6}, "x");
    tensor_id y = ops_reshape(k.s, ops_reshape(k.s, x, 1, (int64_t[]){24}), 2, (int64_t[]){3, 8});
    tensor_keep(k.s, ops_neg(k.s, y));
    CHECK_OK(tensor_finish(k.s, "t", &t, &err), &err);
    CHECK_EQ(t->op_count, 2);
    CHECK_EQ(t->storage_count, 2);
    trace_destroy(t);
    close_kit(&k);
}

TEST(what_nothing_needs__is_left_out)
{
    struct kit k = open_kit();
    struct ebb_error err;
    struct trace *t;
    tensor_id x = tensor_leaf(k.s, TENSOR_F32, 1, (int64_t[]){8}, "x");
    tensor_id y = ops_sqrt(k.s, x), dead = ops_neg(k.s, ops_reciprocal(k.s, x));
    tensor_keep(k.s, y);
    CHECK_OK(tensor_finish(k.s, "t", &t, &err), &err);
    CHECK_EQ(t->op_count, 2);
    CHECK_EQ(tensor_trace_id(k.s, dead), TRACE_NONE);
    trace_destroy(t);
    tensor_keep(k.s, dead); /* a session may be finished again */
    CHECK_OK(tensor_finish(k.s, "t", &t, &err), &err);
    CHECK_EQ(t->op_count, 4);
    trace_destroy(t);
    close_kit(&k);
}

TEST(mutation__makes_a_version)
{
    struct kit k = open_kit();
    struct ebb_error err;
    struct trace *t;
    tensor_id scalars = tensor_leaf(k.s, TENSOR_F32, 1, (int64_t[]){OPS_UPDATE_SCALARS}, "s");
    tensor_id w = tensor_leaf(k.s, TENSOR_F32, 1, (int64_t[]){8}, "w"), g = ops_neg(k.s, w), out[1];
    ops_update(k.s, OPS_SGD, 0, scalars, g, w, NULL, 0, out);
    CHECK_OK(tensor_finish(k.s, "t", &t, &err), &err);
    CHECK_EQ(count_kind(t, "update"), 1); /* kept without being asked */
    uint32_t old = tensor_trace_id(k.s, w), new = tensor_trace_id(k.s, out[0]);
    CHECK_EQ(t->tensors[old].storage, t->tensors[new].storage);
    CHECK_EQ(t->tensors[new].version, 1);
    trace_destroy(t);
    tensor_keep(k.s, ops_neg(k.s, w)); /* the old version is gone */
    CHECK(tensor_finish(k.s, "t", &t, &err) != EBB_OK);
    close_kit(&k);
}

TEST(equal_models__have_equal_signatures)
{
    struct ebb_hash128 hash[3];
    for (int i = 0; i < 3; i++) {
        struct kit k = open_kit();
        struct ebb_error err;
        struct trace *t;
        tensor_id x = tensor_leaf(k.s, TENSOR_F32, 2, (int64_t[]){i == 2 ? 8 : 4, 6}, "x");
        tensor_id l = ops_sum(k.s, ops_mul_scalar(k.s, x, 2)), g;
        CHECK_OK(grad_backward(k.s, &l, NULL, 1, &x, 1, &g, &err), &err);
        tensor_keep(k.s, l);
        tensor_keep(k.s, g);
        CHECK_OK(tensor_finish(k.s, "t", &t, &err), &err);
        hash[i] = t->signature;
        trace_destroy(t);
        close_kit(&k);
    }
    CHECK(memcmp(&hash[0], &hash[1], sizeof hash[0]) == 0);
    CHECK(memcmp(&hash[0], &hash[2], sizeof hash[0]) != 0);
}

TEST(errors__stay_and_name_the_shapes)
{
    struct kit k = open_kit();
    struct ebb_error err;
    tensor_id a = tensor_leaf(k.s, TENSOR_F32, 2, (int64_t[]){2, 3}, "a");
    tensor_id b = tensor_leaf(k.s, TENSOR_F32, 2, (int64_t[]){4, 3}, "b");
    CHECK_EQ(ops_add(k.s, a, b).v, 0);
    CHECK_EQ(ops_neg(k.s, a).v, 0); /* nothing happens any more */
    CHECK_EQ(tensor_status(k.s, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "add") && strstr(err.message, "[2, 3]") &&
          strstr(err.message, "[4, 3]"));
    close_kit(&k);
}

TEST(a_missing_rule__is_an_error)
{
    struct kit k = open_kit();
    struct ebb_error err;
    tensor_id x = tensor_leaf(k.s, TENSOR_F32, 2, (int64_t[]){2, 4}, "x"), y[TENSOR_PORTS], g, gg;
    size_t n;
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    const struct ops_def *norm = ops_find("layer_norm");
    struct ops_value shape = {"shape", .ints = (int64_t[]){4}, .count = 1};
    CHECK_OK(ops_assign(norm, &shape, 1, attr, &err), &err);
    ops_call(k.s, norm, &x, 1, attr, y, &n);
    tensor_id l = ops_sum(k.s, ops_mul(k.s, y[0], y[0]));
    CHECK_OK(grad_backward(k.s, &l, NULL, 1, &x, 1, &g, &err), &err);
    tensor_id s = ops_sum(k.s, g);
    CHECK_EQ(grad_backward(k.s, &s, NULL, 1, &x, 1, &gg, &err), EBB_EUNSUPPORTED);
    CHECK(strstr(err.message, "layer_norm"));
    close_kit(&k);
}

TEST(shapes_beyond_counting__are_refused)
{
    struct kit k = open_kit();
    struct ebb_error err;
    CHECK_EQ(ops_full(k.s, 3, (int64_t[]){1 << 30, 1 << 30, 1 << 30}, 0).v, 0);
    CHECK_EQ(tensor_status(k.s, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "too large"));
    close_kit(&k);
}

static void step(struct tensor_session *s, struct trace **t, enum ebb_status *status,
                 struct ebb_error *err)
{
    tensor_id x = tensor_leaf(s, TENSOR_F32, 2, (int64_t[]){4, 6}, "x");
    tensor_id w = tensor_leaf(s, TENSOR_F32, 2, (int64_t[]){5, 6}, "w"), g;
    tensor_id l = ops_sum(s, ops_matmul(s, x, w, false, true));
    *status = grad_backward(s, &l, NULL, 1, &w, 1, &g, err);
    tensor_keep(s, g);
    if (*status == EBB_OK)
        *status = tensor_finish(s, "t", t, err);
}

TEST(memory__may_run_out_anywhere)
{
    struct ebb_error err;
    void *backend;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    uint64_t live = ebb_heap_live(), cached = 0;
    for (uint64_t nth = 1; nth < 2000; nth++) {
        struct tensor_session *s = NULL;
        struct trace *t = NULL;
        ebb_heap_fail_at(nth);
        enum ebb_status status = tensor_session_create(&s, backend, &err);
        if (status == EBB_OK)
            step(s, &t, &status, &err);
        ebb_heap_fail_at(0);
        trace_destroy(t);
        tensor_session_destroy(s);
        if (status == EBB_OK) {
            CHECK(nth > 5);
            ops_backend_destroy(backend);
            return;
        }
        CHECK_EQ(status, EBB_ENOMEM);
        cached = ebb_heap_live() - live; /* primitives stay in the backend */
        CHECK(cached < 64);
    }
    fail_msg("never succeeded");
}

TEST(blob__gives_back_every_view_and_refuses_what_is_cut)
{
    struct ebb_error err;
    struct tensor_view views[TENSOR_RANK + 1];
    int64_t dims[TENSOR_RANK] = {2, 16, 3, 1, 4, 1, 2, 5}, attr = 7;
    for (int r = 0; r <= TENSOR_RANK; r++) {
        tensor_view_init(&views[r], TENSOR_BF16, r, dims);
        views[r].offset = r < 5 ? 3 * r : 0; /* results begin at the beginning */
        if (r == 4)
            tensor_view_block(&views[r], 8);
        if (r == 3)
            views[r].strides[0] = 0; /* expanded */
    }
    static const struct trace_kind kind = {.name = "five", .purity = TRACE_PURE};
    struct tensor_session *s;
    struct trace *trace;
    tensor_id in[5];
    CHECK_OK(tensor_session_create(&s, NULL, &err), &err);
    for (int r = 0; r < 5; r++) {
        tensor_id leaf = tensor_leaf(s, TENSOR_BF16, TENSOR_RANK, dims, "x");
        in[r] = tensor_append(
            s, &(struct tensor_node_desc){
                   .inputs = &leaf, .input_count = 1, .outputs = &views[r], .output_count = 1});
    }
    tensor_keep(s, tensor_append(s, &(struct tensor_node_desc){.kind = &kind,
                                                               .inputs = in,
                                                               .input_count = 5,
                                                               .outputs = views + 5,
                                                               .output_count = TENSOR_RANK - 4,
                                                               .attr = &attr,
                                                               .attr_bytes = 8}));
    CHECK_OK(tensor_finish(s, "blob", &trace, &err), &err);
    const struct trace_op *op = &trace->ops[trace->op_count - 1];
    _Alignas(8) unsigned char blob[4096];
    size_t bytes = op->attr_bytes;
    CHECK(bytes > 0 && bytes < (TENSOR_RANK + 1) * sizeof *views);
    memcpy(blob, trace->attrs + op->attr_first, bytes);
    trace_destroy(trace);
    tensor_session_destroy(s);
    void *out[TENSOR_RANK] = {NULL};
    struct trace_call call = {.out = out, .attr = blob, .attr_bytes = bytes};
    struct tensor_call c;
    CHECK_OK(tensor_call_decode(&call, &c, &err), &err);
    CHECK_EQ(c.input_count, 5);
    CHECK_EQ(c.output_count, TENSOR_RANK - 4);
    for (size_t r = 0; r <= TENSOR_RANK; r++)
        CHECK(memcmp(r < 5 ? &c.in[r] : &c.out[r - 5], &views[r], sizeof views[r]) == 0);
    CHECK(c.attr_bytes == 8 && memcmp(c.attr, &attr, 8) == 0);
    for (call.attr_bytes = 0; call.attr_bytes < bytes; call.attr_bytes++)
        CHECK_EQ(tensor_call_decode(&call, &c, &err), EBB_EINTERNAL);
    call.attr_bytes = bytes;
    blob[16 + 1] = TENSOR_RANK + 1; /* the rank of the first view */
    CHECK_EQ(tensor_call_decode(&call, &c, &err), EBB_EINTERNAL);
}

/* Unrolled optimisation asks for gradients many times, each of a short piece at the end of a long
 * tape: what lies before the inputs and behind the outputs is neither needed nor in the way. */
TEST(gradient__of_a_piece_is_that_of_the_whole)
{
    struct kit k = open_kit();
    struct ebb_error err;
    int64_t n = 4;
    tensor_id x = tensor_leaf(k.s, TENSOR_F32, 1, &n, "x"), y = x, late;
    for (int i = 0; i < 5; i++)
        y = ops_add(k.s, y, y);
    tensor_id middle = y;
    for (int i = 0; i < 3; i++)
        y = ops_add(k.s, y, y);
    tensor_id end = y, ones = ops_full(k.s, 1, &n, 1), g[2], in[2] = {middle, TENSOR_NONE};
    late = ops_add(k.s, end, middle); /* behind the output: does not count */
    in[1] = late;
    uint32_t before = tensor_node_count(k.s);
    CHECK_OK(grad_backward(k.s, &end, &ones, 1, in, 2, g, &err), &err);
    CHECK(g[0].v && !g[1].v);
    uint32_t piece = tensor_node_count(k.s) - before;
    CHECK(piece <= 3); /* one addition of the two gradients each, nothing of the other nodes */
    CHECK_OK(grad_backward(k.s, &end, &ones, 1, &x, 1, g, &err), &err);
    CHECK(g[0].v);
    close_kit(&k);
}

TEST_MAIN()
