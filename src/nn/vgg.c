/* vgg.c - plain stacks of convolutions: VGG, AlexNet, SqueezeNet. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "nn/internal.h"

struct plain {
    struct nn_image image;
    struct nn_ints blocks; /* VGG: convolutions of each block */
    int64_t planes, hidden;
    double dropout;
    bool has_norm;
};

static tensor_id adaptive_pool(struct nn_builder *b, tensor_id x, int64_t size)
{
    return nn_op(b, "adaptive_avg_pool2d", 1, &x, NULL,
                 "{\"output_size\":[%" PRId64 ",%" PRId64 "]}", size, size);
}

/* Three linear layers with dropout, torchvision's numbering. */
static tensor_id classifier(struct nn_builder *b, const struct plain *p, tensor_id x,
                            const char *const *names, bool is_first, struct nn_dense d)
{
    nn_push(b, "classifier");
    x = nn_flatten(b, x);
    for (int k = 0; k < 3; k++) {
        if (is_first && k < 2)
            x = nn_dropout(b, x, p->dropout);
        d.out = k < 2 ? p->hidden : p->image.classes;
        x = nn_linear(b, names[k], x, &d);
        if (k < 2)
            x = nn_activate(b, NN_RELU, x);
        if (!is_first && k < 2)
            x = nn_dropout(b, x, p->dropout);
    }
    return nn_leave(b, x);
}

static size_t build_vgg(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                        struct nn_output *out)
{
    const struct plain *p = (const void *)config->bytes;
    tensor_id x = in[0];
    int at = 0;
    char name[16];
    nn_push(b, "features");
    for (int64_t s = 0; s < p->blocks.count; s++) {
        int64_t planes = p->planes << (s < 3 ? s : 3);
        for (int64_t k = 0; k < p->blocks.v[s]; k++) {
            snprintf(name, sizeof name, "%d", at);
            x = nn_convolution(b, name, x,
                               &(struct nn_conv){.out = planes,
                                                 .k = {3},
                                                 .pad = {1, 1},
                                                 .has_bias = true,
                                                 .init = nn_init_kaiming(planes * 9),
                                                 .bias_init = nn_init_constant(0)});
            if (p->has_norm) {
                snprintf(name, sizeof name, "%d", ++at);
                x = nn_batch_norm(b, name, x, 0, 0);
            }
            x = nn_activate(b, NN_RELU, x);
            at += 2;
        }
        x = nn_max_pool(b, x, 2, 2, 0);
        at++;
    }
    nn_pop(b);
    x = classifier(
        b, p, adaptive_pool(b, x, 7), (const char *const[]){"0", "3", "6"}, false,
        (struct nn_dense){.init = nn_init_normal(0.01), .bias_init = nn_init_constant(0)});
    return nn_classes(b, out, "logits", x, "cross_entropy");
}

static tensor_id conv_relu(struct nn_builder *b, const char *name, tensor_id x, int64_t out,
                           int64_t k, int64_t stride, int64_t pad, struct nn_init init)
{
    struct nn_conv c = {
        .out = out, .k = {k}, .stride = {stride}, .pad = {pad, pad}, .has_bias = true};
    if (init.is_given) {
        c.init = init;
        c.bias_init = nn_init_constant(0);
    }
    return nn_activate(b, NN_RELU, nn_convolution(b, name, x, &c));
}

static size_t build_alexnet(struct nn_builder *b, const struct nn_config *config,
                            const tensor_id *in, struct nn_output *out)
{
    const struct plain *p = (const void *)config->bytes;
    struct nn_init none = {.is_given = false};
    int64_t n = p->planes;
    nn_push(b, "features");
    tensor_id x = nn_max_pool(b, conv_relu(b, "0", in[0], n, 11, 4, 2, none), 3, 2, 0);
    x = nn_max_pool(b, conv_relu(b, "3", x, 3 * n, 5, 1, 2, none), 3, 2, 0);
    x = conv_relu(b, "6", x, 6 * n, 3, 1, 1, none);
    x = conv_relu(b, "8", x, 4 * n, 3, 1, 1, none);
    x = nn_max_pool(b, conv_relu(b, "10", x, 4 * n, 3, 1, 1, none), 3, 2, 0);
    nn_pop(b);
    x = classifier(b, p, adaptive_pool(b, x, 6), (const char *const[]){"1", "4", "6"}, true,
                   (struct nn_dense){.out = 0});
    return nn_classes(b, out, "logits", x, "cross_entropy");
}

static struct nn_init uniform_fan_in(const struct nn_builder *b, tensor_id x, int64_t k)
{
    return nn_init_uniform((float)sqrt(6.0 / (double)(nn_dim(b, x, 1) * k * k)));
}

static tensor_id fire(struct nn_builder *b, const char *name, tensor_id x, int64_t squeeze,
                      int64_t expand)
{
    nn_push(b, "%s", name);
    x = conv_relu(b, "squeeze", x, squeeze, 1, 1, 0, uniform_fan_in(b, x, 1));
    tensor_id parts[2];
    parts[0] = conv_relu(b, "expand1x1", x, expand, 1, 1, 0, uniform_fan_in(b, x, 1));
    parts[1] = conv_relu(b, "expand3x3", x, expand, 3, 1, 1, uniform_fan_in(b, x, 3));
    nn_pop(b);
    return nn_cat(b, 2, parts, 1);
}

static size_t build_squeezenet(struct nn_builder *b, const struct nn_config *config,
                               const tensor_id *in, struct nn_output *out)
{
    const struct plain *p = (const void *)config->bytes;
    int64_t n = p->planes; /* 64 */
    static const struct {
        const char *name;
        int squeeze, expand; /* in parts of planes / 4, planes */
        bool has_pool;
    } fires[] = {{"3", 1, 1, false}, {"4", 1, 1, true},   {"6", 2, 2, false},  {"7", 2, 2, true},
                 {"9", 3, 3, false}, {"10", 3, 3, false}, {"11", 4, 4, false}, {"12", 4, 4, false}};
    nn_push(b, "features");
    tensor_id x = conv_relu(b, "0", in[0], n, 3, 2, 0, uniform_fan_in(b, in[0], 3));
    x = nn_ceil_pool(b, x, 3, 2, 0);
    for (size_t i = 0; i < sizeof fires / sizeof *fires; i++) {
        x = fire(b, fires[i].name, x, n / 4 * fires[i].squeeze, n * fires[i].expand);
        if (fires[i].has_pool)
            x = nn_ceil_pool(b, x, 3, 2, 0);
    }
    nn_pop(b);
    nn_push(b, "classifier");
    x = nn_dropout(b, x, p->dropout);
    x = conv_relu(b, "1", x, p->image.classes, 1, 1, 0, nn_init_normal(0.01));
    nn_pop(b);
    return nn_classes(b, out, "logits", nn_global_pool(b, x), "cross_entropy");
}

static const struct ebb_key vgg_options[] = {
    NN_IMAGE_OPTIONS(plain),
    NN_OPTION_INTS(plain, blocks, 1, 64, "convolutions of each block"),
    NN_OPTION_INT(plain, planes, 1, 4096, "channels of the first block"),
    NN_OPTION_INT(plain, hidden, 1, 65536, "width of the linear layers"),
    NN_OPTION_FLOAT(plain, dropout, 0, 0.999, "share of hidden units left out in training"),
};
static const struct ebb_key alexnet_options[] = {
    NN_IMAGE_OPTIONS(plain),
    NN_OPTION_INT(plain, planes, 1, 4096, "channels of the first convolution"),
    NN_OPTION_INT(plain, hidden, 1, 65536, "width of the linear layers"),
    NN_OPTION_FLOAT(plain, dropout, 0, 0.999, "share of hidden units left out in training"),
};
static const struct ebb_key squeezenet_options[] = {
    NN_IMAGE_OPTIONS(plain),
    NN_OPTION_INT(plain, planes, 4, 4096, "channels of the first convolution"),
    NN_OPTION_FLOAT(plain, dropout, 0, 0.999, "share of units left out in training"),
};

#define ROW(text, about, list, build_, defaults_, ...)                                             \
    NN_MODEL(text, NN_IMAGE_CLASSIFICATION, about, list, plain, nn_image_inputs, build_,           \
             defaults_, __VA_ARGS__)
#define VGG(norm, n)                                                                               \
    (&(const struct plain){.image = {3, 224, 224, 1000},                                           \
                           .blocks = {{2, 2, n, n, n}, 5},                                         \
                           .planes = 64,                                                           \
                           .hidden = 4096,                                                         \
                           .dropout = 0.5,                                                         \
                           .has_norm = norm})
#define PLAIN                                                                                      \
    (&(const struct plain){                                                                        \
        .image = {3, 224, 224, 1000}, .planes = 64, .hidden = 4096, .dropout = 0.5})

static const struct nn_model rows[] = {
    ROW("vgg16", "VGG-16", vgg_options, build_vgg, VGG(false, 3), NULL),
    ROW("vgg16_bn", "VGG-16 with batch normalisation", vgg_options, build_vgg, VGG(true, 3), NULL),
    ROW("vgg19", "VGG-19", vgg_options, build_vgg, VGG(false, 4), NULL),
    ROW("alexnet", "AlexNet", alexnet_options, build_alexnet, PLAIN, NULL),
    ROW("squeezenet1_1", "SqueezeNet 1.1", squeezenet_options, build_squeezenet, PLAIN,
        "squeezenet", NULL),
};

const struct nn_family nn_vgg_family = {rows, sizeof rows / sizeof *rows};
