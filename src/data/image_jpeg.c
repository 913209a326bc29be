/* image_jpeg.c - JPEG in and out, through libjpeg-turbo, row by row. Decoding is the full-size one
 * with the library's exact integer transform: scaled decoding would give other pixels than the
 * published pipelines. */
#include "data/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <jerror.h>
#include <jpeglib.h>

#include "base/file.h"
#include "base/heap.h"

enum { IN_BYTES = 16384, MAX_SCANS = 500 };

struct jpeg_reading {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    const struct data_file *file;
    uint64_t offset; /* of the byte after the buffer */
    uint8_t *buffer;
    struct ebb_error *err;
    enum ebb_status status;
};

static struct jpeg_reading *reading_of(j_common_ptr jpeg)
{
    return (struct jpeg_reading *)jpeg->client_data;
}

static void jpeg_fail(j_common_ptr jpeg)
{
    struct jpeg_reading *r = reading_of(jpeg);
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    uint64_t at = r->offset - r->source.bytes_in_buffer;
    if (r->status == EBB_OK && jpeg->err->msg_code == JERR_OUT_OF_MEMORY)
        r->status = ebb_no_memory(r->err, 0);
    else if (r->status == EBB_OK && jpeg->err->msg_code == JERR_NO_BACKING_STORE)
        r->status = ebb_fail(r->err, EBB_EINPUT,
                             "%s: this progressive JPEG needs more memory than decode_bytes gives",
                             r->file->path);
    else if (r->status == EBB_OK)
        r->status = data_corrupt(r->err, r->file, at, "JPEG: %s", text);
    longjmp(r->jump, 1);
}

static void jpeg_quiet(j_common_ptr jpeg, int level)
{
    (void)level; /* warnings are counted by the library; damage that matters ends the file early */
    if (jpeg->err)
        jpeg->err->num_warnings++;
}

static void jpeg_silent(j_common_ptr jpeg)
{
    (void)jpeg;
}

static void jpeg_check_scans(j_common_ptr jpeg)
{
    struct jpeg_reading *r = reading_of(jpeg);
    if (!jpeg->is_decompressor || r->jpeg.input_scan_number <= MAX_SCANS)
        return;
    r->status = data_corrupt(r->err, r->file, r->offset, "JPEG: more than %d scans", MAX_SCANS);
    longjmp(r->jump, 1);
}

static void source_start(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static boolean source_fill(j_decompress_ptr jpeg)
{
    struct jpeg_reading *r = reading_of((j_common_ptr)jpeg);
    uint64_t left = r->file->length - r->offset;
    size_t n = left < IN_BYTES ? (size_t)left : IN_BYTES;
    if (n == 0)
        r->status = data_corrupt(r->err, r->file, r->offset, "JPEG: the file ends in the picture");
    else
        r->status = data_file_read(r->file, r->offset, r->buffer, n, r->err);
    if (r->status != EBB_OK)
        longjmp(r->jump, 1);
    r->offset += n;
    r->source.next_input_byte = r->buffer;
    r->source.bytes_in_buffer = n;
    return TRUE;
}

static void source_skip(j_decompress_ptr jpeg, long count)
{
    struct jpeg_reading *r = reading_of((j_common_ptr)jpeg);
    if (count <= 0)
        return;
    size_t n = (size_t)count;
    if (n <= r->source.bytes_in_buffer) {
        r->source.next_input_byte += n;
        r->source.bytes_in_buffer -= n;
        return;
    }
    n -= r->source.bytes_in_buffer;
    uint64_t left = r->file->length - r->offset;
    r->offset += n < left ? n : left;
    r->source.bytes_in_buffer = 0;
}

static void source_end(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

/* CMYK to RGB in place of 4 bytes by 3; Adobe writes the inks inverted. */
static void cmyk_to_rgb(const uint8_t *in, uint8_t *out, size_t pixels, bool is_inverted)
{
    for (size_t i = 0; i < pixels; i++, in += 4, out += 3) {
        unsigned light = is_inverted ? in[3] : 255u - in[3];
        for (int c = 0; c < 3; c++) {
            unsigned ink = is_inverted ? 255u - in[c] : in[c];
            unsigned product = ink * light + 128;
            out[c] = (uint8_t)(light - ((product + (product >> 8)) >> 8));
        }
    }
}

static enum ebb_status jpeg_rows(struct jpeg_reading *r, struct data_scratch *scratch,
                                 const struct data_row_sink *sink)
{
    j_decompress_ptr jpeg = &r->jpeg;
    bool is_cmyk = jpeg->num_components == 4;
    size_t width = jpeg->image_width;
    if ((int64_t)jpeg->image_width * jpeg->image_height > DATA_IMAGE_PIXELS)
        return ebb_fail(r->err, EBB_EINPUT, "%s: %u x %u pixels; at most %lld are read",
                        r->file->path, jpeg->image_width, jpeg->image_height,
                        (long long)DATA_IMAGE_PIXELS);
    jpeg->out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    EBB_TRY(sink->begin(sink->context, jpeg->image_width, jpeg->image_height, r->err));
    uint8_t *row, *rgb;
    EBB_TRY(data_scratch_take(scratch, width * 4, &row, r->err));
    rgb = row;
    if (is_cmyk)
        EBB_TRY(data_scratch_take(scratch, width * 3, &rgb, r->err));
    /* The library's own memory comes out of what is left of the worker's share. */
    jpeg->mem->max_memory_to_use = (long)data_scratch_left(scratch);
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW rows[1] = {row};
        if (jpeg_read_scanlines(jpeg, rows, 1) != 1)
            return data_corrupt(r->err, r->file, r->offset, "JPEG: a row is missing");
        if (is_cmyk)
            cmyk_to_rgb(row, rgb, width, jpeg->saw_Adobe_marker);
        EBB_TRY(sink->row(sink->context, (int64_t)jpeg->output_scanline - 1, rgb, r->err));
    }
    return EBB_OK;
}

enum ebb_status data_jpeg_decode(const struct data_file *file, struct data_scratch *scratch,
                                 const struct data_row_sink *sink, struct ebb_error *err)
{
    struct jpeg_reading *r;
    uint8_t *buffer;
    EBB_TRY(data_scratch_take(scratch, sizeof *r, &r, err));
    EBB_TRY(data_scratch_take(scratch, IN_BYTES, &buffer, err));
    memset(r, 0, sizeof *r);
    r->file = file;
    r->err = err;
    r->buffer = buffer;
    r->jpeg.err = jpeg_std_error(&r->errors);
    r->errors.error_exit = jpeg_fail;
    r->errors.emit_message = jpeg_quiet;
    r->errors.output_message = jpeg_silent;
    r->jpeg.client_data = r;
    if (setjmp(r->jump)) {
        jpeg_destroy_decompress(&r->jpeg);
        return r->status == EBB_OK ? EBB_ECORRUPT : r->status;
    }
    jpeg_create_decompress(&r->jpeg);
    r->jpeg.client_data = r;
    r->source = (struct jpeg_source_mgr){.init_source = source_start,
                                         .fill_input_buffer = source_fill,
                                         .skip_input_data = source_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = source_end};
    r->progress.progress_monitor = jpeg_check_scans;
    r->jpeg.src = &r->source;
    r->jpeg.progress = &r->progress;
    jpeg_read_header(&r->jpeg, TRUE);
    enum ebb_status status = jpeg_rows(r, scratch, sink);
    jpeg_destroy_decompress(&r->jpeg);
    return status == EBB_ECANCELED ? EBB_OK : status;
}

/* ---- writing ---- */

struct jpeg_writing {
    struct jpeg_error_mgr errors;
    jmp_buf jump;
};

static void jpeg_write_fail(j_common_ptr jpeg)
{
    longjmp(((struct jpeg_writing *)jpeg->client_data)->jump, 1);
}

static enum ebb_status jpeg_stream(FILE *out, const uint8_t *rgb, int64_t width, int64_t height,
                                   int quality, struct ebb_error *err)
{
    struct jpeg_compress_struct jpeg = {0};
    struct jpeg_writing w;
    jpeg.err = jpeg_std_error(&w.errors);
    w.errors.error_exit = jpeg_write_fail;
    jpeg.client_data = &w;
    if (setjmp(w.jump)) {
        jpeg_destroy_compress(&jpeg);
        return ebb_fail(err, EBB_EIO, "JPEG of %lld x %lld cannot be written", (long long)width,
                        (long long)height);
    }
    jpeg_create_compress(&jpeg);
    jpeg.client_data = &w;
    jpeg_stdio_dest(&jpeg, out);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int64_t y = 0; y < height; y++) {
        uint8_t *row;
        const uint8_t *from = rgb + y * width * 3;
        memcpy(&row, &from, sizeof row); /* the library's interface is not const */
        JSAMPROW rows[1] = {row};
        jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return EBB_OK;
}

enum ebb_status data_jpeg_write(const char *path, const uint8_t *rgb, int64_t width, int64_t height,
                                int quality, struct ebb_error *err)
{
    struct ebb_file_out out;
    EBB_TRY(ebb_file_out_open(&out, path, err));
    enum ebb_status status = jpeg_stream(out.stream, rgb, width, height, quality, err);
    EBB_THEN(status, ebb_file_out_commit(&out, err));
    if (status != EBB_OK)
        ebb_file_out_abort(&out);
    return status;
}
