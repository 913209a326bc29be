/* unet.c - U-Net: a tower down, a tower up, and the features of the way down handed across. */
#include <inttypes.h>

#include "nn/internal.h"

#define MAX_DEPTH 6

struct unet {
    struct nn_image image;
    int64_t planes, depth;
    bool bilinear;
};

static tensor_id double_conv(struct nn_builder *b, tensor_id x, int64_t middle, int64_t out)
{
    static const char *const names[2][2] = {{"0", "1"}, {"3", "4"}};
    nn_push(b, "double_conv");
    for (int k = 0; k < 2; k++) {
        x = nn_convolution(
            b, names[k][0], x,
            &(struct nn_conv){.out = k ? out : middle, .k = {3}, .pad = {1, 1}, .has_bias = true});
        x = nn_activate(b, NN_RELU, nn_batch_norm(b, names[k][1], x, 0, 0));
    }
    return nn_leave(b, x);
}

/* Zeros around x until it has the size of `like`. */
static tensor_id pad_to(struct nn_builder *b, tensor_id x, tensor_id like)
{
    int64_t dh = nn_dim(b, like, 2) - nn_dim(b, x, 2), dw = nn_dim(b, like, 3) - nn_dim(b, x, 3);
    if (!dh && !dw)
        return x;
    return nn_op(b, "pad", 1, &x, NULL,
                 "{\"pad\":[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]}", dw / 2, dw - dw / 2,
                 dh / 2, dh - dh / 2);
}

static tensor_id up(struct nn_builder *b, const struct unet *u, tensor_id x, tensor_id skip,
                    int64_t out)
{
    int64_t in = nn_dim(b, x, 1);
    if (u->bilinear)
        x = nn_op(b, "upsample_bilinear2d", 1, &x, NULL, "{\"scale\":2,\"align_corners\":true}");
    else
        x = nn_convolution(
            b, "up", x,
            &(struct nn_conv){
                .out = in / 2, .k = {2}, .stride = {2}, .is_transposed = true, .has_bias = true});
    x = nn_cat(b, 2, (tensor_id[]){skip, pad_to(b, x, skip)}, 1);
    nn_push(b, "conv");
    x = double_conv(b, x, u->bilinear ? nn_dim(b, x, 1) / 2 : out, out);
    return nn_leave(b, x);
}

static size_t build(struct nn_builder *b, const struct nn_config *config, const tensor_id *in,
                    struct nn_output *out)
{
    const struct unet *u = (const void *)config->bytes;
    int64_t f = u->bilinear ? 2 : 1;
    tensor_id skips[MAX_DEPTH + 1], x;
    nn_push(b, "inc");
    skips[0] = x = double_conv(b, in[0], u->planes, u->planes);
    nn_pop(b);
    for (int64_t i = 1; i <= u->depth; i++) {
        int64_t planes = (u->planes << i) / (i == u->depth ? f : 1);
        nn_push(b, "down%" PRId64 ".maxpool_conv.1", i);
        skips[i] = x = double_conv(b, nn_max_pool(b, x, 2, 2, 0), planes, planes);
        nn_pop(b);
    }
    for (int64_t i = 1; i <= u->depth; i++) {
        nn_push(b, "up%" PRId64, i);
        x = up(b, u, x, skips[u->depth - i],
               (u->planes << (u->depth - i)) / (i == u->depth ? 1 : f));
        nn_pop(b);
    }
    nn_push(b, "outc");
    x = nn_convolution(b, "conv", x, &(struct nn_conv){.out = u->image.classes, .has_bias = true});
    nn_pop(b);
    /* one class: a probability per pixel; more: classes */
    return nn_classes(b, out, "logits", x,
                      u->image.classes == 1 ? "bce_with_logits_loss" : "cross_entropy");
}

static const struct ebb_key options[] = {
    NN_IMAGE_OPTIONS(unet),
    NN_OPTION_INT(unet, planes, 2, 4096, "channels at full resolution"),
    NN_OPTION_INT(unet, depth, 1, MAX_DEPTH, "halvings of the resolution"),
    NN_OPTION_BOOL(unet, bilinear, "upsample bilinearly; false: by transposed convolution"),
};
#define ROW(text, about, bilinear_, ...)                                                           \
    NN_MODEL(text, NN_SEGMENTATION, about, options, unet, nn_image_inputs, build,                  \
             (&(const struct unet){                                                                \
                 .image = {3, 416, 608, 1}, .planes = 64, .depth = 4, .bilinear = bilinear_}),     \
             __VA_ARGS__)

static const struct nn_model rows[] = {
    ROW("unet", "U-Net, bilinear upsampling", true, "unet_bilinear", NULL),
    ROW("unet_transposed", "U-Net, transposed convolutions", false, NULL),
};

const struct nn_family nn_unet_family = {rows, sizeof rows / sizeof *rows};
