/* Key tables: rows become fields, every mistake is one finding with its place. */
#include "base/keys.h"

#include "test.h"

enum color { RED, GREEN, BLUE };

struct record {
    const char *text, *word_text;
    int64_t count;
    double share;
    bool flag;
    enum color color;
    uint64_t bytes;
    double pair[2];
    int64_t ints[4];
    size_t int_count;
    const double *numbers;
    size_t number_count;
    const char *files[2];
    size_t file_count;
    struct {
        int64_t depth;
    } inner;
};

#define AT(field) .at = offsetof(struct record, field)
static const char *wordy(size_t i)
{
    static const char *const words[] = {"alpha", "beta", NULL};
    return words[i];
}

static const struct ebb_key rows[] = {
    {.path = "text", .kind = EBB_KEY_TEXT, AT(text)},
    {.path = "word", .kind = EBB_KEY_TEXT, .word = wordy, AT(word_text)},
    {.path = "count", .kind = EBB_KEY_INT, .bounds = "> 0, <= 10", AT(count)},
    {.path = "share",
     .kind = EBB_KEY_DOUBLE,
     .bounds = ">= 0, < 1",
     .flags = EBB_KEY_LOOSE,
     AT(share)},
    {.path = "flag", .kind = EBB_KEY_BOOL, .preset = "true", AT(flag)},
    {.path = "color",
     .kind = EBB_KEY_WORD,
     .words = "red green blue",
     .flags = EBB_KEY_ANY_CASE,
     AT(color)},
    {.path = "bytes", .kind = EBB_KEY_BYTES, .words = "unlimited", .bounds = "> 0", AT(bytes)},
    {.path = "pair", .kind = EBB_KEY_PAIR, AT(pair)},
    {.path = "ints",
     .kind = EBB_KEY_INTS,
     .bounds = "> 0",
     .room = 4,
     AT(ints),
     .count_at = offsetof(struct record, int_count)},
    {.path = "numbers",
     .kind = EBB_KEY_DOUBLES,
     AT(numbers),
     .count_at = offsetof(struct record, number_count)},
    {.path = "files",
     .kind = EBB_KEY_TEXTS,
     .room = 2,
     AT(files),
     .count_at = offsetof(struct record, file_count)},
    {.path = "inner", .kind = EBB_KEY_MAP, .flags = EBB_KEY_OPTIONAL, AT(inner)},
    {.path = "inner.depth", .kind = EBB_KEY_INT, .flags = EBB_KEY_REQUIRED, .at = 0},
};
static const struct ebb_keys table = EBB_KEYS(rows);

static struct ebb_arena arena;
static struct ebb_report report;
static struct ebb_str lines;
static uint64_t given;

static int set_up(void **state)
{
    (void)state;
    ebb_arena_init(&arena);
    ebb_str_init(&lines);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ebb_arena_fini(&arena);
    ebb_str_fini(&lines);
    return 0;
}

/* The findings as one text, each "line:column: path: message;". */
static const char *read_as(struct ebb_section section, const char *yaml, struct record *record)
{
    const struct ebb_doc_node *root = NULL;
    struct ebb_reading reading;
    struct ebb_error err = {0};
    CHECK_OK(ebb_doc_parse_yaml(&arena, "t", yaml, strlen(yaml), &root, &err), &err);
    ebb_reading_init(&reading, &arena, NULL, &report);
    given = 0;
    section.table = &table;
    section.given = &given;
    ebb_keys_read(&reading, &section, NULL, root, root, record);
    enum ebb_status status = ebb_reading_end(&reading, &err);
    CHECK_EQ(status == EBB_OK, report.errors == 0);
    ebb_str_clear(&lines);
    for (size_t i = 0; i < report.count; i++) {
        ebb_finding_format(&report.items[i], &lines);
        ebb_str_addc(&lines, ';');
    }
    return ebb_str_c(&lines);
}

static const char *read(const char *yaml, struct record *record)
{
    return read_as((struct ebb_section){0}, yaml, record);
}

TEST(read__values_of_every_kind_arrive)
{
    struct record r = {0};
    CHECK_STR(read("{text: a, word: beta, count: 3.0, share: '2e-1', color: BLUE, bytes: 48MiB, "
                   "pair: [1, 2.5], ints: [1, 2], numbers: 7, files: [x, y], inner: {depth: 4}}",
                   &r),
              "");
    CHECK_STR(r.text, "a");
    CHECK_STR(r.word_text, "beta");
    CHECK_EQ(r.count, 3);
    CHECK(r.share == 0.2 && r.flag && r.color == BLUE && r.bytes == 48u << 20);
    CHECK(r.pair[0] == 1 && r.pair[1] == 2.5);
    CHECK(r.int_count == 2 && r.ints[1] == 2 && r.number_count == 1 && r.numbers[0] == 7);
    CHECK(r.file_count == 2 && strcmp(r.files[1], "y") == 0);
    CHECK_EQ(r.inner.depth, 4);
    read("bytes: unlimited", &r);
    CHECK(r.bytes == UINT64_MAX);
}

TEST(read__a_number_with_a_zero_byte_is_none)
{
    struct record r = {.share = 0.25, .bytes = 7};
    read("{share: \"0.5\\0junk\", bytes: \"48MiB\\0junk\"}", &r);
    CHECK(r.share < 0.26 && r.bytes == 7);
}

TEST(read__what_is_absent_or_null_stays)
{
    struct record r = {.count = 5, .color = GREEN, .flag = false};
    CHECK_STR(read("{count: null, share: 0.5}", &r), "");
    CHECK(r.count == 5 && r.color == GREEN && r.flag);
    CHECK_EQ(given, 1u << 3);
}

TEST(read__every_mistake_is_one_finding)
{
    struct record r = {.count = 5};
    CHECK_STR(read("count: 11\nshare: 1\nflag: 1\ncolor: gren\nword: bet\nbytes: 0\n", &r),
              "1:8: count: found 11, allowed: an integer > 0, <= 10;"
              "2:8: share: found 1, allowed: a number >= 0, < 1;"
              "3:7: flag: found 1, allowed: true or false;"
              "4:8: color: found \"gren\", allowed: red, green, blue; nearest: green;"
              "5:7: word: found \"bet\", allowed: alpha, beta; nearest: beta;"
              "6:8: bytes: found 0, allowed: bytes with a unit (48MiB, 1.5GiB) > 0, or unlimited;");
    CHECK_EQ(r.count, 5);
    CHECK_EQ(given, 0);
    CHECK_STR(read("text: 3\nints: [1, 0]\nfiles: [a, b, c]\ninner: {}\npair: [1]\n", &r),
              "1:7: text: found 3, allowed: a string (quoted: \"3\");"
              "2:11: ints[1]: found 0, allowed: an integer > 0;"
              "3:8: files: found a list, allowed: a list of 1 to 2 strings;"
              "4:8: inner.depth: required but missing, allowed: an integer;"
              "5:7: pair: found a list, allowed: a list of two numbers;");
}

TEST(section__unknown_keys_have_a_nearest_one)
{
    struct record r = {0};
    struct ebb_section some = {.only = "text count", .also = "name", .what = "model x"};
    CHECK_STR(read_as(some, "{name: 1, cuont: 1}", &r),
              "1:11: cuont: unknown key for model x, nearest: count; allowed: text, count, name;");
    CHECK_STR(read_as(some, "{flag: true}", &r),
              "1:2: flag: unknown key for model x, allowed: text, count, name;");
    some.is_open = true;
    CHECK_STR(read_as(some, "{other: 1}", &r), "");
}

TEST(text__of_a_command_line_is_read_by_the_same_rows)
{
    struct record r = {0};
    struct ebb_str why;
    ebb_str_init(&why);
    CHECK(ebb_key_read_text(&rows[2], "7", &r, &why) && r.count == 7);
    CHECK(ebb_key_read_text(&rows[3], "0.25", &r, &why) && r.share == 0.25);
    CHECK(ebb_key_read_text(&rows[6], "1GiB", &r, &why) && r.bytes == 1u << 30);
    CHECK_EQ(why.length, 0);
    CHECK(!ebb_key_read_text(&rows[2], "many", &r, &why));
    CHECK_STR(ebb_str_c(&why), "found \"many\", allowed: an integer > 0, <= 10");
    ebb_str_fini(&why);
}

TEST(error__is_the_first_and_their_number)
{
    struct record r = {0};
    struct ebb_reading reading;
    struct ebb_error err = {0};
    const struct ebb_doc_node *root = NULL;
    CHECK_OK(ebb_doc_parse_yaml(&arena, "t", "{flag: 2, count: 0}", 19, &root, &err), &err);
    ebb_reading_init(&reading, &arena, "f.yaml", &report);
    ebb_keys_read(&reading, &(struct ebb_section){.table = &table}, NULL, root, root, &r);
    CHECK(ebb_reading_is_good(&reading, &r.share) && !ebb_reading_is_good(&reading, &r.count));
    CHECK_EQ(ebb_reading_end(&reading, &err), EBB_EINPUT);
    CHECK_STR(err.message, "f.yaml:1:8: flag: found 2, allowed: true or false (and 1 more)");
}

TEST_MAIN_EACH(set_up, tear_down)
