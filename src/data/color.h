/* color.h - colours of a picture changed at random, the same for a sample in an epoch. Private. */
#ifndef EBB_DATA_COLOR_H
#define EBB_DATA_COLOR_H

#include <stdbool.h>
#include <stdint.h>

struct data_request;

/* How far each may be changed; 0: not at all. Factors lie in [max(0, 1 - x), 1 + x], the hue's turn in
 * [-x, x] of the circle. */
struct data_color {
    double brightness, contrast, saturation, hue;
};

bool data_color_is_on(const struct data_color *color);
/* All that are on, in an order drawn from the sample's seed, index and epoch; planes of numbers from 0
 * to 1, `pixels` each. Pictures of one channel have neither saturation nor hue. */
void data_color_apply(const struct data_color *color, const struct data_request *request,
                      float *planes, int64_t pixels, int64_t channels);

/* Each by itself; out = clamp(factor * in + (1 - factor) * other, 0, 1) with other = 0, the mean of the
 * grey picture, the grey picture; `by` is added to the hue. */
void data_color_brightness(float *planes, int64_t pixels, int64_t channels, float factor);
void data_color_contrast(float *planes, int64_t pixels, int64_t channels, float factor);
void data_color_saturation(float *planes, int64_t pixels, int64_t channels, float factor);
void data_color_hue(float *planes, int64_t pixels, int64_t channels, float by);

#endif
