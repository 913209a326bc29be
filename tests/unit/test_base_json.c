#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/json.h"
#include "base/rng.h"

/* All events of a text in one line: {K:a I:1@1:7 }. Returns the status of the last call. */
static enum ebb_status events(const char *text, size_t length, unsigned flags, struct ebb_str *out,
                              struct ebb_error *err)
{
    struct ebb_json r;
    struct ebb_json_event e;
    enum ebb_status status;
    /* An exact heap copy: a sanitizer sees every byte read beyond the end. */
    char *copy = ebb_alloc(length);
    memcpy(copy, text, length);
    ebb_str_clear(out);
    ebb_json_init(&r, "t", copy, length, flags);
    while ((status = ebb_json_next(&r, &e, err)) == EBB_OK && e.kind != EBB_JSON_END) {
        char number[40];
        ebb_str_printf(out, "%s%u:%u ", out->length ? " " : "", e.line, e.column);
        switch (e.kind) {
        case EBB_JSON_KEY:
        case EBB_JSON_STRING:
            ebb_str_add(out, e.kind == EBB_JSON_KEY ? "K=" : "S=");
            ebb_str_addn(out, e.text, e.length);
            break;
        case EBB_JSON_INT:
            ebb_str_printf(out, "I=%lld", (long long)e.integer);
            break;
        case EBB_JSON_NUMBER:
            ebb_str_printf(out, "N=%s", ebb_format_double(e.number, number, sizeof number));
            break;
        case EBB_JSON_BOOL:
            ebb_str_add(out, e.boolean ? "true" : "false");
            break;
        default:
            ebb_str_addc(out, "?{}[]?????n"[e.kind]);
        }
    }
    ebb_json_fini(&r);
    ebb_free(copy);
    return status;
}

static void check_events(const char *text, unsigned flags, const char *want)
{
    struct ebb_str out;
    struct ebb_error err = {0};
    ebb_str_init(&out);
    CHECK_OK(events(text, strlen(text), flags, &out, &err), &err);
    CHECK_STR(ebb_str_c(&out), want);
    ebb_str_fini(&out);
}

TEST(reader__gives_events_with_positions)
{
    check_events("{\"a\": [1, -2.5,\r\n  true], // note\n \"b\":null}", EBB_JSON_ONE,
                 "1:1 { 1:2 K=a 1:7 [ 1:8 I=1 1:11 N=-2.5 2:3 true 2:7 ] 3:2 K=b 3:6 n 3:10 }");
    check_events("// only comments\n\n[] // end", EBB_JSON_ONE, "3:1 [ 3:2 ]");
    check_events("\xef\xbb\xbf{}", EBB_JSON_ONE, "1:1 { 1:2 }");
    check_events("\"x\"", EBB_JSON_ONE, "1:1 S=x");
    check_events("{\"\":\"\"}", EBB_JSON_ONE, "1:1 { 1:2 K= 1:5 S= 1:7 }");
}

TEST(reader__many_values)
{
    check_events("", EBB_JSON_MANY, "");
    check_events(" \n\n", EBB_JSON_MANY, "");
    check_events("{\"a\":1}\n{\"a\":2}\n", EBB_JSON_MANY,
                 "1:1 { 1:2 K=a 1:6 I=1 1:7 } 2:1 { 2:2 K=a 2:6 I=2 2:7 }");
    check_events("1 2\n[]{}", EBB_JSON_MANY, "1:1 I=1 1:3 I=2 2:1 [ 2:2 ] 2:3 { 2:4 }");
}

TEST(reader__decodes_escapes)
{
    check_events("\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", EBB_JSON_ONE, "1:1 S=a\"\\/\b\f\n\r\tz");
    check_events("\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00!\"", EBB_JSON_ONE,
                 "1:1 S=A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80!");
    check_events("\"caf\xc3\xa9 \xf0\x9f\x98\x80 plain text of more than eight bytes\"",
                 EBB_JSON_ONE,
                 "1:1 S=caf\xc3\xa9 \xf0\x9f\x98\x80 plain text of more than eight bytes");
    struct ebb_json r;
    struct ebb_json_event e;
    ebb_json_init(&r, "t", "\"a\\u0000b\"", 10, EBB_JSON_ONE);
    CHECK_EQ(ebb_json_next(&r, &e, NULL), EBB_OK);
    CHECK_EQ(e.length, 3);
    CHECK_EQ(memcmp(e.text, "a\0b", 3), 0);
    ebb_json_fini(&r);
}

TEST(reader__plain_strings_are_slices_without_heap)
{
    static const char text[] = "{\"NAME\":\"x7690\",\"MEMORY\":\"1728\",\"A\":[1,2.5e3,true]}";
    uint64_t calls = ebb_heap_calls();
    struct ebb_json r;
    struct ebb_json_event e;
    ebb_json_init(&r, "t", text, sizeof text - 1, EBB_JSON_ONE);
    do {
        CHECK_EQ(ebb_json_next(&r, &e, NULL), EBB_OK);
        if (e.kind == EBB_JSON_KEY || e.kind == EBB_JSON_STRING)
            CHECK(e.text > text && e.text < text + sizeof text);
    } while (e.kind != EBB_JSON_END);
    ebb_json_fini(&r);
    CHECK_EQ(ebb_heap_calls(), calls);
}

TEST(reader__integers_keep_64_bits)
{
    check_events("[9223372036854775807,-9223372036854775808,9007199254740993,0,-0]", EBB_JSON_ONE,
                 "1:1 [ 1:2 I=9223372036854775807 1:22 I=-9223372036854775808 "
                 "1:43 I=9007199254740993 1:60 I=0 1:62 I=0 1:64 ]");
    check_events("[9223372036854775808,-9223372036854775809,18446744073709551617]", EBB_JSON_ONE,
                 "1:1 [ 1:2 N=9.223372036854776e+18 1:22 N=-9.223372036854776e+18 "
                 "1:43 N=1.8446744073709552e+19 1:63 ]");
    check_events("[1.0,1e2,1E+2,1e-2,0.5,123456789012345678901234567890]", EBB_JSON_ONE,
                 "1:1 [ 1:2 N=1 1:6 N=100 1:10 N=100 1:15 N=0.01 1:20 N=0.5 "
                 "1:24 N=1.2345678901234568e+29 1:54 ]");
    struct ebb_json r;
    struct ebb_json_event e;
    ebb_json_init(&r, "t", "-0", 2, EBB_JSON_ONE);
    CHECK_EQ(ebb_json_next(&r, &e, NULL), EBB_OK);
    CHECK(signbit(e.number));
    CHECK_EQ(memcmp(e.text, "-0", 2), 0);
    ebb_json_fini(&r);
}

struct bad_case {
    const char *text;
    const char *position; /* "line:column" */
};

TEST(reader__refuses_what_the_rfc_refuses)
{
    static const struct bad_case bad[] = {
        {"", "1:1"},
        {" ", "1:2"},
        {"{", "1:2"},
        {"[", "1:2"},
        {"[1", "1:3"},
        {"[1,", "1:4"},
        {"[1,]", "1:4"},
        {"[,1]", "1:2"},
        {"[1 2]", "1:4"},
        {"{\"a\"}", "1:5"},
        {"{\"a\":}", "1:6"},
        {"{\"a\":1,}", "1:8"},
        {"{\"a\" 1}", "1:6"},
        {"{a:1}", "1:2"},
        {"{'a':1}", "1:2"},
        {"{\"a\":1 \"b\":2}", "1:8"},
        {"{1:2}", "1:2"},
        {"]", "1:1"},
        {"[}", "1:2"},
        {"{]", "1:2"},
        {"[1}", "1:3"},
        {"[1]]", "1:4"},
        {"{} {}", "1:4"},
        {"1 2", "1:3"},
        {"01", "1:1"},
        {"-01", "1:1"},
        {"-", "1:1"},
        {"+1", "1:1"},
        {".5", "1:1"},
        {"1.", "1:1"},
        {"1.e5", "1:1"},
        {"1e", "1:1"},
        {"1e+", "1:1"},
        {"0x10", "1:2"},
        {"1a", "1:2"},
        {"1.5.2", "1:4"},
        {"1e400", "1:1"},
        {"-1e999999999999999999", "1:1"},
        {"NaN", "1:1"},
        {"nan", "1:1"},
        {"Infinity", "1:1"},
        {"nul", "1:1"},
        {"nulll", "1:1"},
        {"True", "1:1"},
        {"truefalse", "1:1"},
        {"\"", "1:1"},
        {"\"abc", "1:1"},
        {"\"a\\", "1:4"},
        {"\"a\\\"", "1:1"},
        {"\"\\x41\"", "1:2"},
        {"\"\\u12\"", "1:4"},
        {"\"\\u12g4\"", "1:4"},
        {"\"\\ud800\"", "1:4"},
        {"\"\\udc00\"", "1:4"},
        {"\"\\ud800\\u0041\"", "1:4"},
        {"\"\\udc00\\udc00\"", "1:4"},
        {"\"\\ud800\\n\"", "1:4"},
        {"\"a\nb\"", "1:3"},
        {"\"a\tb\"", "1:3"},
        {"\"\x80\"", "1:2"},
        {"\"\xc0\xaf\"", "1:2"},
        {"\"\xed\xa0\x80\"", "1:2"},
        {"\"\xf4\x90\x80\x80\"", "1:2"},
        {"\"\xe2\x82\"", "1:2"},
        {"\"\xff\"", "1:2"},
        {"/ comment", "1:1"},
        {"/* c */ 1", "1:1"},
        {"# c\n1", "1:1"},
        {"[1]\n\n  x", "3:3"},
        {"\v1", "1:1"},
        {"\xc2\xa0 1", "1:1"},
        {"[\n  1,\n  \"a\": 2\n]", "3:6"},
    };
    struct ebb_str out;
    ebb_str_init(&out);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ebb_error err = {0};
        char prefix[32];
        snprintf(prefix, sizeof prefix, "t:%s: ", bad[i].position);
        if (events(bad[i].text, strlen(bad[i].text), EBB_JSON_ONE, &out, &err) != EBB_EINPUT)
            fail_msg("accepted: %s", bad[i].text);
        if (strncmp(err.message, prefix, strlen(prefix)) != 0)
            fail_msg("%s: wanted %s, message: %s", bad[i].text, prefix, err.message);
    }
    ebb_str_fini(&out);
}

/* Every byte at every place of a string longer than the scanner's step of eight. */
TEST(reader__strings_byte_by_byte)
{
    for (size_t at = 0; at < 20; at++) {
        for (int c = 1; c < 256; c++) {
            char text[24] = "\"abcdefghijklmnopqrst\"";
            struct ebb_json r;
            struct ebb_json_event e;
            text[1 + at] = (char)c;
            ebb_json_init(&r, "t", text, 22, EBB_JSON_ONE);
            enum ebb_status status = ebb_json_next(&r, &e, NULL);
            if (c == '"')
                CHECK(status == EBB_OK && e.length == at);
            else if (c == '\\') /* some letters behind it make an escape */
                CHECK((status == EBB_OK) == (strchr("bfnrt\"", text[2 + at]) && at < 19));
            else
                CHECK_EQ(status, c < 0x20 || c >= 0x80 ? EBB_EINPUT : EBB_OK);
            ebb_json_fini(&r);
        }
    }
}

TEST(reader__limits_depth)
{
    char text[140];
    struct ebb_error err;
    struct ebb_str out;
    ebb_str_init(&out);
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    CHECK_OK(events(text, 128, EBB_JSON_ONE, &out, &err), &err);
    memset(text, '[', 65);
    CHECK_EQ(events(text, 65, EBB_JSON_ONE, &out, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "t:1:65: nested deeper than 64") != NULL);
    ebb_str_fini(&out);
}

TEST(skip__passes_whole_values)
{
    static const char text[] = "{\"a\":[1,{\"b\":[2,3]},4],\"c\":{\"d\":{}},\"e\":5}";
    struct ebb_json r;
    struct ebb_json_event e;
    struct ebb_error err;
    ebb_json_init(&r, "t", text, sizeof text - 1, EBB_JSON_ONE);
    CHECK_OK(ebb_json_next(&r, &e, &err), &err); /* { */
    CHECK_OK(ebb_json_next(&r, &e, &err), &err); /* key a */
    CHECK_OK(ebb_json_next(&r, &e, &err), &err); /* [ */
    CHECK_OK(ebb_json_skip(&r, &e, &err), &err);
    CHECK_OK(ebb_json_next(&r, &e, &err), &err);
    CHECK_EQ(e.kind, EBB_JSON_KEY);
    CHECK_EQ(e.text[0], 'c');
    CHECK_OK(ebb_json_skip(&r, &e, &err), &err); /* a key: skips its value */
    CHECK_OK(ebb_json_next(&r, &e, &err), &err);
    CHECK_EQ(e.text[0], 'e');
    CHECK_OK(ebb_json_next(&r, &e, &err), &err);
    CHECK_OK(ebb_json_skip(&r, &e, &err), &err); /* a scalar: nothing to skip */
    CHECK_OK(ebb_json_next(&r, &e, &err), &err);
    CHECK_EQ(e.kind, EBB_JSON_OBJECT_END);
    ebb_json_fini(&r);
}

TEST(reader__out_of_memory_in_escapes)
{
    uint64_t live = ebb_heap_live();
    struct ebb_json r;
    struct ebb_json_event e;
    ebb_json_init(&r, "t", "\"a\\nb\"", 6, EBB_JSON_ONE);
    ebb_heap_fail_at(1);
    CHECK_EQ(ebb_json_next(&r, &e, NULL), EBB_ENOMEM);
    ebb_json_fini(&r);
    ebb_heap_fail_at(0);
    CHECK_EQ(ebb_heap_live(), live);
}

static void write_sample(struct ebb_json_writer *w)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key(w, "a");
    ebb_jsonw_array(w);
    ebb_jsonw_int(w, -1);
    ebb_jsonw_uint(w, UINT64_MAX);
    ebb_jsonw_double(w, 0.1);
    ebb_jsonw_double(w, NAN);
    ebb_jsonw_bool(w, true);
    ebb_jsonw_array_end(w);
    ebb_jsonw_key(w, "b");
    ebb_jsonw_object(w);
    ebb_jsonw_object_end(w);
    ebb_jsonw_key(w, "c\"\n");
    ebb_jsonw_string(w, "q\"\\\t\x01\x7f\xc3\xa9\xff");
    ebb_jsonw_key(w, "d");
    ebb_jsonw_string(w, NULL);
    ebb_jsonw_object_end(w);
}

TEST(writer__one_line_and_indented)
{
    struct ebb_str out;
    struct ebb_json_writer w;
    ebb_str_init(&out);
    ebb_jsonw_init(&w, &out, 0);
    write_sample(&w);
    CHECK_STR(ebb_str_c(&out),
              "{\"a\": [-1, 18446744073709551615, 0.1, null, true], \"b\": {}, \"c\\\"\\n\": "
              "\"q\\\"\\\\\\t\\u0001\x7f\xc3\xa9\\ufffd\", \"d\": null}");
    ebb_str_clear(&out);
    ebb_jsonw_init(&w, &out, 2);
    write_sample(&w);
    CHECK_STR(ebb_str_c(&out), "{\n  \"a\": [\n    -1,\n    18446744073709551615,\n    0.1,\n    "
                               "null,\n    true\n  ],\n  \"b\": {},\n  \"c\\\"\\n\": "
                               "\"q\\\"\\\\\\t\\u0001\x7f\xc3\xa9\\ufffd\",\n  \"d\": null\n}");
    ebb_str_clear(&out);
    ebb_jsonw_init(&w, &out, 0);
    ebb_jsonw_array(&w);
    ebb_jsonw_int(&w, 0);
    ebb_jsonw_int(&w, 10);
    ebb_jsonw_int(&w, INT64_MAX);
    ebb_jsonw_int(&w, INT64_MIN);
    ebb_jsonw_array_end(&w);
    CHECK_STR(ebb_str_c(&out), "[0, 10, 9223372036854775807, -9223372036854775808]");
    ebb_str_fini(&out);
}

TEST(writer__values_one_after_another)
{
    struct ebb_str out;
    struct ebb_json_writer w;
    ebb_str_init(&out);
    ebb_jsonw_init(&w, &out, 0);
    for (int i = 0; i < 2; i++) {
        ebb_jsonw_object(&w);
        ebb_jsonw_key(&w, "i");
        ebb_jsonw_int(&w, i);
        ebb_jsonw_object_end(&w);
        ebb_str_addc(&out, '\n');
    }
    CHECK_STR(ebb_str_c(&out), "{\"i\": 0}\n{\"i\": 1}\n");
    ebb_str_fini(&out);
}

/* Random bytes as a string: written, read back, the same (malformed ones apart). */
TEST(writer__strings_survive_the_round_trip)
{
    uint64_t seed = 9;
    struct ebb_str out;
    ebb_str_init(&out);
    for (int round = 0; round < 2000; round++) {
        char text[64];
        size_t n = ebb_splitmix64(&seed) % sizeof text;
        for (size_t i = 0; i < n; i++)
            text[i] = (char)(ebb_splitmix64(&seed) & 0x7f);
        struct ebb_json_writer w;
        ebb_str_clear(&out);
        ebb_jsonw_init(&w, &out, 0);
        ebb_jsonw_stringn(&w, text, n);
        struct ebb_json r;
        struct ebb_json_event e;
        ebb_json_init(&r, "t", out.data, out.length, EBB_JSON_ONE);
        CHECK_EQ(ebb_json_next(&r, &e, NULL), EBB_OK);
        CHECK_EQ(e.length, n);
        CHECK(n == 0 || memcmp(e.text, text, n) == 0);
        ebb_json_fini(&r);
    }
    ebb_str_fini(&out);
}

TEST_MAIN()
