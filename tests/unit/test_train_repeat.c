/* Repetitions of a step for measurements: the same bits every time, under every budget, and the parts
 * of the time add up. */
#include "test.h"

#include <stdlib.h>

#include "base/heap.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "train/train.h"

struct small {
    const char *task, *model;
    const char *options[16]; /* key, value, ... */
    int64_t batch;
};

static const struct small smalls[] = {
    {"image_classification", /* batch norm */
     "cifar_resnet20",
     {"height", "16", "width", "16", "planes", "4", "blocks", "3,3,3"},
     4},
    {"language_model", /* dropout */
     "gpt2_124M",
     {"vocabulary", "60", "positions", "16", "length", "16", "width", "32", "layers", "3", "heads",
      "2", "dropout", "0.2"},
     4},
    {"gan", "unrolled_gan", {"noise", "8", "hidden", "16", "unroll", "3"}, 16}, /* trains itself */
};

static struct train_config config_of(const struct small *s, struct nn_config *net)
{
    struct ebb_error err = {0};
    struct train_config c = {.task = train_task_find(s->task),
                             .net = net,
                             .batch_size = s->batch,
                             .accumulate = 1,
                             .average = true,
                             .seed = 7,
                             .budget_bytes = UINT64_MAX,
                             .device = getenv("EBB_TEST_DEVICE"),
                             .threads = 2};
    CHECK_OK(nn_config_init(net, s->model, &err), &err);
    for (size_t i = 0; s->options[i]; i += 2)
        CHECK_OK(nn_config_set(net, s->options[i], s->options[i + 1], &err), &err);
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *args;
    CHECK_OK(ebb_doc_parse_json(&arena, "opt", "{\"lr\": 1}", 9, &args, &err), &err);
    CHECK_OK(optim_parse("SGD", args, &c.optim, &err), &err);
    ebb_arena_fini(&arena);
    return c;
}

struct outcome {
    char gradients[65];
    struct train_repetition last;
    struct train_state state;
};

/* Three repetitions that agree to the last bit. */
static struct outcome repeat(const struct train_config *config, struct train_options options)
{
    struct ebb_error err = {0};
    struct train_trial *trial = NULL;
    struct outcome o = {0};
    options.is_repeated = options.makes_data = true;
    CHECK_OK(train_trial_create(&trial, config, &options, &err), &err);
    for (int i = 0; i < 3; i++) {
        char hash[65];
        double before = o.last.loss;
        CHECK_OK(train_trial_repeat(trial, &o.last, &err), &err);
        CHECK_OK(train_trial_gradients(trial, hash, &err), &err);
        CHECK(i == 0 || o.last.loss == before);
        CHECK(i == 0 || strcmp(hash, o.gradients) == 0);
        memcpy(o.gradients, hash, sizeof hash);
    }
    CHECK_EQ(train_trial_updates(trial), 0);
    CHECK(!train_trial_has_validation(trial));
    train_trial_state(trial, &o.state);
    train_trial_destroy(trial);
    return o;
}

static void same_everywhere(const struct small *small)
{
    struct nn_config net;
    struct train_config config = config_of(small, &net);
    struct outcome all = repeat(&config, (struct train_options){0});
    CHECK(all.last.first_ns == 0 && all.last.again_ns == 0); /* nobody asked */
    config.budget_bytes = all.state.peak_bytes * 75 / 100;
    static const char *const policies[] = {NULL, "dtr_eq", "dtr_eq", "lru", "floor"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        bool is_online = i == 1;
        config.policy = policies[i];
        struct train_options options = {.measures = true,
                                        .is_online = is_online,
                                        .samples = is_online,
                                        .ignores_small = is_online};
        struct outcome o = repeat(&config, options);
        CHECK_STR(o.gradients, all.gradients);
        CHECK(o.last.loss == all.last.loss);
        CHECK(o.last.peak_bytes <= config.budget_bytes);
        CHECK(o.last.first_ns > 0 && o.last.remat_ops > 0 && o.last.again_ns > 0);
        CHECK(o.last.first_ns + o.last.again_ns + o.last.search_ns + o.last.move_ns <= o.last.ns);
        CHECK(o.last.cost_ns <= o.last.search_ns);
        CHECK((is_online && !o.state.is_fallback) == (o.last.search_ns > 0));
        CHECK(o.state.plan_ns > 0);
    }
}

TEST(repeat__of_batch_norm_is_the_same_in_every_budget)
{
    same_everywhere(&smalls[0]);
}

TEST(repeat__of_dropout_is_the_same_in_every_budget)
{
    same_everywhere(&smalls[1]);
}

TEST(repeat__of_a_model_that_trains_itself_is_the_same_in_every_budget)
{
    same_everywhere(&smalls[2]);
}

TEST(repeat__depends_on_the_seed)
{
    struct nn_config net;
    struct train_config config = config_of(&smalls[0], &net);
    struct outcome one = repeat(&config, (struct train_options){0});
    config.seed = 8;
    struct outcome two = repeat(&config, (struct train_options){0});
    CHECK(strcmp(one.gradients, two.gradients) != 0);
}

TEST(repeat__times_every_op_once)
{
    struct nn_config net;
    struct ebb_error err = {0};
    struct train_config config = config_of(&smalls[0], &net);
    struct train_trial *trial = NULL;
    struct train_options options = {.is_repeated = true, .makes_data = true};
    CHECK_OK(train_trial_create(&trial, &config, &options, &err), &err);
    const struct trace *t = train_trial_trace(trial);
    struct train_repetition r = {.op_ns = calloc(t->op_count, sizeof *r.op_ns)};
    CHECK_OK(train_trial_repeat(trial, &r, &err), &err);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->op_count; i++) {
        CHECK(t->ops[i].cost_ns == 0 || r.op_ns[i] > 0);
        sum += r.op_ns[i];
    }
    CHECK(sum <= r.ns);
    free(r.op_ns);
    train_trial_destroy(trial);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST_MAIN()
