/* A training step built by ops, grad and optim is a legal trace that the interpreter runs on the
 * null device under every policy, below its unlimited peak. */
#include "test.h"

#include "exec/exec.h"
#include "grad/grad.h"
#include "mem/mem.h"
#include "ops/ops.h"

#define DEPTH 6

/* A residual stack: y = y + tanh-like(W y), loss = mean square, plain SGD. */
static struct trace *make_step(void *backend)
{
    struct tensor_session *s;
    struct ebb_error err;
    struct trace *trace;
    tensor_id w[DEPTH], g[DEPTH], out[1];
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    tensor_id scalars = tensor_leaf(s, TENSOR_F32, 1, (int64_t[]){OPS_UPDATE_SCALARS}, "scalars");
    tensor_id y = tensor_leaf(s, TENSOR_F32, 2, (int64_t[]){64, 32}, "x");
    for (int i = 0; i < DEPTH; i++) {
        w[i] = tensor_leaf(s, TENSOR_F32, 2, (int64_t[]){32, 32}, "w");
        tensor_id h = ops_matmul(s, y, w[i], false, true);
        y = ops_add(s, y, ops_clamp(s, ops_mul(s, h, h), -1, 1));
    }
    tensor_id loss = ops_mul_scalar(s, ops_sum_squares(s, y), 1.0f / 2048);
    CHECK_OK(grad_backward(s, &loss, NULL, 1, w, DEPTH, g, &err), &err);
    tensor_set_phase(s, TRACE_UPDATE);
    for (int i = 0; i < DEPTH; i++) {
        ops_update(s, OPS_SGD, 0, scalars, g[i], w[i], NULL, 0, out);
        tensor_keep(s, out[0]);
    }
    tensor_keep(s, loss);
    CHECK_OK(tensor_finish(s, "residual", &trace, &err), &err);
    tensor_session_destroy(s);
    return trace;
}

TEST(a_training_step__runs_under_every_policy)
{
    static const char *const policies[] = {"none", "dtr", "lru", "msps", "largest", "unified"};
    void *backend;
    struct ebb_error err;
    struct trace_stats stats;
    struct exec_program *program;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    struct trace *trace = make_step(backend);
    CHECK_OK(trace_stats_compute(trace, &stats, &err), &err);
    CHECK(trace->backward_command != TRACE_NONE && stats.backward_count > 0);
    CHECK_OK(exec_program_create(&program, trace, EXEC_EBB, &err), &err);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        const struct mem_policy *policy = mem_policy_find(policies[i]);
        if (!policy)
            continue;
        struct exec_report report;
        struct exec_options options = {.policy = policy, .budget_bytes = 2 * stats.baseline_bytes};
        CHECK_OK(exec_run(program, &options, &report, &err), &err);
        CHECK_EQ(report.result, EXEC_OK);
        if (i == 0)
            continue;
        options.budget_bytes = stats.baseline_bytes * 3 / 4 / 256 * 256;
        CHECK_OK(exec_run(program, &options, &report, &err), &err);
        CHECK_EQ(report.result, EXEC_OK);
        CHECK(report.peak_bytes <= options.budget_bytes);
        CHECK(report.evictions_pressure > 0);
    }
    exec_program_destroy(program);
    trace_destroy(trace);
    ops_backend_destroy(backend);
}

TEST(backward_ops__name_their_forward_partner)
{
    void *backend;
    struct ebb_error err;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    struct trace *trace = make_step(backend);
    uint32_t partners = 0;
    for (uint32_t i = 0; i < trace->op_count; i++)
        if (trace->ops[i].partner != TRACE_NONE) {
            CHECK(trace->ops[i].partner < i);
            CHECK_EQ(trace->ops[trace->ops[i].partner].phase, TRACE_FORWARD);
            partners++;
        }
    CHECK(partners >= 2 * DEPTH);
    trace_destroy(trace);
    ops_backend_destroy(backend);
}

TEST_MAIN()
