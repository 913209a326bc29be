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
};

struct data_norm {
    double mean[DATA_PIXEL_CHANNELS], std[DATA_PIXEL_CHANNELS];
};

/* By the keys image_dtype, normalize, mean and std; `standard` is what normalize: standard means.
 */
void data_pixels_init(struct data_pixels *p, const struct data_values *v, int64_t channels,
                      const struct data_norm *standard);
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
/* planes: in_channels x height x width bytes; out: channels x size_y x size_x of the dtype. */
void data_small_make(const struct data_small *s, const uint8_t *planes,
                     const struct data_request *request, void *out);

#endif
