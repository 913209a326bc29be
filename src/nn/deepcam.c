/* deepcam.c - DeepCAM: DeepLabv3+ on an Xception encoder, output stride 16. */
#include <inttypes.h>
#include <stdio.h>

#include "nn/internal.h"

struct deepcam {
    struct nn_image image;
    int64_t shrink, middle; /* divides every channel count; blocks of the middle flow */
};

static int64_t ch(const struct deepcam *m, int64_t channels)
{
    int64_t c = channels / m->shrink;
    return c < 1 ? 1 : c;
}

/* ---- pieces --------------------------------------------------------------------------------- */

static tensor_id conv(struct nn_builder *b, const char *name, tensor_id x, int64_t out, int64_t k,
                      int64_t stride, int64_t dilation)
{
    int64_t pad = k / 2 * dilation;
    return nn_convolution(b, name, x,
                          &(struct nn_conv){.out = out,
                                            .k = {k},
                                            .stride = {stride},
                                            .pad = {pad, pad},
                                            .dilation = {dilation},
                                            .init = nn_init_kaiming(nn_dim(b, x, 1) * k * k)});
}

/* Depthwise 3x3, then pointwise; no norm between. */
static tensor_id separable(struct nn_builder *b, const char *name, tensor_id x, int64_t out,
                           int64_t stride, int64_t dilation)
{
    int64_t in = nn_dim(b, x, 1);
    nn_push(b, "%s", name);
    x = nn_convolution(b, "conv1", x,
                       &(struct nn_conv){.out = in,
                                         .k = {3},
                                         .stride = {stride},
                                         .pad = {dilation, dilation},
                                         .dilation = {dilation},
                                         .groups = in,
                                         .init = nn_init_kaiming(9)});
    x = conv(b, "pointwise", x, out, 1, 1, 1);
    return nn_leave(b, x);
}

struct block {
    int64_t out, stride;
    int reps;
    bool grows_last, is_last;
};

static tensor_id block(struct nn_builder *b, const char *name, tensor_id x, const struct block *k)
{
    int64_t in = nn_dim(b, x, 1);
    char text[16];
    tensor_id skip = x;
    int at = 0;
    nn_push(b, "%s", name);
    if (in != k->out || k->stride != 1)
        skip = nn_batch_norm(b, "skipbn", conv(b, "skip", x, k->out, 1, k->stride, 1), 0, 0);
    nn_push(b, "rep");
    for (int i = 0; i < k->reps; i++) {
        snprintf(text, sizeof text, "%d", at++);
        x = separable(b, text, x, k->grows_last && i + 1 < k->reps ? in : k->out, 1, 1);
        snprintf(text, sizeof text, "%d", at++);
        x = nn_batch_norm(b, text, x, 0, 0);
        if (i + 1 < k->reps) {
            x = nn_activate(b, NN_RELU, x);
            at++;
        }
    }
    if (k->stride != 1 || k->is_last) {
        snprintf(text, sizeof text, "%d", at);
        x = separable(b, text, x, k->out, k->stride, 1);
    }
    nn_pop(b);
    nn_pop(b);
    return nn_add(b, x, skip);
}

/* ---- the network ---------------------------------------------------------------------------- */

static tensor_id encoder(struct nn_builder *b, const struct deepcam *m, tensor_id x, tensor_id *low)
{
    static const int16_t exits[] = {1536, 1536, 2048};
    char conv_name[32], norm_name[32];
    nn_push(b, "xception_features");
    x = nn_norm_relu(b, "bn1", conv(b, "conv1", x, ch(m, 32), 3, 2, 1));
    x = nn_norm_relu(b, "bn2", conv(b, "conv2", x, ch(m, 64), 3, 1, 1));
    *low = block(b, "block1", x, &(struct block){.out = ch(m, 128), .stride = 2, .reps = 2});
    x = nn_activate(b, NN_RELU, *low);
    x = block(b, "block2", x, &(struct block){.out = ch(m, 256), .stride = 2, .reps = 2});
    x = nn_activate(b, NN_RELU, x);
    x = block(b, "block3", x, &(struct block){.out = ch(m, 728), .stride = 2, .reps = 2});
    x = nn_activate(b, NN_RELU, x);
    for (int64_t i = 0; i < m->middle; i++) {
        snprintf(conv_name, sizeof conv_name, "block%" PRId64, i + 4);
        x = block(b, conv_name, x, &(struct block){.out = ch(m, 728), .stride = 1, .reps = 3});
        x = nn_activate(b, NN_RELU, x);
    }
    snprintf(conv_name, sizeof conv_name, "block%" PRId64, m->middle + 4);
    x = block(b, conv_name, x,
              &(struct block){
                  .out = ch(m, 1024), .stride = 1, .reps = 2, .grows_last = true, .is_last = true});
    for (int i = 0; i < 3; i++) {
        snprintf(conv_name, sizeof conv_name, "conv%d", i + 3);
        snprintf(norm_name, sizeof norm_name, "bn%d", i + 3);
        x = nn_norm_relu(b, norm_name, separable(b, conv_name, x, ch(m, exits[i]), 1, 2));
    }
    return nn_leave(b, x);
}

static tensor_id pyramid(struct nn_builder *b, const struct deepcam *m, tensor_id x)
{
    static const int rates[] = {1, 6, 12, 18};
    tensor_id parts[5];
    int64_t width = ch(m, 256), h = nn_dim(b, x, 2), w = nn_dim(b, x, 3), one[3] = {width, 1, 1};
    for (int i = 0; i < 4; i++) {
        nn_push(b, "aspp%d", i + 1);
        parts[i] =
            nn_norm_relu(b, "bn", conv(b, "atrous_convolution", x, width, i ? 3 : 1, 1, rates[i]));
        nn_pop(b);
    }
    nn_push(b, "global_avg_pool");
    tensor_id g = nn_op(b, "adaptive_avg_pool2d", 1, &x, NULL, "{\"output_size\":[1,1]}");
    g = conv(b, "conv", g, width, 1, 1, 1);
    g = nn_mul(b, g, nn_parameter(b, "weight", NN_NORM, 3, one, nn_init_constant(1)));
    g = nn_add(b, g, nn_parameter(b, "bias", NN_NORM, 3, one, nn_init_constant(0)));
    g = nn_activate(b, NN_RELU, g);
    parts[4] = nn_op(b, "tile", 1, &g, NULL, "{\"reps\":[1,1,%" PRId64 ",%" PRId64 "]}", h, w);
    nn_pop(b);
    x = conv(b, "conv1", nn_cat(b, 5, parts, 1), width, 1, 1, 1);
    return nn_norm_relu(b, "bn1", x);
}

static tensor_id transposed(struct nn_builder *b, const char *name, tensor_id x, int64_t out)
{
    return nn_convolution(b, name, x,
                          &(struct nn_conv){.out = out,
                                            .k = {3},
                                            .stride = {2},
                                            .pad = {1, 1},
                                            .output_padding = 1,
                                            .is_transposed = true,
                                            .init = nn_init_kaiming(9 * out)});
}

static tensor_id decoder(struct nn_builder *b, const struct deepcam *m, tensor_id x, tensor_id low)
{
    int64_t width = ch(m, 256);
    nn_push(b, "upsample");
    x = nn_norm_relu(b, "bn1", transposed(b, "deconv1", x, width));
    x = nn_norm_relu(b, "bn2", transposed(b, "deconv2", x, width));
    x = nn_cat(b, 2, (tensor_id[]){x, low}, 1);
    x = nn_norm_relu(b, "bn3", conv(b, "conv1", x, width, 3, 1, 1));
    x = nn_norm_relu(b, "bn4", conv(b, "conv2", x, width, 3, 1, 1));
    x = nn_convolution(
        b, "conv3", x,
        &(struct nn_conv){.out = width, .has_bias = true, .init = nn_init_kaiming(width)});
    x = nn_norm_relu(b, "bn5", transposed(b, "deconv3", x, width));
    x = transposed(b, "last_deconv", x, m->image.classes);
    return nn_leave(b, x);
}

static enum ebb_status check(const struct nn_config *config, struct ebb_error *err)
{
    const struct deepcam *m = (const void *)config->bytes;
    if (m->image.height % 16 || m->image.width % 16)
        return ebb_fail(err, EBB_EINPUT,
                        "model.height, model.width: found %" PRId64 " x %" PRId64
                        ", allowed are multiples of 16",
                        m->image.height, m->image.width);
    return EBB_OK;
}

static size_t build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                    struct nn_output *out)
{
    const struct deepcam *m = (const void *)config->bytes;
    tensor_id low, x = pyramid(b, m, encoder(b, m, in[0], &low));
    low = nn_norm_relu(b, "bn2", conv(b, "conv2", low, ch(m, 48), 1, 1, 1));
    return nn_classes(b, out, "logits", decoder(b, m, x, low), "cross_entropy");
}

static const struct ebb_key options[] = {
    NN_IMAGE_OPTIONS(deepcam),
    NN_OPTION_INT(deepcam, shrink, 1, 64, "divides every channel count, for small tests"),
    NN_OPTION_INT(deepcam, middle, 0, 64, "blocks of the middle flow"),
};

static const struct nn_model rows[] = {
    NN_CHECKED("deepcam", NN_SEGMENTATION,
               "DeepCAM: DeepLabv3+ on Xception, 16 climate channels, 3 classes", options, deepcam,
               check, nn_image_inputs, build,
               (&(const struct deepcam){.image = {16, 768, 1152, 3}, .shrink = 1, .middle = 16}),
               NULL),
};

const struct nn_family nn_deepcam_family = {rows, sizeof rows / sizeof *rows};
