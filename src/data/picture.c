/* picture.c - one picture as a set's validation makes numbers of it: for sets that read pictures, and
 * for those of small images, to whose stored size it is brought first. */
#include <math.h>

#include "base/heap.h"
#include "data/image.h"
#include "data/pixels.h"

/* The smallest size that covers the window, where none is given. */
static void cover(const struct data_view *v, struct data_resample_plan *p)
{
    double across = (double)v->width / (double)p->width,
           down = (double)v->height / (double)p->height;
    p->out_width = across >= down ? v->width : (int64_t)ceil((double)p->width * down - 1e-9);
    p->out_height = across >= down ? (int64_t)ceil((double)p->height * across - 1e-9) : v->height;
}

struct data_resample_plan data_middle_plan(const struct data_view *v, int64_t width, int64_t height)
{
    struct data_resample_plan p = {
        .width = width, .height = height, .keep_w = v->width, .keep_h = v->height};
    if (v->resize == 0) {
        cover(v, &p);
    } else if (width < height) {
        p.out_width = v->resize;
        p.out_height = (int64_t)((double)(v->resize * height) / (double)width);
    } else {
        p.out_height = v->resize;
        p.out_width = (int64_t)((double)(v->resize * width) / (double)height);
    }
    p.left = (int64_t)rint((double)(p.out_width - v->width) / 2.0); /* half to even */
    p.top = (int64_t)rint((double)(p.out_height - v->height) / 2.0);
    return p;
}

struct shot {
    const struct data_view *view;
    struct data_scratch *scratch;
    struct data_resampler resampler;
    uint8_t *planes; /* of the window */
};

static enum ebb_status begin(void *context, int64_t width, int64_t height, struct ebb_error *err)
{
    struct shot *s = context;
    struct data_resample_plan plan = data_middle_plan(s->view, width, height);
    return data_resampler_init(&s->resampler, &plan, s->scratch, err);
}

static enum ebb_status take_row(void *context, int64_t y, const uint8_t *rgb, struct ebb_error *err)
{
    struct shot *s = context;
    (void)err;
    return data_resampler_row(&s->resampler, y, rgb) ? EBB_ECANCELED : EBB_OK;
}

/* Grey as Pillow makes it of colours. */
static uint8_t grey(const uint8_t *rgb)
{
    return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

static void emit(void *context, int64_t y, const uint8_t *rgb)
{
    const struct shot *s = context;
    const struct data_view *v = s->view;
    for (int64_t c = 0; c < v->channels; c++)
        for (int64_t x = 0; x < v->width; x++)
            s->planes[(c * v->height + y) * v->width + x] =
                v->channels == 1 ? grey(rgb + 3 * x) : rgb[3 * x + c];
}

/* Bytes of the window to numbers; bytes that the set leaves as they are, from 0 to 1. */
static void make_numbers(const struct data_set *set, const uint8_t *planes, float *out,
                         size_t count)
{
    const struct data_view *v = &set->view;
    size_t plane = (size_t)(v->width * v->height);
    if (v->small)
        data_small_make(v->small, planes, &(struct data_request){.split = DATA_VALIDATION}, out);
    for (size_t i = 0; !v->small && i < count; i++)
        out[i] =
            v->pixels->is_u8 ? (float)planes[i] / 255.0f : v->pixels->table[i / plane][planes[i]];
    if (!v->small || !v->pixels->is_u8)
        return;
    const uint8_t *bytes = (const uint8_t *)out;
    for (size_t i = count; i-- > 0;) /* from the end: numbers take the place of bytes */
        out[i] = (float)bytes[i] / 255.0f;
}

enum ebb_status data_picture(const struct data_set *set, const char *path, float *out, size_t count,
                             struct ebb_error *err)
{
    const struct data_view *v = &set->view;
    const struct data_info *info = &set->info;
    struct data_scratch scratch = {.bytes = info->scratch_bytes};
    struct data_file file;
    if (!v->pixels || count != (size_t)(info->channels * info->height * info->width))
        return ebb_fail(
            err, EBB_EINPUT,
            "%s: data %s make no numbers of pictures for this model: give arrays (.npz)", path,
            info->name);
    if (scratch.bytes < (size_t)16 << 20)
        scratch.bytes = (size_t)16 << 20;
    EBB_TRY(data_file_open(&file, path, err));
    struct shot shot = {.view = v, .scratch = &scratch};
    shot.resampler.context = &shot;
    shot.resampler.emit = emit;
    struct data_row_sink sink = {&shot, begin, take_row};
    enum ebb_status status = ebb_new(&scratch.memory, 1, scratch.bytes, err);
    EBB_THEN(status,
             ebb_new(&shot.planes, (size_t)v->channels, (size_t)(v->width * v->height), err));
    EBB_THEN(status, data_image_decode(&file, &scratch, &sink, err));
    if (status == EBB_OK && shot.resampler.next_row != v->height)
        status = data_corrupt(err, &file, file.length, "the picture has too few rows");
    if (status == EBB_OK)
        make_numbers(set, shot.planes, out, count);
    ebb_free(shot.planes);
    ebb_free(scratch.memory);
    data_file_close(&file);
    return status;
}
