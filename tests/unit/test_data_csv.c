/* Tables of values: rows, columns, classes, mistakes. */
#include "data_support.h"

#include <math.h>

static void put(struct kit *kit, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", kit->folder, name);
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* The set of {name: csv, train_files: t.csv, ...more}, or NULL with the message in kit->err. */
static struct data_set *open_csv(struct kit *kit, const char *more)
{
    char yaml[512];
    struct data_set *set = NULL;
    snprintf(yaml, sizeof yaml, "{name: csv, train_files: t.csv, %s}", more);
    struct data_env env = {.directory = kit->folder};
    enum ebb_status status = data_open(kit_section(kit, yaml), &env, &set, &kit->err);
    return status == EBB_OK ? set : NULL;
}

TEST(rows__are_those_of_rfc_4180)
{
    struct kit *kit = *cmocka_state;
    put(kit, "t.csv",
        "\xef\xbb\xbf"
        "a,\"b \"\"x\"\"\",c\r\n1,2,one\r\n\r\n3.5,-4e1,\"two, or\nmore\"\r\n5,6,\"one\"");
    struct data_set *set = open_csv(kit, "target: c");
    if (!set)
        fail_msg("%s", kit->err.message);
    const struct data_info *info = data_describe(set);
    CHECK_EQ(info->count[DATA_TRAIN], 3);
    CHECK_EQ(info->kind, DATA_CLASSES);
    CHECK_EQ(info->classes, 2);
    CHECK_EQ(info->fields[0].dims[0], 2);
    float x[2];
    int64_t y;
    void *fields[] = {x, &y};
    CHECK_OK(data_read(set, DATA_TRAIN, 1, 0, 0, fields, &kit->err), &kit->err);
    CHECK(x[0] == 3.5f && x[1] == -40.0f && y == 1);
    CHECK_OK(data_read(set, DATA_TRAIN, 2, 0, 0, fields, &kit->err), &kit->err);
    CHECK(x[0] == 5.0f && y == 0);
    data_close(set);
}

TEST(targets__are_classes_or_numbers)
{
    struct kit *kit = *cmocka_state;
    put(kit, "t.csv", "p1;p2;u;v\n1;2;0;0.5\n3;4;7;1.5\n");
    struct data_set *set = open_csv(kit, "target: u, inputs: 'p*', separator: semicolon");
    CHECK(set && data_describe(set)->classes == 8 && data_describe(set)->fields[0].dims[0] == 2);
    data_close(set);
    set = open_csv(kit, "target: u, target_kind: numbers, separator: semicolon");
    CHECK(set && data_describe(set)->kind == DATA_NUMBERS);
    CHECK_EQ(data_describe(set)->fields[0].dims[0], 3);
    data_close(set);
    set = open_csv(kit, "target: [v, u], separator: semicolon");
    float x[2], y[2];
    void *fields[] = {x, y};
    CHECK(set != NULL);
    CHECK_OK(data_read(set, DATA_TRAIN, 1, 0, 0, fields, &kit->err), &kit->err);
    CHECK(x[0] == 3 && x[1] == 4 && y[0] == 1.5f && y[1] == 7);
    data_close(set);
}

TEST(normalising__is_by_the_training_file)
{
    struct kit *kit = *cmocka_state;
    float x[2], y[1];
    void *fields[] = {x, y};
    put(kit, "t.csv", "a,b,y\n1,5,0.5\n3,5,1.5\n");
    put(kit, "v.csv", "a,b,y\n5,6,2.5\n");
    struct data_set *set = open_csv(kit, "val_files: v.csv, target: y, normalize: standard");
    CHECK(set != NULL);
    CHECK_OK(data_read(set, DATA_TRAIN, 0, 0, 0, fields, &kit->err), &kit->err);
    CHECK(x[0] == -1 && x[1] == 0); /* mean 2, deviation 1; a column that is always the same */
    CHECK_OK(data_read(set, DATA_VALIDATION, 0, 0, 0, fields, &kit->err), &kit->err);
    CHECK(x[0] == 3 && x[1] == 1 && y[0] == 2.5f);
    data_close(set);
    set = open_csv(kit, "val_files: v.csv, target: y, normalize: unit");
    CHECK(set != NULL);
    CHECK_OK(data_read(set, DATA_VALIDATION, 0, 0, 0, fields, &kit->err), &kit->err);
    CHECK(x[0] == 2);
    data_close(set);
}

TEST(mistakes__have_file_line_and_column)
{
    struct kit *kit = *cmocka_state;
    static const struct {
        const char *text, *more, *message;
    } rows[] = {
        {"a,y\n1,0\nx,1\n", "target: y", "t.csv:3: column 1 (a): found 'x', allowed: a number"},
        {"a,y\n1,0\n,1\n", "target: y", "t.csv:3: column 1 (a): found '', allowed: a number"},
        {"a,y\n1,0\n2\n", "target: y", "t.csv:3: column 1 (a): the row ends here"},
        {"a,y\n1,0,3\n", "target: y", "t.csv:2: column 2 (y): the row goes on"},
        {"a,y\n\"1,0\n", "target: y", "t.csv:2: column 1 (a): a quoted field has no end"},
        {"a,y\n\"1\"2,0\n", "target: y", "column 1 (a): text follows a quoted field"},
        {"a,y\n", "target: y", "no row of values"},
        {"", "target: y", "no row with the names"},
        {"a,y\n1,0\n", "target: z", "data.target: "},
        {"alpha,y\n1,0\n", "target: y, inputs: alpah", "no column 'alpah'; nearest: alpha"},
        {"a,y\n1,one\n", "target: y, target_kind: numbers", "has words there"},
        {"a,y\n1,-1\n", "target: y, target_kind: classes", "'-1' is no class"},
        {"y\n1\n", "target: y", "0 columns of inputs"},
        {"a,y\n1,0\n", "target: y, val_files: v.csv", "'7' is no class"},
    };
    put(kit, "v.csv", "a,y\n1,7\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(kit, "t.csv", i + 1 == sizeof rows / sizeof *rows ? "a,y\n1,six\n" : rows[i].text);
        struct data_set *set = open_csv(kit, rows[i].more);
        if (set || !strstr(kit->err.message, rows[i].message))
            fail_msg("%zu: %s", i, set ? "opened" : kit->err.message);
    }
}

TEST(out_of_memory__is_a_status)
{
    struct kit *kit = *cmocka_state;
    put(kit, "t.csv", "a,b,y\n1,2,one\n3,4,two\n");
    struct data_set *set = NULL;
    uint64_t live = ebb_heap_live();
    for (uint64_t n = 1; n < 400 && !set; n++) {
        struct ebb_arena arena = {0};
        struct ebb_error err = {0};
        static const char yaml[] = "{name: csv, train_files: t.csv, target: y, normalize: unit}";
        const struct ebb_doc_node *section;
        CHECK_OK(ebb_doc_parse_yaml(&arena, "t", yaml, strlen(yaml), &section, &err), &err);
        struct data_env env = {.directory = kit->folder};
        uint64_t before = ebb_heap_live();
        ebb_heap_fail_at(n);
        enum ebb_status status = data_open(section, &env, &set, &err);
        ebb_heap_fail_at(0);
        if (status != EBB_OK)
            CHECK_EQ(ebb_heap_live(), before);
        CHECK(status == EBB_OK || status == EBB_ENOMEM);
        data_close(set);
        ebb_arena_fini(&arena);
        CHECK_EQ(ebb_heap_live(), live);
    }
    CHECK(set != NULL);
}

TEST_MAIN_EACH(kit_setup, kit_teardown)
