/* test_data_make.c - generated samples written in real formats read back as themselves. */
#include "data_support.h"

#include <math.h>

/* Compare sample `index` of both sets field by field; tolerance on floats of field 0. */
static void check_same(struct kit *kit, const struct data_set *a, uint64_t index_a,
                       const struct data_set *b, uint64_t index_b, enum data_split split,
                       float tolerance)
{
    const struct data_info *info = data_describe(a);
    void *x[DATA_MAX_FIELDS], *y[DATA_MAX_FIELDS];
    CHECK_EQ(info->sample_bytes, data_describe(b)->sample_bytes);
    for (size_t f = 0; f < info->field_count; f++) {
        x[f] = ebb_alloc(info->fields[f].bytes);
        y[f] = ebb_alloc(info->fields[f].bytes);
    }
    CHECK_OK(data_read(a, split, index_a, 0, 0, x, &kit->err), &kit->err);
    CHECK_OK(data_read(b, split, index_b, 0, 0, y, &kit->err), &kit->err);
    for (size_t f = 0; f < info->field_count; f++) {
        if (info->fields[f].dtype == DATA_F32) {
            for (size_t i = 0; i < info->fields[f].bytes / 4; i++)
                CHECK(fabsf(((float *)x[f])[i] - ((float *)y[f])[i]) <= tolerance);
        } else {
            CHECK(memcmp(x[f], y[f], info->fields[f].bytes) == 0);
        }
        ebb_free(x[f]);
        ebb_free(y[f]);
    }
}

static void round_trip(const char *synthetic, const char *real, const char *format, float tolerance)
{
    struct kit kit;
    kit_init(&kit);
    struct data_set *a = kit_open(&kit, synthetic);
    struct data_make_options o = {.count = {4, 2}, .format = format};
    CHECK_OK(data_make(a, kit.folder, &o, &kit.err), &kit.err);
    struct data_set *b = kit_open(&kit, real);
    CHECK_EQ(data_describe(b)->count[DATA_TRAIN], 4);
    CHECK_EQ(data_describe(b)->count[DATA_VALIDATION], 2);
    for (uint64_t i = 0; i < 4; i++)
        check_same(&kit, a, i, b, i, DATA_TRAIN, tolerance);
    check_same(&kit, a, 1, b, 1, DATA_VALIDATION, tolerance);
    data_close(a);
    data_close(b);
    kit_fini(&kit);
}

TEST(pictures__as_png_are_the_same)
{
    round_trip("{name: imagefolder, data_dir: synthetic, crop: 60, resize: 70}",
               "{name: imagefolder, data_dir: ., crop: 60, resize: 70}", "png", 0);
}

TEST(pictures__as_jpeg_are_near)
{
    round_trip("{name: imagefolder, data_dir: synthetic, crop: 60, resize: 70}",
               "{name: imagefolder, data_dir: ., crop: 60, resize: 70}", "jpeg", 0.6f);
}

TEST(cosmos__in_each_format_is_the_same)
{
    round_trip("{name: cosmoflow, data_dir: synthetic, size: 12}",
               "{name: cosmoflow, data_dir: ., size: 12}", "tfrecord.gz", 0);
    round_trip("{name: cosmoflow, data_dir: synthetic, size: 12, apply_log: false}",
               "{name: cosmoflow, data_dir: ., size: 12, apply_log: false, compression: none}",
               "tfrecord", 0);
    round_trip("{name: cosmoflow, data_dir: synthetic, size: 12}",
               "{name: cosmoflow, data_dir: ., size: 12, h5: true, h5_normalize: log}", "hdf5", 0);
}

TEST(tokens__windows_are_the_samples)
{
    struct kit *kit = *cmocka_state;
    struct data_set *a = kit_open(kit, "{name: language, vocabulary: 70000, sequence_length: 32}");
    struct data_make_options o = {.count = {4, 2}};
    CHECK_OK(data_make(a, kit->folder, &o, &kit->err), &kit->err);
    struct data_set *b =
        kit_open(kit, "{name: tokens, train_files: train.bin, val_files: val.bin, vocabulary: "
                      "70000, token_dtype: u32, sequence_length: 32}");
    CHECK_EQ(data_describe(b)->count[DATA_TRAIN], 4);
    struct data_set *c = kit_open(
        kit,
        "{name: tokens, data_dir: ., vocabulary: 70000, token_dtype: u32, sequence_length: 32}");
    CHECK_EQ(data_describe(c)->count[DATA_TRAIN], 4); /* the folder is enough */
    CHECK_EQ(data_describe(c)->count[DATA_VALIDATION], 2);
    data_close(c);
    for (uint64_t i = 0; i < 4; i++) {
        int64_t x[32], y[32];
        CHECK_OK(data_read(a, DATA_TRAIN, i, 0, 0, (void *[]){x, NULL}, &kit->err), &kit->err);
        CHECK_OK(data_read(b, DATA_TRAIN, i, 0, 0, (void *[]){y, NULL}, &kit->err), &kit->err);
        CHECK(memcmp(x, y, sizeof x) == 0);
    }
    data_close(a);
    data_close(b);
}

TEST(climate__is_the_same_after_the_fixed_shuffle)
{
    struct kit *kit = *cmocka_state;
    struct data_set *a =
        kit_open(kit, "{name: deepcam, data_dir: synthetic, height: 40, width: 60}");
    struct data_make_options o = {.count = {1, 2}};
    CHECK_OK(data_make(a, kit->folder, &o, &kit->err), &kit->err);
    struct data_set *b = kit_open(kit, "{name: deepcam, data_dir: .}");
    CHECK(data_describe(b)->height == 40 && data_describe(b)->width == 60);
    check_same(kit, a, 0, b, 0, DATA_TRAIN, 0);
    check_same(kit, a, 1, b, 1, DATA_VALIDATION, 0);
    data_close(b);
    data_close(a);
}

TEST(climate__has_rare_classes)
{
    struct kit *kit = *cmocka_state;
    struct data_set *set = kit_open(kit, "{name: deepcam, data_dir: synthetic}");
    int64_t *mask = ebb_alloc(768 * 1152 * sizeof *mask);
    double counts[3] = {0};
    for (uint64_t i = 0; i < 8; i++) {
        CHECK_OK(data_read(set, DATA_TRAIN, i, 0, 0, (void *[]){NULL, mask}, &kit->err), &kit->err);
        for (int k = 0; k < 768 * 1152; k++)
            counts[mask[k]]++;
    }
    double all = counts[0] + counts[1] + counts[2];
    CHECK(counts[0] / all > 0.97 && counts[0] / all < 0.999);
    CHECK(counts[1] / all > 0.0001 && counts[1] / all < 0.002);
    CHECK(counts[2] / all > 0.004 && counts[2] / all < 0.03);
    ebb_free(mask);
    data_close(set);
}

TEST(make__refuses_what_it_cannot)
{
    struct kit *kit = *cmocka_state;
    struct data_set *set = kit_open(kit, "{name: gan}");
    struct data_make_options o = {.count = {1, 0}};
    CHECK_EQ(data_make(set, kit->folder, &o, &kit->err), EBB_EUNSUPPORTED);
    data_close(set);
    set = kit_open(kit, "{name: imagefolder, data_dir: synthetic}");
    o.format = "hdf5";
    CHECK_EQ(data_make(set, kit->folder, &o, &kit->err), EBB_EINPUT);
    CHECK(strstr(kit->err.message, "jpeg png"));
    data_close(set);
}

TEST_MAIN_EACH(kit_setup, kit_teardown)
