/* test_data_formats.c - the reference files, and formats as other programs write them. */
#include "data_support.h"

#include "base/file.h"
#include "tensor/tensor.h"

#define GOLDEN EBB_SOURCE_DIR "/tests/golden/"

struct counts {
    const struct tensor_file *file;
    int passed, failed;
};

static void count_case(void *context, const char *group, const char *name, const char *failure)
{
    struct counts *c = context;
    if (failure)
        print_message("%s/%s: %s\n", group, name, failure);
    c->failed += failure != NULL;
    c->passed += failure == NULL;
}

static bool find_tensor(void *context, const char *name, struct data_reference *out)
{
    const struct counts *c = context;
    const struct tensor_entry *e = tensor_file_find(c->file, name);
    if (!e)
        return false;
    *out = (struct data_reference){.data = e->data,
                                   .bytes = e->bytes,
                                   .dtype = tensor_dtype_name((enum tensor_dtype)e->view.dtype),
                                   .rank = e->view.rank};
    for (int i = 0; i < out->rank && i < DATA_MAX_RANK; i++)
        out->dims[i] = e->view.dims[i];
    return true;
}

TEST(reference__formats)
{
    struct ebb_file_view view;
    struct tensor_file file;
    struct ebb_error err = {0};
    struct counts c = {.file = &file};
    CHECK_OK(ebb_file_view_open(&view, GOLDEN "data/formats/expected.safetensors", 1 << 20, &err),
             &err);
    CHECK_OK(tensor_file_read(&file, "expected", view.data, view.length, &err), &err);
    CHECK_OK(data_golden_formats(GOLDEN "data/formats", find_tensor, count_case, &c, &err), &err);
    CHECK_EQ(c.failed, 0);
    CHECK_EQ(c.passed, 11);
    tensor_file_fini(&file);
    ebb_file_view_close(&view);
}

TEST(batches__say_whether_devices_divide_them)
{
    struct ebb_error err = {0};
    struct data_batching b = {
        .devices = 3, .global_batch = 32, .accumulation = 1, .cap = 64, .samples = 2048};
    CHECK_OK(data_batch_plan(&b, &err), &err);
    CHECK(!b.is_exact && b.effective == 30);
    b.global_batch = 2;
    CHECK_EQ(data_batch_plan(&b, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "the least is 3"));
}

TEST(npy__reads_arrays_and_decides_what_they_are_for)
{
    struct kit *kit = *cmocka_state;
    char x[128 + 24 * 2] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<i2', 'fortran_order': False, "
                           "'shape': (4, 2, 3), }";
    char y[128 + 4] = "\x93NUMPY\x01\x00\x76\x00{'descr': '|u1', 'fortran_order': False, "
                      "'shape': (4,), }";
    for (int i = 0; i < 128; i++) {
        x[i] = x[i] || i < 10 ? x[i] : ' ';
        y[i] = y[i] || i < 10 ? y[i] : ' ';
    }
    for (int16_t i = 0; i < 24; i++) {
        int16_t v = (int16_t)(i - 12);
        memcpy(x + 128 + 2 * i, &v, 2);
    }
    memcpy(y + 128, "\2\0\1\4", 4);
    kit_write(kit, "x.npy", x, sizeof x);
    kit_write(kit, "y.npy", y, sizeof y);
    struct data_set *set = kit_open(kit, "{name: npy, train_files: [x.npy, y.npy]}");
    const struct data_info *info = data_describe(set);
    CHECK(info->kind == DATA_CLASSES && info->classes == 5);
    CHECK(info->fields[0].dtype == DATA_F32 && info->fields[0].rank == 2);
    float v[6];
    int64_t label;
    CHECK_OK(data_read(set, DATA_TRAIN, 3, 0, 0, (void *[]){v, &label}, &kit->err), &kit->err);
    CHECK(v[0] == 6 && v[5] == 11 && label == 4);
    data_close(set);
    x[128] = 'x';
    kit_write(kit, "x.npy", x, sizeof x - 2);
    CHECK(strstr(kit_refused(kit, "{name: npy, train_files: [x.npy, y.npy]}"),
                 "x.npy: byte 0: NPY: the shape promises more than the 46 bytes"));
    /* the same array, columns first */
    for (int16_t i = 0; i < 24; i++) {
        int16_t value = (int16_t)(i - 12);
        int sample = i / 6, row = i / 3 % 2, column = i % 3;
        memcpy(x + 128 + 2 * (sample + 4 * (row + 2 * column)), &value, 2);
    }
    memcpy(strstr(x + 10, "False"), "True ", 5);
    kit_write(kit, "x.npy", x, sizeof x);
    set = kit_open(kit, "{name: npy, train_files: [x.npy, y.npy]}");
    CHECK_OK(data_read(set, DATA_TRAIN, 3, 0, 0, (void *[]){v, &label}, &kit->err), &kit->err);
    for (int i = 0; i < 6; i++)
        CHECK(v[i] == (float)(6 + i));
    CHECK(data_describe(set)->resident_bytes >= 48);
    data_close(set);
}

TEST(tfrecord__fields_of_any_file)
{
    struct kit *kit = *cmocka_state;
    char section[512];
    snprintf(section, sizeof section,
             "{name: tfrecord, data_dir: %s, train_files: [cosmo_4.tfrecord, cosmo_4.tfrecord.gz], "
             "fields: ['x:i16:4x4x4x4', 'y:f32:4']}",
             GOLDEN "data/formats");
    struct data_set *set = kit_open(kit, section);
    CHECK_EQ(data_describe(set)->count[DATA_TRAIN], 2);
    int16_t x[2][256];
    float y[2][4];
    for (uint64_t i = 0; i < 2; i++)
        CHECK_OK(data_read(set, DATA_TRAIN, i, 0, 0, (void *[]){x[i], y[i]}, &kit->err), &kit->err);
    CHECK(memcmp(x[0], x[1], sizeof x[0]) == 0 && memcmp(y[0], y[1], sizeof y[0]) == 0);
    data_close(set);
    struct ebb_file_view view;
    CHECK_OK(ebb_file_view_open(&view, GOLDEN "data/formats/cosmo_4.tfrecord", 1 << 20, &kit->err),
             &kit->err);
    char *bad = ebb_alloc(view.length);
    memcpy(bad, view.data, view.length);
    bad[300] ^= 1;
    kit_write(kit, "bad", bad, view.length);
    set = kit_open(kit, "{name: tfrecord, train_files: bad, fields: ['x:i16:4x4x4x4']}");
    CHECK_EQ(data_read(set, DATA_TRAIN, 0, 0, 0, (void *[]){x[0]}, &kit->err), EBB_ECORRUPT);
    CHECK(strstr(kit->err.message, "the checksum of the record at 0 is wrong"));
    data_close(set);
    bad[3] ^= 1;
    kit_write(kit, "bad", bad, view.length);
    CHECK(strstr(kit_refused(kit, "{name: tfrecord, train_files: bad, fields: ['x:i16:4']}"),
                 "checksum of the length"));
    ebb_free(bad);
    ebb_file_view_close(&view);
}

TEST(hdf5__datasets_by_path)
{
    struct kit *kit = *cmocka_state;
    char section[512];
    snprintf(section, sizeof section,
             "{name: hdf5, data_dir: %s, train_files: bert_part.h5, fields: [input_ids, "
             "next_sentence_labels]}",
             GOLDEN "data/formats");
    struct data_set *set = kit_open(kit, section);
    const struct data_info *info = data_describe(set);
    CHECK(info->count[DATA_TRAIN] == 3 && info->kind == DATA_CLASSES && info->classes == 2);
    float ids[16];
    int64_t label;
    CHECK_OK(data_read(set, DATA_TRAIN, 1, 0, 0, (void *[]){ids, &label}, &kit->err), &kit->err);
    CHECK_EQ(label, 1);
    data_close(set);
    snprintf(section, sizeof section,
             "{name: hdf5, data_dir: %s, train_files: bert_part.h5, fields: [inputs]}",
             GOLDEN "data/formats");
    CHECK(strstr(kit_refused(kit, section), "no dataset inputs"));
}

/* Every cut of a reference file is an error or gives samples; nothing else happens. */
TEST(files__cut_anywhere_are_refused_or_read)
{
    struct kit *kit = *cmocka_state;
    static const char *const names[] = {"cosmo_4.tfrecord", "cosmo_4.tfrecord.gz", "cosmo_4.h5",
                                        "imagefolder/train/n01/img0.png"};
    static const char *const sections[] = {
        "{name: tfrecord, train_files: cut, fields: ['x:i16:4x4x4x4', 'y:f32:4']}",
        "{name: tfrecord, train_files: cut, fields: ['x:i16:4x4x4x4', 'y:f32:4']}",
        "{name: hdf5, train_files: cut, fields: [x]}",
        "{name: imagefolder, data_dir: ., resize: 32, crop: 28, decode_bytes: 1MiB}"};
    char command[256];
    snprintf(command, sizeof command, "mkdir -p %s/train/a", kit->folder);
    CHECK_EQ(system(command), 0);
    uint64_t live = ebb_heap_live();
    for (size_t i = 0; i < 4; i++) {
        char path[256];
        struct ebb_file_view view;
        snprintf(path, sizeof path, "%s%s", GOLDEN "data/formats/", names[i]);
        CHECK_OK(ebb_file_view_open(&view, path, 1 << 20, &kit->err), &kit->err);
        uint64_t open = ebb_heap_live();
        for (size_t n = 0; n < view.length; n += 1 + n / 50) {
            struct data_set *set = NULL;
            struct data_env env = {.directory = kit->folder};
            struct ebb_arena arena;
            const struct ebb_doc_node *section;
            static float fields[2][8192];
            kit_write(kit, i == 3 ? "train/a/cut.png" : "cut", view.data, n);
            ebb_arena_init(&arena);
            CHECK_OK(ebb_doc_parse_yaml(&arena, "t", sections[i], strlen(sections[i]), &section,
                                        &kit->err),
                     &kit->err);
            kit->err.message[0] = '\0';
            enum ebb_status status = data_open(section, &env, &set, &kit->err);
            if (status == EBB_OK)
                status = data_read(set, DATA_TRAIN, 0, 0, 0, (void *[]){fields[0], fields[1]},
                                   &kit->err);
            CHECK(status == EBB_OK || kit->err.message[0]);
            CHECK(status == EBB_OK || status == EBB_ECORRUPT || status == EBB_EINPUT ||
                  status == EBB_ELIMIT);
            CHECK(i > 1 || status != EBB_OK); /* a checksum covers it all */
            data_close(set);
            ebb_arena_fini(&arena);
            CHECK_EQ(ebb_heap_live(), open);
        }
        ebb_file_view_close(&view);
    }
    CHECK_EQ(ebb_heap_live(), live);
}

TEST_MAIN_EACH(kit_setup, kit_teardown)
