/* Benchmark files: what they become, their batches, the end of an epoch, accumulation by budget. */
#include "test_arena.h"

#include <math.h>
#include <stdio.h>

#include "base/str.h"
#include "nn/nn.h"
#include "train/train.h"

static struct train_bench bench;
static struct ebb_report report;

static enum ebb_status read_text(const char *text, uint64_t devices)
{
    struct ebb_error err = {0};
    const struct ebb_doc_node *root = NULL;
    CHECK_OK(ebb_doc_parse_yaml(&arena, "test", text, strlen(text), &root, &err), &err);
    struct train_bench_source source = {
        .file = "test", .root = root, .devices = devices, .seed = -1};
    return train_bench_read(&arena, &source, &bench, &report, &err);
}

static void good(const char *text, uint64_t devices)
{
    if (read_text(text, devices) != EBB_OK)
        fail_msg("%s: %s", report.items[0].path, report.items[0].message);
}

#define RESNET(data)                                                                               \
    "data: {data_dir: synthetic, n_epochs: 10, " data "}\n"                                        \
    "opt: {name: SGD, momentum: 0.9, weight_decay: 1e-4}\n"                                        \
    "lr_schedule: {base_lr: 0.002, end_lr: 1e-4, decay_steps: 5, poly_power: 2}\n"                 \
    "training: {target_accuracy: 0.759}\n"

TEST(resnet__becomes_the_same_configuration_as_an_experiment)
{
    good(RESNET("global_batch_size: 8"), 0);
    CHECK_STR(bench.name, "resnet50");
    CHECK_STR(bench.space, "resnet");
    CHECK_STR(bench.config.net->model->name, "resnet50_epcc");
    CHECK_STR(bench.config.optim.name, "SGD");
    CHECK(bench.config.optim.lr == 0.002 && bench.config.optim.weight_decay == 1e-4);
    CHECK_STR(bench.config.schedule_name, "PolynomialLR");
    CHECK_EQ(bench.config.interval, TRAIN_PER_EPOCH);
    CHECK_EQ(ebb_doc_int(bench.config.schedule, "total_iters", 0), 10);
    CHECK(ebb_doc_double(bench.config.schedule, "power", 0) == 2);
    CHECK_EQ(bench.config.seed, 1);
    CHECK_EQ(bench.eval_every, 4);
    CHECK(bench.target == 0.759 && !bench.goal->is_low);
    CHECK(bench.config.drops_leftover);
}

/* The published table. */
TEST(batches__are_those_of_the_contract)
{
    static const struct {
        const char *text;
        uint64_t samples, devices, iterations, local, every, global;
    } rows[] = {
        {RESNET("global_batch_size: 8, gradient_accumulation_freq: 1"), 512, 1, 64, 8, 1, 8},
        {RESNET("global_batch_size: 8, gradient_accumulation_freq: 1"), 512, 4, 64, 2, 1, 8},
        {RESNET("global_batch_size: 8, gradient_accumulation_freq: 2"), 512, 4, 128, 1, 2, 8},
        {RESNET("global_batch_size: 1024, local_batch_size: 128, gradient_accumulation_freq: -1"),
         2048, 4, 4, 128, 1, 512},
        {RESNET("global_batch_size: 1024, gradient_accumulation_freq: -1"), 2048, 4, 8, 64, 4,
         1024},
        {RESNET("global_batch_size: 1024, gradient_accumulation_freq: -1"), 2048, 1, 32, 64, 16,
         1024},
        {"benchmark: cosmoflow\n"
         "data: {data_dir: synthetic, n_epochs: 1, global_batch_size: 1024, "
         "gradient_accumulation_freq: -1}\n"
         "opt: {name: SGD}\nlr_schedule: {base_lr: 0.1}\n",
         2048, 4, 32, 16, 16, 1024},
    };
    struct ebb_error err = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        good(rows[i].text, rows[i].devices);
        CHECK_OK(train_bench_count(&bench, rows[i].samples, &err), &err);
        CHECK_EQ(bench.batching.iterations, rows[i].iterations);
        CHECK_EQ(bench.batching.local, rows[i].local);
        CHECK_EQ(bench.batching.accumulate, rows[i].every);
        CHECK_EQ(bench.batching.effective, rows[i].global);
        CHECK_EQ(bench.config.batch_size, (int64_t)rows[i].local);
        CHECK_EQ(bench.config.accumulate, (int64_t)rows[i].every);
    }
}

TEST(batches__keep_a_partial_one_where_the_file_says)
{
    struct ebb_error err = {0};
    good(RESNET("global_batch_size: 8"), 0);
    CHECK_OK(train_bench_count(&bench, 20, &err), &err);
    CHECK_EQ(bench.batching.iterations, 2);
    good(RESNET("global_batch_size: 8, drop_last_batch: False"), 0);
    CHECK_OK(train_bench_count(&bench, 20, &err), &err);
    CHECK_EQ(bench.batching.iterations, 3);
}

TEST(batches__that_do_not_divide_are_refused_with_what_does)
{
    struct ebb_error err = {0};
    good(RESNET("global_batch_size: 10, gradient_accumulation_freq: 4"), 0);
    CHECK_EQ(train_bench_count(&bench, 512, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "8 and 12 divide") != NULL);
    good(RESNET("global_batch_size: 10, gradient_accumulation_freq: 4, allow_inexact_batch: true"),
         0);
    CHECK_OK(train_bench_count(&bench, 512, &err), &err);
    CHECK_EQ(bench.batching.effective, 8);
}

TEST(deepcam__has_its_weights_eps_and_both_schedules)
{
#define DEEPCAM(rate)                                                                              \
    "data: {data_dir: synthetic, global_batch_size: 4, n_epochs: 2}\n"                             \
    "opt: {name: adamw, betas: [0.9, 0.999], weight_decay: 1e-4}\n"                                \
    "lr_schedule: {base_lr: 0.001, milestones: 800, decay_rate: 0.1, t_max: 10000, eta_min: 0, "   \
    "lr_warmup_factor: 1, " rate "}\n"                                                             \
    "training: {target_iou: 0.82, amp: False}\n"
    good(DEEPCAM("type: cosine_annealing, lr_warmup_steps: 400"), 0);
    CHECK_STR(bench.config.schedule_name, "DeepCAMCosine");
    CHECK_EQ(bench.config.interval, TRAIN_PER_UPDATE);
    CHECK(bench.config.optim.eps == 1e-6);
    CHECK_EQ(bench.config.seed, 333);
    CHECK_EQ(bench.config.loss->weight_count, 3);
    CHECK(bench.config.loss->weights[1] == 2.6146112);
    CHECK_EQ(bench.tell_every, 16);
    good(DEEPCAM("type: multistep, lr_warmup_steps: 400"), 0);
    CHECK_STR(bench.config.schedule_name, "DeepCAMMultiStep");
    good(DEEPCAM("type: multistep, lr_warmup_steps: 0"), 0);
    CHECK_STR(bench.config.schedule_name, "MultiStepLR");
    good(DEEPCAM("type: cosine_annealing, lr_warmup_steps: 0"), 0);
    CHECK_STR(bench.config.schedule_name, "CosineAnnealingLR");
}

TEST(cosmoflow__scales_its_rate_with_the_batch_that_is_used)
{
    good("data: {data_dir: synthetic, global_batch_size: 32, local_batch_size: 8, n_epochs: 2}\n"
         "opt: {name: SGD}\n"
         "lr_schedule: {base_lr: 0.001, scaling: linear, base_batch_size: 64, n_warmup_epochs: 4, "
         "decay_schedule: {32: 0.25, 64: 0.125}}\n"
         "training: {target_mae: 0.124}\n"
         "model: {dropout: 0}\n",
         2);
    struct ebb_error err = {0};
    struct optim_schedule *s = NULL;
    double rate = 0;
    CHECK_STR(bench.config.schedule_name, "CosmoFlow");
    CHECK_EQ(ebb_doc_int(bench.config.schedule, "global_batch_size", 0), 16);
    CHECK_OK(optim_schedule_create(&s, bench.config.schedule_name, bench.config.schedule,
                                   bench.config.optim.lr, &err),
             &err);
    CHECK_OK(optim_schedule_rate(s, 40, &rate, &err), &err);
    CHECK(fabs(rate - 0.001 * 16 / 64 * 0.25) < 1e-18);
    optim_schedule_destroy(s);
}

TEST(bert_and_gpt__clip_and_take_their_own_words)
{
    good("data: {data_dir: synthetic, global_batch_size: 16, global_eval_batch_size: 64, n_epochs: "
         "1}\n"
         "opt: {name: Lamb, betas: [0.9, 0.999], weight_decay: 0.01}\n"
         "lr_schedule: {type: poly, base_lr: 5e-5, total_steps: 10}\n"
         "training: {target_mlm_accuracy: 0.72}\n",
         0);
    CHECK(bench.config.clip_norm == 1);
    CHECK_EQ(bench.config.eval_batch, 64);
    CHECK_STR(bench.config.schedule_name, "LinearWarmupPolyDecay");
    good("data: {data_dir: synthetic, global_batch_size: 16, gradient_accumulation: 4, n_epochs: "
         "1, vocabulary: 100}\n"
         "opt: {name: ADAM, gradient_clip_norm: 0.5}\n"
         "lr_schedule: {base_lr: 2e-5}\n"
         "parallelism: {tp_size: 1, pp_size: 1, precision: bf16, zero_stage: 1}\n",
         0);
    CHECK_STR(bench.name, "gpt");
    CHECK(bench.config.clip_norm == 0.5 && bench.config.schedule_name == NULL);
    CHECK_EQ(bench.config.precision, TRAIN_BF16);
    CHECK_EQ(bench.config.accumulate, 4);
    CHECK(isnan(bench.target));
}

TEST(schedules__of_torch_are_allowed_everywhere)
{
    good("data: {data_dir: synthetic, global_batch_size: 8, n_epochs: 10}\n"
         "opt: {name: LARS}\n"
         "lr_schedule: {name: OneCycleLR, base_lr: 0.1, max_lr: 0.5, total_steps: 100, "
         "cycle_momentum: false, interval: update}\n"
         "training: {target_accuracy: 0.5, eval_every: 2}\n",
         0);
    CHECK_STR(bench.config.schedule_name, "OneCycleLR");
    CHECK_EQ(bench.config.interval, TRAIN_PER_UPDATE);
    CHECK_EQ(bench.eval_every, 2);
}

/* The files of other machines. */
TEST(faces__are_said_in_the_usual_keys)
{
    good("train_input: {data_dir: synthetic, batch_size: 32, drop_last_batch: True, shuffle: True, "
         "num_workers: 8}\n"
         "eval_input: {data_dir: synthetic, batch_size: 16}\n"
         "model: {name: cosmoflow}\n"
         "optimizer: {optimizer_type: SGD, learning_rate: 0.001, momentum: 0.9, "
         "weight_decay_rate: 1e-4}\n"
         "runconfig: {max_steps: 10000, checkpoint_steps: 0, log_steps: 50, seed: 333}\n",
         0);
    CHECK_STR(bench.name, "cosmoflow");
    CHECK_EQ(bench.steps, 10000);
    CHECK_EQ(bench.epochs, 0);
    CHECK_EQ(bench.log_every, 50);
    CHECK_EQ(bench.config.seed, 333);
    CHECK_EQ(bench.config.batch_size, 32);
    CHECK_EQ(bench.config.eval_batch, 16);
    CHECK(bench.config.optim.lr == 0.001 && bench.config.optim.weight_decay == 1e-4);
    good("data: {data_dir: synthetic, global_batch_size: 4, n_epochs: 4}\n"
         "opt: {name: Adam}\nlr_schedule: {type: cosine_annealing, base_lr: 0.001, t_max: 5}\n"
         "training: {target_iou: 0.8, num_ipus: 4}\n",
         0);
    CHECK_EQ(bench.batching.devices, 4);
    CHECK_EQ(bench.batching.local, 1);
}

TEST(amp_on_cpu__is_a_warning)
{
    good("device: GPU\n"
         "data: {data_dir: synthetic, global_batch_size: 4, n_epochs: 4}\n"
         "opt: {name: Adam}\nlr_schedule: {type: cosine_annealing, base_lr: 0.001, t_max: 5}\n"
         "training: {target_iou: 0.8, amp: True}\n",
         0);
    CHECK_EQ(report.warnings, 0);
    CHECK_STR(bench.config.device, "cuda");
    CHECK_EQ(bench.config.precision, TRAIN_BF16);
    good("device: cpu\n"
         "data: {data_dir: synthetic, global_batch_size: 4, n_epochs: 4}\n"
         "opt: {name: Adam}\nlr_schedule: {type: cosine_annealing, base_lr: 0.001, t_max: 5}\n"
         "training: {target_iou: 0.8, amp: True}\n",
         0);
    CHECK_EQ(report.warnings, 1);
    CHECK_EQ(bench.config.precision, TRAIN_FP32);
}

/* ---- a run ---- */

#define GPT(data)                                                                                  \
    "benchmark: gpt\n"                                                                             \
    "data: {data_dir: synthetic, sequence_length: 8, vocabulary: 32, val_samples: 4, n_epochs: 3," \
    " " data "}\n"                                                                                 \
    "model: {layers: 1, width: 16, heads: 2, dropout: 0}\n"                                        \
    "opt: {name: Adam}\nlr_schedule: {base_lr: 0.01}\nmemory: {threads: 1}\n"

static struct train_trial *begin(void)
{
    struct ebb_error err = {0};
    struct train_trial *trial = NULL;
    CHECK_OK(train_trial_create(&trial, &bench.config, NULL, &err), &err);
    return trial;
}

/* 10 samples in batches of 2, 2 of an update: the fifth batch makes none, and the sixth begins
 * anew. The weights are those of a run that never saw the fifth. */
TEST(epoch__drops_what_makes_no_update)
{
    struct ebb_error err = {0};
    struct train_batch b;
    good(GPT("samples: 10, global_batch_size: 4, gradient_accumulation_freq: 2, shuffle: false"),
         0);
    struct train_trial *trial = begin();
    static const bool updates[] = {false, true, false, true, false,
                                   false, true, false, true, false};
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
        CHECK_OK(train_trial_batch(trial, &b, &err), &err);
        CHECK_EQ(b.is_update, updates[i]);
        CHECK_EQ(b.dropped, i % 5 == 4 ? 1 : 0);
        CHECK_EQ(b.is_epoch_end, i % 5 == 4);
    }
    CHECK_EQ(train_trial_updates(trial), 4);
    char dropped[65], short_epochs[65], carried[65];
    CHECK_OK(train_trial_hash(trial, dropped, &err), &err);
    train_trial_destroy(trial);

    good(GPT("samples: 8, global_batch_size: 4, gradient_accumulation_freq: 2, shuffle: false"), 0);
    trial = begin();
    for (int i = 0; i < 8; i++)
        CHECK_OK(train_trial_batch(trial, &b, &err), &err);
    CHECK_OK(train_trial_hash(trial, short_epochs, &err), &err);
    train_trial_destroy(trial);
    CHECK_STR(dropped, short_epochs);

    good(GPT("samples: 10, global_batch_size: 4, gradient_accumulation_freq: 2, shuffle: false, "
             "accumulate_across_epochs: true"),
         0);
    trial = begin();
    for (int i = 0; i < 8; i++) {
        CHECK_OK(train_trial_batch(trial, &b, &err), &err);
        CHECK_EQ(b.is_update, i % 2 == 1);
    }
    CHECK_OK(train_trial_hash(trial, carried, &err), &err);
    train_trial_destroy(trial);
    CHECK(strcmp(carried, dropped) != 0);
}

TEST(epoch__without_one_update_is_refused)
{
    struct ebb_error err = {0};
    struct train_trial *trial = NULL;
    good(GPT("samples: 6, global_batch_size: 8, gradient_accumulation_freq: 4"), 0);
    CHECK_EQ(train_trial_create(&trial, &bench.config, NULL, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "no update") != NULL);
}

TEST(ones__are_a_loss_before_training)
{
    struct ebb_error err = {0};
    double loss = 0, again = 0;
    good(GPT("samples: 16, global_batch_size: 4"), 0);
    struct train_trial *trial = begin();
    CHECK_OK(train_trial_ones(trial, &loss, &err), &err);
    CHECK_OK(train_trial_ones(trial, &again, &err), &err);
    CHECK(loss > 1 && loss < 8 && loss == again); /* ln 32 is 3.5 */
    train_trial_destroy(trial);
}

#define LONG(data)                                                                                 \
    "benchmark: gpt\n"                                                                             \
    "data: {data_dir: synthetic, sequence_length: 64, vocabulary: 32, samples: 64, n_epochs: 1, "  \
    "val_samples: 4, global_batch_size: 16, " data "}\n"                                           \
    "model: {layers: 1, width: 16, heads: 2, dropout: 0}\n"                                        \
    "opt: {name: Adam}\nlr_schedule: {base_lr: 0.01}\nmemory: {threads: 1}\n"

static uint64_t floor_of(const char *text)
{
    struct ebb_error err = {0};
    struct train_trial *trial = NULL;
    struct train_options dry = {.is_dry = true};
    uint64_t bytes = 0;
    good(text, 0);
    CHECK_OK(train_trial_create(&trial, &bench.config, &dry, &err), &err);
    CHECK_OK(train_trial_floor(trial, &bytes, &err), &err);
    train_trial_destroy(trial);
    return bytes;
}

TEST(accumulation__by_budget_is_the_least_that_fits)
{
    struct ebb_error err = {0};
    uint64_t one = floor_of(LONG("gradient_accumulation_freq: 1")),
             two = floor_of(LONG("gradient_accumulation_freq: 2")),
             four = floor_of(LONG("gradient_accumulation_freq: 4"));
    CHECK(one > two && two > four);
    good(LONG("gradient_accumulation_freq: -1, auto_accumulation: budget"), 0);
    CHECK_EQ(bench.accumulation, TRAIN_BY_BUDGET);
    CHECK_OK(train_bench_fit(&bench, &err), &err);
    CHECK_EQ(bench.config.accumulate, 1); /* without a budget everything fits */
    bench.config.budget_bytes = two;
    CHECK_OK(train_bench_fit(&bench, &err), &err);
    CHECK_EQ(bench.config.accumulate, 2);
    bench.config.budget_bytes = four;
    CHECK_OK(train_bench_fit(&bench, &err), &err);
    CHECK_EQ(bench.config.accumulate, 4);
    CHECK_EQ(bench.config.batch_size, 4);
    bench.config.budget_bytes = 1024;
    CHECK_EQ(train_bench_fit(&bench, &err), EBB_EBUDGET);
    CHECK(strstr(err.message, "one sample") != NULL);
}

TEST(masked_tokens__have_an_accuracy)
{
    struct ebb_error err = {0};
    struct train_metrics m;
    double loss = 0;
    good("benchmark: bert\n"
         "data: {data_dir: synthetic, sequence_length: 16, vocabulary: 1024, samples: 8, "
         "val_samples: 6, global_batch_size: 4, global_eval_batch_size: 5, n_epochs: 1}\n"
         "model: {layers: 1, width: 16, heads: 2, dropout: 0}\n"
         "opt: {name: LAMB}\nlr_schedule: {type: poly, base_lr: 0.01, total_steps: 5}\n"
         "training: {seed: 501}\n",
         0);
    struct train_trial *trial = begin();
    CHECK_OK(train_trial_ones(trial, &loss, &err), &err); /* of two kinds of classes */
    CHECK(loss > 5 && loss < 10);                         /* ln 1024 + ln 2 is 7.6 */
    CHECK_OK(train_trial_validate(trial, NULL, NULL, &m, &err), &err);
    CHECK_EQ(m.records, 6);
    CHECK_EQ(m.count, 3);
    CHECK_STR(m.items[2].name, "validation_mlm_accuracy");
    CHECK(m.items[2].value >= 0 && m.items[2].value < 0.5);
    train_trial_destroy(trial);
}

TEST_MAIN_EACH(arena_open, arena_close)
