/* A model by itself: its outputs are the same in any memory; what is too little is refused first. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "train/train.h"

static void small_net(struct nn_config *net)
{
    static const char *const options[][2] = {{"vocabulary", "20"}, {"positions", "32"},
                                             {"length", "32"},     {"width", "16"},
                                             {"layers", "3"},      {"heads", "2"}};
    struct ebb_error err = {0};
    CHECK_OK(nn_config_init(net, "gpt2_124M", &err), &err);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        CHECK_OK(nn_config_set(net, options[i][0], options[i][1], &err), &err);
}

/* The scores of the tokens 0 1 2 ... with initial weights, twice; the caller's. */
static float *scores(const struct nn_config *net, const struct train_config *memory, size_t *bytes)
{
    struct ebb_error err = {0};
    struct train_forward f;
    struct train_forward_options o = {.batch = 1, .memory = memory};
    CHECK_OK(train_forward_open(&f, net, &o, &err), &err);
    CHECK_OK(train_forward_initialize(&f, 3, &err), &err);
    const struct tensor_view *v = tensor_view_of(f.session, f.outputs[0].id);
    *bytes = (size_t)tensor_count(v) * sizeof(float);
    float *kept = ebb_alloc(*bytes);
    for (int again = 0; again < 2; again++) {
        int64_t *tokens = train_forward_place(&f, f.inputs[0]);
        for (int64_t i = 0; i < 32; i++)
            tokens[i] = i % 20;
        CHECK_OK(train_forward_run(&f, &err), &err);
        const float *out = train_forward_place(&f, f.outputs[0].id);
        CHECK(!again || memcmp(kept, out, *bytes) == 0);
        memcpy(kept, out, *bytes);
    }
    train_forward_close(&f);
    return kept;
}

static enum ebb_status open_in(const struct nn_config *net, uint64_t budget, uint64_t machine,
                               struct ebb_error *err)
{
    struct train_forward f;
    struct train_config memory = {.budget_bytes = budget, .threads = 1};
    struct train_forward_options o = {.batch = 1, .memory = &memory, .machine_bytes = machine};
    enum ebb_status status = train_forward_open(&f, net, &o, err);
    train_forward_close(&f);
    return status;
}

static void forward__gives_the_same_bits_in_any_budget(void **state)
{
    (void)state;
    struct nn_config net;
    struct ebb_error err = {0};
    size_t bytes, other;
    small_net(&net);
    float *all = scores(&net, NULL, &bytes);
    uint64_t low = 4096, high = 1 << 20; /* the least accepted budget, to 4 KiB */
    CHECK_EQ(open_in(&net, low, 0, &err), EBB_EBUDGET);
    CHECK(strstr(err.message, "the least it can run in is") != NULL);
    CHECK_OK(open_in(&net, high, 0, &err), &err);
    while (high - low > 4096) {
        uint64_t middle = (low + high) / 2;
        if (open_in(&net, middle, 0, &err) == EBB_OK)
            high = middle;
        else
            low = middle;
    }
    static const char *const devices[] = {"cpu", "far"};
    for (size_t i = 0; i < 2; i++) {
        struct train_config memory = {.budget_bytes = high, .threads = 1, .device = devices[i]};
        float *less = scores(&net, &memory, &other);
        CHECK_EQ(bytes, other);
        CHECK(memcmp(all, less, bytes) == 0);
        ebb_free(less);
    }
    ebb_free(all);
}

static void forward__of_a_model_above_the_machine_is_refused(void **state)
{
    (void)state;
    struct nn_config net;
    struct ebb_error err = {0};
    small_net(&net);
    CHECK_OK(open_in(&net, UINT64_MAX, 1 << 20, &err), &err);
    CHECK_EQ(open_in(&net, UINT64_MAX, 1 << 14, &err), EBB_ENOMEM);
    CHECK(strstr(err.message, "this machine has 16.0 KiB") != NULL);
    CHECK_OK(nn_config_init(&net, "GPT_175B", &err), &err);
    CHECK_EQ(open_in(&net, UINT64_MAX, 0, &err), EBB_ENOMEM);
}

/* A result that is an input is there, too, and may change from run to run. */
static void forward__of_an_input_is_that_input(void **state)
{
    (void)state;
    static const char text[] = "inputs: {x: [4]}\n"
                               "modules: {fc: \"Linear(4, 4)\"}\n"
                               "forward:\n"
                               "  - y = fc(x)\n"
                               "  - return y, x\n"
                               "loss: {y: mse_loss}\n";
    struct ebb_arena arena = {0};
    struct ebb_report report = {0};
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_forward f;
    CHECK_OK(nn_config_from_text(&arena, "net.yaml", text, sizeof text - 1, &net, &report, &err),
             &err);
    struct train_forward_options o = {.batch = 2};
    CHECK_OK(train_forward_open(&f, &net, &o, &err), &err);
    CHECK_OK(train_forward_initialize(&f, 3, &err), &err);
    float *in = train_forward_place(&f, f.inputs[0]), first = 0;
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 8; i++)
            in[i] = (float)(i + again);
        CHECK_OK(train_forward_run(&f, &err), &err);
        const float *y = train_forward_place(&f, f.outputs[0].id);
        const float *x = train_forward_place(&f, f.outputs[1].id);
        for (int i = 0; i < 8; i++)
            CHECK_EQ(x[i], (float)(i + again));
        CHECK(!again || y[0] < first || y[0] > first);
        first = y[0];
    }
    train_forward_close(&f);
    ebb_arena_fini(&arena);
}

/* Of one sample, a part of every row lies as one piece behind the other parts. */
static void forward__of_a_part_is_that_part(void **state)
{
    (void)state;
    static const char text[] = "inputs: {x: [6]}\n"
                               "modules: {fc: \"Linear(6, 6)\"}\n"
                               "forward:\n"
                               "  - y = relu(x)\n"
                               "  - a = fc(x)\n"
                               "  - part = y[:, 2:4]\n"
                               "  - return a, part\n"
                               "loss: {a: mse_loss}\n";
    struct ebb_arena arena = {0};
    struct ebb_report report = {0};
    struct ebb_error err = {0};
    struct nn_config net;
    struct train_forward f;
    CHECK_OK(nn_config_from_text(&arena, "net.yaml", text, sizeof text - 1, &net, &report, &err),
             &err);
    struct train_forward_options o = {.batch = 1};
    CHECK_OK(train_forward_open(&f, &net, &o, &err), &err);
    CHECK_OK(train_forward_initialize(&f, 3, &err), &err);
    float *in = train_forward_place(&f, f.inputs[0]);
    for (int i = 0; i < 6; i++)
        in[i] = (float)(i + 1);
    CHECK_OK(train_forward_run(&f, &err), &err);
    const float *part = train_forward_place(&f, f.outputs[1].id);
    CHECK(part[0] > 2.9f && part[0] < 3.1f && part[1] > 3.9f && part[1] < 4.1f);
    train_forward_close(&f);
    ebb_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward__gives_the_same_bits_in_any_budget),
        cmocka_unit_test(forward__of_a_model_above_the_machine_is_refused),
        cmocka_unit_test(forward__of_an_input_is_that_input),
        cmocka_unit_test(forward__of_a_part_is_that_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
