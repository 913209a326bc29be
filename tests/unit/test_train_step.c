/* The step: accumulation, clipping, updates where they can first run, validation without effect. */
#include "test_folder.h"
#include "train_support.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "nn/nn.h"
#include "ops/ops.h"
#include "optim/optim.h"
#include "tensor/tensor.h"
#include "train/step.h"
#include "train/train.h"

static void configure(struct nn_config *net, struct train_config *config, const char *model,
                      const char *const options[][2])
{
    struct ebb_error err = {0};
    struct ebb_arena arena;
    const struct ebb_doc_node *args = NULL;
    CHECK_OK(nn_config_init(net, model, &err), &err);
    for (size_t i = 0; options[i][0]; i++)
        CHECK_OK(nn_config_set(net, options[i][0], options[i][1], &err), &err);
    ebb_arena_init(&arena);
    CHECK_OK(ebb_doc_parse_yaml(&arena, "args", "{lr: 0.5}", 9, &args, &err), &err);
    *config = (struct train_config){.file = "test",
                                    .task = train_task_find(nn_task_name(net->model->task)),
                                    .net = net,
                                    .batch_size = 3,
                                    .accumulate = 1,
                                    .average = true,
                                    .seed = 5,
                                    .budget_bytes = UINT64_MAX,
                                    .device = getenv("EBB_TEST_DEVICE"),
                                    .threads = 1};
    CHECK_OK(optim_parse("SGD", args, &config->optim, &err), &err);
    ebb_arena_fini(&arena);
}

/* A transformer without dropout: no statistics of a batch, no masks. */
static const char *const plain[][2] = {{"vocabulary", "20"}, {"positions", "8"}, {"length", "8"},
                                       {"width", "16"},      {"layers", "1"},    {"heads", "2"},
                                       {NULL, NULL}};

struct weights {
    struct ebb_file_view view;
    struct tensor_file file;
};

static const char *export(struct train_trial *trial, const char *name)
{
    static char path[256];
    struct ebb_error err = {0};
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    CHECK_OK(train_trial_export(trial, path, &err), &err);
    return path;
}

static void open_weights(struct weights *w, const char *path)
{
    struct ebb_error err = {0};
    CHECK_OK(ebb_file_view_open(&w->view, path, SIZE_MAX, &err), &err);
    CHECK_OK(tensor_file_read(&w->file, path, w->view.data, w->view.length, &err), &err);
}

static void close_weights(struct weights *w)
{
    tensor_file_fini(&w->file);
    ebb_file_view_close(&w->view);
}

static float element(const struct tensor_entry *e, size_t i)
{
    float value;
    memcpy(&value, (const char *)e->data + i * sizeof value, sizeof value);
    return value;
}

/* Without momentum an update of two batches is the mean of the two updates, or their sum. */
static void check_accumulation(bool average)
{
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    struct train_batch batch;
    struct weights start, first, second, both;
    configure(&net, &config, "gpt2_124M", plain);
    struct train_trial *t = make(&config);
    char *begin = ebb_strdup(export(t, "start"));
    batches(t, 1, &batch);
    open_weights(&first, export(t, "first"));
    CHECK_OK(train_trial_import(t, &(struct train_init){.path = begin}, NULL, &err), &err);
    batches(t, 1, &batch); /* the second batch from the same start */
    open_weights(&second, export(t, "second"));
    train_trial_destroy(t);
    config.accumulate = 2;
    config.average = average;
    t = make(&config);
    batches(t, 1, &batch);
    CHECK(!batch.is_update);
    batches(t, 1, &batch);
    CHECK(batch.is_update);
    open_weights(&both, export(t, "both"));
    open_weights(&start, begin);
    train_trial_destroy(t);
    double scale = average ? 0.5 : 1;
    for (size_t k = 0; k < both.file.count; k++) {
        const struct tensor_entry *e = &both.file.entries[k];
        const struct tensor_entry *s = tensor_file_find(&start.file, e->name);
        const struct tensor_entry *a = tensor_file_find(&first.file, e->name);
        const struct tensor_entry *b = tensor_file_find(&second.file, e->name);
        for (size_t i = 0; i < e->bytes / sizeof(float); i++) {
            double w = (double)element(s, i);
            double want = w + scale * ((double)element(a, i) - w + (double)element(b, i) - w);
            CHECK(fabs((double)element(e, i) - want) <= 1e-5 * fmax(1, fabs(want)));
        }
    }
    close_weights(&start);
    close_weights(&first);
    close_weights(&second);
    close_weights(&both);
    ebb_free(begin);
}

TEST(accumulation__averages_batches)
{
    check_accumulation(true);
}

TEST(accumulation__or_adds_them)
{
    check_accumulation(false);
}

static void check_clipping(int accumulate)
{
    struct nn_config net;
    struct train_config config;
    struct train_batch batch;
    struct weights before, after;
    configure(&net, &config, "gpt2_124M", plain);
    config.clip_norm = 0.01;
    config.accumulate = accumulate;
    struct train_trial *t = make(&config);
    open_weights(&before, export(t, "before"));
    batches(t, accumulate, &batch);
    open_weights(&after, export(t, "after"));
    train_trial_destroy(t);
    CHECK(batch.norm > config.clip_norm); /* else this shows nothing */
    double sum = 0;
    for (size_t k = 0; k < after.file.count; k++) {
        const struct tensor_entry *e = &after.file.entries[k];
        const struct tensor_entry *old = tensor_file_find(&before.file, e->name);
        for (size_t i = 0; i < e->bytes / sizeof(float); i++)
            sum += pow((double)element(e, i) - (double)element(old, i), 2);
    }
    CHECK(fabs(sqrt(sum) / config.optim.lr - config.clip_norm) < 1e-4 * config.clip_norm + 1e-6);
    close_weights(&before);
    close_weights(&after);
}

TEST(clipping__by_norm_bounds_the_update)
{
    check_clipping(1);
    check_clipping(2); /* of the sum of two batches, once */
}

/* Every element of an update of three batches is at most the rate times the bound. */
TEST(clipping__by_value_bounds_the_update_of_several_batches)
{
    struct nn_config net;
    struct train_config config;
    struct train_batch batch;
    struct weights before, after;
    double most = 0;
    configure(&net, &config, "gpt2_124M", plain);
    config.clip_value = 0.001;
    config.accumulate = 3;
    struct train_trial *t = make(&config);
    open_weights(&before, export(t, "before"));
    batches(t, 3, &batch);
    open_weights(&after, export(t, "after"));
    train_trial_destroy(t);
    for (size_t k = 0; k < after.file.count; k++) {
        const struct tensor_entry *e = &after.file.entries[k];
        const struct tensor_entry *old = tensor_file_find(&before.file, e->name);
        for (size_t i = 0; i < e->bytes / sizeof(float); i++)
            most = fmax(most, fabs((double)element(e, i) - (double)element(old, i)));
    }
    CHECK(fabs(most / config.optim.lr - config.clip_value) < 1e-3 * config.clip_value);
    close_weights(&before);
    close_weights(&after);
}

/* memory.gradients: overlay. Without momentum an update is the rate times the gradient, which has the
 * bits of bf16 for weights with a copy in it, and all bits for the others. */
TEST(overlay__rounds_gradients_of_weights_with_copies)
{
    struct nn_config net;
    struct train_config config;
    struct train_batch batch;
    struct weights start, apart, over;
    size_t rounded = 0, whole = 0;
    configure(&net, &config, "gpt2_124M", plain);
    config.precision = TRAIN_BF16;
    config.wishes.gradients = TRAIN_GRADIENTS_SEPARATE;
    struct train_trial *t = make(&config);
    open_weights(&start, export(t, "overlay-start"));
    batches(t, 1, &batch);
    open_weights(&apart, export(t, "apart"));
    train_trial_destroy(t);
    config.wishes.gradients = TRAIN_GRADIENTS_OVERLAY;
    t = make(&config);
    batches(t, 1, &batch);
    open_weights(&over, export(t, "over"));
    train_trial_destroy(t);
    for (size_t k = 0; k < over.file.count; k++) {
        const struct tensor_entry *e = &over.file.entries[k];
        const struct tensor_entry *s = tensor_file_find(&start.file, e->name);
        const struct tensor_entry *a = tensor_file_find(&apart.file, e->name);
        for (size_t i = 0; i < e->bytes / sizeof(float); i++) {
            double step = (double)element(a, i) - (double)element(s, i);
            double error = fabs((double)element(e, i) - (double)element(a, i));
            CHECK(error <= ldexp(fabs(step), -8) + 1e-7);
        }
        *(memcmp(e->data, a->data, e->bytes) == 0 ? &whole : &rounded) += 1;
        if (e->view.rank < 2) /* norms and biases */
            CHECK(memcmp(e->data, a->data, e->bytes) == 0);
    }
    CHECK(rounded >= 4 && whole >= 4);
    close_weights(&start);
    close_weights(&apart);
    close_weights(&over);
}

/* Inception's second head has no part in the loss: nothing of it changes, decay or not. */
TEST(parameters_without_a_gradient__stay_as_they_are)
{
    static const char *const small[][2] = {
        {"shrink", "16"}, {"height", "107"}, {"width", "107"}, {"classes", "10"}, {NULL, NULL}};
    struct nn_config net;
    struct train_config config;
    struct train_batch batch;
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        struct weights before, after;
        size_t still = 0, moved = 0;
        configure(&net, &config, "inception_v3", small);
        config.optim.weight_decay = 0.1;
        config.batch_size = 2;
        config.accumulate = accumulate;
        struct train_trial *t = make(&config);
        open_weights(&before, export(t, "before"));
        batches(t, accumulate, &batch);
        open_weights(&after, export(t, "after"));
        train_trial_destroy(t);
        for (size_t k = 0; k < after.file.count; k++) {
            const struct tensor_entry *e = &after.file.entries[k];
            const struct tensor_entry *old = tensor_file_find(&before.file, e->name);
            bool is_same = memcmp(e->data, old->data, e->bytes) == 0;
            if (!strstr(e->name, "weight"))
                continue;
            still += is_same && strncmp(e->name, "AuxLogits", 9) == 0;
            moved += !is_same;
            CHECK(is_same == (strncmp(e->name, "AuxLogits", 9) == 0));
        }
        CHECK(still > 0 && moved > 0);
        close_weights(&before);
        close_weights(&after);
    }
}

/* Weights that are no numbers: no loss scale helps, and training must not go on for ever. */
TEST(scaling__ends_when_no_scale_helps)
{
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    struct train_batch batch;
    configure(&net, &config, "gpt2_124M", plain);
    config.precision = TRAIN_FP16;
    config.optim.lr = 1e30;
    struct train_trial *t = make(&config);
    enum ebb_status status = EBB_OK;
    for (int i = 0; i < 200 && status == EBB_OK; i++)
        status = train_trial_batch(t, &batch, &err);
    CHECK_EQ(status, EBB_ELIMIT);
    CHECK(strstr(err.message, "diverged"));
    train_trial_destroy(t);
}

TEST(schedule__sets_the_rate)
{
    struct ebb_error err = {0};
    struct ebb_arena arena;
    struct nn_config net;
    struct train_config config;
    struct train_batch batch;
    configure(&net, &config, "gpt2_124M", plain);
    ebb_arena_init(&arena);
    const char *text = "{step_size: 2, gamma: 0.1}";
    CHECK_OK(ebb_doc_parse_yaml(&arena, "s", text, strlen(text), &config.schedule, &err), &err);
    config.schedule_name = "StepLR";
    struct train_trial *t = make(&config);
    batches(t, 2, &batch);
    CHECK(batch.rate == 0.5);
    batches(t, 1, &batch);
    CHECK(fabs(batch.rate - 0.05) < 1e-12);
    train_trial_destroy(t);
    ebb_arena_fini(&arena);
}

/* With rate r and decay d, w shrinks by r d w where it decays, on top of its gradient's step. */
TEST(decay__of_matrices_only)
{
    struct nn_config net;
    struct train_config config;
    struct train_batch batch;
    struct weights start, none, some;
    configure(&net, &config, "gpt2_124M", plain);
    struct train_trial *t = make(&config);
    open_weights(&start, export(t, "decay-start"));
    batches(t, 1, &batch);
    open_weights(&none, export(t, "decay-none"));
    train_trial_destroy(t);
    config.optim.weight_decay = 0.125;
    config.decays_matrices_only = true;
    t = make(&config);
    batches(t, 1, &batch);
    open_weights(&some, export(t, "decay-some"));
    train_trial_destroy(t);
    size_t decayed = 0, kept = 0;
    for (size_t k = 0; k < some.file.count; k++) {
        const struct tensor_entry *e = &some.file.entries[k];
        const struct tensor_entry *s = tensor_file_find(&start.file, e->name);
        const struct tensor_entry *n = tensor_file_find(&none.file, e->name);
        double share = e->view.rank > 1 ? config.optim.lr * config.optim.weight_decay : 0;
        for (size_t i = 0; i < e->bytes / sizeof(float); i++) {
            double want = (double)element(n, i) - share * (double)element(s, i);
            CHECK(fabs((double)element(e, i) - want) <= 1e-6);
        }
        *(share > 0 ? &decayed : &kept) += 1;
    }
    CHECK(decayed > 3 && kept > 3);
    close_weights(&start);
    close_weights(&none);
    close_weights(&some);
}

/* The number of a batch decides inputs and dropout masks: no two are alike. */
TEST(batches__have_inputs_and_masks_of_their_own)
{
    struct nn_config net;
    struct train_config config;
    struct train_batch one, two;
    configure(&net, &config, "gpt2_124M", plain);
    config.optim.lr = 0;
    struct train_trial *t = make(&config);
    batches(t, 1, &one);
    batches(t, 1, &two);
    CHECK(one.loss != two.loss);
    train_trial_destroy(t);
}

TEST(validation__changes_nothing_and_repeats)
{
    static const char *const small[][2] = {
        {"height", "8"}, {"width", "8"}, {"planes", "4"}, {"blocks", "1,1,1"}, {NULL, NULL}};
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_config config;
    struct train_batch batch;
    struct train_metrics one, two;
    char before[65], after[65];
    configure(&net, &config, "cifar_resnet20", small);
    struct train_trial *t = make(&config);
    batches(t, 2, &batch);
    CHECK_OK(train_trial_hash(t, before, &err), &err);
    CHECK_OK(train_trial_validate(t, NULL, NULL, &one, &err), &err);
    CHECK_OK(train_trial_validate(t, NULL, NULL, &two, &err), &err);
    CHECK_OK(train_trial_hash(t, after, &err), &err);
    CHECK_STR(after, before);
    CHECK_EQ(one.count, two.count);
    CHECK_STR(one.items[0].name, "validation_loss");
    for (size_t i = 0; i < one.count; i++)
        CHECK(one.items[i].value == two.items[i].value ||
              (isnan(one.items[i].value) && isnan(two.items[i].value)));
    train_trial_destroy(t);
}

/* ---- hoisting ---- */

TEST(updates__run_where_they_first_can)
{
    static const char *const deep[][2] = {
        {"layers", "6"}, {"planes", "32"}, {"height", "32"}, {"width", "32"}, {NULL, NULL}};
    struct ebb_error err = {0};
    struct ebb_arena arena;
    struct nn_config net;
    struct train_config config;
    struct train_step step;
    void *backend;
    configure(&net, &config, "linear", deep);
    ebb_arena_init(&arena);
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    struct train_step_options o = {
        .kind = TRAIN_STEP, .batch = 1, .config = &config, .net = &net, .backend = backend};
    CHECK_OK(train_step_build(&arena, &o, &step, &err), &err);
    uint32_t first = 0, last_backward = 0, updates = 0;
    for (uint32_t i = 0; i < step.trace->op_count; i++) {
        const struct trace_op *op = &step.trace->ops[i];
        if (op->phase == TRACE_BACKWARD)
            last_backward = i;
        if (op->kind->purity == TRACE_MUTATING && op->phase == TRACE_UPDATE) {
            updates++;
            first = first ? first : i;
        }
    }
    CHECK(updates >= 7);
    CHECK(first < last_backward);
    CHECK_OK(trace_check(step.trace, &err), &err);
    trace_destroy(step.trace);
    config.clip_norm = 1; /* needs all gradients: every update comes after the last of them */
    CHECK_OK(train_step_build(&arena, &o, &step, &err), &err);
    for (uint32_t i = 0, seen = 0; i < step.trace->op_count; i++) {
        const struct trace_op *op = &step.trace->ops[i];
        seen |= op->kind->purity == TRACE_MUTATING && op->phase == TRACE_UPDATE;
        CHECK(!seen || op->phase != TRACE_BACKWARD);
    }
    trace_destroy(step.trace);
    ops_backend_destroy(backend);
    ebb_arena_fini(&arena);
}

/* What memory held before must not show: the heap hands out other bytes, the stack is full of them.
 */
static void disturb(int value)
{
    volatile unsigned char stack[65536];
    for (size_t i = 0; i < sizeof stack; i++)
        stack[i] = (unsigned char)value;
    mallopt(M_PERTURB, value);
}

static struct ebb_hash128 record(const struct train_step_options *o, const char *path)
{
    struct ebb_error err = {0};
    struct ebb_arena arena;
    struct train_step step;
    ebb_arena_init(&arena);
    CHECK_OK(train_step_build(&arena, o, &step, &err), &err);
    CHECK_OK(trace_write_native(step.trace, path, &err), &err);
    struct ebb_hash128 signature = step.trace->signature;
    trace_destroy(step.trace);
    ebb_arena_fini(&arena);
    return signature;
}

TEST(recording__gives_the_same_bytes_every_time)
{
    static const char *const small[][2] = {
        {"vocabulary", "20"}, {"positions", "8"}, {"length", "8"},     {"width", "16"},
        {"layers", "2"},      {"heads", "2"},     {"dropout", "0.25"}, {NULL, NULL}};
    static const char *const none[][2] = {{NULL, NULL}};
    static const struct {
        const char *model;
        const char *const (*options)[2];
    } cases[] = {{"gpt2_124M", small}, {"bert_base", small}, {"cifar_resnet20", none},
                 {"unet", none},       {"dtr_lstm", none},   {"mobilenet_v2", none}};
    void *backend;
    struct ebb_error err = {0};
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct nn_config net;
        struct train_config config;
        char path[3][64];
        struct ebb_hash128 signature[3];
        struct ebb_file_view file[2];
        configure(&net, &config, cases[i / 2].model, cases[i / 2].options);
        config.precision = i % 2 ? TRAIN_BF16 : TRAIN_FP32;
        struct train_step_options o = {
            .kind = TRAIN_STEP, .config = &config, .net = &net, .backend = backend};
        for (int k = 0; k < 3; k++) {
            snprintf(path[k], sizeof path[k], "%s/%d.trace", folder, k);
            o.batch = k < 2 ? 2 : 3;
            disturb(k ? 0x5a : 0xc3);
            signature[k] = record(&o, path[k]);
        }
        CHECK(memcmp(&signature[0], &signature[1], sizeof signature[0]) == 0);
        CHECK(memcmp(&signature[0], &signature[2], sizeof signature[0]) != 0);
        for (int k = 0; k < 2; k++)
            CHECK_OK(ebb_file_view_open(&file[k], path[k], SIZE_MAX, &err), &err);
        CHECK_EQ(file[0].length, file[1].length);
        CHECK(memcmp(file[0].data, file[1].data, file[0].length) == 0);
        for (int k = 0; k < 2; k++)
            ebb_file_view_close(&file[k]);
    }
    mallopt(M_PERTURB, 0);
    ops_backend_destroy(backend);
}

/* Everything kept, each storage a block of its own: the reference for the engine. */
TEST(engine__as_running_every_op_once)
{
    struct ebb_error err = {0};
    struct ebb_arena arena;
    struct nn_config net;
    struct train_config config;
    struct train_step step;
    struct train_batch batch;
    struct ops_host host;
    struct weights start, want;
    void *backend;
    configure(&net, &config, "gpt2_124M", plain);
    struct train_trial *t = make(&config);
    open_weights(&start, export(t, "host-start"));
    batches(t, 1, &batch);
    open_weights(&want, export(t, "host-want"));
    train_trial_destroy(t);
    ebb_arena_init(&arena);
    CHECK_OK(ops_backend_create(&backend, NULL, NULL, NULL, 1, &err), &err);
    struct train_step_options o = {.kind = TRAIN_STEP,
                                   .batch = config.batch_size,
                                   .config = &config,
                                   .net = &net,
                                   .backend = backend};
    CHECK_OK(train_step_build(&arena, &o, &step, &err), &err);
    CHECK_OK(ops_host_create(&host, step.trace, backend, &err), &err);
    for (size_t i = 0; i < step.slot_count; i++) {
        const struct tensor_entry *e = tensor_file_find(&start.file, step.slots[i].name);
        memcpy(ops_host_tensor(&host, step.slots[i].tensor), e->data, e->bytes);
    }
    float scalars[OPS_UPDATE_SCALARS];
    struct optim_count count = {0};
    optim_step(&config.optim, &count, config.optim.lr, scalars);
    memcpy(ops_host_tensor(&host, step.scalars_id[0]), scalars, sizeof scalars);
    /* The inputs of update 0, as a trial with makes_data draws them. */
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t id = side ? step.target_ids[0] : step.input_ids[0];
        int64_t *bytes = ops_host_tensor(&host, id);
        int64_t n = tensor_count(side ? &step.targets[0].view : &step.inputs[0].view);
        uint32_t word[4], key[2] = {5, 0};
        for (int64_t i = 0; i < n; i++) {
            if (i % 4 == 0)
                ebb_philox(key, (uint32_t[4]){(uint32_t)(i / 4), 0, 0, side ? NN_PORTS : 0}, word);
            bytes[i] = (int64_t)(word[i % 4] % 20);
        }
    }
    CHECK_OK(ops_host_run(&host, &err), &err);
    float loss;
    memcpy(&loss, ops_host_tensor(&host, step.loss_id), sizeof loss);
    CHECK((double)loss == batch.loss);
    for (size_t i = 0; i < step.slot_count; i++) {
        const struct tensor_entry *e = tensor_file_find(&want.file, step.slots[i].name);
        CHECK(memcmp(ops_host_tensor(&host, step.slots[i].tensor), e->data, e->bytes) == 0);
    }
    ops_host_destroy(&host);
    trace_destroy(step.trace);
    ops_backend_destroy(backend);
    close_weights(&start);
    close_weights(&want);
    ebb_arena_fini(&arena);
}

TEST_MAIN_ONCE(folder_open, folder_close)
