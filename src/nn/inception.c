/* inception.c - networks of parallel branches: Inception v3 and v4, GoogLeNet. */
#include <inttypes.h>
#include <stdio.h>

#include "nn/internal.h"

struct inception {
    struct nn_image image;
    int64_t shrink; /* divides every channel count */
    double dropout;
};

static int64_t ch(const struct inception *n, int64_t channels)
{
    int64_t c = channels / n->shrink;
    return c < 1 ? 1 : c;
}

enum kind {
    UNIT,      /* convolution, batch norm, relu */
    FORK,      /* the next two units from here, side by side */
    MAX,       /* 3x3, stride 2 */
    CEIL,      /* 3x3, stride 1, rounded up */
    MEAN,      /* 3x3, stride 1, over the padding as well */
    MEAN_REAL, /* the same without it */
    END,       /* of a branch: the next one begins at the module's input */
    DONE,
};

/* One step of a branch: kernel kh x kw (pads to keep the size when stride is 1 unless valid). */
struct step {
    const char *name;
    int16_t out, kh, kw, stride; /* out: below 0, a number of the module's sizes */
    bool is_valid;
    enum kind kind;
};

static tensor_id unit(struct nn_builder *b, const struct inception *n, tensor_id x,
                      const struct step *s, const int16_t *sizes)
{
    bool is_valid = s->is_valid || s->stride > 1;
    struct nn_conv c = {.out = ch(n, s->out < 0 ? sizes[-s->out - 1] : s->out),
                        .k = {s->kh, s->kw},
                        .stride = {s->stride},
                        .pad = {is_valid ? 0 : s->kh / 2, is_valid ? 0 : s->kw / 2}};
    nn_push(b, "%s", s->name);
    x = nn_convolution(b, "conv", x, &c);
    x = nn_activate(b, NN_RELU, nn_batch_norm(b, "bn", x, 1e-3, 0.1));
    return nn_leave(b, x);
}

static tensor_id step(struct nn_builder *b, const struct inception *n, tensor_id x,
                      const struct step *s, const int16_t *sizes)
{
    tensor_id sides[2];
    switch (s->kind) {
    case UNIT:
        return unit(b, n, x, s, sizes);
    case FORK:
        sides[0] = unit(b, n, x, s + 1, sizes);
        sides[1] = unit(b, n, x, s + 2, sizes);
        return nn_cat(b, 2, sides, 1);
    case MAX:
        return nn_max_pool(b, x, 3, 2, 0);
    case CEIL:
        return nn_ceil_pool(b, x, 3, 1, 1);
    default:
        return nn_avg_pool(b, x, 3, 1, 1, s->kind == MEAN);
    }
}

/* Steps in a row, up to the end of their branch. */
static tensor_id branch(struct nn_builder *b, const struct inception *n, tensor_id x,
                        const struct step *steps, const int16_t *sizes)
{
    for (; steps->kind < END; steps += steps->kind == FORK ? 3 : 1)
        x = step(b, n, x, steps, sizes);
    return x;
}

/* Branches side by side. */
struct module {
    const char *name;
    const struct step *steps;
    int16_t sizes[6];
    int16_t pool; /* GoogLeNet: kernel of the max pooling after it, or 0 */
    bool is_own;  /* the branches are joined in the module's own scope */
};

static tensor_id module(struct nn_builder *b, const struct inception *n, tensor_id x,
                        const struct module *m)
{
    tensor_id parts[4];
    size_t count = 0;
    nn_push(b, "%s", m->name);
    for (const struct step *s = m->steps; s->kind != DONE; s++) {
        parts[count++] = branch(b, n, x, s, m->sizes);
        while (s->kind != END)
            s++;
    }
    if (m->is_own)
        x = nn_cat(b, count, parts, 1);
    nn_pop(b);
    return m->is_own ? x : nn_cat(b, count, parts, 1);
}

/* clang-format off */
#define C1(name, out) {name, out, 1, 1, 1, false, UNIT}
#define C3(name, out) {name, out, 3, 3, 1, false, UNIT}
#define R3(name, out) {name, out, 3, 3, 2, true, UNIT}
#define CR(name, out, kh, kw) {name, out, kh, kw, 1, false, UNIT}
#define V3(name, out) {name, out, 3, 3, 1, true, UNIT}
#define DO(kind_) {.kind = kind_}
/* clang-format on */
#define STEPS(...) ((const struct step[]){__VA_ARGS__, DO(END)})
#define MODULE(name) static const struct step name[]

/* ---- v3 ------------------------------------------------------------------------------------- */

/* One branch a line or more; a negative width is one of the module's sizes. */
/* clang-format off */
MODULE(v3_a) = {
    C1("branch1x1", 64), DO(END),
    C1("branch5x5_1", 48), CR("branch5x5_2", 64, 5, 5), DO(END),
    C1("branch3x3dbl_1", 64), C3("branch3x3dbl_2", 96), C3("branch3x3dbl_3", 96), DO(END),
    DO(MEAN), C1("branch_pool", -1), DO(END),
    DO(DONE),
};

MODULE(v3_b) = {
    R3("branch3x3", 384), DO(END),
    C1("branch3x3dbl_1", 64), C3("branch3x3dbl_2", 96), R3("branch3x3dbl_3", 96), DO(END),
    DO(MAX), DO(END),
    DO(DONE),
};

MODULE(v3_c) = {
    C1("branch1x1", 192), DO(END),
    C1("branch7x7_1", -1), CR("branch7x7_2", -1, 1, 7), CR("branch7x7_3", 192, 7, 1), DO(END),
    C1("branch7x7dbl_1", -1), CR("branch7x7dbl_2", -1, 7, 1), CR("branch7x7dbl_3", -1, 1, 7),
    CR("branch7x7dbl_4", -1, 7, 1), CR("branch7x7dbl_5", 192, 1, 7), DO(END),
    DO(MEAN), C1("branch_pool", 192), DO(END),
    DO(DONE),
};

MODULE(v3_d) = {
    C1("branch3x3_1", 192), R3("branch3x3_2", 320), DO(END),
    C1("branch7x7x3_1", 192), CR("branch7x7x3_2", 192, 1, 7), CR("branch7x7x3_3", 192, 7, 1),
    R3("branch7x7x3_4", 192), DO(END),
    DO(MAX), DO(END),
    DO(DONE),
};

MODULE(v3_e) = {
    C1("branch1x1", 320), DO(END),
    C1("branch3x3_1", 384),
    DO(FORK), CR("branch3x3_2a", 384, 1, 3), CR("branch3x3_2b", 384, 3, 1), DO(END),
    C1("branch3x3dbl_1", 448), C3("branch3x3dbl_2", 384),
    DO(FORK), CR("branch3x3dbl_3a", 384, 1, 3), CR("branch3x3dbl_3b", 384, 3, 1), DO(END),
    DO(MEAN), C1("branch_pool", 192), DO(END),
    DO(DONE),
};
/* clang-format on */

static const struct module v3_modules[] = {
    {"Mixed_5b", v3_a, {32}, 0, false},  {"Mixed_5c", v3_a, {64}, 0, false},
    {"Mixed_5d", v3_a, {64}, 0, false},  {"Mixed_6a", v3_b, {0}, 0, false},
    {"Mixed_6b", v3_c, {128}, 0, false}, {"Mixed_6c", v3_c, {160}, 0, false},
    {"Mixed_6d", v3_c, {160}, 0, false}, {"Mixed_6e", v3_c, {192}, 0, false},
    {"Mixed_7a", v3_d, {0}, 0, false},   {"Mixed_7b", v3_e, {0}, 0, false},
    {"Mixed_7c", v3_e, {0}, 0, false},
};
#define V3_AUX 8 /* modules before the second head */

/* Second head, on the features at a third of the way; small maps are pooled to what it needs. */
static tensor_id v3_aux(struct nn_builder *b, const struct inception *n, tensor_id x)
{
    nn_push(b, "AuxLogits");
    if (nn_dim(b, x, 2) >= 17 && nn_dim(b, x, 3) >= 17)
        x = nn_avg_pool(b, x, 5, 3, 0, true);
    else
        x = nn_op(b, "adaptive_avg_pool2d", 1, &x, NULL, "{\"output_size\":[5,5]}");
    x = branch(b, n, x, STEPS(C1("conv0", 128), {"conv1", 768, 5, 5, 1, true, UNIT}), NULL);
    x = nn_linear(b, "fc", nn_global_pool(b, x), &(struct nn_dense){.out = n->image.classes});
    return nn_leave(b, x);
}

static size_t build_v3(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                       struct nn_output *out)
{
    const struct inception *n = (const void *)config->bytes;
    const struct step *stem =
        STEPS(R3("Conv2d_1a_3x3", 32), V3("Conv2d_2a_3x3", 32), C3("Conv2d_2b_3x3", 64), DO(MAX),
              C1("Conv2d_3b_1x1", 80), V3("Conv2d_4a_3x3", 192), DO(MAX));
    tensor_id x = branch(b, n, in[0], stem, NULL), aux = TENSOR_NONE;
    for (size_t i = 0; i < sizeof v3_modules / sizeof *v3_modules; i++) {
        if (i == V3_AUX)
            aux = v3_aux(b, n, x);
        x = module(b, n, x, &v3_modules[i]);
    }
    x = nn_dropout(b, nn_global_pool(b, x), n->dropout);
    x = nn_linear(b, "fc", x, &(struct nn_dense){.out = n->image.classes});
    nn_classes(b, &out[0], "logits", x, "cross_entropy");
    nn_classes(b, &out[1], "aux", aux, NULL);
    return 2;
}

/* ---- v4 ------------------------------------------------------------------------------------- */

/* clang-format off */
MODULE(v4_stem_a) = {DO(MAX), DO(END), R3("conv", 96), DO(END), DO(DONE)};

MODULE(v4_stem_b) = {
    C1("branch0.0", 64), V3("branch0.1", 96), DO(END),
    C1("branch1.0", 64), CR("branch1.1", 64, 1, 7), CR("branch1.2", 64, 7, 1), V3("branch1.3", 96),
    DO(END),
    DO(DONE),
};

MODULE(v4_stem_c) = {R3("conv", 192), DO(END), DO(MAX), DO(END), DO(DONE)};

MODULE(v4_a) = {
    C1("branch0", 96), DO(END),
    C1("branch1.0", 64), C3("branch1.1", 96), DO(END),
    C1("branch2.0", 64), C3("branch2.1", 96), C3("branch2.2", 96), DO(END),
    DO(MEAN_REAL), C1("branch3.1", 96), DO(END),
    DO(DONE),
};

MODULE(v4_reduction_a) = {
    R3("branch0", 384), DO(END),
    C1("branch1.0", 192), C3("branch1.1", 224), R3("branch1.2", 256), DO(END),
    DO(MAX), DO(END),
    DO(DONE),
};

MODULE(v4_b) = {
    C1("branch0", 384), DO(END),
    C1("branch1.0", 192), CR("branch1.1", 224, 1, 7), CR("branch1.2", 256, 7, 1), DO(END),
    C1("branch2.0", 192), CR("branch2.1", 192, 7, 1), CR("branch2.2", 224, 1, 7),
    CR("branch2.3", 224, 7, 1), CR("branch2.4", 256, 1, 7), DO(END),
    DO(MEAN_REAL), C1("branch3.1", 128), DO(END),
    DO(DONE),
};

MODULE(v4_reduction_b) = {
    C1("branch0.0", 192), R3("branch0.1", 192), DO(END),
    C1("branch1.0", 256), CR("branch1.1", 256, 1, 7), CR("branch1.2", 320, 7, 1),
    R3("branch1.3", 320), DO(END),
    DO(MAX), DO(END),
    DO(DONE),
};

MODULE(v4_c) = {
    C1("branch0", 256), DO(END),
    C1("branch1_0", 384),
    DO(FORK), CR("branch1_1a", 256, 1, 3), CR("branch1_1b", 256, 3, 1), DO(END),
    C1("branch2_0", 384), CR("branch2_1", 448, 3, 1), CR("branch2_2", 512, 1, 3),
    DO(FORK), CR("branch2_3a", 256, 1, 3), CR("branch2_3b", 256, 3, 1), DO(END),
    DO(MEAN_REAL), C1("branch3.1", 256), DO(END),
    DO(DONE),
};
/* clang-format on */

static size_t build_v4(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                       struct nn_output *out)
{
    const struct inception *n = (const void *)config->bytes;
    static const struct {
        int first, end;
        const struct step *steps;
    } plan[] = {
        {3, 4, v4_stem_a},        {4, 5, v4_stem_b}, {5, 6, v4_stem_c},        {6, 10, v4_a},
        {10, 11, v4_reduction_a}, {11, 18, v4_b},    {18, 19, v4_reduction_b}, {19, 22, v4_c}};
    char name[8];
    nn_push(b, "features");
    tensor_id x = branch(b, n, in[0], STEPS(R3("0", 32), V3("1", 32), C3("2", 64)), NULL);
    for (size_t p = 0; p < sizeof plan / sizeof *plan; p++)
        for (int i = plan[p].first; i < plan[p].end; i++) {
            snprintf(name, sizeof name, "%d", i);
            x = module(b, n, x, &(struct module){name, plan[p].steps, {0}, 0, i != 5});
        }
    nn_pop(b);
    x = nn_dropout(b, nn_global_pool(b, x), n->dropout);
    x = nn_linear(b, "last_linear", x, &(struct nn_dense){.out = n->image.classes});
    return nn_classes(b, out, "logits", x, "cross_entropy");
}

/* ---- GoogLeNet ------------------------------------------------------------------------------ */

/* clang-format off */
MODULE(google) = {
    C1("branch1", -1), DO(END),
    C1("branch2.0", -2), C3("branch2.1", -3), DO(END),
    C1("branch3.0", -4), C3("branch3.1", -5), DO(END),
    DO(CEIL), C1("branch4.1", -6), DO(END),
    DO(DONE),
};
/* clang-format on */

static tensor_id google_aux(struct nn_builder *b, const struct inception *n, const char *name,
                            tensor_id x)
{
    nn_push(b, "%s", name);
    x = nn_op(b, "adaptive_avg_pool2d", 1, &x, NULL, "{\"output_size\":[4,4]}");
    x = nn_flatten(b, branch(b, n, x, STEPS(C1("conv", 128)), NULL));
    x = nn_activate(b, NN_RELU, nn_linear(b, "fc1", x, &(struct nn_dense){.out = ch(n, 1024)}));
    x = nn_linear(b, "fc2", nn_dropout(b, x, n->dropout > 0 ? 0.7 : 0.0),
                  &(struct nn_dense){.out = n->image.classes});
    return nn_leave(b, x);
}

static size_t build_google(struct nn_builder *b, const struct nn_config *config,
                           const tensor_id *in, struct nn_output *out)
{
    const struct inception *n = (const void *)config->bytes;
    static const struct module blocks[] = {
        {"inception3a", google, {64, 96, 128, 16, 32, 32}, 0, false},
        {"inception3b", google, {128, 128, 192, 32, 96, 64}, 3, false},
        {"inception4a", google, {192, 96, 208, 16, 48, 64}, 0, false},
        {"inception4b", google, {160, 112, 224, 24, 64, 64}, 0, false},
        {"inception4c", google, {128, 128, 256, 24, 64, 64}, 0, false},
        {"inception4d", google, {112, 144, 288, 32, 64, 64}, 0, false},
        {"inception4e", google, {256, 160, 320, 32, 128, 128}, 2, false},
        {"inception5a", google, {256, 160, 320, 32, 128, 128}, 0, false},
        {"inception5b", google, {384, 192, 384, 48, 128, 128}, 0, false},
    };
    tensor_id side[2] = {TENSOR_NONE, TENSOR_NONE};
    struct nn_conv stem = {.out = ch(n, 64), .k = {7}, .stride = {2}, .pad = {3, 3}};
    nn_push(b, "conv1");
    tensor_id x = nn_batch_norm(b, "bn", nn_convolution(b, "conv", in[0], &stem), 1e-3, 0.1);
    nn_pop(b);
    x = nn_ceil_pool(b, nn_activate(b, NN_RELU, x), 3, 2, 0);
    x = nn_ceil_pool(b, branch(b, n, x, STEPS(C1("conv2", 64), C3("conv3", 192)), NULL), 3, 2, 0);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        x = module(b, n, x, &blocks[i]);
        if (i == 2 || i == 5)
            side[i == 5] = x;
        if (blocks[i].pool)
            x = nn_ceil_pool(b, x, blocks[i].pool, 2, 0);
    }
    tensor_id aux1 = google_aux(b, n, "aux1", side[0]), aux2 = google_aux(b, n, "aux2", side[1]);
    x = nn_dropout(b, nn_global_pool(b, x), n->dropout);
    x = nn_linear(b, "fc", x, &(struct nn_dense){.out = n->image.classes});
    nn_classes(b, &out[0], "logits", x, "cross_entropy");
    nn_classes(b, &out[1], "aux1", aux1, NULL);
    nn_classes(b, &out[2], "aux2", aux2, NULL);
    return 3;
}

static const struct ebb_key options[] = {
    NN_IMAGE_OPTIONS(inception),
    NN_OPTION_INT(inception, shrink, 1, 64, "divides every channel count, for small tests"),
    NN_OPTION_FLOAT(inception, dropout, 0, 0.999, "share of features left out in training"),
};
#define ROW(text, about, build_, size, classes_, dropout_, ...)                                    \
    NN_MODEL(text, NN_IMAGE_CLASSIFICATION, about, options, inception, nn_image_inputs, build_,    \
             (&(const struct inception){                                                           \
                 .image = {3, size, size, classes_}, .shrink = 1, .dropout = dropout_}),           \
             __VA_ARGS__)

static const struct nn_model rows[] = {
    ROW("inception_v3", "Inception v3 with its second head (its loss is the first head's)",
        build_v3, 299, 1000, 0.5, "inceptionv3", NULL),
    ROW("inception_v4", "Inception v4", build_v4, 299, 1001, 0.0, "inceptionv4", NULL),
    ROW("googlenet", "GoogLeNet with its two side heads (its loss is the main head's)",
        build_google, 224, 1000, 0.2, NULL),
};

const struct nn_family nn_inception_family = {rows, sizeof rows / sizeof *rows};
