/* Sections of training: ${name}, --set, every mistake in one go, values as C sees them. */
#include "test_arena.h"

#include <stdio.h>

#include "base/str.h"
#include "nn/nn.h"
#include "train/train.h"

static const struct ebb_doc_node *yaml(const char *text)
{
    struct ebb_error err = {0};
    const struct ebb_doc_node *root = NULL;
    CHECK_OK(ebb_doc_parse_yaml(&arena, "test", text, strlen(text), &root, &err), &err);
    return root;
}

/* ---- ${name} ---- */

TEST(expand__whole_scalar_takes_the_typed_value)
{
    const struct ebb_doc_node *x = train_expand(
        &arena, NULL, yaml("{lr: '${rate}', betas: [0.9, '${b}']}"), yaml("{rate: 0.5, b: 1}"));
    CHECK_EQ(ebb_doc_get(x, "lr")->kind, EBB_DOC_DOUBLE);
    CHECK(ebb_doc_double(x, "lr", 0) == 0.5);
    CHECK_EQ(ebb_doc_get(x, "betas")->items[1]->kind, EBB_DOC_INT);
}

TEST(expand__inside_a_string_it_is_text)
{
    const struct ebb_doc_node *x =
        train_expand(&arena, NULL, yaml("{a: 'run-${n}-${s}', b: 'costs $${n}', c: '${unknown}x'}"),
                     yaml("{n: 3, s: word}"));
    CHECK_STR(ebb_doc_string(x, "a", ""), "run-3-word");
    CHECK_STR(ebb_doc_string(x, "b", ""), "costs ${n}");
    CHECK_STR(ebb_doc_string(x, "c", ""), "${unknown}x");
}

TEST(expand__marks_what_cannot_be_had)
{
    struct ebb_reading reading;
    struct ebb_report report;
    ebb_reading_init(&reading, &arena, "f", &report);
    const struct ebb_doc_node *x = train_expand(
        &arena, &reading, yaml("{a: '${n}', b: 'x${no}', c: [1, '${no}'], d: '$${no}'}"),
        yaml("{n: 3}"));
    CHECK(ebb_reading_is_good(&reading, ebb_doc_get(x, "a")));
    CHECK(!ebb_reading_is_good(&reading, ebb_doc_get(x, "b")));
    CHECK(!ebb_reading_is_good(&reading, ebb_doc_get(x, "c")));
    CHECK(ebb_reading_is_good(&reading, ebb_doc_get(x, "d")));
    ebb_reading_error(&reading, &(struct ebb_path){.key = "b"}, ebb_doc_get(x, "b"), "wrong");
    CHECK_EQ(report.errors, 0);
    ebb_reading_fini(&reading);
}

TEST(expand__positions_stay)
{
    const struct ebb_doc_node *raw = yaml("opt:\n  lr: ${rate}\n");
    const struct ebb_doc_node *x = train_expand(&arena, NULL, raw, yaml("{rate: 0.5}"));
    const struct ebb_doc_node *lr = ebb_doc_get(ebb_doc_get(x, "opt"), "lr");
    CHECK_EQ(lr->line, 2);
    CHECK_EQ(lr->column, 7);
    CHECK_STR(ebb_doc_string(ebb_doc_get(raw, "opt"), "lr", ""), "${rate}"); /* untouched */
}

/* ---- --set ---- */

TEST(set__makes_and_changes_values_on_the_way)
{
    struct ebb_error err = {0};
    const struct ebb_doc_node *file = yaml("{opt: {name: SGD, lr: 0.1}}");
    struct ebb_doc_node root = *file;
    root.owner = NULL;
    CHECK_OK(train_set(&arena, &root, "opt.lr=0.25", &err), &err);
    CHECK_OK(train_set(&arena, &root, "memory.budget=48MiB", &err), &err);
    CHECK_OK(train_set(&arena, &root, "opt.betas=[0.9,0.99]", &err), &err);
    CHECK(ebb_doc_double(ebb_doc_get(&root, "opt"), "lr", 0) == 0.25);
    CHECK_STR(ebb_doc_string(ebb_doc_get(&root, "opt"), "name", ""), "SGD");
    CHECK_STR(ebb_doc_string(ebb_doc_get(&root, "memory"), "budget", ""), "48MiB");
    CHECK_EQ(ebb_doc_get(ebb_doc_get(&root, "opt"), "betas")->count, 2);
    CHECK(ebb_doc_double(ebb_doc_get(file, "opt"), "lr", 0) == 0.1); /* the file's tree stays */
    CHECK_EQ(train_set(&arena, &root, "nothing", &err), EBB_EINPUT);
    CHECK_EQ(train_set(&arena, &root, "opt.lr.x=1", &err), EBB_EINPUT);
}

/* ---- sections ---- */

struct found {
    char text[4096];
    size_t count;
};

static struct found check(const char *section, const char *text)
{
    struct found f = {0};
    struct ebb_reading reading;
    struct ebb_report report;
    ebb_reading_init(&reading, &arena, NULL, &report);
    train_check_section(&reading, section, yaml(text), "ebb:image_classification", NULL);
    ebb_reading_end(&reading, NULL);
    for (size_t i = 0; i < report.count; i++) {
        const struct ebb_finding *one = &report.items[i];
        size_t n = strlen(f.text);
        snprintf(f.text + n, sizeof f.text - n, "%u:%u %s: %s\n", one->line, one->column, one->path,
                 one->message);
    }
    f.count = report.errors;
    return f;
}

TEST(section__every_mistake_is_reported)
{
    struct found f = check("opt", "name: Adam\nlr: x\nmomentum: 1\nbetas: [1]\n");
    CHECK_EQ(f.count, 3);
    CHECK(strstr(f.text, "2:5 opt.lr: ") && strstr(f.text, "3:1 opt.momentum: ") &&
          strstr(f.text, "4:8 opt.betas: "));
    f = check("memory", "{budget: -1, policy: dtr_eqq, precision: fp8, extra: 1}");
    CHECK_EQ(f.count, 4);
    CHECK(strstr(f.text, "nearest: dtr_eq") != NULL);
}

TEST(section__a_bad_required_argument_is_one_mistake)
{
    struct found f = check("lr_schedule", "{name: StepLR, step_size: many}");
    CHECK_EQ(f.count, 1);
    f = check("lr_schedule", "{name: StepLR}");
    CHECK_EQ(f.count, 1);
    f = check("lr_schedule", "{name: StepLR, step_size: 3, base_lr: 1}");
    CHECK_EQ(f.count, 1);
}

TEST(section__loss_knows_the_keys_of_each_loss)
{
    CHECK_EQ(check("loss", "{name: cross_entropy, label_smoothing: 0.1, weight: [1, 2]}").count, 0);
    CHECK_EQ(check("loss", "{name: mse, label_smoothing: 0.1}").count, 1);
    CHECK_EQ(check("loss", "{name: cross_entropy, label_smoothing: 1.5}").count, 1);
    CHECK_EQ(check("loss", "{weight: [1]}").count, 1);
}

TEST(section__numbers_of_old_yaml_are_numbers)
{
    CHECK_EQ(check("opt", "{name: SGD, lr: '1e-3'}").count, 0);
}

/* ---- the whole ---- */

static enum ebb_status read(const char *text, const char *hparams, struct train_config *config,
                            struct ebb_error *err)
{
    struct train_source source = {.file = "f.yaml",
                                  .entrypoint = "ebb:image_classification",
                                  .root = yaml(text),
                                  .hparams = yaml(hparams),
                                  .seed = 9};
    return train_config_read(&arena, &source, config, NULL, err);
}

TEST(config__values_arrive)
{
    struct train_config c;
    struct ebb_error err = {0};
    CHECK_OK(
        read("model: {name: cifar_resnet20, classes: 7}\n"
             "opt: {name: SGD, lr: '${rate}', momentum: 0.9}\n"
             "lr_schedule: {name: StepLR, step_size: 4, interval: epoch}\n"
             "memory: {budget: 48MiB, host: 1GiB, policy: lru, threads: 2}\n"
             "optimizations: {aggregation_frequency: 4, average_aggregated_gradients: false}\n",
             "{global_batch_size: 32, rate: 0.2, clip_grad_l2_norm: 1}", &c, &err),
        &err);
    CHECK(c.optim.lr == 0.2 && c.optim.momentum == 0.9);
    CHECK_EQ(c.interval, TRAIN_PER_EPOCH);
    CHECK_STR(c.schedule_name, "StepLR");
    CHECK_EQ(c.budget_bytes, 48u << 20);
    CHECK_EQ(c.host_bytes, 1u << 30);
    CHECK_STR(c.policy, "lru");
    CHECK_EQ(c.threads, 2);
    CHECK_EQ(c.accumulate, 4);
    CHECK(!c.average && c.clip_norm == 1 && c.clip_value == 0);
    CHECK_EQ(c.batch_size, 32);
    CHECK_EQ(nn_config_int(c.net, "classes", 0), 7);
}

TEST(config__defaults)
{
    struct train_config c;
    struct ebb_error err = {0};
    CHECK_OK(read("{model: {name: cifar_resnet20}, opt: {name: SGD, lr: 1}}",
                  "{global_batch_size: 2}", &c, &err),
             &err);
    CHECK(c.budget_bytes == UINT64_MAX && c.accumulate == 1 && c.average);
    CHECK(!c.policy && !c.schedule_name && !c.loss && !c.data);
    CHECK_EQ(c.interval, TRAIN_PER_UPDATE);
}

TEST(config__links_are_told_and_nothing_else_changes)
{
    struct train_config c, bare;
    struct ebb_error err = {0};
    CHECK_OK(read("{model: {name: cifar_resnet20}, opt: {name: SGD, lr: 1}, memory: {host: 1GiB, "
                  "file: 1GiB, link_bandwidth: {host: 2, file: 0.5}, link_latency: {host: 10, "
                  "file: 20}}}",
                  "{global_batch_size: 2}", &c, &err),
             &err);
    CHECK(c.link.host_rate == 2 && c.link.file_rate == 0.5);
    CHECK(c.link.host_latency == 10 && c.link.file_latency == 20);
    CHECK_OK(read("{model: {name: cifar_resnet20}, opt: {name: SGD, lr: 1}}",
                  "{global_batch_size: 2}", &bare, &err),
             &err);
    CHECK(memcmp(c.net, bare.net, sizeof *c.net) == 0);
}

/* A rate near zero is an endless copy, and sums of such are no numbers. */
TEST(config__links_have_bounds)
{
    static const char *const bad[] = {"link_bandwidth: {host: 1e-300}", "link_bandwidth: {host: 0}",
                                      "link_bandwidth: {host: 1e13}", "link_latency: {host: 1e10}",
                                      "link_latency: {host: -1}"};
    struct train_config c;
    struct ebb_error err = {0};
    char text[256];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(
            text, sizeof text,
            "{model: {name: cifar_resnet20}, opt: {name: SGD, lr: 1}, memory: {host: 1GiB, %s}}",
            bad[i]);
        CHECK_EQ(read(text, "{global_batch_size: 2}", &c, &err), EBB_EINPUT);
        CHECK(
            strstr(err.message, i < 3 ? "memory.link_bandwidth.host" : "memory.link_latency.host"));
    }
}

TEST(config__no_latency_is_not_the_usual_one)
{
    struct train_config c;
    struct ebb_error err = {0};
    CHECK_OK(read("{model: {name: cifar_resnet20}, opt: {name: SGD, lr: 1}, memory: {host: 1GiB, "
                  "file: 1GiB, link_latency: {host: 0}}}",
                  "{global_batch_size: 2}", &c, &err),
             &err);
    CHECK(c.link.host_latency > 0 && (uint64_t)(c.link.host_latency * 1e3) == 0);
    CHECK(c.link.file_latency == 0);
}

TEST(config__first_mistake_and_their_number)
{
    struct train_config c;
    struct ebb_error err = {0};
    CHECK_EQ(read("{model: {name: cifar_resnet20}, opt: {name: SGD, lr: a}, memory: {budget: b}}",
                  "{global_batch_size: 2}", &c, &err),
             EBB_EINPUT);
    CHECK(strstr(err.message, "f.yaml:1:") && strstr(err.message, "opt.lr") &&
          strstr(err.message, "(and 1 more)"));
    CHECK_EQ(read("{model: {name: cifar_resnet20}}", "{global_batch_size: 2}", &c, &err),
             EBB_EINPUT);
    CHECK_EQ(read("{model: {name: cifar_resnet20}, opt: {name: SGD, lr: 1}}",
                  "{global_batch_size: 2, clip_grad_l2_norm: 1, clip_grad_val: 1}", &c, &err),
             EBB_EINPUT);
}

TEST(config__momentum_that_a_schedule_cycles)
{
    struct train_config c;
    struct ebb_error err = {0};
    CHECK_OK(read("{model: {name: cifar_resnet20}, opt: {name: SGD, lr: 1}, lr_schedule: {name: "
                  "OneCycleLR, max_lr: 2, total_steps: 9}}",
                  "{global_batch_size: 2}", &c, &err),
             &err);
    CHECK(c.optim.momentum == 0.95); /* as torch: the buffer is there from the first update */
    CHECK_EQ(read("{model: {name: cifar_resnet20}, opt: {name: Adagrad}, lr_schedule: {name: "
                  "OneCycleLR, max_lr: 2, total_steps: 9}}",
                  "{global_batch_size: 2}", &c, &err),
             EBB_EINPUT);
    CHECK(strstr(err.message, "cycle_momentum: false"));
    CHECK_OK(read("{model: {name: cifar_resnet20}, opt: {name: Adagrad}, lr_schedule: {name: "
                  "OneCycleLR, max_lr: 2, total_steps: 9, cycle_momentum: false}}",
                  "{global_batch_size: 2}", &c, &err),
             &err);
}

TEST_MAIN_EACH(arena_open, arena_close)
