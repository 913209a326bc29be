/* test_data_variants.c - HDF5, images and NPZ as h5py, Pillow and numpy write them
 * (tests/golden/data/make_variants.py). */
#include "data_support.h"

#include "base/file.h"

#include "data/hdf5.h"
#include "data/image.h"
#include "data/npy.h"

#define GOLDEN EBB_SOURCE_DIR "/tests/golden/data/"

static uint8_t memory[1 << 20];

static int64_t ramp(uint64_t i)
{
    return (int64_t)(7 * i % 251) - 100;
}

struct opened {
    struct data_file file;
    struct data_h5 h;
    struct ebb_error err;
    struct data_scratch scratch;
};

static void open_h5(struct opened *o, const char *path)
{
    memset(o, 0, sizeof *o);
    o->scratch = (struct data_scratch){.memory = memory, .bytes = sizeof memory};
    CHECK_OK(data_file_open(&o->file, path, &o->err), &o->err);
    CHECK_OK(data_h5_open(&o->h, &o->file, &o->err), &o->err);
}

/* The whole dataset, and every single row, against the ramp. */
static void check_ramp(struct opened *o, const char *name, int rank)
{
    struct data_h5_dataset d;
    double values[512];
    int64_t whole[512];
    CHECK_OK(data_h5_find(&o->h, name, &d, &o->err), &o->err);
    CHECK_EQ(d.rank, rank);
    uint64_t n = data_h5_count(&d), per_row = data_h5_row_count(&d);
    CHECK(n > 0 && n <= 512);
    CHECK_OK(data_h5_read(&o->h, &d, 0, d.dims[0], DATA_F64, values, &o->scratch, &o->err),
             &o->err);
    for (uint64_t i = 0; i < n; i++)
        CHECK(values[i] == (double)ramp(i));
    for (uint64_t row = 0; row < d.dims[0]; row++) {
        CHECK_OK(data_h5_read(&o->h, &d, row, 1, DATA_I64, whole, &o->scratch, &o->err), &o->err);
        for (uint64_t i = 0; i < per_row; i++)
            CHECK_EQ(whole[i], ramp(row * per_row + i));
    }
    CHECK_EQ(o->scratch.used, 0);
}

TEST(hdf5__every_layout_type_and_filter)
{
    struct opened o;
    open_h5(&o, GOLDEN "variants.h5");
    check_ramp(&o, "flat_i32", 3);
    check_ramp(&o, "big_i16", 2);
    check_ramp(&o, "half", 2);
    check_ramp(&o, "double_big", 2);
    check_ramp(&o, "chunk_plain", 2);
    check_ramp(&o, "chunk_gzip", 2);
    check_ramp(&o, "chunk_all", 3);
    check_ramp(&o, "chunk_grown", 2);
    data_file_close(&o.file);
}

TEST(hdf5__holes_rows_flags_and_scalars)
{
    struct opened o;
    struct data_h5_dataset d;
    int64_t v[32];
    open_h5(&o, GOLDEN "variants.h5");
    CHECK_OK(data_h5_find(&o.h, "holes", &d, &o.err), &o.err);
    CHECK_OK(data_h5_read(&o.h, &d, 0, 8, DATA_I64, v, &o.scratch, &o.err), &o.err);
    for (uint64_t i = 0; i < 32; i++)
        CHECK_EQ(v[i], i >= 16 && i < 24 ? ramp(i - 16) : 0);
    CHECK_OK(data_h5_find(&o.h, "rows", &d, &o.err), &o.err);
    for (uint64_t row = 0; row < 4; row++) {
        size_t count = 99;
        CHECK_OK(data_h5_read_row(&o.h, &d, row, 9, v, &count, &o.scratch, &o.err), &o.err);
        CHECK_EQ(count, 3 * row);
        for (uint64_t i = 0; i < count; i++)
            CHECK_EQ(v[i], ramp(i));
    }
    size_t count;
    CHECK_EQ(data_h5_read_row(&o.h, &d, 3, 8, v, &count, &o.scratch, &o.err), EBB_ECORRUPT);
    CHECK_OK(data_h5_find(&o.h, "flags", &d, &o.err), &o.err);
    CHECK_OK(data_h5_read(&o.h, &d, 0, 3, DATA_I64, v, &o.scratch, &o.err), &o.err);
    CHECK(v[0] == 1 && v[1] == 0 && v[2] == 1);
    CHECK_OK(data_h5_find(&o.h, "scalar", &d, &o.err), &o.err);
    CHECK_OK(data_h5_read(&o.h, &d, 0, 1, DATA_I64, v, &o.scratch, &o.err), &o.err);
    CHECK_EQ(v[0], -42);
    CHECK_OK(data_h5_find(&o.h, "/deep/er/est", &d, &o.err), &o.err);
    CHECK_EQ(data_h5_find(&o.h, "deep/er", &d, &o.err), EBB_ECORRUPT);
    for (int i = 0; i < 100; i++) { /* a tree of several nodes */
        char name[32];
        snprintf(name, sizeof name, "many/item%03d", i);
        CHECK_OK(data_h5_find(&o.h, name, &d, &o.err), &o.err);
        CHECK_OK(data_h5_read(&o.h, &d, 0, 1, DATA_I64, v, &o.scratch, &o.err), &o.err);
        CHECK_EQ(v[0], i);
    }
    CHECK(!data_h5_has(&o.h, "many/item100"));
    data_file_close(&o.file);
}

TEST(hdf5__user_block_and_latest_format)
{
    struct opened o;
    struct data_h5_dataset d;
    int64_t v[64];
    open_h5(&o, GOLDEN "variants_user_block.h5");
    check_ramp(&o, "x", 2);
    data_file_close(&o.file);
    open_h5(&o, GOLDEN "variants_latest.h5");
    check_ramp(&o, "flat", 2);
    check_ramp(&o, "single", 2);
    check_ramp(&o, "in/side", 1);
    CHECK_EQ(data_h5_find(&o.h, "fixed", &d, &o.err), EBB_EINPUT);
    CHECK(strstr(o.err.message, "chunk index 3"));
    (void)v;
    data_file_close(&o.file);
}

struct picture {
    struct data_resampler r;
    struct data_scratch *scratch;
    uint8_t out[20 * 28 * 3];
};

static void picture_emit(void *context, int64_t y, const uint8_t *rgb)
{
    memcpy(((struct picture *)context)->out + y * 28 * 3, rgb, 28 * 3);
}

static enum ebb_status picture_begin(void *context, int64_t width, int64_t height,
                                     struct ebb_error *err)
{
    struct picture *p = context;
    struct data_resample_plan plan = {.width = width,
                                      .height = height,
                                      .out_width = 28,
                                      .out_height = 20,
                                      .keep_w = 28,
                                      .keep_h = 20};
    p->r.context = p;
    p->r.emit = picture_emit;
    return data_resampler_init(&p->r, &plan, p->scratch, err);
}

static enum ebb_status picture_row(void *context, int64_t y, const uint8_t *rgb,
                                   struct ebb_error *err)
{
    (void)err;
    return data_resampler_row(&((struct picture *)context)->r, y, rgb) ? EBB_ECANCELED : EBB_OK;
}

TEST(images__are_pillows_pixels)
{
    static const char *const names[] = {"plain.jpg", "progressive.jpg", "gray.jpg",
                                        "cmyk.jpg",  "palette.png",     "gray_alpha.png"};
    struct opened o = {.scratch = {.memory = memory, .bytes = sizeof memory}};
    struct data_file packed, unpacked = {0};
    struct data_h5_dataset d;
    static uint8_t want[6][20 * 28 * 3];
    CHECK_OK(data_file_open(&packed, GOLDEN "decoded.npz", &o.err), &o.err);
    CHECK_OK(data_npz_find(&packed, "x", NULL, &unpacked, &d, &o.err), &o.err);
    o.h = (struct data_h5){.file = &unpacked};
    CHECK_OK(data_h5_read(&o.h, &d, 0, 6, DATA_U8, want, &o.scratch, &o.err), &o.err);
    data_file_close(&unpacked);
    data_file_close(&packed);
    for (int i = 0; i < 6; i++) {
        char path[256];
        static struct picture p;
        struct data_row_sink sink = {&p, picture_begin, picture_row};
        p.scratch = &o.scratch;
        o.scratch.used = 0;
        snprintf(path, sizeof path, "%s%s", GOLDEN, names[i]);
        CHECK_OK(data_file_open(&o.file, path, &o.err), &o.err);
        CHECK_OK(data_image_decode(&o.file, &o.scratch, &sink, &o.err), &o.err);
        if (memcmp(p.out, want[i], sizeof p.out) != 0) {
            size_t k = 0;
            while (p.out[k] == want[i][k])
                k++;
            fail_msg("%s: byte %zu is %u, Pillow's %u", names[i], k, p.out[k], want[i][k]);
        }
        data_file_close(&o.file);
    }
}

TEST(images__need_no_more_than_the_scratch)
{
    struct opened o = {0};
    static struct picture p;
    struct data_row_sink sink = {&p, picture_begin, picture_row};
    CHECK_OK(data_file_open(&o.file, GOLDEN "progressive.jpg", &o.err), &o.err);
    p.scratch = &o.scratch;
    for (size_t bytes = 1024; bytes < 40000; bytes += 977) {
        o.scratch = (struct data_scratch){.memory = memory, .bytes = bytes};
        enum ebb_status status = data_image_decode(&o.file, &o.scratch, &sink, &o.err);
        CHECK(status == EBB_OK || status == EBB_EINPUT || status == EBB_ELIMIT);
    }
    data_file_close(&o.file);
}

TEST(npz__stored_and_packed)
{
    struct kit *kit = *cmocka_state;
    struct data_set *set =
        kit_open(kit, "{name: npz, train_files: '" GOLDEN "arrays.npz', fields: [x, y]}");
    const struct data_info *info = data_describe(set);
    CHECK(info->count[DATA_TRAIN] == 6 && info->kind == DATA_CLASSES && info->classes == 6);
    float x[4];
    int64_t y;
    CHECK_OK(data_read(set, DATA_TRAIN, 5, 0, 0, (void *[]){x, &y}, &kit->err), &kit->err);
    CHECK(y == 5 && x[3] == (float)ramp(23));
    data_close(set);
    set = kit_open(kit, "{name: npz, train_files: '" GOLDEN "decoded.npz', fields: [x]}");
    CHECK_EQ(data_describe(set)->count[DATA_TRAIN], 6);
    CHECK(data_describe(set)->resident_bytes > 6 * 20 * 28 * 3);
    data_close(set);
    CHECK(strstr(kit_refused(kit, "{name: npz, train_files: '" GOLDEN "arrays.npz', fields: [z]}"),
                 "no array named z"));
}

TEST(npz__a_changed_byte_is_noticed)
{
    struct kit *kit = *cmocka_state;
    static const struct {
        const char *file, *field;
        long at; /* of a byte of the array */
    } cases[] = {{"arrays.npz", "x", 180}, {"decoded.npz", "x", 4000}};
    char path[] = "/tmp/ebb_npz_XXXXXX", text[128];
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    snprintf(text, sizeof text, "{name: npz, train_files: '%s', fields: [x]}", path);
    for (size_t i = 0; i < 2; i++) {
        struct ebb_file_view view;
        char from[256];
        snprintf(from, sizeof from, "%s%s", GOLDEN, cases[i].file);
        CHECK_OK(ebb_file_view_open(&view, from, SIZE_MAX, &kit->err), &kit->err);
        CHECK_OK(ebb_file_write_atomic(path, view.data, view.length, &kit->err), &kit->err);
        ebb_file_view_close(&view);
        data_close(kit_open(kit, text));
        FILE *file = fopen(path, "r+b");
        fseek(file, cases[i].at, SEEK_SET);
        int old = fgetc(file);
        fseek(file, cases[i].at, SEEK_SET);
        fputc(old ^ 4, file);
        fclose(file);
        const char *why = kit_refused(kit, text);
        CHECK(i == 1 || strstr(why, "'x' was changed: its CRC-32 is"));
    }
    unlink(path);
}

TEST_MAIN_EACH(kit_setup, kit_teardown)
