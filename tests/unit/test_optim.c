/* Optimizers and rates: arguments by torch's names, the rules that the reference vectors do not
 * reach. */
#include "test_arena.h"

#include <math.h>
#include <stdio.h>

#include "base/heap.h"
#include "base/rng.h"
#include "optim/optim.h"

static const struct ebb_doc_node *json(const char *text)
{
    const struct ebb_doc_node *root;
    struct ebb_error err;
    CHECK_OK(ebb_doc_parse_json(&arena, "t", text, strlen(text), &root, &err), &err);
    return root;
}

static double rate(const char *name, const char *args, double base, int64_t t)
{
    struct optim_schedule *s;
    struct ebb_error err;
    double lr;
    CHECK_OK(optim_schedule_create(&s, name, json(args), base, &err), &err);
    CHECK_OK(optim_schedule_rate(s, t, &lr, &err), &err);
    optim_schedule_destroy(s);
    return lr;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b) + 1e-15;
}

TEST(an_unknown_argument__names_the_valid_ones)
{
    struct optim_config c;
    struct ebb_error err;
    CHECK_EQ(optim_parse("sgd", json("{\"lr\": 1, \"momentun\": 2}"), &c, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "momentun") && strstr(err.message, "nearest: momentum;"));
    CHECK(strstr(err.message, "dampening") && strstr(err.message, "nesterov"));
    CHECK_EQ(optim_parse("Adam", json("{\"betas\": [0.9, 1.5]}"), &c, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "betas"));
    CHECK_EQ(optim_parse("Addam", NULL, &c, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "nearest: Adam") && strstr(err.message, "LAMB"));
}

TEST(requirements__are_checked)
{
    struct optim_config c;
    struct ebb_error err;
    CHECK_EQ(optim_parse("SGD", NULL, &c, &err), EBB_EINPUT); /* lr has no default */
    CHECK(strstr(err.message, "optimizer.lr: required but missing"));
    CHECK_EQ(optim_parse("SGD", json("{\"lr\": 1, \"nesterov\": true}"), &c, &err), EBB_EINPUT);
    CHECK_EQ(optim_parse("SGD", json("{\"lr\": -1}"), &c, &err), EBB_EINPUT);
}

TEST(names__in_any_case_with_torch_defaults)
{
    struct optim_config c;
    struct ebb_error err;
    CHECK_OK(optim_parse("ADAM", NULL, &c, &err), &err);
    CHECK_STR(c.name, "Adam");
    CHECK(c.lr == 1e-3 && c.beta2 == 0.999 && c.eps == 1e-8);
    CHECK_OK(optim_parse("Lamb", json("{\"weight_decay\": \"1e-2\"}"), &c, &err), &err);
    CHECK(c.weight_decay == 0.01 && c.eps == 1e-6 && c.bias_correction);
    CHECK_EQ(optim_state_count(&c), 2);
    CHECK_OK(optim_parse("RMSprop", json("{\"centered\": true}"), &c, &err), &err);
    CHECK_EQ(optim_state_count(&c), 2);
    CHECK_STR(optim_state_name(&c, 1), "grad_avg");
}

TEST(maximize__turns_the_sign)
{
    struct optim_config c;
    struct optim_count count = {0};
    struct ebb_error err;
    float k[OPS_UPDATE_SCALARS];
    CHECK_OK(optim_parse("SGD", json("{\"lr\": 0.5, \"maximize\": true}"), &c, &err), &err);
    optim_step(&c, &count, 0.25, k);
    CHECK(k[11] == -1.0f && k[0] == 0.25f);
    CHECK_EQ(count.steps, 1);
}

TEST(rates__beyond_the_vectors)
{
    const char *wsd = "{\"lr\": 1, \"warmup\": 10, \"total\": 100, \"final_frac\": 0}";
    CHECK(near(rate("GPTWSD", wsd, 0, 79), 1) && near(rate("GPTWSD", wsd, 0, 85), 0.5));
    CHECK(near(rate("GPTLinear", wsd, 0, 55), 0.5));
    CHECK(near(rate("CosineAnnealingWarmRestarts", "{\"T_0\": 4}", 2, 9), 1 + cos(M_PI / 4)));
    CHECK(
        near(rate("CyclicLR",
                  "{\"base_lr\": 1, \"max_lr\": 3, \"step_size_up\": 2, \"mode\": \"triangular2\"}",
                  0, 6),
             2));
    CHECK(near(rate("OneCycleLR",
                    "{\"max_lr\": 1, \"total_steps\": 100, \"three_phase\": true, "
                    "\"anneal_strategy\": \"linear\"}",
                    0, 58),
               1.0 / 25));
    CHECK(near(
        rate("ChainedScheduler",
             "{\"schedulers\": [{\"name\": \"ConstantLR\", \"args\": {\"factor\": 0.5, "
             "\"total_iters\": 3}}, {\"name\": \"ExponentialLR\", \"args\": {\"gamma\": 0.1}}]}",
             2, 2),
        2 * 0.5 * 0.01));
}

TEST(one_cycle__ends)
{
    struct optim_schedule *s;
    struct ebb_error err;
    double lr;
    CHECK_OK(optim_schedule_create(&s, "onecyclelr", json("{\"max_lr\": 1, \"total_steps\": 5}"), 0,
                                   &err),
             &err);
    /* as torch: after the N-th step the schedule can still be asked, then it is over */
    CHECK_OK(optim_schedule_rate(s, 5, &lr, &err), &err);
    CHECK_EQ(optim_schedule_rate(s, 6, &lr, &err), EBB_EINPUT);
    optim_schedule_destroy(s);
    CHECK_EQ(optim_schedule_create(&s, "OneCycleLR", json("{\"max_lr\": 1}"), 0, &err), EBB_EINPUT);
    CHECK_EQ(optim_schedule_create(&s, "StepLR", json("{\"stepsize\": 1}"), 0, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "step_size"));
    CHECK_EQ(optim_schedule_create(
                 &s, "SequentialLR",
                 json("{\"schedulers\": [{\"name\": \"ConstantLR\"}], \"milestones\": [1]}"), 1,
                 &err),
             EBB_EINPUT);
}

static void refused(const char *name, const char *args, const char *word)
{
    struct optim_schedule *s;
    struct ebb_error err = {0};
    CHECK_EQ(optim_schedule_create(&s, name, json(args), 1, &err), EBB_EINPUT);
    CHECK(strstr(err.message, word));
}

TEST(arguments__that_make_no_schedule_are_refused)
{
    struct optim_config c;
    struct ebb_error err;
    refused("MultiStepLR", "{\"milestones\": null}", "milestones: required but missing");
    refused("SequentialLR", "{\"schedulers\": null, \"milestones\": [1]}",
            "schedulers: required but missing");
    refused("StepLR", "{\"step_size\": null}", "step_size: required but missing");
    refused("OneCycleLR", "{\"max_lr\": 1, \"total_steps\": 9, \"pct_start\": 7}", "pct_start");
    refused("OneCycleLR", "{\"max_lr\": 1, \"total_steps\": 9, \"div_factor\": 0}", "div_factor");
    refused("OneCycleLR",
            "{\"max_lr\": 1, \"epochs\": 900000000000000, \"steps_per_epoch\": 900000000000000}",
            "more than");
    refused("ReduceLROnPlateau", "{\"factor\": 1.5}", "a number < 1");
    refused("ChainedScheduler", "{\"schedulers\": [{\"name\": \"ReduceLROnPlateau\"}]}", "metrics");
    refused("ChainedScheduler", "{\"schedulers\": [3]}", "mapping");
    refused("ChainedScheduler",
            "{\"schedulers\": [{\"name\": \"StepLR\", \"args\": {\"step_size\": 1}, "
            "\"gamma\": 2}]}",
            "schedulers[0].gamma: stands beside args");
    refused("ChainedScheduler", "{\"schedulers\": [{\"name\": \"ConstantLR\", \"fator\": 2}]}",
            "nearest: factor");
    CHECK_EQ(optim_parse("SGD", json("{\"lr\": null}"), &c, &err), EBB_EINPUT);
}

TEST(parts__take_their_arguments_beside_the_name)
{
    static const char *const ways[] = {
        "{\"milestones\": [2], \"schedulers\": [{\"name\": \"ConstantLR\", \"factor\": 0.5}, "
        "{\"name\": \"StepLR\", \"step_size\": 1}]}",
        "{\"milestones\": [2], \"schedulers\": [{\"name\": \"ConstantLR\", \"args\": {\"factor\": "
        "0.5}}, {\"scheduler\": \"StepLR\", \"args\": {\"step_size\": 1}}]}"};
    for (size_t i = 0; i < 2; i++) {
        CHECK(near(rate("SequentialLR", ways[i], 1, 1), 0.5));
        CHECK(near(rate("SequentialLR", ways[i], 1, 3), 0.1));
    }
}

TEST(benchmark_schedules__take_the_base_rate)
{
    CHECK(near(rate("GPTCosine", "{\"total\": 10}", 3, 0), 3));
    CHECK(near(rate("DeepCAMMultiStep", "{\"milestones\": 2}", 3, 9), 0.3));
    CHECK(near(rate("DeepCAMCosine", "{\"t_max\": 2}", 3, 1), 1.5));
    CHECK(near(rate("LinearWarmupPolyDecay", "{\"total_steps\": 10}", 3, 5), 1.5));
    CHECK(near(rate("CosmoFlow",
                    "{\"global_batch_size\": 4, \"base_batch_size\": 2, \"scaling\": \"linear\"}",
                    3, 5),
               6));
    CHECK(near(rate("CyclicLR", "{\"max_lr\": 5, \"step_size_up\": 2}", 3, 1), 4));
}

TEST(momentum__is_cycled_by_a_part_and_needs_an_optimizer_that_has_one)
{
    struct optim_schedule *s;
    struct optim_config c;
    struct ebb_error err;
    double momentum = 0;
    CHECK_OK(
        optim_schedule_create(
            &s, "SequentialLR",
            json("{\"milestones\": [3], \"schedulers\": [{\"name\": \"ConstantLR\"}, {\"name\": "
                 "\"OneCycleLR\", \"max_lr\": 1, \"total_steps\": 10}]}"),
            1, &err),
        &err);
    CHECK(!optim_schedule_momentum(s, 2, &momentum));
    CHECK(optim_schedule_momentum(s, 3, &momentum) && near(momentum, 0.95));
    CHECK_OK(optim_schedule_rate(s, 13, &momentum, &err), &err);
    CHECK_EQ(optim_schedule_rate(s, 14, &momentum, &err), EBB_EINPUT); /* the part has ended */
    optim_schedule_destroy(s);
    CHECK_OK(optim_parse("SGD", json("{\"lr\": 1}"), &c, &err), &err);
    CHECK(optim_cycle_momentum(&c, 0.95) && c.momentum == 0.95 && optim_state_count(&c) == 1);
    CHECK_OK(optim_parse("Adam", json("{\"betas\": [0, 0.9]}"), &c, &err), &err);
    CHECK(optim_cycle_momentum(&c, 0.95));
    optim_set_momentum(&c, 0.9);
    CHECK(c.beta1 == 0.9 && c.momentum == 0);
    CHECK_OK(optim_parse("Adagrad", NULL, &c, &err), &err);
    CHECK(!optim_cycle_momentum(&c, 0.95));
}

TEST(plateau__is_not_caught_by_a_metric_that_is_no_number)
{
    struct optim_schedule *s;
    struct ebb_error err;
    double lr;
    CHECK_OK(optim_schedule_create(&s, "ReduceLROnPlateau", json("{\"patience\": 1}"), 1, &err),
             &err);
    optim_schedule_metric(s, NAN);
    for (int i = 0; i < 9; i++) /* always better */
        optim_schedule_metric(s, 9 - i);
    CHECK_OK(optim_schedule_rate(s, 0, &lr, &err), &err);
    CHECK(lr == 1);
    optim_schedule_destroy(s);
}

TEST(plateau__waits_cools_and_stops)
{
    struct optim_schedule *s;
    struct ebb_error err;
    double lr;
    CHECK_OK(optim_schedule_create(&s, "ReduceLROnPlateau",
                                   json("{\"mode\": \"max\", \"patience\": 0, \"cooldown\": 1, "
                                        "\"factor\": 0.5, \"min_lr\": 0.3}"),
                                   1, &err),
             &err);
    static const double metrics[] = {1, 1, 1, 1, 1, 1, 1};
    static const double want[] = {1, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3};
    for (int i = 0; i < 7; i++) {
        optim_schedule_metric(s, metrics[i]);
        CHECK_OK(optim_schedule_rate(s, i, &lr, &err), &err);
        CHECK(near(lr, want[i]));
    }
    optim_schedule_destroy(s);
}

TEST(scaler__skips_and_recovers)
{
    struct optim_scaler s;
    optim_scaler_grad(&s);
    CHECK(optim_scaler_update(&s, true) && s.scale == 32768);
    for (int i = 0; i < 2000; i++)
        CHECK(!optim_scaler_update(&s, false));
    CHECK(s.scale == 65536);
}

/* ---- split master weights ---------------------------------------------------------------------
 */

#define WEIGHTS 70001

/* Weights after five updates, from float32 (is_split false) or from two halves put together. */
static void train(const char *name, const char *args, bool is_split, float *result)
{
    struct optim_config c;
    struct optim_count count = {0};
    struct ebb_error err = {0};
    struct tensor_session *s;
    struct trace *trace;
    struct ops_host host;
    void *backend;
    int64_t n = WEIGHTS, scalar_count = OPS_UPDATE_SCALARS;
    tensor_id states[OPS_UPDATE_STATES], out[2 + OPS_UPDATE_STATES];
    CHECK_OK(optim_parse(name, json(args), &c, &err), &err);
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 2, &err), &err);
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    tensor_id scalars = tensor_leaf(s, TENSOR_F32, 1, &scalar_count, "scalars");
    tensor_id g = tensor_leaf(s, TENSOR_BF16, 1, &n, "g");
    tensor_id w = tensor_leaf(s, is_split ? TENSOR_BF16 : TENSOR_F32, 1, &n, "w");
    tensor_id rest = tensor_leaf(s, TENSOR_I16, 1, &n, "rest");
    size_t state_count = optim_state_count(&c);
    for (size_t k = 0; k < state_count; k++)
        states[k] = tensor_leaf(s, TENSOR_F32, 1, &n, "state");
    if (is_split)
        ops_update_split(s, c.kind, optim_flags(&c), scalars, g, w, rest, states, state_count, out);
    else
        ops_update(s, c.kind, optim_flags(&c), scalars, ops_cast(s, g, TENSOR_F32), w, states,
                   state_count, out);
    CHECK_OK(tensor_finish(s, name, &trace, &err), &err);
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    uint16_t *gradient = ops_host_tensor(&host, tensor_trace_id(s, g));
    uint32_t *full = ops_host_tensor(&host, tensor_trace_id(s, w));
    uint16_t *high = (void *)full,
             *low = is_split ? ops_host_tensor(&host, tensor_trace_id(s, rest)) : NULL;
    uint64_t random = 5;
    for (size_t k = 0; k < state_count; k++)
        memset(ops_host_tensor(&host, tensor_trace_id(s, states[k])), 0, WEIGHTS * sizeof(float));
    for (size_t i = 0; i < WEIGHTS; i++) {
        float start = (float)((double)(ebb_splitmix64(&random) >> 11) * 0x1p-53 - 0.5);
        uint32_t bits;
        memcpy(&bits, &start, sizeof bits);
        gradient[i] = (uint16_t)(0x3c00u | (ebb_splitmix64(&random) & 0x80ffu));
        if (is_split) {
            high[i] = (uint16_t)((bits >> 16) + (bits >> 15 & 1u));
            low[i] = (uint16_t)bits;
        } else {
            full[i] = bits;
        }
    }
    for (int k = 0; k < 5; k++) {
        optim_step(&c, &count, c.lr, ops_host_tensor(&host, tensor_trace_id(s, scalars)));
        CHECK_OK(ops_host_run(&host, &err), &err);
    }
    for (size_t i = 0; i < WEIGHTS; i++) {
        uint32_t bits = is_split ? ((uint32_t)high[i] - (low[i] >> 15)) << 16 | low[i] : full[i];
        memcpy(&result[i], &bits, sizeof bits);
    }
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(s);
    ops_backend_destroy(backend);
}

TEST(split_weights__are_the_full_ones)
{
    static const char *const cases[][2] = {{"AdamW", "{\"lr\": 0.01}"},
                                           {"SGD", "{\"lr\": 0.1, \"momentum\": 0.9}"},
                                           {"LAMB", "{\"lr\": 0.01, \"weight_decay\": 0.1}"}};
    float *a = ebb_calloc(WEIGHTS, sizeof *a), *b = ebb_calloc(WEIGHTS, sizeof *b);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        train(cases[i][0], cases[i][1], false, a);
        train(cases[i][0], cases[i][1], true, b);
        CHECK(memcmp(a, b, WEIGHTS * sizeof *a) == 0);
        CHECK(isfinite(a[7]) && a[7] != a[8]);
    }
    ebb_free(a);
    ebb_free(b);
}

/* A gradient over the copy of its weights: the bits of a cast, in the place of the copy. */
TEST(overlay__rounds_a_gradient_into_the_place_of_a_copy)
{
    struct ebb_error err = {0};
    struct tensor_session *s;
    struct trace *trace;
    struct ops_host host;
    void *backend;
    int64_t n = WEIGHTS;
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 2, &err), &err);
    CHECK_OK(tensor_session_create(&s, backend, &err), &err);
    tensor_id w = tensor_leaf(s, TENSOR_F32, 1, &n, "w"),
              g = tensor_leaf(s, TENSOR_F32, 1, &n, "g");
    tensor_id copy = ops_cast(s, w, TENSOR_BF16), apart = ops_cast(s, g, TENSOR_BF16);
    tensor_id there = ops_overlay(s, copy, g);
    tensor_keep(s, apart);
    tensor_keep(s, there);
    CHECK_OK(tensor_finish(s, "overlay", &trace, &err), &err);
    const struct trace_tensor *before = &trace->tensors[tensor_trace_id(s, copy)];
    const struct trace_tensor *after = &trace->tensors[tensor_trace_id(s, there)];
    CHECK_EQ(after->storage, before->storage);
    CHECK_EQ(after->version, before->version + 1);
    CHECK_OK(ops_host_create(&host, trace, backend, &err), &err);
    float *from = ops_host_tensor(&host, tensor_trace_id(s, g));
    float *weights = ops_host_tensor(&host, tensor_trace_id(s, w));
    uint64_t random = 7;
    for (size_t i = 0; i < WEIGHTS; i++) {
        uint32_t bits = (uint32_t)ebb_splitmix64(&random) & 0xbfffffffu; /* denormals, no NaN */
        memcpy(&from[i], &bits, sizeof bits);
        weights[i] = (float)i;
    }
    CHECK_OK(ops_host_run(&host, &err), &err);
    CHECK(memcmp(ops_host_tensor(&host, tensor_trace_id(s, there)),
                 ops_host_tensor(&host, tensor_trace_id(s, apart)), 2 * WEIGHTS) == 0);
    ops_host_destroy(&host);
    trace_destroy(trace);
    tensor_session_destroy(s);
    ops_backend_destroy(backend);
}

TEST_MAIN_ONCE(arena_open, arena_close)
