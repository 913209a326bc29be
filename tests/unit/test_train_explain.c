/* The step as a budget makes it: inside the budget, with everything evicted brought back. */
#include "test_arena.h"

#include "train/train.h"

static const char text[] =
    "benchmark: gpt\n"
    "data: {data_dir: synthetic, sequence_length: 32, vocabulary: 32, samples: 64, n_epochs: 1, "
    "val_samples: 4, global_batch_size: 8}\n"
    "model: {layers: 3, width: 16, heads: 2, dropout: 0}\n"
    "opt: {name: Adam}\nlr_schedule: {base_lr: 0.01}\nmemory: {threads: 1}\n";

static struct train_bench bench;

static struct train_trial *begin(uint64_t budget)
{
    struct ebb_error err = {0};
    struct ebb_report report;
    const struct ebb_doc_node *root = NULL;
    struct train_trial *trial = NULL;
    struct train_options dry = {.is_dry = true};
    CHECK_OK(ebb_doc_parse_yaml(&arena, "test", text, strlen(text), &root, &err), &err);
    struct train_bench_source source = {.file = "test", .root = root, .seed = -1};
    CHECK_OK(train_bench_read(&arena, &source, &bench, &report, &err), &err);
    bench.config.budget_bytes = budget;
    CHECK_OK(train_trial_create(&trial, &bench.config, &dry, &err), &err);
    return trial;
}

static uint64_t sum_of(const uint64_t kinds[TRAIN_KINDS])
{
    uint64_t sum = 0;
    for (int k = 0; k < TRAIN_KINDS; k++)
        sum += kinds[k];
    return sum;
}

TEST(managed__without_a_budget_is_every_op_once)
{
    struct ebb_error err = {0};
    struct train_managed m;
    struct train_trial *trial = begin(UINT64_MAX);
    const struct trace *t = train_trial_trace(trial);
    CHECK_OK(train_trial_managed(trial, &arena, &m, &err), &err);
    size_t ops = 0;
    for (uint32_t i = 0; i < t->op_count; i++)
        ops += !t->ops[i].is_leaf;
    CHECK(m.count > 0 && m.count <= ops); /* views do not run */
    CHECK_EQ(m.again, 0);
    CHECK_EQ(m.evictions[m.count - 1], 0);
    train_trial_destroy(trial);
}

TEST(managed__inside_a_budget_evicts_and_runs_again)
{
    struct ebb_error err = {0};
    struct train_managed m;
    struct train_state state;
    uint64_t floor_bytes = 0;
    struct train_trial *trial = begin(UINT64_MAX);
    train_trial_state(trial, &state);
    CHECK_OK(train_trial_floor(trial, &floor_bytes, &err), &err);
    train_trial_destroy(trial);
    uint64_t budget = floor_bytes + (state.unlimited_bytes - floor_bytes) / 5;
    trial = begin(budget);
    CHECK_OK(train_trial_managed(trial, &arena, &m, &err), &err);
    size_t again = 0, evictions = 0;
    uint64_t away = 0;
    for (size_t i = 0; i < m.count; i++) {
        CHECK(sum_of(m.runs[i].kinds) <= budget);
        CHECK(m.evictions[i] >= evictions);
        evictions = m.evictions[i];
        again += m.runs[i].is_again;
        away = m.runs[i].away_bytes > away ? m.runs[i].away_bytes : away;
    }
    CHECK(m.peak_bytes <= budget && again == m.again);
    CHECK(again > 0 && evictions > 0 && away > 0);
    CHECK_EQ(m.runs[m.count - 1].away_bytes, 0); /* everything wanted came back */
    train_trial_destroy(trial);
}

TEST_MAIN_EACH(arena_open, arena_close)
