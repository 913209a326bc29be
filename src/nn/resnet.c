/* resnet.c - residual networks: CIFAR's, ImageNet's, and the benchmark's with its own stem. */
#include <inttypes.h>

#include "nn/internal.h"

enum stem { STEM_CIFAR, STEM_IMAGENET, STEM_EPCC };
enum block { BLOCK_BASIC, BLOCK_BOTTLENECK };
enum rule { RULE_DEFAULT, RULE_FAN_IN, RULE_FAN_OUT };

static const char stem_names[] = "cifar imagenet epcc";
static const char block_names[] = "basic bottleneck";

struct resnet {
    struct nn_image image;
    struct nn_ints blocks;
    int64_t planes;
    int stem, block, rule;
};

static tensor_id conv(struct nn_builder *b, const struct resnet *r, const char *name, tensor_id x,
                      int64_t out, int64_t k, int64_t stride)
{
    struct nn_conv c = {.out = out, .k = {k}, .stride = {stride}, .pad = {k / 2, k / 2}};
    if (r->rule != RULE_DEFAULT)
        c.init = nn_init_kaiming((r->rule == RULE_FAN_IN ? nn_dim(b, x, 1) : out) * k * k);
    return nn_convolution(b, name, x, &c);
}

/* Option A: every second row and column, zeros for the new channels. */
static tensor_id subsample(struct nn_builder *b, tensor_id x, int64_t stride, int64_t out)
{
    int64_t more = out - nn_dim(b, x, 1);
    x = nn_op(b, "slice", 1, &x, NULL,
              "{\"ranges\":[[2,0,%" PRId64 ",%" PRId64 "],[3,0,%" PRId64 ",%" PRId64 "]]}",
              nn_dim(b, x, 2), stride, nn_dim(b, x, 3), stride);
    return nn_op(b, "pad", 1, &x, NULL, "{\"pad\":[0,0,0,0,%" PRId64 ",%" PRId64 "]}", more / 2,
                 more - more / 2);
}

static tensor_id shortcut(struct nn_builder *b, const struct resnet *r, tensor_id x, int64_t out,
                          int64_t stride)
{
    if (stride == 1 && nn_dim(b, x, 1) == out)
        return x;
    if (r->stem == STEM_CIFAR)
        return subsample(b, x, stride, out);
    nn_push(b, "downsample");
    x = conv(b, r, "0", x, out, 1, stride);
    x = nn_batch_norm(b, "1", x, 0, 0);
    return nn_leave(b, x);
}

static tensor_id block(struct nn_builder *b, const struct resnet *r, tensor_id x, int64_t planes,
                       int64_t stride)
{
    bool is_deep = r->block == BLOCK_BOTTLENECK;
    int64_t out = is_deep ? planes * 4 : planes;
    tensor_id y = conv(b, r, "conv1", x, planes, is_deep ? 1 : 3, is_deep ? 1 : stride);
    y = nn_activate(b, NN_RELU, nn_batch_norm(b, "bn1", y, 0, 0));
    y = conv(b, r, "conv2", y, planes, 3, is_deep ? stride : 1);
    y = nn_batch_norm(b, "bn2", y, 0, 0);
    if (is_deep) {
        y = conv(b, r, "conv3", nn_activate(b, NN_RELU, y), out, 1, 1);
        y = nn_batch_norm(b, "bn3", y, 0, 0);
    }
    return nn_activate(b, NN_RELU, nn_add(b, y, shortcut(b, r, x, out, stride)));
}

static tensor_id stem(struct nn_builder *b, const struct resnet *r, tensor_id x)
{
    x = conv(b, r, "conv1", x, r->planes, r->stem == STEM_IMAGENET ? 7 : 3,
             r->stem == STEM_IMAGENET ? 2 : 1);
    x = nn_activate(b, NN_RELU, nn_batch_norm(b, "bn1", x, 0, 0));
    return r->stem == STEM_CIFAR ? x : nn_max_pool(b, x, 3, 2, 1);
}

static size_t build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                    struct nn_output *out)
{
    const struct resnet *r = (const void *)config->bytes;
    tensor_id x = stem(b, r, in[0]);
    for (int64_t s = 0; s < r->blocks.count; s++)
        for (int64_t k = 0; k < r->blocks.v[s]; k++) {
            nn_push(b, "layer%" PRId64 ".%" PRId64, s + 1, k);
            x = block(b, r, x, r->planes << s, s && !k ? 2 : 1);
            nn_pop(b);
        }
    x = nn_global_pool(b, x);
    struct nn_dense d = {.out = r->image.classes};
    if (r->rule == RULE_FAN_IN)
        d.init = nn_init_kaiming(nn_dim(b, x, 1));
    x = nn_linear(b, r->stem == STEM_CIFAR ? "linear" : "fc", x, &d);
    return nn_classes(b, out, "logits", x, "cross_entropy");
}

static enum ebb_status check(const struct nn_config *config, struct ebb_error *err)
{
    const struct resnet *r = (const void *)config->bytes;
    if (r->blocks.count > 8)
        return ebb_fail(err, EBB_EINPUT,
                        "model.blocks: found %" PRId64 " stages, allowed are at most 8",
                        r->blocks.count);
    return EBB_OK;
}

static const struct ebb_key options[] = {
    NN_IMAGE_OPTIONS(resnet),
    NN_OPTION_INTS(resnet, blocks, 1, 1000, "residual blocks of each stage"),
    NN_OPTION_INT(resnet, planes, 1, 4096, "channels of the first stage; each stage doubles them"),
    NN_OPTION_NAME(resnet, stem, stem_names, "what comes before the stages"),
    NN_OPTION_NAME(resnet, block, block_names, "kind of residual block"),
};

#define ROW(text, about, defaults_, ...)                                                           \
    NN_CHECKED(text, NN_IMAGE_CLASSIFICATION, about, options, resnet, check, nn_image_inputs,      \
               build, defaults_, __VA_ARGS__)
#define CIFAR(m)                                                                                   \
    (&(const struct resnet){.image = {3, 32, 32, 10},                                              \
                            .blocks = {{m, m, m}, 3},                                              \
                            .planes = 16,                                                          \
                            .stem = STEM_CIFAR,                                                    \
                            .block = BLOCK_BASIC,                                                  \
                            .rule = RULE_FAN_IN})
#define IMAGENET(stem_, block_, rule_, ...)                                                        \
    (&(const struct resnet){.image = {3, 224, 224, 1000},                                          \
                            .blocks = {{__VA_ARGS__}, 4},                                          \
                            .planes = 64,                                                          \
                            .stem = stem_,                                                         \
                            .block = block_,                                                       \
                            .rule = rule_})

static const struct nn_model rows[] = {
    ROW("cifar_resnet20", "ResNet for small images, 20 layers", CIFAR(3), "resnet20", NULL),
    ROW("cifar_resnet32", "ResNet for small images, 32 layers", CIFAR(5), "resnet32", NULL),
    ROW("cifar_resnet44", "ResNet for small images, 44 layers", CIFAR(7), "resnet44", NULL),
    ROW("cifar_resnet56", "ResNet for small images, 56 layers", CIFAR(9), "resnet56", NULL),
    ROW("cifar_resnet110", "ResNet for small images, 110 layers", CIFAR(18), "resnet110", NULL),
    ROW("cifar_resnet1202", "ResNet for small images, 1202 layers", CIFAR(200), "resnet1202", NULL),
    ROW("resnet18", "ResNet-18", IMAGENET(STEM_IMAGENET, BLOCK_BASIC, RULE_FAN_OUT, 2, 2, 2, 2),
        "tv_resnet18", NULL),
    ROW("resnet34", "ResNet-34", IMAGENET(STEM_IMAGENET, BLOCK_BASIC, RULE_FAN_OUT, 3, 4, 6, 3),
        "tv_resnet34", NULL),
    ROW("resnet50", "ResNet-50",
        IMAGENET(STEM_IMAGENET, BLOCK_BOTTLENECK, RULE_FAN_OUT, 3, 4, 6, 3), "tv_resnet50", NULL),
    ROW("resnet101", "ResNet-101",
        IMAGENET(STEM_IMAGENET, BLOCK_BOTTLENECK, RULE_FAN_OUT, 3, 4, 23, 3), "tv_resnet101", NULL),
    ROW("resnet152", "ResNet-152",
        IMAGENET(STEM_IMAGENET, BLOCK_BOTTLENECK, RULE_FAN_OUT, 3, 8, 36, 3), "tv_resnet152", NULL),
    ROW("resnet50_epcc", "ResNet-50 with the benchmark's 3x3 stem: four times the work",
        IMAGENET(STEM_EPCC, BLOCK_BOTTLENECK, RULE_DEFAULT, 3, 4, 6, 3), NULL),
};

const struct nn_family nn_resnet_family = {rows, sizeof rows / sizeof *rows};
