/* Weights of torch in models of the zoo: what they compute, and fine-tuning as torch does it
 * (tests/golden/weights, tools/make_weight_vectors.py). */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "nn_kit.h"
#include "train/train.h"

#define FOLDER EBB_SOURCE_DIR "/tests/golden/weights/"

/* ---- outputs ---- */

/* Numbers in a file may lie anywhere. */
static double number(const float *at, int64_t i)
{
    float value;
    memcpy(&value, (const unsigned char *)at + (size_t)i * sizeof value, sizeof value);
    return (double)value;
}

static void check_close(const float *a, const float *b, int64_t n, double most, const char *name)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, fabs(number(b, i)));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(number(a, i) - number(b, i)) <= most * fmax(top, 1)))
            fail_msg("%s[%lld]: %.9g instead of %.9g", name, (long long)i, number(a, i),
                     number(b, i));
}

static void evaluate(const char *model, const char *set, const char *weights,
                     const struct tensor_changes *changes, const char *outputs)
{
    struct ebb_error err = {0};
    struct nn_config c;
    struct kit k;
    struct tensor_weights w, io;
    CHECK_OK(kit_config(&c, model, set, &err), &err);
    CHECK_OK(tensor_weights_open(&w, weights, changes, &err), &err);
    CHECK_OK(tensor_weights_open(&io, outputs, NULL, &err), &err);
    CHECK_OK(kit_build(&k, &c, 2, (struct nn_mode){.is_training = false}, &err), &err);
    tensor_keep(k.s, k.outputs[0].id);
    CHECK_OK(kit_finish(&k, &err), &err);
    CHECK_EQ(nn_item_count(&k.b), w.all.count);
    for (size_t i = 0; i < nn_item_count(&k.b); i++) {
        const struct nn_item *item = nn_item_at(&k.b, i);
        void *to = kit_data(&k, item->leaf);
        const struct tensor_entry *e = tensor_file_find(&w.all, item->name);
        CHECK(e && tensor_same_shape(&e->view, &item->view));
        if (to)
            CHECK(tensor_entry_copy(e, (enum tensor_dtype)item->view.dtype, to));
    }
    char name[96];
    snprintf(name, sizeof name, "input/%s", k.ports[0].name);
    CHECK(tensor_entry_copy(tensor_file_find(&io.all, name),
                            (enum tensor_dtype)k.ports[0].view.dtype, kit_data(&k, k.inputs[0])));
    memset(kit_data(&k, k.targets[0]), 0, (size_t)tensor_count(&k.outputs[0].target.view) * 8);
    CHECK_OK(ops_host_run(&k.host, &err), &err);
    const struct tensor_entry *want = tensor_file_find(&io.all, "output/logits");
    const struct tensor_view *have = tensor_view_of(k.s, k.outputs[0].id);
    CHECK(tensor_same_shape(have, &want->view));
    float *values = ebb_alloc(want->bytes);
    CHECK(tensor_entry_copy(want, TENSOR_F32, values));
    check_close(kit_data(&k, k.outputs[0].id), values, tensor_count(have), 1e-5, "logits");
    ebb_free(values);
    kit_close(&k);
    tensor_weights_close(&w);
    tensor_weights_close(&io);
}

#define RESNET "blocks=1,1,1,1 planes=4 height=32 width=32"

TEST(a_state_dict_of_torch__gives_its_outputs)
{
    evaluate("resnet18", RESNET " classes=10", FOLDER "resnet.pt", NULL,
             FOLDER "resnet.outputs.safetensors");
    evaluate("resnet18", RESNET " classes=10", FOLDER "model.safetensors.index.json", NULL,
             FOLDER "resnet.outputs.safetensors");
}

TEST(the_published_gpt2__gives_its_outputs)
{
    static const char *const rename[] = {"*=transformer.*"}, *const turn[] = {"*.c_*.weight"};
    evaluate("gpt2_124M", "vocabulary=61 positions=16 length=8 width=16 layers=2 heads=2 dropout=0",
             FOLDER "gpt2.pt", &(struct tensor_changes){rename, 1, turn, 1},
             FOLDER "gpt2.outputs.safetensors");
}

/* ---- fine-tuning ---- */

static const char file[] =
    "data: {name: npz, data_dir: " FOLDER ", train_files: tune.npz, shuffle: false}\n"
    "model:\n"
    "  name: resnet18\n"
    "  blocks: [1, 1, 1, 1]\n"
    "  planes: 4\n"
    "  init_from: {path: " FOLDER "resnet.pt, fresh: 'fc.*'}\n"
    "  frozen: ['conv1.*', 'bn1.*', 'layer1.*', 'layer2.*', 'layer3.*']\n"
    "opt:\n"
    "  name: SGD\n"
    "  lr: 0.01\n"
    "  momentum: 0.9\n"
    "  weight_decay: 0.001\n"
    "  groups: [{match: 'fc.*', lr: 0.05, weight_decay: 0}]\n"
    "lr_schedule: {name: CosineAnnealingLR, T_max: 20, eta_min: 0.001}\n"
    "hyperparameters: {global_batch_size: 4}\n";

struct tuning {
    struct ebb_arena arena;
    struct train_config config;
};

static void configure(struct tuning *t, const char *text, uint64_t budget)
{
    struct ebb_error err = {0};
    const struct ebb_doc_node *root;
    ebb_arena_init(&t->arena);
    CHECK_OK(ebb_doc_parse_yaml(&t->arena, "tune", text, strlen(text), &root, &err), &err);
    struct train_source source = {.file = "tune",
                                  .entrypoint = "ebb:image_classification",
                                  .root = root,
                                  .hparams = ebb_doc_get(root, "hyperparameters"),
                                  .seed = 1};
    CHECK_OK(train_config_read(&t->arena, &source, &t->config, NULL, &err), &err);
    t->config.device = getenv("EBB_TEST_DEVICE");
    t->config.budget_bytes = budget;
    t->config.threads = 1;
}

/* The head as torch drew it, which `fresh` leaves to us: everything of tune.begin.pt. */
static struct train_trial *begin(struct tuning *t)
{
    struct ebb_error err = {0};
    struct train_trial *trial;
    CHECK_OK(train_trial_create(&trial, &t->config, NULL, &err), &err);
    CHECK_OK(
        train_trial_import(trial, &(struct train_init){.path = FOLDER "tune.begin.pt"}, NULL, &err),
        &err);
    return trial;
}

static void updates(struct train_trial *trial, int count)
{
    struct ebb_error err = {0};
    struct train_batch batch;
    for (int i = 0; i < count; i++)
        CHECK_OK(train_trial_batch(trial, &batch, &err), &err);
}

static bool is_frozen(const char *name)
{
    return strncmp(name, "fc.", 3) != 0 && strncmp(name, "layer4.", 7) != 0;
}

TEST(fine_tuning__is_that_of_torch)
{
    struct ebb_error err = {0};
    struct tuning t;
    struct tensor_weights have, want, start;
    char path[64];
    configure(&t, file, UINT64_MAX);
    struct train_trial *trial = begin(&t);
    updates(trial, 20);
    snprintf(path, sizeof path, "/tmp/ebb_tune_%d.npz", (int)getpid());
    CHECK_OK(train_trial_export(trial, path, &err), &err);
    CHECK_OK(tensor_weights_open(&have, path, NULL, &err), &err);
    CHECK_OK(tensor_weights_open(&want, FOLDER "tune.end.pt", NULL, &err), &err);
    CHECK_OK(tensor_weights_open(&start, FOLDER "tune.begin.pt", NULL, &err), &err);
    CHECK_EQ(have.all.count, want.all.count);
    size_t frozen = 0;
    for (size_t i = 0; i < want.all.count; i++) {
        const struct tensor_entry *w = &want.all.entries[i];
        const struct tensor_entry *h = tensor_file_find(&have.all, w->name),
                                  *s = tensor_file_find(&start.all, w->name);
        size_t n = (size_t)tensor_count(&w->view);
        float *a = ebb_alloc(n * 4), *b = ebb_alloc(n * 4);
        CHECK(tensor_entry_copy(h, TENSOR_F32, a) && tensor_entry_copy(w, TENSOR_F32, b));
        check_close(a, b, (int64_t)n, 1e-4, w->name);
        if (is_frozen(w->name)) {
            CHECK(memcmp(h->data, s->data, s->bytes) == 0);
            frozen++;
        }
        ebb_free(a);
        ebb_free(b);
    }
    CHECK(frozen > 30);
    tensor_weights_close(&have);
    tensor_weights_close(&want);
    tensor_weights_close(&start);
    train_trial_destroy(trial);
    ebb_arena_fini(&t.arena);
    unlink(path);
}

TEST(fine_tuning__has_the_same_bits_in_any_budget)
{
    struct ebb_error err = {0};
    char free_hash[65], tight_hash[65];
    uint64_t floor;
    struct tuning t;
    configure(&t, file, UINT64_MAX);
    struct train_trial *trial = begin(&t);
    updates(trial, 6);
    CHECK_OK(train_trial_hash(trial, free_hash, &err), &err);
    CHECK_OK(train_trial_floor(trial, &floor, &err), &err);
    train_trial_destroy(trial);
    ebb_arena_fini(&t.arena);
    configure(&t, file, floor);
    trial = begin(&t);
    updates(trial, 6);
    CHECK_OK(train_trial_hash(trial, tight_hash, &err), &err);
    CHECK_STR(free_hash, tight_hash);
    train_trial_destroy(trial);
    ebb_arena_fini(&t.arena);
}

TEST(frozen_items__have_no_gradients_and_no_state)
{
    struct ebb_error err = {0};
    struct train_explained all, few;
    struct tuning t;
    char text[sizeof file];
    configure(&t, file, UINT64_MAX);
    struct train_trial *trial;
    CHECK_OK(train_trial_create(&trial, &t.config, &(struct train_options){.is_dry = true}, &err),
             &err);
    CHECK_OK(train_trial_explain(trial, &t.arena, &few, &err), &err);
    train_trial_destroy(trial);
    uint64_t few_states = few.kinds[TRAIN_KIND_STATES], weights = few.kinds[TRAIN_KIND_WEIGHTS];
    ebb_arena_fini(&t.arena);
    snprintf(text, sizeof text, "%s", file);
    char *frozen = strstr(text, "  frozen:");
    memset(frozen, ' ', strcspn(frozen, "\n"));
    configure(&t, text, UINT64_MAX);
    CHECK_OK(train_trial_create(&trial, &t.config, &(struct train_options){.is_dry = true}, &err),
             &err);
    CHECK_OK(train_trial_explain(trial, &t.arena, &all, &err), &err);
    CHECK_EQ(weights, all.kinds[TRAIN_KIND_WEIGHTS]);
    /* layer4 and fc are three quarters of the weights: momentum for those alone */
    CHECK(few_states < all.kinds[TRAIN_KIND_STATES]);
    CHECK(few_states > all.kinds[TRAIN_KIND_STATES] / 2);
    train_trial_destroy(trial);
    ebb_arena_fini(&t.arena);
}

TEST(patterns_that_fit_nothing__are_mistakes)
{
    static const struct {
        const char *from, *to, *message;
    } rows[] = {{"'layer1.*'", "'layr1.*'", "model.frozen: no item"},
                {"match: 'fc.*'", "match: 'fd.*'", "opt.groups[0].match: no trained item"},
                {"fresh: 'fc.*'", "fresh: 'fd.*'", "fresh fd.*: no item"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ebb_error err = {0};
        struct tuning t;
        struct ebb_str text = {0};
        struct train_trial *trial;
        const char *at = strstr(file, rows[i].from);
        ebb_str_addn(&text, file, (size_t)(at - file));
        ebb_str_add(&text, rows[i].to);
        ebb_str_add(&text, at + strlen(rows[i].from));
        configure(&t, ebb_str_c(&text), UINT64_MAX);
        CHECK_EQ(train_trial_create(&trial, &t.config, NULL, &err), EBB_EINPUT);
        if (!strstr(err.message, rows[i].message))
            fail_msg("%s", err.message);
        ebb_str_fini(&text);
        ebb_arena_fini(&t.arena);
    }
}

TEST(warm_up__grows_to_the_schedule)
{
    static const char text[] = "data: {name: npz, data_dir: " FOLDER ", train_files: tune.npz}\n"
                               "model: {name: resnet18, blocks: [1, 1, 1, 1], planes: 4}\n"
                               "opt: {name: SGD, lr: 0.1}\n"
                               "lr_schedule: {name: StepLR, step_size: 2, gamma: 0.5, warmup: 4}\n"
                               "hyperparameters: {global_batch_size: 4}\n";
    static const double want[] = {0.025, 0.05, 0.075, 0.1, 0.1, 0.1, 0.05, 0.05, 0.025};
    struct ebb_error err = {0};
    struct tuning t;
    struct train_trial *trial;
    struct train_batch batch;
    configure(&t, text, UINT64_MAX);
    CHECK_OK(train_trial_create(&trial, &t.config, NULL, &err), &err);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        CHECK_OK(train_trial_batch(trial, &batch, &err), &err);
        CHECK(fabs(batch.rate - want[i]) < 1e-12);
    }
    train_trial_destroy(trial);
    ebb_arena_fini(&t.arena);
}

/* ---- averages, the best ---- */

static const char plain[] = "data: {name: npz, data_dir: " FOLDER ", train_files: tune.npz, "
                            "val_files: tune.npz}\n"
                            "model: {name: resnet18, blocks: [1, 1, 1, 1], planes: 4}\n"
                            "opt: {name: Adam, lr: 0.01%s}\n"
                            "hyperparameters: {global_batch_size: 4}\n";

static struct train_trial *plain_trial(struct tuning *t, const char *more, uint64_t budget)
{
    struct ebb_error err = {0};
    struct train_trial *trial;
    char text[1024];
    snprintf(text, sizeof text, plain, more);
    configure(t, text, budget);
    CHECK_OK(train_trial_create(&trial, &t->config, NULL, &err), &err);
    return trial;
}

static void export_to(struct train_trial *trial, const char *path, struct tensor_weights *w)
{
    struct ebb_error err = {0};
    CHECK_OK(train_trial_export(trial, path, &err), &err);
    CHECK_OK(tensor_weights_open(w, path, NULL, &err), &err);
}

TEST(averages__are_what_their_definition_says)
{
    struct ebb_error err = {0};
    struct tuning t, u;
    struct tensor_weights w, e;
    char path[64], other[64], a[65], b[65];
    float average[4] = {0};
    snprintf(path, sizeof path, "/tmp/ebb_ema_%d.safetensors", (int)getpid());
    snprintf(other, sizeof other, "/tmp/ebb_ema_%d.npz", (int)getpid());
    struct train_trial *with = plain_trial(&t, ", ema: 0.75", UINT64_MAX),
                       *without = plain_trial(&u, "", UINT64_MAX);
    for (int i = 0; i <= 5; i++) {
        export_to(without, path, &w);
        export_to(with, other, &e);
        float now[4];
        memcpy(now, tensor_file_find(&w.all, "fc.bias")->data, sizeof now);
        for (int k = 0; k < 4; k++)
            average[k] = i ? average[k] - 0.25f * (average[k] - now[k]) : now[k];
        check_close(tensor_file_find(&e.all, "fc.bias")->data, average, 4, 1e-7, "fc.bias");
        tensor_weights_close(&w);
        tensor_weights_close(&e);
        updates(with, 1);
        updates(without, 1);
    }
    CHECK_OK(train_trial_hash(with, a, &err), &err);
    CHECK_OK(train_trial_hash(without, b, &err), &err);
    CHECK_STR(a, b); /* the weights themselves know nothing of it */
    train_trial_destroy(with);
    train_trial_destroy(without);
    ebb_arena_fini(&t.arena);
    ebb_arena_fini(&u.arena);
    unlink(path);
    unlink(other);
}

static void hash_export(struct train_trial *trial, const char *path, float *out, size_t n)
{
    struct tensor_weights w;
    export_to(trial, path, &w);
    const struct tensor_entry *x = tensor_file_find(&w.all, "layer4.0.conv1.weight");
    CHECK(x->bytes >= n * sizeof *out);
    memcpy(out, x->data, n * sizeof *out);
    tensor_weights_close(&w);
    unlink(path);
}

TEST(averages__are_the_same_at_the_floor_and_after_a_resume)
{
    struct ebb_error err = {0};
    struct tuning t;
    char path[64], dir[64], command[128];
    float whole[512], tight[512], resumed[512];
    uint64_t floor;
    struct train_metrics metrics;
    snprintf(path, sizeof path, "/tmp/ebb_ema_%d.safetensors", (int)getpid());
    snprintf(dir, sizeof dir, "/tmp/ebb_ema_%d", (int)getpid());
    struct train_trial *trial = plain_trial(&t, ", ema: 0.9", UINT64_MAX);
    updates(trial, 3);
    CHECK_OK(train_trial_validate(trial, NULL, NULL, &metrics, &err), &err);
    CHECK(train_trial_watch(trial, TRAIN_WATCH_BEST, 0.5, true));
    CHECK(!train_trial_watch(trial, TRAIN_WATCH_BEST, 0.75, true));
    CHECK(train_trial_watch(trial, TRAIN_WATCH_EARLY, 0.5, false));
    CHECK(!train_trial_watch(trial, TRAIN_WATCH_EARLY, 0.25, false));
    CHECK(!train_trial_watch(trial, TRAIN_WATCH_EARLY, 0.25, false));
    CHECK_OK(train_store_save(trial, dir, &err), &err);
    CHECK_OK(train_store_save_best(trial, dir, &err), &err);
    updates(trial, 3);
    hash_export(trial, path, whole, 512);
    CHECK_OK(train_trial_floor(trial, &floor, &err), &err);
    train_trial_destroy(trial);
    ebb_arena_fini(&t.arena);
    trial = plain_trial(&t, ", ema: 0.9", floor);
    updates(trial, 6);
    hash_export(trial, path, tight, 512);
    train_trial_destroy(trial);
    ebb_arena_fini(&t.arena);
    trial = plain_trial(&t, ", ema: 0.9", UINT64_MAX);
    bool found;
    CHECK_OK(train_store_load(trial, dir, &found, NULL, &err), &err);
    CHECK(found);
    CHECK_EQ(train_trial_since_best(trial, TRAIN_WATCH_BEST), 1);
    CHECK_EQ(train_trial_since_best(trial, TRAIN_WATCH_EARLY), 2);
    CHECK(!train_trial_watch(trial, TRAIN_WATCH_BEST, 0.5, true));
    CHECK(train_trial_watch(trial, TRAIN_WATCH_BEST, 0.25, true));
    updates(trial, 3);
    hash_export(trial, path, resumed, 512);
    CHECK(memcmp(whole, tight, sizeof whole) == 0);
    CHECK(memcmp(whole, resumed, sizeof whole) == 0);
    train_trial_destroy(trial);
    ebb_arena_fini(&t.arena);
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK_EQ(system(command), 0);
}

/* ---- class by class ---- */

/* A head that answers with these scores, whatever it sees. */
static void answer_always(struct train_trial *trial, const float *scores)
{
    struct ebb_error err = {0};
    struct tensor_weights w;
    struct tensor_to_write items[128];
    static const float zeros[6 * 32];
    char path[64], other[64];
    size_t n = 0;
    snprintf(path, sizeof path, "/tmp/ebb_head_%d.safetensors", (int)getpid());
    snprintf(other, sizeof other, "/tmp/ebb_head_%d.npz", (int)getpid());
    export_to(trial, path, &w);
    for (; n < w.all.count; n++) {
        const struct tensor_entry *e = &w.all.entries[n];
        const void *data = strcmp(e->name, "fc.weight") == 0 ? (const void *)zeros
                           : strcmp(e->name, "fc.bias") == 0 ? (const void *)scores
                                                             : e->data;
        items[n] = (struct tensor_to_write){.name = e->name, .view = e->view, .data = data};
    }
    CHECK_OK(tensor_file_write(other, items, n, &err), &err);
    tensor_weights_close(&w);
    CHECK_OK(train_trial_import(trial, &(struct train_init){.path = other}, NULL, &err), &err);
    unlink(path);
    unlink(other);
}

static double metric(const struct train_metrics *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->items[i].name, name) == 0)
            return m->items[i].value;
    fail_msg("no metric %s", name);
    return NAN;
}

TEST(classes__are_counted_by_their_definition)
{
    static const char text[] =
        "data: {name: npz, data_dir: " FOLDER ", train_files: tune.npz, val_files: tune.npz}\n"
        "model: {name: resnet18, blocks: [1, 1, 1, 1], planes: 4, classes: 6}\n"
        "opt: {name: SGD, lr: 0.01}\n"
        "hyperparameters: {global_batch_size: 12}\n";
    static const float down[6] = {6, 5, 4, 3, 2, 1}, up[6] = {1, 2, 3, 4, 5, 6}, same[6] = {0};
    struct ebb_error err = {0};
    struct tuning t;
    struct train_trial *trial;
    struct train_metrics m;
    configure(&t, text, UINT64_MAX);
    CHECK_OK(train_trial_create(&trial, &t.config,
                                &(struct train_options){.workers = -1, .wants_classes = true},
                                &err),
             &err);
    answer_always(trial, down);
    CHECK_OK(train_trial_validate(trial, NULL, NULL, &m, &err), &err);
    const struct train_confusion *c = train_trial_confusion(trial);
    CHECK(c && c->classes == 6);
    uint64_t first = c->counts[0], all = 0;
    for (int64_t i = 0; i < 36; i++) {
        all += c->counts[i];
        CHECK(i % 6 == 0 || c->counts[i] == 0); /* every answer is class 0 */
    }
    CHECK_EQ(all, 80);
    CHECK(first > 0 && first < 80);
    CHECK(fabs(metric(&m, "validation_accuracy") - (double)first / 80) < 1e-12);
    CHECK(metric(&m, "validation_top5_accuracy") == 1);
    answer_always(trial, up); /* class 0 is the one that is not among the five best */
    CHECK_OK(train_trial_validate(trial, NULL, NULL, &m, &err), &err);
    CHECK(metric(&m, "validation_accuracy") == 0);
    CHECK(fabs(metric(&m, "validation_top5_accuracy") - (double)(80 - first) / 80) < 1e-12);
    answer_always(trial, same); /* ties go to lower classes */
    CHECK_OK(train_trial_validate(trial, NULL, NULL, &m, &err), &err);
    CHECK(fabs(metric(&m, "validation_accuracy") - (double)first / 80) < 1e-12);
    CHECK(metric(&m, "validation_top5_accuracy") == 1);
    train_trial_destroy(trial);
    ebb_arena_fini(&t.arena);
}

TEST_MAIN()
