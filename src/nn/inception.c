/* inception.c - networks of parallel branches: Inception v3 and v4, GoogLeNet. */
#include <inttypes.h>

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

/* One step of a branch: kernel kh x kw (pads to keep the size when stride is 1 unless valid). */
struct step {
    const char *name;
    int16_t out, kh, kw, stride;
    bool is_valid;
};

static tensor_id unit(struct nn_builder *b, const struct inception *n, tensor_id x,
                      const struct step *s)
{
    bool is_valid = s->is_valid || s->stride > 1;
    struct nn_conv c = {.out = ch(n, s->out),
                        .k = {s->kh, s->kw},
                        .stride = {s->stride},
                        .pad = {is_valid ? 0 : s->kh / 2, is_valid ? 0 : s->kw / 2}};
    nn_push(b, "%s", s->name);
    x = nn_convolution(b, "conv", x, &c);
    x = nn_activate(b, NN_RELU, nn_batch_norm(b, "bn", x, 1e-3, 0.1));
    nn_pop(b);
    return x;
}

/* Steps in a row; a list ends with name NULL. */
static tensor_id branch(struct nn_builder *b, const struct inception *n, tensor_id x,
                        const struct step *steps)
{
    for (; steps->name; steps++)
        x = unit(b, n, x, steps);
    return x;
}
#define STEPS(...) ((const struct step[]){__VA_ARGS__, {.name = NULL}})
/* clang-format off */
#define C1(name, out) {name, out, 1, 1, 1, false}
#define C3(name, out) {name, out, 3, 3, 1, false}
#define R3(name, out) {name, out, 3, 3, 2, true}
#define CR(name, out, kh, kw) {name, out, kh, kw, 1, false}
#define V3(name, out) {name, out, 3, 3, 1, true}
/* clang-format on */

/* One source, two ends, side by side. */
static tensor_id fork(struct nn_builder *b, const struct inception *n, tensor_id x,
                      const struct step *left, const struct step *right)
{
    tensor_id parts[2] = {branch(b, n, x, left), TENSOR_NONE};
    parts[1] = branch(b, n, x, right);
    return nn_cat(b, 2, parts, 1);
}

/* ---- v3 ------------------------------------------------------------------------------------- */

static tensor_id v3_a(struct nn_builder *b, const struct inception *n, const char *name,
                      tensor_id x, int16_t pool)
{
    tensor_id p[4];
    nn_push(b, "%s", name);
    p[0] = branch(b, n, x, STEPS(C1("branch1x1", 64)));
    p[1] = branch(b, n, x, STEPS(C1("branch5x5_1", 48), CR("branch5x5_2", 64, 5, 5)));
    p[2] =
        branch(b, n, x,
               STEPS(C1("branch3x3dbl_1", 64), C3("branch3x3dbl_2", 96), C3("branch3x3dbl_3", 96)));
    p[3] = branch(b, n, nn_avg_pool(b, x, 3, 1, 1, true), STEPS(C1("branch_pool", pool)));
    nn_pop(b);
    return nn_cat(b, 4, p, 1);
}

static tensor_id v3_b(struct nn_builder *b, const struct inception *n, const char *name,
                      tensor_id x)
{
    tensor_id p[3];
    nn_push(b, "%s", name);
    p[0] = branch(b, n, x, STEPS(R3("branch3x3", 384)));
    p[1] =
        branch(b, n, x,
               STEPS(C1("branch3x3dbl_1", 64), C3("branch3x3dbl_2", 96), R3("branch3x3dbl_3", 96)));
    p[2] = nn_max_pool(b, x, 3, 2, 0);
    nn_pop(b);
    return nn_cat(b, 3, p, 1);
}

static tensor_id v3_c(struct nn_builder *b, const struct inception *n, const char *name,
                      tensor_id x, int16_t c)
{
    tensor_id p[4];
    nn_push(b, "%s", name);
    p[0] = branch(b, n, x, STEPS(C1("branch1x1", 192)));
    p[1] = branch(
        b, n, x,
        STEPS(C1("branch7x7_1", c), CR("branch7x7_2", c, 1, 7), CR("branch7x7_3", 192, 7, 1)));
    p[2] = branch(b, n, x,
                  STEPS(C1("branch7x7dbl_1", c), CR("branch7x7dbl_2", c, 7, 1),
                        CR("branch7x7dbl_3", c, 1, 7), CR("branch7x7dbl_4", c, 7, 1),
                        CR("branch7x7dbl_5", 192, 1, 7)));
    p[3] = branch(b, n, nn_avg_pool(b, x, 3, 1, 1, true), STEPS(C1("branch_pool", 192)));
    nn_pop(b);
    return nn_cat(b, 4, p, 1);
}

static tensor_id v3_d(struct nn_builder *b, const struct inception *n, const char *name,
                      tensor_id x)
{
    tensor_id p[3];
    nn_push(b, "%s", name);
    p[0] = branch(b, n, x, STEPS(C1("branch3x3_1", 192), R3("branch3x3_2", 320)));
    p[1] = branch(b, n, x,
                  STEPS(C1("branch7x7x3_1", 192), CR("branch7x7x3_2", 192, 1, 7),
                        CR("branch7x7x3_3", 192, 7, 1), R3("branch7x7x3_4", 192)));
    p[2] = nn_max_pool(b, x, 3, 2, 0);
    nn_pop(b);
    return nn_cat(b, 3, p, 1);
}

static tensor_id v3_e(struct nn_builder *b, const struct inception *n, const char *name,
                      tensor_id x)
{
    tensor_id p[4];
    nn_push(b, "%s", name);
    p[0] = branch(b, n, x, STEPS(C1("branch1x1", 320)));
    p[1] = branch(b, n, x, STEPS(C1("branch3x3_1", 384)));
    p[1] = fork(b, n, p[1], STEPS(CR("branch3x3_2a", 384, 1, 3)),
                STEPS(CR("branch3x3_2b", 384, 3, 1)));
    p[2] = branch(b, n, x, STEPS(C1("branch3x3dbl_1", 448), C3("branch3x3dbl_2", 384)));
    p[2] = fork(b, n, p[2], STEPS(CR("branch3x3dbl_3a", 384, 1, 3)),
                STEPS(CR("branch3x3dbl_3b", 384, 3, 1)));
    p[3] = branch(b, n, nn_avg_pool(b, x, 3, 1, 1, true), STEPS(C1("branch_pool", 192)));
    nn_pop(b);
    return nn_cat(b, 4, p, 1);
}

/* Second head, on the features at a third of the way; small maps are pooled to what it needs. */
static tensor_id v3_aux(struct nn_builder *b, const struct inception *n, tensor_id x)
{
    nn_push(b, "AuxLogits");
    if (nn_dim(b, x, 2) >= 17 && nn_dim(b, x, 3) >= 17)
        x = nn_avg_pool(b, x, 5, 3, 0, true);
    else
        x = nn_op(b, "adaptive_avg_pool2d", 1, &x, NULL, "{\"output_size\":[5,5]}");
    x = branch(b, n, x, STEPS(C1("conv0", 128), {"conv1", 768, 5, 5, 1, true}));
    x = nn_linear(b, "fc", nn_global_pool(b, x), &(struct nn_dense){.out = n->image.classes});
    nn_pop(b);
    return x;
}

static size_t build_v3(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                       struct nn_output *out)
{
    const struct inception *n = (const void *)config->bytes;
    static const char *const c_names[] = {"Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"};
    static const int16_t c_sizes[] = {128, 160, 160, 192};
    tensor_id x =
        branch(b, n, in[0],
               STEPS(R3("Conv2d_1a_3x3", 32), V3("Conv2d_2a_3x3", 32), C3("Conv2d_2b_3x3", 64)));
    x = nn_max_pool(b, x, 3, 2, 0);
    x = branch(b, n, x, STEPS(C1("Conv2d_3b_1x1", 80), V3("Conv2d_4a_3x3", 192)));
    x = nn_max_pool(b, x, 3, 2, 0);
    x = v3_a(b, n, "Mixed_5b", x, 32);
    x = v3_a(b, n, "Mixed_5c", x, 64);
    x = v3_a(b, n, "Mixed_5d", x, 64);
    x = v3_b(b, n, "Mixed_6a", x);
    for (int i = 0; i < 4; i++)
        x = v3_c(b, n, c_names[i], x, c_sizes[i]);
    tensor_id aux = v3_aux(b, n, x);
    x = v3_d(b, n, "Mixed_7a", x);
    x = v3_e(b, n, "Mixed_7b", x);
    x = v3_e(b, n, "Mixed_7c", x);
    x = nn_dropout(b, nn_global_pool(b, x), n->dropout);
    x = nn_linear(b, "fc", x, &(struct nn_dense){.out = n->image.classes});
    nn_classes(b, &out[0], "logits", x, "cross_entropy");
    nn_classes(b, &out[1], "aux", aux, NULL);
    return 2;
}

/* ---- v4 ------------------------------------------------------------------------------------- */

static tensor_id v4_stem(struct nn_builder *b, const struct inception *n, tensor_id x)
{
    tensor_id p[2];
    x = branch(b, n, x, STEPS(R3("0", 32), V3("1", 32), C3("2", 64)));
    nn_push(b, "3");
    p[0] = nn_max_pool(b, x, 3, 2, 0);
    p[1] = branch(b, n, x, STEPS(R3("conv", 96)));
    x = nn_cat(b, 2, p, 1);
    nn_pop(b);
    nn_push(b, "4");
    p[0] = branch(b, n, x, STEPS(C1("branch0.0", 64), V3("branch0.1", 96)));
    p[1] = branch(b, n, x,
                  STEPS(C1("branch1.0", 64), CR("branch1.1", 64, 1, 7), CR("branch1.2", 64, 7, 1),
                        V3("branch1.3", 96)));
    x = nn_cat(b, 2, p, 1);
    nn_pop(b);
    nn_push(b, "5");
    p[0] = branch(b, n, x, STEPS(R3("conv", 192)));
    p[1] = nn_max_pool(b, x, 3, 2, 0);
    nn_pop(b);
    return nn_cat(b, 2, p, 1);
}

static tensor_id v4_a(struct nn_builder *b, const struct inception *n, tensor_id x)
{
    tensor_id p[4];
    p[0] = branch(b, n, x, STEPS(C1("branch0", 96)));
    p[1] = branch(b, n, x, STEPS(C1("branch1.0", 64), C3("branch1.1", 96)));
    p[2] = branch(b, n, x, STEPS(C1("branch2.0", 64), C3("branch2.1", 96), C3("branch2.2", 96)));
    p[3] = branch(b, n, nn_avg_pool(b, x, 3, 1, 1, false), STEPS(C1("branch3.1", 96)));
    return nn_cat(b, 4, p, 1);
}

static tensor_id v4_reduction_a(struct nn_builder *b, const struct inception *n, tensor_id x)
{
    tensor_id p[3];
    p[0] = branch(b, n, x, STEPS(R3("branch0", 384)));
    p[1] = branch(b, n, x, STEPS(C1("branch1.0", 192), C3("branch1.1", 224), R3("branch1.2", 256)));
    p[2] = nn_max_pool(b, x, 3, 2, 0);
    return nn_cat(b, 3, p, 1);
}

static tensor_id v4_b(struct nn_builder *b, const struct inception *n, tensor_id x)
{
    tensor_id p[4];
    p[0] = branch(b, n, x, STEPS(C1("branch0", 384)));
    p[1] =
        branch(b, n, x,
               STEPS(C1("branch1.0", 192), CR("branch1.1", 224, 1, 7), CR("branch1.2", 256, 7, 1)));
    p[2] =
        branch(b, n, x,
               STEPS(C1("branch2.0", 192), CR("branch2.1", 192, 7, 1), CR("branch2.2", 224, 1, 7),
                     CR("branch2.3", 224, 7, 1), CR("branch2.4", 256, 1, 7)));
    p[3] = branch(b, n, nn_avg_pool(b, x, 3, 1, 1, false), STEPS(C1("branch3.1", 128)));
    return nn_cat(b, 4, p, 1);
}

static tensor_id v4_reduction_b(struct nn_builder *b, const struct inception *n, tensor_id x)
{
    tensor_id p[3];
    p[0] = branch(b, n, x, STEPS(C1("branch0.0", 192), R3("branch0.1", 192)));
    p[1] = branch(b, n, x,
                  STEPS(C1("branch1.0", 256), CR("branch1.1", 256, 1, 7),
                        CR("branch1.2", 320, 7, 1), R3("branch1.3", 320)));
    p[2] = nn_max_pool(b, x, 3, 2, 0);
    return nn_cat(b, 3, p, 1);
}

static tensor_id v4_c(struct nn_builder *b, const struct inception *n, tensor_id x)
{
    tensor_id p[4];
    p[0] = branch(b, n, x, STEPS(C1("branch0", 256)));
    p[1] = branch(b, n, x, STEPS(C1("branch1_0", 384)));
    p[1] = fork(b, n, p[1], STEPS(CR("branch1_1a", 256, 1, 3)), STEPS(CR("branch1_1b", 256, 3, 1)));
    p[2] =
        branch(b, n, x,
               STEPS(C1("branch2_0", 384), CR("branch2_1", 448, 3, 1), CR("branch2_2", 512, 1, 3)));
    p[2] = fork(b, n, p[2], STEPS(CR("branch2_3a", 256, 1, 3)), STEPS(CR("branch2_3b", 256, 3, 1)));
    p[3] = branch(b, n, nn_avg_pool(b, x, 3, 1, 1, false), STEPS(C1("branch3.1", 256)));
    return nn_cat(b, 4, p, 1);
}

static size_t build_v4(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                       struct nn_output *out)
{
    const struct inception *n = (const void *)config->bytes;
    static const struct {
        int first, end;
        tensor_id (*block)(struct nn_builder *, const struct inception *, tensor_id);
    } plan[] = {{6, 10, v4_a},
                {10, 11, v4_reduction_a},
                {11, 18, v4_b},
                {18, 19, v4_reduction_b},
                {19, 22, v4_c}};
    nn_push(b, "features");
    tensor_id x = v4_stem(b, n, in[0]);
    for (size_t p = 0; p < sizeof plan / sizeof *plan; p++)
        for (int i = plan[p].first; i < plan[p].end; i++) {
            nn_push(b, "%d", i);
            x = plan[p].block(b, n, x);
            nn_pop(b);
        }
    nn_pop(b);
    x = nn_dropout(b, nn_global_pool(b, x), n->dropout);
    x = nn_linear(b, "last_linear", x, &(struct nn_dense){.out = n->image.classes});
    return nn_classes(b, out, "logits", x, "cross_entropy");
}

/* ---- GoogLeNet ------------------------------------------------------------------------------ */

static tensor_id ceil_pool(struct nn_builder *b, tensor_id x, int k, int stride, int pad)
{
    return nn_op(b, "max_pool2d", 1, &x, NULL,
                 "{\"kernel\":%d,\"stride\":%d,\"padding\":%d,\"ceil_mode\":true}", k, stride, pad);
}

struct mixed {
    const char *name;
    int16_t c[6];
    int16_t pool; /* kernel of the max pooling after it, or 0 */
};

static tensor_id google_block(struct nn_builder *b, const struct inception *n, tensor_id x,
                              const struct mixed *m)
{
    tensor_id p[4];
    nn_push(b, "%s", m->name);
    p[0] = branch(b, n, x, STEPS(C1("branch1", m->c[0])));
    p[1] = branch(b, n, x, STEPS(C1("branch2.0", m->c[1]), C3("branch2.1", m->c[2])));
    p[2] = branch(b, n, x, STEPS(C1("branch3.0", m->c[3]), C3("branch3.1", m->c[4])));
    p[3] = branch(b, n, ceil_pool(b, x, 3, 1, 1), STEPS(C1("branch4.1", m->c[5])));
    nn_pop(b);
    return nn_cat(b, 4, p, 1);
}

static tensor_id google_aux(struct nn_builder *b, const struct inception *n, const char *name,
                            tensor_id x)
{
    nn_push(b, "%s", name);
    x = nn_op(b, "adaptive_avg_pool2d", 1, &x, NULL, "{\"output_size\":[4,4]}");
    x = nn_flatten(b, branch(b, n, x, STEPS(C1("conv", 128))));
    x = nn_activate(b, NN_RELU, nn_linear(b, "fc1", x, &(struct nn_dense){.out = ch(n, 1024)}));
    x = nn_linear(b, "fc2", nn_dropout(b, x, n->dropout > 0 ? 0.7 : 0.0),
                  &(struct nn_dense){.out = n->image.classes});
    nn_pop(b);
    return x;
}

static size_t build_google(struct nn_builder *b, const struct nn_config *config,
                           const tensor_id *in, struct nn_output *out)
{
    const struct inception *n = (const void *)config->bytes;
    static const struct mixed blocks[] = {
        {"inception3a", {64, 96, 128, 16, 32, 32}, 0},
        {"inception3b", {128, 128, 192, 32, 96, 64}, 3},
        {"inception4a", {192, 96, 208, 16, 48, 64}, 0},
        {"inception4b", {160, 112, 224, 24, 64, 64}, 0},
        {"inception4c", {128, 128, 256, 24, 64, 64}, 0},
        {"inception4d", {112, 144, 288, 32, 64, 64}, 0},
        {"inception4e", {256, 160, 320, 32, 128, 128}, 2},
        {"inception5a", {256, 160, 320, 32, 128, 128}, 0},
        {"inception5b", {384, 192, 384, 48, 128, 128}, 0},
    };
    tensor_id side[2] = {TENSOR_NONE, TENSOR_NONE};
    struct nn_conv stem = {.out = ch(n, 64), .k = {7}, .stride = {2}, .pad = {3, 3}};
    nn_push(b, "conv1");
    tensor_id x = nn_batch_norm(b, "bn", nn_convolution(b, "conv", in[0], &stem), 1e-3, 0.1);
    nn_pop(b);
    x = ceil_pool(b, nn_activate(b, NN_RELU, x), 3, 2, 0);
    x = ceil_pool(b, branch(b, n, x, STEPS(C1("conv2", 64), C3("conv3", 192))), 3, 2, 0);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        x = google_block(b, n, x, &blocks[i]);
        if (i == 2 || i == 5)
            side[i == 5] = x;
        if (blocks[i].pool)
            x = ceil_pool(b, x, blocks[i].pool, 2, 0);
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
