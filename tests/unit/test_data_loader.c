/* test_data_loader.c - the loader: order, positions, memory, workers, errors. */
#include "data_support.h"
#include "torture.h"

enum { COUNT = 100, PIXELS = 20 };

struct record {
    float image[PIXELS];
    int64_t label;
};

static struct data_loader *make(struct kit *kit, const struct data_set *set,
                                struct data_loader_options o)
{
    struct data_loader *loader = NULL;
    CHECK_OK(data_loader_create(set, &o, &loader, &kit->err), &kit->err);
    return loader;
}

/* Read `batches` batches; the bytes are appended to out. Returns samples read. */
static size_t take(struct kit *kit, struct data_loader *l, size_t batch, size_t batches,
                   struct record *out)
{
    float *images = ebb_alloc(batch * PIXELS * sizeof *images);
    int64_t *labels = ebb_alloc(batch * sizeof *labels);
    size_t n = 0;
    for (size_t i = 0; i < batches; i++) {
        struct data_batch b;
        CHECK_OK(data_loader_next(l, (void *[]){images, labels}, &b, &kit->err), &kit->err);
        for (size_t k = 0; k < b.count; k++, n++) {
            memcpy(out[n].image, images + k * PIXELS, sizeof out[n].image);
            out[n].label = labels[k];
        }
    }
    ebb_free(images);
    ebb_free(labels);
    return n;
}

TEST(epoch__holds_every_sample_once)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, COUNT);
    struct data_set *set = kit_open(kit, IDX_SECTION "}");
    const struct data_info *info = data_describe(set);
    CHECK_EQ(info->count[DATA_TRAIN], COUNT);
    CHECK_EQ(info->classes, 3);
    CHECK_EQ(info->fields[0].bytes, PIXELS * 4);
    struct data_loader *l = make(
        kit, set,
        (struct data_loader_options){.batch = 8, .order = DATA_SHUFFLE, .seed = 3, .workers = 2});
    struct record got[COUNT];
    CHECK_EQ(data_loader_batches(l), 13);
    CHECK_EQ(take(kit, l, 8, 13, got), COUNT);
    int seen[COUNT] = {0}, moved = 0;
    for (int i = 0; i < COUNT; i++) {
        int first = (int)got[i].image[0]; /* 7 * image mod 256 */
        int image = -1;
        for (int j = 0; j < COUNT; j++) {
            if (7 * j % 256 == first)
                image = j;
        }
        CHECK(image >= 0 && got[i].label == image % 3);
        seen[image]++;
        moved += image != i;
    }
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(seen[i], 1);
    CHECK(moved > COUNT / 2);
    data_loader_destroy(l);
    data_close(set);
}

TEST(bytes__do_not_depend_on_workers_or_buffers)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, COUNT);
    struct data_set *set = kit_open(kit, IDX_SECTION ", augment: {flip: true, crop_pad: 2}}");
    static struct record want[400], got[400];
    for (int workers = 0; workers <= 4; workers++) {
        for (uint64_t buffer = 4096; buffer <= 1 << 20; buffer *= 16) {
            struct data_loader *l = make(kit, set,
                                         (struct data_loader_options){.batch = 7,
                                                                      .order = DATA_SHUFFLE,
                                                                      .seed = 11,
                                                                      .workers = workers,
                                                                      .buffer_bytes = buffer});
            struct record *to = workers == 0 && buffer == 4096 ? want : got;
            CHECK_EQ(take(kit, l, 7, 45, to), 3 * COUNT);
            CHECK(memcmp(want, to, sizeof *want * 3 * COUNT) == 0);
            struct data_stats stats;
            data_loader_stats(l, &stats);
            CHECK(stats.private_bytes <= buffer);
            CHECK_EQ(stats.samples, 3 * COUNT);
            data_loader_destroy(l);
        }
    }
    CHECK(memcmp(want, want + COUNT, sizeof *want * COUNT) != 0); /* epochs differ */
    data_close(set);
}

TEST(position__resumes_at_any_batch_with_the_same_bytes)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, COUNT);
    struct data_set *set = kit_open(kit, IDX_SECTION ", augment: {flip: true}}");
    static struct record want[330], got[330];
    struct data_loader_options o = {
        .batch = 9, .order = DATA_SHUFFLE, .seed = 5, .drop_last = true};
    struct data_loader *l = make(kit, set, o);
    size_t total = take(kit, l, 9, 33, want);
    CHECK_EQ(total, 33 * 9);
    data_loader_destroy(l);
    for (size_t at = 0; at < 33; at++) {
        o.workers = (int)(at % 4);
        l = make(kit, set, o);
        struct data_position p, q;
        CHECK_EQ(take(kit, l, 9, at, got), at * 9);
        data_loader_save(l, &p);
        data_loader_destroy(l);
        struct ebb_str text;
        struct ebb_json_writer w;
        ebb_str_init(&text);
        ebb_jsonw_init(&w, &text, 0);
        data_position_write(&p, &w);
        const struct ebb_doc_node *node = NULL;
        CHECK_OK(ebb_doc_parse_json(&kit->arena, "p", text.data, text.length, &node, &kit->err),
                 &kit->err);
        CHECK_OK(data_position_read(node, &q, &kit->err), &kit->err);
        ebb_str_fini(&text);
        o.workers = (int)((at + 2) % 4);
        l = make(kit, set, o);
        take(kit, l, 9, at % 3, got + at * 9); /* it may have run on before */
        CHECK_OK(data_loader_restore(l, &q, &kit->err), &kit->err);
        take(kit, l, 9, 33 - at, got + at * 9);
        CHECK(memcmp(want, got, sizeof *want * total) == 0);
        data_loader_destroy(l);
    }
    data_close(set);
}

TEST(position__of_another_run_is_refused)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, COUNT);
    struct data_set *set = kit_open(kit, IDX_SECTION "}");
    struct data_loader *l = make(kit, set, (struct data_loader_options){.batch = 10, .seed = 5});
    struct data_position p;
    data_loader_save(l, &p);
    p.seed = 6;
    CHECK_EQ(data_loader_restore(l, &p, &kit->err), EBB_EINPUT);
    CHECK(strstr(kit->err.message, "seed 6, this loader 5"));
    p.seed = 5;
    p.batch = 10;
    CHECK_EQ(data_loader_restore(l, &p, &kit->err), EBB_EINPUT);
    CHECK(strstr(kit->err.message, "10 batches"));
    data_loader_destroy(l);
    data_close(set);
}

TEST(ranks__share_the_epoch)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, COUNT);
    struct data_set *set = kit_open(kit, IDX_SECTION "}");
    int seen[256] = {0};
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct record got[40];
        struct data_loader *l = make(kit, set,
                                     (struct data_loader_options){.batch = 34,
                                                                  .order = DATA_SHUFFLE,
                                                                  .seed = 1,
                                                                  .world = 3,
                                                                  .rank = rank,
                                                                  .workers = 1});
        CHECK_EQ(take(kit, l, 34, 1, got), 34); /* 102: two samples are seen twice */
        for (int i = 0; i < 34; i++)
            seen[(int)got[i].image[0]]++;
        data_loader_destroy(l);
    }
    int twice = 0;
    for (int i = 0; i < COUNT; i++) {
        CHECK(seen[7 * i % 256] >= 1);
        twice += seen[7 * i % 256] == 2;
    }
    CHECK_EQ(twice, 2);
    data_close(set);
}

TEST(validation__ends_after_one_epoch)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, COUNT);
    struct data_set *set = kit_open(kit, IDX_SECTION ", val_subset: 50}");
    struct data_loader_options o;
    data_loader_options_of(set, DATA_VALIDATION, &o);
    o.batch = 32;
    struct data_loader *l = make(kit, set, o);
    struct data_batch b;
    float images[32 * PIXELS];
    void *fields[] = {images, NULL};
    CHECK_OK(data_loader_next(l, fields, &b, &kit->err), &kit->err);
    CHECK(b.count == 32 && !b.is_last);
    CHECK_OK(data_loader_next(l, fields, &b, &kit->err), &kit->err);
    CHECK(b.count == 18 && b.is_last && b.index == 1);
    CHECK_OK(data_loader_next(l, fields, &b, &kit->err), &kit->err);
    CHECK_EQ(b.count, 0);
    data_loader_destroy(l);
    data_close(set);
}

TEST(buffer__too_small_is_refused_with_the_number)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, COUNT);
    struct data_set *set = kit_open(kit, IDX_SECTION "}");
    struct data_loader *l = NULL;
    struct data_loader_options o = {.batch = 4, .order = DATA_SHUFFLE, .buffer_bytes = 100};
    CHECK_EQ(data_loader_create(set, &o, &l, &kit->err), EBB_EBUDGET);
    CHECK(strstr(kit->err.message, "buffer of 100 bytes"));
    o.buffer_bytes = 1 << 20;
    o.batch = 101;
    o.drop_last = true;
    CHECK_EQ(data_loader_create(set, &o, &l, &kit->err), EBB_EINPUT);
    data_close(set);
}

TEST(error__names_file_and_offset_and_position_stands_still)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, COUNT);
    struct data_set *set = kit_open(kit, IDX_SECTION "}");
    char path[128];
    snprintf(path, sizeof path, "%s/images", kit->folder);
    for (int round = 0; round < 6; round++) { /* a small buffer: several groups in a batch */
        struct data_loader *l =
            make(kit, set,
                 (struct data_loader_options){
                     .batch = 20, .workers = round % 3, .buffer_bytes = round < 3 ? 0 : 5000});
        float images[20 * PIXELS];
        struct data_batch b;
        void *fields[] = {images, NULL};
        CHECK_OK(data_loader_next(l, fields, &b, &kit->err), &kit->err);
        struct data_position start;
        data_loader_save(l, &start);
        CHECK_EQ(truncate(path, 16 + 20 * 50), 0); /* it shrinks while it is open */
        CHECK_OK(data_loader_restore(l, &start, &kit->err), &kit->err);
        CHECK_OK(data_loader_next(l, fields, &b, &kit->err), &kit->err);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(data_loader_next(l, fields, &b, &kit->err), EBB_ECORRUPT);
            CHECK(strstr(kit->err.message, "sample 50 of epoch 0"));
            CHECK(strstr(kit->err.message, "images: byte 1016"));
            struct data_position p;
            data_loader_save(l, &p);
            CHECK_EQ(p.batch, 2);
        }
        kit_write_idx(kit, COUNT); /* the same file, whole again */
        CHECK_OK(data_loader_next(l, fields, &b, &kit->err), &kit->err);
        CHECK_EQ(b.index, 2);
        for (int i = 0; i < 20; i++)
            CHECK(images[i * PIXELS + 3] == (float)((7 * (40 + i) + 3) % 256));
        data_loader_destroy(l);
    }
    data_close(set);
}

/* 100 records of CIFAR-10, label = record % 10, pixels = record; record `bad` has an impossible
 * one. */
static void write_cifar(const struct kit *kit, int bad)
{
    static uint8_t records[20 * 3073];
    for (int file = 0; file < 6; file++) {
        char name[32];
        snprintf(name, sizeof name, file < 5 ? "data_batch_%d.bin" : "test_batch.bin", file + 1);
        for (int i = 0; i < 20; i++) {
            int record = file * 20 + i;
            memset(records + i * 3073, record, 3073);
            records[i * 3073] = (uint8_t)(record == bad ? 255 : record % 10);
        }
        kit_write(kit, name, records, sizeof records);
    }
}

TEST(error__in_the_middle_of_a_batch_spoils_nothing)
{
    struct kit *kit = *cmocka_state;
    write_cifar(kit, 70);
    struct data_set *set = kit_open(kit, "{name: cifar10, data_dir: ., normalize: none}");
    float *images = ebb_alloc(25 * 3072 * sizeof *images);
    for (int workers = 0; workers < 3; workers++) {
        write_cifar(kit, 70);
        struct data_loader *l =
            make(kit, set, (struct data_loader_options){.batch = 25, .workers = workers});
        struct data_batch b;
        void *fields[] = {images, NULL};
        CHECK_OK(data_loader_next(l, fields, &b, &kit->err), &kit->err);
        CHECK_OK(data_loader_next(l, fields, &b, &kit->err), &kit->err);
        CHECK_EQ(data_loader_next(l, fields, &b, &kit->err), EBB_ECORRUPT);
        write_cifar(kit, -1);
        for (int batch = 2; batch < 6; batch++) {
            CHECK_OK(data_loader_next(l, fields, &b, &kit->err), &kit->err);
            CHECK_EQ(b.index, (uint64_t)batch % 4);
            for (int i = 0; i < 25; i++)
                CHECK_EQ((int)images[i * 3072 + 5], (25 * batch + i) % 100);
        }
        data_loader_destroy(l);
    }
    ebb_free(images);
    data_close(set);
}

TEST(epochs__smaller_than_what_is_ahead_keep_their_order)
{
    struct kit *kit = *cmocka_state;
    struct data_set *set = kit_open(
        kit, "{name: imagefolder, data_dir: synthetic, crop: 224, image_dtype: u8, samples: 4}");
    size_t bytes = data_describe(set)->fields[0].bytes;
    int64_t labels[2][24];
    uint8_t *image = ebb_alloc(bytes);
    for (int run = 0; run < 2; run++) { /* alone, and with many epochs ahead */
        struct data_loader *l = make(
            kit, set,
            (struct data_loader_options){
                .batch = 1, .order = DATA_SHUFFLE, .seed = 2, .workers = 2 * run, .prefetch = 64});
        for (int i = 0; i < 24; i++) {
            struct data_batch b;
            CHECK_OK(data_loader_next(l, (void *[]){image, &labels[run][i]}, &b, &kit->err),
                     &kit->err);
            CHECK_EQ(b.epoch, (uint64_t)i / 4);
        }
        data_loader_destroy(l);
    }
    CHECK(memcmp(labels[0], labels[1], sizeof labels[0]) == 0);
    ebb_free(image);
    data_close(set);
}

/* A sample of 5 x 5 x 3 floats, or bytes, and a label of eight bytes behind it: found by the sanitizer
 * of undefined behaviour. */
TEST(fields__lie_where_their_type_may)
{
    static const char *const sections[] = {
        "{name: imagefolder, data_dir: synthetic, crop: 5, samples: 3}",
        "{name: imagefolder, data_dir: synthetic, crop: 5, image_dtype: u8, samples: 3}"};
    struct kit *kit = *cmocka_state;
    for (size_t k = 0; k < 2; k++) {
        struct data_set *set = kit_open(kit, sections[k]);
        struct data_loader_options o = {.batch = 1, .order = DATA_SEQUENTIAL, .workers = 1};
        struct data_loader *l = make(kit, set, o);
        float image[75];
        for (int64_t i = 0; i < 3; i++) {
            int64_t label = -1;
            struct data_batch b;
            CHECK_OK(data_loader_next(l, (void *[]){image, &label}, &b, &kit->err), &kit->err);
            CHECK_EQ(label, i);
        }
        data_loader_destroy(l);
        data_close(set);
    }
}

static enum ebb_status open_and_read(void *context)
{
    struct kit *kit = context;
    struct data_set *set = NULL;
    struct data_loader *l = NULL;
    struct data_loader_options o = {.batch = 4, .order = DATA_SHUFFLE, .workers = 1};
    struct data_env env = {.directory = kit->folder};
    float images[4 * PIXELS];
    struct data_batch b;
    enum ebb_status status = data_open(kit->section, &env, &set, &kit->err);
    EBB_THEN(status, data_loader_create(set, &o, &l, &kit->err));
    EBB_THEN(status, data_loader_next(l, (void *[]){images, NULL}, &b, &kit->err));
    data_loader_destroy(l);
    data_close(set);
    return status;
}

TEST(memory__failing_anywhere_is_a_status_and_no_leak)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, COUNT);
    kit->section = kit_section(kit, IDX_SECTION ", train_subset: 40}");
    torture(open_and_read, kit, 1000);
}

TEST_MAIN_EACH(kit_setup, kit_teardown)
