/* engine_kit.h - a residual stack with dropout, trained by Adam on an engine, and what came of it. */
#ifndef EBB_TESTS_UNIT_ENGINE_KIT_H
#define EBB_TESTS_UNIT_ENGINE_KIT_H

#include "test.h"

#include <string.h>

#include "grad/grad.h"
#include "ops/ops.h"
#include "train/engine.h"

#define DEPTH 6
#define WIDTH 32
#define BATCH 64
#define STEPS 5

/* What a step needs from outside. */
struct step {
    uint32_t scalars, counter, x, loss; /* trace tensors */
    uint32_t weight[DEPTH], first[DEPTH], second[DEPTH];
    float loss_value;
    int64_t number;
};

static inline struct trace *make_step(void *backend, struct step *step, bool is_training)
{
    struct tensor_session *s;
    struct ebb_error err;
    struct trace *trace;
    tensor_id w[DEPTH], m[DEPTH], v[DEPTH], g[DEPTH], out[3];
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    for (int i = 0; i < DEPTH; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        w[i] = tensor_leaf(s, TENSOR_F32, 2, (int64_t[]){WIDTH, WIDTH}, name);
        m[i] = tensor_leaf(s, TENSOR_F32, 2, (int64_t[]){WIDTH, WIDTH}, "m");
        v[i] = tensor_leaf(s, TENSOR_F32, 2, (int64_t[]){WIDTH, WIDTH}, "v");
    }
    tensor_id scalars = tensor_leaf(s, TENSOR_F32, 1, (int64_t[]){OPS_UPDATE_SCALARS}, "scalars");
    tensor_id counter = tensor_leaf(s, TENSOR_I64, 1, (int64_t[]){1}, "step");
    tensor_id x = tensor_leaf(s, TENSOR_F32, 2, (int64_t[]){BATCH, WIDTH}, "x");
    tensor_id y = x;
    for (int i = 0; i < DEPTH; i++) {
        tensor_id h = ops_matmul(s, y, w[i], false, true);
        h = ops_clamp(s, ops_mul(s, h, h), -1, 1);
        if (is_training)
            h = ops_dropout(s, h, counter, 0.25f, 7, (uint32_t)i);
        y = ops_add(s, y, h);
    }
    tensor_id loss = ops_mul_scalar(s, ops_sum_squares(s, y), 1.0f / (BATCH * WIDTH));
    if (is_training) {
        CHECK_OK(grad_backward(s, &loss, NULL, 1, w, DEPTH, g, &err), &err);
        tensor_set_phase(s, TRACE_UPDATE);
    }
    for (int i = 0; i < DEPTH; i++) {
        out[0] = w[i], out[1] = m[i], out[2] = v[i];
        if (is_training)
            ops_update(s, OPS_ADAM, 0, scalars, g[i], w[i], (tensor_id[]){m[i], v[i]}, 2, out);
        for (int k = 0; k < 3; k++)
            tensor_keep(s, out[k]);
    }
    tensor_keep(s, loss);
    CHECK_OK(tensor_finish(s, is_training ? "update" : "evaluation", &trace, &err), &err);
    step->scalars = tensor_trace_id(s, scalars);
    step->counter = tensor_trace_id(s, counter);
    step->x = tensor_trace_id(s, x);
    step->loss = tensor_trace_id(s, loss);
    for (int i = 0; i < DEPTH; i++) {
        step->weight[i] = tensor_trace_id(s, w[i]);
        step->first[i] = tensor_trace_id(s, m[i]);
        step->second[i] = tensor_trace_id(s, v[i]);
    }
    tensor_session_destroy(s);
    return trace;
}

static inline float drawn(uint64_t i)
{
    i = (i + 1) * 0x9e3779b97f4a7c15u;
    return (float)((i >> 40) & 0xffff) / 65536.0f - 0.5f;
}

static inline enum ebb_status fill(void *context, uint32_t tensor, void *bytes, uint64_t count,
                                   struct ebb_error *err)
{
    struct step *step = context;
    (void)err;
    float *f = bytes;
    if (tensor == step->scalars) {
        const struct ops_scalars scalars = {.rate = 1e-3,
                                            .decay = 0.5,
                                            .sign = 0.5,
                                            .beta1 = 0.5,
                                            .rest1 = 0.5,
                                            .beta2 = 0.5,
                                            .rest2 = 0.5,
                                            .root2 = 0.5,
                                            .eps = 0.5,
                                            .keep = 0.5};
        ops_update_scalars(OPS_ADAM, &scalars, bytes);
    } else if (tensor == step->counter) {
        memcpy(bytes, &step->number, sizeof step->number);
    } else {
        for (uint64_t i = 0; i < count / 4; i++)
            f[i] = drawn(i + 1000003 * (uint64_t)step->number);
    }
    return EBB_OK;
}

static inline enum ebb_status read_loss(void *context, uint32_t tensor, const void *bytes,
                                        uint64_t count, struct ebb_error *err)
{
    struct step *step = context;
    (void)err;
    if (tensor == step->loss && count == 4)
        memcpy(&step->loss_value, bytes, 4);
    return EBB_OK;
}

struct outcome {
    float weights[DEPTH][WIDTH * WIDTH];
    float losses[STEPS], validation;
    uint64_t peak, floor, unlimited, evictions, remat, swapped;
    bool is_fallback;
    char how[32];
};

/* Trains a little; with a log, the first step's events are those of the null device. */
static inline enum ebb_status train(const struct train_engine_options *options, bool compares,
                                    struct outcome *o, struct ebb_error *err)
{
    struct train_engine *engine = NULL;
    struct train_program *update, *evaluation;
    struct step step = {0}, test = {0};
    struct exec_report report;
    memset(o, 0, sizeof *o);
    CHECK_OK(train_engine_create(&engine, options, err), err);
    struct trace *trace = make_step(train_engine_backend(engine), &step, true);
    enum ebb_status status = train_engine_add(engine, trace, &update, err);
    if (status != EBB_OK) {
        train_engine_destroy(engine);
        return status;
    }
    trace = make_step(train_engine_backend(engine), &test, false);
    CHECK_OK(train_engine_add(engine, trace, &evaluation, err), err);
    for (int i = 0; i < DEPTH; i++) {
        float w[WIDTH * WIDTH];
        for (int k = 0; k < WIDTH * WIDTH; k++)
            w[k] = drawn((uint64_t)k + (uint64_t)i * 5000) * 0.5f;
        CHECK_OK(train_engine_put(engine, update, step.weight[i], 0, w, sizeof w, err), err);
    }
    struct exec_log real = {0}, simulated = {0};
    for (int i = 0; i < STEPS; i++) {
        step.number = test.number = i;
        struct exec_io io = {.context = &step, .fill = fill, .read = read_loss};
        struct exec_log *log = i == 1 ? &real : NULL;
        CHECK_OK(train_engine_run(engine, update, &io, log, &report, err), err);
        o->losses[i] = step.loss_value;
        CHECK(report.peak_bytes <= options->budget_bytes);
        if (i == 2) {
            io.context = &test;
            CHECK_OK(train_engine_run(engine, evaluation, &io, NULL, &report, err), err);
            o->validation = test.loss_value;
            CHECK(report.peak_bytes <= options->budget_bytes);
        }
        if (i < STEPS - 1)
            continue;
        o->evictions = report.evictions_pressure;
        o->remat = report.remat_ops;
        o->swapped = report.swapped_bytes;
    }
    if (compares) {
        struct train_engine_options dry = *options;
        struct train_engine *null_engine;
        struct train_program *program;
        dry.is_dry = true;
        CHECK_OK(train_engine_create(&null_engine, &dry, err), err);
        trace = make_step(train_engine_backend(null_engine), &step, true);
        CHECK_OK(train_engine_add(null_engine, trace, &program, err), err);
        CHECK_OK(train_engine_run(null_engine, program, NULL, &simulated, &report, err), err);
        CHECK_EQ(real.count, simulated.count);
        for (size_t i = 0; i < real.count; i++) {
            const struct exec_event *a = &real.events[i], *b = &simulated.events[i];
            CHECK(a->kind == b->kind && a->tier == b->tier && a->index == b->index &&
                  a->offset == b->offset && a->clock_ns == b->clock_ns);
        }
        train_engine_destroy(null_engine);
    }
    exec_log_fini(&real);
    exec_log_fini(&simulated);
    for (int i = 0; i < DEPTH; i++)
        CHECK_OK(train_engine_get(engine, update, step.weight[i], 0, o->weights[i],
                                  sizeof o->weights[i], err),
                 err);
    const struct train_program_info *info = train_program_info(update);
    o->peak = info->peak_bytes;
    o->unlimited = info->unlimited_bytes;
    o->is_fallback = info->is_fallback;
    snprintf(o->how, sizeof o->how, "%s", info->how);
    CHECK_OK(train_engine_floor(engine, update, &o->floor, err), err);
    train_engine_destroy(engine);
    return EBB_OK;
}

static inline void check_equal(const struct outcome *a, const struct outcome *b)
{
    CHECK(memcmp(a->weights, b->weights, sizeof a->weights) == 0);
    CHECK(memcmp(a->losses, b->losses, sizeof a->losses) == 0);
    CHECK(a->validation == b->validation);
}

static struct outcome reference, other;

static inline void run_reference(struct ebb_error *err)
{
    struct train_engine_options options = {.budget_bytes = UINT64_MAX, .threads = 1};
    CHECK_OK(train(&options, true, &reference, err), err);
    CHECK(reference.losses[0] > 0 && reference.losses[STEPS - 1] != reference.losses[0]);
    CHECK_EQ(reference.evictions, 0);
}

#endif
