#include "test_arena.h"

#include <stdio.h>

#include "base/doc.h"
#include "base/heap.h"

static const struct ebb_doc_node *json(const char *text)
{
    struct ebb_error err;
    const struct ebb_doc_node *root = NULL;
    CHECK_OK(ebb_doc_parse_json(&arena, "t.json", text, strlen(text), &root, &err), &err);
    return root;
}

static void check_json(const struct ebb_doc_node *node, const char *want)
{
    struct ebb_str out;
    struct ebb_json_writer w;
    ebb_str_init(&out);
    ebb_jsonw_init(&w, &out, 0);
    ebb_doc_write_json(node, &w);
    CHECK_STR(ebb_str_c(&out), want);
    ebb_str_fini(&out);
}

TEST(json__tree_keeps_order_and_positions)
{
    const struct ebb_doc_node *root =
        json("{\"z\": 1, // note\n \"a\": [true, null,\n  \"x\\u0000y\"], \"n\": -2.50}");
    CHECK_EQ(root->kind, EBB_DOC_MAP);
    CHECK_EQ(root->count, 3);
    CHECK_STR(root->keys[0]->text, "z");
    CHECK_EQ(root->keys[1]->line, 2);
    CHECK_EQ(root->keys[1]->column, 2);
    const struct ebb_doc_node *list = ebb_doc_get(root, "a");
    CHECK_EQ(list->line, 2);
    CHECK_EQ(list->column, 7);
    CHECK_EQ(list->items[1]->kind, EBB_DOC_NULL);
    CHECK_EQ(list->items[2]->line, 3);
    CHECK_EQ(list->items[2]->length, 3);
    CHECK_EQ(memcmp(list->items[2]->text, "x\0y", 4), 0);
    CHECK_STR(ebb_doc_get(root, "n")->text, "-2.50"); /* the spelling */
    check_json(root, "{\"z\": 1, \"a\": [true, null, \"x\\u0000y\"], \"n\": -2.5}");
}

TEST(json__duplicate_keys_are_refused)
{
    struct ebb_error err;
    const struct ebb_doc_node *root = NULL;
    const char *few = "{\"a\": 1,\n \"b\": 2,\n \"a\": 3}";
    CHECK_EQ(ebb_doc_parse_json(&arena, "f", few, strlen(few), &root, &err), EBB_EINPUT);
    CHECK_STR(err.message, "f:3:2: key 'a' stands here again, first on line 1");
    /* the same through the table used for many keys; an escape hides nothing */
    struct ebb_str many;
    ebb_str_init(&many);
    ebb_str_addc(&many, '{');
    for (int i = 0; i < 5000; i++)
        ebb_str_printf(&many, "\"k%d\":%d,\n", i, i);
    ebb_str_add(&many, "\"k\\u0034242\":0}");
    CHECK_EQ(ebb_doc_parse_json(&arena, "f", many.data, many.length, &root, &err), EBB_EINPUT);
    CHECK_STR(err.message, "f:5001:1: key 'k4242' stands here again, first on line 4243");
    ebb_str_fini(&many);
    CHECK(!root);
}

TEST(readers__fall_back)
{
    const struct ebb_doc_node *map = json("{\"s\":\"x\",\"i\":3,\"d\":2.5,\"b\":true,\"n\":null}");
    CHECK_STR(ebb_doc_string(map, "s", "f"), "x");
    CHECK_STR(ebb_doc_string(map, "i", "f"), "f");
    CHECK_STR(ebb_doc_string(map, "none", "f"), "f");
    CHECK_EQ(ebb_doc_int(map, "i", 9), 3);
    CHECK_EQ(ebb_doc_int(map, "d", 9), 9);
    CHECK(ebb_doc_double(map, "i", 9) == 3 && ebb_doc_double(map, "d", 9) == 2.5);
    CHECK(ebb_doc_double(map, "s", 9) == 9);
    CHECK(ebb_doc_bool(map, "b", false) && !ebb_doc_bool(map, "n", false));
    CHECK(!ebb_doc_get(NULL, "x") && !ebb_doc_get(ebb_doc_get(map, "s"), "x"));
    CHECK_EQ(ebb_doc_int(NULL, "x", 4), 4);
    CHECK_STR(ebb_doc_kind_text(EBB_DOC_MAP), "a mapping");
}

TEST(build__append_and_set)
{
    struct ebb_doc_node *map = ebb_doc_new(&arena, EBB_DOC_MAP);
    struct ebb_doc_node *list = ebb_doc_new(&arena, EBB_DOC_LIST);
    for (int i = 0; i < 100; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i % 50);
        CHECK(ebb_doc_append(&arena, list, ebb_doc_new_int(&arena, i)));
        CHECK(ebb_doc_set(&arena, map, key, ebb_doc_new_int(&arena, i)));
    }
    CHECK_EQ(list->count, 100);
    CHECK_EQ(list->items[99]->integer, 99);
    CHECK_EQ(map->count, 50); /* set replaces */
    CHECK_EQ(ebb_doc_int(map, "k7", 0), 57);
    CHECK(!ebb_doc_append(&arena, map, list));
    CHECK(!ebb_doc_set(&arena, list, "x", map));
    CHECK(!ebb_doc_append(&arena, list, NULL));
    CHECK(!ebb_doc_append(&arena, NULL, list));
    struct ebb_doc_node *all = ebb_doc_new(&arena, EBB_DOC_MAP);
    ebb_doc_set(&arena, all, "s", ebb_doc_new_string(&arena, "t"));
    ebb_doc_set(&arena, all, "d", ebb_doc_new_double(&arena, 0.5));
    ebb_doc_set(&arena, all, "b", ebb_doc_new_bool(&arena, true));
    ebb_doc_set(&arena, all, "n", ebb_doc_new(&arena, EBB_DOC_NULL));
    check_json(all, "{\"s\": \"t\", \"d\": 0.5, \"b\": true, \"n\": null}");
}

/* A node copied by assignment and then changed leaves the original alone, parsed or built. */
TEST(build__copies_are_independent)
{
    const struct ebb_doc_node *parsed = json("{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5}");
    struct ebb_doc_node one = *parsed, two = *parsed;
    CHECK(ebb_doc_set(&arena, &one, "x", ebb_doc_new_int(&arena, 1)));
    CHECK(ebb_doc_set(&arena, &two, "y", ebb_doc_new_int(&arena, 2)));
    CHECK(ebb_doc_set(&arena, &two, "a", ebb_doc_new_int(&arena, 9)));
    struct ebb_doc_node three = one;
    CHECK(ebb_doc_set(&arena, &three, "z", ebb_doc_new_int(&arena, 3)));
    CHECK(ebb_doc_set(&arena, &three, "x", ebb_doc_new_int(&arena, 7)));
    CHECK(ebb_doc_set(&arena, &one, "w", ebb_doc_new_int(&arena, 4)));
    check_json(parsed, "{\"a\": 1, \"b\": 2, \"c\": 3, \"d\": 4, \"e\": 5}");
    check_json(&one, "{\"a\": 1, \"b\": 2, \"c\": 3, \"d\": 4, \"e\": 5, \"x\": 1, \"w\": 4}");
    check_json(&two, "{\"a\": 9, \"b\": 2, \"c\": 3, \"d\": 4, \"e\": 5, \"y\": 2}");
    check_json(&three, "{\"a\": 1, \"b\": 2, \"c\": 3, \"d\": 4, \"e\": 5, \"x\": 7, \"z\": 3}");
}

TEST(equal__by_value)
{
    static const struct {
        const char *a, *b;
        bool is_equal;
    } cases[] = {
        {"1", "1.0", true},
        {"9007199254740993", "9007199254740992.0", false},
        {"9223372036854775807", "9223372036854775808", false},
        {"-9223372036854775808", "-9223372036854775808.0", true},
        {"1.5", "1", false},
        {"{\"a\":1,\"b\":[2]}", "{\"b\":[2.0],\"a\":1}", true},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"{\"a\":1}", "{\"a\":1,\"b\":1}", false},
        {"[1,2]", "[2,1]", false},
        {"[]", "{}", false},
        {"null", "false", false},
        {"null", "null", true},
        {"true", "true", true},
        {"\"a\"", "\"a\"", true},
        {"\"1\"", "1", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_EQ(ebb_doc_equal(json(cases[i].a), json(cases[i].b)), cases[i].is_equal);
    CHECK(ebb_doc_equal(NULL, NULL) && !ebb_doc_equal(NULL, json("1")));
}

TEST(load__by_suffix)
{
    struct ebb_error err;
    const struct ebb_doc_node *root = NULL;
    CHECK_EQ(ebb_doc_load(&arena, "/nonexistent/x.json", &root, &err), EBB_EIO);
    CHECK_OK(ebb_doc_load(&arena, EBB_SOURCE_DIR "/tests/golden/base/rng.json", &root, &err), &err);
    CHECK(root->count > 0);
}

/* Fail allocation 1, 2, 3 ... until parsing succeeds: a status each time, nothing leaks. */
typedef enum ebb_status (*parse_fn)(struct ebb_arena *, const char *, const char *, size_t,
                                    const struct ebb_doc_node **, struct ebb_error *);

static void torture(parse_fn parse, const char *text, const char *want)
{
    uint64_t live = ebb_heap_live();
    enum ebb_status status = EBB_ENOMEM;
    uint64_t nth = 1;
    for (; status != EBB_OK && nth < 1000; nth++) {
        struct ebb_arena own;
        struct ebb_error err = {0};
        const struct ebb_doc_node *root = NULL;
        ebb_arena_init(&own);
        ebb_heap_fail_at(nth);
        status = parse(&own, "t", text, strlen(text), &root, &err);
        ebb_heap_fail_at(0);
        if (status == EBB_OK) {
            check_json(root, want);
        } else {
            CHECK_EQ(status, EBB_ENOMEM);
            CHECK_EQ(err.status, EBB_ENOMEM);
            CHECK(!root); /* outputs untouched */
        }
        ebb_arena_fini(&own);
        CHECK_EQ(ebb_heap_live(), live);
    }
    CHECK_EQ(status, EBB_OK);
    CHECK(nth > 2); /* it did fail first */
}

TEST(torture__json)
{
    struct ebb_str text, want;
    ebb_str_init(&text);
    ebb_str_init(&want);
    ebb_str_add(&text, "{\"e\": \"a\\nb\", \"m\": {");
    ebb_str_add(&want, "{\"e\": \"a\\nb\", \"m\": {");
    for (int i = 0; i < 40; i++) {
        ebb_str_printf(&text, "%s\"k%d\": [%d, {\"x\": 1.5}]", i ? ", " : "", i, i);
        ebb_str_printf(&want, "%s\"k%d\": [%d, {\"x\": 1.5}]", i ? ", " : "", i, i);
    }
    ebb_str_add(&text, "}}");
    ebb_str_add(&want, "}}");
    torture(ebb_doc_parse_json, ebb_str_c(&text), ebb_str_c(&want));
    ebb_str_fini(&text);
    ebb_str_fini(&want);
}

TEST(torture__yaml)
{
    struct ebb_str text, want;
    ebb_str_init(&text);
    ebb_str_init(&want);
    ebb_str_add(&text, "base: &b {x: 1, y: [2, 3]}\nother:\n  <<: *b\n  x: 5\nmany:\n");
    ebb_str_add(&want,
                "{\"base\": {\"x\": 1, \"y\": [2, 3]}, \"other\": {\"y\": [2, 3], \"x\": 5}, "
                "\"many\": {");
    for (int i = 0; i < 40; i++) {
        ebb_str_printf(&text, "  k%d: &a%d %d.5\n", i, i, i);
        ebb_str_printf(&want, "%s\"k%d\": %d.5", i ? ", " : "", i, i);
    }
    ebb_str_add(&want, "}}");
    torture(ebb_doc_parse_yaml, ebb_str_c(&text), ebb_str_c(&want));
    torture(ebb_doc_parse_yaml, "", "null");
    ebb_str_fini(&text);
    ebb_str_fini(&want);
}

TEST(torture__building)
{
    uint64_t live = ebb_heap_live();
    bool is_done = false;
    for (uint64_t nth = 1; !is_done && nth < 100; nth++) {
        struct ebb_arena own;
        ebb_arena_init(&own);
        ebb_heap_fail_at(nth);
        struct ebb_doc_node *list = ebb_doc_new(&own, EBB_DOC_LIST);
        is_done = list != NULL;
        for (int i = 0; i < 2000 && is_done; i++)
            is_done = ebb_doc_append(&own, list, ebb_doc_new_string(&own, "text"));
        ebb_heap_fail_at(0);
        ebb_arena_fini(&own);
        CHECK_EQ(ebb_heap_live(), live);
    }
    CHECK(is_done);
}

/* Pieces as "p" plain, "n" name, "u" unclosed, with their texts in brackets. */
static void check_pieces(const char *text, const char *want)
{
    struct ebb_str out = {0};
    struct ebb_piece piece;
    const char *at = text, *end = text + strlen(text);
    while (ebb_piece_next(&at, end, &piece))
        ebb_str_printf(&out, "%c[%.*s]", "pnu"[piece.kind], (int)piece.length, piece.text);
    CHECK_STR(ebb_str_c(&out), want);
    ebb_str_fini(&out);
}

TEST(pieces__names_and_what_stands_between_them)
{
    check_pieces("", "");
    check_pieces("plain", "p[plain]");
    check_pieces("${a}", "n[a]");
    check_pieces("x${a}y${b}", "p[x]n[a]p[y]n[b]");
    check_pieces("$${a}", "p[${]p[a}]");
    check_pieces("$$${a}$", "p[$]p[${]p[a}$]");
    check_pieces("${}", "n[]");
    check_pieces("a${b", "p[a]u[${]p[b]");
    check_pieces("${a${b}", "n[a${b]");
}

TEST_MAIN_EACH(arena_open, arena_close)
