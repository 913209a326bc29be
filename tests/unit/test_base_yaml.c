#include "test_arena.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/doc.h"
#include "base/heap.h"
#include "base/yaml_scan.h"

static const struct ebb_doc_node *yaml(const char *text)
{
    struct ebb_error err;
    const struct ebb_doc_node *root = NULL;
    CHECK_OK(ebb_doc_parse_yaml(&arena, "t.yaml", text, strlen(text), &root, &err), &err);
    return root;
}

static void check_yaml(const char *text, const char *want)
{
    struct ebb_str out;
    struct ebb_json_writer w;
    ebb_str_init(&out);
    ebb_jsonw_init(&w, &out, 0);
    ebb_doc_write_json(yaml(text), &w);
    CHECK_STR(ebb_str_c(&out), want);
    ebb_str_fini(&out);
}

/* Refused with this status and a message that holds `part`. */
static void check_refused(const char *text, size_t length, enum ebb_status want, const char *part)
{
    struct ebb_error err = {0};
    const struct ebb_doc_node *root = NULL;
    enum ebb_status status = ebb_doc_parse_yaml(&arena, "t", text, length, &root, &err);
    if (status != want || !strstr(err.message, part))
        fail_msg("%.60s: status %d, '%s'; wanted %d, '%s'", text, (int)status, err.message,
                 (int)want, part);
    CHECK(!root);
}

TEST(scalars__follow_the_core_schema)
{
    check_yaml("[null, Null, NULL, ~, ]", "[null, null, null, null]");
    check_yaml("a:\nb: ''\nc: nULL", "{\"a\": null, \"b\": \"\", \"c\": \"nULL\"}");
    check_yaml("[true, True, TRUE, false, False, FALSE, yes, no, on, off, y]",
               "[true, true, true, false, false, false, \"yes\", \"no\", \"on\", \"off\", \"y\"]");
    check_yaml("[0, -1, +12, 007, 0x10, 0xfF, 0o17, 9223372036854775807, -9223372036854775808]",
               "[0, -1, 12, 7, 16, 255, 15, 9223372036854775807, -9223372036854775808]");
    check_yaml("[9223372036854775808, 0x10000000000000000, -9223372036854775809]",
               "[9.223372036854776e+18, 1.8446744073709552e+19, -9.223372036854776e+18]");
    check_yaml("[1.5, -.5, +.5e1, 1., 1e3, 1E-3, 12e03]", "[1.5, -0.5, 5, 1, 1000, 0.001, 12000]");
    check_yaml("[0b1, 0o8, 0xg, 1_000, 1:30, 2001-01-01, 1e, ., +, 0x, 1.2.3]",
               "[\"0b1\", \"0o8\", \"0xg\", \"1_000\", \"1:30\", \"2001-01-01\", \"1e\", \".\", "
               "\"+\", \"0x\", \"1.2.3\"]");
    check_yaml("['1', \"true\", \"a\\tb\\u00e9\", 'it''s']",
               "[\"1\", \"true\", \"a\\tb\xc3\xa9\", \"it's\"]");
    check_yaml("a: |\n  one\n  two\nb: >-\n  one\n  two\n",
               "{\"a\": \"one\\ntwo\\n\", \"b\": \"one two\"}");
    check_yaml("a: |\n ", "{\"a\": \"\"}");
    check_yaml(">\r ", "\"\"");
    check_yaml("a: |\n  x\n ", "{\"a\": \"x\\n\"}");
    check_yaml("", "null");
    check_yaml("   ", "null");
    check_yaml("# nothing\n", "null");
    check_yaml("---\na: 1\n...\n", "{\"a\": 1}");
    check_yaml("%YAML 1.2\n---\na: yes", "{\"a\": \"yes\"}");
    CHECK_STR(yaml("1.50")->text, "1.50");
}

TEST(scalars__tags)
{
    check_yaml("[!!str 12, ! 12, !!int '12', !!float 1, !!bool \"true\", !!null '']",
               "[\"12\", \"12\", 12, 1, true, null]");
    check_yaml("!!map {a: !!seq [1]}", "{\"a\": [1]}");
    check_refused("a: !!int x", 10, EBB_EINPUT, "t:1:10: 'x' is no value for tag !!int");
    check_refused("a: !include x", 13, EBB_EINPUT, "tag '!include' is not known here");
    check_refused("a: !!binary x", 13, EBB_EINPUT, "not known here");
    check_refused("a: !!map [1]", 12, EBB_EINPUT, "does not go with");
}

TEST(scalars__refuse_infinite_numbers)
{
    check_refused("a: .inf", 7, EBB_EINPUT, "t:1:4: infinite");
    check_refused("a: -.INF", 8, EBB_EINPUT, "t:1:4: infinite");
    check_refused("a: .nan", 7, EBB_EINPUT, "t:1:4: infinite");
    check_yaml("['.inf', -.nan]", "[\".inf\", \"-.nan\"]");
    check_refused("a: -1e999", 9, EBB_EINPUT, "t:1:4: number beyond the range");
    struct ebb_str digits;
    ebb_str_init(&digits);
    for (int i = 0; i < 400; i++)
        ebb_str_addc(&digits, '9');
    check_refused(digits.data, digits.length, EBB_EINPUT, "t:1:1: number beyond the range");
    ebb_str_fini(&digits);
}

TEST(positions__of_keys_and_values)
{
    const struct ebb_doc_node *root = yaml("# top\na: 1\nlonger:\n  - \"q\"\n  -   'r'\n"
                                           "  - {k: v}\nempty:\nblock: |\n  text\n");
    static const struct {
        const char *key;
        uint32_t key_line, line, column;
    } want[] = {{"a", 2, 2, 4}, {"longer", 3, 4, 3}, {"empty", 7, 7, 1}};
    for (size_t i = 0; i < 3; i++) {
        CHECK_STR(root->keys[i]->text, want[i].key);
        CHECK_EQ(root->keys[i]->line, want[i].key_line);
        CHECK_EQ(root->keys[i]->column, 1);
        CHECK_EQ(root->items[i]->line, want[i].line);
        CHECK_EQ(root->items[i]->column, want[i].column);
    }
    const struct ebb_doc_node *list = root->items[1];
    CHECK_EQ(list->items[0]->column, 5);
    CHECK_EQ(list->items[1]->column, 7);
    CHECK_EQ(list->items[2]->column, 5);
    CHECK_EQ(list->items[2]->keys[0]->column, 6);
    CHECK_EQ(list->items[2]->items[0]->column, 9);
}

TEST(keys__are_text_and_unique)
{
    check_yaml("{1: a, true: b, ~: c, 1.50: d}",
               "{\"1\": \"a\", \"true\": \"b\", \"~\": \"c\", \"1.50\": \"d\"}");
    check_yaml("? x\n: 1\n? y\n", "{\"x\": 1, \"y\": null}");
    check_yaml("&k a: 1\nb: {*k : 2}", "{\"a\": 1, \"b\": {\"a\": 2}}");
}

TEST(keys__duplicates_are_refused)
{
    check_refused("a: 1\nb: 2\na: 3\n", 15, EBB_EINPUT, "t:3:1: key 'a' stands here again, first");
    check_refused("{a: 1, 'a': 2}", 14, EBB_EINPUT, "t:1:8: key 'a'");
    check_refused("[x]: 1", 6, EBB_EINPUT, "a key must be");
    check_refused("? {a: 1}\n: 2", 12, EBB_EINPUT, "a key must be");
    check_refused("a: &x [1]\n*x : 2", 16, EBB_EINPUT, "a key must be");
    check_refused("<<: {a: 1}\n<<: {b: 2}\n", 22, EBB_EINPUT, "key '<<'");
}

TEST(merge__explicit_keys_win_then_earlier_mappings)
{
    check_yaml("base: &b {x: 1, y: 2}\nmine:\n  y: 3\n  <<: *b\n  z: 4\n",
               "{\"base\": {\"x\": 1, \"y\": 2}, \"mine\": {\"y\": 3, \"x\": 1, \"z\": 4}}");
    check_yaml("- &a {x: 1}\n- &b {x: 2, y: 2}\n- <<: [*a, *b]\n  z: 3\n",
               "[{\"x\": 1}, {\"x\": 2, \"y\": 2}, {\"x\": 1, \"y\": 2, \"z\": 3}]");
    check_yaml("{<<: {a: 1}, b: 2}", "{\"a\": 1, \"b\": 2}");
    check_yaml("{\"<<\": {a: 1}}", "{\"<<\": {\"a\": 1}}"); /* quoted: an ordinary key */
    check_yaml("a: &a {<<: {p: 1}, q: 2}\nb: {<<: *a}", "{\"a\": {\"p\": 1, \"q\": 2}, "
                                                        "\"b\": {\"p\": 1, \"q\": 2}}");
    check_yaml("<<: []\n", "{}");
    check_refused("a: {<<: 3}", 10, EBB_EINPUT, "t:1:5: '<<' needs a mapping");
    check_refused("a: {<<: [{}, 3]}", 16, EBB_EINPUT, "'<<' needs a mapping");
    const struct ebb_doc_node *root = yaml("b: &b\n  x: 1\nm:\n  <<: *b\n");
    const struct ebb_doc_node *x = ebb_doc_get(ebb_doc_get(root, "m"), "x");
    CHECK_EQ(x->line, 2); /* where the anchor has it */
    CHECK_EQ(x->column, 6);
}

TEST(aliases__resolve)
{
    check_yaml("a: &x [1, 2]\nb: *x\nc: [*x, *x]", "{\"a\": [1, 2], \"b\": [1, 2], "
                                                   "\"c\": [[1, 2], [1, 2]]}");
    check_yaml("[&x 1, *x, &x 2, *x]", "[1, 1, 2, 2]"); /* the last definition counts */
    check_yaml("{&k a: 1, b: *k}", "{\"a\": 1, \"b\": \"a\"}");
    check_refused("a: *none", 8, EBB_EINPUT, "t:1:5: alias '*none' has no anchor before it");
    check_refused("a: &x [1, *x]", 13, EBB_EINPUT, "an alias inside the value");
    check_refused("&x {a: {b: *x}}", 15, EBB_EINPUT, "an alias inside the value");
}

static void repeat(struct ebb_str *text, const char *part, int times)
{
    for (int i = 0; i < times; i++)
        ebb_str_add(text, part);
}

/* The least CPU time of a few tries, so that neither a loaded nor a slow machine decides. */
static uint64_t parse_ns(const struct ebb_str *text, enum ebb_status expected)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        struct ebb_error err;
        const struct ebb_doc_node *root = NULL;
        uint64_t start = ebb_clock_cpu_ns();
        CHECK_EQ(ebb_doc_parse_yaml(&arena, "t", text->data, text->length, &root, &err), expected);
        uint64_t ns = ebb_clock_cpu_ns() - start;
        least = ns < least ? ns : least;
    }
    return least;
}

/* What the largest accepted document costs. */
static uint64_t limit_ns(void)
{
    struct ebb_str t;
    ebb_str_init(&t);
    repeat(&t, "- 1\n", 19999);
    uint64_t ns = parse_ns(&t, EBB_OK);
    ebb_str_fini(&t);
    return ns;
}

/* Refusing a bomb costs at most twice what the largest accepted document does; expanding one costs
 * thousands of times that. */
static void check_bomb(uint64_t limit, const struct ebb_str *text, const char *part)
{
    check_refused(text->data, text->length, EBB_ELIMIT, part);
    uint64_t ns = parse_ns(text, EBB_ELIMIT);
    if (ns > 2 * limit)
        fail_msg("%s: refused after %d us, the largest document takes %d", part, (int)(ns / 1000),
                 (int)(limit / 1000));
}

TEST(bombs__are_refused_at_once)
{
    uint64_t limit = limit_ns();
    struct ebb_str t;
    ebb_str_init(&t);
    ebb_str_add(&t, "a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (char c = 'b'; c <= 'i'; c++) {
        ebb_str_printf(&t, "%c: &%c [", c, c);
        for (int i = 0; i < 9; i++)
            ebb_str_printf(&t, "*%c%s", c - 1, i < 8 ? "," : "]\n");
    }
    check_bomb(limit, &t, "more than 20000 values");
    ebb_str_clear(&t);
    for (int i = 0; i < 20000; i++)
        ebb_str_printf(&t, "k%d: v\n", i);
    check_bomb(limit, &t, "t:1001:1: more than 1000 keys");
    ebb_str_clear(&t);
    repeat(&t, "[", 200000);
    check_bomb(limit, &t, "nested deeper than 32");
    ebb_str_clear(&t);
    repeat(&t, "{a: ", 60000);
    check_bomb(limit, &t, "nested deeper than 32");
    ebb_str_clear(&t);
    repeat(&t, "- ", 100000);
    check_bomb(limit, &t, "nested deeper than 32");
    ebb_str_clear(&t);
    ebb_str_addc(&t, '[');
    repeat(&t, "1,", 130000);
    check_bomb(limit, &t, "more than 20000 values");
    ebb_str_clear(&t);
    repeat(&t, "- 1\n", 60000);
    check_bomb(limit, &t, "more than 20000 values");
    ebb_str_clear(&t);
    repeat(&t, "#", 256 * 1024 + 1);
    check_bomb(limit, &t, "256 KiB");
    ebb_str_fini(&t);
}

TEST(limits__are_exact)
{
    struct ebb_str t;
    struct ebb_error err;
    const struct ebb_doc_node *root = NULL;
    ebb_str_init(&t);
    for (int keys = 1000; keys <= 1001; keys++) {
        ebb_str_clear(&t);
        for (int i = 0; i < keys; i++)
            ebb_str_printf(&t, "k%d:\n", i);
        CHECK_EQ(ebb_doc_parse_yaml(&arena, "t", t.data, t.length, &root, &err),
                 keys == 1000 ? EBB_OK : EBB_ELIMIT);
    }
    for (int depth = 32; depth <= 33; depth++) {
        ebb_str_clear(&t);
        repeat(&t, "[", depth);
        repeat(&t, "]", depth);
        CHECK_EQ(ebb_doc_parse_yaml(&arena, "t", t.data, t.length, &root, &err),
                 depth == 32 ? EBB_OK : EBB_ELIMIT);
    }
    for (int nodes = 19999; nodes <= 20000; nodes++) { /* and the list itself */
        ebb_str_clear(&t);
        repeat(&t, "- 1\n", nodes);
        CHECK_EQ(ebb_doc_parse_yaml(&arena, "t", t.data, t.length, &root, &err),
                 nodes == 19999 ? EBB_OK : EBB_ELIMIT);
    }
    ebb_str_clear(&t); /* 16 levels in the anchor, 16 above the alias: 32; one more is too many */
    ebb_str_add(&t, "- &a ");
    repeat(&t, "[", 16);
    repeat(&t, "]", 16);
    ebb_str_add(&t, "\n- ");
    size_t at = t.length;
    for (int above = 15; above <= 16; above++) {
        t.length = at;
        repeat(&t, "[", above);
        ebb_str_add(&t, "*a");
        repeat(&t, "]", above);
        CHECK_EQ(ebb_doc_parse_yaml(&arena, "t", t.data, t.length, &root, &err),
                 above == 15 ? EBB_OK : EBB_ELIMIT);
    }
    ebb_str_fini(&t);
}

TEST(errors__have_positions)
{
    check_refused("a: [1, 2\nb: 3\n", 14, EBB_EINPUT, "t:");
    check_refused("a: b\n c: d\n", 11, EBB_EINPUT, "t:1:4: ");
    check_refused("a: \"x\n", 6, EBB_EINPUT, "t:");
    check_refused("\ta: 1", 5, EBB_EINPUT, "t:1:");
    check_refused("a: 1\n---\nb: 2\n", 14, EBB_EINPUT, "second document");
    check_refused("a: \xff", 4, EBB_EINPUT, "t:1:4: malformed UTF-8");
    check_refused("a: 1\nb: \x01", 9, EBB_EINPUT, "t:2:4: control character");
    check_refused("a\0b", 3, EBB_EINPUT, "t:1:2: control character");
    check_refused("\xff\xfe\x61\0", 4, EBB_EINPUT, "malformed UTF-8");
}

static struct ebb_yaml_scan scan(const char *text)
{
    struct ebb_yaml_scan s;
    ebb_yaml_scan(&s, text, strlen(text), 1000, 1000);
    return s;
}

TEST(scan__counts_only_flow_collections)
{
    CHECK_EQ(scan("a: [1, [2, {b: c}]]").depth, 3);
    CHECK_EQ(scan("a: [1, [2, {b: c}]]").values, 3);
    CHECK_EQ(scan("{\"a\":[1,2],\"b\":{}}").values, 4);
    CHECK_EQ(scan("a: b[[[[, c").depth, 0); /* inside a plain scalar */
    CHECK_EQ(scan("a: '[[,' # [[\nb: \"[\\\"[,\"").depth, 0);
    CHECK_EQ(scan("a: |\n  [[[[\n  [,,,\nb: [1]").depth, 1); /* block scalar */
    CHECK_EQ(scan("- a: >-\n    [[[\n\n    [[\n  b: [x]\n").depth, 1);
    CHECK_EQ(scan("- &a [*b, !!str c]\n- !t {x: y}").depth, 1);
    CHECK_EQ(scan("--- [1, 2]").values, 1);
    CHECK_EQ(scan("- - [a]\n- ? [b]\n").depth, 1);
    CHECK_EQ(scan("[it's, don't, \"a,b\"]").values, 2);
    CHECK_EQ(scan("a: text, more, text").values, 0);
}

TEST_MAIN_EACH(arena_open, arena_close)
