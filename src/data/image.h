/* image.h - pictures row by row: decoding and resampling without ever holding a whole one. Private.
 */
#ifndef EBB_DATA_IMAGE_H
#define EBB_DATA_IMAGE_H

#include "data/internal.h"

/* Who takes the rows. begin is called once, then row for y = 0..height-1, each width * 3 bytes RGB
 * (borrowed for the call). A status other than EBB_OK ends the decoding with it; EBB_ECANCELED from
 * row means "enough": the decoder answers EBB_OK. */
struct data_row_sink {
    void *context;
    enum ebb_status (*begin)(void *context, int64_t width, int64_t height, struct ebb_error *err);
    enum ebb_status (*row)(void *context, int64_t y, const uint8_t *rgb, struct ebb_error *err);
};

#define DATA_IMAGE_PIXELS INT64_C(178956970) /* most pixels of a picture */
enum { DATA_IMAGE_SIDE = 65535 };

/* PNG or JPEG by their first bytes. Memory of the decoder: what scratch has left. */
enum ebb_status data_image_decode(const struct data_file *file, struct data_scratch *scratch,
                                  const struct data_row_sink *sink, struct ebb_error *err);
enum ebb_status data_png_decode(const struct data_file *file, struct data_scratch *scratch,
                                const struct data_row_sink *sink, struct ebb_error *err);
enum ebb_status data_jpeg_decode(const struct data_file *file, struct data_scratch *scratch,
                                 const struct data_row_sink *sink, struct ebb_error *err);

/* RGB bytes to a file. */
enum ebb_status data_png_write(const char *path, const uint8_t *rgb, int64_t width, int64_t height,
                               struct ebb_error *err);
enum ebb_status data_jpeg_write(const char *path, const uint8_t *rgb, int64_t width, int64_t height,
                                int quality, struct ebb_error *err);

/* ---- resample.c ---- */

/* Which part of the picture (box, whole pixels), scaled to which size, of which a window is kept.
 */
struct data_resample_plan {
    int64_t x, y, width, height;       /* box */
    int64_t out_width, out_height;     /* the box becomes this */
    int64_t left, top, keep_w, keep_h; /* window of the result */
};

struct data_taps {    /* of one axis: out pixel i = sum over its taps */
    int64_t *first;   /* [n] input pixel of the first tap */
    int32_t *count;   /* [n] */
    int32_t *weights; /* [n * most], fixed point */
    int64_t n, most;
};

/* The middle of a picture, as a set looks at it (picture.c). */
struct data_resample_plan data_middle_plan(const struct data_view *view, int64_t width,
                                           int64_t height);

/* Pillow's bilinear with antialiasing: a triangle as wide as the scale, horizontal pass first,
 * bytes between, coefficients of 22 bits. `emit` gets each finished row of keep_w * 3 bytes. */
struct data_resampler {
    struct data_resample_plan plan;
    struct data_taps across, down;
    uint8_t *ring;    /* down.most rows of keep_w * 3 bytes */
    uint8_t *out;     /* one row */
    int32_t *sums;    /* of one row */
    int64_t next_row; /* of the window */
    void *context;
    void (*emit)(void *context, int64_t y, const uint8_t *rgb);
};

enum ebb_status data_resampler_init(struct data_resampler *r, const struct data_resample_plan *plan,
                                    struct data_scratch *scratch, struct ebb_error *err);
/* Row y of the picture; true when the last row of the window has been emitted. */
bool data_resampler_row(struct data_resampler *r, int64_t y, const uint8_t *rgb);

#endif
