/* densenet.c - densely connected networks: torchvision's, and the small one of DenseNet-BC. */
#include <inttypes.h>
#include <math.h>

#include "nn/internal.h"

struct densenet {
    struct nn_image image;
    struct nn_ints blocks;
    int64_t growth, planes;
    bool is_small; /* DenseNet-BC: 3x3 stem, log-softmax */
};

static tensor_id conv(struct nn_builder *b, const struct densenet *d, const char *name, tensor_id x,
                      int64_t out, int64_t k, int64_t stride)
{
    struct nn_conv c = {.out = out, .k = {k}, .stride = {stride}, .pad = {k / 2, k / 2}};
    c.init = nn_init_kaiming((d->is_small ? out : nn_dim(b, x, 1)) * k * k);
    return nn_convolution(b, name, x, &c);
}

static tensor_id dense_layer(struct nn_builder *b, const struct densenet *d, tensor_id x)
{
    const char *const norm[] = {d->is_small ? "bn1" : "norm1", d->is_small ? "bn2" : "norm2"};
    tensor_id y = conv(b, d, "conv1", nn_norm_relu(b, norm[0], x), 4 * d->growth, 1, 1);
    y = conv(b, d, "conv2", nn_norm_relu(b, norm[1], y), d->growth, 3, 1);
    return nn_cat(b, 2, (tensor_id[]){x, y}, 1);
}

static tensor_id transition(struct nn_builder *b, const struct densenet *d, tensor_id x, int64_t i)
{
    nn_push(b, d->is_small ? "trans%" PRId64 : "transition%" PRId64, i);
    int64_t half = nn_dim(b, x, 1) / 2;
    x = nn_norm_relu(b, d->is_small ? "bn1" : "norm", x);
    x = conv(b, d, d->is_small ? "conv1" : "conv", x, half, 1, 1);
    nn_pop(b);
    return nn_avg_pool(b, x, 2, 2, 0, true);
}

static tensor_id features(struct nn_builder *b, const struct densenet *d, tensor_id x)
{
    x = conv(b, d, d->is_small ? "conv1" : "conv0", x, d->planes, d->is_small ? 3 : 7,
             d->is_small ? 1 : 2);
    if (!d->is_small)
        x = nn_max_pool(b, nn_norm_relu(b, "norm0", x), 3, 2, 1);
    for (int64_t s = 0; s < d->blocks.count; s++) {
        nn_push(b, d->is_small ? "block%" PRId64 : "denseblock%" PRId64, s + 1);
        if (d->is_small)
            nn_push(b, "layer");
        for (int64_t k = 0; k < d->blocks.v[s]; k++) {
            nn_push(b, d->is_small ? "%" PRId64 : "denselayer%" PRId64, d->is_small ? k : k + 1);
            x = dense_layer(b, d, x);
            nn_pop(b);
        }
        if (d->is_small)
            nn_pop(b);
        nn_pop(b);
        if (s + 1 < d->blocks.count)
            x = transition(b, d, x, s + 1);
    }
    return nn_norm_relu(b, d->is_small ? "bn1" : "norm5", x);
}

static size_t build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                    struct nn_output *out)
{
    const struct densenet *d = (const void *)config->bytes;
    if (!d->is_small)
        nn_push(b, "features");
    tensor_id x = features(b, d, in[0]);
    if (!d->is_small)
        nn_pop(b);
    x = nn_linear(b, d->is_small ? "fc" : "classifier", nn_global_pool(b, x),
                  &(struct nn_dense){.out = d->image.classes, .bias_init = nn_init_constant(0)});
    if (d->is_small) /* and the cross entropy takes it once more */
        x = nn_op(b, "log_softmax", 1, &x, NULL, "{\"dim\":1}");
    return nn_classes(b, out, "logits", x, "cross_entropy");
}

static const struct ebb_key options[] = {
    NN_IMAGE_OPTIONS(densenet),
    NN_OPTION_INTS(densenet, blocks, 1, 256, "dense layers of each block"),
    NN_OPTION_INT(densenet, growth, 1, 1024, "channels that each dense layer adds"),
    NN_OPTION_INT(densenet, planes, 1, 4096, "channels of the stem"),
};

#define ROW(text, about, defaults_, ...)                                                           \
    NN_MODEL(text, NN_IMAGE_CLASSIFICATION, about, options, densenet, nn_image_inputs, build,      \
             defaults_, __VA_ARGS__)
#define IMAGENET(growth_, planes_, ...)                                                            \
    (&(const struct densenet){.image = {3, 224, 224, 1000},                                        \
                              .blocks = {{__VA_ARGS__}, 4},                                        \
                              .growth = growth_,                                                   \
                              .planes = planes_})

static const struct nn_model rows[] = {
    ROW("densenet_bc_100_12", "DenseNet-BC, depth 100, growth 12, for small images",
        (&(const struct densenet){.image = {3, 32, 32, 10},
                                  .blocks = {{16, 16, 16}, 3},
                                  .growth = 12,
                                  .planes = 24,
                                  .is_small = true}),
        "densenet100", NULL),
    ROW("densenet121", "DenseNet-121", IMAGENET(32, 64, 6, 12, 24, 16), "tv_densenet121", NULL),
    ROW("densenet161", "DenseNet-161", IMAGENET(48, 96, 6, 12, 36, 24), "tv_densenet161", NULL),
    ROW("densenet169", "DenseNet-169", IMAGENET(32, 64, 6, 12, 32, 32), "tv_densenet169", NULL),
    ROW("densenet201", "DenseNet-201", IMAGENET(32, 64, 6, 12, 48, 32), "tv_densenet201", NULL),
};

const struct nn_family nn_densenet_family = {rows, sizeof rows / sizeof *rows};
