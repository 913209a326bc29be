/* Data of one's own: pictures that a table names, a command that is asked, inputs from outside. */
#include "data_support.h"

#include <math.h>
#include <sys/stat.h>

#include "data/image.h"
#include "data/internal.h"

static void put(struct kit *kit, const char *name, const char *text)
{
    kit_write(kit, name, text, strlen(text));
}

static void put_picture(struct kit *kit, const char *name, uint8_t first, int64_t width,
                        int64_t height)
{
    static uint8_t rgb[64 * 64 * 3];
    char path[256];
    for (int64_t i = 0; i < width * height * 3; i++)
        rgb[i] = (uint8_t)(first + i * 5);
    snprintf(path, sizeof path, "%s/%s", kit->folder, name);
    CHECK_OK(data_png_write(path, rgb, width, height, &kit->err), &kit->err);
}

#define TABLE                                                                                      \
    "{name: imagefolder, data_dir: p, train_labels: t.csv, val_labels: v.csv, resize: 4, crop: "   \
    "4, "                                                                                          \
    "normalize: none"

static void put_pictures(struct kit *kit)
{
    char path[128];
    snprintf(path, sizeof path, "%s/p", kit->folder);
    CHECK_EQ(mkdir(path, 0700), 0);
    put_picture(kit, "p/a.png", 0, 4, 4);
    put_picture(kit, "p/b.png", 40, 4, 4);
    put_picture(kit, "p/c d.png", 90, 4, 4);
}

TEST(table_of_labels__names_pictures_and_their_classes)
{
    struct kit *kit = *cmocka_state;
    put_pictures(kit);
    put(kit, "t.csv", "file,label,other\na.png,dog,1\n\"c d.png\",cat,2\nb.png,dog,3\n");
    put(kit, "v.csv", "label,file\ncat,b.png\n");
    struct data_set *set = kit_open(kit, TABLE "}");
    const struct data_info *info = data_describe(set);
    float x[48];
    int64_t y;
    CHECK(info->count[0] == 3 && info->count[1] == 1 && info->classes == 2);
    CHECK_STR(data_class_name(set, 0), "cat");
    CHECK_STR(data_class_name(set, 1), "dog");
    CHECK(data_class_name(set, 2) == NULL && data_class_name(set, -1) == NULL);
    CHECK_OK(data_read(set, DATA_TRAIN, 1, 0, 0, (void *[]){x, &y}, &kit->err), &kit->err);
    CHECK(y == 0 && x[0] == 90 && x[1] == 105 && x[16] == 95);
    CHECK_OK(data_read(set, DATA_VALIDATION, 0, 0, 0, (void *[]){x, &y}, &kit->err), &kit->err);
    CHECK(y == 0 && x[0] == 40);
    data_close(set);
}

TEST(table_of_labels__may_have_numbers)
{
    struct kit *kit = *cmocka_state;
    put_pictures(kit);
    put(kit, "t.csv", "file,u,v\na.png,1.5,2\nb.png,-3,4\n");
    put(kit, "v.csv", "file,u,v\nb.png,0,1\n");
    struct data_set *set = kit_open(kit, TABLE ", target: [v, u]}");
    float x[48], y[2];
    CHECK_EQ(data_describe(set)->kind, DATA_NUMBERS);
    CHECK_EQ(data_describe(set)->fields[1].dims[0], 2);
    CHECK_EQ(data_describe(set)->sample_bytes, 48 * 4 + 8);
    CHECK_OK(data_read(set, DATA_TRAIN, 1, 0, 0, (void *[]){x, y}, &kit->err), &kit->err);
    CHECK(y[0] == 4 && y[1] == -3);
    data_close(set);
}

TEST(table_of_labels__mistakes_say_where)
{
    struct kit *kit = *cmocka_state;
    put_pictures(kit);
    put(kit, "v.csv", "file,label\nb.png,dog\n");
    put(kit, "t.csv", "file,lable\na.png,dog\n");
    CHECK(strstr(kit_refused(kit, TABLE "}"), "has no column 'label'; nearest: lable"));
    put(kit, "t.csv", "file,label\na.png,dog\nb.png,\n");
    CHECK(strstr(kit_refused(kit, TABLE "}"), "t.csv:3: column 2 (label): found ''"));
    put(kit, "t.csv", "file,label\na.png,bird\n");
    CHECK(strstr(kit_refused(kit, TABLE "}"), "v.csv: row 1 of values: 'dog' is no class"));
    put(kit, "t.csv", "file,label\ngone.png,dog\n");
    struct data_set *set = kit_open(kit, TABLE "}");
    float x[48];
    CHECK(data_read(set, DATA_TRAIN, 0, 0, 0, (void *[]){x, NULL}, &kit->err) != EBB_OK);
    CHECK(strstr(kit->err.message, "gone.png"));
    data_close(set);
    CHECK(strstr(kit_refused(kit, "{name: imagefolder, data_dir: p, target: y}"), "train_labels"));
}

static void note_bad(void *context, const char *message)
{
    struct ebb_str *all = context;
    ebb_str_add(all, message);
    ebb_str_addc(all, '\n');
}

TEST(bad_rows__are_all_told_to_who_asks)
{
    struct kit *kit = *cmocka_state;
    struct ebb_str all = {0};
    struct data_set *set = NULL;
    struct data_env env = {.directory = kit->folder, .bad_row = note_bad, .bad_row_context = &all};
    float x[48];
    int64_t y;
    put(kit, "t.csv", "a,b,y\n1,2,u\n1,x,u\n3\n4,5,v\n6,7,8,9\n,1,u\n\"8\",9,v\n");
    put(kit, "v.csv", "a,b,y\n1,2,w\n");
    CHECK_OK(
        data_open(kit_section(kit, "{name: csv, train_files: t.csv, val_files: v.csv, target: y}"),
                  &env, &set, &kit->err),
        &kit->err);
    CHECK_EQ(data_describe(set)->count[DATA_TRAIN], 3);
    CHECK_OK(data_read(set, DATA_TRAIN, 2, 0, 0, (void *[]){x, &y}, &kit->err), &kit->err);
    CHECK(x[0] == 8 && x[1] == 9 && y == 1);
    static const char *const told[] = {"t.csv:3: column 2 (b): found 'x'", "t.csv:4: column 1",
                                       "t.csv:6: column 3", "t.csv:7: column 1 (a): found ''",
                                       "'w' is no class of the training file"};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (!strstr(ebb_str_c(&all), told[i]))
            fail_msg("%s: %s", told[i], ebb_str_c(&all));
    data_close(set);
    put_pictures(kit);
    ebb_str_clear(&all);
    put(kit, "t.csv", "file,label\na.png,dog\n,cat\nb.png,\nc d.png,cat\n");
    put(kit, "v.csv", "file,label\nb.png,bird\n");
    CHECK_OK(data_open(kit_section(kit, TABLE "}"), &env, &set, &kit->err), &kit->err);
    CHECK_EQ(data_describe(set)->count[DATA_TRAIN], 2);
    CHECK_OK(data_read(set, DATA_TRAIN, 1, 0, 0, (void *[]){x, &y}, &kit->err), &kit->err);
    CHECK(x[0] == 90 && y == 0);
    CHECK(strstr(ebb_str_c(&all), "t.csv:3: column 1 (file)") &&
          strstr(ebb_str_c(&all), "t.csv:4: column 2 (label)") &&
          strstr(ebb_str_c(&all), "'bird' is no class"));
    data_close(set);
    ebb_str_fini(&all);
}

/* ---- inputs from outside ---- */

TEST(picture__becomes_what_the_set_makes_of_its_own)
{
    struct kit *kit = *cmocka_state;
    char path[256];
    float x[48], own[48];
    put_pictures(kit);
    put_picture(kit, "wide.png", 7, 9, 6);
    put(kit, "t.csv", "file,label\nb.png,1\n../wide.png,0\n");
    put(kit, "v.csv", "file,label\n../wide.png,0\n");
    struct data_set *set = kit_open(
        kit,
        "{name: imagefolder, data_dir: p, train_labels: t.csv, val_labels: v.csv, resize: 5, crop: "
        "4}");
    snprintf(path, sizeof path, "%s/wide.png", kit->folder);
    CHECK_OK(data_picture(set, path, x, 48, &kit->err), &kit->err);
    CHECK_OK(data_read(set, DATA_VALIDATION, 0, 0, 0, (void *[]){own, NULL}, &kit->err), &kit->err);
    CHECK(memcmp(x, own, sizeof x) == 0);
    CHECK_EQ(data_picture(set, path, x, 47, &kit->err), EBB_EINPUT);
    data_close(set);
}

TEST(picture__of_a_set_of_small_images_is_grey_and_padded_like_them)
{
    struct kit *kit = *cmocka_state;
    uint8_t rgb[60];
    char path[256];
    float x[64], own[64];
    kit_write_idx(kit, 20);
    for (int i = 0; i < 60; i++)
        rgb[i] = (uint8_t)(7 * 4 + i / 3); /* image 4 of the set: 5 rows of 4 */
    snprintf(path, sizeof path, "%s/four.png", kit->folder);
    CHECK_OK(data_png_write(path, rgb, 4, 5, &kit->err), &kit->err);
    static const char *const more[] = {"}", ", size: 8}", ", size: 8, image_dtype: u8}"};
    for (size_t i = 0; i < 3; i++) {
        char yaml[300];
        snprintf(yaml, sizeof yaml, "%s%s", IDX_SECTION, more[i]);
        struct data_set *set = kit_open(kit, yaml);
        size_t n = i ? 64 : 20;
        uint8_t bytes[64];
        CHECK_OK(data_picture(set, path, x, n, &kit->err), &kit->err);
        CHECK_OK(data_read(set, DATA_VALIDATION, 4, 0, 0,
                           (void *[]){i == 2 ? (void *)bytes : own, NULL}, &kit->err),
                 &kit->err);
        for (size_t k = 0; i == 2 && k < n; k++)
            own[k] = (float)bytes[k] / 255.0f;
        CHECK(memcmp(x, own, n * sizeof *x) == 0);
        data_close(set);
    }
}

TEST(rows__are_normalised_by_the_training_file)
{
    struct kit *kit = *cmocka_state;
    char path[256];
    float *rows, own[2];
    uint64_t count;
    put(kit, "t.csv", "a,b,y\n1,5,no\n3,9,yes\n");
    put(kit, "n.csv", "b,c,a\n5,x,1\n9,y,3\n7,,2\n"); /* another order, a column more */
    struct data_set *set =
        kit_open(kit, "{name: csv, train_files: t.csv, target: y, normalize: standard}");
    CHECK_STR(data_class_name(set, 1), "yes");
    snprintf(path, sizeof path, "%s/n.csv", kit->folder);
    CHECK_OK(data_rows(set, path, &rows, &count, &kit->err), &kit->err);
    CHECK_EQ(count, 3);
    CHECK_OK(data_read(set, DATA_TRAIN, 1, 0, 0, (void *[]){own, NULL}, &kit->err), &kit->err);
    CHECK(memcmp(rows + 2, own, sizeof own) == 0 && rows[4] == 0 && rows[5] == 0);
    ebb_free(rows);
    put(kit, "n.csv", "a\n1\n");
    CHECK(data_rows(set, path, &rows, &count, &kit->err) != EBB_OK);
    CHECK(strstr(kit->err.message, "column 'b' of the training file is there 0 times"));
    put(kit, "n.csv", "a,b\n1,x\n");
    CHECK(data_rows(set, path, &rows, &count, &kit->err) != EBB_OK);
    CHECK(strstr(kit->err.message, "n.csv:2: column 2 (b): found 'x'"));
    data_close(set);
}

/* ---- a command ---- */

/* Sample i of a split: x = [i, i + 0.5], y = i % 3; `more` is awk that comes before the answer. */
static void put_program(struct kit *kit, const char *described, const char *more)
{
    char text[2048], path[256];
    snprintf(text, sizeof text,
             "#!/bin/sh\n"
             "while read verb split i; do\n"
             "  case $verb in\n"
             "  describe) echo '%s';;\n"
             "  read) %s\n"
             "    echo ok; printf '%%b' \"$(printf '\\\\0%%03o\\\\0\\\\0\\\\0\\\\0%%03o\\\\0' $i "
             "$((i %% 3)))\";;\n"
             "  esac\n"
             "done\n",
             described, more);
    put(kit, "source", text);
    snprintf(path, sizeof path, "%s/source", kit->folder);
    CHECK_EQ(chmod(path, 0700), 0);
}

#define DESCRIBED                                                                                  \
    "{\"train\": 50, \"validation\": 9, \"classes\": 3, \"fields\": [{\"name\": \"x\", "           \
    "\"dtype\": "                                                                                  \
    "\"i32\", \"shape\": []}, {\"name\": \"y\", \"dtype\": \"i16\", \"shape\": []}]}"
#define COMMAND "{name: command, command: [./source], timeout: 20"

TEST(command__is_asked_by_split_and_index)
{
    struct kit *kit = *cmocka_state;
    put_program(kit, DESCRIBED, "");
    struct data_set *set = kit_open(kit, COMMAND ", workers: 3}");
    const struct data_info *info = data_describe(set);
    CHECK(info->kind == DATA_CLASSES && info->classes == 3);
    CHECK(info->count[0] == 50 && info->count[1] == 9 && info->fields[0].dtype == DATA_I64);
    int64_t x, y;
    for (uint64_t i = 0; i < 50; i += 7) {
        CHECK_OK(data_read(set, DATA_TRAIN, i, 0, 0, (void *[]){&x, &y}, &kit->err), &kit->err);
        CHECK(x == (int64_t)i && y == (int64_t)(i % 3));
        CHECK_OK(data_read(set, DATA_TRAIN, i, 0, 0, (void *[]){NULL, &y}, &kit->err), &kit->err);
        CHECK_EQ(y, i % 3);
    }
    int64_t order[2][50];
    for (int workers = 0; workers < 2; workers++) { /* three programs at once, or one */
        struct data_loader_options o;
        struct data_loader *loader;
        struct data_batch b;
        data_loader_options_of(set, DATA_TRAIN, &o);
        o.batch = 10;
        o.seed = 4;
        o.workers = 3 * workers;
        CHECK_OK(data_loader_create(set, &o, &loader, &kit->err), &kit->err);
        for (int i = 0; i < 5; i++)
            CHECK_OK(
                data_loader_next(loader, (void *[]){order[workers] + 10 * i, NULL}, &b, &kit->err),
                &kit->err);
        data_loader_destroy(loader);
    }
    CHECK(memcmp(order[0], order[1], sizeof order[0]) == 0);
    int64_t sum = 0;
    for (int i = 0; i < 50; i++)
        sum += order[0][i];
    CHECK_EQ(sum, 49 * 50 / 2); /* every sample once, in our order */
    CHECK(order[0][0] != 0 || order[0][1] != 1);
    data_close(set);
}

TEST(command__that_fails_says_what_it_was_asked)
{
    struct kit *kit = *cmocka_state;
    static const struct {
        const char *more, *message;
    } rows[] = {
        {"[ $i = 4 ] && { echo 'error no such picture'; continue; }",
         "data.command: read train 4: no such picture"},
        {"[ $i = 4 ] && exit 3", "asked 'read train 4': ./source failed (exit 3)"},
        {"[ $i = 4 ] && { echo what; continue; }", "answered 'what'"},
        {"[ $i = 4 ] && { echo ok; printf x; exit 0; }", "field 'x': ./source ended after 1 of 4"},
        {"[ $i = 4 ] && i=1 && printf 'ok\\n\\1\\0\\0\\0\\7\\0' && continue",
         "train sample 4: label 7, there are 3 classes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t x, y;
        put_program(kit, DESCRIBED, rows[i].more);
        struct data_set *set = kit_open(kit, COMMAND "}");
        CHECK(data_read(set, DATA_TRAIN, 4, 0, 0, (void *[]){&x, &y}, &kit->err) != EBB_OK);
        if (!strstr(kit->err.message, rows[i].message))
            fail_msg("%s: %s", rows[i].message, kit->err.message);
        CHECK_OK(data_read(set, DATA_TRAIN, 5, 0, 0, (void *[]){&x, &y}, &kit->err), &kit->err);
        CHECK(x == 5 && y == 2); /* the next one is answered, by a new program if need be */
        data_close(set);
    }
}

TEST(command__that_describes_nonsense_is_refused)
{
    struct kit *kit = *cmocka_state;
    static const char *const rows[][2] = {
        {"hello", "describe"},
        {"{}", "answered 'describe'"},
        {"{\"train\": 0, \"fields\": []}", "allowed: {\"train\""},
        {"{\"train\": 5, \"fields\": [{\"name\": \"x\", \"dtype\": \"f16\", \"shape\": []}]}",
         "dtype 'f16'"},
        {"{\"train\": 5, \"fields\": [{\"name\": \"x\", \"dtype\": \"f32\", \"shape\": [0]}]}",
         "shape[0]: allowed: 1"},
        {"{\"train\": 5, \"fields\": [{\"name\": \"x\", \"dtype\": \"f32\", \"shape\": [2]}, "
         "{\"name\": "
         "\"y\", \"dtype\": \"i64\", \"shape\": []}]}",
         "how many are there?"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_program(kit, rows[i][0], "");
        const char *message = kit_refused(kit, COMMAND "}");
        if (!strstr(message, rows[i][1]))
            fail_msg("%s: %s", rows[i][1], message);
    }
    CHECK(strstr(kit_refused(kit, "{name: command, command: [./gone]}"), "gone is not installed"));
    put(kit, "source", "#!/bin/sh\nsleep 30\n");
    CHECK(strstr(kit_refused(kit, "{name: command, command: [./source], timeout: 0.1}"),
                 "said nothing for 0.1 s"));
}

TEST_MAIN_EACH(kit_setup, kit_teardown)
