/* data.mixup in training: losses and gradients of their definition, which is torch's cross entropy of
 * blended targets; the same bits in any budget, and after a resume. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tensor/tensor.h"
#include "train/train.h"

enum { ROWS = 12, BATCH = 6, IN = 2, CLASSES = 3 };

struct mixup {
    struct ebb_arena arena;
    char folder[64];
    struct train_config config;
};

static void put(const struct mixup *m, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", m->folder, name);
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int begin(void **state)
{
    static struct mixup m;
    memset(&m, 0, sizeof m);
    snprintf(m.folder, sizeof m.folder, "/tmp/ebb-mixup-XXXXXX");
    if (!mkdtemp(m.folder))
        return -1;
    char rows[1024] = "a,b,y\n";
    for (int i = 0; i < ROWS; i++)
        snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "%g,%g,%d\n", i * 0.37 - 2,
                 cos(i) * 1.5, i * 7 % CLASSES);
    put(&m, "t.csv", rows);
    put(&m, "net.yaml",
        "options: {features: 1, classes: 2}\ninputs: {x: [features]}\nmodules: {fc: "
        "\"Linear(features, "
        "classes)\"}\nforward: [return fc(x)]\nloss: cross_entropy\n");
    *state = &m;
    return 0;
}

static int end(void **state)
{
    struct mixup *m = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", m->folder);
    ebb_arena_fini(&m->arena);
    return system(command);
}

static struct train_trial *make_trial(struct mixup *m, const char *mixup, const char *loss,
                                      uint64_t budget)
{
    struct ebb_error err = {0};
    struct train_trial *trial = NULL;
    const struct ebb_doc_node *root;
    char text[1024];
    snprintf(
        text, sizeof text,
        "data: {name: csv, train_files: t.csv, val_files: t.csv, target: y, shuffle: false%s}\n"
        "model: {file: net.yaml}\nopt: {name: SGD, lr: 0.5}\n%s"
        "hyperparameters: {global_batch_size: %d}\n",
        mixup, loss, BATCH);
    ebb_arena_fini(&m->arena);
    ebb_arena_init(&m->arena);
    CHECK_OK(ebb_doc_parse_yaml(&m->arena, "mixup", text, strlen(text), &root, &err), &err);
    struct train_source source = {.file = "mixup",
                                  .directory = m->folder,
                                  .entrypoint = "ebb:image_classification",
                                  .root = root,
                                  .hparams = ebb_doc_get(root, "hyperparameters"),
                                  .seed = 3};
    CHECK_OK(train_config_read(&m->arena, &source, &m->config, NULL, &err), &err);
    m->config.device = getenv("EBB_TEST_DEVICE");
    m->config.budget_bytes = budget;
    m->config.threads = 1;
    CHECK_OK(train_trial_create(&trial, &m->config, NULL, &err), &err);
    return trial;
}

static void weights(const struct mixup *m, struct train_trial *trial, float w[CLASSES][IN],
                    float b[CLASSES])
{
    struct ebb_error err = {0};
    struct tensor_weights file;
    char path[128];
    snprintf(path, sizeof path, "%s/w.npz", m->folder);
    CHECK_OK(train_trial_export(trial, path, &err), &err);
    CHECK_OK(tensor_weights_open(&file, path, NULL, &err), &err);
    CHECK(tensor_entry_copy(tensor_file_find(&file.all, "fc.weight"), TENSOR_F32, w));
    CHECK(tensor_entry_copy(tensor_file_find(&file.all, "fc.bias"), TENSOR_F32, b));
    tensor_weights_close(&file);
}

/* Cross entropy of blended one-hot targets, its mean over `n` rows of scores; gradients of scores. */
static double blended(const double (*z)[CLASSES], const int64_t *y, const int64_t *other,
                      const float *share, int n, double smoothing, const double *weight,
                      double (*grad)[CLASSES])
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double t[CLASSES] = {0}, total = 0, all = 0;
        t[y[i]] += (double)share[i];
        t[other[i]] += 1 - (double)share[i];
        for (int k = 0; k < CLASSES; k++) {
            t[k] = (t[k] * (1 - smoothing) + smoothing / CLASSES) * weight[k];
            all += exp(z[i][k]);
            total += t[k];
        }
        for (int k = 0; k < CLASSES; k++) {
            sum -= t[k] * (z[i][k] - log(all));
            grad[i][k] = (total * exp(z[i][k]) / all - t[k]) / n;
        }
    }
    return sum / n;
}

/* The definition above gives torch's numbers: cross_entropy(x, probabilities, ...) of torch 1.13. */
TEST(definition__is_torchs)
{
    static const double z[2][CLASSES] = {{1, -0.5, 0.25}, {0.1, 0.2, -1}};
    static const int64_t y[] = {2, 0}, other[] = {1, 0};
    static const float share[] = {0.7f, 0.25f};
    static const double even[] = {1, 1, 1}, uneven[] = {0.5, 2, 1};
    double grad[2][CLASSES];
    CHECK(fabs(blended(z, y, other, share, 2, 0, even, grad) - 1.19708550) < 1e-6);
    CHECK(fabs(grad[0][0] - 0.2948988) < 1e-6 && fabs(grad[1][2] - 0.0682661) < 1e-6);
    CHECK(fabs(blended(z, y, other, share, 2, 0.1, even, grad) - 1.20250225) < 1e-6);
    CHECK(fabs(blended(z, y, other, share, 2, 0.1, uneven, grad) - 1.31091976) < 1e-6);
    CHECK(fabs(grad[0][1] + 0.2186696) < 1e-6 && fabs(grad[1][0] + 0.1171198) < 1e-6);
}

static void check_update(struct mixup *m, const char *loss, double smoothing, const double *weight)
{
    struct ebb_error err = {0};
    struct data_set *set;
    struct train_batch batch;
    float w[CLASSES][IN], b[CLASSES], after[CLASSES][IN], bias[CLASSES], x[BATCH][IN], share[BATCH];
    int64_t y[BATCH], other[BATCH];
    double z[BATCH][CLASSES], grad[BATCH][CLASSES];
    struct train_trial *trial = make_trial(m, ", mixup: 0.6", loss, UINT64_MAX);
    struct data_env env = {.directory = m->folder, .seed = 3};
    CHECK_OK(data_open(m->config.data, &env, &set, &err), &err);
    weights(m, trial, w, b);
    for (int i = 0; i < BATCH; i++) {
        CHECK_OK(data_read(set, DATA_TRAIN, (uint64_t)i, 3, 0,
                           (void *[]){x[i], &y[i], &other[i], &share[i]}, &err),
                 &err);
        for (int k = 0; k < CLASSES; k++)
            z[i][k] = (double)w[k][0] * (double)x[i][0] + (double)w[k][1] * (double)x[i][1] +
                      (double)b[k];
    }
    double want =
        blended((const double(*)[CLASSES])z, y, other, share, BATCH, smoothing, weight, grad);
    CHECK_OK(train_trial_batch(trial, &batch, &err), &err);
    if (fabs(batch.loss - want) > 1e-6 * fmax(1, fabs(want)))
        fail_msg("%s: loss %.9g instead of %.9g", loss, batch.loss, want);
    weights(m, trial, after, bias);
    for (int k = 0; k < CLASSES; k++)
        for (int f = 0; f < IN; f++) {
            double g = 0;
            for (int i = 0; i < BATCH; i++)
                g += grad[i][k] * (double)x[i][f];
            if (fabs((double)w[k][f] - 0.5 * g - (double)after[k][f]) > 1e-6)
                fail_msg("%s: weight %d %d: %.8g instead of %.8g", loss, k, f, (double)after[k][f],
                         (double)w[k][f] - 0.5 * g);
        }
    data_close(set);
    train_trial_destroy(trial);
}

TEST(mixup__trains_by_its_definition)
{
    static const double even[] = {1, 1, 1}, uneven[] = {0.5, 2, 1};
    check_update(*cmocka_state, "", 0, even);
    check_update(*cmocka_state, "loss: {name: cross_entropy, label_smoothing: 0.1}\n", 0.1, even);
    check_update(*cmocka_state,
                 "loss: {name: cross_entropy, label_smoothing: 0.1, weight: [0.5, 2, 1]}\n", 0.1,
                 uneven);
}

static void hash_of(struct train_trial *trial, int batches, char text[65])
{
    struct ebb_error err = {0};
    struct train_batch batch;
    for (int i = 0; i < batches; i++)
        CHECK_OK(train_trial_batch(trial, &batch, &err), &err);
    CHECK_OK(train_trial_hash(trial, text, &err), &err);
}

TEST(mixup__has_the_same_bits_in_any_budget_and_after_a_resume)
{
    struct mixup *m = *cmocka_state;
    struct ebb_error err = {0};
    char whole[65], tight[65], resumed[65], plain[65], dir[128];
    uint64_t floor;
    bool found;
    snprintf(dir, sizeof dir, "%s/ck", m->folder);
    struct train_trial *trial = make_trial(m, ", mixup: 0.6", "", UINT64_MAX);
    struct train_metrics metrics;
    hash_of(trial, 3, whole);
    CHECK_OK(train_store_save(trial, dir, &err), &err);
    CHECK_OK(train_trial_validate(trial, NULL, NULL, &metrics, &err), &err);
    CHECK(metrics.records == ROWS && isfinite(metrics.items[0].value));
    hash_of(trial, 4, whole);
    CHECK_OK(train_trial_floor(trial, &floor, &err), &err);
    train_trial_destroy(trial);
    trial = make_trial(m, ", mixup: 0.6", "", floor);
    hash_of(trial, 7, tight);
    train_trial_destroy(trial);
    trial = make_trial(m, ", mixup: 0.6", "", UINT64_MAX);
    CHECK_OK(train_store_load(trial, dir, &found, NULL, &err), &err);
    hash_of(trial, 4, resumed);
    train_trial_destroy(trial);
    trial = make_trial(m, "", "", UINT64_MAX);
    hash_of(trial, 7, plain);
    train_trial_destroy(trial);
    CHECK_STR(whole, tight);
    CHECK_STR(whole, resumed);
    CHECK(strcmp(whole, plain) != 0);
}

TEST_MAIN_EACH(begin, end)
