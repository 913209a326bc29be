/* The step as a budget makes it: inside the budget, with everything evicted brought back. */
#include "test_arena.h"

#include <unistd.h>

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

/* The trial's own trace, from a file. */
static struct train_trial *begin_trace(const struct trace *trace, uint64_t budget)
{
    struct ebb_error err = {0};
    struct trace *copy = NULL;
    struct train_trial *trial = NULL;
    char path[64];
    snprintf(path, sizeof path, "/tmp/ebb_test_explain_%d.trace", (int)getpid());
    CHECK_OK(trace_write_native(trace, path, &err), &err);
    CHECK_OK(trace_load(path, TRACE_FORMAT_AUTO, &copy, &err), &err);
    unlink(path);
    struct train_config memory = {.budget_bytes = budget};
    CHECK_OK(train_trial_of_trace(&trial, copy, &memory, &err), &err);
    return trial;
}

TEST(a_trace__is_explained_like_the_model_behind_it)
{
    struct ebb_error err = {0};
    struct train_explained own, traced;
    struct train_prediction a, b;
    struct train_managed m;
    uint64_t floors[2];
    struct train_trial *trial = begin(UINT64_MAX);
    struct train_trial *other = begin_trace(train_trial_trace(trial), UINT64_MAX);
    CHECK_OK(train_trial_explain(trial, &arena, &own, &err), &err);
    CHECK_OK(train_trial_explain(other, &arena, &traced, &err), &err);
    CHECK_EQ(own.peak_bytes, traced.peak_bytes);
    CHECK_EQ(own.layer_count, traced.layer_count);
    for (int k = 0; k < TRAIN_KINDS; k++)
        CHECK_EQ(own.kinds[k], traced.kinds[k]);
    CHECK(own.kinds[TRAIN_KIND_WEIGHTS] > 0 && own.kinds[TRAIN_KIND_STATES] > 0);
    CHECK_OK(train_trial_floor(trial, &floors[0], &err), &err);
    CHECK_OK(train_trial_floor(other, &floors[1], &err), &err);
    CHECK_EQ(floors[0], floors[1]);
    for (int i = 0; i < 2; i++) {
        const char *policy = i ? "lru" : NULL;
        uint64_t budget = floors[0] + (own.peak_bytes - floors[0]) / 3;
        CHECK_OK(train_trial_predict(trial, budget, policy, &a, &err), &err);
        CHECK_OK(train_trial_predict(other, budget, policy, &b, &err), &err);
        CHECK(a.is_ok && b.is_ok && a.ns == b.ns && a.peak_bytes == b.peak_bytes);
    }
    train_trial_destroy(other);
    other = begin_trace(train_trial_trace(trial), floors[0]);
    CHECK_OK(train_trial_managed(other, &arena, &m, &err), &err);
    CHECK(m.again > 0 && m.peak_bytes <= floors[0]);
    train_trial_destroy(other);
    train_trial_destroy(trial);
}

TEST(a_trace__below_its_floor_is_refused)
{
    struct ebb_error err = {0};
    struct trace *trace = NULL;
    struct train_trial *trial = NULL;
    struct train_config memory = {.budget_bytes = 256};
    CHECK_OK(trace_make_linear(8, &trace, &err), &err);
    CHECK_EQ(train_trial_of_trace(&trial, trace, &memory, &err), EBB_EBUDGET);
    CHECK(trial == NULL);
}

TEST_MAIN_EACH(arena_open, arena_close)
