/* Training under a budget: never more bytes than given, and the same bits as without a limit.
 *
 * Small versions of eight kinds of models are trained at several budgets between what they need
 * without a limit and their floor, under policies and planners; every model of the zoo makes one
 * update without a limit and one at its floor. EBB_TEST_LONG=1 runs every budget under every
 * policy, ten updates each; EBB_TEST_ONLY=N runs the N-th test alone, for several processes. */
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "mem/mem.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "train/train.h"

struct small {
    const char *task, *model;
    const char *options[16]; /* key, value, ... */
    int64_t batch;
    const char *optimizer;
};

static const struct small smalls[] = {
    {"image_classification",
     "cifar_resnet20", /* batch norm */
     {"height", "16", "width", "16", "planes", "4", "blocks", "1,1,1"},
     4,
     "SGD"},
    {"image_classification",
     "densenet_bc_100_12",
     {"height", "16", "width", "16", "blocks", "2,2,2", "growth", "4", "planes", "8"},
     4,
     "SGD"},
    {"segmentation",
     "unet",
     {"height", "32", "width", "40", "planes", "4", "depth", "2"},
     2,
     "RMSprop"},
    {"language_model",
     "wlm_lstm",
     {"vocabulary", "60", "length", "6", "embedding", "16", "hidden", "16"},
     4,
     "Adam"},
    {"regression", "dtr_treelstm", {"features", "8", "memory", "12", "depth", "3"}, 4, "SGD"},
    {"language_model",
     "gpt2_124M",
     {"vocabulary", "60", "positions", "16", "length", "16", "width", "32", "layers", "3", "heads",
      "2", "dropout", "0.2"},
     4,
     "AdamW"},
    {"gan", "unrolled_gan", {"noise", "8", "hidden", "16", "unroll", "2"}, 16, "Adam"},
    {"regression",
     "cosmoflow",
     {"size", "16", "planes", "4", "layers", "3", "hidden", "16,8"},
     2,
     "SGD"},
};
enum { SMALLS = sizeof smalls / sizeof *smalls };

struct outcome {
    char hash[65];
    uint64_t peak_bytes, floor_bytes, unlimited_bytes;
    double loss;
    bool is_refused;
};

static bool is_other(int number)
{
    const char *text = getenv("EBB_TEST_ONLY");
    return text && strtol(text, NULL, 10) != number;
}

static void configure(const struct small *m, struct nn_config *net, struct train_config *config)
{
    struct ebb_error err = {0};
    struct ebb_arena arena;
    const struct ebb_doc_node *args = NULL;
    CHECK_OK(nn_config_init(net, m->model, &err), &err);
    for (size_t i = 0; i < 16 && m->options[i]; i += 2)
        CHECK_OK(nn_config_set(net, m->options[i], m->options[i + 1], &err), &err);
    ebb_arena_init(&arena);
    const char *text =
        strcmp(m->optimizer, "SGD") == 0 ? "{lr: 0.05, momentum: 0.9}" : "{lr: 0.002}";
    CHECK_OK(ebb_doc_parse_yaml(&arena, "args", text, strlen(text), &args, &err), &err);
    *config = (struct train_config){.file = "test",
                                    .task = train_task_find(m->task),
                                    .net = net,
                                    .batch_size = m->batch,
                                    .accumulate = 1,
                                    .average = true,
                                    .seed = 7,
                                    .budget_bytes = UINT64_MAX,
                                    .threads = 1};
    CHECK_OK(optim_parse(m->optimizer, args, &config->optim, &err), &err);
    ebb_arena_fini(&arena);
}

static void train_with(const struct train_config *config, int updates, bool is_online,
                       struct outcome *out)
{
    struct ebb_error err = {0};
    struct train_options options = {.makes_data = true, .is_online = is_online};
    struct train_trial *trial = NULL;
    struct train_batch batch = {0};
    struct train_state state;
    memset(out, 0, sizeof *out);
    enum ebb_status status = train_trial_create(&trial, config, &options, &err);
    out->is_refused = status == EBB_EBUDGET;
    if (out->is_refused)
        return;
    CHECK_OK(status, &err);
    for (int i = 0; i < updates; i++) {
        CHECK_OK(train_trial_batch(trial, &batch, &err), &err);
        CHECK(batch.is_update);
    }
    CHECK_OK(train_trial_hash(trial, out->hash, &err), &err);
    CHECK_OK(train_trial_floor(trial, &out->floor_bytes, &err), &err);
    train_trial_state(trial, &state);
    out->peak_bytes = state.peak_bytes;
    out->unlimited_bytes = state.unlimited_bytes;
    out->loss = batch.loss;
    train_trial_destroy(trial);
}

/* Another device than the cpu, whose bits are the reference: EBB_TEST_DEVICE. */
static const char *device_of_tests(void)
{
    return getenv("EBB_TEST_DEVICE");
}

/* One cell of the table: fits, and gives the same bits. */
static void check_cell(const struct small *m, struct train_config *config, uint64_t budget,
                       const char *policy, int updates, const struct outcome *free_run)
{
    struct outcome got;
    config->budget_bytes = budget;
    config->policy = policy;
    train_with(config, updates, false, &got);
    if (got.is_refused)
        fail_msg("%s at %" PRIu64 " under %s was refused", m->model, budget, policy);
    if (got.peak_bytes > budget)
        fail_msg("%s at %" PRIu64 " under %s used %" PRIu64, m->model, budget, policy,
                 got.peak_bytes);
    if (strcmp(got.hash, free_run->hash) != 0)
        fail_msg("%s at %" PRIu64 " under %s has other weights", m->model, budget, policy);
}

static void sweep(const struct small *m, bool is_full)
{
    enum { BUDGETS = 8 };
    static const char *const planners[] = {"best", "floor", "rotor"};
    struct nn_config net;
    struct train_config config;
    struct outcome free_run;
    int updates = is_full ? 10 : 2;
    configure(m, &net, &config);
    train_with(&config, updates, false, &free_run);
    CHECK(free_run.peak_bytes <= free_run.unlimited_bytes);
    CHECK(free_run.floor_bytes <= free_run.unlimited_bytes);
    config.device = device_of_tests();
    check_cell(m, &config, free_run.unlimited_bytes, "none", updates, &free_run);
    uint64_t room = free_run.unlimited_bytes - free_run.floor_bytes;
    for (uint64_t b = 0; b < BUDGETS; b++) {
        uint64_t budget = free_run.floor_bytes + room * b / (BUDGETS - 1) / 256 * 256;
        if (!is_full && b != 0 && b != 3)
            continue;
        for (size_t p = 0; p < mem_policy_count; p++) {
            const char *name = mem_policies[p].name;
            if (is_full || strcmp(name, "dtr_eq") == 0 || (b == 3 && strcmp(name, "lru") == 0))
                check_cell(m, &config, budget, name, updates, &free_run);
        }
        for (size_t p = 0; p < 3; p++)
            if ((is_full && (p > 0 || b == 2 || b == 5)) || /* best takes its time */
                (b == 3 && (p == 1 || m == &smalls[SMALLS - 1])))
                check_cell(m, &config, budget, planners[p], updates, &free_run);
    }
    struct outcome got;
    config.budget_bytes = free_run.floor_bytes - 256;
    config.policy = "dtr_eq";
    train_with(&config, 1, false, &got);
    CHECK(got.is_refused);
}

#define SWEEP(name, number)                                                                        \
    TEST(name##__same_bits_at_every_budget)                                                        \
    {                                                                                              \
        if (is_other(number))                                                                      \
            skip();                                                                                \
        sweep(&smalls[number], test_is_long());                                                    \
    }
SWEEP(batch_norm_resnet, 0)
SWEEP(densenet, 1)
SWEEP(unet, 2)
SWEEP(lstm, 3)
SWEEP(treelstm, 4)
SWEEP(gpt_with_dropout, 5)
SWEEP(unrolled_gan, 6)
SWEEP(volumes, 7)

TEST(online_decisions__same_bits_as_planned_ones)
{
    struct nn_config net;
    struct train_config config;
    struct outcome planned, online;
    configure(&smalls[0], &net, &config);
    train_with(&config, 2, false, &planned);
    config.device = device_of_tests();
    config.budget_bytes = (planned.floor_bytes + planned.unlimited_bytes) / 2;
    config.policy = "dtr_eq";
    train_with(&config, 2, true, &online);
    CHECK(online.peak_bytes <= config.budget_bytes);
    CHECK_STR(online.hash, planned.hash);
    config.policy = "unified"; /* copies that begin early */
    config.host_bytes = 64 << 20;
    train_with(&config, 2, true, &online);
    CHECK(online.peak_bytes <= config.budget_bytes);
    CHECK_STR(online.hash, planned.hash);
}

/* ---- the zoo -------------------------------------------------------------------------------- */

/* Small values for options by name; image sizes depend on how often a model halves them. */
static void shrink(struct nn_config *net)
{
    static const char *const small_values[][2] = {
        {"classes", "5"},       {"planes", "8"},         {"shrink", "8"},         {"hidden", "16"},
        {"layers", "2"},        {"vocabulary", "50"},    {"positions", "16"},     {"length", "16"},
        {"target_length", "4"}, {"depth", "3"},          {"steps", "4"},          {"features", "8"},
        {"memory", "8"},        {"unroll", "2"},         {"noise", "4"},          {"growth", "4"},
        {"embedding", "16"},    {"encoder_layers", "2"}, {"decoder_layers", "1"}, {"middle", "1"},
        {"heads", "2"}};
    struct ebb_error err = {0};
    const char *name = net->model->name;
    bool is_image = nn_config_int(net, "height", 0) > 0;
    const char *size = strstr(name, "inception") || strcmp(name, "googlenet") == 0 ? "96" : "64";
    for (size_t i = 0; i < sizeof small_values / sizeof *small_values; i++)
        (void)nn_config_set(net, small_values[i][0], small_values[i][1], &err);
    if (is_image && strncmp(name, "cifar", 5) == 0)
        size = "16";
    (void)nn_config_set(net, "height", size, &err);
    (void)nn_config_set(net, "width", is_image ? size : "32", &err);
    if (strcmp(name, "cosmoflow") == 0) {
        (void)nn_config_set(net, "size", "16", &err);
        (void)nn_config_set(net, "layers", "3", &err);
        (void)nn_config_set(net, "hidden", "16,8", &err);
    }
    if (strcmp(name, "unet") == 0 || strcmp(name, "unet_transposed") == 0)
        (void)nn_config_set(net, "classes", "1", &err);
    if (strncmp(name, "cifar_resnet", 12) == 0)
        (void)nn_config_set(net, "blocks", "1,1,1", &err);
    if (strncmp(name, "densenet1", 9) == 0 || strncmp(name, "densenet2", 9) == 0)
        (void)nn_config_set(net, "blocks", "2,2,2,2", &err);
    if (strcmp(name, "densenet_bc_100_12") == 0)
        (void)nn_config_set(net, "blocks", "2,2,2", &err);
}

static const char *task_of(const struct nn_model *model)
{
    return model->task == NN_SEQUENCE ? "regression" : nn_task_name(model->task);
}

static void try_model(const struct nn_model *model)
{
    const struct small m = {
        .task = task_of(model), .model = model->name, .batch = 2, .optimizer = "SGD"};
    struct nn_config net;
    struct train_config config;
    struct outcome free_run;
    configure(&m, &net, &config);
    shrink(&net);
    train_with(&config, 1, false, &free_run);
    config.device = device_of_tests();
    check_cell(&m, &config, free_run.floor_bytes, "dtr_eq", 1, &free_run);
    if (test_is_long())
        printf("%-20s floor %10" PRIu64 " of %10" PRIu64 "\n", model->name, free_run.floor_bytes,
               free_run.unlimited_bytes);
}

/* The sizes of one transformer differ in numbers that are shrunk away: every tenth is enough, and
 * of the rest a slice. */
TEST(zoo__one_update_at_the_floor)
{
    if (is_other(8))
        skip();
    size_t tried = 0;
    for (size_t i = 0; i < nn_model_count(); i++) {
        const struct nn_model *model = nn_model_at(i);
        bool is_size = strncmp(model->name, "GPT", 3) == 0 || strncmp(model->name, "meg", 3) == 0;
        if (!test_is_long() && (is_size ? i % 10 != 0 : i % 4 != 0))
            continue;
        try_model(model);
        tried++;
    }
    CHECK(tried >= 10);
}

TEST_MAIN()
