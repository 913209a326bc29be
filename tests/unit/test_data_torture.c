/* test_data_torture.c - every dataset with each of its allocations failing in turn, and every
 * dataset read by several workers at once: the same bytes as one reader alone. */
#include "data_support.h"

#define GOLDEN EBB_SOURCE_DIR "/tests/golden/data/"

static const char *const sections[] = {
    IDX_SECTION ", augment: {flip: true}}",
    "{name: imagefolder, data_dir: '" GOLDEN "formats/imagefolder', resize: 32, crop: 28}",
    "{name: imagefolder, data_dir: pictures, resize: 32, crop: 28, augment: {flip: true, "
    "random_resized_crop: true}}",
    "{name: imagefolder, data_dir: synthetic, resize: 64, crop: 48, classes: 5, samples: 20}",
    "{name: text, train_files: t.txt, sequence_length: 16}",
    "{name: text, train_files: t.txt, tokenizer: bpe, vocabulary: 280, sequence_length: 16}",
    "{name: tokens, train_files: t.txt, vocabulary: 65536, sequence_length: 16}",
    "{name: npz, train_files: '" GOLDEN "arrays.npz'}",
    "{name: npz, train_files: '" GOLDEN "decoded.npz', fields: [x]}",
    "{name: hdf5, train_files: '" GOLDEN "variants.h5', fields: [chunk_all]}",
    "{name: hdf5, train_files: '" GOLDEN "formats/bert_part.h5', fields: [input_ids, segment_ids]}",
    "{name: tfrecord, train_files: ['" GOLDEN "formats/cosmo_4.tfrecord', '" GOLDEN
    "formats/cosmo_4.tfrecord.gz'], fields: ['x:i16:4x4x4x4', 'y:f32:4']}",
    "{name: deepcam, data_dir: '" GOLDEN "formats/deepcam'}",
    "{name: deepcam, data_dir: synthetic, height: 20, width: 30, samples: 9}",
    "{name: cosmoflow, data_dir: synthetic, size: 8, samples: 9}",
    "{name: bert, data_dir: shards, vocabulary: 100}",
    "{name: bert, data_dir: synthetic, samples: 9, sequence_length: 20}",
    "{name: language, samples: 9, sequence_length: 20}",
    "{name: trees, samples: 9}",
    "{name: gan, samples: 9}",
    "{name: unet, samples: 5, height: 20, width: 30}",
};
enum { SECTIONS = sizeof sections / sizeof sections[0] };

static void prepare(struct kit *kit)
{
    static char text[4000];
    char command[2048];
    kit_init(kit);
    kit_write_idx(kit, 30);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "the quick brown fox "[i * i % 20];
    kit_write(kit, "t.txt", text, sizeof text);
    snprintf(command, sizeof command,
             "mkdir -p %s/shards/train %s/pictures/train/a %s/pictures/train/b && cp '%s' "
             "%s/shards/train && cp '%s' '%s' %s/pictures/train/a && cp '%s' %s/pictures/train/b",
             kit->folder, kit->folder, kit->folder, GOLDEN "formats/bert_part.h5", kit->folder,
             GOLDEN "plain.jpg", GOLDEN "progressive.jpg", kit->folder, GOLDEN "palette.png",
             kit->folder);
    CHECK_EQ(system(command), 0);
}

/* One batch of everything, as one block of bytes; NULL when a status came back. */
static uint8_t *read_batch(struct kit *kit, const struct ebb_doc_node *section, int workers,
                           size_t *bytes, enum ebb_status *status)
{
    struct data_env env = {.directory = kit->folder, .cache = kit->folder, .seed = 5};
    struct data_set *set = NULL;
    struct data_loader *l = NULL;
    struct data_batch b;
    void *fields[DATA_MAX_FIELDS] = {0};
    uint8_t *memory = NULL;
    enum { BATCH = 7 };
    *status = data_open(section, &env, &set, &kit->err);
    if (*status == EBB_OK) {
        const struct data_info *info = data_describe(set);
        struct data_loader_options o = {.batch = BATCH,
                                        .order = DATA_SHUFFLE,
                                        .seed = 9,
                                        .workers = workers,
                                        .buffer_bytes = UINT64_C(200) << 20};
        *bytes = 2 * BATCH * info->sample_bytes;
        memory = calloc(1, *bytes); /* not counted: the caller's memory */
        *status = data_loader_create(set, &o, &l, &kit->err);
        for (int round = 0; round < 2 && *status == EBB_OK; round++) {
            uint8_t *at = memory + (size_t)round * BATCH * info->sample_bytes;
            for (size_t f = 0; f < info->field_count; f++) {
                fields[f] = at;
                at += BATCH * info->fields[f].bytes;
            }
            *status = data_loader_next(l, fields, &b, &kit->err);
        }
    }
    data_loader_destroy(l);
    data_close(set);
    if (*status != EBB_OK) {
        free(memory);
        return NULL;
    }
    return memory;
}

TEST(workers__give_the_bytes_of_one_reader)
{
    struct kit kit;
    prepare(&kit);
    for (size_t i = 0; i < SECTIONS; i++) {
        const struct ebb_doc_node *section = kit_section(&kit, sections[i]);
        enum ebb_status status;
        size_t bytes = 0;
        uint8_t *want = read_batch(&kit, section, 0, &bytes, &status);
        if (!want)
            fail_msg("%s: %s", sections[i], kit.err.message);
        for (int workers = 1; workers <= 3; workers += 2) {
            uint8_t *got = read_batch(&kit, section, workers, &bytes, &status);
            CHECK(got != NULL);
            CHECK(memcmp(want, got, bytes) == 0);
            free(got);
        }
        free(want);
    }
    kit_fini(&kit);
}

TEST(allocations__failing_in_turn_are_a_status)
{
    struct kit kit;
    prepare(&kit);
    for (size_t i = 0; i < SECTIONS; i++) {
        const struct ebb_doc_node *section = kit_section(&kit, sections[i]);
        uint64_t live = ebb_heap_live();
        for (uint64_t nth = 1;; nth += 1 + nth / 64) {
            enum ebb_status status;
            size_t bytes;
            char command[256]; /* nothing cached from the round before */
            if (strstr(sections[i], "bpe")) {
                snprintf(command, sizeof command, "rm -f %s/*.merges %s/*.tokens", kit.folder,
                         kit.folder);
                CHECK_EQ(system(command), 0);
            }
            ebb_heap_fail_at(nth);
            uint8_t *memory = read_batch(&kit, section, 0, &bytes, &status);
            ebb_heap_fail_at(0);
            CHECK_EQ(ebb_heap_live(), live);
            free(memory);
            if (status == EBB_OK)
                break;
            if (status != EBB_ENOMEM)
                fail_msg("%s: allocation %llu: %s", sections[i], (unsigned long long)nth,
                         kit.err.message);
            CHECK(nth < 100000);
        }
    }
    kit_fini(&kit);
}

TEST_MAIN()
