/* color.c - brightness, contrast, saturation and hue of a picture, as torchvision's ColorJitter
 * changes them: numbers from 0 to 1, the four in an order of their own for each sample. */
#include "data/color.h"

#include <math.h>

#include "data/internal.h"

bool data_color_is_on(const struct data_color *c)
{
    return c->brightness > 0 || c->contrast > 0 || c->saturation > 0 || c->hue > 0;
}

static float unit(float v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

static float grey_at(const float *p, int64_t n, int64_t channels, int64_t i)
{
    return channels == 3 ? 0.2989f * p[i] + 0.587f * p[n + i] + 0.114f * p[2 * n + i] : p[i];
}

void data_color_brightness(float *p, int64_t n, int64_t channels, float factor)
{
    for (int64_t i = 0; i < n * channels; i++)
        p[i] = unit(factor * p[i]);
}

void data_color_contrast(float *p, int64_t n, int64_t channels, float factor)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)grey_at(p, n, channels, i);
    float middle = (float)(sum / (double)n);
    for (int64_t i = 0; i < n * channels; i++)
        p[i] = unit(factor * p[i] + (1 - factor) * middle);
}

void data_color_saturation(float *p, int64_t n, int64_t channels, float factor)
{
    for (int64_t i = 0; channels == 3 && i < n; i++) {
        float grey = grey_at(p, n, channels, i);
        for (int64_t c = 0; c < 3; c++)
            p[c * n + i] = unit(factor * p[c * n + i] + (1 - factor) * grey);
    }
}

/* Hue, saturation and value of one pixel, the hue turned, and back. */
static void turn(float rgb[3], float by)
{
    float r = rgb[0], g = rgb[1], b = rgb[2];
    float most = fmaxf(r, fmaxf(g, b)), least = fminf(r, fminf(g, b)), range = most - least;
    if (!(range > 0))
        return; /* grey has no hue */
    float s = range / most;
    float rc = (most - r) / range, gc = (most - g) / range, bc = (most - b) / range;
    float h = r >= most ? bc - gc : g >= most ? 2 + rc - bc : 4 + gc - rc;
    h = fmodf(h / 6 + 1, 1) + by;
    h -= floorf(h);
    float sixth = floorf(h * 6), f = h * 6 - sixth;
    float p = unit(most * (1 - s)), q = unit(most * (1 - s * f)),
          t = unit(most * (1 - s * (1 - f)));
    const float table[6][3] = {{most, t, p}, {q, most, p}, {p, most, t},
                               {p, q, most}, {t, p, most}, {most, p, q}};
    const float *turned = table[(int)sixth % 6];
    for (int c = 0; c < 3; c++)
        rgb[c] = turned[c];
}

void data_color_hue(float *p, int64_t n, int64_t channels, float by)
{
    for (int64_t i = 0; channels == 3 && i < n; i++) {
        float rgb[3] = {p[i], p[n + i], p[2 * n + i]};
        turn(rgb, by);
        for (int64_t c = 0; c < 3; c++)
            p[c * n + i] = rgb[c];
    }
}

void data_color_apply(const struct data_color *c, const struct data_request *q, float *planes,
                      int64_t pixels, int64_t channels)
{
    struct data_random r;
    int order[4] = {0, 1, 2, 3};
    const double widths[4] = {c->brightness, c->contrast, c->saturation, c->hue};
    float factors[4];
    data_random_init(&r, q->seed, q->index, (uint32_t)q->epoch, DATA_STREAM_COLOR);
    for (int i = 0; i < 3; i++) {
        int k = i + (int)data_random_below(&r, (uint64_t)(4 - i)), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    for (int i = 0; i < 4; i++) {
        double middle = i == 3 ? 0 : 1, low = middle - widths[i];
        factors[i] = (float)data_random_between(&r, i < 3 && low < 0 ? 0 : low, middle + widths[i]);
    }
    static void (*const change[4])(float *, int64_t, int64_t, float) = {
        data_color_brightness, data_color_contrast, data_color_saturation, data_color_hue};
    for (int i = 0; i < 4; i++)
        if (widths[order[i]] > 0)
            change[order[i]](planes, pixels, channels, factors[order[i]]);
}
