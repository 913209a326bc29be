/* fuzz_data_image.c - PNG and JPEG files of any bytes, decoded and scaled within a fixed scratch.
 *
 * Checked beyond not crashing: rows come in order, the window is filled when decoding succeeds,
 * nothing stays allocated. */

#include "fuzz.h"

#include "data/image.h"

struct picture {
    struct data_resampler r;
    struct data_scratch scratch;
    int64_t next, height, emitted;
};

static void emit(void *context, int64_t y, const uint8_t *rgb)
{
    struct picture *p = context;
    volatile uint8_t sum = 0;
    for (int i = 0; i < 16 * 3; i++)
        sum = (uint8_t)(sum + rgb[i]);
    require(y == p->emitted++);
}

static enum ebb_status begin(void *context, int64_t width, int64_t height, struct ebb_error *err)
{
    struct picture *p = context;
    require(width > 0 && height > 0);
    if (width * height > 1 << 20) /* only to keep each run short */
        return ebb_fail(err, EBB_ELIMIT, "large");
    struct data_resample_plan plan = {.width = width,
                                      .height = height,
                                      .out_width = 20,
                                      .out_height = 18,
                                      .left = 2,
                                      .top = 1,
                                      .keep_w = 16,
                                      .keep_h = 16};
    p->height = height;
    p->r.context = p;
    p->r.emit = emit;
    return data_resampler_init(&p->r, &plan, &p->scratch, err);
}

static enum ebb_status row(void *context, int64_t y, const uint8_t *rgb, struct ebb_error *err)
{
    struct picture *p = context;
    (void)err;
    require(y == p->next++ && y < p->height);
    return data_resampler_row(&p->r, y, rgb) ? EBB_ECANCELED : EBB_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t memory[1 << 20];
    struct data_file file;
    struct picture p = {.scratch = {.memory = memory, .bytes = sizeof memory}};
    struct data_row_sink sink = {&p, begin, row};
    struct ebb_error err = {0};
    uint64_t live = ebb_heap_live();
    require(data_file_memory(&file, "fuzz", data, size, &err) == EBB_OK);
    if (data_image_decode(&file, &p.scratch, &sink, &err) == EBB_OK)
        require(p.emitted == 16);
    else
        require(err.message[0] != '\0');
    data_file_close(&file);
    require(ebb_heap_live() == live);
    return 0;
}
