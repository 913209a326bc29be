/* segment.c - the Keras segmentation set: U-Net, SegNet and FCN-8 on a plain or a VGG encoder. */
#include <inttypes.h>
#include <stdio.h>

#include "nn/internal.h"

#define LEVELS 5

struct segment {
    struct nn_image image;
    int64_t planes, hidden;
    double dropout;
    bool is_vgg, unpool, full;
};

/* ---- encoders: features after each of five poolings ----------------------------------------- */

static tensor_id conv(struct nn_builder *b, const char *name, tensor_id x, int64_t out, int64_t k)
{
    return nn_convolution(
        b, name, x,
        &(struct nn_conv){.out = out, .k = {k}, .pad = {k / 2, k / 2}, .has_bias = true});
}

static int64_t level_planes(const struct segment *s, int level)
{
    int most = s->is_vgg ? 3 : 2;
    return s->planes << (level < most ? level : most);
}

static tensor_id level(struct nn_builder *b, const struct segment *s, tensor_id x, int i)
{
    static const int depth[LEVELS] = {2, 2, 3, 3, 3};
    char name[32];
    if (!s->is_vgg) {
        x = conv(b, "conv", x, level_planes(s, i), 3);
        return nn_activate(b, NN_RELU, nn_batch_norm(b, "bn", x, 0, 0));
    }
    for (int k = 0; k < depth[i]; k++) {
        snprintf(name, sizeof name, "conv%d", k + 1);
        x = nn_activate(b, NN_RELU, conv(b, name, x, level_planes(s, i), 3));
    }
    return x;
}

/* Weights of a level that the decoder does not use: in the list, but no op reads them. */
static void declare_level(struct nn_builder *b, const struct segment *s, int i)
{
    static const char *const vgg[] = {"conv1", "conv2", "conv3"};
    int64_t in = level_planes(s, i - 1), out = level_planes(s, i);
    for (int k = 0; k < (s->is_vgg ? 3 : 1); k++) {
        int64_t dims[4] = {out, k ? out : in, 3, 3};
        nn_push(b, "%s", s->is_vgg ? vgg[k] : "conv");
        nn_parameter(b, "weight", NN_WEIGHT, 4, dims, nn_init_default(dims[1] * 9));
        nn_parameter(b, "bias", NN_BIAS, 1, dims, nn_init_default(dims[1] * 9));
        nn_pop(b);
    }
    if (s->is_vgg)
        return;
    nn_push(b, "bn");
    nn_parameter(b, "weight", NN_NORM, 1, &out, nn_init_constant(1));
    nn_parameter(b, "bias", NN_NORM, 1, &out, nn_init_constant(0));
    nn_buffer(b, "running_mean", TENSOR_F32, 1, &out, 0);
    nn_buffer(b, "running_var", TENSOR_F32, 1, &out, 1);
    nn_buffer(b, "num_batches_tracked", TENSOR_I64, 0, NULL, 0);
    nn_pop(b);
}

struct encoded {
    tensor_id f[LEVELS];     /* after the pooling */
    tensor_id index[LEVELS]; /* winners, for unpooling */
};

static void encode(struct nn_builder *b, const struct segment *s, tensor_id x, int used,
                   struct encoded *e)
{
    for (int i = 0; i < LEVELS; i++) {
        nn_push(b, "encoder.block%d", i + 1);
        if (i < used) {
            tensor_id y = level(b, s, x, i);
            tensor_id pooled[TENSOR_PORTS] = {TENSOR_NONE, TENSOR_NONE};
            e->f[i] = x = nn_op(b, "max_pool2d", 1, &y, pooled, "{\"kernel\":2,\"stride\":2}");
            e->index[i] = pooled[1];
        } else {
            declare_level(b, s, i);
        }
        nn_pop(b);
    }
}

/* ---- decoders ------------------------------------------------------------------------------- */

static tensor_id step(struct nn_builder *b, int i, tensor_id x, int64_t out)
{
    nn_push(b, "decoder.block%d", i);
    x = nn_batch_norm(b, "bn", conv(b, "conv", x, out, 3), 0, 0);
    return nn_leave(b, x);
}

static tensor_id double_size(struct nn_builder *b, tensor_id x)
{
    return nn_op(b, "upsample_nearest2d", 1, &x, NULL, "{\"scale\":2}");
}

/* Where the size of the images is wanted, a smaller result is doubled, then cut. */
static size_t finish(struct nn_builder *b, const struct segment *s, tensor_id x,
                     struct nn_output *out)
{
    const int64_t want[2] = {s->image.height, s->image.width};
    if (s->full && (nn_dim(b, x, 2) < want[0] || nn_dim(b, x, 3) < want[1]))
        x = double_size(b, x);
    for (int d = 0; s->full && d < 2; d++)
        if (nn_dim(b, x, d + 2) > want[d])
            x = nn_slice(b, x, d + 2, 0, want[d]);
    return nn_classes(b, out, "logits", x, "cross_entropy");
}

static size_t build_unet(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                         struct nn_output *out)
{
    const struct segment *s = (const void *)config->bytes;
    struct encoded e;
    encode(b, s, in[0], 4, &e);
    tensor_id x = step(b, 1, e.f[3], 8 * s->planes);
    for (int i = 0; i < 3; i++) {
        x = nn_cat(b, 2, (tensor_id[]){double_size(b, x), e.f[2 - i]}, 1);
        x = step(b, i + 2, x, 4 * s->planes >> i);
    }
    return finish(b, s, conv(b, "classifier", x, s->image.classes, 3), out);
}

/* Unpooling puts values where the maxima were, so channels go back as they came. */
static tensor_id unpool(struct nn_builder *b, tensor_id x, tensor_id index)
{
    return nn_op(b, "max_unpool2d", 2, (tensor_id[]){x, index}, NULL,
                 "{\"kernel\":2,\"stride\":2}");
}

static size_t build_segnet(struct nn_builder *b, const struct nn_config *config,
                           const tensor_id *in, struct nn_output *out)
{
    const struct segment *s = (const void *)config->bytes;
    struct encoded e;
    encode(b, s, in[0], 4, &e);
    tensor_id x = step(b, 1, e.f[3], s->unpool ? level_planes(s, 3) : 8 * s->planes);
    for (int i = 0; i < 3; i++) {
        x = s->unpool ? unpool(b, x, e.index[3 - i]) : double_size(b, x);
        x = step(b, i + 2, x, s->unpool ? level_planes(s, 2 - i) : 4 * s->planes >> i);
    }
    return finish(b, s, conv(b, "classifier", x, s->image.classes, 3), out);
}

/* Both cut to the smaller size, then added. */
static tensor_id add_cropped(struct nn_builder *b, tensor_id x, tensor_id y)
{
    for (int d = 2; d < 4; d++) {
        int64_t nx = nn_dim(b, x, d), ny = nn_dim(b, y, d), n = nx < ny ? nx : ny;
        if (nx > n)
            x = nn_slice(b, x, d, 0, n);
        if (ny > n)
            y = nn_slice(b, y, d, 0, n);
    }
    return nn_add(b, x, y);
}

static tensor_id enlarge(struct nn_builder *b, const char *name, tensor_id x, int64_t k, int64_t by)
{
    return nn_convolution(
        b, name, x,
        &(struct nn_conv){.out = nn_dim(b, x, 1), .k = {k}, .stride = {by}, .is_transposed = true});
}

static size_t build_fcn8(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                         struct nn_output *out)
{
    const struct segment *s = (const void *)config->bytes;
    int64_t classes = s->image.classes;
    struct encoded e;
    encode(b, s, in[0], 5, &e);
    tensor_id x = nn_activate(b, NN_RELU, conv(b, "conv6", e.f[4], s->hidden, 7));
    x = nn_dropout(b, x, s->dropout);
    x = nn_activate(b, NN_RELU, conv(b, "conv7", x, s->hidden, 1));
    x = nn_dropout(b, x, s->dropout);
    x = enlarge(b, "up5", conv(b, "score5", x, classes, 1), 4, 2);
    x = add_cropped(b, x, conv(b, "score4", e.f[3], classes, 1));
    x = enlarge(b, "up4", x, 4, 2);
    x = add_cropped(b, x, conv(b, "score3", e.f[2], classes, 1));
    return finish(b, s, enlarge(b, "up3", x, 16, 8), out);
}

static const struct ebb_key options[] = {
    NN_IMAGE_OPTIONS(segment),
    NN_OPTION_INT(segment, planes, 1, 4096, "channels of the first level"),
    NN_OPTION_BOOL(segment, full, "result of the images' size; false: as the origin has it"),
};
static const struct ebb_key segnet_options[] = {
    NN_IMAGE_OPTIONS(segment),
    NN_OPTION_INT(segment, planes, 1, 4096, "channels of the first level"),
    NN_OPTION_BOOL(segment, unpool, "unpool with the stored winners, as the paper does"),
    NN_OPTION_BOOL(segment, full, "result of the images' size; false: as the origin has it"),
};
static const struct ebb_key fcn_options[] = {
    NN_IMAGE_OPTIONS(segment),
    NN_OPTION_INT(segment, planes, 1, 4096, "channels of the first level"),
    NN_OPTION_INT(segment, hidden, 1, 65536, "channels of the two wide layers"),
    NN_OPTION_FLOAT(segment, dropout, 0, 0.999, "share of units left out in training"),
    NN_OPTION_BOOL(segment, full, "result of the images' size; false: as the origin has it"),
};
#define ROW(text, about, list, build_, vgg, ...)                                                   \
    NN_MODEL(text, NN_SEGMENTATION, about, list, segment, nn_image_inputs, build_,                 \
             (&(const struct segment){.image = {3, 416, 608, 19},                                  \
                                      .planes = 64,                                                \
                                      .hidden = 4096,                                              \
                                      .dropout = 0.5,                                              \
                                      .is_vgg = vgg}),                                             \
             __VA_ARGS__)

static const struct nn_model rows[] = {
    ROW("vgg_unet", "U-Net decoder on a VGG-16 encoder, half resolution", options, build_unet, true,
        NULL),
    ROW("unet_vanilla", "U-Net decoder on a plain encoder, half resolution", options, build_unet,
        false, NULL),
    ROW("segnet", "SegNet decoder on a plain encoder, half resolution", segnet_options,
        build_segnet, false, NULL),
    ROW("vgg_segnet", "SegNet decoder on a VGG-16 encoder, half resolution", segnet_options,
        build_segnet, true, NULL),
    ROW("fcn8", "FCN-8 on a plain encoder", fcn_options, build_fcn8, false, "fcn_8", NULL),
    ROW("fcn8_vgg", "FCN-8 on a VGG-16 encoder", fcn_options, build_fcn8, true, "fcn_8_vgg", NULL),
};

const struct nn_family nn_segment_family = {rows, sizeof rows / sizeof *rows};
