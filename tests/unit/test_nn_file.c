/* Model files: every model of the zoo written as a file and read back trains to the same bits. */
#include "test.h"

#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "nn_kit.h"

/* One update of every weight, then the bytes of all items. */
static void train(const struct nn_config *config, int64_t batch, struct kit *k)
{
    struct ebb_error err;
    CHECK_OK(kit_build(k, config, batch, (struct nn_mode){.is_training = true, .seed = 5}, &err),
             &err);
    CHECK_OK(kit_backward(k, &err), &err);
    kit_update(k);
    CHECK_OK(kit_finish(k, &err), &err);
    CHECK_OK(kit_start(k, 3, &err), &err);
    for (int i = 0; i < 3; i++)
        CHECK_OK(ops_host_run(&k->host, &err), &err);
}

static void compare(const char *name, struct kit *a, struct kit *b)
{
    CHECK_EQ(nn_item_count(&a->b), nn_item_count(&b->b));
    for (size_t i = 0; i < nn_item_count(&a->b); i++) {
        const struct nn_item *x = nn_item_at(&a->b, i), *y = nn_item_at(&b->b, i);
        const void *p = kit_data(a, x->leaf), *q = kit_data(b, y->leaf);
        CHECK_STR(x->name, y->name);
        CHECK(tensor_same_shape(&x->view, &y->view));
        CHECK_EQ(x->role, y->role);
        CHECK_EQ(x->has_decay, y->has_decay);
        CHECK_EQ(p != NULL, q != NULL);
        size_t bytes =
            (size_t)tensor_count(&x->view) * tensor_dtype_bytes((enum tensor_dtype)x->view.dtype);
        if (p && memcmp(p, q, bytes) != 0)
            fail_msg("%s: %s has other bytes", name, x->name);
    }
}

static void read_back(struct ebb_arena *arena, const char *name, const struct ebb_str *text,
                      struct nn_config *config)
{
    struct ebb_error err = {0};
    struct ebb_report report;
    struct ebb_str lines = {0};
    char path[64];
    snprintf(path, sizeof path, "/tmp/ebb_test_file_%d.yaml", (int)getpid());
    CHECK_OK(ebb_file_write_atomic(path, text->data, text->length, &err), &err);
    enum ebb_status status = nn_config_open(arena, path, config, &report, &err);
    unlink(path);
    ebb_report_lines(&report, &lines);
    if (status != EBB_OK)
        fail_msg("%s: %s", name, ebb_str_c(&lines));
    ebb_str_fini(&lines);
}

static void check_model(const struct nn_model *m, enum nn_generator generator)
{
    struct ebb_error err;
    struct nn_config zoo, file;
    struct ebb_str text = {0};
    struct ebb_arena arena;
    struct kit a, b;
    ebb_arena_init(&arena);
    CHECK_OK(kit_config(&zoo, m->name, kit_small_of(m->name), &err), &err);
    zoo.generator = generator;
    CHECK_OK(nn_config_write(&zoo, &text, &err), &err);
    read_back(&arena, m->name, &text, &file);
    file.generator = generator;
    CHECK_STR(file.model->name, m->name);
    CHECK_EQ(file.model->task, m->task);
    train(&zoo, 4, &a); /* neither of the two batches it was written with */
    train(&file, 4, &b);
    compare(m->name, &a, &b);
    kit_close(&a);
    kit_close(&b);
    ebb_str_fini(&text);
    ebb_arena_fini(&arena);
}

TEST(files__of_the_zoo_train_to_the_same_bits)
{
    size_t count = 0;
    for (size_t i = 0; i < nn_model_count(); i++)
        if (nn_model_at(i)->task != NN_GAN) {
            check_model(nn_model_at(i), NN_PHILOX);
            count++;
        }
    CHECK(count > 80);
}

TEST(files__draw_what_torch_draws)
{
    static const char *const names[] = {"cifar_resnet20", "densenet121", "wlm_lstm",
                                        "bert_base",      "gpt2_124M",   "transformer_12_6",
                                        "wlm_transformer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_model(nn_model_find(names[i]), NN_TORCH);
}

TEST(examples__are_models_of_the_zoo)
{
    static const struct {
        const char *file, *zoo, *set;
    } rows[] = {
        {"resnet20", "cifar_resnet20", "height=16 width=16 planes=4"},
        {"unet", "unet", "planes=4 depth=3 height=35 width=24"},
        {"gpt", "gpt2_124M",
         "vocabulary=61 positions=16 length=8 width=16 layers=2 heads=2 dropout=0.1"},
        {"lstm", "wlm_lstm", "vocabulary=50 length=6 embedding=8 hidden=12"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ebb_error err = {0};
        struct ebb_arena arena;
        struct ebb_report report;
        struct nn_config zoo, file;
        struct kit a, b;
        char path[512], set[256], *save = NULL;
        ebb_arena_init(&arena);
        snprintf(path, sizeof path, "%s/examples/models/%s.yaml", EBB_SOURCE_DIR, rows[i].file);
        CHECK_OK(kit_config(&zoo, rows[i].zoo, rows[i].set, &err), &err);
        CHECK_OK(nn_config_open(&arena, path, &file, &report, &err), &err);
        snprintf(set, sizeof set, "%s", rows[i].set);
        for (char *t = strtok_r(set, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
            char *eq = strchr(t, '=');
            *eq = '\0';
            const char *key = strcmp(t, "hidden") == 0 ? "hidden_size" : t;
            if (strcmp(t, "depth") != 0) /* of the U-Net: its file has three levels */
                CHECK_OK(nn_config_set(&file, key, eq + 1, &err), &err);
        }
        if (i == 3)
            CHECK_OK(nn_config_set(&file, "dropout", "0.2", &err), &err);
        train(&zoo, 4, &a);
        train(&file, 4, &b);
        compare(rows[i].file, &a, &b);
        kit_close(&a);
        kit_close(&b);
        ebb_arena_fini(&arena);
    }
}

/* Two ways to say one loss: by its name, and as an expression over an input that is a target. */
TEST(losses__are_names_or_expressions)
{
    static const char *const texts[] = {
        "inputs: {x: [6]}\nmodules: {fc: \"Linear(6, 2)\"}\nforward: [\"logits = fc(x)\", \"return "
        "logits\"]\nloss: cross_entropy\n",
        "inputs: {x: [6], y: {shape: [], dtype: int64, target: true}}\nmodules: {fc: \"Linear(6, "
        "2)\"}\nforward: [\"logits = fc(x)\", \"return logits\"]\nloss: cross_entropy(logits, y)\n"
        "metrics: {size: (logits * logits).mean()}\n"};
    struct ebb_arena arena;
    struct kit kits[2];
    ebb_arena_init(&arena);
    for (int i = 0; i < 2; i++) {
        struct ebb_error err = {0};
        struct ebb_report report;
        struct nn_config c;
        CHECK_OK(nn_config_from_text(&arena, "net", texts[i], strlen(texts[i]), &c, &report, &err),
                 &err);
        train(&c, 4, &kits[i]);
    }
    CHECK_EQ(kits[0].output_count, 1);
    CHECK_EQ(kits[1].output_count, 3);
    CHECK_EQ(kits[1].outputs[1].kind, NN_LOSS);
    CHECK_EQ(kits[1].outputs[2].kind, NN_METRIC);
    CHECK_STR(kits[1].outputs[2].name, "size");
    compare("expression", &kits[0], &kits[1]);
    kit_close(&kits[0]);
    kit_close(&kits[1]);
    ebb_arena_fini(&arena);
}

/* Keywords are whole names, however long they are. */
TEST(parameters__have_long_names)
{
#define LONG "units_of_the_layer_that_stands_in_front_of_the_last_"
    static const char text[] =
        "inputs: {x: [6]}\n"
        "blocks:\n"
        "  Two(" LONG "one, " LONG "two=3):\n"
        "    modules: {a: \"Linear(6, " LONG "two)\", b: \"Linear(" LONG "two, " LONG "one)\"}\n"
        "    forward: [\"return b(a(x))\"]\n"
        "modules: {two: \"Two(" LONG "two=4, " LONG "one=5)\"}\n"
        "forward: [\"return two(x)\"]\n"
        "loss: cross_entropy\n";
#undef LONG
    struct ebb_arena arena;
    struct ebb_error err = {0};
    struct ebb_report report = {0};
    struct nn_config c;
    struct kit k;
    ebb_arena_init(&arena);
    CHECK_OK(nn_config_from_text(&arena, "net", text, strlen(text), &c, &report, &err), &err);
    train(&c, 2, &k);
    CHECK_EQ(nn_item_at(&k.b, 0)->view.dims[0], 4);
    CHECK_EQ(nn_item_at(&k.b, 2)->view.dims[0], 5);
    kit_close(&k);
    ebb_arena_fini(&arena);
}

/* Shapes that do not agree are a mistake of the file, unless the data may still make them agree. */
TEST(shapes__are_checked_when_they_are_known)
{
    static const char text[] = "options: {features: 4, hidden: 8}\ninputs: {x: [features]}\n"
                               "modules: {fc: \"Linear(3, hidden)\"}\nforward: [\"return fc(x)\"]\n"
                               "loss: mse_loss\n";
    static const char *const sections[] = {"{file: %s}", "{file: %s, features: 4}",
                                           "{file: %s, features: 3}", "{file: %s, hidden: 2}"};
    static const size_t errors[] = {0, 1, 0, 0};
    char path[64], yaml[128];
    struct ebb_error err = {0};
    snprintf(path, sizeof path, "/tmp/ebb_test_file_%d.yaml", (int)getpid());
    CHECK_OK(ebb_file_write_atomic(path, text, sizeof text - 1, &err), &err);
    for (size_t i = 0; i < 4; i++) {
        struct ebb_arena arena;
        struct ebb_reading reading;
        struct ebb_report report;
        struct nn_config c;
        const struct ebb_doc_node *map;
        ebb_arena_init(&arena);
        snprintf(yaml, sizeof yaml, sections[i], path);
        CHECK_OK(ebb_doc_parse_yaml(&arena, "exp", yaml, strlen(yaml), &map, &err), &err);
        ebb_reading_init(&reading, &arena, "exp.yaml", &report);
        bool is_read = nn_config_read(&reading, &(struct ebb_path){.key = "model"}, map,
                                      &(struct nn_env){0}, &c);
        CHECK_EQ(report.errors, errors[i]);
        CHECK_EQ(is_read, errors[i] == 0);
        if (report.errors) {
            CHECK_STR(report.items[0].file, path);
            CHECK_EQ(report.items[0].line, 4);
            CHECK(strstr(report.items[0].message, "made for 3 features, found 4"));
        }
        ebb_reading_fini(&reading);
        ebb_arena_fini(&arena);
    }
    unlink(path);
}

TEST(out_of_memory__is_a_status_of_files)
{
    static const char text[] =
        "options: {n: 4}\ninputs: {x: [n]}\nblocks:\n  A(i):\n    modules: {fc: "
        "\"Linear(i, i)\"}\n    forward: [\"return relu(fc(x)) + x\"]\n"
        "modules: {a: {repeat: 2, use: A(n)}}\nforward: [\"return "
        "a(x).softmax(dim=1)\"]\nloss: mse_loss\n";
    uint64_t live = ebb_heap_live();
    bool is_done = false;
    for (uint64_t n = 1; n < 2000 && !is_done; n++) {
        struct ebb_arena arena;
        struct ebb_error err = {0};
        struct ebb_report report;
        struct nn_config c;
        struct tensor_session *s = NULL;
        ebb_arena_init(&arena);
        ebb_heap_fail_at(n);
        enum ebb_status status =
            nn_config_from_text(&arena, "net", text, sizeof text - 1, &c, &report, &err);
        if (status == EBB_OK && (status = tensor_session_create(&s, NULL, &err)) == EBB_OK) {
            struct nn_builder b;
            struct nn_output outputs[NN_PORTS];
            tensor_id inputs[NN_PORTS];
            size_t count;
            nn_builder_init(&b, s, &(struct nn_mode){.is_training = true});
            status = nn_leaves(&b, &c, 2, inputs, &err);
            if (status == EBB_OK)
                status = nn_build(&b, &c, inputs, outputs, &count, &err);
            nn_builder_fini(&b);
            tensor_session_destroy(s);
        }
        ebb_heap_fail_at(0);
        CHECK(status == EBB_OK || status == EBB_ENOMEM || status == EBB_EINPUT);
        is_done = status == EBB_OK;
        ebb_arena_fini(&arena);
        CHECK_EQ(ebb_heap_live(), live);
    }
    CHECK(is_done);
}

TEST(files__of_models_that_train_themselves_are_refused)
{
    struct ebb_error err = {0};
    struct nn_config c;
    struct ebb_str text = {0};
    CHECK_OK(nn_config_init(&c, "unrolled_gan", &err), &err);
    CHECK_EQ(nn_config_write(&c, &text, &err), EBB_EUNSUPPORTED);
    ebb_str_fini(&text);
}

TEST_MAIN()
