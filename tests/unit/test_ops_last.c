/* Tensors whose channels come last are joined and cut as rows: the same bytes as in the plain layout,
 * without the way there and back. Kernels are the cpu's, in a table that says it likes channels last. */
#include "test.h"

#include "base/heap.h"
#include "base/rng.h"
#include "grad/grad.h"
#include "ops/internal.h"
#include "ops/ops.h"
#include "ops_kit.h"

#define PARTS 3
#define MOST 8192

struct result {
    float values[MOST];
    size_t count;
    uint32_t joined, cut, cats, copies;
};

static const int64_t channels[PARTS] = {24, 40, 7};

static void fill(const struct ops_host *h, struct tensor_session *s, tensor_id id, uint64_t seed)
{
    float *p = ops_host_tensor(h, tensor_trace_id(s, id));
    for (int64_t i = 0; i < tensor_count(tensor_view_of(s, id)); i++)
        p[i] = (float)((double)(ebb_splitmix64(&seed) >> 11) * 0x1p-53 - 0.4);
}

static void keep(struct result *r, const struct ops_host *h, const struct tensor_session *s,
                 tensor_id id)
{
    int64_t n = tensor_count(tensor_view_of(s, id));
    const float *from = ops_host_tensor(h, tensor_trace_id(s, id));
    CHECK(r->count + (size_t)n <= MOST);
    memcpy(r->values + r->count, from, (size_t)n * sizeof *from);
    r->count += (size_t)n;
}

static void count_ops(const struct trace *t, struct result *r)
{
    for (uint32_t i = 0; i < t->op_count; i++) {
        const char *name = t->ops[i].kind->name;
        r->joined += strcmp(name, "cat_last") == 0;
        r->cut += strcmp(name, "slice_last") == 0;
        r->cats += strcmp(name, "cat") == 0;
        r->copies += strcmp(name, "copy") == 0;
    }
}

/* relu(cat(x0, x1, x2))^2, summed; with gradients of gradients where asked. */
static void run(bool is_last, bool is_twice, enum tensor_dtype dtype, int dim, struct result *r)
{
    struct ebb_error err = {0};
    struct tensor_session *s;
    struct kernel_table table = kernel_cpu;
    struct trace *trace;
    struct ops_host host;
    tensor_id x[PARTS], in[PARTS], grads[PARTS];
    void *backend;
    char json[16];
    memset(r, 0, sizeof *r);
    table.is_last = true;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    if (is_last)
        ((struct kernel_head *)backend)->table = &table;
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    for (int k = 0; k < PARTS; k++) {
        int64_t c = dim == 1 || dim == -3 ? channels[k] : 24;
        x[k] = tensor_leaf(s, TENSOR_F32, 4, (int64_t[]){2, c, 3, 5}, "x");
        in[k] = dtype == TENSOR_F32 ? x[k] : ops_cast(s, x[k], dtype);
        in[k] = is_last ? ops_in_layout(s, in[k], (int)c) : in[k];
    }
    snprintf(json, sizeof json, "{\"dim\": %d}", dim);
    tensor_id y = ops_kit_call(s, "cat", json, in, PARTS);
    y = ops_cast(s, ops_contiguous(s, ops_kit_call(s, "relu", NULL, &y, 1)), TENSOR_F32);
    tensor_id loss = ops_sum_squares(s, y);
    CHECK_OK(grad_backward(s, &loss, NULL, 1, x, PARTS, grads, &err), &err);
    if (is_twice) {
        tensor_id all = ops_add(s, ops_sum_squares(s, grads[0]), ops_sum_squares(s, grads[2]));
        CHECK_OK(grad_backward(s, &all, NULL, 1, x, PARTS, grads, &err), &err);
    }
    tensor_keep(s, y);
    for (int k = 0; k < PARTS; k++)
        if (grads[k].v)
            tensor_keep(s, grads[k] = ops_contiguous(s, grads[k]));
    CHECK_OK(tensor_finish(s, "last", &trace, &err), &err);
    count_ops(trace, r);
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    for (int k = 0; k < PARTS; k++)
        fill(&host, s, x[k], 10 + (uint64_t)k);
    CHECK_OK(ops_host_run(&host, &err), &err);
    keep(r, &host, s, y);
    for (int k = 0; k < PARTS; k++)
        if (grads[k].v)
            keep(r, &host, s, grads[k]);
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(s);
    if (is_last)
        ((struct kernel_head *)backend)->table = &kernel_cpu;
    ops_backend_destroy(backend);
}

static struct result plain, last;

static void check_same(bool is_twice, enum tensor_dtype dtype, int dim)
{
    run(false, is_twice, dtype, dim, &plain);
    run(true, is_twice, dtype, dim, &last);
    CHECK_EQ(plain.count, last.count);
    CHECK(memcmp(plain.values, last.values, plain.count * sizeof *plain.values) == 0);
    CHECK(plain.cats == 1 && plain.joined == 0 && plain.cut == 0);
}

TEST(channels_that_come_last__are_joined_and_cut_as_rows)
{
    static const enum tensor_dtype dtypes[] = {TENSOR_F32, TENSOR_BF16};
    for (int k = 0; k < 2; k++)
        for (int dim = -3; dim <= 1; dim += 4) {
            check_same(false, dtypes[k], dim);
            CHECK(last.joined == 1 && last.cats == 0 && last.cut == PARTS);
            CHECK_EQ(last.copies, PARTS + 2 + PARTS); /* in, around the relu, out */
        }
}

TEST(gradients_of_gradients__go_through_the_rows)
{
    check_same(true, TENSOR_F32, 1);
    CHECK(last.joined == 1 && last.cut >= PARTS);
}

TEST(other_dimensions__are_joined_as_before)
{
    check_same(false, TENSOR_F32, 2);
    CHECK(last.joined == 0 && last.cut == 0 && last.cats == 1);
}

TEST_MAIN()
