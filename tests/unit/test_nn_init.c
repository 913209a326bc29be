/* Initial values: torch's stream draw for draw, ebb's by coordinates, rules by their moments. */
#include "test.h"

#include "nn_kit.h"

struct box {
    struct tensor_session *s;
    struct nn_builder b;
};

static void open_box(struct box *x)
{
    struct ebb_error err;
    CHECK_OK(tensor_session_create(&x->s, NULL, &err), &err);
    nn_builder_init(&x->b, x->s, &(struct nn_mode){.is_training = true});
}

static void close_box(struct box *x)
{
    nn_builder_fini(&x->b);
    tensor_session_destroy(x->s);
}

static tensor_id leaf(struct box *x, int rank, const int64_t *dims)
{
    return tensor_leaf(x->s, TENSOR_F32, rank, dims, "x");
}

static const struct ebb_doc_node *reference(struct ebb_arena *arena, const char *module)
{
    const struct ebb_doc_node *doc, *list;
    struct ebb_error err;
    CHECK_OK(ebb_doc_load(arena, EBB_SOURCE_DIR "/tests/golden/engine/rng.json", &doc, &err), &err);
    list = ebb_doc_get(doc, "init");
    for (size_t i = 0; list && i < list->count; i++)
        if (strcmp(ebb_doc_string(list->items[i], "module", ""), module) == 0)
            return list->items[i];
    fail_msg("no case %s", module);
    return NULL;
}

static void check_item(const struct box *x, enum nn_generator generator, size_t i,
                       const struct ebb_doc_node *want, double limit)
{
    struct nn_initializer *init;
    struct ebb_error err;
    const struct nn_item *item = nn_item_at(&x->b, i);
    size_t n = (size_t)tensor_count(&item->view);
    float *y = ebb_calloc(n, sizeof *y);
    CHECK(y && want && want->count == n);
    CHECK_OK(nn_initializer_create(&init, &x->b, generator, 1, &err), &err);
    nn_initialize(init, i, y);
    for (size_t k = 0; k < n; k++)
        if (!(fabs((double)y[k] - want->items[k]->number) <= limit))
            fail_msg("%s: element %zu is %.9g, torch's %.9g", item->name, k, (double)y[k],
                     want->items[k]->number);
    nn_initializer_destroy(init);
    ebb_free(y);
}

TEST(torch_stream__gives_torchs_linear_and_conv)
{
    struct ebb_arena arena;
    struct box x;
    ebb_arena_init(&arena);
    const struct ebb_doc_node *linear = reference(&arena, "Linear(5,3)");
    open_box(&x);
    nn_linear(&x.b, "m", leaf(&x, 2, (int64_t[]){1, 5}), &(struct nn_dense){.out = 3});
    check_item(&x, NN_TORCH, 0, ebb_doc_get(linear, "weight"), 0);
    check_item(&x, NN_TORCH, 1, ebb_doc_get(linear, "bias"), 0);
    close_box(&x);
    const struct ebb_doc_node *conv = reference(&arena, "Conv2d(2,3,3)");
    open_box(&x);
    nn_convolution(&x.b, "m", leaf(&x, 4, (int64_t[]){1, 2, 5, 5}),
                   &(struct nn_conv){.out = 3, .k = {3}, .has_bias = true});
    check_item(&x, NN_TORCH, 0, ebb_doc_get(conv, "weight"), 0);
    check_item(&x, NN_TORCH, 1, ebb_doc_get(conv, "bias"), 0);
    close_box(&x);
    ebb_arena_fini(&arena);
}

TEST(torch_stream__gives_torchs_embedding_and_lstm)
{
    struct ebb_arena arena;
    struct box x;
    struct ebb_error err;
    ebb_arena_init(&arena);
    const struct ebb_doc_node *table = reference(&arena, "Embedding(4,5)");
    open_box(&x);
    tensor_id ids = tensor_leaf(x.s, TENSOR_I64, 1, (int64_t[]){2}, "ids");
    nn_embedding(&x.b, "m", ids, 4, 5, nn_init_normal(1));
    check_item(&x, NN_TORCH, 0, ebb_doc_get(table, "weight"), 1e-6);
    close_box(&x);
    const struct ebb_doc_node *lstm = ebb_doc_get(reference(&arena, "LSTM(3,4)"), "values");
    struct kit k;
    struct nn_config c;
    CHECK_OK(kit_config(&c, "wlm_lstm",
                        "vocabulary=1 length=2 embedding=3 hidden=4 layers=1 dropout=0", &err),
             &err);
    CHECK_OK(kit_build(&k, &c, 1, (struct nn_mode){.is_training = true}, &err), &err);
    /* without the embedding before it, the stream of the layer begins at the beginning */
    k.b.items[0].init = nn_init_constant(0);
    struct box y = {.s = k.s, .b = k.b};
    for (size_t i = 0; i < 4; i++)
        check_item(&y, NN_TORCH, i + 1, lstm->items[i], 0);
    kit_close(&k);
    ebb_arena_fini(&arena);
}

/* A model that draws again leaves the constructors' draws behind it in the stream. */
TEST(torch_stream__redraws_after_all_constructors)
{
    struct box x;
    struct ebb_error err;
    struct nn_initializer *init;
    struct nn_torch_rng rng;
    float want[24], got[24];
    open_box(&x);
    tensor_id h = nn_linear(&x.b, "a", leaf(&x, 2, (int64_t[]){1, 4}),
                            &(struct nn_dense){.out = 6, .init = nn_init_normal(0.5)});
    nn_linear(&x.b, "b", h, &(struct nn_dense){.out = 2});
    CHECK_OK(nn_initializer_create(&init, &x.b, NN_TORCH, 9, &err), &err);
    nn_torch_seed(&rng, 9);
    nn_torch_uniform(&rng, 24, 0, 1, want); /* a.weight, overwritten later */
    nn_torch_uniform(&rng, 6, -0.5f, 0.5f, want);
    nn_initialize(init, 1, got);
    CHECK(memcmp(got, want, 6 * sizeof *got) == 0);
    nn_torch_uniform(&rng, 12 + 2, 0, 1, want); /* b.weight, b.bias */
    nn_torch_normal(&rng, 24, 0, 0.5f, want);
    nn_initialize(init, 0, got);
    CHECK(memcmp(got, want, sizeof got) == 0);
    nn_initializer_destroy(init);
    close_box(&x);
}

/* ---- ebb's own ------------------------------------------------------------------------------- */

static void moments(const struct nn_builder *b, const char *name, double *mean, double *deviation,
                    double *most)
{
    struct nn_initializer *init;
    struct ebb_error err;
    const struct nn_item *item = nn_item_find(b, name);
    CHECK(item != NULL);
    size_t n = (size_t)tensor_count(&item->view);
    float *y = ebb_calloc(n, sizeof *y);
    CHECK(y != NULL);
    CHECK_OK(nn_initializer_create(&init, b, NN_PHILOX, 5, &err), &err);
    nn_initialize(init, (size_t)(item - nn_item_at(b, 0)), y);
    nn_initializer_destroy(init);
    double sum = 0, squares = 0;
    *most = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)y[i];
        squares += (double)y[i] * (double)y[i];
        *most = fmax(*most, fabs((double)y[i]));
    }
    *mean = sum / (double)n;
    *deviation = sqrt(squares / (double)n - *mean * *mean);
    ebb_free(y);
}

TEST(rules__have_the_specified_moments)
{
    static const struct {
        const char *model, *set, *item;
        double deviation; /* of the draws */
        double bound;     /* uniform: none beyond it; 0: normal */
    } rows[] = {
        {"cifar_resnet20", "", "layer3.0.conv2.weight", 0.0589256, 0}, /* sqrt(2/(64*9)) */
        {"resnet50", "", "layer1.0.conv1.weight", 0.1767767, 0},       /* sqrt(2/64), fan_out */
        {"resnet50_epcc", "", "layer2.0.conv2.weight", 0.0170103, 0.0294628},    /* 1/sqrt(128*9) */
        {"densenet_bc_100_12", "", "block1.layer.0.conv2.weight", 0.1360828, 0}, /* 2/(9*12) */
        {"deepcam", "", "conv1.weight", 0.0395285, 0},                           /* sqrt(2/1280) */
        {"deepcam", "", "upsample.deconv1.weight", 0.0294628, 0}, /* sqrt(2/(9*256)) */
        {"cosmoflow", "", "conv4.weight", 0.0098209, 0.0170103},  /* sqrt(6/(27*768)) */
        {"wlm_lstm", "embedding=20 vocabulary=999", "encoder.weight", 0.0577350, 0.1},
        {"wlm_lstm", "vocabulary=99", "rnn.weight_hh_l1", 0.0408248, 0.0707107}, /* 1/sqrt(200) */
        {"gpt2_124M", "vocabulary=99", "transformer.wpe.weight", 0.02, 0},
        {"gpt2_124M", "vocabulary=99", "transformer.h.3.mlp.c_proj.weight", 0.0040825, 0},
        {"transformer_12_6", "", "encoder.layers.5.self_attn.in_proj_weight", 0.0312500, 0.0541266},
        {"bert_large", "vocabulary=99", "bert.encoder.layer.7.output.dense.weight", 0.02, 0},
        {"vgg16", "hidden=64", "classifier.3.weight", 0.01, 0},
        {"unet", "", "inc.double_conv.3.weight", 0.0240563, 0.0416667}, /* 1/sqrt(64*9) */
        {"unet_transposed", "", "up4.up.weight", 0.0360844, 0.0625},    /* 1/sqrt(64*4) */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ebb_error err;
        struct nn_config c;
        struct box x;
        struct nn_output out[NN_PORTS];
        tensor_id in[NN_PORTS];
        double mean, deviation, most;
        size_t n;
        CHECK_OK(kit_config(&c, rows[i].model, rows[i].set, &err), &err);
        open_box(&x);
        CHECK_OK(nn_leaves(&x.b, &c, 2, in, &err), &err);
        CHECK_OK(nn_build(&x.b, &c, in, out, &n, &err), &err);
        moments(&x.b, rows[i].item, &mean, &deviation, &most);
        if (fabs(deviation - rows[i].deviation) > 0.03 * rows[i].deviation ||
            fabs(mean) > 0.05 * rows[i].deviation ||
            (rows[i].bound > 0 && (most > 1.00001 * rows[i].bound || most < 0.98 * rows[i].bound)))
            fail_msg("%s %s: mean %g, deviation %g, most %g", rows[i].model, rows[i].item, mean,
                     deviation, most);
        close_box(&x);
    }
}

TEST(constants__are_ones_and_zeros)
{
    struct ebb_error err;
    struct nn_config c;
    struct kit k;
    struct nn_initializer *init;
    float y[64];
    int64_t n;
    CHECK_OK(kit_config(&c, "cifar_resnet20", "blocks=1,1,1", &err), &err);
    CHECK_OK(kit_build(&k, &c, 2, (struct nn_mode){.is_training = true}, &err), &err);
    CHECK_OK(nn_initializer_create(&init, &k.b, NN_PHILOX, 1, &err), &err);
    const struct {
        const char *name;
        float value;
    } rows[] = {
        {"bn1.weight", 1}, {"bn1.bias", 0}, {"bn1.running_mean", 0}, {"bn1.running_var", 1}};
    for (size_t i = 0; i < 4; i++) {
        const struct nn_item *item = nn_item_find(&k.b, rows[i].name);
        CHECK(item != NULL);
        nn_initialize(init, (size_t)(item - nn_item_at(&k.b, 0)), y);
        for (int e = 0; e < 16; e++)
            CHECK(y[e] == rows[i].value);
    }
    const struct nn_item *count = nn_item_find(&k.b, "bn1.num_batches_tracked");
    CHECK(count != NULL);
    nn_initialize(init, (size_t)(count - nn_item_at(&k.b, 0)), &n);
    CHECK_EQ(n, 0);
    nn_initializer_destroy(init);
    kit_close(&k);
}

TEST(values__depend_on_seed_and_item_alone)
{
    struct ebb_error err;
    struct nn_config c;
    struct kit a, b;
    struct nn_initializer *x, *y;
    float p[4096], q[4096];
    CHECK_OK(kit_config(&c, "cifar_resnet20", "blocks=1,1,1", &err), &err);
    CHECK_OK(kit_build(&a, &c, 2, (struct nn_mode){.is_training = true}, &err), &err);
    CHECK_OK(kit_build(&b, &c, 7, (struct nn_mode){.is_training = false}, &err), &err);
    for (int g = 0; g < 2; g++) {
        enum nn_generator generator = g ? NN_TORCH : NN_PHILOX;
        CHECK_OK(nn_initializer_create(&x, &a.b, generator, 1, &err), &err);
        CHECK_OK(nn_initializer_create(&y, &b.b, generator, 1, &err), &err);
        for (size_t i = nn_item_count(&a.b); i-- > 0;) { /* any order */
            size_t bytes = (size_t)tensor_count(&nn_item_at(&a.b, i)->view) * sizeof *p;
            if (bytes > sizeof p || nn_item_at(&a.b, i)->view.dtype != TENSOR_F32)
                continue;
            nn_initialize(x, i, p);
            nn_initialize(y, i, q);
            CHECK(memcmp(p, q, bytes) == 0);
        }
        nn_initializer_destroy(x);
        nn_initializer_destroy(y);
    }
    CHECK_OK(nn_initializer_create(&x, &a.b, NN_PHILOX, 1, &err), &err);
    CHECK_OK(nn_initializer_create(&y, &a.b, NN_PHILOX, 2, &err), &err);
    nn_initialize(x, 0, p);
    nn_initialize(y, 0, q);
    CHECK(memcmp(p, q, 64) != 0);
    nn_initializer_destroy(x);
    nn_initializer_destroy(y);
    kit_close(&a);
    kit_close(&b);
}

/* Numbers by coordinates: element e is a function of e alone, as the kernels draw it. */
TEST(normals__are_those_of_the_coordinates)
{
    struct box x;
    struct nn_initializer *init;
    struct ebb_error err;
    float y[7];
    uint32_t u[4];
    open_box(&x);
    nn_parameter(&x.b, "first", NN_BIAS, 1, (int64_t[]){3}, nn_init_normal(1));
    nn_parameter(&x.b, "second", NN_BIAS, 1, (int64_t[]){7}, nn_init_normal(0.5));
    CHECK_OK(nn_initializer_create(&init, &x.b, NN_PHILOX, UINT64_C(0x500000007), &err), &err);
    nn_initialize(init, 1, y);
    for (uint32_t e = 0; e < 7; e++) {
        ebb_philox((uint32_t[]){7, 5}, (uint32_t[]){e / 4, 1, 0, 1}, u);
        double a = (double)(u[e % 4 & 2] >> 8) * 0x1p-24,
               b = (double)(u[(e % 4 & 2) + 1] >> 8) * 0x1p-24;
        double r = sqrt(-2 * log(1 - a)), angle = 2 * M_PI * b;
        double want = 0.5 * r * (e % 2 ? sin(angle) : cos(angle));
        CHECK(fabs((double)y[e] - want) <= 1e-7);
    }
    nn_initializer_destroy(init);
    close_box(&x);
}

/* Large items are drawn by several threads, in pieces. */
TEST(large_items__are_drawn_as_small_ones)
{
    enum { N = 400003 };
    struct box x;
    struct nn_initializer *init;
    struct ebb_error err;
    uint32_t u[4];
    float *y = ebb_calloc(N, sizeof *y);
    CHECK(y != NULL);
    open_box(&x);
    nn_parameter(&x.b, "first", NN_BIAS, 1, (int64_t[]){N}, nn_init_uniform(2));
    CHECK_OK(nn_initializer_create(&init, &x.b, NN_PHILOX, 3, &err), &err);
    nn_initialize(init, 0, y);
    for (uint32_t e = 0; e < N; e++) {
        if (e % 4 == 0)
            ebb_philox((uint32_t[]){3, 0}, (uint32_t[]){e / 4, 0, 0, 1}, u);
        CHECK(y[e] == -2.0f + 4.0f * ((float)(u[e % 4] >> 8) * 0x1p-24f));
    }
    nn_initializer_destroy(init);
    close_box(&x);
    ebb_free(y);
}

TEST(generated_inputs__depend_on_seed_and_update)
{
    static const char *const names[] = {"unrolled_gan", "transformer_12_6", "wlm_transformer"};
    float a[4096], b[4096], d[4096];
    for (size_t i = 0; i < 3; i++) {
        struct ebb_error err;
        struct nn_config c;
        struct nn_port ports[NN_PORTS];
        CHECK_OK(kit_config(&c, names[i], kit_small_of(names[i]), &err), &err);
        size_t n = nn_inputs(&c, 3, ports);
        for (size_t k = 0; k < n; k++) {
            size_t bytes = (size_t)tensor_count(&ports[k].view) * sizeof *a;
            if (!ports[k].is_generated)
                continue;
            CHECK(bytes <= sizeof a);
            nn_generate(&c, &ports[k], 1, 0, a);
            nn_generate(&c, &ports[k], 1, 0, b);
            nn_generate(&c, &ports[k], 1, 1, d);
            CHECK(memcmp(a, b, bytes) == 0);
            bool is_fixed = strcmp(ports[k].name, "positions") == 0;
            CHECK((memcmp(a, d, bytes) == 0) == is_fixed);
            if (strcmp(ports[k].name, "real") == 0) /* near a circle of radius 2 */
                for (size_t e = 0; e + 1 < bytes / sizeof *a; e += 2)
                    CHECK(fabs(hypot((double)a[e], (double)a[e + 1]) - 2) < 0.12);
            if (is_fixed)
                CHECK(a[0] == 0.0f && a[1] == 1.0f);
        }
    }
}

/* The scores that a padding row makes must not move: the row is zero and stays in the list. */
TEST(padding_row__is_zero)
{
    struct box x;
    struct nn_initializer *init;
    struct ebb_error err;
    float y[20];
    struct nn_init rule = nn_init_normal(1);
    rule.zero_row = 2;
    open_box(&x);
    tensor_id ids = tensor_leaf(x.s, TENSOR_I64, 1, (int64_t[]){2}, "ids");
    nn_embedding(&x.b, "m", ids, 4, 5, rule);
    CHECK_OK(nn_initializer_create(&init, &x.b, NN_PHILOX, 1, &err), &err);
    nn_initialize(init, 0, y);
    for (int i = 0; i < 20; i++)
        CHECK((y[i] == 0.0f) == (i / 5 == 1));
    nn_initializer_destroy(init);
    close_box(&x);
}

TEST_MAIN()
