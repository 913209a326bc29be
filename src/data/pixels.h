/* pixels.h - bytes of an image to the numbers a model eats. Private. */
#ifndef EBB_DATA_PIXELS_H
#define EBB_DATA_PIXELS_H

#include "data/internal.h"

enum { DATA_PIXEL_CHANNELS = 4 };

/* Value of byte b in channel c: table[c][b]; computed as (b / 255 - mean) / std in floats, in that
 * order, as published pipelines do. */
struct data_pixels {
    bool is_u8; /* bytes as they are */
    int64_t channels;
    float table[DATA_PIXEL_CHANNELS][256];
    float unit[256]; /* bytes from 0 to 1, for colours that change before they are normalised */
    float mean[DATA_PIXEL_CHANNELS], std[DATA_PIXEL_CHANNELS];
    bool is_raw;             /* 0 to 255, not normalised */
    struct data_color color; /* of the training split */
};

struct data_norm {
    double mean[DATA_PIXEL_CHANNELS], std[DATA_PIXEL_CHANNELS];
};

/* By the keys image_dtype, normalize, mean and std; `standard` is what normalize: standard means.
 */
void data_pixels_init(struct data_pixels *p, const struct data_values *v, int64_t channels,
                      const struct data_norm *standard);
/* Are the colours of this sample changed? Then numbers are made by `unit`, and data_pixels_color makes
 * the sample of them. */
bool data_pixels_are_changed(const struct data_pixels *p, const struct data_request *request);
void data_pixels_color(const struct data_pixels *p, const struct data_request *request,
                       float *planes, int64_t pixels);
/* Message when mean/std do not fit the channels, or NULL. */
const char *data_pixels_check(const struct data_values *v, int64_t channels, const char **key);

/* Small images that are padded, cropped and flipped (idx, cifar). */
struct data_small {
    int64_t in_channels, height, width; /* stored, planar */
    int64_t channels, size_y, size_x; /* made: padded with black in the middle; channels 3 from 1 */
    int64_t crop_pad;
    bool flip;
    struct data_pixels pixels;
};
/* Of a set whose stored and made sizes are known: its pixels, and what it says of itself. */
void data_small_describe(struct data_small *s, const struct data_values *v,
                         const struct data_norm *standard, struct data_info *info);
/* A picture becomes one of its stored size; the small one stays where it is. */
struct data_view data_small_view(const struct data_small *s);
/* planes: in_channels x height x width bytes; out: channels x size_y x size_x of the dtype. */
void data_small_make(const struct data_small *s, const uint8_t *planes,
                     const struct data_request *request, void *out);

#endif
