/* pixels.c - bytes of an image to numbers; padding, cropping and flipping of small images. */
#include "data/pixels.h"

#include <string.h>

void data_pixels_init(struct data_pixels *p, const struct data_values *v, int64_t channels,
                      const struct data_norm *standard)
{
    *p = (struct data_pixels){.channels = channels,
                              .is_u8 = strcmp(v->image_dtype, "u8") == 0,
                              .is_raw = strcmp(v->normalize, "none") == 0 && !v->mean.count,
                              .color = v->color};
    for (int b = 0; b < 256; b++)
        p->unit[b] = (float)b / 255.0f;
    for (int64_t c = 0; c < channels && c < DATA_PIXEL_CHANNELS; c++) {
        double mean = 0, std = 1;
        if (v->mean.count) {
            mean = v->mean.v[v->mean.count == 1 ? 0 : c];
            std = v->std.v[v->std.count == 1 ? 0 : c];
        } else if (strcmp(v->normalize, "standard") == 0) {
            mean = standard->mean[c];
            std = standard->std[c];
        }
        float m = p->mean[c] = (float)mean, s = p->std[c] = (float)std;
        for (int b = 0; b < 256; b++)
            p->table[c][b] = p->is_raw ? (float)b : ((float)b / 255.0f - m) / s;
    }
}

bool data_pixels_are_changed(const struct data_pixels *p, const struct data_request *q)
{
    return q->split == DATA_TRAIN && data_color_is_on(&p->color);
}

void data_pixels_color(const struct data_pixels *p, const struct data_request *q, float *planes,
                       int64_t pixels)
{
    data_color_apply(&p->color, q, planes, pixels, p->channels);
    for (int64_t c = 0; c < p->channels; c++)
        for (int64_t i = c * pixels; i < (c + 1) * pixels; i++)
            planes[i] = p->is_raw ? planes[i] * 255.0f : (planes[i] - p->mean[c]) / p->std[c];
}

const char *data_pixels_check(const struct data_values *v, int64_t channels, const char **key)
{
    *key = "mean";
    if (v->mean.count > 1 && (int64_t)v->mean.count != channels)
        return "mean and std need one number, or one for each channel";
    if (v->mean.count && strcmp(v->image_dtype, "u8") == 0)
        return "bytes (image_dtype: u8) are not normalised: leave mean and std out";
    *key = "augment";
    if (data_color_is_on(&v->color) && strcmp(v->image_dtype, "u8") == 0)
        return "colours change as numbers: not with image_dtype: u8";
    if ((v->color.saturation > 0 || v->color.hue > 0) && channels != 3)
        return "saturation and hue need pictures of three channels";
    return NULL;
}

struct place { /* which stored pixel a made one is */
    int64_t dy, dx;
    bool is_flipped;
};

static struct place small_place(const struct data_small *s, const struct data_request *request)
{
    struct place at = {.dy = -(s->size_y - s->height) / 2, .dx = -(s->size_x - s->width) / 2};
    if (request->split != DATA_TRAIN || (!s->crop_pad && !s->flip))
        return at;
    struct data_random r;
    data_random_init(&r, request->seed, request->index, (uint32_t)request->epoch,
                     DATA_STREAM_AUGMENT);
    uint64_t span = (uint64_t)(2 * s->crop_pad + 1);
    int64_t y = (int64_t)data_random_below(&r, span), x = (int64_t)data_random_below(&r, span);
    at.dy += y - s->crop_pad;
    at.dx += x - s->crop_pad;
    at.is_flipped = s->flip && (data_random_u32(&r) & 1);
    return at;
}

/* One row: bytes in, black outside. */
static void small_row(const struct data_small *s, const uint8_t *plane, int64_t y, struct place at,
                      uint8_t *row)
{
    int64_t from = y + at.dy;
    memset(row, 0, (size_t)s->size_x);
    if (from < 0 || from >= s->height)
        return;
    const uint8_t *source = plane + from * s->width;
    int64_t first = at.dx < 0 ? -at.dx : 0;
    int64_t last = s->width - at.dx < s->size_x ? s->width - at.dx : s->size_x;
    if (last > first)
        memcpy(row + first, source + first + at.dx, (size_t)(last - first));
    if (!at.is_flipped)
        return;
    for (int64_t i = 0, j = s->size_x - 1; i < j; i++, j--) {
        uint8_t t = row[i];
        row[i] = row[j];
        row[j] = t;
    }
}

void data_small_describe(struct data_small *s, const struct data_values *v,
                         const struct data_norm *standard, struct data_info *info)
{
    s->crop_pad = v->crop_pad;
    s->flip = v->flip;
    data_pixels_init(&s->pixels, v, s->channels, standard);
    info->channels = s->channels;
    info->height = s->size_y;
    info->width = s->size_x;
    info->is_augmented = v->crop_pad || v->flip || data_color_is_on(&v->color);
    data_add_field(info, "image", s->pixels.is_u8 ? DATA_U8 : DATA_F32, 3,
                   (int64_t[]){s->channels, s->size_y, s->size_x});
    data_add_field(info, "label", DATA_I64, 0, NULL);
}

struct data_view data_small_view(const struct data_small *s)
{
    return (struct data_view){.width = s->width,
                              .height = s->height,
                              .channels = s->in_channels,
                              .pixels = &s->pixels,
                              .small = s};
}

void data_small_make(const struct data_small *s, const uint8_t *planes,
                     const struct data_request *request, void *out)
{
    uint8_t row[4096]; /* size_x is checked when the set is opened */
    struct place at = small_place(s, request);
    bool is_changed = data_pixels_are_changed(&s->pixels, request);
    uint8_t *bytes = out;
    float *numbers = out;
    for (int64_t c = 0; c < s->channels; c++) {
        const uint8_t *plane = planes + (s->in_channels == 1 ? 0 : c) * s->height * s->width;
        const float *table = is_changed ? s->pixels.unit : s->pixels.table[c];
        for (int64_t y = 0; y < s->size_y; y++) {
            int64_t to = (c * s->size_y + y) * s->size_x;
            small_row(s, plane, y, at, row);
            if (s->pixels.is_u8) {
                memcpy(bytes + to, row, (size_t)s->size_x);
                continue;
            }
            for (int64_t x = 0; x < s->size_x; x++)
                numbers[to + x] = table[row[x]];
        }
    }
    if (is_changed)
        data_pixels_color(&s->pixels, request, numbers, s->size_y * s->size_x);
}
