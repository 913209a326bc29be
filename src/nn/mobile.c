/* mobile.c - networks of depthwise convolutions: MobileNet v1 and v2, MNASNet, ShuffleNet v2. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "nn/internal.h"

struct mobile {
    struct nn_image image;
    int64_t shrink; /* divides every channel count */
    double dropout;
    bool is_keras; /* v1: asymmetric pads for stride 2, eps 1e-3, momentum 0.01 */
};

struct part { /* conv, batch norm, activation */
    int64_t out, k, stride, groups;
    enum nn_act act;
    double eps, momentum;
    bool is_asymmetric, is_default; /* torch's own init */
};

static int64_t ch(const struct mobile *m, int64_t channels)
{
    int64_t c = channels / m->shrink;
    return c < 1 ? 1 : c;
}

static tensor_id part(struct nn_builder *b, const char *conv, const char *norm, tensor_id x,
                      struct part p)
{
    int64_t k = p.k ? p.k : 1, groups = p.groups ? p.groups : 1;
    struct nn_conv c = {
        .out = p.out, .k = {k}, .stride = {p.stride}, .pad = {k / 2, k / 2}, .groups = groups};
    if (!p.is_default)
        c.init = nn_init_kaiming(p.out * k * k); /* fan_out as torch counts it, groups or not */
    if (p.is_asymmetric) {
        c.pad[0] = c.pad[1] = 0;
        x = nn_op(b, "pad", 1, &x, NULL, "{\"pad\":[0,1,0,1]}");
    }
    x = nn_convolution(b, conv, x, &c);
    return nn_activate(b, p.act, nn_batch_norm(b, norm, x, p.eps, p.momentum));
}

static size_t head(struct nn_builder *b, const struct mobile *m, const char *name, tensor_id x,
                   struct nn_dense d, struct nn_output *out)
{
    x = nn_dropout(b, nn_global_pool(b, x), m->dropout);
    d.out = m->image.classes;
    return nn_classes(b, out, "logits", nn_linear(b, name, x, &d), "cross_entropy");
}

/* ---- v1 ------------------------------------------------------------------------------------- */

static size_t build_v1(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                       struct nn_output *out)
{
    const struct mobile *m = (const void *)config->bytes;
    static const int16_t pairs[13][2] = {{64, 1},  {128, 2},  {128, 1}, {256, 2}, {256, 1},
                                         {512, 2}, {512, 1},  {512, 1}, {512, 1}, {512, 1},
                                         {512, 1}, {1024, 2}, {1024, 1}};
    struct part p = {.out = ch(m, 32), .k = 3, .stride = 2, .act = NN_RELU6, .is_default = true};
    if (m->is_keras) {
        p.eps = 1e-3;
        p.momentum = 0.01;
        p.is_asymmetric = true;
    }
    nn_push(b, "features");
    nn_push(b, "0");
    tensor_id x = part(b, "0", "1", in[0], p);
    nn_pop(b);
    for (int i = 0; i < 13; i++) {
        nn_push(b, "%d", i + 1);
        p.k = 3;
        p.groups = p.out = nn_dim(b, x, 1);
        p.stride = pairs[i][1];
        p.is_asymmetric = m->is_keras && p.stride == 2;
        x = part(b, "0", "1", x, p);
        p.k = p.groups = p.stride = 1;
        p.is_asymmetric = false;
        p.out = ch(m, pairs[i][0]);
        x = part(b, "3", "4", x, p);
        nn_pop(b);
    }
    nn_pop(b);
    return head(b, m, "classifier", x, (struct nn_dense){.out = 0}, out);
}

/* ---- v2 ------------------------------------------------------------------------------------- */

/* torchvision nests [conv, norm, activation] inside the block's list. */
static tensor_id nested(struct nn_builder *b, int index, tensor_id x, struct part p)
{
    nn_push(b, "%d", index);
    x = part(b, "0", "1", x, p);
    return nn_leave(b, x);
}

static tensor_id inverted(struct nn_builder *b, tensor_id x, int64_t out, int64_t stride,
                          int64_t expand)
{
    int64_t in = nn_dim(b, x, 1), wide = in * expand;
    int at = 0;
    char conv[8], norm[8];
    tensor_id y = x;
    nn_push(b, "conv");
    if (expand != 1)
        y = nested(b, at++, y, (struct part){.out = wide, .act = NN_RELU6});
    y = nested(
        b, at++, y,
        (struct part){.out = wide, .k = 3, .stride = stride, .groups = wide, .act = NN_RELU6});
    snprintf(conv, sizeof conv, "%d", at);
    snprintf(norm, sizeof norm, "%d", at + 1);
    y = part(b, conv, norm, y, (struct part){.out = out});
    nn_pop(b);
    return stride == 1 && in == out ? nn_add(b, x, y) : y;
}

static size_t build_v2(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                       struct nn_output *out)
{
    const struct mobile *m = (const void *)config->bytes;
    static const int16_t table[7][4] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                        {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    int at = 0;
    nn_push(b, "features");
    tensor_id x = nested(b, at++, in[0],
                         (struct part){.out = ch(m, 32), .k = 3, .stride = 2, .act = NN_RELU6});
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < table[i][2]; k++) {
            nn_push(b, "%d", at++);
            x = inverted(b, x, ch(m, table[i][1]), k ? 1 : table[i][3], table[i][0]);
            nn_pop(b);
        }
    x = nested(b, at, x, (struct part){.out = ch(m, 1280), .act = NN_RELU6});
    nn_pop(b);
    nn_push(b, "classifier");
    size_t n = head(
        b, m, "1", x,
        (struct nn_dense){.init = nn_init_normal(0.01), .bias_init = nn_init_constant(0)}, out);
    nn_pop(b);
    return n;
}

/* ---- MNASNet -------------------------------------------------------------------------------- */

static tensor_id mnas_block(struct nn_builder *b, tensor_id x, int64_t out, int64_t k,
                            int64_t stride, int64_t expand)
{
    int64_t in = nn_dim(b, x, 1), wide = in * expand;
    struct part p = {.out = wide, .act = NN_RELU, .momentum = 0.0003};
    nn_push(b, "layers");
    tensor_id y = part(b, "0", "1", x, p);
    p.k = k;
    p.stride = stride;
    p.groups = wide;
    y = part(b, "3", "4", y, p);
    y = part(b, "6", "7", y, (struct part){.out = out, .momentum = 0.0003});
    nn_pop(b);
    return stride == 1 && in == out ? nn_add(b, y, x) : y;
}

static size_t build_mnasnet(struct nn_builder *b, const struct nn_config *config,
                            const tensor_id *in, struct nn_output *out)
{
    const struct mobile *m = (const void *)config->bytes;
    static const int16_t stacks[6][5] = {/* out, k, stride, expand, repeats */
                                         {24, 3, 2, 3, 3}, {40, 5, 2, 3, 3},  {80, 5, 2, 6, 3},
                                         {96, 3, 1, 6, 2}, {192, 5, 2, 6, 4}, {320, 3, 1, 6, 1}};
    struct part p = {.out = ch(m, 32), .k = 3, .stride = 2, .act = NN_RELU, .momentum = 0.0003};
    nn_push(b, "layers");
    tensor_id x = part(b, "0", "1", in[0], p);
    p.stride = 1;
    p.groups = ch(m, 32);
    x = part(b, "3", "4", x, p);
    x = part(b, "6", "7", x, (struct part){.out = ch(m, 16), .momentum = 0.0003});
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < stacks[i][4]; k++) {
            nn_push(b, "%d.%d", i + 8, k);
            x = mnas_block(b, x, ch(m, stacks[i][0]), stacks[i][1], k ? 1 : stacks[i][2],
                           stacks[i][3]);
            nn_pop(b);
        }
    x = part(b, "14", "15", x,
             (struct part){.out = ch(m, 1280), .act = NN_RELU, .momentum = 0.0003});
    nn_pop(b);
    nn_push(b, "classifier");
    struct nn_dense d = {.init = nn_init_uniform((float)sqrt(3.0 / (double)m->image.classes)),
                         .bias_init = nn_init_constant(0)};
    size_t n = head(b, m, "1", x, d, out);
    nn_pop(b);
    return n;
}

/* ---- ShuffleNet v2 -------------------------------------------------------------------------- */

static tensor_id shuffle_branch(struct nn_builder *b, tensor_id x, int64_t out, int64_t stride)
{
    struct part point = {.out = out, .act = NN_RELU, .is_default = true};
    struct part deep = {.out = out, .k = 3, .stride = stride, .groups = out, .is_default = true};
    nn_push(b, "branch2");
    x = part(b, "0", "1", x, point);
    x = part(b, "3", "4", x, deep);
    x = part(b, "5", "6", x, point);
    return nn_leave(b, x);
}

static tensor_id shuffle_block(struct nn_builder *b, tensor_id x, int64_t out, int64_t stride)
{
    int64_t in = nn_dim(b, x, 1), half = out / 2;
    tensor_id parts[2];
    if (stride == 1) {
        parts[0] = nn_slice(b, x, 1, 0, half);
        parts[1] = shuffle_branch(b, nn_slice(b, x, 1, half, out), half, 1);
    } else {
        nn_push(b, "branch1");
        tensor_id y = part(
            b, "0", "1", x,
            (struct part){.out = in, .k = 3, .stride = stride, .groups = in, .is_default = true});
        parts[0] =
            part(b, "2", "3", y, (struct part){.out = half, .act = NN_RELU, .is_default = true});
        nn_pop(b);
        parts[1] = shuffle_branch(b, x, half, stride);
    }
    x = nn_cat(b, 2, parts, 1);
    return nn_op(b, "channel_shuffle", 1, &x, NULL, "{\"groups\":2}");
}

static size_t build_shufflenet(struct nn_builder *b, const struct nn_config *config,
                               const tensor_id *in, struct nn_output *out)
{
    const struct mobile *m = (const void *)config->bytes;
    static const int16_t stages[3][2] = {{116, 4}, {232, 8}, {464, 4}};
    nn_push(b, "conv1");
    tensor_id x = part(
        b, "0", "1", in[0],
        (struct part){.out = ch(m, 24), .k = 3, .stride = 2, .act = NN_RELU, .is_default = true});
    nn_pop(b);
    x = nn_max_pool(b, x, 3, 2, 1);
    for (int s = 0; s < 3; s++)
        for (int k = 0; k < stages[s][1]; k++) {
            nn_push(b, "stage%d.%d", s + 2, k);
            x = shuffle_block(b, x, 2 * ch(m, stages[s][0] / 2), k ? 1 : 2);
            nn_pop(b);
        }
    nn_push(b, "conv5");
    x = part(b, "0", "1", x, (struct part){.out = ch(m, 1024), .act = NN_RELU, .is_default = true});
    nn_pop(b);
    return head(b, m, "fc", x, (struct nn_dense){.out = 0}, out);
}

static const struct ebb_key v1_options[] = {
    NN_IMAGE_OPTIONS(mobile),
    NN_OPTION_INT(mobile, shrink, 1, 64, "divides every channel count, for small tests"),
    EBB_KEY_ROW(struct mobile, "keras", BOOL, is_keras,
                "asymmetric padding at stride 2, batch norm eps 1e-3, momentum 0.01", .flags = 0),
};
static const struct ebb_key options[] = {
    NN_IMAGE_OPTIONS(mobile),
    NN_OPTION_INT(mobile, shrink, 1, 64, "divides every channel count, for small tests"),
    NN_OPTION_FLOAT(mobile, dropout, 0, 0.999, "share of features left out in training"),
};
#define ROW(text, about, list, build_, dropout_, ...)                                              \
    NN_MODEL(                                                                                      \
        text, NN_IMAGE_CLASSIFICATION, about, list, mobile, nn_image_inputs, build_,               \
        (&(const struct mobile){.image = {3, 224, 224, 1000}, .shrink = 1, .dropout = dropout_}),  \
        __VA_ARGS__)

static const struct nn_model rows[] = {
    ROW("mobilenet_v1", "MobileNet v1", v1_options, build_v1, 0.0, "MobileNet", NULL),
    ROW("mobilenet_v2", "MobileNet v2", options, build_v2, 0.2, "MobileNetV2", NULL),
    ROW("mnasnet1_0", "MNASNet 1.0", options, build_mnasnet, 0.2, "mnasnet", NULL),
    ROW("shufflenet_v2_x1_0", "ShuffleNet v2 1.0x", options, build_shufflenet, 0.0, "shufflenet_v2",
        NULL),
};

const struct nn_family nn_mobile_family = {rows, sizeof rows / sizeof *rows};
