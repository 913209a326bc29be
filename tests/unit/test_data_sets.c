/* test_data_sets.c - the datasets: what they describe, what samples hold. */
#include "data_support.h"

#include <math.h>
#include <sys/stat.h>

#include "base/file.h"
#include "data/internal.h"

static void read_one(struct kit *kit, const struct data_set *set, enum data_split split,
                     uint64_t index, uint64_t epoch, void *const *fields)
{
    CHECK_OK(data_read(set, split, index, 1, epoch, fields, &kit->err), &kit->err);
}

TEST(fashion_mnist__is_the_debian_package)
{
    struct kit *kit = *cmocka_state;
    if (access("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", R_OK) != 0) {
        skip();
        return;
    }
    struct data_set *set = kit_open(kit, "{name: fashion_mnist}");
    const struct data_info *info = data_describe(set);
    CHECK(info->count[0] == 60000 && info->count[1] == 10000 && info->classes == 10);
    CHECK(info->channels == 1 && info->height == 28 && info->width == 28);
    float image[784], min = 9, max = -9;
    int64_t label;
    read_one(kit, set, DATA_TRAIN, 0, 0, (void *[]){image, &label});
    CHECK_EQ(label, 9); /* an ankle boot */
    for (int i = 0; i < 784; i++) {
        min = image[i] < min ? image[i] : min;
        max = image[i] > max ? image[i] : max;
    }
    CHECK(fabsf(min - (0 - 0.2860f) / 0.3530f) < 1e-6f);
    CHECK(fabsf(max - (1 - 0.2860f) / 0.3530f) < 1e-6f);
    data_close(set);
    set = kit_open(kit, "{name: fashion_mnist, size: 32, channels: 3, image_dtype: u8}");
    static uint8_t wide[3 * 32 * 32];
    read_one(kit, set, DATA_TRAIN, 0, 0, (void *[]){wide, NULL});
    CHECK(memcmp(wide, wide + 1024, 1024) == 0);
    CHECK(wide[0] == 0 && wide[31] == 0);
    data_close(set);
}

TEST(cifar__reads_label_and_planes)
{
    struct kit *kit = *cmocka_state;
    static uint8_t record[2 * 3073];
    for (size_t i = 0; i < sizeof record; i++)
        record[i] = (uint8_t)(i * 7);
    record[0] = 3;
    record[3073] = 9;
    for (int i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        kit_write(kit, name, record, sizeof record);
    }
    kit_write(kit, "test_batch.bin", record, 3073);
    struct data_set *set = kit_open(kit, "{name: cifar10, data_dir: ., image_dtype: u8}");
    CHECK_EQ(data_describe(set)->count[DATA_TRAIN], 10);
    CHECK_EQ(data_describe(set)->count[DATA_VALIDATION], 1);
    static uint8_t image[3072];
    int64_t label;
    read_one(kit, set, DATA_TRAIN, 7, 0, (void *[]){image, &label});
    CHECK_EQ(label, 9);
    CHECK(memcmp(image, record + 3074, 3072) == 0);
    data_close(set);
    record[0] = 10;
    kit_write(kit, "test_batch.bin", record, 3073);
    set = kit_open(kit, "{name: cifar10, data_dir: .}");
    static float big[3072];
    CHECK_EQ(data_read(set, DATA_VALIDATION, 0, 0, 0, (void *[]){big, NULL}, &kit->err),
             EBB_ECORRUPT);
    CHECK(strstr(kit->err.message, "test_batch.bin: byte 0: label 10"));
    data_close(set);
    kit_write(kit, "test_batch.bin", record, 3000);
    CHECK(strstr(kit_refused(kit, "{name: cifar10, data_dir: .}"), "no whole number of records"));
}

/* A gzip file of these bytes. */
static void write_gzip(struct kit *kit, const char *name, const void *bytes, size_t n)
{
    char command[256];
    kit_write(kit, name, bytes, n);
    snprintf(command, sizeof command, "gzip -nf %s/%s", kit->folder, name);
    CHECK_EQ(system(command), 0);
}

TEST(idx__packed_and_damaged)
{
    struct kit *kit = *cmocka_state;
    static const char section[] = "{name: idx, train_images: images, train_labels: labels}";
    uint8_t images[16 + 40 + 1] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 4};
    uint8_t labels[8 + 3] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 0, 1};
    write_gzip(kit, "labels", labels, 10);
    write_gzip(kit, "images", images, 56);
    struct data_set *set = kit_open(kit, section);
    CHECK_EQ(data_describe(set)->count[DATA_TRAIN], 2);
    data_close(set);
    write_gzip(kit, "images", images, 57); /* a byte too many */
    CHECK(strstr(kit_refused(kit, section), "more than 40 bytes when unpacked"));
    write_gzip(kit, "images", images, 55); /* one too few */
    CHECK(strstr(kit_refused(kit, section), "promise 40 bytes of data, 39 are there"));
    images[4] = 0x7f; /* more images than any packed file of this length has */
    write_gzip(kit, "images", images, 56);
    CHECK(strstr(kit_refused(kit, section), "more than the packed data can hold"));
    images[4] = 0;
    write_gzip(kit, "images", images, 56);
    labels[7] = 3;
    write_gzip(kit, "labels", labels, 11);
    CHECK(strstr(kit_refused(kit, section), "3 labels (rank 1) for 2 images"));
}

TEST(augmentation__changes_with_epoch_and_not_with_anything_else)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, 20);
    struct data_set *set = kit_open(kit, IDX_SECTION ", augment: {crop_pad: 2, flip: true}}");
    float a[20], b[20];
    int different = 0;
    for (uint64_t i = 0; i < 20; i++) {
        read_one(kit, set, DATA_TRAIN, i, 0, (void *[]){a, NULL});
        read_one(kit, set, DATA_TRAIN, i, 0, (void *[]){b, NULL});
        CHECK(memcmp(a, b, sizeof a) == 0);
        read_one(kit, set, DATA_TRAIN, i, 1, (void *[]){b, NULL});
        different += memcmp(a, b, sizeof a) != 0;
        read_one(kit, set, DATA_VALIDATION, i, 0, (void *[]){a, NULL});
        CHECK(a[0] == (float)(7 * i % 256)); /* validation stays as it is */
    }
    CHECK(different > 10);
    data_close(set);
}

TEST(subset__is_distinct_and_the_same_for_a_seed)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, 100);
    struct data_set *a = kit_open(kit, IDX_SECTION ", train_subset: 30}");
    struct data_set *b = kit_open(kit, IDX_SECTION ", train_subset: 30}");
    int seen[256] = {0};
    for (uint64_t i = 0; i < 30; i++) {
        float x[20], y[20];
        read_one(kit, a, DATA_TRAIN, i, 0, (void *[]){x, NULL});
        read_one(kit, b, DATA_TRAIN, i, 0, (void *[]){y, NULL});
        CHECK(memcmp(x, y, sizeof x) == 0);
        CHECK_EQ(seen[(int)x[0]]++, 0);
    }
    float x[20];
    CHECK_EQ(data_read(a, DATA_TRAIN, 30, 0, 0, (void *[]){x, NULL}, &kit->err), EBB_EINPUT);
    data_close(a);
    data_close(b);
    CHECK(strstr(kit_refused(kit, IDX_SECTION ", train_subset: 101}"), "idx has 100"));
}

TEST(text__bytes_are_windows_of_the_file)
{
    struct kit *kit = *cmocka_state;
    kit_write(kit, "a.txt", "hello world, ", 13);
    kit_write(kit, "b.txt", "hello again. 0123456789", 23);
    struct data_set *set =
        kit_open(kit, "{name: text, train_files: [a.txt, b.txt], sequence_length: 8, stride: 4, "
                      "validation_fraction: 0.25}");
    const struct data_info *info = data_describe(set);
    CHECK_EQ(info->vocabulary, 256);
    CHECK_EQ(info->count[DATA_TRAIN], (27 - 9) / 4 + 1);
    CHECK_EQ(info->count[DATA_VALIDATION], 1);
    int64_t tokens[8], targets[8];
    read_one(kit, set, DATA_TRAIN, 2, 0, (void *[]){tokens, targets}); /* over the seam */
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(tokens[i], "hello world, hello again."[8 + i]);
        CHECK_EQ(targets[i], "hello world, hello again."[9 + i]);
    }
    struct ebb_str text;
    ebb_str_init(&text);
    CHECK_OK(data_decode(set, tokens, 8, &text, &kit->err), &kit->err);
    CHECK_STR(text.data, "rld, hel");
    ebb_str_fini(&text);
    data_close(set);
}

TEST(text__byte_pairs_decode_to_the_text_and_are_cached)
{
    struct kit *kit = *cmocka_state;
    struct ebb_str text, back;
    ebb_str_init(&text);
    ebb_str_init(&back);
    for (int i = 0; i < 300; i++)
        ebb_str_printf(&text, "the cat's %d mats; it'll sit  on\n\n\tthem \xc3\xa9t\xc3\xa9 \xff%c",
                       i * i, 'a' + i % 26);
    kit_write(kit, "t.txt", text.data, text.length);
    static const char section[] = "{name: text, train_files: t.txt, tokenizer: bpe, vocabulary: "
                                  "300, sequence_length: 50, validation_fraction: 0}";
    for (int round = 0; round < 2; round++) {
        struct data_set *set = kit_open(kit, section);
        const struct data_info *info = data_describe(set);
        CHECK_EQ(info->vocabulary, 300);
        int64_t tokens[50];
        ebb_str_clear(&back);
        for (uint64_t i = 0; i < info->count[DATA_TRAIN]; i++) {
            read_one(kit, set, DATA_TRAIN, i, 0, (void *[]){tokens, NULL});
            CHECK_OK(data_decode(set, tokens, 50, &back, &kit->err), &kit->err);
        }
        CHECK(back.length > 50 * info->count[DATA_TRAIN] * 3 / 2); /* it is shorter in tokens */
        CHECK(memcmp(back.data, text.data, back.length) == 0);
        int64_t *all;
        size_t count;
        CHECK_OK(data_encode(set, text.data, text.length, &all, &count, &kit->err), &kit->err);
        CHECK(memcmp(all + 50 * (info->count[DATA_TRAIN] - 1), tokens, sizeof tokens) == 0);
        ebb_free(all);
        data_close(set);
    }
    ebb_str_fini(&text);
    ebb_str_fini(&back);
}

TEST(text__merges_file_gives_the_ids_of_its_ranks)
{
    struct kit *kit = *cmocka_state;
    /* The first merges of GPT-2: ids 256, 257, 258; "!" is 0, "h" is 71, space is 220. */
    static const char merges[] = "#version: 0.2\n\xc4\xa0 t\n\xc4\xa0 a\nh e\n\xc4\xa0t he\n";
    kit_write(kit, "merges.txt", merges, sizeof merges - 1);
    kit_write(kit, "t.txt", "!h the he a thehe!", 18);
    struct data_set *set =
        kit_open(kit, "{name: text, train_files: t.txt, tokenizer: bpe, merges: merges.txt, "
                      "sequence_length: 8, validation_fraction: 0}");
    CHECK_EQ(data_describe(set)->vocabulary, 261);
    int64_t tokens[8];
    read_one(kit, set, DATA_TRAIN, 0, 0, (void *[]){tokens, NULL});
    const int64_t want[8] = {0, 71, 259, 220, 258, 257, 259, 258};
    for (int i = 0; i < 8; i++)
        CHECK_EQ(tokens[i], want[i]);
    data_close(set);
    kit_write(kit, "merges.txt", "#version: 0.2\na b\nb c\n", 22);
    kit_write(kit, "t.txt", "abc!!", 5);
    set = kit_open(kit, "{name: text, train_files: t.txt, tokenizer: bpe, merges: merges.txt, "
                        "sequence_length: 2, validation_fraction: 0}");
    read_one(kit, set, DATA_TRAIN, 0, 0, (void *[]){tokens, NULL});
    CHECK(tokens[0] == 256 && tokens[1] == 66); /* the earlier merge goes first */
    data_close(set);
    kit_write(kit, "merges.txt", "#version: 0.2\nxy z\n", 19);
    CHECK(strstr(kit_refused(kit, "{name: text, train_files: t.txt, tokenizer: bpe, merges: "
                                  "merges.txt, sequence_length: 8}"),
                 "merges.txt:2: a part of this merge"));
}

TEST(tokens__with_and_without_header)
{
    struct kit *kit = *cmocka_state;
    static uint8_t bytes[1024 + 80];
    uint32_t head[3] = {20240520, 1, 40};
    memcpy(bytes, head, sizeof head);
    for (uint16_t i = 0; i < 40; i++)
        memcpy(bytes + 1024 + 2 * i, &i, 2);
    kit_write(kit, "h.bin", bytes, sizeof bytes);
    kit_write(kit, "p.bin", bytes + 1024, 80);
    for (int i = 0; i < 2; i++) {
        char section[128];
        snprintf(section, sizeof section,
                 "{name: tokens, train_files: %s, vocabulary: 40, sequence_length: 9, "
                 "validation_fraction: 0.5}",
                 i ? "h.bin" : "p.bin");
        struct data_set *set = kit_open(kit, section);
        CHECK_EQ(data_describe(set)->count[DATA_TRAIN], 2);
        int64_t tokens[9], targets[9];
        read_one(kit, set, DATA_VALIDATION, 1, 0, (void *[]){tokens, targets});
        CHECK_EQ(tokens[0], 29);
        CHECK_EQ(targets[8], 38);
        data_close(set);
    }
    struct data_set *set =
        kit_open(kit, "{name: tokens, train_files: p.bin, vocabulary: 30, sequence_length: 9}");
    int64_t tokens[9];
    CHECK_EQ(data_read(set, DATA_TRAIN, 2, 0, 0, (void *[]){tokens, NULL}, &kit->err), EBB_OK);
    CHECK_EQ(data_read(set, DATA_TRAIN, 2, 0, 0, (void *[]){NULL, tokens}, &kit->err), EBB_OK);
    data_close(set);
    set = kit_open(kit, "{name: tokens, train_files: p.bin, vocabulary: 20, sequence_length: 9}");
    CHECK_EQ(data_read(set, DATA_TRAIN, 2, 0, 0, (void *[]){tokens, NULL}, &kit->err),
             EBB_ECORRUPT);
    CHECK(strstr(kit->err.message, "p.bin: byte 40: token 20, the vocabulary has 20"));
    data_close(set);
}

/* Every field of a sample into fresh memory; returns a hash of the bytes. */
static uint64_t sample_sum(struct kit *kit, const struct data_set *set, enum data_split split,
                           uint64_t index)
{
    const struct data_info *info = data_describe(set);
    void *fields[DATA_MAX_FIELDS] = {0};
    uint64_t sum = 14695981039346656037u;
    for (size_t f = 0; f < info->field_count; f++) {
        fields[f] = ebb_alloc(info->fields[f].bytes);
        memset(fields[f], 0xa5, info->fields[f].bytes);
    }
    read_one(kit, set, split, index, 0, fields);
    for (size_t f = 0; f < info->field_count; f++) {
        for (size_t i = 0; i < info->fields[f].bytes; i++)
            sum = (sum ^ ((uint8_t *)fields[f])[i]) * 1099511628211u;
        ebb_free(fields[f]);
    }
    return sum;
}

TEST(synthetic_bert__has_a_target_in_every_sample)
{
    struct kit *kit = *cmocka_state;
    struct data_set *set = kit_open(
        kit,
        "{name: bert, data_dir: synthetic, vocabulary: 1100, sequence_length: 8, samples: 99}");
    for (uint64_t i = 0; i < 99; i++) {
        int64_t tokens[8], targets[8], places = 0;
        void *fields[DATA_MAX_FIELDS] = {tokens, targets};
        CHECK_OK(data_read(set, DATA_TRAIN, i, 0, 0, fields, &kit->err), &kit->err);
        for (int k = 0; k < 8; k++)
            places += targets[k] >= 0;
        CHECK(places >= 1 && places < 8);
    }
    data_close(set);
}

TEST(synthetic__is_a_function_of_seed_split_and_index)
{
    struct kit *kit = *cmocka_state;
    static const char *const sections[] = {
        "{name: imagefolder, data_dir: DIR, crop: 64, resize: 80, samples: 50}",
        "{name: tokens, data_dir: DIR, vocabulary: 1000}",
        "{name: language, data_dir: DIR, sequence_length: 64}",
        "{name: trees, data_dir: DIR, depth: 5}",
        "{name: gan, data_dir: DIR, noise: 16}",
        "{name: unet, data_dir: DIR, height: 50, width: 70}",
    };
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        char a[160], b[160];
        const char *at = strstr(sections[i], "DIR");
        int before = (int)(at - sections[i]);
        snprintf(a, sizeof a, "%.*ssynthetic%s", before, sections[i], at + 3);
        snprintf(b, sizeof b, "%.*s'synthetic:99'%s", before, sections[i], at + 3);
        struct data_set *one = kit_open(kit, a), *same = kit_open(kit, a);
        struct data_set *other = kit_open(kit, b);
        CHECK(data_describe(one)->is_synthetic);
        uint64_t first = sample_sum(kit, one, DATA_TRAIN, 3);
        CHECK(first == sample_sum(kit, same, DATA_TRAIN, 3));
        CHECK(first != sample_sum(kit, one, DATA_TRAIN, 4));
        CHECK(first != sample_sum(kit, one, DATA_VALIDATION, 3));
        CHECK(first != sample_sum(kit, other, DATA_TRAIN, 3));
        data_close(one);
        data_close(same);
        data_close(other);
    }
}

TEST(trees__are_trees_and_the_label_is_their_value)
{
    struct kit *kit = *cmocka_state;
    struct data_set *set = kit_open(kit, "{name: trees, depth: 4}");
    for (uint64_t s = 0; s < 50; s++) {
        int64_t words[31], label, left[31], right[31], nodes, value[31], used[31] = {0};
        read_one(kit, set, DATA_TRAIN, s, 0, (void *[]){words, &label, left, right, &nodes});
        CHECK(nodes >= 1 && nodes <= 31);
        for (int64_t i = 0; i < nodes; i++) {
            if (left[i] < 0) {
                CHECK(right[i] < 0 && words[i] < 10);
                value[i] = words[i];
                continue;
            }
            CHECK(left[i] < i && right[i] < i && words[i] >= 10 && words[i] < 15);
            used[left[i]]++;
            used[right[i]]++;
            int64_t x = value[left[i]], y = value[right[i]];
            int64_t results[] = {(x + y) % 10, x > y ? x : y, x < y ? x : y, x, y};
            value[i] = results[words[i] - 10];
        }
        for (int64_t i = 0; i < nodes; i++)
            CHECK_EQ(used[i], i == nodes - 1 ? 0 : 1);
        CHECK_EQ(value[nodes - 1], label);
        for (int64_t i = nodes; i < 31; i++)
            CHECK(words[i] == -1 && left[i] == -1);
    }
    data_close(set);
    set = kit_open(kit, "{name: trees, depth: 9, full: true}");
    CHECK_EQ(data_describe(set)->fields[0].dims[0], 1023);
    data_close(set);
}

TEST(language__is_far_from_uniform)
{
    struct kit *kit = *cmocka_state;
    struct data_set *set = kit_open(kit, "{name: language, vocabulary: 512, sequence_length: 256}");
    /* Tokens after one context: four at most. */
    int64_t tokens[256], targets[256];
    int seen[512] = {0}, kinds = 0, hits = 0;
    for (uint64_t s = 0; s < 200; s++) {
        read_one(kit, set, DATA_TRAIN, s, 0, (void *[]){tokens, targets});
        for (int i = 1; i < 256; i++) {
            CHECK_EQ(tokens[i], targets[i - 1]);
            if (tokens[i - 1] % 8 == 1 && tokens[i] % 32 == 3) {
                kinds += seen[targets[i]]++ == 0;
                hits++;
            }
        }
    }
    CHECK(hits > 20);
    CHECK(kinds <= 4);
    data_close(set);
}

TEST(section__mistakes_are_told_all_at_once)
{
    struct kit *kit = *cmocka_state;
    CHECK(strstr(kit_refused(kit, "{name: fashion_mnst}"), "nearest: fashion_mnist"));
    CHECK(strstr(kit_refused(kit, "{nme: x}"),
                 "data.name: required but missing, allowed: fashion_mnist, idx"));
    const char *message = kit_refused(
        kit, "{name: fashion_mnist, sise: 3, channels: 0, normalize: standart, workers: x}");
    CHECK(strstr(message, "1:23: data.sise: unknown key for dataset "));
    CHECK(strstr(message, "(and 3 more)"));
    CHECK(strstr(kit_refused(kit, "{name: fashion_mnist, channels: 0}"),
                 "data.channels: found 0, allowed: an integer >= 1, <= 65536"));
    CHECK(strstr(kit_refused(kit, "{name: fashion_mnist, normalize: standart}"),
                 "found \"standart\", allowed: standard, unit, none; nearest: standard"));
    CHECK(strstr(kit_refused(kit, "{name: imagefolder}"), "data.data_dir: required but missing"));
    CHECK(strstr(kit_refused(kit, "{name: imagefolder, data_dir: x, tokenizer: byte}"),
                 "data.tokenizer: unknown key for dataset imagefolder"));
    CHECK(strstr(kit_refused(kit, "{name: imagefolder, data_dir: 'synthetic:x'}"),
                 "synthetic:<seed>"));
    CHECK(strstr(kit_refused(kit, "{name: imagefolder, data_dir: x, augment: {flop: true}}"),
                 "data.augment.flop: unknown key, nearest: flip"));
    CHECK(
        strstr(kit_refused(kit, "{name: idx, train_images: no, train_labels: no}"), "cannot open"));
    struct data_env env = {.benchmark = "resnet50"};
    CHECK(kit_check(kit,
                    "{data_dir: synthetic, global_batch_size: 8, n_epochs: 2, prefetch: 4, "
                    "drop_last_batch: True}",
                    &env));
}

TEST(options__are_the_sections_and_the_datasets)
{
    struct kit *kit = *cmocka_state;
    struct data_loader_options o;
    struct data_set *set =
        kit_open(kit, "{name: trees, shuffle: false, workers: 3, prefetch: 5, buffer: 1MiB, "
                      "drop_last_batch: false}");
    data_loader_options_of(set, DATA_TRAIN, &o);
    CHECK(o.order == DATA_SEQUENTIAL && o.workers == 3 && o.prefetch == 5);
    CHECK(o.buffer_bytes == 1 << 20 && !o.drop_last && !o.sampler_drop_last && o.epochs == 0);
    data_close(set);
    set = kit_open(kit, "{name: deepcam, data_dir: synthetic, rng: torch}");
    data_loader_options_of(set, DATA_TRAIN, &o);
    CHECK(o.order == DATA_SHUFFLE_TORCH && o.sampler_drop_last && o.drop_last);
    data_loader_options_of(set, DATA_VALIDATION, &o);
    CHECK(o.order == DATA_SEQUENTIAL && o.shard == DATA_SHARD_BLOCK && !o.drop_last);
    CHECK(o.epochs == 1 && o.split == DATA_VALIDATION && !o.sampler_drop_last);
    data_close(set);
}

TEST(section__benchmark_files_are_understood)
{
    struct kit *kit = *cmocka_state;
    static const struct {
        const char *benchmark, *section;
    } files[] = {
        {"resnet50", "{data_dir: /d, global_batch_size: 1024, local_batch_size: 128, "
                     "gradient_accumulation_freq: -1, train_subset: 2048, val_subset: 512, "
                     "drop_last_batch: True, shuffle: True, n_epochs: 10, prefetch: 4}"},
        {"deepcam", "{data_dir: /d, global_batch_size: 32, local_batch_size: 1, "
                    "gradient_accumulation_freq: 1, shuffle: true, n_epochs: 10, prefetch: 4}"},
        {"cosmoflow", "{data_dir: /d, h5: True, global_batch_size: 32, local_batch_size: 8, "
                      "n_epochs: 10, n_train: 2048, n_eval: 512, gradient_accumulation_freq: 1, "
                      "compression: gzip, apply_log: True, shuffle: True, prefetch: 16}"},
        {"bert", "{data_dir: /d, global_batch_size: 16, global_eval_batch_size: 64, shuffle: True, "
                 "n_epochs: 128, prefetch: 4}"},
        {"gpt", "{data_dir: synthetic, n_epochs: 128, global_batch_size: 4096, "
                "gradient_accumulation: 4}"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct data_env env = {.benchmark = files[i].benchmark};
        CHECK(kit_check(kit, files[i].section, &env));
        env.benchmark = NULL; /* an experiment file names its dataset and has no batch keys */
        CHECK(!kit_check(kit, files[i].section, &env));
    }
}

TEST(page__names_every_dataset_and_key)
{
    struct ebb_file_view view;
    struct ebb_error err = {0};
    CHECK_OK(ebb_file_view_open(&view, EBB_SOURCE_DIR "/docs/data.md", 1 << 20, &err), &err);
    char *page = ebb_strndup(view.data, view.length);
    for (size_t i = 0; data_name(i); i++) {
        const struct data_row *row = data_row_find(data_name(i));
        char word[64];
        snprintf(word, sizeof word, "`%s`", row->name);
        if (!strstr(page, word))
            fail_msg("docs/data.md does not name dataset %s", row->name);
        for (const char *at = row->keys; *at;) {
            size_t n = strcspn(at, " ");
            snprintf(word, sizeof word, "`%.*s`", (int)n, at);
            if (!strstr(page, word))
                fail_msg("docs/data.md does not tell of %s", word);
            at += n;
            at += *at == ' ';
        }
    }
    ebb_free(page);
    ebb_file_view_close(&view);
}

TEST_MAIN_EACH(kit_setup, kit_teardown)
