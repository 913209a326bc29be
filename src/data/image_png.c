/* image_png.c - PNG in and out, through libpng. Its memory is the worker's scratch. */
#include "data/image.h"

#include <png.h>
#include <setjmp.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"

struct png_reading {
    png_structp png; /* here, not in locals: they must survive the jump */
    png_infop info;
    const struct data_file *file;
    struct data_scratch *scratch;
    uint64_t offset;
    struct ebb_error *err;
    enum ebb_status status;
};

static void png_fail(png_structp png, png_const_charp text)
{
    struct png_reading *r = png_get_error_ptr(png);
    if (r->status == EBB_OK)
        r->status = data_corrupt(r->err, r->file, r->offset, "PNG: %s", text);
    longjmp(png_jmpbuf(png), 1);
}

static void png_quiet(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void png_fetch(png_structp png, png_bytep out, size_t n)
{
    struct png_reading *r = png_get_io_ptr(png);
    r->status = data_file_read(r->file, r->offset, out, n, r->err);
    r->offset += n;
    if (r->status != EBB_OK)
        png_error(png, "the file cannot be read");
}

static png_voidp png_take(png_structp png, png_alloc_size_t bytes)
{
    struct png_reading *r = png_get_mem_ptr(png);
    void *taken = NULL;
    return data_scratch_take(r->scratch, bytes, &taken, NULL) == EBB_OK ? taken : NULL;
}

static void png_leave(png_structp png, png_voidp p)
{
    (void)png;
    (void)p; /* scratch is freed whole */
}

static enum ebb_status png_rows(png_structp png, png_infop info, struct png_reading *r,
                                const struct data_row_sink *sink)
{
    png_uint_32 width = png_get_image_width(png, info), height = png_get_image_height(png, info);
    if ((int64_t)width * height > DATA_IMAGE_PIXELS)
        return ebb_fail(r->err, EBB_EINPUT, "%s: %u x %u pixels; at most %lld are read",
                        r->file->path, width, height, (long long)DATA_IMAGE_PIXELS);
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    size_t row_bytes = png_get_rowbytes(png, info);
    if (row_bytes != (size_t)width * 3)
        return data_corrupt(r->err, r->file, 16, "PNG: rows of %zu bytes for %u pixels", row_bytes,
                            width);
    EBB_TRY(sink->begin(sink->context, width, height, r->err));
    size_t rows = passes > 1 ? height : 1; /* interlaced: the picture is built in passes */
    uint8_t *memory;
    EBB_TRY(data_scratch_take(r->scratch, row_bytes * rows, &memory, r->err));
    if (passes > 1)
        memset(memory, 0, row_bytes * rows);
    for (int pass = 0; pass + 1 < passes; pass++) {
        for (size_t y = 0; y < height; y++)
            png_read_row(png, memory + y * row_bytes, NULL);
    }
    for (size_t y = 0; y < height; y++) {
        uint8_t *row = memory + (passes > 1 ? y * row_bytes : 0);
        png_read_row(png, row, NULL);
        EBB_TRY(sink->row(sink->context, (int64_t)y, row, r->err));
    }
    return EBB_OK;
}

enum ebb_status data_png_decode(const struct data_file *file, struct data_scratch *scratch,
                                const struct data_row_sink *sink, struct ebb_error *err)
{
    struct png_reading r = {.file = file, .scratch = scratch, .err = err};
    r.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r, png_fail, png_quiet, &r, png_take,
                                     png_leave);
    if (!r.png)
        return ebb_fail(err, EBB_ELIMIT, "%s: PNG decoding needs more than the %zu bytes left",
                        file->path, data_scratch_left(scratch));
    if (setjmp(png_jmpbuf(r.png))) {
        png_destroy_read_struct(&r.png, &r.info, NULL);
        return r.status == EBB_OK ? EBB_ECORRUPT : r.status;
    }
    r.info = png_create_info_struct(r.png);
    if (!r.info)
        png_error(r.png, "out of scratch memory");
    png_set_user_limits(r.png, DATA_IMAGE_SIDE, DATA_IMAGE_SIDE);
    png_set_chunk_cache_max(r.png, 64);
    png_set_chunk_malloc_max(r.png, 1 << 20);
    png_set_read_fn(r.png, &r, png_fetch);
    png_read_info(r.png, r.info);
    enum ebb_status status = png_rows(r.png, r.info, &r, sink);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return status == EBB_ECANCELED ? EBB_OK : status;
}

/* ---- writing ---- */

enum ebb_status data_png_write(const char *path, const uint8_t *rgb, int64_t width, int64_t height,
                               struct ebb_error *err)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = PNG_FORMAT_RGB};
    png_alloc_size_t bytes = 0;
    if (!png_image_write_get_memory_size(image, bytes, 0, rgb, 0, NULL))
        return ebb_fail(err, EBB_EINTERNAL, "%s: PNG: %s", path, image.message);
    void *memory;
    enum ebb_status status = ebb_new(&memory, bytes, 1, err);
    if (status == EBB_OK && !png_image_write_to_memory(&image, memory, &bytes, 0, rgb, 0, NULL))
        status = ebb_fail(err, EBB_EINTERNAL, "%s: PNG: %s", path, image.message);
    EBB_THEN(status, ebb_file_write_atomic(path, memory, bytes, err));
    ebb_free(memory);
    return status;
}
